/* libc.c: the C library's names of the heap besides malloc: other orders of arguments, other
 * errors, statistics. loam/malloc.h and loam/libc.h specify them; override/libc.c gives them the C
 * library's own names.
 */
#include "loam/libc.h"
#include "api/api.h"

#include <errno.h>
#include <wchar.h>

/* ---- Aligned ---- */

/* As in glibc from 2.38 on, and C17: a bad alignment is an error, and a size that is no multiple of
 * it is not. */
void *loam_aligned_alloc(size_t align, size_t size) { return loam_malloc_aligned(size, align); }

/* glibc's memalign accepts any alignment, too. */
void *loam_memalign(size_t align, size_t size) {
    if (align > SIZE_MAX / 2 + 1) return lm_failed(EINVAL);
    size_t power = 16;
    while (power < align) power *= 2;
    LM_ASSERT(lm_is_pow2(power));
    return loam_malloc_aligned(size, power);
}

int loam_posix_memalign(void **result, size_t align, size_t size) {
    if (!lm_is_pow2(align) || align % sizeof(void *) != 0) return EINVAL;
    int before = errno;
    void *p = loam_malloc_aligned(size, align);
    if (p == NULL) {
        /* POSIX leaves errno open. glibc sets it, and programs print it. */
        errno = ENOMEM;
        return ENOMEM;
    }
    errno = before;
    LM_ASSERT((uintptr_t)p % align == 0);
    *result = p;
    return 0;
}

void *loam_valloc(size_t size) { return loam_malloc_aligned(size, lm_os_page_bytes()); }

void *loam_pvalloc(size_t size) {
    size_t page = lm_os_page_bytes();
    LM_ASSERT(lm_is_pow2(page));
    if (size > LM_REQUEST_MOST - page) { /* the sum would wrap around */
        lm_refused(size, true);
        return lm_failed(ENOMEM);
    }
    return loam_malloc_aligned(lm_align_up(size == 0 ? 1 : size, page), page);
}

/* ---- Copies ---- */

wchar_t *loam_wcsdup(const wchar_t *text) {
    return (wchar_t *)loam_memdup(text, (wcslen(text) + 1) * sizeof *text);
}

/* ---- The heap as a whole ---- */

int loam_malloc_trim(size_t pad) {
    (void)pad;
    return loam_collect() > 0;
}

/* Returns the number of blocks of the classes [first, end) that were freed and are in no thread's
 * free list of malloc. */
static size_t free_blocks(const lm_heap_stats_t *stats, unsigned first, unsigned end) {
    LM_ASSERT(first <= end && end <= LM_CLASSES);
    size_t blocks = 0;
    for (unsigned c = first; c < end; c++) blocks += stats->of_class[c].freed;
    return blocks;
}

struct mallinfo2 loam_mallinfo2(void) {
    lm_stats_t stats;
    lm_stats_take(&stats);
    /* Memory that the program has lent does not count as memory from the system, but objects count
     * wherever they are. Changes by other threads between the two reads must not make the
     * difference negative. */
    size_t pages = stats.heap.pages * sizeof(lm_page_t), arena = stats.span.arena_bytes + pages,
           large = stats.heap.large_bytes - stats.heap.lent_large_bytes;
    return (struct mallinfo2){
        .arena = arena > large ? arena - large : 0,
        .ordblks = free_blocks(&stats.heap, LM_SMALL_CLASSES, LM_CLASSES),
        .hblks = stats.heap.large_blocks,
        .hblkhd = stats.heap.large_bytes + stats.heap.large_blocks * sizeof(lm_page_t),
        .uordblks = stats.heap.small_bytes + pages,
        .fordblks = stats.heap.held_bytes + stats.span.dirty_bytes,
        .keepcost = stats.span.dirty_bytes,
    };
}

/* Returns loam_mallinfo2 in the old form, whose ints wrap around, as documented. */
struct mallinfo loam_mallinfo(void) {
    struct mallinfo2 wide = loam_mallinfo2();
    return (struct mallinfo){
        .arena = (int)wide.arena,
        .ordblks = (int)wide.ordblks,
        .hblks = (int)wide.hblks,
        .hblkhd = (int)wide.hblkhd,
        .uordblks = (int)wide.uordblks,
        .fordblks = (int)wide.fordblks,
        .keepcost = (int)wide.keepcost,
    };
}

/* Prints the last lines of glibc's malloc_stats, word for word: programs and tests look for
 * them. */
static LM_NOINLINE void print_as_glibc(void) {
    loam_stats_t stats;
    (void)loam_stats_get(&stats, sizeof stats);
    lm_print("Total (incl. mmap):");
    lm_print("system bytes     = %zu", (size_t)stats.committed.current);
    lm_print("in use bytes     = %zu", (size_t)stats.bytes_in_all.current);
    lm_print("max mmap regions = %zu", (size_t)stats.large_objects.peak);
    lm_print("max mmap bytes   = %zu", (size_t)stats.large_bytes.peak);
}

void loam_malloc_stats(void) {
    loam_stats_print();
    print_as_glibc();
}

int loam_malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    return lm_stats_write_xml(stream);
}

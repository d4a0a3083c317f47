/* libc.c: the C library's allocator, replaced: every name, with glibc's documented meaning.
 *
 * In libloam.so for LD_PRELOAD, and in loam-override.o for static linking. What calls malloc inside
 * libc comes here too, because libc calls it through the same symbols. It cannot serve namespaces made
 * by dlmopen: those have a libc of their own.
 */
#include "api/api.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

/* ---- The fast two, and their close relatives ---- */

LM_EXPORT void *malloc(size_t size) { return lm_malloc(size); }
LM_EXPORT void free(void *p) { lm_free(p); }
LM_EXPORT void cfree(void *p);
LM_EXPORT void cfree(void *p) { lm_free(p); }
LM_EXPORT void free_sized(void *p, size_t size);
LM_EXPORT void free_sized(void *p, size_t size) { loam_free_sized(p, size); }
LM_EXPORT void free_aligned_sized(void *p, size_t align, size_t size);
LM_EXPORT void free_aligned_sized(void *p, size_t align, size_t size) {
    loam_free_aligned_sized(p, align, size);
}
LM_EXPORT void *calloc(size_t count, size_t size) { return lm_libc_calloc(count, size); }
LM_EXPORT void *realloc(void *p, size_t size) { return loam_realloc(p, size); }
LM_EXPORT void *reallocarray(void *p, size_t count, size_t size) {
    return loam_reallocarray(p, count, size);
}

/* ---- Aligned ---- */

/* glibc's memalign takes any alignment and uses the next power of two. */
LM_EXPORT void *memalign(size_t align, size_t size) {
    if (align > LM_REQUEST_MOST / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t power = 16;
    while (power < align) power *= 2;
    return lm_malloc_aligned(size, power);
}

/* As glibc from 2.38 on, and C17: a bad alignment is an error, a size that is no multiple is not. */
LM_EXPORT void *aligned_alloc(size_t align, size_t size) {
    return loam_malloc_aligned(size, align);
}

LM_EXPORT int posix_memalign(void **result, size_t align, size_t size) {
    if (!lm_is_pow2(align) || align % sizeof(void *) != 0) return EINVAL;
    int before = errno; /* POSIX: the error is returned, errno is nobody's business */
    void *p = lm_malloc_aligned(size, align);
    errno = before;
    if (p == NULL) return ENOMEM;
    *result = p;
    return 0;
}

LM_EXPORT void *valloc(size_t size) { return lm_malloc_aligned(size, lm_os_page_bytes()); }

LM_EXPORT void *pvalloc(size_t size) {
    size_t page = lm_os_page_bytes();
    if (size > LM_REQUEST_MOST - page) {
        errno = ENOMEM;
        return NULL;
    }
    return lm_malloc_aligned(lm_align_up(size == 0 ? 1 : size, page), page);
}

/* ---- Sizes and statistics ---- */

LM_EXPORT size_t malloc_usable_size(void *p) { return loam_usable_size(p); }

/* pad, the bytes to keep, has no meaning where free memory is not at the end of anything. */
LM_EXPORT int malloc_trim(size_t pad) {
    (void)pad;
    return loam_collect() > 0;
}

/* glibc's parameters describe glibc's arenas: accepted, so that programs that set them go on, and
 * without effect. */
LM_EXPORT int mallopt(int parameter, int value) {
    (void)value;
    switch (parameter) {
    case M_MXFAST:
    case M_TRIM_THRESHOLD:
    case M_TOP_PAD:
    case M_MMAP_THRESHOLD:
    case M_MMAP_MAX:
    case M_CHECK_ACTION:
    case M_PERTURB:
    case M_ARENA_TEST:
    case M_ARENA_MAX: return 1;
    default: return 0;
    }
}

LM_EXPORT struct mallinfo2 mallinfo2(void) {
    lm_stats_t stats;
    lm_stats_take(&stats);
    /* Memory that the program has lent is not loam's of the system, but objects are objects wherever they lie. What
     * others do between the two looks must not make it negative. */
    size_t arena = stats.span.arena_bytes,
           large = stats.heap.large_bytes - stats.heap.lent_large_bytes;
    return (struct mallinfo2){
        .arena = arena > large ? arena - large : 0,
        .ordblks = stats.span.clean_bytes + stats.span.dirty_bytes > 0,
        .hblks = stats.heap.large_blocks,
        .hblkhd = stats.heap.large_bytes,
        .uordblks = stats.heap.small_bytes,
        .fordblks = stats.heap.held_bytes + stats.span.dirty_bytes,
        .keepcost = stats.span.dirty_bytes,
    };
}

/* The old form: its ints wrap, as documented. */
LM_EXPORT struct mallinfo mallinfo(void) {
    struct mallinfo2 wide = mallinfo2();
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

LM_EXPORT void malloc_stats(void) { loam_stats_print(); }

LM_EXPORT int malloc_info(int options, FILE *stream) {
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    return lm_stats_write_xml(stream);
}

/* ---- Names by which some programs reach past malloc ---- */

/* In assembly, because the compiler wants an alias to repeat every attribute of libc's headers. */
#define ALSO(name, target) __asm__(".globl " #name "\n.set " #name ", " #target)

ALSO(__libc_malloc, malloc);
ALSO(__libc_free, free);
ALSO(__libc_cfree, free);
ALSO(__libc_calloc, calloc);
ALSO(__libc_realloc, realloc);
ALSO(__libc_reallocarray, reallocarray);
ALSO(__libc_memalign, memalign);
ALSO(__libc_valloc, valloc);
ALSO(__libc_pvalloc, pvalloc);
ALSO(__posix_memalign, posix_memalign);

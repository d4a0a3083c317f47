/* pages.c: the sources `pages` and `heap` (loam/source.h), both of which take memory from loam's
 * own heap.
 *
 * Every multiple of 4 KiB up to 64 KiB is a size class, whose blocks lie at multiples of the
 * largest power of two that divides it (lm_class_aligned). So a chunk of that size is a block
 * without waste, the calling thread's lists are its page cache, a chunk that another thread puts
 * back is a remote free of the heap, and unused memory is purged with the rest. A larger chunk is a
 * large object, with huge pages where they pay. In checked builds chunks of `pages` are blocks
 * without the trailer of malloc's objects, because the allocators over them have their own checks.
 * While a tool watches, chunks that both sources took back go to quarantine first (quarantine.c).
 */
#include "fheap/fheap.h"
#include "heap/heap.h"
#include "hosted/quarantine.h"

#include "family/family.h"
#include "loam/malloc.h"

#define PAGES_PAGE_BYTES ((size_t)4096)
#define PAGES_HUGE_BYTES (2 * LM_MIB)
/* Minimum bytes of a chunk that may have huge pages. */
#define HUGE_LEAST (2 * PAGES_HUGE_BYTES)

/* ---- The chunks that this thread put back last ----
 *
 *   last[i]   4 KiB << i: chunk ──> chunk ──> NULL, by their first words; 64 KiB of each at most
 *
 * A heap's lists hand out a page's blocks in turn. So allocators that live for microseconds would
 * get another chunk each time, none of which is in the processor's nearest cache. Here the chunk
 * that was put back last is got first. The chunks go to the heap when the thread ends. Debug builds
 * do without these lists, because the heap finds more mistakes. */

enum { LAST_SIZES = 5, LAST_BYTES = 64 * 1024 };

typedef struct last_chunks {
    lm_block_t *first[LAST_SIZES];
    uint8_t room[LAST_SIZES];
    bool known; /* a hook runs when the thread ends */
} last_chunks_t;

static LM_TLS last_chunks_t pages_last;

static bool pages_thread_ended(void *value, unsigned rounds) {
    last_chunks_t *of = (last_chunks_t *)value;
    (void)rounds;
    for (unsigned i = 0; i < LAST_SIZES; i++) {
        for (lm_block_t *chunk = of->first[i], *next; chunk != NULL; chunk = next) {
            next = chunk->next;
            lm_block_give_back(chunk);
        }
    }
    *of = (last_chunks_t){0};
    return false;
}

/* Returns whether a hook frees what is put from now on when this thread ends. A thread without a
 * heap gets none: giving chunks to the heap then would make the thread a heap, too late for that
 * heap to end as others do. */
static LM_NOINLINE bool begin_last(void) {
    if (lm_heap_self == &lm_heap_empty) return false;
    if (!lm_thread_on_exit(pages_thread_ended, &pages_last)) return false;
    for (unsigned i = 0; i < LAST_SIZES; i++)
        pages_last.room[i] = (uint8_t)(LAST_BYTES / (PAGES_PAGE_BYTES << i));
    return pages_last.known = true;
}

/* Returns the list for chunks of `bytes` bytes; LAST_SIZES: there is none. */
LM_INLINE unsigned last_of(size_t bytes) {
    size_t pages = bytes / PAGES_PAGE_BYTES;
    bool kept =
        pages - 1 < LAST_BYTES / PAGES_PAGE_BYTES && (pages & (pages - 1)) == 0 && !LOAM_DEBUG;
    return kept ? lm_lowest_bit(pages) : LAST_SIZES;
}

/* Tells tools that the heap has written to the chunk, and that other threads may carve objects from
 * it. */
static void show_threads(const void *chunk, size_t bytes) {
    lm_tool_take(chunk, bytes);
    lm_tool_give(chunk, bytes);
}

static LM_NOINLINE void *get_from_heap(size_t bytes, size_t align, size_t *got) {
    size_t unit = align <= PAGES_PAGE_BYTES ? PAGES_PAGE_BYTES
                  : align < LM_SLICE_BYTES  ? align
                                            : LM_SLICE_BYTES;
    /* Larger requests are refused below. */
    if (bytes <= LM_REQUEST_MOST - unit) bytes = lm_align_up(bytes, unit);
    /* Huge pages reach from its first byte on. */
    if (bytes >= HUGE_LEAST && align < PAGES_HUGE_BYTES) align = PAGES_HUGE_BYTES;
    /* The block must last: the thread keeps chunks that are put back (pages_put), and they must not
     * go with the heap that its malloc uses now. */
    void *chunk;
    do {
        chunk = lm_block_alloc_lasting(bytes, align <= unit ? 1 : align);
    } while (LM_UNLIKELY(chunk == NULL) && lm_tool_watches() && lm_chunks_release());
    if (chunk == NULL) return NULL;
    show_threads(chunk, bytes);
    *got = bytes;
    return chunk;
}

static void *pages_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    (void)source;
    size_t whole = bytes <= LAST_BYTES ? lm_align_up(bytes, PAGES_PAGE_BYTES) : 0;
    unsigned i = last_of(whole);
    /* Chunks of these sizes lie at multiples of their size. */
    if (LM_UNLIKELY(i == LAST_SIZES || align > whole || pages_last.first[i] == NULL))
        return get_from_heap(bytes, align, got);
    lm_block_t *block = pages_last.first[i];
    pages_last.first[i] = block->next;
    pages_last.room[i]++;
    *got = whole;
    return block;
}

/* Tells Memcheck that the secure build may read memory that is freed. */
LM_INLINE void will_be_read(const void *chunk, size_t bytes) {
    if (LM_SECURE) lm_tool_show(chunk, bytes);
/* A tool reports what a program does to freed memory, and lets it go on. */
#if LM_SECURE
    /* Relaxed: an independent word. */
    if (lm_tool_watches()) lm_store_relaxed(&lm_span_shuts, false);
#endif
}

static void give_pages(void *chunk, size_t got) {
    will_be_read(chunk, got);
    lm_block_give_back(chunk);
}

/* There is no room in the lists before the thread's first call, and while a tool watches: hidden
 * memory has no links. */
static LM_NOINLINE void put_without_room(loam_source *source, void *chunk, size_t got) {
    if (lm_tool_watches()) {
        lm_tool_give(chunk, got);
        if (!lm_chunk_hold(chunk, got, give_pages)) give_pages(chunk, got);
    } else if (!pages_last.known && last_of(got) < LAST_SIZES && begin_last()) {
        source->put(source, chunk, got);
    } else {
        lm_block_give_back(chunk);
    }
}

static void pages_put(loam_source *source, void *chunk, size_t got) {
    unsigned i = last_of(got);
    if (LM_UNLIKELY(i == LAST_SIZES || pages_last.room[i] == 0)) {
        put_without_room(source, chunk, got);
        return;
    }
    lm_block_t *block = (lm_block_t *)chunk;
    block->next = pages_last.first[i];
    pages_last.first[i] = block;
    pages_last.room[i]--;
}

/* Returns the bytes that are ready from `at` on, in whole pages around [at, at+bytes). If the next
 * page is in memory although no request touched it, both are parts of a huge page, and all of that
 * is ready. Without the system call (Linux before 5.14) there is nothing to gain. */
static size_t pages_ready(loam_source *source, void *at, size_t bytes) {
    (void)source;
    size_t page = lm_os_page_bytes();
    uintptr_t from = lm_align_down((uintptr_t)at, page),
              to = lm_align_up((uintptr_t)at + bytes, page);
    if (!lm_os_populate((void *)from, to - from)) return 0;
    if (to % PAGES_HUGE_BYTES != 0 && lm_os_resident((void *)to))
        to = lm_align_up(to, PAGES_HUGE_BYTES);
    return to - (uintptr_t)at;
}

LM_INLINE void *heap_get_once(size_t bytes, size_t align) {
/* Through the public functions, which are metered; so does heap_put. */
#if LOAM_METER
    return align <= 16 && bytes % 16 == 0 ? loam_malloc(bytes) : loam_malloc_aligned(bytes, align);
#else
    /* An object whose size is no multiple of 16 need not be aligned to 16
     * (LOAM_GUARD_SAMPLING_EXACT). */
    return align <= 16 && bytes % 16 == 0 ? lm_malloc(bytes) : lm_malloc_aligned(bytes, align);
#endif
}

static void *heap_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    (void)source;
    void *chunk = heap_get_once(bytes, align);
    while (LM_UNLIKELY(chunk == NULL) && lm_tool_watches() && lm_chunks_release())
        chunk = heap_get_once(bytes, align);
    if (chunk == NULL) return NULL;
    *got = lm_usable_size(chunk);
    LM_ASSERT(*got >= bytes);
    show_threads(chunk, *got);
    return chunk;
}

/* Calls the public function, so that a program that links this file also links the constructor in
 * that function's file, which reads the options and starts the heap. */
static void give_to_heap(void *chunk, size_t got) {
    will_be_read(chunk, got);
    loam_free(chunk);
}

static void heap_put(loam_source *source, void *chunk, size_t got) {
    (void)source;
    lm_tool_give(chunk, got);
    /* A heap of the program may end before the quarantine releases its memory. */
    if (LM_UNLIKELY(lm_tool_watches()) && lm_fheap_of(chunk) == NULL &&
        lm_chunk_hold(chunk, got, give_to_heap))
        return;
    give_to_heap(chunk, got);
}

static loam_source pages_source = {.get = pages_get,
                                   .put = pages_put,
                                   .ready = pages_ready,
                                   .name = "pages",
                                   .flags = LOAM_SOURCE_ALIGNED | LOAM_SOURCE_THREADS};
static loam_source heap = {
    .get = heap_get, .put = heap_put, .name = "heap", .flags = LOAM_SOURCE_THREADS};

loam_source *loam_pages(void) { return &pages_source; }
loam_source *loam_heap_source(void) { return &heap; }

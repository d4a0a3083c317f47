/* pages.c: the sources `pages` and `heap` (loam/source.h), both loam's own heap.
 *
 * Every multiple of 4 KiB up to 64 KiB is a size class, whose blocks lie at multiples of the largest power of two
 * that divides it (lm_class_aligned): so a chunk of that size is a block without waste, the calling thread's lists
 * are the page cache per thread, a chunk that another thread puts goes by the heap's remote frees, and unused
 * memory is purged with the rest. A chunk above that is a large object: huge pages where they pay. In checked
 * builds chunks of `pages` are blocks without the trailer of malloc's objects: the allocators over them have
 * checks of their own.
 */
#include "heap/heap.h"

#include "family/family.h"

#define PAGE_BYTES ((size_t)4096)

/* Who links this file and no other door to the heap has the heap started all the same; after malloc.c's
 * constructor (101), where there is one, because that reads the options first. */
__attribute__((constructor(102))) static void boot(void) { lm_heap_boot(); }

static void *pages_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    (void)source;
    size_t unit = align <= PAGE_BYTES      ? PAGE_BYTES
                  : align < LM_SLICE_BYTES ? align
                                           : LM_SLICE_BYTES;
    if (bytes <= LM_REQUEST_MOST - unit) bytes = lm_align_up(bytes, unit); /* else refused below */
    void *chunk =
        LM_LIKELY(align <= unit) ? lm_block_alloc(bytes) : lm_malloc_aligned(bytes, align);
    if (LM_LIKELY(chunk != NULL)) *got = bytes;
    return chunk;
}

static void pages_put(loam_source *source, void *chunk, size_t got) {
    (void)source, (void)got;
    lm_block_free(chunk);
}

static void *heap_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    (void)source;
    void *chunk = align <= 16 ? lm_malloc(bytes) : lm_malloc_aligned(bytes, align);
    if (chunk != NULL) *got = lm_usable_size(chunk);
    return chunk;
}

static void heap_put(loam_source *source, void *chunk, size_t got) {
    (void)source, (void)got;
    lm_free(chunk);
}

static loam_source pages = {.get = pages_get,
                            .put = pages_put,
                            .name = "pages",
                            .flags = LOAM_SOURCE_ALIGNED | LOAM_SOURCE_THREADS};
static loam_source heap = {
    .get = heap_get, .put = heap_put, .name = "heap", .flags = LOAM_SOURCE_THREADS};

loam_source *loam_pages(void) { return &pages; }
loam_source *loam_heap(void) { return &heap; }

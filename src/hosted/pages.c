/* pages.c: the sources `pages` and `heap` (loam/source.h), both loam's own heap.
 *
 * A chunk of up to 64 KiB is a block of a size class: the calling thread's lists are the page cache per
 * thread, a chunk that another thread puts goes by the heap's remote frees, and unused memory is purged with
 * the rest. A chunk above that is a large object: huge pages where they pay.
 */
#include "heap/heap.h"

#include "family/family.h"

static void *pages_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    (void)source;
    void *chunk = align <= 16 ? lm_block_alloc(bytes) : lm_malloc_aligned(bytes, align);
    if (chunk != NULL) *got = lm_usable_size(chunk);
    return chunk;
}

static void pages_put(loam_source *source, void *chunk, size_t got) {
    (void)source, (void)got;
    lm_block_free(chunk);
}

static loam_source pages = {pages_get, pages_put, "pages",
                            LOAM_SOURCE_ALIGNED | LOAM_SOURCE_THREADS};

loam_source *loam_pages(void) { return &pages; }

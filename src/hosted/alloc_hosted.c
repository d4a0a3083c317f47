/* alloc_hosted.c: the tables of functions behind handles (loam/alloc.h) for allocators that need an
 * operating system: shared pools, and malloc and first-class heaps through their public functions.
 */
/* The calls below are made on behalf of the program, so they are metered. */
#undef LOAM_METER_HOOKS
#define LOAM_METER_HOOKS 1
#include "family/family.h"

#include "loam/alloc.h"
#include "loam/heap.h"
#include "loam/malloc.h"
#include "loam/pool.h"

/* ---- Shared pools ---- */

static bool alloc_hosted_is_for_pool(const loam_shared_pool *pool, size_t bytes, size_t align) {
    return bytes <= pool->pool.block_bytes && align <= pool->pool.align && lm_is_pow2(align);
}

static void *alloc_hosted_pool_alloc(void *self, size_t bytes, size_t align, const char *file,
                                     unsigned line) {
    loam_shared_pool *pool = (loam_shared_pool *)self;
    return alloc_hosted_is_for_pool(pool, bytes, align)
               ? loam_shared_pool_alloc_at(pool, file, line)
               : NULL;
}
static void *alloc_hosted_pool_realloc(void *self, void *p, size_t old_bytes, size_t bytes,
                                       size_t align, const char *file, unsigned line) {
    (void)old_bytes;
    if (p == NULL) return alloc_hosted_pool_alloc(self, bytes, align, file, line);
    return alloc_hosted_is_for_pool((const loam_shared_pool *)self, bytes, align) ? p : NULL;
}
static void alloc_hosted_pool_free(void *self, void *p, size_t bytes, size_t align,
                                   const char *file, unsigned line) {
    (void)bytes, (void)align;
    loam_shared_pool_free_at((loam_shared_pool *)self, p, file, line);
}
const loam_alloc_functions loam_alloc_of_shared_pool = {
    alloc_hosted_pool_alloc, alloc_hosted_pool_realloc, alloc_hosted_pool_free, "pool"};

/* ---- The heap ---- */

enum { HEAP_ALIGN = 16 };

static void *heap_alloc(void *self, size_t bytes, size_t align, const char *file, unsigned line) {
    loam_heap *heap = (loam_heap *)self;
    (void)file, (void)line;
    if (LM_LIKELY(lm_is_pow2(align) && align <= HEAP_ALIGN))
        return heap == NULL ? loam_malloc(bytes) : loam_heap_malloc(heap, bytes);
    return heap == NULL ? loam_malloc_aligned(bytes, align)
                        : loam_heap_malloc_aligned(heap, bytes, align);
}
static void heap_free(void *self, void *p, size_t bytes, size_t align, const char *file,
                      unsigned line) {
    (void)self, (void)bytes, (void)align, (void)file, (void)line;
    loam_free(p);
}
static void *heap_realloc(void *self, void *p, size_t old_bytes, size_t bytes, size_t align,
                          const char *file, unsigned line) {
    loam_heap *heap = (loam_heap *)self;
    if (p == NULL || !lm_is_pow2(align)) return heap_alloc(self, bytes, align, file, line);
    size_t least = bytes != 0 ? bytes : 1;
    if (align <= HEAP_ALIGN)
        return heap == NULL ? loam_realloc(p, least) : loam_heap_realloc(heap, p, least);
    /* realloc takes no alignment. */
    void *other = heap_alloc(self, bytes, align, file, line);
    if (other == NULL) return NULL;
    memcpy(other, p, old_bytes < bytes ? old_bytes : bytes);
    loam_free(p);
    return other;
}
const loam_alloc_functions loam_alloc_of_heap = {heap_alloc, heap_realloc, heap_free, "heap"};

/* alloc.c: the tables of functions behind handles (loam/alloc.h) for allocators that need no
 * operating system.
 *
 * Each function is the allocator's own, adapted to the rules of handles: an alignment may be any
 * number, and a request for 0 bytes yields an object.
 */
/* The calls below are made on behalf of the program, so they are metered. */
#undef LOAM_METER_HOOKS
#define LOAM_METER_HOOKS 1
#include "family/family.h"

#include "loam/alloc.h"
#include "loam/blocks.h"
#include "loam/fifo.h"
#include "loam/pool.h"
#include "loam/region.h"
#include "loam/ring.h"
#include "loam/stack.h"

void loam_alloc_free_from_none(void *p, const char *file, unsigned line) {
    if (p == NULL) return;
    lm_misuse("free of %p by a handle to no allocator (%s:%u, ", p, file != NULL ? file : "?",
              line);
}

/* ---- Regions ---- */

/* Regions, FIFOs, stacks and rings have an inline path for alignments that the compiler knows. */
static void *region_alloc(void *self, size_t bytes, size_t align, const char *file, unsigned line) {
    loam_region *region = (loam_region *)self;
    switch (align) {
    case 16: return loam_region_alloc_aligned_at(region, bytes, 16, file, line);
    case 8: return loam_region_alloc_aligned_at(region, bytes, 8, file, line);
    case 4: return loam_region_alloc_aligned_at(region, bytes, 4, file, line);
    case 1: return loam_region_alloc_aligned_at(region, bytes, 1, file, line);
    default: return loam_region_alloc_aligned_at(region, bytes, align, file, line);
    }
}
static void *region_realloc(void *self, void *p, size_t old_bytes, size_t bytes, size_t align,
                            const char *file, unsigned line) {
    if (!lm_is_pow2(align)) return NULL;
    return loam_region_realloc_aligned_at((loam_region *)self, p, old_bytes, bytes, align, file,
                                          line);
}
static void region_free(void *self, void *p, size_t bytes, size_t align, const char *file,
                        unsigned line) {
    loam_region_free_aligned_at((loam_region *)self, p, bytes, align, file, line);
}
const loam_alloc_functions loam_alloc_of_region = {region_alloc, region_realloc, region_free,
                                                   "region"};

/* ---- Pools ---- */

static bool alloc_is_for_pool(const loam_pool *pool, size_t bytes, size_t align) {
    return bytes <= pool->block_bytes && align <= pool->align && lm_is_pow2(align);
}

static void *alloc_pool_alloc(void *self, size_t bytes, size_t align, const char *file,
                              unsigned line) {
    loam_pool *pool = (loam_pool *)self;
    return alloc_is_for_pool(pool, bytes, align) ? loam_pool_alloc_at(pool, file, line) : NULL;
}
static void *alloc_pool_realloc(void *self, void *p, size_t old_bytes, size_t bytes, size_t align,
                                const char *file, unsigned line) {
    (void)old_bytes;
    if (p == NULL) return alloc_pool_alloc(self, bytes, align, file, line);
    return alloc_is_for_pool((const loam_pool *)self, bytes, align) ? p : NULL;
}
static void alloc_pool_free(void *self, void *p, size_t bytes, size_t align, const char *file,
                            unsigned line) {
    (void)bytes, (void)align;
    loam_pool_free_at((loam_pool *)self, p, file, line);
}
const loam_alloc_functions loam_alloc_of_pool = {alloc_pool_alloc, alloc_pool_realloc,
                                                 alloc_pool_free, "pool"};

/* ---- Blocks ---- */

enum { BLOCKS_ALIGN = 16 };

static void *blocks_alloc(void *self, size_t bytes, size_t align, const char *file, unsigned line) {
    loam_blocks *blocks = (loam_blocks *)self;
    if (!lm_is_pow2(align)) return NULL;
    if (LM_LIKELY(align < BLOCKS_ALIGN || (align == BLOCKS_ALIGN && bytes > 8)))
        return loam_blocks_alloc_at(blocks, bytes, file, line);
    return loam_blocks_alloc_aligned_at(blocks, bytes, align, file, line);
}
static void alloc_blocks_free(void *self, void *p, size_t bytes, size_t align, const char *file,
                              unsigned line) {
    (void)bytes, (void)align;
    loam_blocks_free_at((loam_blocks *)self, p, file, line);
}
static void *blocks_realloc(void *self, void *p, size_t old_bytes, size_t bytes, size_t align,
                            const char *file, unsigned line) {
    if (p == NULL || !lm_is_pow2(align)) return blocks_alloc(self, bytes, align, file, line);
    if (align == BLOCKS_ALIGN && bytes <= 8) bytes = 9;
    if (align <= BLOCKS_ALIGN)
        return loam_blocks_realloc_at((loam_blocks *)self, p, bytes != 0 ? bytes : 1, file, line);
    /* The realloc of blocks takes no alignment. */
    void *other = blocks_alloc(self, bytes, align, file, line);
    if (other == NULL) return NULL;
    memcpy(other, p, old_bytes < bytes ? old_bytes : bytes);
    alloc_blocks_free(self, p, old_bytes, align, file, line);
    return other;
}
const loam_alloc_functions loam_alloc_of_blocks = {blocks_alloc, blocks_realloc, alloc_blocks_free,
                                                   "blocks"};

/* ---- FIFOs ---- */

static void *alloc_fifo_alloc(void *self, size_t bytes, size_t align, const char *file,
                              unsigned line) {
    loam_fifo *fifo = (loam_fifo *)self;
    switch (align) {
    case 16: return loam_fifo_alloc_aligned_at(fifo, bytes, 16, file, line);
    case 8: return loam_fifo_alloc_aligned_at(fifo, bytes, 8, file, line);
    case 4: return loam_fifo_alloc_aligned_at(fifo, bytes, 4, file, line);
    case 1: return loam_fifo_alloc_aligned_at(fifo, bytes, 1, file, line);
    default: return loam_fifo_alloc_aligned_at(fifo, bytes, align, file, line);
    }
}
static void *fifo_realloc(void *self, void *p, size_t old_bytes, size_t bytes, size_t align,
                          const char *file, unsigned line) {
    if (!lm_is_pow2(align)) return NULL;
    return loam_fifo_realloc_aligned_at((loam_fifo *)self, p, old_bytes, bytes, align, file, line);
}
static void fifo_free(void *self, void *p, size_t bytes, size_t align, const char *file,
                      unsigned line) {
    (void)bytes, (void)align;
    loam_fifo_free_at((loam_fifo *)self, p, file, line);
}
const loam_alloc_functions loam_alloc_of_fifo = {alloc_fifo_alloc, fifo_realloc, fifo_free, "fifo"};

/* ---- Stacks and rings ---- */

static void *stack_alloc(void *self, size_t bytes, size_t align, const char *file, unsigned line) {
    loam_stack *stack = (loam_stack *)self;
    switch (align) {
    case 16: return loam_stack_alloc_aligned_at(stack, bytes, 16, file, line);
    case 8: return loam_stack_alloc_aligned_at(stack, bytes, 8, file, line);
    case 4: return loam_stack_alloc_aligned_at(stack, bytes, 4, file, line);
    case 1: return loam_stack_alloc_aligned_at(stack, bytes, 1, file, line);
    default: return loam_stack_alloc_aligned_at(stack, bytes, align, file, line);
    }
}
static void *stack_realloc(void *self, void *p, size_t old_bytes, size_t bytes, size_t align,
                           const char *file, unsigned line) {
    if (!lm_is_pow2(align)) return NULL;
    if (p == NULL) return stack_alloc(self, bytes, align, file, line);
    return loam_stack_realloc_aligned_at((loam_stack *)self, p, old_bytes, bytes, align, file,
                                         line);
}
static void stack_free(void *self, void *p, size_t bytes, size_t align, const char *file,
                       unsigned line) {
    (void)align;
    loam_stack_free_at((loam_stack *)self, p, bytes, file, line);
}
const loam_alloc_functions loam_alloc_of_stack = {stack_alloc, stack_realloc, stack_free, "stack"};

static void *ring_alloc(void *self, size_t bytes, size_t align, const char *file, unsigned line) {
    loam_ring *ring = (loam_ring *)self;
    switch (align) {
    case 16: return loam_ring_alloc_aligned_at(ring, bytes, 16, file, line);
    case 8: return loam_ring_alloc_aligned_at(ring, bytes, 8, file, line);
    case 4: return loam_ring_alloc_aligned_at(ring, bytes, 4, file, line);
    case 1: return loam_ring_alloc_aligned_at(ring, bytes, 1, file, line);
    default: return loam_ring_alloc_aligned_at(ring, bytes, align, file, line);
    }
}
static void ring_free(void *self, void *p, size_t bytes, size_t align, const char *file,
                      unsigned line) {
    (void)align;
    loam_ring_free_at((loam_ring *)self, p, bytes, file, line);
}
static void *ring_realloc(void *self, void *p, size_t old_bytes, size_t bytes, size_t align,
                          const char *file, unsigned line) {
    loam_ring *ring = (loam_ring *)self;
    if (p == NULL || !lm_is_pow2(align)) return ring_alloc(self, bytes, align, file, line);
    if (align <= LOAM_RING_ALIGN || bytes <= old_bytes)
        return loam_ring_realloc_at(ring, p, old_bytes, bytes, file, line);
    /* The realloc of rings takes no alignment, so a larger object moves. */
    void *other = ring_alloc(self, bytes, align, file, line);
    if (other == NULL) return NULL;
    memcpy(other, p, old_bytes);
    loam_ring_free_at(ring, p, old_bytes, file, line);
    return other;
}
const loam_alloc_functions loam_alloc_of_ring = {ring_alloc, ring_realloc, ring_free, "ring"};

/* calls.c: a program's file that uses every metered name; level.py compiles it at each level. */
#include "loam/loam.h"

void *calls(loam_region *region, loam_pool *pool, loam_shared_pool *shared, loam_blocks *blocks,
            loam_alloc alloc, loam_fifo *fifo, loam_stack *stack, loam_ring *ring);

void *calls(loam_region *region, loam_pool *pool, loam_shared_pool *shared, loam_blocks *blocks,
            loam_alloc alloc, loam_fifo *fifo, loam_stack *stack, loam_ring *ring) {
    void *p = loam_region_alloc(region, 24);
    p = loam_region_realloc(region, p, 24, 48);
    loam_region_free(region, p, 48);
    loam_pool_free(pool, loam_pool_alloc(pool));
    loam_shared_pool_free(shared, loam_shared_pool_alloc(shared));
    p = loam_blocks_realloc(blocks, loam_blocks_alloc(blocks, 10), 20);
    loam_blocks_free(blocks, p);
    loam_free(loam_realloc(loam_malloc(3), 4));
    loam_fifo_free(fifo, loam_fifo_realloc(fifo, loam_fifo_alloc(fifo, 24), 24, 48));
    loam_stack_frame frame = loam_stack_push(stack);
    p = loam_stack_realloc(stack, loam_stack_alloc(stack, 24), 24, 48);
    loam_stack_free(stack, p, 48);
    (void)LOAM_STACK_ARRAY(stack, int, 9);
    loam_stack_pop(stack, frame);
    LOAM_SCOPE;
    (void)loam_scope_strdup("copy");
    (void)loam_scope_calloc(3, 8);
    loam_ring_frame *open = loam_ring_open(ring);
    p = loam_ring_realloc(ring, loam_ring_alloc(ring, 24), 24, 48);
    loam_ring_free(ring, p, 48);
    (void)loam_ring_calloc(ring, 3, 8);
    loam_ring_release(ring, open);
    (void)loam_meter_start("rows.csv");
    loam_meter_stats stats;
    (void)loam_meter_read(NULL, NULL, &stats);
    loam_meter_reset();
    loam_meter_print(1);
    loam_meter_stop();
    return loam_alloc_alloc(alloc, stats.used, 8);
}

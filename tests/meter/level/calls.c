/* calls.c: a program's file that uses every metered name; level.py compiles it at each level. */
#include "loam/loam.h"

void *calls(loam_region *region, loam_pool *pool, loam_shared_pool *shared, loam_blocks *blocks,
            loam_alloc alloc);

void *calls(loam_region *region, loam_pool *pool, loam_shared_pool *shared, loam_blocks *blocks,
            loam_alloc alloc) {
    void *p = loam_region_alloc(region, 24);
    p = loam_region_realloc(region, p, 24, 48);
    loam_region_free(region, p, 48);
    loam_pool_free(pool, loam_pool_alloc(pool));
    loam_shared_pool_free(shared, loam_shared_pool_alloc(shared));
    p = loam_blocks_realloc(blocks, loam_blocks_alloc(blocks, 10), 20);
    loam_blocks_free(blocks, p);
    loam_free(loam_realloc(loam_malloc(3), 4));
    (void)loam_meter_start("rows.csv");
    loam_meter_stats stats;
    (void)loam_meter_read(NULL, NULL, &stats);
    loam_meter_reset();
    loam_meter_print(1);
    loam_meter_stop();
    return loam_alloc_alloc(alloc, stats.used, 8);
}

// pool_loam.c: table 003's rows of loam's pool: told how many objects there will be, as Kenwright's
// is; one that grows; and with checks on.

#include "pool.h"

#include <loam/pool.h>

static void *loam_made(size_t size, const loam_pool_options *options) {
    static loam_pool pool;
    if (loam_pool_init(&pool, NULL, size, options)) {
        family_fail("no pool of %zu bytes times that", size);
    }
    return &pool;
}
#define LOAM_POOL_ROW(row) \
    static inline void *row##_alloc(void *pool, size_t size) { \
        (void)size; \
        return loam_pool_alloc((loam_pool *)pool); \
    } \
    static inline void row##_free(void *pool, void *object, size_t size) { \
        (void)size; \
        loam_pool_free((loam_pool *)pool, object); \
    } \
    static void row##_destroy(void *pool) { loam_pool_deinit((loam_pool *)pool); }

static void *fixed_create(size_t size, uint64_t count) {
    return loam_made(size, &(loam_pool_options){.most_blocks = count,
                                                .flags = LOAM_FIXED | LOAM_POOL_CONTIGUOUS});
}
LOAM_POOL_ROW(fixed)
#define POOL fixed
#include "pool.h"
FAMILY_ROW(fixed, "loam", LOAM_VERSION_TEXT, "loam_pool, all memory at once", FAMILY_LOAM,
           fixed_cells)

static void *grown_create(size_t size, uint64_t count) {
    (void)count;
    return loam_made(size, NULL);
}
LOAM_POOL_ROW(grown)
#define POOL grown
#include "pool.h"
FAMILY_ROW(grown, "loam-grown", LOAM_VERSION_TEXT, "loam_pool, in chunks that double", FAMILY_LOAM,
           grown_cells)

static void *checked_create(size_t size, uint64_t count) {
    return loam_made(size,
                     &(loam_pool_options){.most_blocks = count, .flags = LOAM_FIXED | LOAM_CHECK});
}
LOAM_POOL_ROW(checked)
#define POOL checked
#include "pool.h"
FAMILY_ROW(checked, "loam-checked", LOAM_VERSION_TEXT, "loam_pool with LOAM_CHECK", FAMILY_LOAM,
           checked_cells)

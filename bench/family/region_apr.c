// region_apr.c: table 000's row of the Apache Portable Runtime's pools (apr_palloc).
//
// An APR pool frees nothing singly. Destroyed pools leave their memory with the parent's allocator.

#include "region.h"

#include <apr_general.h>
#include <apr_pools.h>

static void *apr_create(size_t size, uint64_t count) {
    (void)size, (void)count;
    static bool begun;
    if (!begun && apr_initialize() != APR_SUCCESS) {
        family_fail("apr_initialize failed");
    }
    begun = true;
    apr_pool_t *pool = NULL;
    if (apr_pool_create(&pool, NULL) != APR_SUCCESS) {
        family_fail("apr_pool_create failed");
    }
    return pool;
}
static inline void *apr_alloc(void *pool, size_t size) {
    return apr_palloc((apr_pool_t *)pool, size);
}
static void apr_destroy(void *pool) { apr_pool_destroy((apr_pool_t *)pool); }

#define REGION apr
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_NONE
#include "region.h"
FAMILY_ROW(apr, "apr", FAMILY_VERSION, "APR pools", FAMILY_RIVAL, apr_cells)

// region_talloc.c: table 000's rows of talloc: children of one context, and the same in a talloc
// pool.
//
// A talloc object carries a header of 96 bytes and can be freed alone, or with its parent. A pool
// is one block whose size is told beforehand: here what its user knows it will need.

#include "region.h"

#include <talloc.h>

enum { HEADER = 112 }; // of an object in a pool, alignment included

static void *talloc_plain_create(size_t size, uint64_t count) {
    (void)size, (void)count;
    return family_need(talloc_new(NULL));
}
static inline void *talloc_plain_alloc(void *pool, size_t size) { return talloc_size(pool, size); }
static inline void talloc_plain_free(void *pool, void *object, size_t size) {
    (void)pool, (void)size;
    talloc_free(object);
}
static void talloc_plain_destroy(void *pool) { talloc_free(pool); }

#define REGION talloc_plain
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#include "region.h"
FAMILY_ROW(talloc_plain, "talloc", FAMILY_VERSION, "talloc, children of one context", FAMILY_RIVAL,
           talloc_plain_cells)

static void *talloc_in_pool_create(size_t size, uint64_t count) {
    size_t each = size ? size : (3 * REGION_SMALL + REGION_BIG) / 4 + REGION_HUGE / 4096 + 1;
    return family_need(talloc_pool(NULL, count * (each + HEADER)));
}
static inline void *talloc_in_pool_alloc(void *pool, size_t size) {
    return talloc_size(pool, size);
}
static inline void talloc_in_pool_free(void *pool, void *object, size_t size) {
    (void)pool, (void)size;
    talloc_free(object);
}
static void talloc_in_pool_destroy(void *pool) { talloc_free(pool); }

#define REGION talloc_in_pool
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#include "region.h"
FAMILY_ROW(talloc_in_pool, "talloc-pool", FAMILY_VERSION, "talloc, in a talloc_pool", FAMILY_RIVAL,
           talloc_in_pool_cells)

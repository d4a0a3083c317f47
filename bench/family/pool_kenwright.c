// pool_kenwright.c: table 003's rows "before": Kenwright's pool by its rules, and with its checks.

#include "kenwright_rules.h"
#include "pool.h"

static void *kenwright_create(size_t size, uint64_t count) {
    static KwPool pool;
    if (!kw_create(&pool, size, count)) {
        family_fail("no pool of %zu bytes times that", size);
    }
    return &pool;
}
static inline void *kenwright_alloc(void *pool, size_t size) {
    (void)size;
    return kw_alloc((KwPool *)pool);
}
static inline void kenwright_free(void *pool, void *object, size_t size) {
    (void)size;
    kw_free((KwPool *)pool, object);
}
static void kenwright_destroy(void *pool) { kw_destroy((KwPool *)pool); }

#define POOL kenwright
#include "pool.h"
FAMILY_ROW(kenwright, "kenwright-rules", "2012", "Kenwright's pool", FAMILY_RENDITION,
           kenwright_cells)

static void *checked_create(size_t size, uint64_t count) {
    static KwPool pool;
    if (!kw_checked_create(&pool, size, count)) {
        family_fail("no pool of %zu bytes times that", size);
    }
    return &pool;
}
static inline void *checked_alloc(void *pool, size_t size) {
    (void)size;
    return kw_checked_alloc((KwPool *)pool, __LINE__);
}
static inline void checked_free(void *pool, void *object, size_t size) {
    (void)size;
    KwFault fault = kw_checked_free((KwPool *)pool, object);
    if (fault != KW_GOOD) {
        family_fail("a good free was refused: %d", (int)fault);
    }
}
static void checked_destroy(void *pool) {
    uint32_t leaks;
    if (kw_checked_all((KwPool *)pool, &leaks) || leaks) {
        family_fail("guards or leaks");
    }
    kw_destroy((KwPool *)pool);
}

#define POOL checked
#include "pool.h"
FAMILY_ROW(checked, "kenwright-checked", "2012",
           "Kenwright's pool with guards, range checks, lines", FAMILY_RENDITION, checked_cells)

// region_tfw.c: table 000's row "before": TfwPool's rules (tfw_rules.h), and its page cache alone.

#include "region.h"
#include "tfw_rules.h"

static void *tfw_rules_create(size_t size, uint64_t count) {
    (void)size, (void)count;
    return family_need(tfw_create());
}
static inline void *tfw_rules_alloc(void *pool, size_t size) {
    return tfw_alloc((TfwRegion *)pool, size);
}
static inline void tfw_rules_free(void *pool, void *object, size_t size) {
    tfw_free((TfwRegion *)pool, object, size);
}
static void tfw_rules_destroy(void *pool) { tfw_destroy((TfwRegion *)pool); }

static void pages(const FamilyRequest *asked) {
    void **all = (void **)family_table_of(asked->n, sizeof *all);
    FamilyClock clock = family_start();
    for (uint64_t i = 0; i < asked->n; i++) {
        region_touch(all[i] = family_need(tfw_run_get(0)));
    }
    for (uint64_t i = 0; i < asked->n; i++) {
        tfw_run_put(all[i], 0);
    }
    family_stop(&clock, "use", asked->n);
}

#define REGION tfw_rules
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#define REGION_MORE_CELLS {"page-4096", pages},
#include "region.h"
FAMILY_ROW(tfw_rules, "tfw-rules", "2015", "TfwPool's rules, outside the kernel", FAMILY_RENDITION,
           tfw_rules_cells)

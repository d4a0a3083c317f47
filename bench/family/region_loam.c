// region_loam.c: table 000's rows of loam's region: as it is used by default, and in TfwPool's own
// mode (pages of 4096 bytes, no doubling). Objects hold a long: the other rows align them to 8, and
// so does this.

#include "region.h"

#include "loam/region.h"

static void *loam_create(size_t size, uint64_t count) {
    (void)size, (void)count;
    return family_need(loam_region_create(NULL, NULL));
}
static void *loam_tfw_create(size_t size, uint64_t count) {
    static const loam_region_options options = LOAM_REGION_TFW;
    (void)size, (void)count;
    return family_need(loam_region_create(NULL, &options));
}
static inline void *loam_alloc(void *pool, size_t size) {
    return loam_region_alloc_aligned((loam_region *)pool, size, sizeof(long));
}
static inline void loam_free(void *pool, void *object, size_t size) {
    loam_region_free_aligned((loam_region *)pool, object, size, sizeof(long));
}
static void loam_destroy(void *pool) { loam_region_destroy((loam_region *)pool); }

#define loam_tfw_alloc loam_alloc
#define loam_tfw_free loam_free
#define loam_tfw_destroy loam_destroy

#define REGION loam
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#include "region.h"
FAMILY_ROW(loam, "loam", LOAM_VERSION_TEXT, "loam_region", FAMILY_LOAM, loam_cells)

#define REGION loam_tfw
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#include "region.h"
FAMILY_ROW(loam_tfw, "loam-tfw", LOAM_VERSION_TEXT, "loam_region, TfwPool's mode", FAMILY_LOAM,
           loam_tfw_cells)

// region_glib.c: table 000's row of GLib's slices. There is no pool: each object is freed, with its
// size. From GLib 2.76 on, slices are malloc by another name, and the row then says the same twice.

#include "region_kept.h"

#include <glib.h>

static RegionKept kept;

static void glib_prepare(uint64_t count) { kept_room(&kept, count); }

static void *glib_create(size_t size, uint64_t count) {
    (void)size;
    return kept_begin(&kept, count);
}
static inline void *glib_alloc(void *pool, size_t size) {
    void *object = g_slice_alloc(size);
    kept_add((RegionKept *)pool, object, size);
    return object;
}
static inline void glib_free(void *pool, void *object, size_t size) {
    kept_forget_last((RegionKept *)pool);
    g_slice_free1(size, object);
}
static void glib_destroy(void *pool) {
    const RegionKept *all = (const RegionKept *)pool;
    for (uint64_t i = 0; i < all->count; i++) {
        g_slice_free1(kept_size(all, i), kept_object(all, i));
    }
}

#define REGION glib
#define REGION_PREPARE glib_prepare
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#include "region.h"
FAMILY_ROW(glib, "glib-slice", FAMILY_VERSION, "GLib slices", FAMILY_RIVAL, glib_cells)

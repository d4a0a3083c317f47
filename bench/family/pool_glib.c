// pool_glib.c: table 003's row of GLib's slices (from GLib 2.76 on these are malloc).

#include "pool.h"

#include <glib.h>

static void *glib_create(size_t size, uint64_t count) {
    (void)size, (void)count;
    return NULL;
}
static inline void *glib_alloc(void *pool, size_t size) {
    (void)pool;
    return g_slice_alloc(size);
}
static inline void glib_free(void *pool, void *object, size_t size) {
    (void)pool;
    g_slice_free1(size, object);
}
static void glib_destroy(void *pool) { (void)pool; }

#define POOL glib
#include "pool.h"
FAMILY_ROW(glib, "glib-slice", FAMILY_VERSION, "GLib slices", FAMILY_RIVAL, glib_cells)

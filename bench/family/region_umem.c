// region_umem.c: table 000's row of libumem, Solaris' slab allocator outside its kernel.
//
// A pool of the table is an object cache for each size it needs (umem_cache_create: 24, 240, 8305
// bytes), kept for the process's life as a program would; each object is freed by its cache, one by
// one at the end. libumem has no call that frees what a cache gave all at once. Debian has no
// package of it: README.md.

#include "region_kept.h"

#include <umem.h>

static umem_cache_t *umem_small, *umem_big, *umem_huge;
static RegionKept umem_kept;

static umem_cache_t *umem_cache_of(const char *name, size_t size) {
    return (umem_cache_t *)family_need(
        umem_cache_create((char *)(uintptr_t)name, size, 8, NULL, NULL, NULL, NULL, NULL, 0));
}
static void umem_prepare(uint64_t count) { kept_room(&umem_kept, count); }
static void *umem_row_create(size_t size, uint64_t count) {
    (void)size;
    if (!umem_small) {
        umem_small = umem_cache_of("small", REGION_SMALL);
        umem_big = umem_cache_of("big", REGION_BIG);
        umem_huge = umem_cache_of("huge", REGION_HUGE);
    }
    return kept_begin(&umem_kept, count);
}
static inline umem_cache_t *umem_cache_for(size_t size) {
    return size == REGION_SMALL ? umem_small : size == REGION_BIG ? umem_big : umem_huge;
}
static inline void *umem_row_alloc(void *pool, size_t size) {
    void *object = umem_cache_alloc(umem_cache_for(size), UMEM_DEFAULT);
    if (object) {
        kept_add((RegionKept *)pool, object, size);
    }
    return object;
}
static inline void umem_row_free(void *pool, void *object, size_t size) {
    kept_forget_last((RegionKept *)pool);
    umem_cache_free(umem_cache_for(size), object);
}
static void umem_row_destroy(void *pool) {
    const RegionKept *kept = (const RegionKept *)pool;
    for (uint64_t i = 0; i < kept->count; i++) {
        umem_cache_free(umem_cache_for(kept_size(kept, i)), kept_object(kept, i));
    }
}

#define REGION umem_row
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#define REGION_PREPARE umem_prepare
#include "region.h"
FAMILY_ROW(umem_row, "libumem", "as installed", "libumem: an object cache for each size",
           FAMILY_RIVAL, umem_row_cells)

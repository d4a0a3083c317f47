// region_malloc.c: table 000's rows of glibc's malloc, and what its pages cost.
//
//   malloc        never frees but where the column says so: what a program does that ends soon
//   malloc-free   frees every object at the end, as the seed's row "mallocfree"
//   mmap          pages alone, one system call each: what the page columns are compared with

#include "region_kept.h"

#include <stdlib.h>
#include <sys/mman.h>

#define GLIBC "glibc " FAMILY_STRING(__GLIBC__) "." FAMILY_STRING(__GLIBC_MINOR__)

// ---- the page columns ---------------------------------------------------------------------------

static void pages(const FamilyRequest *asked, void *(*take)(void), void (*give)(void *)) {
    void **all = (void **)family_table_of(asked->n, sizeof *all);
    FamilyClock clock = family_start();
    for (uint64_t i = 0; i < asked->n; i++) {
        region_touch(all[i] = family_need(take()));
    }
    for (uint64_t i = 0; i < asked->n; i++) {
        give(all[i]);
    }
    family_stop(&clock, "use", asked->n);
}

static void *page_at_16(void) {
    void *page = NULL;
    return posix_memalign(&page, 16, REGION_PAGE) ? NULL : page;
}
static void *page_at_4096(void) {
    void *page = NULL;
    return posix_memalign(&page, REGION_PAGE, REGION_PAGE) ? NULL : page;
}
static void *page_mapped(void) {
    void *page =
        mmap(NULL, REGION_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED ? NULL : page;
}
static void page_unmap(void *page) { munmap(page, REGION_PAGE); }

static void malloc_16(const FamilyRequest *asked) { pages(asked, page_at_16, free); }
static void malloc_4096(const FamilyRequest *asked) { pages(asked, page_at_4096, free); }
static void mmap_4096(const FamilyRequest *asked) { pages(asked, page_mapped, page_unmap); }

// ---- malloc -------------------------------------------------------------------------------------

static void *plain_create(size_t size, uint64_t count) {
    (void)size, (void)count;
    return NULL;
}
static inline void *plain_alloc(void *pool, size_t size) {
    (void)pool;
    return malloc(size);
}
static inline void plain_free(void *pool, void *object, size_t size) {
    (void)pool, (void)size;
    free(object);
}
static void plain_destroy(void *pool) { (void)pool; }

#define REGION plain
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#define REGION_ONCE true
#define REGION_MORE_CELLS {"page-16", malloc_16}, {"page-4096", malloc_4096},
#include "region.h"
FAMILY_ROW(plain, "malloc", GLIBC, "malloc, never freed", FAMILY_RIVAL, plain_cells)

static RegionKept kept;

static void each_prepare(uint64_t count) { kept_room(&kept, count); }

static void *each_create(size_t size, uint64_t count) {
    (void)size;
    return kept_begin(&kept, count);
}
static inline void *each_alloc(void *pool, size_t size) {
    void *object = malloc(size);
    kept_add((RegionKept *)pool, object, size);
    return object;
}
static inline void each_free(void *pool, void *object, size_t size) {
    (void)size;
    kept_forget_last((RegionKept *)pool);
    free(object);
}
static void each_destroy(void *pool) {
    const RegionKept *all = (const RegionKept *)pool;
    for (uint64_t i = 0; i < all->count; i++) {
        free(kept_object(all, i));
    }
}

#define REGION each
#define REGION_PREPARE each_prepare
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_ALL
#include "region.h"
FAMILY_ROW(each, "malloc-free", GLIBC, "malloc, each object freed at the end", FAMILY_RIVAL,
           each_cells)

static const FamilyCell mmap_cells[] = {{"page-4096", mmap_4096}, FAMILY_END};
FAMILY_ROW(mapped, "mmap", "kernel", "a system call for each page", FAMILY_RIVAL, mmap_cells)

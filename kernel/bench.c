/* bench.c: times, as the module loads (bench=1): pages, and the region's matrix, small.
 *
 *   pages            taken all, then put all; in rounds that the cache holds; one at a time
 *   small, big, mix  24 B; 240 B; 24 B with a quarter of 240 B and 1 of 4096 of 8305 B: taken, then all dropped
 *   create-destroy   a region (a list) of ten objects, begun and ended
 *
 * Nanoseconds a page or object, the best of five runs. Every object's first word is written.
 */
#include "module.h"

#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>

enum { RUNS = 5, PAGES = 8192, ROUND = 256, OBJECTS = 50000, LIVES = 5000, IN_LIFE = 10 };
enum { SMALL = 24, BIG = 240, HUGE = 8305 };

static loam_kernel_pages kernel_pages;
static void **held; /* pages or objects */
static struct kmem_cache *slab_of_small, *slab_of_big;
static const loam_region_options tfw = LOAM_REGION_TFW;
static const loam_region_options doubling = {.most_bytes = 64 * 1024};

static void touch(void *p) { *(volatile unsigned long *)p = 1; }

/* ---- Pages ---- */

static void *page_by_kernel(void) { return (void *)__get_free_page(GFP_KERNEL); }
static void put_to_kernel(void *page) { free_page((unsigned long)page); }
static void *page_by_cache(void) {
    size_t got;
    return loam_source_get(&kernel_pages.source, PAGE_SIZE, 1, &got);
}
static void put_to_cache(void *page) { loam_source_put(&kernel_pages.source, page, PAGE_SIZE); }

static bool pages_at_once(void *(*get)(void), void (*put)(void *), unsigned count) {
    unsigned got = 0;
    while (got < count && (held[got] = get()) != NULL) touch(held[got++]);
    for (unsigned i = got; i-- > 0;) put(held[i]);
    return got == count;
}

static u64 time_of_pages(void *(*get)(void), void (*put)(void *), unsigned at_once) {
    u64 best = U64_MAX;
    for (int run = 0; run < RUNS; run++) {
        u64 begin = ktime_get_ns(), time;
        for (unsigned done = 0; done < PAGES; done += at_once)
            if (!pages_at_once(get, put, at_once)) return 0;
        time = ktime_get_ns() - begin;
        if (time < best) best = time;
        cond_resched();
    }
    return div_u64(best, PAGES);
}

static void bench_pages(const char *name, unsigned at_once) {
    u64 kernel = time_of_pages(page_by_kernel, put_to_kernel, at_once);
    u64 cache = time_of_pages(page_by_cache, put_to_cache, at_once);
    pr_info("loam_region: bench: pages, %s: alloc & free by the kernel %llu ns, by the cache %llu "
            "ns\n",
            name, kernel, cache);
}

/* ---- Objects ---- */

static size_t small_size(unsigned i) { return SMALL; }
static size_t big_size(unsigned i) { return BIG; }
static size_t mixed_size(unsigned i) { return i % 4096 == 4095 ? HUGE : i % 4 == 3 ? BIG : SMALL; }

/* What is measured: sizes are known to the compiler where they are constant. */
#define LIFE_OF_REGION(name, options, size_of) \
    static bool name(unsigned count) { \
        loam_region *region = loam_region_create(&kernel_pages.source, options); \
        bool good = region != NULL; \
        for (unsigned i = 0; good && i < count; i++) { \
            void *p = loam_region_alloc(region, size_of(i)); \
            if (p == NULL) \
                good = false; \
            else \
                touch(p); \
        } \
        loam_region_destroy(region); \
        return good; \
    }
#define LIFE_OF_HEAP(name, alloc, free) \
    static bool name(unsigned count) { \
        unsigned got = 0; \
        for (; got < count; got++) { \
            if ((held[got] = alloc) == NULL) break; \
            touch(held[got]); \
        } \
        for (unsigned i = 0; i < got; i++) free; \
        return got == count; \
    }

LIFE_OF_REGION(small_in_region, &tfw, small_size)
LIFE_OF_REGION(small_in_doubling, &doubling, small_size)
LIFE_OF_HEAP(small_by_kmalloc, kmalloc(SMALL, GFP_KERNEL), kfree(held[i]))
LIFE_OF_HEAP(small_by_slab, kmem_cache_alloc(slab_of_small, GFP_KERNEL),
             kmem_cache_free(slab_of_small, held[i]))
LIFE_OF_REGION(big_in_region, &tfw, big_size)
LIFE_OF_REGION(big_in_doubling, &doubling, big_size)
LIFE_OF_HEAP(big_by_kmalloc, kmalloc(BIG, GFP_KERNEL), kfree(held[i]))
LIFE_OF_HEAP(big_by_slab, kmem_cache_alloc(slab_of_big, GFP_KERNEL),
             kmem_cache_free(slab_of_big, held[i]))
LIFE_OF_REGION(mix_in_region, &tfw, mixed_size)
LIFE_OF_REGION(mix_in_doubling, &doubling, mixed_size)
LIFE_OF_HEAP(mix_by_kmalloc, kmalloc(mixed_size(got), GFP_KERNEL), kfree(held[i]))

static u64 time_of(bool (*life)(unsigned), unsigned objects, unsigned lives) {
    u64 best = U64_MAX;
    if (life == NULL) return 0;
    for (int run = 0; run < RUNS; run++) {
        u64 begin = ktime_get_ns(), time;
        for (unsigned i = 0; i < lives; i++)
            if (!life(objects)) return 0;
        time = ktime_get_ns() - begin;
        if (time < best) best = time;
        cond_resched();
    }
    return div_u64(best, objects * lives);
}

static void bench_objects(const char *name, bool (*region)(unsigned), bool (*doubled)(unsigned),
                          bool (*heap)(unsigned), bool (*slab)(unsigned), unsigned objects,
                          unsigned lives) {
    u64 in_region = time_of(region, objects, lives), in_doubling = time_of(doubled, objects, lives);
    u64 by_kmalloc = time_of(heap, objects, lives), by_slab = time_of(slab, objects, lives);
    pr_info("loam_region: bench: %s: region of pages %llu ns, of doubling runs %llu ns, kmalloc & "
            "kfree %llu ns, kmem_cache %llu ns\n",
            name, in_region, in_doubling, by_kmalloc, by_slab);
}

void lm_bench(void) {
    held = kvmalloc_array(OBJECTS, sizeof(*held), GFP_KERNEL);
    slab_of_small = kmem_cache_create("loam_bench_24", SMALL, 8, 0, NULL);
    slab_of_big = kmem_cache_create("loam_bench_240", BIG, 8, 0, NULL);
    if (held != NULL && slab_of_small != NULL && slab_of_big != NULL &&
        loam_kernel_pages_init(&kernel_pages, GFP_KERNEL) == 0) {
        pr_info("loam_region: bench: nanoseconds a page or object, 0: no memory or not measured\n");
        bench_pages("8192 at once", PAGES);
        bench_pages("256 at once", ROUND);
        bench_pages("one at a time", 1);
        bench_objects("small (24 B)", small_in_region, small_in_doubling, small_by_kmalloc,
                      small_by_slab, OBJECTS, 1);
        bench_objects("big (240 B)", big_in_region, big_in_doubling, big_by_kmalloc, big_by_slab,
                      OBJECTS, 1);
        bench_objects("mix", mix_in_region, mix_in_doubling, mix_by_kmalloc, NULL, OBJECTS, 1);
        bench_objects("create-destroy, 10 objects", small_in_region, small_in_doubling,
                      small_by_kmalloc, small_by_slab, IN_LIFE, LIVES);
        pr_info("loam_region: bench: done\n");
    }
    kmem_cache_destroy(slab_of_small); /* NULL is fine */
    kmem_cache_destroy(slab_of_big);
    kvfree(held);
}

/* bench.c: times, measured as the module loads (bench=1): pages, and a small version of the
 * region's matrix.
 *
 *   pages            all taken, then all put; in rounds that the cache holds; one at a time
 *   small, big, mix  24 B; 240 B; 24 B with a quarter of 240 B and 1 of 4096 of 8305 B: all taken,
 *                    then all freed
 *   ..., w/ free     as small, big, mix; every fourth object is freed as soon as it is taken, of
 *                    the mix the larger two sizes
 *   create-destroy   a region (a list) of ten objects, begun and ended
 *
 * Columns: loam's region, of single pages and of doubling runs; nginx's pool; kmalloc; kmem_cache.
 * nginx's pool is written anew after its rules, on the kernel's pages, as its authors' port has
 * them. It frees only objects that are larger than its pages hold: it has no figure for small and
 * big with frees, and in the mix it frees the largest size only.
 *
 * Figures are nanoseconds for a page or object, the best of five runs. Every object's first word is
 * written. */
#include "module.h"

#include <linux/kernel.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>

enum { RUNS = 5, PAGES = 8192, ROUND = 256, OBJECTS = 50000, LIVES_EACH = 5000, IN_LIFE = 10 };
enum { SMALL = 24, BIG = 240, HUGE = 8305 };

static loam_kernel_pages kernel_pages;
/* Pages or objects. */
static void **held;
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

/* ---- nginx's pool ----
 *
 * Rules: blocks of one page form a chain; the first holds the pool. An object is cut from the first
 * block with enough memory, from `from` on. If no block has enough, a new block joins the chain,
 * and each block from there on except the last has failed once more. A block that fails for the
 * sixth time is passed for good: `from` moves behind it. An object larger than an empty first block
 * comes from kmalloc and is in a list, whose entries are objects of the pool. An entry whose object
 * was freed is used again if it is among the first five. Only objects of kmalloc can be freed
 * singly. */

struct ngx_block {
    char *last, *end; /* end of the used part; end of the page */
    struct ngx_block *next;
    unsigned long failed;
};
struct ngx_large {
    struct ngx_large *next;
    void *object; /* NULL: freed */
};
struct ngx_pool {
    struct ngx_block first;
    size_t most;
    struct ngx_block *from; /* nginx's `current`: the first block that is searched */
    struct ngx_large *large;
    void *others[3]; /* as many further members as nginx's pool has */
};
enum { NGX_LOOKED_AT = 5, NGX_FAILS = 4 };

static char *ngx_cut(struct ngx_block *block, size_t size) {
    char *at = PTR_ALIGN(block->last, sizeof(long));
    if (at > block->end || (size_t)(block->end - at) < size) return NULL;
    block->last = at + size;
    return at;
}

static struct ngx_block *ngx_block_new(size_t header) {
    struct ngx_block *block = page_by_kernel();
    if (block == NULL) return NULL;
    block->last = (char *)block + header;
    block->end = (char *)block + PAGE_SIZE;
    block->next = NULL;
    block->failed = 0;
    return block;
}

static struct ngx_pool *ngx_create(void) {
    struct ngx_pool *pool = (struct ngx_pool *)ngx_block_new(sizeof(*pool));
    if (pool == NULL) return NULL;
    pool->most = PAGE_SIZE - sizeof(*pool);
    pool->from = &pool->first;
    pool->large = NULL;
    return pool;
}

static noinline void *ngx_more(struct ngx_pool *pool, size_t size) {
    struct ngx_block *more = ngx_block_new(sizeof(*more)), *block;
    if (more == NULL) return NULL;
    for (block = pool->from; block->next != NULL; block = block->next)
        if (block->failed++ > NGX_FAILS) pool->from = block->next;
    block->next = more;
    return ngx_cut(more, size);
}

static void *ngx_small(struct ngx_pool *pool, size_t size) {
    for (struct ngx_block *block = pool->from; block != NULL; block = block->next) {
        char *at = ngx_cut(block, size);
        if (at != NULL) return at;
    }
    return ngx_more(pool, size);
}

static noinline void *ngx_large(struct ngx_pool *pool, size_t size) {
    void *object = kmalloc(size, GFP_KERNEL);
    struct ngx_large *entry = pool->large;
    if (object == NULL) return NULL;
    for (unsigned i = 0; entry != NULL && i < NGX_LOOKED_AT; i++, entry = entry->next) {
        if (entry->object == NULL) {
            entry->object = object;
            return object;
        }
    }
    entry = ngx_small(pool, sizeof(*entry));
    if (entry == NULL) {
        kfree(object);
        return NULL;
    }
    entry->object = object;
    entry->next = pool->large;
    pool->large = entry;
    return object;
}

static void *ngx_alloc(struct ngx_pool *pool, size_t size) {
    return size <= pool->most ? ngx_small(pool, size) : ngx_large(pool, size);
}

static void ngx_free(struct ngx_pool *pool, void *object) {
    for (struct ngx_large *entry = pool->large; entry != NULL; entry = entry->next) {
        if (entry->object == object) {
            kfree(object);
            entry->object = NULL;
            return;
        }
    }
}

static void ngx_destroy(struct ngx_pool *pool) {
    struct ngx_block *block, *next;
    if (pool == NULL) return;
    for (struct ngx_large *entry = pool->large; entry != NULL; entry = entry->next)
        /* NULL is allowed. */
        kfree(entry->object);
    for (block = &pool->first; block != NULL; block = next) {
        /* The pool itself is in the first block. */
        next = block->next;
        put_to_kernel(block);
    }
}

/* ---- Objects ---- */

static size_t small_size(unsigned i) { return SMALL; }
static size_t big_size(unsigned i) { return BIG; }
static size_t mixed_size(unsigned i) { return i % 4096 == 4095 ? HUGE : i % 4 == 3 ? BIG : SMALL; }

/* Objects that are freed as soon as they are taken: none. */
static bool none(unsigned i) { return false; }
/* Objects that are freed as soon as they are taken: of the mix the larger two sizes. */
static bool fourth(unsigned i) { return i % 4 == 3; }
/* Objects that are freed as soon as they are taken: of the mix the largest size. */
static bool largest(unsigned i) { return i % 4096 == 4095; }

/* The measured code. The compiler knows sizes that are constant. */
#define LIFE_OF_POOL(name, type, create, alloc, free, destroy, frees) \
    static bool name(unsigned count) { \
        type *pool = create; \
        bool good = pool != NULL; \
        for (unsigned i = 0; good && i < count; i++) { \
            void *p = alloc; \
            if (p == NULL) { \
                good = false; \
                break; \
            } \
            touch(p); \
            if (frees(i)) free; \
        } \
        destroy(pool); \
        return good; \
    }
#define LIFE_OF_REGION(name, options, size_of, frees) \
    LIFE_OF_POOL(name, loam_region, loam_region_create(&kernel_pages.source, options), \
                 loam_region_alloc(pool, size_of(i)), loam_region_free(pool, p, size_of(i)), \
                 loam_region_destroy, frees)
#define LIFE_OF_NGINX(name, size_of, frees) \
    LIFE_OF_POOL(name, struct ngx_pool, ngx_create(), ngx_alloc(pool, size_of(i)), \
                 ngx_free(pool, p), ngx_destroy, frees)
#define LIFE_OF_HEAP(name, alloc, free, frees) \
    static bool name(unsigned count) { \
        unsigned got = 0, i = 0; \
        for (; i < count; i++) { \
            void *p = alloc; \
            if (p == NULL) break; \
            touch(p); \
            if (frees(i)) \
                free(p); \
            else \
                held[got++] = p; \
        } \
        while (got > 0) free(held[--got]); \
        return i == count; \
    }

static void free_small(void *p) { kmem_cache_free(slab_of_small, p); }
static void free_big(void *p) { kmem_cache_free(slab_of_big, p); }

#define LIVES(size, kept, frees) \
    LIFE_OF_REGION(kept##_in_region, &tfw, size##_size, frees) \
    LIFE_OF_REGION(kept##_in_doubling, &doubling, size##_size, frees) \
    LIFE_OF_HEAP(kept##_by_kmalloc, kmalloc(size##_size(i), GFP_KERNEL), kfree, frees)
#define LIVES_OF_SLAB(size, kept, frees) \
    LIFE_OF_HEAP(kept##_by_slab, kmem_cache_alloc(slab_of_##size, GFP_KERNEL), free_##size, frees)

LIVES(small, small, none)
LIVES_OF_SLAB(small, small, none)
LIFE_OF_NGINX(small_in_nginx, small_size, none)
LIVES(small, small_free, fourth)
LIVES_OF_SLAB(small, small_free, fourth)
LIVES(big, big, none)
LIVES_OF_SLAB(big, big, none)
LIFE_OF_NGINX(big_in_nginx, big_size, none)
LIVES(big, big_free, fourth)
LIVES_OF_SLAB(big, big_free, fourth)
LIVES(mixed, mix, none)
LIFE_OF_NGINX(mix_in_nginx, mixed_size, none)
LIVES(mixed, mix_free, fourth)
LIFE_OF_NGINX(mix_free_in_nginx, mixed_size, largest)

/* A row of the table, with a function for each column; NULL if the allocator cannot do it. */
static const struct row {
    const char *name;
    bool (*region)(unsigned), (*doubled)(unsigned), (*nginx)(unsigned);
    bool (*heap)(unsigned), (*slab)(unsigned);
    unsigned objects, lives;
} rows[] = {
    {"small (24 B)", small_in_region, small_in_doubling, small_in_nginx, small_by_kmalloc,
     small_by_slab, OBJECTS, 1},
    {"small (24 B), w/ free", small_free_in_region, small_free_in_doubling, NULL,
     small_free_by_kmalloc, small_free_by_slab, OBJECTS, 1},
    {"big (240 B)", big_in_region, big_in_doubling, big_in_nginx, big_by_kmalloc, big_by_slab,
     OBJECTS, 1},
    {"big (240 B), w/ free", big_free_in_region, big_free_in_doubling, NULL, big_free_by_kmalloc,
     big_free_by_slab, OBJECTS, 1},
    {"mix", mix_in_region, mix_in_doubling, mix_in_nginx, mix_by_kmalloc, NULL, OBJECTS, 1},
    {"mix, w/ free", mix_free_in_region, mix_free_in_doubling, mix_free_in_nginx,
     mix_free_by_kmalloc, NULL, OBJECTS, 1},
    {"create-destroy, 10 objects", small_in_region, small_in_doubling, small_in_nginx,
     small_by_kmalloc, small_by_slab, IN_LIFE, LIVES_EACH},
};

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

static void bench_objects(const struct row *row) {
    u64 region = time_of(row->region, row->objects, row->lives);
    u64 doubled = time_of(row->doubled, row->objects, row->lives);
    u64 nginx = time_of(row->nginx, row->objects, row->lives);
    u64 heap = time_of(row->heap, row->objects, row->lives);
    u64 slab = time_of(row->slab, row->objects, row->lives);
    pr_info("loam_region: bench: %s: region of pages %llu ns, of doubling runs %llu ns, nginx's "
            "rules %llu ns, kmalloc & kfree %llu ns, kmem_cache %llu ns\n",
            row->name, region, doubled, nginx, heap, slab);
}

void lm_bench(void) {
    held = kvmalloc_array(OBJECTS, sizeof(*held), GFP_KERNEL);
    slab_of_small = kmem_cache_create("loam_bench_24", SMALL, 8, 0, NULL);
    slab_of_big = kmem_cache_create("loam_bench_240", BIG, 8, 0, NULL);
    if (held != NULL && slab_of_small != NULL && slab_of_big != NULL &&
        loam_kernel_pages_init(&kernel_pages, GFP_KERNEL) == 0) {
        pr_info("loam_region: bench: nanoseconds a page or object, "
                "0: no memory, or it cannot do that\n");
        bench_pages("8192 at once", PAGES);
        bench_pages("256 at once", ROUND);
        bench_pages("one at a time", 1);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) bench_objects(&rows[i]);
        pr_info("loam_region: bench: done\n");
    }
    /* NULL is allowed. */
    kmem_cache_destroy(slab_of_small);
    kmem_cache_destroy(slab_of_big);
    kvfree(held);
}

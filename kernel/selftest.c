/* selftest.c: tests the region's properties over the kernel's pages as the module loads
 * (selftest=1).
 *
 * The log has one line for each test, one for each expectation that fails, and a verdict:
 *   loam_region: selftest: passed, ...        loam_region: selftest: FAILED, ... */
#include "module.h"

#include <linux/cpu.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>

/* Numbers of expectations, and of those that failed. */
static unsigned expected, wrong;
static int fault;
static loam_kernel_pages kernel_pages;
static loam_source *const pages = &kernel_pages.source;

/* Counts without atomics: interrupts must not call it. */
void lm_expect(bool condition, const char *text, const char *file, int line) {
    expected++;
    if (condition) return;
    wrong++;
    if (wrong <= 20) pr_err("loam_region: selftest: not so: %s (%s:%d)\n", text, file, line);
}

/* ---- The source of pages ---- */

static void source_gives_pages_and_runs(void) {
    static const size_t sizes[] = {1, PAGE_SIZE, PAGE_SIZE + 1, 3 * PAGE_SIZE, 16 * PAGE_SIZE};
    for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
        for (size_t align = 1; align <= 8 * PAGE_SIZE; align *= 2) {
            size_t got = 0;
            u8 *p = loam_source_get(pages, sizes[i], align, &got);
            LM_EXPECT(p != NULL);
            if (p == NULL) continue;
            LM_EXPECT((unsigned long)p % align == 0 && (unsigned long)p % PAGE_SIZE == 0);
            LM_EXPECT(got >= sizes[i] && got % PAGE_SIZE == 0);
            memset(p, 0x5A, got);
            loam_source_put(pages, p, got);
        }
    }
    size_t got = 7;
    LM_EXPECT(loam_source_get(pages, SIZE_MAX, 1, &got) == NULL && got == 7);
    LM_EXPECT(loam_source_get(pages, (size_t)1 << 40, 1, &got) == NULL && got == 7);
    LM_EXPECT(loam_source_get(pages, 1, (size_t)1 << 40, &got) == NULL && got == 7);
}

static void source_knows_its_flags(void) {
    loam_kernel_pages zeroed, charged;
    LM_EXPECT(loam_kernel_pages_init(&zeroed, GFP_HIGHUSER) == -EINVAL);
    LM_EXPECT(loam_kernel_pages_init(&zeroed, GFP_KERNEL | __GFP_ZERO) == 0);
    LM_EXPECT(zeroed.source.flags & LOAM_SOURCE_ZEROED);
    /* The second page is a cached one. */
    for (int round = 0; round < 3; round++) {
        size_t got;
        u8 *p = loam_source_get(&zeroed.source, PAGE_SIZE, 1, &got);
        LM_EXPECT(p != NULL && memchr_inv(p, 0, PAGE_SIZE) == NULL);
        if (p == NULL) return;
        memset(p, 0xFF, PAGE_SIZE);
        loam_source_put(&zeroed.source, p, got);
    }
    LM_EXPECT(loam_kernel_pages_init(&charged, GFP_KERNEL_ACCOUNT) == 0);
    loam_kernel_pages_drain();
    size_t got;
    void *p = loam_source_get(&charged.source, PAGE_SIZE, 1, &got);
    if (p != NULL) loam_source_put(&charged.source, p, got);
    LM_EXPECT(p != NULL && loam_kernel_pages_ask().cached == 0);
}

/* Preemption is off, so that all calls use one processor's cache. */
static void cache_is_a_lifo_with_a_bound(void) {
    enum { MORE = LOAM_KERNEL_CACHE_PAGES + 100 };
    loam_kernel_pages now;
    void **page = kcalloc(MORE, sizeof(*page), GFP_KERNEL);
    unsigned count = 0;
    size_t got;
    LM_EXPECT(page != NULL);
    if (page == NULL) return;
    LM_EXPECT(loam_kernel_pages_init(&now, GFP_NOWAIT | __GFP_NOWARN) == 0);
    loam_kernel_pages_drain();
    LM_EXPECT(loam_kernel_pages_ask().cached == 0);
    preempt_disable();
    for (; count < MORE; count++) {
        page[count] = loam_source_get(&now.source, PAGE_SIZE, 1, &got);
        if (page[count] == NULL) break;
    }
    bool all = count == MORE;
    for (unsigned i = 0; i < count; i++) loam_source_put(&now.source, page[i], PAGE_SIZE);
    unsigned long cached = loam_kernel_pages_ask().cached, taken = loam_kernel_pages_ask().taken;
    bool in_order = true;
    /* The last 100 pages did not fit. */
    for (unsigned i = LOAM_KERNEL_CACHE_PAGES; all && i-- > 0;)
        in_order = in_order && loam_source_get(&now.source, PAGE_SIZE, 1, &got) == page[i];
    unsigned long taken_then = loam_kernel_pages_ask().taken;
    for (unsigned i = 0; all && i < LOAM_KERNEL_CACHE_PAGES; i++)
        loam_source_put(&now.source, page[i], PAGE_SIZE);
    preempt_enable();
    LM_EXPECT(all && in_order && taken_then == taken);
    LM_EXPECT(cached == LOAM_KERNEL_CACHE_PAGES);
    LM_EXPECT(loam_kernel_pages_drain() == LOAM_KERNEL_CACHE_PAGES);
    LM_EXPECT(loam_kernel_pages_ask().cached == 0);
    kfree(page);
}

/* ---- The region ---- */

static const loam_region_options tfw = LOAM_REGION_TFW;

static void objects_are_aligned(void) {
    loam_region region;
    LM_EXPECT(loam_region_init(&region, NULL, NULL) == -EINVAL);
    LM_EXPECT(loam_region_init(&region, pages, &tfw) == 0);
    for (size_t align = 1; align <= 4096; align *= 2) {
        u8 *p = loam_region_alloc_aligned(&region, 5, align);
        LM_EXPECT(p != NULL && (unsigned long)p % align == 0);
        if (p != NULL) memset(p, 1, 5);
    }
    LM_EXPECT((unsigned long)loam_region_alloc(&region, 24) % 16 == 0);
    LM_EXPECT((unsigned long)LOAM_REGION_NEW(&region, u64) % 8 == 0);
    char *copy = loam_region_strdup(&region, "copied");
    LM_EXPECT(copy != NULL && strcmp(copy, "copied") == 0);
    LM_EXPECT(loam_region_check(&region));
    loam_region_deinit(&region);
}

static void frees_work_like_a_stack(void) {
    loam_region region;
    LM_EXPECT(loam_region_init(&region, pages, &tfw) == 0);
    u8 *first = loam_region_alloc(&region, 32), *second = loam_region_alloc(&region, 32);
    loam_region_free(&region, second, 32);
    LM_EXPECT(loam_region_alloc(&region, 32) == second);
    LM_EXPECT(loam_region_realloc(&region, second, 32, 96) == second);
    LM_EXPECT(loam_region_realloc(&region, second, 96, 16) == second);
    LM_EXPECT(loam_region_extend(&region, second, 16, 64));
    LM_EXPECT(!loam_region_extend(&region, first, 32, 64));
    /* Fills the page, begins another, and empties that: then the page before is current again,
     * where it was left. */
    bool new_page = false;
    u8 *last = NULL, *p = NULL;
    while (!new_page) {
        last = p;
        p = loam_region_alloc_told(&region, 256, &new_page);
        LM_EXPECT(p != NULL);
        if (p == NULL) break;
    }
    LM_EXPECT(last != NULL);
    loam_region_free(&region, p, 256);
    loam_region_free(&region, last, 256);
    LM_EXPECT(loam_region_alloc(&region, 256) == last);
    LM_EXPECT(loam_region_check(&region));
    loam_region_deinit(&region);
}

static void impossible_sizes_are_refused(void) {
    loam_region region;
    volatile size_t most = SIZE_MAX, three = 3;
    LM_EXPECT(loam_region_init(&region, pages, NULL) == 0);
    LM_EXPECT(loam_region_alloc(&region, most) == NULL);
    LM_EXPECT(loam_region_alloc(&region, most / 2 - 15) == NULL);
    LM_EXPECT(loam_region_calloc(&region, most / 2 + 2, three) == NULL);
    LM_EXPECT(loam_region_alloc_aligned(&region, 8, three) == NULL);
    LM_EXPECT(loam_region_alloc_aligned(&region, 8, most / 2 + 1) == NULL);
    LM_EXPECT(loam_region_alloc(&region, 0) != NULL);
    loam_region_free(&region, NULL, 8);
    LM_EXPECT(loam_region_check(&region));
    loam_region_deinit(&region);
}

static void exhaustion_gives_null_and_ends(void) {
    enum { MOST = 16 * PAGE_SIZE };
    loam_region region;
    loam_limit limit;
    loam_limit_init(&limit, pages, MOST);
    LM_EXPECT(loam_region_init(&region, &limit.source, &tfw) == 0);
    for (int round = 0; round < 3; round++) {
        size_t sum = 0;
        u8 *p;
        while ((p = loam_region_alloc(&region, 100)) != NULL) {
            memset(p, round, 100);
            sum += 100;
        }
        LM_EXPECT(sum > MOST / 2 && sum < MOST);
        LM_EXPECT(limit.used_bytes <= MOST);
        LM_EXPECT(loam_region_check(&region));
        loam_region_reset(&region);
    }
    loam_region_deinit(&region);
    LM_EXPECT(limit.used_bytes == 0);
}

static int cleaned;
static void clean(void *digit) { cleaned = cleaned * 10 + (int)(long)digit; }

static void marks_cleanups_and_children(void) {
    loam_region region, *child;
    cleaned = 0;
    LM_EXPECT(loam_region_init(&region, pages, &tfw) == 0);
    u8 *kept = loam_region_alloc(&region, 16);
    kept[0] = 7;
    LM_EXPECT(loam_region_add_cleanup(&region, clean, (void *)1) != NULL);
    loam_region_mark mark = loam_region_mark_here(&region);
    LM_EXPECT(loam_region_add_cleanup(&region, clean, (void *)2) != NULL);
    LM_EXPECT(loam_region_add_cleanup(&region, clean, (void *)3) != NULL);
    child = loam_region_create_child(&region, &tfw);
    LM_EXPECT(child != NULL);
    if (child != NULL) {
        LM_EXPECT(loam_region_add_cleanup(child, clean, (void *)4) != NULL);
        LM_EXPECT(loam_region_alloc(child, 3 * PAGE_SIZE) != NULL);
    }
    for (int i = 0; i < 100; i++) LM_EXPECT(loam_region_alloc(&region, 1000) != NULL);
    loam_region_rewind(&region, &mark);
    LM_EXPECT(cleaned == 432 && kept[0] == 7);
    LM_EXPECT(loam_region_check(&region));
    loam_region_deinit(&region);
    LM_EXPECT(cleaned == 4321);
}

static void object_lives_in_its_own_region(void) {
    loam_region *region;
    u64 *object = loam_region_create_object(pages, &tfw, 64, &region);
    loam_usage usage;
    LM_EXPECT(object != NULL && memchr_inv(object, 0, 64) == NULL);
    if (object == NULL) return;
    loam_region_usage(region, &usage);
    LM_EXPECT(usage.chunks == 1 && usage.held_bytes == PAGE_SIZE);
    LM_EXPECT(loam_region_alloc(region, 9 * PAGE_SIZE) != NULL);
    loam_region_destroy(region);
}

/* The mistakes are lines of the log; the mistaken calls do nothing. */
static void checked_region_finds_mistakes(void) {
    loam_region_options options = {.flags = LOAM_CHECK, .name = "selftest"};
    loam_region region;
    LM_EXPECT(loam_region_init(&region, pages, &options) == 0);
    u8 *p = loam_region_alloc(&region, 40), *q = loam_region_alloc(&region, 40);
    volatile size_t behind = 40;
    loam_region_free(&region, p, 40);
    /* A report: free after free. */
    loam_region_free(&region, p, 40);
    u8 guard = q[behind];
    q[behind] = (u8)~guard;
    /* A report: overflow. */
    LM_EXPECT(!loam_region_check(&region));
    q[behind] = guard;
    LM_EXPECT(loam_region_check(&region));
    /* A report: q. */
    LM_EXPECT(loam_registry_leaks() == 1);
    loam_region_deinit(&region);
    LM_EXPECT(loam_registry_leaks() == 0);
}

/* ---- Random programs ---- */

/* A source that refuses one in `every` calls at random; 0: no call. */
struct refusing {
    loam_source source;
    u32 state, every;
    long out;
};

static void *refusing_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    struct refusing *refusing = container_of(source, struct refusing, source);
    if (refusing->every != 0 && lm_random(&refusing->state) % refusing->every == 0) return NULL;
    void *p = loam_source_get(pages, bytes, align, got);
    if (p != NULL) refusing->out += (long)*got;
    return p;
}

static void refusing_put(loam_source *source, void *chunk, size_t got) {
    struct refusing *refusing = container_of(source, struct refusing, source);
    refusing->out -= (long)got;
    loam_source_put(pages, chunk, got);
}

static void random_programs(u32 every) {
    static const loam_region_options kinds[] = {
        LOAM_REGION_TFW,
        {.most_bytes = 64 * 1024, .large_bytes = 16 * 1024},
        {.first_bytes = 1024, .growth = LOAM_GROWTH_FIXED, .keep_bytes = 65536},
        {.flags = LOAM_CHECK, .name = "model"},
    };
    for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
        for (u32 seed = 1; seed <= 2; seed++) {
            struct refusing refusing = {
                .source = {refusing_get, refusing_put, "refusing", 0}, seed * 77, every};
            lm_model_run(&refusing.source, &kinds[i], seed * 7919 + i, fault == LM_BREAK_OBJECT);
            LM_EXPECT(refusing.out == 0);
        }
    }
}

static void random_programs_run(void) { random_programs(0); }
static void random_programs_run_where_memory_is_refused(void) { random_programs(3); }

/* ---- The list of tests ---- */

static void interrupts_find_the_cache_whole(void) { lm_interrupts_run(); }

static void pages_are_balanced(void) {
    size_t got;
    if (fault == LM_BREAK_LEAK) LM_EXPECT(loam_source_get(pages, PAGE_SIZE, 1, &got) != NULL);
    LM_EXPECT(loam_kernel_pages_ask().out == 0);
    loam_kernel_pages_drain();
    loam_kernel_pages_usage usage = loam_kernel_pages_ask();
    LM_EXPECT(usage.cached == 0 && usage.taken == usage.returned);
    LM_EXPECT(usage.taken > 0);
}

/* Leaves three pages in each processor's cache, for an observer outside. */
static int leave_here(void *unused) {
    void *page[3];
    size_t got;
    for (unsigned i = 0; i < ARRAY_SIZE(page); i++) {
        page[i] = loam_source_get(pages, PAGE_SIZE, 1, &got);
        LM_EXPECT(page[i] != NULL);
    }
    for (unsigned i = 0; i < ARRAY_SIZE(page); i++)
        if (page[i] != NULL) loam_source_put(pages, page[i], PAGE_SIZE);
    return 0;
}

static void pages_are_left_in_the_caches(void) {
    int cpu;
    cpus_read_lock();
    for_each_online_cpu(cpu) smp_call_on_cpu(cpu, leave_here, NULL, false);
    LM_EXPECT(loam_kernel_pages_ask().cached == 3 * num_online_cpus());
    cpus_read_unlock();
    LM_EXPECT(loam_kernel_pages_ask().out == 0);
}

#define TEST(name) \
    { name, #name }
static const struct test {
    void (*run)(void);
    const char *name;
} tests[] = {
    TEST(source_gives_pages_and_runs),
    TEST(source_knows_its_flags),
    TEST(cache_is_a_lifo_with_a_bound),
    TEST(objects_are_aligned),
    TEST(frees_work_like_a_stack),
    TEST(impossible_sizes_are_refused),
    TEST(exhaustion_gives_null_and_ends),
    TEST(marks_cleanups_and_children),
    TEST(object_lives_in_its_own_region),
    TEST(checked_region_finds_mistakes),
    TEST(random_programs_run),
    TEST(random_programs_run_where_memory_is_refused),
    TEST(interrupts_find_the_cache_whole),
    TEST(pages_are_balanced),
    TEST(pages_are_left_in_the_caches),
};

unsigned lm_selftest(int broken) {
    fault = broken;
    if (loam_kernel_pages_init(&kernel_pages, GFP_KERNEL) != 0) return 1;
    for (unsigned i = 0; i < ARRAY_SIZE(tests); i++) {
        unsigned before = wrong;
        tests[i].run();
        pr_info("loam_region: selftest: %s %s\n", tests[i].name, wrong == before ? "ok" : "FAILED");
        cond_resched();
    }
    if (wrong == 0) {
        pr_info("loam_region: selftest: passed, %zu tests, %u expectations\n", ARRAY_SIZE(tests),
                expected);
    } else {
        pr_err("loam_region: selftest: FAILED, %u of %u expectations\n", wrong, expected);
    }
    return wrong;
}

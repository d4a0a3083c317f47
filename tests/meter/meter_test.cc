/* meter_test.cc: what a metered library counts of regions, pools, blocks and the heap. */
#include "meter.h"

#include <unistd.h>

namespace {

using namespace metered;

size_t sum_of(const loam_meter_calls &calls) {
    size_t sum = 0;
    for (size_t count : calls.ns_of) sum += count;
    return sum;
}

/* ---- Counts ---- */

TEST(Meter, RegionsAreCounted) {
    Counted counted;
    loam_region *region = named_region(counted.source());
    void *a = loam_region_alloc(region, 100);
    void *b = loam_region_alloc_aligned(region, 50, 8);
    void *c = loam_region_calloc(region, 3, 7);
    b = loam_region_realloc_aligned(region, b, 50, 60, 8);
    loam_region_free(region, c, 21);
    loam_region_free(region, nullptr, 5);
    char *d = loam_region_strdup(region, "four");
    (void)a, (void)d;
    loam_meter_stats stats = stats_of("region", own_name());
    EXPECT_EQ(stats.allocators, 1u);
    EXPECT_EQ(stats.of[kAlloc].calls, 4u);
    EXPECT_EQ(stats.of[kFree].calls, 2u);
    EXPECT_EQ(stats.of[kRealloc].calls, 1u);
    EXPECT_EQ(stats.requested, 100u + 50 + 21 + 60 + 5);
    EXPECT_EQ(stats.used, 100u + 60 + 5);
    EXPECT_EQ(stats.used_most, 100u + 60 + 21);
    EXPECT_EQ(stats.held, counted.count.used_bytes);
    EXPECT_EQ(stats.requests, counted.count.gets);
    EXPECT_EQ(stats.of[kAlloc].failed, 0u);
    loam_region_destroy(region);
    stats = stats_of("region", own_name());
    EXPECT_EQ(stats.allocators, 0u);
    EXPECT_EQ(stats.used, 0u);
    EXPECT_EQ(stats.held, 0u);
    EXPECT_EQ(stats.of[kAlloc].calls, 4u) << "what was counted stays";
}

TEST(Meter, SlowCallsAreThoseThatTheSourceSaw) {
    Counted counted;
    loam_region *region = named_region(counted.source());
    size_t slow = 0, gets = counted.count.gets;
    for (int i = 0; i < 5000; i++) {
        ASSERT_NE(loam_region_alloc(region, 200), nullptr);
        slow += counted.count.gets != gets;
        gets = counted.count.gets;
        loam_meter_stats stats = stats_of("region", own_name());
        ASSERT_EQ(stats.of[kAlloc].slow, slow) << i;
        ASSERT_EQ(stats.held, counted.count.used_bytes);
        ASSERT_EQ(stats.requests, counted.count.gets);
    }
    EXPECT_GT(slow, 3u);
    void *large = loam_region_alloc(region, 100000);
    loam_region_free(region, large, 100000);
    loam_meter_stats stats = stats_of("region", own_name());
    EXPECT_EQ(stats.of[kAlloc].slow, slow + 1);
    EXPECT_EQ(stats.of[kFree].slow, 1u);
    EXPECT_EQ(stats.held, counted.count.used_bytes);
    size_t before = stats.of[kAlloc].slow;
    (void)loam_region_trim(region); /* slow itself, but no call of ours */
    ASSERT_NE(loam_region_alloc(region, 16), nullptr);
    EXPECT_LE(stats_of("region", own_name()).of[kAlloc].slow, before + 1);
    EXPECT_EQ(stats_of("region", own_name()).held, counted.count.used_bytes);
    loam_region_destroy(region);
}

TEST(Meter, OnesWithoutANameEndAsWell) {
    loam_meter_stats before = stats_of("region", "");
    loam_region *regions[3];
    for (loam_region *&region : regions) {
        region = loam_region_create(nullptr, nullptr);
        (void)!loam_region_alloc(region, 10000);
    }
    loam_meter_stats stats = stats_of("region", "");
    EXPECT_EQ(stats.allocators, before.allocators + 3);
    EXPECT_EQ(stats.used, before.used + 30000);
    for (loam_region *region : regions) loam_region_destroy(region);
    stats = stats_of("region", "");
    EXPECT_EQ(stats.allocators, before.allocators);
    EXPECT_EQ(stats.used, before.used);
    EXPECT_EQ(stats.held, before.held);
}

TEST(Meter, FailuresAreCountedAndChangeNothing) {
    Counted counted;
    loam_limit limit;
    loam_limit_init(&limit, counted.source(), 20000);
    loam_region *region = named_region(&limit.source);
    ASSERT_NE(region, nullptr);
    void *p = loam_region_alloc(region, 100);
    EXPECT_EQ(loam_region_alloc(region, 100000), nullptr);
    EXPECT_EQ(loam_region_realloc(region, p, 100, 100000), nullptr);
    loam_meter_stats stats = stats_of("region", own_name());
    EXPECT_EQ(stats.of[kAlloc].failed, 1u);
    EXPECT_EQ(stats.of[kRealloc].failed, 1u);
    EXPECT_EQ(stats.used, 100u);
    loam_region_destroy(region);
}

TEST(Meter, MarksBringBackWhatWasUsed) {
    loam_region *region = named_region(nullptr);
    (void)!loam_region_alloc(region, 10);
    loam_region_mark outer = loam_region_mark_here(region);
    (void)!loam_region_alloc(region, 20);
    loam_region_mark inner = loam_region_mark_here(region);
    (void)!loam_region_alloc(region, 5000);
    EXPECT_EQ(stats_of("region", own_name()).used, 5030u);
    loam_region_rewind(region, &inner);
    EXPECT_EQ(stats_of("region", own_name()).used, 30u);
    inner = loam_region_mark_here(region);
    (void)!loam_region_alloc(region, 7);
    loam_region_keep(region, &inner);
    EXPECT_EQ(stats_of("region", own_name()).used, 37u);
    inner = loam_region_mark_here(region);
    loam_region_rewind(region, &outer); /* past the inner one */
    EXPECT_EQ(stats_of("region", own_name()).used, 10u);
    (void)!loam_region_alloc(region, 3);
    loam_region_reset(region);
    EXPECT_EQ(stats_of("region", own_name()).used, 0u);
    loam_region_destroy(region);
}

TEST(Meter, MarksBeyondTheDeepestCountLater) {
    loam_region *region = named_region(nullptr);
    std::vector<loam_region_mark> marks;
    for (int i = 0; i < LOAM_METER_DEPTH + 10; i++) {
        (void)!loam_region_alloc(region, 1);
        marks.push_back(loam_region_mark_here(region));
    }
    for (size_t i = marks.size(); i-- > 0;) {
        loam_region_rewind(region, &marks[i]);
        size_t used = stats_of("region", own_name()).used;
        ASSERT_EQ(used, i >= LOAM_METER_DEPTH ? LOAM_METER_DEPTH + 10 : i + 1) << i;
    }
    loam_region_destroy(region);
}

TEST(Meter, FramesOfInlinePushAndPop) {
    /* As a stack's header would do it. */
    loam_region *region = named_region(nullptr);
    (void)!loam_region_alloc(region, 8);
    loam_meter_push(&region->entry);
    (void)!loam_region_alloc(region, 16);
    loam_meter_push(&region->entry);
    (void)!loam_region_alloc(region, 32);
    EXPECT_EQ(stats_of("region", own_name()).used, 56u);
    loam_meter_pop(&region->entry);
    EXPECT_EQ(stats_of("region", own_name()).used, 24u);
    loam_meter_pop(&region->entry);
    EXPECT_EQ(stats_of("region", own_name()).used, 8u);
    loam_meter_pop(&region->entry); /* one too many */
    EXPECT_EQ(stats_of("region", own_name()).used, 8u);
    loam_region_destroy(region);
}

TEST(Meter, PoolsAreCounted) {
    Counted counted;
    loam_pool pool;
    loam_pool_options options = {};
    options.name = own_name();
    ASSERT_EQ(loam_pool_init(&pool, counted.source(), 48, &options), 0);
    std::vector<void *> blocks;
    for (int i = 0; i < 1000; i++) blocks.push_back(loam_pool_alloc(&pool));
    for (int i = 0; i < 400; i++) loam_pool_free(&pool, blocks[i]);
    loam_pool_free(&pool, nullptr);
    loam_meter_stats stats = stats_of("pool", own_name());
    EXPECT_EQ(stats.of[kAlloc].calls, 1000u);
    EXPECT_EQ(stats.of[kFree].calls, 401u);
    EXPECT_EQ(stats.used, 600u * 48);
    EXPECT_EQ(stats.used_most, 1000u * 48);
    EXPECT_EQ(stats.held, counted.count.used_bytes);
    EXPECT_EQ(stats.requests, counted.count.gets);
    EXPECT_EQ(stats.of[kAlloc].slow, counted.count.gets) << "one request a slow call";
    loam_pool_reset(&pool);
    EXPECT_EQ(stats_of("pool", own_name()).used, 0u);
    EXPECT_GT(loam_pool_trim(&pool), 0u);
    EXPECT_EQ(stats_of("pool", own_name()).held, counted.count.used_bytes);
    loam_pool_deinit(&pool);
    EXPECT_EQ(stats_of("pool", own_name()).held, 0u);
}

TEST(Meter, AFixedPoolHoldsAllFromTheStart) {
    Counted counted;
    loam_pool pool;
    loam_pool_options options = {};
    options.name = own_name();
    options.flags = LOAM_FIXED;
    options.most_blocks = 10;
    ASSERT_EQ(loam_pool_init(&pool, counted.source(), 48, &options), 0);
    for (int i = 0; i < 12; i++) EXPECT_EQ(loam_pool_alloc(&pool) != nullptr, i < 10);
    loam_meter_stats stats = stats_of("pool", own_name());
    EXPECT_EQ(stats.held, counted.count.used_bytes);
    EXPECT_EQ(stats.requests, 1u);
    EXPECT_EQ(stats.of[kAlloc].failed, 2u);
    EXPECT_EQ(stats.of[kAlloc].slow, 0u);
    loam_pool_deinit(&pool);
}

/* AddressSanitizer would be shown what it hides. */
#if defined(__SANITIZE_ADDRESS__)
size_t countable(size_t) { return 0; }
#else
size_t countable(size_t bytes) { return bytes; }
#endif

TEST(Meter, BlocksAreCountedByWhatMayBeUsed) {
    Counted counted;
    loam_blocks blocks;
    loam_blocks_options options = {};
    options.name = own_name();
    options.source = counted.source();
    ASSERT_EQ(loam_blocks_init(&blocks, &options), 0);
    void *a = loam_blocks_alloc(&blocks, 100), *b = loam_blocks_alloc(&blocks, 3000);
    size_t of_a = countable(loam_blocks_usable_size(&blocks, a));
    size_t of_b = countable(loam_blocks_usable_size(&blocks, b));
    EXPECT_EQ(stats_of("blocks", own_name()).used, of_a + of_b);
    b = loam_blocks_realloc(&blocks, b, 70000);
    of_b = countable(loam_blocks_usable_size(&blocks, b));
    EXPECT_EQ(stats_of("blocks", own_name()).used, of_a + of_b);
    loam_blocks_free(&blocks, a);
    EXPECT_EQ(stats_of("blocks", own_name()).used, of_b);
    EXPECT_EQ(loam_blocks_realloc(&blocks, b, 0), nullptr);
    loam_meter_stats stats = stats_of("blocks", own_name());
    EXPECT_EQ(stats.used, 0u);
    EXPECT_EQ(stats.of[kRealloc].failed, 0u);
    EXPECT_EQ(stats.requested, 100u + 3000 + 70000);
    EXPECT_EQ(stats.held, counted.count.used_bytes);
    EXPECT_EQ(stats.requests, counted.count.gets);
    loam_blocks_deinit(&blocks);
}

/* used: of objects that may use so much; a checked build's meter counts what rounding adds, too. */
void expect_used(size_t used, size_t usable) {
#if defined(LOAM_DEBUG) || defined(LOAM_SECURE)
    EXPECT_GE(used, usable);
    EXPECT_LE(used, usable + usable / 4 + 64);
#else
    EXPECT_EQ(used, usable);
#endif
}

TEST(Meter, TheHeapIsCounted) {
    loam_meter_stats before = stats_of("heap", nullptr);
    void *a = loam_malloc(100), *b = loam_calloc(10, 10);
    size_t of_a = loam_usable_size(a), of_b = loam_usable_size(b);
    loam_meter_stats stats = stats_of("heap", nullptr);
    EXPECT_EQ(stats.of[kAlloc].calls - before.of[kAlloc].calls, 2u);
    expect_used(stats.used - before.used, of_a + of_b);
    EXPECT_EQ(stats.requested - before.requested, 200u);
    a = loam_realloc(a, 1000);
    expect_used(stats_of("heap", nullptr).used - before.used, loam_usable_size(a) + of_b);
    loam_free(a), loam_free(b), loam_free(nullptr);
    stats = stats_of("heap", nullptr);
    EXPECT_EQ(stats.used, before.used);
    EXPECT_EQ(stats.of[kFree].calls - before.of[kFree].calls, 3u);
    void *large = loam_malloc(1 << 20);
    EXPECT_GE(stats_of("heap", nullptr).held, size_t{1} << 20);
    EXPECT_GT(stats_of("heap", nullptr).of[kAlloc].slow, stats.of[kAlloc].slow);
    loam_free(large);
}

TEST(Meter, EveryFormOfTheHeapIsCountedOnce) {
    loam_meter_stats before = stats_of("heap", nullptr);
    void *const all[] = {
        loam_zalloc(10),
        loam_mallocarray(2, 5),
        loam_malloc_small(10),
        loam_zalloc_small(10),
        loam_malloc_aligned(10, 64),
        loam_zalloc_aligned(10, 64),
        loam_calloc_aligned(2, 5, 64),
        loam_malloc_aligned_offset(10, 64, 8),
        loam_zalloc_aligned_offset(10, 64, 8),
        loam_calloc_aligned_offset(2, 5, 64, 8),
        loam_strndup("1234567890", 9),
        loam_memdup("123456789", 10),
    };
    const size_t count = std::size(all);
    size_t usable = 0;
    for (void *p : all) usable += loam_usable_size(p);
    loam_meter_stats stats = stats_of("heap", nullptr);
    EXPECT_EQ(stats.of[kAlloc].calls - before.of[kAlloc].calls, count);
    EXPECT_EQ(stats.requested - before.requested, 10 * count);
    EXPECT_GE(stats.used - before.used, usable);
    EXPECT_LE(stats.used - before.used,
              usable + 64 * count); /* a block each, and what checks take of it */
    void *p = loam_expand(loam_rezalloc(all[0], 12), 13);
    p = loam_reallocf(loam_recalloc(p, 7, 2), 15);
    p = loam_realloc_aligned(p, 16, 64);
    p = loam_rezalloc_aligned(p, 17, 64);
    p = loam_recalloc_aligned(p, 2, 9, 64);
    p = loam_realloc_aligned_offset(p, 19, 64, 8);
    p = loam_rezalloc_aligned_offset(p, 20, 64, 8);
    p = loam_recalloc_aligned_offset(p, 3, 7, 64, 8);
    stats = stats_of("heap", nullptr);
    EXPECT_EQ(stats.of[kAlloc].calls - before.of[kAlloc].calls, count);
    EXPECT_EQ(stats.of[kRealloc].calls - before.of[kRealloc].calls, 10u);
    EXPECT_EQ(stats.of[kFree].calls, before.of[kFree].calls);
    EXPECT_EQ(loam_reallocf(p, SIZE_MAX), nullptr); /* fails, and frees */
    for (size_t i = 1; i < count; i++) loam_free(all[i]);
    stats = stats_of("heap", nullptr);
    EXPECT_EQ(stats.of[kRealloc].failed - before.of[kRealloc].failed, 1u);
    EXPECT_EQ(stats.of[kFree].calls - before.of[kFree].calls, count);
    EXPECT_EQ(stats.used, before.used);
}

TEST(Meter, TheHeapsLongWaysAreSlowCalls) {
    loam_meter_stats before = stats_of("heap", nullptr);
    std::vector<void *> small;
    for (int i = 0; i < 20000; i++) small.push_back(loam_malloc(200));
    loam_meter_stats stats = stats_of("heap", nullptr);
    EXPECT_GT(stats.of[kAlloc].slow, before.of[kAlloc].slow + 20) << "pages";
    EXPECT_LT(stats.of[kAlloc].slow, before.of[kAlloc].slow + 10000);
    for (void *p : small) loam_free(p);
    void *large = loam_malloc(size_t{64} << 20);
    loam_meter_stats more = stats_of("heap", nullptr);
    EXPECT_GT(more.requests, before.requests);
    EXPECT_GE(more.held_in_all, before.held_in_all + (size_t{32} << 20));
    loam_free(large);
}

TEST(Meter, ExchangesBetweenThreadsAreSlowCalls) {
    Counted counted;
    loam_blocks blocks;
    loam_blocks_options options = {};
    options.name = own_name();
    options.source = counted.source();
    options.flags = LOAM_THREADS;
    ASSERT_EQ(loam_blocks_init(&blocks, &options), 0);
    bool cached = blocks.cached_below != 0; /* not in checked builds, nor where a tool watches */
    std::vector<void *> all;
    for (int i = 0; i < 5000; i++) all.push_back(loam_blocks_alloc(&blocks, 64));
    loam_meter_stats stats = stats_of("blocks", own_name());
    EXPECT_GE(stats.of[kAlloc].slow, counted.count.gets - 1);
    if (cached) {
        EXPECT_GT(stats.of[kAlloc].slow, 2 * counted.count.gets);
    }
    for (void *p : all) loam_blocks_free(&blocks, p);
    if (cached) {
        EXPECT_GT(stats_of("blocks", own_name()).of[kFree].slow, 5u);
    }
    loam_blocks_deinit(&blocks);
}

TEST(Meter, LiveObjectsEndWithTheirAllocator) {
    loam_blocks blocks;
    loam_blocks_options options = {};
    options.name = own_name();
    ASSERT_EQ(loam_blocks_init(&blocks, &options), 0);
    (void)!loam_blocks_alloc(&blocks, 100);
    loam_blocks_reset(&blocks);
    EXPECT_EQ(stats_of("blocks", own_name()).used, 0u);
    (void)!loam_blocks_alloc(&blocks, 100);
    loam_blocks_deinit(&blocks);
    EXPECT_EQ(stats_of("blocks", own_name()).used, 0u);
    EXPECT_EQ(stats_of("blocks", own_name()).allocators, 0u);
    /* Its memory gone without a word, and another set up in its place. */
    static char memory[4096];
    static loam_pool pool;
    loam_pool_options of_pool = {};
    loam_meter_stats first = stats_of("pool", "");
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(loam_pool_init_buffer(&pool, memory, sizeof(memory), 64, &of_pool), 0);
        loam_meter_stats before = stats_of("pool", "");
        (void)!loam_pool_alloc(&pool);
        EXPECT_EQ(stats_of("pool", "").used, before.used + 64);
        EXPECT_EQ(before.used, first.used) << i;
    }
    loam_pool_deinit(&pool);
}

TEST(Meter, CppWrappersAreCounted) {
    loam_region_options options = {};
    options.name = own_name();
    loam::region region(options);
    loam::region_resource resource(region);
    std::pmr::vector<int> numbers(&resource);
    for (int i = 0; i < 100; i++) numbers.push_back(i);
    (void)!region.make<int>(5);
    loam_meter_stats stats = stats_of("region", own_name());
    EXPECT_EQ(stats.of[kAlloc].calls, 9u) << "8 vectors of 1 to 128, and one int";
    EXPECT_EQ(stats.used, numbers.capacity() * sizeof(int) + sizeof(int));
}

TEST(Meter, WhatTheLibraryAllocatesForTheProgramCounts) {
    loam_region *region = named_region(nullptr);
    (void)!loam_region_sprintf(region, "%d", 12345);
    (void)!loam_region_memdup(region, "abc", 3);
    (void)!loam_region_strndup(region, "abcdef", 4);
    (void)!LOAM_REGION_NEW(region, int);
    (void)!LOAM_REGION_ARRAY(region, int, 10);
    loam_alloc alloc = loam_region_as_alloc(region);
    void *p = loam_alloc_alloc(alloc, 100, 8);
    p = loam_alloc_realloc(alloc, p, 100, 200, 8);
    loam_alloc_free(alloc, p, 200, 8);
    loam_meter_stats stats = stats_of("region", own_name());
    EXPECT_EQ(stats.of[kAlloc].calls, 6u);
    EXPECT_EQ(stats.of[kRealloc].calls, 1u);
    EXPECT_EQ(stats.of[kFree].calls, 1u);
    EXPECT_EQ(stats.used, 6u + 3 + 5 + 4 + 40);
    loam_region_destroy(region);
}

TEST(Meter, PoolsOfASetAndByHandle) {
    loam_pool pools[2];
    const size_t sizes[] = {32, 64};
    loam_pool_options options = {};
    options.name = own_name();
    loam_pool_set set;
    ASSERT_EQ(loam_pool_set_init(&set, pools, sizes, 2, nullptr, &options, 100, nullptr), 0);
    void *a = loam_pool_set_alloc(&set, 30), *b = loam_pool_set_alloc(&set, 60);
    EXPECT_EQ(stats_of("pool", own_name()).used, 96u);
    EXPECT_EQ(stats_of("pool", own_name()).allocators, 2u);
    loam_pool_set_free(&set, a), loam_pool_set_free(&set, b);
    loam_pool_set_deinit(&set);
    loam_pool pool;
    options.flags = LOAM_POOL_HANDLES;
    ASSERT_EQ(loam_pool_init(&pool, nullptr, 48, &options), 0);
    loam_handle handle = loam_pool_alloc_handle(&pool);
    EXPECT_EQ(stats_of("pool", own_name()).used, 48u);
    EXPECT_TRUE(loam_pool_free_handle(&pool, handle));
    EXPECT_FALSE(loam_pool_free_handle(&pool, handle)) << "stale, and nothing is freed twice";
    EXPECT_EQ(stats_of("pool", own_name()).used, 0u);
    EXPECT_EQ(stats_of("pool", own_name()).of[kFree].calls, 4u);
    loam_pool_deinit(&pool);
}

TEST(Meter, ResizingInPlace) {
    loam_region *region = named_region(nullptr);
    void *p = loam_region_alloc(region, 10);
    bool new_chunk;
    EXPECT_TRUE(loam_region_extend(region, p, 10, 30));
    EXPECT_EQ(stats_of("region", own_name()).used, 30u);
    void *q = loam_region_alloc_told(region, 20, &new_chunk);
    EXPECT_FALSE(loam_region_extend(region, p, 30, 500));
    (void)q;
    loam_meter_stats stats = stats_of("region", own_name());
    EXPECT_EQ(stats.used, 50u);
    EXPECT_EQ(stats.of[kRealloc].calls, 2u);
    loam_region_destroy(region);
}

TEST(Meter, OnesThatFollowEachOtherShareAMeter) {
    for (int i = 0; i < 1000; i++) {
        loam_region *region = named_region(nullptr);
        (void)!loam_region_alloc(region, 10);
        loam_region_destroy(region);
    }
    loam_meter_stats stats = stats_of("region", own_name());
    EXPECT_EQ(stats.of[kAlloc].calls, 1000u);
    EXPECT_EQ(stats.used, 0u);
    EXPECT_LT(stats_of("others", nullptr).of[kAlloc].calls, 1u);
}

TEST(Meter, MoreThanThereAreMetersAreTogether) {
    /* In a child: meters are not given back to other names. */
    EXPECT_EXIT(
        {
            std::vector<loam_region *> regions;
            for (int i = 0; i < 400; i++) {
                regions.push_back(named_region(nullptr));
                (void)!loam_region_alloc(regions.back(), 10);
            }
            loam_meter_stats own = stats_of("region", "MoreThanThereAreMetersAreTogether");
            loam_meter_stats others = stats_of("others", nullptr);
            bool all = own.of[kAlloc].calls + others.of[kAlloc].calls == 400 && others.used == 0;
            bool most = own.allocators <= LOAM_METER_MOST && own.allocators > 200;
            for (loam_region *region : regions) loam_region_destroy(region);
            own = stats_of("region", "MoreThanThereAreMetersAreTogether");
            _exit(all && most && own.used == 0 && own.held == 0 && own.allocators == 0 ? 0 : 1);
        },
        testing::ExitedWithCode(0), "");
}

TEST(Meter, ResetForgetsCallsButNotObjects) {
    loam_region *region = named_region(nullptr);
    (void)!loam_region_alloc(region, 10);
    size_t held = stats_of("region", own_name()).held;
    loam_meter_reset();
    loam_meter_stats stats = stats_of("region", own_name());
    EXPECT_EQ(stats.of[kAlloc].calls, 0u);
    EXPECT_EQ(sum_of(stats.of[kAlloc]), 0u);
    (void)!loam_region_alloc(region, 5);
    stats = stats_of("region", own_name());
    EXPECT_EQ(stats.used, 15u);
    EXPECT_EQ(stats.held, held);
    EXPECT_EQ(stats.requested, 5u);
    loam_region_destroy(region);
    EXPECT_FALSE(loam_meter_read("region", "nobody's", &stats));
    EXPECT_EQ(stats.of[kAlloc].calls, 0u);
}

} // namespace

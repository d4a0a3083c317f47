/* meter_test.cc: what a metered library counts of regions, pools, blocks and the heap, and the rows that it writes. */
#undef LOAM_METER
#define LOAM_METER 2
#include "loam/blocks.hpp"
#include "loam/loam.h"
#include "loam/pool.hpp"
#include "loam/region.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr unsigned kAlloc = LOAM_METER_ALLOC, kFree = LOAM_METER_FREE,
                   kRealloc = LOAM_METER_REALLOC;

loam_meter_stats stats_of(const char *kind, const char *name) {
    loam_meter_stats stats;
    loam_meter_read(kind, name, &stats);
    return stats;
}

size_t sum_of(const loam_meter_calls &calls) {
    size_t sum = 0;
    for (size_t count : calls.ns_of) sum += count;
    return sum;
}

/* A source that counts, so that what meters say can be held against it. */
struct Counted {
    Counted() { loam_count_init(&count, loam_heap()); }
    loam_source *source() { return &count.source; }
    loam_count count;
};

/* A name of the test's own, which no other test's allocators share. */
const char *own_name() { return testing::UnitTest::GetInstance()->current_test_info()->name(); }

loam_region *named_region(loam_source *source) {
    loam_region_options options = {};
    options.name = own_name();
    return loam_region_create(source, &options);
}

using Row = std::map<std::string, std::string>;

struct Csv {
    std::vector<Row> rows;
    std::vector<std::string> notes;
};

Csv read_csv(const std::string &path) {
    Csv csv;
    std::ifstream file(path);
    std::string line;
    std::vector<std::string> names;
    while (std::getline(file, line)) {
        if (line[0] == '#') {
            csv.notes.push_back(line);
            continue;
        }
        std::stringstream cells(line);
        std::string cell;
        std::vector<std::string> all;
        while (std::getline(cells, cell, ',')) all.push_back(cell);
        if (names.empty()) {
            names = all;
            continue;
        }
        EXPECT_EQ(all.size(), names.size()) << line;
        Row row;
        for (size_t i = 0; i < all.size() && i < names.size(); i++) row[names[i]] = all[i];
        csv.rows.push_back(row);
    }
    return csv;
}

struct Path {
    Path() {
        std::string text = testing::TempDir() + "/loam-meter-XXXXXX";
        int fd = mkstemp(text.data());
        close(fd);
        path = text;
    }
    ~Path() { unlink(path.c_str()); }
    std::string path;
};

std::vector<Row> rows_of(const Csv &csv, const char *kind, const char *name) {
    std::vector<Row> rows;
    for (const Row &row : csv.rows) {
        if (row.at("allocator") == kind && row.at("name") == name) rows.push_back(row);
    }
    return rows;
}

size_t number(const Row &row, const char *column) {
    return strtoull(row.at(column).c_str(), nullptr, 10);
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

/* used: of objects that may use so much; a debug build's meter counts what rounding adds, too. */
void expect_used(size_t used, size_t usable) {
#ifdef LOAM_DEBUG
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

TEST(Meter, CppWrappersAreCounted) {
    loam_region_options options = {};
    options.name = own_name();
    loam::region region(options);
    loam::region_resource resource(region);
    std::pmr::vector<int> numbers(&resource);
    for (int i = 0; i < 100; i++) numbers.push_back(i);
    (void)!region.create<int>(5);
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

/* ---- Time ---- */

TEST(Meter, HistogramsSumUpToCalls) {
    loam_region *region = named_region(nullptr);
    for (int i = 0; i < 10000; i++) {
        void *p = loam_region_alloc(region, 64);
        if (i % 2 == 0) loam_region_free(region, p, 64);
        if (i % 5 == 0) (void)!loam_region_realloc(region, nullptr, 0, 10);
    }
    loam_meter_stats stats = stats_of("region", own_name());
    EXPECT_EQ(stats.of[kAlloc].calls, 10000u);
    EXPECT_EQ(stats.of[kFree].calls, 5000u);
    EXPECT_EQ(stats.of[kRealloc].calls, 2000u);
    for (const loam_meter_calls &calls : stats.of) {
        EXPECT_EQ(sum_of(calls), calls.calls);
        EXPECT_EQ(calls.timed, calls.calls);
        EXPECT_GT(calls.ns, 0u);
        EXPECT_LE(calls.ns_most, calls.ns);
        EXPECT_LT(calls.ns / calls.calls, 1000000u) << "a millisecond for an addition";
        /* The sum lies between those of the buckets' ends. */
        size_t least = 0, most = 0;
        for (size_t b = 0; b < LOAM_METER_BUCKETS; b++) {
            least += b == 0 ? 0 : calls.ns_of[b] << b;
            most += calls.ns_of[b] << (b + 1);
        }
        EXPECT_GE(calls.ns, least);
        EXPECT_LE(calls.ns, most);
    }
    loam_region_destroy(region);
}

struct Sleepy {
    loam_source source;
    static void *get(loam_source *, size_t bytes, size_t, size_t *got) {
        usleep(20000);
        return malloc(*got = bytes);
    }
    static void put(loam_source *, void *chunk, size_t) { free(chunk); }
};

TEST(Meter, ASlowSourceShowsInNanoseconds) {
    Sleepy sleepy = {{Sleepy::get, Sleepy::put, "sleepy", 0}};
    loam_pool pool;
    loam_pool_options options = {};
    options.name = own_name();
    ASSERT_EQ(loam_pool_init(&pool, &sleepy.source, 48, &options), 0);
    (void)!loam_pool_alloc(&pool);
    loam_meter_stats stats = stats_of("pool", own_name());
    EXPECT_GE(stats.of[kAlloc].ns_most, 19900000u);
    EXPECT_LT(stats.of[kAlloc].ns_most, 2000000000u);
    loam_pool_deinit(&pool);
}

/* ---- Rows ---- */

TEST(Rows, OneEvery300OperationsAndOneForEachSlowCall) {
    Path file;
    Counted counted;
    loam_region *region = named_region(counted.source());
    ASSERT_EQ(loam_meter_start(file.path.c_str()), 0);
    std::map<size_t, size_t> slow; /* by operation: what the source had given out then */
    size_t used = 0;
    for (size_t i = 1; i <= 3000; i++) {
        size_t gets = counted.count.gets;
        (void)!loam_region_alloc(region, 64);
        used += 64;
        if (counted.count.gets != gets) slow[i] = counted.count.used_bytes;
    }
    loam_meter_stop();
    Csv csv = read_csv(file.path);
    std::vector<Row> rows = rows_of(csv, "region", own_name());
    std::map<size_t, Row> by_operation;
    for (const Row &row : rows) by_operation[number(row, "operation")] = row;
    EXPECT_EQ(by_operation.size(), rows.size()) << "one row an operation";
    size_t expected = slow.size();
    for (size_t i = 300; i <= 3000; i += 300) {
        expected += slow.count(i) == 0;
        EXPECT_EQ(by_operation.count(i), 1u) << i;
    }
    EXPECT_EQ(rows.size(), expected);
    EXPECT_GT(slow.size(), 2u);
    for (auto &one : slow) {
        ASSERT_EQ(by_operation.count(one.first), 1u) << one.first;
        const Row &row = by_operation[one.first];
        EXPECT_EQ(row.at("slow"), "1");
        EXPECT_EQ(row.at("function"), "alloc");
        EXPECT_EQ(number(row, "held"), one.second);
        EXPECT_EQ(number(row, "used"), one.first * 64);
        EXPECT_EQ(number(row, "requested"), one.first * 64);
        EXPECT_EQ(number(row, "allocs"), one.first);
    }
    size_t entry = 0, ns = 0;
    for (const Row &row : csv.rows) {
        EXPECT_EQ(number(row, "entry"), ++entry);
        EXPECT_GE(number(row, "ns"), ns);
        ns = number(row, "ns");
    }
    bool found = false;
    for (const std::string &note : csv.notes)
        found |= note.find(std::string("# histogram,region,") + own_name() + ",") == 0;
    EXPECT_TRUE(found);
    loam_region_destroy(region);
}

TEST(Rows, ManyMoreThanTheBufferHolds) {
    Path file;
    loam_region *region = named_region(nullptr);
    ASSERT_EQ(loam_meter_start(file.path.c_str()), 0);
    for (int i = 0; i < 600000; i++) {
        void *p = loam_region_alloc(region, 64);
        loam_region_free(region, p, 64);
    }
    loam_meter_stop();
    std::vector<Row> rows = rows_of(read_csv(file.path), "region", own_name());
    EXPECT_GE(rows.size(), 4000u);
    EXPECT_EQ(number(rows.back(), "operation"), 1200000u);
    loam_region_destroy(region);
}

TEST(Rows, NamesThatWouldDisturbAreChanged) {
    Path file;
    loam_region_options options = {};
    options.name = "a,b \"c\"\nand more than forty-seven characters in all";
    loam_region *region = loam_region_create(nullptr, &options);
    ASSERT_EQ(loam_meter_start(file.path.c_str()), 0);
    for (int i = 0; i < 300; i++) (void)!loam_region_alloc(region, 1);
    loam_meter_stop();
    EXPECT_GE(
        rows_of(read_csv(file.path), "region", "a_b__c__and_more_than_forty-seven_characters_in")
            .size(),
        1u);
    loam_region_destroy(region);
}

TEST(Rows, ABadPathIsALineAndNothingElse) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(loam_meter_start("/nowhere/at/all"), -ENOENT);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "loam: meter: cannot write /nowhere/at/all: No such file or directory\n");
    EXPECT_EQ(loam_meter_start_fd(-1), -EINVAL);
    loam_meter_stop();
}

TEST(Rows, AFullDiskEndsThemWithALine) {
    int full = open("/dev/full", O_WRONLY);
    if (full < 0) GTEST_SKIP() << "there is no /dev/full";
    testing::internal::CaptureStderr();
    EXPECT_EQ(loam_meter_start_fd(full), 0);
    loam_meter_stop();
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "loam: meter: rows cannot be written, and stop\n");
    close(full);
}

TEST(Rows, TheProcessNumberInAPath) {
    std::string base = testing::TempDir() + "/loam-meter-" + own_name() + "-";
    ASSERT_EQ(loam_meter_start((base + "%p.csv").c_str()), 0);
    loam_meter_stop();
    std::string path = base + std::to_string(getpid()) + ".csv";
    EXPECT_EQ(access(path.c_str(), R_OK), 0);
    unlink(path.c_str());
}

TEST(Rows, StopInAForkedChildAndGoOnInTheParent) {
    Path file, childs;
    loam_region *region = named_region(nullptr);
    ASSERT_EQ(loam_meter_start(file.path.c_str()), 0);
    for (int i = 0; i < 600; i++) (void)!loam_region_alloc(region, 1);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100000; i++) (void)!loam_region_alloc(region, 64);
        loam_meter_stop(); /* not ours */
        if (loam_meter_start(childs.path.c_str()) != 0) _exit(1);
        loam_meter_reset();
        for (int i = 0; i < 300; i++) (void)!loam_region_alloc(region, 1);
        loam_meter_stop();
        loam_meter_stats stats = stats_of("region", own_name());
        _exit(stats.of[kAlloc].calls == 300 ? 0 : 2);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    for (int i = 0; i < 300; i++) (void)!loam_region_alloc(region, 1);
    loam_meter_stop();
    Csv csv = read_csv(file.path);
    std::vector<Row> rows = rows_of(csv, "region", own_name());
    ASSERT_GE(rows.size(), 3u);
    EXPECT_EQ(number(rows.back(), "operation"), 900u);
    EXPECT_EQ(number(csv.rows.back(), "entry"), csv.rows.size());
    EXPECT_GE(rows_of(read_csv(childs.path), "region", own_name()).size(), 1u);
    loam_region_destroy(region);
}

TEST(Rows, TheTableHasAllFunctionsAndBars) {
    Path file;
    loam_region *region = named_region(nullptr);
    for (int i = 0; i < 10; i++) (void)!loam_region_alloc(region, 10);
    int fd = open(file.path.c_str(), O_WRONLY);
    loam_meter_print(fd);
    close(fd);
    std::ifstream text(file.path);
    std::stringstream all;
    all << text.rdbuf();
    EXPECT_NE(
        all.str().find(std::string("region ") + own_name() + ": used 100 (at most 100), held "),
        std::string::npos)
        << all.str();
    EXPECT_NE(all.str().find("  alloc: 10 calls, "), std::string::npos);
    EXPECT_NE(all.str().find(" ns: "), std::string::npos);
    EXPECT_NE(all.str().find("#"), std::string::npos);
    loam_region_destroy(region);
}

/* ---- Threads ---- */

TEST(Threads, NothingIsLostOrCountedTwice) {
    constexpr size_t kThreads = 4, kTimes = 20000;
    Path file;
    loam_blocks blocks;
    loam_blocks_options options = {};
    options.name = own_name();
    options.flags = LOAM_THREADS;
    ASSERT_EQ(loam_blocks_init(&blocks, &options), 0);
    loam_shared_pool pool;
    loam_pool_options pool_options = {};
    pool_options.name = own_name();
    ASSERT_EQ(loam_shared_pool_init(&pool, nullptr, 64, &pool_options), 0);
    loam_meter_stats before = stats_of("heap", nullptr);
    ASSERT_EQ(loam_meter_start(file.path.c_str()), 0);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; t++) {
        threads.emplace_back([&] {
            loam_region *own = named_region(nullptr);
            for (size_t i = 0; i < kTimes; i++) {
                void *a = loam_blocks_alloc(&blocks, i % 500), *b = loam_shared_pool_alloc(&pool);
                void *c = loam_malloc(i % 2000);
                (void)!loam_region_alloc(own, 3);
                loam_blocks_free(&blocks, a);
                if (i % 10 != 0) loam_shared_pool_free(&pool, b);
                loam_free(c);
            }
            loam_region_destroy(own);
        });
    }
    for (std::thread &thread : threads) thread.join();
    loam_meter_stop();
    loam_meter_stats of_blocks = stats_of("blocks", own_name());
    EXPECT_EQ(of_blocks.of[kAlloc].calls, kThreads * kTimes);
    EXPECT_EQ(of_blocks.of[kFree].calls, kThreads * kTimes);
    EXPECT_EQ(of_blocks.used, 0u);
    EXPECT_EQ(sum_of(of_blocks.of[kAlloc]), kThreads * kTimes);
    loam_meter_stats of_pool = stats_of("pool", own_name());
    EXPECT_EQ(of_pool.of[kAlloc].calls, kThreads * kTimes);
    EXPECT_EQ(of_pool.used, kThreads * kTimes / 10 * 64);
    EXPECT_EQ(stats_of("region", own_name()).of[kAlloc].calls, kThreads * kTimes);
    loam_meter_stats heap = stats_of("heap", nullptr);
    EXPECT_GE(heap.of[kAlloc].calls - before.of[kAlloc].calls, kThreads * kTimes);
    EXPECT_EQ(heap.used, before.used);
    Csv csv = read_csv(file.path);
    EXPECT_EQ(number(csv.rows.back(), "entry"), csv.rows.size());
    loam_shared_pool_deinit(&pool);
    loam_blocks_deinit(&blocks);
}

} // namespace

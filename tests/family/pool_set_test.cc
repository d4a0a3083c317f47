// pool_set_test.cc: several pools, a request to the block that fits it best, and to a fallback
// where none does.
#include "unit/stderr_of.h"

#include "loam/pool.h"

#include "family/pool_sources.h"

#include <gtest/gtest.h>

extern "C" {
#include "family/family.h"
}

#include <cstring>
#include <map>
#include <vector>

namespace {

using unit::stderr_of;

constexpr size_t kSizes[] = {32, 64, 256, 1024};

struct Set {
    Counted fallback; // outlives the set
    loam_pool pools[4];
    loam_pool_set set;
    explicit Set(unsigned tolerance = 400, const loam_pool_options *options = nullptr,
                 size_t most_bytes = SIZE_MAX)
        : fallback(loam_heap_source(), most_bytes) {
        if (loam_pool_set_init(&set, pools, kSizes, 4, nullptr, options, tolerance,
                               &fallback.source) != 0)
            abort();
    }
    ~Set() { loam_pool_set_deinit(&set); }
    void *alloc(size_t bytes) { return loam_pool_set_alloc(&set, bytes); }
    void free(void *p) { loam_pool_set_free(&set, p); }
    /* Bytes of the block's pool; 0: of none. */
    size_t from(const void *p) {
        loam_pool *pool = loam_pool_set_owner(&set, p);
        return pool == nullptr ? 0 : loam_pool_block_bytes(pool);
    }
};

TEST(PoolSet, ARequestGetsTheBestFit) {
    Set s;
    struct {
        size_t bytes, from;
    } cases[] = {{0, 0},    {1, 0},    {6, 0},    {7, 32},    {31, 32},    {32, 32},
                 {33, 64},  {64, 64},  {65, 256}, {256, 256}, {257, 1024}, {1024, 1024},
                 {1025, 0}, {5000, 0}, {51, 64},  {52, 64},   {205, 256}};
    for (auto &c : cases) {
        void *p = s.alloc(c.bytes);
        ASSERT_NE(p, nullptr);
        memset(p, 1, c.bytes);
        EXPECT_EQ(s.from(p), c.from) << c.bytes << ": a block is at most five times the request";
        EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 16, 0u);
        s.free(p);
    }
    EXPECT_EQ(s.set.fallback_objects, 0u);
    EXPECT_EQ(s.set.fallback_bytes, 0u);
}

TEST(PoolSet, ToleranceIsInPerCentOfTheRequest) {
    struct {
        unsigned tolerance;
        size_t bytes, from;
    } cases[] = {{0, 32, 32},  {0, 31, 0},      {25, 52, 64},  {25, 51, 0},         {100, 16, 32},
                 {100, 15, 0}, {100, 128, 256}, {100, 127, 0}, {4000000000u, 1, 32}};
    for (auto &c : cases) {
        Set s(c.tolerance);
        void *p = s.alloc(c.bytes);
        EXPECT_EQ(s.from(p), c.from) << c.bytes << " within " << c.tolerance;
        s.free(p);
    }
}

TEST(PoolSet, AFullPoolLeadsToTheNextWithinTheToleranceAndThenToTheFallback) {
    loam_pool_options options = {};
    options.most_blocks = 10;
    Set s(400, &options);
    std::vector<void *> all;
    size_t count[5] = {};
    for (int i = 0; i < 40; i++) {
        void *p = s.alloc(60);
        all.push_back(p);
        size_t from = s.from(p);
        count[from == 0 ? 4 : from == 32 ? 0 : from == 64 ? 1 : from == 256 ? 2 : 3]++;
    }
    EXPECT_EQ(count[0], 0u);
    EXPECT_EQ(count[1], 10u);
    EXPECT_EQ(count[2], 10u);
    EXPECT_EQ(count[3], 0u) << "more than five times as large";
    EXPECT_EQ(count[4], 20u);
    EXPECT_EQ(s.set.fallback_objects, 20u);
    for (void *p : all) s.free(p);
    EXPECT_EQ(s.set.fallback_objects, 0u);
    EXPECT_EQ(s.fallback.used_bytes, 0u);
}

TEST(PoolSet, NothingLeftIsNull) {
    loam_pool_options options = {};
    options.most_blocks = 2;
    Set s(400, &options, 8000);
    std::vector<void *> all;
    while (void *p = s.alloc(1000)) all.push_back(p);
    EXPECT_GE(all.size(), 2u + 7);
    EXPECT_LE(all.size(), 2u + 8);
    EXPECT_EQ(s.alloc(PTRDIFF_MAX), nullptr);
    EXPECT_EQ(s.alloc(SIZE_MAX), nullptr);
    EXPECT_EQ(s.alloc(SIZE_MAX - 15), nullptr);
    for (void *p : all) s.free(p);
    s.free(nullptr);
}

TEST(PoolSet, RefusesWhatItCannotBe) {
    loam_pool pools[2];
    loam_pool_set set;
    size_t equal[] = {64, 64}, falling[] = {64, 32}, zero[] = {0, 32}, huge[] = {32, SIZE_MAX};
    for (size_t *sizes : {equal, falling, zero, huge})
        EXPECT_EQ(loam_pool_set_init(&set, pools, sizes, 2, nullptr, nullptr, 0, nullptr), -22);
    EXPECT_EQ(loam_pool_set_init(&set, pools, equal, 0, nullptr, nullptr, 0, nullptr), -22);
    Counted none(loam_pages(), 5000);
    loam_pool_options options = {};
    options.flags = LOAM_FIXED;
    options.most_blocks = 100;
    size_t sizes[] = {16, 1024};
    EXPECT_EQ(loam_pool_set_init(&set, pools, sizes, 2, &none.source, &options, 0, nullptr), -12);
    EXPECT_EQ(none.used_bytes, 0u) << "the first one is taken down again";
}

TEST(PoolSet, RandomPrograms) {
    for (unsigned flags : {0u, unsigned(LOAM_CHECK), unsigned(LOAM_HARDEN)}) {
        for (uint64_t seed = 1; seed <= 4; seed++) {
            loam_pool_options options = {};
            options.flags = flags;
            options.most_blocks = 50;
            Set s(300, &options);
            struct Object {
                unsigned char *p;
                size_t bytes;
                unsigned char stamp;
            };
            std::vector<Object> live;
            uint64_t state = seed;
            auto random = [&state](size_t below) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                return size_t(state >> 11) % below;
            };
            for (int i = 0; i < 5000; i++) {
                if (random(100) < 55 - (live.size() > 300 ? 20 : 0)) {
                    size_t bytes = random(1 + random(1500));
                    auto *p = static_cast<unsigned char *>(s.alloc(bytes));
                    ASSERT_NE(p, nullptr);
                    memset(p, i, bytes);
                    live.push_back({p, bytes, static_cast<unsigned char>(i)});
                } else if (!live.empty()) {
                    size_t at = random(live.size());
                    for (size_t b = 0; b < live[at].bytes; b++)
                        ASSERT_EQ(live[at].p[b], live[at].stamp);
                    s.free(live[at].p);
                    live[at] = live.back();
                    live.pop_back();
                }
            }
            size_t objects = s.set.fallback_objects;
            for (loam_pool &pool : s.pools) {
                EXPECT_TRUE(loam_pool_check(&pool));
                loam_usage usage;
                loam_pool_usage(&pool, &usage);
                objects += usage.objects;
            }
            EXPECT_EQ(objects, live.size());
            for (Object &object : live) s.free(object.p);
        }
    }
}

TEST(PoolSet, WhatIsNobodysIsNotFreed) {
    loam_pool_options options = {};
    options.name = "small";
    Set s(0, &options);
    alignas(16) static char memory[256];
    lm_misuse_policy.ignore = true;
    for (int at : {64, 65}) {
        std::string text = stderr_of([&] { s.free(memory + at); });
        EXPECT_EQ(text.substr(0, 29), "loam: pool set small: free of") << text;
        EXPECT_NE(text.find(", which is no object of it (at "), std::string::npos) << text;
        EXPECT_NE(text.find("pool_set_test.cc:"), std::string::npos) << text;
    }
    void *p = s.alloc(5000);
    auto *copy = static_cast<char *>(malloc(6000));
    char *moved = copy + 16 + (16 - reinterpret_cast<uintptr_t>(copy) % 16) % 16;
    memcpy(moved - 16, static_cast<char *>(p) - 16, 16);
    EXPECT_NE(stderr_of([&] { s.free(moved); }).find("no object of it"), std::string::npos)
        << "a copy of an object's head is none";
    free(copy);
    lm_misuse_policy.ignore = false;
    s.free(p);
    EXPECT_EQ(s.set.fallback_objects, 0u);
}

} // namespace

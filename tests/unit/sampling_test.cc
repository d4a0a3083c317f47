/* sampling_test.cc: sampled objects as callers of malloc and realloc see them, their number, and
 * their addresses. */
#include "heap_unit.h"

#include <loam/loam.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <vector>

namespace {

class Sampling : public testing::Test {
  protected:
    void SetUp() override { ASSERT_EQ(loam_sampling_set(1), 0); }
    void TearDown() override {
        EXPECT_EQ(loam_sampling_set(0), 0);
        lm_heap_check();
        lm_span_check();
    }
    static loam_sampling_numbers numbers() {
        loam_sampling_numbers now;
        loam_sampling_get(&now);
        return now;
    }
};

/* The lists that the heap held ready before are handed out first. */
char *sampled(size_t bytes) {
    std::vector<void *> others;
    void *p = loam_malloc(bytes);
    for (; loam_sampling_holds(p) == 0 && others.size() < 5000; p = loam_malloc(bytes))
        others.push_back(p);
    for (void *other : others) loam_free(other);
    return static_cast<char *>(p);
}

size_t taken_of(size_t rate, size_t count, size_t (*size)(size_t)) {
    EXPECT_EQ(loam_sampling_set(rate), 0);
    loam_sampling_numbers before, after;
    loam_sampling_get(&before);
    std::vector<void *> kept(64);
    for (size_t i = 0; i < count; i++) {
        loam_free(kept[i % kept.size()]);
        kept[i % kept.size()] = loam_malloc(size(i));
    }
    for (void *p : kept) loam_free(p);
    loam_sampling_get(&after);
    EXPECT_EQ(after.missed, before.missed);
    return after.taken - before.taken;
}

/* Six standard deviations of a geometric distribution: one of a billion runs is wrong. */
void expect_about(size_t taken, size_t count, size_t rate) {
    double mean = static_cast<double>(count) / static_cast<double>(rate);
    EXPECT_NEAR(static_cast<double>(taken), mean, 6 * std::sqrt(mean) + 0.02 * mean);
}

TEST_F(Sampling, RateHoldsForOneSizeAndForMany) {
    for (size_t rate : {2, 10, 100, 1000}) {
        size_t count = 2000 * rate;
        expect_about(taken_of(rate, count, [](size_t) { return size_t{48}; }), count, rate);
        expect_about(taken_of(rate, count, [](size_t i) { return i * 7919 % 3000 + 1; }), count,
                     rate);
    }
}

TEST_F(Sampling, EachIsTakenAtOneInOne) {
    size_t taken = 0;
    unit::in_thread([&] { /* whose heap has no list ready from before */
                          taken = taken_of(1, 1000, [](size_t i) { return i % 500 + 1; });
    });
    EXPECT_EQ(taken, 1000u);
}

TEST_F(Sampling, NoneIsTakenWhenOff) {
    EXPECT_EQ(taken_of(0, 10000, [](size_t i) { return i % 500 + 1; }), 0u);
    EXPECT_EQ(loam_sampling_set(1000000001), -EINVAL);
}

/* A program that always allocates in the same order is sampled at every place of it. */
TEST_F(Sampling, NoPlaceOfABatchIsLeftOut) {
    ASSERT_EQ(loam_sampling_set(20), 0);
    constexpr size_t kBatch = 300;
    std::vector<size_t> hits(kBatch);
    std::vector<void *> batch(kBatch);
    for (int round = 0; round < 400; round++) {
        for (size_t i = 0; i < kBatch; i++) {
            batch[i] = loam_malloc(64);
            hits[i] += static_cast<size_t>(loam_sampling_holds(batch[i]));
        }
        for (void *p : batch) loam_free(p);
    }
    for (size_t third = 0; third < 3; third++) {
        size_t sum = 0;
        for (size_t i = third * kBatch / 3; i < (third + 1) * kBatch / 3; i++) sum += hits[i];
        EXPECT_NEAR(static_cast<double>(sum), 2000, 300) << "third " << third;
    }
}

TEST_F(Sampling, SizesAndAlignmentsAreAsEver) {
    for (size_t bytes : {0, 1, 4, 7, 15, 16, 17, 100, 4095, 4096, 4097, 30000, 65000}) {
        for (int i = 0; i < 8; i++) {
            char *p = sampled(bytes);
            ASSERT_TRUE(loam_sampling_holds(p)) << bytes;
            EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 16, 0u);
            EXPECT_GE(loam_usable_size(p), bytes);
            memset(p, 0x5c, bytes);
            loam_free(p);
            EXPECT_FALSE(loam_sampling_holds(p));
        }
    }
    for (size_t align = 16; align <= 65536; align *= 2) {
        for (int i = 0; i < 4; i++) {
            void *p = loam_malloc_aligned(40, align);
            ASSERT_NE(p, nullptr);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
            memset(p, 1, 40);
            loam_free(p);
            p = loam_malloc_aligned_offset(40, align, 8);
            ASSERT_NE(p, nullptr);
            EXPECT_EQ((reinterpret_cast<uintptr_t>(p) + 8) % align, 0u);
            loam_free(p);
        }
    }
}

/* Nothing in a program but what asks for it relies on more than its size. */
TEST_F(Sampling, ExactObjectsEndWithTheirPage) {
    ASSERT_EQ(loam_option_set("guard_sampling_exact", "1"), 0);
    for (size_t bytes : {1, 2, 7, 8, 12, 24, 31, 100, 4095, 5001}) {
        size_t align = bytes & (0 - bytes), ends = 0;
        for (int i = 0; i < 40; i++) {
            for (char *p : {sampled(bytes), static_cast<char *>(loam_calloc(1, bytes))}) {
                EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % (align < 16 ? align : 16), 0u) << bytes;
                ends += (reinterpret_cast<uintptr_t>(p) + bytes) % 4096 == 0;
                EXPECT_EQ(loam_usable_size(p), bytes);
                loam_free(p);
            }
            for (size_t least : {8, 16, 64}) {
                void *p = loam_malloc_aligned(bytes, least);
                EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % least, 0u) << bytes;
                memset(p, 1, bytes);
                loam_free(p);
            }
        }
        EXPECT_TRUE(ends > 10 || lm_os_page_bytes() > 4096) << bytes;
    }
    EXPECT_EQ(loam_option_set("guard_sampling_exact", "0"), 0);
    char *p = sampled(7);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 16, 0u);
    loam_free(p);
}

TEST_F(Sampling, ZeroesAreZeroes) {
    for (int round = 0; round < 600; round++) { /* slots come again */
        auto *p = static_cast<unsigned char *>(loam_calloc(10, 30));
        ASSERT_NE(p, nullptr);
        for (size_t i = 0; i < loam_usable_size(p); i++) ASSERT_EQ(p[i], 0);
        memset(p, 0xff, 300);
        p = static_cast<unsigned char *>(loam_recalloc(p, 10, 90));
        ASSERT_NE(p, nullptr);
        for (size_t i = 300; i < loam_usable_size(p); i++) ASSERT_EQ(p[i], 0);
        EXPECT_EQ(p[299], 0xff);
        loam_free(p);
    }
}

TEST_F(Sampling, ReallocKeepsTheContents) {
    for (size_t from : {10, 3000, 60000}) {
        for (size_t to : {20, 4000, 65000, 200000}) {
            char *p = sampled(from);
            memset(p, 'x', from);
            auto *q = static_cast<char *>(loam_realloc(p, to));
            ASSERT_NE(q, nullptr);
            EXPECT_NE(p, q) << "so that a stale pointer is found";
            size_t kept = from < to ? from : to;
            EXPECT_EQ(q[0], 'x');
            EXPECT_EQ(q[kept - 1], 'x');
            loam_free(q);
        }
    }
    void *p = sampled(100);
    EXPECT_EQ(loam_expand(p, 50), p);
    loam_free(p);
}

TEST_F(Sampling, WithoutASlotBlocksAreOrdinary) {
    std::vector<void *> kept;
    size_t slots = numbers().slots, live = numbers().live;
    while (numbers().live < slots) kept.push_back(sampled(100));
    size_t missed = numbers().missed;
    for (size_t i = 0; i < 100; i++) kept.push_back(loam_malloc(100));
    EXPECT_EQ(numbers().live, slots);
    EXPECT_EQ(numbers().missed, missed + 100);
    for (void *p : kept) loam_free(p);
    EXPECT_EQ(numbers().live, live);
}

TEST_F(Sampling, AFreedSlotWaitsAsLongAsThereAreOthers) {
    void *first = sampled(32);
    loam_free(first);
    auto slot = [](void *p) { return reinterpret_cast<uintptr_t>(p) >> 16; };
    for (size_t i = 0; i + 1 < numbers().slots; i++) {
        void *p = loam_malloc(32);
        ASSERT_NE(slot(p), slot(first)) << i;
        loam_free(p);
    }
}

TEST_F(Sampling, StatisticsCountThem) {
    lm_heap_stats_t before, after;
    loam_free(sampled(1000));
    lm_heap_stats(&before);
    void *p = sampled(1000);
    lm_heap_stats(&after);
    EXPECT_EQ(after.small_blocks, before.small_blocks + 1);
    EXPECT_GE(after.small_bytes, before.small_bytes + 1000);
    loam_free(p);
}

TEST_F(Sampling, TracesSayWhereFrom) {
    void *p = sampled(32), *frames[16], *others[16];
    size_t depth = loam_sampling_trace(p, 0, frames, 16);
    EXPECT_GT(depth, 3u) << "gtest alone has more";
    EXPECT_EQ(loam_sampling_trace(p, 1, others, 16), 0u);
    EXPECT_EQ(loam_sampling_trace(p, 0, others, 2), 2u);
    EXPECT_EQ(others[1], frames[1]);
    loam_free(p);
    EXPECT_GT(loam_sampling_trace(p, 1, others, 16), 3u);
    int here = 0;
    EXPECT_EQ(loam_sampling_trace(&here, 0, frames, 16), 0u);
}

TEST_F(Sampling, FirstClassHeapsAreLeftOut) {
    loam_heap *heap = loam_heap_create();
    ASSERT_NE(heap, nullptr);
    for (int i = 0; i < 100; i++) EXPECT_FALSE(loam_sampling_holds(loam_heap_malloc(heap, 64)));
    loam_heap_destroy(heap);
}

TEST_F(Sampling, OptionAndCallAreTheSame) {
    char text[32];
    ASSERT_EQ(loam_sampling_set(777), 0);
    EXPECT_GT(loam_option_get("guard_sampling", text, sizeof text), 0);
    EXPECT_STREQ(text, "777");
    EXPECT_EQ(loam_option_set("guard_sampling", "5"), 0);
    EXPECT_EQ(numbers().rate, 5u);
    EXPECT_EQ(loam_option_set("guard_sampling_slots", "5"), -EBUSY);
}

/* Their sizes are not rounded, and so no word of a check can stand where they end. */
TEST_F(Sampling, BlocksOfLoamItselfComeAndGoAtAnySize) {
    for (size_t bytes = 1; bytes < 100; bytes++) {
        std::vector<void *> others;
        void *p = lm_block_alloc_lasting(bytes, 1);
        for (; loam_sampling_holds(p) == 0 && others.size() < 5000;
             p = lm_block_alloc_lasting(bytes, 1))
            others.push_back(p);
        EXPECT_TRUE(loam_sampling_holds(p)) << bytes;
        lm_block_give_back(p);
        for (void *other : others) lm_block_give_back(other);
    }
}

} // namespace

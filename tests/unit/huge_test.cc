/* huge_test.cc: memory that loam backs by huge pages because there are enough blocks to fill them.
 *
 * Whether the system has huge pages is not tested: the tests count what loam requests. No other
 * thread uses the arena.
 */
#include <gtest/gtest.h>

extern "C" {
#include "span/internal.h"
#include "span/span.h"
}

#include <chrono>
#include <thread>
#include <vector>

namespace {

constexpr size_t kDense = 256; /* slices of pages of blocks, from which on huge pages are made */

class Huge : public testing::Test {
  protected:
    void SetUp() override {
        lm_purge_allow(false);
        lm_purge_all();
        ASSERT_EQ(0u, lm_space.page_slices);
    }
    void TearDown() override {
        while (!mine_.empty()) give(mine_.size() - 1);
        lm_huge_took(0);
        lm_purge_policy = {300, true};
        lm_huge_policy = {LM_HUGE_AUTO, size_t{16} << 20};
        lm_purge_allow(false);
        lm_span_check();
        EXPECT_EQ(0u, lm_space.page_slices);
        EXPECT_EQ(0u, lm_space.dirty_slices);
    }
    lm_page_t *take(size_t slices, lm_kind_t kind = LM_KIND_PAGE) {
        if (machine_is_fast_) lm_huge_took(0); /* whatever it is today */
        lm_page_t *span = kind == LM_KIND_PAGE ? lm_span_take_page(slices, 16, crowded_, nullptr)
                                               : lm_span_take(slices, 1, kind, nullptr);
        EXPECT_NE(nullptr, span);
        if (span != nullptr) mine_.push_back(span);
        return span;
    }
    void give(size_t i) {
        lm_span_give(mine_[i], true);
        mine_.erase(mine_.begin() + static_cast<ptrdiff_t>(i));
    }
    /* Enough blocks, and no hole below them that would be used first. */
    void fill() {
        while (lm_space.page_slices < kDense) take(8);
        lm_purge_all();
    }

    /* Takes pages of so many slices until one lies on a huge page, and returns that. In the secure
     * build the holes of the blocks' group are filled first. */
    lm_page_t *take_backed(size_t slices, size_t holes = LM_SECURE ? 2 * LM_HUGE_SPAN : 0) {
        lm_page_t *page = take(slices);
        for (size_t n = slices; n <= holes && lm_space.dirty_slices == 0; n += slices)
            page = take(slices);
        return page;
    }

    std::vector<lm_page_t *> mine_;
    bool crowded_ = true;
    bool machine_is_fast_ = true;
};

TEST_F(Huge, TheFirstPageOfAClassMayStayEmpty) {
    crowded_ = false;
    fill();
    take(1);
    EXPECT_EQ(0u, lm_space.dirty_slices);
}

TEST_F(Huge, NeverByOption) {
    lm_huge_policy.when = LM_HUGE_NEVER;
    fill();
    for (int i = 0; i < 8; i++) {
        take(8);
        EXPECT_EQ(0u, lm_space.dirty_slices);
    }
}

TEST_F(Huge, AlwaysByOption) {
    lm_huge_policy.when = LM_HUGE_ALWAYS;
    crowded_ = machine_is_fast_ = false;
    take(20, LM_KIND_LARGE);
    EXPECT_EQ(0u, lm_space.dirty_slices) << "of blocks only";
    take(1);
    EXPECT_EQ(size_t{LM_HUGE_SLICES} - 1, lm_space.dirty_slices) << "from the first page on";
    while (lm_space.dirty_slices > 0) take(1);
    lm_huge_took(7000);
    for (int i = 0; i < LM_HUGE_SLICES && lm_space.dirty_slices == 0; i++) take(1);
    EXPECT_NE(0u, lm_space.dirty_slices) << "however slow they are";
}

TEST_F(Huge, FromAnotherSizeOnByOption) {
    lm_huge_policy.least_bytes = size_t{2} << 20;
    while (lm_space.page_slices < 32) {
        take(8);
        EXPECT_EQ(0u, lm_space.dirty_slices);
    }
    for (int i = 0; i < 8 && lm_space.dirty_slices == 0; i++) take(8); /* holes first */
    EXPECT_NE(0u, lm_space.dirty_slices);
}

TEST_F(Huge, OnlyPagesOfBlocksCount) {
    take(20);
    EXPECT_EQ(20u, lm_space.page_slices);
    take(20, LM_KIND_LARGE);
    take(1, LM_KIND_META);
    EXPECT_EQ(20u, lm_space.page_slices);
    take(3);
    EXPECT_EQ(23u, lm_space.page_slices);
    lm_span_check();
    give(0);
    EXPECT_EQ(3u, lm_space.page_slices);
    give(0);
    EXPECT_EQ(3u, lm_space.page_slices);
    lm_span_check();
}

TEST_F(Huge, SmallProgramsGrowBySmallPages) {
    while (lm_space.page_slices < kDense) {
        take(8);
        EXPECT_EQ(0u, lm_space.dirty_slices);
    }
}

TEST_F(Huge, LargeOnesGrowByTwoMebibytes) {
    fill();
    lm_page_t *page = take_backed(1);
    EXPECT_EQ(size_t{LM_HUGE_SLICES} - 1, lm_space.dirty_slices) << "resident, and not used yet";
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(lm_span_start(page)) % (2 << 20));
    for (size_t i = 1; i < LM_HUGE_SLICES; i++) {
        EXPECT_EQ(lm_span_start(page) + i * LM_SLICE_BYTES, lm_span_start(take(1)));
    }
    EXPECT_EQ(0u, lm_space.dirty_slices);
    lm_span_check();
    /* What lay before the first multiple of 2 MiB is a hole, and filled first. */
    take_backed(8, LM_SECURE ? 2 * LM_HUGE_SPAN : LM_HUGE_SLICES);
    EXPECT_EQ(size_t{LM_HUGE_SLICES} - 8, lm_space.dirty_slices) << "the next one";
}

TEST_F(Huge, LongSpansMayNeverBeTouched) {
    fill();
    take(9, LM_KIND_LARGE);
    EXPECT_EQ(0u, lm_space.dirty_slices);
}

TEST_F(Huge, HolesAreFilledFirst) {
    while (lm_space.page_slices < kDense + 8) take(8);
    char *hole = lm_span_start(mine_[3]);
    give(3);
    lm_purge_all();
    EXPECT_EQ(hole, lm_span_start(take(8)));
    EXPECT_EQ(0u, lm_space.dirty_slices);
}

TEST_F(Huge, AfterASlowOneNoneIsMadeForAWhile) {
    fill();
    machine_is_fast_ = false;
    lm_huge_took(7000);
    size_t without = 0;
    for (; lm_space.dirty_slices == 0 && without < 16 * kDense; without += 8) take(8);
    EXPECT_GE(without, kDense);
    EXPECT_LE(without, kDense + 8 * 8) << "then one is tried again";
}

TEST_F(Huge, TheMoreAreSlowTheFewerAreTried) {
    lm_huge_took(0);
    lm_huge_took(7000);
    size_t rest = lm_space.huge_rest;
    EXPECT_EQ(kDense, rest);
    lm_huge_took(7000);
    EXPECT_EQ(2 * rest, lm_space.huge_rest);
    for (int i = 0; i < 100; i++) lm_huge_took(7000);
    EXPECT_EQ(size_t{65536}, lm_space.huge_rest);
    lm_huge_took(200);
    EXPECT_EQ(0u, lm_space.huge_rest) << "one that is fast, and all is as it was";
    lm_huge_took(7000);
    EXPECT_EQ(rest, lm_space.huge_rest);
}

TEST_F(Huge, WhatIsNotUsedIsPurged) {
    fill();
    take_backed(1);
    EXPECT_EQ(size_t{LM_HUGE_SLICES} - 1, lm_space.dirty_slices);
    EXPECT_GE(lm_purge_all(), (size_t{LM_HUGE_SLICES} - 1) << LM_SLICE_SHIFT);
    EXPECT_EQ(0u, lm_space.dirty_slices);
    EXPECT_NE(0, *lm_span_start(mine_.back()) = 1) << "what is used stays";
    lm_span_check();
}

TEST_F(Huge, TheWorkerPurgesItThoughNobodyFreesAnything) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    fill();
    lm_purge_policy = {50, true};
    lm_purge_allow(true);
    size_t purged = lm_space.purged_bytes;
    take_backed(1);
    lm_span_stats_t stats;
    for (int i = 0; i < 2000; i++) {
        lm_span_stats(&stats);
        if (stats.purged_bytes > purged) break;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(purged + ((size_t{LM_HUGE_SLICES} - 1) << LM_SLICE_SHIFT), stats.purged_bytes);
    EXPECT_EQ(0u, stats.dirty_bytes);
}

} // namespace

/* group_test.cc: the secure build keeps objects of different sizes in separate memory. */
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

extern "C" {
#include "span/internal.h"
#include "survey/survey.h"
}

namespace {

#if LM_SECURE

using Slices = std::set<size_t>;

void note(Slices *slices, const void *p, size_t bytes) {
    for (size_t s = lm_slice_of(p); s <= lm_slice_of(static_cast<const char *>(p) + bytes - 1); s++)
        slices->insert(s);
}

/* Slices of `bytes` in objects of that size, all alive at once; with as many of them touched. */
Slices used_by(size_t size, size_t bytes) {
    Slices slices;
    std::vector<void *> objects;
    for (size_t n = 0; n < bytes; n += size) {
        objects.push_back(lm_malloc(size));
        EXPECT_NE(nullptr, objects.back());
        note(&slices, objects.back(), size);
    }
    for (void *p : objects) lm_free(p);
    lm_heap_collect();
    return slices;
}

bool apart(const Slices &a, const Slices &b) {
    for (size_t s : a) {
        if (b.count(s) > 0) return false;
    }
    return true;
}

TEST(Group, WhatHeldBlocksOfOneSizeNeverHoldsOthers) {
    constexpr size_t kBytes = 6 << 20;
    std::vector<Slices> of;
    for (size_t size : {48, 640, 8192, 48, 200000, 640}) {
        of.push_back(used_by(size, kBytes));
        lm_span_check();
    }
    for (size_t i : {0, 1, 2, 4}) {
        for (size_t j : {0, 1, 2, 4}) {
            EXPECT_TRUE(i == j || apart(of[i], of[j])) << i << " and " << j;
        }
    }
    EXPECT_TRUE(apart(of[3], of[1]));
    EXPECT_TRUE(apart(of[5], of[0]));
    EXPECT_FALSE(apart(of[3], of[0])) << "a group's own memory serves it again";
}

TEST(Group, PurgedOrNotItStaysItsGroups) {
    Slices tiny = used_by(48, 6 << 20);
    lm_purge_all();
    Slices large = used_by(100000, 6 << 20), small = used_by(900, 6 << 20);
    EXPECT_TRUE(apart(tiny, large));
    EXPECT_TRUE(apart(tiny, small));
    lm_span_check();
}

TEST(Group, LargeObjectsDoNotGrowIntoOthers) {
    Slices tiny = used_by(48, 4 << 20);
    std::vector<void *> objects;
    for (int i = 0; i < 40; i++) objects.push_back(lm_malloc(70000));
    Slices large;
    for (void *&p : objects) {
        p = lm_realloc(p, 700000);
        ASSERT_NE(nullptr, p);
        note(&large, p, 700000);
    }
    EXPECT_TRUE(apart(tiny, large));
    for (void *p : objects) lm_free(p);
    lm_span_check();
}

TEST(Group, ThreeTimesTheSameWorkTakesNoMoreAddresses) {
    size_t after[3];
    for (size_t &slices : after) {
        for (size_t size : {48, 640, 8192, 200000}) used_by(size, 4 << 20);
        slices = lm_peek(&lm_arena.slices);
    }
    EXPECT_LE(after[2], after[0] + 64);
}

TEST(Group, SpansOfAllGroupsAtRandomHangTogether) {
    std::mt19937 random(7);
    std::vector<void *> objects;
    for (int i = 0; i < 20000; i++) {
        if (objects.size() > 400 || (!objects.empty() && random() % 3 == 0)) {
            size_t k = random() % objects.size();
            lm_free(objects[k]);
            objects[k] = objects.back();
            objects.pop_back();
        } else {
            static const size_t kSizes[] = {40, 1000, 30000, 60000, 150000, 900000};
            objects.push_back(lm_malloc(kSizes[random() % 6]));
            ASSERT_NE(nullptr, objects.back());
        }
        if (i % 500 == 0) lm_span_check();
    }
    for (void *p : objects) lm_free(p);
    lm_heap_collect();
    lm_span_check();
}

/* Pages that come back to their class are not cleared again: of all others, everything must be. */
TEST(Group, WhateverWasThereBeforeIsZero) {
    std::mt19937 random(11);
    static const size_t kSizes[] = {8, 40, 48, 104, 120, 200, 600, 1000, 1500, 7000, 9000, 40000};
    for (int round = 0; round < 120; round++) {
        size_t size = kSizes[random() % std::size(kSizes)];
        std::vector<char> zero(size, 0);
        std::vector<void *> objects;
        for (size_t bytes = random() % 500000; objects.size() * size < bytes;) {
            void *p = random() % 2 == 0 ? lm_malloc(size) : lm_calloc(size);
            ASSERT_NE(nullptr, p);
            ASSERT_EQ(0, memcmp(p, zero.data(), size)) << size << " in round " << round;
            objects.push_back(memset(p, 0xff, size));
        }
        if (random() % 8 == 0) lm_purge_all();
        std::shuffle(objects.begin(), objects.end(), random);
        for (void *p : objects) lm_free(p);
        if (random() % 4 == 0) lm_heap_collect();
    }
}

void write_into_a_page_that_went() {
    std::vector<char *> objects;
    for (int i = 0; i < 40000; i++) objects.push_back(static_cast<char *>(lm_malloc(40)));
    for (char *p : objects) lm_free(p);
    lm_heap_collect();
    char *p = objects[objects.size() / 2];
    if (lm_page_of(p)->kind == LM_KIND_PAGE) abort(); /* not what is meant */
    p[20] = 1;
    for (int i = 0; i < 200000; i++) (void)lm_malloc(40);
}

TEST(Group, AWriteToAPageThatWentIsSeenInTheNext) {
    EXPECT_DEATH(write_into_a_page_that_went(), "write after free of 0x[0-9a-f]+: 1 byte");
}

TEST(Group, OfWhatWasNobodysNothingIsKnown) {
    enum { SLICES = 4 };
    lm_page_t *span = lm_span_take(SLICES, 1, LM_KIND_LARGE, nullptr);
    ASSERT_NE(nullptr, span);
    lm_purge_all();
    for (size_t i = 0; i < SLICES; i++) span[i].wiped_class = 3;
    lm_span_give(span, false);
    lm_lock_take(&lm_space.lock);
    EXPECT_EQ(LM_KIND_DIRTY, span->kind);
    (void)lm_group_claim(LM_GROUP_TINY, span);
    for (size_t i = 0; i < SLICES; i++) EXPECT_EQ(0, span[i].wiped_class) << i;
    lm_lock_give(&lm_space.lock);
    lm_span_check();
}

TEST(Group, PurgedMemoryOfAGroupServesItsHugePagesAgain) {
    size_t after[4];
    for (size_t &slices : after) {
        used_by(48, 64 << 20);
        lm_purge_all();
        slices = lm_peek(&lm_arena.slices);
    }
    /* Not as much again each time; the secure build's random places take a few spans more or
     * less. */
    EXPECT_LE(after[3], after[0] + after[0] / 8);
    lm_span_check();
}

/* Nothing is dirty, no thread has hurried yet, and the delay alone would take a minute. */
void begin_anew() {
    lm_purge_policy.delay_ms = 60000;
    lm_purge_all();
    lm_lock_take(&lm_space.lock);
    ASSERT_EQ(0u, lm_space.dirty_slices);
    lm_space.hurry = {};
    lm_lock_give(&lm_space.lock);
}

/* Slices that are used or free and dirty, at most, where so many were in use at once. */
size_t bound(size_t most) { return most + most / 32 + 8; }

size_t held() { return lm_space.page_slices + lm_load_relaxed(&lm_space.dirty_slices); }

TEST(Group, WhatOthersHoldGoesWhenOneTakesNewMemory) {
    begin_anew();
    for (size_t size : {48, 8000, 600, 48, 30000}) {
        used_by(size, 16 << 20);
        /* A huge page more, and what threads keep ready. */
        EXPECT_LE(held(), bound(lm_space.hurry.used_most) + LM_HUGE_SLICES + 16) << size;
        lm_span_check();
    }
}

std::vector<lm_page_t *> pages_of(size_t bytes, int n) {
    std::vector<lm_page_t *> spans;
    for (int i = 0; i < n; i++) spans.push_back(lm_span_take_page(1, bytes, false, nullptr));
    return spans;
}

/* A hundred spans of one slice each, and between them what is in use. */
TEST(Group, NotManyMoreSpansGoThanAreTaken) {
    begin_anew();
    size_t before = lm_space.page_slices;
    std::vector<lm_page_t *> spans = pages_of(30000, 200);
    for (size_t i = 0; i < spans.size(); i += 2) lm_span_give(spans[i], false);
    ASSERT_GE(lm_load_relaxed(&lm_space.dirty_slices), 100u);
    size_t most = lm_space.hurry.used_most;
    ASSERT_GE(most, before + 200);
    std::vector<lm_page_t *> objects = pages_of(48, 60);
    EXPECT_LE(held(), bound(most));
    EXPECT_GE(held() + 4, bound(most));
    for (lm_page_t *span : objects) lm_span_give(span, false);
    for (size_t i = 1; i < spans.size(); i += 2) lm_span_give(spans[i], false);
    lm_span_check();
}

TEST(Group, NoOneHurriesOnceTooMuchOfItIsTakenAgain) {
    begin_anew();
    for (size_t size : {48, 8000, 48, 8000}) used_by(size, 16 << 20);
    EXPECT_GT(lm_space.hurry.regrets, 200u);
    size_t most = lm_space.hurry.used_most;
    lm_lock_take(&lm_space.lock);
    lm_space.hurry.regrets = SIZE_MAX / 2;
    lm_lock_give(&lm_space.lock);
    for (size_t size : {48, 8000, 600}) used_by(size, 16 << 20);
    EXPECT_GT(held(), 2 * most) << "each group keeps its own";
    lm_span_check();
}

TEST(Group, LargeObjectsOfOtherSizesUseNoMoreMemory) {
    begin_anew();
    for (size_t size : {70000, 500000, 48, 1500000, 90000}) {
        used_by(size, 64 << 20);
        const lm_hurry_t &hurry = lm_space.hurry;
        size_t large =
            hurry.dirty_large * hurry.large_held / std::max<size_t>(hurry.large_slices, 1);
        EXPECT_LE(held() - hurry.dirty_large + large, bound(hurry.used_most) + 64) << size;
        lm_span_check();
    }
}

#else

TEST(Group, OnlyInTheSecureBuild) { GTEST_SKIP() << "all memory is of one group in this build"; }

#endif

} // namespace

/* group_test.cc: memory of objects of different sizes is apart in the secure build. */
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

extern "C" {
#include "heap/heap.h"
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

#else

TEST(Group, OnlyInTheSecureBuild) { GTEST_SKIP() << "all memory is of one group in this build"; }

#endif

} // namespace

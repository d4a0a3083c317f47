/* secure_large_test.cc: large objects of the secure build: guards, canaries, what is cleared, when they come back. */
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <vector>

extern "C" {
#include "heap/heap.h"
}

namespace {

#if LM_SECURE

constexpr size_t kBytes = 300000; /* rounds up to 303,104 */

char *object(size_t bytes) {
    char *p = static_cast<char *>(lm_malloc(bytes));
    EXPECT_NE(nullptr, p);
    memset(p, 0xa5, bytes);
    return p;
}

TEST(SecureLarge, BehindAnObjectNobodyWrites) {
    char *p = object(size_t{1} << 20);
    EXPECT_DEATH(p[size_t{1} << 20] = 1, "");
    char *q = object(kBytes);
    size_t room = lm_span_room(lm_page_of(q));
    EXPECT_GE(room, kBytes);
    EXPECT_EXIT((void)*const_cast<volatile char *>(q + room), testing::KilledBySignal(SIGSEGV), "");
    lm_free(p);
    lm_free(q);
}

TEST(SecureLarge, OneByteTooManyIsSeenAtFreeAndAtRealloc) {
    char *p = object(kBytes);
    EXPECT_DEATH((p[kBytes] ^= 1, lm_free(p)), "overwritten at byte 300000 of 300000");
    EXPECT_DEATH((p[kBytes + 7] = 0, (void)lm_realloc(p, kBytes * 2)),
                 "overwritten at byte 300007");
    lm_free(p);
}

TEST(SecureLarge, WhatBecomesShorterLeavesNothingBehind) {
    char *p = object(2 * kBytes), *next = object(kBytes);
    ASSERT_EQ(p, lm_realloc(p, kBytes / 2));
    lm_page_t *page = lm_page_of(p);
    size_t span = size_t{page->slices} << LM_SLICE_SHIFT;
    ASSERT_LT(span, kBytes);
    for (size_t i = span; i < 2 * kBytes; i++) ASSERT_EQ(0, p[i]) << i;
    lm_free(p);
    lm_free(next);
    lm_heap_collect(); /* the next test counts guards */
}

TEST(SecureLarge, FreedOnesWaitAreClearedAndComeBackAsTheyWere) {
    char *first = object(kBytes);
    lm_free(first);
    std::vector<char *> later;
    for (int i = 0; i < 4; i++) {
        later.push_back(static_cast<char *>(lm_malloc(kBytes)));
        EXPECT_NE(first, later.back());
    }
    for (size_t i = 0; i < kBytes; i++) ASSERT_EQ(0, first[i]) << i;
    size_t guards = lm_span_guards();
    for (char *p : later) lm_free(p);
    bool again = false;
    for (int i = 0; i < 8; i++) {
        char *p = static_cast<char *>(lm_malloc(kBytes));
        again = again || p == first;
        EXPECT_EQ(0, p[kBytes / 2]);
        lm_free(p);
    }
    EXPECT_TRUE(again);
    EXPECT_EQ(guards, lm_span_guards()) << "no guard was made or ended for all of that";
    lm_heap_collect();
    lm_span_check();
}

TEST(SecureLarge, AWriteAfterFreeIsSeenWhenTheQueueIsEmptied) {
    char *p = object(100000);
    lm_free(p);
    EXPECT_DEATH((p[77777] = 1, lm_heap_collect()), "written after its free: at byte 77777");
    lm_heap_collect();
}

TEST(SecureLarge, ResizingKeepsContentsAndGuard) {
    char *p = object(kBytes);
    for (size_t bytes = kBytes; bytes < (size_t{8} << 20); bytes += bytes / 3) {
        p = static_cast<char *>(lm_realloc(p, bytes));
        ASSERT_NE(nullptr, p);
        ASSERT_EQ(char(0xa5), p[kBytes - 1]);
        ASSERT_EQ(bytes, lm_usable_size(p));
        memset(p, 0xa5, bytes);
        EXPECT_GT(lm_page_of(p)->bias, 0u);
    }
    p = static_cast<char *>(lm_realloc(p, kBytes));
    EXPECT_EQ(char(0xa5), p[kBytes - 1]);
    EXPECT_EQ(kBytes, lm_usable_size(p));
    lm_free(p);
    lm_heap_collect();
    lm_span_check();
}

#else

TEST(SecureLarge, OtherBuildsHaveNone) {
    GTEST_SKIP() << "only the secure build has guards, a queue and canaries";
}

#endif

} // namespace

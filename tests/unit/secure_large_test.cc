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
    std::vector<char *> last;
    for (int i = 0; i < 3; i++) { /* all but the two that were freed last */
        last.push_back(static_cast<char *>(lm_malloc(kBytes)));
        again = again || last.back() == first;
        EXPECT_EQ(0, last.back()[kBytes / 2]);
    }
    EXPECT_TRUE(again);
    for (char *p : last) lm_free(p);
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

/* Frees and allocates one of ten objects of 70,000 to 970,000 bytes, `times` times. */
void exchange(int times, bool fill) {
    static char *held[10];
    static uint32_t chance = 1;
    for (int i = 0; i < times; i++) {
        chance = chance * 1664525u + 1013904223u;
        char *&one = held[(chance >> 16) % 10];
        lm_free(one);
        size_t bytes = 70000 + (chance >> 8) % 900000;
        one = static_cast<char *>(lm_malloc(bytes));
        ASSERT_NE(nullptr, one);
        if (fill) memset(one, 0xa5, bytes);
        *one = 1;
    }
}

TEST(SecureLarge, ExchangesMakeNextToNoSystemCalls) {
    exchange(20000, false);
    size_t before = lm_os_counts.calls;
    exchange(20000, false);
    EXPECT_LT(lm_os_counts.calls - before, 200u) << "a guard each would be 40,000";
    lm_heap_collect();
    lm_span_check();
}

TEST(SecureLarge, WhatWasFilledIsClearedHoweverManyAreFreed) {
    exchange(3000, true); /* more guards than are made in a tick */
    for (int i = 0; i < 200; i++) {
        size_t bytes = 70000 + static_cast<size_t>(i) * 4500;
        char *p = object(bytes);
        lm_free(p);
        for (size_t at = 0; at < bytes; at += 61) ASSERT_EQ(0, p[at]) << i << " " << at;
    }
    exchange(3000, false);
    lm_heap_collect();
    lm_span_check();
}

TEST(SecureLarge, AnObjectThatSeemsUntouchedIsNoMistake) {
    for (int i = 0; i < 3000;
         i++) { /* far beyond the budget: what is written is mostly not seen at free */
        char *p = static_cast<char *>(lm_malloc(900000));
        p[(static_cast<size_t>(i) * 7919 + 1000) % 900000] = 1;
        lm_free(p);
        if (i % 16 == 0) lm_free(lm_calloc(900000));
    }
    char *zero = static_cast<char *>(lm_calloc(900000));
    for (size_t at = 0; at < 900000; at++) ASSERT_EQ(0, zero[at]);
    lm_free(zero);
    lm_heap_collect();
    lm_span_check();
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

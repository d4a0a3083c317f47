/* secure_large_test.cc: large objects of the secure build: guards, canaries, which memory is
 * cleared, and when freed objects are used again. */
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <vector>

extern "C" {
#include "bytes.h"
#include "survey/survey.h"
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

/* While one lives, freed objects stay accessible, as they do once a program has freed very many. */
struct NotShut {
    NotShut() { lm_span_shuts = false; }
    ~NotShut() { lm_span_shuts = true; }
};

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
    ASSERT_EQ(2 * kBytes - span, first_other(p + span, 2 * kBytes - span, 0));
    lm_free(p);
    lm_free(next);
    lm_heap_collect(); /* the next test counts guards */
}

TEST(SecureLarge, FreedOnesWaitAreClearedAndComeBackAsTheyWere) {
    NotShut open;
    char *first = object(kBytes);
    lm_free(first);
    std::vector<char *> later;
    for (int i = 0; i < 4; i++) {
        later.push_back(static_cast<char *>(lm_malloc(kBytes)));
        EXPECT_NE(first, later.back());
    }
    ASSERT_EQ(kBytes, first_other(first, kBytes, 0));
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
    NotShut open;
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
    EXPECT_LT(lm_os_counts.calls - before, 2000u) << "a guard each would be 40,000";
    lm_heap_collect();
    lm_span_check();
}

TEST(SecureLarge, WhatWasFilledIsClearedHoweverManyAreFreed) {
    NotShut open;
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
    ASSERT_EQ(900000u, first_other(zero, 900000, 0));
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

constexpr size_t kSizes[] = {
    65537, 100000, kBytes, size_t{1} << 20, (size_t{1} << 20) + 1, 5000000, size_t{20} << 20};

/* Refills what may be spent on freed objects: a collection counts as a tick. */
void rest() {
    for (int i = 0; i < 64; i++) lm_heap_collect();
}

TEST(SecureLarge, AnAccessToAFreedObjectEndsTheProgram) {
    for (size_t bytes : kSizes) {
        for (size_t at : {size_t{0}, size_t{4097}, bytes / 2, bytes - 1}) {
            rest();
            volatile char *p = object(bytes);
            lm_free(const_cast<char *>(p));
            EXPECT_EXIT((void)p[at], testing::KilledBySignal(SIGSEGV), "") << bytes << " " << at;
            EXPECT_EXIT(p[at] = 1, testing::KilledBySignal(SIGSEGV), "") << bytes << " " << at;
        }
    }
    lm_heap_collect();
    lm_span_check();
}

TEST(SecureLarge, WhatWasShutComesBackAccessibleAndZero) {
    for (size_t bytes : kSizes) {
        for (int round = 0; round < 6; round++) {
            lm_free(object(bytes));
            if (round % 3 == 2) lm_heap_collect(); /* all of it leaves by the arena */
            char *p = static_cast<char *>(round % 2 ? lm_calloc(bytes) : lm_malloc(bytes));
            for (size_t at = 0; at < bytes; at += 61) ASSERT_EQ(0, p[at]) << bytes << " " << at;
            memset(p, 1, bytes);
            lm_free(p);
        }
    }
    lm_heap_collect();
    lm_span_check();
}

TEST(SecureLarge, ManyFreesInARowAreNotAllShut) {
    std::vector<char *> all;
    for (int i = 0; i < 3000; i++) all.push_back(static_cast<char *>(lm_malloc(66000)));
    size_t before = lm_os_counts.calls;
    for (char *p : all) lm_free(p);
    EXPECT_LT(lm_os_counts.calls - before, 2 * all.size() + 1000)
        << "the guards' end, and few more";
    lm_heap_collect();
    lm_span_check();
}

/* Above 1 MiB what is not shut has no memory, so that an access leaves a page there. */
TEST(SecureLarge, LongObjectsAreLookedAtAsAWhole) {
    NotShut open;
    for (size_t bytes : {size_t{2} << 20, size_t{9} << 20}) {
        rest();
        char *p = object(bytes);
        lm_free(p);
        for (size_t at = 0; at < bytes; at += 997) ASSERT_EQ(0, p[at]) << at;
        EXPECT_DEATH((p[bytes - 70000] = 1, lm_heap_collect()), "was written after its free: at");
        lm_heap_collect();
    }
}

TEST(SecureLarge, ALongObjectThatBecomesShorterLeavesNothing) {
    rest();
    for (int i = 0; i < 8; i++) {
        char *p = static_cast<char *>(lm_realloc(object(size_t{8} << 20), kBytes));
        ASSERT_EQ(char(0xa5), p[kBytes - 1]);
        std::vector<char *> others; /* of what p has left */
        for (int k = 0; k < 20; k++) others.push_back(static_cast<char *>(lm_malloc(900000)));
        for (char *other : others) {
            for (size_t at = 0; at < 900000; at += 61) ASSERT_EQ(0, other[at]) << at;
            lm_free(other);
        }
        lm_free(p);
    }
    lm_heap_collect();
    lm_span_check();
}

TEST(SecureLarge, ManyLongObjectsFreedAtOnceLeaveNothing) {
    NotShut open;
    rest();
    std::vector<char *> all;
    for (int i = 0; i < 40; i++) all.push_back(object(3000000));
    for (char *p : all) lm_free(p);
    for (char *&p : all) {
        p = static_cast<char *>(lm_malloc(3000000));
        for (size_t at = 0; at < 3000000; at += 61) ASSERT_EQ(0, p[at]) << at;
    }
    for (char *p : all) lm_free(p);
    lm_heap_collect();
    lm_span_check();
}

#else

TEST(SecureLarge, OtherBuildsHaveNone) {
    GTEST_SKIP() << "only the secure build has guards, a queue and canaries";
}

#endif

} // namespace

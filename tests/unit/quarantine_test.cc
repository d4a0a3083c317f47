/* quarantine_test.cc: freed blocks of the secure build wait in quarantine, and come back to malloc
 * in random order. */
#include "heap_unit.h"
#include "loam/handlers.h"
#include "loam/options.h"

extern "C" {
#include "checks/inner.h"
}

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

namespace {

#if LM_SECURE

constexpr size_t kBytes = 40, kSize = 48; /* with the canary */

class Quarantine : public unit::HeapTest {};

size_t waiting() { return lm_quarantine_count(lm_heap_self->fheap.own_heap, lm_class_of(kSize)); }

uint64_t ever_allocated() {
    lm_heap_stats_t stats;
    lm_heap_stats(&stats);
    return stats.of_class[lm_class_of(kSize)].total;
}

TEST_F(Quarantine, NoBlockComesBackAtOnce) {
    unit::in_thread([] {
        for (size_t bytes : {1, 40, 120, 500, 1000, 3000, 20000}) {
            for (int i = 0; i < 2000; i++) {
                void *p = lm_malloc(bytes);
                lm_free(p);
                void *next = lm_malloc(bytes);
                EXPECT_NE(p, next) << bytes;
                lm_free(next);
            }
        }
    });
}

TEST_F(Quarantine, ALoneFreedBlockIsNotMet) {
    unit::in_thread([] {
        void *first = lm_malloc(kBytes);
        lm_free(first);
        std::vector<void *> taken;
        for (int i = 0; i < 1000; i++) {
            taken.push_back(lm_malloc(kBytes));
            EXPECT_NE(first, taken.back());
        }
        EXPECT_EQ(1u, waiting());
        for (void *p : taken) lm_free(p);
    });
}

TEST_F(Quarantine, PairsGoRoundWithoutTheirPage) {
    unit::in_thread([] {
        for (int i = 0; i < 100; i++) lm_free(lm_malloc(kBytes));
        lm_page_t *page = lm_heap_self->current[lm_class_of(kSize)];
        ASSERT_NE(nullptr, page);
        uint32_t live = page->live;
        std::map<void *, int> times;
        for (int i = 0; i < 10000; i++) {
            void *p = lm_malloc(kBytes);
            times[p]++;
            lm_free(p);
        }
        EXPECT_EQ(live, page->live) << "no block has gone to its page or come from it";
        EXPECT_LE(times.size(), size_t{LM_QUARANTINE_MOST});
        EXPECT_GE(times.size(), 8u);
    });
}

/* How many frees lie between a free and the malloc that gets the block: chance, never none. */
TEST_F(Quarantine, HowLongABlockWaitsIsChance) {
    unit::in_thread([] {
        std::map<void *, int> freed_at;
        std::map<int, int> waits;
        for (int i = 0; i < 20000; i++) {
            void *p = lm_malloc(kBytes);
            auto before = freed_at.find(p);
            if (before != freed_at.end()) waits[i - before->second]++;
            freed_at[p] = i;
            lm_free(p);
        }
        EXPECT_GE(waits.begin()->first, 2) << "one free at least";
        EXPECT_GE(waits.size(), 20u) << "and then as it comes";
        for (auto [wait, times] : waits) EXPECT_LT(times, 10000) << wait;
    });
}

TEST_F(Quarantine, AllocationsFromThereAreCounted) {
    unit::in_thread([] {
        for (int i = 0; i < 100; i++) lm_free(lm_malloc(kBytes));
        uint64_t before = ever_allocated();
        for (int i = 0; i < 10000; i++) lm_free(lm_malloc(kBytes));
        EXPECT_EQ(before + 10000, ever_allocated());
        lm_heap_collect();
        EXPECT_EQ(before + 10000, ever_allocated()) << "and stay so when none waits any more";
        EXPECT_EQ(0u, waiting());
        for (int i = 0; i < 1000; i++) lm_free(lm_malloc(kBytes));
        EXPECT_EQ(before + 11000, ever_allocated());
    });
}

/* What the program's error handler frees at its first call, and what then waits. */
std::vector<void *> *freed_by_handler;

void free_some(int /* code */, const char * /* message */, void * /* argument */) {
    for (void *p : *freed_by_handler) lm_free(p);
    freed_by_handler->clear();
}

/* Some freed blocks that wait are written to. They leave the quarantine by `leave`. Meanwhile the
 * handler frees others of their class. Afterwards each block is in one place. */
template <typename Leave> void handler_frees_while(Leave leave) {
    lm_misuse_policy.ignore = true;
    unit::in_thread([&] {
        std::vector<void *> by_handler, all;
        freed_by_handler = &by_handler;
        for (int i = 0; i < 200; i++) all.push_back(lm_malloc(kBytes));
        std::set<void *> known(all.begin(), all.end());
        for (int i = 0; i < 12; i++, all.pop_back()) by_handler.push_back(all.back());
        for (int i = 0; i < 32; i++, all.pop_back()) {
            lm_free(all.back());
            memset(all.back(), 1, 8);
        }
        loam_error_register(free_some, nullptr);
        leave(all);
        EXPECT_TRUE(by_handler.empty()) << "the handler was called";
        std::set<void *> distinct(all.begin(), all.end());
        for (int i = 0; i < 400; i++) {
            all.push_back(lm_malloc(kBytes));
            EXPECT_TRUE(distinct.insert(all.back()).second) << "handed out twice";
        }
        size_t again = 0;
        for (void *p : known) again += distinct.count(p);
        EXPECT_GE(again, known.size() - LM_QUARANTINE_MOST) << "blocks were lost";
        for (void *p : all) lm_free(p);
        lm_heap_collect();
        EXPECT_EQ(0u, waiting());
        loam_error_register(nullptr, nullptr);
    });
    lm_misuse_policy.ignore = false;
}

TEST_F(Quarantine, AHandlerThatFreesWhileTheRingsAreEmptied) {
    handler_frees_while([](std::vector<void *> & /* all */) { lm_heap_collect(); });
}

TEST_F(Quarantine, AHandlerThatFreesWhileBlocksLeaveAFullRing) {
    handler_frees_while([](std::vector<void *> &all) {
        for (int i = 0; i < 64; i++, all.pop_back()) lm_free(all.back());
    });
}

TEST_F(Quarantine, WhileSomebodyCountsNoneIsTaken) {
    unit::in_thread([] {
        for (int i = 0; i < 100; i++) lm_free(lm_malloc(kBytes));
        std::vector<void *> freed;
        for (int i = 0; i < 8; i++) freed.push_back(lm_malloc(kBytes));
        for (void *p : freed) lm_free(p);
        size_t waited = waiting();
        size_t quiet = lm_slowpath_hook_limit;
        lm_slowpath_hook_limit = 0;
        std::vector<void *> taken;
        for (int i = 0; i < 100; i++) taken.push_back(lm_malloc(kBytes));
        EXPECT_EQ(waited, waiting());
        lm_slowpath_hook_limit = quiet;
        for (void *p : taken) lm_free(p);
    });
}

/* A thread that frees some of every size has places enough, in whatever order. */
TEST_F(Quarantine, ThereArePlacesForAllClasses) {
    for (bool down : {false, true}) {
        unit::in_thread([down] {
            for (unsigned i = 1; i < LM_CLASSES; i++) {
                unsigned size_class = down ? LM_CLASSES - i : i;
                std::vector<void *> taken;
                for (int n = 0; n < 40; n++)
                    taken.push_back(lm_malloc(lm_class_bytes(size_class) - LM_TRAILER));
                for (void *p : taken) lm_free(p);
                EXPECT_GT(lm_quarantine_count(lm_heap_self, size_class), 0u) << size_class;
            }
            EXPECT_LE(lm_heap_self->quarantine.places, unsigned{LM_QUARANTINE_PLACES});
            EXPECT_GT(lm_heap_self->quarantine.places, 2u * LM_QUARANTINE_RINGS);
        });
    }
}

/* Blocks above 1 KiB wait together, so that few pages stay for them. */
TEST_F(Quarantine, LargerOnesWaitTogether) {
    unit::in_thread([] {
        std::vector<void *> taken;
        for (unsigned c = LM_SMALL_CLASSES; c < LM_CLASSES; c++) {
            for (int n = 0; n < 3; n++) taken.push_back(lm_malloc(lm_class_bytes(c) - LM_TRAILER));
        }
        for (void *p : taken) lm_free(p);
        size_t wait = 0;
        for (unsigned c = LM_SMALL_CLASSES; c < LM_CLASSES; c++)
            wait += lm_quarantine_count(lm_heap_self, c);
        EXPECT_GE(wait, 2u);
        EXPECT_LE(wait, 8u);
        lm_heap_collect();
        for (unsigned c = LM_SMALL_CLASSES; c < LM_CLASSES; c++)
            EXPECT_EQ(0u, lm_quarantine_count(lm_heap_self, c));
    });
}

/* What another thread made waits here as well, and is this thread's to use. */
TEST_F(Quarantine, BlocksOfOtherThreadsComeBackHere) {
    std::vector<void *> theirs;
    std::thread maker([&] {
        for (int i = 0; i < 100; i++) theirs.push_back(lm_malloc(kBytes));
    });
    maker.join();
    unit::in_thread([&] {
        for (size_t i = 0; i < 24; i++) lm_free(theirs[i]);
        std::set<void *> first(theirs.begin(), theirs.begin() + 24);
        int again = 0;
        std::vector<void *> taken;
        for (int i = 0; i < 64; i++) {
            taken.push_back(lm_malloc(kBytes));
            again += first.count(taken.back()) > 0;
        }
        EXPECT_GE(again, 8);
        for (void *p : taken) lm_free(p);
        for (size_t i = 24; i < theirs.size(); i++) lm_free(theirs[i]);
    });
}

/* How many of each hundred lie right behind the one before. */
int adjacent(const std::vector<uintptr_t> &at, size_t from = 0) {
    size_t n = 0;
    for (size_t i = from + 1; i < at.size(); i++) n += at[i] - at[i - 1] == kSize;
    return (int)(100 * n / (at.size() - from));
}

std::vector<uintptr_t> taken(size_t count) {
    std::vector<uintptr_t> at;
    while (at.size() < count) at.push_back((uintptr_t)lm_malloc(kBytes));
    return at;
}

void freed(const std::vector<uintptr_t> &at) {
    for (uintptr_t p : at) lm_free((void *)p);
}

/* Blocks of a fresh page: in no order that can be foretold, and near to each other all the same. */
TEST_F(Quarantine, NewBlocksComeInRandomOrderNearTogether) {
    unit::in_thread([] {
        std::vector<uintptr_t> at = taken(1000);
        int rising = 0, near = 0;
        for (size_t i = 1; i < at.size(); i++) {
            intptr_t step = (intptr_t)(at[i] - at[i - 1]);
            rising += step > 0;
            near += std::abs(step) <= 1024;
        }
        EXPECT_GT(rising, 300);
        EXPECT_LT(rising, 800);
        EXPECT_LT(adjacent(at), 25) << "the next one is rarely the next one's neighbour";
        EXPECT_GT(near, 850);
        freed(at);
    });
}

/* How many of each hundred that were freed in a row come back in a row. */
int in_order_of_frees() {
    std::vector<uintptr_t> at = taken(400), again;
    std::map<uintptr_t, size_t> number;
    size_t in_a_row = 0;
    for (size_t i = 0; i < at.size(); i++) {
        number[at[i]] = i;
        lm_free((void *)at[i]);
        again.push_back((uintptr_t)lm_malloc(kBytes));
    }
    for (size_t i = 1; i < again.size(); i++)
        in_a_row += number.count(again[i - 1]) && number.count(again[i]) &&
                    number[again[i]] == number[again[i - 1]] + 1;
    freed(again);
    return (int)(100 * in_a_row / again.size());
}

constexpr size_t kPage = 65536 / kSize;

TEST_F(Quarantine, WhatIsManyComesInOrder) {
    unit::in_thread([] {
        std::vector<uintptr_t> at = taken(6 * kPage);
        EXPECT_GT(adjacent(at, 2 * kPage), 95);
        EXPECT_GT(in_order_of_frees(), 95);
        ASSERT_EQ(0, loam_option_set("RANDOM_ORDER", "1"));
        std::vector<uintptr_t> random = taken(3 * kPage);
        EXPECT_LT(adjacent(random, kPage), 25);
        EXPECT_LT(in_order_of_frees(), 60);
        ASSERT_EQ(0, loam_option_set("RANDOM_ORDER", "auto"));
        freed(at);
        freed(random);
    });
}

TEST_F(Quarantine, NoRandomOrderByOption) {
    ASSERT_EQ(0, loam_option_set("RANDOM_ORDER", "0"));
    unit::in_thread([] {
        std::vector<uintptr_t> at = taken(1000);
        EXPECT_GT(adjacent(at), 95);
        EXPECT_GT(in_order_of_frees(), 95);
        freed(at);
    });
    ASSERT_EQ(0, loam_option_set("RANDOM_ORDER", "auto"));
}

#else

TEST(Quarantine, OnlyInTheSecureBuild) {
    GTEST_SKIP() << "the other builds use freed blocks at once";
}

#endif

} // namespace

/* transfer_test.cc: full lists of blocks go from thread to thread, and to their pages if no thread
 * wants them.
 *
 * The worker is allowed but paused, so that the test decides when a tick is: it calls
 * lm_idle_collect itself while the threads wait in a system call.
 */
#include "sleepers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace {

using unit::blocks;
using unit::free_blocks;
using unit::held;
using unit::Helper;
using unit::in_thread;
using unit::kNobodySleeps;
using unit::sleepers_are_seen;
using unit::within_ticks;

constexpr size_t kBytes = 128; /* a page has 512, a full list 128 */
constexpr unsigned kClass = 8;
constexpr size_t kList = 128;
constexpr size_t kSlots = 8;

uint32_t count(const lm_page_t *page) { return lm_remote_count(lm_load_acquire(&page->remote)); }

class Transfer : public unit::PausedWorkerTest {
  protected:
    void TearDown() override {
        (void)lm_transfer_empty(true);
        PausedWorkerTest::TearDown();
    }
};

/* ---- Put and take ---- */

TEST_F(Transfer, AFullListGoesToWhoMallocs) {
    Helper owner, freer, other;
    std::vector<void *> taken;
    owner.run([&] { taken = blocks(200, kBytes); });
    lm_page_t *page = lm_page_of(taken[0]);
    freer.run([&] {
        free_blocks(taken, 0, kList);
        EXPECT_EQ(nullptr, lm_transfer_take(kClass)) << "it is full, but nobody needs its place";
        lm_block_free(taken[kList]);
        EXPECT_EQ(1u, held(lm_heap_self->foreign[kClass]));
        EXPECT_EQ(kList, lm_heap_self->foreign[kClass].granted);
    });
    EXPECT_EQ(0u, count(page));
    other.run([&] {
        std::set<void *> expected(taken.begin(), taken.begin() + kList);
        std::vector<void *> got = blocks(kList, kBytes);
        for (void *p : got) EXPECT_EQ(1u, expected.erase(p)) << "whole";
        EXPECT_EQ(0u, lm_heap_self->pages);
        EXPECT_TRUE(lm_heap_self->holds[kClass] == LM_HOLDS_OTHERS);
        lm_heap_check();
        void *own = lm_block_alloc(kBytes);
        EXPECT_EQ(1u, lm_heap_self->pages);
        lm_block_free(own);
        for (size_t i = 0; i < kList; i++) taken[i] = got[i];
    });
    owner.run([&] {
        for (size_t i = 0; i < taken.size(); i++) {
            if (i != kList) lm_block_free(taken[i]);
        }
        lm_heap_check();
    });
    freer.end();
    EXPECT_EQ(1u, count(page));
}

TEST_F(Transfer, WithoutAWorkerTheyGoHomeAtOnce) {
    lm_purge_policy.worker = false;
    Helper owner, freer;
    std::vector<void *> taken;
    owner.run([&] { taken = blocks(200, kBytes); });
    freer.run([&] { free_blocks(taken, 0, kList + 1); });
    EXPECT_EQ(kList, count(lm_page_of(taken[0])));
    lm_purge_policy.worker = true;
    EXPECT_EQ(nullptr, lm_transfer_take(kClass));
    owner.run([&] { free_blocks(taken, kList + 1, 200); });
}

TEST_F(Transfer, EightListsAClass) {
    Helper owner, freer;
    std::vector<void *> taken;
    constexpr size_t kBlocks = (kSlots + 1) * kList + 1;
    owner.run([&] { taken = blocks(kBlocks, kBytes); });
    freer.run([&] {
        free_blocks(taken, 0, kSlots * kList + 1);
        for (void *p : taken) EXPECT_EQ(0u, count(lm_page_of(p)));
        free_blocks(taken, kSlots * kList + 1, kBlocks);
        std::set<lm_page_t *> pages;
        uint32_t home = 0;
        for (void *p : taken) {
            if (pages.insert(lm_page_of(p)).second) home += count(lm_page_of(p));
        }
        EXPECT_EQ(kList, home) << "the ninth list was sorted and went home";
        std::vector<void *> more = blocks((kSlots)*kList, kBytes);
        EXPECT_EQ(std::set<void *>(taken.begin(), taken.begin() + kSlots * kList),
                  std::set<void *>(more.begin(), more.end()));
        free_blocks(more);
    });
    freer.end();
    (void)lm_transfer_empty(true);
    owner.run([] {
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages);
    });
}

TEST_F(Transfer, ASmallListGoesHome) {
    Helper owner, freer;
    std::vector<void *> taken, large;
    owner.run([&] {
        taken = blocks(200, 16);
        for (unsigned c = 90; c < LM_CLASSES; c++) {
            std::vector<void *> some = blocks(4, lm_class_bytes(c));
            large.insert(large.end(), some.begin(), some.end());
        }
    });
    freer.run([&] {
        free_blocks(taken, 0, 100); /* 1,600 bytes */
        for (void *&p : large) {
            if (lm_heap_self->foreign[1].first == nullptr) break;
            lm_block_free(p);
            p = nullptr;
        }
    });
    EXPECT_NE(nullptr, large.back()) << "no room was left for all classes together";
    EXPECT_EQ(nullptr, lm_transfer_take(1));
    EXPECT_EQ(100u, count(lm_page_of(taken[0])));
    owner.run([&] {
        free_blocks(taken, 100, 200);
        free_blocks(large);
    });
}

/* ---- A thread gets its own blocks back ---- */

TEST_F(Transfer, CallocClearsWhatCameBack) {
    Helper owner, freer;
    std::vector<void *> taken;
    constexpr size_t kAsked = kBytes - LM_TRAILER;
    owner.run([&] {
        taken = blocks(300, kBytes);
        for (void *p : taken) memset(p, 0xee, kBytes);
    });
    freer.run([&] { free_blocks(taken, 0, kList + 1); });
    owner.run([&] {
        lm_page_t *page = lm_page_of(taken[0]);
        ASSERT_EQ(page, lm_heap_self->current[kClass]);
        while (lm_heap_self->head[kClass] != nullptr) taken.push_back(lm_block_alloc(kBytes));
        ASSERT_LT(page->carved, page->capacity);
        page->fresh = true; /* as in a page that was never used */
        lm_heap_self->holds[kClass] = LM_HOLDS_ZERO;
        std::set<void *> expected(taken.begin(), taken.begin() + kList);
        for (size_t i = 0; i < kList; i++) {
            auto *p = static_cast<unsigned char *>(lm_calloc(kAsked));
            EXPECT_EQ(1u, expected.erase(p));
            EXPECT_TRUE(std::all_of(p, p + kAsked, [](unsigned char b) { return b == 0; }));
            EXPECT_FALSE(lm_page_never_used(lm_heap_self, page)) << "calloc looks nowhere else";
        }
        void *fresh = lm_block_alloc(kBytes);
        EXPECT_EQ(!LOAM_DEBUG, lm_page_never_used(lm_heap_self, page))
            << "the debug build fills what it carves";
        page->fresh = false;
        lm_block_free(fresh);
        free_blocks(taken, 0, kList);
        free_blocks(taken, kList + 1, taken.size());
    });
}

/* A page that is not current any more is not virgin: its blocks may come back that way. */
TEST_F(Transfer, OnlyACurrentPageIsVirgin) {
    in_thread([] {
        std::vector<void *> taken = blocks(1, 512);
        lm_page_t *page = lm_page_of(taken[0]);
        page->fresh = true;
        while (lm_page_of(taken.back()) == page) taken.push_back(lm_block_alloc(512));
        EXPECT_EQ(LM_AT_FULL, page->in_list);
        EXPECT_FALSE(lm_page_never_used(lm_heap_self, page));
        free_blocks(taken);
    });
}

/* ---- Home ---- */

TEST_F(Transfer, WhatNobodyWantsGoesHome) {
    Helper owner, freer;
    std::vector<void *> taken;
    owner.run([&] { taken = blocks(3 * kList + 1, kBytes); });
    lm_page_t *page = lm_page_of(taken[0]);
    freer.run([&] { free_blocks(taken); });
    EXPECT_TRUE(lm_transfer_empty(false)) << "they have only just come";
    EXPECT_EQ(0u, count(page));
    EXPECT_FALSE(lm_transfer_empty(false));
    EXPECT_EQ(3 * kList, count(page));
    EXPECT_EQ(nullptr, lm_transfer_take(kClass));
}

TEST_F(Transfer, WhatIsWantedStays) {
    Helper owner, freer;
    std::vector<void *> taken;
    owner.run([&] { taken = blocks(3 * kList + 1, kBytes); });
    lm_page_t *page = lm_page_of(taken[0]);
    freer.run([&] { free_blocks(taken); });
    EXPECT_TRUE(lm_transfer_empty(false));
    freer.run([&] {
        /* Two are wanted at a time, one lies below them. */
        for (int round = 0; round < 3; round++) {
            std::vector<void *> more = blocks(2 * kList, kBytes);
            free_blocks(more);
        }
    });
    EXPECT_TRUE(lm_transfer_empty(false));
    EXPECT_EQ(kList, count(page)) << "the least that lay there since the last look";
    EXPECT_FALSE(lm_transfer_empty(false));
    EXPECT_EQ(3 * kList, count(page));
    freer.end();
    owner.run([] {
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages);
    });
}

TEST_F(Transfer, CollectingEmptiesIt) {
    Helper owner, freer;
    std::vector<void *> taken;
    owner.run([&] { taken = blocks(2 * kList + 1, kBytes); });
    freer.run([&] { free_blocks(taken); });
    owner.run([] {
        lm_heap_collect();
        lm_heap_stats_t stats;
        lm_heap_stats(&stats);
        EXPECT_EQ(0u, stats.small_blocks) << "one is in the other's list, and free";
        lm_heap_check();
    });
    freer.end();
}

/* A worker that is sent away leaves the lists to the next one, or to the thread that forbids it. */
TEST_F(Transfer, AForbiddenWorkersListsAreCollected) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    Helper owner, freer;
    std::vector<void *> taken;
    uint32_t delay = lm_purge_policy.delay_ms;
    lm_purge_policy.delay_ms = 3600000;
    owner.run([&] { taken = blocks(2 * kList + 1, kBytes); });
    lm_purge_resume();
    freer.run([&] { free_blocks(taken); });
    EXPECT_TRUE(lm_os_worker_running()) << "who puts a list there starts one";
    lm_purge_pause();
    EXPECT_FALSE(lm_os_worker_running());
    lm_idle_collect(true);
    EXPECT_EQ(nullptr, lm_transfer_take(kClass));
    lm_purge_policy.delay_ms = delay;
}

/* ---- Sleepers ---- */

/* All that anybody holds goes home, and the page with it, while everybody sleeps. */
TEST_F(Transfer, MemoryGoesBackWhileAllSleep) {
    if (!sleepers_are_seen()) GTEST_SKIP() << kNobodySleeps;
    Helper owner, freer, third;
    lm_theap_t *heap = nullptr, *others[2] = {};
    owner.run([&] { lm_block_free(lm_block_alloc(16)); });
    std::vector<void *> taken;
    owner.run([&] {
        taken = blocks(2000, kBytes);
        heap = lm_heap_self;
    });
    freer.run([&] {
        free_blocks(taken, 0, 2 * kList + 50); /* two lists in the cache, one here */
        others[0] = lm_heap_self;
    });
    third.run([&] {
        free_blocks(taken, 2 * kList + 50, 4 * kList);
        void *p = lm_block_alloc(kBytes); /* a list handed out */
        EXPECT_TRUE(lm_heap_self->holds[kClass] == LM_HOLDS_OTHERS);
        EXPECT_NE(nullptr, lm_heap_self->head[kClass]);
        lm_block_free(p);
        others[1] = lm_heap_self;
    });
    owner.run([&] { free_blocks(taken, 4 * kList, 2000); });
    ASSERT_GT(heap->pages, 0u);
    EXPECT_TRUE(
        within_ticks(1000, [&] { return heap->parked && others[0]->parked && others[1]->parked; }));
    EXPECT_TRUE(within_ticks(20, [&] { return heap->pages == 0; })) << heap->pages << " pages";
    for (lm_theap_t *other : others) {
        EXPECT_EQ(nullptr, other->head[kClass]);
        EXPECT_FALSE(other->holds[kClass] == LM_HOLDS_OTHERS);
        EXPECT_EQ(0u, held(other->foreign[kClass]));
    }
    freer.run([&] {
        void *p = lm_block_alloc(kBytes);
        EXPECT_FALSE(others[0]->parked);
        EXPECT_EQ(1u, lm_heap_self->pages);
        lm_heap_check();
        lm_block_free(p);
    });
}

/* The owner's blocks come back to it by the cache: a list of them is handed out, and one block in
 * use. */
lm_theap_t *take_back_own(Helper &owner, Helper &freer, std::vector<void *> &taken) {
    lm_theap_t *heap = nullptr;
    owner.run([&] {
        taken = blocks(2 * kList + 1, kBytes);
        heap = lm_heap_self;
    });
    freer.run([&] { free_blocks(taken, 0, kList + 1); });
    owner.run([&] {
        while (heap->head[kClass] != nullptr) taken.push_back(lm_block_alloc(kBytes));
        taken.push_back(lm_block_alloc(kBytes)); /* of the list, and here it is again */
        ASSERT_TRUE(heap->holds[kClass] == LM_HOLDS_OTHERS);
    });
    return heap;
}

/* Its own blocks too, which it took from the cache. */
TEST_F(Transfer, ASleepersOwnBlocksGoHome) {
    if (!sleepers_are_seen()) GTEST_SKIP() << kNobodySleeps;
    Helper owner, freer;
    std::vector<void *> taken;
    lm_theap_t *heap = take_back_own(owner, freer, taken);
    owner.run([&] {
        EXPECT_EQ(0u, heap->foreign_bytes) << "none of its frees was another's";
        free_blocks(taken, kList + 1, taken.size());
    });
    freer.end();
    ASSERT_EQ(1u, heap->pages);
    EXPECT_TRUE(within_ticks(1000, [&] { return heap->parked; }));
    EXPECT_EQ(0u, held(heap->foreign[kClass]));
    EXPECT_EQ(0u, heap->foreign[kClass].granted) << "never more than was granted";
    EXPECT_TRUE(within_ticks(20, [&] { return heap->pages == 0; }));
    owner.run([&] {
        taken = blocks(3, kBytes);
        lm_heap_check();
        free_blocks(taken);
    });
    owner.end();
    lm_heap_collect();
    EXPECT_EQ(0u, heap->pages);
}

TEST_F(Transfer, ASleeperThatWakesAndEndsLeavesNothing) {
    if (!sleepers_are_seen()) GTEST_SKIP() << kNobodySleeps;
    Helper owner, freer;
    std::vector<void *> taken;
    lm_theap_t *heap = take_back_own(owner, freer, taken);
    freer.end();
    EXPECT_TRUE(within_ticks(1000, [&] { return heap->parked; }));
    owner.run([&] { free_blocks(taken, kList + 1, taken.size()); });
    owner.end();
    for (lm_foreign_t &foreign : heap->foreign) {
        EXPECT_EQ(nullptr, foreign.first);
        EXPECT_EQ(0u, foreign.granted);
    }
    lm_heap_collect();
    EXPECT_EQ(0u, heap->pages);
}

/* ---- Fork ---- */

/* Who waits for a lock with a full list still has it: the fork that holds the lock leaves it to the
 * child. */
TEST_F(Transfer, AListIsSomewhereWhileItsThreadWaits) {
    Helper owner, freer;
    std::vector<void *> taken;
    lm_theap_t *heap = nullptr;
    owner.run([&] { taken = blocks(300, kBytes); });
    freer.run([&] {
        free_blocks(taken, 0, kList);
        heap = lm_heap_self;
    });
    ASSERT_TRUE(lm_transfer_hold(UINT64_MAX));
    freer.start([&] { lm_block_free(taken[kList]); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(kList, held(heap->foreign[kClass])) << "it waits to put it there";
    lm_transfer_let();
    freer.await();
    EXPECT_EQ(1u, held(heap->foreign[kClass]));
    /* The same where it goes home. */
    lm_purge_policy.worker = false;
    freer.run([&] { free_blocks(taken, kList + 1, 2 * kList); });
    lm_biased_ask(&heap->lock);
    lm_biased_settle();
    lm_biased_wait(&heap->lock);
    freer.start([&] { lm_block_free(taken[2 * kList]); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(kList, held(heap->foreign[kClass]));
    lm_biased_let(&heap->lock);
    freer.await();
    lm_purge_policy.worker = true;
    freer.end();
    owner.run([&] { free_blocks(taken, 2 * kList + 1, 300); });
}

/* What lies in lists, in the cache and ready in the heads of threads that are not in the child:
 * none of it is handed out twice there, and none is lost. */
TEST_F(Transfer, AForkFindsEveryBlock) {
    Helper owner, freer, third;
    std::vector<void *> taken, kept;
    owner.run([&] { taken = blocks(6 * kList, kBytes); });
    freer.run([&] { free_blocks(taken, 0, 2 * kList + 50); });
    third.run([&] {
        free_blocks(taken, 2 * kList + 50, 4 * kList);
        kept = blocks(20, kBytes); /* from the cache */
        ASSERT_TRUE(lm_heap_self->holds[kClass] == LM_HOLDS_OTHERS);
    });
    std::vector<void *> in_use(taken.begin() + 4 * kList, taken.end());
    in_use.insert(in_use.end(), kept.begin(), kept.end());
    for (void *p : in_use) memset(p, 0x77, kBytes);
    lm_block_free(lm_block_alloc(kBytes)); /* this thread has a heap, as most have */
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        std::set<void *> seen(in_use.begin(), in_use.end());
        std::vector<void *> more;
        for (size_t i = 0; i < 3000; i++) {
            more.push_back(lm_block_alloc(kBytes));
            if (more.back() == nullptr || !seen.insert(more.back()).second) _exit(2); /* twice */
            memset(more.back(), 0x66, kBytes);
        }
        lm_heap_check();
        for (void *p : in_use) {
            for (size_t i = 0; i < kBytes; i++) {
                if (static_cast<char *>(p)[i] != 0x77) _exit(3);
            }
        }
        free_blocks(more);
        free_blocks(in_use);
        lm_heap_collect();
        lm_heap_check();
        lm_span_check();
        lm_heap_stats_t stats;
        lm_heap_stats(&stats);
        _exit(stats.small_blocks == 0 && lm_heap_self->pages == 0 ? 0 : 4); /* 4: lost */
    }
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(0, WEXITSTATUS(status));
    lm_heap_collect();
    third.run([&] { free_blocks(kept); });
    owner.run([&] { free_blocks(taken, 4 * kList, taken.size()); });
}

/* While threads free and take lists, put them into the cache and take them, the child loses at most
 * the block that each of them was freeing, and what one of them was just taking from its own page:
 * no full list. That page's list may be as long in a rare child, but not in many. */
TEST_F(Transfer, AForkLosesNoList) {
    constexpr unsigned kPairs = 2;
    constexpr size_t kRound = 300;
    static std::atomic<bool> stop;
    stop = false;
    std::vector<std::thread> threads;
    /* Blocks in the program's hands, which the child may free: a table for each pair. */
    static std::atomic<void *> table[kPairs][kRound];
    for (unsigned pair = 0; pair < kPairs; pair++) {
        for (unsigned side = 0; side < 2; side++) {
            threads.emplace_back([=] {
                while (!stop) {
                    for (auto &slot : table[pair]) {
                        if (side == 0) {
                            void *none = nullptr;
                            void *p = lm_block_alloc(kBytes);
                            if (!slot.compare_exchange_strong(none, p)) lm_block_free(p);
                        } else {
                            void *p = slot.exchange(nullptr);
                            if (p != nullptr) lm_block_free(p);
                        }
                    }
                }
            });
        }
    }
    lm_block_free(lm_block_alloc(kBytes));
    size_t most = 0, often = 0;
    for (int i = 0; i < (LM_TSAN ? 5 : 60); i++) {
        std::this_thread::sleep_for(std::chrono::microseconds(i * 37 % 1000));
        pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            for (auto &row : table) {
                for (auto &slot : row) lm_block_free(slot.exchange(nullptr));
            }
            lm_heap_collect();
            lm_heap_check();
            lm_heap_stats_t stats;
            lm_heap_stats(&stats);
            _exit(stats.small_blocks < 100 ? static_cast<int>(stats.small_blocks) : 100);
        }
        int status = 0;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        ASSERT_TRUE(WIFEXITED(status));
        most = std::max(most, static_cast<size_t>(WEXITSTATUS(status)));
        often += static_cast<size_t>(WEXITSTATUS(status)) >= kList / 2;
    }
    stop = true;
    for (std::thread &thread : threads) thread.join();
    printf("at most %zu blocks lost in a child\n", most);
    EXPECT_LE(often, LM_TSAN ? 0u : 3u);
    for (auto &row : table) {
        for (auto &slot : row) lm_block_free(slot.exchange(nullptr));
    }
    lm_heap_collect();
}

} // namespace

/* kept_test.cc: the pages that an ended thread leaves ready for the next thread, and who takes them
 * if no thread comes.
 *
 * The worker is allowed but paused, and the test calls lm_idle_collect itself.
 */
#include "heap_unit.h"

#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <csignal>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

namespace {

using unit::blocks;
using unit::free_blocks;
using unit::in_thread;

constexpr size_t kBytes = 128;
constexpr unsigned kTicks = 3; /* that a heap is kept for at most */

uint32_t heaps_kept() { return lm_load_relaxed(&lm_heaps_kept); }

class Kept : public unit::PausedWorkerTest {
  protected:
    void SetUp() override {
        PausedWorkerTest::SetUp();
        lm_block_free(lm_block_alloc(16)); /* this thread has a heap, and needs no other's */
        ASSERT_EQ(0u, heaps_kept());
    }
    void TearDown() override {
        lm_heap_collect();
        EXPECT_EQ(0u, heaps_kept());
        PausedWorkerTest::TearDown();
    }
};

/* A thread that uses a few classes and ends. Returns its heap. */
lm_theap_t *come_and_go(std::vector<void *> *left = nullptr) {
    lm_theap_t *heap = nullptr;
    in_thread([&] {
        std::vector<void *> taken;
        for (size_t bytes : {size_t{16}, kBytes, size_t{3000}, size_t{20000}}) {
            taken.push_back(lm_block_alloc(bytes));
            memset(taken.back(), 0xee, bytes);
        }
        heap = lm_heap_self;
        if (left != nullptr)
            *left = taken;
        else
            free_blocks(taken);
    });
    return heap;
}

/* ---- From thread to thread ---- */

TEST_F(Kept, TheNextThreadFindsItsPagesInPlace) {
    lm_theap_t *heap = come_and_go();
    EXPECT_EQ(1u, heaps_kept());
    EXPECT_TRUE(heap->kept);
    EXPECT_FALSE(heap->active);
    EXPECT_EQ(4u, heap->pages);
    lm_page_t *page = heap->current[lm_class_of(kBytes)];
    ASSERT_NE(nullptr, page);
    EXPECT_EQ(uintptr_t{LM_OWNER_NONE}, page->owner) << "nobody's meanwhile";
    in_thread([&] {
        void *p = lm_block_alloc(kBytes);
        EXPECT_EQ(heap, lm_heap_self);
        EXPECT_EQ(page, lm_page_of(p));
        EXPECT_EQ(lm_thread_token(), page->owner);
        EXPECT_FALSE(heap->kept);
        EXPECT_EQ(0u, heaps_kept());
        EXPECT_EQ(4u, heap->pages) << "nothing new was needed";
        lm_heap_check();
        lm_block_free(p);
        lm_heap_check();
    });
}

TEST_F(Kept, CallocClearsWhatTheLastThreadWrote) {
    (void)come_and_go();
    in_thread([] {
        for (size_t bytes : {size_t{16}, kBytes, size_t{3000}, size_t{20000}}) {
            auto *p = static_cast<unsigned char *>(lm_calloc(bytes));
            for (size_t i = 0; i < bytes; i++) ASSERT_EQ(0, p[i]) << i << " of " << bytes;
            lm_free(p);
        }
    });
}

/* Blocks outlive their thread: they are freed while its heap waits, and while a successor has
 * it. */
TEST_F(Kept, BlocksInUseStayWhatTheyAre) {
    std::vector<void *> left;
    lm_theap_t *heap = come_and_go(&left);
    ASSERT_EQ(1u, heaps_kept());
    lm_block_free(left[0]);
    lm_block_free(left[1]);
    EXPECT_NE(nullptr, heap->notified) << "nobody owns their pages: the heap is told";
    in_thread([&] {
        std::set<void *> seen(left.begin() + 2, left.end());
        for (size_t bytes : {size_t{16}, kBytes, size_t{3000}, size_t{20000}}) {
            for (size_t i = 0; i < 200; i++) {
                void *p = lm_block_alloc(bytes);
                EXPECT_TRUE(seen.insert(p).second);
                memset(p, 0x55, bytes);
            }
        }
        EXPECT_EQ(heap, lm_heap_self);
        lm_heap_check();
        for (size_t i : {size_t{2}, size_t{3}}) {
            auto *bytes = static_cast<unsigned char *>(left[i]);
            EXPECT_EQ(0xee, bytes[i == 2 ? 2999 : 19999]);
        }
        seen.insert(left.begin() + 2, left.end());
        for (void *p : seen) lm_block_free(p);
        lm_heap_check();
    });
}

TEST_F(Kept, WhatIsFreedLateComesInWithTheWorker) {
    std::vector<void *> left;
    lm_theap_t *heap = come_and_go(&left);
    free_blocks(left);
    for (unsigned i = 0; i < kTicks; i++) (void)lm_idle_collect(false);
    EXPECT_EQ(0u, heaps_kept());
    EXPECT_EQ(0u, heap->pages);
}

/* What is in use when the time is over: orphans, as ever. */
TEST_F(Kept, WhatStaysInUseBecomesAnOrphan) {
    std::vector<void *> left;
    lm_theap_t *heap = come_and_go(&left);
    (void)lm_idle_collect(true);
    EXPECT_EQ(0u, heap->pages);
    for (void *p : left) {
        EXPECT_TRUE(lm_load_relaxed(&lm_page_of(p)->remote) & LM_REMOTE_ORPHAN);
        lm_block_free(p);
    }
}

/* ---- How long, how much ---- */

TEST_F(Kept, TheWorkerTakesThemAfterAFewTicks) {
    lm_theap_t *heap = come_and_go();
    EXPECT_TRUE(lm_idle_collect(false)) << "it has to come again";
    EXPECT_EQ(4u, heap->pages) << "not at once";
    for (unsigned i = 1; i < kTicks; i++) (void)lm_idle_collect(false);
    EXPECT_EQ(0u, heap->pages);
    EXPECT_EQ(0u, heaps_kept());
    EXPECT_FALSE(heap->kept);
    (void)come_and_go(); /* and with nothing kept, all is as it was */
    EXPECT_EQ(1u, heaps_kept());
}

TEST_F(Kept, EachThreadGivesThemNewTime) {
    for (unsigned i = 0; i < 10; i++) {
        (void)come_and_go();
        (void)lm_idle_collect(false);
        EXPECT_EQ(1u, heaps_kept()) << i;
    }
}

TEST_F(Kept, CollectingTakesThemAll) {
    lm_theap_t *heap = come_and_go();
    lm_heap_collect();
    EXPECT_EQ(0u, heap->pages);
    EXPECT_EQ(0u, heaps_kept());
}

/* Somebody pushes to a page and is about to tell its heap, when its thread ends: the page stays
 * with the heap. */
TEST_F(Kept, CollectingTakesPagesThatWaitedForNews) {
    std::vector<void *> taken;
    lm_theap_t *heap = nullptr;
    lm_page_t *page = nullptr, *news = nullptr;
    in_thread([&] {
        taken = blocks(600, kBytes); /* two pages */
        heap = lm_heap_self;
        page = lm_page_of(taken[0]);
        auto *block = static_cast<lm_block_t *>(taken[0]);
        lm_given(block);
        lm_remote_push(nullptr, page, block, block, 1);
        news = lm_exchange_acquire(&heap->notified, nullptr);
        EXPECT_EQ(page, news);
    });
    lm_idle_unkeep();
    EXPECT_EQ(1u, heap->pages);
    lm_store_release(&heap->notified, news);
    free_blocks(taken, 1, taken.size());
    EXPECT_EQ(1u, heap->pages) << "now all its blocks are back";
    lm_heap_collect();
    EXPECT_EQ(0u, heap->pages);
}

/* The worker takes the news of frees from a thread that rests, and cannot take the blocks in. */
TEST_F(Kept, CollectingLooksBehindTheWorker) {
    if (LM_TSAN)
        GTEST_SKIP() << "a look at a sleeper's stack, which ThreadSanitizer cannot know of";
    in_thread([] {
        std::vector<void *> taken = blocks(600, kBytes);
        in_thread([&] { free_blocks(taken, 0, 100); });
        while (lm_heap_self->left_behind == 0) {
            ASSERT_EQ(2u, lm_heap_self->pages);
            (void)lm_idle_collect(true);
        }
        free_blocks(taken, 100, taken.size());
        EXPECT_EQ(2u, lm_heap_self->pages) << "nobody knows that the first is empty";
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages);
    });
}

TEST_F(Kept, WithoutAWorkerNothingIsKept) {
    lm_purge_policy.worker = false;
    lm_theap_t *heap = come_and_go();
    lm_purge_policy.worker = true;
    EXPECT_EQ(0u, heaps_kept());
    EXPECT_EQ(0u, heap->pages);
}

TEST_F(Kept, ManyClassesAreNotKeptWhole) {
    lm_theap_t *heap = nullptr;
    in_thread([&] {
        for (unsigned c = 1; c < LM_CLASSES; c++) lm_block_free(lm_block_alloc(lm_class_bytes(c)));
        heap = lm_heap_self;
        EXPECT_LE(100u, heap->pages);
    });
    EXPECT_LE(64u, heap->pages) << "half a MiB, in pages of 4 KiB at least";
    EXPECT_GE(100u, heap->pages);
}

TEST_F(Kept, LargePagesAreNotKeptWhole) {
    bool guards = unit::blocks_in_page(65536) < 8;
    lm_theap_t *heap = nullptr;
    in_thread([&] {
        std::vector<void *> taken = blocks(unit::blocks_in_page(65536), 65536);
        if (guards) { /* a page is less than half a MiB: one more */
            std::vector<void *> others = blocks(unit::blocks_in_page(57344), 57344);
            taken.insert(taken.end(), others.begin(), others.end());
        }
        taken.push_back(lm_block_alloc(kBytes)); /* with any other page, more than half a MiB */
        heap = lm_heap_self;
        EXPECT_EQ(guards ? 3u : 2u, heap->pages);
        free_blocks(taken);
    });
    EXPECT_EQ(guards ? 2u : 1u, heap->pages);
}

/* Statistics do not call that in use. */
TEST_F(Kept, StatisticsTakeThemBack) {
    (void)come_and_go();
    lm_heap_stats_t stats;
    lm_heap_stats(&stats);
    EXPECT_EQ(0u, stats.small_blocks);
    EXPECT_EQ(0u, heaps_kept());
}

/* The program shuts itself in: nobody would come any more. */
TEST_F(Kept, ABanTakesThemBack) {
    lm_theap_t *heap = come_and_go();
    lm_purge_allow(false);
    EXPECT_EQ(0u, heap->pages);
    lm_purge_allow(true);
}

/* Threads that end together: some heaps are kept, and not all. */
TEST_F(Kept, ACrowdLeavesAFew) {
    uint32_t many = lm_load_relaxed(&lm_heaps_many) - 4, begun = 0; /* fewer than share */
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::condition_variable changed;
    for (uint32_t i = 0; i < many; i++) {
        threads.emplace_back([&] {
            void *p = lm_block_alloc(kBytes);
            std::unique_lock<std::mutex> lock(mutex);
            begun++;
            changed.notify_all();
            changed.wait(lock, [&] { return begun == many; });
            lm_block_free(p);
        });
    }
    for (std::thread &thread : threads) thread.join();
    EXPECT_GT(heaps_kept(), 0u);
    EXPECT_LE(heaps_kept(), lm_load_relaxed(&lm_heaps_many) / 2 + 2)
        << "two may pass the door at once";
}

/* ---- Fork ---- */

TEST_F(Kept, AChildTakesThemBack) {
    std::vector<void *> left;
    lm_theap_t *heap = come_and_go(&left);
    lm_block_free(left[1]);
    lm_block_free(lm_block_alloc(kBytes));
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        lm_block_free(left[2]);
        bool taken_back = heaps_kept() == 0 && !heap->kept; /* it may never start a thread */
        in_thread([&] {
            free_blocks(blocks(100, kBytes));
            lm_heap_check();
        });
        _exit(taken_back ? 0 : 2);
    }
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    EXPECT_EQ(1u, heaps_kept());
    lm_block_free(left[0]);
    lm_block_free(left[2]);
    lm_block_free(left[3]);
}

/* ---- Signal handlers, for who parks ---- */

/* libc's handlers all go the same way back: new is only the first. Where none is written into the
 * frame, one handler is enough for not knowing. */
TEST(Handlers, NewOnesAreSeenOnce) {
    const bool known = LM_SIGNAL_RESTORER != 0;
    struct sigaction action {
    }, old{};
    action.sa_handler = [](int) {};
    ASSERT_EQ(0, sigaction(SIGUSR1, &action, &old));
    (void)lm_os_handlers_known(); /* false, unless this program had a handler already */
    EXPECT_EQ(known, lm_os_handlers_known());
    ASSERT_EQ(0, sigaction(SIGUSR1, &old, nullptr));
    EXPECT_EQ(known, lm_os_handlers_known()) << "one that is gone may still be running";
}

TEST(Handlers, ThereIsAProcessor) { EXPECT_LE(1u, lm_os_processors()); }

} // namespace

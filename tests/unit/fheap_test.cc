/* fheap_test.cc: first-class heaps: objects, branches of threads, the thread's default heap, fork
 * (loam/heap.h).
 *
 * The worker is allowed but paused, and a test calls lm_idle_collect itself.
 */
#include "bytes.h"
#include "fheap_unit.h"
#include "sleepers.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <set>

namespace {

using unit::free_all;
using unit::in_thread;
using unit::kSizes;

class Fheap : public unit::FheapTest {};

/* ---- Objects ---- */

TEST_F(Fheap, GivesObjectsOfAllSizes) {
    std::vector<void *> taken;
    for (size_t bytes : kSizes) {
        void *p = take(bytes);
        EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(p) % 16);
        EXPECT_GE(loam_usable_size(p), bytes);
        EXPECT_TRUE(loam_heap_contains(heap_, p));
        EXPECT_TRUE(loam_heap_owns(heap_, p));
        EXPECT_FALSE(loam_heap_contains(nullptr, p));
        taken.push_back(p);
        lm_heap_check();
        lm_fheap_check(heap_);
    }
    EXPECT_EQ(std::size(kSizes), objects());
    free_all(taken);
    EXPECT_EQ(0u, objects());
    loam_heap_collect(heap_);
    EXPECT_EQ(0u, committed());
}

TEST_F(Fheap, SharesNoPageWithMalloc) {
    for (size_t bytes : kSizes) {
        void *ours = take(bytes), *other = loam_malloc(bytes);
        EXPECT_NE(lm_page_of(ours), lm_page_of(other));
        EXPECT_FALSE(loam_heap_contains(heap_, other));
        loam_free(other);
        loam_free(ours);
    }
}

TEST_F(Fheap, ZeroesWhatIsToBeZero) {
    for (int round = 0; round < 3; round++) {
        for (size_t bytes : kSizes) {
            auto *p = static_cast<unsigned char *>(loam_heap_calloc(heap_, bytes, 1));
            ASSERT_NE(nullptr, p);
            ASSERT_EQ(bytes, first_other(p, bytes, 0));
            memset(p, 0xff, bytes);
            loam_free(p);
        }
    }
}

/* What it grows by is zero, whatever was in that memory before. */
TEST_F(Fheap, ZeroedObjectsGrowByZeroes) {
    for (size_t bytes : {20u, 100u, 1025u, 5000u, 40000u, 65000u, 70000u, 200001u}) {
        for (int round = 0; round < 2; round++) {
            std::vector<void *> dirty;
            for (int i = 0; i < 4; i++) {
                void *p = take(bytes);
                memset(p, 0xff, loam_usable_size(p));
                dirty.push_back(p);
            }
            free_all(dirty);
            auto *p = static_cast<unsigned char *>(round == 0 ? loam_heap_zalloc(heap_, bytes)
                                                              : loam_heap_calloc(heap_, 1, bytes));
            size_t more = loam_good_size(bytes);
            p = static_cast<unsigned char *>(loam_rezalloc(p, more));
            ASSERT_NE(nullptr, p);
            ASSERT_EQ(more, first_other(p, more, 0)) << bytes;
            loam_free(p);
        }
    }
}

TEST_F(Fheap, AlignsObjects) {
    for (size_t align = 1; align <= 1 << 20; align *= 2) {
        for (size_t bytes : {size_t{1}, size_t{100}, size_t{5000}, size_t{100000}}) {
            void *p = loam_heap_malloc_aligned(heap_, bytes, align);
            ASSERT_NE(nullptr, p);
            EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(p) % align);
            EXPECT_TRUE(loam_heap_owns(heap_, p));
            memset(p, 1, bytes);
            loam_free(p);
        }
    }
    for (size_t align : {size_t{3}, size_t{0}}) {
        errno = 0;
        EXPECT_EQ(nullptr, loam_heap_malloc_aligned(heap_, 1, align));
        EXPECT_EQ(EINVAL, errno);
    }
}

TEST_F(Fheap, RefusesWhatIsTooLarge) {
    for (size_t bytes :
         {SIZE_MAX, size_t{PTRDIFF_MAX} + 1, SIZE_MAX - 15, size_t{PTRDIFF_MAX} - 1}) {
        errno = 0;
        EXPECT_EQ(nullptr, loam_heap_malloc(heap_, bytes));
        EXPECT_EQ(ENOMEM, errno);
        EXPECT_EQ(nullptr, loam_heap_zalloc(heap_, bytes));
        EXPECT_EQ(nullptr, loam_heap_malloc_aligned(heap_, bytes, 64));
    }
    EXPECT_EQ(nullptr, loam_heap_calloc(heap_, SIZE_MAX / 2, 3));
    EXPECT_EQ(0u, committed());
}

TEST_F(Fheap, ReallocKeepsContentsAndHeap) {
    std::vector<size_t> steps = {10, 100, 90, 2000, 70000, 200000, 150000, 3000000, 500, 16};
    auto *p = static_cast<unsigned char *>(loam_heap_realloc(heap_, nullptr, steps[0]));
    memset(p, 7, steps[0]);
    for (size_t i = 1; i < steps.size(); i++) {
        p = static_cast<unsigned char *>(loam_heap_realloc(heap_, p, steps[i]));
        ASSERT_NE(nullptr, p);
        EXPECT_TRUE(loam_heap_owns(heap_, p)) << steps[i];
        size_t kept = std::min(steps[i - 1], steps[i]);
        ASSERT_EQ(kept, first_other(p, kept, 7));
        memset(p, 7, steps[i]);
        lm_fheap_check(heap_);
    }
    EXPECT_EQ(1u, objects());
    EXPECT_EQ(nullptr, loam_heap_realloc(heap_, p, 0));
    EXPECT_EQ(0u, objects());
    void *other = loam_malloc(100);
    other = loam_heap_realloc(heap_, other, 5000);
    EXPECT_TRUE(loam_heap_owns(heap_, other)) << "another heap's object moves in";
    other = loam_realloc(other, 100000);
    EXPECT_FALSE(loam_heap_contains(heap_, other)) << "and out";
    loam_free(other);
}

TEST_F(Fheap, CopiesStrings) {
    char *all = loam_heap_strdup(heap_, "arena"), *part = loam_heap_strndup(heap_, "arena", 3),
         *more = loam_heap_strndup(heap_, "arena", 100);
    EXPECT_STREQ("arena", all);
    EXPECT_STREQ("are", part);
    EXPECT_STREQ("arena", more);
    EXPECT_TRUE(loam_heap_owns(heap_, part));
}

/* ---- Who hands out which block ---- */

TEST_F(Fheap, OwnFreesAreLocal) {
    void *p = take(100);
    lm_page_t *page = lm_page_of(p);
    EXPECT_EQ(lm_thread_token(), page->owner);
    EXPECT_EQ(0u, page->foreign_class);
    uint32_t live = page->live;
    loam_free(p);
    EXPECT_EQ(live - 1, page->live);
}

/* Or destroy would end malloc's objects. */
TEST_F(Fheap, WhatOthersFreeIsHandedOutByNoOtherHeap) {
    std::vector<void *> taken = take(4000, 100);
    std::set<void *> ours(taken.begin(), taken.end());
    in_thread([&] {
        free_all(taken);
        for (unsigned c = 1; c < LM_CLASSES; c++)
            EXPECT_EQ(nullptr, lm_heap_self->foreign[c].first);
        std::vector<void *> others;
        for (int i = 0; i < 5000; i++) {
            others.push_back(loam_malloc(100));
            EXPECT_EQ(0u, ours.count(others.back()));
        }
        free_all(others);
    });
    EXPECT_EQ(0u, objects());
    std::vector<void *> again = take(4000, 100);
    size_t reused = 0;
    for (void *p : again) reused += ours.count(p);
    EXPECT_GT(reused, 3000u) << "what came home is used again";
    free_all(again);
}

/* And the other way round. */
TEST_F(Fheap, HandsOutNoBlockOfMalloc) {
    std::vector<void *> others;
    in_thread([&] {
        for (int i = 0; i < 4000; i++) others.push_back(loam_malloc(100));
        loam_heap_destroy(loam_heap_create());
    });
    free_all(others); /* now on this thread's list of others' blocks */
    std::vector<void *> taken = take(5000, 100);
    for (void *p : taken) ASSERT_TRUE(loam_heap_contains(heap_, p));
    end();
}

/* ---- Threads ---- */

TEST_F(Fheap, EachThreadHasABranch) {
    void *here = take(100), *there = nullptr;
    in_thread([&] {
        there = take(100);
        EXPECT_NE(lm_page_of(here), lm_page_of(there));
        EXPECT_EQ(lm_thread_token(), lm_page_of(there)->owner);
        lm_heap_check();
    });
    EXPECT_EQ(uintptr_t{LM_OWNER_NONE}, lm_page_of(there)->owner) << "its thread has ended";
    EXPECT_EQ(2u, objects());
    lm_page_t *page = lm_page_of(there);
    in_thread([&] {
        void *again = take(100);
        EXPECT_EQ(page, lm_page_of(again)) << "the next thread takes the branch over";
        EXPECT_EQ(lm_thread_token(), page->owner);
        loam_free(there);
        loam_free(again);
    });
    loam_free(here);
    EXPECT_EQ(0u, objects());
}

TEST_F(Fheap, AnyThreadFreesWhatAThreadHasLeft) {
    std::vector<void *> left;
    in_thread([&] { left = take(2000, 300); });
    EXPECT_EQ(2000u, objects());
    free_all(left);
    EXPECT_EQ(0u, objects());
    (void)lm_idle_collect(false);
    loam_heap_collect(heap_);
    EXPECT_EQ(0u, committed());
}

TEST_F(Fheap, TheWorkerTakesInWhatOthersFreed) {
    std::vector<void *> taken = take(4000, 100);
    size_t before = committed();
    in_thread([&] { free_all(taken); });
    for (int tick = 0; tick < 4; tick++) (void)lm_idle_collect(false);
    EXPECT_LT(committed(), before / 2) << "though this thread has run no slow path";
    lm_heap_check();
}

TEST_F(Fheap, ThreadsThatAreAtTheirEndAllocateToo) {
    if (LM_TSAN) GTEST_SKIP() << "ThreadSanitizer's own part of the thread has ended by then";
    static loam_heap *heap;
    static void *taken;
    static int told;
    heap = heap_;
    taken = nullptr;
    told = 0;
    pthread_key_t key;
    /* Destructors that come round until loam's heap has ended. */
    pthread_key_create(&key, [](void *rounds) {
        if (lm_heap_get() != nullptr) {
            pthread_setspecific(*static_cast<pthread_key_t *>(rounds), rounds);
            return;
        }
        taken = loam_heap_malloc(heap, 200);
    });
    in_thread([&] {
        (void)take(10);
        loam_heap_set_limits(
            heap_, committed(), SIZE_MAX, [](loam_heap *, size_t, void *) { told++; }, nullptr);
        pthread_setspecific(key, &key);
    });
    pthread_key_delete(key);
    if (taken != nullptr) {
        memset(taken, 1, 200);
        EXPECT_TRUE(loam_heap_owns(heap_, taken));
        EXPECT_EQ(1, told) << "of its page";
        loam_free(taken);
    }
}

/* Time for each allocation must not grow by the number of heaps: their branches are found by few
 * steps. */
TEST_F(Fheap, ThousandsInTurn) {
    constexpr size_t kMany = 3000;
    in_thread([&] {
        std::vector<loam_heap *> heaps(kMany);
        std::vector<void *> left;
        for (auto &heap : heaps) heap = loam_heap_create();
        for (int round = 0; round < 3; round++) {
            for (auto *heap : heaps) {
                void *p = loam_heap_malloc(heap, 100);
                ASSERT_TRUE(loam_heap_contains(heap, p));
                ASSERT_EQ(heap, lm_page_of(p)->heap->fheap.fheap);
            }
        }
        const lm_theap_t *own = lm_heap_mine();
        EXPECT_EQ(kMany, own->fheap.branches);
        size_t buckets = size_t{1} << own->fheap.bucket_bits, longest = 0;
        for (size_t i = 0; i < buckets; i++) {
            size_t length = 0;
            for (lm_theap_t *b = own->fheap.buckets[i]; b != nullptr; b = b->fheap.next_branch)
                length++;
            longest = std::max(longest, length);
        }
        EXPECT_LE(longest, 16u);
        lm_heap_check();
        for (size_t i = 0; i < kMany; i += 2) loam_heap_destroy(heaps[i]);
        for (size_t i = 1; i < kMany; i += 2) {
            ASSERT_TRUE(loam_heap_contains(heaps[i], loam_heap_malloc(heaps[i], 100)));
            left.clear();
            (void)loam_heap_visit(
                heaps[i], [](const loam_heap_area *, void *) { return true; },
                [](void *p, size_t, void *context) {
                    static_cast<std::vector<void *> *>(context)->push_back(p);
                    return true;
                },
                &left);
            EXPECT_EQ(4u, left.size());
            loam_heap_delete(heaps[i]);
            free_all(left);
        }
        EXPECT_EQ(0u, own->fheap.branches) << "what has ended is looked at no more";
    });
}

/* Whoever ends a heap: its branches serve the next, of any thread. */
TEST_F(Fheap, BranchesOfEndedHeapsAreUsedAgain) {
    constexpr size_t kMany = 200;
    auto use_many = [] {
        std::vector<loam_heap *> heaps(kMany);
        for (auto &heap : heaps) {
            heap = loam_heap_create();
            loam_free(loam_heap_malloc(heap, 100));
        }
        return heaps;
    };
    lm_heap_stats_t stats;
    size_t before = 0;
    for (int round = 0; round < 6; round++) {
        unit::Helper other, third;
        std::vector<loam_heap *> heaps;
        other.run([&] { heaps = use_many(); });
        for (auto *heap : heaps) loam_heap_destroy(heap);
        third.run([&] { /* while the other one still lives */
                        for (auto *heap : use_many()) {
                            round % 2 == 0 ? loam_heap_destroy(heap) : loam_heap_delete(heap);
                        }
        });
        third.end();
        other.end();
        lm_heap_stats(&stats);
        if (round == 0) before = stats.heaps;
        EXPECT_EQ(before, stats.heaps) << round;
    }
}

TEST_F(Fheap, StatisticsCountWhatHeapsTake) {
    std::vector<loam_heap *> heaps(30);
    for (auto &heap : heaps) {
        heap = loam_heap_create();
        (void)loam_heap_malloc(heap, 100);
    }
    static loam_stats_t stats;
    ASSERT_EQ(0, loam_stats_get(&stats, sizeof stats));
    lm_span_stats_t span;
    lm_span_stats(&span);
    EXPECT_EQ(span.metadata_bytes + span.meta_bytes, stats.metadata_bytes);
    EXPECT_GE(span.meta_bytes, 30 * sizeof(lm_theap_t));
    for (auto *heap : heaps) loam_heap_destroy(heap);
}

/* ---- The thread's default ---- */

TEST_F(Fheap, MayBeWhatMallocUses) {
    in_thread([&] {
        loam_heap *before = heap_;
        EXPECT_EQ(0, loam_heap_set_default(heap_, &before));
        EXPECT_EQ(nullptr, before);
        void *small = loam_malloc(100), *zero = loam_calloc(5, 10), *large = loam_malloc(100000);
        EXPECT_TRUE(loam_heap_contains(heap_, small));
        EXPECT_TRUE(loam_heap_contains(heap_, zero));
        EXPECT_TRUE(loam_heap_contains(heap_, large));
        std::vector<void *> others;
        in_thread([&] { others.push_back(loam_malloc(100)); });
        free_all(others);
        lm_heap_check();
        EXPECT_EQ(0, loam_heap_set_default(nullptr, &before));
        EXPECT_EQ(heap_, before);
        void *own = loam_malloc(100);
        EXPECT_FALSE(loam_heap_contains(heap_, own));
        free_all({small, zero, large, own});
    });
    EXPECT_EQ(0u, objects());
}

TEST_F(Fheap, EndingTheDefaultLeadsBack) {
    in_thread([&] {
        ASSERT_EQ(0, loam_heap_set_default(heap_, nullptr));
        (void)loam_malloc(100);
        end();
        void *p = loam_malloc(100);
        EXPECT_TRUE(loam_heap_contains(nullptr, p));
        loam_free(p);
    });
}

TEST_F(Fheap, AThreadMayEndWithADefault) {
    in_thread([&] {
        ASSERT_EQ(0, loam_heap_set_default(heap_, nullptr));
        (void)loam_malloc(100);
    });
    EXPECT_EQ(1u, objects());
    in_thread([&] {
        void *p = loam_malloc(100);
        EXPECT_FALSE(loam_heap_contains(heap_, p)) << "the next thread does not inherit it";
        loam_free(p);
    });
}

/* The worker hides what the thread's malloc uses, and has to put the same back. */
TEST_F(Fheap, AThreadThatWasParkedWakesInItsDefault) {
    if (!unit::sleepers_are_seen()) GTEST_SKIP() << unit::kNobodySleeps;
    unit::Helper sleeper;
    lm_theap_t *own = nullptr;
    void *before = nullptr;
    sleeper.run([&] {
        ASSERT_EQ(0, loam_heap_set_default(heap_, nullptr));
        before = loam_malloc(100);
        own = lm_heap_mine();
    });
    ASSERT_TRUE(unit::within_ticks(1000, [&] { return own->parked; }));
    sleeper.run([&] {
        EXPECT_EQ(&lm_heap_empty, lm_heap_self);
        loam_free(before); /* a local free, hidden or not */
        void *small = loam_malloc(100), *large = loam_malloc(100000);
        EXPECT_TRUE(loam_heap_owns(heap_, small));
        EXPECT_TRUE(loam_heap_owns(heap_, large));
    });
    ASSERT_TRUE(unit::within_ticks(1000, [&] { return own->parked; }));
    sleeper.run([&] {
        void *large = loam_malloc(100000);
        EXPECT_TRUE(loam_heap_owns(heap_, large)) << "though nothing has woken the heap";
        ASSERT_EQ(0, loam_heap_set_default(nullptr, nullptr));
        void *p = loam_malloc(100);
        EXPECT_FALSE(loam_heap_contains(heap_, p));
        loam_free(p);
        lm_heap_check();
    });
    sleeper.end();
    EXPECT_EQ(3u, objects());
}

TEST_F(Fheap, OfAParkedThreadMayEnd) {
    if (!unit::sleepers_are_seen()) GTEST_SKIP() << unit::kNobodySleeps;
    unit::Helper sleeper;
    lm_theap_t *own = nullptr;
    sleeper.run([&] {
        (void)take(1000, 100);
        own = lm_heap_mine();
    });
    ASSERT_TRUE(unit::within_ticks(1000, [&] { return own->parked; }));
    end();
    heap_ = loam_heap_create();
    sleeper.run([&] {
        void *p = take(100);
        EXPECT_TRUE(loam_heap_owns(heap_, p));
        lm_heap_check();
    });
    sleeper.end();
    EXPECT_EQ(1u, objects());
}

/* ---- Fork ---- */

TEST_F(Fheap, TheChildOfAForkHasItAll) {
    if (LM_TSAN) GTEST_SKIP() << "ThreadSanitizer does not follow a fork of many threads";
    std::atomic<int> step{0};
    std::vector<void *> theirs;
    std::thread other([&] {
        theirs = take(300, 100);
        (void)loam_heap_set_default(heap_, nullptr);
        step = 1;
        while (step != 2) std::this_thread::yield();
        (void)loam_heap_set_default(nullptr, nullptr);
    });
    while (step != 1) std::this_thread::yield();
    std::vector<void *> ours = take(300, 100);
    pid_t child = fork();
    if (child == 0) {
        int bad = 0;
        loam_heap_numbers numbers;
        loam_heap_usage(heap_, &numbers);
        bad |= numbers.objects == 600 ? 0 : 1;
        free_all(theirs);
        free_all(ours);
        loam_heap_usage(heap_, &numbers);
        bad |= numbers.objects == 0 ? 0 : 2;
        void *p = take(100);
        bad |= loam_heap_owns(heap_, p) ? 0 : 4;
        lm_fheap_check(heap_);
        loam_heap_destroy(heap_);
        loam_heap *next = loam_heap_create();
        bad |= loam_heap_malloc(next, 100) != nullptr ? 0 : 8;
        _exit(bad);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    step = 2;
    other.join();
    EXPECT_EQ(600u, objects());
}

} // namespace

/* fheap_end_test.cc: first-class heaps: their end, their limits, and walks over them
 * (loam/heap.h). */
#include "fheap_unit.h"
#include "stderr_of.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <map>
#include <random>
#include <utility>

namespace {

using unit::free_all;
using unit::in_thread;
using unit::kSizes;

class FheapEnd : public unit::FheapTest {};

/* ---- End ---- */

TEST_F(FheapEnd, DestroyEndsEverythingOfEveryThread) {
    for (size_t bytes : kSizes) (void)take(20, bytes);
    in_thread([&] {
        for (size_t bytes : kSizes) (void)take(20, bytes);
    });
    std::vector<void *> freed = take(100, 64);
    in_thread([&] { free_all(freed); });
    void *inside = take(100);
    end();
    EXPECT_EQ(&lm_nobody, lm_page_of(inside));
} /* TearDown: nothing is in use */

TEST_F(FheapEnd, DestroyWhileAnotherThreadLives) {
    std::thread other;
    std::atomic<int> step{0};
    other = std::thread([&] {
        (void)take(500, 100);
        step = 1;
        while (step != 2) std::this_thread::yield();
        /* Its branch is free: for another heap, with nothing of the first. */
        loam_heap *next = loam_heap_create();
        void *p = loam_heap_malloc(next, 100);
        EXPECT_TRUE(loam_heap_owns(next, p));
        EXPECT_EQ(1u, lm_heap_self->fheap.last_branch->pages);
        loam_heap_destroy(next);
        lm_heap_check();
    });
    while (step != 1) std::this_thread::yield();
    end();
    step = 2;
    other.join();
}

/* A heap made anew may lie where one was: a thread must not take its branch of the old one for the
 * new one's. */
TEST_F(FheapEnd, AStaleBranchIsNotUsed) {
    std::atomic<int> step{0};
    std::thread other([&] {
        (void)take(100);
        step = 1;
        while (step != 2) std::this_thread::yield();
        void *p = take(100);
        EXPECT_TRUE(loam_heap_owns(heap_, p));
        EXPECT_EQ(heap_, lm_page_of(p)->heap->fheap.fheap);
        step = 3;
    });
    while (step != 1) std::this_thread::yield();
    loam_heap *old = heap_;
    end();
    for (int i = 0; i < 1000 && heap_ != old; i++) {
        if (heap_ != nullptr) loam_heap_destroy(heap_);
        heap_ = loam_heap_create();
    }
    EXPECT_EQ(old, heap_) << "this is about the same address";
    step = 2;
    other.join();
    EXPECT_EQ(1u, objects());
}

/* Its pages become orphans, and the branch that they were of the next heap's. */
TEST_F(FheapEnd, TheNextHeapContainsNothingOfADeletedOne) {
    std::vector<void *> left = take(40, 320);
    loam_heap_delete(std::exchange(heap_, loam_heap_create()));
    for (size_t i = 0; i < 40000; i += 500) loam_free(loam_malloc(i)); /* parts with its pages */
    (void)take(320);
    for (void *p : left) {
        EXPECT_FALSE(loam_heap_contains(heap_, p));
        EXPECT_FALSE(loam_heap_owns(heap_, p));
    }
    EXPECT_EQ(1u, objects());
    free_all(left);
}

/* offset.c has no lists for heaps. */
TEST_F(FheapEnd, ObjectsAtAnOffsetBelongToNone) {
    ASSERT_EQ(0, loam_heap_set_default(heap_, nullptr));
    for (size_t bytes : {100, 5000, 100000, 3000000}) {
        void *p = loam_malloc_aligned_offset(bytes, 4096, 8);
        EXPECT_FALSE(loam_heap_contains(heap_, p)) << bytes;
        EXPECT_EQ(0u, objects());
        loam_free(p);
    }
    (void)take(100000);
    EXPECT_EQ(1u, objects());
}

TEST_F(FheapEnd, DeleteMakesObjectsMallocs) {
    std::vector<void *> taken, left;
    for (size_t bytes : kSizes) taken.push_back(take(bytes));
    in_thread([&] {
        for (size_t bytes : kSizes) left.push_back(take(bytes));
    });
    std::vector<void *> of_living;
    std::atomic<int> step{0};
    std::thread other([&] {
        of_living = take(300, 500);
        step = 1;
        while (step != 2) std::this_thread::yield();
        for (size_t i = 0; i < 100; i++) loam_free(of_living[i]);
        void *p = loam_malloc(500); /* a slow path: the branch is parted with */
        loam_free(p);
        for (size_t i = 0; i < 40000; i += 500) loam_free(loam_malloc(i));
        for (size_t i = 100; i < 200; i++) loam_free(of_living[i]);
        lm_heap_check();
        step = 3;
        while (step != 4) std::this_thread::yield();
    });
    while (step != 1) std::this_thread::yield();
    loam_heap_delete(heap_);
    heap_ = nullptr;
    for (void *p : taken) {
        if (lm_page_of(p)->kind == LM_KIND_PAGE) {
            EXPECT_NE(0u, lm_page_of(p)->foreign_class);
        } else {
            EXPECT_EQ(nullptr, lm_page_of(p)->fheap);
        }
    }
    step = 2;
    while (step != 3) std::this_thread::yield();
    for (size_t i = 200; i < 300; i++) loam_free(of_living[i]);
    step = 4;
    other.join();
    free_all(taken);
    free_all(left);
}

/* What its pages cost, not its objects: their memory is not even looked at. */
TEST_F(FheapEnd, DestroyTouchesNoObject) {
    if (LOAM_DEBUG) GTEST_SKIP() << "the debug build looks for overflows";
    for (int i = 0; i < 100000; i++) (void)take(100);
    (void)take(500000);
    std::vector<void *> freed = take(1000, 100);
    free_all(freed);
    std::vector<std::pair<void *, size_t>> areas;
    ASSERT_TRUE(loam_heap_visit(
        heap_,
        [](const loam_heap_area *area, void *context) {
            static_cast<std::vector<std::pair<void *, size_t>> *>(context)->emplace_back(
                const_cast<void *>(area->start), area->bytes);
            return true;
        },
        nullptr, &areas));
    ASSERT_GT(areas.size(), 100u);
    for (auto &[start, bytes] : areas) ASSERT_EQ(0, mprotect(start, bytes, PROT_NONE));
    end();
    for (auto &[start, bytes] : areas) ASSERT_EQ(0, mprotect(start, bytes, PROT_READ | PROT_WRITE));
}

TEST_F(FheapEnd, ManyComeAndGo) {
    size_t metadata = 0;
    for (int round = 0; round < 3000; round++) {
        loam_heap *heap = loam_heap_create();
        ASSERT_NE(nullptr, heap);
        for (size_t bytes : {16u, 100u, 700u}) EXPECT_NE(nullptr, loam_heap_malloc(heap, bytes));
        loam_heap_destroy(heap);
        lm_span_stats_t stats;
        lm_span_stats(&stats);
        if (round == 100) metadata = stats.meta_bytes;
        if (round > 100) {
            ASSERT_EQ(metadata, stats.meta_bytes) << round;
        }
    }
}

TEST_F(FheapEnd, NullIsFine) {
    loam_heap_destroy(nullptr);
    loam_heap_delete(nullptr);
}

/* ---- Mistakes ---- */

loam_heap *volatile no_heap; /* NULL, which no compiler sees */

class FheapMistakes : public FheapEnd {
  protected:
    void SetUp() override {
        FheapEnd::SetUp();
        lm_misuse_policy.ignore = true;
    }
    void TearDown() override {
        lm_misuse_policy.ignore = false;
        FheapEnd::TearDown();
    }
    static bool told(const char *what, const std::function<void()> &call) {
        std::string said = unit::stderr_of(call);
        EXPECT_NE(std::string::npos, said.find(what)) << said;
        return std::count(said.begin(), said.end(), '\n') == 1;
    }
};

TEST_F(FheapMistakes, EndedHeapsAndNullAreReported) {
    loam_heap *ended = loam_heap_create();
    for (bool used : {false, true}) {
        loam_heap *stale = loam_heap_create();
        void *p = used ? loam_heap_malloc(stale, 100) : nullptr;
        (void)p;
        loam_heap_destroy(stale);
        ended = stale;
    }
    for (loam_heap *bad : {ended, static_cast<loam_heap *>(nullptr)}) {
        const char *what = bad == nullptr ? "NULL for a heap" : "which has ended";
        for (size_t bytes : {100u, 5000u, 100000u}) {
            void *p = this;
            errno = 0;
            EXPECT_TRUE(told(what, [&] { p = loam_heap_malloc(bad, bytes); }));
            EXPECT_EQ(nullptr, p);
            EXPECT_EQ(EINVAL, errno);
            EXPECT_TRUE(told(what, [&] { p = loam_heap_zalloc(bad, bytes); }));
            EXPECT_EQ(nullptr, p);
            EXPECT_TRUE(told(what, [&] { p = loam_heap_malloc_aligned(bad, bytes, 4096); }));
            EXPECT_EQ(nullptr, p);
        }
        void *mine = loam_malloc(100), *moved = mine;
        EXPECT_TRUE(told(what, [&] { moved = loam_heap_realloc(bad, mine, 5000); }));
        EXPECT_EQ(nullptr, moved);
        EXPECT_TRUE(told(what, [&] { moved = loam_heap_rezalloc(bad, mine, 5000); }));
        EXPECT_EQ(nullptr, moved);
        EXPECT_TRUE(told(what, [&] { moved = loam_heap_realloc_aligned(bad, mine, 5000, 64); }));
        EXPECT_EQ(nullptr, moved);
        loam_free(mine);
        int result = 0;
        EXPECT_TRUE(
            told(what, [&] { result = loam_heap_set_limits(bad, 0, 0, nullptr, nullptr); }));
        EXPECT_EQ(-EINVAL, result);
        EXPECT_TRUE(told(what, [&] { loam_heap_collect(bad); }));
        loam_heap_numbers numbers;
        EXPECT_TRUE(told(what, [&] { loam_heap_usage(bad, &numbers); }));
        EXPECT_EQ(0u, numbers.committed_bytes);
    }
    EXPECT_TRUE(told("loam_heap_destroy", [&] { loam_heap_destroy(ended); }));
    EXPECT_TRUE(told("loam_heap_delete", [&] { loam_heap_delete(ended); }));
    int result = 0;
    EXPECT_TRUE(told("default", [&] { result = loam_heap_set_default(ended, nullptr); }));
    EXPECT_EQ(-EINVAL, result);
    bool yes = true;
    EXPECT_TRUE(told("contains", [&] { yes = loam_heap_contains(ended, this); }));
    EXPECT_FALSE(yes);
    char bytes[512] = {0};
    EXPECT_TRUE(
        told("which is no heap", [&] { loam_heap_destroy(reinterpret_cast<loam_heap *>(bytes)); }));
}

/* In a thread that has used no heap, or another one last. */
TEST_F(FheapMistakes, InAnyThread) {
    loam_heap *other = loam_heap_create(), *stale = loam_heap_create();
    std::atomic<int> step{0};
    std::thread user([&] {
        EXPECT_TRUE(told("NULL", [] { EXPECT_EQ(nullptr, loam_heap_malloc(no_heap, 100)); }));
        (void)loam_heap_malloc(stale, 100);
        step = 1;
        while (step != 2) std::this_thread::yield();
        EXPECT_TRUE(told("ended", [&] { EXPECT_EQ(nullptr, loam_heap_malloc(stale, 100)); }));
        EXPECT_TRUE(loam_heap_owns(other, loam_heap_malloc(other, 100)));
        EXPECT_TRUE(told("NULL", [] { EXPECT_EQ(nullptr, loam_heap_malloc(no_heap, 100)); }));
        EXPECT_TRUE(told("ended", [&] { EXPECT_EQ(nullptr, loam_heap_malloc(stale, 100)); }));
    });
    while (step != 1) std::this_thread::yield();
    loam_heap_destroy(stale);
    step = 2;
    user.join();
    loam_heap_destroy(other);
}

/* Or that thread's next malloc would meet a heap that is not there. */
TEST_F(FheapMistakes, AnotherThreadsDefaultDoesNotEnd) {
    std::atomic<int> step{0};
    std::thread user([&] {
        ASSERT_EQ(0, loam_heap_set_default(heap_, nullptr));
        void *p = loam_malloc(100);
        step = 1;
        while (step != 2) std::this_thread::yield();
        void *q = loam_malloc(100), *large = loam_malloc(100000);
        EXPECT_TRUE(loam_heap_owns(heap_, p));
        EXPECT_TRUE(loam_heap_owns(heap_, q));
        EXPECT_TRUE(loam_heap_owns(heap_, large));
        (void)loam_heap_set_default(nullptr, nullptr);
        step = 3;
        while (step != 4) std::this_thread::yield();
    });
    while (step != 1) std::this_thread::yield();
    const char *what = "which another thread's malloc uses";
    EXPECT_TRUE(told(what, [&] { loam_heap_destroy(heap_); }));
    EXPECT_TRUE(told(what, [&] { loam_heap_delete(heap_); }));
    step = 2;
    while (step != 3) std::this_thread::yield();
    EXPECT_EQ(3u, objects());
    end(); /* now it may, while that thread lives */
    step = 4;
    user.join();
}

TEST_F(FheapMistakes, AHandleIsNotUsedAgainAtOnce) {
    loam_heap *old = heap_;
    end();
    std::vector<loam_heap *> later(64);
    for (auto &heap : later) {
        heap = loam_heap_create();
        EXPECT_NE(old, heap);
    }
    EXPECT_TRUE(told("ended", [&] { loam_heap_destroy(old); }));
    for (auto *heap : later) loam_heap_destroy(heap);
}

/* ---- Limits ---- */

TEST_F(FheapEnd, AHardLimitRefuses) {
    constexpr size_t kLimit = 1 << 20;
    loam_heap_set_limits(heap_, SIZE_MAX, kLimit, nullptr, nullptr);
    std::vector<void *> taken;
    errno = 0;
    for (;;) {
        void *p = loam_heap_malloc(heap_, 1000);
        if (p == nullptr) break;
        memset(p, 1, 1000);
        taken.push_back(p);
        ASSERT_LT(taken.size(), 2000u);
    }
    EXPECT_EQ(ENOMEM, errno);
    EXPECT_GT(taken.size(), 800u);
    EXPECT_LE(committed(), kLimit);
    EXPECT_EQ(nullptr, loam_heap_malloc(heap_, 70000));
    lm_fheap_check(heap_);
    free_all(taken);
    void *large = loam_heap_malloc(heap_, 900000);
    EXPECT_NE(nullptr, large) << "empty pages go back first";
    EXPECT_EQ(nullptr, loam_heap_realloc(heap_, large, 2000000));
    EXPECT_TRUE(loam_heap_owns(heap_, large)) << "as it was";
    lm_fheap_check(heap_);
    loam_heap_set_limits(heap_, SIZE_MAX, SIZE_MAX, nullptr, nullptr);
    large = loam_heap_realloc(heap_, large, 2000000);
    EXPECT_NE(nullptr, large);
}

struct Told {
    int times = 0;
    size_t bytes = 0, objects = 0;
    void *object = nullptr;
};

TEST_F(FheapEnd, LimitsAsThoseOfTheProcess) {
    EXPECT_EQ(-EINVAL, loam_heap_set_limits(heap_, 2 << 20, 1 << 20, nullptr, nullptr));
    loam_heap_numbers numbers;
    loam_heap_usage(heap_, &numbers);
    EXPECT_EQ(SIZE_MAX, numbers.soft_limit);
    EXPECT_EQ(SIZE_MAX, numbers.hard_limit);
    for (auto [soft, hard] : {std::pair<size_t, size_t>{1 << 20, 1 << 20},
                              {1 << 20, 2 << 20},
                              {1 << 20, 0},
                              {1 << 20, SIZE_MAX},
                              {SIZE_MAX, 1 << 20},
                              {0, 1 << 20},
                              {0, 0}}) {
        EXPECT_EQ(0, loam_heap_set_limits(heap_, soft, hard, nullptr, nullptr));
    }
    loam_free(take(10 << 20)); /* 0 is no limit */
}

TEST_F(FheapEnd, ASoftLimitBelowWhatIsInUseIsTold) {
    int times = 0;
    std::vector<void *> taken = take(10, 200000);
    EXPECT_EQ(0, loam_heap_set_limits(
                     heap_, 1 << 20, 0,
                     [](loam_heap *, size_t, void *context) { ++*static_cast<int *>(context); },
                     &times));
    EXPECT_EQ(0, times);
    (void)take(200000);
    EXPECT_EQ(1, times);
    (void)take(200000);
    EXPECT_EQ(1, times) << "once";
}

TEST_F(FheapEnd, ASoftLimitIsTold) {
    Told told;
    loam_heap_set_limits(
        heap_, 500000, SIZE_MAX,
        [](loam_heap *heap, size_t bytes, void *context) {
            auto *told = static_cast<Told *>(context);
            told->times++;
            told->bytes = bytes;
            loam_free(told->object);
            told->object = loam_heap_malloc(heap, 100); /* it may allocate */
        },
        &told);
    std::vector<void *> taken = take(900, 1000);
    EXPECT_EQ(1, told.times);
    EXPECT_GT(told.bytes, 500000u);
    free_all(taken);
    loam_heap_collect(heap_);
    void *large = take(600000);
    EXPECT_EQ(2, told.times) << "each time that it is passed";
    loam_free(large);
}

/* What move asks for beyond what is needed, too. */
TEST_F(FheapEnd, AHardLimitHoldsWhileObjectsGrow) {
    constexpr size_t kLimit = 60 << 20;
    loam_heap_set_limits(heap_, SIZE_MAX, kLimit, nullptr, nullptr);
    std::vector<void *> between;
    void *p = take(1 << 20);
    for (size_t bytes = 2 << 20; bytes <= 58 << 20; bytes += 2 << 20) {
        between.push_back(loam_malloc(100000)); /* so that it cannot grow in place */
        void *there = loam_heap_realloc(heap_, p, bytes);
        ASSERT_NE(nullptr, there) << bytes;
        p = there;
        EXPECT_LE(committed(), kLimit);
        EXPECT_LE(committed(), most());
        lm_fheap_check(heap_);
    }
    EXPECT_EQ(nullptr, loam_heap_realloc(heap_, p, (60 << 20) + 1));
    EXPECT_TRUE(loam_heap_owns(heap_, p));
    lm_fheap_check(heap_);
    free_all(between);
}

TEST_F(FheapEnd, WhatShrinksIsNeverCounted) {
    void *p = take(10 << 20);
    loam_heap_set_limits(heap_, SIZE_MAX, 1 << 20, nullptr, nullptr);
    EXPECT_EQ(p, loam_expand(p, 10 << 20)) << "as it is";
    EXPECT_EQ(p, loam_expand(p, 5 << 20));
    EXPECT_EQ(p, loam_heap_realloc(heap_, p, 4 << 20));
    EXPECT_EQ(p, loam_realloc(p, 3 << 20)) << "and stays in its heap";
    EXPECT_TRUE(loam_heap_owns(heap_, p));
    EXPECT_EQ(nullptr, loam_expand(p, 40 << 20));
    EXPECT_LE(committed(), size_t{4} << 20);
    lm_fheap_check(heap_);
}

TEST_F(FheapEnd, ASoftLimitIsToldOfWhatGrows) {
    for (bool moves : {false, true}) {
        Told told;
        void *p = take(1 << 20), *next = moves ? loam_malloc(100000) : nullptr;
        loam_heap_set_limits(
            heap_, 4 << 20, SIZE_MAX,
            [](loam_heap *heap, size_t bytes, void *context) {
                auto *told = static_cast<Told *>(context);
                told->times++;
                told->bytes = bytes;
                loam_heap_numbers numbers;
                loam_heap_usage(heap, &numbers); /* it may walk */
                told->objects = numbers.objects;
            },
            &told);
        p = loam_heap_realloc(heap_, p, 3 << 20);
        EXPECT_EQ(0, told.times);
        p = loam_heap_realloc(heap_, p, 8 << 20);
        EXPECT_EQ(1, told.times) << moves;
        EXPECT_GE(told.bytes, size_t{8} << 20);
        EXPECT_EQ(1u, told.objects);
        p = loam_heap_realloc(heap_, p, 2 << 20);
        if (loam_expand(p, 6 << 20) != nullptr) {
            EXPECT_EQ(2, told.times) << "what grows where it is";
        }
        loam_free(p);
        loam_free(next);
    }
}

/* ---- What is in it ---- */

TEST_F(FheapEnd, AWalkSeesEveryObjectOnce) {
    std::mt19937 random(5);
    std::map<void *, size_t> alive;
    auto shuffle = [&] {
        for (int i = 0; i < 3000; i++) {
            if (!alive.empty() && random() % 3 == 0) {
                auto it = alive.lower_bound(reinterpret_cast<void *>(uintptr_t{random()} << 16));
                if (it == alive.end()) it = alive.begin();
                loam_free(it->first);
                alive.erase(it);
            } else {
                size_t bytes = random() % 8 == 0 ? random() % 200000 : random() % 700;
                void *p = take(bytes);
                alive[p] = bytes;
            }
        }
    };
    shuffle();
    in_thread(shuffle); /* frees of another thread's, and a branch without a thread */
    shuffle();
    struct Seen {
        std::map<void *, size_t> objects;
        size_t counted = 0;
    } seen;
    EXPECT_TRUE(loam_heap_visit(
        heap_,
        [](const loam_heap_area *area, void *context) {
            static_cast<Seen *>(context)->counted += area->objects;
            return true;
        },
        [](void *p, size_t bytes, void *context) {
            auto *seen = static_cast<Seen *>(context);
            return seen->objects.emplace(p, bytes).second; /* operator new is not loam's here */
        },
        &seen));
    EXPECT_EQ(alive.size(), seen.objects.size());
    EXPECT_EQ(alive.size(), seen.counted);
    for (auto &[p, bytes] : alive) {
        ASSERT_EQ(1u, seen.objects.count(p));
        EXPECT_GE(seen.objects[p], bytes);
        ASSERT_TRUE(loam_heap_owns(heap_, p));
    }
}

TEST_F(FheapEnd, AWalkMayEndEarly) {
    (void)take(1000, 100);
    int left = 10;
    EXPECT_FALSE(loam_heap_visit(
        heap_, [](const loam_heap_area *, void *) { return true; },
        [](void *, size_t, void *context) { return --*static_cast<int *>(context) > 0; }, &left));
    EXPECT_EQ(0, left);
    EXPECT_FALSE(loam_heap_visit(
        heap_, [](const loam_heap_area *, void *) { return false; }, nullptr, nullptr));
}

/* contains, owns and visit of NULL speak of the same objects. */
TEST_F(FheapEnd, NullIsTheThreadsOwnPages) {
    in_thread([&] {
        void *small = loam_malloc(100), *large = loam_malloc(300000),
             *offset = loam_malloc_aligned_offset(100, 64, 8), *of_other = nullptr;
        in_thread([&] { of_other = loam_malloc(300000); });
        std::vector<void *> seen;
        EXPECT_TRUE(loam_heap_visit(
            nullptr, [](const loam_heap_area *, void *) { return true; },
            [](void *p, size_t, void *context) {
                static_cast<std::vector<void *> *>(context)->push_back(p);
                return true;
            },
            &seen));
        for (void *p : {small, large, offset, of_other}) {
            bool visited = std::find(seen.begin(), seen.end(), p) != seen.end();
            EXPECT_EQ(p == small, visited);
            EXPECT_EQ(visited, loam_heap_contains(nullptr, p));
            EXPECT_EQ(visited, loam_heap_owns(nullptr, p));
        }
        free_all({small, large, offset, of_other});
    });
}

TEST_F(FheapEnd, TellsItsOwnFromOthers) {
    auto *p = static_cast<char *>(take(100)), *large = static_cast<char *>(take(300000));
    void *freed = take(100);
    loam_free(freed);
    EXPECT_TRUE(loam_heap_contains(heap_, p + 50));
    EXPECT_TRUE(loam_heap_contains(heap_, large + 200000)) << "the middle of a large object";
    EXPECT_FALSE(loam_heap_owns(heap_, p + 16));
    EXPECT_FALSE(loam_heap_owns(heap_, large + 65536));
    EXPECT_FALSE(loam_heap_owns(heap_, freed));
    int local = 0;
    EXPECT_FALSE(loam_heap_contains(heap_, &local));
    EXPECT_FALSE(loam_heap_contains(heap_, nullptr));
    EXPECT_FALSE(loam_heap_owns(heap_, nullptr));
    EXPECT_FALSE(loam_heap_owns(heap_, reinterpret_cast<void *>(UINTPTR_MAX)));
    loam_heap *other = loam_heap_create();
    EXPECT_FALSE(loam_heap_contains(other, p));
    EXPECT_FALSE(loam_heap_contains(other, large));
    loam_heap_destroy(other);
}

} // namespace

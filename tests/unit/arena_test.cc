/* arena_test.cc: arenas over memory of the program and of the system: bounds, heaps in them, and
 * all functions that take pointers.
 *
 * The worker is allowed but paused, and a test calls lm_idle_collect itself. Ranges lie in a
 * mapping of the test's own, which is filled with a pattern, so that a write to memory outside the
 * range shows.
 */
#include "arena_unit.h"
#include "bytes.h"
#include "stderr_of.h"

#include <sys/wait.h>

#include <cerrno>
#include <climits>
#include <random>

namespace {

using Arena = unit::ArenaTest;
using unit::free_all;
using unit::Heap;
using unit::in_thread;
using unit::kBytes;
using unit::kSizes;
using unit::kSlice;

/* ---- What is taken over ---- */

TEST_F(Arena, RefusesWhatIsNoRange) {
    EXPECT_EQ(-EINVAL, refused(nullptr, kBytes));
    EXPECT_EQ(-EINVAL, refused(start_, 0));
    EXPECT_EQ(-EINVAL, refused(start_, kSlice - 1));
    EXPECT_EQ(-EINVAL, refused(start_ + 1, kSlice)) << "no whole slice";
    EXPECT_EQ(-EINVAL, refused(start_ + 1, 2 * kSlice - 2));
    EXPECT_EQ(-EINVAL, refused(start_, SIZE_MAX)) << "beyond the end of all addresses";
    EXPECT_EQ(-EINVAL, refused(reinterpret_cast<void *>(UINTPTR_MAX), 1));
    EXPECT_EQ(-EINVAL, refused(start_, kBytes, 1 << 20)) << "a flag that is none";
    EXPECT_EQ(-EINVAL, refused(start_, kBytes, LOAM_ARENA_BACKED)) << "of reserved memory only";
    for (int node : {-2, 63, 64, INT_MAX, INT_MIN})
        EXPECT_EQ(-EINVAL, refused(start_, kBytes, 0, node)) << node;
}

TEST_F(Arena, IsNone) {
    errno = 0;
    EXPECT_EQ(nullptr, loam_heap_create_in(nullptr, false));
    EXPECT_EQ(EINVAL, errno);
    EXPECT_FALSE(loam_arena_contains(nullptr, start_));
    EXPECT_FALSE(loam_arena_contains(nullptr, nullptr));
    loam_arena_numbers numbers;
    memset(&numbers, 1, sizeof numbers);
    loam_arena_usage(nullptr, &numbers);
    EXPECT_EQ(0u, numbers.bytes + numbers.free_bytes + numbers.longest_bytes + numbers.heaps);
    EXPECT_EQ(nullptr, numbers.start);
    EXPECT_EQ(int{LOAM_NODE_ANY}, numbers.node);
    loam_arena_usage(nullptr, nullptr);
    EXPECT_EQ(0, loam_arena_destroy(nullptr));
}

/* The next malloc would end the program. What can be used stays as it is. */
TEST_F(Arena, RefusesWhatCannotBeWritten) {
    memset(start_, 0x5c, kBytes);
    for (int way : {PROT_NONE, PROT_READ}) {
        ASSERT_EQ(0, mprotect(start_, kSlice, way));
        EXPECT_EQ(-EFAULT, refused(start_, kBytes)) << way;
        ASSERT_EQ(0, mprotect(start_, kSlice, PROT_READ | PROT_WRITE));
        ASSERT_EQ(0, mprotect(start_ + kBytes - 4096, 4096, way));
        EXPECT_EQ(-EFAULT, refused(start_, kBytes)) << way;
        ASSERT_EQ(0, mprotect(start_ + kBytes - 4096, 4096, PROT_READ | PROT_WRITE));
    }
    for (int shift : {20, 47}) /* where nothing is; beyond the program's addresses */
        EXPECT_EQ(-EFAULT,
                  refused(reinterpret_cast<void *>((uintptr_t{1} << shift) + kBytes), kBytes));
    manage(LOAM_ARENA_EXCLUSIVE);
    ASSERT_EQ(kBytes, first_other(start_, kBytes, 0x5c));
    ASSERT_EQ(0, loam_arena_destroy(arena_));
    arena_ = nullptr;
    ASSERT_EQ(0, munmap(start_ + 2 * kSlice, kSlice));
    EXPECT_EQ(-EFAULT, refused(start_, kBytes)) << "a gap";
    void *again = mmap(start_ + 2 * kSlice, kSlice, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ASSERT_EQ(static_cast<void *>(start_ + 2 * kSlice), again);
}

TEST_F(Arena, UsesWholeSlicesOnly) {
    memset(mapping_, 0x5c, kBytes + 2 * kSlice);
    ASSERT_EQ(0, loam_manage_memory(start_ + 100, 5 * kSlice, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY,
                                    &arena_));
    loam_arena_numbers numbers;
    loam_arena_usage(arena_, &numbers);
    EXPECT_EQ(start_ + kSlice, numbers.start);
    EXPECT_EQ(4 * kSlice, numbers.bytes);
    EXPECT_EQ(4 * kSlice, numbers.free_bytes);
    EXPECT_EQ(4 * kSlice, numbers.longest_bytes);
    EXPECT_EQ(int{LOAM_NODE_ANY}, numbers.node);
    EXPECT_FALSE(inside(start_ + kSlice - 1));
    EXPECT_TRUE(inside(start_ + kSlice));
    EXPECT_TRUE(inside(start_ + 5 * kSlice - 1));
    EXPECT_FALSE(inside(start_ + 5 * kSlice));
    {
        Heap heap(arena_);
        char *p = static_cast<char *>(loam_heap_malloc(heap.heap, 4 * kSlice - LM_TRAILER));
        EXPECT_EQ(start_ + kSlice, p);
        EXPECT_EQ(nullptr, loam_heap_malloc(heap.heap, 1)) << "that was all";
        loam_free(p);
    }
    size_t before = static_cast<size_t>(start_ + kSlice - mapping_);
    ASSERT_EQ(before, first_other(mapping_, before, 0x5c));
    size_t after = kBytes + 2 * kSlice - (before + 4 * kSlice);
    ASSERT_EQ(after, first_other(start_ + 5 * kSlice, after, 0x5c));
}

TEST_F(Arena, RefusesWhatOverlaps) {
    ASSERT_EQ(0, loam_manage_memory(start_ + kSlice, 4 * kSlice, LOAM_ARENA_EXCLUSIVE,
                                    LOAM_NODE_ANY, &arena_));
    EXPECT_EQ(-EEXIST, refused(start_ + kSlice, 4 * kSlice)) << "twice the same";
    EXPECT_EQ(-EEXIST, refused(start_, 2 * kSlice));
    EXPECT_EQ(-EEXIST, refused(start_ + 4 * kSlice, 2 * kSlice));
    EXPECT_EQ(-EEXIST, refused(start_ + 2 * kSlice, kSlice)) << "within";
    EXPECT_EQ(-EEXIST, refused(start_, kBytes)) << "around";
    loam_arena *before = nullptr, *behind = nullptr;
    EXPECT_EQ(0, loam_manage_memory(start_, kSlice, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &before));
    EXPECT_EQ(0, loam_manage_memory(start_ + 5 * kSlice, kSlice, LOAM_ARENA_EXCLUSIVE,
                                    LOAM_NODE_ANY, &behind));
    EXPECT_EQ(0, loam_arena_destroy(before));
    EXPECT_EQ(0, loam_arena_destroy(behind));
}

TEST_F(Arena, RefusesMemoryOfLoam) {
    void *p = loam_malloc(1 << 20);
    EXPECT_EQ(-EEXIST, refused(p, 1 << 20));
    uintptr_t base = lm_arena.base;
    EXPECT_EQ(-EEXIST, refused(reinterpret_cast<void *>(base - kSlice), kSlice)) << "descriptors";
    EXPECT_EQ(-EEXIST,
              refused(reinterpret_cast<void *>(base + (lm_arena.slices << 16) + kSlice), kSlice))
        << "where the arena will grow";
    loam_free(p);
}

TEST_F(Arena, HasRoomForSoMany) {
    std::vector<loam_arena *> made;
    for (size_t i = 0; i < LM_RANGES; i++) {
        loam_arena *one = nullptr;
        ASSERT_EQ(0, loam_manage_memory(start_ + i * kSlice, kSlice, LOAM_ARENA_EXCLUSIVE,
                                        LOAM_NODE_ANY, &one));
        made.push_back(one);
    }
    EXPECT_EQ(-ENOSPC, refused(start_ + LM_RANGES * kSlice, kSlice));
    loam_arena *none = nullptr;
    EXPECT_EQ(-ENOSPC, loam_reserve_memory(kSlice, 0, LOAM_NODE_ANY, &none));
    EXPECT_EQ(nullptr, none);
    lm_span_check();
    for (size_t i = 0; i < made.size(); i += 2) EXPECT_EQ(0, loam_arena_destroy(made[i]));
    for (size_t i = 1; i < made.size(); i += 2) {
        EXPECT_TRUE(loam_arena_contains(made[i], start_ + i * kSlice));
        EXPECT_EQ(0, loam_arena_destroy(made[i]));
    }
    EXPECT_EQ(0, loam_arena_destroy(nullptr));
}

/* ---- Heaps in an arena ---- */

TEST_F(Arena, HoldsTheObjectsOfItsHeap) {
    manage(LOAM_ARENA_EXCLUSIVE);
    Heap heap(arena_);
    std::vector<void *> taken;
    for (size_t bytes : kSizes) {
        void *p = heap.take(bytes);
        EXPECT_TRUE(inside(p)) << bytes;
        EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(p) % 16);
        EXPECT_GE(loam_usable_size(p), bytes);
        EXPECT_TRUE(loam_heap_contains(heap.heap, p));
        EXPECT_TRUE(loam_heap_contains(heap.heap, static_cast<char *>(p) + bytes / 2));
        EXPECT_TRUE(loam_heap_owns(heap.heap, p));
        EXPECT_FALSE(loam_heap_contains(nullptr, p));
        taken.push_back(p);
        void *other = loam_malloc(bytes);
        EXPECT_FALSE(inside(other)) << "malloc has no part in it";
        loam_free(other);
        lm_heap_check();
        lm_fheap_check(heap.heap);
        lm_span_check();
    }
    loam_heap_numbers numbers;
    loam_heap_usage(heap.heap, &numbers);
    EXPECT_EQ(std::size(kSizes), numbers.objects);
    EXPECT_EQ(kBytes - free_bytes(), numbers.committed_bytes);
    free_all(taken);
    loam_heap_collect(heap.heap);
    EXPECT_EQ(kBytes, free_bytes());
}

TEST_F(Arena, AlignsAndClears) {
    memset(start_, 0xff, kBytes);
    manage(LOAM_ARENA_EXCLUSIVE);
    Heap heap(arena_);
    for (size_t align = 16; align <= 1 << 20; align *= 4) {
        void *p = loam_heap_malloc_aligned(heap.heap, 1000, align);
        ASSERT_TRUE(inside(p)) << align;
        EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(p) % align);
        loam_free(p);
    }
    for (size_t bytes : kSizes) {
        auto *p = static_cast<unsigned char *>(loam_heap_zalloc(heap.heap, bytes));
        ASSERT_TRUE(inside(p));
        ASSERT_EQ(bytes, first_other(p, bytes, 0));
        memset(p, 0xff, bytes);
        loam_free(p);
    }
}

TEST_F(Arena, KnowsWhatReadsAsZero) {
    manage(LOAM_ARENA_EXCLUSIVE | LOAM_ARENA_ZERO);
    for (int round = 0; round < 2; round++) {
        Heap heap(arena_);
        for (size_t bytes : kSizes) {
            auto *p = static_cast<unsigned char *>(loam_heap_zalloc(heap.heap, bytes));
            ASSERT_TRUE(inside(p));
            ASSERT_EQ(bytes, first_other(p, bytes, 0));
            memset(p, 0xff, bytes);
        }
    }
}

TEST_F(Arena, SaysNullWhenFull) {
    manage(LOAM_ARENA_EXCLUSIVE, 16 * kSlice);
    Heap heap(arena_);
    std::vector<void *> taken;
    for (void *p; (p = loam_heap_malloc(heap.heap, 1000)) != nullptr;) taken.push_back(p);
    EXPECT_GE(taken.size(), 16 * kSlice / 1152 - 16);
    errno = 0;
    EXPECT_EQ(nullptr, loam_heap_malloc(heap.heap, 1000));
    EXPECT_EQ(ENOMEM, errno);
    EXPECT_EQ(nullptr, loam_heap_malloc(heap.heap, 100000));
    EXPECT_EQ(nullptr, loam_heap_malloc(heap.heap, 50000));
    for (void *p : taken) EXPECT_TRUE(inside(p));
    free_all(taken);
    void *large = loam_heap_malloc(heap.heap, 14 * kSlice);
    EXPECT_TRUE(inside(large)) << "empty pages have gone back for it";
    loam_free(large);
}

TEST_F(Arena, MakesPagesOfTheSlicesThereAre) {
    manage(LOAM_ARENA_EXCLUSIVE, 3 * kSlice);
    Heap heap(arena_);
    void *p = loam_heap_malloc(heap.heap, 40000 - LM_TRAILER);
    EXPECT_TRUE(inside(p)) << "a page of that class would have more slices";
    loam_free(p);
}

TEST_F(Arena, SpillsWhereThatIsWanted) {
    manage(LOAM_ARENA_EXCLUSIVE, 16 * kSlice);
    Heap heap(arena_, true);
    std::vector<void *> taken;
    size_t in = 0;
    for (int i = 0; i < 3000; i++) {
        taken.push_back(heap.take(1000));
        in += inside(taken.back());
    }
    EXPECT_GT(in, 0u);
    EXPECT_LT(in, taken.size());
    void *large = heap.take(40 * kSlice);
    EXPECT_FALSE(inside(large));
    lm_fheap_check(heap.heap);
    loam_free(large);
    free_all(taken);
}

TEST_F(Arena, ResizesObjects) {
    manage(LOAM_ARENA_EXCLUSIVE);
    Heap heap(arena_);
    for (size_t bytes : {size_t{40}, size_t{5000}, size_t{100000}, size_t{700000}}) {
        auto *p = static_cast<unsigned char *>(heap.take(bytes));
        /* In the heap, up and down. */
        for (size_t to : {bytes * 3, bytes / 3, bytes * 2, bytes}) {
            p = static_cast<unsigned char *>(loam_heap_realloc(heap.heap, p, to));
            ASSERT_TRUE(inside(p)) << to;
            size_t kept = to < bytes / 3 ? to : bytes / 3;
            ASSERT_EQ(kept, first_other(p, kept, 0xa5));
        }
        /* To malloc's memory: out of the arena, unless it stays where it is. */
        void *wall = heap.take(bytes);
        auto *q = static_cast<unsigned char *>(loam_realloc(p, bytes * 4));
        ASSERT_NE(nullptr, q);
        ASSERT_EQ(bytes / 3, first_other(q, bytes / 3, 0xa5));
        /* And in again. */
        q = static_cast<unsigned char *>(loam_heap_realloc(heap.heap, q, bytes / 4));
        ASSERT_EQ(bytes / 4, first_other(q, bytes / 4, 0xa5));
        loam_free(q);
        loam_free(wall);
        lm_span_check();
    }
}

TEST_F(Arena, GrowsLargeObjectsInPlace) {
    manage(LOAM_ARENA_EXCLUSIVE, 64 * kSlice);
    Heap heap(arena_);
    void *p = heap.take(10 * kSlice);
    EXPECT_EQ(p, loam_expand(p, 60 * kSlice));
    lm_span_check();
    lm_fheap_check(heap.heap);
    EXPECT_EQ(nullptr, loam_expand(p, 65 * kSlice)) << "there is no more";
    EXPECT_EQ(p, loam_expand(p, 3 * kSlice));
    lm_span_check();
    lm_fheap_check(heap.heap);
    void *q = heap.take(50 * kSlice);
    EXPECT_EQ(nullptr, loam_expand(p, 30 * kSlice)) << "somebody lives there";
    loam_free(p);
    loam_free(q);
    EXPECT_EQ(64 * kSlice, free_bytes());
}

TEST_F(Arena, TakesFreesOfOtherThreads) {
    manage(LOAM_ARENA_EXCLUSIVE);
    Heap heap(arena_);
    std::vector<void *> taken;
    for (int i = 0; i < 20000; i++) taken.push_back(heap.take(100));
    void *large = heap.take(500000);
    in_thread([&] {
        free_all(taken);
        loam_free(large);
        void *mine = loam_malloc(100);
        EXPECT_FALSE(inside(mine)) << "what it has freed is not its own";
        loam_free(mine);
    });
    size_t again = 0;
    for (auto &p : taken) {
        p = heap.take(100);
        again += inside(p);
    }
    EXPECT_EQ(taken.size(), again);
    lm_heap_check();
    free_all(taken);
    /* The other way: a thread leaves objects behind, and ends. */
    in_thread([&] {
        for (auto &p : taken) p = heap.take(64);
    });
    free_all(taken);
    loam_heap_collect(heap.heap);
    EXPECT_EQ(kBytes, free_bytes());
}

TEST_F(Arena, FindsMistakes) {
    manage(LOAM_ARENA_EXCLUSIVE);
    Heap heap(arena_);
    auto *large = static_cast<char *>(heap.take(5 * kSlice));
    auto *small = static_cast<char *>(heap.take(100));
    lm_misuse_policy.ignore = true;
    std::string inside_large = unit::stderr_of([&] { loam_free(large + 64); });
    std::string unused = unit::stderr_of([&] { loam_free(start_ + kBytes - 64); });
    std::string outside = unit::stderr_of([&] { loam_free(start_ + kBytes + 64); });
    lm_misuse_policy.ignore = false;
    EXPECT_NE("", inside_large);
    EXPECT_NE("", unused);
    EXPECT_NE(std::string::npos, outside.find("that loam did not allocate")) << outside;
    EXPECT_EQ(1, std::count(outside.begin(), outside.end(), '\n'));
    EXPECT_TRUE(loam_heap_owns(heap.heap, large));
    loam_free(small);
    loam_free(large);
    lm_misuse_policy.ignore = true;
    EXPECT_NE("", unit::stderr_of([&] { loam_free(large); })) << "a double free";
    lm_misuse_policy.ignore = false;
    lm_span_check();
}

TEST_F(Arena, EndsWithItsHeaps) {
    manage(LOAM_ARENA_EXCLUSIVE);
    loam_heap *first = loam_heap_create_in(arena_, false),
              *second = loam_heap_create_in(arena_, false);
    ASSERT_NE(nullptr, second);
    loam_arena_numbers numbers;
    loam_arena_usage(arena_, &numbers);
    EXPECT_EQ(2u, numbers.heaps);
    std::vector<void *> taken;
    for (int i = 0; i < 1000; i++) {
        taken.push_back(loam_heap_malloc(first, 100));
        ASSERT_NE(nullptr, loam_heap_malloc(second, 3000)) << "destroyed with its heap";
    }
    EXPECT_EQ(-EBUSY, loam_arena_destroy(arena_));
    errno = 0;
    EXPECT_EQ(nullptr, loam_heap_create_in(arena_, false)) << "it is closing";
    EXPECT_EQ(EBUSY, errno);
    EXPECT_EQ(nullptr, loam_heap_malloc(first, 500000));
    loam_heap_destroy(second);
    EXPECT_EQ(-EBUSY, loam_arena_destroy(arena_));
    loam_heap_delete(first);
    EXPECT_EQ(-EBUSY, loam_arena_destroy(arena_)) << "objects live on";
    for (void *p : taken) EXPECT_TRUE(inside(p));
    free_all(taken);
    lm_heap_collect();
    EXPECT_EQ(0, loam_arena_destroy(arena_));
    arena_ = nullptr;
    memset(start_, 0x77, kBytes);
    EXPECT_FALSE(lm_range_around(start_));
    lm_span_check();
}

TEST_F(Arena, IsTheThreadsDefault) {
    manage(LOAM_ARENA_EXCLUSIVE);
    in_thread([&] {
        Heap heap(arena_);
        ASSERT_EQ(0, loam_heap_set_default(heap.heap, nullptr));
        for (size_t bytes : kSizes) {
            void *p = loam_malloc(bytes);
            EXPECT_TRUE(inside(p)) << bytes;
            loam_free(p);
        }
    });
}

TEST_F(Arena, GoesThroughAFork) {
    manage(LOAM_ARENA_EXCLUSIVE);
    Heap heap(arena_);
    std::vector<void *> taken;
    for (size_t bytes : kSizes) taken.push_back(heap.take(bytes));
    pid_t child = fork();
    ASSERT_NE(-1, child);
    if (child == 0) {
        free_all(taken);
        for (size_t bytes : kSizes) {
            if (!inside(heap.take(bytes))) _exit(1);
        }
        lm_span_check();
        _exit(0);
    }
    int status = 1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    free_all(taken);
}

/* ---- Spans by chance ---- */

TEST_F(Arena, KeepsItsInvariantWhateverIsTaken) {
    manage(LOAM_ARENA_EXCLUSIVE);
    std::mt19937 random(7);
    std::vector<lm_page_t *> taken;
    for (int step = 0; step < 6000; step++) {
        unsigned what = random() % 8;
        if (what < 4) {
            size_t slices = 1 + random() % 9, align = size_t{1} << random() % 4;
            lm_page_t *span = lm_range_take(arena_, slices, align, LM_KIND_LARGE, nullptr);
            if (span == nullptr) continue;
            ASSERT_EQ(slices, span->slices);
            ASSERT_EQ(0u, reinterpret_cast<uintptr_t>(lm_span_start(span)) % (align * kSlice));
            memset(lm_span_start(span), static_cast<int>(taken.size()), 16);
            taken.push_back(span);
        } else if (!taken.empty()) {
            lm_page_t *&span = taken[random() % taken.size()];
            if (what == 4) {
                (void)lm_span_extend(span, span->slices + 1 + random() % 3);
            } else if (what == 5) {
                lm_span_shrink(span, 1 + random() % span->slices);
            } else {
                lm_span_give(span, false);
                span = taken.back();
                taken.pop_back();
            }
        }
        if (step % 16 == 0) lm_span_check();
    }
    for (lm_page_t *span : taken) lm_span_give(span, false);
    EXPECT_EQ(kBytes, free_bytes());
}

} // namespace

/* arena_reserved_test.cc: arenas that serve all of malloc, and reserved memory: which memory is
 * used first, what a move leaves, what is purged, what is refused. arena_test.cc tests other
 * arenas.
 */
#include "arena_unit.h"
#include "bytes.h"
#include "stderr_of.h"

#include <algorithm>
#include <cerrno>
#include <climits>

namespace {

using Arena = unit::ArenaTest;
using unit::free_all;
using unit::Heap;
using unit::in_thread;
using unit::kBytes;
using unit::kSizes;
using unit::kSlice;

/* ---- Arenas for everybody ---- */

TEST_F(Arena, ServesEverybodyFirst) {
    manage(0);
    in_thread([&] {
        std::vector<void *> taken;
        for (size_t bytes : kSizes) {
            taken.push_back(loam_malloc(bytes));
            bool nowhere = LM_SECURE && bytes == 0; /* without memory */
            EXPECT_TRUE(inside(taken.back()) || nowhere) << bytes;
        }
        taken.push_back(loam_malloc_aligned_offset(1000, 4096, 16));
        EXPECT_TRUE(inside(taken.back()));
        lm_heap_check();
        lm_span_check();
        free_all(taken);
        /* More than it holds. */
        taken.clear();
        size_t in = 0;
        for (size_t i = 0; i < 2 * kBytes / 50000; i++) {
            taken.push_back(loam_malloc(50000));
            in += inside(taken.back());
        }
        EXPECT_GT(in, kBytes / 65536 / 2);
        EXPECT_LT(in, taken.size());
        lm_heap_check();
        free_all(taken);
        void *last = loam_malloc(200000);
        EXPECT_TRUE(inside(last));
        EXPECT_EQ(-EBUSY, loam_arena_destroy(arena_));
        void *p = loam_malloc(200000);
        EXPECT_FALSE(inside(p)) << "closed";
        loam_free(p);
        loam_free(last);
    });
    lm_heap_collect(); /* what the thread has left */
    EXPECT_EQ(0, loam_arena_destroy(arena_));
    EXPECT_EQ(-EINVAL, loam_arena_destroy(arena_)) << "gone";
    arena_ = nullptr;
}

TEST_F(Arena, MovesOutAndStays) {
    manage(0);
    in_thread([&] {
        auto *p = static_cast<char *>(loam_malloc(1000000));
        ASSERT_TRUE(inside(p));
        memset(p, 0x31, 1000000);
        p = static_cast<char *>(loam_realloc(p, 3 * kBytes));
        ASSERT_NE(nullptr, p);
        EXPECT_FALSE(inside(p));
        ASSERT_EQ(1000000u, first_other(p, 1000000, 0x31));
        p = static_cast<char *>(loam_realloc(p, 4 * kBytes));
        ASSERT_EQ(1000000u, first_other(p, 1000000, 0x31));
        lm_span_check();
        loam_free(p);
        /* What is free of it was never given away by a move. */
        memset(start_, 0x32, 1);
    });
}

TEST_F(Arena, IsPurgedOnlyWhereThatIsAllowed) {
    for (unsigned flags : {0u, unsigned{LOAM_ARENA_PURGE}}) {
        manage(flags | LOAM_ARENA_EXCLUSIVE | LOAM_ARENA_ZERO);
        {
            Heap heap(arena_);
            auto *wall = static_cast<char *>(heap.take(kSlice * 3));
            auto *p = static_cast<char *>(heap.take(20 * kSlice));
            loam_free(p);
            (void)loam_collect();
            lm_span_check();
            EXPECT_EQ(flags == 0 && !LM_SECURE ? char(0xa5) : 0, p[5]);
            ASSERT_EQ(3 * kSlice, first_other(wall, 3 * kSlice, 0xa5));
            auto *zero = static_cast<char *>(loam_heap_zalloc(heap.heap, 40 * kSlice));
            ASSERT_EQ(p, zero);
            ASSERT_EQ(40 * kSlice, first_other(zero, 40 * kSlice, 0));
        }
        ASSERT_EQ(0, loam_arena_destroy(arena_));
        arena_ = nullptr;
    }
}

/* ---- Memory of the program ---- */

/* Descriptors of the range lie in memory that was the program's. */
TEST_F(Arena, ForgetsWhatWasWrittenWhereItsDescriptorsLie) {
    std::vector<void *> large;
    for (unsigned i = 0; i < 64; i++) {
        void *p = loam_malloc(2 * kSlice - LM_TRAILER);
        memset(p, 1 + i % 255, 2 * kSlice - LM_TRAILER);
        large.push_back(p);
    }
    for (void *p : large) loam_free(p);
    manage(LOAM_ARENA_EXCLUSIVE);
    Heap heap(arena_);
    std::vector<void *> all;
    while (void *p = loam_heap_malloc(heap.heap, (1 + all.size() % 5) * kSlice)) all.push_back(p);
    EXPECT_GT(all.size(), 20u);
    for (void *p : all) loam_free(p);
    lm_span_check();
}

/* ---- Reserved memory ---- */

TEST_F(Arena, ReservesMemory) {
    loam_arena *none = nullptr;
    EXPECT_EQ(-EINVAL, loam_reserve_memory(0, 0, LOAM_NODE_ANY, &none));
    EXPECT_EQ(-EINVAL, loam_reserve_memory(kBytes, LOAM_ARENA_ZERO, LOAM_NODE_ANY, &none));
    EXPECT_EQ(-EINVAL, loam_reserve_memory(kBytes, 0, 63, &none));
    EXPECT_EQ(-EINVAL, loam_reserve_memory(SIZE_MAX, 0, LOAM_NODE_ANY, &none));
    EXPECT_EQ(-ENOMEM, loam_reserve_memory(size_t{1} << 50, 0, LOAM_NODE_ANY, &none));
    EXPECT_EQ(nullptr, none);
    for (unsigned flags : {0u, unsigned{LOAM_ARENA_BACKED}, unsigned{LOAM_ARENA_HUGE}}) {
        ASSERT_EQ(0, loam_reserve_memory(kBytes - 1000, flags | LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY,
                                         &arena_));
        EXPECT_EQ(kBytes, free_bytes()) << "whole slices";
        lm_span_check();
        {
            Heap heap(arena_);
            std::vector<void *> taken;
            for (size_t bytes : kSizes) {
                taken.push_back(heap.take(bytes));
                EXPECT_TRUE(inside(taken.back()));
                EXPECT_LT(lm_slice_of(taken.back()), lm_arena.slices) << "where free looks first";
            }
            lm_span_check();
            lm_fheap_check(heap.heap);
            lm_span_stats_t stats;
            lm_span_stats(&stats);
            EXPECT_EQ(kBytes, stats.range_bytes);
            EXPECT_EQ(free_bytes(), stats.range_free_bytes);
            free_all(taken);
        }
        loam_arena_numbers numbers;
        loam_arena_usage(arena_, &numbers);
        ASSERT_EQ(0, loam_arena_destroy(arena_));
        arena_ = nullptr;
        lm_span_check();
        const char *start = static_cast<const char *>(numbers.start);
        for (size_t i = 0; i < kBytes; i += 4096) ASSERT_EQ(0, start[i]) << "the arena's again";
    }
}

TEST_F(Arena, ReservesHugePagesOrSaysSo) {
    loam_arena *none = nullptr;
    constexpr size_t k2M = 2 << 20, k1G = 1 << 30;
    EXPECT_EQ(-EINVAL, loam_reserve_huge_pages(4 << 20, 1, 0, LOAM_NODE_ANY, 0, &none));
    EXPECT_EQ(-EINVAL, loam_reserve_huge_pages(k2M, 0, 0, LOAM_NODE_ANY, 0, &none));
    EXPECT_EQ(-EINVAL, loam_reserve_huge_pages(k1G, SIZE_MAX / 2, 0, LOAM_NODE_ANY, 0, &none));
    EXPECT_EQ(-EINVAL, loam_reserve_huge_pages(k2M, 1, LOAM_ARENA_PURGE, LOAM_NODE_ANY, 0, &none));
    EXPECT_EQ(-EINVAL, loam_reserve_huge_pages(k2M, 1, 0, 63, 0, &none));
    EXPECT_EQ(-EINVAL, loam_reserve_huge_pages_interleave(4096, 1, 0, 0));
    EXPECT_EQ(nullptr, none);
    std::string said = unit::stderr_of([&] {
        EXPECT_EQ(
            0, loam_reserve_huge_pages(k2M, 3, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, 1000, &arena_));
    });
    ASSERT_NE(nullptr, arena_);
    EXPECT_LE(std::count(said.begin(), said.end(), '\n'), 1) << said;
    loam_arena_numbers numbers;
    loam_arena_usage(arena_, &numbers);
    EXPECT_EQ(3 * k2M, numbers.bytes);
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(numbers.start) % k2M);
    Heap heap(arena_);
    auto *p = static_cast<unsigned char *>(loam_heap_zalloc(heap.heap, 5 << 20));
    ASSERT_TRUE(inside(p));
    ASSERT_EQ(5u << 20, first_other(p, 5 << 20, 0));
    memset(p, 1, 5 << 20);
    loam_free(p);
}

} // namespace

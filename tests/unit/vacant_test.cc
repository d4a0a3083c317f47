/* vacant_test.cc: in classes with few blocks in a page, one empty page of each class stays in its
 * heap, so that it is not given back and taken again with every few blocks. It goes when the heap
 * shrinks or its thread sleeps.
 */
#include "fheap_unit.h"
#include "sleepers.h"

namespace {

using unit::blocks;
using unit::blocks_in_page;
using unit::free_blocks;
using unit::Helper;
using unit::in_thread;
using unit::within_ticks;

class Vacant : public unit::PausedWorkerTest {};

constexpr size_t kSizes[] = {2304, 4096, 5000, 20480, 40000, 65536};

/* In a thread whose heap has no pages; ended threads may have left some. */
template <typename Body> void in_new_heap(Body body) {
    in_thread([&] {
        lm_heap_collect();
        lm_purge_all(); /* or a dirty span that is shorter would be a page */
        body();
    });
}

/* Of two pages, of which the second is current: frees all in the first one. */
std::vector<void *> with_an_empty_page(size_t bytes) {
    size_t n = blocks_in_page(lm_class_bytes(lm_class_of(bytes)));
    std::vector<void *> taken = blocks(2 * n, bytes);
    free_blocks(taken, 0, n);
    return std::vector<void *>(taken.begin() + static_cast<std::ptrdiff_t>(n), taken.end());
}

TEST_F(Vacant, NoPageComesAndGoesWithEveryFewBlocks) {
    for (size_t bytes : kSizes) {
        in_new_heap([bytes] {
            size_t n = blocks_in_page(lm_class_bytes(lm_class_of(bytes)));
            std::vector<void *> rest = with_an_empty_page(bytes);
            EXPECT_EQ(2u, lm_heap_self->pages) << bytes;
            size_t pages = lm_span_counts.pages;
            for (int turn = 0; turn < 50; turn++) {
                std::vector<void *> more = blocks(n, bytes);
                EXPECT_EQ(2u, lm_heap_self->pages) << bytes;
                free_blocks(more);
                lm_heap_check();
            }
            EXPECT_EQ(pages, lm_span_counts.pages) << bytes << ": nothing was taken anew";
            free_blocks(rest);
        });
    }
}

TEST_F(Vacant, OneAClass) {
    for (size_t bytes : kSizes) {
        in_new_heap([bytes] {
            size_t n = blocks_in_page(lm_class_bytes(lm_class_of(bytes)));
            std::vector<void *> others = blocks(4 * blocks_in_page(1024), 1024);
            std::vector<void *> taken = blocks(4 * n, bytes);
            EXPECT_EQ(8u, lm_heap_self->pages) << bytes;
            free_blocks(taken, 0, 3 * n);
            EXPECT_EQ(6u, lm_heap_self->pages) << bytes;
            lm_heap_check();
            free_blocks(taken, 3 * n, 4 * n);
            free_blocks(others);
        });
    }
}

/* What is in use keeps its page anyway, and is to be used first. */
TEST_F(Vacant, NoneBesideAPageWithFreeBlocks) {
    in_new_heap([] {
        const size_t bytes = 20480, n = blocks_in_page(bytes);
        std::vector<void *> taken = blocks(3 * n, bytes);
        free_blocks(taken, 0, n - 1); /* one stays in use */
        free_blocks(taken, n, 2 * n);
        EXPECT_EQ(2u, lm_heap_self->pages);
        lm_block_free(taken[n - 1]);
        free_blocks(taken, 2 * n, 3 * n);
    });
}

TEST_F(Vacant, NoneOfManyBlocks) {
    in_new_heap([] {
        std::vector<void *> rest = with_an_empty_page(2048);
        EXPECT_EQ(1u, lm_heap_self->pages);
        free_blocks(rest);
    });
}

TEST_F(Vacant, CollectingGivesItBack) {
    in_new_heap([] {
        std::vector<void *> rest = with_an_empty_page(20480);
        lm_heap_collect();
        EXPECT_EQ(1u, lm_heap_self->pages);
        EXPECT_EQ(0u, lm_heap_self->vacant);
        free_blocks(rest);
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages);
    });
}

TEST_F(Vacant, TheyGoWhenTheHeapShrinks) {
    in_new_heap([] {
        for (unsigned c = lm_class_of(2304); c < lm_class_of(8192); c++)
            free_blocks(with_an_empty_page(lm_class_bytes(c)));
        EXPECT_GE(lm_heap_self->vacant, 8u);
        size_t with = lm_heap_self->pages;
        std::vector<void *> taken = blocks(3 * with * blocks_in_page(512), 512);
        free_blocks(taken);
        EXPECT_EQ(0u, lm_heap_self->vacant);
        EXPECT_LE(lm_heap_self->pages, 4u);
        lm_heap_check();
    });
}

/* A program that frees all that it has of many sizes keeps a few of the pages, as it did without
 * vacant ones. */
TEST_F(Vacant, WhoFreesEverythingKeepsFew) {
    in_new_heap([] {
        std::vector<std::vector<void *>> all;
        for (unsigned c = lm_class_of(2304); c < LM_CLASSES; c++)
            all.push_back(blocks(4 * blocks_in_page(lm_class_bytes(c)), lm_class_bytes(c)));
        size_t most = lm_heap_self->pages;
        for (auto &some : all) free_blocks(some);
        EXPECT_LE(lm_heap_self->pages, most / 8);
        lm_heap_check();
    });
}

TEST_F(Vacant, NotInAFirstClassHeap) {
    struct loam_heap *heap = loam_heap_create();
    ASSERT_NE(nullptr, heap);
    const size_t bytes = 20480, n = blocks_in_page(bytes);
    std::vector<void *> taken;
    for (size_t i = 0; i < 2 * n; i++) taken.push_back(loam_heap_malloc(heap, bytes));
    lm_span_stats_t before, after;
    lm_span_stats(&before);
    for (size_t i = 0; i < n; i++) loam_free(taken[i]);
    lm_span_stats(&after);
    EXPECT_EQ(before.used_bytes - (lm_class_slices(bytes) << LM_SLICE_SHIFT), after.used_bytes);
    loam_heap_destroy(heap);
}

TEST_F(Vacant, ASleepersGoes) {
    if (!unit::sleepers_are_seen()) GTEST_SKIP() << unit::kNobodySleeps;
    Helper owner;
    lm_theap_t *heap = nullptr;
    std::vector<void *> rest;
    owner.run([&] {
        rest = with_an_empty_page(20480);
        heap = lm_heap_self;
    });
    EXPECT_EQ(2u, heap->pages);
    EXPECT_TRUE(within_ticks(1000, [&] { return heap->pages == 1; }));
    owner.run([&] { free_blocks(rest); });
    owner.end();
}

TEST_F(Vacant, AnEndedThreadLeavesNone) {
    lm_span_stats_t before, after;
    lm_heap_collect();
    lm_span_stats(&before);
    in_thread([] { free_blocks(with_an_empty_page(20480)); });
    lm_heap_collect();
    lm_span_stats(&after);
    EXPECT_EQ(before.used_bytes, after.used_bytes);
}

} // namespace

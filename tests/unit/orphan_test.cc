/* orphan_test.cc: pages whose thread has ended, and the heap of threads that go on after their end.
 *
 * Threads run one after the other, so that the owner of each page is known at every step.
 */
#include "heap_unit.h"

#include <cstring>

namespace {

using unit::blocks;
using unit::free_blocks;
using unit::in_thread;

class Orphan : public unit::HeapTest {};

bool is_orphan(const lm_page_t *page) {
    return (lm_load_acquire(&page->remote) & LM_REMOTE_ORPHAN) != 0;
}

constexpr size_t kBytes = 1536; /* a class that nothing else here uses */

/* Blocks in a page of that class. */
size_t in_a_page() { return unit::blocks_in_page(kBytes); }

TEST_F(Orphan, EmptyPagesDoNotOutliveTheirThread) {
    void *p = nullptr;
    in_thread([&] {
        p = lm_block_alloc(kBytes);
        lm_block_free(p);
    });
    EXPECT_EQ(&lm_nobody, lm_page_of(p));
}

TEST_F(Orphan, PagesInUseDo) {
    std::vector<void *> taken;
    in_thread([&] { taken = blocks(10, kBytes); });
    lm_page_t *page = lm_page_of(taken[0]);
    EXPECT_TRUE(is_orphan(page));
    EXPECT_EQ(uintptr_t{LM_OWNER_NONE}, page->owner);
    EXPECT_EQ(LM_AT_ORPHANS, page->in_list);
    EXPECT_EQ(10u, page->live) << "what the thread held ready is back in the page";
    memset(taken[9], 1, kBytes);
    in_thread([&] { free_blocks(taken); });
    EXPECT_EQ(&lm_nobody, lm_page_of(taken[0]));
}

TEST_F(Orphan, WhoNeedsItsClassTakesIt) {
    std::vector<void *> taken;
    in_thread([&] { taken = blocks(10, kBytes); });
    lm_page_t *page = lm_page_of(taken[0]);
    in_thread([&] {
        void *p = lm_block_alloc(kBytes);
        EXPECT_EQ(page, lm_page_of(p));
        EXPECT_FALSE(is_orphan(page));
        EXPECT_EQ(lm_thread_token(), page->owner);
        EXPECT_EQ(lm_heap_self, page->heap);
        EXPECT_EQ(LM_AT_CURRENT, page->in_list);
        EXPECT_EQ(1u, lm_heap_self->pages);
        lm_heap_check();
        lm_block_free(p);
        free_blocks(taken); /* local frees now */
        EXPECT_EQ(0u, lm_load_acquire(&page->remote));
        lm_heap_check();
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages);
    });
    EXPECT_EQ(&lm_nobody, lm_page_of(taken[0]));
}

TEST_F(Orphan, WhoNeedsAnotherClassDoesNot) {
    std::vector<void *> taken;
    in_thread([&] { taken = blocks(10, kBytes); });
    lm_page_t *page = lm_page_of(taken[0]);
    in_thread([&] {
        void *p = lm_block_alloc(kBytes + 256);
        EXPECT_NE(page, lm_page_of(p));
        EXPECT_TRUE(is_orphan(page));
        lm_block_free(p);
        free_blocks(taken);
    });
}

TEST_F(Orphan, WhoFreesABlockOwnsIt) {
    std::vector<void *> taken;
    in_thread([&] { taken = blocks(10, kBytes); });
    lm_page_t *page = lm_page_of(taken[0]);
    in_thread([&] {
        lm_block_free(taken[0]);
        EXPECT_FALSE(is_orphan(page));
        EXPECT_EQ(lm_thread_token(), page->owner);
        EXPECT_EQ(LM_AT_PARTIAL, page->in_list);
        EXPECT_EQ(9u, page->live);
        lm_heap_check();
        free_blocks(taken, 1, 9);
        EXPECT_EQ(1u, page->live) << "freed locally";
        lm_heap_check();
    });
    EXPECT_TRUE(is_orphan(page)) << "and again";
    in_thread([&] { lm_block_free(taken[9]); });
    EXPECT_EQ(&lm_nobody, lm_page_of(taken[9]));
}

TEST_F(Orphan, FullPagesWaitOutsideTheList) {
    std::vector<void *> taken;
    in_thread([&] { taken = blocks(in_a_page(), kBytes); });
    lm_page_t *page = lm_page_of(taken[0]);
    ASSERT_EQ(page, lm_page_of(taken[in_a_page() - 1]));
    ASSERT_EQ(in_a_page(), page->capacity);
    EXPECT_TRUE(is_orphan(page));
    EXPECT_EQ(LM_AT_NOWHERE, page->in_list);
    EXPECT_EQ(in_a_page(), page->live);
    EXPECT_EQ(0u, page->bias);
    in_thread([&] {
        void *p = lm_block_alloc(kBytes);
        EXPECT_NE(page, lm_page_of(p)) << "there is nothing in it to take";
        lm_block_free(p);
        lm_block_free(taken[0]);
        EXPECT_EQ(LM_AT_PARTIAL, page->in_list);
        EXPECT_EQ(lm_thread_token(), page->owner);
        free_blocks(taken, 1, in_a_page());
        lm_heap_check();
    });
}

/* A thread without a heap frees: the page stays nobody's, and its block can be had again. */
TEST_F(Orphan, FreedByAThreadWithoutAHeap) {
    std::vector<void *> taken;
    in_thread([&] { taken = blocks(in_a_page(), kBytes); });
    lm_page_t *page = lm_page_of(taken[0]);
    lm_block_t *block = static_cast<lm_block_t *>(taken[5]);
    lm_remote_push(nullptr, page, block, block, 1);
    EXPECT_TRUE(is_orphan(page));
    EXPECT_EQ(LM_AT_ORPHANS, page->in_list);
    EXPECT_EQ(in_a_page() - 1, page->live);
    in_thread([&] {
        EXPECT_EQ(taken[5], lm_block_alloc(kBytes));
        free_blocks(taken, 0, 30);
    });
    EXPECT_TRUE(is_orphan(page));
    for (size_t i = 30; i < in_a_page(); i++) {
        block = static_cast<lm_block_t *>(taken[i]);
        lm_remote_push(nullptr, page, block, block, 1);
    }
    EXPECT_EQ(&lm_nobody, lm_page_of(taken[0]));
}

/* What others freed while the owner was alive is counted when it ends. */
TEST_F(Orphan, RemoteFreesAreTakenInAtTheEnd) {
    std::vector<void *> taken;
    in_thread([&] {
        taken = blocks(10, kBytes);
        in_thread([&] { free_blocks(taken, 0, 6); });
    });
    lm_page_t *page = lm_page_of(taken[9]);
    EXPECT_TRUE(is_orphan(page));
    EXPECT_EQ(4u, page->live);
    EXPECT_EQ(0u, lm_remote_count(lm_load_acquire(&page->remote)));
    in_thread([&] { free_blocks(taken, 6, 10); });
}

TEST_F(Orphan, HeapsAreUsedAgain) {
    lm_heap_stats_t before, after;
    in_thread([] { lm_block_free(lm_block_alloc(100)); });
    lm_heap_stats(&before);
    lm_theap_t *heap = nullptr;
    for (int i = 0; i < 50; i++) {
        in_thread([&] {
            lm_block_free(lm_block_alloc(100));
            if (heap == nullptr) heap = lm_heap_self;
            EXPECT_EQ(heap, lm_heap_self);
        });
    }
    lm_heap_stats(&after);
    EXPECT_EQ(before.heaps, after.heaps);
    EXPECT_FALSE(heap->active);
    EXPECT_EQ(0u, heap->pages);
}

TEST_F(Orphan, NothingIsLostOverGenerations) {
    std::vector<void *> old;
    for (int generation = 0; generation < 40; generation++) {
        in_thread([&] {
            std::vector<void *> mine;
            for (size_t i = 0; i < 400; i++) mine.push_back(lm_block_alloc(16 + i * 7));
            free_blocks(old);
            for (size_t i = 0; i < mine.size(); i += 2) lm_block_free(mine[i]);
            lm_heap_check();
            old.clear();
            for (size_t i = 1; i < mine.size(); i += 2) old.push_back(mine[i]);
        });
        lm_span_check();
    }
    lm_span_stats_t stats;
    lm_span_stats(&stats);
    EXPECT_LT(stats.used_bytes, size_t{24} << 20) << "pages pile up";
    in_thread([&] { free_blocks(old); });
}

/* ---- The heap of threads that have none ---- */

TEST_F(Orphan, TheCommonHeap) {
    unsigned size_class = lm_class_of(kBytes);
    void *p = lm_heap_refill(lm_common_heap(), size_class);
    void *q = lm_heap_refill(lm_common_heap(), size_class);
    ASSERT_NE(nullptr, p);
    EXPECT_NE(p, q);
    lm_page_t *page = lm_page_of(p);
    EXPECT_EQ(&lm_heap_common, page->heap);
    EXPECT_EQ(lm_heap_common.token, page->owner);
    EXPECT_NE(0u, page->owner % 16) << "no thread's token";
    in_thread([&] {
        lm_block_free(p); /* whoever frees it, it is a remote free */
        lm_block_free(q);
    });
    EXPECT_EQ(2u, lm_remote_count(lm_load_acquire(&page->remote)));
    lm_biased_enter(&lm_heap_common.lock);
    lm_remote_drain(&lm_heap_common);
    lm_page_trim(&lm_heap_common);
    lm_biased_leave(&lm_heap_common.lock);
    EXPECT_EQ(&lm_nobody, lm_page_of(p));
    EXPECT_EQ(0u, lm_heap_common.pages);
}

} // namespace

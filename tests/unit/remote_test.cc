/* remote_test.cc: blocks freed by a thread that does not own their page.
 *
 * The owner waits while the other thread runs, so that every count is exact; the other thread's end
 * hands over what it holds. Interleavings are the business of tests/stress/ and tests/protocol/.
 */
#include "heap_unit.h"

#include <atomic>
#include <cstring>
#include <set>

namespace {

using unit::blocks;
using unit::free_blocks;
using unit::in_thread;

class Remote : public unit::HeapTest {};

uint32_t count(const lm_page_t *page) { return lm_remote_count(lm_load_acquire(&page->remote)); }

constexpr size_t kBytes = 128; /* a page has 512, a batch 32 */

TEST_F(Remote, FreesGoOverInBatches) {
    in_thread([] {
        std::vector<void *> taken = blocks(100, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        lm_heap_t *heap = lm_heap_self;
        in_thread([&] {
            for (size_t i = 0; i < 31; i++) lm_block_free(taken[i]);
            EXPECT_EQ(0u, count(page));
            EXPECT_EQ(nullptr, lm_load_acquire(&heap->notified));
            lm_block_free(taken[31]);
            EXPECT_EQ(32u, count(page));
            EXPECT_EQ(page, lm_load_acquire(&heap->notified));
            EXPECT_TRUE(lm_load_acquire(&page->remote) & LM_REMOTE_QUEUED);
            for (size_t i = 32; i < 64; i++) lm_block_free(taken[i]);
            EXPECT_EQ(64u, count(page));
            for (size_t i = 64; i < 70; i++) lm_block_free(taken[i]);
            EXPECT_EQ(64u, count(page));
        });
        EXPECT_EQ(70u, count(page)) << "a thread that ends hands over what it holds";
        EXPECT_EQ(page->carved, page->live) << "the owner has not looked yet";
        lm_heap_check();
        lm_heap_collect();
        EXPECT_EQ(0u, lm_load_acquire(&page->remote));
        EXPECT_EQ(page->carved - 70u, page->live);
        lm_heap_check();
        free_blocks(taken, 70, 100);
    });
}

TEST_F(Remote, TheOwnerUsesThemAgain) {
    in_thread([] {
        /* The whole page, so that the next malloc needs what comes back. */
        std::vector<void *> taken = blocks(512, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        in_thread([&] { free_blocks(taken, 100, 200); });
        std::set<void *> back(taken.begin() + 100, taken.begin() + 200);
        std::vector<void *> more = blocks(100, kBytes);
        for (void *p : more) EXPECT_EQ(1u, back.erase(p));
        EXPECT_TRUE(back.empty());
        EXPECT_EQ(1u, lm_heap_self->pages);
        EXPECT_EQ(page, lm_heap_self->current[lm_class_of(kBytes)]);
        lm_heap_check();
        free_blocks(more);
        free_blocks(taken, 0, 100);
        free_blocks(taken, 200, 512);
    });
}

TEST_F(Remote, AFullPageWakesUp) {
    in_thread([] {
        std::vector<void *> taken = blocks(512, kBytes), next = blocks(1, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        EXPECT_EQ(LM_AT_FULL, page->place);
        in_thread([&] { free_blocks(taken, 0, 40); });
        EXPECT_EQ(LM_AT_FULL, page->place);
        lm_heap_collect();
        EXPECT_EQ(LM_AT_PARTIAL, page->place);
        EXPECT_EQ(512u - 40, page->live);
        lm_heap_check();
        free_blocks(taken, 40, 512);
        free_blocks(next);
    });
}

TEST_F(Remote, APageThatOthersEmptiedIsGivenBack) {
    in_thread([] {
        std::vector<void *> taken = blocks(512, kBytes), next = blocks(1, kBytes);
        in_thread([&] { free_blocks(taken); });
        EXPECT_EQ(2u, lm_heap_self->pages);
        lm_heap_collect();
        EXPECT_EQ(1u, lm_heap_self->pages);
        EXPECT_EQ(&lm_nobody, lm_page_of(taken[0]));
        free_blocks(next);
    });
}

TEST_F(Remote, HalfByTheOwnerHalfByTheOther) {
    in_thread([] {
        std::vector<void *> taken = blocks(512, kBytes), next = blocks(1, kBytes);
        in_thread([&] { free_blocks(taken, 0, 256); });
        free_blocks(taken, 256, 512);
        lm_heap_check();
        lm_heap_collect();
        EXPECT_EQ(&lm_nobody, lm_page_of(taken[0]));
        lm_heap_check();
        free_blocks(next);
    });
}

TEST_F(Remote, LargeBlocksGoOneByOne) {
    in_thread([] {
        std::vector<void *> taken = blocks(3, 4000);
        lm_page_t *page = lm_page_of(taken[0]);
        in_thread([&] {
            lm_block_free(taken[0]);
            EXPECT_EQ(1u, count(page));
            lm_block_free(taken[1]);
            EXPECT_EQ(2u, count(page));
        });
        lm_block_free(taken[2]);
    });
}

/* A batch that would complete the page goes at once: nothing else would bring the rest. */
TEST_F(Remote, WhatEmptiesThePageDoesNotWait) {
    in_thread([] {
        std::vector<void *> taken = blocks(56, 1152);
        lm_page_t *page = lm_page_of(taken[0]);
        ASSERT_EQ(56u, page->capacity);
        in_thread([&] {
            free_blocks(taken, 0, 55); /* 18 batches of 3, and one more */
            EXPECT_EQ(54u, count(page));
            lm_block_free(taken[55]);
            EXPECT_EQ(56u, count(page));
        });
    });
}

TEST_F(Remote, AnotherPageInTheSamePlaceEvictsABatch) {
    in_thread([] {
        std::vector<void *> taken = blocks(512 * (LM_BATCHES + 1), kBytes);
        lm_page_t *first = nullptr, *second = nullptr;
        void *in_first = nullptr, *in_second = nullptr;
        for (void *p : taken) {
            lm_page_t *page = lm_page_of(p);
            if (first == nullptr) {
                first = page;
                in_first = p;
            } else if (page != first &&
                       lm_span_slice(page) % LM_BATCHES == lm_span_slice(first) % LM_BATCHES) {
                second = page;
                in_second = p;
            }
        }
        ASSERT_NE(nullptr, second);
        in_thread([&] {
            lm_block_free(in_first);
            EXPECT_EQ(0u, count(first));
            lm_block_free(in_second);
            EXPECT_EQ(1u, count(first));
            EXPECT_EQ(0u, count(second));
        });
        EXPECT_EQ(1u, count(second));
        for (void *p : taken) {
            if (p != in_first && p != in_second) lm_block_free(p);
        }
    });
}

TEST_F(Remote, ASlowPathFlushes) {
    in_thread([] {
        std::vector<void *> taken = blocks(10, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        in_thread([&] {
            lm_block_free(lm_block_alloc(64)); /* the heap is there */
            free_blocks(taken, 0, 5);
            EXPECT_EQ(0u, count(page));
            lm_block_free(lm_block_alloc(2048)); /* the first of its class */
            EXPECT_EQ(5u, count(page));
        });
        free_blocks(taken, 5, 10);
    });
}

TEST_F(Remote, ChainsKeepTheirBlocks) {
    in_thread([] {
        std::vector<void *> taken = blocks(7, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        lm_block_t *b[7];
        for (size_t i = 0; i < 7; i++) b[i] = static_cast<lm_block_t *>(taken[i]);
        lm_heap_t *mine = lm_heap_self;
        lm_link_set(b[0], b[1]);
        lm_link_set(b[1], nullptr);
        lm_remote_push(mine, page, b[0], b[1], 2);
        lm_link_set(b[2], b[3]);
        lm_link_set(b[3], b[4]);
        lm_link_set(b[4], nullptr);
        lm_remote_push(mine, page, b[2], b[4], 3);
        lm_remote_push(mine, page, b[5], b[5], 1);
        EXPECT_EQ(6u, count(page));
        EXPECT_EQ(page, lm_load_acquire(&mine->notified)) << "queued once";
        EXPECT_EQ(nullptr, page->notified);
        lm_block_t *head = nullptr, *tail = nullptr;
        ASSERT_EQ(6u, lm_remote_take(page, &head, &tail));
        std::set<lm_block_t *> seen;
        lm_block_t *last = nullptr;
        for (lm_block_t *block = head; block != nullptr; block = lm_link_get(block)) {
            seen.insert(block);
            last = block;
        }
        EXPECT_EQ((std::set<lm_block_t *>(b, b + 6)), seen);
        EXPECT_EQ(tail, last);
        EXPECT_EQ(0u, lm_remote_take(page, &head, &tail)) << "taken once";
        for (size_t i = 0; i < 7; i++) lm_block_free(b[i]);
        lm_heap_collect();
        EXPECT_EQ(0u, mine->pages) << "queued pages go once that has arrived";
    });
}

TEST_F(Remote, LargeObjectsBelongToNobody) {
    void *p = nullptr;
    in_thread([&] { p = lm_block_alloc(1 << 20); });
    EXPECT_EQ(uintptr_t{LM_OWNER_NONE}, lm_page_of(p)->owner);
    memset(p, 1, 1 << 20);
    in_thread([&] { lm_block_free(p); });
    EXPECT_EQ(&lm_nobody, lm_page_of(p));
}

/* Threads in a ring free what their neighbour allocated, at once; at the end nothing is missing. */
TEST_F(Remote, ARingOfThreads) {
    constexpr size_t kThreads = 4, kSlots = 64;
    const size_t rounds = LM_TSAN ? 200 : 1500;
    static std::atomic<void *> slots[kThreads][kSlots];
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; t++) {
        threads.emplace_back([=] {
            for (size_t round = 0; round < rounds; round++) {
                for (size_t i = 0; i < kSlots; i++) {
                    size_t bytes = 16 + (round * 31 + i * 17 + t) % 3000;
                    void *p = lm_block_alloc(bytes);
                    memset(p, static_cast<int>(t), 16);
                    /* The neighbour's slot: whoever was there is ours to free now. */
                    lm_block_free(slots[(t + 1) % kThreads][i].exchange(p));
                }
            }
            lm_heap_check();
        });
    }
    for (std::thread &thread : threads) thread.join();
    for (auto &ring : slots) {
        for (auto &slot : ring) lm_block_free(slot.exchange(nullptr));
    }
    lm_heap_check();
    lm_heap_collect();
}

} // namespace

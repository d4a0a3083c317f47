/* remote_test.cc: blocks freed by a thread that does not own their page: the lists on which they
 * wait, and how they return to their pages.
 *
 * The owner waits while the other thread runs, so that every count is exact. The other thread's end
 * returns the blocks that it holds. There is no worker, and so no transfer cache, which
 * transfer_test.cc tests. Interleavings are tested in tests/stress/ and tests/protocol/.
 */
#include "heap_unit.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>

namespace {

using unit::blocks;
using unit::free_blocks;
using unit::held;
using unit::in_thread;

class Remote : public unit::HeapTest {};

uint32_t count(const lm_page_t *page) { return lm_remote_count(lm_load_acquire(&page->remote)); }

constexpr size_t kBytes = 128; /* a list has 128 at most */
constexpr unsigned kClass = 8;

/* Blocks in a page of that class. */
size_t in_a_page() { return unit::blocks_in_page(kBytes); }

lm_foreign_t &foreign(unsigned c = kClass) { return lm_heap_self->foreign[c]; }
bool handed_out() { return lm_heap_self->holds[kClass] == LM_HOLDS_OTHERS; }

/* ---- The lists ---- */

TEST_F(Remote, FreedBlocksWaitInAList) {
    in_thread([] {
        std::vector<void *> taken = blocks(300, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        lm_theap_t *heap = lm_heap_self;
        in_thread([&] {
            free_blocks(taken, 0, 100);
            EXPECT_EQ(100u, held(foreign()));
            EXPECT_EQ(taken[99], foreign().first);
            EXPECT_EQ(0u, count(page));
            EXPECT_EQ(nullptr, lm_load_acquire(&heap->notified));
            EXPECT_EQ(0u, lm_heap_self->pages) << "it has got none by that";
            lm_heap_check();
        });
        EXPECT_EQ(100u, count(page)) << "a thread that ends sends home what it holds";
        EXPECT_EQ(page, lm_load_acquire(&heap->notified));
        EXPECT_TRUE(lm_load_acquire(&page->remote) & LM_REMOTE_QUEUED);
        EXPECT_EQ(page->carved, page->live) << "the owner has not looked yet";
        lm_heap_check();
        lm_heap_collect();
        EXPECT_EQ(0u, lm_load_acquire(&page->remote));
        EXPECT_EQ(page->carved - 100u, page->live);
        lm_heap_check();
        free_blocks(taken, 100, 300);
    });
}

TEST_F(Remote, RoomIsGrantedAsItIsUsed) {
    in_thread([] {
        std::vector<void *> taken = blocks(300, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        in_thread([&] {
            unsigned granted[] = {4, 8, 16, 32, 64, 128};
            size_t n = 0;
            for (unsigned expected : granted) {
                for (; n < expected; n++) {
                    lm_block_free(taken[n]);
                    EXPECT_EQ(expected, foreign().granted) << n;
                    EXPECT_EQ(expected - n - 1, foreign().room);
                    EXPECT_EQ(expected * kBytes, lm_heap_self->foreign_bytes);
                }
            }
            EXPECT_EQ(0u, count(page));
            lm_block_free(taken[128]);
            EXPECT_EQ(128u, count(page))
                << "16 KiB is all a class gets; without a worker it goes home";
            EXPECT_EQ(128u, foreign().granted);
            EXPECT_EQ(1u, held(foreign()));
            free_blocks(taken, 129, 256);
            EXPECT_EQ(128u, held(foreign()));
            lm_block_free(taken[256]);
            EXPECT_EQ(256u, count(page));
        });
        EXPECT_EQ(257u, count(page));
        free_blocks(taken, 257, 300);
    });
}

TEST_F(Remote, AClassGetsNoMoreBytesThanBlocks) {
    in_thread([] {
        for (unsigned c : {1u, 20u, 64u, 80u, 100u, 112u}) {
            size_t bytes = lm_class_bytes(c), most = 16384 / bytes;
            most = most > 128 ? 128 : most < 2 ? 2 : most;
            std::vector<void *> taken = blocks(300, bytes);
            in_thread([&] {
                for (void *p : taken) {
                    lm_block_free(p);
                    ASSERT_LE(foreign(c).granted, most) << bytes;
                    ASSERT_LE(foreign(c).room, foreign(c).granted);
                    ASSERT_EQ(foreign(c).granted * bytes, lm_heap_self->foreign_bytes);
                }
                EXPECT_EQ(most, foreign(c).granted) << bytes;
            });
            lm_heap_collect();
        }
    });
}

TEST_F(Remote, AllClassesShareWhatIsGranted) {
    in_thread([] {
        std::vector<void *> taken;
        size_t total = 0, most = 0;
        for (int round = 0; round < 40; round++) {
            for (unsigned c = 1; c < LM_CLASSES; c++) {
                taken.push_back(lm_block_alloc(lm_class_bytes(c)));
                total += lm_class_bytes(c);
            }
        }
        ASSERT_GT(total, size_t{4} << 20);
        bool emptied = false;
        in_thread([&] {
            for (void *p : taken) {
                lm_block_free(p);
                size_t bytes = 0, blocks_held = 0;
                for (unsigned c = 1; c < LM_CLASSES; c++) {
                    bytes += foreign(c).granted * lm_class_bytes(c);
                    blocks_held += held(foreign(c));
                }
                ASSERT_EQ(bytes, lm_heap_self->foreign_bytes);
                ASSERT_LE(bytes, size_t{256} << 10);
                most = std::max(most, bytes);
                emptied |= blocks_held == 1;
            }
        });
        EXPECT_GT(most, size_t{200} << 10);
        EXPECT_TRUE(emptied) << "when there is none left, all lists go";
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages);
    });
}

TEST_F(Remote, CollectingSendsThemHome) {
    in_thread([] {
        std::vector<void *> taken = blocks(100, kBytes), large = blocks(3, 20000);
        lm_page_t *page = lm_page_of(taken[0]), *other = lm_page_of(large[0]);
        in_thread([&] {
            free_blocks(taken, 0, 60);
            free_blocks(large);
            lm_heap_collect();
            EXPECT_EQ(60u, count(page));
            EXPECT_EQ(3u, count(other));
            EXPECT_EQ(0u, lm_heap_self->foreign_bytes);
            EXPECT_EQ(0u, foreign().granted);
            EXPECT_EQ(nullptr, foreign().first);
            free_blocks(taken, 60, 61);
            EXPECT_EQ(4u, foreign().granted) << "and it begins anew";
        });
        free_blocks(taken, 61, 100);
    });
}

TEST_F(Remote, TheyAreSortedByPages) {
    in_thread([] {
        /* Three pages for each chain that is sorted at a time, in an order that mixes them. */
        constexpr size_t kPages = 48, kEach = 2;
        std::vector<std::vector<void *>> by_page;
        std::vector<void *> rest;
        while (by_page.size() < kPages) {
            by_page.emplace_back(blocks(8, 8192));
            std::vector<void *> more = blocks(unit::blocks_in_page(8192) - 8, 8192); /* the rest */
            rest.insert(rest.end(), more.begin(), more.end());
        }
        in_thread([&] {
            lm_block_t *list = nullptr;
            for (size_t i = 0; i < kEach; i++) {
                for (size_t p = 0; p < kPages; p++) {
                    auto *block = static_cast<lm_block_t *>(by_page[p * 29 % kPages][i]);
                    lm_link_set(block, list);
                    list = block;
                }
            }
            lm_foreign_send(nullptr, list);
        });
        for (auto &page : by_page) {
            EXPECT_EQ(kEach, count(lm_page_of(page[0])));
            lm_block_t *head = nullptr, *tail = nullptr;
            ASSERT_EQ(kEach, lm_remote_take(lm_page_of(page[0]), &head, &tail));
            EXPECT_TRUE(head == page[0] || head == page[1]);
            EXPECT_TRUE(tail == page[0] || tail == page[1]);
            EXPECT_EQ(tail, lm_link_get(head));
            free_blocks(page);
        }
        free_blocks(rest);
    });
}

/* A page may become ours while blocks of it wait in our list. */
TEST_F(Remote, WhatHasBecomeOursIsTakenIn) {
    std::vector<void *> taken;
    std::thread owner;
    std::atomic<int> step{0};
    auto await = [&step](int n) {
        while (step.load() < n) std::this_thread::yield();
    };
    owner = std::thread([&] {
        taken = blocks(in_a_page(), kBytes);
        step = 1;
        await(2);
    });
    await(1);
    lm_page_t *page = lm_page_of(taken[0]);
    in_thread([&] {
        free_blocks(taken, 0, 100);
        EXPECT_EQ(100u, held(foreign()));
        step = 2;
        owner.join();
        lm_page_t *orphan = page;
        ASSERT_EQ(uintptr_t{LM_OWNER_NONE}, orphan->owner);
        lm_block_free(taken[100]);
        ASSERT_EQ(lm_thread_token(), page->owner) << "an orphan becomes ours at once";
        lm_heap_collect();
        EXPECT_EQ(0u, lm_remote_count(page->remote));
        EXPECT_EQ(in_a_page() - 101, page->live);
        lm_heap_check();
        free_blocks(taken, 101, in_a_page());
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages);
    });
}

/* ---- malloc takes them ---- */

TEST_F(Remote, MallocTakesTheList) {
    in_thread([] {
        std::vector<void *> taken = blocks(40, kBytes);
        in_thread([&] {
            free_blocks(taken, 0, 20);
            std::set<void *> expected(taken.begin(), taken.begin() + 20);
            std::vector<void *> more = blocks(20, kBytes);
            for (void *p : more) {
                EXPECT_EQ(1u, expected.erase(p));
                EXPECT_EQ(kBytes, lm_page_of(p)->block_bytes);
            }
            EXPECT_EQ(0u, lm_heap_self->pages) << "no memory of its own";
            EXPECT_EQ(32u, foreign().granted);
            EXPECT_EQ(32u, foreign().room) << "there is room for others again";
            lm_heap_check();
            void *own = lm_block_alloc(kBytes);
            EXPECT_EQ(1u, lm_heap_self->pages);
            EXPECT_FALSE(handed_out());
            lm_heap_check();
            lm_block_free(own);
            free_blocks(more);
        });
        lm_heap_collect();
        free_blocks(taken, 20, 40);
    });
}

TEST_F(Remote, AFewAreNotWorthIt) {
    in_thread([] {
        std::vector<void *> taken = blocks(40, kBytes), large = blocks(3, 4096);
        in_thread([&] {
            free_blocks(taken, 0, 7);
            void *own = lm_block_alloc(kBytes);
            EXPECT_EQ(1u, lm_heap_self->pages);
            EXPECT_EQ(7u, held(foreign()));
            lm_block_free(own);
        });
        in_thread([&] {
            free_blocks(taken, 7, 15);
            void *other = lm_block_alloc(kBytes);
            EXPECT_EQ(0u, lm_heap_self->pages) << "eight are";
            EXPECT_TRUE(handed_out());
            lm_block_free(other);
        });
        in_thread([&] {
            lm_block_free(large[0]);
            void *p = lm_block_alloc(4096);
            EXPECT_EQ(large[0], p) << "and large ones one by one";
            lm_block_free(p);
        });
        free_blocks(taken, 15, 40);
        lm_block_free(large[1]);
        lm_block_free(large[2]);
    });
}

TEST_F(Remote, OwnFreedBlocksComeFirst) {
    in_thread([] {
        std::vector<void *> taken = blocks(40, kBytes);
        in_thread([&] {
            std::vector<void *> own = blocks(2 * in_a_page(), kBytes);
            lm_page_t *first = lm_page_of(own[0]), *second = lm_page_of(own[in_a_page()]);
            free_blocks(own, 0, 200); /* wakes the first page */
            ASSERT_EQ(LM_AT_PARTIAL, first->in_list);
            free_blocks(own, in_a_page(), in_a_page() + 8);
            ASSERT_EQ(LM_AT_CURRENT, second->in_list);
            free_blocks(taken);
            std::vector<void *> more = blocks(8, kBytes);
            for (void *p : more) EXPECT_EQ(second, lm_page_of(p)) << "the current page's";
            std::vector<void *> then = blocks(200, kBytes);
            for (void *p : then) EXPECT_EQ(first, lm_page_of(p)) << "woken pages'";
            EXPECT_EQ(40u, held(foreign()));
            std::vector<void *> last = blocks(40, kBytes);
            EXPECT_EQ(std::set<void *>(last.begin(), last.end()),
                      std::set<void *>(taken.begin(), taken.end()));
            lm_heap_check();
            free_blocks(last);
            free_blocks(then);
            free_blocks(more);
            free_blocks(own, 200, in_a_page());
            free_blocks(own, in_a_page() + 8, 2 * in_a_page());
        });
    });
}

TEST_F(Remote, TheyComeBeforeUntouchedMemory) {
    in_thread([] {
        std::vector<void *> taken = blocks(40, kBytes);
        in_thread([&] {
            std::vector<void *> own = blocks(4, kBytes); /* all that is carved */
            lm_page_t *page = lm_page_of(own[0]);
            ASSERT_EQ(4u, page->carved);
            free_blocks(taken);
            std::vector<void *> more = blocks(40, kBytes);
            EXPECT_EQ(4u, page->carved);
            EXPECT_EQ(page, lm_heap_self->current[kClass]) << "its turn comes later";
            own.push_back(lm_block_alloc(kBytes));
            EXPECT_EQ(page, lm_page_of(own.back()));
            EXPECT_EQ(8u, page->carved);
            free_blocks(more);
            free_blocks(own);
        });
    });
}

TEST_F(Remote, CallocClearsThem) {
    in_thread([] {
        constexpr size_t kAsked = kBytes - LM_TRAILER;
        std::vector<void *> taken = blocks(40, kBytes);
        for (void *p : taken) memset(p, 0xee, kBytes);
        in_thread([&] {
            /* With a page that has untouched memory, and handed some out. */
            std::vector<void *> own = blocks(4, kBytes);
            free_blocks(taken);
            for (size_t i = 0; i < 40; i++) {
                auto *p = static_cast<unsigned char *>(lm_calloc(kAsked));
                EXPECT_TRUE(std::all_of(p, p + kAsked, [](unsigned char b) { return b == 0; }));
                EXPECT_EQ(1, std::count(taken.begin(), taken.end(), p));
            }
            free_blocks(own);
            free_blocks(taken);
        });
    });
}

void trim() {
    lm_biased_enter(&lm_heap_self->lock);
    lm_page_trim(lm_heap_self);
    lm_biased_leave(&lm_heap_self->lock);
}

/* What the heap hands out is others', while its current page is looked at, trimmed and left. */
TEST_F(Remote, TheCurrentPageGoesWithoutTheList) {
    in_thread([] {
        std::vector<void *> taken = blocks(40, kBytes);
        in_thread([&] {
            std::vector<void *> own = blocks(4, kBytes);
            free_blocks(taken);
            std::vector<void *> more = blocks(10, kBytes);
            ASSERT_TRUE(handed_out());
            lm_heap_check();
            trim();
            EXPECT_EQ(1u, lm_heap_self->pages) << "four are in use";
            free_blocks(own);
            trim();
            EXPECT_EQ(0u, lm_heap_self->pages);
            EXPECT_EQ(nullptr, lm_heap_self->current[kClass]);
            lm_heap_check();
            std::vector<void *> rest = blocks(30, kBytes);
            for (void *p : rest) EXPECT_EQ(1, std::count(taken.begin(), taken.end(), p));
            EXPECT_EQ(0u, lm_heap_self->pages);
            lm_heap_check();
            free_blocks(rest, 0, 20);
            free_blocks(more);
            rest.erase(rest.begin(), rest.begin() + 20);
            /* It ends with some handed out, some listed; the next thread gets its heap. */
            free_blocks(rest);
            more = blocks(5, kBytes);
            ASSERT_TRUE(handed_out());
            free_blocks(more, 0, 2);
            in_thread([more] { free_blocks(more, 2, 5); });
        });
        in_thread([&] {
            lm_block_free(lm_block_alloc(kBytes));
            lm_heap_check();
            EXPECT_EQ(1u, lm_heap_self->pages);
        });
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages) << "all have come back";
    });
}

/* ---- Home ---- */

TEST_F(Remote, TheOwnerUsesThemAgain) {
    in_thread([] {
        /* The whole page, so that the next malloc needs what comes back. */
        std::vector<void *> taken = blocks(in_a_page(), kBytes);
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
        free_blocks(taken, 200, in_a_page());
    });
}

TEST_F(Remote, AFullPageWakesUp) {
    in_thread([] {
        std::vector<void *> taken = blocks(in_a_page(), kBytes), next = blocks(1, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        EXPECT_EQ(LM_AT_FULL, page->in_list);
        in_thread([&] { free_blocks(taken, 0, 40); });
        EXPECT_EQ(LM_AT_FULL, page->in_list);
        lm_heap_collect();
        EXPECT_EQ(LM_AT_PARTIAL, page->in_list);
        EXPECT_EQ(in_a_page() - 40, page->live);
        lm_heap_check();
        free_blocks(taken, 40, in_a_page());
        free_blocks(next);
    });
}

TEST_F(Remote, APageThatOthersEmptiedIsGivenBack) {
    in_thread([] {
        std::vector<void *> taken = blocks(in_a_page(), kBytes), next = blocks(1, kBytes);
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
        std::vector<void *> taken = blocks(in_a_page(), kBytes), next = blocks(1, kBytes);
        in_thread([&] { free_blocks(taken, 0, 256); });
        free_blocks(taken, 256, in_a_page());
        lm_heap_check();
        lm_heap_collect();
        EXPECT_EQ(&lm_nobody, lm_page_of(taken[0]));
        lm_heap_check();
        free_blocks(next);
    });
}

TEST_F(Remote, ChainsKeepTheirBlocks) {
    in_thread([] {
        std::vector<void *> taken = blocks(7, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        lm_block_t *b[7];
        for (size_t i = 0; i < 7; i++) b[i] = static_cast<lm_block_t *>(taken[i]);
        lm_theap_t *mine = lm_heap_self;
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

/* ---- Many pages at once ---- */

/* A full page a block, of which another thread has sent the first block home. */
std::vector<void *> told_of_pages(size_t n) {
    std::vector<void *> taken = blocks(n * in_a_page(), kBytes);
    in_thread([&] {
        for (size_t i = 0; i < n; i++) {
            auto *block = static_cast<lm_block_t *>(taken[i * in_a_page()]);
            lm_remote_push(nullptr, lm_page_of(block), block, block, 1);
        }
    });
    return taken;
}

void free_but_the_first(const std::vector<void *> &taken) {
    for (size_t i = 0; i < taken.size(); i++)
        if (i % in_a_page() != 0) lm_block_free(taken[i]);
}

TEST_F(Remote, OnePageIsTakenInAtATime) {
    in_thread([] {
        const size_t pages = 18;
        std::vector<void *> taken = told_of_pages(pages);
        lm_theap_t *heap = lm_heap_self;
        auto waiting = [&] {
            size_t n = 0;
            for (size_t i = 0; i < pages; i++) {
                const lm_page_t *page = lm_page_of(taken[i * in_a_page()]);
                n += count(page);
                EXPECT_EQ(count(page), lm_load_acquire(&page->remote) & LM_REMOTE_QUEUED);
            }
            return n;
        };
        for (size_t left = pages + 1; left > 0; left--) {
            EXPECT_EQ(left > pages ? pages : left, waiting()) << "the first call finds the pages";
            EXPECT_TRUE(lm_remote_waits(heap));
            lm_biased_enter(&heap->lock);
            lm_remote_drain_some(heap);
            lm_biased_leave(&heap->lock);
            lm_heap_check();
        }
        EXPECT_EQ(0u, waiting());
        EXPECT_FALSE(lm_remote_waits(heap));
        free_but_the_first(taken);
    });
}

/* Before it takes memory that was never used. */
TEST_F(Remote, WhoFindsNothingElseTakesInAll) {
    in_thread([] {
        std::vector<void *> taken = told_of_pages(18);
        void *p = lm_block_alloc(2000);
        EXPECT_FALSE(lm_remote_waits(lm_heap_self));
        lm_heap_check();
        lm_block_free(p);
        free_but_the_first(taken);
    });
}

/* What is left of the stack is as good as any other of it: for others that free, and for a
 * thread that ends. */
TEST_F(Remote, OthersComeWhileSomeAreLeft) {
    in_thread([] {
        const size_t pages = 18;
        std::vector<void *> taken = told_of_pages(pages);
        lm_theap_t *heap = lm_heap_self;
        lm_biased_enter(&heap->lock);
        for (int i = 0; i < 3; i++) lm_remote_drain_some(heap);
        lm_biased_leave(&heap->lock);
        in_thread([&] {
            for (size_t i = 0; i < pages; i++) {
                auto *block = static_cast<lm_block_t *>(taken[i * in_a_page() + 1]);
                lm_remote_push(nullptr, lm_page_of(block), block, block, 1);
            }
        });
        lm_heap_collect();
        lm_heap_check();
        for (size_t i = 0; i < pages; i++) EXPECT_EQ(0u, count(lm_page_of(taken[i * in_a_page()])));
        for (size_t i = 0; i < taken.size(); i++)
            if (i % in_a_page() > 1) lm_block_free(taken[i]);
    });
}

} // namespace

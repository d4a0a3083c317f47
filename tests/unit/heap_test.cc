/* heap_test.cc: the life of a page in its heap, and the functions that build on blocks. One thread
 * runs at a time.
 *
 * remote_test.cc tests remote frees, orphan_test.cc tests pages without an owner.
 */
#include "heap_unit.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

namespace {

using unit::blocks;
using unit::free_blocks;
using unit::in_thread;

class Heap : public unit::HeapTest {};

constexpr size_t kBytes = 512; /* a page has 128 of them or a few less, 16 wake it */
constexpr size_t kWake = 16;

/* Blocks in a page of that class. */
size_t in_a_page() { return unit::blocks_in_page(kBytes); }

TEST_F(Heap, ComesWithTheFirstBlock) {
    in_thread([] {
        EXPECT_EQ(&lm_heap_empty, lm_heap_self);
        lm_heap_check();
        void *p = lm_block_alloc(100);
        ASSERT_NE(nullptr, p);
        EXPECT_NE(&lm_heap_empty, lm_heap_self);
        EXPECT_EQ(lm_thread_token(), lm_heap_self->token);
        EXPECT_TRUE(lm_heap_self->active);
        EXPECT_EQ(1u, lm_heap_self->pages);
        lm_heap_check();
        lm_block_free(p);
    });
}

TEST_F(Heap, TheEmptyHeapStaysEmpty) {
    in_thread([] { lm_block_free(lm_block_alloc(1)); });
    for (unsigned c = 0; c < LM_CLASSES; c++) {
        EXPECT_EQ(nullptr, lm_heap_empty.head[c]);
        EXPECT_EQ(nullptr, lm_heap_empty.current[c]);
    }
    EXPECT_EQ(0u, lm_heap_empty.pages);
}

TEST_F(Heap, PagesAreCarvedAsNeeded) {
    in_thread([] {
        std::vector<void *> taken = blocks(1, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        EXPECT_EQ(kBytes, page->block_bytes);
        EXPECT_EQ(in_a_page(), page->capacity);
        EXPECT_EQ(LM_AT_CURRENT, page->in_list);
        if (!LM_SECURE) {
            EXPECT_EQ(lm_span_start(page), taken[0]);
        }
        /* 512 bytes, then as much as there is already, 4 KiB at most. */
        for (size_t carved : {1u, 2u, 4u, 8u, 16u, 24u, 32u}) {
            EXPECT_EQ(carved, page->carved);
            EXPECT_EQ(carved, page->live) << "what the heap holds ready counts as outside";
            while (taken.size() < carved) {
                taken.push_back(lm_block_alloc(kBytes));
                if (LM_SECURE) continue; /* where nobody can foretell */
                EXPECT_EQ(lm_span_start(page) + (taken.size() - 1) * kBytes, taken.back())
                    << "in order of address";
            }
            EXPECT_EQ(carved, page->carved);
            taken.push_back(lm_block_alloc(kBytes));
        }
        lm_heap_check();
        free_blocks(taken);
    });
}

TEST_F(Heap, CarvingEndsWithThePage) {
    in_thread([] {
        for (unsigned c = 1; c < LM_CLASSES; c++) {
            std::vector<void *> taken = blocks(1, lm_class_bytes(c));
            lm_page_t *page = lm_page_of(taken[0]);
            size_t carved = page->carved, bytes = page->block_bytes;
            EXPECT_EQ(bytes <= 512 ? 512 / bytes : 1, carved) << bytes;
            while (taken.size() < page->capacity) {
                taken.push_back(lm_block_alloc(bytes));
                ASSERT_EQ(page, lm_page_of(taken.back()));
                if (page->carved == carved) continue;
                size_t more = (page->carved - carved) * bytes;
                EXPECT_LE(more, std::max(size_t{4096}, bytes));
                if (page->carved < page->capacity && bytes <= 256) {
                    EXPECT_GT(more, std::min(size_t{4096}, carved * bytes) - bytes);
                }
                carved = page->carved;
            }
            EXPECT_EQ(page->capacity, page->carved);
            free_blocks(taken);
        }
    });
}

TEST_F(Heap, EveryClassHasItsOwnPage) {
    in_thread([] {
        std::vector<void *> taken;
        std::set<lm_page_t *> pages;
        for (unsigned c = 1; c < LM_CLASSES; c++) {
            size_t bytes = lm_class_bytes(c);
            for (size_t n : {lm_class_bytes(c - 1) + 1, bytes}) {
                void *p = lm_block_alloc(n);
                ASSERT_NE(nullptr, p);
                EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(p) % 16);
                EXPECT_EQ(c, lm_page_of(p)->size_class);
                EXPECT_EQ(bytes, lm_page_of(p)->block_bytes);
                EXPECT_EQ(lm_page_of(p), lm_page_of(static_cast<char *>(p) + bytes - 1));
                memset(p, static_cast<int>(c), bytes);
                pages.insert(lm_page_of(p));
                taken.push_back(p);
            }
        }
        EXPECT_GE(pages.size(), size_t{LM_CLASSES} - 1);
        lm_heap_check();
        for (size_t i = 0; i < taken.size(); i++) {
            const unsigned char *p = static_cast<unsigned char *>(taken[i]);
            size_t bytes = lm_page_of(p)->block_bytes;
            EXPECT_EQ(i / 2 + 1, p[0]);
            EXPECT_EQ(i / 2 + 1, p[bytes - 1]);
            lm_block_free(taken[i]);
        }
        lm_heap_check();
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages);
    });
}

TEST_F(Heap, NothingIsClassOne) {
    in_thread([] {
        void *p = lm_block_alloc(0), *q = lm_block_alloc(0);
        EXPECT_NE(p, q);
        EXPECT_EQ(16u, lm_page_of(p)->block_bytes);
        lm_block_free(p);
        lm_block_free(q);
        lm_block_free(nullptr);
    });
}

/* ---- current, full, partial, gone ---- */

TEST_F(Heap, AFullPageSleepsUntilSomeBlocksAreBack) {
    in_thread([] {
        std::vector<void *> taken = blocks(in_a_page(), kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        EXPECT_EQ(LM_AT_CURRENT, page->in_list) << "nobody has noticed yet";
        void *next = lm_block_alloc(kBytes);
        EXPECT_NE(page, lm_page_of(next));
        EXPECT_EQ(LM_AT_FULL, page->in_list);
        EXPECT_EQ(kWake, page->live);
        EXPECT_EQ(in_a_page() - kWake, page->bias);
        lm_heap_check();
        free_blocks(taken, 0, kWake - 1);
        EXPECT_EQ(LM_AT_FULL, page->in_list);
        lm_heap_check();
        free_blocks(taken, kWake - 1, kWake);
        EXPECT_EQ(LM_AT_PARTIAL, page->in_list);
        EXPECT_EQ(0u, page->bias);
        EXPECT_EQ(in_a_page() - kWake, page->live);
        lm_heap_check();
        lm_block_free(next);
        free_blocks(taken, kWake, in_a_page());
    });
}

TEST_F(Heap, PagesOfLargeBlocksWakeAtAQuarter) {
    in_thread([] {
        size_t n = unit::blocks_in_page(65536), wake = n / 4; /* eight, or seven */
        std::vector<void *> taken = blocks(n, 65536);
        lm_page_t *page = lm_page_of(taken[0]);
        EXPECT_EQ(n, page->capacity);
        void *next = lm_block_alloc(65536);
        EXPECT_EQ(LM_AT_FULL, page->in_list);
        free_blocks(taken, 0, wake - 1);
        EXPECT_EQ(LM_AT_FULL, page->in_list);
        free_blocks(taken, wake - 1, wake);
        EXPECT_EQ(LM_AT_PARTIAL, page->in_list);
        lm_block_free(next);
        free_blocks(taken, wake, n);
    });
}

TEST_F(Heap, ASleepingPageIsUsedBeforeMemoryIsTakenAnew) {
    in_thread([] {
        std::vector<void *> taken = blocks(3 * in_a_page(), kBytes);
        lm_page_t *first = lm_page_of(taken[0]), *second = lm_page_of(taken[in_a_page()]);
        ASSERT_EQ(LM_AT_FULL, first->in_list);
        ASSERT_EQ(LM_AT_FULL, second->in_list);
        lm_block_free(taken[in_a_page() + 5]);
        EXPECT_EQ(LM_AT_FULL, second->in_list) << "too few to wake it";
        size_t pages = lm_heap_self->pages;
        void *p = lm_block_alloc(kBytes);
        EXPECT_EQ(taken[in_a_page() + 5], p);
        EXPECT_EQ(LM_AT_CURRENT, second->in_list);
        EXPECT_EQ(0u, second->bias);
        EXPECT_EQ(in_a_page(), second->live);
        EXPECT_EQ(LM_AT_FULL, first->in_list);
        EXPECT_EQ(pages, lm_heap_self->pages);
        lm_heap_check();
        void *next = lm_block_alloc(kBytes);
        EXPECT_EQ(pages + 1, lm_heap_self->pages) << "no page has a block left";
        lm_heap_check();
        lm_block_free(next);
        free_blocks(taken);
        lm_heap_check();
    });
}

TEST_F(Heap, EachSleepingPageIsLookedAtInTheEnd) {
    in_thread([] {
        constexpr size_t kPages = 30; /* more than one look sees */
        std::vector<void *> taken = blocks(kPages * in_a_page(), kBytes), more;
        lm_block_free(taken[(kPages - 3) * in_a_page()]);
        for (size_t i = 0; i < 6 * in_a_page(); i++) {
            more.push_back(lm_block_alloc(kBytes));
            if (more.back() == taken[(kPages - 3) * in_a_page()]) break;
        }
        EXPECT_EQ(taken[(kPages - 3) * in_a_page()], more.back());
        taken[(kPages - 3) * in_a_page()] = nullptr;
        lm_heap_check();
        free_blocks(taken);
        free_blocks(more);
    });
}

TEST_F(Heap, AnEmptyPageIsGivenBack) {
    in_thread([] {
        std::vector<void *> taken = blocks(in_a_page() + 1, kBytes);
        size_t pages = lm_heap_self->pages;
        lm_span_stats_t before, after;
        lm_span_stats(&before);
        free_blocks(taken, 0, in_a_page());
        lm_span_stats(&after);
        EXPECT_EQ(&lm_nobody, lm_page_of(taken[0]));
        EXPECT_EQ(pages - 1, lm_heap_self->pages);
        EXPECT_EQ(before.used_bytes - LM_SLICE_BYTES, after.used_bytes);
        EXPECT_NE(&lm_nobody, lm_page_of(taken[in_a_page()]));
        lm_heap_check();
        lm_block_free(taken[in_a_page()]);
    });
}

TEST_F(Heap, TheCurrentPageStaysUntilCollected) {
    in_thread([] {
        std::vector<void *> taken = blocks(10, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        free_blocks(taken);
        EXPECT_EQ(page, lm_page_of(taken[0]));
        EXPECT_EQ(LM_AT_CURRENT, page->in_list);
        lm_heap_check();
        lm_heap_collect();
        EXPECT_EQ(&lm_nobody, lm_page_of(taken[0]));
        EXPECT_EQ(0u, lm_heap_self->pages);
        EXPECT_EQ(nullptr, lm_heap_self->head[lm_class_of(kBytes)]);
        lm_heap_check();
    });
}

TEST_F(Heap, CollectingKeepsWhatIsInUse) {
    in_thread([] {
        std::vector<void *> taken = blocks(10, kBytes);
        free_blocks(taken, 1, 10);
        lm_heap_collect();
        EXPECT_EQ(1u, lm_heap_self->pages);
        lm_heap_check();
        memset(taken[0], 1, kBytes);
        lm_block_free(taken[0]);
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages);
    });
}

TEST_F(Heap, TheFullestPageIsUsedFirst) {
    in_thread([] {
        std::vector<void *> taken = blocks(4 * in_a_page(), kBytes);
        lm_page_t *page[4];
        for (size_t i = 0; i < 4; i++) page[i] = lm_page_of(taken[i * in_a_page()]);
        /* Of the first three, the second keeps most; the fourth is current, and full. */
        free_blocks(taken, 0, 60);
        free_blocks(taken, in_a_page(), in_a_page() + 20);
        free_blocks(taken, 2 * in_a_page(), 2 * in_a_page() + 90);
        std::vector<void *> more = blocks(20, kBytes);
        for (void *p : more) EXPECT_EQ(page[1], lm_page_of(p));
        void *next = lm_block_alloc(kBytes);
        EXPECT_EQ(page[0], lm_page_of(next));
        lm_heap_check();
        lm_block_free(next);
        free_blocks(more);
        free_blocks(taken, 60, in_a_page());
        free_blocks(taken, in_a_page() + 20, 2 * in_a_page());
        free_blocks(taken, 2 * in_a_page() + 90, 4 * in_a_page());
    });
}

TEST_F(Heap, IdleCurrentPagesGoWhenTheHeapShrinks) {
    in_thread([] {
        for (unsigned c = 40; c < 60; c++) lm_block_free(lm_block_alloc(lm_class_bytes(c)));
        EXPECT_EQ(20u, lm_heap_self->pages);
        std::vector<void *> taken = blocks(40 * in_a_page(), kBytes);
        EXPECT_GE(lm_heap_self->pages, 59u);
        free_blocks(taken);
        size_t idle = 0;
        for (unsigned c = 40; c < 60; c++) {
            idle += c != lm_class_of(kBytes) && lm_heap_self->current[c] != nullptr;
        }
        EXPECT_EQ(0u, idle);
        EXPECT_LE(lm_heap_self->pages, 4u);
        lm_heap_check();
    });
}

TEST_F(Heap, FreedBlocksAreUsedBeforeUntouchedMemory) {
    in_thread([] {
        std::vector<void *> taken = blocks(32, kBytes);
        lm_page_t *page = lm_page_of(taken[0]);
        size_t carved = page->carved;
        for (int round = 0; round < 1000; round++) {
            lm_block_free(taken[static_cast<size_t>(round) % 32]);
            taken[static_cast<size_t>(round) % 32] = lm_block_alloc(kBytes);
        }
        EXPECT_EQ(carved, page->carved);
        free_blocks(taken);
    });
}

/* ---- What is built on blocks ---- */

TEST_F(Heap, CallocIsZeroOnNewAndOnOldMemory) {
    in_thread([] {
        for (size_t bytes : {1u, 24u, 500u, 1024u, 3000u, 60000u, 70000u, 1u << 20}) {
            for (int round = 0; round < 3; round++) {
                unsigned char *p = static_cast<unsigned char *>(lm_calloc(bytes));
                ASSERT_NE(nullptr, p);
                size_t other = 0;
                for (size_t i = 0; i < bytes; i++) other += p[i] != 0;
                EXPECT_EQ(0u, other) << bytes << ", round " << round;
                memset(p, 0xee, bytes);
                lm_free(p);
                lm_heap_collect(); /* the next one gets a dirty page */
            }
        }
    });
}

TEST_F(Heap, AlignedBlocks) {
    in_thread([] {
        std::vector<void *> taken;
        for (size_t align = 1; align <= (size_t{4} << 20); align *= 2) {
            for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, align - 1, align, align + 1,
                                 3 * align, size_t{70000}}) {
                void *p = lm_malloc_aligned(bytes, align);
                ASSERT_NE(nullptr, p) << bytes << " aligned to " << align;
                EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(p) % align);
                if (bytes > 0) memset(static_cast<char *>(p) + bytes - 1, 1, 1);
                EXPECT_GE(lm_usable_size(p), bytes);
                taken.push_back(p);
            }
        }
        lm_heap_check();
        for (void *p : taken) lm_free(p);
    });
}

TEST_F(Heap, GoodSizeIsWhatOneGets) {
    in_thread([] {
        for (size_t bytes = 1; bytes < 400000; bytes += bytes < 3000 ? 1 : bytes / 23) {
            size_t good = lm_good_size(bytes);
            EXPECT_GE(good, bytes);
            EXPECT_EQ(good, lm_good_size(good)) << bytes;
            void *p = lm_malloc(good);
            EXPECT_EQ(good, lm_usable_size(p)) << "nothing is left over: " << bytes;
            lm_free(p);
        }
        EXPECT_EQ(SIZE_MAX, lm_good_size(SIZE_MAX));
    });
}

TEST_F(Heap, ReallocStaysWhereAtLeastHalfIsUsed) {
    in_thread([] {
        void *p = lm_malloc(1000 - LM_TRAILER);
        void *q = lm_realloc(p, 600);
        EXPECT_EQ(p, q);
        q = lm_realloc(q, 1000 - LM_TRAILER);
        EXPECT_EQ(p, q);
        memset(q, 0x42, 1000 - LM_TRAILER);
        void *smaller = lm_realloc(q, 100);
        EXPECT_NE(q, smaller) << "most of the block would be wasted";
        for (size_t i = 0; i < 100; i++) EXPECT_EQ(0x42, static_cast<char *>(smaller)[i]);
        lm_free(smaller);
    });
}

TEST_F(Heap, WhatIsAppendedToMovesSeldom) {
    in_thread([] {
        size_t moves = 0, bytes = 256;
        char *p = static_cast<char *>(lm_malloc(bytes));
        memset(p, 0x42, bytes);
        for (; bytes < 8192; bytes += 8) {
            void *q = lm_realloc(p, bytes + 8);
            moves += q != p;
            p = static_cast<char *>(q);
            memset(p + bytes, 0x42, 8);
        }
        EXPECT_LE(moves, 40u) << "five doublings of eight steps";
        for (size_t i = 0; i < bytes; i++) ASSERT_EQ(0x42, p[i]);
        lm_free(p);
    });
}

TEST_F(Heap, WhatGrowsByMuchGetsNoMoreThanItAsksFor) {
    in_thread([] {
        for (size_t bytes = 100; bytes < 16384; bytes += bytes / 3) {
            void *p = lm_realloc(lm_malloc(bytes), bytes + bytes / 2),
                 *q = lm_malloc(bytes + bytes / 2);
            EXPECT_EQ(lm_usable_size(q), lm_usable_size(p));
            lm_free(p);
            lm_free(q);
        }
    });
}

TEST_F(Heap, LargeObjectsArePageGranular) {
    if (LM_SECURE) GTEST_SKIP() << "exact in the secure build: secure_large_test.cc";
    in_thread([] {
        bool zero = false;
        void *p = lm_large_alloc(65537, 1, &zero);
        lm_page_t *page = lm_page_of(p);
        EXPECT_EQ(LM_KIND_LARGE, page->kind);
        EXPECT_EQ(69632u, page->bytes);
        EXPECT_EQ(2u, page->slices);
        EXPECT_EQ(p, lm_large_resize(page, p, 131072)) << "the span's second slice has room";
        EXPECT_EQ(131072u, page->bytes);
        EXPECT_EQ(p, lm_large_resize(page, p, 65537));
        EXPECT_EQ(69632u, page->bytes);
        EXPECT_EQ(2u, page->slices);
        lm_large_free(page, p);
        EXPECT_EQ(&lm_nobody, lm_page_of(p));
    });
}

TEST_F(Heap, LargeObjectsShrinkInPlace) {
    in_thread([] {
        char *p = static_cast<char *>(lm_large_alloc(20 << 16, 1, nullptr));
        lm_page_t *page = lm_page_of(p);
        memset(p, 5, 20 << 16);
        EXPECT_EQ(p, lm_large_resize(page, p, 5 << 16));
        EXPECT_EQ(LM_SECURE ? 6u : 5u, page->slices) << "there, with a page for the guard";
        EXPECT_EQ(5, p[(5 << 16) - 1]);
        lm_span_check();
        lm_large_free(page, p);
    });
}

TEST_F(Heap, StatisticsCountWhatIsInUse) {
    in_thread([] {
        lm_heap_stats_t before, now;
        lm_heap_stats(&before);
        std::vector<void *> taken = blocks(300, kBytes);
        void *large = lm_block_alloc(100000);
        lm_heap_stats(&now);
        unsigned c = lm_class_of(kBytes);
        EXPECT_EQ(before.small_blocks + 300, now.small_blocks);
        EXPECT_EQ(before.small_bytes + 300 * kBytes, now.small_bytes);
        EXPECT_EQ(before.of_class[c].blocks + 300, now.of_class[c].blocks);
        EXPECT_EQ(before.of_class[c].pages + 3, now.of_class[c].pages);
        EXPECT_EQ(before.large_blocks + 1, now.large_blocks);
        EXPECT_EQ(before.large_bytes + (LM_SECURE ? 100000 : 102400), now.large_bytes);
        free_blocks(taken, 0, 100);
        lm_heap_stats(&now);
        EXPECT_EQ(before.small_blocks + 200, now.small_blocks);
        lm_block_free(large);
        free_blocks(taken, 100, 300);
        lm_heap_stats(&now);
        EXPECT_EQ(before.small_blocks, now.small_blocks);
        EXPECT_EQ(before.large_bytes, now.large_bytes);
    });
}

TEST_F(Heap, RandomProgramKeepsTheInvariants) {
    in_thread([] {
        uint64_t state = 12345;
        auto below = [&state](size_t n) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            return (state >> 11) % n;
        };
        std::vector<void *> taken;
        for (int step = 0; step < 150000; step++) {
            bool growing = step / 5000 % 2 == 0;
            if (taken.empty() || below(10) < (growing ? 6u : 4u)) {
                size_t bytes = below(20) != 0 ? 1 + below(2000) : 1 + below(200000);
                taken.push_back(lm_block_alloc(bytes));
                ASSERT_NE(nullptr, taken.back());
                memset(taken.back(), 0x5a, bytes < 64 ? bytes : 64);
            } else {
                size_t i = below(taken.size());
                lm_block_free(taken[i]);
                taken[i] = taken.back();
                taken.pop_back();
            }
            if (step % 1024 == 0) lm_heap_check();
        }
        free_blocks(taken);
        lm_heap_check();
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages);
        lm_span_check();
    });
}

} // namespace

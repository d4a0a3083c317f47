/* borrow_test.cc: a class without freed blocks takes a freed block of a class that is not much
 * larger before it takes memory that has never been used.
 */
#include "heap_unit.h"

#include <algorithm>
#include <cstring>

namespace {

using unit::blocks;
using unit::free_blocks;
using unit::in_thread;

class Borrow : public unit::HeapTest {
  protected:
    void SetUp() override {
        HeapTest::SetUp();
        SKIP_WITHOUT_LENDING();
    }
};

size_t bytes_of(void *p) { return lm_page_of(p)->block_bytes; }

/* So many blocks of the class, all but the first freed again. */
void *leave_one(size_t n, size_t bytes) {
    std::vector<void *> taken = blocks(n, bytes);
    free_blocks(taken, 1, n);
    return taken[0];
}

TEST_F(Borrow, ASmallClassBorrowsFreedBlocksOfALargerOne) {
    in_thread([] {
        void *kept = leave_one(40, 256);
        lm_page_t *page = lm_page_of(kept);
        uint32_t carved = page->carved;
        std::vector<void *> taken = blocks(30, 240);
        for (void *p : taken) EXPECT_EQ(page, lm_page_of(p));
        EXPECT_EQ(carved, page->carved);
        EXPECT_EQ(1u, lm_heap_self->pages);
        lm_heap_check();
        free_blocks(taken);
        lm_heap_check();
        EXPECT_EQ(256, bytes_of(taken[0])) << "and they are what they were";
        lm_block_free(kept);
    });
}

TEST_F(Borrow, WhatIsLeftInTheHeadGoesBackToItsPage) {
    in_thread([] {
        void *kept = leave_one(40, 256), *borrowed = lm_block_alloc(240);
        ASSERT_EQ(256, bytes_of(borrowed));
        lm_heap_collect();
        lm_heap_check();
        lm_block_free(borrowed);
        lm_block_free(kept);
        lm_heap_collect();
        EXPECT_EQ(0u, lm_heap_self->pages);
    });
}

TEST_F(Borrow, ALargeClassBorrowsBeforeItHasAPage) {
    in_thread([] {
        void *kept = leave_one(4, 20480);
        void *p = lm_block_alloc(18432);
        EXPECT_EQ(20480u, bytes_of(p));
        EXPECT_EQ(1u, lm_heap_self->pages);
        lm_block_free(p);
        lm_block_free(kept);
    });
}

TEST_F(Borrow, NobodyBorrowsFromAClassThatIsMuchLarger) {
    in_thread([] {
        void *kept = leave_one(16, 4096);
        for (size_t bytes : {16, 48, 512, 1024, 2048}) {
            void *p = lm_block_alloc(bytes);
            EXPECT_EQ(bytes, bytes_of(p));
            lm_block_free(p);
        }
        lm_block_free(kept);
    });
}

TEST_F(Borrow, BorrowedBlocksAreAligned) {
    in_thread([] {
        std::vector<void *> kept;
        for (size_t bytes = 16; bytes <= LM_BLOCK_MOST; bytes += bytes < 1024 ? 16 : bytes / 8) {
            std::vector<void *> taken = blocks(9, bytes);
            kept.push_back(taken[0]);
            free_blocks(taken, 1, taken.size());
        }
        for (size_t align = 16; align <= 4096; align *= 2) {
            for (size_t bytes = align; bytes <= 16 * align && bytes <= LM_BLOCK_MOST;
                 bytes += align) {
                for (int i = 0; i < 12; i++) {
                    void *p = lm_malloc_aligned(bytes, align);
                    ASSERT_NE(nullptr, p);
                    EXPECT_EQ(0u, (uintptr_t)p % align) << bytes << " bytes";
                    EXPECT_GE(lm_usable_size(p), bytes);
                    kept.push_back(p);
                }
            }
        }
        for (void *p : kept) lm_block_free(p);
    });
}

/* The larger class carves on while its dirty blocks are in the smaller one's list: its page is no
 * longer one whose blocks are all unused. */
TEST_F(Borrow, CallocClearsWhatWasBorrowed) {
    in_thread([] {
        std::vector<void *> dirty = blocks(16, 256);
        for (void *p : dirty) memset(p, 0xff, 256);
        free_blocks(dirty, 1, 16);
        void *borrowed = lm_block_alloc(240); /* takes all of the list */
        ASSERT_EQ(256, bytes_of(borrowed));
        std::vector<void *> carved = blocks(2, 256);
        for (int i = 0; i < 14; i++) {
            unsigned char *p = (unsigned char *)lm_calloc(240 - LM_TRAILER);
            EXPECT_TRUE(
                std::all_of(p, p + 240 - LM_TRAILER, [](unsigned char c) { return c == 0; }));
            lm_block_free(p);
            carved.push_back(lm_block_alloc(240)); /* the next one, next time */
        }
        carved.push_back(borrowed);
        carved.push_back(dirty[0]);
        free_blocks(carved);
    });
}

/* A heap that only grows asks a third of the time at most. */
TEST_F(Borrow, ASearchThatFoundNothingIsNotRepeatedAtOnce) {
    in_thread([] {
        std::vector<void *> taken = blocks(20, 3328);
        lm_foreign_t *of = &lm_heap_self->foreign[lm_class_of(3328)];
        EXPECT_EQ(3, of->pause);
        void *kept = leave_one(4, 3584);
        for (int i = 0; i < 4; i++) taken.push_back(lm_block_alloc(3328));
        EXPECT_TRUE(std::any_of(taken.begin() + 20, taken.end(), [](void *p) {
            return bytes_of(p) == 3584;
        })) << "but not for long";
        EXPECT_LE(of->pause, 1);
        free_blocks(taken);
        lm_block_free(kept);
    });
}

/* Too few are back to wake the page, and it is used all the same. */
TEST_F(Borrow, LargeClassesUsePagesThatAreStillAsleep) {
    in_thread([] {
        std::vector<void *> taken = blocks(16 + 1, 4096); /* one page full, one begun */
        lm_page_t *full = lm_page_of(taken[0]), *other = lm_page_of(taken[16]);
        ASSERT_NE(full, other);
        ASSERT_EQ(LM_AT_FULL, full->in_list);
        lm_block_free(taken[0]);
        ASSERT_EQ(LM_AT_FULL, full->in_list);
        taken[0] = nullptr;
        for (int i = 0; i < 4 && taken[0] == nullptr; i++) {
            void *p = lm_block_alloc(4096);
            if (lm_page_of(p) == full)
                taken[0] = p;
            else
                taken.push_back(p);
        }
        EXPECT_NE(nullptr, taken[0]);
        EXPECT_LE(other->carved, 5);
        free_blocks(taken);
    });
}

} // namespace

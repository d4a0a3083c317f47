/* secure_realloc_test.cc: realloc of small blocks in the secure build gives the guarantees of
 * malloc and free. */
#include "heap_unit.h"

extern "C" {
#include "checks/inner.h"
}

#include <cstring>

namespace {

#if LM_SECURE

class SecureRealloc : public unit::HeapTest {};

/* Sizes around those of blocks, and some between. */
std::vector<size_t> sizes() {
    std::vector<size_t> all;
    for (size_t block = 16; block <= 1152; block += block < 160 ? 16 : 80) {
        for (size_t less : {24, 17, 16, 9, 8, 7}) {
            if (block >= less) all.push_back(block - less);
        }
    }
    return all;
}

char *filled(size_t bytes) {
    auto *p = static_cast<char *>(lm_malloc(bytes));
    return static_cast<char *>(memset(p, 'a', bytes));
}

TEST_F(SecureRealloc, FromAnySizeToAnyOther) {
    for (size_t from : sizes()) {
        for (size_t to : sizes()) {
            char *p = filled(from);
            auto *q = static_cast<char *>(lm_realloc(p, to));
            ASSERT_NE(nullptr, q);
            ASSERT_EQ(to, lm_usable_size(q)) << from;
            for (size_t i = 0; i < std::min(from, to); i++)
                ASSERT_EQ('a', q[i]) << from << " " << to;
            memset(q, 'b', to);
            lm_free_sized(q, to);
        }
    }
    lm_heap_check();
}

/* A second time from what the first one left: room that stayed behind, or more than was asked
 * for. */
TEST_F(SecureRealloc, OnceMore) {
    for (size_t from : {40, 120, 500}) {
        for (size_t then = from / 2; then < from * 2; then += 3) {
            for (size_t last : {from / 3, from - 1, from, from + 1, from * 2}) {
                auto *p = static_cast<char *>(lm_realloc(filled(from), then));
                memset(p, 'b', then);
                p = static_cast<char *>(lm_realloc(p, last));
                ASSERT_EQ(last, lm_usable_size(p));
                for (size_t i = 0; i < std::min(then, last); i++) ASSERT_EQ('b', p[i]);
                lm_free_sized(p, last);
            }
        }
    }
}

/* It moves what is intact only, and leaves nothing behind. */
TEST_F(SecureRealloc, WhatMovesIsLookedAtAndWiped) {
    for (size_t bytes : {8, 40, 50, 120, 1000}) {
        for (size_t to : {bytes, 3 * bytes}) {
            for (size_t past : {0, 3, 7}) {
                char *p = filled(bytes), was = p[bytes + past];
                p[bytes + past] = static_cast<char>(was + 1);
                EXPECT_DEATH((void)lm_realloc(p, to), "overflow") << bytes << " " << past;
                p[bytes + past] = was;
                lm_free(p);
            }
        }
        char *p = filled(bytes);
        lm_page_t *page = lm_page_of(p);
        void *q = lm_realloc(p, 4 * bytes);
        ASSERT_NE(p, q);
        EXPECT_TRUE(lm_block_is_free(page, p));
        for (size_t i = 0; i < bytes; i++) EXPECT_EQ(0, p[i]);
        EXPECT_DEATH(lm_free(p), "double free");
        EXPECT_DEATH((void)lm_realloc(p, 5 * bytes), "realloc after free");
        lm_free(q);
    }
}

/* What was given up of a block is watched. */
TEST_F(SecureRealloc, WhatABlockNoLongerHasIsWatched) {
    for (size_t bytes : {40, 120, 1000}) {
        auto *p = static_cast<char *>(lm_realloc(filled(bytes), bytes - bytes / 3));
        for (size_t past = bytes - bytes / 3; past < bytes; past += 5) {
            EXPECT_EQ(0, p[past]);
            p[past] = 1;
            EXPECT_DEATH(lm_free(p), "overflow") << bytes << " " << past;
            p[past] = 0;
        }
        lm_free(p);
    }
}

TEST_F(SecureRealloc, OfWhatIsNoBlock) {
    char *p = filled(100);
    EXPECT_DEATH((void)lm_realloc(p + 16, 10), "misaligned pointer");
    EXPECT_DEATH((void)lm_realloc(p + 1, 10), "misaligned pointer");
    int local = 0;
    EXPECT_DEATH((void)lm_realloc(&local, 10), "did not allocate");
    lm_free(p);
}

#else

TEST(SecureRealloc, OnlyInTheSecureBuild) {
    GTEST_SKIP() << "other builds have one way for all sizes";
}

#endif

} // namespace

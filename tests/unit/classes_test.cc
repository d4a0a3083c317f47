/* classes_test.cc: the arithmetic of size classes, over every size and every alignment. */
#include <gtest/gtest.h>

extern "C" {
#include "heap/classes.h"
}

#include <algorithm>

namespace {

TEST(Classes, EverySizeFitsItsClassAndNoSmallerOne) {
    unsigned before = 1;
    for (size_t bytes = 1; bytes <= LM_BLOCK_MOST; bytes++) {
        unsigned c = lm_class_of(bytes);
        ASSERT_GE(c, 1u) << bytes;
        ASSERT_LT(c, unsigned{LM_CLASSES}) << bytes;
        ASSERT_GE(lm_class_bytes(c), bytes);
        ASSERT_LT(lm_class_bytes(c - 1), bytes) << "a smaller class would do";
        ASSERT_GE(c, before) << bytes;
        ASSERT_LE(c, before + 1) << "a class without sizes before " << bytes;
        before = c;
    }
    EXPECT_EQ(unsigned{LM_CLASSES} - 1, before);
    EXPECT_EQ(size_t{LM_BLOCK_MOST}, lm_class_bytes(LM_CLASSES - 1));
    EXPECT_EQ(size_t{LM_SMALL_MOST}, lm_class_bytes(LM_SMALL_CLASSES - 1));
}

TEST(Classes, Waste) {
    for (size_t bytes = 1; bytes <= LM_BLOCK_MOST; bytes++) {
        size_t waste = lm_class_bytes(lm_class_of(bytes)) - bytes;
        ASSERT_TRUE(bytes > LM_SMALL_MOST || waste <= 15) << bytes;
        ASSERT_TRUE(bytes <= 128 || waste * 8 <= bytes) << bytes;
    }
}

TEST(Classes, BothFormulasMeet) {
    /* The small one is used to the end of its range, the medium one from there on. */
    EXPECT_EQ(lm_class_small(LM_SMALL_MOST) + 1, lm_class_medium(LM_SMALL_MOST + 1));
    EXPECT_EQ(0u, lm_class_small(0)) << "the class that is always empty";
    EXPECT_EQ(0u, lm_class_bytes(0));
}

TEST(Classes, BlocksAreMultiplesOf16) {
    for (unsigned c = 1; c < LM_CLASSES; c++) EXPECT_EQ(0u, lm_class_bytes(c) % 16) << c;
}

TEST(Classes, AlignedBlocks) {
    for (size_t align = 1; align <= LM_BLOCK_MOST; align *= 2) {
        for (size_t bytes = 0; bytes <= LM_BLOCK_MOST; bytes += bytes < 2100 ? 1 : 13) {
            unsigned c = lm_class_aligned(bytes, align);
            if (c == 0) {
                ASSERT_GT(lm_align_up(std::max(bytes, size_t{1}), align), size_t{LM_BLOCK_MOST});
                continue;
            }
            ASSERT_LT(c, unsigned{LM_CLASSES});
            ASSERT_GE(lm_class_bytes(c), bytes);
            /* Pages start at multiples of 64 KiB: so every block is aligned. */
            ASSERT_EQ(0u, lm_class_bytes(c) % align) << bytes << " aligned to " << align;
        }
        EXPECT_NE(0u, lm_class_aligned(LM_BLOCK_MOST, align)) << align;
        EXPECT_EQ(0u, lm_class_aligned(LM_BLOCK_MOST + 1, align)) << align;
    }
}

TEST(Classes, SlicesOfAPage) {
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        size_t block = lm_class_bytes(c), slices = lm_class_slices(block), bytes = slices << 16;
        size_t least = block > 16384 ? 8 : 16;
        EXPECT_GE(bytes / block, least) << block;
        EXPECT_LE(bytes % block * 8, bytes) << block;
        EXPECT_LE(slices, 8u) << block;
        EXPECT_LE(bytes / block, 4096u) << "a page counts its blocks in 16 bits";
        /* Offsets of blocks go into 16 bits, in units of 16 bytes (heap/remote.c). */
        EXPECT_LE((bytes / block - 1) * block / 16, 65535u) << block;
        if (slices == 1) continue;
        size_t less = bytes - 65536;
        EXPECT_TRUE(less / block < least || less % block * 8 > less)
            << "fewer slices would do: " << block;
    }
}

} // namespace

// pool_test.cc: the fixed pool: blocks, alignment, limits, growth, contiguous memory, chunks, numbers.
#include "loam/pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

namespace {

TEST(Pool, GivesBlocksAndTakesThemBack) {
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, nullptr, 48, nullptr), 0);
    std::set<char *> blocks;
    for (int i = 0; i < 1000; i++) {
        char *p = static_cast<char *>(loam_pool_alloc(&pool));
        ASSERT_NE(p, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 16, 0u);
        EXPECT_TRUE(loam_pool_owns(&pool, p));
        memset(p, i, 48);
        EXPECT_TRUE(blocks.insert(p).second);
    }
    for (char *p : blocks) loam_pool_free(&pool, p);
    EXPECT_TRUE(loam_pool_check(&pool));
    for (int i = 0; i < 1000; i++) {
        char *p = static_cast<char *>(loam_pool_alloc(&pool));
        EXPECT_EQ(blocks.erase(p), 1u) << "used memory before new";
    }
    loam_pool_deinit(&pool);
}

} // namespace

// pool_model_test.cc: random programs of pool_program.h, on pools of every kind.
#include "pool_program.h"

#include "family/pool_sources.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <vector>

namespace {

using pool_model::run;

constexpr unsigned kModes[] = {0u,
                               unsigned(LOAM_CHECK),
                               unsigned(LOAM_HARDEN),
                               unsigned(LOAM_CHECK | LOAM_HARDEN),
                               unsigned(LOAM_POOL_HANDLES),
                               unsigned(LOAM_POOL_HANDLES | LOAM_CHECK)};

TEST(PoolModel, InChunks) {
    for (unsigned flags : kModes) {
        for (uint64_t seed = 1; seed <= 6; seed++) {
            SCOPED_TRACE(testing::Message() << "flags " << flags << " seed " << seed);
            size_t sizes[] = {1, 24, 64, 100, 1024, 8}, refusals = 0, bytes = sizes[seed % 6];
            Counted counted;
            loam_pool pool;
            loam_pool_options options = {};
            options.flags = flags;
            options.first_blocks = 1 + seed * 3;
            options.align = seed == 3 ? 64 : 0;
            options.most_chunk_bytes = seed == 4 ? 8192 : 0;
            ASSERT_EQ(loam_pool_init(&pool, &counted.source, bytes, &options), 0);
            run(&pool, bytes, options.align != 0 ? options.align : sizeof(void *),
                model::Choices(seed), &refusals);
            EXPECT_EQ(refusals, 0u);
            loam_pool_deinit(&pool);
        }
    }
}

TEST(PoolModel, InOnePieceThatGrows) {
    static char memory[4 << 20];
    for (unsigned flags : kModes) {
        for (uint64_t seed = 11; seed <= 14; seed++) {
            SCOPED_TRACE(testing::Message() << "flags " << flags << " seed " << seed);
            size_t refusals = 0;
            loam_buffer buffer;
            loam_buffer_init(&buffer, memory, sizeof memory);
            Counted counted(&buffer.source);
            loam_pool pool;
            loam_pool_options options = {};
            options.flags = flags | LOAM_POOL_CONTIGUOUS;
            options.first_blocks = 4;
            ASSERT_EQ(loam_pool_init(&pool, &counted.source, 72, &options), 0);
            run(&pool, 72, 8, model::Choices(seed), &refusals);
            EXPECT_EQ(refusals, 0u);
            loam_pool_deinit(&pool);
        }
    }
}

TEST(PoolModel, WithASourceThatEnds) {
    size_t refusals = 0;
    for (unsigned flags : kModes) {
        for (uint64_t seed = 21; seed <= 26; seed++) {
            SCOPED_TRACE(testing::Message() << "flags " << flags << " seed " << seed);
            loam_limit limit;
            loam_limit_init(&limit, loam_pages(), 48 << 10);
            loam_pool pool;
            loam_pool_options options = {};
            options.flags = flags;
            options.most_blocks = seed == 25 ? 50 : 0;
            ASSERT_EQ(loam_pool_init(&pool, &limit.source, 200, &options), 0);
            run(&pool, 200, 8, model::Choices(seed), &refusals);
            loam_pool_deinit(&pool);
            EXPECT_EQ(limit.used_bytes, 0u);
        }
    }
    EXPECT_GT(refusals, 0u);
}

TEST(PoolModel, OfFixedSize) {
    size_t refusals = 0;
    for (unsigned flags : kModes) {
        for (uint64_t seed = 31; seed <= 33; seed++) {
            SCOPED_TRACE(testing::Message() << "flags " << flags << " seed " << seed);
            Counted counted;
            loam_pool pool;
            loam_pool_options options = {};
            options.flags = flags | LOAM_FIXED;
            options.most_blocks = 100;
            ASSERT_EQ(loam_pool_init(&pool, &counted.source, 40, &options), 0);
            run(&pool, 40, 8, model::Choices(seed), &refusals);
            EXPECT_EQ(counted.gets, 1u + (pool.table != nullptr));
            loam_pool_deinit(&pool);
        }
    }
    EXPECT_GT(refusals, 0u);
}

/* 160 blocks of 64 MiB: numbers times sizes are beyond 32 bits, as are distances. Only first words
 * are touched. */
TEST(PoolModel, SizesTimesNumbersBeyond32Bits) {
    constexpr size_t kBlock = size_t{64} << 20, kBlocks = 160;
    if (sizeof(void *) < 8) GTEST_SKIP() << "no such memory";
    size_t bytes = kBlock * kBlocks + (size_t{1} << 20);
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no such address space";
    loam_pool pool;
    loam_pool_options options = {};
    options.flags = LOAM_POOL_HANDLES;
    ASSERT_EQ(loam_pool_init_buffer(&pool, memory, kBlock * 2, kBlock - 4096, &options), 0);
    bool watched = (pool.mode & 4) != 0;
    loam_pool_deinit(&pool);
    if (watched) {
        munmap(memory, bytes);
        GTEST_SKIP() << "a tool's shadow of 10 GiB would be written";
    }
    for (unsigned flags : {0u, unsigned(LOAM_POOL_HANDLES)}) {
        options.flags = flags;
        /* Checked blocks need some more than their size. */
        ASSERT_EQ(loam_pool_init_buffer(&pool, memory, bytes, kBlock - 4096, &options), 0);
        std::vector<char *> all;
        while (void *p = loam_pool_alloc(&pool)) all.push_back(static_cast<char *>(p));
        EXPECT_GE(all.size(), kBlocks);
        EXPECT_GT(all.back() - all.front(), ptrdiff_t{9} << 30);
        for (size_t i = 0; i < all.size(); i++) {
            EXPECT_EQ(all[i], all[0] + i * pool.stride);
            EXPECT_TRUE(loam_pool_owns(&pool, all[i]));
            EXPECT_FALSE(loam_pool_owns(&pool, all[i] + (size_t{1} << 32)) &&
                         (size_t{1} << 32) % pool.stride != 0);
            if (flags != 0) {
                EXPECT_EQ(loam_pool_get(&pool, loam_pool_handle(&pool, all[i])), all[i]);
            }
        }
        for (char *p : all) loam_pool_free(&pool, p);
        EXPECT_TRUE(loam_pool_check(&pool));
        for (size_t i = all.size(); i > 0; i--) EXPECT_EQ(loam_pool_alloc(&pool), all[i - 1]);
        EXPECT_EQ(loam_pool_alloc(&pool), nullptr);
        loam_pool_deinit(&pool);
    }
    munmap(memory, bytes);
}

} // namespace

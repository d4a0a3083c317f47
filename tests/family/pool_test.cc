// pool_test.cc: the fixed pool: blocks, alignment, limits, growth in chunks and in place, reset,
// shrink, trim, numbers.
#include "loam/pool.h"

#include "family/pool_sources.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <vector>

namespace {

// Plain pools are checked ones in a debug build, hardened in a secure one, watched under a
// sanitizer.
bool plain(const loam_pool &pool) { return pool.mode == 0; }
constexpr size_t kRoom = 512; // what guards may add to a block

loam_usage usage_of(const loam_pool &pool) {
    loam_usage usage;
    loam_pool_usage(&pool, &usage);
    return usage;
}

char *take(loam_pool *pool) { return static_cast<char *>(loam_pool_alloc(pool)); }

TEST(Pool, GivesBlocksAndTakesThemBack) {
    Counted counted;
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, &counted.source, 48, nullptr), 0);
    EXPECT_EQ(counted.gets, 0u) << "memory comes with the first block";
    std::set<char *> blocks;
    for (int i = 0; i < 1000; i++) {
        char *p = take(&pool);
        ASSERT_NE(p, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 16, 0u);
        memset(p, i, 48);
        EXPECT_TRUE(blocks.insert(p).second);
    }
    for (char *p : blocks) loam_pool_free(&pool, p);
    EXPECT_TRUE(loam_pool_check(&pool));
    for (int i = 0; i < 1000; i++) EXPECT_EQ(blocks.erase(take(&pool)), 1u) << "used memory first";
    loam_pool_free(&pool, nullptr);
    EXPECT_EQ(usage_of(pool).objects, 1000u);
    loam_pool_deinit(&pool);
}

TEST(Pool, TheLastFreedComesBackFirst) {
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, nullptr, 24, nullptr), 0);
    char *a = take(&pool), *b = take(&pool);
    loam_pool_free(&pool, a);
    loam_pool_free(&pool, b);
    EXPECT_EQ(take(&pool), b);
    EXPECT_EQ(take(&pool), a);
    loam_pool_deinit(&pool);
}

TEST(Pool, AlignsAsAsked) {
    struct {
        size_t bytes, align, expected;
    } cases[] = {{1, 0, sizeof(void *)},
                 {20, 0, sizeof(void *)},
                 {24, 0, 8},
                 {48, 0, 16},
                 {4096, 0, 16},
                 {40, 64, 64},
                 {1, 4096, 4096},
                 {100, 1, sizeof(void *)}};
    for (auto &c : cases) {
        Counted counted;
        loam_pool pool;
        loam_pool_options options = {};
        options.align = c.align;
        ASSERT_EQ(loam_pool_init(&pool, &counted.source, c.bytes, &options), 0);
        for (int i = 0; i < 300; i++) {
            char *p = take(&pool);
            ASSERT_NE(p, nullptr);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % c.expected, 0u) << c.bytes << " " << c.align;
            memset(p, 1, c.bytes);
        }
        EXPECT_TRUE(loam_pool_check(&pool));
        loam_pool_deinit(&pool);
    }
}

TEST(Pool, RefusesWhatItCannotBe) {
    loam_pool pool;
    loam_pool_options options = {};
    EXPECT_EQ(loam_pool_init(&pool, nullptr, 0, nullptr), -EINVAL);
    EXPECT_EQ(loam_pool_init(&pool, nullptr, PTRDIFF_MAX, nullptr), -EINVAL);
    EXPECT_EQ(loam_pool_init(&pool, nullptr, SIZE_MAX, nullptr), -EINVAL);
    options.align = 24;
    EXPECT_EQ(loam_pool_init(&pool, nullptr, 64, &options), -EINVAL);
    options.align = 0;
    options.flags = LOAM_THREADS;
    EXPECT_EQ(loam_pool_init(&pool, nullptr, 64, &options), -EINVAL);
    options.flags = LOAM_FIXED;
    EXPECT_EQ(loam_pool_init(&pool, nullptr, 64, &options), -EINVAL) << "fixed to how many?";
    options.most_blocks = SIZE_MAX / 2;
    EXPECT_EQ(loam_pool_init(&pool, nullptr, 64, &options), -ENOMEM);
    EXPECT_EQ(loam_pool_create(nullptr, 0, nullptr), nullptr);
    EXPECT_EQ(loam_pool_create(nullptr, 64, &options), nullptr);
    char small[4];
    EXPECT_EQ(loam_pool_init_buffer(&pool, small, sizeof small, 64, nullptr), -ENOMEM);
    EXPECT_EQ(loam_pool_init_buffer(&pool, nullptr, 1000, 64, nullptr), -ENOMEM);
    EXPECT_EQ(loam_pool_init_buffer(&pool, small, SIZE_MAX, 64, nullptr), -ENOMEM);
    loam_pool_destroy(nullptr);
}

TEST(Pool, HugeBlocksAreRefusedByTheSource) {
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, nullptr, PTRDIFF_MAX / 8, nullptr), 0);
    EXPECT_EQ(loam_pool_alloc(&pool), nullptr);
    loam_pool_deinit(&pool);
}

TEST(Pool, MostBlocksIsALimitToTheBlock) {
    for (unsigned flags : {0u, unsigned(LOAM_FIXED), unsigned(LOAM_POOL_CONTIGUOUS),
                           unsigned(LOAM_FIXED | LOAM_POOL_CONTIGUOUS)}) {
        Counted counted;
        loam_pool pool;
        loam_pool_options options = {};
        options.most_blocks = 777;
        options.first_blocks = 777;
        options.flags = flags;
        ASSERT_EQ(loam_pool_init(&pool, &counted.source, 40, &options), 0);
        EXPECT_EQ(counted.gets, (flags & LOAM_FIXED) != 0 ? 1u : 0u);
        std::vector<char *> all;
        for (int i = 0; i < 777; i++) ASSERT_NE(all.emplace_back(take(&pool)), nullptr) << i;
        EXPECT_EQ(take(&pool), nullptr);
        loam_pool_free(&pool, all[5]);
        EXPECT_EQ(take(&pool), all[5]);
        EXPECT_EQ(take(&pool), nullptr);
        loam_pool_deinit(&pool);
    }
}

TEST(Pool, GrowsByDoublingUpToACap) {
    Counted counted;
    loam_pool pool;
    loam_pool_options options = {};
    options.first_blocks = 16;
    options.most_chunk_bytes = 1 << 20;
    ASSERT_EQ(loam_pool_init(&pool, &counted.source, 64, &options), 0);
    for (int i = 0; i < 16000; i++) ASSERT_NE(take(&pool), nullptr);
    EXPECT_LE(counted.gets, 12u) << "16 blocks, 32, 64, ...";
    EXPECT_TRUE(loam_pool_check(&pool));
    EXPECT_EQ(usage_of(pool).chunks, counted.gets);
    EXPECT_EQ(usage_of(pool).held_bytes, counted.used_bytes);
    loam_pool_deinit(&pool);
}

TEST(Pool, TakesLessWhereThereIsLess) {
    Counted limit(loam_pages(), 100000);
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, &limit.source, 1000, nullptr), 0);
    size_t blocks = 0;
    while (take(&pool) != nullptr) blocks++;
    if (plain(pool)) {
        EXPECT_GT(blocks, 80u) << "of 100 that would fit without any waste";
    }
    EXPECT_GT(blocks, 40u);
    EXPECT_TRUE(loam_pool_check(&pool));
    loam_pool_deinit(&pool);
    EXPECT_EQ(limit.used_bytes, 0u);
}

TEST(Pool, NothingChangesWhenMemoryEnds) {
    Counted limit(loam_pages(), 8192);
    loam_pool pool;
    loam_pool_options options = {};
    options.first_blocks = 4;
    ASSERT_EQ(loam_pool_init(&pool, &limit.source, 500, &options), 0);
    char *last = nullptr;
    while (char *p = take(&pool)) last = p;
    ASSERT_NE(last, nullptr);
    loam_usage before = usage_of(pool);
    EXPECT_EQ(take(&pool), nullptr);
    EXPECT_EQ(usage_of(pool).objects, before.objects);
    loam_pool_free(&pool, last);
    EXPECT_EQ(take(&pool), last);
    loam_pool_deinit(&pool);
}

TEST(Pool, SaysWhatItsBlocksAre) {
    loam_pool pool, other;
    for (size_t bytes : {8u, 24u, 40u, 96u, 1000u, 1024u, 4096u}) {
        loam_pool_options options = {};
        options.first_blocks = 10;
        ASSERT_EQ(loam_pool_init(&pool, nullptr, bytes, &options), 0);
        ASSERT_EQ(loam_pool_init(&other, nullptr, bytes, &options), 0);
        char *foreign = take(&other);
        EXPECT_FALSE(loam_pool_owns(&pool, foreign));
        std::vector<char *> all;
        for (int i = 0; i < 100; i++) all.push_back(take(&pool));
        for (char *p : all) {
            EXPECT_TRUE(loam_pool_owns(&pool, p));
            for (size_t inside = 1; inside < bytes; inside += 1 + inside / 8)
                EXPECT_FALSE(loam_pool_owns(&pool, p + inside)) << bytes << " " << inside;
        }
        EXPECT_FALSE(loam_pool_owns(&pool, nullptr));
        EXPECT_FALSE(loam_pool_owns(&pool, &pool));
        EXPECT_FALSE(loam_pool_owns(&pool, foreign));
        EXPECT_FALSE(loam_pool_owns(&pool, reinterpret_cast<void *>(UINTPTR_MAX)));
        loam_pool_reset(&pool);
        EXPECT_FALSE(loam_pool_owns(&pool, all[0])) << "none has been handed out since";
        loam_pool_deinit(&pool);
        loam_pool_deinit(&other);
    }
}

TEST(Pool, ABufferIsUsedToTheLastBlock) {
    alignas(64) static char memory[64 * 10];
    loam_pool pool;
    ASSERT_EQ(loam_pool_init_buffer(&pool, memory, sizeof memory, 64, nullptr), 0);
    if (!(pool.mode & 1)) { // guards need room
        for (int i = 0; i < 10; i++) EXPECT_EQ(take(&pool), memory + 64 * i);
        EXPECT_EQ(take(&pool), nullptr);
        EXPECT_FALSE(loam_pool_owns(&pool, memory + sizeof memory));
    }
    loam_pool_deinit(&pool);
    ASSERT_EQ(loam_pool_init_buffer(&pool, memory + 1, sizeof memory - 1, 64, nullptr), 0);
    char *p = take(&pool);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 16, 0u);
    EXPECT_GT(p, memory);
    loam_pool_deinit(&pool);
}

TEST(Pool, BlocksNotNeededAreNeverTouched) {
    constexpr size_t kBytes = 64 * 1000;
    std::vector<char> memory(kBytes, 0x5A);
    loam_pool pool;
    ASSERT_EQ(loam_pool_init_buffer(&pool, memory.data(), kBytes, 64, nullptr), 0);
    if (!plain(pool)) {
        loam_pool_deinit(&pool);
        GTEST_SKIP() << "guards and links of other modes are not the point";
    }
    char *high = nullptr;
    for (int round = 0; round < 3; round++) {
        std::vector<char *> some;
        for (int i = 0; i < 100; i++) some.push_back(take(&pool));
        high = some.back() > high ? some.back() : high;
        for (char *p : some) loam_pool_free(&pool, p);
        EXPECT_TRUE(loam_pool_check(&pool));
        (void)usage_of(pool);
    }
    loam_pool_reset(&pool);
    for (int i = 0; i < 50; i++) (void)take(&pool);
    for (char *p = high + 64; p < memory.data() + kBytes; p++) ASSERT_EQ(*p, 0x5A);
    EXPECT_EQ(loam_pool_shrink(&pool), kBytes - 50 * 64);
    for (char *p = high + 64; p < memory.data() + kBytes; p++) ASSERT_EQ(*p, 0x5A);
    loam_pool_deinit(&pool);
    for (char *p = high + 64; p < memory.data() + kBytes; p++) ASSERT_EQ(*p, 0x5A);
}

TEST(Pool, ABufferExtendsAndShrinks) {
    alignas(16) static char memory[(100 + kRoom) * 30];
    loam_pool pool;
    constexpr size_t kTen = (100 + kRoom) * 10;
    ASSERT_EQ(loam_pool_init_buffer(&pool, memory, kTen, 100, nullptr), 0);
    size_t first = 0, second = 0;
    while (take(&pool) != nullptr) first++;
    EXPECT_EQ(loam_pool_extend(&pool, 1), 0);
    EXPECT_EQ(loam_pool_extend(&pool, kTen - 1), 0)
        << "less than a block is kept for the next time";
    while (take(&pool) != nullptr) second++;
    EXPECT_GE(second, first);
    EXPECT_LE(second, first + 1);
    size_t stride = pool.stride;
    EXPECT_EQ(loam_pool_shrink(&pool), 2 * kTen - (first + second) * stride);
    EXPECT_EQ(take(&pool), nullptr);
    EXPECT_EQ(loam_pool_shrink(&pool), 0u);
    EXPECT_EQ(loam_pool_extend(&pool, stride), 0);
    EXPECT_NE(take(&pool), nullptr);
    EXPECT_EQ(take(&pool), nullptr);
    EXPECT_TRUE(loam_pool_check(&pool));
    loam_pool_reset(&pool);
    EXPECT_EQ(loam_pool_shrink(&pool), (first + second + 1) * stride) << "all of it";
    EXPECT_EQ(take(&pool), nullptr);
    EXPECT_EQ(loam_pool_extend(&pool, 2 * stride), 0);
    EXPECT_EQ(take(&pool), memory + pool.head_bytes);
    loam_pool_deinit(&pool);
}

TEST(Pool, AContiguousSourceGrowsInPlace) {
    static char memory[1 << 20];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof memory);
    Counted count(&buffer.source);
    loam_pool pool;
    loam_pool_options options = {};
    options.flags = LOAM_POOL_CONTIGUOUS;
    options.first_blocks = 2;
    ASSERT_EQ(loam_pool_init(&pool, &count.source, 32, &options), 0);
    char *last = nullptr, *p;
    size_t blocks = 0;
    for (; (p = take(&pool)) != nullptr; blocks++) {
        if (last != nullptr) {
            ASSERT_EQ(p, last + pool.stride);
        }
        last = p;
    }
    EXPECT_GT((blocks + 2) * pool.stride, sizeof memory) << "all of it";
    EXPECT_EQ(usage_of(pool).chunks, 1u);
    EXPECT_TRUE(loam_pool_check(&pool));
    loam_pool_reset(&pool);
    EXPECT_GT(loam_pool_shrink(&pool), 0u);
    EXPECT_LT(usage_of(pool).held_bytes, 16384u);
    EXPECT_EQ(usage_of(pool).held_bytes, count.used_bytes);
    EXPECT_EQ(loam_pool_extend(&pool, 64 * pool.stride), 0);
    for (int i = 0; i < 64; i++) EXPECT_NE(take(&pool), nullptr);
    loam_pool_deinit(&pool);
    EXPECT_EQ(count.used_bytes, 0u);
    EXPECT_EQ(count.gets, count.puts);
    EXPECT_EQ(buffer.out, 0u);
}

TEST(Pool, AContiguousSourceIsUsedUpWhateverItsSize) {
    static char memory[3 << 20];
    for (size_t bytes : {size_t{5000}, size_t{99999}, size_t{1234567}, sizeof memory}) {
        for (size_t first : {0u, 1u, 77u}) {
            for (size_t block : {8u, 40u, 1000u}) {
                loam_buffer buffer;
                loam_buffer_init(&buffer, memory, bytes);
                loam_pool pool;
                loam_pool_options options = {};
                options.flags = LOAM_POOL_CONTIGUOUS;
                options.first_blocks = first;
                ASSERT_EQ(loam_pool_init(&pool, &buffer.source, block, &options), 0);
                size_t blocks = 0;
                while (take(&pool) != nullptr) blocks++;
                EXPECT_GT((blocks + 2) * pool.stride + 64, bytes) << block << " " << first;
                EXPECT_EQ(usage_of(pool).objects, blocks);
                loam_pool_deinit(&pool);
                EXPECT_EQ(buffer.out, 0u);
            }
        }
    }
}

TEST(Pool, ExtendsInManySizes) {
    static char memory[1 << 20];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof memory);
    Counted count(&buffer.source);
    loam_pool pool;
    loam_pool_options options = {};
    options.flags = LOAM_POOL_CONTIGUOUS;
    ASSERT_EQ(loam_pool_init(&pool, &count.source, 64, &options), 0);
    EXPECT_EQ(loam_pool_extend(&pool, 0), 0);
    EXPECT_EQ(loam_pool_extend(&pool, SIZE_MAX), -EINVAL);
    EXPECT_EQ(loam_pool_extend(&pool, sizeof memory * 2), -ENOMEM);
    for (int i = 1; i <= LOAM_POOL_RUNS; i++)
        EXPECT_EQ(loam_pool_extend(&pool, size_t(i) * 100), 0) << i;
    EXPECT_EQ(loam_pool_extend(&pool, 55), -ENOMEM) << "one size too many";
    EXPECT_EQ(loam_pool_extend(&pool, LOAM_POOL_RUNS * 100), 0) << "but the last one again";
    size_t held = usage_of(pool).held_bytes;
    EXPECT_EQ(loam_pool_shrink(&pool), held - pool.first.got);
    EXPECT_EQ(loam_pool_extend(&pool, 55), 0);
    EXPECT_TRUE(loam_pool_check(&pool));
    loam_pool_deinit(&pool);
    EXPECT_EQ(count.used_bytes, 0u);
}

// Takes all blocks that are left. Returns whether each lay inside the memory that the pool has.
bool all_lie_inside(loam_pool *pool) {
    for (char *p; (p = take(pool)) != nullptr;) {
        const char *block = p - pool->head_bytes;
        if (block < pool->first.start || block + pool->stride > pool->first.limit) return false;
    }
    return true;
}

TEST(Pool, NeverHandsOutWhatLiesBeyondItsEnd) {
    static char memory[64 << 10];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof memory);
    Counted count(&buffer.source);
    loam_pool pool;
    loam_pool_options options = {};
    options.flags = LOAM_POOL_CONTIGUOUS;
    options.first_blocks = 2;
    ASSERT_EQ(loam_pool_init(&pool, &count.source, 64, &options), 0);
    // The pool can only grow by pieces of the last size, each of which is less than a block.
    for (size_t i = LOAM_POOL_RUNS; i > 0; i--) ASSERT_EQ(loam_pool_extend(&pool, i), 0);
    EXPECT_TRUE(all_lie_inside(&pool));
    EXPECT_GT((usage_of(pool).objects + 2) * pool.stride, sizeof memory) << "all of it";
    size_t held = usage_of(pool).held_bytes;
    EXPECT_EQ(take(&pool), nullptr);
    EXPECT_EQ(usage_of(pool).held_bytes, held) << "pieces that gave no block went back";
    EXPECT_TRUE(loam_pool_check(&pool));
    loam_pool_deinit(&pool);
    EXPECT_EQ(buffer.out, 0u);
}

// More memory gives no more blocks where handles or links have no numbers for them.
TEST(Pool, TakesNoMemoryThatItCannotHandOut) {
    const size_t bytes = size_t{96} << 30;
    void *memory =
        mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "there are not so many addresses";
    const struct {
        unsigned flags;
        size_t block_bytes, blocks;
    } cases[] = {
        {LOAM_POOL_HANDLES, 8, size_t{1} << 26},
        {LOAM_POOL_NARROW, 4, 0},
        {LOAM_POOL_NARROW, size_t{1} << 30, 0},
        {LOAM_POOL_NARROW, size_t{17} << 30, 1},
    };
    for (auto &each : cases) {
        loam_buffer buffer;
        loam_buffer_init(&buffer, memory, bytes);
        Counted count(&buffer.source);
        loam_pool pool;
        loam_pool_options options = {};
        options.flags = LOAM_POOL_CONTIGUOUS | each.flags;
        options.first_blocks = 1;
        options.most_chunk_bytes = bytes;
        ASSERT_EQ(loam_pool_init(&pool, &count.source, each.block_bytes, &options), 0);
        size_t reach = UINT64_C(4) * (UINT32_MAX - 1) / pool.stride + 1;
        size_t most = each.blocks != 0 ? each.blocks : reach;
        ASSERT_EQ(loam_pool_extend(&pool, (most - 1) * pool.stride + 1), 0);
        EXPECT_EQ(pool.first.end, pool.first.start + most * pool.stride);
        loam_pool_cut *cut = pool.mode == 0 ? &pool.hot : &pool.cold;
        cut->fresh = cut->end; // as if all of them were in use
        size_t held = usage_of(pool).held_bytes;
        for (int i = 0; i < 3; i++) EXPECT_EQ(take(&pool), nullptr) << each.block_bytes;
        EXPECT_EQ(usage_of(pool).held_bytes, held) << each.block_bytes;
        EXPECT_EQ(loam_pool_extend(&pool, pool.stride), 0);
        EXPECT_EQ(take(&pool), nullptr) << each.block_bytes;
        cut->fresh = pool.first.start;
        loam_pool_deinit(&pool);
        EXPECT_EQ(buffer.out, 0u);
    }
    munmap(memory, bytes);
}

TEST(Pool, OthersDoNotGrowInPlace) {
    Counted counted;
    loam_pool pool;
    loam_pool_options options = {};
    ASSERT_EQ(loam_pool_init(&pool, &counted.source, 32, &options), 0);
    EXPECT_EQ(loam_pool_extend(&pool, 4096), -EINVAL) << "not contiguous";
    loam_pool_deinit(&pool);
    options.flags = LOAM_POOL_CONTIGUOUS;
    options.first_blocks = 100;
    ASSERT_EQ(loam_pool_init(&pool, &counted.source, 32, &options), 0);
    EXPECT_EQ(loam_pool_extend(&pool, 4096), -ENOMEM) << "the source is not";
    size_t blocks = 0;
    while (take(&pool) != nullptr) blocks++;
    EXPECT_GE(blocks, 100u);
    EXPECT_LT(blocks, 300u);
    loam_pool_deinit(&pool);
}

TEST(Pool, LivesInItsFirstChunk) {
    for (unsigned flags : {0u, unsigned(LOAM_FIXED), unsigned(LOAM_FIXED | LOAM_POOL_CONTIGUOUS)}) {
        Counted counted;
        loam_pool_options options = {};
        options.flags = flags;
        options.first_blocks = 100;
        loam_pool *pool = loam_pool_create(&counted.source, 64, &options);
        ASSERT_NE(pool, nullptr);
        EXPECT_EQ(counted.gets, 1u);
        for (int i = 0; i < 100; i++) EXPECT_NE(take(pool), nullptr);
        EXPECT_EQ(counted.gets, 1u);
        if (flags == 0) {
            for (int i = 0; i < 10000; i++) ASSERT_NE(take(pool), nullptr);
            loam_pool_reset(pool);
            EXPECT_GT(loam_pool_trim(pool), 0u);
            EXPECT_NE(take(pool), nullptr) << "it stays where it is";
        }
        EXPECT_TRUE(loam_pool_check(pool));
        loam_pool_destroy(pool);
    }
}

TEST(Pool, ResetMakesAllBlocksFreshInTheirOrder) {
    Counted counted;
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, &counted.source, 56, nullptr), 0);
    std::vector<char *> first;
    for (int i = 0; i < 5000; i++) first.push_back(take(&pool));
    for (int i = 0; i < 5000; i += 3) loam_pool_free(&pool, first[i]);
    size_t gets = counted.gets;
    loam_pool_reset(&pool);
    EXPECT_EQ(usage_of(pool).objects, 0u);
    for (int i = 0; i < 5000; i++) ASSERT_EQ(take(&pool), first[i]);
    EXPECT_EQ(counted.gets, gets) << "memory has stayed";
    EXPECT_TRUE(loam_pool_check(&pool));
    loam_pool_deinit(&pool);
}

TEST(Pool, TrimReturnsWhatIsWhollyFree) {
    Counted counted;
    loam_pool pool;
    loam_pool_options options = {};
    options.first_blocks = 10;
    options.most_chunk_bytes = 64 * 1024;
    ASSERT_EQ(loam_pool_init(&pool, &counted.source, 100, &options), 0);
    std::vector<char *> all;
    for (int i = 0; i < 4000; i++) all.push_back(take(&pool));
    EXPECT_EQ(loam_pool_trim(&pool), 0u) << "all are in use";
    char *keep = all[2000];
    for (char *p : all) {
        if (p != keep) loam_pool_free(&pool, p);
    }
    size_t before = counted.used_bytes, bytes = loam_pool_trim(&pool);
    EXPECT_GT(bytes, before / 2);
    EXPECT_EQ(counted.used_bytes, before - bytes);
    EXPECT_EQ(usage_of(pool).chunks, 1u) << "that of the one in use";
    EXPECT_EQ(usage_of(pool).objects, 1u);
    EXPECT_TRUE(loam_pool_check(&pool));
    EXPECT_TRUE(loam_pool_owns(&pool, keep));
    std::set<char *> again{keep};
    for (int i = 0; i < 4000; i++) EXPECT_TRUE(again.insert(take(&pool)).second);
    for (char *p : again) loam_pool_free(&pool, p);
    EXPECT_GT(loam_pool_trim(&pool), 0u);
    EXPECT_EQ(counted.used_bytes, 0u);
    EXPECT_EQ(loam_pool_trim(&pool), 0u);
    EXPECT_NE(take(&pool), nullptr) << "and it goes on";
    loam_pool_deinit(&pool);
}

TEST(Pool, ShrinkReturnsChunksNotYetUsed) {
    Counted counted;
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, &counted.source, 100, nullptr), 0);
    for (int i = 0; i < 4000; i++) (void)take(&pool);
    EXPECT_EQ(loam_pool_shrink(&pool), 0u);
    loam_pool_reset(&pool);
    (void)take(&pool);
    size_t before = counted.used_bytes, bytes = loam_pool_shrink(&pool);
    EXPECT_GT(bytes, 0u);
    EXPECT_EQ(counted.used_bytes, before - bytes);
    EXPECT_EQ(usage_of(pool).chunks, 1u);
    for (int i = 0; i < 4000; i++) ASSERT_NE(take(&pool), nullptr);
    EXPECT_TRUE(loam_pool_check(&pool));
    loam_pool_deinit(&pool);
}

TEST(Pool, BlocksOfWholeKibibytesLieALineFurtherApart) {
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, nullptr, 4096, nullptr), 0);
    if (plain(pool)) {
        EXPECT_EQ(pool.stride, 4160u);
    }
    loam_pool_deinit(&pool);
    loam_pool_options options = {};
    options.flags = LOAM_POOL_DENSE;
    ASSERT_EQ(loam_pool_init(&pool, nullptr, 4096, &options), 0);
    if (plain(pool)) {
        EXPECT_EQ(pool.stride, 4096u);
    }
    loam_pool_deinit(&pool);
    options = {};
    options.align = 4096;
    ASSERT_EQ(loam_pool_init(&pool, nullptr, 4096, &options), 0);
    if (plain(pool)) {
        EXPECT_EQ(pool.stride, 4096u);
    }
    char *p = take(&pool);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 4096, 0u);
    loam_pool_deinit(&pool);
}

TEST(Pool, NamedOnesAreInTheRegistry) {
    static size_t objects;
    loam_pool pool;
    loam_pool_options options = {};
    options.name = "particles";
    ASSERT_EQ(loam_pool_init(&pool, nullptr, 100, &options), 0);
    (void)take(&pool);
    (void)take(&pool);
    auto visit = [](const loam_usage *usage, void *) {
        if (strcmp(usage->name, "particles") != 0) return;
        EXPECT_STREQ(usage->kind, "pool");
        EXPECT_EQ(usage->object_bytes, 100u);
        objects = usage->objects;
    };
    objects = 0;
    loam_registry_visit(visit, nullptr);
    EXPECT_EQ(objects, 2u);
    EXPECT_EQ(loam_registry_check(), 0u);
    loam_pool_deinit(&pool);
    objects = 77;
    loam_registry_visit(visit, nullptr);
    EXPECT_EQ(objects, 77u);
}

} // namespace

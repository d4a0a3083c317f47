// pool_visit_test.cc: the objects of a pool that are in use, one by one; pools of many chunks;
// blocks of four bytes.
#include "loam/pool.h"

#include "family/pool_sources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <set>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Seen {
    loam_pool *pool;
    std::set<void *> objects;
    size_t most = SIZE_MAX;
    bool frees = false;
    static bool one(void *object, void *context) {
        auto seen = static_cast<Seen *>(context);
        EXPECT_TRUE(seen->objects.insert(object).second) << "twice";
        if (seen->frees) loam_pool_free(seen->pool, object);
        return seen->objects.size() < seen->most;
    }
};

// Every kind of pool: by chunks, in one piece, with handles, hardened, checked, narrow, of some
// block sizes.
struct Kind {
    const char *name;
    size_t bytes;
    unsigned flags;
    size_t first, most, chunk;
};
const Kind kinds[] = {
    {"chunks", 24, 0, 0, 0, 4096},
    {"large blocks", 2000, 0, 4, 0, 0},
    {"hardened", 40, LOAM_HARDEN, 0, 0, 0},
    {"checked", 40, LOAM_CHECK, 0, 0, 0},
    {"handles", 40, LOAM_POOL_HANDLES, 0, 0, 0},
    {"handles, checked", 40, LOAM_POOL_HANDLES | LOAM_CHECK, 0, 0, 0},
    {"fixed", 16, LOAM_FIXED, 0, 3000, 0},
    {"narrow", 4, LOAM_FIXED | LOAM_POOL_NARROW, 0, 3000, 0},
    {"narrow, hardened", 12, LOAM_FIXED | LOAM_POOL_NARROW | LOAM_HARDEN, 0, 3000, 0},
    {"narrow, checked", 4, LOAM_FIXED | LOAM_POOL_NARROW | LOAM_CHECK, 0, 3000, 0},
};

class PoolVisit : public testing::TestWithParam<Kind> {
  protected:
    void SetUp() override {
        loam_pool_options options = {};
        options.flags = GetParam().flags;
        options.first_blocks = GetParam().first;
        options.most_blocks = GetParam().most;
        options.most_chunk_bytes = GetParam().chunk;
        ASSERT_EQ(loam_pool_init(&pool, nullptr, GetParam().bytes, &options), 0);
    }
    void TearDown() override { loam_pool_deinit(&pool); }
    void *take() {
        void *p = loam_pool_alloc(&pool);
        if (p != nullptr) memset(p, 0xFF, GetParam().bytes);
        return p;
    }
    loam_pool pool;
};

INSTANTIATE_TEST_SUITE_P(All, PoolVisit, testing::ValuesIn(kinds), [](const auto &info) {
    std::string name = info.param.name;
    name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return !isalnum(c); }),
               name.end());
    return name;
});

TEST_P(PoolVisit, SeesExactlyWhatIsInUse) {
    Seen none{&pool, {}};
    EXPECT_EQ(loam_pool_visit(&pool, Seen::one, &none), 0u);
    std::set<void *> live;
    std::vector<void *> objects;
    unsigned random = 1;
    for (int i = 0; i < 2500; i++) {
        random = random * 1664525 + 1013904223;
        if (objects.empty() || (random >> 16) % 5 < 3) {
            void *p = take();
            ASSERT_NE(p, nullptr);
            ASSERT_TRUE(live.insert(p).second);
            objects.push_back(p);
        } else {
            size_t at = (random >> 16) % objects.size();
            loam_pool_free(&pool, objects[at]);
            live.erase(objects[at]);
            objects[at] = objects.back();
            objects.pop_back();
        }
        if (i % 100 != 0) continue;
        Seen seen{&pool, {}};
        EXPECT_EQ(loam_pool_visit(&pool, Seen::one, &seen), live.size());
        EXPECT_EQ(seen.objects, live);
        EXPECT_TRUE(loam_pool_check(&pool));
    }
    loam_pool_reset(&pool);
    EXPECT_EQ(loam_pool_visit(&pool, Seen::one, &none), 0u);
}

TEST_P(PoolVisit, EndsWhenToldAndMayFreeWhatItSees) {
    std::set<void *> live;
    for (int i = 0; i < 500; i++) live.insert(take());
    Seen few{&pool, {}, 7};
    EXPECT_EQ(loam_pool_visit(&pool, Seen::one, &few), 7u);
    Seen all{&pool, {}};
    all.frees = true;
    EXPECT_EQ(loam_pool_visit(&pool, Seen::one, &all), 500u);
    EXPECT_EQ(all.objects, live);
    Seen none{&pool, {}};
    EXPECT_EQ(loam_pool_visit(&pool, Seen::one, &none), 0u);
    EXPECT_TRUE(loam_pool_check(&pool));
    for (int i = 0; i < 500; i++) EXPECT_NE(take(), nullptr);
}

// ---- Many chunks ----

std::vector<void *> shuffled(loam_pool *pool, int count) {
    std::vector<void *> blocks(static_cast<size_t>(count));
    for (void *&p : blocks) p = loam_pool_alloc(pool);
    unsigned random = 1;
    for (size_t i = blocks.size(); i > 1; i--) {
        random = random * 1664525 + 1013904223;
        std::swap(blocks[i - 1], blocks[(random >> 8) % i]);
    }
    return blocks;
}

// 9.5 seconds for 400,000 blocks in 3,150 chunks once; the steps were blocks times chunks.
TEST(PoolOfManyChunks, IsTrimmedAndCheckedInTimeByItsBlocks) {
    loam_pool_options options = {};
    options.most_chunk_bytes = 4096;
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, nullptr, 64, &options), 0);
    std::vector<void *> blocks = shuffled(&pool, 200000);
    loam_usage usage;
    loam_pool_usage(&pool, &usage);
    EXPECT_GT(usage.chunks, 3000u / 2);
    for (void *p : blocks) loam_pool_free(&pool, p);
    clock_t start = clock();
    EXPECT_TRUE(loam_pool_check(&pool));
    EXPECT_GT(loam_pool_trim(&pool), size_t{200000} * 64 - 4096);
    double seconds = static_cast<double>(clock() - start) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 1.5) << "some tenths of a second at most";
    loam_pool_deinit(&pool);
}

TEST(PoolOfManyChunks, KnowsItsBlocksWhileChunksComeAndGo) {
    loam_pool_options options = {};
    options.most_chunk_bytes = 1024;
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, loam_heap_source(), 48, &options), 0);
    unsigned random = 7;
    std::vector<void *> blocks;
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 400; i++) blocks.push_back(loam_pool_alloc(&pool));
        for (int i = 0; i < 12; i++) {
            random = random * 1664525 + 1013904223;
            size_t at = (random >> 8) % blocks.size(), run = (random >> 20) % 60;
            for (size_t j = 0; j < run && at < blocks.size(); j++) { // whole chunks become free
                loam_pool_free(&pool, blocks[at]);
                blocks.erase(blocks.begin() + static_cast<ptrdiff_t>(at));
            }
        }
        if (round % 3 == 2) loam_pool_trim(&pool);
        for (void *p : blocks) ASSERT_TRUE(loam_pool_owns(&pool, p));
        for (void *p : blocks) ASSERT_FALSE(loam_pool_owns(&pool, static_cast<char *>(p) + 1));
        ASSERT_TRUE(loam_pool_check(&pool));
    }
    loam_pool_deinit(&pool);
}

// ---- Pools of many blocks ----

// Memory that tells whether it was written to.
struct Quiet {
    static void *get(loam_source *source, size_t bytes, size_t align, size_t *got) {
        auto quiet = reinterpret_cast<Quiet *>(source);
        void *chunk = loam_source_get(loam_heap_source(), bytes, align, got);
        if (chunk != nullptr && bytes > 65536) {
            memset(chunk, 0x5A, *got);
            quiet->large = static_cast<unsigned char *>(chunk);
            quiet->bytes = *got;
        }
        quiet->gets++;
        quiet->held += *got;
        return chunk;
    }
    static void put(loam_source *source, void *chunk, size_t got) {
        reinterpret_cast<Quiet *>(source)->held -= got;
        loam_source_put(loam_heap_source(), chunk, got);
    }
    bool is_untouched() const {
        return std::all_of(large, large + bytes, [](unsigned char c) { return c == 0x5A; });
    }
    loam_source source{get, put, "quiet", 0};
    unsigned char *large = nullptr;
    size_t bytes = 0, gets = 0, held = 0;
};

// A pool of a million blocks took 1.1 ms to make: the first touch of its memory makes a huge page.
TEST(PoolOfManyBlocks, IsMadeWithoutTouchingThem) {
    for (unsigned flags : {0u, unsigned{LOAM_FIXED}, unsigned{LOAM_POOL_HANDLES},
                           unsigned{LOAM_FIXED | LOAM_POOL_HANDLES}}) {
        for (bool created : {false, true}) {
            Quiet quiet;
            loam_pool own, *pool = &own;
            loam_pool_options options = {};
            options.flags = flags;
            options.first_blocks = 100000;
            if (created)
                pool = loam_pool_create(&quiet.source, 64, &options);
            else
                ASSERT_EQ(loam_pool_init(pool, &quiet.source, 64, &options), 0);
            ASSERT_NE(pool, nullptr);
            bool fixed = (flags & LOAM_FIXED) != 0;
            EXPECT_EQ(quiet.large != nullptr, fixed)
                << "asked for with the first block, or at once";
            bool hidden = (pool->mode & 4) != 0; // a tool lets nobody look
            if (quiet.large != nullptr && !hidden) {
                EXPECT_TRUE(quiet.is_untouched());
            }
            std::vector<void *> blocks;
            for (int i = 0; i < 100000; i++) blocks.push_back(loam_pool_alloc(pool));
            size_t gets = quiet.gets;
            EXPECT_LE(gets, 3u) << "the pool, its table, one chunk of so many";
            EXPECT_TRUE(loam_pool_check(pool));
            for (void *p : blocks) loam_pool_free(pool, p);
            loam_usage usage;
            loam_pool_usage(pool, &usage);
            EXPECT_EQ(usage.held_bytes, quiet.held);
            EXPECT_EQ(usage.chunks, gets);
            created ? loam_pool_destroy(pool) : loam_pool_deinit(pool);
            EXPECT_EQ(quiet.held, 0u);
        }
    }
}

// ---- Blocks of four bytes ----

TEST(NarrowPool, ABlockOfFourBytesTakesFour) {
    loam_pool_options options = {};
    options.flags = LOAM_POOL_NARROW;
    alignas(16) static char memory[4000];
    loam_pool pool;
    ASSERT_EQ(loam_pool_init_buffer(&pool, memory, sizeof memory, 4, &options), 0);
    bool plain = (pool.mode & 1) == 0;
    std::vector<uint32_t *> blocks;
    for (uint32_t *p; (p = static_cast<uint32_t *>(loam_pool_alloc(&pool))) != nullptr;) {
        *p = static_cast<uint32_t>(blocks.size());
        blocks.push_back(p);
    }
    if (plain) {
        EXPECT_EQ(blocks.size(), 1000u);
        EXPECT_EQ(blocks[1] - blocks[0], 1);
    }
    for (size_t i = 0; i < blocks.size(); i++) EXPECT_EQ(*blocks[i], i);
    for (size_t i = 0; i < blocks.size(); i += 2) loam_pool_free(&pool, blocks[i]);
    for (size_t i = 1; i < blocks.size(); i += 2) EXPECT_EQ(*blocks[i], i) << "links stay inside";
    EXPECT_TRUE(loam_pool_check(&pool));
    for (size_t i = 0; i < blocks.size(); i += 2) EXPECT_NE(loam_pool_alloc(&pool), nullptr);
    EXPECT_EQ(loam_pool_alloc(&pool), nullptr);
    loam_pool_deinit(&pool);
}

TEST(NarrowPool, SizesThatItRounds) {
    loam_pool_options options = {};
    options.flags = LOAM_POOL_NARROW | LOAM_FIXED;
    options.most_blocks = 100;
    for (size_t bytes :
         {size_t{1}, size_t{2}, size_t{4}, size_t{5}, size_t{8}, size_t{12}, size_t{20}}) {
        loam_pool pool;
        ASSERT_EQ(loam_pool_init(&pool, nullptr, bytes, &options), 0);
        if (pool.mode == 16) {
            EXPECT_EQ(pool.stride, (bytes + 3) / 4 * 4);
        }
        for (int i = 0; i < 100; i++) EXPECT_NE(loam_pool_alloc(&pool), nullptr);
        EXPECT_EQ(loam_pool_alloc(&pool), nullptr);
        loam_pool_deinit(&pool);
    }
}

TEST(NarrowPool, IsOfOnePieceAndHasNoHandles) {
    loam_pool pool;
    loam_shared_pool shared;
    loam_pool_options options = {};
    options.flags = LOAM_POOL_NARROW;
    EXPECT_EQ(loam_pool_init(&pool, nullptr, 4, &options), -EINVAL);
    options.most_blocks = 10;
    options.flags |= LOAM_FIXED | LOAM_POOL_HANDLES;
    EXPECT_EQ(loam_pool_init(&pool, nullptr, 4, &options), -EINVAL);
    options.flags = LOAM_POOL_NARROW | LOAM_FIXED;
    EXPECT_EQ(loam_shared_pool_init(&shared, nullptr, 4, &options), -EINVAL);
}

TEST(NarrowPool, GrowsInPlace) {
    loam_reserve reserve;
    ASSERT_EQ(loam_reserve_init(&reserve, size_t{1} << 20), 0);
    loam_pool_options options = {};
    options.flags = LOAM_POOL_NARROW | LOAM_POOL_CONTIGUOUS;
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, &reserve.source, 4, &options), 0);
    std::vector<void *> blocks;
    for (int i = 0; i < 5000; i++) {
        blocks.push_back(loam_pool_alloc(&pool));
        ASSERT_NE(blocks.back(), nullptr);
    }
    for (void *p : blocks) loam_pool_free(&pool, p);
    EXPECT_TRUE(loam_pool_check(&pool));
    EXPECT_GT(loam_pool_trim(&pool), 0u);
    EXPECT_NE(loam_pool_alloc(&pool), nullptr);
    loam_pool_deinit(&pool);
    loam_reserve_deinit(&reserve);
}

// ---- A forked child ----

// Another thread has blocks ready. The child lacks that thread: the blocks are lost to it, and all
// else is as it was.
TEST(PoolForked, WhatOtherThreadsHadReadyIsLost) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork of many threads";
#endif
    loam_shared_pool pool;
    ASSERT_EQ(loam_shared_pool_init(&pool, nullptr, 64, nullptr), 0);
    bool cached = pool.serial != UINT64_MAX; // else all blocks are under the pool's lock
    std::atomic<int> step{0};
    std::set<void *> theirs;
    std::thread other([&] {
        std::vector<void *> held;
        for (int i = 0; i < 20; i++) held.push_back(loam_shared_pool_alloc(&pool));
        for (void *p : held) theirs.insert(p);
        for (void *p : held) loam_shared_pool_free(&pool, p);
        step = 1;
        while (step != 2) std::this_thread::yield();
    });
    while (step != 1) std::this_thread::yield();
    pid_t child = fork();
    if (child == 0) {
        bool good = true;
        for (int i = 0; i < 1000; i++) {
            void *p = loam_shared_pool_alloc(&pool);
            good = good && p != nullptr && (!cached || theirs.count(p) == 0);
        }
        good = good && loam_shared_pool_check(&pool);
        _exit(good ? 0 : 1);
    }
    step = 2;
    other.join();
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    loam_shared_pool_deinit(&pool);
}

} // namespace

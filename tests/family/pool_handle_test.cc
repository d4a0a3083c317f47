// pool_handle_test.cc: handles: they name a block while it is in use, and nothing ever after.
#include "unit/stderr_of.h"

#include "loam/pool.h"

#include "family/pool_sources.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

extern "C" {
#include "family/family.h"
}

#include <cstring>
#include <map>
#include <vector>

namespace {

struct Handled {
    loam_pool pool;
    explicit Handled(size_t bytes = 24, unsigned flags = 0, loam_source *source = nullptr,
                     size_t first = 0) {
        loam_pool_options options = {};
        options.flags = flags | LOAM_POOL_HANDLES;
        options.first_blocks = first;
        if (loam_pool_init(&pool, source, bytes, &options) != 0) abort();
    }
    ~Handled() { loam_pool_deinit(&pool); }
    Handled(const Handled &) = delete;
    loam_handle alloc() { return loam_pool_alloc_handle(&pool); }
    void *get(loam_handle handle) { return loam_pool_get(&pool, handle); }
    bool free(loam_handle handle) { return loam_pool_free_handle(&pool, handle); }
    /* How often the block of p changed hands. */
    uint32_t *generation(void *p) {
        char *block = static_cast<char *>(p) - pool.head_bytes;
        lm_tool_show(block + pool.stride - 8, 8);
        return reinterpret_cast<uint32_t *>(block + pool.stride - 4);
    }
};

TEST(PoolHandle, NamesABlockUntilItIsFreed) {
    Handled h;
    loam_handle a = h.alloc(), b = h.alloc();
    EXPECT_NE(a, 0u);
    EXPECT_NE(a, b);
    void *p = h.get(a), *q = h.get(b);
    ASSERT_TRUE(p != nullptr && q != nullptr && p != q);
    memset(p, 0xff, 24); // the whole of it may be used
    memset(q, 0xff, 24);
    EXPECT_EQ(h.get(a), p);
    EXPECT_EQ(loam_pool_handle(&h.pool, p), a);
    EXPECT_TRUE(h.free(a));
    EXPECT_EQ(h.get(a), nullptr);
    EXPECT_FALSE(h.free(a)) << "a second time";
    EXPECT_EQ(loam_pool_handle(&h.pool, p), 0u);
    EXPECT_EQ(h.get(b), q);
    loam_handle c = h.alloc();
    EXPECT_EQ(h.get(c), p) << "the same block";
    EXPECT_NE(c, a) << "by another name";
    EXPECT_EQ(h.get(a), nullptr);
    EXPECT_FALSE(h.free(a));
    EXPECT_EQ(h.get(c), p) << "and nothing came of that";
}

TEST(PoolHandle, EitherFreeEndsIt) {
    Handled h;
    void *p = loam_pool_alloc(&h.pool);
    loam_handle a = loam_pool_handle(&h.pool, p);
    EXPECT_EQ(h.get(a), p);
    EXPECT_TRUE(h.free(a));
    loam_handle b = h.alloc();
    loam_pool_free(&h.pool, h.get(b));
    EXPECT_EQ(h.get(b), nullptr);
    EXPECT_FALSE(h.free(b));
}

TEST(PoolHandle, OthersAreNone) {
    Handled h, other;
    EXPECT_EQ(h.get(0), nullptr);
    EXPECT_EQ(h.get(1), nullptr);
    EXPECT_EQ(h.get(UINT64_MAX), nullptr);
    loam_handle a = h.alloc();
    uint64_t state = 88172645463325252u;
    for (int i = 0; i < 100000; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if (state != a) {
            ASSERT_EQ(h.get(state), nullptr) << state;
        }
    }
    for (int bit = 0; bit < 64; bit++) EXPECT_EQ(h.get(a ^ (uint64_t{1} << bit)), nullptr) << bit;
    EXPECT_EQ(loam_pool_handle(&h.pool, nullptr), 0u);
    EXPECT_EQ(loam_pool_handle(&h.pool, &h), 0u);
    EXPECT_EQ(loam_pool_handle(&other.pool, h.get(a)), 0u);
    EXPECT_EQ(loam_pool_handle(&h.pool, static_cast<char *>(h.get(a)) + 4), 0u);
}

TEST(PoolHandle, ResetAndTrimEndAll) {
    Handled h(100, 0, nullptr, 10);
    std::vector<loam_handle> old;
    for (int round = 0; round < 5; round++) {
        std::vector<loam_handle> now;
        for (int i = 0; i < 500; i++) now.push_back(h.alloc());
        for (loam_handle handle : now) ASSERT_NE(h.get(handle), nullptr);
        for (loam_handle handle : old) ASSERT_EQ(h.get(handle), nullptr) << "round " << round;
        old.insert(old.end(), now.begin(), now.end());
        if (round % 2 == 0) {
            loam_pool_reset(&h.pool);
        } else {
            for (loam_handle handle : now) EXPECT_TRUE(h.free(handle));
            EXPECT_GT(loam_pool_trim(&h.pool), 0u);
        }
        for (loam_handle handle : old) ASSERT_EQ(h.get(handle), nullptr) << "round " << round;
        EXPECT_TRUE(loam_pool_check(&h.pool));
    }
}

TEST(PoolHandle, AnOldNameNeverComesTrueAgain) {
    for (unsigned flags :
         {0u, unsigned(LOAM_CHECK), unsigned(LOAM_HARDEN), unsigned(LOAM_POOL_CONTIGUOUS)}) {
        Counted counted;
        Handled h(40, flags, &counted.source, 16);
        std::map<loam_handle, void *> live;
        std::vector<loam_handle> dead;
        uint64_t state = 7;
        auto random = [&state](size_t below) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            return size_t(state >> 11) % below;
        };
        for (int i = 0; i < 20000; i++) {
            size_t what = random(1000);
            if (what < 500) {
                loam_handle handle = h.alloc();
                if (handle == 0) continue; // contiguous: the source has nothing behind it
                ASSERT_TRUE(live.emplace(handle, h.get(handle)).second);
            } else if (what < 990 && !live.empty()) {
                auto at = live.lower_bound(uint64_t{random(1 << 20)} << 32 | random(1 << 20));
                if (at == live.end()) at = live.begin();
                ASSERT_TRUE(h.free(at->first));
                dead.push_back(at->first);
                live.erase(at);
            } else if (what < 992) {
                for (auto &each : live) dead.push_back(each.first);
                live.clear();
                loam_pool_reset(&h.pool);
            } else if (what < 995) {
                (void)loam_pool_trim(&h.pool);
            }
            if (i % 500 != 0) continue;
            for (auto &each : live) ASSERT_EQ(h.get(each.first), each.second);
            for (loam_handle each : dead) ASSERT_EQ(h.get(each), nullptr) << i;
        }
    }
}

/* 2^31 uses later; the words that count them are private to loam. */
TEST(PoolHandle, ABlockThatIsWornOutIsRetired) {
    Handled h;
    loam_handle a = h.alloc();
    void *p = h.get(a);
    const uint32_t top = UINT32_MAX - 7; // above all that pools may have
    h.pool.ranges[h.pool.ranges_count - 1].to = top;
    *h.generation(p) = top - 1; // odd: in use
    loam_handle last = loam_pool_handle(&h.pool, p);
    EXPECT_EQ(h.get(a), nullptr);
    EXPECT_EQ(h.get(last), p);
    EXPECT_TRUE(h.free(last));
    EXPECT_EQ(h.get(last), nullptr);
    for (int i = 0; i < 100; i++) EXPECT_NE(h.get(h.alloc()), p);
    loam_usage usage;
    loam_pool_usage(&h.pool, &usage);
    EXPECT_EQ(usage.objects, 100u) << "it is not counted as one in use";
    EXPECT_TRUE(loam_pool_check(&h.pool));
    /* A reset cannot lift all above that one: it goes through the blocks. */
    void *q = h.get(h.alloc());
    *h.generation(q) = top - 3;
    loam_pool_free(&h.pool, q);
    std::vector<loam_handle> others;
    for (int i = 0; i < 10; i++) others.push_back(h.alloc());
    loam_pool_reset(&h.pool);
    for (loam_handle each : others) EXPECT_EQ(h.get(each), nullptr);
    EXPECT_EQ(h.get(a), nullptr);
    EXPECT_EQ(h.get(last), nullptr);
    loam_pool_usage(&h.pool, &usage);
    EXPECT_EQ(usage.objects, 0u);
    for (int i = 0; i < 110; i++) EXPECT_NE(h.get(h.alloc()), p) << "still out of use";
    EXPECT_TRUE(loam_pool_check(&h.pool));
}

/* Pools that live at the same time, or one after the other in the same storage, with every kind of
 * end between. */
TEST(PoolHandle, NoOtherPoolKnowsThem) {
    enum { kPools = 12, kLives = 20 };
    std::vector<loam_handle> old;
    uint64_t state = 3;
    auto random = [&state](size_t below) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return size_t(state >> 11) % below;
    };
    static loam_pool pools[kPools];
    for (int life = 0; life < kLives; life++) {
        std::vector<loam_handle> mine[kPools];
        for (int i = 0; i < kPools; i++) {
            loam_pool_options options = {};
            options.flags = LOAM_POOL_HANDLES | (i % 3 == 1 ? unsigned(LOAM_HARDEN) : 0u);
            options.first_blocks = 1 + random(20);
            ASSERT_EQ(loam_pool_init(&pools[i], nullptr, 24, &options), 0);
        }
        for (int step = 0; step < 2000; step++) {
            int i = random(3) == 0 ? static_cast<int>(random(kPools)) : 0; // some more than others
            loam_handle handle = loam_pool_alloc_handle(&pools[i]);
            ASSERT_NE(handle, 0u);
            if (random(100) < 97) {
                ASSERT_TRUE(loam_pool_free_handle(&pools[i], handle));
                if (random(20) == 0) old.push_back(handle);
            } else {
                mine[i].push_back(handle);
            }
            if (random(300) == 0) {
                old.insert(old.end(), mine[i].begin(), mine[i].end());
                mine[i].clear();
                loam_pool_reset(&pools[i]);
            }
            if (random(200) == 0) (void)loam_pool_trim(&pools[i]);
        }
        for (int i = 0; i < kPools; i++) {
            for (loam_handle each : old) ASSERT_EQ(loam_pool_get(&pools[i], each), nullptr);
            for (int k = 0; k < kPools; k++) {
                for (loam_handle each : mine[k]) {
                    ASSERT_EQ(loam_pool_get(&pools[i], each) != nullptr, i == k);
                    if (i != k) {
                        ASSERT_FALSE(loam_pool_free_handle(&pools[i], each));
                    }
                }
            }
        }
        for (int i = 0; i < kPools; i++) {
            old.insert(old.end(), mine[i].begin(), mine[i].end());
            loam_pool_deinit(&pools[i]);
        }
        if (old.size() > 20000) old.erase(old.begin(), old.begin() + 10000);
    }
}

/* One block, as often as it takes to use up many ranges; other pools take theirs between. */
TEST(PoolHandle, ManyReusesNeverMeetAnotherPools) {
    Handled a, b;
    std::vector<std::pair<uint32_t, uint32_t>> seen[2];
    for (int i = 0; i < 300000; i++) {
        Handled &h = i % 7 == 0 ? b : a;
        auto generation = static_cast<uint32_t>(h.alloc() >> 32);
        auto &mine = seen[i % 7 == 0];
        if (mine.empty() || mine.back().second + 2 != generation) {
            mine.push_back({generation, generation});
        }
        mine.back().second = generation;
        loam_pool_free(&h.pool, h.pool.chunks->start + h.pool.head_bytes);
    }
    EXPECT_LE(seen[0].size() + seen[1].size(), 2u * LOAM_POOL_RANGES);
    for (auto &one : seen[0])
        for (auto &other : seen[1])
            EXPECT_TRUE(one.second < other.first || other.second < one.first);
}

TEST(PoolHandleDeathTest, PoolsWithoutSayNo) {
    loam_pool pool;
    ASSERT_EQ(loam_pool_init(&pool, nullptr, 24, nullptr), 0);
    void *p = loam_pool_alloc(&pool);
    EXPECT_EQ(loam_pool_handle(&pool, p), 0u);
    EXPECT_EQ(loam_pool_get(&pool, uint64_t{1} << 32), nullptr);
    EXPECT_DEATH(
        (void)!loam_pool_alloc_handle(&pool),
        "loam: pool .unnamed.: a handle of a pool without handles .at .*pool_handle_test.cc:");
    loam_pool_free(&pool, p);
    loam_pool_deinit(&pool);
}

TEST(PoolHandleDeathTest, ADoubleFreeByAddressIsFoundByTheGeneration) {
    Handled h(24);
    char *a = static_cast<char *>(loam_pool_alloc(&h.pool)),
         *b = static_cast<char *>(loam_pool_alloc(&h.pool));
    loam_pool_free(&h.pool, a);
    loam_pool_free(&h.pool, b);
    EXPECT_DEATH(loam_pool_free(&h.pool, a),
                 "loam: pool .unnamed.: free of 0x.* (which is free already|after its free at)");
}

/* Of a chunk. Nothing is touched. */
TEST(PoolHandle, NumbersEndAt26Bits) {
    if (sizeof(void *) < 8 || lm_tool_watches()) GTEST_SKIP() << "no such memory";
    loam_pool pool;
    loam_pool_options options = {};
    options.flags = LOAM_POOL_HANDLES;
    char small[1024];
    ASSERT_EQ(loam_pool_init_buffer(&pool, small, sizeof small, 8, &options), 0);
    size_t stride = pool.stride, most = size_t{1} << 26, bytes = (most + 1000) * stride;
    loam_pool_deinit(&pool);
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no such address space";
    ASSERT_EQ(loam_pool_init_buffer(&pool, memory, bytes, 8, &options), 0);
    EXPECT_EQ(static_cast<size_t>(pool.first.end - pool.first.start), most * stride);
    loam_pool_deinit(&pool);
    munmap(memory, bytes);
}

TEST(PoolHandle, ExhaustedIsNone) {
    static char memory[4096];
    loam_pool pool;
    loam_pool_options options = {};
    options.flags = LOAM_POOL_HANDLES;
    ASSERT_EQ(loam_pool_init_buffer(&pool, memory, sizeof memory, 100, &options), 0);
    size_t blocks = 0;
    while (loam_pool_alloc_handle(&pool) != 0) blocks++;
    EXPECT_GT(blocks, 10u);
    EXPECT_EQ(loam_pool_alloc(&pool), nullptr);
    loam_pool_deinit(&pool);
    Counted none(loam_pages(), 100);
    EXPECT_EQ(loam_pool_init(&pool, &none.source, 100, &options), -12) << "not even for the table";
}

} // namespace

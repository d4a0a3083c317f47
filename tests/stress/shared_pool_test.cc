/* shared_pool_test.cc: one pool and many threads: blocks that travel, threads that end, pools that
 * end before their threads, forks.
 *
 * Blocks go through lanes, which order nothing backwards (stress.h). So when memory that another
 * thread has freed comes back, only the pool's own lock can have ordered the two uses.
 */
#include "stress.h"

#include "loam/pool.h"

#include <pthread.h>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "os/os.h"
}

namespace {

using namespace stress;

struct Shared {
    loam_shared_pool pool;
    explicit Shared(size_t bytes, const loam_pool_options *options = nullptr,
                    loam_source *source = nullptr) {
        if (loam_shared_pool_init(&pool, source, bytes, options) != 0) abort();
    }
    ~Shared() { loam_shared_pool_deinit(&pool); }
    Shared(const Shared &) = delete;
    size_t objects() {
        loam_usage usage;
        loam_shared_pool_usage(&pool, &usage);
        return usage.objects;
    }
    void *alloc() { return loam_shared_pool_alloc(&pool); }
    void free(void *p) { loam_shared_pool_free(&pool, p); }
};

/* Plain ones are checked in a debug build, hardened in a secure one, watched under
 * AddressSanitizer: those have no magazines, and blocks of theirs that are freed are free for
 * everybody at once. */
bool has_magazines(const Shared &shared) { return shared.pool.serial != UINT64_MAX; }

class SharedPool : public Stress {
  protected:
    /* Every thread allocates, gives to all others, frees what they gave. Returns blocks
     * allocated. */
    static size_t travel(Shared &shared, size_t bytes, unsigned threads) {
        Lanes lanes(threads);
        std::atomic<size_t> sum{0};
        Clock clock;
        run_threads(threads, [&](unsigned self) {
            Random random(self + bytes);
            size_t allocated = 0;
            while (clock.running(allocated, 500)) {
                /* Bursts, so that magazines run full and empty. */
                size_t burst = 1 + random.below(150);
                for (size_t i = 0; i < burst; i++) {
                    void *p = shared.alloc();
                    Block *block = stamp_block(p, bytes, random.next() | 1);
                    allocated++;
                    if (!lanes.lane(self, unsigned(random.below(threads))).give(block)) {
                        check_block(block);
                        shared.free(block);
                    }
                }
                for (unsigned from = 0; from < threads; from++) {
                    while (Block *block = lanes.lane(from, self).take()) {
                        check_block(block);
                        shared.free(block);
                    }
                }
            }
            sum += allocated;
        });
        for (unsigned from = 0; from < threads; from++) {
            for (unsigned to = 0; to < threads; to++) {
                while (Block *block = lanes.lane(from, to).take()) {
                    check_block(block);
                    shared.free(block);
                }
            }
        }
        return sum;
    }
};

TEST_F(SharedPool, BlocksTravelBetweenThreads) {
    for (size_t bytes : {48u, 4096u}) {
        Shared shared(bytes);
        EXPECT_GT(travel(shared, bytes, 4), 1000u);
        EXPECT_EQ(shared.objects(), 0u) << "nothing was lost, and nothing is there twice";
        EXPECT_TRUE(loam_shared_pool_check(&shared.pool));
        loam_usage usage;
        loam_shared_pool_usage(&shared.pool, &usage);
        EXPECT_GT(usage.held_bytes, 0u);
        EXPECT_EQ(loam_shared_pool_trim(&shared.pool), usage.held_bytes) << "all can go back";
    }
}

TEST_F(SharedPool, CheckedAndHardenedOnesAsWell) {
    for (unsigned flags : {unsigned(LOAM_CHECK), unsigned(LOAM_HARDEN | LOAM_THREADS)}) {
        loam_pool_options options = {};
        options.flags = flags;
        Shared shared(64, &options);
        EXPECT_FALSE(has_magazines(shared));
        EXPECT_GT(travel(shared, 64, 3), 1000u);
        EXPECT_EQ(shared.objects(), 0u);
        EXPECT_TRUE(loam_shared_pool_check(&shared.pool));
    }
}

/* Nobody ever gets a block that somebody has. */
TEST_F(SharedPool, NoBlockIsHandedOutTwice) {
    constexpr size_t kBlocks = 2000;
    loam_pool_options options = {};
    options.flags = LOAM_FIXED;
    options.most_blocks = kBlocks;
    for (int round = 0; round < 20; round++) {
        Shared shared(32, &options);
        std::vector<std::vector<void *>> had(4);
        run_threads(4, [&](unsigned self) {
            Random random(self + 100u * unsigned(round));
            std::vector<void *> &mine = had[self];
            size_t steps = 3000;
            for (size_t i = 0; i < steps; i++) {
                if (random.below(3) != 0) {
                    if (void *p = shared.alloc()) mine.push_back(p);
                } else if (!mine.empty()) {
                    size_t at = random.below(mine.size());
                    shared.free(mine[at]);
                    mine[at] = mine.back();
                    mine.pop_back();
                }
            }
        });
        std::set<void *> all;
        for (auto &mine : had) {
            for (void *p : mine) ASSERT_TRUE(all.insert(p).second) << "two threads have it";
        }
        EXPECT_EQ(shared.objects(), all.size());
        /* What no thread holds is there for this one: those that ended have given all back. */
        while (void *p = shared.alloc()) ASSERT_TRUE(all.insert(p).second);
        EXPECT_EQ(all.size(), kBlocks);
        for (void *p : all) shared.free(p);
        EXPECT_EQ(shared.objects(), 0u);
        EXPECT_TRUE(loam_shared_pool_check(&shared.pool));
    }
}

TEST_F(SharedPool, AThreadThatEndsGivesItsBlocksBack) {
    constexpr size_t kBlocks = 300;
    loam_pool_options options = {};
    options.flags = LOAM_FIXED;
    options.most_blocks = kBlocks;
    Shared shared(100, &options);
    for (int round = 0; round < 5; round++) {
        run_threads(1, [&](unsigned) {
            std::vector<void *> all;
            while (void *p = shared.alloc()) all.push_back(p);
            EXPECT_EQ(all.size(), kBlocks) << round;
            for (void *p : all) shared.free(p);
        });
        EXPECT_EQ(shared.objects(), 0u);
    }
}

Shared *late_pool;
void late(void *p) {
    for (int i = 0; i < 200; i++) {
        void *more = loam_shared_pool_alloc(&late_pool->pool);
        if (more == nullptr) fail("no memory for a late destructor", p);
        loam_shared_pool_free(&late_pool->pool, more);
    }
    loam_shared_pool_free(&late_pool->pool, p);
}

/* Destructors of thread-specific data run in any order: ours may have been. */
TEST_F(SharedPool, DestructorsOfAThreadMayStillUseIt) {
    Shared shared(64);
    late_pool = &shared;
    shared.free(shared.alloc()); /* the pool's own key is there, and comes first */
    pthread_key_t key;
    ASSERT_EQ(pthread_key_create(&key, late), 0);
    run_threads(3, [&](unsigned) { (void)pthread_setspecific(key, shared.alloc()); });
    EXPECT_EQ(shared.objects(), 0u);
    EXPECT_TRUE(loam_shared_pool_check(&shared.pool));
    (void)pthread_key_delete(key);
}

/* A pool ends while threads have magazines of it, and another one begins where it was. */
TEST_F(SharedPool, PoolsEndBeforeTheirThreads) {
    constexpr unsigned kThreads = 3, kRounds = 200;
    alignas(loam_shared_pool) static char memory[sizeof(loam_shared_pool)];
    std::atomic<unsigned> begun{0}, done{0};
    std::atomic<Shared *> current{nullptr};
    std::thread workers[kThreads];
    for (unsigned self = 0; self < kThreads; self++) {
        workers[self] = std::thread([&, self] {
            for (unsigned round = 1; round <= kRounds; round++) {
                while (begun.load(std::memory_order_acquire) < round) std::this_thread::yield();
                Shared *shared = current.load(std::memory_order_relaxed);
                std::vector<void *> mine;
                for (unsigned i = 0; i < 20 + self * 60; i++) {
                    void *p = shared->alloc();
                    if (p == nullptr || !loam_shared_pool_owns(&shared->pool, p))
                        fail("a block of a pool that is gone", p);
                    memset(p, int(round), 64);
                    mine.push_back(p);
                }
                /* Some are freed, so that the magazine is not empty when the pool ends. */
                for (unsigned i = 0; i < 10 + self * 30; i++) shared->free(mine[i]);
                done.fetch_add(1, std::memory_order_release);
            }
        });
    }
    for (unsigned round = 1; round <= kRounds; round++) {
        loam_count count;
        loam_count_init(&count, loam_pages());
        {
            auto *shared = new (memory) Shared(64, nullptr, &count.source);
            current.store(shared, std::memory_order_relaxed);
            begun.store(round, std::memory_order_release);
            while (done.load(std::memory_order_acquire) < kThreads * round)
                std::this_thread::yield();
            EXPECT_EQ(shared->objects(), 10u + (80 - 40) + (140 - 70));
            shared->~Shared();
        }
        EXPECT_EQ(count.used_bytes, 0u);
    }
    for (auto &worker : workers) worker.join();
}

TEST_F(SharedPool, AThreadUsesManyAtOnce) {
    constexpr unsigned kPools = 40;
    std::vector<std::unique_ptr<Shared>> pools;
    for (unsigned i = 0; i < kPools; i++) pools.emplace_back(new Shared(16 + 8 * i));
    run_threads(3, [&](unsigned self) {
        std::vector<void *> blocks(kPools);
        for (int round = 0; round < 100; round++) {
            for (unsigned i = 0; i < kPools; i++) {
                unsigned at = (i * 7 + self) % kPools;
                blocks[at] = pools[at]->alloc();
                memset(blocks[at], int(self), 16 + 8 * at);
            }
            for (unsigned i = 0; i < kPools; i++) pools[i]->free(blocks[i]);
        }
    });
    for (auto &pool : pools) {
        EXPECT_EQ(pool->objects(), 0u);
        EXPECT_TRUE(loam_shared_pool_check(&pool->pool));
    }
}

TEST_F(SharedPool, UsageCheckAndTrimGoOnBesidesTheThreads) {
    loam_pool_options options = {};
    options.name = "shared";
    Shared shared(256, &options);
    std::atomic<bool> stop{false};
    std::thread looker([&] {
        loam_usage usage;
        while (!stop.load(std::memory_order_relaxed)) {
            loam_shared_pool_usage(&shared.pool, &usage);
            if (usage.used_bytes > usage.held_bytes) fail("more used than held", &usage);
            if (!loam_shared_pool_check(&shared.pool)) fail("broken", &shared);
            if (loam_registry_check() != 0) fail("broken", &shared);
            void *p = shared.alloc();
            shared.free(p);
            (void)loam_shared_pool_trim(&shared.pool);
        }
    });
    EXPECT_GT(travel(shared, 256, 3), 1000u);
    stop = true;
    looker.join();
    EXPECT_EQ(shared.objects(), 0u);
}

/* Its source ends: threads get NULL, and nothing is lost. */
/* After each exchange with the pool, a batch of operations finds the lock taken and does not need
 * it. */
TEST_F(SharedPool, OneLockInABatchOfOperations) {
    Shared shared(64);
    if (!has_magazines(shared)) GTEST_SKIP() << "this build's pools have no magazines";
    auto *lock = reinterpret_cast<lm_lock_t *>(&shared.pool.lock);
    Random random(7);
    std::vector<void *> mine;
    auto step = [&](bool alloc) {
        if (alloc || mine.empty()) {
            void *p = shared.alloc();
            ASSERT_NE(nullptr, p);
            mine.push_back(p);
        } else {
            shared.free(mine.back());
            mine.pop_back();
        }
    };
    size_t batches = 0, ranges = 0;
    char *fresh = nullptr;
    auto exchanged = [&] {
        bool changed = batches != shared.pool.batches_count ||
                       ranges != shared.pool.ranges_blocks || fresh != shared.pool.pool.hot.fresh;
        batches = shared.pool.batches_count;
        ranges = shared.pool.ranges_blocks;
        fresh = shared.pool.pool.hot.fresh;
        return changed;
    };
    for (unsigned i = 0; i < 1000; i++) step(true);
    size_t rounds = 0;
    for (unsigned i = 0; i < 200000 && rounds < 200; i++) {
        step(random.below(100) <
             (i / 500 % 2 == 0 ? 70 : 30)); /* rises and falls by more than a batch */
        if (!exchanged()) continue;
        rounds++;
        unsigned rising = random.below(101);
        lm_lock_take(lock); /* an operation that needs it would wait for ever */
        for (unsigned n = 1; n < shared.pool.batch; n++) step(random.below(100) < rising);
        lm_lock_give(lock);
    }
    EXPECT_EQ(200u, rounds);
    for (void *p : mine) shared.free(p);
}

TEST_F(SharedPool, ASourceThatEndsIsSurvived) {
    loam_limit limit;
    loam_limit_init(&limit, loam_pages(), 256 << 10);
    {
        Shared shared(1000, nullptr, &limit.source);
        std::atomic<size_t> refusals{0};
        run_threads(4, [&](unsigned self) {
            Random random(self);
            std::vector<void *> mine;
            size_t none = 0;
            for (int i = 0; i < 20000; i++) {
                if (random.below(100) < 60) {
                    void *p = shared.alloc();
                    if (p != nullptr)
                        memset(p, 1, 1000), mine.push_back(p);
                    else
                        none++;
                } else if (!mine.empty()) {
                    shared.free(mine.back());
                    mine.pop_back();
                }
            }
            for (void *p : mine) shared.free(p);
            refusals += none;
        });
        EXPECT_GT(refusals.load(), 0u);
        EXPECT_EQ(shared.objects(), 0u);
        EXPECT_TRUE(loam_shared_pool_check(&shared.pool));
    }
    EXPECT_EQ(limit.used_bytes, 0u);
}

#if !defined(__SANITIZE_THREAD__)
TEST_F(SharedPool, AForkFindsItWhole) {
    Shared shared(128);
    std::atomic<bool> stop{false};
    std::atomic<unsigned> ready{0};
    std::vector<std::thread> threads;
    for (unsigned self = 0; self < 3; self++) {
        threads.emplace_back([&, self] {
            Random random(self);
            std::vector<void *> mine;
            /* No malloc from here on: AddressSanitizer's own, which the child uses, may be left
             * locked by a fork. */
            mine.reserve(500);
            shared.free(shared.alloc());
            ready++;
            while (!stop.load(std::memory_order_relaxed)) {
                if (mine.size() < 500 && random.below(2) != 0) {
                    mine.push_back(shared.alloc());
                } else if (!mine.empty()) {
                    shared.free(mine.back());
                    mine.pop_back();
                }
            }
            for (void *p : mine) shared.free(p);
        });
    }
    while (ready < 3) std::this_thread::yield();
    for (int round = 0; round < 50; round++) {
        void *before = shared.alloc();
        pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            alarm(60);
            size_t objects = shared.objects(); /* what the lost threads had, included */
            std::set<void *> all{before};
            for (int i = 0; i < 1000; i++) {
                void *p = shared.alloc();
                memset(p, 7, 128);
                if (!all.insert(p).second) _exit(2);
            }
            if (shared.objects() != objects + 1000) _exit(5);
            for (void *p : all) shared.free(p);
            if (!loam_shared_pool_check(&shared.pool)) _exit(3);
            if (loam_registry_check() != 0) _exit(4);
            /* A thread of the child has a magazine of its own, and gives it back. */
            std::thread([&] { shared.free(shared.alloc()); }).join();
            _exit(0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_EQ(status, 0) << round;
        shared.free(before);
    }
    stop = true;
    for (auto &thread : threads) thread.join();
    EXPECT_EQ(shared.objects(), 0u);
}
#endif

TEST_F(SharedPool, RefusesWhatItCannotBe) {
    loam_shared_pool pool;
    loam_pool_options options = {};
    options.flags = LOAM_POOL_HANDLES;
    EXPECT_EQ(loam_shared_pool_init(&pool, nullptr, 64, &options), -22);
    EXPECT_EQ(loam_shared_pool_init(&pool, nullptr, 0, nullptr), -22);
    EXPECT_EQ(loam_shared_pool_init(&pool, nullptr, SIZE_MAX, nullptr), -22);
    options.flags = 0;
    options.align = 24;
    EXPECT_EQ(loam_shared_pool_init(&pool, nullptr, 64, &options), -22);
    options = {};
    options.flags = LOAM_FIXED | LOAM_THREADS;
    options.most_blocks = SIZE_MAX / 2;
    EXPECT_EQ(loam_shared_pool_init(&pool, nullptr, 64, &options), -12);
    Shared shared(1);
    char *a = static_cast<char *>(shared.alloc()), *b = static_cast<char *>(shared.alloc());
    EXPECT_NE(a, nullptr);
    EXPECT_NE(a, b);
    shared.free(nullptr);
    shared.free(a);
    shared.free(b);
    EXPECT_FALSE(loam_shared_pool_owns(&shared.pool, &pool));
    options = {};
    options.align = 4096;
    Shared aligned(64, &options);
    for (int i = 0; i < 200; i++)
        EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned.alloc()) % 4096, 0u);
}

} // namespace

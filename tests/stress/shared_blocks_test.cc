/* shared_blocks_test.cc: blocks with a cache for each thread: blocks that travel, threads that end,
 * instances that end before their threads, trim and usage beside all of these, and fork.
 */
#include "stress.h"

#include "loam/blocks.h"

#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace stress;

struct Shared {
    explicit Shared(loam_source *source = nullptr) {
        loam_blocks_options options{};
        options.flags = LOAM_THREADS;
        options.source = source;
        options.name = "shared";
        if (loam_blocks_init(&blocks, &options) != 0) abort();
    }
    ~Shared() { loam_blocks_deinit(&blocks); }
    Block *make(Random &random) {
        size_t bytes = kSmallest + random.below(random.below(50) == 0 ? 9000 : 700);
        return stamp_block(loam_blocks_alloc(&blocks, bytes), bytes, random.next() | 1);
    }
    void free(Block *block) {
        check_block(block);
        loam_blocks_free(&blocks, block);
    }
    /* Nothing lives, the caches of this thread are the only ones. */
    void expect_empty() {
        loam_usage usage;
        loam_blocks_usage(&blocks, &usage);
        EXPECT_EQ(usage.objects, 0u);
        EXPECT_TRUE(loam_blocks_check(&blocks));
        (void)loam_blocks_trim(&blocks);
        loam_blocks_usage(&blocks, &usage);
        EXPECT_EQ(usage.chunks, 1u); /* the tables */
    }
    loam_blocks blocks;
};

class SharedBlocks : public Stress {};

/* Before any with threads: so the registry's handlers of fork are older than theirs, the order that
 * could lock up. */
struct Older {
    Older() {
        loam_blocks_options options{};
        options.name = "older";
        if (loam_blocks_init(&blocks, &options) != 0) abort();
    }
    ~Older() { loam_blocks_deinit(&blocks); }
    loam_blocks blocks;
} older;

} // namespace

/* Each thread makes for the next, which frees: all blocks come back by whole batches of
 * strangers. */
TEST_F(SharedBlocks, OneMakesAndTheNextFrees) {
    constexpr unsigned kThreads = 4;
    Shared shared;
    Lanes lanes(kThreads);
    Clock clock;
    run_threads(kThreads, [&](unsigned thread) {
        Random random(thread + 1);
        while (clock.running()) {
            for (int i = 0; i < 200; i++) {
                Block *block = shared.make(random);
                if (!lanes.lane(thread, (thread + 1) % kThreads).give(block)) shared.free(block);
                Block *other = lanes.lane((thread + kThreads - 1) % kThreads, thread).take();
                if (other != nullptr) shared.free(other);
            }
        }
    });
    for (unsigned i = 0; i < kThreads; i++) {
        while (Block *block = lanes.lane(i, (i + 1) % kThreads).take()) shared.free(block);
    }
    shared.expect_empty();
}

/* Threads that live for a moment, blocks that outlive them, and somebody who trims, asks and checks
 * all the time. */
TEST_F(SharedBlocks, ThreadsEndAndOthersLook) {
    Shared shared;
    Shelf<64> shelf;
    Clock clock;
    std::atomic<bool> over{false};
    std::thread watcher([&] {
        while (!over.load(std::memory_order_relaxed)) {
            loam_usage usage;
            loam_blocks_usage(&shared.blocks, &usage);
            (void)loam_blocks_trim(&shared.blocks);
            if (!loam_blocks_check(&shared.blocks)) fail("a list is broken", &shared);
            std::this_thread::yield();
        }
    });
    for (unsigned round = 1; clock.running(); round++) {
        run_threads(3, [&](unsigned thread) {
            Random random(round * 3 + thread);
            for (int i = 0; i < 2000; i++) {
                Block *old = shelf.swap(random.below(64), shared.make(random));
                if (old != nullptr) shared.free(old);
            }
        });
    }
    over = true;
    watcher.join();
    for (unsigned i = 0; i < 64; i++) {
        if (Block *block = shelf.swap(i, nullptr)) shared.free(block);
    }
    shared.expect_empty();
}

/* Instances begin and end at one address while threads that have caches of the last one live on. */
TEST_F(SharedBlocks, InstancesEndBeforeTheirThreads) {
    constexpr unsigned kThreads = 3;
    alignas(Shared) char place[sizeof(Shared)];
    std::atomic<unsigned> round{0}, done{0};
    Clock clock;
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < kThreads; thread++) {
        threads.emplace_back([&, thread] {
            Random random(thread + 1);
            for (unsigned seen = 0;;) {
                unsigned now = round.load(std::memory_order_acquire);
                if (now == UINT32_MAX) return;
                if (now == seen) {
                    std::this_thread::yield();
                    continue;
                }
                seen = now;
                auto *shared = reinterpret_cast<Shared *>(place);
                for (int i = 0; i < 300; i++) {
                    Block *block = shared->make(random);
                    if (i % 3 != 0) shared->free(block);
                }
                done.fetch_add(1, std::memory_order_release);
            }
        });
    }
    for (unsigned i = 1; clock.running(); i++) {
        loam_count count;
        loam_count_init(&count, loam_pages());
        auto *shared = new (place) Shared(&count.source);
        done.store(0, std::memory_order_relaxed);
        round.store(i, std::memory_order_release);
        while (done.load(std::memory_order_acquire) != kThreads) std::this_thread::yield();
        shared->~Shared();
        ASSERT_EQ(count.used_bytes, 0u);
    }
    round.store(UINT32_MAX, std::memory_order_release);
    for (std::thread &thread : threads) thread.join();
}

/* More instances than places in the threads' tables: the rest work under their lock. */
TEST_F(SharedBlocks, MoreInstancesThanPlaces) {
    constexpr unsigned kInstances = 80;
    std::vector<std::unique_ptr<Shared>> all;
    for (unsigned i = 0; i < kInstances; i++) all.emplace_back(new Shared);
    Shelf<64> shelves[kInstances];
    run_threads(3, [&](unsigned thread) {
        Random random(thread + 1);
        for (unsigned i = 0; i < 60000 / kSlowness; i++) {
            unsigned at = static_cast<unsigned>(random.below(kInstances));
            Block *old = shelves[at].swap(random.below(64), all[at]->make(random));
            if (old != nullptr) all[at]->free(old);
        }
    });
    for (unsigned at = 0; at < kInstances; at++) {
        for (unsigned i = 0; i < 64; i++) {
            if (Block *block = shelves[at].swap(i, nullptr)) all[at]->free(block);
        }
        all[at]->expect_empty();
    }
}

#if !defined(__SANITIZE_THREAD__) /* which does not follow threads started in a child */
/* In the child every list is whole, whatever the others were doing; only their caches are lost. */
TEST_F(SharedBlocks, Fork) {
    Shared shared;
    Clock clock;
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < 3; thread++) {
        threads.emplace_back([&, thread] {
            Random random(thread + 1);
            std::vector<Block *> held;
            while (!over.load(std::memory_order_relaxed)) {
                held.push_back(shared.make(random));
                if (held.size() > 300) {
                    for (Block *block : held) shared.free(block);
                    held.clear();
                }
            }
            for (Block *block : held) shared.free(block);
        });
    }
    threads.emplace_back([&] { /* takes the registry's lock, then the instance's */
                               while (!over.load(std::memory_order_relaxed)) {
                                   loam_registry_visit([](const loam_usage *, void *) {}, nullptr);
                               }
    });
    for (int i = 0; i < 40 && clock.running(); i++) {
        pid_t child = fork();
        if (child < 0) {
            ADD_FAILURE() << "fork";
            break;
        }
        if (child == 0) {
            alarm(60); /* a lock that nobody gives back */
            Random random(77);
            /* No malloc here: a sanitizer's may be locked by a thread that is not there. */
            static Block *held[2000];
            for (Block *&block : held) block = shared.make(random);
            for (Block *block : held) shared.free(block);
            bool good = loam_blocks_check(&shared.blocks);
            loam_registry_visit([](const loam_usage *, void *) {}, nullptr);
            _exit(good ? 0 : 1);
        }
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }
    over = true;
    for (std::thread &thread : threads) thread.join();
    shared.expect_empty();
}
#endif

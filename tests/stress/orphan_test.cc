/* orphan_test.cc: threads end and leave blocks behind; other threads free blocks of the orphaned
 * pages, adopt the pages and use them again.
 *
 * Covers: frees into a page while its owner ends; adoption while another thread frees into the
 * page; pages that are orphaned again and again; and memory that does not grow with the number of
 * ended threads: 100,000 threads run, and the resident size is compared with that after the first
 * thousand.
 */
#include "effort.h"
#include "stress.h"

#include <gtest/gtest.h>

namespace {

using namespace stress;

class Orphans : public Stress {};

/* Short-lived threads leave everything to one that lives on, and to each other. */
TEST_F(Orphans, ShortLivedThreadsLeaveTheirBlocks) {
    Shelf<4096> shelf;
    Clock clock;
    std::atomic<uint64_t> ended{0};
    run_threads(3, [&](unsigned me) {
        Random random(me + 1);
        while (clock.running()) {
            uint64_t seed = random.next();
            std::thread([&shelf, seed] {
                Random inner(seed);
                for (int i = 0; i < 300; i++) {
                    Block *block = make_block(mixed_size(inner), inner.next());
                    if (Block *other = shelf.swap(inner.next(), block)) free_block(other);
                }
            }).join();
            ended.fetch_add(1, std::memory_order_relaxed);
        }
    });
    shelf.clear();
    EXPECT_GT(ended.load(), 0u);
}

/* Others free into the pages of a thread at the very time it ends. */
TEST_F(Orphans, FreesRaceWithTheEndOfTheOwner) {
    Clock clock;
    Random random(9);
    uint64_t rounds = 0;
    while (clock.running(rounds, 11)) {
        Lanes lanes(3);
        std::atomic<bool> done{false};
        uint64_t seed = random.next();
        std::thread owner([&] {
            Random inner(seed);
            for (int i = 0; i < 200; i++) {
                size_t size = 32 + 16 * inner.below(20);
                Block *block = make_block(size, inner.next());
                if (!lanes.lane(0, 1 + static_cast<unsigned>(i & 1)).give(block)) free_block(block);
            }
            done.store(true, std::memory_order_release);
        });
        auto consume = [&](unsigned me) {
            Random inner(seed + me);
            for (bool last = false; !last;) {
                last = done.load(std::memory_order_acquire);
                while (Block *block = lanes.lane(0, me).take()) {
                    free_block(block);
                    /* Allocating of the same classes is what claims the owner's pages. */
                    free_block(make_block(32 + 16 * inner.below(20), inner.next()));
                }
            }
        };
        std::thread first([&] { consume(1); });
        std::thread second([&] { consume(2); });
        owner.join();
        first.join();
        second.join();
        lanes.drain();
        rounds++;
    }
}

/* Two threads claim orphans of the same class while a third frees into them. */
TEST_F(Orphans, ClaimingAndFreeingAtOnce) {
    Clock clock;
    Random random(17);
    uint64_t rounds = 0;
    while (clock.running(rounds, 6)) {
        size_t size = 32 + 16 * random.below(60);
        std::vector<Block *> left(3000 / kSlowness);
        std::thread([&] {
            for (auto &block : left) block = make_block(size, 7);
        }).join();
        run_threads(3, [&](unsigned me) {
            std::vector<Block *> mine;
            if (me == 0) {
                for (size_t i = 0; i < left.size(); i += 2) free_block(left[i]);
                return;
            }
            for (size_t i = 0; i < left.size() / 2; i++) mine.push_back(make_block(size, me + i));
            for (Block *block : mine) free_block(block);
        });
        for (size_t i = 1; i < left.size(); i += 2) free_block(left[i]);
        rounds++;
    }
}

/* Blocks of every kind outlive their thread, large ones too, and can be grown by an heir. */
TEST_F(Orphans, HeirsGrowWhatTheyInherit) {
    Random random(23);
    for (unsigned round = 0; round < 300 / kSlowness; round++) {
        std::vector<Block *> inherited(60);
        uint64_t seed = random.next();
        std::thread([&] {
            Random inner(seed);
            for (auto &block : inherited) block = make_block(mixed_size(inner), inner.next());
        }).join();
        std::thread([&] {
            for (auto &block : inherited) {
                check_block(block);
                size_t size = block->size * 2;
                uint64_t stamp = block->stamp;
                auto *grown = static_cast<Block *>(loam_realloc(block, size));
                if (grown == nullptr || grown->stamp != stamp) {
                    fail("grown block lost its stamp", grown);
                    continue;
                }
                block = stamp_block(grown, size, stamp + 1);
            }
        }).join();
        for (Block *block : inherited) free_block(block);
    }
}

/* Resident bytes once nothing is live and what is free had its time to be purged (300 ms): where
 * they are more than `most`, up to 15 s, because on a busy machine the worker may be late. */
size_t resident_at_rest(Shelf<4096> &shelf, size_t most) {
    shelf.clear();
    size_t resident = SIZE_MAX;
    for (int i = 0; i == 0 || (resident > most && i < 18); i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(800));
        resident = resident_bytes();
    }
    return resident;
}

/* What a thread's end costs must not add up: threads that allocate and free across each other. */
TEST_F(Orphans, HundredThousandThreadsLeaveNothing) {
    constexpr unsigned kThreads = STRESS_SANITIZED ? 2000 : effort::fewer(100000);
    constexpr unsigned kFirst = STRESS_SANITIZED ? 20 : 1000;
    constexpr unsigned kAtOnce = 4;
    Shelf<4096> shelf;
    size_t after_first = 0;
    for (unsigned started = 0; started < kThreads; started += kAtOnce) {
        run_threads(kAtOnce, [&](unsigned me) {
            Random random(started + me + 1);
            for (int i = 0; i < 12; i++) {
                size_t size = i == 11 ? 70000 : 24 + random.below(2000);
                Block *block = make_block(size, random.next());
                if (Block *other = shelf.swap(random.below(256), block)) free_block(other);
            }
        });
        if (started + kAtOnce == kFirst) after_first = resident_at_rest(shelf, SIZE_MAX);
    }
    size_t at_end = resident_at_rest(shelf, after_first + after_first / 10);
    printf("resident after %u threads: %zu KiB, after %u: %zu KiB\n", kFirst, after_first / 1024,
           kThreads, at_end / 1024);
    if (!STRESS_SANITIZED) {
        ASSERT_GT(after_first, 0u);
        EXPECT_LE(at_end, after_first + after_first / 10);
    }
}

} // namespace

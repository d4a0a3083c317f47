/* purge_test.cc: memory goes back to the system while all threads are busy.
 *
 * Large spans come and go, small pages fill and empty, and objects grow by realloc. The purge delay
 * is a few milliseconds, so that purging happens all the time, next to allocation from the same
 * spans. Each block must keep its contents, and each block of calloc must be zero, whether or not
 * its memory was purged before.
 */
#include "short_delay.h"
#include "stress.h"

#include <gtest/gtest.h>

extern "C" {
#include "span/internal.h"
#include "survey/survey.h"
}

#include <unistd.h>

namespace {

using namespace stress;

class Purge : public Stress {};

TEST_F(Purge, LargeSpansComeAndGoWhileOthersAllocate) {
    Clock clock;
    std::atomic<uint64_t> rounds{0};
    run_threads(4, [&](unsigned me) {
        Random random(me + 3);
        std::vector<Block *> held;
        while (clock.running()) {
            if (me < 2) {
                for (int i = 0; i < 8; i++) {
                    size_t size = 65536 * (1 + random.below(40)) - random.below(5000);
                    held.push_back(make_block(size, random.next()));
                }
                if (random.below(4) == 0) pause_ms(static_cast<unsigned>(random.below(12)));
                while (held.size() > random.below(8)) {
                    free_block(held.back());
                    held.pop_back();
                }
            } else {
                for (int i = 0; i < 200; i++) held.push_back(make_block(mixed_size(random), 5));
                while (held.size() > 1000) {
                    size_t at = random.below(held.size());
                    free_block(held[at]);
                    held[at] = held.back();
                    held.pop_back();
                }
            }
            rounds.fetch_add(1, std::memory_order_relaxed);
        }
        for (Block *block : held) free_block(block);
    });
    EXPECT_GT(rounds.load(), 0u);
}

/* Spans that were purged, purged in part or not at all come back as zero memory. */
TEST_F(Purge, CallocIsZeroBetweenPurges) {
    Clock clock;
    std::atomic<uint64_t> objects{0};
    run_threads(3, [&](unsigned me) {
        Random random(me + 13);
        while (clock.running()) {
            std::vector<void *> held;
            for (int i = 0; i < 30; i++) {
                size_t size =
                    random.below(3) == 0 ? 1 + random.below(3000) : 30000 + random.below(400000);
                void *p = loam_calloc(1, size);
                if (p == nullptr) {
                    fail("no memory", p);
                    break;
                }
                check_zero(p, size);
                memset(p, 0xff, size);
                held.push_back(p);
                objects.fetch_add(1, std::memory_order_relaxed);
            }
            for (void *p : held) loam_free(p);
            if (random.below(3) == 0) pause_ms(static_cast<unsigned>(random.below(15)));
        }
    });
    EXPECT_GT(objects.load(), 0u);
}

/* One grows objects step by step over the places that others keep freeing and purging. */
TEST_F(Purge, GrowingNextToPurgedSpans) {
    Clock clock;
    std::atomic<uint64_t> grown{0};
    run_threads(3, [&](unsigned me) {
        Random random(me + 41);
        while (clock.running()) {
            size_t size = 1000 + random.below(100000);
            Block *block = make_block(size, random.next());
            for (int step = 0; step < 12 && size < (size_t{6} << 20); step++) {
                size_t larger = size + size / 3 + random.below(70000);
                uint64_t stamp = block->stamp;
                auto *moved = static_cast<Block *>(loam_realloc(block, larger));
                if (moved == nullptr) {
                    fail("no memory", block);
                    break;
                }
                if (moved->size != size || moved->stamp != stamp) fail("realloc lost it", moved);
                check_block(moved); /* still the old size: all its stamps moved along */
                block = stamp_block(moved, larger, stamp + 1);
                size = larger;
                if (random.below(20) == 0) pause_ms(7);
            }
            free_block(block);
            grown.fetch_add(1, std::memory_order_relaxed);
        }
    });
    EXPECT_GT(grown.load(), 0u);
}

/* Waves of all threads at once: a peak, then nothing, then a peak on purged memory. */
TEST_F(Purge, PeaksAndSilence) {
    for (int wave = 0; wave < 8; wave++) {
        run_threads(4, [&](unsigned me) {
            Random random(me * 100 + static_cast<unsigned>(wave));
            std::vector<Block *> held;
            for (unsigned i = 0; i < 4000 / kSlowness; i++) {
                held.push_back(make_block(mixed_size(random), random.next()));
            }
            for (Block *block : held) free_block(block);
        });
        pause_ms(wave % 2 == 0 ? 60 : 6);
    }
}

/* After the last free, without another call, memory goes back: the delay is 5 ms here. */
TEST_F(Purge, HappensWithoutAnotherCall) {
    pause_ms(200); /* for what earlier tests left to be purged */
    size_t before = resident_bytes();
    std::vector<Block *> held;
    for (int i = 0; i < 128; i++) {
        void *p = loam_malloc(size_t{1} << 20);
        if (p == nullptr) {
            fail("no memory", p);
            break;
        }
        memset(p, 1, size_t{1} << 20);
        held.push_back(stamp_block(p, size_t{1} << 20, 1));
    }
    size_t peak = resident_bytes();
    for (Block *block : held) free_block(block);
    size_t after = peak;
    for (int i = 0; i < 100 && after > before + (size_t{16} << 20); i++) {
        pause_ms(20);
        after = resident_bytes();
    }
    printf("resident before %zu KiB, peak %zu KiB, after %zu KiB\n", before / 1024, peak / 1024,
           after / 1024);
    if (!STRESS_SANITIZED) { /* shadow memory stays */
        EXPECT_GT(peak, before + (size_t{100} << 20));
        EXPECT_LT(after, before + (size_t{16} << 20));
    }
}

/* One thread stops the worker again and again while other threads keep the arena's lock busy. The
 * worker must not end while it holds the registry's lock: the next thread would wait for ever. */
TEST_F(Purge, TheWorkerEndsWithoutALock) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    Clock clock;
    std::atomic<unsigned> stops{0};
    run_threads(4, [&](unsigned me) {
        Random random(me + 5);
        while (clock.running()) {
            if (me == 0) {
                lm_purge_poke(true);
                pause_ms(static_cast<unsigned>(random.below(12)));
                lm_purge_pause();
                lm_idle_unkeep(); /* takes the registry's lock */
                lm_purge_resume();
                stops.fetch_add(1, std::memory_order_relaxed);
            } else if (me == 1) {
                lm_lock_take(&lm_space.lock); /* as a thread that the system has put aside */
                pause_ms(static_cast<unsigned>(random.below(3)));
                lm_lock_give(&lm_space.lock);
                pause_ms(static_cast<unsigned>(random.below(2)));
            } else {
                Block *some[8];
                for (Block *&block : some)
                    block = make_block(70000 + random.below(200000), random.next());
                for (Block *block : some) free_block(block);
            }
        }
    });
    EXPECT_GT(stops.load(), 0u);
}

} // namespace

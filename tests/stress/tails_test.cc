/* tails_test.cc: the unused ends of large objects are purged while threads change the objects.
 *
 * Threads open objects on dirty memory, grow and shrink them in place, move, free and exchange
 * them. The purge delay is a few milliseconds. The worker purges tails, and so does a thread that
 * calls loam_collect, which stands in for the worker where ThreadSanitizer has none. A purge of a
 * tail that has become a part of an object overwrites the object's stamps with zeros.
 */
#include "short_delay.h"
#include "stress.h"

#include <gtest/gtest.h>

namespace {

using namespace stress;

class Tails : public Stress {};

/* Just above a multiple of 64 KiB, so that tails are long. */
size_t tailed(Random &random) { return 65536 * (1 + random.below(6)) + 64 + random.below(30000); }

void grow_or_shrink(Block *&block, Random &random) {
    size_t was = block->size, size = tailed(random);
    uint64_t stamp = block->stamp;
    if (random.below(3) == 0) size = was + random.below(16000); /* within its span */
    if (size < was) block = stamp_block(block, size, stamp);    /* its last word, too */
    auto *moved = static_cast<Block *>(loam_realloc(block, size));
    if (moved == nullptr) {
        fail("no memory", block);
        return;
    }
    check_block(moved); /* with the old size, if it has grown */
    block = stamp_block(moved, size, stamp + 1);
}

TEST_F(Tails, ObjectsChangeWhileTheirTailsArePurged) {
    constexpr unsigned kThreads = 3;
    Clock clock;
    Lanes lanes(kThreads);
    std::atomic<uint64_t> rounds{0};
    std::atomic<unsigned> left{kThreads};
    run_threads(kThreads + 1, [&](unsigned me) {
        if (me == kThreads) {
            while (left.load(std::memory_order_relaxed) > 0) {
                (void)loam_collect();
                pause_ms(1);
            }
            return;
        }
        Random random(me + 71);
        std::vector<Block *> held;
        while (clock.running(rounds.load(std::memory_order_relaxed), 200)) {
            while (held.size() < 12) held.push_back(make_block(tailed(random), random.next()));
            for (int i = 0; i < 24; i++) {
                Block *&block = held[random.below(held.size())];
                if (random.below(3) == 0) {
                    free_block(block);
                    block = make_block(tailed(random), random.next());
                } else {
                    grow_or_shrink(block, random);
                }
            }
            if (random.below(2) == 0 && lanes.lane(me, (me + 1) % kThreads).give(held.back()))
                held.pop_back();
            if (Block *block = lanes.lane((me + kThreads - 1) % kThreads, me).take())
                held.push_back(block);
            while (held.size() > 10) {
                free_block(held.back());
                held.pop_back();
            }
            if (random.below(4) == 0) pause_ms(static_cast<unsigned>(random.below(14)));
            rounds.fetch_add(1, std::memory_order_relaxed);
        }
        for (Block *block : held) free_block(block);
        left.fetch_sub(1, std::memory_order_relaxed);
    });
    lanes.drain();
    EXPECT_GE(rounds.load(), 200u);
}

} // namespace

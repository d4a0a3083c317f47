/* kept_test.cc: threads come and go all the time, and use the pages that the last thread left.
 *
 * Covers: blocks that outlive their thread, and are freed while its heap waits for the next thread,
 * while that thread takes the heap over, and while the worker, which comes every 10 ms here, takes
 * the pages; heaps that no thread takes over; the end of a thread during another thread's
 * collection of all heaps.
 */
#include "short_delay.h"
#include "stress.h"

#include <gtest/gtest.h>

extern "C" {
#include "survey/survey.h"
}

namespace {

using namespace stress;

class Kept : public Stress {};

/* Some of the blocks stay behind, on a shelf from which everybody takes. */
template <size_t kSlots> void errand(Shelf<kSlots> &shelf, uint64_t seed) {
    Random random(seed);
    Block *mine[20];
    for (Block *&block : mine) block = make_block(24 + random.below(2000), random.next());
    size_t zeros = 16 + random.below(3000);
    void *zero = loam_calloc(1, zeros);
    check_zero(zero, zeros);
    loam_free(zero);
    for (Block *block : mine) {
        if (random.below(4) == 0) block = shelf.swap(random.next(), block);
        if (block != nullptr) free_block(block);
    }
}

TEST_F(Kept, SuccessorsAndLateFrees) {
    Shelf<512> shelf;
    Clock clock;
    std::atomic<bool> over{false};
    std::thread lives_on([&] {
        Random random(77);
        while (!over.load(std::memory_order_relaxed)) {
            if (Block *block = shelf.swap(random.next(), nullptr)) free_block(block);
        }
    });
    run_threads(3, [&](unsigned me) {
        Random random(me + 1);
        while (clock.running()) {
            std::thread([&shelf, seed = random.next()] { errand(shelf, seed); }).join();
            /* Now and then long enough for the worker to come first. */
            if (random.below(200) == 0) pause_ms(5 + static_cast<unsigned>(random.below(60)));
        }
    });
    over.store(true);
    lives_on.join();
    shelf.clear();
}

/* Threads end at any moment of another thread's collection of all heaps. */
TEST_F(Kept, EndsBesideCollections) {
    Shelf<512> shelf;
    Clock clock;
    std::atomic<bool> over{false};
    std::thread collects([&] {
        while (!over.load(std::memory_order_relaxed)) lm_idle_collect_now();
    });
    run_threads(2, [&](unsigned me) {
        Random random(me + 1);
        while (clock.running()) {
            std::thread([&shelf, seed = random.next(), rounds = random.below(20)] {
                for (uint64_t i = 0; i <= rounds; i++) errand(shelf, seed + i);
            }).join();
        }
    });
    over.store(true);
    collects.join();
    shelf.clear();
}

/* Crowds: more heaps are left than are kept. */
TEST_F(Kept, CrowdsComeAndGo) {
    Shelf<512> shelf;
    Clock clock;
    uint64_t seed = 1;
    while (clock.running()) {
        run_threads(1 + seed % 24, [&](unsigned me) { errand(shelf, 1000 * seed + me); });
        seed++;
        if (seed % 16 == 0) pause_ms(40);
    }
    shelf.clear();
}

} // namespace

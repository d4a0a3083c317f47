// fifo_test.cc: one thread allocates from a FIFO and other threads free: messages that travel, a
// FIFO that is destroyed while messages travel, and many FIFOs one after the other.
//
// Blocks go through lanes, which order nothing backwards (stress.h). So when memory that another
// thread has freed comes back, zeroed, only the FIFO can have ordered the two uses.
#include "stress.h"

#include "loam/fifo.h"

#include <deque>

namespace {

using namespace stress;

class Fifo : public Stress {
  protected:
    static loam_fifo *make(loam_source *source, unsigned flags, size_t page_bytes) {
        loam_fifo_options options = {};
        options.flags = flags | LOAM_FIFO_REMOTE;
        options.page_bytes = page_bytes;
        loam_fifo *fifo = loam_fifo_create(source, &options);
        if (fifo == nullptr) abort();
        return fifo;
    }
    /* The owner allocates and hands out for a while, frees some itself, and destroys the FIFO with
     * objects under way; the others free what they get. Returns how many there were. */
    static size_t travel(unsigned flags, size_t page_bytes, unsigned consumers) {
        loam_count count;
        loam_count_init(&count, loam_pages());
        loam_fifo *fifo = make(&count.source, flags, page_bytes);
        std::unique_ptr<Lane[]> lanes(new Lane[consumers]);
        std::atomic<bool> done{false};
        std::vector<std::thread> threads;
        for (unsigned self = 0; self < consumers; self++) {
            threads.emplace_back([&, self] {
                Random random(self + 100);
                std::deque<Block *> kept;
                for (;;) {
                    bool last = done.load(std::memory_order_acquire);
                    while (Block *block = lanes[self].take()) kept.push_back(block);
                    size_t most = last ? 0 : random.below(200);
                    while (kept.size() > most) {
                        check_block(kept.front());
                        loam_fifo_free_remote(fifo, kept.front());
                        kept.pop_front();
                    }
                    if (last) return;
                }
            });
        }
        Random random(page_bytes + consumers);
        Clock clock;
        size_t made = 0;
        while (clock.running(made, 1001)) {
            for (int i = 0; i < 100; i++, made++) {
                size_t bytes = kSmallest + (random.below(200) == 0 ? random.below(3 * page_bytes)
                                                                   : random.below(page_bytes / 20));
                void *p = loam_fifo_alloc(fifo, bytes);
                if (p == nullptr) {
                    fail("no memory", p);
                    break;
                }
                check_zero(p, bytes);
                Block *block = stamp_block(p, bytes, random.next() | 1);
                if (random.below(4) == 0 || !lanes[random.below(consumers)].give(block)) {
                    check_block(block);
                    loam_fifo_free(fifo, block);
                }
            }
        }
        loam_fifo_destroy(fifo); /* the last free ends it, whoever does that */
        done.store(true, std::memory_order_release);
        for (auto &thread : threads) thread.join();
        EXPECT_EQ(count.used_bytes, 0u) << "the FIFO is gone, with all its pages";
        EXPECT_EQ(count.gets, count.puts);
        return made;
    }
};

TEST_F(Fifo, MessagesTravelAndOthersFreeThem) {
    EXPECT_GT(travel(0, 65536, 2), 1000u);
    EXPECT_GT(travel(0, 4096, 3), 1000u);
}

TEST_F(Fifo, CheckedOnesAsWell) { EXPECT_GT(travel(LOAM_CHECK, 8192, 3), 1000u); }

/* Destroyed again and again while all threads free: the owner's end, and theirs, meet in every
 * order. */
TEST_F(Fifo, ADestroyedOneEndsOnceWhoeverFreesLast) {
    for (unsigned flags : {0u, unsigned(LOAM_CHECK)}) {
        constexpr unsigned kThreads = 3, kObjects = 30;
        loam_count count;
        loam_count_init(&count, loam_heap_source());
        std::atomic<unsigned> begun{0}, done{0};
        std::atomic<loam_fifo *> current{nullptr};
        void *objects[kThreads + 1][kObjects];
        unsigned rounds = 3000 / kSlowness;
        std::thread threads[kThreads];
        for (unsigned self = 0; self < kThreads; self++) {
            threads[self] = std::thread([&, self] {
                for (unsigned round = 1; round <= rounds; round++) {
                    while (begun.load(std::memory_order_acquire) < round) std::this_thread::yield();
                    loam_fifo *fifo = current.load(std::memory_order_relaxed);
                    for (void *p : objects[self]) {
                        memset(p, int(round), 100);
                        loam_fifo_free_remote(fifo, p);
                    }
                    done.fetch_add(1, std::memory_order_release);
                }
            });
        }
        for (unsigned round = 1; round <= rounds; round++) {
            loam_fifo *fifo = make(&count.source, flags, 1024);
            for (unsigned i = 0; i < kObjects; i++) {
                for (auto &of : objects) {
                    of[i] = loam_fifo_alloc(fifo, 100);
                    check_zero(of[i], 100);
                }
            }
            current.store(fifo, std::memory_order_relaxed);
            begun.store(round, std::memory_order_release);
            for (unsigned i = 0; i < round % kObjects; i++)
                loam_fifo_free(fifo, objects[kThreads][i]);
            loam_fifo_destroy(fifo);
            for (unsigned i = round % kObjects; i < kObjects; i++)
                loam_fifo_free(fifo, objects[kThreads][i]);
            while (done.load(std::memory_order_acquire) < kThreads * round)
                std::this_thread::yield();
            ASSERT_EQ(count.used_bytes, 0u) << round;
        }
        for (auto &thread : threads) thread.join();
    }
}

/* What others freed is used again: a queue of bounded length needs bounded memory, without a call
 * of collect. */
TEST_F(Fifo, MemoryThatOthersFreedIsUsedAgain) {
    loam_count count;
    loam_count_init(&count, loam_pages());
    loam_fifo *fifo = make(&count.source, 0, 65536);
    constexpr size_t kMost = 100;
    std::atomic<size_t> freed{0};
    std::unique_ptr<Lane> lane(new Lane);
    size_t all = 100000 / kSlowness;
    std::thread consumer([&] {
        for (size_t i = 0; i < all;) {
            Block *block = lane->take();
            if (block == nullptr) {
                std::this_thread::yield();
                continue;
            }
            loam_fifo_free_remote(fifo, block);
            freed.store(++i, std::memory_order_relaxed);
        }
    });
    for (size_t i = 0; i < all; i++) {
        while (i - freed.load(std::memory_order_relaxed) >= kMost) std::this_thread::yield();
        Block *block = stamp_block(loam_fifo_alloc(fifo, 500), 500, i);
        while (!lane->give(block)) std::this_thread::yield();
    }
    consumer.join();
    EXPECT_LT(count.peak_bytes, 8 * 65536u) << "of " << all * 500;
    loam_fifo_destroy(fifo);
    EXPECT_EQ(count.used_bytes, 0u);
}

} // namespace

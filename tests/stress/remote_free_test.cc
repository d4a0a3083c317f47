/* remote_free_test.cc: threads free blocks that they did not allocate.
 *
 * Covers: one producer and one consumer; many of each; chains that are freed at once, which fills
 * the lists of remote frees; the same few blocks going back and forth; realloc by the receiver.
 * Every block is stamped, and the stamp is checked before the block is freed. Memory that is handed
 * out twice shows as a changed stamp, a missing ordering as a race under ThreadSanitizer.
 */
#include "stress.h"

#include <gtest/gtest.h>

namespace {

using namespace stress;

class RemoteFree : public Stress {};

/* Producers give to consumers in turn; consumers only free. */
uint64_t produce_and_consume(unsigned producers, unsigned consumers, size_t fixed_size) {
    Lanes lanes(producers + consumers);
    Clock clock;
    std::atomic<unsigned> producing{producers};
    std::atomic<uint64_t> freed{0};
    run_threads(producers + consumers, [&](unsigned me) {
        Random random(me + 1);
        if (me < producers) {
            for (uint64_t i = 0; (i % 64 != 0) || clock.running(); i++) {
                size_t size = fixed_size != 0 ? fixed_size : mixed_size(random);
                Block *block = make_block(size, random.next());
                Lane &lane = lanes.lane(me, producers + static_cast<unsigned>(i % consumers));
                while (!lane.give(block)) std::this_thread::yield();
            }
            producing.fetch_sub(1, std::memory_order_release);
            return;
        }
        uint64_t mine = 0;
        for (bool last = false;;) {
            bool any = false;
            for (unsigned from = 0; from < producers; from++) {
                while (Block *block = lanes.lane(from, me).take()) {
                    free_block(block);
                    mine++;
                    any = true;
                }
            }
            if (any) continue;
            if (last) break;
            last = producing.load(std::memory_order_acquire) == 0; /* then look once more */
            if (!last) std::this_thread::yield();
        }
        freed.fetch_add(mine, std::memory_order_relaxed);
    });
    lanes.drain();
    return freed;
}

TEST_F(RemoteFree, OneProducerOneConsumerOneSize) {
    EXPECT_GT(produce_and_consume(1, 1, 48), 1000u);
}

TEST_F(RemoteFree, OneProducerOneConsumerMixed) { EXPECT_GT(produce_and_consume(1, 1, 0), 1000u); }

TEST_F(RemoteFree, ManyToMany) { EXPECT_GT(produce_and_consume(3, 3, 0), 1000u); }

TEST_F(RemoteFree, ManyToOneMediumSize) { EXPECT_GT(produce_and_consume(3, 1, 3000), 1000u); }

/* Chains of many blocks at once: from one page (all one size) and from many (mixed). */
TEST_F(RemoteFree, ChainsFillTheLists) {
    constexpr unsigned kThreads = 3;
    Lanes lanes(kThreads);
    Clock clock;
    std::atomic<uint64_t> chains{0};
    run_threads(kThreads, [&](unsigned me) {
        Random random(me + 77);
        while (clock.running()) {
            unsigned length = 1 + static_cast<unsigned>(random.below(600));
            bool one_size = random.below(2) == 0;
            size_t size = 24 + random.below(500);
            Block *chain = nullptr;
            for (unsigned i = 0; i < length; i++) {
                Block *block = make_block(one_size ? size : mixed_size(random), random.next());
                block->next = chain;
                chain = block;
            }
            unsigned to = (me + 1 + static_cast<unsigned>(random.below(kThreads - 1))) % kThreads;
            bool given = lanes.lane(me, to).give(chain);
            for (unsigned from = 0; from < kThreads; from++) {
                Block *taken = from == me && !given ? chain : lanes.lane(from, me).take();
                while (taken != nullptr) {
                    Block *next = taken->next;
                    free_block(taken);
                    taken = next;
                }
            }
            chains.fetch_add(1, std::memory_order_relaxed);
        }
    });
    for (unsigned from = 0; from < kThreads; from++) {
        for (unsigned to = 0; to < kThreads; to++) {
            while (Block *chain = lanes.lane(from, to).take()) {
                while (chain != nullptr) {
                    Block *next = chain->next;
                    free_block(chain);
                    chain = next;
                }
            }
        }
    }
    EXPECT_GT(chains.load(), 0u);
}

/* The same pages see local and remote frees at once: every block is freed by a coin. */
TEST_F(RemoteFree, LocalAndRemoteFreesOfOnePage) {
    constexpr unsigned kThreads = 4;
    Lanes lanes(kThreads);
    Clock clock;
    run_threads(kThreads, [&](unsigned me) {
        Random random(me + 5);
        std::vector<Block *> own;
        while (clock.running()) {
            for (int i = 0; i < 40; i++) {
                own.push_back(make_block(64 + 64 * random.below(2), random.next()));
            }
            while (own.size() > 100) {
                size_t at = random.below(own.size());
                Block *block = own[at];
                own[at] = own.back();
                own.pop_back();
                unsigned to = static_cast<unsigned>(random.below(kThreads));
                if (to == me || !lanes.lane(me, to).give(block)) free_block(block);
            }
            for (unsigned from = 0; from < kThreads; from++) {
                while (Block *block = lanes.lane(from, me).take()) free_block(block);
            }
        }
        for (Block *block : own) free_block(block);
    });
    lanes.drain();
}

/* A few blocks travel in circles; each stop reallocates them, so they change owner all the time. */
TEST_F(RemoteFree, ReceiversReallocate) {
    constexpr unsigned kThreads = 4;
    Lanes lanes(kThreads);
    Clock clock;
    std::atomic<uint64_t> hops{0};
    run_threads(kThreads, [&](unsigned me) {
        Random random(me + 99);
        for (int i = 0; i < 50; i++) {
            Block *block = make_block(mixed_size(random), random.next());
            if (!lanes.lane(me, (me + 1) % kThreads).give(block)) free_block(block);
        }
        while (clock.running()) {
            Block *block = lanes.lane((me + kThreads - 1) % kThreads, me).take();
            if (block == nullptr) {
                std::this_thread::yield();
                continue;
            }
            check_block(block);
            size_t old_size = block->size;
            uint64_t old_stamp = block->stamp;
            size_t size = mixed_size(random);
            void *moved = loam_realloc(block, size);
            if (moved == nullptr) {
                fail("realloc failed", block);
                abort();
            }
            auto *same = static_cast<Block *>(moved);
            if (same->size != old_size || same->stamp != old_stamp) fail("realloc lost it", moved);
            block = stamp_block(moved, size, random.next());
            if (!lanes.lane(me, (me + 1) % kThreads).give(block)) free_block(block);
            hops.fetch_add(1, std::memory_order_relaxed);
        }
    });
    lanes.drain();
    EXPECT_GT(hops.load(), 0u);
}

/* usable_size from a thread that neither allocated nor frees, while the page is busy. */
TEST_F(RemoteFree, UsableSizeFromElsewhere) {
    Lanes lanes(3);
    Clock clock;
    run_threads(3, [&](unsigned me) {
        Random random(me + 31);
        while (clock.running()) {
            if (me == 0) {
                Block *block = make_block(mixed_size(random), random.next());
                if (!lanes.lane(0, 1).give(block)) free_block(block);
                free_block(make_block(mixed_size(random), 3));
                continue;
            }
            Block *block = lanes.lane(me - 1, me).take();
            if (block == nullptr) {
                std::this_thread::yield();
                continue;
            }
            if (loam_usable_size(block) < block->size) fail("usable size too small", block);
            if (me == 2 || !lanes.lane(1, 2).give(block)) free_block(block);
        }
    });
    lanes.drain();
}

} // namespace

/* stress.h: what the stress tests share: lanes between threads, stamped blocks, a clock.
 *
 * These tests are mainly for ThreadSanitizer, so that they synchronise as little as they can. A
 * lane passes blocks one way: what the giver did before is ordered before what the taker does
 * after, and nothing is ordered the other way. When memory that the taker freed comes back to the
 * giver, only the allocator can have ordered the two uses; if it has not, ThreadSanitizer reports a
 * race.
 *
 *     giver: slot empty? (relaxed)  store (release)  ->  taker: load (acquire), empty it (relaxed)
 */
#ifndef LOAM_TESTS_STRESS_H
#define LOAM_TESTS_STRESS_H

#include "effort.h"

#include <gtest/gtest.h>
#include <loam/loam.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define STRESS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define STRESS_SANITIZED 1
#endif
#ifndef STRESS_SANITIZED
#define STRESS_SANITIZED 0
#endif

namespace stress {

/* A protocol runs this long; in builds that try less (effort.h), two thirds of it. */
constexpr auto kDuration = std::chrono::milliseconds(effort::kSlowness > 1 ? 1000 : 1500);
/* For counts instead of durations. */
constexpr unsigned kSlowness = STRESS_SANITIZED ? 10 : 1;

class Clock {
  public:
    bool running() const { return std::chrono::steady_clock::now() < end_; }
    /* And until that many rounds are done, however busy the machine is: a test that saw fewer has
     * seen too little. */
    bool running(uint64_t rounds, uint64_t least) const { return rounds < least || running(); }

  private:
    std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + kDuration;
};

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
    uint64_t next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_ >> 11;
    }
    uint64_t below(uint64_t limit) { return next() % limit; }

  private:
    uint64_t state_;
};

/* Failures are counted, not asserted: gtest's own lock would order the threads. */
inline std::atomic<unsigned> failures{0};

inline void fail(const char *what, const void *p) {
    if (failures.fetch_add(1, std::memory_order_relaxed) < 10) {
        fprintf(stderr, "stress: %s at %p\n", what, p);
    }
}

/* Every fixture's base: what failed in any thread fails the test. */
class Stress : public testing::Test {
  protected:
    void SetUp() override { failures = 0; }
    void TearDown() override { EXPECT_EQ(failures.load(), 0u); }
};

/* A block knows its size and is stamped all over (large ones: at both ends and every 4 KiB). */
struct Block {
    size_t size;
    uint64_t stamp;
    Block *next;
};

constexpr size_t kSmallest = sizeof(Block);

template <typename Action> inline void for_stamps(Block *block, Action action) {
    auto *words = reinterpret_cast<uint64_t *>(block);
    size_t count = block->size / 8;
    size_t step = count <= 1024 ? 1 : 512;
    for (size_t i = sizeof(Block) / 8; i < count; i += step) action(words[i]);
    if (count > sizeof(Block) / 8) action(words[count - 1]);
}

inline Block *stamp_block(void *p, size_t size, uint64_t stamp) {
    if (p == nullptr) {
        fail("no memory", p);
        abort();
    }
    if (reinterpret_cast<uintptr_t>(p) % 16 != 0) fail("misaligned block", p);
    auto *block = static_cast<Block *>(p);
    block->size = size;
    block->stamp = stamp;
    block->next = nullptr;
    for_stamps(block, [&](uint64_t &word) { word = stamp; });
    return block;
}

inline Block *make_block(size_t size, uint64_t stamp) {
    if (size < kSmallest) size = kSmallest;
    return stamp_block(loam_malloc(size), size, stamp);
}

inline void check_block(Block *block) {
    uint64_t stamp = block->stamp;
    for_stamps(block, [&](uint64_t &word) {
        if (word != stamp) fail("block was changed", block);
    });
}

inline void free_block(Block *block) {
    check_block(block);
    loam_free(block);
}

/* Mostly small, some medium, a few that take whole slices. */
inline size_t mixed_size(Random &random) {
    uint64_t kind = random.below(100);
    if (kind < 70) return 24 + random.below(300);
    if (kind < 92) return 300 + random.below(8000);
    if (kind < 99) return 8000 + random.below(60000);
    return 65536 + random.below(300000);
}

/* A shared shelf of slots: put and take by exchange, so that blocks travel from thread to
 * thread. */
template <size_t kSlots> class Shelf {
  public:
    /* Returns what was there before. */
    Block *swap(size_t at, Block *block) {
        return slots_[at % kSlots].exchange(block, std::memory_order_acq_rel);
    }
    template <typename Visit> void each(Visit visit) {
        for (auto &slot : slots_) {
            if (Block *block = slot.load(std::memory_order_acquire)) visit(block);
        }
    }
    void clear() {
        for (auto &slot : slots_) {
            if (Block *block = slot.exchange(nullptr)) free_block(block);
        }
    }

  private:
    std::atomic<Block *> slots_[kSlots] = {};
};

inline void check_zero(const void *p, size_t bytes) {
    const auto *b = static_cast<const unsigned char *>(p);
    if (bytes > 0 && (b[0] != 0 || memcmp(b, b + 1, bytes - 1) != 0)) fail("calloc not zero", p);
}

inline void pause_ms(unsigned ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

/* One way, one giver, one taker. */
class Lane {
  public:
    bool give(Block *block) {
        std::atomic<Block *> &slot = slots_[giving_ % kSlots];
        if (slot.load(std::memory_order_relaxed) != nullptr) return false;
        slot.store(block, std::memory_order_release);
        giving_++;
        return true;
    }
    Block *take() {
        std::atomic<Block *> &slot = slots_[taking_ % kSlots];
        Block *block = slot.load(std::memory_order_acquire);
        if (block == nullptr) return nullptr;
        slot.store(nullptr, std::memory_order_relaxed);
        taking_++;
        return block;
    }

  private:
    static constexpr size_t kSlots = 256;
    std::atomic<Block *> slots_[kSlots] = {};
    alignas(64) size_t giving_ = 0;
    alignas(64) size_t taking_ = 0;
};

/* A grid of lanes, from every thread to every thread. */
class Lanes {
  public:
    explicit Lanes(unsigned threads) : threads_(threads), lanes_(new Lane[threads * threads]) {}
    Lane &lane(unsigned from, unsigned to) { return lanes_[from * threads_ + to]; }
    /* After all threads ended. */
    void drain() {
        for (unsigned i = 0; i < threads_ * threads_; i++) {
            while (Block *block = lanes_[i].take()) free_block(block);
        }
    }

  private:
    unsigned threads_;
    std::unique_ptr<Lane[]> lanes_;
};

template <typename Body> void run_threads(unsigned count, Body body) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < count; i++) threads.emplace_back([&body, i] { body(i); });
    for (std::thread &thread : threads) thread.join();
}

/* Resident bytes of the process; 0 where /proc cannot be read. */
inline size_t resident_bytes() {
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == nullptr) return 0;
    size_t total = 0;
    size_t resident = 0;
    if (fscanf(file, "%zu %zu", &total, &resident) != 2) resident = 0;
    fclose(file);
    return resident * 4096;
}

} // namespace stress

#endif

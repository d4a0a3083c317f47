/* limits_test.cc: threads at the limits of the process, with a deferred free and a handler that
 * free objects of other threads, while the limits change. No thread gets more memory than the limit
 * allows, waits without end, or has its handler called from within that handler. */
#include "stress.h"

extern "C" {
#include "span/internal.h"
#include "survey/survey.h"
}

namespace {

constexpr size_t kMiB = size_t{1} << 20;

/* Blocks that were put off, shared by all: each slot is taken by who empties it. */
std::atomic<void *> put_off[256];
std::atomic<unsigned> deferred{0}, forced{0}, told{0}, nested{0};
thread_local int inside_deferred, inside_told;

void drop(unsigned slots) {
    static std::atomic<unsigned> next{0};
    for (unsigned i = 0; i < slots; i++)
        loam_free(put_off[next++ % 256].exchange(nullptr, std::memory_order_acq_rel));
}

void on_deferred(bool force, unsigned long long, void *) {
    if (inside_deferred++ > 0) nested++;
    (force ? forced : deferred)++;
    drop(force ? 256 : 4);
    void *volatile p = loam_malloc(100);
    loam_free(p);
    inside_deferred--;
}

void on_limit(size_t held, size_t soft, void *) {
    if (inside_told++ > 0) nested++;
    EXPECT_GT(held, 0u);
    EXPECT_GT(soft, 0u);
    told++;
    drop(128);
    inside_told--;
}

TEST(Limits, ThreadsAtTheLimit) {
    loam_collect();
    loam_limits limits;
    loam_limit_get(&limits);
    const size_t base = limits.held, hard = base + 48 * kMiB;
    ASSERT_EQ(0, loam_limit_set(base + 16 * kMiB, hard));
    loam_deferred_free_register(on_deferred, nullptr);
    loam_limit_register(on_limit, nullptr);
    std::atomic<bool> done{false};
    std::atomic<unsigned> refused{0}, served{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 3; t++) {
        threads.emplace_back([&, t] {
            stress::Random random(t + 1);
            while (!done.load(std::memory_order_relaxed)) {
                uint64_t r = random.next();
                size_t bytes = r % 16 == 0 ? 1 + r / 64 % (3 * kMiB) : 1 + r / 64 % 60000;
                auto p = static_cast<char *>(loam_malloc(bytes));
                if (p == nullptr) {
                    refused++;
                    drop(16);
                    continue;
                }
                served++;
                p[0] = p[bytes - 1] = static_cast<char>(t);
                if (r % 7 == 0) {
                    void *q = loam_realloc(p, bytes + bytes / 2);
                    if (q != nullptr) p = static_cast<char *>(q);
                }
                auto &slot = put_off[(r >> 20) % 256];
                loam_free(slot.exchange(p, std::memory_order_acq_rel));
            }
        });
    }
    for (stress::Clock clock; clock.running();) {
        loam_limit_get(&limits);
        EXPECT_LE(limits.held_most, hard);
        (void)loam_limit_set(base + 8 * kMiB, hard);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        (void)loam_limit_set(base + 16 * kMiB, base + 32 * kMiB);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    done = true;
    for (std::thread &thread : threads) thread.join();
    loam_deferred_free_register(nullptr, nullptr);
    loam_limit_register(nullptr, nullptr);
    ASSERT_EQ(0, loam_limit_set(0, 0));
    drop(256);
    EXPECT_EQ(0u, nested.load());
    EXPECT_GT(served.load(), 100u);
    EXPECT_GT(deferred.load(), 10u);
    EXPECT_GT(told.load(), 0u);
    EXPECT_EQ(0u, lm_space.moving_slices);
    lm_heap_check();
    lm_span_check();
}

} // namespace

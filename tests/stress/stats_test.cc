/* stats_test.cc: statistics are read and reset while threads allocate, free one another's blocks,
 * come and go.
 *
 * ThreadSanitizer shows here that each word that is read without a lock is an atomic one. In all
 * builds each snapshot must add up, and the last one, after all threads have ended, must be exact.
 */
#include "stress.h"

#include "loam/loam.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

namespace {

void adds_up(const loam_stats_count &row) {
    ASSERT_EQ(row.total - row.freed, row.current);
    ASSERT_GE(row.peak, row.current);
}

TEST(StressStats, SnapshotsOfABusyProcess) {
    constexpr int kThreads = 3, kRounds = 60, kBlocks = 400;
    std::atomic<bool> done{false};
    std::atomic<uint64_t> allocated{0};
    loam_stats_reset();
    auto before = std::make_unique<loam_stats_t>();
    ASSERT_EQ(0, loam_stats_get(before.get(), sizeof *before));
    std::thread reader([&] {
        auto stats = std::make_unique<loam_stats_t>();
        std::vector<char> text(65536);
        while (!done.load()) {
            ASSERT_EQ(0, loam_stats_get(stats.get(), sizeof *stats));
            for (const loam_stats_class &each : stats->of_class) adds_up(each.objects);
            adds_up(stats->large_objects);
            adds_up(stats->large_bytes);
            adds_up(stats->committed);
            ASSERT_LT(loam_stats_json(text.data(), text.size()), 65536);
        }
    });
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; t++) {
        threads.emplace_back([&, t] {
            for (int round = 0; round < kRounds; round++) {
                std::vector<void *> taken;
                for (int i = 0; i < kBlocks; i++)
                    taken.push_back(loam_malloc(size_t{16} << ((i + t) % 14)));
                allocated += kBlocks;
                /* The other half is freed by a thread that ends at once. */
                for (int i = 0; i < kBlocks; i += 2) loam_free(taken[i]);
                std::thread([&] {
                    for (int i = 1; i < kBlocks; i += 2) loam_free(taken[i]);
                    loam_free(loam_malloc(48));
                    allocated++;
                }).join();
            }
        });
    }
    for (std::thread &thread : threads) thread.join();
    done = true;
    reader.join();
    (void)loam_collect();
    auto after = std::make_unique<loam_stats_t>();
    ASSERT_EQ(0, loam_stats_get(after.get(), sizeof *after));
    uint64_t objects = after->small_objects.total + after->large_objects.total -
                       before->small_objects.total - before->large_objects.total;
    EXPECT_EQ(allocated.load(), objects);
    EXPECT_EQ(before->small_objects.current, after->small_objects.current);
    EXPECT_EQ(before->large_objects.current, after->large_objects.current);
}

/* Who makes an object shorter looks at what there is without the arena's lock, while others
 * come and go. */
TEST(StressStats, ThePeakOfLargeObjectsIsNeverMoreThanThereWere) {
    constexpr size_t kLong = 300000, kShort = 200000, kOthers = 100000, kThreads = 2;
    loam_stats_reset();
    std::vector<std::thread> threads;
    stress::Clock clock;
    for (size_t t = 0; t < kThreads; t++) {
        threads.emplace_back([&] {
            while (clock.running()) loam_free(loam_malloc(kOthers));
        });
        threads.emplace_back([&] {
            void *p = loam_malloc(kLong);
            while (clock.running()) {
                p = loam_realloc(p, kShort);
                p = loam_realloc(p, kLong);
            }
            loam_free(p);
        });
    }
    for (std::thread &thread : threads) thread.join();
    auto stats = std::make_unique<loam_stats_t>();
    ASSERT_EQ(0, loam_stats_get(stats.get(), sizeof *stats));
    /* Where an object moves there are two for a while; usable sizes are whole pages. */
    EXPECT_LE(stats->large_bytes.peak, 4 * kThreads * (kLong + kOthers));
}

} // namespace

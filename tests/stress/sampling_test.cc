/* sampling_test.cc: many threads allocate sampled objects and free one another's, while the rate
 * changes, numbers are read, threads end, and the process forks.
 *
 * Blocks are stamped: a slot with two owners shows as a changed stamp, and a lost slot in the last
 * count.
 */
#include "stress.h"

extern "C" {
#include "survey/survey.h"
}

#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Block {
    size_t bytes;
    uint64_t stamp;
};

Block *make(size_t bytes, uint64_t stamp) {
    auto *block = static_cast<Block *>(loam_malloc(bytes));
    if (block == nullptr) return nullptr;
    *block = {bytes, stamp};
    static_cast<unsigned char *>(static_cast<void *>(block))[bytes - 1] =
        static_cast<unsigned char>(stamp | 1);
    return block;
}

bool right(const Block *block, uint64_t stamp) {
    const auto *bytes = reinterpret_cast<const unsigned char *>(block);
    return block->stamp == stamp &&
           bytes[block->bytes - 1] == static_cast<unsigned char>(stamp | 1);
}

constexpr size_t kThreads = 4, kSlots = 64;
std::atomic<Block *> table[kSlots];
std::atomic<size_t> broken;

uint64_t stamp_of(const Block *block) { return reinterpret_cast<uintptr_t>(block) * 0x9e37u; }

void take_turns(uint64_t seed, const stress::Clock &clock) {
    stress::Random random(seed);
    while (clock.running()) {
        for (int i = 0; i < 64; i++) {
            Block *mine = make(sizeof(Block) + 8 + random.next() % 5000, 0);
            if (mine == nullptr) continue;
            mine->stamp = stamp_of(mine);
            reinterpret_cast<unsigned char *>(mine)[mine->bytes - 1] =
                static_cast<unsigned char>(mine->stamp | 1);
            Block *other = table[random.next() % kSlots].exchange(mine, std::memory_order_acq_rel);
            if (other == nullptr) continue;
            if (!right(other, stamp_of(other))) broken++;
            loam_free(other);
        }
    }
}

void empty_table() {
    for (auto &slot : table) loam_free(slot.exchange(nullptr));
}

TEST(SamplingStress, ObjectsChangeThreads) {
    ASSERT_EQ(loam_sampling_set(3), 0);
    loam_sampling_numbers before, after;
    loam_sampling_get(&before);
    stress::Clock clock;
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; t++)
        threads.emplace_back([t, &clock] {
            while (clock.running()) { /* threads end, and others take their heaps over */
                std::thread inner([t, &clock] { take_turns(t + 1, clock); });
                inner.join();
            }
        });
    std::thread changes([&clock] {
        for (size_t rate = 1; clock.running(); rate = rate % 7 + 1) {
            EXPECT_EQ(loam_sampling_set(rate == 7 ? 0 : rate), 0);
            loam_sampling_numbers now;
            loam_sampling_get(&now);
            EXPECT_EQ(now.found, 0u);
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
        }
    });
    for (auto &thread : threads) thread.join();
    changes.join();
    empty_table();
    loam_sampling_get(&after);
    EXPECT_EQ(broken.load(), 0u);
    EXPECT_GT(after.taken, before.taken + 100);
    EXPECT_EQ(after.live, before.live);
    EXPECT_EQ(loam_sampling_set(0), 0);
    lm_heap_check();
}

TEST(SamplingStress, ChildrenOfForksSampleToo) {
    if (STRESS_SANITIZED) GTEST_SKIP() << "a sanitizer does not fork with threads";
    ASSERT_EQ(loam_sampling_set(2), 0);
    stress::Clock clock;
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; t++)
        threads.emplace_back([t, &clock] { take_turns(t + 11, clock); });
    while (clock.running()) {
        pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            alarm(60);
            loam_sampling_numbers numbers;
            size_t bad = 0;
            for (uint64_t i = 0; i < 2000; i++) {
                Block *block = make(100, i);
                bad += block == nullptr || !right(block, i);
                loam_free(block);
            }
            loam_sampling_get(&numbers);
            lm_heap_check();
            _exit(bad != 0 || numbers.found != 0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    for (auto &thread : threads) thread.join();
    empty_table();
    EXPECT_EQ(broken.load(), 0u);
    EXPECT_EQ(loam_sampling_set(0), 0);
}

} // namespace

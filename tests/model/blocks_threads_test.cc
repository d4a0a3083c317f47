/* blocks_threads_test.cc: the exchange of batches between threads, step by step, against a twin.
 *
 * Threads pass a baton: one of them makes one call at a time, so that a seed is one interleaving and repeats
 * exactly. The twin is the set of live addresses, with the class and stamp of each. After every step it holds that
 * nothing is handed out twice and contents are whole; every so often, that lists are good and that
 *
 *     carved = live + free in the instance + in the caches
 *
 * whose two ends are known: each thread keeps less than two batches of a class, and once all have ended nothing
 * lies in a cache. Sizes are few and batches small (4 blocks of 4096), so that batches are full, spare, and empty
 * all the time. A failing program prints its seed.
 */
#include "loam/blocks.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace {

/* A thread that does what it is told, while the teller waits. */
class Worker {
  public:
    Worker() : thread_([this] { run(); }) {}
    ~Worker() {
        tell(nullptr);
        thread_.join();
    }
    void tell(const std::function<void()> *step) {
        std::unique_lock<std::mutex> lock(mutex_);
        step_ = step;
        told_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !told_; });
    }

  private:
    void run() {
        for (;;) {
            std::unique_lock<std::mutex> lock(mutex_);
            changed_.wait(lock, [this] { return told_; });
            bool over = step_ == nullptr;
            if (!over) (*step_)();
            told_ = false;
            changed_.notify_all();
            if (over) return;
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    const std::function<void()> *step_ = nullptr;
    bool told_ = false;
    std::thread thread_;
};

constexpr uint32_t kClasses[] = {64, 1024, 4096};
constexpr size_t kBatches[] = {64, 16, 4};
constexpr unsigned kWorkers = 4;

struct Live {
    unsigned char *at;
    unsigned kind;
    unsigned char stamp;
};

class Program {
  public:
    explicit Program(unsigned seed) : random_(seed) {
        loam_blocks_options options{};
        options.flags = LOAM_THREADS;
        options.classes = kClasses;
        options.class_count = 3;
        EXPECT_EQ(loam_blocks_init(&blocks_, &options), 0);
        for (auto &worker : workers_) worker.reset(new Worker);
    }
    ~Program() {
        for (auto &worker : workers_) worker.reset();
        expect_counts(0);
        for (Live &live : live_) loam_blocks_free(&blocks_, live.at);
        loam_blocks_deinit(&blocks_);
    }

    void step() {
        auto &worker = workers_[random_() % kWorkers];
        unsigned what = random_() % 1000;
        /* Growth and shrinking alternate. */
        bool grows = steps_++ / 700 % 2 == 0;
        if (what < 2) {
            worker.reset(); /* its cache goes back */
            worker.reset(new Worker);
        } else if (what < 4) {
            on(*worker, [this] { (void)loam_blocks_trim(&blocks_); });
        } else if (what % 10 < (grows ? 6u : 4u) || live_.empty()) {
            on(*worker, [this] { alloc(random_() % 3); });
        } else {
            on(*worker, [this] { free(random_() % live_.size()); });
        }
        if (steps_ % 200 == 0) {
            EXPECT_TRUE(loam_blocks_check(&blocks_));
            expect_counts(kWorkers);
        }
    }

  private:
    template <typename Step> void on(Worker &worker, Step step) {
        std::function<void()> function = step;
        worker.tell(&function);
    }
    void alloc(unsigned kind) {
        size_t bytes = kClasses[kind] - 40; /* room for a tool */
        auto p = static_cast<unsigned char *>(loam_blocks_alloc(&blocks_, bytes));
        ASSERT_NE(p, nullptr);
        auto next = spans_.lower_bound(p);
        ASSERT_TRUE(next == spans_.end() || p + bytes <= next->first) << "handed out twice";
        if (next != spans_.begin()) {
            ASSERT_LE(std::prev(next)->first + std::prev(next)->second, p) << "handed out twice";
        }
        spans_[p] = bytes;
        auto stamp = static_cast<unsigned char>(random_());
        memset(p, stamp, bytes);
        live_.push_back({p, kind, stamp});
    }
    void free(size_t i) {
        Live live = live_[i];
        for (size_t k = 0; k < kClasses[live.kind] - 40; k++) ASSERT_EQ(live.at[k], live.stamp);
        live_[i] = live_.back();
        live_.pop_back();
        spans_.erase(live.at);
        loam_blocks_free(&blocks_, live.at);
    }
    /* Caches of that many threads cannot be seen from here: their blocks count as handed out. */
    void expect_counts(unsigned threads) {
        size_t live[3] = {};
        for (Live &each : live_) live[each.kind]++;
        loam_blocks_class_info info;
        size_t all = 0;
        for (unsigned i = 0; loam_blocks_class_usage(&blocks_, i, &info) == 0; i++) {
            all += info.blocks_in_use;
            if (tools) continue;
            EXPECT_GE(info.blocks_in_use, live[i]);
            EXPECT_LE(info.blocks_in_use, live[i] + threads * 2 * kBatches[i]);
        }
        if (threads == 0) {
            loam_usage usage;
            loam_blocks_usage(&blocks_, &usage);
            EXPECT_EQ(usage.objects, live_.size());
        } else if (!tools) {
            EXPECT_GE(all, live_.size());
        }
    }

#if defined(LOAM_DEBUG) || defined(__SANITIZE_ADDRESS__)
    static constexpr bool tools = true; /* guards: sizes are of other classes */
#else
    static constexpr bool tools = false;
#endif
    loam_blocks blocks_;
    std::mt19937 random_;
    std::vector<Live> live_;
    std::map<unsigned char *, size_t> spans_;
    std::unique_ptr<Worker> workers_[kWorkers];
    unsigned steps_ = 0;
};

} // namespace

TEST(BlocksThreads, RandomProgramsOfCalls) {
#if defined(LOAM_DEBUG) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr unsigned kSeeds = 3;
#else
    constexpr unsigned kSeeds = 8;
#endif
    for (unsigned seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); seed++) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        Program program(seed);
        for (int i = 0; i < 7000 && !testing::Test::HasFailure(); i++) program.step();
    }
}

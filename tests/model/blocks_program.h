/* blocks_program.h: the exchange of batches between threads, step by step, against a twin.
 *
 * Threads pass a baton: one of them makes one call at a time, so that a seed is one interleaving
 * and repeats exactly. The twin is the set of live addresses, with the class and stamp of each.
 * After every step it holds that nothing is handed out twice and contents are whole; every so
 * often, that lists are good and that
 *
 *     carved = live + free in the instance + in the caches
 *
 * whose two ends are known: each thread keeps less than two batches of a class, and once all have
 * ended nothing lies in a cache. Sizes are few and batches small (4 blocks of 4096), so that
 * batches are full, spare, and empty all the time.
 */
#ifndef LOAM_TESTS_MODEL_BLOCKS_PROGRAM_H
#define LOAM_TESTS_MODEL_BLOCKS_PROGRAM_H

#include "loam/blocks.h"

#include "model/baton.h"
#include "model/choices.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

namespace blocks_model {

using model::Baton;
using model::Choices;

inline constexpr uint32_t kClasses[] = {64, 1024, 4096};
inline constexpr size_t kBatches[] = {64, 16, 4};
inline constexpr unsigned kWorkers = 4;

struct Live {
    unsigned char *at;
    size_t kind;
    unsigned char stamp;
};

class Program {
  public:
    explicit Program(const Choices &random) : random_(random) {
        loam_blocks_options options{};
        options.flags = LOAM_THREADS;
        options.classes = kClasses;
        options.class_count = 3;
        EXPECT_EQ(loam_blocks_init(&blocks_, &options), 0);
        for (auto &worker : workers_) worker.reset(new Baton);
    }
    ~Program() {
        for (auto &worker : workers_) worker.reset();
        expect_counts(0);
        for (Live &live : live_) loam_blocks_free(&blocks_, live.at);
        loam_blocks_deinit(&blocks_);
    }

    bool over() const { return random_.over(); }
    void step() {
        auto &worker = workers_[random_.below(kWorkers)];
        size_t what = random_.below(1000);
        /* Growth and shrinking alternate. */
        bool grows = steps_++ / 700 % 2 == 0;
        if (what < 2) {
            worker.reset(); /* its cache goes back */
            worker.reset(new Baton);
        } else if (what < 4) {
            worker->tell([this] { (void)loam_blocks_trim(&blocks_); });
        } else if (what % 10 < (grows ? 6u : 4u) || live_.empty()) {
            worker->tell([this] { alloc(random_.below(3)); });
        } else {
            worker->tell([this] { free(random_.below(live_.size())); });
        }
        if (steps_ % 200 == 0) {
            EXPECT_TRUE(loam_blocks_check(&blocks_));
            expect_counts(kWorkers);
        }
    }

  private:
    void alloc(size_t kind) {
        size_t bytes = kClasses[kind] - 40; /* room for a tool */
        auto p = static_cast<unsigned char *>(loam_blocks_alloc(&blocks_, bytes));
        ASSERT_NE(p, nullptr);
        auto next = spans_.lower_bound(p);
        ASSERT_TRUE(next == spans_.end() || p + bytes <= next->first) << "handed out twice";
        if (next != spans_.begin()) {
            ASSERT_LE(std::prev(next)->first + std::prev(next)->second, p) << "handed out twice";
        }
        spans_[p] = bytes;
        auto stamp = static_cast<unsigned char>(++stamps_);
        memset(p, stamp, bytes);
        live_.push_back({p, kind, stamp});
    }
    void free(size_t i) {
        Live live = live_[i];
        for (size_t k = 0; k < kClasses[live.kind] - 40; k++)
            if (live.at[k] != live.stamp) FAIL() << "byte " << k << " has changed";
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
    Choices random_;
    std::vector<Live> live_;
    std::map<unsigned char *, size_t> spans_;
    std::unique_ptr<Baton> workers_[kWorkers];
    unsigned steps_ = 0, stamps_ = 0;
};

} // namespace blocks_model

#endif

/* pool_program.h: a program of pool calls against a twin that keeps everything in plain lists. */
#ifndef LOAM_TESTS_FAMILY_POOL_PROGRAM_H
#define LOAM_TESTS_FAMILY_POOL_PROGRAM_H

#include "loam/pool.h"

#include "model/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace pool_model {

using model::Choices;

/* What a pool promises: the block freed last comes first; then, after a reset, the blocks in the
 * order in which they were first handed out; then new ones. Live ones keep what was written. */
class Twin {
  public:
    Twin(loam_pool *pool, size_t bytes, size_t align) : pool_(pool), bytes_(bytes), align_(align) {}

    void alloc() {
        auto *p = static_cast<unsigned char *>(loam_pool_alloc(pool_));
        if (!freed_.empty()) {
            ASSERT_EQ(p, freed_.back()) << "the last freed comes first";
            freed_.pop_back();
        } else if (p == nullptr) {
            refusals++;
            return;
        } else {
            ASSERT_EQ(blocks_.count(p), 0u) << "a fresh one that is in use or free";
            if (order_.size() > cut_) {
                ASSERT_EQ(p, order_[cut_]) << "as before the reset";
            } else {
                order_.push_back(p);
            }
            cut_++;
            blocks_.insert(p);
            auto next = blocks_.upper_bound(p), self = blocks_.find(p);
            ASSERT_TRUE(next == blocks_.end() || p + bytes_ <= *next);
            ASSERT_TRUE(self == blocks_.begin() || *std::prev(self) + bytes_ <= p);
        }
        ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align_, 0u);
        unsigned char stamp = stamp_++;
        memset(p, stamp, bytes_);
        live_.push_back({p, stamp});
    }
    void free(size_t at) {
        if (live_.empty()) return;
        at %= live_.size();
        Object object = live_[at];
        expect_whole(object);
        loam_pool_free(pool_, object.p);
        freed_.push_back(object.p);
        live_[at] = live_.back();
        live_.pop_back();
    }
    void reset() {
        for (const Object &object : live_) expect_whole(object);
        loam_pool_reset(pool_);
        live_.clear();
        freed_.clear();
        blocks_.clear();
        cut_ = 0;
    }
    /* Free blocks may go; which ones, and what is cut next, only the pool knows. */
    void trim() {
        (void)loam_pool_trim(pool_);
        std::vector<unsigned char *> kept;
        for (unsigned char *p : freed_) {
            if (loam_pool_owns(pool_, p))
                kept.push_back(p);
            else
                blocks_.erase(p);
        }
        freed_ = kept;
        order_.resize(cut_);
        order_.erase(std::remove_if(order_.begin(), order_.end(),
                                    [&](unsigned char *p) { return blocks_.count(p) == 0; }),
                     order_.end());
        cut_ = order_.size();
        for (const Object &object : live_) ASSERT_TRUE(loam_pool_owns(pool_, object.p));
    }
    void shrink() {
        (void)loam_pool_shrink(pool_);
        order_.resize(cut_);
    }
    void expect_same() {
        ASSERT_TRUE(loam_pool_check(pool_));
        loam_usage usage;
        loam_pool_usage(pool_, &usage);
        ASSERT_EQ(usage.objects, live_.size());
        ASSERT_EQ(usage.used_bytes, live_.size() * pool_->stride);
        ASSERT_LE(usage.used_bytes, usage.held_bytes);
        for (const Object &object : live_) {
            expect_whole(object);
            ASSERT_TRUE(loam_pool_owns(pool_, object.p));
            ASSERT_FALSE(loam_pool_owns(pool_, object.p + 1));
        }
        for (unsigned char *p : freed_)
            ASSERT_TRUE(loam_pool_owns(pool_, p)) << "free ones as well";
    }
    size_t refusals = 0;

  private:
    struct Object {
        unsigned char *p, stamp;
    };
    void expect_whole(const Object &object) const {
        for (size_t i = 0; i < bytes_; i++)
            if (object.p[i] != object.stamp) FAIL() << "byte " << i << " of " << bytes_;
    }
    loam_pool *pool_;
    size_t bytes_, align_;
    unsigned char stamp_ = 1;
    std::vector<Object> live_;
    std::vector<unsigned char *> freed_; // the last freed at the back
    std::vector<unsigned char *> order_; // in which they were cut
    size_t cut_ = 0;                     // of them, since the last reset
    std::set<unsigned char *> blocks_;   // live and freed
};

inline void run(loam_pool *pool, size_t bytes, size_t align, Choices random, size_t *refusals) {
    Twin twin(pool, bytes, align);
    size_t mood = 50;
    for (int i = 0; i < 6000 && !random.over(); i++) {
        if (i % 300 == 0) mood = 30 + random.below(45);
        size_t what = random.below(1000);
        if (what < 10 * mood) {
            twin.alloc();
        } else if (what < 992) {
            twin.free(random.below(1 << 20));
        } else if (what < 994) {
            twin.reset();
        } else if (what < 997) {
            twin.trim();
        } else {
            twin.shrink();
        }
        if (i % 100 == 0) twin.expect_same();
        ASSERT_FALSE(testing::Test::HasFatalFailure()) << "step " << i;
    }
    *refusals += twin.refusals;
}

} // namespace pool_model

#endif

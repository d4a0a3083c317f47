// pool_model_test.cc: random programs of pool calls against a twin that keeps everything in plain lists.
#include "loam/pool.h"

#include "family/pool_sources.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace {

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
    size_t below(size_t limit) {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return static_cast<size_t>((state_ >> 11) % limit);
    }

  private:
    uint64_t state_;
};

/* What a pool promises: the block freed last comes first; then, after a reset, the blocks in the order in which they
 * were first handed out; then new ones. Live ones keep what was written. */
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
        for (size_t i = 0; i < bytes_; i++) ASSERT_EQ(object.p[i], object.stamp) << i;
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

void run(loam_pool *pool, size_t bytes, size_t align, uint64_t seed, size_t *refusals) {
    Random random(seed);
    Twin twin(pool, bytes, align);
    size_t mood = 50;
    for (int i = 0; i < 6000; i++) {
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

constexpr unsigned kModes[] = {0u,
                               unsigned(LOAM_CHECK),
                               unsigned(LOAM_HARDEN),
                               unsigned(LOAM_CHECK | LOAM_HARDEN),
                               unsigned(LOAM_POOL_HANDLES),
                               unsigned(LOAM_POOL_HANDLES | LOAM_CHECK)};

TEST(PoolModel, InChunks) {
    for (unsigned flags : kModes) {
        for (uint64_t seed = 1; seed <= 6; seed++) {
            SCOPED_TRACE(testing::Message() << "flags " << flags << " seed " << seed);
            size_t sizes[] = {1, 24, 64, 100, 1024, 8}, refusals = 0, bytes = sizes[seed % 6];
            Counted counted;
            loam_pool pool;
            loam_pool_options options = {};
            options.flags = flags;
            options.first_blocks = 1 + seed * 3;
            options.align = seed == 3 ? 64 : 0;
            options.most_chunk_bytes = seed == 4 ? 8192 : 0;
            ASSERT_EQ(loam_pool_init(&pool, &counted.source, bytes, &options), 0);
            run(&pool, bytes, options.align != 0 ? options.align : sizeof(void *), seed, &refusals);
            EXPECT_EQ(refusals, 0u);
            loam_pool_deinit(&pool);
        }
    }
}

TEST(PoolModel, InOnePieceThatGrows) {
    static char memory[4 << 20];
    for (unsigned flags : kModes) {
        for (uint64_t seed = 11; seed <= 14; seed++) {
            SCOPED_TRACE(testing::Message() << "flags " << flags << " seed " << seed);
            size_t refusals = 0;
            loam_buffer buffer;
            loam_buffer_init(&buffer, memory, sizeof memory);
            Counted counted(&buffer.source);
            loam_pool pool;
            loam_pool_options options = {};
            options.flags = flags | LOAM_POOL_CONTIGUOUS;
            options.first_blocks = 4;
            ASSERT_EQ(loam_pool_init(&pool, &counted.source, 72, &options), 0);
            run(&pool, 72, 8, seed, &refusals);
            EXPECT_EQ(refusals, 0u);
            loam_pool_deinit(&pool);
        }
    }
}

TEST(PoolModel, WithASourceThatEnds) {
    size_t refusals = 0;
    for (unsigned flags : kModes) {
        for (uint64_t seed = 21; seed <= 26; seed++) {
            SCOPED_TRACE(testing::Message() << "flags " << flags << " seed " << seed);
            loam_limit limit;
            loam_limit_init(&limit, loam_pages(), 48 << 10);
            loam_pool pool;
            loam_pool_options options = {};
            options.flags = flags;
            options.most_blocks = seed == 25 ? 50 : 0;
            ASSERT_EQ(loam_pool_init(&pool, &limit.source, 200, &options), 0);
            run(&pool, 200, 8, seed, &refusals);
            loam_pool_deinit(&pool);
            EXPECT_EQ(limit.used_bytes, 0u);
        }
    }
    EXPECT_GT(refusals, 0u);
}

TEST(PoolModel, OfFixedSize) {
    size_t refusals = 0;
    for (unsigned flags : kModes) {
        for (uint64_t seed = 31; seed <= 33; seed++) {
            SCOPED_TRACE(testing::Message() << "flags " << flags << " seed " << seed);
            Counted counted;
            loam_pool pool;
            loam_pool_options options = {};
            options.flags = flags | LOAM_FIXED;
            options.most_blocks = 100;
            ASSERT_EQ(loam_pool_init(&pool, &counted.source, 40, &options), 0);
            run(&pool, 40, 8, seed, &refusals);
            EXPECT_EQ(counted.gets, 1u + (pool.table != nullptr));
            loam_pool_deinit(&pool);
        }
    }
    EXPECT_GT(refusals, 0u);
}

/* 160 blocks of 64 MiB: numbers times sizes are beyond 32 bits, as are distances. Only first words are touched. */
TEST(PoolModel, SizesTimesNumbersBeyond32Bits) {
    constexpr size_t kBlock = size_t{64} << 20, kBlocks = 160;
    if (sizeof(void *) < 8) GTEST_SKIP() << "no such memory";
    size_t bytes = kBlock * kBlocks + (size_t{1} << 20);
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) GTEST_SKIP() << "no such address space";
    loam_pool pool;
    loam_pool_options options = {};
    options.flags = LOAM_POOL_HANDLES;
    ASSERT_EQ(loam_pool_init_buffer(&pool, memory, kBlock * 2, kBlock - 4096, &options), 0);
    bool watched = (pool.mode & 4) != 0;
    loam_pool_deinit(&pool);
    if (watched) {
        munmap(memory, bytes);
        GTEST_SKIP() << "a tool's shadow of 10 GiB would be written";
    }
    for (unsigned flags : {0u, unsigned(LOAM_POOL_HANDLES)}) {
        options.flags = flags;
        /* Checked blocks need some more than their size. */
        ASSERT_EQ(loam_pool_init_buffer(&pool, memory, bytes, kBlock - 4096, &options), 0);
        std::vector<char *> all;
        while (void *p = loam_pool_alloc(&pool)) all.push_back(static_cast<char *>(p));
        EXPECT_GE(all.size(), kBlocks);
        EXPECT_GT(all.back() - all.front(), ptrdiff_t{9} << 30);
        for (size_t i = 0; i < all.size(); i++) {
            EXPECT_EQ(all[i], all[0] + i * pool.stride);
            EXPECT_TRUE(loam_pool_owns(&pool, all[i]));
            EXPECT_FALSE(loam_pool_owns(&pool, all[i] + (size_t{1} << 32)) &&
                         (size_t{1} << 32) % pool.stride != 0);
            if (flags != 0) {
                EXPECT_EQ(loam_pool_get(&pool, loam_pool_handle(&pool, all[i])), all[i]);
            }
        }
        for (char *p : all) loam_pool_free(&pool, p);
        EXPECT_TRUE(loam_pool_check(&pool));
        for (size_t i = all.size(); i > 0; i--) EXPECT_EQ(loam_pool_alloc(&pool), all[i - 1]);
        EXPECT_EQ(loam_pool_alloc(&pool), nullptr);
        loam_pool_deinit(&pool);
    }
    munmap(memory, bytes);
}

} // namespace

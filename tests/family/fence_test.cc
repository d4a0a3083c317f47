// fence_test.cc: chunks of the family beside objects of loam_malloc: the debug build's free of an
// object reads the end of the block before it, and that may be a chunk of an allocator, guards and
// all. Nothing is wrong in here, so nothing is said.
#include "loam/loam.h"

#include "unit/stderr_of.h"

#include <gtest/gtest.h>

extern "C" {
#include "family/family.h"
}

#include <cstring>
#include <functional>
#include <string>

namespace {

enum { kPairs = 8 };

/* One allocator: fills at least its first chunk with objects of that size, and the objects with the
 * fence's byte. */
class Filler {
  public:
    virtual ~Filler() = default;
    virtual bool fill(size_t bytes) = 0;
};

template <typename Alloc> bool fill_with(size_t bytes, size_t total, Alloc alloc) {
    for (size_t made = 0; made < total; made += bytes + 16) {
        void *p = alloc(bytes);
        if (p == nullptr) return false;
        memset(p, 0xfb, bytes);
    }
    return true;
}

class Region final : public Filler {
  public:
    bool fill(size_t bytes) override {
        if (loam_region_init(&region_, nullptr, nullptr) != 0) return false;
        return fill_with(bytes, 4200, [this](size_t n) { return loam_region_alloc(&region_, n); });
    }
    ~Region() override { loam_region_deinit(&region_); }

  private:
    loam_region region_;
};

template <unsigned kFlags> class Pool final : public Filler {
  public:
    bool fill(size_t bytes) override {
        loam_pool_options options = {};
        options.flags = kFlags;
        if (loam_pool_init(&pool_, nullptr, bytes, &options) != 0) return false;
        return fill_with(bytes, 4200, [this](size_t) { return loam_pool_alloc(&pool_); });
    }
    ~Pool() override { loam_pool_deinit(&pool_); }

  private:
    loam_pool pool_;
};

class Fifo final : public Filler {
  public:
    bool fill(size_t bytes) override {
        loam_fifo_options options = {};
        options.page_bytes = 4096;
        if (loam_fifo_init(&fifo_, nullptr, &options) != 0) return false;
        return fill_with(bytes, 4200, [this](size_t n) { return loam_fifo_alloc(&fifo_, n); });
    }
    ~Fifo() override { loam_fifo_deinit(&fifo_); }

  private:
    loam_fifo fifo_;
};

class Stack final : public Filler {
  public:
    bool fill(size_t bytes) override {
        loam_stack_options options = {};
        options.block_bytes = 4096;
        if (loam_stack_init(&stack_, nullptr, &options) != 0) return false;
        (void)loam_stack_push(&stack_);
        return fill_with(bytes, 4200, [this](size_t n) { return loam_stack_alloc(&stack_, n); });
    }
    ~Stack() override { loam_stack_deinit(&stack_); }

  private:
    loam_stack stack_;
};

class Ring final : public Filler {
  public:
    bool fill(size_t bytes) override {
        loam_ring_options options = {};
        options.block_bytes = 4096;
        if (loam_ring_init(&ring_, nullptr, &options) != 0 || loam_ring_open(&ring_) == nullptr)
            return false;
        return fill_with(bytes, 4200, [this](size_t n) { return loam_ring_alloc(&ring_, n); });
    }
    ~Ring() override { loam_ring_deinit(&ring_); }

  private:
    loam_ring ring_;
};

class Blocks final : public Filler {
  public:
    bool fill(size_t bytes) override {
        if (loam_blocks_init(&blocks_, nullptr) != 0) return false;
        return fill_with(bytes, 66000, [this](size_t n) { return loam_blocks_alloc(&blocks_, n); });
    }
    ~Blocks() override { loam_blocks_deinit(&blocks_); }

  private:
    loam_blocks blocks_;
};

/* All blocks of a fixed instance, whose chunk ends with the last one. */
class FixedBlocks final : public Filler {
  public:
    bool fill(size_t bytes) override {
        uint32_t size = static_cast<uint32_t>(bytes);
        for (uint32_t each = 4096 / (size + 40) + 8; each > 0; each--) {
            loam_blocks_options options = {};
            options.classes = &size;
            options.class_count = 1;
            options.blocks_each = each;
            options.flags = LOAM_FIXED;
            if (loam_blocks_pool_bytes(&options) > 4096 + 15) continue;
            if (loam_blocks_init(&blocks_, &options) != 0) return false;
            good_ = true;
            return fill_with(bytes, each * (bytes + 16),
                             [this](size_t n) { return loam_blocks_alloc(&blocks_, n); });
        }
        return true;
    }
    ~FixedBlocks() override {
        if (good_) loam_blocks_deinit(&blocks_);
    }

  private:
    loam_blocks blocks_;
    bool good_ = false;
};

class PoolSet final : public Filler {
  public:
    bool fill(size_t bytes) override {
        static const size_t sizes[] = {8};
        if (loam_pool_set_init(&set_, pools_, sizes, 1, nullptr, nullptr, 0, nullptr) != 0)
            return false;
        good_ = true;
        bytes += 4096 - 16 - 600; /* up to the end of the fallback's chunk */
        for (void *&p : objects_) {
            if ((p = loam_pool_set_alloc(&set_, bytes)) == nullptr) return false;
            memset(p, 0xfb, bytes);
        }
        return true;
    }
    ~PoolSet() override {
        for (void *p : objects_) loam_pool_set_free(&set_, p);
        if (good_) loam_pool_set_deinit(&set_);
    }

  private:
    loam_pool pools_[1];
    loam_pool_set set_;
    void *objects_[2] = {};
    bool good_ = false;
};

/* Chunks and objects of one size class of the heap in turn; then the objects are freed, and the
 * allocators end. */
template <typename Kind> void beside_objects(size_t bytes, size_t object_bytes) {
    Kind fillers[kPairs];
    void *objects[kPairs];
    for (int i = 0; i < kPairs; i++) {
        objects[i] = loam_malloc(object_bytes);
        ASSERT_NE(objects[i], nullptr);
        memset(objects[i], 0xfb, object_bytes);
        ASSERT_TRUE(fillers[i].fill(bytes)) << bytes;
    }
    for (void *p : objects) loam_free(p);
}

template <typename Kind> class Fence : public testing::Test {};
using Kinds = testing::Types<Region, Pool<0>, Pool<LOAM_POOL_HANDLES>, Pool<LOAM_HARDEN>, Fifo,
                             Stack, Ring, FixedBlocks, PoolSet>;
TYPED_TEST_SUITE(Fence, Kinds);

TYPED_TEST(Fence, GuardsAreNoFences) {
    lm_misuse_policy.ignore = true;
    std::string text = unit::stderr_of([] {
        for (size_t bytes = 1; bytes <= 600; bytes++)
            for (size_t object : {size_t{3900}, size_t{4080}})
                beside_objects<TypeParam>(bytes, object);
    });
    lm_misuse_policy.ignore = false;
    EXPECT_EQ(text, "");
}

TEST(Fence, GuardsOfSlabsAreNoFences) {
    lm_misuse_policy.ignore = true;
    std::string text = unit::stderr_of([] {
        for (size_t bytes = 1; bytes <= 4096; bytes += 61) beside_objects<Blocks>(bytes, 65000);
    });
    lm_misuse_policy.ignore = false;
    EXPECT_EQ(text, "");
}

} // namespace

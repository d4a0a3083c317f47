/* kinds.h: the allocators of the family, each behind the contract suite's one face. */
#ifndef LOAM_TESTS_CONTRACT_KINDS_H
#define LOAM_TESTS_CONTRACT_KINDS_H

#include "contract.h"

#include "loam/blocks.h"
#include "loam/pool.h"
#include "loam/region.h"

namespace contract {

/* ---- Pools ---- */

template <size_t kBytes, unsigned kMore> class Pool final : public Allocator {
  public:
    static std::unique_ptr<Allocator> make(loam_source *source, unsigned flags, const char *name) {
        std::unique_ptr<Pool> self(new Pool);
        loam_pool_options options = {};
        options.flags = flags | kMore;
        options.name = name;
        if (loam_pool_init(&self->pool_, source, kBytes, &options) != 0) return nullptr;
        self->good_ = true;
        return self;
    }
    ~Pool() override {
        if (good_) loam_pool_deinit(&pool_);
    }
    void *alloc(size_t) override { return loam_pool_alloc(&pool_); }
    void free(void *p, size_t) override { loam_pool_free(&pool_, p); }
    void reset() override { loam_pool_reset(&pool_); }
    loam_usage usage() override {
        loam_usage usage = {};
        loam_pool_usage(&pool_, &usage);
        return usage;
    }
    bool check() override { return loam_pool_check(&pool_); }

  private:
    loam_pool pool_;
    bool good_ = false;
};

/* ---- Blocks ---- */

class Blocks final : public Allocator {
  public:
    template <unsigned kMore>
    static std::unique_ptr<Allocator> make(loam_source *source, unsigned flags, const char *name) {
        std::unique_ptr<Blocks> self(new Blocks);
        loam_blocks_options options = {};
        options.source = source;
        options.flags = flags | kMore;
        options.name = name;
        if (loam_blocks_init(&self->blocks_, &options) != 0) return nullptr;
        self->good_ = true;
        return self;
    }
    ~Blocks() override {
        if (good_) loam_blocks_deinit(&blocks_);
    }
    void *alloc(size_t bytes) override { return loam_blocks_alloc(&blocks_, bytes); }
    void free(void *p, size_t) override { loam_blocks_free(&blocks_, p); }
    void *realloc(void *p, size_t, size_t bytes) override {
        return loam_blocks_realloc(&blocks_, p, bytes);
    }
    void reset() override { loam_blocks_reset(&blocks_); }
    loam_usage usage() override {
        loam_usage usage = {};
        loam_blocks_usage(&blocks_, &usage);
        return usage;
    }
    bool check() override { return loam_blocks_check(&blocks_); }

  private:
    loam_blocks blocks_;
    bool good_ = false;
};

/* ---- Regions ---- */

class Region : public Allocator {
  public:
    ~Region() override { loam_region_destroy(region_); }
    static std::unique_ptr<Allocator> make(loam_source *source, unsigned flags, const char *name) {
        loam_region_options options = {};
        return made(source, &options, flags, name);
    }
    /* TfwPool's own pages. */
    static std::unique_ptr<Allocator> make_tfw(loam_source *source, unsigned flags,
                                               const char *name) {
        loam_region_options options = LOAM_REGION_TFW;
        return made(source, &options, flags, name);
    }
    void *alloc(size_t bytes) override { return loam_region_alloc(region_, bytes); }
    void free(void *p, size_t bytes) override { loam_region_free(region_, p, bytes); }
    void *realloc(void *p, size_t old_bytes, size_t bytes) override {
        return loam_region_realloc(region_, p, old_bytes, bytes);
    }
    void reset() override { loam_region_reset(region_); }
    loam_usage usage() override {
        loam_usage usage = {};
        loam_region_usage(region_, &usage);
        return usage;
    }
    bool check() override { return loam_region_check(region_); }

  private:
    static std::unique_ptr<Allocator> made(loam_source *source, loam_region_options *options,
                                           unsigned flags, const char *name) {
        options->flags = flags;
        options->name = name;
        std::unique_ptr<Region> self(new Region);
        self->region_ = loam_region_create(source, options);
        if (self->region_ == nullptr) return nullptr;
        return self;
    }
    loam_region *region_ = nullptr;
};

inline const std::vector<Kind> &kinds() {
    constexpr unsigned kPool = kReset | kHarden;
    constexpr unsigned kBlocks = kAnySize | kRealloc | kReset;
    static const std::vector<Kind> all = {
        {"pool1", "pool", kPool, 1, 1, Pool<1, 0>::make},
        {"pool24", "pool", kPool, 24, 8, Pool<24, 0>::make},
        {"pool48", "pool", kPool, 48, 16, Pool<48, 0>::make},
        {"pool1024", "pool", kPool, 1024, 16, Pool<1024, 0>::make},
        {"pool_contiguous", "pool", kPool | kContiguous, 40, 8,
         Pool<40, LOAM_POOL_CONTIGUOUS>::make},
        {"pool_handles", "pool", kPool, 32, 16, Pool<32, LOAM_POOL_HANDLES>::make},
        {"blocks", "blocks", kBlocks, 0, 16, Blocks::make<0>},
        {"blocks_threads", "blocks", kBlocks, 0, 16, Blocks::make<LOAM_THREADS>},
        {"region", "region", kAnySize | kRealloc | kReset, 0, 16, Region::make},
        {"region_tfw", "region", kAnySize | kRealloc | kReset, 0, 16, Region::make_tfw},
    };
    return all;
}

} // namespace contract

#endif

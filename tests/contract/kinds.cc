// kinds.cc: the allocators of the family, each behind the contract suite's one face.
#include "contract.h"

#include "loam/blocks.h"
#include "loam/fifo.h"
#include "loam/pool.h"
#include "loam/region.h"
#include "loam/ring.h"
#include "loam/stack.h"

namespace contract {

namespace {

/* What is left when a source's own rounding, and its chunks' heads, are gone. */
size_t most_of(size_t bytes) { return bytes / 8 * 7; }

/* A caller's memory, for those that want none of a source: of the source all the same, so that
 * books are kept. */
class Given {
  public:
    bool get(loam_source *source, size_t bytes) {
        memory = loam_source_get(source, bytes, 16, &got_);
        source_ = source;
        return memory != nullptr;
    }
    ~Given() {
        if (memory != nullptr) loam_source_put(source_, memory, got_);
    }
    void *memory = nullptr;

  private:
    loam_source *source_ = nullptr;
    size_t got_ = 0;
};

/* ---- Pools ---- */

enum class PoolKind { Plain, Buffer, Fixed, ByHandle };

template <size_t kBytes, unsigned kMore = 0, PoolKind kKind = PoolKind::Plain>
class Pool final : public Allocator {
  public:
    static std::unique_ptr<Allocator> make(loam_source *source, size_t bytes, unsigned flags,
                                           const char *name) {
        std::unique_ptr<Pool> self(new Pool);
        loam_pool_options options = {};
        options.flags = flags | kMore;
        options.name = name;
        if (kKind == PoolKind::Fixed) options.flags |= LOAM_FIXED, options.most_blocks = 600;
        if (kKind == PoolKind::Buffer) {
            if (!self->given_.get(source, most_of(bytes))) return nullptr;
            if (loam_pool_init_buffer(&self->pool_, self->given_.memory, most_of(bytes), kBytes,
                                      &options) != 0)
                return nullptr;
        } else if (loam_pool_init(&self->pool_, source, kBytes, &options) != 0) {
            return nullptr;
        }
        self->good_ = true;
        return self;
    }
    ~Pool() override {
        if (good_) loam_pool_deinit(&pool_);
    }
    void *alloc(size_t) override {
        if (kKind != PoolKind::ByHandle) return loam_pool_alloc_at(&pool_, MADE);
        return loam_pool_get(&pool_, loam_pool_alloc_handle_at(&pool_, MADE));
    }
    void free(void *p, size_t) override {
        loam_handle handle = kKind == PoolKind::ByHandle ? loam_pool_handle(&pool_, p) : 0;
        if (handle == 0 || !loam_pool_free_handle_at(&pool_, handle, USED))
            loam_pool_free_at(&pool_, p, USED);
    }
    void reset() override { loam_pool_reset(&pool_); }
    loam_usage usage() override {
        loam_usage usage = {};
        loam_pool_usage(&pool_, &usage);
        return usage;
    }
    loam_alloc handle() override { return loam_pool_as_alloc(&pool_); }
    bool check() override { return loam_pool_check(&pool_); }

  private:
    Given given_;
    loam_pool pool_;
    bool good_ = false;
};

template <size_t kBytes> class SharedPool final : public Allocator {
  public:
    static std::unique_ptr<Allocator> make(loam_source *source, size_t, unsigned flags,
                                           const char *name) {
        std::unique_ptr<SharedPool> self(new SharedPool);
        loam_pool_options options = {};
        options.flags = flags;
        options.name = name;
        if (loam_shared_pool_init(&self->pool_, source, kBytes, &options) != 0) return nullptr;
        self->good_ = true;
        return self;
    }
    ~SharedPool() override {
        if (good_) loam_shared_pool_deinit(&pool_);
    }
    void *alloc(size_t) override { return loam_shared_pool_alloc_at(&pool_, MADE); }
    void free(void *p, size_t) override { loam_shared_pool_free_at(&pool_, p, USED); }
    loam_usage usage() override {
        loam_usage usage = {};
        loam_shared_pool_usage(&pool_, &usage);
        return usage;
    }
    loam_alloc handle() override { return loam_shared_pool_as_alloc(&pool_); }
    bool check() override { return loam_shared_pool_check(&pool_); }

  private:
    loam_shared_pool pool_;
    bool good_ = false;
};

/* ---- Blocks ---- */

enum class BlocksKind { Heap, FixedPool, StaticPool };

template <unsigned kMore, BlocksKind kKind = BlocksKind::Heap>
class Blocks final : public Allocator {
  public:
    static std::unique_ptr<Allocator> make(loam_source *source, size_t bytes, unsigned flags,
                                           const char *name) {
        std::unique_ptr<Blocks> self(new Blocks);
        loam_blocks_options options = {};
        options.flags = flags | kMore;
        options.name = name;
        if (kKind == BlocksKind::StaticPool) {
            if (!self->given_.get(source, most_of(bytes))) return nullptr;
            options.memory = self->given_.memory;
            options.memory_bytes = most_of(bytes);
        } else {
            options.source = source;
        }
        if (kKind == BlocksKind::FixedPool) {
            options.flags |= LOAM_FIXED;
            options.blocks_each = static_cast<uint32_t>(most_of(bytes) / 9600);
        }
        if (loam_blocks_init(&self->blocks_, &options) != 0) return nullptr;
        self->good_ = true;
        return self;
    }
    ~Blocks() override {
        if (good_) loam_blocks_deinit(&blocks_);
    }
    void *alloc(size_t bytes) override { return loam_blocks_alloc_at(&blocks_, bytes, MADE); }
    void free(void *p, size_t) override { loam_blocks_free_at(&blocks_, p, USED); }
    void *realloc(void *p, size_t, size_t bytes) override {
        return loam_blocks_realloc_at(&blocks_, p, bytes, MOVED);
    }
    void *alloc_array(size_t count, size_t bytes) override {
        return loam_blocks_calloc_at(&blocks_, count, bytes, MADE);
    }
    void *alloc_aligned(size_t bytes, size_t align) override {
        return loam_blocks_alloc_aligned_at(&blocks_, bytes, align, MADE);
    }
    void reset() override { loam_blocks_reset(&blocks_); }
    loam_usage usage() override {
        loam_usage usage = {};
        loam_blocks_usage(&blocks_, &usage);
        return usage;
    }
    loam_alloc handle() override { return loam_blocks_as_alloc(&blocks_); }
    bool check() override { return loam_blocks_check(&blocks_); }

  private:
    Given given_;
    loam_blocks blocks_;
    bool good_ = false;
};

/* ---- Regions ---- */

enum class RegionKind { Plain, Tfw, Fixed, InPlace, Child };

template <RegionKind kKind> class Region final : public Allocator {
  public:
    static std::unique_ptr<Allocator> make(loam_source *source, size_t bytes, unsigned flags,
                                           const char *name) {
        loam_region_options options = {}, tfw = LOAM_REGION_TFW;
        if (kKind == RegionKind::Tfw) options = tfw;
        if (kKind == RegionKind::Fixed) options.first_bytes = most_of(bytes), flags |= LOAM_FIXED;
        options.flags = flags;
        options.name = name;
        std::unique_ptr<Region> self(new Region);
        if (kKind == RegionKind::InPlace) {
            if (loam_region_init(&self->own_, source, &options) != 0) return nullptr;
            self->region_ = &self->own_;
        } else if (kKind == RegionKind::Child) {
            self->parent_ = loam_region_create(source, nullptr);
            if (self->parent_ == nullptr) return nullptr;
            self->region_ = loam_region_create_child(self->parent_, &options);
        } else {
            self->region_ = loam_region_create(source, &options);
        }
        if (self->region_ == nullptr) return nullptr;
        return self;
    }
    ~Region() override {
        if (region_ == &own_) {
            loam_region_deinit(region_);
        } else if (parent_ != nullptr) {
            loam_region_destroy(parent_);
        } else {
            loam_region_destroy(region_);
        }
    }
    void *alloc(size_t bytes) override { return loam_region_alloc_at(region_, bytes, MADE); }
    void free(void *p, size_t bytes) override { loam_region_free_at(region_, p, bytes, USED); }
    void *realloc(void *p, size_t old_bytes, size_t bytes) override {
        return loam_region_realloc_at(region_, p, old_bytes, bytes, MOVED);
    }
    void *alloc_array(size_t count, size_t bytes) override {
        return loam_region_calloc_at(region_, count, bytes, MADE);
    }
    void *alloc_aligned(size_t bytes, size_t align) override {
        return loam_region_alloc_aligned_at(region_, bytes, align, MADE);
    }
    void reset() override { loam_region_reset(region_); }
    loam_usage usage() override { return of(region_); }
    loam_usage beside() override { return parent_ != nullptr ? of(parent_) : loam_usage{}; }
    loam_alloc handle() override { return loam_region_as_alloc(region_); }
    bool check() override {
        return loam_region_check(region_) && (parent_ == nullptr || loam_region_check(parent_));
    }

  private:
    static loam_usage of(const loam_region *region) {
        loam_usage usage = {};
        loam_region_usage(region, &usage);
        return usage;
    }
    loam_region own_;
    loam_region *region_ = nullptr, *parent_ = nullptr;
};

/* ---- FIFOs ---- */

enum class FifoKind { InPlace, Created };

/* Other pages than the default's, so that objects of a page of their own are common. */
template <unsigned kMore, size_t kPageBytes = 0, FifoKind kKind = FifoKind::InPlace>
class Fifo final : public Allocator {
  public:
    static std::unique_ptr<Allocator> make(loam_source *source, size_t, unsigned flags,
                                           const char *name) {
        loam_fifo_options options = {};
        options.page_bytes = kPageBytes;
        options.flags = flags | kMore;
        options.name = name;
        std::unique_ptr<Fifo> self(new Fifo);
        if (kKind == FifoKind::Created) {
            self->fifo_ = loam_fifo_create(source, &options);
            if (self->fifo_ == nullptr) return nullptr;
        } else {
            if (loam_fifo_init(&self->own_, source, &options) != 0) return nullptr;
            self->fifo_ = &self->own_;
        }
        return self;
    }
    ~Fifo() override {
        if (fifo_ == &own_) {
            loam_fifo_deinit(fifo_);
        } else if (fifo_ != nullptr) { /* lives on until its last object is freed */
            loam_fifo *fifo = fifo_;
            std::multiset<void *> live = live_;
            loam_fifo_destroy(fifo);
            for (void *p : live) loam_fifo_free_at(fifo, p, USED);
        }
    }
    void *alloc(size_t bytes) override { return note(loam_fifo_alloc_at(fifo_, bytes, MADE)); }
    void free(void *p, size_t) override {
        if (kKind == FifoKind::Created) {
            loam_usage before = usage();
            if (kMore & LOAM_FIFO_REMOTE) {
                loam_fifo_free_remote_at(fifo_, p, USED);
                loam_fifo_collect(fifo_);
            } else {
                loam_fifo_free_at(fifo_, p, USED);
            }
            if (usage().objects != before.objects) forget(p);
            return;
        }
        loam_fifo_free_at(fifo_, p, USED);
    }
    void *realloc(void *p, size_t old_bytes, size_t bytes) override {
        void *moved = loam_fifo_realloc_at(fifo_, p, old_bytes, bytes, MOVED);
        if (moved == nullptr) return nullptr;
        forget(p);
        return note(moved);
    }
    void *alloc_array(size_t count, size_t bytes) override {
        return note(loam_fifo_calloc_at(fifo_, count, bytes, MADE));
    }
    void *alloc_aligned(size_t bytes, size_t align) override {
        return note(loam_fifo_alloc_aligned_at(fifo_, bytes, align, MADE));
    }
    loam_usage usage() override {
        loam_usage usage = {};
        loam_fifo_usage(fifo_, &usage);
        return usage;
    }
    loam_alloc handle() override { return loam_fifo_as_alloc(fifo_); }
    bool check() override { return loam_fifo_check(fifo_); }

  private:
    void *note(void *p) {
        if (kKind == FifoKind::Created && p != nullptr) live_.insert(p);
        return p;
    }
    void forget(void *p) {
        auto found = live_.find(p);
        if (found != live_.end()) live_.erase(found);
    }
    loam_fifo own_;
    loam_fifo *fifo_ = nullptr;
    std::multiset<void *> live_; /* objects of no bytes may share an address */
};

/* ---- Stacks and rings ---- */

enum class StackKind { Base, InFrame };

template <StackKind kKind> class Stack final : public Allocator {
  public:
    static std::unique_ptr<Allocator> make(loam_source *source, size_t, unsigned flags,
                                           const char *name) {
        loam_stack_options options = {};
        options.flags = flags;
        options.name = name;
        std::unique_ptr<Stack> self(new Stack);
        if (loam_stack_init(&self->stack_, source, &options) != 0) return nullptr;
        self->good_ = true;
        if (!self->begin()) return nullptr;
        return self;
    }
    ~Stack() override {
        if (good_) loam_stack_deinit(&stack_);
    }
    void *alloc(size_t bytes) override { return loam_stack_alloc_at(&stack_, bytes, MADE); }
    void free(void *p, size_t bytes) override { loam_stack_free_at(&stack_, p, bytes, USED); }
    void *realloc(void *p, size_t old_bytes, size_t bytes) override {
        return loam_stack_realloc_at(&stack_, p, old_bytes, bytes, MOVED);
    }
    void *alloc_array(size_t count, size_t bytes) override {
        return loam_stack_calloc_at(&stack_, count, bytes, MADE);
    }
    void *alloc_aligned(size_t bytes, size_t align) override {
        return loam_stack_alloc_aligned_at(&stack_, bytes, align, MADE);
    }
    /* One in a frame begins another: its pop and a push. */
    void reset() override {
        if (kKind == StackKind::InFrame)
            loam_stack_pop_at(&stack_, frame_, USED);
        else
            loam_stack_reset(&stack_);
        EXPECT_TRUE(begin());
    }
    loam_usage usage() override {
        loam_usage usage = {};
        loam_stack_usage(&stack_, &usage);
        return usage;
    }
    loam_alloc handle() override { return loam_stack_as_alloc(&stack_); }
    bool check() override { return loam_stack_check(&stack_); }

  private:
    bool begin() {
        if (kKind != StackKind::InFrame) return true;
        frame_ = loam_stack_push_at(&stack_, "frame.c", 9);
        return loam_stack_pushed_it(&frame_);
    }
    loam_stack stack_;
    loam_stack_frame frame_;
    bool good_ = false;
};

class Ring final : public Allocator {
  public:
    static std::unique_ptr<Allocator> make(loam_source *source, size_t, unsigned flags,
                                           const char *name) {
        loam_ring_options options = {};
        options.flags = flags;
        options.name = name;
        std::unique_ptr<Ring> self(new Ring);
        if (loam_ring_init(&self->ring_, source, &options) != 0) return nullptr;
        self->good_ = true;
        self->frame_ = loam_ring_open(&self->ring_);
        if (self->frame_ == nullptr) return nullptr;
        return self;
    }
    ~Ring() override {
        if (good_) loam_ring_deinit(&ring_);
    }
    void *alloc(size_t bytes) override { return loam_ring_alloc_at(&ring_, bytes, MADE); }
    void free(void *p, size_t bytes) override { loam_ring_free_at(&ring_, p, bytes, USED); }
    void *realloc(void *p, size_t old_bytes, size_t bytes) override {
        return loam_ring_realloc_at(&ring_, p, old_bytes, bytes, MOVED);
    }
    void *alloc_array(size_t count, size_t bytes) override {
        return loam_ring_calloc_at(&ring_, count, bytes, MADE);
    }
    void *alloc_aligned(size_t bytes, size_t align) override {
        return loam_ring_alloc_aligned_at(&ring_, bytes, align, MADE);
    }
    void reset() override {
        loam_ring_release_at(&ring_, frame_, USED);
        frame_ = loam_ring_open(&ring_);
        EXPECT_NE(frame_, nullptr);
    }
    loam_usage usage() override {
        loam_usage usage = {};
        loam_ring_usage(&ring_, &usage);
        return usage;
    }
    loam_alloc handle() override { return loam_ring_as_alloc(&ring_); }
    bool check() override { return loam_ring_check(&ring_); }

  private:
    loam_ring ring_;
    loam_ring_frame *frame_ = nullptr;
    bool good_ = false;
};

/* ---- Any of them by its handle ---- */

using Maker = std::unique_ptr<Allocator> (*)(loam_source *, size_t, unsigned, const char *);

template <Maker kMake, size_t kAlign> class ByHandle final : public Allocator {
  public:
    static std::unique_ptr<Allocator> make(loam_source *source, size_t bytes, unsigned flags,
                                           const char *name) {
        std::unique_ptr<ByHandle> self(new ByHandle);
        self->inner_ = kMake(source, bytes, flags, name);
        if (self->inner_ == nullptr) return nullptr;
        self->alloc_ = self->inner_->handle();
        return self;
    }
    void *alloc(size_t bytes) override { return loam_alloc_alloc_at(alloc_, bytes, kAlign, MADE); }
    void free(void *p, size_t bytes) override {
        loam_alloc_free_at(alloc_, p, bytes, kAlign, USED);
    }
    void *realloc(void *p, size_t old_bytes, size_t bytes) override {
        return loam_alloc_realloc_at(alloc_, p, old_bytes, bytes, kAlign, MOVED);
    }
    void *alloc_array(size_t count, size_t bytes) override {
        return loam_alloc_calloc_at(alloc_, count, bytes, kAlign, MADE);
    }
    void *alloc_aligned(size_t bytes, size_t align) override {
        return loam_alloc_alloc_at(alloc_, bytes, align, MADE);
    }
    void reset() override { inner_->reset(); }
    loam_usage usage() override { return inner_->usage(); }
    loam_usage beside() override { return inner_->beside(); }
    bool check() override { return inner_->check(); }

  private:
    std::unique_ptr<Allocator> inner_;
    loam_alloc alloc_;
};

} // namespace

const std::vector<Kind> &kinds() {
    constexpr unsigned kPool = kReset | kHarden;
    constexpr unsigned kBlocks = kAnySize | kRealloc | kReset | kArrays | kAligned;
    constexpr unsigned kFixedBlocks = kBlocks | kFixed | kLiveBits;
    constexpr unsigned kRegion = kAnySize | kRealloc | kReset | kSized | kArrays | kAligned;
    constexpr unsigned kRawFifo = kAnySize | kRealloc | kArrays | kAligned | kPages;
    constexpr unsigned kFifo = kRawFifo | kZeroed;
    using BK = BlocksKind;
    using FK = FifoKind;
    using PK = PoolKind;
    using RK = RegionKind;
    static const std::vector<Kind> all = {
        {"pool1", "pool", kPool, 1, 1, Pool<1>::make},
        {"pool24", "pool", kPool, 24, 8, Pool<24>::make},
        {"pool48", "pool", kPool, 48, 16, Pool<48>::make},
        {"pool1024", "pool", kPool, 1024, 16, Pool<1024>::make},
        {"pool_contiguous", "pool", kPool | kContiguous, 40, 8,
         Pool<40, LOAM_POOL_CONTIGUOUS>::make},
        {"pool_handles", "pool", kPool, 32, 16, Pool<32, LOAM_POOL_HANDLES>::make},
        {"pool_by_handle", "pool", kPool, 32, 16, Pool<32, LOAM_POOL_HANDLES, PK::ByHandle>::make},
        {"pool_buffer", "pool", kPool | kFixed | kGiven, 40, 8, Pool<40, 0, PK::Buffer>::make},
        {"pool_fixed", "pool", kPool | kFixed, 40, 8, Pool<40, 0, PK::Fixed>::make},
        {"pool_shared", "pool", kHarden, 40, 8, SharedPool<40>::make},
        {"blocks", "blocks", kBlocks, 0, 16, Blocks<0>::make},
        {"blocks_threads", "blocks", kBlocks, 0, 16, Blocks<LOAM_THREADS>::make},
        {"blocks_fixed", "blocks", kFixedBlocks, 4096, 16, Blocks<0, BK::FixedPool>::make},
        {"blocks_static", "blocks", kFixedBlocks | kGiven, 4096, 16,
         Blocks<0, BK::StaticPool>::make},
        {"region", "region", kRegion, 0, 16, Region<RK::Plain>::make},
        {"region_tfw", "region", kRegion, 0, 16, Region<RK::Tfw>::make},
        {"region_fixed", "region", kRegion | kFixed, 0, 16, Region<RK::Fixed>::make},
        {"region_in_place", "region", kRegion, 0, 16, Region<RK::InPlace>::make},
        {"stack", "stack", kRegion, 0, 16, Stack<StackKind::Base>::make},
        {"stack_in_frame", "stack", kRegion, 0, 16, Stack<StackKind::InFrame>::make},
        {"ring", "ring", kRegion, 0, 16, Ring::make},
        {"region_child", "region", kRegion, 0, 16, Region<RK::Child>::make},
        {"fifo", "fifo", kFifo, 0, 16, Fifo<0>::make},
        {"fifo_raw", "fifo", kRawFifo, 0, 16, Fifo<LOAM_FIFO_RAW>::make},
        {"fifo_small_pages", "fifo", kFifo, 0, 16, Fifo<0, 4096>::make},
        {"fifo_created", "fifo", kFifo, 0, 16, Fifo<0, 16384, FK::Created>::make},
        {"fifo_remote", "fifo", kFifo, 0, 16, Fifo<LOAM_FIFO_REMOTE, 16384, FK::Created>::make},
        {"pool_as_alloc", "pool", kPool, 40, 8, ByHandle<Pool<40>::make, 8>::make},
        {"pool_shared_as_alloc", "pool", kHarden, 40, 8, ByHandle<SharedPool<40>::make, 1>::make},
        {"blocks_as_alloc", "blocks", kBlocks, 0, 16, ByHandle<Blocks<0>::make, 8>::make},
        {"blocks_threads_as_alloc", "blocks", kBlocks, 0, 16,
         ByHandle<Blocks<LOAM_THREADS>::make, 16>::make},
        {"region_as_alloc", "region", kRegion, 0, 16, ByHandle<Region<RK::Plain>::make, 16>::make},
        {"fifo_as_alloc", "fifo", kFifo, 0, 16, ByHandle<Fifo<0>::make, 16>::make},
        {"stack_as_alloc", "stack", kRegion, 0, 16,
         ByHandle<Stack<StackKind::InFrame>::make, 16>::make},
        {"ring_as_alloc", "ring", kRegion, 0, 16, ByHandle<Ring::make, 16>::make},
    };
    return all;
}

} // namespace contract

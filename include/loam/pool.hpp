/* loam/pool.hpp: the pool for C++: blocks and objects by RAII, a memory resource, an allocator for node containers,
 * and operators new and delete of a class (loam/pool.h).
 *
 *     loam::pool packets(1500);                   blocks of 1500 bytes
 *     loam::pool_of<Particle> particles;          make and destroy; its end destroys no object by itself
 *     loam::pool_resource nodes(64);              std::pmr: up to 64 bytes from a pool, the rest from upstream
 *     std::list<int, loam::pool_allocator<int>> list;   nodes of all copies of one allocator from one pool
 *     class Shape { LOAM_POOLED(Shape) ... };     new Shape: from a pool of the class, any thread
 *
 * Choose pool_of for objects that you name, an allocator or resource for containers of nodes, LOAM_POOLED for a class
 * whose users are not to know. None of them can be moved or serves arrays from its blocks, and but for LOAM_POOLED one
 * thread at a time uses it.
 *
 * Out of memory is std::bad_alloc; nothing else is thrown but by constructors of yours.
 */
#ifndef LOAM_POOL_HPP
#define LOAM_POOL_HPP

#include "loam/detail.hpp"
#include "loam/pool.h"

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace loam {

/* Blocks of one size. Cannot be copied or moved: loam_pool stays where it is. One thread at a time. */
class pool {
  public:
    /* std::bad_alloc iff loam_pool_init fails, for whatever reason. */
    explicit pool(std::size_t block_bytes, const loam_pool_options &options = {},
                  loam_source *source = nullptr) {
        if (loam_pool_init(&pool_, source, block_bytes, &options) != 0) throw std::bad_alloc();
    }
    /* Over the caller's memory. */
    pool(void *memory, std::size_t bytes, std::size_t block_bytes,
         const loam_pool_options &options = {}) {
        if (loam_pool_init_buffer(&pool_, memory, bytes, block_bytes, &options) != 0)
            throw std::bad_alloc();
    }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    ~pool() { loam_pool_deinit(&pool_); }

    [[nodiscard]] void *alloc(const char *file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
        return detail::need(loam_pool_alloc_at(&pool_, file, line));
    }
    /* nullptr in place of std::bad_alloc. */
    [[nodiscard]] void *try_alloc(const char *file = __builtin_FILE(),
                                  unsigned line = __builtin_LINE()) noexcept {
        return loam_pool_alloc_at(&pool_, file, line);
    }
    void free(void *block, const char *file = __builtin_FILE(),
              unsigned line = __builtin_LINE()) noexcept {
        loam_pool_free_at(&pool_, block, file, line);
    }

    bool owns(const void *p) const noexcept { return loam_pool_owns(&pool_, p); }
    void reset() noexcept { loam_pool_reset(&pool_); }
    std::size_t trim() noexcept { return loam_pool_trim(&pool_); }
    bool check() const noexcept { return loam_pool_check(&pool_); }
    loam_usage usage() const noexcept {
        loam_usage usage;
        loam_pool_usage(&pool_, &usage);
        return usage;
    }
    loam_pool *get() noexcept { return &pool_; }
    const loam_pool *get() const noexcept { return &pool_; }

  private:
    loam_pool pool_;
};

namespace detail {

inline loam_pool_options pool_options_for(std::size_t align, loam_pool_options options) {
    if (options.align < align) options.align = align;
    return options;
}

} // namespace detail

/* Objects of one type. Memory of those still alive when it ends goes back without their destructors. */
template <typename T> class pool_of {
  public:
    explicit pool_of(const loam_pool_options &options = {}, loam_source *source = nullptr)
        : pool_(sizeof(T), detail::pool_options_for(alignof(T), options), source) {}

    /* A T made of args; std::bad_alloc iff there is no memory. What its constructor throws passes through,
     * and the block is free again. */
    template <typename... Args> [[nodiscard]] T *make(Args &&...args) {
        void *block = pool_.alloc(nullptr, 0);
        return detail::construct<T>(
            block, [&] { pool_.free(block, nullptr, 0); }, std::forward<Args>(args)...);
    }
    /* Destroys an object of this pool; nullptr allowed. */
    void destroy(T *object, const char *file = __builtin_FILE(),
                 unsigned line = __builtin_LINE()) noexcept {
        if (object == nullptr) return;
        object->~T();
        pool_.free(object, file, line);
    }

    struct deleter {
        pool_of *owner;
        void operator()(T *object) const noexcept { owner->destroy(object); }
    };
    using unique_ptr = std::unique_ptr<T, deleter>;
    template <typename... Args> [[nodiscard]] unique_ptr make_unique(Args &&...args) {
        return unique_ptr(make(std::forward<Args>(args)...), deleter{this});
    }

    bool owns(const void *p) const noexcept { return pool_.owns(p); }
    /* All objects are gone, without their destructors. */
    void reset() noexcept { pool_.reset(); }
    std::size_t trim() noexcept { return pool_.trim(); }
    bool check() const noexcept { return pool_.check(); }
    loam_usage usage() const noexcept { return pool_.usage(); }
    /* Memory for a T and all else: the caller constructs and destroys. */
    pool &blocks() noexcept { return pool_; }

  private:
    pool pool_;
};

/* Blocks of one size for std::pmr: what is larger, or aligned to more, goes upstream. One thread at a time. */
class pool_resource final : public std::pmr::memory_resource {
  public:
    explicit pool_resource(std::size_t block_bytes, const loam_pool_options &options = {},
                           loam_source *source = nullptr,
                           std::pmr::memory_resource *upstream = std::pmr::get_default_resource())
        : pool_(block_bytes, options, source), upstream_(upstream) {}

    std::pmr::memory_resource *upstream_resource() const noexcept { return upstream_; }
    pool &blocks() noexcept { return pool_; }

  private:
    bool fits(std::size_t bytes, std::size_t align) const noexcept {
        return bytes <= pool_.get()->block_bytes && align <= pool_.get()->align;
    }
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return fits(bytes, align) ? pool_.alloc(nullptr, 0) : upstream_->allocate(bytes, align);
    }
    void do_deallocate(void *p, std::size_t bytes, std::size_t align) override {
        if (fits(bytes, align))
            pool_.free(p, nullptr, 0);
        else
            upstream_->deallocate(p, bytes, align);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }

    pool pool_;
    std::pmr::memory_resource *upstream_;
};

namespace detail {

class node_pools {
  public:
    static constexpr std::size_t kStep = 16, kMost = 256;

    static constexpr bool serves(std::size_t bytes, std::size_t align) {
        return bytes <= kMost && align <= kStep;
    }
    void *alloc(std::size_t bytes) { return of(bytes).alloc(nullptr, 0); }
    void free(void *p, std::size_t bytes) noexcept { of(bytes).free(p, nullptr, 0); }

  private:
    pool &of(std::size_t bytes) {
        std::size_t i = (bytes + kStep - 1) / kStep - 1;
        if (!pools_[i]) {
            loam_pool_options options = {};
            options.align = kStep;
            pools_[i] = std::make_unique<pool>((i + 1) * kStep, options);
        }
        return *pools_[i];
    }

    std::unique_ptr<pool> pools_[kMost / kStep];
};

} // namespace detail

/* For containers that allocate nodes one by one (list, map, set, forward_list, shared_ptr's control block):
 * single objects of up to 256 bytes from pools, one for each 16 bytes of size, arrays (buckets) from operator new.
 * Copies share their pools, which end with the last of them. One thread at a time. */
template <typename T> class pool_allocator {
  public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    pool_allocator() : pools_(std::make_shared<detail::node_pools>()) {}
    /* Copied also where it could be moved: an allocator stays what it is. */
    pool_allocator(const pool_allocator &) noexcept = default;
    pool_allocator &operator=(const pool_allocator &) noexcept = default;
    template <typename U>
    pool_allocator(const pool_allocator<U> &other) noexcept : pools_(other.pools_) {}

    [[nodiscard]] T *allocate(std::size_t count) {
        if (count == 1 && detail::node_pools::serves(sizeof(T), alignof(T)))
            return static_cast<T *>(pools_->alloc(sizeof(T)));
        std::size_t bytes = detail::array_bytes<T>(count);
        if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
            return static_cast<T *>(::operator new(bytes, std::align_val_t(alignof(T))));
        else
            return static_cast<T *>(::operator new(bytes));
    }
    void deallocate(T *p, std::size_t count) noexcept {
        if (count == 1 && detail::node_pools::serves(sizeof(T), alignof(T)))
            pools_->free(p, sizeof(T));
        else if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
            ::operator delete(p, std::align_val_t(alignof(T)));
        else
            ::operator delete(p);
    }

    template <typename U> bool operator==(const pool_allocator<U> &other) const noexcept {
        return pools_ == other.pools_;
    }
    template <typename U> bool operator!=(const pool_allocator<U> &other) const noexcept {
        return pools_ != other.pools_;
    }

  private:
    template <typename U> friend class pool_allocator;
    std::shared_ptr<detail::node_pools> pools_;
};

namespace detail {

/* The pool of a class, for any thread, made at its first use. It is never taken down: objects may be deleted by
 * destructors of static ones. */
template <typename T, std::size_t kBlock, unsigned kTolerance, std::size_t kMost>
struct class_pool {
    static constexpr std::size_t kAlign = alignof(T) > 16 ? alignof(T) : kBlock % 16 == 0 ? 16 : 8;

    static bool serves(std::size_t bytes, std::size_t align) {
        return bytes <= kBlock && align <= kAlign && (kBlock - bytes) * 100 <= bytes * kTolerance;
    }
    static loam_shared_pool *get() {
        alignas(loam_shared_pool) static unsigned char memory[sizeof(loam_shared_pool)];
        static loam_shared_pool *const pool = [] {
            auto *made = reinterpret_cast<loam_shared_pool *>(memory);
            loam_pool_options options = {};
            options.align = kAlign;
            options.most_blocks = kMost;
            return loam_shared_pool_init(made, nullptr, kBlock, &options) == 0 ? made : nullptr;
        }();
        return pool;
    }
    static void *alloc(std::size_t bytes, std::size_t align) {
        loam_shared_pool *pool = serves(bytes, align) ? get() : nullptr;
        void *p = pool != nullptr ? loam_shared_pool_alloc_at(pool, nullptr, 0) : nullptr;
        if (p != nullptr) return p;
        if (align > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
            return ::operator new(bytes, std::align_val_t(align));
        return ::operator new(bytes);
    }
    static void free(void *p, std::size_t bytes, std::size_t align) noexcept {
        if (p == nullptr) return;
        if (serves(bytes, align)) {
            /* Without a limit it can have been full only where all memory was: then operator new had none, either. */
            loam_shared_pool *pool = get();
            if (pool != nullptr && (kMost == 0 || loam_shared_pool_owns(pool, p))) {
                loam_shared_pool_free_at(pool, p, nullptr, 0);
                return;
            }
        }
        if (align > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
            ::operator delete(p, std::align_val_t(align));
        else
            ::operator delete(p);
    }
};

} // namespace detail

/* In a class: its new and delete use a pool of blocks of block_bytes, most_blocks of them (0: no limit), and so do
 * those of classes derived from it that are no larger and for which a block is too large by at most tolerance per
 * cent. What is larger, or finds no block free, and arrays use the global operators. Derived classes that are
 * deleted by a pointer to the base need a virtual destructor, as ever: the size that reaches delete tells where an
 * object is from. */
#define LOAM_POOLED_BLOCKS(Class, block_bytes, tolerance, most_blocks) \
  public: \
    static void *operator new(std::size_t bytes) { \
        return ::loam::detail::class_pool<Class, (block_bytes), (tolerance), \
                                          (most_blocks)>::alloc(bytes, 1); \
    } \
    static void *operator new(std::size_t bytes, std::align_val_t align) { \
        return ::loam::detail::class_pool<Class, (block_bytes), (tolerance), \
                                          (most_blocks)>::alloc(bytes, \
                                                                static_cast<std::size_t>(align)); \
    } \
    static void operator delete(void *p, std::size_t bytes) noexcept { \
        ::loam::detail::class_pool<Class, (block_bytes), (tolerance), (most_blocks)>::free( \
            p, bytes, 1); \
    } \
    static void operator delete(void *p, std::size_t bytes, std::align_val_t align) noexcept { \
        ::loam::detail::class_pool<Class, (block_bytes), (tolerance), (most_blocks)>::free( \
            p, bytes, static_cast<std::size_t>(align)); \
    } \
    static void *operator new(std::size_t, void *p) noexcept { return p; } \
    static void operator delete(void *, void *) noexcept {}

/* The same with blocks for exactly this class, as many as it takes. */
#define LOAM_POOLED(Class) LOAM_POOLED_BLOCKS(Class, sizeof(Class), 0, 0)

} // namespace loam

#endif

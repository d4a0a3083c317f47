/* loam/pool.hpp: the pool for C++: objects by RAII, a memory resource, an allocator for node containers, and
 * operators new and delete of a class (loam/pool.h).
 *
 *     loam::pool<Particle> particles;             make and destroy; the end destroys no object by itself
 *     loam::pool_resource nodes(64);              std::pmr: up to 64 bytes from a pool, the rest from upstream
 *     std::list<int, loam::pool_allocator<int>> list;   nodes of all copies of one allocator from one pool
 *     class Shape { LOAM_POOLED(Shape) ... };     new Shape: from a pool of the class, any thread
 *
 * Out of memory is std::bad_alloc; nothing else is thrown but by constructors.
 */
#ifndef LOAM_POOL_HPP
#define LOAM_POOL_HPP

#include "loam/pool.h"

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace loam {

namespace detail {

inline loam_pool_options pool_options_for(std::size_t align, loam_pool_options options) {
    if (options.align < align) options.align = align;
    return options;
}

/* A pool of bytes that cannot be copied or moved: loam_pool stays where it is. */
class raw_pool {
  public:
    raw_pool(std::size_t block_bytes, const loam_pool_options &options, loam_source *source) {
        if (loam_pool_init(&pool_, source, block_bytes, &options) != 0) throw std::bad_alloc();
    }
    raw_pool(const raw_pool &) = delete;
    raw_pool &operator=(const raw_pool &) = delete;
    ~raw_pool() { loam_pool_deinit(&pool_); }

    void *alloc(const char *file, unsigned line) {
        void *p = loam_pool_alloc_at(&pool_, file, line);
        if (p == nullptr) throw std::bad_alloc();
        return p;
    }
    void free(void *p, const char *file, unsigned line) noexcept {
        loam_pool_free_at(&pool_, p, file, line);
    }
    loam_pool *get() noexcept { return &pool_; }
    const loam_pool *get() const noexcept { return &pool_; }

  private:
    loam_pool pool_;
};

} // namespace detail

/* Objects of one type. Memory of those still alive when it ends goes back without their destructors. */
template <typename T> class pool {
  public:
    explicit pool(const loam_pool_options &options = {}, loam_source *source = nullptr)
        : raw_(sizeof(T), detail::pool_options_for(alignof(T), options), source) {}

    /* A T made of args; std::bad_alloc iff there is no memory. What its constructor throws passes through,
     * and the block is free again. */
    template <typename... Args> [[nodiscard]] T *make(Args &&...args) {
        void *block = raw_.alloc(nullptr, 0);
        if constexpr (std::is_nothrow_constructible_v<T, Args...>) {
            return ::new (block) T(std::forward<Args>(args)...);
        } else {
            try {
                return ::new (block) T(std::forward<Args>(args)...);
            } catch (...) {
                raw_.free(block, nullptr, 0);
                throw;
            }
        }
    }
    /* Destroys an object of this pool; nullptr allowed. */
    void destroy(T *object, const char *file = __builtin_FILE(),
                 unsigned line = __builtin_LINE()) noexcept {
        if (object == nullptr) return;
        object->~T();
        raw_.free(object, file, line);
    }

    /* Memory for a T, and back: the caller constructs and destroys. */
    [[nodiscard]] void *alloc(const char *file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
        return raw_.alloc(file, line);
    }
    void free(void *block, const char *file = __builtin_FILE(),
              unsigned line = __builtin_LINE()) noexcept {
        raw_.free(block, file, line);
    }

    struct deleter {
        pool *owner;
        void operator()(T *object) const noexcept { owner->destroy(object); }
    };
    using unique_ptr = std::unique_ptr<T, deleter>;
    template <typename... Args> [[nodiscard]] unique_ptr make_unique(Args &&...args) {
        return unique_ptr(make(std::forward<Args>(args)...), deleter{this});
    }

    bool owns(const void *p) const noexcept { return loam_pool_owns(raw_.get(), p); }
    /* All objects are gone, without their destructors. */
    void reset() noexcept { loam_pool_reset(raw_.get()); }
    std::size_t trim() noexcept { return loam_pool_trim(raw_.get()); }
    bool check() const noexcept { return loam_pool_check(raw_.get()); }
    loam_usage usage() const noexcept {
        loam_usage usage;
        loam_pool_usage(raw_.get(), &usage);
        return usage;
    }
    loam_pool *get() noexcept { return raw_.get(); }

  private:
    detail::raw_pool raw_;
};

/* Blocks of one size for std::pmr: what is larger, or aligned to more, goes upstream. One thread at a time. */
class pool_resource final : public std::pmr::memory_resource {
  public:
    explicit pool_resource(std::size_t block_bytes, const loam_pool_options &options = {},
                           loam_source *source = nullptr,
                           std::pmr::memory_resource *upstream = std::pmr::get_default_resource())
        : raw_(block_bytes, options, source), upstream_(upstream) {}

    std::pmr::memory_resource *upstream_resource() const noexcept { return upstream_; }
    loam_pool *get() noexcept { return raw_.get(); }

  private:
    bool fits(std::size_t bytes, std::size_t align) const noexcept {
        return bytes <= raw_.get()->block_bytes && align <= raw_.get()->align;
    }
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return fits(bytes, align) ? raw_.alloc(nullptr, 0) : upstream_->allocate(bytes, align);
    }
    void do_deallocate(void *p, std::size_t bytes, std::size_t align) override {
        if (fits(bytes, align))
            raw_.free(p, nullptr, 0);
        else
            upstream_->deallocate(p, bytes, align);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }

    detail::raw_pool raw_;
    std::pmr::memory_resource *upstream_;
};

/* For containers that allocate nodes one by one (list, map, set, forward_list, shared_ptr's control block):
 * single objects of up to 256 bytes from pools, one for each 16 bytes of size, arrays (buckets) from operator new.
 * Copies share their pools, which end with the last of them. One thread at a time. */
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
    raw_pool &of(std::size_t bytes) {
        std::size_t i = (bytes + kStep - 1) / kStep - 1;
        if (!pools_[i]) {
            loam_pool_options options = {};
            options.align = kStep;
            pools_[i] = std::make_unique<raw_pool>((i + 1) * kStep, options, nullptr);
        }
        return *pools_[i];
    }

    std::unique_ptr<raw_pool> pools_[kMost / kStep];
};

} // namespace detail

template <typename T> class pool_allocator {
  public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    pool_allocator() : pools_(std::make_shared<detail::node_pools>()) {}
    template <typename U>
    pool_allocator(const pool_allocator<U> &other) noexcept : pools_(other.pools_) {}

    [[nodiscard]] T *allocate(std::size_t count) {
        if (count == 1 && detail::node_pools::serves(sizeof(T), alignof(T)))
            return static_cast<T *>(pools_->alloc(sizeof(T)));
        if (count > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(T)) throw std::bad_alloc();
        if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__) {
            return static_cast<T *>(
                ::operator new(count * sizeof(T), std::align_val_t(alignof(T))));
        } else {
            return static_cast<T *>(::operator new(count * sizeof(T)));
        }
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
 * destructors of static ones. Tolerance: per cent by which a block may be larger than what is asked for. */
template <typename T, unsigned Tolerance> struct class_pool {
    static bool serves(std::size_t bytes) {
        return bytes <= sizeof(T) && (sizeof(T) - bytes) * 100 <= bytes * Tolerance;
    }
    static loam_shared_pool *get() {
        alignas(loam_shared_pool) static unsigned char memory[sizeof(loam_shared_pool)];
        static loam_shared_pool *const pool = [] {
            auto *made = reinterpret_cast<loam_shared_pool *>(memory);
            loam_pool_options options = {};
            options.align = alignof(T) > 16 ? alignof(T) : 0;
            return loam_shared_pool_init(made, nullptr, sizeof(T), &options) == 0 ? made : nullptr;
        }();
        return pool;
    }
    static void *alloc(std::size_t bytes) {
        void *p = nullptr;
        if (!serves(bytes)) return ::operator new(bytes);
        if (loam_shared_pool *pool = get()) p = loam_shared_pool_alloc_at(pool, nullptr, 0);
        if (p == nullptr) throw std::bad_alloc();
        return p;
    }
    static void free(void *p, std::size_t bytes) noexcept {
        if (serves(bytes))
            loam_shared_pool_free_at(get(), p, nullptr, 0);
        else
            ::operator delete(p);
    }
};

} // namespace detail

/* In a class: new and delete of it, and of classes derived from it that are no larger and within the tolerance, use
 * a pool of the class; larger ones and arrays use the global operators. Derived classes that are deleted by a pointer
 * to the base need a virtual destructor, as ever: the size that reaches delete tells where an object is from. */
#define LOAM_POOLED_WITHIN(Class, tolerance)                                                    \
  public:                                                                                       \
    static void *operator new(std::size_t bytes) {                                              \
        return ::loam::detail::class_pool<Class, (tolerance)>::alloc(bytes);                    \
    }                                                                                           \
    static void operator delete(void *p, std::size_t bytes) noexcept {                          \
        if (p != nullptr) ::loam::detail::class_pool<Class, (tolerance)>::free(p, bytes);       \
    }                                                                                           \
    static void *operator new(std::size_t, void *p) noexcept { return p; }                      \
    static void operator delete(void *, void *) noexcept {}

#define LOAM_POOLED(Class) LOAM_POOLED_WITHIN(Class, 0)

/* The same as a base class. */
template <typename T, unsigned Tolerance = 0> struct pooled {
    LOAM_POOLED_WITHIN(T, Tolerance)
};

} // namespace loam

#endif

/* loam/pool.hpp: the pool for C++: blocks and objects by RAII, memory resources, an allocator for
 * node containers, and operators new and delete of a class (loam/pooled.hpp), over loam/pool.h.
 *
 *     loam::pool packets(1500);                         // blocks of 1500 bytes
 *     loam::pool_of<std::string> names;                 // its end destroys no object by itself
 *     names.destroy(names.make("loam"));
 *     loam::object_pool<std::string> all;               // its end destroys what is left
 *     loam::pool_resource nodes(64);                    // std::pmr: from a pool up to 64 bytes
 *     loam::shared_pool_resource shared(64);            // for many threads
 *     std::list<int, loam::pool_allocator<int>> list;   // a pool for all copies of its allocator
 *     class Shape : public loam::pooled<Shape> {};      // new Shape: from a pool of the class
 *     struct Point {
 *         LOAM_POOLED(Point)                            // a class that can have no further base
 *         int x = 0, y = 0;
 *     };
 *     delete new Shape;
 *     delete new Point;
 *
 * Choose pool_of for objects that you create by name, and an allocator or resource for containers
 * of nodes. Choose pooled or LOAM_POOLED for a class whose users need not know. No class here can
 * be moved, and none serves arrays from its blocks. Any thread may use pooled classes, shared_pool
 * and shared_pool_resource at any time; one thread at a time uses the others.
 *
 * If there is no memory, std::bad_alloc is thrown. The only other exceptions are those of your
 * constructors. */
#ifndef LOAM_POOL_HPP
#define LOAM_POOL_HPP

#include "loam/names_begin.h"

#include "loam/detail.hpp"
#include "loam/pool.h"

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace loam {

/** A pool of blocks of one size. It cannot be copied or moved. One thread at a time uses it. */
class pool {
  public:
    /** Throws std::bad_alloc iff loam_pool_init fails, for whatever reason. source: nullptr selects
     * loam_pages(). */
    explicit pool(std::size_t block_bytes, const loam_pool_options &options = {},
                  loam_source *source = nullptr, detail::checks checks = LOAM_CHECKS_) {
        if (loam_pool_init_as(&pool_, loam_pool_source_(source), block_bytes, &options,
                              checks.flags) != 0)
            detail::no_memory();
    }
    /** Sets the pool up in bytes of the caller's memory. Throws std::bad_alloc if
     * loam_pool_init_buffer fails. */
    pool(void *memory, std::size_t bytes, std::size_t block_bytes,
         const loam_pool_options &options = {}, detail::checks checks = LOAM_CHECKS_) {
        if (loam_pool_init_buffer_as(&pool_, memory, bytes, block_bytes, &options, checks.flags) !=
            0)
            detail::no_memory();
    }
    pool(const pool &) = delete;
    pool &operator=(const pool &) = delete;
    /** Gives all memory back, including blocks in use (loam_pool_deinit). */
    ~pool() { loam_pool_deinit(&pool_); }

    /** Returns a block of undefined contents. Throws std::bad_alloc if there is none. */
    [[nodiscard]] void *alloc(const char *file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
        return detail::need(loam_pool_alloc_at(&pool_, file, line));
    }
    /** Returns a block of undefined contents, or nullptr in place of std::bad_alloc. */
    [[nodiscard]] void *try_alloc(const char *file = __builtin_FILE(),
                                  unsigned line = __builtin_LINE()) noexcept {
        return loam_pool_alloc_at(&pool_, file, line);
    }
    /** Frees a block of this pool. nullptr is allowed. */
    void free(void *block, const char *file = __builtin_FILE(),
              unsigned line = __builtin_LINE()) noexcept {
        loam_pool_free_at(&pool_, block, file, line);
    }

    /** Returns whether p is a block of this pool, in use or free (loam_pool_owns). */
    bool owns(const void *p) const noexcept { return loam_pool_owns(&pool_, p); }
    /** Frees all blocks at once (loam_pool_reset). */
    void reset() noexcept { loam_pool_reset(&pool_); }
    /** Gives chunks without a block in use back, and returns their bytes (loam_pool_trim). */
    std::size_t trim() noexcept { return loam_pool_trim(&pool_); }
    /** Walks the pool and returns whether it is undamaged (loam_pool_check). */
    bool check() const noexcept { return loam_pool_check(&pool_); }
    /** Returns the pool's numbers (loam_pool_usage). */
    loam_usage usage() const noexcept {
        loam_usage usage;
        loam_pool_usage(&pool_, &usage);
        return usage;
    }
    /** Returns the pool for the functions of loam/pool.h. */
    loam_pool *get() noexcept { return &pool_; }
    /** Returns the pool for the functions of loam/pool.h. */
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

/** A pool of objects of one type. Its end gives the memory of live objects back without their
 * destructors: object_pool runs them. One thread at a time uses it. */
template <typename T> class pool_of {
  public:
    /** Throws std::bad_alloc if loam_pool_init fails. options.align is raised to alignof(T). */
    explicit pool_of(const loam_pool_options &options = {}, loam_source *source = nullptr,
                     detail::checks checks = LOAM_CHECKS_)
        : pool_(sizeof(T), detail::pool_options_for(alignof(T), options), source, checks) {}

    /** make(args...) returns a T made of args. Throws std::bad_alloc iff there is no memory. What
     * T's constructor throws passes through, and the block is free again. */
#define LOAM_FORM_(n) \
    template <typename Made = T LOAM_TYPES_##n##_> \
    [[nodiscard]] T *make(LOAM_ARGUMENTS_##n##_ detail::place at = detail::place::here()) { \
        return make_at(at LOAM_FORWARD_##n##_); \
    }
    LOAM_FOR_EACH_ARITY_(LOAM_FORM_)
#undef LOAM_FORM_
    template <typename Made = T LOAM_TYPES_MORE_> [[nodiscard]] T *make(LOAM_ARGUMENTS_MORE_) {
        return make_at(detail::place{nullptr, 0} LOAM_FORWARD_MORE_);
    }
    /** Destroys an object of this pool and frees its block. nullptr is allowed. */
    void destroy(T *object, const char *file = __builtin_FILE(),
                 unsigned line = __builtin_LINE()) noexcept {
        if (object == nullptr) return;
        object->~T();
        pool_.free(object, file, line);
    }

    /** Deleter of unique_ptr: destroys the object in its pool. */
    struct deleter {
        pool_of *owner;
        void operator()(T *object) const noexcept { owner->destroy(object); }
    };
    /** Owner of one object. The pool must outlive it. */
    using unique_ptr = std::unique_ptr<T, deleter>;
/** make_unique(args...) does what make does, and returns an owner of the object. */
#define LOAM_FORM_(n) \
    template <typename Made = T LOAM_TYPES_##n##_> \
    [[nodiscard]] unique_ptr make_unique(LOAM_ARGUMENTS_##n##_ detail::place at = \
                                             detail::place::here()) { \
        return unique_ptr(make_at(at LOAM_FORWARD_##n##_), deleter{this}); \
    }
    LOAM_FOR_EACH_ARITY_(LOAM_FORM_)
#undef LOAM_FORM_
    template <typename Made = T LOAM_TYPES_MORE_>
    [[nodiscard]] unique_ptr make_unique(LOAM_ARGUMENTS_MORE_) {
        return unique_ptr(make_at(detail::place{nullptr, 0} LOAM_FORWARD_MORE_), deleter{this});
    }

    /** Returns whether p is a block of this pool, in use or free (loam_pool_owns). */
    bool owns(const void *p) const noexcept { return pool_.owns(p); }
    /** Frees all objects at once, without their destructors. */
    void reset() noexcept { pool_.reset(); }
    /** Destroys every object, in no particular order, and returns their number. No destructor may
     * use the pool, and each block in use must hold an object. O(blocks). */
    std::size_t destroy_all() noexcept {
        return loam_pool_visit(
            pool_.get(),
            [](void *object, void *pool_of_it) {
                static_cast<T *>(object)->~T();
                static_cast<pool *>(pool_of_it)->free(object);
                return true;
            },
            &pool_);
    }
    /** Gives chunks without an object back, and returns their bytes (loam_pool_trim). */
    std::size_t trim() noexcept { return pool_.trim(); }
    /** Walks the pool and returns whether it is undamaged (loam_pool_check). */
    bool check() const noexcept { return pool_.check(); }
    /** Returns the pool's numbers (loam_pool_usage). */
    loam_usage usage() const noexcept { return pool_.usage(); }
    /** Returns the pool behind it, whose blocks hold a T each. The caller constructs and
     * destroys. */
    pool &blocks() noexcept { return pool_; }

  private:
    template <typename... Args> T *make_at(detail::place at, Args &&...args) {
        void *block = pool_.alloc(at.file, at.line);
        return detail::construct<T>(
            block, [&] { pool_.free(block, nullptr, 0); }, std::forward<Args>(args)...);
    }

    pool pool_;
};

/** A pool_of whose end and reset destroy the objects that are left (destroy_all). */
template <typename T> class object_pool : public pool_of<T> {
  public:
    using pool_of<T>::pool_of;
    /** Destroys the objects that are left. */
    ~object_pool() { (void)this->destroy_all(); }
    /** Destroys the objects that are left, and frees all blocks at once. */
    void reset() noexcept {
        (void)this->destroy_all();
        pool_of<T>::reset();
    }
};

/** A std::pmr resource of blocks of one size. A request that is larger, or aligned to more, goes
 * upstream. One thread at a time uses it. Reports of a checked pool name the line where the
 * resource was made. */
class pool_resource final : public std::pmr::memory_resource {
  public:
    /** Throws std::bad_alloc if loam_pool_init fails. Both source and upstream must outlive the
     * resource. */
    explicit pool_resource(std::size_t block_bytes, const loam_pool_options &options = {},
                           loam_source *source = nullptr,
                           std::pmr::memory_resource *upstream = std::pmr::get_default_resource(),
                           detail::checks checks = LOAM_CHECKS_,
                           detail::place at = detail::place::here())
        : pool_(block_bytes, options, source, checks), upstream_(upstream), at_(at) {}

    /** Returns the resource of requests that no block fits. */
    std::pmr::memory_resource *upstream_resource() const noexcept { return upstream_; }
    /** Returns the pool behind the resource. */
    pool &blocks() noexcept { return pool_; }

  private:
    bool fits(std::size_t bytes, std::size_t align) const noexcept {
        return bytes <= pool_.get()->block_bytes && align <= pool_.get()->align;
    }
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return fits(bytes, align) ? pool_.alloc(at_.file, at_.line)
                                  : upstream_->allocate(bytes, align);
    }
    void do_deallocate(void *p, std::size_t bytes, std::size_t align) override {
        if (fits(bytes, align))
            pool_.free(p, at_.file, at_.line);
        else
            upstream_->deallocate(p, bytes, align);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }

    pool pool_;
    std::pmr::memory_resource *upstream_;
    detail::place at_;
};

/** A pool of blocks of one size for many threads, each of which keeps some blocks at hand
 * (loam_shared_pool). It cannot be copied or moved. Any thread may use it until its destructor
 * runs. */
class shared_pool {
  public:
    /** Throws std::bad_alloc iff loam_shared_pool_init fails, for whatever reason. */
    explicit shared_pool(std::size_t block_bytes, const loam_pool_options &options = {},
                         loam_source *source = nullptr, detail::checks checks = LOAM_CHECKS_) {
        if (loam_shared_pool_init_as(&pool_, loam_pool_source_(source), block_bytes, &options,
                                     checks.flags) != 0)
            detail::no_memory();
    }
    shared_pool(const shared_pool &) = delete;
    shared_pool &operator=(const shared_pool &) = delete;
    /** Gives all memory back. No other thread may use the pool any more. */
    ~shared_pool() { loam_shared_pool_deinit(&pool_); }

    /** Returns a block of undefined contents, on any thread. Throws std::bad_alloc if there is
     * none. */
    [[nodiscard]] void *alloc(const char *file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
        return detail::need(loam_shared_pool_alloc_at(&pool_, file, line));
    }
    /** Returns a block of undefined contents, or nullptr in place of std::bad_alloc. */
    [[nodiscard]] void *try_alloc(const char *file = __builtin_FILE(),
                                  unsigned line = __builtin_LINE()) noexcept {
        return loam_shared_pool_alloc_at(&pool_, file, line);
    }
    /** Frees a block of this pool, on any thread. nullptr is allowed. */
    void free(void *block, const char *file = __builtin_FILE(),
              unsigned line = __builtin_LINE()) noexcept {
        loam_shared_pool_free_at(&pool_, block, file, line);
    }

    /** Returns whether p is a block of this pool, in use or free (loam_shared_pool_owns). */
    bool owns(const void *p) noexcept { return loam_shared_pool_owns(&pool_, p); }
    /** Gives unused memory back, and returns its bytes (loam_shared_pool_trim). */
    std::size_t trim() noexcept { return loam_shared_pool_trim(&pool_); }
    /** Walks the pool and returns whether it is undamaged (loam_shared_pool_check). */
    bool check() noexcept { return loam_shared_pool_check(&pool_); }
    /** Returns the pool's numbers. Blocks in magazines count as free (loam_shared_pool_usage). */
    loam_usage usage() noexcept {
        loam_usage usage;
        loam_shared_pool_usage(&pool_, &usage);
        return usage;
    }
    /** Returns the pool for the functions of loam/pool.h. */
    loam_shared_pool *get() noexcept { return &pool_; }
    /** Returns the pool for the functions of loam/pool.h. */
    const loam_shared_pool *get() const noexcept { return &pool_; }

  private:
    loam_shared_pool pool_;
};

/** A pool_resource for many threads. upstream must serve many threads as well, as std::pmr's
 * new_delete_resource does, which is the default. */
class shared_pool_resource final : public std::pmr::memory_resource {
  public:
    /** Throws std::bad_alloc if loam_shared_pool_init fails. source and upstream must outlive the
     * resource. */
    explicit shared_pool_resource(
        std::size_t block_bytes, const loam_pool_options &options = {},
        loam_source *source = nullptr,
        std::pmr::memory_resource *upstream = std::pmr::get_default_resource(),
        detail::checks checks = LOAM_CHECKS_, detail::place at = detail::place::here())
        : pool_(block_bytes, options, source, checks), upstream_(upstream), at_(at) {}

    /** Returns the resource of requests that no block fits. */
    std::pmr::memory_resource *upstream_resource() const noexcept { return upstream_; }
    /** Returns the pool behind the resource. */
    shared_pool &blocks() noexcept { return pool_; }

  private:
    bool fits(std::size_t bytes, std::size_t align) const noexcept {
        const loam_pool &inner = pool_.get()->pool; /* these two members do not change */
        return bytes <= inner.block_bytes && align <= inner.align;
    }
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return fits(bytes, align) ? pool_.alloc(at_.file, at_.line)
                                  : upstream_->allocate(bytes, align);
    }
    void do_deallocate(void *p, std::size_t bytes, std::size_t align) override {
        if (fits(bytes, align))
            pool_.free(p, at_.file, at_.line);
        else
            upstream_->deallocate(p, bytes, align);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        /* Without RTTI no code can tell what the other resource is. */
        return this == &other;
    }

    shared_pool pool_;
    std::pmr::memory_resource *upstream_;
    detail::place at_;
};

namespace detail {

/** The pools of a pool_allocator and its copies: one for each 16 bytes of size, up to 256 bytes. */
class node_pools {
  public:
    static constexpr std::size_t kStep = 16, kMost = 256;
    static constexpr std::size_t kFirst = 4; /**< nodes in the first chunk */

    explicit node_pools(checks own) noexcept : checks_(own) {}
    static constexpr bool serves(std::size_t bytes, std::size_t align) {
        return bytes <= kMost && align <= kStep;
    }
    node_pools(const node_pools &) = delete;
    node_pools &operator=(const node_pools &) = delete;
    ~node_pools() {
        for (loam_pool *each : pools_) loam_pool_destroy(each);
    }
    void *alloc(std::size_t bytes) { return need(loam_pool_alloc_at(of(bytes), nullptr, 0)); }
    void free(void *p, std::size_t bytes) noexcept {
        loam_pool_free_at(pools_[(bytes + kStep - 1) / kStep - 1], p, nullptr, 0);
    }

  private:
    /* The pool lies in its own first chunk. Chunks double, so that many nodes cost no more than
     * with larger chunks. */
    loam_pool *of(std::size_t bytes) {
        std::size_t i = (bytes + kStep - 1) / kStep - 1;
        if (LOAM_UNLIKELY(pools_[i] == nullptr)) pools_[i] = made(i);
        return pools_[i];
    }
    loam_pool *made(std::size_t i) const {
        loam_pool_options options = {};
        options.align = kStep;
        options.first_blocks = kFirst;
        return static_cast<loam_pool *>(need(
            loam_pool_create_as(loam_heap_source(), (i + 1) * kStep, &options, checks_.flags)));
    }

    loam_pool *pools_[kMost / kStep] = {};
    checks checks_;
};

} // namespace detail

/** An allocator for containers that allocate nodes one by one: list, map, set, forward_list,
 * shared_ptr's control block. Single objects of up to 256 bytes come from pools, one for each 16
 * bytes of size. Arrays (buckets) come from operator new. Copies of an allocator share their pools,
 * which end with the last copy; a copy of a container shares them, too. Each container that is made
 * without an allocator has pools of its own: a map with 3 nodes holds about 1 KiB. As with
 * std::pmr, a container keeps its allocator for life: assignment copies or moves the elements, and
 * containers may be swapped only if their allocators are equal. One thread at a time uses all
 * containers that share pools. Checks is for LOAM_CHECKED: it makes another type in a file that is
 * compiled with it. */
template <typename T, typename Checks = detail::checks_of_file> class pool_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;

    /** Makes an empty set of pools. Throws std::bad_alloc if there is no memory for it. */
    pool_allocator()
        : pools_(std::make_shared<detail::node_pools>(detail::checks{Checks::value})) {}
    /** Shares other's pools. A moved-from allocator stays what it is, because it is copied. */
    pool_allocator(const pool_allocator &) noexcept = default;
    pool_allocator &operator=(const pool_allocator &) noexcept = default;
    /** Shares the pools of an allocator of another type. */
    template <typename U>
    pool_allocator(const pool_allocator<U, Checks> &other) noexcept : pools_(other.pools_) {}

    /** Returns memory for count objects. Throws std::bad_alloc if there is none. */
    [[nodiscard]] T *allocate(std::size_t count) {
        if (count == 1 && detail::node_pools::serves(sizeof(T), alignof(T)))
            return static_cast<T *>(pools_->alloc(sizeof(T)));
        std::size_t bytes = detail::array_bytes<T>(count);
        if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
            return static_cast<T *>(::operator new(bytes, std::align_val_t(alignof(T))));
        else
            return static_cast<T *>(::operator new(bytes));
    }
    /** Frees what allocate returned for the same count. */
    void deallocate(T *p, std::size_t count) noexcept {
        if (count == 1 && detail::node_pools::serves(sizeof(T), alignof(T)))
            pools_->free(p, sizeof(T));
        else if constexpr (alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
            ::operator delete(p, std::align_val_t(alignof(T)));
        else
            ::operator delete(p);
    }

    /** Returns whether the allocators share their pools. */
    template <typename U> bool operator==(const pool_allocator<U, Checks> &other) const noexcept {
        return pools_ == other.pools_;
    }
    /** Returns whether the allocators have different pools. */
    template <typename U> bool operator!=(const pool_allocator<U, Checks> &other) const noexcept {
        return pools_ != other.pools_;
    }

  private:
    template <typename U, typename C> friend class pool_allocator;
    std::shared_ptr<detail::node_pools> pools_;
};

} // namespace loam

#include "loam/pooled.hpp"

#include "loam/names_end.h"

#endif

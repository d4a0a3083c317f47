/* loam/pooled.hpp: classes whose new and delete use a pool of the class (loam/class_pool.h).
 *
 *     class Shape : public loam::pooled<Shape> {};      // new Shape: from a pool of the class
 *     struct Point {
 *         LOAM_POOLED(Point)                            // a class that can have no further base
 *         int x = 0, y = 0;
 *     };
 *     delete new Shape;
 *     delete new Point;
 *     loam::class_pool<Shape>::trim();                  // gives memory back that no Shape uses
 *
 * Choose it for a class of which many objects come and go one by one, if the code that uses the
 * class must not change. Arrays do not come from the pool. Choose loam::pool_of (loam/pool.hpp) if
 * one owner has all objects, and they end with it.
 *
 *   new T ──> size and alignment fit a block ──> pool of the class ── no memory ──> new handler,
 *         │                                                                         std::bad_alloc
 *         └─> any other, and beyond most_blocks ──> ::operator new
 *
 * Threads: any thread may use a pooled class, and delete an object of another thread. Fork: the
 * child has all objects. Free blocks in the magazines of other threads are lost to it, as
 * loam_shared_pool in loam/pool.h says.
 *
 * Invariant: delete returns an object to the pool or operator that new took it from, whichever
 * module of the process calls it; tests/family/class_pool_test.cc checks it.
 */
#ifndef LOAM_POOLED_HPP
#define LOAM_POOLED_HPP

#include "loam/names_begin.h"

#include "loam/class_pool.h"
#include "loam/detail.hpp"

#include <cstddef>
#include <cstring>
#include <new>

namespace loam {

namespace detail {

/* Returns the name of T, as the compiler writes it: "Shape" of "... [with T = Shape]". All modules
 * get the same name. *bytes is its length. */
template <typename T> const char *class_name(std::size_t *bytes) noexcept {
    const char *text = __PRETTY_FUNCTION__;
    const char *at = std::strstr(text, "T = ");
    at = at != nullptr ? at + 4 : text;
    const char *end = std::strchr(at, ';'), *last = std::strrchr(at, ']');
    if (end == nullptr) end = last != nullptr ? last : at + std::strlen(at);
    *bytes = static_cast<std::size_t>(end - at);
    return at;
}
/* Returns whether T is in an unnamed namespace: two files may have such classes of one name. */
inline bool has_no_linkage(const char *name) noexcept {
    return std::strstr(name, "anonymous") != nullptr || std::strstr(name, "unnamed") != nullptr;
}

constexpr std::size_t lowest_bit(std::size_t x) noexcept { return x & (0 - x); }
constexpr std::size_t larger_of(std::size_t a, std::size_t b) noexcept { return a > b ? a : b; }

inline void *global_new(std::size_t bytes, std::size_t align) {
    if (align > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
        return ::operator new(bytes, std::align_val_t(align));
    return ::operator new(bytes);
}
inline void global_delete(void *p, std::size_t align) noexcept {
    if (align > __STDCPP_DEFAULT_NEW_ALIGNMENT__)
        ::operator delete(p, std::align_val_t(align));
    else
        ::operator delete(p);
}

/* If the constructor of an aligned object throws, C++ looks for a delete with the parameters of
 * new, without a size. Without this parameter that delete would be used for all other objects,
 * too. */
struct class_pool_tag {};

/* The pool of a class, for any thread and any module of the process, made at its first use
 * (loam/class_pool.h). It is never taken down: destructors of static objects may delete objects.
 *
 * If the pool has no limit, size and alignment alone decide whether an object is from the pool; if
 * the pool has no memory, new throws std::bad_alloc. If the pool has a limit, an object of that
 * size may be from operator new, and its address tells. An align of 1 means a plain new. Then the
 * object may need the largest alignment that divides its size, but no more than a plain operator
 * new gives. */
template <typename T, std::size_t kBlock, unsigned kTolerance, std::size_t kMost>
struct class_pool {
    static_assert(kBlock >= sizeof(T), "a block of LOAM_POOLED_BLOCKS is smaller than its class");

    static constexpr std::size_t kPlain = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
    static constexpr bool fits(std::size_t bytes) noexcept {
        return bytes <= kBlock && (kBlock - bytes) * 100 <= bytes * kTolerance;
    }
    static constexpr std::size_t align_of(std::size_t bytes, std::size_t align) noexcept {
        std::size_t most = lowest_bit(bytes | kPlain);
        return larger_of(align, most);
    }
    /* Alignment of a block: enough for each plain new of a size that fits. */
    static constexpr std::size_t kAlign =
        larger_of(larger_of(alignof(T), alignof(void *)),
                  fits(kBlock / kPlain * kPlain) ? kPlain : lowest_bit(kBlock | kPlain));

    static constexpr bool serves(std::size_t bytes, std::size_t align) noexcept {
        return fits(bytes) && align_of(bytes, align) <= kAlign;
    }
    /* Returns the pool; nullptr if there is no memory for it. */
    static loam_shared_pool *get() noexcept {
        loam_shared_pool *pool = __atomic_load_n(&found, __ATOMIC_ACQUIRE);
        return LOAM_LIKELY(pool != nullptr) ? pool : find();
    }
    static loam_shared_pool *loam_pool_() noexcept { return get(); }
    /* Returns a block, or nullptr if there is none. file and line are those of the class. */
    static void *try_alloc(std::size_t bytes, std::size_t align, const char *file,
                           unsigned line) noexcept {
        loam_shared_pool *pool = serves(bytes, align) ? get() : nullptr;
        return pool != nullptr ? loam_shared_pool_alloc_at(pool, file, line) : nullptr;
    }
    static void *loam_take_(std::size_t bytes, std::size_t align, const char *file, unsigned line) {
        void *p = try_alloc(bytes, align, file, line);
        return LOAM_LIKELY(p != nullptr) ? p : alloc_more(bytes, align, file, line);
    }
    static void *loam_try_take_(std::size_t bytes, std::size_t align, const char *file,
                                unsigned line) noexcept {
        void *p = try_alloc(bytes, align, file, line);
        if (LOAM_LIKELY(p != nullptr)) return p;
#if defined(__cpp_exceptions)
        try {
            return alloc_more(bytes, align, file, line);
        } catch (...) {
            return nullptr;
        }
#else
        if (kMost == 0 && serves(bytes, align)) return nullptr;
        if (align > kPlain) return ::operator new(bytes, std::align_val_t(align), std::nothrow);
        return ::operator new(bytes, std::nothrow);
#endif
    }
    static void loam_give_(void *p, std::size_t bytes, std::size_t align, const char *file,
                           unsigned line) noexcept {
        if (p == nullptr) return;
        if (!serves(bytes, align))
            global_delete(p, align);
        else if (kMost == 0)
            loam_shared_pool_free_at(get(), p, file, line);
        else
            loam_give_unsized_(p, align, file, line);
    }
    /* Frees an object without its size: the address tells where it is from. */
    static void loam_give_unsized_(void *p, std::size_t align, const char *file,
                                   unsigned line) noexcept {
        if (p == nullptr) return;
        loam_shared_pool *pool = get();
        if (pool != nullptr && loam_shared_pool_owns(pool, p))
            loam_shared_pool_free_at(pool, p, file, line);
        else
            global_delete(p, align);
    }

  private:
    static loam_shared_pool *found; /* atomic */

    [[gnu::cold]] static loam_shared_pool *find() noexcept {
        loam_class_pool_key key = {};
        key.name = class_name<T>(&key.name_bytes);
        key.block_bytes = kBlock;
        key.align = kAlign;
        key.most_blocks = kMost;
        key.module = kMost != 0 && has_no_linkage(key.name) ? &found : nullptr;
        key.flags = LOAM_CHECKED ? unsigned{LOAM_CHECK} : 0u;
        loam_shared_pool *pool = loam_class_pool_find(&key);
        __atomic_store_n(&found, pool, __ATOMIC_RELEASE);
        return pool;
    }
    /* Finishes new as operator new does: calls the new handler as long as there is one. */
    [[gnu::cold]] static void *alloc_more(std::size_t bytes, std::size_t align, const char *file,
                                          unsigned line) {
        if (kMost != 0 || !serves(bytes, align)) return global_new(bytes, align);
        return need(new_again([=]() noexcept { return try_alloc(bytes, align, file, line); }));
    }
};
template <typename T, std::size_t kBlock, unsigned kTolerance, std::size_t kMost>
loam_shared_pool *class_pool<T, kBlock, kTolerance, kMost>::found;

} // namespace detail

/** The pool of a pooled class T as a whole. Any thread may use it. */
template <typename T> struct class_pool {
    /** Gives memory back to the system, as loam_shared_pool_trim does; returns the number of bytes.
     * (loam_class_pools_trim does so for all pooled classes.) */
    static std::size_t trim() noexcept {
        loam_shared_pool *pool = get();
        return pool != nullptr ? loam_shared_pool_trim(pool) : 0;
    }
    /** Checks the pool (loam_shared_pool_check); true if it is sound. */
    static bool check() noexcept {
        loam_shared_pool *pool = get();
        return pool == nullptr || loam_shared_pool_check(pool);
    }
    /** Returns the pool's numbers (loam_shared_pool_usage). Its name is the class's name. */
    static loam_usage usage() noexcept {
        loam_usage usage = {};
        if (loam_shared_pool *pool = get()) loam_shared_pool_usage(pool, &usage);
        return usage;
    }
    /** Returns whether p points into a block of the pool (loam_shared_pool_owns). */
    static bool owns(const void *p) noexcept {
        loam_shared_pool *pool = get();
        return pool != nullptr && loam_shared_pool_owns(pool, p);
    }
    /** Returns the pool, which it makes if need be; nullptr if there is no memory for it. */
    static loam_shared_pool *get() noexcept { return T::loam_class_pool_(); }
};

/** Use it in a class: its new and delete then use a pool of blocks of `block_bytes` bytes. Derived
 * classes use the pool as well if they fit into a block, and a block is too large for them by at
 * most `tolerance` per cent. `most_blocks` is the maximum number of blocks; 0: no limit. The global
 * operators serve larger or more aligned objects, arrays, and objects beyond most_blocks. Without a
 * limit, new calls the program's new handler while the pool has no memory, and throws
 * std::bad_alloc at last. new (std::nothrow), placement new and all forms of arrays work. A derived
 * class that is deleted by a pointer to its base needs a virtual destructor, as usual in C++: the
 * size that delete gets tells where an object is from.
 *
 * A block must be at least as large as the class, which is checked at compile time. The pool has
 * the class's name, and all modules of a process share it (loam/class_pool.h).
 * loam::class_pool<Class> trims and measures it.
 *
 * Members after the macro are public. Derive from loam::pooled to avoid that. */
#define LOAM_POOLED_BLOCKS(Class, block_bytes, tolerance, most_blocks) \
  public: \
    LOAM_POOLED_OPERATORS_( \
        Class, (::loam::detail::class_pool<Class, (block_bytes), (tolerance), (most_blocks)>))

/* The pool's type is in parentheses because it has commas. No macro of a program can have these
 * names. */
#define LOAM_POOLED_TYPE_(...) __VA_ARGS__
#define LOAM_POOLED_OPERATORS_(Class, Pool) \
    static ::loam_shared_pool *loam_class_pool_() noexcept { \
        return LOAM_POOLED_TYPE_ Pool::loam_pool_(); \
    } \
    static void *operator new(std::size_t loam_bytes_) { \
        return LOAM_POOLED_TYPE_ Pool::loam_take_(loam_bytes_, 1, LOAM_HERE); \
    } \
    static void *operator new(std::size_t loam_bytes_, std::align_val_t loam_align_, \
                              ::loam::detail::class_pool_tag = {}) { \
        return LOAM_POOLED_TYPE_ Pool::loam_take_( \
            loam_bytes_, static_cast<std::size_t>(loam_align_), LOAM_HERE); \
    } \
    static void *operator new(std::size_t loam_bytes_, const std::nothrow_t &) noexcept { \
        return LOAM_POOLED_TYPE_ Pool::loam_try_take_(loam_bytes_, 1, LOAM_HERE); \
    } \
    static void *operator new(std::size_t loam_bytes_, std::align_val_t loam_align_, \
                              const std::nothrow_t &) noexcept { \
        return LOAM_POOLED_TYPE_ Pool::loam_try_take_( \
            loam_bytes_, static_cast<std::size_t>(loam_align_), LOAM_HERE); \
    } \
    static void *operator new(std::size_t, void *loam_p_) noexcept { return loam_p_; } \
    static void operator delete(void *loam_p_, std::size_t loam_bytes_) noexcept { \
        LOAM_POOLED_TYPE_ Pool::loam_give_(loam_p_, loam_bytes_, 1, LOAM_HERE); \
    } \
    static void operator delete(void *loam_p_, std::size_t loam_bytes_, \
                                std::align_val_t loam_align_) noexcept { \
        LOAM_POOLED_TYPE_ Pool::loam_give_(loam_p_, loam_bytes_, \
                                           static_cast<std::size_t>(loam_align_), LOAM_HERE); \
    } \
    static void operator delete(void *loam_p_, std::align_val_t loam_align_, \
                                ::loam::detail::class_pool_tag) noexcept { \
        LOAM_POOLED_TYPE_ Pool::loam_give_unsized_(loam_p_, static_cast<std::size_t>(loam_align_), \
                                                   LOAM_HERE); \
    } \
    static void operator delete(void *loam_p_, const std::nothrow_t &) noexcept { \
        LOAM_POOLED_TYPE_ Pool::loam_give_unsized_(loam_p_, 1, LOAM_HERE); \
    } \
    static void operator delete(void *loam_p_, std::align_val_t loam_align_, \
                                const std::nothrow_t &) noexcept { \
        LOAM_POOLED_TYPE_ Pool::loam_give_unsized_(loam_p_, static_cast<std::size_t>(loam_align_), \
                                                   LOAM_HERE); \
    } \
    static void operator delete(void *, void *) noexcept {}

/** LOAM_POOLED_BLOCKS with blocks of the class's size, without a limit. */
#define LOAM_POOLED(Class) LOAM_POOLED_BLOCKS(Class, sizeof(Class), 0, 0)

/** A base class that does what LOAM_POOLED_BLOCKS does, and leaves the access of the class's
 * members as it is:
 *
 *     class Shape : public loam::pooled<Shape> { int secret; };
 *
 * A `block_bytes` of 0 selects the size of the class. The base is empty. */
template <typename Class, std::size_t block_bytes = 0, unsigned tolerance = 0,
          std::size_t most_blocks = 0>
class pooled {
    LOAM_POOLED_BLOCKS(Class, block_bytes != 0 ? block_bytes : sizeof(Class), tolerance,
                       most_blocks)
};

} // namespace loam

#include "loam/names_end.h"

#endif

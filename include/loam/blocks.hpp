/* loam/blocks.hpp: blocks for C++: an owner, a memory resource, an allocator for containers
 * (loam/blocks.h).
 *
 *     loam::blocks blocks;                        // ends with its scope, and all memory with it
 *     auto *text = blocks.make<std::string>(7, 'x');
 *     blocks.destroy(text);
 *     loam::blocks_map<int, int> map(blocks);     // also list, set, vector, string
 *     loam::blocks_resource resource;
 *     std::pmr::vector<int> numbers(&resource);
 *
 * Containers over blocks must end before the blocks. One thread at a time uses them, unless the
 * options have LOAM_THREADS. If there is no memory, std::bad_alloc is thrown. The only other
 * exceptions are those of objects' constructors. */
#ifndef LOAM_BLOCKS_HPP
#define LOAM_BLOCKS_HPP

#include "loam/names_begin.h"

#include "loam/blocks.h"
#include "loam/detail.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <forward_list>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <queue>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace loam {

/** A set of blocks. It cannot be copied or moved. */
class blocks {
  public:
    /** Throws std::bad_alloc iff options are not valid, or the source has no memory. */
    explicit blocks(const loam_blocks_options &options = {}, detail::checks checks = LOAM_CHECKS_) {
        if (loam_blocks_init_flags(&blocks_, &options, checks.flags) != 0) detail::no_memory();
    }
    blocks(const blocks &) = delete;
    blocks &operator=(const blocks &) = delete;
    /** Gives all memory back, live objects included (loam_blocks_deinit). */
    ~blocks() { loam_blocks_deinit(&blocks_); }

    /** Returns memory of `bytes` bytes, aligned as by loam_blocks_alloc. Throws std::bad_alloc iff
     * there is none. */
    [[nodiscard]] void *alloc(std::size_t bytes, const char *file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
        return detail::need(loam_blocks_alloc_at(&blocks_, bytes, file, line));
    }
    /** Returns memory of `bytes` bytes at a multiple of align, a power of two up to 64 KiB. Throws
     * std::bad_alloc iff there is none. */
    [[nodiscard]] void *alloc_aligned(std::size_t bytes, std::size_t align,
                                      const char *file = __builtin_FILE(),
                                      unsigned line = __builtin_LINE()) {
        return detail::need(align <= 8 || (align == 16 && bytes > 8)
                                ? loam_blocks_alloc_at(&blocks_, bytes, file, line)
                                : loam_blocks_alloc_aligned_at(&blocks_, bytes, align, file, line));
    }
    /** Does what loam_blocks_realloc does: bytes 0 frees p and returns nullptr. Throws
     * std::bad_alloc if there is no memory; p is unchanged then. */
    void *realloc(void *p, std::size_t bytes, const char *file = __builtin_FILE(),
                  unsigned line = __builtin_LINE()) {
        void *to = loam_blocks_realloc_at(&blocks_, p, bytes, file, line);
        return bytes != 0 || p == nullptr ? detail::need(to) : to;
    }
    /** Frees an object of these blocks. nullptr is allowed. */
    void free(void *p, const char *file = __builtin_FILE(),
              unsigned line = __builtin_LINE()) noexcept {
        loam_blocks_free_at(&blocks_, p, file, line);
    }

    /** make<T>(args...) returns a T made of args. What its constructor throws passes through, and
     * the block is free again. */
#define LOAM_FORM_(n) \
    template <typename T LOAM_TYPES_##n##_> \
    [[nodiscard]] T *make(LOAM_ARGUMENTS_##n##_ detail::place at = detail::place::here()) { \
        return make_at<T>(at LOAM_FORWARD_##n##_); \
    }
    LOAM_FOR_EACH_ARITY_(LOAM_FORM_)
#undef LOAM_FORM_
    template <typename T LOAM_TYPES_MORE_> [[nodiscard]] T *make(LOAM_ARGUMENTS_MORE_) {
        return make_at<T>(detail::place{nullptr, 0} LOAM_FORWARD_MORE_);
    }
    /** Destroys an object of these blocks, and frees its memory. nullptr is allowed. T may be a
     * base of the type that it was made as iff T has a virtual destructor. */
    template <typename T>
    void destroy(T *object, const char *file = __builtin_FILE(),
                 unsigned line = __builtin_LINE()) noexcept {
        if (object == nullptr) return;
        void *whole = detail::whole_of(object);
        object->~T();
        free(whole, file, line);
    }
    /** Deleter of unique_ptr: destroys what it owns. A pointer to a class converts to a pointer to
     * a base iff the base has a virtual destructor; otherwise neither the destructor nor the memory
     * of the whole object could be found. */
    template <typename T> struct deleter {
        blocks *owner = nullptr;

        constexpr deleter() noexcept = default;
        constexpr explicit deleter(blocks *of) noexcept : owner(of) {}
        template <typename U, typename = std::enable_if_t<
                                  std::is_convertible_v<U *, T *> &&
                                  (std::is_same_v<std::remove_cv_t<U>, std::remove_cv_t<T>> ||
                                   std::has_virtual_destructor_v<T>)>>
        constexpr deleter(const deleter<U> &other) noexcept : owner(other.owner) {}
        void operator()(T *object) const noexcept { owner->destroy(object); }
    };
    /** Owner of one object. The blocks must outlive it. */
    template <typename T> using unique_ptr = std::unique_ptr<T, deleter<T>>;
/** make_unique<T>(args...) does what make does, and returns an owner of the object. */
#define LOAM_FORM_(n) \
    template <typename T LOAM_TYPES_##n##_> \
    [[nodiscard]] unique_ptr<T> make_unique(LOAM_ARGUMENTS_##n##_ detail::place at = \
                                                detail::place::here()) { \
        return unique_ptr<T>(make_at<T>(at LOAM_FORWARD_##n##_), deleter<T>(this)); \
    }
    LOAM_FOR_EACH_ARITY_(LOAM_FORM_)
#undef LOAM_FORM_
    template <typename T LOAM_TYPES_MORE_>
    [[nodiscard]] unique_ptr<T> make_unique(LOAM_ARGUMENTS_MORE_) {
        return unique_ptr<T>(make_at<T>(detail::place{nullptr, 0} LOAM_FORWARD_MORE_),
                             deleter<T>(this));
    }

    /** Returns the number of bytes that may be used at p; 0 for nullptr
     * (loam_blocks_usable_size). */
    std::size_t usable_size(const void *p) noexcept { return loam_blocks_usable_size(&blocks_, p); }
    /** Gives empty slabs back, and returns their bytes (loam_blocks_trim). */
    std::size_t trim() noexcept { return loam_blocks_trim(&blocks_); }
    /** Frees all objects without their destructors. */
    void reset() noexcept { loam_blocks_reset(&blocks_); }
    /** Counts the size of each request in *histogram until it is called with nullptr
     * (loam_blocks_record). */
    void record(loam_histogram *histogram) noexcept { loam_blocks_record(&blocks_, histogram); }
    /** Walks the blocks and returns whether they are undamaged (loam_blocks_check). */
    bool check() const noexcept { return loam_blocks_check(&blocks_); }
    /** Returns the numbers of these blocks (loam_blocks_usage). */
    loam_usage usage() const noexcept {
        loam_usage usage;
        loam_blocks_usage(&blocks_, &usage);
        return usage;
    }
    /** Returns the instance for the functions of loam/blocks.h. */
    loam_blocks *get() noexcept { return &blocks_; }
    /** Returns the instance for the functions of loam/blocks.h. */
    const loam_blocks *get() const noexcept { return &blocks_; }

  private:
    template <typename T, typename... Args> T *make_at(detail::place at, Args &&...args) {
        void *block = alloc_aligned(sizeof(T), alignof(T), at.file, at.line);
        return detail::construct<T>(
            block, [&] { free(block, nullptr, 0); }, std::forward<Args>(args)...);
    }

    loam_blocks blocks_;
};

/** A std::pmr resource with blocks of its own. It serves any size, and alignments up to 64 KiB;
 * above it throws std::bad_alloc. */
class blocks_resource final : public std::pmr::memory_resource {
  public:
    /** Throws std::bad_alloc if loam_blocks_init fails. */
    explicit blocks_resource(const loam_blocks_options &options = {},
                             detail::checks checks = LOAM_CHECKS_)
        : own_(options, checks) {}
    /** Returns the blocks behind the resource. */
    blocks &get() noexcept { return own_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return own_.alloc_aligned(bytes, align, nullptr, 0);
    }
    void do_deallocate(void *p, std::size_t, std::size_t) override { own_.free(p, nullptr, 0); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }
    blocks own_;
};

/** An allocator of containers over blocks. Copies of the allocator, and copies of a container that
 * has it, allocate from the same blocks. As with std::pmr, a container keeps its allocator for
 * life: assignment copies or moves the elements, and containers may be swapped only if their
 * allocators are equal. */
template <typename T> class blocks_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;

    /** Allocates from `of`, which must outlive the allocator and its copies. */
    blocks_allocator(blocks &of) noexcept : of_(&of) {}
    /** Allocates from the blocks of an allocator of another type. */
    template <typename U>
    blocks_allocator(const blocks_allocator<U> &other) noexcept : of_(other.of_) {}

    /** Returns memory for count objects. Throws std::bad_alloc if there is none. */
    [[nodiscard]] T *allocate(std::size_t count) {
        return static_cast<T *>(
            of_->alloc_aligned(detail::array_bytes<T>(count), alignof(T), nullptr, 0));
    }
    /** Frees what allocate returned. */
    void deallocate(T *p, std::size_t) noexcept { of_->free(p, nullptr, 0); }

    /** Returns whether both allocate from the same blocks. */
    template <typename U> bool operator==(const blocks_allocator<U> &other) const noexcept {
        return of_ == other.of_;
    }
    /** Returns whether they allocate from different blocks. */
    template <typename U> bool operator!=(const blocks_allocator<U> &other) const noexcept {
        return of_ != other.of_;
    }

  private:
    template <typename U> friend class blocks_allocator;
    blocks *of_;
};

/** A std::list over blocks. */
template <typename T> using blocks_list = std::list<T, blocks_allocator<T>>;
/** A std::forward_list over blocks. */
template <typename T> using blocks_forward_list = std::forward_list<T, blocks_allocator<T>>;
/** A std::vector over blocks. */
template <typename T> using blocks_vector = std::vector<T, blocks_allocator<T>>;
/** A std::deque over blocks. */
template <typename T> using blocks_deque = std::deque<T, blocks_allocator<T>>;
/** A std::queue over blocks. */
template <typename T> using blocks_queue = std::queue<T, blocks_deque<T>>;
/** A std::map over blocks. */
template <typename K, typename V, typename Less = std::less<K>>
using blocks_map = std::map<K, V, Less, blocks_allocator<std::pair<const K, V>>>;
/** A std::set over blocks. */
template <typename T, typename Less = std::less<T>>
using blocks_set = std::set<T, Less, blocks_allocator<T>>;
/** A std::unordered_map over blocks. */
template <typename K, typename V, typename Hash = std::hash<K>, typename Equal = std::equal_to<K>>
using blocks_unordered_map =
    std::unordered_map<K, V, Hash, Equal, blocks_allocator<std::pair<const K, V>>>;
/** A std::unordered_set over blocks. */
template <typename T, typename Hash = std::hash<T>, typename Equal = std::equal_to<T>>
using blocks_unordered_set = std::unordered_set<T, Hash, Equal, blocks_allocator<T>>;
/** A std::string over blocks. */
using blocks_string = std::basic_string<char, std::char_traits<char>, blocks_allocator<char>>;
/** A std::stringstream over blocks. The string in its constructor brings the allocator:
 * blocks_ostringstream out{blocks_string(blocks)}. */
using blocks_stringstream =
    std::basic_stringstream<char, std::char_traits<char>, blocks_allocator<char>>;
/** A std::ostringstream over blocks. */
using blocks_ostringstream =
    std::basic_ostringstream<char, std::char_traits<char>, blocks_allocator<char>>;
/** A std::istringstream over blocks. */
using blocks_istringstream =
    std::basic_istringstream<char, std::char_traits<char>, blocks_allocator<char>>;

} // namespace loam

#include "loam/names_end.h"

#endif

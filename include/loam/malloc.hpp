/* loam/malloc.hpp: the general-purpose heap for C++: memory as operator new returns it, an
 * allocator for containers, and a memory resource (loam/malloc.h).
 *
 *     std::vector<int, loam::allocator<int>> numbers;        // any container, from any thread
 *     std::pmr::string text(loam::malloc_resource::get());   // std::pmr, too
 *     void *p = loam::heap_new(100);                         // calls the new handler, or throws
 *     loam_free(p);
 *
 * Choose it for parts of a program whose operators new and delete stay as they are; to replace
 * these, use new_delete.hpp. It has no pools: a container of nodes that one thread uses is smaller
 * and faster with pool.hpp. Any thread may free its memory, also by loam_free.
 *
 *     container ─> allocator, malloc_resource ─> heap_new ─> loam_malloc ─> p
 *                  NULL from loam_malloc ─> new handler, and again; no handler ─> std::bad_alloc
 *
 * Invariant: all allocators, and the one resource, are equal, so that containers may take over each
 * other's memory; tests/api/cpp_test.cc checks it. If there is no memory and the new handler gives
 * up, std::bad_alloc is thrown; without exceptions the program ends. Nothing else is thrown except
 * by the handler. Cost: as loam_malloc.
 */
#ifndef LOAM_MALLOC_HPP
#define LOAM_MALLOC_HPP

#include "loam/names_begin.h"

#include "loam/detail.hpp"
#include "loam/malloc.h"

#include <cstddef>
#include <memory_resource>
#include <new>
#include <type_traits>

namespace loam {
namespace detail {

/* Alignment of every object of the heap, in bytes. */
constexpr std::size_t kHeapAlign = 16;

inline void *heap_try(std::size_t bytes, std::size_t align) noexcept {
    return align == kHeapAlign ? loam_malloc(bytes) : loam_malloc_aligned(bytes, align);
}

/* Calls the program's new handler until there is memory, or no handler. */
[[gnu::cold]] inline void *heap_again(std::size_t bytes, std::size_t align) {
    return need(new_again([=]() noexcept { return heap_try(bytes, align); }));
}

} // namespace detail

/** Allocates bytes bytes as operator new does; never returns nullptr. Free it by loam_free or
 * another free function of loam/malloc.h. A size that no object can have counts as no memory: the
 * new handler is called. */
[[nodiscard]] inline void *heap_new(std::size_t bytes) {
    void *p = loam_malloc(bytes);
    return LOAM_LIKELY(p != nullptr) ? p : detail::heap_again(bytes, detail::kHeapAlign);
}
/** heap_new at a multiple of align. An alignment that is not a power of two counts as no memory. */
[[nodiscard]] inline void *heap_new(std::size_t bytes, std::size_t align) {
    void *p = loam_malloc_aligned(bytes, align);
    return LOAM_LIKELY(p != nullptr) ? p : detail::heap_again(bytes, align);
}

/** heap_new that returns nullptr instead of throwing std::bad_alloc, or any other exception of the
 * new handler. */
[[nodiscard]] inline void *heap_new_nothrow(std::size_t bytes,
                                            std::size_t align = detail::kHeapAlign) noexcept {
    void *p = detail::heap_try(bytes, align);
    if (LOAM_LIKELY(p != nullptr)) return p;
#if defined(__cpp_exceptions)
    try {
        return detail::heap_again(bytes, align);
    } catch (...) {
        return nullptr;
    }
#else
    return nullptr;
#endif
}

/** An allocator for containers. It has no state: all are equal, for all types. */
template <typename T> class allocator {
  public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    constexpr allocator() noexcept = default;
    template <typename U> constexpr allocator(const allocator<U> &) noexcept {}

    /** Allocates memory for count objects, as heap_new. */
    [[nodiscard]] T *allocate(std::size_t count) {
        std::size_t bytes = detail::array_bytes<T>(count);
        if constexpr (alignof(T) > detail::kHeapAlign)
            return static_cast<T *>(heap_new(bytes, alignof(T)));
        else
            return static_cast<T *>(heap_new(bytes));
    }
    /** Frees memory that allocate(count) of any loam::allocator<T> returned. */
    void deallocate(T *p, std::size_t count) noexcept {
        if constexpr (alignof(T) > detail::kHeapAlign)
            loam_free_aligned_sized(p, alignof(T), detail::array_bytes_of<T>(count));
        else
            loam_free_sized(p, detail::array_bytes_of<T>(count));
    }

    template <typename U> constexpr bool operator==(const allocator<U> &) const noexcept {
        return true;
    }
    template <typename U> constexpr bool operator!=(const allocator<U> &) const noexcept {
        return false;
    }
};

/** The heap as a memory resource for std::pmr. It is never destroyed, so that containers with
 * static storage may use it until they end. */
class malloc_resource final : public std::pmr::memory_resource {
  public:
    /** Returns the process's resource. */
    static malloc_resource *get() noexcept {
        alignas(malloc_resource) static unsigned char memory[sizeof(malloc_resource)];
        static malloc_resource *const resource =
            ::new (static_cast<void *>(memory)) malloc_resource;
        return resource;
    }
    malloc_resource(const malloc_resource &) = delete;
    malloc_resource &operator=(const malloc_resource &) = delete;

  private:
    malloc_resource() = default;

    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return align <= detail::kHeapAlign ? heap_new(bytes) : heap_new(bytes, align);
    }
    void do_deallocate(void *p, std::size_t bytes, std::size_t align) override {
        loam_free_aligned_sized(p, align, bytes);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other;
    }
};

} // namespace loam

#include "loam/names_end.h"

#endif

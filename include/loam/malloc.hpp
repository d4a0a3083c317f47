/* loam/malloc.hpp: the general-purpose heap for C++: memory as operator new gives it, an allocator
 * for containers, and a memory resource (loam/malloc.h).
 *
 *     std::vector<int, loam::allocator<int>> numbers;        // any container, from any thread
 *     std::pmr::string text(loam::malloc_resource::get());   // std::pmr, too
 *     void *p = loam::heap_new(100);                         // asks the new handler, or throws
 *     loam_free(p);
 *
 * Choose it for parts of a program whose operators new and delete stay as they are; to replace
 * these, new_delete.hpp. It knows no pools: containers of nodes that one thread uses are smaller
 * and faster with pool.hpp. What it gave may be freed in any thread, by loam_free too.
 *
 *     container ─> allocator, malloc_resource ─> heap_new ─> loam_malloc ─ NULL ─> new handler ─> again, bad_alloc
 *
 * Invariant: all allocators and the one resource are equal, so that containers may take each
 * other's memory; checked by tests/api/cpp_test.cc. Out of memory is std::bad_alloc, once the new
 * handler gives up; without exceptions the program ends. Nothing else is thrown but what the
 * handler throws. Cost: as loam_malloc.
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

/* What all of the heap's objects are aligned to. */
constexpr std::size_t kHeapAlign = 16;

inline void *heap_try(std::size_t bytes, std::size_t align) noexcept {
    return align == kHeapAlign ? loam_malloc(bytes) : loam_malloc_aligned(bytes, align);
}

/* Lets the program's handler make room for as long as there is one. */
[[gnu::cold]] inline void *heap_again(std::size_t bytes, std::size_t align) {
    return need(new_again([=]() noexcept { return heap_try(bytes, align); }));
}

} // namespace detail

/* bytes bytes as operator new gives them; never nullptr. To be freed by loam_free or its kin. Sizes
 * that no object can have, and alignments that are no power of two, are no memory to be had: the
 * handler is asked, too. */
[[nodiscard]] inline void *heap_new(std::size_t bytes) {
    void *p = loam_malloc(bytes);
    return LOAM_LIKELY(p != nullptr) ? p : detail::heap_again(bytes, detail::kHeapAlign);
}
[[nodiscard]] inline void *heap_new(std::size_t bytes, std::size_t align) {
    void *p = loam_malloc_aligned(bytes, align);
    return LOAM_LIKELY(p != nullptr) ? p : detail::heap_again(bytes, align);
}

/* The same; nullptr in place of std::bad_alloc, and of all else that the handler throws. */
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

/* For containers. Has no state: all are equal, of whatever type. */
template <typename T> class allocator {
  public:
    using value_type = T;
    using is_always_equal = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;

    constexpr allocator() noexcept = default;
    template <typename U> constexpr allocator(const allocator<U> &) noexcept {}

    [[nodiscard]] T *allocate(std::size_t count) {
        std::size_t bytes = detail::array_bytes<T>(count);
        if constexpr (alignof(T) > detail::kHeapAlign)
            return static_cast<T *>(heap_new(bytes, alignof(T)));
        else
            return static_cast<T *>(heap_new(bytes));
    }
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

/* The heap for std::pmr. There is one, which never ends: containers with static storage may use it
 * to their own end. */
class malloc_resource final : public std::pmr::memory_resource {
  public:
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

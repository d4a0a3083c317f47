/* loam/alloc.hpp: a handle (loam/alloc.h) for C++: as a memory resource, and as an allocator for
 * containers.
 *
 *     loam::alloc_resource resource(loam_heap_as_alloc(nullptr));  // or loam_region_as_alloc(r)
 *     std::pmr::vector<int> numbers(&resource);
 *     std::list<int, loam::alloc_allocator<int>> list(loam_heap_as_alloc(nullptr));
 *
 * Choose the allocators' own headers (region.hpp, pool.hpp, blocks.hpp) if you know which allocator
 * it is. A container must end before the allocator that the handle points to. If there is no
 * memory, std::bad_alloc is thrown; nothing else is thrown. A resource equals itself only;
 * allocators are equal if their handles are to one allocator.
 */
#ifndef LOAM_ALLOC_HPP
#define LOAM_ALLOC_HPP

#include "loam/names_begin.h"

#include "loam/alloc.h"
#include "loam/detail.hpp"

#include <cstddef>
#include <memory_resource>
#include <type_traits>

namespace loam {

/** A memory resource that allocates by a handle. */
class alloc_resource final : public std::pmr::memory_resource {
  public:
    /** Makes a resource of a handle. Leave out `at`: it is the calling line, which checked
     * allocators show. */
    explicit alloc_resource(loam_alloc alloc, detail::place at = detail::place::here()) noexcept
        : alloc_(alloc), at_(at) {}
    /** Returns the handle. */
    loam_alloc get() const noexcept { return alloc_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return detail::need(
            loam_alloc_alloc_at(alloc_, detail::bytes_of(bytes), align, at_.file, at_.line));
    }
    void do_deallocate(void *p, std::size_t bytes, std::size_t align) override {
        loam_alloc_free_at(alloc_, p, detail::bytes_of(bytes), align, at_.file, at_.line);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other; /* without RTTI the type of `other` is unknown */
    }

    loam_alloc alloc_;
    detail::place at_;
};

/** An allocator for containers that allocates by a handle. Copies of the allocator, and copies of a
 * container that has it, allocate from the same allocator. As with std::pmr, a container keeps its
 * allocator for life: assignment copies or moves the elements, and containers may be swapped only
 * if their allocators are equal. */
template <typename T> class alloc_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;

    alloc_allocator(loam_alloc alloc) noexcept : alloc_(alloc) {}
    template <typename U>
    alloc_allocator(const alloc_allocator<U> &other) noexcept : alloc_(other.get()) {}

    /** Allocates memory for count objects; throws std::bad_alloc. */
    [[nodiscard]] T *allocate(std::size_t count) {
        return static_cast<T *>(detail::need(
            loam_alloc_alloc_at(alloc_, detail::array_bytes<T>(count), alignof(T), nullptr, 0)));
    }
    /** Frees memory of allocate(count). */
    void deallocate(T *p, std::size_t count) noexcept {
        loam_alloc_free_at(alloc_, p, detail::array_bytes_of<T>(count), alignof(T), nullptr, 0);
    }
    /** Returns the handle. */
    loam_alloc get() const noexcept { return alloc_; }

    template <typename U> bool operator==(const alloc_allocator<U> &other) const noexcept {
        return loam_alloc_is_same(alloc_, other.get());
    }
    template <typename U> bool operator!=(const alloc_allocator<U> &other) const noexcept {
        return !loam_alloc_is_same(alloc_, other.get());
    }

  private:
    loam_alloc alloc_;
};

} // namespace loam

#include "loam/names_end.h"

#endif

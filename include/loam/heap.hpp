/* loam/heap.hpp: first-class heaps for C++: an owner, a scope for malloc, a memory resource and an
 * allocator for containers (loam/heap.h).
 *
 *     loam::heap document;                          // everything below ends with it, in one go
 *     document.limit(64 << 20);                     // or std::bad_alloc
 *     loam::heap_resource resource(document);
 *     std::pmr::map<int, int> index(&resource);
 *     std::vector<int, loam::heap_allocator<int>> numbers(document);
 *     {
 *         loam::heap_scope scope(document);         // loam's malloc and new are the document's
 *         loam_free(loam_malloc(100));
 *     }
 *
 * Choose it as heap.h says. It calls no destructors: containers must end before the heap that they
 * live in, or be of no consequence. Any thread may use these; who ends a heap is alone with it.
 *
 * Out of memory, and past the hard limit, is std::bad_alloc; nothing else is thrown.
 */
#ifndef LOAM_HEAP_HPP
#define LOAM_HEAP_HPP

#include "loam/names_begin.h"

#include "loam/detail.hpp"
#include "loam/heap.h"
#include "loam/malloc.h"

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <new>
#include <utility>

namespace loam {

/* A heap of its own, destroyed at the end. It can be moved: the heap itself stays where it is. */
class heap {
  public:
    heap() : heap_(loam_heap_create()) {
        if (heap_ == nullptr) detail::no_memory();
    }
    /* Takes over one of loam_heap_create; not nullptr. */
    explicit heap(loam_heap *owned) noexcept : heap_(owned) {}
    heap(heap &&other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
    /* The heap that this one owned ends at once, with all that is in it. */
    heap &operator=(heap &&other) noexcept {
        if (this != &other) {
            loam_heap_destroy(heap_);
            heap_ = std::exchange(other.heap_, nullptr);
        }
        return *this;
    }
    heap(const heap &) = delete;
    heap &operator=(const heap &) = delete;
    ~heap() { loam_heap_destroy(heap_); }

    /* Memory; back by loam_free, or with the heap. */
    [[nodiscard]] void *alloc(std::size_t bytes) {
        return detail::need(loam_heap_malloc(heap_, bytes));
    }
    [[nodiscard]] void *alloc(std::size_t bytes, std::size_t align) {
        return detail::need(loam_heap_malloc_aligned(heap_, bytes, align));
    }

    /* The heap ends, its objects live on as malloc's. */
    void dissolve() noexcept { loam_heap_delete(std::exchange(heap_, nullptr)); }
    /* 0: none. */
    void limit(std::size_t hard) noexcept {
        (void)loam_heap_set_limits(heap_, 0, hard, nullptr, nullptr);
    }
    void collect() noexcept { loam_heap_collect(heap_); }
    bool contains(const void *p) const noexcept { return loam_heap_contains(heap_, p); }
    bool owns(const void *p) const noexcept { return loam_heap_owns(heap_, p); }
    loam_heap_limits limits() const noexcept {
        loam_heap_limits limits;
        loam_heap_get_limits(heap_, &limits);
        return limits;
    }
    loam_heap_numbers usage() const noexcept {
        loam_heap_numbers numbers;
        loam_heap_usage(heap_, &numbers);
        return numbers;
    }
    loam_heap *get() const noexcept { return heap_; }

  private:
    loam_heap *heap_;
};

/* Until the scope's end the calling thread's malloc allocates from the heap. Scopes nest, and end
 * in the thread that began them. */
class heap_scope {
  public:
    explicit heap_scope(loam_heap *heap) {
        if (loam_heap_set_default(heap, &before_) != 0) detail::no_memory();
    }
    explicit heap_scope(const heap &heap) : heap_scope(heap.get()) {}
    explicit heap_scope(const heap &&) = delete; /* it would end before the scope */
    heap_scope(const heap_scope &) = delete;
    heap_scope &operator=(const heap_scope &) = delete;
    /* Going back needs no memory: the thread has been there. */
    ~heap_scope() { (void)loam_heap_set_default(before_, nullptr); }

  private:
    loam_heap *before_ = nullptr;
};

/* A heap, somebody else's, as a memory resource. */
class heap_resource final : public std::pmr::memory_resource {
  public:
    explicit heap_resource(loam_heap *heap) noexcept : heap_(heap) {}
    explicit heap_resource(const heap &heap) noexcept : heap_(heap.get()) {}
    explicit heap_resource(const heap &&) = delete; /* it ends at once */
    loam_heap *get() const noexcept { return heap_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        if (LOAM_LIKELY(align <= alignof(std::max_align_t)))
            return detail::need(loam_heap_malloc(heap_, bytes));
        return detail::need(loam_heap_malloc_aligned(heap_, bytes, align));
    }
    void do_deallocate(void *p, std::size_t, std::size_t) override { loam_free(p); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other; /* without RTTI nobody knows what the other is */
    }

    loam_heap *heap_;
};

/* A heap for containers that take an allocator. Copies of the allocator, and copies of a container
 * that has it, allocate from the same heap. As with std::pmr, a container keeps its allocator for
 * life: assignment copies or moves the elements, and containers may be swapped only if their
 * allocators are equal. */
template <typename T> class heap_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;

    heap_allocator(loam_heap *heap) noexcept : heap_(heap) {}
    heap_allocator(const heap &heap) noexcept : heap_(heap.get()) {}
    heap_allocator(const heap &&) = delete; /* it would end before the container */
    template <typename U>
    heap_allocator(const heap_allocator<U> &other) noexcept : heap_(other.heap_) {}

    [[nodiscard]] T *allocate(std::size_t count) {
        std::size_t bytes = detail::array_bytes<T>(count);
        if constexpr (alignof(T) > alignof(std::max_align_t))
            return static_cast<T *>(
                detail::need(loam_heap_malloc_aligned(heap_, bytes, alignof(T))));
        return static_cast<T *>(detail::need(loam_heap_malloc(heap_, bytes)));
    }
    void deallocate(T *p, std::size_t) noexcept { loam_free(p); }

    template <typename U> bool operator==(const heap_allocator<U> &other) const noexcept {
        return heap_ == other.heap_;
    }
    template <typename U> bool operator!=(const heap_allocator<U> &other) const noexcept {
        return heap_ != other.heap_;
    }

  private:
    template <typename U> friend class heap_allocator;
    loam_heap *heap_;
};

} // namespace loam

#include "loam/names_end.h"

#endif

/* loam/heap.hpp: first-class heaps for C++: an owner, a scope for malloc, a memory resource and an
 * allocator for containers (loam/heap.h).
 *
 *     loam::heap document;                          // all objects below are freed with it, at once
 *     document.limit(64 << 20);                     // beyond 64 MiB: std::bad_alloc
 *     loam::heap_resource resource(document);
 *     std::pmr::map<int, int> index(&resource);
 *     std::vector<int, loam::heap_allocator<int>> numbers(document);
 *     {
 *         loam::heap_scope scope(document);         // malloc and new of loam use the document
 *         loam_free(loam_malloc(100));
 *     }
 *
 * Choose it as heap.h says. It calls no destructors: a container must end before the heap that it
 * lives in, or need no destructor. Any thread may use these classes; while a thread destroys a
 * heap, no other thread may use it. If there is no memory, or the hard limit is reached,
 * std::bad_alloc is thrown; nothing else is thrown. Cost: as loam/heap.h.
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

/** Owns a heap, which it destroys at its end. Moving it leaves the heap and its objects in
 * place. */
class heap {
  public:
    /** Creates a heap; throws std::bad_alloc if there is no memory. */
    heap() : heap_(loam_heap_create()) {
        if (heap_ == nullptr) detail::no_memory();
    }
    /** Takes ownership of a heap of loam_heap_create, which must not be nullptr. */
    explicit heap(loam_heap *owned) noexcept : heap_(owned) {}
    heap(heap &&other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
    /** Destroys the heap that this one owned, with its objects, and takes over the other's. */
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

    /** Allocates bytes bytes; throws std::bad_alloc. Free them by loam_free, or with the heap. */
    [[nodiscard]] void *alloc(std::size_t bytes) {
        return detail::need(loam_heap_malloc(heap_, bytes));
    }
    /** Allocates bytes bytes at a multiple of align. */
    [[nodiscard]] void *alloc(std::size_t bytes, std::size_t align) {
        return detail::need(loam_heap_malloc_aligned(heap_, bytes, align));
    }

    /** Ends the heap; its objects live on as malloc's (loam_heap_delete). */
    void dissolve() noexcept { loam_heap_delete(std::exchange(heap_, nullptr)); }
    /** Sets the hard limit in bytes; 0: no limit (loam_heap_set_limits). */
    void limit(std::size_t hard) noexcept {
        (void)loam_heap_set_limits(heap_, 0, hard, nullptr, nullptr);
    }
    /** Gives empty pages back to the system (loam_heap_collect). */
    void collect() noexcept { loam_heap_collect(heap_); }
    /** Returns whether p points into the heap's memory (loam_heap_contains). */
    bool contains(const void *p) const noexcept { return loam_heap_contains(heap_, p); }
    /** Returns whether p is the start of an object in use (loam_heap_owns). */
    bool owns(const void *p) const noexcept { return loam_heap_owns(heap_, p); }
    /** Returns the limits and the committed bytes (loam_heap_get_limits). */
    loam_heap_limits limits() const noexcept {
        loam_heap_limits limits;
        loam_heap_get_limits(heap_, &limits);
        return limits;
    }
    /** Returns a snapshot of the heap's numbers; it walks the heap (loam_heap_usage). */
    loam_heap_numbers usage() const noexcept {
        loam_heap_numbers numbers;
        loam_heap_usage(heap_, &numbers);
        return numbers;
    }
    /** Returns the heap, for the functions of loam/heap.h. This object keeps the ownership. */
    loam_heap *get() const noexcept { return heap_; }

  private:
    loam_heap *heap_;
};

/** Makes a heap the calling thread's default until the end of the scope: its malloc allocates from
 * the heap. Scopes nest, and end in the thread that began them. */
class heap_scope {
  public:
    /** Throws std::bad_alloc if there is no memory, or the heap has ended. */
    explicit heap_scope(loam_heap *heap) {
        if (loam_heap_set_default(heap, &before_) != 0) detail::no_memory();
    }
    explicit heap_scope(const heap &heap) : heap_scope(heap.get()) {}
    explicit heap_scope(const heap &&) = delete; /* the heap would end before the scope */
    heap_scope(const heap_scope &) = delete;
    heap_scope &operator=(const heap_scope &) = delete;
    /* Going back needs no memory: the thread has its branch already. */
    ~heap_scope() { (void)loam_heap_set_default(before_, nullptr); }

  private:
    loam_heap *before_ = nullptr;
};

/** A heap as a memory resource. It does not own the heap. */
class heap_resource final : public std::pmr::memory_resource {
  public:
    explicit heap_resource(loam_heap *heap) noexcept : heap_(heap) {}
    explicit heap_resource(const heap &heap) noexcept : heap_(heap.get()) {}
    explicit heap_resource(const heap &&) = delete; /* the heap would end at once */
    loam_heap *get() const noexcept { return heap_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        if (LOAM_LIKELY(align <= alignof(std::max_align_t)))
            return detail::need(loam_heap_malloc(heap_, bytes));
        return detail::need(loam_heap_malloc_aligned(heap_, bytes, align));
    }
    void do_deallocate(void *p, std::size_t, std::size_t) override { loam_free(p); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other; /* without RTTI the type of `other` is unknown */
    }

    loam_heap *heap_;
};

/** An allocator that takes memory from a heap, for containers. It does not own the heap. Copies of
 * the allocator, and copies of a container that has it, allocate from the same heap. As with
 * std::pmr, a container keeps its allocator for life: assignment copies or moves the elements, and
 * containers may be swapped only if their allocators are equal. */
template <typename T> class heap_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;

    heap_allocator(loam_heap *heap) noexcept : heap_(heap) {}
    heap_allocator(const heap &heap) noexcept : heap_(heap.get()) {}
    heap_allocator(const heap &&) = delete; /* the heap would end before the container */
    template <typename U>
    heap_allocator(const heap_allocator<U> &other) noexcept : heap_(other.heap_) {}

    /** Allocates memory for count objects; throws std::bad_alloc. */
    [[nodiscard]] T *allocate(std::size_t count) {
        std::size_t bytes = detail::array_bytes<T>(count);
        if constexpr (alignof(T) > alignof(std::max_align_t))
            return static_cast<T *>(
                detail::need(loam_heap_malloc_aligned(heap_, bytes, alignof(T))));
        return static_cast<T *>(detail::need(loam_heap_malloc(heap_, bytes)));
    }
    /** Frees memory of any heap. */
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

/* loam/fifo.hpp: FIFOs for C++: an owner, a memory resource and an allocator for containers
 * (loam/fifo.h).
 *
 *     loam::fifo queue;                          // ends with its last object
 *     auto *message = queue.make<std::string>(7, 'x');
 *     queue.destroy(message);
 *     loam::fifo_resource resource(queue);
 *     std::pmr::deque<int> messages(&resource);
 *     std::deque<int, loam::fifo_allocator<int>> numbers(queue);
 *
 * loam/fifo.h says when to choose FIFOs: containers that free in about the order they allocated, as
 * std::deque does as a queue. A FIFO runs no destructors of objects that the program does not
 * destroy. One thread at a time uses a FIFO. A container that ends after the FIFO's owner can still
 * free its memory, but cannot allocate.
 *
 * If there is no memory, std::bad_alloc is thrown. The only other exceptions are those of
 * constructors. */
#ifndef LOAM_FIFO_HPP
#define LOAM_FIFO_HPP

#include "loam/names_begin.h"

#include "loam/detail.hpp"
#include "loam/fifo.h"

#include <cstddef>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace loam {

namespace detail {

/** Allocates as loam_fifo_alloc_aligned. An alignment up to 16 that is no constant takes the inline
 * path of 16. */
[[nodiscard]] LOAM_INLINE void *fifo_alloc(loam_fifo *fifo, std::size_t bytes, std::size_t align,
                                           const char *file, unsigned line) {
    if (!__builtin_constant_p(align) && align <= LOAM_FIFO_ALIGN)
        return need(loam_fifo_alloc_at(fifo, bytes, file, line));
    return need(loam_fifo_alloc_aligned_at(fifo, bytes, align, file, line));
}

} // namespace detail

/** An owner of a FIFO. It can be moved: the loam_fifo itself stays where it is. The FIFO lives on
 * after its owner until its last object is freed. */
class fifo {
  public:
    /** Creates a FIFO (loam_fifo_create). source: nullptr selects loam_pages(). Throws
     * std::bad_alloc if there is no memory or options are bad. */
    explicit fifo(const loam_fifo_options &options = {}, loam_source *source = nullptr,
                  detail::checks checks = LOAM_CHECKS_)
        : fifo_(loam_fifo_create_as(source, &options, checks.flags)) {
        if (fifo_ == nullptr) detail::no_memory();
    }
    /** Takes over a FIFO of loam_fifo_create, which must not be nullptr. */
    explicit fifo(loam_fifo *owned) noexcept : fifo_(owned) {}
    /** Takes over other's FIFO. other must not be used then. */
    fifo(fifo &&other) noexcept : fifo_(std::exchange(other.fifo_, nullptr)) {}
    /** Gives up this owner's FIFO at once, and takes over other's. The FIFO given up lives on until
     * its last object is freed. */
    fifo &operator=(fifo &&other) noexcept {
        if (this != &other) {
            loam_fifo_destroy(fifo_);
            fifo_ = std::exchange(other.fifo_, nullptr);
        }
        return *this;
    }
    fifo(const fifo &) = delete;
    fifo &operator=(const fifo &) = delete;
    /** Gives up the FIFO, which lives on until its last object is freed (loam_fifo_destroy). */
    ~fifo() { loam_fifo_destroy(fifo_); }

    /** make<T>(args...) returns a T made of args. Throws std::bad_alloc iff there is no memory.
     * What T's constructor throws passes through. After an exception nothing is left in the FIFO.
     * create is the older name. */
#define LOAM_FORM_NAMED_(n, name) \
    template <typename T LOAM_TYPES_##n##_> \
    [[nodiscard]] T *name(LOAM_ARGUMENTS_##n##_ detail::place at = detail::place::here()) { \
        return make_at<T>(at LOAM_FORWARD_##n##_); \
    }
#define LOAM_FORM_(n) LOAM_FORM_NAMED_(n, make) LOAM_FORM_NAMED_(n, create) /* the older name */
    LOAM_FOR_EACH_ARITY_(LOAM_FORM_)
#undef LOAM_FORM_
#undef LOAM_FORM_NAMED_
    template <typename T LOAM_TYPES_MORE_> [[nodiscard]] T *make(LOAM_ARGUMENTS_MORE_) {
        return make_at<T>(detail::place{nullptr, 0} LOAM_FORWARD_MORE_);
    }
    template <typename T LOAM_TYPES_MORE_> [[nodiscard]] T *create(LOAM_ARGUMENTS_MORE_) {
        return make_at<T>(detail::place{nullptr, 0} LOAM_FORWARD_MORE_);
    }
    /** Destroys an object of this FIFO, and frees its memory. nullptr is allowed. T may be a base
     * of the type that it was made as iff T has a virtual destructor. */
    template <typename T>
    void destroy(T *object, const char *file = __builtin_FILE(),
                 unsigned line = __builtin_LINE()) noexcept {
        if (object == nullptr) return;
        void *whole = detail::whole_of(object);
        object->~T();
        loam_fifo_free_at(fifo_, whole, file, line);
    }
    /** Returns memory of `bytes` bytes at a multiple of align. Throws std::bad_alloc if there is
     * none. */
    [[nodiscard]] void *alloc(std::size_t bytes, std::size_t align = LOAM_FIFO_ALIGN,
                              const char *file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
        return detail::fifo_alloc(fifo_, bytes, align, file, line);
    }
    /** Frees memory of this FIFO. nullptr is allowed. */
    void free(void *p, const char *file = __builtin_FILE(),
              unsigned line = __builtin_LINE()) noexcept {
        loam_fifo_free_at(fifo_, p, file, line);
    }
    /** Frees memory of this FIFO on any thread, with LOAM_FIFO_REMOTE (loam_fifo_free_remote). */
    void free_remote(void *p, const char *file = __builtin_FILE(),
                     unsigned line = __builtin_LINE()) noexcept {
        loam_fifo_free_remote_at(fifo_, p, file, line);
    }

    /** Takes the objects that other threads have freed (loam_fifo_collect). */
    void collect() noexcept { loam_fifo_collect(fifo_); }
    /** Makes the calling thread the owner of a checked FIFO (loam_fifo_adopt). */
    void adopt() noexcept { loam_fifo_adopt(fifo_); }
    /** Gives empty pages back, and returns their bytes (loam_fifo_trim). */
    std::size_t trim() noexcept { return loam_fifo_trim(fifo_); }
    /** Walks the FIFO and returns whether it is undamaged (loam_fifo_check). */
    bool check() const noexcept { return loam_fifo_check(fifo_); }
    /** Returns the FIFO's numbers (loam_fifo_usage). */
    loam_usage usage() const noexcept {
        loam_usage usage;
        loam_fifo_usage(fifo_, &usage);
        return usage;
    }
    /** Returns the FIFO for the functions of loam/fifo.h. */
    loam_fifo *get() const noexcept { return fifo_; }

  private:
    template <typename T, typename... Args> T *make_at(detail::place at, Args &&...args) {
        loam_fifo *in = fifo_;
        void *memory = detail::fifo_alloc(in, sizeof(T), alignof(T), at.file, at.line);
        return detail::construct<T>(
            memory, [in, memory] { loam_fifo_free_at(in, memory, nullptr, 0); },
            std::forward<Args>(args)...);
    }

    loam_fifo *fifo_;
};

/** A caller's FIFO as a memory resource. Reports of a checked FIFO name the line where the resource
 * was made. */
class fifo_resource final : public std::pmr::memory_resource {
  public:
    /** Allocates from fifo, which must outlive the resource. */
    explicit fifo_resource(loam_fifo *fifo, detail::place at = detail::place::here()) noexcept
        : fifo_(fifo), at_(at) {}
    /** Allocates from the owner's FIFO. */
    explicit fifo_resource(const fifo &fifo, detail::place at = detail::place::here()) noexcept
        : fifo_resource(fifo.get(), at) {}
    /** A temporary would end at once. */
    explicit fifo_resource(const fifo &&, detail::place = {}) = delete;
    /** Returns the FIFO behind the resource. */
    loam_fifo *get() const noexcept { return fifo_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return detail::fifo_alloc(fifo_, detail::bytes_of(bytes), align, at_.file, at_.line);
    }
    void do_deallocate(void *p, std::size_t, std::size_t) override {
        loam_fifo_free_at(fifo_, p, at_.file, at_.line);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        /* Without RTTI no code can tell what the other resource is. */
        return this == &other;
    }

    loam_fifo *fifo_;
    detail::place at_;
};

/** An allocator of containers over a FIFO. Copies of the allocator, and copies of a container that
 * has it, allocate from the same FIFO. As with std::pmr, a container keeps its allocator for life:
 * assignment copies or moves the elements, and containers may be swapped only if their allocators
 * are equal. */
template <typename T> class fifo_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;

    /** Allocates from fifo. */
    fifo_allocator(loam_fifo *fifo) noexcept : fifo_(fifo) {}
    /** Allocates from the owner's FIFO. */
    fifo_allocator(const fifo &fifo) noexcept : fifo_(fifo.get()) {}
    /** A temporary would end before the container. */
    fifo_allocator(const fifo &&) = delete;
    /** Allocates from the FIFO of an allocator of another type. */
    template <typename U>
    fifo_allocator(const fifo_allocator<U> &other) noexcept : fifo_(other.fifo_) {}

    /** Returns memory for count objects. Throws std::bad_alloc if there is none. */
    [[nodiscard]] T *allocate(std::size_t count) {
        return static_cast<T *>(
            detail::fifo_alloc(fifo_, detail::array_bytes<T>(count), alignof(T), nullptr, 0));
    }
    /** Frees what allocate returned. */
    void deallocate(T *p, std::size_t) noexcept { loam_fifo_free_at(fifo_, p, nullptr, 0); }

    /** Returns whether both allocate from the same FIFO. */
    template <typename U> bool operator==(const fifo_allocator<U> &other) const noexcept {
        return fifo_ == other.fifo_;
    }
    /** Returns whether they allocate from different FIFOs. */
    template <typename U> bool operator!=(const fifo_allocator<U> &other) const noexcept {
        return fifo_ != other.fifo_;
    }

  private:
    template <typename U> friend class fifo_allocator;
    loam_fifo *fifo_;
};

} // namespace loam

#include "loam/names_end.h"

#endif

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
 * Choose it as fifo.h says: containers that give back in about the order they took, as std::deque
 * does as a queue. It cannot run destructors of objects that nobody destroys; one thread at a time
 * uses a FIFO. A container that ends after the FIFO's owner gives its memory back all the same, but
 * gets none.
 *
 * Out of memory is std::bad_alloc; nothing else is thrown but by constructors.
 */
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

/* An alignment that is no constant is served inline as 16 is, up to that. */
[[nodiscard]] LOAM_INLINE void *fifo_alloc(loam_fifo *fifo, std::size_t bytes, std::size_t align,
                                           const char *file, unsigned line) {
    if (!__builtin_constant_p(align) && align <= LOAM_FIFO_ALIGN)
        return need(loam_fifo_alloc_at(fifo, bytes, file, line));
    return need(loam_fifo_alloc_aligned_at(fifo, bytes, align, file, line));
}

} // namespace detail

/* A FIFO of its own. It can be moved: the FIFO itself stays where it is, and lives on after its
 * owner until its last object is freed. */
class fifo {
  public:
    explicit fifo(const loam_fifo_options &options = {}, loam_source *source = nullptr,
                  detail::checks checks = LOAM_CHECKS_)
        : fifo_(loam_fifo_create_as(source, &options, checks.flags)) {
        if (fifo_ == nullptr) detail::no_memory();
    }
    /* Takes over one of loam_fifo_create; not nullptr. */
    explicit fifo(loam_fifo *owned) noexcept : fifo_(owned) {}
    fifo(fifo &&other) noexcept : fifo_(std::exchange(other.fifo_, nullptr)) {}
    /* This owner gives up the FIFO that it had at once; that FIFO lives on until its last object is
     * freed. */
    fifo &operator=(fifo &&other) noexcept {
        if (this != &other) {
            loam_fifo_destroy(fifo_);
            fifo_ = std::exchange(other.fifo_, nullptr);
        }
        return *this;
    }
    fifo(const fifo &) = delete;
    fifo &operator=(const fifo &) = delete;
    ~fifo() { loam_fifo_destroy(fifo_); }

    /* A T made of args: make<T>(args...). std::bad_alloc iff there is no memory; what T's
     * constructor throws passes through. Nothing is left behind then. */
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
    /* Destroys an object of this FIFO, and frees its memory; nullptr allowed. T may be a base of
     * the type that it was made as iff T has a virtual destructor. */
    template <typename T>
    void destroy(T *object, const char *file = __builtin_FILE(),
                 unsigned line = __builtin_LINE()) noexcept {
        if (object == nullptr) return;
        void *whole = detail::whole_of(object);
        object->~T();
        loam_fifo_free_at(fifo_, whole, file, line);
    }
    /* Memory, and back; free_remote: by any thread, with LOAM_FIFO_REMOTE. */
    [[nodiscard]] void *alloc(std::size_t bytes, std::size_t align = LOAM_FIFO_ALIGN,
                              const char *file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
        return detail::fifo_alloc(fifo_, bytes, align, file, line);
    }
    void free(void *p, const char *file = __builtin_FILE(),
              unsigned line = __builtin_LINE()) noexcept {
        loam_fifo_free_at(fifo_, p, file, line);
    }
    void free_remote(void *p, const char *file = __builtin_FILE(),
                     unsigned line = __builtin_LINE()) noexcept {
        loam_fifo_free_remote_at(fifo_, p, file, line);
    }

    void collect() noexcept { loam_fifo_collect(fifo_); }
    void adopt() noexcept { loam_fifo_adopt(fifo_); }
    std::size_t trim() noexcept { return loam_fifo_trim(fifo_); }
    bool check() const noexcept { return loam_fifo_check(fifo_); }
    loam_usage usage() const noexcept {
        loam_usage usage;
        loam_fifo_usage(fifo_, &usage);
        return usage;
    }
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

/* A FIFO, somebody else's, as a memory resource. Reports of a checked FIFO name the line where it
 * was made. */
class fifo_resource final : public std::pmr::memory_resource {
  public:
    explicit fifo_resource(loam_fifo *fifo, detail::place at = detail::place::here()) noexcept
        : fifo_(fifo), at_(at) {}
    explicit fifo_resource(const fifo &fifo, detail::place at = detail::place::here()) noexcept
        : fifo_resource(fifo.get(), at) {}
    explicit fifo_resource(const fifo &&, detail::place = {}) = delete; /* it ends at once */
    loam_fifo *get() const noexcept { return fifo_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return detail::fifo_alloc(fifo_, detail::bytes_of(bytes), align, at_.file, at_.line);
    }
    void do_deallocate(void *p, std::size_t, std::size_t) override {
        loam_fifo_free_at(fifo_, p, at_.file, at_.line);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other; /* without RTTI nobody knows what the other is */
    }

    loam_fifo *fifo_;
    detail::place at_;
};

/* A FIFO for containers that take an allocator. Copies of the allocator, and copies of a container
 * that has it, allocate from the same FIFO. As with std::pmr, a container keeps its allocator for
 * life: assignment copies or moves the elements, and containers may be swapped only if their
 * allocators are equal. */
template <typename T> class fifo_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;

    fifo_allocator(loam_fifo *fifo) noexcept : fifo_(fifo) {}
    fifo_allocator(const fifo &fifo) noexcept : fifo_(fifo.get()) {}
    fifo_allocator(const fifo &&) = delete; /* it would end before the container */
    template <typename U>
    fifo_allocator(const fifo_allocator<U> &other) noexcept : fifo_(other.fifo_) {}

    [[nodiscard]] T *allocate(std::size_t count) {
        return static_cast<T *>(
            detail::fifo_alloc(fifo_, detail::array_bytes<T>(count), alignof(T), nullptr, 0));
    }
    void deallocate(T *p, std::size_t) noexcept { loam_fifo_free_at(fifo_, p, nullptr, 0); }

    template <typename U> bool operator==(const fifo_allocator<U> &other) const noexcept {
        return fifo_ == other.fifo_;
    }
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

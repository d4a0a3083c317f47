/* loam/stack.hpp: frame stacks for C++: an owner, frames that end with a block, a memory resource
 * and an allocator for containers (loam/stack.h).
 *
 *     loam::scope scope;                            // a frame of this thread's stack, to its end
 *     int *number = scope.make<int>(7);             // of a type whose destructor does nothing
 *     loam::stack_resource resource;
 *     std::pmr::vector<int> numbers(&resource);
 *     std::vector<int, loam::stack_allocator<int>> others;
 *
 * loam/stack.h says when to choose stacks. Containers must end before the frame in which they
 * allocated. They must not grow while a newer frame is open: memory that they take then ends with
 * that frame. A checked stack reports this when they free their memory.
 *
 * If there is no memory, std::bad_alloc is thrown. The only other exceptions are those of
 * constructors. */
#ifndef LOAM_STACK_HPP
#define LOAM_STACK_HPP

#include "loam/names_begin.h"

#include "loam/detail.hpp"
#include "loam/stack.h"

#include <cstddef>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace loam {

namespace detail {

[[nodiscard]] inline void *stack_alloc(loam_stack *stack, std::size_t bytes, std::size_t align,
                                       const char *file, unsigned line) {
    return need(loam_stack_alloc_aligned_at(stack, bytes, align, file, line));
}

} // namespace detail

/** An owner of a stack. It cannot be moved: frames and containers know its address. */
class stack {
  public:
    /** Sets a stack up (loam_stack_init). source: nullptr selects loam_pages(). Throws
     * std::bad_alloc if options are bad. */
    explicit stack(const loam_stack_options &options = {}, loam_source *source = nullptr,
                   detail::checks checks = LOAM_CHECKS_) {
        if (loam_stack_init_as(&stack_, source, &options, checks.flags) != 0) detail::no_memory();
    }
    stack(const stack &) = delete;
    stack &operator=(const stack &) = delete;
    /** Ends all frames and gives all memory back. */
    ~stack() { loam_stack_deinit(&stack_); }

    /** Ends all frames and the base's objects (loam_stack_reset). */
    void reset() noexcept { loam_stack_reset(&stack_); }
    /** Gives free blocks back, and returns their bytes (loam_stack_trim). */
    std::size_t trim() noexcept { return loam_stack_trim(&stack_); }
    /** Returns whether p points into allocated memory of this stack (loam_stack_contains). */
    bool contains(const void *p) const noexcept { return loam_stack_contains(&stack_, p); }
    /** The older name of contains. */
    bool is_from(const void *p) const noexcept { return contains(p); }
    /** Walks the stack and returns whether it is undamaged (loam_stack_check). */
    bool check() const noexcept { return loam_stack_check(&stack_); }
    /** Returns the stack's numbers (loam_stack_usage). */
    loam_usage usage() const noexcept {
        loam_usage usage;
        loam_stack_usage(&stack_, &usage);
        return usage;
    }
    /** Returns the stack for the functions of loam/stack.h. */
    loam_stack *get() noexcept { return &stack_; }

  private:
    loam_stack stack_;
};

/** A frame of the thread's stack, or of another stack, for as long as the scope lives. Scopes of
 * one stack nest. The destructor is inlined, so that the scope lives in registers. */
class scope {
  public:
    /** Begins a frame. Throws std::bad_alloc if there is no memory for it. */
    explicit scope(loam_stack *stack = loam_thread_stack(), const char *file = __builtin_FILE(),
                   unsigned line = __builtin_LINE())
        : stack_(stack), frame_(loam_stack_push_at(stack, file, line)) {
        if (LOAM_UNLIKELY(!loam_stack_pushed_it(&frame_))) detail::no_memory();
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    /** Ends the frame and all objects in it. */
    __attribute__((__always_inline__)) ~scope() { loam_stack_pop_at(stack_, frame_, nullptr, 0); }

    /** make<T>(args...) returns a T in the newest frame, made of args. The newest frame is this one
     * unless another was begun. T's destructor must do nothing. create is the older name. */
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
    /** Returns count objects of a type whose destructor does nothing, each with its default
     * value. */
    template <typename T>
    [[nodiscard]] T *array(std::size_t count, const char *file = __builtin_FILE(),
                           unsigned line = __builtin_LINE()) {
        static_assert(std::is_trivially_destructible_v<T>, "nobody would call the destructors");
        T *first = static_cast<T *>(
            detail::stack_alloc(stack_, detail::array_bytes<T>(count), alignof(T), file, line));
        for (std::size_t i = 0; i < count; i++) ::new (static_cast<void *>(first + i)) T();
        return first;
    }
    /** Returns memory of `bytes` bytes at a multiple of align. Throws std::bad_alloc if there is
     * none. */
    [[nodiscard]] void *alloc(std::size_t bytes, std::size_t align = LOAM_STACK_ALIGN,
                              const char *file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
        return detail::stack_alloc(stack_, bytes, align, file, line);
    }
    /** Forbids allocations in the newest frame (loam_stack_seal). */
    void seal() noexcept { loam_stack_seal(stack_); }
    /** Allows allocations in the newest frame again (loam_stack_unseal). */
    void unseal() noexcept { loam_stack_unseal(stack_); }
    /** Returns the stack for the functions of loam/stack.h. */
    loam_stack *get() const noexcept { return stack_; }

  private:
    template <typename T, typename... Args> T *make_at(detail::place at, Args &&...args) {
        static_assert(std::is_trivially_destructible_v<T>, "nobody would call the destructor");
        void *memory = detail::stack_alloc(stack_, sizeof(T), alignof(T), at.file, at.line);
        return ::new (memory) T(std::forward<Args>(args)...);
    }

    loam_stack *stack_;
    loam_stack_frame frame_;
};

/** A caller's stack as a memory resource: it allocates in the frame that is the newest at the time.
 * Freed memory is used again if it was the last; other memory waits for the frame's end. */
class stack_resource final : public std::pmr::memory_resource {
  public:
    /** Allocates from stack, which must outlive the resource. */
    explicit stack_resource(loam_stack *stack = loam_thread_stack(),
                            detail::place at = detail::place::here()) noexcept
        : stack_(stack), at_(at) {}
    /** Returns the stack behind the resource. */
    loam_stack *get() const noexcept { return stack_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return detail::stack_alloc(stack_, detail::bytes_of(bytes), align, at_.file, at_.line);
    }
    void do_deallocate(void *p, std::size_t bytes, std::size_t) override {
        loam_stack_free_at(stack_, p, detail::bytes_of(bytes), at_.file, at_.line);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        /* Without RTTI no code can tell what the other resource is. */
        return this == &other;
    }

    loam_stack *stack_;
    detail::place at_;
};

/** An allocator of containers over a stack. Copies of the allocator, and copies of a container that
 * has it, allocate from the same stack. As with std::pmr, a container keeps its allocator for life:
 * assignment copies or moves the elements, and containers may be swapped only if their allocators
 * are equal. */
template <typename T> class stack_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;

    /** Allocates from the calling thread's stack. */
    stack_allocator() noexcept : stack_(loam_thread_stack()) {}
    /** Allocates from stack, which must outlive the allocator and its copies. */
    stack_allocator(loam_stack *stack) noexcept : stack_(stack) {}
    /** Allocates from the stack of an allocator of another type. */
    template <typename U>
    stack_allocator(const stack_allocator<U> &other) noexcept : stack_(other.stack_) {}

    /** Returns memory for count objects. Throws std::bad_alloc if there is none. */
    [[nodiscard]] T *allocate(std::size_t count) {
        return static_cast<T *>(
            detail::stack_alloc(stack_, detail::array_bytes<T>(count), alignof(T), nullptr, 0));
    }
    /** Frees what allocate returned for the same count. */
    void deallocate(T *p, std::size_t count) noexcept {
        loam_stack_free_at(stack_, p, detail::array_bytes_of<T>(count), nullptr, 0);
    }

    /** Returns whether both allocate from the same stack. */
    template <typename U> bool operator==(const stack_allocator<U> &other) const noexcept {
        return stack_ == other.stack_;
    }
    /** Returns whether they allocate from different stacks. */
    template <typename U> bool operator!=(const stack_allocator<U> &other) const noexcept {
        return stack_ != other.stack_;
    }

  private:
    template <typename U> friend class stack_allocator;
    loam_stack *stack_;
};

} // namespace loam

#include "loam/names_end.h"

#endif

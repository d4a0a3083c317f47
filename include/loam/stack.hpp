/* loam/stack.hpp: frame stacks for C++: an owner, frames that end with a block, a memory resource
 * and an allocator for containers (loam/stack.h).
 *
 *     loam::scope scope;                            // a frame of this thread's stack, to its end
 *     int *number = scope.make<int>(7);             // of a type whose destructor does nothing
 *     loam::stack_resource resource;
 *     std::pmr::vector<int> numbers(&resource);
 *     std::vector<int, loam::stack_allocator<int>> others;
 *
 * Choose it as stack.h says. Containers must end before the frame in which they allocated does, and
 * may not grow while a newer frame is alive: what they would take then ends with that one. A
 * checked stack reports this when they give back what they had.
 *
 * Out of memory is std::bad_alloc; nothing else is thrown but by constructors.
 */
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

/* A stack of its own. It cannot be moved: frames and containers know where it is. */
class stack {
  public:
    explicit stack(const loam_stack_options &options = {}, loam_source *source = nullptr,
                   detail::checks checks = LOAM_CHECKS_) {
        if (loam_stack_init_as(&stack_, source, &options, checks.flags) != 0) detail::no_memory();
    }
    stack(const stack &) = delete;
    stack &operator=(const stack &) = delete;
    ~stack() { loam_stack_deinit(&stack_); }

    void reset() noexcept { loam_stack_reset(&stack_); }
    std::size_t trim() noexcept { return loam_stack_trim(&stack_); }
    bool contains(const void *p) const noexcept { return loam_stack_contains(&stack_, p); }
    bool is_from(const void *p) const noexcept { return contains(p); } /* the older name */
    bool check() const noexcept { return loam_stack_check(&stack_); }
    loam_usage usage() const noexcept {
        loam_usage usage;
        loam_stack_usage(&stack_, &usage);
        return usage;
    }
    loam_stack *get() noexcept { return &stack_; }

  private:
    loam_stack stack_;
};

/* A frame for as long as it lives: of this thread's stack, or of another. Scopes of one stack nest.
 * Its destructor is inlined on every way, so that it lives in registers. */
class scope {
  public:
    explicit scope(loam_stack *stack = loam_thread_stack(), const char *file = __builtin_FILE(),
                   unsigned line = __builtin_LINE())
        : stack_(stack), frame_(loam_stack_push_at(stack, file, line)) {
        if (LOAM_UNLIKELY(!loam_stack_pushed_it(&frame_))) detail::no_memory();
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    __attribute__((__always_inline__)) ~scope() { loam_stack_pop_at(stack_, frame_, nullptr, 0); }

    /* In the newest frame, which is this one as long as no other was begun. */
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
    /* count of a type whose destructor does nothing, each with its default value. */
    template <typename T>
    [[nodiscard]] T *array(std::size_t count, const char *file = __builtin_FILE(),
                           unsigned line = __builtin_LINE()) {
        static_assert(std::is_trivially_destructible_v<T>, "nobody would call the destructors");
        T *first = static_cast<T *>(
            detail::stack_alloc(stack_, detail::array_bytes<T>(count), alignof(T), file, line));
        for (std::size_t i = 0; i < count; i++) ::new (static_cast<void *>(first + i)) T();
        return first;
    }
    [[nodiscard]] void *alloc(std::size_t bytes, std::size_t align = LOAM_STACK_ALIGN,
                              const char *file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
        return detail::stack_alloc(stack_, bytes, align, file, line);
    }
    void seal() noexcept { loam_stack_seal(stack_); }
    void unseal() noexcept { loam_stack_unseal(stack_); }
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

/* A stack, somebody else's, as a memory resource: from the frame that is the newest at the time.
 * Memory that is given back serves again if it was the last; the rest waits for the frame's end. */
class stack_resource final : public std::pmr::memory_resource {
  public:
    explicit stack_resource(loam_stack *stack = loam_thread_stack(),
                            detail::place at = detail::place::here()) noexcept
        : stack_(stack), at_(at) {}
    loam_stack *get() const noexcept { return stack_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return detail::stack_alloc(stack_, detail::bytes_of(bytes), align, at_.file, at_.line);
    }
    void do_deallocate(void *p, std::size_t bytes, std::size_t) override {
        loam_stack_free_at(stack_, p, detail::bytes_of(bytes), at_.file, at_.line);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other; /* without RTTI nobody knows what the other is */
    }

    loam_stack *stack_;
    detail::place at_;
};

/* A stack for containers that take an allocator. Copies of the allocator, and copies of a container
 * that has it, allocate from the same stack. As with std::pmr, a container keeps its allocator for
 * life: assignment copies or moves the elements, and containers may be swapped only if their
 * allocators are equal. */
template <typename T> class stack_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;

    stack_allocator() noexcept : stack_(loam_thread_stack()) {}
    stack_allocator(loam_stack *stack) noexcept : stack_(stack) {}
    template <typename U>
    stack_allocator(const stack_allocator<U> &other) noexcept : stack_(other.stack_) {}

    [[nodiscard]] T *allocate(std::size_t count) {
        return static_cast<T *>(
            detail::stack_alloc(stack_, detail::array_bytes<T>(count), alignof(T), nullptr, 0));
    }
    void deallocate(T *p, std::size_t count) noexcept {
        loam_stack_free_at(stack_, p, detail::array_bytes_of<T>(count), nullptr, 0);
    }

    template <typename U> bool operator==(const stack_allocator<U> &other) const noexcept {
        return stack_ == other.stack_;
    }
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

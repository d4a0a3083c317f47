/* loam/region.hpp: regions for C++: an owner, objects that are destroyed with their region, scopes,
 * a memory resource and an allocator for containers (loam/region.h).
 *
 *     loam::region request;                         // everything below ends with it
 *     auto *name = request.make<std::string>("its destructor runs then");
 *     {
 *         loam::region_scope scope(request);
 *         name = request.make<std::string>("its destructor runs where the scope ends");
 *     }
 *     loam::region_resource resource(request);
 *     std::pmr::vector<int> numbers(&resource);
 *     std::vector<int, loam::region_allocator<int>> others(request);
 *
 * Choose it as region.h says. It cannot hold arrays of a type whose destructor does something
 * (containers do that), and one thread at a time uses a region; containers must end before the
 * region that they live in.
 *
 * Out of memory is std::bad_alloc; nothing else is thrown but by constructors.
 */
#ifndef LOAM_REGION_HPP
#define LOAM_REGION_HPP

#include "loam/names_begin.h"

#include "loam/detail.hpp"
#include "loam/region.h"

#include <cstddef>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <utility>

namespace loam {

namespace detail {

[[nodiscard]] inline void *region_alloc(loam_region *region, std::size_t bytes, std::size_t align,
                                        const char *file, unsigned line) {
    return need(loam_region_alloc_aligned_at(region, bytes, align, file, line));
}

template <typename T> void region_end(void *object) { static_cast<T *>(object)->~T(); }

/* Gives the memory of an object back unless the object has come to life. */
template <typename T> struct region_place {
    loam_region *region;
    void *memory;
    ~region_place() {
        if (memory != nullptr)
            loam_region_free_aligned_at(region, memory, sizeof(T), alignof(T), nullptr, 0);
    }
};

} // namespace detail

namespace detail {

template <typename T, typename... Args>
[[nodiscard]] T *region_make_at(loam_region *region, place at, Args &&...args) {
    region_place<T> space = {region, region_alloc(region, sizeof(T), alignof(T), at.file, at.line)};
    T *object = ::new (space.memory) T(std::forward<Args>(args)...);
    if constexpr (!std::is_trivially_destructible_v<T>) {
        if (loam_region_add_cleanup(region, region_end<T>, object) == nullptr) {
            object->~T();
            no_memory();
        }
    }
    space.memory = nullptr;
    return object;
}

} // namespace detail

/* A T in the region, made of args: region_make<T>(region, args...). Its destructor, if it does
 * anything, runs when the region ends, is reset or rewound to before this: after those of objects
 * that were made later. std::bad_alloc iff there is no memory; what T's constructor throws passes
 * through. Nothing is left behind then. */
#define LOAM_FORM_NAMED_(n, name) \
    template <typename T LOAM_TYPES_##n##_> \
    [[nodiscard]] T *name(loam_region *region, \
                          LOAM_ARGUMENTS_##n##_ detail::place at = detail::place::here()) { \
        return detail::region_make_at<T>(region, at LOAM_FORWARD_##n##_); \
    }
#define LOAM_FORM_(n) LOAM_FORM_NAMED_(n, region_make) LOAM_FORM_NAMED_(n, region_create)
LOAM_FOR_EACH_ARITY_(LOAM_FORM_)
#undef LOAM_FORM_
#undef LOAM_FORM_NAMED_
template <typename T LOAM_TYPES_MORE_>
[[nodiscard]] T *region_make(loam_region *region, LOAM_ARGUMENTS_MORE_) {
    return detail::region_make_at<T>(region, detail::place{nullptr, 0} LOAM_FORWARD_MORE_);
}
/* The older name. */
template <typename T LOAM_TYPES_MORE_>
[[nodiscard]] T *region_create(loam_region *region, LOAM_ARGUMENTS_MORE_) {
    return detail::region_make_at<T>(region, detail::place{nullptr, 0} LOAM_FORWARD_MORE_);
}

/* A region of its own. It can be moved: the region itself stays where it is. */
class region {
  public:
    explicit region(const loam_region_options &options = {}, loam_source *source = nullptr,
                    detail::checks checks = LOAM_CHECKS_)
        : region_(loam_region_create_as(source, &options, checks.flags)) {
        if (region_ == nullptr) detail::no_memory();
    }
    /* Takes over one of loam_region_create; not nullptr. */
    explicit region(loam_region *owned) noexcept : region_(owned) {}
    region(region &&other) noexcept : region_(std::exchange(other.region_, nullptr)) {}
    /* The region that this one owned ends at once, with all that is in it. */
    region &operator=(region &&other) noexcept {
        if (this != &other) {
            loam_region_destroy(region_);
            region_ = std::exchange(other.region_, nullptr);
        }
        return *this;
    }
    region(const region &) = delete;
    region &operator=(const region &) = delete;
    ~region() { loam_region_destroy(region_); }

    /* As region_make<T>(get(), args...). */
#define LOAM_FORM_NAMED_(n, name) \
    template <typename T LOAM_TYPES_##n##_> \
    [[nodiscard]] T *name(LOAM_ARGUMENTS_##n##_ detail::place at = detail::place::here()) { \
        return detail::region_make_at<T>(region_, at LOAM_FORWARD_##n##_); \
    }
#define LOAM_FORM_(n) LOAM_FORM_NAMED_(n, make) LOAM_FORM_NAMED_(n, create) /* the older name */
    LOAM_FOR_EACH_ARITY_(LOAM_FORM_)
#undef LOAM_FORM_
#undef LOAM_FORM_NAMED_
    template <typename T LOAM_TYPES_MORE_> [[nodiscard]] T *make(LOAM_ARGUMENTS_MORE_) {
        return detail::region_make_at<T>(region_, detail::place{nullptr, 0} LOAM_FORWARD_MORE_);
    }
    template <typename T LOAM_TYPES_MORE_> [[nodiscard]] T *create(LOAM_ARGUMENTS_MORE_) {
        return detail::region_make_at<T>(region_, detail::place{nullptr, 0} LOAM_FORWARD_MORE_);
    }
    /* count of a type whose destructor does nothing, each with its default value. */
    template <typename T>
    [[nodiscard]] T *array(std::size_t count, const char *file = __builtin_FILE(),
                           unsigned line = __builtin_LINE()) {
        static_assert(std::is_trivially_destructible_v<T>, "nobody would call the destructors");
        T *first = static_cast<T *>(
            detail::region_alloc(region_, detail::array_bytes<T>(count), alignof(T), file, line));
        for (std::size_t i = 0; i < count; i++) ::new (static_cast<void *>(first + i)) T();
        return first;
    }
    /* Memory, and back. */
    [[nodiscard]] void *alloc(std::size_t bytes, std::size_t align = LOAM_REGION_ALIGN,
                              const char *file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
        return detail::region_alloc(region_, bytes, align, file, line);
    }
    void free(void *p, std::size_t bytes, std::size_t align = LOAM_REGION_ALIGN,
              const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()) noexcept {
        loam_region_free_aligned_at(region_, p, bytes, align, file, line);
    }
    /* A region over the same source. Its owner must be gone before this one ends, is reset or
     * rewound; who has none uses loam_region_create_child. */
    [[nodiscard]] region child(const loam_region_options &options = {}) {
        loam_region *made = loam_region_create_child(region_, &options);
        if (made == nullptr) detail::no_memory();
        return region(made);
    }

    void reset() noexcept { loam_region_reset(region_); }
    std::size_t trim() noexcept { return loam_region_trim(region_); }
    bool contains(const void *p) const noexcept { return loam_region_contains(region_, p); }
    bool is_from(const void *p) const noexcept { return contains(p); } /* the older name */
    bool check() const noexcept { return loam_region_check(region_); }
    loam_usage usage() const noexcept {
        loam_usage usage;
        loam_region_usage(region_, &usage);
        return usage;
    }
    loam_region *get() const noexcept { return region_; }

  private:
    loam_region *region_;
};

/* Drops what was allocated in the region since, at the scope's end. Scopes of one region nest. */
class region_scope {
  public:
    explicit region_scope(loam_region *region) noexcept
        : region_(region), mark_(loam_region_mark_here(region)) {}
    explicit region_scope(const region &region) noexcept : region_scope(region.get()) {}
    explicit region_scope(const region &&) = delete; /* it would end before the scope */
    region_scope(const region_scope &) = delete;
    region_scope &operator=(const region_scope &) = delete;
    ~region_scope() {
        if (region_ != nullptr) loam_region_rewind(region_, &mark_);
    }
    /* All that came since stays, and the scope is over. */
    void keep() noexcept {
        if (region_ != nullptr) loam_region_keep(region_, &mark_);
        region_ = nullptr;
    }

  private:
    loam_region *region_;
    loam_region_mark mark_;
};

/* One of this thread's scratch regions until the scope ends: not the one that the caller's results
 * are in. */
class scratch {
  public:
    explicit scratch(const loam_region *conflict = nullptr)
        : scratch_(loam_scratch_begin(conflict)) {
        if (scratch_.region == nullptr) detail::no_memory();
    }
    scratch(const scratch &) = delete;
    scratch &operator=(const scratch &) = delete;
    ~scratch() { loam_scratch_end(&scratch_); }
    loam_region *get() const noexcept { return scratch_.region; }

  private:
    loam_scratch scratch_;
};

/* A region, somebody else's, as a memory resource. What containers give back is used again as
 * loam_region_free says. Reports of a checked region name the line where the resource was made. */
class region_resource final : public std::pmr::memory_resource {
  public:
    explicit region_resource(loam_region *region, detail::place at = detail::place::here()) noexcept
        : region_(region), at_(at) {}
    explicit region_resource(const region &region,
                             detail::place at = detail::place::here()) noexcept
        : region_resource(region.get(), at) {}
    explicit region_resource(const region &&, detail::place = {}) = delete; /* it ends at once */
    loam_region *get() const noexcept { return region_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return detail::region_alloc(region_, detail::bytes_of(bytes), align, at_.file, at_.line);
    }
    void do_deallocate(void *p, std::size_t bytes, std::size_t align) override {
        loam_region_free_aligned_at(region_, p, detail::bytes_of(bytes), align, at_.file, at_.line);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        return this == &other; /* without RTTI nobody knows what the other is */
    }

    loam_region *region_;
    detail::place at_;
};

/* A region for containers that take an allocator. Copies of the allocator, and copies of a
 * container that has it, allocate from the same region. As with std::pmr, a container keeps its
 * allocator for life: assignment copies or moves the elements into the region of the container that
 * is assigned to, and containers may be swapped only if their allocators are equal. */
template <typename T> class region_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;

    region_allocator(loam_region *region) noexcept : region_(region) {}
    region_allocator(const region &region) noexcept : region_(region.get()) {}
    region_allocator(const region &&) = delete; /* it would end before the container */
    template <typename U>
    region_allocator(const region_allocator<U> &other) noexcept : region_(other.region_) {}

    [[nodiscard]] T *allocate(std::size_t count) {
        return static_cast<T *>(
            detail::region_alloc(region_, detail::array_bytes<T>(count), alignof(T), nullptr, 0));
    }
    void deallocate(T *p, std::size_t count) noexcept {
        loam_region_free_aligned_at(region_, p, detail::array_bytes_of<T>(count), alignof(T),
                                    nullptr, 0);
    }

    template <typename U> bool operator==(const region_allocator<U> &other) const noexcept {
        return region_ == other.region_;
    }
    template <typename U> bool operator!=(const region_allocator<U> &other) const noexcept {
        return region_ != other.region_;
    }

  private:
    template <typename U> friend class region_allocator;
    loam_region *region_;
};

} // namespace loam

#include "loam/names_end.h"

#endif

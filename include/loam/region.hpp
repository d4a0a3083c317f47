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
 * loam/region.h says when to choose regions. A region cannot hold arrays of a type with a
 * destructor that does something (containers can). One thread at a time uses a region. Containers
 * must end before the region that they live in.
 *
 * If there is no memory, std::bad_alloc is thrown. The only other exceptions are those of
 * constructors. */
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

/** Frees the memory of an object unless the object has been constructed. */
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

/** region_make<T>(region, args...) returns a T in the region, made of args. T's destructor, if it
 * does anything, runs when the region ends, is reset, or is rewound to a mark from before this
 * call; it runs after those of objects that were made later. Throws std::bad_alloc iff there is no
 * memory. What T's constructor throws passes through. After an exception nothing is left in the
 * region. */
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
/** The older name of region_make. */
template <typename T LOAM_TYPES_MORE_>
[[nodiscard]] T *region_create(loam_region *region, LOAM_ARGUMENTS_MORE_) {
    return detail::region_make_at<T>(region, detail::place{nullptr, 0} LOAM_FORWARD_MORE_);
}

/** An owner of a region. It can be moved: the loam_region itself stays where it is. */
class region {
  public:
    /** Creates a region (loam_region_create). source: nullptr selects loam_pages(). Throws
     * std::bad_alloc if there is no memory or options are bad. */
    explicit region(const loam_region_options &options = {}, loam_source *source = nullptr,
                    detail::checks checks = LOAM_CHECKS_)
        : region_(loam_region_create_as(source, &options, checks.flags)) {
        if (region_ == nullptr) detail::no_memory();
    }
    /** Takes over a region of loam_region_create, which must not be nullptr. */
    explicit region(loam_region *owned) noexcept : region_(owned) {}
    /** Takes over other's region. other must not be used then. */
    region(region &&other) noexcept : region_(std::exchange(other.region_, nullptr)) {}
    /** Ends this owner's region at once, with all objects in it, and takes over other's. */
    region &operator=(region &&other) noexcept {
        if (this != &other) {
            loam_region_destroy(region_);
            region_ = std::exchange(other.region_, nullptr);
        }
        return *this;
    }
    region(const region &) = delete;
    region &operator=(const region &) = delete;
    /** Ends the region and runs its cleanups. */
    ~region() { loam_region_destroy(region_); }

    /** make<T>(args...) does what region_make<T>(get(), args...) does. create is the older name. */
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
    /** Returns count objects of a type whose destructor does nothing, each with its default value.
     * Throws std::bad_alloc if there is no memory. */
    template <typename T>
    [[nodiscard]] T *array(std::size_t count, const char *file = __builtin_FILE(),
                           unsigned line = __builtin_LINE()) {
        static_assert(std::is_trivially_destructible_v<T>, "nobody would call the destructors");
        T *first = static_cast<T *>(
            detail::region_alloc(region_, detail::array_bytes<T>(count), alignof(T), file, line));
        for (std::size_t i = 0; i < count; i++) ::new (static_cast<void *>(first + i)) T();
        return first;
    }
    /** Returns memory of `bytes` bytes at a multiple of align. Throws std::bad_alloc if there is
     * none. */
    [[nodiscard]] void *alloc(std::size_t bytes, std::size_t align = LOAM_REGION_ALIGN,
                              const char *file = __builtin_FILE(),
                              unsigned line = __builtin_LINE()) {
        return detail::region_alloc(region_, bytes, align, file, line);
    }
    /** Frees memory of that size and alignment (loam_region_free_aligned). nullptr is allowed. */
    void free(void *p, std::size_t bytes, std::size_t align = LOAM_REGION_ALIGN,
              const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()) noexcept {
        loam_region_free_aligned_at(region_, p, bytes, align, file, line);
    }
    /** Returns the owner of a new region over the same source. That owner must end before this
     * region ends, is reset or rewound. For a child without an owner use
     * loam_region_create_child. */
    [[nodiscard]] region child(const loam_region_options &options = {}) {
        loam_region *made = loam_region_create_child(region_, &options);
        if (made == nullptr) detail::no_memory();
        return region(made);
    }

    /** Frees everything and runs all cleanups (loam_region_reset). */
    void reset() noexcept { loam_region_reset(region_); }
    /** Gives chunks without an object back, and returns their bytes (loam_region_trim). */
    std::size_t trim() noexcept { return loam_region_trim(region_); }
    /** Returns whether p points into an object of this region (loam_region_contains). */
    bool contains(const void *p) const noexcept { return loam_region_contains(region_, p); }
    /** The older name of contains. */
    bool is_from(const void *p) const noexcept { return contains(p); }
    /** Walks the region and returns whether it is undamaged (loam_region_check). */
    bool check() const noexcept { return loam_region_check(region_); }
    /** Returns the region's numbers (loam_region_usage). */
    loam_usage usage() const noexcept {
        loam_usage usage;
        loam_region_usage(region_, &usage);
        return usage;
    }
    /** Returns the region for the functions of loam/region.h. */
    loam_region *get() const noexcept { return region_; }

  private:
    loam_region *region_;
};

/** At its end frees what was allocated in the region since its beginning. Scopes of one region
 * nest. */
class region_scope {
  public:
    /** Marks the region, which must outlive the scope. */
    explicit region_scope(loam_region *region) noexcept
        : region_(region), mark_(loam_region_mark_here(region)) {}
    /** Marks the owner's region, which must outlive the scope. */
    explicit region_scope(const region &region) noexcept : region_scope(region.get()) {}
    /** A temporary would end before the scope. */
    explicit region_scope(const region &&) = delete;
    region_scope(const region_scope &) = delete;
    region_scope &operator=(const region_scope &) = delete;
    /** Rewinds the region to the scope's beginning, unless keep was called. */
    ~region_scope() {
        if (region_ != nullptr) loam_region_rewind(region_, &mark_);
    }
    /** Keeps all objects allocated since the scope's beginning, and ends the scope. */
    void keep() noexcept {
        if (region_ != nullptr) loam_region_keep(region_, &mark_);
        region_ = nullptr;
    }

  private:
    loam_region *region_;
    loam_region_mark mark_;
};

/** One of the thread's scratch regions until the scope ends. conflict: the region of the caller's
 * results, which is not used. */
class scratch {
  public:
    /** Marks a scratch region. Throws std::bad_alloc if there is no memory for one. */
    explicit scratch(const loam_region *conflict = nullptr)
        : scratch_(loam_scratch_begin(conflict)) {
        if (scratch_.region == nullptr) detail::no_memory();
    }
    scratch(const scratch &) = delete;
    scratch &operator=(const scratch &) = delete;
    /** Rewinds the scratch region. */
    ~scratch() { loam_scratch_end(&scratch_); }
    /** Returns the scratch region. */
    loam_region *get() const noexcept { return scratch_.region; }

  private:
    loam_scratch scratch_;
};

/** A caller's region as a memory resource. Memory that containers free is reused as
 * loam_region_free says. Reports of a checked region name the line where the resource was made. */
class region_resource final : public std::pmr::memory_resource {
  public:
    /** Allocates from region, which must outlive the resource. */
    explicit region_resource(loam_region *region, detail::place at = detail::place::here()) noexcept
        : region_(region), at_(at) {}
    /** Allocates from the owner's region, which must outlive the resource. */
    explicit region_resource(const region &region,
                             detail::place at = detail::place::here()) noexcept
        : region_resource(region.get(), at) {}
    /** A temporary would end at once. */
    explicit region_resource(const region &&, detail::place = {}) = delete;
    /** Returns the region behind the resource. */
    loam_region *get() const noexcept { return region_; }

  private:
    void *do_allocate(std::size_t bytes, std::size_t align) override {
        return detail::region_alloc(region_, detail::bytes_of(bytes), align, at_.file, at_.line);
    }
    void do_deallocate(void *p, std::size_t bytes, std::size_t align) override {
        loam_region_free_aligned_at(region_, p, detail::bytes_of(bytes), align, at_.file, at_.line);
    }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
        /* Without RTTI no code can tell what the other resource is. */
        return this == &other;
    }

    loam_region *region_;
    detail::place at_;
};

/** An allocator of containers over a region. Copies of the allocator, and copies of a container
 * that has it, allocate from the same region. As with std::pmr, a container keeps its allocator for
 * life: assignment copies or moves the elements into the region of the container that is assigned
 * to, and containers may be swapped only if their allocators are equal. */
template <typename T> class region_allocator {
  public:
    using value_type = T;
    using propagate_on_container_copy_assignment = std::false_type;
    using propagate_on_container_move_assignment = std::false_type;
    using propagate_on_container_swap = std::false_type;

    /** Allocates from region, which must outlive the allocator and its copies. */
    region_allocator(loam_region *region) noexcept : region_(region) {}
    /** Allocates from the owner's region, which must outlive the allocator and its copies. */
    region_allocator(const region &region) noexcept : region_(region.get()) {}
    /** A temporary would end before the container. */
    region_allocator(const region &&) = delete;
    /** Allocates from the region of an allocator of another type. */
    template <typename U>
    region_allocator(const region_allocator<U> &other) noexcept : region_(other.region_) {}

    /** Returns memory for count objects. Throws std::bad_alloc if there is none. */
    [[nodiscard]] T *allocate(std::size_t count) {
        return static_cast<T *>(
            detail::region_alloc(region_, detail::array_bytes<T>(count), alignof(T), nullptr, 0));
    }
    /** Frees what allocate returned for the same count. */
    void deallocate(T *p, std::size_t count) noexcept {
        loam_region_free_aligned_at(region_, p, detail::array_bytes_of<T>(count), alignof(T),
                                    nullptr, 0);
    }

    /** Returns whether both allocate from the same region. */
    template <typename U> bool operator==(const region_allocator<U> &other) const noexcept {
        return region_ == other.region_;
    }
    /** Returns whether they allocate from different regions. */
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

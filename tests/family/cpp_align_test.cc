// cpp_align_test.cc: every C++ face gives what the alignment of a type asks for: {face} x {alignof
// 1 to 4096} x {size} x {the class, derived from a smaller one} x {one object, an array}. Objects
// are filled, so that two that overlap are seen.
#include "loam/alloc.hpp"
#include "loam/blocks.hpp"
#include "loam/fifo.hpp"
#include "loam/heap.hpp"
#include "loam/malloc.hpp"
#include "loam/pool.hpp"
#include "loam/region.hpp"
#include "loam/stack.hpp"
#include "loam/xallocator.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace {

enum { OBJECTS = 9 };

/* A debug library checks all allocators: a pool with memory of its own needs room for that. */
#if LOAM_DEBUG
using Checks = std::integral_constant<unsigned, LOAM_CHECK>;
#else
using Checks = loam::detail::checks_of_file;
#endif

/* What was given, to be filled with its number and looked at when all are there. */
class Given {
  public:
    Given(const char *face, size_t align, size_t bytes)
        : face_(face), align_(align), bytes_(bytes) {}
    void add(void *p, size_t bytes) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align_, 0u)
            << face_ << ", alignof " << align_ << ", sizeof " << bytes_;
        memset(p, static_cast<int>(all_.size() + 1), bytes);
        all_.push_back({static_cast<unsigned char *>(p), bytes});
    }
    void look() const {
        for (size_t i = 0; i < all_.size(); i++)
            for (size_t at = 0; at < all_[i].second; at++)
                if (all_[i].first[at] != i + 1) {
                    ADD_FAILURE() << face_ << ", alignof " << align_ << ", sizeof " << bytes_
                                  << ": object " << i << " is overwritten at byte " << at;
                    return;
                }
    }

  private:
    const char *face_;
    size_t align_, bytes_;
    std::vector<std::pair<unsigned char *, size_t>> all_;
};

/* ---- Types ---- */

template <size_t A, size_t N> struct alignas(A) Plain {
    unsigned char bytes[N];
};
template <size_t A, size_t N> struct alignas(A) Pooled {
    LOAM_POOLED(Pooled)
    unsigned char bytes[N];
};
/* Blocks that are larger than the class, and aligned to 8 by their own size. */
template <size_t A, size_t N> struct alignas(A) Roomy {
    LOAM_POOLED_BLOCKS(Roomy, sizeof(Roomy) / 16 * 16 + 24, 400, 0)
    unsigned char bytes[N];
};
/* Half of the objects are operator new's. */
template <size_t A, size_t N> struct alignas(A) Limited {
    LOAM_POOLED_BLOCKS(Limited, sizeof(Limited), 0, OBJECTS / 2)
    unsigned char bytes[N];
};
template <size_t A, size_t N> struct alignas(A) Based : loam::pooled<Based<A, N>> {
    unsigned char bytes[N];
};
template <size_t A, size_t N> struct alignas(A) Xallocated {
    XALLOCATOR
    unsigned char bytes[N];
};
#define DECLARED(Name, objects, memory) \
    template <size_t A, size_t N> struct alignas(A) Name { \
        DECLARE_ALLOCATOR \
      public: \
        unsigned char bytes[N]; \
    }; \
    template <size_t A, size_t N> \
    loam::detail::class_allocator Name<A, N>::loam_allocator_(sizeof(Name), (objects), (memory), \
                                                              #Name, alignof(Name));
template <size_t A, size_t N> alignas(16) char memory_of[(OBJECTS + 2) * (N + 3 * A + 512)];
DECLARED(DeclaredHeap, 0, nullptr)
DECLARED(DeclaredFixed, OBJECTS + 1, nullptr)
DECLARED(DeclaredStatic, (sizeof(memory_of<A, N>) - 8) / ((sizeof(DeclaredStatic) + 7) / 8 * 8),
         (memory_of<A, N>)+8)
/* As programs define it that know no alignment. */
template <size_t A, size_t N> struct alignas(A) DeclaredPlainly {
    DECLARE_ALLOCATOR
  public:
    unsigned char bytes[N];
};
template <size_t A, size_t N>
loam::detail::class_allocator DeclaredPlainly<A, N>::loam_allocator_(sizeof(DeclaredPlainly), 0,
                                                                     nullptr, "plainly");

/* Classes that are derived from a small one, which has the operators, and deleted as it. */
struct PooledBase {
    LOAM_POOLED_BLOCKS(PooledBase, 136, 800, 0)
    virtual ~PooledBase() = default;
};
struct LimitedBase {
    LOAM_POOLED_BLOCKS(LimitedBase, 64, 100, 4)
    virtual ~LimitedBase() = default;
};
struct XallocatedBase {
    XALLOCATOR
    virtual ~XallocatedBase() = default;
};
struct Declared64 {
    DECLARE_ALLOCATOR
  public:
    virtual ~Declared64() = default;
    unsigned char room[248];
};
template <typename Base, size_t A, size_t N> struct alignas(A) Derived : Base {
    unsigned char bytes[N];
};

} // namespace

IMPLEMENT_ALLOCATOR(Declared64, 0, nullptr)

namespace {

/* ---- Faces ---- */

/* What a face is asked, by one function for each type: all that there are hundreds of. The rest is
 * compiled once, and knows no type that an alignment would follow from. */
enum What { ONE, TRY, MANY, TRY_TWO, DELETE, DELETE_MANY };

struct Type {
    const char *face;
    size_t align, bytes, filled; /* alignof, sizeof, and how much of an object is the test's */
};

template <typename T> void *new_or_delete(What what, void *p) {
    switch (what) {
    case ONE: return new T;
    case TRY: return new (std::nothrow) T;
    case MANY: return new T[3];
    case TRY_TWO: return new (std::nothrow) T[2];
    case DELETE: delete static_cast<T *>(p); return nullptr;
    case DELETE_MANY: delete[] static_cast<T *>(p); return nullptr;
    }
    return nullptr;
}

void by_new(const Type &type, void *(*ask)(What, void *)) {
    Given given(type.face, type.align, type.bytes);
    void *one[OBJECTS], *many = ask(MANY, nullptr), *none = ask(TRY, nullptr);
    for (void *&each : one) given.add(each = ask(ONE, nullptr), type.filled);
    for (size_t i = 0; i < 3; i++)
        given.add(static_cast<char *>(many) + i * type.bytes, type.filled);
    given.add(none, type.filled);
    void *few = ask(TRY_TWO, nullptr);
    for (size_t i = 0; i < 2; i++)
        given.add(static_cast<char *>(few) + i * type.bytes, type.filled);
    given.look();
    ask(DELETE, none);
    ask(DELETE_MANY, few);
    for (int i = 0; i < OBJECTS; i += 2) ask(DELETE, one[i]);
    for (int i = 0; i < OBJECTS; i += 2) one[i] = ask(ONE, nullptr);
    for (void *each : one) ask(DELETE, each);
    ask(DELETE_MANY, many);
}

template <typename T> void by_new(const char *face) {
    static_assert(offsetof(T, bytes) == 0, "an object begins with its bytes");
    by_new({face, alignof(T), sizeof(T), sizeof(T::bytes)}, new_or_delete<T>);
}

/* Objects are deleted as what they are derived from. Their own bytes, behind a table of functions,
 * are looked at, and the object's address. */
struct Made {
    void *object, *base, *bytes;
};

template <typename T, typename Base> Made made_or_deleted(What what, void *p) {
    switch (what) {
    case ONE: {
        T *made = new T;
        return {made, static_cast<Base *>(made), made->bytes};
    }
    case DELETE: delete static_cast<Base *>(p); break;
    case DELETE_MANY: delete[] static_cast<T *>(p); break;
    default: return {new T[3], nullptr, nullptr};
    }
    return {};
}

void by_base(const Type &type, Made (*ask)(What, void *)) {
    Given given(type.face, 1, type.bytes), objects(type.face, type.align, type.bytes);
    void *one[OBJECTS];
    for (void *&each : one) {
        Made made = ask(ONE, nullptr);
        objects.add(made.object, 0);
        given.add(made.bytes, type.filled);
        each = made.base;
    }
    void *many = ask(MANY, nullptr).object;
    objects.add(many, 0);
    given.look();
    for (void *each : one) ask(DELETE, each);
    ask(DELETE_MANY, many);
}

template <typename Base, size_t A, size_t N> void by_base(const char *face) {
    using T = Derived<Base, A, N>;
    by_base({face, alignof(T), sizeof(T), N}, made_or_deleted<T, Base>);
}

void by_make(const Type &type, void *(*make)(void *), void *from) {
    Given given(type.face, type.align, type.bytes);
    for (int i = 0; i < OBJECTS; i++) given.add(make(from), type.bytes);
    given.look();
}

template <typename T, typename Make> void by_make(const char *face, Make make) {
    by_make(
        {face, alignof(T), sizeof(T), sizeof(T)},
        [](void *from) -> void * { return (*static_cast<Make *>(from))(); }, &make);
}

void by_allocator(const Type &type, void *(*ask)(void *, void *, size_t), void *allocator) {
    Given given(type.face, type.align, type.bytes);
    void *all[OBJECTS];
    for (size_t i = 0; i < OBJECTS; i++)
        given.add(all[i] = ask(allocator, nullptr, 1 + i % 3), (1 + i % 3) * type.bytes);
    given.look();
    for (size_t i = OBJECTS; i-- > 0;) ask(allocator, all[i], 1 + i % 3);
}

template <typename T, typename Allocator> void by_allocator(const char *face, Allocator allocator) {
    by_allocator(
        {face, alignof(T), sizeof(T), sizeof(T)},
        [](void *from, void *p, size_t n) -> void * {
            Allocator &it = *static_cast<Allocator *>(from);
            if (p == nullptr) return it.allocate(n);
            it.deallocate(static_cast<T *>(p), n);
            return nullptr;
        },
        &allocator);
}

void by_resource(const char *face, std::pmr::memory_resource &resource, size_t bytes,
                 size_t align) {
    Given given(face, align, bytes);
    void *all[OBJECTS];
    for (void *&each : all) given.add(each = resource.allocate(bytes, align), bytes);
    given.look();
    for (int i = OBJECTS; i-- > 0;) resource.deallocate(all[i], bytes, align);
}

/* New ones for each type; compiled once. */
struct Allocators {
    loam::region region;
    loam::fifo fifo;
    loam::blocks blocks;
    loam::scope scope;
    loam::heap heap;
};

[[gnu::noinline]] void with_allocators(void (*body)(Allocators &)) {
    Allocators all;
    body(all);
}

template <size_t A, size_t N> void each_allocator(Allocators &all) {
    auto &[region, fifo, blocks, scope, heap] = all;
    using T = Plain<A, N>;
    loam::pool_of<T> pool;
    by_make<T>("region.make", [&region = region] { return region.make<T>(); });
    by_make<T>("region.array", [&region = region] { return region.array<T>(1); });
    by_make<T>("fifo.make", [&fifo = fifo] { return fifo.make<T>(); });
    by_make<T>("blocks.make", [&blocks = blocks] { return blocks.make<T>(); });
    by_make<T>("pool_of.make", [&] { return pool.make(); });
    by_make<T>("scope.make", [&scope = scope] { return scope.make<T>(); });
    by_make<T>("scope.array", [&scope = scope] { return scope.array<T>(1); });
    by_allocator<T>("region_allocator", loam::region_allocator<T>(region));
    by_allocator<T>("fifo_allocator", loam::fifo_allocator<T>(fifo));
    by_allocator<T>("blocks_allocator", loam::blocks_allocator<T>(blocks));
    by_allocator<T>("pool_allocator", loam::pool_allocator<T>());
    by_allocator<T>("stack_allocator", loam::stack_allocator<T>());
    by_allocator<T>("heap_allocator", loam::heap_allocator<T>(heap));
    by_allocator<T>("xalloc_allocator", loam::xalloc_allocator<T>());
    by_allocator<T>("allocator", loam::allocator<T>());
    by_allocator<T>("alloc_allocator",
                    loam::alloc_allocator<T>(loam_region_as_alloc(region.get())));
    static loam::AllocatorPool<T, OBJECTS + 3, Checks> own;
    void *taken[OBJECTS], **next = taken;
    by_make<T>("AllocatorPool", [&] { return *next++ = own.Allocate(sizeof(T)); });
    for (void *each : taken) own.Deallocate(each);
}

template <size_t A, size_t N> void each_face() {
    by_new<Pooled<A, N>>("LOAM_POOLED");
    by_new<Roomy<A, N>>("LOAM_POOLED_BLOCKS");
    by_new<Limited<A, N>>("LOAM_POOLED_BLOCKS with a limit");
    by_new<Based<A, N>>("loam::pooled");
    by_new<Xallocated<A, N>>("XALLOCATOR");
    by_new<DeclaredHeap<A, N>>("DECLARE_ALLOCATOR, heap blocks");
    by_new<DeclaredFixed<A, N>>("DECLARE_ALLOCATOR, heap pool");
    by_new<DeclaredStatic<A, N>>("DECLARE_ALLOCATOR, static pool");
    by_new<DeclaredPlainly<A, N>>("DECLARE_ALLOCATOR by hand");
    by_base<PooledBase, A, N>("derived of LOAM_POOLED_BLOCKS");
    by_base<LimitedBase, A, N>("derived of LOAM_POOLED_BLOCKS with a limit");
    by_base<XallocatedBase, A, N>("derived of XALLOCATOR");
    if constexpr (sizeof(Derived<Declared64, A, N>) <= sizeof(Declared64))
        by_base<Declared64, A, N>("derived of DECLARE_ALLOCATOR");
    with_allocators(each_allocator<A, N>);
}

/* With AddressSanitizer a type takes four times as long to compile, and similar alignments take the
 * same way. */
constexpr bool is_tried(size_t align) {
#if defined(__SANITIZE_ADDRESS__)
    return align == 1 || align == 8 || align == 16 || align == 64 || align == 4096;
#else
    return align != 0;
#endif
}

/* A small size; one that needs 16 at times and 8 at others where A does not say; and one that is no
 * multiple. */
template <size_t A> void each_size() {
    if constexpr (is_tried(A)) {
        each_face<A, 1>();
        if constexpr (A <= 16) each_face<A, 24>();
        each_face<A, 100>();
    }
}

TEST(CppAlign, UpToAWord) {
    each_size<1>();
    each_size<2>();
    each_size<4>();
    each_size<8>();
}
TEST(CppAlign, UpToACacheLine) {
    each_size<16>();
    each_size<32>();
    each_size<64>();
}
TEST(CppAlign, UpToAPage) {
    each_size<128>();
    each_size<256>();
    each_size<512>();
    each_size<1024>();
    each_size<2048>();
    each_size<4096>();
}

TEST(CppAlign, Resources) {
    loam::region region;
    loam::fifo fifo;
    loam::heap heap;
    loam::scope scope;
    loam::region_resource regions(region);
    loam::fifo_resource fifos(fifo);
    loam::heap_resource heaps(heap);
    loam::stack_resource stacks;
    loam::blocks_resource blocks;
    loam::pool_resource pools(64);
    loam::shared_pool_resource shared(64);
    loam::alloc_resource handles(loam_heap_as_alloc(nullptr));
    std::pair<const char *, std::pmr::memory_resource *> all[] = {
        {"region_resource", &regions},
        {"fifo_resource", &fifos},
        {"heap_resource", &heaps},
        {"stack_resource", &stacks},
        {"blocks_resource", &blocks},
        {"pool_resource", &pools},
        {"shared_pool_resource", &shared},
        {"alloc_resource", &handles},
        {"malloc_resource", loam::malloc_resource::get()}};
    for (auto [name, resource] : all)
        for (size_t align = 1; align <= 4096; align *= 2)
            for (size_t bytes :
                 {size_t{1}, size_t{8}, size_t{24}, size_t{64}, size_t{100}, align, 3 * align})
                by_resource(name, *resource, bytes, align);
}

} // namespace

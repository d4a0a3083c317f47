/* fheap_cpp_test.cc: loam/heap.hpp: owners, scopes, memory resources, allocators. */
#include "heap_unit.h"

#include "loam/heap.hpp"

#include <unistd.h>
#include <utility>

#include <list>
#include <map>
#include <string>

namespace {

class FheapCpp : public unit::HeapTest {};

TEST_F(FheapCpp, AnOwnerEndsItsHeap) {
    void *p;
    {
        loam::heap heap;
        p = heap.alloc(100);
        EXPECT_TRUE(heap.owns(p));
        void *aligned = heap.alloc(100, 4096);
        EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(aligned) % 4096);
        loam::heap other(std::move(heap));
        EXPECT_EQ(nullptr, heap.get());
        EXPECT_TRUE(other.owns(p));
        loam::heap third;
        third = std::move(other);
        EXPECT_TRUE(third.owns(p));
        EXPECT_EQ(2u, third.usage().objects);
    }
    EXPECT_EQ(&lm_nobody, lm_page_of(p));
}

TEST_F(FheapCpp, DissolvedObjectsLiveOn) {
    loam::heap heap;
    void *p = heap.alloc(100);
    memset(p, 1, 100);
    heap.dissolve();
    EXPECT_EQ(nullptr, heap.get());
    loam_free(p);
}

TEST_F(FheapCpp, ALimitThrows) {
    loam::heap heap;
    heap.limit(1 << 20);
    EXPECT_NO_THROW((void)heap.alloc(100000));
    EXPECT_THROW((void)heap.alloc(2000000), std::bad_alloc);
    EXPECT_THROW((void)heap.alloc(SIZE_MAX), std::bad_alloc);
}

/* It would leave the worker paused for good: it ends the program at once instead. */
TEST_F(FheapCpp, AVisitorMustNotThrow) {
    static_assert(noexcept(
        loam_heap_visit(nullptr, std::declval<loam_heap_area_visitor *>(), nullptr, nullptr)));
    loam::heap heap;
    (void)heap.alloc(100);
    EXPECT_DEATH(
        {
            try {
                (void)loam_heap_visit(
                    heap.get(), [](const loam_heap_area *, void *) -> bool { throw 1; }, nullptr,
                    nullptr);
            } catch (int) {
                _exit(0);
            }
        },
        "");
}

TEST_F(FheapCpp, ScopesNest) {
    unit::in_thread([] {
        loam::heap outer, inner;
        {
            loam::heap_scope one(outer);
            void *in_outer = loam_malloc(100);
            {
                loam::heap_scope two(inner);
                EXPECT_TRUE(inner.owns(loam_malloc(100)));
            }
            EXPECT_TRUE(outer.owns(in_outer));
            EXPECT_TRUE(outer.owns(loam_malloc(100)));
        }
        void *own = loam_malloc(100);
        EXPECT_FALSE(outer.contains(own));
        loam_free(own);
    });
}

TEST_F(FheapCpp, ContainersLiveInIt) {
    loam::heap heap;
    loam::heap_resource resource(heap);
    std::pmr::map<int, std::pmr::string> map(&resource);
    for (int i = 0; i < 1000; i++) map.emplace(i, std::string(40, 'x'));
    EXPECT_TRUE(heap.owns(&*map.find(500)) || heap.contains(&*map.find(500)));
    EXPECT_GE(heap.usage().objects, 2000u);
    std::list<long, loam::heap_allocator<long>> list(heap);
    for (long i = 0; i < 1000; i++) list.push_back(i);
    EXPECT_TRUE(heap.contains(&list.back()));
    struct alignas(256) Wide {
        char bytes[256];
    };
    loam::heap_allocator<Wide> wide(heap);
    Wide *p = wide.allocate(3);
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(p) % 256);
    wide.deallocate(p, 3);
    EXPECT_TRUE(wide == loam::heap_allocator<int>(heap));
    loam::heap other;
    EXPECT_TRUE(wide != loam::heap_allocator<int>(other));
    EXPECT_THROW((void)wide.allocate(SIZE_MAX / 100), std::bad_alloc);
}

} // namespace

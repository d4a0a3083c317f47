/* cpp_test.cc: loam/malloc.hpp: the allocator, the memory resource, and memory as operator new
 * gives it. */
#include <gtest/gtest.h>
#include <loam/malloc.hpp>

#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <vector>

namespace {

size_t address(const void *p) { return reinterpret_cast<size_t>(p); }

struct alignas(256) Wide {
    char bytes[256];
};

using Text = std::basic_string<char, std::char_traits<char>, loam::allocator<char>>;

TEST(Allocator, Containers) {
    std::vector<int, loam::allocator<int>> numbers;
    std::list<Text, loam::allocator<Text>> list;
    std::map<int, Text, std::less<>, loam::allocator<std::pair<const int, Text>>> tree;
    std::unordered_map<int, int, std::hash<int>, std::equal_to<>,
                       loam::allocator<std::pair<const int, int>>>
        table;
    std::deque<Wide, loam::allocator<Wide>> wide;
    for (int i = 0; i < 3000; i++) {
        numbers.push_back(i);
        list.emplace_back(static_cast<size_t>(i) % 90, 'x');
        tree.emplace(i, Text(static_cast<size_t>(i) % 70, 'y'));
        table[i] = -i;
        ASSERT_EQ(0u, address(&wide.emplace_back()) % 256);
    }
    EXPECT_EQ(2999, numbers.back());
    EXPECT_EQ(2999u % 90, list.back().size());
    EXPECT_EQ(Text(2999 % 70, 'y'), tree.at(2999));
    EXPECT_EQ(-2999, table.at(2999));
    /* It is loam's memory: another function of the heap takes it. */
    loam::allocator<double> doubles(numbers.get_allocator());
    double *array = doubles.allocate(100);
    EXPECT_GE(loam_usable_size(array), 100 * sizeof(double));
    loam_free(array);
    /* All are equal: a move takes the memory with it. */
    const int *data = numbers.data();
    std::vector<int, loam::allocator<int>> moved(std::move(numbers), loam::allocator<int>());
    EXPECT_EQ(data, moved.data());
    std::thread([&] { moved = {}; }).join();
    static_assert(std::allocator_traits<loam::allocator<int>>::is_always_equal::value);
    static_assert(std::is_empty_v<loam::allocator<int>>);
    EXPECT_TRUE(loam::allocator<int>() == loam::allocator<Wide>());
    EXPECT_FALSE(loam::allocator<int>() != loam::allocator<Wide>());
    auto shared = std::allocate_shared<Wide>(loam::allocator<Wide>());
    EXPECT_EQ(0u, address(shared.get()) % 256);
}

TEST(Allocator, TooManyAreBadAlloc) {
    loam::allocator<Wide> wide;
    loam::allocator<long> longs;
    EXPECT_THROW((void)wide.allocate(SIZE_MAX / sizeof(Wide) + 2), std::bad_alloc);
    EXPECT_THROW((void)longs.allocate(SIZE_MAX / 8), std::bad_alloc);
    EXPECT_THROW((void)longs.allocate(size_t{1} << 58), std::bad_alloc);
    EXPECT_THROW((void)wide.allocate(size_t{1} << 52), std::bad_alloc);
}

TEST(Resource, ContainersAndAlignments) {
    std::pmr::memory_resource *heap = loam::malloc_resource::get();
    EXPECT_EQ(heap, loam::malloc_resource::get());
    EXPECT_TRUE(heap->is_equal(*loam::malloc_resource::get()));
    EXPECT_FALSE(heap->is_equal(*std::pmr::new_delete_resource()));
    std::pmr::map<std::pmr::string, std::pmr::vector<int>> tree(heap);
    for (int i = 0; i < 1000; i++) {
        std::pmr::string key("a key that needs memory of its own, number ", heap);
        key += std::to_string(i).c_str();
        tree[key].assign(static_cast<size_t>(i), i);
    }
    EXPECT_EQ(1000u, tree.size());
    EXPECT_EQ(heap, tree.begin()->second.get_allocator().resource());
    for (size_t align = 1; align <= (1u << 20); align *= 2) {
        for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{70000}}) {
            void *p = heap->allocate(bytes, align);
            EXPECT_EQ(0u, address(p) % align);
            EXPECT_GE(loam_usable_size(p), bytes);
            memset(p, 1, bytes);
            heap->deallocate(p, bytes, align);
        }
    }
    EXPECT_THROW((void)heap->allocate(SIZE_MAX, 16), std::bad_alloc);
    EXPECT_THROW((void)heap->allocate(SIZE_MAX, 64), std::bad_alloc);
    static_assert(std::is_final_v<loam::malloc_resource>);
}

int asked;
struct Enough {};

TEST(HeapNew, TheHandlerIsAskedUntilItGivesUp) {
    const size_t never = SIZE_MAX / 2;
    void *p = loam::heap_new(100), *q = loam::heap_new(100, 4096), *r = loam::heap_new_nothrow(0);
    EXPECT_EQ(0u, address(q) % 4096);
    EXPECT_NE(nullptr, r);
    for (void *each : {p, q, r}) loam_free(each);
    EXPECT_THROW((void)loam::heap_new(never), std::bad_alloc);
    EXPECT_EQ(nullptr, loam::heap_new_nothrow(never));
    asked = 0;
    std::set_new_handler([] {
        if (++asked == 3) std::set_new_handler(nullptr);
    });
    EXPECT_THROW((void)loam::heap_new(never, 64), std::bad_alloc);
    EXPECT_EQ(3, asked);
    std::set_new_handler([] { throw Enough(); });
    EXPECT_THROW((void)loam::heap_new(never), Enough);
    EXPECT_THROW((void)loam::heap_new(100, 48), Enough) << "no power of two";
    EXPECT_EQ(nullptr, loam::heap_new_nothrow(never));
    EXPECT_EQ(nullptr, loam::heap_new_nothrow(never, 128));
    std::set_new_handler(nullptr);
}

} // namespace

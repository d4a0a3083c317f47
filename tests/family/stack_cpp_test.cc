// stack_cpp_test.cc: loam/stack.hpp: an owner, scopes, a memory resource, an allocator for
// containers.
#include "loam/stack.hpp"

#include "stack_sources.h"

#include <algorithm>
#include <map>
#include <memory_resource>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

size_t used(loam_stack *stack) {
    loam_usage usage;
    loam_stack_usage(stack, &usage);
    return usage.used_bytes;
}

struct Point {
    int x, y;
    Point(int x, int y) : x(x), y(y) {}
};

TEST(StackCpp, ScopesOfAStackOfItsOwn) {
    Counted counted;
    {
        loam::stack stack({}, &counted.source);
        loam::scope outer(stack.get());
        Point *point = outer.make<Point>(3, 4);
        int *numbers = outer.array<int>(1000);
        EXPECT_EQ(point->x + point->y + std::accumulate(numbers, numbers + 1000, 0), 7);
        EXPECT_TRUE(stack.contains(point));
        size_t before = stack.usage().used_bytes;
        {
            loam::scope inner(stack.get());
            EXPECT_NE(inner.alloc(100000, 64), nullptr);
            EXPECT_GT(stack.usage().used_bytes, before + 100000);
        }
        EXPECT_EQ(stack.usage().used_bytes, before);
        EXPECT_TRUE(stack.check());
        EXPECT_GT(stack.trim(), 0u);
        outer.seal();
        { EXPECT_NE(loam::scope(stack.get()).alloc(8), nullptr); }
        outer.unseal();
        EXPECT_NE(outer.alloc(8), nullptr);
    }
    EXPECT_EQ(counted.used_bytes, 0u);
}

TEST(StackCpp, AScopeEndsWithAnException) {
    size_t before = used(loam_thread_stack());
    try {
        loam::scope scope;
        (void)scope.alloc(1000);
        throw std::runtime_error("so");
    } catch (const std::runtime_error &) {}
    EXPECT_EQ(used(loam_thread_stack()), before);
}

TEST(StackCpp, NoMemoryIsBadAlloc) {
    loam_limit limit;
    loam_limit_init(&limit, loam_heap_source(), 70000);
    loam::stack stack({}, &limit.source);
    loam::scope scope(stack.get());
    EXPECT_THROW((void)scope.alloc(100000), std::bad_alloc);
    EXPECT_THROW((void)scope.array<long>(SIZE_MAX / 4), std::bad_alloc);
    EXPECT_NE(scope.alloc(1000), nullptr);
}

TEST(StackCpp, Containers) {
    loam::scope scope;
    loam::stack_resource resource;
    std::pmr::vector<int> numbers(&resource);
    for (int i = 0; i < 10000; i++) numbers.push_back(i);
    EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), 0L), 49995000L);
    std::pmr::map<int, std::pmr::string> names(&resource);
    for (int i = 0; i < 300; i++) names.emplace(i, std::string(static_cast<size_t>(i), 'n'));
    EXPECT_EQ(names[200].size(), 200u);
    names.erase(5);
    std::vector<int, loam::stack_allocator<int>> others;
    for (int i = 0; i < 10000; i++) others.push_back(i);
    auto copy = others;
    EXPECT_TRUE(std::equal(copy.begin(), copy.end(), numbers.begin()));
    std::basic_string<char, std::char_traits<char>, loam::stack_allocator<char>> text(
        loam_thread_stack());
    for (int i = 0; i < 1000; i++) text += "abc";
    EXPECT_EQ(text.size(), 3000u);
    EXPECT_TRUE(loam_stack_check(loam_thread_stack()));
    EXPECT_FALSE(resource.is_equal(*std::pmr::new_delete_resource()));
    loam::stack_allocator<long> a, b(loam_thread_stack());
    EXPECT_TRUE(a == b && !(a != b));
}

} // namespace

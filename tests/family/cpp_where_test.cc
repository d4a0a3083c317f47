// cpp_where_test.cc: reports of what C++ makes name the line that made it: objects of every owner,
// for each number of arguments, and memory resources, which name the line where they were made.
#include "loam/alloc.hpp"
#include "loam/blocks.hpp"
#include "loam/fifo.hpp"
#include "loam/pool.hpp"
#include "loam/region.hpp"
#include "loam/stack.hpp"
#include "loam/xallocator.h"

#include <gtest/gtest.h>

#include <string>

namespace {

/* What a line of this file leaks is reported with that line. */
std::string leaks() {
    testing::internal::CaptureStderr();
    (void)loam_registry_leaks();
    return testing::internal::GetCapturedStderr();
}
size_t count_of(const std::string &text, const std::string &what) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at++) count++;
    return count;
}
std::string place(unsigned line) {
    return "allocated at " + std::string(__FILE__) + ":" + std::to_string(line) + "\n";
}
/* That line has left `count` objects, and none is without a line. */
void expect_all_at(unsigned line, size_t count) {
    std::string text = leaks();
    EXPECT_EQ(count_of(text, place(line)), count) << text;
    EXPECT_EQ(count_of(text, "?:0"), 0u) << text;
}

struct Any {
    template <typename... Args> explicit Any(const Args &...) {}
    long room[3] = {};
};

/* For each number of arguments up to eight. */
#define EACH_ARITY(make) \
    (void)(make()), (void)(make(1)), (void)(make(1, 2)), (void)(make(1, 2, 3)), \
        (void)(make(1, 2, 3, 4)), (void)(make(1, 2, 3, 4, 5)), (void)(make(1, 2, 3, 4, 5, 6)), \
        (void)(make(1, 2, 3, 4, 5, 6, 7)), (void)(make(1, 2, 3, 4, 5, 6, 7, 8))
enum { ARITIES = 9 };

template <typename Options> Options checked() {
    Options options = {};
    options.flags = LOAM_CHECK;
    return options;
}

TEST(CppWhere, Regions) {
    loam::region region(checked<loam_region_options>());
    const unsigned created = __LINE__ + 1;
    EACH_ARITY(region.make<Any>);
    expect_all_at(created, ARITIES);
    region.reset();
    const unsigned taken = __LINE__ + 1;
    (void)region.array<int>(3), (void)region.alloc(10);
    expect_all_at(taken, 2);
    region.reset();
    using loam::region_make;
    const unsigned free = __LINE__ + 1;
    (void)region_make<Any>(region.get()), (void)region_make<Any>(region.get(), 1);
    expect_all_at(free, 2);
    region.reset();
    const unsigned ends = __LINE__ + 1;
    (void)region.make<std::string>(std::string(100, 'x'));
    EXPECT_EQ(count_of(leaks(), place(ends)), 1u) << "an object with a destructor";
    EXPECT_EQ(*region.make<std::string>("text", 2u), "te");
    (void)region.make<Any>(1, 2, 3, 4, 5, 6, 7, 8, 9); // compiles, too
}

TEST(CppWhere, Fifos) {
    loam::fifo fifo(checked<loam_fifo_options>());
    const unsigned line = __LINE__ + 1;
    EACH_ARITY(fifo.make<Any>), (void)fifo.alloc(10);
    expect_all_at(line, ARITIES + 1);
    fifo.destroy(fifo.make<Any>(1, 2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(CppWhere, Blocks) {
    loam::blocks blocks(checked<loam_blocks_options>());
    const unsigned line = __LINE__ + 1;
    EACH_ARITY(blocks.make<Any>), (void)blocks.alloc(9), (void)blocks.alloc_aligned(10, 64);
    expect_all_at(line, ARITIES + 2);
    blocks.reset();
    const unsigned owned = __LINE__ + 1;
    (void)blocks.make_unique<Any>().release(), (void)blocks.make_unique<Any>(1).release();
    expect_all_at(owned, 2);
    blocks.destroy(blocks.make<Any>(1, 2, 3, 4, 5, 6, 7, 8, 9));
    blocks.make_unique<Any>(1, 2, 3, 4, 5, 6, 7, 8, 9).reset();
}

TEST(CppWhere, Pools) {
    loam::pool_of<Any> pool(checked<loam_pool_options>());
    const unsigned line = __LINE__ + 1;
    EACH_ARITY(pool.make), (void)pool.blocks().alloc();
    expect_all_at(line, ARITIES + 1);
    pool.reset();
    const unsigned owned = __LINE__ + 1;
    (void)pool.make_unique().release(), (void)pool.make_unique(1, 2).release();
    expect_all_at(owned, 2);
    pool.destroy(pool.make(1, 2, 3, 4, 5, 6, 7, 8, 9));
    pool.make_unique(1, 2, 3, 4, 5, 6, 7, 8, 9).reset();
    pool.reset();
    loam::shared_pool shared(32, checked<loam_pool_options>());
    const unsigned of_shared = __LINE__ + 1;
    (void)shared.alloc(), (void)shared.try_alloc();
    expect_all_at(of_shared, 2);
}

TEST(CppWhere, Scopes) {
    loam::stack stack(checked<loam_stack_options>());
    loam::scope scope(stack.get());
    const unsigned line = __LINE__ + 1;
    EACH_ARITY(scope.make<Any>), (void)scope.array<int>(3), (void)scope.alloc(9);
    expect_all_at(line, ARITIES + 2);
    (void)scope.make<Any>(1, 2, 3, 4, 5, 6, 7, 8, 9);
}

TEST(CppWhere, ResourcesNameTheLineThatMadeThem) {
    loam::region region(checked<loam_region_options>());
    loam::fifo fifo(checked<loam_fifo_options>());
    loam::stack stack(checked<loam_stack_options>());
    loam::scope scope(stack.get());
    const unsigned first = __LINE__ + 1;
    loam::region_resource regions(region);
    loam::fifo_resource fifos(fifo);
    loam::stack_resource stacks(stack.get());
    loam::pool_resource pools(64, checked<loam_pool_options>());
    loam::shared_pool_resource shared(64, checked<loam_pool_options>());
    loam::alloc_resource handles(loam_region_as_alloc(region.get()));
    std::pmr::memory_resource *all[] = {&regions, &fifos, &stacks, &pools, &shared, &handles};
    for (std::pmr::memory_resource *each : all) (void)each->allocate(24, 8);
    std::string text = leaks();
    for (unsigned i = 0; i < 6; i++) EXPECT_EQ(count_of(text, place(first + i)), 1u) << text;
    EXPECT_EQ(count_of(text, "?:0"), 0u) << text;
}

} // namespace

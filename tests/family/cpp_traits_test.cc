// cpp_traits_test.cc: what all C++ faces have in common: how allocators go with containers (as
// std::pmr's do), owners that must not be temporary, moves that end at once, and arrays of no
// element, each of which has an address of its own.
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

#include <cstring>
#include <list>
#include <map>
#include <memory_resource>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

/* ---- Traits ---- */

template <typename A, typename Like> constexpr bool is_like() {
    using Ours = std::allocator_traits<A>;
    using Theirs = std::allocator_traits<Like>;
    return Ours::propagate_on_container_copy_assignment::value ==
               Theirs::propagate_on_container_copy_assignment::value &&
           Ours::propagate_on_container_move_assignment::value ==
               Theirs::propagate_on_container_move_assignment::value &&
           Ours::propagate_on_container_swap::value == Theirs::propagate_on_container_swap::value &&
           Ours::is_always_equal::value == Theirs::is_always_equal::value;
}
using Pmr = std::pmr::polymorphic_allocator<int>;
static_assert(is_like<loam::region_allocator<int>, Pmr>());
static_assert(is_like<loam::fifo_allocator<int>, Pmr>());
static_assert(is_like<loam::stack_allocator<int>, Pmr>());
static_assert(is_like<loam::heap_allocator<int>, Pmr>());
static_assert(is_like<loam::alloc_allocator<int>, Pmr>());
static_assert(is_like<loam::blocks_allocator<int>, Pmr>());
static_assert(is_like<loam::pool_allocator<int>, Pmr>());
/* Those without a state are as std::allocator: all are equal, and nothing has to be carried. */
static_assert(is_like<loam::allocator<int>, std::allocator<int>>());
static_assert(is_like<loam::xalloc_allocator<int>, std::allocator<int>>());

/* ---- Temporary owners ---- */

template <typename T, typename From>
constexpr bool only_lasting =
    std::is_constructible_v<T, From &> && std::is_constructible_v<T, const From &> &&
    !std::is_constructible_v<T, From> && !std::is_constructible_v<T, From &&> &&
    !std::is_constructible_v<T, const From &&>;
static_assert(only_lasting<loam::region_resource, loam::region>);
static_assert(only_lasting<loam::region_allocator<int>, loam::region>);
static_assert(only_lasting<loam::region_scope, loam::region>);
static_assert(only_lasting<loam::fifo_resource, loam::fifo>);
static_assert(only_lasting<loam::fifo_allocator<int>, loam::fifo>);
static_assert(only_lasting<loam::heap_resource, loam::heap>);
static_assert(only_lasting<loam::heap_allocator<int>, loam::heap>);
static_assert(only_lasting<loam::heap_scope, loam::heap>);
static_assert(std::is_constructible_v<loam::blocks_allocator<int>, loam::blocks &>);
static_assert(!std::is_constructible_v<loam::blocks_allocator<int>, loam::blocks>);
/* A vector over a temporary one does not compile either. */
using RegionVector = std::vector<int, loam::region_allocator<int>>;
static_assert(std::is_constructible_v<RegionVector, loam::region &>);
static_assert(!std::is_constructible_v<RegionVector, loam::region>);

/* ---- Assignment ---- */

const char kLong[] = "a text that is too long for the string itself, whichever library has made it";

/* A container that lives longer keeps its allocator, whatever it is assigned. */
template <template <typename> class Allocator, typename Owner>
void keeps(Owner &server, Owner &request) {
    using String = std::basic_string<char, std::char_traits<char>, Allocator<char>>;
    using List = std::list<int, Allocator<int>>;
    using Map = std::map<int, int, std::less<>, Allocator<std::pair<const int, int>>>;
    const Allocator<char> own(server), other(request);
    ASSERT_TRUE(own != other);
    String kept("nobody at all, and long enough for memory of its own", own);
    String passing(kLong, other), copy(passing);
    EXPECT_TRUE(copy.get_allocator() == other) << "a copy has its original's";
    kept = passing;
    EXPECT_TRUE(kept.get_allocator() == own);
    EXPECT_EQ(kept, kLong);
    kept = std::move(passing);
    EXPECT_TRUE(kept.get_allocator() == own);
    EXPECT_EQ(kept, kLong);
    List list(own), from(100, 7, other);
    list = from;
    list = std::move(from);
    EXPECT_TRUE(list.get_allocator() == own);
    EXPECT_EQ(list.size(), 100u);
    Map map(own), table(other);
    for (int i = 0; i < 50; i++) table[i] = i;
    map = table;
    map = std::move(table);
    EXPECT_TRUE(map.get_allocator() == own);
    EXPECT_EQ(map[49], 49);
    List same(list.get_allocator());
    same.swap(list);
    EXPECT_EQ(same.size(), 100u);
    List made(std::move(same));
    EXPECT_TRUE(made.get_allocator() == own);
    EXPECT_EQ(made.size(), 100u);
}

TEST(CppTraits, AContainerKeepsItsAllocator) {
    {
        loam::region server, request;
        keeps<loam::region_allocator>(server, request);
        EXPECT_TRUE(server.check() && request.check());
    }
    {
        loam::fifo server, request;
        keeps<loam::fifo_allocator>(server, request);
        EXPECT_EQ(server.usage().objects, 0u);
        EXPECT_EQ(request.usage().objects, 0u);
    }
    {
        loam::heap server, request;
        keeps<loam::heap_allocator>(server, request);
    }
    {
        loam::blocks server, request;
        keeps<loam::blocks_allocator>(server, request);
        EXPECT_EQ(server.usage().objects, 0u);
        EXPECT_EQ(request.usage().objects, 0u);
    }
    {
        loam::region server, request;
        loam_alloc a = loam_region_as_alloc(server.get()), b = loam_region_as_alloc(request.get());
        keeps<loam::alloc_allocator>(a, b);
    }
    loam::pool_allocator<char> a, b;
    keeps<loam::pool_allocator>(a, b);
    loam::stack one, two;
    loam::scope in_one(one.get()), in_two(two.get());
    loam_stack *server = one.get(), *request = two.get();
    keeps<loam::stack_allocator>(server, request);
}

TEST(CppTraits, AServersStringOutlivesTheRequest) {
    using String = std::basic_string<char, std::char_traits<char>, loam::region_allocator<char>>;
    loam::region server;
    String last("nobody at all, and long enough for memory of its own", server);
    {
        loam::region request;
        String user(kLong, request);
        last = user;
        EXPECT_TRUE(server.contains(last.data()));
        EXPECT_FALSE(request.contains(last.data()));
    }
    loam::region later;
    memset(later.alloc(3000), '#', 3000);
    EXPECT_EQ(last, kLong);
}

/* ---- Moves of owners ---- */

TEST(CppTraits, MoveAssignmentEndsTheOldOneAtOnce) {
    loam_count count;
    loam_count_init(&count, loam_pages());
    loam::region regions({}, &count.source), region;
    (void)regions.alloc(100000);
    EXPECT_GT(count.used_bytes, 100000u);
    regions = std::move(region);
    EXPECT_EQ(count.used_bytes, 0u);

    loam::fifo fifos({}, &count.source), fifo;
    fifos.free(fifos.alloc(100000));
    EXPECT_GT(count.used_bytes, 0u);
    loam_fifo *raw = fifo.get();
    fifos = std::move(fifo);
    EXPECT_EQ(count.used_bytes, 0u);
    EXPECT_EQ(fifos.get(), raw);
    EXPECT_EQ(fifo.get(), nullptr);

    loam::heap heaps, heap;
    loam_heap *moved = heap.get();
    (void)heaps.alloc(100);
    heaps = std::move(heap);
    EXPECT_EQ(heaps.get(), moved);
    EXPECT_EQ(heap.get(), nullptr);
    loam::heap &same = heaps;
    heaps = std::move(same);
    EXPECT_EQ(heaps.get(), moved);
    EXPECT_NE(heaps.alloc(100), nullptr);
}

/* ---- Nothing, many times ---- */

void all_differ(const char *face, std::pmr::memory_resource &resource) {
    for (size_t align : {1, 8, 16, 64}) {
        std::set<void *> seen;
        std::vector<void *> all;
        for (int i = 0; i < 100; i++) {
            all.push_back(resource.allocate(i % 3 == 0 ? 1 : 0, align));
            EXPECT_NE(all.back(), nullptr) << face;
            EXPECT_TRUE(seen.insert(all.back()).second) << face << ": the same address twice";
        }
        for (size_t i = all.size(); i-- > 0;)
            resource.deallocate(all[i], i % 3 == 0 ? 1 : 0, align);
    }
}

template <typename Allocator> void arrays_differ(const char *face, Allocator allocator) {
    std::set<void *> seen;
    std::vector<typename Allocator::value_type *> all;
    for (size_t i = 0; i < 100; i++) {
        all.push_back(allocator.allocate(i % 3 == 0));
        EXPECT_NE(all.back(), nullptr) << face;
        EXPECT_TRUE(seen.insert(all.back()).second) << face << ": the same address twice";
    }
    for (size_t i = all.size(); i-- > 0;) allocator.deallocate(all[i], i % 3 == 0);
}

TEST(CppTraits, AllocatingNothingGivesDistinctAddresses) {
    for (unsigned flags : {0u, static_cast<unsigned>(LOAM_CHECK)}) {
        loam_region_options region_options = {};
        loam_fifo_options fifo_options = {};
        loam_stack_options stack_options = {};
        loam_blocks_options blocks_options = {};
        loam_pool_options pool_options = {};
        region_options.flags = fifo_options.flags = stack_options.flags = blocks_options.flags =
            pool_options.flags = flags;
        loam::region region(region_options);
        loam::fifo fifo(fifo_options);
        loam::stack stack(stack_options);
        loam::scope scope(stack.get());
        loam::blocks blocks(blocks_options);
        loam::heap heap;
        loam::region_resource regions(region);
        all_differ("region_resource", regions);
        arrays_differ("region_allocator", loam::region_allocator<char>(region));
        arrays_differ("region_allocator", loam::region_allocator<long double>(region));
        EXPECT_TRUE(region.check());
        loam::fifo_resource fifos(fifo);
        all_differ("fifo_resource", fifos);
        arrays_differ("fifo_allocator", loam::fifo_allocator<char>(fifo));
        EXPECT_EQ(fifo.usage().objects, 0u);
        loam::stack_resource stacks(stack.get());
        all_differ("stack_resource", stacks);
        arrays_differ("stack_allocator", loam::stack_allocator<char>(stack.get()));
        EXPECT_TRUE(stack.check());
        loam::blocks_resource own(blocks_options);
        all_differ("blocks_resource", own);
        arrays_differ("blocks_allocator", loam::blocks_allocator<char>(blocks));
        EXPECT_EQ(blocks.usage().objects, 0u);
        loam::pool_resource pool(64, pool_options);
        all_differ("pool_resource", pool);
        EXPECT_EQ(pool.blocks().usage().objects, 0u);
        loam::shared_pool_resource shared(64, pool_options);
        all_differ("shared_pool_resource", shared);
        EXPECT_EQ(shared.blocks().usage().objects, 0u);
        loam::alloc_resource handle(loam_region_as_alloc(region.get()));
        all_differ("alloc_resource", handle);
        arrays_differ("alloc_allocator",
                      loam::alloc_allocator<char>(loam_region_as_alloc(region.get())));
        loam::heap_resource heaps(heap);
        all_differ("heap_resource", heaps);
        arrays_differ("heap_allocator", loam::heap_allocator<char>(heap));
    }
    arrays_differ("pool_allocator", loam::pool_allocator<char>());
    arrays_differ("xalloc_allocator", loam::xalloc_allocator<char>());
    all_differ("malloc_resource", *loam::malloc_resource::get());
    arrays_differ("allocator", loam::allocator<char>());
}

} // namespace

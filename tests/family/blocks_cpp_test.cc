// blocks_cpp_test.cc: loam/blocks.hpp: the owner, the memory resource, containers and streams.
#include "loam/blocks.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory_resource>
#include <numeric>
#include <stdexcept>

namespace {

struct alignas(64) Line {
    char bytes[64];
};
struct Counted {
    explicit Counted(int *alive, bool fails = false) : alive(alive) {
        if (fails) throw std::runtime_error("no");
        ++*alive;
    }
    ~Counted() { --*alive; }
    int *alive;
};

} // namespace

TEST(BlocksCpp, OwnsObjects) {
    loam::blocks blocks;
    int alive = 0;
    auto *one = blocks.make<Counted>(&alive);
    {
        auto two = blocks.make_unique<Counted>(&alive);
        EXPECT_EQ(alive, 2);
    }
    EXPECT_THROW((void)blocks.make<Counted>(&alive, true), std::runtime_error);
    EXPECT_EQ(blocks.usage().objects, 1u); // the one that failed left nothing behind
    blocks.destroy(one);
    blocks.destroy(static_cast<Counted *>(nullptr));
    EXPECT_EQ(alive, 0);
    auto *line = blocks.make<Line>();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(line) % 64, 0u);
    blocks.destroy(line);
    EXPECT_EQ(blocks.usage().objects, 0u);
    EXPECT_TRUE(blocks.check());
}

namespace {

struct First {
    static int ended;
    virtual ~First() { ended++; }
    long a = 1;
};
struct Second {
    virtual ~Second() { First::ended += 10; }
    long b = 2;
};
struct Both : First, Second {
    long c[4] = {3};
};
struct Third {
    virtual ~Third() { First::ended += 100; }
    long c = 3;
};
struct Deep : virtual Third, Both {
    long d[9] = {4};
};
struct Plain {
    long a = 1;
};
struct OverPlain : Plain {
    long b = 2;
};
int First::ended;

template <typename To, typename From>
constexpr bool converts =
    std::is_convertible_v<loam::blocks::unique_ptr<From>, loam::blocks::unique_ptr<To>>;
static_assert(converts<First, Both> && converts<Second, Both> && converts<const Both, Both>);
static_assert(converts<const Second, Both> && !converts<Both, First> && !converts<Both, Second>);
static_assert(!converts<Plain, OverPlain> && converts<const Plain, Plain>);
static_assert(!converts<Plain, const Plain> && !converts<First, Second>);

} // namespace

TEST(BlocksCpp, ABaseGivesTheWholeObjectBack) {
    for (bool checked : {false, true}) {
        loam_blocks_options options{};
        if (checked) options.flags = LOAM_CHECK;
        loam::blocks blocks(options);
        First::ended = 0;
        {
            loam::blocks::unique_ptr<First> first = blocks.make_unique<Both>();
            loam::blocks::unique_ptr<Second> second = blocks.make_unique<Both>();
            loam::blocks::unique_ptr<const Second> constant = blocks.make_unique<Both>();
            loam::blocks::unique_ptr<Second> moved = std::move(second);
            second = blocks.make_unique<Both>();
            EXPECT_EQ(moved->b + second->b + constant->b, 6);
            EXPECT_EQ(blocks.usage().objects, 4u);
        }
        EXPECT_EQ(First::ended, 44);
        blocks.destroy(static_cast<Second *>(blocks.make<Both>()));
        blocks.destroy(static_cast<First *>(blocks.make<Deep>()));
        EXPECT_EQ(blocks.usage().objects, 0u);
        /* No block was given back at its middle. */
        std::vector<char *> live;
        for (int i = 0; i < 200; i++) {
            live.push_back(static_cast<char *>(blocks.alloc(sizeof(Both))));
            memset(live.back(), i, sizeof(Both));
        }
        for (int i = 0; i < 200; i++)
            for (size_t at = 0; at < sizeof(Both); at++)
                ASSERT_EQ(live[static_cast<size_t>(i)][at], static_cast<char>(i));
        EXPECT_TRUE(blocks.check());
    }
}

TEST(BlocksCpp, OutOfMemoryIsBadAlloc) {
    loam_limit limit;
    loam_limit_init(&limit, loam_pages(), 200 * 1024);
    loam_blocks_options options{};
    options.source = &limit.source;
    {
        loam::blocks blocks(options);
        auto p = static_cast<char *>(blocks.alloc(1000));
        strcpy(p, "kept");
        EXPECT_THROW((void)blocks.alloc(1 << 20), std::bad_alloc);
        EXPECT_THROW((void)blocks.realloc(p, 1 << 20), std::bad_alloc);
        EXPECT_STREQ(p, "kept");
        EXPECT_EQ(blocks.realloc(p, 0), nullptr);
        loam::blocks_allocator<long> allocator(blocks);
        EXPECT_THROW((void)allocator.allocate(SIZE_MAX / 4), std::bad_alloc);
        loam::blocks_vector<char> vector(blocks);
        EXPECT_THROW(vector.resize(1 << 20), std::bad_alloc);
    }
    EXPECT_EQ(limit.used_bytes, 0u);
    limit.most_bytes = 10;
    EXPECT_THROW(loam::blocks{options}, std::bad_alloc);
    options.flags = LOAM_HARDEN;
    EXPECT_THROW(loam::blocks{options}, std::bad_alloc);
}

TEST(BlocksCpp, MemoryResource) {
    loam::blocks_resource resource, other;
    {
        std::pmr::vector<std::pmr::string> names(&resource);
        for (int i = 0; i < 100; i++)
            names.emplace_back("a name that is longer than a string itself");
        EXPECT_GE(resource.get().usage().objects, 101u);
        std::pmr::list<Line> lines(&resource);
        lines.emplace_back();
        EXPECT_EQ(reinterpret_cast<uintptr_t>(&lines.back()) % 64, 0u);
    }
    EXPECT_EQ(resource.get().usage().objects, 0u);
    EXPECT_TRUE(resource.is_equal(resource));
    EXPECT_FALSE(resource.is_equal(other));
}

TEST(BlocksCpp, Containers) {
    loam::blocks blocks, others;
    {
        loam::blocks_list<int> list(blocks);
        for (int i = 0; i < 50; i++) list.push_back(i);
        loam::blocks_map<int, int> map(blocks);
        loam::blocks_set<int> set(list.begin(), list.end(), std::less<int>(), blocks);
        loam::blocks_unordered_map<int, int> hashed(blocks);
        loam::blocks_deque<int> deque(list.begin(), list.end(), blocks);
        for (int i : list) map[i] = hashed[i] = i;
        EXPECT_EQ(set.size() + map.size() + hashed.size() + deque.size(), 200u);
        loam::blocks_list<int> elsewhere(others);
        elsewhere = list; // a copy, of its own blocks
        EXPECT_EQ(others.usage().objects, 50u);
        elsewhere = std::move(list); // the elements move, the allocator stays
        EXPECT_EQ(others.usage().objects, 50u);
        EXPECT_EQ(std::accumulate(elsewhere.begin(), elsewhere.end(), 0), 1225);
        loam::blocks_string string(200, 's', blocks);
        loam::blocks_ostringstream out{loam::blocks_string(blocks)};
        size_t before = blocks.usage().objects;
        out << string << 5;
        EXPECT_GT(blocks.usage().objects, before);
        EXPECT_EQ(out.str().size(), 201u);
    }
    EXPECT_EQ(blocks.usage().objects, 0u);
    EXPECT_GT(blocks.trim(), 0u);
}

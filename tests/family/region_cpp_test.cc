// region_cpp_test.cc: loam/region.hpp: destructors, scopes, memory resource, allocator, and what
// throws.
#include "loam/region.hpp"

#include <gtest/gtest.h>

#include <list>
#include <map>
#include <memory_resource>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

std::string ended; // who was destroyed, in order

struct Named {
    char name;
    explicit Named(char name) : name(name) {}
    ~Named() { ended += name; }
};

/* Has a part in the same region, which must outlive it. */
struct Whole {
    Named *part;
    explicit Whole(loam_region *region) : part(loam::region_make<Named>(region, 'p')) {}
    ~Whole() { ended += part->name == 'p' ? 'W' : '!'; }
};

struct Fails {
    Fails() { throw std::runtime_error("no"); }
    ~Fails() { ended += '!'; }
    char bytes[100];
};

class RegionCpp : public testing::Test {
  protected:
    RegionCpp() { ended.clear(); }
};

TEST_F(RegionCpp, ObjectsEndWithTheirRegionNewestFirst) {
    {
        loam::region region;
        for (char c : {'a', 'b', 'c'}) EXPECT_EQ(region.make<Named>(c)->name, c);
        (void)region.make<Whole>(region.get());
        EXPECT_EQ(*region.make<int>(7), 7);
        EXPECT_TRUE(region.check());
        EXPECT_EQ(ended, "");
    }
    EXPECT_EQ(ended, "Wpcba") << "a whole before its part";
}

TEST_F(RegionCpp, AScopeEndsWhatCameSince) {
    loam::region region;
    (void)region.make<Named>('a');
    {
        loam::region_scope scope(region);
        (void)region.make<Named>('b');
        {
            loam::region_scope inner(region);
            (void)region.make<Named>('c');
            inner.keep();
        }
        EXPECT_EQ(ended, "");
    }
    EXPECT_EQ(ended, "cb");
    region.reset();
    EXPECT_EQ(ended, "cba");
}

TEST_F(RegionCpp, WhatAConstructorThrowsPassesAndLeavesNothing) {
    loam::region region;
    void *before = region.alloc(16);
    size_t used = region.usage().used_bytes;
    EXPECT_THROW((void)region.make<Fails>(), std::runtime_error);
    EXPECT_EQ(region.usage().used_bytes, used);
    EXPECT_TRUE(region.contains(before));
    region.reset();
    EXPECT_EQ(ended, "");
}

TEST_F(RegionCpp, WithoutMemoryItIsBadAlloc) {
    alignas(16) static char memory[4096];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, 100);
    EXPECT_THROW(loam::region({}, &buffer.source), std::bad_alloc);
    loam_buffer_init(&buffer, memory, sizeof memory);
    loam_region_options options = {};
    options.first_bytes = 2048;
    loam::region region(options, &buffer.source);
    EXPECT_THROW((void)region.alloc(5000), std::bad_alloc);
    EXPECT_THROW((void)region.array<long>(SIZE_MAX / 4), std::bad_alloc);
    EXPECT_THROW((void)loam::region_allocator<long>(region).allocate(SIZE_MAX / 4), std::bad_alloc);
    /* To the last byte: each object has its destructor registered, or is gone. */
    int made = 0;
    try {
        for (;; made++) (void)region.make<Named>('x');
    } catch (const std::bad_alloc &) {}
    EXPECT_GT(made, 3);
    size_t failed = ended.size();
    EXPECT_LE(failed, 1u);
    region.reset();
    EXPECT_EQ(ended.size(), static_cast<size_t>(made) + failed);
}

TEST_F(RegionCpp, ArraysHaveDefaultValues) {
    loam::region region;
    memset(region.alloc(4000), 0xff, 4000);
    region.reset();
    int *numbers = region.array<int>(500);
    for (int i = 0; i < 500; i++) ASSERT_EQ(numbers[i], 0);
    struct alignas(64) Line {
        char bytes[64];
    };
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region.array<Line>(3)) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region.make<Line>()) % 64, 0u);
}

TEST_F(RegionCpp, MovesKeepTheRegionWhereItIs) {
    loam::region a;
    loam_region *raw = a.get();
    (void)a.make<Named>('a');
    loam::region b(std::move(a));
    EXPECT_EQ(b.get(), raw);
    EXPECT_EQ(a.get(), nullptr);
    {
        loam::region c;
        (void)c.make<Named>('c');
        c = std::move(b);
        EXPECT_EQ(ended, "c") << "at once";
        EXPECT_EQ(c.get(), raw);
        EXPECT_EQ(b.get(), nullptr);
        loam::region &same = c;
        c = std::move(same);
        EXPECT_EQ(c.get(), raw);
    }
    EXPECT_EQ(ended, "ca");
}

TEST_F(RegionCpp, AChildEndsWithItsParentAtTheLatest) {
    loam::region parent;
    {
        loam::region child = parent.child();
        (void)child.make<Named>('c');
    }
    EXPECT_EQ(ended, "c") << "before";
    EXPECT_TRUE(parent.check());
}

TEST_F(RegionCpp, ContainersLiveInIt) {
    loam::region region;
    loam::region_resource resource(region);
    EXPECT_TRUE(resource == resource);
    {
        std::pmr::vector<std::pmr::string> texts(&resource);
        std::pmr::map<int, std::pmr::string> table(&resource);
        for (int i = 0; i < 2000; i++) {
            texts.emplace_back("a text that is too long for the string itself, number " +
                               std::to_string(i));
            table.emplace(i * 7919 % 2003, texts.back());
        }
        EXPECT_EQ(table.size(), 2000u);
        EXPECT_EQ(texts[1999].substr(47), "number 1999");
        EXPECT_TRUE(region.contains(texts[7].data()) && region.contains(texts.data()));
        EXPECT_TRUE(region.check());
    }
    std::list<int, loam::region_allocator<int>> list(region);
    std::vector<double, loam::region_allocator<double>> numbers(region);
    for (int i = 0; i < 10000; i++) list.push_back(i), numbers.push_back(i);
    auto copy = numbers;
    EXPECT_EQ(copy.get_allocator(), numbers.get_allocator());
    EXPECT_EQ(copy[9999], 9999.0);
    EXPECT_EQ(list.back(), 9999);
    loam::region other;
    std::vector<double, loam::region_allocator<double>> moved(other);
    EXPECT_NE(moved.get_allocator(), numbers.get_allocator());
    moved = std::move(numbers);
    EXPECT_EQ(moved[1234], 1234.0);
    EXPECT_TRUE(region.check());
}

TEST_F(RegionCpp, ScratchIsNotTheOneInConflict) {
    loam::scratch outer;
    auto *result = loam::region_make<int>(outer.get(), 5);
    {
        loam::scratch inner(outer.get());
        EXPECT_NE(inner.get(), outer.get());
        memset(loam_region_alloc(inner.get(), 100000), 0, 100000);
    }
    EXPECT_EQ(*result, 5);
}

} // namespace

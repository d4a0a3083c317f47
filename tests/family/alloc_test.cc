/* alloc_test.cc: handles to allocators (loam/alloc.h) where these differ from the allocators' own
 * functions; what they have in common is in contract/, whose suite runs over handles as well. */
#include "loam/alloc.hpp"
#include "loam/loam.h"

#include <gtest/gtest.h>

extern "C" {
#include "survey/survey.h"
}

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace {

/* One of each kind, and the largest object and alignment that its handle gives. */
class Handles : public testing::Test {
  protected:
    void SetUp() override {
        region_ = loam_region_create(nullptr, nullptr);
        heap_ = loam_heap_create();
        ASSERT_EQ(loam_pool_init(&pool_, nullptr, 4096, nullptr), 0);
        ASSERT_EQ(loam_shared_pool_init(&shared_, nullptr, 4096, nullptr), 0);
        ASSERT_EQ(loam_blocks_init(&blocks_, nullptr), 0);
        ASSERT_EQ(loam_fifo_init(&fifo_, nullptr, nullptr), 0);
        ASSERT_EQ(loam_stack_init(&stack_, nullptr, nullptr), 0);
        ASSERT_EQ(loam_ring_init(&ring_, nullptr, nullptr), 0);
        ASSERT_NE(loam_ring_open(&ring_), nullptr);
        all_ = {{loam_region_as_alloc(region_), SIZE_MAX, SIZE_MAX},
                {loam_pool_as_alloc(&pool_), 4096, 16},
                {loam_shared_pool_as_alloc(&shared_), 4096, 16},
                {loam_blocks_as_alloc(&blocks_), SIZE_MAX, 65536},
                {loam_heap_as_alloc(nullptr), SIZE_MAX, SIZE_MAX},
                {loam_heap_as_alloc(heap_), SIZE_MAX, SIZE_MAX},
                {loam_fifo_as_alloc(&fifo_), SIZE_MAX, SIZE_MAX},
                {loam_stack_as_alloc(&stack_), SIZE_MAX, SIZE_MAX},
                {loam_ring_as_alloc(&ring_), SIZE_MAX, SIZE_MAX}};
    }
    void TearDown() override {
        loam_region_destroy(region_);
        loam_heap_destroy(heap_);
        loam_pool_deinit(&pool_);
        loam_shared_pool_deinit(&shared_);
        loam_blocks_deinit(&blocks_);
        EXPECT_TRUE(loam_fifo_check(&fifo_));
        EXPECT_TRUE(loam_stack_check(&stack_));
        EXPECT_TRUE(loam_ring_check(&ring_));
        loam_fifo_deinit(&fifo_);
        loam_stack_deinit(&stack_);
        loam_ring_deinit(&ring_);
    }
    struct One {
        loam_alloc alloc;
        size_t most, align;
    };
    loam_region *region_;
    loam_heap *heap_;
    loam_pool pool_;
    loam_shared_pool shared_;
    loam_blocks blocks_;
    loam_fifo fifo_;
    loam_stack stack_;
    loam_ring ring_;
    std::vector<One> all_;
};

bool is_at(const void *p, size_t align) { return reinterpret_cast<uintptr_t>(p) % align == 0; }

void *volatile kept; /* the compiler must not see through it */

TEST_F(Handles, GiveAlignmentsUpToTheirOwn) {
    for (const One &one : all_) {
        for (size_t align = 1; align <= 1 << 17; align *= 2) {
            for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{4096}}) {
                char *p = static_cast<char *>(loam_alloc_alloc(one.alloc, bytes, align));
                if (align > one.align) {
                    EXPECT_EQ(p, nullptr) << loam_alloc_name(one.alloc) << " " << align;
                    continue;
                }
                ASSERT_NE(p, nullptr) << loam_alloc_name(one.alloc) << " " << align;
                EXPECT_TRUE(is_at(p, align));
                if (bytes != 0) memset(p, 1, bytes);
                loam_alloc_free(one.alloc, p, bytes, align);
            }
        }
    }
}

TEST_F(Handles, RefuseWhatIsImpossible) {
    for (const One &one : all_) {
        for (size_t align : {size_t{0}, size_t{3}, size_t{24}, SIZE_MAX}) {
            EXPECT_EQ(loam_alloc_alloc(one.alloc, 8, align), nullptr) << align;
            EXPECT_EQ(loam_alloc_realloc(one.alloc, nullptr, 0, 8, align), nullptr) << align;
        }
        for (size_t bytes : {one.most == 4096 ? size_t{4097} : SIZE_MAX / 2 + 1, SIZE_MAX})
            EXPECT_EQ(loam_alloc_alloc(one.alloc, bytes, 16), nullptr) << bytes;
        EXPECT_EQ(loam_alloc_calloc(one.alloc, SIZE_MAX / 2 + 1, 2, 8), nullptr);
        char *p = static_cast<char *>(loam_alloc_alloc(one.alloc, 10, 8));
        memset(p, 7, 10);
        EXPECT_EQ(loam_alloc_realloc(one.alloc, p, 10, 10, 3), nullptr);
        EXPECT_EQ(loam_alloc_realloc(one.alloc, p, 10, SIZE_MAX - 1, 8), nullptr);
        for (int i = 0; i < 10; i++) EXPECT_EQ(p[i], 7);
        loam_alloc_free(one.alloc, p, 10, 8);
        /* Where a careless rounding would find the last object. */
        void *last = loam_alloc_alloc(one.alloc, 16, 16);
        for (size_t align = 0; align < 64; align++) {
            if (align != 0 && (align & (align - 1)) == 0) continue;
            EXPECT_EQ(loam_alloc_realloc(one.alloc, last, 16, 16, align), nullptr) << align;
        }
        loam_alloc_free(one.alloc, last, 16, 16);
    }
}

TEST_F(Handles, ResizeAndKeepContentsAndAlignment) {
    for (const One &one : all_) {
        for (size_t align : {size_t{8}, size_t{16}, size_t{256}}) {
            if (align > one.align) continue;
            char *p = static_cast<char *>(loam_alloc_realloc(one.alloc, nullptr, 0, 10, align));
            ASSERT_NE(p, nullptr);
            memset(p, 5, 10);
            size_t old_bytes = 10;
            for (size_t bytes : {300, 4000, 20, 10}) {
                p = static_cast<char *>(loam_alloc_realloc(one.alloc, p, old_bytes, bytes, align));
                ASSERT_NE(p, nullptr) << loam_alloc_name(one.alloc);
                EXPECT_TRUE(is_at(p, align));
                for (int i = 0; i < 10; i++) EXPECT_EQ(p[i], 5);
                old_bytes = bytes;
            }
            void *none = loam_alloc_realloc(one.alloc, p, 10, 0, align);
            EXPECT_NE(none, nullptr) << "an object of no bytes";
            loam_alloc_free(one.alloc, none, 0, align);
        }
    }
    loam_usage usage = {};
    loam_pool_usage(&pool_, &usage);
    EXPECT_EQ(usage.objects, 0u);
    loam_blocks_usage(&blocks_, &usage);
    EXPECT_EQ(usage.objects, 0u);
    loam_fifo_usage(&fifo_, &usage);
    EXPECT_EQ(usage.objects, 0u);
}

size_t heap_blocks() {
    lm_heap_stats_t stats;
    lm_heap_stats(&stats);
    return stats.small_blocks + stats.large_blocks;
}

TEST_F(Handles, MovedObjectsGoBackToTheHeap) {
    loam_alloc heap = loam_heap_as_alloc(nullptr);
    size_t before = heap_blocks();
    for (size_t align : {16, 4096}) {
        void *p = nullptr;
        for (size_t i = 0; i < 1000; i++)
            p = loam_alloc_realloc(heap, p, i * 10, (i + 1) * 10, align);
        loam_alloc_free(heap, p, 10000, align);
    }
    EXPECT_LE(heap_blocks(), before + 100) << "what a thread holds ready may count";
}

TEST(Aligned, AnObjectThatShrinksCopiesNoMoreThanItHas) {
    loam_blocks blocks;
    loam_blocks_options options = {};
    options.flags = LOAM_CHECK;
    ASSERT_EQ(loam_blocks_init(&blocks, &options), 0);
    loam_alloc alloc = loam_blocks_as_alloc(&blocks);
    char *p = static_cast<char *>(loam_alloc_alloc(alloc, 4000, 256));
    memset(p, 3, 4000);
    p = static_cast<char *>(loam_alloc_realloc(alloc, p, 4000, 20, 256));
    EXPECT_TRUE(loam_blocks_check(&blocks)) << "guards behind it are whole";
    EXPECT_EQ(p[19], 3);
    loam_alloc_free(alloc, p, 20, 256);
    loam_blocks_deinit(&blocks);
}

TEST_F(Handles, ZeroWhatIsCalloced) {
    for (const One &one : all_) {
        void *dirty = loam_alloc_alloc(one.alloc, 800, 8);
        memset(dirty, 0xFF, 800);
        loam_alloc_free(one.alloc, dirty, 800, 8);
        char *p = static_cast<char *>(loam_alloc_calloc(one.alloc, 100, 8, 8));
        for (int i = 0; i < 800; i++) ASSERT_EQ(p[i], 0);
        loam_alloc_free(one.alloc, p, 800, 8);
    }
}

TEST_F(Handles, TellWhatTheyAre) {
    std::string names;
    for (const One &one : all_) {
        names += std::string(loam_alloc_name(one.alloc)) + " ";
        for (const One &other : all_)
            EXPECT_EQ(loam_alloc_is_same(one.alloc, other.alloc), &one == &other);
    }
    EXPECT_EQ(names, "region pool pool blocks heap heap fifo stack ring ");
    EXPECT_STREQ(loam_alloc_name({nullptr, nullptr}), "none");
}

TEST_F(Handles, TypedObjects) {
    struct alignas(16) Wide {
        int of[8];
    };
    for (const One &one : all_) {
        Wide *wide = LOAM_ALLOC_NEW(one.alloc, Wide);
        ASSERT_NE(wide, nullptr);
        EXPECT_TRUE(is_at(wide, alignof(Wide)));
        LOAM_ALLOC_DROP(one.alloc, wide);
        loam_alloc_free(one.alloc, nullptr, 0, 1);
    }
}

TEST(NoHandle, GivesNothingAndReportsAFree) {
    loam_alloc none = {nullptr, nullptr};
    EXPECT_EQ(loam_alloc_alloc(none, 1, 1), nullptr);
    EXPECT_EQ(loam_alloc_calloc(none, 1, 1, 1), nullptr);
    EXPECT_EQ(loam_alloc_realloc(none, nullptr, 0, 1, 1), nullptr);
    loam_alloc_free(none, nullptr, 0, 1);
    int object;
    kept = &object;
    EXPECT_DEATH(
        loam_alloc_free(none, kept, 4, 4),
        "loam: free of 0x[0-9a-f]+ by a handle to no allocator .*alloc_test.cc:[0-9]+, thread");
}

TEST(Mistakes, OfACheckedRegionAreReportedWithTheCallersPlace) {
    loam_region_options options = {};
    options.flags = LOAM_CHECK;
    options.name = "handled";
    loam_region *region = loam_region_create(nullptr, &options);
    loam_alloc alloc = loam_region_as_alloc(region);
    void *p = loam_alloc_alloc(alloc, 24, 8);
    EXPECT_DEATH(loam_alloc_free(alloc, p, 25, 8), "loam: region handled: .*alloc_test.cc");
    loam_alloc_free(alloc, p, 24, 8);
    EXPECT_DEATH(loam_alloc_free(alloc, p, 24, 8), "loam: region handled: .*alloc_test.cc");
    loam_region_destroy(region);
}

TEST(Frames, EndWhatWasAllocatedByHandle) {
    loam_stack stack;
    loam_stack_options options = {};
    options.flags = LOAM_CHECK;
    options.name = "handled";
    ASSERT_EQ(loam_stack_init(&stack, nullptr, &options), 0);
    loam_alloc alloc = loam_stack_as_alloc(&stack);
    void *older = loam_alloc_alloc(alloc, 24, 8);
    loam_stack_frame frame = loam_stack_push(&stack);
    void *p = loam_alloc_alloc(alloc, 24, 8);
    EXPECT_DEATH(loam_alloc_free(alloc, older, 24, 8),
                 "loam: stack handled: free of .*, which belongs to an older frame.*alloc_test.cc");
    loam_stack_pop(&stack, frame);
    EXPECT_DEATH(loam_alloc_free(alloc, p, 24, 8), "loam: stack handled: free of .*alloc_test.cc");
    loam_alloc_free(alloc, older, 24, 8);
    loam_stack_deinit(&stack);
}

TEST(Frames, OfARingAreToBeOpen) {
    loam_ring ring;
    ASSERT_EQ(loam_ring_init(&ring, nullptr, nullptr), 0);
    EXPECT_DEATH((void)!loam_alloc_alloc(loam_ring_as_alloc(&ring), 24, 8),
                 "loam: ring .*: allocation without a frame .*alloc_test.cc");
    loam_ring_deinit(&ring);
}

/* One of a program's own. */
struct Bump {
    alignas(64) char bytes[4096];
    size_t used = 0, freed = 0;
    static void *alloc(void *self, size_t bytes, size_t align, const char *, unsigned) {
        Bump *bump = static_cast<Bump *>(self);
        size_t at = (bump->used + align - 1) & ~(align - 1);
        if (at > sizeof(bump->bytes) || bytes > sizeof(bump->bytes) - at) return nullptr;
        bump->used = at + bytes;
        return bump->bytes + at;
    }
    static void *realloc(void *, void *, size_t, size_t, size_t, const char *, unsigned) {
        return nullptr;
    }
    static void free(void *self, void *, size_t bytes, size_t, const char *, unsigned) {
        static_cast<Bump *>(self)->freed += bytes;
    }
};
const loam_alloc_functions bump_functions = {Bump::alloc, Bump::realloc, Bump::free, "bump"};

TEST(OwnTables, AreAsGoodAsAny) {
    Bump bump;
    loam_alloc alloc = loam_alloc_make(&bump_functions, &bump);
    EXPECT_STREQ(loam_alloc_name(alloc), "bump");
    {
        loam::alloc_resource resource(alloc);
        std::pmr::vector<int> numbers(&resource);
        numbers.reserve(10);
        EXPECT_EQ(bump.used, 40u);
        EXPECT_THROW(numbers.reserve(5000), std::bad_alloc);
    }
    EXPECT_EQ(bump.freed, 40u);
}

/* ---- C++ ---- */

TEST_F(Handles, AsMemoryResourceAndAllocator) {
    for (const One &one : all_) {
        loam::alloc_resource resource(one.alloc), other(one.alloc);
        EXPECT_TRUE(loam_alloc_is_same(resource.get(), one.alloc));
        EXPECT_TRUE(resource == resource);
        EXPECT_FALSE(resource == other);
        std::pmr::map<int, int> map(&resource);
        for (int i = 0; i < 1000; i++) map[i] = i * i;
        for (int i = 0; i < 1000; i += 2) map.erase(i);
        EXPECT_EQ(map.size(), 500u);
        EXPECT_EQ(map[31], 961);

        using Pairs = loam::alloc_allocator<std::pair<const int, int>>;
        std::map<int, int, std::less<int>, Pairs> tree{std::less<int>(), Pairs(one.alloc)};
        for (int i = 0; i < 1000; i++) tree[i] = i;
        std::map<int, int, std::less<int>, Pairs> copy = tree;
        tree.clear();
        EXPECT_EQ(copy.size(), 1000u);
        EXPECT_TRUE(tree.get_allocator() == copy.get_allocator());
        EXPECT_FALSE(tree.get_allocator() != copy.get_allocator());
    }
    loam::alloc_allocator<int> region(all_[0].alloc), heap(all_[4].alloc);
    EXPECT_TRUE(region != heap);
    EXPECT_THROW((void)loam::alloc_allocator<int>(all_[1].alloc).allocate(2000), std::bad_alloc);
    EXPECT_THROW((void)region.allocate(SIZE_MAX / 2), std::bad_alloc);
}

} // namespace

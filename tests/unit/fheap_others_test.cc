/* fheap_others_test.cc: first-class heaps together with other features: objects that come from
 * elsewhere, chunks of regions, threads that use a heap only by its handle, walks while memory is
 * short. */
#include "fheap_unit.h"
#include "sleepers.h"

extern "C" {
#include "family/family.h"
}

namespace {

using unit::free_all;

class FheapOthers : public unit::FheapTest {};

/* A large one that is moved by its pages comes along as well. */
TEST_F(FheapOthers, LargeObjectsMoveIntoTheHeapThatIsNamed) {
    const size_t kBytes = 4 << 20, kMore = 64 << 20;
    auto *p = static_cast<char *>(loam_malloc(kBytes));
    void *behind = loam_malloc(kBytes);
    p[0] = p[kBytes - 1] = 7;
    auto *moved = static_cast<char *>(loam_heap_realloc(heap_, p, kMore));
    ASSERT_NE(nullptr, moved);
    EXPECT_EQ(7, moved[0]);
    EXPECT_EQ(7, moved[kBytes - 1]);
    EXPECT_TRUE(moved == p || loam_heap_of(moved) == heap_);
    loam_heap *other = loam_heap_create();
    void *next = loam_heap_malloc(heap_, kBytes);
    auto *again = static_cast<char *>(loam_heap_realloc(other, moved, 2 * kMore));
    ASSERT_NE(nullptr, again);
    EXPECT_EQ(7, again[kBytes - 1]);
    EXPECT_EQ(again == moved ? loam_heap_of(moved) : other, loam_heap_of(again));
    auto *last = static_cast<char *>(loam_realloc(again, 4 * kMore));
    ASSERT_NE(nullptr, last);
    EXPECT_TRUE(last == again || loam_heap_of(last) == nullptr);
    lm_fheap_check(heap_);
    lm_fheap_check(other);
    free_all({last, behind, next});
    loam_heap_destroy(other);
}

/* The thread keeps chunks of regions that have ended, and the heap may end before it uses them. */
TEST_F(FheapOthers, ChunksOfRegionsAreNotOfTheHeapThatMallocUses) {
    if (lm_tool_watches()) GTEST_SKIP() << "a tool watches: chunks that ended are kept";
    unit::in_thread([this] {
        ASSERT_EQ(0, loam_heap_set_default(heap_, nullptr));
        loam_region region;
        ASSERT_EQ(0, loam_region_init(&region, loam_pages(), nullptr));
        void *p = loam_region_alloc(&region, 100);
        EXPECT_FALSE(loam_heap_contains(heap_, p));
        EXPECT_EQ(heap_, loam_heap_get_default());
        void *mine = loam_malloc(100);
        EXPECT_TRUE(loam_heap_contains(heap_, mine));
        loam_free(mine);
        loam_region_deinit(&region);
        EXPECT_EQ(0, loam_heap_set_default(nullptr, nullptr));
    });
}

/* It never takes the slow path of its own malloc, where branches of deleted heaps are parted with
 * otherwise. */
TEST_F(FheapOthers, BranchesOfDeletedHeapsAreUsedAgainByThreadsWithoutAMalloc) {
    unit::Helper named;
    size_t branches[2];
    for (size_t &count : branches) {
        for (int round = 0; round < 300; round++) {
            loam_heap *heap = loam_heap_create();
            named.run([heap] { loam_free(loam_heap_malloc(heap, 100)); });
            loam_heap_delete(heap);
        }
        count = 0;
        for (lm_node_t *n = lm_registry.first; n != nullptr; n = lm_list_after(&lm_registry, n))
            count++;
    }
    EXPECT_LE(branches[1], branches[0] + 8);
}

/* Who finds no memory meanwhile collects from all heaps but leaves this one's pages where they
 * are. */
TEST_F(FheapOthers, AWalkMeetsTheHeapsPagesWhileMemoryIsShort) {
    std::vector<void *> theirs;
    unit::Helper other;
    other.run([&] { theirs = take(20000, 200); });
    free_all(theirs);
    struct Seen {
        loam_heap *heap;
        size_t areas, strange;
    } seen = {heap_, 0, 0};
    EXPECT_TRUE(loam_heap_visit(
        heap_,
        [](const loam_heap_area *area, void *context) {
            auto *here = static_cast<Seen *>(context);
            lm_idle_collect_now();
            lm_idle_unkeep();
            here->areas++;
            here->strange += loam_heap_contains(here->heap, area->start) ? 0 : 1;
            return true;
        },
        nullptr, &seen));
    EXPECT_GT(seen.areas, 10u);
    EXPECT_EQ(0u, seen.strange);
    lm_idle_collect_now();
}

void *freed_meanwhile(lm_page_t *, void *p, size_t, bool, size_t *) {
    unit::in_thread([p] { loam_free(p); });
    return nullptr;
}

/* A mistake of the program, at a moment that no test meets otherwise: realloc tells of it when it
 * frees the object itself. */
TEST_F(FheapOthers, AnObjectFreedWhileItIsResizedDoesNotComeBack) {
    const size_t kBytes = 1 << 20;
    void *kept = take(kBytes), *p = take(kBytes);
    size_t before = committed(), fresh;
    EXPECT_EQ(nullptr,
              lm_fheap_large_change(heap_, lm_page_of(p), p, 2 * kBytes, &fresh, freed_meanwhile));
    EXPECT_EQ(1u, objects());
    EXPECT_EQ(before / 2, committed());
    lm_fheap_check(heap_);
    loam_free(kept);
    EXPECT_EQ(0u, committed());
}

} // namespace

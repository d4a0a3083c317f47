/* arena_unit.h: what the tests of arenas share: a mapping, an arena in it, a heap in the arena.
 *
 * The worker is allowed but paused, and a test calls lm_idle_collect itself. The mapping is the
 * test's own, so that the test can check that loam has not touched the rest of it.
 */
#ifndef LOAM_TESTS_UNIT_ARENA_UNIT_H
#define LOAM_TESTS_UNIT_ARENA_UNIT_H

#include "fheap_unit.h"
#include "own_mapping.h"

#include "loam/arena.h"

#include <sys/mman.h>

#include <cstring>

namespace unit {

constexpr size_t kSlice = LM_SLICE_BYTES, kBytes = 8 << 20;

class ArenaTest : public PausedWorkerTest {
  protected:
    void SetUp() override {
        PausedWorkerTest::SetUp();
        mapping_ = own_mapping(kBytes + 2 * kSlice);
        ASSERT_NE(nullptr, mapping_);
        start_ =
            reinterpret_cast<char *>(lm_align_up(reinterpret_cast<uintptr_t>(mapping_), kSlice));
    }
    void TearDown() override {
        if (arena_ != nullptr) {
            lm_heap_collect();
            lm_span_check();
            EXPECT_EQ(0, loam_arena_destroy(arena_));
        }
        munmap(mapping_, kBytes + 2 * kSlice);
        PausedWorkerTest::TearDown();
    }
    void manage(unsigned flags, size_t bytes = kBytes) {
        ASSERT_EQ(0, loam_manage_memory(start_, bytes, flags, LOAM_NODE_ANY, &arena_));
    }
    bool inside(const void *p) { return loam_arena_contains(arena_, p); }
    size_t free_bytes() {
        loam_arena_numbers numbers;
        loam_arena_usage(arena_, &numbers);
        return numbers.free_bytes;
    }
    /* Errors leave nothing behind. */
    int refused(void *start, size_t bytes, unsigned flags = 0, int node = LOAM_NODE_ANY) {
        loam_arena *none = reinterpret_cast<loam_arena *>(this);
        int result = loam_manage_memory(start, bytes, flags, node, &none);
        EXPECT_EQ(nullptr, none);
        lm_span_check();
        return result;
    }
    char *mapping_ = nullptr, *start_ = nullptr;
    loam_arena *arena_ = nullptr;
};

/* A heap in the arena, ended with the test's body. */
struct Heap {
    explicit Heap(loam_arena *arena, bool spill = false) : heap(loam_heap_create_in(arena, spill)) {
        EXPECT_NE(nullptr, heap);
    }
    ~Heap() { loam_heap_destroy(heap); }
    void *take(size_t bytes) {
        void *p = loam_heap_malloc(heap, bytes);
        EXPECT_NE(nullptr, p) << bytes;
        if (p != nullptr) memset(p, 0xa5, bytes);
        return p;
    }
    loam_heap *heap;
};

} // namespace unit

#endif

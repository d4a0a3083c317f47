/* heap_forms_test.cc: each function of loam/heap.h at its edges, as forms_test.cc has those of loam/malloc.h: what it
 * returns, errno, whose the object is, and what stays as it was. What heaps are inside: tests/unit/whole_test.cc.
 */
#include <gtest/gtest.h>
#include <loam/heap.h>
#include <loam/malloc.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace {

class HeapForms : public testing::Test {
  protected:
    HeapForms() : heap(loam_heap_create()) {}
    ~HeapForms() override { loam_heap_destroy(heap); }
    loam_heap *heap;
};

/* What is committed is read while others use the heap; a walk could not be made then. */
TEST_F(HeapForms, LimitsAreReadAtAnyTime) {
    const size_t hard = size_t{64} << 20, soft = size_t{48} << 20;
    loam_heap_limits limits;
    loam_heap_get_limits(heap, &limits);
    EXPECT_EQ(SIZE_MAX, limits.soft);
    EXPECT_EQ(SIZE_MAX, limits.hard);
    EXPECT_EQ(0u, limits.committed_bytes);
    loam_heap_set_limits(heap, soft, hard, nullptr, nullptr);
    std::atomic<bool> stop{false};
    std::vector<std::thread> busy;
    for (unsigned seed = 1; seed <= 2; seed++) {
        busy.emplace_back([&, seed] {
            std::vector<void *> kept(200);
            for (unsigned random = seed; !stop;) {
                random = random * 1103515245 + 12345;
                void *&place = kept[(random >> 8) % kept.size()];
                loam_free(place);
                place =
                    loam_heap_malloc(heap, (random >> 16) % 3000 + (random % 97 == 0 ? 99999 : 0));
            }
            for (void *p : kept) loam_free(p);
        });
    }
    for (int i = 0; i < 200000; i++) {
        loam_heap_get_limits(heap, &limits);
        ASSERT_EQ(soft, limits.soft);
        ASSERT_EQ(hard, limits.hard);
        ASSERT_LE(limits.committed_bytes, hard);
        ASSERT_EQ(0u, limits.committed_bytes % 65536);
    }
    stop = true;
    for (std::thread &thread : busy) thread.join();
    void *large = loam_heap_malloc(heap, size_t{3} << 20);
    ASSERT_NE(nullptr, large);
    loam_heap_numbers numbers;
    loam_heap_usage(heap, &numbers);
    loam_heap_get_limits(heap, &limits);
    EXPECT_EQ(numbers.committed_bytes, limits.committed_bytes);
    EXPECT_EQ(numbers.committed_bytes_most, limits.committed_bytes_most);
    EXPECT_GE(limits.committed_bytes, size_t{3} << 20);
    EXPECT_GE(limits.committed_bytes_most, limits.committed_bytes);
}

} // namespace

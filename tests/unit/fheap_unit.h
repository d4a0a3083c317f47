/* fheap_unit.h: what the tests of first-class heaps share: a heap, objects in it, and its
 * numbers. */
#ifndef LOAM_TESTS_UNIT_WHOLE_UNIT_H
#define LOAM_TESTS_UNIT_WHOLE_UNIT_H

#include "heap_unit.h"

#include "loam/loam.h"

#include <cstring>

namespace unit {

class FheapTest : public PausedWorkerTest {
  protected:
    void SetUp() override {
        PausedWorkerTest::SetUp();
        heap_ = loam_heap_create();
        ASSERT_NE(nullptr, heap_);
    }
    void TearDown() override {
        if (heap_ != nullptr) {
            lm_fheap_check(heap_);
            loam_heap_destroy(heap_);
        }
        PausedWorkerTest::TearDown();
    }
    void end() {
        loam_heap_destroy(heap_);
        heap_ = nullptr;
    }
    void *take(size_t bytes) {
        void *p = loam_heap_malloc(heap_, bytes);
        EXPECT_NE(nullptr, p);
        memset(p, 0xa5, bytes);
        return p;
    }
    std::vector<void *> take(size_t n, size_t bytes) {
        std::vector<void *> taken;
        for (size_t i = 0; i < n; i++) taken.push_back(take(bytes));
        return taken;
    }
    size_t objects() {
        loam_heap_numbers numbers;
        loam_heap_usage(heap_, &numbers);
        return numbers.objects;
    }
    size_t committed() {
        loam_heap_numbers numbers;
        loam_heap_usage(heap_, &numbers);
        return numbers.committed_bytes;
    }
    size_t most() {
        loam_heap_numbers numbers;
        loam_heap_usage(heap_, &numbers);
        return numbers.committed_bytes_most;
    }
    loam_heap *heap_ = nullptr;
};

inline void free_all(const std::vector<void *> &taken) {
    for (void *p : taken) loam_free(p);
}

constexpr size_t kSizes[] = {0, 1, 16, 100, 1000, 1024, 1025, 5000, 40000, 65000, 70000, 1000000};

} // namespace unit

#endif

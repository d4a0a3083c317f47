/* fresh_test.cc: what an object of many MiB grows by is zero without being written, where it is
 * memory that nobody has used: recalloc and its kin leave it to the system, as zalloc does. That it
 * is zero, dirty memory too, is shown for all sizes by forms_test.cc and model_test.cc.
 */
#include "bytes.h"

#include <gtest/gtest.h>
#include <loam/heap.h>
#include <loam/malloc.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace {

constexpr size_t kMib = size_t{1} << 20;

/* Bytes of it that are in memory; SIZE_MAX: the system does not say. */
size_t resident(void *p, size_t bytes) {
    auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    auto first = (reinterpret_cast<uintptr_t>(p) + page - 1) / page * page;
    std::vector<unsigned char> there(bytes / page);
    if (mincore(reinterpret_cast<void *>(first), (bytes / page - 1) * page, there.data()) != 0)
        return SIZE_MAX;
    size_t sum = 0;
    for (unsigned char one : there) sum += (one & 1) * page;
    return sum;
}

/* grow makes 64 MiB of an object of 1 MiB, which is full of a letter. */
void grows(const char *form, void *small, const std::function<void *(void *)> &grow) {
    ASSERT_NE(nullptr, small) << form;
    memset(small, 'a', kMib);
    auto *p = static_cast<char *>(grow(small));
    ASSERT_NE(nullptr, p) << form;
    size_t there = resident(p, 64 * kMib);
    if (there == SIZE_MAX) GTEST_SKIP() << "no mincore";
    EXPECT_LE(there, 4 * kMib) << form;
    for (size_t i = 0; i < kMib; i += 997) ASSERT_EQ('a', p[i]) << form;
    for (size_t i = kMib; i < 64 * kMib; i += 997) ASSERT_EQ(0, p[i]) << form << ": " << i;
    memset(p, 'b', 64 * kMib);
    loam_free(p);
    (void)loam_collect();
}

TEST(Fresh, WhatIsGrownByIsNotWritten) {
    const size_t much = 64 * kMib;
    (void)loam_collect();
    grows("rezalloc", loam_zalloc(kMib), [=](void *p) { return loam_rezalloc(p, much); });
    grows("recalloc", loam_zalloc(kMib), [=](void *p) { return loam_recalloc(p, 64, kMib); });
    grows("aligned", loam_zalloc(kMib),
          [=](void *p) { return loam_rezalloc_aligned(p, much, 4096); });
    grows("more aligned", loam_zalloc(kMib),
          [=](void *p) { return loam_rezalloc_aligned(p, much, 2 * kMib); });
    grows("with a neighbour", loam_zalloc(kMib), [=](void *p) {
        void *behind = loam_malloc(kMib); /* so that it cannot grow where it is */
        void *there = loam_rezalloc(p, much);
        loam_free(behind);
        return there;
    });
    grows("at an offset", loam_zalloc_aligned_offset(kMib, 64, 8),
          [=](void *p) { return loam_rezalloc_aligned_offset(p, much, 64, 8); });
    grows("another offset", loam_zalloc_aligned_offset(kMib, 64, 8),
          [=](void *p) { return loam_rezalloc_aligned_offset(p, much, 64, 24); });
    loam_heap *heap = loam_heap_create();
    grows("heap", loam_heap_zalloc(heap, kMib),
          [=](void *p) { return loam_heap_rezalloc(heap, p, much); });
    grows("into a heap", loam_zalloc(kMib),
          [=](void *p) { return loam_heap_rezalloc_aligned(heap, p, much, 2 * kMib); });
    loam_heap_destroy(heap);
}

/* Part of it used before, part of it not; and what was given up in between. */
TEST(Fresh, WhatWasUsedIsZeroAgain) {
    for (size_t step : {size_t{70000}, size_t{300000}, size_t{5} << 20}) {
        auto *behind = static_cast<char *>(loam_malloc(2 * step));
        memset(behind, 'c', 2 * step);
        auto *p = static_cast<char *>(loam_zalloc(step));
        memset(p, 'a', step);
        loam_free(behind);
        for (size_t size :
             {2 * step, step + 5, 3 * step, step, 8 * step, 2 * step + 65000, 9 * step}) {
            p = static_cast<char *>(loam_rezalloc(p, size));
            ASSERT_NE(nullptr, p);
            ASSERT_EQ(step, first_other(p, step, 'a'));
            size_t more = loam_usable_size(p) - step;
            ASSERT_EQ(more, first_other(p + step, more, 0)) << size;
            memset(p + step, 'd', size - step);
            p = static_cast<char *>(loam_rezalloc(p, step));
            ASSERT_NE(nullptr, p);
        }
        loam_free(p);
    }
}

} // namespace

/* heap_forms_test.cc: each function of loam/heap.h at its edges, as forms_test.cc has those of
 * loam/malloc.h: what it returns, errno, whose the object is, and what stays as it was. What heaps
 * are inside: tests/unit/fheap_test.cc.
 */
#include "bytes.h"

#include <gtest/gtest.h>
#include <loam/heap.h>
#include <loam/malloc.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <functional>
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

void refused(const char *what, int error, const std::function<void *()> &call) {
    errno = 0;
    EXPECT_EQ(nullptr, call()) << what;
    EXPECT_EQ(error, errno) << what;
}

TEST_F(HeapForms, BadAlignmentsAreEinvalAndChangeNothing) {
    loam_heap *h = heap;
    char *p = loam_heap_strdup(h, "as it was");
    for (size_t align : {size_t{0}, size_t{3}, size_t{48}, SIZE_MAX}) {
        for (size_t size : {size_t{0}, size_t{5}, SIZE_MAX}) {
            refused("malloc", EINVAL, [=] { return loam_heap_malloc_aligned(h, size, align); });
            refused("zalloc", EINVAL, [=] { return loam_heap_zalloc_aligned(h, size, align); });
            refused("calloc", EINVAL, [=] { return loam_heap_calloc_aligned(h, 2, size, align); });
            refused("realloc", EINVAL,
                    [=] { return loam_heap_realloc_aligned(h, p, size, align); });
            refused("rezalloc", EINVAL,
                    [=] { return loam_heap_rezalloc_aligned(h, p, size, align); });
            refused("recalloc", EINVAL,
                    [=] { return loam_heap_recalloc_aligned(h, p, 2, size, align); });
        }
    }
    EXPECT_STREQ("as it was", p);
}

TEST_F(HeapForms, NothingAndNull) {
    loam_heap *h = heap;
    void *all[] = {
        loam_heap_malloc(h, 0),
        loam_heap_zalloc(h, 0),
        loam_heap_calloc(h, 0, 9),
        loam_heap_mallocarray(h, 9, 0),
        loam_heap_malloc_small(h, 0),
        loam_heap_zalloc_small(h, 0),
        loam_heap_malloc_aligned(h, 0, 64),
        loam_heap_zalloc_aligned(h, 0, 1 << 17),
        loam_heap_calloc_aligned(h, 0, 0, 1),
        loam_heap_realloc(h, nullptr, 0),
        loam_heap_reallocarray(h, nullptr, 0, 0),
        loam_heap_reallocf(h, nullptr, 0),
        loam_heap_rezalloc(h, nullptr, 0),
        loam_heap_recalloc(h, nullptr, 1, 0),
        loam_heap_realloc_aligned(h, nullptr, 0, 64),
        loam_heap_rezalloc_aligned(h, nullptr, 0, 64),
        loam_heap_recalloc_aligned(h, nullptr, 0, 1, 64),
        loam_heap_memdup(h, "", 0),
    };
    for (void *&p : all) {
        ASSERT_NE(nullptr, p) << &p - all;
        EXPECT_EQ(h, loam_heap_of(p)) << &p - all;
        for (void **other = all; other < &p; other++) EXPECT_NE(*other, p);
    }
    EXPECT_EQ(nullptr, loam_heap_realloc(h, all[0], 0));
    EXPECT_EQ(nullptr, loam_heap_reallocarray(h, all[1], 0, 7));
    EXPECT_EQ(nullptr, loam_heap_reallocf(h, all[2], 0));
    EXPECT_EQ(nullptr, loam_heap_rezalloc(h, all[3], 0));
    EXPECT_EQ(nullptr, loam_heap_recalloc(h, all[4], 7, 0));
    EXPECT_EQ(nullptr, loam_heap_realloc_aligned(h, all[5], 0, 64));
    EXPECT_EQ(nullptr, loam_heap_rezalloc_aligned(h, all[6], 0, 64));
    EXPECT_EQ(nullptr, loam_heap_recalloc_aligned(h, all[7], 7, 0, 64));
    loam_heap_numbers numbers;
    loam_heap_usage(h, &numbers);
    EXPECT_EQ(sizeof all / sizeof *all - 8, numbers.objects);
}

/* Up to what may be used, so that a function that zeroes may resize it. */
TEST_F(HeapForms, ZeroedToTheUsableSize) {
    for (size_t size = 1; size < 300000; size += 1 + size / 3) {
        void *dirty[20];
        for (void *&p : dirty) {
            p = loam_heap_malloc(heap, size);
            memset(p, 0xee, loam_usable_size(p));
        }
        for (void *p : dirty) loam_free(p);
        void *made[] = {loam_heap_zalloc(heap, size), loam_heap_calloc(heap, 1, size),
                        loam_heap_zalloc_aligned(heap, size, 16)};
        for (void *p : made) {
            auto *bytes = static_cast<unsigned char *>(p);
            ASSERT_NE(nullptr, p);
            bytes = static_cast<unsigned char *>(loam_heap_rezalloc(heap, bytes, size + size / 9));
            ASSERT_EQ(size + size / 9, first_other(bytes, size + size / 9, 0)) << size;
            loam_free(bytes);
        }
    }
}

TEST_F(HeapForms, ReallocfFreesWhatItCannotResize) {
    for (int i = 0; i < 100; i++) {
        volatile size_t most = SIZE_MAX;
        EXPECT_EQ(nullptr, loam_heap_reallocf(heap, loam_heap_malloc(heap, 3000), most));
    }
    loam_heap_numbers numbers;
    loam_heap_usage(heap, &numbers);
    EXPECT_EQ(0u, numbers.objects);
}

/* From malloc, and from another heap: into the heap that is named, aligned as asked for. */
TEST_F(HeapForms, WhatMovesMovesIntoTheHeap) {
    loam_heap *other = loam_heap_create();
    for (loam_heap *from : {other, static_cast<loam_heap *>(nullptr)}) {
        auto make = [=] {
            return from != nullptr ? loam_heap_zalloc(from, 100) : loam_zalloc(100);
        };
        void *moved[] = {
            loam_heap_realloc(heap, make(), 5000),
            loam_heap_reallocarray(heap, make(), 50, 100),
            loam_heap_reallocf(heap, make(), 5000),
            loam_heap_rezalloc(heap, make(), 5000),
            loam_heap_recalloc(heap, make(), 100, 50),
            loam_heap_realloc_aligned(heap, make(), 5000, 4096),
            loam_heap_rezalloc_aligned(heap, make(), 500000, 1 << 17),
            loam_heap_recalloc_aligned(heap, make(), 5000, 100, 64),
        };
        for (void *&p : moved) {
            ASSERT_NE(nullptr, p) << &p - moved;
            EXPECT_EQ(heap, loam_heap_of(p)) << &p - moved;
            EXPECT_GE(loam_usable_size(p), 5000u);
        }
        EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(moved[5]) % 4096);
        EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(moved[6]) % (1 << 17));
    }
    loam_heap_numbers numbers;
    loam_heap_usage(other, &numbers);
    EXPECT_EQ(0u, numbers.objects);
    loam_heap_destroy(other);
}

TEST_F(HeapForms, Copies) {
    char *text = loam_heap_strdup(heap, "text"), *part = loam_heap_strndup(heap, "text", 2);
    auto *bytes = static_cast<char *>(loam_heap_memdup(heap, "a\0b", 4));
    EXPECT_STREQ("text", text);
    EXPECT_STREQ("te", part);
    EXPECT_EQ(0, memcmp("a\0b", bytes, 4));
    char *path = loam_heap_realpath(heap, "/proc/../.", nullptr), room[PATH_MAX];
    EXPECT_STREQ("/", path);
    for (void *p : {static_cast<void *>(text), static_cast<void *>(part),
                    static_cast<void *>(bytes), static_cast<void *>(path)})
        EXPECT_EQ(heap, loam_heap_of(p));
    EXPECT_EQ(room, loam_heap_realpath(heap, "/proc/..", room));
    errno = 0;
    EXPECT_EQ(nullptr, loam_heap_realpath(heap, "/nowhere/at/all", nullptr));
    EXPECT_EQ(ENOENT, errno);
}

TEST_F(HeapForms, WhoseAnObjectIs) {
    void *plain = loam_malloc(100), *plain_large = loam_malloc(200000);
    void *mine = loam_heap_malloc(heap, 100), *large = loam_heap_malloc(heap, 200000);
    void *offset = loam_malloc_aligned_offset(100, 64, 8);
    int variable = 0;
    for (const void *p : {static_cast<const void *>(plain), static_cast<const void *>(plain_large),
                          static_cast<const void *>(offset), static_cast<const void *>(&variable),
                          static_cast<const void *>(nullptr)})
        EXPECT_EQ(nullptr, loam_heap_of(p));
    EXPECT_EQ(heap, loam_heap_of(mine));
    EXPECT_EQ(heap, loam_heap_of(static_cast<char *>(mine) + 50));
    EXPECT_EQ(heap, loam_heap_of(large));
    EXPECT_EQ(heap, loam_heap_of(static_cast<char *>(large) + 150000));
    std::thread([&] { EXPECT_EQ(heap, loam_heap_of(mine)); }).join();
    loam_heap *ended = loam_heap_create();
    void *left = loam_heap_malloc(ended, 100), *left_large = loam_heap_malloc(ended, 200000);
    loam_heap_delete(ended);
    EXPECT_EQ(nullptr, loam_heap_of(left));
    EXPECT_EQ(nullptr, loam_heap_of(left_large));
    for (void *p : {plain, plain_large, offset, left, left_large}) loam_free(p);
}

TEST_F(HeapForms, DefaultIsToldAndSet) {
    EXPECT_EQ(nullptr, loam_heap_get_default());
    loam_heap *before = heap;
    ASSERT_EQ(0, loam_heap_set_default(heap, &before));
    EXPECT_EQ(nullptr, before);
    EXPECT_EQ(heap, loam_heap_get_default());
    std::thread([] { EXPECT_EQ(nullptr, loam_heap_get_default()); }).join();
    ASSERT_EQ(0, loam_heap_set_default(nullptr, &before));
    EXPECT_EQ(heap, before);
    EXPECT_EQ(nullptr, loam_heap_get_default());
}

#if LOAM_SECURE || (defined(LOAM_DEBUG) && LOAM_DEBUG)
using HeapFormsDeath = HeapForms;
TEST_F(HeapFormsDeath, SmallFormsAskedForMore) {
    volatile size_t more = LOAM_SMALL_MOST + 1;
    EXPECT_DEATH((void)loam_heap_malloc_small(heap, more), "as a small object");
    EXPECT_DEATH((void)loam_heap_zalloc_small(heap, more), "as a small object");
}
#endif

} // namespace

/* alloc_test.cc: malloc, calloc, realloc, reallocarray, free and the sized frees, as glibc
 * documents them (malloc(3), and C23 for free_sized and free_aligned_sized).
 *
 * Success cases over sizes of every kind, failure cases with errno and with the old object intact.
 * What several threads do to each other is not here but in tests/model and tests/stress.
 */
#include "libc_test.h"

#include <set>
#include <thread>

namespace {

using libc_test::aligned;
using libc_test::hide;
using libc_test::impossible_sizes;
using libc_test::sizes_of_every_kind;
using libc_test::symbol;

constexpr size_t kAlign = 16;

/* A recognisable byte for position i of the object called tag. */
unsigned char mark(size_t i, unsigned tag) {
    return static_cast<unsigned char>((i * 131) ^ (i >> 8) ^ (tag * 77) ^ 0x5a);
}

void fill(void *p, size_t bytes, unsigned tag) {
    auto *b = static_cast<unsigned char *>(p);
    for (size_t i = 0; i < bytes; i++) b[i] = mark(i, tag);
}

/* The first position that differs, or bytes. */
size_t intact(const void *p, size_t bytes, unsigned tag) {
    const auto *b = static_cast<const unsigned char *>(p);
    for (size_t i = 0; i < bytes; i++) {
        if (b[i] != mark(i, tag)) return i;
    }
    return bytes;
}

size_t first_nonzero(const void *p, size_t bytes) {
    const auto *b = static_cast<const unsigned char *>(p);
    for (size_t i = 0; i < bytes; i++) {
        if (b[i] != 0) return i;
    }
    return bytes;
}

TEST(Malloc, EverySizeIsAlignedAndWritable) {
    for (size_t size : sizes_of_every_kind()) {
        void *p = malloc(hide(size));
        ASSERT_NE(p, nullptr) << size;
        EXPECT_TRUE(aligned(p, kAlign)) << size;
        if (size > 0) {
            memset(p, 0xee, size);
            hide(p);
        }
        free(p);
    }
}

TEST(Malloc, EverySmallSizeIsAlignedTo16) {
    for (size_t size = 0; size <= 70000; size++) {
        void *p = malloc(hide(size));
        ASSERT_TRUE(p != nullptr && aligned(p, kAlign)) << size << " at " << p;
        free(p);
    }
}

TEST(Malloc, ZeroBytesAreUniqueObjects) {
    std::set<void *> seen;
    std::vector<void *> all;
    for (int i = 0; i < 2000; i++) {
        void *p = malloc(hide(size_t{0}));
        ASSERT_NE(p, nullptr);
        EXPECT_TRUE(seen.insert(p).second);
        all.push_back(p);
    }
    for (void *p : all) free(p);
}

TEST(Malloc, SuccessLeavesErrnoAlone) {
    for (size_t size : sizes_of_every_kind()) {
        errno = 4321;
        void *p = malloc(hide(size));
        EXPECT_EQ(errno, 4321) << size;
        free(p);
    }
}

TEST(Malloc, ImpossibleSizesFailWithEnomem) {
    for (size_t size : impossible_sizes()) {
        errno = 0;
        EXPECT_EQ(malloc(hide(size)), nullptr) << size;
        EXPECT_EQ(errno, ENOMEM) << size;
    }
}

TEST(Malloc, MoreThanTheAddressSpaceFailsWithEnomem) {
    for (int bit = 48; bit <= 62; bit++) {
        errno = 0;
        EXPECT_EQ(malloc(hide(size_t{1} << bit)), nullptr) << bit;
        EXPECT_EQ(errno, ENOMEM) << bit;
    }
    errno = 0;
    EXPECT_EQ(malloc(hide(static_cast<size_t>(PTRDIFF_MAX))), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    void *p = malloc(hide(size_t{100})); /* and life goes on */
    EXPECT_NE(p, nullptr);
    free(p);
}

TEST(Free, NullIsNothing) {
    errno = 77;
    free(hide(static_cast<void *>(nullptr)));
    EXPECT_EQ(errno, 77);
}

TEST(Free, KeepsErrnoForEverySize) {
    for (size_t size : sizes_of_every_kind()) {
        void *p = malloc(hide(size));
        ASSERT_NE(p, nullptr);
        if (size > 0) memset(p, 1, size);
        errno = 1234;
        free(hide(p));
        EXPECT_EQ(errno, 1234) << size;
    }
}

TEST(Free, KeepsErrnoForManyLargeObjectsAndForOtherThreads) {
    std::vector<void *> all;
    for (int i = 0; i < 40; i++) {
        all.push_back(malloc(hide(size_t{8} << 20)));
        memset(all.back(), 1, 8 << 20);
    }
    for (int i = 0; i < 5000; i++) all.push_back(malloc(hide(size_t{64} + i % 3000)));
    int seen = 0;
    std::thread([&] {
        errno = 99;
        for (void *p : all) free(p);
        seen = errno;
    }).join();
    EXPECT_EQ(seen, 99);
}

TEST(Calloc, EverySizeIsZero) {
    for (size_t size : sizes_of_every_kind()) {
        for (int round = 0; round < 3; round++) { /* later rounds reuse what was made dirty */
            void *p = calloc(hide(size_t{1}), hide(size));
            ASSERT_NE(p, nullptr) << size;
            EXPECT_TRUE(aligned(p, kAlign)) << size;
            ASSERT_EQ(first_nonzero(p, size), size);
            if (size > 0) memset(p, 0xff, size);
            free(hide(p));
        }
    }
}

TEST(Calloc, IsZeroAmongDirtyNeighbours) {
    for (size_t size : {size_t{16}, size_t{48}, size_t{1000}, size_t{3000}, size_t{40000}}) {
        std::vector<void *> dirty;
        for (int i = 0; i < 300; i++) {
            dirty.push_back(malloc(hide(size)));
            memset(dirty.back(), 0xa5, size);
        }
        for (void *p : dirty) free(hide(p));
        std::vector<void *> zeroed;
        for (int i = 0; i < 300; i++) {
            zeroed.push_back(calloc(hide(size / 8), hide(size_t{8})));
            ASSERT_EQ(first_nonzero(zeroed.back(), size / 8 * 8), size / 8 * 8) << size;
            memset(zeroed.back(), 0x5a, size);
        }
        for (void *p : zeroed) free(p);
    }
}

/* The whole usable size, too: a program may use it, and realloc may hand it out. */
TEST(Calloc, LargeIsZeroAfterDirtyLarge) {
    for (int round = 0; round < 4; round++) {
        size_t size = (size_t{3} << 20) + static_cast<size_t>(round) * 70000;
        auto *p = static_cast<unsigned char *>(calloc(hide(size), 1));
        ASSERT_NE(p, nullptr);
        ASSERT_EQ(first_nonzero(p, size), size);
        memset(p, 0xff, malloc_usable_size(p));
        free(hide(p));
    }
}

TEST(Calloc, ZeroCountOrSizeIsAUniqueObject) {
    void *a = calloc(hide(size_t{0}), hide(size_t{8}));
    void *b = calloc(hide(size_t{8}), hide(size_t{0}));
    void *c = calloc(hide(size_t{0}), hide(SIZE_MAX));
    EXPECT_TRUE(a != nullptr && b != nullptr && c != nullptr);
    EXPECT_TRUE(a != b && b != c && a != c);
    free(a);
    free(b);
    free(c);
}

struct Product {
    size_t count;
    size_t size;
};

const std::vector<Product> &overflowing_products() {
    static const std::vector<Product> products = {
        {SIZE_MAX, 2},
        {2, SIZE_MAX},
        {SIZE_MAX, SIZE_MAX},
        {size_t{1} << 32, size_t{1} << 32},
        {(size_t{1} << 32) + 1, (size_t{1} << 32) + 1}, /* wraps to a small number */
        {size_t{1} << 63, 2},                           /* wraps to 0 */
        {SIZE_MAX / 3 + 1, 3},
        {SIZE_MAX / 16 + 2, 16},
        {1, static_cast<size_t>(PTRDIFF_MAX) + 1}, /* no overflow, yet impossible */
        {static_cast<size_t>(PTRDIFF_MAX) / 2 + 1, 2}};
    return products;
}

TEST(Calloc, OverflowFailsWithEnomem) {
    for (const Product &product : overflowing_products()) {
        errno = 0;
        EXPECT_EQ(calloc(hide(product.count), hide(product.size)), nullptr) << product.count;
        EXPECT_EQ(errno, ENOMEM) << product.count;
    }
}

TEST(Realloc, OfNullAllocates) {
    for (size_t size : sizes_of_every_kind()) {
        void *p = realloc(hide(static_cast<void *>(nullptr)), hide(size));
        ASSERT_NE(p, nullptr) << size;
        EXPECT_TRUE(aligned(p, kAlign));
        fill(p, size < 5000 ? size : 5000, 1);
        free(p);
    }
}

TEST(Realloc, ToZeroFreesAndReturnsNull) {
    for (size_t size : sizes_of_every_kind()) {
        void *p = malloc(hide(size));
        ASSERT_NE(p, nullptr);
        errno = 55;
        EXPECT_EQ(realloc(hide(p), hide(size_t{0})), nullptr) << size;
        EXPECT_EQ(errno, 55) << "not a failure, so no ENOMEM";
    }
    /* Were the objects not freed, this would need 4 GiB. */
    size_t before = libc_test::resident_bytes();
    for (int i = 0; i < 4096; i++) {
        void *p = malloc(hide(size_t{1} << 20));
        ASSERT_NE(p, nullptr);
        memset(p, 1, 1 << 20);
        EXPECT_EQ(realloc(hide(p), hide(size_t{0})), nullptr);
    }
    EXPECT_LT(libc_test::resident_bytes(), before + (size_t{256} << 20));
}

TEST(Realloc, KeepsTheContentsBetweenEveryKindOfSize) {
    unsigned tag = 0;
    for (size_t from : sizes_of_every_kind()) {
        if (from > 6000000) continue;
        for (size_t to : sizes_of_every_kind()) {
            if (to == 0 || to > 6000000) continue;
            tag++;
            void *p = malloc(hide(from));
            ASSERT_NE(p, nullptr);
            /* Whole contents of the small, both ends of the large. */
            size_t kept = from < to ? from : to;
            size_t head = kept < 9000 ? kept : 4096;
            fill(p, head, tag);
            if (head < kept) fill(static_cast<char *>(p) + kept - 4096, 4096, tag + 1);
            errno = 66;
            void *q = realloc(hide(p), hide(to));
            ASSERT_NE(q, nullptr) << from << " to " << to;
            EXPECT_EQ(errno, 66);
            EXPECT_TRUE(aligned(q, kAlign));
            EXPECT_GE(malloc_usable_size(q), to);
            ASSERT_EQ(intact(q, head, tag), head) << from << " to " << to;
            if (head < kept) {
                ASSERT_EQ(intact(static_cast<char *>(q) + kept - 4096, 4096, tag + 1), 4096u)
                    << from << " to " << to;
            }
            fill(q, to < 9000 ? to : 9000, tag);
            free(q);
        }
    }
}

TEST(Realloc, GrowsStepByStepTo64MiB) {
    size_t size = 24;
    auto *p = static_cast<unsigned char *>(malloc(hide(size)));
    ASSERT_NE(p, nullptr);
    fill(p, size, 9);
    while (size < (size_t{64} << 20)) {
        size_t larger = size + size / 2 + 3;
        p = static_cast<unsigned char *>(realloc(hide(p), hide(larger)));
        ASSERT_NE(p, nullptr);
        for (size_t i = size; i < larger; i += 61) p[i] = mark(i, 9);
        /* Each end of what was there. */
        ASSERT_EQ(intact(p, 24, 9), 24u) << size;
        size = larger;
    }
    free(p);
}

TEST(Realloc, FailureKeepsTheObject) {
    for (size_t from : sizes_of_every_kind()) {
        if (from > 6000000) continue;
        void *p = malloc(hide(from));
        ASSERT_NE(p, nullptr);
        size_t checked = from < 9000 ? from : 9000;
        fill(p, checked, 3);
        for (size_t size : impossible_sizes()) {
            errno = 0;
            EXPECT_EQ(realloc(hide(p), hide(size)), nullptr) << from << " to " << size;
            EXPECT_EQ(errno, ENOMEM);
        }
        errno = 0;
        EXPECT_EQ(realloc(hide(p), hide(size_t{1} << 50)), nullptr);
        EXPECT_EQ(errno, ENOMEM);
        EXPECT_EQ(intact(p, checked, 3), checked) << from;
        EXPECT_GE(malloc_usable_size(p), from);
        free(p);
    }
}

TEST(Realloc, OfNullWithAnImpossibleSizeFails) {
    for (size_t size : impossible_sizes()) {
        errno = 0;
        EXPECT_EQ(realloc(hide(static_cast<void *>(nullptr)), hide(size)), nullptr);
        EXPECT_EQ(errno, ENOMEM);
    }
}

TEST(Reallocarray, MultipliesAndKeepsTheContents) {
    auto *p = static_cast<int *>(
        reallocarray(hide(static_cast<void *>(nullptr)), hide(size_t{10}), sizeof(int)));
    ASSERT_NE(p, nullptr);
    for (int i = 0; i < 10; i++) p[i] = i * i;
    p = static_cast<int *>(reallocarray(hide(p), hide(size_t{100000}), sizeof(int)));
    ASSERT_NE(p, nullptr);
    for (int i = 0; i < 10; i++) EXPECT_EQ(p[i], i * i);
    p[99999] = 1;
    p = static_cast<int *>(reallocarray(hide(p), hide(size_t{5}), sizeof(int)));
    ASSERT_NE(p, nullptr);
    for (int i = 0; i < 5; i++) EXPECT_EQ(p[i], i * i);
    EXPECT_EQ(reallocarray(hide(p), hide(size_t{0}), sizeof(int)), nullptr); /* freed */
}

TEST(Reallocarray, OverflowFailsAndKeepsTheObject) {
    void *p = malloc(hide(size_t{333}));
    ASSERT_NE(p, nullptr);
    fill(p, 333, 8);
    for (const Product &product : overflowing_products()) {
        errno = 0;
        EXPECT_EQ(reallocarray(hide(p), hide(product.count), hide(product.size)), nullptr);
        EXPECT_EQ(errno, ENOMEM) << product.count << " x " << product.size;
        errno = 0;
        EXPECT_EQ(reallocarray(hide(static_cast<void *>(nullptr)), hide(product.count),
                               hide(product.size)),
                  nullptr);
        EXPECT_EQ(errno, ENOMEM) << product.count << " x " << product.size;
    }
    EXPECT_EQ(intact(p, 333, 8), 333u);
    free(p);
}

TEST(FreeSized, FreesEveryKind) {
    auto free_sized = symbol<void(void *, size_t)>("free_sized");
    ASSERT_NE(free_sized, nullptr);
    for (int round = 0; round < 3; round++) {
        for (size_t size : sizes_of_every_kind()) {
            void *p = malloc(hide(size));
            void *q = calloc(1, hide(size));
            void *r = realloc(malloc(hide(size_t{40})), hide(size + 1));
            ASSERT_TRUE(p != nullptr && q != nullptr && r != nullptr);
            errno = 88;
            free_sized(p, size);
            free_sized(q, size);
            free_sized(r, size + 1);
            EXPECT_EQ(errno, 88);
        }
    }
    free_sized(nullptr, 0);
    free_sized(nullptr, 10);
}

TEST(FreeSized, AlignedFreesEveryKind) {
    auto free_aligned_sized = symbol<void(void *, size_t, size_t)>("free_aligned_sized");
    ASSERT_NE(free_aligned_sized, nullptr);
    for (size_t align = 16; align <= 65536; align *= 2) {
        for (size_t size : sizes_of_every_kind()) {
            size_t rounded = (size + align - 1) / align * align;
            void *p = aligned_alloc(hide(align), hide(rounded));
            ASSERT_NE(p, nullptr) << align << " " << rounded;
            errno = 88;
            free_aligned_sized(p, align, rounded);
            EXPECT_EQ(errno, 88);
        }
    }
    free_aligned_sized(nullptr, 64, 0);
}

TEST(FreeSized, TheMemoryIsUsedAgain) {
    auto free_sized = symbol<void(void *, size_t)>("free_sized");
    ASSERT_NE(free_sized, nullptr);
    size_t before = libc_test::resident_bytes();
    for (int i = 0; i < 2000; i++) {
        void *p = malloc(hide(size_t{1} << 20));
        ASSERT_NE(p, nullptr);
        memset(p, 1, 1 << 20);
        free_sized(hide(p), size_t{1} << 20);
    }
    EXPECT_LT(libc_test::resident_bytes(), before + (size_t{256} << 20));
}

TEST(Cfree, Frees) {
    auto cfree = symbol<void(void *)>("cfree");
    ASSERT_NE(cfree, nullptr);
    cfree(malloc(hide(size_t{100})));
    cfree(nullptr);
}

TEST(Everything, LiveObjectsDoNotOverlap) {
    struct Object {
        unsigned char *p;
        size_t size;
    };
    std::vector<Object> live;
    unsigned tag = 0;
    for (int round = 0; round < 60; round++) {
        for (size_t size : sizes_of_every_kind()) {
            if (size > 300000) continue;
            auto *p = static_cast<unsigned char *>(malloc(hide(size)));
            ASSERT_NE(p, nullptr);
            fill(p, size, tag++);
            live.push_back({p, size});
        }
    }
    for (unsigned i = 0; i < live.size(); i++) {
        ASSERT_EQ(intact(live[i].p, live[i].size, i), live[i].size) << "object " << i;
    }
    for (const Object &object : live) free(object.p);
}

} // namespace

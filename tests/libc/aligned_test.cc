/* aligned_test.cc: posix_memalign, aligned_alloc, memalign, valloc, pvalloc.
 *
 * Results and errors as posix_memalign(3) and C17 document them. Where glibc's own versions differ
 * (aligned_alloc with an alignment that is no power of two: rounded up before 2.38, EINVAL since)
 * both answers are accepted, anything between is not.
 */
#include "libc_test.h"

#include <set>
#include <thread>

namespace {

using libc_test::aligned;
using libc_test::hide;
using libc_test::impossible_sizes;
using libc_test::page_bytes;

const std::vector<size_t> &some_sizes() {
    static const std::vector<size_t> sizes = {
        0,    1,     15,    16,    40,    100,    1000,   1024,    4000,    4096,
        8192, 10000, 32768, 65536, 65537, 100000, 300000, 1048576, 3000000, 10000001};
    return sizes;
}

constexpr size_t kBad = 0x10; /* what a pointer that must stay unchanged holds */

void *untouched() { return reinterpret_cast<void *>(kBad); }

TEST(PosixMemalign, EveryAlignmentAndSize) {
    for (size_t align = sizeof(void *); align <= (size_t{4} << 20); align *= 2) {
        for (size_t size : some_sizes()) {
            void *p = nullptr;
            errno = 17;
            ASSERT_EQ(posix_memalign(&p, hide(align), hide(size)), 0) << align << " " << size;
            EXPECT_EQ(errno, 17);
            ASSERT_NE(p, nullptr);
            EXPECT_TRUE(aligned(p, align)) << p << " " << align;
            EXPECT_TRUE(aligned(p, 16)) << p;
            EXPECT_GE(malloc_usable_size(p), size);
            if (size > 0) memset(p, 0xcc, size);
            errno = 18;
            free(hide(p));
            EXPECT_EQ(errno, 18);
        }
    }
}

TEST(PosixMemalign, BadAlignmentIsEinvalAndChangesNothing) {
    for (size_t align :
         {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{7}, size_t{12}, size_t{24},
          size_t{40}, size_t{48}, size_t{100}, size_t{4095}, size_t{4104}, size_t{65536 + 8},
          SIZE_MAX, SIZE_MAX - 7, (size_t{1} << 63) + 8}) {
        void *p = untouched();
        errno = 19;
        EXPECT_EQ(posix_memalign(&p, hide(align), hide(size_t{64})), EINVAL) << align;
        EXPECT_EQ(p, untouched()) << align;
        EXPECT_EQ(errno, 19) << "posix_memalign returns its error and leaves errno alone";
    }
}

TEST(PosixMemalign, ImpossibleSizeIsEnomemAndChangesNothing) {
    for (size_t align : {size_t{8}, size_t{16}, size_t{64}, size_t{4096}, size_t{1} << 20}) {
        for (size_t size : impossible_sizes()) {
            void *p = untouched();
            errno = 20;
            EXPECT_EQ(posix_memalign(&p, hide(align), hide(size)), ENOMEM) << align << " " << size;
            EXPECT_EQ(p, untouched());
            EXPECT_EQ(errno, ENOMEM) << "as glibc's";
        }
        void *p = untouched();
        EXPECT_EQ(posix_memalign(&p, hide(align), hide(size_t{1} << 50)), ENOMEM);
        EXPECT_EQ(p, untouched());
    }
}

TEST(PosixMemalign, ImpossibleAlignmentIsEnomem) {
    for (int bit = 50; bit <= 62; bit++) {
        void *p = untouched();
        EXPECT_EQ(posix_memalign(&p, hide(size_t{1} << bit), hide(size_t{64})), ENOMEM) << bit;
        EXPECT_EQ(p, untouched());
    }
}

TEST(PosixMemalign, ZeroBytesAreUniqueObjects) {
    std::set<void *> seen;
    for (size_t align = 8; align <= 4096; align *= 2) {
        for (int i = 0; i < 20; i++) {
            void *p = nullptr;
            ASSERT_EQ(posix_memalign(&p, align, hide(size_t{0})), 0);
            ASSERT_NE(p, nullptr);
            EXPECT_TRUE(seen.insert(p).second);
        }
    }
    for (void *p : seen) free(p);
}

TEST(AlignedAlloc, EveryAlignmentAndSize) {
    for (size_t align = 1; align <= (size_t{4} << 20); align *= 2) {
        for (size_t size : some_sizes()) { /* glibc does not ask for a multiple */
            void *p = aligned_alloc(hide(align), hide(size));
            ASSERT_NE(p, nullptr) << align << " " << size;
            EXPECT_TRUE(aligned(p, align)) << p << " " << align;
            EXPECT_TRUE(aligned(p, 16)) << p;
            EXPECT_GE(malloc_usable_size(p), size);
            if (size > 0) memset(p, 0xcd, size);
            free(hide(p));
        }
    }
}

TEST(AlignedAlloc, BadAlignmentIsEinvalOrRoundedUp) {
    for (size_t align : {size_t{0}, size_t{3}, size_t{24}, size_t{48}, size_t{100}, size_t{5000}}) {
        errno = 0;
        void *p = aligned_alloc(hide(align), hide(size_t{200}));
        if (p == nullptr) {
            EXPECT_EQ(errno, EINVAL) << align;
            continue;
        }
        size_t rounded = 16;
        while (rounded < align) rounded *= 2;
        EXPECT_TRUE(aligned(p, rounded)) << align;
        free(p);
    }
}

TEST(AlignedAlloc, ImpossibleIsEnomem) {
    for (size_t align : {size_t{1}, size_t{16}, size_t{64}, size_t{4096}, size_t{1} << 22}) {
        for (size_t size : impossible_sizes()) {
            errno = 0;
            EXPECT_EQ(aligned_alloc(hide(align), hide(size)), nullptr) << align << " " << size;
            EXPECT_EQ(errno, ENOMEM);
        }
    }
    errno = 0;
    EXPECT_EQ(aligned_alloc(hide(size_t{1} << 60), hide(size_t{64})), nullptr);
    EXPECT_EQ(errno, ENOMEM);
}

TEST(Memalign, RoundsTheAlignmentUp) {
    for (size_t align = 0; align <= 9000; align += align < 70 ? 1 : 97) {
        void *p = memalign(hide(align), hide(size_t{300}));
        ASSERT_NE(p, nullptr) << align;
        size_t rounded = 16;
        while (rounded < align) rounded *= 2;
        EXPECT_TRUE(aligned(p, rounded)) << p << " " << align;
        memset(p, 0xce, 300);
        free(hide(p));
    }
}

TEST(Memalign, ImpossibleSizeIsEnomem) {
    for (size_t align : {size_t{8}, size_t{64}, size_t{4096}, size_t{1} << 20}) {
        for (size_t size : impossible_sizes()) {
            errno = 0;
            EXPECT_EQ(memalign(hide(align), hide(size)), nullptr);
            EXPECT_EQ(errno, ENOMEM);
        }
    }
}

TEST(Memalign, AlignmentThatCannotBeRoundedUpIsEinval) {
    for (size_t align : {(size_t{1} << 63) + 1, SIZE_MAX, SIZE_MAX - 15}) {
        errno = 0;
        EXPECT_EQ(memalign(hide(align), hide(size_t{64})), nullptr);
        EXPECT_EQ(errno, EINVAL) << align;
    }
}

TEST(Valloc, IsPageAligned) {
    for (size_t size : some_sizes()) {
        void *p = valloc(hide(size));
        ASSERT_NE(p, nullptr) << size;
        EXPECT_TRUE(aligned(p, page_bytes()));
        EXPECT_GE(malloc_usable_size(p), size);
        if (size > 0) memset(p, 0xcf, size);
        free(hide(p));
    }
    for (size_t size : impossible_sizes()) {
        errno = 0;
        EXPECT_EQ(valloc(hide(size)), nullptr);
        EXPECT_EQ(errno, ENOMEM);
    }
}

TEST(Pvalloc, IsWholePages) {
    for (size_t size : some_sizes()) {
        void *p = pvalloc(hide(size));
        ASSERT_NE(p, nullptr) << size;
        EXPECT_TRUE(aligned(p, page_bytes()));
        size_t rounded = (size + page_bytes() - 1) / page_bytes() * page_bytes();
        EXPECT_GE(malloc_usable_size(p), rounded);
        memset(p, 0xd0, rounded);
        free(hide(p));
    }
    for (size_t size : impossible_sizes()) { /* rounding up must not wrap to 0 */
        errno = 0;
        EXPECT_EQ(pvalloc(hide(size)), nullptr) << size;
        EXPECT_EQ(errno, ENOMEM);
    }
}

/* Objects of every alignment live side by side and keep what was written. */
TEST(Aligned, LiveObjectsKeepTheirContents) {
    struct Object {
        unsigned char *p;
        size_t size;
        size_t align;
    };
    std::vector<Object> live;
    for (int round = 0; round < 12; round++) {
        for (size_t align = 8; align <= 262144; align *= 2) {
            for (size_t size : {size_t{1}, size_t{48}, align / 2, align, align + 1, align * 3}) {
                void *p = nullptr;
                ASSERT_EQ(posix_memalign(&p, align, hide(size)), 0);
                ASSERT_TRUE(aligned(p, align));
                memset(p, static_cast<int>(live.size() * 7), size);
                live.push_back({static_cast<unsigned char *>(p), size, align});
            }
        }
    }
    for (size_t i = 0; i < live.size(); i++) {
        auto value = static_cast<unsigned char>(i * 7);
        for (size_t at = 0; at < live[i].size; at += at < 64 ? 1 : 509) {
            ASSERT_EQ(live[i].p[at], value) << "object " << i << " at " << at;
        }
        ASSERT_EQ(live[i].p[live[i].size - 1], value);
    }
    for (const Object &object : live) free(object.p);
}

TEST(Aligned, ReallocKeepsTheContents) {
    for (size_t align = 16; align <= 131072; align *= 2) {
        for (size_t size : {size_t{48}, size_t{5000}, size_t{70000}, size_t{400000}}) {
            for (size_t to : {size_t{20}, size_t{900}, size_t{66000}, size_t{1000000}}) {
                void *p = nullptr;
                ASSERT_EQ(posix_memalign(&p, align, hide(size)), 0);
                memset(p, 0x77, size);
                auto *q = static_cast<unsigned char *>(realloc(hide(p), hide(to)));
                ASSERT_NE(q, nullptr);
                size_t kept = size < to ? size : to;
                for (size_t i = 0; i < kept; i += 13) ASSERT_EQ(q[i], 0x77) << align << " " << i;
                ASSERT_EQ(q[kept - 1], 0x77);
                memset(q, 0x78, to);
                free(q);
            }
        }
    }
}

TEST(Aligned, FreedByAnotherThread) {
    std::vector<void *> all;
    for (size_t align = 16; align <= 1048576; align *= 2) {
        for (int i = 0; i < 20; i++) {
            void *p = aligned_alloc(align, hide(size_t{100} + static_cast<size_t>(i) * 333));
            ASSERT_NE(p, nullptr);
            memset(p, 1, 100);
            all.push_back(p);
        }
    }
    std::thread([&] {
        for (void *p : all) free(p);
    }).join();
    for (size_t align = 16; align <= 1048576; align *= 2) { /* the freed room is usable again */
        void *p = aligned_alloc(align, hide(size_t{100}));
        ASSERT_TRUE(p != nullptr && aligned(p, align));
        free(p);
    }
}

/* Where a class gives the alignment anyway, asking for it must not cost a larger block. */
TEST(Aligned, DoesNotOverAllocateWhereAClassSuffices) {
    for (size_t align : {size_t{16}, size_t{32}, size_t{64}, size_t{128}, size_t{256}}) {
        void *p = aligned_alloc(align, hide(align));
        ASSERT_NE(p, nullptr);
        EXPECT_LE(malloc_usable_size(p), align + 32) << align;
        free(p);
    }
    size_t before = libc_test::resident_bytes();
    std::vector<void *> all;
    for (int i = 0; i < 20000; i++) {
        all.push_back(aligned_alloc(64, hide(size_t{1024})));
        memset(all.back(), 1, 1024);
    }
    size_t grown = libc_test::resident_bytes() - before;
    /* Three: one as ever, and a huge page that is not filled yet. */
    EXPECT_LT(grown, size_t{20000} * 1024 * 115 / 100 + (size_t{3} << 20));
    for (void *p : all) free(p);
}

} // namespace

/* usable_size_test.cc: malloc_usable_size, and the bound on internal waste.
 *
 * What it reports may be written to the last byte. Above 128 bytes it is at most 12.5% more than
 * what was asked for: every size to 64 KiB, then a ladder of sizes to 64 MiB. Only a hole that a
 * freed block of a larger class has left may be up to a quarter larger than the class. A debug
 * build keeps its check bytes after the object and so reports exactly what was asked for; there the
 * bound is tested on loam_good_size, which names the class.
 */
#include "libc_test.h"

#include <thread>

namespace {

using libc_test::hide;
using libc_test::kDebugBuild;
using libc_test::kSecureBuild;
using libc_test::sizes_of_every_kind;
using libc_test::symbol;

constexpr size_t kSmall = 64 * 1024;

size_t usable_of(size_t size) {
    void *p = malloc(hide(size));
    if (p == nullptr) return 0;
    size_t usable = malloc_usable_size(hide(p));
    free(p);
    return usable;
}

/* 12.5% in integers: usable <= size + size/8. In a debug build the class holds 16 bytes more than
 * either says. */
bool within_bound(size_t size, size_t usable) {
    return usable >= size && usable - size <= (size + (kDebugBuild ? 16 : 0)) / 8;
}

/* Around each power of two and each eighth between, to 64 MiB. */
std::vector<size_t> sampled_large_sizes() {
    std::vector<size_t> sizes;
    for (size_t base = kSmall; base < (size_t{64} << 20); base *= 2) {
        for (size_t eighth = 0; eighth < 8; eighth++) {
            size_t at = base + eighth * (base / 8);
            for (size_t delta : {size_t{1}, size_t{100}, size_t{4096}, size_t{4097}, base / 16}) {
                sizes.push_back(at + delta);
            }
            sizes.push_back(at + base / 8 - 1);
        }
    }
    sizes.push_back(size_t{64} << 20);
    return sizes;
}

TEST(UsableSize, OfNullIsZero) {
    errno = 5;
    EXPECT_EQ(malloc_usable_size(hide(static_cast<void *>(nullptr))), 0u);
    EXPECT_EQ(errno, 5);
}

/* All that calloc's object may be used for is zero, also where its block was full of other
 * bytes. */
TEST(UsableSize, OfCallocIsZeroToTheEnd) {
    for (size_t size = 1; size <= kSmall + 70000; size += size < 4096 ? 1 : 997) {
        auto *dirty = static_cast<unsigned char *>(malloc(hide(size)));
        memset(dirty, 0xeb, malloc_usable_size(dirty));
        free(hide(dirty));
        auto *clear = static_cast<unsigned char *>(calloc(hide(size_t{1}), hide(size)));
        size_t usable = malloc_usable_size(hide(clear));
        ASSERT_GE(usable, size);
        for (size_t at = 0; at < usable; at++) ASSERT_EQ(clear[at], 0) << size << " at " << at;
        memset(clear, 0xeb, usable);
        free(hide(clear));
    }
}

TEST(UsableSize, IsAtLeastTheRequestForEverySmallSize) {
    for (size_t size = 0; size <= kSmall + 5000; size++) {
        size_t usable = usable_of(size);
        ASSERT_GE(usable, size);
    }
}

TEST(UsableSize, MayBeWrittenToTheLastByte) {
    struct Object {
        unsigned char *p;
        size_t usable;
    };
    std::vector<Object> live;
    for (int round = 0; round < 20; round++) {
        for (size_t size : sizes_of_every_kind()) {
            if (size > 200000) continue;
            for (int kind = 0; kind < 4; kind++) {
                void *p = nullptr;
                switch (kind) {
                case 0: p = malloc(hide(size)); break;
                case 1: p = calloc(1, hide(size)); break;
                case 2: p = realloc(malloc(hide(size_t{33})), hide(size + 1)); break;
                default: ASSERT_EQ(posix_memalign(&p, 128, hide(size)), 0); break;
                }
                ASSERT_NE(p, nullptr);
                size_t usable = malloc_usable_size(hide(p));
                ASSERT_GE(usable, size);
                memset(p, static_cast<int>(live.size()), usable);
                live.push_back({static_cast<unsigned char *>(p), usable});
            }
        }
    }
    for (size_t i = 0; i < live.size(); i++) {
        for (size_t at = 0; at < live[i].usable; at++) {
            ASSERT_EQ(live[i].p[at], static_cast<unsigned char>(i)) << "object " << i;
        }
        ASSERT_EQ(malloc_usable_size(live[i].p), live[i].usable) << "it does not change";
        free(live[i].p);
    }
}

TEST(UsableSize, IsKeptByReallocWithinIt) {
    for (size_t size : sizes_of_every_kind()) {
        if (size == 0 || size > 5000000) continue;
        auto *p = static_cast<unsigned char *>(malloc(hide(size)));
        ASSERT_NE(p, nullptr);
        size_t usable = malloc_usable_size(p);
        memset(p, 0x3c, usable);
        /* The whole usable size counts as contents once the program has written to it. */
        p = static_cast<unsigned char *>(realloc(hide(p), hide(usable)));
        ASSERT_NE(p, nullptr);
        for (size_t i = 0; i < usable; i++) ASSERT_EQ(p[i], 0x3c) << size << " at " << i;
        free(p);
    }
}

TEST(UsableSize, SeenFromAnotherThread) {
    for (size_t size : sizes_of_every_kind()) {
        void *p = malloc(hide(size));
        size_t here = malloc_usable_size(p);
        size_t there = 0;
        std::thread([&] { there = malloc_usable_size(p); }).join();
        EXPECT_EQ(here, there) << size;
        free(p);
    }
}

TEST(Waste, EverySizeTo64KiB) {
    if (kDebugBuild) {
        GTEST_SKIP() << "this build reports requested sizes: the bound is tested on loam_good_size";
    }
    auto good_size = symbol<size_t(size_t)>("loam_good_size");
    ASSERT_NE(good_size, nullptr);
    size_t worst = 0;
    size_t worst_size = 129, borrowed = 0;
    for (size_t size = 129; size <= kSmall; size++) {
        size_t usable = usable_of(size);
        if (!within_bound(size, usable)) { /* a freed block of a larger class was at hand */
            ASSERT_LE(usable, good_size(size) * 5 / 4) << size;
            borrowed++;
            continue;
        }
        if ((usable - size) * worst_size > worst * size) {
            worst = usable - size;
            worst_size = size;
        }
    }
    EXPECT_LT(borrowed, kSmall / 20) << "only where the test's own objects have left holes";
    RecordProperty("worst_size", static_cast<int>(worst_size));
    printf("worst waste: %zu bytes take %zu (%.2f%%)\n", worst_size, worst_size + worst,
           100.0 * static_cast<double>(worst) / static_cast<double>(worst_size));
}

TEST(Waste, SizesTo64MiB) {
    for (size_t size : sampled_large_sizes()) {
        size_t usable = usable_of(size);
        ASSERT_TRUE(within_bound(size, usable)) << size << " takes " << usable;
    }
}

/* Up to 128 bytes the step is 16: never more than 15 bytes over, 16 for nothing at all. */
TEST(Waste, SmallSizesAreInStepsOf16) {
    if (kDebugBuild) {
        GTEST_SKIP() << "this build reports requested sizes: the bound is tested on loam_good_size";
    }
    for (size_t size = 0; size <= 128; size++) {
        size_t usable = usable_of(size);
        EXPECT_GE(usable, size);
        ASSERT_LE(usable, size == 0 ? 16 : (size + 15) / 16 * 16) << size;
    }
}

TEST(GoodSize, IsWhatAnObjectGetsAtLeastAndWithinTheBound) {
    auto good_size = symbol<size_t(size_t)>("loam_good_size");
    ASSERT_NE(good_size, nullptr);
    size_t before = 0, as_promised = 0;
    for (size_t size = 129; size <= kSmall; size++) {
        size_t good = good_size(size);
        ASSERT_TRUE(within_bound(size, good)) << size << " is rounded to " << good;
        ASSERT_GE(good, before) << "monotonic at " << size;
        ASSERT_EQ(good_size(good), good) << size;
        if (!kDebugBuild && !kSecureBuild) { /* there it is exactly what was asked for */
            size_t usable = usable_of(size);
            ASSERT_GE(usable, good) << size;
            ASSERT_LE(usable, good * 5 / 4)
                << size << ": at most so much in a hole of a larger class";
            as_promised += usable == good;
        }
        before = good;
    }
    EXPECT_TRUE(kDebugBuild || kSecureBuild || as_promised > kSmall * 9 / 10) << as_promised;
    for (size_t size : sampled_large_sizes()) {
        size_t good = good_size(size);
        ASSERT_TRUE(within_bound(size, good)) << size << " is rounded to " << good;
        ASSERT_EQ(good_size(good), good) << size;
    }
}

/* The same bound as the machine sees it: resident bytes of objects filled to the brim. */
TEST(Waste, ResidentMemoryOfFullObjects) {
    if (kDebugBuild) {
        GTEST_SKIP() << "this build keeps check bytes after each object: no bound is promised";
    }
    constexpr size_t kTotal = size_t{128} << 20;
    for (size_t size : {size_t{144}, size_t{1008}, size_t{4096}, size_t{14336}, size_t{40960}}) {
        std::vector<void *> all(kTotal / size + 1); /* touched before measuring begins */
        size_t count = 0;
        malloc_trim(0); /* what earlier objects left behind would hide the growth */
        size_t before = libc_test::resident_bytes();
        size_t used = 0;
        while (used < kTotal) {
            void *p = malloc(hide(size));
            ASSERT_NE(p, nullptr);
            memset(p, 1, malloc_usable_size(p));
            used += size;
            all[count++] = p;
        }
        double grown =
            static_cast<double>(libc_test::resident_bytes()) - static_cast<double>(before);
        double share = grown / static_cast<double>(used);
        printf("%zu B objects: %.4f resident bytes a byte\n", size, share);
        /* 12.5%, and 1.5% for metadata and unfinished pages; a secure build's canary may need the
         * next class. */
        EXPECT_LT(share, kSecureBuild ? 1.27 : 1.14) << size;
        EXPECT_GT(share, 0.98) << size << ": memory was not given back before measuring";
        for (size_t i = 0; i < count; i++) free(all[i]);
    }
}

} // namespace

// region_test.cc: regions: objects, their alignment and order, chunks, growth, arrays, numbers;
// and, one by one, what the first of this kind of allocator got wrong.
#include "loam/region.h"

#include "family/pool_sources.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif

loam_usage usage_of(const loam_region *region) {
    loam_usage usage;
    loam_region_usage(region, &usage);
    return usage;
}

/* Where addresses are told exactly: regions that are neither checked (a debug build) nor watched by
 * a tool. */
#define SKIP_UNLESS_PLAIN() \
    if (LOAM_DEBUG_BUILD || kWatched) GTEST_SKIP() << "objects have guards here"
#if LOAM_DEBUG
#define LOAM_DEBUG_BUILD true
#else
#define LOAM_DEBUG_BUILD false
#endif

struct Region {
    loam_region *region;
    explicit Region(loam_source *source = nullptr, loam_region_options options = {})
        : region(loam_region_create(source, &options)) {
        EXPECT_NE(region, nullptr);
    }
    ~Region() {
        EXPECT_TRUE(loam_region_check(region));
        loam_region_destroy(region);
    }
    char *alloc(size_t bytes) { return static_cast<char *>(loam_region_alloc(region, bytes)); }
    operator loam_region *() const { return region; }
};

loam_region_options with_first(size_t first_bytes) {
    loam_region_options options = {};
    options.first_bytes = first_bytes;
    return options;
}

TEST(Region, RefusesWhatItCannotBe) {
    loam_region region;
    loam_region_options options = {};
    options.first_bytes = 255;
    EXPECT_EQ(loam_region_init(&region, nullptr, &options), -EINVAL);
    EXPECT_EQ(loam_region_create(nullptr, &options), nullptr);
    options.first_bytes = SIZE_MAX;
    EXPECT_EQ(loam_region_init(&region, nullptr, &options), -EINVAL);
    options = {};
    options.chunk_align = 24;
    EXPECT_EQ(loam_region_init(&region, nullptr, &options), -EINVAL);
    options = {};
    options.large_bytes = 1023;
    EXPECT_EQ(loam_region_init(&region, nullptr, &options), -EINVAL);
    options.large_bytes = 1024;
    ASSERT_EQ(loam_region_init(&region, nullptr, &options), 0);
    loam_region_deinit(&region);
}

TEST(Region, OneInPlaceTakesMemoryWithItsFirstObject) {
    Counted counted;
    loam_region region;
    ASSERT_EQ(loam_region_init(&region, &counted.source, nullptr), 0);
    EXPECT_EQ(counted.gets, 0u);
    EXPECT_NE(loam_region_alloc(&region, 100), nullptr);
    EXPECT_EQ(counted.gets, 1u);
    EXPECT_TRUE(loam_region_check(&region));
    loam_region_deinit(&region);
    EXPECT_EQ(counted.used_bytes, 0u);
    ASSERT_EQ(loam_region_init(&region, &counted.source, nullptr), 0) << "and again";
    EXPECT_NE(loam_region_alloc(&region, 100), nullptr);
    loam_region_deinit(&region);
}

TEST(Region, AlignsAsAskedAndRefusesOtherAlignments) {
    Counted counted;
    Region region(&counted.source);
    for (size_t align = 1; align <= 65536; align *= 2) {
        for (size_t bytes : {size_t{1}, size_t{24}, size_t{5000}}) {
            auto *p = static_cast<char *>(loam_region_alloc_aligned(region.region, bytes, align));
            ASSERT_NE(p, nullptr);
            EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
            memset(p, 1, bytes);
        }
    }
    volatile size_t none = 0, odd = 24, huge = SIZE_MAX / 2 + 1;
    EXPECT_EQ(loam_region_alloc_aligned(region.region, 8, none), nullptr);
    EXPECT_EQ(loam_region_alloc_aligned(region.region, 8, odd), nullptr);
    EXPECT_EQ(loam_region_alloc_aligned(region.region, 8, huge), nullptr);
}

TEST(Region, ProductsThatOverflowAreNull) {
    Region region;
    volatile size_t many = SIZE_MAX / 8 + 2, most = PTRDIFF_MAX;
    EXPECT_EQ(loam_region_calloc(region.region, many, 8), nullptr);
    EXPECT_EQ(LOAM_REGION_ARRAY(region.region, long, many), nullptr);
    EXPECT_EQ(loam_region_calloc(region.region, most, 1), nullptr);
    EXPECT_EQ(loam_region_alloc(region.region, most), nullptr);
    char *p = region.alloc(10);
    EXPECT_EQ(loam_region_realloc(region.region, p, 10, many * 7), nullptr);
    EXPECT_FALSE(loam_region_extend(region.region, p, 10, most));
}

TEST(Region, CallocIsZeroInUsedMemory) {
    Region region;
    memset(region.alloc(3000), 0xff, 3000);
    loam_region_reset(region);
    auto *p = static_cast<char *>(loam_region_calloc(region.region, 30, 100));
    for (int i = 0; i < 3000; i++) ASSERT_EQ(p[i], 0);
}

TEST(Region, CopiesAndFormats) {
    Region region;
    EXPECT_STREQ(loam_region_strdup(region.region, "whole"), "whole");
    EXPECT_STREQ(loam_region_strndup(region.region, "whole", 3), "who");
    EXPECT_STREQ(loam_region_strndup(region.region, "whole", 30), "whole");
    int numbers[] = {1, 2, 3};
    EXPECT_EQ(static_cast<int *>(loam_region_memdup(region.region, numbers, sizeof numbers))[2], 3);
    EXPECT_STREQ(loam_region_sprintf(region.region, "%d and %s", 5, "more"), "5 and more");
    std::string longer(500, 'x');
    EXPECT_EQ(loam_region_sprintf(region.region, "%s!", longer.c_str()), longer + "!");
    /* No character of the C locale: a format that fails. */
    const wchar_t none[] = {static_cast<wchar_t>(0x7fffffff), 0};
    EXPECT_EQ(loam_region_sprintf(region.region, "%ls", none), nullptr);
}

TEST(Region, PackedObjectsTouchEachOther) {
    SKIP_UNLESS_PLAIN();
    Region region;
    auto *a = static_cast<char *>(loam_region_alloc_packed(region.region, 3));
    auto *b = static_cast<char *>(loam_region_alloc_packed(region.region, 5));
    EXPECT_EQ(b, a + 3);
    auto *c = static_cast<char *>(loam_region_alloc_aligned(region.region, 8, 8));
    EXPECT_EQ(c, a + 8);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region.alloc(1)) % 16, 0u);
}

TEST(Region, TellsWhenAnotherChunkWasNeeded) {
    Region region(nullptr, with_first(4096));
    bool told = true;
    (void)loam_region_alloc_told(region.region, 64, &told);
    EXPECT_FALSE(told);
    (void)loam_region_alloc_told(region.region, 4000, &told);
    EXPECT_TRUE(told);
}

/* ---- As a stack ---- */

TEST(Region, TheLastObjectsMemoryIsTheNextOnes) {
    Region region;
    char *a = region.alloc(100), *b = region.alloc(200);
    loam_region_free(region.region, b, 200);
    EXPECT_EQ(region.alloc(50), b);
    loam_region_free(region.region, b, 50);
    loam_region_free(region.region, a, 100);
    EXPECT_EQ(region.alloc(1000), a);
    loam_region_free(region.region, nullptr, 5);
}

/* The first pool of this kind recorded a page's order only when the next was current. */
TEST(Region, AnEmptiedChunkGoesAndTheOneBeforeIsAsItWas) {
    loam_region_options tfw = LOAM_REGION_TFW;
    Counted counted;
    Region region(&counted.source, tfw);
    size_t first = counted.used_bytes;
    char *a = region.alloc(100);
    char *large = region.alloc(10000); /* four pages */
    memset(large, 1, 10000);
    EXPECT_GE(counted.used_bytes, first + 16384);
    char *small = region.alloc(3000);
    loam_region_free(region.region, small, 3000);
    loam_region_free(region.region, large, 10000);
    EXPECT_TRUE(loam_region_check(region));
    char *b = region.alloc(100);
    EXPECT_LT(b - a, 400) << "behind the object that is there still";
    EXPECT_GT(b, a);
    loam_region_trim(region);
    EXPECT_EQ(counted.used_bytes, first) << "the emptied one is the source's again";
}

TEST(Region, AlternatingAtAChunksEndAsksTheSourceOnce) {
    Counted counted;
    Region region(&counted.source, with_first(4096));
    while (counted.gets == 1) (void)region.alloc(64);
    (void)region.alloc(3900);
    size_t gets = counted.gets;
    for (int i = 0; i < 100; i++) loam_region_free(region.region, region.alloc(7000), 7000);
    EXPECT_LE(counted.gets, gets + 1);
}

/* The first pool of this kind compared with the wrong end. */
TEST(Region, TheLastObjectGrowsToItsChunksEndAndNoFurther) {
    Region region(nullptr, with_first(4096));
    char *p = region.alloc(16);
    memset(p, 7, 16);
    size_t bytes = 16;
    while (loam_region_extend(region.region, p, bytes, bytes + 16)) bytes += 16;
    EXPECT_GT(bytes, 2000u);
    EXPECT_LT(bytes, 4096u);
    memset(p, 7, bytes);
    EXPECT_TRUE(loam_region_check(region));
    auto *moved = static_cast<char *>(loam_region_realloc(region.region, p, bytes, bytes + 16));
    ASSERT_NE(moved, p);
    for (size_t i = 0; i < bytes; i++) ASSERT_EQ(moved[i], 7);
}

/* The first pool of this kind forgot what aligning takes. */
TEST(Region, ReallocKeepsAlignmentAndContents) {
    for (size_t align : {size_t{1}, size_t{8}, size_t{64}, size_t{4096}}) {
        Region region;
        char *other = nullptr;
        size_t bytes = 10;
        auto *p = static_cast<char *>(loam_region_alloc_aligned(region.region, bytes, align));
        memset(p, 5, bytes);
        for (int i = 0; i < 12; i++) {
            size_t more = bytes * 2 + 3;
            p = static_cast<char *>(
                loam_region_realloc_aligned(region.region, p, bytes, more, align));
            ASSERT_NE(p, nullptr);
            ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
            for (size_t k = 0; k < bytes; k++) ASSERT_EQ(p[k], 5);
            if (other != nullptr) {
                ASSERT_EQ(*other, 9);
            }
            memset(p, 5, more);
            bytes = more;
            if (i % 2 == 0) *(other = region.alloc(1)) = 9;
        }
    }
}

/* The end of a chunk is no multiple of a large alignment, to which the object's bytes are
 * rounded. */
TEST(Region, AnAlignedObjectThatGrowsStaysWithinItsChunk) {
    for (size_t align = 32; align <= 65536; align *= 2) {
        Region region(nullptr, with_first(4096 + 48));
        void *p = loam_region_alloc_aligned(region.region, 8, align);
        for (size_t bytes = 9; bytes < 3 * align && bytes < 20000; bytes += 8) {
            p = loam_region_realloc_aligned(region.region, p, bytes - (bytes == 9 ? 1 : 8), bytes,
                                            align);
            ASSERT_NE(p, nullptr);
            ASSERT_TRUE(loam_region_check(region)) << align << " " << bytes;
        }
        memset(region.alloc(100), 1, 100);
        ASSERT_TRUE(loam_region_check(region));
    }
}

/* The first pool of this kind lost every old copy. */
TEST(Region, AnArrayThatGrowsByOneCopiesFewTimesAndKeepsLittle) {
    Region region;
    size_t count = 0, moves = 0;
    long *array = nullptr;
    for (; count < 100000; count++) {
        auto *grown = static_cast<long *>(loam_region_realloc(
            region.region, array, count * sizeof(long), (count + 1) * sizeof(long)));
        ASSERT_NE(grown, nullptr);
        moves += grown != array;
        array = grown;
        array[count] = static_cast<long>(count);
        if (count % 3 == 0) (void)region.alloc(16); /* never the last */
    }
    for (size_t i = 0; i < count; i++) ASSERT_EQ(array[i], static_cast<long>(i));
    EXPECT_LT(moves, 60u);
    if (!LOAM_DEBUG_BUILD && !kWatched) {
        EXPECT_LT(usage_of(region).held_bytes, 6 * count * sizeof(long));
    }
}

TEST(Region, AFreedArrayServesTheNext) {
    SKIP_UNLESS_PLAIN();
    Region region;
    char *a = region.alloc(1000), *b = region.alloc(16);
    loam_region_free(region.region, a, 1000);
    size_t used = usage_of(region).used_bytes;
    while (usage_of(region).held_bytes - used > 2048) (void)region.alloc(16), used += 16;
    std::vector<char *> later;
    for (int i = 0; i < 40; i++) later.push_back(region.alloc(500));
    bool again = false;
    for (char *p : later) again = again || (p >= a && p < a + 1000);
    EXPECT_TRUE(again);
    EXPECT_EQ(*b = 1, 1);
}

/* Nothing lies at it: another object may. */
TEST(Region, AnObjectWithoutBytesIsNobodysNeighbour) {
    Region region;
    char *before = region.alloc(32);
    char *none = region.alloc(0);
    char *p = region.alloc(100);
    (void)region.alloc(16);
    auto *grown = static_cast<char *>(loam_region_realloc(region.region, p, 100, 300));
    (void)region.alloc(16);
    memset(grown, 1, 300);
    char *other = region.alloc(0);
    auto *made = static_cast<char *>(loam_region_realloc(region.region, none, 0, 200));
    memset(made, 2, 200);
    loam_region_free(region.region, other, 0);
    auto *next = region.alloc(300);
    memset(next, 3, 300);
    for (int i = 0; i < 300; i++) ASSERT_EQ(grown[i], 1);
    for (int i = 0; i < 200; i++) ASSERT_EQ(made[i], 2);
    loam_region_free(region.region, before, 32);
}

/* ---- Large objects ---- */

TEST(Region, LargeObjectsGoBackSingly) {
    Counted counted;
    loam_region_options options = {};
    options.large_bytes = 4095; /* as nginx on pages of 4096 */
    Region region(&counted.source, options);
    (void)region.alloc(1000);
    size_t before = counted.used_bytes, puts = counted.puts;
    char *a = region.alloc(5000), *b = region.alloc(100000), *c = region.alloc(5000);
    for (char *p : {a, b, c}) EXPECT_TRUE(loam_region_contains(region, p));
    loam_region_free(region.region, b, 100000);
    EXPECT_EQ(counted.puts, puts + 1);
    EXPECT_FALSE(loam_region_contains(region, b));
    loam_region_free(region.region, a, 5000);
    loam_region_free(region.region, c, 5000);
    EXPECT_EQ(counted.used_bytes, before);
}

/* Though the current chunk has room for it: free must know where it is. */
TEST(Region, ALargeObjectNeverLiesAmongOthers) {
    Counted counted;
    loam_region_options options = with_first(1 << 20);
    options.large_bytes = 1024;
    Region region(&counted.source, options);
    size_t gets = counted.gets;
    char *constant = static_cast<char *>(loam_region_alloc(region.region, 8305));
    char *known = region.alloc(2000);
    EXPECT_EQ(counted.gets, gets + 2);
    loam_region_free(region.region, constant, 8305);
    loam_region_free(region.region, known, 2000);
    EXPECT_EQ(counted.gets - counted.puts, 1u);
}

TEST(Region, ArraysOfManyAreGivenBackAsOne) {
    Region region;
    char *p = static_cast<char *>(loam_region_calloc(region.region, 10, 24));
    loam_region_free_n(region.region, p, 10, 24);
    EXPECT_EQ(region.alloc(8), p);
}

TEST(Region, IsFromKnowsItsObjects) {
    Region region;
    Region other;
    char *p = region.alloc(100), on_stack = 0;
    EXPECT_TRUE(loam_region_contains(region, p));
    EXPECT_TRUE(loam_region_contains(region, p + 99));
    EXPECT_FALSE(loam_region_contains(other, p));
    EXPECT_FALSE(loam_region_contains(region, &on_stack));
    EXPECT_FALSE(loam_region_contains(region, nullptr));
}

/* ---- Growth ---- */

size_t chunk_after(Counted *counted, loam_region *region) {
    size_t used = counted->used_bytes;
    while (counted->used_bytes == used) {
        if (loam_region_alloc(region, 200) == nullptr) return 0;
    }
    return counted->used_bytes - used;
}

TEST(Region, ChunksDoubleUpToTheirCap) {
    Counted counted;
    loam_region_options options = {};
    options.first_bytes = 4096;
    options.most_bytes = 32768;
    Region region(&counted.source, options);
    for (size_t expected : {8192u, 16384u, 32768u, 32768u}) {
        EXPECT_EQ(chunk_after(&counted, region), expected);
    }
}

TEST(Region, FixedChunksStayAsTheyAre) {
    Counted counted;
    loam_region_options tfw = LOAM_REGION_TFW;
    Region region(&counted.source, tfw);
    for (int i = 0; i < 5; i++) EXPECT_EQ(chunk_after(&counted, region), 4096u);
}

TEST(Region, ChunksOfTfwPoolsModeBeginAtMultiplesOf4096) {
    alignas(4096) static char memory[12 * 4096];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory + 48, sizeof memory - 48);
    loam_region_options tfw = LOAM_REGION_TFW;
    Region region(&buffer.source, tfw);
    size_t objects = 0;
    while (region.alloc(200) != nullptr) {
        ASSERT_EQ(reinterpret_cast<uintptr_t>(region.region->chunk) % 4096, 0u);
        objects++;
    }
    EXPECT_GT(objects, 40u);
}

TEST(Region, OneThatIsFixedAsksNoMore) {
    Counted counted;
    loam_region_options options = with_first(8192);
    options.flags = LOAM_FIXED;
    Region region(&counted.source, options);
    while (region.alloc(100) != nullptr) {}
    EXPECT_EQ(counted.gets, 1u);
    EXPECT_GT(usage_of(region).used_bytes, 7000u);
    EXPECT_EQ(region.alloc(100000), nullptr);
    /* The flag counts by itself, too. */
    loam_region *other = loam_region_create_as(&counted.source, nullptr, LOAM_FIXED);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(loam_region_alloc(other, 100000), nullptr);
    loam_region_destroy(other);
}

TEST(Region, SmallerChunksDoWhereTheSourceEnds) {
    Counted counted(loam_pages(), 40960);
    Region region(&counted.source, with_first(4096));
    while (region.alloc(100) != nullptr) {}
    EXPECT_GT(usage_of(region).held_bytes, 36000u) << "down to the last pages";
}

/* ---- The object that lives in its own region ---- */

TEST(Region, AnObjectMayHoldItsOwnRegion) {
    Counted counted;
    loam_region *region = nullptr;
    auto *object = static_cast<unsigned char *>(
        loam_region_create_object(&counted.source, nullptr, 500, &region));
    ASSERT_NE(object, nullptr);
    for (int i = 0; i < 500; i++) ASSERT_EQ(object[i], 0);
    memset(object, 1, 500);
    for (int i = 0; i < 1000; i++) memset(loam_region_alloc(region, 100), 2, 100);
    loam_region_reset(region);
    EXPECT_EQ(object[499], 1) << "it survives a reset";
    loam_region_destroy(region);
    EXPECT_EQ(loam_region_create_object(&counted.source, nullptr, PTRDIFF_MAX, &region), nullptr);
}

/* ---- Memory made ready ahead of use ---- */

struct Steps {
    loam_source source;
    std::vector<std::pair<char *, size_t>> calls;
    size_t given = SIZE_MAX; /* 0: nothing to gain */

    Steps() : source{get, put, "steps", 0} { source.ready = ready; }
    static void *get(loam_source *, size_t bytes, size_t align, size_t *got) {
        return loam_source_get(loam_pages(), bytes, align, got);
    }
    static void put(loam_source *, void *chunk, size_t got) {
        loam_source_put(loam_pages(), chunk, got);
    }
    static size_t ready(loam_source *source, void *at, size_t bytes) {
        auto *self = reinterpret_cast<Steps *>(source);
        self->calls.emplace_back(static_cast<char *>(at), bytes);
        return self->given == 0 ? 0 : bytes;
    }
};

TEST(Region, MemoryIsMadeReadyOnlyAheadOfUseAndByAFraction) {
    SKIP_UNLESS_PLAIN();
    Steps steps;
    Region region(&steps.source);
    size_t used = 0, made = 0, seen = 0;
    for (; used < (40u << 20); used += 64) {
        char *p = region.alloc(64);
        ASSERT_NE(p, nullptr);
        memset(p, 1, 64);
        for (; seen < steps.calls.size(); seen++) {
            auto [at, bytes] = steps.calls[seen];
            EXPECT_GE(used, 120u << 10) << "small regions are left alone";
            EXPECT_LE(bytes, 256u << 10);
            EXPECT_LE(bytes, used / 8 + (64u << 10));
            EXPECT_GT(p + 64, at) << "used at once";
            EXPECT_LT(p, at + bytes);
            made += bytes;
        }
    }
    EXPECT_GT(made, used * 9 / 10) << "nearly all of it";
    EXPECT_LT(made, used + (256u << 10));
    size_t calls = steps.calls.size();
    loam_region_reset(region);
    for (size_t again = 0; again < used / 2; again += 64) (void)region.alloc(64);
    EXPECT_LE(steps.calls.size(), calls + 64) << "what stayed is ready";
    EXPECT_EQ(region.alloc(0) == nullptr, false);
}

TEST(Region, ASourceWithNothingToGainIsAskedOncePerChunk) {
    SKIP_UNLESS_PLAIN();
    Steps steps;
    steps.given = 0;
    Region region(&steps.source);
    for (size_t used = 0; used < (40u << 20); used += 64) memset(region.alloc(64), 1, 64);
    EXPECT_LT(steps.calls.size(), 10u);
}

TEST(Region, TheLastObjectGrowsIntoWhatIsNotReadyYet) {
    SKIP_UNLESS_PLAIN();
    Steps steps;
    loam_region_options options = with_first(1 << 20);
    options.large_bytes = 1 << 20;
    Region region(&steps.source, options);
    size_t bytes = 16;
    char *p = region.alloc(bytes);
    while (bytes < 900000) {
        ASSERT_TRUE(loam_region_extend(region.region, p, bytes, bytes + 5000)) << bytes;
        bytes += 5000;
        memset(p, 1, bytes);
    }
    EXPECT_EQ(usage_of(region).chunks, 1u);
}

TEST(Region, PagesAreMadeReadyThroughWrappersAndKeepWhatTheyHold) {
    loam_limit limit;
    loam_count count;
    loam_limit_init(&limit, loam_pages(), 16 << 20);
    loam_count_init(&count, &limit.source);
    ASSERT_NE(count.source.ready, nullptr);
    size_t got = 0;
    auto *chunk = static_cast<char *>(loam_source_get(&count.source, 4 << 20, 16, &got));
    ASSERT_NE(chunk, nullptr);
    for (size_t at = 0; at < 300000; at++) chunk[at] = static_cast<char>(at % 251);
    size_t ready = count.source.ready(&count.source, chunk + 1000, 500000);
    EXPECT_TRUE(ready == 0 || ready >= 500000) << ready;
    for (size_t at = 0; at < 300000; at++) ASSERT_EQ(chunk[at], static_cast<char>(at % 251));
    loam_source_put(&count.source, chunk, got);
    loam_count_init(&count, loam_heap_source());
    EXPECT_EQ(count.source.ready, nullptr) << "what cannot does not say it can";
}

/* ---- More than 4 GiB ---- */

TEST(Region, SizesAboveFourGiB) {
    if (sizeof(size_t) < 8 || kWatched) GTEST_SKIP() << "too many addresses for this build";
    const size_t gib = size_t{1} << (sizeof(size_t) < 8 ? 20 : 30);
    loam_reserve reserve;
    if (loam_reserve_init(&reserve, 16 * gib) != 0) GTEST_SKIP() << "no 16 GiB of addresses";
    {
        Region region(&reserve.source);
        char *a = region.alloc(100);
        char *huge = region.alloc(5 * gib);
        if (huge == nullptr) GTEST_SKIP() << "the system promises no 5 GiB";
        huge[0] = 1, huge[5 * gib - 1] = 2;
        char *b = region.alloc(100);
        EXPECT_GE(b, huge + 5 * gib);
        *b = 3;
        EXPECT_GE(usage_of(region).used_bytes, 5 * gib);
        EXPECT_TRUE(loam_region_contains(region, huge + 4 * gib + 5));
        loam_region_free(region.region, b, 100);
        ASSERT_TRUE(loam_region_extend(region.region, huge, 5 * gib, 6 * gib));
        huge[6 * gib - 1] = 4;
        EXPECT_EQ(huge[5 * gib - 1], 2);
        EXPECT_TRUE(loam_region_check(region));
        loam_region_free(region.region, huge, 6 * gib);
        EXPECT_GT(region.alloc(16), a);
        loam_region_reset(region);
        loam_region_trim(region);
        EXPECT_LT(usage_of(region).held_bytes, gib);
    }
    loam_reserve_deinit(&reserve);
}

} // namespace

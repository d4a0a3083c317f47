// region_life_test.cc: the ends of a region's objects: marks, reset, trim, cleanups, children,
// scratch.
#include "loam/region.h"

#include "family/pool_sources.h"

#include <gtest/gtest.h>

#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

namespace {

std::string ended;

void end_a(void *) { ended += 'a'; }
void end_text(void *text) { ended += static_cast<const char *>(text); }

void *text(const char *of) { return const_cast<char *>(of); }

struct Region {
    loam_region *region;
    explicit Region(loam_source *source = nullptr, loam_region_options options = {})
        : region(loam_region_create(source, &options)) {
        ended.clear();
    }
    ~Region() {
        EXPECT_TRUE(loam_region_check(region));
        loam_region_destroy(region);
    }
    char *alloc(size_t bytes) { return static_cast<char *>(loam_region_alloc(region, bytes)); }
    size_t held() const { return usage().held_bytes; }
    loam_usage usage() const {
        loam_usage usage;
        loam_region_usage(region, &usage);
        return usage;
    }
};

/* ---- Marks ---- */

TEST(RegionLife, RewindingTakesBackWhatCameSince) {
    Counted counted;
    Region r(&counted.source);
    char *kept = r.alloc(100);
    memset(kept, 1, 100);
    loam_region_mark mark = loam_region_mark_here(r.region);
    char *first = r.alloc(40);
    for (int i = 0; i < 3000; i++) memset(r.alloc(100), 2, 100);
    memset(r.alloc(1 << 20), 3, 1 << 20);
    EXPECT_GT(counted.used_bytes, size_t{1} << 20);
    loam_region_rewind(r.region, &mark);
    EXPECT_TRUE(loam_region_check(r.region));
    EXPECT_LT(counted.used_bytes, size_t{1} << 20) << "large ones are gone";
    EXPECT_EQ(r.alloc(40), first);
    for (int i = 0; i < 100; i++) ASSERT_EQ(kept[i], 1);
    loam_region_trim(r.region);
    EXPECT_LE(counted.used_bytes, 8192u);
}

TEST(RegionLife, MarksNestAndMayBeKept) {
    Region r;
    loam_region_mark outer = loam_region_mark_here(r.region);
    char *a = r.alloc(16);
    loam_region_mark inner = loam_region_mark_here(r.region);
    char *b = r.alloc(16);
    loam_region_keep(r.region, &inner);
    char *c = r.alloc(16);
    EXPECT_TRUE(a < b && b < c);
    loam_region_free(r.region, c, 16);
    EXPECT_EQ(r.alloc(16), c) << "newer than the outer mark: as ever";
    loam_region_rewind(r.region, &outer);
    EXPECT_EQ(r.alloc(16), a);
}

/* Else the mark would stand above what is free. */
TEST(RegionLife, AnObjectOlderThanTheMarkMakesNoRoom) {
    Region r;
    char *old = r.alloc(200);
    loam_region_mark mark = loam_region_mark_here(r.region);
    loam_region_free(r.region, old, 200);
    char *p = r.alloc(16);
    EXPECT_FALSE(p >= old && p < old + 200) << "small ones come from the end";
    char *grown = static_cast<char *>(loam_region_realloc(r.region, p, 16, 30));
    EXPECT_EQ(grown, p);
    loam_region_rewind(r.region, &mark);
    EXPECT_TRUE(loam_region_check(r.region));
}

TEST(RegionLife, AMarkBeforeTheFirstObject) {
    Counted counted;
    loam_region region;
    ASSERT_EQ(loam_region_init(&region, &counted.source, nullptr), 0);
    loam_region_mark mark = loam_region_mark_here(&region);
    for (int i = 0; i < 500; i++) (void)loam_region_alloc(&region, 100);
    loam_region_rewind(&region, &mark);
    EXPECT_TRUE(loam_region_check(&region));
    EXPECT_NE(loam_region_alloc(&region, 100), nullptr);
    loam_region_deinit(&region);
}

TEST(RegionLife, FreedArraysBeforeAMarkServeAgainAfterIt) {
    Region r;
    char *array = r.alloc(2000), *wall = r.alloc(16);
    loam_region_free(r.region, array, 2000);
    loam_region_mark mark = loam_region_mark_here(r.region);
    for (int i = 0; i < 200; i++) memset(r.alloc(300), 1, 300);
    loam_region_rewind(r.region, &mark);
    EXPECT_TRUE(loam_region_check(r.region));
    for (int i = 0; i < 200; i++) memset(r.alloc(300), 2, 300);
    *wall = 1;
}

/* The mark's floor is that of an empty chunk then. */
TEST(RegionLife, AMarkBehindAnObjectOfOneByteThatIsTheFirst) {
    Region r;
    char *p = static_cast<char *>(loam_region_alloc_packed(r.region, 1));
    loam_region_mark mark = loam_region_mark_here(r.region);
    loam_region_free_aligned(r.region, p, 1, 1);
    ASSERT_TRUE(loam_region_check(r.region));
    for (int i = 0; i < 10; i++) memset(r.alloc(100), 1, 100);
    loam_region_rewind(r.region, &mark);
    EXPECT_TRUE(loam_region_check(r.region));
    memset(r.alloc(100), 2, 100);
    EXPECT_TRUE(loam_region_check(r.region));
}

/* Pieces of odd sizes end anywhere: what is left ends at a multiple of 16 that is not in front of
 * `at`. */
TEST(RegionLife, TrimmingLeavesAnEndBehindPackedObjects) {
    std::vector<char> memory(1 << 16);
    for (size_t last = 0; last < 32; last++) {
        loam_buffer buffer;
        loam_buffer_init(&buffer, memory.data(), memory.size());
        Region r(&buffer.source, {1001, 0, 0, 0, 0, LOAM_GROWTH_FIXED, 0, nullptr});
        loam_usage before, now;
        loam_region_usage(r.region, &before);
        do {
            ASSERT_NE(loam_region_alloc_packed(r.region, 1), nullptr);
            loam_region_usage(r.region, &now);
        } while (now.held_bytes == before.held_bytes);
        for (size_t i = 0; i < last; i++) ASSERT_NE(loam_region_alloc_packed(r.region, 1), nullptr);
        loam_region_trim(r.region);
        ASSERT_TRUE(loam_region_check(r.region)) << last;
        memset(loam_region_alloc(r.region, last + 1), 1, last + 1);
        ASSERT_TRUE(loam_region_check(r.region)) << last;
    }
}

/* ---- Cleanups ---- */

TEST(RegionLife, CleanupsRunNewestFirst) {
    {
        Region r;
        ASSERT_NE(loam_region_add_cleanup(r.region, end_text, text("1")), nullptr);
        ASSERT_NE(loam_region_add_cleanup(r.region, end_a, nullptr), nullptr);
        ASSERT_NE(loam_region_add_cleanup(r.region, end_text, text("3")), nullptr);
        EXPECT_EQ(ended, "");
    }
    EXPECT_EQ(ended, "3a1");
}

TEST(RegionLife, CleanupsRunOnceAtResetAndAtRewindingIfNewer) {
    Region r;
    (void)!loam_region_add_cleanup(r.region, end_text, text("old"));
    loam_region_mark mark = loam_region_mark_here(r.region);
    (void)!loam_region_add_cleanup(r.region, end_text, text("new "));
    loam_region_rewind(r.region, &mark);
    EXPECT_EQ(ended, "new ");
    loam_region_reset(r.region);
    EXPECT_EQ(ended, "new old");
    loam_region_reset(r.region);
    EXPECT_EQ(ended, "new old");
}

TEST(RegionLife, CleanupsAreTakenBackAndTheirMemoryServesAgain) {
    Region r;
    for (int round = 0; round < 10000; round++) {
        loam_region_cleanup *a = loam_region_add_cleanup(r.region, end_a, nullptr);
        loam_region_cleanup *b = loam_region_add_cleanup(r.region, end_text, text("b"));
        ASSERT_TRUE(a != nullptr && b != nullptr);
        loam_region_remove_cleanup(r.region, a, false);
        ended.clear();
        loam_region_remove_cleanup(r.region, b, true);
        ASSERT_EQ(ended, "b");
    }
    EXPECT_LT(r.held(), 20000u);
    EXPECT_TRUE(loam_region_check(r.region));
    ended.clear();
    loam_region_reset(r.region);
    EXPECT_EQ(ended, "");
}

TEST(RegionLife, AFileIsClosedWithTheRegion) {
    int fd = open("/dev/null", O_RDONLY), other = open("/dev/null", O_RDONLY);
    {
        Region r;
        ASSERT_NE(loam_region_close_fd(r.region, fd), nullptr);
        loam_region_cleanup *early = loam_region_close_fd(r.region, other);
        loam_region_remove_cleanup(r.region, early, true);
        EXPECT_EQ(fcntl(other, F_GETFD), -1);
        EXPECT_NE(fcntl(fd, F_GETFD), -1);
    }
    EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

/* ---- Children ---- */

TEST(RegionLife, ChildrenEndWithTheirParentOrBefore) {
    Counted counted;
    {
        Region r(&counted.source);
        loam_region *a = loam_region_create_child(r.region, nullptr);
        loam_region *b = loam_region_create_child(r.region, nullptr);
        loam_region *grand = loam_region_create_child(b, nullptr);
        ASSERT_TRUE(a != nullptr && b != nullptr && grand != nullptr);
        (void)!loam_region_add_cleanup(a, end_text, text("a"));
        (void)!loam_region_add_cleanup(b, end_text, text("b"));
        (void)!loam_region_add_cleanup(grand, end_text, text("g"));
        (void)loam_region_alloc(grand, 100000);
        loam_region_destroy(a);
        EXPECT_EQ(ended, "a");
        EXPECT_TRUE(loam_region_check(r.region));
    }
    EXPECT_EQ(ended, "abg") << "b's cleanup is newer than b's child";
}

TEST(RegionLife, AChildNewerThanTheMarkEndsWithRewinding) {
    Counted counted;
    Region r(&counted.source);
    loam_region *older = loam_region_create_child(r.region, nullptr);
    loam_region_mark mark = loam_region_mark_here(r.region);
    size_t gets = counted.gets - counted.puts;
    loam_region *newer = loam_region_create_child(r.region, nullptr);
    (void)!loam_region_add_cleanup(newer, end_text, text("n"));
    loam_region_rewind(r.region, &mark);
    EXPECT_EQ(ended, "n");
    EXPECT_EQ(counted.gets - counted.puts, gets);
    EXPECT_NE(loam_region_alloc(older, 10), nullptr);
}

TEST(RegionLife, AChildWithoutMemoryLeavesNothing) {
    for (size_t most = 0; most < 40000; most += 500) {
        Counted counted;
        loam_limit limit;
        loam_limit_init(&limit, &counted.source, most);
        loam_region *parent = loam_region_create(&limit.source, nullptr);
        if (parent == nullptr) continue;
        (void)!loam_region_alloc(parent, 3000); /* leaves little */
        loam_region *child = loam_region_create_child(parent, nullptr);
        if (child != nullptr) (void)!loam_region_alloc(child, 5000);
        EXPECT_TRUE(loam_region_check(parent));
        loam_region_destroy(parent);
    }
}

/* ---- Reset and trim ---- */

void use(Region &r, size_t bytes) {
    for (size_t used = 0; used < bytes; used += 1000) memset(r.alloc(1000), 1, 1000);
}

TEST(RegionLife, ResetKeepsWhatRecentRoundsNeededAndLessWithTime) {
    Counted counted;
    Region r(&counted.source);
    for (int i = 0; i < 3; i++) use(r, 1 << 20), loam_region_reset(r.region);
    size_t gets = counted.gets;
    use(r, 1 << 20);
    EXPECT_EQ(counted.gets, gets) << "the same again needs nothing new";
    loam_region_reset(r.region);
    EXPECT_GT(r.held(), size_t{1} << 20);
    for (int i = 0; i < 30; i++) use(r, 4000), loam_region_reset(r.region);
    EXPECT_LT(r.held(), size_t{200} << 10) << "small rounds let it go";
    EXPECT_TRUE(loam_region_check(r.region));
}

TEST(RegionLife, KeepBytesIsKept) {
    Counted counted;
    loam_region_options options = {};
    options.keep_bytes = 1 << 19;
    Region r(&counted.source, options);
    use(r, 1 << 21);
    for (int i = 0; i < 40; i++) use(r, 4000), loam_region_reset(r.region);
    EXPECT_GT(r.held(), size_t{1} << 17);
    EXPECT_LT(r.held(), size_t{1} << 20);
    EXPECT_GT(loam_region_trim(r.region), size_t{1} << 17) << "trim keeps nothing";
    EXPECT_LE(r.held(), 4096u);
}

TEST(RegionLife, TheNumbersAreThoseOfTheSource) {
    Counted counted;
    Region r(&counted.source);
    use(r, 300000);
    (void)r.alloc(100000);
    loam_usage usage = r.usage();
    EXPECT_STREQ(usage.kind, "region");
    EXPECT_EQ(usage.held_bytes, counted.used_bytes);
    EXPECT_EQ(usage.requests, counted.gets);
    EXPECT_EQ(usage.chunks, counted.gets - counted.puts);
    EXPECT_GE(usage.used_bytes, 400000u);
    EXPECT_LE(usage.used_bytes, usage.held_bytes);
    loam_region_reset(r.region);
    EXPECT_EQ(r.usage().held_bytes, counted.used_bytes);
    EXPECT_EQ(r.usage().peak_bytes, usage.peak_bytes);
}

/* ---- Over a source whose chunks follow each other ---- */

TEST(RegionLife, OverAReserveTheLastObjectGrowsInPlace) {
    loam_reserve reserve;
    ASSERT_EQ(loam_reserve_init(&reserve, size_t{256} << 20), 0);
    {
        Region r(&reserve.source);
        size_t bytes = 100;
        char *p = r.alloc(bytes), *at = p;
        while (bytes < size_t{50} << 20) {
            p = static_cast<char *>(loam_region_realloc(r.region, p, bytes, bytes * 2));
            ASSERT_EQ(p, at);
            p[bytes * 2 - 1] = 1;
            bytes *= 2;
        }
        EXPECT_EQ(r.usage().chunks, 1u);
        loam_region_reset(r.region);
        for (int i = 0; i < 40; i++) (void)r.alloc(100), loam_region_reset(r.region);
        EXPECT_LT(r.held(), size_t{10} << 20) << "given back from the end";
    }
    EXPECT_EQ(reserve.at, reserve.start);
    loam_reserve_deinit(&reserve);
}

TEST(RegionLife, InABufferNothingElseIsAsked) {
    alignas(16) static char memory[16384];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof memory);
    loam_region *region = loam_region_create(&buffer.source, nullptr);
    ASSERT_NE(region, nullptr);
    size_t count = 0;
    while (void *p = loam_region_alloc(region, 100)) memset(p, 1, 100), count++;
    EXPECT_GT(count, 40u);
    EXPECT_TRUE(loam_region_check(region));
    loam_region_reset(region);
    EXPECT_NE(loam_region_alloc(region, 100), nullptr);
    loam_region_destroy(region);
    EXPECT_EQ(buffer.at, buffer.start);
}

/* ---- Scratch ---- */

TEST(RegionLife, ScratchIsOneOfTwoAndEmptyAgainAtItsEnd) {
    loam_scratch a = loam_scratch_begin(nullptr);
    loam_scratch b = loam_scratch_begin(a.region);
    EXPECT_NE(a.region, b.region);
    loam_scratch c = loam_scratch_begin(b.region);
    EXPECT_EQ(c.region, a.region);
    void *p = loam_region_alloc(c.region, 64);
    loam_scratch_end(&c);
    EXPECT_EQ(loam_region_alloc(a.region, 64), p);
    loam_scratch_end(&b);
    loam_scratch_end(&a);
    std::thread([&] {
        loam_scratch other = loam_scratch_begin(nullptr);
        EXPECT_NE(other.region, a.region);
        EXPECT_NE(other.region, b.region);
        loam_scratch_end(&other);
    }).join();
}

// ---- Another parent ----

TEST(RegionLife, AChildMovesToAnotherParent) {
    Region first, second;
    loam_region *child = loam_region_create_child(first.region, nullptr);
    ASSERT_NE(child, nullptr);
    void *p = loam_region_alloc(child, 100);
    memset(p, 5, 100);
    (void)!loam_region_add_cleanup(child, end_text, text("child "));
    ASSERT_EQ(loam_region_set_parent(child, second.region), 0);
    loam_region_reset(first.region);
    EXPECT_EQ(ended, "") << "it lives on";
    EXPECT_EQ(static_cast<char *>(p)[99], 5);
    EXPECT_NE(loam_region_alloc(child, 100000), nullptr);
    loam_region_reset(second.region);
    EXPECT_EQ(ended, "child ");
    EXPECT_TRUE(loam_region_check(first.region));
}

TEST(RegionLife, AChildMayHaveNoParentAndGetOne) {
    Region parent;
    loam_region *alone = loam_region_create(nullptr, nullptr);
    (void)!loam_region_add_cleanup(alone, end_text, text("alone "));
    ASSERT_EQ(loam_region_set_parent(alone, parent.region), 0);
    ASSERT_EQ(loam_region_set_parent(alone, nullptr), 0);
    loam_region_reset(parent.region);
    EXPECT_EQ(ended, "");
    ASSERT_EQ(loam_region_set_parent(alone, parent.region), 0);
    ASSERT_EQ(loam_region_set_parent(alone, parent.region), 0) << "the one that it has";
    loam_region_reset(parent.region);
    EXPECT_EQ(ended, "alone ");
}

TEST(RegionLife, AMoveIsNewerThanAMarkFromBefore) {
    Region first, second;
    loam_region *child = loam_region_create_child(first.region, nullptr);
    (void)!loam_region_add_cleanup(child, end_text, text("child "));
    loam_region_mark mark = loam_region_mark_here(second.region);
    ASSERT_EQ(loam_region_set_parent(child, second.region), 0);
    loam_region_rewind(second.region, &mark);
    EXPECT_EQ(ended, "child ");
}

TEST(RegionLife, NoRegionGetsBelowItself) {
    Region top;
    loam_region *child = loam_region_create_child(top.region, nullptr);
    loam_region *grandchild = loam_region_create_child(child, nullptr);
    EXPECT_EQ(loam_region_set_parent(child, child), -EINVAL);
    EXPECT_EQ(loam_region_set_parent(child, grandchild), -EINVAL);
    EXPECT_EQ(loam_region_set_parent(top.region, grandchild), -EINVAL);
    EXPECT_EQ(loam_region_set_parent(grandchild, top.region), 0);
    EXPECT_EQ(loam_region_set_parent(child, grandchild), 0);
    loam_region in_place;
    ASSERT_EQ(loam_region_init(&in_place, nullptr, nullptr), 0);
    EXPECT_EQ(loam_region_set_parent(&in_place, top.region), -EINVAL);
    loam_region_deinit(&in_place);
}

TEST(RegionLife, AMoveWithoutMemoryChangesNothing) {
    loam_limit limit;
    loam_limit_init(&limit, loam_pages(), 4096);
    Region first, full(&limit.source);
    while (loam_region_alloc(full.region, 16) != nullptr) continue;
    loam_region *child = loam_region_create_child(first.region, nullptr);
    (void)!loam_region_add_cleanup(child, end_text, text("child "));
    EXPECT_EQ(loam_region_set_parent(child, full.region), -ENOMEM);
    loam_region_reset(first.region);
    EXPECT_EQ(ended, "child ");
}

// ---- Formatted strings that grow ----

TEST(RegionLife, TextIsAppended) {
    Region region;
    std::string model;
    size_t length = 0;
    char *with = nullptr, *without = nullptr;
    for (int i = 0; i < 2000; i++) {
        with = loam_region_appendf(region.region, with, &length, "%d,", i);
        if (i % 7 == 0) without = loam_region_appendf(region.region, without, nullptr, "%d,", i);
        ASSERT_NE(with, nullptr);
        model += std::to_string(i) + ",";
        ASSERT_EQ(length, model.size());
    }
    EXPECT_EQ(with, model);
    EXPECT_EQ(std::string(without).substr(0, 8), "0,7,14,2");
    std::string large(3000, 'x');
    with = loam_region_appendf(region.region, with, &length, "%s", large.c_str());
    EXPECT_EQ(with, model + large);
    char *copy = loam_region_strdup(region.region, "abc");
    (void)!loam_region_alloc(region.region, 10);
    EXPECT_STREQ(loam_region_appendf(region.region, copy, nullptr, "%s%c", "def", 'g'), "abcdefg");
}

TEST(RegionLife, TextThatIsTheLastObjectGrowsInPlace) {
    Region region;
    (void)region.alloc(16);
    char *text = loam_region_sprintf(region.region, "%s", "begin");
    char *longer = loam_region_appendf(region.region, text, nullptr, " and %s", "end");
    EXPECT_EQ(longer, text);
    EXPECT_STREQ(longer, "begin and end");
}

TEST(RegionLife, TextStaysWhereThereIsNoMemory) {
    loam_limit limit;
    loam_limit_init(&limit, loam_pages(), 4096);
    Region region(&limit.source);
    size_t length = 3;
    char *text = loam_region_strdup(region.region, "abc");
    std::string large(8000, 'x');
    EXPECT_EQ(loam_region_appendf(region.region, text, &length, "%s", large.c_str()), nullptr);
    EXPECT_STREQ(text, "abc");
    EXPECT_EQ(length, 3u);
}

} // namespace

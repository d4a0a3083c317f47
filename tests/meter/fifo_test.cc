/* fifo_test.cc: what a metered library counts of FIFOs. */
#include "meter.h"

#include "loam/fifo.hpp"

#include <thread>

namespace {

using namespace metered;

struct Fifo {
    explicit Fifo(unsigned flags, loam_source *source = nullptr) {
        loam_fifo_options options = {};
        options.flags = flags;
        options.name = own_name();
        EXPECT_EQ(loam_fifo_init(&fifo, source, &options), 0);
    }
    ~Fifo() { loam_fifo_deinit(&fifo); }
    loam_meter_stats stats() { return stats_of("fifo", own_name()); }
    loam_fifo fifo;
};

TEST(Fifos, AreCounted) {
    Counted counted;
    {
        Fifo own(0, counted.source());
        loam_fifo *fifo = &own.fifo;
        void *a = loam_fifo_alloc(fifo, 100), *b = loam_fifo_alloc_aligned(fifo, 50, 8);
        void *c = loam_fifo_calloc(fifo, 3, 7);
        EXPECT_EQ(loam_fifo_realloc_aligned(fifo, c, 21, 15, 16), c);
        int *d = LOAM_FIFO_NEW(fifo, int);
        loam_meter_stats stats = own.stats();
        EXPECT_EQ(stats.allocators, 1u);
        EXPECT_EQ(stats.of[kAlloc].calls, 4u);
        EXPECT_EQ(stats.of[kRealloc].calls, 1u);
        EXPECT_EQ(stats.requested, 100u + 50 + 21 + 15 + 4);
        EXPECT_EQ(stats.used, 100u + 50 + 15 + 4);
        EXPECT_EQ(stats.used_most, 100u + 50 + 21);
        EXPECT_EQ(stats.held, counted.count.used_bytes);
        EXPECT_EQ(stats.requests, counted.count.gets);
        loam_fifo_free(fifo, a), loam_fifo_free(fifo, c), loam_fifo_free(fifo, nullptr);
        EXPECT_EQ(own.stats().used, 169u) << "its page has live objects";
        loam_fifo_free(fifo, b), loam_fifo_free(fifo, d);
        EXPECT_EQ(own.stats().of[kFree].calls, 5u);
        EXPECT_EQ(own.stats().used, 0u);
        (void)!loam_fifo_alloc(fifo, 10);
        EXPECT_EQ(own.stats().used, 10u);
    }
    loam_meter_stats stats = stats_of("fifo", own_name());
    EXPECT_EQ(stats.allocators, 0u);
    EXPECT_EQ(stats.used, 0u);
    EXPECT_EQ(stats.held, 0u);
    EXPECT_EQ(stats.of[kAlloc].calls, 5u) << "what was counted stays";
}

TEST(Fifos, UsedIsThatOfPagesWithObjects) {
    Counted counted;
    Fifo own(0, counted.source());
    std::vector<void *> objects;
    for (int i = 0; i < 5000; i++) {
        objects.push_back(loam_fifo_alloc(&own.fifo, 100));
        ASSERT_EQ(own.stats().used, objects.size() * 100);
    }
    objects.push_back(loam_fifo_alloc(&own.fifo, 200000)); /* a page of its own */
    EXPECT_EQ(own.stats().used, 700000u);
    size_t used = 700000, steps = 0;
    for (void *p : objects) {
        loam_fifo_free(&own.fifo, p);
        ASSERT_LE(own.stats().used, used);
        steps += own.stats().used != used;
        used = own.stats().used;
        ASSERT_EQ(own.stats().held, counted.count.used_bytes);
    }
    EXPECT_EQ(used, 0u);
    EXPECT_GT(steps, 6u);
    EXPECT_LT(steps, 50u);
    for (int i = 0; i < 10000; i++) { /* a queue that is often empty */
        void *p = loam_fifo_alloc(&own.fifo, 1000);
        ASSERT_EQ(own.stats().used, 1000u) << i;
        loam_fifo_free(&own.fifo, p);
        ASSERT_EQ(own.stats().used, 0u) << i;
    }
    EXPECT_TRUE(loam_fifo_check(&own.fifo));
}

TEST(Fifos, ResizedObjectsCountOnceInTheirPage) {
    Fifo own(0);
    void *p = nullptr, *q = nullptr;
    for (size_t bytes = 10; bytes < 300000; bytes *= 2) {
        p = loam_fifo_realloc(&own.fifo, p, bytes == 10 ? 0 : bytes / 2, bytes);
        ASSERT_NE(p, nullptr);
        loam_fifo_free(&own.fifo, q);
        q = loam_fifo_alloc(&own.fifo, 1); /* so that the next one moves */
        ASSERT_GE(own.stats().used, bytes + 1);
    }
    EXPECT_EQ(loam_fifo_realloc(&own.fifo, p, 163840, SIZE_MAX), nullptr);
    EXPECT_EQ(own.stats().of[kRealloc].failed, 1u);
    loam_fifo_free(&own.fifo, q);
    loam_fifo_free(&own.fifo, p);
    EXPECT_EQ(own.stats().used, 0u);
}

TEST(Fifos, SlowCallsAreThoseThatTheSourceSawWhereNothingIsZeroed) {
    Counted counted;
    Fifo own(LOAM_FIFO_RAW, counted.source());
    size_t slow = 0, gets = 0;
    for (int i = 0; i < 5000; i++) {
        ASSERT_NE(loam_fifo_alloc(&own.fifo, 200), nullptr);
        slow += counted.count.gets != gets;
        gets = counted.count.gets;
        ASSERT_EQ(own.stats().of[kAlloc].slow, slow) << i;
        ASSERT_EQ(own.stats().requests, gets);
    }
    EXPECT_GT(slow, 10u);
    void *large = loam_fifo_alloc(&own.fifo, 3 << 20);
    EXPECT_EQ(own.stats().of[kAlloc].slow, slow + 1);
    loam_fifo_free(&own.fifo, large);
    EXPECT_EQ(own.stats().of[kFree].slow, 1u) << "too large to be kept";
    EXPECT_EQ(own.stats().held, counted.count.used_bytes);
}

#ifndef LOAM_DEBUG /* a checked one zeroes object by object */
TEST(Fifos, CleaningAStepOfAPageIsSlow) {
    Counted counted;
    Fifo own(0, counted.source());
    for (int i = 0; i < 1000; i++) (void)!loam_fifo_alloc(&own.fifo, 64);
    loam_meter_stats stats = own.stats();
    if (own.fifo.floor == 0) { /* nor where a tool watches */
        EXPECT_GE(stats.of[kAlloc].slow, 7u) << "64,000 bytes by 8 KiB";
        EXPECT_LE(stats.of[kAlloc].slow, 10u);
        EXPECT_EQ(counted.count.gets, 1u);
    }
}
#endif

TEST(Fifos, FreesByOthersCountWhenTheyAreTaken) {
    Fifo own(LOAM_FIFO_REMOTE);
    std::vector<void *> objects;
    for (int i = 0; i < 3000; i++) objects.push_back(loam_fifo_alloc(&own.fifo, 100));
    std::thread([&] {
        for (void *p : objects) loam_fifo_free_remote(&own.fifo, p);
    }).join();
    EXPECT_EQ(own.stats().of[kFree].calls, 0u);
    loam_fifo_collect(&own.fifo);
    EXPECT_EQ(own.stats().of[kFree].calls, 3000u);
    EXPECT_EQ(own.stats().of[kFree].timed, 0u);
    EXPECT_EQ(own.stats().used, 0u);
}

TEST(Fifos, OneThatOutlivesItsDestroy) {
    Counted counted;
    for (unsigned flags : {0u, unsigned{LOAM_FIFO_REMOTE}}) {
        loam_fifo_options options = {};
        options.flags = flags;
        options.name = own_name();
        loam_fifo *fifo = loam_fifo_create(counted.source(), &options);
        EXPECT_EQ(stats_of("fifo", own_name()).held, counted.count.used_bytes);
        void *p = loam_fifo_alloc(fifo, 100), *q = loam_fifo_alloc(fifo, 100000);
        loam_fifo_destroy(fifo);
        EXPECT_EQ(stats_of("fifo", own_name()).used, 100100u);
        EXPECT_EQ(stats_of("fifo", own_name()).held, counted.count.used_bytes);
        loam_fifo_free(fifo, q);
        EXPECT_EQ(stats_of("fifo", own_name()).used, 100u);
        loam_fifo_free(fifo, p);
        loam_meter_stats stats = stats_of("fifo", own_name());
        EXPECT_EQ(stats.used, 0u);
        EXPECT_EQ(stats.held, 0u);
        EXPECT_EQ(stats.allocators, 0u);
        EXPECT_EQ(stats.of[kFree].calls, 0u);
        EXPECT_EQ(counted.count.used_bytes, 0u);
    }
}

TEST(Fifos, ByHandleAndInCpp) {
    Fifo own(0);
    loam_alloc alloc = loam_fifo_as_alloc(&own.fifo);
    void *p = loam_alloc_alloc(alloc, 100, 8);
    p = loam_alloc_realloc(alloc, p, 100, 200, 8);
    EXPECT_EQ(own.stats().used, 200u);
    loam_alloc_free(alloc, p, 200, 8);
    EXPECT_EQ(own.stats().used, 0u);
    EXPECT_EQ(own.stats().of[kRealloc].calls, 1u);
    {
        loam_fifo_options options = {};
        options.name = own_name();
        loam::fifo fifo(options);
        long *five = fifo.make<long>(5);
        EXPECT_EQ(own.stats().used, sizeof(long));
        EXPECT_EQ(own.stats().of[kAlloc].calls, 2u);
        fifo.destroy(five);
        EXPECT_EQ(own.stats().used, 0u);
    }
    EXPECT_EQ(own.stats().allocators, 1u);
}

/* From here on as in a file of level 0. */
#undef loam_fifo_free_at

TEST(Fifos, WhatIsFreedUnseenLeavesWithItsPage) {
    Fifo own(0);
    for (int i = 0; i < 1000; i++) {
        void *p = loam_fifo_alloc(&own.fifo, 1000);
        ASSERT_LE(own.stats().used, 65536u) << i;
        loam_fifo_free(&own.fifo, p);
    }
    EXPECT_GT(loam_fifo_trim(&own.fifo), 0u);
    EXPECT_EQ(own.stats().used, 0u);
    EXPECT_EQ(own.stats().of[kFree].calls, 0u);
}

} // namespace

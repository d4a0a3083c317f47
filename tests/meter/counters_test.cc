/* counters_test.cc: level 1: counts as level 2, without time. */
#undef LOAM_METER
#define LOAM_METER 1
#include "loam/loam.h"

#include <gtest/gtest.h>

namespace {

TEST(Counters, CountAndDoNotTime) {
    loam_region_options options = {};
    options.name = "counters";
    loam_region *region = loam_region_create(nullptr, &options);
    for (int i = 0; i < 1000; i++) {
        void *p = loam_region_alloc(region, 100);
        if (i % 2 == 0) loam_region_free(region, p, 100);
    }
    loam_meter_stats stats;
    ASSERT_TRUE(loam_meter_read("region", "counters", &stats));
    EXPECT_EQ(stats.of[LOAM_METER_ALLOC].calls, 1000u);
    EXPECT_EQ(stats.of[LOAM_METER_FREE].calls, 500u);
    EXPECT_EQ(stats.used, 50000u);
    EXPECT_EQ(stats.of[LOAM_METER_ALLOC].timed, 0u);
    EXPECT_EQ(stats.of[LOAM_METER_ALLOC].ns, 0u);
    EXPECT_GT(stats.of[LOAM_METER_ALLOC].slow, 0u);
    loam_region_destroy(region);
}

} // namespace

// region_check_test.cc: what a checked region must not report: correct programs. A report ends the
// test. (Mistakes are in region_misuse_test.cc, random programs in region_model_test.cc.)
#include "loam/region.h"

#include <gtest/gtest.h>

#include <cstring>

namespace {

class RegionCheck : public testing::Test {
  protected:
    RegionCheck() {
        loam_region_options options = {};
        options.flags = LOAM_CHECK;
        options.keep_bytes = 1 << 20;
        region_ = loam_region_create(nullptr, &options);
    }
    ~RegionCheck() override {
        EXPECT_TRUE(loam_region_check(region_));
        loam_region_destroy(region_);
    }
    void alloc_many(size_t count) {
        for (size_t i = 0; i < count; i++) memset(loam_region_alloc(region_, 16), 1, 16);
    }
    void fill_chunk() {
        for (size_t turns = region_->turns; region_->turns == turns;) alloc_many(1);
    }
    void add_and_remove_cleanup() {
        loam_region_cleanup *cleanup = loam_region_add_cleanup(region_, nothing, nullptr);
        ASSERT_NE(cleanup, nullptr);
        loam_region_remove_cleanup(region_, cleanup, false);
    }
    static void nothing(void *) {}

    loam_region *region_;
};

/* The list of removed cleanups lies among objects: it must not shift those behind it. */
TEST_F(RegionCheck, ARemovedCleanupLeavesObjectsAtMultiplesOf16) {
    ASSERT_NE(loam_region_add_cleanup(region_, nothing, nullptr), nullptr);
    alloc_many(200);
    loam_region_reset(region_);
    add_and_remove_cleanup();
    alloc_many(200);
    EXPECT_TRUE(loam_region_check(region_));
}

/* Trimming makes no freed extents: the links of one would lie in memory that is watched. */
TEST_F(RegionCheck, TrimmingDoesNotWriteToMemoryOfEndedObjects) {
    loam_region_mark mark = loam_region_mark_here(region_);
    ASSERT_NE(loam_region_add_cleanup(region_, nothing, nullptr), nullptr);
    fill_chunk();
    loam_region_rewind(region_, &mark);
    /* The first chunk has too little room left for this. */
    memset(loam_region_alloc(region_, 5000), 1, 5000);
    add_and_remove_cleanup();
    loam_region_trim(region_);
    EXPECT_TRUE(loam_region_check(region_));
    loam_region_reset(region_);
    alloc_many(500);
    EXPECT_TRUE(loam_region_check(region_));
}

/* The list of removed cleanups lies in one of the chunks that go. */
TEST_F(RegionCheck, RewindingOverChunksDoesNotReadAListThatHasEnded) {
    loam_region_mark mark = loam_region_mark_here(region_);
    fill_chunk();
    fill_chunk();
    add_and_remove_cleanup();
    loam_region_rewind(region_, &mark);
    EXPECT_TRUE(loam_region_check(region_));
    fill_chunk();
}

} // namespace

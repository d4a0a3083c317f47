/* clear_test.cc: a large object is made zero, and parts of which little is resident do not become
 * resident. */
#include "bytes.h"
#include "heap_unit.h"
#include "own_mapping.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

/* Memory that nobody else has, of which every page, or one in `every`, was written. It begins
 * within a page of the system's. */
class Written {
  public:
    Written(size_t bytes, size_t every) : bytes_(bytes) {
        EXPECT_NE(nullptr, mapping_ = unit::own_mapping(whole()));
        lm_os_no_huge_pages(mapping_, whole());
        for (size_t at = 0; at < bytes; at += every * lm_os_page_bytes()) start()[at] = 0x5a;
    }
    ~Written() { munmap(mapping_, whole()); }
    Written(const Written &) = delete;
    Written &operator=(const Written &) = delete;

    char *start() { return mapping_ + kWithin; }
    size_t pages() const { return whole() / lm_os_page_bytes(); }
    /* Not by loam's own question, which some tests forbid. */
    size_t in_memory() {
        std::vector<unsigned char> each(pages());
        if (mincore(mapping_, whole(), each.data()) != 0) return SIZE_MAX;
        return static_cast<size_t>(
            std::count_if(each.begin(), each.end(), [](unsigned char page) { return page & 1; }));
    }
    /* How many pages are in memory once it was cleared. Whether it is zero is looked at last: that
     * may bring the rest there. */
    size_t cleared() {
        EXPECT_EQ(start(), lm_clear_large(start(), bytes_));
        size_t left = in_memory();
        EXPECT_EQ(bytes_, first_other(start(), bytes_, 0)) << "the first byte that is not zero";
        return left;
    }

  private:
    static constexpr size_t kWithin = 48;
    size_t whole() const { return lm_align_up(bytes_ + kWithin, lm_os_page_bytes()); }
    size_t bytes_;
    char *mapping_ = nullptr;
};

class Clear : public unit::PausedWorkerTest {
  protected:
    void SetUp() override {
        unit::PausedWorkerTest::SetUp();
        if (Written(kMiB, 1 << 20).in_memory() != 1)
            GTEST_SKIP() << "this system does not say what is in memory";
        for (int i = 0; i < 16; i++) (void)Written(512 * kKiB, 16).cleared(); /* ask about each */
    }
};

TEST_F(Clear, WhatIsHardlyInMemoryIsNotBroughtThere) {
    for (size_t bytes : {256 * kKiB, 260 * kKiB + 1, 700 * kKiB, kMiB, 3 * kMiB + 77, 9 * kMiB}) {
        for (size_t every : {4, 10, 1000}) {
            Written object(bytes, every);
            EXPECT_LE(object.cleared(), 2u) << bytes << " bytes, one page in " << every;
        }
    }
}

TEST_F(Clear, WhatIsInMemoryStaysThere) {
    for (size_t bytes : {256 * kKiB, 700 * kKiB + 1, kMiB, 5 * kMiB}) {
        Written object(bytes, 1);
        EXPECT_EQ(object.pages(), object.cleared()) << bytes;
    }
}

/* A part of 2 MiB for itself. */
TEST_F(Clear, OfALargeOneThePartsThatAre) {
    Written object(8 * kMiB, 1 << 20);
    memset(object.start() + 4 * kMiB, 1, 2 * kMiB);
    EXPECT_NEAR(2.0 * kMiB / (double)lm_os_page_bytes(), (double)object.cleared(), 2.0);
}

TEST_F(Clear, LittleIsWrittenAtOnce) {
    Written object(255 * kKiB, 16);
    EXPECT_EQ(object.pages(), object.cleared());
}

TEST_F(Clear, AProgramThatHasShutItselfInIsNotAskedAbout) {
    lm_purge_allow(false);
    Written object(2 * kMiB, 16);
    EXPECT_EQ(object.pages(), object.cleared());
}

/* To ask takes a quarter of the time of a memset: after objects that were in memory it is done
 * seldom, and not given up. */
TEST_F(Clear, AfterManyThatWereInMemoryOneThatIsNotIsFound) {
    for (size_t many : {0, 1, 4, 7, 8, 50, 1000}) {
        for (size_t i = 0; i < many; i++) (void)Written(256 * kKiB, 1).cleared();
        size_t brought = 0;
        for (; brought < 20; brought++) {
            Written object(512 * kKiB, 16);
            if (object.cleared() < object.pages()) break;
        }
        EXPECT_LT(brought, 8u) << "after " << many;
        Written next(900 * kKiB, 16);
        EXPECT_LE(next.cleared(), 2u) << "each one is asked about again";
    }
}

/* What is larger has an answer of its own, whatever came before. */
TEST_F(Clear, LargeOnesAreAlwaysAskedAbout) {
    for (int i = 0; i < 100; i++) (void)Written(256 * kKiB, 1).cleared();
    for (int i = 0; i < 10; i++) EXPECT_LE(Written(kMiB, 16).cleared(), 2u);
}

} // namespace

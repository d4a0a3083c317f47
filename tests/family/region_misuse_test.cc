// region_misuse_test.cc: mistakes that a checked region reports, word by word, and what it does
// then.
#include "loam/region.h"

#include "unit/stderr_of.h"

extern "C" {
#include "base/base.h"
#include "family/family.h"
}

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace {

using unit::stderr_of;

class RegionMisuse : public testing::Test {
  protected:
    RegionMisuse() {
        loam_region_options options = {};
        options.flags = LOAM_CHECK;
        options.name = "request";
        region_ = loam_region_create(nullptr, &options);
        options.name = "other";
        other_ = loam_region_create(nullptr, &options);
    }
    ~RegionMisuse() override {
        loam_region_destroy(region_);
        loam_region_destroy(other_);
    }
    char *alloc(size_t bytes) {
        return static_cast<char *>(loam_region_alloc_at(region_, bytes, "a.c", 10));
    }
    void free(void *p, size_t bytes) { loam_region_free_at(region_, p, bytes, "f.c", 20); }
    /* What is said of it when mistakes are ignored; in one line. */
    template <typename Code> static std::string all_said(Code code) {
        lm_misuse_policy.ignore = true;
        std::string text = stderr_of(code);
        lm_misuse_policy.ignore = false;
        return text;
    }
    /* The same without the bracket, and with @ iff that names the call's place. */
    template <typename Code> static std::string said(Code code) {
        std::string text = all_said(code);
        return text.substr(0, text.find(" (")) + (text.find("(at f.c:20") != text.npos ? "@" : "");
    }
    static std::string format(const char *text, const void *p) {
        char line[300];
        snprintf(line, sizeof line, text, p);
        return std::string("loam: region request: ") + line;
    }
    loam_region *region_, *other_;
};

using RegionMisuseDeathTest = RegionMisuse;

/* Writes where no program may, past the eyes of a sanitizer. */
void poke(char *at, char value) {
    lm_tool_show(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(at) & ~uintptr_t{7}), 8);
    *static_cast<volatile char *>(at) = value;
}

TEST_F(RegionMisuseDeathTest, AMistakeEndsTheProgram) {
    char *p = alloc(40);
    (void)alloc(8);
    free(p, 40);
    EXPECT_DEATH(free(p, 40), "loam: region request: free of 0x[0-9a-f]+ after its free at f.c:20, "
                              "allocated at a.c:10 \\(at f.c:20, thread [0-9]+\\)");
}

TEST_F(RegionMisuse, DoubleFree) {
    char *p = alloc(40), *last = alloc(8);
    free(p, 40);
    EXPECT_EQ(said([&] { free(p, 40); }),
              format("free of %p after its free at f.c:20, allocated at a.c:10@", p));
    free(last, 8);
    EXPECT_EQ(said([&] { free(last, 8); }),
              format("free of %p after its free at f.c:20, allocated at a.c:10@", last));
    EXPECT_TRUE(loam_region_check(region_));
}

TEST_F(RegionMisuse, AnotherRegionsObject) {
    void *p = loam_region_alloc(other_, 40);
    EXPECT_EQ(said([&] { free(p, 40); }), format("free of %p, which belongs to region other@", p));
    EXPECT_EQ(
        said([&] { EXPECT_EQ(loam_region_realloc_at(region_, p, 40, 80, "f.c", 20), nullptr); }),
        format("realloc of %p, which belongs to region other@", p));
    loam_region_free(other_, p, 40);
}

TEST_F(RegionMisuse, NoObjectAtAll) {
    alignas(16) static char elsewhere[64];
    char *p = alloc(100);
    EXPECT_EQ(said([&] { free(elsewhere + 32, 16); }),
              format("free of %p, which is no object of it@", elsewhere + 32));
    EXPECT_EQ(said([&] { free(p + 32, 16); }),
              format("free of %p, which is no object of it@", p + 32));
    EXPECT_EQ(said([&] { free(p + 1, 16); }),
              format("free of %p, which is no object of it@", p + 1));
}

TEST_F(RegionMisuse, AnotherSize) {
    char *p = alloc(40);
    EXPECT_EQ(said([&] { free(p, 48); }),
              format("free of %p with 48 bytes, allocated with 40 at a.c:10@", p));
    EXPECT_EQ(said([&] { EXPECT_FALSE(loam_region_extend_at(region_, p, 4, 80, "f.c", 20)); }),
              format("extend of %p with 4 bytes, allocated with 40 at a.c:10@", p));
    memset(p, 1, 40);
    free(p, 40);
}

TEST_F(RegionMisuse, OverflowAndUnderflow) {
    char *p = alloc(40);
    (void)alloc(8);
    poke(p + 40, 1);
    EXPECT_EQ(said([&] { free(p, 40); }),
              format("overflow of %p: byte 41 of 40 written, allocated at a.c:10@", p));
    EXPECT_EQ(said([&] { EXPECT_FALSE(loam_region_check(region_)); }),
              format("overflow of %p: byte 41 of 40 written, allocated at a.c:10", p));
    char *q = alloc(24);
    poke(q - 1, 1);
    EXPECT_EQ(said([&] { free(q, 24); }),
              format("underflow of %p: 1 byte(s) before it written, allocated at a.c:10@", q));
    (void)said([&] { loam_region_reset(region_); });
}

TEST_F(RegionMisuse, WrittenAfterItsFree) {
    char *p = alloc(40);
    (void)alloc(8);
    free(p, 40);
    poke(p + 4, 1);
    EXPECT_EQ(said([&] { EXPECT_FALSE(loam_region_check(region_)); }),
              format("byte 5 of %p written after its free at f.c:20", p));
    (void)said([&] { loam_region_reset(region_); });
}

TEST_F(RegionMisuse, WrittenBehindItsEndBeforeRewinding) {
    loam_region_mark mark = loam_region_mark_here(region_);
    char *p = alloc(40);
    poke(p + 40, 1);
    EXPECT_EQ(said([&] { loam_region_rewind(region_, &mark); }),
              format("overflow of %p: byte 41 of 40 written, allocated at a.c:10", p));
    EXPECT_TRUE(loam_region_check(region_));
}

TEST_F(RegionMisuse, ObjectsThatARewindEndedAreNoObjects) {
    char *old = alloc(16);
    loam_region_mark mark = loam_region_mark_here(region_);
    char *p = alloc(40);
    loam_region_rewind(region_, &mark);
    std::string text = said([&] { free(p, 40); });
    EXPECT_EQ(text.substr(0, 39), format("free of %p", p).substr(0, 39));
    free(old, 16);
    EXPECT_TRUE(loam_region_check(region_));
}

TEST_F(RegionMisuse, MarksEndAsBracketsClose) {
    loam_region_mark outer = loam_region_mark_here(region_);
    loam_region_mark inner = loam_region_mark_here(region_);
    (void)alloc(40);
    EXPECT_EQ(said([&] { loam_region_keep(region_, &outer); }),
              format("keep of a mark that is not the newest", nullptr));
    loam_region_rewind(region_, &outer);
    EXPECT_EQ(said([&] { loam_region_rewind(region_, &inner); }),
              format("rewind to a mark that has ended", nullptr));
    EXPECT_EQ(said([&] { loam_region_keep(region_, &outer); }),
              format("keep of a mark that has ended", nullptr));
    loam_region_mark last = loam_region_mark_here(region_);
    char *p = alloc(40);
    loam_region_reset(region_);
    EXPECT_EQ(said([&] { loam_region_rewind(region_, &last); }),
              format("rewind to a mark that has ended", nullptr));
    EXPECT_EQ(alloc(40), p) << "and nothing was done";
    EXPECT_TRUE(loam_region_check(region_));
}

TEST_F(RegionMisuse, ASizeThatDoesNotFitTheObjectIsNotTaken) {
    char *p = alloc(1000);
    memset(p, 1, 1000);
    p = static_cast<char *>(loam_region_realloc(region_, p, 1000, 3000));
    for (int i = 0; i < 1000; i++) ASSERT_EQ(p[i], 1);
    EXPECT_EQ(loam_region_realloc(region_, p, 3000, SIZE_MAX), nullptr);
    free(p, 3000);
    EXPECT_TRUE(loam_region_check(region_));
}

/* An invariant that somebody's stray write broke is found, whatever the mode. */
TEST_F(RegionMisuse, TheWalkFindsWhatIsBroken) {
    loam_region *plain = loam_region_create(nullptr, nullptr);
    for (int i = 0; i < 100; i++) (void)loam_region_alloc(plain, 100);
    size_t held = plain->held_bytes;
    plain->held_bytes += 16;
    EXPECT_NE(all_said([&] { EXPECT_FALSE(loam_region_check(plain)); }).find("chunks are lost"),
              std::string::npos);
    plain->held_bytes = held;
    plain->spare_bytes += 1;
    EXPECT_NE(all_said([&] { EXPECT_FALSE(loam_region_check(plain)); }).find("the spare chunks"),
              std::string::npos);
    plain->spare_bytes -= 1;
    if (plain->mode == 0) {
        plain->room.end -= 1;
        EXPECT_NE(
            all_said([&] { EXPECT_FALSE(loam_region_check(plain)); }).find("the end is not in"),
            std::string::npos);
        plain->room.end += 1;
        char *floor = plain->room.floor;
        plain->room.floor = plain->room.at + 1;
        EXPECT_NE(all_said([&] { EXPECT_FALSE(loam_region_check(plain)); }).find("a chunk's floor"),
                  std::string::npos);
        plain->room.floor = floor;
        char *array = static_cast<char *>(loam_region_alloc(plain, 200));
        (void)loam_region_alloc(plain, 16);
        loam_region_free(plain, array, 200);
        reinterpret_cast<size_t *>(array)[1] = 7;
        EXPECT_NE(all_said([&] {
                      EXPECT_FALSE(loam_region_check(plain));
                  }).find("a freed extent was written to"),
                  std::string::npos);
        loam_region_reset(plain);
    } else {
        plain->room.at = reinterpret_cast<char *>(plain);
        EXPECT_NE(
            all_said([&] { EXPECT_FALSE(loam_region_check(plain)); }).find("inline paths are open"),
            std::string::npos);
        plain->room.at = nullptr;
    }
    EXPECT_TRUE(loam_region_check(plain));
    loam_region_destroy(plain);
}

} // namespace

/* interior_test.cc: the bytes from any pointer to the end of its object (checks/interior.c,
 * api/room.c), and copies that are stopped at that end. */
#include "loam/malloc.h"
#include "loam/sampling.h"
#include "unit/heap_unit.h"
#include "unit/stderr_of.h"

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

class Inside : public testing::Test {};

/* Every byte of an object has what is left to its end. */
void expect_room(char *p, size_t step) {
    size_t usable = loam_usable_size(p);
    for (size_t at = 0; at < usable; at += step) ASSERT_EQ(usable - at, loam_room(p + at)) << at;
}

TEST_F(Inside, BlocksOfEveryClass) {
    for (size_t bytes = 1; bytes <= 65536; bytes += 1 + bytes / 9) {
        char *a = static_cast<char *>(loam_malloc(bytes));
        char *b = static_cast<char *>(loam_malloc(bytes));
        expect_room(a, 1 + bytes / 50);
        expect_room(b, 1 + bytes / 50);
        if (LM_GUARD_LINKS) {
            EXPECT_EQ(bytes, loam_room(a));
            EXPECT_EQ(0u, loam_room(a + bytes)) << "what is checked lies there";
        }
        loam_free(a);
        loam_free(b);
    }
}

TEST_F(Inside, LargeObjectsAsFarAsItLooks) {
    for (size_t bytes : {size_t{70000}, size_t{1} << 20, size_t{4} << 20}) {
        char *p = static_cast<char *>(loam_malloc(bytes));
        expect_room(p, 4099);
        loam_free(p);
    }
    size_t far = size_t{64} << 20;
    char *p = static_cast<char *>(loam_malloc(far));
    EXPECT_EQ(far, loam_room(p));
    EXPECT_EQ(SIZE_MAX, loam_room(p + far - 1)) << "too far to look";
    /* A longer copy looks further. */
    EXPECT_EQ(0, loam_check_copy("copy", p + far / 2, nullptr, far / 2));
    EXPECT_EQ(SIZE_MAX, loam_room(p + far / 2));
    lm_misuse_policy.ignore = true;
    std::string said = unit::stderr_of(
        [&] { EXPECT_EQ(1, loam_check_copy("copy", p + far / 2, nullptr, far / 2 + 8192)); });
    lm_misuse_policy.ignore = false;
    EXPECT_NE(std::string::npos, said.find("copy of 33562624 B to 0x")) << said;
    loam_free(p);
}

TEST_F(Inside, WhatIsNobodys) {
    static char fixed[100];
    char local[100];
    const void *one = reinterpret_cast<const void *>(uintptr_t{1});
    for (const void *p : std::vector<const void *>{nullptr, one, fixed, local,
                                                   reinterpret_cast<const void *>(UINTPTR_MAX),
                                                   reinterpret_cast<const void *>(&loam_room)}) {
        EXPECT_EQ(SIZE_MAX, loam_room(p));
        EXPECT_EQ(0, loam_check_copy("copy", const_cast<void *>(p), p, 1 << 20));
    }
    /* Anywhere in the arena: it must only not fall over. */
    char *p = static_cast<char *>(loam_malloc(100000));
    for (size_t i = 0; i < lm_arena.slices; i++)
        (void)loam_room(reinterpret_cast<char *>(lm_arena.base) + (i << LM_SLICE_SHIFT) + 77);
    (void)loam_room(reinterpret_cast<char *>(lm_arena.base) - 1);
    loam_free(p);
    EXPECT_EQ(SIZE_MAX, loam_room(p + 70000)) << "a large object that is gone";
}

TEST_F(Inside, FreedBlocksWhereTheBuildKnows) {
    char *p = static_cast<char *>(loam_malloc(40)), *q = static_cast<char *>(loam_malloc(40));
    loam_free(p);
    if (LM_GUARD_LINKS) {
        EXPECT_EQ(SIZE_MAX, loam_room(p + 3));
    } else {
        EXPECT_EQ(loam_usable_size(q) - 3, loam_room(p + 3)) << "as one in use";
    }
    loam_free(q);
}

TEST_F(Inside, ObjectsAtAnOffset) {
    for (size_t bytes : {size_t{10}, size_t{1000}, size_t{200000}}) {
        char *p = static_cast<char *>(loam_malloc_aligned_offset(bytes, 64, 5));
        expect_room(p, 1 + bytes / 100);
        EXPECT_EQ(SIZE_MAX, loam_room(p - 1)) << "before it";
        loam_free(p);
    }
}

TEST_F(Inside, SampledObjects) {
    unit::in_thread([] {
        loam_sampling_set(1);
        char *p = static_cast<char *>(loam_malloc(100));
        loam_sampling_set(0);
        ASSERT_TRUE(lm_sampling_holds(p));
        for (size_t at = 0; at < 100; at++) EXPECT_EQ(100 - at, loam_room(p + at));
        loam_free(p);
        EXPECT_EQ(SIZE_MAX, loam_room(p));
    });
}

TEST_F(Inside, BothEndsOfACopyAndEmptyOnes) {
    lm_misuse_policy.ignore = true;
    char *p = static_cast<char *>(loam_malloc(64)), *q = static_cast<char *>(loam_malloc(4000));
    size_t room = loam_usable_size(p);
    std::string none = unit::stderr_of([&] {
        EXPECT_EQ(0, loam_check_copy("copy", p, q, room));
        EXPECT_EQ(0, loam_check_copy("copy", q, p, room));
        EXPECT_EQ(0, loam_check_copy("copy", p + room, q, 0));
    });
    EXPECT_EQ("", none);
    std::string to =
        unit::stderr_of([&] { EXPECT_EQ(1, loam_check_copy("copy", p + 1, q, room)); });
    std::string from =
        unit::stderr_of([&] { EXPECT_EQ(1, loam_check_copy("copy", q, p + 1, room)); });
    lm_misuse_policy.ignore = false;
    std::string size = std::to_string(room), left = std::to_string(room - 1);
    EXPECT_EQ(0u, to.find("loam: copy of " + size + " B to 0x")) << to;
    EXPECT_EQ(0u, from.find("loam: copy of " + size + " B from 0x")) << from;
    EXPECT_NE(std::string::npos, to.find(", which has " + left + " left (thread ")) << to;
    loam_free(p);
    loam_free(q);
}

#if LM_SECURE

bool may_copy(const char *p, size_t bytes) {
    return lm_copy_fits(p, bytes) || lm_copy_looks(p, bytes);
}

TEST_F(Inside, CopiesFitToTheByteInEveryClass) {
    for (size_t bytes = 1; bytes <= 300000; bytes += 1 + bytes / 7) {
        std::vector<char *> all;
        for (int i = 0; i < 20; i++) all.push_back(static_cast<char *>(loam_malloc(bytes)));
        for (char *p : all) {
            for (size_t at = 0; at <= bytes; at += 1 + bytes / 9) {
                if (bytes < 65000) {
                    EXPECT_TRUE(lm_copy_fits(p + at, bytes - at)) << "inline, without a look";
                }
                EXPECT_TRUE(may_copy(p + at, bytes - at)) << bytes << " " << at;
                EXPECT_FALSE(may_copy(p + at, bytes - at + 1)) << bytes << " " << at;
                EXPECT_FALSE(may_copy(p + at, SIZE_MAX)) << bytes << " " << at;
            }
        }
        loam_free(all[0]);
        if (bytes < 65000) {
            EXPECT_FALSE(may_copy(all[0] + bytes / 2, 1)) << "freed";
        }
        EXPECT_TRUE(may_copy(all[0], 0));
        for (size_t i = 1; i < all.size(); i++) loam_free(all[i]);
    }
}

TEST_F(Inside, CopiesFitWhereNoObjectIs) {
    char local[100] = {};
    EXPECT_TRUE(may_copy(local, SIZE_MAX));
    EXPECT_TRUE(may_copy(nullptr, 1));
    char *p = static_cast<char *>(loam_malloc_aligned_offset(1000, 64, 5));
    EXPECT_TRUE(may_copy(p, 1000));
    EXPECT_FALSE(may_copy(p, 1001));
    loam_free(p);
    /* Blocks that loam's own allocators hold have no canary. */
    void *raw = lm_block_alloc_lasting(1000, 16);
    ASSERT_NE(nullptr, raw);
    EXPECT_TRUE(may_copy(static_cast<char *>(raw), 1000));
    memset(raw, 1, 1000);
    EXPECT_TRUE(may_copy(static_cast<char *>(raw), 1000));
    lm_block_give_back(raw);
}

TEST_F(Inside, WhatIsIgnoredMayBeCopied) {
    char *p = static_cast<char *>(loam_malloc(64));
    unsigned before = lm_misuse_policy.tolerated;
    EXPECT_FALSE(may_copy(p, 65));
    lm_misuse_policy.tolerated = 1u << (LM_MISTAKE_OVERFLOW >> LM_MISTAKE_SHIFT);
    EXPECT_TRUE(may_copy(p, 65)) << "it is reported, and ignored, at the free";
    lm_misuse_policy.tolerated = before;
    loam_free(p);
}

#endif

} // namespace

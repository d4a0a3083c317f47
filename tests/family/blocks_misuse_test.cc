// blocks_misuse_test.cc: loam/blocks.h: what checks report, in their words, and what is NULL.
#include "family/blocks.h"

#include "base/base.h"
#include "loam/registry.h"

#include <algorithm>

using namespace blocks_tests;

TEST(BlocksDeathTest, CheckedInstancesFindMistakes) {
    loam_blocks_options options = with_flags(LOAM_CHECK);
    options.name = "mine";
    Blocks blocks(options), other(with_flags(LOAM_CHECK));
    auto p = static_cast<char *>(loam_blocks_alloc(blocks, 20));
    EXPECT_DEATH(loam_blocks_free(other, p),
                 "loam: blocks .unnamed.: free of 0x.* which belongs to "
                 "blocks mine .at .*blocks_misuse_test.cc");
    EXPECT_DEATH(loam_blocks_free(blocks, p + 1), "loam: blocks mine: free of .*no object of it");
    EXPECT_DEATH(
        {
            loam_blocks_free(blocks, p);
            loam_blocks_free(blocks, p);
        },
        "loam: blocks mine: free of .* after its free at .*blocks_misuse_test.cc");
#if !defined(__SANITIZE_ADDRESS__)
    EXPECT_DEATH(
        {
            p[20] = 1;
            loam_blocks_free(blocks, p);
        },
        "loam: blocks mine: overflow of .*: byte 21 of 20 written");
    EXPECT_DEATH(
        {
            loam_blocks_free(blocks, p);
            p[9] = 1;
            (void)!loam_blocks_alloc(blocks, 20);
        },
        "loam: blocks mine: byte 10 of .* written after its free");
#endif
    loam_blocks_free(blocks, p);
}

TEST(BlocksDeathTest, FixedInstancesFindMistakes) {
    std::vector<char> memory;
    const uint32_t classes[] = {64, 512};
    loam_blocks_options options = fixed(memory, classes, 2, 4);
    char local[64];
    {
        Blocks blocks(options);
        EXPECT_DEATH(loam_blocks_free(blocks, local),
                     "loam: blocks .unnamed.: free of .* no object");
    }
    options.flags = LOAM_CHECK;
    memory.resize(memory.size() + 100);
    options.memory = memory.data();
    options.memory_bytes = memory.size();
    Blocks blocks(options);
    auto p = static_cast<char *>(loam_blocks_alloc(blocks, 64));
    EXPECT_DEATH(loam_blocks_free(blocks, p + 16), "free of .* which is no object of it");
    void *next = loam_blocks_alloc(blocks, 64);
    loam_blocks_free(blocks, next);
    EXPECT_DEATH(loam_blocks_free(blocks, next), "free of .* which is free already");
    EXPECT_DEATH(
        {
            loam_blocks_free(blocks, p);
            loam_blocks_free(blocks, p);
        },
        "free of .* which is free already");
    auto q = static_cast<char *>(loam_blocks_alloc(blocks, 64));
#if !defined(__SANITIZE_ADDRESS__)
    EXPECT_DEATH(
        {
            loam_blocks_free(blocks, p);
            p[9] = 1;
            (void)!loam_blocks_alloc(blocks, 64);
        },
        "byte 10 of .* written after its free");
#endif
    loam_blocks_free(blocks, q);
    loam_blocks_free(blocks, p);
}

// Behind an odd number of blocks of 8 bytes are 8 bytes of padding, which are in no class.
TEST(BlocksDeathTest, BytesBehindTheLastClassAreNoObject) {
    std::vector<char> memory;
    const uint32_t classes[] = {8};
    loam_blocks_options options = fixed(memory, classes, 1, 3);
    Blocks blocks(options);
    char *last = nullptr;
    for (int i = 0; i < 3; i++) last = static_cast<char *>(loam_blocks_alloc(blocks, 8));
    ASSERT_NE(last, nullptr);
    char *end = last + (checked ? 24 : 8);
    for (int i = 0; i < 8; i++)
        EXPECT_DEATH(loam_blocks_free(blocks, end + i), "free of .* which is no object of it");
    loam_blocks_reset(blocks);
}

TEST(BlocksDeathTest, LargeObjectsOfOthersAreRefused) {
    if (checked) GTEST_SKIP() << "reported by guards, in other words";
    Blocks blocks, other;
    void *p = loam_blocks_alloc(blocks, 100000);
    EXPECT_DEATH(loam_blocks_free(other, p), "loam: blocks .unnamed.: free of .* no object of it");
    EXPECT_DEATH((void)!loam_blocks_realloc(other, p, 10), "realloc of .* no object of it");
    loam_blocks_free(blocks, p);
}

TEST(BlocksDeathTest, CheckFindsADamagedList) {
    if (checked) GTEST_SKIP() << "guards find the write first";
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "the sanitizer finds the write first";
#endif
    Blocks blocks;
    void *p = loam_blocks_alloc(blocks, 1000), *q = loam_blocks_alloc(blocks, 1000);
    loam_blocks_free(blocks, q);
    loam_blocks_free(blocks, p);
    void *link = *static_cast<void **>(p);
    EXPECT_DEATH(
        {
            *static_cast<void **>(p) = static_cast<char *>(link) + 16;
            (void)loam_blocks_check(blocks);
        },
        "loam: blocks .unnamed.: free list of 1024 bytes: .* is none of it");
    EXPECT_DEATH(
        {
            *static_cast<void **>(p) = p;
            (void)loam_blocks_check(blocks);
        },
        "is in it twice");
}

TEST(Blocks, LeaksAreListedWithTheirPlace) {
    loam_blocks_options options = with_flags(LOAM_CHECK);
    options.name = "leaky";
    loam_blocks blocks;
    ASSERT_EQ(loam_blocks_init(&blocks, &options), 0);
    (void)!loam_blocks_alloc(&blocks, 33);
    testing::internal::CaptureStderr();
    EXPECT_EQ(loam_registry_leaks(), 1u);
    std::string text = testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("loam: blocks leaky: leak of 33 bytes"), std::string::npos) << text;
    EXPECT_NE(text.find("blocks_misuse_test.cc"), std::string::npos);
    loam_blocks_deinit(&blocks);
    EXPECT_EQ(loam_registry_leaks(), 0u);
}

TEST(BlocksDeathTest, UnderflowAndReallocOfWhatIsFree) {
    loam_blocks_options options = with_flags(LOAM_CHECK);
    options.name = "mine";
    Blocks blocks(options);
    auto p = static_cast<char *>(loam_blocks_alloc(blocks, 20));
#if !defined(__SANITIZE_ADDRESS__)
    EXPECT_DEATH(
        {
            p[-1] = 1;
            loam_blocks_free(blocks, p);
        },
        "loam: blocks mine: underflow of .*");
#endif
    EXPECT_DEATH(
        {
            loam_blocks_free(blocks, p);
            (void)!loam_blocks_realloc(blocks, p, 50);
        },
        "loam: blocks mine: realloc of .* after its free");
    loam_blocks_free(blocks, p);
}

TEST(Blocks, IgnoredMistakesDoNothing) {
    loam_blocks_options options = with_flags(LOAM_CHECK);
    options.name = "forgiving";
    Blocks blocks(options), other(options);
    auto p = static_cast<char *>(loam_blocks_alloc(blocks, 20));
    strcpy(p, "unharmed");
    testing::internal::CaptureStderr();
    lm_misuse_policy.ignore = true;
    loam_blocks_free(other, p);
    EXPECT_EQ(loam_blocks_realloc(other, p, 100), nullptr);
    loam_blocks_free(blocks, p + 8);
    lm_misuse_policy.ignore = false;
    std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
    EXPECT_STREQ(p, "unharmed");
    EXPECT_EQ(blocks.usage().objects, 1u);
    loam_blocks_free(blocks, p);
    EXPECT_EQ(blocks.usage().objects, 0u);
}

// buffer_test.cc: the source over the caller's memory.
#include "loam/source.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace {

TEST(Buffer, ChunksFollowEachOtherAtTheirAlignment) {
    alignas(64) char memory[1024];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory + 1, sizeof memory - 1);
    size_t got = 0;
    void *first = loam_source_get(&buffer.source, 100, 16, &got);
    EXPECT_EQ(first, memory + 16);
    EXPECT_EQ(got, 100u);
    void *second = loam_source_get(&buffer.source, 10, 1, &got);
    EXPECT_EQ(second, memory + 116);
    EXPECT_EQ(loam_source_get(&buffer.source, 1024, 1, &got), nullptr);
    loam_source_put(&buffer.source, second, 10);
    EXPECT_EQ(loam_source_get(&buffer.source, 10, 1, &got), second);
}

TEST(Buffer, IsUsedToItsLastByte) {
    alignas(16) char memory[64];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof memory);
    size_t got = 0;
    void *whole = loam_source_get(&buffer.source, 64, 16, &got);
    EXPECT_EQ(whole, memory);
    EXPECT_EQ(got, 64u);
    EXPECT_EQ(loam_source_get(&buffer.source, 1, 1, &got), nullptr);
    loam_source_put(&buffer.source, whole, 64);
    void *most = loam_source_get(&buffer.source, 63, 1, &got);
    EXPECT_EQ(most, memory);
    void *last = loam_source_get(&buffer.source, 1, 1, &got);
    EXPECT_EQ(last, memory + 63);
    EXPECT_EQ(got, 1u);
}

TEST(Buffer, WhatIsPutInReverseIsThereAtOnce) {
    alignas(16) char memory[256];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof memory);
    size_t got = 0;
    void *a = loam_source_get(&buffer.source, 64, 16, &got);
    void *b = loam_source_get(&buffer.source, 64, 16, &got);
    void *c = loam_source_get(&buffer.source, 64, 16, &got);
    loam_source_put(&buffer.source, c, 64);
    loam_source_put(&buffer.source, b, 64);
    EXPECT_EQ(loam_source_get(&buffer.source, 192, 16, &got), b);
    EXPECT_EQ(loam_source_get(&buffer.source, 1, 1, &got), nullptr);
    EXPECT_EQ(a, memory);
}

TEST(Buffer, WhatIsPutOutOfOrderIsThereWhenAllIsBack) {
    alignas(16) char memory[256];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory + 1, sizeof memory - 1);
    size_t got = 0;
    void *a = loam_source_get(&buffer.source, 64, 64, &got); /* behind a gap */
    void *b = loam_source_get(&buffer.source, 10, 1, &got);
    void *c = loam_source_get(&buffer.source, 64, 64, &got); /* and another */
    ASSERT_TRUE(a != nullptr && b != nullptr && c != nullptr);
    loam_source_put(&buffer.source, a, 64);
    EXPECT_EQ(loam_source_get(&buffer.source, 64, 64, &got), nullptr)
        << "the first is not the last";
    loam_source_put(&buffer.source, c, 64);
    loam_source_put(&buffer.source, b, 10);
    void *all = loam_source_get(&buffer.source, sizeof memory - 1, 1, &got);
    EXPECT_EQ(all, memory + 1) << "gaps and all";
}

TEST(Buffer, ImpossibleSizesAndAlignments) {
    alignas(16) char memory[256];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof memory);
    size_t got = 77;
    for (size_t bytes : {SIZE_MAX, SIZE_MAX - 15, static_cast<size_t>(PTRDIFF_MAX), size_t{257}}) {
        for (size_t align : {size_t{1}, size_t{16}, size_t{1} << 40, size_t{1} << 63}) {
            EXPECT_EQ(loam_source_get(&buffer.source, bytes, align, &got), nullptr);
        }
    }
    EXPECT_EQ(loam_source_get(&buffer.source, 1, size_t{1} << 63, &got), nullptr);
    EXPECT_EQ(got, 77u) << "a refusal writes nothing";
    EXPECT_EQ(loam_source_get(&buffer.source, 256, 16, &got), memory) << "and nothing is lost";
}

TEST(Buffer, MayBeEmpty) {
    loam_buffer buffer;
    loam_buffer_init(&buffer, nullptr, 0);
    size_t got = 0;
    EXPECT_EQ(loam_source_get(&buffer.source, 1, 1, &got), nullptr);
    EXPECT_STREQ(buffer.source.name, "buffer");
}

} // namespace

// buffer_test.cc: the source over the caller's memory.
#include "loam/source.h"

#include <gtest/gtest.h>

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

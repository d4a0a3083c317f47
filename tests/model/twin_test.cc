/* twin_test.cc: the twin itself notices what it is there to notice.
 *
 * Without this, a model test that passes could mean a twin that sees nothing. The objects here are
 * made up: no allocator is involved.
 */
#include "twin.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using model::Object;
using model::Twin;

Object object_at(uintptr_t address, size_t size, size_t align = 16) {
    Object object;
    object.p = reinterpret_cast<unsigned char *>(address);
    object.size = size;
    object.usable = size;
    object.align = align;
    object.seed = 42;
    return object;
}

TEST(Twin, AcceptsNeighbours) {
    Twin twin;
    EXPECT_EQ(twin.add(object_at(0x1000, 16)), "");
    EXPECT_EQ(twin.add(object_at(0x1020, 16)), "");
    EXPECT_EQ(twin.add(object_at(0x1010, 16)), "");
    EXPECT_EQ(twin.live(), 3u);
    EXPECT_EQ(twin.remove(object_at(0x1010, 16)), "");
    EXPECT_EQ(twin.add(object_at(0x1010, 12)), "");
}

TEST(Twin, FindsEveryOverlap) {
    Twin twin;
    ASSERT_EQ(twin.add(object_at(0x1000, 64)), "");
    EXPECT_NE(twin.add(object_at(0x1000, 64)), "");  /* the same */
    EXPECT_NE(twin.add(object_at(0x1000, 0)), "");   /* even an empty one */
    EXPECT_NE(twin.add(object_at(0x1030, 64)), "");  /* its end */
    EXPECT_NE(twin.add(object_at(0xff0, 17)), "");   /* its start */
    EXPECT_NE(twin.add(object_at(0x1010, 16)), "");  /* inside */
    EXPECT_NE(twin.add(object_at(0xf00, 4096)), ""); /* around */
    EXPECT_EQ(twin.live(), 1u);
}

TEST(Twin, FindsMisalignmentAndShortUsableSize) {
    Twin twin;
    EXPECT_NE(twin.add(object_at(0x1008, 16)), "");
    EXPECT_NE(twin.add(object_at(0x1040, 16, 128)), "");
    EXPECT_NE(twin.add(object_at(0, 16)), "");
    Object object = object_at(0x1000, 16);
    object.usable = 15;
    EXPECT_NE(twin.add(object), "");
    EXPECT_EQ(twin.live(), 0u);
}

TEST(Twin, FindsWhatIsNotLive) {
    Twin twin;
    EXPECT_NE(twin.remove(object_at(0x1000, 16)), "");
    ASSERT_EQ(twin.add(object_at(0x1000, 16)), "");
    EXPECT_NE(twin.remove(object_at(0x1000, 32)), "");
    EXPECT_EQ(twin.remove(object_at(0x1000, 16)), "");
    EXPECT_NE(twin.remove(object_at(0x1000, 16)), "");
}

TEST(Contents, EveryByteOfSmallAndBothEndsOfLargeObjects) {
    for (size_t size : {size_t{1}, size_t{7}, size_t{8}, size_t{13}, size_t{1000}, model::kWhole,
                        model::kWhole + 1, size_t{100003}}) {
        std::vector<unsigned char> memory(size);
        Object object = object_at(reinterpret_cast<uintptr_t>(memory.data()), size);
        model::write_contents(object);
        ASSERT_EQ(model::changed_contents(memory.data(), object, size), SIZE_MAX) << size;
        for (size_t at = 0; at < size; at++) {
            bool covered = size <= model::kWhole || at < model::kEnd ||
                           at >= (size - model::kEnd) / 8 * 8 || at % model::kEnd < 8;
            memory[at] ^= 1;
            size_t found = model::changed_contents(memory.data(), object, size);
            EXPECT_EQ(found != SIZE_MAX, covered) << at << " of " << size;
            if (covered) {
                EXPECT_EQ(found, at / 8 * 8);
                EXPECT_EQ(model::changed_contents(memory.data(), object, at), SIZE_MAX);
            }
            memory[at] ^= 1;
            if (size > model::kWhole && at == 2 * model::kEnd) at = size - 2 * model::kEnd;
        }
    }
}

TEST(Contents, ZeroMeansEveryByte) {
    std::vector<unsigned char> memory(5000);
    EXPECT_TRUE(model::all_zero(memory.data(), 5000));
    EXPECT_TRUE(model::all_zero(memory.data(), 0));
    for (size_t at : {size_t{0}, size_t{1}, size_t{2500}, size_t{4999}}) {
        memory[at] = 1;
        EXPECT_FALSE(model::all_zero(memory.data(), 5000)) << at;
        memory[at] = 0;
    }
}

} // namespace

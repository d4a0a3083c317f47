/* base_test.cc: bits, lists and the line formatter, each compared with a plain implementation.
 *
 * The formatter's lines are caught by a pipe in place of standard error.
 */
#include "stderr_of.h"

#include <gtest/gtest.h>

extern "C" {
#include "base/base.h"
}

#include <cerrno>
#include <climits>
#include <cstdio>
#include <string>
#include <vector>

namespace {

using unit::stderr_of;

TEST(Bits, PowersOfTwo) {
    EXPECT_FALSE(lm_is_pow2(0));
    for (unsigned b = 0; b < 64; b++) {
        size_t x = size_t{1} << b;
        EXPECT_TRUE(lm_is_pow2(x)) << b;
        EXPECT_EQ(b, lm_log2(x));
        EXPECT_EQ(b, lm_lowest_bit(x));
        if (b > 1) {
            EXPECT_FALSE(lm_is_pow2(x - 1)) << b;
            EXPECT_FALSE(lm_is_pow2(x + 1)) << b;
            EXPECT_EQ(b, lm_log2(x + 1));
            EXPECT_EQ(b - 1, lm_log2(x - 1));
            EXPECT_EQ(0u, lm_lowest_bit(x + 1));
        }
    }
}

TEST(Bits, Alignment) {
    for (size_t align = 1; align <= 4096; align *= 2) {
        for (size_t x = 0; x < 3 * align && x < 9000; x += 1 + x / 50) {
            size_t up = lm_align_up(x, align), down = lm_align_down(x, align);
            EXPECT_EQ((x + align - 1) / align * align, up);
            EXPECT_EQ(x / align * align, down);
        }
    }
    EXPECT_EQ(0u, lm_align_up(SIZE_MAX, 16)) << "wraps, as its comment says";
    EXPECT_EQ(SIZE_MAX - 15, lm_align_down(SIZE_MAX, 16));
}

TEST(Bits, ProductsThatDoNotFit) {
    size_t product = 0;
    EXPECT_TRUE(lm_mul(0, SIZE_MAX, &product));
    EXPECT_EQ(0u, product);
    EXPECT_TRUE(lm_mul(1, SIZE_MAX, &product));
    EXPECT_EQ(SIZE_MAX, product);
    EXPECT_TRUE(lm_mul(UINT32_MAX, UINT32_MAX, &product));
    EXPECT_EQ(0xfffffffe00000001u, product);
    EXPECT_FALSE(lm_mul(2, SIZE_MAX / 2 + 1, &product));
    EXPECT_FALSE(lm_mul(size_t{1} << 32, size_t{1} << 32, &product));
    EXPECT_FALSE(lm_mul(SIZE_MAX, SIZE_MAX, &product));
}

TEST(CountDown, TellsWhenItIsZero) {
    uint32_t count = 3;
    EXPECT_FALSE(lm_count_down(&count));
    EXPECT_FALSE(lm_count_down(&count));
    EXPECT_TRUE(lm_count_down(&count));
    EXPECT_EQ(0u, count);
    EXPECT_FALSE(lm_count_down(&count));
    EXPECT_EQ(UINT32_MAX, count);
}

/* ---- Lists ---- */

struct Member {
    int before;
    lm_node_t node;
    int number;
};

/* Forwards by lm_list_after, then once around backwards: both must say the same. */
std::vector<int> numbers(const lm_list_t *list) {
    std::vector<int> found;
    for (lm_node_t *n = list->first; n != nullptr; n = lm_list_after(list, n)) {
        EXPECT_TRUE(lm_node_linked(n));
        EXPECT_EQ(n, n->next->prev);
        EXPECT_EQ(n, n->prev->next);
        found.push_back(LM_CONTAINER(n, Member, node)->number);
    }
    return found;
}

TEST(List, OrderOfAdding) {
    lm_list_t list = {nullptr};
    std::vector<Member> members(4);
    for (int i = 0; i < 4; i++) {
        members[i].number = i;
        members[i].node = {nullptr, nullptr};
        EXPECT_FALSE(lm_node_linked(&members[i].node));
    }
    EXPECT_EQ(std::vector<int>(), numbers(&list));
    lm_list_add_last(&list, &members[0].node);
    EXPECT_EQ((std::vector<int>{0}), numbers(&list));
    lm_list_add_last(&list, &members[1].node);
    lm_list_add_first(&list, &members[2].node);
    lm_list_add_last(&list, &members[3].node);
    EXPECT_EQ((std::vector<int>{2, 0, 1, 3}), numbers(&list));
}

TEST(List, EveryOrderOfRemoving) {
    const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (const auto &order : orders) {
        lm_list_t list = {nullptr};
        std::vector<Member> members(3);
        std::vector<int> expected = {0, 1, 2};
        for (int i = 0; i < 3; i++) {
            members[i].number = i;
            lm_list_add_last(&list, &members[i].node);
        }
        for (int out : order) {
            lm_list_remove(&list, &members[out].node);
            EXPECT_FALSE(lm_node_linked(&members[out].node));
            for (size_t i = 0; i < expected.size(); i++) {
                if (expected[i] == out) expected.erase(expected.begin() + static_cast<long>(i));
            }
            EXPECT_EQ(expected, numbers(&list));
        }
        EXPECT_EQ(nullptr, list.first);
    }
}

/* ---- Lines ---- */

TEST(Report, EveryConversion) {
    EXPECT_EQ("text a-b c % 100%\n",
              stderr_of([] { lm_report("text %s %c %% 100%%", "a-b", 'c'); }));
    EXPECT_EQ("0 -1 2147483647 -2147483648\n",
              stderr_of([] { lm_report("%d %d %d %d", 0, -1, INT_MAX, INT_MIN); }));
    EXPECT_EQ("0 4294967295\n", stderr_of([] { lm_report("%u %u", 0u, UINT_MAX); }));
    EXPECT_EQ("18446744073709551615 1000000000000\n",
              stderr_of([] { lm_report("%zu %lu", SIZE_MAX, 1000000000000ul); }));
    EXPECT_EQ("ffffffffffffffff deadbeef\n",
              stderr_of([] { lm_report("%lx %x", ULONG_MAX, 0xdeadbeefu); }));
    EXPECT_EQ("0x0 0x7fff12345678\n", stderr_of([] {
                  lm_report("%p %p", static_cast<void *>(nullptr),
                            reinterpret_cast<void *>(uintptr_t{0x7fff12345678}));
              }));
    EXPECT_EQ("-9223372036854775808 7\n", stderr_of([] { lm_report("%ld %ld", LONG_MIN, 7l); }));
    EXPECT_EQ("\n", stderr_of([] { lm_report("%s", ""); }));
}

TEST(Report, LongLinesAreCut) {
    std::string text(1000, 'x');
    const size_t most = LM_LINE_BYTES - 1;
    for (size_t length : {most - 2, most - 1, most, most + 1, most + 45, text.size()}) {
        std::string line = stderr_of([&] { lm_report("%s", text.substr(0, length).c_str()); });
        EXPECT_EQ(text.substr(0, length < most ? length : most) + "\n", line) << length;
    }
}

TEST(Report, KeepsErrno) {
    stderr_of([] {
        errno = E2BIG;
        lm_report("x");
        EXPECT_EQ(E2BIG, errno);
    });
}

TEST(Misuse, OneLineThenBackIfToldSo) {
    lm_misuse_policy = {false, true, 0};
    std::string line = stderr_of([] { lm_misuse("something with %d (", 5); });
    std::string expected = "loam: something with 5 (thread ";
    expected += std::to_string(lm_port_thread_id()) + ")\n";
    EXPECT_EQ(expected, line);
    lm_misuse_policy = {true, true, 0};
    EXPECT_EQ("", stderr_of([] { lm_misuse("something ("); }));
    lm_misuse_policy = {false, false, 0};
}

TEST(MisuseDeath, Aborts) {
    EXPECT_EXIT(lm_misuse("that is it ("), testing::KilledBySignal(SIGABRT),
                "^loam: that is it \\(thread [0-9]+\\); LOAM_IGNORE=other goes on\n");
    EXPECT_EXIT(lm_assert_failed("1 == 2", "some.c", 77), testing::KilledBySignal(SIGABRT),
                "^loam: assertion failed: 1 == 2, some.c:77\n");
}

} // namespace

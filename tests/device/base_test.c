/* base_test.c: src/base where words have 32 bits: powers of two, overflow, numbers in reports. */
#include "harness.h"

#include "base/base.h"
#include "loam/port.h"

TEST(log2_of_every_power) {
    for (unsigned bit = 0; bit < 8 * sizeof(size_t); bit++) {
        CHECK_EQUAL(lm_log2((size_t)1 << bit), bit);
        CHECK_EQUAL(lm_log2(SIZE_MAX >> (8 * sizeof(size_t) - 1 - bit)), bit);
    }
    for (unsigned bit = 0; bit < 64; bit++) CHECK_EQUAL(lm_lowest_bit((uint64_t)3 << bit), bit);
}

TEST(product_that_does_not_fit) {
    size_t product = 0;
    size_t half = (size_t)1 << (4 * sizeof(size_t));
    CHECK(lm_mul(half - 1, half + 1, &product));
    CHECK_EQUAL(product, SIZE_MAX);
    CHECK(!lm_mul(half, half, &product));
    CHECK(!lm_mul(SIZE_MAX, 2, &product));
    CHECK(lm_mul(0, SIZE_MAX, &product));
    CHECK_EQUAL(product, 0);
}

TEST(numbers_in_reports) {
    lm_report("%d %d %u %zu %lx %c%s %p", (int)INT32_MIN, (int)INT32_MAX, ~0u, (size_t)4096,
              0x89abcdeful, 'o', "k", (void *)(uintptr_t)0x20000000);
    CHECK_EQUAL(
        device_said_times("-2147483648 2147483647 4294967295 4096 89abcdef ok 0x20000000\n"), 1);
}

TEST(long_lines_are_cut) {
    static char text[400];
    for (size_t i = 0; i < sizeof(text) - 1; i++) text[i] = 'x';
    lm_report("%s", text);
    size_t length = 0;
    while (device_said()[length] != '\0') length++;
    CHECK_EQUAL(length, 256);
    CHECK(device_said()[255] == '\n');
}

TEST(mistakes_are_reported_by_the_port) {
    CHECK_ABORTS(lm_misuse("this was wrong ("), "loam: this was wrong (thread 7)\n");
}

TEST(mistakes_can_be_ignored) {
    loam_port_ignore_mistakes(true);
    lm_misuse("this was wrong (");
    CHECK_EQUAL(device_said_times("thread 7"), 1);
    loam_port_ignore_mistakes(false);
}

TEST(the_two_functions_of_libc) {
    char bytes[32];
    memset(bytes, 0x15A, sizeof(bytes));
    CHECK(bytes[0] == 0x5A && bytes[31] == 0x5A);
    for (int i = 0; i < 32; i++) bytes[i] = (char)i;
    char copy[32];
    CHECK(memcpy(copy, bytes, sizeof(copy)) == copy);
    CHECK(copy[0] == 0 && copy[19] == 19 && copy[31] == 31);
}

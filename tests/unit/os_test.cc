// os_test.cc: what os.h promises of the process, where nothing else would notice.
extern "C" {
#include "os/os.h"
}

#include <gtest/gtest.h>

#include <thread>

namespace {

/* Two threads that link their first freed blocks at the same time must come to the same key:
 * checked and secure builds took each other's lists for damaged when it depended on a stack. */
TEST(Os, RandomIsTheSameForEveryThread) {
    uint64_t here = lm_os_random(), there = 0;
    char room[4096];
    __asm__ volatile("" : : "r"(room) : "memory"); // another depth
    std::thread([&] { there = lm_os_random(); }).join();
    EXPECT_EQ(here, there);
    EXPECT_EQ(here, lm_os_random());
    EXPECT_NE(0u, here);
}

} // namespace

// exit_hook_test.cc: what runs when a thread ends: several hooks, in rounds (os/thread.c).
extern "C" {
#include "os/os.h"
}
#include "loam/malloc.h"

#include <gtest/gtest.h>

#include <thread>

namespace {

struct Runs {
    unsigned first = 0, second = 0, rounds = 0;
    bool heap_worked_after = false;
};

extern "C" {
static bool once(void *value, unsigned) {
    auto *runs = static_cast<Runs *>(value);
    runs->first++;
    void *p = loam_malloc(100);
    runs->heap_worked_after = p != nullptr;
    loam_free(p);
    return false;
}
static bool again(void *value, unsigned rounds) {
    auto *runs = static_cast<Runs *>(value);
    runs->rounds = rounds;
    return ++runs->second < rounds;
}
static bool third(void *value, unsigned) {
    ++*static_cast<unsigned *>(value);
    return false;
}
}

// As many hooks as one likes, each a function of its own.
template <int> bool counts(void *value, unsigned) {
    ++*static_cast<unsigned *>(value);
    return false;
}

TEST(ExitHook, EachRunsForTheThreadsThatAskedWithTheirValues) {
    Runs a, b;
    std::thread([&] {
        loam_free(loam_malloc(1));
        EXPECT_TRUE(lm_thread_on_exit(once, &a));
        EXPECT_TRUE(lm_thread_on_exit(again, &a));
    }).join();
    std::thread([&] { EXPECT_TRUE(lm_thread_on_exit(once, &b)); }).join();
    EXPECT_EQ(a.first, 1u);
    EXPECT_TRUE(a.heap_worked_after);
    EXPECT_GE(a.rounds, 2u);
    EXPECT_EQ(a.second, a.rounds) << "it asked for every round there is";
    EXPECT_EQ(b.first, 1u);
    EXPECT_EQ(b.second, 0u) << "that thread never named this hook";
}

TEST(ExitHook, OneThatIsNamedTwiceRunsOnce) {
    Runs a, b;
    std::thread([&] {
        EXPECT_TRUE(lm_thread_on_exit(once, &a));
        EXPECT_TRUE(lm_thread_on_exit(once, &b));
    }).join();
    EXPECT_EQ(a.first, 0u) << "the later value counts";
    EXPECT_EQ(b.first, 1u);
}

TEST(ExitHook, ANinthIsRefused) {
    unsigned thirds = 0, others = 0;
    std::thread([&] {
        Runs runs;
        loam_free(loam_malloc(1)); // the heap's own
        (void)lm_thread_on_exit(once, &runs);
        (void)lm_thread_on_exit(again, &runs);
        EXPECT_TRUE(lm_thread_on_exit(third, &thirds));
        EXPECT_TRUE(lm_thread_on_exit(counts<5>, &others));
        EXPECT_TRUE(lm_thread_on_exit(counts<6>, &others));
        EXPECT_TRUE(lm_thread_on_exit(counts<7>, &others));
        EXPECT_TRUE(lm_thread_on_exit(counts<8>, &others));
        EXPECT_FALSE(lm_thread_on_exit(counts<9>, &others));
        // runs is gone when the thread ends: no hook may be given it
        static Runs kept;
        (void)lm_thread_on_exit(once, &kept);
        (void)lm_thread_on_exit(again, &kept);
    }).join();
    EXPECT_EQ(thirds, 1u);
    EXPECT_EQ(others, 4u);
}

} // namespace

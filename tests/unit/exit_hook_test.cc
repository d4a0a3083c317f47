// exit_hook_test.cc: what runs when a thread ends: several hooks, in rounds (os/thread.c).
extern "C" {
#include "os/os.h"
#include "survey/survey.h"
}
#include "loam/malloc.h"
#include "loam/stack.h"

#include <gtest/gtest.h>

#include <pthread.h>

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

// What a destructor of a pthread key does in each of its first rounds.
struct Late {
    void (*use)();
    int from, to; // the rounds that it allocates in
};
thread_local int round_here;
pthread_key_t late_key;

void late(void *value) {
    const Late &what = *static_cast<Late *>(value);
    round_here++;
    if (round_here >= what.from && round_here <= what.to) what.use();
    if (round_here < what.to) pthread_setspecific(late_key, value);
}

void use_malloc() { loam_free(loam_malloc(100)); }
void use_scope() {
    loam_stack_frame frame = loam_stack_push(loam_thread_stack());
    EXPECT_NE(loam_stack_alloc(loam_thread_stack(), 100), nullptr);
    loam_stack_pop(loam_thread_stack(), frame);
}

// Without their ends, the heaps of 200 threads would stay active for ever.
TEST(ExitHook, TheHeapOfAThreadThatFirstAllocatesInADestructorEnds) {
    ASSERT_EQ(pthread_key_create(&late_key, late), 0);
    for (auto use : {use_malloc, use_scope})
        for (bool early : {false, true})
            for (int from = 1; from <= 2; from++)
                for (int to = from; to <= 2; to++) {
                    Late what = {use, from, to};
                    uint32_t before = lm_load_relaxed(&lm_heaps_active);
                    for (int i = 0; i < 200; i++)
                        std::thread([&] {
                            if (early) use();
                            pthread_setspecific(late_key, &what);
                        }).join();
                    EXPECT_LE(lm_load_relaxed(&lm_heaps_active), before + 1)
                        << (use == use_scope ? "scope" : "malloc") << ", rounds " << from << " to "
                        << to << (early ? ", and before" : "");
                }
    pthread_key_delete(late_key);
}

} // namespace

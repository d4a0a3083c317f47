/* biased_test.cc: the lock that its owner takes by a plain store, with and without the system's
 * barrier.
 *
 * tests/protocol/biased.pml checks every order of the lock's steps; here the lock runs on a
 * processor. The last tests take the barrier away for good, so they must stay last.
 */
#include <gtest/gtest.h>

extern "C" {
#include "os/os.h"
#include "survey/survey.h"
}

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace {

std::atomic<bool> in_fork_allocates;
void *from_fork;

void allocate_in_fork() {
    if (in_fork_allocates) from_fork = lm_common_alloc(lm_class_of(100));
}

/* Before the library registers its own handler: so ours runs while every lock of loam is held. */
__attribute__((constructor(101))) void register_first() {
    (void)pthread_atfork(allocate_in_fork, nullptr, nullptr);
}

class Biased : public testing::Test {
  protected:
    void SetUp() override { lm_heap_boot(); } /* prepares the barrier, once */
};

struct Guarded {
    lm_biased_t lock = {0, 0};
    size_t a = 0, b = 0; /* equal for who is inside; plain, so that ThreadSanitizer judges too */

    void change() {
        EXPECT_EQ(a, b);
        a++;
        for (int i = 0; i < 3; i++) lm_cpu_relax();
        b++;
    }
};

/* The owner works, another comes by as the worker does, and sometimes waits as a fork does. */
void exclude_each_other() {
    Guarded guarded;
    std::atomic<bool> done{false};
    size_t owners = 0, others = 0;
    std::thread owner([&] {
        auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(400);
        while (std::chrono::steady_clock::now() < end) {
            for (int i = 0; i < 100; i++, owners++) {
                lm_biased_enter(&guarded.lock);
                guarded.change();
                lm_biased_leave(&guarded.lock);
            }
        }
        done = true;
    });
    for (size_t i = 0; !done; i++) {
        lm_biased_ask(&guarded.lock);
        lm_biased_settle();
        if (i % 4 == 0) lm_biased_wait(&guarded.lock);
        if (lm_biased_outside(&guarded.lock)) {
            guarded.change();
            others++;
        }
        lm_biased_let(&guarded.lock);
        if (i % 16 == 0) std::this_thread::yield();
    }
    owner.join();
    EXPECT_GT(others, 0u);
    EXPECT_EQ(owners + others, guarded.a);
    EXPECT_EQ(guarded.a, guarded.b);
}

TEST_F(Biased, OwnersAreFencedOnlyWithoutABarrier) {
    if (LM_TSAN) GTEST_SKIP() << "ThreadSanitizer sees no barriers: owners are always fenced";
    EXPECT_EQ(!lm_os_barrier(), lm_biased_fenced);
}

TEST_F(Biased, OwnerAndOthersExcludeEachOther) { exclude_each_other(); }

TEST_F(Biased, AnOwnerWaitsWhileAnotherIsInsideAndIsWoken) {
    Guarded guarded;
    std::atomic<bool> entered{false};
    lm_biased_ask(&guarded.lock);
    lm_biased_settle();
    ASSERT_TRUE(lm_biased_outside(&guarded.lock));
    std::thread owner([&] {
        lm_biased_enter(&guarded.lock);
        entered = true;
        guarded.change();
        lm_biased_leave(&guarded.lock);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(entered);
    EXPECT_TRUE(lm_biased_wanted(&guarded.lock));
    guarded.change();
    lm_biased_let(&guarded.lock);
    owner.join();
    EXPECT_EQ(2u, guarded.a);
    EXPECT_EQ(0u, guarded.lock.inside);
    EXPECT_EQ(0u, guarded.lock.asked);
}

TEST_F(Biased, OthersSeeThatTheOwnerIsInsideAndWait) {
    Guarded guarded;
    std::atomic<bool> inside{false}, leave{false};
    std::thread owner([&] {
        lm_biased_enter(&guarded.lock);
        inside = true;
        while (!leave) std::this_thread::yield();
        guarded.change();
        lm_biased_leave(&guarded.lock);
    });
    while (!inside) std::this_thread::yield();
    lm_biased_ask(&guarded.lock);
    lm_biased_settle();
    EXPECT_FALSE(lm_biased_outside(&guarded.lock));
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        leave = true;
    });
    lm_biased_wait(&guarded.lock);
    EXPECT_EQ(1u, guarded.a);
    lm_biased_let(&guarded.lock);
    owner.join();
    later.join();
}

TEST_F(Biased, TheChildOfAForkHasTheBarrierToo) {
    if (!lm_os_barrier()) GTEST_SKIP() << "the system has no barrier";
    pid_t child = fork();
    if (child == 0) _exit(lm_os_barrier() ? 0 : 1);
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
}

/* As a handler does that some library registered before us, in a thread that has ended already. */
TEST_F(Biased, AHandlerOfForkMayUseTheCommonHeap) {
    in_fork_allocates = true;
    pid_t child = fork();
    in_fork_allocates = false;
    void *after = lm_common_alloc(lm_class_of(100));
    if (child == 0) _exit(after != nullptr && after != from_fork ? 0 : 1);
    EXPECT_NE(nullptr, after);
    EXPECT_NE(from_fork, after);
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
    lm_block_free(after);
    lm_block_free(from_fork);
}

TEST_F(Biased, BarriersMayEndWhileOwnersEnter) {
    std::thread forbid([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        lm_biased_forbid();
    });
    exclude_each_other();
    forbid.join();
    EXPECT_TRUE(lm_biased_fenced);
}

TEST_F(Biased, WithoutABarrierTheyExcludeEachOtherToo) {
    lm_biased_forbid();
    EXPECT_TRUE(lm_biased_fenced);
    lm_biased_boot();
    EXPECT_TRUE(lm_biased_fenced) << "forbidden for good";
    exclude_each_other();
}

} // namespace

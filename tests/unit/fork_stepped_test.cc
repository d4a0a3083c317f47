/* fork_stepped_test.cc: a signal handler forks between any two instructions of a call, and the call
 * goes on in the child.
 *
 * The thread runs with the trap flag set, and the handler of SIGTRAP forks after each instruction,
 * or each fifth of a long call. The child goes on without the flag, and ends in child_is(). Another
 * thread exists, so that forks take the heap's locks, or find that the calling thread holds one (a
 * torn child).
 */
#include "effort.h"
#include "heap_unit.h"

extern "C" {
#include "span/internal.h"
}

#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <future>

namespace {

#if defined(__x86_64__) && !defined(EFFORT_ASAN) && !defined(EFFORT_TSAN)

constexpr greg_t kTrapFlag = 0x100;

volatile bool in_child;
volatile unsigned stride; /* one fork for so many instructions */
volatile unsigned steps, failed, first_failed;
volatile int first_status;

void on_step(int, siginfo_t *, void *context) {
    steps = steps + 1;
    if (steps % stride != 0) return;
    pid_t child = fork();
    if (child == 0) {
        in_child = true;
        static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
        alarm(20);
        return;
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (status != 0 && failed == 0) {
        first_failed = steps;
        first_status = status;
    }
    failed = failed + (status != 0);
}

void trap(bool on) {
    if (on)
        __asm__ volatile("sub $128, %%rsp; pushfq; orq $0x100, (%%rsp); popfq; add $128, %%rsp" ::
                             : "cc", "memory");
    else
        __asm__ volatile("sub $128, %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; add $128, %%rsp" ::
                             : "cc", "memory");
}

/* Ends the child. */
void child_is(bool right) {
    if (in_child) _exit(right ? 0 : 1);
}

class ForkStepped : public unit::PausedWorkerTest {
  protected:
    void SetUp() override {
        PausedWorkerTest::SetUp();
        struct sigaction action = {};
        action.sa_sigaction = on_step;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGTRAP, &action, &before_);
        steps = failed = 0;
        stride = 1;
        other_ = std::thread([this] { end_.get_future().wait(); });
    }
    void TearDown() override {
        end_.set_value();
        other_.join();
        sigaction(SIGTRAP, &before_, nullptr);
        EXPECT_LT(5u, steps);
        EXPECT_EQ(0u, failed) << "of " << steps << ", first " << first_failed << ", status "
                              << first_status;
        PausedWorkerTest::TearDown();
    }

  private:
    struct sigaction before_ = {};
    std::promise<void> end_;
    std::thread other_;
};

/* Returns whether blocks that two threads allocate in turn are distinct. */
bool two_threads_share_nothing() {
    constexpr size_t kBlocks = 64;
    static unsigned char *mine[kBlocks], *theirs[kBlocks];
    for (auto &p : mine) memset(p = static_cast<unsigned char *>(lm_block_alloc(64)), 1, 64);
    unit::in_thread([] {
        for (auto &p : theirs) memset(p = static_cast<unsigned char *>(lm_block_alloc(64)), 2, 64);
    });
    bool right = true;
    for (size_t i = 0; i < kBlocks; i++) {
        right = right && mine[i][0] == 1 && mine[i][63] == 1 && theirs[i][0] == 2;
        memset(mine[i], 0, 64);
        memset(theirs[i], 0, 64);
        lm_block_free(mine[i]);
        lm_block_free(theirs[i]);
    }
    return right;
}

TEST_F(ForkStepped, AThreadsFirstAllocation) {
    stride = 5;
    unit::in_thread([] {
        trap(true);
        void *p = lm_block_alloc(64);
        trap(false);
        lm_theap_t *heap = lm_heap_mine();
        child_is(p != nullptr && heap != nullptr && heap->active && heap->lock.inside == 0 &&
                 heap->token == lm_thread_token() && two_threads_share_nothing());
        lm_block_free(p);
    });
}

pthread_key_t key;

/* Runs in the same rounds as the heap's own destructor, and after it. */
void after_the_heap(void *round) {
    if (round == &key && lm_heap_mine() != nullptr) {
        pthread_setspecific(key, &key + 1);
        trap(true);
        return;
    }
    trap(false);
    child_is(two_threads_share_nothing());
}

TEST_F(ForkStepped, AThreadsEnd) {
    stride = 5;
    lm_block_free(lm_block_alloc(16)); /* the heap's key exists before this one */
    ASSERT_EQ(0, pthread_key_create(&key, after_the_heap));
    unit::in_thread([] {
        std::vector<void *> some = unit::blocks(3, 64);
        some.push_back(lm_block_alloc(3000));
        unit::free_blocks(some);
        pthread_setspecific(key, &key);
    });
    pthread_key_delete(key);
}

TEST_F(ForkStepped, APauseOfTheWorker) {
    lm_purge_policy.worker = false; /* starts none while signals are blocked */
    lm_purge_resume();              /* the fixture's pause */
    ASSERT_EQ(0u, lm_space.stop);
    trap(true);
    lm_purge_pause();
    lm_purge_resume();
    trap(false);
    child_is(lm_space.stop == 0);
    lm_purge_pause();
    lm_purge_policy.worker = true;
}

TEST_F(ForkStepped, AWalk) {
    trap(true);
    lm_idle_hold();
    lm_idle_let();
    trap(false);
    unit::in_thread([] { lm_block_free(lm_block_alloc(64)); });
    if (in_child) {
        lm_heap_collect();
        child_is(lm_load_relaxed(&lm_heaps_kept) == 0);
    }
}

#else

TEST(ForkStepped, OnlyOnX86WithoutASanitizer) {
    GTEST_SKIP() << "a sanitizer's locks do not survive a fork between any two instructions, and "
                    "only x86 traps after each of them";
}

#endif

} // namespace

/* free_race_test.cc: threads that free the same object at the same moment.
 *
 * Between the check of an object and its change of state another thread may pass the same check.
 * Each round is a child process in which four threads free one object; the second free has to end
 * it. The release build finds double frees of large objects only, so only these are tested there.
 * How the threads meet is left to the scheduler: a build that loses the race does so in some of the
 * rounds.
 */
#include "libc_test.h"

#include <pthread.h>
#include <sys/wait.h>

#include <atomic>

namespace {

using libc_test::hide;
using libc_test::kDebugBuild;
using libc_test::kSecureBuild;

constexpr int kThreads = 4, kRounds = 60;

void *shared;
std::atomic<int> waiting;

void *free_it(void *) {
    waiting++;
    while (waiting < kThreads) sched_yield(); /* all start together */
    free(hide(shared));
    return nullptr;
}

/* Ends with status 0 iff every free came back. */
[[noreturn]] void race(size_t size) {
    close(2); /* the reports are not this test's */
    shared = malloc(hide(size));
    pthread_t threads[kThreads];
    for (auto &thread : threads) {
        if (pthread_create(&thread, nullptr, free_it, nullptr) != 0) _exit(1);
    }
    for (auto &thread : threads) pthread_join(thread, nullptr);
    _exit(0);
}

TEST(FreeRace, TheSecondFreeEndsTheProgram) {
    for (size_t size : {size_t{16}, size_t{100}, size_t{1000}, size_t{5000}, size_t{40000},
                        size_t{100000}, size_t{1} << 20}) {
        if (!kDebugBuild && !kSecureBuild && size <= 65536) continue;
        for (int round = 0; round < kRounds; round++) {
            pid_t child = fork();
            ASSERT_GE(child, 0);
            if (child == 0) race(size);
            int status = 0;
            ASSERT_EQ(waitpid(child, &status, 0), child);
            ASSERT_TRUE(WIFSIGNALED(status)) << size << " bytes, status " << status;
            ASSERT_EQ(WTERMSIG(status), SIGABRT) << size << " bytes";
        }
    }
}

} // namespace

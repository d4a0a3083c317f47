// fork_order_test.cc: the registry's handlers of fork are older than the heap's: a program may set
// up a named allocator before loam's own constructor runs. The child still finds the list whole,
// and so does the parent.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern "C" {
#include "family/family.h"
#include "os/os.h"
}

namespace {

const loam_kind kSound = {"sound", [](const loam_entry *, loam_usage *) {},
                          [](const loam_entry *) { return true; }, nullptr};

std::atomic<bool> slow; /* whether a fork waits where other threads pass the locks that it holds */

void wait_in_the_fork() {
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(15));
}

/* Runs before the library's constructor of the same number, which is linked behind. The oldest
 * handler runs last before a fork, and first after it. */
__attribute__((constructor(101))) void before_the_heap() {
    pthread_atfork(wait_in_the_fork, nullptr, nullptr);
    lm_port_watch();
}

size_t members() {
    size_t count = 0;
    loam_registry_visit(
        [](const loam_usage *, void *context) { ++*static_cast<size_t *>(context); }, &count);
    return count;
}

/* Three threads add and remove members while the process forks. */
void forks_beside_changes(int forks) {
    size_t got;
    void *chunk = loam_source_get(loam_pages(), 4096, 16, &got);
    ASSERT_NE(chunk, nullptr);
    loam_source_put(loam_pages(), chunk, got);
    std::atomic<bool> stop{false};
    auto busy = [&] {
        while (!stop) {
            loam_entry entry;
            lm_entry_init(&entry, &kSound, "busy", false);
            lm_entry_deinit(&entry);
        }
    };
    std::thread first(busy), second(busy), third(busy);
    int bad = 0;
    for (int i = 0; i < forks && bad == 0; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            loam_entry mine;
            lm_entry_init(&mine, &kSound, "mine", false);
            lm_entry_deinit(&mine);
            _exit(members() <= 3 ? 0 : 1);
        }
        waitpid(child, &bad, 0);
    }
    stop = true;
    first.join();
    second.join();
    third.join();
    EXPECT_EQ(bad, 0);
    EXPECT_EQ(members(), 0u);
}

TEST(ForkOrder, NobodyIsInTheListAtTheFork) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork of many threads";
#endif
    forks_beside_changes(400);
}

/* The fork gives the port's locks before the heap's. Catches: a thread that has passed one of them
 * finds it given and never ends its passing, so that the fork waits for ever. */
TEST(ForkOrder, ThreadsPassWhileTheForkWaits) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork of many threads";
#endif
    slow = true;
    forks_beside_changes(100);
    slow = false;
}

} // namespace

// fork_order_test.cc: the registry's handlers of fork are older than the heap's: a program may set up a named allocator
// before loam's own constructor runs. The child still finds the list whole, and so does the parent.
#include <gtest/gtest.h>

#include <atomic>
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

/* In front of the library's of the same number, which is linked behind. */
__attribute__((constructor(101))) void before_the_heap() { lm_port_watch(); }

size_t members() {
    size_t count = 0;
    loam_registry_visit(
        [](const loam_usage *, void *context) { ++*static_cast<size_t *>(context); }, &count);
    return count;
}

TEST(ForkOrder, NobodyIsInTheListAtTheFork) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork of many threads";
#endif
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
    for (int i = 0; i < 400 && bad == 0; i++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
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

} // namespace

/* handlers_test.cc: a thread registers and removes handlers while other threads report. Each call
 * is made with one of the registered pairs of function and argument, and no thread waits for
 * another. ThreadSanitizer checks the order of accesses. */
#include "stress.h"

#include <loam/handlers.h>
#include <loam/options.h>

namespace {

/* A handler and an argument that belong together, and the wrong pairs that were seen. */
int first, second;
std::atomic<unsigned> calls{0}, wrong{0};

void on_error_first(int, const char *message, void *argument) {
    if (argument != &first || strncmp(message, "loam: ", 6) != 0) wrong++;
    loam_free(loam_malloc(100));
    calls++;
}
void on_error_second(int, const char *, void *argument) {
    if (argument != &second) wrong++;
    calls++;
}
void on_output(const char *text, size_t bytes, void *argument) {
    if (argument != &second || text[bytes - 1] != '\n') wrong++;
    calls++;
}
bool on_oom(size_t, void *argument) {
    if (argument != &first) wrong++;
    calls++;
    return false;
}

TEST(Handlers, SetWhileOthersReport) {
    ASSERT_EQ(0, loam_option_set("on_error", "ignore"));
    ASSERT_EQ(0, loam_option_set("show_errors", "0"));
    loam_output_register(on_output, &second);
    static char foreign[4096];
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; t++) {
        threads.emplace_back([&, t] {
            for (unsigned i = 0; !done.load(std::memory_order_relaxed); i++) {
                loam_free(foreign + 64 * t);
                if (i % 64 == 0 && t == 0) loam_options_print();
                if (i % 16 != 0) continue;
                void *volatile p = loam_malloc(size_t{1} << 45);
                EXPECT_EQ(nullptr, p);
            }
        });
    }
    std::thread setter([&] {
        for (stress::Clock clock; clock.running();) {
            loam_error_register(on_error_first, &first);
            loam_oom_register(on_oom, &first);
            loam_error_register(on_error_second, &second);
            loam_error_register(nullptr, nullptr);
            loam_oom_register(nullptr, nullptr);
        }
        done = true;
    });
    setter.join();
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(0u, wrong.load());
    EXPECT_GT(calls.load(), 1000u / stress::kSlowness);
    loam_output_register(nullptr, nullptr);
    ASSERT_EQ(0, loam_option_set("on_error", "abort"));
    ASSERT_EQ(0, loam_option_set("show_errors", "1"));
}

/* Options change while threads allocate and the worker purges. */
TEST(Options, SetWhileOthersAllocate) {
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; t++) {
        threads.emplace_back([&, t] {
            std::vector<void *> blocks(200);
            for (unsigned i = 0; !done.load(std::memory_order_relaxed); i++) {
                void *&p = blocks[i * 7 % blocks.size()];
                loam_free(p);
                p = loam_malloc(size_t{1} << (4 + (i + static_cast<unsigned>(t)) % 17));
                memset(p, 1, 16);
            }
            for (void *p : blocks) loam_free(p);
        });
    }
    const char *names[] = {"purge_delay", "page_reset", "purge_thread", "large_os_pages",
                           "large_os_pages_after"};
    const char *values[][2] = {
        {"10", "300"}, {"0", "1"}, {"0", "1"}, {"1", "auto"}, {"0", "16MiB"}};
    unsigned turn = 0;
    for (stress::Clock clock; clock.running(); turn++) {
        for (int o = 0; o < 5; o++) EXPECT_EQ(0, loam_option_set(names[o], values[o][turn % 2]));
        std::this_thread::sleep_for(std::chrono::milliseconds(turn % 20));
    }
    done = true;
    for (std::thread &thread : threads) thread.join();
    for (int o = 0; o < 5; o++) EXPECT_EQ(0, loam_option_set(names[o], values[o][1]));
    EXPECT_GT(turn, 5u);
}

} // namespace

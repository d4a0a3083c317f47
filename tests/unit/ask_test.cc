/* ask_test.cc: once questions to the system are forbidden, and the last ones have been waited for,
 * no thread asks any more. */
#include <gtest/gtest.h>

extern "C" {
#include "os/os.h"
}

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace {

using Milliseconds = std::chrono::milliseconds;

class Ask : public testing::Test {
  protected:
    void TearDown() override { lm_ask_forbid(false); }
};

void forbid() {
    lm_ask_forbid(true);
    lm_ask_await();
}

Milliseconds time_of_forbid() {
    auto start = std::chrono::steady_clock::now();
    forbid();
    return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - start);
}

/* A thread that asks, from the end of the constructor to end(). */
class Asker {
  public:
    Asker() {
        while (!asks_) std::this_thread::yield();
    }
    void end() {
        go_on_ = true;
        thread_.join();
    }

  private:
    std::atomic<bool> asks_{false}, go_on_{false};
    std::thread thread_{[this] {
        EXPECT_TRUE(lm_ask_begin());
        asks_ = true;
        while (!go_on_) std::this_thread::yield();
        lm_ask_end();
    }};
};

TEST_F(Ask, IsRefusedOnceForbidden) {
    ASSERT_TRUE(lm_ask_begin());
    lm_ask_end();
    lm_ask_forbid(true);
    EXPECT_FALSE(lm_ask_begin());
    EXPECT_FALSE(lm_ask_begin()) << "a refused question must not count";
    lm_ask_forbid(false);
    EXPECT_TRUE(lm_ask_begin());
    lm_ask_end();
}

TEST_F(Ask, AnotherThreadSQuestionIsWaitedFor) {
    std::atomic<bool> asks{false}, ended{false};
    std::thread other([&] {
        ASSERT_TRUE(lm_ask_begin());
        asks = true;
        std::this_thread::sleep_for(Milliseconds(20));
        ended = true;
        lm_ask_end();
    });
    while (!asks) std::this_thread::yield();
    forbid();
    EXPECT_TRUE(ended);
    other.join();
}

TEST_F(Ask, AThreadThatIsStoppedIsNotWaitedForLong) {
    Asker other;
    EXPECT_GE(time_of_forbid(), Milliseconds(100));
    other.end();
}

/* No question is asked after the forbidding call has returned. */
TEST_F(Ask, NobodyAsksAfterwards) {
    std::atomic<bool> over{false}, forbidden{false};
    std::atomic<unsigned> late{0}, asked{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) {
        threads.emplace_back([&] {
            while (!over) {
                if (!lm_ask_begin()) continue;
                asked++;
                if (forbidden) late++;
                lm_ask_end();
            }
        });
    }
    for (int i = 0; i < 100; i++) {
        for (unsigned before = asked; asked == before;) std::this_thread::yield();
        forbid();
        forbidden = true;
        std::this_thread::yield();
        forbidden = false;
        lm_ask_forbid(false);
    }
    over = true;
    for (std::thread &thread : threads) thread.join();
    EXPECT_EQ(late, 0u);
}

TEST_F(Ask, TheChildOfAForkDoesNotWaitForOtherThreads) {
    Asker other;
    pid_t pid = fork();
    if (pid == 0) {
        lm_ask_after_fork();
        _exit(time_of_forbid() < Milliseconds(150) ? 0 : 1);
    }
    other.end();
    int status = -1;
    ASSERT_EQ(pid, waitpid(pid, &status, 0));
    EXPECT_EQ(0, status);
}

} // namespace

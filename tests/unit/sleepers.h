/* sleepers.h: threads of a test that sleep until they get something to do; and a check whether the
 * worker can see that they sleep. */
#ifndef LOAM_TESTS_UNIT_SLEEPERS_H
#define LOAM_TESTS_UNIT_SLEEPERS_H

#include "heap_unit.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace unit {

constexpr const char *kNobodySleeps = "nobody is seen to sleep here";

/* Not under ThreadSanitizer, whose calls are not the program's, nor in an emulator, which makes
 * other calls. */
inline bool sleepers_are_seen() {
    if (LM_TSAN) return false;
    std::atomic<unsigned> tid{0};
    std::atomic<uintptr_t> stack_top{0};
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false, seen = false;
    std::thread sleeper([&] {
        std::unique_lock<std::mutex> lock(mutex);
        stack_top = lm_os_stack_top();
        tid = (unsigned)syscall(SYS_gettid);
        while (!over) changed.wait(lock);
    });
    for (int i = 0; i < 200 && !seen; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        seen = tid != 0 && lm_os_thread_sleeps(tid, stack_top);
    }
    {
        std::lock_guard<std::mutex> lock(mutex);
        over = true;
    }
    changed.notify_all();
    sleeper.join();
    return seen;
}

/* A thread that does what it is told, and sleeps in between. */
class Helper {
  public:
    Helper() : thread_([this] { work(); }) {}
    ~Helper() {
        if (thread_.joinable()) end();
    }
    void run(std::function<void()> body) {
        start(std::move(body));
        await();
    }
    void start(std::function<void()> body) {
        std::unique_lock<std::mutex> lock(mutex_);
        body_ = std::move(body);
        changed_.notify_all();
    }
    void await() {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return body_ == nullptr; });
    }
    void end() {
        start([this] { ended_ = true; });
        thread_.join();
    }

  private:
    void work() {
        std::unique_lock<std::mutex> lock(mutex_);
        while (!ended_) {
            changed_.wait(lock, [this] { return body_ != nullptr; });
            lock.unlock();
            body_();
            lock.lock();
            body_ = nullptr;
            changed_.notify_all();
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    std::function<void()> body_;
    bool ended_ = false;
    std::thread thread_;
};

/* Ticks until the condition holds; it may take a few before the kernel says that a thread
 * sleeps. */
template <typename Condition> bool within_ticks(unsigned ticks, Condition condition) {
    for (unsigned i = 0; i < ticks && !condition(); i++) {
        (void)lm_idle_collect(false);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
}

} // namespace unit

#endif

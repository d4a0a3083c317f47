/* baton.h: a thread that does what it is told, step by step, while the teller waits.
 *
 * Threads that pass a baton: one of them runs at a time, so that a program of calls from several
 * threads is one interleaving, and repeats exactly.
 */
#ifndef LOAM_TESTS_MODEL_BATON_H
#define LOAM_TESTS_MODEL_BATON_H

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace model {

class Baton {
  public:
    Baton() : thread_([this] { run(); }) {}
    /* The thread ends. */
    ~Baton() {
        pass(nullptr);
        thread_.join();
    }
    Baton(const Baton &) = delete;
    Baton &operator=(const Baton &) = delete;

    template <typename Step> void tell(Step step) {
        std::function<void()> function = step;
        pass(&function);
    }

  private:
    void pass(const std::function<void()> *step) {
        std::unique_lock<std::mutex> lock(mutex_);
        step_ = step;
        told_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !told_; });
    }
    void run() {
        for (;;) {
            std::unique_lock<std::mutex> lock(mutex_);
            changed_.wait(lock, [this] { return told_; });
            bool over = step_ == nullptr;
            if (!over) (*step_)();
            told_ = false;
            changed_.notify_all();
            if (over) return;
        }
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    const std::function<void()> *step_ = nullptr;
    bool told_ = false;
    std::thread thread_;
};

} // namespace model

#endif

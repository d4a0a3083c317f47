/* thread_bytes_test.cc: loam_thread_bytes compared with a count of the test's own, over random
 * programs.
 *
 * Threads allocate, resize and free objects of all kinds, hand them to one another, sleep until the
 * worker collects from them, and end first-class heaps. The numbers must be exact at each call, to
 * the byte of the blocks. Vectors of the tests are the C library's, because this program's malloc
 * is not loam.
 */
#include "effort.h"
#include "loam/heap.h"
#include "loam/malloc.h"
#include "loam/stats.h"

#include <gtest/gtest.h>

extern "C" {
#include "survey/survey.h"
}

#include <limits.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace {

uint64_t bytes_of(const void *p) { return lm_block_bytes(lm_page_of(p)); }

struct Exchange {
    std::mutex mutex;
    std::vector<void *> objects;

    void give(void *p) {
        std::lock_guard<std::mutex> guard(mutex);
        objects.push_back(p);
    }
    void *take() {
        std::lock_guard<std::mutex> guard(mutex);
        if (objects.empty()) return nullptr;
        void *p = objects.back();
        objects.pop_back();
        return p;
    }
};

class Program {
  public:
    Program(unsigned seed, Exchange *exchange) : random_(seed), exchange_(exchange) {}

    void run(int steps) {
        uint64_t allocated = 1, freed = 1;
        ASSERT_EQ(0, loam_thread_bytes(&allocated, &freed));
        EXPECT_EQ(0u, allocated) << "the first call begins";
        EXPECT_EQ(0u, freed);
        for (int i = 0; i < steps && !testing::Test::HasFailure(); i++) step();
        for (void *p : mine_) end(p);
        mine_.clear();
        if (heap_ != nullptr) loam_heap_destroy(heap_);
        compare("at the end");
    }

  private:
    size_t any_size() {
        switch (random_() % 12) {
        case 0: return 1 + random_() % 70000;
        case 1: return 65537 + random_() % 1000000;
        case 2: return 1 + random_() % 8000;
        default: return 1 + random_() % 600;
        }
    }

    void begun(void *p) {
        ASSERT_NE(nullptr, p);
        allocated_ += bytes_of(p);
        mine_.push_back(p);
    }

    void end(void *p) {
        freed_ += bytes_of(p);
        loam_free(p);
    }

    void *take_any() {
        if (mine_.empty()) return nullptr;
        size_t i = random_() % mine_.size();
        void *p = mine_[i];
        mine_[i] = mine_.back();
        mine_.pop_back();
        return p;
    }

    void resize() {
        void *p = take_any();
        if (p == nullptr) return;
        uint64_t had = bytes_of(p);
        void *there = loam_realloc(p, any_size());
        ASSERT_NE(nullptr, there);
        uint64_t has = bytes_of(there);
        if (there != p || has != had) {
            allocated_ += has;
            freed_ += had;
        }
        mine_.push_back(there);
    }

    void use_heap() {
        if (heap_ == nullptr) heap_ = loam_heap_create();
        ASSERT_NE(nullptr, heap_);
        for (int i = 0; i < 50; i++) {
            void *p = loam_heap_malloc(heap_, any_size());
            ASSERT_NE(nullptr, p);
            allocated_ += bytes_of(p);
            if (random_() % 3 != 0) end(p);
        }
    }

    void end_heap() {
        if (heap_ == nullptr) return;
        if (random_() % 2 != 0)
            loam_heap_destroy(heap_);
        else
            loam_heap_delete(heap_);
        heap_ = nullptr;
    }

    /* A thread that leaves objects to the others when it ends: its pages have no owner then. */
    void be_left_some() {
        std::vector<size_t> sizes;
        for (int i = 0; i < 300; i++) sizes.push_back(any_size());
        std::thread([&] {
            for (size_t size : sizes) {
                void *p = loam_malloc(size);
                ASSERT_NE(nullptr, p);
                if (size % 4 != 0)
                    exchange_->give(p);
                else
                    loam_free(p);
            }
        }).join();
        for (int i = 0; i < 200; i++) {
            void *p = exchange_->take();
            if (p != nullptr) end(p);
        }
    }

    void compare(const char *when) {
        uint64_t allocated, freed;
        ASSERT_EQ(0, loam_thread_bytes(&allocated, &freed));
        EXPECT_EQ(allocated_, allocated) << when;
        EXPECT_EQ(freed_, freed) << when;
    }

    void step() {
        unsigned what = random_() % 1000;
        void *p;
        if (what < 400) {
            begun(loam_malloc(any_size()));
        } else if (what < 440) {
            begun(loam_calloc(1, any_size()));
        } else if (what < 470) {
            begun(loam_malloc_aligned(any_size(), size_t(16) << random_() % 9));
        } else if (what < 480) {
            begun(loam_malloc_aligned_offset(any_size(), 64, 8 + random_() % 32));
        } else if (what < 800) {
            if ((p = take_any()) != nullptr) end(p);
        } else if (what < 860) {
            if ((p = take_any()) != nullptr) exchange_->give(p);
        } else if (what < 950) {
            if ((p = exchange_->take()) != nullptr) end(p);
        } else if (what < 970) {
            resize();
        } else if (what < 980) {
            use_heap();
        } else if (what < 982) {
            end_heap();
        } else if (what < 983) {
            std::this_thread::sleep_for(std::chrono::milliseconds(120)); /* until it is parked */
        } else if (what < 984) {
            (void)loam_collect();
        } else if (what < 986) {
            be_left_some();
        } else {
            compare("on the way");
        }
    }

    std::mt19937 random_;
    Exchange *exchange_;
    std::vector<void *> mine_;
    loam_heap *heap_ = nullptr;
    uint64_t allocated_ = 0, freed_ = 0;
};

void run_threads(unsigned seed, int steps) {
    Exchange exchange;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; i++) {
        threads.emplace_back([=, &exchange] { Program(seed * 16 + i, &exchange).run(steps); });
    }
    for (auto &thread : threads) thread.join();
    while (void *p = exchange.take()) loam_free(p);
}

TEST(ThreadBytes, AreExactInRandomProgramsOfThreads) {
    for (unsigned seed = 1; seed <= 2 && !HasFailure(); seed++)
        run_threads(seed, int(effort::fewer(4000)));
}

TEST(ThreadBytes, AreExactWhereObjectsAreSampled) {
    lm_sampling.rate = 20;
    lm_quiet_end();
    run_threads(3, int(effort::fewer(3000)));
    lm_sampling.rate = 0;
}

TEST(ThreadBytes, AreExactWhereMemoryIsFilled) {
    lm_perturb_set(0x5a);
    run_threads(4, int(effort::fewer(3000)));
    lm_perturb_set(0);
    run_threads(5, int(effort::fewer(1000)));
}

TEST(ThreadBytes, BeginAtTheFirstCallOfEachThread) {
    std::thread([] {
        void *before = loam_malloc(100);
        uint64_t allocated, freed;
        ASSERT_EQ(0, loam_thread_bytes(&allocated, &freed));
        EXPECT_EQ(0u, allocated + freed);
        uint64_t bytes = bytes_of(before);
        loam_free(before);
        ASSERT_EQ(0, loam_thread_bytes(nullptr, &freed));
        EXPECT_EQ(bytes, freed) << "it counts who frees";
        ASSERT_EQ(0, loam_thread_bytes(&allocated, nullptr));
        EXPECT_EQ(0u, allocated);
    }).join();
    std::thread([] {
        uint64_t allocated, freed;
        ASSERT_EQ(0, loam_thread_bytes(&allocated, &freed));
        EXPECT_EQ(0u, allocated + freed) << "the heap of a thread that has ended begins anew";
    }).join();
}

/* A destructor of thread-local data that runs after loam's, in its last round. For
 * ThreadSanitizer that is after the thread's end, which join does not order. */
pthread_key_t late_key;
std::atomic<int> late_rounds, late_answer;

void be_late(void *value) {
    uint64_t allocated;
    late_answer = loam_thread_bytes(&allocated, nullptr);
    if (++late_rounds < PTHREAD_DESTRUCTOR_ITERATIONS) pthread_setspecific(late_key, value);
}

TEST(ThreadBytes, AreNotKnownOfAThreadThatHasEnded) {
    std::thread([] { loam_free(loam_malloc(1)); }).join(); /* loam's key is made before this one */
    ASSERT_EQ(0, pthread_key_create(&late_key, be_late));
    std::thread([] {
        uint64_t allocated;
        EXPECT_EQ(0, loam_thread_bytes(&allocated, nullptr));
        pthread_setspecific(late_key, &late_key);
    }).join();
    EXPECT_EQ(PTHREAD_DESTRUCTOR_ITERATIONS, late_rounds.load());
    EXPECT_EQ(-EAGAIN, late_answer.load());
}

} // namespace

/* model_test.cc: random programs of every function of loam/malloc.h against a shadow
 * (model/twin.h).
 *
 * Each thread allocates in every form, resizes in every form, expands, frees in every form, and
 * hands objects to the next thread. After each step the shadow knows what must hold: contents,
 * alignment at the offset, zeroes in what a zeroed object grew by, usable sizes, that expand did
 * not move, that no two objects overlap. A failing program prints its seed; MODEL_SEED=<number> in
 * the environment runs that one alone. Some of the objects are a first-class heap's that all
 * threads share, from every form of loam/heap.h; any function resizes and frees them, and theirs
 * any other object. It cannot see memory that is lost: forms_test.cc.
 */
#include "effort.h"
#include "model/twin.h"

#include <gtest/gtest.h>
#include <loam/heap.h>
#include <loam/malloc.h>

extern "C" {
#include "survey/survey.h"
}

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using model::Object;
using model::Random;
using model::Twin;

constexpr unsigned kOperations = effort::fewer(30000);
constexpr size_t kLive = 300;

struct Held {
    Object object;
    size_t align = 16;
    size_t offset = 0;
    bool zeroed = false; /* all of it from functions that zero: may be resized by one */
};

struct Program {
    struct Mailbox {
        std::mutex mutex;
        std::vector<Held> held;
    };
    Program(uint64_t seed_, unsigned threads)
        : seed(seed_), boxes(threads), heap(loam_heap_create()) {}
    ~Program() { loam_heap_destroy(heap); }

    uint64_t seed;
    std::vector<Mailbox> boxes;
    loam_heap *heap;
    Twin twin;
    std::atomic<bool> failed{false};
    std::mutex mutex;
    std::string failure;

    void fail(const std::string &what) {
        std::lock_guard<std::mutex> lock(mutex);
        if (failure.empty()) failure = what;
        failed = true;
    }
};

bool all_zero(const unsigned char *p, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        if (p[i] != 0) return false;
    }
    return true;
}

class Worker {
  public:
    Worker(Program &program, unsigned number)
        : program_(program), number_(number), random_(program.seed * 31 + number) {}

    void run() {
        unsigned operations = kOperations / static_cast<unsigned>(program_.boxes.size());
        for (unsigned i = 0; i < operations && !program_.failed; i++) {
            if (i % 32 == 0) receive();
            unsigned kind = static_cast<unsigned>(random_.below(100));
            if (live_.size() < kLive && (live_.empty() || kind < 40)) {
                allocate();
                continue;
            }
            size_t index = random_.below(live_.size());
            Held held = live_[index];
            live_[index] = live_.back();
            live_.pop_back();
            if (!check(held)) return;
            if (kind < 55) {
                resize(held);
            } else if (kind < 65) {
                expand(held);
            } else if (kind < 75) {
                hand_over(held);
            } else {
                release(held);
            }
        }
    }

    void free_all() {
        receive();
        for (const Held &held : live_) {
            if (!check(held)) return;
            release(held);
        }
        live_.clear();
    }

  private:
    size_t any_size() {
        unsigned kind = static_cast<unsigned>(random_.below(100));
        if (kind < 35) return random_.below(1 + LOAM_SMALL_MOST);
        if (kind < 70) return random_.below(9000);
        if (kind < 90) return 60000 + random_.below(9000);
        if (kind < 97) return random_.below(300000);
        return (size_t{1} << 20) + random_.below(size_t{2} << 20);
    }
    size_t any_align() {
        return size_t{1} << (random_.percent(90) ? random_.below(13) : random_.below(20));
    }
    size_t any_offset(size_t align) {
        if (random_.percent(30)) return 16 * random_.below(20);
        return random_.percent(80) ? random_.below(align + 1) : random_.next();
    }

    static std::string describe(const Held &held) {
        return model::describe(held.object) + " align " + std::to_string(held.align) + " offset " +
               std::to_string(held.offset) + (held.zeroed ? " zeroed" : "");
    }

    /* What was just handed out, with zeroes from `zero_from` on, if it is zeroed. */
    void keep(Held held, size_t zero_from) {
        Object &object = held.object;
        if (object.p == nullptr) return program_.fail("NULL: " + describe(held));
        if ((reinterpret_cast<uintptr_t>(object.p) + held.offset) % held.align != 0)
            return program_.fail("misaligned: " + describe(held));
        if (held.zeroed && !all_zero(object.p, zero_from, object.size))
            return program_.fail("not zero from " + std::to_string(zero_from) + ": " +
                                 describe(held));
        object.usable = loam_usable_size(object.p);
        object.align = held.offset % held.align == 0 ? held.align : 1;
        object.seed = random_.next();
        std::string wrong = program_.twin.add(object);
        if (!wrong.empty()) return program_.fail(wrong);
        model::write_contents(object);
        live_.push_back(held);
    }

    bool check(const Held &held) {
        const Object &object = held.object;
        size_t at = model::changed_contents(object.p, object, object.size);
        if (at != SIZE_MAX)
            program_.fail("changed at " + std::to_string(at) + ": " + describe(held));
        if (loam_usable_size(object.p) != object.usable)
            program_.fail("usable size changed: " + describe(held));
        return !program_.failed;
    }

    void allocate() {
        if (random_.percent(30)) return allocate_in_heap();
        Held held;
        size_t size = any_size(), count = 1 + random_.below(9);
        bool aligned = random_.percent(50);
        void *p = nullptr;
        if (aligned) {
            held.align = any_align();
            bool offset = random_.percent(60);
            if (offset) held.offset = any_offset(held.align);
            size_t align = held.align, at = held.offset;
            switch (random_.below(3)) {
            case 0:
                p = offset ? loam_malloc_aligned_offset(size, align, at)
                           : loam_malloc_aligned(size, align);
                break;
            case 1:
                p = offset ? loam_zalloc_aligned_offset(size, align, at)
                           : loam_zalloc_aligned(size, align);
                held.zeroed = true;
                break;
            default:
                p = offset ? loam_calloc_aligned_offset(count, size / count, align, at)
                           : loam_calloc_aligned(count, size / count, align);
                size = size / count * count;
                held.zeroed = true;
            }
        } else {
            switch (random_.below(6)) {
            case 0: p = loam_malloc(size); break;
            case 1: p = loam_malloc_small(size %= LOAM_SMALL_MOST + 1); break;
            case 2:
                p = loam_zalloc_small(size %= LOAM_SMALL_MOST + 1);
                held.zeroed = true;
                break;
            case 3:
                p = loam_zalloc(size);
                held.zeroed = true;
                break;
            case 4: p = loam_mallocarray(count, size / count), size = size / count * count; break;
            default:
                p = loam_calloc(count, size / count), size = size / count * count;
                held.zeroed = true;
            }
        }
        held.object.p = static_cast<unsigned char *>(p);
        held.object.size = size;
        keep(held, 0);
    }

    void allocate_in_heap() {
        Held held;
        loam_heap *heap = program_.heap;
        size_t size = any_size(), count = 1 + random_.below(9), align = any_align();
        unsigned kind = static_cast<unsigned>(random_.below(9));
        if (kind < 3) held.align = align;
        if (kind == 3 || kind == 4) size %= LOAM_SMALL_MOST + 1;
        if (kind == 0 || kind == 5 || kind == 6) size = size / count * count;
        held.zeroed = kind < 2 || kind == 3 || kind == 5 || kind == 7;
        void *p = nullptr;
        switch (kind) {
        case 0: p = loam_heap_calloc_aligned(heap, count, size / count, align); break;
        case 1: p = loam_heap_zalloc_aligned(heap, size, align); break;
        case 2: p = loam_heap_malloc_aligned(heap, size, align); break;
        case 3: p = loam_heap_zalloc_small(heap, size); break;
        case 4: p = loam_heap_malloc_small(heap, size); break;
        case 5: p = loam_heap_calloc(heap, count, size / count); break;
        case 6: p = loam_heap_mallocarray(heap, count, size / count); break;
        case 7: p = loam_heap_zalloc(heap, size); break;
        default: p = loam_heap_malloc(heap, size);
        }
        held.object.p = static_cast<unsigned char *>(p);
        held.object.size = size;
        if (loam_heap_of(p) != heap) return program_.fail("another heap's: " + describe(held));
        keep(held, 0);
    }

    size_t other_size(const Held &held) {
        size_t have = held.object.size, size = any_size();
        if (random_.percent(30)) size = have + random_.below(300);
        if (random_.percent(20)) size = have - have / 3;
        if (random_.percent(20)) size = held.object.usable - random_.below(2);
        return size == 0 || size > (size_t{6} << 20) ? 1 : size;
    }

    void *resized_into_heap(Held &held, size_t size) {
        void *p = held.object.p;
        loam_heap *heap = program_.heap;
        unsigned kind = static_cast<unsigned>(random_.below(4));
        plain_ = kind < 3;
        held.align = plain_ ? 16 : any_align();
        held.offset = 0;
        switch (kind) {
        case 0:
            if (!held.zeroed) return loam_heap_reallocarray(heap, p, size, 1);
            return loam_heap_recalloc(heap, p, 1, size);
        case 1:
            if (!held.zeroed) return loam_heap_realloc(heap, p, size);
            return loam_heap_rezalloc(heap, p, size);
        case 2: held.zeroed = false; return loam_heap_reallocf(heap, p, size);
        default:
            if (!held.zeroed) return loam_heap_realloc_aligned(heap, p, size, held.align);
            return random_.percent(50) ? loam_heap_rezalloc_aligned(heap, p, size, held.align)
                                       : loam_heap_recalloc_aligned(heap, p, size, 1, held.align);
        }
    }

    void *resized(Held &held, size_t size) {
        void *p = held.object.p;
        bool zero = held.zeroed && random_.percent(70);
        held.zeroed = zero;
        if (random_.percent(30)) return resized_into_heap(held, size);
        unsigned kind = static_cast<unsigned>(random_.below(4));
        plain_ = kind < 2;
        switch (kind) {
        case 0:
            held.align = 16;
            held.offset = 0;
            if (zero)
                return random_.percent(50) ? loam_rezalloc(p, size) : loam_recalloc(p, 1, size);
            return random_.percent(50) ? loam_realloc(p, size) : loam_reallocarray(p, size, 1);
        case 1:
            held.align = 16;
            held.offset = 0;
            held.zeroed = false;
            return loam_reallocf(p, size);
        case 2: /* another alignment */
            held.align = any_align();
            held.offset = 0;
            if (!zero) return loam_realloc_aligned(p, size, held.align);
            return random_.percent(50) ? loam_rezalloc_aligned(p, size, held.align)
                                       : loam_recalloc_aligned(p, size, 1, held.align);
        default: /* the same, at the same offset */
            if (random_.percent(20)) held.offset = any_offset(held.align);
            if (!zero) return loam_realloc_aligned_offset(p, size, held.align, held.offset);
            return random_.percent(50)
                       ? loam_rezalloc_aligned_offset(p, size, held.align, held.offset)
                       : loam_recalloc_aligned_offset(p, 1, size, held.align, held.offset);
        }
    }

    void resize(Held held) {
        Held next = held;
        next.object.size = other_size(held);
        std::string wrong = program_.twin.remove(held.object);
        if (!wrong.empty()) return program_.fail(wrong);
        next.object.p = static_cast<unsigned char *>(resized(next, next.object.size));
        if (next.object.p == nullptr) return program_.fail("not resized: " + describe(next));
        /* What stays where it is may go on lying at an offset. */
        if (next.object.p == held.object.p && plain_) {
            next.align = held.align;
            next.offset = held.offset;
        }
        size_t kept = std::min(held.object.size, next.object.size);
        size_t at = model::changed_contents(next.object.p, held.object, kept);
        if (at != SIZE_MAX)
            return program_.fail("lost at " + std::to_string(at) + ": " + describe(held) + " to " +
                                 describe(next));
        keep(next, kept);
    }

    void expand(Held held) {
        Object &object = held.object;
        size_t size = random_.percent(50) ? object.usable + random_.below(100000)
                                          : random_.below(object.usable + 1);
        /* Off the shadow meanwhile: what it grows by may be nobody's. */
        std::string wrong = program_.twin.remove(object);
        if (!wrong.empty()) return program_.fail(wrong);
        void *p = loam_expand(object.p, size);
        if (p != nullptr && p != object.p) return program_.fail("expand moved: " + describe(held));
        if (p == nullptr && size <= object.usable)
            return program_.fail("expand refused " + std::to_string(size) + ": " + describe(held));
        Held next = held;
        if (p != nullptr) {
            next.object.size = size;
            next.zeroed = false;
        }
        size_t kept = std::min(object.size, next.object.size);
        size_t at = model::changed_contents(next.object.p, object, kept);
        if (at != SIZE_MAX) return program_.fail("expand changed contents: " + describe(held));
        keep(next, next.object.size);
    }

    void release(const Held &held) {
        std::string wrong = program_.twin.remove(held.object);
        if (!wrong.empty()) return program_.fail(wrong);
        switch (random_.below(4)) {
        case 0: loam_free_sized(held.object.p, held.object.size); break;
        case 1: loam_free_aligned_sized(held.object.p, held.align, held.object.size); break;
        default: loam_free(held.object.p);
        }
    }

    void hand_over(const Held &held) {
        Program::Mailbox &box = program_.boxes[(number_ + 1) % program_.boxes.size()];
        std::lock_guard<std::mutex> lock(box.mutex);
        box.held.push_back(held);
    }
    void receive() {
        Program::Mailbox &box = program_.boxes[number_];
        std::lock_guard<std::mutex> lock(box.mutex);
        live_.insert(live_.end(), box.held.begin(), box.held.end());
        box.held.clear();
    }

    Program &program_;
    unsigned number_;
    Random random_;
    std::vector<Held> live_;
    bool plain_ = false; /* the last resize named no alignment */
};

void run_program(uint64_t seed, unsigned threads) {
    printf("program: MODEL_SEED=%" PRIu64 ", %u thread(s)\n", seed, threads);
    Program program(seed, threads);
    std::vector<std::unique_ptr<Worker>> workers;
    for (unsigned i = 0; i < threads; i++) workers.push_back(std::make_unique<Worker>(program, i));
    std::vector<std::thread> running;
    for (auto &worker : workers) running.emplace_back([&] { worker->run(); });
    for (std::thread &thread : running) thread.join();
    /* By a thread that allocated nothing of it. */
    for (auto &worker : workers) worker->free_all();
    ASSERT_EQ(program.failure, "") << "MODEL_SEED=" << seed << ", " << threads << " threads";
    ASSERT_EQ(program.twin.live(), 0u);
    loam_heap_numbers numbers;
    loam_heap_usage(program.heap, &numbers);
    ASSERT_EQ(numbers.objects, 0u);
    lm_heap_check();
    lm_span_check();
}

std::vector<uint64_t> seeds(unsigned fixed) {
    const char *given = getenv("MODEL_SEED");
    if (given != nullptr) return {strtoull(given, nullptr, 0)};
    std::vector<uint64_t> all;
    for (unsigned i = 1; i <= fixed; i++) all.push_back(i);
    auto now = std::chrono::system_clock::now().time_since_epoch();
    all.push_back(static_cast<uint64_t>(std::chrono::nanoseconds(now).count()));
    return all;
}

TEST(ApiModel, OneThread) {
    EFFORT_ONE_THREAD();
    for (uint64_t seed : seeds(5)) {
        run_program(seed, 1);
        if (HasFatalFailure()) return;
    }
}

TEST(ApiModel, FourThreadsThatHandObjectsOn) {
    for (uint64_t seed : seeds(2)) {
        run_program(seed, 4);
        if (HasFatalFailure()) return;
    }
}

} // namespace

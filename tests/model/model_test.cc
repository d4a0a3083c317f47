/* model_test.cc: random programs of operations against the slow twin of twin.h.
 *
 * A program is a seed and a number of threads. Each thread allocates (malloc, calloc, aligned),
 * reallocates, writes to the last usable byte, frees (also sized), and hands objects to other
 * threads, who check, keep or free them. Phases of growth and shrinking alternate, and sizes lean
 * to the edges of size classes, slices and pages. In the last tests threads end and leave their
 * objects to threads that did not exist yet.
 *
 * A failing program prints its seed; MODEL_SEED=<number> in the environment runs that one alone in
 * every test. With one thread it repeats exactly, with several only the operations do, not their
 * interleaving.
 */
#include "effort.h"
#include "user.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using model::Object;
using model::Random;
using model::Twin;

constexpr unsigned kOperations = effort::fewer(60000);
constexpr size_t kLiveObjects = 600;            /* of a thread */
constexpr size_t kLiveBytes = size_t{96} << 20; /* of all threads */

size_t edge_of_a_class(Random &random) {
    if (random.percent(50)) return 16 * (1 + random.below(64));
    size_t base = size_t{1024} << random.below(6);
    return base + base / 8 * (1 + random.below(8));
}

size_t any_size(Random &random) {
    unsigned kind = static_cast<unsigned>(random.below(100));
    if (kind < 40) return edge_of_a_class(random) - 1 + random.below(3);
    if (kind < 60) return random.below(257);
    if (kind < 85) return random.below(size_t{1} << (1 + random.below(16)));
    if (kind < 93) return 65536 - 4097 + random.below(8195);
    if (kind < 98) return (1 + random.below(16)) * 65536 - 2 + random.below(5);
    if (kind < 99) return (1 + random.below(500)) * 4096 - 1 + random.below(3);
    return (size_t{1} << 20) + random.below(size_t{7} << 20);
}

/* What the threads of one program share. */
struct Program {
    struct Mailbox {
        std::mutex mutex;
        std::vector<Object> objects;
    };

    Program(uint64_t seed_, unsigned threads_)
        : seed(seed_), threads(threads_), mailboxes(threads_) {}

    void fail(const std::string &what) {
        std::lock_guard<std::mutex> lock(failure_mutex);
        if (failure.empty()) failure = what;
        failed = true;
    }

    uint64_t seed;
    unsigned threads;
    std::vector<Mailbox> mailboxes;
    Twin twin;
    std::atomic<bool> failed{false};
    std::mutex failure_mutex;
    std::string failure;
};

class Worker {
  public:
    Worker(Program &program, unsigned number, unsigned generation)
        : program_(program), number_(number), user_(program.twin),
          random_(model::mix(program.seed) + generation * 1000003u + number * 7919u) {}

    void run(unsigned operations) {
        for (unsigned i = 0; i < operations && !program_.failed; i++) {
            if (i % 4096 == 0) growing_ = !growing_;
            if (i % 64 == 0) receive();
            step();
        }
    }

    /* Leaves everything to whoever opens the mailbox next. */
    void bequeath() {
        Program::Mailbox &box = program_.mailboxes[random_.below(program_.threads)];
        std::vector<Object> objects = user_.hand_over_all();
        std::lock_guard<std::mutex> lock(box.mutex);
        box.objects.insert(box.objects.end(), objects.begin(), objects.end());
    }

    void free_all() {
        receive();
        while (!user_.live().empty() && !program_.failed) release(user_.live().size() - 1);
    }

  private:
    void expect(const std::string &wrong) {
        if (!wrong.empty()) program_.fail(wrong);
    }

    void step() {
        unsigned kind = static_cast<unsigned>(random_.below(100));
        size_t live = user_.live().size();
        bool full = live >= kLiveObjects || user_.bytes() > kLiveBytes / program_.threads;
        unsigned allocate = full ? 0 : growing_ ? 50 : 25;
        if (live == 0 || kind < allocate) {
            allocate_one();
        } else if (kind < allocate + 15) {
            reallocate(pick());
        } else if (kind < allocate + 22) {
            expect(user_.use_whole(pick()));
        } else if (kind < allocate + 30 && program_.threads > 1) {
            hand_over(pick());
        } else {
            release(pick());
        }
    }

    size_t pick() { return random_.below(user_.live().size()); }

    void allocate_one() {
        size_t size = any_size(random_);
        uint64_t seed = random_.next();
        unsigned kind = static_cast<unsigned>(random_.below(100));
        if (kind < 55) {
            expect(user_.malloc(size, seed));
        } else if (kind < 78) {
            size_t count = 1 + random_.below(8);
            expect(user_.calloc(count, size / count, seed));
        } else {
            unsigned bits = static_cast<unsigned>(random_.percent(90) ? 3 + random_.below(10)
                                                                      : 13 + random_.below(8));
            expect(user_.aligned(size, size_t{1} << bits, seed));
        }
    }

    void release(size_t index) {
        expect(user_.free(index, random_.percent(30) ? model::Free::Sized : model::Free::Plain));
    }

    void reallocate(size_t index) {
        size_t old = user_.live()[index].size, size;
        switch (random_.below(4)) {
        case 0: size = any_size(random_); break;
        case 1: size = old + 1 + random_.below(200); break;
        case 2: size = old + old / 2; break;
        default: size = old - old / 3; break;
        }
        if (size == 0) size = 1;
        if (size > (size_t{24} << 20)) size = size_t{24} << 20;
        expect(user_.realloc(index, size, random_.next()));
    }

    void hand_over(size_t index) {
        Object object = user_.hand_over(index);
        unsigned to = static_cast<unsigned>((number_ + 1 + random_.below(program_.threads - 1)) %
                                            program_.threads);
        Program::Mailbox &box = program_.mailboxes[to];
        std::lock_guard<std::mutex> lock(box.mutex);
        box.objects.push_back(object);
    }

    void receive() {
        std::vector<Object> received;
        {
            Program::Mailbox &box = program_.mailboxes[number_];
            std::lock_guard<std::mutex> lock(box.mutex);
            received.swap(box.objects);
        }
        for (const Object &object : received) expect(user_.receive(object));
    }

    Program &program_;
    unsigned number_;
    model::User user_;
    Random random_;
    bool growing_ = false;
};

/* Runs the program and ends with nothing live. Several generations: threads end, others follow. */
void run_program(uint64_t seed, unsigned threads, unsigned generations, unsigned operations) {
    printf("program: MODEL_SEED=%" PRIu64 ", %u thread(s), %u generation(s)\n", seed, threads,
           generations);
    Program program(seed, threads);
    for (unsigned generation = 0; generation < generations; generation++) {
        std::vector<std::thread> running;
        for (unsigned number = 0; number < threads; number++) {
            running.emplace_back([&program, number, generation, operations] {
                Worker worker(program, number, generation);
                worker.run(operations);
                worker.bequeath();
            });
        }
        for (std::thread &thread : running) thread.join();
    }
    for (unsigned number = 0; number < threads; number++) {
        Worker(program, number, generations).free_all();
    }
    ASSERT_EQ(program.failure, "") << "MODEL_SEED=" << seed << ", " << threads << " threads";
    ASSERT_EQ(program.twin.live(), 0u);
}

/* The seed of the environment alone, or `fixed` seeds and one that no run had before. */
std::vector<uint64_t> seeds(unsigned fixed) {
    const char *given = getenv("MODEL_SEED");
    if (given != nullptr) return {strtoull(given, nullptr, 0)};
    std::vector<uint64_t> all;
    for (unsigned i = 1; i <= fixed; i++) all.push_back(i);
    auto now = std::chrono::system_clock::now().time_since_epoch();
    all.push_back(static_cast<uint64_t>(std::chrono::nanoseconds(now).count()));
    return all;
}

TEST(Model, OneThread) {
    EFFORT_ONE_THREAD();
    for (uint64_t seed : seeds(5)) {
        run_program(seed, 1, 1, kOperations);
        if (HasFatalFailure()) return;
    }
}

class ModelThreads : public testing::TestWithParam<unsigned> {};

TEST_P(ModelThreads, HandObjectsToEachOther) {
    unsigned threads = GetParam();
    for (uint64_t seed : seeds(1)) {
        run_program(seed, threads, 1, kOperations * 2 / threads);
        if (HasFatalFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Model, ModelThreads, testing::Values(2u, 3u, 4u, 8u));

class ModelGenerations : public testing::TestWithParam<unsigned> {};

TEST_P(ModelGenerations, InheritFromEndedThreads) {
    unsigned threads = GetParam();
    for (uint64_t seed : seeds(1)) {
        run_program(seed, threads, 12, kOperations / 6 / threads);
        if (HasFatalFailure()) return;
    }
}

INSTANTIATE_TEST_SUITE_P(Model, ModelGenerations, testing::Values(1u, 2u, 5u, 8u));

} // namespace

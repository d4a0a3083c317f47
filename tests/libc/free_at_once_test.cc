/* free_at_once_test.cc: two threads free the same object within the same few nanoseconds, many
 * times.
 *
 *   owner        makes objects ─┐                      ┌─> makes more: all are distinct
 *   two threads                 └─> free each, at once ┘   reports: one for each object
 *
 * free_race_test.cc leaves it to the scheduler how threads meet. Here they wait for each other
 * in a loop before each object, and a random delay moves one of them by some nanoseconds, so
 * that each look of one falls between any two steps of the other. Mistakes are ignored and
 * counted: exactly one of the two frees must be reported, however they meet. The owner is a
 * third thread, or one of the two: then the secure build promises a report for objects that
 * have no owner only, and the release build for those that it promises one for at all, which
 * have none either. All of it is done with objects of malloc, of a heap, of a heap in memory that
 * is the program's own, and of one in a range that was reserved; heaps have none at an offset.
 */
#include "libc_test.h"

#include <loam/arena.h>
#include <loam/handlers.h>
#include <loam/heap.h>
#include <loam/malloc.h>
#include <loam/options.h>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <thread>

namespace {

using libc_test::hide;
using libc_test::kDebugBuild;
using libc_test::kSecureBuild;

struct shape {
    size_t size, align, offset; /* align 0: malloc */
    size_t grows_to;            /* not 0: the second thread does not free, but makes it so long */
    bool ownerless;             /* and the release build finds a second free, too */
};

/* The release build promises a report for large objects and for those at an offset. */
const shape kShapes[] = {
    {0, 0, 0, 0, false},           {16, 0, 0, 0, false},          {100, 0, 0, 0, false},
    {1000, 0, 0, 0, false},        {5000, 0, 0, 0, false},        {40000, 0, 0, 0, false},
    {70000, 0, 0, 0, true},        {100000, 0, 0, 0, true},       {1 << 20, 0, 0, 0, true},
    {3 << 20, 0, 0, 0, true},      {100, 4096, 0, 0, false},      {100, 1 << 17, 0, 0, true},
    {200000, 1 << 18, 0, 0, true}, {50, 64, 8, 0, true},          {3000, 1024, 40, 0, true},
    {100000, 4096, 24, 0, true},   {300000, 1 << 17, 8, 0, true}, {40, 0, 0, 900, false},
    {500, 0, 0, 30000, false},     {9000, 0, 0, 64000, false},
};

/* Where objects are made: `heap` is NULL for malloc. */
struct place {
    const char *name;
    loam_heap *heap;
};

std::atomic<size_t> reports;

void count_report(int, const char *, void *) { reports++; }

class race {
  public:
    race(const shape &what, const place &where, unsigned seed, bool by_owner)
        : what_(what), where_(where), seed_(seed), by_owner_(by_owner) {
        pthread_barrier_init(&all_, nullptr, 3);
    }
    ~race() { pthread_barrier_destroy(&all_); }
    race(const race &) = delete;
    race &operator=(const race &) = delete;

    /* For a while: on a busy machine each meeting takes long. */
    void run() {
        std::thread threads[2];
        auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
        for (unsigned i = 0; i < 2; i++) threads[i] = std::thread([this, i] { work(i); });
        while (std::chrono::steady_clock::now() < end) {
            size_t before = reports;
            pass();
            if (!by_owner_) make_all();
            pass();
            pass();
            EXPECT_EQ(reports - before, kObjects) << describe();
            expect_sound();
            if (testing::Test::HasFailure()) break;
        }
        over_ = true;
        pass();
        for (auto &thread : threads) thread.join();
    }

  private:
    static constexpr size_t kObjects = 64;

    void *make() const {
        if (where_.heap != nullptr && what_.align == 0)
            return loam_heap_malloc(where_.heap, hide(what_.size));
        if (where_.heap != nullptr)
            return loam_heap_malloc_aligned(where_.heap, what_.size, what_.align);
        if (what_.align == 0) return malloc(hide(what_.size));
        if (what_.offset == 0) return loam_malloc_aligned(what_.size, what_.align);
        return loam_malloc_aligned_offset(what_.size, what_.align, what_.offset);
    }

    void make_all() {
        for (auto &object : objects_) object.store(make(), std::memory_order_relaxed);
    }

    /* What lies in two lists would be handed out twice. */
    void expect_sound() const {
        std::set<void *> all;
        std::vector<void *> kept;
        for (size_t i = 0; i < 2 * kObjects; i++) {
            void *p = make();
            EXPECT_TRUE(all.insert(p).second) << describe();
            memset(p, 1, what_.size);
            kept.push_back(p);
        }
        for (void *p : kept) free(p);
    }

    void pass() { pthread_barrier_wait(&all_); }

    void meet(unsigned object) {
        unsigned turns = 0;
        met_[object]++;
        while (met_[object] < 2) {
            if (++turns % 1024 == 0) sched_yield();
        }
    }

    /* Each on a processor of its own, if there are two. */
    static void stay_apart(unsigned number) {
        cpu_set_t all, one;
        CPU_ZERO(&one);
        if (sched_getaffinity(0, sizeof all, &all) != 0) return;
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (CPU_ISSET(cpu, &all) && number-- == 0) CPU_SET(cpu, &one);
        }
        (void)sched_setaffinity(0, sizeof one, &one); /* refused if there is no second */
    }

    void work(unsigned number) {
        stay_apart(number);
        std::mt19937 random(seed_ + number);
        while (true) {
            pass();
            if (over_) return;
            if (by_owner_ && number == 0) make_all();
            pass();
            for (unsigned i = 0; i < kObjects; i++) {
                void *p = objects_[i].load(std::memory_order_relaxed);
                unsigned delay = random() % 2 == 0 ? 0 : random() % 400;
                meet(i);
                for (unsigned turns = 0; turns < delay; turns++) __asm__ volatile("");
                end(p, number);
            }
            pass();
            if (number == 0)
                for (auto &count : met_) count = 0;
        }
    }

    void end(void *p, unsigned number) const {
        if (number == 1 && what_.grows_to != 0)
            free(realloc(hide(p), hide(what_.grows_to)));
        else if (number == 1 && what_.align == 0)
            loam_free_sized(hide(p), what_.size);
        else
            free(hide(p));
    }

    std::string describe() const {
        return std::to_string(what_.size) + " bytes, alignment " + std::to_string(what_.align) +
               ", offset " + std::to_string(what_.offset) + where_.name +
               (by_owner_ ? ", one is the owner" : "") + ", seed " + std::to_string(seed_);
    }

    const shape what_;
    const place where_;
    const unsigned seed_;
    const bool by_owner_;
    std::atomic<void *> objects_[kObjects] = {};
    std::atomic<unsigned> met_[kObjects] = {};
    pthread_barrier_t all_; /* the three threads */
    std::atomic<bool> over_{false};
};

class FreeAtOnce : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(loam_option_set("on_error", "ignore"), 0);
        loam_error_register(count_report, nullptr);
    }
    void TearDown() override { loam_error_register(nullptr, nullptr); }

    static void race_all(const place &where) {
        unsigned seed = std::random_device()();
        for (const shape &what : kShapes) {
            if (where.heap != nullptr && what.offset != 0) continue;
            bool known = what.ownerless || kDebugBuild;
            if (known || kSecureBuild) race(what, where, seed, false).run();
            if (HasFailure()) break;
            if (known) race(what, where, seed, true).run();
            if (HasFailure()) break;
        }
    }

    /* Arenas stay to the end of the program: free pages may be kept for a while. */
    static void race_in(loam_arena *arena, const char *name) {
        loam_heap *heap = loam_heap_create_in(arena, true);
        ASSERT_NE(heap, nullptr);
        race_all({name, heap});
        loam_heap_delete(heap);
    }

    static constexpr size_t kArenaBytes = 64 << 20;
};

TEST_F(FreeAtOnce, OneOfTwoIsReported) { race_all({", by malloc", nullptr}); }

TEST_F(FreeAtOnce, OneOfTwoIsReportedInAHeap) {
    loam_heap *heap = loam_heap_create();
    ASSERT_NE(heap, nullptr);
    race_all({", in a heap", heap});
    loam_heap_delete(heap);
}

TEST_F(FreeAtOnce, OneOfTwoIsReportedInMemoryOfTheProgram) {
    void *start =
        mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(start, MAP_FAILED);
    loam_arena *arena = nullptr;
    ASSERT_EQ(loam_manage_memory(start, kArenaBytes, 0, LOAM_NODE_ANY, &arena), 0);
    race_in(arena, ", in memory of the program");
}

TEST_F(FreeAtOnce, OneOfTwoIsReportedInAReservedRange) {
    loam_arena *arena = nullptr;
    ASSERT_EQ(loam_reserve_memory(kArenaBytes, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena), 0);
    race_in(arena, ", in a reserved range");
}

} // namespace

/* deferred_test.cc: the program's deferred free and heartbeats: when the deferred free is called,
 * how often, with which number, and what it may do. tests/faulty/limits_test.cc tests it at the end
 * of memory. */
#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "os/os.h"
#include "survey/survey.h"
}

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Call {
    bool force;
    unsigned long long heartbeat;
    std::thread::id thread;
};

struct Calls {
    std::vector<Call> all;
    unsigned inside = 0, nested = 0;
} calls;

void note(bool force, unsigned long long heartbeat, void *argument) {
    auto to = static_cast<Calls *>(argument);
    if (to->inside++ > 0) to->nested++;
    to->all.push_back({force, heartbeat, std::this_thread::get_id()});
    to->inside--;
    errno = EDOM;
}

class Deferred : public testing::Test {
  protected:
    void SetUp() override {
        calls = {};
        calls.all.reserve(1 << 20);
    }
    void TearDown() override { loam_deferred_free_register(nullptr, nullptr); }
};

/* The same calls of a thread, blocks of several sizes kept and freed. */
void work() {
    std::vector<void *> kept;
    kept.reserve(5000);
    for (size_t i = 0; i < 5000; i++) {
        kept.push_back(loam_malloc(i % 700));
        if (i % 3 == 0) loam_free(kept[i / 2]), kept[i / 2] = nullptr;
        if (i % 500 == 0) loam_free(loam_calloc(1, 100000));
    }
    for (void *p : kept) loam_free(p);
}

TEST_F(Deferred, CalledWithARisingHeartbeat) {
    loam_deferred_free_register(note, &calls);
    unsigned long long before = loam_heartbeat();
    errno = 0;
    work();
    EXPECT_EQ(0, errno);
    ASSERT_GT(calls.all.size(), 10u);
    for (size_t i = 0; i < calls.all.size(); i++) {
        EXPECT_EQ(before + 1 + i, calls.all[i].heartbeat);
        EXPECT_FALSE(calls.all[i].force);
    }
    EXPECT_EQ(calls.all.back().heartbeat, loam_heartbeat());
    size_t n = calls.all.size();
    loam_deferred_free_register(nullptr, nullptr);
    work();
    EXPECT_EQ(n, calls.all.size());
    EXPECT_GT(loam_heartbeat(), before + n) << "which goes on";
}

TEST_F(Deferred, EveryWayToAllocateGetsThere) {
    loam_deferred_free_register(note, &calls);
    loam_heap *heap = loam_heap_create();
    const struct {
        const char *name;
        void *(*allocate)(loam_heap *, size_t);
    } ways[] = {
        {"malloc", [](loam_heap *, size_t n) { return loam_malloc(n); }},
        {"calloc", [](loam_heap *, size_t n) { return loam_calloc(1, n); }},
        {"aligned", [](loam_heap *, size_t n) { return loam_malloc_aligned(n, 64); }},
        {"heap", [](loam_heap *h, size_t n) { return loam_heap_malloc(h, n); }},
    };
    for (size_t bytes : {size_t{64}, size_t{3000}, size_t{200000}}) {
        for (auto &way : ways) {
            size_t before = calls.all.size();
            std::vector<void *> kept;
            for (int i = 0; i < 300; i++) kept.push_back(way.allocate(heap, bytes));
            EXPECT_GT(calls.all.size(), before) << way.name << " " << bytes;
            if (bytes > 65536) {
                EXPECT_EQ(before + 300, calls.all.size()) << "each large one, once";
            }
            for (void *p : kept) loam_free(p);
        }
    }
    loam_heap_destroy(heap);
}

/* A program that frees as much as it allocates comes there all the same. */
TEST_F(Deferred, ASteadyProgramGetsThere) {
    std::vector<void *> kept(1000);
    for (void *&p : kept) p = loam_malloc(48);
    work();
    loam_deferred_free_register(note, &calls);
    for (size_t i = 0; i < 100000; i++) {
        void *&p = kept[i * 7919 % kept.size()];
        loam_free(p);
        p = loam_malloc(48);
    }
    EXPECT_GT(calls.all.size(), 50u);
    for (void *p : kept) loam_free(p);
}

TEST_F(Deferred, TheSameCallsHaveTheSameHeartbeats) {
    ASSERT_EQ(0, loam_option_set("purge_thread", "0")); /* nobody else takes part */
    std::vector<unsigned long long> counts;
    for (int i = 0; i < 3; i++) {
        fflush(stdout);
        int ends[2];
        ASSERT_EQ(0, pipe(ends));
        pid_t child = fork();
        if (child == 0) {
            unsigned long long before = loam_heartbeat();
            work();
            unsigned long long beats = loam_heartbeat() - before;
            _exit(write(ends[1], &beats, sizeof beats) == sizeof beats ? 0 : 1);
        }
        unsigned long long beats = 0;
        EXPECT_EQ(static_cast<ssize_t>(sizeof beats), read(ends[0], &beats, sizeof beats));
        close(ends[0]);
        close(ends[1]);
        int status = -1;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        EXPECT_EQ(0, status);
        counts.push_back(beats);
    }
    ASSERT_EQ(0, loam_option_set("purge_thread", "1"));
    EXPECT_GT(counts[0], 10u);
    EXPECT_EQ(counts[0], counts[1]);
    EXPECT_EQ(counts[0], counts[2]);
}

TEST_F(Deferred, EachThreadHasItsOwn) {
    loam_deferred_free_register(note, &calls);
    work();
    unsigned long long mine = loam_heartbeat();
    size_t n = calls.all.size();
    std::thread other([] {
        EXPECT_EQ(0u, loam_heartbeat());
        work();
        EXPECT_GT(loam_heartbeat(), 10u);
    });
    std::thread::id id = other.get_id();
    other.join();
    EXPECT_EQ(mine, loam_heartbeat());
    ASSERT_GT(calls.all.size(), n);
    EXPECT_EQ(id, calls.all[n].thread);
    EXPECT_EQ(1u, calls.all[n].heartbeat);
}

/* It frees what was put off, allocates enough to come to slow paths itself, and is not called
 * meanwhile. */
TEST_F(Deferred, MayFreeAndAllocateAndIsNotReentered) {
    static std::vector<void *> list;
    static unsigned inside, deepest, ran;
    list.reserve(10000);
    for (int i = 0; i < 10000; i++) list.push_back(loam_malloc(64));
    loam_deferred_free_register(
        [](bool, unsigned long long, void *) {
            if (++inside > deepest) deepest = inside;
            ran++;
            for (int i = 0; i < 100 && !list.empty(); i++) loam_free(list.back()), list.pop_back();
            void *p[50];
            for (size_t i = 0; i < 50; i++) p[i] = loam_malloc(2000 + 100 * i);
            for (void *one : p) loam_free(one);
            loam_free(loam_malloc(300000));
            loam_collect();
            inside--;
        },
        nullptr);
    for (int round = 0; round < 20 && !list.empty(); round++) work();
    EXPECT_TRUE(list.empty());
    EXPECT_GT(ran, 10u);
    EXPECT_EQ(1u, deepest);
    loam_deferred_free_register(nullptr, nullptr);
    lm_heap_check();
    lm_span_check();
}

TEST_F(Deferred, CollectForces) {
    loam_deferred_free_register(note, &calls);
    work();
    size_t n = calls.all.size();
    unsigned long long before = loam_heartbeat();
    loam_collect();
    ASSERT_EQ(n + 1, calls.all.size());
    EXPECT_TRUE(calls.all[n].force);
    EXPECT_EQ(before, calls.all[n].heartbeat);
    EXPECT_EQ(before, loam_heartbeat());
}

TEST_F(Deferred, NotUnderALockOfTheFamilys) {
    loam_deferred_free_register(note, &calls);
    lm_told_hold();
    work();
    loam_collect();
    EXPECT_EQ(0u, calls.all.size());
    lm_told_let();
    work();
    EXPECT_GT(calls.all.size(), 0u);
    EXPECT_EQ(0u, calls.nested);
}

} // namespace

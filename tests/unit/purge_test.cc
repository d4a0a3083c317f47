/* purge_test.cc: when dirty memory goes back to the system: after the purge delay, by the worker or
 * by a thread that frees.
 *
 * The tests wait generously, and only lower bounds of times are exact: a busy machine may be late,
 * but loam must not be early. tests/faulty/ tests refusals by the system, tests/stress/ many
 * threads.
 */
#include <gtest/gtest.h>

extern "C" {
#include "span/internal.h"
#include "span/span.h"
}

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kSlice = LM_SLICE_BYTES;

lm_span_stats_t stats() {
    lm_span_stats_t now;
    lm_span_stats(&now);
    return now;
}

template <typename Condition> bool soon(Condition condition) {
    for (int i = 0; i < 2000; i++) {
        if (condition()) return true;
        std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
}

/* Nothing is dirty afterwards, so that none starts again. */
void stop_the_worker() {
    lm_purge_allow(false);
    lm_purge_allow(true);
}

class Purge : public testing::Test {
  protected:
    void SetUp() override {
        lm_purge_policy = {300, true};
        stop_the_worker();
        lm_purge_all();
        lm_space.purged_lately = lm_space.retaken_lately = 0;
    }
    void TearDown() override {
        stop_the_worker();
        for (lm_page_t *span : mine_) lm_span_give(span, true);
        lm_purge_all();
        stop_the_worker();
        lm_span_check();
        EXPECT_EQ(0u, stats().used_bytes);
        lm_purge_policy = {300, true};
    }
    lm_page_t *take(size_t slices) {
        lm_page_t *span = lm_span_take(slices, 1, LM_KIND_LARGE, nullptr);
        if (span == nullptr) {
            ADD_FAILURE() << "no memory";
            exit(1);
        }
        memset(lm_span_start(span), 1, slices * kSlice);
        return span;
    }
    /* Keeps spans from merging with what follows. */
    void wall() { mine_.push_back(take(1)); }

    std::vector<lm_page_t *> mine_;
};

TEST_F(Purge, WhoWaitsForAPurgeSleeps) {
    lm_lock_take(&lm_space.lock);
    lm_space.busy++; /* as if another thread were purging, and could not run */
    lm_lock_give(&lm_space.lock);
    size_t before = __atomic_load_n(&lm_os_counts.calls, __ATOMIC_RELAXED);
    std::thread waiter([] { (void)lm_purge_all(); });
    std::this_thread::sleep_for(milliseconds(300));
    size_t calls = __atomic_load_n(&lm_os_counts.calls, __ATOMIC_RELAXED) - before;
    lm_lock_take(&lm_space.lock);
    lm_space.busy--;
    lm_lock_give(&lm_space.lock);
    waiter.join();
    /* A thread that yields instead makes some 100,000 calls in that time; one that sleeps for a
     * millisecond each time a call at most. The test may pass for a thread that yields on a busy
     * machine, but never fails for one that sleeps. */
    EXPECT_LT(calls, 5000u);
}

TEST_F(Purge, TheWorkerPurgesAfterTheDelayAndEnds) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    lm_purge_policy.delay_ms = 200;
    lm_page_t *span = take(20);
    wall();
    size_t purged = stats().purged_bytes;
    auto start = steady_clock::now();
    lm_span_give(span, false);
    EXPECT_EQ(20 * kSlice, stats().dirty_bytes);
    /* Counted once it is done: what is being purged is neither dirty nor clean. */
    EXPECT_TRUE(soon([&] { return stats().purged_bytes == purged + 20 * kSlice; }));
    EXPECT_EQ(0u, stats().dirty_bytes);
    /* The tick under way when it was freed counts as a whole one. */
    EXPECT_GE(steady_clock::now() - start, milliseconds(140));
    EXPECT_TRUE(soon([] { return !lm_os_worker_running(); }));
}

/* Neither by the worker nor by who frees; but by who asks. */
TEST_F(Purge, NothingByOption) {
    for (bool worker : {true, false}) {
        lm_purge_policy = {10, worker};
        lm_purge_never = true;
        lm_page_t *span = take(200);
        wall();
        size_t purged = stats().purged_bytes;
        lm_span_give(span, true);
        lm_purge_poke(true); /* threads that sleep may have something */
        std::this_thread::sleep_for(milliseconds(100));
        EXPECT_EQ(purged, stats().purged_bytes);
        EXPECT_EQ(200 * kSlice, stats().dirty_bytes);
        EXPECT_TRUE(soon([] { return !lm_os_worker_running(); })) << "it has nothing to wait for";
        lm_purge_allow(false);
        EXPECT_EQ(200 * kSlice, stats().dirty_bytes);
        lm_purge_allow(true);
        EXPECT_EQ(200 * kSlice, lm_purge_all());
        lm_purge_never = false;
    }
}

/* The worker looks four times a delay, but at most every 10 ms and at least every 50 ms: so many
 * ticks are a delay. */
TEST_F(Purge, TicksAreAQuarterOfTheDelayWithinBounds) {
    static const struct {
        uint32_t delay_ms, ticks;
    } rows[] = {{0, 0}, {9, 1}, {20, 2}, {40, 4}, {100, 4}, {200, 4}, {300, 6}, {3600000, 72000}};
    for (const auto &row : rows) {
        lm_purge_policy.delay_ms = row.delay_ms;
        EXPECT_EQ(row.ticks, lm_purge_ticks()) << row.delay_ms << " ms";
    }
}

/* Options that change while something waits. */
TEST_F(Purge, ChangedMeanwhile) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    lm_purge_never = true;
    lm_page_t *span = take(20);
    wall();
    size_t purged = stats().purged_bytes;
    lm_span_give(span, true);
    EXPECT_TRUE(soon([] { return !lm_os_worker_running(); }));
    lm_purge_never = false;
    lm_purge_policy.delay_ms = 10;
    lm_purge_changed();
    EXPECT_TRUE(soon([&] { return stats().purged_bytes == purged + 20 * kSlice; }));
    lm_purge_policy.delay_ms = 3600000;
    span = take(20);
    wall();
    lm_span_give(span, false);
    EXPECT_TRUE(soon([] { return lm_os_worker_running(); }));
    lm_purge_policy.worker = false;
    lm_purge_changed();
    EXPECT_FALSE(lm_os_worker_running()) << "gone when this returns";
    lm_span_give(take(10), false);
    EXPECT_FALSE(lm_os_worker_running());
}

TEST_F(Purge, WhatHadToBeTakenAnewWaitsTwiceAsLong) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    lm_purge_policy.delay_ms = 200;
    uint32_t ticks = lm_purge_ticks();
    for (int round = 0; round < 2; round++) {
        lm_page_t *span = take(20);
        wall();
        EXPECT_EQ((round + 1) * ticks, lm_purge_ticks()) << "taken anew in the second round only";
        auto start = steady_clock::now();
        size_t purged = stats().purged_bytes;
        lm_span_give(span, true);
        /* Not "nothing is dirty": that holds from the start of a purge, and until its end it cannot
         * be taken. */
        ASSERT_TRUE(soon([&] { return stats().purged_bytes == purged + 20 * kSlice; }));
        if (round > 0) {
            EXPECT_GE(steady_clock::now() - start, milliseconds(350)) << "rested or not";
        }
    }
    EXPECT_TRUE(soon([] { return !lm_os_worker_running(); }));
    EXPECT_EQ(ticks, lm_purge_ticks()) << "this time nobody wanted it";
}

TEST_F(Purge, WhatIsTakenAnewCountsAtMostAsMuchAsWasPurged) {
    lm_lock_take(&lm_space.lock);
    lm_purge_retaken(1000);
    lm_lock_give(&lm_space.lock);
    EXPECT_EQ(0u, lm_space.retaken_lately);
    lm_space.purged_lately = 10;
    lm_lock_take(&lm_space.lock);
    lm_purge_retaken(1000);
    lm_lock_give(&lm_space.lock);
    EXPECT_EQ(10u, lm_space.retaken_lately);
}

TEST_F(Purge, WhatIsTakenAgainWithinTheDelayStays) {
    lm_purge_policy.delay_ms = 60000;
    lm_page_t *span = take(20);
    wall();
    char *place = lm_span_start(span);
    lm_span_give(span, false);
    std::this_thread::sleep_for(milliseconds(150));
    span = lm_span_take(20, 1, LM_KIND_LARGE, nullptr);
    ASSERT_EQ(place, lm_span_start(span));
    EXPECT_EQ(1, place[20 * kSlice - 1]) << "purged before its time";
    lm_span_give(span, false);
}

TEST_F(Purge, RestedSpansDoNotWait) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    lm_purge_policy.delay_ms = 3600000;
    lm_page_t *rested = take(20);
    wall();
    lm_page_t *fresh = take(9);
    wall();
    lm_span_give(fresh, false);
    lm_span_give(rested, true);
    EXPECT_TRUE(soon([] { return stats().dirty_bytes == 9 * kSlice; }));
    std::this_thread::sleep_for(milliseconds(150));
    EXPECT_EQ(9 * kSlice, stats().dirty_bytes) << "the other one must wait for an hour";
}

TEST_F(Purge, ALittleStartsNoWorker) {
    lm_page_t *span = take(7);
    wall();
    lm_span_give(span, false);
    EXPECT_FALSE(lm_os_worker_running());
    EXPECT_EQ(7 * kSlice, stats().dirty_bytes);
    EXPECT_EQ(7 * kSlice, lm_purge_all());
}

TEST_F(Purge, AllPurgesWhateverItsAge) {
    lm_purge_policy.delay_ms = 3600000;
    std::vector<lm_page_t *> spans;
    for (size_t i = 1; i <= 10; i++) {
        spans.push_back(take(i));
        wall();
    }
    for (lm_page_t *span : spans) lm_span_give(span, false);
    EXPECT_EQ(55 * kSlice, stats().dirty_bytes);
    size_t purges = stats().purges;
    EXPECT_EQ(55 * kSlice, lm_purge_all());
    EXPECT_EQ(purges + 10, stats().purges);
    EXPECT_EQ(0u, stats().dirty_bytes);
    EXPECT_EQ(0u, lm_purge_all());
}

TEST_F(Purge, StoppedForGoodItStaysAway) {
    lm_purge_policy.delay_ms = 10;
    lm_purge_allow(false);
    EXPECT_FALSE(lm_purge_may_work());
    lm_page_t *span = take(30);
    wall();
    lm_span_give(span, false);
    EXPECT_FALSE(lm_os_worker_running());
    lm_purge_poke(true);
    EXPECT_FALSE(lm_os_worker_running());
    lm_purge_pause();
    lm_purge_resume();
    EXPECT_FALSE(lm_purge_may_work()) << "a pause must not allow what was forbidden";
    EXPECT_EQ(30 * kSlice, stats().dirty_bytes);
    stop_the_worker();
    /* Under ThreadSanitizer none can be started, which the next attempt finds. */
    if (!LM_TSAN) {
        EXPECT_TRUE(lm_purge_may_work());
    }
}

TEST_F(Purge, PausedItIsGoneUntilResumed) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    lm_purge_policy.delay_ms = 3600000;
    lm_page_t *span = take(30);
    wall();
    lm_span_give(span, false);
    EXPECT_TRUE(lm_os_worker_running());
    lm_purge_pause();
    EXPECT_FALSE(lm_os_worker_running());
    EXPECT_TRUE(lm_purge_may_work());
    EXPECT_EQ(30 * kSlice, stats().dirty_bytes);
    lm_span_give(take(1), false);
    EXPECT_FALSE(lm_os_worker_running());
    lm_purge_resume();
    EXPECT_TRUE(lm_os_worker_running());
    stop_the_worker();
    EXPECT_FALSE(lm_os_worker_running());
}

/* Without a worker: 4 MiB may be dirty, and an eighth of what is in use; then all of it goes. */
TEST_F(Purge, WithoutAWorkerWhoFreesPurges) {
    lm_purge_policy.worker = false;
    EXPECT_FALSE(lm_purge_may_work());
    std::vector<lm_page_t *> spans;
    for (int i = 0; i < 10; i++) {
        spans.push_back(take(16));
        wall();
    }
    size_t used = stats().used_bytes / kSlice, dirty = 0;
    bool purged = false;
    for (lm_page_t *span : spans) {
        lm_span_give(span, false);
        used -= 16;
        dirty += 16;
        if (dirty > 64 + used / 8) {
            dirty = 0;
            purged = true;
        }
        EXPECT_EQ(dirty * kSlice, stats().dirty_bytes);
    }
    EXPECT_TRUE(purged);
    EXPECT_FALSE(lm_os_worker_running());
}

unsigned collected;
bool collect_awake(bool /* last */) { return lm_add_relaxed(&collected, 1u) < 3; }

TEST_F(Purge, TheLayerAboveIsAskedEveryTick) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    lm_purge_policy.delay_ms = 40;
    bool (*before)(bool) = lm_purge_collect_idle;
    lm_purge_collect_idle = collect_awake;
    lm_store_relaxed(&collected, 0u);
    lm_purge_poke(true); /* nothing is dirty: for the sake of who sleeps */
    EXPECT_TRUE(soon([] { return lm_load_relaxed(&collected) >= 4; }));
    EXPECT_TRUE(soon([] { return !lm_os_worker_running(); }));
    EXPECT_EQ(4u, lm_load_relaxed(&collected)) << "it ends once nobody has anything";
    stop_the_worker();
    lm_purge_collect_idle = before;
}

bool collects_alone, collected_alone;
bool collect_alone_slowly(bool /* last */) {
    lm_store_relaxed(&collects_alone, true);
    uint32_t never = 0;
    for (int i = 0; i < 30; i++) lm_os_wait(&never, 0, 1);
    lm_store_relaxed(&collected_alone, true);
    return false;
}

/* What the worker gives back is in no list meanwhile: a limit would be crossed by free memory. */
TEST_F(Purge, WhoCollectsWaitsForTheWorkersCollection) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    if (!lm_purge_alone()) GTEST_SKIP() << "the process has had several threads";
    bool (*before)(bool) = lm_purge_collect_idle, (*alone_before)(bool) = lm_purge_collect_alone;
    lm_purge_collect_idle = collect_awake;
    lm_purge_collect_alone = collect_alone_slowly;
    lm_purge_poke(true);
    EXPECT_TRUE(soon([] { return lm_load_relaxed(&collects_alone); }));
    lm_purge_await_alone();
    EXPECT_TRUE(lm_load_relaxed(&collected_alone));
    EXPECT_FALSE(lm_load_relaxed(&lm_space.collecting_alone));
    lm_purge_pause();
    lm_purge_collect_idle = before;
    lm_purge_collect_alone = alone_before;
    lm_purge_resume();
}

bool waits_to_collect;
bool collect_when_it_can(bool /* last */) {
    lm_store_relaxed(&waits_to_collect, true);
    for (uint32_t never = 0;; lm_os_wait(&never, 0, 1)) lm_purge_stop_here();
}

TEST_F(Purge, AWorkerThatLeavesBeforeItCollectsCollectsNoMore) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    bool (*before)(bool) = lm_purge_collect_idle;
    lm_purge_collect_idle = collect_when_it_can;
    lm_store_relaxed(&waits_to_collect, false);
    lm_purge_poke(true);
    EXPECT_TRUE(soon([] { return lm_load_relaxed(&waits_to_collect); }));
    lm_purge_pause();
    EXPECT_FALSE(lm_os_worker_running());
    EXPECT_FALSE(lm_load_relaxed(&lm_space.collecting)) << "the next worker would believe it";
    lm_purge_collect_idle = before;
    lm_purge_resume();
}

TEST_F(Purge, StopWhileItWorks) {
    lm_purge_policy.delay_ms = 0;
    for (int round = 0; round < 30; round++) {
        lm_page_t *span = take(40);
        lm_span_give(span, false);
        if (round % 3 == 0) std::this_thread::sleep_for(milliseconds(round / 3));
        stop_the_worker();
        EXPECT_FALSE(lm_os_worker_running());
        lm_span_check();
    }
}

} // namespace

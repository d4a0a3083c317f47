/* purge_test.cc: the system takes no memory back, or gives no thread to do it.
 *
 * Neither is an error that a program may notice: memory stays usable, reads as zero where calloc says
 * so, and goes back as soon as the system lets it. Without a worker, threads that free keep the dirty
 * memory below a bound. It does not test refusals within one madvise: the kernel has none.
 */
#include "child.h"

#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "heap/heap.h"
#include "os/faulty.h"
#include "span/room.h"
}

#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using faulty::Found;
using faulty::in_child;

constexpr size_t kMib = size_t{1} << 20;

lm_span_stats_t stats() {
    lm_span_stats_t now;
    lm_span_stats(&now);
    return now;
}

/* Waits, at most ten seconds, until the condition holds. */
template <typename Condition> bool soon(Condition condition) {
    for (int i = 0; i < 2000; i++) {
        if (condition()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
}

/* Allocates, writes and frees so many MiB, one by one; the last freed first, so that none merges with
 * the untouched end before the others are there. */
void make_dirty(size_t mib) {
    std::vector<void *> blocks;
    for (size_t i = 0; i < mib; i++) {
        blocks.push_back(loam_malloc(kMib));
        ASSERT_NE(nullptr, blocks.back());
        memset(blocks.back(), 0xa5, kMib);
    }
    for (void *p : blocks) loam_free(p);
    if (LM_GUARD_LINKS) lm_heap_collect(); /* the last ones wait: secure_large.c, reuse.c */
}

TEST(PurgeRefused, NothingIsLostAndMoreIsTriedLater) {
    in_child([](Found &) {
        lm_purge_policy.worker = false;
        lm_faulty_fail(LM_FAULT_PURGE, 1, LM_FAULT_ALWAYS);
        make_dirty(20);
        EXPECT_GT(lm_faulty_failures(LM_FAULT_PURGE), 0u);
        size_t dirty = stats().dirty_bytes;
        EXPECT_GE(dirty, 20 * kMib);
        EXPECT_EQ(0u, loam_collect());
        EXPECT_EQ(dirty, stats().dirty_bytes);
        EXPECT_EQ(0u, stats().purges);
        lm_span_check();
        lm_faulty_clear();
        EXPECT_EQ(dirty, loam_collect());
        EXPECT_EQ(0u, stats().dirty_bytes);
        EXPECT_EQ(dirty, stats().purged_bytes);
        lm_span_check();
    });
}

TEST(PurgeRefused, WhatWasNotPurgedIsNotTakenForZero) {
    in_child([](Found &) {
        lm_purge_policy.worker = false;
        lm_faulty_fail(LM_FAULT_PURGE, 1, LM_FAULT_ALWAYS);
        make_dirty(8);
        loam_collect();
        for (size_t bytes : {size_t{100}, size_t{5000}, size_t{200000}, 3 * kMib}) {
            unsigned char *p = static_cast<unsigned char *>(loam_calloc(bytes, 1));
            ASSERT_NE(nullptr, p);
            size_t other = 0;
            for (size_t i = 0; i < bytes; i++) other += p[i] != 0;
            EXPECT_EQ(0u, other) << bytes;
        }
        lm_span_check();
    });
}

TEST(PurgeRefused, TheWorkerTriesAgain) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    in_child([](Found &) {
        lm_purge_policy.delay_ms = 20;
        lm_faulty_fail(LM_FAULT_PURGE, 1, 5);
        make_dirty(8);
        /* Counted once it is done: what is being purged is neither dirty nor clean. */
        EXPECT_TRUE(soon([] { return stats().purged_bytes >= 8 * kMib; }));
        EXPECT_EQ(0u, stats().dirty_bytes);
        EXPECT_EQ(5u, lm_faulty_failures(LM_FAULT_PURGE));
        EXPECT_GE(lm_faulty_calls(LM_FAULT_PURGE), 6u);
        lm_purge_allow(false), lm_purge_allow(true);
        lm_span_check();
    });
}

/* Dirty memory that is never purged without a worker, and with one only after the delay. */
size_t bound() { return 4 * kMib + stats().used_bytes / 8; }

TEST(WorkerRefused, ThreadsThatFreePurge) {
    in_child([](Found &) {
        lm_faulty_fail(LM_FAULT_WORKER, 1, LM_FAULT_ALWAYS);
        EXPECT_TRUE(lm_purge_may_work());
        make_dirty(64);
        EXPECT_EQ(1u, lm_faulty_calls(LM_FAULT_WORKER)) << "asked once, and not at every free";
        EXPECT_FALSE(lm_purge_may_work());
        EXPECT_LE(stats().dirty_bytes, bound() + kMib);
        EXPECT_GT(stats().purges, 0u);
        for (int round = 0; round < 20; round++) {
            make_dirty(10);
            EXPECT_LE(stats().dirty_bytes, bound() + kMib);
        }
        EXPECT_EQ(1u, lm_faulty_calls(LM_FAULT_WORKER));
        lm_span_check();
    });
}

TEST(WorkerRefused, BothRefused) {
    in_child([](Found &) {
        lm_faulty_fail(LM_FAULT_ANY, SIZE_MAX, 0);
        void *first = loam_malloc(100); /* the arena is there */
        make_dirty(1);
        lm_purge_allow(false), lm_purge_allow(true);
        loam_collect();
        lm_faulty_fail(LM_FAULT_WORKER, 1, LM_FAULT_ALWAYS);
        make_dirty(3);
        size_t asked = lm_faulty_calls(LM_FAULT_WORKER);
        lm_faulty_fail(LM_FAULT_PURGE, 1, LM_FAULT_ALWAYS);
        make_dirty(40);
        EXPECT_EQ(1u, asked);
        EXPECT_GT(lm_faulty_failures(LM_FAULT_PURGE), 0u);
        EXPECT_GE(stats().dirty_bytes, 40 * kMib) << "nobody took it";
        lm_faulty_clear();
        make_dirty(1);
        EXPECT_LE(stats().dirty_bytes, bound() + kMib) << "the next free catches up";
        loam_free(first);
        lm_span_check();
    });
}

TEST(WorkerRefused, AllowedAgainItStarts) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    in_child([](Found &) {
        lm_purge_policy.delay_ms = 20;
        lm_faulty_fail(LM_FAULT_WORKER, 1, 1);
        make_dirty(3);
        EXPECT_FALSE(lm_purge_may_work());
        EXPECT_EQ(1u, lm_faulty_failures(LM_FAULT_WORKER));
        lm_purge_allow(false), lm_purge_allow(true);
        EXPECT_TRUE(lm_purge_may_work());
        make_dirty(3);
        EXPECT_TRUE(soon([] { return stats().dirty_bytes == 0; }));
        EXPECT_EQ(1u, lm_faulty_failures(LM_FAULT_WORKER));
        EXPECT_GE(lm_faulty_calls(LM_FAULT_WORKER), 2u);
        EXPECT_TRUE(soon([] { return !lm_os_worker_running(); })) << "nothing left to do: it ends";
        lm_span_check();
    });
}

} // namespace

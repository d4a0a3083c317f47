/* purge_test.cc: the system takes no memory back, or gives no thread to do it.
 *
 * Neither is an error that a program may notice: memory stays usable, reads as zero where calloc
 * says so, and goes back as soon as the system lets it. Memory that the system keeps, because it is
 * locked, keeps nothing else. Without a worker, threads that free keep the dirty memory below a
 * bound.
 */
#include "bytes.h"
#include "child.h"

#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "os/faulty.h"
#include "span/internal.h"
#include "survey/survey.h"
}

#include <chrono>
#include <cstring>
#include <random>
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

/* Allocates, writes and frees so many MiB, one by one; the last freed first, so that none merges
 * with the untouched end before the others are there. */
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

/* Locks parts of one large object, frees it, and compares page by page what was given back. */
struct Locked {
    static constexpr size_t kPage = 4096, kSlice = size_t{1} << 16;
    size_t bytes = 0, calls = 0;
    unsigned char *start = nullptr;
    std::vector<bool> page; /* whether it is locked */

    explicit Locked(size_t mib) : bytes(mib * kMib), page(mib * kMib / kPage, false) {
        loam_free(loam_malloc(100));
        start = static_cast<unsigned char *>(loam_malloc(bytes));
        memset(start, 0xa5, bytes);
        if (LM_GUARD_LINKS) lm_heap_collect();
        loam_collect();
    }
    void lock(size_t first, size_t pages) {
        lm_faulty_lock(start + first * kPage, pages * kPage);
        for (size_t i = first; i < first + pages; i++) page[i] = true;
    }
    void free() {
        loam_free(start);
        if (LM_GUARD_LINKS) lm_heap_collect();
        lm_faulty_clear();
        loam_collect();
        calls = lm_faulty_calls(LM_FAULT_PURGE);
        lm_span_check();
    }
    bool slice_locked(size_t s) const {
        for (size_t i = s; i < s + kSlice / kPage; i++) {
            if (page[i]) return true;
        }
        return false;
    }
    size_t locked_slices() const {
        size_t n = 0;
        for (size_t s = 0; s < page.size(); s += kSlice / kPage) n += slice_locked(s);
        return n;
    }
    static bool resident(const unsigned char *slice) {
        size_t pages = lm_os_resident_pages(slice, kSlice);
        return pages > 0 && pages != SIZE_MAX; /* SIZE_MAX: it went back with its addresses */
    }
    /* Slices without a locked page of which something was not given back. */
    size_t kept_for_nothing() const {
        size_t n = 0;
        for (size_t s = 0; s < page.size(); s += kSlice / kPage)
            n += !slice_locked(s) && resident(start + s * kPage);
        return n;
    }
};

TEST(PurgeLocked, EverySliceWithoutALockedPageGoesBack) {
    for (unsigned seed = 1; seed <= 12; seed++) {
        in_child([&](Found &) {
            lm_purge_policy.worker = false;
            Locked it(16);
            std::mt19937 chance(seed);
            size_t runs = size_t{1} << (seed % 7);
            for (size_t i = 0; i < runs; i++)
                it.lock(chance() % (it.page.size() - 200), 1 + chance() % (seed % 3 ? 3 : 200));
            if (seed % 4 == 0) it.lock(0, 1);
            if (seed % 4 == 1) it.lock(it.page.size() - 1, 1);
            it.free();
            EXPECT_EQ(0u, it.kept_for_nothing()) << "seed " << seed;
            EXPECT_LE(stats().dirty_bytes, it.locked_slices() * Locked::kSlice) << "seed " << seed;
            EXPECT_LE(it.calls, 100 * it.locked_slices() + 100)
                << "the price of a refusal is bounded, seed " << seed;
            lm_faulty_lock(nullptr, 0);
            loam_collect();
            EXPECT_EQ(0u, stats().dirty_bytes) << "unlocked, it goes back";
            lm_span_check();
        });
    }
}

TEST(PurgeLocked, WhatIsLockedAltogetherCostsFewCalls) {
    in_child([](Found &) {
        lm_purge_policy.worker = false;
        Locked it(256);
        it.lock(0, it.page.size());
        it.free();
        EXPECT_LE(it.calls, 3000u) << "also where purging goes by parts of 8 MiB";
        EXPECT_GE(stats().dirty_bytes, 250 * kMib);
        lm_faulty_lock(nullptr, 0);
        loam_collect();
        EXPECT_EQ(0u, stats().dirty_bytes);
        lm_span_check();
    });
}

TEST(PurgeLocked, TheWorkerEndsAndTheNextOneTriesAgain) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    in_child([](Found &) {
        lm_purge_policy.delay_ms = 20;
        Locked it(16);
        it.lock(100, 300);
        loam_free(it.start);
        EXPECT_TRUE(
            soon([&] { return stats().dirty_bytes <= it.locked_slices() * Locked::kSlice; }));
        EXPECT_TRUE(soon([] { return !lm_os_worker_running(); })) << "refused memory keeps none";
        EXPECT_GT(stats().dirty_bytes, 0u);
        lm_faulty_lock(nullptr, 0);
        make_dirty(40);
        EXPECT_TRUE(soon([] { return stats().dirty_bytes == 0; }));
        lm_purge_allow(false), lm_purge_allow(true);
        lm_span_check();
    });
}

/* Frees an object of which a part is locked. The worker has given back the rest, and has ended. */
void refused_in_part() {
    lm_purge_policy.delay_ms = 20;
    Locked it(16);
    it.lock(100, 300);
    loam_free(it.start);
    EXPECT_TRUE(soon([] { return stats().purges > 0 && !lm_os_worker_running(); }));
    EXPECT_GT(stats().dirty_bytes, 0u);
}

/* munlock does not wait for the lock: it may have interrupted its holder. */
TEST(PurgeLocked, ItSaysSoWhileTheArenasLockIsHeld) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    in_child([](Found &) {
        refused_in_part();
        lm_faulty_lock(nullptr, 0);
        lm_lock_take(&lm_space.lock);
        std::thread(lm_purge_unlocked).join();
        lm_lock_give(&lm_space.lock);
        EXPECT_TRUE(soon([] { return stats().dirty_bytes == 0; }));
        EXPECT_TRUE(soon([] { return !lm_os_worker_running(); }));
        lm_purge_allow(false), lm_purge_allow(true);
        lm_span_check();
    });
}

TEST(PurgeLocked, TheProgramSaysThatItHasUnlocked) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    in_child([](Found &) {
        refused_in_part();
        lm_purge_unlocked(); /* it is not true: one more attempt */
        EXPECT_TRUE(soon([] { return !lm_os_worker_running(); }));
        EXPECT_GT(stats().dirty_bytes, 0u);
        lm_faulty_lock(nullptr, 0);
        lm_purge_unlocked();
        EXPECT_TRUE(soon([] { return stats().dirty_bytes == 0; }));
        lm_purge_allow(false), lm_purge_allow(true);
        lm_span_check();
    });
}

TEST(PurgeLocked, RefusedMemoryServesAllocations) {
    in_child([](Found &) {
        lm_purge_policy.worker = false;
        Locked it(16);
        it.lock(0, it.page.size());
        it.free();
        size_t arena = stats().arena_bytes;
        for (int round = 0; round < 3; round++) {
            make_dirty(8);
            lm_span_check();
        }
        EXPECT_LE(stats().arena_bytes, arena + 2 * kMib);
        unsigned char *p = static_cast<unsigned char *>(loam_calloc(6 * kMib, 1));
        ASSERT_EQ(6 * kMib, first_other(p, 6 * kMib, 0));
        loam_free(p);
        lm_span_check();
    });
}

TEST(WorkerRefused, ThreadsThatFreePurge) {
    in_child([](Found &) {
        lm_faulty_fail(LM_FAULT_WORKER, 1, LM_FAULT_ALWAYS);
        EXPECT_TRUE(lm_purge_may_work());
        make_dirty(64);
        EXPECT_LE(lm_faulty_calls(LM_FAULT_WORKER), 8u) << "asked now and then, not at every free";
        EXPECT_FALSE(lm_purge_may_work());
        EXPECT_LE(stats().dirty_bytes, bound() + kMib);
        EXPECT_GT(stats().purges, 0u);
        for (int round = 0; round < 20; round++) {
            make_dirty(10);
            EXPECT_LE(stats().dirty_bytes, bound() + kMib);
        }
        EXPECT_LE(lm_faulty_calls(LM_FAULT_WORKER), 12u);
        lm_span_check();
    });
}

TEST(WorkerRefused, ThreadsCanBeHadAgain) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    in_child([](Found &) {
        lm_purge_policy.delay_ms = 20;
        lm_faulty_fail(LM_FAULT_WORKER, 1, 5);
        make_dirty(8);
        EXPECT_FALSE(lm_purge_may_work());
        for (int i = 0; i < 1000 && !lm_purge_may_work(); i++) make_dirty(1);
        EXPECT_TRUE(lm_purge_may_work());
        EXPECT_EQ(5u, lm_faulty_failures(LM_FAULT_WORKER));
        EXPECT_TRUE(soon([] { return stats().dirty_bytes == 0; }));
        lm_purge_allow(false), lm_purge_allow(true);
        lm_span_check();
    });
}

TEST(WorkerRefused, TheLastFreeOfAllIsPurged) {
    in_child([](Found &) {
        lm_faulty_fail(LM_FAULT_WORKER, 1, LM_FAULT_ALWAYS);
        void *p = loam_malloc(64 * kMib);
        memset(p, 1, 64 * kMib);
        loam_free(p);
        if (LM_GUARD_LINKS) lm_heap_collect();
        EXPECT_LE(stats().dirty_bytes, bound());
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
        lm_purge_policy.worker = false; /* a script refuses one thing at a time */
        lm_faulty_fail(LM_FAULT_PURGE, 1, LM_FAULT_ALWAYS);
        make_dirty(40);
        EXPECT_GE(asked, 1u);
        EXPECT_GT(lm_faulty_failures(LM_FAULT_PURGE), 0u);
        EXPECT_GE(stats().dirty_bytes, 40 * kMib) << "nobody took it";
        lm_faulty_clear();
        for (int i = 0; i < 200 && stats().dirty_bytes > bound() + kMib; i++) make_dirty(1);
        EXPECT_LE(stats().dirty_bytes, bound() + kMib) << "later frees catch up";
        loam_free(first);
        lm_span_check();
    });
}

TEST(WorkerRefused, AllowedAgainItStarts) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    in_child([](Found &) {
        lm_purge_policy.delay_ms = 20;
        lm_faulty_fail(LM_FAULT_WORKER, 1, LM_FAULT_ALWAYS);
        make_dirty(3);
        EXPECT_FALSE(lm_purge_may_work());
        EXPECT_GE(lm_faulty_failures(LM_FAULT_WORKER), 1u);
        lm_faulty_clear();
        lm_purge_allow(false), lm_purge_allow(true);
        EXPECT_TRUE(lm_purge_may_work());
        make_dirty(3);
        EXPECT_TRUE(soon([] { return stats().dirty_bytes == 0; }));
        /* On a busy machine the worker may have come to its end between two of the frees. */
        EXPECT_LE(1u, lm_faulty_calls(LM_FAULT_WORKER));
        EXPECT_GE(3u, lm_faulty_calls(LM_FAULT_WORKER)) << "at most one for each free";
        EXPECT_TRUE(soon([] { return !lm_os_worker_running(); })) << "nothing left to do: it ends";
        lm_span_check();
    });
}

} // namespace

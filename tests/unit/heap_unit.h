/* heap_unit.h: what the tests of the heap's parts share.
 *
 * Each body runs in a thread of its own, so that it starts with a heap without pages. The worker is
 * forbidden, so that it does not park a heap or take in remote frees while a test counts blocks.
 * Blocks are allocated by lm_block_alloc, without the trailers and fences of debug builds, so that
 * sizes are exact in every build.
 */
#ifndef LOAM_TESTS_UNIT_HEAP_UNIT_H
#define LOAM_TESTS_UNIT_HEAP_UNIT_H

#include <gtest/gtest.h>

extern "C" {
#include "survey/survey.h"
}

#include <thread>
#include <vector>

#if LM_SECURE
/* What is free must be zero there. */
#define lm_block_free(p) lm_block_give_back(p)
#endif

namespace unit {

template <typename Body> void in_thread(Body body) {
    std::thread thread(body);
    thread.join();
}

/* Secure builds lend no blocks of larger classes: the canary of a block is where its class ends. */
#define SKIP_WITHOUT_LENDING() \
    if (LM_SECURE) GTEST_SKIP() << "secure builds lend no blocks of larger classes"

class HeapTest : public testing::Test {
  protected:
    void SetUp() override {
        lm_purge_allow(false);
#if LM_SECURE
        in_thread([] { lm_block_free(lm_block_alloc(16)); }); /* see blocks_in_page */
        lm_heap_collect();
#endif
    }
    void TearDown() override {
        lm_heap_collect(); /* what ended threads have left */
        lm_purge_all();
        lm_span_check();
        lm_heap_stats_t stats;
        lm_heap_stats(&stats);
        EXPECT_EQ(0u, stats.small_blocks) << "blocks in use after the test";
        EXPECT_EQ(0u, stats.large_blocks);
    }
};

/* The worker is allowed but paused: its ticks are the test's own calls of lm_idle_collect. */
class PausedWorkerTest : public HeapTest {
  protected:
    void SetUp() override {
        HeapTest::SetUp();
        lm_heap_boot(); /* for the worker and for fork */
        lm_purge_allow(true);
        lm_purge_pause();
    }
    void TearDown() override {
        lm_purge_resume();
        lm_purge_allow(false);
        HeapTest::TearDown();
    }
};

/* How many blocks a page of that class has: a few less where pages end in guards, which is known
 * once there was one. */
inline size_t blocks_in_page(size_t block_bytes) {
    size_t bytes = lm_class_slices(block_bytes) << LM_SLICE_SHIFT;
#if LM_SECURE
    if (lm_span_marks()) bytes -= LM_MARK_BYTES;
#endif
    return bytes / block_bytes;
}

/* n blocks of so many bytes. */
inline std::vector<void *> blocks(size_t n, size_t bytes) {
    std::vector<void *> taken;
    for (size_t i = 0; i < n; i++) {
        taken.push_back(lm_block_alloc(bytes));
        EXPECT_NE(nullptr, taken.back());
    }
    return taken;
}

inline void free_blocks(const std::vector<void *> &taken, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) lm_block_free(taken[i]);
}

inline void free_blocks(const std::vector<void *> &taken) { free_blocks(taken, 0, taken.size()); }

/* Blocks in a list of others' blocks, counted both ways. */
inline size_t held(const lm_foreign_t &foreign) {
    size_t n = 0;
    for (const lm_block_t *block = foreign.first; block != nullptr; block = lm_link_get(block)) n++;
    EXPECT_EQ(n, size_t{foreign.granted} - foreign.room);
    return n;
}

} // namespace unit

#endif

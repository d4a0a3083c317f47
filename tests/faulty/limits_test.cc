/* limits_test.cc: limits and the deferred free on a system that refuses memory, or takes none back,
 * by script. */
#include "child.h"

#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "os/faulty.h"
#include "span/internal.h"
#include "survey/survey.h"
}

#include <cerrno>
#include <cstring>
#include <vector>

namespace {

using faulty::Found;
using faulty::in_child;

constexpr size_t kMiB = size_t{1} << 20;

/* The deferred free is asked with force, and what it frees is enough. */
TEST(Limits, ADeferredFreeThatMakesRoom) {
    for (size_t bytes : {size_t{100}, size_t{50000}, 3 * kMiB}) {
        in_child([bytes](Found &) {
            static void *put_off;
            static unsigned forced, asked;
            put_off = loam_malloc(8 * kMiB);
            ASSERT_NE(nullptr, put_off);
            std::vector<void *> all;
            all.reserve(1 << 20);
            lm_faulty_fail(LM_FAULT_COMMIT, 1, LM_FAULT_ALWAYS);
            while (void *p = loam_malloc(bytes)) all.push_back(p);
            loam_oom_register([](size_t, void *) { return asked++, false; }, nullptr);
            loam_deferred_free_register(
                [](bool force, unsigned long long, void *) {
                    if (!force) return;
                    forced++;
                    loam_free(put_off);
                    put_off = nullptr;
                },
                nullptr);
            errno = 0;
            void *p = loam_malloc(bytes);
            EXPECT_NE(nullptr, p);
            EXPECT_EQ(0, errno);
            EXPECT_EQ(1u, forced);
            EXPECT_EQ(0u, asked);
            while ((p = loam_malloc(bytes)) != nullptr) all.push_back(p);
            EXPECT_EQ(ENOMEM, errno);
            EXPECT_EQ(2u, forced) << "once for each request";
            EXPECT_EQ(1u, asked) << "and then the other";
            lm_heap_check();
            lm_span_check();
        });
    }
}

/* Memory that the system does not take back stays held: no for good, but no endless try. */
TEST(Limits, ASystemThatTakesNothingBack) {
    in_child([](Found &) {
        loam_collect();
        loam_limits limits;
        loam_limit_get(&limits);
        ASSERT_EQ(0, loam_limit_set(limits.held + 10 * kMiB, limits.held + 20 * kMiB));
        lm_faulty_fail(LM_FAULT_PURGE, 1, LM_FAULT_ALWAYS);
        void *p[8], *small = loam_malloc(100);
        for (void *&one : p) ASSERT_NE(nullptr, one = loam_malloc(2 * kMiB));
        for (int i = 0; i < 8; i += 2) loam_free(p[i]);
        errno = 0;
        EXPECT_EQ(nullptr, loam_malloc(12 * kMiB));
        EXPECT_EQ(ENOMEM, errno);
        EXPECT_GT(lm_faulty_failures(LM_FAULT_PURGE), 0u);
        void *q = loam_malloc(2 * kMiB);
        EXPECT_NE(nullptr, q) << "which is there";
        lm_faulty_clear();
        loam_free(q);
        for (int i = 1; i < 8; i += 2) loam_free(p[i]);
        EXPECT_NE(nullptr, q = loam_malloc(12 * kMiB));
        loam_free(q);
        loam_free(small);
        lm_heap_check();
        lm_span_check();
    });
}

/* The pages of an object cannot be moved: it is at two addresses, and in memory twice. */
TEST(Limits, ASystemThatMovesNothing) {
    in_child([](Found &) {
        loam_collect();
        loam_limits limits;
        loam_limit_get(&limits);
        ASSERT_EQ(0, loam_limit_set(0, limits.held + 40 * kMiB));
        lm_faulty_fail(LM_FAULT_MOVE, 1, LM_FAULT_ALWAYS);
        auto p = static_cast<char *>(loam_malloc(16 * kMiB));
        ASSERT_NE(nullptr, p);
        p[0] = 7;
        void *behind[8]; /* one of them is in its way */
        for (void *&one : behind) one = loam_malloc(size_t{100} << 10);
        ASSERT_EQ(nullptr, loam_expand(p, 17 * kMiB)) << "in its way";
        EXPECT_EQ(nullptr, loam_realloc(p, 26 * kMiB));
        EXPECT_EQ(7, p[0]);
        EXPECT_EQ(0u, lm_space.moving_slices);
        auto q = static_cast<char *>(loam_realloc(p, 20 * kMiB));
        ASSERT_NE(nullptr, q) << "a copy fits";
        EXPECT_EQ(7, q[0]);
        loam_free(q);
        for (void *one : behind) loam_free(one);
        loam_limit_get(&limits);
        EXPECT_LE(limits.held_most, limits.hard);
        lm_span_check();
    });
}

/* No worker: who frees gives back, at once above the soft limit. */
TEST(Limits, WithoutAWorker) {
    in_child([](Found &) {
        lm_faulty_fail(LM_FAULT_WORKER, 1, LM_FAULT_ALWAYS);
        loam_free(loam_malloc(4 * kMiB));
        loam_collect();
        loam_limits limits;
        loam_limit_get(&limits);
        size_t soft = limits.held + 8 * kMiB;
        ASSERT_EQ(0, loam_limit_set(soft, 0));
        void *p[5];
        for (void *&one : p) one = loam_malloc(2 * kMiB);
        loam_limit_get(&limits);
        EXPECT_EQ(1u, limits.crossings);
        loam_free(p[4]);
        lm_span_stats_t spans;
        lm_span_stats(&spans);
        EXPECT_EQ(0u, spans.dirty_bytes);
        for (int i = 0; i < 4; i++) loam_free(p[i]);
    });
}

} // namespace

/* limits_test.cc: the soft and the hard limit of the process: what counts as held, what is refused,
 * how often the handler is called; and the options that set the limits. Each case that allocates is
 * a process of its own, because the limits are for all memory that the process holds. */
#include "own_mapping.h"
#include "sleepers.h"
#include "stderr_of.h"

#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "api/api.h"
#include "span/internal.h"
}

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

namespace {

using unit::stderr_of;

constexpr size_t kMiB = size_t{1} << 20;

/* Runs the body in a child, whose failed expectations fail the test. */
template <typename Body> void alone(Body body) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        body();
        loam_limit_set(0, 0);
        lm_heap_check();
        lm_span_check();
        fflush(stdout);
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status) << "see the child's lines above";
}

loam_limits numbers() {
    loam_limits limits;
    loam_limit_get(&limits);
    return limits;
}

/* A limit so much above what is held now, once all that is free has gone. */
size_t above(size_t bytes) {
    loam_collect();
    return numbers().held + bytes;
}

struct Told {
    unsigned calls = 0;
    size_t held = 0, soft = 0;
} told;

void note(size_t held, size_t soft, void *argument) {
    EXPECT_EQ(&told, argument);
    told.calls++;
    told.held = held;
    told.soft = soft;
    errno = EDOM;
}

TEST(Limits, WhatIsHeld) {
    alone([] {
        size_t before = above(0);
        void *p = loam_malloc(10 * kMiB);
        size_t with = numbers().held;
        EXPECT_GE(with, before + 10 * kMiB);
        EXPECT_LE(with, before + 11 * kMiB);
        EXPECT_GE(numbers().held_most, with);
        loam_free(p);
        loam_collect();
        EXPECT_EQ(before, numbers().held);
        EXPECT_EQ(0u, numbers().crossings + numbers().refusals);
        EXPECT_EQ(0u, numbers().soft + numbers().hard + numbers().cgroup_limit);
    });
}

TEST(Limits, SettingThem) {
    EXPECT_EQ(0, loam_limit_set(kMiB, 2 * kMiB));
    EXPECT_EQ(kMiB, numbers().soft);
    EXPECT_EQ(2 * kMiB, numbers().hard);
    EXPECT_EQ(-EINVAL, loam_limit_set(3 * kMiB, 2 * kMiB));
    EXPECT_EQ(-EINVAL, loam_limit_set(SIZE_MAX, 0));
    EXPECT_EQ(-EINVAL, loam_limit_set(0, (size_t{1} << 50) + 1));
    EXPECT_EQ(kMiB, numbers().soft) << "nothing has changed";
    EXPECT_EQ(2 * kMiB, numbers().hard);
    char text[32];
    EXPECT_EQ(4, loam_option_get("limit_soft", text, sizeof text));
    EXPECT_STREQ("1MiB", text);
    EXPECT_EQ(-EINVAL, loam_option_set("limit_soft", "3MiB"));
    EXPECT_EQ(-EINVAL, loam_option_set("limit_hard", "1023KiB"));
    EXPECT_EQ(0, loam_option_set("limit_hard", "5MiB"));
    EXPECT_EQ(0, loam_option_set("limit_soft", "5MiB"));
    EXPECT_EQ(5 * kMiB, numbers().soft);
    EXPECT_EQ(0, loam_limit_set(kMiB, 0));
    EXPECT_EQ(0, loam_limit_set(0, 1));
    EXPECT_EQ(0, loam_limit_set(0, size_t{1} << 50));
    EXPECT_EQ(0, loam_limit_set(0, 0));
    EXPECT_EQ(0u, numbers().soft + numbers().hard);
    loam_limit_get(nullptr);
}

std::string read_options(std::vector<std::string> entries) {
    std::vector<char *> environment;
    for (std::string &entry : entries) environment.push_back(&entry[0]);
    environment.push_back(nullptr);
    return stderr_of([&] { lm_options_read(nullptr, environment.data()); });
}

TEST(Limits, AsOptions) {
    EXPECT_EQ("", read_options({"LOAM_LIMIT_SOFT=64MiB", "LOAM_LIMIT_HARD=65536KiB"}));
    EXPECT_EQ(64 * kMiB, numbers().soft);
    EXPECT_EQ(64 * kMiB, numbers().hard);
    EXPECT_EQ("loam: LOAM_LIMIT_SOFT=2GiB ignored: it is above LOAM_LIMIT_HARD=1GiB\n",
              read_options({"LOAM_LIMIT_SOFT=2GiB", "LOAM_LIMIT_HARD=1GiB"}));
    EXPECT_EQ(0u, numbers().soft);
    EXPECT_EQ(size_t{1} << 30, numbers().hard);
    EXPECT_EQ("loam: LOAM_LIMIT_HARD=many: not a size from 0 to 1024TiB; default 0 used\n",
              read_options({"LOAM_LIMIT_HARD=many"}));
    EXPECT_EQ("loam: LOAM_LIMIT_HARD=-1: not a size from 0 to 1024TiB; default 0 used\n",
              read_options({"LOAM_LIMIT_HARD=-1"}));
    EXPECT_EQ("loam: LOAM_LIMIT_CGROUP=2: not 0, 1 or auto; default 0 used\n",
              read_options({"LOAM_LIMIT_CGROUP=2"}));
    EXPECT_EQ("", read_options({"LOAM_LIMIT_CGROUP=auto"}));
    EXPECT_EQ("", read_options({}));
    EXPECT_EQ(0u, numbers().soft + numbers().hard);
}

/* Sizes of each kind: small, of several slices a page, large. */
TEST(Limits, TheHardOneRefuses) {
    for (size_t bytes : {size_t{100}, size_t{5000}, size_t{60000}, size_t{200000}, 3 * kMiB}) {
        alone([bytes] {
            std::vector<void *> all;
            all.reserve(1 << 20);
            size_t hard = above(32 * kMiB);
            ASSERT_EQ(0, loam_limit_set(0, hard));
            errno = 0;
            while (void *p = loam_malloc(bytes)) {
                memset(p, 1, bytes);
                all.push_back(p);
                ASSERT_LE(numbers().held, hard);
            }
            EXPECT_EQ(ENOMEM, errno);
            /* The secure build has guards, a slice or more for each large object. */
            size_t most = LM_SECURE ? 32 * kMiB / 2 : 32 * kMiB * 3 / 4;
            EXPECT_GT(all.size() * (bytes + 1), most) << "most of it was given";
            EXPECT_GT(numbers().refusals, 0u);
            EXPECT_LE(numbers().held_most, hard);
            EXPECT_EQ(nullptr, loam_calloc(5, bytes));
            EXPECT_EQ(nullptr, loam_malloc_aligned(4 * kMiB, 64));
            EXPECT_EQ(nullptr, loam_realloc(all.back(), bytes + 40 * kMiB));
            EXPECT_EQ(1, *static_cast<char *>(all.back())) << "as it was";
            for (void *p : all) loam_free(p);
            /* What is free in one size serves another, without a purge in between by anybody
             * else. */
            void *p = loam_malloc(24 * kMiB);
            EXPECT_NE(nullptr, p);
            loam_free(p);
            ASSERT_EQ(0, loam_limit_set(0, 0));
            p = loam_malloc(64 * kMiB);
            EXPECT_NE(nullptr, p);
            loam_free(p);
        });
    }
}

/* Holes that are too small for what is wanted are given back, and their bytes used elsewhere. */
TEST(Limits, HolesCountNoLongerOncePurged) {
    alone([] {
        ASSERT_EQ(0, loam_option_set("purge_delay", "3600s"));
        size_t hard = above(40 * kMiB);
        ASSERT_EQ(0, loam_limit_set(0, hard));
        void *p[32];
        for (void *&one : p) ASSERT_NE(nullptr, one = loam_malloc(kMiB));
        for (int i = 0; i < 32; i += 2) loam_free(p[i]);
        void *large = loam_malloc(20 * kMiB);
        EXPECT_NE(nullptr, large);
        EXPECT_LE(numbers().held, hard);
        loam_free(large);
        for (int i = 1; i < 32; i += 2) loam_free(p[i]);
    });
}

/* An object that grows by moving pages is at two addresses, but in memory once. */
TEST(Limits, GrowingByMovingPages) {
    alone([] {
        ASSERT_EQ(0, loam_limit_set(0, above(64 * kMiB)));
        auto p = static_cast<char *>(loam_malloc(24 * kMiB));
        ASSERT_NE(nullptr, p);
        void *behind[8]; /* one of them is in its way */
        for (void *&one : behind) one = loam_malloc(size_t{100} << 10);
        ASSERT_EQ(nullptr, loam_expand(p, 25 * kMiB)) << "in its way";
        p[0] = 7;
        p = static_cast<char *>(loam_realloc(p, 36 * kMiB));
        ASSERT_NE(nullptr, p);
        EXPECT_EQ(7, p[0]);
        EXPECT_EQ(0u, numbers().refusals);
        EXPECT_EQ(0u, lm_space.moving_slices);
        EXPECT_EQ(nullptr, loam_realloc(p, 80 * kMiB));
        EXPECT_EQ(7, p[0]);
        EXPECT_EQ(nullptr, loam_expand(p, 80 * kMiB));
        loam_free(p);
        for (void *one : behind) loam_free(one);
    });
}

TEST(Limits, TheOutOfMemoryHandlerHasItsSay) {
    static void *cache;
    static unsigned asked;
    alone([] {
        ASSERT_EQ(0, loam_limit_set(0, above(32 * kMiB)));
        cache = loam_malloc(20 * kMiB);
        loam_oom_register(
            [](size_t, void *) {
                asked++;
                bool some = cache != nullptr;
                loam_free(cache);
                cache = nullptr;
                return some;
            },
            nullptr);
        void *p = loam_malloc(25 * kMiB);
        EXPECT_NE(nullptr, p);
        EXPECT_EQ(1u, asked);
        EXPECT_EQ(nullptr, loam_malloc(25 * kMiB));
        EXPECT_EQ(2u, asked);
        loam_free(p);
    });
}

/* What a thread that has just been busy owns, and others have freed, is there at the first refusal:
 * no tick of the worker's need pass first. */
template <typename Take> void frees_all_of_a_sleeper(size_t small, Take take) {
    unit::Helper sleeper;
    std::vector<void *> all(small / 200);
    sleeper.run([&] {
        for (void *&one : all) ASSERT_NE(nullptr, one = take(200));
    });
    for (void *one : all) loam_free(one);
    void *p = take(small);
    EXPECT_NE(nullptr, p) << "at the first try";
    loam_free(p);
}

TEST(Limits, WhatIsFreeInPagesOfOthersIsCollectedAtOnce) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer, and nobody in its place";
    alone([] {
        ASSERT_EQ(0, loam_limit_set(0, above(36 * kMiB)));
        frees_all_of_a_sleeper(24 * kMiB, loam_malloc);
    });
}

TEST(Limits, AlsoForAHeapOfItsOwnLimit) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer, and nobody in its place";
    alone([] {
        static loam_heap *heap;
        heap = loam_heap_create();
        loam_heap_set_limits(heap, SIZE_MAX, 36 * kMiB, nullptr, nullptr);
        frees_all_of_a_sleeper(24 * kMiB, [](size_t n) { return loam_heap_malloc(heap, n); });
        loam_heap_destroy(heap);
    });
}

TEST(Limits, AlsoInAFullArena) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer, and nobody in its place";
    alone([] {
        static loam_heap *heap;
        char *own = unit::own_mapping(36 * kMiB);
        loam_arena *arena;
        ASSERT_EQ(0,
                  loam_manage_memory(own, 36 * kMiB, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena));
        heap = loam_heap_create_in(arena, false);
        frees_all_of_a_sleeper(24 * kMiB, [](size_t n) { return loam_heap_malloc(heap, n); });
        loam_heap_destroy(heap);
        EXPECT_EQ(0, loam_arena_destroy(arena));
    });
}

TEST(Limits, AlsoForFirstClassHeaps) {
    alone([] {
        loam_heap *heap = loam_heap_create();
        ASSERT_EQ(0, loam_limit_set(0, above(16 * kMiB)));
        size_t n = 0;
        while (loam_heap_malloc(heap, 1000) != nullptr) n++;
        EXPECT_GT(n * 1000, 12 * kMiB);
        EXPECT_EQ(nullptr, loam_heap_malloc(heap, 10 * kMiB));
        loam_heap_destroy(heap);
        void *p = loam_malloc(12 * kMiB);
        EXPECT_NE(nullptr, p);
        loam_free(p);
    });
}

TEST(Limits, TheSoftOneTellsOnceACrossing) {
    for (size_t bytes : {size_t{1000}, size_t{100000}, 2 * kMiB}) {
        alone([bytes] {
            loam_limit_register(note, &told);
            size_t soft = above(24 * kMiB);
            ASSERT_EQ(0, loam_limit_set(soft, 0));
            std::vector<void *> all;
            all.reserve(1 << 20);
            auto grow = [&](size_t to) {
                while (numbers().held < to) {
                    errno = 0;
                    all.push_back(loam_malloc(bytes));
                    EXPECT_EQ(0, errno);
                }
            };
            auto shrink = [&](size_t n) {
                for (; all.size() > n; all.pop_back()) loam_free(all.back());
                loam_collect();
            };
            grow(soft - 4 * kMiB);
            EXPECT_EQ(0u, told.calls);
            size_t few = all.size();
            grow(soft + 8 * kMiB);
            EXPECT_EQ(1u, told.calls);
            EXPECT_EQ(soft, told.soft);
            EXPECT_GT(told.held, soft - kMiB / 2);
            EXPECT_EQ(LOAM_PRESSURE_HIGH, numbers().pressure);
            /* A little below, and up again: the same crossing. */
            shrink(few + (all.size() - few) / 2);
            grow(soft + 8 * kMiB);
            EXPECT_EQ(1u, told.calls);
            shrink(few / 4);
            ASSERT_LT(numbers().held, soft - soft / 4);
            lm_limit_tick();
            EXPECT_EQ(LOAM_PRESSURE_NONE, numbers().pressure);
            grow(soft + 8 * kMiB);
            EXPECT_EQ(2u, told.calls);
            EXPECT_EQ(2u, numbers().crossings);
            loam_limit_register(nullptr, nullptr);
            shrink(0);
            grow(soft + 8 * kMiB);
            EXPECT_EQ(2u, told.calls);
            shrink(0);
        });
    }
}

/* Set below what is in use: a crossing, told in the next slow path, and what is freed goes back at
 * once. */
TEST(Limits, ASoftOneBelowWhatIsHeld) {
    for (bool by_option : {false, true}) {
        alone([by_option] {
            loam_limit_register(note, &told);
            size_t before = above(0);
            void *p = loam_malloc(40 * kMiB);
            size_t soft = before + 8 * kMiB;
            if (by_option) {
                ASSERT_EQ(0, loam_option_set("limit_soft", std::to_string(soft).c_str()));
            } else {
                ASSERT_EQ(0, loam_limit_set(soft, 0));
            }
            EXPECT_EQ(1u, numbers().crossings);
            EXPECT_EQ(LOAM_PRESSURE_HIGH, numbers().pressure);
            EXPECT_EQ(0u, told.calls);
            void *q = loam_malloc(200 * kMiB / 1024);
            EXPECT_EQ(1u, told.calls);
            EXPECT_GT(told.held, soft);
            ASSERT_EQ(0, loam_limit_set(before + 80 * kMiB, 0));
            EXPECT_EQ(LOAM_PRESSURE_NONE, numbers().pressure) << "not of this one";
            ASSERT_EQ(0, loam_limit_set(soft, 0));
            EXPECT_EQ(2u, numbers().crossings);
            loam_free(p);
            loam_free(q);
        });
    }
}

TEST(Limits, AHardOneBelowWhatIsHeld) {
    alone([] {
        if (LM_TSAN) return; /* no worker */
        loam_limit_register(note, &told);
        size_t before = above(0);
        void *p = loam_malloc(40 * kMiB);
        lm_limit_policy.soft = before + 8 * kMiB; /* as if nobody had looked */
        lm_limit_policy.hard = before + 16 * kMiB;
        EXPECT_EQ(nullptr, loam_malloc(kMiB));
        EXPECT_EQ(1u, numbers().crossings);
        EXPECT_EQ(1u, told.calls) << "who may make room";
        loam_free(p);
        bool gone = false;
        for (int i = 0; i < 1000 && !gone; i++) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
            gone = numbers().held <= before + 8 * kMiB;
        }
        EXPECT_TRUE(gone) << "at once";
    });
}

TEST(Limits, WhatIsFreeGoesBackWhenOneIsSet) {
    alone([] {
        loam_limit_register(note, &told);
        ASSERT_EQ(0, loam_option_set("purge_delay", "3600s"));
        size_t before = above(0);
        loam_free(loam_malloc(40 * kMiB));
        ASSERT_EQ(0, loam_limit_set(before + 8 * kMiB, 0));
        if (!LM_SECURE) { /* there it waits, and goes when that is noticed */
            EXPECT_LE(numbers().held, before + 8 * kMiB);
            EXPECT_EQ(0u, numbers().crossings);
        }
        loam_free(loam_malloc(200000));
        EXPECT_EQ(0u, told.calls);
        EXPECT_EQ(0u, numbers().crossings);
    });
}

/* Reserved memory is held as a whole from then on: refused, or told of, where it is asked for. */
TEST(Limits, ReservedMemoryCountsWhenItIsReserved) {
    alone([] {
        loam_limit_register(note, &told);
        size_t before = above(0);
        ASSERT_EQ(0, loam_limit_set(before + 16 * kMiB, before + 64 * kMiB));
        loam_arena *arena = nullptr;
        EXPECT_EQ(-ENOMEM,
                  loam_reserve_memory(80 * kMiB, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena));
        EXPECT_EQ(nullptr, arena);
        EXPECT_EQ(0u, told.calls);
        ASSERT_EQ(0, loam_reserve_memory(32 * kMiB, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena));
        EXPECT_EQ(1u, told.calls);
        EXPECT_GE(told.held, before + 32 * kMiB);
        size_t with = numbers().held;
        loam_heap *heap = loam_heap_create_in(arena, false);
        EXPECT_NE(nullptr, loam_heap_malloc(heap, 20 * kMiB));
        EXPECT_LE(numbers().held, with + kMiB) << "not twice";
        loam_heap_destroy(heap);
        EXPECT_EQ(0, loam_arena_destroy(arena));
    });
}

/* What the thread's heap kept was enough the first time: that is no crossing, and the next is
 * told. */
TEST(Limits, TheSoftOneTellsAlsoAfterCollectingWasEnough) {
    alone([] {
        loam_limit_register(note, &told);
        void *most = loam_malloc(200 * kMiB); /* what is kept is less than an eighth */
        size_t before = above(0);
        for (size_t bytes = 64; bytes <= 60000; bytes += bytes / 8) loam_free(loam_malloc(bytes));
        size_t kept = numbers().held - before;
        ASSERT_GT(kept, 2 * kMiB);
        std::vector<void *> all(64);
        size_t n = 0, soft = numbers().held + 4 * kMiB;
        ASSERT_EQ(0, loam_limit_set(soft, 0));
        while (numbers().held <= soft - kMiB) all[n++] = loam_malloc(kMiB);
        for (int i = 0; i < 2; i++) all[n++] = loam_malloc(kMiB); /* collects */
        EXPECT_LT(numbers().held, soft);
        EXPECT_EQ(0u, told.calls);
        EXPECT_EQ(0u, numbers().crossings);
        while (n < all.size()) all[n++] = loam_malloc(kMiB);
        EXPECT_EQ(1u, told.calls);
        EXPECT_EQ(1u, numbers().crossings);
        for (void *p : all) loam_free(p);
        loam_free(most);
    });
}

TEST(Limits, WhatIsFreeGoesBackBeforeTheSoftOneIsCrossed) {
    alone([] {
        loam_limit_register(note, &told);
        ASSERT_EQ(0, loam_limit_set(above(32 * kMiB), 0));
        for (int i = 0; i < 50; i++) {
            void *a = loam_malloc(20 * kMiB), *b = loam_malloc(8 * kMiB);
            loam_free(a);
            loam_free(b);
            void *c = loam_malloc(10 * kMiB), *d = loam_malloc(21 * kMiB);
            loam_free(c);
            loam_free(d);
        }
        EXPECT_EQ(0u, told.calls);
        /* In the secure build what was freed waits, and goes when that is noticed. */
        if (!LM_SECURE) {
            EXPECT_EQ(0u, numbers().crossings);
        }
    });
}

TEST(Limits, TheHandlerMayUseTheHeap) {
    static std::vector<void *> cache;
    alone([] {
        for (int i = 0; i < 20; i++) cache.push_back(loam_malloc(kMiB));
        loam_limit_register(
            [](size_t, size_t soft, void *) {
                told.calls++;
                for (void *p : cache) loam_free(p);
                cache.clear();
                for (int i = 1; i < 1000; i++) loam_free(loam_malloc(static_cast<size_t>(i) * 50));
                EXPECT_EQ(0, loam_limit_set(2 * soft, 0));
            },
            nullptr);
        ASSERT_EQ(0, loam_limit_set(above(4 * kMiB), 0));
        void *p[8];
        for (void *&one : p) one = loam_malloc(kMiB);
        EXPECT_EQ(1u, told.calls);
        for (void *one : p) loam_free(one);
    });
}

} // namespace

/* enomem_test.cc: memory is refused at every single call of the operating system in turn.
 *
 * A workload of every kind of allocation runs once in peace, to count its calls of the system; then
 * once for each of them, with that call refused, and once with a whole row refused from there on.
 * Each run is a process of its own. An allocation may come back NULL only when the system refused
 * something meanwhile, with errno ENOMEM; it is then asked for again until it succeeds, and goes
 * on. What was there before stays as it was, the invariants hold after each refusal, and at the end
 * nothing is missing. It does not test refusals at random moments of several running threads.
 */
#include "child.h"
#include "effort.h"

#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "os/faulty.h"
#include "span/internal.h"
#include "survey/survey.h"
}

#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace {

using faulty::Found;
using faulty::in_child;

constexpr size_t kTries = 400; /* more than any script below refuses in a row */

struct Object {
    unsigned char *p;
    size_t bytes;
    unsigned seed;
};

/* Every so many bytes, and the last, are written: so that large objects cost little. A word that
 * was changed shows, in all but those. */
size_t stride(size_t bytes) {
    return bytes < 256 ? 1 : bytes < 4096 ? 7 : bytes < (1u << 20) ? 509 : 65537;
}

unsigned char value(unsigned seed, size_t offset) {
    return static_cast<unsigned char>(seed * 37 + offset / 7 + 1);
}

void fill(const Object &object) {
    size_t step = stride(object.bytes);
    for (size_t i = 0; i < object.bytes; i += step) {
        object.p[i] = value(object.seed, i);
    }
    object.p[object.bytes - 1] = value(object.seed, object.bytes - 1);
}

/* Whether the first `bytes` bytes are what fill() wrote. */
bool intact(const Object &object, size_t bytes) {
    size_t step = stride(object.bytes);
    for (size_t i = 0; i < bytes; i += step) {
        if (object.p[i] != value(object.seed, i)) return false;
    }
    return bytes < object.bytes ||
           object.p[object.bytes - 1] == value(object.seed, object.bytes - 1);
}

class Workload {
  public:
    explicit Workload(Found &found) : found_(found) {}

    void run() {
        small_and_medium();
        large();
        aligned();
        zeroed();
        growing();
        threads();
        free_every_second();
        small_and_medium();
        free_all();
    }

  private:
    /* Calls until it succeeds, and checks each refusal. */
    unsigned char *insist(const std::function<void *()> &call) {
        for (size_t tries = 0; tries < kTries; tries++) {
            size_t before = lm_faulty_failures(LM_FAULT_ANY);
            errno = 0;
            void *p = call();
            if (p != nullptr) return static_cast<unsigned char *>(p);
            found_.refused++;
            EXPECT_EQ(ENOMEM, errno);
            EXPECT_GT(lm_faulty_failures(LM_FAULT_ANY), before) << "NULL, but nothing was refused";
            lm_span_check();
            lm_heap_check();
        }
        ADD_FAILURE() << "still NULL after " << kTries << " attempts";
        _exit(1);
    }

    Object keep(size_t bytes, const std::function<void *()> &call) {
        Object object = {insist(call), bytes, static_cast<unsigned>(objects_.size())};
        fill(object);
        objects_.push_back(object);
        return object;
    }

    void allocate(size_t bytes) {
        keep(bytes, [=] { return loam_malloc(bytes); });
    }

    void small_and_medium() {
        for (size_t i = 0; i < 1000; i++) allocate(1 + i * 37 % 1024);
        for (size_t bytes = 1100; bytes <= 65536; bytes += bytes / 3) {
            for (size_t i = 0; i < 6; i++) allocate(bytes);
        }
    }

    void large() {
        for (size_t bytes : {65537u, 100000u, 300000u, 1u << 20, 5u << 20, 16u << 20}) {
            allocate(bytes);
        }
    }

    void aligned() {
        const size_t pairs[][2] = {{10, 64},       {1000, 4096},    {5000, 65536},
                                   {70000, 65536}, {100, 1u << 20}, {3u << 20, 4u << 20}};
        for (const auto &pair : pairs) {
            Object object = keep(pair[0], [&] { return loam_malloc_aligned(pair[0], pair[1]); });
            EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(object.p) % pair[1]);
        }
    }

    void zeroed() {
        for (size_t bytes : {100u, 5000u, 60000u, 200000u, 3u << 20}) {
            unsigned char *p = insist([=] { return loam_calloc(bytes, 1); });
            EXPECT_TRUE(p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0) << bytes;
            objects_.push_back({p, bytes, static_cast<unsigned>(objects_.size())});
            fill(objects_.back());
        }
    }

    /* realloc: while it is refused, the old object must not change. */
    void grow(Object object, size_t bytes) {
        object.p = insist([&] {
            void *p = loam_realloc(object.p, bytes);
            if (p == nullptr) {
                EXPECT_TRUE(intact(object, object.bytes)) << "changed by a refused realloc";
            }
            return p;
        });
        Object seen = object;
        EXPECT_TRUE(intact(seen, object.bytes < bytes ? object.bytes : bytes)) << bytes;
        object.bytes = bytes;
        fill(object);
        for (Object &other : objects_) {
            if (other.seed == object.seed) other = object;
        }
    }

    static bool is_single(const lm_page_t *span) {
        return (lm_space_is_free(span) || span->kind == LM_KIND_GONE) && span->slices == 1;
    }

    /* Returns whether something in use begins behind it, so that it cannot grow where it is: right
     * there, or after single slices. Large objects cannot fill these: a dirty slice, a clean slice
     * and one whose addresses went back do not merge. In use are objects; in the secure build also
     * what waits there after its free, and memory of another group. */
    static bool shut_in(const Object &object) {
        const lm_page_t *page = lm_page_of(object.p), *end = lm_arena.pages + lm_arena.slices;
        const lm_page_t *behind = page + page->slices;
        while (behind < end && is_single(behind)) behind++;
        return behind < end &&
               (behind->kind >= LM_KIND_PAGE || lm_space_group(behind) != LM_GROUP_LARGE);
    }

    /* Wherever the best fitting gaps may be: until somebody is behind it. */
    void shut_in_by_others(const Object &object) {
        for (size_t tries = 0; !shut_in(object) || tries == 0; tries++) {
            allocate(70000);
            if (tries < 1000) continue;
            ADD_FAILURE() << "nobody comes to lie behind it";
            _exit(1);
        }
    }

    void growing() {
        /* From class to class, and out of the classes. */
        Object small = keep(24, [] { return loam_malloc(24); });
        for (size_t bytes = 24; bytes < 200000; bytes = bytes * 5 / 2 + 1) {
            grow(objects_[small.seed], bytes);
        }
        /* At the arena's end: in place. */
        Object last = keep(1 << 20, [] { return loam_malloc(1 << 20); });
        for (size_t mib : {2u, 5u, 12u}) grow(objects_[last.seed], mib << 20);
        /* With somebody behind it: moved by pages, then in place, then shrunk. */
        Object moved = keep(2 << 20, [] { return loam_malloc(2 << 20); });
        shut_in_by_others(moved);
        grow(objects_[moved.seed], 6 << 20);
        shut_in_by_others(objects_[moved.seed]);
        grow(objects_[moved.seed], 10 << 20);
        grow(objects_[moved.seed], 100000);
        /* Small enough to be copied. */
        Object copied = keep(100000, [] { return loam_malloc(100000); });
        shut_in_by_others(copied);
        grow(objects_[copied.seed], 400000);
    }

    /* Two threads that start while each other's heap is in use; both leave objects behind. */
    void threads() {
        std::thread first([this] {
            for (size_t i = 0; i < 300; i++) allocate(200 + i);
            allocate(150000);
            std::thread second([this] {
                for (size_t i = 0; i < 300; i++) allocate(16 + i * 11);
                for (size_t i = 0; i < 100; i++) free_one(objects_.size() - 1 - 3 * i);
            });
            second.join();
            for (size_t i = 0; i < 40; i++) allocate(3000);
            lm_heap_check();
        });
        first.join();
    }

    void free_one(size_t index) {
        Object &object = objects_[index];
        if (object.p == nullptr) return;
        EXPECT_TRUE(intact(object, object.bytes)) << object.bytes;
        loam_free(object.p);
        object.p = nullptr;
    }

    void free_every_second() {
        for (size_t i = 0; i < objects_.size(); i += 2) free_one(i);
        lm_heap_check();
    }

    void free_all() {
        for (size_t i = 0; i < objects_.size(); i++) free_one(i);
        objects_.clear();
        lm_span_check();
        lm_heap_check();
    }

    Found &found_;
    std::vector<Object> objects_;
};

/* Slices by who has them. */
struct Held {
    size_t pages = 0, common = 0, large = 0, meta = 0;
};

void add_span(lm_page_t *span, void *context) {
    Held *held = static_cast<Held *>(context);
    bool common = span->kind == LM_KIND_PAGE && span->heap == &lm_heap_common;
    *(span->kind == LM_KIND_LARGE  ? &held->large
      : span->kind == LM_KIND_META ? &held->meta
      : common                     ? &held->common
                                   : &held->pages) += span->slices;
}

/* Everything was freed: what is left is loam's own, and nothing lies about uncounted. */
void expect_nothing_left() {
    lm_faulty_clear();
    loam_collect();
    lm_purge_allow(false), lm_purge_allow(true);
    loam_collect();
    lm_span_check();
    lm_heap_check();
    lm_heap_stats_t heap;
    lm_heap_stats(&heap);
    EXPECT_EQ(0u, heap.large_blocks);
    lm_span_stats_t span;
    lm_span_stats(&span);
    Held held;
    lm_span_visit(add_span, &held);
    EXPECT_EQ(0u, held.large);
    EXPECT_EQ(0u, held.pages) << "slices in pages, although everything was freed";
    /* The heap of threads that have none keeps one page a class. */
    EXPECT_LE(held.common, size_t{LM_CLASSES} * 5);
    EXPECT_EQ(held.meta * LM_SLICE_BYTES, span.meta_bytes);
    EXPECT_EQ((held.common + held.meta) * LM_SLICE_BYTES, span.used_bytes)
        << "addresses that are neither free nor anybody's";
    EXPECT_EQ(0u, span.dirty_bytes);
    EXPECT_LE(held.meta, 1u);
}

/* One run with calls number first .. first + count - 1 of that kind refused. */
Found run_with(lm_fault_t kind, size_t first, size_t count, bool worker) {
    return in_child([=](Found &found) {
        lm_purge_policy.worker = worker;
        lm_faulty_fail(kind, first, count);
        Workload workload(found);
        workload.run();
        found.calls = lm_faulty_calls(kind);
        found.failures = lm_faulty_failures(kind);
        expect_nothing_left();
        Workload again(found); /* and the heap is as good as new */
        size_t refused = found.refused;
        again.run();
        EXPECT_EQ(refused, found.refused);
        expect_nothing_left();
    });
}

/* The workload with each call of that kind refused in turn (in an emulator fewer), `row` calls at
 * once. */
void each_in_turn(lm_fault_t kind, size_t row) {
    Found peace = run_with(kind, 1, 0, false);
    ASSERT_FALSE(testing::Test::HasFailure()) << "broken without any refusal";
    EXPECT_EQ(0u, peace.refused);
    ASSERT_GT(peace.calls, 0u) << "the workload makes no such call";
    size_t refused = 0;
    for (size_t n = 1; n <= peace.calls && !testing::Test::HasFailure(); n++) {
        SCOPED_TRACE(testing::Message()
                     << "call " << n << " of " << peace.calls << ", row of " << row);
        Found found = run_with(kind, n, row, false);
        EXPECT_GT(found.failures, 0u);
        refused += found.refused;
    }
    /* One refusal alone may be made good: the arena purges, and tries again (span/arena.c). */
    if (row > 1) {
        EXPECT_GT(refused, 0u) << "no allocation came back NULL";
    }
}

TEST(Enomem, EachCallOnce) {
    EFFORT_ONE_THREAD();
    each_in_turn(LM_FAULT_ANY, 1);
}

/* More refusals in a row than loam has second attempts. */
TEST(Enomem, EachCommitAndThoseAfterIt) {
    EFFORT_ONE_THREAD();
    each_in_turn(LM_FAULT_COMMIT, 40);
}

/* Moving is a favour: without it realloc copies. */
TEST(Enomem, NoMoveAtAll) {
    Found found = run_with(LM_FAULT_MOVE, 1, LM_FAULT_ALWAYS, false);
    EXPECT_GT(found.failures, 0u);
    EXPECT_EQ(0u, found.refused);
}

TEST(Enomem, NoPurgeAtAll) {
    Found found = run_with(LM_FAULT_PURGE, 1, LM_FAULT_ALWAYS, false);
    EXPECT_GT(found.failures, 0u);
    EXPECT_EQ(0u, found.refused);
}

#if LM_SECURE
/* Guards, too: canaries do without. */
TEST(Enomem, NoGuardAtAll) {
    Found found = run_with(LM_FAULT_PROTECT, 1, LM_FAULT_ALWAYS, false);
    EXPECT_GT(found.failures, 0u);
    EXPECT_EQ(0u, found.refused);
}

/* A guard that cannot be taken away stays, and its span with it; the object is copied where it
 * grows. */
TEST(Enomem, GuardsThatStay) {
    for (size_t first : {2u, 5u, 10u, 20u}) {
        Found seen = in_child([=](Found &found) {
            lm_purge_policy.worker = false;
            lm_faulty_fail(LM_FAULT_PROTECT, first, LM_FAULT_ALWAYS);
            Workload workload(found);
            workload.run();
            workload.run();
            loam_collect();
            found.failures = lm_faulty_failures(LM_FAULT_PROTECT);
            EXPECT_LT(lm_span_guards(), first);
            lm_span_check();
        });
        EXPECT_GT(seen.failures, 0u);
        EXPECT_EQ(0u, seen.refused);
    }
}
#endif

TEST(Enomem, NoPlaceForTheArena) {
    Found found = run_with(LM_FAULT_PLACE, 1, 7, false);
    EXPECT_EQ(7u, found.failures);
    /* A thread without a heap asks twice: for a heap, then for a block of the heap of those
     * without. */
    EXPECT_GE(found.refused, 3u);
}

TEST(Enomem, WithAWorker) {
    for (size_t n : {1u, 2u, 3u, 5u, 8u}) {
        Found found = run_with(LM_FAULT_COMMIT, n, 3, true);
        EXPECT_EQ(3u, found.failures);
    }
}

/* A machine that has run out for good says so, call after call, and loses nothing by being
 * asked. */
TEST(Enomem, ForEverThenNoMore) {
    in_child([](Found &) {
        void *first = loam_malloc(100);
        ASSERT_NE(nullptr, first);
        lm_span_stats_t before, after;
        lm_span_stats(&before);
        lm_faulty_fail(LM_FAULT_COMMIT, 1, LM_FAULT_ALWAYS);
        for (size_t i = 0; i < 3000; i++) {
            errno = 0;
            ASSERT_EQ(nullptr, loam_malloc(size_t{1} << (21 + i % 10)));
            ASSERT_EQ(ENOMEM, errno);
            ASSERT_EQ(nullptr, loam_calloc(3, 1 << 20));
            ASSERT_EQ(nullptr, loam_malloc_aligned(5 << 20, 1 << 20));
        }
        lm_span_stats(&after);
        /* What is free at the arena's end may go back with its addresses (span/gone.c). */
        EXPECT_GE(before.arena_bytes, after.arena_bytes);
        EXPECT_GE(before.metadata_bytes, after.metadata_bytes);
        lm_faulty_clear();
        void *p = loam_malloc(100 << 20);
        EXPECT_NE(nullptr, p);
        loam_free(p);
        loam_free(first);
        expect_nothing_left();
    });
}

/* Requests that no machine can serve: refused without asking it, or after it refused. */
TEST(Enomem, ImpossibleRequests) {
    in_child([](Found &) {
        void *p = loam_malloc(5000);
        ASSERT_NE(nullptr, p);
        Object object = {static_cast<unsigned char *>(p), 5000, 5};
        fill(object);
        const size_t sizes[] = {SIZE_MAX,        SIZE_MAX - 15,           SIZE_MAX - 65536,
                                SIZE_MAX / 2,    size_t{PTRDIFF_MAX} + 1, size_t{PTRDIFF_MAX},
                                size_t{1} << 60, size_t{1} << 47};
        for (size_t bytes : sizes) {
            errno = 0;
            EXPECT_EQ(nullptr, loam_malloc(bytes)) << bytes;
            EXPECT_EQ(ENOMEM, errno);
            errno = 0;
            EXPECT_EQ(nullptr, loam_calloc(1, bytes)) << bytes;
            EXPECT_EQ(ENOMEM, errno);
            errno = 0;
            EXPECT_EQ(nullptr, loam_calloc(bytes, 2)) << bytes;
            EXPECT_EQ(ENOMEM, errno);
            errno = 0;
            EXPECT_EQ(nullptr, loam_realloc(p, bytes)) << bytes;
            EXPECT_EQ(ENOMEM, errno);
            errno = 0;
            EXPECT_EQ(nullptr, loam_malloc_aligned(bytes, 4096)) << bytes;
            EXPECT_EQ(ENOMEM, errno);
            EXPECT_TRUE(intact(object, 5000));
        }
        volatile size_t beyond = size_t{1} << 62; /* compilers know that no alignment is so large */
        EXPECT_EQ(nullptr, loam_malloc_aligned(100, beyond));
        beyond = size_t{1} << 50;
        EXPECT_EQ(nullptr, loam_malloc_aligned(100, beyond));
        lm_span_check();
        lm_span_stats_t stats;
        lm_span_stats(&stats);
        EXPECT_LT(stats.arena_bytes, size_t{64} << 20) << "addresses spent on refusals";
        loam_free(p);
        expect_nothing_left();
    });
}

} // namespace

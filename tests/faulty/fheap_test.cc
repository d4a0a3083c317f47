/* fheap_test.cc: memory is refused to first-class heaps, at every single call of the operating
 * system in turn.
 *
 * As enomem_test.cc does it: once in peace, to count the calls; then once for each, refused alone,
 * and once with a row of them refused from there on. What comes back NULL or -ENOMEM is asked for
 * again; what was there stays as it was.
 */
#include "child.h"
#include "effort.h"

#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "os/faulty.h"
#include "survey/survey.h"
}

#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using faulty::Found;
using faulty::in_child;

constexpr size_t kTries = 400;

template <typename Call> auto insist(Found &found, Call call) {
    for (size_t tries = 0; tries < kTries; tries++) {
        size_t before = lm_faulty_failures(LM_FAULT_ANY);
        errno = 0;
        auto result = call();
        if (result) return result;
        found.refused++;
        EXPECT_EQ(ENOMEM, errno);
        EXPECT_GT(lm_faulty_failures(LM_FAULT_ANY), before) << "NULL, but nothing was refused";
        lm_span_check();
    }
    ADD_FAILURE() << "refused for ever";
    return decltype(call())();
}

struct Objects {
    Found &found;
    loam_heap *heap;
    std::vector<std::pair<unsigned char *, size_t>> all = {};

    void add(size_t bytes) {
        auto *p = static_cast<unsigned char *>(
            insist(found, [&] { return loam_heap_malloc(heap, bytes); }));
        if (p == nullptr) return;
        memset(p, static_cast<int>(all.size() + 1), bytes);
        all.emplace_back(p, bytes);
    }
    void add_some() {
        for (size_t bytes : {16, 100, 1000, 5000, 40000, 70000, 3000000}) add(bytes);
    }
    void grow(size_t i, size_t bytes) {
        auto &[p, had] = all[i];
        unsigned char *there = static_cast<unsigned char *>(insist(found, [&, p = p] {
            void *moved = loam_heap_realloc(heap, p, bytes);
            if (moved == nullptr) {
                EXPECT_TRUE(loam_heap_owns(heap, p)) << "it is as it was";
            }
            return moved;
        }));
        for (size_t k = 0; k < had; k++) EXPECT_EQ(static_cast<unsigned char>(i + 1), there[k]);
        memset(there, static_cast<int>(i + 1), bytes);
        all[i] = {there, bytes};
    }
    void check() const {
        for (size_t i = 0; i < all.size(); i++) {
            for (size_t k = 0; k < all[i].second; k += 509)
                ASSERT_EQ(static_cast<unsigned char>(i + 1), all[i].first[k]);
        }
    }
};

void workload(Found &found) {
    loam_heap *heap = insist(found, [] { return loam_heap_create(); });
    loam_heap *other = insist(found, [] { return loam_heap_create(); });
    Objects objects{found, heap}, others{found, other};
    objects.add_some();
    others.add_some();
    for (size_t i = 0; i < 300; i++) objects.add(3000);
    std::thread thread([&] {
        for (size_t i = 0; i < 100; i++) objects.add(700);
        (void)insist(found, [&] {
            int error = loam_heap_set_default(other, nullptr);
            errno = -error;
            return error == 0;
        });
        void *p = insist(found, [] { return loam_malloc(50000); });
        EXPECT_TRUE(loam_heap_owns(other, p));
    });
    thread.join();
    for (size_t i = 0; i < 7; i++) objects.grow(i, 2 * objects.all[i].second + 70000);
    objects.check();
    others.check();
    lm_fheap_check(heap);
    lm_fheap_check(other);
    loam_heap_delete(other);
    others.check();
    for (auto &[p, bytes] : others.all) loam_free(p);
    objects.check();
    loam_heap_destroy(heap);
    lm_heap_check();
    lm_span_check();
    found.calls = lm_faulty_calls(LM_FAULT_ANY);
    found.failures = lm_faulty_failures(LM_FAULT_ANY);
}

Found with_refusals(size_t first, size_t count) {
    return in_child([=](Found &found) {
        lm_purge_allow(false);
        if (first > 0)
            lm_faulty_fail(LM_FAULT_ANY, first, count);
        else
            lm_faulty_clear();
        workload(found);
    });
}

TEST(FheapRefused, EveryCallInTurn) {
    EFFORT_ONE_THREAD();
    size_t calls = with_refusals(0, 0).calls;
    ASSERT_GT(calls, 10u);
    size_t refused = 0;
    for (size_t n = 1; n <= calls; n++) {
        refused += with_refusals(n, 1).refused;
        refused += with_refusals(n, 5).refused;
        if (HasFailure()) FAIL() << "with call " << n << " of " << calls << " refused";
    }
    printf("%zu calls, %zu allocations refused\n", calls, refused);
    /* An object that is refused a guard has none, and one refusal alone may be made good
     * (span/arena.c). */
    EXPECT_GT(refused, calls / (LM_SECURE ? 16 : 4));
}

} // namespace

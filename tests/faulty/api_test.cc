/* api_test.cc: the forms of loam/malloc.h while the system refuses memory.
 *
 * Each form is asked, in a process of its own, with every call of the system refused from the first
 * on, the second on, and so on, until it succeeds: it may come back NULL, with ENOMEM, and then
 * what was there is as it was; but for loam_reallocf, which has freed it. Nothing is left behind in
 * either case.
 */
#include "child.h"

#include <gtest/gtest.h>
#include <loam/malloc.h>

extern "C" {
#include "os/faulty.h"
#include "survey/survey.h"
}

#include <cerrno>
#include <cstring>

namespace {

using faulty::Found;
using faulty::in_child;

constexpr size_t kMib = size_t{1} << 20;

struct Form {
    const char *name;
    size_t old_bytes; /* of the object that is to be resized; 0: none */
    size_t bytes;
    void *(*call)(void *old, size_t bytes);
    bool frees = false;
};

const Form kForms[] = {
    {"zalloc", 0, 5000, [](void *, size_t n) { return loam_zalloc(n); }},
    {"zalloc large", 0, 3 * kMib, [](void *, size_t n) { return loam_zalloc(n); }},
    {"zalloc_small", 0, 900, [](void *, size_t n) { return loam_zalloc_small(n); }},
    {"malloc_small", 0, 900, [](void *, size_t n) { return loam_malloc_small(n); }},
    {"mallocarray", 0, 40000, [](void *, size_t n) { return loam_mallocarray(n, 1); }},
    {"aligned", 0, 5000, [](void *, size_t n) { return loam_zalloc_aligned(n, 4096); }},
    {"aligned large", 0, kMib, [](void *, size_t n) { return loam_zalloc_aligned(n, kMib); }},
    {"offset", 0, 500, [](void *, size_t n) { return loam_malloc_aligned_offset(n, 64, 16); }},
    {"offset large", 0, kMib,
     [](void *, size_t n) { return loam_zalloc_aligned_offset(n, 262144, 100); }},
    {"rezalloc", 3000, 9000, [](void *p, size_t n) { return loam_rezalloc(p, n); }},
    {"rezalloc large", kMib, 9 * kMib, [](void *p, size_t n) { return loam_rezalloc(p, n); }},
    {"realloc_aligned", 3000, 9000,
     [](void *p, size_t n) { return loam_realloc_aligned(p, n, 512); }},
    {"realloc offset", 3000, 9000,
     [](void *p, size_t n) { return loam_realloc_aligned_offset(p, n, 512, 8); }},
    {"realloc offset large", kMib, 2 * kMib,
     [](void *p, size_t n) { return loam_realloc_aligned_offset(p, n, 512, 8); }},
    {"expand", kMib, 40 * kMib, [](void *p, size_t n) { return loam_expand(p, n); }},
    {"reallocf", 3000, 9 * kMib, [](void *p, size_t n) { return loam_reallocf(p, n); }, true},
    {"strndup", 3000, 3000,
     [](void *p, size_t n) -> void * {
         char *copy = loam_strndup(static_cast<char *>(p), n);
         if (copy != nullptr) loam_free(p);
         return copy;
     }},
};

bool filled(const void *p, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 1 + bytes / 3000) {
        if (static_cast<const unsigned char *>(p)[i] != 0x33) return false;
    }
    return true;
}

/* Whether the form succeeded with all calls from number `first` on refused. */
bool attempt(const Form &form, size_t first) {
    Found found = in_child([&](Found &mine) {
        lm_purge_policy.worker = false;
        void *old = nullptr;
        if (form.old_bytes > 0) {
            old = loam_zalloc(form.old_bytes);
            ASSERT_NE(nullptr, old);
            memset(old, 0x33, form.old_bytes);
        }
        lm_faulty_fail(LM_FAULT_ANY, first, LM_FAULT_ALWAYS);
        errno = 0;
        void *p = form.call(old, form.bytes);
        int error = errno;
        lm_faulty_clear();
        if (p == nullptr) {
            mine.refused = 1;
            EXPECT_EQ(ENOMEM, error);
            if (old != nullptr && !form.frees) {
                EXPECT_TRUE(filled(old, form.old_bytes)) << "changed by a refusal";
                EXPECT_GE(loam_usable_size(old), form.old_bytes);
                loam_free(old);
            }
        } else {
            EXPECT_TRUE(old == nullptr || filled(p, form.old_bytes));
            memset(p, 1, form.bytes);
            loam_free(p);
        }
        lm_heap_check();
        lm_span_check();
        lm_heap_stats_t stats;
        lm_heap_stats(&stats);
        EXPECT_EQ(0u, stats.small_blocks);
        EXPECT_EQ(0u, stats.large_blocks);
    });
    return found.refused == 0;
}

TEST(FaultyApi, EachFormUntilItSucceeds) {
    for (const Form &form : kForms) {
        SCOPED_TRACE(form.name);
        size_t first = 1;
        while (!attempt(form, first) && !HasFailure()) ASSERT_LT(++first, 200u);
        EXPECT_TRUE(form.old_bytes > 0 || first > 1) << "nothing was refused";
    }
}

} // namespace

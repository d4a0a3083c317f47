/* new_delete_test.cc: a program whose operators new and delete are loam's by loam/new_delete.hpp
 * alone.
 *
 * Linked with libloam.a, so that malloc is the C library's: where an object is, tells whose
 * operator made it. Every form of new with every form of delete; that a missing form would fall
 * back on the C++ library's is what it finds out.
 */
#include <loam/new_delete.hpp>

#include <gtest/gtest.h>

extern "C" {
#include "survey/survey.h"
}

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {

bool is_ours(const void *p) { return lm_page_of(p) != &lm_nobody; }

using Align = std::align_val_t;
constexpr Align kAlign{512};

struct Form {
    const char *name;
    void *(*make)(size_t bytes);
    bool aligned;
};
const Form kNews[] = {
    {"new", [](size_t n) { return ::operator new(n); }, false},
    {"new[]", [](size_t n) { return ::operator new[](n); }, false},
    {"new nothrow", [](size_t n) { return ::operator new(n, std::nothrow); }, false},
    {"new[] nothrow", [](size_t n) { return ::operator new[](n, std::nothrow); }, false},
    {"new aligned", [](size_t n) { return ::operator new(n, kAlign); }, true},
    {"new[] aligned", [](size_t n) { return ::operator new[](n, kAlign); }, true},
    {"new aligned nothrow", [](size_t n) { return ::operator new(n, kAlign, std::nothrow); }, true},
    {"new[] aligned nothrow", [](size_t n) { return ::operator new[](n, kAlign, std::nothrow); },
     true},
};

/* By their symbols: compilers have opinions about which new goes with which delete. */
extern "C" {
void _ZdlPv(void *);
void _ZdaPv(void *);
void _ZdlPvm(void *, size_t);
void _ZdaPvm(void *, size_t);
void _ZdlPvRKSt9nothrow_t(void *, const std::nothrow_t *);
void _ZdaPvRKSt9nothrow_t(void *, const std::nothrow_t *);
void _ZdlPvSt11align_val_t(void *, size_t);
void _ZdaPvSt11align_val_t(void *, size_t);
void _ZdlPvmSt11align_val_t(void *, size_t, size_t);
void _ZdaPvmSt11align_val_t(void *, size_t, size_t);
void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *, size_t, const std::nothrow_t *);
void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *, size_t, const std::nothrow_t *);
}
using Delete = std::function<void(void *, size_t)>;
const Delete kDeletes[] = {
    [](void *p, size_t) { _ZdlPv(p); },
    [](void *p, size_t) { _ZdaPv(p); },
    [](void *p, size_t n) { _ZdlPvm(p, n); },
    [](void *p, size_t n) { _ZdaPvm(p, n); },
    [](void *p, size_t) { _ZdlPvRKSt9nothrow_t(p, &std::nothrow); },
    [](void *p, size_t) { _ZdaPvRKSt9nothrow_t(p, &std::nothrow); },
};
const Delete kAlignedDeletes[] = {
    [](void *p, size_t) { _ZdlPvSt11align_val_t(p, 512); },
    [](void *p, size_t) { _ZdaPvSt11align_val_t(p, 512); },
    [](void *p, size_t n) { _ZdlPvmSt11align_val_t(p, n, 512); },
    [](void *p, size_t n) { _ZdaPvmSt11align_val_t(p, n, 512); },
    [](void *p, size_t) { _ZdlPvSt11align_val_tRKSt9nothrow_t(p, 512, &std::nothrow); },
    [](void *p, size_t) { _ZdaPvSt11align_val_tRKSt9nothrow_t(p, 512, &std::nothrow); },
};

TEST(NewDelete, EveryNewIsOursAndEveryDeleteTakesIt) {
    for (const Form &form : kNews) {
        SCOPED_TRACE(form.name);
        for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{5000}, size_t{1} << 20}) {
            for (const Delete &give : form.aligned ? kAlignedDeletes : kDeletes) {
                void *p = form.make(bytes);
                /* The secure build has no block for an object of 0 bytes. */
                ASSERT_TRUE(is_ours(p) || (LM_SECURE && bytes == 0));
                EXPECT_EQ(0u, reinterpret_cast<size_t>(p) % (form.aligned ? 512 : 16));
                memset(p, 1, bytes);
                give(p, bytes);
            }
        }
        bool quiet = strstr(form.name, "nothrow") != nullptr;
        if (quiet)
            EXPECT_EQ(nullptr, form.make(SIZE_MAX / 2));
        else
            EXPECT_THROW((void)form.make(SIZE_MAX / 2), std::bad_alloc);
    }
    for (const Delete &give : kDeletes) give(nullptr, 0);
    for (const Delete &give : kAlignedDeletes) give(nullptr, 0);
}

struct alignas(128) Wide {
    char bytes[128];
};

TEST(NewDelete, Expressions) {
    auto one = std::make_unique<int>(5);
    auto wide = std::make_unique<Wide[]>(3);
    std::string text(1000, 'x');
    std::vector<std::string> list(100, text);
    EXPECT_TRUE(is_ours(one.get()) && is_ours(wide.get()) && is_ours(text.data()) &&
                is_ours(list[99].data()));
    EXPECT_EQ(0u, reinterpret_cast<size_t>(wide.get()) % 128);
    std::thread([&] { list.clear(), wide.reset(); }).join();
    /* Memory of malloc is not. */
    void *theirs = malloc(100);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_FALSE(is_ours(theirs));
#endif
    free(theirs);
}

} // namespace

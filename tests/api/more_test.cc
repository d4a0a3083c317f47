/* more_test.cc: loam/malloc_more.h and the small functions that ports of other allocators' programs
 * look for: sizes that were got, reallocarr, whose a pointer is, numbers of one heap as text,
 * arenas as text, limited options.
 *
 * Each is held against the plain functions that it is made of, and against its edges: NULL, 0,
 * sizes that no object can have. Plain functions have forms_test.cc.
 */
#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "base/base.h"
}

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

#if defined(LOAM_DEBUG) && LOAM_DEBUG
constexpr bool kExact = true;
#else
constexpr bool kExact = LM_SECURE;
#endif

template <typename T> T hide(T value) {
    __asm__ volatile("" : "+r"(value) : : "memory");
    return value;
}

const size_t kSizes[] = {0, 1, 15, 16, 17, 100, 1000, 1024, 1025, 5000, 65536, 65537, 1 << 20};
constexpr size_t kImpossible = static_cast<size_t>(PTRDIFF_MAX) + 1;

bool all_zero(const void *p, size_t bytes) {
    const auto *byte = static_cast<const unsigned char *>(p);
    for (size_t i = 0; i < bytes; i++)
        if (byte[i] != 0) return false;
    return true;
}

/* ---- Sizes that were got ---- */

void expect_noted(void *p, size_t size, size_t usable) {
    ASSERT_NE(nullptr, p) << size;
    EXPECT_EQ(loam_usable_size(p), usable) << size;
    EXPECT_GE(usable, size);
    if (kExact && size > 0) {
        EXPECT_EQ(size, usable);
    }
    memset(p, 0x5a, usable);
}

TEST(More, NewObjectsWithTheSizeThatWasGot) {
    for (size_t size : kSizes) {
        size_t usable = 77;
        void *p = loam_umalloc(size, &usable);
        expect_noted(p, size, usable);
        loam_free(p);
        p = loam_uzalloc(size, &usable);
        EXPECT_TRUE(all_zero(p, usable)) << size;
        expect_noted(p, size, usable);
        loam_free(p);
        p = loam_ucalloc(3, size, &usable);
        EXPECT_TRUE(all_zero(p, usable)) << size;
        expect_noted(p, 3 * size, usable);
        loam_free(p);
        for (size_t align : {size_t{1}, size_t{64}, size_t{4096}, size_t{1} << 17}) {
            p = loam_umalloc_aligned(size, align, &usable);
            EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(p) % align);
            expect_noted(p, size, usable);
            loam_free(p);
            p = loam_uzalloc_aligned(size, align, &usable);
            EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(p) % align);
            EXPECT_TRUE(all_zero(p, usable)) << size;
            expect_noted(p, size, usable);
            loam_free(p);
        }
        loam_free(loam_umalloc(size, nullptr));
    }
}

TEST(More, AnObjectOfNoBytesHasNoneToUse) {
    if (!kExact) GTEST_SKIP() << "only builds that know what was requested say so";
    for (size_t align = 1; align <= 65536; align *= 2) {
        size_t usable = 77;
        void *p = loam_umalloc_aligned(0, align, &usable);
        ASSERT_NE(nullptr, p);
        EXPECT_EQ(0u, usable) << align;
        loam_free(p);
    }
}

TEST(More, RefusalsSetTheSizeTo0) {
    size_t usable;
    void *(*forms[])(size_t *) = {
        [](size_t *to) { return loam_umalloc(hide(kImpossible), to); },
        [](size_t *to) { return loam_uzalloc(hide(kImpossible), to); },
        [](size_t *to) { return loam_ucalloc(hide(SIZE_MAX / 2), 3, to); },
        [](size_t *to) { return loam_umalloc_aligned(hide(kImpossible), 64, to); },
        [](size_t *to) { return loam_uzalloc_aligned(hide(kImpossible), 64, to); },
    };
    for (auto *form : forms) {
        usable = 77;
        errno = 0;
        EXPECT_EQ(nullptr, form(&usable));
        EXPECT_EQ(ENOMEM, errno);
        EXPECT_EQ(0u, usable);
    }
    usable = 77;
    errno = 0;
    EXPECT_EQ(nullptr, loam_umalloc_aligned(10, hide(size_t{24}), &usable));
    EXPECT_EQ(EINVAL, errno);
    EXPECT_EQ(0u, usable);
}

TEST(More, ResizedAndFreedObjectsTellBothSizes) {
    size_t before = 77, after = 77;
    auto *p = static_cast<char *>(loam_urealloc(nullptr, 100, &before, &after));
    ASSERT_NE(nullptr, p);
    EXPECT_EQ(0u, before);
    EXPECT_EQ(loam_usable_size(p), after);
    memset(p, 3, 100);
    size_t had = after;
    for (size_t size : {5000u, 70000u, 20u, 300000u}) {
        p = static_cast<char *>(loam_urealloc(p, size, &before, &after));
        ASSERT_NE(nullptr, p);
        EXPECT_EQ(had, before);
        EXPECT_EQ(loam_usable_size(p), after);
        for (size_t i = 0; i < 20; i++) ASSERT_EQ(3, p[i]);
        had = after;
    }
    errno = 0;
    EXPECT_EQ(nullptr, loam_urealloc(p, hide(kImpossible), &before, &after));
    EXPECT_EQ(ENOMEM, errno);
    EXPECT_EQ(had, before);
    EXPECT_EQ(0u, after);
    EXPECT_EQ(3, p[19]) << "p is as it was";
    loam_ufree(p, &before);
    EXPECT_EQ(had, before);
    loam_ufree(nullptr, &before);
    EXPECT_EQ(0u, before);
    loam_ufree(loam_malloc(10), nullptr);
}

/* ---- reallocarr ---- */

TEST(More, ReallocarrResizesThroughAPointerOfAnyType) {
    int *numbers = nullptr;
    errno = 99;
    ASSERT_EQ(0, loam_reallocarr(&numbers, 10, sizeof *numbers));
    ASSERT_NE(nullptr, numbers);
    for (int i = 0; i < 10; i++) numbers[i] = i;
    ASSERT_EQ(0, loam_reallocarr(&numbers, 50000, sizeof *numbers));
    for (int i = 0; i < 10; i++) ASSERT_EQ(i, numbers[i]);
    int *was = numbers;
    EXPECT_EQ(EOVERFLOW, loam_reallocarr(&numbers, hide(SIZE_MAX / 2), 3));
    EXPECT_EQ(ENOMEM, loam_reallocarr(&numbers, hide(kImpossible), 1));
    EXPECT_EQ(was, numbers);
    EXPECT_EQ(9, numbers[9]);
    EXPECT_EQ(0, loam_reallocarr(&numbers, 0, sizeof *numbers));
    EXPECT_EQ(nullptr, numbers);
    EXPECT_EQ(0, loam_reallocarr(&numbers, 0, sizeof *numbers)) << "nothing of nothing";
    EXPECT_EQ(99, errno);
}

/* ---- Whose a pointer is ---- */

TEST(More, ContainsKnowsEachPlaceOfEachObject) {
    for (size_t size : kSizes) {
        auto *p = static_cast<char *>(loam_malloc(size + 1));
        EXPECT_TRUE(loam_contains(p)) << size;
        EXPECT_TRUE(loam_contains(p + size)) << size;
        loam_free(p);
    }
    auto *large = static_cast<char *>(loam_malloc(64 << 20));
    for (size_t at = 0; at < 64 << 20; at += 1 << 20) ASSERT_TRUE(loam_contains(large + at)) << at;
    loam_free(large);
    int local;
    static int constant;
    EXPECT_FALSE(loam_contains(&local));
    EXPECT_FALSE(loam_contains(&constant));
    EXPECT_FALSE(loam_contains(nullptr));
    EXPECT_FALSE(loam_contains(reinterpret_cast<void *>(uintptr_t{1} << 60)));
    ASSERT_EQ(0, loam_sampling_set(1));
    std::vector<void *> others;
    void *sampled = loam_malloc(100);
    for (int i = 0; i < 100000 && !loam_sampling_holds(sampled); i++) {
        others.push_back(sampled);
        sampled = loam_malloc(100);
    }
    ASSERT_TRUE(loam_sampling_holds(sampled));
    EXPECT_TRUE(loam_contains(sampled));
    EXPECT_EQ(100u, loam_page_utilization(sampled));
    loam_free(sampled);
    for (void *p : others) loam_free(p);
    ASSERT_EQ(0, loam_sampling_set(0));
}

TEST(More, UtilizationFallsAsObjectsOfAPageGo) {
    std::thread([] { /* which begins with no page of this class that is half used */
                     std::vector<void *> taken;
                     for (int i = 0; i < 20000; i++) taken.push_back(loam_malloc(200));
                     void *one = taken[10000];
                     unsigned full = loam_page_utilization(one);
                     EXPECT_GT(full, 90u);
                     EXPECT_LE(full, 100u);
                     for (int i = 0; i < 20000; i++)
                         if (i % 64 != 16) loam_free(taken[i]);
                     loam_collect(); /* what waits to be used again goes to its page */
                     unsigned sparse = loam_page_utilization(one);
                     EXPECT_LT(sparse, full);
                     EXPECT_LT(sparse, kExact ? 90u : 30u) << "of " << full;
                     for (int i = 0; i < 20000; i++)
                         if (i % 64 == 16) loam_free(taken[i]);
    })
        .join();
    void *large = loam_malloc(1 << 20);
    EXPECT_EQ(100u, loam_page_utilization(large));
    loam_free(large);
    int local;
    EXPECT_EQ(0u, loam_page_utilization(&local));
    EXPECT_EQ(0u, loam_page_utilization(nullptr));
}

/* ---- Numbers as text ---- */

std::string printed(void (*print)(void *), void *argument) {
    std::string text;
    loam_output_register([](const char *line, size_t bytes,
                            void *to) { static_cast<std::string *>(to)->append(line, bytes); },
                         &text);
    print(argument);
    loam_output_register(nullptr, nullptr);
    return text;
}

TEST(More, NumbersOfOneHeapAreWritten) {
    loam_heap *heap = loam_heap_create();
    ASSERT_NE(nullptr, heap);
    void *p = loam_heap_malloc(heap, 5000);
    loam_stats_t stats;
    ASSERT_EQ(0, loam_heap_stats(heap, &stats, sizeof stats));
    std::string text =
        printed([](void *of) { loam_stats_print_of(static_cast<loam_stats_t *>(of)); }, &stats);
    EXPECT_NE(std::string::npos, text.find("heap statistics"));
    EXPECT_NE(std::string::npos, text.find("not freed"));
    std::vector<char> json(32768);
    int length = loam_stats_json_of(&stats, json.data(), json.size());
    ASSERT_GT(length, 100);
    EXPECT_EQ(size_t(length), strlen(json.data()));
    EXPECT_NE(nullptr, strstr(json.data(), "\"verdict\": \"not freed\""));
    EXPECT_NE(nullptr, strstr(json.data(), "\"requested_bytes\": 0"));
    loam_free(p);
    loam_heap_collect(heap);
    ASSERT_EQ(0, loam_heap_stats(heap, &stats, sizeof stats));
    ASSERT_GT(loam_stats_json_of(&stats, json.data(), json.size()), 100);
    EXPECT_NE(nullptr, strstr(json.data(), "\"verdict\": \"ok\""));
    text = printed([](void *of) { loam_stats_print_of(static_cast<loam_stats_t *>(of)); }, &stats);
    EXPECT_NE(std::string::npos, text.find(" ok\n"));
    EXPECT_EQ(std::string::npos, text.find("not freed"));
    loam_heap_destroy(heap);

    EXPECT_EQ(-EINVAL, loam_stats_json_of(nullptr, json.data(), json.size()));
    EXPECT_EQ(-EINVAL, loam_stats_json_of(&stats, nullptr, 10));
    stats.bytes = 8; /* of another version */
    EXPECT_EQ(-EINVAL, loam_stats_json_of(&stats, json.data(), json.size()));
    EXPECT_EQ("", printed([](void *of) { loam_stats_print_of(static_cast<loam_stats_t *>(of)); },
                          &stats));
}

/* The debug build counts what was asked for; the others say that they do not. */
TEST(More, RequestedBytesAreCounted) {
    loam_stats_t before, after;
    ASSERT_EQ(0, loam_stats_get(&before, sizeof before));
    void *p = loam_malloc(100), *q = loam_calloc(3, 70), *r = loam_malloc(100000);
    r = loam_realloc(r, 200000); /* in place or not */
    loam_free(p);
    loam_free(q);
    loam_free(r);
    ASSERT_EQ(0, loam_stats_get(&after, sizeof after));
    uint64_t requested = after.requested_bytes - before.requested_bytes;
    if (loam_stats_json_of(&after, nullptr, 0) < 0) FAIL();
#if defined(LOAM_DEBUG) && LOAM_DEBUG
    EXPECT_GE(requested, 100u + 210 + 200000);
    EXPECT_LE(requested, 100u + 210 + 100000 + 200000);
#else
    EXPECT_EQ(0u, requested);
    EXPECT_EQ(0u, after.requested_bytes);
#endif
}

TEST(More, ArenasAreWritten) {
    std::string none = printed([](void *) { loam_arenas_print(); }, nullptr);
    EXPECT_NE(std::string::npos, none.find("none")) << none;
    loam_arena *arena = nullptr;
    ASSERT_EQ(0, loam_reserve_memory(8 << 20, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena));
    std::string one = printed([](void *) { loam_arenas_print(); }, nullptr);
    EXPECT_NE(std::string::npos,
              one.find("8192 KiB, any node, for its heaps only, 0 KiB in use, 8192 KiB free"))
        << one;
    loam_heap *heap = loam_heap_create_in(arena, false);
    void *p = loam_heap_malloc(heap, 1 << 20);
    ASSERT_NE(nullptr, p);
    one = printed([](void *) { loam_arenas_print(); }, nullptr);
    EXPECT_NE(std::string::npos, one.find(", 1 heaps")) << one;
    EXPECT_EQ(std::string::npos, one.find(", 0 KiB in use")) << one;
    loam_heap_destroy(heap);
    EXPECT_EQ(0, loam_arena_destroy(arena));
    EXPECT_EQ(none, printed([](void *) { loam_arenas_print(); }, nullptr));
}

TEST(More, OptionsAreLimited) {
    ASSERT_EQ(0, loam_option_set("purge_delay", "500ms"));
    EXPECT_EQ(500u, loam_option_get_clamp("purge_delay", 0, 1000));
    EXPECT_EQ(600u, loam_option_get_clamp("purge_delay", 600, 1000));
    EXPECT_EQ(400u, loam_option_get_clamp("purge_delay", 100, 400));
    EXPECT_EQ(7u, loam_option_get_clamp("no_such_option", 7, 9));
    EXPECT_EQ(7u, loam_option_get_clamp(nullptr, 7, 9));
    ASSERT_EQ(0, loam_option_set("purge_delay", "300ms"));
}

} // namespace

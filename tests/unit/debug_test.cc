/* debug_test.cc: mistakes that the debug build finds, beyond those that tests/misuse makes in whole
 * programs: a write to any byte of a freed block, large objects that wait, pages that go back, call
 * sites, and the list of objects in use. The tests read the reports, and the program goes on
 * (LOAM_ON_ERROR=ignore). */
#include "stderr_of.h"

#include <gtest/gtest.h>
#include <loam/handlers.h>
#include <loam/loam.h>
#include <loam/sampling.h>

extern "C" {
#include "api/api.h"
#include "survey/survey.h"
}

#include <chrono>
#include <cstring>
#include <random>
#include <regex>
#include <string>
#include <thread>
#include <vector>

namespace {

using unit::stderr_of;

char *hidden(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return static_cast<char *>(p);
}

#if LOAM_DEBUG
/* Calls allocate until it gives p; what is written meanwhile. The others are freed again. */
template <typename Allocate> std::string until(const void *p, Allocate allocate) {
    std::vector<void *> others;
    std::string said = stderr_of([&] {
        void *got = allocate();
        for (int i = 0; i < 5000 && got != p; i++) {
            others.push_back(got);
            got = allocate();
        }
        EXPECT_EQ(p, got);
    });
    for (void *each : others) loam_free(each);
    return said;
}

class Debug : public testing::Test {
  protected:
    void SetUp() override { lm_misuse_policy.ignore = true; }
    void TearDown() override {
        lm_misuse_policy.ignore = false;
        lm_sites_record(0);
    }

    static std::string text(const char *format, const void *p, size_t number = 0) {
        char line[200];
        snprintf(line, sizeof line, format, p, number);
        return line;
    }
};

TEST_F(Debug, EveryByteOfAFreedBlockIsWatched) {
    for (size_t size : {1u, 16u, 40u, 100u, 1000u, 5000u, 60000u}) {
        for (size_t at : {size_t(8), size / 2, size - 1}) {
            if (at < 8 || at >= size) continue; /* the first word is a link: see tests/misuse */
            char *p = hidden(loam_malloc(size));
            loam_free(p);
            p[at] ^= 1;
            std::string said = until(p, [&] { return loam_malloc(size); });
            EXPECT_NE(
                std::string::npos,
                said.find(text("loam: write after free of %p: 1 byte(s) from byte %zu on", p, at)))
                << size << " at " << at << ": " << said;
            loam_free(p);
        }
    }
}

TEST_F(Debug, AFreedBlocksEndIsWatched) {
    char *p = hidden(loam_malloc(40)); /* a block of 64: its last word */
    loam_free(p);
    p[63] ^= 1;
    std::string said = until(p, [] { return loam_malloc(40); });
    /* A write to the freed object ends before: it is the next object's underflow, if one is
     * there. */
    EXPECT_NE(std::string::npos, said.find(text("underflow of %p", p + 64))) << said;
    EXPECT_EQ(std::string::npos, said.find("write after free")) << said;
    loam_free(p);
}

TEST_F(Debug, CallocAndHeapsLookAsWell) {
    char *p = hidden(loam_malloc(40));
    loam_free(p);
    p[20] ^= 1;
    std::string said = until(p, [] { return loam_calloc(1, 40); });
    EXPECT_NE(std::string::npos, said.find("write after free")) << said;
    EXPECT_EQ(0, p[20]);
    loam_free(p);
    loam_heap *heap = loam_heap_create();
    p = hidden(loam_heap_malloc(heap, 40));
    loam_free(p);
    p[20] ^= 1;
    said = until(p, [&] { return loam_heap_malloc(heap, 40); });
    EXPECT_NE(std::string::npos, said.find("write after free")) << said;
    loam_heap_destroy(heap);
}

TEST_F(Debug, ALargeObjectWaitsAndIsLookedAt) {
    char *p = hidden(loam_malloc(300000));
    memset(p, 1, 300000);
    loam_free(p);
    void *other = loam_malloc(300000);
    EXPECT_NE(p, other) << "not at once again";
    p[200000] ^= 1;
    p[200009] ^= 1;
    std::string said = stderr_of([] { (void)loam_collect(); });
    EXPECT_NE(
        std::string::npos,
        said.find(text("loam: write after free of %p: 10 byte(s) from byte %zu on", p, 200000)))
        << said;
    EXPECT_EQ("", stderr_of([] { (void)loam_collect(); })) << "told once";
    loam_free(other);
}

/* It has no thread-local storage, and libc does not know it: who says all this must need
 * neither. */
TEST_F(Debug, TheWorkerLooksAtWhatRests) {
    if (LM_TSAN) GTEST_SKIP() << "no worker under ThreadSanitizer";
    lm_sites_record(4);
    char *p = hidden(loam_malloc(300000));
    loam_free(p);
    p[200000] ^= 1;
    std::string said = stderr_of([] { std::this_thread::sleep_for(std::chrono::seconds(1)); });
    EXPECT_NE(
        std::string::npos,
        said.find(text("loam: write after free of %p: 1 byte(s) from byte %zu on", p, 200000)))
        << said;
    EXPECT_NE(std::string::npos, said.find(text("loam:   %p was allocated by thread ", p))) << said;
    EXPECT_TRUE(std::regex_search(said, std::regex("loam:     #0 \\S*unit_debug_test\\+0x")))
        << said;
}

TEST_F(Debug, APageIsLookedAtBeforeItGoesBack) {
    std::vector<void *> all;
    for (int i = 0; i < 200; i++) all.push_back(loam_malloc(2000)); /* some pages */
    char *p = hidden(all[50]);
    loam_free(p);
    p[1000] ^= 1;
    std::string said = stderr_of([&] {
        for (void *each : all) {
            if (each != p) loam_free(each);
        }
        (void)loam_collect();
    });
    EXPECT_NE(std::string::npos,
              said.find(text("loam: write after free of %p: 1 byte(s) from byte %zu on", p, 1000)))
        << said;
}

TEST_F(Debug, SizedFreesAreHeldAgainstTheRequest) {
    char *p = hidden(loam_malloc(100));
    std::string said = stderr_of([&] { loam_free_sized(p, 99); });
    EXPECT_NE(std::string::npos,
              said.find(text("loam: free of %p with a size of %zu B, 100 requested", p, 99)))
        << said;
    EXPECT_NE(std::string::npos,
              stderr_of([&] { loam_free(p); }).find(text("loam: double free of %p", p)))
        << "told to go on, loam has freed it";
    p = hidden(loam_malloc(100));
    size_t align = 2 * (reinterpret_cast<uintptr_t>(p) & -reinterpret_cast<uintptr_t>(p));
    said = stderr_of([&] { loam_free_aligned_sized(p, align, 100); });
    EXPECT_NE(std::string::npos,
              said.find(text("free of %p as one aligned to %zu B, which it is not", p, align)))
        << said;
    p = hidden(loam_realloc(hidden(loam_malloc(100)), 150));
    EXPECT_EQ("", stderr_of([&] { loam_free_sized(p, 150); })) << "the last size counts";
    p = hidden(loam_malloc_aligned_offset(100, 64, 8));
    EXPECT_EQ("", stderr_of([&] { loam_free_aligned_sized(p, 8, 100); }));
    EXPECT_EQ("", stderr_of([] { loam_free_sized(nullptr, 5); }));
}

TEST_F(Debug, AnUnderflowIsTheOnesThatItCameFrom) {
    char *before = hidden(loam_malloc(40)), *p = hidden(loam_malloc(40));
    while (p - before != 64) {
        before = p;
        p = hidden(loam_malloc(40));
    }
    p[-1] ^= 1;
    std::string expected = text("loam: underflow of %p: the bytes before it are overwritten", p);
    std::string said = stderr_of([&] { loam_free(p); });
    EXPECT_NE(std::string::npos, said.find(expected)) << said;
    said = stderr_of([&] { loam_free(before); });
    EXPECT_NE(std::string::npos, said.find(expected)) << said;
    p[-1] ^= 1;
    EXPECT_EQ("", stderr_of([&] {
                  loam_free(p);
                  loam_free(before);
              }));
}

TEST_F(Debug, CallSitesFollowAReport) {
    lm_sites_record(4);
    char *p = hidden(loam_malloc(40));
    unsigned other = 0;
    std::thread([&] {
        other = lm_port_thread_id();
        loam_free(p);
    }).join();
    std::string said = stderr_of([&] { loam_free(p); });
    EXPECT_NE(std::string::npos, said.find(text("loam:   %p was allocated by thread ", p))) << said;
    EXPECT_NE(std::string::npos, said.find("loam:   and freed by thread " + std::to_string(other)))
        << said;
    EXPECT_NE(std::string::npos, said.find("loam:     #0 ")) << said;
    EXPECT_NE(std::string::npos, said.find("unit_debug_test+0x")) << said;
    EXPECT_EQ(std::string::npos, said.find("loam:     #4 ")) << said;
}

TEST_F(Debug, ManySitesAndObjects) {
    lm_sites_record(2);
    std::vector<void *> all;
    for (int i = 0; i < 100000; i++) all.push_back(loam_malloc(24));
    std::string said = stderr_of([&] {
        loam_free(all[7]);
        loam_free(all[7]);
    });
    EXPECT_NE(std::string::npos, said.find(text("%p was allocated by", all[7]))) << said;
    for (size_t i = 0; i < all.size(); i++) {
        if (i != 7) loam_free(all[i]);
    }
}

TEST_F(Debug, WhatIsInUseIsListed) {
    std::string before = stderr_of(lm_leaks_print);
    EXPECT_EQ(std::string::npos, before.find("object(s) of 7777 B")) << before;
    lm_sites_record(3);
    std::vector<void *> kept;
    for (int i = 0; i < 5; i++) kept.push_back(loam_malloc(7777));
    kept.push_back(loam_malloc(500001));
    std::string said = stderr_of(lm_leaks_print);
    EXPECT_NE(std::string::npos, said.find("loam:   5 object(s) of 7777 B, the first at 0x"))
        << said;
    EXPECT_NE(
        std::string::npos,
        said.find(text("loam:   1 object(s) of 500001 B, the first at %p\nloam:     #0 ", kept[5])))
        << said;
    for (void *each : kept) loam_free(each);
    said = stderr_of(lm_leaks_print);
    EXPECT_EQ(std::string::npos, said.find("7777")) << said;
    EXPECT_EQ(std::string::npos, said.find("500001")) << said;
}

/* The word there has a size in it, whose upper bytes are zero. */
TEST_F(Debug, ZeroesBeforeAnObjectAreSeen) {
    for (size_t size : {1u, 17u, 40u, 1000u, 5000u}) {
        for (size_t bytes = 1; bytes <= 8; bytes++) {
            char *before = hidden(loam_malloc(size)), *p = hidden(loam_malloc(size));
            while (p - before != static_cast<ptrdiff_t>(lm_page_of(p)->block_bytes)) {
                before = p;
                p = hidden(loam_malloc(size));
            }
            char was[8];
            memcpy(was, p - bytes, bytes);
            memset(p - bytes, 0, bytes);
            std::string said = stderr_of([&] { loam_free(p); });
            EXPECT_NE(std::string::npos, said.find(text("loam: underflow of %p: ", p)))
                << bytes << " of " << size << ": " << said;
            memcpy(p - bytes, was, bytes);
            EXPECT_EQ("", stderr_of([&] {
                          loam_free(p);
                          loam_free(before);
                      }));
        }
    }
}

/* An object where a span begins, behind a page whose last block was never made; NULL: none came. */
char *behind_a_page(size_t bytes) {
    std::vector<char *> others;
    char *found = nullptr;
    for (size_t size = 1200, n = 0; found == nullptr && n < 500; n++) {
        size = size < 50000 ? size + size / 8 : 1200;
        char *before = hidden(loam_malloc(size)), *p = hidden(loam_malloc(bytes));
        const lm_page_t *page = lm_page_of(p - 1);
        others.push_back(before);
        if (lm_span_start(lm_page_of(p)) == p && page->kind == LM_KIND_PAGE &&
            page->carved < page->capacity)
            found = p;
        else
            others.push_back(p);
    }
    for (char *each : others) {
        if (found == nullptr || lm_page_of(each) != lm_page_of(found - 1)) loam_free(each);
    }
    return found;
}

TEST_F(Debug, AnUnderflowBehindAPageIsSeen) {
    for (size_t bytes : {700000u, 70000u, 30000u}) {
        char *p = behind_a_page(bytes);
        ASSERT_NE(nullptr, p) << bytes;
        for (size_t n : {1u, 4u, 8u}) {
            char was[8];
            memcpy(was, p - n, n);
            memset(p - n, 0, n);
            std::string said = stderr_of([&] { loam_free(p); });
            EXPECT_NE(std::string::npos, said.find(text("loam: underflow of %p: ", p)))
                << n << " of " << bytes << ": " << said;
            memcpy(p - n, was, n);
        }
        EXPECT_EQ("", stderr_of([&] { loam_free(p); }));
    }
}

/* A link of which some bits were changed leads to another block, or into one. */
TEST_F(Debug, AWriteToALinkIsItsBlocks) {
    for (size_t at : {0u, 1u, 2u, 7u}) {
        for (char bits : {1, 4, 8, 16, 64}) {
            std::vector<char *> all;
            for (int i = 0; i < 40; i++) all.push_back(hidden(loam_malloc(1000)));
            for (char *each : all) loam_free(each);
            char *p = all[20];
            p[at] = static_cast<char>(p[at] ^ bits);
            std::string said = until(p, [] { return loam_malloc(1000); });
            EXPECT_NE(std::string::npos, said.find(text("free list damaged at %p: ", p)))
                << at << ", " << int(bits) << ": " << said;
            EXPECT_EQ(0u, said.rfind(": written after free") -
                              text("loam: free list damaged at %p", p).size())
                << "and nobody else's: " << said;
            loam_free(p);
        }
    }
}

TEST_F(Debug, TheFirstWordIsLookedAtBeforeAPageGoesBack) {
    std::vector<char *> all;
    for (int i = 0; i < 100; i++) all.push_back(hidden(loam_malloc(20000)));
    char *p = all[50];
    loam_free(p);
    p[3] ^= 1;
    std::string said = stderr_of([&] {
        for (char *each : all) {
            if (each != p) loam_free(each);
        }
        (void)loam_collect();
    });
    EXPECT_TRUE(said.find(text("write after free of %p: its first 8 bytes", p)) !=
                    std::string::npos ||
                said.find(text("free list damaged at %p", p)) != std::string::npos)
        << said;
}

TEST_F(Debug, ObjectsAtAnOffsetAreWatched) {
    for (size_t size : {100u, 5000u, 100000u}) {
        auto allocate = [&] { return loam_malloc_aligned_offset(size, 64, 8); };
        void *kept = allocate(); /* and with it its page */
        for (size_t at : {size_t(0), size / 2, size - 1}) {
            char *p = hidden(allocate());
            loam_free(p);
            p[at] ^= 1;
            std::vector<void *> others;
            std::string said = stderr_of([&] {
                for (int i = 0; i < 20; i++) others.push_back(allocate());
                (void)loam_collect();
            });
            EXPECT_NE(std::string::npos,
                      said.find(text("write after free of %p: 1 byte(s) from byte %zu on", p, at)))
                << size << ": " << said;
            for (void *each : others) loam_free(each);
        }
        for (size_t n : {1u, 8u, 16u}) {
            char *p = hidden(allocate()), was[16];
            memcpy(was, p - n, n);
            memset(p - n, 0, n);
            std::string said = stderr_of([&] { loam_free(p); });
            EXPECT_NE(std::string::npos, said.find(text("underflow of %p: ", p))) << n << said;
            memcpy(p - n, was, n);
            EXPECT_EQ("", stderr_of([&] { loam_free(p); }));
        }
        loam_free(kept);
    }
    lm_sites_record(3);
    char *p = hidden(loam_malloc_aligned_offset(7654, 64, 8));
    std::string said = stderr_of(lm_leaks_print);
    EXPECT_NE(std::string::npos,
              said.find(text("object(s) of 7654 B, the first at %p\nloam:     #0 ", p)))
        << said;
    loam_free(p);
}

/* The size in its end word takes more bits than that of others. */
TEST_F(Debug, AnOverflowOfAVeryLargeObjectIsNoUnderflow) {
    for (size_t bytes : {size_t{1} << 20, size_t{32} << 20, size_t{600} << 20}) {
        char *p = hidden(loam_malloc(bytes - LM_TRAILER)), was[LM_TRAILER];
        ASSERT_NE(nullptr, p);
        char *fence = p + bytes - LM_TRAILER;
        memcpy(was, fence, LM_TRAILER);
        memset(fence, 7, LM_TRAILER - 4); /* up to the middle of the end word */
        std::string said = stderr_of([&] { loam_free(p); });
        EXPECT_NE(std::string::npos, said.find(text("overflow of %p", p))) << bytes << said;
        EXPECT_EQ(std::string::npos, said.find("underflow")) << bytes << ": " << said;
        memcpy(fence, was, LM_TRAILER);
        /* The last two bytes, which only what lies behind reaches. */
        fence[LM_TRAILER - 1] ^= 1;
        said = stderr_of([&] { loam_free(p); });
        EXPECT_NE(std::string::npos, said.find("underflow of")) << bytes << said;
        memcpy(fence, was, LM_TRAILER);
        EXPECT_EQ("", stderr_of([&] { loam_free(p); }));
    }
}

TEST_F(Debug, ALargeObjectOfAHeapWaitsAsWell) {
    loam_heap *heap = loam_heap_create();
    char *p = hidden(loam_heap_malloc(heap, 100000));
    loam_free(p);
    p[5] ^= 1;
    loam_heap_numbers numbers;
    std::string said = stderr_of([&] {
        loam_heap_usage(heap, &numbers);
        (void)loam_collect();
    });
    EXPECT_EQ(0u, numbers.committed_bytes) << "it is no longer the heap's";
    EXPECT_NE(std::string::npos,
              said.find(text("write after free of %p: 1 byte(s) from byte %zu on", p, 5)))
        << said;
    loam_heap_destroy(heap);
}

TEST_F(Debug, ObjectsAreLookedAtWhenTheirHeapIsDestroyed) {
    loam_heap *heap = loam_heap_create();
    char *small = hidden(loam_heap_malloc(heap, 100)), *freed = hidden(loam_heap_malloc(heap, 100)),
         *large = hidden(loam_heap_malloc(heap, 100000));
    small[101] ^= 1;
    large[100000] ^= 1;
    loam_free(freed);
    freed[50] ^= 1;
    std::string said = stderr_of([&] { loam_heap_destroy(heap); });
    EXPECT_NE(std::string::npos,
              said.find(text("overflow of %p: 2 byte(s) past %zu requested", small, 100)))
        << said;
    EXPECT_NE(std::string::npos,
              said.find(text("overflow of %p: 1 byte(s) past %zu requested", large, 100000)))
        << said;
    EXPECT_NE(std::string::npos,
              said.find(text("write after free of %p: 1 byte(s) from byte %zu on", freed, 50)))
        << said;
}

std::vector<char *> sampled(size_t bytes) {
    std::vector<char *> some, others;
    EXPECT_EQ(0, loam_sampling_set(1));
    for (int i = 0; i < 1000 && some.size() < 5; i++) {
        char *p = hidden(loam_malloc(bytes));
        (loam_sampling_holds(p) ? some : others).push_back(p);
    }
    EXPECT_EQ(0, loam_sampling_set(0));
    EXPECT_EQ(5u, some.size());
    for (char *each : others) loam_free(each);
    return some;
}

TEST_F(Debug, SampledAndOverrunObjectsAreListed) {
    std::vector<char *> kept = sampled(3333);
    char *over = hidden(loam_malloc(777)), *far = hidden(loam_malloc(778));
    over[777] ^= 1;
    size_t bytes = lm_page_of(far)->block_bytes;
    char was[16];
    memcpy(was, far + bytes - 16, 16);
    memset(far + bytes - 16, 1, 16);
    std::string said = stderr_of(lm_leaks_print);
    EXPECT_NE(std::string::npos, said.find("loam:   5 object(s) of 3333 B, the first at 0x"))
        << said;
    EXPECT_NE(std::string::npos,
              said.find(text("loam:   overflow of %p: 1 byte(s) past %zu requested", over, 777)))
        << said;
    EXPECT_NE(std::string::npos, said.find(text("at %p is overwritten, if no pool", far))) << said;
    over[777] ^= 1;
    memcpy(far + bytes - 16, was, 16);
    for (void *each : kept) loam_free(each);
    loam_free(over);
    loam_free(far);
}

TEST_F(Debug, SampledObjectsHaveASizeAsWell) {
    std::vector<char *> some = sampled(112);
    std::string said = stderr_of([&] { loam_free_sized(some[4], 113); });
    EXPECT_NE(std::string::npos,
              said.find(text("free of %p with a size of %zu B, 112 requested", some[4], 113)))
        << said;
    EXPECT_EQ("", stderr_of([&] {
                  for (char *each : some) {
                      if (each != some[4]) loam_free_sized(each, 112);
                  }
              }));
}

/* What a handler took is not told by lines either, nor behind the next report. */
TEST_F(Debug, AHandledReportIsOver) {
    lm_sites_record(3);
    char *p = hidden(loam_malloc(100)), *q = hidden(loam_malloc(5000));
    loam_error_register([](int, const char *, void *) {}, nullptr);
    loam_free(p);
    EXPECT_EQ("", stderr_of([&] { loam_free(p); }));
    loam_error_register(nullptr, nullptr);
    int on_stack = 0;
    std::string said = stderr_of([&] { loam_free(hidden(&on_stack)); });
    EXPECT_EQ(std::string::npos, said.find("was allocated by")) << said;
    loam_free(q);
}

TEST_F(Debug, AMisalignedPointersObjectIsNamed) {
    lm_sites_record(3);
    for (size_t size : {100u, 1000u, 100000u}) {
        char *p = hidden(loam_malloc(size));
        std::string said = stderr_of([&] { loam_free(p + 16); });
        EXPECT_NE(std::string::npos, said.find(text("at %p, ", p))) << said;
        EXPECT_NE(std::string::npos, said.find(text("loam:   %p was allocated by", p))) << said;
        loam_free(p);
    }
}

TEST_F(Debug, ReportsHaveSizes) {
    char *p = hidden(loam_malloc(70)), *large = hidden(loam_malloc(70000));
    loam_free(p);
    loam_free(large);
    std::string said = stderr_of([&] { loam_free(p); });
    EXPECT_NE(std::string::npos, said.find("(size class 96 B, 70 requested, ")) << said;
    said = stderr_of([&] { loam_free(large); });
    EXPECT_NE(std::string::npos, said.find("(size class 73728 B, 70000 requested, ")) << said;
    p = hidden(loam_malloc(70));
    loam_free(p);
    p[9] ^= 1;
    said = until(p, [] { return loam_malloc(70); });
    EXPECT_NE(std::string::npos, said.find("(size class 96 B, 70 requested, ")) << said;
    loam_free(p);
}

/* An end word of this size would be a block's that is larger than the page. */
constexpr size_t kAbsurd = size_t(1) << 40;

TEST_F(Debug, AnEndWordWithAnAbsurdSizeIsDamage) {
    for (lm_state_t state : {LM_STATE_FREED, LM_STATE_USED}) {
        char *p = hidden(loam_malloc(2000));
        char *end = p + lm_page_of(p)->block_bytes;
        lm_word_set(end, kAbsurd, state);
        std::string said = stderr_of([&] { loam_free(p); });
        EXPECT_NE(std::string::npos, said.find(text("loam: overflow of %p", p))) << said;
        EXPECT_EQ(std::string::npos, said.find("double free")) << said;
        lm_word_set(end, 2000, LM_STATE_USED);
        loam_free(p);
    }
}

TEST_F(Debug, AnEndWordWithAnAbsurdSizeIsPartOfARow) {
    for (lm_state_t state : {LM_STATE_FREED, LM_STATE_USED}) {
        std::vector<char *> all;
        size_t bytes;
        do {
            all.push_back(hidden(loam_malloc(400)));
            bytes = lm_page_of(all.back())->block_bytes;
        } while (all.size() < 4 || all.end()[-1] - all.end()[-4] != ptrdiff_t(3 * bytes));
        char *p = all.back(); /* underflows over two objects, to the end word of a third */
        std::string saved(p - 3 * bytes, 3 * bytes);
        memset(p - 2 * bytes - 4, 0x3c, 2 * bytes + 4);
        lm_word_set(p - bytes, kAbsurd, state);
        std::string said = stderr_of([&] { loam_free(p); });
        EXPECT_NE(std::string::npos, said.find(text("loam: underflow of %p: ", p))) << said;
        memcpy(p - 3 * bytes, saved.data(), saved.size());
        for (char *each : all) loam_free(each);
    }
}

/* The one behind was never anybody's. */
TEST_F(Debug, PastTheFenceBothAreNamed) {
    char *p = nullptr;
    for (int i = 0; i < 5000; i++) {
        p = hidden(loam_malloc(16));
        size_t requested;
        if (lm_page_of(p) == lm_page_of(p + 32) &&
            lm_word_get(p + 64, &requested) == LM_STATE_FREED)
            break;
    }
    p[31] ^= 1;
    std::string said = stderr_of([&] { loam_free(p); });
    EXPECT_NE(std::string::npos, said.find(text("loam: overflow of %p, ", p))) << said;
    EXPECT_NE(std::string::npos, said.find(text("underflow of %p, or a stray write", p + 32)))
        << said;
    p[31] ^= 1;
    loam_free(p);
}

/* In a process of its own: they are kept for ever. */
TEST_F(Debug, ThatThereAreTooManySitesIsSaid) {
    testing::GTEST_FLAG(death_test_style) = "fast";
    EXPECT_EXIT(
        {
            lm_sites_record(16);
            std::mt19937_64 random(1);
            for (int i = 0; i < 400000; i++) {
                uintptr_t place = random();
                (void)lm_sites_number(&place, 1);
            }
            char *p = hidden(loam_malloc(100));
            loam_free(p);
            loam_free(p);
            _exit(0);
        },
        testing::ExitedWithCode(0),
        "was allocated by thread [0-9]+\nloam:     from where is not known");
}
#else
/* The options of the debug build cost others a line, and nothing else. */
TEST(Debug, OthersSayThatTheyCannot) {
    char entry[] = "LOAM_SHOW_LEAKS=1", *environment[] = {entry, nullptr};
    std::string said = stderr_of([&] { lm_options_read(nullptr, environment); });
    EXPECT_EQ("loam: LOAM_SHOW_LEAKS ignored: only the debug build can (cmake -DLOAM_DEBUG=ON)\n",
              said);
    char *none[] = {nullptr};
    EXPECT_EQ("", stderr_of([&] { lm_options_read(nullptr, none); }));
    size_t told = LOAM_SECURE ? 100 : 99; /* not held against anything in the release build */
    loam_free_sized(hidden(loam_malloc(100)), told);
}
#endif

} // namespace

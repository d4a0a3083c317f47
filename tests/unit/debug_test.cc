/* debug_test.cc: what the debug build finds beyond tests/misuse, which runs whole programs: every byte of a freed
 * block, large objects that wait, pages that go back, call sites and the list of what is in use. Reports are read, and
 * the program goes on (LOAM_ON_ERROR=ignore). */
#include "stderr_of.h"

#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "api/api.h"
#include "heap/room.h"
}

#include <chrono>
#include <cstring>
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
    EXPECT_NE(
        std::string::npos,
        said.find(text("loam: write after free of %p: the end of its block is overwritten", p)))
        << said;
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

/* It has no thread-local storage, and libc does not know it: who says all this must need neither. */
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
    EXPECT_NE(std::string::npos, said.find("loam:     #0 0x")) << said;
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
    size_t align = 2 * (reinterpret_cast<uintptr_t>(p) & -reinterpret_cast<uintptr_t>(p));
    said = stderr_of([&] { loam_free_aligned_sized(p, align, 100); });
    EXPECT_NE(std::string::npos,
              said.find(text("free of %p as one aligned to %zu B, which it is not", p, align)))
        << said;
    p = hidden(loam_realloc(p, 150));
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

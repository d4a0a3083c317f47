/* guard_test.cc: pages of blocks of the secure build end in a guard, if the system has guards. */
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include <loam/malloc.h>
#include <loam/options.h>

extern "C" {
#include "span/internal.h"
#include "survey/survey.h"
}

namespace {

#if LM_SECURE

constexpr int kInstall = 102; /* MADV_GUARD_INSTALL */

/* Asked of the system itself, by touching one: emulators say yes to whatever they do not know. */
bool system_has_them() {
    if (sysconf(_SC_PAGESIZE) > LM_MARK_BYTES) return false; /* loam makes none then */
    void *p = mmap(nullptr, 8192, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int ends[2];
    if (p == MAP_FAILED || madvise(p, 4096, kInstall) != 0 || pipe(ends) != 0) return false;
    bool made = write(ends[1], p, 1) < 0; /* the system itself cannot read it */
    close(ends[0]);
    close(ends[1]);
    munmap(p, 8192);
    return made;
}

#define NEEDS_GUARDS() \
    if (!system_has_them()) GTEST_SKIP() << "the system has no guard regions (Linux 6.13)"

/* All blocks of a page of that size. */
struct Full {
    std::vector<char *> blocks;
    lm_page_t *page = nullptr;
    size_t size;

    explicit Full(size_t bytes) : size(bytes - LM_TRAILER) {
        std::map<lm_page_t *, std::vector<char *>> of_page;
        for (int n = 0; n < 20000 && page == nullptr; n++) {
            char *p = static_cast<char *>(lm_malloc(size));
            if (p == nullptr) break;
            std::vector<char *> &blocks_there = of_page[lm_page_of(p)];
            blocks_there.push_back(p);
            if (blocks_there.size() == lm_page_of(p)->capacity) page = lm_page_of(p);
        }
        if (page != nullptr) blocks.swap(of_page[page]);
        for (auto &other : of_page) {
            for (char *p : other.second) lm_free(p);
        }
    }
    ~Full() {
        for (char *p : blocks) lm_free(p);
        lm_heap_collect();
    }
    Full(const Full &) = delete;

    char *start() const { return lm_span_start(page); }
    char *end() const { return start() + (size_t{page->slices} << LM_SLICE_SHIFT); }
};

TEST(Guard, APageOfBlocksEndsInOne) {
    NEEDS_GUARDS();
    for (size_t bytes : {16, 48, 1024, 4096, 10240, 65536}) {
        Full full(bytes);
        ASSERT_NE(nullptr, full.page) << bytes;
        ASSERT_EQ(full.page->capacity, full.blocks.size()) << bytes;
        for (char *p : full.blocks) {
            ASSERT_LE(p + bytes, full.end() - LM_MARK_BYTES) << bytes;
            memset(p, 1, full.size);
        }
        volatile char *guard = full.end() - LM_MARK_BYTES;
        EXPECT_EXIT(guard[0] = 1, testing::KilledBySignal(SIGSEGV), "") << bytes;
        EXPECT_EXIT((void)guard[LM_MARK_BYTES - 1], testing::KilledBySignal(SIGSEGV), "") << bytes;
        lm_span_check();
    }
}

TEST(Guard, ALongOverflowEndsThere) {
    NEEDS_GUARDS();
    char *p = static_cast<char *>(lm_malloc(40));
    EXPECT_EXIT(memset(p, 1, 200000), testing::KilledBySignal(SIGSEGV), "");
    lm_free(p);
}

TEST(Guard, AFreeThereIsReported) {
    Full full(48);
    ASSERT_NE(nullptr, full.page);
    ASSERT_EQ(size_t{1}, full.page->slices);
    for (size_t back : {16, 64, 2048, 4080, 4096, 4112, 5008, 5120}) {
        char *p = full.end() - back;
        size_t at = static_cast<size_t>(p - full.start());
        if (at % 48 == 0 && at / 48 < full.page->capacity) continue;
        EXPECT_DEATH(lm_free(p), "misaligned pointer") << back;
        EXPECT_DEATH((void)lm_realloc(p, 100), "misaligned pointer") << back;
        EXPECT_DEATH(lm_free_sized(p, 40), "misaligned pointer") << back;
    }
}

/* Slices that have had guards, and are dirty. */
void used_before() {
    Full full(3072);
    ASSERT_NE(nullptr, full.page);
    EXPECT_EQ(lm_span_marks(), full.page[full.page->slices - 1].marked);
}

/* Those of objects at an offset have no block there, either. */
TEST(Guard, AFreeThereOfObjectsAtAnOffset) {
    void *p = loam_malloc_aligned_offset(1000, 256, 8);
    ASSERT_NE(nullptr, p);
    lm_page_t *page = lm_page_of(p);
    ASSERT_EQ(LM_KIND_PAGE, page->kind);
    char *end = lm_span_start(page) + (size_t{page->slices} << LM_SLICE_SHIFT);
    for (size_t back : {16, 24, 2048, 4088}) {
        EXPECT_DEATH(lm_free(end - back), "misaligned pointer") << back;
        EXPECT_DEATH((void)lm_realloc(end - back, 10), "misaligned pointer") << back;
        EXPECT_DEATH(lm_free_sized(end - back, 1000), "misaligned pointer") << back;
    }
    lm_free(p);
}

/* What pages left on slices in the middle of a longer one is gone; the longer one's is where it
 * ends. */
TEST(Guard, PagesOfOtherLengthsFollow) {
    for (int round = 0; round < 20; round++) {
        for (size_t bytes : {1152, 65536, 20480, 2048, 8192, 40960}) {
            std::vector<char *> objects;
            for (size_t n = 0; n < (size_t{2} << 20); n += bytes) {
                objects.push_back(static_cast<char *>(lm_malloc(bytes - LM_TRAILER)));
                ASSERT_NE(nullptr, objects.back());
                memset(objects.back(), round, bytes - LM_TRAILER);
            }
            for (char *p : objects) lm_free(p);
            if (round % 2 == 0) lm_heap_collect();
            lm_span_check();
        }
    }
}

/* Purged memory is accessible throughout, and what is made of it has guards anew. */
TEST(Guard, PurgedMemoryHasNone) {
    NEEDS_GUARDS();
    for (int round = 0; round < 3; round++) {
        Full full(4096);
        ASSERT_NE(nullptr, full.page);
        EXPECT_TRUE(full.page[full.page->slices - 1].marked);
        volatile char *guard = full.end() - LM_MARK_BYTES;
        EXPECT_EXIT(guard[0] = 1, testing::KilledBySignal(SIGSEGV), "");
        size_t slice = lm_span_slice(full.page);
        for (char *p : full.blocks) lm_free(p);
        full.blocks.clear();
        lm_heap_collect();
        lm_purge_all();
        lm_span_check();
        EXPECT_FALSE(lm_space_slot(slice)->marked);
        EXPECT_EQ(0, guard[0]) << "a group's addresses stay";
    }
}

/* All of a page is there, and all of it holds blocks. */
void expect_none() {
    Full full(3072);
    ASSERT_NE(nullptr, full.page);
    EXPECT_FALSE(full.page[full.page->slices - 1].marked);
    EXPECT_EQ((size_t{full.page->slices} << LM_SLICE_SHIFT) / 3072, full.page->capacity);
    for (char *p : full.blocks) memset(p, 1, full.size);
    volatile char *last = full.end() - 1; /* nobody's */
    EXPECT_EQ(0, *last);
    lm_span_check();
}

/* Pages of blocks of 3 KiB that were made now. */
std::vector<std::unique_ptr<Full>> some_pages() {
    std::vector<std::unique_ptr<Full>> pages;
    for (int i = 0; i < 60; i++) {
        pages.push_back(std::make_unique<Full>(3072));
        EXPECT_NE(nullptr, pages.back()->page);
    }
    return pages;
}

/* What a huge page backs has no guards, which would split it; once it was purged it has them
 * again. */
TEST(Guard, WhatAHugePageBacksHasNone) {
    lm_huge_when_t was = lm_huge_policy.when;
    lm_huge_policy.when = LM_HUGE_ALWAYS;
    lm_huge_took(0);
    std::vector<lm_page_t *> backed;
    {
        auto pages = some_pages();
        for (const auto &full : pages) {
            lm_page_t *last = full->page + full->page->slices - 1;
            EXPECT_EQ(lm_span_marks() && !last->backed, last->marked);
            size_t room =
                (size_t{full->page->slices} << LM_SLICE_SHIFT) - (last->marked ? LM_MARK_BYTES : 0);
            EXPECT_EQ(room / 3072, full->page->capacity);
            if (!last->backed) continue;
            backed.push_back(last);
            for (char *p : full->blocks) memset(p, 1, full->size);
            volatile char *end = full->end() - 1; /* nobody's */
            EXPECT_EQ(0, *end);
        }
        lm_span_check();
    }
    EXPECT_GE(backed.size(), 16u);
    lm_huge_policy.when = was;
    lm_purge_all();
    lm_span_check();
    for (lm_page_t *slice : backed) EXPECT_FALSE(slice->backed);
    used_before();
}

/* Memory of a huge page is zero, and is not cleared again; once it was used it is. */
TEST(Guard, WhatAHugePageBacksIsZero) {
    lm_huge_when_t was = lm_huge_policy.when;
    lm_huge_policy.when = LM_HUGE_ALWAYS;
    for (size_t bytes : {3072, 2048, 3072, 20480, 2048}) {
        lm_huge_took(0);
        std::vector<char *> blocks;
        for (size_t n = 0; n < (size_t{5} << 20); n += bytes) {
            blocks.push_back(static_cast<char *>(lm_malloc(bytes - LM_TRAILER)));
            ASSERT_NE(nullptr, blocks.back());
            ASSERT_TRUE(std::all_of(blocks.back(), blocks.back() + bytes - LM_TRAILER,
                                    [](char c) { return c == 0; }));
            memset(blocks.back(), 1, bytes - LM_TRAILER);
        }
        for (char *p : blocks) lm_free(p);
        lm_heap_collect();
        lm_span_check();
    }
    lm_huge_policy.when = was;
    lm_purge_all();
}

/* Blocks of that size, all memory of many pages, which then are free. */
void fill(size_t bytes) {
    std::vector<void *> taken;
    for (size_t n = 0; n < (size_t{2} << 20); n += bytes)
        taken.push_back(lm_malloc(bytes - LM_TRAILER));
    for (void *p : taken) lm_free(p);
    lm_heap_collect();
}

/* Blocks of another size lay where the guard's page has no block: a page without a guard has one
 * there. */
TEST(Guard, WhatLiesBehindTheLastBlockIsNotTakenForClear) {
    for (size_t bytes : {112, 144, 1152}) {
        fill(bytes <= 128 ? 16 : bytes <= 1024 ? 160 : 1280);
        fill(bytes);
        ASSERT_EQ(0, loam_option_set("PAGE_GUARDS", "0"));
        fill(bytes); /* malloc finds what was written after its free */
        ASSERT_EQ(0, loam_option_set("PAGE_GUARDS", "1"));
    }
}

TEST(Guard, NoneByOption) {
    used_before();
    ASSERT_EQ(0, loam_option_set("PAGE_GUARDS", "0"));
    expect_none();
    ASSERT_EQ(0, loam_option_set("PAGE_GUARDS", "1"));
    used_before();
}

#else

TEST(Guard, OnlyInTheSecureBuild) {
    GTEST_SKIP() << "pages end where their blocks do in this build";
}

#endif

} // namespace

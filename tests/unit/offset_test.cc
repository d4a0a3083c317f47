/* offset_test.cc: pointers into blocks of objects at an offset that are no object: each is
 * reported, and changes nothing. The tests read the reports, and the program goes on. */
#include "stderr_of.h"

#include <gtest/gtest.h>
#include <loam/loam.h>

extern "C" {
#include "api/api.h"
#include "survey/survey.h"
}

#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace {

using unit::stderr_of;

class OffsetMisuse : public testing::Test {
  protected:
    void SetUp() override { lm_misuse_policy.ignore = true; }
    void TearDown() override {
        lm_misuse_policy.ignore = false;
        lm_heap_check();
        lm_span_check();
    }
    /* Calls change; it must be reported, and no block be free or in use because of it. */
    static void refused(const lm_page_t *page, const char *what,
                        const std::function<void()> &change) {
        uint32_t live = page->live;
        const lm_block_t *free = page->free;
        std::string said = stderr_of(change);
        EXPECT_EQ(0u, said.find("loam: ")) << what << ": " << said;
        EXPECT_EQ(std::string::npos, said.find("double free")) << what << ": " << said;
        EXPECT_EQ(live, page->live) << what;
        EXPECT_EQ(free, page->free) << what;
    }
    static void refused_by_all(const lm_page_t *page, char *p) {
        refused(page, "free", [=] { loam_free(p); });
        refused(page, "free_sized", [=] { loam_free_sized(p, 40); });
        refused(page, "free_aligned", [=] { lm_free_aligned(p, 64); });
        refused(page, "free_aligned_sized", [=] { loam_free_aligned_sized(p, 64, 40); });
        if (!LM_GUARD_LINKS) return; /* the release build tests only what is freed */
        refused(page, "realloc", [=] { EXPECT_EQ(nullptr, loam_realloc(p, 100)); });
        refused(page, "recalloc", [=] { EXPECT_EQ(nullptr, loam_recalloc(p, 1, 100)); });
        refused(page, "expand", [=] { EXPECT_EQ(nullptr, loam_expand(p, 10)); });
        refused(page, "usable size", [=] { EXPECT_EQ(0u, loam_usable_size(p)); });
    }
};

/* Where each block of a page begins: in use, freed, never used, never made, and behind all. */
TEST_F(OffsetMisuse, NoBlockBeginsWithAnObject) {
    for (size_t size : {40u, 1000u, 5000u}) {
        auto *p = static_cast<char *>(loam_malloc_aligned_offset(size, 64, 8));
        void *freed = loam_malloc_aligned_offset(size, 64, 8);
        ASSERT_TRUE(p != nullptr && freed != nullptr);
        loam_free(freed);
        const lm_page_t *page = lm_page_of(p);
        ASSERT_EQ(LM_KIND_PAGE, page->kind);
        char *start = lm_span_start(page), *end = start + (size_t{page->slices} << LM_SLICE_SHIFT);
        size_t step = page->block_bytes, few = step * (1 + page->capacity / 40);
        for (char *at = start; at < end; at += at < start + 4 * step ? step : few) {
            SCOPED_TRACE(std::to_string(size) + ", block " + std::to_string((at - start) / step));
            refused_by_all(page, at);
        }
        for (char *at = start + page->carved * step; at < end; at += page->capacity * step / 5)
            refused_by_all(page, at);
        EXPECT_EQ("", stderr_of([&] { loam_free(p); }));
    }
}

TEST_F(OffsetMisuse, NoLargeObjectBeginsWithItsSpan) {
    auto *p = static_cast<char *>(loam_malloc_aligned_offset(300000, 64, 8));
    ASSERT_NE(nullptr, p);
    const lm_page_t *page = lm_page_of(p);
    EXPECT_NE("", stderr_of([&] { loam_free(lm_span_start(page)); }));
    EXPECT_EQ(page, lm_page_of(p));
    EXPECT_EQ("", stderr_of([&] { loam_free(p); }));
}

/* Memory that had other objects holds any words; those in blocks that were never used since do not
 * tell where an object is. */
TEST_F(OffsetMisuse, WordsOfEarlierObjectsNameNone) {
    const size_t kShift = 48, kBytes = 112;
    std::vector<void *> all;
    for (int i = 0; i < 20000; i++) {
        auto *words = static_cast<size_t *>(loam_malloc(kBytes));
        ASSERT_NE(nullptr, words);
        for (size_t word = 0; word < kBytes / sizeof *words; word++) words[word] = kShift;
        all.push_back(words);
    }
    for (void *p : all) loam_free(p);
    lm_heap_collect(); /* which purges nothing */
    void *p = loam_malloc_aligned_offset(40, 64, 8);
    ASSERT_NE(nullptr, p);
    const lm_page_t *page = lm_page_of(p);
    for (size_t i = 0; i < page->carved; i++) {
        char *at = lm_span_start(page) + i * page->block_bytes + kShift;
        if (at == p) continue;
        SCOPED_TRACE(i);
        refused(page, "free", [=] { loam_free(at); });
    }
    EXPECT_EQ("", stderr_of([&] { loam_free(p); }));
}

} // namespace

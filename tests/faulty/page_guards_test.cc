/* page_guards_test.cc: the secure build where the system has no guards for pages of blocks, or
 * refuses one. */
#include "child.h"

extern "C" {
#include "os/faulty.h"
#include "survey/survey.h"
}

#include <cstring>
#include <map>
#include <vector>

namespace {

#if LM_SECURE

using faulty::Found;

/* Writes all of each block of so many KiB in blocks, gives them back, and returns how many pages
 * had a guard. */
size_t guarded(size_t bytes, size_t kib) {
    std::vector<void *> taken;
    std::map<lm_page_t *, size_t> of_page;
    for (size_t n = 0; n < kib * 1024; n += bytes) {
        taken.push_back(lm_malloc(bytes - LM_TRAILER));
        EXPECT_NE(nullptr, taken.back());
        memset(taken.back(), 1, bytes - LM_TRAILER);
        of_page[lm_page_of(taken.back())]++;
    }
    size_t count = 0;
    for (auto &page : of_page) {
        lm_page_t *last = page.first + page.first->slices - 1;
        size_t room =
            (size_t{page.first->slices} << LM_SLICE_SHIFT) - (last->marked ? LM_MARK_BYTES : 0);
        EXPECT_EQ(room / bytes, page.first->capacity);
        EXPECT_LE(page.second, page.first->capacity);
        count += last->marked;
    }
    lm_span_check();
    for (void *p : taken) lm_free(p);
    lm_heap_collect(); /* the current page, too */
    return count;
}

TEST(PageGuardsRefused, FromTheStart) {
    faulty::in_child([](Found &) {
        lm_faulty_fail(LM_FAULT_PROTECT, 1, LM_FAULT_ALWAYS);
        EXPECT_EQ(0u, guarded(1536, 1000));
        EXPECT_FALSE(lm_span_marks());
        lm_faulty_clear();
        EXPECT_EQ(0u, guarded(1536, 1000)) << "it is not asked again";
        EXPECT_EQ(0u, guarded(48, 1000));
    });
}

/* Guards that are in the way go by another call, or the page is not made, and others are. */
TEST(PageGuardsRefused, ToGo) {
    for (bool both : {false, true}) {
        faulty::in_child([=](Found &) {
            size_t had = guarded(1536, 1000);
            if (had == 0) return; /* as below */
            lm_faulty_fail(both ? LM_FAULT_ANY : LM_FAULT_UNMARK, 1, LM_FAULT_ALWAYS);
            size_t refused = 0;
            for (size_t bytes : {20480, 65536, 2048, 40960}) {
                std::vector<void *> taken;
                for (int i = 0; i < 200; i++) {
                    void *p = lm_malloc(bytes - LM_TRAILER);
                    refused += p == nullptr;
                    if (p != nullptr) taken.push_back(memset(p, 1, bytes - LM_TRAILER));
                }
                for (void *p : taken) lm_free(p);
                lm_heap_collect();
                lm_span_check();
            }
            EXPECT_EQ(both, refused > 0);
            lm_purge_all();
            lm_span_check();
            lm_faulty_clear();
            lm_heap_check();
            (void)guarded(1536, 1000);
            (void)guarded(65536, 1000);
        });
    }
}

/* Those that are there go, or stay, as pages come and go on them. */
TEST(PageGuardsRefused, LaterOn) {
    faulty::in_child([](Found &) {
        size_t had = guarded(1536, 1000);
        if (had == 0) return; /* this system has none: as above */
        lm_faulty_fail(LM_FAULT_PROTECT, 1, LM_FAULT_ALWAYS);
        EXPECT_LE(guarded(1536, 3000), had);
        EXPECT_FALSE(lm_span_marks());
        for (size_t bytes : {20480, 1536, 65536, 48, 2048}) EXPECT_EQ(0u, guarded(bytes, 2000));
        lm_faulty_clear();
    });
}

#else

TEST(PageGuardsRefused, OnlyInTheSecureBuild) {
    GTEST_SKIP() << "pages of blocks have no guards in this build";
}

#endif

} // namespace

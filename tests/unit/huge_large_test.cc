/* huge_large_test.cc: large objects that will be filled are marked for huge pages for as long as
 * they are in use. Whether the system then uses huge pages is not tested: the tests read the marks
 * from its list of mappings.
 */
#include "heap_unit.h"

extern "C" {
#include "span/internal.h"
}

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace {

constexpr size_t kMiB = size_t{1} << 20;

/* The two letters of the mark, "hg" or "nh" or none, of the mapping that p lies in. */
std::string mark_of(const void *p) {
    std::ifstream maps("/proc/self/smaps");
    std::string line;
    bool here = false;
    while (std::getline(maps, line)) {
        unsigned long from = 0, to = 0;
        if (line.find(':') > line.find('-') && sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
            here = (uintptr_t)p >= from && (uintptr_t)p < to;
        if (!here || line.rfind("VmFlags:", 0) != 0) continue;
        std::istringstream flags(line.substr(8));
        for (std::string flag; flags >> flag;)
            if (flag == "hg" || flag == "nh") return flag;
        return "none";
    }
    return "unmapped";
}

class HugeLarge : public unit::PausedWorkerTest {
  protected:
    void SetUp() override {
        unit::PausedWorkerTest::SetUp();
        lm_huge_took(0);
        char *p = (char *)lm_large_alloc(8 * kMiB, 1, nullptr);
        bool marks = mark_of(p + 4 * kMiB) == "hg";
        lm_block_free(p);
        lm_purge_all();
        if (!marks)
            GTEST_SKIP() << "this system keeps no marks for huge pages, or does not show them";
    }
};

char *whole(char *p) { return (char *)lm_align_up((uintptr_t)p, 2 * kMiB); }

TEST_F(HugeLarge, TheWholeOnesWithinAndNoOthers) {
    char *p = (char *)lm_large_alloc(9 * kMiB, 1, nullptr);
    char *first = whole(p), *last = (char *)lm_align_down((uintptr_t)p + 9 * kMiB, 2 * kMiB);
    EXPECT_EQ("hg", mark_of(first));
    EXPECT_EQ("hg", mark_of(last - 1));
    EXPECT_NE("hg", mark_of(last));
    EXPECT_TRUE(first == p || mark_of(first - 1) != "hg");
    lm_block_free(p);
    EXPECT_NE("hg", mark_of(first)) << "what is purged must not come back huge";
}

TEST_F(HugeLarge, NotTheSmallerAndNotWhatIsToBeZero) {
    char *p = (char *)lm_large_alloc(4 * kMiB - 4096, 1, nullptr);
    EXPECT_NE("hg", mark_of(whole(p)));
    lm_block_free(p);
    bool zero = false;
    p = (char *)lm_large_alloc(16 * kMiB, 1, &zero);
    EXPECT_NE("hg", mark_of(whole(p)));
    lm_block_free(p);
}

TEST_F(HugeLarge, NotWhileTheyAreSlow) {
    lm_huge_took(1000000);
    char *p = (char *)lm_large_alloc(16 * kMiB, 1, nullptr);
    EXPECT_NE("hg", mark_of(whole(p)));
    lm_block_free(p);
    lm_huge_took(0);
}

TEST_F(HugeLarge, ByOption) {
    lm_huge_policy.when = LM_HUGE_NEVER;
    char *p = (char *)lm_large_alloc(16 * kMiB, 1, nullptr);
    EXPECT_NE("hg", mark_of(whole(p)));
    lm_block_free(p);
    lm_huge_policy.when = LM_HUGE_ALWAYS;
    lm_huge_took(1000000);
    char *wall = (char *)lm_large_alloc(kMiB, 1, nullptr); /* apart from what was marked before */
    p = (char *)lm_large_alloc(4 * kMiB - 4096, 1, nullptr);
    EXPECT_EQ("hg", mark_of(whole(p))) << "smaller ones, and however slow";
    lm_huge_policy.when = LM_HUGE_NEVER;
    lm_block_free(p);
    EXPECT_NE("hg", mark_of(whole(p))) << "its mark ends with it all the same";
    lm_block_free(wall);
    lm_huge_policy.when = LM_HUGE_AUTO;
    lm_huge_took(0);
}

TEST_F(HugeLarge, AsItGrowsAndShrinks) {
    char *p = (char *)lm_malloc(5 * kMiB);
    memset(p, 0x5a, 5 * kMiB);
    void *behind = lm_large_alloc(kMiB, 1, nullptr); /* in the way */
    char *q = (char *)lm_realloc(p, 24 * kMiB);
    ASSERT_NE(nullptr, q);
    for (size_t i = 0; i < 5 * kMiB; i += 4096) ASSERT_EQ(0x5a, q[i]) << i;
    EXPECT_EQ("hg", mark_of(whole(q)));
    EXPECT_EQ("hg", mark_of(whole(q) + 20 * kMiB));
    q = (char *)lm_realloc(q, 9 * kMiB);
    EXPECT_EQ("hg", mark_of(whole(q)));
    EXPECT_NE("hg", mark_of(whole(q) + 20 * kMiB));
    lm_free(q);
    lm_block_free(behind);
    EXPECT_NE("hg", mark_of(whole(q)));
}

/* The system has few map entries: 65530 as a rule. */
TEST_F(HugeLarge, NotTooManyOfThem) {
    lm_huge_policy.when = LM_HUGE_ALWAYS;
    std::vector<char *> all(4096 + 2);
    for (char *&p : all) {
        p = (char *)lm_large_alloc(4 * kMiB, 1, nullptr);
        ASSERT_NE(nullptr, p);
    }
    EXPECT_EQ("hg", mark_of(whole(all[4000])));
    EXPECT_NE("hg", mark_of(whole(all.back())));
    for (char *p : all) lm_block_free(p);
    lm_huge_policy.when = LM_HUGE_AUTO;
    char *again = (char *)lm_large_alloc(8 * kMiB, 1, nullptr);
    EXPECT_EQ("hg", mark_of(whole(again)));
    lm_block_free(again);
}

/* A program that touches a byte of many objects of gigabytes would have 2 MiB for each. */
TEST_F(HugeLarge, FewThatStayEmpty) {
    const size_t bytes = 8 * kMiB;
    std::vector<char *> all(100);
    auto count = [&] {
        size_t n = 0;
        for (char *p : all) n += mark_of(whole(p)) == "hg";
        return n;
    };
    auto allocate = [&] {
        for (char *&p : all) ASSERT_NE(nullptr, p = (char *)lm_large_alloc(bytes, 1, nullptr));
    };
    auto free_all = [&] {
        for (char *p : all) lm_block_free(p);
    };
    allocate();
    EXPECT_EQ(16u, count());
    free_all();
    allocate();
    EXPECT_EQ(16u, count()) << "as before: none of those that are freed counts";
    for (size_t i = 0; i < 20; i++) memset(all[i], 1, bytes);
    char *more = (char *)lm_large_alloc(bytes, 1, nullptr);
    EXPECT_EQ("hg", mark_of(whole(more))) << "what is filled makes room for others";
    lm_block_free(more);
    free_all();
}

/* The smallest that are marked have one whole huge page, which may hold an end of the object. */
TEST_F(HugeLarge, FewOfWhichTheEndsAreTouched) {
    for (size_t bytes : {4 * kMiB, 5 * kMiB, 7 * kMiB, 20 * kMiB}) {
        std::vector<char *> all(60);
        size_t marked = 0;
        for (char *&p : all) {
            p = (char *)lm_large_alloc(bytes, 1, nullptr);
            ASSERT_NE(nullptr, p);
            p[0] = p[bytes - 1] = 1;
            marked += mark_of(whole(p)) == "hg";
        }
        /* One of 32 of 4 MiB is two huge pages and nothing else. */
        size_t most = bytes == 4 * kMiB ? 24 : 16;
        /* The secure build reads a few places of what it hands out, drawn at random. A page that
         * was read is in memory, and one of these may be the page that is asked about. */
        if (LM_SECURE) most += 4;
        EXPECT_LE(marked, most) << bytes;
        EXPECT_GT(marked, 0u) << bytes;
        for (char *p : all) lm_block_free(p);
        lm_purge_all(); /* an object over resident memory of an earlier one would count as filled */
    }
}

/* A program of few large objects may allocate all before it fills them. */
TEST_F(HugeLarge, EachThatIsFilledAtOnce) {
    std::vector<char *> all(40);
    for (char *&p : all) {
        p = (char *)lm_large_alloc(4 * kMiB, 1, nullptr);
        ASSERT_NE(nullptr, p);
        if (p == whole(p)) {
            EXPECT_EQ("hg", mark_of(p));
        }
        memset(p, 1, 4 * kMiB);
    }
    for (char *p : all) lm_block_free(p);
}

/* The system moves no range of pages of two kinds: the object would have to be copied. */
TEST_F(HugeLarge, IsMovedAndNotCopied) {
    char *p = (char *)lm_large_alloc(16 * kMiB, 1, nullptr);
    void *behind = lm_large_alloc(kMiB, 1, nullptr);
    memset(p, 1, 16 * kMiB);
    lm_page_t *page = lm_page_of(p);
    char *q = (char *)lm_large_resize(page, p, 32 * kMiB);
    if (q == nullptr) {
        lm_block_free(p);
        lm_block_free(behind);
        GTEST_SKIP() << "this system moves no pages";
    }
    EXPECT_NE(p, q);
    EXPECT_EQ(1, q[16 * kMiB - 1]);
    EXPECT_EQ(LM_KIND_CLEAN, page->kind) << "its pages are elsewhere now";
    lm_block_free(q);
    lm_block_free(behind);
}

/* Nobody may ask there whether an object was filled. */
TEST_F(HugeLarge, FewInAProgramThatHasShutItselfIn) {
    lm_purge_allow(false);
    std::vector<char *> all(40);
    size_t marked = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (char *&p : all) {
            ASSERT_NE(nullptr, p = (char *)lm_large_alloc(8 * kMiB, 1, nullptr));
            marked += mark_of(whole(p)) == "hg";
        }
        EXPECT_EQ(16u * (turn + 1), marked);
        for (char *p : all) lm_block_free(p);
    }
}

} // namespace

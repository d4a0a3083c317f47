/* tails_test.cc: the unused end of a large object goes back to the system after the purge delay.
 *
 * No worker runs. Each test moves its clock on and purges in the worker's place, so that no test
 * depends on time. The tests ask the system which memory is resident.
 */
#include "heap_unit.h"

extern "C" {
#include "span/internal.h"
}

#include <cstring>
#include <vector>

namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

size_t span_bytes(const void *p) { return (size_t)lm_page_of(p)->slices << LM_SLICE_SHIFT; }
size_t resident(const void *p, size_t from, size_t to) {
    size_t page = lm_os_page_bytes();
    from = lm_align_up(from, page);
    return from < to ? lm_os_resident_pages((const char *)p + from, to - from) * page : 0;
}
size_t resident(const void *p) { return resident(p, 0, span_bytes(p)); }

/* As the worker does after so many ticks. */
void pass(uint32_t ticks) {
    lm_lock_take(&lm_space.lock);
    lm_space.tick += ticks - 1;
    lm_lock_give(&lm_space.lock);
    lm_space_enter();
    (void)lm_purge_tick();
    lm_space_leave();
    lm_span_check();
}
void pass_delay() { pass(lm_purge_ticks()); }

char *filled(void *p, size_t bytes, int value = 0x5a) {
    EXPECT_NE(nullptr, p) << bytes;
    return (char *)memset(p, value, bytes);
}
char *take(size_t bytes) { return filled(lm_large_alloc(bytes, 1, nullptr), bytes); }

bool intact(const char *p, size_t bytes, char value = 0x5a) {
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != value) return false;
    return true;
}

/* A worker is allowed, but none starts. */
class Tails : public unit::PausedWorkerTest {
  protected:
    void SetUp() override {
        unit::PausedWorkerTest::SetUp();
        char *p = take(kMiB);
        bool asked = resident(p) >= kMiB && resident(p) <= span_bytes(p);
        lm_block_free(p);
        if (!asked) GTEST_SKIP() << "this system does not say what is resident";
        wall_ = take(70 * kKiB); /* objects behind it stay where they are */
        dirty(16 * kMiB);
    }
    void TearDown() override {
        if (wall_ != nullptr) lm_block_free(wall_);
        unit::PausedWorkerTest::TearDown();
    }
    /* Makes so much free memory dirty. */
    static void dirty(size_t bytes) { lm_block_free(take(bytes)); }
    char *wall_ = nullptr;
};

#if LM_SECURE

/* A guard's memory goes when the guard is made; objects beyond the guards of a tick have tails. */
TEST_F(Tails, OfObjectsWithAndWithoutGuards) {
    constexpr size_t kBytes = 66 * kKiB, kObjects = 900;
    dirty(160 * kMiB);
    std::vector<char *> kept;
    size_t guarded = 0;
    for (size_t i = 0; i < kObjects; i++) {
        kept.push_back(take(kBytes));
        bool guard = lm_page_of(kept.back())->bias != 0;
        guarded += guard;
        EXPECT_TRUE(!guard || resident(kept.back()) <= kBytes + kBytes / 8) << i;
    }
    EXPECT_GT(guarded, 0u);
    EXPECT_LT(guarded, kObjects);
    pass_delay();
    for (char *p : kept) {
        EXPECT_LE(resident(p), kBytes + kBytes / 8);
        EXPECT_TRUE(intact(p, kBytes));
    }
    /* Their canaries are whole, and they can grow into what was purged. */
    for (char *&p : kept) {
        char *q = (char *)lm_large_resize_fresh(lm_page_of(p), p, 90 * kKiB, nullptr);
        if (q == nullptr) continue;
        p = filled(q, 90 * kKiB);
    }
    pass_delay();
    for (char *p : kept) {
        EXPECT_TRUE(intact(p, lm_page_of(p)->bytes));
        lm_block_free(p);
    }
    EXPECT_EQ(0u, lm_space.tails_listed);
}

#else

/* Pages at the end of a span that stay: the debug build has a fence there. */
constexpr size_t kFences = LOAM_DEBUG ? 1 : 0;

size_t tail(const void *p) {
    size_t end = span_bytes(p) - kFences * lm_os_page_bytes();
    return resident(p, lm_page_of(p)->bytes, end);
}

TEST_F(Tails, GoBackAfterTheDelayForEverySize) {
    for (size_t bytes = 64 * kKiB + 1; bytes < 3 * kMiB; bytes += bytes / 16 + 1000) {
        SCOPED_TRACE(bytes);
        dirty(8 * kMiB);
        char *p = take(bytes);
        size_t had = tail(p);
        size_t all = span_bytes(p) - lm_align_up(lm_page_of(p)->bytes, lm_os_page_bytes());
        EXPECT_GE(had + kFences * lm_os_page_bytes(), all) << "the memory was not dirty";
        pass(1);
        EXPECT_EQ(had, tail(p)) << "too early";
        pass_delay();
        EXPECT_LE(resident(p), bytes + bytes / 8);
        EXPECT_TRUE(intact(p, bytes));
        EXPECT_FALSE(lm_page_of(p)->tail);
        lm_block_free(p);
    }
}

TEST_F(Tails, OfWhatShrinksInPlace) {
    for (size_t bytes : {66 * kKiB, 100 * kKiB, 300 * kKiB, 1000 * kKiB}) {
        SCOPED_TRACE(bytes);
        char *p = take(2 * kMiB);
        ASSERT_EQ(p, lm_large_resize_fresh(lm_page_of(p), p, bytes, nullptr));
        pass_delay();
        EXPECT_LE(resident(p), bytes + bytes / 8);
        EXPECT_TRUE(intact(p, bytes));
        /* Within one span, too. */
        size_t less = bytes - 12 * kKiB;
        if (less <= 64 * kKiB) less = 64 * kKiB + 1;
        ASSERT_EQ(p, lm_large_resize_fresh(lm_page_of(p), p, less, nullptr));
        pass_delay();
        EXPECT_LE(resident(p), less + less / 8);
        EXPECT_TRUE(intact(p, less));
        lm_block_free(p);
    }
}

TEST_F(Tails, AreKeptByWhatGrowsIntoThem) {
    char *p = take(66 * kKiB);
    pass(2);
    ASSERT_EQ(p, lm_large_resize_fresh(lm_page_of(p), p, 90 * kKiB, nullptr));
    filled(p, 90 * kKiB);
    pass_delay(); /* of what is left of it */
    EXPECT_TRUE(intact(p, 90 * kKiB));
    EXPECT_EQ(0u, tail(p));
    ASSERT_EQ(p, lm_large_resize_fresh(lm_page_of(p), p, 120 * kKiB, nullptr));
    filled(p, 120 * kKiB);
    pass_delay();
    EXPECT_TRUE(intact(p, 120 * kKiB));
    lm_block_free(p);
}

TEST_F(Tails, OfWhatGrowsOverDirtySpansAndOfWhatMoves) {
    char *p = filled(lm_malloc(66 * kKiB), 66 * kKiB), *behind = take(8 * kMiB);
    lm_block_free(behind);
    size_t bytes = 0;
    for (size_t more : {200 * kKiB, 270 * kKiB, 330 * kKiB, 460 * kKiB}) {
        p = (char *)lm_realloc(p, more);
        filled(p, bytes = more);
    }
    pass_delay();
    EXPECT_LE(resident(p), bytes + bytes / 8);
    EXPECT_TRUE(intact(p, bytes));
    dirty(8 * kMiB);
    /* Something behind it makes it move, with room to grow, into dirty memory. */
    for (int i = 0; i < 4; i++) {
        char *wall = take(2 * kMiB);
        p = (char *)lm_realloc(p, bytes + bytes / 3);
        EXPECT_TRUE(intact(p, bytes));
        filled(p, bytes += bytes / 3);
        lm_block_free(wall);
    }
    pass_delay();
    EXPECT_LE(resident(p), bytes + bytes / 8);
    EXPECT_TRUE(intact(p, bytes));
    lm_free(p);
}

/* A tail of many megabytes goes in parts, between which others have the lock. */
TEST_F(Tails, LongOnesGoWhole) {
    lm_page_t *span = lm_span_take(200, 1, LM_KIND_LARGE, nullptr);
    ASSERT_NE(nullptr, span);
    char *p = filled(lm_span_start(span), 200 * LM_SLICE_BYTES);
    lm_span_tail(span, 100 * kKiB, true);
    pass_delay();
    EXPECT_EQ(100 * kKiB + kFences * lm_os_page_bytes(),
              lm_os_resident_pages(p, 200 * LM_SLICE_BYTES) * lm_os_page_bytes());
    EXPECT_TRUE(intact(p, 100 * kKiB));
    lm_span_give(span, true);
}

TEST_F(Tails, GoBackAtATrim) {
    char *p = take(66 * kKiB);
    EXPECT_GE(lm_purge_all(), 50 * kKiB);
    EXPECT_EQ(0u, tail(p));
    EXPECT_TRUE(intact(p, 66 * kKiB));
    lm_block_free(p);
}

/* Where no worker may be, a thread purges once tails exceed what may be dirty. */
TEST_F(Tails, GoBackWithoutAWorker) {
    lm_purge_policy.worker = false;
    dirty(64 * kMiB);
    std::vector<char *> kept;
    for (int i = 0; i < 400; i++) {
        dirty(100 * kKiB);
        kept.push_back(take(66 * kKiB));
    }
    lm_block_free(take(kMiB)); /* any free looks */
    EXPECT_LE(lm_space.tails_listed, 64u + lm_space_used() / 8);
    for (char *p : kept) {
        EXPECT_TRUE(intact(p, 66 * kKiB));
        lm_block_free(p);
    }
    EXPECT_EQ(0u, lm_space.tails_listed);
    lm_purge_policy.worker = true;
}

TEST_F(Tails, NothingByOption) {
    lm_purge_never = true;
    char *p = take(66 * kKiB);
    size_t had = tail(p);
    pass_delay();
    EXPECT_EQ(had, tail(p));
    lm_purge_never = false;
    lm_block_free(p);
}

/* In a copy of a process whose worker was changing the list, it is made from the descriptors. */
TEST_F(Tails, AreListedAnew) {
    std::vector<char *> kept;
    for (int i = 0; i < 10; i++) kept.push_back(take(66 * kKiB));
    size_t listed = lm_space.tails_listed;
    EXPECT_GE(listed, 10u);
    lm_lock_take(&lm_space.lock);
    lm_space.tails.first = nullptr;
    lm_space.tails_listed = 77;
    lm_tails_list_anew();
    lm_lock_give(&lm_space.lock);
    EXPECT_EQ(listed, lm_space.tails_listed);
    lm_span_check();
    pass_delay();
    EXPECT_EQ(0u, lm_space.tails_listed);
    for (char *p : kept) {
        EXPECT_EQ(0u, tail(p));
        lm_block_free(p);
    }
}

#endif

/* A block is copied where less than seven eighths of it would be used, unless it is small. */
TEST_F(Tails, BlocksThatShrinkMove) {
    for (size_t bytes : {6 * kKiB, 20 * kKiB, 60000 + 0 * kKiB}) {
        char *p = filled(lm_malloc(bytes), bytes);
        size_t less = bytes / 2 + bytes / 16;
        p = (char *)lm_realloc(p, less);
        EXPECT_LE(lm_usable_size(p), less + less / 8) << bytes;
        EXPECT_TRUE(intact(p, less));
        lm_free(p);
    }
    char *small = filled(lm_malloc(900), 900);
    EXPECT_EQ(small, lm_realloc(small, 500)) << "a copy would cost more than it saves";
    lm_free(small);
}

} // namespace

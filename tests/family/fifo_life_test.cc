// fifo_life_test.cc: FIFOs: objects that change their size, the life of a destroyed one, frees from
// elsewhere.
#include "family/fifo_tester.h"

namespace {

/* ---- realloc ---- */

TEST(Fifo, TheLastObjectGrowsWhereItIs) {
    for (size_t step : {size_t{1}, size_t{7}, size_t{100}, size_t{5000}}) {
        Fifo fifo;
        (void)fifo.alloc(3);
        char *p = fifo.alloc(10), *was = p;
        memset(p, 1, 10);
        for (size_t bytes = 10; bytes < 40000; bytes += step) {
            p = fifo.realloc(p, bytes, bytes + step);
            ASSERT_EQ(p, was);
            ASSERT_TRUE(is_zero(p + bytes, step)) << bytes;
            ASSERT_EQ(p[bytes - 1], 1);
            memset(p + bytes, 1, step);
        }
        fifo.free(p);
    }
}

TEST(Fifo, ASmallerOneStaysAndShowsNothingWhenItGrowsAgain) {
    Fifo fifo;
    char *p = fifo.alloc(1000), *was = p;
    memset(p, 0xff, 1000);
    for (size_t bytes : {size_t{999}, size_t{500}, size_t{33}, size_t{1}, size_t{0}}) {
        p = fifo.realloc(p, 1000, bytes);
        ASSERT_EQ(p, was);
        p = fifo.realloc(p, bytes, 1000);
        ASSERT_EQ(p, was) << "the last one";
        ASSERT_TRUE(is_zero(p + bytes, 1000 - bytes)) << bytes;
        memset(p, 0xff, 1000);
    }
    /* What a smaller last one leaves behind is somebody else's: zero as well. */
    p = fifo.realloc(p, 1000, 40);
    char *next = fifo.alloc(600);
    EXPECT_TRUE(is_zero(next, 600));
    memset(next, 0xff, 600);
    /* Not the last one any more: it moves when it grows; a checked one has kept its room. */
    char *moved = fifo.realloc(p, 40, 900);
    EXPECT_EQ(moved == p, kDebug);
    EXPECT_TRUE(is_zero(moved + 40, 860));
    EXPECT_EQ(moved[39], static_cast<char>(0xff));
    fifo.free(next);
    fifo.free(moved);
    EXPECT_EQ(fifo.usage().objects, 0u);
}

/* One that was followed by others becomes smaller, then those go, to no bytes: it must not see its
 * own old bytes. */
TEST(Fifo, ASmallerOneBeforeOthersShowsNothingEither) {
    Fifo fifo;
    for (size_t bytes : {size_t{47}, size_t{40}, size_t{33}, size_t{32}, size_t{16}, size_t{1}}) {
        char *p = fifo.alloc(48);
        memset(p, 0xff, 48);
        char *next = fifo.alloc(100);
        memset(next, 0xff, 100);
        p = fifo.realloc(p, 48, bytes);
        next = fifo.realloc(next, 100, 0);
        char *grown = fifo.realloc(p, bytes, 200);
        ASSERT_TRUE(is_zero(grown + bytes, 200 - bytes)) << bytes;
        fifo.free(grown);
        fifo.free(next);
    }
}

TEST(Fifo, AnObjectWithItsOwnPageResizesThere) {
    SKIP_UNLESS_PLAIN();
    Fifo fifo;
    char *p = fifo.alloc(2 * kPage), *was = p;
    memset(p, 0xff, 2 * kPage);
    p = fifo.realloc(p, 2 * kPage, 1000);
    EXPECT_EQ(p, was);
    p = fifo.realloc(p, 1000, kPage);
    EXPECT_EQ(p, was);
    EXPECT_TRUE(is_zero(p + 1000, kPage - 1000));
    EXPECT_TRUE(loam_fifo_check(&fifo.fifo));
    p = fifo.realloc(p, kPage, 4 * kPage);
    EXPECT_TRUE(is_zero(p + kPage, 3 * kPage));
    EXPECT_EQ(p[999], static_cast<char>(0xff));
    fifo.free(p);
}

TEST(Fifo, RawOnesAreMovedWithoutZeroes) {
    Fifo fifo(nullptr, with(LOAM_FIFO_RAW));
    char *p = fifo.alloc(100);
    memset(p, 7, 100);
    (void)fifo.alloc(1);
    p = fifo.realloc(p, 100, 50000);
    EXPECT_EQ(std::count(p, p + 100, 7), 100);
    p = fifo.realloc(p, 50000, 90000);
    EXPECT_EQ(std::count(p, p + 100, 7), 100);
    fifo.free(p);
}

/* ---- Destroyed ones ---- */

TEST(Fifo, ADestroyedOneLivesOnUntilItsLastObject) {
    Counted counted;
    loam_fifo *fifo = loam_fifo_create(&counted.source, nullptr);
    ASSERT_NE(fifo, nullptr);
    std::vector<char *> all;
    for (int i = 0; i < 200; i++) {
        all.push_back(static_cast<char *>(loam_fifo_alloc(fifo, i % 50 == 0 ? 100000 : 1000)));
        memset(all.back(), i, 1000);
    }
    loam_fifo_free(fifo, all.back());
    all.pop_back();
    loam_fifo_destroy(fifo);
    EXPECT_GT(counted.used_bytes, 0u);
    EXPECT_EQ(loam_fifo_alloc(fifo, 1), nullptr) << "no more";
    EXPECT_EQ(loam_fifo_alloc(fifo, 100000), nullptr);
    EXPECT_EQ(loam_fifo_calloc(fifo, 1, 1), nullptr);
    EXPECT_EQ(loam_fifo_realloc(fifo, all[1], 1000, 2000), nullptr);
    EXPECT_EQ(loam_fifo_realloc(fifo, nullptr, 0, 10), nullptr);
    EXPECT_EQ(loam_fifo_realloc(fifo, all[1], 1000, 900), all[1]) << "that is no allocation";
    loam_usage usage;
    loam_fifo_usage(fifo, &usage);
    EXPECT_EQ(usage.objects, all.size());
    EXPECT_TRUE(loam_fifo_check(fifo));
    for (size_t i = 0; i < all.size(); i++) {
        for (size_t at = 0; at < 900; at++) ASSERT_EQ(all[i][at], static_cast<char>(i));
        size_t held = counted.used_bytes;
        EXPECT_GT(held, 0u);
        loam_fifo_free(fifo, all[i]);
        EXPECT_LE(counted.used_bytes, held) << "pages go at once";
    }
    EXPECT_EQ(counted.used_bytes, 0u) << "and the FIFO itself with the last";
}

TEST(Fifo, ADestroyedOneWithoutObjectsIsGone) {
    Counted counted;
    loam_fifo *fifo = loam_fifo_create(&counted.source, nullptr);
    void *p = loam_fifo_alloc(fifo, 100);
    loam_fifo_free(fifo, p);
    loam_fifo_destroy(fifo);
    EXPECT_EQ(counted.used_bytes, 0u);
    loam_fifo_destroy(loam_fifo_create(&counted.source, nullptr));
    EXPECT_EQ(counted.used_bytes, 0u);
}

/* ---- Free from elsewhere, in one thread ---- */

TEST(Fifo, RemoteFreesCountWhenTheOwnerLooks) {
    Counted counted;
    Fifo fifo(&counted.source, with(LOAM_FIFO_REMOTE, 1));
    auto pages = fill(fifo, 3);
    size_t objects = fifo.usage().objects;
    for (auto &page : pages)
        for (char *p : page) loam_fifo_free_remote(&fifo.fifo, p);
    EXPECT_EQ(counted.puts, 0u);
    EXPECT_TRUE(loam_fifo_check(&fifo.fifo));
    EXPECT_EQ(fifo.usage().objects, kDebug ? objects : 0u) << "a checked one still has them";
    loam_fifo_collect(&fifo.fifo);
    EXPECT_EQ(counted.puts, 2u);
    EXPECT_EQ(fifo.usage().objects, 0u);
    EXPECT_TRUE(loam_fifo_check(&fifo.fifo));
    /* The current page's as well; and an allocation that has to look for room looks first. */
    for (int round = 0; round < 1000; round++) {
        char *p = fifo.alloc(1000);
        loam_fifo_free_remote(&fifo.fifo, p);
    }
    EXPECT_EQ(counted.gets, 4u);
    char *own = fifo.alloc(100000);
    loam_fifo_free_remote(&fifo.fifo, own);
    loam_fifo_free_remote(&fifo.fifo, nullptr);
    loam_fifo_collect(&fifo.fifo);
    EXPECT_EQ(fifo.usage().objects, 0u);
}

TEST(Fifo, ADestroyedOneIsEndedByRemoteFreesToo) {
    for (bool mixed : {false, true}) {
        Counted counted;
        loam_fifo_options options = with(LOAM_FIFO_REMOTE);
        loam_fifo *fifo = loam_fifo_create(&counted.source, &options);
        std::vector<void *> all;
        for (int i = 0; i < 300; i++) all.push_back(loam_fifo_alloc(fifo, 1000));
        for (int i = 0; i < 100; i++) loam_fifo_free_remote(fifo, all[static_cast<size_t>(i)]);
        loam_fifo_destroy(fifo);
        loam_fifo_collect(fifo); /* nobody's any more: nothing to do */
        EXPECT_EQ(loam_fifo_trim(fifo), 0u);
        EXPECT_TRUE(loam_fifo_check(fifo));
        for (size_t i = 100; i < all.size(); i++) {
            EXPECT_GT(counted.used_bytes, 0u);
            if (mixed && i % 2 == 0) {
                loam_fifo_free(fifo, all[i]);
            } else {
                loam_fifo_free_remote(fifo, all[i]);
            }
        }
        EXPECT_EQ(counted.used_bytes, 0u);
    }
}

} // namespace

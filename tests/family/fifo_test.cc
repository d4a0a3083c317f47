// fifo_test.cc: FIFOs: zero memory, alignment, which page is used, kept and given back when.
#include "family/fifo_tester.h"

#include <cerrno>
#include <deque>
#include <memory>

namespace {

/* Chunks are zero, and said to be. */
struct Zeroes {
    loam_source source = {get, put, "zeroes", LOAM_SOURCE_ZEROED};
    static void *get(loam_source *, size_t bytes, size_t align, size_t *got) {
        void *p = loam_source_get(loam_pages(), bytes, align, got);
        return p != nullptr ? memset(p, 0, *got) : nullptr;
    }
    static void put(loam_source *, void *p, size_t got) { loam_source_put(loam_pages(), p, got); }
};

TEST(Fifo, RefusesWhatItCannotBe) {
    loam_fifo fifo;
    for (size_t bytes : {size_t{1}, size_t{256}, size_t{511}, size_t{513}, size_t{65535}, SIZE_MAX,
                         SIZE_MAX / 2 + 1}) {
        loam_fifo_options options = with(0, 0, bytes);
        EXPECT_EQ(loam_fifo_init(&fifo, nullptr, &options), -EINVAL) << bytes;
        EXPECT_EQ(loam_fifo_create(nullptr, &options), nullptr) << bytes;
    }
    loam_fifo_options options = with(0, 0, 512);
    ASSERT_EQ(loam_fifo_init(&fifo, nullptr, &options), 0);
    loam_fifo_deinit(&fifo);
    ASSERT_EQ(loam_fifo_init(&fifo, nullptr, nullptr), 0) << "and again";
    EXPECT_NE(loam_fifo_alloc(&fifo, 1), nullptr);
    loam_fifo_deinit(&fifo);
#ifndef LOAM_DEBUG /* a checked one says so: tombstone_test.cc */
    EXPECT_EQ(loam_fifo_alloc(&fifo, 1), nullptr) << "it has ended";
#endif
    loam_fifo_destroy(nullptr);
}

TEST(Fifo, OneInPlaceTakesMemoryWithItsFirstObject) {
    Counted counted;
    {
        Fifo fifo(&counted.source);
        EXPECT_EQ(counted.gets, 0u);
        EXPECT_TRUE(loam_fifo_check(&fifo.fifo));
        EXPECT_NE(fifo.alloc(100), nullptr);
        EXPECT_EQ(counted.gets, 1u);
        EXPECT_EQ(counted.used_bytes, kPage);
    }
    EXPECT_EQ(counted.used_bytes, 0u);
}

TEST(Fifo, ObjectsLieSideBySideWhateverTheirSize) {
    SKIP_UNLESS_PLAIN();
    Fifo fifo;
    char *a = fifo.alloc(1), *b = fifo.alloc(17), *c = fifo.alloc(16), *d = fifo.alloc(0);
    EXPECT_EQ(b - a, 16);
    EXPECT_EQ(c - b, 32);
    EXPECT_EQ(d - c, 16);
    auto *e = static_cast<char *>(loam_fifo_alloc_aligned(&fifo.fifo, 3, 1));
    auto *f = static_cast<char *>(loam_fifo_alloc_aligned(&fifo.fifo, 3, 1));
    auto *g = static_cast<char *>(loam_fifo_alloc_aligned(&fifo.fifo, 3, 8));
    EXPECT_EQ(e, d) << "no bytes take no room";
    EXPECT_EQ(f - e, 3) << "packed";
    EXPECT_EQ(g - f, 5);
    for (char *p : {a, b, c, d, e, f, g}) fifo.free(p);
    EXPECT_EQ(fifo.usage().objects, 0u);
}

TEST(Fifo, AnyAlignmentAndItsPageIsFound) {
    for (size_t page : {size_t{512}, size_t{4096}, kPage}) {
        Counted counted;
        Fifo fifo(&counted.source, with(0, 0, page));
        std::vector<void *> all;
        for (size_t align = 1; align <= size_t{1} << 20; align *= 2) {
            for (size_t bytes : {size_t{0}, size_t{1}, size_t{100}, size_t{5000}, size_t{70000}}) {
                auto *p = static_cast<char *>(loam_fifo_alloc_aligned(&fifo.fifo, bytes, align));
                ASSERT_NE(p, nullptr) << align;
                ASSERT_EQ(reinterpret_cast<uintptr_t>(p) % align, 0u);
                ASSERT_TRUE(is_zero(p, bytes)) << align << ", " << bytes;
                memset(p, 0xee, bytes);
                all.push_back(p);
                ASSERT_TRUE(loam_fifo_check(&fifo.fifo));
            }
        }
        for (void *p : all) {
            fifo.free(p);
            ASSERT_TRUE(loam_fifo_check(&fifo.fifo));
        }
        EXPECT_EQ(fifo.usage().objects, 0u);
        (void)loam_fifo_trim(&fifo.fifo);
        EXPECT_EQ(counted.used_bytes, 0u) << "every page was found to be empty";
    }
}

TEST(Fifo, ImpossibleRequestsAreNull) {
    Fifo fifo;
    for (size_t bytes : {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - kPage, size_t{PTRDIFF_MAX} + 1,
                         size_t{PTRDIFF_MAX} - 1}) {
        volatile size_t hidden = bytes;
        EXPECT_EQ(fifo.alloc(hidden), nullptr);
        EXPECT_EQ(loam_fifo_realloc(&fifo.fifo, nullptr, 0, hidden), nullptr);
    }
    for (size_t align : {size_t{0}, size_t{3}, size_t{24}, SIZE_MAX, SIZE_MAX / 2 + 1}) {
        volatile size_t hidden = align;
        EXPECT_EQ(loam_fifo_alloc_aligned(&fifo.fifo, 8, hidden), nullptr);
    }
    volatile size_t half = SIZE_MAX / 2 + 1;
    EXPECT_EQ(loam_fifo_calloc(&fifo.fifo, half, 2), nullptr);
    EXPECT_EQ(loam_fifo_calloc(&fifo.fifo, half, half), nullptr);
    EXPECT_EQ(fifo.usage().objects, 0u);
    fifo.free(nullptr);
}

/* ---- Zero ---- */

TEST(Fifo, MemoryThatIsUsedAgainIsZero) {
    Zeroes zeroes;
    for (size_t spares : {1u, 8u, 101u, 108u}) {
        Fifo fifo(spares > 100 ? &zeroes.source : nullptr, with(0, spares % 100));
        std::deque<std::pair<char *, size_t>> queue;
        for (size_t i = 0; i < 40000; i++) {
            size_t bytes = i * 7919 % 700;
            char *p = fifo.alloc(bytes);
            ASSERT_TRUE(is_zero(p, bytes)) << i;
            memset(p, 0xff, bytes);
            queue.emplace_back(p, bytes);
            /* Up to 2000 in the queue, and at times none. */
            size_t most = i % 5000 < 20 ? 0 : i % 5000 / 2;
            while (queue.size() > most) {
                fifo.free(queue.front().first);
                queue.pop_front();
            }
        }
        for (auto &object : queue) fifo.free(object.first);
    }
}

TEST(Fifo, RawOnesAreZeroedByCallocAlone) {
    Fifo fifo(nullptr, with(LOAM_FIFO_RAW));
    bool stale = false;
    for (int i = 0; i < 2000; i++) {
        char *p = fifo.alloc(1000);
        stale = stale || !is_zero(p, 1000);
        memset(p, 0xff, 1000);
        auto *q = static_cast<char *>(loam_fifo_calloc(&fifo.fifo, 10, 100));
        ASSERT_TRUE(is_zero(q, 1000));
        memset(q, 0xff, 1000);
        fifo.free(p);
        fifo.free(q);
    }
    EXPECT_TRUE(stale) << "or it zeroed in vain";
}

/* A source whose chunks are zero is believed: only what was used is zeroed. */
TEST(Fifo, ASourceThatIsZeroIsBelieved) {
    SKIP_UNLESS_PLAIN();
    struct Lies {
        loam_source source;
        static void *get(loam_source *, size_t bytes, size_t align, size_t *got) {
            void *p = loam_source_get(loam_pages(), bytes, align, got);
            if (p != nullptr) memset(p, 0x77, *got);
            return p;
        }
        static void put(loam_source *, void *p, size_t got) {
            loam_source_put(loam_pages(), p, got);
        }
    } lies = {{Lies::get, Lies::put, "lies", LOAM_SOURCE_ZEROED}};
    loam_fifo fifo;
    ASSERT_EQ(loam_fifo_init(&fifo, &lies.source, nullptr), 0);
    auto *p = static_cast<char *>(loam_fifo_alloc(&fifo, 100));
    EXPECT_EQ(p[0], 0x77);
    auto *own = static_cast<char *>(loam_fifo_alloc(&fifo, 100000));
    EXPECT_EQ(own[99999], 0x77);
    loam_fifo_free(&fifo, own);
    own = static_cast<char *>(loam_fifo_alloc(&fifo, 100000));
    EXPECT_TRUE(is_zero(own, 100000)) << "used before";
    loam_fifo_deinit(&fifo);
}

/* ---- Pages ---- */

TEST(Fifo, TheCurrentPageStaysWhenItsLastObjectIsFreed) {
    Counted counted;
    Fifo fifo(&counted.source);
    char *first = fifo.alloc(100);
    fifo.free(first);
    EXPECT_EQ(counted.puts, 0u);
    char *second = fifo.alloc(100);
    EXPECT_GT(second, first) << "it goes on being filled";
    fifo.free(second);
    for (int i = 0; i < 10000; i++) fifo.free(fifo.alloc(300));
    EXPECT_EQ(counted.gets, 1u) << "and is begun anew when it runs out";
}

TEST(Fifo, APageThatIsBegunAnewIsZero) {
    Zeroes zeroes;
    for (loam_source *source : {loam_pages(), &zeroes.source}) {
        Fifo fifo(source);
        for (size_t i = 0; i < 3000; i++) {
            char *p = fifo.alloc(300), *q = i % 100 < 50 ? fifo.alloc(700) : nullptr;
            ASSERT_TRUE(is_zero(p, 300)) << i;
            memset(p, 0xff, 300);
            if (q != nullptr) memset(q, 0xff, 700);
            fifo.free(p);
            fifo.free(q);
        }
    }
}

/* A queue that is often empty stays within a few KiB, and does not walk through the page. */
TEST(Fifo, AnEmptyQueueBeginsAnewWhereItsMemoryIsWarm) {
    SKIP_UNLESS_PLAIN();
    Fifo fifo;
    char *low = fifo.alloc(1), *high = low;
    fifo.free(low);
    for (int i = 0; i < 1000; i++) {
        char *p = fifo.alloc(200);
        high = std::max(high, p);
        fifo.free(p);
    }
    EXPECT_LT(high - low, 8192 + 200);
}

TEST(Fifo, EmptiedPagesAreSparesThenGoBack) {
    for (size_t spares : {size_t{1}, size_t{3}}) {
        Counted counted;
        Fifo fifo(&counted.source, with(0, spares));
        auto pages = fill(fifo, 6); /* and a seventh is current, begun */
        ASSERT_EQ(counted.gets, 7u);
        for (size_t i = 0; i < 6; i++) {
            free_all(fifo, pages[i]);
            EXPECT_EQ(counted.puts, i < spares ? 0 : i + 1 - spares) << i;
            EXPECT_TRUE(loam_fifo_check(&fifo.fifo));
        }
        /* The spares are used before the source is asked: the last one first, which is warm. */
        auto again = fill(fifo, spares + 1);
        EXPECT_EQ(counted.gets, 8u);
        for (auto &page : again) free_all(fifo, page);
    }
}

TEST(Fifo, AnEmptiedPageReplacesACurrentOneThatIsNearlyFull) {
    SKIP_UNLESS_PLAIN();
    /* left: bytes of the current page; 8192 is an eighth. */
    for (size_t left : {size_t{8191}, size_t{8192}, size_t{8193}}) {
        Counted counted;
        Fifo fifo(&counted.source, with(0, 1));
        auto pages = fill(fifo, 2);
        char *live = fifo.alloc(64);
        while (reinterpret_cast<uintptr_t>(live) % kPage < 40000) live = fifo.alloc(1000);
        auto used = reinterpret_cast<uintptr_t>(live) % kPage + 1000;
        auto *last =
            static_cast<char *>(loam_fifo_alloc_aligned(&fifo.fifo, kPage - used - left, 1));
        ASSERT_EQ(reinterpret_cast<uintptr_t>(last) % kPage + kPage - used - left, kPage - left);
        free_all(fifo, pages[0]); /* the spare */
        EXPECT_EQ(counted.puts, 0u);
        free_all(fifo, pages[1]);
        auto next = reinterpret_cast<uintptr_t>(fifo.alloc(16)) / kPage;
        if (left < 8192) {
            EXPECT_EQ(counted.puts, 0u);
            EXPECT_EQ(next, reinterpret_cast<uintptr_t>(pages[1][0]) / kPage) << "it is current";
        } else {
            EXPECT_EQ(counted.puts, 1u) << "it has gone back";
            EXPECT_EQ(next, reinterpret_cast<uintptr_t>(last) / kPage);
        }
        EXPECT_TRUE(loam_fifo_check(&fifo.fifo));
    }
}

/* The one that is replaced goes back at once if it is empty itself, and with its last object
 * otherwise. */
TEST(Fifo, AReplacedPageGoesWithItsLastObject) {
    SKIP_UNLESS_PLAIN();
    for (bool empty : {false, true}) {
        Counted counted;
        Fifo fifo(&counted.source, with(0, 1));
        auto pages = fill(fifo, 2);
        std::vector<char *> mine;
        do mine.push_back(fifo.alloc(1000));
        while (reinterpret_cast<uintptr_t>(mine.back()) % kPage < 58000);
        if (empty) free_all(fifo, mine);
        free_all(fifo, pages[0]);
        free_all(fifo, pages[1]);
        EXPECT_EQ(counted.puts, empty ? 1u : 0u);
        EXPECT_TRUE(loam_fifo_check(&fifo.fifo));
        if (!empty) free_all(fifo, mine);
        EXPECT_EQ(counted.puts, 1u);
    }
}

TEST(Fifo, SparesThatNobodyNeedsGo) {
    Counted counted;
    Fifo fifo(&counted.source, with(0, 16));
    for (auto &page : fill(fifo, 16)) free_all(fifo, page);
    EXPECT_EQ(counted.puts, 0u);
    size_t held = fifo.usage().held_bytes;
    /* A queue of less than two pages, for many turns. */
    std::deque<char *> queue;
    for (int i = 0; i < 60 * 1000; i++) {
        queue.push_back(fifo.alloc(1000));
        if (queue.size() > 60) {
            fifo.free(queue.front());
            queue.pop_front();
        }
    }
    EXPECT_LE(fifo.usage().held_bytes, held / 3);
    EXPECT_EQ(counted.gets, 17u) << "and it never had to ask for another";
    for (char *p : queue) fifo.free(p);
}

TEST(Fifo, TrimGivesBackWhatIsEmpty) {
    Counted counted;
    Fifo fifo(&counted.source);
    for (auto &page : fill(fifo, 3)) free_all(fifo, page);
    fifo.free(fifo.alloc(100000));
    EXPECT_EQ(loam_fifo_trim(&fifo.fifo), (4 + 2) * kPage) << "the current one included";
    EXPECT_EQ(counted.used_bytes, 0u);
    EXPECT_EQ(loam_fifo_trim(&fifo.fifo), 0u);
    char *p = fifo.alloc(10);
    EXPECT_EQ(loam_fifo_trim(&fifo.fifo), 0u) << "it has an object";
    fifo.free(p);
    EXPECT_EQ(loam_fifo_trim(&fifo.fifo), kPage);
}

TEST(Fifo, ObjectsOfTheirOwnPage) {
    Counted counted;
    Fifo fifo(&counted.source);
    char *small = fifo.alloc(100);
    char *a = fifo.alloc(kPage), *b = fifo.alloc(3 * kPage), *huge = fifo.alloc(32 * kPage);
    EXPECT_TRUE(is_zero(b, 3 * kPage));
    char *after = fifo.alloc(100);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(after) / kPage,
              reinterpret_cast<uintptr_t>(small) / kPage)
        << "the current page is not given up for them";
    EXPECT_EQ(counted.gets, 4u);
    memset(b, 0xff, 3 * kPage);
    size_t held = counted.used_bytes;
    fifo.free(a);
    EXPECT_EQ(counted.puts, 0u) << "a spare";
    fifo.free(b);
    EXPECT_EQ(counted.puts, 1u) << "of two the larger stays";
    EXPECT_EQ(counted.used_bytes, held - 2 * kPage);
    fifo.free(huge);
    EXPECT_EQ(counted.puts, 2u) << "too large to keep";
    b = fifo.alloc(2 * kPage);
    EXPECT_EQ(counted.gets, 4u) << "the spare";
    EXPECT_TRUE(is_zero(b, 2 * kPage));
    char *c = fifo.alloc(kPage);
    EXPECT_EQ(counted.gets, 5u);
    fifo.free(c);
    fifo.free(b);
    EXPECT_EQ(fifo.usage().objects, 2u);
}

TEST(Fifo, OneOfMoreThanAGibibyte) {
    if (sizeof(size_t) < 8 || kWatched || kDebug) GTEST_SKIP() << "every byte would be touched";
    loam_reserve reserve;
    if (loam_reserve_init(&reserve, size_t{6} << 30) != 0) GTEST_SKIP() << "no such range";
    {
        Fifo fifo(&reserve.source, with(LOAM_FIFO_RAW));
        char *small = fifo.alloc(100);
        size_t bytes = (size_t{1} << 30) + 12345;
        char *p = fifo.alloc(bytes);
        if (p == nullptr) GTEST_SKIP() << "no memory for it";
        p[0] = p[bytes - 1] = 1;
        char *q = fifo.alloc(100);
        q[0] = 2;
        EXPECT_EQ(fifo.usage().objects, 3u);
        EXPECT_GT(fifo.usage().used_bytes, bytes);
        EXPECT_TRUE(loam_fifo_check(&fifo.fifo));
        EXPECT_EQ(fifo.alloc(size_t{8} << 30), nullptr);
        fifo.free(p);
        fifo.free(small);
        fifo.free(q);
        EXPECT_EQ(fifo.usage().objects, 0u);
    }
    loam_reserve_deinit(&reserve);
}

/* ---- Sources with an end ---- */

TEST(Fifo, ABufferServesAQueueForEver) {
    std::unique_ptr<char[]> memory(new char[6 * kPage]);
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory.get(), 6 * kPage);
    Fifo fifo(&buffer.source);
    std::deque<char *> queue;
    for (int i = 0; i < 20000; i++) {
        size_t bytes = i % 50 == 0 ? kPage : 500; /* with some that have a page of their own */
        char *p = fifo.alloc(bytes);
        ASSERT_NE(p, nullptr) << i;
        ASSERT_TRUE(is_zero(p, bytes));
        memset(p, 0xff, bytes);
        queue.push_back(p);
        if (queue.size() > 40) {
            fifo.free(queue.front());
            queue.pop_front();
        }
    }
    for (char *p : queue) fifo.free(p);
}

/* A buffer cannot use again what is put back out of order: large pages stay, too, and serve any
 * large object. */
TEST(Fifo, ABuffersLargePagesAreUsedAgain) {
    constexpr size_t kPages = 24;
    std::unique_ptr<char[]> memory(new char[kPages * kPage]);
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory.get(), kPages * kPage);
    Fifo fifo(&buffer.source);
    (void)fifo.alloc(1);
    for (size_t i = 0; i < 100; i++) {
        char *burst[4];
        for (char *&p : burst) ASSERT_NE(p = fifo.alloc(kPage), nullptr) << i;
        for (char *p : burst) fifo.free(p);
    }
}
TEST(Fifo, ABuffersLargePagesServeAnyLargeObject) {
    constexpr size_t kPages = 8;
    std::unique_ptr<char[]> memory(new char[(kPages + 1) * kPage]);
    auto gap = (0 - reinterpret_cast<uintptr_t>(memory.get())) % kPage;
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory.get() + gap, kPages * kPage);
    Fifo fifo(&buffer.source);
    fifo.free(fifo.alloc(100));
    fifo.free(fifo.alloc((kPages - 1) * kPage - 1000));
    char *p = fifo.alloc(kPage);
    EXPECT_NE(p, nullptr) << "there is no other";
    fifo.free(p);
    /* And many small ones, where nothing else is left. */
    std::vector<char *> all;
    while (char *small = fifo.alloc(1000)) all.push_back(small);
    EXPECT_GT(all.size(), 100u / (kDebug ? 2 : 1));
    free_all(fifo, all);
}

TEST(Fifo, ExhaustedIsNullUntilAPageIsEmpty) {
    Counted counted(loam_pages(), 3 * kPage);
    Fifo fifo(&counted.source);
    std::vector<std::vector<char *>> pages(3);
    std::vector<char *> all;
    while (char *p = fifo.alloc(1000)) all.push_back(p);
    EXPECT_GT(all.size(), 3 * 50u);
    EXPECT_EQ(fifo.alloc(1000), nullptr);
    EXPECT_EQ(fifo.alloc(4 * kPage), nullptr);
    char *grown = fifo.realloc(all[5], 1000, 2000);
    EXPECT_EQ(grown, nullptr) << "and it is as it was";
    for (size_t i = 0; i < 70; i++) fifo.free(all[i]);
    EXPECT_NE(fifo.alloc(1000), nullptr);
    EXPECT_TRUE(loam_fifo_check(&fifo.fifo));
}

/* Spares are not kept from an object that needs the memory. */
TEST(Fifo, SparesGiveWayToALargeObject) {
    Counted counted(loam_pages(), 5 * kPage);
    Fifo fifo(&counted.source);
    for (auto &page : fill(fifo, 4)) free_all(fifo, page);
    EXPECT_EQ(counted.used_bytes, 5 * kPage);
    char *p = fifo.alloc(3 * kPage);
    ASSERT_NE(p, nullptr);
    fifo.free(p);
}

} // namespace

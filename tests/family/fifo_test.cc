// fifo_test.cc: FIFOs: zero memory, alignment, which page is used, kept and given back when, realloc, and the life of
// a destroyed one.
#include "loam/fifo.h"

#include "family/pool_sources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kWatched = true;
#else
constexpr bool kWatched = false;
#endif
#if LOAM_DEBUG
constexpr bool kDebug = true;
#else
constexpr bool kDebug = false;
#endif

/* Where addresses are told exactly: FIFOs that are neither checked (a debug build) nor watched by a tool. */
#define SKIP_UNLESS_PLAIN() \
    if (kDebug || kWatched) GTEST_SKIP() << "objects have guards here"

constexpr size_t kPage = 65536;

struct Fifo {
    loam_fifo fifo;
    explicit Fifo(loam_source *source = nullptr, loam_fifo_options options = {}) {
        EXPECT_EQ(loam_fifo_init(&fifo, source, &options), 0);
    }
    ~Fifo() {
        EXPECT_TRUE(loam_fifo_check(&fifo));
        loam_fifo_deinit(&fifo);
    }
    Fifo(const Fifo &) = delete;
    char *alloc(size_t bytes) { return static_cast<char *>(loam_fifo_alloc(&fifo, bytes)); }
    char *realloc(void *p, size_t old_bytes, size_t bytes) {
        return static_cast<char *>(loam_fifo_realloc(&fifo, p, old_bytes, bytes));
    }
    void free(void *p) { loam_fifo_free(&fifo, p); }
    loam_usage usage() {
        loam_usage usage;
        loam_fifo_usage(&fifo, &usage);
        return usage;
    }
};

loam_fifo_options with(unsigned flags, size_t spares = 0, size_t page_bytes = 0) {
    loam_fifo_options options = {};
    options.flags = flags;
    options.spare_pages = spares;
    options.page_bytes = page_bytes;
    return options;
}

bool is_zero(const char *p, size_t bytes) {
    return std::count(p, p + bytes, 0) == static_cast<ptrdiff_t>(bytes);
}

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
    EXPECT_EQ(loam_fifo_alloc(&fifo, 1), nullptr) << "it has ended";
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

/* Chunks are zero, and said to be. */
struct Zeroes {
    loam_source source = {get, put, "zeroes", LOAM_SOURCE_ZEROED};
    static void *get(loam_source *, size_t bytes, size_t align, size_t *got) {
        void *p = loam_source_get(loam_pages(), bytes, align, got);
        return p != nullptr ? memset(p, 0, *got) : nullptr;
    }
    static void put(loam_source *, void *p, size_t got) { loam_source_put(loam_pages(), p, got); }
};

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

/* Fills page after page; objects of 1000 bytes. */
std::vector<std::vector<char *>> fill(Fifo &fifo, size_t pages) {
    std::vector<std::vector<char *>> all;
    while (true) {
        char *p = fifo.alloc(1000);
        auto page = reinterpret_cast<uintptr_t>(p) / kPage;
        if (all.empty() || reinterpret_cast<uintptr_t>(all.back()[0]) / kPage != page) {
            if (all.size() == pages) {
                fifo.free(p);
                return all;
            }
            all.emplace_back();
        }
        all.back().push_back(p);
    }
}

void free_all(Fifo &fifo, const std::vector<char *> &objects) {
    for (char *p : objects) fifo.free(p);
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

/* The one that is replaced goes back at once if it is empty itself, and with its last object otherwise. */
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

/* A buffer cannot use again what is put back out of order: large pages stay, too, and serve any large object. */
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

/* One that was followed by others becomes smaller, then those go, to no bytes: it must not see its own old bytes. */
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

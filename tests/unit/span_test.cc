/* span_test.cc: spans of slices: taken, given back, merged, aligned, resized, moved, checked.
 *
 * Expectations about free memory are relative to a clean state: everything is purged, and there is
 * no worker. The random programs keep a list of the spans that they own, and let lm_span_check walk
 * the arena as they go. tests/faulty/ tests refusals by the system.
 */
#include "faulty/child.h"

#include <gtest/gtest.h>

extern "C" {
#include "span/internal.h"
#include "span/span.h"
}

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kSlice = LM_SLICE_BYTES;

class Span : public testing::Test {
  protected:
    void SetUp() override {
        lm_purge_allow(false); /* nobody but us touches the arena */
        lm_purge_all();
    }
    void TearDown() override {
        for (lm_page_t *span : mine_) lm_span_give(span, false);
        lm_purge_all();
        lm_span_check();
        EXPECT_EQ(0u, stats().used_bytes);
        EXPECT_EQ(0u, stats().dirty_bytes);
    }

    lm_page_t *take(size_t slices, size_t align = 1, bool *zero = nullptr) {
        lm_page_t *span = lm_span_take(slices, align, LM_KIND_LARGE, zero);
        EXPECT_NE(nullptr, span);
        if (span != nullptr) mine_.push_back(span);
        return span;
    }
    void give(lm_page_t *span) {
        mine_.erase(std::find(mine_.begin(), mine_.end(), span));
        lm_span_give(span, false);
    }
    void replace(lm_page_t *span, lm_page_t *by) {
        *std::find(mine_.begin(), mine_.end(), span) = by;
    }
    static lm_span_stats_t stats() {
        lm_span_stats_t now;
        lm_span_stats(&now);
        return now;
    }
    static void write(lm_page_t *span, unsigned char byte) {
        memset(lm_span_start(span), byte, span->slices * kSlice);
    }
    /* Bytes of [from, to) slices of the span that are not `byte`. */
    static size_t differing(lm_page_t *span, size_t from, size_t to, unsigned char byte) {
        const char *p = lm_span_start(span);
        size_t n = 0;
        for (size_t i = from * kSlice; i < to * kSlice; i++) {
            n += static_cast<unsigned char>(p[i]) != byte;
        }
        return n;
    }

    std::vector<lm_page_t *> mine_;
};

TEST_F(Span, IsWhatWasAskedFor) {
    bool zero = false;
    lm_page_t *span = take(3, 1, &zero);
    EXPECT_EQ(3u, span->slices);
    EXPECT_EQ(LM_KIND_LARGE, span->kind);
    EXPECT_TRUE(zero);
    EXPECT_EQ(0u, differing(span, 0, 3, 0));
    EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(lm_span_start(span)) % kSlice);
    EXPECT_EQ(lm_span_slice(span), lm_slice_of(lm_span_start(span)));
    EXPECT_EQ(lm_span_slice(span) + 2, lm_slice_of(lm_span_start(span) + 3 * kSlice - 1));
    EXPECT_EQ(3 * kSlice, stats().used_bytes);
}

TEST_F(Span, MapSaysWhosePageASliceIs) {
    lm_page_t *span = take(4);
    char *p = lm_span_start(span);
    EXPECT_EQ(&lm_nobody, lm_page_of(p));
    lm_span_map(span, 4, span);
    for (size_t i = 0; i < 4; i++) EXPECT_EQ(span, lm_page_of(p + i * kSlice + 5));
    lm_span_map(span, 4, &lm_nobody);
    for (size_t i = 0; i < 4; i++) EXPECT_EQ(&lm_nobody, lm_page_of(p + i * kSlice));
    int local = 0;
    EXPECT_EQ(&lm_nobody, lm_page_of(nullptr));
    EXPECT_EQ(&lm_nobody, lm_page_of(&local));
    EXPECT_EQ(&lm_nobody, lm_page_of(reinterpret_cast<void *>(lm_arena.base - 1)));
    EXPECT_EQ(&lm_nobody, lm_page_of(reinterpret_cast<void *>(UINTPTR_MAX)));
}

TEST_F(Span, GivenBackIsDirtyAndUsedFirst) {
    lm_page_t *span = take(5);
    lm_page_t *wall = take(1);
    ASSERT_EQ(lm_span_slice(span) + 5, lm_span_slice(wall));
    write(span, 7);
    char *place = lm_span_start(span);
    give(span);
    EXPECT_EQ(5 * kSlice, stats().dirty_bytes);
    bool zero = true;
    lm_page_t *again = take(5, 1, &zero);
    EXPECT_EQ(place, lm_span_start(again));
    EXPECT_FALSE(zero);
    EXPECT_EQ(0u, stats().dirty_bytes);
}

TEST_F(Span, PurgedReadsAsZero) {
    lm_page_t *span = take(5);
    take(1);
    write(span, 7);
    char *place = lm_span_start(span);
    give(span);
    EXPECT_EQ(5 * kSlice, lm_purge_all());
    EXPECT_EQ(0u, stats().dirty_bytes);
    bool zero = false;
    lm_page_t *again = take(5, 1, &zero);
    EXPECT_EQ(place, lm_span_start(again));
    EXPECT_TRUE(zero);
    EXPECT_EQ(0u, differing(again, 0, 5, 0));
}

TEST_F(Span, NeighboursMergeInEveryOrder) {
    int order[] = {0, 1, 2};
    do {
        lm_page_t *spans[3];
        for (lm_page_t *&span : spans) span = take(2);
        take(1);
        lm_page_t *first = spans[0];
        ASSERT_EQ(lm_span_slice(first) + 4, lm_span_slice(spans[2]));
        for (int i : order) {
            give(spans[i]);
            lm_span_check();
        }
        EXPECT_EQ(LM_KIND_DIRTY, first->kind);
        EXPECT_EQ(6u, first->slices);
        EXPECT_EQ(lm_span_start(first), lm_span_start(take(6)));
        while (!mine_.empty()) give(mine_.back());
        lm_purge_all();
    } while (std::next_permutation(order, order + 3));
}

TEST_F(Span, CleanAndDirtyStayApart) {
    lm_page_t *first = take(3), *second = take(3);
    take(1);
    give(first);
    lm_purge_all();
    give(second);
    lm_span_check();
    EXPECT_EQ(LM_KIND_CLEAN, first->kind);
    EXPECT_EQ(3u, first->slices);
    EXPECT_EQ(LM_KIND_DIRTY, second->kind);
    lm_purge_all();
    EXPECT_EQ(LM_KIND_CLEAN, first->kind);
    EXPECT_EQ(6u, first->slices);
}

TEST_F(Span, BestFit) {
    std::vector<lm_page_t *> holes;
    for (size_t slices : {9u, 4u, 6u}) {
        holes.push_back(take(slices));
        take(1);
    }
    for (lm_page_t *hole : holes) give(hole);
    EXPECT_EQ(holes[1], take(4));
    EXPECT_EQ(holes[2], take(5));
    EXPECT_EQ(holes[0], take(8));
}

/* Blocks of so many bytes make a page of three slices; where only shorter spans are dirty, of
 * fewer: but of two blocks at least, and an eighth unused at most. */
TEST_F(Span, PagesAreShorterWhereOnlyShorterSpansAreDirty) {
    struct {
        size_t dirty, block_bytes, slices;
    } cases[] = {{0, 20480, 3}, {1, 20480, 1}, {2, 20480, 2}, {5, 20480, 3}, {1, 24576, 3},
                 {2, 24576, 2}, {1, 40960, 3}, {2, 40960, 2}, {2, 57344, 2}, {1, 65536, 3}};
    for (const auto &c : cases) {
        lm_purge_all();
        /* Pages, too: in the secure build they have other memory than large objects. */
        auto take_page = [&](size_t slices) {
            return lm_span_take_page(slices, c.block_bytes, false, nullptr);
        };
        lm_page_t *low = take_page(1), *span = c.dirty > 0 ? take_page(c.dirty) : nullptr;
        lm_page_t *high = take_page(1);
        if (span != nullptr) lm_span_give(span, false);
        bool zero = false;
        lm_page_t *page = lm_span_take_page(3, c.block_bytes, false, &zero);
        ASSERT_NE(nullptr, page);
        EXPECT_EQ(c.slices, page->slices) << c.dirty << " dirty, " << c.block_bytes;
        EXPECT_EQ(c.dirty > 0 && page == span, !zero) << "dirty memory comes first";
        EXPECT_EQ(c.slices < 3 || c.dirty >= 3, page == span);
        for (lm_page_t *each : {page, low, high}) lm_span_give(each, false);
    }
}

TEST_F(Span, Alignment) {
    for (size_t align = 1; align <= 1024; align *= 2) {
        for (size_t slices : {1u, 3u, 8u}) {
            lm_page_t *span = take(slices, align);
            EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(lm_span_start(span)) % (align * kSlice));
            EXPECT_EQ(slices, span->slices);
        }
        lm_span_check();
    }
    while (!mine_.empty()) give(mine_.front());
}

TEST_F(Span, TooMuch) {
    lm_span_stats_t before = stats();
    EXPECT_EQ(nullptr, lm_span_take(size_t{1} << 40, 1, LM_KIND_LARGE, nullptr));
    EXPECT_EQ(nullptr, lm_span_take((size_t{1} << 28) + 1, 1, LM_KIND_LARGE, nullptr));
    EXPECT_EQ(nullptr, lm_span_take(1, size_t{1} << 40, LM_KIND_LARGE, nullptr));
    lm_span_check();
    EXPECT_EQ(before.arena_bytes, stats().arena_bytes) << "refusing costs no addresses";
}

/* ---- Resizing ---- */

TEST_F(Span, ExtendsOverWhatIsFree) {
    lm_page_t *span = take(2), *next = take(3), *wall = take(1);
    write(span, 9);
    EXPECT_FALSE(lm_span_extend(span, 3)) << "somebody lives there";
    EXPECT_EQ(2u, span->slices);
    give(next);
    EXPECT_TRUE(lm_span_extend(span, 4));
    EXPECT_EQ(4u, span->slices);
    lm_span_check();
    EXPECT_FALSE(lm_span_extend(span, 6)) << "one too many";
    EXPECT_EQ(4u, span->slices);
    EXPECT_TRUE(lm_span_extend(span, 5));
    EXPECT_EQ(0u, differing(span, 0, 2, 9));
    EXPECT_EQ(lm_span_slice(span) + 5, lm_span_slice(wall));
    EXPECT_EQ(0u, stats().dirty_bytes);
}

TEST_F(Span, ExtendsOverDirtyThenClean) {
    lm_page_t *span = take(1), *dirty = take(2), *clean = take(2);
    take(1);
    give(clean);
    lm_purge_all();
    give(dirty);
    EXPECT_TRUE(lm_span_extend(span, 5));
    lm_span_check();
}

TEST_F(Span, ExtendsOverTheEnd) {
    lm_page_t *span = take(1);
    for (size_t slices : {5u, 17u, 100u, 101u, 700u}) {
        /* Whatever the arena's end is: free in part, or not. */
        EXPECT_TRUE(lm_span_extend(span, slices)) << slices;
        EXPECT_EQ(slices, span->slices);
        lm_span_check();
    }
}

/* What is free at the end but too short must not hide that more is needed. */
TEST_F(Span, ExtendsOverTheEndByAnyAmount) {
    for (size_t more = 1; more <= 80; more++) {
        lm_page_t *span = take(1);
        size_t there = lm_arena.slices - lm_span_slice(span);
        EXPECT_TRUE(lm_span_extend(span, there + more)) << there << " there, " << more << " more";
        give(span);
        lm_purge_all();
        lm_span_check();
    }
}

TEST_F(Span, Shrinks) {
    lm_page_t *span = take(9);
    take(1);
    write(span, 3);
    lm_span_shrink(span, 9);
    EXPECT_EQ(0u, stats().dirty_bytes);
    lm_span_shrink(span, 4);
    EXPECT_EQ(4u, span->slices);
    EXPECT_EQ(5 * kSlice, stats().dirty_bytes);
    lm_span_check();
    lm_span_shrink(span, 1);
    EXPECT_EQ(8 * kSlice, stats().dirty_bytes);
    EXPECT_EQ(0u, differing(span, 0, 1, 3));
    EXPECT_TRUE(lm_span_extend(span, 9));
    lm_span_check();
}

TEST_F(Span, MovesByPages) {
    lm_purge_allow(false), lm_purge_allow(true); /* a program that is shut in moves nothing */
    lm_purge_policy.worker = false;
    lm_page_t *span = take(5);
    write(span, 0x5c);
    lm_page_t *wall = take(1);
    lm_page_t *target = lm_span_move(span, 8);
    if (target == nullptr) GTEST_SKIP() << "this system moves no pages";
    replace(span, target);
    EXPECT_NE(span, target);
    EXPECT_EQ(8u, target->slices);
    EXPECT_EQ(LM_KIND_LARGE, target->kind);
    EXPECT_EQ(0u, differing(target, 0, 5, 0x5c));
    EXPECT_EQ(0u, differing(target, 5, 8, 0));
    lm_span_check();
    /* What was there is clean, and can be had again. */
    EXPECT_EQ(LM_KIND_CLEAN, span->kind);
    lm_page_t *again = take(5);
    EXPECT_EQ(0u, differing(again, 0, 5, 0));
    write(again, 1);
    EXPECT_EQ(0u, differing(target, 0, 5, 0x5c));
    EXPECT_NE(wall, target);
    lm_purge_policy.worker = true;
}

TEST_F(Span, ShutInMovesNothing) {
    lm_page_t *span = take(5);
    write(span, 0x5c);
    EXPECT_EQ(nullptr, lm_span_move(span, 8));
    EXPECT_EQ(0u, differing(span, 0, 5, 0x5c));
    EXPECT_EQ(5u, span->slices);
}

/* ---- The arena as a whole ---- */

TEST_F(Span, EndOfTheArenaIsGivenBack) {
    lm_page_t *first = take(1);
    size_t before = lm_arena.slices;
    std::vector<lm_page_t *> spans;
    for (int i = 0; i < 50; i++) spans.push_back(take(40));
    write(spans.back(), 1);
    EXPECT_GE(lm_arena.slices, before + 50 * 40 - 40);
    for (lm_page_t *span : spans) give(span);
    lm_purge_all();
    /* All that is left is the slice in use, and less than what one grows by. */
    EXPECT_LE(lm_arena.slices, lm_span_slice(first) + 1 + 16);
    lm_span_check();
    /* What comes instead of it is zero again. */
    bool zero = false;
    lm_page_t *again = take(2000, 1, &zero);
    EXPECT_TRUE(zero);
    EXPECT_EQ(0u, differing(again, 1955, 2000, 0));
}

TEST_F(Span, MetadataIsAQuarterOfAPercentAtMost) {
    /* What is mapped for them, in whole units, stays mapped where the arena once was larger. */
    size_t before = lm_space.map_committed + lm_space.pages_committed;
    for (size_t slices : {1u, 100u, 1000u, 3000u, 9000u}) {
        take(slices);
        lm_span_stats_t now = stats();
        EXPECT_LE(now.metadata_bytes * 400, now.arena_bytes);
        size_t mapped = lm_space.map_committed + lm_space.pages_committed;
        EXPECT_LE(mapped, std::max(before, now.arena_bytes / 400 + 2 * LM_OS_UNIT));
        EXPECT_GE(mapped, now.metadata_bytes);
    }
    EXPECT_EQ(136u, sizeof(lm_page_t) + sizeof(lm_page_t *));
}

/* ---- Random programs ---- */

class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
    size_t below(size_t n) {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return (state_ >> 11) % n;
    }

  private:
    uint64_t state_;
};

/* The first and last bytes of a span carry its number: two spans on one place would show. */
struct Owned {
    lm_page_t *span;
    size_t slices;
    uint64_t number;
};

char *last_word(const Owned &o) { return lm_span_start(o.span) + o.slices * kSlice - 8; }

void mark(const Owned &o) {
    memcpy(lm_span_start(o.span), &o.number, 8);
    memcpy(last_word(o), &o.number, 8);
}

bool marked(const Owned &o) {
    return memcmp(lm_span_start(o.span), &o.number, 8) == 0 &&
           memcmp(last_word(o), &o.number, 8) == 0 && o.span->slices == o.slices;
}

void random_program(uint64_t seed, size_t steps) {
    Random random(seed);
    std::vector<Owned> owned;
    size_t total = 0;
    for (size_t step = 0; step < steps; step++) {
        size_t choice = random.below(20);
        if (owned.empty() || (choice < 9 && total < 3000)) {
            size_t slices = random.below(4) != 0 ? 1 + random.below(6) : 1 + random.below(300);
            size_t align = random.below(6) != 0 ? 1 : size_t{1} << random.below(7);
            bool zero = false;
            lm_page_t *span = lm_span_take(slices, align, LM_KIND_LARGE, &zero);
            ASSERT_NE(nullptr, span);
            Owned o = {span, slices, step};
            ASSERT_EQ(0u, reinterpret_cast<uintptr_t>(lm_span_start(span)) % (align * kSlice));
            if (zero) {
                uint64_t first = 1, last = 1;
                memcpy(&first, lm_span_start(span), 8);
                memcpy(&last, last_word(o), 8);
                ASSERT_EQ(0u, first | last) << "not zero, step " << step;
            }
            mark(o);
            owned.push_back(o);
            total += slices;
            continue;
        }
        size_t index = random.below(owned.size());
        Owned &o = owned[index];
        ASSERT_TRUE(marked(o)) << "step " << step;
        if (choice < 15) {
            total -= o.slices;
            lm_span_give(o.span, random.below(4) == 0);
            o = owned.back();
            owned.pop_back();
        } else if (choice < 17) {
            size_t more = 1 + random.below(40);
            if (lm_span_extend(o.span, o.slices + more)) {
                o.slices += more;
                total += more;
            }
            mark(o);
        } else if (choice < 19) {
            size_t less = random.below(o.slices);
            lm_span_shrink(o.span, o.slices - less);
            o.slices -= less;
            total -= less;
            mark(o);
        } else if (random.below(3) == 0) {
            lm_purge_all();
        } else {
            lm_page_t *target = lm_span_move(o.span, o.slices + 1);
            if (target != nullptr) {
                o.span = target;
                ASSERT_EQ(0, memcmp(lm_span_start(target), &o.number, 8));
                o.slices++;
                total++;
                mark(o);
            }
        }
        if (step % 64 == 0) lm_span_check();
    }
    for (const Owned &o : owned) {
        ASSERT_TRUE(marked(o));
        lm_span_give(o.span, false);
    }
    lm_span_check();
}

TEST_F(Span, RandomPrograms) {
    lm_purge_allow(false), lm_purge_allow(true);
    lm_purge_policy.worker = false;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        random_program(seed, 1500);
        if (HasFatalFailure()) break;
    }
    lm_purge_policy.worker = true;
}

TEST_F(Span, RandomProgramsWithTheWorker) {
    lm_purge_policy = {10, true};
    lm_purge_allow(false), lm_purge_allow(true);
    for (uint64_t seed = 101; seed <= 106; seed++) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        random_program(seed, 1500);
        if (HasFatalFailure()) break;
    }
    lm_purge_allow(false);
    lm_purge_policy = {300, true};
}

TEST_F(Span, VisitSeesWhatIsInUse) {
    struct Seen {
        std::vector<lm_page_t *> spans;
    } seen;
    lm_page_t *a = take(2), *b = take(1), *c = take(3);
    give(b);
    lm_span_visit(
        [](lm_page_t *span, void *context) { static_cast<Seen *>(context)->spans.push_back(span); },
        &seen);
    EXPECT_EQ((std::vector<lm_page_t *>{a, c}), seen.spans);
}

/* Somebody else's memory where the arena would go next. In a child: the gap stays for ever. */
TEST_F(Span, GrowsAroundAStranger) {
    faulty::Found found = faulty::in_child([this](faulty::Found &found) {
        lm_page_t *span = take(1);
        size_t at = lm_arena.slices + 40;
        char *place = reinterpret_cast<char *>(lm_arena.base) + at * kSlice;
        void *got = mmap(place, kSlice, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (lm_space.reserved || got != place) {
            found.refused = 1;
            return;
        }
        memset(place, 0x77, kSlice);
        /* In place it can grow up to the stranger, and not over it. */
        EXPECT_TRUE(lm_span_extend(span, at - lm_span_slice(span)));
        EXPECT_FALSE(lm_span_extend(span, at - lm_span_slice(span) + 1));
        EXPECT_FALSE(lm_span_extend(span, at - lm_span_slice(span) + 3000));
        lm_span_check();
        std::vector<lm_page_t *> spans;
        for (int i = 0; i < 30; i++) {
            spans.push_back(take(50));
            memset(lm_span_start(spans.back()), 0x11, 50 * kSlice);
        }
        lm_span_check();
        size_t changed = 0;
        for (size_t i = 0; i < kSlice; i++) changed += place[i] != 0x77;
        EXPECT_EQ(0u, changed) << "the stranger's memory was written to";
        EXPECT_EQ(&lm_nobody, lm_page_of(place));
        for (lm_page_t *other : spans) give(other);
        give(span);
        lm_purge_all();
        lm_span_check();
        EXPECT_EQ(0u, stats().dirty_bytes);
        /* Nobody may have the gap: but it is no larger than it has to be. */
        EXPECT_LE(stats().used_bytes, size_t{64} << 20);
    });
    if (found.refused != 0) GTEST_SKIP() << "nobody else can map where the arena grows";
}

/* Whether the kernel can read one byte there. */
bool readable(uintptr_t address) {
    int ends[2];
    if (pipe(ends) != 0) abort();
    bool read = write(ends[1], reinterpret_cast<void *>(address), 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return read;
}

/* An overflow of either array of metadata ends in addresses that are never mapped. */
TEST_F(Span, MetadataEndsInAddressesThatAreNeverMapped) {
    if (LM_TSAN) GTEST_SKIP() << "the sanitizer has an arena of its own making";
    take(100);
    auto map = reinterpret_cast<uintptr_t>(lm_arena.map),
         pages = reinterpret_cast<uintptr_t>(lm_arena.pages);
    uintptr_t slices = lm_load_relaxed(&lm_arena.base);
    ASSERT_TRUE(readable(map) && readable(pages) && readable(slices)) << "this test sees nothing";
    for (uintptr_t end : {pages, slices})
        for (uintptr_t at = end - LM_OS_UNIT; at < end; at += 4096)
            ASSERT_FALSE(readable(at)) << end - at;
}

/* A copy of the process, made while another thread was about to free a span: the last slot says so,
 * the first one not yet. What is free behind it must not become one span with it. */
TEST_F(Span, AHalfFreedOneIsInUseInACopy) {
    for (size_t slices : {2, 3, 12}) {
        lm_page_t *torn = take(slices + 1);
        lm_span_shrink(torn, slices); /* what follows is free */
        lm_page_t *last = lm_space_slot(lm_span_slice(torn) + slices - 1);
        lm_lock_take(&lm_space.lock);
        last->kind = LM_KIND_DIRTY;
        lm_space_list_anew();
        EXPECT_EQ(LM_KIND_LARGE, last->kind);
        lm_lock_give(&lm_space.lock);
        lm_span_check();
        give(torn);
        lm_span_check();
    }
}

} // namespace

/* refill_test.cc: where malloc looks before it takes new memory: larger classes, and, in a process
 * with many threads, the common heap. remote_test.cc tests blocks that other threads freed.
 */
#include "heap_unit.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>

namespace {

using unit::blocks;
using unit::free_blocks;
using unit::in_thread;

class Refill : public unit::HeapTest {};

/* ---- Larger classes ---- */

TEST_F(Refill, AFreedBlockOfALargerClassServes) {
    SKIP_WITHOUT_LENDING();
    in_thread([] {
        std::vector<void *> large = blocks(5, 2048);
        lm_page_t *page = lm_page_of(large[0]);
        lm_block_free(large[3]);
        uint32_t live = page->live;
        void *p = lm_block_alloc(1700); /* the third class below */
        EXPECT_EQ(large[3], p);
        EXPECT_EQ(live + 1, page->live);
        EXPECT_EQ(1u, lm_heap_self->pages);
        lm_heap_check();
        memset(p, 1, 1700);
        lm_block_free(p);
        EXPECT_EQ(live, page->live);
        EXPECT_EQ(static_cast<lm_block_t *>(p), page->free) << "back where it came from";
        void *q = lm_block_alloc(2048);
        EXPECT_EQ(lm_class_of(2048), lm_page_of(q)->size_class);
        lm_heap_check();
        lm_block_free(q);
        for (size_t i : {0u, 1u, 2u, 4u}) lm_block_free(large[i]);
    });
}

TEST_F(Refill, ButNotOfAMuchLargerOne) {
    in_thread([] {
        std::vector<void *> large = blocks(2, 2048), small = blocks(2, 512);
        lm_block_free(large[0]);
        lm_block_free(small[0]);
        void *fourth = lm_block_alloc(1500), *tiny = lm_block_alloc(400);
        EXPECT_EQ(lm_class_of(1500), lm_page_of(fourth)->size_class);
        EXPECT_EQ(lm_class_of(400), lm_page_of(tiny)->size_class);
        lm_block_free(fourth);
        lm_block_free(tiny);
        lm_block_free(large[1]);
        lm_block_free(small[1]);
    });
}

TEST_F(Refill, OwnFreedBlocksComeBeforeLargerOnes) {
    SKIP_WITHOUT_LENDING();
    in_thread([] {
        std::vector<void *> large = blocks(5, 2048), mine = blocks(2, 1800);
        free_blocks(large);
        lm_block_free(mine[1]);
        EXPECT_EQ(mine[1], lm_block_alloc(1800));
        /* And those before untouched ones, though a search that finds nothing is not repeated at
         * once. */
        std::vector<void *> more = blocks(8, 1800);
        EXPECT_TRUE(std::any_of(more.begin(), more.end(), [](void *p) {
            return lm_page_of(p)->size_class == lm_class_of(2048);
        }));
        free_blocks(more);
        free_blocks(mine);
    });
}

/* Sizes as they are said to be, alignments as they were asked for, zeros. */
TEST_F(Refill, LargerBlocksKeepEveryPromise) {
    SKIP_WITHOUT_LENDING();
    in_thread([] {
        size_t lent = 0;
        for (unsigned c = LM_SMALL_CLASSES; c < LM_CLASSES; c++) {
            for (size_t align = 16; align <= lm_class_bytes(c); align *= 2) {
                /* One freed block in each of the four classes above, none in this one. */
                std::vector<void *> keep;
                for (unsigned larger = c + 1; larger <= c + 4 && larger < LM_CLASSES; larger++) {
                    std::vector<void *> two = blocks(2, lm_class_bytes(larger));
                    memset(two[1], 0xee, lm_class_bytes(larger));
                    lm_block_free(two[1]); /* the first of a page is aligned to all */
                    keep.push_back(two[0]);
                }
                size_t bytes = lm_class_bytes(c) - LM_TRAILER;
                void *p = lm_malloc_aligned(bytes, align);
                ASSERT_NE(nullptr, p);
                EXPECT_EQ(0u, reinterpret_cast<uintptr_t>(p) % align) << bytes << " to " << align;
                EXPECT_GE(lm_usable_size(p), bytes);
                EXPECT_EQ(lm_usable_size(p), lm_requested(lm_page_of(p), p));
                lent += lm_page_of(p)->size_class > lm_class_aligned(bytes + LM_TRAILER, align);
                memset(p, 0xdd, bytes);
                auto *q = static_cast<unsigned char *>(lm_calloc(bytes));
                size_t other = 0;
                for (size_t i = 0; i < bytes; i++) other += q[i] != 0;
                EXPECT_EQ(0u, other) << bytes;
                void *grown = lm_realloc(p, bytes + bytes / 8);
                EXPECT_EQ(0xdd, static_cast<unsigned char *>(grown)[bytes - 1]);
                lm_free(grown);
                lm_free(q);
                free_blocks(keep);
                lm_heap_check();
                lm_heap_collect();
            }
        }
        EXPECT_GT(lent, 40u) << "this is about blocks of larger classes";
    });
}

size_t length_of(const lm_block_t *list) {
    size_t n = 0;
    for (; list != nullptr; list = lm_link_get(list)) n++;
    return n;
}

/* To cut a list reads each block of the part that is taken, and a block that rests is in no cache:
 * 256 of them took tens of microseconds within one malloc, and eight more than 2,000 cycles. A list
 * that is taken whole needs no look at its blocks. */
TEST_F(Refill, ALongListOfALargerClassIsCutAfterAFewBlocks) {
    SKIP_WITHOUT_LENDING();
    in_thread([] {
        std::vector<void *> large = blocks(200, 128);
        unsigned smaller = lm_class_of(112);
        free_blocks(large);
        void *p = lm_block_alloc(112);
        ASSERT_EQ(lm_class_of(128), lm_page_of(p)->size_class) << "this is about larger classes";
        size_t lent = 1 + length_of(lm_heap_self->head[smaller]);
        EXPECT_GE(lent, 2u) << "a refill for each block would cost more than it saves";
        EXPECT_LE(lent, 2u);
        lm_heap_check();
        lm_block_free(p);
    });
    in_thread([] {
        std::vector<void *> large = blocks(200, 128);
        unsigned smaller = lm_class_of(112);
        for (size_t i = 10; i < 30; i++) lm_block_free(large[i]);
        void *p = lm_block_alloc(112);
        ASSERT_EQ(lm_class_of(128), lm_page_of(p)->size_class) << "this is about larger classes";
        EXPECT_EQ(19u, length_of(lm_heap_self->head[smaller])) << "a short list is taken whole";
        lm_heap_check();
        lm_block_free(p);
        for (size_t i = 0; i < 200; i++) {
            if (i < 10 || i >= 30) lm_block_free(large[i]);
        }
    });
}

/* Each page that is compared is perhaps a miss of every cache, and the misses come one after the
 * other. */
TEST_F(Refill, TheFullerOfTheTwoOldestPagesServes) {
    in_thread([] {
        constexpr size_t kBytes = 1024, kPages = 5;
        std::vector<std::vector<void *>> pages(kPages);
        std::vector<lm_page_t *> order;
        size_t of_page = 0;
        for (auto &each : pages) {
            each.push_back(lm_block_alloc(kBytes));
            lm_page_t *page = lm_page_of(each[0]);
            order.push_back(page);
            of_page = page->capacity;
            ASSERT_GE(of_page, 40u);
            while (each.size() < of_page) each.push_back(lm_block_alloc(kBytes));
            for (void *p : each) ASSERT_EQ(page, lm_page_of(p));
        }
        void *current =
            lm_block_alloc(kBytes); /* the last page is full now, another one is current */
        const size_t freed[kPages] = {24, 20, 17, 17,
                                      17}; /* in the order in which they become partial */
        for (size_t i = 0; i < kPages; i++)
            for (size_t n = 0; n < freed[i]; n++) lm_block_free(pages[i][n]);
        std::vector<void *> more;
        lm_page_t *serves;
        do {
            more.push_back(lm_block_alloc(kBytes));
            serves = lm_page_of(more.back());
        } while (serves == lm_page_of(current));
        EXPECT_EQ(order[1], serves) << "the third and the fourth are fuller, and are not looked at";
        lm_heap_check();
        for (size_t i = 0; i < kPages; i++)
            for (size_t n = freed[i]; n < of_page; n++) lm_block_free(pages[i][n]);
        free_blocks(more);
        lm_block_free(current);
    });
}

/* Pages that have lent all they had are full: they do not stand before those that have
 * something. */
TEST_F(Refill, APageThatLentItsLastBlockIsFull) {
    SKIP_WITHOUT_LENDING();
    in_thread([] {
        std::vector<void *> large = blocks(8 * 20, 3584);
        std::vector<lm_page_t *> pages;
        for (void *p : large) {
            if (pages.empty() || lm_page_of(p) != pages.back()) pages.push_back(lm_page_of(p));
        }
        ASSERT_GE(pages.size(), 7u);
        /* Enough of each page but the last to wake it. */
        size_t each = pages[0]->capacity / 4u;
        for (size_t i = 0; i + 1 < pages.size(); i++) {
            size_t n = 0;
            for (void *&p : large) {
                if (p == nullptr || lm_page_of(p) != pages[i] || n == each) continue;
                lm_block_free(p);
                p = nullptr;
                n++;
            }
        }
        for (size_t i = 0; i + 1 < pages.size(); i++) ASSERT_EQ(LM_AT_PARTIAL, pages[i]->in_list);
        /* All but the last few are lent to the class below. */
        std::vector<void *> small = blocks(each * (pages.size() - 2), 3300);
        for (void *p : small) EXPECT_EQ(lm_class_of(3584), lm_page_of(p)->size_class);
        lm_heap_check();
        size_t full = 0;
        for (lm_page_t *page : pages) full += page->in_list == LM_AT_FULL && page->free == nullptr;
        EXPECT_EQ(pages.size() - 2, full);
        size_t before = lm_heap_self->pages;
        std::vector<void *> more = blocks(each, 3584);
        EXPECT_EQ(before, lm_heap_self->pages);
        lm_heap_check();
        for (void *p : large) lm_block_free(p);
        free_blocks(small);
        free_blocks(more);
        lm_heap_check();
    });
}

/* ---- The end of a thread ---- */

/* Every place a page can be in, all blocks back: nothing is left to anybody. */
TEST_F(Refill, AThreadThatEndsLeavesNoEmptyPage) {
    lm_span_stats_t before, after;
    lm_theap_t *heap = nullptr;
    in_thread([] { /* room for heaps */
                   lm_block_free(lm_block_alloc(16));
                   in_thread([] { lm_block_free(lm_block_alloc(16)); });
    });
    (void)lm_purge_all();
    lm_span_stats(&before);
    std::vector<void *> elsewhere;
    in_thread([&] {
        heap = lm_heap_self;
        std::vector<void *> taken;
        for (unsigned c = 1; c < LM_CLASSES; c++) {
            std::vector<void *> some = blocks(c < 80 ? 700 : 20, lm_class_bytes(c));
            taken.insert(taken.end(), some.begin(), some.end());
        }
        heap = lm_heap_self;
        /* A third by others, the rest in an order that leaves pages full, partial and current. */
        in_thread([&] {
            for (size_t i = 0; i < taken.size(); i += 3) lm_block_free(taken[i]);
        });
        for (size_t i = taken.size(); i-- > 0;) {
            if (i % 3 != 0) lm_block_free(taken[i]);
        }
        EXPECT_GT(lm_heap_self->pages, 100u);
        lm_heap_check();
    });
    EXPECT_EQ(0u, heap->pages);
    EXPECT_FALSE(heap->active);
    lm_span_stats(&after);
    EXPECT_EQ(before.used_bytes, after.used_bytes);
    lm_span_check();
}

/* ---- Many heaps ---- */

/* Threads that are all alive at once, each with its heap. */
class Crowd {
  public:
    explicit Crowd(unsigned n) {
        for (unsigned i = 0; i < n; i++) {
            threads_.emplace_back([this] {
                std::unique_lock<std::mutex> lock(mutex_);
                for (int round = 1; round <= 2; round++) {
                    changed_.wait(lock, [&] { return round_ >= round; });
                    lock.unlock();
                    if (round == 1) body_();
                    lock.lock();
                    done_++;
                    changed_.notify_all();
                }
            });
        }
    }
    template <typename Body> void run(Body body) {
        body_ = body;
        go(1);
    }
    ~Crowd() {
        if (round_ == 0) run([] {});
        go(2);
        for (std::thread &thread : threads_) thread.join();
    }

  private:
    void go(int round) {
        std::unique_lock<std::mutex> lock(mutex_);
        done_ = 0;
        round_ = round;
        changed_.notify_all();
        changed_.wait(lock, [this] { return done_ == threads_.size(); });
    }
    std::mutex mutex_;
    std::condition_variable changed_;
    int round_ = 0;
    size_t done_ = 0;
    std::function<void()> body_;
    std::vector<std::thread> threads_;
};

TEST_F(Refill, HeapsAreCounted) {
    uint32_t before = lm_load_relaxed(&lm_heaps_active);
    {
        Crowd crowd(10);
        crowd.run([] { lm_block_free(lm_block_alloc(16)); });
        EXPECT_EQ(before + 10, lm_load_relaxed(&lm_heaps_active));
    }
    EXPECT_EQ(before, lm_load_relaxed(&lm_heaps_active));
}

/* Heaps that share nothing: four a processor, and sixteen at least. */
unsigned few_heaps() { return std::max(16u, 4 * lm_os_processors()); }

TEST_F(Refill, WithFewHeapsEachHasItsPage) {
    Crowd crowd(few_heaps() - 4); /* some of other tests may be about */
    std::atomic<unsigned> own{0};
    crowd.run([&] {
        void *p = lm_block_alloc(100);
        own += lm_page_of(p)->owner == lm_thread_token();
        lm_block_free(p);
    });
    EXPECT_EQ(few_heaps() - 4, own.load());
}

/* What the worker does once nobody has used the common heap for a tick. */
void trim_common() {
    lm_heap_common.slow_seen = lm_heap_common.slow;
    lm_common_trim();
}

TEST_F(Refill, WithManyHeapsTheFirstBlocksAreShared) {
    {
        Crowd crowd(few_heaps() + 16);
        crowd.run([] { lm_block_free(lm_block_alloc(16)); });
        in_thread([] {
            std::vector<void *> taken;
            std::set<void *> seen;
            for (size_t i = 0; i < 34; i++) {
                taken.push_back(lm_block_alloc(100));
                memset(taken.back(), 0xee, 100);
                EXPECT_TRUE(seen.insert(taken.back()).second);
                bool shared = lm_page_of(taken.back())->owner == lm_heap_common.token;
                EXPECT_EQ(i < 32, shared) << i;
                EXPECT_EQ(shared, lm_heap_self->holds[7] == LM_HOLDS_OTHERS);
                EXPECT_EQ(i < 32 ? 0u : 1u, lm_heap_self->pages);
                if (i % 8 == 0) lm_heap_check();
            }
            EXPECT_EQ(32u, lm_heap_self->foreign[7].shared);
            void *medium = lm_block_alloc(3000);
            EXPECT_EQ(lm_heap_common.token, lm_page_of(medium)->owner) << "larger ones one by one";
            EXPECT_EQ(nullptr, lm_heap_self->head[lm_class_of(3000)]);
            void *large = lm_block_alloc(20000);
            EXPECT_EQ(lm_thread_token(), lm_page_of(large)->owner) << "but not the largest";
            lm_heap_check();
            lm_block_free(medium);
            lm_block_free(large);
            free_blocks(taken);
        });
        in_thread([] {
            void *p = lm_block_alloc(100);
            EXPECT_EQ(lm_heap_common.token, lm_page_of(p)->owner) << "each thread has its share";
            auto *q = static_cast<unsigned char *>(lm_calloc(100));
            for (size_t i = 0; i < 100; i++) EXPECT_EQ(0, q[i]) << "zero, though used before";
            lm_free(q);
            lm_block_free(p);
        });
    }
    trim_common();
    EXPECT_EQ(0u, lm_heap_common.pages);
}

/* Without this, pages of which nothing is in use stayed for as long as nobody asked for those
 * classes. */
TEST_F(Refill, TheCommonHeapGivesBackBlocksOfLargerClassesToo) {
    SKIP_WITHOUT_LENDING();
    unsigned larger = lm_class_of(128), smaller = lm_class_of(112);
    ASSERT_EQ(larger, smaller + 1);
    std::vector<void *> taken;
    for (int i = 0; i < 4; i++) taken.push_back(lm_common_alloc(larger));
    free_blocks(taken);
    lm_heap_collect();
    lm_biased_enter(&lm_heap_common.lock);
    lm_remote_drain(&lm_heap_common);
    lm_biased_leave(&lm_heap_common.lock);
    void *p = lm_common_alloc(smaller);
    ASSERT_EQ(larger, lm_page_of(p)->size_class) << "this is about holes of larger classes";
    ASSERT_NE(nullptr, lm_heap_common.head[smaller]) << "and about the next ones of them";
    lm_block_free(p);
    lm_heap_collect();
    trim_common();
    EXPECT_EQ(nullptr, lm_heap_common.head[smaller]);
    EXPECT_EQ(0u, lm_heap_common.pages);
}

/* A thousand threads that need little: not a page each for every class. */
TEST_F(Refill, AThousandThreadsTakeLittle) {
    constexpr unsigned kThreads = LM_TSAN ? 200 : 1000;
    lm_span_stats_t before, after;
    lm_span_stats(&before);
    {
        Crowd crowd(kThreads);
        std::vector<std::vector<void *>> taken(kThreads);
        std::atomic<unsigned> number{0};
        crowd.run([&] {
            std::vector<void *> &mine = taken[number++];
            for (size_t bytes = 16; bytes <= 4096; bytes += bytes / 2)
                mine.push_back(lm_block_alloc(bytes));
        });
        lm_span_stats(&after);
        size_t each = 0;
        for (void *p : taken[0]) each += lm_page_of(p)->block_bytes;
        size_t used = after.used_bytes - before.used_bytes, bare = each * kThreads;
        printf("%u threads, %zu blocks of %zu bytes each: %zu KiB in pages\n", kThreads,
               taken[0].size(), each, used / 1024);
        /* A few threads have pages of their own, up to 64 KiB for each of 14 classes. */
        EXPECT_LT(used, 4 * bare + few_heaps() * taken[0].size() * (size_t{64} << 10));
        for (auto &mine : taken) free_blocks(mine);
        lm_heap_collect();
    }
    trim_common();
}

} // namespace

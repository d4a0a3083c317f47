/* stats_test.cc: the numbers of loam/stats.h: they are exact where the header says so, and bounds
 * elsewhere.
 *
 * Each test runs in a thread of its own and allocates by lm_block_alloc, without the trailers and
 * fences of debug builds.
 */
#include "fheap_unit.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

namespace {

using unit::blocks;
using unit::free_blocks;
using unit::in_thread;

std::unique_ptr<loam_stats_t> now() {
    auto stats = std::make_unique<loam_stats_t>();
    EXPECT_EQ(0, loam_stats_get(stats.get(), sizeof *stats));
    return stats;
}

const loam_stats_class &of(const loam_stats_t &stats, size_t bytes) {
    return stats.of_class[lm_class_of(bytes) - 1];
}

void adds_up(const loam_stats_count &row, const char *what) {
    EXPECT_EQ(row.total - row.freed, row.current) << what;
    EXPECT_GE(row.peak, row.current) << what;
    EXPECT_GE(row.total, row.freed) << what;
}

void adds_up(const loam_stats_t &stats) {
    uint64_t objects = 0, bytes = 0;
    for (const loam_stats_class &each : stats.of_class) {
        adds_up(each.objects, "a class");
        EXPECT_LE(each.objects.current, each.capacity) << each.object_bytes;
        objects += each.objects.current;
        bytes += each.objects.current * each.object_bytes;
    }
    EXPECT_EQ(objects, stats.small_objects.current);
    EXPECT_EQ(bytes, stats.small_bytes.current);
    adds_up(stats.small_objects, "small objects");
    adds_up(stats.small_bytes, "small bytes");
    adds_up(stats.large_objects, "large objects");
    adds_up(stats.large_bytes, "large bytes");
    adds_up(stats.bytes_in_all, "bytes in all");
    adds_up(stats.committed, "committed");
    adds_up(stats.reserved, "reserved");
    adds_up(stats.abandoned, "abandoned");
    adds_up(stats.threads, "threads");
    adds_up(stats.pages, "pages");
    adds_up(stats.segments, "segments");
    adds_up(stats.sampled_objects, "sampled objects");
    adds_up(stats.sampled_bytes, "sampled bytes");
    EXPECT_LE(stats.committed.current, stats.reserved.current);
    EXPECT_LE(stats.bytes_in_all.current, stats.committed.current);
}

class Stats : public unit::HeapTest {
  protected:
    void SetUp() override {
        HeapTest::SetUp();
        lm_heap_collect();
        loam_stats_reset();
    }
};

constexpr size_t kBytes =
    64; /* of a class that nothing else here allocates from between two snapshots */

TEST_F(Stats, CountsWhatOneThreadAllocatesAndFrees) {
    in_thread([] {
        auto before = now();
        auto taken = blocks(1000, kBytes);
        auto after = now();
        EXPECT_EQ(1000u, of(*after, kBytes).objects.total - of(*before, kBytes).objects.total);
        EXPECT_EQ(1000u, of(*after, kBytes).objects.current - of(*before, kBytes).objects.current);
        EXPECT_EQ(0u, of(*after, kBytes).objects.freed - of(*before, kBytes).objects.freed);
        EXPECT_LE(of(*after, kBytes).objects.peak, of(*after, kBytes).objects.current + 4096 / 64);
        adds_up(*after);
        free_blocks(taken, 0, 500);
        auto freed = now();
        EXPECT_EQ(1000u, of(*freed, kBytes).objects.total - of(*before, kBytes).objects.total);
        EXPECT_EQ(500u, of(*freed, kBytes).objects.freed - of(*before, kBytes).objects.freed);
        EXPECT_GE(of(*freed, kBytes).objects.peak, 1000u);
        adds_up(*freed);
        free_blocks(taken, 500, 1000);
        auto end = now();
        EXPECT_EQ(1000u, of(*end, kBytes).objects.freed - of(*before, kBytes).objects.freed);
        EXPECT_EQ(of(*before, kBytes).objects.current, of(*end, kBytes).objects.current);
        EXPECT_GE(of(*end, kBytes).objects.peak, 1000u);
        adds_up(*end);
    });
}

TEST_F(Stats, AsJsonNowhere) {
    EXPECT_EQ(-EINVAL, loam_stats_json(nullptr, 100));
    EXPECT_GT(loam_stats_json(nullptr, 0), 100);
}

/* Objects that lie on pages of their own are in no class's row, and in one of their own. */
TEST_F(Stats, CountsSampledObjects) {
    in_thread([] {
        auto before = now();
        ASSERT_EQ(0, loam_sampling_set(1));
        void *p[20];
        for (void *&one : p) one = loam_malloc(kBytes);
        void *aligned = loam_malloc_aligned(33, 32); /* smaller than its class */
        auto placed = now();
        EXPECT_EQ(0u, placed->sampled_bytes.freed - before->sampled_bytes.freed);
        EXPECT_EQ(20u * kBytes + 33, placed->sampled_bytes.peak - before->sampled_bytes.current);
        loam_free(aligned);
        auto with = now();
        EXPECT_EQ(33u, with->sampled_bytes.freed - before->sampled_bytes.freed);
        EXPECT_EQ(20u, with->sampled_objects.current - before->sampled_objects.current);
        EXPECT_EQ(21u, with->sampled_objects.total - before->sampled_objects.total);
        EXPECT_EQ(20u * kBytes, with->sampled_bytes.current - before->sampled_bytes.current);
        EXPECT_GE(with->bytes_in_all.current - before->bytes_in_all.current, 20u * kBytes);
        adds_up(*with);
        for (int i = 0; i < 15; i++) loam_free(p[i]);
        auto less = now();
        EXPECT_EQ(16u, less->sampled_objects.freed - before->sampled_objects.freed);
        EXPECT_EQ(5u, less->sampled_objects.current - before->sampled_objects.current);
        EXPECT_GE(less->sampled_objects.peak, 20u);
        adds_up(*less);
        loam_stats_reset();
        auto anew = now();
        EXPECT_EQ(5u, anew->sampled_objects.total - before->sampled_objects.current);
        EXPECT_EQ(0u, anew->sampled_objects.freed);
        ASSERT_EQ(0, loam_sampling_set(0));
        for (int i = 15; i < 20; i++) loam_free(p[i]);
    });
}

TEST_F(Stats, CountsPagesAndSegments) {
    in_thread([] {
        auto before = now();
        auto taken = blocks(64, 20000);
        auto with = now();
        EXPECT_GE(with->pages.current, before->pages.current + 3);
        free_blocks(taken);
        lm_heap_collect();
        auto after = now();
        EXPECT_GE(after->pages.peak, with->pages.current);
        EXPECT_LT(after->pages.current, with->pages.current);
        EXPECT_EQ(after->reserved.current, after->segments.current << LM_SLICE_SHIFT);
    });
}

TEST_F(Stats, CountsBlocksThatAreUsedAgainAndAgain) {
    in_thread([] {
        auto before = now();
        for (int i = 0; i < 10000; i++) free_blocks(blocks(1 + i % 7, kBytes));
        uint64_t n = 0;
        for (int i = 0; i < 10000; i++) n += 1 + i % 7;
        auto after = now();
        EXPECT_EQ(n, of(*after, kBytes).objects.total - of(*before, kBytes).objects.total);
        EXPECT_EQ(n, of(*after, kBytes).objects.freed - of(*before, kBytes).objects.freed);
        adds_up(*after);
    });
}

/* At most 4 KiB of objects too high while no page of the class has gone, else by a page for each
 * thread. */
TEST_F(Stats, PeaksAreBounds) {
    constexpr size_t kRare = 1472;
    in_thread([] {
        uint64_t page = unit::blocks_in_page(kRare);
        for (uint64_t n : {1, 3, 40, 41, 200, 777}) {
            lm_heap_collect();
            loam_stats_reset();
            uint64_t none = of(*now(), kRare).objects.current;
            auto taken = blocks(n, kRare);
            uint64_t peak = of(*now(), kRare).objects.peak;
            EXPECT_GE(peak, none + n);
            EXPECT_LE(peak, none + n + 4096 / kRare) << n << " objects";
            free_blocks(taken);
            lm_heap_collect(); /* the pages have gone */
            free_blocks(blocks(n / 2, kRare));
            EXPECT_GE(of(*now(), kRare).objects.peak, none + n);
            EXPECT_LE(of(*now(), kRare).objects.peak, none + n + page) << n << " objects";
        }
    });
}

TEST_F(Stats, CountsEveryClass) {
    in_thread([] {
        auto before = now();
        for (unsigned c = 1; c < LM_CLASSES; c++) free_blocks(blocks(10 * c, lm_class_bytes(c)));
        lm_heap_collect(); /* pages go, counts stay */
        auto after = now();
        adds_up(*after);
        EXPECT_LT(loam_stats_json(nullptr, 0), 32768) << "with every class in it";
        uint64_t n = 0, was = 0;
        for (unsigned c = 1; c < LM_CLASSES; c++) n += 10 * c;
        for (unsigned c = 1; c < LM_CLASSES; c++) {
            /* A block may come from a larger class's page, and is counted there. */
            was += after->of_class[c - 1].objects.total - before->of_class[c - 1].objects.total;
        }
        EXPECT_GE(was, n);
        EXPECT_LE(was, n + 100) << "the test's own";
    });
}

TEST_F(Stats, CountsStayWhenThreadsEnd) {
    auto before = now();
    std::vector<void *> left;
    for (int i = 0; i < 5; i++) {
        in_thread([&] {
            auto taken = blocks(300, kBytes);
            free_blocks(taken, 0, 200);
            left.insert(left.end(), taken.begin() + 200, taken.end());
        });
    }
    auto after = now();
    EXPECT_EQ(1500u, of(*after, kBytes).objects.total - of(*before, kBytes).objects.total);
    EXPECT_EQ(500u, of(*after, kBytes).objects.current - of(*before, kBytes).objects.current);
    EXPECT_EQ(5u, after->threads.total - before->threads.total);
    EXPECT_EQ(before->threads.current, after->threads.current);
    EXPECT_GT(after->abandoned.current, 0u);
    adds_up(*after);
    free_blocks(left);
    auto end = now();
    EXPECT_EQ(of(*before, kBytes).objects.current, of(*end, kBytes).objects.current);
    adds_up(*end);
}

TEST_F(Stats, WhatAnotherThreadFreesIsFreed) {
    auto before = now();
    std::vector<void *> taken;
    in_thread([&] {
        taken = blocks(1000, kBytes);
        std::thread other([&] {
            free_blocks(taken, 0, 600);
            auto during = now();
            EXPECT_EQ(600u, of(*during, kBytes).objects.freed - of(*before, kBytes).objects.freed);
            adds_up(*during);
            auto more = blocks(100, kBytes); /* of those that it has freed, some */
            during = now();
            /* The thread that waits for us has the rest of a carving ready, and nobody may look. */
            EXPECT_GE(of(*during, kBytes).objects.total - of(*before, kBytes).objects.total, 1100u);
            EXPECT_LE(of(*during, kBytes).objects.total - of(*before, kBytes).objects.total,
                      1100u + 4096 / kBytes);
            adds_up(*during);
            free_blocks(more);
        });
        other.join();
        free_blocks(taken, 600, 1000);
    });
    auto after = now();
    EXPECT_EQ(1100u, of(*after, kBytes).objects.total - of(*before, kBytes).objects.total);
    EXPECT_EQ(1100u, of(*after, kBytes).objects.freed - of(*before, kBytes).objects.freed);
    adds_up(*after);
}

TEST_F(Stats, CountsLargeObjects) {
    constexpr size_t kMiB = size_t{1} << 20;
    auto before = now();
    constexpr size_t kOdd = LM_SECURE ? 100000 : 102400; /* the secure build is exact */
    void *a = lm_block_alloc(3 * kMiB), *b = lm_block_alloc(100000);
    auto after = now();
    EXPECT_EQ(2u, after->large_objects.total - before->large_objects.total);
    EXPECT_EQ(2u, after->large_objects.current - before->large_objects.current);
    EXPECT_EQ(3 * kMiB + kOdd, after->large_bytes.current - before->large_bytes.current);
    EXPECT_EQ(3 * kMiB + kOdd, after->large_bytes.total - before->large_bytes.total);
    adds_up(*after);
    lm_block_free(a);
    auto freed = now();
    EXPECT_EQ(1u, freed->large_objects.freed - before->large_objects.freed);
    EXPECT_EQ(3 * kMiB, freed->large_bytes.freed - before->large_bytes.freed);
    EXPECT_GE(freed->large_bytes.peak, 3 * kMiB + kOdd);
    EXPECT_GE(freed->large_objects.peak, 2u);
    adds_up(*freed);
    lm_block_free(b);
    adds_up(*now());
}

TEST_F(Stats, AResizedLargeObjectIsOne) {
    constexpr size_t kMiB = size_t{1} << 20;
    auto before = now();
    void *p = loam_malloc(kMiB);
    for (size_t bytes : {2 * kMiB, 40 * kMiB, kMiB / 2, 3 * kMiB}) {
        p = loam_realloc(p, bytes);
        ASSERT_NE(nullptr, p);
        auto during = now();
        EXPECT_EQ(1u, during->large_objects.current - before->large_objects.current) << bytes;
        EXPECT_NEAR(static_cast<double>(bytes),
                    static_cast<double>(during->large_bytes.current - before->large_bytes.current),
                    4096);
        adds_up(*during);
    }
    loam_free(p);
    auto after = now();
    EXPECT_EQ(before->large_objects.current, after->large_objects.current);
    EXPECT_EQ(before->large_bytes.current, after->large_bytes.current);
    EXPECT_GE(after->large_bytes.peak, 40 * kMiB);
    adds_up(*after);
}

TEST_F(Stats, CountsObjectsAtAnOffset) {
    auto before = now();
    void *p = loam_malloc_aligned_offset(100, 64, 8),
         *q = loam_malloc_aligned_offset(200000, 64, 8);
    ASSERT_TRUE(p != nullptr && q != nullptr);
    auto after = now();
    EXPECT_EQ(1u, after->small_objects.total - before->small_objects.total);
    EXPECT_EQ(1u, after->large_objects.current - before->large_objects.current);
    adds_up(*after);
    loam_free(p);
    loam_free(q);
    auto end = now();
    EXPECT_EQ(before->small_objects.current, end->small_objects.current);
    EXPECT_EQ(before->large_objects.current, end->large_objects.current);
    adds_up(*end);
}

TEST_F(Stats, AResetBeginsAnew) {
    in_thread([] {
        auto taken = blocks(1000, kBytes);
        free_blocks(taken, 0, 900);
        void *large = lm_block_alloc(5000000);
        lm_block_free(large);
        loam_stats_reset();
        auto after = now();
        EXPECT_EQ(0u, of(*after, kBytes).objects.freed);
        EXPECT_EQ(of(*after, kBytes).objects.current, of(*after, kBytes).objects.total);
        EXPECT_EQ(0u, after->large_bytes.total);
        EXPECT_EQ(0u, after->large_bytes.peak);
        EXPECT_EQ(0u, after->purges);
        adds_up(*after);
        free_blocks(taken, 900, 1000);
        auto end = now();
        EXPECT_EQ(100u, of(*end, kBytes).objects.freed);
        adds_up(*end);
    });
}

TEST_F(Stats, MemoryAndTheProcess) {
    auto before = now();
    void *p = loam_malloc(32 << 20);
    memset(p, 1, 32 << 20);
    auto during = now();
    EXPECT_GE(during->committed.current, before->committed.current);
    EXPECT_GE(during->committed.current, size_t{32} << 20);
    loam_free(p);
    loam_collect();
    auto after = now();
    EXPECT_GE(after->purged_bytes, size_t{32} << 20);
    EXPECT_GE(after->purges, 1u);
    EXPECT_GE(after->committed.peak, size_t{32} << 20);
    EXPECT_LT(after->committed.current, during->committed.current);
    EXPECT_GT(after->system_calls, before->system_calls);
    EXPECT_GT(after->madvises, before->madvises);
    EXPECT_GE(after->mmaps, after->commits);
    EXPECT_GE(after->elapsed_us, before->elapsed_us);
    EXPECT_GT(after->faults, 0u);
    EXPECT_GT(after->resident_bytes, 0u);
    EXPECT_GE(after->resident_peak, after->resident_bytes);
    adds_up(*after);
}

TEST_F(Stats, ShortAndBadBuffers) {
    EXPECT_EQ(-EINVAL, loam_stats_get(nullptr, sizeof(loam_stats_t)));
    loam_stats_t stats;
    EXPECT_EQ(-EINVAL, loam_stats_get(&stats, 7));
    memset(&stats, 0x5a, sizeof stats);
    EXPECT_EQ(0, loam_stats_get(&stats, 8));
    EXPECT_EQ(8u, stats.bytes);
    EXPECT_EQ(static_cast<uint32_t>(LOAM_STATS_VERSION), stats.version);
    EXPECT_EQ(0x5a5a5a5a5a5a5a5au, stats.of_class[0].object_bytes);
    struct {
        loam_stats_t known;
        uint64_t newer;
    } larger;
    larger.newer = 42;
    EXPECT_EQ(0, loam_stats_get(&larger.known, sizeof larger));
    EXPECT_EQ(sizeof(loam_stats_t), larger.known.bytes);
    EXPECT_EQ(42u, larger.newer);
    EXPECT_EQ(-EINVAL, loam_heap_stats(nullptr, &stats, sizeof stats));
}

TEST_F(Stats, JsonIsCutToTheBuffer) {
    int length = loam_stats_json(nullptr, 0);
    ASSERT_GT(length, 100);
    std::string text(32768, 'x');
    int there = loam_stats_json(&text[0], text.size());
    ASSERT_LT(static_cast<size_t>(there), text.size());
    EXPECT_EQ('\0', text[there]);
    EXPECT_EQ('{', text[0]);
    EXPECT_EQ("}\n", text.substr(there - 2, 2));
    for (size_t room : {1, 2, 3, 100, 511, 512, 513}) {
        std::string part(room + 1, 'x');
        EXPECT_GE(loam_stats_json(&part[0], room), 100);
        EXPECT_EQ(room - 1, strlen(part.c_str()));
        EXPECT_EQ('x', part[room]);
        EXPECT_EQ(text.substr(0, room < 30 ? room - 1 : 30),
                  part.substr(0, room < 30 ? room - 1 : 30));
    }
}

void collect(const char *text, size_t length, void *lines) {
    static_cast<std::vector<std::string> *>(lines)->emplace_back(text, length);
}

TEST_F(Stats, TheTextHasTheSeedsRows) {
    auto taken = blocks(10, 48);
    std::vector<std::string> lines;
    lines.reserve(200);
    loam_output_register(collect, &lines);
    loam_stats_print();
    loam_output_register(nullptr, nullptr);
    free_blocks(taken);
    std::string all;
    for (const std::string &line : lines) {
        EXPECT_LE(line.size(), 80u) << line;
        all += line;
    }
    for (const char *word : {"peak", "total", "freed", "current", "unit", "count", "committed",
                             "reserved", "reset", "threads", "abandoned", "pages", "mmap",
                             "elapsed", "user", "system", "faults", "rss", "peak rss"})
        EXPECT_NE(std::string::npos, all.find(word)) << word;
}

/* ---- One heap ---- */

class HeapStats : public unit::FheapTest {
  protected:
    loam_stats_t of_heap() {
        loam_stats_t stats;
        EXPECT_EQ(0, loam_heap_stats(heap_, &stats, sizeof stats));
        EXPECT_EQ(sizeof stats, stats.bytes);
        return stats;
    }
};

TEST_F(HeapStats, CountsItsOwn) {
    auto others = blocks(100, 200);
    auto taken = take(1000, 200 - LM_TRAILER);
    loam_stats_t stats = of_heap();
    EXPECT_EQ(1000u, of(stats, 200).objects.total);
    EXPECT_EQ(1000u, of(stats, 200).objects.current);
    for (int i = 0; i < 900; i++) loam_free(taken[i]);
    stats = of_heap();
    EXPECT_EQ(1000u, of(stats, 200).objects.total);
    EXPECT_EQ(900u, of(stats, 200).objects.freed);
    for (int i = 900; i < 1000; i++) loam_free(taken[i]);
    loam_heap_collect(heap_); /* its pages go */
    stats = of_heap();
    EXPECT_EQ(1000u, of(stats, 200).objects.total);
    EXPECT_EQ(1000u, of(stats, 200).objects.freed);
    EXPECT_EQ(0u, stats.pages.current);
    EXPECT_EQ(0u, stats.committed.current);
    EXPECT_GT(stats.committed.peak, 0u);
    free_blocks(others);
}

TEST_F(HeapStats, ThreadsAndLargeObjects) {
    for (int i = 0; i < 3; i++) in_thread([&] { unit::free_all(take(500, 32)); });
    void *p = take(1000000), *q = take(300000);
    loam_free(q);
    p = loam_heap_realloc(heap_, p, 2000000);
    loam_stats_t stats = of_heap();
    EXPECT_EQ(1500u, stats.small_objects.total);
    EXPECT_EQ(1500u, stats.small_objects.freed);
    EXPECT_EQ(2u, stats.large_objects.total);
    EXPECT_EQ(1u, stats.large_objects.current);
    EXPECT_NEAR(2000000.0, static_cast<double>(stats.large_bytes.current), 4096);
    loam_free(p);
    stats = of_heap();
    EXPECT_EQ(2u, stats.large_objects.freed);
    EXPECT_EQ(0u, stats.bytes_in_all.current);
}

TEST_F(HeapStats, AnotherHeapInItsPlaceBeginsAtNothing) {
    (void)take(1000, 100);
    (void)take(200000);
    auto before = now();
    end();
    auto after = now();
    /* Nobody looks at what was ready: it counts as allocated, and freed. */
    EXPECT_GE(after->small_objects.total, before->small_objects.total);
    EXPECT_LE(after->small_objects.total, before->small_objects.total + 4096 / 100);
    EXPECT_EQ(1000u, before->small_objects.current - after->small_objects.current);
    EXPECT_EQ(1u, before->large_objects.current - after->large_objects.current);
    heap_ = loam_heap_create();
    ASSERT_NE(nullptr, heap_);
    loam_stats_t stats = of_heap();
    EXPECT_EQ(0u, stats.small_objects.total);
    EXPECT_EQ(0u, stats.large_objects.total);
    EXPECT_EQ(0u, stats.committed.peak);
}

} // namespace

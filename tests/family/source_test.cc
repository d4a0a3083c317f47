// source_test.cc: limit, count, pages and heap as sources: what they promise, one thread at a time.
#include "loam/heap.h"
#include "loam/loam.h"
#include "loam/source.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

extern "C" {
#include "hosted/quarantine.h"
}

namespace {

constexpr size_t kKib = 1024;

bool is_aligned(const void *p, size_t align) { return reinterpret_cast<uintptr_t>(p) % align == 0; }

/* Gives chunks of exactly `fixed` bytes more than asked for, from the heap, and knows how many are
 * out. */
struct Generous {
    loam_source source;
    size_t more, out, puts;
};
void *generous_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    auto *self = reinterpret_cast<Generous *>(source);
    size_t whole = 0;
    void *chunk = loam_source_get(loam_heap_source(), bytes + self->more, align, &whole);
    if (chunk == nullptr) return nullptr;
    self->out++;
    *got = bytes + self->more;
    return chunk;
}
void generous_put(loam_source *source, void *chunk, size_t got) {
    auto *self = reinterpret_cast<Generous *>(source);
    self->out--;
    self->puts++;
    loam_source_put(loam_heap_source(), chunk, got);
}
Generous generous(size_t more) {
    return {{generous_get, generous_put, "generous", LOAM_SOURCE_ZEROED}, more, 0, 0};
}

TEST(Limit, GivesUpToTheByteAndNoMore) {
    Generous inner = generous(0);
    loam_limit limit;
    loam_limit_init(&limit, &inner.source, 1000);
    size_t got = 0;
    void *a = loam_source_get(&limit.source, 600, 16, &got);
    ASSERT_NE(a, nullptr);
    EXPECT_EQ(got, 600u);
    got = 77;
    EXPECT_EQ(loam_source_get(&limit.source, 401, 16, &got), nullptr);
    EXPECT_EQ(got, 77u) << "got is not written by a refusal";
    void *b = loam_source_get(&limit.source, 400, 16, &got);
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(limit.used_bytes, 1000u);
    EXPECT_EQ(loam_source_get(&limit.source, 1, 16, &got), nullptr);
    loam_source_put(&limit.source, a, 600);
    EXPECT_EQ(limit.used_bytes, 400u);
    EXPECT_EQ(loam_source_get(&limit.source, 601, 16, &got), nullptr);
    loam_source_put(&limit.source, b, 400);
    EXPECT_EQ(limit.used_bytes, 0u);
    EXPECT_EQ(inner.out, 0u);
}

TEST(Limit, AChunkThatCameTooLargeGoesBack) {
    Generous inner = generous(100);
    loam_limit limit;
    loam_limit_init(&limit, &inner.source, 1000);
    size_t got = 0;
    EXPECT_EQ(loam_source_get(&limit.source, 901, 16, &got), nullptr);
    EXPECT_EQ(inner.puts, 1u) << "it was got, and put back";
    EXPECT_EQ(inner.out, 0u);
    EXPECT_EQ(limit.used_bytes, 0u);
    void *chunk = loam_source_get(&limit.source, 900, 16, &got);
    ASSERT_NE(chunk, nullptr);
    EXPECT_EQ(got, 1000u);
    EXPECT_EQ(limit.used_bytes, 1000u);
    loam_source_put(&limit.source, chunk, got);
    EXPECT_EQ(limit.used_bytes, 0u);
}

TEST(Limit, HugeAndImpossibleSizes) {
    loam_limit limit;
    size_t got = 0;
    loam_limit_init(&limit, loam_heap_source(), 0);
    EXPECT_EQ(loam_source_get(&limit.source, 1, 16, &got), nullptr);
    loam_limit_init(&limit, loam_heap_source(), SIZE_MAX);
    for (size_t bytes : {SIZE_MAX, SIZE_MAX - 15, static_cast<size_t>(PTRDIFF_MAX) + 1}) {
        EXPECT_EQ(loam_source_get(&limit.source, bytes, 16, &got), nullptr) << bytes;
        EXPECT_EQ(limit.used_bytes, 0u) << bytes;
    }
}

TEST(Limit, PromisesWhatItsInnerOnePromises) {
    loam_limit limit;
    loam_count count;
    loam_limit_init(&limit, loam_pages(), 1);
    EXPECT_EQ(limit.source.flags, loam_pages()->flags);
    EXPECT_STREQ(limit.source.name, "limit");
    loam_count_init(&count, &limit.source);
    EXPECT_EQ(count.source.flags, loam_pages()->flags);
    EXPECT_STREQ(count.source.name, "count");
}

TEST(Count, CountsCallsAndBytes) {
    Generous inner = generous(24);
    loam_limit limit;
    loam_limit_init(&limit, &inner.source, 1000);
    loam_count count;
    loam_count_init(&count, &limit.source);
    size_t got_a = 0, got_b = 0;
    void *a = loam_source_get(&count.source, 476, 16, &got_a);
    void *b = loam_source_get(&count.source, 176, 16, &got_b);
    ASSERT_TRUE(a != nullptr && b != nullptr);
    EXPECT_EQ(got_a, 500u);
    EXPECT_EQ(loam_source_get(&count.source, 976, 16, &got_b), nullptr);
    EXPECT_EQ(count.gets, 2u);
    EXPECT_EQ(count.puts, 0u);
    EXPECT_EQ(count.refusals, 1u);
    EXPECT_EQ(count.used_bytes, 700u);
    loam_source_put(&count.source, a, 500);
    EXPECT_EQ(count.used_bytes, 200u);
    a = loam_source_get(&count.source, 76, 16, &got_a);
    EXPECT_EQ(count.used_bytes, 300u);
    EXPECT_EQ(count.peak_bytes, 700u);
    loam_source_put(&count.source, a, got_a);
    loam_source_put(&count.source, b, 200);
    EXPECT_EQ(count.gets, 3u);
    EXPECT_EQ(count.puts, 3u);
    EXPECT_EQ(count.used_bytes, 0u);
    EXPECT_EQ(count.peak_bytes, 700u);
    EXPECT_EQ(inner.out, 0u);
}

/* ---- pages and heap ---- */

class OfTheHeap : public testing::TestWithParam<int> {
  protected:
    loam_source *source_ = GetParam() == 0 ? loam_pages() : loam_heap_source();
};
INSTANTIATE_TEST_SUITE_P(Each, OfTheHeap, testing::Values(0, 1),
                         [](const auto &info) { return info.param == 0 ? "pages" : "heap"; });

TEST_P(OfTheHeap, EverySizeAtEveryAlignment) {
    struct Chunk {
        unsigned char *at;
        size_t got;
        unsigned char stamp;
    };
    std::vector<Chunk> chunks;
    unsigned char stamp = 0;
    for (size_t align = 1; align <= size_t{1} << 22; align *= 2) {
        for (size_t bytes : {size_t{1}, size_t{100}, 4 * kKib, 4 * kKib + 1, 60 * kKib,
                             64 * kKib - 8, 64 * kKib, 64 * kKib + 1, 200 * kKib}) {
            size_t got = 0;
            void *p = loam_source_get(source_, bytes, align, &got);
            ASSERT_NE(p, nullptr) << bytes << " at " << align;
            EXPECT_TRUE(is_aligned(p, align)) << bytes << " at " << align;
            EXPECT_GE(got, bytes);
            /* All of got may be used: stamps of neighbours would show. */
            memset(p, ++stamp, got);
            chunks.push_back({static_cast<unsigned char *>(p), got, stamp});
        }
    }
    for (const Chunk &c : chunks) {
        size_t wrong = 0;
        for (size_t i = 0; i < c.got; i++) wrong += c.at[i] != c.stamp;
        EXPECT_EQ(wrong, 0u) << c.got;
        loam_source_put(source_, c.at, c.got);
    }
}

TEST_P(OfTheHeap, WhatCannotBeIsRefused) {
    size_t got = 77;
    for (size_t bytes :
         {SIZE_MAX, SIZE_MAX - 4095, static_cast<size_t>(PTRDIFF_MAX) + 1,
          static_cast<size_t>(PTRDIFF_MAX), static_cast<size_t>(PTRDIFF_MAX) - 4095}) {
        for (size_t align : {size_t{1}, size_t{16}, size_t{4096}, size_t{8192}, size_t{1} << 20}) {
            EXPECT_EQ(loam_source_get(source_, bytes, align, &got), nullptr)
                << bytes << " " << align;
        }
    }
    EXPECT_EQ(loam_source_get(source_, 16, size_t{1} << 63, &got), nullptr);
    EXPECT_EQ(got, 77u);
}

TEST_P(OfTheHeap, IsTheSameForEverybodyAndSaysSo) {
    EXPECT_EQ(source_, GetParam() == 0 ? loam_pages() : loam_heap_source());
    EXPECT_STREQ(source_->name, GetParam() == 0 ? "pages" : "heap");
    EXPECT_NE(source_->flags & LOAM_SOURCE_THREADS, 0u);
    EXPECT_EQ((source_->flags & LOAM_SOURCE_ALIGNED) != 0, GetParam() == 0);
}

TEST(Pages, AreWhole) {
    for (size_t bytes = 1; bytes <= 300 * kKib; bytes += 1021) {
        size_t got = 0;
        void *p = loam_source_get(loam_pages(), bytes, 1, &got);
        ASSERT_NE(p, nullptr);
        EXPECT_EQ(got, (bytes + 4095) / 4096 * 4096) << bytes;
        EXPECT_TRUE(is_aligned(p, 4096)) << bytes;
        loam_source_put(loam_pages(), p, got);
    }
}

TEST(Pages, AlignmentsUpTo64KibCostNoMemory) {
    for (size_t align = 8 * kKib; align <= 64 * kKib; align *= 2) {
        for (size_t bytes : {align / 2, align, align + 1, 3 * align}) {
            size_t got = 0;
            void *p = loam_source_get(loam_pages(), bytes, align, &got);
            ASSERT_NE(p, nullptr);
            EXPECT_EQ(got, (bytes + align - 1) / align * align) << bytes << " at " << align;
            loam_source_put(loam_pages(), p, got);
        }
    }
}

TEST(Pages, LargeChunksBeginWhereHugePagesDo) {
    void *chunks[4];
    size_t got[4];
    for (int i = 0; i < 4; i++) {
        chunks[i] = loam_source_get(loam_pages(), size_t{4} << 20, 16, &got[i]);
        ASSERT_NE(chunks[i], nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(chunks[i]) % (size_t{2} << 20), 0u);
    }
    for (int i = 0; i < 4; i++) loam_source_put(loam_pages(), chunks[i], got[i]);
}

TEST(Pages, WhatIsPutBackIsGotAgain) {
    size_t got = 0;
    void *p = loam_source_get(loam_pages(), 4096, 16, &got);
    memset(p, 1, got);
    loam_source_put(loam_pages(), p, got);
    (void)lm_chunks_release(); // where a tool watches
    EXPECT_EQ(loam_source_get(loam_pages(), 4000, 16, &got), p);
    loam_source_put(loam_pages(), p, got);
}

// A tool is shown the memory again before the heap ends.
TEST(Heap, MayEndWhenItsMemoryHasBeenPutBack) {
    for (int i = 0; i < 200; i++) {
        loam_heap *heap = loam_heap_create();
        ASSERT_EQ(loam_heap_set_default(heap, nullptr), 0);
        size_t got = 0;
        void *p = loam_source_get(loam_heap_source(), 4096, 16, &got);
        ASSERT_NE(p, nullptr);
        memset(p, 1, got);
        loam_source_put(loam_heap_source(), p, got);
        ASSERT_EQ(loam_heap_set_default(nullptr, nullptr), 0);
        loam_heap_destroy(heap);
        void *q = loam_malloc(4096);
        memset(q, 2, 4096);
        loam_free(q);
    }
    (void)lm_chunks_release();
}

} // namespace

/* source_test.cc: the sources `limit` and `count` over pages and over the heap, used by many
 * threads at once.
 *
 * A witness between `limit` and the heap keeps the sum of all chunks in use, by atomic additions
 * that are exact at any moment. So it shows even if the limit is exceeded only for a moment. Chunks
 * travel between threads. The witness adds the requested bytes, not the received ones: a chunk that
 * came too large is refused, and counts as in use for that moment.
 */
#include "stress.h"

#include "loam/source.h"

namespace {

using namespace stress;

/* Its chunks are as large as was asked for. */
struct Witness {
    loam_source source;
    size_t most;
    std::atomic<size_t> out;
};

void *witness_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    auto *self = reinterpret_cast<Witness *>(source);
    size_t now = self->out.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (now > self->most) fail("limit exceeded", source);
    size_t whole = 0;
    void *chunk = loam_source_get(loam_heap_source(), bytes, align, &whole);
    if (chunk == nullptr) abort();
    *got = bytes;
    return chunk;
}
void witness_put(loam_source *source, void *chunk, size_t got) {
    auto *self = reinterpret_cast<Witness *>(source);
    loam_source_put(loam_heap_source(), chunk, got);
    self->out.fetch_sub(got, std::memory_order_relaxed);
}

class Sources : public Stress {
  protected:
    /* Each thread gets chunks, stamps them, and swaps them through a shelf; whoever takes one puts
     * it back. Goes on until so many were refused, at least. */
    template <typename Size>
    void run(loam_source *source, Size size, size_t *refused, size_t least_refused = 0) {
        std::atomic<size_t> refusals{0};
        Shelf<64> shelf;
        Clock clock;
        run_threads(4, [&](unsigned thread) {
            Random random(thread + 1);
            while (clock.running(refusals.load(std::memory_order_relaxed), least_refused)) {
                for (int i = 0; i < 100; i++) {
                    size_t bytes = size(random), got = 0;
                    void *p = loam_source_get(source, bytes, 16, &got);
                    if (p == nullptr) refusals.fetch_add(1, std::memory_order_relaxed);
                    Block *mine = p == nullptr ? nullptr : stamp_block(p, got, random.next() | 1);
                    Block *old = shelf.swap(random.below(64), mine);
                    if (old == nullptr) continue;
                    check_block(old);
                    loam_source_put(source, old, old->size);
                }
            }
        });
        shelf.each([&](Block *block) {
            check_block(block);
            loam_source_put(source, block, block->size);
        });
        *refused = refusals;
    }
};

TEST_F(Sources, ALimitIsNeverExceeded) {
    constexpr size_t kMost = 20 * 4096; /* some 64 slots of 4 KiB on average would like to be out */
    Witness witness{{witness_get, witness_put, "witness", LOAM_SOURCE_THREADS}, kMost, {0}};
    loam_limit limit;
    loam_limit_init(&limit, &witness.source, kMost);
    size_t refused = 0;
    run(
        &limit.source, [](Random &r) { return 64 + r.below(8000); }, &refused, 1);
    EXPECT_EQ(limit.used_bytes, 0u);
    EXPECT_EQ(witness.out.load(), 0u);
}

TEST_F(Sources, CountsAddUpOverALimitOverPages) {
    loam_limit limit;
    loam_limit_init(&limit, loam_pages(), 300 * 4096);
    loam_count count;
    loam_count_init(&count, &limit.source);
    size_t refused = 0;
    run(
        &count.source, [](Random &r) { return mixed_size(r); }, &refused, 1);
    EXPECT_EQ(count.gets, count.puts);
    EXPECT_EQ(count.refusals, refused);
    EXPECT_EQ(count.used_bytes, 0u);
    EXPECT_EQ(limit.used_bytes, 0u);
    EXPECT_LE(count.peak_bytes, limit.most_bytes);
    EXPECT_GT(count.peak_bytes, limit.most_bytes / 2);
}

TEST_F(Sources, PagesAndHeapServeAnyThread) {
    size_t refused = 0;
    run(
        loam_pages(), [](Random &r) { return mixed_size(r); }, &refused);
    EXPECT_EQ(refused, 0u);
    run(
        loam_heap_source(), [](Random &r) { return mixed_size(r); }, &refused);
    EXPECT_EQ(refused, 0u);
}

} // namespace

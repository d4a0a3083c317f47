// region_reuse_test.cc: what a region holds where its objects come and go: never much more than
// twice what is live, and a chunk, whatever their sizes and their order; and that chunks of which
// all is free go back.
#include "loam/region.h"

#include "model/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace {

#if LOAM_DEBUG || defined(__SANITIZE_ADDRESS__)
constexpr bool kPlain = false; // freed objects stay to be looked at, or have redzones
#else
constexpr bool kPlain = true;
#endif
#define SKIP_UNLESS_PLAIN() \
    if (!kPlain) GTEST_SKIP() << "checked and watched objects take more, and are not reused"

// Pages, and the largest chunk that was taken of them.
struct Chunks {
    static void *get(loam_source *source, size_t bytes, size_t align, size_t *got) {
        auto chunks = reinterpret_cast<Chunks *>(source);
        void *chunk = loam_source_get(loam_pages(), bytes, align, got);
        if (chunk == nullptr) return nullptr;
        chunks->largest = std::max(chunks->largest, *got);
        chunks->held += *got;
        return chunk;
    }
    static void put(loam_source *source, void *chunk, size_t got) {
        reinterpret_cast<Chunks *>(source)->held -= got;
        loam_source_put(loam_pages(), chunk, got);
    }
    loam_source source{get, put, "chunks", LOAM_SOURCE_ALIGNED};
    size_t largest = 0, held = 0;
};

struct Object {
    void *p;
    size_t bytes;
};
size_t rounded(size_t bytes) { return (bytes + 15) & ~size_t{15}; }

enum Order { kRandom, kOldestFirst, kNewestFirst, kTemporaries, kOrders };
const char *const order_names[] = {"random", "oldest first", "newest first", "temporaries"};

// One mix of sizes: a few sizes, or all below a limit evenly, by logarithm, or mostly small ones.
class Sizes {
  public:
    Sizes(model::Choices &random) : random_(random), kind_(random.below(4)) {
        limit_ = size_t{32} << random.below(8);
        for (size_t &one : few_) one = 1 + random.below(limit_);
    }
    size_t next() {
        switch (kind_) {
        case 0: return 1 + random_.below(limit_);
        case 1: return few_[random_.below(4)];
        case 2: return random_.below(10) != 0 ? 1 + random_.below(64) : 1 + random_.below(limit_);
        default: return size_t{1} << random_.below(12);
        }
    }

  private:
    model::Choices &random_;
    size_t kind_, limit_, few_[4];
};

// A region with so many objects at a time, for a while.
class Mix {
  public:
    Mix(size_t seed, Order order, loam_region_options options = {})
        : random_(seed), sizes_(random_), order_(order), count_(200 + random_.below(3000)),
          region_(loam_region_create(&chunks.source, &options)) {}
    ~Mix() { loam_region_destroy(region_); }

    // The most that was held beyond twice the peak of what was live, and a chunk; as a part of
    // that.
    double run() {
        double most = 0;
        for (size_t i = 0; i < 6 * count_; i++) {
            add();
            while (objects_.size() > count_) drop();
            if (order_ == kTemporaries && objects_.size() > 1 && random_.below(4) != 0) {
                std::swap(objects_[objects_.size() - 2], objects_.back()); // the one before goes
                drop_at(objects_.size() - 1);
            }
            double bound = 2 * static_cast<double>(peak) + static_cast<double>(chunks.largest);
            most = std::max(most, static_cast<double>(chunks.held) / bound);
        }
        EXPECT_TRUE(loam_region_check(region_));
        return most;
    }
    void drop_all() {
        while (!objects_.empty()) drop_at(random_.below(objects_.size()));
    }
    Chunks chunks;
    size_t live = 0, peak = 0;

  private:
    void add() {
        size_t bytes = sizes_.next();
        void *p = loam_region_alloc(region_, bytes);
        ASSERT_NE(p, nullptr);
        memset(p, 1, bytes);
        objects_.push_back({p, bytes});
        live += rounded(bytes);
        peak = std::max(peak, live);
    }
    void drop() {
        size_t count = objects_.size();
        if (order_ == kOldestFirst)
            drop_at(oldest_++ % count);
        else if (order_ == kNewestFirst)
            drop_at(count - 1 - random_.below(std::min<size_t>(count, 8)));
        else
            drop_at(random_.below(count));
    }
    void drop_at(size_t i) {
        loam_region_free(region_, objects_[i].p, objects_[i].bytes);
        live -= rounded(objects_[i].bytes);
        objects_[i] = objects_.back();
        objects_.pop_back();
    }

    model::Choices random_;
    Sizes sizes_;
    Order order_;
    size_t count_, oldest_ = 0;
    loam_region *region_;
    std::vector<Object> objects_;
};

loam_region_options options_of(size_t seed) {
    loam_region_options options = {};
    if (seed % 4 == 1) options.first_bytes = 1024, options.most_bytes = 64 * 1024;
    if (seed % 4 == 2) options.first_bytes = 64 * 1024;
    if (seed % 4 == 3) options.most_bytes = 256 * 1024;
    return options;
}

// Of some thousand mixes one in a hundred is above; none of these is, and none may be much.
TEST(RegionReuse, RandomMixesHoldTwiceWhatIsLiveAndAChunk) {
    SKIP_UNLESS_PLAIN();
    size_t mixes = 0, above = 0;
    for (int order = 0; order < kOrders; order++) {
        for (size_t seed = 1; seed <= 40; seed++, mixes++) {
            Mix mix(seed * 977 + static_cast<size_t>(order), static_cast<Order>(order),
                    options_of(seed));
            double most = mix.run();
            above += most > 1;
            EXPECT_LT(most, 1.25) << order_names[order] << ", seed " << seed;
        }
    }
    EXPECT_LE(above, mixes / 50);
}

// Case 28 of the reports: small objects that stay, between larger ones that go at once.
TEST(RegionReuse, SmallObjectsFillWhatTemporariesLeft) {
    SKIP_UNLESS_PLAIN();
    for (size_t temporary : {size_t{80}, size_t{100}, size_t{1000}, size_t{4000}, size_t{30000}}) {
        for (size_t kept :
             {size_t{1}, size_t{16}, size_t{48}, size_t{63}, size_t{100}, size_t{900}}) {
            for (size_t count : {size_t{1000}, size_t{20000}}) {
                Chunks chunks;
                loam_region *region = loam_region_create(&chunks.source, nullptr);
                size_t live = 0;
                for (size_t i = 0; i < count; i++) {
                    void *gone = loam_region_alloc(region, temporary);
                    void *stays = loam_region_alloc(region, kept);
                    ASSERT_TRUE(gone != nullptr && stays != nullptr);
                    memset(stays, 2, kept);
                    loam_region_free(region, gone, temporary);
                    live += rounded(kept);
                }
                EXPECT_LE(chunks.held, 2 * (live + rounded(temporary)) + chunks.largest)
                    << temporary << ", " << kept << ", " << count;
                EXPECT_TRUE(loam_region_check(region));
                loam_region_destroy(region);
            }
        }
    }
}

// TfwPool's own mode has the same page size throughout, and no object reaches beyond one.
TEST(RegionReuse, PagesOfOneSizeAreReusedAsWell) {
    SKIP_UNLESS_PLAIN();
    loam_region_options options = LOAM_REGION_TFW;
    for (size_t bytes : {size_t{16}, size_t{48}, size_t{100}, size_t{500}, size_t{1000}}) {
        Chunks chunks;
        loam_region *region = loam_region_create(&chunks.source, &options);
        std::vector<void *> objects(5000);
        for (void *&p : objects) p = loam_region_alloc(region, bytes);
        size_t held = chunks.held;
        for (int round = 0; round < 8; round++) { // every second goes, and comes back
            for (size_t i = round % 2; i < objects.size(); i += 2)
                loam_region_free(region, objects[i], bytes);
            for (size_t i = round % 2; i < objects.size(); i += 2)
                objects[i] = loam_region_alloc(region, bytes);
        }
        EXPECT_LE(chunks.held, held + 2 * 4096) << bytes;
        EXPECT_TRUE(loam_region_check(region));
        loam_region_destroy(region);
    }
}

TEST(RegionReuse, ChunksGoBackWhenTheirObjectsAreFreed) {
    SKIP_UNLESS_PLAIN();
    for (size_t seed = 1; seed <= 24; seed++) {
        Mix mix(seed, static_cast<Order>(seed % kOrders), options_of(seed));
        mix.run();
        mix.drop_all();
        /* What remains: the chunk of the region itself, that of the lists, the current one, a
         * spare. */
        EXPECT_LE(mix.chunks.held, 4 * mix.chunks.largest) << seed;
    }
}

TEST(RegionReuse, TrimGivesBackWhatIsFreeBetweenObjects) {
    SKIP_UNLESS_PLAIN();
    loam_region_options options = LOAM_REGION_TFW;
    Chunks chunks;
    loam_region *region = loam_region_create(&chunks.source, &options);
    std::vector<void *> objects(1000);
    for (void *&p : objects) p = loam_region_alloc(region, 500);
    size_t held = chunks.held;
    for (size_t i = 100; i < 400; i++) loam_region_free(region, objects[i], 500); // not half of all
    EXPECT_EQ(chunks.held, held);
    size_t gone = loam_region_trim(region);
    EXPECT_EQ(chunks.held, held - gone);
    EXPECT_GE(gone, size_t{4096} * 35);
    EXPECT_TRUE(loam_region_check(region));
    loam_usage usage;
    loam_region_usage(region, &usage);
    EXPECT_LT(usage.used_bytes, 700 * 512 + 4096u);
    loam_region_destroy(region);
}

// What large objects hold says nothing of how large a chunk is to be.
TEST(RegionReuse, LargeObjectsMakeNoLargeChunks) {
    SKIP_UNLESS_PLAIN();
    Chunks chunks;
    loam_region *region = loam_region_create(&chunks.source, nullptr);
    size_t large = 0;
    for (int i = 0; i < 40; i++) {
        ASSERT_NE(loam_region_alloc(region, 1 << 20), nullptr);
        large += 1 << 20;
    }
    for (int i = 0; i < 400; i++) {
        void *gone = loam_region_alloc(region, 500);
        ASSERT_NE(loam_region_alloc(region, 100), nullptr);
        loam_region_free(region, gone, 500);
    }
    EXPECT_LE(chunks.held, large + large / 50 + 400 * 1024);
    loam_region_destroy(region);
}

// The rest of a chunk became a freed extent, which an object took. Then the chunk became current
// again, and its source could go on behind it.
TEST(RegionReuse, TheLastObjectDoesNotGrowIntoATailThatWasGivenAway) {
    alignas(16) char memory[16384];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof memory);
    loam_region_options options = {};
    options.first_bytes = options.most_bytes = 2048; // a larger chunk has room for one object only
    loam_region *region = loam_region_create(&buffer.source, &options);
    if (region->mode != 0) {
        loam_region_destroy(region);
        GTEST_SKIP() << "checked and watched regions hide their room";
    }
    void *freed = loam_region_alloc(region, 64);
    ASSERT_NE(loam_region_alloc(region, 16), nullptr);
    loam_region_free(region, freed, 64);
    auto last = static_cast<char *>(loam_region_alloc(region, 64));
    auto tail = static_cast<size_t>(region->room.end - region->room.at);
    size_t got;
    void *neighbour = loam_source_get(&buffer.source, 64, 16, &got);
    void *next = loam_region_alloc(region, 4000);
    auto in_tail = static_cast<char *>(loam_region_alloc(region, tail));
    ASSERT_EQ(in_tail, last + 64);
    memset(in_tail, 1, tail);
    loam_region_free(region, next, 4000);
    loam_region_trim(region);
    loam_source_put(&buffer.source, neighbour, got);
    EXPECT_TRUE(loam_region_check(region));

    EXPECT_FALSE(loam_region_extend(region, last, 64, 256));
    auto moved = static_cast<char *>(loam_region_realloc(region, last, 64, 256));
    memset(moved, 2, 256);
    for (size_t i = 0; i < tail; i++) ASSERT_EQ(in_tail[i], 1) << i;
    EXPECT_TRUE(loam_region_check(region));
    loam_region_destroy(region);
    EXPECT_EQ(buffer.out, 0u);
}

TEST(RegionReuse, AMarkSetsAsideWhatWasFreeAndRewindingBringsItBack) {
    SKIP_UNLESS_PLAIN();
    Chunks chunks;
    loam_region *region = loam_region_create(&chunks.source, nullptr);
    std::vector<void *> objects(300);
    for (void *&p : objects) p = loam_region_alloc(region, 48);
    for (size_t i = 0; i < objects.size(); i += 2) loam_region_free(region, objects[i], 48);
    size_t held = 0;
    for (int round = 0; round < 50; round++) {
        loam_region_mark mark = loam_region_mark_here(region);
        std::vector<void *> newer;
        for (int i = 0; i < 200; i++) newer.push_back(loam_region_alloc(region, 40));
        for (int i = 0; i < 200; i += 3) loam_region_free(region, newer[i], 40);
        for (int i = 0; i < 100; i++) newer.push_back(loam_region_alloc(region, 16));
        EXPECT_TRUE(loam_region_check(region));
        loam_region_rewind(region, &mark);
        EXPECT_TRUE(loam_region_check(region));
        if (round == 1) held = chunks.held;
    }
    EXPECT_EQ(chunks.held, held) << "a round leaves nothing behind";
    for (size_t i = 0; i < objects.size(); i += 2) objects[i] = loam_region_alloc(region, 48);
    EXPECT_EQ(chunks.held, held) << "what was free before is free again";
    loam_region_destroy(region);
}

TEST(RegionReuse, WhatWasFreedBehindAMarkThatIsKeptServesAgain) {
    SKIP_UNLESS_PLAIN();
    Chunks chunks;
    loam_region *region = loam_region_create(&chunks.source, nullptr);
    for (int round = 0; round < 200; round++) {
        loam_region_mark mark = loam_region_mark_here(region);
        void *a = loam_region_alloc(region, 300), *b = loam_region_alloc(region, 200);
        void *c = loam_region_alloc(region, 100);
        loam_region_free(region, a, 300);
        loam_region_free(region, c, 100);
        loam_region_keep(region, &mark);
        loam_region_free(region, b, 200);
        ASSERT_TRUE(loam_region_check(region));
    }
    EXPECT_LE(chunks.held, 256u * 1024);
    loam_region_destroy(region);
}

} // namespace

// blocks_class_test.cc: what classes of blocks promise: objects of any alignment for what they
// take, blocks of whole KiB apart from each other, blocks of eight bytes, exact counts; memory that
// is enough for fixed instances of all shapes; and sources that are too small for a slab or a page.
#include "bytes.h"
#include "family/blocks.h"
#include "loam/fifo.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <set>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

using namespace blocks_tests;

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool watched = true;
#else
constexpr bool watched = false;
#endif

// ---- Alignment ----

// 128 KiB an object once, from an alignment of 256 on.
TEST(BlocksAligned, AnObjectTakesAboutItsSize) {
    if (checked) GTEST_SKIP() << "checked objects of a high alignment are large ones";
    for (unsigned flags : {0u, unsigned{LOAM_THREADS}}) {
        for (size_t align = 32; align <= 4096; align *= 2) {
            for (size_t bytes : {align / 2, align, 3 * align}) {
                Blocks blocks(with_flags(flags));
                std::vector<void *> held;
                for (int i = 0; i < 500; i++) {
                    held.push_back(loam_blocks_alloc_aligned(blocks, bytes, align));
                    ASSERT_TRUE(held.back() != nullptr && aligned(held.back(), align));
                    memset(held.back(), i, bytes);
                }
                size_t each = blocks.usage().held_bytes / 500;
                size_t bound = 2 * std::max(bytes + (watched ? 16 : 0), align) + 256;
                EXPECT_LE(each, bound + bound / 4) << bytes << " at " << align; // slabs' heads
                for (int i = 0; i < 500; i++) {
                    auto p = static_cast<unsigned char *>(held[i]);
                    ASSERT_EQ(bytes, first_other(p, bytes, static_cast<unsigned char>(i)));
                    loam_blocks_free(blocks, p);
                }
                EXPECT_TRUE(loam_blocks_check(blocks));
                EXPECT_EQ(blocks.usage().objects, 0u);
            }
        }
    }
}

TEST(BlocksAligned, FreedOnesServeAgainAndTrimGivesThemBack) {
    if (checked) GTEST_SKIP() << "checked objects of a high alignment are large ones";
    for (unsigned flags : {0u, unsigned{LOAM_THREADS}}) {
        Blocks blocks(with_flags(flags));
        size_t held = 0;
        for (int round = 0; round < 20; round++) {
            std::vector<void *> objects;
            for (int i = 0; i < 300; i++)
                objects.push_back(loam_blocks_alloc_aligned(blocks, 700, 512));
            for (void *p : objects) ASSERT_TRUE(aligned(p, 512));
            for (void *p : objects) loam_blocks_free(blocks, p);
            if (round == 0) held = blocks.usage().held_bytes;
        }
        EXPECT_EQ(blocks.usage().held_bytes, held);
        EXPECT_GT(loam_blocks_trim(blocks), size_t{300} * 1024 / 2);
    }
}

TEST(BlocksAligned, OrdinaryAndAlignedObjectsMix) {
    Blocks blocks;
    std::map<void *, std::pair<size_t, unsigned char>> objects;
    unsigned random = 3;
    auto next = [&random](unsigned most) {
        random = random * 1664525 + 1013904223;
        return (random >> 8) % most;
    };
    for (int i = 0; i < 4000; i++) {
        if (objects.size() < 300 || next(2) == 0) {
            size_t align = size_t{1} << next(14), bytes = next(6000);
            void *p = loam_blocks_alloc_aligned(blocks, bytes, align);
            ASSERT_TRUE(p != nullptr && aligned(p, align)) << bytes << " at " << align;
            memset(p, i, bytes);
            ASSERT_TRUE(objects.insert({p, {bytes, static_cast<unsigned char>(i)}}).second);
        } else {
            auto it = std::next(objects.begin(), next(static_cast<unsigned>(objects.size())));
            auto p = static_cast<unsigned char *>(it->first);
            auto [bytes, value] = it->second;
            ASSERT_EQ(bytes, first_other(p, bytes, value));
            loam_blocks_free(blocks, p);
            objects.erase(it);
        }
        if (i % 500 == 0) {
            ASSERT_TRUE(loam_blocks_check(blocks));
        }
    }
    for (auto &object : objects) loam_blocks_free(blocks, object.first);
    EXPECT_EQ(blocks.usage().objects, 0u);
}

TEST(BlocksAligned, TheirClassesAreToldBehindTheOthers) {
    if (checked) GTEST_SKIP() << "checked objects of a high alignment are large ones";
    Blocks blocks;
    loam_blocks_class_info of;
    unsigned count = 0;
    while (loam_blocks_class_usage(blocks, count, &of) == 0) count++;
    EXPECT_EQ(count, 11u);
    void *p = loam_blocks_alloc_aligned(blocks, 100, 1024);
    ASSERT_EQ(loam_blocks_class_usage(blocks, count, &of), 0);
    EXPECT_EQ(of.block_bytes, 1024u);
    EXPECT_EQ(of.blocks_in_use, 1u);
    EXPECT_EQ(loam_blocks_class_usage(blocks, count + 1, &of), -EINVAL);
    loam_blocks_free(blocks, p);
}

// ---- Sets of the caches ----

// The first lines of so many blocks, by the sets of a cache of 64 sets: none may have much more
// than its share.
TEST(BlocksApart, FirstWordsSpreadOverTheSetsOfACache) {
    if (checked || watched) GTEST_SKIP() << "tags and redzones spread them";
    for (size_t bytes : {size_t{2000}, size_t{2048}, size_t{4000}, size_t{4096}}) {
        Blocks blocks;
        const size_t count = 512;
        std::map<uintptr_t, size_t> sets;
        std::vector<void *> held;
        for (size_t i = 0; i < count; i++) {
            held.push_back(loam_blocks_alloc(blocks, bytes));
            sets[reinterpret_cast<uintptr_t>(held.back()) / 64 % 64]++;
        }
        size_t most = 0;
        for (auto &set : sets) most = std::max(most, set.second);
        EXPECT_LE(most, 2 * count / 64) << bytes;
        EXPECT_GT(sets.size(), 60u) << bytes;
        for (void *p : held) loam_blocks_free(blocks, p);
    }
}

TEST(BlocksApart, AreNoLargerForIt) {
    const uint32_t classes[] = {2048, 4096, 32768};
    loam_blocks_options options{};
    options.classes = classes;
    options.class_count = 3;
    Blocks blocks(options);
    for (uint32_t bytes : classes) {
        void *p = loam_blocks_alloc(blocks, bytes - (checked ? 1000 : 0));
        if (!checked && !watched) {
            EXPECT_EQ(loam_blocks_usable_size(blocks, p), bytes);
        }
        loam_blocks_free(blocks, p);
    }
}

// ---- Fixed instances ----

// Of many lists of classes, counts and options: the memory that loam says is enough is enough, for
// a static pool and for a heap pool, and then every class has all its blocks.
TEST(BlocksFixed, FixedInstancesOfAllShapesHaveRoomForTheirBlocks) {
    uint64_t state = 1;
    auto below = [&](uint64_t n) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return static_cast<uint32_t>((state >> 33) % n);
    };
    for (int round = 0; round < 20000; round++) {
        std::vector<uint32_t> classes, most;
        uint32_t bytes = 0, step = 1 + below(round % 3 == 0 ? 12 : 300);
        for (uint32_t count = 1 + below(6); count > 0; count--)
            classes.push_back(bytes += 1 + below(step));
        for (size_t i = 0; i < classes.size(); i++) most.push_back(below(round % 2 == 0 ? 3 : 40));
        loam_blocks_options options{};
        options.classes = classes.data();
        options.class_count = static_cast<unsigned>(classes.size());
        options.flags = (below(2) != 0 ? unsigned{LOAM_CHECK} : 0u) |
                        (below(4) == 0 ? unsigned{LOAM_THREADS} : 0u);
        bool each = below(2) == 0;
        if (each)
            options.blocks_each = 1 + below(40);
        else
            options.max_blocks = most.data();
        // The blocks that each class has after rounding.
        std::map<uint32_t, size_t> blocks_of;
        for (size_t i = 0; i < classes.size(); i++) {
            bool eight = classes[i] <= 8 && (options.flags & LOAM_THREADS) == 0;
            size_t &blocks = blocks_of[eight ? 8 : (classes[i] + 15) / 16 * 16];
            blocks = each ? options.blocks_each : blocks + most[i];
        }
        bool valid = true;
        for (auto [size, blocks] : blocks_of) valid = valid && blocks != 0;
        size_t said = loam_blocks_pool_bytes(&options);
        ASSERT_EQ(said != 0, valid) << round;
        std::vector<char> memory(said + 16, 'x');
        unsigned kind = below(3);
        unsigned more = 0;
        if (kind == 0) {
            options.flags |= LOAM_FIXED;
        } else {
            options.memory = memory.data() + below(16);
            options.memory_bytes = said;
            // A file with LOAM_CHECKED sets up what another one has measured.
            if (kind == 2) more = LOAM_CHECK;
        }
        loam_blocks blocks;
        ASSERT_EQ(loam_blocks_init_flags(&blocks, &options, more), valid ? 0 : -EINVAL) << round;
        if (!valid) continue;
        for (auto [size, count] : blocks_of) {
            for (size_t i = 0; i < count; i++) {
                char *p = static_cast<char *>(loam_blocks_alloc(&blocks, size));
                ASSERT_NE(p, nullptr) << round << ": " << size;
                memset(p, 1, size);
            }
            ASSERT_EQ(loam_blocks_alloc(&blocks, size), nullptr) << round << ": " << size;
        }
        ASSERT_TRUE(loam_blocks_check(&blocks)) << round;
        loam_blocks_reset(&blocks);
        loam_blocks_deinit(&blocks);
    }
}

// Two classes that rounding makes one have blocks_each blocks together.
TEST(BlocksFixed, AHeapPoolOfMergedClassesFitsItsMemory) {
    const uint32_t classes[] = {10, 16, 224};
    loam_blocks_options options{};
    options.classes = classes;
    options.class_count = 3;
    options.blocks_each = 1;
    options.flags = LOAM_FIXED;
    Blocks blocks(options);
    void *small = loam_blocks_alloc(blocks, 16), *large = loam_blocks_alloc(blocks, 224);
    EXPECT_TRUE(small != nullptr && large != nullptr);
    EXPECT_EQ(loam_blocks_alloc(blocks, 10), nullptr);
    loam_blocks_free(blocks, small);
    loam_blocks_free(blocks, large);
}

TEST(BlocksFixed, AClassWithoutBlocksIsRefusedInOneWay) {
    const uint32_t classes[] = {16, 48}, most[] = {1, 0};
    static char memory[4096];
    loam_blocks_options options{};
    options.classes = classes;
    options.class_count = 2;
    options.max_blocks = most;
    EXPECT_EQ(loam_blocks_pool_bytes(&options), 0u);
    loam_blocks blocks;
    for (unsigned flags : {0u, unsigned{LOAM_FIXED}}) {
        options.flags = flags;
        options.memory = flags == 0 ? memory : nullptr;
        options.memory_bytes = flags == 0 ? sizeof memory : 0;
        EXPECT_EQ(loam_blocks_init(&blocks, &options), -EINVAL) << flags;
    }
}

// ---- Blocks of eight bytes ----

TEST(BlocksOfEight, TakeEight) {
    const uint32_t classes[] = {8, 16, 24, 100};
    for (bool fixed : {false, true}) {
        loam_blocks_options options{};
        options.classes = classes;
        options.class_count = 4;
        std::vector<char> memory;
        if (fixed) {
            options.blocks_each = 1001;
            memory.resize(loam_blocks_pool_bytes(&options));
            options.memory = memory.data();
            options.memory_bytes = memory.size();
        }
        Blocks blocks(options);
        std::set<char *> small;
        for (int i = 0; i < 1000; i++) {
            auto p = static_cast<char *>(loam_blocks_alloc(blocks, 1 + i % 8));
            ASSERT_TRUE(p != nullptr && aligned(p, 8));
            memset(p, 7, static_cast<size_t>(1 + i % 8));
            small.insert(p);
            ASSERT_TRUE(aligned(loam_blocks_alloc(blocks, 9 + i % 90), 16));
            void *exact = loam_blocks_alloc_aligned(blocks, 8, 16);
            ASSERT_TRUE(aligned(exact, 16));
            loam_blocks_free(blocks, exact);
        }
        loam_blocks_class_info of;
        ASSERT_EQ(loam_blocks_class_usage(blocks, 0, &of), 0);
        EXPECT_EQ(of.block_bytes, 8u);
        if (!watched && (fixed || !checked)) {
            EXPECT_EQ(of.blocks_in_use, 1000u);
        }
        if (!watched && !checked) { /* guards lie between them */
            size_t close = 0;
            for (char *p : small) close += small.count(p + 8);
            EXPECT_GT(close, 900u);
        }
        EXPECT_TRUE(loam_blocks_check(blocks));
        for (char *p : small) loam_blocks_free(blocks, p);
        EXPECT_TRUE(loam_blocks_check(blocks));
    }
}

TEST(BlocksOfEight, AreOfSixteenWhereThreadsHaveCaches) {
    const uint32_t classes[] = {8, 64};
    loam_blocks_options options = with_flags(LOAM_THREADS);
    options.classes = classes;
    options.class_count = 2;
    Blocks blocks(options);
    std::vector<void *> held;
    for (int i = 0; i < 2000; i++) {
        held.push_back(loam_blocks_alloc(blocks, 8));
        ASSERT_TRUE(aligned(held.back(), 16));
    }
    std::thread([&] {
        for (void *p : held) loam_blocks_free(blocks, p);
    }).join();
    EXPECT_EQ(blocks.usage().objects, 0u);
}

// ---- Counts ----

// 10001 blocks of 128 bytes, of which one stays, is what xalloc_stats says of the seed's benchmark.
TEST(BlocksCounted, SayHowManyBlocksThereEverWere) {
    loam_blocks_options options{};
    options.counted = true;
    Blocks blocks(options);
    for (size_t bytes : {size_t{8}, size_t{100}, size_t{128}, size_t{1000}, size_t{4000}}) {
        std::vector<void *> held;
        for (size_t i = 0; i < 1001; i++) held.push_back(loam_blocks_alloc(blocks, bytes));
        for (size_t i = 1; i < held.size(); i++) loam_blocks_free(blocks, held[i]);
        for (size_t i = 1; i < held.size(); i++) held[i] = loam_blocks_alloc(blocks, bytes);
        for (void *p : held) loam_blocks_free(blocks, p);
    }
    loam_blocks_class_info of;
    size_t exact = 0, others = 0;
    for (unsigned i = 0; loam_blocks_class_usage(blocks, i, &of) == 0; i++) {
        exact += of.block_count == 1001;
        others += of.block_count != 0 && of.block_count % 1001 != 0;
    }
    EXPECT_EQ(others, 0u);
    if (!checked && !watched) {
        EXPECT_EQ(exact, 4u); // 100 and 128 are one class
    }
}

// ---- Sources that are too small ----

TEST(TooSmall, BlocksWithoutASlabAreRefused) {
    std::vector<char> memory(200000);
    for (size_t bytes : {size_t{100}, size_t{10000}, size_t{65536}}) {
        loam_buffer buffer;
        loam_buffer_init(&buffer, memory.data(), bytes);
        loam_blocks_options options{};
        options.source = &buffer.source;
        loam_blocks blocks;
        EXPECT_EQ(loam_blocks_init(&blocks, &options), -ENOMEM) << bytes;
        EXPECT_EQ(buffer.out, 0u);
        loam_limit limit;
        loam_limit_init(&limit, loam_pages(), bytes - 1);
        options.source = &limit.source;
        EXPECT_EQ(loam_blocks_init(&blocks, &options), -ENOMEM) << bytes;
        EXPECT_EQ(limit.used_bytes, 0u);
        loam_count count;
        loam_count_init(&count, &limit.source);
        options.source = &count.source;
        EXPECT_EQ(loam_blocks_init(&blocks, &options), -ENOMEM) << bytes;
    }
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory.data(), memory.size());
    loam_blocks_options options{};
    options.source = &buffer.source;
    loam_blocks blocks;
    ASSERT_EQ(loam_blocks_init(&blocks, &options), 0);
    EXPECT_NE(loam_blocks_alloc(&blocks, 100), nullptr);
    loam_blocks_deinit(&blocks);
    memset(memory.data(), 0, memory.size());
}

TEST(TooSmall, FifosWithoutAPageAreRefused) {
    std::vector<char> memory(200000);
    for (size_t page : {size_t{512}, size_t{4096}, size_t{65536}}) {
        loam_fifo_options options{};
        options.page_bytes = page;
        loam_fifo fifo;
        for (size_t bytes = page / 2; bytes <= 3 * page; bytes += page / 2) {
            loam_buffer buffer;
            loam_buffer_init(&buffer, memory.data() + 16, bytes);
            int result = loam_fifo_init(&fifo, &buffer.source, &options);
            if (bytes < page) {
                EXPECT_EQ(result, -ENOMEM);
            }
            if (bytes >= 2 * page) {
                EXPECT_EQ(result, 0);
            }
            if (result == 0) {
                EXPECT_NE(loam_fifo_alloc(&fifo, 8), nullptr) << "it said that it would serve";
                loam_fifo_deinit(&fifo);
            }
            EXPECT_EQ(buffer.out, 0u);
            EXPECT_EQ(loam_fifo_create(&buffer.source, &options) != nullptr && bytes < page, false);
        }
    }
    memset(memory.data(), 0, memory.size());
}

TEST(TooSmall, AReserveIsTried) {
    loam_reserve reserve;
    ASSERT_EQ(loam_reserve_init(&reserve, 65536), 0);
    loam_blocks_options options{};
    options.source = &reserve.source;
    loam_blocks blocks;
    EXPECT_EQ(loam_blocks_init(&blocks, &options), -ENOMEM) << "the tables leave no whole slab";
    EXPECT_EQ(reserve.out, 0u);
    loam_reserve_deinit(&reserve);
}

// ---- A forked child ----

// Another thread has blocks ready. The child lacks that thread: the blocks are lost to it, and all
// else is as it was.
TEST(BlocksForked, WhatOtherThreadsHadReadyIsLost) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer does not follow a fork of many threads";
#endif
    Blocks blocks(with_flags(LOAM_THREADS));
    std::atomic<int> step{0};
    std::set<void *> theirs;
    std::thread other([&] {
        std::vector<void *> held;
        for (int i = 0; i < 20; i++) held.push_back(loam_blocks_alloc(blocks, 100));
        for (void *p : held) theirs.insert(p);
        for (void *p : held) loam_blocks_free(blocks, p);
        step = 1;
        while (step != 2) std::this_thread::yield();
    });
    while (step != 1) std::this_thread::yield();
    pid_t child = fork();
    if (child == 0) {
        bool good = blocks.usage().objects <= 2 * 64 || checked || watched;
        for (int i = 0; i < 1000; i++) {
            void *p = loam_blocks_alloc(blocks, 100);
            good = good && p != nullptr && (checked || watched || theirs.count(p) == 0);
        }
        good = good && loam_blocks_check(blocks);
        _exit(good ? 0 : 1);
    }
    step = 2;
    other.join();
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

} // namespace

// blocks_test.cc: loam/blocks.h: sizes, alignment, the three modes, realloc, trim, statistics.
#include "bytes.h"
#include "family/blocks.h"

#include <algorithm>
#include <memory>
#include <random>

using namespace blocks_tests;

namespace {

class Modes : public testing::TestWithParam<unsigned> {};

} // namespace

TEST_P(Modes, EverySizeIsAlignedAndKeepsItsBytes) {
    Blocks blocks(with_flags(GetParam()));
    std::vector<std::pair<unsigned char *, size_t>> held;
    for (size_t bytes = 0; bytes < 5000; bytes += bytes < 300 ? 1 : 37) {
        auto p = static_cast<unsigned char *>(loam_blocks_alloc(blocks, bytes));
        ASSERT_NE(p, nullptr);
        ASSERT_TRUE(aligned(p, 16)) << bytes;
        ASSERT_GE(loam_blocks_usable_size(blocks, p), bytes);
        memset(p, static_cast<int>(bytes % 251), bytes);
        held.push_back({p, bytes});
    }
    EXPECT_EQ(blocks.usage().objects, held.size());
    EXPECT_TRUE(loam_blocks_check(blocks));
    for (auto [p, bytes] : held) {
        for (size_t i = 0; i < bytes; i++) ASSERT_EQ(p[i], bytes % 251);
        loam_blocks_free(blocks, p);
    }
    EXPECT_EQ(blocks.usage().objects, 0u);
}

TEST_P(Modes, HugeSizesAndOverflowAreNull) {
    Blocks blocks(with_flags(GetParam()));
    for (size_t bytes : {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2 + 1, size_t{PTRDIFF_MAX}}) {
        EXPECT_EQ(loam_blocks_alloc(blocks, bytes), nullptr);
        EXPECT_EQ(loam_blocks_alloc_aligned(blocks, bytes, 256), nullptr);
        void *p = loam_blocks_alloc(blocks, 10);
        EXPECT_EQ(loam_blocks_realloc(blocks, p, bytes), nullptr);
        loam_blocks_free(blocks, p);
    }
    EXPECT_EQ(loam_blocks_calloc(blocks, SIZE_MAX / 2, 3), nullptr);
    EXPECT_EQ(loam_blocks_alloc_aligned(blocks, 10, 0), nullptr);
    EXPECT_EQ(loam_blocks_alloc_aligned(blocks, 10, 24), nullptr);
    EXPECT_EQ(loam_blocks_alloc_aligned(blocks, 10, 128 * 1024), nullptr);
    loam_blocks_free(blocks, nullptr);
    EXPECT_EQ(loam_blocks_usable_size(blocks, nullptr), 0u);
}

TEST_P(Modes, EveryAlignment) {
    Blocks blocks(with_flags(GetParam()));
    for (size_t align = 1; align <= 65536; align *= 2) {
        for (size_t bytes : {0u, 1u, 100u, 396u, 5000u, 100000u}) {
            void *p = loam_blocks_alloc_aligned(blocks, bytes, align);
            ASSERT_NE(p, nullptr);
            ASSERT_TRUE(aligned(p, align)) << align << ", " << bytes;
            memset(p, 1, bytes);
            ASSERT_GE(loam_blocks_usable_size(blocks, p), bytes);
            loam_blocks_free(blocks, p);
        }
    }
    EXPECT_EQ(blocks.usage().objects, 0u);
}

TEST_P(Modes, CallocIsZeroAlsoOnRecycledBlocks) {
    Blocks blocks(with_flags(GetParam()));
    for (size_t bytes : {1u, 64u, 1000u, 4096u, 50000u}) {
        void *dirty = loam_blocks_alloc(blocks, bytes);
        memset(dirty, 0xEE, bytes);
        loam_blocks_free(blocks, dirty);
        auto p = static_cast<unsigned char *>(loam_blocks_calloc(blocks, bytes, 1));
        for (size_t i = 0; i < bytes; i++) ASSERT_EQ(p[i], 0);
        loam_blocks_free(blocks, p);
    }
}

TEST_P(Modes, ReallocKeepsContents) {
    Blocks blocks(with_flags(GetParam()));
    auto p = static_cast<char *>(loam_blocks_realloc(blocks, nullptr, 24));
    strcpy(p, "kept through it all");
    for (size_t bytes : {124u, 40u, 4000u, 5000u, 200000u, 20u, 4096u, 32u}) {
        p = static_cast<char *>(loam_blocks_realloc(blocks, p, bytes));
        ASSERT_NE(p, nullptr);
        ASSERT_STREQ(p, "kept through it all");
    }
    EXPECT_EQ(loam_blocks_realloc(blocks, p, 0), nullptr);
    EXPECT_EQ(blocks.usage().objects, 0u);
}

TEST_P(Modes, RandomProgramsAgainstATwin) {
    for (unsigned seed = 1; seed <= 4; seed++) {
        Blocks blocks(with_flags(GetParam()));
        std::mt19937 random(seed);
        std::vector<std::pair<unsigned char *, std::vector<unsigned char>>> twin;
        auto fill = [&](unsigned char *p, size_t from, std::vector<unsigned char> &bytes) {
            for (size_t i = from; i < bytes.size(); i++)
                p[i] = bytes[i] = static_cast<unsigned char>(random());
        };
        for (int step = 0; step < 6000; step++) {
            unsigned what = random() % 8;
            size_t bytes = random() % (random() % 20 == 0 ? 20000 : random() % 4 == 0 ? 4100 : 300);
            if (what < 4 || twin.empty()) {
                auto p = static_cast<unsigned char *>(
                    what == 0 ? loam_blocks_alloc_aligned(blocks, bytes, size_t{1} << random() % 9)
                              : loam_blocks_alloc(blocks, bytes));
                ASSERT_NE(p, nullptr);
                twin.push_back({p, std::vector<unsigned char>(bytes)});
                fill(p, 0, twin.back().second);
                continue;
            }
            auto &[p, wanted] = twin[random() % twin.size()];
            ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), p));
            if (what == 4) {
                bytes++;
                p = static_cast<unsigned char *>(loam_blocks_realloc(blocks, p, bytes));
                ASSERT_NE(p, nullptr);
                size_t same = std::min(bytes, wanted.size());
                ASSERT_TRUE(std::equal(p, p + same, wanted.begin()));
                wanted.resize(bytes);
                fill(p, same, wanted);
            } else {
                loam_blocks_free(blocks, p);
                std::swap(twin.back(), *std::find_if(twin.begin(), twin.end(), [p = p](auto &each) {
                              return each.first == p;
                          }));
                twin.pop_back();
            }
            if (step % 500 == 499) {
                ASSERT_EQ(blocks.usage().objects, twin.size());
                ASSERT_TRUE(loam_blocks_check(blocks));
            }
            if (step % 1700 == 1699) (void)loam_blocks_trim(blocks);
        }
        for (auto &[p, wanted] : twin) {
            ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), p));
            loam_blocks_free(blocks, p);
        }
        (void)loam_blocks_trim(blocks);
        EXPECT_EQ(blocks.usage().objects, 0u);
        EXPECT_EQ(blocks.usage().chunks, 1u); // the tables
    }
}

TEST_P(Modes, TrimGivesEmptySlabsBackAndNoOthers) {
    Blocks blocks(with_flags(GetParam()));
    std::vector<void *> held;
    for (int i = 0; i < 3000; i++) held.push_back(loam_blocks_alloc(blocks, 200));
    size_t most = blocks.usage().held_bytes;
    void *kept = held[1500];
    memset(kept, 7, 200);
    for (void *p : held) {
        if (p != kept) loam_blocks_free(blocks, p);
    }
    size_t bytes = loam_blocks_trim(blocks);
    EXPECT_GT(bytes, most / 2);
    EXPECT_EQ(blocks.usage().held_bytes, most - bytes);
    EXPECT_EQ(blocks.usage().peak_bytes, most);
    EXPECT_EQ(blocks.usage().chunks, 2u); // tables, and the slab of what is kept
    EXPECT_EQ(blocks.usage().objects, 1u);
    EXPECT_TRUE(loam_blocks_check(blocks));
    for (int i = 0; i < 200; i++) EXPECT_EQ(static_cast<char *>(kept)[i], 7);
    for (int i = 0; i < 3000; i++) held[static_cast<size_t>(i)] = loam_blocks_alloc(blocks, 200);
    EXPECT_EQ(blocks.usage().objects, 3001u);
    for (void *p : held) loam_blocks_free(blocks, p);
    loam_blocks_free(blocks, kept);
    (void)loam_blocks_trim(blocks);
    EXPECT_EQ(blocks.usage().chunks, 1u);
}

TEST_P(Modes, ResetKeepsSlabs) {
    Blocks blocks(with_flags(GetParam()));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2000; i++) memset(loam_blocks_alloc(blocks, 100), i, 100);
        memset(loam_blocks_alloc(blocks, 1 << 20), 1, 1 << 20);
        EXPECT_EQ(blocks.usage().objects, 2001u);
        loam_blocks_reset(blocks);
        EXPECT_EQ(blocks.usage().objects, 0u);
        EXPECT_TRUE(loam_blocks_check(blocks));
    }
    EXPECT_LT(blocks.usage().requests, 30u);
    EXPECT_GT(blocks.usage().held_bytes, 200000u);
    EXPECT_GT(loam_blocks_trim(blocks), 190000u);
}

TEST_P(Modes, RecordsWhatIsAskedFor) {
    Blocks blocks(with_flags(GetParam()));
    std::vector<size_t> counts(1001);
    loam_histogram histogram;
    loam_histogram_init(&histogram, counts.data(), 1000);
    loam_blocks_record(blocks, &histogram);
    for (size_t bytes : {24u, 24u, 0u, 1000u, 1001u, 9000u}) {
        loam_blocks_free(blocks, loam_blocks_alloc(blocks, bytes));
    }
    loam_blocks_record(blocks, nullptr);
    loam_blocks_free(blocks, loam_blocks_alloc(blocks, 24));
    EXPECT_EQ(counts[24], 2u);
    EXPECT_EQ(counts[0], 1u);
    EXPECT_EQ(counts[1000], 1u);
    EXPECT_EQ(histogram.beyond, 2u);
}

TEST_P(Modes, ExhaustedSourceIsNull) {
    Scarce limit(300 * 1024);
    loam_blocks_options options = with_flags(GetParam());
    options.source = &limit.source;
    std::vector<void *> held;
    {
        Blocks blocks(options);
        EXPECT_EQ(loam_blocks_alloc(blocks, 1 << 20), nullptr);
        while (void *p = loam_blocks_alloc(blocks, 1000)) held.push_back(p);
        EXPECT_GT(held.size(), 100u);
        void *p = held.back();
        memset(p, 3, 1000);
        EXPECT_EQ(loam_blocks_realloc(blocks, p, 3000), nullptr); // unchanged
        EXPECT_EQ(static_cast<char *>(p)[999], 3);
        EXPECT_EQ(loam_blocks_calloc(blocks, 100, 30), nullptr);
        loam_blocks_free(blocks, p);
        EXPECT_NE(loam_blocks_alloc(blocks, 1000), nullptr);
    }
    EXPECT_EQ(limit.count.used_bytes, 0u);
    limit.limit.most_bytes = 10;
    loam_blocks none;
    EXPECT_EQ(loam_blocks_init(&none, &options), -12);
}

/* A checked instance that is refused memory gives back what it keeps of large objects, and asks
 * once more. */
TEST_P(Modes, EachRefusalOfTheSourceLeavesItWhole) {
    size_t refused = 0, hit = 0;
    for (size_t n = 1; n < 40; n++) {
        Scarce scarce(64 << 20);
        loam_blocks_options options = with_flags(GetParam());
        options.source = &scarce.source;
        scarce.refuse = n;
        loam_blocks blocks;
        if (loam_blocks_init(&blocks, &options) != 0) {
            EXPECT_EQ(n, 1u);
            EXPECT_EQ(scarce.count.used_bytes, 0u);
            continue;
        }
        std::mt19937 random(static_cast<unsigned>(n));
        std::vector<std::pair<unsigned char *, size_t>> held;
        size_t none = 0;
        for (int i = 0; i < 300; i++) {
            size_t bytes = random() % (i % 10 == 0 ? 200000 : 5000);
            auto p = static_cast<unsigned char *>(loam_blocks_alloc(&blocks, bytes));
            if (p == nullptr) {
                none++;
                continue;
            }
            memset(p, i, bytes);
            held.push_back({p, bytes});
            if (i % 7 != 0) continue;
            auto &[old, had] = held[random() % held.size()];
            auto more = static_cast<unsigned char *>(loam_blocks_realloc(&blocks, old, had + 5000));
            if (more == nullptr) {
                none++;
                continue;
            }
            memset(more, 1, had + 5000);
            old = more;
            had += 5000;
        }
        EXPECT_LE(none, scarce.refuse == 0 ? 1u : 0u) << n; // a smaller realloc may stay instead
        refused += none;
        hit += scarce.refuse == 0;
        EXPECT_TRUE(loam_blocks_check(&blocks));
        loam_usage usage;
        loam_blocks_usage(&blocks, &usage);
        EXPECT_EQ(usage.objects, held.size());
        for (auto [p, bytes] : held) loam_blocks_free(&blocks, p);
        loam_blocks_deinit(&blocks);
        EXPECT_EQ(scarce.count.used_bytes, 0u);
    }
    EXPECT_GT(hit, 20u);
    if (!checked && (GetParam() & LOAM_CHECK) == 0) {
        EXPECT_GT(refused, 20u);
    }
}

INSTANTIATE_TEST_SUITE_P(Blocks, Modes,
                         testing::Values(0u, unsigned{LOAM_THREADS}, unsigned{LOAM_CHECK},
                                         unsigned{LOAM_CHECK | LOAM_THREADS}));

// ---- What differs by mode
// ------------------------------------------------------------------------

TEST(Blocks, KnownWeakPointsOfOthers) {
    // Each size is a class of its own, far more than fifteen; none is misaligned, and none hides a
    // word.
    std::vector<uint32_t> classes;
    for (uint32_t bytes = 16; bytes <= 2048; bytes += 16) classes.push_back(bytes);
    loam_blocks_options options{};
    options.classes = classes.data();
    options.class_count = static_cast<unsigned>(classes.size());
    Blocks blocks(options);
    if (checked) GTEST_SKIP() << "guards change which class a size belongs to";
    for (uint32_t bytes : classes) {
        void *p = loam_blocks_alloc(blocks, bytes);
        ASSERT_TRUE(aligned(p, 16));
        loam_usage usage = blocks.usage();
        EXPECT_GE(loam_blocks_usable_size(blocks, p), bytes);
        EXPECT_GE(usage.used_bytes, bytes);
        loam_blocks_free(blocks, p);
    }
    Blocks original;
    void *first = loam_blocks_alloc(original, 396), *second = loam_blocks_alloc(original, 396);
    EXPECT_TRUE(aligned(first, 16) && aligned(second, 16));
    loam_blocks_free(original, first);
    EXPECT_EQ(loam_blocks_alloc(original, 390), first);
    loam_blocks_free(original, first);
    loam_blocks_free(original, second);
}

TEST(Blocks, BadOptionsAreRefused) {
    loam_blocks blocks;
    auto refused = [&](const loam_blocks_options &options) {
        return loam_blocks_init(&blocks, &options) == -22;
    };
    const uint32_t falling[] = {32, 16}, zero[] = {0, 16}, large[] = {16, 40000}, good[] = {16, 48};
    loam_blocks_options options{};
    options.classes = good;
    EXPECT_TRUE(refused(options)); // none
    options.class_count = 129;
    EXPECT_TRUE(refused(options));
    options.class_count = 2;
    for (const uint32_t *bad : {falling, zero, large}) {
        options.classes = bad;
        EXPECT_TRUE(refused(options));
    }
    options.classes = good;
    options.flags = LOAM_HARDEN;
    EXPECT_TRUE(refused(options));
    options.flags = LOAM_FIXED; // of how many blocks?
    EXPECT_TRUE(refused(options));
    char memory[100];
    options = {};
    options.memory = memory;
    options.source = loam_pages();
    EXPECT_TRUE(refused(options));
    options = {};
    options.blocks_each = 10; // of what does not end
    EXPECT_TRUE(refused(options));
    options = {};
    options.memory = memory;
    options.memory_bytes = sizeof memory;
    EXPECT_EQ(loam_blocks_init(&blocks, &options), -12);
}

TEST(Blocks, RequestsGoToTheirClass) {
    if (checked) GTEST_SKIP() << "guards change which class a size belongs to";
    loam_blocks_options options{};
    options.counted = true;
    options.name = "counted";
    Blocks blocks(options);
    std::vector<void *> held;
    for (size_t bytes : {1u, 16u, 17u, 128u, 385u, 400u, 401u, 4096u, 4097u})
        held.push_back(loam_blocks_alloc(blocks, bytes));
    std::string found;
    loam_blocks_class_info info;
    bool watched = false;
    for (unsigned i = 0; loam_blocks_class_usage(blocks, i, &info) == 0; i++) {
        if (info.blocks_in_use != 0)
            found +=
                std::to_string(info.block_bytes) + "x" + std::to_string(info.blocks_in_use) + " ";
        EXPECT_EQ(info.allocations, info.blocks_in_use);
        EXPECT_EQ(info.deallocations, 0u);
        EXPECT_STREQ(info.name, "counted");
    }
#if defined(__SANITIZE_ADDRESS__)
    watched = true; // with redzones
#endif
    if (!watched) {
        EXPECT_EQ(found, "16x2 32x1 128x1 400x2 512x1 4096x1 ");
    }
    EXPECT_EQ(loam_blocks_class_usage(blocks, 11, &info), -22);
    for (void *p : held) loam_blocks_free(blocks, p);
}

TEST(Blocks, StatisticsAsTheOriginalPrintsThem) {
    if (checked) GTEST_SKIP() << "guards change which class a size belongs to";
    std::vector<char> memory;
    const uint32_t classes[] = {16, 128};
    loam_blocks_options options = fixed(memory, classes, 2, 5);
    options.name = "xallocator";
    Blocks blocks(options);
    void *p = loam_blocks_alloc(blocks, 100);
    std::string text;
    loam_blocks_print(blocks, keep, &text);
    EXPECT_EQ(text, "xallocator Block Size: 128 Block Count: 5 Blocks In Use: 1\n");
    loam_blocks_free(blocks, p);
}

TEST(Blocks, FixedPoolsHaveExactlyTheirBlocks) {
    const uint32_t classes[] = {16, 48, 400, 1024}, most[] = {3, 100, 1, 7};
    for (unsigned flags : {0u, unsigned{LOAM_CHECK}, unsigned{LOAM_THREADS}}) {
        for (bool heap_pool : {false, true}) {
            std::vector<char> memory;
            loam_blocks_options options{};
            options.classes = classes;
            options.class_count = 4;
            options.max_blocks = most;
            options.flags = flags;
            Scarce count(1 << 20);
            if (heap_pool) {
                options.flags |= LOAM_FIXED;
                options.source = &count.source;
            } else {
                memory.resize(loam_blocks_pool_bytes(&options) + 1);
                options.memory = memory.data() + 1; // it needs no alignment
                options.memory_bytes = memory.size() - 1;
            }
            Blocks blocks(options);
            for (int round = 0; round < 3; round++) {
                std::vector<std::pair<unsigned char *, uint32_t>> held;
                for (int i = 0; i < 4; i++) {
                    for (uint32_t n = 0; n < most[i]; n++) {
                        auto p =
                            static_cast<unsigned char *>(loam_blocks_alloc(blocks, classes[i]));
                        ASSERT_NE(p, nullptr);
                        ASSERT_TRUE(aligned(p, 16));
                        ASSERT_EQ(loam_blocks_usable_size(blocks, p), classes[i]);
                        memset(p, static_cast<int>(held.size()), classes[i]);
                        held.push_back({p, classes[i]});
                    }
                    // Empty: NULL, and nothing is written through it.
                    EXPECT_EQ(loam_blocks_alloc(blocks, classes[i]), nullptr);
                    EXPECT_EQ(loam_blocks_calloc(blocks, 1, classes[i]), nullptr);
                }
                EXPECT_EQ(loam_blocks_alloc(blocks, 1025), nullptr);
                EXPECT_EQ(blocks.usage().objects, held.size());
                EXPECT_TRUE(loam_blocks_check(blocks));
                for (size_t i = held.size(); i-- > 0;) {
                    auto [p, bytes] = held[i];
                    ASSERT_EQ(bytes, first_other(p, bytes, static_cast<unsigned char>(i)));
                    if (round != 2) loam_blocks_free(blocks, p);
                }
                if (round == 2) loam_blocks_reset(blocks);
                EXPECT_EQ(blocks.usage().objects, 0u);
            }
            EXPECT_EQ(loam_blocks_trim(blocks), 0u);
            EXPECT_EQ(count.count.gets, heap_pool ? 1u : 0u);
        }
    }
}

TEST(Blocks, StaticPoolFillsItsMemory) {
    static char memory[20 * 1024];
    loam_blocks_options options{};
    options.memory = memory;
    options.memory_bytes = sizeof memory;
    Blocks blocks(options);
    size_t bytes = 0;
    for (size_t size : {16u, 32u, 64u, 128u, 256u, 400u, 512u, 768u, 1024u, 2048u, 4096u}) {
        while (auto p = static_cast<char *>(loam_blocks_alloc(blocks, size))) {
            EXPECT_GE(p, memory);
            EXPECT_LE(p + size, memory + sizeof memory);
            bytes += size;
        }
    }
    EXPECT_EQ(bytes, 9344u); // one of each is all that fits, and tables
    static char constant[LOAM_BLOCKS_DEFAULT_BYTES(32)];
    loam_blocks second;
    options.memory = constant;
    options.memory_bytes = sizeof constant;
    options.blocks_each = 32;
    ASSERT_EQ(loam_blocks_init(&second, &options), 0);
    loam_blocks_deinit(&second);
}

TEST(Blocks, ReallocStaysWhereItFits) {
    if (checked) GTEST_SKIP() << "a checked object moves";
    std::vector<char> memory;
    const uint32_t classes[] = {64, 512};
    Blocks blocks(fixed(memory, classes, 2, 1));
    void *p = loam_blocks_alloc(blocks, 100);
    EXPECT_EQ(loam_blocks_realloc(blocks, p, 512), p);
    EXPECT_EQ(loam_blocks_realloc(blocks, p, 256), p); // half of it
    EXPECT_EQ(loam_blocks_realloc(blocks, p, 513), nullptr);
    void *small = loam_blocks_alloc(blocks, 1);
    EXPECT_EQ(loam_blocks_realloc(blocks, p, 10), p); // there is no smaller one
    loam_blocks_free(blocks, small);
    EXPECT_EQ(loam_blocks_realloc(blocks, p, 10), small);
    loam_blocks_free(blocks, small);
    Blocks heap;
    void *large = loam_blocks_alloc(heap, 100000);
    EXPECT_EQ(loam_blocks_realloc(heap, large, 70000), large);
    loam_blocks_free(heap, large);
}

TEST(Blocks, PortLocksAreUsed) {
    struct Port {
        int inits, gets, releases, destroys;
    } port{};
    loam_blocks_locks locks{};
    locks.init = [](void *p) { static_cast<Port *>(p)->inits++; };
    locks.get = [](void *p) { static_cast<Port *>(p)->gets++; };
    locks.release = [](void *p) { static_cast<Port *>(p)->releases++; };
    locks.destroy = [](void *p) { static_cast<Port *>(p)->destroys++; };
    locks.context = &port;
    loam_blocks_options options = with_flags(LOAM_THREADS);
    options.locks = &locks;
    loam_blocks blocks;
    ASSERT_EQ(loam_blocks_init(&blocks, &options), 0);
    EXPECT_EQ(port.inits, 1);
    void *p = loam_blocks_alloc(&blocks, 100);
    EXPECT_EQ(port.gets, 1);
    loam_blocks_free(&blocks, p);
    EXPECT_EQ(port.gets, 2);
    EXPECT_EQ(port.releases, 2);
    loam_blocks_deinit(&blocks);
    EXPECT_EQ(port.destroys, 1);
    locks = {};
    ASSERT_EQ(loam_blocks_init(&blocks, &options), 0); // no functions at all
    loam_blocks_free(&blocks, loam_blocks_alloc(&blocks, 100));
    loam_blocks_deinit(&blocks);
}

TEST(Blocks, SlabsAreColoured) {
    Blocks blocks;
    std::vector<bool> seen(4096 / 128);
    for (int i = 0; i < 15 * 40; i++) {
        void *p = loam_blocks_alloc(blocks, 4096 - (checked ? 200 : 32));
        seen[reinterpret_cast<uintptr_t>(p) % 4096 / 128] = true;
    }
    EXPECT_GT(std::count(seen.begin(), seen.end(), true), 16);
    loam_blocks_reset(blocks);
}

TEST(Blocks, ClassesOfAFixedInstanceAreApartFromEachOther) {
    const uint32_t classes[] = {16, 48, 128, 400, 1024};
    const size_t each = 9;
    for (unsigned seed = 1; seed <= 6; seed++) {
        std::vector<char> memory;
        loam_blocks_options options = fixed(memory, classes, 5, each);
        if (seed % 2 == 0) options.flags = LOAM_CHECK;
        memory.resize(memory.size() + 100);
        options.memory = memory.data();
        options.memory_bytes = memory.size();
        Blocks blocks(options);
        std::mt19937 random(seed);
        std::vector<std::pair<unsigned char *, size_t>> twin[5]; // live ones of each class
        for (int step = 0; step < 5000; step++) {
            size_t c = random() % 5;
            if (random() % 5 < 3) {
                size_t least = c == 0 ? 0 : classes[c - 1] + 1;
                size_t bytes = least + random() % (classes[c] - least + 1);
                auto p = static_cast<unsigned char *>(loam_blocks_alloc(blocks, bytes));
                ASSERT_EQ(p != nullptr, twin[c].size() < each) << seed << ", " << step;
                if (p == nullptr) continue;
                memset(p, static_cast<int>(bytes), bytes);
                twin[c].push_back({p, bytes});
            } else if (!twin[c].empty()) {
                std::swap(twin[c][random() % twin[c].size()], twin[c].back());
                auto [p, bytes] = twin[c].back();
                ASSERT_EQ(bytes, first_other(p, bytes, static_cast<unsigned char>(bytes)));
                loam_blocks_free(blocks, p);
                twin[c].pop_back();
            }
        }
        loam_blocks_class_info info;
        for (unsigned c = 0; c < 5; c++) {
            ASSERT_EQ(loam_blocks_class_usage(blocks, c, &info), 0);
            EXPECT_EQ(info.blocks_in_use, twin[c].size());
            EXPECT_EQ(info.block_limit, each);
        }
        loam_blocks_reset(blocks);
    }
}

// fit_test.cc: classes fitted to a histogram waste least: against every other choice.
#include "loam/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

struct Recorded {
    explicit Recorded(size_t largest) : counts(largest + 1) {
        loam_histogram_init(&histogram, counts.data(), largest);
    }
    std::vector<uint32_t> fit(unsigned class_count, unsigned granule, uint64_t *slack = nullptr) {
        std::vector<uint64_t> work(
            loam_blocks_fit_bytes(&histogram, class_count, granule) / sizeof(uint64_t) + 1);
        std::vector<uint32_t> classes(class_count);
        int count = loam_blocks_fit(&histogram, class_count, granule, work.data(),
                                    work.size() * sizeof(uint64_t), classes.data(), slack);
        EXPECT_GT(count, 0);
        classes.resize(static_cast<size_t>(count));
        return classes;
    }
    std::vector<size_t> counts;
    loam_histogram histogram;
};

uint64_t brute_force(Recorded &recorded, std::vector<uint32_t> chosen, uint32_t from,
                     unsigned class_count, unsigned granule, uint32_t top) {
    if (class_count == 1) {
        chosen.push_back(top);
        return loam_blocks_slack(&recorded.histogram, chosen.data(),
                                 static_cast<unsigned>(chosen.size()));
    }
    uint64_t least = brute_force(recorded, chosen, from, 1, granule, top);
    for (uint32_t size = from; size < top; size += granule) {
        std::vector<uint32_t> next = chosen;
        next.push_back(size);
        least = std::min(
            least, brute_force(recorded, next, size + granule, class_count - 1, granule, top));
    }
    return least;
}

void keep(const char *line, void *context) { *static_cast<std::string *>(context) += line; }

} // namespace

TEST(Fit, WastesLeastOfAllChoices) {
    std::mt19937 random(1);
    for (int round = 0; round < 300; round++) {
        unsigned granule = round % 3 == 0 ? 1 : round % 3 == 1 ? 4 : 16;
        unsigned largest = granule * 14;
        Recorded recorded(largest);
        unsigned sizes = 1 + random() % 12;
        uint32_t top = 0;
        for (unsigned i = 0; i < sizes; i++) {
            uint32_t bytes = static_cast<uint32_t>(random() % (largest + 1));
            loam_histogram_add(&recorded.histogram, bytes, 1 + random() % (1u << random() % 12));
            top = std::max(top, bytes == 0 ? granule : (bytes + granule - 1) / granule * granule);
        }
        for (unsigned class_count = 1; class_count <= 4; class_count++) {
            uint64_t slack = 0;
            std::vector<uint32_t> classes = recorded.fit(class_count, granule, &slack);
            EXPECT_EQ(classes.back(), top);
            for (size_t i = 0; i < classes.size(); i++) {
                EXPECT_EQ(classes[i] % granule, 0u);
                EXPECT_LT(i > 0 ? classes[i - 1] : 0, classes[i]);
            }
            EXPECT_EQ(slack, loam_blocks_slack(&recorded.histogram, classes.data(),
                                               static_cast<unsigned>(classes.size())));
            ASSERT_EQ(slack, brute_force(recorded, {}, granule, class_count, granule, top))
                << "round " << round << ", " << class_count << " classes";
        }
    }
}

TEST(Fit, MoreClassesWasteNoMoreAndEnoughWasteNothing) {
    std::mt19937 random(2);
    Recorded recorded(4096);
    for (int i = 0; i < 300; i++)
        loam_histogram_add(&recorded.histogram, random() % 4097, random() % 1000);
    uint64_t before = UINT64_MAX;
    for (unsigned class_count : {1u, 2u, 3u, 5u, 8u, 16u, 64u, 4096u}) {
        uint64_t slack = 0;
        (void)recorded.fit(class_count, 1, &slack);
        EXPECT_LE(slack, before);
        before = slack;
    }
    /* A request of 0 bytes has a block of one. */
    EXPECT_EQ(before, recorded.counts[0]);
}

TEST(Fit, BeatsTheDefaultClasses) {
    Recorded recorded(4096);
    for (size_t bytes : {40u, 72u, 136u, 520u, 1032u, 2056u})
        loam_histogram_add(&recorded.histogram, bytes, 1000);
    const uint32_t powers[] = {16, 32, 64, 128, 256, 400, 512, 768, 1024, 2048, 4096};
    std::vector<uint32_t> classes = recorded.fit(6, 16);
    EXPECT_EQ(classes, (std::vector<uint32_t>{48, 80, 144, 528, 1040, 2064}));
    EXPECT_LT(loam_blocks_slack(&recorded.histogram, classes.data(), 6) * 10,
              loam_blocks_slack(&recorded.histogram, powers, 11));
}

TEST(Fit, WhatIsWrongIsRefused) {
    Recorded recorded(100);
    uint64_t work[64];
    uint32_t classes[4];
    EXPECT_EQ(loam_blocks_fit(&recorded.histogram, 1, 16, work, sizeof work, classes, nullptr),
              -22);
    loam_histogram_add(&recorded.histogram, 101, 5);
    EXPECT_EQ(recorded.histogram.beyond, 5u);
    EXPECT_EQ(loam_blocks_fit(&recorded.histogram, 1, 16, work, sizeof work, classes, nullptr),
              -22);
    loam_histogram_add(&recorded.histogram, 33, 1);
    EXPECT_EQ(loam_blocks_fit(&recorded.histogram, 0, 16, work, sizeof work, classes, nullptr),
              -22);
    EXPECT_EQ(loam_blocks_fit(&recorded.histogram, 1, 0, work, sizeof work, classes, nullptr), -22);
    EXPECT_EQ(loam_blocks_fit_bytes(&recorded.histogram, 1, 0), 0u);
    size_t enough = loam_blocks_fit_bytes(&recorded.histogram, 1, 16);
    EXPECT_EQ(loam_blocks_fit(&recorded.histogram, 1, 16, work, enough - 1, classes, nullptr), -12);
    EXPECT_EQ(loam_blocks_fit(&recorded.histogram, 4, 16, work, sizeof work, classes, nullptr), 1);
    EXPECT_EQ(classes[0], 48u);
    EXPECT_EQ(loam_blocks_slack(&recorded.histogram, classes, 0), UINT64_MAX);
}

TEST(Fit, IsPrintedAsC) {
    Recorded recorded(64);
    loam_histogram_add(&recorded.histogram, 24, 7);
    loam_histogram_add(&recorded.histogram, 64, 1);
    std::string text;
    loam_histogram_print(&recorded.histogram, "sizes", keep, &text);
    EXPECT_EQ(text, "static const size_t sizes[][2] = { /* bytes, requests */\n"
                    "    {24, 7},\n    {64, 1},\n};\n");
    text.clear();
    const uint32_t classes[] = {16, 32, 48, 64, 80, 96, 112, 128, 144};
    loam_blocks_fit_print(classes, 9, "classes", keep, &text);
    EXPECT_EQ(text, "static const uint32_t classes[] = {\n"
                    "    16, 32, 48, 64, 80, 96, 112, 128,\n    144,\n};\n");
}

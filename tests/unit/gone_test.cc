/* gone_test.cc: free spans whose addresses were given back to the system. */
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cstring>
#include <random>
#include <vector>

extern "C" {
#include "span/internal.h"
#include "survey/survey.h"
}

namespace {

/* Lets all free memory go, and looks whether everything agrees. Returns the slices that are
 * gone. */
size_t let_go() {
    lm_heap_collect();
    lm_purge_all();
    lm_lock_take(&lm_space.lock);
    (void)lm_gone_all(1);
    size_t gone = lm_space.gone_slices;
    lm_lock_give(&lm_space.lock);
    lm_span_check();
    return gone;
}

bool mapped(const void *p) {
    unsigned char resident;
    return mincore(const_cast<void *>(p), 1, &resident) == 0;
}

/* Objects in between keep the others from the arena's end. */
std::vector<char *> alternating(size_t bytes, size_t n, std::vector<char *> *between) {
    std::vector<char *> objects;
    for (size_t i = 0; i < n; i++) {
        objects.push_back(static_cast<char *>(lm_malloc(bytes)));
        EXPECT_NE(nullptr, objects.back());
        memset(objects.back(), 1, bytes);
        between->push_back(static_cast<char *>(lm_malloc(bytes)));
        memset(between->back(), 2, bytes);
    }
    return objects;
}

void free_all(const std::vector<char *> &objects) {
    for (char *p : objects) lm_free(p);
}

TEST(Gone, FreeMemoryIsUnmappedAndComesBackZero) {
    constexpr size_t kBytes = 300000, kObjects = 40;
    std::vector<char *> between, objects = alternating(kBytes, kObjects, &between);
    char *middle = objects[kObjects / 2];
    free_all(objects);
    EXPECT_GE(let_go(), kObjects * 4);
    EXPECT_EQ(lm_space.reserved, mapped(middle)) << "addresses that were reserved stay so";
    for (char *p : between) EXPECT_EQ(2, p[kBytes - 1]);
    size_t arena = lm_arena.slices;
    objects.clear();
    for (size_t i = 0; i < kObjects; i++) {
        objects.push_back(static_cast<char *>(lm_calloc(kBytes)));
        ASSERT_NE(nullptr, objects.back());
        for (size_t at = 0; at < kBytes; at += 1000) ASSERT_EQ(0, objects.back()[at]);
        memset(objects.back(), 3, kBytes);
    }
    EXPECT_LT(lm_arena.slices, arena + kObjects * 3) << "what was gone serves again";
    free_all(objects);
    free_all(between);
    lm_span_check();
}

#if LM_SECURE
TEST(Gone, WhatIsGoneStaysItsGroups) {
    std::vector<char *> between, tiny = alternating(48, 60000, &between);
    size_t first = lm_slice_of(tiny.front()), last = first;
    for (char *p : tiny) {
        first = std::min(first, lm_slice_of(p));
        last = std::max(last, lm_slice_of(p));
    }
    free_all(tiny);
    free_all(between);
    ASSERT_GT(let_go(), 32u);
    std::vector<char *> others;
    for (size_t i = 0; i < 4000; i++) {
        others.push_back(static_cast<char *>(lm_malloc(i % 2 == 0 ? 900 : 70000)));
        ASSERT_NE(nullptr, others.back());
    }
    lm_lock_take(&lm_space.lock);
    for (char *p : others) {
        lm_group_t group = lm_space_group(lm_page_of(p));
        EXPECT_TRUE(group == LM_GROUP_SMALL || group == LM_GROUP_LARGE);
    }
    for (size_t i = first; i <= last; i += lm_space_slot(i)->slices) {
        if (lm_space_slot(i)->kind == LM_KIND_GONE) {
            EXPECT_NE(LM_GROUP_SMALL, lm_space_group(lm_space_slot(i)));
        }
    }
    lm_lock_give(&lm_space.lock);
    free_all(others);
    lm_span_check();
}
#endif

TEST(Gone, WhatOthersMapThereStaysTheirs) {
    if (lm_space.reserved) GTEST_SKIP() << "nobody else can map there";
    constexpr size_t kBytes = 1 << 20;
    std::vector<char *> between, objects = alternating(kBytes, 20, &between);
    free_all(objects);
    let_go();
    size_t taken = 0;
    std::vector<char *> foreign;
    for (char *p : objects) {
        void *at = mmap(p + (64 << 10), 4096, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (at == MAP_FAILED) continue;
        foreign.push_back(static_cast<char *>(memset(at, 5, 4096)));
    }
    ASSERT_FALSE(foreign.empty());
    std::vector<char *> rest, again = alternating(kBytes, 20, &rest);
    for (char *p : foreign) taken += static_cast<size_t>(p[0] == 5 && p[4095] == 5);
    EXPECT_EQ(foreign.size(), taken);
    lm_span_check();
    for (char *p : foreign) munmap(p, 4096);
    free_all(again);
    free_all(rest);
    free_all(between);
}

TEST(Gone, AtRandomEverythingAgrees) {
    std::mt19937 random(5);
    struct Object {
        char *at;
        size_t bytes;
        char value;
    };
    std::vector<Object> objects;
    static const size_t kSizes[] = {40, 1000, 5000, 30000, 70000, 150000, 900000, 3000000};
    for (int i = 0; i < (LM_SECURE ? 12000 : 4000); i++) {
        if (objects.size() > 300 || (!objects.empty() && random() % 3 == 0)) {
            size_t k = random() % objects.size();
            for (size_t at = 0; at < objects[k].bytes; at += 997)
                ASSERT_EQ(objects[k].value, objects[k].at[at]);
            lm_free(objects[k].at);
            objects[k] = objects.back();
            objects.pop_back();
        } else {
            size_t bytes = kSizes[random() % std::size(kSizes)];
            char value = static_cast<char>(random()), *p;
            ASSERT_NE(nullptr, p = static_cast<char *>(lm_malloc(bytes)));
            objects.push_back({static_cast<char *>(memset(p, value, bytes)), bytes, value});
        }
        if (i % 400 == 0) let_go();
        if (i % 90 == 0) {
            lm_lock_take(&lm_space.lock);
            (void)lm_gone_all(random() % 20 + 1);
            lm_lock_give(&lm_space.lock);
        }
    }
    for (const Object &object : objects) lm_free(object.at);
    let_go();
}

} // namespace

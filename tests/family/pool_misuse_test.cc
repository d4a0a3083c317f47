// pool_misuse_test.cc: what pools say of a program's mistakes: checked ones of all, hardened ones
// of damaged links.
#include "unit/stderr_of.h"

#include "loam/pool.h"

#include <gtest/gtest.h>

extern "C" {
#include "family/family.h"
}

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

using unit::stderr_of;

/* What is said when a mistake is not deadly. */
template <typename Code> std::string said(Code code) {
    lm_misuse_policy.ignore = true;
    std::string text = stderr_of(code);
    lm_misuse_policy.ignore = false;
    return text;
}

std::string hex(const void *p) {
    char text[32];
    snprintf(text, sizeof text, "%p", p);
    return text;
}
std::string place(unsigned line) {
    return " (at used.c:" + std::to_string(line) + ", thread " + std::to_string(gettid()) + ")\n";
}
std::string nowhere() { return " (thread " + std::to_string(gettid()) + ")\n"; }

/* Writes where no program may, past the eyes of a sanitizer. */
void poke(void *p, ptrdiff_t offset, char value) {
    char *at = static_cast<char *>(p) + offset;
    lm_tool_show(reinterpret_cast<void *>(reinterpret_cast<uintptr_t>(at) & ~uintptr_t{7}), 8);
    *static_cast<volatile char *>(at) = value;
}
void poke_word(void *p, uintptr_t value) {
    for (size_t i = 0; i < sizeof value; i++)
        poke(p, static_cast<ptrdiff_t>(i), reinterpret_cast<char *>(&value)[i]);
}

struct Named {
    loam_pool pool;
    explicit Named(const char *name, unsigned flags = LOAM_CHECK, size_t bytes = 40) {
        loam_pool_options options = {};
        options.name = name;
        options.flags = flags;
        if (loam_pool_init(&pool, nullptr, bytes, &options) != 0) abort();
    }
    ~Named() { loam_pool_deinit(&pool); }
    Named(const Named &) = delete;
    char *alloc(unsigned line) {
        return static_cast<char *>(loam_pool_alloc_at(&pool, "made.c", line));
    }
    void free(void *p, unsigned line) { loam_pool_free_at(&pool, p, "used.c", line); }
};

TEST(PoolMisuse, ADoubleFreeIsToldWithAllThreePlaces) {
    Named box("box");
    char *p = box.alloc(3), *q = box.alloc(4);
    box.free(p, 5);
    box.free(q, 6);
    EXPECT_EQ(said([&] { box.free(p, 7); }),
              "loam: pool box: free of " + hex(p) +
                  " after its free at used.c:5, allocated at made.c:3" + place(7));
    EXPECT_TRUE(loam_pool_check(&box.pool));
    EXPECT_EQ(box.alloc(8), q) << "the list is as it was";
    EXPECT_EQ(box.alloc(8), p);
}

TEST(PoolMisuse, TheOwnerIsTold) {
    Named mine("mine"), theirs("theirs");
    char *p = theirs.alloc(1), *q = mine.alloc(2);
    EXPECT_EQ(said([&] { mine.free(p, 3); }),
              "loam: pool mine: free of " + hex(p) + ", which belongs to pool theirs" + place(3));
    EXPECT_EQ(said([&] { theirs.free(q, 4); }),
              "loam: pool theirs: free of " + hex(q) + ", which belongs to pool mine" + place(4));
    mine.free(q, 5);
    theirs.free(p, 6);
}

/* A report looks for the owner in the pools of other threads, which grow, shrink and end
 * meanwhile. */
TEST(PoolMisuse, TheOwnerIsLookedForWhileOtherPoolsChange) {
    std::atomic<bool> done{false};
    std::atomic<size_t> rounds{0};
    std::thread other([&] {
        loam_pool_options options = {};
        options.first_blocks = 1;
        options.most_chunk_bytes = 256 << 10;
        for (size_t round = 0; !done; rounds = ++round) {
            std::string name = "theirs" + std::to_string(round);
            options.name = name.c_str();
            loam_pool pool;
            if (loam_pool_init(&pool, nullptr, 32 << 10, &options) != 0) abort();
            for (int i = 0; i < 20; i++) {
                void *first = loam_pool_alloc(&pool), *second = loam_pool_alloc(&pool);
                loam_pool_free(&pool, first);
                loam_pool_free(&pool, second);
                (void)loam_pool_trim(&pool);
            }
            loam_pool_deinit(&pool);
        }
    });
    Named mine("mine", LOAM_HARDEN);
    std::vector<char> high(1 << 20); // memory among which their chunks lie
    while (rounds == 0) std::this_thread::yield();
    for (int round = 0; round < 100; round++) {
        std::string text = said([&] {
            for (int i = 0; i < 300; i++) mine.free(&high[static_cast<size_t>(i) * 1000], 1);
        });
        ASSERT_EQ(std::count(text.begin(), text.end(), '\n'), 300);
    }
    done = true;
    other.join();
}

TEST(PoolMisuse, WhatIsNoBlockIsNotFreed) {
    Named box("box");
    char *p = box.alloc(1), local[8], *inside = p + 16;
    auto no_object = [](void *at) {
        return "loam: pool box: free of " + hex(at) + ", which is no object of it" + place(2);
    };
    EXPECT_EQ(said([&] { box.free(inside, 2); }), no_object(inside));
    EXPECT_EQ(said([&] { box.free(p + 1, 2); }), no_object(p + 1));
    EXPECT_EQ(said([&] { box.free(p - 96, 2); }), no_object(p - 96));
    EXPECT_EQ(said([&] { box.free(local, 2); }), no_object(local));
    char *never = p + box.pool.stride; // a block that has never been handed out
    EXPECT_EQ(said([&] { box.free(never, 2); }), no_object(never));
    box.free(p, 2);
}

TEST(PoolMisuse, GuardsAreComparedAtTheFreeAndAllAtOnce) {
    Named box("box");
    for (ptrdiff_t at : {40, 41, 47, 55, 56, 63, -1, -2, -16}) {
        char *before = box.alloc(1), *p = box.alloc(2), *after = box.alloc(3);
        poke(p, at, 1);
        std::string what =
            at < 0 ? "loam: pool box: underflow of " + hex(p) + ": " + std::to_string(-at) +
                         " byte(s) before it written, allocated at made.c:2"
                   : "loam: pool box: overflow of " + hex(p) + ": byte " + std::to_string(at + 1) +
                         " of 40 written, allocated at made.c:2";
        bool good = true;
        EXPECT_EQ(said([&] { good = loam_pool_check(&box.pool); }), what + nowhere());
        EXPECT_FALSE(good);
        EXPECT_EQ(said([&] { box.free(p, 4); }), what + place(4));
        poke(p, at, static_cast<char>(LM_GUARD_BYTE));
        EXPECT_TRUE(loam_pool_check(&box.pool));
        for (char *each : {before, p, after}) box.free(each, 5);
    }
}

TEST(PoolMisuse, AWriteAfterTheFreeIsFoundByTheNextUserAndByACheck) {
    Named box("box");
    for (ptrdiff_t at : {0, 5, 8, 31, 32, 39}) {
        char *p = box.alloc(1);
        box.free(p, 2);
        poke(p, at, 1);
        std::string what = "loam: pool box: byte " + std::to_string(at + 1) + " of " + hex(p) +
                           " written after its free at used.c:2" + nowhere();
        bool good = true;
        EXPECT_EQ(said([&] { good = loam_pool_check(&box.pool); }), what);
        EXPECT_FALSE(good);
        EXPECT_EQ(said([&] { EXPECT_EQ(box.alloc(3), p); }), what);
        box.free(p, 4);
        EXPECT_TRUE(loam_pool_check(&box.pool));
    }
}

TEST(PoolMisuse, LeaksAreToldWithTheirLines) {
    Named box("box");
    char *a = box.alloc(11), *b = box.alloc(12), *c = box.alloc(13);
    box.free(b, 1);
    size_t leaks = 0;
    EXPECT_EQ(stderr_of([&] { leaks = loam_registry_leaks(); }),
              "loam: pool box: leak of 40 bytes at " + hex(c) + ", allocated at made.c:13\n" +
                  "loam: pool box: leak of 40 bytes at " + hex(a) + ", allocated at made.c:11\n");
    EXPECT_EQ(leaks, 2u);
    box.free(a, 2);
    loam_pool_reset(&box.pool);
    EXPECT_EQ(loam_registry_leaks(), 0u) << "a reset takes them all";
    (void)c;
}

TEST(PoolMisuse, MacrosRecordWhereTheyStand) {
    Named box("box");
    void *p = loam_pool_alloc(&box.pool);
    int line = __LINE__ - 1;
    std::string text = stderr_of([] { (void)loam_registry_leaks(); });
    EXPECT_NE(text.find(std::string("allocated at ") + __FILE__ + ":" + std::to_string(line)),
              std::string::npos)
        << text;
    loam_pool_free(&box.pool, p);
}

/* ---- Hardened ones ---- */

/* In a checked pool, a free block's first word is the tag's. */
char *link_of(Named &box, char *p) { return p - box.pool.head_bytes; }

TEST(PoolMisuse, ADamagedLinkIsFoundBeforeItIsFollowed) {
    for (uintptr_t wrong : {uintptr_t{0x1000}, uintptr_t{0x4141414141414141}, UINTPTR_MAX}) {
        Named box("box", LOAM_HARDEN);
        char *a = box.alloc(1), *b = box.alloc(1);
        box.free(a, 2);
        box.free(b, 3);
        poke_word(link_of(box, b), wrong);
        EXPECT_EQ(said([&] { EXPECT_EQ(box.alloc(9), nullptr); }).substr(0, 65),
                  ("loam: pool box: free list damaged: " + hex(b) + " was written to after")
                      .substr(0, 65));
        EXPECT_NE(box.alloc(10), nullptr) << "what is left is whole";
    }
}

TEST(PoolMisuse, LinksAreNotAddresses) {
    Named box("box", LOAM_HARDEN), other("other", LOAM_HARDEN);
    uintptr_t seen[2];
    for (Named *pool : {&box, &other}) {
        char *a = pool->alloc(1), *b = pool->alloc(1);
        pool->free(a, 2);
        pool->free(b, 3);
        lm_tool_show(link_of(*pool, b), 8);
        uintptr_t link;
        memcpy(&link, link_of(*pool, b), sizeof link);
        EXPECT_NE(link, reinterpret_cast<uintptr_t>(link_of(*pool, a)));
        /* Without what anybody can guess: where they are. */
        link ^= reinterpret_cast<uintptr_t>(link_of(*pool, a));
        seen[pool == &other] = link ^ reinterpret_cast<uintptr_t>(link_of(*pool, b)) >> 4;
        EXPECT_NE(seen[pool == &other], 0u);
    }
    EXPECT_NE(seen[0], seen[1]) << "each pool has a key of its own";
}

TEST(PoolMisuse, ACheckFindsDamagedLists) {
    Named box("box", LOAM_POOL_DENSE);
    if (box.pool.mode != 0) GTEST_SKIP() << "links of other modes are not as plain";
    char *a = box.alloc(1), *b = box.alloc(1);
    box.free(a, 2);
    box.free(b, 3);
    *reinterpret_cast<void **>(a) = b; // b -> a -> b
    bool good = true;
    EXPECT_EQ(said([&] { good = loam_pool_check(&box.pool); }),
              "loam: pool box: free list damaged: it has no end" + nowhere());
    EXPECT_FALSE(good);
    *reinterpret_cast<void **>(a) = a + 8;
    EXPECT_EQ(said([&] { good = loam_pool_check(&box.pool); }),
              "loam: pool box: free list damaged: " + hex(a + 8) + " is no block of it" +
                  nowhere());
    *reinterpret_cast<void **>(a) = nullptr;
    EXPECT_TRUE(loam_pool_check(&box.pool));
}

TEST(PoolMisuse, HardenedOnesRefuseWhatIsNoBlock) {
    Named box("box", LOAM_HARDEN);
    char *p = box.alloc(1), local[64];
    EXPECT_EQ(said([&] { box.free(local, 2); }),
              "loam: pool box: free of " + hex(local) + ", which is no object of it" + place(2));
    EXPECT_EQ(said([&] { box.free(p + 8, 2); }),
              "loam: pool box: free of " + hex(p + 8) + ", which is no object of it" + place(2));
    box.free(p, 3);
    std::string text = said([&] { box.free(p, 4); });
    if ((box.pool.mode & 1) == 0) {
        EXPECT_EQ(text, "loam: pool box: free of " + hex(p) + ", which is free already" + place(4));
    } else {
        EXPECT_NE(text.find("after its free at used.c:3"), std::string::npos);
    }
    EXPECT_EQ(box.alloc(5), p);
    EXPECT_NE(box.alloc(6), p);
}

/* ---- And it ends there ---- */

TEST(PoolMisuseDeathTest, MistakesEndTheProgram) {
    Named box("box"), hard("hard", LOAM_HARDEN);
    char *p = box.alloc(1), *q = hard.alloc(1), *r = hard.alloc(2);
    box.free(p, 2);
    EXPECT_DEATH(box.free(p, 3), "^loam: pool box: free of 0x[0-9a-f]+ after its free at used.c:2");
    EXPECT_DEATH(box.free(p + 1, 3), "^loam: pool box: free of .*, which is no object of it");
    hard.free(q, 4);
    hard.free(r, 5);
    poke_word(link_of(hard, r), 0x4141);
    EXPECT_DEATH((void)!hard.alloc(6), "^loam: pool hard: free list damaged: ");
    EXPECT_DEATH((void)loam_pool_check(&hard.pool), "^loam: pool hard: free list damaged: ");
    loam_pool_reset(&hard.pool);
}

/* A pool that ends a second time may have lost its slot to another by then. */
TEST(PoolMisuse, ASecondEndOfASharedPoolLeavesOthersTheirSlots) {
    loam_pool_options options = {};
    options.flags = LOAM_CHECK;
    loam_shared_pool first, second, third;
    ASSERT_EQ(loam_shared_pool_init(&first, nullptr, 40, &options), 0);
    loam_shared_pool_deinit(&first);
    ASSERT_EQ(loam_shared_pool_init(&second, nullptr, 40, nullptr), 0);
    EXPECT_EQ(second.slot, first.slot);
    EXPECT_NE(said([&] { loam_shared_pool_deinit(&first); }), "");
    ASSERT_EQ(loam_shared_pool_init(&third, nullptr, 40, nullptr), 0);
    EXPECT_NE(third.slot, second.slot);
    loam_shared_pool_deinit(&third);
    loam_shared_pool_deinit(&second);
}

} // namespace

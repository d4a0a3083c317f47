// stack_life_test.cc: what a stack keeps and gives back, and what it does at the end of memory:
// exhausted sources, a million frames, gigabytes, reserved ranges.
#include "stack_sources.h"

#include <cstring>
#include <vector>

namespace {

/* ---- What goes back ---- */

TEST(Stack, TheBaseKeepsWhatRecentRoundsNeeded) {
    Counted counted;
    Stack s(&counted.source);
    auto round = [&](size_t bytes) {
        loam_stack_frame frame = s.push();
        for (size_t done = 0; done < bytes; done += 1000) (void)s.alloc(1000);
        s.pop(frame);
        ASSERT_TRUE(loam_stack_check(&s));
    };
    round(1000000);
    size_t held = counted.used_bytes, gets = counted.gets;
    EXPECT_GE(held, 1000000u);
    for (int i = 0; i < 20; i++) round(1000000);
    EXPECT_EQ(counted.gets, gets) << "the same again asks nobody";
    round(1000);
    EXPECT_GE(counted.used_bytes, held / 2) << "not all at once";
    for (int i = 0; i < 20; i++) round(1000);
    EXPECT_LE(counted.used_bytes, size_t{128} << 10);
}

TEST(Stack, AnOutermostFrameIsInlineUnlessThereIsSomethingToGiveBack) {
    SKIP_UNLESS_PLAIN();
    Stack s;
    s.pop(s.push());
    EXPECT_NE(s.stack.room.end, nullptr);
    loam_stack_frame frame = s.push();
    (void)s.alloc(1000000);
    s.pop(frame);
    EXPECT_EQ(s.stack.room.end, nullptr);
    for (int i = 0; i < 30; i++) s.pop(s.push());
    EXPECT_NE(s.stack.room.end, nullptr);
    (void)s.alloc(100);
    EXPECT_NE(s.stack.room.end, nullptr);
}

/* The outermost frame itself never left the first block. */
TEST(Stack, WhatInnerFramesTookGoesBackAsWell) {
    for (int depth : {1, 5, 30}) {
        Counted counted;
        Stack s(&counted.source);
        auto round = [&](size_t bytes) {
            std::vector<loam_stack_frame> frames;
            for (int i = 0; i < depth; i++) {
                frames.push_back(s.push());
                (void)s.alloc(100);
            }
            loam_stack_frame inner = s.push();
            for (size_t done = 0; done < bytes; done += 1000) (void)s.alloc(1000);
            s.pop(inner);
            for (; !frames.empty(); frames.pop_back()) s.pop(frames.back());
            ASSERT_TRUE(loam_stack_check(&s));
        };
        for (int i = 0; i < 3; i++) round(1000);
        round(2000000);
        EXPECT_GE(counted.used_bytes, 2000000u);
        for (int i = 0; i < 40; i++) round(1000);
        EXPECT_LE(counted.used_bytes, size_t{192} << 10);
    }
}

TEST(Stack, OneLargeRequestIsForgotten) {
    for (bool first : {false, true}) {
        Counted counted;
        Stack s(&counted.source);
        auto round = [&](size_t bytes) {
            loam_stack_frame frame = s.push();
            ASSERT_NE(s.alloc(bytes), nullptr);
            s.pop(frame);
        };
        if (first) { /* the very first block is the large one */
            (void)s.alloc(size_t{16} << 20);
            loam_stack_reset(&s);
        } else {
            round(100);
            round(size_t{16} << 20);
        }
        for (int i = 0; i < 30; i++) round(100);
        EXPECT_LE(counted.used_bytes, size_t{128} << 10);
    }
}

TEST(Stack, KeepBytesAreKept) {
    Counted counted;
    loam_stack_options options = {};
    options.keep_bytes = 1 << 20;
    Stack s(&counted.source, options);
    loam_stack_frame frame = s.push();
    for (int i = 0; i < 2000; i++) (void)s.alloc(1000);
    s.pop(frame);
    for (int i = 0; i < 40; i++) s.pop(s.push());
    EXPECT_GE(counted.used_bytes, size_t{900} << 10);
    EXPECT_LE(counted.used_bytes, size_t{1} << 20);
}

TEST(Stack, WhatAPeakTookGoesBackEachTime) {
    for (size_t keep : {size_t{0}, size_t{256} << 10}) {
        Counted counted;
        loam_stack_options options = {};
        options.keep_bytes = keep;
        Stack s(&counted.source, options);
        auto round = [&](int objects) {
            loam_stack_frame outer = s.push();
            (void)s.alloc(100);
            loam_stack_frame inner = s.push();
            for (int i = 0; i < objects; i++) (void)s.alloc(1000);
            s.pop(inner);
            s.pop(outer);
        };
        for (int again = 0; again < 4; again++) {
            for (int i = 0; i < 40; i++) round(100);
            round(3000);
            EXPECT_GE(counted.used_bytes, 3000000u);
            for (int i = 0; i < 40; i++) round(1);
            EXPECT_LE(counted.used_bytes, size_t{256} << 10) << again;
        }
    }
}

TEST(Stack, TrimGivesBackWhatIsFree) {
    Counted counted;
    Stack s(&counted.source);
    loam_stack_frame outer = s.push();
    loam_stack_frame inner = s.push();
    for (int i = 0; i < 300; i++) (void)s.alloc(1000);
    s.pop(inner);
    EXPECT_GT(loam_stack_trim(&s), 200000u);
    EXPECT_EQ(counted.used_bytes, size_t{64} << 10);
    s.pop(outer);
    EXPECT_EQ(loam_stack_trim(&s), size_t{64} << 10);
    EXPECT_EQ(counted.used_bytes, 0u);
    outer = s.push();
    EXPECT_NE(s.alloc(10), nullptr);
    s.pop(outer);
}

TEST(Stack, ResetEndsFramesAndSeals) {
    Stack s;
    (void)s.push();
    (void)s.push();
    loam_stack_seal(&s);
    loam_stack_reset(&s);
    EXPECT_NE(s.alloc(8), nullptr);
    loam_stack_reset(&s);
    EXPECT_EQ(s.usage().used_bytes, 0u);
}

/* ---- Ends ---- */

TEST(Stack, AnExhaustedSourceIsNullAndTheFrameGoesOn) {
    static char memory[20000];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof memory);
    Stack s(&buffer.source, with_block(1024));
    loam_stack_frame frame = s.push();
    size_t many = 0;
    while (s.alloc(100) != nullptr) many++;
    EXPECT_GT(many, LOAM_DEBUG ? 60u : 170u);
    EXPECT_TRUE(loam_stack_check(&s));
    s.pop(frame);
    frame = s.push();
    size_t again = 0;
    while (s.alloc(100) != nullptr) again++;
    EXPECT_EQ(again, many);
    s.pop(frame);
}

/* Where there is no memory for a frame, its pop does nothing. */
TEST(Stack, AFrameThatThereIsNoMemoryFor) {
    static char memory[4096];
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory, sizeof memory);
    Stack s(&buffer.source, with_block(1024));
    std::vector<loam_stack_frame> frames;
    for (;;) {
        frames.push_back(s.push());
        if (!loam_stack_pushed_it(&frames.back())) break;
    }
    EXPECT_GT(frames.size(), 40u);
    EXPECT_TRUE(loam_stack_check(&s));
    for (; !frames.empty(); frames.pop_back()) s.pop(frames.back());
    EXPECT_EQ(s.usage().used_bytes, 0u);
}

TEST(Stack, EachRefusalIsSurvived) {
    for (size_t n = 0; n < 40; n++) {
        Counted counted(loam_heap_source());
        struct Failing {
            loam_source source;
            loam_source *inner;
            size_t countdown;
        } failing = {};
        failing.inner = &counted.source;
        failing.countdown = n;
        failing.source.get = [](loam_source *self, size_t bytes, size_t align,
                                size_t *got) -> void * {
            auto *of = reinterpret_cast<Failing *>(self);
            if (of->countdown-- == 0) return nullptr;
            return loam_source_get(of->inner, bytes, align, got);
        };
        failing.source.put = [](loam_source *self, void *chunk, size_t got) {
            loam_source_put(reinterpret_cast<Failing *>(self)->inner, chunk, got);
        };
        Stack s(&failing.source, with_block(1024));
        size_t refused = 0;
        for (int i = 0; i < 20; i++) {
            loam_stack_frame outer = s.push();
            refused += !loam_stack_pushed_it(&outer);
            for (int k = 0; k < 10; k++) {
                loam_stack_frame inner = s.push();
                char *p = s.alloc(static_cast<size_t>(200 + 100 * i));
                refused += p == nullptr;
                if (p != nullptr) memset(p, 1, 200);
                ASSERT_TRUE(loam_stack_check(&s));
                s.pop(inner);
            }
            s.pop(outer);
            loam_stack_reset(&s);
            ASSERT_TRUE(loam_stack_check(&s));
        }
        EXPECT_LE(refused, 1u) << "a smaller block will do, and the next request is another";
    }
}

TEST(Stack, AMillionFrames) {
    constexpr int kFrames = 1000000;
    for (bool reserved : {false, true}) {
        loam_reserve range = {};
        if (reserved) {
            ASSERT_EQ(loam_reserve_init(&range, size_t{1} << 31), 0);
        }
        {
            Stack s(reserved ? &range.source : nullptr);
            std::vector<loam_stack_frame> frames(kFrames);
            std::vector<int *> objects(kFrames);
            for (int round = 0; round < 2; round++) {
                for (int i = 0; i < kFrames; i++) {
                    frames[i] = s.push();
                    objects[i] = LOAM_STACK_NEW(&s, int);
                    ASSERT_NE(objects[i], nullptr);
                    *objects[i] = i;
                }
                ASSERT_TRUE(loam_stack_check(&s));
                for (int i = kFrames; i-- > 0;) {
                    ASSERT_EQ(*objects[i], i);
                    s.pop(frames[i]);
                }
                EXPECT_EQ(s.usage().used_bytes, 0u);
            }
        }
        if (reserved) loam_reserve_deinit(&range);
    }
}

TEST(Stack, AGigabyteAndMore) {
    if (kWatched) GTEST_SKIP() << "a shadow of it would be written";
    Counted counted;
    Stack s(&counted.source);
    loam_stack_frame frame = s.push();
    for (size_t bytes : {size_t{1} << 30, (size_t{1} << 30) + 12345, size_t{5} << 30}) {
        char *p = s.alloc(bytes);
        if (p == nullptr) continue; /* the system may say no */
        p[0] = p[bytes - 1] = 1;
    }
    EXPECT_TRUE(loam_stack_check(&s));
    s.pop(frame);
    for (int i = 0; i < 40; i++) s.pop(s.push());
    EXPECT_LE(counted.used_bytes, size_t{128} << 10);
}

TEST(Stack, OverAReservedRangeNothingIsSearched) {
    loam_reserve range;
    ASSERT_EQ(loam_reserve_init(&range, size_t{1} << 30), 0);
    {
        Stack s(&range.source);
        loam_stack_frame outer = s.push();
        char *last = s.alloc(100, 16);
        for (int i = 0; i < 50000; i++) {
            char *p = s.alloc(100, 16);
            ASSERT_GT(p, last) << "one block, in order";
            last = p;
            memset(p, 1, 100);
        }
        EXPECT_EQ(s.usage().chunks, 1u);
        EXPECT_LT(s.usage().requests, 12u);
        char *p = s.alloc(10, 16);
        EXPECT_EQ(loam_stack_realloc(&s, p, 10, 9000000), p) << "grows in place";
        s.pop(outer);
        for (int i = 0; i < 30; i++) s.pop(s.push());
        EXPECT_LT(s.usage().held_bytes, size_t{200} << 10) << "and gives back what is not needed";
    }
    loam_reserve_deinit(&range);
}

TEST(Stack, OverAReservedRangeBlocksOfAnySizeGrowInPlace) {
    for (size_t block : {300, 4100, 10001}) {
        loam_reserve reserve;
        ASSERT_EQ(loam_reserve_init(&reserve, size_t{64} << 20), 0);
        {
            Stack s(&reserve.source, with_block(block));
            loam_stack_frame frame = s.push();
            for (int i = 0; i < 10000; i++) (void)s.alloc(1000);
            EXPECT_EQ(s.usage().chunks, 1u) << block;
            s.pop(frame);
        }
        loam_reserve_deinit(&reserve);
    }
}

TEST(Stack, OverAReservedRangeTheSameAgainAsksNobody) {
    loam_reserve range;
    ASSERT_EQ(loam_reserve_init(&range, size_t{1} << 30), 0);
    {
        Counted counted(&range.source);
        Stack s(&counted.source);
        size_t gets = 0;
        for (int i = 0; i < 40; i++) {
            loam_stack_frame frame = s.push();
            for (int k = 0; k < 3000; k++) (void)s.alloc(1000);
            s.pop(frame);
            if (i == 5) gets = counted.gets;
        }
        EXPECT_EQ(counted.gets, gets);
    }
    loam_reserve_deinit(&range);
}

} // namespace

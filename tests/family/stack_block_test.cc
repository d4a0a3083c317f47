// stack_block_test.cc: a stack's blocks, rule by rule: how large a new one is, who moves to it,
// what a search destroys.
#include "stack_sources.h"

extern "C" {
#include "family/stack.h"
}

#include <cstring>
#include <vector>

namespace {

constexpr size_t kBlock = size_t{64} << 10;

std::vector<size_t> blocks_of(const loam_stack *stack) {
    std::vector<size_t> sizes;
    for (const lm_block_head_t *block = stack->first; block != nullptr; block = block->newer)
        sizes.push_back(block->bytes);
    return sizes;
}

/* Leaves less than `left` bytes, and no less than half of that, in the current block. */
void fill(Stack &s, size_t left) {
    while (static_cast<size_t>(s.stack.room.end - s.stack.room.at) > left + 64) (void)s.alloc(32);
    (void)s.alloc(static_cast<size_t>(s.stack.room.end - s.stack.room.at) - left / 2 - 1);
}

/* ---- How large ---- */

TEST(StackBlocks, HaveSixtyFourKibibytesAtLeast) {
    SKIP_UNLESS_PLAIN();
    Stack s;
    loam_stack_frame frame = s.push();
    for (int i = 0; i < 5000; i++) (void)s.alloc(100);
    for (size_t bytes : blocks_of(&s)) EXPECT_EQ(bytes, kBlock);
    s.pop(frame);
}

TEST(StackBlocks, HoldSixtyFourRequestsOfMeanSize) {
    SKIP_UNLESS_PLAIN();
    Stack s;
    loam_stack_frame frame = s.push();
    for (int i = 0; i < 3000; i++) (void)s.alloc(16 << 10);
    std::vector<size_t> sizes = blocks_of(&s);
    EXPECT_EQ(sizes.front(), kBlock);
    EXPECT_GE(sizes.back(), size_t{60} * (16 << 10));
    EXPECT_LE(sizes.back(), size_t{66} * (16 << 10));
    EXPECT_LT(sizes.size(), 70u) << "3000 requests in some sixty blocks, not in a thousand";
    s.pop(frame);
}

/* Samples are drawn by size: a plain mean of them would be that of the squares over the sum. */
TEST(StackBlocks, TheMeanIsThatOfAllRequests) {
    SKIP_UNLESS_PLAIN();
    for (uint64_t seed = 1; seed <= 3; seed++) {
        Stack s;
        Random random(seed);
        loam_stack_frame frame = s.push();
        double sum = 0, count = 0;
        for (int i = 0; i < 400000; i++) {
            size_t bytes =
                random.below(10) == 0 ? 1000 + random.below(8000) : 1 + random.below(200);
            sum += static_cast<double>(bytes);
            count++;
            (void)s.alloc(bytes);
        }
        auto mean = static_cast<double>(lm_stack_mean(&s));
        EXPECT_NEAR(mean, sum / count, sum / count * 0.25);
        s.pop(frame);
    }
}

TEST(StackBlocks, TheMeanFadesAndIsNotTruncated) {
    loam_stack stack = {};
    stack.block_bytes = kBlock;
    for (int i = 0; i < 100000; i++) lm_stack_sample(&stack, kBlock, 100);
    EXPECT_NEAR(static_cast<double>(lm_stack_mean(&stack)), 100, 1);
    EXPECT_LE(stack.count, 65535u + kBlock);
    size_t before = lm_stack_mean(&stack);
    lm_stack_sample(&stack, kBlock, size_t{1} << 30);
    EXPECT_GT(lm_stack_mean(&stack), before + (size_t{1} << 30) / 140000) << "a gigabyte counts";
    for (int i = 0; i < 20000; i++) lm_stack_sample(&stack, kBlock, 4096);
    EXPECT_NEAR(static_cast<double>(lm_stack_mean(&stack)), 4096, 10);
}

/* ---- Who moves ---- */

/* A frame whose block is full, and inner frames that come and go. */
size_t slow_calls(Stack &s, int rounds) {
    size_t changes = 0;
    const loam_stack_block *block = s.stack.block;
    for (int i = 0; i < rounds; i++) {
        loam_stack_frame inner = s.push();
        (void)s.alloc(40);
        changes += s.stack.block != block;
        block = s.stack.block;
        s.pop(inner);
        changes += s.stack.block != block;
        block = s.stack.block;
    }
    return changes;
}

TEST(StackBlocks, AFrameFollowsToTheBlockThatAPushNeeded) {
    SKIP_UNLESS_PLAIN();
    Stack s;
    loam_stack_frame outer = s.push();
    fill(s, 8);
    EXPECT_EQ(slow_calls(s, 100), 1u) << "the first one only";
    s.pop(outer);
}

TEST(StackBlocks, OlderFramesThatAreFullFollowToo) {
    SKIP_UNLESS_PLAIN();
    Stack s;
    loam_stack_frame base = s.push();
    for (int i = 0; i < 6000; i++) (void)s.alloc(300); /* the mean is 300 */
    loam_stack_mark mark = loam_stack_mark_here(&s);
    fill(s, 400);
    loam_stack_block *full = s.stack.block;
    loam_stack_frame older = s.push(), old = s.push(), inner = s.push();
    EXPECT_EQ(s.stack.block, full);
    (void)s.alloc(1000);
    EXPECT_NE(s.stack.block, full);
    EXPECT_TRUE(lm_record_is(inner.record, LM_RECORD_MOVED));
    EXPECT_TRUE(lm_record_is(old.record, LM_RECORD_MOVED));
    EXPECT_TRUE(lm_record_is(older.record, LM_RECORD_MOVED)) << "less than 300 bytes left";
    EXPECT_TRUE(loam_stack_check(&s));
    s.pop(inner);
    EXPECT_NE(s.stack.block, full);
    EXPECT_EQ(slow_calls(s, 100), 0u) << "all that is needed is in the block that they remember";
    s.pop(old);
    s.pop(older);
    EXPECT_NE(s.stack.block, full);
    EXPECT_TRUE(loam_stack_check(&s));
    loam_stack_rewind(&s, &mark);
    EXPECT_TRUE(loam_stack_check(&s));
    s.pop(base);
}

/* Then the block that they would go on in is free. */
TEST(StackBlocks, ARewindForgetsThatFramesFollowed) {
    for (unsigned flags : {0u, static_cast<unsigned>(LOAM_CHECK)}) {
        loam_stack_options options = with_block(4096);
        options.flags = flags;
        Stack s(nullptr, options);
        loam_stack_frame base = s.push();
        for (int i = 0; i < 200; i++) (void)s.alloc(1000);
        s.pop(base);
        base = s.push();
        const loam_stack_block *full = s.stack.block;
        const loam_stack_room *room = lm_stack_room(&s.stack);
        while (s.stack.block == full && room->end - room->at > 300) (void)s.alloc(24);
        loam_stack_frame old = s.push(), inner = s.push();
        loam_stack_mark mark = loam_stack_mark_here(&s);
        (void)s.alloc(1000);
        EXPECT_NE(s.stack.block, full);
        loam_stack_rewind(&s, &mark);
        EXPECT_EQ(s.stack.block, full);
        EXPECT_TRUE(loam_stack_check(&s));
        loam_stack_trim(&s);
        s.pop(inner);
        EXPECT_TRUE(loam_stack_check(&s));
        s.pop(old);
        EXPECT_EQ(s.stack.block, full);
        EXPECT_TRUE(loam_stack_check(&s));
        s.pop(base);
    }
}

/* A source whose chunks lie side by side, and which does not say so. */
TEST(StackBlocks, TheEndOfABlockIsNotTheBeginOfTheNext) {
    std::vector<char> memory(size_t{1} << 16);
    loam_buffer buffer;
    loam_buffer_init(&buffer, memory.data(), memory.size());
    buffer.source.flags = 0;
    Stack s(&buffer.source, with_block(4096));
    if (s.stack.redzone != 0) GTEST_SKIP() << "a tool's redzone lies at the end";
    loam_stack_frame frame = s.push();
    const loam_stack_room *room = lm_stack_room(&s.stack);
    for (size_t left; (left = static_cast<size_t>(room->end - room->at)) != 0;)
        (void)s.alloc(left > 1000 ? 100 : LOAM_DEBUG ? left - 112 : left);
    const loam_stack_block *full = s.stack.block;
    loam_stack_mark mark = loam_stack_mark_here(&s);
    (void)s.alloc(100);
    ASSERT_EQ(reinterpret_cast<const char *>(s.stack.block), lm_stack_end(full));
    loam_stack_rewind(&s, &mark);
    EXPECT_EQ(s.stack.block, full);
    memset(s.alloc(64), 1, 64);
    EXPECT_TRUE(loam_stack_check(&s));
    s.pop(frame);
}

TEST(StackBlocks, OlderFramesWithRoomStay) {
    SKIP_UNLESS_PLAIN();
    Stack s;
    loam_stack_frame base = s.push();
    for (int i = 0; i < 6000; i++) (void)s.alloc(300);
    while (s.stack.room.end - s.stack.room.at < 20000) (void)s.alloc(300);
    loam_stack_block *block = s.stack.block;
    char *at = s.stack.room.at;
    loam_stack_frame inner = s.push();
    (void)s.alloc(50000);
    EXPECT_NE(s.stack.block, block);
    EXPECT_FALSE(lm_record_is(inner.record, LM_RECORD_MOVED));
    s.pop(inner);
    EXPECT_EQ(s.stack.block, block);
    EXPECT_EQ(s.stack.room.at, at);
    s.pop(base);
}

/* ---- What a search destroys ---- */

struct Held {
    Counted counted;
    Stack s;
    loam_stack_frame frame;
    Held() : s(&counted.source), frame(s.push()) {}
    ~Held() { s.pop(frame); }
    /* So many free blocks of 64 KiB behind the current one. */
    void make_free(size_t count) {
        loam_stack_frame inner = s.push();
        for (size_t had = counted.gets; counted.gets < had + count;) (void)s.alloc(100);
        s.pop(inner);
        ASSERT_GE(blocks_of(&s).size(), count + 1);
    }
};

TEST(StackBlocks, AFreeOneThatIsLargeEnoughServes) {
    SKIP_UNLESS_PLAIN();
    Held held;
    held.make_free(4);
    size_t gets = held.counted.gets;
    loam_stack_frame inner = held.s.push();
    for (int i = 0; i < 2000; i++) (void)held.s.alloc(100);
    held.s.pop(inner);
    EXPECT_EQ(held.counted.gets, gets);
    EXPECT_EQ(held.counted.puts, 0u);
}

TEST(StackBlocks, ALargeRequestDestroysNoMoreThanItself) {
    SKIP_UNLESS_PLAIN();
    Held held;
    held.make_free(20);
    loam_stack_frame inner = held.s.push();
    char *p = held.s.alloc(160000);
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(held.counted.puts, 2u) << "two blocks have less than it, three have more";
    held.s.pop(inner);
    held.s.pop(held.s.push());
    inner = held.s.push();
    size_t gets = held.counted.gets;
    EXPECT_NE(held.s.alloc(160000), nullptr);
    EXPECT_EQ(held.counted.gets, gets) << "it is there again";
    held.s.pop(inner);
}

/* At least one goes with each search, so that there are no more of them after it; and the base
 * gives back what is left. */
TEST(StackBlocks, WhatIsAlwaysTooSmallDoesNotAccumulate) {
    SKIP_UNLESS_PLAIN();
    Held held;
    held.make_free(30);
    size_t bytes = 70000;
    for (int i = 0; i < 40; i++, bytes += 5000) {
        loam_stack_frame inner = held.s.push();
        ASSERT_NE(held.s.alloc(bytes), nullptr);
        held.s.pop(inner);
        ASSERT_TRUE(loam_stack_check(&held.s));
    }
    EXPECT_LE(blocks_of(&held.s).size(), 32u);
    held.s.pop(held.frame);
    for (int i = 0; i < 30; i++) held.s.pop(held.s.push());
    EXPECT_EQ(held.counted.used_bytes, kBlock);
    held.frame = held.s.push();
}

/* The case that the rule is for: small objects in a frame, one large one outside of it, again and
 * again. */
TEST(StackBlocks, TheWorstCaseTakesSevenAndAHalfMebibytesInAll) {
    SKIP_UNLESS_PLAIN();
    struct Summed {
        loam_source source;
        size_t sum, held, most;
    } summed = {};
    summed.source.get = [](loam_source *self, size_t bytes, size_t align, size_t *got) -> void * {
        auto *of = reinterpret_cast<Summed *>(self);
        void *p = loam_source_get(loam_pages(), bytes, align, got);
        of->sum += *got;
        of->held += *got;
        if (of->held > of->most) of->most = of->held;
        return p;
    };
    summed.source.put = [](loam_source *self, void *chunk, size_t got) {
        reinterpret_cast<Summed *>(self)->held -= got;
        loam_source_put(loam_pages(), chunk, got);
    };
    Stack s(&summed.source);
    loam_stack_frame base = s.push(), frame = s.push();
    for (int i = 0; i < 20; i++) {
        loam_stack_frame small = s.push();
        for (int k = 0; k < 20000; k++) (void)s.alloc(100);
        s.pop(small);
        (void)s.alloc(80000 + 4096 * 20);
    }
    s.pop(frame);
    s.pop(base);
    EXPECT_LE(summed.sum, size_t{15} << 19) << "7.5 MiB";
    EXPECT_LE(summed.most, size_t{5500000});
}

} // namespace

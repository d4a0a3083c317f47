/* stack_test.cc: what a metered library counts of stacks and rings. */
#include "meter.h"

#include "loam/stack.hpp"

namespace {

using namespace metered;

struct Stack {
    explicit Stack(loam_source *source = nullptr) {
        loam_stack_options options = {};
        options.name = own_name();
        EXPECT_EQ(loam_stack_init(&stack, source, &options), 0);
    }
    ~Stack() { loam_stack_deinit(&stack); }
    loam_meter_stats stats() { return stats_of("stack", own_name()); }
    loam_stack stack;
};

/* ---- Stacks ---- */

TEST(Stacks, AreCounted) {
    Counted counted;
    {
        Stack own(counted.source());
        loam_stack *stack = &own.stack;
        (void)!loam_stack_alloc(stack, 100);
        void *b = loam_stack_alloc_aligned(stack, 50, 8);
        b = loam_stack_realloc_aligned(stack, b, 50, 60, 8);
        void *c = loam_stack_calloc(stack, 3, 7);
        loam_stack_free(stack, c, 21);
        loam_stack_free(stack, nullptr, 5);
        (void)!loam_stack_strdup(stack, "four");
        (void)!loam_stack_strndup(stack, "abcdef", 3);
        (void)!loam_stack_memdup(stack, "abcdef", 6);
        (void)!loam_stack_sprintf(stack, "%d", 12345);
        (void)!LOAM_STACK_ARRAY(stack, short, 5);
        loam_meter_stats stats = own.stats();
        EXPECT_EQ(stats.allocators, 1u);
        EXPECT_EQ(stats.of[kAlloc].calls, 8u);
        EXPECT_EQ(stats.of[kFree].calls, 2u);
        EXPECT_EQ(stats.of[kRealloc].calls, 1u);
        EXPECT_EQ(stats.used, 100u + 60 + 5 + 4 + 6 + 6 + 10);
        EXPECT_EQ(stats.requested, stats.used + 50 + 21);
        EXPECT_EQ(stats.held, counted.count.used_bytes);
        EXPECT_EQ(stats.requests, counted.count.gets);
        loam_stack_reset(stack);
        EXPECT_EQ(own.stats().used, 0u);
        EXPECT_EQ(loam_stack_alloc(stack, SIZE_MAX), nullptr);
        EXPECT_EQ(own.stats().of[kAlloc].failed, 1u);
        (void)!loam_stack_alloc(stack, 7);
    }
    loam_meter_stats stats = stats_of("stack", own_name());
    EXPECT_EQ(stats.allocators, 0u);
    EXPECT_EQ(stats.used, 0u);
    EXPECT_EQ(stats.held, 0u);
}

TEST(Stacks, SlowCallsAreThoseThatTheSourceSaw) {
    Counted counted;
    Stack own(counted.source());
    loam_stack_frame frame = loam_stack_push(&own.stack);
    size_t slow = 0, gets = counted.count.gets;
    for (int i = 0; i < 5000; i++) {
        ASSERT_NE(loam_stack_alloc(&own.stack, 200), nullptr);
        slow += counted.count.gets != gets;
        gets = counted.count.gets;
        ASSERT_EQ(own.stats().of[kAlloc].slow, slow) << i;
        ASSERT_EQ(own.stats().held, counted.count.used_bytes);
        ASSERT_EQ(own.stats().requests, gets);
    }
    EXPECT_GT(slow, 3u);
    loam_stack_pop(&own.stack, frame);
    EXPECT_EQ(own.stats().used, 0u);
    (void)loam_stack_trim(&own.stack);
    EXPECT_EQ(own.stats().held, counted.count.used_bytes);
}

TEST(Stacks, PopsBringBackWhatWasUsed) {
    Stack own;
    std::vector<loam_stack_frame> frames;
    size_t expected = 0;
    for (size_t i = 1; i <= 200; i++) {
        (void)!loam_stack_alloc(&own.stack, i);
        expected += i;
        frames.push_back(loam_stack_push(&own.stack));
        ASSERT_EQ(own.stats().used, expected);
    }
    (void)!loam_stack_alloc(&own.stack, 200000);
    for (size_t i = 200; i >= 1; i--) {
        (void)!loam_stack_alloc(&own.stack, 3);
        loam_stack_pop(&own.stack, frames[i - 1]);
        ASSERT_EQ(own.stats().used, expected) << i;
        void *p = loam_stack_alloc(&own.stack, 50);
        loam_stack_free(&own.stack, p, 50);
        ASSERT_EQ(own.stats().used, expected) << i;
        expected -= i; /* of the frame below */
        if (i > 1) {
            loam_stack_frame inner = loam_stack_push(&own.stack);
            (void)!loam_stack_alloc(&own.stack, 77);
            loam_stack_pop(&own.stack, inner);
        }
    }
    EXPECT_EQ(own.stats().used, 1u);
    EXPECT_EQ(own.stats().used_most, 200u * 201 / 2 + 200003);
}

TEST(Stacks, FramesBeyondTheDeepestCountLater) {
    Stack own;
    std::vector<loam_stack_frame> frames;
    for (int i = 0; i < LOAM_METER_DEPTH + 10; i++) {
        (void)!loam_stack_alloc(&own.stack, 1);
        frames.push_back(loam_stack_push(&own.stack));
        (void)loam_stack_mark_here(&own.stack); /* none is kept there */
    }
    (void)!loam_stack_alloc(&own.stack, 1000);
    while (!frames.empty()) {
        loam_stack_pop(&own.stack, frames.back());
        frames.pop_back();
    }
    EXPECT_EQ(own.stats().used, 1u);
}

TEST(Stacks, MarksBringBackWhatWasUsed) {
    Stack own;
    loam_stack *stack = &own.stack;
    loam_stack_mark none = loam_stack_mark_here(stack);
    (void)!loam_stack_alloc(stack, 10);
    loam_stack_mark outer = loam_stack_mark_here(stack), same = loam_stack_mark_here(stack);
    (void)!loam_stack_alloc(stack, 20);
    loam_stack_mark inner = loam_stack_mark_here(stack);
    for (int i = 0; i < 3 * LOAM_METER_DEPTH; i++) { /* used again, and made again */
        (void)!loam_stack_alloc(stack, 500);
        EXPECT_EQ(own.stats().used, 530u);
        loam_stack_rewind(stack, &inner);
        ASSERT_EQ(own.stats().used, 30u) << i;
        if (i % 2 == 0) inner = loam_stack_mark_here(stack);
    }
    loam_stack_frame frame = loam_stack_push(stack);
    (void)!loam_stack_alloc(stack, 40);
    loam_stack_mark in_frame = loam_stack_mark_here(stack);
    (void)!loam_stack_alloc(stack, 100000);
    loam_stack_rewind(stack, &in_frame);
    EXPECT_EQ(own.stats().used, 70u);
    loam_stack_pop(stack, frame);
    EXPECT_EQ(own.stats().used, 30u);
    loam_stack_rewind(stack, &same); /* past the inner one */
    EXPECT_EQ(own.stats().used, 10u);
    loam_stack_rewind(stack, &outer);
    EXPECT_EQ(own.stats().used, 10u);
    loam_stack_rewind(stack, &none);
    EXPECT_EQ(own.stats().used, 0u);
    (void)!loam_stack_alloc(stack, 5);
    EXPECT_EQ(own.stats().used, 5u);
}

TEST(Stacks, MarksBeyondTheDeepestAreNotKept) {
    Stack own;
    (void)!loam_stack_alloc(&own.stack, 10);
    loam_stack_frame frame = loam_stack_push(&own.stack);
    for (int i = 0; i < LOAM_METER_DEPTH + 10; i++) {
        (void)loam_stack_mark_here(&own.stack);
        (void)!loam_stack_alloc(&own.stack, 1);
    }
    loam_stack_pop(&own.stack, frame);
    EXPECT_EQ(own.stats().used, 10u);
}

TEST(Stacks, UnwindingEndsFramesForTheMeterToo) {
    Stack own;
    loam_stack_frame outer = loam_stack_push(&own.stack);
    (void)!loam_stack_alloc(&own.stack, 5);
    for (int i = 0; i < 10; i++) {
        (void)!loam_stack_push(&own.stack).record;
        (void)!loam_stack_alloc(&own.stack, 100);
    }
    loam_stack_unwind(&own.stack, &outer);
    EXPECT_EQ(own.stats().used, 5u);
    loam_stack_pop(&own.stack, outer);
    EXPECT_EQ(own.stats().used, 0u);
}

TEST(Stacks, AFrameWithoutMemoryIsNone) {
    Counted counted;
    loam_limit limit;
    loam_limit_init(&limit, counted.source(), 65536);
    Stack own(&limit.source);
    loam_stack_frame outer = loam_stack_push(&own.stack);
    size_t used = 0;
    while (loam_stack_alloc(&own.stack, 16) != nullptr) used += 16;
#ifdef LOAM_DEBUG
    EXPECT_GT(used, 1000u); /* guards take the rest */
#else
    EXPECT_GT(used, 10000u);
#endif
    while (loam_stack_alloc_aligned(&own.stack, 1, 1) != nullptr) used++;
    EXPECT_EQ(own.stats().of[kAlloc].failed, 2u);
    std::vector<loam_stack_frame> frames; /* what guards left may be enough for some */
    do frames.push_back(loam_stack_push(&own.stack));
    while (loam_stack_pushed_it(&frames.back()));
    for (size_t i = frames.size(); i-- > 0;) {
        loam_stack_pop(&own.stack, frames[i]);
        EXPECT_EQ(own.stats().used, used);
    }
    loam_stack_pop(&own.stack, outer);
    EXPECT_EQ(own.stats().used, 0u);
}

TEST(Stacks, ScopesOfTheThreadsStack) {
    size_t before = stats_of("stack", "").used, calls = stats_of("stack", "").of[kAlloc].calls;
    for (int i = 0; i < 10; i++) {
        LOAM_SCOPE;
        (void)!loam_scope_alloc(100);
        (void)!LOAM_SCOPE_ARRAY(int, 10);
        EXPECT_EQ(stats_of("stack", "").used, before + 140);
    }
    {
        loam::scope scope;
        (void)!scope.make<long>(3);
        EXPECT_EQ(stats_of("stack", "").used, before + sizeof(long));
    }
    EXPECT_EQ(stats_of("stack", "").used, before);
    EXPECT_EQ(stats_of("stack", "").of[kAlloc].calls, calls + 21);
}

/* ---- Rings ---- */

TEST(Rings, FramesEndInAnyOrder) {
    Counted counted;
    loam_ring ring;
    loam_ring_options options = {};
    options.name = own_name();
    ASSERT_EQ(loam_ring_init(&ring, counted.source(), &options), 0);
    auto stats = [] { return stats_of("ring", own_name()); };
    std::vector<loam_ring_frame *> frames;
    for (size_t i = 0; i < 100; i++) {
        frames.push_back(loam_ring_open(&ring));
        void *p = loam_ring_alloc(&ring, 1000);
        (void)!loam_ring_calloc(&ring, 3, 100);
        p = loam_ring_realloc(&ring, p, 1000, 5000); /* moves */
        void *last = loam_ring_alloc(&ring, 10);
        last = loam_ring_realloc(&ring, last, 10, 20);
        loam_ring_free(&ring, last, 20);
        ASSERT_EQ(stats().used, (i + 1) * 5300);
    }
    EXPECT_EQ(stats().of[kAlloc].calls, 300u);
    EXPECT_EQ(stats().of[kFree].calls, 100u);
    EXPECT_EQ(stats().of[kRealloc].calls, 200u);
    EXPECT_EQ(stats().held, counted.count.used_bytes);
    EXPECT_EQ(stats().requests, counted.count.gets);
    void *newest = loam_ring_alloc(&ring, 7);
    EXPECT_EQ(stats().used, 100u * 5300 + 7);
    for (size_t i = 0; i < 100; i++) {
        loam_ring_release(&ring, frames[i * 37 % 100]);
        size_t more = i * 37 % 100 == 99 ? 7 : 0;
        static size_t gone;
        gone = i == 0 ? more : gone + more;
        ASSERT_EQ(stats().used, (99 - i) * 5300 + 7 - gone) << i;
        ASSERT_EQ(stats().held, counted.count.used_bytes);
    }
    (void)newest;
    EXPECT_EQ(stats().used, 0u);
    EXPECT_TRUE(loam_ring_check(&ring));
    loam_ring_deinit(&ring);
    EXPECT_EQ(stats().held, 0u);
    EXPECT_EQ(stats().allocators, 0u);
}

TEST(Rings, ObjectsOfOlderFramesCountThere) {
    loam_ring ring;
    loam_ring_options options = {};
    options.name = own_name();
    ASSERT_EQ(loam_ring_init(&ring, nullptr, &options), 0);
    auto used = [] { return stats_of("ring", own_name()).used; };
    loam_ring_frame *older = loam_ring_open(&ring);
    void *p = loam_ring_alloc(&ring, 100);
    (void)!loam_ring_alloc(&ring, 30);
    loam_ring_frame *newer = loam_ring_open(&ring);
    (void)!loam_ring_alloc(&ring, 1);
    loam_ring_free(&ring, p, 100);
    EXPECT_EQ(used(), 31u);
    loam_ring_release(&ring, older);
    EXPECT_EQ(used(), 1u);
    loam_ring_release(&ring, newer);
    EXPECT_EQ(used(), 0u);
    loam_ring_deinit(&ring);
}

} // namespace

/* stack_test.c: stacks and rings over a buffer of static memory. */
#include "harness.h"

#include "loam/ring.h"
#include "loam/stack.h"

enum { BYTES = 16384 };
static _Alignas(64) char memory[BYTES];
static loam_buffer buffer;
static loam_stack stack;
static loam_ring ring;

static void begin(unsigned flags, const char *name) {
    loam_stack_options options = {.block_bytes = 1024, .flags = flags, .name = name};
    loam_buffer_init(&buffer, memory, BYTES);
    CHECK_EQUAL(loam_stack_init(&stack, &buffer.source, &options), 0);
}

/* Ends the stack; the buffer must be whole again. */
static void end(void) {
    CHECK(loam_stack_check(&stack));
    loam_stack_deinit(&stack);
    CHECK_EQUAL(buffer.out, 0);
    CHECK(buffer.at == buffer.start);
}

TEST(there_is_no_default_source) {
    CHECK_EQUAL(loam_stack_init(&stack, NULL, NULL), -22);
    CHECK_EQUAL(loam_ring_init(&ring, NULL, NULL), -22);
}

TEST(objects_are_aligned_and_frames_nest) {
    begin(0, NULL);
    loam_stack_frame outer = loam_stack_push(&stack);
    char *kept = loam_stack_alloc_aligned(&stack, 5, 1);
    kept[4] = 7;
    for (int round = 0; round < 3; round++) {
        loam_stack_frame inner = loam_stack_push(&stack);
        for (size_t align = 1; align <= 256; align *= 2) {
            char *p = loam_stack_alloc_aligned(&stack, 5, align);
            CHECK(p != NULL);
            CHECK_EQUAL((uintptr_t)p % align, 0);
            for (int i = 0; i < 5; i++) p[i] = 1;
        }
        uint64_t *wide = LOAM_STACK_NEW(&stack, uint64_t);
        CHECK_EQUAL((uintptr_t)wide % 8, 0);
        CHECK_EQUAL((uintptr_t)loam_stack_alloc(&stack, 24) % 16, 0);
        loam_stack_pop(&stack, inner);
    }
    CHECK_EQUAL(kept[4], 7);
    loam_stack_pop(&stack, outer);
    end();
}

TEST(exhausted_gives_null_and_goes_on_after_a_pop) {
    begin(0, NULL);
    for (int round = 0; round < 3; round++) {
        loam_stack_frame frame = loam_stack_push(&stack);
        size_t sum = 0;
        char *p;
        while ((p = loam_stack_alloc(&stack, 100)) != NULL) {
            CHECK(p >= memory && p + 100 <= memory + BYTES);
            p[0] = p[99] = 1;
            sum += 100;
        }
        CHECK(sum > BYTES / (LOAM_DEBUG ? 8 : 2));
        CHECK(loam_stack_check(&stack));
        loam_stack_pop(&stack, frame);
    }
    end();
}

TEST(sizes_that_cannot_be_are_null) {
    begin(0, NULL);
    volatile size_t most = SIZE_MAX, half = PTRDIFF_MAX, odd = 24;
    CHECK(loam_stack_alloc(&stack, most) == NULL);
    CHECK(loam_stack_alloc(&stack, half) == NULL);
    CHECK(loam_stack_alloc(&stack, (size_t)1 << 30) == NULL);
    CHECK(loam_stack_alloc_aligned(&stack, 8, odd) == NULL);
    CHECK(loam_stack_calloc(&stack, most / 8 + 2, 8) == NULL);
    CHECK(loam_stack_alloc(&stack, 0) != NULL);
    end();
}

TEST(mistakes_are_reported) {
    begin(LOAM_CHECK, "calls");
    loam_stack_frame outer = loam_stack_push(&stack), inner = loam_stack_push(&stack);
    CHECK_ABORTS(loam_stack_pop(&stack, outer), "pop of a frame that is not the newest");
    char *p = loam_stack_alloc(&stack, 20);
    p[20] = 1;
    CHECK_ABORTS(loam_stack_pop(&stack, inner), "overflow of");
    p[20] = (char)0xe7;
    loam_stack_seal(&stack);
    CHECK_ABORTS((void)!loam_stack_alloc(&stack, 8), "allocation in a sealed frame");
    loam_stack_pop(&stack, inner);
    loam_stack_pop(&stack, outer);
    end();
}

TEST(frames_of_a_ring_end_in_any_order) {
    loam_ring_options options = {.block_bytes = 1024};
    loam_buffer_init(&buffer, memory, BYTES);
    CHECK_EQUAL(loam_ring_init(&ring, &buffer.source, &options), 0);
    loam_ring_frame *frames[4] = {NULL, NULL, NULL, NULL};
    for (unsigned i = 0; i < 400; i++) {
        loam_ring_frame **frame = &frames[i * 7 % 4];
        loam_ring_release(&ring, *frame);
        *frame = loam_ring_open(&ring);
        CHECK(*frame != NULL);
        char *p = loam_ring_alloc(&ring, 60);
        CHECK(p != NULL);
        if (p != NULL) p[0] = p[59] = 1;
        CHECK(loam_ring_check(&ring));
    }
    for (int i = 0; i < 4; i++) loam_ring_release(&ring, frames[i]);
    loam_ring_deinit(&ring);
    CHECK_EQUAL(buffer.out, 0);
}

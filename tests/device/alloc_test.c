/* alloc_test.c: handles to one of each allocator on a device. */
#include "harness.h"

#include "loam/alloc.h"
#include "loam/blocks.h"
#include "loam/fifo.h"
#include "loam/pool.h"
#include "loam/region.h"
#include "loam/ring.h"
#include "loam/stack.h"

static _Alignas(64) char memory[24 * 1024];

/* What a function does that does not care which allocator it is. */
static bool keeps_what_it_grows(loam_alloc alloc, size_t most) {
    unsigned char *p = loam_alloc_alloc(alloc, 1, 4);
    if (p == NULL) return false;
    p[0] = 7;
    for (size_t bytes = 2; bytes <= most; bytes *= 2) {
        p = loam_alloc_realloc(alloc, p, bytes / 2, bytes, 4);
        if (p == NULL || (uintptr_t)p % 4 != 0) return false;
        for (size_t i = bytes / 2; i < bytes; i++) p[i] = (unsigned char)(i + 7);
        for (size_t i = 0; i < bytes; i++) {
            if (p[i] != (unsigned char)(i + 7)) return false;
        }
    }
    bool zero = true;
    unsigned char *q = loam_alloc_calloc(alloc, 4, 4, 4);
    for (size_t i = 0; q != NULL && i < 16; i++) zero = zero && q[i] == 0;
    loam_alloc_free(alloc, q, 16, 4);
    loam_alloc_free(alloc, p, most, 4);
    return q != NULL && zero;
}

TEST(region_by_handle) {
    loam_buffer buffer;
    loam_region region;
    loam_buffer_init(&buffer, memory, sizeof(memory));
    CHECK_EQUAL(loam_region_init(&region, &buffer.source, NULL), 0);
    CHECK(keeps_what_it_grows(loam_region_as_alloc(&region), 512));
    CHECK(loam_alloc_alloc(loam_region_as_alloc(&region), sizeof(memory), 4) == NULL);
    loam_region_deinit(&region);
}

TEST(pool_by_handle) {
    loam_pool pool;
    CHECK_EQUAL(loam_pool_init_buffer(&pool, memory, sizeof(memory), 64, NULL), 0);
    loam_alloc alloc = loam_pool_as_alloc(&pool);
    CHECK(keeps_what_it_grows(alloc, 64));
    CHECK(loam_alloc_alloc(alloc, 65, 4) == NULL);
    CHECK(loam_alloc_alloc(alloc, 8, 4096) == NULL);
    CHECK(loam_alloc_alloc(alloc, 8, 3) == NULL);
    loam_pool_deinit(&pool);
}

TEST(blocks_by_handle) {
    loam_blocks blocks;
    loam_blocks_options options = {.memory = memory, .memory_bytes = sizeof(memory)};
    CHECK_EQUAL(loam_blocks_init(&blocks, &options), 0);
    CHECK(keeps_what_it_grows(loam_blocks_as_alloc(&blocks), 512));
    loam_blocks_deinit(&blocks);
}

TEST(fifo_by_handle) {
    loam_buffer buffer;
    loam_fifo fifo;
    loam_fifo_options options = {.page_bytes = 2048};
    loam_buffer_init(&buffer, memory, sizeof(memory));
    CHECK_EQUAL(loam_fifo_init(&fifo, &buffer.source, &options), 0);
    CHECK(keeps_what_it_grows(loam_fifo_as_alloc(&fifo), 512));
    CHECK(loam_alloc_alloc(loam_fifo_as_alloc(&fifo), sizeof(memory), 4) == NULL);
    loam_fifo_deinit(&fifo);
}

TEST(stack_by_handle) {
    loam_buffer buffer;
    loam_stack stack;
    loam_stack_options options = {.block_bytes = 1024};
    loam_buffer_init(&buffer, memory, sizeof(memory));
    CHECK_EQUAL(loam_stack_init(&stack, &buffer.source, &options), 0);
    for (int i = 0; i < 100; i++) { /* more than there is, but for the pops */
        loam_stack_frame frame = loam_stack_push(&stack);
        CHECK(keeps_what_it_grows(loam_stack_as_alloc(&stack), 512));
        loam_stack_pop(&stack, frame);
    }
    CHECK(loam_alloc_alloc(loam_stack_as_alloc(&stack), sizeof(memory), 4) == NULL);
    loam_stack_deinit(&stack);
}

TEST(ring_by_handle) {
    loam_buffer buffer;
    loam_ring ring;
    loam_ring_options options = {.block_bytes = 4096};
    loam_buffer_init(&buffer, memory, sizeof(memory));
    CHECK_EQUAL(loam_ring_init(&ring, &buffer.source, &options), 0);
    for (int i = 0; i < 100; i++) {
        loam_ring_frame *frame = loam_ring_open(&ring);
        CHECK(keeps_what_it_grows(loam_ring_as_alloc(&ring), 512));
        loam_ring_release(&ring, frame);
    }
    loam_ring_deinit(&ring);
}

TEST(no_handle) {
    loam_alloc none = {NULL, NULL};
    CHECK(loam_alloc_alloc(none, 1, 1) == NULL);
    loam_alloc_free(none, NULL, 0, 1);
    CHECK_ABORTS(loam_alloc_free(none, memory, 1, 1), "by a handle to no allocator");
}

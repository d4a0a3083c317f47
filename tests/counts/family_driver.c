/* family_driver.c: the inline paths of the family, each in a function of its own, for
 * family_counts.py.
 *
 * Compiled with -O2. As in count_driver.c, callgrind clears its counters where a window opens and
 * writes them to a file where it closes; one line a window goes to standard output: the function,
 * and what is to be seen in it. The setting is each path's common case: room in the chunk, a block
 * in the list.
 *
 *   family_driver        every path, WINDOWS times
 */
#include "loam/blocks.h"
#include "loam/fifo.h"
#include "loam/pool.h"
#include "loam/region.h"
#include "loam/ring.h"
#include "loam/stack.h"

#include <stdio.h>
#include <stdlib.h>

#define WINDOWS 8
#ifdef __clang__ /* which makes no clones, and does not know the word */
#define COUNTED __attribute__((noinline, used))
#else
#define COUNTED __attribute__((noinline, noclone, used))
#endif

COUNTED void window_open(void);
COUNTED void window_close(void);
COUNTED void *region_alloc_24_by_8(loam_region *region);
COUNTED void *region_alloc_24_by_16(loam_region *region);
COUNTED void *region_alloc_64_by_8(loam_region *region);
COUNTED void *region_alloc_64_by_16(loam_region *region);
COUNTED void *region_alloc_any(loam_region *region, size_t bytes);
COUNTED void region_free_24(loam_region *region, void *p);
COUNTED void region_free_any(loam_region *region, void *p, size_t bytes);
COUNTED void *stack_alloc_24_by_8(loam_stack *stack);
COUNTED void *stack_alloc_24_by_16(loam_stack *stack);
COUNTED void *stack_alloc_64_by_16(loam_stack *stack);
COUNTED void *stack_alloc_13_by_1(loam_stack *stack);
COUNTED void *stack_alloc_any(loam_stack *stack, size_t bytes);
COUNTED void *stack_of_thread_24_by_8(void);
COUNTED void *stack_realloc(loam_stack *stack, void *p, size_t old_bytes, size_t bytes);
COUNTED void stack_scope(loam_stack *stack);
COUNTED void *ring_alloc_24(loam_ring *ring);
COUNTED void *pool_alloc(loam_pool *pool);
COUNTED void pool_free(loam_pool *pool, void *block);
COUNTED void *blocks_alloc_24(loam_blocks *blocks);
COUNTED void *blocks_alloc_any(loam_blocks *blocks, size_t bytes);
COUNTED void blocks_free(loam_blocks *blocks, void *p);
COUNTED void *fifo_alloc_24(loam_fifo *fifo);
COUNTED void *fifo_alloc_any(loam_fifo *fifo, size_t bytes);
COUNTED void *fifo_alloc_any_by_8(loam_fifo *fifo, size_t bytes);
COUNTED void fifo_free(loam_fifo *fifo, void *p);

void window_open(void) { __asm__ volatile("" ::: "memory"); }
void window_close(void) { __asm__ volatile("" ::: "memory"); }

void *region_alloc_24_by_8(loam_region *region) { return loam_region_alloc_aligned(region, 24, 8); }
void *region_alloc_24_by_16(loam_region *region) { return loam_region_alloc(region, 24); }
void *region_alloc_64_by_8(loam_region *region) { return loam_region_alloc_aligned(region, 64, 8); }
void *region_alloc_64_by_16(loam_region *region) { return loam_region_alloc(region, 64); }
void *region_alloc_any(loam_region *region, size_t bytes) {
    return loam_region_alloc(region, bytes);
}
void region_free_24(loam_region *region, void *p) { loam_region_free(region, p, 24); }
void region_free_any(loam_region *region, void *p, size_t bytes) {
    loam_region_free(region, p, bytes);
}
void *stack_alloc_24_by_8(loam_stack *stack) { return loam_stack_alloc_aligned(stack, 24, 8); }
void *stack_alloc_24_by_16(loam_stack *stack) { return loam_stack_alloc(stack, 24); }
void *stack_alloc_64_by_16(loam_stack *stack) { return loam_stack_alloc(stack, 64); }
void *stack_alloc_13_by_1(loam_stack *stack) { return loam_stack_alloc_aligned(stack, 13, 1); }
void *stack_alloc_any(loam_stack *stack, size_t bytes) { return loam_stack_alloc(stack, bytes); }
void *stack_of_thread_24_by_8(void) { return loam_stack_alloc_aligned(loam_thread_stack(), 24, 8); }
void *stack_realloc(loam_stack *stack, void *p, size_t old_bytes, size_t bytes) {
    return loam_stack_realloc(stack, p, old_bytes, bytes);
}
/* push and pop */
void stack_scope(loam_stack *stack) {
    LOAM_STACK_SCOPE(stack);
    __asm__ volatile("" ::: "memory"); /* or the compiler sees that nothing was in it */
}
void *ring_alloc_24(loam_ring *ring) { return loam_ring_alloc(ring, 24); }
void *pool_alloc(loam_pool *pool) { return loam_pool_alloc(pool); }
void pool_free(loam_pool *pool, void *block) { loam_pool_free(pool, block); }
void *blocks_alloc_24(loam_blocks *blocks) { return loam_blocks_alloc(blocks, 24); }
void *blocks_alloc_any(loam_blocks *blocks, size_t bytes) {
    return loam_blocks_alloc(blocks, bytes);
}
void blocks_free(loam_blocks *blocks, void *p) { loam_blocks_free(blocks, p); }
void *fifo_alloc_24(loam_fifo *fifo) { return loam_fifo_alloc(fifo, 24); }
void *fifo_alloc_any(loam_fifo *fifo, size_t bytes) { return loam_fifo_alloc(fifo, bytes); }
void *fifo_alloc_any_by_8(loam_fifo *fifo, size_t bytes) {
    return loam_fifo_alloc_aligned(fifo, bytes, 8);
}
void fifo_free(loam_fifo *fifo, void *p) { loam_fifo_free(fifo, p); }

#define WINDOW(call, label) \
    do { \
        window_open(); \
        call; \
        window_close(); \
        printf("%s\n", label); \
    } while (0)

/* The compiler must not know what a region gave. */
static void *volatile given;

static void regions(void) {
    loam_region region;
    if (loam_region_init(&region, NULL, NULL) != 0) exit(2);
    given = loam_region_alloc(&region, 16); /* the first chunk is there */
    for (int i = 0; i < WINDOWS; i++) {
        WINDOW(given = region_alloc_24_by_8(&region), "region_alloc_24_by_8");
        WINDOW(given = region_alloc_24_by_16(&region), "region_alloc_24_by_16");
        WINDOW(given = region_alloc_64_by_8(&region), "region_alloc_64_by_8");
        WINDOW(given = region_alloc_64_by_16(&region), "region_alloc_64_by_16");
        given = loam_region_alloc(&region, 24);
        WINDOW(region_free_24(&region, given), "region_free_24 the last object");
        WINDOW(given = region_alloc_any(&region, 40), "region_alloc_any");
        WINDOW(region_free_any(&region, given, 40), "region_free_any the last object");
    }
    loam_region_deinit(&region);
}

static void stacks(void) {
    loam_stack stack;
    loam_ring ring;
    if (loam_stack_init(&stack, NULL, NULL) != 0 || loam_ring_init(&ring, NULL, NULL) != 0) exit(2);
    loam_stack_frame frame = loam_stack_push(&stack);
    loam_stack_frame own = loam_stack_push(loam_thread_stack());
    given = loam_ring_open(&ring);
    for (int i = 0; i < WINDOWS; i++) {
        WINDOW(given = stack_alloc_24_by_8(&stack), "stack_alloc_24_by_8");
        WINDOW(given = stack_alloc_24_by_16(&stack), "stack_alloc_24_by_16");
        WINDOW(given = stack_alloc_64_by_16(&stack), "stack_alloc_64_by_16");
        WINDOW(given = stack_alloc_13_by_1(&stack), "stack_alloc_13_by_1");
        WINDOW(given = stack_alloc_any(&stack, 40), "stack_alloc_any");
        WINDOW(given = stack_realloc(&stack, given, 40, 80), "stack_realloc the last object");
        WINDOW(stack_scope(&stack), "stack_scope push and pop");
        WINDOW(given = stack_of_thread_24_by_8(), "stack_of_thread_24_by_8");
        WINDOW(given = ring_alloc_24(&ring), "ring_alloc_24");
    }
    loam_stack_pop(loam_thread_stack(), own);
    loam_stack_pop(&stack, frame);
    loam_stack_deinit(&stack);
    loam_ring_deinit(&ring);
}

static void pools(void) {
    loam_pool pool;
    void *blocks[WINDOWS];
    if (loam_pool_init(&pool, NULL, 64, NULL) != 0) exit(2);
    given = loam_pool_alloc(&pool); /* the first chunk is there */
    for (int i = 0; i < WINDOWS; i++) {
        WINDOW(given = pool_alloc(&pool), "pool_alloc fresh");
        blocks[i] = given;
    }
    for (int i = 0; i < WINDOWS; i++) WINDOW(pool_free(&pool, blocks[i]), "pool_free");
    for (int i = 0; i < WINDOWS; i++) WINDOW(given = pool_alloc(&pool), "pool_alloc recycled");
    loam_pool_deinit(&pool);
}

static void blocks_of(unsigned flags, const char *kind) {
    loam_blocks blocks;
    loam_blocks_options options = {.flags = flags};
    void *held[4 * WINDOWS];
    char label[64];
    if (loam_blocks_init(&blocks, &options) != 0) exit(2);
    for (int i = 0; i < 4 * WINDOWS; i++) held[i] = loam_blocks_alloc(&blocks, 24);
    for (int i = 0; i < 4 * WINDOWS; i++) loam_blocks_free(&blocks, held[i]);
    for (int i = 0; i < WINDOWS; i++) {
        snprintf(label, sizeof(label), "blocks_alloc_24 %s", kind);
        WINDOW(given = blocks_alloc_24(&blocks), label);
        held[i] = given;
        snprintf(label, sizeof(label), "blocks_alloc_any %s", kind);
        WINDOW(given = blocks_alloc_any(&blocks, 24), label);
        held[WINDOWS + i] = given;
    }
    for (int i = 0; i < 2 * WINDOWS; i++) {
        snprintf(label, sizeof(label), "blocks_free %s", kind);
        WINDOW(blocks_free(&blocks, held[i]), label);
    }
    loam_blocks_deinit(&blocks);
}

static void fifos(void) {
    loam_fifo fifo;
    if (loam_fifo_init(&fifo, NULL, NULL) != 0) exit(2);
    given = loam_fifo_alloc(&fifo, 16); /* the first page is there, and its first KiB are zero */
    for (int i = 0; i < WINDOWS; i++) {
        WINDOW(given = fifo_alloc_24(&fifo), "fifo_alloc_24");
        WINDOW(given = fifo_alloc_any(&fifo, 40), "fifo_alloc_any");
        WINDOW(given = fifo_alloc_any_by_8(&fifo, 40), "fifo_alloc_any_by_8");
        WINDOW(fifo_free(&fifo, given), "fifo_free");
    }
    loam_fifo_deinit(&fifo);
}

int main(void) {
    static char output[1 << 14];
    setvbuf(stdout, output, _IOFBF, sizeof(output)); /* nothing is allocated in a window */
    regions();
    stacks();
    pools();
    fifos();
    blocks_of(0, "of one thread");
    blocks_of(LOAM_THREADS, "of many threads");
    return fflush(stdout) == 0 ? 0 : 1;
}

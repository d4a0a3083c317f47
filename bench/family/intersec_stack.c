// intersec_stack.c: the rules of intersec_stack.h. The two policies share everything but what their
// names say.
#include "intersec_stack.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    SYSTEM_PAGE = 4096,
    BLOCK_MIN = 64 << 10,
    BLOCK_MEANS = 64, // a block holds at least so many requests of mean size
    FRAME_ALIGNMENT = 16,
    MEAN_WINDOW = 65535,
};
static const size_t OLD_TRUNCATION = (size_t)128 << 20;

static unsigned char *area(struct stack_block *block) { return (unsigned char *)(block + 1); }

static unsigned char *end_of(struct stack_block *block) { return area(block) + block->size; }

// ---- the running mean ------------------------------------------------------------------------

static inline void mean_add(struct mean *mean, size_t request) {
    mean->sum += request;
    mean->count++;
}

static inline void mean_forget(struct mean *mean) {
    mean->sum /= 4;
    mean->count /= 4;
}

static inline void old_update(struct mean *mean, size_t request) {
    if (request >= OLD_TRUNCATION) return;
    if (mean->sum + request < mean->sum || mean->count >= MEAN_WINDOW) mean_forget(mean);
    mean_add(mean, request);
}

static inline void new_update(struct mean *mean, size_t request) {
    if (__builtin_expect(mean->count >= MEAN_WINDOW, 0)) mean_forget(mean);
    mean_add(mean, request);
}

void mean_old_update(struct mean *mean, size_t request) { old_update(mean, request); }
void mean_new_update(struct mean *mean, size_t request) { new_update(mean, request); }
size_t mean_get(const struct mean *mean) { return mean->sum / mean->count; }

// ---- blocks ----------------------------------------------------------------------------------

static void tell(struct stack *stack) {
    if (stack->watch) stack->watch(stack->watcher);
}

static struct stack_block *block_new(struct stack *stack, struct stack_block *after, size_t need) {
    size_t bytes = need + sizeof(struct stack_block);
    size_t by_mean = BLOCK_MEANS * mean_get(&stack->mean);
    if (bytes < BLOCK_MIN) bytes = BLOCK_MIN;
    if (bytes < by_mean) bytes = by_mean;
    bytes = (bytes + SYSTEM_PAGE - 1) / SYSTEM_PAGE * SYSTEM_PAGE;
    struct stack_block *block = bytes < need ? NULL : malloc(bytes);
    if (!block) return NULL;
    block->size = bytes - sizeof *block;
    block->previous = after;
    block->next = after->next;
    after->next->previous = block;
    after->next = block;
    stack->held += bytes;
    stack->held_in_all += bytes;
    stack->blocks_got++;
    tell(stack);
    return block;
}

static void block_destroy(struct stack *stack, struct stack_block *block) {
    block->previous->next = block->next;
    block->next->previous = block->previous;
    stack->held -= block->size + sizeof *block;
    free(block);
    tell(stack);
}

// A block with NEED bytes of room from those behind AT, which are all free, or a fresh one.
static inline __attribute__((always_inline)) struct stack_block *
next_block(struct stack *stack, struct stack_block *at, size_t need, bool old) {
    size_t destroyed = 0;
    struct stack_block *block = at->next;
    while (block != &stack->root) {
        struct stack_block *next = block->next;
        if (block->size >= need) return block;
        if (!old && destroyed >= need) break;
        destroyed += block->size;
        block_destroy(stack, block);
        block = next;
    }
    return block_new(stack, at, need);
}

static struct stack_block *old_next_block(struct stack *stack, struct stack_block *at,
                                          size_t need) {
    return next_block(stack, at, need, true);
}

static void move_to(struct stack_frame *frame, struct stack_block *block) {
    frame->block = block;
    frame->position = frame->last = area(block);
}

// The current frame moves to the next block, and with it the frames below that a usual request
// would send there.
static bool new_advance(struct stack *stack, size_t need) {
    struct stack_frame *frame = stack->top;
    struct stack_block *full = frame->block;
    struct stack_block *block = next_block(stack, full, need, false);
    if (!block) return false;
    move_to(frame, block);
    size_t usual = mean_get(&stack->mean);
    for (frame = frame->previous; frame && frame->block == full; frame = frame->previous) {
        if ((size_t)(end_of(full) - frame->position) >= usual) break;
        move_to(frame, block);
    }
    return true;
}

// ---- alloc, push, pop ------------------------------------------------------------------------

static inline uintptr_t align_by_log(uintptr_t address, unsigned log) {
    uintptr_t below = ((uintptr_t)1 << log) - 1;
    return (address + below) & ~below;
}

static inline unsigned char *align(unsigned char *at, size_t alignment) {
    return (unsigned char *)(((uintptr_t)at + alignment - 1) & -alignment);
}

// Old: the frame is not touched; *BLOCK says where the memory lies, *END where it ends.
static inline __attribute__((always_inline)) unsigned char *old_reserve(struct stack *stack,
                                                                        size_t size, unsigned log,
                                                                        struct stack_block **block,
                                                                        unsigned char **end) {
    const struct stack_frame *frame = stack->top;
    unsigned char *at = (unsigned char *)align_by_log((uintptr_t)frame->position, log);
    size = align_by_log(size, log);
    *block = frame->block;
    if (__builtin_expect(at + size > end_of(frame->block), 0)) {
        *block = old_next_block(stack, frame->block, size + ((size_t)1 << log));
        if (!*block) return NULL;
        at = (unsigned char *)align_by_log((uintptr_t)area(*block), log);
    }
    *end = at + size;
    old_update(&stack->mean, size);
    return at;
}

static inline __attribute__((always_inline)) unsigned char *
new_reserve(struct stack *stack, size_t size, size_t alignment, unsigned char **end) {
    struct stack_frame *frame = stack->top;
    unsigned char *at = align(frame->position, alignment);
    if (__builtin_expect(at + size > end_of(frame->block), 0)) {
        if (!new_advance(stack, size + alignment)) return NULL;
        at = align(frame->position, alignment);
    }
    *end = at + size;
    new_update(&stack->mean, size);
    return at;
}

void *stack_old_alloc(struct stack *stack, size_t size, size_t alignment) {
    struct stack_frame *frame = stack->top;
    struct stack_block *block;
    unsigned char *end;
    unsigned char *at = old_reserve(stack, size, (unsigned)__builtin_ctzl(alignment), &block, &end);
    if (!at) return NULL;
    if (block != frame->block) frame->block = block;
    frame->position = end;
    return frame->last = at;
}

void *stack_new_alloc(struct stack *stack, size_t size, size_t alignment) {
    struct stack_frame *frame = stack->top;
    unsigned char *end;
    unsigned char *at = new_reserve(stack, size, alignment, &end);
    if (!at) return NULL;
    frame->position = end;
    return frame->last = at;
}

void *stack_old_realloc(struct stack *stack, void *memory, size_t old_size, size_t size,
                        size_t alignment) {
    struct stack_frame *frame = stack->top;
    if (size <= old_size) return memory;
    unsigned char *end =
        (unsigned char *)memory + align_by_log(size, (unsigned)__builtin_ctzl(alignment));
    if (memory == frame->last && end <= end_of(frame->block)) {
        frame->position = end;
        return memory;
    }
    void *copy = stack_old_alloc(stack, size, alignment);
    return copy ? memcpy(copy, memory, old_size) : NULL;
}

void *stack_new_realloc(struct stack *stack, void *memory, size_t old_size, size_t size,
                        size_t alignment) {
    struct stack_frame *frame = stack->top;
    unsigned char *end = (unsigned char *)memory + size;
    if (__builtin_expect(memory == frame->last && end <= end_of(frame->block), 1)) {
        frame->position = end;
        return memory;
    }
    if (size <= old_size) return memory;
    void *copy = stack_new_alloc(stack, size, alignment);
    return copy ? memcpy(copy, memory, old_size) : NULL;
}

static struct stack_frame *enter(struct stack *stack, unsigned char *at, struct stack_block *block,
                                 unsigned char *end) {
    struct stack_frame *frame = (struct stack_frame *)(void *)at;
    *frame = (struct stack_frame){stack->top, block, end, end};
    return stack->top = frame;
}

struct stack_frame *stack_old_push(struct stack *stack) {
    struct stack_block *block;
    unsigned char *end;
    unsigned char *at = old_reserve(stack, sizeof(struct stack_frame),
                                    (unsigned)__builtin_ctzl(FRAME_ALIGNMENT), &block, &end);
    return at ? enter(stack, at, block, end) : NULL;
}

struct stack_frame *stack_new_push(struct stack *stack) {
    unsigned char *end;
    unsigned char *at = new_reserve(stack, sizeof(struct stack_frame), FRAME_ALIGNMENT, &end);
    return at ? enter(stack, at, stack->top->block, end) : NULL;
}

struct stack_frame *stack_pop(struct stack *stack) {
    struct stack_frame *frame = stack->top;
    stack->top = frame->previous;
    return frame;
}

// ---- the stack's life ------------------------------------------------------------------------

void stack_start(struct stack *stack) {
    *stack = (struct stack){.mean = {0, 1}};
    stack->root.previous = stack->root.next = &stack->root;
    move_to(&stack->base, &stack->root);
    stack->top = &stack->base;
}

void stack_stop(struct stack *stack) {
    while (stack->root.next != &stack->root) block_destroy(stack, stack->root.next);
}

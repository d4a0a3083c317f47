// intersec_stack.h: Intersec's frame stack, its rules before and after their revision, written from
// their description.
//
// Question: what do the revised search for blocks and the frames that follow a new block gain over
// the old rules? Use it as the "before" columns of the table `stack`. Memory lies in blocks of at
// least 64 KiB and at least 64 times the running mean of the requests; a frame is four words in the
// stack itself; pop frees all since the matching push. Memory is not cleared. One thread only.
//
//   old   address and size are both rounded to the alignment, which is kept as a logarithm; a push
//         that needs a block leaves the frame below where it was; a search for a block destroys
//         every free block that is too small; the mean leaves out requests of 128 MiB and more and
//         checks its sum for overflow
//   new   only the address is rounded; the current frame, and the frames below that have no room
//         left for a request of mean size, move to the new block; a search stops destroying once
//         the destroyed bytes reach the request; the mean takes every request
//
// The description says that frames below move "conditionally" and not on what condition: the one
// here is ours. Of realloc it says that the last object only moves the position, and that branches
// of the way most used were removed; its graph is lost: old asks whether the object gets smaller
// first, new whether it is the last. Not rendered: sealing and checks of a debug build.
#ifndef LOAM_BENCH_INTERSEC_STACK_H
#define LOAM_BENCH_INTERSEC_STACK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stack_block {
    struct stack_block *previous, *next; // a ring through the stack's root, which has no room
    size_t size;                         // of the area that follows
};

struct stack_frame {
    struct stack_frame *previous;
    struct stack_block *block;
    unsigned char *position;
    unsigned char *last; // what the last alloc returned
};

struct mean {
    size_t sum;
    size_t count; // at least 1
};

struct stack {
    struct stack_frame *top;
    struct mean mean;
    struct stack_frame base;
    struct stack_block root;
    size_t held;        // bytes of all blocks
    size_t held_in_all; // bytes of all blocks that ever were
    uint64_t blocks_got;
    void (*watch)(void *); // called after a block came or went, where not NULL
    void *watcher;
};

void stack_start(struct stack *stack);
void stack_stop(struct stack *stack);

// SIZE is 1 byte to 1 GiB, ALIGNMENT a power of two of at most 4096. NULL where there is no memory.
void *stack_old_alloc(struct stack *stack, size_t size, size_t alignment);
void *stack_new_alloc(struct stack *stack, size_t size, size_t alignment);
// Of a block of the newest frame. In place where it is the last one and its place has the room, or
// where it gets smaller; otherwise a new block and a copy. NULL: the block is as it was.
void *stack_old_realloc(struct stack *stack, void *block, size_t old_size, size_t size,
                        size_t alignment);
void *stack_new_realloc(struct stack *stack, void *block, size_t old_size, size_t size,
                        size_t alignment);
// push gives the frame that the matching pop returns to its caller; NULL where there is no memory.
struct stack_frame *stack_old_push(struct stack *stack);
struct stack_frame *stack_new_push(struct stack *stack);
struct stack_frame *stack_pop(struct stack *stack);

void mean_old_update(struct mean *mean, size_t request);
void mean_new_update(struct mean *mean, size_t request);
size_t mean_get(const struct mean *mean);

#ifdef __cplusplus
}
#endif
#endif

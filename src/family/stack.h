/* stack.h: declarations that the files of the stack share. No other file includes it.
 *
 *   stack.c         set-up, frames, marks, objects
 *   stack_block.c   blocks: how large, which one next, when they go back
 *   stack_check.c   usage, origin of addresses, invariants */
#ifndef LM_FAMILY_STACK_H
#define LM_FAMILY_STACK_H

#include "family/family.h"
#include "loam/stack.h"

/* Why a stack's inline paths miss. */
typedef enum lm_stack_mode {
    LM_STACK_PLAIN,
    LM_STACK_WATCHED, /* a tool sees objects */
    LM_STACK_CHECKED, /* objects have tags and guards, frames have places */
    LM_STACK_ENDED,   /* the tombstone of a checked stack */
} lm_stack_mode_t;

/* Maximum number of pieces of a block of a contiguous source. */
enum { LM_STACK_PIECES = 40 };

/* The head of each block. */
typedef struct loam_stack_block {
    struct loam_stack_block *older, *newer; /* neighbours in the list of blocks */
    size_t bytes;                           /* size of the block */
    char *left;                             /* its position while a newer block is current */
    /* In a checked stack: end of the memory whose objects have ended (family.h). */
    char *gone;
} lm_block_head_t;

/* Behind the head of a block over a contiguous source: what each get gave, because the block goes
 * back piece by piece. */
typedef struct lm_stack_pieces {
    size_t count;                /* number of pieces */
    size_t got[LM_STACK_PIECES]; /* size of each piece */
} lm_stack_pieces_t;

/* Mark in the low bits of a record's link: the older frame goes on at `moved`. */
#define LM_RECORD_MOVED ((uintptr_t)1) /* the frame below goes on at `moved` */
/* Mark in the low bits of a record's link: the older frame is sealed. */
#define LM_RECORD_SEALED ((uintptr_t)2) /* the frame below is sealed */

/* The record of a checked stack: with the place of the push. */
typedef struct LM_ALIGNED(16) lm_checked_record {
    loam_stack_record record;
    const char *file;
    unsigned line;
} lm_checked_record_t;

/* An end that no block has: a pop compares with it and takes the slow path. */
#define LM_STACK_NO_END ((char *)1)

/* Returns the older record, without the marks. */
LM_INLINE loam_stack_record *lm_record_older(const loam_stack_record *record) {
    return (loam_stack_record *)((uintptr_t)record->older & ~(uintptr_t)3);
}
/* Returns whether the record has that mark. */
LM_INLINE bool lm_record_is(const loam_stack_record *record, uintptr_t mark) {
    return ((uintptr_t)record->older & mark) != 0;
}
/* Sets a mark. */
LM_INLINE void lm_record_mark(loam_stack_record *record, uintptr_t mark) {
    record->older = (loam_stack_record *)((uintptr_t)record->older | mark);
}
/* Clears a mark. */
LM_INLINE void lm_record_unmark(loam_stack_record *record, uintptr_t mark) {
    record->older = (loam_stack_record *)((uintptr_t)record->older & ~mark);
}
/* Returns the position at which the older frame goes on, as the record knows it: alignment may have
 * taken some bytes before that position. */
LM_INLINE char *lm_record_at(const loam_stack_record *record) {
    return lm_record_is(record, LM_RECORD_MOVED) ? record->moved : (char *)(uintptr_t)record;
}

/* Returns the room that is in use. */
LM_INLINE loam_stack_room *lm_stack_room(loam_stack *stack) {
    return stack->open ? &stack->room : &stack->hidden;
}
/* Returns the room of a constant stack that is in use. */
LM_INLINE const loam_stack_room *lm_stack_room_of(const loam_stack *stack) {
    return stack->open ? &stack->room : &stack->hidden;
}
/* Returns the record of the newest frame, or NULL. */
LM_INLINE loam_stack_record *lm_stack_newest(const loam_stack *stack) {
    return stack->mode == LM_STACK_PLAIN ? stack->newest : stack->hidden_newest;
}

/* Returns whether the source is contiguous. */
LM_INLINE bool lm_stack_contiguous(const loam_stack *stack) {
    return (stack->source->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
}
/* Returns the size of a block's head. */
LM_INLINE size_t lm_stack_head(const loam_stack *stack) {
    return lm_align_up(
        sizeof(lm_block_head_t) + (lm_stack_contiguous(stack) ? sizeof(lm_stack_pieces_t) : 0), 16);
}
/* Returns the pieces of a block of a contiguous source. */
LM_INLINE lm_stack_pieces_t *lm_stack_pieces(lm_block_head_t *block) {
    return (lm_stack_pieces_t *)(void *)(block + 1);
}
/* Returns the first byte for objects in a block. */
LM_INLINE char *lm_stack_first(const loam_stack *stack, const lm_block_head_t *block) {
    return (char *)(uintptr_t)block + lm_stack_head(stack);
}
/* Returns the end of a block, a multiple of 16. */
LM_INLINE char *lm_stack_end(const lm_block_head_t *block) {
    return (char *)lm_align_down((uintptr_t)block + block->bytes, 16);
}
/* Returns whether a position lies in the block. The block's end counts, its begin does not: that
 * may be the end of another block. */
LM_INLINE bool lm_stack_inside(const lm_block_head_t *block, const char *p) {
    return p > (const char *)block && p <= lm_stack_end(block);
}

/* Returns whether the stack is the tombstone of one that has ended, after a report. */
LM_INLINE bool lm_stack_over(const loam_stack *stack, const char *doing, const char *file,
                             unsigned line) {
    return LM_UNLIKELY(stack->mode == LM_STACK_ENDED) &&
           lm_entry_ended(&stack->entry, doing, file, line);
}

/* ---- stack.c ---- */

/* Opens the inline paths or closes them, as the stack's state demands. */
void lm_stack_open(loam_stack *stack);
/* Returns whether p lies between position `at` of that block and the stack's position. */
bool lm_stack_is_newer(const loam_stack *stack, const lm_block_head_t *block, const char *at,
                       const void *p);
/* Returns the block that p lies in, from the current one back. NULL iff p lies in no block. */
lm_block_head_t *lm_stack_block_of(const loam_stack *stack, const char *p);

/* ---- stack_block.c ---- */

/* Samples the mean of requests: a request of so many bytes found no memory in a block. It stands
 * for as many requests of its size as fit into the block. */
void lm_stack_sample(loam_stack *stack, size_t block_bytes, size_t bytes);
/* Returns the mean size of sampled requests; 0 without samples. */
size_t lm_stack_mean(const loam_stack *stack);
/* Over a contiguous source: moves the current block's end on, to at least `to`. Returns false iff
 * it cannot. */
bool lm_stack_extend(loam_stack *stack, char *to);
/* Moves the newest frame, and older ones that are full, on to a block with memory for so many bytes
 * at that alignment. Returns false iff there is no memory; then nothing has changed, except that
 * free blocks may have gone back. */
bool lm_stack_advance(loam_stack *stack, size_t bytes, size_t align);
/* Returns whether there is free memory that the end of the outermost frame may give back. */
bool lm_stack_has_spare(const loam_stack *stack);
/* Makes the block that `at` lies in current again, at that position. */
void lm_stack_go_back(loam_stack *stack, char *at);
/* Notes, when the outermost frame ends, how much of the one block over a contiguous source was
 * used. */
void lm_stack_note_end(loam_stack *stack);
/* Ends a round: goes back to the first block's begin, and gives back what recent rounds did not
 * need. */
void lm_stack_end_round(loam_stack *stack);
/* Leaves the empty stack without a current block. */
void lm_stack_leave(loam_stack *stack);
/* Gives free blocks back, except `most` bytes in all. */
void lm_stack_drop_free(loam_stack *stack, size_t most);
/* Gives back unused pieces of a contiguous source behind the current block's position, except
 * `most` bytes of the block. */
void lm_stack_shrink(loam_stack *stack, size_t most);
/* Takes a block out of the list and gives it back, piece by piece over a contiguous source. */
void lm_stack_put_block(loam_stack *stack, lm_block_head_t *block);

/* ---- stack_check.c ---- */

/* Checks the guards of all objects of a checked stack, and the bytes of freed ones. Returns false
 * after a report. */
bool lm_stack_check_objects(const loam_stack *stack);
/* Checks, in a checked stack, that memory of ended objects is as they left it. Returns false after
 * a report. */
bool lm_stack_check_gone(const loam_stack *stack);
/* The kind of stacks. */
extern const loam_kind lm_stack_kind;

#endif

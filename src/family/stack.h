/* stack.h: what the files of the stack share, and nobody else includes.
 *
 *   stack.c         setting up, frames, marks, objects
 *   stack_block.c   blocks: how large, which one next, when they go back
 *   stack_check.c   usage, origin of addresses, invariants
 */
#ifndef LM_FAMILY_STACK_H
#define LM_FAMILY_STACK_H

#include "family/family.h"
#include "loam/stack.h"

typedef enum lm_stack_mode {
    LM_STACK_PLAIN,
    LM_STACK_WATCHED, /* a tool sees objects */
    LM_STACK_CHECKED, /* objects have tags and guards, frames have places */
    LM_STACK_ENDED,   /* the tombstone of a checked one */
} lm_stack_mode_t;

enum { LM_STACK_PIECES = 40 }; /* times that a block of a contiguous source may grow */

/* At the head of each block. */
typedef struct loam_stack_block {
    struct loam_stack_block *older, *newer;
    size_t bytes;
    char *left; /* where it was left, while a newer one is current */
    char *gone; /* of a checked stack: where memory ends whose objects have ended (family.h) */
} lm_block_head_t;

/* Behind that, over a contiguous source: what each get gave, for the block goes back as it came. */
typedef struct lm_stack_pieces {
    size_t count;
    size_t got[LM_STACK_PIECES];
} lm_stack_pieces_t;

/* Marks in the low bits of a record's link. */
#define LM_RECORD_MOVED ((uintptr_t)1)  /* the frame below goes on at `moved` */
#define LM_RECORD_SEALED ((uintptr_t)2) /* the frame below is sealed */

/* A checked stack's records know more. */
typedef struct LM_ALIGNED(16) lm_checked_record {
    loam_stack_record record;
    const char *file;
    unsigned line;
} lm_checked_record_t;

/* No block ends there: pops compare with it in vain. */
#define LM_STACK_NO_END ((char *)1)

LM_INLINE loam_stack_record *lm_record_older(const loam_stack_record *record) {
    return (loam_stack_record *)((uintptr_t)record->older & ~(uintptr_t)3);
}
LM_INLINE bool lm_record_is(const loam_stack_record *record, uintptr_t mark) {
    return ((uintptr_t)record->older & mark) != 0;
}
LM_INLINE void lm_record_mark(loam_stack_record *record, uintptr_t mark) {
    record->older = (loam_stack_record *)((uintptr_t)record->older | mark);
}
LM_INLINE void lm_record_unmark(loam_stack_record *record, uintptr_t mark) {
    record->older = (loam_stack_record *)((uintptr_t)record->older & ~mark);
}
/* Where the frame below goes on, by the record alone: alignment may have taken some bytes before
 * it. */
LM_INLINE char *lm_record_at(const loam_stack_record *record) {
    return lm_record_is(record, LM_RECORD_MOVED) ? record->moved : (char *)(uintptr_t)record;
}

LM_INLINE loam_stack_room *lm_stack_room(loam_stack *stack) {
    return stack->open ? &stack->room : &stack->hidden;
}
LM_INLINE const loam_stack_room *lm_stack_room_of(const loam_stack *stack) {
    return stack->open ? &stack->room : &stack->hidden;
}
LM_INLINE loam_stack_record *lm_stack_newest(const loam_stack *stack) {
    return stack->mode == LM_STACK_PLAIN ? stack->newest : stack->hidden_newest;
}

LM_INLINE bool lm_stack_contiguous(const loam_stack *stack) {
    return (stack->source->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
}
LM_INLINE size_t lm_stack_head(const loam_stack *stack) {
    return lm_align_up(
        sizeof(lm_block_head_t) + (lm_stack_contiguous(stack) ? sizeof(lm_stack_pieces_t) : 0), 16);
}
LM_INLINE lm_stack_pieces_t *lm_stack_pieces(lm_block_head_t *block) {
    return (lm_stack_pieces_t *)(void *)(block + 1);
}
LM_INLINE char *lm_stack_first(const loam_stack *stack, const lm_block_head_t *block) {
    return (char *)(uintptr_t)block + lm_stack_head(stack);
}
LM_INLINE char *lm_stack_end(const lm_block_head_t *block) {
    return (char *)lm_align_down((uintptr_t)block + block->bytes, 16);
}
/* A place may be the block's end; its begin may be the end of another one. */
LM_INLINE bool lm_stack_inside(const lm_block_head_t *block, const char *p) {
    return p > (const char *)block && p <= lm_stack_end(block);
}

/* Whether the stack is the tombstone of one that has ended, which is reported. */
LM_INLINE bool lm_stack_over(const loam_stack *stack, const char *doing, const char *file,
                             unsigned line) {
    return LM_UNLIKELY(stack->mode == LM_STACK_ENDED) &&
           lm_entry_ended(&stack->entry, doing, file, line);
}

/* ---- stack.c ---- */

/* Opens the inline paths or closes them, as the stack's state demands. */
void lm_stack_open(loam_stack *stack);
/* Whether p lies at `at` of that block or behind it, up to where the stack stands. */
bool lm_stack_is_newer(const loam_stack *stack, const lm_block_head_t *block, const char *at,
                       const void *p);
/* The block that p lies in, from the current one on back; NULL iff in none. */
lm_block_head_t *lm_stack_block_of(const loam_stack *stack, const char *p);

/* ---- stack_block.c ---- */

/* A request of so many bytes found no room in a block: it stands for as many of its size as fit
 * into that. */
void lm_stack_sample(loam_stack *stack, size_t block_bytes, size_t bytes);
size_t lm_stack_mean(const loam_stack *stack);
/* Over a contiguous source: the current block's end moves on to `to` at least. false iff it
 * cannot. */
bool lm_stack_extend(loam_stack *stack, char *to);
/* Moves the newest frame on to room for so many bytes at that alignment, and older ones that are
 * full with it. false iff there is no memory; nothing has changed then, but that free blocks may be
 * gone. */
bool lm_stack_advance(loam_stack *stack, size_t bytes, size_t align);
/* Whether there is free memory that the end of the outermost frame may give back. */
bool lm_stack_has_spare(const loam_stack *stack);
/* The block that `at` lies in is current again, there. */
void lm_stack_go_back(loam_stack *stack, char *at);
/* The outermost frame ends. Over a contiguous source there is one block, and this tells how much of
 * it was used. */
void lm_stack_note_end(loam_stack *stack);
/* It has ended: back to the first block's begin, and what rounds did not need goes back. */
void lm_stack_end_round(loam_stack *stack);
/* Nothing is alive: no block is current any more. */
void lm_stack_leave(loam_stack *stack);
/* Gives back free blocks, but for `most` bytes in all. */
void lm_stack_drop_free(loam_stack *stack, size_t most);
/* Gives back what a contiguous source gave behind the current block's position, but for `most`
 * bytes of the block. */
void lm_stack_shrink(loam_stack *stack, size_t most);
void lm_stack_put_block(loam_stack *stack, lm_block_head_t *block);

/* ---- stack_check.c ---- */

bool lm_stack_check_objects(const loam_stack *stack);
/* Whether what objects have left is as they left it, in a checked stack; false after a report. */
bool lm_stack_check_gone(const loam_stack *stack);
extern const loam_kind lm_stack_kind;

#endif

/* ring.h: declarations that the files of the ring share. No other file includes it.
 *
 *   ring.c          set-up, blocks, frames, objects
 *   ring_check.c    usage, invariants, checks of a checked ring */
#ifndef LM_FAMILY_RING_H
#define LM_FAMILY_RING_H

#include "family/family.h"
#include "loam/ring.h"

/* Why a ring's inline paths miss. */
typedef enum lm_ring_mode {
    LM_RING_PLAIN,
    LM_RING_WATCHED, /* a tool sees objects */
    LM_RING_CHECKED, /* objects have tags and guards */
    LM_RING_ENDED,   /* the tombstone of a checked ring */
} lm_ring_mode_t;

/* The head of a block. */
typedef struct loam_ring_block {
    struct loam_ring_block *next, *before; /* neighbours in the ring of blocks */
    size_t bytes;                          /* size of the block */
    char *left;                            /* its position while another block is current */
    /* In a checked ring: end of the memory whose objects have ended (family.h). */
    char *gone;
} lm_ring_block_t;

/* A frame's record, at the begin of its memory. */
struct LM_ALIGNED(16) loam_ring_frame {
    struct loam_ring_frame *newer, *older; /* neighbours in the order of their memory */
    lm_ring_block_t *block;                /* the block that holds the record */
    /* LM_RING_ALIVE or LM_RING_RELEASED, mixed with the addresses of the frame and the ring. */
    uintptr_t state;
    const char *file; /* place of the call that opened it */
    unsigned line;
#if LOAM_METER
    size_t metered; /* bytes in `used` */
#endif
};

/* State of an open frame. */
#define LM_RING_ALIVE ((uintptr_t)0x10A3F4A1)
/* State of a released frame that waits for others. */
#define LM_RING_RELEASED ((uintptr_t)0x10A3F4A2)

/* The kind of rings. */
extern LM_HIDDEN const loam_kind lm_ring_kind;

/* Returns the first free byte of the current block. */
LM_INLINE char *lm_ring_now(const loam_ring *ring) {
    return ring->open ? ring->at : ring->hidden_at;
}
/* Returns the first byte for objects in a block. */
LM_INLINE char *lm_ring_first(const lm_ring_block_t *block) {
    return (char *)(uintptr_t)block + lm_align_up(sizeof(*block), 16);
}
/* Returns the end of a block, a multiple of 16. */
LM_INLINE char *lm_ring_end(const lm_ring_block_t *block) {
    return (char *)lm_align_down((uintptr_t)block + block->bytes, 16);
}
/* Returns the block of the oldest frame. Free blocks lie behind the current block and before this
 * one. */
LM_INLINE lm_ring_block_t *lm_ring_first_used(const loam_ring *ring) {
    return ring->oldest != NULL ? ring->oldest->block : ring->block;
}

/* Returns a state mixed with the addresses of the frame and the ring. */
LM_INLINE uintptr_t lm_ring_state(const loam_ring *ring, const loam_ring_frame *frame,
                                  uintptr_t state) {
    return (uintptr_t)frame ^ 2 * (uintptr_t)ring ^ state;
}
/* Returns whether the frame has that state. */
LM_INLINE bool lm_ring_is(const loam_ring *ring, const loam_ring_frame *frame, uintptr_t state) {
    return frame->state == lm_ring_state(ring, frame, state);
}
/* Returns whether the ring is the tombstone of one that has ended, after a report. */
LM_INLINE bool lm_ring_over(const loam_ring *ring, const char *doing, const char *file,
                            unsigned line) {
    return LM_UNLIKELY(ring->mode == LM_RING_ENDED) &&
           lm_entry_ended(&ring->entry, doing, file, line);
}

/* Sets [*from, *to) to the frame's part of that block. Returns whether the frame goes on in the
 * next block. */
bool lm_ring_part(const loam_ring *ring, const loam_ring_frame *frame, const lm_ring_block_t *block,
                  const char **from, const char **to);
/* Checks that nothing of a checked ring was written where it must not be. Returns false after a
 * report. */
bool lm_ring_check_objects(const loam_ring *ring);

#endif

/* ring.h: what the files of the ring share, and nobody else includes.
 *
 *   ring.c          setting up, blocks, frames, objects
 *   ring_check.c    usage, invariants, what a checked ring looks at
 */
#ifndef LM_FAMILY_RING_H
#define LM_FAMILY_RING_H

#include "family/family.h"
#include "loam/ring.h"

typedef enum lm_ring_mode {
    LM_RING_PLAIN,
    LM_RING_WATCHED, /* a tool sees objects */
    LM_RING_CHECKED, /* objects have tags and guards */
    LM_RING_ENDED,   /* the tombstone of a checked one */
} lm_ring_mode_t;

typedef struct loam_ring_block {
    struct loam_ring_block *next, *before; /* a ring */
    size_t bytes;
    char *left; /* where it was left, while another one is current */
    char *gone; /* of a checked ring: where memory ends whose objects have ended (family.h) */
} lm_ring_block_t;

struct LM_ALIGNED(16) loam_ring_frame {
    struct loam_ring_frame *newer, *older;
    lm_ring_block_t *block;
    uintptr_t state; /* alive or released, mixed with its address and the ring's */
    const char *file;
    unsigned line;
#if LOAM_METER
    size_t metered; /* bytes in `used` */
#endif
};

#define LM_RING_ALIVE ((uintptr_t)0x10A3F4A1)
#define LM_RING_RELEASED ((uintptr_t)0x10A3F4A2)

extern LM_HIDDEN const loam_kind lm_ring_kind;

LM_INLINE char *lm_ring_now(const loam_ring *ring) {
    return ring->open ? ring->at : ring->hidden_at;
}
LM_INLINE char *lm_ring_first(const lm_ring_block_t *block) {
    return (char *)(uintptr_t)block + lm_align_up(sizeof(*block), 16);
}
LM_INLINE char *lm_ring_end(const lm_ring_block_t *block) {
    return (char *)lm_align_down((uintptr_t)block + block->bytes, 16);
}
/* Free blocks lie behind the current one, and before this. */
LM_INLINE lm_ring_block_t *lm_ring_first_used(const loam_ring *ring) {
    return ring->oldest != NULL ? ring->oldest->block : ring->block;
}

LM_INLINE uintptr_t lm_ring_state(const loam_ring *ring, const loam_ring_frame *frame,
                                  uintptr_t state) {
    return (uintptr_t)frame ^ 2 * (uintptr_t)ring ^ state;
}
LM_INLINE bool lm_ring_is(const loam_ring *ring, const loam_ring_frame *frame, uintptr_t state) {
    return frame->state == lm_ring_state(ring, frame, state);
}
/* Whether the ring is the tombstone of one that has ended, which is reported. */
LM_INLINE bool lm_ring_over(const loam_ring *ring, const char *doing, const char *file,
                            unsigned line) {
    return LM_UNLIKELY(ring->mode == LM_RING_ENDED) &&
           lm_entry_ended(&ring->entry, doing, file, line);
}

/* [*from, *to): what the frame has of that block. false iff it ended in one before. */
bool lm_ring_part(const loam_ring *ring, const loam_ring_frame *frame, const lm_ring_block_t *block,
                  const char **from, const char **to);
/* Whether nothing of a checked ring was written where it must not be; false after a report. */
bool lm_ring_check_objects(const loam_ring *ring);

#endif

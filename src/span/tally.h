/* tally.h: how many there are, the most there were, and how many there have been.
 *
 *   come: now++                     go: most = max(most, now), now--, gone++
 *
 * What there is grows until something goes: so its most is looked at there, and when somebody asks,
 * and coming costs one instruction. All that there have been are those that there are and those
 * that have gone. For slow paths, under the lock of whoever keeps it.
 */
#ifndef LM_SPAN_TALLY_H
#define LM_SPAN_TALLY_H

#include "base/base.h"

typedef struct lm_tally {
    size_t now, most, gone;
} lm_tally_t;

LM_INLINE void lm_tally_look(lm_tally_t *tally) {
    if (LM_UNLIKELY(tally->now > tally->most)) tally->most = tally->now;
}

LM_INLINE void lm_tally_add(lm_tally_t *tally, size_t n) { tally->now += n; }

LM_INLINE void lm_tally_sub(lm_tally_t *tally, size_t n) {
    lm_tally_look(tally);
    tally->now -= n;
    tally->gone += n;
}

/* From now on the most is looked for anew. */
LM_INLINE void lm_tally_forget(lm_tally_t *tally) { tally->most = tally->now; }

/* The greater of the two becomes *most; by any thread at any time. Relaxed, here and below:
 * numbers, with nothing behind them. */
LM_INLINE void lm_most(size_t *most, size_t now) {
    size_t seen = lm_load_relaxed(most);
    while (LM_UNLIKELY(now > seen) && !lm_cas_weak_relaxed(most, &seen, now)) {}
}

/* Pages of blocks and large objects: what their descriptors say is added up as they go. Under the
 * arena's lock, but for what is called atomic, which others add to. By class as the layer above
 * numbers them; 0 is none. */
typedef struct lm_span_counts {
    size_t pages, pages_gone, pages_most; /* ever, atomic; given back; at a time */
    size_t large, large_gone, large_most; /* objects: ever; freed; at a time */
    size_t large_bytes, large_bytes_gone, large_bytes_most; /* usable ones */
    /* Atomic, written without that lock: the number of large objects that are not in the arena,
     * ever; their bytes and those by which objects grew; the bytes by which objects shrank. */
    size_t large_else, large_bytes_else, large_bytes_less;
    struct LM_ALIGNED(32) lm_class_count { /* to find one is a shift */
        size_t room, room_most;            /* atomic: blocks that its pages hold; the most */
        uint64_t handed;                   /* atomic: blocks handed out of pages that have gone */
    } of_class[UINT8_MAX + 1];
} lm_span_counts_t;

extern LM_HIDDEN lm_span_counts_t lm_span_counts;

/* Relaxed: as above. */
LM_INLINE size_t lm_large_ever(void) {
    return lm_load_relaxed(&lm_span_counts.large) + lm_load_relaxed(&lm_span_counts.large_else);
}
LM_INLINE size_t lm_large_bytes_ever(void) {
    return lm_load_relaxed(&lm_span_counts.large_bytes) +
           lm_load_relaxed(&lm_span_counts.large_bytes_else);
}
LM_INLINE size_t lm_large_bytes_gone(void) {
    return lm_load_relaxed(&lm_span_counts.large_bytes_gone) +
           lm_load_relaxed(&lm_span_counts.large_bytes_less);
}
/* Returns the usable bytes of the large objects that are counted as in use now; without the
 * arena's lock too few, if others come and go between the two looks, but never more than there
 * were: a peak is taken of it. */
LM_INLINE size_t lm_large_bytes_now(void) {
    size_t ever = lm_large_bytes_ever(), gone = lm_large_bytes_gone();
    return LM_LIKELY(ever > gone) ? ever - gone : 0;
}

/* Counts a new large object of `bytes` usable bytes in the arena. The arena's lock is held. */
LM_INLINE void lm_large_comes(size_t bytes) {
    lm_span_counts_t *counts = &lm_span_counts;
    lm_store_relaxed(&counts->large, counts->large + 1);
    lm_store_relaxed(&counts->large_bytes, counts->large_bytes + bytes);
}
/* Counts a new large object of `bytes` usable bytes that is not in the arena. Needs no lock. */
LM_INLINE void lm_large_comes_else(size_t bytes) {
    (void)lm_add_relaxed(&lm_span_counts.large_else, 1);
    (void)lm_add_relaxed(&lm_span_counts.large_bytes_else, bytes);
}

#endif

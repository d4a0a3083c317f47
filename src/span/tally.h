/* tally.h: a counter of things that come and go: how many there are, the peak, and how many there
 * have been.
 *
 *   come: now++                     go: most = max(most, now), now--, gone++
 *
 * The number of things grows until one goes, so the peak is updated only then, and when it is read;
 * an addition costs one instruction. The number of things that there have ever been is now + gone.
 * For slow paths, under a lock of the owner.
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

/* Restarts the peak at the present number. */
LM_INLINE void lm_tally_forget(lm_tally_t *tally) { tally->most = tally->now; }

/* Raises *most to `now`, if that is greater. Any thread may call it at any time. Relaxed, here and
 * below: statistics, on which no other data depends. */
LM_INLINE void lm_most(size_t *most, size_t now) {
    size_t seen = lm_load_relaxed(most);
    while (LM_UNLIKELY(now > seen) && !lm_cas_weak_relaxed(most, &seen, now)) {}
}

/* Counts of pages of blocks and large objects. A name without a suffix is the number ever made; the
 * number now is that less the number gone. What a page or an object has counted itself is added
 * when it is given back. Written under the arena's lock, unless the comment says atomic. Index of
 * of_class: the size class (heap/classes.h); 0 is no class. */
typedef struct lm_span_counts {
    /* Pages: ever made (atomic); given back; at peak. */
    size_t pages, pages_gone, pages_most;
    /* Large objects: ever made; freed; at peak. */
    size_t large, large_gone, large_most;
    size_t large_bytes, large_bytes_gone, large_bytes_most; /* usable bytes of large objects */
    /* Atomic, written without the arena's lock. large_else: number of large objects in ranges
     * outside the arena (range.h), ever. large_bytes_else: their bytes, and the bytes by which
     * large objects grew. large_bytes_less: the bytes by which large objects shrank. */
    size_t large_else, large_bytes_else, large_bytes_less;
    struct LM_ALIGNED(32) lm_class_count { /* aligned, so that indexing is a shift */
        /* Atomic: number of blocks that the pages of the class have room for; now, and at peak. */
        size_t room, room_most;
        /* Atomic: number of blocks ever handed out from pages that have gone back since. Pages in
         * use have counts of their own. */
        uint64_t handed;
    } of_class[UINT8_MAX + 1];
} lm_span_counts_t;

extern LM_HIDDEN lm_span_counts_t lm_span_counts;

/* Returns the number of large objects ever made. Relaxed: a statistic. */
LM_INLINE size_t lm_large_ever(void) {
    return lm_load_relaxed(&lm_span_counts.large) + lm_load_relaxed(&lm_span_counts.large_else);
}
/* Returns the usable bytes of large objects ever made, including growth. Relaxed: a statistic. */
LM_INLINE size_t lm_large_bytes_ever(void) {
    return lm_load_relaxed(&lm_span_counts.large_bytes) +
           lm_load_relaxed(&lm_span_counts.large_bytes_else);
}
/* Returns the usable bytes of large objects freed, including those by which objects shrank.
 * Relaxed: a statistic. */
LM_INLINE size_t lm_large_bytes_gone(void) {
    return lm_load_relaxed(&lm_span_counts.large_bytes_gone) +
           lm_load_relaxed(&lm_span_counts.large_bytes_less);
}
/* Returns the usable bytes of the large objects in use. Without the arena's lock the result may be
 * too small, if objects come and go between the two loads, but it is never too large: a peak is
 * derived from it. */
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
/* Counts a new large object of `bytes` usable bytes outside the arena. Needs no lock. */
LM_INLINE void lm_large_comes_else(size_t bytes) {
    (void)lm_add_relaxed(&lm_span_counts.large_else, 1);
    (void)lm_add_relaxed(&lm_span_counts.large_bytes_else, bytes);
}

#endif

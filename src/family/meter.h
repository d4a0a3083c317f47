/* meter.h: meters as meter.c keeps them and hosted/meter_rows.c shows them. Only where LOAM_METER
 * is above 0.
 *
 * Included by family/family.h.
 */
#ifndef LM_FAMILY_METER_H
#define LM_FAMILY_METER_H

#include "base/base.h"
#include "loam/meter.h"

#if LOAM_METER

/* Meter 0 is the heap's, the last is that of all beyond LOAM_METER_MOST. */
enum { LM_METERS = LOAM_METER_MOST + 2, LM_METER_OTHERS = LM_METERS - 1, LM_METER_NAME = 48 };

/* All that is counted is read and written by relaxed atomics: numbers to be shown, which order
 * nothing. */
typedef struct lm_meter {
    const char *kind;         /* NULL: not in use so far */
    char name[LM_METER_NAME]; /* "" without; whatever would disturb a CSV is '_' */
    bool shared;              /* by threads: additions must be atomic */
    loam_meter_stats stats;   /* but `allocators` */
    size_t operations;
    size_t depth; /* marks, or frames */
    size_t used_at[LOAM_METER_DEPTH];
    uintptr_t
        place[LOAM_METER_DEPTH]; /* whose that is: of a stack's mark; LM_METER_FRAME: of a frame */
} lm_meter_t;

#define LM_METER_FRAME UINTPTR_MAX

extern LM_HIDDEN lm_meter_t lm_meters[LM_METERS];
/* Meters [0, this) and LM_METER_OTHERS have been in use. Acquire: what they are is seen then. */
extern LM_HIDDEN unsigned lm_meters_used;

/* Counts a call and returns its meter. *slow: whether it was; *operation: its number, from 1. */
lm_meter_t *lm_meter_count(const loam_entry *entry, loam_meter_function function, size_t requested,
                           size_t more, size_t less, bool failed, bool *slow, size_t *operation);

/* *counter + value, of that meter. */
LM_INLINE size_t lm_meter_add(const lm_meter_t *meter, size_t *counter, size_t value) {
    if (meter->shared) return lm_add_relaxed(counter, value) + value;
    size_t sum = lm_load_relaxed(counter) + value;
    lm_store_relaxed(counter, sum);
    return sum;
}
LM_INLINE void lm_meter_most(size_t *most, size_t value) {
    size_t before = lm_load_relaxed(most);
    while (value > before && !lm_cas_weak_relaxed(most, &before, value)) continue;
}

/* Its held bytes and requests: the heap's are asked for. */
void lm_meter_held(const lm_meter_t *meter, size_t *held, size_t *in_all, size_t *requests);

#if LM_HOSTED
/* What the heap holds: hosted/meter_rows.c. */
size_t lm_meter_heap_held(void);
#endif

#endif
#endif

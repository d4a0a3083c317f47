/* meter.h: meters, as meter.c keeps them and hosted/meter_rows.c shows them. Only if LOAM_METER is
 * above 0. family/family.h includes it. */
#ifndef LM_FAMILY_METER_H
#define LM_FAMILY_METER_H

#include "base/base.h"
#include "loam/meter.h"

#if LOAM_METER

/* Number of meters; number 0 is the heap's. The last one counts calls of allocators beyond
 * LOAM_METER_MOST. Bytes of a name with its end. */
enum { LM_METERS = LOAM_METER_MOST + 2, LM_METER_OTHERS = LM_METERS - 1, LM_METER_NAME = 48 };

/* A meter. All counters are read and written by relaxed atomics: they are shown, and order
 * nothing. */
typedef struct lm_meter {
    const char *kind;                 /* NULL: not in use so far */
    char name[LM_METER_NAME];         /* "" if it has none; '_' replaces what disturbs a CSV */
    bool shared;                      /* threads share it: additions must be atomic */
    loam_meter_stats stats;           /* all members except allocators */
    size_t operations;                /* number of calls */
    size_t depth;                     /* number of marks or frames */
    size_t used_at[LOAM_METER_DEPTH]; /* `used` at each mark or frame */
    /* Owner of each entry of used_at: a stack's mark, or LM_METER_FRAME for a frame. */
    uintptr_t place[LOAM_METER_DEPTH];
} lm_meter_t;

/* The owner of an entry that belongs to a frame. */
#define LM_METER_FRAME UINTPTR_MAX

/* All meters. */
extern LM_HIDDEN lm_meter_t lm_meters[LM_METERS];
/* Meters [0, lm_meters_used) and LM_METER_OTHERS have been in use. Acquire: their names are visible
 * then. */
extern LM_HIDDEN unsigned lm_meters_used;

/* Counts a call and returns its meter. *slow: whether the call was slow. *operation: its number,
 * from 1. */
lm_meter_t *lm_meter_count(const loam_entry *entry, loam_meter_function function, size_t requested,
                           size_t more, size_t less, bool failed, bool *slow, size_t *operation);

/* Adds value to a counter of that meter and returns the sum. */
LM_INLINE size_t lm_meter_add(const lm_meter_t *meter, size_t *counter, size_t value) {
    if (meter->shared) return lm_add_relaxed(counter, value) + value;
    size_t sum = lm_load_relaxed(counter) + value;
    lm_store_relaxed(counter, sum);
    return sum;
}
/* Raises *most to value, if that is more. Atomic. */
LM_INLINE void lm_meter_most(size_t *most, size_t value) {
    size_t before = lm_load_relaxed(most);
    while (value > before && !lm_cas_weak_relaxed(most, &before, value)) continue;
}

/* Returns a meter's held bytes and requests; for the heap's meter it asks the heap. */
void lm_meter_held(const lm_meter_t *meter, size_t *held, size_t *in_all, size_t *requests);

#if LM_HOSTED
/* Returns the bytes that the heap holds (hosted/meter_rows.c). */
size_t lm_meter_heap_held(void);
#endif

#endif
#endif

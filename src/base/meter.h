/* meter.h: what a library built to be measured (LOAM_METER above 0) says of its slow paths;
 * otherwise nothing.
 *
 * Slow paths of all layers say LM_METER(slow()); the allocators' own words (got, put, ...) are in
 * family/family.h. At level 0 LM_METER(...) is empty, and none of what is declared here exists.
 */
#ifndef LM_BASE_METER_H
#define LM_BASE_METER_H

#include "base/atomic.h"

#ifndef LOAM_METER
#define LOAM_METER 0
#endif

#if LOAM_METER
#define LM_METER(call) lm_meter_##call

#if LM_HOSTED
#define LM_METER_TLS LM_TLS
#else
#define LM_METER_TLS
#endif

/* Whether the calling thread has been on a slow path since somebody set this to false. */
extern LM_HIDDEN LM_METER_TLS bool lm_meter_was_slow;
LM_INLINE void lm_meter_slow(void) { lm_meter_was_slow = true; }

/* The system was asked for memory, by whichever thread. Atomic. */
extern LM_HIDDEN size_t lm_meter_system_calls, lm_meter_system_bytes;
LM_INLINE void lm_meter_system(size_t bytes) {
    /* Relaxed: numbers to be shown. */
    (void)lm_add_relaxed(&lm_meter_system_calls, 1);
    (void)lm_add_relaxed(&lm_meter_system_bytes, bytes);
}
#else
#define LM_METER(call) ((void)0)
#endif

#endif

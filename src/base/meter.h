/* meter.h: counters of slow paths, for a library that is built to be measured (LOAM_METER above 0).
 *
 * Slow paths of all layers call LM_METER(slow()). The allocators' own events (got, put, ...) are in
 * family/family.h. At level 0, LM_METER(...) expands to nothing, and nothing declared here exists.
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

/* True iff the calling thread has been on a slow path since the flag was last set to false. */
extern LM_HIDDEN LM_METER_TLS bool lm_meter_was_slow;
LM_INLINE void lm_meter_slow(void) { lm_meter_was_slow = true; }

/* Number of requests to the system for memory, and their total bytes, by all threads. Atomic. */
extern LM_HIDDEN size_t lm_meter_system_calls, lm_meter_system_bytes;
LM_INLINE void lm_meter_system(size_t bytes) {
    /* Relaxed: statistics. */
    (void)lm_add_relaxed(&lm_meter_system_calls, 1);
    (void)lm_add_relaxed(&lm_meter_system_bytes, bytes);
}
#else
#define LM_METER(call) ((void)0)
#endif

#endif

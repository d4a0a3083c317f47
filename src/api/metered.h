/* metered.h: what a library of a meter level above 0 counts for each call to the heap
 * (loam/meter.h); at level 0, only the call itself.
 *
 * Each macro is the end of a function's body: it returns the object, or nothing. `requested` is in
 * bytes.
 */
#ifndef LM_API_METERED_H
#define LM_API_METERED_H

#include "loam/meter.h"

#if LOAM_METER
#define ALLOCATE(requested, call) \
    LOAM_METER_BEGIN; \
    void *object = call; \
    LOAM_METER_ALLOCATED(&loam_meter_heap, object, requested, lm_meter_bytes(object)); \
    return object
#define FREE_AS(object, call) \
    size_t used = lm_meter_bytes(object); \
    LOAM_METER_BEGIN; \
    call; \
    LOAM_METER_FREED(&loam_meter_heap, used)
#define REALLOCATE(object, requested, call) \
    size_t used_before = lm_meter_bytes(object); \
    LOAM_METER_BEGIN; \
    void *there = call; \
    LOAM_METER_REALLOCATED(&loam_meter_heap, there != NULL || (requested) == 0, requested, \
                           lm_meter_bytes(there), used_before); \
    return there
#else
#define ALLOCATE(requested, call) return call
#define FREE_AS(object, call) call
#define REALLOCATE(object, requested, call) return call
#endif
#define FREE(object) FREE_AS(object, lm_free(object))

#endif

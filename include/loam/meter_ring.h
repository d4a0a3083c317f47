/* loam/meter_ring.h: metered forms of the functions of loam/ring.h. Only ring.h includes this file,
 * if LOAM_METER is above 0. loam/meter_region.h says how metered forms work. Each frame counts the
 * bytes that leave `used` when it ends. */
#ifndef LOAM_METER_RING_H
#define LOAM_METER_RING_H

#include "loam/names_begin.h"

#include "loam/ring.h"

#if LOAM_METER && LOAM_METER_HOOKS

LOAM_BEGIN

LOAM_INLINE LOAM_NODISCARD void *loam_ring_alloc_aligned_metered(loam_ring *ring, size_t bytes,
                                                                 size_t align, const char *file,
                                                                 unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_ring_alloc_aligned_at(ring, bytes, align, file, line);
    LOAM_METER_ALLOCATED(&ring->entry, p, bytes, bytes);
    loam_meter_ring_more(ring, p, bytes);
    return p;
}
#define loam_ring_alloc_aligned_at loam_ring_alloc_aligned_metered

LOAM_INLINE LOAM_NODISCARD void *loam_ring_alloc_metered(loam_ring *ring, size_t bytes,
                                                         const char *file, unsigned line) {
    return loam_ring_alloc_aligned_at(ring, bytes, LOAM_RING_ALIGN, file, line);
}
#define loam_ring_alloc_at loam_ring_alloc_metered

LOAM_INLINE LOAM_NODISCARD void *loam_ring_calloc_metered(loam_ring *ring, size_t count,
                                                          size_t bytes, const char *file,
                                                          unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_ring_calloc_at(ring, count, bytes, file, line);
    LOAM_METER_ALLOCATED(&ring->entry, p, count * bytes, count * bytes);
    loam_meter_ring_more(ring, p, count * bytes);
    return p;
}
#define loam_ring_calloc_at loam_ring_calloc_metered

LOAM_INLINE LOAM_NODISCARD void *loam_ring_realloc_metered(loam_ring *ring, void *p,
                                                           size_t old_bytes, size_t bytes,
                                                           const char *file, unsigned line) {
    size_t before = p != NULL ? old_bytes : 0;
    LOAM_METER_BEGIN;
    void *there = loam_ring_realloc_at(ring, p, old_bytes, bytes, file, line);
    LOAM_METER_REALLOCATED(&ring->entry, there != NULL, bytes, bytes, before);
    if (there != NULL) {
        loam_meter_ring_more(ring, p, 0 - before);
        loam_meter_ring_more(ring, there, bytes);
    }
    return there;
}
#define loam_ring_realloc_at loam_ring_realloc_metered

LOAM_INLINE void loam_ring_free_metered(loam_ring *ring, void *p, size_t bytes, const char *file,
                                        unsigned line) {
    /* Before the free, while the object is in its frame. */
    loam_meter_ring_more(ring, p, 0 - bytes);
    LOAM_METER_BEGIN;
    loam_ring_free_at(ring, p, bytes, file, line);
    LOAM_METER_FREED(&ring->entry, p != NULL ? bytes : 0);
}
#define loam_ring_free_at loam_ring_free_metered

LOAM_END

#endif

#include "loam/names_end.h"

#endif

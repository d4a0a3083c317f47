/* loam/meter_fifo.h: metered forms of the inline functions of loam/fifo.h. Only fifo.h includes
 * this file, if LOAM_METER is above 0. loam/meter_region.h says how metered forms work.
 *
 * A free has no size: the bytes of freed objects leave `used` page by page. The library counts
 * frees by other threads, because the thread that frees the last object of a destroyed FIFO has no
 * FIFO left to count in. For this reason frees after destroy are not counted. */
#ifndef LOAM_METER_FIFO_H
#define LOAM_METER_FIFO_H

#include "loam/names_begin.h"

#include "loam/fifo.h"

#if LOAM_METER && LOAM_METER_HOOKS

LOAM_BEGIN

LOAM_INLINE LOAM_NODISCARD void *loam_fifo_alloc_aligned_metered(loam_fifo *fifo, size_t bytes,
                                                                 size_t align, const char *file,
                                                                 unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_fifo_alloc_aligned_at(fifo, bytes, align, file, line);
    LOAM_METER_ALLOCATED(&fifo->entry, p, bytes, bytes);
    loam_meter_fifo_more(fifo, p, bytes);
    return p;
}
#define loam_fifo_alloc_aligned_at loam_fifo_alloc_aligned_metered

LOAM_INLINE LOAM_NODISCARD void *loam_fifo_alloc_metered(loam_fifo *fifo, size_t bytes,
                                                         const char *file, unsigned line) {
    return loam_fifo_alloc_aligned_at(fifo, bytes, LOAM_FIFO_ALIGN, file, line);
}
#define loam_fifo_alloc_at loam_fifo_alloc_metered

LOAM_INLINE LOAM_NODISCARD void *loam_fifo_calloc_metered(loam_fifo *fifo, size_t count,
                                                          size_t bytes, const char *file,
                                                          unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_fifo_calloc_at(fifo, count, bytes, file, line);
    LOAM_METER_ALLOCATED(&fifo->entry, p, count * bytes, count * bytes);
    loam_meter_fifo_more(fifo, p, count * bytes);
    return p;
}
#define loam_fifo_calloc_at loam_fifo_calloc_metered

LOAM_INLINE void loam_fifo_free_metered(loam_fifo *fifo, void *p, const char *file, unsigned line) {
    if (LOAM_UNLIKELY(fifo->dead)) {
        loam_fifo_free_at(fifo, p, file, line);
        return;
    }
    LOAM_METER_BEGIN;
    loam_fifo_free_at(fifo, p, file, line);
    LOAM_METER_FREED(&fifo->entry, 0);
    /* The row of the free, if there is one, shows what was in use before it. */
    loam_meter_fifo_freed(fifo);
}
#define loam_fifo_free_at loam_fifo_free_metered

LOAM_INLINE LOAM_NODISCARD void *loam_fifo_realloc_aligned_metered(loam_fifo *fifo, void *p,
                                                                   size_t old_bytes, size_t bytes,
                                                                   size_t align, const char *file,
                                                                   unsigned line) {
    uintptr_t was = (uintptr_t)p;
    LOAM_METER_BEGIN;
    p = loam_fifo_realloc_aligned_at(fifo, p, old_bytes, bytes, align, file, line);
    /* The object's memory before the move is in use as long as its page. */
    size_t before = p != NULL && (uintptr_t)p == was ? old_bytes : 0;
    LOAM_METER_REALLOCATED(&fifo->entry, p != NULL, bytes, bytes, before);
    loam_meter_fifo_more(fifo, p, bytes - before);
    loam_meter_fifo_freed(fifo);
    return p;
}
#define loam_fifo_realloc_aligned_at loam_fifo_realloc_aligned_metered

LOAM_INLINE LOAM_NODISCARD void *loam_fifo_realloc_metered(loam_fifo *fifo, void *p,
                                                           size_t old_bytes, size_t bytes,
                                                           const char *file, unsigned line) {
    return loam_fifo_realloc_aligned_at(fifo, p, old_bytes, bytes, LOAM_FIFO_ALIGN, file, line);
}
#define loam_fifo_realloc_at loam_fifo_realloc_metered

LOAM_END

#endif

#include "loam/names_end.h"

#endif

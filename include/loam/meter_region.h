/* loam/meter_region.h: metered forms of the inline functions of loam/region.h. Only region.h
 * includes this file, if LOAM_METER is above 0.
 *
 * This file is the example of how an allocator joins the meter. The last lines of the allocator's
 * header are
 *
 *     #if LOAM_METER && LOAM_METER_HOOKS          (after #include "loam/meter.h" at the top)
 *     #include "loam/meter_<noun>.h"
 *     #endif
 *
 * The included file has a metered form, with the same arguments, of each function that allocates,
 * frees or changes a size. The form has LOAM_METER_BEGIN before the call, and LOAM_METER_ALLOCATED,
 * _FREED or _REALLOCATED behind it. A #define of the function's name follows. Code compiled after
 * that, macros and C++ headers included, calls the metered form. Functions of the header above
 * still call each other unmetered, so that nothing counts twice. Inline push and pop of frames get
 * forms as well, which call loam_meter_push(&x->entry) and loam_meter_pop(&x->entry).
 *
 * The allocator's sources have these calls (family/family.h, "The meter"); x->entry is its
 * loam_entry:
 *
 *     LM_METER(began(&x->entry, held, requests))   behind lm_entry_init, if it has memory by then
 *     LM_METER(got(&x->entry, bytes))              behind each chunk that the source gave,
 *     LM_METER(put(&x->entry, bytes))              and each that it got back
 *     LM_METER(slow())                             in other long paths: cleaning a page
 *     LM_METER(drop(&x->entry))                    where all objects end and it goes on: reset
 *     LM_METER(over(&x->entry))                    at its end, unless lm_entry_deinit does it
 *     LM_METER(mark_at(&x->entry, place))          where it makes a mark, and rewind_to where it
 *                                                  rewinds to one,
 *                                                  or mark and rewind, if its marks have numbers
 *     LM_METER(less(&x->entry, bytes))             where objects end whose sizes are known only as
 *                                                  a sum: of a FIFO's page, a ring's frame, which
 *                                                  its metered forms add up
 *
 * A kind that several threads may use at once has a `hold` (loam_kind): its counters are atomic.
 * Functions of the library that allocate for the program through the inline functions are in files
 * that begin as hosted/scratch.c does. */
#ifndef LOAM_METER_REGION_H
#define LOAM_METER_REGION_H

#include "loam/names_begin.h"

#include "loam/region.h"

#if LOAM_METER && LOAM_METER_HOOKS

LOAM_BEGIN

LOAM_INLINE LOAM_NODISCARD void *loam_region_alloc_aligned_metered(loam_region *region,
                                                                   size_t bytes, size_t align,
                                                                   const char *file,
                                                                   unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_region_alloc_aligned_at(region, bytes, align, file, line);
    LOAM_METER_ALLOCATED(&region->entry, p, bytes, bytes);
    return p;
}
#define loam_region_alloc_aligned_at loam_region_alloc_aligned_metered

LOAM_INLINE LOAM_NODISCARD void *loam_region_alloc_metered(loam_region *region, size_t bytes,
                                                           const char *file, unsigned line) {
    return loam_region_alloc_aligned_at(region, bytes, LOAM_REGION_ALIGN, file, line);
}
#define loam_region_alloc_at loam_region_alloc_metered

LOAM_INLINE LOAM_NODISCARD void *loam_region_calloc_metered(loam_region *region, size_t count,
                                                            size_t bytes, const char *file,
                                                            unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_region_calloc_at(region, count, bytes, file, line);
    LOAM_METER_ALLOCATED(&region->entry, p, count * bytes, count * bytes);
    return p;
}
#define loam_region_calloc_at loam_region_calloc_metered

LOAM_INLINE LOAM_NODISCARD void *loam_region_array_metered(loam_region *region, size_t count,
                                                           size_t bytes, size_t align,
                                                           const char *file, unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_region_array_at(region, count, bytes, align, file, line);
    LOAM_METER_ALLOCATED(&region->entry, p, count * bytes, count * bytes);
    return p;
}
#define loam_region_array_at loam_region_array_metered

LOAM_INLINE LOAM_NODISCARD void *loam_region_alloc_told_metered(loam_region *region, size_t bytes,
                                                                bool *new_chunk, const char *file,
                                                                unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_region_alloc_told_at(region, bytes, new_chunk, file, line);
    LOAM_METER_ALLOCATED(&region->entry, p, bytes, bytes);
    return p;
}
#define loam_region_alloc_told_at loam_region_alloc_told_metered

LOAM_INLINE void loam_region_free_aligned_metered(loam_region *region, void *p, size_t bytes,
                                                  size_t align, const char *file, unsigned line) {
    LOAM_METER_BEGIN;
    loam_region_free_aligned_at(region, p, bytes, align, file, line);
    LOAM_METER_FREED(&region->entry, p != NULL ? bytes : 0);
}
#define loam_region_free_aligned_at loam_region_free_aligned_metered

LOAM_INLINE void loam_region_free_metered(loam_region *region, void *p, size_t bytes,
                                          const char *file, unsigned line) {
    LOAM_METER_BEGIN;
    loam_region_free_at(region, p, bytes, file, line);
    LOAM_METER_FREED(&region->entry, p != NULL ? bytes : 0);
}
#define loam_region_free_at loam_region_free_metered

LOAM_INLINE LOAM_NODISCARD void *loam_region_realloc_aligned_metered(loam_region *region, void *p,
                                                                     size_t old_bytes, size_t bytes,
                                                                     size_t align, const char *file,
                                                                     unsigned line) {
    size_t before = p != NULL ? old_bytes : 0;
    LOAM_METER_BEGIN;
    p = loam_region_realloc_aligned_at(region, p, old_bytes, bytes, align, file, line);
    LOAM_METER_REALLOCATED(&region->entry, p != NULL, bytes, bytes, before);
    return p;
}
#define loam_region_realloc_aligned_at loam_region_realloc_aligned_metered

LOAM_INLINE LOAM_NODISCARD void *loam_region_realloc_metered(loam_region *region, void *p,
                                                             size_t old_bytes, size_t bytes,
                                                             const char *file, unsigned line) {
    return loam_region_realloc_aligned_at(region, p, old_bytes, bytes, LOAM_REGION_ALIGN, file,
                                          line);
}
#define loam_region_realloc_at loam_region_realloc_metered

LOAM_INLINE LOAM_NODISCARD bool loam_region_extend_metered(loam_region *region, void *p,
                                                           size_t old_bytes, size_t bytes,
                                                           const char *file, unsigned line) {
    LOAM_METER_BEGIN;
    bool good = loam_region_extend_at(region, p, old_bytes, bytes, file, line);
    LOAM_METER_REALLOCATED(&region->entry, good, bytes, bytes, old_bytes);
    return good;
}
#define loam_region_extend_at loam_region_extend_metered

LOAM_INLINE LOAM_NODISCARD void *loam_region_memdup_metered(loam_region *region, const void *from,
                                                            size_t bytes, const char *file,
                                                            unsigned line) {
    LOAM_METER_BEGIN;
    void *p = loam_region_memdup_at(region, from, bytes, file, line);
    LOAM_METER_ALLOCATED(&region->entry, p, bytes, bytes);
    return p;
}
#define loam_region_memdup_at loam_region_memdup_metered

LOAM_INLINE LOAM_NODISCARD char *loam_region_strdup_metered(loam_region *region, const char *from,
                                                            const char *file, unsigned line) {
    LOAM_METER_BEGIN;
    char *p = loam_region_strdup_at(region, from, file, line);
    size_t bytes = __builtin_strlen(from) + 1;
    LOAM_METER_ALLOCATED(&region->entry, p, bytes, bytes);
    return p;
}
#define loam_region_strdup_at loam_region_strdup_metered

LOAM_INLINE LOAM_NODISCARD char *loam_region_strndup_metered(loam_region *region, const char *from,
                                                             size_t most, const char *file,
                                                             unsigned line) {
    LOAM_METER_BEGIN;
    char *p = loam_region_strndup_at(region, from, most, file, line);
    size_t bytes = p != NULL ? __builtin_strlen(p) + 1 : 0;
    LOAM_METER_ALLOCATED(&region->entry, p, bytes, bytes);
    return p;
}
#define loam_region_strndup_at loam_region_strndup_metered

LOAM_END

#endif

#include "loam/names_end.h"

#endif

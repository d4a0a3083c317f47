/* loam/meter_blocks.h: metered forms of the functions of loam/blocks.h. Only blocks.h includes this
 * file, if LOAM_METER is above 0. loam/meter_region.h says how metered forms work. */
#ifndef LOAM_METER_BLOCKS_H
#define LOAM_METER_BLOCKS_H

#include "loam/names_begin.h"

#include "loam/blocks.h"

#if LOAM_METER && LOAM_METER_HOOKS

LOAM_BEGIN

LOAM_INLINE LOAM_NODISCARD void *loam_blocks_alloc_metered(loam_blocks *blocks, size_t bytes,
                                                           const char *file,
                                                           unsigned line) LOAM_NOEXCEPT {
    LOAM_METER_BEGIN;
    void *p = loam_blocks_alloc_at(blocks, bytes, file, line);
    LOAM_METER_ALLOCATED(&blocks->entry, p, bytes, loam_meter_blocks_bytes(blocks, p));
    return p;
}
#define loam_blocks_alloc_at loam_blocks_alloc_metered

LOAM_INLINE void loam_blocks_free_metered(loam_blocks *blocks, void *p, const char *file,
                                          unsigned line) LOAM_NOEXCEPT {
    size_t bytes = loam_meter_blocks_bytes(blocks, p);
    LOAM_METER_BEGIN;
    loam_blocks_free_at(blocks, p, file, line);
    LOAM_METER_FREED(&blocks->entry, bytes);
}
#define loam_blocks_free_at loam_blocks_free_metered

LOAM_INLINE LOAM_NODISCARD void *loam_blocks_calloc_metered(loam_blocks *blocks, size_t count,
                                                            size_t size, const char *file,
                                                            unsigned line) LOAM_NOEXCEPT {
    LOAM_METER_BEGIN;
    void *p = loam_blocks_calloc_at(blocks, count, size, file, line);
    LOAM_METER_ALLOCATED(&blocks->entry, p, count * size, loam_meter_blocks_bytes(blocks, p));
    return p;
}
#define loam_blocks_calloc_at loam_blocks_calloc_metered

LOAM_INLINE LOAM_NODISCARD void *loam_blocks_alloc_aligned_metered(loam_blocks *blocks,
                                                                   size_t bytes, size_t align,
                                                                   const char *file,
                                                                   unsigned line) LOAM_NOEXCEPT {
    LOAM_METER_BEGIN;
    void *p = loam_blocks_alloc_aligned_at(blocks, bytes, align, file, line);
    LOAM_METER_ALLOCATED(&blocks->entry, p, bytes, loam_meter_blocks_bytes(blocks, p));
    return p;
}
#define loam_blocks_alloc_aligned_at loam_blocks_alloc_aligned_metered

LOAM_INLINE LOAM_NODISCARD void *loam_blocks_realloc_metered(loam_blocks *blocks, void *p,
                                                             size_t bytes, const char *file,
                                                             unsigned line) LOAM_NOEXCEPT {
    size_t before = loam_meter_blocks_bytes(blocks, p);
    LOAM_METER_BEGIN;
    p = loam_blocks_realloc_at(blocks, p, bytes, file, line);
    LOAM_METER_REALLOCATED(&blocks->entry, p != NULL || bytes == 0, bytes,
                           loam_meter_blocks_bytes(blocks, p), before);
    return p;
}
#define loam_blocks_realloc_at loam_blocks_realloc_metered

LOAM_END

#endif

#include "loam/names_end.h"

#endif

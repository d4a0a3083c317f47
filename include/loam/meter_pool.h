/* loam/meter_pool.h: metered forms of the functions of loam/pool.h. Only pool.h includes this file,
 * if LOAM_METER is above 0. loam/meter_region.h says how metered forms work. The pools of a
 * loam_pool_set are metered, its fallback is not. */
#ifndef LOAM_METER_POOL_H
#define LOAM_METER_POOL_H

#include "loam/names_begin.h"

#include "loam/pool.h"

#if LOAM_METER && LOAM_METER_HOOKS

LOAM_BEGIN

LOAM_INLINE LOAM_NODISCARD void *loam_pool_alloc_metered(loam_pool *pool, const char *file,
                                                         unsigned line) LOAM_NOEXCEPT {
    LOAM_METER_BEGIN;
    void *block = loam_pool_alloc_at(pool, file, line);
    LOAM_METER_ALLOCATED(&pool->entry, block, pool->block_bytes, pool->block_bytes);
    return block;
}
#define loam_pool_alloc_at loam_pool_alloc_metered

LOAM_INLINE void loam_pool_free_metered(loam_pool *pool, void *block, const char *file,
                                        unsigned line) LOAM_NOEXCEPT {
    size_t bytes = block != NULL ? pool->block_bytes : 0;
    LOAM_METER_BEGIN;
    loam_pool_free_at(pool, block, file, line);
    LOAM_METER_FREED(&pool->entry, bytes);
}
#define loam_pool_free_at loam_pool_free_metered

LOAM_INLINE LOAM_NODISCARD loam_handle loam_pool_alloc_handle_metered(loam_pool *pool,
                                                                      const char *file,
                                                                      unsigned line) LOAM_NOEXCEPT {
    LOAM_METER_BEGIN;
    loam_handle handle = loam_pool_alloc_handle_at(pool, file, line);
    LOAM_METER_ALLOCATED(&pool->entry, handle != 0 ? pool : NULL, pool->block_bytes,
                         pool->block_bytes);
    return handle;
}
#define loam_pool_alloc_handle_at loam_pool_alloc_handle_metered

LOAM_INLINE bool loam_pool_free_handle_metered(loam_pool *pool, loam_handle handle,
                                               const char *file, unsigned line) LOAM_NOEXCEPT {
    LOAM_METER_BEGIN;
    bool good = loam_pool_free_handle_at(pool, handle, file, line);
    LOAM_METER_FREED(&pool->entry, good ? pool->block_bytes : 0);
    return good;
}
#define loam_pool_free_handle_at loam_pool_free_handle_metered

LOAM_INLINE LOAM_NODISCARD void *loam_shared_pool_alloc_metered(loam_shared_pool *pool,
                                                                const char *file,
                                                                unsigned line) LOAM_NOEXCEPT {
    LOAM_METER_BEGIN;
    void *block = loam_shared_pool_alloc_at(pool, file, line);
    LOAM_METER_ALLOCATED(&pool->pool.entry, block, pool->pool.block_bytes, pool->pool.block_bytes);
    return block;
}
#define loam_shared_pool_alloc_at loam_shared_pool_alloc_metered

LOAM_INLINE void loam_shared_pool_free_metered(loam_shared_pool *pool, void *block,
                                               const char *file, unsigned line) LOAM_NOEXCEPT {
    size_t bytes = block != NULL ? pool->pool.block_bytes : 0;
    LOAM_METER_BEGIN;
    loam_shared_pool_free_at(pool, block, file, line);
    LOAM_METER_FREED(&pool->pool.entry, bytes);
}
#define loam_shared_pool_free_at loam_shared_pool_free_metered

LOAM_END

#endif

#include "loam/names_end.h"

#endif

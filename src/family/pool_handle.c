/* pool_handle.c: handles: names of blocks that never become valid again after the block is freed.
 *
 *   handle   │ generation: 32 │ chunk: 6 │ block in it: 26 │
 *
 *   all generations   │ pool A │ pool B │ pool A ........ │ pool C │ not yet given ... │
 *
 * The last word of a block is its generation: odd while the block is in use, and higher after each
 * step. A block that is cut takes the pool's generation. A reset or trim lifts that above all
 * generations ever given, so neither has to visit blocks; handles with a generation below the last
 * reset's are stale. Generations are given to pools in ranges, each four times as large as the one
 * before. A block steps through all ranges of its pool. No two pools count with the same number
 * until all numbers have been given. Then new pools start with the first numbers again, and pools
 * that need more get none. Invariant: no generation is above pool->generations + 1, and a block
 * whose generation cannot be increased is retired.
 */
#include "family/pool.h"

#define LAST (UINT32_MAX - 1) /* generation of a retired block; in no range */
#define TOP (UINT32_MAX - (POOL_HANDLE_STEP - 1))
enum { POOL_HANDLE_STEP = 8 }; /* size of the first range; each range begins at a multiple of it */
#define POOL_HANDLE_MOST ((uint32_t)1 << 29)

/* Atomic, relaxed: all generations below it belong to some pool. */
static uint32_t pool_handle_given;

LM_INLINE uint32_t *word_of(const loam_pool *pool, const void *block) {
    return (uint32_t *)((uintptr_t)block + pool->stride - sizeof(uint32_t));
}
/* Reads a block's generation. Tools are paused, because one may have hidden what follows the
 * object. */
LM_READS_ANYTHING static uint32_t generation_of(const loam_pool *pool, const void *block) {
    lm_tool_pause();
    uint32_t generation = *word_of(pool, block);
    lm_tool_resume();
    return generation;
}
/* Writes a block's generation. Tools are paused, because one may have hidden what follows the
 * object. */
LM_READS_ANYTHING static void generation_set(const loam_pool *pool, const void *block,
                                             uint32_t value) {
    lm_tool_pause();
    *word_of(pool, block) = value;
    lm_tool_resume();
}
static bool has_handles(const loam_pool *pool) { return (pool->mode & LM_POOL_HANDLED) != 0; }

/* ---- Ranges ---- */

/* Takes `numbers` of the numbers left, from *from on. Returns false iff there are not so many, or
 * they are below `least`. */
static bool pool_handle_take(uint32_t numbers, uint32_t least, uint32_t *from) {
    LM_ASSERT(numbers != 0 && numbers % POOL_HANDLE_STEP == 0);
    *from = lm_load_relaxed(&pool_handle_given);
    do {
        if (*from < least || *from > TOP - numbers) return false;
    } while (!lm_cas_weak_relaxed(&pool_handle_given, from, *from + numbers));
    LM_ASSERT(*from % POOL_HANDLE_STEP == 0);
    return true;
}

/* Gives the pool one more range, at or above the end of its last one. Returns false iff there is
 * none. */
static bool range_get(loam_pool *pool) {
    unsigned count = pool->ranges_count;
    loam_pool_range *last = count != 0 ? &pool->ranges[count - 1] : NULL;
    uint32_t numbers = last != NULL ? last->to - last->from : POOL_HANDLE_STEP / 4, from;
    numbers = numbers < POOL_HANDLE_MOST / 4 ? 4 * numbers : POOL_HANDLE_MOST;
    while (!pool_handle_take(numbers, last != NULL ? last->to : 0, &from)) {
        numbers = numbers / 4 & ~(uint32_t)(POOL_HANDLE_STEP - 1);
        if (numbers == 0) return false;
    }
    if (last != NULL && (from == last->to || count == LOAM_POOL_RANGES)) {
        if (from == last->to) last->to += numbers;
        return from == last->to - numbers;
    }
    LM_ASSERT(count < LOAM_POOL_RANGES && (last == NULL || last->to < from));
    pool->ranges[pool->ranges_count++] = (loam_pool_range){from, from + numbers};
    return true;
}

/* Returns the pool's first number that is at least `least`, or LAST iff there is none. */
static uint32_t in_range(loam_pool *pool, uint32_t least) {
    do {
        for (unsigned i = 0; i < pool->ranges_count; i++) {
            const loam_pool_range *range = &pool->ranges[i];
            if (least < range->to) return least > range->from ? least : range->from;
        }
    } while (least < TOP && range_get(pool));
    return LAST;
}

void lm_pool_generation_start(loam_pool *pool) {
    if (!has_handles(pool)) return;
    if (!range_get(pool)) {
        /* All numbers are used up: start from the first ones again. */
        lm_store_relaxed(&pool_handle_given, 0);
        (void)range_get(pool);
    }
    pool->generation = pool->generations = pool->ranges[0].from;
}

/* ---- Blocks ---- */

void lm_pool_generation_begin(const loam_pool *pool, void *block, bool used) {
    LM_ASSERT(has_handles(pool));
    LM_ASSERT(pool->generation % 2 == 0 && pool->generation <= pool->generations);
    uint32_t last = used ? generation_of(pool, block) : pool->generation;
    generation_set(pool, block, last + 1);
}

bool lm_pool_generation_end(loam_pool *pool, void *block) {
    if (!has_handles(pool)) return true;
    uint32_t next = generation_of(pool, block) + 1;
    if (next % POOL_HANDLE_STEP == 0) next = in_range(pool, next);
    if (next >= TOP) next = LAST;
    generation_set(pool, block, next);
    if (next == LAST) {
        pool->retired++;
        return false;
    }
    if (next > pool->generations) pool->generations = next;
    return true;
}

bool lm_pool_generation_live(const loam_pool *pool, const void *block) {
    return !has_handles(pool) || generation_of(pool, block) % 2 == 1;
}

/* Makes blocks that are cut from now on begin above all that are or were in use. Returns false iff
 * there is no such number. */
static bool lift(loam_pool *pool) {
    uint32_t above = in_range(pool, (pool->generations + 3) & ~1u);
    if (above == LAST) return false;
    LM_ASSERT(above % 2 == 0 && above > pool->generations);
    pool->generation = pool->generations = above;
    return true;
}

bool lm_pool_generation_may_trim(loam_pool *pool) { return !has_handles(pool) || lift(pool); }

static void end_each(loam_pool *pool, loam_pool_chunk *chunk) {
    const char *high = lm_pool_high(pool, chunk);
    for (char *block = chunk->start; block != high; block += pool->stride) {
        if (lm_pool_generation_live(pool, block)) {
            lm_tool_hide(block, pool->block_bytes);
            if (lm_pool_generation_end(pool, block)) lm_pool_put(pool, block);
        } else if (generation_of(pool, block) != LAST) {
            lm_pool_put(pool, block);
        }
    }
}

bool lm_pool_generation_end_all(loam_pool *pool) {
    if (!has_handles(pool)) return true;
    if (lift(pool)) {
        pool->reset_at = pool->generation;
        /* Retired blocks are cut again, above all generations that they ever had. */
        pool->retired = 0;
        return true;
    }
    lm_pool_cut(pool)->free = NULL;
    for (loam_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        end_each(pool, chunk);
        if (chunk == pool->current) break;
    }
    return false;
}

/* ---- Handles ---- */

loam_handle loam_pool_handle(const loam_pool *pool, const void *p) {
    const char *block = (const char *)((uintptr_t)p - pool->head_bytes);
    size_t number;
    const loam_pool_chunk *chunk = lm_pool_find(pool, block, &number);
    if (chunk == NULL || !has_handles(pool) || !lm_pool_generation_live(pool, block)) return 0;
    LM_ASSERT(chunk->number < 1u << LM_POOL_CHUNK_BITS && number < 1u << LM_POOL_NUMBER_BITS);
    uint32_t place = (uint32_t)(chunk->number << LM_POOL_NUMBER_BITS | number);
    return (loam_handle)generation_of(pool, block) << 32 | place;
}

loam_handle loam_pool_alloc_handle_at(loam_pool *pool, const char *file, unsigned line) {
    if (!has_handles(pool)) {
        lm_family_misuse(&pool->entry, file, line, "a handle of a pool without handles");
        return 0;
    }
    void *p = loam_pool_alloc_slow(pool, file, line);
    return p == NULL ? 0 : loam_pool_handle(pool, p);
}

void *loam_pool_get(const loam_pool *pool, loam_handle handle) {
    uint32_t generation = (uint32_t)(handle >> 32), place = (uint32_t)handle;
    size_t number = place & ((1u << LM_POOL_NUMBER_BITS) - 1);
    const loam_pool_chunk *chunk = pool->chunks;
    if (generation % 2 == 0 || generation < pool->reset_at || !has_handles(pool)) return NULL;
    if (pool->table != NULL)
        chunk = pool->table[place >> LM_POOL_NUMBER_BITS];
    else if (place >> LM_POOL_NUMBER_BITS != 0)
        return NULL;
    if (chunk == NULL || number >= lm_pool_blocks(pool, chunk, lm_pool_high(pool, chunk)))
        return NULL;
    char *block = chunk->start + number * pool->stride;
    return generation_of(pool, block) == generation ? block + pool->head_bytes : NULL;
}

bool loam_pool_free_handle_at(loam_pool *pool, loam_handle handle, const char *file,
                              unsigned line) {
    void *p = loam_pool_get(pool, handle);
    if (p == NULL) return false;
    lm_pool_give(pool, p, file, line);
    return true;
}

/* pool_whole.c: operations on a whole pool (loam/pool.h): reset, extend, shrink, trim, end, usage
 * and check. All code that walks blocks is here, except for handles.
 */
#include "family/pool.h"

static bool is_checked(const loam_pool *pool) { return (pool->mode & LM_POOL_CHECKED) != 0; }

/* Returns the number of blocks cut since the last reset. */
static size_t blocks_cut(const loam_pool *pool) {
    size_t blocks = 0;
    for (const loam_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next)
        blocks += lm_pool_blocks(pool, chunk, lm_pool_high(pool, chunk));
    return blocks;
}

/* Returns the number of blocks in the list; more than `most` if it has no end. */
static size_t pool_all_blocks_free(const loam_pool *pool, size_t most) {
    size_t blocks = 0;
    const void *block = lm_pool_cut_of(pool)->free;
    for (; block != NULL && blocks <= most; blocks++) block = lm_pool_link_get(pool, block);
    return blocks;
}

/* ---- Blocks from before a reset, in a checked pool ---- */

static const loam_tag *tag_in(const loam_pool *pool, const char *block) {
    return (const loam_tag *)(const void *)(block + pool->head_bytes) - 1;
}

/* Checks the blocks in the list. Ends at a link that leads to no block: the next allocation reports
 * that. */
static bool free_blocks_are_whole(const loam_pool *pool) {
    bool good = true;
    size_t number;
    for (const char *block = (const char *)lm_pool_cut_of(pool)->free;
         block != NULL && lm_pool_find(pool, block, &number) != NULL;
         block = (const char *)lm_pool_link_get(pool, block))
        good = lm_guard_check_freed(&pool->entry, tag_in(pool, block)) && good;
    return good;
}

bool lm_pool_check_gone(const loam_pool *pool) {
    bool good = true;
    for (const loam_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        const char *block = lm_pool_high(pool, chunk);
        for (; block < chunk->end && lm_pool_is_gone(pool, chunk, block); block += pool->stride)
            good = lm_guard_check_freed(&pool->entry, tag_in(pool, block)) && good;
    }
    return good;
}

/* Checks everything once more: later, a write to memory of the pool could not be reported. */
static void look_again(const loam_pool *pool) {
    if (pool->chunks == NULL) return;
    (void)lm_guard_check(&pool->entry);
    (void)free_blocks_are_whole(pool);
    (void)lm_pool_check_gone(pool);
}

/* Records that all blocks that were ever cut are free and have been used. */
static void pool_all_note_gone(loam_pool *pool) {
    const loam_pool_chunk *chunk = pool->current;
    char *high = lm_pool_cut(pool)->fresh;
    LM_ASSERT(chunk->start <= high && high <= chunk->end);
    /* The position is no further than at the last record. */
    if (lm_pool_is_gone(pool, chunk, high)) return;
    pool->gone = high;
    pool->gone_order = chunk->order;
}

/* Ends the record of used blocks: memory is given back, and memory got in its place was never a
 * block. */
static void forget_gone(loam_pool *pool) {
    if (!is_checked(pool)) return;
    (void)lm_pool_check_gone(pool);
    pool->gone = NULL;
}

/* ---- Reset ---- */

void loam_pool_reset(loam_pool *pool) {
    if (lm_pool_over(pool, "reset", NULL, 0)) return;
    loam_pool_cut *cut = lm_pool_cut(pool);
    loam_pool_chunk *oldest = pool->chunks;
    if (is_checked(pool)) {
        look_again(pool);
        lm_guard_drop_all(&pool->entry);
    }
    LM_ASSERT((oldest == NULL) == (pool->current == NULL));
    if (oldest == NULL || !lm_pool_generation_end_all(pool)) return;
    if (is_checked(pool)) pool_all_note_gone(pool);
    if ((pool->mode & LM_POOL_WATCHED) != 0) {
        for (loam_pool_chunk *chunk = oldest; chunk != NULL; chunk = chunk->next)
            lm_tool_hide(chunk->start, (size_t)(chunk->limit - chunk->start));
    }
    LM_METER(drop(&pool->entry));
    pool->current = oldest;
    *cut = (loam_pool_cut){.fresh = oldest->start, .end = oldest->end};
}

/* ---- Size ---- */

int loam_pool_extend(loam_pool *pool, size_t bytes) {
    if (lm_pool_over(pool, "extend", NULL, 0)) return LM_EINVAL;
    if ((pool->flags & LOAM_POOL_CONTIGUOUS) == 0 || bytes > PTRDIFF_MAX) return LM_EINVAL;
    if (bytes == 0) return 0;
    if (pool->source != NULL) {
        if (pool->chunks == NULL && !lm_pool_grow(pool)) return LM_ENOMEM;
        return lm_pool_piece_get(pool, bytes) ? 0 : LM_ENOMEM;
    }
    loam_pool_chunk *chunk = &pool->first;
    LM_ASSERT(pool->chunks == chunk && pool->current == chunk);
    lm_tool_hide(chunk->limit, bytes);
    chunk->limit += bytes;
    pool->held_bytes += bytes;
    if (pool->held_bytes > pool->peak_bytes) pool->peak_bytes = pool->held_bytes;
    pool->left_blocks = SIZE_MAX;
    lm_pool_set_end(pool, chunk);
    return 0;
}

size_t loam_pool_shrink(loam_pool *pool) {
    size_t bytes = 0;
    if (lm_pool_over(pool, "shrink", NULL, 0) || pool->chunks == NULL) return 0;
    forget_gone(pool);
    const char *high = lm_pool_cut(pool)->fresh;
    if (pool->source == NULL) {
        loam_pool_chunk *chunk = &pool->first;
        bytes = (size_t)(chunk->limit - high);
        LM_ASSERT(high <= chunk->limit && pool->held_bytes >= bytes);
        lm_tool_show(high, bytes);
        chunk->limit -= bytes;
        pool->held_bytes -= bytes;
        lm_pool_set_end(pool, chunk);
        return bytes;
    }
    if ((pool->flags & LOAM_POOL_CONTIGUOUS) != 0) {
        LM_ASSERT(pool->current == &pool->first);
        for (size_t piece; (piece = lm_pool_piece_put(pool, high)) != 0;) bytes += piece;
        lm_pool_set_end(pool, &pool->first);
        return bytes;
    }
    while (pool->current->next != NULL) bytes += lm_pool_chunk_put(pool, &pool->current->next);
    return bytes;
}

/* Counts the blocks of the list in their chunks. */
static void count_free(loam_pool *pool) {
    for (loam_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next)
        chunk->counted = 0;
    for (const void *block = lm_pool_cut(pool)->free; block != NULL;
         block = lm_pool_link_get(pool, block)) {
        size_t number;
        const loam_pool_chunk *chunk = lm_pool_find(pool, block, &number);
        if (chunk != NULL) ((loam_pool_chunk *)(uintptr_t)chunk)->counted++;
    }
}

static bool is_idle(const loam_pool *pool, const loam_pool_chunk *chunk) {
    bool home = chunk->memory == (const void *)pool;
    return !home && chunk->counted == lm_pool_blocks(pool, chunk, lm_pool_high(pool, chunk));
}

/* Removes the blocks of idle chunks from the list, which keeps its order. */
static void filter_free(loam_pool *pool) {
    loam_pool_cut *cut = lm_pool_cut(pool);
    void *last = NULL, *next;
    for (void *block = cut->free; block != NULL; block = next) {
        size_t number;
        const loam_pool_chunk *chunk = lm_pool_find(pool, block, &number);
        next = lm_pool_link_get(pool, block);
        if (chunk == NULL || is_idle(pool, chunk)) continue;
        if (last == NULL)
            cut->free = block;
        else
            lm_pool_link_set(pool, last, block);
        last = block;
    }
    if (last == NULL)
        cut->free = NULL;
    else
        lm_pool_link_set(pool, last, NULL);
}

/* Leaves the current chunk, which goes. No chunk is current until the next block is requested; that
 * takes the chunk after it. */
static void leave_current(loam_pool *pool, loam_pool_chunk *before) {
    loam_pool_cut *cut = lm_pool_cut(pool);
    pool->current = before != NULL ? before : pool->chunks;
    *cut = (loam_pool_cut){.free = cut->free};
    if (pool->current == NULL) return;
    cut->end = pool->current->end;
    cut->fresh = before != NULL ? cut->end : pool->current->start;
}

size_t loam_pool_trim(loam_pool *pool) {
    size_t bytes = 0;
    if (lm_pool_over(pool, "trim", NULL, 0)) return 0;
    if (pool->source == NULL || pool->chunks == NULL) return 0;
    if ((pool->flags & LOAM_FIXED) != 0) return loam_pool_shrink(pool);
    if (!lm_pool_generation_may_trim(pool)) return 0;
    if (is_checked(pool)) (void)free_blocks_are_whole(pool);
    forget_gone(pool);
    count_free(pool);
    filter_free(pool);
    if ((pool->flags & LOAM_POOL_CONTIGUOUS) != 0 && !is_idle(pool, &pool->first))
        return loam_pool_shrink(pool);
    /* All chunks are marked first, because the current chunk tells the high mark of each. */
    for (loam_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next)
        chunk->counted = is_idle(pool, chunk);
    loam_pool_chunk *before = NULL;
    for (loam_pool_chunk **link = &pool->chunks; *link != NULL;) {
        loam_pool_chunk *chunk = *link;
        LM_ASSERT(before == NULL || before->order < chunk->order);
        if (!chunk->counted) {
            before = chunk;
            link = &chunk->next;
            continue;
        }
        bool current = chunk == pool->current;
        if (chunk == &pool->first) {
            for (size_t piece; (piece = lm_pool_piece_put(pool, chunk->start)) != 0;)
                bytes += piece;
        }
        bytes += lm_pool_chunk_put(pool, link);
        if (current) leave_current(pool, before);
    }
    return bytes;
}

/* Leaves of a pool no memory and, as long as its own memory exists, a tombstone. The name of a
 * checked pool is copied into words that the pool no longer needs. */
static void pool_all_bury(loam_pool *pool) {
    LM_ASSERT(!lm_entry_linked(&pool->entry));
    pool->hot = pool->cold = (loam_pool_cut){0};
    pool->chunks = pool->current = pool->root = NULL;
    pool->floor = UINTPTR_MAX;
    pool->mode |= LM_POOL_ENDED;
    if (is_checked(pool))
        lm_entry_bury(&pool->entry, (char *)&pool->held_bytes, 3 * sizeof(size_t));
    else
        pool->entry.name = NULL;
}

/* Gives back the pool's only chunk, or the one that contains the pool. */
static void put_last(loam_pool *pool) {
    loam_pool_chunk *chunk = pool->chunks;
    loam_source *source = pool->source;
    bool home = chunk->memory == (const void *)pool, keep = home && is_checked(pool);
    void *memory = chunk->memory;
    size_t got = chunk->got;
    LM_ASSERT(chunk->next == NULL && pool->runs[0].count == 0 && pool->table == NULL);
    LM_ASSERT(pool->held_bytes == got + pool->home_bytes);
    LM_METER(put(&pool->entry, got));
    if (!home) pool->first = (loam_pool_chunk){0};
    lm_tool_show(memory, got);
    pool_all_bury(pool);
    if (!keep || !lm_entry_keep(source, memory, got, pool, sizeof(*pool)))
        loam_source_put(source, memory, got);
}

/* Gives back the memory of a pool that has ended, unless it stays for a while as a tombstone. */
static void put_home(loam_source *source, loam_pool *pool, size_t got) {
    if (!is_checked(pool) || !lm_entry_keep(source, pool, got, pool, sizeof(*pool)))
        loam_source_put(source, pool, got);
}

void loam_pool_deinit(loam_pool *pool) {
    if (lm_pool_over(pool, "deinit", NULL, 0)) return;
    loam_source *source = pool->source;
    size_t home_bytes = pool->home_bytes;
    if (is_checked(pool)) {
        look_again(pool);
        if ((pool->flags & LOAM_CHECK) != 0) (void)lm_guard_leaks(&pool->entry, LM_LEAKS_MOST);
        lm_guard_drop_all(&pool->entry);
    }
    lm_entry_deinit(&pool->entry);
    if (pool->source == NULL) {
        lm_tool_show(pool->first.start, (size_t)(pool->first.limit - pool->first.start));
        pool_all_bury(pool);
        return;
    }
    while (pool->chunks != NULL && pool->chunks->next != NULL)
        (void)lm_pool_chunk_put(pool, &pool->chunks->next);
    while (lm_pool_piece_put(pool, pool->first.start) != 0) {}
    lm_pool_table_put(pool);
    LM_ASSERT(pool->chunks != NULL || pool->held_bytes == home_bytes);
    if (pool->chunks != NULL)
        put_last(pool);
    else
        pool_all_bury(pool);
    if (home_bytes != 0) put_home(source, pool, home_bytes);
}

void loam_pool_leave(loam_pool *pool) {
    if (lm_pool_over(pool, "leave", NULL, 0)) return;
    loam_usage usage;
    loam_pool_usage(pool, &usage);
    if (usage.objects == 0)
        loam_pool_deinit(pool);
    else
        lm_entry_deinit(&pool->entry);
}

void loam_pool_destroy(loam_pool *pool) {
    if (pool != NULL) loam_pool_deinit(pool);
}

/* ---- Visiting ----
 *
 * Nothing in a block tells whether it is in use. So the free blocks are sorted by address, and the
 * blocks between them in the chunks are in use. */

enum { POOL_ALL_DIGIT = 6, POOL_ALL_DIGITS = 1 << POOL_ALL_DIGIT };

/* Sorts the list by digits of the addresses, the lowest digit first. */
static void sort_free(loam_pool *pool) {
    loam_pool_cut *cut = lm_pool_cut(pool);
    uintptr_t differ = 0;
    for (void *block = cut->free; block != NULL; block = lm_pool_link_get(pool, block))
        differ |= (uintptr_t)block ^ (uintptr_t)cut->free;
    for (unsigned shift = pool->shift; shift < 8 * sizeof differ && differ >> shift != 0;
         shift += POOL_ALL_DIGIT) {
        void *firsts[POOL_ALL_DIGITS] = {0}, *lasts[POOL_ALL_DIGITS] = {0}, *last = NULL, *next;
        for (void *block = cut->free; block != NULL; block = next) {
            size_t digit = (uintptr_t)block >> shift & (POOL_ALL_DIGITS - 1);
            next = lm_pool_link_get(pool, block);
            if (firsts[digit] == NULL)
                firsts[digit] = block;
            else
                lm_pool_link_set(pool, lasts[digit], block);
            lasts[digit] = block;
        }
        for (size_t digit = 0; digit < POOL_ALL_DIGITS; digit++) {
            if (firsts[digit] == NULL) continue;
            if (last == NULL)
                cut->free = firsts[digit];
            else
                lm_pool_link_set(pool, last, firsts[digit]);
            last = lasts[digit];
        }
        lm_pool_link_set(pool, last, NULL);
    }
}

/* Returns the chunk with the lowest address that is not below `from`. */
static loam_pool_chunk *chunk_from(const loam_pool *pool, uintptr_t from) {
    loam_pool_chunk *found = NULL, *at = pool->root;
    while (at != NULL) {
        bool below = (uintptr_t)at->start < from;
        if (!below) found = at;
        at = below ? at->higher : at->lower;
    }
    return found;
}

static size_t visit_checked(loam_pool *pool, bool (*visit)(void *object, void *context),
                            void *context) {
    size_t visited = 0;
    for (loam_tag *tag = pool->entry.live, *next; tag != NULL; tag = next) {
        next = tag->next;
        visited++;
        if (!visit(tag + 1, context)) break;
    }
    return visited;
}

size_t loam_pool_visit(loam_pool *pool, bool (*visit)(void *object, void *context), void *context) {
    if (lm_pool_over(pool, "visit", NULL, 0)) return 0;
    if (is_checked(pool)) return visit_checked(pool, visit, context);
    bool handled = (pool->mode & LM_POOL_HANDLED) != 0;
    if (!handled) sort_free(pool);
    size_t visited = 0;
    const void *free = handled ? NULL : lm_pool_cut(pool)->free;
    for (loam_pool_chunk *chunk = chunk_from(pool, 0); chunk != NULL;
         chunk = chunk_from(pool, (uintptr_t)chunk->start + 1)) {
        const char *high = lm_pool_high(pool, chunk);
        for (char *block = chunk->start; block != high; block += pool->stride) {
            if (block == free) {
                free = lm_pool_link_get(pool, free);
                continue;
            }
            if (handled && !lm_pool_generation_live(pool, block)) continue;
            visited++;
            if (!visit(block, context)) return visited;
        }
    }
    return visited;
}

/* ---- Usage and check ---- */

static void pool_usage(const loam_entry *entry, loam_usage *usage) {
    const loam_pool *pool = lm_pool_of(entry);
    if (lm_pool_over(pool, "usage", NULL, 0)) return;
    size_t cut = blocks_cut(pool), held = pool_all_blocks_free(pool, cut) + pool->retired;
    usage->held_bytes = pool->held_bytes;
    usage->peak_bytes = pool->peak_bytes;
    usage->requests = pool->requests;
    usage->objects = cut - (held < cut ? held : cut);
    usage->object_bytes = pool->block_bytes;
    usage->used_bytes = usage->objects * pool->stride;
    /* Table and pool are chunks as well. */
    usage->chunks = (pool->table != NULL) + (pool->home_bytes != 0);
    for (const loam_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next)
        usage->chunks++;
}

void loam_pool_usage(const loam_pool *pool, loam_usage *usage) {
    *usage = (loam_usage){.kind = lm_pool_kind.name,
                          .name = pool->entry.name != NULL ? pool->entry.name : ""};
    pool_usage(&pool->entry, usage);
}

static bool chunks_are_whole(const loam_pool *pool) {
    for (const loam_pool_chunk *chunk = pool->chunks; chunk != NULL; chunk = chunk->next) {
        const char *high = lm_pool_high(pool, chunk);
        size_t blocks = lm_pool_blocks(pool, chunk, high);
        if (chunk->start + blocks * pool->stride == high && high <= chunk->end &&
            chunk->end <= chunk->limit)
            continue;
        lm_family_misuse(&pool->entry, NULL, 0, "chunk %p damaged", (const void *)chunk->start);
        return false;
    }
    return true;
}

static bool pool_check(const loam_entry *entry) {
    const loam_pool *pool = lm_pool_of(entry);
    if (lm_pool_over(pool, "check", NULL, 0)) return false;
    if (!chunks_are_whole(pool)) return false;
    size_t cut = blocks_cut(pool), seen = 0, number;
    for (const void *block = lm_pool_cut_of(pool)->free; block != NULL;
         block = lm_pool_link_get(pool, block)) {
        if (lm_pool_find(pool, block, &number) == NULL) {
            lm_family_misuse(entry, NULL, 0, "free list damaged: %p is no block of it", block);
            return false;
        }
        if (seen++ == cut) {
            lm_family_misuse(entry, NULL, 0, "free list damaged: it has no end");
            return false;
        }
    }
    if (!is_checked(pool)) return true;
    bool good = free_blocks_are_whole(pool);
    good = lm_pool_check_gone(pool) && good;
    return lm_guard_check(entry) && good;
}

bool loam_pool_check(const loam_pool *pool) { return pool_check(&pool->entry); }

const loam_kind lm_pool_kind = {.name = "pool", .usage = pool_usage, .check = pool_check};

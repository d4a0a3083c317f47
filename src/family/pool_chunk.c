/* pool_chunk.c: takes a pool's memory from its source and returns it.
 *
 *   chunked      │ loam_pool_chunk │ blocks ...  │   one get per chunk, each twice as large
 *   contiguous   │ blocks ... │ piece │ piece │ ─>   from a source whose chunks are adjacent
 *   created      │ loam_pool │ blocks ... │          the first chunk, if it has few blocks
 *
 * The chunks form a list by age, and a tree by address. The tree's branches are ordered by a hash
 * of their addresses: a treap, whose depth is twice the logarithm of the number of chunks, in
 * whatever order chunks come and go. (After Seidel and Aragon, "Randomized search trees", 1996.)
 *
 * Invariant: end <= limit, and end - start is a multiple of the stride. limit - end is less than a
 * stride, unless most_blocks, handles or narrow links allow the pool no more blocks.
 */
#include "family/pool.h"

enum {
    POOL_CHUNK_LINE_BYTES = 64,
    MOST_COLOURS = 8,
    CHUNKS = 1 << LM_POOL_CHUNK_BITS,
    MANY_CHUNKS = CHUNKS / 2,
    POOL_CHUNK_DOUBLINGS = 8,
    /* Maximum bytes of blocks in the chunk that contains the pool. */
    HOME_MOST = 64 * 1024,
};

static bool is_contiguous(const loam_pool *pool) {
    return (pool->flags & LOAM_POOL_CONTIGUOUS) != 0;
}

/* Returns the alignment at which blocks begin after the header: theirs, or a cache line if that
 * costs nothing. */
static size_t start_align(const loam_pool *pool) {
    size_t natural = pool->stride & (0 - pool->stride);
    if (natural > POOL_CHUNK_LINE_BYTES) natural = POOL_CHUNK_LINE_BYTES;
    bool free = (pool->source->flags & LOAM_SOURCE_ALIGNED) != 0;
    return free && natural > pool->align ? natural : pool->align;
}

/* Returns the extra offset of a chunk's blocks. Blocks of 128, 256 or 512 bytes would use an eighth
 * of a cache's sets if all began at a multiple of that, so each chunk begins one line further than
 * the one before. */
static size_t colour(const loam_pool *pool, unsigned order) {
    size_t natural = pool->stride & (0 - pool->stride);
    if (natural <= POOL_CHUNK_LINE_BYTES || pool->align > POOL_CHUNK_LINE_BYTES ||
        (pool->flags & LOAM_POOL_DENSE) != 0)
        return 0;
    if (natural > MOST_COLOURS * POOL_CHUNK_LINE_BYTES)
        natural = MOST_COLOURS * POOL_CHUNK_LINE_BYTES;
    return order * POOL_CHUNK_LINE_BYTES & (natural - 1);
}

static void count_held(loam_pool *pool, size_t bytes) {
    pool->requests++;
    pool->held_bytes += bytes;
    if (pool->held_bytes > pool->peak_bytes) pool->peak_bytes = pool->held_bytes;
    LM_METER(got(&pool->entry, bytes));
}

/* ---- Ends and lists ---- */

/* Brackets changes of the tree and of its chunks' ends. No other thread finds a pool that is not in
 * the registry. */
static void tree_lock(const loam_pool *pool) {
    if (lm_entry_linked(&pool->entry)) lm_port_lock(LM_PORT_LIST);
}
static void tree_unlock(const loam_pool *pool) {
    if (lm_entry_linked(&pool->entry)) lm_port_unlock(LM_PORT_LIST);
}

/* Returns the maximum number of blocks that a chunk of this pool can have, at least 1: handles and
 * narrow links have few bits. */
static size_t chunk_most(const loam_pool *pool) {
    if ((pool->mode & LM_POOL_HANDLED) != 0) return (size_t)1 << LM_POOL_NUMBER_BITS;
    /* The last block's distance from the start in words of 4 bytes, plus one, is at most
     * UINT32_MAX. */
    if ((pool->mode & LM_POOL_NARROW) != 0) return (UINT32_MAX - 1) / (pool->stride / 4) + 1;
    return SIZE_MAX;
}

void lm_pool_set_end(loam_pool *pool, loam_pool_chunk *chunk) {
    size_t blocks = (size_t)(chunk->limit - chunk->start) / pool->stride;
    size_t had = lm_pool_blocks(pool, chunk, chunk->end != NULL ? chunk->end : chunk->start);
    size_t most = pool->left_blocks > SIZE_MAX - had ? SIZE_MAX : pool->left_blocks + had;
    if (most > chunk_most(pool)) most = chunk_most(pool);
    if (blocks > most) blocks = most;
    if (pool->left_blocks != SIZE_MAX) pool->left_blocks -= blocks - had;
    tree_lock(pool);
    chunk->end = chunk->start + blocks * pool->stride;
    tree_unlock(pool);
    LM_ASSERT(chunk->start <= chunk->end && chunk->end <= chunk->limit);
    LM_ASSERT(chunk != pool->current || lm_pool_cut(pool)->fresh <= chunk->end);
    if (chunk == pool->current) lm_pool_cut(pool)->end = chunk->end;
}

static void pool_begin(loam_pool *pool, loam_pool_chunk *chunk) {
    loam_pool_cut *cut = lm_pool_cut(pool);
    LM_ASSERT(cut->fresh == cut->end); /* the chunk before it is cut up */
    LM_ASSERT(pool->current == NULL || pool->current->order < chunk->order);
    pool->current = chunk;
    cut->fresh = chunk->start;
    cut->end = chunk->end;
}

static size_t rank_of(const loam_pool_chunk *chunk) {
    size_t rank = ((uintptr_t)chunk->start >> 4) * (size_t)0x9E3779B97F4A7C15u;
    return rank ^ rank >> (sizeof rank * 4);
}

void lm_pool_tree_add(loam_pool *pool, loam_pool_chunk *chunk) {
    loam_pool_chunk **link = &pool->root, *rest, **lower = &chunk->lower, **higher = &chunk->higher;
    uintptr_t start = (uintptr_t)chunk->start;
    LM_ASSERT(chunk->start <= chunk->end); /* lm_pool_has looks at both */
    tree_lock(pool);
    while (*link != NULL && rank_of(*link) >= rank_of(chunk))
        link = start < (uintptr_t)(*link)->start ? &(*link)->lower : &(*link)->higher;
    rest = *link;
    LM_ASSERT(rest != chunk);
    *link = chunk;
    while (rest != NULL) {
        if (start < (uintptr_t)rest->start) {
            *higher = rest;
            higher = &rest->lower;
            rest = rest->lower;
        } else {
            *lower = rest;
            lower = &rest->higher;
            rest = rest->higher;
        }
    }
    *lower = *higher = NULL;
    tree_unlock(pool);
}

void lm_pool_tree_take(loam_pool *pool, loam_pool_chunk *chunk) {
    loam_pool_chunk **link = &pool->root, *lower = chunk->lower, *higher = chunk->higher;
    tree_lock(pool);
    while (*link != chunk) {
        LM_ASSERT(*link != NULL);
        link = (uintptr_t)chunk->start < (uintptr_t)(*link)->start ? &(*link)->lower
                                                                   : &(*link)->higher;
    }
    while (lower != NULL && higher != NULL) {
        if (rank_of(lower) >= rank_of(higher)) {
            *link = lower;
            link = &lower->higher;
            lower = lower->higher;
        } else {
            *link = higher;
            link = &higher->lower;
            higher = higher->lower;
        }
    }
    *link = lower != NULL ? lower : higher;
    tree_unlock(pool);
}

void lm_pool_add(loam_pool *pool, loam_pool_chunk *chunk) {
    loam_pool_chunk *last = pool->current != NULL ? pool->current : pool->chunks;
    LM_ASSERT((pool->current == NULL) == (pool->chunks == NULL));
    LM_ASSERT(chunk->end == NULL); /* lm_pool_set_end counts its blocks anew */
    while (last != NULL && last->next != NULL) last = last->next;
    chunk->next = NULL;
    chunk->order = last == NULL ? 0 : last->order + 1;
    if (last == NULL)
        pool->chunks = chunk;
    else
        last->next = chunk;
    for (unsigned i = 0; pool->table != NULL; i++) {
        LM_ASSERT(i < CHUNKS);
        if (pool->table[i] != NULL) continue;
        pool->table[i] = chunk;
        chunk->number = i;
        break;
    }
    lm_pool_set_end(pool, chunk);
    lm_pool_tree_add(pool, chunk);
    lm_tool_hide(chunk->start, (size_t)(chunk->limit - chunk->start));
    if (pool->current == NULL) pool_begin(pool, chunk);
}

bool lm_pool_next(loam_pool *pool) {
    LM_ASSERT(lm_pool_cut(pool)->fresh == lm_pool_cut(pool)->end);
    if (pool->current == NULL || pool->current->next == NULL) {
        if ((pool->flags & LOAM_FIXED) != 0 || !lm_pool_grow(pool)) return false;
    }
    if (pool->current->next != NULL) pool_begin(pool, pool->current->next);
    LM_ASSERT(lm_pool_cut(pool)->fresh < lm_pool_cut(pool)->end);
    return true;
}

/* ---- Memory ---- */

/* Gets memory for the header and next_blocks blocks. Halves the number of blocks as long as there
 * is no memory, unless all memory must come at once. Sets *got to the bytes got. Returns NULL iff
 * there is no memory even for one block. */
static void *memory_get(loam_pool *pool, size_t head, size_t align, size_t *got) {
    size_t blocks = pool->next_blocks;
    LM_ASSERT(blocks != 0 && pool->left_blocks != 0 && lm_is_pow2(align));
    if (blocks > pool->left_blocks) blocks = pool->left_blocks;
    if (blocks > chunk_most(pool)) blocks = chunk_most(pool);
    for (; blocks > 0; blocks /= 2) {
        size_t bytes;
        void *memory = NULL;
        if (lm_mul(blocks, pool->stride, &bytes) && bytes <= PTRDIFF_MAX - head)
            memory = loam_source_get(pool->source, head + bytes, align, got);
        if (memory != NULL) {
            pool->next_blocks = blocks;
            return memory;
        }
        if ((pool->flags & LOAM_FIXED) != 0) return NULL;
    }
    return NULL;
}

/* Doubles the size of the next chunk, within limits. */
static void grow_next(loam_pool *pool) {
    size_t most = pool->most_chunk_bytes / pool->stride;
    unsigned chunks = pool->current == NULL ? 0 : pool->current->order;
    if (pool->table != NULL && chunks > MANY_CHUNKS) most = SIZE_MAX;
    if (pool->next_blocks < most) {
        pool->next_blocks = pool->next_blocks > most / 2 ? most : pool->next_blocks * 2;
    }
}

static bool table_is_full(const loam_pool *pool) {
    unsigned i = 0;
    if (pool->table == NULL) return false;
    while (i < CHUNKS && pool->table[i] != NULL) i++;
    return i == CHUNKS;
}

static bool chunk_get(loam_pool *pool) {
    size_t align = start_align(pool), got;
    size_t head = lm_align_up(sizeof(loam_pool_chunk), align);
    if (table_is_full(pool)) return false;
    head += colour(pool, pool->current == NULL ? 0 : pool->current->order + 1);
    char *memory = (char *)memory_get(pool, head, align, &got);
    if (memory == NULL) return false;
    loam_pool_chunk *chunk = (loam_pool_chunk *)(void *)memory;
    *chunk = (loam_pool_chunk){
        .start = memory + head, .limit = memory + got, .memory = memory, .got = got};
    count_held(pool, got);
    grow_next(pool);
    lm_pool_add(pool, chunk);
    return true;
}

static bool first_get(loam_pool *pool) {
    size_t got;
    LM_ASSERT(pool->chunks == NULL && pool->runs[0].count == 0);
    char *memory = (char *)memory_get(pool, 0, start_align(pool), &got);
    if (memory == NULL) return false;
    pool->first =
        (loam_pool_chunk){.start = memory, .limit = memory + got, .memory = memory, .got = got};
    count_held(pool, got);
    grow_next(pool);
    lm_pool_add(pool, &pool->first);
    return true;
}

static loam_pool_run *last_run(loam_pool *pool) {
    int i = LOAM_POOL_RUNS - 1;
    while (i >= 0 && pool->runs[i].count == 0) i--;
    return i < 0 ? NULL : &pool->runs[i];
}

/* Extends the first chunk by pieces of that size, which may be less than a block, until it has
 * another block. Returns false, with no piece kept, iff there is no memory for it. */
static bool equal_pieces_grow(loam_pool *pool, size_t bytes) {
    const char *end = pool->first.end;
    for (size_t pieces = 0; pool->first.end == end; pieces++) {
        if (lm_pool_piece_get(pool, bytes)) continue;
        for (; pieces > 0; pieces--) (void)lm_pool_piece_put(pool, end);
        return false;
    }
    return true;
}

/* Extends the first chunk in place by at least a block. Sizes of pieces are recorded in a few runs:
 * the first runs double, the others do not. If there is not so much memory, an eighth is tried, and
 * so on down to one block, so that a source is used up. If all runs are in use, there can only be
 * more pieces of the last size, which may be one of loam_pool_extend. */
static bool pieces_grow(loam_pool *pool) {
    const loam_pool_chunk *chunk = &pool->first;
    const loam_pool_run *last = last_run(pool), *full = pool->runs + LOAM_POOL_RUNS - 1;
    size_t most = chunk_most(pool) - lm_pool_blocks(pool, chunk, chunk->end);
    size_t blocks = pool->next_blocks < pool->left_blocks ? pool->next_blocks : pool->left_blocks;
    bool may_double = last == NULL || last < pool->runs + POOL_CHUNK_DOUBLINGS;
    if (blocks > most) blocks = most; /* if 0, more memory would give no block */
    if (blocks != 0 && last == full) return equal_pieces_grow(pool, last->bytes);
    for (; blocks > 0; blocks = blocks > 1 && blocks < 8 ? 1 : blocks / 8, may_double = false) {
        size_t bytes;
        if (!lm_mul(blocks, pool->stride, &bytes) || !lm_pool_piece_get(pool, bytes)) continue;
        if (may_double) grow_next(pool);
        return true;
    }
    return false;
}

bool lm_pool_grow(loam_pool *pool) {
    if (pool->left_blocks == 0) return false;
    /* The blocks of a fixed pool are not touched before they are needed, not even by a header. */
    bool fixed = (pool->flags & LOAM_FIXED) != 0 && pool->first.memory == NULL;
    if (!is_contiguous(pool) && !fixed) return chunk_get(pool);
    if (pool->first.memory == NULL) return first_get(pool);
    return pieces_grow(pool);
}

size_t lm_pool_chunk_put(loam_pool *pool, loam_pool_chunk **link) {
    loam_pool_chunk *chunk = *link;
    void *memory = chunk->memory;
    size_t got = chunk->got;
    LM_ASSERT(memory != (void *)pool && pool->held_bytes >= got);
    LM_ASSERT(chunk != &pool->first || pool->runs[0].count == 0);
    LM_ASSERT(pool->table == NULL || pool->table[chunk->number] == chunk);
    *link = chunk->next;
    lm_pool_tree_take(pool, chunk);
    if (pool->left_blocks != SIZE_MAX) pool->left_blocks += lm_pool_blocks(pool, chunk, chunk->end);
    if (pool->table != NULL) pool->table[chunk->number] = NULL;
    if (chunk == &pool->first) *chunk = (loam_pool_chunk){0};
    pool->held_bytes -= got;
    LM_METER(put(&pool->entry, got));
    lm_tool_show(memory, got);
    loam_source_put(pool->source, memory, got);
    return got;
}

/* ---- Pieces ---- */

bool lm_pool_piece_get(loam_pool *pool, size_t bytes) {
    loam_pool_chunk *chunk = &pool->first;
    loam_pool_run *run = last_run(pool);
    LM_ASSERT(bytes != 0 && pool->source != NULL && pool->chunks == chunk);
    if (run == NULL) {
        run = pool->runs;
    } else if (run->bytes != bytes && ++run == pool->runs + LOAM_POOL_RUNS) {
        return false; /* there is no room to record another size */
    }
    if ((pool->source->flags & LOAM_SOURCE_CONTIGUOUS) == 0 || bytes > PTRDIFF_MAX) return false;
    size_t got;
    char *memory = (char *)loam_source_get(pool->source, bytes, 1, &got);
    if (memory == NULL) return false;
    if (memory != chunk->limit || got != bytes) {
        loam_source_put(pool->source, memory, got);
        return false;
    }
    LM_ASSERT(run->count == 0 || run->bytes == bytes);
    run->bytes = bytes;
    run->count++;
    count_held(pool, bytes);
    lm_tool_hide(memory, bytes);
    chunk->limit += bytes;
    lm_pool_set_end(pool, chunk);
    return true;
}

size_t lm_pool_piece_put(loam_pool *pool, const char *high) {
    loam_pool_chunk *chunk = &pool->first;
    loam_pool_run *run = last_run(pool);
    if (run == NULL || (size_t)(chunk->limit - high) < run->bytes) return 0;
    LM_ASSERT(chunk->start <= high && high <= chunk->limit);
    LM_ASSERT(run->bytes != 0 && pool->held_bytes >= run->bytes);
    run->count--;
    chunk->limit -= run->bytes;
    pool->held_bytes -= run->bytes;
    LM_METER(put(&pool->entry, run->bytes));
    lm_tool_show(chunk->limit, run->bytes);
    loam_source_put(pool->source, chunk->limit, run->bytes);
    return run->bytes;
}

/* ---- A pool inside its first chunk; the table ---- */

/* Allocates the pool separately: creating it touches no memory of its blocks, which may be huge
 * pages. */
static loam_pool *get_home_apart(const loam_pool *made) {
    size_t got;
    loam_pool *pool = (loam_pool *)loam_source_get(made->source, sizeof(loam_pool), 16, &got);
    if (pool == NULL) return NULL;
    *pool = *made;
    pool->home_bytes = got;
    count_held(pool, got);
    if (lm_pool_table_get(pool)) {
        if ((pool->flags & LOAM_FIXED) == 0 || lm_pool_grow(pool)) return pool;
        lm_pool_table_put(pool);
    }
    loam_source_put(pool->source, pool, got);
    return NULL;
}

static bool has_many_blocks(const loam_pool *pool) {
    size_t bytes, blocks = pool->next_blocks;
    if (blocks > pool->left_blocks) blocks = pool->left_blocks;
    return !lm_mul(blocks, pool->stride, &bytes) || bytes > HOME_MOST;
}

loam_pool *lm_pool_get_home(const loam_pool *made) {
    if (!is_contiguous(made) && has_many_blocks(made)) return get_home_apart(made);
    loam_pool bare = *made;
    size_t align = start_align(&bare), got;
    if (align < 16) align = 16; /* alignment of the pool itself */
    size_t head = lm_align_up(sizeof(loam_pool), align);
    char *memory = (char *)memory_get(&bare, head, align, &got);
    if (memory == NULL) return NULL;
    loam_pool *pool = (loam_pool *)(void *)memory;
    *pool = bare;
    if (!lm_pool_table_get(pool)) {
        loam_source_put(bare.source, memory, got);
        return NULL;
    }
    pool->first = (loam_pool_chunk){
        .start = memory + head, .limit = memory + got, .memory = memory, .got = got};
    count_held(pool, got);
    grow_next(pool);
    lm_pool_add(pool, &pool->first);
    return pool;
}

bool lm_pool_table_get(loam_pool *pool) {
    if ((pool->mode & LM_POOL_HANDLED) == 0 || is_contiguous(pool)) return true;
    size_t got, bytes = CHUNKS * sizeof(loam_pool_chunk *);
    LM_ASSERT(pool->table == NULL && pool->chunks == NULL);
    pool->table =
        (loam_pool_chunk **)loam_source_get(pool->source, bytes, sizeof(loam_pool_chunk *), &got);
    if (pool->table == NULL) return false;
    for (unsigned i = 0; i < CHUNKS; i++) pool->table[i] = NULL;
    pool->table_bytes = got;
    count_held(pool, got);
    return true;
}

void lm_pool_table_put(loam_pool *pool) {
    if (pool->table == NULL) return;
    LM_ASSERT(pool->held_bytes >= pool->table_bytes);
    loam_source_put(pool->source, pool->table, pool->table_bytes);
    pool->held_bytes -= pool->table_bytes;
    pool->table = NULL;
}

/* pool.h: what the files of the pool share.
 *
 *   pool.c          setting up, alloc and free out of line
 *   pool_chunk.c    memory from the source and back
 *   pool_whole.c    reset, extend, shrink, trim, usage, check
 *   pool_handle.c   handles
 *   pool_set.c      several pools, a request to the best fitting
 */
#ifndef LM_FAMILY_POOL_H
#define LM_FAMILY_POOL_H

#include "family/family.h"
#include "loam/pool.h"

/* Why a pool's inline paths miss. */
enum {
    LM_POOL_CHECKED = 1,
    LM_POOL_HARDENED = 2,
    LM_POOL_WATCHED = 4, /* by a tool */
    LM_POOL_HANDLED = 8,
    LM_POOL_NARROW = 16, /* links of 4 bytes */
    LM_POOL_ENDED = 32,  /* the tombstone of a pool */
};

/* Whether the pool is the tombstone of one that has ended, which is reported. */
LM_INLINE bool lm_pool_over(const loam_pool *pool, const char *doing, const char *file,
                            unsigned line) {
    return LM_UNLIKELY((pool->mode & LM_POOL_ENDED) != 0) &&
           lm_entry_ended(&pool->entry, doing, file, line);
}

/* The words that are in use. */
LM_INLINE loam_pool_cut *lm_pool_cut(loam_pool *pool) {
    return pool->mode == 0 ? &pool->hot : &pool->cold;
}
LM_INLINE const loam_pool_cut *lm_pool_cut_of(const loam_pool *pool) {
    return pool->mode == 0 ? &pool->hot : &pool->cold;
}

/* Blocks before `end` of a chunk; for end, any block's boundary of it. No division: see
 * lm_pool_number. */
LM_INLINE size_t lm_pool_blocks(const loam_pool *pool, const loam_pool_chunk *chunk,
                                const char *end) {
    return ((size_t)(end - chunk->start) >> pool->shift) * pool->inverse;
}

/* First byte that has not been cut. */
LM_INLINE const char *lm_pool_high(const loam_pool *pool, const loam_pool_chunk *chunk) {
    if (chunk == pool->current) return lm_pool_cut_of(pool)->fresh;
    return chunk->order < pool->current->order ? chunk->end : chunk->start;
}

/* The chunk of a block (not object) that has been cut, and its number in there; NULL iff p is
 * none. */
const loam_pool_chunk *lm_pool_find(const loam_pool *pool, const void *p, size_t *number);

/* A free block joins the list. */
void lm_pool_put(loam_pool *pool, void *block);
/* A block's free in any mode but none, with its checks. p is not NULL. */
void lm_pool_give(loam_pool *pool, void *p, const char *file, unsigned line);
/* The link in a free block, decoded; encoded where the pool is hardened. */
void *lm_pool_link_get(const loam_pool *pool, const void *block);
void lm_pool_link_set(const loam_pool *pool, void *block, void *next);

/* Of a checked pool: whether that block was in use before the last reset, and has not been cut
 * again since. */
LM_INLINE bool lm_pool_is_gone(const loam_pool *pool, const loam_pool_chunk *chunk,
                               const char *block) {
    if (pool->gone == NULL || chunk->order > pool->gone_order) return false;
    return block < (chunk->order < pool->gone_order ? (const char *)chunk->end : pool->gone);
}
/* Whether the blocks of before the last reset are as they were left, from the current position
 * on. */
bool lm_pool_check_gone(const loam_pool *pool);

/* ---- pool_chunk.c ---- */

/* Fresh blocks where there are none: in a chunk kept, in place, or in a new chunk. false iff there
 * is no memory. */
bool lm_pool_next(loam_pool *pool);
/* A new chunk, or a contiguous pool's first piece or one more. false iff there is no memory. */
bool lm_pool_grow(loam_pool *pool);
/* A chunk joins the tree by address; leaves it. */
void lm_pool_tree_add(loam_pool *pool, loam_pool_chunk *chunk);
void lm_pool_tree_take(loam_pool *pool, loam_pool_chunk *chunk);
/* A chunk with start and limit set becomes the last of the list, and current if there is none. */
void lm_pool_add(loam_pool *pool, loam_pool_chunk *chunk);
/* Gives a chunk's memory back, taking it from the list, where *link leads to it. Returns its
 * bytes. */
size_t lm_pool_chunk_put(loam_pool *pool, loam_pool_chunk **link);
/* One more piece of bytes for a contiguous pool. */
bool lm_pool_piece_get(loam_pool *pool, size_t bytes);
/* Gives back the last piece but not the first. Returns its bytes; 0 iff there is none that lies
 * above `high`. */
size_t lm_pool_piece_put(loam_pool *pool, const char *high);
/* Sets a chunk's end by its limit. */
void lm_pool_set_end(loam_pool *pool, loam_pool_chunk *chunk);
/* The pool *made, within its first chunk. NULL iff there is no memory. */
loam_pool *lm_pool_get_home(const loam_pool *made);
/* The chunks' table where there are handles and chunks. */
bool lm_pool_table_get(loam_pool *pool);
void lm_pool_table_put(loam_pool *pool);

/* ---- pool_handle.c: the word behind an object that says how often its block changed hands: odd
 * while in use. Nothing happens in a pool without. ---- */

enum { LM_POOL_CHUNK_BITS = 6, LM_POOL_NUMBER_BITS = 32 - LM_POOL_CHUNK_BITS };

/* A new pool gets generations of its own. */
void lm_pool_generation_start(loam_pool *pool);
/* used: it comes from the list. */
void lm_pool_generation_begin(const loam_pool *pool, void *block, bool used);
/* false iff the block is not to be used again. */
bool lm_pool_generation_end(loam_pool *pool, void *block);
bool lm_pool_generation_live(const loam_pool *pool, const void *block);
/* All blocks end; those cut from now on begin above. false iff the numbers are so high that blocks
 * have to go on from where they are: all of them are free in the list then. */
bool lm_pool_generation_end_all(loam_pool *pool);
/* Whether a chunk can go: who comes after it begins above all. */
bool lm_pool_generation_may_trim(loam_pool *pool);

LM_INLINE const loam_pool *lm_pool_of(const loam_entry *entry) {
    return (const loam_pool *)((const char *)entry - offsetof(loam_pool, entry));
}

extern LM_HIDDEN const loam_kind lm_pool_kind;

#endif

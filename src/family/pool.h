/* pool.h: declarations that the files of the pool share.
 *
 *   pool.c          set-up, alloc and free out of line
 *   pool_chunk.c    memory from the source and back
 *   pool_whole.c    reset, extend, shrink, trim, usage, check
 *   pool_handle.c   handles
 *   pool_set.c      several pools, a request to the best fitting */
#ifndef LM_FAMILY_POOL_H
#define LM_FAMILY_POOL_H

#include "family/family.h"
#include "loam/pool.h"

/* Bits of a pool's mode: why its inline paths miss. */
enum {
    LM_POOL_CHECKED = 1,  /* blocks have tags and guards */
    LM_POOL_HARDENED = 2, /* links are encoded and verified */
    LM_POOL_WATCHED = 4,  /* a tool watches */
    LM_POOL_HANDLED = 8,  /* blocks have generations */
    LM_POOL_NARROW = 16,  /* links have 4 bytes */
    LM_POOL_ENDED = 32,   /* the tombstone of a pool */
};

/* Returns whether the pool is the tombstone of one that has ended, after a report. */
LM_INLINE bool lm_pool_over(const loam_pool *pool, const char *doing, const char *file,
                            unsigned line) {
    return LM_UNLIKELY((pool->mode & LM_POOL_ENDED) != 0) &&
           lm_entry_ended(&pool->entry, doing, file, line);
}

/* Returns the words of the pool that are in use. */
LM_INLINE loam_pool_cut *lm_pool_cut(loam_pool *pool) {
    LM_ASSERT(pool->mode == 0 || (pool->hot.free == NULL && pool->hot.fresh == pool->hot.end));
    return pool->mode == 0 ? &pool->hot : &pool->cold;
}
/* Returns the words of a constant pool that are in use. */
LM_INLINE const loam_pool_cut *lm_pool_cut_of(const loam_pool *pool) {
    return pool->mode == 0 ? &pool->hot : &pool->cold;
}

/* Returns the number of blocks of a chunk before `end`, a boundary between blocks. No division: see
 * loam/pool.h. */
LM_INLINE size_t lm_pool_blocks(const loam_pool *pool, const loam_pool_chunk *chunk,
                                const char *end) {
    return ((size_t)(end - chunk->start) >> pool->shift) * pool->inverse;
}

/* Returns the first byte of a chunk that has not been cut. */
LM_INLINE const char *lm_pool_high(const loam_pool *pool, const loam_pool_chunk *chunk) {
    if (chunk == pool->current) return lm_pool_cut_of(pool)->fresh;
    return chunk->order < pool->current->order ? chunk->end : chunk->start;
}

/* Returns the chunk of a block (not object) that has been cut; *number receives the block's number
 * in it. NULL iff p is no such block. */
const loam_pool_chunk *lm_pool_find(const loam_pool *pool, const void *p, size_t *number);

/* Returns whether a block, cut or not, begins at p. Any thread may call it inside LIST for a pool
 * in the registry: what it reads changes only there. */
bool lm_pool_has(const loam_pool *pool, const void *p);

/* Puts a free block on the list. */
void lm_pool_put(loam_pool *pool, void *block);
/* Frees an object in any mode except 0, with the mode's checks. p is not NULL. */
void lm_pool_give(loam_pool *pool, void *p, const char *file, unsigned line);
/* Returns the link in a free block, decoded. */
void *lm_pool_link_get(const loam_pool *pool, const void *block);
/* Sets the link in a free block, encoded if the pool is hardened. */
void lm_pool_link_set(const loam_pool *pool, void *block, void *next);

/* Returns whether a block of a checked pool was in use before the last reset, and has not been cut
 * since. */
LM_INLINE bool lm_pool_is_gone(const loam_pool *pool, const loam_pool_chunk *chunk,
                               const char *block) {
    if (pool->gone == NULL || chunk->order > pool->gone_order) return false;
    return block < (chunk->order < pool->gone_order ? (const char *)chunk->end : pool->gone);
}
/* Checks that blocks from before the last reset are as they were left, from the current position
 * on. Returns false after a report. */
bool lm_pool_check_gone(const loam_pool *pool);

/* ---- pool_chunk.c ---- */

/* Provides fresh blocks when none is left: in a chunk that was kept, in place, or in a new chunk.
 * Returns false iff there is no memory, or the pool is at its limit. */
bool lm_pool_next(loam_pool *pool);
/* Gets memory for at least one block: a new chunk, or for a contiguous pool the first chunk or more
 * pieces. Returns false iff there is no memory, or the pool is at its limit. */
bool lm_pool_grow(loam_pool *pool);
/* The tree by address, and the ends of the chunks in it, change inside LIST: other threads look at
 * them while they report a mistake (lm_pool_has). A fork may copy the process in the middle of a
 * change: then the tree lacks chunks, and every way down still ends. */

/* Puts a chunk into the tree by address. */
void lm_pool_tree_add(loam_pool *pool, loam_pool_chunk *chunk);
/* Takes a chunk out of the tree by address. */
void lm_pool_tree_take(loam_pool *pool, loam_pool_chunk *chunk);
/* Makes a chunk with start and limit set the last of the list, and current if no chunk is. */
void lm_pool_add(loam_pool *pool, loam_pool_chunk *chunk);
/* Takes the chunk that *link leads to out of the list and gives its memory back. Returns its
 * bytes. */
size_t lm_pool_chunk_put(loam_pool *pool, loam_pool_chunk **link);
/* Gets one more piece of `bytes` bytes for a contiguous pool. Returns false iff there is none in
 * place. */
bool lm_pool_piece_get(loam_pool *pool, size_t bytes);
/* Gives back the last piece, never the first. Returns its bytes; 0 iff no such piece lies above
 * `high`. */
size_t lm_pool_piece_put(loam_pool *pool, const char *high);
/* Sets a chunk's end from its limit, and the blocks that the pool may still have. */
void lm_pool_set_end(loam_pool *pool, loam_pool_chunk *chunk);
/* Returns a pool like *made that lives in its own first chunk. NULL iff there is no memory. */
loam_pool *lm_pool_get_home(const loam_pool *made);
/* Gets the table of chunks for a pool with handles and chunks. Returns false iff there is no
 * memory. */
bool lm_pool_table_get(loam_pool *pool);
/* Gives the table of chunks back, if there is one. */
void lm_pool_table_put(loam_pool *pool);

/* ---- pool_handle.c: generations ----
 *
 * A block's generation is the word behind its object. It counts how often the block changed hands,
 * and is odd while the block is in use. In a pool without handles lm_pool_generation_begin
 * must not be called, and the others do nothing. */

/* Bits of a handle: the chunk's number, and the block's number in it. */
enum { LM_POOL_CHUNK_BITS = 6, LM_POOL_NUMBER_BITS = 32 - LM_POOL_CHUNK_BITS };

/* Gives a new pool its first range of generations. */
void lm_pool_generation_start(loam_pool *pool);
/* Begins the use of a block of a pool with handles. used: the block comes from the list. */
void lm_pool_generation_begin(const loam_pool *pool, void *block, bool used);
/* Ends the use of a block. Returns false iff the block must not be used again. */
bool lm_pool_generation_end(loam_pool *pool, void *block);
/* Returns whether the block is in use; true without handles. */
bool lm_pool_generation_live(const loam_pool *pool, const void *block);
/* Ends the use of all blocks; blocks cut from now on begin with higher generations. Returns false
 * iff no such generations are left: then all blocks go on from their generations, free in the
 * list. */
bool lm_pool_generation_end_all(loam_pool *pool);
/* Returns whether a chunk may go back: blocks in later memory begin with higher generations. */
bool lm_pool_generation_may_trim(loam_pool *pool);

/* Returns the pool of an entry. */
LM_INLINE const loam_pool *lm_pool_of(const loam_entry *entry) {
    return (const loam_pool *)((const char *)entry - offsetof(loam_pool, entry));
}

/* The kind of pools. */
extern LM_HIDDEN const loam_kind lm_pool_kind;

#endif

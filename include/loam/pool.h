/* loam/pool.h: blocks of one size, each allocated and freed in a few instructions.
 *
 * Choose it for many objects of one size (particles, packets, nodes): no header, no search, no
 * fragmentation, and the block freed last, which is still in the cache, comes back first. It cannot
 * serve other sizes (loam/blocks.h; or a loam_pool_set of several pools), and one thread at a time
 * uses it: for many, loam_shared_pool below.
 *
 *   chunk  │ block │ block │ block │ block │░░░░░░░░░░░░░░░░░░│
 *            used    free ──> free ──> NULL
 *   pool   free ───────┘             fresh ┘             end ┘
 *
 * Free blocks are a list through their first words. Blocks behind `fresh` have never been touched:
 * nothing prepares them, so that setting a pool of a million blocks up, or taking it down, costs
 * what one of ten does. A block's number is found without a division: its distance from the chunk's
 * start, shifted right by the twos in the stride and multiplied by the inverse of the odd rest
 * modulo the word size, is below the number of blocks iff the address is a block's. The pool itself
 * has no part of what it hands out: its struct has 784 bytes, of which the inline paths read the
 * first 40.
 *
 * Invariant (loam_pool_check): every member of the list is a block below fresh, and none is there
 * twice. After Kenwright, "Fast Efficient Fixed-Size Memory Pool", 2012: no loops, no overhead;
 * pointers in place of numbers, so that nothing divides, and fresh blocks cut one by one in place
 * of appended.
 */
#ifndef LOAM_POOL_H
#define LOAM_POOL_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

/* Flags beside loam_flags. */
typedef enum loam_pool_flags {
    LOAM_POOL_CONTIGUOUS = 256, /* one piece of memory: grows in place or not at all */
    LOAM_POOL_HANDLES = 512, /* loam_pool_alloc_handle: 4 more bytes a block, and no inline path */
    LOAM_POOL_DENSE = 1024,  /* no 64 bytes between blocks of whole KiB: see block_bytes below */
    LOAM_POOL_NARROW =
        2048, /* links of 4 bytes: a block may take 4 bytes, and there is no inline path */
} loam_pool_flags;

typedef struct loam_pool_options {
    /* Of blocks, in bytes, a power of two. 0: the largest that divides the block's size, at most
     * 16, at least that of a pointer. */
    size_t align;
    size_t first_blocks; /* of the first chunk, at least; 0: 8, or what 4 KiB hold */
    size_t
        /* in all; 0: no limit. With LOAM_FIXED, what is got at once (or first_blocks) */
        most_blocks;
    size_t most_chunk_bytes; /* chunks double up to this; 0: 16 MiB */
    unsigned flags;          /* LOAM_CHECK, LOAM_HARDEN, LOAM_FIXED, loam_pool_flags */
    const char *name;        /* for the registry; not copied */
} loam_pool_options;

/* ---- Members below are private ---- */

typedef void *loam_pool_link __attribute__((__may_alias__));

typedef struct loam_pool_cut {
    void *free;        /* first free block */
    char *fresh, *end; /* never used ones of the current chunk: a multiple of the stride */
} loam_pool_cut;

typedef struct loam_pool_chunk {
    struct loam_pool_chunk *next;           /* got later */
    char *start, *end;                      /* blocks: a multiple of the stride */
    char *limit;                            /* memory */
    void *memory;                           /* as the source gave it; NULL: the caller's */
    size_t got;                             /* of its first piece, with bytes in front of start */
    unsigned order, number;                 /* rising along the list; its place in the table */
    size_t counted;                         /* trim's */
    struct loam_pool_chunk *lower, *higher; /* chunks by address: a tree (pool_chunk.c) */
} loam_pool_chunk;

/* Pieces that a contiguous source gave one after the other, runs of one size each. */
typedef struct loam_pool_run {
    size_t bytes, count;
} loam_pool_run;
enum { LOAM_POOL_RUNS = 16 };

/* Generations that no other pool of the process counts with: from <= generation < to. */
typedef struct loam_pool_range {
    uint32_t from, to;
} loam_pool_range;
enum { LOAM_POOL_RANGES = 16 };

typedef struct loam_pool {
    loam_pool_cut hot; /* all NULL in a checked, hardened, watched pool, or one of handles */
    uintptr_t floor;   /* free goes out of line for what is not above it: 0, or everything */
    size_t stride;     /* from one block to the next */
    size_t inverse;    /* of the stride's odd part */
    unsigned char shift;
    unsigned char mode; /* 0, or why the inline paths miss */
    unsigned flags;
    loam_pool_cut cold; /* in place of hot */
    loam_pool_chunk *chunks,
        *current;          /* oldest; the one that is cut. Those behind current are uncut */
    loam_pool_chunk *root; /* of the tree of chunks; NULL iff there is none */
    loam_source *source;   /* NULL: a caller's buffer */
    size_t block_bytes, align;
    size_t head_bytes, inner_bytes; /* of a checked block: before the object; in all */
    size_t next_blocks, left_blocks, most_chunk_bytes;
    size_t held_bytes, peak_bytes, requests;
    size_t key;                       /* of hardened links */
    uint32_t generation, generations; /* of a block cut now; the highest of one that was freed */
    uint32_t reset_at;                /* handles below are stale */
    size_t retired;                   /* blocks */
    loam_pool_chunk **table;          /* chunks by number, where there are handles */
    size_t table_bytes;
    size_t home_bytes; /* of the chunk in which the pool lives by itself; or 0 */
    loam_entry entry;
    loam_pool_chunk first; /* of a contiguous pool, or one within its chunk */
    loam_pool_run runs[LOAM_POOL_RUNS];
    char *
        /* of a checked pool: where blocks end that a reset took, in the chunk of that order */
        gone;
    unsigned gone_order;
    unsigned ranges_count;
    loam_pool_range ranges[LOAM_POOL_RANGES]; /* of handles, ascending */
} loam_pool;

/* ---- Setting up ---- */

/* extra: flags besides those in *options. For the functions below. */
LOAM_API LOAM_NODISCARD int loam_pool_init_as(loam_pool *pool, loam_source *source,
                                              size_t block_bytes, const loam_pool_options *options,
                                              unsigned extra) LOAM_NOEXCEPT;
LOAM_API LOAM_NODISCARD int loam_pool_init_buffer_as(loam_pool *pool, void *memory, size_t bytes,
                                                     size_t block_bytes,
                                                     const loam_pool_options *options,
                                                     unsigned extra) LOAM_NOEXCEPT;
LOAM_API LOAM_NODISCARD loam_pool *loam_pool_create_as(loam_source *source, size_t block_bytes,
                                                       const loam_pool_options *options,
                                                       unsigned extra) LOAM_NOEXCEPT;

#define LOAM_POOL_EXTRA_ (LOAM_CHECKED ? (unsigned)LOAM_CHECK : 0u)

LOAM_INLINE loam_source *loam_pool_source_(loam_source *source) {
#if __STDC_HOSTED__
    return source != NULL ? source : loam_pages();
#else
    return source;
#endif
}

/* Sets *pool up over a source (NULL: loam_pages(); a freestanding build has no default), for blocks
 * of block_bytes: from 1 to PTRDIFF_MAX / 4, rounded up to the alignment and to a pointer (with
 * LOAM_POOL_NARROW: to 4). Blocks of a multiple of 1 KiB lie 64 bytes further apart, unless memory
 * is the caller's, they are aligned to more than 64, or LOAM_POOL_DENSE: at their own distance
 * their first words would meet in a few sets of the processor's caches. Memory is asked for when
 * the first block is, with LOAM_FIXED at once. options may be NULL: all 0. 0; -EINVAL iff a size,
 * alignment or flag is not allowed (LOAM_THREADS: see loam_shared_pool; LOAM_FIXED without a number
 * of blocks; LOAM_POOL_NARROW of a pool that is neither LOAM_FIXED nor LOAM_POOL_CONTIGUOUS, or has
 * LOAM_POOL_HANDLES); -ENOMEM iff there is no memory for LOAM_FIXED or LOAM_POOL_HANDLES. O(1).
 * *pool must not move, and source must outlive it. */
LOAM_INLINE LOAM_NODISCARD int loam_pool_init(loam_pool *pool, loam_source *source,
                                              size_t block_bytes,
                                              const loam_pool_options *options) LOAM_NOEXCEPT {
    return loam_pool_init_as(pool, loam_pool_source_(source), block_bytes, options,
                             LOAM_POOL_EXTRA_);
}

/* The same over bytes of the caller's memory, of any alignment, which stays the caller's:
 * LOAM_FIXED and contiguous, in as many blocks as fit (and most_blocks allows). Without checks,
 * exactly bytes / stride if it is aligned; a checked block needs some 120 bytes more. -EINVAL as
 * above; -ENOMEM iff not one fits. */
LOAM_INLINE LOAM_NODISCARD int
loam_pool_init_buffer(loam_pool *pool, void *memory, size_t bytes, size_t block_bytes,
                      const loam_pool_options *options) LOAM_NOEXCEPT {
    return loam_pool_init_buffer_as(pool, memory, bytes, block_bytes, options, LOAM_POOL_EXTRA_);
}

/* Gives all memory back, with the blocks still in use. O(1) for a
 * contiguous pool, otherwise O(chunks). */
LOAM_API void loam_pool_deinit(loam_pool *pool) LOAM_NOEXCEPT;
/* For a pool in static memory of a module that is being unloaded: as loam_pool_deinit if no block
 * is in use. Otherwise the pool leaves the library's lists, and its memory stays with the blocks
 * until the process ends. Cost: every free block is visited. */
LOAM_API void loam_pool_leave(loam_pool *pool) LOAM_NOEXCEPT;

/* A pool that lives in its own first chunk, or, where first_blocks need more than 64 KiB, in a
 * chunk by itself. Takes the same time for any number of blocks, and touches none. NULL iff
 * loam_pool_init would fail, or there is no memory for that chunk. */
LOAM_INLINE LOAM_NODISCARD loam_pool *
loam_pool_create(loam_source *source, size_t block_bytes,
                 const loam_pool_options *options) LOAM_NOEXCEPT {
    return loam_pool_create_as(loam_pool_source_(source), block_bytes, options, LOAM_POOL_EXTRA_);
}
/* As loam_pool_deinit. pool may be NULL. */
LOAM_API void loam_pool_destroy(loam_pool *pool) LOAM_NOEXCEPT;

/* ---- Blocks ---- */

LOAM_API LOAM_COLD void *loam_pool_alloc_slow(loam_pool *pool, const char *file,
                                              unsigned line) LOAM_NOEXCEPT;
/* Returns what pool->hot.free is then. */
LOAM_API LOAM_COLD void *loam_pool_free_slow(loam_pool *pool, void *block, const char *file,
                                             unsigned line) LOAM_NOEXCEPT;

/* A block, its bytes undefined: the one freed last, else a fresh one. NULL iff the source has no
 * memory, or the pool is at its limit; nothing has changed then. Five instructions, nine for a
 * fresh one, but for a new chunk. */
LOAM_INLINE LOAM_MALLOC void *loam_pool_alloc_at(loam_pool *pool, const char *file,
                                                 unsigned line) LOAM_NOEXCEPT {
    void *block = pool->hot.free;
    if (LOAM_LIKELY(block != NULL)) {
        pool->hot.free = *(loam_pool_link *)block;
        return block;
    }
    char *fresh = pool->hot.fresh;
    if (LOAM_UNLIKELY(fresh == pool->hot.end)) return loam_pool_alloc_slow(pool, file, line);
    pool->hot.fresh = fresh + pool->stride;
    return fresh;
}

/* Takes back a block of this pool, or NULL. What it held is lost, its first word at once. Five
 * instructions. */
LOAM_INLINE void loam_pool_free_at(loam_pool *pool, void *block, const char *file,
                                   unsigned line) LOAM_NOEXCEPT {
    /* Written so that in a loop the list's head stays in a register, whatever the slow path
     * does. */
    void *head = pool->hot.free;
    /* NULL and every mode that checks, by one comparison. */
    if (LOAM_UNLIKELY((uintptr_t)block <= pool->floor))
        block = loam_pool_free_slow(pool, block, file, line);
    else
        *(loam_pool_link *)block = head;
    pool->hot.free = block;
}

#define loam_pool_alloc(pool) loam_pool_alloc_at((pool), LOAM_HERE)
#define loam_pool_free(pool, block) loam_pool_free_at((pool), (block), LOAM_HERE)

/* Whether p is the address of a block of this pool, in use or free, that has been handed out since
 * the last reset. (Of a checked pool: where the object of one would be.) p may be anything. O(log
 * chunks). */
LOAM_API bool loam_pool_owns(const loam_pool *pool, const void *p) LOAM_NOEXCEPT;

/* Bytes that may be used of each block: block_bytes as given. */
LOAM_INLINE size_t loam_pool_block_bytes(const loam_pool *pool) LOAM_NOEXCEPT {
    return pool->block_bytes;
}

/* ---- Handles: pools with LOAM_POOL_HANDLES ----
 *
 * A handle names a block for as long as it is in use, and nothing ever after: the block's number,
 * and its generation, which grows each time the block changes hands. 0 is no handle. Blocks may
 * also be had by loam_pool_alloc and go by either free. A handle of another pool names nothing, and
 * neither does one of a pool that was in the same storage before: the pools of a process count in
 * ranges of their own, of 32 bits in all. A pool takes 4 steps at first and then 4 times as many as
 * before, each time that a block has used up all of them. A block whose pool gets no more steps is
 * taken out of use, so that no old handle of a pool comes true in it. Pools that are set up when
 * all 2^31 steps are used up begin anew: only from then on a handle of a pool of long ago may name
 * a block of another pool. */

typedef uint64_t loam_handle;

/* 0 iff there is no memory. O(1). */
LOAM_API LOAM_NODISCARD loam_handle loam_pool_alloc_handle_at(loam_pool *pool, const char *file,
                                                              unsigned line) LOAM_NOEXCEPT;
/* Its block; NULL iff it has been freed, by whatever means, or is no handle of this pool. O(1), no
 * division. */
LOAM_API void *loam_pool_get(const loam_pool *pool, loam_handle handle) LOAM_NOEXCEPT;
/* The handle of a block in use; 0 iff p is none. */
LOAM_API loam_handle loam_pool_handle(const loam_pool *pool, const void *p) LOAM_NOEXCEPT;
/* true; false, and nothing is freed, iff loam_pool_get gives NULL. */
LOAM_API bool loam_pool_free_handle_at(loam_pool *pool, loam_handle handle, const char *file,
                                       unsigned line) LOAM_NOEXCEPT;

#define loam_pool_alloc_handle(pool) loam_pool_alloc_handle_at((pool), LOAM_HERE)
#define loam_pool_free_handle(pool, handle) loam_pool_free_handle_at((pool), (handle), LOAM_HERE)

/* ---- The pool as a whole ---- */

/* All blocks are free at once, and as if never used; memory stays. O(1) (with checks: a step for
 * each block in use; with handles: one for each block, once in a billion reuses of one). Handles of
 * before give NULL. */
LOAM_API void loam_pool_reset(loam_pool *pool) LOAM_NOEXCEPT;

/* A contiguous pool grows by bytes that follow its memory: the caller's, who promises that they do,
 * or got from its source. Less than a block is kept for the next time. O(1). 0; -EINVAL iff it is
 * not contiguous; -ENOMEM iff the source has none, or not there, or the pool has grown by too many
 * different sizes (LOAM_POOL_RUNS in a row) to know how to give them back. Lifts most_blocks of a
 * caller's buffer. */
LOAM_API LOAM_NODISCARD int loam_pool_extend(loam_pool *pool, size_t bytes) LOAM_NOEXCEPT;

/* Gives back what lies behind the last block ever handed out (since the last reset): of a caller's
 * buffer all bytes behind it, of a source whole pieces and chunks. Returns how many bytes these
 * were. Blocks behind it are never touched, not by this either. O(pieces given back). */
LOAM_API size_t loam_pool_shrink(loam_pool *pool) LOAM_NOEXCEPT;

/* Gives back every chunk without a block in use, uncut ones as well; of a contiguous pool all or
 * what shrink does, of a LOAM_FIXED one what shrink does. Returns bytes. O(free blocks times log
 * chunks). */
LOAM_API size_t loam_pool_trim(loam_pool *pool) LOAM_NOEXCEPT;

/* Calls visit(object, context) for every object in use, in no particular order, until it returns
 * false. It may free the object that it is given, and must not use the pool otherwise. Returns the
 * number of objects visited. Free blocks are handed out in another order after it: those at low
 * addresses first. Takes no memory. O(blocks). */
LOAM_API size_t loam_pool_visit(loam_pool *pool, bool (*visit)(void *object, void *context),
                                void *context) LOAM_NOEXCEPT;

/* Walks the list, and with checks the guards of all objects in use and free. false after a report.
 * O(blocks times log chunks). */
LOAM_API bool loam_pool_check(const loam_pool *pool) LOAM_NOEXCEPT;

/* O(free blocks). */
LOAM_API void loam_pool_usage(const loam_pool *pool, loam_usage *usage) LOAM_NOEXCEPT;

/* ---- Several pools, a request to the best fitting ---- */

/* Stands in for a general allocator: operators new of a class hierarchy, a library's hooks. A
 * request goes to the smallest block that is large enough, if it is not too large either, and to a
 * fallback otherwise. Members are private. One thread at a time. */
typedef struct loam_pool_set {
    loam_pool *pools; /* the caller's, block sizes rising */
    size_t count;
    unsigned tolerance;
    loam_source *fallback;
    size_t fallback_objects, fallback_bytes; /* out now */
    bool checked, leaks, ended;
    loam_entry entry; /* of the fallback's objects, in the registry iff checked */
} loam_pool_set;

LOAM_API LOAM_NODISCARD int
loam_pool_set_init_as(loam_pool_set *set, loam_pool *pools, const size_t *block_bytes, size_t count,
                      loam_source *source, const loam_pool_options *options, unsigned tolerance,
                      loam_source *fallback, unsigned extra) LOAM_NOEXCEPT;

/* Sets up count pools in the caller's array, over source and with options alike, of the block sizes
 * given, which must rise. A block may be larger than a request by tolerance per cent of the
 * request; what fits none, or finds its pools at their limits, goes to the fallback (NULL:
 * loam_pages(); a freestanding build has no default). With LOAM_CHECK what the fallback gives has
 * guards as well, and the set is in the registry as a "pool set". 0; or as loam_pool_init, -EINVAL
 * also iff sizes do not rise or there is none; nothing is set up then. */
LOAM_INLINE LOAM_NODISCARD int
loam_pool_set_init(loam_pool_set *set, loam_pool *pools, const size_t *block_bytes, size_t count,
                   loam_source *source, const loam_pool_options *options, unsigned tolerance,
                   loam_source *fallback) LOAM_NOEXCEPT {
    return loam_pool_set_init_as(set, pools, block_bytes, count, loam_pool_source_(source), options,
                                 tolerance, loam_pool_source_(fallback), LOAM_POOL_EXTRA_);
}
/* What the fallback gave must have been freed. With LOAM_CHECK what was not is listed, as by
 * loam_registry_leaks. */
LOAM_API void loam_pool_set_deinit(loam_pool_set *set) LOAM_NOEXCEPT;

/* bytes (0 counts as 1) at a multiple of 16, or of what the pool's blocks are aligned to if that is
 * less than 16. NULL iff neither a pool nor the fallback has memory. O(pools). */
LOAM_API LOAM_MALLOC void *loam_pool_set_alloc_at(loam_pool_set *set, size_t bytes,
                                                  const char *file, unsigned line) LOAM_NOEXCEPT;
/* Finds out where p came from; NULL allowed. O(pools times their chunks). */
LOAM_API void loam_pool_set_free_at(loam_pool_set *set, void *p, const char *file,
                                    unsigned line) LOAM_NOEXCEPT;
/* The pool that p is from; NULL iff it is from none. */
LOAM_API loam_pool *loam_pool_set_owner(const loam_pool_set *set, const void *p) LOAM_NOEXCEPT;

#define loam_pool_set_alloc(set, bytes) loam_pool_set_alloc_at((set), (bytes), LOAM_HERE)
#define loam_pool_set_free(set, p) loam_pool_set_free_at((set), (p), LOAM_HERE)

/* ---- A pool for many threads: not in a freestanding build ----
 *
 * The paper leaves open how a pool is to be used by many processors at once. The answer here: each
 * thread has a magazine of every pool it uses, of two batches of blocks (16 KiB, but 4 to 64
 * blocks, each), and takes and gives blocks there without a lock or an atomic instruction. Whole
 * batches are exchanged with the pool under its lock, in a few steps whatever their size: at most
 * one lock in a batch of operations, whichever threads free what others have allocated.
 *
 *   thread   list ──> .. ──> NULL        batch ──> .. ──> NULL        fresh ── end
 *   pool     batch ──> batch ──> NULL    (under the lock)             loam_pool
 *
 * The child of a fork has the pool, and the forking thread's magazines, as they were. The blocks in
 * the magazines of other threads, which the child does not have, are lost to it: they count as free
 * and are never handed out, up to three batches for each such thread and pool.
 * loam_shared_pool_deinit gives their memory back. A program whose children go on to allocate much
 * lets the other threads call loam_shared_pool_trim before it forks, or forks before it has
 * threads.
 *
 * A thread that ends returns its magazines. A pool may end while other threads still have magazines
 * of it: serial numbers tell them that these are void. A checked, hardened or watched one has no
 * magazines: all is under its lock. */
typedef struct loam_shared_pool {
    uint64_t serial; /* no other pool of the process ever had it; UINT64_MAX: without magazines */
    unsigned slot;   /* in the threads' tables */
    unsigned batch;  /* blocks */
    size_t stride;   /* the pool's */
    char apart[64];  /* from what is written at each exchange */
    uint32_t lock;   /* of all below; atomic */
    void *batches, *ranges;
    size_t batches_count, ranges_blocks;
    loam_pool pool;
} loam_shared_pool;

LOAM_API LOAM_NODISCARD int loam_shared_pool_init_as(loam_shared_pool *pool, loam_source *source,
                                                     size_t block_bytes,
                                                     const loam_pool_options *options,
                                                     unsigned extra) LOAM_NOEXCEPT;

/* As loam_pool_init, but with LOAM_THREADS (which may be said) and without LOAM_POOL_HANDLES; the
 * source is used under the pool's lock. -ENOMEM also iff there is no memory for a slot. */
LOAM_INLINE LOAM_NODISCARD int
loam_shared_pool_init(loam_shared_pool *pool, loam_source *source, size_t block_bytes,
                      const loam_pool_options *options) LOAM_NOEXCEPT {
    return loam_shared_pool_init_as(pool, loam_pool_source_(source), block_bytes, options,
                                    LOAM_POOL_EXTRA_);
}
/* All memory goes back. No thread may use the pool any more; they may have magazines of it. */
LOAM_API void loam_shared_pool_deinit(loam_shared_pool *pool) LOAM_NOEXCEPT;

/* A block, for any thread. NULL iff there is no memory, or the pool is at its limit but for blocks
 * in magazines of other threads (two batches each, and up to one of fresh blocks). */
LOAM_API LOAM_MALLOC void *loam_shared_pool_alloc_at(loam_shared_pool *pool, const char *file,
                                                     unsigned line) LOAM_NOEXCEPT;
/* Takes back a block of this pool, or NULL, of whichever thread. */
LOAM_API void loam_shared_pool_free_at(loam_shared_pool *pool, void *block, const char *file,
                                       unsigned line) LOAM_NOEXCEPT;

#define loam_shared_pool_alloc(pool) loam_shared_pool_alloc_at((pool), LOAM_HERE)
#define loam_shared_pool_free(pool, block) loam_shared_pool_free_at((pool), (block), LOAM_HERE)

/* As of a pool. Threads may use the pool meanwhile: what is in their magazines counts as free, and
 * is not walked. */
LOAM_API bool loam_shared_pool_owns(loam_shared_pool *pool, const void *p) LOAM_NOEXCEPT;
LOAM_API void loam_shared_pool_usage(loam_shared_pool *pool, loam_usage *usage) LOAM_NOEXCEPT;
LOAM_API bool loam_shared_pool_check(loam_shared_pool *pool) LOAM_NOEXCEPT;
/* Also returns the calling thread's magazine of it. */
LOAM_API size_t loam_shared_pool_trim(loam_shared_pool *pool) LOAM_NOEXCEPT;

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_pool.h"
#endif

#include "loam/names_end.h"

#endif

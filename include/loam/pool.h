/* loam/pool.h: blocks of one size, each allocated and freed in a few instructions.
 *
 * Choose a pool for many objects of one size: particles, packets, nodes. It has no header, no
 * search and no fragmentation. The block freed last comes back first, while it is still in the
 * cache. A pool cannot serve other sizes: for those use loam/blocks.h, or a loam_pool_set of
 * several pools. One thread at a time uses a pool: for many threads use loam_shared_pool below.
 *
 *   chunk  │ block │ block │ block │ block │░░░░░░░░░░░░░░░░░░│
 *            used    free ──> free ──> NULL
 *   pool   free ───────┘             fresh ┘             end ┘
 *
 * Free blocks form a list through their first words. Blocks behind `fresh` have never been touched:
 * nothing initialises them. Creating or destroying a pool therefore costs the same for ten blocks
 * as for a million. A block's number is found without a division. loam shifts the block's distance
 * from the chunk's start right by the number of twos in the stride. It multiplies the result by the
 * inverse of the stride's odd part modulo the word size. The product is below the number of blocks
 * iff the address is a block's. The pool does not live in the memory that it hands out. Its struct
 * has 784 bytes on a 64-bit machine, of which the inline paths read the first 40.
 *
 * Invariant: every member of the free list is a block below `fresh`, and no block is in the list
 * twice. loam_pool_check verifies it.
 *
 * Source: Kenwright, "Fast Efficient Fixed-Size Memory Pool", 2012: no loops, no overhead. loam
 * links blocks by pointers in place of numbers, so that nothing divides. It cuts fresh blocks one
 * by one in place of appending them to the list. */
#ifndef LOAM_POOL_H
#define LOAM_POOL_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

/** Flags of a pool, besides those of loam_flags. */
typedef enum loam_pool_flags {
    /** The pool is one range of addresses. It grows in place or not at all. */
    LOAM_POOL_CONTIGUOUS = 256,
    /** loam_pool_alloc_handle works. Each block takes 4 more bytes, and no call takes the inline
     * path. */
    LOAM_POOL_HANDLES = 512,
    /** Blocks of a multiple of 1 KiB get no 64 bytes between them (see loam_pool_init). */
    LOAM_POOL_DENSE = 1024,
    /** Links have 4 bytes: a block may be as small as 4 bytes. No call takes the inline path. */
    LOAM_POOL_NARROW = 2048,
} loam_pool_flags;

/** Options of a pool. A member that is 0 selects its default. */
typedef struct loam_pool_options {
    /** Alignment of each block in bytes; a power of two. 0 selects the largest power of two that
     * divides the block's size, at most 16, at least that of a pointer (LOAM_POOL_NARROW: 4). */
    size_t align;
    /** Minimum number of blocks in the first chunk. 0 selects the larger of 8 and 4 KiB /
     * stride. */
    size_t first_blocks;
    /** Maximum number of blocks in the pool. 0: no limit. With LOAM_FIXED the pool gets this many
     * blocks when it is set up (first_blocks if this is 0). */
    size_t most_blocks;
    /** Size in bytes up to which chunks double. 0 selects 16 MiB. With LOAM_POOL_HANDLES there is
     * no bound once about half of the table of 64 chunks is in use. */
    size_t most_chunk_bytes;
    /** LOAM_CHECK, LOAM_HARDEN, LOAM_FIXED and values of loam_pool_flags, or'ed together. */
    unsigned flags;
    /** Name for the registry and for messages, or NULL. It is not copied: it must outlive the
     * pool. */
    const char *name;
} loam_pool_options;

/* ---- Private types: their members may change with any version ---- */

/** The first word of a free block: the next free block, or NULL. */
typedef void *loam_pool_link __attribute__((__may_alias__));

/** Where a pool takes its next block from. Private. */
typedef struct loam_pool_cut {
    void *free;        /**< first free block, or NULL */
    char *fresh, *end; /**< the current chunk's blocks that are still fresh */
} loam_pool_cut;

/** A chunk of blocks. Private. */
typedef struct loam_pool_chunk {
    struct loam_pool_chunk *next; /**< the chunk obtained after this one, or NULL */
    char *start, *end;            /**< bounds of the blocks: a multiple of the stride */
    char *limit;                  /**< end of the memory */
    void *memory;                 /**< what the source returned; NULL: the caller's */
    /** Size in bytes of the first piece that the source gave, with the bytes before start. */
    size_t got;
    /** Rises along the list of chunks; the chunk's index in the pool's table. */
    unsigned order, number;
    size_t counted;                         /**< scratch word of loam_pool_trim */
    struct loam_pool_chunk *lower, *higher; /**< children in the tree by address (pool_chunk.c) */
} loam_pool_chunk;

/** A run of pieces of one size that a contiguous source gave one after the other. Private. */
typedef struct loam_pool_run {
    size_t bytes, count; /**< size of each piece; their number */
} loam_pool_run;
/** Maximum number of runs in a pool. */
enum { LOAM_POOL_RUNS = 16 };

/** Generations that belong to one pool of the process alone: from <= generation < to. Private. */
typedef struct loam_pool_range {
    uint32_t from, to; /**< the first generation; the one behind the last */
} loam_pool_range;
/** Maximum number of ranges of generations in a pool. */
enum { LOAM_POOL_RANGES = 16 };

/** A pool. It must not move. Its members are private. */
typedef struct loam_pool {
    /** What the inline paths use. All NULL in a pool that is checked, hardened, watched by a tool,
     * narrow or has handles. */
    loam_pool_cut hot;
    /** loam_pool_free leaves the inline path for addresses up to this one: 0, or UINTPTR_MAX. */
    uintptr_t floor;
    size_t stride;       /**< distance from one block to the next in bytes */
    size_t inverse;      /**< inverse of the stride's odd part modulo the word size */
    unsigned char shift; /**< number of twos in the stride */
    unsigned char mode;  /**< 0, or bits that say why inline paths miss */
    unsigned flags;      /**< all flags of the pool */
    loam_pool_cut cold;  /**< what is used in place of hot if mode is not 0 */
    /** The oldest chunk; the one from which blocks are cut. Chunks after current are uncut. */
    loam_pool_chunk *chunks, *current;
    loam_pool_chunk *root;     /**< root of the tree of chunks; NULL iff there is none */
    loam_source *source;       /**< NULL: the memory is a buffer of the caller's */
    size_t block_bytes, align; /**< as given or chosen when the pool was set up */
    /** Bytes of a checked block before the object; bytes of any block without its generation. */
    size_t head_bytes, inner_bytes;
    /** Blocks of the next chunk; blocks that most_blocks still allows; bound for chunks in
     * bytes. */
    size_t next_blocks, left_blocks, most_chunk_bytes;
    /** Bytes held now; bytes held at the peak; number of chunks and pieces obtained so far. */
    size_t held_bytes, peak_bytes, requests;
    size_t key; /**< mixed into hardened links */
    /** The generation of a block cut now; the highest one of any block that was freed. */
    uint32_t generation, generations;
    uint32_t reset_at;       /**< handles of lower generations are stale */
    size_t retired;          /**< number of blocks that ran out of generations */
    loam_pool_chunk **table; /**< chunks by number, in a pool with handles */
    size_t table_bytes;      /**< size of the table */
    /** Size in bytes of the chunk that holds this struct alone; 0 if the struct lives elsewhere. */
    size_t home_bytes;
    /** The pool's entry in the registry. */
    loam_entry entry;
    /** The chunk of a contiguous pool, of a LOAM_FIXED one, or the one that the pool itself lives
     * in. */
    loam_pool_chunk first;
    loam_pool_run runs[LOAM_POOL_RUNS]; /**< pieces to give back */
    /** In a checked pool: end of the blocks that the last reset took, in gone_order's chunk. */
    char *gone;
    unsigned gone_order;                      /**< order of the chunk that gone points into */
    unsigned ranges_count;                    /**< number of ranges in use */
    loam_pool_range ranges[LOAM_POOL_RANGES]; /**< for handles, ascending */
} loam_pool;

/* ---- Set-up and end ---- */

/** Does what loam_pool_init does. extra: flags besides those in *options. Called by
 * loam_pool_init. */
LOAM_API LOAM_NODISCARD int loam_pool_init_as(loam_pool *pool, loam_source *source,
                                              size_t block_bytes, const loam_pool_options *options,
                                              unsigned extra) LOAM_NOEXCEPT;
/** Does what loam_pool_init_buffer does, with the flags extra besides those in *options. */
LOAM_API LOAM_NODISCARD int loam_pool_init_buffer_as(loam_pool *pool, void *memory, size_t bytes,
                                                     size_t block_bytes,
                                                     const loam_pool_options *options,
                                                     unsigned extra) LOAM_NOEXCEPT;
/** Does what loam_pool_create does, with the flags extra besides those in *options. */
LOAM_API LOAM_NODISCARD loam_pool *loam_pool_create_as(loam_source *source, size_t block_bytes,
                                                       const loam_pool_options *options,
                                                       unsigned extra) LOAM_NOEXCEPT;

/** Flags that LOAM_CHECKED adds in this file. Private. */
#define LOAM_POOL_EXTRA_ (LOAM_CHECKED ? (unsigned)LOAM_CHECK : 0u)

/** Returns source, or loam_pages() if it is NULL. Private. */
LOAM_INLINE loam_source *loam_pool_source_(loam_source *source) {
#if __STDC_HOSTED__
    return source != NULL ? source : loam_pages();
#else
    return source;
#endif
}

/** Sets *pool up for blocks of block_bytes, over a source. source: NULL selects loam_pages(); a
 * freestanding build has no default. options: NULL means that all members are 0.
 *
 * block_bytes: from 1 to PTRDIFF_MAX / 4. It is rounded up to the alignment and to the size of a
 * pointer (with LOAM_POOL_NARROW: to 4). Blocks of a multiple of 1 KiB lie 64 bytes further apart:
 * otherwise their first words would meet in a few sets of the processor's caches. They do not if
 * the memory is the caller's, if they are aligned to more than 64 bytes, or with LOAM_POOL_DENSE.
 *
 * Returns 0. Returns -EINVAL iff a size, alignment or flag is not allowed. Not allowed are
 * LOAM_THREADS (see loam_shared_pool), LOAM_FIXED without a number of blocks, and LOAM_POOL_NARROW
 * with LOAM_POOL_HANDLES, or without LOAM_FIXED or LOAM_POOL_CONTIGUOUS. Returns -ENOMEM iff there
 * is no memory for LOAM_FIXED or LOAM_POOL_HANDLES.
 *
 * The pool asks its source for memory at the first allocation, with LOAM_FIXED at once. O(1). *pool
 * must not move, and source must outlive it. */
LOAM_INLINE LOAM_NODISCARD int loam_pool_init(loam_pool *pool, loam_source *source,
                                              size_t block_bytes,
                                              const loam_pool_options *options) LOAM_NOEXCEPT {
    return loam_pool_init_as(pool, loam_pool_source_(source), block_bytes, options,
                             LOAM_POOL_EXTRA_);
}

/** Sets *pool up over bytes of the caller's memory, of any alignment. The memory remains the
 * caller's. The pool is LOAM_FIXED and contiguous, with as many blocks as fit and most_blocks
 * allows: without checks exactly bytes / stride if the memory is aligned. A checked block needs
 * about 120 bytes more. Returns 0. Returns -EINVAL as loam_pool_init does. Returns -ENOMEM iff not
 * one fits. O(1). */
LOAM_INLINE LOAM_NODISCARD int
loam_pool_init_buffer(loam_pool *pool, void *memory, size_t bytes, size_t block_bytes,
                      const loam_pool_options *options) LOAM_NOEXCEPT {
    return loam_pool_init_buffer_as(pool, memory, bytes, block_bytes, options, LOAM_POOL_EXTRA_);
}

/** Ends the pool and gives all memory back, including blocks in use. With LOAM_CHECK it first lists
 * the first 100 objects in use as leaks. O(1) for a contiguous pool, otherwise O(chunks); with
 * checks O(blocks). */
LOAM_API void loam_pool_deinit(loam_pool *pool) LOAM_NOEXCEPT;
/** For a pool in static memory of a module that is being unloaded. Does what loam_pool_deinit does
 * if no block is in use. Otherwise it removes the pool from the registry, and the memory remains
 * with the blocks until the process ends. O(free blocks). */
LOAM_API void loam_pool_leave(loam_pool *pool) LOAM_NOEXCEPT;

/** Creates a pool that lives in its own first chunk. If first_blocks need more than 64 KiB, the
 * pool lives in a chunk by itself, except if it is contiguous. Returns NULL iff loam_pool_init
 * would fail, or there is no memory for that chunk. O(1): it touches no block. loam_pool_destroy
 * ends it. */
LOAM_INLINE LOAM_NODISCARD loam_pool *
loam_pool_create(loam_source *source, size_t block_bytes,
                 const loam_pool_options *options) LOAM_NOEXCEPT {
    return loam_pool_create_as(loam_pool_source_(source), block_bytes, options, LOAM_POOL_EXTRA_);
}
/** Does what loam_pool_deinit does. pool may be NULL. */
LOAM_API void loam_pool_destroy(loam_pool *pool) LOAM_NOEXCEPT;

/* ---- Blocks ---- */

/** Allocates a block where the inline path cannot. Private. */
LOAM_API LOAM_COLD void *loam_pool_alloc_slow(loam_pool *pool, const char *file,
                                              unsigned line) LOAM_NOEXCEPT;
/** Frees a block where the inline path cannot. Returns the new value of pool->hot.free. Private. */
LOAM_API LOAM_COLD void *loam_pool_free_slow(loam_pool *pool, void *block, const char *file,
                                             unsigned line) LOAM_NOEXCEPT;

/** Returns a block with undefined contents: the one freed last, or else a fresh one. Returns NULL
 * iff the source has no memory, or the pool is at its limit; then the pool is unchanged. A hardened
 * pool also returns NULL after it reports a damaged list, which is lost. file and line name the
 * caller in reports. Five instructions, nine for a fresh block; a new chunk costs more. */
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

/** Frees a block of this pool. NULL is allowed. The block's contents are lost, its first word at
 * once. Five instructions. */
LOAM_INLINE void loam_pool_free_at(loam_pool *pool, void *block, const char *file,
                                   unsigned line) LOAM_NOEXCEPT {
    /* In a loop this form keeps the list's head in a register, whatever the slow path does. */
    void *head = pool->hot.free;
    /* One comparison catches NULL and every mode that checks. */
    if (LOAM_UNLIKELY((uintptr_t)block <= pool->floor))
        block = loam_pool_free_slow(pool, block, file, line);
    else
        *(loam_pool_link *)block = head;
    pool->hot.free = block;
}

/** Calls loam_pool_alloc_at with the caller's file and line. */
#define loam_pool_alloc(pool) loam_pool_alloc_at((pool), LOAM_HERE)
/** Calls loam_pool_free_at with the caller's file and line. */
#define loam_pool_free(pool, block) loam_pool_free_at((pool), (block), LOAM_HERE)

/** Returns whether p is the address of a block of this pool, in use or free, that has been handed
 * out since the last reset. In a checked pool that is the address of the block's object. p may be
 * any value. O(log chunks). */
LOAM_API bool loam_pool_owns(const loam_pool *pool, const void *p) LOAM_NOEXCEPT;

/** Returns the usable size of each block in bytes: block_bytes as given. */
LOAM_INLINE size_t loam_pool_block_bytes(const loam_pool *pool) LOAM_NOEXCEPT {
    return pool->block_bytes;
}

/* ---- Handles: pools with LOAM_POOL_HANDLES ----
 *
 * A handle names a block while it is in use, and nothing ever after. It consists of the block's
 * number and the block's generation, which grows with each allocation and each free. 0 is no
 * handle. A pool with handles has 64 chunks of 2^26 blocks and no more. Its blocks may also be
 * allocated by loam_pool_alloc, and either free ends them.
 *
 * A handle of another pool names nothing, even if that pool was in the same storage before: the
 * pools of a process share the 2^31 uses that 32-bit generations allow, and each use belongs to one
 * pool. A pool first takes generations for 4 uses of a block. When a block has used all of them,
 * the pool takes 4 times as many as before. If no generations are left, the pool takes the block
 * out of use, so that no old handle comes true in it. Pools that are set up after that begin again
 * with the first generations. Only from then on may a handle of a pool of long ago name a block of
 * another pool. */

/** The name of a block in use. 0 is no handle. */
typedef uint64_t loam_handle;

/** Allocates a block and returns its handle. Returns 0 iff there is no memory or the pool is at its
 * limit. O(1), and a new chunk now and then. */
LOAM_API LOAM_NODISCARD loam_handle loam_pool_alloc_handle_at(loam_pool *pool, const char *file,
                                                              unsigned line) LOAM_NOEXCEPT;
/** Returns the block of a handle. Returns NULL iff it has been freed, by whatever means, or is no
 * handle of this pool. O(1), no division. */
LOAM_API void *loam_pool_get(const loam_pool *pool, loam_handle handle) LOAM_NOEXCEPT;
/** Returns the handle of a block in use. Returns 0 iff p is no block in use of a pool with handles.
 * O(log chunks). */
LOAM_API loam_handle loam_pool_handle(const loam_pool *pool, const void *p) LOAM_NOEXCEPT;
/** Frees the block of a handle and returns true. Returns false, and frees nothing, iff
 * loam_pool_get returns NULL. */
LOAM_API bool loam_pool_free_handle_at(loam_pool *pool, loam_handle handle, const char *file,
                                       unsigned line) LOAM_NOEXCEPT;

/** Calls loam_pool_alloc_handle_at with the caller's file and line. */
#define loam_pool_alloc_handle(pool) loam_pool_alloc_handle_at((pool), LOAM_HERE)
/** Calls loam_pool_free_handle_at with the caller's file and line. */
#define loam_pool_free_handle(pool, handle) loam_pool_free_handle_at((pool), (handle), LOAM_HERE)

/* ---- The pool as a whole ---- */

/** Frees all blocks at once, as if never used. The memory remains with the pool. Handles from
 * before the reset name nothing. O(1). With checks O(blocks); with handles O(blocks) once in about
 * a billion reuses of a block. */
LOAM_API void loam_pool_reset(loam_pool *pool) LOAM_NOEXCEPT;

/** Grows a contiguous pool by bytes at the end of its memory. Over a source the bytes come from
 * there. In a caller's buffer the caller promises that they follow it, and most_blocks no longer
 * limits the pool. Bytes that do not fill a block count towards the next call. Returns 0. Returns
 * -EINVAL iff it is not contiguous, or bytes is more than PTRDIFF_MAX. Returns -ENOMEM iff the
 * source has no memory at that address, or the pool has grown in more than LOAM_POOL_RUNS different
 * sizes in a row: it could not give more back. O(1). */
LOAM_API LOAM_NODISCARD int loam_pool_extend(loam_pool *pool, size_t bytes) LOAM_NOEXCEPT;

/** Gives back the memory behind the last block handed out since the last reset. In a caller's
 * buffer these are all bytes behind it; over a source they are whole pieces and chunks. Returns the
 * number of bytes given back. Blocks behind it are never touched, not by this call either. O(pieces
 * and chunks given back). */
LOAM_API size_t loam_pool_shrink(loam_pool *pool) LOAM_NOEXCEPT;

/** Gives back every chunk without a block in use, uncut ones as well. A contiguous pool gives back
 * all its memory if no block is in use; otherwise it does what loam_pool_shrink does, as LOAM_FIXED
 * pools do. In a caller's buffer it does nothing. The chunk that the pool itself lives in stays.
 * Returns the number of bytes given back. O(free blocks times log chunks). */
LOAM_API size_t loam_pool_trim(loam_pool *pool) LOAM_NOEXCEPT;

/** Calls visit(object, context) for each object in use, in no particular order, until visit returns
 * false. visit may free the object that it is called for; it must not use the pool otherwise.
 * Returns the number of objects visited. Afterwards the pool hands free blocks out in another
 * order: those at low addresses first. Takes no memory. O(blocks). */
LOAM_API size_t loam_pool_visit(loam_pool *pool, bool (*visit)(void *object, void *context),
                                void *context) LOAM_NOEXCEPT;

/** Walks the free list, and with checks the guards of all objects in use and free. Returns false
 * after a report. O(blocks times log chunks). */
LOAM_API bool loam_pool_check(const loam_pool *pool) LOAM_NOEXCEPT;

/** Fills *usage. O(free blocks). */
LOAM_API void loam_pool_usage(const loam_pool *pool, loam_usage *usage) LOAM_NOEXCEPT;

/* ---- Several pools, a request to the best fitting ---- */

/** A set of pools in place of a general allocator: for operator new of a class hierarchy, or a
 * library's hooks. A request goes to the smallest block that is large enough, if it is not too
 * large either, and otherwise to a fallback. One thread at a time uses it. Members are private. */
typedef struct loam_pool_set {
    loam_pool *pools;      /**< the caller's array, in order of rising block sizes */
    size_t count;          /**< number of pools */
    unsigned tolerance;    /**< how much larger a block may be, in per cent */
    loam_source *fallback; /**< source of requests that no pool serves */
    /** Objects of the fallback in use; bytes that the fallback gave for them. */
    size_t fallback_objects, fallback_bytes;
    /** Fallback objects have guards; those left are listed at the end; the set has ended. */
    bool checked, leaks, ended;
    /** Entry of the fallback's objects; in the registry iff checked. */
    loam_entry entry;
} loam_pool_set;

/** Does what loam_pool_set_init does, with the flags extra besides those in *options. source and
 * fallback must not be NULL. */
LOAM_API LOAM_NODISCARD int
loam_pool_set_init_as(loam_pool_set *set, loam_pool *pools, const size_t *block_bytes, size_t count,
                      loam_source *source, const loam_pool_options *options, unsigned tolerance,
                      loam_source *fallback, unsigned extra) LOAM_NOEXCEPT;

/** Sets up count pools in the caller's array, over one source and with one set of options, for the
 * given block sizes. The sizes must rise. A block may be larger than a request by tolerance per
 * cent of the request. A request goes to the fallback if no block fits it, or if the fitting pools
 * are exhausted. fallback: NULL selects loam_pages(); a freestanding build has no default. With
 * LOAM_CHECK objects of the fallback have guards as well, and the set is in the registry as a "pool
 * set".
 *
 * Returns 0, or what loam_pool_init returns. Returns -EINVAL also iff sizes do not rise or there is
 * no size. After an error nothing is set up. */
LOAM_INLINE LOAM_NODISCARD int
loam_pool_set_init(loam_pool_set *set, loam_pool *pools, const size_t *block_bytes, size_t count,
                   loam_source *source, const loam_pool_options *options, unsigned tolerance,
                   loam_source *fallback) LOAM_NOEXCEPT {
    return loam_pool_set_init_as(set, pools, block_bytes, count, loam_pool_source_(source), options,
                                 tolerance, loam_pool_source_(fallback), LOAM_POOL_EXTRA_);
}
/** Ends the set and its pools. Objects of the fallback must have been freed before. With LOAM_CHECK
 * it lists the objects in use, as loam_registry_leaks does. */
LOAM_API void loam_pool_set_deinit(loam_pool_set *set) LOAM_NOEXCEPT;

/** Returns bytes of memory (0 counts as 1). The address is a multiple of 16, or of the pool's
 * alignment if that is less. Returns NULL iff neither a pool nor the fallback has memory.
 * O(pools). */
LOAM_API LOAM_MALLOC void *loam_pool_set_alloc_at(loam_pool_set *set, size_t bytes,
                                                  const char *file, unsigned line) LOAM_NOEXCEPT;
/** Frees p, which loam finds in the pools or the fallback by its address. NULL is allowed. O(pools
 * times log chunks). */
LOAM_API void loam_pool_set_free_at(loam_pool_set *set, void *p, const char *file,
                                    unsigned line) LOAM_NOEXCEPT;
/** Returns the pool that p is from. Returns NULL iff it is from no pool of the set. O(pools times
 * log chunks). */
LOAM_API loam_pool *loam_pool_set_owner(const loam_pool_set *set, const void *p) LOAM_NOEXCEPT;

/** Calls loam_pool_set_alloc_at with the caller's file and line. */
#define loam_pool_set_alloc(set, bytes) loam_pool_set_alloc_at((set), (bytes), LOAM_HERE)
/** Calls loam_pool_set_free_at with the caller's file and line. */
#define loam_pool_set_free(set, p) loam_pool_set_free_at((set), (p), LOAM_HERE)

/** A pool that many threads use at once. A freestanding build does not have it. Members are
 * private.
 *
 * Kenwright's paper leaves open how many processors use one pool. loam gives each thread a magazine
 * for every pool that it uses. A magazine has two batches of blocks: 16 KiB each, but at least 4
 * blocks and at most 64. The thread allocates and frees there without a lock or an atomic
 * instruction. It exchanges whole batches with the pool under the pool's lock, in a few steps
 * whatever their size: at most one lock in a batch of operations, whichever threads free what
 * others have allocated.
 *
 *   thread   list ──> .. ──> NULL        batch ──> .. ──> NULL        fresh ── end
 *   pool     batch ──> batch ──> NULL    (under the lock)             loam_pool
 *
 * The child of a fork has the pool, and the forking thread's magazines, as they were. It loses the
 * blocks in the magazines of other threads, which the child does not have: up to three batches for
 * each other thread and pool. These blocks count as free and are never handed out.
 * loam_shared_pool_deinit gives their memory back. If children are to allocate much, let the other
 * threads call loam_shared_pool_trim before the fork, or fork before the program has threads.
 *
 * A thread that ends returns its magazines. A pool may end while other threads still have magazines
 * of it: serial numbers make these void. A checked, hardened or watched pool has no magazines:
 * every call takes its lock. */
typedef struct loam_shared_pool {
    /** Number that no other pool of the process ever had. UINT64_MAX: the pool has no magazines. */
    uint64_t serial;
    unsigned slot;                       /**< the pool's index in the threads' tables */
    unsigned batch;                      /**< blocks in a batch */
    size_t stride;                       /**< copy of pool.stride */
    char apart[64];                      /**< keeps what exchanges write in another cache line */
    uint32_t lock;                       /**< guards all members below; atomic */
    void *batches, *ranges;              /**< batches of free blocks; ranges of fresh ones */
    size_t batches_count, ranges_blocks; /**< number of batches; blocks in all ranges */
    /** The pool behind the magazines. */
    loam_pool pool;
} loam_shared_pool;

/** Does what loam_shared_pool_init does, with the flags extra besides those in *options. */
LOAM_API LOAM_NODISCARD int loam_shared_pool_init_as(loam_shared_pool *pool, loam_source *source,
                                                     size_t block_bytes,
                                                     const loam_pool_options *options,
                                                     unsigned extra) LOAM_NOEXCEPT;

/** Sets *pool up as loam_pool_init does, for many threads. The flag LOAM_THREADS is implied and
 * allowed; LOAM_POOL_HANDLES and LOAM_POOL_NARROW give -EINVAL. Blocks of less than two pointers
 * are aligned to two pointers. The source is used under the pool's lock. Returns 0 or an error as
 * loam_pool_init does; -ENOMEM also iff there is no memory for a slot in the threads' tables. */
LOAM_INLINE LOAM_NODISCARD int
loam_shared_pool_init(loam_shared_pool *pool, loam_source *source, size_t block_bytes,
                      const loam_pool_options *options) LOAM_NOEXCEPT {
    return loam_shared_pool_init_as(pool, loam_pool_source_(source), block_bytes, options,
                                    LOAM_POOL_EXTRA_);
}
/** Ends the pool and gives all memory back. No thread may use the pool any more; threads may still
 * have magazines of it. */
LOAM_API void loam_shared_pool_deinit(loam_shared_pool *pool) LOAM_NOEXCEPT;

/** Returns a block, on any thread. Returns NULL iff there is no memory, or the pool is at its limit
 * but for blocks in magazines of other threads: up to two batches each, and up to one of fresh
 * blocks. */
LOAM_API LOAM_MALLOC void *loam_shared_pool_alloc_at(loam_shared_pool *pool, const char *file,
                                                     unsigned line) LOAM_NOEXCEPT;
/** Frees a block of this pool, on any thread. NULL is allowed. */
LOAM_API void loam_shared_pool_free_at(loam_shared_pool *pool, void *block, const char *file,
                                       unsigned line) LOAM_NOEXCEPT;

/** Calls loam_shared_pool_alloc_at with the caller's file and line. */
#define loam_shared_pool_alloc(pool) loam_shared_pool_alloc_at((pool), LOAM_HERE)
/** Calls loam_shared_pool_free_at with the caller's file and line. */
#define loam_shared_pool_free(pool, block) loam_shared_pool_free_at((pool), (block), LOAM_HERE)

/** Does what loam_pool_owns does, under the pool's lock. Other threads may use the pool
 * meanwhile. */
LOAM_API bool loam_shared_pool_owns(loam_shared_pool *pool, const void *p) LOAM_NOEXCEPT;
/** Fills *usage. Other threads may use the pool meanwhile. Blocks in magazines count as free.
 * O(free blocks), under locks. */
LOAM_API void loam_shared_pool_usage(loam_shared_pool *pool, loam_usage *usage) LOAM_NOEXCEPT;
/** Does what loam_pool_check does, under the pool's lock, and walks the pool's batches. It does not
 * walk the magazines. Other threads may use the pool meanwhile. */
LOAM_API bool loam_shared_pool_check(loam_shared_pool *pool) LOAM_NOEXCEPT;
/** Returns the calling thread's magazine to the pool, and does what loam_pool_trim does. */
LOAM_API size_t loam_shared_pool_trim(loam_shared_pool *pool) LOAM_NOEXCEPT;

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_pool.h"
#endif

#include "loam/names_end.h"

#endif

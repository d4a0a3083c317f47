/* loam/source.h: where the special allocators get their memory from.
 *
 * Every pool, region and set of blocks allocates from a loam_source: two functions, a third that
 * may be NULL, and flags. Choose
 *
 *   loam_pages()         operating system pages through loam's heap: cached per thread, huge where
 *                        it pays, given back when unused. The default where a source may be NULL.
 *   loam_heap_source()   loam_malloc: for many small chunks
 *   loam_buffer          the caller's memory, static or on the stack: no operating system at all
 *   loam_reserve         a large range of addresses, reserved once and backed as it is used: memory
 *                        that grows in place and never moves
 *   loam_limit           another source, up to a number of bytes
 *   loam_count           another source, counted
 *
 * or write your own: embed a loam_source as the first member of a struct and fill in its members. A
 * source must not be copied once it is in use, and must outlive the allocators over it.
 *
 *   allocator ── get(bytes, align) ──> source        in chunks: some 4 KiB to some MiB
 *             <── chunk of `got` bytes
 *             ── put(chunk, got) ────>               each chunk once, as a whole, in any order
 *                                                    unless the source says otherwise */
#ifndef LOAM_SOURCE_H
#define LOAM_SOURCE_H

#include "loam/names_begin.h"

#include "loam/types.h"

LOAM_BEGIN

/** Properties of a source, or'ed together. */
typedef enum loam_source_flags {
    LOAM_SOURCE_ZEROED = 1,  /**< every chunk is zero */
    LOAM_SOURCE_ALIGNED = 2, /**< alignments up to 64 KiB cost no memory */
    /** A chunk begins where the last one ended, unless a chunk was put back between the two. */
    LOAM_SOURCE_CONTIGUOUS = 4,
    LOAM_SOURCE_THREADS = 8, /**< several threads may call it at once */
} loam_source_flags;

/** Default of loam_source's last member: C++ code may list the members without it. */
#ifdef __cplusplus
#define LOAM_UNSET = nullptr
#else
#define LOAM_UNSET
#endif

/** A source. An allocator calls its members; a source of your own fills them in. */
typedef struct loam_source {
    /** Returns at least `bytes` bytes (1 or more) at a multiple of align, a power of two. *got
     * receives their number. NULL iff there is no memory; *got is not written then. */
    void *(*get)(struct loam_source *source, size_t bytes, size_t align, size_t *got);
    /** Takes a chunk back, with the `got` it came with. */
    void (*put)(struct loam_source *source, void *chunk, size_t got);
    const char *name; /**< name for messages */
    unsigned flags;   /**< values of loam_source_flags, or'ed together */
    /** May be NULL. The caller will soon write to the rest of a chunk from `at` on, in order, at
     * least `bytes` bytes. ready prepares that memory at once where this is cheaper than page by
     * page as it is touched. It returns the number of bytes prepared, `bytes` or more, or 0 iff
     * there is nothing to gain. Contents stay. */
    size_t (*ready)(struct loam_source *source, void *at, size_t bytes) LOAM_UNSET;
} loam_source;

/** Calls source->get. */
LOAM_INLINE void *loam_source_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    return (source->get)(source, bytes, align, got);
}
/** Calls source->put. */
LOAM_INLINE void loam_source_put(loam_source *source, void *chunk, size_t got) {
    (source->put)(source, chunk, got);
}

/* ---- Sources that need no operating system ---- */

/** The caller's memory as a source. Chunks follow each other, each at its alignment. A chunk that
 * is put back can be reused at once if it is the last in the buffer. Other chunks, and gaps that
 * alignments left, can be reused when all chunks are back. got is exactly the requested size. One
 * thread at a time. NULL iff what is left is too small. Members are private. */
typedef struct loam_buffer {
    /** The functions of this source. */
    loam_source source;
    char *start, *at, *end; /**< bounds of the memory; `at`: end of the last chunk */
    size_t out;             /**< number of chunks in use */
} loam_buffer;

/** Size in bytes of the end of the address space in which no chunk of any source lies. */
#define LOAM_SOURCE_TOP 32768

/** Sets a buffer up in `bytes` bytes of memory, which remains the caller's and needs no alignment.
 * Bytes in LOAM_SOURCE_TOP are not used. */
LOAM_API void loam_buffer_init(loam_buffer *buffer, void *memory, size_t bytes) LOAM_NOEXCEPT;

/** A source with a limit. At most most_bytes of `inner` at any time, whatever threads do. `got`
 * counts: a chunk that inner made larger than the limit leaves goes back to inner, and the request
 * is refused. NULL iff the limit would be exceeded, or inner has none. It has inner's properties,
 * and serves as many threads as inner. Members are private. */
typedef struct loam_limit {
    /** The functions of this source. */
    loam_source source;
    loam_source *inner; /**< where chunks come from */
    size_t most_bytes;  /**< the limit in bytes */
    /** Sum of `got` of all chunks in use, and of those being requested. Atomic. */
    size_t used_bytes;
} loam_limit;

/** Sets a limit of most_bytes up over inner, which must outlive it. */
LOAM_API void loam_limit_init(loam_limit *limit, loam_source *inner,
                              size_t most_bytes) LOAM_NOEXCEPT;

/** A source that counts. It has inner's properties, and serves as many threads as inner. Any thread
 * may read the counters at any time; they agree with each other while no call is in progress. */
typedef struct loam_count {
    /** The functions of this source. */
    loam_source source;
    loam_source *inner; /**< where chunks come from */
    size_t gets;        /**< calls that got a chunk; atomic */
    size_t puts;        /**< calls of put; atomic */
    size_t refusals;    /**< calls that got no chunk; atomic */
    size_t used_bytes;  /**< sum of `got` of all chunks in use; atomic */
    size_t peak_bytes;  /**< peak of used_bytes; atomic */
} loam_count;

/** Sets counters of 0 up over inner, which must outlive *count. */
LOAM_API void loam_count_init(loam_count *count, loam_source *inner) LOAM_NOEXCEPT;

/* ---- Sources of an operating system: not in a freestanding build ---- */

/** Returns the source of operating system pages. got is `bytes` rounded up to a multiple of 4 KiB
 * and, up to 64 KiB, of the alignment. Chunks are aligned to at least 4 KiB. Up to 64 KiB they come
 * from the calling thread's lists, in about 20 instructions. Larger chunks come from spans of 64
 * KiB, which huge pages may back. Any thread may put back what another thread got. The next get of
 * any thread may reuse memory that was put back; it goes back to the system after LOAM_PURGE_DELAY.
 * Contents are undefined. NULL, with errno ENOMEM, iff there is no memory. */
LOAM_API loam_source *loam_pages(void) LOAM_NOEXCEPT;

/** Returns the source over loam_malloc_aligned and loam_free. got is loam_usable_size. Any number
 * of threads. NULL, with errno ENOMEM, iff there is no memory. A debug build of loam checks a chunk
 * that is put back as loam_free does. */
LOAM_API loam_source *loam_heap_source(void) LOAM_NOEXCEPT;

/** A range of addresses as a source. Members are private.
 *
 *   start [ chunk ][ chunk ] at ──> committed ──> nothing behind these addresses ──> end
 *
 * Chunks follow each other as in a loam_buffer, by its rules, at addresses that never change.
 * Memory is committed ahead of them in steps: a quarter of what is committed, 64 KiB to 8 MiB, more
 * if a chunk needs it. Idle memory behind the last chunk goes back to the system when it is more
 * than 2 MiB, and more than half of what is used. The range counts as address space (RLIMIT_AS),
 * not as memory. One thread at a time. NULL iff the range is used up, or the system has no
 * memory. */
typedef struct loam_reserve {
    /** The functions of this source. */
    loam_source source;
    char *start, *at, *committed, *end; /**< bounds of the range, its chunks and its memory */
    size_t out;                         /**< number of chunks in use */
} loam_reserve;

/** Reserves `bytes` bytes of addresses, 1 or more, rounded up to 64 KiB; no memory. Returns 0, or
 * -ENOMEM iff the system has no such range; every get is refused then. */
LOAM_API LOAM_NODISCARD int loam_reserve_init(loam_reserve *reserve, size_t bytes) LOAM_NOEXCEPT;
/** Gives the range back, with all that is in it. After an init that failed, and the second time, it
 * does nothing. */
LOAM_API void loam_reserve_deinit(loam_reserve *reserve) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

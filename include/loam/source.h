/* loam/source.h: where the allocators of the family get their memory from.
 *
 * Every pool, region and set of blocks stands on a loam_source: two functions and flags. Choose
 *
 *   loam_pages()    operating system pages through loam's heap: cached per thread, huge where it pays, given
 *                   back when unused. The default wherever a source may be NULL.
 *   loam_heap()     loam_malloc: for many small chunks
 *   loam_buffer     the caller's memory, static or on the stack: no operating system at all
 *   loam_reserve    a large range of addresses, reserved once and backed as it is used: memory that grows in
 *                   place and never moves
 *   loam_limit      another source, up to so many bytes
 *   loam_count      another source, counted
 *
 * or write your own: embed a loam_source as the first member of a struct and fill in its members. A source
 * cannot be copied once it is in use, and must outlive the allocators over it.
 *
 *   allocator ── get(bytes, align) ──> source        in chunks: some 4 KiB to some MiB
 *             <── chunk of `got` bytes
 *             ── put(chunk, got) ────>               each chunk once, whole, by any order unless said otherwise
 */
#ifndef LOAM_SOURCE_H
#define LOAM_SOURCE_H

#include "loam/types.h"

LOAM_BEGIN

/* What a source promises, or'ed together. */
typedef enum loam_source_flags {
    LOAM_SOURCE_ZEROED = 1,  /* every chunk is zero */
    LOAM_SOURCE_ALIGNED = 2, /* alignments up to 64 KiB cost no memory */
    LOAM_SOURCE_CONTIGUOUS =
        4, /* a chunk begins where the last one ended, if nothing was put back between */
    LOAM_SOURCE_THREADS = 8, /* may be asked by several threads at once */
} loam_source_flags;

typedef struct loam_source {
    /* At least `bytes` (1 or more) bytes at a multiple of align, a power of two; *got says how many they are.
     * NULL iff there is no memory; *got is not written then. */
    void *(*get)(struct loam_source *source, size_t bytes, size_t align, size_t *got);
    /* Takes back a chunk, with the `got` it came with. */
    void (*put)(struct loam_source *source, void *chunk, size_t got);
    const char *name;
    unsigned flags; /* loam_source_flags */
} loam_source;

LOAM_INLINE void *loam_source_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    return source->get(source, bytes, align, got);
}
LOAM_INLINE void loam_source_put(loam_source *source, void *chunk, size_t got) {
    source->put(source, chunk, got);
}

/* ---- Sources that need no operating system ---- */

/* The caller's memory. Chunks follow each other, each at its alignment; the one got last can be put back and
 * got again, the others only once all after them are back (in whatever order: the end falls to the last
 * chunk still out when put in reverse, and lost gaps return when all are back). One thread at a time.
 * NULL iff what is left is too small. */
typedef struct loam_buffer {
    loam_source source;
    char *start, *at, *end;
    size_t out; /* chunks */
} loam_buffer;

/* memory stays the caller's; bytes of it are used. It needs no alignment. */
LOAM_API void loam_buffer_init(loam_buffer *buffer, void *memory, size_t bytes) LOAM_NOEXCEPT;

/* At most most_bytes of `inner` at any time. NULL iff that would be exceeded, or inner has none.
 * As many threads as inner. */
typedef struct loam_limit {
    loam_source source;
    loam_source *inner;
    size_t most_bytes;
    size_t used_bytes; /* atomic */
} loam_limit;

LOAM_API void loam_limit_init(loam_limit *limit, loam_source *inner,
                              size_t most_bytes) LOAM_NOEXCEPT;

/* Counts what goes through it. As many threads as inner. */
typedef struct loam_count {
    loam_source source;
    loam_source *inner;
    size_t gets, puts, refusals;   /* calls; atomic */
    size_t used_bytes, peak_bytes; /* out now, and at most; atomic */
} loam_count;

LOAM_API void loam_count_init(loam_count *count, loam_source *inner) LOAM_NOEXCEPT;

/* ---- Sources of an operating system: not in a freestanding build ---- */

/* Pages: up to 64 KiB from the calling thread's own lists, above from spans of 64 KiB, which huge pages may
 * back. Any thread may put what another got. Memory put back serves the next get, of anybody, and goes back
 * to the system after LOAM_PURGE_DELAY. Never fails to be there; get gives NULL iff there is no memory. */
LOAM_API loam_source *loam_pages(void) LOAM_NOEXCEPT;

/* loam_malloc_aligned and loam_free. */
LOAM_API loam_source *loam_heap(void) LOAM_NOEXCEPT;

/* A range of addresses. Chunks follow each other without a gap as long as nothing is put back but the last;
 * memory put back at the end is given to the system in steps. One thread at a time. */
typedef struct loam_reserve {
    loam_source source;
    char *start, *at, *committed, *end;
    size_t out; /* chunks */
} loam_reserve;

/* Reserves bytes, rounded up to 64 KiB: addresses only. 0, or -ENOMEM iff the system has no such range. */
LOAM_API LOAM_NODISCARD int loam_reserve_init(loam_reserve *reserve, size_t bytes) LOAM_NOEXCEPT;
/* Gives the range back, with all that is in it. */
LOAM_API void loam_reserve_deinit(loam_reserve *reserve) LOAM_NOEXCEPT;

LOAM_END

#endif

/* loam/source.h: where the allocators of the family get their memory from.
 *
 * Every pool, region and set of blocks stands on a loam_source: two functions, a third that may be
 * NULL, and flags. Choose
 *
 *   loam_pages()    operating system pages through loam's heap: cached per thread, huge where it pays, given
 *                   back when unused. The default wherever a source may be NULL.
 *   loam_heap_source()     loam_malloc: for many small chunks
 *   loam_buffer     the caller's memory, static or on the stack: no operating system at all
 *   loam_reserve    a large range of addresses, reserved once and backed as it is used: memory that grows in
 *                   place and never moves
 *   loam_limit      another source, up to so many bytes
 *   loam_count      another source, counted
 *
 * or write your own: embed a loam_source as the first member of a struct and fill in its members. A
 * source cannot be copied once it is in use, and must outlive the allocators over it.
 *
 *   allocator ── get(bytes, align) ──> source        in chunks: some 4 KiB to some MiB
 *             <── chunk of `got` bytes
 *             ── put(chunk, got) ────>               each chunk once, whole, by any order unless said otherwise
 */
#ifndef LOAM_SOURCE_H
#define LOAM_SOURCE_H

#include "loam/names_begin.h"

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

/* For who lists a source's members in C++ without the last. */
#ifdef __cplusplus
#define LOAM_UNSET = nullptr
#else
#define LOAM_UNSET
#endif

typedef struct loam_source {
    /* At least `bytes` (1 or more) bytes at a multiple of align, a power of two; *got says how many
     * they are. NULL iff there is no memory; *got is not written then. */
    void *(*get)(struct loam_source *source, size_t bytes, size_t align, size_t *got);
    /* Takes back a chunk, with the `got` it came with. */
    void (*put)(struct loam_source *source, void *chunk, size_t got);
    const char *name;
    unsigned flags; /* loam_source_flags */
    /* May be NULL. What is left of a chunk will be written to from `at` on, soon and in order,
     * bytes of it at least: gets that memory ready at once where this is cheaper than page by page
     * as it is touched, and returns how many bytes are ready, `bytes` or more, or 0 iff there is
     * nothing to gain. Contents stay. */
    size_t (*ready)(struct loam_source *source, void *at, size_t bytes) LOAM_UNSET;
} loam_source;

LOAM_INLINE void *loam_source_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    return (source->get)(source, bytes, align, got);
}
LOAM_INLINE void loam_source_put(loam_source *source, void *chunk, size_t got) {
    (source->put)(source, chunk, got);
}

/* ---- Sources that need no operating system ---- */

/* The caller's memory. Chunks follow each other, each at its alignment. One that is put back can be
 * got again at once if it is the last in the buffer; the others, and gaps that alignments left,
 * when all chunks are back. got is exactly what was asked for. One thread at a time. NULL iff what
 * is left is too small. */
typedef struct loam_buffer {
    loam_source source;
    char *start, *at, *end;
    size_t out; /* chunks */
} loam_buffer;

/* No chunk of any source lies in this many bytes at the end of the address space. */
#define LOAM_SOURCE_TOP 32768

/* memory stays the caller's; bytes of it are used, less what lies in LOAM_SOURCE_TOP. It needs no
 * alignment. */
LOAM_API void loam_buffer_init(loam_buffer *buffer, void *memory, size_t bytes) LOAM_NOEXCEPT;

/* At most most_bytes of `inner` at any time, whatever threads do. What counts is `got`: a chunk
 * that inner made too large for what is left goes back to it, and is refused. NULL iff the limit
 * would be exceeded, or inner has none. What inner promises holds; as many threads as inner. */
typedef struct loam_limit {
    loam_source source;
    loam_source *inner;
    size_t most_bytes;
    size_t
        used_bytes; /* the `got` of all that is out now, and of what is being asked for; atomic */
} loam_limit;

LOAM_API void loam_limit_init(loam_limit *limit, loam_source *inner,
                              size_t most_bytes) LOAM_NOEXCEPT;

/* Counts what goes through it. What inner promises holds; as many threads as inner. The members may
 * be read at any time; they agree with each other while no call is under way. */
typedef struct loam_count {
    loam_source source;
    loam_source *inner;
    size_t gets;       /* calls that got a chunk; here and below: atomic */
    size_t puts;       /* calls */
    size_t refusals;   /* calls that got none */
    size_t used_bytes; /* the `got` of all that is out now */
    size_t peak_bytes; /* the most that this has been */
} loam_count;

LOAM_API void loam_count_init(loam_count *count, loam_source *inner) LOAM_NOEXCEPT;

/* ---- Sources of an operating system: not in a freestanding build ---- */

/* Pages: got is bytes rounded up to a multiple of 4 KiB, and of alignments up to 64 KiB; chunks are
 * aligned to 4 KiB at least. Up to 64 KiB they come from the calling thread's own lists, in some 20
 * instructions, above from spans of 64 KiB, which huge pages may back. Any thread may put what
 * another got. Memory put back serves the next get, of anybody, and goes back to the system after
 * LOAM_PURGE_DELAY. Contents are undefined. NULL, with errno ENOMEM, iff there is no memory. */
LOAM_API loam_source *loam_pages(void) LOAM_NOEXCEPT;

/* loam_malloc_aligned and loam_free: got is loam_usable_size. As many threads as you like. NULL,
 * with errno ENOMEM, iff there is no memory. In a debug build of loam a chunk that is put back is
 * checked as in loam_free. */
LOAM_API loam_source *loam_heap_source(void) LOAM_NOEXCEPT;

/* A range of addresses.
 *
 *   start [ chunk ][ chunk ] at ──> committed ──> nothing behind these addresses ──> end
 *
 * Chunks follow each other as in a loam_buffer, by the same rules, at addresses that never change;
 * memory is committed ahead of them in steps (a quarter of what there is, 64 KiB to 8 MiB), and
 * given back to the system when more than half of what is used, and 2 MiB, are idle behind the last
 * chunk. The range counts as address space (RLIMIT_AS), not as memory. One thread at a time. NULL
 * iff the range is used up, or the system has no memory. */
typedef struct loam_reserve {
    loam_source source;
    char *start, *at, *committed, *end;
    size_t out; /* chunks */
} loam_reserve;

/* Reserves bytes, 1 or more, rounded up to 64 KiB: addresses only. 0, or -ENOMEM iff the system has
 * no such range; every get is refused then. */
LOAM_API LOAM_NODISCARD int loam_reserve_init(loam_reserve *reserve, size_t bytes) LOAM_NOEXCEPT;
/* Gives the range back, with all that is in it. Harmless after an init that failed, and twice. */
LOAM_API void loam_reserve_deinit(loam_reserve *reserve) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

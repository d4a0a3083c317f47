/* loam/meter.h: what a program's allocators are asked, what that costs, and what they hold
 * meanwhile.
 *
 * Choose a level when you build (docs/guide/meter.md): LOAM_METER, a macro of each file, and an
 * option of the library's build (cmake -DLOAM_METER=2; preset `meter`).
 *
 *   0   nothing, the default: the headers are as if this one did not exist, and the functions below do nothing
 *   1   counters: calls, slow calls, failures, bytes requested, used and held, requests to the source
 *   2   also time: a histogram of each function's cost, and a CSV row every 300 operations and at each slow call
 *
 *     program ── loam_region_alloc ──> metered form ──> the inline path ──> slow path, which says so
 *                                          │                                       │
 *                                          └── begin, end ──> meter of the region <┘ got, put, mark, ...
 *                                                              └──> row ──> 64 KiB ──> write(2)
 *
 * A file of level 1 or 2 links only with a library of a level above 0. Levels may be mixed from
 * file to file, but what a file of level 0 frees, or allocates, makes `used` wrong, and files that
 * use the C++ classes must have one level. The heap (malloc) is metered at the library's level. It
 * cannot see what code that was compiled at level 0 asks of an allocator.
 *
 * Each live allocator has a meter of its own, by its address, up to LOAM_METER_MOST at once; one
 * that has ended leaves its meter to the next of the same kind and name, so that a thousand
 * requests' regions are one line. What is beyond is counted in one meter, "others", calls only.
 *
 * `used` is the bytes of live objects: as requested in regions, a block's in pools, what may be
 * used in blocks and in the heap; under AddressSanitizer and Valgrind that of blocks stays 0.
 * Rewinding to a mark restores what it was then; deeper than LOAM_METER_DEPTH marks it stays as it
 * is until those are gone. A FIFO is told no sizes by frees: its objects are in use, as requested,
 * until their page has no live one. Frees by other threads count when the FIFO takes them, without
 * a time; those after its destroy do not.
 *
 * Threads: meters of allocators that one thread uses at a time are changed by plain stores, the
 * others by relaxed atomic additions: each counter is exact when nobody is in a call, and two read
 * during one may not fit together. Fork: in the child rows stop, and its parent's file is not
 * touched; counters go on from the parent's, until loam_meter_reset. Nothing here allocates.
 *
 * To add an allocator, see loam/meter_region.h: three lines for each inline function in its header,
 * a line LM_METER(got(...)) or put(...) behind each use of its source (src/family/family.h), and
 * nothing else. After Augustin and Gillot, "Memory, part 6: optimizing the FIFO and Stack
 * allocators" (Intersec, 2013).
 */
#ifndef LOAM_METER_H
#define LOAM_METER_H

#include "loam/names_begin.h"

#include "loam/registry.h"

#include <stdbool.h>
#include <stdint.h>

#ifndef LOAM_METER
#define LOAM_METER 0
#endif
/* 0: this file's calls are not metered, whatever its level: loam's own. */
#ifndef LOAM_METER_HOOKS
#define LOAM_METER_HOOKS 1
#endif

LOAM_BEGIN

enum {
    LOAM_METER_EVERY = 300,                         /* operations of a meter from row to row */
    LOAM_METER_MOST = __STDC_HOSTED__ ? 254 : 14,   /* allocators at once */
    LOAM_METER_DEPTH = __STDC_HOSTED__ ? 1024 : 16, /* marks or frames */
    LOAM_METER_BUCKETS = __STDC_HOSTED__ ? 32 : 1,  /* of a histogram */
};

typedef enum loam_meter_function {
    LOAM_METER_ALLOC,
    LOAM_METER_FREE,
    LOAM_METER_REALLOC,
    LOAM_METER_FUNCTIONS
} loam_meter_function;

/* One function of an allocator. Members without "ns" are counted from level 1 on. */
typedef struct loam_meter_calls {
    size_t calls;
    size_t slow;    /* of them: went to the source, or another long way */
    size_t failed;  /* of them: returned NULL for want of memory, or of a possible size */
    size_t timed;   /* of them: by level 2; the sum of the histogram */
    size_t ns;      /* that these took in all, with what measuring takes, 10 to 25 ns each */
    size_t ns_most; /* the longest of them */
    size_t ns_of
        /* [b]: calls of 2^b to 2^(b+1) - 1 ns; [0] 0 too, the last all above */
        [LOAM_METER_BUCKETS];
} loam_meter_calls;

typedef struct loam_meter_stats {
    loam_meter_calls of[LOAM_METER_FUNCTIONS];
    size_t allocators;      /* alive, of which at least a call was seen */
    size_t requested;       /* bytes that alloc and realloc were asked for */
    size_t used, used_most; /* bytes of live objects */
    size_t held, held_most; /* bytes that the source gave and did not get back */
    size_t held_in_all;     /* bytes that the source ever gave */
    size_t requests;        /* chunks that it gave; of the heap: calls of the system */
} loam_meter_stats;

#if LOAM_METER

/* ---- For programs ---- */

/* Rows go to this file from now on, in whole 64 KiB or when it stops; the header line first.
 * -EINVAL iff fd is negative. The file stays open when rows stop. */
LOAM_API int loam_meter_start_fd(int fd) LOAM_NOEXCEPT;
/* The same to a new file at the path, in which "%p" stands for the process's number. 0; or a
 * negative errno, after a line on standard error, iff it cannot be written; rows go on as before
 * then. The environment's LOAM_METER=path does the same before main, unless the process has more
 * rights than its caller. */
LOAM_API int loam_meter_start(const char *path) LOAM_NOEXCEPT;
/* Writes what is left of the rows, and a line "# histogram ..." for each function of each meter;
 * closes what loam_meter_start opened. Also at exit. Nothing happens if rows do not go anywhere. */
LOAM_API void loam_meter_stop(void) LOAM_NOEXCEPT;

/* Sums of all meters of that kind ("region", "pool", "blocks", "heap", ...; NULL: any) and that
 * name (NULL: any; "": without). Peaks are sums of peaks. false, and all is 0, iff there is none.
 * Of allocators that ended, too. */
LOAM_API bool loam_meter_read(const char *kind, const char *name,
                              loam_meter_stats *stats) LOAM_NOEXCEPT;
/* Calls, times, requests and bytes in all are 0 from now on; used and held stay, peaks are what
 * these are. */
LOAM_API void loam_meter_reset(void) LOAM_NOEXCEPT;
/* A table of all meters with the histograms of their functions, as text. */
LOAM_API void loam_meter_print(int fd) LOAM_NOEXCEPT;

/* ---- For allocators' headers ---- */

typedef struct loam_meter_call {
    uint64_t start;
    bool outer; /* a call around this one was slow already */
} loam_meter_call;

LOAM_API loam_meter_call loam_meter_begin(void) LOAM_NOEXCEPT;
LOAM_API loam_meter_call loam_meter_begin_timed(void) LOAM_NOEXCEPT;
/* more and less: bytes that are used now, and were before, of the object. */
LOAM_API void loam_meter_end(loam_meter_call call, const loam_entry *entry,
                             loam_meter_function function, size_t requested, size_t more,
                             size_t less, bool failed) LOAM_NOEXCEPT;
LOAM_API void loam_meter_end_timed(loam_meter_call call, const loam_entry *entry,
                                   loam_meter_function function, size_t requested, size_t more,
                                   size_t less, bool failed) LOAM_NOEXCEPT;
/* Frames of allocators that push and pop inline: used is at the pop what it was at the push. */
LOAM_API void loam_meter_push(const loam_entry *entry) LOAM_NOEXCEPT;
LOAM_API void loam_meter_pop(const loam_entry *entry) LOAM_NOEXCEPT;

/* As loam_blocks_usable_size, but 0 of what is no object, as far as can be told without a word, and
 * where a tool watches. The call that follows has its say. */
struct loam_blocks;
LOAM_API size_t loam_meter_blocks_bytes(struct loam_blocks *blocks, const void *p) LOAM_NOEXCEPT;
/* The object, in whose page or frame it is, has so many bytes more (modulo the largest number):
 * these leave `used` with that page or frame. Nothing of NULL. */
struct loam_fifo;
struct loam_ring;
LOAM_API void loam_meter_fifo_more(struct loam_fifo *fifo, const void *p,
                                   size_t bytes) LOAM_NOEXCEPT;
LOAM_API void loam_meter_ring_more(struct loam_ring *ring, const void *p,
                                   size_t bytes) LOAM_NOEXCEPT;
/* An object was freed: if it was the current page's last one, none of that is in use. */
LOAM_API void loam_meter_fifo_freed(struct loam_fifo *fifo) LOAM_NOEXCEPT;

/* The heap's, for its own functions. */
extern LOAM_API const loam_entry loam_meter_heap;

#if LOAM_METER > 1
#define LOAM_METER_BEGIN loam_meter_call meter_call_ = loam_meter_begin_timed()
#define LOAM_METER_END_ loam_meter_end_timed
#else
#define LOAM_METER_BEGIN loam_meter_call meter_call_ = loam_meter_begin()
#define LOAM_METER_END_ loam_meter_end
#endif
/* Behind a call between which and LOAM_METER_BEGIN nothing else is. p is what it returned;
 * requested as asked for, used: bytes in use if p is not NULL. */
#define LOAM_METER_ALLOCATED(entry, p, requested, used) \
    LOAM_METER_END_(meter_call_, entry, LOAM_METER_ALLOC, requested, (p) != NULL ? (used) : 0, 0, \
                    (p) == NULL)
#define LOAM_METER_FREED(entry, used) \
    LOAM_METER_END_(meter_call_, entry, LOAM_METER_FREE, 0, 0, used, false)
/* good: whether it is `used` bytes now; else it is as before. */
#define LOAM_METER_REALLOCATED(entry, good, requested, used, used_before) \
    LOAM_METER_END_(meter_call_, entry, LOAM_METER_REALLOC, requested, (good) ? (used) : 0, \
                    (good) ? (used_before) : 0, !(good))

#else

/* Level 0: nothing is measured. -38 is -ENOSYS. */
LOAM_INLINE int loam_meter_start_fd(int fd) LOAM_NOEXCEPT {
    (void)fd;
    return -38;
}
LOAM_INLINE int loam_meter_start(const char *path) LOAM_NOEXCEPT {
    (void)path;
    return -38;
}
LOAM_INLINE void loam_meter_stop(void) LOAM_NOEXCEPT {}
LOAM_INLINE bool loam_meter_read(const char *kind, const char *name,
                                 loam_meter_stats *stats) LOAM_NOEXCEPT {
    (void)kind, (void)name;
    __builtin_memset(stats, 0, sizeof(*stats));
    return false;
}
LOAM_INLINE void loam_meter_reset(void) LOAM_NOEXCEPT {}
LOAM_INLINE void loam_meter_print(int fd) LOAM_NOEXCEPT { (void)fd; }

#endif

LOAM_END

#include "loam/names_end.h"

#endif

/* loam/meter.h: counts the calls of a program's allocators, what they cost, and what memory they
 * hold.
 *
 * Choose a level when you build (docs/guide/meter.md): LOAM_METER, a macro of each file, and an
 * option of the library's build (cmake -DLOAM_METER=2; preset `meter`).
 *
 *   0   nothing, the default: the headers are as if this one did not exist, and the functions below
 *       do nothing
 *   1   counters: calls, slow calls, failures, bytes requested, used and held, source requests
 *   2   also time: a histogram of each function's cost, and a CSV row every 300 operations and at
 *       each slow call
 *
 *     program ── loam_region_alloc ──> metered form ──> the inline path ──> slow path, says so
 *                                          │                                       │
 *                                          └── begin, end ──> meter of the region <┘ got, put, ...
 *                                                              └──> row ──> 64 KiB ──> write(2)
 *
 * A file of level 1 or 2 links only with a library of a level above 0. Levels may differ from file
 * to file, but a file of level 0 that frees or allocates makes `used` wrong. Files that use the C++
 * classes must have one level. The heap (malloc) is metered at the library's level. The meter
 * cannot see calls of code that was compiled at level 0.
 *
 * Each live allocator has a meter, found by its address, up to LOAM_METER_MOST at once. An
 * allocator that ends leaves its meter to the next of its kind and name, so that the regions of a
 * thousand requests are one line. Further allocators share one meter, "others", which counts calls
 * only.
 *
 * `used` is the bytes of live objects: in regions as requested, in pools the block's size, in
 * blocks and the heap the usable size. Under AddressSanitizer and Valgrind that of blocks stays 0.
 * A rewind to a mark restores the value of that time. Below LOAM_METER_DEPTH nested marks it stays
 * as it is until those have ended. A FIFO's free has no size: objects of a FIFO are used, as
 * requested, until their page has no live one. Frees by other threads count when the FIFO takes
 * them, without a time; those after its destroy do not count.
 *
 * Threads: meters of allocators that one thread uses at a time are changed by plain stores, others
 * by relaxed atomic additions. Each counter is exact while no thread is in a call; two that are
 * read during a call may not fit together. Fork: in the child rows stop, and the parent's file is
 * not touched; counters go on from the parent's until loam_meter_reset. No function here allocates.
 *
 * To add an allocator, see loam/meter_region.h: three lines for each inline function in its header,
 * and a line LM_METER(got(...)) or put(...) behind each use of its source (src/family/family.h).
 *
 * Source: Augustin and Gillot, "Memory, part 6: optimizing the FIFO and Stack allocators"
 * (Intersec, 2013). */
#ifndef LOAM_METER_H
#define LOAM_METER_H

#include "loam/names_begin.h"

#include "loam/registry.h"

#include <stdbool.h>
#include <stdint.h>

/** The level of this file: 0, 1 or 2. */
#ifndef LOAM_METER
#define LOAM_METER 0
#endif
/** 0: this file's calls are not metered, whatever its level. For loam's own files. */
#ifndef LOAM_METER_HOOKS
#define LOAM_METER_HOOKS 1
#endif

LOAM_BEGIN

/** Bounds of the meter. */
enum {
    LOAM_METER_EVERY = 300,                         /**< operations of a meter from row to row */
    LOAM_METER_MOST = __STDC_HOSTED__ ? 254 : 14,   /**< metered allocators at once */
    LOAM_METER_DEPTH = __STDC_HOSTED__ ? 1024 : 16, /**< nested marks or frames */
    LOAM_METER_BUCKETS = __STDC_HOSTED__ ? 32 : 1,  /**< buckets of a histogram */
};

/** The metered functions of an allocator. */
typedef enum loam_meter_function {
    LOAM_METER_ALLOC,    /**< alloc, calloc, array and copies */
    LOAM_METER_FREE,     /**< free */
    LOAM_METER_REALLOC,  /**< realloc */
    LOAM_METER_FUNCTIONS /**< number of functions */
} loam_meter_function;

/** Counters of one function of an allocator. Members without "ns" are counted from level 1 on. */
typedef struct loam_meter_calls {
    size_t calls;  /**< number of calls */
    size_t slow;   /**< calls that went to the source, or another long way */
    size_t failed; /**< calls that returned NULL: no memory, or an impossible size */
    size_t timed;  /**< calls that level 2 timed; the sum of the histogram */
    /** Nanoseconds of the timed calls in all, with what measuring takes: 10 to 25 ns each. */
    size_t ns;
    size_t ns_most; /**< nanoseconds of the longest timed call */
    /** ns_of[b]: calls of 2^b to 2^(b+1) - 1 ns. Bucket 0 includes 0 ns, the last all longer. */
    size_t ns_of[LOAM_METER_BUCKETS];
} loam_meter_calls;

/** Counters of one meter, or sums of several. */
typedef struct loam_meter_stats {
    loam_meter_calls of[LOAM_METER_FUNCTIONS]; /**< counters of each function */
    size_t allocators;                         /**< live allocators with at least one call */
    size_t requested;                          /**< bytes that alloc and realloc were asked for */
    size_t used, used_most;                    /**< bytes of live objects now; the peak */
    /** Bytes that the source gave and did not get back, now; the peak. */
    size_t held, held_most;
    size_t held_in_all; /**< bytes that the source gave so far */
    /** Chunks that the source gave so far; of the heap: system calls. */
    size_t requests;
} loam_meter_stats;

#if LOAM_METER

/* ---- For programs ---- */

/** Writes rows to fd from now on: in whole 64 KiB, or when it stops; the header line first. Returns
 * 0, or -EINVAL iff fd is negative. The file stays open when rows stop. */
LOAM_API int loam_meter_start_fd(int fd) LOAM_NOEXCEPT;
/** Writes rows to a new file at path from now on; "%p" in path stands for the process's number.
 * Returns 0; or a negative errno, after a line on standard error, iff it cannot be written; then
 * rows go on as before. The environment's LOAM_METER=path does this before main, unless the process
 * has more rights than its caller. */
LOAM_API int loam_meter_start(const char *path) LOAM_NOEXCEPT;
/** Writes the rows that are left, and a line "# histogram ..." for each function of each meter.
 * Closes the file that loam_meter_start opened. Also called at exit. Does nothing if no rows are
 * written. */
LOAM_API void loam_meter_stop(void) LOAM_NOEXCEPT;

/** Sums all meters of that kind and name in *stats, those of allocators that have ended included.
 * kind: "region", "pool", "blocks", "heap", ...; NULL: any. name: NULL: any; "": without a name.
 * Peaks are sums of peaks. Returns true; false, and all is 0, iff there is none. */
LOAM_API bool loam_meter_read(const char *kind, const char *name,
                              loam_meter_stats *stats) LOAM_NOEXCEPT;
/** Sets calls, times, requests and byte sums to 0. used and held stay; their peaks become their
 * values. */
LOAM_API void loam_meter_reset(void) LOAM_NOEXCEPT;
/** Writes a table of all meters, with the histograms of their functions, as text to fd. */
LOAM_API void loam_meter_print(int fd) LOAM_NOEXCEPT;

/* ---- For allocators' headers ---- */

/** A call in progress. Members are private. */
typedef struct loam_meter_call {
    uint64_t start; /**< time of its start, at level 2 */
    bool outer;     /**< the call that contains this one was slow already */
} loam_meter_call;

/** Begins a call at level 1. */
LOAM_API loam_meter_call loam_meter_begin(void) LOAM_NOEXCEPT;
/** Begins a call at level 2. */
LOAM_API loam_meter_call loam_meter_begin_timed(void) LOAM_NOEXCEPT;
/** Ends a call at level 1. more and less: bytes of the object that are used now, and that were used
 * before the call. */
LOAM_API void loam_meter_end(loam_meter_call call, const loam_entry *entry,
                             loam_meter_function function, size_t requested, size_t more,
                             size_t less, bool failed) LOAM_NOEXCEPT;
/** Ends a call at level 2, with the arguments of loam_meter_end. */
LOAM_API void loam_meter_end_timed(loam_meter_call call, const loam_entry *entry,
                                   loam_meter_function function, size_t requested, size_t more,
                                   size_t less, bool failed) LOAM_NOEXCEPT;
/** Notes a push, for allocators that push and pop frames inline: `used` is remembered. */
LOAM_API void loam_meter_push(const loam_entry *entry) LOAM_NOEXCEPT;
/** Notes a pop: `used` is again what it was at the push. */
LOAM_API void loam_meter_pop(const loam_entry *entry) LOAM_NOEXCEPT;

/** An instance of loam/blocks.h. */
struct loam_blocks;
/** Returns what loam_blocks_usable_size returns; 0, without a message, where p is recognised as no
 * object, and where a tool watches. The metered call itself names the mistake. */
LOAM_API size_t loam_meter_blocks_bytes(struct loam_blocks *blocks, const void *p) LOAM_NOEXCEPT;
/** A FIFO of loam/fifo.h. */
struct loam_fifo;
/** A ring of loam/ring.h. */
struct loam_ring;
/** Adds bytes (modulo 2^64 or 2^32) to the object's page; they leave `used` with that page. p NULL:
 * does nothing. */
LOAM_API void loam_meter_fifo_more(struct loam_fifo *fifo, const void *p,
                                   size_t bytes) LOAM_NOEXCEPT;
/** Adds bytes (modulo 2^64 or 2^32) to the object's frame; they leave `used` with that frame. p
 * NULL: does nothing. */
LOAM_API void loam_meter_ring_more(struct loam_ring *ring, const void *p,
                                   size_t bytes) LOAM_NOEXCEPT;
/** Notes a free: if the current page has no live object, its bytes leave `used`. */
LOAM_API void loam_meter_fifo_freed(struct loam_fifo *fifo) LOAM_NOEXCEPT;

/** The heap's entry, for its own functions. */
extern LOAM_API const loam_entry loam_meter_heap;

#if LOAM_METER > 1
/** Begins the measurement of a call; a declaration. */
#define LOAM_METER_BEGIN loam_meter_call meter_call_ = loam_meter_begin_timed()
/** The function that ends it. Private. */
#define LOAM_METER_END_ loam_meter_end_timed
#else
/** Begins the measurement of a call; a declaration. */
#define LOAM_METER_BEGIN loam_meter_call meter_call_ = loam_meter_begin()
/** The function that ends it. Private. */
#define LOAM_METER_END_ loam_meter_end
#endif
/** Ends the measurement of an allocation that returned p. Only that call may stand between
 * LOAM_METER_BEGIN and this. requested: bytes as requested. used: bytes in use if p is not NULL. */
#define LOAM_METER_ALLOCATED(entry, p, requested, used) \
    LOAM_METER_END_(meter_call_, entry, LOAM_METER_ALLOC, requested, (p) != NULL ? (used) : 0, 0, \
                    (p) == NULL)
/** Ends the measurement of a free. used: bytes of the object. */
#define LOAM_METER_FREED(entry, used) \
    LOAM_METER_END_(meter_call_, entry, LOAM_METER_FREE, 0, 0, used, false)
/** Ends the measurement of a realloc. good: the object has `used` bytes now; otherwise it has
 * used_before as before. */
#define LOAM_METER_REALLOCATED(entry, good, requested, used, used_before) \
    LOAM_METER_END_(meter_call_, entry, LOAM_METER_REALLOC, requested, (good) ? (used) : 0, \
                    (good) ? (used_before) : 0, !(good))

#else

/** Level 0: does nothing and returns -38, which is -ENOSYS. */
LOAM_INLINE int loam_meter_start_fd(int fd) LOAM_NOEXCEPT {
    (void)fd;
    return -38;
}
/** Level 0: does nothing and returns -38, which is -ENOSYS. */
LOAM_INLINE int loam_meter_start(const char *path) LOAM_NOEXCEPT {
    (void)path;
    return -38;
}
/** Level 0: does nothing. */
LOAM_INLINE void loam_meter_stop(void) LOAM_NOEXCEPT {}
/** Level 0: sets *stats to 0 and returns false. */
LOAM_INLINE bool loam_meter_read(const char *kind, const char *name,
                                 loam_meter_stats *stats) LOAM_NOEXCEPT {
    (void)kind, (void)name;
    __builtin_memset(stats, 0, sizeof(*stats));
    return false;
}
/** Level 0: does nothing. */
LOAM_INLINE void loam_meter_reset(void) LOAM_NOEXCEPT {}
/** Level 0: does nothing. */
LOAM_INLINE void loam_meter_print(int fd) LOAM_NOEXCEPT { (void)fd; }

#endif

LOAM_END

#include "loam/names_end.h"

#endif

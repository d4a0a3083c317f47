/* loam/stats.h: what loam has done and holds: numbers, text, JSON; of the process or of one heap.
 *
 *     LOAM_SHOW_STATS=1 program            the text at exit; =json: one object in place of it
 *     loam_stats_get(&stats, sizeof stats)      numbers on demand
 *
 * Always there, in every build, and free where it matters: malloc and free count nothing. What they
 * hand out is counted where lists of objects change hands, a list at a time; the rest is found by a
 * walk when somebody asks. So:
 *
 *   exact     total, freed and current, once other threads rest. What a running thread holds ready for its next
 *             allocations counts as current, but for the calling thread's own; so do objects of a process that has
 *             forked from one with other threads, where they were on their way.
 *   a bound   peak of a size class: of what its pages could hold at a time, those carved only in part counted as far as
 *             they were where a thread has one of them. At most 4 KiB too high where pages of a class never went, else
 *             a page for each thread. Peaks of sums add up those of classes, which need not fall together.
 *
 *   not told  of a heap that is destroyed, which objects were in use: what it had ready counts as allocated and freed.
 *
 * Objects are counted wherever they lie. Memory (committed, reserved, segments, metadata, dirty) is
 * what loam has of the system: what a program lends by loam_manage_memory is not the heap's and
 * counts in arenas_bytes alone; what loam reserves (loam_reserve_memory and its like) is committed
 * and reserved as a whole, touched or not, and counts in arenas_bytes as well.
 *
 * total - freed == current and current <= peak hold in each row of one snapshot. Numbers are since
 * the start, or the last loam_stats_reset. It cannot tell requested bytes from usable ones, except
 * in the debug build (loam/meter.h can in any build), nor who allocated what.
 * Cost of a snapshot: some microseconds and about 50 ns for each page and large object. Nothing
 * here allocates.
 */
#ifndef LOAM_STATS_H
#define LOAM_STATS_H

#include "loam/names_begin.h"

#include "loam/heap.h"
#include "loam/types.h"

#include <stdint.h>

LOAM_BEGIN

enum { LOAM_STATS_VERSION = 1, LOAM_STATS_CLASSES = 112 };

/* Of anything that comes and goes, since the start or the last reset. */
typedef struct loam_stats_count {
    uint64_t total, freed, current, peak;
} loam_stats_count;

/* Objects of one size class; objects with an offset, and those in a hole of a larger class, are
 * their block's. */
typedef struct loam_stats_class {
    uint64_t object_bytes; /* usable, of each; a debug build keeps 16 of them for itself */
    loam_stats_count objects;
    uint64_t pages;    /* that there are now */
    uint64_t capacity; /* objects that fit into them */
} loam_stats_class;

/* The first two members are for programs that were compiled with another version of this header:
 * members are only ever added at the end. */
typedef struct loam_stats_t {
    uint32_t bytes;   /* of this struct that were filled in */
    uint32_t version; /* LOAM_STATS_VERSION of the library */

    loam_stats_class of_class[LOAM_STATS_CLASSES]; /* objects to 64 KiB, by size */
    loam_stats_count small_objects, small_bytes; /* sums of these; not of sampled ones, see below */
    loam_stats_count large_objects,
        large_bytes; /* of more than 64 KiB; growing in place counts as allocated */
    loam_stats_count bytes_in_all;

    loam_stats_count
        committed; /* bytes that memory may be behind: in use, or freed and not purged yet */
    loam_stats_count reserved; /* bytes of addresses; committed ones are among them */
    uint64_t
        metadata_bytes; /* of addresses for loam's own: descriptors; and threads, heaps, their tables, which are
                                in committed, too */
    uint64_t held_bytes;   /* in pages, not in use */
    uint64_t dirty_bytes;  /* in no page and no object, not purged yet */
    uint64_t purged_bytes; /* given back to the system while the addresses stayed: "reset" */
    uint64_t purges;       /* in so many calls */

    loam_stats_count pages;     /* of objects of one size class */
    loam_stats_count abandoned; /* pages whose thread has ended, until another takes them */
    loam_stats_count threads;   /* that allocate; the process's first too */
    uint64_t heaps;       /* made for threads and parts of first-class heaps; they are used again */
    uint64_t arena_grown; /* times that the range of addresses got longer */
    uint64_t arenas_bytes,
        arenas_free_bytes; /* of the arenas of loam/arena.h, lent or reserved: in all, free */

    uint64_t system_calls, mmaps, munmaps, madvises, commits; /* loam's own, all since the start */

    uint64_t elapsed_us, user_us,
        system_us;                /* user and system: of the whole process, since it began */
    uint64_t faults, disk_faults; /* page faults of the process, without and with reading a disk */
    uint64_t resident_bytes, resident_peak; /* of the process; 0: the system does not say */

    loam_stats_count
        /* slices of 64 KiB that `reserved` is made of, and pages and large objects cut from */
        segments;
    loam_stats_count sampled_objects,
        sampled_bytes; /* of loam/sampling.h, of any size class; in bytes_in_all, too */

    /* Sum of the sizes that the program asked for, in bytes; an object that grows in place adds
     * what it grows by. The debug build counts it, at every allocation; 0 in other builds. */
    uint64_t requested_bytes;
} loam_stats_t;

/* Fills in the first `bytes` bytes of *stats, sizeof(loam_stats_t) as the caller knows it. 0, or
 * -EINVAL iff stats is NULL or bytes holds not even the first two members. By any thread; not in a
 * signal handler. */
LOAM_API int loam_stats_get(loam_stats_t *stats, size_t bytes) LOAM_NOEXCEPT;

/* The same of one heap: classes, sums of objects, committed (its pages and large objects; no
 * total), pages, held_bytes; peak is known of committed only. All else is 0. As loam_heap_visit: no
 * other thread may be allocating from it or freeing to it. Not changed by resets. 0, or -EINVAL as
 * above and iff heap is NULL, or -ENOMEM iff there is no memory for a list of its pages. */
LOAM_API int loam_heap_stats(loam_heap *heap, loam_stats_t *stats, size_t bytes) LOAM_NOEXCEPT;

/* Writes the process's as a table of 79 columns at most, classes that were never used left out, in
 * lines to the output handler (loam/handlers.h) or standard error. */
LOAM_API void loam_stats_print(void) LOAM_NOEXCEPT;

/* Writes them as one JSON object with a 0 behind it into at most `bytes` bytes, cut off where it
 * does not fit. Returns the length of the whole text without that 0, as snprintf does: 32 KiB hold
 * it always. buffer may be NULL where bytes is 0, otherwise that is -EINVAL. Names are those of the
 * struct; classes are a list of objects, those never used left out; "library" and "build" (release,
 * debug, secure) say whose numbers they are; "verdict" is "ok" if no object is in use, else "not
 * freed". */
LOAM_API int loam_stats_json(char *buffer, size_t bytes) LOAM_NOEXCEPT;

/* loam_stats_print and loam_stats_json of numbers that the caller has taken: of one heap
 * (loam_heap_stats), or earlier. Returns as those do. stats->bytes must be sizeof(loam_stats_t) as
 * the library knows it; else nothing is printed, and loam_stats_json_of returns -EINVAL. Of one
 * heap, what is known of the process only is 0. */
LOAM_API void loam_stats_print_of(const loam_stats_t *stats) LOAM_NOEXCEPT;
LOAM_API int loam_stats_json_of(const loam_stats_t *stats, char *buffer,
                                size_t bytes) LOAM_NOEXCEPT;

/* Writes how many bytes the calling thread has allocated, and how many it has freed, since its
 * first call of this function, which gives 0 for both. Each pointer may be NULL. Returns 0, or
 * -EAGAIN iff the thread has run its destructors of thread-local data or there is no memory.
 *
 * What counts: bytes of the blocks, so each object with all that its size class has
 * (loam_good_size, and what debug and secure builds keep for themselves); of malloc and its kin,
 * operators new and delete, loam_*, first-class heaps; also what loam's pools, regions and the like
 * take from the heap. Allocated is what this thread allocates, freed what this thread frees,
 * whoever allocated it. If realloc changes an object's address or its usable bytes, the old object
 * counts as freed and the new one as allocated; otherwise nothing counts. A sampled object
 * (loam/sampling.h) has the size that was requested, and counts by the difference where it changes
 * in its place. Objects that end with a first-class heap count as freed by no thread.
 *
 * The numbers are exact at each call. They differ from jemalloc's thread.allocated and
 * thread.deallocated, which begin with the thread and have a pointer that is always fresh
 * (allocatedp): here malloc and free count nothing, and a call adds up the pages of the thread's
 * heap.
 *
 * Cost: a call takes about a microsecond, and 10 ns for each page and each block that the
 * thread holds ready. From the first call on, slow paths of this thread count; until some thread of
 * the process calls it, they test one word. By any thread; not in a signal handler. */
LOAM_API int loam_thread_bytes(uint64_t *allocated, uint64_t *freed) LOAM_NOEXCEPT;

/* From now on totals are what is in use and what is allocated after this, freed is 0, and peaks are
 * looked for anew. What the system counts stays. */
LOAM_API void loam_stats_reset(void) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

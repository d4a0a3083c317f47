/* loam/stats.h: statistics of the process or of one heap: as numbers, text or JSON.
 *
 *     LOAM_SHOW_STATS=1 program                  prints the text at exit; =json prints JSON
 *     loam_stats_get(&stats, sizeof stats)       stores the numbers
 *
 * Every build has them, always, and malloc and free count nothing. Objects are counted where whole
 * lists of them move between a thread and its pages; all other numbers come from a walk when the
 * program asks. This decides how precise a number is:
 *
 *   exact     total, freed and current, once other threads rest. Free blocks that other threads
 *             hold ready count as current; the calling thread's do not. After a fork of a process
 *             with several threads, blocks that were on their way count as current, too.
 *   a bound   the peak of a size class is the capacity of its pages at a time; of a partly carved
 *             page that a thread has, only the carved blocks. At most 4 KiB too high where pages
 *             of a class never went; otherwise a page for each thread. The peak of a sum adds up
 *             peaks of classes, which may lie at different times.
 *   unknown   which objects of a destroyed heap were in use: its ready blocks count as allocated
 *             and freed.
 *
 * Objects are counted wherever they lie. Memory (committed, reserved, segments, metadata, dirty) is
 * memory that loam has from the system. Memory that the program lends by loam_manage_memory counts
 * in arenas_bytes only. Memory that loam reserves (loam_reserve_memory and its like) counts as
 * committed and reserved as a whole, touched or not, and in arenas_bytes as well.
 *
 * Invariant: in each row of a snapshot, total - freed == current and current <= peak. Numbers count
 * from the start of the process or the last loam_stats_reset. It cannot tell requested bytes from
 * usable ones, except in the debug build (loam/meter.h can in any build), nor which code allocated
 * what. Cost of a snapshot: some microseconds, and about 50 ns for each page and each large object.
 * No function allocates.
 */
#ifndef LOAM_STATS_H
#define LOAM_STATS_H

#include "loam/names_begin.h"

#include "loam/heap.h"
#include "loam/types.h"

#include <stdint.h>

LOAM_BEGIN

/** The version of loam_stats_t, and the number of size classes that it has. */
enum { LOAM_STATS_VERSION = 1, LOAM_STATS_CLASSES = 112 };

/** A row: the count of things that come and go, since the start or the last reset. */
typedef struct loam_stats_count {
    uint64_t total, freed, current, peak;
} loam_stats_count;

/** Objects of one size class. An object at an offset, and one in a hole of a larger class, counts
 * in its block's class. */
typedef struct loam_stats_class {
    uint64_t object_bytes; /**< usable bytes of each object; a debug build uses 16 of them itself */
    loam_stats_count objects;
    uint64_t pages;    /**< pages that exist now */
    uint64_t capacity; /**< objects that fit into these pages */
} loam_stats_class;

/** All statistics. A program may be compiled with another version of this header: members are only
 * added, at the end, and the first two say how many bytes are filled in. */
typedef struct loam_stats_t {
    uint32_t bytes;   /**< bytes of this struct that are filled in */
    uint32_t version; /**< LOAM_STATS_VERSION of the library */

    loam_stats_class of_class[LOAM_STATS_CLASSES]; /**< objects of up to 64 KiB, by size */
    /** Sums of of_class, without sampled objects. */
    loam_stats_count small_objects, small_bytes;
    /** Objects of more than 64 KiB. An object that grows in place counts as allocated by its
     * growth. */
    loam_stats_count large_objects, large_bytes;
    /** Bytes of all objects: small, large and sampled. */
    loam_stats_count bytes_in_all;

    /** Bytes of addresses that memory may be behind: in use, or freed and not purged yet. */
    loam_stats_count committed;
    loam_stats_count reserved; /**< bytes of addresses, with the committed ones */
    /** Bytes of addresses for loam's own data: descriptors, threads, heaps and their tables. All
     * but descriptors are in `committed` as well. */
    uint64_t metadata_bytes;
    uint64_t held_bytes;   /**< bytes of free blocks in pages */
    uint64_t dirty_bytes;  /**< bytes of free spans, not purged yet */
    uint64_t purged_bytes; /**< given back to the system while the addresses stayed: "reset" */
    uint64_t purges;       /**< system calls that gave back purged_bytes */

    loam_stats_count pages;     /**< pages of objects of one size class */
    loam_stats_count abandoned; /**< pages of ended threads, until another thread takes them */
    loam_stats_count threads;   /**< threads that allocate, with the process's first */
    uint64_t heaps;             /**< threads' heaps and branches of first-class heaps; reused */
    uint64_t arena_grown;       /**< times that the range of addresses grew */
    /** Bytes of the arenas of loam/arena.h, lent or reserved: in all, and free. */
    uint64_t arenas_bytes, arenas_free_bytes;

    /** System calls of loam, since the start of the process: all, and by kind. */
    uint64_t system_calls, mmaps, munmaps, madvises, commits;

    /** Microseconds: time since the start or the last reset; user and system time of the process
     * since its start. */
    uint64_t elapsed_us, user_us, system_us;
    /** Page faults of the process since its start: without, and with reading a disk. */
    uint64_t faults, disk_faults;
    /** Resident memory of the process, now and at its peak; 0 if the system does not say. */
    uint64_t resident_bytes, resident_peak;

    /** Slices of 64 KiB that make up `reserved`; pages and large objects are cut from them. */
    loam_stats_count segments;
    /** Sampled objects (loam/sampling.h) of any size class; they are in bytes_in_all as well. */
    loam_stats_count sampled_objects, sampled_bytes;

    /** Sum of the sizes that the program requested, in bytes; an object that grows in place adds
     * its growth. The debug build counts it at every allocation; it is 0 in other builds. */
    uint64_t requested_bytes;
} loam_stats_t;

/** Stores a snapshot of the process's statistics in the first `bytes` bytes of *stats; pass
 * sizeof(loam_stats_t). Returns 0; or -EINVAL iff stats is NULL or bytes does not hold the first
 * two members. Any thread may call it, but not in a signal handler. */
LOAM_API int loam_stats_get(loam_stats_t *stats, size_t bytes) LOAM_NOEXCEPT;

/** Stores a snapshot of one heap's statistics: classes, sums of objects, committed (of its pages
 * and large objects; without a total), pages and held_bytes. A peak is known of `committed` only;
 * other peaks are the current values. All other members are 0. No other thread may allocate from
 * the heap or free to it, as for loam_heap_visit. Resets do not change these numbers. Returns 0; or
 * -EINVAL as loam_stats_get, and iff heap is NULL or has ended, -ENOMEM iff there is no memory for
 * a list of its pages. */
LOAM_API int loam_heap_stats(loam_heap *heap, loam_stats_t *stats, size_t bytes) LOAM_NOEXCEPT;

/** Prints the process's statistics as a table of at most 79 columns, and leaves out classes that
 * were never used. The lines go to the output handler (loam/handlers.h) or standard error. */
LOAM_API void loam_stats_print(void) LOAM_NOEXCEPT;

/** Writes the process's statistics as one JSON object, with a terminating 0, into at most `bytes`
 * bytes, and cuts it off if it does not fit. Returns the length of the whole text without the 0, as
 * snprintf does: 32 KiB always hold it. buffer may be NULL if bytes is 0; otherwise NULL is an
 * error, -EINVAL. Names are those of loam_stats_t; classes are a list of objects, and those that
 * were never used are left out. "library" and "build" (release, debug, secure) name the library;
 * "verdict" is "ok" if no object is in use, otherwise "not freed". */
LOAM_API int loam_stats_json(char *buffer, size_t bytes) LOAM_NOEXCEPT;

/** loam_stats_print of numbers that the caller has taken: of one heap (loam_heap_stats), or
 * earlier. stats->bytes must be sizeof(loam_stats_t) as the library knows it; otherwise nothing is
 * printed. Numbers that only a process has are 0 for a heap. */
LOAM_API void loam_stats_print_of(const loam_stats_t *stats) LOAM_NOEXCEPT;
/** loam_stats_json of numbers that the caller has taken. Returns -EINVAL also if stats->bytes is
 * not sizeof(loam_stats_t) as the library knows it. */
LOAM_API int loam_stats_json_of(const loam_stats_t *stats, char *buffer,
                                size_t bytes) LOAM_NOEXCEPT;

/** Stores how many bytes the calling thread has allocated and freed since its first call of this
 * function. That call stores 0 for both. Each pointer may be NULL. Returns 0; or -EAGAIN iff the
 * thread has run its destructors of thread-local data, or there is no memory.
 *
 * What counts: the bytes of blocks, so that each object counts with all bytes of its size class
 * (loam_good_size, and the bytes that debug and secure builds use themselves). malloc and its like,
 * operators new and delete, loam_* functions and first-class heaps count, and the memory that
 * loam's pools, regions and the like take from the heap. Allocated bytes are those that this thread
 * allocates; freed bytes are those that it frees, whichever thread allocated them. If realloc
 * changes an object's address or its usable bytes, the old object counts as freed and the new one
 * as allocated; otherwise nothing counts. A sampled object (loam/sampling.h) counts with its
 * requested size, and by the difference if it is resized in place. Objects that end with a
 * first-class heap count as freed by no thread.
 *
 * The numbers are exact at each call. They differ from jemalloc's thread.allocated and
 * thread.deallocated, which begin with the thread and have a pointer that is always fresh
 * (allocatedp): here malloc and free count nothing, and a call adds up the pages of the thread's
 * heap.
 *
 * Cost: about a microsecond for a call, and 10 ns for each page and each block that the thread
 * holds ready. From the first call on, slow paths of this thread count; until some thread of the
 * process calls it, they test one word. Any thread may call it, but not in a signal handler. */
LOAM_API int loam_thread_bytes(uint64_t *allocated, uint64_t *freed) LOAM_NOEXCEPT;

/** Starts the statistics anew: totals are what is in use now and what is allocated later, freed is
 * 0, and peaks start from now. Numbers that the system counts stay. */
LOAM_API void loam_stats_reset(void) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

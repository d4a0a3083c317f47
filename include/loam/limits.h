/* loam/limits.h: how much memory loam may hold for the process, and how much it holds.
 *
 *     loam_limit_set(64 << 20, 128 << 20);       64 MiB soft, 128 MiB hard
 *
 * Choose limits for a program that must not take the whole machine: a malloc that returns NULL
 * where the program can handle it is better than a kill by the system. loam_heap_set_limits
 * (loam/heap.h) limits a part of a program.
 *
 *     0 ────────────────── soft ───────────────────── hard
 *       free memory waits    the program is told once;   malloc returns NULL, after free memory
 *       for its next user    free memory goes back to    has gone back and the deferred-free and
 *       (LOAM_PURGE_DELAY)   the system at once          out-of-memory handlers (handlers.h) ran
 *
 * The limits count the memory that loam holds from the system: pages of blocks and large objects,
 * in whole slices of 64 KiB, touched or not, and free memory that has not gone back yet. They do
 * not count:
 * - stacks, libraries, and memory that the program maps itself or lends to loam
 *   (loam_manage_memory);
 * - memory that special allocators (pool, region, ...) reserve (loam_source_reserve);
 * - loam's tables (0.21% of the memory).
 * Memory that loam reserves (loam_reserve_memory, loam_reserve_huge_pages) counts as a whole from
 * that call on, used or not. Both limits apply to it as to a malloc of its size.
 *
 * Each thread has a page of at least 64 KiB for each size class that it uses, so that limits of a
 * few MiB are coarse. Both limits are checked when loam takes slices, and never on the fast paths.
 * Memory in use when a limit is set stays; free memory goes back at once. If more than the soft
 * limit is held afterwards, that is a crossing.
 *
 * loam cannot keep the system's limit on the process's control group (a container). With
 * LOAM_LIMIT_CGROUP it gives memory back sooner when the group is nearly full:
 * docs/guide/limits.md.
 *
 * Threads: any thread may call any function at any time; two calls that set limits at the same time
 * may leave a mixture. Invariant: soft <= hard if both are set. Source: src/span/limit.c,
 * src/api/limits.c.
 */
#ifndef LOAM_LIMITS_H
#define LOAM_LIMITS_H

#include "loam/names_begin.h"

#include "loam/types.h"

#include <stddef.h>

LOAM_BEGIN

/** Sets both limits in bytes; 0: no limit. Returns 0; or -EINVAL, with nothing changed, iff both
 * are given and soft exceeds hard, or a limit exceeds 1 PiB. The options LOAM_LIMIT_SOFT and
 * LOAM_LIMIT_HARD set them, too; this call is stronger than the environment. Cost: a few hundred
 * instructions; if more is held than a limit allows, also a system call for each span that goes
 * back. */
LOAM_API int loam_limit_set(size_t soft, size_t hard) LOAM_NOEXCEPT;

/** A limit handler: the memory that loam holds has crossed the soft limit. `held` is the number of
 * bytes at some moment since; `soft` is the limit. It runs once for each crossing; the crossing
 * ends when held memory is an eighth of the limit below it. It runs in a thread that is in a slow
 * path of malloc or reserves memory, after loam has given free memory back. That may be another
 * thread than the one that crossed the limit, or one whose malloc the hard limit would refuse
 * otherwise. It may do what every handler may (loam/handlers.h): free, allocate, set other limits,
 * wake a thread that frees. It must not free or resize the object of a realloc in progress. */
typedef void (*loam_limit_handler)(size_t held, size_t soft, void *argument);

/** Sets the process's limit handler; NULL, the default, means none. */
LOAM_API void loam_limit_register(loam_limit_handler handler, void *argument) LOAM_NOEXCEPT;

/** How near loam is to a limit. SOME: the control group is 80% full, and free memory waits a
 * quarter of its time. HIGH: the group is 90% full or the soft limit is crossed, and free memory
 * goes back at once. */
enum { LOAM_PRESSURE_NONE, LOAM_PRESSURE_SOME, LOAM_PRESSURE_HIGH };

/** Limits of the process, and the memory that it holds. */
typedef struct loam_limits {
    size_t soft, hard; /**< bytes; 0: no limit */
    size_t held;       /**< bytes counted now */
    size_t held_most;  /**< peak of held */
    size_t crossings;  /**< times that held crossed the soft limit */
    /** Times that the hard limit refused slices: at least twice for a malloc that returned NULL,
     * because loam tries again. */
    size_t refusals;
    /** Limit in bytes of the fullest control group around the process, as last read; 0 if there is
     * none, or loam has not looked. */
    size_t cgroup_limit;
    /** Bytes in that group, without pages of files that are not in use. */
    size_t cgroup_used;
    /** LOAM_PRESSURE_NONE, _SOME or _HIGH. */
    int pressure;
} loam_limits;

/** Stores a snapshot in *limits; does nothing if limits is NULL. Cost: takes loam's innermost
 * lock. */
LOAM_API void loam_limit_get(loam_limits *limits) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

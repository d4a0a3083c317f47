/* loam/limits.h: how much memory loam may hold for the process, and what it holds.
 *
 * Choose limits where one program must not eat the machine: NULL from malloc at a place that can
 * deal with it is better than an end by the system at one that cannot. For a part of a program:
 * loam_heap_set_limits (loam/heap.h).
 *
 *     0 ──────────────────── soft ─────────────────────── hard
 *       free memory waits     the program is told once;    malloc gives NULL, after what is free has gone back,
 *       for its next user     what becomes free goes        the deferred free and the out-of-memory handler
 *       (LOAM_PURGE_DELAY)    back at once                  (loam/handlers.h) had their say
 *
 * What is counted is what loam holds of the system: pages of blocks and large objects, in whole
 * slices of 64 KiB, touched or not, and what is free but has not gone back yet. Not counted:
 * stacks, libraries, what the program maps itself (also what it lends to loam by
 * loam_manage_memory), what allocators of the family reserve (loam_source_reserve), and loam's
 * tables (0.21%). Memory that loam reserves (loam_reserve_memory, loam_reserve_huge_pages) is held
 * as a whole from that call on, used or not: it takes part in both limits there, and is refused, or
 * told of, as a malloc of its size would be.
 *
 * A thread has a page, 64 KiB and more, for each size class that it uses: limits below some MiB are
 * coarse. Both limits are looked at when loam takes slices, and never on the fast paths. What is in
 * use already when a limit is set stays: what is free goes back at once, and if more than the soft
 * one is held then, that is a crossing.
 *
 * A limit of the system's on the process's control group (a container) is not loam's to keep. With
 * LOAM_LIMIT_CGROUP loam gives memory back sooner as that is neared: docs/guide/limits.md.
 *
 * All functions may be called by any thread at any time; two that set limits at once may leave a
 * mixture. Invariant: soft <= hard where both are set. Source: src/span/limit.c, src/api/limits.c.
 */
#ifndef LOAM_LIMITS_H
#define LOAM_LIMITS_H

#include "loam/names_begin.h"

#include "loam/types.h"

#include <stddef.h>

LOAM_BEGIN

/* Limits in bytes, 0: none. 0, or -EINVAL iff both are given and soft is above hard, or one is
 * above 1 PiB: nothing has changed then. The same as the options LOAM_LIMIT_SOFT and
 * LOAM_LIMIT_HARD, set by a call, which counts more than the environment. Cost: some hundred
 * instructions, and what giving free memory back takes where more is held than a limit allows. */
LOAM_API int loam_limit_set(size_t soft, size_t hard) LOAM_NOEXCEPT;

/* More than the soft limit is held now, and less was before. held: bytes, at some moment since;
 * soft: the limit. It is called once for each crossing, which ends when an eighth of the limit less
 * is held, by a thread that is in a slow path of malloc, or reserves memory, after loam has given
 * back what was free; that may be another thread than the one that crossed it, and a malloc that
 * the hard limit would refuse otherwise. It may do all that a handler may (loam/handlers.h): free,
 * allocate, set other limits, wake a thread that frees; but it must not free or change the object
 * that a realloc is about. */
typedef void (*loam_limit_handler)(size_t held, size_t soft, void *argument);

/* One in a process; NULL: none, which is the default. */
LOAM_API void loam_limit_register(loam_limit_handler handler, void *argument) LOAM_NOEXCEPT;

/* What loam is near to: LOAM_PRESSURE_SOME: free memory waits a quarter as long as it would; HIGH:
 * not at all. */
enum { LOAM_PRESSURE_NONE, LOAM_PRESSURE_SOME, LOAM_PRESSURE_HIGH };

typedef struct loam_limits {
    size_t soft, hard; /* bytes; 0: none */
    size_t held;       /* bytes counted now */
    size_t held_most;  /* the most that was */
    size_t crossings;  /* of the soft limit */
    size_t
        /* times that the hard limit refused slices: twice for a malloc that gave NULL, at least */
        refusals;
    size_t
        /* of the fullest control group around the process, as last seen; 0: none, or not looked at
         * */
        cgroup_limit;
    size_t cgroup_used; /* bytes in it, but for pages of files that are not in use */
    int pressure;       /* LOAM_PRESSURE_... */
} loam_limits;

/* A snapshot; takes loam's innermost lock. NULL: nothing is done. */
LOAM_API void loam_limit_get(loam_limits *limits) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

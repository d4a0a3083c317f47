/* loam/arena.h: arenas: memory with properties of its own for malloc and heaps: memory of the
 * program, huge pages, or memory of a NUMA node.
 *
 *     static char range[8 << 20];
 *     loam_arena *arena = NULL;
 *     unsigned flags = LOAM_ARENA_EXCLUSIVE;
 *     if (loam_manage_memory(range, sizeof range, flags, LOAM_NODE_ANY, &arena) == 0) {
 *         loam_heap *heap = loam_heap_create_in(arena, false); // its objects lie in `range`
 *         loam_heap_destroy(heap);
 *         loam_arena_destroy(arena);
 *     }
 *
 * loam takes memory from the system by itself; most programs need no arena. Choose one if objects
 * must lie in certain memory: a shared or locked mapping, a device's memory, a static array. Choose
 * one also to keep a part of the program within a range, or for huge pages from the start. An arena
 * cannot grow, and its memory cannot move.
 *
 *     start                                                    start + bytes
 *     [ page of objects | object of 300 KiB | free ............... ]     slices of 64 KiB
 *
 *   function                   memory                          used by
 *   loam_manage_memory         a range that the program has    LOAM_ARENA_EXCLUSIVE: heaps created
 *   loam_reserve_memory        memory of the system            in it; otherwise every malloc,
 *   loam_reserve_huge_pages    pages of 2 MiB or 1 GiB         before other memory of the system
 *
 * The option LOAM_RESERVE_HUGE_OS_PAGES reserves huge pages at the start. free, realloc and all
 * other functions accept objects of arenas. Cost: malloc and free cost the same as elsewhere, with
 * one exception: in a managed range, though not in reserved memory, free takes about twice its
 * time, because it does not look there first. Each slice takes 136 bytes elsewhere, so that the
 * range holds nothing but objects. Each thread takes a slice of addresses for each size class that
 * it uses, and more for objects above 4 KiB: a range should have a few MiB.
 *
 * Threads: any thread may call any function at any time, unless its comment says otherwise. A
 * process has up to 64 arenas at a time. A child of fork has all arenas; parent and child must not
 * both use a range that they share (MAP_SHARED). Errors are negative errno values; a call that
 * fails changes nothing.
 *
 * Invariant: arenas do not overlap, and no object lies across the end of one; the debug build's
 * checks walk them. Source: src/span/range.c, src/span/reserved.c. */
#ifndef LOAM_ARENA_H
#define LOAM_ARENA_H

#include "loam/names_begin.h"

#include "loam/heap.h"
#include "loam/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

LOAM_BEGIN

/** An arena. */
typedef struct loam_arena loam_arena;

/** No particular NUMA node. */
enum { LOAM_NODE_ANY = -1 };

/** Properties of an arena, combined by |. Managed ranges accept the first three, reserved memory
 * all but ZERO, huge pages EXCLUSIVE only. */
typedef enum loam_arena_flags {
    /** Only heaps created in the arena take memory of it. */
    LOAM_ARENA_EXCLUSIVE = 1,
    /** The range reads as zero now: calloc does not clear memory that was never used. */
    LOAM_ARENA_ZERO = 2,
    /** loam_collect and malloc_trim may give free memory back by MADV_DONTNEED, after which it
     * reads as zero: for private anonymous mappings only. Without this flag free memory stays. */
    LOAM_ARENA_PURGE = 4,
    /** Reserved memory is made resident at once. */
    LOAM_ARENA_BACKED = 8,
    /** Reserved memory gets transparent huge pages as it is touched. */
    LOAM_ARENA_HUGE = 16,
} loam_arena_flags;

/* ---- Memory that the program has ---- */

/** Lends loam the range [start, start + bytes). It must be readable and writable, and nothing else
 * may use it until loam_arena_destroy. loam uses whole slices of 64 KiB at multiples of 64 KiB, and
 * does not touch the bytes before and behind them. `node` says on which node the range lies; loam
 * does not move it there. Stores the arena in *arena, which may be NULL for an arena that is never
 * destroyed. Returns 0, or an error:
 * - -EINVAL: the range has no whole slice, a flag is unknown, or the node does not exist;
 * - -EEXIST: the range overlaps an arena or memory of loam's own (also a block of malloc), or lies
 *   where loam would grow, if it could not reserve addresses;
 * - -EFAULT: a part of the range is not mapped, or its first or last word cannot be read and
 *   written. loam asks the system, and trusts the pages in between; if the program has shut itself
 *   in, it trusts that there are no gaps;
 * - -ENOMEM: there is no memory;
 * - -ENOSPC: there are 64 arenas.
 * Cost: proportional to the slices, with 136 bytes written for each; the first and the last page of
 * the range become resident. */
LOAM_API int loam_manage_memory(void *start, size_t bytes, unsigned flags, int node,
                                loam_arena **arena) LOAM_NOEXCEPT;

/* ---- Memory of the system: limits (loam/limits.h) count it as a whole and may refuse it ---- */

/** Reserves an arena of at least `bytes` bytes, a multiple of 64 KiB, on the node if that has as
 * many. Takes addresses only, unless LOAM_ARENA_BACKED. Returns 0; or -EINVAL (bytes is 0 or too
 * large, unknown flag, no such node), -ENOMEM (also if a hard limit refuses it), -ENOSPC. */
LOAM_API int loam_reserve_memory(size_t bytes, unsigned flags, int node,
                                 loam_arena **arena) LOAM_NOEXCEPT;

/** Reserves an arena of `count` huge pages of `page_bytes` (2 MiB or 1 GiB), on the node if that
 * has them. The pages are resident at once, and never given back before loam_arena_destroy. They
 * come from the system's pool (/proc/sys/vm/nr_hugepages and its like). If the pool has too few,
 * loam takes pages of 2 MiB instead of 1 GiB, and then memory that may get transparent huge pages
 * as it is touched. One line says so, to the output handler or standard error, unless
 * LOAM_SHOW_ERRORS is 0. An arena without any page of the pool behaves as with LOAM_ARENA_PURGE. A
 * page of 1 GiB can take the system seconds: `timeout_ms` (0: no limit) is checked before each page
 * except the first. Returns 0 if the arena is complete, in pages of any size. Returns -ETIMEDOUT if
 * time was up: *arena is as large as there was time for, in pages of any size. Returns -EINVAL,
 * -ENOMEM or -ENOSPC with *arena NULL. */
LOAM_API int loam_reserve_huge_pages(size_t page_bytes, size_t count, unsigned flags, int node,
                                     unsigned timeout_ms, loam_arena **arena) LOAM_NOEXCEPT;

/** Reserves `count` huge pages, for every malloc, spread evenly over the first `nodes` NUMA nodes
 * (0: all), with an arena for each node. Nodes get a page each in turn, so that all have about as
 * many if time runs out. Returns 0 or an error as loam_reserve_huge_pages; arenas that are complete
 * stay then. */
LOAM_API int loam_reserve_huge_pages_interleave(size_t page_bytes, size_t count, unsigned nodes,
                                                unsigned timeout_ms) LOAM_NOEXCEPT;

/* ---- Heaps in an arena ---- */

/** Creates a heap whose memory is the arena's (loam_heap_create). If the arena is full and `spill`
 * is true, memory comes from elsewhere. If `spill` is false, allocations then return NULL with
 * errno ENOMEM, after empty pages have gone back. Returns NULL iff there is no memory (errno
 * ENOMEM), loam_arena_destroy was called for the arena (EBUSY), or arena is NULL (EINVAL).
 * loam_heap_delete leaves objects in the arena: free blocks in their pages may serve other heaps
 * until the page is empty. */
LOAM_API loam_heap *loam_heap_create_in(loam_arena *arena,
                                        bool spill) LOAM_NOEXCEPT LOAM_HEAP_BEGUN;

/* ---- Numbers and end ---- */

/** Returns whether p, any pointer, points into the arena; false if arena is NULL. */
LOAM_API bool loam_arena_contains(const loam_arena *arena, const void *p) LOAM_NOEXCEPT;

/** Numbers of an arena. */
typedef struct loam_arena_numbers {
    /** First address. */
    void *start;
    size_t bytes;
    size_t free_bytes;    /**< in no page and no large object */
    size_t longest_bytes; /**< longest run of free bytes */
    size_t heaps;         /**< heaps created in it that have not ended */
    int node;             /**< LOAM_NODE_ANY: no particular node */
} loam_arena_numbers;

/** Stores a snapshot of the arena's numbers. If arena is NULL, all are 0 and the node is
 * LOAM_NODE_ANY. Cost: proportional to the pieces of the arena. */
LOAM_API void loam_arena_usage(loam_arena *arena, loam_arena_numbers *numbers) LOAM_NOEXCEPT;

/** Prints a line for each arena: address, size, node, bytes in use and free, heaps, and who may use
 * it. Prints one line if there is no arena. The lines, below a heading, go to the output handler
 * (loam/handlers.h) or standard error. Cost: some microseconds for each arena. */
LOAM_API void loam_arenas_print(void) LOAM_NOEXCEPT;

/** Ends the arena. From this call on loam puts nothing new into it, whatever the call returns. No
 * other thread may ask about pointers into it meanwhile. NULL is allowed. Returns:
 * - 0: the arena is gone. A managed range is the program's again, with its contents; reserved
 *   memory is the system's;
 * - -EBUSY: heaps use it, or objects lie in it, or pages that threads keep ready (call loam_collect
 *   in these threads). Call again later;
 * - -ENOMEM: the system has no memory for it; call again later;
 * - -EINVAL: the arena is gone already, as far as loam can tell. */
LOAM_API int loam_arena_destroy(loam_arena *arena) LOAM_NOEXCEPT;

/* ---- Nodes ---- */

/** Returns the number of NUMA nodes that loam tells apart (LOAM_USE_NUMA_NODES), up to 64. */
LOAM_API unsigned loam_numa_nodes(void) LOAM_NOEXCEPT;
/** Returns the node that the caller runs on, a number below 64. Cost: a system call; nothing if
 * there is one node. */
LOAM_API int loam_numa_node(void) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

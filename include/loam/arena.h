/* loam/arena.h: memory with properties of its own for malloc and for heaps: the program's, huge
 * pages, a NUMA node's.
 *
 * loam takes memory from the system by itself, and most programs need nothing of this. Choose an
 * arena where memory has to be a certain one (a shared or a locked mapping, a device's, a static
 * array), where a part of the program must not use more than it was given, or where huge pages are
 * wanted from the start. It cannot grow, and memory cannot move.
 *
 *     start                                                    start + bytes
 *     [ page of objects | object of 300 KiB | free ............... ]     cut into slices of 64 KiB, as all of loam's
 *
 *   loam_manage_memory         a range that the program has     LOAM_ARENA_EXCLUSIVE: for heaps created in it, no other
 *   loam_reserve_memory        memory of the system             otherwise: for every malloc, before the system's
 *   loam_reserve_huge_pages    pages of 2 MiB or 1 GiB          LOAM_RESERVE_HUGE_OS_PAGES does so at the start
 *
 * free, realloc and all else take objects of arenas as any others. Cost: malloc and free as ever;
 * in a managed range alone free takes about twice its time, because the range lies where free does
 * not look first (reserved memory does not). 136 bytes a slice are kept elsewhere, so that the
 * range itself holds objects and nothing else. Each thread takes a slice of addresses, and more for
 * objects above 4 KiB, for every size class that it uses: a range should have some MiB.
 *
 * All functions may be called from any thread at any time, unless said otherwise. There may be 64
 * arenas at once. A fork's child has all arenas; a range that it shares with its parent
 * (MAP_SHARED) must not be used by both. Errors are negative errno values, and change nothing.
 *
 * Invariant: arenas do not overlap, and no object lies across the end of one; the debug builds'
 * checks walk them.
 */
#ifndef LOAM_ARENA_H
#define LOAM_ARENA_H

#include "loam/names_begin.h"

#include "loam/heap.h"
#include "loam/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

LOAM_BEGIN

typedef struct loam_arena loam_arena;

/* No NUMA node in particular. */
enum { LOAM_NODE_ANY = -1 };

/* EXCLUSIVE: only heaps created in it take memory of it. ZERO: the given range reads as zero now,
 * so that calloc need not clear what was never used. PURGE: loam_collect and malloc_trim may give
 * free memory of it back by MADV_DONTNEED, after which it reads as zero: of private anonymous
 * mappings only; otherwise it stays as it is. Of reserved memory, BACKED: made resident at once;
 * HUGE: transparent huge pages as it is touched. */
typedef enum loam_arena_flags {
    LOAM_ARENA_EXCLUSIVE = 1,
    LOAM_ARENA_ZERO = 2,
    LOAM_ARENA_PURGE = 4,
    LOAM_ARENA_BACKED = 8,
    LOAM_ARENA_HUGE = 16,
} loam_arena_flags;

/* ---- Memory that the program has ---- */

/* Lends loam [start, start + bytes): readable, writable, and nobody else's until
 * loam_arena_destroy. Whole slices of 64 KiB at multiples of 64 KiB are used, what is before and
 * behind them is not touched. node: where it lies; only said, not made so. *arena (which may be
 * NULL for one that is never ended) is the arena. 0; -EINVAL: no whole slice, an unknown flag, no
 * such node; -EEXIST: it overlaps an arena, or memory that is loam's own (a block that malloc gave,
 * too), or lies where it would grow, if it could not reserve addresses; -EFAULT: a part of it is
 * not mapped, or its first or last word cannot be read and written (the system is asked; the pages
 * in between are taken on trust, and so are gaps where the program has shut itself in); -ENOMEM;
 * -ENOSPC: 64 arenas. Takes time by slices, 136 bytes written of each; the first and the last page
 * of it become resident. */
LOAM_API int loam_manage_memory(void *start, size_t bytes, unsigned flags, int node,
                                loam_arena **arena) LOAM_NOEXCEPT;

/* ---- Memory of the system: held as a whole, used or not, for the limits (loam/limits.h), which
 * may refuse it ---- */

/* An arena of at least so many bytes (a multiple of 64 KiB is used), of that node if it has as
 * many. Addresses, unless LOAM_ARENA_BACKED. 0; -EINVAL: no bytes, flag or node such as this;
 * -ENOMEM; -ENOSPC. */
LOAM_API int loam_reserve_memory(size_t bytes, unsigned flags, int node,
                                 loam_arena **arena) LOAM_NOEXCEPT;

/* An arena of count huge pages of page_bytes (2 MiB or 1 GiB), of that node if it has them,
 * resident at once and never given back before loam_arena_destroy. They come from the system's pool
 * (/proc/sys/vm/nr_hugepages and its like). Where that has too few, pages of 2 MiB are taken
 * instead of 1 GiB, and then memory that may get transparent huge pages as it is touched; one line
 * says so, to the output handler or standard error, unless LOAM_SHOW_ERRORS is 0. An arena without
 * any page of the pool is as one with LOAM_ARENA_PURGE. A page of 1 GiB can take the system
 * seconds: timeout_ms (0: none) is looked at before each page but the first. Flags:
 * LOAM_ARENA_EXCLUSIVE. 0: all is there, in pages of whichever size; -ETIMEDOUT: *arena is as large
 * as there was time for, in pages of either size; -EINVAL, -ENOMEM, -ENOSPC: *arena is NULL. */
LOAM_API int loam_reserve_huge_pages(size_t page_bytes, size_t count, unsigned flags, int node,
                                     unsigned timeout_ms, loam_arena **arena) LOAM_NOEXCEPT;

/* The same for everybody, dealt out evenly to the first so many NUMA nodes (0: to all), in an arena
 * for each; a page of each in turn, so that time that runs out does so for all. Errors as above;
 * what is there stays then. */
LOAM_API int loam_reserve_huge_pages_interleave(size_t page_bytes, size_t count, unsigned nodes,
                                                unsigned timeout_ms) LOAM_NOEXCEPT;

/* ---- Heaps in an arena ---- */

/* As loam_heap_create, of a heap whose memory is the arena's. spill: where the arena is full,
 * memory comes from elsewhere; otherwise functions return NULL then, with errno ENOMEM, after empty
 * pages have gone back. NULL also, with errno EBUSY, iff loam_arena_destroy was called for the
 * arena, and with EINVAL iff arena is NULL. loam_heap_delete leaves objects in the arena: free
 * places in pages with such an object may serve others, until the page is empty. */
LOAM_API loam_heap *loam_heap_create_in(loam_arena *arena,
                                        bool spill) LOAM_NOEXCEPT LOAM_HEAP_BEGUN;

/* ---- Numbers, end ---- */

/* Whether p, any pointer, lies in the arena; in NULL nothing does. */
LOAM_API bool loam_arena_contains(const loam_arena *arena, const void *p) LOAM_NOEXCEPT;

typedef struct loam_arena_numbers {
    void *start;
    size_t bytes;
    size_t free_bytes;    /* in no page and no large object */
    size_t longest_bytes; /* the longest piece of that */
    size_t heaps;         /* that were created in it, and live */
    int node;             /* LOAM_NODE_ANY: none */
} loam_arena_numbers;

/* A snapshot; takes time by the pieces of the arena. Of NULL: zeros, and no node. */
LOAM_API void loam_arena_usage(loam_arena *arena, loam_arena_numbers *numbers) LOAM_NOEXCEPT;

/* Writes a line for each arena to the output handler (loam/handlers.h) or standard error: address,
 * size, node, what is in use and free, heaps, and whom it serves. Writes one line if there is none.
 * Cost: some microseconds an arena. */
LOAM_API void loam_arenas_print(void) LOAM_NOEXCEPT;

/* Ends the arena: from this call on nothing new is put into it, whatever comes back. 0: it is gone;
 * a managed range is the program's again, with what lies in it, and reserved memory is the
 * system's. -EBUSY: heaps use it, or objects lie in it, or pages that threads keep ready
 * (loam_collect in these threads): call again later. No other thread may be asking about pointers
 * into it. -ENOMEM: the same. -EINVAL: it is gone already, as far as that can be told. NULL is
 * fine. */
LOAM_API int loam_arena_destroy(loam_arena *arena) LOAM_NOEXCEPT;

/* ---- Nodes ---- */

/* How many NUMA nodes are told apart (LOAM_USE_NUMA_NODES), and the one that the caller runs on: a
 * number below 64. Where there is one node, the second costs nothing; elsewhere, a system call. */
LOAM_API unsigned loam_numa_nodes(void) LOAM_NOEXCEPT;
LOAM_API int loam_numa_node(void) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

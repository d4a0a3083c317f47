/* range.h: ranges of memory that are not the arena's own: memory of the user, or reserved memory,
 * perhaps in huge pages.
 *
 *   outside   the user's memory, anywhere; its map and descriptors are in a META span of the arena
 *   inside    reserved by loam among the arena's spans, whose map and descriptors it uses;
 *             free() finds blocks as fast as any others
 *
 *   range   [ page | large ........ | spare .............. | page | spare ]    slices of 64 KiB
 *
 * A range is never purged (unless its flags allow it), never moved, and never grows. Its spans
 * carry its number in `range`, and all functions of span.h accept them. An exclusive range serves
 * heaps that were created in it; other ranges serve every thread, before the arena does. Ranges of
 * another NUMA node come last.
 *
 * free() of a pointer outside the arena fails the bound check, and finds the range in a table by a
 * walk of a few words. That needs no lock: every pointer that a thread asks about is in a range
 * that exists, or in none. Choose a range for memory with special properties. It cannot divide
 * slices, and all ranges share the arena's lock, which callers take once a page.
 *
 * Invariant (lm_range_check, part of lm_span_check): spans tile the range, no two neighbours are
 * spare, bins and counts agree with what the walk finds.
 */
#ifndef LM_SPAN_RANGE_H
#define LM_SPAN_RANGE_H

#include "span/span.h"

enum { LM_RANGES = 64, LM_RANGE_BINS = 33, LM_NODE_ANY = -1 };

struct loam_arena {
    /* Atomic: start >> 16 in the upper half, slices in the lower; 0: not in use. */
    uint64_t bounds;
    lm_page_t **map;  /* page of each slice */
    lm_page_t *pages; /* descriptor of each slice */
    /* META span that contains map and pages; NULL: the range lies inside the arena. */
    lm_page_t *memory;
    uint64_t filled; /* bit i is set iff bin i is not empty */
    /* Spare spans by the logarithm of their size in slices. */
    lm_list_t bins[LM_RANGE_BINS];
    size_t used; /* slices in use */
    /* Number of the first slice from which on no slice was ever used. */
    size_t touched;
    size_t heaps;   /* number of first-class heaps created in it */
    int node;       /* LM_NODE_ANY: no preference */
    bool taken;     /* the entry is in use, or about to be */
    bool zero;      /* untouched slices read as zero */
    bool exclusive; /* serves only its own heaps */
    bool purges;    /* free memory may be returned to the system */
    bool closing;   /* gives out no more memory */
};

extern LM_HIDDEN struct loam_arena lm_ranges[LM_RANGES];
/* Atomic: number of open ranges that are not exclusive. */
extern LM_HIDDEN size_t lm_ranges_open;

typedef struct lm_range_kind {
    int node;
    bool zero, exclusive, purges;
} lm_range_kind_t;

/* Functions of ranges that return an int return 0 or a negative errno value. */

/* Takes over [start, start + bytes), as far as it consists of whole slices. The memory must be
 * readable, writable, and private to loam until the range is destroyed. Returns 0; -EINVAL: there
 * is no whole slice, or start is no valid address; -EEXIST: it overlaps another range, or addresses
 * to which the arena may grow; -EFAULT: it is not mapped, or its first or last word cannot be read
 * and written; -ENOMEM: there is no memory for the map; -ENOSPC: LM_RANGES ranges are in use. Takes
 * the arena lock. */
int lm_range_manage(void *start, size_t bytes, const lm_range_kind_t *kind,
                    struct loam_arena **range);

/* As lm_range_manage, for slices of the arena: a META span from lm_span_take. Returns 0 or
 * -ENOSPC. */
int lm_range_open_inside(lm_page_t *span, const lm_range_kind_t *kind, struct loam_arena **range);

/* Closes the range: it gives out no more memory. Returns 0 if the range has been removed: the
 * user's memory is untouched from now on, and the memory of a range inside the arena is plain free
 * memory. Returns -EBUSY iff something is in use in it, or a heap uses it. Returns -ENOMEM iff
 * plain memory could not be had; the range stays, closed. Returns -EINVAL iff the range was removed
 * before, as far as that can be told. Takes the arena lock. */
int lm_range_destroy(struct loam_arena *range);

/* Records that a heap uses the range. Returns false iff the range is closing. */
bool lm_range_hold(struct loam_arena *range);
/* Records that a heap no longer uses the range. */
void lm_range_let(struct loam_arena *range);

/* As lm_span_take, of that range only. */
lm_page_t *lm_range_take(struct loam_arena *range, size_t slices, size_t align_slices,
                         lm_kind_t kind, bool *zero);
/* As lm_range_take, for a page of blocks. The page has fewer slices if so many in a row are not
 * free, but room for at least two blocks. */
lm_page_t *lm_range_take_page(struct loam_arena *range, size_t slices, size_t block_bytes,
                              bool *zero);

/* As lm_span_take, of ranges that are not exclusive, and are on the calling thread's node or on no
 * node. */
lm_page_t *lm_range_take_near(size_t slices, size_t align_slices, lm_kind_t kind, bool *zero);
/* As lm_span_take, of any range that is not exclusive. */
lm_page_t *lm_range_take_far(size_t slices, size_t align_slices, lm_kind_t kind, bool *zero);

/* Returns the first map entry of a range's span. */
lm_page_t **lm_range_map_of(const lm_page_t *span);

/* Returns the range whose addresses contain p, or NULL iff there is none. p may be any pointer.
 * Needs no lock. */
struct loam_arena *lm_range_around(const void *p);

LM_INLINE uintptr_t lm_range_start(const struct loam_arena *range) {
    return (uintptr_t)(lm_load_relaxed(&range->bounds) >> 32) << LM_SLICE_SHIFT;
}
LM_INLINE size_t lm_range_slices(const struct loam_arena *range) {
    return (uint32_t)lm_load_relaxed(&range->bounds);
}

typedef struct lm_range_numbers {
    /* All bytes; those not in use; the longest contiguous free part. */
    size_t bytes, free_bytes, longest_bytes;
    size_t heaps;
} lm_range_numbers_t;

void lm_range_numbers(struct loam_arena *range, lm_range_numbers_t *numbers);

/* ---- Reserved memory (reserved.c) ---- */

typedef struct lm_reserve {
    /* Size of the pool's pages: 2 MiB or 1 GiB; 0: ordinary memory. */
    size_t page_bytes;
    size_t bytes; /* a multiple of page_bytes */
    bool backed;  /* ordinary memory: make it resident at once */
    bool huge;    /* ordinary memory: use transparent huge pages as it is touched */
    /* Checked before each page except the first; 0: no timeout. */
    uint32_t timeout_ms;
    /* Memory for which the pool has no page of either size is left out, without an error. */
    bool pool_only;
    lm_range_kind_t kind;
} lm_reserve_t;

/* Opens a range of reserved memory. Returns 0, -EINVAL, -ENOMEM, -ENOSPC or -ETIMEDOUT. After
 * -ETIMEDOUT the range contains what there was time for (*range NULL: nothing). If the pool has too
 * few pages, smaller ones take their place, and one line says so (lm_print, unless
 * LOAM_SHOW_ERRORS=0). With pool_only, *range may be NULL without an error. */
int lm_range_reserve(const lm_reserve_t *want, struct loam_arena **range);

/* As lm_range_reserve, but opens one range for each node and takes pages of the nodes in turn.
 * nodes: the number of nodes, from the first; 0: all nodes. One line describes all ranges. */
int lm_range_reserve_on_nodes(const lm_reserve_t *want, unsigned nodes);

/* ---- Nodes (node.c) ---- */

/* Atomic. Maximum number of nodes that are distinguished; 0: all nodes. Set it before the first
 * question. */
extern uint32_t lm_nodes_most;

/* Returns as bits which nodes exist, as far as they are distinguished. Asks the system once, when
 * first needed. Returns 1 iff the system does not tell. */
uint64_t lm_nodes(void);
/* Returns whether the node exists; LM_NODE_ANY does. */
bool lm_node_exists(int node);

/* Returns the system's number of a node: the lowest of those that count as it. Returns LM_NODE_ANY
 * for LM_NODE_ANY, and if all nodes count as one. */
int lm_node_real(int node);

/* Returns the node of the processor that the caller runs on, as far as nodes are distinguished.
 * Returns 0 without asking if there is one node. */
int lm_node_here(void);

/* Forgets what the system said about nodes. For tests. */
void lm_nodes_forget(void);

#endif

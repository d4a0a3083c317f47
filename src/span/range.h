/* range.h: ranges of memory that are not the arena's own: the user's, or reserved, perhaps in huge
 * pages.
 *
 *   outside   the user's memory, wherever it lies     map and descriptors in a META span of the arena's
 *   inside    reserved by loam, between the arena's spans     map and descriptors are the arena's, and free() finds
 *                                                             blocks as fast as any others
 *
 *   range   [ page | large ......... | spare ................... | page | spare ]    slices of 64 KiB, as the arena's
 *
 * A range is never purged (unless its flags allow it), never moved and never grows. Spans of it
 * carry its number in `range`, and all functions of span.h take them as any others. An exclusive
 * range serves heaps that were created in it; the others serve everybody, before the arena does.
 * Ranges of another NUMA node come last.
 *
 * free() of a pointer outside the arena fails its bound, and finds the range in a table, by a walk
 * of a few words: every pointer that a thread asks about is in a range that lives, or in none, so
 * that nothing need be locked. Choose it for memory with properties of its own. It cannot cut
 * slices into parts, and all ranges share the arena's lock: callers come here once a page.
 *
 * Invariant (lm_range_check, part of lm_span_check): spans tile the range, no two neighbours are
 * spare, bins and counts agree with what the walk finds.
 */
#ifndef LM_SPAN_RANGE_H
#define LM_SPAN_RANGE_H

#include "span/span.h"

enum { LM_RANGES = 64, LM_RANGE_BINS = 33, LM_NODE_ANY = -1 };

struct loam_arena {
    uint64_t bounds; /* atomic: start >> 16 in the upper half, slices in the lower; 0: not in use */
    lm_page_t **map; /* by slice */
    lm_page_t *pages;  /* descriptors by slice */
    lm_page_t *memory; /* META span of these two; NULL: the range lies inside the arena */
    uint64_t filled;   /* a bit for each bin that is not empty */
    lm_list_t bins[LM_RANGE_BINS]; /* spare spans by the logarithm of their size */
    size_t used;                   /* slices */
    size_t touched;                /* slices from which on nothing has ever been used */
    size_t heaps;                  /* first-class heaps that were created in it */
    int node;                      /* LM_NODE_ANY: no preference */
    bool taken;                    /* the entry is in use, or about to be */
    bool zero;                     /* untouched slices read as zero */
    bool exclusive;                /* serves its own heaps only */
    bool purges;                   /* free memory may be given back to the system */
    bool closing;                  /* gives nothing out any more */
};

extern LM_HIDDEN struct loam_arena lm_ranges[LM_RANGES];
extern LM_HIDDEN size_t lm_ranges_open; /* atomic: of those that serve everybody */

typedef struct lm_range_kind {
    int node;
    bool zero, exclusive, purges;
} lm_range_kind_t;

/* Errors of these are negative errno values. */

/* Takes over [start, start + bytes), whole slices of it: readable, writable, private to loam until
 * it is destroyed. -EINVAL: not a whole slice, or no address; -EEXIST: overlaps another range or
 * where the arena may grow; -EFAULT: it is not mapped, or its first or last word cannot be read and
 * written; -ENOMEM:
 * none for the map; -ENOSPC: LM_RANGES are in use. */
int lm_range_manage(void *start, size_t bytes, const lm_range_kind_t *kind,
                    struct loam_arena **range);

/* The same with slices of the arena's, a META span as lm_span_take gives it. -ENOSPC. */
int lm_range_open_inside(lm_page_t *span, const lm_range_kind_t *kind, struct loam_arena **range);

/* From now on nothing new is put into it. -EBUSY iff something is in it still, or a heap uses it;
 * otherwise it is gone: the user's memory is untouched from then on, and inside ones are plain free
 * memory of the arena. -ENOMEM iff that could not be had: it stays, closed. -EINVAL iff it is gone
 * already, as far as that can be told. */
int lm_range_destroy(struct loam_arena *range);

/* A heap uses it; false iff it is closing. No longer. */
bool lm_range_hold(struct loam_arena *range);
void lm_range_let(struct loam_arena *range);

/* As lm_span_take, of that range only. For a page of blocks: with fewer slices where there are no
 * more in a row. */
lm_page_t *lm_range_take(struct loam_arena *range, size_t slices, size_t align_slices,
                         lm_kind_t kind, bool *zero);
lm_page_t *lm_range_take_page(struct loam_arena *range, size_t slices, size_t block_bytes,
                              bool *zero);

/* As lm_span_take, of ranges that serve everybody: of this thread's node or none; of other
 * nodes. */
lm_page_t *lm_range_take_near(size_t slices, size_t align_slices, lm_kind_t kind, bool *zero);
lm_page_t *lm_range_take_far(size_t slices, size_t align_slices, lm_kind_t kind, bool *zero);

/* The map entry of a range's span. */
lm_page_t **lm_range_map_of(const lm_page_t *span);

/* The range that p lies outside the arena in; NULL iff there is none. Any pointer may be asked. */
struct loam_arena *lm_range_around(const void *p);

LM_INLINE uintptr_t lm_range_start(const struct loam_arena *range) {
    return (uintptr_t)(lm_load_relaxed(&range->bounds) >> 32) << LM_SLICE_SHIFT;
}
LM_INLINE size_t lm_range_slices(const struct loam_arena *range) {
    return (uint32_t)lm_load_relaxed(&range->bounds);
}

typedef struct lm_range_numbers {
    size_t bytes, free_bytes, longest_bytes; /* of all; not in use; the longest piece of that */
    size_t heaps;
} lm_range_numbers_t;

void lm_range_numbers(struct loam_arena *range, lm_range_numbers_t *numbers);

/* ---- Reserved memory (reserved.c) ---- */

typedef struct lm_reserve {
    size_t page_bytes;   /* of pages of the system's pool: 2 MiB or 1 GiB; 0: ordinary memory */
    size_t bytes;        /* a multiple of that */
    bool backed;         /* ordinary memory: made resident at once */
    bool huge;           /* ordinary memory: transparent huge pages, as it is touched */
    uint32_t timeout_ms; /* 0: none. Looked at before each page but the first */
    bool pool_only;      /* what the pool has no page for, of either size, is left out: no error */
    lm_range_kind_t kind;
} lm_reserve_t;

/* Opens a range of such memory. 0; -ENOMEM; -ETIMEDOUT, with what there was time for (*range NULL:
 * nothing). Where the pool has too few pages, smaller ones take their place, and one line says so
 * (lm_print, unless LOAM_SHOW_ERRORS=0). pool_only: *range may be NULL without an error. */
int lm_range_reserve(const lm_reserve_t *want, struct loam_arena **range);

/* The same in as many ranges as nodes, pages had of nodes in turn; nodes: the first so many of
 * those there are, 0: all. One line for all. */
int lm_range_reserve_on_nodes(const lm_reserve_t *want, unsigned nodes);

/* ---- Nodes (node.c) ---- */

/* Atomic: how many are told apart at most; 0: as many as there are. To be set before the first
 * question. */
extern uint32_t lm_nodes_most;

/* Which there are, as they are told apart, by bits; asked of the system once, when first needed. 1
 * iff it does not say. */
uint64_t lm_nodes(void);
bool lm_node_exists(int node);

/* The system's number of one: the lowest of those that count as it. LM_NODE_ANY: of none, and where
 * all are one. */
int lm_node_real(int node);

/* That of the processor the caller runs on, as they are told apart; 0 where there is one, and
 * nothing is asked. */
int lm_node_here(void);

/* What the system said is asked for anew: for tests. */
void lm_nodes_forget(void);

#endif

/* internal.h: what the files of this folder share; no other file includes it. */
#ifndef LM_SPAN_INTERNAL_H
#define LM_SPAN_INTERNAL_H

#include "span/span.h"

/* Groups of memory (group.c). Only secure builds have more than one. */
#if LM_SECURE
typedef enum lm_group {
    LM_GROUP_LARGE, /* large objects, and memory of no group yet */
    LM_GROUP_META,
    LM_GROUP_TINY,   /* blocks of up to 128 bytes */
    LM_GROUP_SMALL,  /* blocks of up to 1 KiB */
    LM_GROUP_MEDIUM, /* all other blocks */
    LM_GROUPS
} lm_group_t;
#else
typedef enum lm_group { LM_GROUP_LARGE, LM_GROUPS } lm_group_t;
#endif

/* Free spans of each group are of three kinds: dirty, clean and gone. Each kind has bins by size:
 * one for each size up to 32 slices, then two for each doubling. */
enum { LM_BINS = 64, LM_EXACT_BINS = 32, LM_FREE_KINDS = 3 * LM_GROUPS };

#if LM_SECURE
/* State of purges by threads that are about to take new memory (group.c). Protected by
 * lm_space.lock. */
typedef struct lm_hurry {
    size_t used_most; /* slices in use, at peak */
    /* Slices of each group that were purged in a hurry and not taken anew since. */
    size_t purged[LM_GROUPS];
    uint32_t when[LM_GROUPS]; /* tick of the last such purge of the group */
    /* Slices purged in a hurry and taken anew, less an allowance for each tick. */
    size_t regrets;
    /* own_...: as purged, regrets and when, for large objects that purge their own group. */
    size_t own_purged;
    size_t own_regrets;
    uint32_t own_when;
    uint32_t tick;      /* tick up to which the regrets were lowered */
    size_t dirty_large; /* slices of dirty spans of LM_GROUP_LARGE */
    /* Slices in the spans of large objects that were freed lately. */
    size_t large_slices;
    size_t large_held; /* slices of large_slices that held memory */
} lm_hurry_t;
#endif

typedef enum lm_pressure { LM_PRESSURE_NONE, LM_PRESSURE_SOME, LM_PRESSURE_HIGH } lm_pressure_t;

typedef struct lm_space {
    /* Protects everything in here, and every descriptor of a free span. */
    lm_lock_t lock;
    /* Bit i is set iff bin i is not empty. */
    uint64_t filled[LM_FREE_KINDS];
    lm_list_t bins[LM_FREE_KINDS][LM_BINS]; /* free spans by kind, group and size */
    lm_list_t aged;                         /* dirty spans, except refused ones */
    lm_list_t refused;                      /* dirty spans that the system refused to take back */
    /* Atomic: slices of the spans in `refused`. They also count in dirty_slices. */
    size_t refused_slices;
    lm_list_t tails;     /* large objects with a dirty tail, oldest first (tails.c) */
    size_t tails_listed; /* atomic: number of spans in `tails` */
    /* Number of turns: ticks of the worker and, without a worker, spans given back. */
    uint32_t turn;
    uint32_t retry_turn; /* turn in which refused spans are tried again */
    /* Turns between the last attempt at refused spans and retry_turn. */
    uint32_t retry_wait;
    /* Atomic: memory was unlocked, so the next turn tries all refused spans again. */
    bool unlocked;
    /* Slices of dirty and clean spans, of spans of kind META, and of pages of blocks. */
    size_t dirty_slices, clean_slices, meta_slices, page_slices;
    size_t spare_slices; /* spare slices of ranges inside the arena */
    size_t gone_slices;  /* slices of spans of kind GONE */
    size_t gone_spans;   /* number of spans of kind GONE */
    uint32_t tick;       /* number of ticks of the worker */

    /* Not 0: the arena's end, from slice leaving - 1 on, is being returned to the system. */
    size_t leaving;

    bool placed, reserved; /* the arena has an address; lm_os_place reserved its range */
    size_t slices_most;    /* maximum length of the arena */
    /* Length up to which the arena grows without asking for the machine's memory
     * (lm_limit_addresses). */
    size_t slices_cheap;
    size_t map_committed, pages_committed; /* bytes */

    enum { LM_WORKER_OFF, LM_WORKER_ON } worker; /* atomic (worker.c) */
    /* Atomic: a thread has had something to collect since the worker's last round began. */
    bool called;
    /* Atomic: the last worker was sent away before it was done. */
    bool unfinished;
    /* Atomic: the worker is in the layer above, and may hold that layer's locks. */
    bool collecting;
    /* Atomic: the worker is in lm_purge_collect_alone. */
    bool collecting_alone;
    /* Atomic: the program has had several threads, which fork has to stop. */
    bool many;
    /* Atomic: this process may start no worker, because its memory is another process's. */
    bool elsewhere;
    /* Atomic: the program has shut itself in, so no worker may run. */
    bool worker_forbidden;
    bool worker_missing; /* atomic: the last attempt to start a worker failed */
    /* Failed attempts in a row. Protected by `starting`, as is worker_skips. */
    uint32_t worker_failures;
    /* Calls of lm_purge_poke to skip before the next attempt. */
    uint32_t worker_skips;
    /* A thread that starts a worker holds it, with all signals blocked. */
    lm_lock_t starting;
    /* Atomic: number of the process that may have a worker; 0 before the start. */
    unsigned process;
    /* Atomic: number of calls in progress that want no worker. The worker sleeps on it. */
    uint32_t stop;
    /* Atomic: the worker holds `lock` and may be changing what it protects. */
    bool worker_inside;
    struct {
        /* The span that the worker purges without the lock; slices 0: none. */
        size_t first, slices;
        uint32_t stamp;
    } hand;
#if LM_SECURE
    lm_hurry_t hurry;
#endif
    /* Number of spans that threads of the program use without the lock. */
    unsigned busy;
    /* Atomic: slices to take before the next huge page is made, because the last one was slow. */
    size_t huge_rest;
    size_t huge_pause;            /* value of huge_rest after the last huge page; 0: it was fast */
    size_t purged_bytes, purges;  /* since the start, for statistics */
    lm_tally_t mapped, committed; /* slices; `now` is set when it is read */
    size_t grown;                 /* number of times that the arena grew */
    size_t purged_lately;         /* slices purged; older ones count less */
    /* Slices of purged_lately for which memory was taken anew. */
    size_t retaken_lately;

    /* Slices of other mappings that the arena has stepped over. */
    size_t gap_slices;
    /* Slices of spans whose pages are moving to another span, and so count twice. */
    size_t moving_slices;
    size_t held_most; /* slices held, at peak (limit.c) */
    /* Times that the soft limit was crossed, and that the hard one refused a request. */
    size_t crossings, refusals;
    bool scarce; /* atomic: the system has refused memory at least once */
    /* Mapped slices above which a limit of the program is near; 0: no limit (gone.c). */
    size_t near_at;
    /* Atomic: the soft limit is exceeded, or was and is not yet well undercut. */
    bool above;
    lm_pressure_t group_pressure; /* atomic: pressure of the control group */
} lm_space_t;

extern lm_space_t lm_space;

/* The functions below are called with lm_space.lock held, unless stated otherwise. */

LM_INLINE lm_page_t *lm_space_slot(size_t slice) { return &lm_arena.pages[slice]; }

LM_INLINE bool lm_space_is_free(const lm_page_t *span) {
    return span->kind >= LM_KIND_CLEAN && span->kind <= LM_KIND_REFUSED;
}

/* Returns the bin for spans of that size. */
LM_INLINE size_t lm_space_bin(size_t slices) {
    LM_ASSERT(slices > 0);
    /* In this form the sanitizers' gcc does not warn of a bin before the first. */
    if (slices - 1 < LM_EXACT_BINS) return slices - 1;
    unsigned log2 = lm_log2(slices);
    size_t bin = LM_EXACT_BINS + 2 * (log2 - 5) + ((slices >> (log2 - 1)) & 1);
    return bin < LM_BINS ? bin : LM_BINS - 1;
}

LM_INLINE void lm_space_look_at_mapped(void) {
    LM_ASSERT(lm_space.gone_slices <= lm_arena.slices);
    lm_space.mapped.now = lm_arena.slices - lm_space.gone_slices;
    lm_tally_look(&lm_space.mapped);
}

/* Returns the group of a span in use, or of a free one. */
LM_INLINE lm_group_t lm_space_group(const lm_page_t *span) {
#if LM_SECURE
    return (lm_group_t)span->group;
#else
    (void)span;
    return LM_GROUP_LARGE;
#endif
}

LM_INLINE void lm_space_set_group(size_t slice, lm_group_t group) {
#if LM_SECURE
    lm_space_slot(slice)->group = (uint8_t)group;
#else
    (void)slice, (void)group;
#endif
}

LM_INLINE size_t lm_free_kind(lm_kind_t kind, lm_group_t group) {
    LM_ASSERT((kind >= LM_KIND_CLEAN && kind <= LM_KIND_REFUSED) || kind == LM_KIND_GONE);
    return 3 * (size_t)group + (kind == LM_KIND_CLEAN ? 0 : kind == LM_KIND_GONE ? 2 : 1);
}

/* Returns the group of a span of that kind. block_bytes: size of its blocks; 0: it is no page of
 * blocks. */
LM_INLINE lm_group_t lm_space_group_for(lm_kind_t kind, size_t block_bytes) {
#if LM_SECURE
    if (block_bytes > 0)
        return block_bytes <= 128    ? LM_GROUP_TINY
               : block_bytes <= 1024 ? LM_GROUP_SMALL
                                     : LM_GROUP_MEDIUM;
    return kind == LM_KIND_META ? LM_GROUP_META : LM_GROUP_LARGE;
#else
    (void)kind, (void)block_bytes;
    return LM_GROUP_LARGE;
#endif
}

/* Returns whether the slice is an end of a free span of that kind and group. */
LM_INLINE bool lm_space_is_free_as(size_t slice, lm_kind_t kind, lm_group_t group) {
    const lm_page_t *end = lm_space_slot(slice);
    return end->kind == kind && lm_space_group(end) == group;
}

/* Makes [first, first+slices) a free span of that kind, and merges it with its neighbours. Its
 * group is that of the first slot. stamp is for dirty spans; the stamp of the larger part wins, so
 * that churn at its edge keeps no large span from ageing. Returns the merged span. */
lm_page_t *lm_space_insert(size_t first, size_t slices, lm_kind_t kind, uint32_t stamp);

/* Returns the dirty slices that a purge may give back: all except refused ones. Without the lock it
 * is a guess. */
LM_INLINE size_t lm_space_loose(void) {
    /* Relaxed: without the lock both are guesses, and they may be read at slightly different
     * times. */
    size_t dirty = lm_load_relaxed(&lm_space.dirty_slices),
           refused = lm_load_relaxed(&lm_space.refused_slices);
    return dirty > refused ? dirty - refused : 0;
}

/* Returns the worker's work in slices: lm_space_loose() and one for each dirty tail (tails.c).
 * Without the lock it is a guess. */
LM_INLINE size_t lm_space_due(void) {
    /* Relaxed: without the lock it is a guess. */
    return lm_space_loose() + lm_load_relaxed(&lm_space.tails_listed);
}

/* Returns the slices that are not free. */
LM_INLINE size_t lm_space_used(void) {
    LM_ASSERT(lm_load_relaxed(&lm_space.dirty_slices) + lm_load_relaxed(&lm_space.clean_slices) +
                  lm_space.spare_slices + lm_load_relaxed(&lm_space.gone_slices) <=
              lm_arena.slices);
    return lm_arena.slices - lm_space.dirty_slices - lm_space.clean_slices - lm_space.spare_slices -
           lm_space.gone_slices;
}

/* Notes that `slices` slices are clean again, before they are counted as clean. */
LM_INLINE void lm_space_cleaned(size_t slices) {
    LM_ASSERT(lm_space.clean_slices + lm_space.gone_slices + slices <= lm_arena.slices);
    lm_space.committed.now = lm_arena.slices - lm_space.clean_slices - lm_space.gone_slices;
    lm_tally_look(&lm_space.committed);
    lm_space.committed.gone += slices;
}

/* Removes a free span from its lists. */
void lm_space_remove(lm_page_t *span);

/* Called after a purge with the clean span that contains the purged memory. Returns the arena's end
 * to the system, and the memory of unused descriptors. */
void lm_space_settle(lm_page_t *span);

/* Makes the arena end at that slice. What lies after it must have been returned to the system. */
void lm_space_end_at(size_t slice);

/* Labels [first, first+slices) as a span of that kind, at both ends. */
void lm_space_label(size_t first, size_t slices, lm_kind_t kind);

/* Cuts [first, first+slices) out of a free span that contains it. */
void lm_space_carve(lm_page_t *span, size_t first, size_t slices, lm_kind_t kind);

/* Makes the arena end in a clean span of at least `slices` slices that belongs to no group
 * (grow.c). Returns false iff there is no memory. */
bool lm_space_grow(size_t slices);

/* Returns whether the system could give `slices` slices more than the arena has (grow.c). */
bool lm_space_could_grow(size_t slices);

/* Returns a clean span of at least `slices` slices that belongs to no group (arena.c). Extends the
 * arena if needed. Returns NULL iff there is no memory. */
lm_page_t *lm_space_clean(size_t slices);

#if LM_SECURE
/* Gives memory of no group to the group (group.c). Returns a clean span of at least `slices`
 * slices, or NULL iff there is no memory. */
lm_page_t *lm_group_grow(lm_group_t group, size_t slices);
/* Gives a whole free span to the group (group.c). Returns the merged span that contains it. */
lm_page_t *lm_group_claim(lm_group_t group, lm_page_t *span);
/* Removes the guards of pages from the slices of a busy span, or of a span of the caller (guard.c).
 * Returns false iff the system refused. Needs no lock. */
bool lm_space_unmark(size_t first, size_t slices);
/* As lm_space_unmark, for slices that were purged: they may have guards again (guard.c). */
bool lm_space_purged(size_t first, size_t slices);
/* Called when the group is about to take `slices` slices, dirty or clean (group.c). Purges dirty
 * spans of other groups if clearly more would be resident than the program has ever used at once.
 * Returns whether it released the lock meanwhile; the caller then calls lm_purge_poke once it has
 * released the lock. */
bool lm_group_hurry(lm_group_t group, size_t slices, bool dirty);
/* Returns a clean span of the group with at least `slices` slices, or NULL iff there is none
 * (arena.c). */
lm_page_t *lm_space_clean_of(lm_group_t group, size_t slices);
/* Records that a huge page backs these clean slices of the group, or of no group. They belong to
 * the group now (group.c). */
void lm_group_backed(lm_group_t group, size_t first, size_t slices);
/* Moves all clean spans of groups to no group, because there is no more memory (group.c). Returns
 * false iff there were none. */
bool lm_group_forget(void);
/* Gives up a held span with its addresses: its guard cannot be made accessible (gone.c). Takes the
 * lock. */
void lm_gone_drop(lm_page_t *span);
#endif

/* Returns the best span of kind GONE and that group with at least `slices` slices, or NULL iff
 * there is none (arena.c). */
lm_page_t *lm_space_find_gone(lm_group_t group, size_t slices);
/* Maps a part of a span of kind GONE again (gone.c). Returns a clean span of that group with at
 * least `slices` slices; NULL iff there is no gone span, or the system gives no memory. */
lm_page_t *lm_gone_open(lm_group_t group, size_t slices);
/* Unmaps a clean span if the program's addresses are limited (gone.c). Returns false iff nothing
 * has changed; otherwise the span is no longer clean. */
bool lm_gone_settle(lm_page_t *span);
/* Unmaps clean spans of at least `least` slices, the longest first (gone.c). Returns whether any
 * was unmapped. */
bool lm_gone_all(size_t least);
/* Unmaps the clean spans that are worth it, if the program's addresses are limited (gone.c). For
 * explicit requests. */
void lm_gone_trim(void);
/* Lowers the arena's end below a last span of kind GONE that belongs to no group (gone.c). */
void lm_gone_lower_end(void);
/* Reads the program's limits before the arena grows, each time that it has doubled (gone.c). */
void lm_gone_look_at_limits(void);
/* Records that the system has refused memory (gone.c). If a limit of the program is the reason, it
 * counts as near until loam has a quarter of its present addresses. */
void lm_gone_refused(void);
/* Returns whether a limit of the program's addresses or data is near: loam has half of it, or was
 * refused memory (gone.c). If so, a thread that frees gives memory back itself, and the arena maps
 * no more than is needed. */
LM_INLINE bool lm_gone_near(void) {
    return LM_UNLIKELY(lm_space.near_at != 0) &&
           lm_arena.slices - lm_space.gone_slices > lm_space.near_at;
}

#if LM_SECURE
/* Notes that the group has taken clean slices (group.c). Returns how many of them lm_group_hurry
 * had purged. */
size_t lm_group_retaken(lm_group_t group, size_t slices);
/* Notes how much is in use, because spans are about to be given back (group.c). */
void lm_group_used(void);
/* Notes how much of a freed large object's span held memory (group.c). */
void lm_group_large_goes(const lm_page_t *span);
/* Counts a free span that enters or leaves its list. slices is negative (modulo 2^64) if it
 * leaves. */
LM_INLINE void lm_group_dirty(lm_kind_t kind, lm_group_t group, size_t slices) {
    if (kind == LM_KIND_DIRTY && group == LM_GROUP_LARGE) lm_space.hurry.dirty_large += slices;
}
#else
LM_INLINE size_t lm_group_retaken(lm_group_t group, size_t slices) {
    (void)group, (void)slices;
    return 0;
}
LM_INLINE void lm_group_used(void) {}
LM_INLINE void lm_group_large_goes(const lm_page_t *span) { (void)span; }
LM_INLINE void lm_group_dirty(lm_kind_t kind, lm_group_t group, size_t slices) {
    (void)kind, (void)group, (void)slices;
}
#endif

/* Returns the first slice of the span whose address is a multiple of align_slices slices. */
size_t lm_space_aligned(const lm_page_t *span, size_t align_slices);

/* Counts a large object that ceases to be one. */
void lm_space_large_goes(const lm_page_t *span);
#if LM_TOOLS
/* Counts a page of blocks that ceases to be one. */
void lm_space_page_goes(lm_page_t *page);
#endif

/* Ends the calling thread's use of a busy span. In the child of a fork from a signal handler the
 * count may be 0 already. */
LM_INLINE void lm_space_not_busy(void) {
    if (lm_space.busy > 0) lm_space.busy--;
}

/* Returns the number of spans that the worker or a thread purges without the lock. */
LM_INLINE unsigned lm_space_busy(void) { return lm_space.busy + (lm_space.hand.slices != 0); }

/* Waits until no span is busy. The lock is held before and after, but not between. */
void lm_space_rest(void);

/* Takes lm_space.lock in a function that runs in the worker or in a thread of the program. Once the
 * worker must stop, it does not wait for the lock: it ends, and leaves lm_space.hand to the next
 * worker. While it collects it always waits, because it may hold locks of the heaps. */
void lm_space_enter(void);
/* Releases lm_space.lock after lm_space_enter. */
void lm_space_leave(void);

/* As lm_space_enter, but the worker always waits for the lock: it has a span that must not be
 * lost. */
void lm_space_enter_to_give(void);

/* Puts the span that an ended worker was purging among the dirty ones (give_back.c). */
void lm_space_take_hand(void);

/* Adds [first, first+slices) to the free spans without merging it (arena.c). */
void lm_space_add(size_t first, size_t slices, lm_kind_t kind, lm_group_t group, uint32_t stamp);

/* Frees what the worker of another process held when this process was copied from it (repair.c). */
void lm_space_repair(void);
/* Rebuilds the lists of free spans from the descriptors alone (repair.c). The lock is held, or no
 * other thread exists. */
void lm_space_list_anew(void);

/* LM_HUGE_SLICES: slices of 2 MiB. LM_HUGE_SPAN: slices that contain an aligned 2 MiB wherever they
 * start (huge.c). */
enum { LM_HUGE_SLICES = 32, LM_HUGE_SPAN = 2 * LM_HUGE_SLICES - 1 };

/* Returns whether a huge page should be made for a page of `slices` slices, of which none is dirty.
 * crowded: the other pages of its class are full (huge.c). */
bool lm_huge_due(size_t slices, bool crowded);

/* Notes how long a huge page took. After a slow one, none is due for a while (huge.c). */
void lm_huge_took(uint64_t us);

/* Makes 2 MiB of clean memory resident, as a dirty span of the group (huge.c). Returns false iff
 * there is no clean memory. Releases the lock meanwhile. */
bool lm_huge_back(lm_group_t group);

/* Gives a range's span back (range.c). */
void lm_range_give(lm_page_t *span);

/* As lm_span_extend_by and lm_span_shrink, for a span of a range (range.c). Both take the lock. */
bool lm_range_extend(lm_page_t *span, size_t slices);
void lm_range_shrink(lm_page_t *span, size_t slices);

/* Calls visit for each span in use of the ranges outside the arena (range.c). */
void lm_range_visit(void (*visit)(lm_page_t *span, void *context), void *context);
/* Returns the span in use of a range outside the arena that contains p; NULL iff there is none
 * (range.c). */
lm_page_t *lm_range_holding(const void *p);

/* Checks the invariant of ranges (range.c). */
void lm_range_check(void);
/* Sets the numbers of ranges in *stats (range.c). */
void lm_range_stats(lm_span_stats_t *stats);

/* Purges free memory of the ranges that allow it (range.c). Returns the slices given back. */
size_t lm_range_purge(void);

/* Returns the ticks that a dirty span waits (purge.c). */
uint32_t lm_purge_ticks(void);

/* Returns how many of these ticks count as elapsed for a span that no thread has used for a while
 * (purge.c). */
uint32_t lm_purge_ticks_rested(void);

#if LM_SECURE
/* Purges the start of a dirty span, up to the first multiple of 2 MiB (give_back.c). Returns the
 * slices given back. The lock is held before and after, but not between. */
size_t lm_purge_part(lm_page_t *span);
#endif

/* Purges at most `most` slices of one dirty span of at least that age (give_back.c). A refused span
 * is set aside, and the next one tried. Returns the slices given back; 0 iff no span of that age
 * had any. The lock is held before and after, but not between. */
size_t lm_purge_one(uint32_t ticks, size_t most);

/* A tail of less than 1/LM_TAIL_PART of a large object stays with it (tails.c). */
enum { LM_TAIL_PART = 10 };

/* Returns whether the tail of a large object of `bytes` usable bytes is worth a purge. */
LM_INLINE bool lm_tail_worth(const lm_page_t *span, size_t bytes) {
    size_t end = (size_t)span->slices << LM_SLICE_SHIFT;
    return bytes < end && end - bytes >= bytes / LM_TAIL_PART;
}

/* Puts a large object, whose `bytes` are set, into the list of dirty tails. Returns true if the
 * caller must call lm_purge_poke(true) once it has released the lock. */
LM_INLINE bool lm_tail_list(lm_page_t *span) {
    LM_ASSERT(span->kind == LM_KIND_LARGE && span->range == 0);
    /* One call in EACH pokes: that many tails, of half a slice on average, are 512 KiB. */
    enum { EACH = 16 };
    size_t listed = lm_space.tails_listed + 1;
    span->stamp = lm_space.tick;
    lm_list_add_last(&lm_space.tails, &span->age);
    /* Relaxed, both: read under the lock, or as a guess. */
    lm_store_relaxed(&span->tail, true);
    lm_store_relaxed(&lm_space.tails_listed, listed);
    return listed % EACH == 0;
}

/* Removes a span from the list of dirty tails, if it is in it. */
LM_INLINE void lm_tail_drop(lm_page_t *span) {
    if (!span->tail) return;
    LM_ASSERT(lm_lock_held(&lm_space.lock) && lm_node_linked(&span->age));
    LM_ASSERT(lm_load_relaxed(&lm_space.tails_listed) > 0);
    lm_list_remove(&lm_space.tails, &span->age);
    lm_store_release(&span->tail, false); /* release: after a purge of the tail */
    lm_store_relaxed(&lm_space.tails_listed, lm_space.tails_listed - 1);
}

/* Purges the tails that have been listed for at least `ticks` ticks, about `most` bytes (tails.c).
 * Returns the bytes given back. The lock is held before and after, but not all the time between. A
 * worker that must stop ends in here. */
size_t lm_tails_purge(uint32_t ticks, size_t most);

/* Rebuilds the list of dirty tails, in a copy of a process whose worker was changing it
 * (tails.c). */
void lm_tails_list_anew(void);

/* Checks the invariant of tails (tails.c). */
void lm_tails_check(void);

/* Begins a turn, if there are refused spans (give_back.c). If it is time, makes some of them plain
 * dirty ones again, which the next purge tries; the time between attempts doubles. */
void lm_refused_turn(void);

/* Makes all refused spans plain dirty ones again (give_back.c). */
void lm_refused_retry(void);

/* Does one round of the worker (purge.c). The lock is not held all the time. Returns whether there
 * is more to purge. */
bool lm_purge_tick(void);

/* Returns the length of a tick in milliseconds (purge.c). */
uint32_t lm_purge_tick_ms(void);

/* Notes that `slices` slices were purged, to learn whether that is regretted (purge.c). */
void lm_purge_remember(size_t slices);

/* Returns whether `slices` clean slices may be taken, of which `spared` others become clean soon
 * (limit.c). If a limit is near, it purges, and releases the lock meanwhile. */
bool lm_limit_admits(size_t slices, size_t spared);

/* Lowers lm_space.slices_most to the number of slices that the machine's memory can describe
 * (limit.c). Called once, when the arena is about to exceed slices_cheap. */
void lm_limit_addresses(void);

/* Returns whether `slices` slices may become dirty although no request needs them (limit.c). */
bool lm_limit_leaves(size_t slices);

/* Returns how near the process is to a limit; the worker purges accordingly (limit.c). Needs no
 * lock. Relaxed, both: hints, which the next look corrects. */
LM_INLINE lm_pressure_t lm_limit_pressure(void) {
    return lm_load_relaxed(&lm_space.above) ? LM_PRESSURE_HIGH
                                            : lm_load_relaxed(&lm_space.group_pressure);
}

/* Updates the pressure; the worker calls it once a tick, without a lock (limit.c). */
void lm_limit_tick(void);

/* Resets the state in the child of a fork (limit.c). */
void lm_limit_after_fork(void);

/* Frees the lock that the worker of the copied process may have held (limit.c). */
void lm_limit_repair(void);
/* Frees the lock in the child of a fork that stopped no thread (limit.c). */
void lm_limit_after_torn_fork(void);

/* Forgets the worker in a copy of a process, and of the calls that want no worker keeps only the
 * caller's (worker.c). */
void lm_purge_after_fork(void);

/* Ends the calling worker. Returns only in a thread of the program (worker.c). */
void lm_worker_leave(void);

/* Notes that clean memory was taken, for which purged memory might have served (purge.c). */
void lm_purge_retaken(size_t slices);

/* Purges in the caller's thread if no worker may do it and too much is dirty (purge.c). Releases
 * the lock meanwhile. */
void lm_purge_inline(void);

#endif

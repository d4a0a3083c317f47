/* room.h: what the files of this folder share; nobody else includes it. */
#ifndef LM_SPAN_ROOM_H
#define LM_SPAN_ROOM_H

#include "span/span.h"

/* Groups of memory (group.c): one but in secure builds. */
#if LM_SECURE
typedef enum lm_group {
    LM_GROUP_LARGE, /* large objects, and what is nobody's yet */
    LM_GROUP_META,
    LM_GROUP_TINY,   /* blocks to 128 bytes */
    LM_GROUP_SMALL,  /* to 1 KiB */
    LM_GROUP_MEDIUM, /* the others */
    LM_GROUPS
} lm_group_t;
#else
typedef enum lm_group { LM_GROUP_LARGE, LM_GROUPS } lm_group_t;
#endif

/* Free spans of each group are of three kinds: dirty, clean and gone. Each kind has bins by size:
 * one for each size up to 32 slices, then two for each doubling. */
enum { LM_BINS = 64, LM_EXACT_BINS = 32, LM_FREE_KINDS = 3 * LM_GROUPS };

#if LM_SECURE
/* Purges by a thread that is about to take new memory (group.c). Under lm_space.lock. */
typedef struct lm_hurry {
    size_t used_most;         /* slices: the most that were ever in use at once */
    size_t purged[LM_GROUPS]; /* slices of each group that were purged so and not taken anew */
    uint32_t when[LM_GROUPS]; /* tick of the last purge of the group's slices */
    size_t regrets;           /* slices purged so and taken anew, less an allowance for each tick */
    size_t own_purged;        /* as above, for large objects that purge their own group */
    size_t own_regrets;
    uint32_t own_when;
    uint32_t tick;       /* until which the regrets have been lowered */
    size_t dirty_large;  /* slices: dirty spans of LM_GROUP_LARGE */
    size_t large_slices; /* slices of the spans of large objects that were freed lately */
    size_t large_held;   /* slices of these that held memory */
} lm_hurry_t;
#endif

typedef enum lm_pressure { LM_PRESSURE_NONE, LM_PRESSURE_SOME, LM_PRESSURE_HIGH } lm_pressure_t;

typedef struct lm_space {
    lm_lock_t lock; /* protects everything in here, and every descriptor of a free span */
    uint64_t filled[LM_FREE_KINDS]; /* a bit for each bin that is not empty */
    lm_list_t bins[LM_FREE_KINDS][LM_BINS];
    lm_list_t aged;        /* dirty spans, except those that were refused */
    lm_list_t refused;     /* dirty spans that the system did not take back */
    size_t refused_slices; /* atomic: slices of the spans in `refused`; part of dirty_slices */
    lm_list_t tails;       /* large objects with a dirty tail, oldest first (tails.c) */
    size_t tails_listed;   /* atomic: spans in `tails` */
    uint32_t turn;         /* counts ticks of the worker and, without one, spans given back */
    uint32_t retry_turn;   /* the turn in which refused spans are tried again */
    uint32_t retry_wait;   /* turns between the last attempt and that one */
    bool unlocked;         /* atomic: memory was unlocked; the next turn tries them all again */
    size_t dirty_slices, clean_slices, meta_slices, page_slices;
    size_t spare_slices; /* inside the arena, of ranges */
    size_t gone_slices;  /* of spans of kind GONE, which are gone_spans in number */
    size_t gone_spans;
    uint32_t tick; /* the worker's clock */

    size_t leaving; /* not 0: the arena's end from slice leaving - 1 on is being given back */

    bool placed, reserved;
    size_t slices_most;  /* where the arena must end */
    size_t slices_cheap; /* to which length nobody asks how much memory there is for its map */
    size_t map_committed, pages_committed; /* bytes */

    enum { LM_WORKER_OFF, LM_WORKER_ON } worker; /* atomic; worker.c */
    bool called;     /* atomic: a thread had something to collect since the worker last began to */
    bool unfinished; /* atomic: the last worker was sent away before it was done */
    bool collecting; /* atomic: the worker is in the layer above, and may hold that layer's locks */
    bool many;       /* atomic: the program has had several threads, which fork has to stop */
    bool elsewhere;  /* atomic: this process may start no worker: its memory is another one's */
    bool worker_forbidden;    /* for good: the program has shut itself in */
    bool worker_missing;      /* atomic: the last attempt to start a worker failed */
    uint32_t worker_failures; /* failed attempts in a row; under `starting`, as the next */
    uint32_t worker_skips;    /* calls of lm_purge_poke to be skipped before the next attempt */
    lm_lock_t starting;       /* held, with all signals blocked, by a thread that starts a worker */
    unsigned process; /* atomic: number of the process that may have a worker; 0 before the start */
    uint32_t stop;    /* atomic: calls in progress that want no worker; the worker sleeps on it */
    bool worker_inside; /* atomic: the worker holds `lock` and may be changing what it protects */
    struct {
        size_t first, slices; /* the span that the worker purges without the lock; slices 0: none */
        uint32_t stamp;
    } hand;
#if LM_SECURE
    lm_hurry_t hurry;
#endif
    unsigned busy;     /* spans in use by a thread of the program without the lock */
    size_t huge_rest;  /* atomic: slices before the next huge page: the last one was slow */
    size_t huge_pause; /* how many it was, the last time; 0: the last one was fast */
    size_t purged_bytes, purges;
    lm_tally_t mapped, committed; /* slices; `now` is set when it is looked at */
    size_t grown;                 /* times that the arena got longer */
    size_t purged_lately;         /* slices, the older the less */
    size_t retaken_lately;        /* those of them for which memory was taken anew */

    size_t gap_slices;    /* strangers' memory that the arena has stepped over */
    size_t moving_slices; /* of spans whose pages are moving to another one, and so count twice */
    size_t held_most;     /* slices; limit.c, as what follows */
    size_t crossings, refusals;
    bool scarce;    /* atomic: the system has given no more, once */
    size_t near_at; /* slices mapped from which a limit is near; 0: none is (gone.c) */
    bool above;     /* atomic: the soft limit, and not yet well below it again */
    lm_pressure_t group_pressure; /* atomic: of the control group */
} lm_space_t;

extern lm_space_t lm_space;

/* Below: called with lm_space.lock held. */

LM_INLINE lm_page_t *lm_space_slot(size_t slice) { return &lm_arena.pages[slice]; }

LM_INLINE bool lm_space_is_free(const lm_page_t *span) {
    return span->kind >= LM_KIND_CLEAN && span->kind <= LM_KIND_REFUSED;
}

/* The bin for spans of that size. */
LM_INLINE size_t lm_space_bin(size_t slices) {
    /* In this form the sanitizers' gcc does not think of a bin before the first. */
    if (slices - 1 < LM_EXACT_BINS) return slices - 1;
    unsigned log2 = lm_log2(slices);
    size_t bin = LM_EXACT_BINS + 2 * (log2 - 5) + ((slices >> (log2 - 1)) & 1);
    return bin < LM_BINS ? bin : LM_BINS - 1;
}

LM_INLINE void lm_space_look_at_mapped(void) {
    lm_space.mapped.now = lm_arena.slices - lm_space.gone_slices;
    lm_tally_look(&lm_space.mapped);
}

/* The memory of a span in use, or of a free one. */
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
    return 3 * (size_t)group + (kind == LM_KIND_CLEAN ? 0 : kind == LM_KIND_GONE ? 2 : 1);
}

/* The group of a span for blocks of so many bytes (0: it is none), or of that kind. */
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

/* Whether the slice is an end of a free span of that kind and group. */
LM_INLINE bool lm_space_is_free_as(size_t slice, lm_kind_t kind, lm_group_t group) {
    const lm_page_t *end = lm_space_slot(slice);
    return end->kind == kind && lm_space_group(end) == group;
}

/* Makes [first, first+slices) a free span of that kind, of the group that the first slot says,
 * merged with its neighbours. stamp is for dirty ones; the larger part's stamp wins, so that churn
 * at its edge keeps no large span from ageing. Returns what it became. */
lm_page_t *lm_space_insert(size_t first, size_t slices, lm_kind_t kind, uint32_t stamp);

/* Dirty slices that a purge may give back: all except the refused ones. No lock needed for a
 * guess. */
LM_INLINE size_t lm_space_loose(void) {
    /* Relaxed: without the lock both are guesses, and the difference may be taken a moment
     * apart. */
    size_t dirty = lm_load_relaxed(&lm_space.dirty_slices),
           refused = lm_load_relaxed(&lm_space.refused_slices);
    return dirty > refused ? dirty - refused : 0;
}

/* Returns the worker's work in slices: those, and one for each dirty tail (tails.c). No lock needed
 * for a guess. */
LM_INLINE size_t lm_space_due(void) {
    return lm_space_loose() + lm_load_relaxed(&lm_space.tails_listed); /* relaxed: as above */
}

/* Slices not free. */
LM_INLINE size_t lm_space_used(void) {
    return lm_arena.slices - lm_space.dirty_slices - lm_space.clean_slices - lm_space.spare_slices -
           lm_space.gone_slices;
}

/* So many slices are clean again, though not yet counted as that. */
LM_INLINE void lm_space_cleaned(size_t slices) {
    lm_space.committed.now = lm_arena.slices - lm_space.clean_slices - lm_space.gone_slices;
    lm_tally_look(&lm_space.committed);
    lm_space.committed.gone += slices;
}

/* Takes a free span out of its lists. */
void lm_space_remove(lm_page_t *span);

/* After a purge, with the clean span that it is part of now: gives the end of the arena back, and
 * the memory of descriptors that say nothing. */
void lm_space_settle(lm_page_t *span);

/* The arena ends at that slice from now on: what lies behind it has been given back. */
void lm_space_end_at(size_t slice);

/* Makes [first, first+slices) a span in use: both its ends say so. */
void lm_space_label(size_t first, size_t slices, lm_kind_t kind);

/* Cuts [first, first+slices) out of the free span, which covers it. */
void lm_space_carve(lm_page_t *span, size_t first, size_t slices, lm_kind_t kind);

/* grow.c: makes the arena end in a clean span of at least so many slices that belongs to no group.
 * Returns false iff there is no memory. */
bool lm_space_grow(size_t slices);

/* grow.c: whether the system could give so many slices more than the arena has. */
bool lm_space_could_grow(size_t slices);

/* arena.c: returns a clean span of at least so many slices that belongs to no group, from a longer
 * arena if need be; NULL iff there is no memory. */
lm_page_t *lm_space_clean(size_t slices);

#if LM_SECURE
/* group.c: makes some of the memory that is nobody's the group's: a clean span of at least so many
 * slices, NULL iff there is no memory; the free span as a whole, as a part of what is returned. */
lm_page_t *lm_group_grow(lm_group_t group, size_t slices);
lm_page_t *lm_group_claim(lm_group_t group, lm_page_t *span);
/* guard.c: no slice of a busy span, or of the caller's own, ends in a guard any longer. false iff
 * the system refused. No lock needed. */
bool lm_space_unmark(size_t first, size_t slices);
/* The same, once they were purged: they may have guards again. */
bool lm_space_purged(size_t first, size_t slices);
/* group.c: the group is about to take so many slices; dirty ones, or clean ones. Purges dirty spans
 * of other groups where clearly more would be resident than the program has ever used at once.
 * Returns whether it gave the lock up meanwhile. The caller calls lm_purge_poke once it has given
 * the lock. */
bool lm_group_hurry(lm_group_t group, size_t slices, bool dirty);
/* arena.c: returns a clean span of the group with at least so many slices, NULL iff there is
 * none. */
lm_page_t *lm_space_clean_of(lm_group_t group, size_t slices);
/* group.c: a huge page backs these clean slices of the group's, or of no group's. They are the
 * group's now. */
void lm_group_backed(lm_group_t group, size_t first, size_t slices);
/* Where there is no more memory: what any group has purged is nobody's. false iff there was
 * none. */
bool lm_group_forget(void);
/* gone.c: gives a span that was held back with its addresses: its guard cannot be made accessible.
 * Takes the lock. */
void lm_gone_drop(lm_page_t *span);
#endif

/* arena.c: the best span of kind GONE and that group with at least so many slices, NULL iff there
 * is none. */
lm_page_t *lm_space_find_gone(lm_group_t group, size_t slices);
/* gone.c: makes a part of such a span accessible: returns a clean span of at least so many slices
 * and of that group, NULL iff there is none or the system gives no memory. */
lm_page_t *lm_gone_open(lm_group_t group, size_t slices);
/* gone.c: gives the addresses of a clean span back where the program's addresses are limited.
 * Returns false iff nothing has changed; otherwise the span is no longer one. */
bool lm_gone_settle(lm_page_t *span);
/* gone.c: gives the addresses of clean spans of at least so many slices back, the longest first.
 * Returns whether any went. */
bool lm_gone_all(size_t least);
/* gone.c: on request, the same for what is worth it, where the program's addresses are limited. */
void lm_gone_trim(void);
/* gone.c: lets the arena end before spans of kind GONE that are nobody's. */
void lm_gone_lower_end(void);
/* gone.c: looks at the program's limits before the arena grows, each time that it has doubled. */
void lm_gone_look_at_limits(void);
/* gone.c: the system has refused memory. If a limit of the program's is the reason, it counts as
 * near until loam has a quarter of the addresses that it has now. */
void lm_gone_refused(void);
/* gone.c: whether a limit of the program's addresses or of its data is near: loam has half of it,
 * or was refused memory. Then a thread that frees gives memory back itself, and no more is mapped
 * than is needed. */
LM_INLINE bool lm_gone_near(void) {
    return LM_UNLIKELY(lm_space.near_at != 0) &&
           lm_arena.slices - lm_space.gone_slices > lm_space.near_at;
}

#if LM_SECURE
/* group.c: the group has taken clean slices. Returns how many of them lm_group_hurry had purged. */
size_t lm_group_retaken(lm_group_t group, size_t slices);
/* group.c: spans are about to be given back. Notes how much is in use. */
void lm_group_used(void);
/* group.c: a large object was freed. Notes how much of its span held memory. */
void lm_group_large_goes(const lm_page_t *span);
/* Counts a free span that enters or leaves its list; slices are negative where it leaves. */
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

/* The first slice of the span whose address is a multiple of so many slices. */
size_t lm_space_aligned(const lm_page_t *span, size_t align_slices);

/* Counts a large object that is one no more. */
void lm_space_large_goes(const lm_page_t *span);
#if LM_TOOLS
/* The same of a page of blocks. */
void lm_space_page_goes(lm_page_t *page);
#endif

/* The calling thread has done with a busy span. The child of a fork from a signal handler may have
 * forgotten it. */
LM_INLINE void lm_space_not_busy(void) {
    if (lm_space.busy > 0) lm_space.busy--;
}

/* Number of spans that the worker or a thread purges without the lock. */
LM_INLINE unsigned lm_space_busy(void) { return lm_space.busy + (lm_space.hand.slices != 0); }

/* Waits, lock held before and after but not between, until no span is busy. */
void lm_space_rest(void);

/* Take and give lm_space.lock in functions that run in the worker or in a thread of the program.
 * The worker does not wait for the lock once it must stop: it ends where it is, and leaves
 * lm_space.hand to the next one. It waits in any case while it collects, because it may hold locks
 * of the heaps then. */
void lm_space_enter(void);
void lm_space_leave(void);

/* As lm_space_enter, but the worker waits for the lock in any case: it has something in its hands
 * that must not be lost. */
void lm_space_enter_to_give(void);

/* give_back.c: puts the span that an ended worker was purging among the dirty ones. Lock held. */
void lm_space_take_hand(void);

/* arena.c: puts [first, first+slices) among the free spans as it is, without a look at its
 * neighbours. */
void lm_space_add(size_t first, size_t slices, lm_kind_t kind, lm_group_t group, uint32_t stamp);

/* repair.c: frees what the worker of another process held when this process was copied from it. */
void lm_space_repair(void);
/* The lists of free spans, from the descriptors alone. Lock held, or no other thread exists. */
void lm_space_list_anew(void);

/* huge.c: slices in which 2 MiB lie that are a multiple of 2 MiB, wherever it starts. */
enum { LM_HUGE_SLICES = 32, LM_HUGE_SPAN = 2 * LM_HUGE_SLICES - 1 };

/* huge.c: whether a huge page should be made for a page of so many slices, of which none is free.
 * crowded: the others of its class are full. */
bool lm_huge_due(size_t slices, bool crowded);

/* huge.c: notes how long one took: after a slow one, none is due for a while. */
void lm_huge_took(uint64_t us);

/* huge.c: makes 2 MiB of clean memory resident, as a dirty span of the group. false iff there are
 * none. Gives the lock up meanwhile. */
bool lm_huge_back(lm_group_t group);

/* range.c: gives a range's span back. */
void lm_range_give(lm_page_t *span);

/* range.c: does for a span of a range what lm_span_extend_by and lm_span_shrink do (grow.c). */
bool lm_range_extend(lm_page_t *span, size_t slices);
void lm_range_shrink(lm_page_t *span, size_t slices);

/* range.c: calls visit for spans in use of ranges that lie outside the arena; the one that p lies
 * in. */
void lm_range_visit(void (*visit)(lm_page_t *span, void *context), void *context);
lm_page_t *lm_range_holding(const void *p);

/* range.c: their part of the invariant, and of the numbers. */
void lm_range_check(void);
void lm_range_stats(lm_span_stats_t *stats);

/* range.c: gives free memory back where that is allowed. Returns slices. */
size_t lm_range_purge(void);

/* purge.c: ticks that a dirty span waits. */
uint32_t lm_purge_ticks(void);

/* purge.c: how many of them count as over where nobody has used it for a while. */
uint32_t lm_purge_ticks_rested(void);

#if LM_SECURE
/* give_back.c: purges the start of a dirty span, up to the first multiple of 2 MiB. Returns the
 * slices that went back. The lock is held before and after, but not between. */
size_t lm_purge_part(lm_page_t *span);
#endif

/* give_back.c: purges at most `most` slices of one dirty span of at least that age. What the system
 * refuses is set aside, and the next span is tried. Returns the slices that went back; 0 iff no
 * span of that age had any. The lock is held before and after, but not between. */
size_t lm_purge_one(uint32_t ticks, size_t most);

/* Tails of less than that part of a large object stay with it (tails.c). */
enum { LM_TAIL_PART = 10 };

/* Whether the tail of a large object of so many usable bytes is worth a purge. */
LM_INLINE bool lm_tail_worth(const lm_page_t *span, size_t bytes) {
    size_t end = (size_t)span->slices << LM_SLICE_SHIFT;
    return bytes < end && end - bytes >= bytes / LM_TAIL_PART;
}

/* Puts a large object, whose `bytes` are set, into the list of dirty tails. Returns true where so
 * many are listed that the caller shall call lm_purge_poke(true) once it has given the lock. Lock
 * held. */
LM_INLINE bool lm_tail_list(lm_page_t *span) {
    enum { EACH = 16 }; /* one call in so many: they are half a slice each on average, 512 KiB */
    size_t listed = lm_space.tails_listed + 1;
    span->stamp = lm_space.tick;
    lm_list_add_last(&lm_space.tails, &span->age);
    lm_store_relaxed(&span->tail, true); /* relaxed, both: under the lock, or a guess */
    lm_store_relaxed(&lm_space.tails_listed, listed);
    return listed % EACH == 0;
}

/* Takes a span out of that list, if it is there. Lock held. */
LM_INLINE void lm_tail_drop(lm_page_t *span) {
    if (!span->tail) return;
    lm_list_remove(&lm_space.tails, &span->age);
    lm_store_release(&span->tail, false); /* release: after a purge of the tail */
    lm_store_relaxed(&lm_space.tails_listed, lm_space.tails_listed - 1);
}

/* tails.c: purges the tails that have been listed for at least so many ticks. Returns the bytes
 * that went back. The lock is held before and after, but not all the time between; the worker ends
 * in here when it must stop. */
size_t lm_tails_purge(uint32_t ticks, size_t most);

/* tails.c: in a copy of a process whose worker was changing the list: makes it anew. Lock held. */
void lm_tails_list_anew(void);

/* tails.c: its part of the invariant. Lock held. */
void lm_tails_check(void);

/* give_back.c: begins a turn, where spans are refused. If it is time to, some of them count as
 * plain dirty ones again, which the next purge tries; the time between attempts doubles. Lock
 * held. */
void lm_refused_turn(void);

/* give_back.c: all refused spans count as plain dirty ones again. Lock held. */
void lm_refused_retry(void);

/* purge.c: one round of the worker's. Lock held, but not all the time. Returns whether there is
 * more to purge. */
bool lm_purge_tick(void);

/* purge.c: milliseconds of a tick. */
uint32_t lm_purge_tick_ms(void);

/* purge.c: notes that so many slices were purged, to learn whether that is regretted. Lock held. */
void lm_purge_remember(size_t slices);

/* limit.c: whether so many clean slices may be taken, of which `spared` others become clean soon.
 * Purges, and gives the lock up meanwhile, where a limit is near. */
bool lm_limit_admits(size_t slices, size_t spared);

/* limit.c: lowers lm_space.slices_most to what the machine's memory has room to describe. It is
 * called once, when the arena is about to have more than slices_cheap slices. Lock held. */
void lm_limit_addresses(void);

/* limit.c: whether so many may become dirty without anybody's need. */
bool lm_limit_leaves(size_t slices);

/* limit.c: what the process is near to: its worker purges accordingly. No lock needed. */
/* Relaxed, both: hints for the next look. */
LM_INLINE lm_pressure_t lm_limit_pressure(void) {
    return lm_load_relaxed(&lm_space.above) ? LM_PRESSURE_HIGH
                                            : lm_load_relaxed(&lm_space.group_pressure);
}

/* limit.c: the worker's look at these, once a tick; no lock held. */
void lm_limit_tick(void);

/* limit.c: in the child of a fork. */
void lm_limit_after_fork(void);

/* limit.c: in a copy of a process, frees the lock that its worker may have held. */
void lm_limit_repair(void);
void lm_limit_after_torn_fork(void);

/* worker.c: in a copy of a process there is no worker, and of the calls that wanted none only the
 * caller's. */
void lm_purge_after_fork(void);

/* worker.c: ends the calling worker. Returns only in a thread of the program. */
void lm_worker_leave(void);

/* purge.c: notes that clean memory was taken, which what was purged might have served. */
void lm_purge_retaken(size_t slices);

/* purge.c: purges in the caller's thread when no worker may do it and too much is dirty. Gives the
 * lock up meanwhile. */
void lm_purge_inline(void);

#endif

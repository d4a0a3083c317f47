/* span.h: address space in slices of 64 KiB, and the descriptor of what lies in them.
 *
 *   map          [ p0 | p0 | nobody | p3 | ... ]   8 bytes a slice: the page whose blocks lie here
 *                   │    │              │
 *   descriptors  [ d0 | (d1) | (d2) | d3 | ... ]   128 bytes a slice: one is used for each span
 *   slices       [ span of 2  | free  | span .. ]  64 KiB each, growing upward in place
 *
 * One arena a process. Finding a pointer's page is a subtraction, a shift, a bound and a load; NULL
 * and pointers that are not ours fail the bound or meet `nobody`, so that no test of their own is
 * needed. Metadata: 136 bytes a slice, 0.21%.
 *
 * Free spans are clean (never touched or purged: they read as zero) or dirty (they hold RAM). The
 * two kinds are kept and merged apart. Dirty spans are used first, wait in the order of their age,
 * and are purged once nobody has wanted them for the purge delay. Dirty memory that the system
 * refuses to take back, because it is locked, is kept and merged apart as well, and tried again
 * later (give_back.c).
 *
 * The arena's end is given back with its addresses when it has been purged; holes in the middle
 * stay mapped, empty, except where addresses are limited (gone.c). A block cannot be moved, so that
 * one page in use keeps everything below it.
 * Invariant: lm_span_check walks every slice: spans tile the arena; no two neighbours are free and
 * of one kind; bins, ages and counts agree with what the walk finds.
 */
#ifndef LM_SPAN_H
#define LM_SPAN_H

#include "base/base.h"
#include "os/os.h"
#include "span/tally.h"

enum { LM_SLICE_SHIFT = 16 };
enum { LM_SLICES_MOST_LOG2 = 28 }; /* of the arena: 16 TiB of slices */
#define LM_SLICE_BYTES ((size_t)1 << LM_SLICE_SHIFT)

struct lm_heap;

/* A free block; only its first word is used. */
typedef struct lm_block {
    struct lm_block *next;
} lm_block_t;

/* What a span is. */
typedef enum lm_kind {
    LM_KIND_NONE, /* no span: the slot of `nobody` */
    LM_KIND_CLEAN,
    LM_KIND_DIRTY,
    LM_KIND_REFUSED, /* free and dirty; the system did not take it back (give_back.c) */
    LM_KIND_BUSY,    /* free, being purged outside the lock */
    LM_KIND_SPARE,   /* free, of a range (range.h) */
    LM_KIND_GONE,    /* free, without addresses: the system has them (gone.c) */
    LM_KIND_PAGE,    /* blocks of one size class */
    LM_KIND_LARGE,   /* one object */
    LM_KIND_META,    /* loam's own */
    /* slots of sampled objects (sampling/sampled.c); with a descriptor for each slot */
    LM_KIND_SAMPLED,
} lm_kind_t;

/* Owner words that are no thread's token (tokens are multiples of 16): of `nobody`; of large
 * objects and orphans; of what holds objects at an offset (heap/offset.c); of the common heap's
 * pages. A free by a thread that is not the owner tells by one comparison what goes the common way,
 * which is all above LM_OWNER_OFFSET. */
enum { LM_OWNER_NOBODY, LM_OWNER_NONE, LM_OWNER_OFFSET, LM_OWNER_COMMON };

/* The descriptor. Its first line belongs to the owner of the page, its second is shared. */
typedef struct LM_ALIGNED(128) lm_page {
    uintptr_t owner; /* thread token, or LM_OWNER_*; written by who becomes or stops being it */
    union {
        lm_block_t *free;        /* pages: blocks freed by the owner */
        struct loam_heap *whole; /* large: the first-class heap that it belongs to, NULL: none */
    };
    uint32_t live; /* blocks not on `free`, less `bias`: when it reaches 0, something is due */
    uint32_t bias; /* full pages: live blocks that `live` leaves out, so that it wakes early;
                    * large, secure builds: bytes of the guard at its end */
    uint32_t block_bytes; /* of each block; 0 for other spans */
    uint16_t carved;      /* blocks ever made into free blocks; the rest is untouched memory */
    uint16_t capacity;    /* blocks that fit */
    uint8_t size_class;
    uint8_t
        foreign_class; /* the same; 0 in first-class heaps, whose blocks no other heap hands out */
    uint8_t kind;      /* lm_kind_t */
    uint8_t place;     /* in which of the heap's lists `link` is (heap layer) */
    union {
        bool fresh;      /* pages: memory beyond `carved` reads as zero */
        bool known_zero; /* large, secure builds: its probes were zero when it was handed out */
    };
    bool huge;      /* large: may have huge pages, which it gets as it is touched */
    bool in_memory; /* large, secure builds: most of its memory was touched since it was clean */
    uint8_t range;  /* spans in use: of that range (range.h), 0: of the arena */
    lm_node_t link; /* pages: heap's list; free spans: bin */
    struct lm_heap *heap;

    uint64_t remote;          /* packed list of blocks freed by others, see heap/remote.c */
    struct lm_page *notified; /* next on the owner's stack of pages with remote frees */
    lm_node_t age;            /* dirty spans, and dirty tails of large objects: oldest first */
    uint32_t slices;          /* in the span; also in the last slice's slot of a free span */
    uint32_t stamp;           /* dirty spans: tick of the last free into it */
    union {
        size_t bytes; /* large: usable bytes; atomic while `tail` is set */
        size_t again; /* pages: blocks that came to be handed out again, in all: heap/count.h */
    };
    /* Atomic. Large: the memory behind `bytes` may be resident, and the span is in lm_space.tails.
     * Set by the thread that uses the object, cleared by any, both with the arena lock held. */
    bool tail;
#if LM_SECURE
    uint8_t group; /* of the memory (group.c): spans in use, and both ends of free ones */
    /* Where no page is: all of this slice is as free blocks of that class are; LM_WIPED_WHOLLY:
     * zero; 0: perhaps neither. Holds while the slice is its group's; read by
     * lm_secure_page_begin. */
    uint8_t wiped_class;
    /* The last LM_MARK_BYTES of this slice are a guard (guard.c); it was backed by a huge page, and
     * has none. Both: of any span of a group of blocks, until it is purged. */
    bool marked, backed;
#endif
#if LM_GUARD_LINKS
    /* Atomic. A block of this page is loam's own and has no canary or fence, or (secure) a block
     * is damaged and that was reported: who looks at the end of a block beside another one leaves
     * the page out. Stays set until the page goes. */
    bool raw;
#endif
} lm_page_t;

LM_STATIC_ASSERT(sizeof(lm_page_t) == 128, "two cache lines");
LM_STATIC_ASSERT(offsetof(lm_page_t, remote) == 64, "what others write stays off the owner's line");

/* What free() reads: one cache line, written only when the arena grows or shrinks. */
typedef struct LM_ALIGNED(64) lm_arena {
    uintptr_t base;   /* address of slice 0 */
    size_t slices;    /* mapped so far; map and descriptors below it are readable */
    lm_page_t **map;  /* by slice */
    lm_page_t *pages; /* descriptors by slice */
} lm_arena_t;

extern LM_HIDDEN lm_arena_t lm_arena;
extern LM_HIDDEN lm_page_t lm_nobody; /* owner LM_OWNER_NOBODY, kind LM_KIND_NONE */

/* The slice that p lies in; not below lm_arena.slices iff it is none of ours. */
LM_INLINE size_t lm_slice_of(const void *p) {
    return ((uintptr_t)p - lm_peek(&lm_arena.base)) >> LM_SLICE_SHIFT;
}

/* For what lies outside the arena, and spans of ranges: the two below (range.c). */
lm_page_t *lm_range_page_of(const void *p);
char *lm_range_span_start(const lm_page_t *span);

/* The page that p's slice belongs to; lm_nobody iff none of ours. Any pointer may be asked. Peeks:
 * who holds p got it from a thread that saw the arena and the map with it. */
LM_INLINE lm_page_t *lm_page_of(const void *p) {
    size_t slice = lm_slice_of(p);
    return LM_LIKELY(slice < lm_peek(&lm_arena.slices)) ? lm_peek(&lm_arena.map[slice])
                                                        : lm_range_page_of(p);
}

/* Its number in the arena; of a span that lies elsewhere, some number of its own. */
LM_INLINE size_t lm_span_slice(const lm_page_t *span) { return (size_t)(span - lm_arena.pages); }

/* First byte of a span. */
LM_INLINE char *lm_span_start(const lm_page_t *span) {
    if (LM_UNLIKELY(span->range != 0)) return lm_range_span_start(span);
    return (char *)(lm_arena.base + (lm_span_slice(span) << LM_SLICE_SHIFT));
}

/* Takes slices (at least 1) in a row, the first a multiple of align_slices (a power of two) slices
 * from address 0. The span has the given kind and is in nobody's map yet. *zero (may be NULL):
 * whether it reads as zero. NULL iff the system gives no more memory. Takes the arena lock. */
lm_page_t *lm_span_take(size_t slices, size_t align_slices, lm_kind_t kind, bool *zero);

/* Takes a span of kind LARGE as lm_span_take does, for an object of `bytes` usable bytes, and
 * counts the object. If the rest of the span is dirty, it is purged after the delay (tails.c). */
lm_page_t *lm_span_take_large(size_t slices, size_t align_slices, size_t bytes, bool *zero);

/* The same, for a page of blocks of that size; with fewer slices where only those are dirty.
 * crowded: others of its class are full, so it will be filled as well, and is worth a huge page
 * once there are many (huge.c). */
lm_page_t *lm_span_take_page(size_t slices, size_t block_bytes, bool crowded, bool *zero);

/* Gives a span back, dirty. It must be out of the map. rested: nobody has used it for a while, and
 * it need not wait for the purge delay. */
void lm_span_give(lm_page_t *span, bool rested);

/* The same for a chain of spans, linked by `notified`, with one lock. */
void lm_span_give_chain(lm_page_t *first, bool rested);

/* Lets the map point [0, slices) of the span to page (lm_nobody to leave it). */
void lm_span_map(lm_page_t *span, size_t slices, lm_page_t *page);

/* Takes the span's first slice out of the map. false iff it was not there: of several threads
 * that free an object at the same moment one gets true. */
bool lm_span_unmap(lm_page_t *span);

/* Returns false if the arena could not hold so many bytes even if nothing were in use: the system,
 * or a limit, gives too little. It asks the system only for more than the arena has. No lock
 * needed. */
bool lm_span_could_hold(size_t bytes);

/* Makes a span of kind LARGE longer in place; false iff what follows it is not free. *zero: all
 * that it is longer by is zero. */
bool lm_span_extend_by(lm_page_t *span, size_t slices, bool *zero);

/* The same where the longer part is to hold no memory: addresses for a guard. */
bool lm_span_extend(lm_page_t *span, size_t slices);

/* Makes it shorter, giving the tail back. */
void lm_span_shrink(lm_page_t *span, size_t slices);

/* Moves a LARGE span's contents to a new span of more slices by moving pages; the old span is given
 * back clean. *clean: what the new span has beyond the old one's length is zero. Returns NULL iff
 * that is not possible; the old span is unchanged then. */
lm_page_t *lm_span_move_to(lm_page_t *span, size_t slices, bool *clean);
LM_INLINE lm_page_t *lm_span_move(lm_page_t *span, size_t slices) {
    bool clean;
    return lm_span_move_to(span, slices, &clean);
}

/* ---- Tails (tails.c): the memory of a LARGE span behind its usable bytes ---- */

#if LM_SECURE
enum { LM_TAIL_CANARY = 256 }; /* bytes behind an object that are not its tail */
#else
enum { LM_TAIL_CANARY = 0 };
#endif

/* Sets the usable bytes of a LARGE span. dirty: its memory behind these may be resident. It goes
 * back after the purge delay, unless lm_span_tail_keep or another call of this function comes
 * first. The caller alone uses the object. */
void lm_span_tail(lm_page_t *span, size_t bytes, bool dirty);

/* Keeps the tail of a LARGE span from being purged, before the object grows or moves. Returns
 * whether it may be resident. */
bool lm_span_tail_keep(lm_page_t *span);

/* ---- Huge pages (huge.c) ---- */

typedef enum lm_huge_when { LM_HUGE_NEVER, LM_HUGE_ALWAYS, LM_HUGE_AUTO } lm_huge_when_t;

/* Atomic: changed by any thread, at any time. */
typedef struct lm_huge_policy {
    lm_huge_when_t when;
    size_t least_bytes; /* AUTO: of pages of blocks, before huge ones are made for them */
} lm_huge_policy_t;

extern lm_huge_policy_t lm_huge_policy;

/* Bytes [from, to) of a LARGE span were asked for and will be filled: where they are many, in huge
 * pages. */
void lm_span_fill(lm_page_t *span, size_t from, size_t to);

/* Before the span, from that slice on, is given back: no more huge pages there. */
void lm_span_unfill(lm_page_t *span, size_t slice);

#if LM_TOOLS
/* A span that is out of the map is loam's own until it is given back. */
void lm_span_hold_any(lm_page_t *span);
#endif

#if LM_GUARD_LINKS
/* A LARGE span is loam's own, or LARGE again: while it is, a free of it is a double one. */
void lm_span_hold(lm_page_t *span);
void lm_span_unhold(lm_page_t *span);
#endif

/* Whether the program has not shut itself in: other calls than mmap, madvise and futex are
 * allowed. */
bool lm_span_at_large(void);

/* ---- Guards (guard.c), of the secure build ---- */

#if LM_SECURE
/* Bytes of a page's guard. */
enum { LM_MARK_BYTES = 4096 };

/* A slice's wiped_class that is no class. */
enum { LM_WIPED_WHOLLY = 255 };

/* Makes the end of a page of blocks that was just taken inaccessible, unless a huge page backs it,
 * and all of it before accessible. Returns the bytes before the guard: all, where it has none; 0
 * iff the system refused to make the rest accessible. */
size_t lm_span_mark(lm_page_t *page);
/* Whether pages have such guards where no huge page is: neither the system nor a wish of the user's
 * is against it, as far as known. */
bool lm_span_marks(void);
extern bool lm_page_guards; /* atomic: wanted */

/* Bytes of a page or a large span before its guard: all, where it has none. */
LM_INLINE size_t lm_span_room(const lm_page_t *span) {
    size_t guard = span->bias;
    if (span->kind == LM_KIND_PAGE)
        guard = span->range == 0 && span[span->slices - 1].marked ? LM_MARK_BYTES : 0;
    return ((size_t)span->slices << LM_SLICE_SHIFT) - guard;
}

/* Whether another is possible, and addresses are not scarce: a guess. */
bool lm_span_may_waste(void);

/* Makes a LARGE span inaccessible from that byte on, a multiple of lm_os_page_bytes(). false iff it
 * cannot: all guards are in use, too many were made lately, or the system refused. */
bool lm_span_guard(lm_page_t *span, size_t from);
/* Ends that; false iff the system refused. */
bool lm_span_unguard(lm_page_t *span);
/* Gives a span that was held back to the arena, accessible. It goes to the system with its
 * addresses where that refuses to make it accessible, and stays out of use where that is refused,
 * too. shut: lm_span_shut has made it inaccessible. rested: see lm_span_give. Takes the arena
 * lock. */
void lm_span_let_out(lm_page_t *span, bool shut, bool rested);
/* Makes all of a freed LARGE span before its guard inaccessible. false iff the span has no guard,
 * too many were shut lately, or the system refused. */
bool lm_span_shut(lm_page_t *span);
/* Makes a shut span accessible up to its guard. false iff the system refused. */
bool lm_span_open(lm_page_t *span);
extern bool
    lm_span_shuts; /* atomic; tests clear it to see what becomes of objects that are not shut */
/* For the worker, once a tick: as many guards as usual may be made again, and as many spans be
 * shut. */
void lm_span_may_guard(void);
void lm_span_no_guard(lm_page_t *span); /* for a span that was just taken */

/* A random number below n. */
size_t lm_span_random(size_t n);

/* ---- Held spans (held.c), of the secure build: freed large objects that wait with their guards
 * ---- */

enum {
    LM_HELD_LEAST = 2 << 20, /* bytes of dense spans that may be held, */
    LM_HELD_PART = 16,       /* or that part of the bytes of large objects in use, if it is more; */
    LM_HELD_ONE_MOST = 8 << 20, /* while few spans are held, so many */
};

/* What a request accepts of a held span. */
typedef struct lm_held_want {
    size_t most_dense,
        most_sparse;     /* bytes before the guard, of a span in memory and of another; */
    size_t align_slices; /* its first slice is a multiple of that, as in lm_span_take */
} lm_held_want_t;

/* Holds a span of kind LARGE, which is out of the map; or again one that lm_held_excess returned.
 * cleared: a number of the caller's. dense: most of it is in memory. Returns a span that is held no
 * more because there are too many, NULL iff there is none. All of these take the arena lock. */
lm_page_t *lm_held_add(lm_page_t *span, unsigned cleared, bool dense);
/* A span that is held no more, because there are too many; because it was held for so many ticks.
 * Its kind is META. NULL iff there is none. */
lm_page_t *lm_held_excess(void);
/* In a copy of a process whose worker was changing the lists: what is held stays out of use. Lock
 * held. */
void lm_held_forget(void);
lm_page_t *lm_held_old(uint32_t ticks);
/* A span with at least `room` bytes before its guard, as kind LARGE. NULL iff there is none. */
lm_page_t *lm_held_take(size_t room, const lm_held_want_t *want);
/* The number that lm_held_add was given last for that span, which the caller has. */
unsigned lm_held_cleared(const lm_page_t *span);
/* Whether some are held: a guess. */
bool lm_held_any(void);

/* What gives spans back that are held, where there is no memory for others: false iff there are
 * none. Locks of heaps may be held. */
extern bool (*lm_span_let_go)(void);
bool lm_span_more(void);

/* Guards in use. */
size_t lm_span_guards(void);
#endif

/* ---- Purge (purge.c) ---- */

/* Atomic: changed by any thread, at any time. */
typedef struct lm_purge_policy {
    uint32_t delay_ms; /* how long a dirty span waits for a new user */
    bool worker;       /* whether a background worker may be started */
} lm_purge_policy_t;

extern lm_purge_policy_t lm_purge_policy;

/* Atomic: what is dirty stays so, unless lm_purge_all is called. */
extern bool lm_purge_never;

/* After a change of these: a worker that may not be is gone, one that is wanted will be started. */
void lm_purge_changed(void);

/* What the layer above collects from threads that sleep, before spans are purged; called by the
 * worker once a tick, without locks held. last: it may not come again soon, what waits for a later
 * tick must go now. Returns whether some thread had something but did not sleep. */
extern bool (*lm_purge_collect_idle)(bool last);

/* The same while the program has one thread: what it does is safe in a copy of the process that is
 * made meanwhile, in which the worker stops in the middle (decision 0029). */
extern bool (*lm_purge_collect_alone)(bool last);

/* In a copy of a process: frees the locks of the layer above that its worker may have held.
 * collecting: it was inside lm_purge_collect_idle. */
extern void (*lm_purge_break_locks)(bool collecting);

/* Whether the program has one thread and the worker never acted as if there were more: then fork
 * needs no locks. */
bool lm_purge_alone(void);

/* Starts a worker if there is none and enough to do: a lot of dirty memory, or (idle) something to
 * collect from sleeping threads. Called without locks held. */
void lm_purge_poke(bool idle);

/* Tells which process this is: at the start, before a vfork child could be the first to ask. */
void lm_purge_boot(void);

/* For the worker, before it waits for a lock: ends it if it must stop. Returns otherwise. */
void lm_purge_stop_here(void);

/* Whether neither the user nor a sandbox forbids a worker. */
bool lm_purge_allowed(void);

/* The same, and the last attempt to start a worker has not failed. */
bool lm_purge_may_work(void);

/* Purges every dirty span now, whatever its age. Returns the bytes given back. */
size_t lm_purge_all(void);

/* Purges about so many bytes, the oldest spans first, in slices, and where that is too little tails
 * of large objects, each as a whole. Returns how many. Not for memory that the system has refused,
 * nor for that of ranges. */
size_t lm_purge_some(size_t bytes);

/* Tells that the program has unlocked memory: what was refused is soon tried again. Takes no lock
 * that the caller may hold, so that a signal handler may call it. */
void lm_purge_unlocked(void);

/* Between the two there is no worker: pause waits until it has ended. They may nest, in any thread,
 * and be called in signal handlers, where the worker may outlive the pause if it waits for a lock
 * that the thread holds (worker.c). */
void lm_purge_pause(void);
void lm_purge_resume(void);

/* false: ends the worker and starts none any more (the program is about to forbid itself the calls
 * that this needs); purges what is dirty. */
void lm_purge_allow(bool allowed);

/* As lm_purge_allow(false). Does nothing if the worker is forbidden already. */
void lm_purge_shut_in(void);

/* ---- Limits (limit.c) ---- */

typedef enum lm_cgroup_mode {
    LM_CGROUP_IGNORED,
    LM_CGROUP_EXPECTED,
    LM_CGROUP_AUTO
} lm_cgroup_mode_t;

/* Atomic: changed by any thread, at any time. */
typedef struct lm_limit_policy {
    size_t soft, hard; /* bytes held, at most; SIZE_MAX: no limit */
    lm_cgroup_mode_t cgroup;
} lm_limit_policy_t;

extern lm_limit_policy_t lm_limit_policy;

/* Atomic: the soft limit was crossed, and the program has not been told. */
extern LM_HIDDEN bool lm_limit_crossed;

/* Whether there is a hard limit. */
LM_INLINE bool lm_limit_is_hard(void) {
    return lm_load_relaxed(&lm_limit_policy.hard) != SIZE_MAX; /* relaxed: a word by itself */
}

/* After a change of these: where more is held than one of them allows, what is free goes back, and
 * the soft one is crossed if that is not enough. */
void lm_limit_changed(void);

/* Looks for the process's control group at once, which the worker does otherwise. false iff it has
 * none. */
bool lm_limit_find_cgroup(void);

/* So many hundredths of the machine's memory, or, of_group, of the lowest limit of the control
 * groups around the process, if that is less: whole slices, rounded down, at least one. Returns 0
 * iff the system does not say, or must not be asked. Reads files. */
size_t lm_limit_share(unsigned percent, bool of_group);

typedef struct lm_limit_stats {
    size_t held_bytes, held_bytes_most; /* slices in use, or free and dirty */
    size_t crossings, refusals;
    size_t cgroup_used, cgroup_limit; /* as last seen; 0: not */
    unsigned pressure;                /* lm_pressure_t */
} lm_limit_stats_t;

void lm_limit_stats(lm_limit_stats_t *stats);

/* After a crossing, once what can be collected has been: whether more than the soft limit is held
 * still, and then both in bytes. If not, it was no crossing, and the next is one. */
bool lm_limit_still_crossed(size_t *held_bytes, size_t *soft_bytes);

/* ---- Numbers, checks, fork ---- */

typedef struct lm_span_stats {
    size_t arena_bytes;    /* mapped slices */
    size_t metadata_bytes; /* map and descriptors behind them */
    size_t dirty_bytes, clean_bytes, used_bytes, meta_bytes;
    size_t purged_bytes, purges;    /* since the start */
    lm_tally_t reserved, committed; /* bytes: of addresses; of those that memory may be behind */
    size_t grown;                   /* times that the arena got longer */
    size_t range_bytes,
        range_free_bytes; /* of ranges; those inside the arena count above as well */
} lm_span_stats_t;

void lm_span_stats(lm_span_stats_t *stats);

/* From now on the most of each is looked for anew. */
void lm_span_forget_peaks(void);

/* Calls visit for each span in use; the arena lock is held. */
void lm_span_visit(void (*visit)(lm_page_t *span, void *context), void *context);

/* The span in use that p lies in, NULL iff there is none. Walks the arena: for reports. */
lm_page_t *lm_span_holding(const void *p);

#if LOAM_DEBUG
/* What `look` says of the page of blocks that ends where the span begins, which cannot go back
 * meanwhile; false iff there is none. Takes the arena lock. */
bool lm_span_page_before(const lm_page_t *span, bool (*look)(const lm_page_t *page));
#endif

/* Walks the invariant above; aborts with a line on what is broken. Secure builds: while nobody
 * makes a page. */
void lm_span_check(void);

/* For a fork: the arena's lock, as lm_lock_hold and lm_lock_let. No span is being purged while it
 * is held so. */
bool lm_span_fork_is_mine(void);
bool lm_span_fork_hold(uint64_t until);
void lm_span_fork_let(void);
/* In the child of a fork, with the lock held by the fork: locks are reset and the worker
 * forgotten. */
void lm_span_after_fork(void);
/* In the child of a fork that took no locks (lm_purge_alone). */
void lm_span_after_fork_alone(void);
/* In the child of a fork that stopped no thread: makes the lists of free spans anew if another
 * thread was changing them. Calls `visit` for each span in use, without a lock, before the lists
 * are made. */
void lm_span_after_torn_fork(void (*visit)(lm_page_t *span, void *context), void *context);

#include "span/range.h"

#endif

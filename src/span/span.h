/* span.h: address space in slices of 64 KiB, and a descriptor for each span of slices.
 *
 *   map          [ p0 | p0 | nobody | p3 | ... ]   8 bytes a slice: the page whose blocks lie here
 *                   │    │              │
 *   descriptors  [ d0 | (d1) | (d2) | d3 | ... ]   128 bytes a slice: one is used for each span
 *   slices       [ span of 2  | free  | span .. ]  64 KiB each; the arena grows upward in place
 *
 * A process has one arena. Finding a pointer's page takes a subtraction, a shift, a comparison and
 * a load. NULL and foreign pointers fail the comparison or find `nobody`, so they need no test of
 * their own. Metadata takes 136 bytes a slice, 0.21% of the memory.
 *
 * Free spans are clean (never touched, or purged: they read as zero) or dirty (they occupy RAM).
 * The two kinds are kept and merged separately. Dirty spans are used first. They wait in the order
 * of their age, and are purged if no thread has wanted them for the purge delay. Dirty memory that
 * the system refuses to take back, because it is locked, is also kept and merged separately, and is
 * tried again later (give_back.c).
 *
 * Once purged, the arena's end is returned to the system with its addresses. Holes in the middle
 * stay mapped but empty, except where addresses are limited (gone.c). A block cannot be moved, so
 * one page in use keeps everything below it. Invariant: lm_span_check walks every slice. Spans tile
 * the arena; no two neighbours are free and of one kind; bins, ages and counts agree with what the
 * walk finds.
 */
#ifndef LM_SPAN_H
#define LM_SPAN_H

#include "base/base.h"
#include "os/os.h"
#include "span/tally.h"

enum { LM_SLICE_SHIFT = 16 };
enum { LM_SLICES_MOST_LOG2 = 28 }; /* maximum size of the arena: 16 TiB of slices */
#define LM_SLICE_BYTES ((size_t)1 << LM_SLICE_SHIFT)

struct lm_theap;

/* A free block; only its first word is used. */
typedef struct lm_block {
    struct lm_block *next;
} lm_block_t;

/* The use of a span. */
typedef enum lm_kind {
    LM_KIND_NONE, /* not loam's: `lm_nobody`, and mappings that the arena has stepped over */
    LM_KIND_CLEAN,
    LM_KIND_DIRTY,
    LM_KIND_REFUSED, /* free and dirty; the system refused to take it back (give_back.c) */
    LM_KIND_BUSY,    /* free, being purged outside the lock */
    LM_KIND_SPARE,   /* free, inside a range (range.h) */
    LM_KIND_GONE,    /* free and unmapped: the system has its addresses (gone.c) */
    LM_KIND_PAGE,    /* blocks of one size class */
    LM_KIND_LARGE,   /* one large object */
    LM_KIND_META,    /* metadata of loam */
    /* Slots of sampled objects (sampling/sampled.c), with a descriptor for each slot. */
    LM_KIND_SAMPLED,
} lm_kind_t;

/* Owner words that are no thread's token (tokens are multiples of 16). NOBODY: `lm_nobody`. NONE:
 * large objects and orphans. OFFSET: spans that hold objects at an offset (heap/offset.c). COMMON:
 * pages of the common heap. A thread that frees a block it does not own compares once: every owner
 * word above LM_OWNER_OFFSET takes the common path. */
enum { LM_OWNER_NOBODY, LM_OWNER_NONE, LM_OWNER_OFFSET, LM_OWNER_COMMON };

/* The descriptor. The page's owner uses its first cache line; the second is shared. */
typedef struct LM_ALIGNED(128) lm_page {
    /* A thread token or LM_OWNER_*. The thread that becomes the owner, or ceases to be it, writes
     * it. */
    uintptr_t owner;
    union {
        lm_block_t *free; /* pages: free list of blocks freed by the owner */
        /* Large objects: the first-class heap that the object belongs to; NULL: none. */
        struct loam_heap *fheap;
    };
    /* Blocks not on `free`, less `bias`. At 0 the page needs attention. */
    uint32_t live;
    /* Full pages: number of live blocks that `live` leaves out, so that `live` reaches 0 early.
     * Large objects in secure builds: bytes of the guard at the span's end. */
    uint32_t bias;
    uint32_t block_bytes; /* size of each block in bytes; 0 for other spans */
    /* Number of blocks ever put on a free list; memory beyond them is untouched. */
    uint16_t carved;
    uint16_t capacity; /* number of blocks that fit */
    uint8_t size_class;
    /* The size class, or 0 in first-class heaps: no other heap hands out their blocks. */
    uint8_t foreign_class;
    uint8_t kind;    /* lm_kind_t */
    uint8_t in_list; /* the heap's list that contains `link` (heap layer) */
    union {
        bool fresh; /* pages: memory beyond `carved` reads as zero */
        /* Large objects in secure builds: sampled bytes were zero when it was allocated. */
        bool known_zero;
    };
    /* Large objects: the object may have huge pages, which it gets as it is touched. */
    bool huge;
    /* Large objects in secure builds: most of the memory was touched since it was clean. */
    bool in_memory;
    uint8_t range;  /* spans in use: number of their range (range.h); 0: the arena */
    lm_node_t link; /* pages: the heap's list; free spans: the bin */
    struct lm_theap *heap;

    uint64_t remote;          /* packed list of blocks that other threads freed (heap/remote.c) */
    struct lm_page *notified; /* next on the owner's stack of pages with remote frees */
    /* Dirty spans, and dirty tails of large objects, oldest first. */
    lm_node_t age;
    /* Number of slices in the span. In a free span, also stored in the last slice's slot. */
    uint32_t slices;
    uint32_t stamp; /* dirty spans: tick of the last free into it */
    union {
        size_t bytes; /* large objects: usable bytes; atomic while `tail` is set */
        /* Pages: number of blocks handed out again after a free, in total (heap/count.h). */
        size_t reused_total;
    };
    /* Atomic. Large objects: the memory after `bytes` may be resident, and the span is in
     * lm_space.tails. The thread that uses the object sets it, and any thread clears it, both with
     * the arena lock held. */
    bool tail;
#if LM_SECURE
    /* Group of the memory (group.c). Valid in spans in use, and at both ends of free ones. */
    uint8_t group;
    /* Valid while no page is there. A size class: the whole slice holds the contents of free blocks
     * of that class. LM_WIPED_WHOLLY: the slice is zero. 0: perhaps neither. Valid while the slice
     * belongs to its group. lm_secure_page_begin reads it. */
    uint8_t wiped_class;
    /* marked: the last LM_MARK_BYTES of this slice are a guard (guard.c). backed: a huge page
     * backed the slice, so it has no guard. Both are kept in every span of a group of blocks until
     * it is purged. */
    bool marked, backed;
#endif
#if LM_GUARD_LINKS
    /* Atomic. True if a block of this page belongs to loam and has no canary or fence, or (secure
     * builds) a block is damaged and that was reported. A thread that checks the end of a block
     * next to a given one skips the page. Stays set until the page is given back. */
    bool raw;
#endif
} lm_page_t;

LM_STATIC_ASSERT(sizeof(lm_page_t) == 128, "two cache lines");
LM_STATIC_ASSERT(offsetof(lm_page_t, remote) == 64, "what others write stays off the owner's line");

/* What free() reads: one cache line, written only when the arena grows or shrinks. */
typedef struct LM_ALIGNED(64) lm_arena {
    uintptr_t base; /* address of slice 0 */
    /* Number of slices mapped so far. The map and the descriptors below it are readable. */
    size_t slices;
    lm_page_t **map;  /* page of each slice */
    lm_page_t *pages; /* descriptor of each slice */
} lm_arena_t;

extern LM_HIDDEN lm_arena_t lm_arena;
extern LM_HIDDEN lm_page_t lm_nobody; /* owner LM_OWNER_NOBODY, kind LM_KIND_NONE */

/* Returns the number of the slice that contains p. It is at least lm_arena.slices iff p is outside
 * the arena. */
LM_INLINE size_t lm_slice_of(const void *p) {
    return ((uintptr_t)p - lm_peek(&lm_arena.base)) >> LM_SLICE_SHIFT;
}

/* Finds the page of a pointer outside the arena (range.c). Returns lm_nobody iff no range contains
 * p. */
lm_page_t *lm_range_page_of(const void *p);
/* Returns the first byte of a span of a range (range.c). */
char *lm_range_span_start(const lm_page_t *span);

/* Returns the page that p's slice belongs to, or lm_nobody iff p is not loam's. p may be any
 * pointer. Plain loads suffice: a thread that holds p got it from a thread that saw the arena and
 * the map. */
LM_INLINE lm_page_t *lm_page_of(const void *p) {
    size_t slice = lm_slice_of(p);
    return LM_LIKELY(slice < lm_peek(&lm_arena.slices)) ? lm_peek(&lm_arena.map[slice])
                                                        : lm_range_page_of(p);
}

/* Returns the span's number in the arena. For a span outside the arena the number has no
 * meaning. */
LM_INLINE size_t lm_span_slice(const lm_page_t *span) { return (size_t)(span - lm_arena.pages); }

/* Returns the first byte of a span. */
LM_INLINE char *lm_span_start(const lm_page_t *span) {
    if (LM_UNLIKELY(span->range != 0)) return lm_range_span_start(span);
    return (char *)(lm_arena.base + (lm_span_slice(span) << LM_SLICE_SHIFT));
}

/* Takes a span of `slices` contiguous slices (at least 1) of the given kind. Its address is a
 * multiple of align_slices slices (a power of two). It is in no map yet. *zero, unless NULL, tells
 * whether it reads as zero. Returns NULL iff the system gives no more memory. Takes the arena
 * lock. */
lm_page_t *lm_span_take(size_t slices, size_t align_slices, lm_kind_t kind, bool *zero);

/* Takes a span of kind LARGE as lm_span_take does, for an object of `bytes` usable bytes, and
 * counts the object. If the rest of the span is dirty, it is purged after the purge delay
 * (tails.c). */
lm_page_t *lm_span_take_large(size_t slices, size_t align_slices, size_t bytes, bool *zero);

/* Takes a span of kind PAGE as lm_span_take does, for blocks of `block_bytes`. It may have fewer
 * slices if only such spans are dirty. crowded: other pages of the class are full, so this one will
 * be filled as well, and is worth a huge page once there are many pages (huge.c). */
lm_page_t *lm_span_take_page(size_t slices, size_t block_bytes, bool crowded, bool *zero);

/* Gives a span back, dirty. The span must be out of the map. rested: no thread has used it for a
 * while, so it need not wait for the purge delay. Takes the arena lock. */
void lm_span_give(lm_page_t *span, bool rested);

/* Gives a span of kind META, which lm_span_take has returned, back as lm_span_give does. */
void lm_span_give_meta(lm_page_t *span, bool rested);

/* Gives back a chain of spans, linked by `notified`, as lm_span_give does, with one lock
 * operation. */
void lm_span_give_chain(lm_page_t *first, bool rested);

/* Sets the map entries of slices [0, slices) of the span to `page`; lm_nobody removes them from the
 * map. */
void lm_span_map(lm_page_t *span, size_t slices, lm_page_t *page);

/* Removes the span's first slice from the map. Returns false iff it was not there: of several
 * threads that free an object at the same moment, one gets true. */
bool lm_span_unmap(lm_page_t *span);

/* Returns false if the arena could not hold `bytes` even if nothing were in use, because the system
 * or a limit gives too little. Asks the system only for more than the arena has. Needs no lock. */
bool lm_span_could_hold(size_t bytes);

/* Extends a span of kind LARGE in place to `slices` slices. Returns false iff the memory after it
 * is not free or a limit refuses. *zero tells whether all of the added memory is zero. Takes the
 * arena lock. */
bool lm_span_extend_by(lm_page_t *span, size_t slices, bool *zero);

/* Extends a span as lm_span_extend_by does, but for addresses alone: the added part is to be a
 * guard, without memory. */
bool lm_span_extend(lm_page_t *span, size_t slices);

/* Shrinks a LARGE span to `slices` slices and gives the rest back, dirty. Takes the arena lock. */
void lm_span_shrink(lm_page_t *span, size_t slices);

/* Moves a LARGE span's contents to a new span of more slices by moving pages, and gives the old
 * span back, clean. *clean tells whether the new span reads as zero beyond the old length. Returns
 * NULL iff that is not possible; the old span is unchanged in that case. */
lm_page_t *lm_span_move_to(lm_page_t *span, size_t slices, bool *clean);
LM_INLINE lm_page_t *lm_span_move(lm_page_t *span, size_t slices) {
    bool clean;
    return lm_span_move_to(span, slices, &clean);
}

/* ---- Tails (tails.c): the memory of a LARGE span after its usable bytes ---- */

#if LM_SECURE
enum { LM_TAIL_CANARY = 256 }; /* bytes after an object that are not part of its tail */
#else
enum { LM_TAIL_CANARY = 0 };
#endif

/* Sets the usable bytes of a LARGE span. dirty: the memory after them may be resident. That memory
 * is purged after the purge delay, unless lm_span_tail_keep or another call of this function comes
 * first. Only the caller may use the object meanwhile. */
void lm_span_tail(lm_page_t *span, size_t bytes, bool dirty);

/* Keeps the tail of a LARGE span from being purged, before the object grows or moves. Returns
 * whether the tail may be resident. */
bool lm_span_tail_keep(lm_page_t *span);

/* ---- Huge pages (huge.c) ---- */

typedef enum lm_huge_when { LM_HUGE_NEVER, LM_HUGE_ALWAYS, LM_HUGE_AUTO } lm_huge_when_t;

/* Policy for huge pages. Atomic: any thread may change it at any time. */
typedef struct lm_huge_policy {
    lm_huge_when_t when;
    /* AUTO: bytes of pages of blocks from which huge pages are made for them. */
    size_t least_bytes;
} lm_huge_policy_t;

extern lm_huge_policy_t lm_huge_policy;

/* Tells that bytes [from, to) of a LARGE span were requested and will be filled. If there are
 * enough of them, they are filled with huge pages. */
void lm_span_fill(lm_page_t *span, size_t from, size_t to);

/* Ends huge pages in the span from slice number `slice` on. Call it before that part is given
 * back. */
void lm_span_unfill(lm_page_t *span, size_t slice);

#if LM_TOOLS
/* Makes a span that is out of the map loam's own (kind META) until it is given back. */
void lm_span_hold_any(lm_page_t *span);
#endif

#if LM_GUARD_LINKS
/* Makes a LARGE span that is out of the map loam's own (kind META) until it is given back.
 * Meanwhile a free of the object is reported as a double free. */
void lm_span_hold(lm_page_t *span);
#endif

/* Returns whether the program has not shut itself in: system calls other than mmap, madvise and
 * futex are allowed. */
bool lm_span_at_large(void);

/* ---- Guards (guard.c), of the secure build ---- */

#if LM_SECURE
/* Bytes of the guard of a page of blocks. */
enum { LM_MARK_BYTES = 4096 };

/* Value of wiped_class that is not a size class: the slice is zero. */
enum { LM_WIPED_WHOLLY = 255 };

/* Makes the end of a page of blocks that was just taken inaccessible, unless a huge page backs it,
 * and everything before it accessible. Returns the bytes before the guard: all bytes if there is no
 * guard; 0 iff the system refused to make the rest accessible. */
size_t lm_span_mark(lm_page_t *page);
/* Returns whether pages that no huge page backs have guards: neither the system nor the user
 * forbids them, as far as known. */
bool lm_span_marks(void);
extern bool lm_page_guards; /* atomic: guards are wanted */

/* Returns the bytes of a page or a large span before its guard; all bytes if there is no guard. */
LM_INLINE size_t lm_span_room(const lm_page_t *span) {
    size_t guard = span->bias;
    if (span->kind == LM_KIND_PAGE)
        guard = span->range == 0 && span[span->slices - 1].marked ? LM_MARK_BYTES : 0;
    return ((size_t)span->slices << LM_SLICE_SHIFT) - guard;
}

/* Returns whether another guard is possible, and addresses are not scarce. A guess. */
bool lm_span_may_waste(void);

/* Makes a LARGE span inaccessible from byte `from` on, a multiple of lm_os_page_bytes(). Returns
 * false iff it cannot: all guards are in use, too many were made lately, or the system refused. */
bool lm_span_guard(lm_page_t *span, size_t from);
/* Removes a span's guard. Returns false iff the system refused. */
bool lm_span_unguard(lm_page_t *span);
/* Gives a held span back to the arena, accessible. If the system refuses to make it accessible, the
 * span goes to the system with its addresses; if that is refused as well, it stays out of use.
 * shut: lm_span_shut has made it inaccessible. rested: see lm_span_give. Takes the arena lock. */
void lm_span_let_out(lm_page_t *span, bool shut, bool rested);
/* Makes all of a freed LARGE span before its guard inaccessible. Returns false iff the span has no
 * guard, too many spans were shut lately, or the system refused. */
bool lm_span_shut(lm_page_t *span);
/* Makes a shut span accessible up to its guard. Returns false iff the system refused. */
bool lm_span_open(lm_page_t *span);
/* Atomic. False: no span is shut. Tests clear it to see objects that are not shut. */
extern bool lm_span_shuts;
/* Allows the usual number of guards and of shut spans again. The worker calls it once a tick. */
void lm_span_may_guard(void);
/* Records that a span that was just taken has no guard. */
void lm_span_no_guard(lm_page_t *span);

/* Returns a random number below n. */
size_t lm_span_random(size_t n);

/* ---- Held spans (held.c), in secure builds: freed large objects, with their guards ---- */

enum {
    /* Bytes of dense spans that may be held. */
    LM_HELD_LEAST = 2 << 20,
    /* Dense spans may instead take this part of the bytes of large objects in use, if it is
     * more. */
    LM_HELD_PART = 16,
    /* Bytes that may be held while few spans are held. */
    LM_HELD_ONE_MOST = 8 << 20,
};

/* The held spans that a request accepts. */
typedef struct lm_held_want {
    /* Maximum bytes before the guard: of a span in memory (dense), and of any other (sparse). */
    size_t most_dense, most_sparse;
    /* The span's address must be a multiple of that many slices, as in lm_span_take. */
    size_t align_slices;
} lm_held_want_t;

/* Holds a span of kind LARGE that is out of the map, or holds a span again that lm_held_excess
 * returned. cleared: a number for the caller's use. dense: most of the span is in memory. Returns a
 * span that is no longer held because there are too many; its kind is META. Returns NULL iff there
 * is none. Takes the arena lock. */
lm_page_t *lm_held_add(lm_page_t *span, unsigned cleared, bool dense);
/* Returns a span that is no longer held because there are too many, as lm_held_add does. Takes the
 * arena lock. */
lm_page_t *lm_held_excess(void);
/* Forgets all held spans; they stay out of use. For a copy of a process whose worker was changing
 * the lists. The arena lock is held. */
void lm_held_forget(void);
/* Returns a span that is no longer held because it was held for at least `ticks` ticks. Its kind is
 * META. Returns NULL iff there is none. Takes the arena lock. */
lm_page_t *lm_held_old(uint32_t ticks);
/* Takes a held span with at least `room` bytes before its guard, as kind LARGE. Returns NULL iff
 * there is none. Takes the arena lock. */
lm_page_t *lm_held_take(size_t room, const lm_held_want_t *want);
/* Returns the number that lm_held_add was given last for a span that is no longer held. */
unsigned lm_held_cleared(const lm_page_t *span);
/* Returns whether any span is held. A guess. */
bool lm_held_any(void);

/* Atomic. The function that gives held spans back, called if there is no memory for others. It
 * returns false iff there were none. Locks of heaps may be held. */
extern bool (*lm_span_let_go)(void);
/* Calls lm_span_let_go, if it is set. Returns whether it gave spans back. */
bool lm_span_more(void);

/* Returns the number of guards in use. */
size_t lm_span_guards(void);
#endif

/* ---- Purge (purge.c) ---- */

/* Policy for purges. Atomic: any thread may change it at any time. */
typedef struct lm_purge_policy {
    uint32_t delay_ms; /* milliseconds that a dirty span waits for a new use */
    bool worker;       /* a background worker may be started */
} lm_purge_policy_t;

extern lm_purge_policy_t lm_purge_policy;

/* Atomic. True: dirty memory stays dirty, unless lm_purge_all or lm_purge_some is called. */
extern bool lm_purge_never;

/* Applies a change of lm_purge_policy: ends a worker that is no longer allowed, and starts one that
 * is wanted. */
void lm_purge_changed(void);

/* The function by which the layer above collects from threads that sleep, before spans are purged.
 * The worker calls it once a tick, without locks. last: it may not be called again soon, so what
 * waits for a later tick must be collected now. Returns whether some thread had something to
 * collect but did not sleep. */
extern bool (*lm_purge_collect_idle)(bool last);

/* As lm_purge_collect_idle, while the program has one thread. It must be safe in a copy of the
 * process that is made meanwhile, in which the worker stops in the middle (decision 0029). */
extern bool (*lm_purge_collect_alone)(bool last);

/* Waits, for at most a fifth of a second, until the worker has ended a call of
 * lm_purge_collect_alone. The spans that it gives back to the arena there are in no list meanwhile,
 * so that who collects, and counts what is left, does not find them. The caller holds no lock. */
void lm_purge_await_alone(void);

/* The function that frees the locks of the layer above that the worker of the copied process may
 * have held. collecting: the worker was inside lm_purge_collect_idle. */
extern void (*lm_purge_break_locks)(bool collecting);

/* Returns whether the program has one thread, and the worker never acted as if there were more. If
 * so, fork needs no locks. */
bool lm_purge_alone(void);

/* Starts a worker if there is none and there is enough to do: a lot of dirty memory, or (idle)
 * something to collect from sleeping threads. The caller must hold no lock. */
void lm_purge_poke(bool idle);

/* Records which process this is. Call it at the start, before a vfork child could be the first to
 * ask. */
void lm_purge_boot(void);

/* Ends the worker if it must stop; returns otherwise. The worker calls it before it waits for a
 * lock. */
void lm_purge_stop_here(void);

/* Returns whether neither the user nor a sandbox forbids a worker. */
bool lm_purge_allowed(void);

/* Returns whether a worker is allowed, and the last attempt to start one has not failed. */
bool lm_purge_may_work(void);

/* Purges every dirty span now, whatever its age. Returns the bytes given back. */
size_t lm_purge_all(void);

/* Purges about `bytes` bytes: the oldest spans first, by slices, then tails of large objects, each
 * as a whole. Returns the bytes given back. Does not purge memory that the system has refused, nor
 * memory of ranges. */
size_t lm_purge_some(size_t bytes);

/* Tells that the program has unlocked memory, so refused spans are tried again soon. Takes no lock
 * that the caller may hold, so a signal handler may call it. */
void lm_purge_unlocked(void);

/* Ends the worker and waits for its end; none is started until lm_purge_resume. Calls may nest, in
 * any thread, and may come from signal handlers. In a handler the worker may outlive the call, if
 * it waits for a lock that the interrupted thread holds (worker.c). */
void lm_purge_pause(void);
/* Ends one lm_purge_pause. */
void lm_purge_resume(void);

/* allowed false: ends the worker, starts none any more, and purges what is dirty. Call it before
 * the program forbids itself the system calls that a worker needs. allowed true: ends that. */
void lm_purge_allow(bool allowed);

/* Calls lm_purge_allow(false), unless the worker is forbidden already. */
void lm_purge_shut_in(void);

/* ---- Limits (limit.c) ---- */

typedef enum lm_cgroup_mode {
    LM_CGROUP_IGNORED,
    LM_CGROUP_EXPECTED,
    LM_CGROUP_AUTO
} lm_cgroup_mode_t;

/* Policy for limits. Atomic: any thread may change it at any time. */
typedef struct lm_limit_policy {
    size_t soft, hard; /* maximum bytes held; SIZE_MAX: no limit */
    lm_cgroup_mode_t cgroup;
} lm_limit_policy_t;

extern lm_limit_policy_t lm_limit_policy;

/* Atomic. The soft limit was crossed, and the program has not been told yet. */
extern LM_HIDDEN bool lm_limit_crossed;

/* Returns whether there is a hard limit. */
LM_INLINE bool lm_limit_is_hard(void) {
    return lm_load_relaxed(&lm_limit_policy.hard) != SIZE_MAX; /* relaxed: an independent word */
}

/* Applies a change of the limits. If more is held than a limit allows, free memory goes back; if
 * that is not enough, the soft limit counts as crossed. Takes the arena lock. */
void lm_limit_changed(void);

/* Looks for the process's control group at once; otherwise the worker does it. Returns false iff
 * there is none. */
bool lm_limit_find_cgroup(void);

/* Returns `percent` hundredths of the machine's memory or, if of_group, of the lowest limit of the
 * control groups around the process, if that is less. The result is in bytes, rounded down to whole
 * slices, but at least one. Returns 0 iff the system does not tell, or must not be asked. Reads
 * files. */
size_t lm_limit_share(unsigned percent, bool of_group);

typedef struct lm_limit_stats {
    size_t held_bytes, held_bytes_most; /* slices in use, or free and dirty; now, and at peak */
    size_t crossings, refusals;
    size_t cgroup_used, cgroup_limit; /* as last seen; 0: unknown */
    unsigned pressure;                /* lm_pressure_t */
} lm_limit_stats_t;

void lm_limit_stats(lm_limit_stats_t *stats);

/* Returns whether more than the soft limit is held, and both numbers in bytes. Call it after a
 * crossing, once what can be collected has been. If it returns false, the crossing is not counted,
 * and the next one is reported. */
bool lm_limit_still_crossed(size_t *held_bytes, size_t *soft_bytes);

/* ---- Numbers, checks, fork ---- */

typedef struct lm_span_stats {
    size_t arena_bytes;    /* mapped slices */
    size_t metadata_bytes; /* memory behind the map and descriptors */
    size_t dirty_bytes, clean_bytes, used_bytes, meta_bytes;
    size_t purged_bytes, purges; /* since the start */
    /* Bytes: of addresses, and of addresses that memory may be behind. */
    lm_tally_t reserved, committed;
    size_t grown; /* number of times that the arena grew */
    /* Bytes of ranges, and their free bytes. Ranges inside the arena are counted above as well. */
    size_t range_bytes, range_free_bytes;
} lm_span_stats_t;

void lm_span_stats(lm_span_stats_t *stats);

/* Restarts every peak at its present value. */
void lm_span_forget_peaks(void);

/* Calls visit for each span in use. The arena lock is held during the calls. */
void lm_span_visit(void (*visit)(lm_page_t *span, void *context), void *context);

/* Returns the span in use that contains p, or NULL iff there is none. Walks the arena; for reports
 * only. Takes the arena lock. */
lm_page_t *lm_span_holding(const void *p);

#if LOAM_DEBUG
/* Calls `look` for the page of blocks that ends where the span begins, and returns its result;
 * false iff there is no page. The page cannot be given back meanwhile. Takes the arena lock. */
bool lm_span_page_before(const lm_page_t *span, bool (*look)(const lm_page_t *page));
#endif

/* Checks the invariant above; aborts with a line about what is broken. In secure builds no thread
 * may be making a page. Takes the arena lock. */
void lm_span_check(void);

/* Returns whether the calling thread holds the arena lock. */
bool lm_span_fork_is_mine(void);
/* Takes the arena lock for a fork, as lm_lock_hold. No span is being purged while it is held. */
bool lm_span_fork_hold(uint64_t until);
/* Releases the arena lock after a fork, as lm_lock_let. */
void lm_span_fork_let(void);
/* Resets the locks and forgets the worker, in the child of a fork that holds the arena lock. */
void lm_span_after_fork(void);
/* Repairs the state in the child of a fork that took no locks (lm_purge_alone). */
void lm_span_after_fork_alone(void);
/* Repairs the state in the child of a fork that stopped no thread: rebuilds the lists of free spans
 * if another thread was changing them. Before that, calls `visit` for each span in use, without a
 * lock. */
void lm_span_after_torn_fork(void (*visit)(lm_page_t *span, void *context), void *context);

#include "span/range.h"

#endif

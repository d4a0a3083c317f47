/* theap.h: the heap of one thread: its data, and the part of it that each wing owns.
 *
 *   lm_theap_t   [ head[], current[] | lists of pages, lock, owner | the wings' parts | notified ]
 *                 the two fast paths  slow paths, under the lock                       any thread
 *
 * heap.h includes this file. Functions on a heap are declared in heap.h (for other layers) and in
 * core.h (for the heap's own files and its wings).
 *
 * Invariants (lm_heap_check): the list in head[c] holds blocks of current[c] only, or, where
 * holds[c] is LM_HOLDS_OTHERS, of any pages of that class or a larger one. Each block of a page is
 * on the page's `free` list, on its `remote` list, in a heap's head[], in another heap's
 * foreign[], in the transfer cache, in use, or not carved yet.
 * live + bias == carved - length(free).
 */
#ifndef LM_HEAP_THEAP_H
#define LM_HEAP_THEAP_H

#include "base/base.h"
#include "heap/classes.h"
#include "os/os.h"
#include "span/span.h"

/* Largest request in bytes, as in the C library. A larger request is an error of arithmetic. */
#define LM_REQUEST_MOST ((size_t)PTRDIFF_MAX)

/* Blocks of one size class, of other threads' pages, that this thread has freed. Its next mallocs
 * take them, or they return to their pages (remote.c). */
typedef struct lm_foreign {
    lm_block_t *first;
    uint16_t room;       /* number of blocks that may still join the list */
    uint16_t granted;    /* room plus the number of blocks on the list */
    uint8_t shared;      /* number of blocks that the heap borrowed from the common heap */
    uint8_t skip, pause; /* refills left, and in all, from one search for used blocks to the next */
} lm_foreign_t;

/* Which blocks the list head[c] of a size class holds. */
typedef enum lm_holds {
    /* Blocks of current[c]. */
    LM_HOLDS_OWN,
    /* Blocks of current[c] that were never allocated. All their bytes but the link are zero. Debug
     * builds fill such blocks, and never set this. */
    LM_HOLDS_ZERO,
    /* Blocks of other threads' pages, or of a larger size class. */
    LM_HOLDS_OTHERS
} lm_holds_t;

/* ---- The parts of the wings ---- */

/* Bits of lm_fheap_part_t.special: the heap is a branch, for ever; one of the branches of this
 * thread's own heap is retired. */
enum { LM_IS_BRANCH = 1, LM_HAS_RETIRED = 2, LM_BRANCHES_FEW = 8 };

/* First-class heaps (fheap/). A branch is the part of a first-class heap that one thread allocates
 * from; it is an lm_theap_t as well. */
typedef struct lm_fheap_part {
    struct loam_heap *last_fheap; /* the heap that last_branch belongs to, or LM_NO_FHEAP; atomic */
    struct lm_theap *last_branch; /* the branch that this thread used last */
    struct lm_theap *active_heap; /* lm_heap_self of the awake thread: its own heap, or a branch */
    struct lm_theap *own_heap;    /* heap of the thread that owns a branch; atomic in a branch */
    struct lm_theap *next_branch; /* atomic: next in a chain of the index, or of spare branches */
    /* The index of a thread's own heap: its branches in use, by first-class heap. Changed under the
     * registry's lock. */
    struct lm_theap **buckets; /* 1 << bucket_bits chains, each atomic; NULL: no branch yet */
    struct lm_theap *few_branches[LM_BRANCHES_FEW]; /* the buckets of a small index */
    lm_page_t *bucket_memory;                       /* span with the buckets of a larger index */
    size_t branches;                                /* number of branches in the index */
    uint8_t bucket_bits;
    struct lm_theap *retired_branches; /* branches to part with; registry's lock */
    struct loam_heap *fheap; /* the heap that this branch belongs to; NULL: not in use, no branch */
    bool retired;            /* a branch whose heap was deleted: its blocks are malloc's */
    uint8_t special;         /* atomic: LM_IS_BRANCH, LM_HAS_RETIRED */
    lm_node_t sibling;       /* in the list of branches of `fheap` */
} lm_fheap_part_t;

/* Nobody's handle, so that not even NULL is taken for the heap that was used last. */
#define LM_NO_FHEAP ((struct loam_heap *)1)

/* Guard sampling (sampling/): when the next samples are due. Only the owner reads and writes it. */
typedef struct lm_sample_turns {
    uint32_t countdown; /* number of blocks to hand out before the next sample is due */
    uint32_t following; /* countdown of the sample after that, while one is due */
    uint32_t rate;      /* sampling rate that both were drawn for */
    uint64_t random;    /* state of the random numbers */
    uint64_t due[2];    /* a bit for each size class whose next refill is a sample */
} lm_sample_turns_t;

#if LM_SECURE
enum {
    LM_QUARANTINE_OTHERS = LM_SMALL_CLASSES, /* the ring of all classes that are not small */
    LM_QUARANTINE_RINGS,
    LM_QUARANTINE_MOST = 32,
    LM_QUARANTINE_PLACES = 1032
};

/* Freed blocks of one small class, or of all other classes, that wait before they are used again
 * (checks/quarantine.c). Places have numbers that grow. Malloc may take the blocks in the places
 * from `taken` up to `ready`. */
typedef struct lm_quarantine_ring {
    size_t ready;        /* written by the owner */
    size_t taken;        /* written by the owner; atomic: statistics read it */
    lm_block_t **places; /* a part of lm_quarantine_t.place[] */
    uint8_t most;        /* largest ready - taken; 0: no block waits */
    uint8_t mask;        /* mask + 1 more blocks must wait; a power of two */
    uint8_t last;        /* last + 1 places; a power of two */
    uint8_t among;       /* a freed block changes places with one of so many youngest; mask */
    bool in_order;       /* blocks are used again in the order of their frees */
} lm_quarantine_ring_t;

/* The owner's alone, without the lock (but see lm_quarantine_return). */
typedef struct lm_quarantine {
    uint64_t random; /* state of the random numbers */
    uint64_t coins;  /* random bits, and a set bit above them */
    size_t bytes;    /* granted to small classes that have more places than the least */
    unsigned places; /* number of place[] in use */
    lm_quarantine_ring_t ring[LM_QUARANTINE_RINGS];
    size_t left[LM_QUARANTINE_RINGS]; /* places taken by others than malloc; atomic: statistics */
    lm_block_t *place[LM_QUARANTINE_PLACES];
} lm_quarantine_t;

#endif

/* Bytes that a thread has allocated and freed (survey/thread_bytes.c), in its own heap. What the
 * counts of its pages and lists say is not in these numbers. All are atomic. */
typedef struct lm_byte_counts {
    bool on; /* this thread has asked */
    size_t allocated, freed;
} lm_byte_counts_t;

/* ---- The heap ---- */

typedef struct LM_ALIGNED(64) lm_theap {
    lm_block_t *head[LM_CLASSES];   /* free list of each class, ready to hand out */
    lm_page_t *current[LM_CLASSES]; /* the page that head[] is refilled from */
    uint8_t holds[LM_CLASSES];      /* lm_holds_t: which blocks are in head[] */

    /* Below: under the lock, unless the comment says otherwise. */
    lm_list_t partial[LM_CLASSES]; /* pages with free blocks, other than current[] */
    lm_list_t full[LM_CLASSES];    /* pages with no free block, or too few to be worth a look */
    lm_biased_t lock;
    bool active;            /* atomic: a thread owns the heap */
    uint32_t left_behind;   /* number of pages on which the worker found remote frees */
    bool parked;            /* atomic: the owner slept, and the worker cleared `*self` */
    unsigned rest;          /* atomic: number of the worker's visits while parked, or while kept */
    bool kept;              /* atomic: no thread owns it; current[] and head[] wait for the next */
    lm_page_t *coming;      /* pages taken from `notified` whose remote frees are not taken yet */
    unsigned vacant;        /* about the number of vacant pages: empty ones that stay (page.c) */
    unsigned tid;           /* the system's number of the owner; 0: unknown */
    uintptr_t stack_top;    /* of the owner's stack */
    struct lm_theap **self; /* address of the owner's lm_heap_self */
    size_t pages;           /* number of pages that the heap owns */
    size_t trim_at;         /* number of pages at which empty current and vacant ones go (page.c) */
    size_t slow;            /* number of slow paths that the owner has taken */
    size_t slow_seen;       /* the worker's note of `slow`: shows which threads rest */
    lm_node_t link;         /* in the registry of heaps */
    struct lm_theap *next_idle;
    uintptr_t token; /* the owner's */

    lm_fheap_part_t fheap;
    lm_sample_turns_t sampling;

    /* The owner's alone, without the lock (but see lm_foreign_return_sleeper). */
    size_t foreign_bytes; /* granted to foreign[] */
    lm_foreign_t foreign[LM_CLASSES];

#if LM_SECURE
    lm_quarantine_t quarantine;
#endif

    LM_ALIGNED(64) lm_page_t *notified; /* atomic: stack of pages on which others freed something */
    uint32_t pending;                   /* atomic: about how many of them */

    lm_byte_counts_t bytes;
} lm_theap_t;

/* The calling thread's heap; an empty one until it first allocates, while it is parked and after it
 * has ended, so that the fast path needs no test for any of these. */
extern LM_HIDDEN LM_TLS lm_theap_t *lm_heap_self;
extern LM_HIDDEN lm_theap_t lm_heap_empty;

#endif

/* heap.h: malloc and free as a thread runs them; the one header of this folder that outsiders
 * include.
 *
 *   malloc   heap->head[class] ── pop ──> block            13 instructions to 1 KiB, 17 above
 *               │ empty
 *               └──> the current page's own list, then the slow path (refill.c)
 *   free     map[slice] -> page, page->owner == this thread ── push on page->free, count down
 *               │ somebody else's, or large       │ reached 0
 *               └──> remote.c, large.c            └──> the page is empty, or full no more (page.c)
 *
 * A heap belongs to one thread; only its owner runs the two fast paths, without lock or atomic
 * read-modify-write. Everything else about a heap's pages happens under the heap's lock, which is
 * biased to the owner, and which the worker may take as well, to collect what others freed while it
 * sleeps.
 *
 * Invariants (lm_heap_check): the list in head[c] holds blocks of current[c] only, or, handed out,
 * of any pages of that class or a larger one; a page's blocks are on `free`, on `remote`, in a
 * heap's head, on another heap's `foreign`, in the transfer cache, in use, or not carved yet; live
 * + bias == carved - length(free).
 */
#ifndef LM_HEAP_H
#define LM_HEAP_H

#include "base/base.h"
#include "heap/classes.h"
#include "os/os.h"
#include "span/span.h"

/* Largest request, as in the C library: larger ones are errors of arithmetic. */
#define LM_REQUEST_MOST ((size_t)PTRDIFF_MAX)

/* Blocks of one class, of other threads' pages, that this thread has freed: its next mallocs take
 * them, or they go back (remote.c). */
typedef struct lm_foreign {
    lm_block_t *first;
    uint16_t room;       /* blocks that may still come */
    uint16_t granted;    /* that, and how many there are */
    uint8_t shared;      /* blocks taken from the common heap */
    uint8_t skip, pause; /* refills before used memory is searched for again */
} lm_foreign_t;

#if LM_SECURE
/* Freed blocks of one small class, or of all others, that wait before they are used again
 * (later.c). All of it is the owner's alone, without the lock, but see lm_later_return; `taken` and
 * later_left[], atomic, are read by who asks for statistics. */
enum {
    LM_LATER_OTHERS = LM_SMALL_CLASSES,
    LM_LATER_RINGS,
    LM_LATER_MOST = 32,
    LM_LATER_PLACES = 1032
};
typedef struct lm_later {
    size_t ready,
        taken; /* numbers of places: from `taken` to `ready` malloc may have what is in them */
    lm_block_t **places; /* some of later_place[] */
    uint8_t most;        /* ready at most; 0: none wait */
    uint8_t mask;        /* mask + 1 more must wait, a power of two */
    uint8_t last;        /* last + 1 places, a power of two */
    uint8_t among;       /* so many before the youngest may be asked to become it */
    bool in_order;       /* none of them is */
} lm_later_t;

/* AUTO: in random order where a class has few blocks. */
typedef enum lm_order { LM_ORDER_KEPT, LM_ORDER_RANDOM, LM_ORDER_AUTO } lm_order_t;
extern lm_order_t lm_order; /* atomic: changed by any thread, at any time */
#endif

/* A heap that is a branch; a thread's own, one of whose branches is `retired`. */
enum { LM_IS_BRANCH = 1, LM_HAS_RETIRED = 2, LM_BRANCHES_FEW = 8 };

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

typedef struct LM_ALIGNED(64) lm_heap {
    lm_block_t *head[LM_CLASSES];   /* ready to hand out */
    lm_page_t *current[LM_CLASSES]; /* the page that head[] came from */
    uint8_t holds[LM_CLASSES];      /* lm_holds_t: what blocks are in head[] */

    /* Below: under the lock, except where said. */
    lm_list_t partial[LM_CLASSES]; /* other pages of ours that have free blocks */
    lm_list_t full[LM_CLASSES];    /* pages of ours with none, or too few to be worth a look */
    lm_biased_t lock;
    bool active;           /* atomic: a thread owns it */
    uint32_t left_behind;  /* pages on which the worker found remote frees */
    bool parked;           /* atomic: the worker took `*self` away: the owner slept */
    unsigned rest;         /* atomic: times that the worker has collected since, or found it kept */
    bool kept;             /* atomic: no thread owns it; current[] and head[] wait for the next */
    lm_page_t *coming;     /* pages taken from `notified`, and not taken in yet */
    unsigned vacant;       /* pages without a block in use that stay (page.c), at most */
    unsigned tid;          /* the owner's number, 0: unknown */
    uintptr_t stack_top;   /* of the owner */
    struct lm_heap **self; /* the owner's lm_heap_self */
    size_t pages, trim_at; /* pages owned; below trim_at the current ones are looked at */
    size_t slow, slow_seen; /* slow paths taken, and the worker's note of it: shows who rests */
    lm_node_t link;         /* registry of heaps */
    struct lm_heap *next_idle;
    uintptr_t token; /* the owner's */

    /* First-class heaps (whole.c). A branch is the part of one that a thread allocates from. */
    struct loam_heap *of;   /* atomic: the one whose branch is below; LM_OF_NONE: none lately */
    struct lm_heap *branch; /* this thread's branch of that one */
    struct lm_heap *front; /* what lm_heap_self is while the thread is awake: itself, or a branch */
    struct lm_heap *main;  /* this thread's own heap; atomic, of a branch */
    struct lm_heap *next_branch; /* atomic: of a chain (branch.c); or among those to spare */
    /* A thread's own heap: its branches in use, by their heap. Changed under the registry's
     * lock. */
    struct lm_heap **buckets; /* 1 << bucket_bits, each atomic; NULL: none yet */
    struct lm_heap *few_branches[LM_BRANCHES_FEW]; /* the first buckets */
    lm_page_t *bucket_memory;                      /* of more than these */
    size_t branches;                               /* in use */
    uint8_t bucket_bits;
    struct lm_heap *retired_branches; /* registry's lock */
    struct loam_heap
        *whole;        /* a branch: of that one. NULL: a thread's own heap, or no longer in use */
    bool retired;      /* a branch of a heap that was deleted: its blocks are as any others */
    uint8_t special;   /* atomic: LM_IS_BRANCH, for ever; LM_HAS_RETIRED */
    lm_node_t sibling; /* among the branches of the same */

    /* Sampling (sample_turns.c), all of it the owner's alone. */
    uint32_t sample_in;     /* blocks to hand out before the next sample is due */
    uint32_t sample_next;   /* the same of the next but one, while one is due */
    uint32_t sample_rate;   /* that these were drawn for */
    uint64_t sample_random; /* state */
    uint64_t sample_due[2]; /* a bit for each class whose next refill is a sample */

    size_t foreign_bytes;             /* granted below; both are the owner's alone */
    lm_foreign_t foreign[LM_CLASSES]; /* without the lock, but see lm_foreign_return_sleeper */

#if LM_SECURE
    uint64_t random;
    uint64_t later_coins; /* random bits, and a set one above them */
    size_t later_bytes;   /* granted, to small classes of more places than the least */
    unsigned later_places;
    lm_later_t later[LM_LATER_RINGS];
    size_t later_left[LM_LATER_RINGS]; /* of those taken: not by malloc */
    lm_block_t *later_place[LM_LATER_PLACES];
#endif

    LM_ALIGNED(64) lm_page_t *notified; /* atomic: stack of pages on which others freed something */
    uint32_t pending;                   /* atomic: about how many */

    /* A thread's own heap: its bytes are counted (thread_bytes.c); how many, but for what its pages
     * and lists say. Atomic, all of these. */
    bool bytes_on;
    size_t bytes_allocated, bytes_freed;
} lm_heap_t;

/* The calling thread's heap; an empty one until it first allocates, while it is parked and after it
 * has ended, so that the fast path needs no test for any of these. */
/* Nobody's handle, so that not even NULL is taken for one that was used lately. */
#define LM_OF_NONE ((struct loam_heap *)1)

extern LM_HIDDEN LM_TLS lm_heap_t *lm_heap_self;
extern LM_HIDDEN lm_heap_t lm_heap_empty;

/* Returns true if the block that the calling thread's heap allocated last, from that page, is zero
 * except for its link. A page that has lent blocks to a smaller size class is no longer fresh. */
LM_INLINE bool lm_page_virgin(const lm_heap_t *heap, const lm_page_t *page) {
    return heap->current[page->size_class] == page &&
           heap->holds[page->size_class] == LM_HOLDS_ZERO && page->fresh;
}

/* ---- Links of free lists ---- */

#if LM_GUARD_LINKS
/* Of the process; 0 until the first page is made. */
extern LM_HIDDEN uintptr_t lm_secret;

/* Encoded with a key for each slice; reading one that was overwritten, in debug builds, or that
 * leads out of the arena, ends the program with a line. */
LM_INLINE uintptr_t lm_link_key(const void *place) {
    return lm_load_relaxed(&lm_secret) ^
           ((uintptr_t)place >> LM_SLICE_SHIFT) * (uintptr_t)0x9e3779b97f4a7c15;
}

/* The rest of lm_link_get: next is NULL, or no block. */
lm_block_t *lm_link_last(const lm_block_t *block, const lm_block_t *next);

#if LM_TOOLS
/* The word of a link, which tools are told to be inaccessible (tools.c). */
uintptr_t lm_tools_peek(const lm_block_t *block);
void lm_tools_poke(lm_block_t *block, uintptr_t word);
#else
LM_INLINE uintptr_t lm_tools_peek(const lm_block_t *block) { return (uintptr_t)block->next; }
LM_INLINE void lm_tools_poke(lm_block_t *block, uintptr_t word) {
    block->next = (lm_block_t *)word;
}
#endif

LM_INLINE lm_block_t *lm_link_decoded(const lm_block_t *block) {
    return (lm_block_t *)(lm_tools_peek(block) ^ lm_link_key(block));
}

/* Whether what was decoded leads into the arena; NULL does not. */
LM_INLINE bool lm_link_leads(const lm_block_t *next) {
    uintptr_t at = (uintptr_t)next - lm_peek(&lm_arena.base);
    /* Turned by four bits: what is no multiple of 16 is far outside. */
    at = at >> 4 | at << (8 * sizeof at - 4);
    return at >> (LM_SLICE_SHIFT - 4) < lm_peek(&lm_arena.slices);
}

#if LOAM_DEBUG
#define LM_LINK_ADDRESS (((uintptr_t)1 << 48) - 1)
/* Above the address, which has 48 bits: by which loam knows what it has written to that place
 * itself. */
LM_INLINE uintptr_t lm_link_sum(const void *place, uintptr_t next) {
    uintptr_t both = ((uintptr_t)place >> 4) * (uintptr_t)0xd6e8feb86659fd93 + next;
    both = (both ^ both >> 29) * (uintptr_t)0x9e3779b97f4a7c15;
    return both >> 48 << 48;
}

LM_INLINE bool lm_link_intact(const lm_block_t *block) {
    uintptr_t word = (uintptr_t)lm_link_decoded(block), next = word & LM_LINK_ADDRESS;
    return (next | lm_link_sum(block, next)) == word;
}

LM_INLINE lm_block_t *lm_link_get(const lm_block_t *block) {
    lm_block_t *next = lm_link_decoded(block);
    if (LM_UNLIKELY(!lm_link_intact(block))) return lm_link_last(block, next);
    return (lm_block_t *)((uintptr_t)next & LM_LINK_ADDRESS);
}

LM_INLINE void lm_link_set(lm_block_t *block, lm_block_t *next) {
    uintptr_t word = (uintptr_t)next | lm_link_sum(block, (uintptr_t)next);
    lm_tools_poke(block, word ^ lm_link_key(block));
}
#else
LM_INLINE lm_block_t *lm_link_get(const lm_block_t *block) {
    lm_block_t *next = lm_link_decoded(block);
    return LM_LIKELY(lm_link_leads(next)) ? next : lm_link_last(block, next);
}

LM_INLINE void lm_link_set(lm_block_t *block, lm_block_t *next) {
    lm_tools_poke(block, (uintptr_t)next ^ lm_link_key(block));
}
#endif
#else
LM_INLINE lm_block_t *lm_link_get(const lm_block_t *block) { return block->next; }
LM_INLINE void lm_link_set(lm_block_t *block, lm_block_t *next) { block->next = next; }
#endif

/* ---- What the debug build does with a block that is taken from a list, or about to be put into
 * one (reuse.c) ---- */

#if LOAM_DEBUG
void *lm_taken(void *block);
void lm_given(void *p);
#else
LM_INLINE void *lm_taken(void *block) { return block; }
LM_INLINE void lm_given(void *p) { (void)p; }
#endif

/* ---- The two fast paths, on blocks ---- */

/* What lm_block_alloc says, where the list of the class is empty in the heap: the thread's, or the
 * empty one. More than LM_BLOCK_MOST bytes have no class, and need no heap. */
void *lm_block_take(size_t bytes, size_t size_class, lm_heap_t *heap);
void lm_block_free_slow(void *p, lm_page_t *page);
void lm_free_foreign(void *p); /* outside the arena: of a range, NULL; the rest is reported */
void lm_page_event(lm_page_t *page);

/* What is asked first about a freed pointer that is not loam's: returns whether its owner has freed
 * it. NULL: nobody is asked. Set before main (override/owner.c). */
extern bool (*lm_free_elsewhere)(void *p);

/* The first block of the heap's list; NULL iff it is empty. */
LM_INLINE lm_block_t *lm_block_pop_of(lm_heap_t *heap, size_t size_class) {
    lm_block_t *block = heap->head[size_class];
    LM_IN_RETURN_REGISTER(block);
    if (LM_LIKELY(block != NULL)) heap->head[size_class] = lm_link_get(block);
    return block;
}

/* The same. The next one is read ahead: its link is the first thing that the next malloc needs, and
 * it is often in no cache. */
LM_INLINE lm_block_t *lm_block_pop(lm_heap_t *heap, size_t size_class) {
    lm_block_t *block = lm_block_pop_of(heap, size_class);
    if (LM_LIKELY(block != NULL)) LM_PREFETCH(heap->head[size_class]);
    return block;
}

/* At least bytes bytes, aligned to 16; NULL with errno ENOMEM iff there is no memory. */
LM_INLINE void *lm_block_alloc(size_t bytes) {
    size_t size_class = 0;
    lm_heap_t *heap = NULL;
    if (LM_LIKELY(bytes <= LM_SMALL_MOST)) {
        size_class = (bytes + 15) >> 4; /* lm_class_small would cut it to an unsigned */
        heap = lm_heap_self;
        lm_block_t *block = lm_block_pop(heap, size_class);
        if (LM_LIKELY(block != NULL)) return lm_taken(block);
    } else if (LM_LIKELY(bytes <= LM_BLOCK_MOST)) {
        size_class = lm_class_medium(bytes);
        heap = lm_heap_self;
        lm_block_t *block = lm_block_pop(heap, size_class);
        LM_KEEP_APART("medium");
        if (LM_LIKELY(block != NULL)) return lm_taken(block);
    }
    return lm_taken(lm_block_take(bytes, size_class, heap));
}

/* Allocates `bytes` bytes, at most LM_SMALL_MOST; the size is not checked. Does not prefetch the
 * next block, which saves an instruction. */
LM_INLINE void *lm_block_alloc_small(size_t bytes) {
    size_t size_class = (bytes + 15) >> 4;
    lm_heap_t *heap = lm_heap_self;
    lm_block_t *block = lm_block_pop_of(heap, size_class);
    return LM_LIKELY(block != NULL) ? block : lm_block_take(bytes, size_class, heap);
}

/* From where the page is known. */
LM_INLINE void lm_block_free_on(void *p, lm_page_t *page) {
    /* The word equals our token iff we wrote it. */
    if (LM_UNLIKELY(lm_peek(&page->owner) != lm_thread_token())) {
        lm_block_free_slow(p, page);
        return;
    }
    lm_block_t *block = (lm_block_t *)p;
    lm_link_set(block, page->free);
    /* Release, which is free on x86-64: a fork at this point finds a list that hangs together. */
    lm_store_release(&page->free, block);
    if (LM_UNLIKELY(lm_count_down(&page->live))) lm_page_event(page);
}

/* Takes back what lm_block_alloc gave; NULL allowed. */
LM_INLINE void lm_block_free(void *p) {
    lm_given(p);
    size_t slice = lm_slice_of(p);
    if (LM_UNLIKELY(slice >= lm_peek(&lm_arena.slices))) {
        lm_free_foreign(p);
        return;
    }
    lm_block_free_on(p, lm_peek(&lm_arena.map[slice]));
}

/* align is a power of two. */
void *lm_malloc_aligned(size_t bytes, size_t align);

/* As lm_block_alloc, for what must not end with a first-class heap that the thread's malloc uses:
 * from its own. */
void *lm_block_alloc_lasting(size_t bytes, size_t align);

/* lm_block_alloc's block at a multiple of align, a power of two. Takes back either, whatever was
 * written there. */
#if LM_GUARD_LINKS
void *lm_block_alloc_aligned(size_t bytes, size_t align);
void lm_block_give_back(void *p);
#else
LM_INLINE void *lm_block_alloc_aligned(size_t bytes, size_t align) {
    return lm_malloc_aligned(bytes, align);
}
LM_INLINE void lm_block_give_back(void *p) { lm_block_free(p); }
#endif

/* ---- What the API stands on ---- */

/* Bytes of p's block that may be used; 0 after a report iff p is not ours. */
size_t lm_usable_size(const void *p);

/* Bytes from p, which may point into an object, to that object's end, and where it begins; SIZE_MAX
 * iff p lies in none that is found by looking at the map of p's slice and `back` before it. Any
 * pointer, no lock, no report (inside.c). */
size_t lm_room_inside(const void *p, size_t back, const char **object);
/* Reports a copy that would leave that object. */
void lm_copy_misuse(const char *object, const char *function, size_t bytes, const char *way,
                    const void *p, size_t room);

#if LOAM_METER
/* For the meter: the same without the exact number of a debug build, and without a word: 0 of what
 * is no block. */
size_t lm_meter_bytes(const void *p);
#endif

/* bytes zeroed bytes. Here and below: NULL with errno ENOMEM iff there is no memory. */
void *lm_calloc(size_t bytes);
/* The same, and zeroes from there to the usable size: what lm_recalloc takes. */
void *lm_zalloc(size_t bytes);
/* The same for at most LM_SMALL_MOST; as lm_malloc_small. */
void *lm_zalloc_small(size_t bytes);

/* An object p with (p + offset) % align == 0; lm_free and all below take it as any other. */
void *lm_malloc_aligned_offset(size_t bytes, size_t align, size_t offset);
/* The same, zeroed as by lm_zalloc. */
void *lm_zalloc_aligned_offset(size_t bytes, size_t align, size_t offset);

/* p's contents in a block of at least bytes; p is gone then. NULL also, after a report, iff p is
 * not ours; p stays wherever NULL comes back. Neither p nor bytes is 0. */
void *lm_realloc(void *p, size_t bytes);
/* The same with (result + offset) % align == 0. */
void *lm_realloc_aligned_offset(void *p, size_t bytes, size_t align, size_t offset);
/* The same; for p from a function that zeroes, what is beyond its old size is zero again. */
void *lm_recalloc(void *p, size_t bytes, size_t align, size_t offset);

/* Makes p an object of bytes where it is; false, p as before, iff it cannot be (errno ENOMEM) or is
 * not ours. */
bool lm_expand(void *p, size_t bytes);

/* What malloc(bytes) would really offer, at least. */
size_t lm_good_size(size_t bytes);

/* Collects and tells the program, after memory was taken that may have crossed the soft limit. No
 * lock held. */
void lm_limit_answer(void);
LM_INLINE void lm_limit_answer_if_crossed(void) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_limit_crossed)))
        lm_limit_answer(); /* relaxed: from the next one on will do */
}

/* The calling thread gives back what it holds ready, and what ended threads have left; other
 * threads are not touched. */
void lm_heap_collect(void);

typedef struct lm_heap_stats {
    size_t small_bytes,
        small_blocks; /* in use, in pages, or sampled; taken without stopping anybody */
    size_t large_bytes, large_blocks;
    size_t lent_large_bytes; /* of these in memory that the program has lent (span/range.h) */
    size_t held_bytes;       /* in pages, not in use */
    size_t heaps;
    struct {
        size_t pages, blocks, capacity;
        size_t freed;   /* blocks that were freed and wait in no list of a thread's malloc */
        size_t most;    /* at a time: see count.h */
        uint64_t total; /* blocks ever allocated */
    } of_class[LM_CLASSES];
    size_t pages, pages_gone, pages_most;
    size_t large_total, large_most, large_bytes_total, large_bytes_most;
    size_t threads, threads_total, threads_most; /* that have a heap; often one that another had */
    lm_tally_t orphans;                          /* pages */
    lm_tally_t sampled, sampled_bytes;
} lm_heap_stats_t;

/* What the calling thread has ready is not in use, nor what threads have in lists of others'
 * blocks; what other running threads have ready is. See count.h. */
void lm_heap_stats(lm_heap_stats_t *stats);

/* Bytes of blocks that the calling thread has allocated and freed since its first call of this.
 * false iff it has ended, or there is no memory for a heap. */
bool lm_thread_bytes(uint64_t *allocated, uint64_t *freed);

/* From now on the most of each is looked for anew. */
void lm_heap_forget_peaks(void);
/* Returns the sum of the sizes that the program asked for, in bytes; 0 in builds that do not count
 * it. */
#if LOAM_DEBUG
uint64_t lm_requested_in_all(void);
#else
LM_INLINE uint64_t lm_requested_in_all(void) { return 0; }
#endif

/* Looks for mistakes of the program at all objects and free blocks of the process, while no other
 * thread allocates or frees, and reports each. Returns how many. *all: there was memory for a list
 * of what to look at; otherwise only sampled objects were looked at. No lock held. */
size_t lm_verify(bool *all);

/* Walks the invariants of the calling thread's heap; aborts with a line on what is broken. */
void lm_heap_check(void);

/* Starts what must be ready before threads and forks: called by the library's constructor. */
void lm_heap_boot(void);

/* Whether the calling thread holds a lock of the heap: it runs a signal handler that has
 * interrupted loam. What waits for such a lock would wait without end. */
bool lm_heap_is_inside(void);

/* Makes malloc usable in the calling thread before its thread-local storage is initialised, while
 * all of it is zero. Writes one word, and calls nothing. */
void lm_heap_before_start(void);

/* malloc and free themselves: the two above, and in checked builds what fence.c or secure.c
 * adds. */
#if LM_GUARD_LINKS
void *lm_malloc(size_t bytes);
/* For at most LM_SMALL_MOST: checked builds report more, and give NULL. */
void *lm_malloc_small(size_t bytes);
void lm_free(void *p);
#else
LM_INLINE void *lm_malloc(size_t bytes) { return lm_block_alloc(bytes); }
LM_INLINE void *lm_malloc_small(size_t bytes) { return lm_block_alloc_small(bytes); }
LM_INLINE void lm_free(void *p) { lm_block_free(p); }
#endif

/* The same for an object that was made for so many bytes, or at a multiple of align, a power of
 * two: checked builds look whether it was. */
#if LM_GUARD_LINKS
void lm_free_sized(void *p, size_t size);
void lm_free_aligned(void *p, size_t align);
void lm_free_aligned_sized(void *p, size_t align, size_t size);
#else
LM_INLINE void lm_free_sized(void *p, size_t size) {
    (void)size;
    lm_free(p);
}
LM_INLINE void lm_free_aligned(void *p, size_t align) {
    (void)align;
    lm_free(p);
}
LM_INLINE void lm_free_aligned_sized(void *p, size_t align, size_t size) {
    (void)align, (void)size;
    lm_free(p);
}
#endif

/* ---- Tools (tools_kept.c) ---- */

#if LM_TOOLS
/* Gives back all spans that are hidden. Returns whether there were any. The arena's lock is not
 * held. */
bool lm_tools_let_go(void);
#else
LM_INLINE bool lm_tools_let_go(void) { return false; }
#endif

/* ---- Sampling (sampled.c, sample_turns.c, loam/sampling.h) ---- */

/* Atomic: changed by any thread, at any time. */
typedef struct lm_sampling {
    uint32_t rate;  /* about one of so many allocations is sampled; 0: none */
    uint32_t slots; /* how many there will be; read when the first are made */
    bool exact;     /* objects end with their page to the byte */
} lm_sampling_t;

extern LM_HIDDEN lm_sampling_t lm_sampling;

/* Makes the slots, unless there are some, and takes the signals of bad accesses
 * (lm_os_judge_faults). Else the first sample does. false iff there is no memory. */
bool lm_sampling_start(void);

typedef struct lm_sampling_numbers {
    size_t rate, slots, live, taken, missed, found;
} lm_sampling_numbers_t;
void lm_sampling_numbers(lm_sampling_numbers_t *numbers);
/* Whether p is a sampled object in use. */
bool lm_sampling_holds(const void *p);
/* The trace of the object that p points into or near, or that was there last: of its free, or of
 * its allocation. 0 iff there is none. */
size_t lm_sampling_trace(const void *p, bool of_free, uintptr_t *frames, size_t most);

/* From now on new objects are filled with the complement of the value's lowest byte, and freed ones
 * with that byte, by each thread from its next slow path on; 0: they are not (perturb.c). */
void lm_perturb_set(int value);

#if LOAM_DEBUG
/* From now on the last `depth` callers (0: none; 16 at most) of each allocation and free are kept,
 * and follow the report of a mistake with the object (sites.c). */
void lm_sites_record(unsigned depth);
/* Unless lm_sites_record was called before: it is not going to be. */
void lm_sites_settle(void);
/* What lm_sites_record will be called with before main, 0 if it will not: api/options.c answers
 * that, for constructors that allocate before loam's own runs. false iff options cannot be read
 * yet. Allocates nothing. */
bool lm_sites_expected(unsigned *depth);
/* Prints what is in use, by size and, where kept, call site (leaks.c). */
void lm_leaks_print(void);
#endif

#include "heap/copied.h"
#include "heap/whole.h"

#endif

/* heap.h: malloc and free as a thread runs them; the one header of this folder that outsiders include.
 *
 *   malloc   heap->head[class] ── pop ──> block            12 instructions to 1 KiB, 16 above
 *               │ empty
 *               └──> the current page's own list, then the slow path (refill.c)
 *   free     map[slice] -> page, page->owner == this thread ── push on page->free, count down
 *               │ somebody else's, or large       │ reached 0
 *               └──> remote.c, large.c            └──> the page is empty, or full no more (page.c)
 *
 * A heap belongs to one thread; only its owner runs the two fast paths, without lock or atomic
 * read-modify-write. Everything else about a heap's pages happens under the heap's lock, which is biased
 * to the owner, and which the worker may take as well, to collect what others freed while it sleeps.
 *
 * Invariants (lm_heap_check): the list in head[c] holds blocks of current[c] only, or, handed out, of any
 * pages of that class or a larger one; a page's blocks are on `free`, on `remote`, in a heap's head, on another
 * heap's `foreign`, in the transfer cache, in use, or not carved yet; live + bias == carved - length(free).
 */
#ifndef LM_HEAP_H
#define LM_HEAP_H

#include "base/base.h"
#include "heap/classes.h"
#include "os/os.h"
#include "span/span.h"

/* Largest request, as in the C library: larger ones are errors of arithmetic. */
#define LM_REQUEST_MOST ((size_t)PTRDIFF_MAX)

/* Blocks of one class, of other threads' pages, that this thread has freed: its next mallocs take them, or
 * they go back (remote.c). */
typedef struct lm_foreign {
    lm_block_t *first;
    uint16_t room;    /* blocks that may still come */
    uint16_t granted; /* that, and how many there are */
    /* head[] holds such blocks now, or a larger class's, and not those of current[] */
    bool handed_out;
    uint8_t shared;      /* blocks taken from the common heap */
    uint8_t skip, pause; /* refills before used memory is searched for again */
} lm_foreign_t;

/* A heap that is a branch; a thread's own, one of whose branches is `retired`. */
enum { LM_IS_BRANCH = 1, LM_HAS_RETIRED = 2 };

typedef struct LM_ALIGNED(64) lm_heap {
    lm_block_t *head[LM_CLASSES];   /* ready to hand out */
    lm_page_t *current[LM_CLASSES]; /* the page that head[] came from */

    /* Below: under the lock, except where said. */
    lm_list_t partial[LM_CLASSES]; /* other pages of ours that have free blocks */
    lm_list_t full[LM_CLASSES];    /* pages of ours with none, or too few to be worth a look */
    lm_biased_t lock;
    bool active;            /* atomic: a thread owns it */
    uint32_t left_behind;   /* pages on which the worker found remote frees */
    bool parked;            /* atomic: the worker took `*self` away: the owner slept */
    unsigned rest;          /* times that the worker has collected since, or found it kept */
    bool kept;              /* atomic: no thread owns it; current[] and head[] wait for the next */
    unsigned rounds;        /* of its owner's destructors so far */
    unsigned tid;           /* the owner's number, 0: unknown */
    uintptr_t stack_top;    /* of the owner */
    struct lm_heap **self;  /* the owner's lm_heap_self */
    size_t pages, trim_at;  /* pages owned; below trim_at the current ones are looked at */
    size_t slow, slow_seen; /* slow paths taken, and the worker's note of it: shows who rests */
    lm_node_t link;         /* registry of heaps */
    struct lm_heap *next_idle;
    uintptr_t token; /* the owner's */

    /* First-class heaps (whole.c). A branch is the part of one that a thread allocates from. */
    struct loam_heap *of;   /* atomic: the one whose branch is below; NULL: none was used lately */
    struct lm_heap *branch; /* this thread's branch of that one */
    struct lm_heap *front; /* what lm_heap_self is while the thread is awake: itself, or a branch */
    struct lm_heap *main;  /* this thread's own heap */
    struct lm_heap *next_branch; /* of this thread, the owner's alone; or among those to spare */
    struct loam_heap
        *whole;        /* a branch: of that one. NULL: a thread's own heap, or no longer in use */
    bool retired;      /* a branch of a heap that was deleted: its blocks are as any others */
    uint8_t special;   /* atomic: LM_IS_BRANCH, for ever; LM_HAS_RETIRED */
    lm_node_t sibling; /* among the branches of the same */

    size_t foreign_bytes;             /* granted below; both are the owner's alone */
    lm_foreign_t foreign[LM_CLASSES]; /* without the lock, but see lm_foreign_return_sleeper */

    LM_ALIGNED(64) lm_page_t *notified; /* atomic: stack of pages on which others freed something */
    uint32_t pending;                   /* atomic: about how many */
} lm_heap_t;

/* The calling thread's heap; an empty one until it first allocates, while it is parked and after it has
 * ended, so that the fast path needs no test for any of these. */
extern LM_HIDDEN LM_TLS lm_heap_t *lm_heap_self;
extern LM_HIDDEN lm_heap_t lm_heap_empty;

/* ---- Links of free lists ---- */

#if LM_GUARD_LINKS
/* Encoded with a key of the process and the place of the link; reading one that was overwritten, or
 * that leads out of its page, ends the program with a line. */
lm_block_t *lm_link_get(const lm_block_t *block);
void lm_link_set(lm_block_t *block, lm_block_t *next);
#else
LM_INLINE lm_block_t *lm_link_get(const lm_block_t *block) { return block->next; }
LM_INLINE void lm_link_set(lm_block_t *block, lm_block_t *next) { block->next = next; }
#endif

/* ---- The two fast paths, on blocks ---- */

void *lm_block_alloc_slow(size_t bytes);
void lm_block_free_slow(void *p, lm_page_t *page);
void lm_free_foreign(void *p); /* outside the arena: NULL is fine, the rest is reported */
void lm_page_event(lm_page_t *page);

/* The first block of a list; NULL iff it is empty. The heap is read here and not before: compilers would
 * share what follows between the two ranges of sizes, with a jump into it. */
LM_INLINE void *lm_block_pop(size_t size_class) {
    lm_heap_t *heap = lm_heap_self;
    lm_block_t *block = heap->head[size_class];
    LM_IN_RETURN_REGISTER(block);
    if (LM_LIKELY(block != NULL)) heap->head[size_class] = lm_link_get(block);
    return block;
}

/* At least bytes bytes, aligned to 16; NULL with errno ENOMEM iff there is no memory. */
LM_INLINE void *lm_block_alloc(size_t bytes) {
    if (LM_LIKELY(bytes <= LM_SMALL_MOST)) {
        void *block = lm_block_pop(lm_class_small(bytes));
        if (LM_LIKELY(block != NULL)) return block;
    } else if (LM_LIKELY(bytes <= LM_BLOCK_MOST)) {
        void *block = lm_block_pop(lm_class_medium(bytes));
        if (LM_LIKELY(block != NULL)) return block;
    }
    return lm_block_alloc_slow(bytes);
}

/* The same for at most LM_SMALL_MOST bytes, which nobody looks at. */
LM_INLINE void *lm_block_alloc_small(size_t bytes) {
    void *block = lm_block_pop((bytes + 15) >> 4); /* lm_class_small would cut it to an unsigned */
    return LM_LIKELY(block != NULL) ? block : lm_block_alloc_slow(bytes);
}

/* Takes back what lm_block_alloc gave; NULL allowed. */
LM_INLINE void lm_block_free(void *p) {
    size_t slice = lm_slice_of(p);
    if (LM_UNLIKELY(slice >= lm_peek(&lm_arena.slices))) {
        lm_free_foreign(p);
        return;
    }
    lm_page_t *page = lm_peek(&lm_arena.map[slice]);
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

/* ---- What the API stands on ---- */

/* Bytes of p's block that may be used; 0 after a report iff p is not ours. */
size_t lm_usable_size(const void *p);

#if LOAM_METER
/* For the meter: the same without the exact number of a debug build, and without a word: 0 of what is no block. */
size_t lm_meter_bytes(const void *p);
#endif

/* bytes zeroed bytes. Here and below: NULL with errno ENOMEM iff there is no memory. */
void *lm_calloc(size_t bytes);
/* The same, and zeroes from there to the usable size: what lm_recalloc takes. */
void *lm_zalloc(size_t bytes);
/* The same for at most LM_SMALL_MOST; as lm_malloc_small. */
void *lm_zalloc_small(size_t bytes);

/* align is a power of two. */
void *lm_malloc_aligned(size_t bytes, size_t align);

/* An object p with (p + offset) % align == 0; lm_free and all below take it as any other. */
void *lm_malloc_aligned_offset(size_t bytes, size_t align, size_t offset);
/* The same, zeroed as by lm_zalloc. */
void *lm_zalloc_aligned_offset(size_t bytes, size_t align, size_t offset);

/* p's contents in a block of at least bytes; p is gone then. NULL also, after a report, iff p is not
 * ours; p stays wherever NULL comes back. Neither p nor bytes is 0. */
void *lm_realloc(void *p, size_t bytes);
/* The same with (result + offset) % align == 0. */
void *lm_realloc_aligned_offset(void *p, size_t bytes, size_t align, size_t offset);
/* The same; for p from a function that zeroes, what is beyond its old size is zero again. */
void *lm_recalloc(void *p, size_t bytes, size_t align, size_t offset);

/* Makes p an object of bytes where it is; false, p as before, iff it cannot be (errno ENOMEM) or is not ours. */
bool lm_expand(void *p, size_t bytes);

/* What malloc(bytes) would really offer, at least. */
size_t lm_good_size(size_t bytes);

/* The calling thread gives back what it holds ready, and what ended threads have left; other threads are not
 * touched. */
void lm_heap_collect(void);

typedef struct lm_heap_stats {
    size_t small_bytes, small_blocks; /* in use, in pages; taken without stopping anybody */
    size_t large_bytes, large_blocks;
    size_t held_bytes; /* in pages, not in use */
    size_t heaps;
    struct {
        size_t pages, blocks, capacity;
    } of_class[LM_CLASSES];
} lm_heap_stats_t;

void lm_heap_stats(lm_heap_stats_t *stats);

/* Walks the invariants of the calling thread's heap; aborts with a line on what is broken. */
void lm_heap_check(void);

/* Starts what must be ready before threads and forks: called by the library's constructor. */
void lm_heap_boot(void);

/* malloc and free themselves: the two above, and in checked builds what fence.c or secure.c adds. */
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

#include "heap/whole.h"

#endif

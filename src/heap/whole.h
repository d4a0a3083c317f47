/* whole.h: first-class heaps, for the layer above.
 *
 *   loam_heap ── branch of thread A ── pages ── blocks        a branch is an lm_heap_t: everything in refill.c,
 *             ├─ branch of thread B ── pages ── blocks        page.c and remote.c holds for it
 *             ├─ branch of nobody: a thread has ended         the next thread that comes takes it
 *             └─ large objects
 *
 * A thread's branch has the thread's token, so that its frees are local ones. What differs: its
 * pages' foreign_class is 0, and so blocks that other threads free go straight home and are handed
 * out by no other heap; no page becomes an orphan, none is adopted. So a page's blocks are all of
 * one heap, and destroy gives pages back, not blocks.
 *
 * Invariants: a branch in use is in its heap's list and, with a thread, in that thread's; `used` is
 * the sum of the slices of its pages and large objects (lm_whole_check).
 */
#ifndef LM_HEAP_WHOLE_H
#define LM_HEAP_WHOLE_H

#include "heap/heap.h"
#include "loam/heap.h"

typedef enum lm_whole_state {
    LM_WHOLE_ALIVE = 0x50616548,
    LM_WHOLE_ENDED = 0x45616548
} lm_whole_state_t;

struct loam_heap {
    lm_node_t link; /* of those alive, or of those to spare, the oldest first; registry's lock */
    lm_whole_state_t state; /* atomic; anything else: it is no heap */
    lm_list_t branches;     /* registry's lock */
    lm_lock_t lock;         /* of the next two; leaf but for the arena's */
    lm_list_t large;        /* spans */
    size_t used;            /* atomic: bytes of pages and large objects */
    size_t most;            /* atomic: the most that was */
    size_t soft, hard;      /* atomic: limits; SIZE_MAX: none */
    bool crossed;           /* atomic: `soft` was, and nobody has been told */
    uint64_t life;          /* how many heaps have been here; changes under `lock`, too */
    loam_heap_told *told;   /* nobody is in the heap when these change */
    void *context;
    lm_lock_t late_lock;                     /* of the next; before heaps' locks */
    lm_heap_t *late;                         /* for threads that have ended but go on */
    uint64_t large_total, large_bytes_total; /* atomic: of large objects, ever */
    uint64_t *handed; /* atomic, by class: blocks of pages that have gone; NULL: not needed yet */
    struct loam_arena *arena; /* where its memory comes from; NULL: from everywhere */
    bool spills;              /* and from elsewhere when that is full */
};

typedef struct lm_whole_class {
    size_t pages, blocks, capacity;
    uint64_t total; /* blocks ever allocated */
} lm_whole_class_t;

typedef struct lm_whole_counts {
    lm_whole_class_t of_class[LM_CLASSES];
    size_t large, large_bytes, spans;
    uint64_t large_total, large_bytes_total;
} lm_whole_counts_t;

/* As for visit; false iff there is no memory for a list of its spans. */
bool lm_whole_count_all(struct loam_heap *whole, lm_whole_counts_t *counts);

/* false, after a report that names the function, iff it is NULL, has ended, or is no heap. What has
 * ended is seen until its place is another's: the next 64 heaps go elsewhere. */
bool lm_whole_alive(const struct loam_heap *whole, const char *function);

/* The others have to be given one that is alive, but where said. NULL iff there is no memory. */
struct loam_heap *lm_whole_create(void);

/* The same in a range (span/range.h); spills: where that is full, memory comes from elsewhere. NULL
 * also iff the range is closing. */
struct loam_heap *lm_whole_create_in(struct loam_arena *arena, bool spills);

/* Objects live on as malloc's. No thread may be allocating from it. Nothing but a report iff it is
 * not alive, or another thread has it for its malloc. */
void lm_whole_delete(struct loam_heap *whole);

/* Objects end. Nobody may be using one, or freeing one. As for delete. */
void lm_whole_destroy(struct loam_heap *whole);

/* As lm_malloc and lm_malloc_aligned and, zeroed, lm_zalloc. NULL also iff the hard limit is
 * reached; or, after a report and with errno EINVAL, iff it is not alive. */
void *lm_whole_malloc(struct loam_heap *whole, size_t bytes);
void *lm_whole_calloc(struct loam_heap *whole, size_t bytes);
void *lm_whole_malloc_aligned(struct loam_heap *whole, size_t bytes, size_t align);

/* As lm_realloc, of any object; where it moves, it moves into this heap. NULL as for
 * lm_whole_malloc; a release build does not look at the heap of an object that stays. */
void *lm_whole_realloc(struct loam_heap *whole, void *p, size_t bytes);

/* The same again, in full: as lm_zalloc_aligned_offset, lm_realloc_aligned_offset and lm_recalloc
 * without an offset; align 1: any. */
void *lm_whole_zalloc_aligned(struct loam_heap *whole, size_t bytes, size_t align);
void *lm_whole_realloc_aligned(struct loam_heap *whole, void *p, size_t bytes, size_t align);
void *lm_whole_recalloc(struct loam_heap *whole, void *p, size_t bytes, size_t align);

/* What lm_whole_choose has set for the calling thread. */
struct loam_heap *lm_whole_chosen(void);

/* Whose the memory at p is that lm_whole_holds speaks of; NULL: of none of them. */
struct loam_heap *lm_whole_of(const void *p);

/* The calling thread's malloc allocates from it; NULL: from its own. Returns what it was, NULL: its
 * own. *done is false iff there is no memory for a branch, and nothing has changed then. */
struct loam_heap *lm_whole_choose(struct loam_heap *whole, bool *done);

/* Whether p is in memory of it (NULL: in a page of the calling thread's own heap); in the middle of
 * an object, too. Takes time by the spans of the arena for pointers into large objects and for
 * those that are not ours. */
bool lm_whole_holds(const struct loam_heap *whole, const void *p);

/* 0: no such limit. false, with nothing changed, iff both are given and soft is above hard. */
bool lm_whole_limit(struct loam_heap *whole, size_t soft, size_t hard, loam_heap_told *told,
                    void *context);
void lm_whole_numbers(const struct loam_heap *whole, loam_heap_numbers *numbers);

/* Gives back what is empty, of the calling thread's branch and of those without a thread. */
void lm_whole_collect(struct loam_heap *whole);

/* Whether p is the start of a block in use; NULL as above. As for visit. */
bool lm_whole_owns(const struct loam_heap *whole, const void *p);

/* Calls area for each span, and, where that returned true, block for each block in use of it; both
 * end the walk by false. Returns whether it came to the end. whole NULL: pages of the calling
 * thread's own heap. No other thread may be allocating from it or freeing to it. Neither function
 * may allocate from or free to it. */
bool lm_whole_visit(struct loam_heap *whole, loam_heap_area_visitor *area,
                    loam_heap_object_visitor *block, void *context);

void lm_whole_check(struct loam_heap *whole);

#endif

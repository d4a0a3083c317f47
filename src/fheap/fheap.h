/* fheap.h: first-class heaps: heaps that a program makes, limits, destroys and allocates from.
 *
 *   loam_heap ── branch of thread A ── pages ── blocks        a branch is an lm_theap_t: everything
 *             ├─ branch of thread B ── pages ── blocks        in refill.c, page.c and remote.c
 *             ├─ branch of no thread: its thread has ended    holds for it; the next thread that
 *             └─ large objects                                comes takes the one without a thread
 *
 * For api/ and survey/. What the core calls is in heap/hooks.h: the calls for malloc and free from
 * a heap, counting, threads that end, and fork.
 *
 * A thread's branch has the thread's token, so that its frees are local ones. What differs from a
 * thread's own heap: its pages' foreign_class is 0, and so blocks that other threads free go
 * straight home and are handed out by no other heap; no page becomes an orphan, and no orphan is
 * adopted. So a page's blocks are all of one heap, and destroy gives pages back, not blocks.
 *
 * Invariants (lm_fheap_check): a branch in use is in its heap's list and, with a thread, in that
 * thread's index; `used` is the sum of the slices of its pages and large objects.
 */
#ifndef LM_FHEAP_H
#define LM_FHEAP_H

#include "checks/checks.h"
#include "heap/core.h"
#include "loam/heap.h"

typedef enum lm_fheap_state {
    LM_FHEAP_ALIVE = 0x50616548,
    LM_FHEAP_ENDED = 0x45616548
} lm_fheap_state_t;

struct loam_heap {
    /* In the list of live heaps, or of unused ones, the oldest first. Registry's lock. */
    lm_node_t link;
    lm_fheap_state_t state; /* atomic; any other value: this is no heap */
    lm_list_t branches;     /* registry's lock */
    lm_lock_t lock;         /* of `large` and `used`; only the arena's lock comes after it */
    lm_list_t large;        /* spans of large objects */
    size_t used;            /* atomic: bytes of pages and large objects */
    size_t most;            /* atomic: peak of `used` */
    size_t soft, hard;      /* atomic: limits in bytes; SIZE_MAX: no limit */
    bool crossed;           /* atomic: `used` passed `soft`, and `told` has yet to be called */
    uint64_t life;          /* number of heaps that were in this place; changes under `lock`, too */
    loam_heap_told *told;   /* it and `context` change while no thread is in the heap */
    void *context;
    lm_lock_t late_lock;        /* of `late`; comes before heaps' locks */
    lm_theap_t *late;           /* branch for threads that have ended but go on */
    uint64_t large_total;       /* atomic: number of large objects, ever */
    uint64_t large_bytes_total; /* atomic: bytes of large objects, ever */
    /* Number of blocks of each class in pages that have gone, each atomic. NULL: no page went. */
    uint64_t *handed;
    struct loam_arena *arena; /* where its memory comes from; NULL: any memory */
    bool spills;              /* memory comes from elsewhere when `arena` is full */
};

/* ---- fheap.c: a heap's life. Each function needs a heap that is alive, unless it says so ---- */

/* Returns false, after a report that names the function, iff the heap is NULL, has ended, or is no
 * heap. An ended heap is seen until its place is reused: the next 64 heaps go elsewhere. */
bool lm_fheap_alive(const struct loam_heap *fheap, const char *function);

/* Returns a new heap; NULL iff there is no memory. */
struct loam_heap *lm_fheap_create(void);

/* Returns a new heap in a range (span/range.h). spills: where the range is full, memory comes from
 * elsewhere. Returns NULL also iff the range is closing. */
struct loam_heap *lm_fheap_create_in(struct loam_arena *arena, bool spills);

/* Ends the heap. Its objects live on as malloc's. No thread may be allocating from it. Only reports
 * iff the heap is not alive, or another thread has it for its malloc. */
void lm_fheap_delete(struct loam_heap *fheap);

/* Ends the heap and its objects. No thread may be using or freeing one. Reports as delete does. */
void lm_fheap_destroy(struct loam_heap *fheap);

/* The calling thread's malloc allocates from the heap; NULL: from its own. Returns what it
 * allocated from before, NULL: its own. *done becomes false, and nothing changes, iff there is no
 * memory for a branch, or the thread's own heap has ended. */
struct loam_heap *lm_fheap_choose(struct loam_heap *fheap, bool *done);

/* Returns the heap in whose memory p is, in the middle of an object, too (lm_fheap_holds); NULL iff
 * there is none. */
struct loam_heap *lm_fheap_of(const void *p);

/* Sets the limits in bytes; 0: no such limit. Returns false, and changes nothing, iff both are
 * given and soft is above hard. */
bool lm_fheap_limit(struct loam_heap *fheap, size_t soft, size_t hard, loam_heap_told *told,
                    void *context);
/* Fills in the heap's bytes in use, their peak and its limits. */
void lm_fheap_numbers(const struct loam_heap *fheap, loam_heap_numbers *numbers);

/* Prepares the count of blocks in pages that go; without it statistics lack them. Registry's lock
 * held. */
void lm_fheap_count_begin(struct loam_heap *fheap);

/* ---- branch.c ---- */

/* Returns the calling thread's branch of that heap, made if need be. Returns NULL iff there is no
 * memory. No lock held. */
lm_theap_t *lm_branch_of(struct loam_heap *fheap, lm_theap_t *own);
/* Returns the branch of threads that have ended, made if need be. Returns NULL iff there is no
 * memory. */
lm_theap_t *lm_branch_late(struct loam_heap *fheap);

/* A branch without a thread or heap may be reused. Registry's lock held. */
void lm_branch_spare(lm_theap_t *branch);
/* The thread no longer finds the branch as that heap's. Registry's lock held. */
void lm_branch_out_of_index(lm_theap_t *branch, const struct loam_heap *fheap);
/* The thread of a branch in no index will part with its pages. Registry's lock held. */
void lm_branch_retire(lm_theap_t *branch);

/* Calls visit for each branch of the calling thread, under the registry's lock. No lock held. */
void lm_branch_each(lm_theap_t *own, void (*visit)(lm_theap_t *branch, void *context),
                    void *context);

#endif

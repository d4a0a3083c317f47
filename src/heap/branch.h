/* branch.h: first-class heaps, as the rest of the heap sees them: what they count and take
 * (whole.c, whole_alloc.c), and the parts of them that threads own (branch.c). The drawing is in
 * whole.h, which is for the layer above.
 */
#ifndef LM_HEAP_BRANCH_H
#define LM_HEAP_BRANCH_H

#include "heap/room.h"

/* ---- whole.c, whole_alloc.c: first-class heaps ---- */

/* More slices are in use, or fewer. false iff the limit forbids it. Any lock may be held. */
bool lm_whole_count(struct loam_heap *whole, size_t slices);
void lm_whole_uncount(struct loam_heap *whole, size_t slices);

/* For its statistics; without it they lack the pages that have gone. Registry's lock held. */
void lm_whole_room_to_count(struct loam_heap *whole);

/* A large object leaves its heap, and what that has counted. No lock held. */
void lm_whole_lose(lm_page_t *page);
/* change, within the heap's limits: p, the object of that page, gets so many usable bytes, in its
 * place or elsewhere. roomy: more may be taken than these. NULL iff it cannot be, and nothing has
 * changed. */
typedef void *lm_large_change_t(lm_page_t *page, void *p, size_t bytes, bool roomy, size_t *fresh);
void *lm_whole_large_change(struct loam_heap *whole, lm_page_t *page, void *p, size_t bytes,
                            size_t *fresh, lm_large_change_t *change);

/* false, after a report and with errno EINVAL, iff it is not alive. */
bool lm_whole_serves(const struct loam_heap *whole);
void *lm_whole_large_alloc(struct loam_heap *whole, size_t bytes, size_t align, bool *zero);

/* As lm_span_take, and lm_span_take_page, for a heap with a range of its own. */
lm_page_t *lm_whole_take(const struct loam_heap *whole, size_t slices, size_t align_slices,
                         bool *zero);
lm_page_t *lm_whole_take_page(const struct loam_heap *whole, size_t slices, size_t block_bytes,
                              bool crowded, bool *zero);

/* ---- branch.c ---- */

/* The calling thread's branch of that heap, made if need be; that of threads that have ended. NULL
 * iff there is no memory. No lock held. */
lm_heap_t *lm_branch_of(struct loam_heap *whole, lm_heap_t *own);
lm_heap_t *lm_branch_late(struct loam_heap *whole);

/* Registry's lock held, these four. A branch without a thread or heap may be anybody's. */
void lm_branch_spare(lm_heap_t *branch);
/* Its thread finds it as that heap's no more. */
void lm_branch_out_of_index(lm_heap_t *branch, const struct loam_heap *whole);
/* One that is in no index: its thread will part with its pages. */
void lm_branch_retire(lm_heap_t *branch);
/* The thread has no branches any more: they have been seen to. */
void lm_branch_forget_all(lm_heap_t *own);

/* Calls visit for each of a thread's branches, by that thread. No lock held; visit is called under
 * the registry's. */
void lm_branch_each(lm_heap_t *own, void (*visit)(lm_heap_t *branch, void *context), void *context);

/* Calls visit for each page, which may leave its list meanwhile. Heap lock held. */
void lm_branch_each_page(lm_heap_t *branch, void (*visit)(lm_page_t *page, void *context),
                         void *context);

/* A block of that class from the calling thread's branch. */
void *lm_branch_alloc(lm_heap_t *branch, unsigned size_class);

/* The thread's branches of heaps that were deleted become what its other pages are. No lock
 * held. */
void lm_whole_part_with_retired(lm_heap_t *own);

/* The branches of a thread that ends stay with their heaps, for another thread. No lock held. */
void lm_whole_thread_ends(lm_heap_t *own);

/* The same for one of a thread that is not there any more. Registry's lock held. */
void lm_branch_ends(lm_heap_t *branch);

/* For a fork, registry's lock held: as lm_lock_hold and lm_lock_let. */
bool lm_whole_hold_late(uint64_t until); /* before the locks of heaps */
bool lm_whole_hold(uint64_t until);      /* after them */
void lm_whole_let(void);                 /* both */
void lm_whole_after_fork(void);
void lm_whole_after_torn_fork(void); /* frees locks that other threads held */

#endif

/* thread.h: a heap's life: its thread, the worker's visits, ended threads, fork (thread.c, idle.c,
 * unseen.c, slowpath_hooks.c, fork.c, fork_torn.c).
 *
 *   first malloc ──> active ──> kept, or retired ──> idle ──> the next thread's
 *                      │ sleeps ──> parked: the worker collects
 *
 * For the heap's files and its wings, by core.h. Invariant: every heap ever made is in lm_registry.
 * A thread's heap is active or idle, or is being moved between the two. A kept heap is idle.
 */
#ifndef LM_HEAP_THREAD_H
#define LM_HEAP_THREAD_H

#include "heap/heap.h"

/* Every heap ever made, and the lock of the list. */
extern lm_lock_t lm_registry_lock;
extern lm_list_t lm_registry;

/* Returns the heap after that one in the registry, the first one for NULL, or NULL. Registry's lock
 * held, or all other threads stopped. */
LM_INLINE lm_theap_t *lm_heap_next(const lm_theap_t *heap) {
    lm_node_t *next = heap != NULL ? lm_list_after(&lm_registry, &heap->link) : lm_registry.first;
    return next != NULL ? LM_CONTAINER(next, lm_theap_t, link) : NULL;
}
#define LM_EACH_HEAP(heap) \
    for (lm_theap_t *heap = lm_heap_next(NULL); heap != NULL; heap = lm_heap_next(heap))

/* ---- thread.c: the calling thread ---- */

/* Returns what the calling thread's malloc allocates from, made if need be: its own heap, or the
 * branch that it chose. Returns NULL iff the thread has ended or there is no memory. */
lm_theap_t *lm_heap_get(void);

/* Returns the calling thread's own heap; NULL iff it has none yet, or none any more. */
lm_theap_t *lm_heap_mine(void);

/* Returns the first-class heap that the calling thread's malloc uses; NULL: none. */
struct loam_heap *lm_heap_chosen(void);
/* True once any thread has chosen one. Atomic. */
extern bool lm_heaps_chosen;

/* Sets what lm_heap_get returns from now on: the thread's own heap, or one of its branches. */
void lm_heap_activate(lm_theap_t *front);

/* Makes the calling thread's next malloc take the slow path, as after parking. No lock needed. */
void lm_heap_hide_mine(void);

/* Notes in the calling thread's heap what the worker needs to see whether this thread sleeps. Heap
 * lock not held. */
void lm_heap_be_known(lm_theap_t *heap);

/* Returns the calling thread's number for the worker; 0 where a sandbox may forbid the question. */
unsigned lm_heap_tid(void);

/* ---- thread.c, refill.c: any heap ---- */

/* Returns zeroed memory that is never freed; a heap in such memory. Return NULL iff there is no
 * memory. Registry's lock held. */
void *lm_heap_memory(size_t bytes);
/* Gives up the unused memory, whose bounds a thread may have been changing that a torn child does
 * not have. Registry's lock held. */
void lm_heap_memory_after_torn_fork(void);
lm_theap_t *lm_heap_create(void);

/* Returns a block of that class from a given heap. Heap lock not held. */
void *lm_heap_refill(lm_theap_t *heap, unsigned size_class);
/* The rest of malloc's slow path, where the current page has no list. Returns a block, or NULL with
 * errno ENOMEM. */
void *lm_block_refill(unsigned size_class);

/* Takes in what other threads freed on all pages, and on the pages that the worker was notified of
 * while the owner slept and could not take in. Heap lock held. */
void lm_heap_take_in(lm_theap_t *heap);

/* Puts the list in head[] back into its page. Heap lock held. */
void lm_heap_return_head(lm_theap_t *heap, unsigned size_class);
/* Puts every list of blocks that are not of the current page back, because they would keep their
 * pages from being empty. Heap lock held. */
void lm_heap_return_handed_out(lm_theap_t *heap);

/* ---- thread.c: ended threads ---- */

/* Number of heaps in use. With lm_heaps_many of them, one page for each class that each thread
 * touches adds up: the first blocks of a class then come from the common heap, as the class's
 * head[], unless this heap has had its share. For the owner, while head[] is empty and there is no
 * current page. */
extern uint32_t lm_heaps_active, lm_heaps_many;
void lm_common_share(lm_theap_t *heap, unsigned size_class);

/* The heap of all threads that have ended but go on. Every call of theirs takes the slow path. */
extern lm_theap_t lm_heap_common;
/* Returns it, made if need be. No lock held. */
lm_theap_t *lm_common_heap(void);
void *lm_common_alloc(unsigned size_class);
/* For the worker: takes in what came back, and gives back pages that rest. */
void lm_common_trim(void);
/* Taken by each thread that allocates from the common heap. The holder counts as its owner. */
extern lm_lock_t lm_common_lock;

/* Number of heaps that are `kept`. Atomic. */
extern uint32_t lm_heaps_kept;
/* Ends that: pages go to the arena, or become orphans. Heap lock held. */
void lm_heap_unkeep(lm_theap_t *heap);

/* Gives empty pages to the arena, and makes the others orphans. A page on which a free is on its
 * way belongs to no heap, and follows when the free has arrived. Heap lock held, in place of the
 * owner. */
void lm_heap_part_with_all(lm_theap_t *heap);

/* Makes the heap inactive: empty pages go to the arena, and others become orphans. With
 * `keeping`, the current pages stay in the heap for its next thread. Heap lock held. */
void lm_heap_retire(lm_theap_t *heap, bool keeping);

/* Adds an inactive heap to those that the next thread may get. Registry's lock held. */
void lm_heap_idle_add(lm_theap_t *heap);

/* ---- unseen.c: threads whose end the system does not report ---- */

/* The calling thread is such a thread. No lock held. */
void lm_unseen_add(lm_theap_t *heap);
/* Ends the heaps of some of them that are gone. For a thread without a heap. No lock held. */
void lm_unseen_end_some(void);
extern lm_theap_t *lm_unseen; /* atomic: the first of their heaps */
LM_INLINE void lm_unseen_end(void) {
    /* Relaxed: a heap that comes at this moment is looked at by the next thread. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_unseen) != NULL)) lm_unseen_end_some();
}
/* Ends the heap of a thread that is gone. Its token is the calling thread's, which has no heap of
 * its own. No lock held. */
void lm_heap_end_in_place_of(lm_theap_t *heap);
/* In the child of a fork: only the calling thread's heap, if it is in the list, stays there.
 * Registry's lock held. */
void lm_unseen_after_fork(lm_theap_t *own_heap);

/* ---- slowpath_hooks.c: no lock held ---- */

/* Counts a slow path, for a program that has registered a deferred free or asked for heartbeats. */
void lm_heartbeat(void);
LM_INLINE void lm_heartbeat_if_asked(void) {
    /* Relaxed: from the next slow path on will do. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_heartbeat_wanted))) lm_heartbeat();
}

/* Called after a request of `bytes` was refused: frees memory that loam keeps, then calls the
 * out-of-memory handler (lm_memory_made). Returns whether to try the request again. *tries: 0 at
 * the first call for a request. */
bool lm_memory_found(size_t bytes, unsigned *tries);

/* ---- idle.c ---- */

/* What the worker does once a tick: see lm_purge_collect_idle. */
bool lm_idle_collect(bool last);
/* The part of it that runs while the program has one thread (decision 0029). */
bool lm_idle_collect_alone(bool last);

/* Collects from all threads at once, even from those that have run a slow path a moment ago. For a
 * thread that is short of memory. No lock held; not for a thread inside fork. */
void lm_idle_collect_now(void);

/* Returns a number that grows with each slow path of another thread, and with each new heap. No
 * lock held. */
size_t lm_idle_progress(void);

/* Begins a walk of the heaps: lm_idle_collect_now and lm_idle_unkeep take no pages from any heap
 * until lm_idle_let. It does not stop the worker: lm_purge_pause does. Registry's lock not held. */
void lm_idle_hold(void);
/* Ends the walk. */
void lm_idle_let(void);
/* In the child of a fork: only the calling thread's walks go on. */
void lm_idle_after_fork(void);

/* Takes what the heaps of ended threads were left with for the next threads, or for frees on their
 * way. No lock held. */
void lm_idle_unkeep(void);

/* ---- fork.c, fork_torn.c ---- */

/* Registers the fork handlers. Called once, under no lock. */
void lm_heap_fork_boot(void);

/* In the child: gives up what a thread that was passing had in its hands. All else is as in a child
 * whose other threads were stopped. */
void lm_heap_after_passed_fork(void);
/* The child of a fork that stopped no other thread: frees the locks, and gives up what may be half
 * changed. */
void lm_heap_after_torn_fork(void);

#endif

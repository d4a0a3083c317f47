/* thread.h: what thread.c, fork.c and fork_torn.c share; no other file includes it. */
#ifndef LM_HEAP_THREAD_H
#define LM_HEAP_THREAD_H

#include "heap/heap.h"

/* Taken by each thread that allocates from the common heap. The holder counts as the common
 * heap's owner. */
extern lm_lock_t lm_common_lock;

/* Notes in the calling thread's heap what the worker needs to see whether this thread sleeps.
 * Heap lock not held. */
void lm_heap_be_known(lm_heap_t *heap);

/* The calling thread's number for the worker, 0 where a sandbox may forbid the question. */
unsigned lm_heap_tid(void);

/* Makes the heap inactive: empty pages go to the arena, and others become orphans. With
 * `keeping`, the current pages stay in the heap for its next thread. Heap lock held. */
void lm_heap_retire(lm_heap_t *heap, bool keeping);

/* Adds an inactive heap to those that the next thread may get. Registry's lock held. */
void lm_heap_idle_add(lm_heap_t *heap);

/* fork_torn.c, in the child: gives up what a thread that was passing had in its hands. All else
 * is as in a child whose other threads were stopped. */
void lm_heap_after_passed_fork(void);
/* The child of a fork that stopped no other thread: frees the locks, and gives up what may be
 * half changed. */
void lm_heap_after_torn_fork(void);

/* fork.c: registers the fork handlers. Called once, under no lock. */
void lm_heap_fork_boot(void);

#endif

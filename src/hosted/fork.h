/* fork.h: how the allocators for many threads take part in fork; only the files of this folder
 * include it.
 *
 *   before   [ theirs: all locks ]  [ the heap's ]  [ the port's LIST ]  registered last runs first
 *   after    [ the port's LIST ]  [ the heap's ]  [ theirs ]
 *
 * The heap's handlers and the port's must be registered first, so that theirs run outside of them:
 * inside the heap's handlers, the forking thread passes locks or they stay taken, and the port's
 * LIST comes after all other locks.
 */
#ifndef LM_HOSTED_FORK_H
#define LM_HOSTED_FORK_H

#include "heap/heap.h"
#include "os/os.h"

/* Registers the handlers, once for each `registered`. The caller must hold no lock: libc holds its
 * own lock there, which fork also holds around handlers. Static objects may call it before the
 * heap's constructor has run. */
LM_INLINE void lm_hosted_on_fork(bool *registered /* atomic */, void (*before)(void),
                                 void (*parent)(void), void (*child)(void)) {
    /* Relaxed: a thread that sees it set needs nothing that was written before. The exchange
     * decides between two threads that do not see it set. */
    if (__atomic_exchange_n(registered, true, __ATOMIC_RELAXED)) return;
    lm_heap_boot();
    lm_port_watch();
    lm_thread_on_fork(before, parent, child);
}

#endif

/* fork.h: how the allocators of many threads take part in fork; the files of this folder include
 * it, nobody else.
 *
 *   before   [ theirs: all locks ]  [ the heap's ]  [ the port's LIST ]      what was registered last runs first
 *   after    [ the port's LIST ]  [ the heap's ]  [ theirs ]
 *
 * The heap's handlers and the port's are to be there first, so that theirs run outside of them:
 * inside the heap's, locks pass the forking thread through, or stay taken, and the port's LIST is
 * taken after all others.
 */
#ifndef LM_HOSTED_FORK_H
#define LM_HOSTED_FORK_H

#include "heap/heap.h"
#include "os/os.h"

/* Registers the handlers, once for each `registered`. To be called under no lock: libc has one of
 * its own, which fork holds around handlers. Static objects may call it before the heap's
 * constructor has run. */
LM_INLINE void lm_hosted_on_fork(bool *registered /* atomic */, void (*before)(void),
                                 void (*parent)(void), void (*child)(void)) {
    /* Relaxed: who sees it set needs nothing of what was done before; two who do not are told
     * apart. */
    if (__atomic_exchange_n(registered, true, __ATOMIC_RELAXED)) return;
    lm_heap_boot();
    lm_port_watch();
    lm_thread_on_fork(before, parent, child);
}

#endif

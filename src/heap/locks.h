/* locks.h: the order in which threads take the locks of the heap, as data (locks.c).
 *
 *   walk < registry < common < late branches < heaps < first-class heaps < transfer < ... < arena
 *
 * A thread that holds one of these locks may take only locks that come later. A fork takes all of
 * them from the first to the last, and gives them in the other direction. Fast paths take none.
 * What it cannot do: see locks that no fork holds, such as the locks of freed large objects (before
 * the arena's) and of a report's lines (after all).
 */
#ifndef LM_HEAP_LOCKS_H
#define LM_HEAP_LOCKS_H

#include "heap/core.h"

/* Takes all locks for a fork, and waits until the time `until` of lm_os_ms at most. Returns false
 * iff some lock could not be had; lm_locks_let must follow in either case. */
bool lm_locks_hold(uint64_t until);

/* In the parent: gives the locks that lm_locks_hold has taken, all or a part. */
void lm_locks_let(void);

/* Returns whether the calling thread holds one of the locks. */
bool lm_locks_any_is_mine(void);

#endif

/* due.c: what a slow path of malloc does besides: heartbeats, deferred frees, the soft limit, room where memory ends.
 *
 *   slow path   lm_beating? ──> count, call the program's deferred free
 *               allocate
 *               lm_limit_crossed? ──> collect, purge, tell the program
 *   no memory   once: deferred free (force), collect, from other threads too; under a hard limit purge, and tell of
 *               the soft one; what waits in checked builds
 *               out-of-memory handler, again and again ──> NULL
 *
 * All of it without a lock of the heap's, so that what is called may allocate and free. Two words that are read once a
 * slow path are all that a program pays that wants nothing of this. It cannot hear of what the family's allocators
 * take from their sources: they come to the arena without a malloc.
 */
#include "heap/room.h"
#include "heap/secure.h"

enum { COLLECTED = 1 << 30 }; /* in the number of tries */

LM_COLD void lm_beat(void) {
    if (lm_told_may()) (void)lm_deferred_free(false);
}

LM_COLD void lm_limit_answer(void) {
    /* Acquire: one thread for each crossing. */
    if (!lm_told_may() || !lm_exchange_acquire(&lm_limit_crossed, false)) return;
    lm_heap_collect();
    (void)lm_purge_all();
    size_t held, soft;
    if (lm_limit_still_crossed(&held, &soft)) lm_limit_told(held, soft);
}

/* What can be had without the program: false iff there was nothing to do. */
static bool collect(void) {
    if (!lm_told_may()) return false;
    bool asked = lm_load_relaxed(&lm_beating) && lm_deferred_free(true);
    bool limited = lm_limit_is_hard(), waited = lm_reuse_unkeep();
    /* What other threads keep; it asks the system for what a program that has shut itself in may not have. */
    bool idle = lm_purge_allowed();
    if (!asked && !limited && !idle && !lm_later_waits()) return waited;
    lm_heap_collect();
    if (idle) lm_idle_collect_now();
    /* Where the system has no more, what goes back to it might not come again. */
    if (limited) (void)lm_purge_all();
    lm_limit_answer_if_crossed(); /* whom that tells may free something */
    return true;
}

LM_COLD bool lm_room_found(size_t bytes, unsigned *tries) {
    if ((*tries & COLLECTED) == 0) {
        *tries |= COLLECTED;
        /* A request that the empty arena could not hold is refused at once: programs that probe for limits make
         * millions of such requests. */
        if (bytes >> LM_SLICE_SHIFT >> LM_SLICES_MOST_LOG2 == 0 && collect()) return true;
    }
    *tries &= ~(unsigned)COLLECTED;
    bool made = lm_room_made(bytes, tries);
    *tries |= COLLECTED;
    return made;
}

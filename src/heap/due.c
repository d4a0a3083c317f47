/* due.c: what a slow path of malloc does besides: heartbeats, deferred frees, the soft limit, room
 * where memory ends.
 *
 *   slow path   lm_beating? ──> count, call the program's deferred free
 *               allocate
 *               lm_limit_crossed? ──> collect, purge, tell the program
 *   no memory   once: deferred free (force), collect, from other threads too; under a hard limit purge, and tell of
 *               the soft one; what waits in checked builds
 *               out-of-memory handler, again and again ──> NULL
 *
 * All of it without a lock of the heap's, so that what is called may allocate and free. Two words
 * that are read once a slow path are all that a program pays that wants nothing of this. It cannot
 * hear of what the family's allocators take from their sources: they come to the arena without a
 * malloc.
 */
#include "heap/core.h"

enum { COLLECTED = 1 << 30, NOTED = 1 << 29 }; /* in the number of tries */
enum { VAIN_MS = 10 };

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

/* The last collection from other threads after which a request was refused all the same. Atomic
 * words by themselves: what a thread misreads makes it collect once too often, or once too little
 * for VAIN_MS. */
static LM_AT_START struct {
    size_t bytes;    /* of the request that was refused; 0: none was */
    size_t progress; /* lm_idle_progress at that moment */
    uint64_t ms;     /* the time of it */
} vain;

/* 0 where a clock may be forbidden. */
static uint64_t now_ms(void) {
    if (!lm_ask_begin()) return 0;
    uint64_t ms = lm_os_ms();
    lm_ask_end();
    return ms;
}

static void note_vain(size_t bytes) {
    lm_store_relaxed(&vain.bytes, bytes);
    lm_store_relaxed(&vain.progress, lm_idle_progress());
    lm_store_relaxed(&vain.ms, now_ms());
}

/* Whether to collect from other threads for such a request: not if that was in vain a moment ago
 * for one that is no larger, and no other thread has run a slow path since. */
static bool worth_collecting(size_t bytes) {
    size_t refused = lm_load_relaxed(&vain.bytes);
    return refused == 0 || bytes < refused || now_ms() - lm_load_relaxed(&vain.ms) >= VAIN_MS ||
           lm_idle_progress() != lm_load_relaxed(&vain.progress);
}

/* Makes room without the program's help. others: also from what other threads keep. Returns false
 * iff there was nothing to do. */
static bool collect(bool others) {
    if (!lm_told_may()) return false;
    bool asked = lm_load_relaxed(&lm_beating) && lm_deferred_free(true);
    bool limited = lm_limit_is_hard(), waited = lm_reuse_unkeep();
    /* A program that has shut itself in may not be asked what its threads do. */
    if (!asked && !limited && !lm_purge_allowed() && !lm_quarantine_waits()) return waited;
    lm_heap_collect();
    if (others) lm_idle_collect_now();
    /* Where the system has no more, what goes back to it might not come again. */
    if (limited) (void)lm_purge_all();
    lm_limit_answer_if_crossed(); /* whom that tells may free something */
    return true;
}

LM_COLD bool lm_room_found(size_t bytes, unsigned *tries) {
    if ((*tries & COLLECTED) == 0) {
        bool others = lm_purge_allowed() && worth_collecting(bytes);
        *tries |= others ? COLLECTED : COLLECTED | NOTED;
        /* A request that the empty arena could not hold is refused at once: programs that probe for
         * limits make millions of such requests. */
        if (lm_span_could_hold(bytes) && collect(others)) return true;
    } else if ((*tries & NOTED) == 0) {
        *tries |= NOTED;
        note_vain(bytes);
    }
    unsigned done = *tries & (COLLECTED | NOTED);
    *tries &= ~(unsigned)(COLLECTED | NOTED);
    bool made = lm_room_made(bytes, tries);
    *tries |= done;
    return made;
}

/* slowpath_hooks.c: what a slow path of malloc calls in addition to allocating: heartbeats,
 * deferred frees, the soft limit, and the handlers for an end of memory.
 *
 *   slow path   lm_heartbeat_wanted? ──> count the heartbeat, call the deferred free
 *               allocate
 *               lm_limit_crossed? ──> collect, purge, call the program's limit handler
 *   no memory   once: call the deferred free with force; empty the quarantine (checked builds);
 *                     collect, also from other threads; with a hard limit, purge; call the limit
 *                     handler if the soft limit is crossed
 *               repeatedly: call the out-of-memory handler ──> NULL
 *
 * No lock of the heap is held here, so that the functions of the program may allocate and free. A
 * program that uses none of this pays for two words that are read once a slow path. The hooks
 * do not run when a pool, a region or another special allocator takes memory from its source,
 * because that takes spans from the arena without a malloc.
 */
#include "heap/core.h"

/* Bits that lm_memory_found keeps in *tries, above the number of calls of the handler: a collection
 * has been tried; the failed collection has been noted, or none from other threads was tried. */
enum { COLLECTED = 1 << 30, NOTED = 1 << 29 };
/* Milliseconds after a collection in vain during which it is not repeated. */
enum { VAIN_MS = 10 };

LM_COLD void lm_heartbeat(void) {
    if (lm_told_may()) (void)lm_deferred_free(false);
}

LM_COLD void lm_limit_answer(void) {
    /* The exchange lets one thread answer each crossing. Its ordering does not matter, because the
     * numbers are read under the arena's lock. */
    if (!lm_told_may() || !lm_exchange_acquire(&lm_limit_crossed, false)) return;
    lm_heap_collect();
    (void)lm_purge_all();
    size_t held, soft;
    if (lm_limit_still_crossed(&held, &soft)) lm_limit_told(held, soft);
}

/* The last collection from other threads after which a request was refused all the same. Atomic.
 * Relaxed accesses are enough: a thread that misreads these words collects once too often, or not
 * for VAIN_MS. */
static LM_AT_START struct {
    size_t bytes;    /* size of the refused request in bytes; 0: no request was refused */
    size_t progress; /* lm_idle_progress when it was refused */
    uint64_t ms;     /* time when it was refused, in milliseconds of lm_os_ms */
} vain;

/* Returns the time in milliseconds; 0 if a sandbox may forbid the clock. */
static uint64_t now_ms(void) {
    if (!lm_ask_begin()) return 0;
    uint64_t ms = lm_os_ms();
    lm_ask_end();
    return ms;
}

/* Notes that a request was refused although loam had collected from other threads. */
static void note_vain(size_t bytes) {
    lm_store_relaxed(&vain.bytes, bytes);
    lm_store_relaxed(&vain.progress, lm_idle_progress());
    lm_store_relaxed(&vain.ms, now_ms());
}

/* Returns whether to collect from other threads for a request of `bytes`. Returns false iff
 * such a collection failed less than VAIN_MS ago for a request of at most `bytes`, and no other
 * thread has run a slow path since. */
static bool worth_collecting(size_t bytes) {
    size_t refused = lm_load_relaxed(&vain.bytes);
    return refused == 0 || bytes < refused || now_ms() - lm_load_relaxed(&vain.ms) >= VAIN_MS ||
           lm_idle_progress() != lm_load_relaxed(&vain.progress);
}

/* Frees memory that loam keeps, without the out-of-memory handler. others: also what other threads
 * keep. Returns false iff there was nothing to free. No lock held. */
static bool hooks_collect(bool others) {
    if (!lm_told_may()) return false;
    /* Relaxed: a deferred free that is registered at this moment may be missed. */
    bool asked = lm_load_relaxed(&lm_heartbeat_wanted) && lm_deferred_free(true);
    bool limited = lm_limit_is_hard(), waited = lm_reuse_unkeep();
    /* Nothing to collect: no deferred free, no hard limit, no quarantine, and other threads must
     * not be looked at, because the program has entered a sandbox. */
    if (!asked && !limited && !lm_purge_allowed() && !lm_quarantine_waits()) return waited;
    lm_heap_collect();
    if (others) lm_idle_collect_now();
    /* Only with a hard limit: a system that is short of memory might not give purged memory
     * again. */
    if (limited) (void)lm_purge_all();
    lm_limit_answer_if_crossed(); /* the program's limit handler may free something */
    return true;
}

LM_COLD bool lm_memory_found(size_t bytes, unsigned *tries) {
    LM_ASSERT((*tries & NOTED) == 0 || (*tries & COLLECTED) != 0);
    if ((*tries & COLLECTED) == 0) {
        bool others = lm_purge_allowed() && worth_collecting(bytes);
        *tries |= others ? COLLECTED : COLLECTED | NOTED;
        /* A request that even an empty arena could not hold is refused at once: programs that probe
         * for limits make millions of these requests. */
        if (lm_span_could_hold(bytes) && hooks_collect(others)) return true;
    } else if ((*tries & NOTED) == 0) {
        *tries |= NOTED;
        note_vain(bytes);
    }
    unsigned done = *tries & (COLLECTED | NOTED);
    *tries &= ~(unsigned)(COLLECTED | NOTED);
    bool made = lm_memory_made(bytes, tries);
    LM_ASSERT(*tries < NOTED);
    *tries |= done;
    return made;
}

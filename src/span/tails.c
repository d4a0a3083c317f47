/* tails.c: returns the unused ends of large objects to the system.
 *
 *   span   [ slice | slice | slice ]
 *          [ usable ........ | tail ]
 *
 * Spans are whole slices of 64 KiB, so an object of 66,000 bytes leaves half of its span unused. In
 * a dirty span that half is resident. An object that shrinks in place leaves a tail as well. Tails
 * are not purged at once: a program that replaces large objects all the time would pay a system
 * call for each. The object is put into a list with the tick of the worker's clock, and the worker
 * purges the tails of the objects that are still listed after the purge delay (lm_purge_tick). Most
 * objects of a busy program are freed, or grow, before that, and leave the list.
 *
 *   opened on dirty memory, shrunk ──> listed ──[delay]──> purged: the tail is not resident
 *                                        └── freed, grown, moved ──> not listed
 *
 * The worker purges with the arena lock held, at most CHUNK bytes at a time. Any thread that
 * changes an object takes it out of the list under that lock first, so no purge can meet a tail
 * that has become a part of the object. A thread that finds `tail` clear needs no lock: only the
 * object's user sets it, and a purge clears it last.
 *
 * Tails of less than 1/LM_TAIL_PART of the object stay. So objects above 600 KiB are left alone,
 * unless they shrink, and with them nearly all memory that huge pages back: a purge of a part of a
 * huge page splits it. The purge of a smaller object on a huge page does split it
 * (docs/decisions/0032).
 *
 * The secure build lists only objects without a guard, and their tails begin after the canary. The
 * memory of a guard is purged when the guard is made (guard.c).
 *
 * It cannot return parts of system pages, tails that are locked in memory, or tails in ranges. It
 * also runs in the worker, so it may use no thread-local storage. Invariant (lm_tails_check): the
 * list contains exactly the spans in use whose `tail` is set.
 */
#include "span/internal.h"

enum { CHUNK = 1 << 20 }; /* maximum bytes that one call purges with the lock held */

/* Returns the end of a tail as an offset in the span. The debug build has a fence in the last word
 * of a span (checks/fence.c). */
static size_t tails_end_of(const lm_page_t *span) {
    return ((size_t)span->slices << LM_SLICE_SHIFT) - (LOAM_DEBUG ? lm_os_page_bytes() : 0);
}

/* Returns the start of a tail: the first system page without a byte of the object. */
static size_t start_of(size_t bytes) {
    return lm_align_up(bytes + LM_TAIL_CANARY, lm_os_page_bytes());
}

bool lm_span_tail_keep(lm_page_t *span) {
    /* Acquire: the purge that has cleared it has ended. Other threads do not set it. */
    if (LM_LIKELY(!lm_load_acquire(&span->tail))) return false;
    lm_lock_take(&lm_space.lock);
    bool dirty = span->tail;
    lm_tail_drop(span);
    lm_lock_give(&lm_space.lock);
    return dirty;
}

void lm_span_tail(lm_page_t *span, size_t bytes, bool dirty) {
    bool lists = dirty && span->range == 0 && lm_tail_worth(span, bytes);
    if (!lists && !lm_load_acquire(&span->tail)) {
        /* Acquire: the purge that has cleared it has ended. */
        span->bytes = bytes;
        return;
    }
    lm_lock_take(&lm_space.lock);
    lm_tail_drop(span);
    span->bytes = bytes;
    bool many = lists && lm_tail_list(span);
    lm_purge_inline();
    lm_lock_give(&lm_space.lock);
    if (many) lm_purge_poke(true);
}

/* Returns the oldest listed span of at least that age, or NULL iff there is none. */
static lm_page_t *tails_oldest(uint32_t ticks) {
    lm_node_t *first = lm_space.tails.first;
    lm_page_t *span = first != NULL ? LM_CONTAINER(first, lm_page_t, age) : NULL;
    return span != NULL && lm_space.tick - span->stamp >= ticks ? span : NULL;
}

size_t lm_tails_purge(uint32_t ticks, size_t most) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    /* end: end of what is still to be purged of the span `current`. */
    size_t purged = 0, end = 0;
    const lm_page_t *current = NULL;
    bool worker = lm_os_worker_self();
    for (lm_page_t *span; (span = tails_oldest(ticks)) != NULL;) {
        /* Relaxed: a stop that is missed here is seen at the next span. */
        if (worker && lm_load_relaxed(&lm_space.stop) != 0) break;
        if (span != current && purged >= most) break;
        /* Other threads may have changed the span since the last chunk, even its length. */
        if (span != current || end > tails_end_of(span)) end = tails_end_of(span);
        current = span;
        /* Relaxed: the user of a span that was just taken may write the same number once more. */
        size_t start = start_of(lm_load_relaxed(&span->bytes)),
               from = end > start + CHUNK ? end - CHUNK : start;
        if (from < end && lm_os_purge(lm_span_start(span) + from, end - from)) {
            purged += end - from;
            lm_space.purged_bytes += end - from;
        }
        /* This comes last: from then on the object's user may grow it without a lock. */
        if (from <= start) lm_tail_drop(span);
        end = from;
        lm_space_leave(); /* lets other threads take the lock */
        lm_space_enter();
    }
    return purged;
}

void lm_tails_list_anew(void) {
    lm_space.tails.first = NULL;
    lm_store_relaxed(&lm_space.tails_listed, 0); /* relaxed: the lock is held */
    for (size_t at = 0; at < lm_arena.slices; at += lm_space_slot(at)->slices) {
        lm_page_t *span = lm_space_slot(at);
        if (span->kind == LM_KIND_LARGE && span->tail) (void)lm_tail_list(span);
    }
}

void lm_tails_check(void) {
    size_t set = 0, listed = 0;
    for (size_t at = 0; at < lm_arena.slices; at += lm_space_slot(at)->slices)
        set += lm_space_slot(at)->kind == LM_KIND_LARGE && lm_space_slot(at)->tail;
    for (lm_node_t *n = lm_space.tails.first; n != NULL; n = lm_list_after(&lm_space.tails, n))
        listed += LM_CONTAINER(n, lm_page_t, age)->tail;
    if (set == listed && listed == lm_space.tails_listed) return;
    lm_report("loam: arena invariant broken: %zu dirty tails, %zu in the list", set, listed);
    lm_port_abort();
}

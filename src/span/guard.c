/* guard.c: what the secure build puts between large spans.
 *
 *   slices [ object ......... | ....... guard | guard ][ object ... | ..... guard ][ ...
 *                                ^ no access from here to the end of the span
 *
 * A guard is the end of a large span, a page at least: the rest of the last slice behind the object, or more slices; as
 * the caller draws their number, objects lie at distances that nobody can foretell. It is made by one system call and
 * stays while the span goes from object to object; the descriptor counts its bytes (`bias`). Each takes an entry or two
 * in the kernel's list of maps, of which a process has 65,530: so there are 16,384 guards at most, and what comes after
 * these has canaries only (heap/secure_large.c).
 *
 * It cannot put guards between the blocks of a page, nor between two pages: that would be a call for each 64 KiB.
 * Invariant: spans that are free, and all but large ones, are accessible to their end.
 */
#include "span/room.h"

#if LM_SECURE

enum { GUARDS_MOST = 16384 };

/* Relaxed, both: numbers, with nothing behind them. */
static uint32_t guards;
static uint64_t drawn;

size_t lm_span_random(size_t n) {
    /* A counter, mixed with the process's number of chance (after Steele, Lea and Flood, 2014). */
    uint64_t x = lm_os_random() + lm_add_relaxed(&drawn, 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (size_t)((x ^ (x >> 31)) % n);
}

size_t lm_span_guards(void) { return lm_load_relaxed(&guards); }

bool lm_span_at_large(void) { return !lm_load_relaxed(&lm_space.worker_forbidden); }

void lm_span_no_guard(lm_page_t *span) { span->bias = 0; }

bool lm_span_may_guard(void) { return lm_span_at_large() && lm_span_guards() < GUARDS_MOST; }

bool lm_span_guard(lm_page_t *span, size_t from) {
    size_t bytes = lm_span_room(span) - from;
    if (bytes == 0 || span->range != 0 || !lm_span_at_large()) return false;
    if (lm_add_relaxed(&guards, 1) < GUARDS_MOST) {
        char *at = lm_span_start(span) + from;
        if (lm_os_protect(at, bytes, false)) {
            span->bias = (uint32_t)bytes;
            return true;
        }
    }
    (void)lm_add_relaxed(&guards, (uint32_t)-1);
    return false;
}

bool lm_span_unguard(lm_page_t *span) {
    if (span->bias == 0) return true;
    char *at = lm_span_start(span) + lm_span_room(span);
    /* A guard holds nothing: what one call refuses the other may do. */
    if (!(lm_span_at_large() && lm_os_unguard(at, span->bias, false)) &&
        !lm_os_unguard(at, span->bias, true))
        return false;
    span->bias = 0;
    (void)lm_add_relaxed(&guards, (uint32_t)-1);
    return true;
}

bool (*lm_span_let_go)(void);

bool lm_span_more(void) {
    bool (*let_go)(void) =
        lm_load_relaxed(&lm_span_let_go); /* relaxed: one function for ever, or none yet */
    return let_go != NULL && let_go();
}

#endif

#if LM_GUARD_LINKS

void lm_span_hold(lm_page_t *span) {
    lm_lock_take(&lm_space.lock);
    lm_space_large_goes(span);
    lm_space_label(lm_span_slice(span), span->slices, LM_KIND_META);
    lm_lock_give(&lm_space.lock);
}

void lm_span_unhold(lm_page_t *span) {
    lm_lock_take(&lm_space.lock);
    lm_space_label(lm_span_slice(span), span->slices, LM_KIND_LARGE);
    lm_lock_give(&lm_space.lock);
}

#endif

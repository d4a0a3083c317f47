/* guard.c: guards after spans, in the secure build.
 *
 *   large spans      [ object ......... | ....... guard | guard ][ object ... | ..... guard ][ ...
 *                                          ^ no access from here to the end of the span
 *   pages of blocks  [ block | block | ..... | block |.|guard][ block | block ...
 *                                                        4 KiB
 *
 *
 * The guard of a large span is its end, at least one system page: the rest of the last slice after
 * the object, or more slices. The caller draws the number of slices at random, so the distances
 * between objects cannot be predicted. One system call makes the guard, and it stays while the span
 * passes from object to object; the descriptor counts its bytes (`bias`). Each guard takes an entry
 * or two in the kernel's list of maps, of which a process has 65,530 by default. So there are at
 * most 16,384 guards, and later objects have only canaries (checks/secure_large.c). At most 512
 * guards are made in a tick of the worker (50 ms). Without that bound, a program that replaces
 * filled objects of many sizes all the time would spend a third of its time on guards, and its
 * threads would wait for each other in the kernel.
 *
 * The guard of a page of blocks is a mark in the system's page table, not an entry in its list of
 * maps; Linux has such marks from 6.13 on. One call makes it, at a twentieth of the cost of the
 * page's faults. It outlives the page until the memory is purged, so pages that come and go on the
 * same slices make no call. If a page ends elsewhere than earlier pages on its slices, their guards
 * in its middle are removed. If the system has no marks, or refuses one, pages have no guard from
 * then on, and their blocks reach to the end. A guard splits a huge page. So pages have none where
 * a huge page backs the slices (huge.c: once there is much memory in blocks).
 *
 * A freed large object that waits (held.c) may be shut: all of it up to its guard is inaccessible.
 * Each costs two system calls, for which all threads wait. So at most 256 are shut in a row, and 16
 * a tick after that. An object without a guard is never shut; next to a guard, a shut object needs
 * no further entry in the list of maps.
 *
 * It cannot put guards between the blocks of a page. Invariant: dirty spans are accessible except
 * the last LM_MARK_BYTES of slices that are `marked`; pages except those of their last slice; large
 * spans except their guard. Clean spans and loam's own spans are accessible throughout. Slices that
 * are `backed` are never marked.
 */
#include "span/internal.h"

#if LM_SECURE

enum {
    GUARDS_MOST = 16384,
    /* Guards made between two ticks of the worker: 10,000 a second. */
    GUARDS_A_TICK = 512,
    SHUTS_MOST = 256,  /* freed objects that are shut in a row */
    SHUTS_A_TICK = 16, /* freed objects that are shut in a tick after that */
};

/* Relaxed, all: statistics and bounds, on which no other data depends. */
static uint32_t guards;
static uint32_t made; /* guards made since the worker's last tick */
static uint32_t shuts_left = SHUTS_MOST;
bool lm_span_shuts = true;
static uint64_t drawn;

size_t lm_span_random(size_t n) {
    /* A counter, mixed with the process's random number (after Steele, Lea and Flood, 2014). */
    uint64_t x = lm_os_random() + lm_add_relaxed(&drawn, 1) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (size_t)((x ^ (x >> 31)) % n);
}

size_t lm_span_guards(void) { return lm_load_relaxed(&guards); }

void lm_span_no_guard(lm_page_t *span) { span->bias = 0; }

bool lm_span_may_waste(void) {
    /* Relaxed: a guess. */
    return lm_span_at_large() && lm_span_guards() < GUARDS_MOST &&
           !lm_load_relaxed(&lm_space.scarce);
}

void lm_span_may_guard(void) {
    lm_store_relaxed(&made, 0);
    uint32_t left = lm_load_relaxed(&shuts_left) + SHUTS_A_TICK;
    lm_store_relaxed(&shuts_left, left < SHUTS_MOST ? left : SHUTS_MOST);
}

bool lm_span_guard(lm_page_t *span, size_t from) {
    size_t bytes = lm_span_room(span) - from;
    if (bytes == 0 || span->range != 0 || !lm_span_at_large()) return false;
    if (lm_load_relaxed(&made) >= GUARDS_A_TICK && lm_purge_may_work()) return false;
    lm_store_relaxed(&made, lm_load_relaxed(&made) + 1);
    if (lm_add_relaxed(&guards, 1) < GUARDS_MOST) {
        char *at = lm_span_start(span) + from;
        if (lm_os_protect(at, bytes, false)) {
            span->bias = (uint32_t)bytes;
            /* Otherwise the memory would stay resident as long as the guard. */
            if (span->in_memory) (void)lm_os_purge(at, bytes);
            return true;
        }
    }
    (void)lm_add_relaxed(&guards, (uint32_t)-1);
    return false;
}

/* Makes memory accessible that holds nothing in use. If one of two system calls is refused, the
 * other may succeed. */
static bool allow(char *at, size_t bytes) {
    return (lm_span_at_large() && lm_os_unguard(at, bytes, false)) ||
           lm_os_unguard(at, bytes, true);
}

static bool unguard_from(lm_page_t *span, size_t from) {
    size_t bytes = ((size_t)span->slices << LM_SLICE_SHIFT) - from;
    if (!allow(lm_span_start(span) + from, bytes)) return false;
    span->bias = 0;
    (void)lm_add_relaxed(&guards, (uint32_t)-1);
    return true;
}

bool lm_span_unguard(lm_page_t *span) {
    return span->bias == 0 || unguard_from(span, lm_span_room(span));
}

void lm_span_let_out(lm_page_t *span, bool shut, bool rested) {
    if (LM_LIKELY(shut ? unguard_from(span, 0) : lm_span_unguard(span))) {
        lm_span_give(span, rested);
        return;
    }
    span->bias = 0;
    (void)lm_add_relaxed(&guards, (uint32_t)-1);
    lm_gone_drop(span);
}

/* ---- Freed large objects ---- */

bool lm_span_shut(lm_page_t *span) {
    if (span->bias == 0 || !lm_load_relaxed(&lm_span_shuts) || !lm_span_may_waste() ||
        !lm_purge_may_work() || lm_load_relaxed(&shuts_left) == 0)
        return false;
    lm_store_relaxed(&shuts_left, lm_load_relaxed(&shuts_left) - 1);
    /* A call that is refused halfway may have shut a part. */
    return lm_os_protect(lm_span_start(span), lm_span_room(span), false) || !lm_span_open(span);
}

bool lm_span_open(lm_page_t *span) { return allow(lm_span_start(span), lm_span_room(span)); }

/* ---- Pages of blocks ---- */

bool lm_page_guards = true;
static bool no_marks; /* atomic: the system has no marks */

/* Relaxed, all: independent words. */
bool lm_span_marks(void) {
    return lm_load_relaxed(&lm_page_guards) && !lm_load_relaxed(&no_marks) &&
           lm_os_page_bytes() <= LM_MARK_BYTES;
}

size_t lm_span_mark(lm_page_t *page) {
    size_t bytes = (size_t)page->slices << LM_SLICE_SHIFT;
    if (page->range != 0) return bytes; /* a user's memory, with descriptors of its own */
    lm_page_t *last = page + page->slices - 1;
    bool wanted = !last->backed && lm_span_marks();
    if ((page != last || !wanted) &&
        LM_UNLIKELY(!lm_space_unmark(lm_span_slice(page), page->slices - wanted)))
        return 0;
    if (!wanted) return bytes;
    if (!last->marked) {
        if (!lm_os_mark(lm_span_start(page) + bytes - LM_MARK_BYTES, LM_MARK_BYTES)) {
            lm_store_relaxed(&no_marks, true);
            return bytes;
        }
        last->marked = true;
    }
    return bytes - LM_MARK_BYTES;
}

bool lm_space_unmark(size_t first, size_t slices) {
    LM_ASSERT(slices > 0 && first + slices <= lm_peek(&lm_arena.slices));
    if (lm_space_group(lm_space_slot(first)) < LM_GROUP_TINY) return true;
    bool any = false;
    for (size_t i = first; i < first + slices && !any; i++) any = lm_space_slot(i)->marked;
    if (LM_LIKELY(!any)) return true;
    void *at = (void *)(lm_arena.base + (first << LM_SLICE_SHIFT));
    size_t bytes = slices << LM_SLICE_SHIFT;
    if (!lm_os_unmark(at, bytes)) {
        /* The memory holds nothing in use. If unmarking is refused, mapping it anew may succeed. */
        if (!lm_os_unguard(at, bytes, true)) return false;
        lm_os_no_huge_pages(at, bytes);
    }
    for (size_t i = first; i < first + slices; i++) {
        if (!lm_space_slot(i)->marked) continue;
        lm_space_slot(i)->marked = false;
        /* Memory after the last block at that time is not wiped. */
        lm_space_slot(i)->wiped_class = 0;
    }
    return true;
}

bool lm_space_purged(size_t first, size_t slices) {
    if (lm_space_group(lm_space_slot(first)) < LM_GROUP_TINY) return true;
    if (!lm_space_unmark(first, slices)) return false;
    for (size_t i = first; i < first + slices; i++) lm_space_slot(i)->backed = false;
    return true;
}

bool (*lm_span_let_go)(void);

bool lm_span_more(void) {
    /* Relaxed: it is set once, to one function. */
    bool (*let_go)(void) = lm_load_relaxed(&lm_span_let_go);
    return let_go != NULL && let_go();
}

#endif

#if LM_TOOLS

void lm_span_hold_any(lm_page_t *span) {
    lm_lock_take(&lm_space.lock);
    if (span->kind == LM_KIND_PAGE) {
        lm_space_page_goes(span);
    } else if (span->kind == LM_KIND_LARGE) {
        lm_tail_drop(span);
        lm_space_large_goes(span);
    }
    if (span->range == 0)
        lm_space_label(lm_span_slice(span), span->slices, LM_KIND_META);
    else
        span->kind = span[span->slices - 1].kind = LM_KIND_META;
    lm_lock_give(&lm_space.lock);
}

#endif

#if LM_GUARD_LINKS

void lm_span_hold(lm_page_t *span) {
    lm_lock_take(&lm_space.lock);
    lm_tail_drop(span);
    lm_space_large_goes(span);
    lm_space_label(lm_span_slice(span), span->slices, LM_KIND_META);
    lm_lock_give(&lm_space.lock);
}

#endif

/* tools_kept.c: in builds for tools, spans that go back to the arena stay hidden for a while.
 *
 *   a heap is destroyed, a page is empty, a large object is freed
 *         └─> kept[ oldest ... newest ]  hidden ──> shown, to the arena ──> whoever takes it next
 *
 * So Memcheck and AddressSanitizer report a use of an object after its first-class heap was
 * destroyed, and of a freed object whose page or span has gone. At most MOST_BYTES in MOST spans
 * are kept, as addresses: the memory goes back to the system, unless it is an arena's. The oldest
 * leave first. All leave where memory is short, an arena is full or to end, or loam_collect is
 * called. It cannot keep a span of more than MOST_BYTES, and sees no use of memory that has another
 * owner.
 *
 * The lock is held for a few instructions and for the arena's lock. A fork may copy the process at
 * that moment: a thread that waits too long does without this list from then on. So fork need not
 * know of the lock.
 * Invariant: a span in the list is hidden, is loam's own for who walks the arena, and is in no map.
 */
#include "checks/inner.h"

#if LM_TOOLS

enum { MOST = 1 << 16, TURNS = 200 /* of lm_os_nap */ };
#define MOST_BYTES (4096 * LM_MIB)

static lm_lock_t lock;
static bool out_of_order; /* atomic: the lock is not to be had */
static lm_page_t *oldest, *newest;
static size_t count, kept_bytes;

static size_t bytes_of(const lm_page_t *span) { return (size_t)span->slices << LM_SLICE_SHIFT; }

static bool lock_taken(void) {
    if (lm_load_relaxed(&out_of_order)) return false; /* relaxed: a word by itself */
    for (unsigned turn = 0; turn < TURNS; turn++) {
        if (lm_lock_try(&lock)) return true;
        lm_os_nap(turn);
    }
    lm_store_relaxed(&out_of_order, true);
    return false;
}

/* Lock held; there must be one. */
static lm_page_t *pop(void) {
    lm_page_t *span = oldest;
    oldest = span->notified;
    if (oldest == NULL) newest = NULL;
    count--;
    kept_bytes -= bytes_of(span);
    return span;
}

static void push(lm_page_t *span) {
    span->notified = NULL;
    if (newest != NULL)
        newest->notified = span;
    else
        oldest = span;
    newest = span;
    count++;
    kept_bytes += bytes_of(span);
}

static void give(lm_page_t *span, bool rested) {
    lm_tools_show(lm_span_start(span), bytes_of(span));
    lm_span_give(span, rested);
}

static void keep(lm_page_t *span, bool rested) {
    size_t bytes = bytes_of(span);
    if (bytes > MOST_BYTES || !lock_taken()) {
        give(span, rested);
        return;
    }
    if (span->range == 0) (void)lm_os_purge(lm_span_start(span), bytes);
    lm_page_t *leaving = NULL;
    while (count > 0 && (count == MOST || kept_bytes + bytes > MOST_BYTES)) {
        lm_page_t *old = pop();
        old->notified = leaving;
        leaving = old;
    }
    lm_span_hold_any(span);
    lm_tools_hide(lm_span_start(span), bytes);
    push(span);
    lm_lock_give(&lock);
    for (lm_page_t *next; leaving != NULL; leaving = next) {
        next = leaving->notified;
        give(leaving, false);
    }
}

void lm_tools_give_chain(lm_page_t *first, bool rested) {
    for (lm_page_t *next; first != NULL; first = next) {
        next = first->notified;
        keep(first, rested);
    }
}

void lm_tools_give(lm_page_t *span, bool rested) { keep(span, rested); }

bool lm_tools_let_go(void) {
    if (!lock_taken()) return false;
    lm_page_t *all = oldest;
    oldest = newest = NULL;
    count = kept_bytes = 0;
    lm_lock_give(&lock);
    bool any = all != NULL;
    for (lm_page_t *next; all != NULL; all = next) {
        next = all->notified;
        give(all, false);
    }
    return any;
}

#endif

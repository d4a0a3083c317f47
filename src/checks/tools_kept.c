/* tools_kept.c: in builds for tools, spans that return to the arena stay hidden for a while.
 *
 *   a heap is destroyed, a page is empty, a large object is freed
 *         └─> kept[ oldest ... newest ]  hidden ──> shown, to the arena ──> the next owner
 *
 * So Memcheck and AddressSanitizer report a use of an object after its first-class heap was
 * destroyed, and of a freed object whose page or span was returned. At most MOST spans of
 * MOST_BYTES bytes in all are kept, as addresses: their memory goes to the system, except that of a
 * range. The oldest spans leave first. All leave if memory is short, if a range is full or is to
 * end, or if loam_collect is called. It cannot keep a span of more than MOST_BYTES, and sees no use
 * of memory that has another owner.
 *
 * The lock is held for a few instructions and while the arena's lock is held. A fork may copy the
 * process at that moment: the first thread that then waits too long turns the list off for its
 * process. So fork need not know the lock.
 * Invariant: a span in the list is hidden, is loam's own for code that walks the arena, and is in
 * no map.
 */
#include "checks/inner.h"

#if LM_TOOLS

enum { TOOLS_MOST = 1 << 16, TOOLS_TURNS = 200 /* turns of lm_os_nap */ };
#define TOOLS_MOST_BYTES (4096 * LM_MIB)

static lm_lock_t tools_lock;
static bool tools_out_of_order; /* atomic: the lock cannot be had, and the list is unused */
static lm_page_t *oldest, *newest;
static size_t count, kept_bytes;

static size_t tools_bytes_of(const lm_page_t *span) {
    return (size_t)span->slices << LM_SLICE_SHIFT;
}

static bool tools_lock_taken(void) {
    if (lm_load_relaxed(&tools_out_of_order)) return false; /* relaxed: the flag stands alone */
    for (unsigned turn = 0; turn < TOOLS_TURNS; turn++) {
        if (lm_lock_try(&tools_lock)) return true;
        lm_os_nap(turn);
    }
    lm_store_relaxed(&tools_out_of_order, true);
    return false;
}

/* Removes and returns the oldest span of the list. */
static lm_page_t *tools_pop(void) {
    lm_page_t *span = oldest;
    LM_ASSERT(lm_lock_held(&tools_lock));
    LM_ASSERT(span != NULL && count > 0 && kept_bytes >= tools_bytes_of(span));
    oldest = span->notified;
    if (oldest == NULL) newest = NULL;
    count--;
    kept_bytes -= tools_bytes_of(span);
    LM_ASSERT((oldest == NULL) == (count == 0));
    return span;
}

static void tools_push(lm_page_t *span) {
    LM_ASSERT(lm_lock_held(&tools_lock));
    LM_ASSERT(span->kind == LM_KIND_META && count < TOOLS_MOST);
    span->notified = NULL;
    if (newest != NULL)
        newest->notified = span;
    else
        oldest = span;
    newest = span;
    count++;
    kept_bytes += tools_bytes_of(span);
    LM_ASSERT(kept_bytes <= TOOLS_MOST_BYTES);
}

static void tools_give(lm_page_t *span, bool rested) {
    lm_tools_show(lm_span_start(span), tools_bytes_of(span));
    lm_span_give(span, rested);
}

static void tools_keep(lm_page_t *span, bool rested) {
    size_t bytes = tools_bytes_of(span);
    if (bytes > TOOLS_MOST_BYTES || !tools_lock_taken()) {
        tools_give(span, rested);
        return;
    }
    if (span->range == 0) (void)lm_os_purge(lm_span_start(span), bytes);
    lm_page_t *leaving = NULL;
    while (count > 0 && (count == TOOLS_MOST || kept_bytes + bytes > TOOLS_MOST_BYTES)) {
        lm_page_t *old = tools_pop();
        old->notified = leaving;
        leaving = old;
    }
    lm_span_hold_any(span);
    lm_tools_hide(lm_span_start(span), bytes);
    tools_push(span);
    lm_lock_give(&tools_lock);
    for (lm_page_t *next; leaving != NULL; leaving = next) {
        next = leaving->notified;
        tools_give(leaving, false);
    }
}

void lm_tools_give_chain(lm_page_t *first, bool rested) {
    for (lm_page_t *next; first != NULL; first = next) {
        next = first->notified;
        tools_keep(first, rested);
    }
}

void lm_tools_give(lm_page_t *span, bool rested) { tools_keep(span, rested); }

bool lm_tools_let_go(void) {
    if (!tools_lock_taken()) return false;
    lm_page_t *all = oldest;
    oldest = newest = NULL;
    count = kept_bytes = 0;
    lm_lock_give(&tools_lock);
    bool any = all != NULL;
    for (lm_page_t *next; all != NULL; all = next) {
        next = all->notified;
        tools_give(all, false);
    }
    return any;
}

#endif

/* give_back.c: returns the memory of a dirty span to the system, except the parts that the system
 * keeps.
 *
 * Linux refuses to take back pages that are locked in memory (mlock, mlockall, MAP_LOCKED). One
 * such page makes a whole call fail, although the call has taken back what lies before the page. So
 * a refused span is searched: halving finds its first refused slice, and calls for single slices
 * find where the refusals end.
 *
 *   before   [ ..................... dirty ...................... ]
 *   calls      refused; halves: goes, refused, goes, ...; 1, 1, 1: refused, refused, goes
 *   after    [ clean ............ | refused | dirty: the next call continues here ]
 *
 * Refused spans are free memory like other dirty spans and serve later requests, but the purge
 * skips them. They are tried again after 1 turn, then 2, 4, up to 512. A turn is a tick of the
 * worker; without a worker, it is a span that a thread gives back. An explicit request
 * (malloc_trim) tries all of them at once.
 *
 * One search makes at most a few thousand system calls. It cannot find an unlocked slice among
 * refused ones if it lies more than NEAR slices after the first; that slice waits for a later
 * attempt. This file also runs in the worker, so it may use no thread-local storage. Invariant
 * (lm_span_check): spans of kind DIRTY are in the list `aged`, those of kind REFUSED in `refused`.
 * The two kinds share their bins and do not merge.
 */
#include "span/internal.h"

enum {
    /* Slices after the first refused one that are tried singly: 64 MiB. */
    GIVE_BACK_NEAR = 1024,
    RETRY_SPANS = 64,  /* refused spans that one turn tries again */
    RETRY_TURNS = 512, /* maximum turns between two attempts */
    /* Maximum calls for the pages of one refused slice. */
    PIECES_MOST = 2 * 64,
    WORKER_PART = 128, /* builds with groups: slices purged in one call, 8 MiB */
};

/* Purges the pages in [at, at + bytes) that the system takes back. Returns false iff it kept
 * some. */
static bool purge_pages(char *at, size_t bytes, unsigned *calls) {
    if (++*calls > PIECES_MOST) return false;
    if (lm_os_purge(at, bytes)) return true;
    size_t page = lm_os_page_bytes(), half = lm_align_down(bytes / 2, page);
    if (half == 0) return false;
    bool first = purge_pages(at, half, calls);
    return purge_pages(at + half, bytes - half, calls) && first;
}

/* As purge_pages, for a slice that was refused, or was part of a refused range. */
static bool purge_refused_slice(char *at) {
    unsigned calls = 0;
    return purge_pages(at, LM_SLICE_BYTES, &calls);
}

static bool purge_slices(char *span, size_t first, size_t slices) {
    return lm_os_purge(span + (first << LM_SLICE_SHIFT), slices << LM_SLICE_SHIFT);
}

/* Returns how many slices from `first`, which is refused, are refused in a row, as far as calls for
 * single slices can tell: the last one is refused, and the one after it is purged or does not
 * exist. */
static size_t count_refused(char *span, size_t first, size_t slices) {
    size_t last = first, step = 1;
    for (size_t tried = 0; last + 1 < slices; tried++) {
        if (tried >= GIVE_BACK_NEAR) step *= 2;
        size_t next = step < slices - last ? last + step : slices - 1;
        if (!purge_slices(span, next, 1)) {
            last = next;
            continue;
        }
        for (size_t taken = next; taken - last > 1;) {
            size_t middle = last + (taken - last) / 2;
            if (purge_slices(span, middle, 1))
                taken = middle;
            else
                last = middle;
        }
        break;
    }
    return last + 1 - first;
}

typedef struct lm_parts {
    /* Slices purged from the start of the span, and slices refused after them. */
    size_t purged, refused;
} lm_parts_t;

/* Purges the span from its start up to the first refusal, and finds how far the refusal reaches.
 * Needs no lock. */
static lm_parts_t purge_parts(char *span, size_t slices) {
    if (purge_slices(span, 0, slices)) return (lm_parts_t){slices, 0};
    /* [0, good) is purged; [good, bad) contains a refused slice. */
    size_t good = 0, bad = slices;
    while (bad - good > 1) {
        size_t middle = good + (bad - good) / 2;
        if (purge_slices(span, good, middle - good))
            good = middle;
        else
            bad = middle;
    }
    if (purge_refused_slice(span + (good << LM_SLICE_SHIFT))) return (lm_parts_t){bad, 0};
    size_t refused = count_refused(span, good, slices);
    /* If there are several, the last one often contains unlocked pages, as the first one does. */
    if (refused > 1) (void)purge_refused_slice(span + ((good + refused - 1) << LM_SLICE_SHIFT));
    return (lm_parts_t){good, refused};
}

/* Makes a part of a busy span free again. The lock is held. */
static lm_page_t *part_ends(size_t first, size_t slices, lm_group_t group, lm_kind_t kind,
                            uint32_t stamp) {
    lm_space_set_group(first, group);
    return lm_space_insert(first, slices, kind, stamp);
}

/* Makes a part a refused span. Failed calls may have given back some of its pages. The lock is
 * held. */
static void part_refused(size_t first, size_t slices, lm_group_t group) {
#if LM_SECURE
    for (size_t i = first; i < first + slices; i++) lm_space_slot(i)->wiped_class = 0;
#endif
    if (lm_space.refused.first == NULL) {
        lm_space.retry_wait = 0;
        lm_space.retry_turn = lm_space.turn + 1;
    }
    lm_space_set_group(first, group);
    lm_space_insert(first, slices, LM_KIND_REFUSED, lm_space.tick);
}

/* Makes everything free again except the purged part. The lock is held. */
static LM_COLD void give_back_cut(size_t first, size_t slices, const lm_parts_t *parts,
                                  lm_group_t group, uint32_t stamp) {
    size_t refused = first + parts->purged, rest = refused + parts->refused, end = first + slices;
    /* Each part is labelled first: the slots between parts have arbitrary contents. */
    if (parts->purged > 0) lm_space_label(first, parts->purged, LM_KIND_BUSY);
    if (parts->refused > 0) lm_space_label(refused, parts->refused, LM_KIND_BUSY);
    if (rest < end) {
        lm_space_label(rest, end - rest, LM_KIND_BUSY);
        (void)part_ends(rest, end - rest, group, LM_KIND_DIRTY, stamp);
    }
    if (parts->refused > 0) part_refused(refused, parts->refused, group);
}

/* The worker may be sent away while it purges, or be missing in a copy of the process. So it
 * records the span before it takes it from its list, and clears the record after the span is in a
 * list again. */
static void into_hand(size_t first, size_t slices, uint32_t stamp) {
    lm_space.hand.first = first;
    lm_space.hand.stamp = stamp;
    /* Release: before the span leaves its list. */
    lm_store_release(&lm_space.hand.slices, slices);
    lm_fence_release();
}

static void out_of_hand(void) {
    lm_store_release(&lm_space.hand.slices, 0); /* release: after the span is in its list */
}

void lm_space_take_hand(void) {
    size_t first = lm_space.hand.first, slices = lm_space.hand.slices;
    if (slices == 0) return;
#if LM_SECURE
    for (size_t i = first; i < first + slices; i++) lm_space_slot(i)->wiped_class = 0;
#endif
    (void)lm_space_insert(first, slices, LM_KIND_DIRTY, lm_space.hand.stamp);
    out_of_hand();
}

/* Takes the first slices of a free span out of its list, as a busy span. The rest stays free and
 * keeps its age. */
static void take_out(lm_page_t *span, size_t slices) {
    size_t first = lm_span_slice(span);
    size_t rest = span->slices - slices;
    lm_space_remove(span);
    if (LM_UNLIKELY(rest > 0)) {
        lm_page_t *next = lm_space_slot(first + slices);
        lm_space_add(first + slices, rest, LM_KIND_DIRTY, lm_space_group(span), span->stamp);
        lm_list_remove(&lm_space.aged, &next->age);
        lm_list_add_first(&lm_space.aged, &next->age);
    }
    lm_space_label(first, slices, LM_KIND_BUSY);
}

/* Purges the first `slices` slices of a dirty span. Returns how many were given back. The lock is
 * held before and after, but not between. A worker that must stop ends in here. */
static size_t give_back_slices(lm_page_t *span, size_t slices) {
    size_t first = lm_span_slice(span);
    uint32_t stamp = span->stamp;
    lm_group_t group = lm_space_group(span);
    char *start = lm_span_start(span);
    bool worker = lm_os_worker_self();
    if (worker) into_hand(first, slices, stamp);
    take_out(span, slices);
    if (!worker) lm_space.busy++;
    lm_space_leave();
    LM_PROBE2(purge, start, slices << LM_SLICE_SHIFT);
    lm_parts_t parts = purge_parts(start, slices);
#if LM_SECURE
    if (parts.purged > 0 && !lm_space_purged(first, parts.purged)) {
        parts.refused += parts.purged;
        parts.purged = 0;
    }
#endif
    lm_space_enter();
    if (!worker) lm_space_not_busy();
    if (LM_UNLIKELY(parts.purged < slices)) give_back_cut(first, slices, &parts, group, stamp);
    if (parts.purged > 0) {
        lm_space_cleaned(parts.purged);
        lm_space_settle(part_ends(first, parts.purged, group, LM_KIND_CLEAN, stamp));
        lm_space.purged_bytes += parts.purged << LM_SLICE_SHIFT;
        lm_space.purges++;
    }
    if (worker) out_of_hand();
    return parts.purged;
}

#if LM_SECURE
size_t lm_purge_part(lm_page_t *span) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    size_t at = (lm_arena.base >> LM_SLICE_SHIFT) + lm_span_slice(span), slices = span->slices;
    size_t part = LM_HUGE_SLICES - at % LM_HUGE_SLICES; /* a huge page is given back as a whole */
    return give_back_slices(span, part < slices ? part : slices);
}
#endif

size_t lm_purge_one(uint32_t ticks, size_t most) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    lm_list_t *aged = &lm_space.aged;
    size_t part = LM_GROUPS > 1 && most > WORKER_PART ? WORKER_PART : most;
    for (lm_node_t *node = aged->first; node != NULL;) {
        lm_page_t *span = LM_CONTAINER(node, lm_page_t, age);
        if (lm_space.tick - span->stamp < ticks) {
            node = lm_list_after(aged, node);
            continue;
        }
        size_t purged = give_back_slices(span, span->slices < part ? span->slices : part);
        if (purged > 0) return purged;
        /* Locked memory is searched as a whole: in parts it costs more calls. */
        part = most;
        /* Other threads may have changed the list meanwhile. Refused spans are no longer in it, so
         * the loop ends. */
        node = aged->first;
    }
    return 0;
}

/* ---- Refused spans ---- */

static void try_again(size_t spans) {
    uint32_t stamp = lm_space.tick - lm_purge_ticks();
    for (; spans > 0 && lm_space.refused.first != NULL; spans--) {
        lm_page_t *span = LM_CONTAINER(lm_space.refused.first, lm_page_t, age);
        size_t first = lm_span_slice(span), slices = span->slices;
        lm_group_t group = lm_space_group(span);
        lm_space_remove(span);
        (void)part_ends(first, slices, group, LM_KIND_DIRTY, stamp);
    }
}

void lm_refused_retry(void) {
    lm_store_relaxed(&lm_space.unlocked, false); /* relaxed: the lock is held */
    lm_space.retry_wait = 0;
    try_again(SIZE_MAX);
}

/* The lock may be held by the worker, at the end of its last turn, or by the malloc that the
 * calling signal handler has interrupted. In both cases the worker's next turn does the work. */
void lm_purge_unlocked(void) {
    /* Relaxed, here and below: the flag is an independent word, read under the lock. */
    if (lm_load_relaxed(&lm_space.refused_slices) == 0) {
        /* At this moment the worker may be refused memory that was locked a moment ago. */
        if (lm_os_worker_running()) lm_store_relaxed(&lm_space.unlocked, true);
        return;
    }
    bool now = lm_lock_try(&lm_space.lock);
    if (now) {
        lm_refused_retry();
        lm_lock_give(&lm_space.lock);
    } else {
        lm_store_relaxed(&lm_space.unlocked, true);
    }
    lm_purge_poke(!now);
}

void lm_refused_turn(void) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    lm_space.turn++;
    if (lm_load_relaxed(&lm_space.unlocked)) {
        /* Relaxed: an independent word, read under the lock. */
        lm_refused_retry();
        return;
    }
    if ((int32_t)(lm_space.turn - lm_space.retry_turn) < 0) return; /* turns wrap around */
    uint32_t wait = lm_space.retry_wait;
    wait = wait == 0 ? 1 : wait < RETRY_TURNS ? 2 * wait : RETRY_TURNS;
    lm_space.retry_wait = wait;
    lm_space.retry_turn = lm_space.turn + wait;
    try_again(RETRY_SPANS);
}

/* repair.c: repairs free spans in a copy of the process whose worker was in the middle of its work.
 *
 * clone, _Fork and other calls that run no handlers copy the memory at any moment of the worker's
 * work, but not the worker. The copy contains all that the worker had written up to one moment, in
 * the order of its writes: the kernel's copy-on-write ensures that. While the program has one
 * thread, the worker changes only free spans and their counts. The copy repairs them at the first
 * lock that it finds taken, or when it next wants a worker:
 *
 *   the worker held lm_space.lock    its lists may be half changed: they are rebuilt from the
 *                                    descriptors, of which the first of each span has the span's
 *                                    length at any moment (lm_space_label)
 *   the worker was purging a span    the next worker, or a thread that waits for busy spans,
 *                                    makes the span dirty
 *   otherwise                        there is nothing to repair
 *
 * It cannot repair what another thread of the program had half changed: POSIX forbids such a
 * program to allocate in the copy. The worker's locks are freed even there, so no copy waits for a
 * thread that does not exist. fork, which does run handlers, stops other threads if it can. If it
 * could not (decision 0038), the child calls lm_span_after_torn_fork, which rebuilds the lists if
 * another thread was changing them. Invariant afterwards: lm_span_check holds
 * (tests/works/children.c).
 */
#include "span/internal.h"

#include <string.h>

void (*lm_purge_break_locks)(bool collecting);

/* Neighbours that should be one span are merged. If another thread was about to free a span, the
 * last slot may already say that it is free, and the first one not yet: the first one decides. */
void lm_space_list_anew(void) {
    memset(lm_space.filled, 0, sizeof lm_space.filled);
    memset(lm_space.bins, 0, sizeof lm_space.bins);
    memset(&lm_space.aged, 0, sizeof lm_space.aged);
    memset(&lm_space.refused, 0, sizeof lm_space.refused);
    lm_space.dirty_slices = lm_space.clean_slices = lm_space.refused_slices = 0;
    lm_space.gone_slices = lm_space.gone_spans = 0;
#if LM_SECURE
    lm_space.hurry.dirty_large = 0;
#endif
    size_t hand = lm_space.hand.first, hand_end = hand + lm_space.hand.slices;
    size_t end = lm_arena.slices, first = 0, slices = 0; /* the free span that ends at `at` */
    lm_kind_t kind = LM_KIND_NONE;
    lm_group_t group = LM_GROUP_LARGE;
    uint32_t stamp = 0;
    for (size_t at = 0; at <= end;) {
        const lm_page_t *span = lm_space_slot(at < end ? at : 0);
        bool gone = at < end && span->kind == LM_KIND_GONE;
        bool free = at < end && (lm_space_is_free(span) || gone ||
                                 (at >= hand && at < hand_end && span->kind == LM_KIND_BUSY));
        lm_kind_t its = gone                                  ? LM_KIND_GONE
                        : free && span->kind == LM_KIND_CLEAN ? LM_KIND_CLEAN
                                                              : LM_KIND_DIRTY;
        bool joins = free && slices > 0 && its == kind && lm_space_group(span) == group;
        if (slices > 0 && !joins) {
            lm_space_add(first, slices, kind, group, stamp);
            slices = 0;
        }
        if (at == end) break;
        if (free && !joins) {
            first = at;
            kind = its;
            group = lm_space_group(span);
            stamp = span->kind == LM_KIND_BUSY ? lm_space.hand.stamp : span->stamp;
        }
        if (free)
            slices += span->slices;
        else
            lm_space_label(at, span->slices, (lm_kind_t)span->kind);
        at += span->slices;
    }
    lm_space.hand.slices = 0;
    lm_tails_list_anew();
#if LM_SECURE
    lm_held_forget();
#endif
}

void lm_space_repair(void) {
    /* A signal handler that comes here finds the repair done. */
    uint64_t mask = lm_os_signals_block();
    if (lm_os_worker_lost()) {
        /* Acquire: see what the worker had written by then. */
        bool inside = lm_load_acquire(&lm_space.worker_inside);
        bool collecting = lm_load_acquire(&lm_space.collecting);
        if (inside && lm_space.leaving != 0) {
            /* The memory may have gone already, so it goes in any case. */
            lm_store_release(&lm_arena.slices, lm_space.leaving - 1);
            lm_space.leaving = 0;
        }
        if (inside) lm_space_list_anew();
        if (inside || lm_lock_of_worker(&lm_space.lock)) lm_lock_reset(&lm_space.lock);
        lm_limit_repair();
        if (lm_purge_break_locks != NULL) lm_purge_break_locks(collecting);
        lm_purge_after_fork();
    }
    lm_os_signals_restore(mask);
}

void lm_span_after_torn_fork(void (*visit)(lm_page_t *span, void *context), void *context) {
    bool torn = lm_lock_break(&lm_space.lock);
    if (torn && lm_space.leaving != 0) lm_store_release(&lm_arena.slices, lm_space.leaving - 1);
    size_t at = 0, end = lm_arena.slices;
    for (size_t slices; at < end; at += slices) {
        slices = lm_space_slot(at)->slices;
        if (slices == 0 || slices > end - at) break; /* the arena was about to grow */
        if (lm_space_slot(at)->kind >= LM_KIND_PAGE) visit(lm_space_slot(at), context);
    }
    if (torn) {
        lm_space.leaving = 0;
        if (at < end) lm_space_label(at, end - at, LM_KIND_NONE);
        if (at < end) lm_space.gap_slices += end - at;
        lm_space_list_anew();
    } else {
        lm_range_visit(visit, context);
    }
    lm_space.busy = 0;
    lm_limit_after_torn_fork();
    lm_purge_after_fork();
}

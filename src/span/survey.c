/* survey.c: walks over all spans of the arena, for numbers, for visitors, to check the invariant,
 * and around a fork.
 *
 * Every function takes the arena's lock, and none is on a path that allocates. It cannot say what
 * is inside a span: survey/survey.c does.
 */
#include "span/internal.h"

static lm_tally_t in_bytes(const lm_tally_t *slices) {
    return (lm_tally_t){slices->now << LM_SLICE_SHIFT, slices->most << LM_SLICE_SHIFT,
                        slices->gone << LM_SLICE_SHIFT};
}

void lm_span_stats(lm_span_stats_t *stats) {
    lm_lock_take(&lm_space.lock);
    lm_space_look_at_mapped();
    lm_space_cleaned(0);
    *stats = (lm_span_stats_t){
        .arena_bytes = (lm_arena.slices - lm_space.gone_slices) << LM_SLICE_SHIFT,
        .metadata_bytes = lm_arena.slices * (sizeof(lm_page_t) + sizeof(lm_page_t *)),
        .dirty_bytes = lm_space.dirty_slices << LM_SLICE_SHIFT,
        .clean_bytes = lm_space.clean_slices << LM_SLICE_SHIFT,
        .used_bytes = lm_space_used() << LM_SLICE_SHIFT,
        .meta_bytes = lm_space.meta_slices << LM_SLICE_SHIFT,
        .purged_bytes = lm_space.purged_bytes,
        .purges = lm_space.purges,
        .reserved = in_bytes(&lm_space.mapped),
        .committed = in_bytes(&lm_space.committed),
        .grown = lm_space.grown,
    };
    lm_range_stats(stats);
    lm_lock_give(&lm_space.lock);
}

void lm_span_forget_peaks(void) {
    lm_lock_take(&lm_space.lock);
    lm_space_look_at_mapped();
    lm_space_cleaned(0);
    lm_tally_forget(&lm_space.mapped);
    lm_tally_forget(&lm_space.committed);
    lm_store_relaxed(&lm_span_counts.pages_most, 0);
    lm_store_relaxed(&lm_span_counts.large_most, 0);
    lm_store_relaxed(&lm_span_counts.large_bytes_most, 0);
    for (unsigned c = 0; c <= UINT8_MAX; c++)
        lm_store_relaxed(&lm_span_counts.of_class[c].room_most, 0);
    lm_lock_give(&lm_space.lock);
}

void lm_span_visit(void (*visit)(lm_page_t *span, void *context), void *context) {
    lm_lock_take(&lm_space.lock);
    for (size_t i = 0; i < lm_arena.slices; i += lm_space_slot(i)->slices) {
        if (lm_space_slot(i)->kind >= LM_KIND_PAGE) visit(lm_space_slot(i), context);
    }
    lm_range_visit(visit, context);
    lm_lock_give(&lm_space.lock);
}

lm_page_t *lm_span_holding(const void *p) {
    lm_lock_take(&lm_space.lock);
    lm_page_t *found = lm_range_holding(p);
    size_t slice = lm_slice_of(p);
    for (size_t i = 0; slice < lm_arena.slices && i <= slice; i += lm_space_slot(i)->slices) {
        if (slice < i + lm_space_slot(i)->slices && lm_space_slot(i)->kind >= LM_KIND_PAGE)
            found = lm_space_slot(i);
    }
    lm_lock_give(&lm_space.lock);
    return found;
}

#if LOAM_DEBUG
bool lm_span_page_before(const lm_page_t *span, bool (*look)(const lm_page_t *page)) {
    if (span->range != 0) return false;
    bool answer = false;
    lm_lock_take(&lm_space.lock);
    size_t slice = lm_span_slice(span);
    /* Acquire: see what was written before the page came into the map. Once out of the map, the
     * page needs the lock to be given back. */
    const lm_page_t *page = slice > 0 ? lm_load_acquire(&lm_arena.map[slice - 1]) : &lm_nobody;
    if (page->kind == LM_KIND_PAGE && page->range == 0) answer = look(page);
    lm_lock_give(&lm_space.lock);
    return answer;
}
#endif

static void span_survey_broken(const char *what, size_t slice) {
    lm_report("loam: arena invariant broken: %s at slice %zu", what, slice);
    lm_port_abort();
}

#if LM_SECURE
/* Checks that guards of pages, and slices without guards, are as guard.c says. */
static void check_marks(const lm_page_t *span) {
    bool waits = span->kind >= LM_KIND_DIRTY && span->kind <= LM_KIND_BUSY &&
                 lm_space_group(span) >= LM_GROUP_TINY;
    bool page = span->kind == LM_KIND_PAGE && span->range == 0;
    for (uint32_t i = 0; i < span->slices; i++) {
        bool guard = waits || (page && i + 1 == span->slices);
        if (span[i].marked && !guard) span_survey_broken("guard", lm_span_slice(span + i));
        if (span[i].backed && (span[i].marked || !(waits || page)))
            span_survey_broken("huge page", lm_span_slice(span + i));
    }
}
#endif

void lm_span_check(void) {
    lm_lock_take(&lm_space.lock);
    size_t dirty = 0, clean = 0, pages = 0, gaps = 0, listed = 0, aged = 0, refused = 0, gone = 0;
#if LM_SECURE
    size_t dirty_large = 0;
#endif
    const lm_page_t *before = NULL; /* the span before, if it is free */
    for (size_t i = 0; i < lm_arena.slices;) {
        const lm_page_t *span = lm_space_slot(i);
        if (span->slices == 0 || i + span->slices > lm_arena.slices)
            span_survey_broken("length", i);
        const lm_page_t *last = lm_space_slot(i + span->slices - 1);
        if (last->kind != span->kind || last->slices != span->slices)
            span_survey_broken("boundary tag", i);
        if (lm_space_is_free(span)) {
            if (lm_space_group(last) != lm_space_group(span)) span_survey_broken("group", i);
            if (before != NULL && before->kind == span->kind &&
                lm_space_group(before) == lm_space_group(span))
                span_survey_broken("unmerged neighbours", i);
            *(span->kind != LM_KIND_CLEAN ? &dirty : &clean) += span->slices;
            listed++;
            aged += span->kind != LM_KIND_CLEAN;
#if LM_SECURE
            if (span->kind == LM_KIND_DIRTY && lm_space_group(span) == LM_GROUP_LARGE)
                dirty_large += span->slices;
#endif
            refused += span->kind == LM_KIND_REFUSED ? span->slices : 0;
        }
#if LM_SECURE
        check_marks(span);
#endif
        if (span->kind == LM_KIND_PAGE && span->range == 0) pages += span->slices;
        if (span->kind == LM_KIND_NONE) gaps += span->slices;
        if (span->kind == LM_KIND_GONE) {
            gone += span->slices;
            listed++;
        }
        before = lm_space_is_free(span) ? span : NULL;
        i += span->slices;
    }
    if (dirty != lm_space.dirty_slices || clean != lm_space.clean_slices)
        span_survey_broken("counts", dirty);
    if (pages != lm_space.page_slices) span_survey_broken("count of pages", pages);
    if (gaps != lm_space.gap_slices) span_survey_broken("count of gaps", gaps);
    if (gone != lm_space.gone_slices) span_survey_broken("count of slices that are gone", gone);
    for (size_t which = 0; which < LM_FREE_KINDS; which++) {
        for (size_t bin = 0; bin < LM_BINS; bin++) {
            lm_list_t *list = &lm_space.bins[which][bin];
            if ((list->first != NULL) != ((lm_space.filled[which] >> bin) & 1))
                span_survey_broken("bin bit", bin);
            for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n)) {
                const lm_page_t *span = LM_CONTAINER(n, lm_page_t, link);
                bool free = lm_space_is_free(span) || span->kind == LM_KIND_GONE;
                if (lm_space_bin(span->slices) != bin || !free ||
                    lm_free_kind((lm_kind_t)span->kind, lm_space_group(span)) != which)
                    span_survey_broken("bin", lm_span_slice(span));
                listed--;
            }
        }
    }
    for (lm_node_t *n = lm_space.aged.first; n != NULL; n = lm_list_after(&lm_space.aged, n))
        aged--;
    for (lm_node_t *n = lm_space.refused.first; n != NULL; n = lm_list_after(&lm_space.refused, n))
        aged--;
#if LM_SECURE
    if (dirty_large != lm_space.hurry.dirty_large)
        span_survey_broken("count of dirty slices", dirty_large);
#endif
    if (refused != lm_space.refused_slices) span_survey_broken("count of refused slices", refused);
    if (listed != 0 || aged != 0) span_survey_broken("lists", listed);
    lm_tails_check();
    lm_range_check();
    lm_lock_give(&lm_space.lock);
}

bool lm_span_fork_is_mine(void) { return lm_lock_is_mine(&lm_space.lock); }

bool lm_span_fork_hold(uint64_t until) {
    for (unsigned turn = 0;; turn++) {
        if (!lm_lock_hold(&lm_space.lock, until)) return false;
        if (lm_space.hand.slices != 0 && !lm_os_worker_running()) lm_space_take_hand();
        if (lm_space_busy() == 0) return true; /* in the child, no thread would finish the purge */
        lm_lock_let(&lm_space.lock);
        if (lm_os_ms() >= until) return false;
        lm_os_nap(turn);
    }
}

void lm_span_fork_let(void) { lm_lock_let(&lm_space.lock); }

void lm_span_after_fork_alone(void) {
    if (lm_os_worker_lost())
        lm_space_repair();
    else
        lm_purge_after_fork();
}

void lm_span_after_fork(void) {
    lm_space.busy = 0;
    lm_space.hand.slices = 0;
    lm_space.moving_slices = 0;
    lm_limit_after_fork();
    lm_purge_after_fork();
    lm_lock_reset(&lm_space.lock);
}

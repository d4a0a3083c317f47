/* arena.c: the spans of the arena: which are free, which one a caller gets, and how one comes back.
 *
 * A free span is in a bin by its size and carries its length at both ends (boundary tags, Knuth,
 * TAOCP 1, 2.5). So adding, merging and removing a span cost the same however many spans exist. A
 * search is best fit by bins: exact up to 32 slices, then the best of at most 24 spans of the first
 * bin. Within a bin the span with the lowest address is usually found first, which keeps the
 * arena's top empty.
 *
 *   take   dirty before clean: resident memory costs no page fault. Then a hole between spans in
 *          use, then the arena's end, which grows (grow.c)
 *   give   a span becomes dirty and is stamped with the worker's clock; the worker purges it later
 *          (purge.c)
 *   move   the pages of a large object move to a longer span, without a copy
 *
 * A function that takes may release lm_space.lock in between, while a huge page is backed or dirty
 * spans are purged. What it found before may be gone afterwards, so it searches again.
 *
 * It cannot hand out parts of a slice. It takes one lock: callers come here once a page or large
 * object, not once a block. Spans of ranges (range.c) only pass through.
 *
 * Invariant (lm_span_check): both ends of a span name its kind and its length, free neighbours of
 * one kind and group are merged, and the counts by kind are the sums over the spans.
 */
#include "span/internal.h"

LM_AT_START lm_arena_t lm_arena;
LM_AT_START lm_page_t lm_nobody;
LM_AT_START LM_ALIGNED(64) lm_space_t lm_space;
lm_span_counts_t lm_span_counts;

/* Spans of different sizes that are examined in one bin. */
enum { ARENA_LOOK_IN_BIN = 24 };

void lm_space_label(size_t first, size_t slices, lm_kind_t kind) {
    lm_page_t *head = lm_space_slot(first), *tail = lm_space_slot(first + slices - 1);
    LM_ASSERT(slices > 0 && first + slices <= lm_arena.slices);
    /* The order matters, and everything written before must precede: a copy of the process can be
     * made at any moment (repair.c). */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    tail->slices = (uint32_t)slices;
    tail->kind = (uint8_t)kind;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    head->slices = (uint32_t)slices;
    head->kind = (uint8_t)kind;
}

static void account(lm_kind_t kind, size_t slices, bool add) {
    size_t *count = kind != LM_KIND_CLEAN ? &lm_space.dirty_slices : &lm_space.clean_slices;
    if (kind == LM_KIND_GONE) {
        LM_ASSERT(add || lm_space.gone_spans > 0);
        count = &lm_space.gone_slices;
        lm_space.gone_spans += add ? 1 : (size_t)-1;
    }
    LM_ASSERT(add || lm_load_relaxed(count) >= slices);
    /* Relaxed: purge.c reads it without the lock, as a guess. */
    lm_store_relaxed(count, add ? *count + slices : *count - slices);
}

/* Adds a refused span to its list. Separate, because it is rare. Relaxed: read without the lock, as
 * a guess. */
static LM_COLD void refused_comes(lm_page_t *span) {
    lm_list_add_last(&lm_space.refused, &span->age);
    lm_store_relaxed(&lm_space.refused_slices, lm_space.refused_slices + span->slices);
}
/* Removes a refused span from its list. Relaxed: read without the lock, as a guess. */
static LM_COLD void refused_goes(lm_page_t *span) {
    LM_ASSERT(lm_node_linked(&span->age));
    LM_ASSERT(lm_load_relaxed(&lm_space.refused_slices) >= span->slices);
    lm_list_remove(&lm_space.refused, &span->age);
    lm_store_relaxed(&lm_space.refused_slices, lm_space.refused_slices - span->slices);
}

void lm_space_remove(lm_page_t *span) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    lm_kind_t kind = (lm_kind_t)span->kind;
    size_t bin = lm_space_bin(span->slices), which = lm_free_kind(kind, lm_space_group(span));
    lm_list_t *list = &lm_space.bins[which][bin];
    LM_ASSERT(lm_node_linked(&span->link) && ((lm_space.filled[which] >> bin) & 1) != 0);
    LM_ASSERT(kind != LM_KIND_DIRTY || lm_node_linked(&span->age));
    LM_ASSERT(lm_space_slot(lm_span_slice(span) + span->slices - 1)->slices == span->slices);
    lm_list_remove(list, &span->link);
    if (list->first == NULL) lm_space.filled[which] &= ~((uint64_t)1 << bin);
    if (kind == LM_KIND_DIRTY) lm_list_remove(&lm_space.aged, &span->age);
    if (LM_UNLIKELY(kind == LM_KIND_REFUSED)) refused_goes(span);
    account(kind, span->slices, false);
    lm_group_dirty(kind, lm_space_group(span), (size_t)0 - span->slices);
}

void lm_space_add(size_t first, size_t slices, lm_kind_t kind, lm_group_t group, uint32_t stamp) {
    lm_page_t *span = lm_space_slot(first);
    size_t bin = lm_space_bin(slices), which = lm_free_kind(kind, group);
    lm_list_t *list = &lm_space.bins[which][bin];
    lm_space_label(first, slices, kind);
    lm_space_set_group(first, group);
    lm_space_set_group(first + slices - 1, group);
    /* The lowest address comes first, as far as one comparison can tell. */
    lm_node_t *lowest = list->first;
    if (lowest == NULL || LM_CONTAINER(lowest, lm_page_t, link) > span) {
        lm_list_add_first(list, &span->link);
    } else {
        lm_list_add_last(list, &span->link);
    }
    lm_space.filled[which] |= (uint64_t)1 << bin;
    if (kind == LM_KIND_DIRTY) {
        span->stamp = stamp;
        lm_list_add_last(&lm_space.aged, &span->age);
    }
    if (LM_UNLIKELY(kind == LM_KIND_REFUSED)) refused_comes(span);
    account(kind, slices, true);
    lm_group_dirty(kind, group, slices);
}

lm_page_t *lm_space_insert(size_t first, size_t slices, lm_kind_t kind, uint32_t stamp) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    LM_ASSERT(slices > 0 && first + slices <= lm_arena.slices);
    size_t own = slices;
    lm_group_t group = lm_space_group(lm_space_slot(first));
    if (first > 0 && lm_space_is_free_as(first - 1, kind, group)) {
        size_t before = lm_space_slot(first - 1)->slices;
        LM_ASSERT(before <= first && lm_space_slot(first - before)->slices == before);
        lm_page_t *span = lm_space_slot(first - before);
        if (before > own) stamp = span->stamp;
        lm_space_remove(span);
        first -= before;
        slices += before;
    }
    if (first + slices < lm_arena.slices && lm_space_is_free_as(first + slices, kind, group)) {
        lm_page_t *span = lm_space_slot(first + slices);
        LM_ASSERT(span->slices <= lm_arena.slices - (first + slices));
        if (span->slices > own) stamp = span->stamp;
        lm_space_remove(span);
        slices += span->slices;
    }
    lm_space_add(first, slices, kind, group, stamp);
    return lm_space_slot(first);
}

/* Returns the best free span of that kind and group with at least `slices` slices, or NULL iff
 * there is none. */
static lm_page_t *arena_find(lm_kind_t kind, lm_group_t group, size_t slices) {
    size_t which = lm_free_kind(kind, group), bin = lm_space_bin(slices);
    if (bin >= LM_EXACT_BINS) {
        /* Spans of this bin differ in size. */
        lm_list_t *list = &lm_space.bins[which][bin];
        lm_page_t *best = NULL;
        int left = bin == LM_BINS - 1 ? INT32_MAX : ARENA_LOOK_IN_BIN;
        for (lm_node_t *node = list->first; node != NULL && left-- > 0;
             node = lm_list_after(list, node)) {
            lm_page_t *span = LM_CONTAINER(node, lm_page_t, link);
            if (span->slices >= slices && (best == NULL || span->slices < best->slices))
                best = span;
        }
        if (best != NULL) return best;
        if (bin == LM_BINS - 1) return NULL;
        bin++;
    }
    uint64_t larger = lm_space.filled[which] & (~(uint64_t)0 << bin);
    if (larger == 0) return NULL;
    LM_ASSERT(lm_space.bins[which][lm_lowest_bit(larger)].first != NULL);
    return LM_CONTAINER(lm_space.bins[which][lm_lowest_bit(larger)].first, lm_page_t, link);
}

lm_page_t *lm_space_find_gone(lm_group_t group, size_t slices) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    return arena_find(LM_KIND_GONE, group, slices);
}

/* ---- Cutting ---- */

void lm_space_carve(lm_page_t *span, size_t first, size_t slices, lm_kind_t kind) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    size_t start = lm_span_slice(span), length = span->slices;
    lm_kind_t was = (lm_kind_t)span->kind;
    LM_ASSERT(lm_space_is_free(span) && (kind == LM_KIND_BUSY || kind >= LM_KIND_PAGE));
    LM_ASSERT(slices > 0 && first >= start && first + slices <= start + length);
    lm_group_t group = lm_space_group(span);
    uint32_t stamp = span->stamp;
    lm_space_remove(span);
    /* From the end on: at any moment, the chain of slots from the first of each span must describe
     * all spans. */
    size_t end = first + slices;
    if (end < start + length) lm_space_add(end, start + length - end, was, group, stamp);
    lm_space_label(first, slices, kind);
    lm_space_set_group(first, group);
    if (first > start) lm_space_add(start, first - start, was, group, stamp);
    /* A span that a huge page is about to back may change its group: see lm_group_backed. */
    if (was == LM_KIND_CLEAN && kind != LM_KIND_BUSY)
        lm_purge_retaken(slices - lm_group_retaken(group, slices));
    if (kind == LM_KIND_META) lm_space.meta_slices += slices;
    if (kind == LM_KIND_PAGE) lm_space.page_slices += slices;
}

lm_page_t *lm_space_clean(size_t slices) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    lm_page_t *span = arena_find(LM_KIND_CLEAN, LM_GROUP_LARGE, slices);
    if (span == NULL) span = lm_gone_open(LM_GROUP_LARGE, slices);
    return span == NULL && lm_space_grow(slices) ? arena_find(LM_KIND_CLEAN, LM_GROUP_LARGE, slices)
                                                 : span;
}

#if LM_SECURE
lm_page_t *lm_space_clean_of(lm_group_t group, size_t slices) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    return arena_find(LM_KIND_CLEAN, group, slices);
}
#endif

size_t lm_space_aligned(const lm_page_t *span, size_t align_slices) {
    LM_ASSERT(lm_is_pow2(align_slices));
    size_t base_slice = lm_arena.base >> LM_SLICE_SHIFT;
    return lm_align_up(base_slice + lm_span_slice(span), align_slices) - base_slice;
}

/* ---- Taking and giving ---- */

/* Returns a clean span that fits, is too short for a huge page and does not lie at the arena's end;
 * NULL iff there is none. If these holes were left alone, pages would spread over more and more
 * addresses. */
static lm_page_t *hole(lm_group_t group, size_t slices) {
    lm_page_t *span = arena_find(LM_KIND_CLEAN, group, slices);
    if (span == NULL || span->slices >= LM_HUGE_SPAN) return NULL;
    return lm_span_slice(span) + span->slices < lm_arena.slices ? span : NULL;
}

/* Returns how many slices to take from a dirty span that is shorter than wanted: the most for which
 * a dirty span exists, and which hold two blocks and leave at most an eighth unused. Returns 0 iff
 * there is no such number. */
static size_t shorter(lm_group_t group, size_t slices, size_t block_bytes) {
    uint64_t filled = lm_space.filled[lm_free_kind(LM_KIND_DIRTY, group)];
    filled &= ((uint64_t)1 << lm_space_bin(slices)) - 1;
    if (filled == 0) return 0;
#if LM_SECURE
    size_t guard = lm_span_marks() ? LM_MARK_BYTES : 0;
#else
    const size_t guard = 0;
#endif
    for (size_t n = lm_log2(filled) + 1;; n--) {
        size_t bytes = (n << LM_SLICE_SHIFT) - guard;
        if (n == 0 || bytes < 2 * block_bytes) return 0;
        if (bytes % block_bytes <= bytes / 8) return n;
    }
}

#if LM_SECURE
/* Returns a dirty span that belonged to no group, as one of this group; NULL iff there is none. */
static lm_page_t *dirty_of_nobody(lm_group_t group, size_t slices) {
    lm_page_t *span = arena_find(LM_KIND_DIRTY, LM_GROUP_LARGE, slices);
    return span != NULL ? lm_group_claim(group, span) : NULL;
}
#endif

static lm_page_t *clean(lm_group_t group, size_t slices) {
#if LM_SECURE
    if (group != LM_GROUP_LARGE) {
        lm_page_t *span = arena_find(LM_KIND_CLEAN, group, slices);
        if (span == NULL) span = lm_gone_open(group, slices);
        if (span == NULL) span = lm_group_grow(group, slices);
        /* Before that span is purged: the system, which gives no more, would get the arena's
         * end. */
        return span != NULL ? span : dirty_of_nobody(group, slices);
    }
#endif
    (void)group;
    return lm_space_clean(slices);
}

/* Collects memory because the system gives no more. Purges everything, since a dirty span and its
 * clean neighbour become one span once both are clean; waits for spans that other threads purge;
 * and searches again. Returns NULL iff that was in vain. Releases the lock meanwhile. */
static LM_COLD lm_page_t *scrape_together(lm_group_t group, size_t wanted, size_t slices,
                                          size_t spared) {
    lm_store_relaxed(&lm_space.scarce, true);
    /* Clean memory at the arena's end makes room for more there. Dirty memory does not, until it is
     * purged. */
    size_t unused = lm_space.dirty_slices + lm_space.clean_slices;
    if (lm_space_busy() == 0 && unused < wanted && !lm_space_could_grow(wanted - unused))
        return NULL;
    lm_gone_refused();
    while (lm_purge_one(0, SIZE_MAX) > 0) {}
    lm_space_rest();
    /* Other threads may have given spans back. */
    lm_page_t *span = arena_find(LM_KIND_DIRTY, group, wanted);
    if (span != NULL || !lm_limit_admits(slices, spared)) return span;
    span = clean(group, wanted);
    if (span == NULL && lm_gone_all(1)) span = clean(group, wanted);
#if LM_SECURE
    if (span == NULL && lm_group_forget()) span = clean(group, wanted);
#endif
    return span;
}

/* Takes a span once, without calling lm_span_more. bytes: size of each block of a page; usable
 * bytes of a large object, where 0 means the whole span; 0 for other kinds. spared: slices that
 * become clean soon because their pages move here. */
static lm_page_t *take_once(size_t slices, size_t align_slices, lm_kind_t kind, size_t bytes,
                            bool crowded, size_t spared, bool *zero) {
    LM_ASSERT(slices > 0 && lm_is_pow2(align_slices));
    if (slices > (size_t)1 << LM_SLICES_MOST_LOG2 || align_slices > (size_t)1
                                                                        << LM_SLICES_MOST_LOG2)
        return NULL;
    size_t wanted = slices + align_slices - 1, block_bytes = kind == LM_KIND_LARGE ? 0 : bytes;
    lm_group_t group = lm_space_group_for(kind, block_bytes);
    lm_lock_take(&lm_space.lock);
    lm_page_t *span = arena_find(LM_KIND_DIRTY, group, wanted);
    bool poke = false;
    size_t fewer = span == NULL && block_bytes > 0 ? shorter(group, slices, block_bytes) : 0;
    if (fewer > 0) span = arena_find(LM_KIND_DIRTY, group, slices = fewer);
    LM_ASSERT(fewer == 0 || span != NULL);
    bool huge = span == NULL && block_bytes > 0 && lm_huge_due(wanted, crowded);
#if LM_SECURE
    /* Memory that other groups hold is of no use here. Some of it is purged before more is held. */
    size_t more = huge ? LM_HUGE_SLICES : slices > spared ? slices - spared : 0;
    bool purged =
        (span == NULL || group == LM_GROUP_LARGE) && lm_group_hurry(group, more, span != NULL);
    if (purged)
        span = arena_find(LM_KIND_DIRTY, group, wanted); /* the lock was released meanwhile */
#endif
    if (span == NULL && huge) {
        if (lm_limit_admits(slices, spared)) span = hole(group, wanted);
        while (span == NULL && lm_limit_leaves(LM_HUGE_SLICES) && lm_huge_back(group)) {
            poke = true;
            span = arena_find(LM_KIND_DIRTY, group,
                              wanted); /* other threads may have taken it first */
        }
    }
    if (span == NULL && lm_limit_admits(slices, spared)) {
        span = clean(group, wanted);
        if (LM_UNLIKELY(span == NULL)) span = scrape_together(group, wanted, slices, spared);
    }
#if LM_SECURE
    if (span == NULL && group != LM_GROUP_LARGE) span = dirty_of_nobody(group, wanted);
#endif
    if (span != NULL) {
        lm_space.moving_slices += spared;
        bool is_clean = span->kind == LM_KIND_CLEAN;
        if (zero != NULL) *zero = is_clean;
        size_t first = lm_space_aligned(span, align_slices);
        lm_space_carve(span, first, slices, kind);
        span = lm_space_slot(first);
        LM_ASSERT(span->range == 0 && !lm_load_relaxed(&span->tail));
        span->reused_total = 0; /* other threads may read it before the page is ready */
        if (kind == LM_KIND_LARGE && bytes > 0) {
            span->bytes = bytes;
            lm_large_comes(bytes);
            if (!is_clean && lm_tail_worth(span, bytes)) poke = lm_tail_list(span);
        }
    }
    lm_lock_give(&lm_space.lock);
    if (span != NULL) LM_PROBE2(span_take, lm_span_start(span), slices << LM_SLICE_SHIFT);
    /* The unused part of a huge page, or of a large object's span, is dirty and may stay unused. */
    if (LM_UNLIKELY(poke)) lm_purge_poke(kind == LM_KIND_LARGE);
#if LM_SECURE
    /* The worker may have ended while the span was out of its list, and a part of it may have been
     * refused. */
    if (purged) lm_purge_poke(false);
#endif
    return span;
}

static lm_page_t *arena_take(size_t slices, size_t align_slices, lm_kind_t kind, size_t bytes,
                             bool crowded, size_t spared, bool *zero) {
    lm_page_t *span = take_once(slices, align_slices, kind, bytes, crowded, spared, zero);
#if LM_SECURE
    if (LM_UNLIKELY(span == NULL) && lm_span_more())
        span = take_once(slices, align_slices, kind, bytes, crowded, spared, zero);
#endif
    return span;
}

/* Takes a span in a process with ranges that serve every thread. Tries near ranges, then the arena,
 * then the other ranges. */
static LM_NOINLINE lm_page_t *take_with_ranges(size_t slices, size_t align_slices, lm_kind_t kind,
                                               size_t bytes, bool crowded, bool *zero) {
    lm_page_t *span = lm_range_take_near(slices, align_slices, kind, zero);
    if (span == NULL) span = arena_take(slices, align_slices, kind, bytes, crowded, 0, zero);
    return span != NULL ? span : lm_range_take_far(slices, align_slices, kind, zero);
}

lm_page_t *lm_span_take(size_t slices, size_t align_slices, lm_kind_t kind, bool *zero) {
    /* Relaxed: a range that is added at this moment serves the next call. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_ranges_open) != 0) && kind == LM_KIND_LARGE)
        return take_with_ranges(slices, align_slices, kind, 0, false, zero);
    return arena_take(slices, align_slices, kind, 0, false, 0, zero);
}

lm_page_t *lm_span_take_large(size_t slices, size_t align_slices, size_t bytes, bool *zero) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_ranges_open) != 0)) {
        /* Relaxed: a range that is added at this moment serves the next call. */
        lm_page_t *span = take_with_ranges(slices, align_slices, LM_KIND_LARGE, bytes, false, zero);
        if (span != NULL && span->range != 0) lm_large_comes_else(bytes);
        return span;
    }
    return arena_take(slices, align_slices, LM_KIND_LARGE, bytes, false, 0, zero);
}

lm_page_t *lm_span_take_page(size_t slices, size_t block_bytes, bool crowded, bool *zero) {
    /* Relaxed: a range that is added at this moment serves the next call. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_ranges_open) != 0))
        return take_with_ranges(slices, 1, LM_KIND_PAGE, block_bytes, crowded, zero);
    return arena_take(slices, 1, LM_KIND_PAGE, block_bytes, crowded, 0, zero);
}

/* Counts a page that is given back. Relaxed, here and below: statistics. Counts only grow until a
 * span is given back, so each peak is noted here. */
static void page_goes(lm_page_t *page) {
    struct lm_class_count *class = &lm_span_counts.of_class[page->size_class];
    size_t carved = page->carved, rest = page->capacity - carved;
    LM_ASSERT(lm_lock_held(&lm_space.lock) && carved <= page->capacity);
    LM_ASSERT(page->range != 0 || lm_space.page_slices >= page->slices);
    if (page->range == 0) lm_space.page_slices -= page->slices;
    size_t gone = lm_span_counts.pages_gone, pages = lm_load_relaxed(&lm_span_counts.pages) - gone;
    if (LM_UNLIKELY(pages > lm_span_counts.pages_most))
        lm_store_relaxed(&lm_span_counts.pages_most, pages);
    lm_store_relaxed(&lm_span_counts.pages_gone, gone + 1);
    (void)lm_add_relaxed(&class->handed, carved + page->reused_total);
    size_t room = lm_add_relaxed(&class->room, (size_t)0 - page->capacity) - rest;
    if (LM_UNLIKELY(room > class->room_most)) lm_store_relaxed(&class->room_most, room);
#if LM_SECURE
    page->carved = 0; /* free reads it in any span that it meets */
#endif
}

#if LM_TOOLS
void lm_space_page_goes(lm_page_t *page) { page_goes(page); }
#endif

void lm_space_large_goes(const lm_page_t *span) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    LM_ASSERT(span->kind == LM_KIND_LARGE);
    lm_span_counts_t *counts = &lm_span_counts;
    lm_group_large_goes(span);
    size_t bytes = lm_large_bytes_now(), objects = lm_large_ever() - counts->large_gone;
    lm_store_relaxed(&counts->large_bytes_gone, counts->large_bytes_gone + span->bytes);
    lm_store_relaxed(&counts->large_gone, counts->large_gone + 1);
    /* lm_count_large may write it at this moment. */
    lm_most(&counts->large_bytes_most, bytes);
    if (LM_UNLIKELY(objects > counts->large_most)) lm_store_relaxed(&counts->large_most, objects);
}

static void large_goes(lm_page_t *span) {
    lm_space_large_goes(span);
    lm_tail_drop(span);
}

void lm_span_give(lm_page_t *span, bool rested) {
    span->notified = NULL;
    lm_span_give_chain(span, rested);
}

void lm_span_give_meta(lm_page_t *span, bool rested) {
    lm_lock_take(&lm_space.lock);
    LM_ASSERT(span->kind == LM_KIND_META && lm_space.meta_slices >= span->slices);
    lm_space.meta_slices -= span->slices;
    lm_lock_give(&lm_space.lock);
    lm_span_give(span, rested);
}

/* In these builds the worker gives spans back even while the program has one thread (repair.c), so
 * it must take the lock as the worker. */
#if LM_GUARD_LINKS
static void enter_to_give(void) { lm_space_enter_to_give(); }
static void arena_leave(void) { lm_space_leave(); }
#else
static void enter_to_give(void) { lm_lock_take(&lm_space.lock); }
static void arena_leave(void) { lm_lock_give(&lm_space.lock); }
#endif

void lm_span_give_chain(lm_page_t *first, bool rested) {
    lm_page_t *next;
    enter_to_give();
    lm_group_used();
    uint32_t stamp = lm_space.tick - (rested ? lm_purge_ticks_rested() : 0);
    for (lm_page_t *span = first; span != NULL; span = next) {
        next = span->notified; /* before the span becomes a part of another */
        LM_ASSERT(span->kind >= LM_KIND_PAGE);
        LM_PROBE2(span_give, lm_span_start(span), (size_t)span->slices << LM_SLICE_SHIFT);
        if (span->kind == LM_KIND_PAGE)
            page_goes(span);
        else if (span->kind == LM_KIND_LARGE)
            large_goes(span);
        if (LM_UNLIKELY(span->range != 0)) {
            lm_range_give(span);
            continue;
        }
        LM_ASSERT(lm_load_relaxed(&lm_arena.map[lm_span_slice(span)]) != span);
        lm_space_insert(lm_span_slice(span), span->slices, LM_KIND_DIRTY, stamp);
    }
    lm_purge_inline();
    arena_leave();
    lm_purge_poke(false);
}

static void arena_map(lm_page_t **entry, size_t slices, lm_page_t *page) {
    for (size_t i = 0; i < slices; i++) lm_store_relaxed(&entry[i], page);
}

static LM_NOINLINE void map_in_range(lm_page_t *span, size_t slices, lm_page_t *page) {
    arena_map(lm_range_map_of(span), slices, page);
}

void lm_span_map(lm_page_t *span, size_t slices, lm_page_t *page) {
    LM_ASSERT(slices > 0 && slices <= span->slices);
    LM_ASSERT(span->range != 0 || lm_span_slice(span) + slices <= lm_peek(&lm_arena.slices));
    if (LM_UNLIKELY(span->range != 0))
        map_in_range(span, slices, page); /* out of line, so that no registers are saved for it */
    else
        arena_map(&lm_arena.map[lm_span_slice(span)], slices, page);
}

bool lm_span_unmap(lm_page_t *span) {
    lm_page_t **entry =
        LM_UNLIKELY(span->range != 0) ? lm_range_map_of(span) : &lm_arena.map[lm_span_slice(span)];
    lm_page_t *there = span;
    /* Relaxed, both: only the order of the exchanges decides. */
    return lm_cas_relaxed(entry, &there, &lm_nobody);
}

lm_page_t *lm_span_move_to(lm_page_t *span, size_t slices, bool *clean) {
    /* The program is shut in: mremap may be forbidden as well. */
    if (lm_load_relaxed(&lm_space.worker_forbidden)) return NULL;
    /* A range has its own memory, which stays in place. */
    if (span->range != 0) return NULL;
    LM_ASSERT(span->kind == LM_KIND_LARGE);
    size_t old = span->slices;
    lm_page_t *target = arena_take(slices, 1, LM_KIND_LARGE, 0, false, old, clean);
    if (target == NULL) return NULL;
    bool hole, moved = lm_os_move(lm_span_start(span), old << LM_SLICE_SHIFT, lm_span_start(target),
                                  slices << LM_SLICE_SHIFT, &hole);
    lm_page_t *empty = moved ? span : target;
    lm_lock_take(&lm_space.lock);
    /* In the child of a fork from a signal handler the count may be 0 already. */
    lm_space.moving_slices -= old < lm_space.moving_slices ? old : lm_space.moving_slices;
    if (LM_UNLIKELY(hole)) {
        /* The addresses are unmapped, and other code may map memory there, so they are a gap from
         * now on. */
        lm_space_label(lm_span_slice(empty), empty->slices, LM_KIND_NONE);
        lm_space.gap_slices += empty->slices;
    } else if (moved || *clean) {
        lm_space_cleaned(empty->slices);
        lm_space_insert(lm_span_slice(empty), empty->slices, LM_KIND_CLEAN, 0);
    }
    lm_lock_give(&lm_space.lock);
    if (!moved && !*clean && !hole) {
        target->kind = LM_KIND_META; /* it never was an object */
        lm_span_give(target, true);
    }
    return moved ? target : NULL;
}

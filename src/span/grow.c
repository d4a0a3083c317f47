/* grow.c: how the arena, and large objects in it, grow and shrink.
 *
 *   base  [ used | free | used ....... | free: clean ]<- end
 *                                                     grow    [ at least 1 MiB more ]
 *                                      [ settle ]     a clean end goes back with its addresses
 *   map   [ one pointer a slice ]      pages  [ one descriptor a slice ]
 *
 * The arena grows at its end, by a sixteenth of its length. The map and the descriptors grow with
 * it, and are purged with what they describe. If the addresses after the end belong to another
 * mapping, the arena steps over them: they become a span that stays in use. A large object grows
 * over the free spans after it, and then over the arena's new end. The part that it gives back when
 * it shrinks is dirty.
 *
 * It cannot move the arena, and cannot grow past LM_SLICES_MOST_LOG2. Functions named lm_space are
 * called with lm_space.lock held; functions named lm_span take it.
 *
 * Invariant (lm_span_check): the spans cover all slices below lm_arena.slices without a gap.
 */
#include "span/internal.h"

enum {
    GROW_LEAST = 16, /* slices: 1 MiB */
    GROW_MOST = 512, /* 32 MiB */
    /* Minimum number of slices whose descriptors are worth a purge. In builds whose groups keep
     * their addresses, a purge returns nothing else. */
    SETTLE_LEAST = LM_GROUPS > 1 ? 64 : 256,
    /* Minimum slices for which the system is asked whether it has that much: 1 GiB. */
    GROW_ASK_LEAST = 1 << 14,
    /* Attempts to grow past a foreign mapping; the distance grows fourfold each time. */
    SKIPS = 8,
};

/* ---- Growing ---- */

/* Commits one of the two metadata arrays up to `bytes` bytes. The arrays cannot move, so
 * LM_COMMIT_TAKEN is a failure. */
static lm_commit_t cover(void *array, size_t *committed, size_t bytes) {
    LM_ASSERT(*committed % LM_OS_UNIT == 0);
    bytes = lm_align_up(bytes, LM_OS_UNIT);
    if (bytes <= *committed) return LM_COMMIT_DONE;
    lm_commit_t got =
        lm_os_commit((char *)array + *committed, bytes - *committed, lm_space.reserved);
    if (got == LM_COMMIT_DONE) *committed = bytes;
    return got;
}

static bool cover_metadata(size_t slices) {
    return cover(lm_arena.map, &lm_space.map_committed, slices * sizeof(lm_page_t *)) ==
               LM_COMMIT_DONE &&
           cover(lm_arena.pages, &lm_space.pages_committed, slices * sizeof(lm_page_t)) ==
               LM_COMMIT_DONE;
}

/* Places map, descriptors and slices side by side at the address that the system names. */
static bool place_arena(void) {
    const size_t each = LM_SLICE_BYTES + sizeof(lm_page_t) + sizeof(lm_page_t *);
    size_t bytes = each << LM_SLICES_MOST_LOG2;
    uintptr_t at = lm_os_place(&bytes, &lm_space.reserved);
    if (at == 0) return false;
    size_t slices = (bytes - 4 * LM_OS_UNIT) / each;
    lm_arena.map = (lm_page_t **)at;
    lm_space.map_committed = LM_OS_UNIT;
    /* After each array lies a unit that is never committed, at which an overflow of the array
     * ends. */
    at = lm_align_up(at + slices * sizeof(lm_page_t *), LM_OS_UNIT) + LM_OS_UNIT;
    lm_arena.pages = (lm_page_t *)at;
    at = lm_align_up(at + slices * sizeof(lm_page_t), LM_OS_UNIT) + LM_OS_UNIT;
    LM_ASSERT(at % LM_SLICE_BYTES == 0);
    LM_ASSERT(at + (slices << LM_SLICE_SHIFT) <= (uintptr_t)lm_arena.map + bytes);
    lm_store_relaxed(&lm_arena.base, at);
    lm_store_relaxed(&lm_space.slices_most, slices); /* relaxed: see lm_space_could_grow */
    lm_space.slices_cheap = (size_t)1 << 20;         /* 64 GiB, whose map takes 8 MiB */
    lm_space.placed = true;
    return true;
}

/* Makes the arena longer by `slices` slices, whose memory is committed. */
static void publish(size_t slices) {
    size_t first = lm_arena.slices;
    LM_ASSERT((first + slices) * sizeof(lm_page_t *) <= lm_space.map_committed);
    LM_ASSERT((first + slices) * sizeof(lm_page_t) <= lm_space.pages_committed);
    for (size_t i = first; i < first + slices; i++) lm_store_relaxed(&lm_arena.map[i], &lm_nobody);
    /* Release: a thread that finds a slice below the bound finds its map entry. */
    lm_store_release(&lm_arena.slices, first + slices);
}

/* Adds slices after `gap` slices of another mapping, which become a span that stays in use. Changes
 * nothing unless it returns LM_COMMIT_DONE. */
static lm_commit_t grow_behind(size_t gap, size_t slices) {
    LM_ASSERT(lm_lock_held(&lm_space.lock) && lm_space.placed && slices > 0);
    size_t first = lm_arena.slices, start = first + gap;
    if (LM_UNLIKELY(start + slices > lm_space.slices_cheap)) lm_limit_addresses();
    if (start > lm_space.slices_most || slices > lm_space.slices_most - start)
        return LM_COMMIT_NO_MEMORY;
    /* Relaxed: an independent word. A program that has shut itself in must not ask. */
    if (LM_UNLIKELY(slices >= GROW_ASK_LEAST) && !lm_load_relaxed(&lm_space.worker_forbidden) &&
        !lm_os_promises(slices << LM_SLICE_SHIFT))
        return LM_COMMIT_NO_MEMORY;
    void *at = (void *)(lm_arena.base + (start << LM_SLICE_SHIFT));
    lm_commit_t got = lm_os_commit(at, slices << LM_SLICE_SHIFT, lm_space.reserved);
    if (got != LM_COMMIT_DONE) return got;
    if (!cover_metadata(start + slices)) {
        (void)lm_os_release(at, slices << LM_SLICE_SHIFT, lm_space.reserved);
        return LM_COMMIT_NO_MEMORY;
    }
    lm_os_no_huge_pages(at, slices << LM_SLICE_SHIFT);
    LM_METER(system(slices << LM_SLICE_SHIFT));
    publish(gap + slices);
    lm_space.grown++;
    if (gap > 0) lm_space_label(first, gap, LM_KIND_NONE);
    lm_space.gap_slices += gap;
    lm_space_set_group(start, LM_GROUP_LARGE);
    lm_space_insert(start, slices, LM_KIND_CLEAN, 0);
    return LM_COMMIT_DONE;
}

/* Makes the arena longer by at least `slices` slices, as a clean span at its end. The step is a
 * sixteenth of the arena, from 1 to 32 MiB: a large arena makes few calls, and a small one maps
 * little. */
static lm_commit_t grow_in_place(size_t slices) {
    size_t step = lm_arena.slices / 16;
    if (step < GROW_LEAST) step = GROW_LEAST;
    if (step > GROW_MOST) step = GROW_MOST;
    if (lm_gone_near()) step = GROW_LEAST;
    if (step > slices && grow_behind(0, step) == LM_COMMIT_DONE) return LM_COMMIT_DONE;
    return grow_behind(0, slices);
}

bool lm_space_grow(size_t slices) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    if (!lm_space.placed && !place_arena()) return false;
    size_t end = lm_arena.slices, there = 0;
    if (end > 0 && lm_space_is_free_as(end - 1, LM_KIND_CLEAN, LM_GROUP_LARGE))
        there = lm_space_slot(end - 1)->slices;
    if (there >= slices) return true;
    lm_gone_look_at_limits();
    lm_commit_t got = grow_in_place(slices - there);
    for (size_t i = 0, gap = GROW_LEAST; got == LM_COMMIT_TAKEN && i < SKIPS; i++, gap *= 4) {
        got = grow_behind(gap, slices);
    }
    return got == LM_COMMIT_DONE;
}

bool lm_space_could_grow(size_t slices) {
    /* Relaxed: a limit that is lowered at this moment counts the next time. */
    size_t have = lm_peek(&lm_arena.slices), most = lm_load_relaxed(&lm_space.slices_most);
    if (slices > most || have > most - slices) return false;
    /* A sandbox may let loam map memory, and forbid it to unmap what served only as a question. */
    return !lm_purge_allowed() || lm_os_promises(slices << LM_SLICE_SHIFT);
}

bool lm_span_could_hold(size_t bytes) {
    size_t slices = bytes >> LM_SLICE_SHIFT, gone = lm_peek(&lm_space.gone_slices),
           have = lm_peek(&lm_arena.slices) - gone;
    if (slices <= have || lm_load_relaxed(&lm_ranges_open) != 0) return true;
    /* Relaxed: a guess. */
    return bytes <= lm_load_relaxed(&lm_limit_policy.hard) && lm_space_could_grow(slices - have);
}

/* ---- Shrinking ---- */

/* Purges the system pages that lie wholly within [from, to). */
static void purge_within(void *from, void *to) {
    size_t page = lm_os_page_bytes();
    uintptr_t first = lm_align_up((uintptr_t)from, page), end = lm_align_down((uintptr_t)to, page);
    if (first < end) (void)lm_os_purge((void *)first, end - first);
}

void lm_space_end_at(size_t slice) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    size_t end = lm_arena.slices;
    LM_ASSERT(slice < end);
    /* Release: a thread that still sees the old bound asks about a pointer to no object. */
    lm_store_release(&lm_arena.slices, slice);
    purge_within(lm_space_slot(slice), lm_space_slot(end));
    purge_within(lm_arena.map + slice, lm_arena.map + end);
}

void lm_space_settle(lm_page_t *span) {
    LM_ASSERT(lm_lock_held(&lm_space.lock));
    size_t first = lm_span_slice(span), slices = span->slices, end = first + slices;
    LM_ASSERT(span->kind == LM_KIND_CLEAN && end <= lm_arena.slices);
    /* After growth it belongs to no group again. */
    bool goes = lm_space_group(span) == LM_GROUP_LARGE;
    goes = goes && end == lm_arena.slices && slices >= GROW_LEAST;
    /* Release: set before the memory goes. */
    if (goes) lm_store_release(&lm_space.leaving, first + 1);
    /* If a sandbox refuses, the addresses stay: they could not be committed again. */
    if (goes && lm_os_release(lm_span_start(span), slices << LM_SLICE_SHIFT, lm_space.reserved)) {
        lm_space_look_at_mapped();
        lm_space.mapped.gone += slices;
        lm_space_remove(span);
        lm_space_end_at(first);
        lm_store_release(&lm_space.leaving, 0); /* release: cleared after the memory has gone */
        lm_gone_lower_end();
        return;
    }
    /* Release: ends what the store above began. */
    if (goes) lm_store_release(&lm_space.leaving, 0);
    /* A shorter span is unmapped only next to a gap. */
    if (slices >= GROW_LEAST || LM_UNLIKELY(lm_space.gone_spans > 0)) (void)lm_gone_settle(span);
    if (slices >= SETTLE_LEAST) {
        /* Only the descriptors at both ends are in use. */
        purge_within(lm_space_slot(first + 1), lm_space_slot(end - 1));
    }
}

/* ---- Large objects ---- */

/* Returns the slice at which the row of free spans from `from` on ends, over which a large object
 * may grow. Looks no further than needed to reach `to`. */
static size_t free_until(size_t from, size_t to) {
    while (from < to && from < lm_arena.slices && lm_space_is_free(lm_space_slot(from)) &&
           lm_space_group(lm_space_slot(from)) == LM_GROUP_LARGE)
        from += lm_space_slot(from)->slices;
    return from;
}

#if LM_SECURE
/* Called when a large object is about to grow over [from, to), if that is free. Purges what other
 * groups hold, if the clean part of the range needs that. Returns whether it released the lock
 * meanwhile. */
static bool hurry(size_t from, size_t to) {
    size_t reach = free_until(from, to);
    if (reach < to && reach < lm_arena.slices) return false;
    bool dirty = from < reach && lm_space_slot(from)->kind != LM_KIND_CLEAN;
    size_t after = dirty ? from + lm_space_slot(from)->slices : from;
    return after < to && lm_group_hurry(LM_GROUP_LARGE, to - after, false);
}
#endif

/* Extends a LARGE span to `slices` slices. addresses: the added part will hold no memory. */
static bool extend(lm_page_t *span, size_t slices, bool addresses, bool *zero) {
    LM_ASSERT(span->kind == LM_KIND_LARGE);
    *zero = false;
    if (LM_UNLIKELY(span->range != 0)) return lm_range_extend(span, slices);
    size_t first = lm_span_slice(span);
    bool done = false;
    lm_lock_take(&lm_space.lock);
    size_t have = span->slices, end = first + have;
#if LM_SECURE
    bool purged = slices > have && !addresses && hurry(end, first + slices);
#else
    (void)addresses;
#endif
    if (slices > have && !lm_limit_admits(slices - have, 0)) {
        lm_lock_give(&lm_space.lock);
        return false;
    }
    /* After the span there may be dirty and clean free spans, and then the arena's end, which may
     * grow. */
    size_t reach = free_until(end, first + slices);
    if (reach < first + slices && reach == lm_arena.slices &&
        grow_in_place(first + slices - reach) == LM_COMMIT_DONE) {
        reach = free_until(end, first + slices);
    }
    if (reach >= first + slices && slices > have) {
        *zero = true;
        while (end < first + slices) {
            lm_page_t *next = lm_space_slot(end);
            size_t left = first + slices - end, length = next->slices;
            size_t part = length < left ? length : left;
            if (next->kind != LM_KIND_CLEAN) *zero = false;
            lm_space_carve(next, end, part, LM_KIND_LARGE);
            end += part;
        }
        lm_space_label(first, slices, LM_KIND_LARGE);
        done = true;
    }
    lm_lock_give(&lm_space.lock);
#if LM_SECURE
    if (purged) lm_purge_poke(false);
#endif
    return done;
}

bool lm_span_extend_by(lm_page_t *span, size_t slices, bool *zero) {
    return extend(span, slices, false, zero);
}

bool lm_span_extend(lm_page_t *span, size_t slices) {
    bool zero;
    return extend(span, slices, true, &zero);
}

void lm_span_shrink(lm_page_t *span, size_t slices) {
    LM_ASSERT(span->kind == LM_KIND_LARGE && slices > 0 && slices <= span->slices);
    if (LM_UNLIKELY(span->range != 0)) {
        lm_range_shrink(span, slices);
        return;
    }
    size_t first = lm_span_slice(span), cut = span->slices - slices;
    if (cut == 0) return;
    lm_lock_take(&lm_space.lock);
    /* The order is that of lm_space_carve. */
    lm_space_label(first + slices, cut, LM_KIND_META);
    lm_space_label(first, slices, (lm_kind_t)span->kind);
    lm_space_set_group(first + slices, lm_space_group(span));
    lm_space_insert(first + slices, cut, LM_KIND_DIRTY, lm_space.tick);
    lm_purge_inline();
    lm_lock_give(&lm_space.lock);
    lm_purge_poke(false);
}

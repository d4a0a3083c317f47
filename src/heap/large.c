/* large.c: objects of more than 64 KiB, each a span of its own.
 *
 *   [ slice | slice | slice ]     usable: the request, rounded up to a multiple of 4 KiB
 *   [ usable ........ | tail ]    tail: not used; goes back after a while if dirty (span/tails.c)
 *
 * Large objects belong to no thread: one lock, the arena's, serves them. An object grows in place
 * if the slices behind it are free, and otherwise moves by moving pages (mremap), not bytes. It
 * cannot find an object from a pointer into its middle, because only the first slice is in the map.
 */
#include "heap/core.h"

enum {
    LARGE_UNIT = 4096, /* bytes of which usable sizes are multiples */
    MOVE_LEAST = 4,    /* slices of the smallest object that is moved by pages, not copied */
    MOVES_MOST = 4096, /* about how many objects may have moved: each takes one map entry */
};

#if !LM_SECURE
static size_t large_slices_for(size_t bytes) {
    return (bytes + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
}
#endif

/* Returns the usable size of an object of `bytes` bytes: a multiple of UNIT, or in the secure
 * build, which checks the bytes behind the object, exactly `bytes`; but at least 1. */
static size_t usable_of(size_t bytes) {
    LM_ASSERT(bytes <= LM_REQUEST_MOST);
    size_t least = bytes == 0 ? 1 : bytes;
    return LM_SECURE ? least : lm_align_up(least, LARGE_UNIT);
}

/* Makes a new span an object of `usable` usable bytes. Returns the object. */
static void *open_at(lm_page_t *page, size_t usable) {
    LM_ASSERT(page->kind == LM_KIND_LARGE);
    LM_ASSERT(usable > 0 && usable <= (size_t)page->slices << LM_SLICE_SHIFT);
#if LM_SECURE
    lm_large_trailer_write(page, usable);
    lm_large_tail(page);
#else
    /* Relaxed: a purge of the tail that reads the word meanwhile finds the number that is there. */
    lm_store_relaxed(&page->bytes, usable);
#endif
    page->block_bytes = 0;
    page->huge = false;
    page->fheap = NULL;
    lm_store_relaxed(&page->owner, LM_OWNER_NONE);
    lm_span_map(page, 1, page);
    return lm_span_start(page);
}

#if !LM_SECURE
/* Apart, so that malloc's own large objects do not pay for the calls. */
static LM_NOINLINE lm_page_t *take_for_fheap(const struct loam_heap *fheap, size_t usable,
                                             size_t align_slices, bool *zero) {
    size_t slices = large_slices_for(usable);
    if (!lm_fheap_has_range(fheap)) return lm_span_take_large(slices, align_slices, usable, zero);
    lm_page_t *page = lm_fheap_take(fheap, slices, align_slices, zero);
    if (page != NULL) lm_large_comes_else(usable);
    return page;
}
#endif

/* Takes a span for an object of `usable` bytes, from the first-class heap's range if it has one,
 * and counts the object. Returns NULL iff there is no memory. No lock held. */
static lm_page_t *large_take(const struct loam_heap *fheap, size_t usable, size_t align_slices,
                             bool *zero) {
#if LM_SECURE
    lm_page_t *page = lm_large_take(fheap, usable, align_slices, zero);
    if (page != NULL) lm_large_comes_else(usable);
    return page;
#else
    if (LM_UNLIKELY(fheap != NULL)) return take_for_fheap(fheap, usable, align_slices, zero);
    return lm_span_take_large(large_slices_for(usable), align_slices, usable, zero);
#endif
}

/* Takes a span where memory has run out: frees memory that loam keeps, asks the program's handler,
 * and tries again. Returns NULL, after the error handler was called, iff that does not help. No
 * lock held. */
static LM_COLD lm_page_t *take_of_room_made(struct loam_heap *fheap, size_t usable,
                                            size_t align_slices, bool *zero) {
    if (lm_fheap_has_range(fheap)) {
        lm_fheap_collect(fheap);
        lm_page_t *page = large_take(fheap, usable, align_slices, zero);
        if (page != NULL) return page;
    }
    for (unsigned tries = 0; lm_memory_found(usable, &tries);) {
        lm_page_t *page = large_take(fheap, usable, align_slices, zero);
        if (page != NULL) return page;
    }
    if (align_slices > 1)
        lm_refused_aligned(usable, align_slices << LM_SLICE_SHIFT, false);
    else
        lm_refused(usable, false);
    return NULL;
}

void *lm_large_alloc(size_t bytes, size_t align, bool *zero) {
    /* Relaxed: a thread that has chosen a first-class heap has set the word itself. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_heaps_chosen))) {
        struct loam_heap *fheap = lm_heap_chosen();
        if (fheap != NULL) return lm_fheap_large_alloc(fheap, bytes, align, zero);
    }
    return lm_large_open(NULL, bytes, align, zero);
}

void *lm_large_open(struct loam_heap *fheap, size_t bytes, size_t align, bool *zero) {
    if (bytes > LM_REQUEST_MOST || align > LM_REQUEST_MOST) return lm_too_large_at(bytes, align);
    LM_METER(slow());
    lm_heartbeat_if_asked();
    size_t usable = usable_of(bytes);
    size_t align_slices = align <= LM_SLICE_BYTES ? 1 : align >> LM_SLICE_SHIFT;
    lm_page_t *page = large_take(fheap, usable, align_slices, zero);
    if (LM_UNLIKELY(page == NULL)) {
        page = take_of_room_made(fheap, usable, align_slices, zero);
        if (page == NULL) return lm_no_memory();
    }
    void *p = open_at(page, usable);
    LM_ASSERT(((uintptr_t)p & (align - 1)) == 0);
    LM_PROBE2(large_alloc, p, usable);
    lm_bytes_mine(usable, 0);
    lm_tools_show(p, usable);
#if LOAM_DEBUG
    /* An object that ended with its first-class heap may have left a word here that says used. */
    lm_word_set((const char *)p + usable, 0, LM_STATE_FREED);
#endif
    /* Most programs fill an object. But an object that must be zero is often a table of which they
     * touch little, so it gets no huge pages. */
    if (zero == NULL) {
        lm_span_fill(page, 0, usable);
        lm_perturb_new(p, usable);
    }
    lm_limit_answer_if_crossed();
    return p;
}

/* Reports a double free: another thread has freed the object since the calling thread found it in
 * the map. */
static LM_COLD void freed_at_once(const lm_page_t *page) {
#if LM_GUARD_LINKS
    (void)lm_double_free(page, lm_span_start(page), "free");
#else
    (void)lm_page_foreign(lm_span_start(page), "free");
#endif
}

/* Gives back the span of an object that is out of the map. touched: the secure build may write to
 * the object's memory. */
LM_INLINE void large_discard(lm_page_t *page, bool touched) {
    LM_PROBE2(large_free, lm_span_start(page), page->bytes);
    lm_span_unfill(page, 0);
#if LM_SECURE
    lm_large_keep(page, touched);
#else
    (void)touched;
    lm_tools_give(page, false);
#endif
}

void lm_large_free(lm_page_t *page, void *p) {
    if (p != lm_span_start(page)) {
        (void)lm_inside_large(page, p, "free");
        return;
    }
    /* Called before the object is read: once another thread has freed the object, its memory may be
     * inaccessible. */
    if (LM_UNLIKELY(!lm_span_unmap(page))) {
        freed_at_once(page);
        return;
    }
#if LM_SECURE
    if (!lm_large_intact(page, "free")) {
        lm_span_map(page, 1, page);
        return;
    }
#endif
    /* Acquire: if this thread reads NULL because another thread ends the heap at this moment, the
     * span is out of the heap's list already. */
    if (LM_UNLIKELY(lm_load_acquire(&page->fheap) != NULL)) lm_fheap_lose(page);
    lm_bytes_mine(0, page->bytes);
    large_discard(page, true);
}

void lm_large_discard(lm_page_t *page) {
    lm_span_map(page, 1, &lm_nobody);
    large_discard(page, false);
}

/* Returns whether moving the object's pages beats copying its bytes. The larger the arena, the
 * larger an object must be, so that moved objects do not use up the process's map entries. */
static bool worth_moving(const lm_page_t *page) {
    return page->slices >= MOVE_LEAST && page->slices >= lm_peek(&lm_arena.slices) / MOVES_MOST;
}

/* Moves the object's pages to a span for `usable` bytes; if roomy, to one that is a quarter longer.
 * Returns the object there, or NULL iff that is not possible: nothing has changed then. */
static void *large_move(lm_page_t *page, size_t usable, bool roomy) {
    size_t had = page->bytes;
    if (LM_UNLIKELY(!lm_span_unmap(page))) return NULL; /* the caller's free reports the mistake */
    lm_span_unfill(page, 0); /* one mremap cannot move both kinds of pages, huge and small */
    /* The slices to grow into are only addresses until they are used. */
#if LM_SECURE
    lm_page_t *target = lm_large_move(page, usable, roomy);
#else
    size_t slices = large_slices_for(usable);
    LM_ASSERT(slices > page->slices); /* otherwise it would have grown in place */
    bool clean, dirty = lm_span_tail_keep(page);
    lm_page_t *target = lm_span_move_to(page, slices + (roomy ? slices / 4 : 0), &clean);
    if (target == NULL)
        lm_span_tail(page, had, dirty);
    else
        lm_span_tail(target, usable, !clean);
#endif
    if (target == NULL) {
        lm_span_map(page, 1, page);
        return NULL;
    }
    lm_count_large(had, usable);
    return open_at(target, usable);
}

/* Resizes p in place. Returns p; NULL iff that is not possible: nothing has changed then. fresh:
 * see lm_large_fit. */
static void *large_fit(lm_page_t *page, void *p, size_t bytes, bool roomy, size_t *fresh) {
#if LM_SECURE
    size_t had = page->bytes;
    if (!lm_large_intact(page, "realloc") ||
        lm_large_refit(page, p, usable_of(bytes), roomy, fresh) == NULL)
        return NULL;
    lm_count_large(had, usable_of(bytes));
    return p;
#else
    (void)roomy; /* an object that grows in place takes no more than it needs */
    size_t usable = usable_of(bytes), slices = large_slices_for(usable);
    size_t had = page->bytes, had_slices = page->slices;
    LM_ASSERT(had > 0 && had <= had_slices << LM_SLICE_SHIFT);
    bool zero = false;
    if (usable <= had) {
        lm_span_unfill(page, slices);
        lm_span_shrink(page, slices);
        if (usable < had) lm_span_tail(page, usable, true);
    } else {
        bool dirty = lm_span_tail_keep(page);
        if (slices > had_slices && !lm_span_extend_by(page, slices, &zero)) {
            lm_span_tail(page, had, dirty);
            return NULL;
        }
        lm_span_tail(page, usable, slices > had_slices ? !zero : dirty);
    }
    LM_ASSERT(page->bytes == usable && slices <= page->slices);
    lm_count_large(had, usable);
    if (zero && fresh != NULL) *fresh = had_slices << LM_SLICE_SHIFT;
    /* A caller without `fresh` clears nothing, and most programs fill what an object grows by. */
    if (usable > had && fresh == NULL) lm_span_fill(page, had, usable);
    return p;
#endif
}

/* Resizes p in place, or moves its pages if that pays. Returns the object; NULL iff neither works:
 * nothing has changed then. fresh: see lm_large_fit. */
static void *fit_or_move(lm_page_t *page, void *p, size_t bytes, bool roomy, size_t *fresh) {
    if (large_fit(page, p, bytes, roomy, fresh) != NULL) return p;
    if (!worth_moving(page)) return NULL;
    size_t usable = usable_of(bytes), had_slices = page->slices;
    p = large_move(page, usable, roomy);
    if (p == NULL) return NULL;
    if (fresh != NULL)
        *fresh = had_slices << LM_SLICE_SHIFT;
    else
        lm_span_fill(lm_page_of(p), 0, usable);
    return p;
}

/* Resizes an object by `how`, within the limits of the first-class heap that it belongs to, if any.
 * Counts the change. Returns what `how` returns. */
static void *large_change(lm_page_t *page, void *p, size_t bytes, size_t *fresh,
                          lm_large_change_t *how) {
    /* Acquire: if this thread reads NULL because another thread ends the heap at this moment, the
     * span is out of the heap's list already. */
    struct loam_heap *fheap = lm_load_acquire(&page->fheap);
    size_t had = page->bytes;
    void *there = LM_LIKELY(fheap == NULL)
                      ? how(page, p, bytes, true, fresh)
                      : lm_fheap_large_change(fheap, page, p, bytes, fresh, how);
    if (there == NULL) return NULL;
    size_t has = lm_page_of(there)->bytes;
    if (has != had || there != p) lm_bytes_mine(has, had);
    return there;
}

bool lm_large_fit(lm_page_t *page, size_t bytes, size_t *fresh) {
    if (bytes > LM_REQUEST_MOST || LM_TOOLS) return false;
    return large_change(page, lm_span_start(page), bytes, fresh, large_fit) != NULL;
}

#if LM_TOOLS
/* Shows the tool the bytes behind the object, because they become a part of it or of another
 * span. */
bool lm_large_expand(lm_page_t *page, const void *p, size_t bytes) {
    size_t requested = lm_requested(page, p);
    const char *start = lm_span_start(page), *fence = (const char *)p + requested;
    size_t hidden = (size_t)(start + page->bytes - fence);
    if (bytes > LM_REQUEST_MOST) return false;
    lm_tools_show(fence, hidden);
    if (large_change(page, lm_span_start(page), bytes, NULL, large_fit) == NULL) {
        lm_tools_hide(fence, hidden);
        return false;
    }
    lm_word_set(start + page->bytes, requested,
                LM_STATE_USED); /* lm_trailer_write expects this word */
    return true;
}
#endif

void *lm_large_resize_fresh(lm_page_t *page, void *p, size_t bytes, size_t *fresh) {
    if (bytes > LM_REQUEST_MOST || LM_TOOLS) return NULL;
    p = large_change(page, p, bytes, fresh, fit_or_move);
    lm_limit_answer_if_crossed();
    return p;
}

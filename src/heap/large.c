/* large.c: objects of more than 64 KiB, each a span of its own.
 *
 *   [ slice | slice | slice ]     usable: the request rounded up to 4 KiB; the rest stays untouched
 *
 * They belong to no thread: one lock (the arena's) serves them. They grow in place as long as what
 * follows is free, and else move by moving pages (mremap), not bytes. It cannot find an object from a
 * pointer into its middle: only the first slice is in the map.
 */
#include "heap/room.h"

enum {
    UNIT = 4096,       /* usable sizes are multiples of it */
    MOVE_LEAST = 4,    /* slices from which moving pages beats copying */
    MOVES_MOST = 4096, /* objects that may have moved: each is a map entry, and those are few */
};

static size_t slices_for(size_t bytes) { return (bytes + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT; }

/* Makes a span that was just taken an object of so many usable bytes. */
static void *open_at(lm_page_t *page, size_t usable) {
    page->bytes = usable;
    page->block_bytes = 0;
    page->huge = false;
    page->whole = NULL;
    lm_store_relaxed(&page->owner, LM_OWNER_NONE);
    lm_span_map(page, 1, page);
    return lm_span_start(page);
}

/* No lock is held here. */
static LM_COLD lm_page_t *take_of_room_made(size_t usable, size_t align_slices, bool *zero) {
    for (unsigned tries = 0; lm_room_made(usable, &tries);) {
        lm_page_t *page = lm_span_take(slices_for(usable), align_slices, LM_KIND_LARGE, zero);
        if (page != NULL) return page;
    }
    lm_refused(usable, false);
    return NULL;
}

void *lm_large_alloc(size_t bytes, size_t align, bool *zero) {
    /* Relaxed: if this thread has chosen one, it has seen that. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_heaps_chosen))) {
        struct loam_heap *whole = lm_heap_chosen();
        if (whole != NULL) return lm_whole_large_alloc(whole, bytes, align, zero);
    }
    return lm_large_open(bytes, align, zero);
}

void *lm_large_open(size_t bytes, size_t align, bool *zero) {
    if (bytes > LM_REQUEST_MOST || align > LM_REQUEST_MOST) return lm_too_large(bytes);
    LM_METER(slow());
    size_t usable = lm_align_up(bytes == 0 ? 1 : bytes, UNIT);
    size_t align_slices = align <= LM_SLICE_BYTES ? 1 : align >> LM_SLICE_SHIFT;
    lm_page_t *page = lm_span_take(slices_for(usable), align_slices, LM_KIND_LARGE, zero);
    if (LM_UNLIKELY(page == NULL)) {
        page = take_of_room_made(usable, align_slices, zero);
        if (page == NULL) return lm_no_memory();
    }
    void *p = open_at(page, usable);
    /* What is to be zero is often a table that is touched here and there; all else is filled as a rule. */
    if (zero == NULL) lm_span_fill(page, 0, usable);
    return p;
}

void lm_large_free(lm_page_t *page, void *p) {
    if (p != lm_span_start(page)) {
        (void)lm_inside_large(page, p, "free");
        return;
    }
    /* Acquire: who ends that heap at this moment has taken the span out of its list. */
    if (LM_UNLIKELY(lm_load_acquire(&page->whole) != NULL)) lm_whole_lose(page);
    lm_large_discard(page);
}

void lm_large_discard(lm_page_t *page) {
    lm_span_map(page, 1, &lm_nobody);
    lm_span_unfill(page, 0);
    lm_span_give(page, false);
}

static bool worth_moving(const lm_page_t *page) {
    return page->slices >= MOVE_LEAST && page->slices >= lm_peek(&lm_arena.slices) / MOVES_MOST;
}

static void *move(lm_page_t *page, size_t usable) {
    size_t slices = slices_for(usable);
    lm_span_map(page, 1, &lm_nobody);
    lm_span_unfill(page, 0); /* pages of two kinds cannot be moved at once */
    /* Room to grow in: addresses only, until they are used. */
    lm_page_t *target = lm_span_move(page, slices + slices / 4);
    if (target == NULL) {
        lm_span_map(page, 1, page);
        return NULL;
    }
    return open_at(target, usable);
}

/* Returns p, or NULL. */
static void *fit(lm_page_t *page, void *p, size_t bytes) {
    size_t usable = lm_align_up(bytes == 0 ? 1 : bytes, UNIT), slices = slices_for(usable);
    size_t had = page->bytes;
    if (usable <= had) {
        lm_span_unfill(page, slices);
        lm_span_shrink(page, slices);
    } else if (slices > page->slices && !lm_span_extend(page, slices)) {
        return NULL;
    }
    page->bytes = usable;
    if (usable > had) lm_span_fill(page, had, usable);
    return p;
}

static void *fit_or_move(lm_page_t *page, void *p, size_t bytes) {
    if (fit(page, p, bytes) != NULL) return p;
    if (!worth_moving(page)) return NULL;
    size_t usable = lm_align_up(bytes, UNIT);
    p = move(page, usable);
    if (p != NULL) lm_span_fill(lm_page_of(p), 0, usable);
    return p;
}

/* The same with one of a first-class heap's, within its limit. */
static LM_NOINLINE void *counted(struct loam_heap *whole, lm_page_t *page, void *p, size_t bytes,
                                 void *(*change)(lm_page_t *page, void *p, size_t bytes)) {
    size_t slices = slices_for(bytes);
    lm_whole_lose(page);
    bool allowed = lm_whole_count(whole, slices);
    void *there = allowed ? change(page, p, bytes) : NULL;
    if (allowed) lm_whole_uncount(whole, slices);
    lm_whole_gain(whole, there != NULL ? lm_page_of(there) : page);
    return there;
}

bool lm_large_fit(lm_page_t *page, size_t bytes) {
    if (bytes > LM_REQUEST_MOST) return false;
    void *p = lm_span_start(page);
    struct loam_heap *whole = lm_load_acquire(&page->whole); /* as in free */
    return (LM_LIKELY(whole == NULL) ? fit(page, p, bytes) : counted(whole, page, p, bytes, fit)) !=
           NULL;
}

void *lm_large_resize(lm_page_t *page, void *p, size_t bytes) {
    if (bytes > LM_REQUEST_MOST) return NULL;
    struct loam_heap *whole = lm_load_acquire(&page->whole); /* as in free */
    return LM_LIKELY(whole == NULL) ? fit_or_move(page, p, bytes)
                                    : counted(whole, page, p, bytes, fit_or_move);
}

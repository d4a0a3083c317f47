/* fheap_alloc.c: allocates, counts and limits objects of first-class heaps (fheap.h has the
 * drawing).
 *
 *   loam_heap_malloc ── last_fheap == the heap? ── last_branch->head[class] ── pop
 *                           │ no
 *                           └── this thread's branch; or one without a thread, or a new one
 *                               (branch.c)
 *
 * Limits are checked only where a page or a large object is taken from the arena. So they cannot
 * count blocks: they count slices.
 * Invariant: see fheap.h.
 */
#include "fheap/fheap.h"

#include <errno.h>
#include <string.h>

/* ---- What is used, and how much may be ---- */

/* Relaxed, all in this section: numbers on which no other memory depends. */

/* Counts slices within the hard limit. Returns false iff the limit forbids them. Does not test the
 * soft limit: slices beyond the need cause no call of the program. Others may meanwhile see them as
 * used (lm_whole_count), and so in the peak. */
static bool reserve(struct loam_heap *whole, size_t slices, size_t *now) {
    size_t bytes = slices << LM_SLICE_SHIFT, used = lm_load_relaxed(&whole->used);
    do {
        *now = used + bytes;
        if (slices > 0 && *now > lm_load_relaxed(&whole->hard)) return false;
    } while (!lm_cas_weak_relaxed(&whole->used, &used, *now));
    return true;
}

/* Updates the peak and the soft limit's state after `used` has grown by `bytes` bytes. */
static void note(struct loam_heap *whole, size_t used, size_t bytes) {
    if (used > lm_load_relaxed(&whole->most)) lm_store_relaxed(&whole->most, used);
    size_t soft = lm_load_relaxed(&whole->soft);
    if (used > soft && used - bytes <= soft) lm_store_relaxed(&whole->crossed, true);
}

bool lm_whole_count(struct loam_heap *whole, size_t slices) {
    size_t used;
    if (!reserve(whole, slices, &used)) return false;
    note(whole, used, slices << LM_SLICE_SHIFT);
    return true;
}

void lm_whole_uncount(struct loam_heap *whole, size_t slices) {
    (void)lm_add_relaxed(&whole->used, (size_t)0 - (slices << LM_SLICE_SHIFT));
}

void lm_whole_page_goes(struct loam_heap *whole, const lm_page_t *page) {
    lm_whole_uncount(whole, page->slices);
    /* Relaxed: only statistics read it. */
    if (whole->handed != NULL)
        (void)lm_add_relaxed(&whole->handed[page->size_class], page->carved + page->again);
}

bool lm_whole_is_limited(const struct loam_heap *whole) {
    return lm_load_relaxed(&whole->hard) != SIZE_MAX; /* relaxed: the limit stands alone */
}

bool lm_whole_in_range(const struct loam_heap *whole) { return whole->arena != NULL; }

/* Calls the program's function if the soft limit was crossed. No lock is held: the function may
 * allocate and free. */
static void tell(struct loam_heap *whole) {
    if (!lm_exchange_acquire(&whole->crossed, false)) return;
    if (whole->told != NULL) whole->told(whole, lm_load_relaxed(&whole->used), whole->context);
}

/* Puts a large object into the heap's list. `counted` of its slices are counted already; it had
 * `before` slices before it was resized. Heap's lock held. */
static void gain(struct loam_heap *whole, lm_page_t *page, size_t counted, size_t before) {
    size_t slices = lm_large_slices(page), more = (slices - counted) << LM_SLICE_SHIFT;
    size_t used = lm_add_relaxed(&whole->used, more) + more;
    if (slices > before) note(whole, used, (slices - before) << LM_SLICE_SHIFT);
    page->whole = whole;
    lm_list_add_last(&whole->large, &page->link);
}

void lm_whole_lose(lm_page_t *page) {
    /* Acquire: pairs with the release store in lm_whole_delete. lm_large_free may have seen a heap
     * that is gone by now. */
    struct loam_heap *whole = lm_load_acquire(&page->whole);
    if (whole == NULL) return;
    lm_lock_take(&whole->lock);
    if (page->whole == whole) { /* the heap may have been deleted just now */
        lm_list_remove(&whole->large, &page->link);
        lm_store_relaxed(&page->whole, NULL);
        /* Under the lock: once the lock is free, another heap may be in this place. */
        lm_whole_uncount(whole, lm_large_slices(page));
    }
    lm_lock_give(&whole->lock);
}

/* Takes a large object out of the heap's list; it stays counted. Returns false iff the heap has
 * been deleted meanwhile. */
static bool borrow(struct loam_heap *whole, lm_page_t *page, uint64_t *life) {
    lm_lock_take(&whole->lock);
    bool ours = page->whole == whole;
    if (ours) lm_list_remove(&whole->large, &page->link);
    if (ours) lm_store_relaxed(&page->whole, NULL);
    *life = whole->life;
    lm_lock_give(&whole->lock);
    return ours;
}

/* Counts slices unless the heap has ended: another heap in its place is not charged. */
static bool reserve_in(struct loam_heap *whole, uint64_t life, size_t slices) {
    lm_lock_take(&whole->lock);
    size_t used;
    bool allowed = whole->life != life || reserve(whole, slices, &used);
    lm_lock_give(&whole->lock);
    return allowed;
}

static void give_back(struct loam_heap *whole, uint64_t life, lm_page_t *page, size_t counted,
                      size_t before, size_t had) {
    lm_lock_take(&whole->lock);
    if (whole->life == life) {
        /* Relaxed: only statistics read it. */
        if (page->bytes > had) (void)lm_add_relaxed(&whole->large_bytes_total, page->bytes - had);
        gain(whole, page, counted, before);
    }
    lm_lock_give(&whole->lock);
}

void *lm_whole_large_change(struct loam_heap *whole, lm_page_t *page, void *p, size_t bytes,
                            size_t *fresh, lm_large_change_t *change) {
    size_t had = page->bytes, before = lm_large_slices(page);
    size_t need = (bytes + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
    uint64_t life;
    if (!borrow(whole, page, &life)) return change(page, p, bytes, true, fresh);
    size_t more = need > before ? need - before : 0;
    /* lm_large_move requests a quarter more; rounding may add two slices. */
    size_t roomy = bytes > had ? more + need / 4 + 2 : 0;
    /* Not near the limit: no allocation may fail for slices that are not used in the end. */
    size_t left = lm_load_relaxed(&whole->hard) - lm_load_relaxed(&whole->used);
    bool rooms = roomy <= left >> LM_SLICE_SHIFT >> 1 && reserve_in(whole, life, roomy);
    bool allowed = rooms || reserve_in(whole, life, more);
    if (!allowed) {
        lm_whole_collect(whole);
        allowed = reserve_in(whole, life, more);
    }
    void *there = allowed ? change(page, p, bytes, rooms, fresh) : NULL;
    if (there != NULL) page = lm_page_of(there);
    size_t counted = before + (rooms ? roomy : allowed ? more : 0);
    give_back(whole, life, page, counted, before, had);
    tell(whole);
    return there;
}

bool lm_whole_limit(struct loam_heap *whole, size_t soft, size_t hard, loam_heap_told *told,
                    void *context) {
    if (soft == 0) soft = SIZE_MAX;
    if (hard == 0) hard = SIZE_MAX;
    if (soft > hard && soft != SIZE_MAX) return false;
    whole->told = told;
    whole->context = context;
    lm_store_relaxed(&whole->soft, soft);
    lm_store_relaxed(&whole->hard, hard);
    lm_store_relaxed(&whole->crossed, lm_load_relaxed(&whole->used) > soft);
    return true;
}

void lm_whole_numbers(const struct loam_heap *whole, loam_heap_numbers *numbers) {
    numbers->committed_bytes = lm_load_relaxed(&whole->used);
    numbers->committed_bytes_most = lm_load_relaxed(&whole->most);
    numbers->soft_limit = lm_load_relaxed(&whole->soft);
    numbers->hard_limit = lm_load_relaxed(&whole->hard);
}

/* ---- Memory of a range ---- */

lm_page_t *lm_whole_take(const struct loam_heap *whole, size_t slices, size_t align_slices,
                         bool *zero) {
    lm_page_t *span = lm_range_take(whole->arena, slices, align_slices, LM_KIND_LARGE, zero);
    if (span == NULL && lm_tools_let_go())
        span = lm_range_take(whole->arena, slices, align_slices, LM_KIND_LARGE, zero);
    return span == NULL && whole->spills ? lm_span_take(slices, align_slices, LM_KIND_LARGE, zero)
                                         : span;
}

lm_page_t *lm_whole_take_page(const struct loam_heap *whole, size_t slices, size_t block_bytes,
                              bool crowded, bool *zero) {
    lm_page_t *span = lm_range_take_page(whole->arena, slices, block_bytes, zero);
    if (span == NULL && lm_tools_let_go())
        span = lm_range_take_page(whole->arena, slices, block_bytes, zero);
    return span == NULL && whole->spills ? lm_span_take_page(slices, block_bytes, crowded, zero)
                                         : span;
}

/* ---- Allocation ---- */

/* Refills the branch. If that fails within a limit or a range, it collects the heap and tries
 * again. */
static void *refill(lm_heap_t *branch, unsigned size_class) {
    struct loam_heap *whole = branch->fheap.fheap;
    void *block = lm_heap_refill(branch, size_class);
    if (block == NULL && (whole->arena != NULL || lm_load_relaxed(&whole->hard) != SIZE_MAX)) {
        lm_whole_collect(whole);
        block = lm_heap_refill(branch, size_class);
    }
    tell(whole);
    return block;
}

void *lm_branch_alloc(lm_heap_t *branch, unsigned size_class) {
    lm_block_t *block = branch->head[size_class];
    if (block == NULL) return refill(branch, size_class);
    branch->head[size_class] = lm_link_get(block);
    return block;
}

/* Allocates a block for a thread whose own heap has ended. */
static void *alloc_late(struct loam_heap *whole, unsigned size_class) {
    lm_heap_t *late = lm_branch_late(whole);
    if (late == NULL) return NULL;
    lm_lock_take(&whole->late_lock);
    void *block = lm_heap_refill(late, size_class);
    lm_lock_give(&whole->late_lock);
    tell(whole);
    return block;
}

/* Only slow paths ask: no thread has an ended heap as the heap that it used last. */
bool lm_whole_serves(const struct loam_heap *whole) {
    if (LM_LIKELY(whole != NULL && lm_load_relaxed(&whole->state) == LM_WHOLE_ALIVE)) return true;
    (void)lm_whole_alive(whole, "malloc");
    errno = EINVAL;
    return false;
}

void *lm_whole_large_alloc(struct loam_heap *whole, size_t bytes, size_t align, bool *zero) {
    if (LM_UNLIKELY(!lm_whole_serves(whole))) return NULL;
    if (bytes > LM_REQUEST_MOST) return lm_too_large(bytes);
    size_t slices = (bytes + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
    if (slices == 0) slices = 1;
    bool allowed = lm_whole_count(whole, slices);
    if (!allowed) {
        lm_whole_collect(whole);
        allowed = lm_whole_count(whole, slices);
    }
    for (unsigned tries = 0; LM_UNLIKELY(!allowed) && lm_room_found(bytes, &tries);)
        allowed = lm_whole_count(whole, slices);
    if (!allowed) lm_refused(bytes, false);
    void *p = allowed ? lm_large_open(whole, bytes, align, zero) : lm_no_memory();
    if (p != NULL) {
        /* Relaxed, both: only statistics read them. */
        (void)lm_add_relaxed(&whole->large_total, 1);
        (void)lm_add_relaxed(&whole->large_bytes_total, lm_page_of(p)->bytes);
        lm_lock_take(&whole->lock);
        gain(whole, lm_page_of(p), slices, slices);
        lm_lock_give(&whole->lock);
    } else if (allowed) {
        lm_whole_uncount(whole, slices);
    }
    tell(whole);
    return p;
}

static void *attempt(struct loam_heap *whole, unsigned size_class) {
    if (lm_heap_get() == NULL) return alloc_late(whole, size_class);
    lm_heap_t *branch = lm_branch_of(whole, lm_heap_mine());
    return branch != NULL ? lm_branch_alloc(branch, size_class) : NULL;
}

static LM_NOINLINE void *alloc_slow(struct loam_heap *whole, size_t need) {
    if (need > LM_BLOCK_MOST) return lm_whole_large_alloc(whole, lm_large_need(need), 1, NULL);
    if (LM_UNLIKELY(!lm_whole_serves(whole))) return NULL;
    LM_METER(slow());
    lm_beat_if_asked();
    unsigned size_class = lm_class_of(need == 0 ? 1 : need);
    void *block = attempt(whole, size_class);
    for (unsigned tries = 0; LM_UNLIKELY(block == NULL) && lm_room_found(need, &tries);)
        block = attempt(whole, size_class);
    lm_limit_answer_if_crossed();
    if (LM_LIKELY(block != NULL)) return block;
    lm_refused(need, false);
    return lm_no_memory();
}

/* Returns NULL iff the branch used last is not that heap's, or has no block ready. */
LM_INLINE lm_block_t *pop(const struct loam_heap *whole, size_t size_class) {
    const lm_heap_t *self = lm_heap_self;
    if (LM_UNLIKELY(lm_load_relaxed(&self->fheap.last_fheap) != whole)) return NULL;
    lm_heap_t *branch = self->fheap.last_branch;
    lm_block_t *block = branch->head[size_class];
    LM_IN_RETURN_REGISTER(block);
    if (LM_LIKELY(block != NULL)) branch->head[size_class] = lm_link_get(block);
    return block;
}

/* As lm_block_alloc, from the heap. */
LM_INLINE void *alloc(struct loam_heap *whole, size_t need) {
    if (LM_LIKELY(need <= LM_SMALL_MOST)) {
        lm_block_t *block = pop(whole, lm_class_small(need));
        if (LM_LIKELY(block != NULL)) return lm_taken(block);
    } else if (LM_LIKELY(need <= LM_BLOCK_MOST)) {
        lm_block_t *block = pop(whole, lm_class_medium(need));
        if (LM_LIKELY(block != NULL)) return lm_taken(block);
    }
    return lm_taken(alloc_slow(whole, need));
}

void *lm_whole_malloc(struct loam_heap *whole, size_t bytes) {
    /* Without a trailer, the allocation of large objects refuses what is too large. */
    if (LM_TRAILER != 0 && LM_UNLIKELY(bytes > LM_REQUEST_MOST - LM_TRAILER))
        return lm_too_large(bytes);
    void *p = alloc(whole, bytes + LM_TRAILER);
    return LM_LIKELY(p != NULL) ? lm_mark_new(p, bytes) : NULL;
}

void *lm_whole_calloc(struct loam_heap *whole, size_t bytes) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    size_t need = bytes + LM_TRAILER;
    bool zero = false;
    void *p = need > LM_BLOCK_MOST ? lm_whole_large_alloc(whole, lm_large_need(need), 1, &zero)
                                   : alloc(whole, need);
    if (p == NULL) return NULL;
    const lm_page_t *page = lm_page_of(p);
    /* recalloc relies on zeros in all usable bytes. */
    size_t written = lm_to_clear(page, p, bytes, true);
    if (zero) written = 0;
    if (page->kind == LM_KIND_PAGE && lm_peek(&page->owner) == lm_thread_token() &&
        lm_page_virgin(lm_load_relaxed(&page->heap), page))
        written = sizeof(lm_block_t); /* a block that was never used: only the link is not zero */
    return lm_mark(lm_clear_large(p, written), bytes);
}

void *lm_whole_malloc_aligned(struct loam_heap *whole, size_t bytes, size_t align) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER || align > LM_REQUEST_MOST - bytes)
        return lm_too_large_at(bytes, align);
    size_t need = bytes + LM_TRAILER;
    unsigned size_class = align <= LM_BLOCK_MOST ? lm_class_aligned(need, align) : 0;
    void *p = size_class != 0 ? alloc(whole, lm_class_bytes(size_class))
                              : lm_whole_large_alloc(whole, lm_large_need(need), align, NULL);
    return p != NULL ? lm_mark_new(p, bytes) : NULL;
}

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
 * used (lm_fheap_count), and so in the peak. */
static bool fheap_reserve(struct loam_heap *fheap, size_t slices, size_t *now) {
    size_t bytes = slices << LM_SLICE_SHIFT, used = lm_load_relaxed(&fheap->used);
    do {
        *now = used + bytes;
        LM_ASSERT(*now >= used);
        if (slices > 0 && *now > lm_load_relaxed(&fheap->hard)) return false;
    } while (!lm_cas_weak_relaxed(&fheap->used, &used, *now));
    return true;
}

/* Updates the peak and the soft limit's state after `used` has grown by `bytes` bytes. */
static void fheap_note(struct loam_heap *fheap, size_t used, size_t bytes) {
    LM_ASSERT(used >= bytes);
    if (used > lm_load_relaxed(&fheap->most)) lm_store_relaxed(&fheap->most, used);
    size_t soft = lm_load_relaxed(&fheap->soft);
    if (used > soft && used - bytes <= soft) lm_store_relaxed(&fheap->crossed, true);
}

bool lm_fheap_count(struct loam_heap *fheap, size_t slices) {
    size_t used;
    if (!fheap_reserve(fheap, slices, &used)) return false;
    fheap_note(fheap, used, slices << LM_SLICE_SHIFT);
    return true;
}

void lm_fheap_uncount(struct loam_heap *fheap, size_t slices) {
    LM_ASSERT(lm_load_relaxed(&fheap->used) >= slices << LM_SLICE_SHIFT);
    (void)lm_add_relaxed(&fheap->used, (size_t)0 - (slices << LM_SLICE_SHIFT));
}

void lm_fheap_page_goes(struct loam_heap *fheap, const lm_page_t *page) {
    lm_fheap_uncount(fheap, page->slices);
    /* Relaxed: only statistics read it. */
    if (fheap->handed != NULL)
        (void)lm_add_relaxed(&fheap->handed[page->size_class], page->carved + page->reused_total);
}

bool lm_fheap_is_limited(const struct loam_heap *fheap) {
    return lm_load_relaxed(&fheap->hard) != SIZE_MAX; /* relaxed: the limit stands alone */
}

bool lm_fheap_in_range(const struct loam_heap *fheap) { return fheap->arena != NULL; }

/* Calls the program's function if the soft limit was crossed. No lock is held: the function may
 * allocate and free. */
static void fheap_tell(struct loam_heap *fheap) {
    if (!lm_exchange_acquire(&fheap->crossed, false)) return;
    if (fheap->told != NULL) fheap->told(fheap, lm_load_relaxed(&fheap->used), fheap->context);
}

/* Puts a large object into the heap's list. `counted` of its slices are counted already; it had
 * `before` slices before it was resized. */
static void gain(struct loam_heap *fheap, lm_page_t *page, size_t counted, size_t before) {
    LM_ASSERT(lm_lock_held(&fheap->lock));
    size_t slices = lm_large_slices(page), more = (slices - counted) << LM_SLICE_SHIFT;
    size_t used = lm_add_relaxed(&fheap->used, more) + more;
    if (slices > before) fheap_note(fheap, used, (slices - before) << LM_SLICE_SHIFT);
    page->fheap = fheap;
    lm_list_add_last(&fheap->large, &page->link);
}

void lm_fheap_lose(lm_page_t *page) {
    /* Acquire: pairs with the release store in lm_fheap_delete. lm_large_free may have seen a heap
     * that is gone by now. */
    struct loam_heap *fheap = lm_load_acquire(&page->fheap);
    if (fheap == NULL) return;
    lm_lock_take(&fheap->lock);
    if (page->fheap == fheap) { /* the heap may have been deleted just now */
        lm_list_remove(&fheap->large, &page->link);
        lm_store_relaxed(&page->fheap, NULL);
        /* Under the lock: once the lock is free, another heap may be in this place. */
        lm_fheap_uncount(fheap, lm_large_slices(page));
    }
    lm_lock_give(&fheap->lock);
}

/* Takes a large object out of the heap's list; it stays counted. Returns false iff the heap has
 * been deleted meanwhile. */
static bool fheap_borrow(struct loam_heap *fheap, lm_page_t *page, uint64_t *life) {
    lm_lock_take(&fheap->lock);
    bool ours = page->fheap == fheap;
    if (ours) lm_list_remove(&fheap->large, &page->link);
    if (ours) lm_store_relaxed(&page->fheap, NULL);
    *life = fheap->life;
    lm_lock_give(&fheap->lock);
    return ours;
}

/* Counts slices unless the heap has ended: another heap in its place is not charged. */
static bool reserve_in(struct loam_heap *fheap, uint64_t life, size_t slices) {
    lm_lock_take(&fheap->lock);
    size_t used;
    bool allowed = fheap->life != life || fheap_reserve(fheap, slices, &used);
    lm_lock_give(&fheap->lock);
    return allowed;
}

/* Puts an object that was borrowed back into the heap's list, unless the heap has ended. If another
 * thread has freed the object meanwhile, a mistake of the program, the span is no longer the
 * heap's: it may be in a list of free spans. So the object is out of the map while it is put back,
 * as only one thread can take it out. */
static void fheap_give_back(struct loam_heap *fheap, uint64_t life, lm_page_t *page, size_t counted,
                            size_t before, size_t had) {
    lm_lock_take(&fheap->lock);
    if (fheap->life == life && LM_UNLIKELY(!lm_span_unmap(page))) {
        lm_fheap_uncount(fheap, counted);
    } else if (fheap->life == life) {
        /* Relaxed: only statistics read it. */
        if (page->bytes > had) (void)lm_add_relaxed(&fheap->large_bytes_total, page->bytes - had);
        gain(fheap, page, counted, before);
        lm_span_map(page, 1, page);
    }
    lm_lock_give(&fheap->lock);
}

void *lm_fheap_large_change(struct loam_heap *fheap, lm_page_t *page, void *p, size_t bytes,
                            size_t *fresh, lm_large_change_t *change) {
    LM_ASSERT(bytes <= LM_REQUEST_MOST);
    size_t had = page->bytes, before = lm_large_slices(page);
    size_t need = (bytes + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
    uint64_t life;
    if (!fheap_borrow(fheap, page, &life)) return change(page, p, bytes, true, fresh);
    size_t more = need > before ? need - before : 0;
    /* lm_large_move requests a quarter more; rounding may add two slices. */
    size_t roomy = bytes > had ? more + need / 4 + 2 : 0;
    /* Not near the limit: no allocation may fail for slices that are not used in the end. */
    size_t left = lm_load_relaxed(&fheap->hard) - lm_load_relaxed(&fheap->used);
    bool rooms = roomy <= left >> LM_SLICE_SHIFT >> 1 && reserve_in(fheap, life, roomy);
    bool allowed = rooms || reserve_in(fheap, life, more);
    if (!allowed) {
        lm_fheap_collect(fheap);
        allowed = reserve_in(fheap, life, more);
    }
    void *there = allowed ? change(page, p, bytes, rooms, fresh) : NULL;
    if (there != NULL) page = lm_page_of(there);
    size_t counted = before + (rooms ? roomy : allowed ? more : 0);
    fheap_give_back(fheap, life, page, counted, before, had);
    fheap_tell(fheap);
    return there;
}

bool lm_fheap_limit(struct loam_heap *fheap, size_t soft, size_t hard, loam_heap_told *told,
                    void *context) {
    if (soft == 0) soft = SIZE_MAX;
    if (hard == 0) hard = SIZE_MAX;
    if (soft > hard && soft != SIZE_MAX) return false;
    fheap->told = told;
    fheap->context = context;
    lm_store_relaxed(&fheap->soft, soft);
    lm_store_relaxed(&fheap->hard, hard);
    lm_store_relaxed(&fheap->crossed, lm_load_relaxed(&fheap->used) > soft);
    return true;
}

void lm_fheap_numbers(const struct loam_heap *fheap, loam_heap_numbers *numbers) {
    numbers->committed_bytes = lm_load_relaxed(&fheap->used);
    numbers->committed_bytes_most = lm_load_relaxed(&fheap->most);
    numbers->soft_limit = lm_load_relaxed(&fheap->soft);
    numbers->hard_limit = lm_load_relaxed(&fheap->hard);
}

/* ---- Memory of a range ---- */

lm_page_t *lm_fheap_take(const struct loam_heap *fheap, size_t slices, size_t align_slices,
                         bool *zero) {
    LM_ASSERT(fheap->arena != NULL && slices > 0);
    lm_page_t *span = lm_range_take(fheap->arena, slices, align_slices, LM_KIND_LARGE, zero);
    if (span == NULL && lm_tools_let_go())
        span = lm_range_take(fheap->arena, slices, align_slices, LM_KIND_LARGE, zero);
    return span == NULL && fheap->spills ? lm_span_take(slices, align_slices, LM_KIND_LARGE, zero)
                                         : span;
}

lm_page_t *lm_fheap_take_page(const struct loam_heap *fheap, size_t slices, size_t block_bytes,
                              bool crowded, bool *zero) {
    LM_ASSERT(fheap->arena != NULL && slices > 0);
    lm_page_t *span = lm_range_take_page(fheap->arena, slices, block_bytes, zero);
    if (span == NULL && lm_tools_let_go())
        span = lm_range_take_page(fheap->arena, slices, block_bytes, zero);
    return span == NULL && fheap->spills ? lm_span_take_page(slices, block_bytes, crowded, zero)
                                         : span;
}

/* ---- Allocation ---- */

/* Refills the branch. If that fails within a limit or a range, it collects the heap and tries
 * again. */
static void *fheap_refill(lm_theap_t *branch, unsigned size_class) {
    LM_ASSERT(size_class > 0 && size_class < LM_CLASSES);
    struct loam_heap *fheap = branch->fheap.fheap;
    void *block = lm_heap_refill(branch, size_class);
    if (block == NULL && (fheap->arena != NULL || lm_load_relaxed(&fheap->hard) != SIZE_MAX)) {
        lm_fheap_collect(fheap);
        block = lm_heap_refill(branch, size_class);
    }
    fheap_tell(fheap);
    return block;
}

void *lm_branch_alloc(lm_theap_t *branch, unsigned size_class) {
    lm_block_t *block = branch->head[size_class];
    if (block == NULL) return fheap_refill(branch, size_class);
    branch->head[size_class] = lm_link_get(block);
    return block;
}

/* Allocates a block for a thread whose own heap has ended. */
static void *alloc_late(struct loam_heap *fheap, unsigned size_class) {
    lm_theap_t *late = lm_branch_late(fheap);
    if (late == NULL) return NULL;
    lm_lock_take(&fheap->late_lock);
    void *block = lm_heap_refill(late, size_class);
    lm_lock_give(&fheap->late_lock);
    fheap_tell(fheap);
    return block;
}

/* Only slow paths ask: no thread has an ended heap as the heap that it used last. */
bool lm_fheap_serves(const struct loam_heap *fheap) {
    if (LM_LIKELY(fheap != NULL && lm_load_relaxed(&fheap->state) == LM_FHEAP_ALIVE)) return true;
    (void)lm_fheap_alive(fheap, "malloc");
    errno = EINVAL;
    return false;
}

void *lm_fheap_large_alloc(struct loam_heap *fheap, size_t bytes, size_t align, bool *zero) {
    if (LM_UNLIKELY(!lm_fheap_serves(fheap))) return NULL;
    if (bytes > LM_REQUEST_MOST) return lm_too_large(bytes);
    size_t slices = (bytes + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
    if (slices == 0) slices = 1;
    bool allowed = lm_fheap_count(fheap, slices);
    if (!allowed) {
        lm_fheap_collect(fheap);
        allowed = lm_fheap_count(fheap, slices);
    }
    for (unsigned tries = 0; LM_UNLIKELY(!allowed) && lm_memory_found(bytes, &tries);)
        allowed = lm_fheap_count(fheap, slices);
    if (!allowed) lm_refused(bytes, false);
    void *p = allowed ? lm_large_open(fheap, bytes, align, zero) : lm_no_memory();
    if (p != NULL) {
        /* Relaxed, both: only statistics read them. */
        (void)lm_add_relaxed(&fheap->large_total, 1);
        (void)lm_add_relaxed(&fheap->large_bytes_total, lm_page_of(p)->bytes);
        lm_lock_take(&fheap->lock);
        gain(fheap, lm_page_of(p), slices, slices);
        lm_lock_give(&fheap->lock);
    } else if (allowed) {
        lm_fheap_uncount(fheap, slices);
    }
    fheap_tell(fheap);
    return p;
}

static void *fheap_attempt(struct loam_heap *fheap, unsigned size_class) {
    if (lm_heap_get() == NULL) return alloc_late(fheap, size_class);
    lm_theap_t *branch = lm_branch_of(fheap, lm_heap_mine());
    return branch != NULL ? lm_branch_alloc(branch, size_class) : NULL;
}

static LM_NOINLINE void *alloc_slow(struct loam_heap *fheap, size_t need) {
    if (need > LM_BLOCK_MOST) return lm_fheap_large_alloc(fheap, lm_large_need(need), 1, NULL);
    if (LM_UNLIKELY(!lm_fheap_serves(fheap))) return NULL;
    LM_METER(slow());
    lm_heartbeat_if_asked();
    unsigned size_class = lm_class_of(need == 0 ? 1 : need);
    void *block = fheap_attempt(fheap, size_class);
    for (unsigned tries = 0; LM_UNLIKELY(block == NULL) && lm_memory_found(need, &tries);)
        block = fheap_attempt(fheap, size_class);
    lm_limit_answer_if_crossed();
    if (LM_LIKELY(block != NULL)) return block;
    lm_refused(need, false);
    return lm_no_memory();
}

/* Returns NULL iff the branch used last is not that heap's, or has no block ready. */
LM_INLINE lm_block_t *fheap_pop(const struct loam_heap *fheap, size_t size_class) {
    const lm_theap_t *self = lm_heap_self;
    if (LM_UNLIKELY(lm_load_relaxed(&self->fheap.last_fheap) != fheap)) return NULL;
    lm_theap_t *branch = self->fheap.last_branch;
    LM_ASSERT(lm_load_relaxed(&branch->fheap.fheap) == fheap);
    lm_block_t *block = branch->head[size_class];
    LM_IN_RETURN_REGISTER(block);
    if (LM_LIKELY(block != NULL)) branch->head[size_class] = lm_link_get(block);
    return block;
}

/* As lm_block_alloc, from the heap. */
LM_INLINE void *fheap_alloc(struct loam_heap *fheap, size_t need) {
    if (LM_LIKELY(need <= LM_SMALL_MOST)) {
        lm_block_t *block = fheap_pop(fheap, lm_class_small(need));
        if (LM_LIKELY(block != NULL)) return lm_taken(block);
    } else if (LM_LIKELY(need <= LM_BLOCK_MOST)) {
        lm_block_t *block = fheap_pop(fheap, lm_class_medium(need));
        if (LM_LIKELY(block != NULL)) return lm_taken(block);
    }
    return lm_taken(alloc_slow(fheap, need));
}

void *lm_fheap_malloc(struct loam_heap *fheap, size_t bytes) {
    /* Without a trailer, the allocation of large objects refuses what is too large. */
    if (LM_TRAILER != 0 && LM_UNLIKELY(bytes > LM_REQUEST_MOST - LM_TRAILER))
        return lm_too_large(bytes);
    void *p = fheap_alloc(fheap, bytes + LM_TRAILER);
    return LM_LIKELY(p != NULL) ? lm_trailer_write_new(p, bytes) : NULL;
}

void *lm_fheap_calloc(struct loam_heap *fheap, size_t bytes) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    size_t need = bytes + LM_TRAILER;
    bool zero = false;
    void *p = need > LM_BLOCK_MOST ? lm_fheap_large_alloc(fheap, lm_large_need(need), 1, &zero)
                                   : fheap_alloc(fheap, need);
    if (p == NULL) return NULL;
    const lm_page_t *page = lm_page_of(p);
    /* recalloc relies on zeros in all usable bytes. */
    size_t written = lm_to_clear(page, p, bytes, true);
    if (zero) written = 0;
    if (page->kind == LM_KIND_PAGE && lm_peek(&page->owner) == lm_thread_token() &&
        lm_page_never_used(lm_load_relaxed(&page->heap), page))
        written = sizeof(lm_block_t); /* a block that was never used: only the link is not zero */
    return lm_trailer_write(lm_clear_large(p, written), bytes);
}

void *lm_fheap_malloc_aligned(struct loam_heap *fheap, size_t bytes, size_t align) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER || align > LM_REQUEST_MOST - bytes)
        return lm_too_large_at(bytes, align);
    size_t need = bytes + LM_TRAILER;
    unsigned size_class = align <= LM_BLOCK_MOST ? lm_class_aligned(need, align) : 0;
    void *p = size_class != 0 ? fheap_alloc(fheap, lm_class_bytes(size_class))
                              : lm_fheap_large_alloc(fheap, lm_large_need(need), align, NULL);
    return p != NULL ? lm_trailer_write_new(p, bytes) : NULL;
}

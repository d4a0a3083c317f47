/* page.c: the life of a page, as its heap sees it.
 *
 *            create                 exhausted                first frees
 *   arena ───────────> current ─────────────────> full ─────────────────> partial
 *     ^                   ^ └──────── chosen again ───────────────────────┘  │
 *     └───────────────────┴───────────── every block is back ────────────────┘
 *
 * Where a page has few blocks, one empty page a class stays, as a partial one: it is vacant. A
 * program with a dozen objects of 20 KiB would otherwise give a page back and take it again with
 * every few of them. Vacant pages go when the heap has given a quarter of its pages back, and while
 * its thread sleeps.
 *
 * A full page is left alone until a quarter of its blocks are back, 16 at most: `live` is set that
 * low and `bias` holds the rest, so that free() needs one counter for both "wake up" and "empty".
 * So a refill finds several blocks, not one. Before memory is taken anew, it looks for fewer
 * (awake_early).
 *
 * It cannot return a page of which one block is in use, nor purge parts of it.
 */
#include "heap/core.h"

enum {
    CARVE_LEAST = 512, /* bytes, as the next two */
    CARVE_MOST = 4096,
    VACANT_LEAST = 2048, /* larger blocks are few in a page */
    VACANT_FEW = 3,      /* a heap with no more vacant pages than that does not shrink by them */
    WAKE_MOST = 16,
};

LM_INLINE lm_page_t *take(const lm_heap_t *heap, size_t slices, size_t block_bytes, bool crowded,
                          bool *zero) {
    if (LM_UNLIKELY(lm_whole_has_range(heap->fheap.fheap)))
        return lm_whole_take_page(heap->fheap.fheap, slices, block_bytes, crowded, zero);
    return lm_span_take_page(slices, block_bytes, crowded, zero);
}

#if LM_SECURE
/* A page that cannot be used comes and goes, with nothing in it. */
static LM_COLD lm_page_t *give_up(lm_page_t *page) {
    page->size_class = 0;
    page->carved = page->capacity = 0;
    lm_count_page(page);
    lm_span_give(page, false);
    return NULL;
}
#endif

static lm_page_t *create(lm_heap_t *heap, unsigned size_class) {
    size_t block_bytes = lm_class_bytes(size_class), slices = lm_class_slices(block_bytes);
    bool zero;
    lm_page_t *page = take(heap, slices, block_bytes, heap->full[size_class].first != NULL, &zero);
    if (page == NULL) return NULL;
    slices = page->slices;
#if LM_GUARD_LINKS
    lm_secret_make();
    lm_store_relaxed(&page->raw, false); /* relaxed: it is not in the map */
#endif
#if LM_SECURE
    lm_secure_class(size_class, block_bytes);
    size_t bytes = lm_span_mark(page);
    if (LM_UNLIKELY(bytes == 0)) return give_up(page);
    zero = lm_secure_page_begin(page, size_class, zero);
#else
    size_t bytes = slices << LM_SLICE_SHIFT;
#endif
    page->free = NULL;
    page->live = 0;
    page->bias = 0;
    page->block_bytes = (uint32_t)block_bytes;
    page->carved = 0;
    page->capacity = (uint16_t)(bytes / block_bytes);
    page->size_class = (uint8_t)size_class;
    page->foreign_class = (uint8_t)size_class;
    page->place = LM_AT_NOWHERE;
    page->fresh = zero;
    page->link = (lm_node_t){NULL, NULL};
    page->heap = heap;
    lm_count_page(page);
    page->notified = NULL;
    lm_store_relaxed(&page->remote, 0);
    lm_fence_page(page);
    lm_store_relaxed(&page->owner, heap->token);
    lm_span_map(page, slices, page);
    LM_PROBE2(page_create, lm_span_start(page), block_bytes);
    heap->pages++;
    if (heap->trim_at < heap->pages / 2) heap->trim_at = heap->pages / 2;
    return page;
}

/* A first-class heap's, within its limit. */
static LM_NOINLINE lm_page_t *create_counted(lm_heap_t *heap, unsigned size_class) {
    size_t slices = lm_class_slices(lm_class_bytes(size_class));
    if (!lm_whole_count(heap->fheap.fheap, slices)) return NULL;
    lm_page_t *page = create(heap, size_class);
    lm_whole_uncount(heap->fheap.fheap, slices - (page != NULL ? page->slices : 0));
    if (page != NULL) page->foreign_class = 0;
    return page;
}

lm_page_t *lm_page_create(lm_heap_t *heap, unsigned size_class) {
    return LM_LIKELY(heap->fheap.fheap == NULL) ? create(heap, size_class)
                                                : create_counted(heap, size_class);
}

/* As many as there are already: a thread that wants three blocks does not pay for a page of
 * them. */
LM_INLINE lm_block_t *carve(lm_page_t *page, char *start) {
    size_t bytes = page->block_bytes, more = page->carved * bytes;
    if (more < CARVE_LEAST) more = CARVE_LEAST;
    if (more > CARVE_MOST) more = CARVE_MOST;
    uint32_t left = (uint32_t)page->capacity - page->carved, n = (uint32_t)(more / bytes);
    if (left == 0) return NULL;
    if (n == 0) n = 1;
    if (n > left) n = left;
    char *first = start + page->carved * bytes;
    lm_carved(page, first, n);
#if LM_SECURE
    lm_block_t *list = lm_carve_shuffled(page, first, n);
#else
    lm_block_t *list = (lm_block_t *)(void *)first;
    for (uint32_t i = 0; i + 1 < n; i++) {
        lm_link_set((lm_block_t *)(void *)(first + i * bytes),
                    (lm_block_t *)(void *)(first + (i + 1) * bytes));
    }
    lm_link_set((lm_block_t *)(void *)(first + (n - 1) * bytes), NULL);
#endif
    /* Who finds a word that is not whole must find carved, too (fence.c). */
#if LOAM_DEBUG
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
    lm_store_relaxed(&page->carved, (uint16_t)(page->carved + n));
#if LOAM_DEBUG
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
    lm_store_relaxed(&page->live, page->live + n);
    return list;
}

static LM_NOINLINE lm_block_t *carve_in_range(lm_page_t *page) {
    return carve(page, lm_range_span_start(page));
}

lm_block_t *lm_page_carve(lm_page_t *page) {
    /* Apart: mostly nothing is called here, and so no registers are saved. */
    if (LM_UNLIKELY(page->range != 0)) return carve_in_range(page);
    return carve(page, (char *)(lm_arena.base + (lm_span_slice(page) << LM_SLICE_SHIFT)));
}

void lm_page_put(lm_page_t *page, lm_block_t *head, lm_block_t *tail, uint32_t n) {
    lm_link_set(tail, page->free);
    page->free = head;
    lm_store_relaxed(&page->live, page->live - n);
}

/* ---- Lists ---- */

void lm_page_unlink(lm_heap_t *heap, lm_page_t *page) {
    if (page->place == LM_AT_PARTIAL) lm_list_remove(&heap->partial[page->size_class], &page->link);
    if (page->place == LM_AT_FULL) {
        lm_list_remove(&heap->full[page->size_class], &page->link);
        lm_store_relaxed(&page->live, page->live + page->bias);
        page->bias = 0;
    }
    if (page->place == LM_AT_CURRENT) heap->current[page->size_class] = NULL;
    page->place = LM_AT_NOWHERE;
}

void lm_page_to_partial(lm_heap_t *heap, lm_page_t *page) {
    lm_page_unlink(heap, page);
    page->place = LM_AT_PARTIAL;
    lm_list_add_last(&heap->partial[page->size_class], &page->link);
}

void lm_page_to_full(lm_heap_t *heap, lm_page_t *page) {
    LM_ASSERT(page->free == NULL && page->carved == page->capacity && page->bias == 0);
    lm_page_unlink(heap, page);
    uint32_t wake = page->capacity / 4u;
    if (wake == 0) wake = 1;
    if (wake > WAKE_MOST) wake = WAKE_MOST;
    page->bias = page->live - wake;
    lm_store_relaxed(&page->live, wake);
    page->place = LM_AT_FULL;
    lm_list_add_last(&heap->full[page->size_class], &page->link);
}

/* ---- The end of a page ---- */

/* A page of objects at an offset keeps its owner until its slices are used again. A thread may have
 * found the page in the map just before, to free an object that another thread frees at the same
 * moment. By the owner it still comes to offset.c, which reports the double free. */
LM_INLINE void retire(lm_page_t *page) {
    lm_span_map(page, page->slices, &lm_nobody);
    if (LM_LIKELY(!lm_is_offset(page))) lm_store_relaxed(&page->owner, LM_OWNER_NONE);
}

static LM_NOINLINE void retire_counted(lm_page_t *page) {
    lm_whole_page_goes(page->heap->fheap.fheap, page);
    retire(page);
}

void lm_page_retire(lm_page_t *page) {
    LM_PROBE2(page_retire, lm_span_start(page), page->block_bytes);
    lm_reuse_check_page(page);
    if (LM_LIKELY(page->foreign_class != 0))
        retire(page);
    else
        retire_counted(page);
}

void lm_page_discard(lm_page_t *page, bool rested) {
    lm_page_retire(page);
    lm_tools_give(page, rested);
}

void lm_page_release(lm_heap_t *heap, lm_page_t *page) {
    LM_ASSERT(lm_page_outside(page) == 0);
    /* Acquire: pairs with the push of whoever freed the last block. */
    if (lm_load_acquire(&page->remote) & LM_REMOTE_QUEUED) {
        if (page->place != LM_AT_PARTIAL) lm_page_to_partial(heap, page);
        return;
    }
    lm_page_unlink(heap, page);
#if LM_SECURE
    lm_secure_page_end(page);
#endif
    lm_bytes_page(heap, page, true);
    lm_page_discard(page, heap->parked);
    heap->pages--;
}

/* An empty partial page stays where no other of its class has free blocks. A first-class heap,
 * which may have a limit, gives it back. */
static bool stays(const lm_heap_t *heap, const lm_page_t *page) {
    const lm_node_t *link = &page->link;
    return page->block_bytes > VACANT_LEAST && link->next == link && heap->fheap.fheap == NULL;
}

/* Whether a quarter of the pages are gone since the last trim, or half of what there were at most.
 * Vacant pages count as gone. */
static bool shrinks(const lm_heap_t *heap) {
    size_t vacant = heap->vacant > VACANT_FEW ? heap->vacant : 0;
    return heap->pages <= heap->trim_at + vacant;
}

static void release_vacant(lm_heap_t *heap, unsigned size_class) {
    lm_node_t *first = heap->partial[size_class].first;
    if (first == NULL) return;
    lm_page_t *page = LM_CONTAINER(first, lm_page_t, link);
    if (lm_page_outside(page) == 0) lm_page_release(heap, page);
}

/* Whether all blocks outside the current page are in the heap's head or on `remote`: then nobody
 * can free one, and nobody but malloc can touch the page. */
static bool unused(const lm_heap_t *heap, const lm_page_t *page) {
    uint32_t outside = lm_page_outside(page),
             remote = lm_remote_count(lm_load_acquire(&page->remote));
    lm_block_t *block = heap->head[page->size_class];
    if (heap->holds[page->size_class] == LM_HOLDS_OTHERS) block = NULL;
    for (; block != NULL && outside > remote; outside--) block = lm_link_get(block);
    return block == NULL && outside == remote;
}

void lm_page_trim(lm_heap_t *heap) {
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_page_t *page = heap->current[c];
        if (c >= LM_SMALL_CLASSES) release_vacant(heap, c);
        if (page == NULL || !unused(heap, page)) continue;
        lm_block_t *head, *tail;
        uint32_t n = lm_remote_take(page, &head, &tail);
        if (n > 0) lm_page_put(page, head, tail, n);
        if (heap->holds[c] != LM_HOLDS_OTHERS) lm_heap_return_head(heap, c);
        lm_page_release(heap, page);
    }
    heap->vacant = 0;
    heap->trim_at = heap->pages - (heap->pages + 3) / 4;
}

/* free() counted down to 0: the page has woken up, or is empty. */
void lm_page_event(lm_page_t *page) {
    lm_heap_t *heap = lm_heap_get();
    if (heap == NULL) return; /* cannot be: we own the page */
    if (LM_UNLIKELY(lm_load_relaxed(&page->heap) != heap)) {
        /* Another of ours; or, if the worker has taken the page away, anybody's. Heaps are never
         * unmapped. */
        heap = lm_load_relaxed(&page->heap);
        if (lm_load_relaxed(&heap->token) != lm_thread_token()) return;
    }
    lm_biased_enter(&heap->lock);
    lm_store_relaxed(&heap->slow, heap->slow + 1);
    /* Ours was the last block outside, and the worker has already taken the page away (idle.c). */
    if (lm_load_relaxed(&page->owner) != heap->token) {
        lm_biased_leave(&heap->lock);
        return;
    }
    if (page->place == LM_AT_FULL) lm_page_to_partial(heap, page);
    /* The current page stays: the next malloc of its class would only ask for another. */
    if (page->live == 0 && page->place == LM_AT_PARTIAL) {
        if (stays(heap, page))
            heap->vacant++;
        else
            lm_page_release(heap, page);
        if (shrinks(heap)) lm_page_trim(heap);
    }
    lm_biased_leave(&heap->lock);
}

void lm_page_each(lm_heap_t *heap, void (*visit)(lm_page_t *page, void *context), void *context) {
    size_t left = heap->pages;
    for (unsigned c = 1; c < LM_CLASSES && left > 0; c++) {
        if (heap->current[c] != NULL) {
            visit(heap->current[c], context);
            left--;
        }
        lm_list_t *lists[] = {&heap->partial[c], &heap->full[c]};
        for (unsigned i = 0; i < 2; i++) {
            lm_node_t *next;
            for (lm_node_t *n = lists[i]->first; n != NULL; n = next, left--) {
                next = lm_list_after(lists[i], n);
                visit(LM_CONTAINER(n, lm_page_t, link), context);
            }
        }
    }
}

/* page.c: the life of a page, as its heap sees it.
 *
 *            create                 exhausted                first frees
 *   arena ───────────> current ─────────────────> full ─────────────────> partial
 *     ^                   ^ └──────── chosen again ───────────────────────┘  │
 *     └───────────────────┴───────────── every block is back ────────────────┘
 *
 * In classes of more than 2 KiB, one empty page of each class stays in the heap as a partial page:
 * it is vacant. Otherwise a program with a dozen objects of 20 KiB would give a page back and take
 * it again with every few objects. Vacant pages go when the heap has given a quarter of its pages
 * back, and while its thread sleeps.
 *
 * A full page is left alone until a quarter of its blocks, at most 16, are free. `live` is set that
 * low and `bias` holds the rest, so that free() needs one counter for both "becomes partial" and
 * "is empty". So a refill finds several blocks, not one. Before a heap takes new memory, it also
 * looks for full pages with fewer free blocks (refill.c).
 *
 * It cannot return a page with one block in use, and cannot purge parts of a page.
 */
#include "heap/core.h"

enum {
    CARVE_LEAST = 512,   /* smallest number of bytes carved at once, if the page has them */
    CARVE_MOST = 4096,   /* largest number of bytes carved at once, but at least one block */
    VACANT_LEAST = 2048, /* bytes of the largest block whose class keeps no vacant page */
    VACANT_FEW = 3,      /* up to so many vacant pages of a heap do not count as given back */
    WAKE_MOST = 16,      /* largest number of free blocks that a full page waits for */
};

/* Apart, so that pages of malloc's own do not pay for the calls. */
static LM_NOINLINE lm_page_t *take_for_branch(const struct loam_heap *fheap, size_t slices,
                                              size_t block_bytes, bool crowded, bool *zero) {
    if (!lm_fheap_in_range(fheap)) return lm_span_take_page(slices, block_bytes, crowded, zero);
    return lm_fheap_take_page(fheap, slices, block_bytes, crowded, zero);
}

/* Takes a span for a page of the heap: from the range of the heap's first-class heap, if it has
 * one, and otherwise from the arena. crowded, *zero and the result: see lm_span_take_page. */
LM_INLINE lm_page_t *page_take(const lm_theap_t *heap, size_t slices, size_t block_bytes,
                               bool crowded, bool *zero) {
    if (LM_UNLIKELY(heap->fheap.fheap != NULL))
        return take_for_branch(heap->fheap.fheap, slices, block_bytes, crowded, zero);
    return lm_span_take_page(slices, block_bytes, crowded, zero);
}

#if LM_SECURE
/* Gives back a new page that cannot be marked. The page is counted as one without blocks, because
 * the arena counts what it gets back. Returns NULL. */
static LM_COLD lm_page_t *give_up(lm_page_t *page) {
    page->size_class = 0;
    page->carved = page->capacity = 0;
    lm_count_page(page);
    lm_span_give(page, false);
    return NULL;
}
#endif

/* lm_page_create without a look at the limit of a first-class heap. */
static lm_page_t *page_create(lm_theap_t *heap, unsigned size_class) {
    LM_ASSERT(size_class > 0 && size_class < LM_CLASSES);
    size_t block_bytes = lm_class_bytes(size_class), slices = lm_class_slices(block_bytes);
    bool zero;
    lm_page_t *page =
        page_take(heap, slices, block_bytes, heap->full[size_class].first != NULL, &zero);
    if (page == NULL) return NULL;
    LM_ASSERT(page->kind == LM_KIND_PAGE && page->slices > 0 && page->slices <= slices);
    slices = page->slices;
#if LM_GUARD_LINKS
    lm_secret_make();
    lm_store_relaxed(&page->raw, false); /* relaxed: the page is not in the map yet */
#endif
#if LM_SECURE
    lm_secure_class(size_class, block_bytes);
    size_t bytes = lm_span_mark(page);
    if (LM_UNLIKELY(bytes == 0)) return give_up(page);
    zero = lm_secure_page_begin(page, size_class, zero);
#else
    size_t bytes = slices << LM_SLICE_SHIFT;
#endif
    LM_ASSERT(bytes / block_bytes > 0 && bytes / block_bytes <= UINT16_MAX);
    page->free = NULL;
    page->live = 0;
    page->bias = 0;
    page->block_bytes = (uint32_t)block_bytes;
    page->carved = 0;
    page->capacity = (uint16_t)(bytes / block_bytes);
    page->size_class = (uint8_t)size_class;
    page->foreign_class = (uint8_t)size_class;
    page->in_list = LM_AT_NOWHERE;
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

/* lm_page_create for a branch of a first-class heap. Returns NULL also iff the page would exceed
 * that heap's hard limit. */
static LM_NOINLINE lm_page_t *create_counted(lm_theap_t *heap, unsigned size_class) {
    size_t slices = lm_class_slices(lm_class_bytes(size_class));
    if (!lm_fheap_count(heap->fheap.fheap, slices)) return NULL;
    lm_page_t *page = page_create(heap, size_class);
    lm_fheap_uncount(heap->fheap.fheap, slices - (page != NULL ? page->slices : 0));
    if (page != NULL) page->foreign_class = 0;
    return page;
}

lm_page_t *lm_page_create(lm_theap_t *heap, unsigned size_class) {
    return LM_LIKELY(heap->fheap.fheap == NULL) ? page_create(heap, size_class)
                                                : create_counted(heap, size_class);
}

/* lm_page_carve for a page that begins at `start`. Carves as many bytes as the page has carved
 * already, between CARVE_LEAST and CARVE_MOST: a thread that wants three blocks does not pay for a
 * page of them. */
LM_INLINE lm_block_t *page_carve(lm_page_t *page, char *start) {
    LM_ASSERT(page->carved <= page->capacity && page->bias == 0);
    size_t bytes = page->block_bytes, more = page->carved * bytes;
    if (more < CARVE_LEAST) more = CARVE_LEAST;
    if (more > CARVE_MOST) more = CARVE_MOST;
    uint32_t left = (uint32_t)page->capacity - page->carved, n = (uint32_t)(more / bytes);
    if (left == 0) return NULL;
    if (n == 0) n = 1;
    if (n > left) n = left;
    LM_ASSERT((page->carved + n) * bytes <= (size_t)page->slices << LM_SLICE_SHIFT);
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
    /* The two fences put `carved` between the blocks' first words and the program's writes. So a
     * thread that reads a word which the program overwrote finds the block carved
     * (checks/near.c). */
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
    return page_carve(page, lm_range_span_start(page));
}

lm_block_t *lm_page_carve(lm_page_t *page) {
    /* The rare case is a function of its own, so that the usual one calls nothing and saves no
     * registers. */
    if (LM_UNLIKELY(page->range != 0)) return carve_in_range(page);
    return page_carve(page, (char *)(lm_arena.base + (lm_span_slice(page) << LM_SLICE_SHIFT)));
}

void lm_page_put(lm_page_t *page, lm_block_t *head, lm_block_t *tail, uint32_t n) {
    LM_ASSERT(n > 0 && lm_page_outside(page) >= n);
    /* In a full page, `live` must not go past 0 unseen. */
    LM_ASSERT(page->in_list != LM_AT_FULL);
    lm_link_set(tail, page->free);
    page->free = head;
    lm_store_relaxed(&page->live, page->live - n);
}

/* ---- Lists ---- */

void lm_page_unlink(lm_theap_t *heap, lm_page_t *page) {
    LM_ASSERT(page->heap == heap && page->in_list != LM_AT_ORPHANS);
    if (page->in_list == LM_AT_PARTIAL) {
        LM_ASSERT(lm_node_linked(&page->link) && page->bias == 0);
        lm_list_remove(&heap->partial[page->size_class], &page->link);
    }
    if (page->in_list == LM_AT_FULL) {
        LM_ASSERT(lm_node_linked(&page->link));
        lm_list_remove(&heap->full[page->size_class], &page->link);
        lm_store_relaxed(&page->live, page->live + page->bias);
        page->bias = 0;
    }
    if (page->in_list == LM_AT_CURRENT) {
        LM_ASSERT(heap->current[page->size_class] == page);
        heap->current[page->size_class] = NULL;
    }
    page->in_list = LM_AT_NOWHERE;
}

void lm_page_to_partial(lm_theap_t *heap, lm_page_t *page) {
    lm_page_unlink(heap, page);
    LM_ASSERT(page->bias == 0);
    page->in_list = LM_AT_PARTIAL;
    lm_list_add_last(&heap->partial[page->size_class], &page->link);
}

void lm_page_to_full(lm_theap_t *heap, lm_page_t *page) {
    LM_ASSERT(page->free == NULL && page->carved == page->capacity && page->bias == 0);
    lm_page_unlink(heap, page);
    uint32_t wake = page->capacity / 4u;
    if (wake == 0) wake = 1;
    if (wake > WAKE_MOST) wake = WAKE_MOST;
    page->bias = page->live - wake;
    lm_store_relaxed(&page->live, wake);
    page->in_list = LM_AT_FULL;
    lm_list_add_last(&heap->full[page->size_class], &page->link);
}

/* ---- The end of a page ---- */

/* Takes the page out of the map. A page of objects at an offset keeps its owner until its slices
 * are used again. A thread may have found such a page in the map just before, to free an object
 * that another thread frees at the same moment. Because of the owner, that free still comes to
 * offset.c, which reports the double free. */
LM_INLINE void retire(lm_page_t *page) {
    LM_ASSERT(page->kind == LM_KIND_PAGE);
    lm_span_map(page, page->slices, &lm_nobody);
    if (LM_LIKELY(!lm_is_offset(page))) lm_store_relaxed(&page->owner, LM_OWNER_NONE);
}

/* lm_page_retire for a page of a first-class heap. */
static LM_NOINLINE void retire_counted(lm_page_t *page) {
    lm_fheap_page_goes(page->heap->fheap.fheap, page);
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
    LM_ASSERT(page->in_list == LM_AT_NOWHERE);
    lm_page_retire(page);
    lm_tools_give(page, rested);
}

void lm_page_release(lm_theap_t *heap, lm_page_t *page) {
    LM_ASSERT(lm_page_outside(page) == 0);
    /* Acquire: pairs with the push of the thread that freed the page's last block. */
    if (lm_load_acquire(&page->remote) & LM_REMOTE_QUEUED) {
        if (page->in_list != LM_AT_PARTIAL) lm_page_to_partial(heap, page);
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

/* Returns whether an empty partial page stays in the heap as a vacant one: only if its blocks are
 * larger than VACANT_LEAST, and it is the only partial page of its class. A branch of a first-class
 * heap, which may have a limit, keeps no vacant page. */
static bool page_stays(const lm_theap_t *heap, const lm_page_t *page) {
    const lm_node_t *link = &page->link;
    return page->block_bytes > VACANT_LEAST && link->next == link && heap->fheap.fheap == NULL;
}

/* Returns whether a quarter of the heap's pages are gone since the last trim, or half of the
 * largest number that it has had since. Vacant pages count as gone if they are more than
 * VACANT_FEW. */
static bool shrinks(const lm_theap_t *heap) {
    size_t vacant = heap->vacant > VACANT_FEW ? heap->vacant : 0;
    return heap->pages <= heap->trim_at + vacant;
}

/* Releases the first partial page of the class if it is empty. Heap lock held. */
static void release_vacant(lm_theap_t *heap, unsigned size_class) {
    lm_node_t *first = heap->partial[size_class].first;
    if (first == NULL) return;
    lm_page_t *page = LM_CONTAINER(first, lm_page_t, link);
    LM_ASSERT(page->in_list == LM_AT_PARTIAL && page->size_class == size_class);
    if (lm_page_outside(page) == 0) lm_page_release(heap, page);
}

/* Returns whether no block of the current page is in use: all blocks that are not on the page's own
 * list are in the heap's head[] or on `remote`. Then no thread can free a block of the page, and
 * only the owner's malloc can touch it. */
static bool unused(const lm_theap_t *heap, const lm_page_t *page) {
    /* Acquire: pairs with the pushes of the threads that freed blocks of the page. */
    uint32_t outside = lm_page_outside(page),
             remote = lm_remote_count(lm_load_acquire(&page->remote));
    lm_block_t *block = heap->head[page->size_class];
    if (heap->holds[page->size_class] == LM_HOLDS_OTHERS) block = NULL;
    for (; block != NULL && outside > remote; outside--) block = lm_link_get(block);
    return block == NULL && outside == remote;
}

void lm_page_trim(lm_theap_t *heap) {
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_page_t *page = heap->current[c];
        LM_ASSERT(page == NULL || page->in_list == LM_AT_CURRENT);
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

void lm_page_event(lm_page_t *page) {
    lm_theap_t *heap = lm_heap_get();
    if (heap == NULL) return; /* never happens: the calling thread owned the page */
    if (LM_UNLIKELY(lm_load_relaxed(&page->heap) != heap)) {
        /* The page belongs to another heap of this thread (its own, or a branch); or to any heap,
         * if the worker has taken the page away. Relaxed: heaps are never unmapped, and no other
         * thread writes this thread's token. */
        heap = lm_load_relaxed(&page->heap);
        if (lm_load_relaxed(&heap->token) != lm_thread_token()) return;
    }
    lm_biased_enter(&heap->lock);
    lm_store_relaxed(&heap->slow, heap->slow + 1);
    /* This thread freed the last block in use, and the worker has already taken the page away
     * (idle.c). Relaxed: the heap's lock orders the worker's writes before this. */
    if (lm_load_relaxed(&page->owner) != heap->token) {
        lm_biased_leave(&heap->lock);
        return;
    }
    LM_ASSERT(lm_load_relaxed(&page->heap) == heap);
    if (page->in_list == LM_AT_FULL) lm_page_to_partial(heap, page);
    /* The current page stays, because the next malloc of its class would need a page again. */
    if (page->live == 0 && page->in_list == LM_AT_PARTIAL) {
        if (page_stays(heap, page))
            heap->vacant++;
        else
            lm_page_release(heap, page);
        if (shrinks(heap)) lm_page_trim(heap);
    }
    lm_biased_leave(&heap->lock);
}

void lm_page_each(lm_theap_t *heap, void (*visit)(lm_page_t *page, void *context), void *context) {
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

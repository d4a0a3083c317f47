/* refill.c: malloc when the list of the class is empty.
 *
 * Refill tries its sources in this order, which decides how much memory a program occupies:
 *
 *   used blocks       1. freed blocks of the current page
 *                     2. the fullest of a few partial pages, so that the emptier ones can drain
 *                     3. blocks of other threads' pages: this thread's list, the transfer cache
 *                     4. now and then: a full page with a free block (classes above 1 KiB), a
 *                        class that is at most a quarter larger (not in secure builds)
 *                     5. pages whose remote frees were left for later
 *   untouched blocks  6. the rest of the current page
 *                     7. a partial page with such a rest
 *   other pages       8. a full page with a free block
 *                     9. an orphan
 *                    10. a new page, of dirty memory before clean memory (span/arena.c)
 *
 * A branch of a first-class heap skips 3 and 9, because all its blocks belong to that heap.
 */
#include "heap/core.h"

#include <errno.h>

enum {
    LOOK = 4,            /* largest number of partial pages that one refill searches */
    COMPARED = 2,        /* largest number of pages compared: each may be a miss of every cache */
    LOOK_FULL = 8,       /* largest number of full pages that one refill searches */
    LARGER_BYTES = 4096, /* largest number of bytes taken from a larger class at once */
    CUT_MOST = 2,        /* blocks cut from a long list: each may be a miss of every cache */
    SKIP_MOST = 3,       /* largest number of refills from one search to the next */
};

void *lm_no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *lm_too_large(size_t bytes) {
    lm_refused(bytes, true);
    return lm_no_memory();
}

void *lm_too_large_at(size_t bytes, size_t align) {
    lm_refused_aligned(bytes, align, true);
    return lm_no_memory();
}

/* Takes the blocks of the page that other threads have freed. Returns NULL iff there are none. */
static LM_NOINLINE lm_block_t *list_of_remote(lm_page_t *page) {
    lm_block_t *list, *tail;
    /* page->live stays: it counts the blocks on `remote`, and those in head[], as not free. */
    uint32_t count = lm_remote_take(page, &list, &tail);
    if (count == 0) return NULL;
    LM_ASSERT(page->bias == 0 && count <= page->live);
    lm_count_again(page, count);
    return list;
}

/* Takes the freed blocks of a page: those that its owner freed, or otherwise those that other
 * threads freed. Returns NULL iff there are none. */
LM_INLINE lm_block_t *refill_list_of(lm_page_t *page) {
    lm_block_t *list = lm_page_take(page);
    /* Relaxed: a block that another thread frees at this moment may wait for the next refill. */
    if (list != NULL || LM_LIKELY(lm_remote_count(lm_load_relaxed(&page->remote)) == 0))
        return list;
    return list_of_remote(page);
}

/* Looks at the LOOK oldest partial pages. Returns the fuller of the COMPARED oldest of them that
 * have free blocks; NULL iff no page has any. */
static lm_page_t *fullest(lm_theap_t *heap, unsigned size_class) {
    lm_list_t *list = &heap->partial[size_class];
    lm_page_t *best = NULL;
    int left = LOOK, compare = COMPARED;
    for (lm_node_t *node = list->first; node != NULL && left-- > 0;
         node = lm_list_after(list, node)) {
        lm_page_t *page = LM_CONTAINER(node, lm_page_t, link);
        LM_ASSERT(page->heap == heap && page->in_list == LM_AT_PARTIAL);
        if (page->free == NULL) continue; /* the page has only untouched blocks */
        if (best == NULL || page->live > best->live) best = page;
        if (--compare == 0) break;
    }
    return best;
}

/* Returns a partial page with untouched blocks: it stopped being current because another page had
 * free blocks. Returns NULL iff there is none. */
static lm_page_t *refill_set_aside(lm_theap_t *heap, unsigned size_class) {
    lm_list_t *list = &heap->partial[size_class];
    for (lm_node_t *node = list->first; node != NULL; node = lm_list_after(list, node)) {
        lm_page_t *page = LM_CONTAINER(node, lm_page_t, link);
        LM_ASSERT(page->size_class == size_class && page->carved <= page->capacity);
        if (page->carved < page->capacity) return page;
    }
    return NULL;
}

/* Returns a full page with a free block, though too few were freed to make the page partial
 * (page.c). Looks at up to LOOK_FULL pages, and begins behind them the next time. Returns NULL iff
 * none of these pages has a free block. */
static lm_page_t *awake_early(lm_theap_t *heap, unsigned size_class) {
    lm_list_t *list = &heap->full[size_class];
    lm_node_t *begin = list->first;
    if (begin == NULL) return NULL;
    int left = LOOK_FULL;
    do {
        lm_page_t *page = LM_CONTAINER(list->first, lm_page_t, link);
        LM_ASSERT(page->heap == heap && page->in_list == LM_AT_FULL);
        if (page->free != NULL) return page;
        list->first = list->first->next; /* in the circular list, the first page becomes the last */
    } while (--left > 0 && list->first != begin);
    return NULL;
}

/* Takes in the remote frees of each page of a list of the heap. Heap lock held. */
static void refill_look_at(lm_theap_t *heap, lm_list_t *list) {
    lm_node_t *next;
    for (lm_node_t *node = list->first; node != NULL; node = next) {
        lm_page_t *page = LM_CONTAINER(node, lm_page_t, link);
        next = lm_list_after(list, node);
        LM_ASSERT(page->heap == heap);
        lm_block_t *head, *tail;
        uint32_t n = lm_remote_take(page, &head, &tail);
        if (n == 0) continue;
        if (page->in_list == LM_AT_FULL) lm_page_to_partial(heap, page);
        lm_page_put(page, head, tail, n);
        if (page->live == 0) lm_page_release(heap, page);
    }
}

/* Takes in the remote frees that the worker found while the owner slept, and could not take in
 * (idle.c). Heap lock held. */
static LM_COLD void look_behind(lm_theap_t *heap) {
    heap->left_behind = 0;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        refill_look_at(heap, &heap->partial[c]);
        refill_look_at(heap, &heap->full[c]);
    }
}

void lm_heap_take_in(lm_theap_t *heap) {
    lm_remote_drain(heap);
    if (heap->left_behind > 0) look_behind(heap);
}

/* Returns a partial page of the heap with freed blocks; NULL if the search finds none. */
static lm_page_t *woken(lm_theap_t *heap, unsigned size_class) {
    lm_page_t *page = fullest(heap, size_class);
    if (page == NULL && heap->left_behind > 0) {
        look_behind(heap);
        page = fullest(heap, size_class);
    }
    return page;
}

/* Takes up to n blocks, at least one, from a page's list, which is not empty. Returns them as a
 * list. A list of at most n blocks is taken whole, and no block of it is read. From a longer list
 * only the first CUT_MOST blocks are taken, because the search for the end of the cut reads each
 * block. */
static lm_block_t *refill_cut(lm_page_t *page, uint32_t n) {
    LM_ASSERT(page->free != NULL && page->bias == 0 && page->live <= page->carved);
    page->fresh = false; /* from now on, another class's list holds blocks of the page */
    if (page->carved - page->live <= n) return lm_page_take(page);
    lm_block_t *list = page->free, *tail = list;
    if (n > CUT_MOST) n = CUT_MOST;
    uint32_t taken = 1;
    for (lm_block_t *next; taken < n && (next = lm_link_get(tail)) != NULL; tail = next) taken++;
    LM_ASSERT(page->live + taken <= page->carved);
    /* Release: if the process forks now, the blocks leave the page before they are in a list. */
    page->free = lm_link_get(tail);
    lm_store_release(&page->live, page->live + taken);
    lm_count_again(page, taken);
    lm_link_set(tail, NULL);
    return list;
}

/* Takes freed blocks of a class that is at most a quarter larger, about as many as a page would
 * carve. So the peak stays lower than with new memory; and a large used block costs less than
 * memory that the system must clear first. Returns NULL iff no freed block is found. */
static lm_block_t *of_larger(lm_theap_t *heap, unsigned size_class) {
    size_t bytes = lm_class_bytes(size_class), align = bytes & -bytes;
    for (unsigned c = size_class + 1; c < LM_CLASSES && 4 * lm_class_bytes(c) <= 5 * bytes; c++) {
        /* Blocks must keep the alignment that lm_class_aligned promises for the class. */
        if (lm_class_bytes(c) % align != 0) continue;
        lm_page_t *page = heap->current[c];
        if (page == NULL || page->free == NULL) page = fullest(heap, c);
        if (page == NULL) continue;
        LM_ASSERT(page->size_class == c && page->block_bytes >= bytes);
        lm_block_t *list = refill_cut(page, (uint32_t)(LARGER_BYTES / bytes));
        /* Otherwise pages without a block would collect at the front of the partial list. */
        if (page->free == NULL && page->carved == page->capacity && page->in_list == LM_AT_PARTIAL)
            lm_page_to_full(heap, page);
        return list;
    }
    return NULL;
}

/* Takes blocks of other threads' pages: from this thread's own list, then from the transfer cache.
 * Returns NULL iff both have none, or too few. */
static lm_block_t *refill_of_others(lm_theap_t *heap, unsigned size_class) {
    lm_block_t *list = NULL;
    if (heap->foreign[size_class].first != NULL) list = lm_foreign_take(heap, size_class);
    if (list != NULL || heap == &lm_heap_common) return list;
    list = lm_transfer_take(size_class);
    lm_bytes_ready(heap, list, false);
    return list;
}

/* Returns whether this refill searches full pages and larger classes for used blocks. After each
 * search that finds nothing, more refills go without one, up to SKIP_MOST. So a heap that only
 * grows is not searched for each block. */
static bool worth_searching(lm_foreign_t *class) {
    LM_ASSERT(class->skip <= class->pause && class->pause <= SKIP_MOST);
    if (class->skip == 0) return true;
    class->skip--;
    return false;
}

/* Sets how many refills go without a search: 0 after a search that found blocks; otherwise 1, then
 * 3. */
static void searched(lm_foreign_t *class, bool found) {
    class->pause = (uint8_t)(found                      ? 0
                             : class->pause < SKIP_MOST ? 2 * class->pause + 1
                                                        : SKIP_MOST);
    class->skip = class->pause;
}

/* Begins to load the descriptors that a search may read. With a large heap no cache holds them, and
 * each load would wait for the previous one. */
LM_INLINE void read_ahead(const lm_theap_t *heap, unsigned size_class) {
    LM_PREFETCH(heap->partial[size_class].first);
    LM_PREFETCH(heap->full[size_class].first);
}

/* Begins to load the first block of a page that is about to become current, and its descriptor's
 * second line. */
LM_INLINE void read_ahead_page(const lm_page_t *page) {
    LM_PREFETCH(page->free);
    LM_PREFETCH(&page->remote);
}

/* Returns a list of blocks for head[size_class], which is empty, and sets holds[]. Returns NULL iff
 * there is no memory. Heap lock held. */
static lm_block_t *refill_list(lm_theap_t *heap, unsigned size_class) {
    lm_page_t *page = heap->current[size_class];
    lm_foreign_t *class = &heap->foreign[size_class];
    lm_block_t *list;
    /* A branch of a first-class heap takes only blocks and pages of that heap. */
    bool shares = heap->fheap.fheap == NULL;
    LM_ASSERT(page == NULL || (page->heap == heap && page->in_list == LM_AT_CURRENT));
    heap->holds[size_class] = LM_HOLDS_OWN;
    read_ahead(heap, size_class);
    if (page != NULL) {
        list = refill_list_of(page);
        if (list != NULL) return list;
    }
    for (;;) {
        lm_page_t *other = woken(heap, size_class);
        list = other == NULL && shares ? refill_of_others(heap, size_class) : NULL;
        if (other == NULL && list == NULL && worth_searching(class)) {
            if (size_class >= LM_SMALL_CLASSES) other = awake_early(heap, size_class);
            /* Not in secure builds, where a block's canary lies at the end of its size class. */
            if (other == NULL && !LM_SECURE) list = of_larger(heap, size_class);
            searched(class, other != NULL || list != NULL);
        }
        while (other == NULL && list == NULL && lm_remote_waits(heap)) {
            lm_remote_drain_some(heap); /* pages that the first drain left for later */
            if (page != NULL && (list = refill_list_of(page)) != NULL) return list;
            other = fullest(heap, size_class);
        }
        if (list != NULL) {
            heap->holds[size_class] = LM_HOLDS_OTHERS;
            return list;
        }
        if (other != NULL) read_ahead_page(other);
        if (page != NULL) {
            if (other == NULL && (list = lm_page_carve(page)) != NULL) {
                if (page->fresh && !LOAM_DEBUG) heap->holds[size_class] = LM_HOLDS_ZERO;
                return list;
            }
            if (page->carved < page->capacity)
                lm_page_to_partial(heap, page);
            else
                lm_page_to_full(heap, page);
        }
        page = other;
        if (page == NULL) page = refill_set_aside(heap, size_class);
        if (page == NULL) page = awake_early(heap, size_class);
        if (page == NULL && shares) page = lm_orphan_adopt(heap, size_class);
        if (page == NULL) page = lm_page_create(heap, size_class);
        if (page == NULL) return NULL;
        LM_ASSERT(heap->current[size_class] == NULL);
        LM_ASSERT(page->size_class == size_class && page->in_list != LM_AT_CURRENT);
        if (page->in_list == LM_AT_PARTIAL && page->live == 0 && heap->vacant > 0) heap->vacant--;
        lm_page_unlink(heap, page);
        page->in_list = LM_AT_CURRENT;
        /* A page that the heap's last thread left has no owner. Relaxed: other threads compare the
         * word with their own tokens, and this store makes it equal to no token of theirs. */
        lm_store_relaxed(&page->owner, heap->token);
        heap->current[size_class] = page;
        list = refill_list_of(page);
        if (list != NULL) return list;
    }
}

void *lm_heap_refill(lm_theap_t *heap, unsigned size_class) {
    LM_ASSERT(size_class > 0 && size_class < LM_CLASSES);
    lm_biased_enter(&heap->lock);
    lm_store_relaxed(&heap->slow, heap->slow + 1);
    if (LM_UNLIKELY(lm_remote_waits(heap))) lm_remote_drain_some(heap);
    /* The common heap's head[] need not be empty: all allocations from that heap come here. */
    lm_block_t *block = heap->head[size_class];
    if (block == NULL) {
        block = refill_list(heap, size_class);
        LM_ASSERT(block == NULL || lm_page_of(block)->size_class >= size_class);
        if (LM_UNLIKELY(lm_load_relaxed(&lm_sampling.rate) != 0) && block != NULL)
            lm_sampled_limit(heap, size_class, block);
    }
    if (block != NULL) heap->head[size_class] = lm_link_get(block);
    lm_biased_leave(&heap->lock);
    return block;
}

/* Returns a block from what the calling thread's malloc allocates from: its heap, its chosen
 * branch, or the common heap. Returns NULL iff there is no memory. No lock held. */
LM_INLINE void *from_other_page(unsigned size_class) {
    lm_theap_t *heap = lm_heap_get();
    if (LM_UNLIKELY(heap == NULL)) return lm_common_alloc(size_class);
    /* Relaxed: LM_HAS_RETIRED may be set at any time, by a thread that deletes a heap, and the next
     * refill may notice it. LM_IS_BRANCH never changes. */
    unsigned special = lm_load_relaxed(&heap->fheap.special);
    if (LM_UNLIKELY(special != 0)) {
        if (special == LM_IS_BRANCH) return lm_branch_alloc(heap, size_class);
        lm_fheap_part_with_retired(heap);
    }
    /* The list is looked at anew, because lm_heap_get may have allocated when it made the heap.
     * Relaxed: a stale count only moves the moment from which the heap borrows. */
    if (heap->head[size_class] == NULL && heap->current[size_class] == NULL &&
        LM_UNLIKELY(lm_load_relaxed(&lm_heaps_active) > lm_load_relaxed(&lm_heaps_many)))
        lm_common_share(heap, size_class);
    if (heap->head[size_class] == NULL) return lm_heap_refill(heap, size_class);
    lm_block_t *block = heap->head[size_class];
    heap->head[size_class] = lm_link_get(block);
    return block;
}

/* The rest of lm_block_refill, where memory has run out: frees memory that loam keeps and asks the
 * program's handler, then tries again. Returns a block, or NULL with errno ENOMEM. No lock held. */
static LM_COLD void *from_room_made(unsigned size_class) {
    size_t bytes = lm_class_bytes(size_class);
    for (unsigned tries = 0; lm_memory_found(bytes, &tries);) {
        void *block = from_other_page(size_class);
        if (block != NULL) return block;
    }
    lm_refused(bytes, false);
    return lm_no_memory();
}

LM_NOINLINE void *lm_block_refill(unsigned size_class) {
    /* A request of 0 bytes has class 0, which has neither lists nor pages: it always comes here. */
    if (LM_UNLIKELY(size_class == 0)) return lm_block_alloc(1);
    LM_METER(slow());
    void *block = from_other_page(size_class);
    if (LM_UNLIKELY(block == NULL)) block = from_room_made(size_class);
    lm_limit_answer_if_crossed();
    return block;
}

LM_STATIC_ASSERT((size_t)LM_QUIET_MOST == (size_t)LM_BLOCK_MOST, "one comparison serves both");

/* Returns a block of the current page, if the page has freed blocks, and otherwise of a refill. The
 * heap's list of the class is empty. No lock held. */
LM_INLINE void *refill_take(size_t size_class, lm_theap_t *heap) {
    lm_page_t *page = heap->current[size_class];
    lm_block_t *block;
    LM_ASSERT(heap->head[size_class] == NULL);
    if (LM_LIKELY(page != NULL) && LM_LIKELY((block = lm_page_take(page)) != NULL)) {
        heap->holds[size_class] = LM_HOLDS_OWN;
        LM_IN_RETURN_REGISTER(block);
        lm_block_t *next = lm_link_get(block);
        heap->head[size_class] = next;
        LM_PREFETCH(next);
        return block;
    }
    return lm_block_refill((unsigned)size_class);
}

/* lm_block_take for a large request, and for all requests while slow paths are counted, memory is
 * filled or sampling is on. */
static LM_NOINLINE void *take_unquiet(size_t bytes, size_t size_class) {
    if (bytes > LM_BLOCK_MOST) return lm_large_alloc(bytes, 1, NULL);
    lm_heartbeat_if_asked();
    if (lm_perturb_matters()) return lm_perturb_alloc(bytes, (unsigned)size_class);
    /* Relaxed: no other data depends on the rate. */
    if (lm_load_relaxed(&lm_sampling.rate) != 0)
        return lm_sampled_slow(bytes, (unsigned)size_class);
    lm_theap_t *heap = lm_heap_self;
    /* The program's deferred free, if it was called above, may have filled the list. */
    void *block = lm_block_pop_of(heap, size_class);
    return block != NULL ? block : refill_take(size_class, heap);
}

/* `heap` is the heap in which the fast path met an empty list. lm_heap_self is not read anew: the
 * worker may have hidden the heap for a moment (idle.c), and a heap that reappears may have a
 * list. */
void *lm_block_take(size_t bytes, size_t size_class, lm_theap_t *heap) {
    if (LM_UNLIKELY(bytes > lm_peek(&lm_slowpath_hook_limit)))
        return take_unquiet(bytes, size_class);
    return refill_take(size_class, heap);
}

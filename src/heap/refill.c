/* refill.c: malloc when the list of the class is empty.
 *
 * The order decides how much memory a program occupies: what the current page got back, what others
 * gave back, what it has not carved yet, another page of ours (the fullest of a few, so that the
 * emptier ones can drain), an orphan, and only then a new page (dirty before clean: span/arena.c).
 */
#include "heap/room.h"

#include <errno.h>

enum { LOOK = 4 /* partial pages compared */, LOOK_FULL = 8 };

void *lm_no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

/* What a page can hand out at once: its own list, or that of others, or untouched blocks. */
static lm_block_t *list_of(lm_page_t *page) {
    lm_block_t *list = lm_page_take(page), *tail;
    if (list != NULL) return list;
    /* Blocks that others freed counted as outside, and do so in the heap's head as well. */
    if (lm_remote_take(page, &list, &tail) > 0) {
        page->virgin = false;
        return list;
    }
    return lm_page_carve(page);
}

static lm_page_t *fullest(lm_heap_t *heap, unsigned size_class) {
    lm_list_t *list = &heap->partial[size_class];
    lm_page_t *best = NULL;
    int left = LOOK;
    for (lm_node_t *node = list->first; node != NULL && left-- > 0;
         node = lm_list_after(list, node)) {
        lm_page_t *page = LM_CONTAINER(node, lm_page_t, link);
        if (best == NULL || page->live > best->live) best = page;
    }
    return best;
}

/* Before memory is taken anew: a full page that has got a block back, though too few to wake it. Looks at
 * a few, others the next time. */
static lm_page_t *awake_early(lm_heap_t *heap, unsigned size_class) {
    lm_list_t *list = &heap->full[size_class];
    for (int left = LOOK_FULL; left > 0 && list->first != NULL; left--) {
        lm_page_t *page = LM_CONTAINER(list->first, lm_page_t, link);
        if (page->free != NULL) return page;
        lm_list_remove(list, &page->link);
        lm_list_add_last(list, &page->link);
    }
    return NULL;
}

static void look_at(lm_heap_t *heap, lm_list_t *list) {
    lm_node_t *next;
    for (lm_node_t *node = list->first; node != NULL; node = next) {
        lm_page_t *page = LM_CONTAINER(node, lm_page_t, link);
        next = lm_list_after(list, node);
        lm_block_t *head, *tail;
        uint32_t n = lm_remote_take(page, &head, &tail);
        if (n == 0) continue;
        if (page->place == LM_AT_FULL) lm_page_to_partial(heap, page);
        lm_page_put(page, head, tail, n);
        if (page->live == 0) lm_page_release(heap, page);
    }
}

/* The worker found remote frees on our pages while we slept, and could not take them. */
static LM_COLD void look_behind(lm_heap_t *heap) {
    heap->left_behind = 0;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        look_at(heap, &heap->partial[c]);
        look_at(heap, &heap->full[c]);
    }
}

static lm_block_t *refill(lm_heap_t *heap, unsigned size_class) {
    lm_page_t *page = heap->current[size_class];
    lm_block_t *list;
    if (page != NULL) {
        list = list_of(page);
        if (list != NULL) return list;
        lm_page_to_full(heap, page);
    }
    for (;;) {
        page = fullest(heap, size_class);
        if (page == NULL && heap->left_behind > 0) {
            look_behind(heap);
            page = fullest(heap, size_class);
        }
        if (page == NULL) page = awake_early(heap, size_class);
        if (page == NULL) page = lm_orphan_adopt(heap, size_class);
        if (page == NULL) page = lm_page_create(heap, size_class);
        if (page == NULL) return NULL;
        lm_page_unlink(heap, page);
        page->place = LM_AT_CURRENT;
        lm_store_relaxed(&page->owner,
                         heap->token); /* it may be left over from the heap's last thread */
        heap->current[size_class] = page;
        list = list_of(page);
        if (list != NULL) return list;
        lm_page_to_full(heap, page); /* its blocks are on their way to us */
    }
}

void *lm_heap_refill(lm_heap_t *heap, unsigned size_class) {
    lm_biased_enter(&heap->lock);
    lm_store_relaxed(&heap->slow, heap->slow + 1);
    lm_remote_drain(heap);
    /* The common heap keeps its lists: all calls come here. */
    lm_block_t *block = heap->head[size_class];
    if (block == NULL) block = refill(heap, size_class);
    if (block != NULL) heap->head[size_class] = lm_link_get(block);
    lm_biased_leave(&heap->lock);
    return block != NULL ? block : lm_no_memory();
}

static LM_NOINLINE void *alloc_from_other_page(unsigned size_class) {
    lm_heap_t *heap = lm_heap_get();
    if (LM_UNLIKELY(heap == NULL)) return lm_common_alloc(size_class);
    if (heap->head[size_class] == NULL) { /* starting a heap may have allocated already */
        lm_remote_flush(heap);
        return lm_heap_refill(heap, size_class);
    }
    lm_block_t *block = heap->head[size_class];
    heap->head[size_class] = lm_link_get(block);
    return block;
}

void *lm_block_alloc_slow(size_t bytes) {
    if (LM_UNLIKELY(bytes > LM_BLOCK_MOST)) return lm_large_alloc(bytes, 1, NULL);
    if (LM_UNLIKELY(bytes == 0)) return lm_block_alloc(1);
    unsigned size_class = lm_class_of(bytes);
    lm_heap_t *heap = lm_heap_self;
    lm_page_t *page = heap->current[size_class];
    lm_block_t *block;
    /* The list may be there after all: the worker had hidden it for a moment (idle.c). */
    if (LM_LIKELY(page != NULL) && LM_LIKELY(heap->head[size_class] == NULL) &&
        LM_LIKELY((block = lm_page_take(page)) != NULL)) {
        heap->head[size_class] = lm_link_get(block);
        return block;
    }
    return alloc_from_other_page(size_class);
}

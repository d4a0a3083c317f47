/* perturb.c: fills memory when it is allocated and when it is freed (M_PERTURB, MALLOC_PERTURB_).
 *
 *   malloc   head[class] stays empty ──> slow path ──> one block, filled ──> the program
 *   free     owner: the thread's token + 8 ──> slow path ──> filled ──> page->remote
 *
 * The fast paths do not test for it. While memory is to be filled, a heap's lists are put back into
 * their pages, so every malloc takes the slow path. Its pages have an owner word that is no
 * thread's token, so every free takes the slow path as well. Such a block goes to the page's remote
 * list, as a block of another thread's page does, and a later malloc takes it in. Each thread
 * changes its heap at its next slow path after the value was set, and changes it back after the
 * value became 0.
 *
 *   release   as described here
 *   secure    malloc as described here; freed memory is zero, or was written after its free
 *   debug     fills new and freed memory anyway (fence.c, reuse.c); the value selects other bytes
 *
 * It cannot fill freed objects of more than 32 MiB, whose memory would have to become resident for
 * that, nor objects of first-class heaps that the call names.
 * Invariant: pages of a heap have the heap's token (lm_heap_check).
 */
#include "checks/inner.h"

uint32_t lm_perturb;

#if LOAM_DEBUG

/* A bit for each value that was ever set. Blocks that were freed under a value keep it until they
 * are used again. Atomic. */
static uint64_t perturb_values[4];

bool lm_perturb_filled(unsigned char byte) {
    /* Relaxed: each bit stands alone. */
    return byte == LM_FILL_FREED ||
           (lm_load_relaxed(&perturb_values[byte / 64]) >> byte % 64 & 1) != 0;
}

void lm_perturb_set(int value) {
    unsigned char byte = (unsigned char)value;
    /* Relaxed: a thread that fills with the byte has read lm_perturb after this store, by the
     * release below. */
    if (value != 0)
        (void)__atomic_fetch_or(&perturb_values[byte / 64], (uint64_t)1 << byte % 64,
                                __ATOMIC_RELAXED);
    lm_store_release(&lm_perturb, value != 0 ? (uint32_t)LM_PERTURB_ON | byte : 0);
}

void *lm_perturb_alloc(size_t bytes, unsigned size_class) {
    (void)bytes;
    return lm_block_refill(size_class);
}

bool lm_perturb_free(void *p, lm_page_t *page) {
    (void)p, (void)page;
    return false;
}

#else

static void perturb_give_to(lm_page_t *page, void *token) {
    /* Relaxed: other threads only compare it. */
    lm_store_relaxed(&page->owner, *(uintptr_t *)token);
}

/* Gives a heap of the calling thread the token, so that all its mallocs and frees take the slow
 * path, or again use the fast one. */
static LM_NOINLINE void perturb_change(lm_theap_t *heap, uintptr_t token) {
    LM_ASSERT((token & ~(uintptr_t)LM_TOKEN_PERTURB) == lm_thread_token());
    lm_biased_enter(&heap->lock);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_heap_return_head(heap, c);
        LM_ASSERT(heap->head[c] == NULL);
        heap->holds[c] = LM_HOLDS_OWN;
    }
    lm_foreign_return_all(heap);
    lm_store_relaxed(&heap->token, token); /* relaxed: other threads only compare it */
    lm_page_each(heap, perturb_give_to, &token);
    lm_biased_leave(&heap->lock);
}

static void perturb_settle(lm_theap_t *heap) {
    uintptr_t token = lm_thread_token() | (!LM_SECURE && lm_perturbs() ? LM_TOKEN_PERTURB : 0);
    if (LM_UNLIKELY(heap->token != token)) perturb_change(heap, token);
}

/* Returns the calling thread's heap, brought in line with the current value. Returns NULL iff that
 * heap has ended. */
static lm_theap_t *perturb_settled(void) {
    lm_theap_t *heap = lm_heap_get();
    if (heap == NULL) return NULL;
    perturb_settle(heap);
    if (heap->fheap.own_heap != heap) perturb_settle(heap->fheap.own_heap);
    return heap;
}

void lm_perturb_set(int value) {
    uint32_t word = value != 0 ? (uint32_t)LM_PERTURB_ON | (value & LM_PERTURB_VALUE) : 0;
    /* Relaxed, load and store: if two threads set the value at once, either may stay; each thread
     * reads it at its next slow path. */
    uint32_t before = lm_load_relaxed(&lm_perturb);
    if (value == 0 && before == 0) return;
    lm_store_relaxed(&lm_perturb, word | LM_PERTURB_WAS_ON);
    lm_quiet_end();
    /* A thread that has not allocated yet needs no heap for this call. */
    lm_theap_t *heap = lm_heap_mine() != NULL ? perturb_settled() : NULL;
    /* The blocks on its lists would be handed out without a fill. */
    if (heap != NULL && LM_SECURE) perturb_change(heap, heap->token);
}

/* As lm_page_take, for one block. Returns NULL iff the heap's list is not empty, or the current
 * page has no free block. */
static void *take_one(lm_theap_t *heap, unsigned size_class) {
    lm_page_t *page = heap->current[size_class];
    if (heap->head[size_class] != NULL || page == NULL || page->free == NULL) return NULL;
    LM_ASSERT(page->size_class == size_class && page->in_list == LM_AT_CURRENT);
    lm_block_t *block = page->free;
    page->free = lm_link_get(block);
    /* Release, as in lm_page_take: a fork at this moment finds no block in two places. */
    lm_store_release(&page->live, page->live + 1);
    lm_count_again(page, 1);
    heap->holds[size_class] = LM_HOLDS_OWN;
    return block;
}

static void put_back(lm_theap_t *heap, unsigned size_class) {
    if (heap->head[size_class] == NULL) return;
    lm_biased_enter(&heap->lock);
    lm_heap_return_head(heap, size_class);
    heap->holds[size_class] = LM_HOLDS_OWN;
    lm_biased_leave(&heap->lock);
}

void *lm_perturb_alloc(size_t bytes, unsigned size_class) {
    LM_ASSERT(size_class < LM_CLASSES);
    lm_theap_t *heap = perturb_settled();
    void *p = NULL;
    if (!lm_perturbs()) return lm_block_refill(size_class);
    /* Relaxed: the rate stands alone. */
    if (lm_load_relaxed(&lm_sampling.rate) != 0)
        p = lm_sampled_slow(bytes, size_class);
    else if (heap != NULL)
        p = take_one(heap, size_class);
    if (p == NULL) p = lm_block_refill(size_class);
    if (heap != NULL) {
        put_back(heap, size_class);
        LM_ASSERT(heap->head[size_class] == NULL);
        /* A block that was never used is not zero any more. */
        heap->holds[size_class] = LM_HOLDS_OWN;
    }
    if (p != NULL && !LM_SECURE) lm_perturb_new(p, lm_block_bytes(lm_page_of(p)));
    return p;
}

bool lm_perturb_free(void *p, lm_page_t *page) {
    if (LM_SECURE) {
        (void)perturb_settled();
        return false;
    }
    lm_theap_t *heap = perturb_settled();
    int value = lm_perturb_freed();
    if (!lm_perturbs()) {
        /* The page may just have become an ordinary page of this thread. */
        if (lm_peek(&page->owner) != lm_thread_token()) return false;
        lm_block_free_on(p, page);
        return true;
    }
    if (lm_is_offset(page)) {
        if (lm_offset_is_object(page, p)) memset(p, value, lm_block_usable(page, p));
        return false;
    }
    if (page->kind == LM_KIND_LARGE && p == lm_span_start(page) && page->bytes <= LM_PERTURB_LARGE)
        memset(p, value, page->bytes);
    if (page->kind != LM_KIND_PAGE) return false;
    /* A pointer into a block is a mistake of the program. The fill must not damage the next
     * block. */
    size_t into = (size_t)((char *)p - lm_span_start(page)) % page->block_bytes;
    memset(p, value, page->block_bytes - into);
    lm_bytes_add(heap, 0, page->block_bytes);
    lm_remote_push(heap != NULL ? heap->fheap.own_heap : NULL, page, (lm_block_t *)p,
                   (lm_block_t *)p, 1);
    return true;
}

#endif

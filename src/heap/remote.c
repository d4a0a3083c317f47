/* remote.c: blocks freed by a thread that does not own their page.
 *
 *   thread B: free ──> batch of that page ──(full, evicted, slow path, exit)──┐ one compare-and-swap
 *                                                                             v
 *   page:  remote = [head|tail|count|flags]          first since A looked: page ──> A's `notified`
 *                                                                             │
 *   thread A: slow path ── drain: chain joins page->free, the page wakes up <─┘
 *
 * Counting goes with the word: a page whose outside blocks are all on `remote` is empty, whoever looks.
 * A page marked QUEUED is on a stack or about to be: it is neither released nor orphaned before it was
 * taken from there, so that the pusher may touch it after its compare-and-swap.
 * A batch is handed over when it completes a page. What a thread still holds when it goes to sleep, at
 * most LM_BATCHES batches of 4 KiB, the worker hands over for it (idle.c).
 * Model: tests/protocol/. Stress: tests/stress/.
 */
#include "heap/room.h"

enum { BATCH_BYTES = 4096, BATCH_MOST = 32, POKE_PAGES = 8 };

static uint64_t offset16(const lm_page_t *page, const lm_block_t *block) {
    return (uint64_t)((const char *)block - lm_span_start(page)) >> 4;
}

/* ---- Handing over ---- */

static void notify(lm_page_t *page) {
    lm_heap_t *heap = page->heap;
    lm_page_t *top = lm_load_relaxed(&heap->notified);
    do {
        page->notified = top;
        /* Release: the owner that takes the stack sees the link. */
    } while (!lm_cas_weak_release(&heap->notified, &top, page));
    /* Relaxed: only a hint that a sleeping owner may be holding a lot. */
    if (lm_add_relaxed(&heap->pending, 1) >= POKE_PAGES) lm_purge_poke(true);
}

void lm_remote_push(lm_heap_t *heap, lm_page_t *page, lm_block_t *head, lm_block_t *tail,
                    uint32_t n) {
    uint64_t word = lm_load_relaxed(&page->remote), next;
    do {
        while (LM_UNLIKELY(word & LM_REMOTE_ORPHAN)) {
            if (lm_orphan_free(heap, page, head, tail, n)) return;
            word = lm_load_relaxed(&page->remote);
        }
        uint32_t there = lm_remote_count(word);
        uint64_t last = there > 0 ? (word >> 32) & 0xffff : offset16(page, tail);
        lm_link_set(tail, there > 0 ? lm_remote_at(page, word >> 48) : NULL);
        next = offset16(page, head) << 48 | last << 32 | (uint64_t)(there + n) << 16 |
               LM_REMOTE_QUEUED;
        /* Acquire and release: the owner sees the links, we see which heap the page belongs to. */
    } while (!lm_cas_weak_acq_rel(&page->remote, &word, next));
    if (!(word & LM_REMOTE_QUEUED)) notify(page);
}

uint32_t lm_remote_take(lm_page_t *page, lm_block_t **head, lm_block_t **tail) {
    uint64_t word = lm_load_relaxed(&page->remote);
    do {
        if (lm_remote_count(word) == 0) return 0;
        /* Acquire: the links that the pushers wrote. */
    } while (!lm_cas_weak_acq_rel(&page->remote, &word, word & 0xffff));
    *head = lm_remote_at(page, word >> 48);
    *tail = lm_remote_at(page, word >> 32);
    return lm_remote_count(word);
}

/* ---- Batches ---- */

static void hand_over(lm_heap_t *heap, lm_batch_t *batch) {
    lm_page_t *page = batch->page;
    batch->page = NULL;
    /* We may have become its owner meanwhile, by adopting it. */
    if (lm_load_relaxed(&page->owner) == heap->token) {
        lm_biased_enter(&heap->lock);
        if (page->place == LM_AT_FULL) lm_page_to_partial(heap, page);
        lm_page_put(page, batch->head, batch->tail, batch->count);
        if (page->live == 0 && page->place == LM_AT_PARTIAL) lm_page_release(heap, page);
        lm_biased_leave(&heap->lock);
        return;
    }
    lm_remote_push(heap, page, batch->head, batch->tail, batch->count);
}

void lm_remote_free(lm_heap_t *heap, lm_page_t *page, lm_block_t *block) {
    uint32_t most = BATCH_BYTES / page->block_bytes;
    if (most <= 1) {
        lm_remote_push(heap, page, block, block, 1);
        return;
    }
    lm_batch_t *batch = &heap->batch[lm_span_slice(page) % LM_BATCHES];
    if (batch->page != page) {
        if (batch->page != NULL) hand_over(heap, batch);
        uint64_t word = lm_load_relaxed(&page->remote);
        if (LM_UNLIKELY(word & LM_REMOTE_ORPHAN)) {
            lm_remote_push(heap, page, block, block, 1);
            return;
        }
        uint32_t completes = (uint32_t)page->capacity - lm_remote_count(word);
        batch->limit = most > BATCH_MOST ? BATCH_MOST : most;
        if (batch->limit > completes) batch->limit = completes;
        batch->head = NULL;
        batch->tail = block;
        batch->count = 0;
        batch->page = page;
        heap->batched = true;
    }
    /* Release, here and below: in this order, for the child of a fork, which hands over what it finds. */
    lm_link_set(block, batch->head);
    lm_store_release(&batch->head, block);
    lm_store_release(&batch->count, batch->count + 1);
    if (batch->count >= batch->limit) hand_over(heap, batch);
}

void lm_remote_flush(lm_heap_t *heap) {
    if (LM_LIKELY(!heap->batched)) return;
    heap->batched = false;
    for (unsigned i = 0; i < LM_BATCHES; i++) {
        if (heap->batch[i].page != NULL) hand_over(heap, &heap->batch[i]);
    }
}

void lm_remote_flush_sleeper(lm_heap_t *heap) {
    for (unsigned i = 0; i < LM_BATCHES; i++) {
        lm_batch_t *batch = &heap->batch[i];
        lm_page_t *page = batch->page;
        /* Its own pages are its own: it may be freeing there by now. */
        if (page == NULL || lm_load_relaxed(&page->owner) == heap->token) continue;
        batch->page = NULL;
        lm_remote_push(NULL, page, batch->head, batch->tail, batch->count);
    }
}

/* ---- Taking in ---- */

void lm_remote_drain(lm_heap_t *heap) {
    /* Relaxed: what comes later is taken later. */
    if (LM_LIKELY(lm_load_relaxed(&heap->notified) == NULL)) return;
    /* Acquire: the links of the stack. */
    lm_page_t *page = lm_exchange_acquire(&heap->notified, NULL), *next;
    lm_store_relaxed(&heap->pending, 0);
    for (; page != NULL; page = next) {
        next = page->notified; /* before the flag is cleared: then it may be queued again */
        /* Acquire: as in lm_remote_take. */
        uint64_t word = lm_exchange_acq_rel(&page->remote, 0);
        uint32_t n = lm_remote_count(word);
        if (page->place == LM_AT_FULL) lm_page_to_partial(heap, page);
        if (n > 0)
            lm_page_put(page, lm_remote_at(page, word >> 48), lm_remote_at(page, word >> 32), n);
        if (page->place != LM_AT_PARTIAL) continue;
        if (page->live == 0) {
            lm_page_release(heap, page);
        } else if (!heap->active) {
            lm_page_unlink(heap, page);
            if (lm_orphan_add(page))
                heap->pages--;
            else
                lm_page_to_partial(heap, page);
        }
    }
}

/* ---- The slow half of free ---- */

void lm_block_free_slow(void *p, lm_page_t *page) {
    if (page->kind == LM_KIND_PAGE) {
        lm_heap_t *heap = lm_heap_get();
        lm_block_t *block = (lm_block_t *)p;
        if (LM_LIKELY(heap != NULL))
            lm_remote_free(heap, page, block);
        else
            lm_remote_push(NULL, page, block, block, 1);
    } else if (page->kind == LM_KIND_LARGE) {
        lm_large_free(page, p);
    } else {
        lm_free_foreign(p);
    }
}

void lm_free_foreign(void *p) {
    if (p != NULL) lm_misuse("free of a pointer that loam did not allocate: %p (", p);
}

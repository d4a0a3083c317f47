/* idle.c: what sleeping threads own and others have freed, collected by the worker.
 *
 * A thread that waits in a system call takes nothing in. Once it has run no slow path for a tick, the
 * worker looks through its `notified` stack under its lock: a page whose outside blocks are all on
 * `remote` has no block that the sleeper could still touch, so it goes back to the arena. The sleeper's
 * current pages are left alone: it uses them without the lock.
 * Other pages keep their remote blocks; the heap is told to look for them (left_behind).
 * Runs in the worker: no thread-local storage here.
 */
#include "heap/room.h"

/* Heap lock held, page off the stack but still QUEUED. */
static void collect_page(lm_heap_t *heap, lm_page_t *page) {
    /* Acquire: the pushes, and through lm_page_outside the owner's last frees. */
    uint64_t word = lm_load_acquire(&page->remote);
    for (;;) {
        uint32_t outside = lm_page_outside(page);
        if (outside == lm_remote_count(word) && page->place != LM_AT_CURRENT) break;
        /* No longer queued: the next push tells the heap again. */
        if (lm_cas_weak_acq_rel(&page->remote, &word, word & ~(uint64_t)LM_REMOTE_QUEUED)) {
            heap->left_behind++;
            return;
        }
    }
    lm_store_relaxed(&page->remote, 0); /* nobody has a block left to push */
    lm_page_unlink(heap, page);
    lm_page_discard(page);
    heap->pages--;
}

/* Heap lock held. Without it the owner touches none of its empty partial pages. */
static void release_spares(lm_heap_t *heap) {
    heap->spares = 0;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_node_t *next;
        for (lm_node_t *node = heap->partial[c].first; node != NULL; node = next) {
            lm_page_t *page = LM_CONTAINER(node, lm_page_t, link);
            next = lm_list_after(&heap->partial[c], node);
            if (lm_page_outside(page) == 0) lm_page_release(heap, page);
        }
    }
}

bool lm_idle_collect(void) {
    bool more = false;
    lm_lock_take(&lm_registry_lock);
    for (lm_node_t *node = lm_registry.first; node != NULL; node = lm_list_after(&lm_registry, node)) {
        lm_heap_t *heap = LM_CONTAINER(node, lm_heap_t, link);
        if (lm_load_relaxed(&heap->notified) == NULL && lm_load_relaxed(&heap->spares) == 0) continue;
        if (!lm_lock_try(&heap->lock)) { /* wide awake */
            more = true;
            continue;
        }
        if (!heap->active) {
            lm_remote_drain(heap);
        } else if (heap->refills == heap->refills_seen) {
            /* Acquire: as in lm_remote_drain. */
            lm_page_t *page = lm_exchange_acquire(&heap->notified, NULL), *next;
            lm_store_relaxed(&heap->pending, 0);
            for (; page != NULL; page = next) {
                next = page->notified;
                collect_page(heap, page);
            }
            release_spares(heap);
        } else {
            heap->refills_seen = heap->refills;
            more = true;
        }
        lm_lock_give(&heap->lock);
    }
    lm_lock_give(&lm_registry_lock);
    return more;
}

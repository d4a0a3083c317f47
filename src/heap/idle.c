/* idle.c: what sleeping threads hold and own, collected by the worker.
 *
 * A thread that waits in a system call takes nothing in and gives nothing back. Once it has run no slow
 * path for a tick, the worker does it in its place, under its heap's lock. How much depends on what
 * the owner might do at any moment:
 *
 *   without the lock, the owner     so the worker may
 *   frees blocks in use             release pages without any: all outside blocks are on `remote`
 *   takes blocks from head[c]       nothing more, unless the heap is parked
 *
 * Parking: the worker points the owner's lm_heap_self at the empty heap, then asks the kernel whether the
 * owner sleeps in a call of the program's, and in no signal handler. If so, it is not in the middle of
 * malloc or free, and its next malloc meets an empty list and waits for the lock (unpark in thread.c): so
 * the worker may take lists from head[c] of pages without blocks in use, and send home the blocks of other
 * threads' pages, listed or handed out. If not, the pointer is put back. Nothing on the fast paths pays for
 * it. Where /proc is missing, all this stays until the owner comes back.
 * Runs in the worker: no thread-local storage here.
 */
#include "heap/room.h"

enum { SWEEP_EVERY = 8 /* ticks, of a parked heap's pages */ };

/* Gives a page back that has no block outside but those on `remote`, in its owner's place: nobody has a
 * block left to free or to push. */
static void take_away(lm_heap_t *heap, lm_page_t *page) {
    lm_store_relaxed(&page->remote, 0);
    lm_page_unlink(heap, page);
    lm_page_discard(page, true);
    heap->pages--;
}

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
    take_away(heap, page);
}

static void collect_notified(lm_heap_t *heap) {
    /* Acquire: as in lm_remote_drain. */
    lm_page_t *page = lm_exchange_acquire(&heap->notified, NULL), *next;
    lm_store_relaxed(&heap->pending, 0);
    for (; page != NULL; page = next) {
        next = page->notified;
        collect_page(heap, page);
    }
}

/* Pages that are empty without anybody having noticed: the owner freed their last block while others
 * were on `remote`. Heap lock held. */
static void sweep(lm_heap_t *heap, lm_list_t *list) {
    lm_node_t *next;
    for (lm_node_t *node = list->first; node != NULL; node = next) {
        lm_page_t *page = LM_CONTAINER(node, lm_page_t, link);
        next = lm_list_after(list, node);
        uint64_t word = lm_load_acquire(&page->remote);
        if (lm_page_outside(page) != lm_remote_count(word) || (word & LM_REMOTE_QUEUED)) continue;
        take_away(heap, page);
    }
}

/* false iff the owner may fall asleep later. Heap lock held. */
static bool park(lm_heap_t *heap) {
    if (heap->parked || heap->self == NULL || heap->tid == 0) return true;
    /* Before touching its thread-local storage: it might have ended without a word. */
    if (!lm_os_thread_sleeps(heap->tid, heap->stack_top)) return false;
    /* Sequentially consistent: the owner must not be asked for before it can see this. */
    __atomic_store_n(heap->self, &lm_heap_empty, __ATOMIC_SEQ_CST);
    if (!lm_os_thread_sleeps(heap->tid, heap->stack_top)) {
        lm_store_relaxed(heap->self, heap);
        return false;
    }
    heap->parked = true;
    lm_foreign_return_sleeper(heap);
    return true;
}

static void collect(lm_heap_t *heap) {
    collect_notified(heap);
    if (!heap->parked) return;
    /* Again and again: between two sleeps the owner may have freed without a slow path. Going through
     * all its pages takes longer, and waits. */
    lm_page_trim(heap);
    if (heap->rest++ % SWEEP_EVERY != 0) return;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        sweep(heap, &heap->partial[c]);
        sweep(heap, &heap->full[c]);
    }
}

/* Whether to look into the heap, without its lock: what is misread now is read right at the next tick. */
static bool rests(const lm_heap_t *heap) { return lm_load_relaxed(&heap->slow) == heap->slow_seen; }

enum { AT_ONCE = 32 }; /* heaps for one barrier */

static bool visit_each(lm_heap_t **heaps, unsigned n, bool (*visit)(lm_heap_t *heap)) {
    bool more = false;
    if (n > 0) lm_biased_settle();
    for (unsigned i = 0; i < n; i++) {
        if (heaps[i] == NULL) continue;
        if (lm_biased_outside(&heaps[i]->lock))
            more |= visit(heaps[i]);
        else
            more = true; /* wide awake */
        lm_biased_let(&heaps[i]->lock);
        /* Who has woken up meanwhile waits for one visit at most, not for all. */
        for (unsigned later = i + 1; later < n; later++) {
            if (heaps[later] == NULL || !lm_biased_wanted(&heaps[later]->lock)) continue;
            lm_biased_let(&heaps[later]->lock);
            heaps[later] = NULL;
            more = true;
        }
    }
    return more;
}

/* One pass over all heaps that are chosen. Returns whether some thread had something but did not sleep. */
static bool pass(bool (*choose)(lm_heap_t *heap), bool (*visit)(lm_heap_t *heap)) {
    lm_heap_t *heaps[AT_ONCE];
    unsigned n = 0;
    bool more = false;
    for (lm_node_t *node = lm_registry.first; node != NULL;
         node = lm_list_after(&lm_registry, node)) {
        lm_heap_t *heap = LM_CONTAINER(node, lm_heap_t, link);
        if (!choose(heap)) continue;
        lm_biased_ask(&heap->lock);
        heaps[n++] = heap;
        if (n < AT_ONCE) continue;
        more |= visit_each(heaps, n, visit);
        n = 0;
    }
    return visit_each(heaps, n, visit) || more;
}

static bool active_at_rest(lm_heap_t *heap) {
    return lm_load_relaxed(&heap->active) && rests(heap);
}
/* An idle heap has something to take in only where it was told of it. */
static bool told_or_at_rest(lm_heap_t *heap) {
    return lm_load_relaxed(&heap->active) ? rests(heap) : lm_load_relaxed(&heap->notified) != NULL;
}

static bool hand_over(lm_heap_t *heap) { return heap->active && !park(heap); }

static bool take_in(lm_heap_t *heap) {
    if (!heap->active)
        lm_remote_drain(heap);
    else
        collect(heap);
    return false;
}

/* Notes how far each has come. Returns whether some thread has been busy since the last time. */
static bool note(void) {
    bool busy = false;
    for (lm_node_t *node = lm_registry.first; node != NULL;
         node = lm_list_after(&lm_registry, node)) {
        lm_heap_t *heap = LM_CONTAINER(node, lm_heap_t, link);
        if (!lm_load_relaxed(&heap->active) || rests(heap)) continue;
        heap->slow_seen = lm_load_relaxed(&heap->slow);
        heap->rest = 0;
        busy = true;
    }
    return busy;
}

/* First everybody hands over what belongs to others, then everybody takes in. */
bool lm_idle_collect(bool last) {
    lm_lock_take(&lm_registry_lock); /* so that no fork finds us with blocks in our hands */
    bool left = lm_transfer_empty(last);
    bool more = pass(active_at_rest, hand_over);
    more |= pass(told_or_at_rest, take_in);
    more |= note();
    lm_lock_give(&lm_registry_lock);
    return more || left;
}

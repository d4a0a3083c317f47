/* idle.c: what sleeping threads hold and own, collected by the worker.
 *
 * A thread that waits in a system call takes nothing in and gives nothing back. Once it has run no
 * slow path for a tick, the worker does it in its place, under its heap's lock. How much depends on
 * what the owner might do at any moment:
 *
 *   without the lock, the owner     so the worker may
 *   frees blocks in use             release pages without any: all outside blocks are on `remote`
 *   takes blocks from head[c]       nothing more, unless the heap is parked
 *
 * Parking: the worker points the owner's lm_heap_self at the empty heap, then asks the kernel
 * whether the owner sleeps in a call of the program's, and in no signal handler. If so, it is not
 * in the middle of malloc or free, and its next malloc meets an empty list and waits for the lock
 * (unpark in thread.c): so the worker may take lists from head[c] of pages without blocks in use,
 * and send home the blocks of other threads' pages, listed or handed out. If not, the pointer is
 * put back. Nothing on the fast paths pays for it. Where /proc is missing, all this stays until the
 * owner comes back.
 * Who is short of memory waits for no tick, and does all that in the worker's place, for all heaps
 * at once (due.c). Heaps without a thread that were left with something (thread.c) give it up here
 * after KEEP_TICKS. Runs in the worker: no thread-local storage here.
 */
#include "heap/core.h"

enum {
    SWEEP_EVERY = 8, /* ticks, of a parked heap's pages */
    KEEP_TICKS = 2,
};

/* Gives a page back that has no block outside but those on `remote`, in its owner's place: nobody
 * has a block left to free or to push. */
static void take_away(lm_heap_t *heap, lm_page_t *page) {
    lm_store_relaxed(&page->remote, 0);
    lm_page_unlink(heap, page);
    lm_bytes_page(heap, page, true);
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

static void collect_pages(lm_heap_t *heap, lm_page_t *page) {
    for (lm_page_t *next; page != NULL; page = next) {
        next = page->notified;
        collect_page(heap, page);
    }
}

static void collect_notified(lm_heap_t *heap) {
    collect_pages(heap, heap->coming);
    heap->coming = NULL;
    /* Acquire: as in lm_remote_drain. */
    lm_page_t *page = lm_exchange_acquire(&heap->notified, NULL);
    lm_store_relaxed(&heap->pending, 0);
    collect_pages(heap, page);
}

/* Pages that are empty without anybody having noticed: the owner freed their last block while
 * others were on `remote`. Heap lock held. */
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

static void collect(lm_heap_t *heap) {
    collect_notified(heap);
    if (!heap->parked) return;
    /* Again and again: between two sleeps the owner may have freed without a slow path. Going
     * through all its pages takes longer, and waits. */
    lm_page_trim(heap);
    if (heap->rest++ % SWEEP_EVERY != 0) return;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        sweep(heap, &heap->partial[c]);
        sweep(heap, &heap->full[c]);
    }
}

/* Whether to look into the heap, without its lock: what is misread now is read right at the next
 * tick. */
static bool rests(const lm_heap_t *heap) { return lm_load_relaxed(&heap->slow) == heap->slow_seen; }

enum { AT_ONCE = 32 }; /* heaps for one barrier */

/* Who has woken up meanwhile need not wait for the others. Returns whether somebody has. */
static bool let_those_awake(lm_heap_t **heaps, unsigned n, void (*let)(lm_heap_t *heap)) {
    bool any = false;
    for (unsigned i = 0; i < n; i++) {
        if (heaps[i] == NULL || !lm_biased_wanted(&heaps[i]->lock)) continue;
        let(heaps[i]);
        heaps[i] = NULL;
        any = true;
    }
    return any;
}

static void let(lm_heap_t *heap) { lm_biased_let(&heap->lock); }

static bool visit_each(lm_heap_t **heaps, unsigned n, void (*visit)(lm_heap_t *heap)) {
    bool more = false;
    lm_biased_settle();
    for (unsigned i = 0; i < n; i++) {
        if (heaps[i] == NULL) continue;
        if (lm_biased_outside(&heaps[i]->lock))
            visit(heaps[i]);
        else
            more = true; /* wide awake */
        let(heaps[i]);
        more |= let_those_awake(heaps + i + 1, n - i - 1, let);
    }
    return more;
}

/* ---- Parking ---- */

/* The first half. false iff the owner does not sleep. Heap lock held. */
static bool hide(lm_heap_t *heap) {
    /* Before touching its thread-local storage: it might have ended without a word. */
    if (!lm_os_thread_sleeps(heap->tid, heap->stack_top)) return false;
    /* Sequentially consistent: the owner must not be asked for before it can see this. */
    __atomic_store_n(heap->self, &lm_heap_empty, __ATOMIC_SEQ_CST);
    if (lm_os_thread_sleeps(heap->tid, heap->stack_top)) return true;
    lm_store_relaxed(heap->self, heap->fheap.active_heap);
    return false;
}

static void show(lm_heap_t *heap) {
    lm_store_relaxed(heap->self, heap->fheap.active_heap);
    let(heap);
}

/* Several at a time: to look whether there are new signal handlers, which must come last, takes as
 * long as to look after ten threads. Returns whether some may fall asleep later. */
static bool park_each(lm_heap_t **heaps, unsigned n) {
    bool more = false, looked = false;
    lm_biased_settle();
    for (unsigned i = 0; i < n; i++) {
        lm_heap_t *heap = heaps[i];
        if (heap == NULL) continue;
        bool ours = lm_biased_outside(&heap->lock),
             can = ours && heap->active && !heap->parked && heap->self != NULL && heap->tid != 0;
        if (can && !looked) {
            (void)lm_os_handlers_known(); /* those that go away meanwhile */
            looked = true;
        }
        if (!can || !hide(heap)) {
            heaps[i] = NULL;
            more |= can || !ours;
            let(heap);
        }
        more |= let_those_awake(heaps, i + 1, show);
        more |= let_those_awake(heaps + i + 1, n - i - 1, let);
    }
    bool sure = looked && lm_os_handlers_known();
    for (unsigned i = 0; i < n; i++) {
        if (heaps[i] == NULL) continue;
        if (sure) {
            lm_store_relaxed(&heaps[i]->parked, true);
            lm_foreign_return_sleeper(heaps[i]);
            let(heaps[i]);
        } else {
            show(heaps[i]);
            more = true;
        }
        more |= let_those_awake(heaps + i + 1, n - i - 1, show);
    }
    return more;
}

/* ---- Passes ---- */

/* One over all heaps that are chosen. Returns whether some thread had something but did not
 * sleep. */
static bool pass(bool (*choose)(lm_heap_t *heap), bool (*visit)(lm_heap_t **heaps, unsigned n)) {
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
        more |= visit(heaps, n);
        n = 0;
    }
    if (n > 0) more |= visit(heaps, n);
    return more;
}

/* The heap of the thread that collects, which does not sleep; NULL: the worker collects. Registry's
 * lock held. */
static LM_AT_START const lm_heap_t *collectors;

static bool at_rest_awake(lm_heap_t *heap) {
    return lm_load_relaxed(&heap->active) && rests(heap) && !lm_load_relaxed(&heap->parked) &&
           heap->fheap.special != LM_IS_BRANCH && heap != collectors;
}

/* An idle heap has something to take in only where it was told of it. */
static bool told_or_at_rest(lm_heap_t *heap) {
    return lm_load_relaxed(&heap->active) ? rests(heap) : lm_load_relaxed(&heap->notified) != NULL;
}

static void take_in(lm_heap_t *heap) {
    if (!heap->active)
        lm_remote_drain(heap);
    else
        collect(heap);
}

static bool take_in_each(lm_heap_t **heaps, unsigned n) { return visit_each(heaps, n, take_in); }

static bool kept(lm_heap_t *heap) { return lm_load_relaxed(&heap->kept); }

static bool kept_in_vain(lm_heap_t *heap) {
    if (!kept(heap)) return false;
    /* Relaxed: the next thread that ends there begins anew. */
    unsigned ticks = lm_load_relaxed(&heap->rest);
    lm_store_relaxed(&heap->rest, ticks + 1);
    return ticks >= KEEP_TICKS;
}

/* A page that was about to be told of a free when its thread ended waits with that thread's heap,
 * for the news. */
static bool kept_or_told(lm_heap_t *heap) {
    /* Relaxed: what comes this moment is taken the next time. */
    return kept(heap) ||
           (!lm_load_relaxed(&heap->active) && lm_load_relaxed(&heap->notified) != NULL);
}

static void unkeep(lm_heap_t *heap) {
    if (heap->kept)
        lm_heap_unkeep(heap);
    else if (!heap->active)
        lm_remote_drain(heap);
}

static bool unkeep_each(lm_heap_t **heaps, unsigned n) { return visit_each(heaps, n, unkeep); }

/* How many heaps are being walked, whose pages must stay where they are: in all, and by this
 * thread. */
static unsigned walks; /* atomic */
static LM_TLS unsigned walks_here;

/* Relaxed, these: who looks has taken the registry's lock after who walks a heap has. */
void lm_idle_hold(void) {
    walks_here++;
    (void)lm_add_relaxed(&walks, 1u);
}
void lm_idle_let(void) {
    walks_here--;
    (void)lm_add_relaxed(&walks, (unsigned)-1);
}
void lm_idle_after_fork(void) { lm_store_relaxed(&walks, walks_here); }
static bool held(void) { return lm_load_relaxed(&walks) > 0; }

void lm_idle_unkeep(void) {
    /* In a handler of the program's before fork: the heaps are locked, and not for us. */
    if (lm_fork_here()) return;
    lm_lock_take(&lm_registry_lock);
    if (!held() && !lm_fork_here()) (void)pass(kept_or_told, unkeep_each);
    lm_lock_give(&lm_registry_lock);
}

/* Notes how far each has come. Returns whether some thread has been busy since the last time. */
static bool note(void) {
    bool busy = false;
    for (lm_node_t *node = lm_registry.first; node != NULL;
         node = lm_list_after(&lm_registry, node)) {
        lm_heap_t *heap = LM_CONTAINER(node, lm_heap_t, link);
        if (!lm_load_relaxed(&heap->active) || rests(heap)) continue;
        heap->slow_seen = lm_load_relaxed(&heap->slow);
        lm_store_relaxed(&heap->rest, 0); /* its thread may be ending, which writes it, too */
        busy = true;
    }
    return busy;
}

/* Registry's lock held. First everybody hands over what belongs to others, then everybody takes
 * in. */
static bool collect_all(bool last) {
    bool more = lm_transfer_empty(last);
    more |= pass(at_rest_awake, park_each);
    more |= pass(told_or_at_rest, take_in_each);
    more |= pass(last ? kept : kept_in_vain, unkeep_each);
    lm_common_trim();
    more |= note() || lm_load_relaxed(&lm_heaps_kept) > 0;
    more |= lm_large_let_go(last);
    more |= lm_reuse_rest(last);
    return more;
}

bool lm_idle_collect_alone(bool last) {
    bool more = lm_large_let_go(last);
    return lm_reuse_rest(last) || more;
}

bool lm_idle_collect(bool last) {
    /* So that no fork finds us with blocks in our hands. The worker ends here rather than wait for
     * a thread that waits for its end. */
    if (lm_os_worker_self()) {
        for (uint32_t never = 0; !lm_lock_try(&lm_registry_lock); lm_os_wait(&never, 0, 1))
            lm_purge_stop_here();
    } else {
        lm_lock_take(&lm_registry_lock);
    }
    bool more = !lm_fork_here() && collect_all(last);
    lm_lock_give(&lm_registry_lock);
    return more;
}

void lm_idle_collect_now(void) {
    lm_lock_take(&lm_registry_lock);
    if (held() || lm_fork_here()) { /* a thread that passes has no say over other heaps */
        lm_lock_give(&lm_registry_lock);
        return;
    }
    (void)note();
    /* Whose pages were gone through a tick ago: again. */
    for (lm_node_t *node = lm_registry.first; node != NULL;
         node = lm_list_after(&lm_registry, node)) {
        lm_heap_t *heap = LM_CONTAINER(node, lm_heap_t, link);
        if (lm_load_relaxed(&heap->active)) lm_store_relaxed(&heap->rest, 0);
    }
    collectors = lm_heap_mine();
    (void)collect_all(true);
    collectors = NULL;
    lm_lock_give(&lm_registry_lock);
}

size_t lm_idle_progress(void) {
    size_t sum = 0;
    const lm_heap_t *mine = lm_heap_mine();
    lm_lock_take(&lm_registry_lock);
    for (lm_node_t *node = lm_registry.first; node != NULL;
         node = lm_list_after(&lm_registry, node)) {
        const lm_heap_t *heap = LM_CONTAINER(node, lm_heap_t, link);
        if (heap != mine) sum += lm_load_relaxed(&heap->slow) + 1; /* relaxed: a guess */
    }
    lm_lock_give(&lm_registry_lock);
    return sum;
}

/* idle.c: collects the memory that sleeping threads hold, in the worker.
 *
 * A thread that waits in a system call takes no remote frees in and gives no memory back. Once a
 * thread has run no slow path for a tick, the worker does this in its place, under the heap's lock.
 * How much the worker may do depends on what the owner may do at any moment without the lock:
 *
 *   the owner may                   so the worker may
 *   free blocks in use              release pages with no block in use: all blocks that are not on
 *                                   the page's own list are on `remote`
 *   take blocks from head[c]        do nothing more, unless the heap is parked
 *
 * Parking: the worker points the owner's lm_heap_self at the empty heap. Then it asks the kernel
 * whether the owner sleeps in a system call of the program's, and in no signal handler. If so, the
 * owner is not in the middle of malloc or free, and its next malloc meets an empty list and waits
 * for the lock (thread.c). So the worker may take the lists in head[c] of pages without blocks in
 * use. It also returns blocks of other threads' pages, whether listed or in head[c]. If the owner
 * does not sleep, the worker puts the pointer back. Parking costs the fast paths nothing. Without
 * /proc no heap is parked, and these blocks stay until the owner runs again.
 *
 * A thread that is short of memory waits for no tick: it collects in the worker's place, from all
 * heaps at once. Retired heaps that kept pages (thread.c) give them up here after KEEP_TICKS.
 * What the worker runs here cannot use thread-local storage.
 */
#include "heap/core.h"

enum {
    SWEEP_EVERY = 8, /* ticks from one look at all pages of a parked heap to the next */
    KEEP_TICKS = 2,  /* ticks that a retired heap keeps its current pages */
};

/* Gives a page of the heap back, in its owner's place. All blocks that are not on the page's own
 * list are on `remote`, so that no thread has a block of it to free or to push. Heap lock held. */
static void take_away(lm_theap_t *heap, lm_page_t *page) {
    LM_ASSERT(page->kind == LM_KIND_PAGE && page->heap == heap);
    LM_ASSERT(page->in_list != LM_AT_CURRENT && page->in_list != LM_AT_ORPHANS);
    if (page->in_list != LM_AT_NOWHERE) heap->pages--; /* fork_torn.c counts no page that is lost */
    /* Relaxed: no thread pushes blocks of the page any more. */
    lm_store_relaxed(&page->remote, 0);
    lm_page_unlink(heap, page);
    lm_bytes_page(heap, page, true);
    lm_page_discard(page, true);
}

/* Gives the page back if no block of it is in use, and otherwise leaves its remote frees to the
 * owner. The page is off the stack but still QUEUED. Heap lock held. */
static void collect_page(lm_theap_t *heap, lm_page_t *page) {
    /* Acquire: pairs with the pushes. The acquire in lm_page_outside pairs with the owner's last
     * frees. */
    uint64_t word = lm_load_acquire(&page->remote);
    LM_ASSERT((word & LM_REMOTE_QUEUED) != 0 && (word & LM_REMOTE_ORPHAN) == 0);
    for (;;) {
        uint32_t outside = lm_page_outside(page);
        if (outside == lm_remote_count(word) && page->in_list != LM_AT_CURRENT) break;
        /* Clears QUEUED, so that the next push notifies the heap anew. Release: the thread that
         * pushes then writes `notified` after this thread has read it. Acquire: as for the load. */
        if (lm_cas_weak_acq_rel(&page->remote, &word, word & ~(uint64_t)LM_REMOTE_QUEUED)) {
            heap->left_behind++;
            return;
        }
    }
    take_away(heap, page);
}

/* collect_page for each page of a stack. */
static void collect_pages(lm_theap_t *heap, lm_page_t *page) {
    for (lm_page_t *next; page != NULL; page = next) {
        next = page->notified;
        collect_page(heap, page);
    }
}

/* Collects from all pages that the heap was notified of. Heap lock held. */
static void collect_notified(lm_theap_t *heap) {
    collect_pages(heap, heap->coming);
    heap->coming = NULL;
    /* Acquire: this thread sees the links of the stack. Relaxed for `pending`, which is a hint. */
    lm_page_t *page = lm_exchange_acquire(&heap->notified, NULL);
    lm_store_relaxed(&heap->pending, 0);
    collect_pages(heap, page);
}

/* Gives back the pages of the list that no thread has found empty: the owner freed the last block
 * in use while other blocks were on `remote`. Heap lock held. */
static void sweep(lm_theap_t *heap, lm_list_t *list) {
    lm_node_t *next;
    for (lm_node_t *node = list->first; node != NULL; node = next) {
        lm_page_t *page = LM_CONTAINER(node, lm_page_t, link);
        LM_ASSERT(page->in_list == LM_AT_PARTIAL || page->in_list == LM_AT_FULL);
        next = lm_list_after(list, node);
        /* Acquire: pairs with the pushes. */
        uint64_t word = lm_load_acquire(&page->remote);
        if (lm_page_outside(page) != lm_remote_count(word) || (word & LM_REMOTE_QUEUED)) continue;
        take_away(heap, page);
    }
}

/* Collects from the heap of a thread that rests. Heap lock held. */
static void idle_collect(lm_theap_t *heap) {
    collect_notified(heap);
    if (!heap->parked) return;
    /* Repeated at each tick, because between two sleeps the owner may have freed blocks without a
     * slow path. The walk over all pages takes longer, so it runs every SWEEP_EVERY ticks. */
    lm_page_trim(heap);
    if (heap->rest++ % SWEEP_EVERY != 0) return;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        sweep(heap, &heap->partial[c]);
        sweep(heap, &heap->full[c]);
    }
}

/* Returns whether the heap's owner has run no slow path since the last tick. Heap lock not needed.
 * Relaxed: a heap that is misread now is read right at the next tick. */
static bool rests(const lm_theap_t *heap) {
    return lm_load_relaxed(&heap->slow) == heap->slow_seen;
}

enum { IDLE_AT_ONCE = 32 }; /* heaps whose locks are asked for with one barrier */

/* Lets go of each heap whose owner has woken up and waits for the lock, so that it need not wait
 * for the other heaps. Clears its entry in heaps[]. Returns whether there was one. */
static bool let_those_awake(lm_theap_t **heaps, unsigned n, void (*let)(lm_theap_t *heap)) {
    bool any = false;
    for (unsigned i = 0; i < n; i++) {
        if (heaps[i] == NULL || !lm_biased_wanted(&heaps[i]->lock)) continue;
        let(heaps[i]);
        heaps[i] = NULL;
        any = true;
    }
    return any;
}

static void let(lm_theap_t *heap) { lm_biased_let(&heap->lock); }

/* Calls visit, with the heap's lock held, for each heap whose owner is not inside its lock. The
 * locks were asked for; this function gives them. Returns whether some owner was awake. */
static bool visit_each(lm_theap_t **heaps, unsigned n, void (*visit)(lm_theap_t *heap)) {
    bool more = false;
    lm_biased_settle();
    for (unsigned i = 0; i < n; i++) {
        if (heaps[i] == NULL) continue;
        if (lm_biased_outside(&heaps[i]->lock))
            visit(heaps[i]);
        else
            more = true; /* the owner is inside its lock: it is awake */
        let(heaps[i]);
        more |= let_those_awake(heaps + i + 1, n - i - 1, let);
    }
    return more;
}

/* ---- Parking ---- */

/* The first half of parking: points the owner's lm_heap_self at the empty heap. Returns false, and
 * changes nothing, iff the owner does not sleep. Heap lock held. */
static bool idle_hide(lm_theap_t *heap) {
    LM_ASSERT(lm_load_relaxed(&heap->active) && !lm_load_relaxed(&heap->parked));
    LM_ASSERT(heap->self != NULL && heap->tid != 0);
    /* Asked before the owner's thread-local storage is touched: the thread may have ended without
     * notice. */
    if (!lm_os_thread_sleeps(heap->tid, heap->stack_top)) return false;
    /* Sequentially consistent: the owner can see this store before the kernel is asked about it. */
    __atomic_store_n(heap->self, &lm_heap_empty, __ATOMIC_SEQ_CST);
    if (lm_os_thread_sleeps(heap->tid, heap->stack_top)) return true;
    /* Relaxed: an owner that still reads the empty heap takes the slow path, and waits there. */
    lm_store_relaxed(heap->self, heap->fheap.active_heap);
    return false;
}

/* Ends an attempt to park: puts the owner's lm_heap_self back and gives the heap's lock. */
static void idle_show(lm_theap_t *heap) {
    LM_ASSERT(!lm_load_relaxed(&heap->parked) && heap->self != NULL);
    /* Relaxed: an owner that still reads the empty heap takes the slow path, and waits there. */
    lm_store_relaxed(heap->self, heap->fheap.active_heap);
    let(heap);
}

/* Parks each heap whose owner sleeps. The locks were asked for; this function gives them. It parks
 * several heaps at a time, because the look for new signal handlers, which must come last, takes as
 * long as the look at ten threads. Returns whether some owner may fall asleep later. */
static bool park_each(lm_theap_t **heaps, unsigned n) {
    bool more = false, looked = false;
    lm_biased_settle();
    for (unsigned i = 0; i < n; i++) {
        lm_theap_t *heap = heaps[i];
        if (heap == NULL) continue;
        bool ours = lm_biased_outside(&heap->lock),
             can = ours && heap->active && !heap->parked && heap->self != NULL && heap->tid != 0;
        if (can && !looked) {
            (void)lm_os_handlers_known(); /* sees handlers that are removed before the last look */
            looked = true;
        }
        if (!can || !idle_hide(heap)) {
            heaps[i] = NULL;
            more |= can || !ours;
            let(heap);
        }
        more |= let_those_awake(heaps, i + 1, idle_show);
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
            idle_show(heaps[i]);
            more = true;
        }
        more |= let_those_awake(heaps + i + 1, n - i - 1, idle_show);
    }
    return more;
}

/* ---- Passes ---- */

/* Calls visit for all heaps that choose returns true for, up to AT_ONCE at a time. Asks for their
 * locks; visit gives them. Returns whether some thread had something to collect but did not
 * sleep. */
static bool pass(bool (*choose)(lm_theap_t *heap), bool (*visit)(lm_theap_t **heaps, unsigned n)) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_theap_t *heaps[IDLE_AT_ONCE];
    unsigned n = 0;
    bool more = false;
    LM_EACH_HEAP(heap) {
        if (!choose(heap)) continue;
        LM_ASSERT(n < IDLE_AT_ONCE);
        lm_biased_ask(&heap->lock);
        heaps[n++] = heap;
        if (n < IDLE_AT_ONCE) continue;
        more |= visit(heaps, n);
        n = 0;
    }
    if (n > 0) more |= visit(heaps, n);
    return more;
}

/* Heap of the thread that collects, which does not sleep. NULL while the worker collects. Under the
 * registry's lock. */
static LM_AT_START const lm_theap_t *collectors;

/* Returns whether to try to park the heap. Relaxed, here and in the functions that choose heaps
 * below: a heap that is misread now is chosen at a later tick, or left alone under its lock. */
static bool at_rest_awake(lm_theap_t *heap) {
    return lm_load_relaxed(&heap->active) && rests(heap) && !lm_load_relaxed(&heap->parked) &&
           heap->fheap.special != LM_IS_BRANCH && heap != collectors;
}

/* Returns whether the heap may have remote frees to take in. An inactive heap has some only if it
 * was notified of a page. */
static bool told_or_at_rest(lm_theap_t *heap) {
    return lm_load_relaxed(&heap->active) ? rests(heap) : lm_load_relaxed(&heap->notified) != NULL;
}

/* Takes in what the heap was notified of. Heap lock held. */
static void idle_take_in(lm_theap_t *heap) {
    if (!heap->active)
        lm_remote_drain(heap);
    else
        idle_collect(heap);
}

static bool take_in_each(lm_theap_t **heaps, unsigned n) {
    return visit_each(heaps, n, idle_take_in);
}

static bool idle_kept(lm_theap_t *heap) { return lm_load_relaxed(&heap->kept); }

/* Returns whether the heap has kept its pages for KEEP_TICKS without a thread. Counts a tick. */
static bool kept_in_vain(lm_theap_t *heap) {
    if (!idle_kept(heap)) return false;
    /* Relaxed: the next thread that leaves pages with the heap sets the count to 0. */
    unsigned ticks = lm_load_relaxed(&heap->rest);
    lm_store_relaxed(&heap->rest, ticks + 1);
    return ticks >= KEEP_TICKS;
}

/* Returns whether a heap without a thread has pages: kept ones, or pages on which a remote free was
 * on its way when the thread ended, and that wait in the heap for its notice. */
static bool kept_or_told(lm_theap_t *heap) {
    /* Relaxed: a notice of this moment is taken the next time. */
    return idle_kept(heap) ||
           (!lm_load_relaxed(&heap->active) && lm_load_relaxed(&heap->notified) != NULL);
}

/* Takes the pages from a heap that has no thread. Heap lock held. */
static void unkeep(lm_theap_t *heap) {
    if (heap->kept)
        lm_heap_unkeep(heap);
    else if (!heap->active)
        lm_remote_drain(heap);
}

static bool unkeep_each(lm_theap_t **heaps, unsigned n) { return visit_each(heaps, n, unkeep); }

/* Number of walks of heaps by all threads. During a walk, lm_idle_unkeep and lm_idle_collect_now
 * take no pages. Atomic. Relaxed accesses are enough: a thread that walks takes the registry's lock
 * after it has raised the number, and a thread that reads the number holds that lock. */
static unsigned walks;
/* Number of walks by the calling thread. */
static LM_TLS unsigned walks_here;
/* Number of calls of lm_idle_after_fork. Relaxed accesses are enough: a thread compares only what
 * its own signal handlers add. */
static unsigned walks_forks;

/* Changes the number of the calling thread's walks. A signal handler may fork between the two
 * counts: then the child has counted its walks before the second one. */
static void walks_change(unsigned by) {
    unsigned forks = lm_load_relaxed(&walks_forks);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    walks_here += by;
    (void)lm_add_relaxed(&walks, by);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (lm_load_relaxed(&walks_forks) != forks) lm_store_relaxed(&walks, walks_here);
}

void lm_idle_hold(void) { walks_change(1); }
void lm_idle_let(void) {
    LM_ASSERT(walks_here > 0);
    walks_change((unsigned)-1);
}
void lm_idle_after_fork(void) {
    lm_store_relaxed(&walks, walks_here);
    lm_store_relaxed(&walks_forks, walks_forks + 1);
    /* A thread that does not exist in a torn child was collecting. */
    if (collectors != lm_heap_mine()) collectors = NULL;
}
static bool idle_held(void) { return lm_load_relaxed(&walks) > 0; }

void lm_idle_unkeep(void) {
    /* Inside a fork, in a handler of the program's, the fork holds the locks of the heaps. */
    if (lm_fork_here()) return;
    lm_lock_take(&lm_registry_lock);
    if (!idle_held() && !lm_fork_here()) (void)pass(kept_or_told, unkeep_each);
    lm_lock_give(&lm_registry_lock);
}

/* Notes how many slow paths each owner has run. Returns whether some thread has run one since the
 * last note. */
static bool idle_note(void) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    bool busy = false;
    LM_EACH_HEAP(heap) {
        if (!lm_load_relaxed(&heap->active) || rests(heap)) continue;
        heap->slow_seen = lm_load_relaxed(&heap->slow);
        /* Relaxed: a thread that is ending may write 0 there at this moment, too. */
        lm_store_relaxed(&heap->rest, 0);
        busy = true;
    }
    return busy;
}

/* Collects from all heaps. First all heaps hand over blocks of other threads' pages, and then all
 * take in what was handed over. Returns whether something may be left. */
static bool collect_all(bool last) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    bool more = lm_transfer_empty(last);
    more |= pass(at_rest_awake, park_each);
    more |= pass(told_or_at_rest, take_in_each);
    more |= pass(last ? idle_kept : kept_in_vain, unkeep_each);
    lm_common_trim();
    more |= idle_note() || lm_load_relaxed(&lm_heaps_kept) > 0;
    more |= lm_large_let_go(last);
    more |= lm_reuse_rest(last);
    return more;
}

bool lm_idle_collect_alone(bool last) {
    bool more = lm_large_let_go(last);
    return lm_reuse_rest(last) || more;
}

bool lm_idle_collect(bool last) {
    /* The registry's lock keeps a fork from copying blocks that are on their way. The worker does
     * not wait for the lock: its holder may wait for the worker's end. */
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
    if (idle_held() || lm_fork_here()) { /* a thread that passes a fork may not touch other heaps */
        lm_lock_give(&lm_registry_lock);
        return;
    }
    (void)idle_note();
    /* With 0, a parked heap's pages are swept now, even if they were swept a tick ago. */
    LM_EACH_HEAP(heap) {
        if (lm_load_relaxed(&heap->active)) lm_store_relaxed(&heap->rest, 0);
    }
    collectors = lm_heap_mine();
    (void)collect_all(true);
    collectors = NULL;
    lm_lock_give(&lm_registry_lock);
}

size_t lm_idle_progress(void) {
    size_t sum = 0;
    const lm_theap_t *mine = lm_heap_mine();
    lm_lock_take(&lm_registry_lock);
    LM_EACH_HEAP(heap) {
        if (heap != mine) sum += lm_load_relaxed(&heap->slow) + 1; /* relaxed: a guess is enough */
    }
    lm_lock_give(&lm_registry_lock);
    return sum;
}

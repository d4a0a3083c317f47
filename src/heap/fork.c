/* fork.c: what a fork does to the heaps of the process that forks, and to those of the child.
 *
 *   before, one thread       no lock is taken, and signal handlers may fork (decision 0029)
 *   before, several threads  the forking thread holds every lock, in the order of locks.c, until
 *                            the fork is done. A thread that the fork waits for meanwhile
 *                            passes the locks (os/lock.h)
 *   before, in a handler     if a signal handler forks that has interrupted its own thread in the
 *                            heap, no lock is taken: the thread holds what the fork would wait for
 *   after, parent            the locks are given
 *   after, child             the locks are free. The heaps of threads that the child does not have
 *                            are retired as on thread exit, with their counts of live blocks made
 *                            anew. If other threads were not stopped: fork_torn.c
 *
 * It cannot see the middle of another thread's fast path, which takes no lock. If another thread
 * was in the middle of a free(), the child loses that one block at worst. Invariant in the child:
 * each heap is the calling thread's, the common heap, or idle; and no lock is taken.
 * Decision 0038.
 */
#include "heap/core.h"
#include "heap/locks.h"

/* The forking program has one thread. That thread holds the locks that it has taken, perhaps below
 * the signal handler that forks, and the worker leaves nothing half changed in the child (decision
 * 0029). Written before the fork, read after it in parent and child. */
static bool forks_alone;
/* The number of the process, a child, in which a handler of the program's has had the heap repaired
 * (lm_fork_repair) before heaps_after_fork_in_child. That handler may fork as well. 0: none. */
static unsigned fork_repaired;

/* ---- Before, and in the parent ---- */

/* A fork asks this before it takes any lock: it could wait for other threads, and these for a lock
 * that the calling thread holds below the handler. If the fork comes to that lock itself,
 * lm_lock_hold finds that the calling thread holds it. */
bool lm_heap_is_inside(void) { return lm_fork_passes() || lm_locks_any_is_mine(); }

static void heaps_before_fork(void) {
    forks_alone = lm_purge_alone();
    if (forks_alone || lm_fork_again() || lm_heap_is_inside()) return;
    if (!lm_locks_hold(lm_os_ms() + LM_FORK_PATIENCE_MS)) {
        lm_locks_let();
        return;
    }
    const lm_theap_t *mine = lm_heap_mine();
    unsigned tid = mine != NULL ? mine->tid : 0;
    if (tid == 0 && lm_purge_allowed()) tid = lm_port_thread_id();
    lm_fork_begin(lm_purge_allowed() ? tid : 0);
}

static void heaps_after_fork_in_parent(void) {
    if (!forks_alone && lm_fork_end()) lm_locks_let();
}

/* ---- In the child ---- */

/* Sets page->live by the length of the page's free list, because its thread may have stopped
 * between the two. full: the page is in the list of full pages. */
static void count_anew(lm_page_t *page, bool full) {
    LM_ASSERT((page->in_list == LM_AT_FULL) == full);
    LM_ASSERT(full || page->bias == 0);
    uint32_t n = 0;
    for (lm_block_t *block = page->free; block != NULL && n < page->carved;
         block = lm_link_get(block))
        n++;
    page->live = page->carved - n - (full ? page->bias : 0);
}

/* Retires the heap, or branch, of a thread that the child does not have. */
static void end_in_child(lm_theap_t *heap) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    heap->self = NULL;
    heap->parked = false;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (heap->current[c] != NULL) count_anew(heap->current[c], false);
        lm_list_t *list = &heap->partial[c];
        for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n)) {
            count_anew(LM_CONTAINER(n, lm_page_t, link), false);
        }
        list = &heap->full[c];
        for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n)) {
            count_anew(LM_CONTAINER(n, lm_page_t, link), true);
        }
    }
    if (heap->fheap.special == LM_IS_BRANCH) {
        lm_branch_ends(heap);
        return;
    }
    lm_heap_retire(heap, false);
    lm_branch_forget_all(heap); /* the walk over all heaps ends the branches */
    lm_heap_idle_add(heap);
}

/* Returns the blocks of other pages that a dead thread held to their pages, as far as its lists are
 * whole. */
static void end_foreign(lm_theap_t *heap) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_quarantine_return(heap);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_block_t *block = heap->foreign[c].first, *next;
        heap->foreign[c].first = NULL;
        heap->foreign[c].granted = heap->foreign[c].room = 0;
        for (; block != NULL && lm_page_of(block)->size_class >= c; block = next) {
            next = lm_link_get(block);
            lm_remote_push(NULL, lm_page_of(block), block, block, 1);
        }
    }
    heap->foreign_bytes = 0;
}

/* Puts a page that is marked QUEUED on its heap's stack: a dead thread may have marked the page and
 * not notified the heap. All stacks were emptied before. */
static void notify_again(lm_page_t *page, void *context) {
    (void)context;
    if (page->kind != LM_KIND_PAGE || !(page->remote & LM_REMOTE_QUEUED)) return;
    page->notified = page->heap->notified;
    page->heap->notified = page;
}

/* Returns whether the heap, or branch, belongs to a thread that the child does not have. */
static bool not_here(const lm_theap_t *heap) {
    const lm_theap_t *of = heap->fheap.own_heap;
    return (heap->active || heap->fheap.special == LM_IS_BRANCH) && of != NULL &&
           of != lm_heap_mine() && of != &lm_heap_common;
}

/* Frees the locks that the worker may have held in the process from which this one was copied.
 * collecting: see lm_purge_break_locks. A worker that collects holds the registry's lock or waits
 * for it. If a fork has taken that lock, the worker holds none, and the fork has all. */
static void break_locks(bool collecting) {
    if (!collecting || lm_lock_of_fork(&lm_registry_lock)) return;
    if (lm_sites_fork_lock() != NULL) lm_lock_reset(lm_sites_fork_lock());
    lm_lock_reset(lm_orphan_fork_lock());
    lm_lock_reset(lm_offset_fork_lock());
    lm_transfer_after_fork();
    lm_lock_reset(&lm_common_lock);
    lm_lock_reset(&lm_registry_lock);
    LM_EACH_HEAP(heap) lm_store_relaxed(&heap->lock.asked, 0);
}

/* Notes the calling thread's number in the child. The heap's lock, which the thread may hold below
 * a handler, is not needed: only the worker reads the number, and the child has no worker yet. */
static void number_anew(void) {
    lm_theap_t *mine = lm_heap_mine();
    if (mine != NULL && mine->tid != 0) mine->tid = lm_port_thread_id();
}

/* In the child of a process with one thread. */
static void after_fork_alone(void) {
    lm_span_after_fork_alone();
    lm_os_judge_after_fork();
    lm_os_message_after_fork();
    number_anew();
}

/* In the child of a process with several threads. */
static void after_fork_of_many(void) {
    lm_fork_kind_t kind = lm_fork_child();
    if (kind == LM_FORK_TORN) {
        lm_heap_after_torn_fork();
        number_anew();
        lm_sampled_after_fork();
        return;
    }
    if (kind == LM_FORK_PASSED) lm_heap_after_passed_fork();
    lm_span_after_fork();
    lm_lock_reset(lm_orphan_fork_lock());
    lm_lock_reset(lm_sampled_fork_lock());
    lm_lock_reset(lm_offset_fork_lock());
    if (lm_sites_fork_lock() != NULL) lm_lock_reset(lm_sites_fork_lock());
    lm_os_judge_after_fork();
    lm_transfer_after_fork();
    lm_fheap_after_fork();
    lm_idle_after_fork();
    lm_lock_reset(&lm_common_lock);
    LM_ASSERT(lm_lock_of_fork(&lm_registry_lock));
    /* The registry stays locked to the end, so that a worker that starts meanwhile waits there. */
    LM_EACH_HEAP(heap) {
        heap->lock = (lm_biased_t){0, 0};
        heap->notified = heap->coming = NULL;
    }
    lm_span_visit(notify_again, NULL);
    LM_EACH_HEAP(heap) {
        if (!not_here(heap)) continue;
        lm_reuse_interrupted();
        end_foreign(heap);
    }
    lm_theap_t *mine = lm_heap_mine();
    lm_unseen_after_fork(mine);
    LM_EACH_HEAP(heap) {
        if (not_here(heap)) end_in_child(heap);
        if (heap->kept) lm_heap_unkeep(heap); /* the child may never start a thread for it */
    }
    lm_lock_give(&lm_registry_lock);
    if (mine != NULL && mine->self != NULL) lm_heap_be_known(mine);
    lm_sampled_after_fork();
    lm_port_after_fork(true);
}

static void heaps_after_fork_in_child(void) {
    if (forks_alone) {
        after_fork_alone();
        lm_sampled_after_fork();
    } else if (fork_repaired == 0 || fork_repaired != lm_os_process()) {
        after_fork_of_many();
    }
    fork_repaired = 0;
}

/* The program's child handlers may run before this file's, and allocate. Called inside an operation
 * of the heap, before that operation holds a lock. */
static void repair_early(void) {
    fork_repaired = lm_os_process();
    after_fork_of_many();
}

void lm_heap_fork_boot(void) {
    LM_ASSERT(lm_fork_repair == NULL && lm_purge_break_locks == NULL);
    lm_fork_repair = repair_early;
    lm_purge_break_locks = break_locks;
    lm_thread_on_fork(heaps_before_fork, heaps_after_fork_in_parent, heaps_after_fork_in_child);
}

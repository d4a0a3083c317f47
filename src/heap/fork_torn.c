/* fork_torn.c: the child of a fork during which other threads changed the heap.
 *
 *   one thread passed   (os/lock.h) All other threads were stopped. What that thread was changing
 *                       is given up, and everything else is whole
 *   none was stopped    A signal handler that has interrupted its own thread in malloc or free
 *                       forks in a program with several threads: a thread that the fork would wait
 *                       for may wait for this one. POSIX lets the child call little but exec and
 *                       _exit. This file keeps these calls from hanging, and the fork handlers of
 *                       libraries, setuid, and a free by libc. Mostly malloc works, too
 *
 *   a lock is free                  what it protects is whole
 *   the calling thread holds it     the thread goes on when the handler returns, and finds the
 *                                   state that it left
 *   another thread was inside       the lock is broken, and what it protects is given up or made
 *                                   anew
 *
 * A heap is given up if its thread was in the middle of it: its pages belong to no thread and are
 * in no list from now on, and blocks that are freed there are lost. If no thread was stopped, the
 * heaps of all threads that the child does not have are given up. So are the lists of the calling
 * thread's heap if the worker was changing them.
 *
 * It cannot give the lost memory back, and it cannot see a thread in the middle of a first-class
 * heap's lists. Invariant afterwards: no lock is held by a thread that the child does not have, and
 * no page in use belongs to one.
 */
#include "heap/core.h"

/* Empties all lists of a heap, which may be half changed. The heap's pages still point to it. */
static void forget_lists(lm_theap_t *heap) {
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        heap->head[c] = NULL;
        heap->current[c] = NULL;
        heap->partial[c].first = heap->full[c].first = NULL;
        heap->foreign[c].first = NULL;
        heap->foreign[c].granted = heap->foreign[c].room = 0;
        heap->foreign[c].shared = 0;
        heap->holds[c] = LM_HOLDS_OWN;
    }
    heap->foreign_bytes = 0;
    heap->notified = heap->coming = NULL;
    heap->pages = heap->trim_at = 0;
    heap->vacant = 0;
}

/* Which lists are given up. */
typedef struct torn {
    /* mine: the calling thread's heap, or NULL. own: that heap if its lists are given up; otherwise
     * NULL. */
    const lm_theap_t *mine, *own;
    /* All heaps of other threads; if false, only those whose thread is inside the lock. */
    bool others;
    /* The lists of the common heap, of offset.c, of orphan.c. */
    bool common, offset, orphans;
} torn_t;

/* Returns whether the calling thread holds the lock below its signal handler. */
static bool has(const lm_lock_t *lock) { return lm_lock_is_mine(lock) && !lm_lock_of_fork(lock); }

/* Returns whether only the calling thread can be inside the heap's lock. */
static bool is_its(const torn_t *torn, const lm_theap_t *heap) {
    const lm_theap_t *own = heap->fheap.own_heap;
    if (heap == &lm_heap_common) return has(&lm_common_lock);
    if (own == NULL) return has(&lm_registry_lock);
    return own == torn->mine; /* not a late branch (fheap/branch.c): its lock is not in reach */
}

/* Returns whether the heap's lists are given up. */
static bool forgets(const torn_t *torn, const lm_theap_t *heap) {
    if (heap == &lm_heap_common) return torn->common;
    if (heap == lm_offset_heap()) return torn->offset;
    if (is_its(torn, heap)) return heap == torn->own;
    return torn->others || heap->lock.inside != 0;
}

/* Takes a page out of a list that is given up. A page of another thread loses its owner. */
static void forget_page(lm_page_t *page, void *context) {
    const torn_t *torn = (const torn_t *)context;
    if (page->kind != LM_KIND_PAGE || page->heap == NULL) return;
    if (page->in_list == LM_AT_ORPHANS) {
        if (torn->orphans) page->in_list = LM_AT_NOWHERE;
    } else if (forgets(torn, page->heap)) {
        page->in_list = LM_AT_NOWHERE;
        if (page->owner > LM_OWNER_COMMON && page->heap != torn->own)
            lm_store_relaxed(&page->owner, LM_OWNER_NONE);
    }
}

/* Frees the heap's lock, unless the calling thread may hold it, and gives the heap up if need
 * be. */
static void forget_heap(lm_theap_t *heap, const torn_t *torn) {
    bool forget = forgets(torn, heap);
    lm_store_relaxed(&heap->lock.asked, 0);
    if (!is_its(torn, heap)) lm_store_relaxed(&heap->lock.inside, 0);
    if (!forget) return;
    forget_lists(heap);
    if (heap == &lm_heap_common || heap == torn->own) return;
    LM_ASSERT(heap != torn->mine);
    heap->self = NULL;
    heap->parked = heap->kept = heap->active = false;
    heap->token = LM_OWNER_NONE;
}

/* Breaks the locks of the core and gives up what they protect. Fills in common, offset and
 * orphans. */
static void fork_torn_forget(torn_t *torn) {
    LM_ASSERT(torn->own == NULL || torn->own == torn->mine);
    bool inside = lm_heap_common.lock.inside != 0;
    torn->common =
        lm_lock_break(&lm_common_lock) || (inside && !torn->others && !has(&lm_common_lock));
    torn->offset = lm_lock_break(lm_offset_fork_lock());
    torn->orphans = lm_lock_break(lm_orphan_fork_lock());
    lm_span_after_torn_fork(forget_page, torn);
    lm_transfer_after_torn_fork();
    if (torn->offset) forget_lists(lm_offset_heap());
    if (torn->orphans) lm_orphan_forget();
    LM_EACH_HEAP(heap) forget_heap(heap, torn);
}

void lm_heap_after_passed_fork(void) {
    LM_ASSERT(lm_lock_of_fork(&lm_registry_lock));
    torn_t torn = {.mine = lm_heap_mine()};
    fork_torn_forget(&torn);
    lm_heap_memory_after_torn_fork(); /* the thread may have passed the registry's lock */
}

void lm_heap_after_torn_fork(void) {
    /* If the calling thread holds the registry's lock below the handler, it is in a walk over all
     * heaps. The walk goes on later, and needs the lists as they are. */
    torn_t torn = {.mine = lm_heap_mine(), .others = !lm_lock_is_mine(&lm_registry_lock)};
    const lm_theap_t *mine = torn.mine;
    /* If another thread held the registry's lock, it may be the worker, while it changed this
     * heap's lists. */
    bool broken = lm_lock_break(&lm_registry_lock);
    if (broken && mine != NULL && mine->lock.asked != 0 && mine->lock.inside == 0) torn.own = mine;
    fork_torn_forget(&torn);
    if (!lm_lock_is_mine(&lm_registry_lock)) {
        lm_lock_take(&lm_registry_lock);
        if (broken) lm_heap_memory_after_torn_fork();
        lm_unseen_after_fork(lm_heap_mine());
        lm_lock_give(&lm_registry_lock);
    }
    (void)lm_lock_break(lm_sampled_fork_lock());
    if (lm_sites_fork_lock() != NULL) (void)lm_lock_break(lm_sites_fork_lock());
    lm_fheap_after_torn_fork();
    lm_idle_after_fork();
    lm_os_judge_after_fork();
    lm_port_after_fork(true);
}

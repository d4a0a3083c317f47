/* fork_torn.c: the child of a fork during which other threads changed the heap.
 *
 *   one was passing    (os/lock.h) All others were stopped. What the one had in its hands is
 *                      given up, and the rest is whole
 *   none was stopped   A signal handler has interrupted its own thread in malloc or free, and forks
 *                      in a program with several threads: what it would wait for may wait for it.
 *                      POSIX lets such a child call little but exec and _exit. This file keeps that
 *                      from hanging: the fork handlers of others, setuid, a free by libc. Mostly
 *                      malloc works, too
 *
 *   a lock is free                what it protects is whole
 *   the thread itself holds it    it goes on when the handler returns, and finds what it left
 *   another thread was inside     the lock is broken, and what it protects is given up or made anew
 *
 * A heap whose thread was in the middle of it is given up: its pages are no thread's from now on,
 * in no list, and what is freed in them is lost. If no thread was stopped, all heaps of threads
 * that the child has not are, and the calling thread's own lists as well if the worker was
 * changing them.
 *
 * It cannot give that memory back, and it cannot see a thread in the middle of a first-class
 * heap's lists. Invariant afterwards: no lock is taken by a thread that is not there, and no page
 * in use belongs to one.
 */
#include "heap/core.h"

/* A heap whose lists are not to be trusted. Its pages point to it still, and to nothing else. */
static void forget_lists(lm_heap_t *heap) {
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

/* What is to be forgotten. */
typedef struct torn {
    const lm_heap_t *mine,
        *own;    /* the calling thread's heap; the same if its lists are forgotten, or NULL */
    bool others; /* all heaps of other threads; otherwise those whose thread is inside */
    bool common, offset, orphans;
} torn_t;

static bool forgets(const torn_t *torn, const lm_heap_t *heap) {
    if (heap == &lm_heap_common) return torn->common;
    if (heap == lm_offset_heap()) return torn->offset;
    if (heap->fheap.own_heap == torn->mine && torn->mine != NULL) return heap == torn->own;
    return torn->others || heap->lock.inside != 0;
}

static void forget_page(lm_page_t *page, void *context) {
    const torn_t *torn = (const torn_t *)context;
    if (page->kind != LM_KIND_PAGE || page->heap == NULL) return;
    if (page->place == LM_AT_ORPHANS) {
        if (torn->orphans) page->place = LM_AT_NOWHERE;
    } else if (forgets(torn, page->heap)) {
        page->place = LM_AT_NOWHERE;
        if (page->owner > LM_OWNER_COMMON && page->heap != torn->own)
            lm_store_relaxed(&page->owner, LM_OWNER_NONE);
    }
}

static void forget_heap(lm_heap_t *heap, const torn_t *torn) {
    bool forget = forgets(torn, heap);
    lm_store_relaxed(&heap->lock.asked, 0);
    if (torn->mine == NULL || heap->fheap.own_heap != torn->mine)
        lm_store_relaxed(&heap->lock.inside, 0);
    if (!forget) return;
    forget_lists(heap);
    if (heap == &lm_heap_common || heap == torn->own) return;
    heap->self = NULL;
    heap->parked = heap->kept = heap->active = false;
    heap->token = LM_OWNER_NONE;
}

static void forget(torn_t *torn) {
    bool inside = lm_heap_common.lock.inside != 0;
    torn->common = lm_lock_break(&lm_common_lock) || (inside && !torn->others);
    torn->offset = lm_lock_break(lm_offset_fork_lock());
    torn->orphans = lm_lock_break(lm_orphan_fork_lock());
    lm_span_after_torn_fork(forget_page, torn);
    lm_transfer_after_torn_fork();
    if (torn->offset) forget_lists(lm_offset_heap());
    if (torn->orphans) lm_orphan_forget();
    for (lm_node_t *n = lm_registry.first; n != NULL; n = lm_list_after(&lm_registry, n))
        forget_heap(LM_CONTAINER(n, lm_heap_t, link), torn);
}

void lm_heap_after_passed_fork(void) {
    torn_t torn = {.mine = lm_heap_mine()};
    forget(&torn);
}

void lm_heap_after_torn_fork(void) {
    /* Below the handler, a walk over all heaps may go on: then it needs their lists as they are. */
    torn_t torn = {.mine = lm_heap_mine(), .others = !lm_lock_is_mine(&lm_registry_lock)};
    const lm_heap_t *mine = torn.mine;
    /* Another thread that was in the registry may be the worker, with this heap in its hands. */
    if (lm_lock_break(&lm_registry_lock) && mine != NULL && mine->lock.asked != 0 &&
        mine->lock.inside == 0)
        torn.own = mine;
    forget(&torn);
    (void)lm_lock_break(lm_sampled_fork_lock());
    if (lm_sites_fork_lock() != NULL) (void)lm_lock_break(lm_sites_fork_lock());
    lm_whole_after_torn_fork();
    lm_idle_after_fork();
    lm_os_judge_after_fork();
    lm_port_after_fork(true);
}

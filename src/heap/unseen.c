/* unseen.c: heaps of threads whose end the system does not report.
 *
 * A thread's heap becomes idle in a destructor of a pthread key (os/thread.c). A process has 1,024
 * keys. If the program has taken all of them, a heap would stay with a thread that is gone, and
 * each new thread would make another heap. So these heaps wait in a list, and each thread that
 * needs a heap first looks at a few of them:
 *
 *   the token is the calling thread's   the owner is gone: its control block is this thread's now
 *   the kernel knows no such thread     the owner is gone
 *   otherwise                           the heap goes to the end of the list
 *
 * If the owner is gone, the calling thread takes the heap's pages over, page by page if the token
 * differs, and ends the heap as its owner would have. Each new thread looks at four heaps and adds
 * at most one, so that the list has at most a third more heaps than live threads. It takes no lock
 * of the loader or of libc (docs/decisions/0031).
 *
 * It cannot end the heaps of the last threads of a program that starts no more threads. It cannot
 * tell that a thread is gone while its number belongs to another thread of the process that has no
 * heap; it looks again later. Invariant: the heaps in the list are active, and no thread allocates
 * from them except their owner, if it lives.
 */
#include "heap/core.h"

enum { UNSEEN_LOOKS = 4 }; /* heaps that a thread looks at before it gets a heap */

lm_theap_t *lm_unseen;
/* The last heap of the list that begins at lm_unseen and is linked by next_idle. Under the
 * registry's lock, as are the links. lm_unseen is written under that lock. */
static LM_AT_START lm_theap_t *unseen_last;

/* Adds a heap to the end of the list. */
static void append(lm_theap_t *heap) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    LM_ASSERT(heap->fheap.own_heap == heap && heap->self == NULL);
    heap->next_idle = NULL;
    if (lm_unseen == NULL)
        lm_store_relaxed(&lm_unseen, heap); /* relaxed: readers without the lock only guess */
    else
        unseen_last->next_idle = heap;
    unseen_last = heap;
}

void lm_unseen_add(lm_theap_t *heap) {
    LM_ASSERT(heap == lm_heap_mine());
    heap->tid = lm_heap_tid();
    lm_lock_take(&lm_registry_lock);
    append(heap);
    lm_lock_give(&lm_registry_lock);
}

/* Makes the calling thread the owner of all pages of a list. Relaxed: no other thread has the
 * token. */
static void own_list(const lm_list_t *list, uintptr_t token) {
    for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n))
        lm_store_relaxed(&LM_CONTAINER(n, lm_page_t, link)->owner, token);
}

/* Makes the calling thread the owner of a heap and its pages. Relaxed: no other thread has the
 * token. */
static void unseen_own(lm_theap_t *heap, uintptr_t token) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_biased_ask(&heap->lock);
    lm_biased_settle();
    lm_biased_wait(&heap->lock);
    heap->token = token;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (heap->current[c] != NULL) lm_store_relaxed(&heap->current[c]->owner, token);
        own_list(&heap->partial[c], token);
        own_list(&heap->full[c], token);
    }
    lm_biased_let(&heap->lock);
}

/* Makes the calling thread the owner of a dead thread's heap and of its branches of first-class
 * heaps. */
static void own_all(lm_theap_t *dead) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    LM_ASSERT(dead->fheap.own_heap == dead && dead->self == NULL);
    uintptr_t token = lm_thread_token();
    LM_EACH_HEAP(heap) {
        if (heap->fheap.own_heap == dead && heap->token == dead->token && heap != dead)
            unseen_own(heap, token);
    }
    unseen_own(dead, token);
}

/* Looks at the first heap of the list. If its thread is gone, takes the heap off the list and
 * returns it. Otherwise moves the heap to the end and returns NULL. */
static lm_theap_t *unseen_look(void) {
    lm_lock_take(&lm_registry_lock);
    lm_theap_t *heap = lm_unseen;
    if (heap != NULL) {
        /* Relaxed: readers without the lock only guess. */
        lm_store_relaxed(&lm_unseen, heap->next_idle);
        bool same = lm_heap_plain_token(heap) == lm_thread_token();
        if (!same && (heap->tid == 0 || !lm_purge_allowed() || !lm_os_thread_gone(heap->tid))) {
            append(heap);
            heap = NULL;
        } else if (!same) {
            own_all(heap);
        }
    }
    lm_lock_give(&lm_registry_lock);
    return heap;
}

LM_COLD void lm_unseen_end_some(void) {
    /* Inside a fork, in a handler of the program's, the fork holds the locks of the heaps. */
    if (lm_fork_here()) return;
    for (int i = 0; i < UNSEEN_LOOKS; i++) {
        lm_theap_t *heap = unseen_look();
        if (heap != NULL) lm_heap_end_in_place_of(heap);
    }
}

void lm_unseen_after_fork(lm_theap_t *own_heap) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    LM_ASSERT(own_heap == lm_heap_mine());
    /* A signal handler that interrupts the heap's start may fork before the heap is in the list. */
    const lm_theap_t *heap = lm_unseen;
    while (heap != NULL && heap != own_heap) heap = heap->next_idle;
    lm_store_relaxed(&lm_unseen, NULL); /* relaxed: the process has one thread */
    if (heap == NULL) return;
    own_heap->tid = lm_purge_allowed() ? lm_port_thread_id() : 0;
    append(own_heap);
}

/* unseen.c: heaps of threads whose end nobody reports.
 *
 * A thread's heap becomes idle in a destructor of a pthread key (os/thread.c). A process has 1,024
 * keys. Where the program has taken all of them, a heap would stay with a thread that is gone, and
 * each new thread would make another. So such heaps wait in a list, and each thread that needs a
 * heap first looks at a few of them:
 *
 *   same token        the thread that owned it is gone: its control block is the calling thread's now
 *   no such thread    the same: the kernel does not know its number any more
 *   otherwise         it goes to the end of the list
 *
 * Then the calling thread takes the heap's pages over, word by word where the token differs, and
 * ends the heap as its owner would have. A new thread that looks at four heaps and adds one keeps
 * the list at a third more than what lives. No lock of the loader or of libc is taken
 * (docs/decisions/0031).
 *
 * It cannot end the heaps of the last threads of a program that starts no more. Nor can it tell
 * that a thread is gone if its number belongs to another thread of the process that has no heap; it
 * looks again later. Invariant: the heaps in the list are active, and no thread but their owner, if
 * it lives, allocates from them.
 */
#include "heap/core.h"

enum { LOOKS = 4 };

lm_heap_t *lm_unseen;
/* Under the registry's lock, as are lm_unseen and the links, `next_idle`, of heaps in the list. */
static LM_AT_START lm_heap_t *last;

/* Registry's lock held. */
static void append(lm_heap_t *heap) {
    heap->next_idle = NULL;
    if (lm_unseen == NULL)
        lm_store_relaxed(&lm_unseen, heap); /* relaxed: as in lm_unseen_end */
    else
        last->next_idle = heap;
    last = heap;
}

void lm_unseen_add(lm_heap_t *heap) {
    heap->tid = lm_heap_tid();
    lm_lock_take(&lm_registry_lock);
    append(heap);
    lm_lock_give(&lm_registry_lock);
}

static void own_list(const lm_list_t *list, uintptr_t token) {
    for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n))
        lm_store_relaxed(&LM_CONTAINER(n, lm_page_t, link)->owner, token);
}

/* Makes the pages of one heap the calling thread's. Relaxed: no thread but this one has the
 * token. */
static void own(lm_heap_t *heap, uintptr_t token) {
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

/* The same for a thread's heap and its branches of first-class heaps. Registry's lock held. */
static void own_all(lm_heap_t *dead) {
    uintptr_t token = lm_thread_token();
    for (lm_node_t *n = lm_registry.first; n != NULL; n = lm_list_after(&lm_registry, n)) {
        lm_heap_t *heap = LM_CONTAINER(n, lm_heap_t, link);
        if (heap->fheap.own_heap == dead && heap->token == dead->token && heap != dead)
            own(heap, token);
    }
    own(dead, token);
}

/* Takes the first heap off the list. Returns it if its thread is gone, and NULL otherwise. */
static lm_heap_t *look(void) {
    lm_lock_take(&lm_registry_lock);
    lm_heap_t *heap = lm_unseen;
    if (heap != NULL) {
        lm_store_relaxed(&lm_unseen, heap->next_idle); /* relaxed: as above */
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
    /* In a handler of the program's before fork the heaps are locked, and not for us. */
    if (lm_fork_here()) return;
    for (int i = 0; i < LOOKS; i++) {
        lm_heap_t *heap = look();
        if (heap != NULL) lm_heap_end_in_place_of(heap);
    }
}

void lm_unseen_after_fork(lm_heap_t *own_heap) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_store_relaxed(&lm_unseen, NULL); /* relaxed: there is one thread */
    if (own_heap == NULL) return;
    own_heap->tid = lm_purge_allowed() ? lm_port_thread_id() : 0;
    append(own_heap);
}

/* orphan.c: pages whose thread has ended, and the threads that adopt them.
 *
 *   a thread ends ──> orphan ──> a thread frees a block of the page, and becomes its owner
 *                           └──> a thread runs out of blocks of that class, and takes the page
 *
 *   orphans[class] ──> pages with free blocks; a page without one is in no list, only marked
 *
 * A thread that frees a block of an orphan has the page in its caches, and its next frees there are
 * local. Both ways out, and the way in, happen under one lock. A page becomes an orphan at most
 * once in its owner's life, so that the lock is rarely contended. A block freed by a thread that
 * has no heap any more goes on the page's own list, under the lock as well.
 */
#include "heap/core.h"

static LM_AT_START LM_ALIGNED(64) lm_lock_t lock;
static lm_list_t orphans[LM_CLASSES]; /* under the lock */
/* Atomic: orphans[c] is not empty. Written under the lock, read without it as a guess. */
static LM_AT_START bool some[LM_CLASSES];
static lm_tally_t tally; /* of all orphans; under the lock */

/* Returns whether the page has blocks to hand out. */
static bool useful(const lm_page_t *page) {
    return page->free != NULL || page->carved < page->capacity;
}

/* Adds the page to the list of its class if it has blocks to hand out. */
static void link_if_useful(lm_page_t *page) {
    LM_ASSERT(lm_lock_held(&lock));
    if (page->in_list == LM_AT_ORPHANS || !useful(page)) return;
    page->in_list = LM_AT_ORPHANS;
    lm_list_add_last(&orphans[page->size_class], &page->link);
    lm_store_relaxed(&some[page->size_class], true);
}

/* Takes the page off the list of its class, if it is there. */
static void unlink_page(lm_page_t *page) {
    LM_ASSERT(lm_lock_held(&lock));
    if (page->in_list == LM_AT_ORPHANS) {
        LM_ASSERT(lm_node_linked(&page->link));
        lm_list_t *list = &orphans[page->size_class];
        lm_list_remove(list, &page->link);
        lm_store_relaxed(&some[page->size_class], list->first != NULL);
    }
    page->in_list = LM_AT_NOWHERE;
}

bool lm_orphan_add(lm_page_t *page) {
    LM_ASSERT(page->in_list == LM_AT_NOWHERE && page->bias == 0);
    /* No free would find an empty orphan, and no heap may adopt a page of a first-class heap. */
    LM_ASSERT(page->live > 0 && lm_load_relaxed(&page->foreign_class) != 0);
    lm_lock_take(&lock);
    lm_store_relaxed(&page->owner, LM_OWNER_NONE);
    uint64_t none = 0;
    /* Release: a thread that finds the mark finds the page as it is now. The exchange fails iff
     * another thread has pushed blocks meanwhile. That thread is about to notify page->heap, so
     * this function leaves page->heap as it is. */
    bool added = __atomic_compare_exchange_n(&page->remote, &none, LM_REMOTE_ORPHAN, false,
                                             __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (added) {
        link_if_useful(page);
        lm_tally_add(&tally, 1);
    }
    lm_lock_give(&lock);
    return added;
}

/* Makes the heap the orphan's owner. The heap's lock and the orphans' lock are held. */
static void become_owner(lm_theap_t *heap, lm_page_t *page) {
    LM_ASSERT(lm_load_relaxed(&page->remote) == LM_REMOTE_ORPHAN);
    LM_ASSERT(heap->fheap.fheap == NULL);
    unlink_page(page);
    lm_tally_sub(&tally, 1);
    page->heap = heap;
    lm_store_relaxed(&page->owner, heap->token);
    heap->pages++;
    lm_bytes_page(heap, page, false);
    /* Release: a thread that pushes blocks and finds the mark gone sees the new page->heap. */
    lm_store_release(&page->remote, 0);
}

lm_page_t *lm_orphan_adopt(lm_theap_t *heap, unsigned size_class) {
    /* Relaxed: a thread that misses an orphan of this moment creates a page instead. */
    if (!lm_load_relaxed(&some[size_class])) return NULL;
    lm_lock_take(&lock);
    lm_page_t *page = NULL;
    if (orphans[size_class].first != NULL) {
        page = LM_CONTAINER(orphans[size_class].first, lm_page_t, link);
        LM_ASSERT(page->in_list == LM_AT_ORPHANS && page->size_class == size_class);
        LM_ASSERT(useful(page));
        become_owner(heap, page);
    }
    lm_lock_give(&lock);
    return page;
}

/* Returns whether the page is an orphan. Lock held. */
static bool is_orphan(const lm_page_t *page) {
    /* Relaxed: the mark changes only under the lock. */
    return lm_load_relaxed(&page->remote) & LM_REMOTE_ORPHAN;
}

bool lm_orphan_free(lm_theap_t *heap, lm_page_t *page, lm_block_t *head, lm_block_t *tail,
                    uint32_t n) {
    if (heap != NULL) lm_biased_enter(&heap->lock);
    lm_lock_take(&lock);
    bool orphan = is_orphan(page), empty = false;
    if (orphan) {
        LM_ASSERT(page->bias == 0);
        LM_ASSERT(page->in_list == LM_AT_NOWHERE || page->in_list == LM_AT_ORPHANS);
        lm_page_put(page, head, tail, n);
        empty = page->live == 0;
        if (empty) {
            unlink_page(page);
            lm_tally_sub(&tally, 1);
            /* Relaxed: the page is empty, so that no thread has a block of it to push. */
            lm_store_relaxed(&page->remote, 0);
        } else if (heap != NULL) {
            become_owner(heap, page);
        } else {
            link_if_useful(page);
        }
    }
    lm_lock_give(&lock);
    if (empty) lm_page_discard(page, false);
    if (heap != NULL) {
        if (orphan && !empty) lm_page_to_partial(heap, page);
        lm_biased_leave(&heap->lock);
    }
    return orphan;
}

lm_tally_t lm_orphan_tally(bool forget) {
    lm_lock_take(&lock);
    lm_tally_look(&tally);
    if (forget) lm_tally_forget(&tally);
    lm_tally_t now = tally;
    lm_lock_give(&lock);
    return now;
}

lm_lock_t *lm_orphan_fork_lock(void) { return &lock; }

void lm_orphan_forget(void) {
    for (unsigned c = 0; c < LM_CLASSES; c++) {
        orphans[c].first = NULL;
        some[c] = false;
    }
}

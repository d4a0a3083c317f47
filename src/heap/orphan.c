/* orphan.c: pages whose thread has ended, and who takes them.
 *
 * Two ways out of being an orphan: a thread that frees one of its blocks becomes its owner (it
 * knows the page, and its next frees are local), and a thread that runs out of blocks of that class
 * takes one that has free blocks. Both, and the way in, happen under one lock; a page comes here
 * once in its owner's life, so that the lock is rarely wanted.
 *
 *   orphans[class] ──> pages with free blocks; full ones are in no list, only marked
 *
 * A block freed by a thread that has no heap any more goes on the page's own list, still under the
 * lock.
 */
#include "heap/core.h"

static LM_AT_START LM_ALIGNED(64) lm_lock_t lock;
static lm_list_t orphans[LM_CLASSES];
/* orphans[c] is not empty: readable without the lock, as a guess */
static LM_AT_START bool some[LM_CLASSES];
static lm_tally_t tally;

static bool useful(const lm_page_t *page) {
    return page->free != NULL || page->carved < page->capacity;
}

static void link_if_useful(lm_page_t *page) {
    if (page->place == LM_AT_ORPHANS || !useful(page)) return;
    page->place = LM_AT_ORPHANS;
    lm_list_add_last(&orphans[page->size_class], &page->link);
    lm_store_relaxed(&some[page->size_class], true);
}

static void unlink_page(lm_page_t *page) {
    if (page->place == LM_AT_ORPHANS) {
        lm_list_t *list = &orphans[page->size_class];
        lm_list_remove(list, &page->link);
        lm_store_relaxed(&some[page->size_class], list->first != NULL);
    }
    page->place = LM_AT_NOWHERE;
}

bool lm_orphan_add(lm_page_t *page) {
    LM_ASSERT(page->place == LM_AT_NOWHERE && page->bias == 0);
    lm_lock_take(&lock);
    lm_store_relaxed(&page->owner, LM_OWNER_NONE);
    uint64_t none = 0;
    /* Release: who finds the mark finds all of the above. Fails iff somebody pushed meanwhile: he
     * is about to tell page->heap, which therefore stays written there. */
    bool added = __atomic_compare_exchange_n(&page->remote, &none, LM_REMOTE_ORPHAN, false,
                                             __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    if (added) {
        link_if_useful(page);
        lm_tally_add(&tally, 1);
    }
    lm_lock_give(&lock);
    return added;
}

/* Makes the page the heap's; lock held. */
static void become_owner(lm_heap_t *heap, lm_page_t *page) {
    unlink_page(page);
    lm_tally_sub(&tally, 1);
    page->heap = heap;
    lm_store_relaxed(&page->owner, heap->token);
    heap->pages++;
    lm_bytes_page(heap, page, false);
    /* Release: a pusher that sees the mark gone sees the new heap. */
    lm_store_release(&page->remote, 0);
}

lm_page_t *lm_orphan_adopt(lm_heap_t *heap, unsigned size_class) {
    /* Relaxed: missing one that comes this moment costs a page, not more. */
    if (!lm_load_relaxed(&some[size_class])) return NULL;
    lm_lock_take(&lock);
    lm_page_t *page = NULL;
    if (orphans[size_class].first != NULL) {
        page = LM_CONTAINER(orphans[size_class].first, lm_page_t, link);
        become_owner(heap, page);
    }
    lm_lock_give(&lock);
    return page;
}

static bool is_orphan(const lm_page_t *page) {
    return lm_load_relaxed(&page->remote) & LM_REMOTE_ORPHAN;
}

bool lm_orphan_free(lm_heap_t *heap, lm_page_t *page, lm_block_t *head, lm_block_t *tail,
                    uint32_t n) {
    if (heap != NULL) lm_biased_enter(&heap->lock);
    lm_lock_take(&lock);
    bool orphan = is_orphan(page), empty = false;
    if (orphan) {
        lm_page_put(page, head, tail, n);
        empty = page->live == 0;
        if (empty) {
            unlink_page(page);
            lm_tally_sub(&tally, 1);
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

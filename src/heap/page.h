/* page.h: pages of blocks of one size class, and pages that no heap owns (page.c, orphan.c).
 *
 *   create ──> current ──> full <──> partial ──> release ──> arena
 *                            └── the thread ends ──> orphans ──> adopted by another heap
 *
 * For the heap's files and its wings, by core.h. Invariants: theap.h.
 */
#ifndef LM_HEAP_PAGE_H
#define LM_HEAP_PAGE_H

#include "heap/count.h"
#include "heap/heap.h"

/* The list that a page's link is in: page->in_list. */
enum { LM_AT_NOWHERE, LM_AT_CURRENT, LM_AT_PARTIAL, LM_AT_FULL, LM_AT_ORPHANS };

/* Returns the number of the page's blocks that are not on its free list. */
LM_INLINE uint32_t lm_page_outside(const lm_page_t *page) {
    /* Acquire: pairs with lm_count_down, when the worker asks for a sleeping owner's page. */
    return lm_load_acquire(&page->live) + page->bias;
}

/* ---- page.c: heap lock held ---- */

/* Returns a fresh page of that class, owned by the heap, in none of its lists. Returns NULL iff
 * there is no memory. */
lm_page_t *lm_page_create(lm_theap_t *heap, unsigned size_class);

/* Makes the next untouched blocks into a list. Returns NULL iff there are none. */
lm_block_t *lm_page_carve(lm_page_t *page);

/* Takes all blocks on page->free, to be handed out. Returns NULL iff there are none. For the owner,
 * which needs no lock. */
LM_INLINE lm_block_t *lm_page_take(lm_page_t *page) {
    lm_block_t *list = page->free;
    if (list == NULL) return NULL;
    uint32_t carved = page->carved;
    LM_ASSERT(page->bias == 0 && page->live <= carved);
    lm_count_again(page, carved - page->live);
    page->free = NULL;
    /* Release: if the process forks now, the list is gone from here before it is anywhere else. */
    lm_store_release(&page->live, carved);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return list;
}

/* Moves the page to a list of the heap, or out of all of them. */
void lm_page_to_partial(lm_theap_t *heap, lm_page_t *page);
void lm_page_to_full(lm_theap_t *heap, lm_page_t *page);
void lm_page_unlink(lm_theap_t *heap, lm_page_t *page);

/* Calls visit for each page of the heap, which may leave its list meanwhile. */
void lm_page_each(lm_theap_t *heap, void (*visit)(lm_page_t *page, void *context), void *context);

/* Puts n blocks, head to tail, back on page->free. */
void lm_page_put(lm_page_t *page, lm_block_t *head, lm_block_t *tail, uint32_t n);

/* Gives a page of the heap without a block outside back to the arena. If a remote free has yet to
 * notify the heap of the page, the page stays until that has arrived. */
void lm_page_release(lm_theap_t *heap, lm_page_t *page);

/* Takes a page that is about to go back out of the map. */
void lm_page_retire(lm_page_t *page);

/* Gives back a page that belongs to no heap and is in no list. rested: see lm_span_give. */
void lm_page_discard(lm_page_t *page, bool rested);

/* Releases vacant pages, and current pages with no block in use. For the owner, or while the heap
 * is parked. */
void lm_page_trim(lm_theap_t *heap);

/* ---- orphan.c ---- */

/* Makes a page of the heap, unlinked and drained, an orphan. Returns false iff a remote free is on
 * its way: the page must stay with the heap until that has arrived. Heap lock held. */
bool lm_orphan_add(lm_page_t *page);

/* Takes an orphan of that class with free blocks. It is unlinked and owned by the heap then.
 * Returns NULL iff there is none. */
lm_page_t *lm_orphan_adopt(lm_theap_t *heap, unsigned size_class);

/* Frees a chain of n blocks of an orphan. The calling thread becomes its owner, if it has a heap.
 * Returns false iff the page is no orphan any more. No lock held. */
bool lm_orphan_free(lm_theap_t *heap, lm_page_t *page, lm_block_t *head, lm_block_t *tail,
                    uint32_t n);

/* Returns the numbers of orphans, those without free blocks included. forget: the peak is looked
 * for anew from now on. */
lm_tally_t lm_orphan_tally(bool forget);

lm_lock_t *lm_orphan_fork_lock(void);
/* Empties the lists, without a look at the pages. */
void lm_orphan_forget(void);

#endif

/* remote.h: blocks that a thread frees on other threads' pages (remote.c), and lists of them that
 * wait for any thread (transfer.c).
 *
 *   free ──> foreign[class] ──> malloc of this thread
 *                │ the list has its full length
 *                ├──> the transfer cache ──> malloc of any thread
 *                └──> page->remote of each block's page ──> its owner's drain
 *
 * For the heap's files and its wings, by core.h. Invariant: the counts in page->remote equal the
 * length of the chain that it heads.
 */
#ifndef LM_HEAP_REMOTE_H
#define LM_HEAP_REMOTE_H

#include "heap/heap.h"

/* ---- remote.c ---- */

/* page->remote, the blocks that other threads freed: one word, so that a chain goes over in one
 * compare-and-swap.
 *
 *     63      48 47      32 31      16 15        0
 *     [  head   |   tail   |  count   |  flags   ]     head, tail: offset in the page / 16
 */
enum {
    LM_REMOTE_QUEUED = 1, /* the page is on, or on its way to, its heap's `notified` stack */
    LM_REMOTE_ORPHAN = 2, /* no heap owns the page; changes under the orphans' lock */
};

LM_INLINE uint32_t lm_remote_count(uint64_t word) { return (uint32_t)(word >> 16) & 0xffff; }
LM_INLINE lm_block_t *lm_remote_at(const lm_page_t *page, uint64_t offset16) {
    return (lm_block_t *)(void *)(lm_span_start(page) + (offset16 & 0xffff) * 16);
}

/* Hands a chain of n blocks to a page that is not the heap's, or no longer, or whose owner sleeps.
 * heap: the heap of the thread that frees, which becomes the owner if the page is an orphan; NULL:
 * no heap becomes the owner. No lock held; with NULL, a heap's lock may be held. */
void lm_remote_push(lm_theap_t *heap, lm_page_t *page, lm_block_t *head, lm_block_t *tail,
                    uint32_t n);

/* Takes the remote blocks of the page as a chain; flags stay. Returns the number of blocks. */
uint32_t lm_remote_take(lm_page_t *page, lm_block_t **head, lm_block_t **tail);

/* Takes the list. It may grow to the same length again. */
LM_INLINE lm_block_t *lm_foreign_unlist(lm_foreign_t *foreign) {
    LM_ASSERT(foreign->room <= foreign->granted);
    lm_block_t *list = foreign->first;
    foreign->first = NULL;
    foreign->room = foreign->granted;
    return list;
}

/* Below: heap lock held. Hands all blocks of other threads over, each to its page. */
void lm_foreign_return_all(lm_theap_t *heap);

/* As lm_foreign_return_all, in place of a thread that sleeps, while the heap is parked. Hands over
 * the blocks of other threads in head[], too. */
void lm_foreign_return_sleeper(lm_theap_t *heap);

/* Hands over a list of blocks. heap: the heap that may own some of their pages; NULL: no heap does,
 * and no lock is needed. */
void lm_foreign_send(lm_theap_t *heap, lm_block_t *list);

/* As lm_foreign_send, for a list that was counted as handed out. */
void lm_foreign_send_back(lm_theap_t *heap, lm_block_t *list);

/* Takes blocks for malloc from the class's list, which is not empty. Returns NULL iff the list is
 * too short. */
lm_block_t *lm_foreign_take(lm_theap_t *heap, unsigned size_class);

/* Takes in what other threads freed. Pages of an inactive heap become orphans. */
void lm_remote_drain(lm_theap_t *heap);

/* Returns whether anything waits to be taken in. Relaxed: what comes later is taken later. */
LM_INLINE bool lm_remote_waits(const lm_theap_t *heap) {
    return heap->coming != NULL || lm_load_relaxed(&heap->notified) != NULL;
}

/* Takes in what other threads freed on one page, or finds out which pages these are: something
 * waits. For malloc, because one call of lm_remote_drain may find fifty pages. */
void lm_remote_drain_some(lm_theap_t *heap);

/* ---- transfer.c ---- */

/* Leaves the list for other threads. Returns false, and changes nothing, iff the cache is full or
 * no worker can run. No lock held. */
bool lm_transfer_put(unsigned size_class, lm_foreign_t *foreign);

/* Number of lists of each class; atomic; changed under the class's lock. */
extern uint8_t lm_transfer_count[LM_CLASSES];
lm_block_t *lm_transfer_take_one(unsigned size_class);
/* Takes a list. Returns NULL iff there is none. */
LM_INLINE lm_block_t *lm_transfer_take(unsigned size_class) {
    /* Relaxed: what comes this moment is found the next time. */
    if (LM_LIKELY(lm_load_relaxed(&lm_transfer_count[size_class]) == 0)) return NULL;
    return lm_transfer_take_one(size_class);
}

/* Returns the number of blocks of the class in the cache. */
size_t lm_transfer_blocks(unsigned size_class);

/* Sends lists home that no thread took since the last call, or all lists. Returns whether some
 * stay. */
bool lm_transfer_empty(bool all);

/* For a fork: all of the cache's locks, as lm_lock_hold and lm_lock_let. */
bool lm_transfer_is_mine(void);
bool lm_transfer_hold(uint64_t until);
void lm_transfer_let(void);
void lm_transfer_after_fork(void);
/* Drops the lists that another thread was changing. */
void lm_transfer_after_torn_fork(void);

#endif

/* transfer.c: the transfer cache: full lists of blocks, from threads that free to threads that
 * allocate.
 *
 *   put ──>  [ list | list | list |   ...   ]  <── take      a stack of lists for each class
 *              │ oldest: not taken for a tick
 *              └──> the worker returns its blocks to their pages
 *
 * A list changes hands as a whole, under one lock, however many pages its blocks belong to. So a
 * producer gets back from a consumer the blocks that it hands out next, and neither of them touches
 * a page. Blocks in the cache count as in use for their pages, so they must not stay long: the
 * worker sorts lists that no thread took for a tick by pages and returns them. Without a worker
 * there is no transfer cache.
 *
 * Invariant: low <= count, where low is the least count since the worker last looked.
 */
#include "heap/core.h"

enum { TRANSFER_SLOTS = 8 }; /* lists that the cache holds for each class */

/* The lists of one class. All fields are under the lock. */
typedef struct LM_ALIGNED(64) transfer {
    lm_lock_t lock;
    uint8_t low;                      /* least number of lists since the worker last looked */
    uint16_t blocks[TRANSFER_SLOTS];  /* number of blocks of each list */
    lm_block_t *list[TRANSFER_SLOTS]; /* the lists, oldest first */
} transfer_t;

static transfer_t transfers[LM_CLASSES];
uint8_t lm_transfer_count[LM_CLASSES];

bool lm_transfer_put(unsigned size_class, lm_foreign_t *foreign) {
    transfer_t *transfer = &transfers[size_class];
    /* Relaxed: a guess, which the look under the lock confirms. */
    if (!lm_purge_may_work() || lm_load_relaxed(&lm_transfer_count[size_class]) == TRANSFER_SLOTS)
        return false;
    lm_lock_take(&transfer->lock);
    uint8_t n = lm_transfer_count[size_class];
    bool put = n < TRANSFER_SLOTS;
    LM_ASSERT(n <= TRANSFER_SLOTS && transfer->low <= n);
    if (put) {
        LM_ASSERT(foreign->first != NULL && foreign->granted > foreign->room);
        /* Moved under the lock, so that a fork finds the list either in the heap or here. */
        transfer->blocks[n] = (uint16_t)(foreign->granted - foreign->room);
        transfer->list[n] = lm_foreign_unlist(foreign);
        lm_store_relaxed(&lm_transfer_count[size_class], (uint8_t)(n + 1));
    }
    lm_lock_give(&transfer->lock);
    if (put) lm_purge_poke(true);
    return put;
}

lm_block_t *lm_transfer_take_one(unsigned size_class) {
    transfer_t *transfer = &transfers[size_class];
    lm_block_t *list = NULL;
    lm_lock_take(&transfer->lock);
    uint8_t n = lm_transfer_count[size_class];
    if (n > 0) {
        LM_ASSERT(n <= TRANSFER_SLOTS && transfer->low <= n);
        list = transfer->list[--n];
        LM_ASSERT(list != NULL);
        lm_count_others(size_class, transfer->blocks[n]);
        lm_store_relaxed(&lm_transfer_count[size_class], n);
        if (transfer->low > n) transfer->low = n;
    }
    lm_lock_give(&transfer->lock);
    return list;
}

/* Returns the blocks of the oldest lists to their pages: of as many lists as no thread has wanted
 * since the last call, or of all. Returns the number of lists that stay. */
static unsigned send_home(unsigned size_class, bool all) {
    transfer_t *transfer = &transfers[size_class];
    lm_block_t *list[TRANSFER_SLOTS];
    lm_lock_take(&transfer->lock);
    LM_ASSERT(lm_transfer_count[size_class] <= TRANSFER_SLOTS);
    LM_ASSERT(transfer->low <= lm_transfer_count[size_class]);
    unsigned count = lm_transfer_count[size_class], n = all ? count : transfer->low,
             left = count - n;
    for (unsigned i = 0; i < n; i++) list[i] = transfer->list[i];
    for (unsigned i = 0; i < left; i++) {
        transfer->list[i] = transfer->list[n + i];
        transfer->blocks[i] = transfer->blocks[n + i];
    }
    lm_store_relaxed(&lm_transfer_count[size_class], (uint8_t)left);
    transfer->low = (uint8_t)left;
    lm_lock_give(&transfer->lock);
    for (unsigned i = 0; i < n; i++) lm_foreign_send(NULL, list[i]);
    return left;
}

bool lm_transfer_empty(bool all) {
    unsigned left = 0;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        /* Relaxed: a list that comes at this moment may wait for the next call. */
        if (lm_load_relaxed(&lm_transfer_count[c]) > 0) left += send_home(c, all);
    }
    return left > 0;
}

size_t lm_transfer_blocks(unsigned size_class) {
    transfer_t *transfer = &transfers[size_class];
    /* Relaxed: a list that comes at this moment may be missing from the number. */
    if (lm_load_relaxed(&lm_transfer_count[size_class]) == 0) return 0;
    size_t blocks = 0;
    lm_lock_take(&transfer->lock);
    LM_ASSERT(lm_transfer_count[size_class] <= TRANSFER_SLOTS);
    for (unsigned i = 0; i < lm_transfer_count[size_class]; i++) blocks += transfer->blocks[i];
    lm_lock_give(&transfer->lock);
    return blocks;
}

bool lm_transfer_is_mine(void) {
    for (unsigned c = 1; c < LM_CLASSES; c++)
        if (lm_lock_is_mine(&transfers[c].lock)) return true;
    return false;
}

bool lm_transfer_hold(uint64_t until) {
    for (unsigned c = 1; c < LM_CLASSES; c++)
        if (!lm_lock_hold(&transfers[c].lock, until)) return false;
    return true;
}

void lm_transfer_let(void) {
    for (unsigned c = 1; c < LM_CLASSES; c++) lm_lock_let(&transfers[c].lock);
}

void lm_transfer_after_fork(void) {
    for (unsigned c = 1; c < LM_CLASSES; c++) lm_lock_reset(&transfers[c].lock);
}

void lm_transfer_after_torn_fork(void) {
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (!lm_lock_break(&transfers[c].lock)) continue;
        lm_transfer_count[c] = transfers[c].low = 0;
    }
}

/* locks.c: the table of the heap's locks (locks.h), and how a fork takes and gives them.
 *
 * Invariant: locks_rows[] is in the order in which threads take the locks. Decision 0038 says why a
 * fork takes them, tests/protocol/fork.pml how threads pass.
 */
#include "heap/locks.h"

typedef struct lock_row {
    /* The lock; returns NULL in builds that do not have it. NULL: more than one lock, and: */
    lm_lock_t *(*lock)(void);
    bool (*hold)(uint64_t until); /* takes the locks, as lm_lock_hold */
    void (*let)(void);            /* gives what hold has taken; NULL: another row's let does */
    bool (*is_mine)(void);        /* NULL: no signal handler comes while one is held */
} lock_row_t;

/* ---- The rows ---- */

static bool walk_hold(uint64_t until) {
    (void)until; /* its holder may be in the program's own code, and allocate there */
    return lm_port_before_fork();
}

static void walk_let(void) { lm_port_after_fork(false); }

static lm_lock_t *registry_lock(void) { return &lm_registry_lock; }
static lm_lock_t *common_lock(void) { return &lm_common_lock; }

static bool heaps_hold(uint64_t until) {
    LM_EACH_HEAP(heap) lm_biased_ask(&heap->lock);
    lm_biased_settle();
    LM_EACH_HEAP(heap) {
        /* Relaxed: a thread that takes this heap as its own at this moment has no lock yet. */
        bool own =
            lm_heap_plain_token(heap) == lm_thread_token() && !lm_biased_outside(&heap->lock);
        if (own || !lm_biased_wait_until(&heap->lock, until)) return false;
    }
    return true;
}

/* Without the registry's lock lm_locks_hold came no further, and the lists cannot be walked. */
static void heaps_let(void) {
    if (!lm_lock_is_mine(&lm_registry_lock)) return;
    LM_EACH_HEAP(heap) lm_biased_let(&heap->lock);
}

static bool heaps_are_mine(void) {
    const lm_theap_t *mine = lm_heap_mine();
    return mine != NULL && !lm_biased_outside(&mine->lock);
}

static void fheaps_let(void) {
    if (lm_lock_is_mine(&lm_registry_lock)) lm_fheap_let();
}

static const lock_row_t locks_rows[] = {
    /* walk of the special allocators */
    {.hold = walk_hold, .let = walk_let},
    /* registry of heaps */
    {.lock = registry_lock},
    /* common heap; before the heaps' own locks: who holds it may wait there to be let in */
    {.lock = common_lock},
    /* branches of ended threads, which fheaps_let gives */
    {.hold = lm_fheap_hold_late},
    /* heaps */
    {.hold = heaps_hold, .let = heaps_let, .is_mine = heaps_are_mine},
    /* first-class heaps */
    {.hold = lm_fheap_hold, .let = fheaps_let},
    /* transfer cache */
    {.hold = lm_transfer_hold, .let = lm_transfer_let, .is_mine = lm_transfer_is_mine},
    /* objects at an offset */
    {.lock = lm_offset_fork_lock},
    /* sampled objects */
    {.lock = lm_sampled_fork_lock},
    /* orphans */
    {.lock = lm_orphan_fork_lock},
    /* call sites */
    {.lock = lm_sites_fork_lock},
    /* arena */
    {.hold = lm_span_fork_hold, .let = lm_span_fork_let, .is_mine = lm_span_fork_is_mine},
};

/* ---- Along the table ---- */

enum { LOCK_ROWS = sizeof locks_rows / sizeof locks_rows[0] };

/* Returns the one lock of a row; NULL iff it has none in this build. */
static lm_lock_t *lock_of(const lock_row_t *row) {
    LM_ASSERT((row->lock != NULL) != (row->hold != NULL));
    LM_ASSERT(row->let == NULL || row->hold != NULL);
    return row->lock != NULL ? row->lock() : NULL;
}

bool lm_locks_hold(uint64_t until) {
    for (const lock_row_t *row = locks_rows; row < locks_rows + LOCK_ROWS; row++) {
        lm_lock_t *lock = lock_of(row);
        if (lock != NULL && !lm_lock_hold(lock, until)) return false;
        if (row->hold != NULL && !row->hold(until)) return false;
    }
    return true;
}

void lm_locks_let(void) {
    for (const lock_row_t *row = locks_rows + LOCK_ROWS; row-- > locks_rows;) {
        lm_lock_t *lock = lock_of(row);
        if (lock != NULL) lm_lock_let(lock);
        if (row->let != NULL) row->let();
    }
}

bool lm_locks_any_is_mine(void) {
    for (const lock_row_t *row = locks_rows; row < locks_rows + LOCK_ROWS; row++) {
        const lm_lock_t *lock = lock_of(row);
        if (lock != NULL && lm_lock_is_mine(lock)) return true;
        if (row->is_mine != NULL && row->is_mine()) return true;
    }
    return false;
}

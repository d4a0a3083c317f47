/* locks.c: the table of the heap's locks (locks.h), and how a fork takes and gives them.
 *
 * Invariant: rows[] is in the order in which threads take the locks. Decision 0038 says why a fork
 * takes them, tests/protocol/fork.pml how threads pass.
 */
#include "heap/locks.h"

typedef struct lock_row {
    const char *name;
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

#define LOCKS_EACH_HEAP(heap, node) \
    for (lm_node_t *node = lm_registry.first; node != NULL; \
         node = lm_list_after(&lm_registry, node)) \
        for (lm_theap_t *heap = LM_CONTAINER(node, lm_theap_t, link); heap != NULL; heap = NULL)

static bool heaps_hold(uint64_t until) {
    LOCKS_EACH_HEAP(heap, node) lm_biased_ask(&heap->lock);
    lm_biased_settle();
    LOCKS_EACH_HEAP(heap, node) {
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
    LOCKS_EACH_HEAP(heap, node) lm_biased_let(&heap->lock);
}

static bool heaps_are_mine(void) {
    const lm_theap_t *mine = lm_heap_mine();
    return mine != NULL && !lm_biased_outside(&mine->lock);
}

static void fheaps_let(void) {
    if (lm_lock_is_mine(&lm_registry_lock)) lm_fheap_let();
}

static const lock_row_t locks_rows[] = {
    {.name = "walk of the special allocators", .hold = walk_hold, .let = walk_let},
    {.name = "registry of heaps", .lock = registry_lock},
    /* Before its heap: a thread that holds it may wait there to be let in. */
    {.name = "common heap", .lock = common_lock},
    {.name = "branches of ended threads", .hold = lm_fheap_hold_late}, /* fheaps_let */
    {.name = "heaps", .hold = heaps_hold, .let = heaps_let, .is_mine = heaps_are_mine},
    {.name = "first-class heaps", .hold = lm_fheap_hold, .let = fheaps_let},
    {.name = "transfer cache",
     .hold = lm_transfer_hold,
     .let = lm_transfer_let,
     .is_mine = lm_transfer_is_mine},
    {.name = "objects at an offset", .lock = lm_offset_fork_lock},
    {.name = "sampled objects", .lock = lm_sampled_fork_lock},
    {.name = "orphans", .lock = lm_orphan_fork_lock},
    {.name = "call sites", .lock = lm_sites_fork_lock},
    {.name = "arena",
     .hold = lm_span_fork_hold,
     .let = lm_span_fork_let,
     .is_mine = lm_span_fork_is_mine},
};

/* ---- Along the table ---- */

enum { LOCK_ROWS = sizeof locks_rows / sizeof locks_rows[0] };

bool lm_locks_hold(uint64_t until) {
    for (size_t i = 0; i < LOCK_ROWS; i++) {
        LM_ASSERT((locks_rows[i].lock != NULL) != (locks_rows[i].hold != NULL));
        lm_lock_t *lock = locks_rows[i].lock != NULL ? locks_rows[i].lock() : NULL;
        if (lock != NULL && !lm_lock_hold(lock, until)) return false;
        if (locks_rows[i].hold != NULL && !locks_rows[i].hold(until)) return false;
    }
    return true;
}

void lm_locks_let(void) {
    for (size_t i = LOCK_ROWS; i-- > 0;) {
        LM_ASSERT(locks_rows[i].let == NULL || locks_rows[i].hold != NULL);
        lm_lock_t *lock = locks_rows[i].lock != NULL ? locks_rows[i].lock() : NULL;
        if (lock != NULL) lm_lock_let(lock);
        if (locks_rows[i].let != NULL) locks_rows[i].let();
    }
}

bool lm_locks_any_is_mine(void) {
    for (size_t i = 0; i < LOCK_ROWS; i++) {
        const lm_lock_t *lock = locks_rows[i].lock != NULL ? locks_rows[i].lock() : NULL;
        if (lock != NULL && lm_lock_is_mine(lock)) return true;
        if (locks_rows[i].is_mine != NULL && locks_rows[i].is_mine()) return true;
    }
    return false;
}

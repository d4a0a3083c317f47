/* fheap.c: creates and ends first-class heaps (fheap.h has the drawing).
 *
 * Both happen under the registry's lock, and so neither beside the worker nor beside a fork. A
 * thread that changes another thread's branch asks for the branch's lock as the worker does.
 * Branches of the calling thread, the only ones of most heaps, cost no barrier. Where another
 * thread may still take a branch for the branch of an ended heap, LM_NO_FHEAP is stored. It cannot
 * see that a heap ends while another thread uses it.
 * Invariant: see fheap.h.
 */
#include "fheap/fheap.h"

/* Number of ended heaps whose places stay unused, so that a use of their handles is reported. */
enum { SPARES_LEAST = 64 };

/* All four: under the registry's lock. */
static lm_list_t wholes;       /* heaps that are alive */
static lm_list_t spare_fheaps; /* heaps that have ended, the oldest first */
static size_t spares;
static uint64_t *spare_handed; /* arrays for `handed`; the first word of each leads to the next */

/* ---- Handles ---- */

bool lm_fheap_alive(const struct loam_heap *fheap, const char *function) {
    /* Relaxed: a thread that ends the heap while it is used makes a mistake that this cannot
     * see. */
    lm_fheap_state_t state = fheap != NULL ? lm_load_relaxed(&fheap->state) : LM_FHEAP_ENDED;
    if (LM_LIKELY(state == LM_FHEAP_ALIVE)) return true;
    if (fheap == NULL)
        lm_misuse("%s with NULL for a heap (", function);
    else if (state == LM_FHEAP_ENDED)
        lm_misuse("%s with heap %p, which has ended (", function, (const void *)fheap);
    else
        lm_misuse("%s with %p, which is no heap (", function, (const void *)fheap);
    return false;
}

/* ---- Beginning ---- */

struct loam_heap *lm_fheap_create(void) {
    lm_lock_take(&lm_registry_lock);
    struct loam_heap *fheap = NULL;
    if (spares <= SPARES_LEAST) fheap = (struct loam_heap *)lm_heap_memory(sizeof *fheap);
    if (fheap == NULL && spares > 0) {
        fheap = LM_CONTAINER(spare_fheaps.first, struct loam_heap, link);
        lm_list_remove(&spare_fheaps, &fheap->link);
        spares--;
    }
    if (fheap != NULL) {
        fheap->soft = fheap->hard = SIZE_MAX;
        fheap->used = fheap->most = 0;
        fheap->crossed = false;
        fheap->told = NULL;
        fheap->late = NULL;
        fheap->large_total = fheap->large_bytes_total = 0;
        fheap->arena = NULL;
        lm_store_relaxed(&fheap->state, LM_FHEAP_ALIVE);
        lm_list_add_last(&wholes, &fheap->link);
    }
    lm_lock_give(&lm_registry_lock);
    if (fheap == NULL) (void)lm_no_memory();
    LM_PROBE1(heap_create, fheap);
    return fheap;
}

struct loam_heap *lm_fheap_create_in(struct loam_arena *arena, bool spills) {
    if (!lm_range_hold(arena)) return NULL;
    struct loam_heap *fheap = lm_fheap_create();
    if (fheap == NULL) {
        lm_range_let(arena);
        return NULL;
    }
    fheap->arena = arena;
    fheap->spills = spills;
    return fheap;
}

void lm_fheap_count_begin(struct loam_heap *fheap) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    size_t bytes = LM_CLASSES * sizeof *fheap->handed;
    if (fheap->handed != NULL) return;
    uint64_t *room = spare_handed;
    if (room != NULL) {
        spare_handed = (uint64_t *)(uintptr_t)room[0];
        __builtin_memset(room, 0, bytes);
    } else {
        room = (uint64_t *)lm_heap_memory(bytes);
    }
    fheap->handed = room;
}

struct loam_heap *lm_fheap_choose(struct loam_heap *fheap, bool *done) {
    *done = false;
    if (lm_heap_get() == NULL) return NULL;
    lm_theap_t *own = lm_heap_mine();
    /* Not lm_heap_self, for the reason given in lm_branch_of. */
    struct loam_heap *before = own->fheap.active_heap->fheap.fheap;
    lm_theap_t *front = fheap == NULL ? own : lm_branch_of(fheap, own);
    if (front == NULL) return before;
    if (front->fheap.special == LM_IS_BRANCH) {
        front->fheap.last_branch = front;
        front->fheap.last_fheap = fheap;
    }
    lm_heap_activate(front);
    *done = true;
    return before;
}

void lm_fheap_collect(struct loam_heap *fheap) {
    const lm_theap_t *own = lm_heap_get() != NULL ? lm_heap_mine() : NULL;
    lm_lock_take(&lm_registry_lock);
    for (lm_node_t *n = fheap->branches.first; n != NULL; n = lm_list_after(&fheap->branches, n)) {
        lm_theap_t *branch = LM_CONTAINER(n, lm_theap_t, fheap.sibling);
        if (branch->fheap.own_heap != NULL && branch->fheap.own_heap != own) continue;
        lm_biased_enter(&branch->lock);
        lm_heap_take_in(branch);
        lm_heap_return_handed_out(branch);
        lm_page_trim(branch);
        lm_biased_leave(&branch->lock);
    }
    lm_lock_give(&lm_registry_lock);
}

/* ---- End ---- */

/* Takes the locks of all branches. Registry's lock held, so neither the worker nor a fork runs.
 * own: the heap of the calling thread, whose branches need no request. */
static void enter(struct loam_heap *fheap, const lm_theap_t *own) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    bool others = false;
    for (lm_node_t *n = fheap->branches.first; n != NULL; n = lm_list_after(&fheap->branches, n)) {
        lm_theap_t *branch = LM_CONTAINER(n, lm_theap_t, fheap.sibling);
        if (branch->fheap.own_heap == own || branch->fheap.own_heap == NULL) {
            lm_biased_enter(&branch->lock);
        } else {
            lm_biased_ask(&branch->lock);
            others = true;
        }
    }
    if (!others) return;
    lm_biased_settle();
    for (lm_node_t *n = fheap->branches.first; n != NULL; n = lm_list_after(&fheap->branches, n)) {
        lm_theap_t *branch = LM_CONTAINER(n, lm_theap_t, fheap.sibling);
        if (branch->fheap.own_heap != own && branch->fheap.own_heap != NULL)
            lm_biased_wait(&branch->lock);
    }
}

static void fheap_leave(lm_theap_t *branch, const lm_theap_t *own) {
    if (branch->fheap.own_heap == own || branch->fheap.own_heap == NULL)
        lm_biased_leave(&branch->lock);
    else
        lm_biased_let(&branch->lock);
}

/* Takes the branch out of its heap, so that no thread finds it there. The branch's thread may be
 * writing the same fields: LM_NO_FHEAP is always right. */
static void unlink_branch(lm_theap_t *branch, struct loam_heap *fheap) {
    LM_ASSERT(lm_load_relaxed(&branch->fheap.special) == LM_IS_BRANCH);
    LM_ASSERT(lm_load_relaxed(&branch->fheap.fheap) == fheap);
    lm_theap_t *main = branch->fheap.own_heap;
    if (main != NULL && main != &lm_heap_common) {
        lm_branch_out_of_index(branch, fheap);
        lm_theap_t *front = lm_load_relaxed(&main->fheap.active_heap);
        if (lm_load_relaxed(&main->fheap.last_fheap) == fheap)
            lm_store_relaxed(&main->fheap.last_fheap, LM_NO_FHEAP);
        if (lm_load_relaxed(&front->fheap.last_fheap) == fheap)
            lm_store_relaxed(&front->fheap.last_fheap, LM_NO_FHEAP);
    }
    lm_list_remove(&fheap->branches, &branch->fheap.sibling);
    lm_store_relaxed(&branch->fheap.fheap, NULL);
}

static void into_chain(lm_page_t *page, void *context) {
    LM_ASSERT(page->kind == LM_KIND_PAGE && lm_load_relaxed(&page->foreign_class) == 0);
    lm_page_t **chain = (lm_page_t **)context;
    lm_page_retire(page);
    page->in_list = LM_AT_NOWHERE;
    page->notified = *chain;
    *chain = page;
}

static void make_ordinary(lm_page_t *page, void *context) {
    LM_ASSERT(page->kind == LM_KIND_PAGE && lm_load_relaxed(&page->foreign_class) == 0);
    (void)context;
    lm_store_relaxed(&page->foreign_class, page->size_class);
}

/* Returns all pages of the branch at once, whatever is in them. Blocks that the branch has ready
 * count as handed out, and as freed. Heap lock held. */
static void drop_pages(lm_theap_t *branch) {
    lm_page_t *chain = NULL;
    lm_bytes_branch(branch, true);
    lm_page_each(branch, into_chain, &chain);
    branch->notified = branch->coming = NULL;
    branch->pending = branch->left_behind = 0;
    branch->pages = branch->trim_at = 0;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        branch->head[c] = NULL;
        branch->current[c] = NULL;
        branch->partial[c].first = branch->full[c].first = NULL;
        branch->holds[c] = LM_HOLDS_OWN;
    }
    for (lm_page_t *page = chain; page != NULL; page = page->notified)
        lm_tools_forget(lm_span_start(page), (size_t)page->slices << LM_SLICE_SHIFT);
    if (chain != NULL) lm_tools_give_chain(chain, false);
    lm_store_relaxed(&branch->active, false);
}

static lm_theap_t *first_branch(const struct loam_heap *fheap) {
    lm_node_t *first = fheap->branches.first;
    return first != NULL ? LM_CONTAINER(first, lm_theap_t, fheap.sibling) : NULL;
}

static lm_page_t *first_large(const struct loam_heap *fheap) {
    lm_node_t *first = fheap->large.first;
    return first != NULL ? LM_CONTAINER(first, lm_page_t, link) : NULL;
}

/* Sets the calling thread's malloc to its own heap, if it allocates from this heap. */
static void leave_front(const struct loam_heap *fheap, lm_theap_t *own) {
    if (own != NULL && own->fheap.active_heap->fheap.fheap == fheap) lm_heap_activate(own);
}

static void put_away(struct loam_heap *fheap) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    LM_ASSERT(lm_load_relaxed(&fheap->state) == LM_FHEAP_ALIVE);
    LM_ASSERT(fheap->branches.first == NULL && fheap->large.first == NULL);
    if (fheap->arena != NULL) lm_range_let(fheap->arena);
    if (fheap->handed != NULL) {
        fheap->handed[0] = (uintptr_t)spare_handed;
        spare_handed = fheap->handed;
        fheap->handed = NULL;
    }
    lm_store_relaxed(&fheap->state, LM_FHEAP_ENDED);
    lm_list_remove(&wholes, &fheap->link);
    lm_list_add_last(&spare_fheaps, &fheap->link);
    spares++;
}

/* Returns whether another thread's malloc allocates from the heap. */
static bool is_of_others(const struct loam_heap *fheap, const lm_theap_t *own) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    for (lm_node_t *n = fheap->branches.first; n != NULL; n = lm_list_after(&fheap->branches, n)) {
        const lm_theap_t *branch = LM_CONTAINER(n, lm_theap_t, fheap.sibling),
                         *main = branch->fheap.own_heap;
        if (main == NULL || main == own || main == &lm_heap_common) continue;
        /* Relaxed: a thread that chooses the heap at this moment makes a mistake that this cannot
         * see. */
        if (lm_load_relaxed(&main->fheap.active_heap) == branch) return true;
    }
    return false;
}

/* Takes the registry's lock, and takes the heap from the calling thread's malloc. Returns false,
 * after a report and without the lock, iff the heap cannot end. */
static bool begin_end(struct loam_heap *fheap, const char *function, lm_theap_t **own) {
    if (!lm_fheap_alive(fheap, function)) return false;
    *own = lm_heap_get() != NULL ? lm_heap_mine() : NULL;
    lm_lock_take(&lm_registry_lock);
    /* Another thread may have ended the heap just now. */
    bool ended = lm_load_relaxed(&fheap->state) != LM_FHEAP_ALIVE;
    bool others = !ended && is_of_others(fheap, *own);
    if (LM_LIKELY(!ended && !others)) {
        leave_front(fheap, *own);
        return true;
    }
    lm_lock_give(&lm_registry_lock);
    if (ended)
        (void)lm_fheap_alive(fheap, function);
    else
        lm_misuse("%s with heap %p, which another thread's malloc uses (", function, (void *)fheap);
    return false;
}

void lm_fheap_destroy(struct loam_heap *fheap) {
    LM_PROBE1(heap_destroy, fheap);
    lm_theap_t *own;
    if (!begin_end(fheap, "loam_heap_destroy", &own)) return;
    enter(fheap, own);
    for (lm_theap_t *branch; (branch = first_branch(fheap)) != NULL;) {
        drop_pages(branch);
        unlink_branch(branch, fheap);
        fheap_leave(branch, own);
        lm_branch_spare(branch);
    }
    /* A thread may be changing a large object (fheap_alloc.c), by mistake. */
    lm_lock_take(&fheap->lock);
    fheap->life++;
    lm_lock_give(&fheap->lock);
    for (lm_page_t *page; (page = first_large(fheap)) != NULL;) {
        lm_list_remove(&fheap->large, &page->link);
        page->fheap = NULL;
        lm_reuse_check_large(page);
        lm_tools_dropped(lm_span_start(page), page->bytes);
        lm_tools_forget(lm_span_start(page), page->bytes);
        lm_large_discard(page);
    }
    put_away(fheap);
    lm_lock_give(&lm_registry_lock);
}

void lm_fheap_delete(struct loam_heap *fheap) {
    LM_PROBE1(heap_delete, fheap);
    lm_theap_t *own;
    if (!begin_end(fheap, "loam_heap_delete", &own)) return;
    enter(fheap, own);
    for (lm_theap_t *branch; (branch = first_branch(fheap)) != NULL;) {
        lm_theap_t *main = branch->fheap.own_heap;
        bool of_others = main != NULL && main != own && main != &lm_heap_common;
        /* Takes no remote frees in: another thread may be freeing on the branch's pages at this
         * moment, without a lock. */
        lm_page_each(branch, make_ordinary, NULL);
        unlink_branch(branch, fheap);
        if (of_others)
            lm_branch_retire(branch); /* its thread will part with it */
        else
            lm_heap_part_with_all(branch);
        fheap_leave(branch, own);
        if (!of_others) lm_branch_spare(branch);
    }
    /* A thread may be freeing a large object, or changing one, which must not return here
     * (`life`). */
    lm_lock_take(&fheap->lock);
    fheap->life++;
    for (lm_page_t *page; (page = first_large(fheap)) != NULL;) {
        LM_ASSERT(lm_load_relaxed(&page->fheap) == fheap);
        lm_list_remove(&fheap->large, &page->link);
        /* Release: the last access to the page here. Pairs with the acquire load in
         * lm_large_free. */
        lm_store_release(&page->fheap, NULL);
    }
    lm_lock_give(&fheap->lock);
    put_away(fheap);
    lm_lock_give(&lm_registry_lock);
}

/* ---- Fork ---- */

#define FOR_EACH_WHOLE(list, fheap, node) \
    for (lm_node_t *node = (list)->first; node != NULL; node = lm_list_after((list), node)) \
        for (struct loam_heap *fheap = LM_CONTAINER(node, struct loam_heap, link); fheap != NULL; \
             fheap = NULL)

bool lm_fheap_hold_late(uint64_t until) {
    FOR_EACH_WHOLE(&wholes, fheap, node) {
        if (!lm_lock_hold(&fheap->late_lock, until)) return false;
    }
    return true;
}

/* Holds the locks of ended heaps as well: another thread may be reading an ended heap's `life`. */
bool lm_fheap_hold(uint64_t until) {
    FOR_EACH_WHOLE(&wholes, fheap, node) {
        if (!lm_lock_hold(&fheap->lock, until)) return false;
    }
    FOR_EACH_WHOLE(&spare_fheaps, fheap, node) {
        if (!lm_lock_hold(&fheap->lock, until)) return false;
    }
    return true;
}

void lm_fheap_let(void) {
    FOR_EACH_WHOLE(&spare_fheaps, fheap, node) lm_lock_let(&fheap->lock);
    FOR_EACH_WHOLE(&wholes, fheap, node) {
        lm_lock_let(&fheap->lock);
        lm_lock_let(&fheap->late_lock);
    }
}

void lm_fheap_after_fork(void) {
    FOR_EACH_WHOLE(&spare_fheaps, fheap, node) lm_lock_reset(&fheap->lock);
    FOR_EACH_WHOLE(&wholes, fheap, node) {
        lm_lock_reset(&fheap->lock);
        lm_lock_reset(&fheap->late_lock);
    }
}

enum { WALK_MOST = 1 << 16 };

/* Another thread may have been changing the list, which then need not end. So the walk is
 * bounded. */
static void break_locks_of(const lm_list_t *list) {
    unsigned left = WALK_MOST;
    for (lm_node_t *n = list->first; n != NULL && left > 0; n = lm_list_after(list, n), left--) {
        (void)lm_lock_break(&LM_CONTAINER(n, struct loam_heap, link)->lock);
        (void)lm_lock_break(&LM_CONTAINER(n, struct loam_heap, link)->late_lock);
    }
}

/* Of ended heaps as well: see lm_fheap_hold. */
void lm_fheap_after_torn_fork(void) {
    break_locks_of(&wholes);
    break_locks_of(&spare_fheaps);
}

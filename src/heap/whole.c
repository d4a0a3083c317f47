/* whole.c: the beginning and the end of first-class heaps (whole.h has the picture).
 *
 * Both happen under the registry's lock, and so without the worker and without a fork. Who changes another thread's
 * branch asks for its lock as the worker does; branches of the calling thread alone, which is what most heaps have,
 * cost no barrier. What another thread may still take for the branch of a heap that has ended is made NULL in its
 * place.
 */
#include "heap/room.h"

/* Under the registry's lock. */
static lm_list_t wholes; /* alive */
static lm_list_t spare_wholes;

/* ---- Beginning ---- */

struct loam_heap *lm_whole_create(void) {
    lm_lock_take(&lm_registry_lock);
    struct loam_heap *whole = NULL;
    if (spare_wholes.first != NULL) {
        whole = LM_CONTAINER(spare_wholes.first, struct loam_heap, link);
        lm_list_remove(&spare_wholes, &whole->link);
    } else {
        whole = (struct loam_heap *)lm_heap_room(sizeof *whole);
    }
    if (whole != NULL) {
        whole->soft = whole->hard = SIZE_MAX;
        whole->used = whole->most = 0;
        whole->crossed = false;
        whole->told = NULL;
        whole->late = NULL;
        whole->large_total = whole->large_bytes_total = 0;
        if (whole->handed != NULL)
            __builtin_memset(whole->handed, 0, LM_CLASSES * sizeof *whole->handed);
        whole->arena = NULL;
        lm_list_add_last(&wholes, &whole->link);
    }
    lm_lock_give(&lm_registry_lock);
    if (whole == NULL) (void)lm_no_memory();
    LM_PROBE1(heap_create, whole);
    return whole;
}

struct loam_heap *lm_whole_create_in(struct loam_arena *arena, bool spills) {
    if (!lm_range_hold(arena)) return NULL;
    struct loam_heap *whole = lm_whole_create();
    if (whole == NULL) {
        lm_range_let(arena);
        return NULL;
    }
    whole->arena = arena;
    whole->spills = spills;
    return whole;
}

struct loam_heap *lm_whole_choose(struct loam_heap *whole, bool *done) {
    *done = false;
    if (lm_heap_get() == NULL) return NULL;
    lm_heap_t *own = lm_heap_mine();
    struct loam_heap *before = lm_heap_self->whole;
    lm_heap_t *front = whole == NULL ? own : lm_branch_of(whole, own);
    if (front == NULL) return before;
    if (front->special == LM_IS_BRANCH) {
        front->branch = front;
        front->of = whole;
    }
    lm_heap_face(front);
    *done = true;
    return before;
}

void lm_whole_collect(struct loam_heap *whole) {
    const lm_heap_t *own = lm_heap_get() != NULL ? lm_heap_mine() : NULL;
    lm_lock_take(&lm_registry_lock);
    for (lm_node_t *n = whole->branches.first; n != NULL; n = lm_list_after(&whole->branches, n)) {
        lm_heap_t *branch = LM_CONTAINER(n, lm_heap_t, sibling);
        if (branch->main != NULL && branch->main != own) continue;
        lm_biased_enter(&branch->lock);
        lm_heap_take_in(branch);
        lm_heap_return_handed_out(branch);
        lm_page_trim(branch);
        lm_biased_leave(&branch->lock);
    }
    lm_lock_give(&lm_registry_lock);
}

/* ---- End ---- */

/* Registry's lock held: the worker and fork are not about. own: the calling thread's, whose branches need no
 * asking. */
static void enter(struct loam_heap *whole, const lm_heap_t *own) {
    bool others = false;
    for (lm_node_t *n = whole->branches.first; n != NULL; n = lm_list_after(&whole->branches, n)) {
        lm_heap_t *branch = LM_CONTAINER(n, lm_heap_t, sibling);
        if (branch->main == own || branch->main == NULL) {
            lm_biased_enter(&branch->lock);
        } else {
            lm_biased_ask(&branch->lock);
            others = true;
        }
    }
    if (!others) return;
    lm_biased_settle();
    for (lm_node_t *n = whole->branches.first; n != NULL; n = lm_list_after(&whole->branches, n)) {
        lm_heap_t *branch = LM_CONTAINER(n, lm_heap_t, sibling);
        if (branch->main != own && branch->main != NULL) lm_biased_wait(&branch->lock);
    }
}

static void leave(lm_heap_t *branch, const lm_heap_t *own) {
    if (branch->main == own || branch->main == NULL)
        lm_biased_leave(&branch->lock);
    else
        lm_biased_let(&branch->lock);
}

/* No thread takes it for the heap's any more. Its thread may be writing the same fields: NULL is always right. */
static void unlink_branch(lm_heap_t *branch, struct loam_heap *whole) {
    lm_heap_t *main = branch->main;
    if (main != NULL && main != &lm_heap_common) {
        lm_branch_out_of_index(branch, whole);
        lm_heap_t *front = lm_load_relaxed(&main->front);
        if (lm_load_relaxed(&main->of) == whole) lm_store_relaxed(&main->of, NULL);
        if (lm_load_relaxed(&front->of) == whole) lm_store_relaxed(&front->of, NULL);
    }
    lm_list_remove(&whole->branches, &branch->sibling);
    lm_store_relaxed(&branch->whole, NULL);
}

static void into_chain(lm_page_t *page, void *context) {
    lm_page_t **chain = (lm_page_t **)context;
    lm_page_retire(page);
    page->place = LM_AT_NOWHERE;
    page->notified = *chain;
    *chain = page;
}

static void make_ordinary(lm_page_t *page, void *context) {
    (void)context;
    lm_store_relaxed(&page->foreign_class, page->size_class);
}

/* All its pages at once, whatever is in them: so what it has ready stays counted as handed out, and counts as freed.
 * Heap lock held. */
static void drop_pages(lm_heap_t *branch) {
    lm_page_t *chain = NULL;
    lm_branch_each_page(branch, into_chain, &chain);
    branch->notified = NULL;
    branch->pending = branch->left_behind = 0;
    branch->pages = branch->trim_at = 0;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        branch->head[c] = NULL;
        branch->current[c] = NULL;
        branch->partial[c].first = branch->full[c].first = NULL;
        branch->foreign[c].handed_out = false;
    }
    if (chain != NULL) lm_span_give_chain(chain, false);
    lm_store_relaxed(&branch->active, false);
}

static lm_heap_t *first_branch(const struct loam_heap *whole) {
    lm_node_t *first = whole->branches.first;
    return first != NULL ? LM_CONTAINER(first, lm_heap_t, sibling) : NULL;
}

static lm_page_t *first_large(const struct loam_heap *whole) {
    lm_node_t *first = whole->large.first;
    return first != NULL ? LM_CONTAINER(first, lm_page_t, link) : NULL;
}

/* malloc goes back to the thread's own heap if it is this one that it uses. Returns that. */
static const lm_heap_t *leave_front(const struct loam_heap *whole) {
    if (lm_heap_get() == NULL) return NULL;
    lm_heap_t *own = lm_heap_mine();
    if (lm_heap_self->whole == whole) lm_heap_face(own);
    return own;
}

static void put_away(struct loam_heap *whole) {
    if (whole->arena != NULL) lm_range_let(whole->arena);
    lm_lock_take(&whole->lock); /* somebody may be changing a large object (whole_alloc.c) */
    whole->life++;
    lm_lock_give(&whole->lock);
    lm_list_remove(&wholes, &whole->link);
    lm_list_add_first(&spare_wholes, &whole->link);
}

void lm_whole_destroy(struct loam_heap *whole) {
    LM_PROBE1(heap_destroy, whole);
    const lm_heap_t *own = leave_front(whole);
    lm_lock_take(&lm_registry_lock);
    enter(whole, own);
    for (lm_heap_t *branch; (branch = first_branch(whole)) != NULL;) {
        drop_pages(branch);
        unlink_branch(branch, whole);
        leave(branch, own);
        lm_branch_spare(branch);
    }
    for (lm_page_t *page; (page = first_large(whole)) != NULL;) {
        lm_list_remove(&whole->large, &page->link);
        page->whole = NULL;
        lm_tools_dropped(lm_span_start(page), page->bytes);
        lm_large_discard(page);
    }
    put_away(whole);
    lm_lock_give(&lm_registry_lock);
}

void lm_whole_delete(struct loam_heap *whole) {
    LM_PROBE1(heap_delete, whole);
    const lm_heap_t *own = leave_front(whole);
    lm_lock_take(&lm_registry_lock);
    enter(whole, own);
    for (lm_heap_t *branch; (branch = first_branch(whole)) != NULL;) {
        lm_heap_t *main = branch->main;
        bool of_others = main != NULL && main != own && main != &lm_heap_common;
        /* Nothing is taken in: another thread may be freeing on its pages at this moment, without a lock. */
        lm_branch_each_page(branch, make_ordinary, NULL);
        unlink_branch(branch, whole);
        if (of_others)
            lm_branch_retire(branch); /* its thread comes for it */
        else
            lm_heap_part_with_all(branch);
        leave(branch, own);
        if (!of_others) lm_branch_spare(branch);
    }
    lm_lock_take(&whole->lock); /* somebody may be freeing one */
    for (lm_page_t *page; (page = first_large(whole)) != NULL;) {
        lm_list_remove(&whole->large, &page->link);
        lm_store_release(&page->whole, NULL); /* the last that is done to it: see lm_large_free */
    }
    lm_lock_give(&whole->lock);
    put_away(whole);
    lm_lock_give(&lm_registry_lock);
}

/* ---- Fork ---- */

#define FOR_EACH_WHOLE(whole, node) \
    for (lm_node_t *node = wholes.first; node != NULL; node = lm_list_after(&wholes, node)) \
        for (struct loam_heap *whole = LM_CONTAINER(node, struct loam_heap, link); whole != NULL; \
             whole = NULL)

void lm_whole_lock_late(void) { FOR_EACH_WHOLE(whole, node) lm_lock_take(&whole->late_lock); }
void lm_whole_lock(void) { FOR_EACH_WHOLE(whole, node) lm_lock_take(&whole->lock); }

void lm_whole_unlock(void) {
    FOR_EACH_WHOLE(whole, node) {
        lm_lock_give(&whole->lock);
        lm_lock_give(&whole->late_lock);
    }
}

void lm_whole_after_fork(void) {
    FOR_EACH_WHOLE(whole, node) {
        lm_lock_reset(&whole->lock);
        lm_lock_reset(&whole->late_lock);
    }
}

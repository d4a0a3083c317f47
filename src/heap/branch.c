/* branch.c: what a thread has of first-class heaps (whole.h has the picture).
 *
 *   in use     whole, main: a thread's own heap; in its chain
 *   alone      whole, no main: its thread has ended; owner of its pages: none
 *   late       whole, main: the common heap; for all threads that have ended but go on
 *   free       no whole, main; no pages; in the thread's chain
 *   retired    no whole, main; the thread will part with its pages
 *   spare      neither; in spare_branches, perhaps with pages that wait for a free on its way
 *
 * States change under the registry's lock, but for free to retired and back. Branches are never unmapped, and a
 * thread's stay in its chain, to be used for its next heap.
 */
#include "heap/room.h"

static lm_heap_t *spare_branches; /* registry's lock */

/* ---- Pages of a branch ---- */

void lm_branch_each_page(lm_heap_t *branch, void (*visit)(lm_page_t *page, void *context),
                         void *context) {
    size_t left = branch->pages;
    for (unsigned c = 1; c < LM_CLASSES && left > 0; c++) {
        if (branch->current[c] != NULL) {
            visit(branch->current[c], context);
            left--;
        }
        lm_list_t *lists[] = {&branch->partial[c], &branch->full[c]};
        for (unsigned i = 0; i < 2; i++) {
            lm_node_t *next;
            for (lm_node_t *n = lists[i]->first; n != NULL; n = next, left--) {
                next = lm_list_after(lists[i], n);
                visit(LM_CONTAINER(n, lm_page_t, link), context);
            }
        }
    }
}

static void give_to(lm_page_t *page, void *token) {
    lm_store_relaxed(&page->owner, *(uintptr_t *)token);
}

/* ---- Which to take ---- */

void lm_branch_spare(lm_heap_t *branch) {
    branch->main = NULL;
    branch->next_branch = spare_branches;
    spare_branches = branch;
}

static lm_heap_t *take_spare(void) {
    for (lm_heap_t **b = &spare_branches; *b != NULL; b = &(*b)->next_branch) {
        lm_heap_t *branch = *b;
        if (branch->pages > 0) continue;
        *b = branch->next_branch;
        return branch;
    }
    lm_heap_t *branch = lm_heap_create();
    if (branch != NULL) branch->special = LM_IS_BRANCH;
    return branch;
}

static void into_thread(lm_heap_t *branch, lm_heap_t *own) {
    branch->main = own;
    branch->next_branch = own->next_branch;
    own->next_branch = branch;
}

static lm_heap_t *alone(const struct loam_heap *whole) {
    for (lm_node_t *n = whole->branches.first; n != NULL; n = lm_list_after(&whole->branches, n)) {
        lm_heap_t *branch = LM_CONTAINER(n, lm_heap_t, sibling);
        if (branch->main == NULL) return branch;
    }
    return NULL;
}

static lm_heap_t *free_one(const lm_heap_t *own) {
    lm_heap_t *branch = own->next_branch;
    while (branch != NULL && (branch->whole != NULL || branch->pages > 0))
        branch = branch->next_branch;
    return branch;
}

/* For its statistics; without it they lack the pages that have gone. Registry's lock held. */
static void make_room_to_count(struct loam_heap *whole) {
    if (whole->handed == NULL)
        whole->handed = (uint64_t *)lm_heap_room(LM_CLASSES * sizeof *whole->handed);
}

/* Registry's lock held. */
static lm_heap_t *find_branch(struct loam_heap *whole, lm_heap_t *own) {
    lm_heap_t *branch = alone(whole);
    if (branch != NULL) {
        into_thread(branch, own);
        return branch;
    }
    branch = free_one(own);
    if (branch == NULL) {
        branch = take_spare();
        if (branch == NULL) return NULL;
        into_thread(branch, own);
    }
    branch->retired = false;
    make_room_to_count(whole);
    lm_store_relaxed(&branch->whole, whole);
    lm_list_add_last(&whole->branches, &branch->sibling);
    return branch;
}

static lm_heap_t *new_branch(struct loam_heap *whole, lm_heap_t *own) {
    lm_lock_take(&lm_registry_lock);
    lm_heap_t *branch = find_branch(whole, own);
    lm_lock_give(&lm_registry_lock);
    if (branch == NULL) return NULL;
    lm_biased_enter(&branch->lock);
    lm_remote_drain(branch);
    lm_store_relaxed(&branch->token, own->token);
    lm_branch_each_page(branch, give_to, &branch->token);
    lm_store_relaxed(&branch->active, true);
    lm_biased_leave(&branch->lock);
    return branch;
}

lm_heap_t *lm_branch_of(struct loam_heap *whole, lm_heap_t *own) {
    lm_heap_t *branch = own->next_branch;
    /* Relaxed: if it is that heap's, we made it so. */
    while (branch != NULL && lm_load_relaxed(&branch->whole) != whole) branch = branch->next_branch;
    if (branch == NULL) branch = new_branch(whole, own);
    if (branch == NULL) return NULL;
    lm_heap_t *self = lm_heap_self;
    self->branch = branch;
    lm_store_relaxed(&self->of, whole);
    return branch;
}

lm_heap_t *lm_branch_late(struct loam_heap *whole) {
    /* Acquire: it is as below once it is seen. */
    lm_heap_t *late = lm_load_acquire(&whole->late);
    if (late != NULL) return late;
    lm_lock_take(&lm_registry_lock);
    late = whole->late;
    if (late == NULL && (late = take_spare()) != NULL) {
        late->main = &lm_heap_common;
        late->token = LM_OWNER_COMMON; /* as the common heap's: no thread's */
        late->active = true;
        make_room_to_count(whole);
        lm_store_relaxed(&late->whole, whole);
        lm_list_add_last(&whole->branches, &late->sibling);
        lm_store_release(&whole->late, late);
    }
    lm_lock_give(&lm_registry_lock);
    return late;
}

/* ---- End ---- */

void lm_whole_part_with_retired(lm_heap_t *own) {
    lm_store_relaxed(&own->special, 0);
    for (lm_heap_t *b = own->next_branch; b != NULL; b = b->next_branch) {
        lm_biased_enter(&b->lock);
        if (b->retired) lm_heap_part_with_all(b);
        b->retired = false;
        lm_biased_leave(&b->lock);
    }
}

/* Heap lock held, in place of the owner. */
static void disown(lm_heap_t *branch) {
    uintptr_t nobody = LM_OWNER_NONE;
    if (branch->whole == NULL) {
        lm_heap_part_with_all(branch);
        branch->retired = false;
    } else {
        lm_heap_take_in(branch);
        lm_heap_return_handed_out(branch);
        lm_page_trim(branch);
        lm_branch_each_page(branch, give_to, &nobody);
    }
    lm_store_relaxed(&branch->active, false);
}

void lm_branch_ends(lm_heap_t *branch) {
    disown(branch);
    branch->main = branch->next_branch = NULL;
    if (branch->whole == NULL) lm_branch_spare(branch);
}

void lm_whole_thread_ends(lm_heap_t *own) {
    lm_lock_take(&lm_registry_lock);
    for (lm_heap_t *b = own->next_branch, *next; b != NULL; b = next) {
        next = b->next_branch;
        lm_biased_enter(&b->lock);
        lm_branch_ends(b);
        lm_biased_leave(&b->lock);
    }
    own->next_branch = NULL;
    own->special = 0;
    own->of = NULL;
    own->front = own;
    lm_lock_give(&lm_registry_lock);
}

/* branch.c: what a thread has of first-class heaps (fheap.h has the picture).
 *
 *   in use     fheap; own_heap: a thread's own heap; in its index
 *   alone      fheap, no own_heap: its thread has ended; first in its heap's list
 *   late       fheap; own_heap: the common heap; for all threads that have ended but go on
 *   retired    no fheap, own_heap; in the thread's retired_branches: it will part with its pages
 *   spare      neither; in spare_branches, perhaps with pages that wait for a free on its way
 *
 * States change under the registry's lock. Branches are never unmapped: whoever needs one takes a
 * spare one.
 *
 *   own->fheap.buckets[hash of the heap] ── branch ── branch       the index of a thread
 *
 * The owner reads its index without a lock, while who ends a heap takes branches out of it. It may
 * then be led into another thread's chain, and miss what it looks for; it looks again under the
 * lock before it makes a branch. What it finds is right: nobody but itself makes a branch its own,
 * and nobody ends the heap that it allocates from.
 */
#include "fheap/fheap.h"

static lm_heap_t *spare_branches; /* registry's lock */

static void give_to(lm_page_t *page, void *token) {
    lm_store_relaxed(&page->owner, *(uintptr_t *)token);
}

/* ---- A thread's index ---- */

enum { FEW_BITS = 3, LOAD = 2 /* branches for each bucket, before there are more of them */ };
LM_STATIC_ASSERT(1 << FEW_BITS == LM_BRANCHES_FEW, "of buckets");

static lm_heap_t **bucket(const lm_heap_t *own, const struct loam_heap *whole) {
    uint64_t hash = ((uint64_t)(uintptr_t)whole >> 6) * 0x9e3779b97f4a7c15u;
    return &own->fheap.buckets[hash >> (64 - own->fheap.bucket_bits)];
}

/* Acquire, of all links: a branch is as it was when it came into some index. */
static lm_heap_t *find(const lm_heap_t *own, const struct loam_heap *whole) {
    if (LM_UNLIKELY(own->fheap.buckets == NULL)) return NULL;
    lm_heap_t *branch = lm_load_acquire(bucket(own, whole));
    /* Relaxed: if it is ours of that heap, we made it so. */
    while (branch != NULL && (lm_load_relaxed(&branch->fheap.fheap) != whole ||
                              lm_load_relaxed(&branch->fheap.own_heap) != own))
        branch = lm_load_acquire(&branch->fheap.next_branch);
    return branch;
}

/* Below: registry's lock held. */

static void put_in(lm_heap_t *own, lm_heap_t *branch, const struct loam_heap *whole) {
    lm_heap_t **first = bucket(own, whole);
    lm_store_release(&branch->fheap.next_branch, *first);
    lm_store_release(first, branch);
}

/* Only by its thread, which reads it. In the memory that there is, as long as that is enough. */
static void grow(lm_heap_t *own) {
    unsigned bits = own->fheap.bucket_bits + 1u;
    size_t bytes = sizeof(lm_heap_t *) << bits;
    lm_page_t *memory = own->fheap.bucket_memory;
    if (memory == NULL || bytes > (size_t)memory->slices << LM_SLICE_SHIFT) {
        size_t slices = (bytes + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
        memory = lm_span_take(slices, 1, LM_KIND_META, NULL);
        if (memory == NULL) return; /* it gets slower */
    }
    lm_heap_t *all = NULL, *next;
    for (size_t i = 0; i < (size_t)1 << own->fheap.bucket_bits; i++) {
        for (lm_heap_t *b = own->fheap.buckets[i]; b != NULL; b = next) {
            next = b->fheap.next_branch;
            lm_store_release(&b->fheap.next_branch, all);
            all = b;
        }
    }
    if (own->fheap.bucket_memory != memory && own->fheap.bucket_memory != NULL)
        lm_span_give(own->fheap.bucket_memory, false);
    own->fheap.bucket_memory = memory;
    own->fheap.buckets = (lm_heap_t **)(void *)lm_span_start(memory);
    own->fheap.bucket_bits = (uint8_t)bits;
    __builtin_memset(own->fheap.buckets, 0, bytes);
    for (; all != NULL; all = next) {
        next = all->fheap.next_branch;
        put_in(own, all, all->fheap.fheap);
    }
}

/* By its thread. */
static void into_index(lm_heap_t *own, lm_heap_t *branch, const struct loam_heap *whole) {
    if (own->fheap.buckets == NULL) {
        own->fheap.bucket_bits = FEW_BITS;
        own->fheap.buckets = own->fheap.few_branches;
    }
    if (++own->fheap.branches > (size_t)LOAD << own->fheap.bucket_bits) grow(own);
    put_in(own, branch, whole);
}

void lm_branch_out_of_index(lm_heap_t *branch, const struct loam_heap *whole) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_heap_t *own = branch->fheap.own_heap, **link = bucket(own, whole);
    while (*link != branch) link = &(*link)->fheap.next_branch;
    lm_store_release(link, branch->fheap.next_branch);
    own->fheap.branches--;
}

void lm_branch_forget_all(lm_heap_t *own) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    if (own->fheap.bucket_memory != NULL) lm_span_give(own->fheap.bucket_memory, false);
    own->fheap.bucket_memory = NULL;
    own->fheap.buckets = NULL;
    own->fheap.branches = 0;
    own->fheap.retired_branches = NULL;
    __builtin_memset(own->fheap.few_branches, 0, sizeof own->fheap.few_branches);
    own->fheap.special = 0;
    own->fheap.last_fheap = LM_NO_FHEAP;
    own->fheap.active_heap = own;
}

/* Each of a thread's, which may leave its chain meanwhile. */
static void each(lm_heap_t *own, void (*visit)(lm_heap_t *branch, void *context), void *context) {
    size_t n = own->fheap.buckets != NULL ? (size_t)1 << own->fheap.bucket_bits : 0;
    for (size_t i = 0; i <= n; i++) {
        lm_heap_t *next;
        for (lm_heap_t *b = i < n ? own->fheap.buckets[i] : own->fheap.retired_branches; b != NULL;
             b = next) {
            next = b->fheap.next_branch;
            visit(b, context);
        }
    }
}

void lm_branch_each(lm_heap_t *own, void (*visit)(lm_heap_t *branch, void *context),
                    void *context) {
    lm_lock_take(&lm_registry_lock);
    each(own, visit, context);
    lm_lock_give(&lm_registry_lock);
}

/* ---- Which to take ---- */

void lm_branch_spare(lm_heap_t *branch) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_store_relaxed(&branch->fheap.own_heap, NULL);
    lm_store_release(&branch->fheap.next_branch, spare_branches);
    spare_branches = branch;
}

static lm_heap_t *take_spare(void) {
    for (lm_heap_t **b = &spare_branches; *b != NULL; b = &(*b)->fheap.next_branch) {
        lm_heap_t *branch = *b;
        if (branch->pages > 0) continue;
        lm_store_release(b, branch->fheap.next_branch);
        return branch;
    }
    lm_heap_t *branch = lm_heap_create();
    if (branch != NULL) branch->fheap.special = LM_IS_BRANCH;
    return branch;
}

static void into_thread(lm_heap_t *branch, lm_heap_t *own, struct loam_heap *whole) {
    lm_store_relaxed(&branch->fheap.own_heap, own);
    lm_list_add_last(&whole->branches, &branch->fheap.sibling);
    into_index(own, branch, whole);
}

static lm_heap_t *alone(const struct loam_heap *whole) {
    if (whole->branches.first == NULL) return NULL;
    lm_heap_t *branch = LM_CONTAINER(whole->branches.first, lm_heap_t, fheap.sibling);
    return branch->fheap.own_heap == NULL ? branch : NULL;
}

/* Registry's lock held. */
static lm_heap_t *find_branch(struct loam_heap *whole, lm_heap_t *own) {
    lm_heap_t *branch = alone(whole);
    if (branch != NULL) {
        lm_list_remove(&whole->branches, &branch->fheap.sibling);
    } else {
        branch = take_spare();
        if (branch == NULL) return NULL;
        branch->fheap.retired = false;
        lm_whole_room_to_count(whole);
        lm_store_relaxed(&branch->fheap.fheap, whole);
    }
    into_thread(branch, own, whole);
    return branch;
}

static lm_heap_t *new_branch(struct loam_heap *whole, lm_heap_t *own) {
    /* Relaxed: what comes this moment is for the next time. Who uses heaps by name alone comes
     * nowhere else. */
    if (lm_load_relaxed(&own->fheap.special) == LM_HAS_RETIRED) lm_whole_part_with_retired(own);
    lm_lock_take(&lm_registry_lock);
    lm_heap_t *branch = find(own, whole);
    bool found = branch != NULL;
    if (!found) branch = find_branch(whole, own);
    lm_lock_give(&lm_registry_lock);
    if (found || branch == NULL) return branch;
    lm_biased_enter(&branch->lock);
    lm_remote_drain(branch);
    lm_store_relaxed(&branch->token, own->token);
    lm_page_each(branch, give_to, &branch->token);
    lm_bytes_branch(branch, false);
    lm_store_relaxed(&branch->active, true);
    lm_biased_leave(&branch->lock);
    return branch;
}

lm_heap_t *lm_branch_of(struct loam_heap *whole, lm_heap_t *own) {
    lm_heap_t *branch = find(own, whole);
    if (LM_UNLIKELY(branch == NULL)) branch = new_branch(whole, own);
    if (branch == NULL) return NULL;
    lm_heap_t *front =
        /* not lm_heap_self: the worker may have hidden it, and that one is everybody's */
        own->fheap.active_heap;
    front->fheap.last_branch = branch;
    lm_store_relaxed(&front->fheap.last_fheap, whole);
    return branch;
}

lm_heap_t *lm_branch_late(struct loam_heap *whole) {
    /* Acquire: it is as below once it is seen. */
    lm_heap_t *late = lm_load_acquire(&whole->late);
    if (late != NULL) return late;
    lm_lock_take(&lm_registry_lock);
    late = whole->late;
    if (late == NULL && (late = take_spare()) != NULL) {
        lm_store_relaxed(&late->fheap.own_heap, &lm_heap_common);
        late->token = LM_OWNER_COMMON; /* as the common heap's: no thread's */
        late->active = true;
        lm_whole_room_to_count(whole);
        lm_store_relaxed(&late->fheap.fheap, whole);
        lm_list_add_last(&whole->branches, &late->fheap.sibling);
        lm_store_release(&whole->late, late);
    }
    lm_lock_give(&lm_registry_lock);
    return late;
}

/* ---- End ---- */

void lm_branch_retire(lm_heap_t *branch) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_heap_t *own = branch->fheap.own_heap;
    branch->fheap.retired = true;
    lm_store_release(&branch->fheap.next_branch, own->fheap.retired_branches);
    own->fheap.retired_branches = branch;
    lm_store_relaxed(&own->fheap.special, LM_HAS_RETIRED);
}

void lm_whole_part_with_retired(lm_heap_t *own) {
    lm_lock_take(&lm_registry_lock);
    lm_store_relaxed(&own->fheap.special, 0);
    for (lm_heap_t *b; (b = own->fheap.retired_branches) != NULL;) {
        own->fheap.retired_branches = b->fheap.next_branch;
        lm_biased_enter(&b->lock);
        lm_heap_part_with_all(b);
        b->fheap.retired = false;
        lm_biased_leave(&b->lock);
        lm_branch_spare(b);
    }
    lm_lock_give(&lm_registry_lock);
}

/* Heap lock held, in place of the owner. */
static void disown(lm_heap_t *branch) {
    uintptr_t nobody = LM_OWNER_NONE;
    if (branch->fheap.fheap == NULL) {
        lm_heap_part_with_all(branch);
        branch->fheap.retired = false;
    } else {
        lm_heap_take_in(branch);
        lm_heap_return_handed_out(branch);
        lm_page_trim(branch);
        lm_page_each(branch, give_to, &nobody);
    }
    lm_store_relaxed(&branch->active, false);
}

void lm_branch_ends(lm_heap_t *branch) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    disown(branch);
    lm_store_relaxed(&branch->fheap.own_heap, NULL);
    lm_store_release(&branch->fheap.next_branch, NULL);
    if (branch->fheap.fheap == NULL) {
        lm_branch_spare(branch);
    } else {
        lm_list_remove(&branch->fheap.fheap->branches, &branch->fheap.sibling);
        lm_list_add_first(&branch->fheap.fheap->branches, &branch->fheap.sibling);
    }
}

static void end_one(lm_heap_t *branch, void *context) {
    (void)context;
    lm_biased_enter(&branch->lock);
    lm_branch_ends(branch);
    lm_biased_leave(&branch->lock);
}

void lm_whole_thread_ends(lm_heap_t *own) {
    lm_lock_take(&lm_registry_lock);
    each(own, end_one, NULL);
    lm_branch_forget_all(own);
    lm_lock_give(&lm_registry_lock);
}

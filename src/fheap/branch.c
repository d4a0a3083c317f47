/* branch.c: the branches of first-class heaps that threads allocate from (fheap.h has the drawing).
 *
 *   state     fheap   own_heap         where it is, and what becomes of it
 *   in use    set     the thread's     in the thread's index
 *   alone     set     NULL             first in its heap's list: its thread has ended
 *   late      set     the common heap  serves all threads that have ended but still run code
 *   retired   NULL    the thread's     in the thread's retired_branches: it will part with it
 *   spare     NULL    NULL             in spare_branches, maybe with pages that wait for a free
 *
 * States change under the registry's lock. Branches are never unmapped: a thread that needs one
 * takes a spare one.
 *
 *   own->fheap.buckets[hash of the heap] ── branch ── branch       the index of a thread
 *
 * The owner reads its index without a lock, while a thread that ends a heap takes branches out of
 * it. The owner may then follow a link into another thread's chain, and miss its branch; so it
 * looks again under the lock before it makes one. A branch that it finds is right: only the owner
 * makes a branch its own, and no thread ends the heap that the owner allocates from.
 */
#include "fheap/fheap.h"

static lm_theap_t *spare_branches; /* registry's lock */

static void branch_give_to(lm_page_t *page, void *token) {
    lm_store_relaxed(&page->owner, *(uintptr_t *)token);
}

/* ---- A thread's index ---- */

enum {
    FEW_BITS = 3,
    LOAD = 2 /* average number of branches in a bucket at which the index grows */
};
LM_STATIC_ASSERT(1 << FEW_BITS == LM_BRANCHES_FEW, "of buckets");

static lm_theap_t **bucket(const lm_theap_t *own, const struct loam_heap *fheap) {
    LM_ASSERT(own->fheap.bucket_bits >= FEW_BITS);
    uint64_t hash = ((uint64_t)(uintptr_t)fheap >> 6) * 0x9e3779b97f4a7c15u;
    return &own->fheap.buckets[hash >> (64 - own->fheap.bucket_bits)];
}

/* Returns the thread's branch of that heap. Returns NULL iff it finds none. Acquire, for all links:
 * a branch is seen as it was when it entered an index. */
static lm_theap_t *branch_find(const lm_theap_t *own, const struct loam_heap *fheap) {
    if (LM_UNLIKELY(own->fheap.buckets == NULL)) return NULL;
    lm_theap_t *branch = lm_load_acquire(bucket(own, fheap));
    /* Relaxed: if it is this thread's branch of that heap, this thread wrote both words. */
    while (branch != NULL && (lm_load_relaxed(&branch->fheap.fheap) != fheap ||
                              lm_load_relaxed(&branch->fheap.own_heap) != own))
        branch = lm_load_acquire(&branch->fheap.next_branch);
    return branch;
}

/* Functions from here up to lm_branch_each need the registry's lock. */

static void put_in(lm_theap_t *own, lm_theap_t *branch, const struct loam_heap *fheap) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_theap_t **first = bucket(own, fheap);
    lm_store_release(&branch->fheap.next_branch, *first);
    lm_store_release(first, branch);
}

/* Doubles the buckets of the calling thread's index, within its memory while that is large
 * enough. */
static void branch_grow(lm_theap_t *own) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    unsigned bits = own->fheap.bucket_bits + 1u;
    size_t bytes = sizeof(lm_theap_t *) << bits;
    lm_page_t *memory = own->fheap.bucket_memory;
    if (memory == NULL || bytes > (size_t)memory->slices << LM_SLICE_SHIFT) {
        size_t slices = (bytes + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
        memory = lm_span_take(slices, 1, LM_KIND_META, NULL);
        if (memory == NULL) return; /* the index stays as it is, and gets slower */
    }
    LM_ASSERT(bytes <= (size_t)memory->slices << LM_SLICE_SHIFT);
    lm_theap_t *all = NULL, *next;
    for (size_t i = 0; i < (size_t)1 << own->fheap.bucket_bits; i++) {
        for (lm_theap_t *b = own->fheap.buckets[i]; b != NULL; b = next) {
            next = b->fheap.next_branch;
            lm_store_release(&b->fheap.next_branch, all);
            all = b;
        }
    }
    if (own->fheap.bucket_memory != memory && own->fheap.bucket_memory != NULL)
        lm_span_give_meta(own->fheap.bucket_memory, false);
    own->fheap.bucket_memory = memory;
    own->fheap.buckets = (lm_theap_t **)(void *)lm_span_start(memory);
    own->fheap.bucket_bits = (uint8_t)bits;
    __builtin_memset(own->fheap.buckets, 0, bytes);
    for (; all != NULL; all = next) {
        next = all->fheap.next_branch;
        put_in(own, all, all->fheap.fheap);
    }
}

/* Puts a branch into the calling thread's index. */
static void into_index(lm_theap_t *own, lm_theap_t *branch, const struct loam_heap *fheap) {
    if (own->fheap.buckets == NULL) {
        own->fheap.bucket_bits = FEW_BITS;
        own->fheap.buckets = own->fheap.few_branches;
    }
    if (++own->fheap.branches > (size_t)LOAD << own->fheap.bucket_bits) branch_grow(own);
    put_in(own, branch, fheap);
}

void lm_branch_out_of_index(lm_theap_t *branch, const struct loam_heap *fheap) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_theap_t *own = branch->fheap.own_heap, **link = bucket(own, fheap);
    LM_ASSERT(own->fheap.branches > 0);
    while (*link != branch) link = &(*link)->fheap.next_branch;
    lm_store_release(link, branch->fheap.next_branch);
    own->fheap.branches--;
}

void lm_branch_forget_all(lm_theap_t *own) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    if (own->fheap.bucket_memory != NULL) lm_span_give_meta(own->fheap.bucket_memory, false);
    own->fheap.bucket_memory = NULL;
    own->fheap.buckets = NULL;
    own->fheap.branches = 0;
    own->fheap.retired_branches = NULL;
    __builtin_memset(own->fheap.few_branches, 0, sizeof own->fheap.few_branches);
    own->fheap.special = 0;
    own->fheap.last_fheap = LM_NO_FHEAP;
    own->fheap.active_heap = own;
}

/* Calls visit for each branch of a thread, which may leave its chain meanwhile. */
static void each(lm_theap_t *own, void (*visit)(lm_theap_t *branch, void *context), void *context) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    size_t n = own->fheap.buckets != NULL ? (size_t)1 << own->fheap.bucket_bits : 0;
    for (size_t i = 0; i <= n; i++) {
        lm_theap_t *next;
        for (lm_theap_t *b = i < n ? own->fheap.buckets[i] : own->fheap.retired_branches; b != NULL;
             b = next) {
            next = b->fheap.next_branch;
            visit(b, context);
        }
    }
}

void lm_branch_each(lm_theap_t *own, void (*visit)(lm_theap_t *branch, void *context),
                    void *context) {
    lm_lock_take(&lm_registry_lock);
    each(own, visit, context);
    lm_lock_give(&lm_registry_lock);
}

/* ---- Which to take ---- */

void lm_branch_spare(lm_theap_t *branch) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    LM_ASSERT(lm_load_relaxed(&branch->fheap.special) == LM_IS_BRANCH);
    LM_ASSERT(lm_load_relaxed(&branch->fheap.fheap) == NULL && !branch->fheap.retired);
    lm_store_relaxed(&branch->fheap.own_heap, NULL);
    lm_store_release(&branch->fheap.next_branch, spare_branches);
    spare_branches = branch;
}

static lm_theap_t *branch_take_spare(void) {
    for (lm_theap_t **b = &spare_branches; *b != NULL; b = &(*b)->fheap.next_branch) {
        lm_theap_t *branch = *b;
        LM_ASSERT(lm_load_relaxed(&branch->fheap.fheap) == NULL);
        LM_ASSERT(lm_load_relaxed(&branch->fheap.own_heap) == NULL);
        if (branch->pages > 0) continue;
        lm_store_release(b, branch->fheap.next_branch);
        return branch;
    }
    lm_theap_t *branch = lm_heap_create();
    if (branch != NULL) branch->fheap.special = LM_IS_BRANCH;
    return branch;
}

static void into_thread(lm_theap_t *branch, lm_theap_t *own, struct loam_heap *fheap) {
    LM_ASSERT(lm_load_relaxed(&branch->fheap.fheap) == fheap);
    LM_ASSERT(!lm_node_linked(&branch->fheap.sibling));
    lm_store_relaxed(&branch->fheap.own_heap, own);
    lm_list_add_last(&fheap->branches, &branch->fheap.sibling);
    into_index(own, branch, fheap);
}

static lm_theap_t *alone(const struct loam_heap *fheap) {
    if (fheap->branches.first == NULL) return NULL;
    lm_theap_t *branch = LM_CONTAINER(fheap->branches.first, lm_theap_t, fheap.sibling);
    return branch->fheap.own_heap == NULL ? branch : NULL;
}

/* Returns a branch of the heap that is now the thread's: one whose thread has ended, or a spare
 * one. Returns NULL iff there is no memory. */
static lm_theap_t *find_branch(struct loam_heap *fheap, lm_theap_t *own) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_theap_t *branch = alone(fheap);
    if (branch != NULL) {
        lm_list_remove(&fheap->branches, &branch->fheap.sibling);
    } else {
        branch = branch_take_spare();
        if (branch == NULL) return NULL;
        branch->fheap.retired = false;
        lm_fheap_count_begin(fheap);
        lm_store_relaxed(&branch->fheap.fheap, fheap);
    }
    into_thread(branch, own, fheap);
    return branch;
}

static lm_theap_t *new_branch(struct loam_heap *fheap, lm_theap_t *own) {
    /* Relaxed: a branch that is retired this moment waits for the next call. A thread that uses
     * heaps by name only parts with retired branches nowhere else. */
    if (lm_load_relaxed(&own->fheap.special) == LM_HAS_RETIRED) lm_fheap_part_with_retired(own);
    lm_lock_take(&lm_registry_lock);
    lm_theap_t *branch = branch_find(own, fheap);
    bool found = branch != NULL;
    if (!found) branch = find_branch(fheap, own);
    lm_lock_give(&lm_registry_lock);
    if (found || branch == NULL) return branch;
    lm_biased_enter(&branch->lock);
    lm_remote_drain(branch);
    lm_store_relaxed(&branch->token, own->token);
    lm_page_each(branch, branch_give_to, &branch->token);
    lm_bytes_branch(branch, false);
    lm_store_relaxed(&branch->active, true);
    lm_biased_leave(&branch->lock);
    return branch;
}

lm_theap_t *lm_branch_of(struct loam_heap *fheap, lm_theap_t *own) {
    lm_theap_t *branch = branch_find(own, fheap);
    if (LM_UNLIKELY(branch == NULL)) branch = new_branch(fheap, own);
    if (branch == NULL) return NULL;
    lm_theap_t *front =
        /* Not lm_heap_self: the worker may have hidden it, and the heap there then belongs to no
         * thread. */
        own->fheap.active_heap;
    front->fheap.last_branch = branch;
    lm_store_relaxed(&front->fheap.last_fheap, fheap);
    return branch;
}

lm_theap_t *lm_branch_late(struct loam_heap *fheap) {
    /* Acquire: a branch that is seen is seen as it was stored. */
    lm_theap_t *late = lm_load_acquire(&fheap->late);
    if (late != NULL) return late;
    lm_lock_take(&lm_registry_lock);
    late = fheap->late;
    if (late == NULL && (late = branch_take_spare()) != NULL) {
        lm_store_relaxed(&late->fheap.own_heap, &lm_heap_common);
        late->token = LM_OWNER_COMMON; /* the common heap's token, which is no thread's */
        late->active = true;
        lm_fheap_count_begin(fheap);
        lm_store_relaxed(&late->fheap.fheap, fheap);
        lm_list_add_last(&fheap->branches, &late->fheap.sibling);
        lm_store_release(&fheap->late, late);
    }
    lm_lock_give(&lm_registry_lock);
    return late;
}

/* ---- End ---- */

void lm_branch_retire(lm_theap_t *branch) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_theap_t *own = branch->fheap.own_heap;
    LM_ASSERT(lm_load_relaxed(&branch->fheap.fheap) == NULL && !branch->fheap.retired);
    branch->fheap.retired = true;
    lm_store_release(&branch->fheap.next_branch, own->fheap.retired_branches);
    own->fheap.retired_branches = branch;
    lm_store_relaxed(&own->fheap.special, LM_HAS_RETIRED);
}

void lm_fheap_part_with_retired(lm_theap_t *own) {
    lm_lock_take(&lm_registry_lock);
    lm_store_relaxed(&own->fheap.special, 0);
    for (lm_theap_t *b; (b = own->fheap.retired_branches) != NULL;) {
        LM_ASSERT(b->fheap.retired && lm_load_relaxed(&b->fheap.own_heap) == own);
        own->fheap.retired_branches = b->fheap.next_branch;
        lm_biased_enter(&b->lock);
        lm_heap_part_with_all(b);
        b->fheap.retired = false;
        lm_biased_leave(&b->lock);
        lm_branch_spare(b);
    }
    lm_lock_give(&lm_registry_lock);
}

/* Takes the branch's pages from its thread, which has ended. Heap lock held, in place of the
 * owner. */
static void disown(lm_theap_t *branch) {
    uintptr_t nobody = LM_OWNER_NONE;
    if (branch->fheap.fheap == NULL) {
        lm_heap_part_with_all(branch);
        branch->fheap.retired = false;
    } else {
        lm_heap_take_in(branch);
        lm_heap_return_handed_out(branch);
        lm_page_trim(branch);
        lm_page_each(branch, branch_give_to, &nobody);
    }
    lm_store_relaxed(&branch->active, false);
}

void lm_branch_ends(lm_theap_t *branch) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    LM_ASSERT(lm_load_relaxed(&branch->fheap.special) == LM_IS_BRANCH);
    LM_ASSERT(lm_load_relaxed(&branch->fheap.own_heap) != NULL);
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

static void end_one(lm_theap_t *branch, void *context) {
    (void)context;
    lm_biased_enter(&branch->lock);
    lm_branch_ends(branch);
    lm_biased_leave(&branch->lock);
}

void lm_fheap_thread_ends(lm_theap_t *own) {
    lm_lock_take(&lm_registry_lock);
    each(own, end_one, NULL);
    lm_branch_forget_all(own);
    lm_lock_give(&lm_registry_lock);
}

/* thread_bytes.c: how many bytes a thread has allocated and freed, though malloc and free count
 * nothing.
 *
 *   a page of the thread    allocated: carved + again, minus what is ready in head[]
 *                           freed: carved + again - outside, minus what came by `remote`
 *   other threads' blocks   lists that become ready, and lists of freed blocks that leave
 *   pages that come and go  their counts so far are subtracted, or added, once
 *   large, sampled, others  counted one by one
 *
 * So both numbers are exact at any call, to the byte of the blocks: nothing is sampled, and nothing
 * is in flight. The sums over pages are made when the thread asks. What has left its pages is in
 * two words of its heap, which are kept from the thread's first call on. Before that call, and in
 * threads that do not ask, slow paths test one word of the process.
 *
 * A block that a list returns unused is subtracted again. A list of the thread's own frees that the
 * worker sends to their pages counts as freed by the thread. Objects that end with a first-class
 * heap count as freed by no thread. It cannot tell what a thread did before its first call, nor
 * what it allocates after its heap has ended; one thread cannot ask for another.
 * Invariant: allocated - freed changes by what the thread holds, if no other thread frees that.
 */
#include "survey/survey.h"

bool lm_bytes_wanted;

/* Relaxed: only sums. Added atomically: the worker adds for a thread that sleeps, while that thread
 * may wake up. */
void lm_bytes_add_to(lm_theap_t *heap, size_t allocated, size_t freed) {
    lm_theap_t *own = heap->fheap.own_heap;
    (void)lm_add_relaxed(&own->bytes.allocated, allocated);
    (void)lm_add_relaxed(&own->bytes.freed, freed);
}

void lm_bytes_add_mine(size_t allocated, size_t freed) {
    lm_theap_t *own = lm_heap_mine();
    if (own != NULL) lm_bytes_add(own, allocated, freed);
}

typedef struct sums {
    size_t allocated, freed;
} sums_t;

static void add_page(lm_page_t *page, void *context) {
    sums_t *sums = (sums_t *)context;
    size_t bytes = page->block_bytes, ready = page->carved + page->reused_total;
    LM_ASSERT(page->kind == LM_KIND_PAGE && lm_page_outside(page) <= ready);
    sums->allocated += ready * bytes;
    sums->freed += (ready - lm_page_outside(page)) * bytes;
}

static size_t thread_bytes_of(const lm_block_t *list) {
    size_t bytes = 0;
    for (; list != NULL; list = lm_link_get(list)) bytes += lm_page_of(list)->block_bytes;
    return bytes;
}

static void thread_bytes_add(lm_theap_t *heap, const sums_t *sums, bool less) {
    lm_bytes_add_to(heap, less ? 0 - sums->allocated : sums->allocated,
                    less ? 0 - sums->freed : sums->freed);
}

void lm_bytes_add_page(lm_theap_t *heap, const lm_page_t *page, bool leaves) {
    sums_t sums = {0, 0};
    add_page((lm_page_t *)(uintptr_t)page, &sums);
    thread_bytes_add(heap, &sums, !leaves);
}

void lm_bytes_add_list(lm_theap_t *heap, const lm_block_t *list, bool allocated, bool less) {
    size_t bytes = thread_bytes_of(list);
    if (less) bytes = 0 - bytes;
    lm_bytes_add_to(heap, allocated ? bytes : 0, allocated ? 0 : bytes);
}

/* Adds freed blocks that wait in the secure build (quarantine.c), and blocks of these that malloc
 * has reused. */
static void add_waiting(const lm_theap_t *heap, unsigned size_class, sums_t *sums) {
    size_t bytes = lm_class_bytes(size_class);
    sums->freed += lm_quarantine_count(heap, size_class) * bytes;
    if (size_class >= LM_SMALL_CLASSES) return;
    size_t again = lm_quarantine_reused(heap, size_class) * bytes;
    sums->allocated += again;
    sums->freed += again;
}

/* Adds what a heap's pages and lists say. Heap lock held. */
static void add_heap(lm_theap_t *heap, sums_t *sums) {
    lm_page_each(heap, add_page, sums);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        const lm_foreign_t *foreign = &heap->foreign[c];
        LM_ASSERT(foreign->room <= foreign->granted);
        sums->allocated -= thread_bytes_of(heap->head[c]);
        sums->freed += (size_t)(foreign->granted - foreign->room) * lm_class_bytes(c);
        add_waiting(heap, c, sums);
    }
}

void lm_bytes_add_branch(lm_theap_t *branch, bool leaves) {
    sums_t sums = {0, 0};
    add_heap(branch, &sums);
    thread_bytes_add(branch, &sums, !leaves);
}

static void visit(lm_theap_t *heap, void *context) {
    lm_biased_enter(&heap->lock);
    add_heap(heap, (sums_t *)context);
    lm_biased_leave(&heap->lock);
}

bool lm_thread_bytes(uint64_t *allocated, uint64_t *freed) {
    lm_theap_t *heap = lm_heap_get();
    if (heap == NULL) return false;
    lm_theap_t *own = heap->fheap.own_heap;
    sums_t sums = {0, 0};
    /* The worker's collection ends before this thread has the registry's lock, and none begins
     * meanwhile. */
    lm_idle_hold();
    lm_lock_take(&lm_registry_lock);
    lm_lock_give(&lm_registry_lock);
    visit(own, &sums);
    lm_branch_each(own, visit, &sums);
    if (!own->bytes.on) {
        lm_store_relaxed(&own->bytes.allocated, 0 - sums.allocated);
        lm_store_relaxed(&own->bytes.freed, 0 - sums.freed);
        /* Relaxed, both flags: a thread that counts has set them itself (lm_bytes_counted). */
        lm_store_relaxed(&own->bytes.on, true);
        lm_store_relaxed(&lm_bytes_wanted, true);
    }
    *allocated = sums.allocated + lm_load_relaxed(&own->bytes.allocated);
    *freed = sums.freed + lm_load_relaxed(&own->bytes.freed);
    lm_idle_let();
    return true;
}

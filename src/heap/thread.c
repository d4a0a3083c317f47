/* thread.c: creates a thread's heap at its first allocation, and retires it when the thread exits.
 *
 *   first malloc    the thread gets an idle heap or a new one, which becomes active
 *   thread exit     blocks of other heaps return to their pages. The current pages stay in the
 *                   heap with their free lists, for the next thread. Of the other pages, empty
 *                   ones go to the arena, and pages with blocks in use become orphans
 *   no next thread  the worker takes the current pages as well (idle.c)
 *
 * Heaps are never unmapped, so that a thread that still holds a page of a retired heap may notify
 * that heap. A thread that goes on after its heap was retired (destructors of other keys, libc's
 * own cleanup) allocates from the common heap. No thread has the common heap's token, so that
 * every free of its blocks is a remote free.
 *
 * What a fork does to heaps is in fork.c.
 * Invariant: a thread's heap is active, or in the list of idle heaps, or in the hands of the one
 * thread that is moving it between these two states.
 */
#include "heap/core.h"

enum {
    THREAD_KEPT_BYTES =
        512 * 1024,    /* largest sum of carved bytes in the current pages of a kept heap */
    KEPT_LEAST = 4096, /* a kept page counts as at least so many bytes */
    MANY_LEAST = 16,   /* smallest value of lm_heaps_many, in heaps */
    /* lm_heaps_many for each processor: far more heaps than threads that can run at a time. */
    MANY_EACH = 4,
};

LM_TLS lm_theap_t *lm_heap_self = &lm_heap_empty;
/* The calling thread's own heap, even while lm_heap_self points elsewhere because the heap is
 * parked. NULL before the first allocation; `ended` once the thread has ended. All of loam takes
 * only a few words of static TLS, because libraries that are opened late find little of it. */
static LM_TLS lm_theap_t *thread_mine;
static LM_TLS unsigned end_calls; /* number of calls of the exit hook in this thread */
static lm_theap_t *const thread_ended = &lm_heap_empty;

lm_theap_t lm_heap_empty = {.fheap.last_fheap = LM_NO_FHEAP};
/* The first heap, which needs no slices of the arena. Most processes need no other. */
static lm_theap_t thread_first;
/* Most processes never touch the common heap: lm_common_heap makes it. */
lm_theap_t lm_heap_common;

LM_AT_START lm_lock_t lm_common_lock;
/* Atomic. Relaxed accesses are enough, because readers need only a guess. */
LM_AT_START uint32_t lm_heaps_active;
/* Atomic. With more active heaps than this, threads borrow their first blocks of a class. */
uint32_t lm_heaps_many = MANY_LEAST;
/* Atomic. Relaxed accesses are enough, because readers need only a guess. */
LM_AT_START uint32_t lm_heaps_kept;

LM_AT_START lm_lock_t lm_registry_lock;
LM_AT_START lm_list_t lm_registry;
/* First heap that the next thread may get, linked by next_idle. Under the registry's lock. */
static LM_AT_START lm_theap_t *idle;
/* Bounds of the unused memory for new heaps. Under the registry's lock. */
static LM_AT_START char *heaps_next, *heaps_limit;
static LM_AT_START bool booted, common_made;
/* The heap that the process started first; NULL after lm_heap_boot. The thread that started the
 * heap has forgotten it if the dynamic linker initialised thread-local storage afterwards. */
static LM_AT_START lm_theap_t *early;

/* ---- The start of a heap ---- */

static void count_processors(void) {
    uint32_t many = lm_purge_may_work() ? MANY_EACH * lm_os_processors() : 0;
    lm_store_relaxed(&lm_heaps_many, many < MANY_LEAST ? MANY_LEAST : many);
}

void lm_heap_memory_after_torn_fork(void) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    if (heaps_next != NULL) heaps_next = heaps_limit = (char *)(&thread_first + 1);
}

void *lm_heap_memory(size_t bytes) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    bytes = lm_align_up(bytes, 64);
    LM_ASSERT(bytes <= LM_SLICE_BYTES);
    if (heaps_next == NULL) {
        heaps_next = (char *)&thread_first;
        heaps_limit = heaps_next + sizeof thread_first;
    }
    if ((size_t)(heaps_limit - heaps_next) < bytes) {
        bool zero;
        lm_page_t *span = lm_span_take(1, 1, LM_KIND_META, &zero);
        if (span == NULL) return NULL;
        heaps_next = lm_span_start(span);
        heaps_limit = heaps_next + LM_SLICE_BYTES;
        if (!zero) __builtin_memset(heaps_next, 0, LM_SLICE_BYTES);
        count_processors();
    }
    void *room = heaps_next;
    LM_ASSERT((uintptr_t)room % 64 == 0);
    heaps_next += bytes;
    return room;
}

lm_theap_t *lm_heap_create(void) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_theap_t *heap = (lm_theap_t *)lm_heap_memory(sizeof(lm_theap_t));
    if (heap == NULL) return NULL;
    /* Written before it is read: a read of a fresh page would cost a second page fault. */
    lm_store_relaxed(&heap->head[0], NULL);
    heap->fheap.own_heap = heap->fheap.active_heap = heap;
    heap->fheap.last_fheap = LM_NO_FHEAP;
    LM_ASSERT(!lm_node_linked(&heap->link));
    lm_list_add_last(&lm_registry, &heap->link);
    return heap;
}

static bool heap_ended(void *value, unsigned rounds);

unsigned lm_heap_tid(void) {
    if (!lm_purge_allowed() || !lm_ask_begin()) return 0;
    unsigned tid = lm_os_filtered() ? 0 : lm_port_thread_id();
    lm_ask_end();
    return tid;
}

void lm_heap_be_known(lm_theap_t *heap) {
    LM_ASSERT(heap == thread_mine);
    lm_biased_enter(&heap->lock);
    heap->tid = lm_heap_tid();
    heap->stack_top = lm_os_stack_top();
    heap->self = &lm_heap_self;
    lm_biased_leave(&heap->lock);
}

/* Makes the calling thread's heap usable again after the worker has parked it (idle.c). Returns
 * what the thread's malloc allocates from: the heap itself or a branch. Heap lock not held. */
static lm_theap_t *unpark(lm_theap_t *heap) {
    LM_ASSERT(heap->fheap.own_heap == heap);
    lm_biased_enter(&heap->lock);
    lm_store_relaxed(&heap->parked, false);
    lm_store_relaxed(&heap->slow, heap->slow + 1);
    lm_store_relaxed(&lm_heap_self, heap->fheap.active_heap);
    lm_biased_leave(&heap->lock);
    return heap->fheap.active_heap;
}

static void no_longer_kept(lm_theap_t *heap) {
    LM_ASSERT(lm_load_relaxed(&heap->kept));
    LM_ASSERT(lm_load_relaxed(&lm_heaps_kept) > 0);
    lm_store_relaxed(&heap->kept, false);
    (void)lm_add_relaxed(&lm_heaps_kept, (uint32_t)-1);
}

/* Makes the calling thread the owner of the current pages that the heap's last thread left. Heap
 * lock held; heap->token is the calling thread's. */
static void take_over(lm_theap_t *heap) {
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (heap->current[c] != NULL) lm_store_relaxed(&heap->current[c]->owner, heap->token);
    }
    no_longer_kept(heap);
}

void lm_heap_before_start(void) {
    if (lm_heap_self == NULL) lm_heap_self = &lm_heap_empty;
}

/* Gives the calling thread, which knows of no heap, the heap that it started before the dynamic
 * linker initialised thread-local storage. Returns NULL iff the thread started none. */
static lm_theap_t *thread_remember(void) {
    /* Acquire: the heap that `early` names is complete. Relaxed for `active` and `token`: no value
     * that another thread writes into `token` equals the calling thread's. */
    lm_theap_t *heap = lm_load_acquire(&early);
    if (heap == NULL || !lm_load_relaxed(&heap->active)) return NULL;
    if (lm_load_relaxed(&heap->token) != lm_thread_token()) return NULL;
    thread_mine = heap;
    return unpark(heap);
}

/* The slow half of lm_heap_get, while lm_heap_self is the empty heap. */
static LM_NOINLINE lm_theap_t *heap_start(void) {
    if (thread_mine == thread_ended) return NULL;
    if (thread_mine != NULL) {
        /* Not below a change of the heap, in the child of a signal handler that forks, or in the
         * program's error handler. */
        return lm_biased_outside(&thread_mine->lock) ? unpark(thread_mine) : NULL;
    }
    /* Relaxed: a thread that misses the boot finds `early` NULL, or another thread's heap there. */
    if (!lm_load_relaxed(&booted)) {
        lm_theap_t *forgotten = thread_remember();
        if (forgotten != NULL) return forgotten;
    }
    lm_unseen_end();
    lm_lock_take(&lm_registry_lock);
    lm_theap_t *heap = idle;
    if (heap != NULL)
        idle = heap->next_idle;
    else
        heap = lm_heap_create();
    lm_lock_give(&lm_registry_lock);
    if (heap == NULL) return NULL;
    LM_ASSERT(heap->fheap.own_heap == heap && heap->self == NULL);
    LM_ASSERT(!lm_load_relaxed(&heap->active));
    /* Before the heap is locked and active: a signal handler that forks finds that this thread is
     * inside the heap, and in the child that the heap has a thread. Relaxed: other threads only
     * compare the token. */
    thread_mine = heap;
    lm_store_relaxed(&heap->token, lm_thread_token());
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    lm_biased_enter(&heap->lock);
    /* The heap is still inactive here, so that pages with late remote frees become orphans. */
    lm_remote_drain(heap);
    if (heap->kept) take_over(heap);
    lm_store_relaxed(&heap->active, true);
    /* Relaxed, the next three: readers of these counts need only a guess. */
    lm_most(&lm_heap_counts.most, lm_add_relaxed(&lm_heaps_active, 1) + 1);
    (void)lm_add_relaxed(&lm_heap_counts.total, 1);
    lm_biased_leave(&heap->lock);
    lm_heap_self = heap;
    /* Relaxed loads: any of several threads may be the first, and no thread reads a heap that is
     * noted after boot. Release store: the heap is complete for a thread that finds it. */
    if (!lm_load_relaxed(&booted) && lm_load_relaxed(&early) == NULL)
        lm_store_release(&early, heap);
    /* lm_thread_on_exit may allocate: the heap is ready. If no key is left, the system does not
     * report the thread's end. The worker cannot park the heap then, because it must not write
     * into a thread that may be gone. */
    if (lm_thread_on_exit(heap_ended, heap))
        lm_heap_be_known(heap);
    else
        lm_unseen_add(heap);
    return heap;
}

lm_theap_t *lm_heap_get(void) {
    lm_theap_t *heap = lm_heap_self;
    return LM_LIKELY(heap != &lm_heap_empty) ? heap : heap_start();
}

lm_theap_t *lm_heap_mine(void) { return thread_mine != thread_ended ? thread_mine : NULL; }

LM_AT_START bool lm_heaps_chosen;

struct loam_heap *lm_heap_chosen(void) {
    return thread_mine != NULL && thread_mine != thread_ended
               ? thread_mine->fheap.active_heap->fheap.fheap
               : NULL;
}

void lm_heap_activate(lm_theap_t *front) {
    LM_ASSERT(lm_load_relaxed(&front->fheap.own_heap) == thread_mine);
    lm_store_relaxed(&lm_heaps_chosen, true);
    /* Locked, because the worker stores active_heap into lm_heap_self when it ends parking. */
    lm_biased_enter(&thread_mine->lock);
    lm_store_relaxed(&thread_mine->fheap.active_heap, front);
    lm_store_relaxed(&lm_heap_self, front);
    lm_biased_leave(&thread_mine->lock);
}

void lm_heap_hide_mine(void) {
    /* Relaxed: the thread itself reads the word next; the worker only overwrites it. */
    if (lm_heap_mine() != NULL) lm_store_relaxed(&lm_heap_self, &lm_heap_empty);
}

/* ---- Returning the lists of ready blocks ---- */

void lm_heap_return_head(lm_theap_t *heap, unsigned size_class) {
    lm_block_t *head = heap->head[size_class], *tail = head;
    if (head == NULL) return;
    if (heap->holds[size_class] == LM_HOLDS_OTHERS) {
        heap->head[size_class] = NULL;
        lm_foreign_send_back(heap, head);
        return;
    }
    LM_ASSERT(heap->current[size_class] != NULL);
    uint32_t n = 1;
    for (lm_block_t *next; (next = lm_link_get(tail)) != NULL; tail = next) n++;
    heap->head[size_class] = NULL;
    lm_count_back(heap->current[size_class], n);
    lm_page_put(heap->current[size_class], head, tail, n);
}

void lm_heap_return_handed_out(lm_theap_t *heap) {
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (heap->holds[c] == LM_HOLDS_OTHERS) lm_heap_return_head(heap, c);
    }
}

/* ---- The common heap ---- */

lm_theap_t *lm_common_heap(void) {
    /* Acquire: pairs with the release below. A thread that reads true finds the heap complete. */
    if (LM_LIKELY(lm_load_acquire(&common_made))) return &lm_heap_common;
    lm_lock_take(&lm_registry_lock);
    if (!common_made) {
        lm_heap_common.active = true;
        lm_heap_common.fheap.own_heap = lm_heap_common.fheap.active_heap = &lm_heap_common;
        lm_heap_common.token = LM_OWNER_COMMON;
        /* A thread that does not exist in a torn child (fork_torn.c) may have added it already. */
        if (!lm_node_linked(&lm_heap_common.link))
            lm_list_add_last(&lm_registry, &lm_heap_common.link);
        lm_store_release(&common_made, true);
    }
    lm_lock_give(&lm_registry_lock);
    return &lm_heap_common;
}

void *lm_common_alloc(unsigned size_class) {
    lm_theap_t *common = lm_common_heap();
    lm_lock_take(&lm_common_lock);
    void *block = lm_heap_refill(common, size_class);
    lm_lock_give(&lm_common_lock);
    return block;
}

void lm_common_trim(void) {
    /* Acquire: pairs with the release in lm_common_heap, so that the heap is complete here. */
    if (!lm_load_acquire(&common_made)) return;
    lm_theap_t *common = &lm_heap_common;
    lm_lock_take(&lm_common_lock);
    lm_biased_enter(&common->lock);
    lm_remote_drain(common);
    if (common->slow == common->slow_seen) {
        lm_heap_return_handed_out(common);
        lm_page_trim(common);
    }
    lm_biased_leave(&common->lock);
    lm_lock_give(&lm_common_lock);
}

/* A heap borrows at most SHARE_BLOCKS blocks and SHARE_BYTES bytes at a time, but at least one
 * block. Once its thread has borrowed SHARE_MOST blocks of a class, it borrows no more of them. */
enum { SHARE_BYTES = 256, SHARE_BLOCKS = 8, SHARE_MOST = 32 };

void lm_common_share(lm_theap_t *heap, unsigned size_class) {
    LM_ASSERT(heap->head[size_class] == NULL && heap->current[size_class] == NULL);
    lm_foreign_t *foreign = &heap->foreign[size_class];
    uint32_t n = SHARE_BYTES / (uint32_t)lm_class_bytes(size_class);
    if (size_class >= LM_SMALL_CLASSES + 24 || foreign->shared >= SHARE_MOST) return;
    if (n == 0) n = 1; /* a block is larger than SHARE_BYTES */
    if (n > SHARE_BLOCKS) n = SHARE_BLOCKS;
    lm_block_t *list = NULL;
    lm_theap_t *common = lm_common_heap();
    /* Held to the end: a fork waits for the lock, and finds no list half moved. */
    lm_lock_take(&lm_common_lock);
    for (; n > 0; n--) {
        lm_block_t *block = (lm_block_t *)lm_heap_refill(common, size_class);
        if (block == NULL) break;
        lm_link_set(block, list);
        list = block;
        foreign->shared++;
    }
    heap->holds[size_class] = LM_HOLDS_OTHERS;
    heap->head[size_class] = list;
    lm_bytes_ready(heap, list, false);
    lm_lock_give(&lm_common_lock);
}

/* ---- The end of a heap ---- */

/* Takes the page out of the heap. A page without a block in use is added to the chain *empty, which
 * goes to the arena. Any other page becomes an orphan. A page on which a remote free is on its way
 * stays in the heap as a partial page, until the free has arrived. Heap lock held. */
static void part_with(lm_theap_t *heap, lm_page_t *page, lm_page_t **empty) {
    LM_ASSERT(page->kind == LM_KIND_PAGE && page->heap == heap);
    lm_block_t *head, *tail;
    uint32_t n = lm_remote_take(page, &head, &tail);
    lm_page_unlink(heap, page);
    if (n > 0) lm_page_put(page, head, tail, n);
    /* Acquire: pairs with the push of the thread that freed the page's last block. */
    if (page->live == 0 && !(lm_load_acquire(&page->remote) & LM_REMOTE_QUEUED)) {
        lm_bytes_page(heap, page, true);
        lm_page_retire(page);
        page->notified = *empty;
        *empty = page;
        heap->pages--;
        return;
    }
    /* Counted now, because another thread may own the page as soon as it is an orphan. */
    lm_bytes_page(heap, page, true);
    if (page->live > 0 && lm_orphan_add(page)) {
        heap->pages--;
    } else {
        lm_bytes_page(heap, page, false);
        lm_page_to_partial(heap, page);
    }
}

/* Keeps a current page for the heap's next thread, which may come soon and use the same classes.
 * The page stays current, and its ready blocks stay in head[], because counting them would read
 * each of them. A thread that meanwhile frees a block of the page notifies the heap. */
static void thread_keep(lm_theap_t *heap, lm_page_t *page) {
    LM_ASSERT(page->heap == heap && page->in_list == LM_AT_CURRENT);
    lm_store_relaxed(&page->owner, LM_OWNER_NONE);
    lm_store_relaxed(&heap->kept, true);
}

/* Makes the heap inactive and takes all pages out of it. If `keeping`, current pages of up to
 * THREAD_KEPT_BYTES in all stay for the heap's next thread. Heap lock held. */
static void part_with_all(lm_theap_t *heap, bool keeping) {
    LM_ASSERT(!lm_load_relaxed(&heap->kept));
    lm_page_t *empty = NULL;
    size_t room = keeping ? THREAD_KEPT_BYTES : 0;
    lm_store_relaxed(&heap->rest, 0);
    lm_store_relaxed(&heap->active, false);
    lm_remote_drain(heap);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_page_t *page = heap->current[c];
        size_t used = page == NULL ? 0 : page->carved * (size_t)page->block_bytes;
        if (used < KEPT_LEAST) used = KEPT_LEAST;
        bool kept = page != NULL && used <= room;
        if (kept) room -= used;
        if (!kept || heap->holds[c] == LM_HOLDS_OTHERS) lm_heap_return_head(heap, c);
        lm_list_t pages = heap->partial[c];
        heap->partial[c].first = NULL;
        if (kept)
            thread_keep(heap, page);
        else if (page != NULL)
            part_with(heap, page, &empty);
        while (pages.first != NULL) {
            page = LM_CONTAINER(pages.first, lm_page_t, link);
            lm_list_remove(&pages, &page->link);
            page->in_list = LM_AT_NOWHERE;
            part_with(heap, page, &empty);
        }
        while (heap->full[c].first != NULL)
            part_with(heap, LM_CONTAINER(heap->full[c].first, lm_page_t, link), &empty);
    }
    if (empty != NULL) lm_tools_give_chain(empty, false);
    /* A page that a remote free keeps in the heap loses its owner all the same. */
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_list_t *list = &heap->partial[c];
        for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n)) {
            lm_store_relaxed(&LM_CONTAINER(n, lm_page_t, link)->owner, LM_OWNER_NONE);
        }
    }
    heap->left_behind = 0;
    heap->trim_at = 0;
    heap->vacant = 0;
    for (unsigned c = 1; c < LM_CLASSES; c++) heap->foreign[c].shared = 0;
}

void lm_heap_part_with_all(lm_theap_t *heap) { part_with_all(heap, false); }

void lm_heap_retire(lm_theap_t *heap, bool keeping) {
    part_with_all(heap, keeping);
    LM_ASSERT(lm_load_relaxed(&lm_heaps_active) > 0);
    (void)lm_add_relaxed(&lm_heaps_active, (uint32_t)-1);
    if (heap->kept) (void)lm_add_relaxed(&lm_heaps_kept, 1);
}

void lm_heap_idle_add(lm_theap_t *heap) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    LM_ASSERT(heap->fheap.own_heap == heap && heap->self == NULL);
    LM_ASSERT(!lm_load_relaxed(&heap->active));
    heap->next_idle = idle;
    idle = heap;
}

void lm_heap_unkeep(lm_theap_t *heap) {
    LM_ASSERT(!lm_load_relaxed(&heap->active));
    lm_page_t *empty = NULL;
    lm_remote_drain(heap);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_heap_return_head(heap, c);
        if (heap->current[c] != NULL) part_with(heap, heap->current[c], &empty);
    }
    if (empty != NULL) lm_tools_give_chain(empty, true);
    no_longer_kept(heap);
}

/* Returns whether a retired heap may keep its current pages: only if a worker can collect them
 * later, and heaps are few. */
static bool worth_keeping(void) {
    uint32_t many = lm_load_relaxed(&lm_heaps_many);
    return lm_purge_may_work() && lm_load_relaxed(&lm_heaps_kept) < many / 2 &&
           lm_load_relaxed(&lm_heaps_active) <= many;
}

/* Retires the calling thread's heap and makes it idle. No lock held. */
static void end_mine(lm_theap_t *heap) {
    (void)lm_heap_get(); /* unparks the heap */
    lm_quarantine_empty(heap);
    /* Relaxed: no thread asks for this thread's bytes any more. */
    lm_store_relaxed(&heap->bytes.on, false);
    if (heap->fheap.buckets != NULL) lm_fheap_thread_ends(heap);
    lm_biased_enter(&heap->lock);
    lm_foreign_return_all(heap);
    lm_heap_self = &lm_heap_empty;
    heap->self = NULL;
    lm_heap_retire(heap, worth_keeping());
    bool kept = heap->kept;
    lm_biased_leave(&heap->lock);
    /* After the heap is unlocked and inactive: as in heap_start, the other way round. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread_mine = thread_ended;
    lm_lock_take(&lm_registry_lock);
    lm_heap_idle_add(heap);
    lm_lock_give(&lm_registry_lock);
    if (!kept) return;
    lm_purge_poke(true);
    /* If no worker could be started, this thread takes the kept pages itself. */
    if (!lm_purge_may_work()) lm_idle_unkeep();
}

/* The hook of lm_thread_on_exit: ends the calling thread's heap. Returns whether it must be called
 * in another round. In the first round other destructors still use the heap. From the second round
 * on, each call ends it, and a thread that allocates afterwards gets a heap anew. A thread that
 * first allocates in a destructor comes here less often than there are rounds, and is not told
 * which round is the last. */
static bool heap_ended(void *value, unsigned rounds) {
    /* `value` is not used: namespaces made by dlmopen number their keys separately, but share the
     * values. */
    (void)value;
    if (thread_mine == thread_ended || ++end_calls == 1) return thread_mine != thread_ended;
    if (thread_mine != NULL) end_mine(thread_mine);
    thread_mine = end_calls < rounds ? NULL : thread_ended;
    return thread_mine == NULL;
}

void lm_heap_end_in_place_of(lm_theap_t *heap) {
    LM_ASSERT(thread_mine == NULL);
    thread_mine = heap;
    lm_heap_self = heap->fheap.active_heap;
    end_mine(heap);
    thread_mine = NULL; /* the calling thread itself goes on */
}

void lm_heap_collect(void) {
    (void)lm_reuse_unkeep();
    (void)lm_large_let_go(true);
    lm_purge_await_alone();
    lm_theap_t *heap = lm_heap_mine();
    if (heap == NULL) {
        lm_idle_unkeep();
        return;
    }
    (void)lm_heap_get(); /* unparks the heap */
    lm_quarantine_empty(heap);
    lm_biased_enter(&heap->lock);
    lm_foreign_return_all(heap);
    (void)lm_transfer_empty(true);
    lm_heap_return_handed_out(heap);
    lm_biased_leave(&heap->lock);
    /* Between the two: the heaps of ended threads take in the blocks that were returned above, and
     * return blocks of this heap's pages, which are taken in below. lm_idle_unkeep takes the
     * registry's lock, which the worker holds while it returns blocks: after it, those blocks have
     * arrived as well. */
    lm_idle_unkeep();
    lm_biased_enter(&heap->lock);
    lm_heap_take_in(heap);
    lm_page_trim(heap);
    lm_biased_leave(&heap->lock);
}

void lm_heap_boot(void) {
    lm_lock_take(&lm_registry_lock);
    bool first = !booted;
    lm_store_relaxed(&booted, true);
    lm_lock_give(&lm_registry_lock);
    if (!first) return;
    if (thread_mine == NULL) (void)thread_remember();
    lm_store_relaxed(&early, NULL);
    lm_biased_boot();
    lm_purge_boot();
    lm_purge_collect_idle = lm_idle_collect;
    lm_purge_collect_alone = lm_idle_collect_alone;
    lm_heap_fork_boot();
}

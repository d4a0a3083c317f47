/* thread.c: creates a thread's heap at its first allocation, and retires it when the thread exits.
 *
 *   first malloc    the thread gets an idle heap, or a new one, which becomes active
 *   thread exit     blocks of other heaps are sent home. The current pages stay in the heap with their free
 *                   lists, for the next thread. Of the other pages, empty ones go to the arena and the
 *                   others become orphans
 *   no next thread  the worker takes the current pages as well (idle.c)
 *
 * Heaps are never unmapped, so that a thread that still holds a page of a retired heap may notify
 * that heap. A thread that goes on after its heap was retired (destructors of other keys, libc's
 * own cleanup) allocates from the common heap. No thread has the common heap's token, so that all
 * its frees are remote frees.
 *
 * What a fork does to heaps is in fork.c.
 * Invariant: a heap is active, or in the list of idle heaps, or being handed over by the one thread
 * that has just taken it from there.
 */
#include "heap/core.h"

enum {
    KEPT_BYTES = 512 * 1024, /* of the current pages of each heap that is kept */
    KEPT_LEAST = 4096,       /* that a page counts for */
    MANY_LEAST = 16,         /* heaps that share nothing, at least */
    MANY_EACH = 4,           /* for each processor: more cannot run at a time, by far */
};

LM_TLS lm_heap_t *lm_heap_self = &lm_heap_empty;
/* The same, also while it is parked; `ended` once the thread has come to its end. loam takes a few
 * words of static TLS: there is little of it for libraries that are opened late. */
static LM_TLS lm_heap_t *mine;
static LM_TLS unsigned end_calls; /* of heap_ended */
static lm_heap_t *const ended = &lm_heap_empty;

lm_heap_t lm_heap_empty = {.fheap.last_fheap = LM_NO_FHEAP};
static lm_heap_t
    first; /* most processes need no other; those in the arena take memory of their own */
lm_heap_t lm_heap_common; /* most never touch it: see lm_common_heap */

LM_AT_START lm_lock_t lm_common_lock;
LM_AT_START uint32_t lm_heaps_active; /* atomic: a guess is enough */
uint32_t lm_heaps_many = MANY_LEAST;  /* atomic: more than so many share */
LM_AT_START uint32_t lm_heaps_kept;   /* atomic, the same */

LM_AT_START lm_lock_t lm_registry_lock;
LM_AT_START lm_list_t lm_registry;
static LM_AT_START lm_heap_t *idle; /* under the registry's lock */
static LM_AT_START char *heaps_next,
    *heaps_limit; /* under the registry's lock: room for new heaps */
static LM_AT_START bool booted, common_made;
/* The heap that the process has started first, until lm_heap_boot. The thread that started it has
 * forgotten it if that was before the dynamic linker initialised thread-local storage. */
static LM_AT_START lm_heap_t *early;

/* ---- Beginning ---- */

static void count_processors(void) {
    uint32_t many = lm_purge_may_work() ? MANY_EACH * lm_os_processors() : 0;
    lm_store_relaxed(&lm_heaps_many, many < MANY_LEAST ? MANY_LEAST : many);
}

void *lm_heap_room(size_t bytes) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    bytes = lm_align_up(bytes, 64);
    if (heaps_next == NULL) {
        heaps_next = (char *)&first;
        heaps_limit = heaps_next + sizeof first;
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
    heaps_next += bytes;
    return room;
}

lm_heap_t *lm_heap_create(void) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    lm_heap_t *heap = (lm_heap_t *)lm_heap_room(sizeof(lm_heap_t));
    if (heap == NULL) return NULL;
    lm_store_relaxed(&heap->head[0], NULL); /* to read a page first means a second fault */
    heap->fheap.own_heap = heap->fheap.active_heap = heap;
    heap->fheap.last_fheap = LM_NO_FHEAP;
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

void lm_heap_be_known(lm_heap_t *heap) {
    lm_biased_enter(&heap->lock);
    heap->tid = lm_heap_tid();
    heap->stack_top = lm_os_stack_top();
    heap->self = &lm_heap_self;
    lm_biased_leave(&heap->lock);
}

/* The worker parked our heap while we slept (idle.c). */
static lm_heap_t *unpark(lm_heap_t *heap) {
    lm_biased_enter(&heap->lock);
    lm_store_relaxed(&heap->parked, false);
    lm_store_relaxed(&heap->slow, heap->slow + 1);
    lm_store_relaxed(&lm_heap_self, heap->fheap.active_heap);
    lm_biased_leave(&heap->lock);
    return heap->fheap.active_heap;
}

static void no_longer_kept(lm_heap_t *heap) {
    lm_store_relaxed(&heap->kept, false);
    (void)lm_add_relaxed(&lm_heaps_kept, (uint32_t)-1);
}

/* What the heap's last thread left ready is ours. */
static void take_over(lm_heap_t *heap) {
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (heap->current[c] != NULL) lm_store_relaxed(&heap->current[c]->owner, heap->token);
    }
    no_longer_kept(heap);
}

void lm_heap_before_start(void) {
    if (lm_heap_self == NULL) lm_heap_self = &lm_heap_empty;
}

/* Gives the calling thread, which has no heap, the one that it has forgotten. Returns NULL if it
 * has forgotten none. */
static lm_heap_t *remember(void) {
    /* Acquire: the heap was made before. Relaxed: what another thread writes there is not our
     * token. */
    lm_heap_t *heap = lm_load_acquire(&early);
    if (heap == NULL || !lm_load_relaxed(&heap->active)) return NULL;
    if (lm_load_relaxed(&heap->token) != lm_thread_token()) return NULL;
    mine = heap;
    return unpark(heap);
}

static LM_NOINLINE lm_heap_t *heap_start(void) {
    if (mine == ended) return NULL;
    if (mine != NULL) return unpark(mine);
    if (!lm_load_relaxed(&booted)) { /* relaxed: as below */
        lm_heap_t *forgotten = remember();
        if (forgotten != NULL) return forgotten;
    }
    lm_unseen_end();
    lm_lock_take(&lm_registry_lock);
    lm_heap_t *heap = idle;
    if (heap != NULL)
        idle = heap->next_idle;
    else
        heap = lm_heap_create();
    lm_lock_give(&lm_registry_lock);
    if (heap == NULL) return NULL;
    /* Relaxed: others only compare it. Before the lock: so a signal handler that forks finds whose
     * it is. */
    lm_store_relaxed(&heap->token, lm_thread_token());
    lm_biased_enter(&heap->lock);
    lm_remote_drain(heap); /* as an inactive heap: late arrivals become orphans */
    if (heap->kept) take_over(heap);
    lm_store_relaxed(&heap->active, true);
    /* Relaxed, all of these: a guess is enough. */
    lm_most(&lm_heap_counts.most, lm_add_relaxed(&lm_heaps_active, 1) + 1);
    (void)lm_add_relaxed(&lm_heap_counts.total, 1);
    lm_biased_leave(&heap->lock);
    mine = lm_heap_self = heap;
    /* Relaxed: of several threads any may be the first, and what comes after boot is never asked
     * for. Release: the heap is complete. */
    if (!lm_load_relaxed(&booted) && lm_load_relaxed(&early) == NULL)
        lm_store_release(&early, heap);
    /* May allocate: the heap is ready. Without a key left nobody says when the thread ends, and the
     * heap is not parked: the worker must not write into a thread that has gone. */
    if (lm_thread_on_exit(heap_ended, heap))
        lm_heap_be_known(heap);
    else
        lm_unseen_add(heap);
    return heap;
}

lm_heap_t *lm_heap_get(void) {
    lm_heap_t *heap = lm_heap_self;
    return LM_LIKELY(heap != &lm_heap_empty) ? heap : heap_start();
}

lm_heap_t *lm_heap_mine(void) { return mine != ended ? mine : NULL; }

LM_AT_START bool lm_heaps_chosen;

struct loam_heap *lm_heap_chosen(void) {
    return mine != NULL && mine != ended ? mine->fheap.active_heap->fheap.fheap : NULL;
}

void lm_heap_face(lm_heap_t *front) {
    lm_store_relaxed(&lm_heaps_chosen, true);
    lm_biased_enter(&mine->lock); /* the worker puts back what it has hidden */
    lm_store_relaxed(&mine->fheap.active_heap, front);
    lm_store_relaxed(&lm_heap_self, front);
    lm_biased_leave(&mine->lock);
}

void lm_heap_hide_mine(void) {
    /* Relaxed: as the worker's own store (idle.c), but by the thread itself. */
    if (lm_heap_mine() != NULL) lm_store_relaxed(&lm_heap_self, &lm_heap_empty);
}

/* ---- What is ready to hand out goes back ---- */

void lm_heap_return_head(lm_heap_t *heap, unsigned size_class) {
    lm_block_t *head = heap->head[size_class], *tail = head;
    if (head == NULL) return;
    if (heap->holds[size_class] == LM_HOLDS_OTHERS) {
        heap->head[size_class] = NULL;
        lm_foreign_send_back(heap, head);
        return;
    }
    uint32_t n = 1;
    for (lm_block_t *next; (next = lm_link_get(tail)) != NULL; tail = next) n++;
    heap->head[size_class] = NULL;
    lm_count_back(heap->current[size_class], n);
    lm_page_put(heap->current[size_class], head, tail, n);
}

void lm_heap_return_handed_out(lm_heap_t *heap) {
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (heap->holds[c] == LM_HOLDS_OTHERS) lm_heap_return_head(heap, c);
    }
}

/* ---- The common heap ---- */

lm_heap_t *lm_common_heap(void) {
    /* Acquire: it is as below once made is seen. */
    if (LM_LIKELY(lm_load_acquire(&common_made))) return &lm_heap_common;
    lm_lock_take(&lm_registry_lock);
    if (!common_made) {
        lm_heap_common.active = true;
        lm_heap_common.fheap.own_heap = lm_heap_common.fheap.active_heap = &lm_heap_common;
        lm_heap_common.token = LM_OWNER_COMMON;
        lm_list_add_last(&lm_registry, &lm_heap_common.link);
        lm_store_release(&common_made, true);
    }
    lm_lock_give(&lm_registry_lock);
    return &lm_heap_common;
}

void *lm_common_alloc(unsigned size_class) {
    lm_heap_t *common = lm_common_heap();
    lm_lock_take(&lm_common_lock);
    void *block = lm_heap_refill(common, size_class);
    lm_lock_give(&lm_common_lock);
    return block;
}

void lm_common_trim(void) {
    if (!lm_load_acquire(&common_made)) return; /* acquire: as above */
    lm_heap_t *common = &lm_heap_common;
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

enum { SHARE_BYTES = 256, SHARE_BLOCKS = 8 /* at a time */, SHARE_MOST = 32 };

void lm_common_share(lm_heap_t *heap, unsigned size_class) {
    lm_foreign_t *foreign = &heap->foreign[size_class];
    uint32_t n = SHARE_BYTES / (uint32_t)lm_class_bytes(size_class);
    if (size_class >= LM_SMALL_CLASSES + 24 || foreign->shared >= SHARE_MOST) return;
    if (n == 0) n = 1; /* of a larger class, perhaps: such a block is in no list */
    if (n > SHARE_BLOCKS) n = SHARE_BLOCKS;
    lm_block_t *list = NULL;
    lm_heap_t *common = lm_common_heap();
    lm_lock_take(&lm_common_lock); /* what is in here, no fork finds half done */
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

/* ---- End ---- */

/* Empty: into the chain of what goes back to the arena. Otherwise an orphan, or, with a free on its
 * way, ours for a while yet. */
static void part_with(lm_heap_t *heap, lm_page_t *page, lm_page_t **empty) {
    lm_block_t *head, *tail;
    uint32_t n = lm_remote_take(page, &head, &tail);
    lm_page_unlink(heap, page);
    if (n > 0) lm_page_put(page, head, tail, n);
    /* Acquire: as in lm_page_release. */
    if (page->live == 0 && !(lm_load_acquire(&page->remote) & LM_REMOTE_QUEUED)) {
        lm_bytes_page(heap, page, true);
        lm_page_retire(page);
        page->notified = *empty;
        *empty = page;
        heap->pages--;
        return;
    }
    lm_bytes_page(heap, page, true); /* before another thread may have it */
    if (page->live > 0 && lm_orphan_add(page)) {
        heap->pages--;
    } else {
        lm_bytes_page(heap, page, false);
        lm_page_to_partial(heap, page);
    }
}

/* A thread that comes soon may do the same: the page stays in its place, and its blocks in head[],
 * because to count them would be to read each. Who frees one of the others meanwhile tells the
 * heap. */
static void keep(lm_heap_t *heap, lm_page_t *page) {
    lm_store_relaxed(&page->owner, LM_OWNER_NONE);
    lm_store_relaxed(&heap->kept, true);
}

/* Heap lock held. keeping: but for what a successor may use. */
static void part_with_all(lm_heap_t *heap, bool keeping) {
    lm_page_t *empty = NULL;
    size_t room = keeping ? KEPT_BYTES : 0;
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
            keep(heap, page);
        else if (page != NULL)
            part_with(heap, page, &empty);
        while (pages.first != NULL) {
            page = LM_CONTAINER(pages.first, lm_page_t, link);
            lm_list_remove(&pages, &page->link);
            page->place = LM_AT_NOWHERE;
            part_with(heap, page, &empty);
        }
        while (heap->full[c].first != NULL)
            part_with(heap, LM_CONTAINER(heap->full[c].first, lm_page_t, link), &empty);
    }
    if (empty != NULL) lm_tools_give_chain(empty, false);
    /* What cannot leave yet is nobody's all the same. */
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

void lm_heap_part_with_all(lm_heap_t *heap) { part_with_all(heap, false); }

void lm_heap_retire(lm_heap_t *heap, bool keeping) {
    part_with_all(heap, keeping);
    (void)lm_add_relaxed(&lm_heaps_active, (uint32_t)-1);
    if (heap->kept) (void)lm_add_relaxed(&lm_heaps_kept, 1);
}

void lm_heap_idle_add(lm_heap_t *heap) {
    LM_ASSERT(lm_lock_held(&lm_registry_lock));
    heap->next_idle = idle;
    idle = heap;
}

void lm_heap_unkeep(lm_heap_t *heap) {
    lm_page_t *empty = NULL;
    lm_remote_drain(heap);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_heap_return_head(heap, c);
        if (heap->current[c] != NULL) part_with(heap, heap->current[c], &empty);
    }
    if (empty != NULL) lm_tools_give_chain(empty, true);
    no_longer_kept(heap);
}

/* Only where the worker comes to take it, and not where threads are many. */
static bool worth_keeping(void) {
    uint32_t many = lm_load_relaxed(&lm_heaps_many);
    return lm_purge_may_work() && lm_load_relaxed(&lm_heaps_kept) < many / 2 &&
           lm_load_relaxed(&lm_heaps_active) <= many;
}

/* The calling thread's heap becomes idle. */
static void end_mine(lm_heap_t *heap) {
    (void)lm_heap_get(); /* it may be parked */
    lm_quarantine_empty(heap);
    lm_store_relaxed(&heap->bytes.on, false); /* relaxed: nobody asks any more */
    if (heap->fheap.buckets != NULL) lm_whole_thread_ends(heap);
    lm_biased_enter(&heap->lock);
    lm_foreign_return_all(heap);
    mine = ended;
    lm_heap_self = &lm_heap_empty;
    heap->self = NULL;
    lm_heap_retire(heap, worth_keeping());
    bool kept = heap->kept;
    lm_biased_leave(&heap->lock);
    lm_lock_take(&lm_registry_lock);
    lm_heap_idle_add(heap);
    lm_lock_give(&lm_registry_lock);
    if (!kept) return;
    lm_purge_poke(true);
    if (!lm_purge_may_work()) lm_idle_unkeep(); /* it could not be started */
}

/* In the first round other destructors still use the heap. From the second on it ends each time: a
 * thread that first allocates in a destructor comes here less often than there are rounds, and is
 * not told which one is the last. Where it goes on to allocate, it gets a heap again. */
static bool heap_ended(void *value, unsigned rounds) {
    /* Not `value`: namespaces made by dlmopen number their keys apart but keep the values
     * together. */
    (void)value;
    if (mine == ended || ++end_calls == 1) return mine != ended;
    if (mine != NULL) end_mine(mine);
    mine = end_calls < rounds ? NULL : ended;
    return mine == NULL;
}

void lm_heap_end_in_place_of(lm_heap_t *heap) {
    mine = heap;
    lm_heap_self = heap->fheap.active_heap;
    end_mine(heap);
    mine = NULL; /* the calling thread itself goes on */
}

void lm_heap_collect(void) {
    (void)lm_reuse_unkeep();
    (void)lm_large_let_go(true);
    lm_heap_t *heap = lm_heap_mine();
    if (heap == NULL) {
        lm_idle_unkeep();
        return;
    }
    (void)lm_heap_get(); /* it may be parked */
    lm_quarantine_empty(heap);
    lm_biased_enter(&heap->lock);
    lm_foreign_return_all(heap);
    (void)lm_transfer_empty(true);
    lm_heap_return_handed_out(heap);
    lm_biased_leave(&heap->lock);
    /* In this order: the heaps of ended threads take in what was sent home above, and send home
     * what is ours. The worker has the registry's lock while it sends: what it had in its hands has
     * arrived, too. */
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
    if (mine == NULL) (void)remember();
    lm_store_relaxed(&early, NULL);
    lm_biased_boot();
    lm_purge_boot();
    lm_purge_collect_idle = lm_idle_collect;
    lm_purge_collect_alone = lm_idle_collect_alone;
    lm_heap_fork_boot();
}

/* thread.c: heaps come with threads and go with them.
 *
 *   first malloc: an idle heap, or a new one ──> active, in thread-local storage
 *   thread exit:  others' blocks sent home; the current pages stay, with what is ready, for the next thread;
 *                 of the others the empty ones go to the arena, the rest become orphans
 *   nobody comes: the worker takes the current pages as well
 *
 * Heaps are never unmapped, so that whoever still holds a page of one may tell it so. A thread that
 * goes on after its heap is gone (destructors of other keys, libc's own cleanup) allocates from the
 * common heap, whose token is no thread's: all its frees are remote ones.
 *
 * Fork: while the program has one thread, nothing is locked, and signal handlers may fork. Otherwise the forking thread
 * takes every lock, so that in the child all heaps are consistent but for a
 * free() that another thread was in the middle of: at worst its one block is lost. The dead threads'
 * heaps end there as on thread exit, with `live` counted anew.
 */
#include "heap/branch.h"
#include "heap/room.h"
#include "heap/secure.h"

enum {
    KEPT_BYTES = 512 * 1024, /* of the current pages of each heap that is kept */
    KEPT_LEAST = 4096,       /* that a page counts for */
    MANY_LEAST = 16,         /* heaps that share nothing, at least */
    MANY_EACH = 4,           /* for each processor: more cannot run at a time, by far */
};

LM_TLS lm_heap_t *lm_heap_self = &lm_heap_empty;
/* The same, also while it is parked; `ended` once the thread has come to its end. Two words of static TLS
 * are all that loam takes: there is little of it for libraries that are opened late. */
static LM_TLS lm_heap_t *mine;
static lm_heap_t *const ended = &lm_heap_empty;

lm_heap_t lm_heap_empty = {.of = LM_OF_NONE};
static lm_heap_t
    first; /* most processes need no other; those in the arena take memory of their own */
lm_heap_t lm_heap_common; /* most never touch it: see lm_common_heap */

/* Among those who use the common heap: inside, they count as one owner. */
static LM_AT_START lm_lock_t common_lock;
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
    lm_heap_t *heap = (lm_heap_t *)lm_heap_room(sizeof(lm_heap_t));
    if (heap == NULL) return NULL;
    lm_store_relaxed(&heap->head[0], NULL); /* to read a page first means a second fault */
    heap->main = heap->front = heap;
    heap->of = LM_OF_NONE;
    lm_list_add_last(&lm_registry, &heap->link);
    return heap;
}

static bool heap_ended(void *value, unsigned rounds);

/* Lets the worker see whether this thread sleeps. */
static void be_known(lm_heap_t *heap) {
    lm_biased_enter(&heap->lock);
    heap->tid = lm_purge_allowed() ? lm_port_thread_id() : 0;
    heap->stack_top = lm_os_stack_top();
    heap->self = &lm_heap_self;
    lm_biased_leave(&heap->lock);
}

/* The worker parked our heap while we slept (idle.c). */
static lm_heap_t *unpark(lm_heap_t *heap) {
    lm_biased_enter(&heap->lock);
    lm_store_relaxed(&heap->parked, false);
    lm_store_relaxed(&heap->slow, heap->slow + 1);
    lm_store_relaxed(&lm_heap_self, heap->front);
    lm_biased_leave(&heap->lock);
    return heap->front;
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
    /* Acquire: the heap was made before. Relaxed: what another thread writes there is not our token. */
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
    lm_biased_enter(&heap->lock);
    lm_remote_drain(heap); /* as an inactive heap: late arrivals become orphans */
    lm_store_relaxed(&heap->token, lm_thread_token()); /* relaxed: others only compare it */
    if (heap->kept) take_over(heap);
    lm_store_relaxed(&heap->active, true);
    /* Relaxed, all of these: a guess is enough. */
    lm_most(&lm_heap_counts.most, lm_add_relaxed(&lm_heaps_active, 1) + 1);
    (void)lm_add_relaxed(&lm_heap_counts.total, 1);
    lm_biased_leave(&heap->lock);
    mine = lm_heap_self = heap;
    /* Relaxed: of several threads any may be the first, and what comes after boot is never asked for.
     * Release: the heap is complete. */
    if (!lm_load_relaxed(&booted) && lm_load_relaxed(&early) == NULL)
        lm_store_release(&early, heap);
    /* May allocate: the heap is ready. Without a key left nobody says when the thread ends, and the
     * heap is not parked: the worker must not write into a thread that has gone. */
    if (lm_thread_on_exit(heap_ended, heap))
        be_known(heap);
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
    return mine != NULL && mine != ended ? mine->front->whole : NULL;
}

void lm_heap_face(lm_heap_t *front) {
    lm_store_relaxed(&lm_heaps_chosen, true);
    lm_biased_enter(&mine->lock); /* the worker puts back what it has hidden */
    lm_store_relaxed(&mine->front, front);
    lm_store_relaxed(&lm_heap_self, front);
    lm_biased_leave(&mine->lock);
}

/* ---- What is ready to hand out goes back ---- */

void lm_heap_return_head(lm_heap_t *heap, unsigned size_class) {
    lm_block_t *head = heap->head[size_class], *tail = head;
    if (head == NULL) return;
    if (heap->foreign[size_class].handed_out) {
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
        if (heap->foreign[c].handed_out) lm_heap_return_head(heap, c);
    }
}

/* ---- The common heap ---- */

lm_heap_t *lm_common_heap(void) {
    /* Acquire: it is as below once made is seen. */
    if (LM_LIKELY(lm_load_acquire(&common_made))) return &lm_heap_common;
    lm_lock_take(&lm_registry_lock);
    if (!common_made) {
        lm_heap_common.active = true;
        lm_heap_common.main = lm_heap_common.front = &lm_heap_common;
        lm_heap_common.token = LM_OWNER_COMMON;
        lm_list_add_last(&lm_registry, &lm_heap_common.link);
        lm_store_release(&common_made, true);
    }
    lm_lock_give(&lm_registry_lock);
    return &lm_heap_common;
}

void *lm_common_alloc(unsigned size_class) {
    lm_heap_t *common = lm_common_heap();
    lm_lock_take(&common_lock);
    void *block = lm_heap_refill(common, size_class);
    lm_lock_give(&common_lock);
    return block;
}

void lm_common_trim(void) {
    if (!lm_load_acquire(&common_made)) return; /* acquire: as above */
    lm_heap_t *common = &lm_heap_common;
    lm_lock_take(&common_lock);
    lm_biased_enter(&common->lock);
    lm_remote_drain(common);
    if (common->slow == common->slow_seen) {
        lm_heap_return_handed_out(common);
        lm_page_trim(common);
    }
    lm_biased_leave(&common->lock);
    lm_lock_give(&common_lock);
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
    lm_lock_take(&common_lock); /* what is in here, no fork finds half done */
    for (; n > 0; n--) {
        lm_block_t *block = (lm_block_t *)lm_heap_refill(common, size_class);
        if (block == NULL) break;
        lm_link_set(block, list);
        list = block;
        foreign->shared++;
    }
    foreign->handed_out = true;
    heap->head[size_class] = list;
    lm_lock_give(&common_lock);
}

/* ---- End ---- */

/* Empty: into the chain of what goes back to the arena. Otherwise an orphan, or, with a free on its way,
 * ours for a while yet. */
static void part_with(lm_heap_t *heap, lm_page_t *page, lm_page_t **empty) {
    lm_block_t *head, *tail;
    uint32_t n = lm_remote_take(page, &head, &tail);
    lm_page_unlink(heap, page);
    if (n > 0) lm_page_put(page, head, tail, n);
    /* Acquire: as in lm_page_release. */
    if (page->live == 0 && !(lm_load_acquire(&page->remote) & LM_REMOTE_QUEUED)) {
        lm_page_retire(page);
        page->notified = *empty;
        *empty = page;
        heap->pages--;
    } else if (page->live > 0 && lm_orphan_add(page)) {
        heap->pages--;
    } else {
        lm_page_to_partial(heap, page);
    }
}

/* A thread that comes soon may do the same: the page stays in its place, and its blocks in head[], because to count
 * them would be to read each. Who frees one of the others meanwhile tells the heap. */
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
        if (!kept || heap->foreign[c].handed_out) lm_heap_return_head(heap, c);
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
    if (empty != NULL) lm_span_give_chain(empty, false);
    /* What cannot leave yet is nobody's all the same. */
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_list_t *list = &heap->partial[c];
        for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n)) {
            lm_store_relaxed(&LM_CONTAINER(n, lm_page_t, link)->owner, LM_OWNER_NONE);
        }
    }
    heap->left_behind = 0;
    heap->trim_at = 0;
    for (unsigned c = 1; c < LM_CLASSES; c++) heap->foreign[c].shared = 0;
}

void lm_heap_part_with_all(lm_heap_t *heap) { part_with_all(heap, false); }

/* Heap lock held. */
static void retire(lm_heap_t *heap, bool keeping) {
    part_with_all(heap, keeping);
    (void)lm_add_relaxed(&lm_heaps_active, (uint32_t)-1);
    if (heap->kept) (void)lm_add_relaxed(&lm_heaps_kept, 1);
}

void lm_heap_unkeep(lm_heap_t *heap) {
    lm_page_t *empty = NULL;
    lm_remote_drain(heap);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_heap_return_head(heap, c);
        if (heap->current[c] != NULL) part_with(heap, heap->current[c], &empty);
    }
    if (empty != NULL) lm_span_give_chain(empty, true);
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
    lm_later_empty(heap);
    if (heap->buckets != NULL) lm_whole_thread_ends(heap);
    lm_biased_enter(&heap->lock);
    lm_foreign_return_all(heap);
    mine = ended;
    lm_heap_self = &lm_heap_empty;
    heap->self = NULL;
    retire(heap, worth_keeping());
    bool kept = heap->kept;
    lm_biased_leave(&heap->lock);
    lm_lock_take(&lm_registry_lock);
    heap->next_idle = idle;
    idle = heap;
    lm_lock_give(&lm_registry_lock);
    if (!kept) return;
    lm_purge_poke(true);
    if (!lm_purge_may_work()) lm_idle_unkeep(); /* it could not be started */
}

static bool heap_ended(void *value, unsigned rounds) {
    /* Not `value`: namespaces made by dlmopen number their keys apart but keep the values together. */
    (void)value;
    lm_heap_t *heap = mine;
    if (heap == NULL || heap == ended) return false;
    if (++heap->rounds < rounds) return true;
    heap->rounds = 0;
    end_mine(heap);
    return false;
}

void lm_heap_end_in_place_of(lm_heap_t *heap) {
    mine = heap;
    lm_heap_self = heap->front;
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
    lm_later_empty(heap);
    lm_biased_enter(&heap->lock);
    lm_foreign_return_all(heap);
    (void)lm_transfer_empty(true);
    lm_heap_return_handed_out(heap);
    lm_biased_leave(&heap->lock);
    /* In this order: the heaps of ended threads take in what was sent home above, and send home what is ours. The
     * worker has the registry's lock while it sends: what it had in its hands has arrived, too. */
    lm_idle_unkeep();
    lm_biased_enter(&heap->lock);
    lm_heap_take_in(heap);
    lm_page_trim(heap);
    lm_biased_leave(&heap->lock);
}

/* ---- Fork ---- */

#define FOR_EACH_HEAP(heap, node) \
    for (lm_node_t *node = lm_registry.first; node != NULL; \
         node = lm_list_after(&lm_registry, node)) \
        for (lm_heap_t *heap = LM_CONTAINER(node, lm_heap_t, link); heap != NULL; heap = NULL)

/* The program has one thread: it holds what locks it has taken, perhaps below a signal handler that forks now, and the
 * worker changes nothing that its absence would spoil (decision 0029). */
static bool forks_alone;

static void before_fork(void) {
    forks_alone = lm_purge_alone();
    if (forks_alone) return;
    lm_port_before_fork(); /* who holds it may be in the program's own code, and allocate there */
    lm_lock_take(&lm_registry_lock);
    lm_lock_take(&common_lock); /* before its heap: who holds it may wait there to be let in */
    lm_whole_lock_late();       /* as well */
    FOR_EACH_HEAP(heap, node) lm_biased_ask(&heap->lock);
    lm_biased_settle();
    FOR_EACH_HEAP(heap, node) lm_biased_wait(&heap->lock);
    lm_whole_lock();
    lm_transfer_lock();
    lm_offset_lock();
    lm_sampled_lock();
    lm_orphan_lock();
    lm_sites_lock();
    lm_span_lock();
    lm_store_relaxed(&lm_fork_owner, lm_thread_token());
}

static void after_fork_in_parent(void) {
    if (forks_alone) return;
    lm_store_relaxed(&lm_fork_owner, 0);
    lm_span_unlock();
    lm_sites_unlock();
    lm_orphan_unlock();
    lm_sampled_unlock();
    lm_offset_unlock();
    lm_transfer_unlock();
    lm_whole_unlock();
    FOR_EACH_HEAP(heap, node) lm_biased_let(&heap->lock);
    lm_lock_give(&common_lock);
    lm_lock_give(&lm_registry_lock);
    lm_port_after_fork(false);
}

static void count_anew(lm_page_t *page, bool full) {
    uint32_t n = 0;
    for (lm_block_t *block = page->free; block != NULL && n < page->carved;
         block = lm_link_get(block))
        n++;
    page->live = page->carved - n - (full ? page->bias : 0);
}

static void end_in_child(lm_heap_t *heap) {
    heap->self = NULL;
    heap->parked = false;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        if (heap->current[c] != NULL) count_anew(heap->current[c], false);
        lm_list_t *list = &heap->partial[c];
        for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n)) {
            count_anew(LM_CONTAINER(n, lm_page_t, link), false);
        }
        list = &heap->full[c];
        for (lm_node_t *n = list->first; n != NULL; n = lm_list_after(list, n)) {
            count_anew(LM_CONTAINER(n, lm_page_t, link), true);
        }
    }
    if (heap->special == LM_IS_BRANCH) {
        lm_branch_ends(heap);
        return;
    }
    retire(heap, false);
    lm_branch_forget_all(heap); /* they come by themselves */
    heap->next_idle = idle;
    idle = heap;
}

/* What a dead thread was about to hand over, as far as it hangs together. */
static void end_foreign(lm_heap_t *heap) {
    lm_later_return(heap);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_block_t *block = heap->foreign[c].first, *next;
        heap->foreign[c].first = NULL;
        heap->foreign[c].granted = heap->foreign[c].room = 0;
        for (; block != NULL && lm_page_of(block)->size_class >= c; block = next) {
            next = lm_link_get(block);
            lm_remote_push(NULL, lm_page_of(block), block, block, 1);
        }
    }
    heap->foreign_bytes = 0;
}

/* A dead thread may have marked a page and not told its heap. */
static void notify_again(lm_page_t *page, void *context) {
    (void)context;
    if (page->kind != LM_KIND_PAGE || !(page->remote & LM_REMOTE_QUEUED)) return;
    page->notified = page->heap->notified;
    page->heap->notified = page;
}

static bool not_here(const lm_heap_t *heap) {
    const lm_heap_t *of = heap->main;
    return (heap->active || heap->special == LM_IS_BRANCH) && of != NULL && of != mine &&
           of != &lm_heap_common;
}

/* The locks that the worker of another process may have held when this process was copied from it. */
static void break_locks(bool collecting) {
    if (!collecting) return;
    lm_sites_after_fork();
    lm_orphan_after_fork();
    lm_offset_after_fork();
    lm_transfer_after_fork();
    lm_lock_reset(&common_lock);
    lm_lock_reset(&lm_registry_lock);
    FOR_EACH_HEAP(heap, node) lm_store_relaxed(&heap->lock.asked, 0);
}

static void after_fork_alone(void) {
    lm_span_after_fork_alone();
    lm_os_judge_after_fork();
    lm_os_message_after_fork();
    /* Not under the heap's lock, which the interrupted thread may hold: only the worker reads the number,
     * and there is no worker here. */
    if (mine != NULL && mine != ended && mine->tid != 0) mine->tid = lm_port_thread_id();
}

static void after_fork_in_child(void) {
    if (forks_alone) {
        after_fork_alone();
        return;
    }
    lm_store_relaxed(&lm_fork_owner, 0);
    lm_span_after_fork();
    lm_sites_after_fork();
    lm_orphan_after_fork();
    lm_sampled_after_fork();
    lm_os_judge_after_fork();
    lm_offset_after_fork();
    lm_transfer_after_fork();
    lm_whole_after_fork();
    lm_idle_after_fork();
    lm_lock_reset(&common_lock);
    /* The registry stays locked to the end: the worker, should one start, waits there first. */
    FOR_EACH_HEAP(heap, node) {
        heap->lock = (lm_biased_t){0, 0};
        heap->notified = NULL;
    }
    lm_span_visit(notify_again, NULL);
    FOR_EACH_HEAP(heap, node) {
        if (!not_here(heap)) continue;
        lm_reuse_interrupted();
        end_foreign(heap);
    }
    bool here = mine != NULL && mine != ended;
    lm_unseen_after_fork(here && mine->self == NULL ? mine : NULL);
    FOR_EACH_HEAP(heap, node) {
        if (not_here(heap)) end_in_child(heap);
        if (heap->kept) lm_heap_unkeep(heap); /* the child may never start a thread */
    }
    lm_lock_give(&lm_registry_lock);
    if (here && mine->self != NULL) be_known(mine);
    lm_port_after_fork(true);
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
    lm_purge_break_locks = break_locks;
    lm_thread_on_fork(before_fork, after_fork_in_parent, after_fork_in_child);
}

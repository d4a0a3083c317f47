/* remote.c: blocks freed by a thread that does not own their page.
 *
 *   thread B: free ──> B's list of the class ──> B's next mallocs
 *                           │ the list is full
 *                           ├──> transfer cache (transfer.c) ──> any thread's next malloc
 *                           │ the cache is full as well, or B sleeps or ends
 *                           └──> sorted by pages, one compare-and-swap for each ──┐
 *                                                                                 v
 *   page:  remote = [head|tail|count|flags]       first since A looked: page ──> A's `notified`
 *                                                                                 │
 *   thread A: slow path ── drain: chain joins page->free, the page becomes partial <─┘
 *
 * A thread that frees other threads' blocks of a class mostly allocates blocks of that class as
 * well, or a third thread does. So the blocks return to their pages only when no thread wants them.
 * A thread holds at most FOREIGN_BYTES of each class, or two blocks if these are larger, and at
 * most FOREIGN_BYTES_ALL of all classes. The worker takes these blocks from a thread that sleeps
 * (idle.c).
 *
 * The owner takes the whole stack at once, but malloc takes in only one page in a call. What
 * another processor has written costs one or two cache misses for each page, and the slowest calls
 * wait for them. The rest of the stack waits in `coming`.
 *
 * The count is in the same word as the chain, so that any thread can see that a page is empty: all
 * blocks that are not on its own list are on `remote`. A page marked QUEUED is on a stack or about
 * to be. It is neither released nor orphaned before it is taken from the stack, so that the thread
 * that pushed it may touch it after its compare-and-swap.
 * Model: tests/protocol/. Stress: tests/stress/.
 */
#include "heap/core.h"

#include <limits.h>

enum {
    FOREIGN_FIRST = 4,          /* blocks of a class that a thread may hold at first; doubles */
    FOREIGN_MOST = 128,         /* blocks of a class that a thread may hold at most */
    FOREIGN_LEAST = 2,          /* blocks of a class that it may hold, however large they are */
    FOREIGN_BYTES = 16384,      /* bytes of a class that a thread may hold at most */
    FOREIGN_BYTES_ALL = 262144, /* bytes of all classes that a thread may hold at most */
    TRANSFER_BYTES = 2048,      /* bytes of the smallest list that takes a slot of the cache */
    FEW = 8,                    /* blocks of the shortest list that malloc takes */
    FEW_BYTES = 4096,           /* bytes of a shorter list that malloc takes all the same */
    CHAINS = 16,                /* pages by which a list is sorted at a time */
    POKE_PAGES = 8,             /* pages on a stack from which on the worker is woken */
};

/* Returns the distance of the block from its page's start in units of 16 bytes. */
static uint64_t offset16(const lm_page_t *page, const lm_block_t *block) {
    uint64_t at = (uint64_t)((const char *)block - lm_span_start(page));
    LM_ASSERT(at % 16 == 0 && at >> 4 <= UINT16_MAX);
    return at >> 4;
}

/* ---- To and from the page ---- */

/* Puts the page on the stack of the heap that owns it. The caller has just set QUEUED. */
static void notify(lm_page_t *page) {
    LM_ASSERT(lm_load_relaxed(&page->remote) & LM_REMOTE_QUEUED);
    lm_theap_t *heap = page->heap;
    lm_page_t *top = lm_load_relaxed(&heap->notified);
    do {
        page->notified = top;
        /* Release: the owner that takes the stack sees the link. The load above may be relaxed,
         * because this thread does not follow `top`. */
    } while (!lm_cas_weak_release(&heap->notified, &top, page));
    /* Relaxed: the number is only a hint that a sleeping owner may be holding a lot. */
    if (lm_add_relaxed(&heap->pending, 1) >= POKE_PAGES) lm_purge_poke(true);
}

void lm_remote_push(lm_theap_t *heap, lm_page_t *page, lm_block_t *head, lm_block_t *tail,
                    uint32_t n) {
    uint64_t word = lm_load_relaxed(&page->remote), next;
    do {
        while (LM_UNLIKELY(word & LM_REMOTE_ORPHAN)) {
            if (lm_orphan_free(heap, page, head, tail, n)) return;
            word = lm_load_relaxed(&page->remote);
        }
        uint32_t there = lm_remote_count(word);
        LM_ASSERT(n > 0 && there + n <= page->capacity);
        uint64_t last = there > 0 ? (word >> 32) & 0xffff : offset16(page, tail);
        lm_link_set(tail, there > 0 ? lm_remote_at(page, word >> 48) : NULL);
        next = offset16(page, head) << 48 | last << 32 | (uint64_t)(there + n) << 16 |
               LM_REMOTE_QUEUED;
        /* Release: the owner sees the links. Acquire: this thread sees which heap owns the page. */
    } while (!lm_cas_weak_acq_rel(&page->remote, &word, next));
    if (!(word & LM_REMOTE_QUEUED)) notify(page);
}

uint32_t lm_remote_take(lm_page_t *page, lm_block_t **head, lm_block_t **tail) {
    uint64_t word = lm_load_relaxed(&page->remote);
    do {
        if (lm_remote_count(word) == 0) return 0;
        /* Acquire: this thread sees the links that the pushing threads wrote. */
    } while (!lm_cas_weak_acq_rel(&page->remote, &word, word & 0xffff));
    LM_ASSERT(!(word & LM_REMOTE_ORPHAN)); /* lm_orphan_free serves orphans */
    *head = lm_remote_at(page, word >> 48);
    *tail = lm_remote_at(page, word >> 32);
    /* The page's counts will show these blocks as freed, but the owner did not free them. */
    lm_bytes_add(page->heap, 0, 0 - (size_t)lm_remote_count(word) * page->block_bytes);
    return lm_remote_count(word);
}

/* ---- Lists of other threads' blocks ---- */

/* A chain of blocks of one page, on its way to that page. */
typedef struct chain {
    lm_page_t *page; /* NULL: empty */
    lm_block_t *head, *tail;
    uint32_t count;
} chain_t;

/* Puts a chain on its page, which the heap owns: it may have adopted the page since it freed the
 * blocks. back: the blocks were counted as handed out. Heap lock held. */
static void put_own(lm_theap_t *heap, const chain_t *chain, bool back) {
    lm_page_t *page = chain->page;
    if (page->in_list == LM_AT_FULL) lm_page_to_partial(heap, page);
    lm_page_put(page, chain->head, chain->tail, chain->count);
    /* The page's own counts now show the blocks as not handed out, or as freed. */
    if (back)
        lm_count_back(page, chain->count);
    else
        lm_bytes_add(heap, 0, 0 - (size_t)chain->count * page->block_bytes);
    if (page->live == 0 && page->in_list == LM_AT_PARTIAL) lm_page_release(heap, page);
}

/* Hands a chain over to its page. heap: the heap that may own the page, with its lock held; NULL:
 * no heap owns it. back: the blocks were counted as handed out. */
static void remote_send(lm_theap_t *heap, const chain_t *chain, bool back) {
    LM_ASSERT(chain->head != NULL && chain->count > 0);
    /* The heap is compared as well, because a branch of this thread has the same token, but another
     * lock. Relaxed: if the word is the heap's token, this thread or one before it under the heap's
     * lock wrote it. */
    if (heap != NULL && lm_load_relaxed(&chain->page->owner) == heap->token &&
        chain->page->heap == heap) {
        put_own(heap, chain, back);
        return;
    }
    if (back) lm_count_others_back(chain->page->size_class, chain->count);
    if (back && heap != NULL)
        lm_bytes_add(heap, 0 - (size_t)chain->count * chain->page->block_bytes, 0);
    lm_remote_push(NULL, chain->page, chain->head, chain->tail, chain->count);
}

/* Sorts the list by pages and hands it over to them. heap: the heap that may own some of these
 * pages, whose lock is held; NULL: no heap does. back: the blocks were counted as handed out. */
static void sort_and_send(lm_theap_t *heap, lm_block_t *list, bool back) {
    chain_t chains[CHAINS];
    lm_block_t *next;
    for (unsigned i = 0; i < CHAINS; i++) chains[i].page = NULL;
    for (lm_block_t *block = list; block != NULL; block = next) {
        next = lm_link_get(block);
        lm_page_t *page = lm_page_of(block);
        LM_ASSERT(page->kind == LM_KIND_PAGE);
        chain_t *chain = &chains[lm_span_slice(page) % CHAINS];
        if (chain->page != page) {
            if (chain->page != NULL) remote_send(heap, chain, back);
            *chain = (chain_t){page, NULL, block, 0};
        }
        lm_link_set(block, chain->head);
        chain->head = block;
        chain->count++;
    }
    for (unsigned i = 0; i < CHAINS; i++) {
        if (chains[i].page != NULL) remote_send(heap, &chains[i], back);
    }
}

void lm_foreign_send(lm_theap_t *heap, lm_block_t *list) { sort_and_send(heap, list, false); }

void lm_foreign_send_back(lm_theap_t *heap, lm_block_t *list) { sort_and_send(heap, list, true); }

/* Returns the number of blocks on the list. */
static uint32_t remote_held(const lm_foreign_t *foreign) {
    LM_ASSERT(foreign->room <= foreign->granted);
    return (uint32_t)(foreign->granted - foreign->room);
}

/* Adds a block to the list, which has room for it. */
static void enlist(lm_foreign_t *foreign, lm_block_t *block) {
    LM_ASSERT(foreign->room > 0);
    foreign->room--;
    lm_link_set(block, foreign->first);
    /* Release: the child of a fork, which hands over the blocks that it finds, sees the block's
     * link if it sees the block. */
    lm_store_release(&foreign->first, block);
}

/* Takes back what was granted to all classes. All lists are empty. */
static void remote_no_room(lm_theap_t *heap) {
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        LM_ASSERT(heap->foreign[c].first == NULL);
        heap->foreign[c].granted = heap->foreign[c].room = 0;
    }
    heap->foreign_bytes = 0;
}

void lm_foreign_return_all(lm_theap_t *heap) {
    if (heap->foreign_bytes == 0) return;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_foreign_t *foreign = &heap->foreign[c];
        if (foreign->first == NULL) continue;
        lm_bytes_add(heap, 0, remote_held(foreign) * lm_class_bytes(c));
        lm_foreign_send(heap, lm_foreign_unlist(foreign));
    }
    remote_no_room(heap);
}

/* Blocks of pages that the sleeping thread owns are pushed on `remote` as well, because the thread
 * may wake up and free blocks on these pages. */
void lm_foreign_return_sleeper(lm_theap_t *heap) {
    LM_ASSERT(lm_load_relaxed(&heap->parked));
    lm_quarantine_return(heap);
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_foreign_t *foreign = &heap->foreign[c];
        if (heap->holds[c] == LM_HOLDS_OTHERS) {
            lm_bytes_ready(heap, heap->head[c], true);
            lm_foreign_send_back(NULL, heap->head[c]);
            heap->head[c] = NULL;
            heap->holds[c] = LM_HOLDS_OWN;
        }
        if (foreign->first == NULL) continue;
        lm_bytes_add(heap, 0, remote_held(foreign) * lm_class_bytes(c));
        lm_foreign_send(NULL, lm_foreign_unlist(foreign));
    }
}

lm_block_t *lm_foreign_take(lm_theap_t *heap, unsigned size_class) {
    lm_foreign_t *foreign = &heap->foreign[size_class];
    LM_ASSERT(foreign->first != NULL);
    /* A few blocks are not worth this call, and small ones share cache lines with blocks that other
     * threads use. */
    size_t bytes = remote_held(foreign) * lm_class_bytes(size_class);
    if (remote_held(foreign) < FEW && bytes < FEW_BYTES) return NULL;
    lm_count_others(size_class, remote_held(foreign));
    lm_bytes_add(heap, bytes, bytes); /* the blocks are freed, and ready to be allocated */
    return lm_foreign_unlist(foreign);
}

/* Makes room for more blocks of the class. Returns false iff the list has its full length, or all
 * lists together have. */
static bool remote_grant(lm_theap_t *heap, unsigned size_class) {
    lm_foreign_t *foreign = &heap->foreign[size_class];
    size_t bytes = lm_class_bytes(size_class);
    uint32_t most = (uint32_t)(FOREIGN_BYTES / bytes), more = foreign->granted;
    if (most > FOREIGN_MOST) most = FOREIGN_MOST;
    if (most < FOREIGN_LEAST) most = FOREIGN_LEAST;
    if (more < FOREIGN_FIRST) more = FOREIGN_FIRST;
    LM_ASSERT(foreign->granted <= most);
    if (more > most - foreign->granted) more = most - foreign->granted;
    if (more == 0 || heap->foreign_bytes + more * bytes > FOREIGN_BYTES_ALL) return false;
    foreign->granted = (uint16_t)(foreign->granted + more);
    foreign->room = (uint16_t)(foreign->room + more);
    heap->foreign_bytes += more * bytes;
    return true;
}

/* Hands a full list over: to the transfer cache, or to the blocks' pages. Heap lock not held. */
static void remote_hand_over(lm_theap_t *heap, unsigned size_class) {
    lm_foreign_t *foreign = &heap->foreign[size_class];
    size_t bytes = remote_held(foreign) * lm_class_bytes(size_class);
    if (foreign->first == NULL) return;
    lm_bytes_add(heap, 0, bytes);
    if (bytes >= TRANSFER_BYTES && lm_transfer_put(size_class, foreign)) return;
    /* The list is emptied only once the lock is held: a fork that this thread waits for here still
     * finds the list. */
    lm_biased_enter(&heap->lock);
    lm_foreign_send(heap, lm_foreign_unlist(foreign));
    lm_biased_leave(&heap->lock);
}

/* Frees a block of another thread's page, for the thread that owns `heap`. Heap lock not held. */
static LM_NOINLINE void remote_free(lm_theap_t *heap, lm_page_t *page, lm_block_t *block) {
    /* Relaxed, both loads: the class does not change while a block is in use, and a push finds by
     * `remote` whether the page is an orphan. */
    unsigned c = lm_load_relaxed(&page->foreign_class);
    LM_ASSERT(heap->fheap.fheap == NULL); /* the thread's own heap, no branch */
    /* Without an owner, the page may be an orphan, and this heap becomes its owner at once. A block
     * of a first-class heap (class 0) must return to its page. */
    if (lm_load_relaxed(&page->owner) == LM_OWNER_NONE || c == 0) {
        /* Counted before the push, because the page may go with this block. */
        lm_bytes_add(heap, 0, page->block_bytes);
        lm_remote_push(heap, page, block, block, 1);
        return;
    }
    if (heap->foreign[c].room == 0 && !remote_grant(heap, c)) {
        remote_hand_over(heap, c);
        if (heap->foreign[c].room == 0) {
            for (unsigned other = 1; other < LM_CLASSES; other++) remote_hand_over(heap, other);
            remote_no_room(heap);
            (void)remote_grant(heap, c);
        }
    }
    enlist(&heap->foreign[c], block);
}

/* ---- Taking in ---- */

/* Takes the whole stack of pages. Returns its first page; NULL iff the stack is empty. */
static lm_page_t *unstack(lm_theap_t *heap) {
    /* Acquire: this thread sees the links of the stack. Relaxed for `pending`, which is a hint. */
    lm_page_t *page = lm_exchange_acquire(&heap->notified, NULL);
    lm_store_relaxed(&heap->pending, 0);
    return page;
}

/* Puts the chain that `word` holds on the page's own list. If that list is empty, the chain's last
 * block, whose link is NULL already, is not written: another processor wrote it, and this thread
 * would wait for its cache line. */
static void put_remote(lm_page_t *page, uint64_t word) {
    lm_block_t *head = lm_remote_at(page, word >> 48);
    uint32_t n = lm_remote_count(word);
    LM_ASSERT(lm_page_outside(page) >= n && page->in_list != LM_AT_FULL);
    if (page->free != NULL) {
        lm_page_put(page, head, lm_remote_at(page, word >> 32), n);
        return;
    }
    page->free = head;
    lm_store_relaxed(&page->live, page->live - n);
}

/* Takes in the remote frees of at most `most` pages of a stack. Returns the rest of the stack. Heap
 * lock held. */
static lm_page_t *remote_take_in(lm_theap_t *heap, lm_page_t *page, unsigned most) {
    for (lm_page_t *next; page != NULL && most > 0; page = next, most--) {
        /* Read before QUEUED is cleared: afterwards another thread may queue the page again. */
        next = page->notified;
        LM_ASSERT(page->heap == heap);
        /* Acquire: this thread sees the links that the pushing threads wrote. Release: a thread
         * that queues the page again writes `notified` after the load above. */
        uint64_t word = lm_exchange_acq_rel(&page->remote, 0);
        if (page->in_list == LM_AT_FULL) lm_page_to_partial(heap, page);
        if (lm_remote_count(word) > 0) put_remote(page, word);
        lm_bytes_add(heap, 0, 0 - (size_t)lm_remote_count(word) * page->block_bytes);
        if (page->in_list != LM_AT_PARTIAL) continue;
        if (page->live == 0) {
            lm_page_release(heap, page);
        } else if (!heap->active && heap->fheap.fheap == NULL) {
            lm_page_unlink(heap, page);
            if (lm_orphan_add(page)) /* not lm_bytes_page: an ended thread's bytes do not count */
                heap->pages--;
            else
                lm_page_to_partial(heap, page);
        }
    }
    return page;
}

void lm_remote_drain(lm_theap_t *heap) {
    (void)remote_take_in(heap, heap->coming, UINT_MAX);
    heap->coming = NULL;
    /* Relaxed: a page that is pushed at this moment may wait for the next drain. */
    if (lm_load_relaxed(&heap->notified) != NULL)
        (void)remote_take_in(heap, unstack(heap), UINT_MAX);
}

void lm_remote_drain_some(lm_theap_t *heap) {
    LM_ASSERT(lm_remote_waits(heap));
    lm_page_t *page = heap->coming;
    if (page != NULL) {
        page = heap->coming = remote_take_in(heap, page, 1);
    } else {
        page = heap->coming = unstack(heap);
        lm_purge_poke(true); /* if the owner sleeps from now on, the worker takes in the rest */
    }
    if (page != NULL) LM_PREFETCH(&page->remote); /* for the next call */
}

/* ---- The slow half of free ---- */

/* lm_block_free_slow where this thread's list of the class has no room, or the page has no owner
 * that is a thread. */
static LM_NOINLINE void free_slower(void *p, lm_page_t *page) {
    LM_METER(slow());
    if (lm_perturb_matters() && lm_perturb_free(p, page)) return;
    if (LM_UNLIKELY(lm_is_offset(page))) {
        lm_offset_free(page, p);
    } else if (page->kind == LM_KIND_PAGE) {
        lm_theap_t *heap = lm_heap_get();
        lm_block_t *block = (lm_block_t *)p;
        if (LM_LIKELY(heap != NULL))
            remote_free(heap->fheap.own_heap, page, block);
        else
            lm_remote_push(NULL, page, block, block, 1);
    } else if (page->kind == LM_KIND_LARGE) {
        lm_large_free(page, p);
    } else if (page->kind == LM_KIND_SAMPLED) {
        lm_sampled_free(page, p);
    } else {
        lm_free_foreign(p);
    }
}

void lm_block_free_slow(void *p, lm_page_t *page) {
    /* Relaxed: the class does not change while a block of the page is in use. */
    lm_foreign_t *foreign = &lm_heap_self->foreign[lm_load_relaxed(&page->foreign_class)];
    /* `room` is 0 in the empty heap and in class 0, the class of lm_nobody and of the pages of
     * first-class heaps. The owner of a large object is no thread. */
    if (LM_LIKELY(foreign->room > 0) && LM_LIKELY(lm_peek(&page->owner) > LM_OWNER_OFFSET))
        enlist(foreign, (lm_block_t *)p);
    else
        free_slower(p, page);
}

void lm_free_foreign(void *p) {
    if (p == NULL) return;
    lm_page_t *page = lm_range_page_of(p);
    if (page->kind != LM_KIND_NONE)
        lm_block_free_on(p, page);
    else
        (void)lm_page_foreign(p, "free");
}

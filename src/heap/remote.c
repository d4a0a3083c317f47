/* remote.c: blocks freed by a thread that does not own their page.
 *
 *   thread B: free ──> list of the class ──> B's next mallocs
 *                           │ full
 *                           ├──> transfer cache (transfer.c) ──> any thread's next malloc
 *                           │ full too; B sleeps, ends
 *                           └──> sorted by pages, one compare-and-swap for each ──┐
 *                                                                                 v
 *   page:  remote = [head|tail|count|flags]              first since A looked: page ──> A's `notified`
 *                                                                                 │
 *   thread A: slow path ── drain: chain joins page->free, the page wakes up <─────┘
 *
 * Who frees others' blocks of a class mostly wants blocks of that class as well, or somebody else
 * does: so they go home only when nobody wants them. What a thread holds so is at most
 * FOREIGN_BYTES of a class, or two blocks, and FOREIGN_BYTES_ALL in all; the worker takes it from
 * who sleeps (idle.c). A stack is taken as a whole, but malloc takes in one page in a call: what
 * another processor has written costs a miss or two a page, and the slowest calls wait for them.
 * The rest waits in `coming`.
 * Counting goes with the word: a page whose outside blocks are all on `remote` is empty, whoever
 * looks. A page marked QUEUED is on a stack or about to be: it is neither released nor orphaned
 * before it was taken from there, so that the pusher may touch it after its compare-and-swap.
 * Model: tests/protocol/. Stress: tests/stress/.
 */
#include "heap/core.h"

#include <limits.h>

enum {
    FOREIGN_FIRST = 4,  /* blocks of a class that may be held at first; doubles */
    FOREIGN_MOST = 128, /* at last */
    FOREIGN_LEAST = 2,
    FOREIGN_BYTES = 16384,      /* the same in bytes */
    FOREIGN_BYTES_ALL = 262144, /* of all classes together */
    TRANSFER_BYTES = 2048,      /* worth a slot of the transfer cache */
    FEW = 8,                    /* blocks; fewer are not used by malloc */
    FEW_BYTES = 4096,           /* unless they are large */
    CHAINS = 16,
    POKE_PAGES = 8,
};

static uint64_t offset16(const lm_page_t *page, const lm_block_t *block) {
    return (uint64_t)((const char *)block - lm_span_start(page)) >> 4;
}

/* ---- Handing over ---- */

static void notify(lm_page_t *page) {
    lm_heap_t *heap = page->heap;
    lm_page_t *top = lm_load_relaxed(&heap->notified);
    do {
        page->notified = top;
        /* Release: the owner that takes the stack sees the link. */
    } while (!lm_cas_weak_release(&heap->notified, &top, page));
    /* Relaxed: only a hint that a sleeping owner may be holding a lot. */
    if (lm_add_relaxed(&heap->pending, 1) >= POKE_PAGES) lm_purge_poke(true);
}

void lm_remote_push(lm_heap_t *heap, lm_page_t *page, lm_block_t *head, lm_block_t *tail,
                    uint32_t n) {
    uint64_t word = lm_load_relaxed(&page->remote), next;
    do {
        while (LM_UNLIKELY(word & LM_REMOTE_ORPHAN)) {
            if (lm_orphan_free(heap, page, head, tail, n)) return;
            word = lm_load_relaxed(&page->remote);
        }
        uint32_t there = lm_remote_count(word);
        uint64_t last = there > 0 ? (word >> 32) & 0xffff : offset16(page, tail);
        lm_link_set(tail, there > 0 ? lm_remote_at(page, word >> 48) : NULL);
        next = offset16(page, head) << 48 | last << 32 | (uint64_t)(there + n) << 16 |
               LM_REMOTE_QUEUED;
        /* Acquire and release: the owner sees the links, we see which heap the page belongs to. */
    } while (!lm_cas_weak_acq_rel(&page->remote, &word, next));
    if (!(word & LM_REMOTE_QUEUED)) notify(page);
}

uint32_t lm_remote_take(lm_page_t *page, lm_block_t **head, lm_block_t **tail) {
    uint64_t word = lm_load_relaxed(&page->remote);
    do {
        if (lm_remote_count(word) == 0) return 0;
        /* Acquire: the links that the pushers wrote. */
    } while (!lm_cas_weak_acq_rel(&page->remote, &word, word & 0xffff));
    *head = lm_remote_at(page, word >> 48);
    *tail = lm_remote_at(page, word >> 32);
    /* Not the owner's frees. */
    lm_bytes_add(page->heap, 0, 0 - (size_t)lm_remote_count(word) * page->block_bytes);
    return lm_remote_count(word);
}

/* ---- Blocks of others ---- */

/* A chain of blocks of one page, on its way there. */
typedef struct chain {
    lm_page_t *page; /* NULL: empty */
    lm_block_t *head, *tail;
    uint32_t count;
} chain_t;

/* Its page may have become ours meanwhile, by adoption. */
static void put_own(lm_heap_t *heap, const chain_t *chain, bool back) {
    lm_page_t *page = chain->page;
    if (page->place == LM_AT_FULL) lm_page_to_partial(heap, page);
    lm_page_put(page, chain->head, chain->tail, chain->count);
    /* The page's own counts have it now: as not handed out, or as freed. */
    if (back)
        lm_count_back(page, chain->count);
    else
        lm_bytes_add(heap, 0, 0 - (size_t)chain->count * page->block_bytes);
    if (page->live == 0 && page->place == LM_AT_PARTIAL) lm_page_release(heap, page);
}

static void send(lm_heap_t *heap, const chain_t *chain, bool back) {
    /* A branch of ours has the same token, and a lock of its own. */
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

/* Sorts the list by pages. back: its blocks were counted as handed out. */
static void sort_and_send(lm_heap_t *heap, lm_block_t *list, bool back) {
    chain_t chains[CHAINS];
    lm_block_t *next;
    for (unsigned i = 0; i < CHAINS; i++) chains[i].page = NULL;
    for (lm_block_t *block = list; block != NULL; block = next) {
        next = lm_link_get(block);
        lm_page_t *page = lm_page_of(block);
        chain_t *chain = &chains[lm_span_slice(page) % CHAINS];
        if (chain->page != page) {
            if (chain->page != NULL) send(heap, chain, back);
            *chain = (chain_t){page, NULL, block, 0};
        }
        lm_link_set(block, chain->head);
        chain->head = block;
        chain->count++;
    }
    for (unsigned i = 0; i < CHAINS; i++) {
        if (chains[i].page != NULL) send(heap, &chains[i], back);
    }
}

void lm_foreign_send(lm_heap_t *heap, lm_block_t *list) { sort_and_send(heap, list, false); }

void lm_foreign_send_back(lm_heap_t *heap, lm_block_t *list) { sort_and_send(heap, list, true); }

static uint32_t held(const lm_foreign_t *foreign) {
    return (uint32_t)(foreign->granted - foreign->room);
}

static void enlist(lm_foreign_t *foreign, lm_block_t *block) {
    foreign->room--;
    lm_link_set(block, foreign->first);
    /* Release: in this order, for the child of a fork, which hands over what it finds. */
    lm_store_release(&foreign->first, block);
}

static void no_room(lm_heap_t *heap) {
    for (unsigned c = 1; c < LM_CLASSES; c++) heap->foreign[c].granted = heap->foreign[c].room = 0;
    heap->foreign_bytes = 0;
}

void lm_foreign_return_all(lm_heap_t *heap) {
    if (heap->foreign_bytes == 0) return;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        lm_foreign_t *foreign = &heap->foreign[c];
        if (foreign->first == NULL) continue;
        lm_bytes_add(heap, 0, held(foreign) * lm_class_bytes(c));
        lm_foreign_send(heap, lm_foreign_unlist(foreign));
    }
    no_room(heap);
}

/* Blocks of the sleeper's own pages go the same way as the others: it may wake up and free on
 * them. */
void lm_foreign_return_sleeper(lm_heap_t *heap) {
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
        lm_bytes_add(heap, 0, held(foreign) * lm_class_bytes(c));
        lm_foreign_send(NULL, lm_foreign_unlist(foreign));
    }
}

lm_block_t *lm_foreign_take(lm_heap_t *heap, unsigned size_class) {
    lm_foreign_t *foreign = &heap->foreign[size_class];
    /* A few are not worth the way here; and small ones share cache lines with what other threads
     * use. */
    size_t bytes = held(foreign) * lm_class_bytes(size_class);
    if (held(foreign) < FEW && bytes < FEW_BYTES) return NULL;
    lm_count_others(size_class, held(foreign));
    lm_bytes_add(heap, bytes, bytes); /* freed, and ready to be allocated */
    return lm_foreign_unlist(foreign);
}

/* Makes room for more blocks of the class; false iff it has enough, or all together have. */
static bool grant(lm_heap_t *heap, unsigned size_class) {
    lm_foreign_t *foreign = &heap->foreign[size_class];
    size_t bytes = lm_class_bytes(size_class);
    uint32_t most = (uint32_t)(FOREIGN_BYTES / bytes), more = foreign->granted;
    if (most > FOREIGN_MOST) most = FOREIGN_MOST;
    if (most < FOREIGN_LEAST) most = FOREIGN_LEAST;
    if (more < FOREIGN_FIRST) more = FOREIGN_FIRST;
    if (more > most - foreign->granted) more = most - foreign->granted;
    if (more == 0 || heap->foreign_bytes + more * bytes > FOREIGN_BYTES_ALL) return false;
    foreign->granted = (uint16_t)(foreign->granted + more);
    foreign->room = (uint16_t)(foreign->room + more);
    heap->foreign_bytes += more * bytes;
    return true;
}

/* A list that is full: to who wants such blocks, or home. */
static void hand_over(lm_heap_t *heap, unsigned size_class) {
    lm_foreign_t *foreign = &heap->foreign[size_class];
    size_t bytes = held(foreign) * lm_class_bytes(size_class);
    if (foreign->first == NULL) return;
    lm_bytes_add(heap, 0, bytes);
    if (bytes >= TRANSFER_BYTES && lm_transfer_put(size_class, foreign)) return;
    /* In there and not before: a fork that we wait for finds the list. */
    lm_biased_enter(&heap->lock);
    lm_foreign_send(heap, lm_foreign_unlist(foreign));
    lm_biased_leave(&heap->lock);
}

static LM_NOINLINE void remote_free(lm_heap_t *heap, lm_page_t *page, lm_block_t *block) {
    unsigned c = lm_load_relaxed(&page->foreign_class);
    /* An orphan becomes ours at once; a first-class heap's goes home. */
    if (lm_load_relaxed(&page->owner) == LM_OWNER_NONE || c == 0) {
        lm_bytes_add(heap, 0, page->block_bytes); /* before: the page may end with it */
        lm_remote_push(heap, page, block, block, 1);
        return;
    }
    if (heap->foreign[c].room == 0 && !grant(heap, c)) {
        hand_over(heap, c);
        if (heap->foreign[c].room == 0) {
            for (unsigned other = 1; other < LM_CLASSES; other++) hand_over(heap, other);
            no_room(heap);
            (void)grant(heap, c);
        }
    }
    enlist(&heap->foreign[c], block);
}

/* ---- Taking in ---- */

static lm_page_t *unstack(lm_heap_t *heap) {
    /* Acquire: the links of the stack. */
    lm_page_t *page = lm_exchange_acquire(&heap->notified, NULL);
    lm_store_relaxed(&heap->pending, 0);
    return page;
}

/* The last block of what others freed ends the list already. Another processor has written it: to
 * write it again would be to wait for it. */
static void put_remote(lm_page_t *page, uint64_t word) {
    lm_block_t *head = lm_remote_at(page, word >> 48);
    uint32_t n = lm_remote_count(word);
    if (page->free != NULL) {
        lm_page_put(page, head, lm_remote_at(page, word >> 32), n);
        return;
    }
    page->free = head;
    lm_store_relaxed(&page->live, page->live - n);
}

/* Takes in what the first pages of a stack got, `most` of them. Returns the rest of the stack. */
static lm_page_t *take_in(lm_heap_t *heap, lm_page_t *page, unsigned most) {
    for (lm_page_t *next; page != NULL && most > 0; page = next, most--) {
        next = page->notified; /* before the flag is cleared: then it may be queued again */
        /* Acquire: as in lm_remote_take. */
        uint64_t word = lm_exchange_acq_rel(&page->remote, 0);
        if (page->place == LM_AT_FULL) lm_page_to_partial(heap, page);
        if (lm_remote_count(word) > 0) put_remote(page, word);
        lm_bytes_add(heap, 0, 0 - (size_t)lm_remote_count(word) * page->block_bytes);
        if (page->place != LM_AT_PARTIAL) continue;
        if (page->live == 0) {
            lm_page_release(heap, page);
        } else if (!heap->active && heap->fheap.fheap == NULL) {
            lm_page_unlink(heap, page);
            if (lm_orphan_add(page)) /* of a thread that has ended: its bytes are not counted */
                heap->pages--;
            else
                lm_page_to_partial(heap, page);
        }
    }
    return page;
}

void lm_remote_drain(lm_heap_t *heap) {
    (void)take_in(heap, heap->coming, UINT_MAX);
    heap->coming = NULL;
    /* Relaxed: what comes later is taken later. */
    if (lm_load_relaxed(&heap->notified) != NULL) (void)take_in(heap, unstack(heap), UINT_MAX);
}

void lm_remote_drain_some(lm_heap_t *heap) {
    lm_page_t *page = heap->coming;
    if (page != NULL) {
        page = heap->coming = take_in(heap, page, 1);
    } else {
        page = heap->coming = unstack(heap);
        lm_purge_poke(true); /* if its owner sleeps from now on, the worker does the rest */
    }
    if (page != NULL) LM_PREFETCH(&page->remote); /* the next call's */
}

/* ---- The slow half of free ---- */

static LM_NOINLINE void free_slower(void *p, lm_page_t *page) {
    LM_METER(slow());
    if (lm_perturb_matters() && lm_perturb_free(p, page)) return;
    if (LM_UNLIKELY(lm_is_offset(page))) {
        lm_offset_free(page, p);
    } else if (page->kind == LM_KIND_PAGE) {
        lm_heap_t *heap = lm_heap_get();
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
    lm_foreign_t *foreign = &lm_heap_self->foreign[lm_load_relaxed(&page->foreign_class)];
    /* There is no room in an empty heap, nor in class 0, which lm_nobody has and first-class heaps'
     * pages. Large objects have no owner. */
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

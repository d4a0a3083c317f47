/* refill.c: malloc when the list of the class is empty.
 *
 * The order decides how much memory a program occupies: first what has been used before, of the
 * current page, of another page of ours (the fullest of a few, so that the emptier ones can drain),
 * of others, of larger classes; then what has not: the rest of the current page, a page set aside
 * with such a rest; then what is worth less: a sleeping page, an orphan, and only then a new page
 * (dirty before clean: span/arena.c).
 */
#include "heap/core.h"

#include <errno.h>

enum {
    LOOK = 4,            /* partial pages looked at for free blocks */
    COMPARED = 2,        /* of these with free blocks: each may be a miss of every cache */
    LOOK_FULL = 8,       /* full ones */
    LARGER_BYTES = 4096, /* taken of a larger class's list at once, at most */
    CUT_MOST = 2,        /* links followed to cut such a list: each may be a miss of every cache */
    SKIP_MOST = 3,
};

void *lm_no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *lm_too_large(size_t bytes) {
    lm_refused(bytes, true);
    return lm_no_memory();
}

void *lm_too_large_at(size_t bytes, size_t align) {
    lm_refused_aligned(bytes, align, true);
    return lm_no_memory();
}

/* What others have freed of a page. */
static LM_NOINLINE lm_block_t *list_of_remote(lm_page_t *page) {
    lm_block_t *list, *tail;
    /* These blocks counted as outside, and do so in the heap's head as well. */
    uint32_t count = lm_remote_take(page, &list, &tail);
    if (count == 0) return NULL;
    lm_count_again(page, count);
    return list;
}

/* What has come back to a page: its own list, or that of others. */
LM_INLINE lm_block_t *list_of(lm_page_t *page) {
    lm_block_t *list = lm_page_take(page);
    /* Relaxed: what comes this moment stays for later. */
    if (list != NULL || LM_LIKELY(lm_remote_count(lm_load_relaxed(&page->remote)) == 0))
        return list;
    return list_of_remote(page);
}

/* The fuller of the COMPARED oldest partial pages that have free blocks, among the LOOK oldest. */
static lm_page_t *fullest(lm_heap_t *heap, unsigned size_class) {
    lm_list_t *list = &heap->partial[size_class];
    lm_page_t *best = NULL;
    int left = LOOK, compare = COMPARED;
    for (lm_node_t *node = list->first; node != NULL && left-- > 0;
         node = lm_list_after(list, node)) {
        lm_page_t *page = LM_CONTAINER(node, lm_page_t, link);
        if (page->free == NULL) continue; /* set aside, only to be carved */
        if (best == NULL || page->live > best->live) best = page;
        if (--compare == 0) break;
    }
    return best;
}

/* A page that was set aside for others with free blocks. */
static lm_page_t *set_aside(lm_heap_t *heap, unsigned size_class) {
    lm_list_t *list = &heap->partial[size_class];
    for (lm_node_t *node = list->first; node != NULL; node = lm_list_after(list, node)) {
        lm_page_t *page = LM_CONTAINER(node, lm_page_t, link);
        if (page->carved < page->capacity) return page;
    }
    return NULL;
}

/* Before memory is taken anew: a full page that has got a block back, though too few to wake it.
 * Looks at up to LOOK_FULL pages, and begins behind them the next time. */
static lm_page_t *awake_early(lm_heap_t *heap, unsigned size_class) {
    lm_list_t *list = &heap->full[size_class];
    lm_node_t *begin = list->first;
    if (begin == NULL) return NULL;
    int left = LOOK_FULL;
    do {
        lm_page_t *page = LM_CONTAINER(list->first, lm_page_t, link);
        if (page->free != NULL) return page;
        list->first =
            list->first->next; /* the list is circular: its first member becomes the last */
    } while (--left > 0 && list->first != begin);
    return NULL;
}

static void look_at(lm_heap_t *heap, lm_list_t *list) {
    lm_node_t *next;
    for (lm_node_t *node = list->first; node != NULL; node = next) {
        lm_page_t *page = LM_CONTAINER(node, lm_page_t, link);
        next = lm_list_after(list, node);
        lm_block_t *head, *tail;
        uint32_t n = lm_remote_take(page, &head, &tail);
        if (n == 0) continue;
        if (page->place == LM_AT_FULL) lm_page_to_partial(heap, page);
        lm_page_put(page, head, tail, n);
        if (page->live == 0) lm_page_release(heap, page);
    }
}

/* The worker found remote frees on our pages while we slept, and could not take them. */
static LM_COLD void look_behind(lm_heap_t *heap) {
    heap->left_behind = 0;
    for (unsigned c = 1; c < LM_CLASSES; c++) {
        look_at(heap, &heap->partial[c]);
        look_at(heap, &heap->full[c]);
    }
}

void lm_heap_take_in(lm_heap_t *heap) {
    lm_remote_drain(heap);
    if (heap->left_behind > 0) look_behind(heap);
}

/* Memory that has been used before, of this heap. */
static lm_page_t *woken(lm_heap_t *heap, unsigned size_class) {
    lm_page_t *page = fullest(heap, size_class);
    if (page == NULL && heap->left_behind > 0) {
        look_behind(heap);
        page = fullest(heap, size_class);
    }
    return page;
}

/* Takes n blocks of a page's list that is not empty. Returns them as a list. A list of at most n
 * blocks is taken whole, without a look at it. Of a longer one only the first CUT_MOST are taken,
 * because finding the end of what is taken reads each block. */
static lm_block_t *cut(lm_page_t *page, uint32_t n) {
    page->fresh = false; /* from now on some blocks are in another class's list */
    if (page->carved - page->live <= n) return lm_page_take(page);
    lm_block_t *list = page->free, *tail = list;
    if (n > CUT_MOST) n = CUT_MOST;
    uint32_t taken = 1;
    for (lm_block_t *next; taken < n && (next = lm_link_get(tail)) != NULL; tail = next) taken++;
    /* Release: as in lm_page_take. */
    page->free = lm_link_get(tail);
    lm_store_release(&page->live, page->live + taken);
    lm_count_again(page, taken);
    lm_link_set(tail, NULL);
    return list;
}

/* Freed blocks of a class that is not much larger: the peak stays lower than with new memory, and
 * what is large is cheaper so than what the system must clear first. As many as would be carved. */
static lm_block_t *of_larger(lm_heap_t *heap, unsigned size_class) {
    size_t bytes = lm_class_bytes(size_class), align = bytes & -bytes;
    for (unsigned c = size_class + 1; c < LM_CLASSES && 4 * lm_class_bytes(c) <= 5 * bytes; c++) {
        if (lm_class_bytes(c) % align != 0) continue; /* see lm_class_aligned */
        lm_page_t *page = heap->current[c];
        if (page == NULL || page->free == NULL) page = fullest(heap, c);
        if (page == NULL) continue;
        lm_block_t *list = cut(page, (uint32_t)(LARGER_BYTES / bytes));
        /* Or the partial pages would be many that have nothing, before the few that have. */
        if (page->free == NULL && page->carved == page->capacity && page->place == LM_AT_PARTIAL)
            lm_page_to_full(heap, page);
        return list;
    }
    return NULL;
}

/* Blocks of other threads' pages. */
static lm_block_t *of_others(lm_heap_t *heap, unsigned size_class) {
    lm_block_t *list = NULL;
    if (heap->foreign[size_class].first != NULL) list = lm_foreign_take(heap, size_class);
    if (list != NULL || heap == &lm_heap_common) return list;
    list = lm_transfer_take(size_class);
    lm_bytes_ready(heap, list, false);
    return list;
}

/* Whether to look further for memory that has been used before: a search that found nothing is
 * repeated later, and later still, so that a heap that only grows is not searched for each
 * block. */
static bool worth_searching(lm_foreign_t *class) {
    if (class->skip == 0) return true;
    class->skip--;
    return false;
}

static void searched(lm_foreign_t *class, bool found) {
    class->pause = (uint8_t)(found                      ? 0
                             : class->pause < SKIP_MOST ? 2 * class->pause + 1
                                                        : SKIP_MOST);
    class->skip = class->pause;
}

/* Begins to load the descriptors that a search may read. A program with a large heap has none of
 * them in its caches, and each load would wait for the one before. */
LM_INLINE void read_ahead(const lm_heap_t *heap, unsigned size_class) {
    LM_PREFETCH(heap->partial[size_class].first);
    LM_PREFETCH(heap->full[size_class].first);
}

/* Begins to load the first block of a page that is about to become current, and its descriptor's
 * second line. */
LM_INLINE void read_ahead_page(const lm_page_t *page) {
    LM_PREFETCH(page->free);
    LM_PREFETCH(&page->remote);
}

static lm_block_t *refill(lm_heap_t *heap, unsigned size_class) {
    lm_page_t *page = heap->current[size_class];
    lm_foreign_t *class = &heap->foreign[size_class];
    lm_block_t *list;
    bool shares =
        heap->fheap.fheap == NULL; /* or its blocks and pages are of one first-class heap */
    heap->holds[size_class] = LM_HOLDS_OWN;
    read_ahead(heap, size_class);
    if (page != NULL) {
        list = list_of(page);
        if (list != NULL) return list;
    }
    for (;;) {
        lm_page_t *other = woken(heap, size_class);
        list = other == NULL && shares ? of_others(heap, size_class) : NULL;
        if (other == NULL && list == NULL && worth_searching(class)) {
            if (size_class >= LM_SMALL_CLASSES) other = awake_early(heap, size_class);
            /* The canary of a secure build's block is where its class ends. */
            if (other == NULL && !LM_SECURE) list = of_larger(heap, size_class);
            searched(class, other != NULL || list != NULL);
        }
        while (other == NULL && list == NULL && lm_remote_waits(heap)) {
            lm_remote_drain_some(heap); /* the pages that were too many at first */
            if (page != NULL && (list = list_of(page)) != NULL) return list;
            other = fullest(heap, size_class);
        }
        if (list != NULL) {
            heap->holds[size_class] = LM_HOLDS_OTHERS;
            return list;
        }
        if (other != NULL) read_ahead_page(other);
        if (page != NULL) {
            if (other == NULL && (list = lm_page_carve(page)) != NULL) {
                if (page->fresh && !LOAM_DEBUG) heap->holds[size_class] = LM_HOLDS_ZERO;
                return list;
            }
            if (page->carved < page->capacity)
                lm_page_to_partial(heap, page);
            else
                lm_page_to_full(heap, page);
        }
        page = other;
        if (page == NULL) page = set_aside(heap, size_class);
        if (page == NULL) page = awake_early(heap, size_class);
        if (page == NULL && shares) page = lm_orphan_adopt(heap, size_class);
        if (page == NULL) page = lm_page_create(heap, size_class);
        if (page == NULL) return NULL;
        if (page->place == LM_AT_PARTIAL && page->live == 0 && heap->vacant > 0) heap->vacant--;
        lm_page_unlink(heap, page);
        page->place = LM_AT_CURRENT;
        lm_store_relaxed(&page->owner,
                         heap->token); /* it may be left over from the heap's last thread */
        heap->current[size_class] = page;
        list = list_of(page);
        if (list != NULL) return list;
    }
}

void *lm_heap_refill(lm_heap_t *heap, unsigned size_class) {
    lm_biased_enter(&heap->lock);
    lm_store_relaxed(&heap->slow, heap->slow + 1);
    if (LM_UNLIKELY(lm_remote_waits(heap))) lm_remote_drain_some(heap);
    /* The common heap keeps its lists: all calls come here. */
    lm_block_t *block = heap->head[size_class];
    if (block == NULL) {
        block = refill(heap, size_class);
        if (LM_UNLIKELY(lm_load_relaxed(&lm_sampling.rate) != 0) && block != NULL)
            lm_sampled_limit(heap, size_class, block);
    }
    if (block != NULL) heap->head[size_class] = lm_link_get(block);
    lm_biased_leave(&heap->lock);
    return block;
}

LM_INLINE void *from_other_page(unsigned size_class) {
    lm_heap_t *heap = lm_heap_get();
    if (LM_UNLIKELY(heap == NULL)) return lm_common_alloc(size_class);
    /* Relaxed: who deletes a heap may set it at any time; what it says of a branch, never
     * changes. */
    unsigned special = lm_load_relaxed(&heap->fheap.special);
    if (LM_UNLIKELY(special != 0)) {
        if (special == LM_IS_BRANCH) return lm_branch_alloc(heap, size_class);
        lm_whole_part_with_retired(heap);
    }
    /* Starting a heap may have allocated already. */
    if (heap->head[size_class] == NULL && heap->current[size_class] == NULL &&
        LM_UNLIKELY(lm_load_relaxed(&lm_heaps_active) > lm_load_relaxed(&lm_heaps_many)))
        lm_common_share(heap, size_class);
    if (heap->head[size_class] == NULL) return lm_heap_refill(heap, size_class);
    lm_block_t *block = heap->head[size_class];
    heap->head[size_class] = lm_link_get(block);
    return block;
}

/* No lock is held here. */
static LM_COLD void *from_room_made(unsigned size_class) {
    size_t bytes = lm_class_bytes(size_class);
    for (unsigned tries = 0; lm_room_found(bytes, &tries);) {
        void *block = from_other_page(size_class);
        if (block != NULL) return block;
    }
    lm_refused(bytes, false);
    return lm_no_memory();
}

LM_NOINLINE void *lm_block_refill(unsigned size_class) {
    /* A request of 0 bytes has class 0, which has neither lists nor pages. It always comes here. */
    if (LM_UNLIKELY(size_class == 0)) return lm_block_alloc(1);
    LM_METER(slow());
    void *block = from_other_page(size_class);
    if (LM_UNLIKELY(block == NULL)) block = from_room_made(size_class);
    lm_limit_answer_if_crossed();
    return block;
}

LM_STATIC_ASSERT((size_t)LM_QUIET_MOST == (size_t)LM_BLOCK_MOST, "one comparison serves both");

/* From the current page, if blocks of it are free. The heap's list is empty. */
LM_INLINE void *take(size_t size_class, lm_heap_t *heap) {
    lm_page_t *page = heap->current[size_class];
    lm_block_t *block;
    if (LM_LIKELY(page != NULL) && LM_LIKELY((block = lm_page_take(page)) != NULL)) {
        heap->holds[size_class] = LM_HOLDS_OWN;
        LM_IN_RETURN_REGISTER(block);
        lm_block_t *next = lm_link_get(block);
        heap->head[size_class] = next;
        LM_PREFETCH(next);
        return block;
    }
    return lm_block_refill((unsigned)size_class);
}

static LM_NOINLINE void *take_unquiet(size_t bytes, size_t size_class) {
    if (bytes > LM_BLOCK_MOST) return lm_large_alloc(bytes, 1, NULL);
    lm_beat_if_asked();
    if (lm_perturb_matters()) return lm_perturb_alloc(bytes, (unsigned)size_class);
    /* Relaxed: a word by itself. */
    if (lm_load_relaxed(&lm_sampling.rate) != 0)
        return lm_sampled_slow(bytes, (unsigned)size_class);
    lm_heap_t *heap = lm_heap_self;
    void *block = lm_block_pop_of(heap, size_class); /* who was asked may have filled the list */
    return block != NULL ? block : take(size_class, heap);
}

/* The heap comes from the fast path, which has met an empty list in it. Read anew, it might be
 * another: the worker hides a heap for a moment (idle.c), and what it hid may have a list. */
void *lm_block_take(size_t bytes, size_t size_class, lm_heap_t *heap) {
    if (LM_UNLIKELY(bytes > lm_peek(&lm_quiet_most))) return take_unquiet(bytes, size_class);
    return take(size_class, heap);
}

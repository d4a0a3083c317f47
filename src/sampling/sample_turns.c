/* sample_turns.c: decides which allocations are sampled.
 *
 *   countdown   falls as lists of blocks are handed out ── the list with the sample's block is cut
 *               before it, and its class is due: the next refill of that class is a sample
 *
 * Each heap draws how many blocks it hands out before its next sample. A heap begins anew when the
 * rate has changed, and in the child of a fork: the lists that it holds ready are returned, so that
 * their blocks are counted as well. loam does not see a child of clone or _Fork begin: such a child
 * has up to two samples in common with its siblings, and draws other gaps from then on. The fast
 * paths pay nothing: malloc meets an empty list where a sample is due. It cannot sample first-class
 * heaps, nor threads that have ended but still run code. Blocks of other threads' pages are counted
 * one by one, and what is cut off their lists returns to its pages.
 * Invariant: while no class is due, a heap's lists have no more blocks than were counted for them.
 */
#include "sampling/sampling.h"

LM_STATIC_ASSERT(LM_CLASSES <= 128, "a bit each in sample_due");

/* ---- Chance ---- */

/* Returns a random seed that is not 0. It mixes several sources, because children of one process
 * share its memory, and no single source differs among all of them. */
static uint64_t seed_of(const lm_theap_t *heap) {
    uint64_t x = lm_os_random() ^ (uintptr_t)heap ^ lm_ticks();
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u; /* the mixing of splitmix64, Steele et al. 2014 */
    x ^= (uint64_t)lm_port_thread_id() << 20;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) | 1;
}

uint32_t lm_sampled_random(lm_theap_t *heap) {
    uint64_t x = heap->sampling.random;
    if (x == 0) x = seed_of(heap);
    x ^= x << 13; /* xorshift, Marsaglia 2003 */
    x ^= x >> 7;
    x ^= x << 17;
    heap->sampling.random = x;
    return (uint32_t)(x >> 32);
}

/* Returns the number of blocks between two samples. It is geometric: every allocation has an equal
 * chance, whatever came before, and short-lived processes get their share. The logarithm is good to
 * 1%. */
static uint32_t gap(lm_theap_t *heap, uint32_t rate) {
    if (rate <= 1) return 0;
    /* A copy of the process that ran no fork handlers has another thread id, and so draws other
     * numbers. */
    if (heap->sampling.random != 0) heap->sampling.random ^= (uint64_t)lm_port_thread_id() << 20;
    uint32_t x = lm_sampled_random(heap) | 1;
    unsigned whole = lm_log2(x);
    double part = (double)(x - ((uint32_t)1 << whole)) / (double)((uint32_t)1 << whole);
    double log2 = whole + part + 0.344 * part * (1 - part);
    double blocks = (32 - log2) * 0.6931472 * ((double)rate - 0.5);
    return blocks < (double)UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
}

static bool is_due(const lm_theap_t *heap, unsigned size_class) {
    LM_ASSERT(size_class > 0 && size_class < LM_CLASSES);
    return heap->sampling.due[size_class / 64] >> size_class % 64 & 1;
}

static bool any_due(const lm_theap_t *heap) {
    return (heap->sampling.due[0] | heap->sampling.due[1]) != 0;
}

/* Returns the countdown to the next sample. While a sample is due, `countdown` is 0, which sends
 * all classes to the slower path, and the next sample's countdown is in `following`. */
static uint32_t *count_of(lm_theap_t *heap) {
    LM_ASSERT(!any_due(heap) || heap->sampling.countdown == 0);
    return any_due(heap) ? &heap->sampling.following : &heap->sampling.countdown;
}

/* Restarts sampling at a rate. Lists that were not counted at this rate are returned, to be
 * counted. */
static LM_NOINLINE void sample_turns_begin(lm_theap_t *heap, uint32_t rate) {
    lm_biased_enter(&heap->lock);
    for (unsigned c = 1; c < LM_CLASSES; c++) lm_heap_return_head(heap, c);
    lm_biased_leave(&heap->lock);
    heap->sampling.rate = rate;
    heap->sampling.due[0] = heap->sampling.due[1] = 0;
    heap->sampling.countdown = gap(heap, rate);
}

static void sample_turns_forget(lm_theap_t *heap) {
    if (heap->sampling.rate == 0) return; /* no write, which would copy a page of the parent */
    heap->sampling.rate = 0;
    heap->sampling.random = 0;
}

void lm_sampled_after_fork(void) {
    if (lm_load_relaxed(&lm_sampling.rate) == 0) return; /* relaxed: the process has one thread */
    lm_theap_t *mine = lm_heap_mine();
    if (mine != NULL) sample_turns_forget(mine);
    /* Otherwise the calling thread was adding a heap when a signal handler forked. */
    if (!lm_lock_is_mine(&lm_registry_lock)) {
        LM_EACH_HEAP(heap) sample_turns_forget(heap);
    }
    lm_heap_hide_mine();
}

/* Returns whether this allocation is a sample, and draws the next gap. */
static bool take_turn(lm_theap_t *heap, unsigned size_class, uint32_t rate) {
    if (is_due(heap, size_class)) {
        LM_ASSERT(heap->sampling.countdown == 0);
        heap->sampling.due[size_class / 64] &= ~((uint64_t)1 << size_class % 64);
        if (!any_due(heap)) heap->sampling.countdown = heap->sampling.following;
        return true;
    }
    uint32_t *in = count_of(heap);
    if (*in > 0) return false;
    *in = gap(heap, rate);
    return true;
}

/* Counts a list of `count` blocks that is about to be handed out. Returns how many of them may be
 * handed out before the next sample, at least 1. */
static uint32_t sample_turns_allowed(lm_theap_t *heap, unsigned size_class, uint32_t count) {
    LM_ASSERT(size_class > 0 && size_class < LM_CLASSES && count > 0);
    uint32_t *counter = count_of(heap), in = *counter;
    if (in >= count) {
        *counter = in - count;
        return count;
    }
    heap->sampling.due[size_class / 64] |= (uint64_t)1 << size_class % 64;
    heap->sampling.following = gap(heap, heap->sampling.rate);
    heap->sampling.countdown = 0;
    return in > 0 ? in : 1;
}

/* Cuts the list behind n blocks. Returns the rest. */
static lm_block_t *sample_turns_cut(lm_block_t *list, uint32_t n) {
    LM_ASSERT(n > 0);
    while (--n > 0) list = lm_link_get(list);
    lm_block_t *rest = lm_link_get(list);
    lm_link_set(list, NULL);
    return rest;
}

/* As lm_page_take, for no more blocks than may be handed out before the next sample. */
static lm_block_t *take_some(lm_theap_t *heap, lm_page_t *page) {
    LM_ASSERT(page->kind == LM_KIND_PAGE && lm_load_relaxed(&page->live) <= page->carved);
    uint32_t count = page->carved - page->live, n;
    if (page->free == NULL || (n = sample_turns_allowed(heap, page->size_class, count)) == count)
        return lm_page_take(page);
    lm_block_t *list = page->free;
    page->free = sample_turns_cut(list, n);
    /* Release, as in lm_page_take: a fork at this moment finds no block in two places. */
    lm_store_release(&page->live, page->live + n);
    lm_count_again(page, n);
    return list;
}

static bool samples(const lm_theap_t *heap) {
    return heap->fheap.own_heap == heap && heap != &lm_heap_common && heap->fheap.fheap == NULL;
}

/* Returns the length of a list that refilled the heap, of other threads' pages or of the current
 * page. */
static uint32_t sample_turns_length_of(const lm_block_t *list, const lm_theap_t *heap,
                                       unsigned size_class) {
#if !LM_SECURE
    /* Blocks that were just made lie side by side, up to the last block that was made. */
    if (heap->holds[size_class] == LM_HOLDS_ZERO) {
        const lm_page_t *page = heap->current[size_class];
        const char *end = lm_span_start(page) + (size_t)page->carved * page->block_bytes;
        return (uint32_t)((size_t)(end - (const char *)list) / page->block_bytes);
    }
#else
    (void)heap, (void)size_class;
#endif
    uint32_t count = 0;
    for (; list != NULL; list = lm_link_get(list)) count++;
    return count;
}

void lm_sampled_limit(lm_theap_t *heap, unsigned size_class, lm_block_t *list) {
    if (!samples(heap) || heap->sampling.rate == 0) return;
    bool others = heap->holds[size_class] == LM_HOLDS_OTHERS;
    uint32_t count = sample_turns_length_of(list, heap, size_class),
             n = sample_turns_allowed(heap, size_class, count);
    if (n >= count) return;
    lm_block_t *rest = sample_turns_cut(list, n);
    if (others) {
        lm_foreign_send_back(heap, rest);
        return;
    }
    lm_page_t *page = heap->current[size_class];
    LM_ASSERT(page->free == NULL && lm_load_relaxed(&page->live) >= count - n);
    page->free = rest;
    lm_store_relaxed(&page->live, page->live - (count - n));
    lm_count_back(page, count - n);
}

/* Hands out the current page's own list, or the part before the next sample. Returns NULL if
 * refill.c must find blocks. */
static void *of_current(lm_theap_t *heap, unsigned size_class) {
    lm_page_t *page = heap->current[size_class];
    if (page == NULL) return NULL;
    lm_block_t *block = take_some(heap, page);
    if (block == NULL) return NULL;
    heap->holds[size_class] = LM_HOLDS_OWN;
    heap->head[size_class] = lm_link_get(block);
    return block;
}

static LM_NOINLINE void *slower(size_t bytes, unsigned size_class, uint32_t rate) {
    lm_theap_t *heap = lm_heap_get();
    void *p = NULL;
    bool may = rate != 0 && heap != NULL && samples(heap);
    if (may && LM_UNLIKELY(heap->sampling.rate != rate)) sample_turns_begin(heap, rate);
    /* A list that exists at this point had been hidden by the worker (idle.c). */
    if (may && heap->head[size_class] == NULL) {
        if (take_turn(heap, size_class, rate)) p = lm_sampled_alloc(heap, bytes, size_class);
        if (p == NULL) p = of_current(heap, size_class);
    }
    return p != NULL ? p : lm_block_refill(size_class);
}

void *lm_sampled_slow(size_t bytes, unsigned size_class) {
    lm_theap_t *heap = lm_heap_self;
    uint32_t rate = lm_load_relaxed(&lm_sampling.rate);
    lm_page_t *page = heap->current[size_class];
    /* Most lists hold no sample. For them this does what lm_block_take does, and a subtraction. A
     * heap that is not sampled has another rate. */
    if (LM_LIKELY(heap->sampling.rate == rate) && LM_LIKELY(page != NULL) &&
        LM_LIKELY(heap->head[size_class] == NULL)) {
        uint32_t count = page->carved - page->live;
        lm_block_t *block;
        if (LM_LIKELY(count <= heap->sampling.countdown) &&
            LM_LIKELY((block = lm_page_take(page)) != NULL)) {
            heap->sampling.countdown -= count;
            heap->holds[size_class] = LM_HOLDS_OWN;
            heap->head[size_class] = lm_link_get(block);
            return block;
        }
    }
    return slower(bytes, size_class, rate);
}

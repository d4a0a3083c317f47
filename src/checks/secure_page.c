/* secure_page.c: pages of the secure build: what is known of their memory, and in what order they
 * give out new blocks.
 *
 *   page    [ block 0 | block 1 | ... | block n ]        all zero, but for links
 *                ^          <── from the end on: one of four, at random, whose place the next takes
 *                └ last of its run: nothing lies before it that could have a canary
 *   of a class that has filled a page already, to 1 KiB: in order (lm_order, decision 0028)
 *
 * Clearing is saved where a page's memory reads as zero: because it is new, because all of it was
 * cleared, or because it held blocks of the same class, which are wiped when they are freed. Where
 * a block begins is found by a multiplication (lm_block_index). It cannot find what was written to
 * free blocks meanwhile: malloc does (secure.c). Invariant: memory of a `fresh` page beyond
 * `carved` is zero; blocks in free lists are, but for their links: is_zero in secure.c looks at
 * each that malloc hands out.
 */
#include "checks/inner.h"

#if LM_SECURE

#include <string.h>

enum {
    AMONG = 4,          /* new blocks come in random order: each is one of so many */
    AMONG_SMALLEST = 8, /* of blocks of at most SMALLEST bytes */
    SMALLEST = 32,
};

lm_divisor_t lm_divisors[LM_CLASSES];

void lm_secure_class(unsigned size_class, size_t bytes) {
    uint32_t shift = (uint32_t)__builtin_ctzl(bytes), odd = (uint32_t)(bytes >> shift);
    uint32_t inverse = odd; /* right in 3 bits; each step doubles them */
    for (int i = 0; i < 4; i++) inverse *= 2 - odd * inverse;
    /* Relaxed: all threads write the same, and who has a block of such a page has synchronised with
     * its maker. */
    lm_store_relaxed(&lm_divisors[size_class].shift, shift);
    lm_store_relaxed(&lm_divisors[size_class].inverse, inverse);
    lm_store_relaxed(&lm_index_factor[size_class],
                     (((uint64_t)1 << LM_INDEX_SHIFT) + bytes - 1) / bytes);
}

/* Its free blocks are zero, so that a page of the same class need not clear them; and what was
 * written to them since then is found by malloc. Pages of one slice only: of longer ones another
 * could begin in the middle. */
bool lm_secure_page_begin(lm_page_t *page, unsigned size_class, bool zero) {
    lm_store_relaxed(&page->raw, false); /* relaxed: nobody knows the page yet */
    if (page->range != 0) return zero;   /* has descriptors of its own */
    bool wiped = page->slices == 1 && page->wiped_class == size_class, wholly = true;
    for (size_t i = 0; i < page->slices; i++) {
        wholly = wholly && page[i].wiped_class == LM_WIPED_WHOLLY;
        page[i].wiped_class = 0;
    }
    return zero || wiped || wholly;
}

void lm_secure_page_end(lm_page_t *page) {
    bool all = page->fresh || page->carved == page->capacity;
    if (lm_is_offset(page)) all = false; /* its blocks keep their shifts */
    if (page->range == 0 && page->slices == 1 && all) page->wiped_class = page->size_class;
}

lm_order_t lm_order = LM_ORDER_AUTO;

/* What a program has many of it goes through in the order in which it made them, and waits for each
 * that does not lie behind the one before. */
static bool keeps_order(const lm_heap_t *heap, unsigned size_class) {
    lm_order_t order = lm_load_relaxed(&lm_order); /* relaxed: a word by itself */
    if (order != LM_ORDER_AUTO || size_class >= LM_SMALL_CLASSES) return order == LM_ORDER_KEPT;
    return heap->full[size_class].first != NULL || heap->partial[size_class].first != NULL;
}

/* Malloc reads a block before it writes to it, and of memory that is new the system gives the first
 * reader a page of zeros to look at, and the writer another one. Here all of a run's pages are
 * written to, by the links, but that of the last block's end; ends of blocks above 1 KiB may have
 * one each. No value changes: it may be known to be wrong. */
static void touch_ends(char *first, uint32_t n, size_t bytes) {
    for (uint32_t i = bytes > LM_SMALL_MOST ? 0 : n - 1; i < n; i++) {
        char *last = first + (i + 1) * bytes - 1, none = 0;
        /* Relaxed: nobody else knows the block. Adding nothing would be a read to some
         * compilers. */
        (void)__atomic_compare_exchange_n(last, &none, 0, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
    }
}

/* From the end on, each time one of a few blocks at random, in whose place comes the next: what is
 * made together lies near together. Block 0 of a page comes last of its run: then there is a block
 * with a canary before the others. */
lm_block_t *lm_carve_shuffled(lm_page_t *page, char *first, uint32_t n) {
    size_t bytes = page->block_bytes;
    if (page->fresh)
        touch_ends(first, n, bytes);
    else
        memset(first, 0, n * bytes);
    lm_heap_t *heap = page->heap;
    bool in_order = keeps_order(heap, page->size_class);
    lm_quarantine_keep_order(heap, lm_quarantine_ring(page->size_class), in_order);
    uint64_t random = lm_random(heap);
    uint32_t fixed = first == lm_span_start(page), left = 0,
             most = in_order            ? 1
                    : bytes <= SMALLEST ? AMONG_SMALLEST
                                        : AMONG;
    lm_block_t *among[AMONG_SMALLEST], *list = NULL;
    if (fixed == 1) lm_link_set(list = (lm_block_t *)(void *)first, NULL);
    char *at = first + n * bytes, *end = first + fixed * bytes;
    while (left < most && at > end) among[left++] = (lm_block_t *)(void *)(at -= bytes);
    while (left > 0) {
        random = lm_random_after(random);
        lm_block_t **one = &among[(random >> 33) * left >> 31];
        lm_link_set(*one, list);
        list = *one;
        *one = at > end ? (lm_block_t *)(void *)(at -= bytes) : among[--left];
    }
    return list;
}

#endif

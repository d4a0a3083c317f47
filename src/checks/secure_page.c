/* secure_page.c: pages of the secure build: which of their memory is zero, and in what order they
 * hand out new blocks.
 *
 *   page    [ block 0 | block 1 | ... | block n ]      all zero, except for links
 *                ^          <── from the end on: one of four, at random; the next takes its place
 *                └ last of its run: no block with a canary can lie before it
 *   of a class up to 1 KiB that has filled a page already: in order (lm_order, decision 0028)
 *
 * A page is not cleared if its memory reads as zero: because it is new, because all of it was
 * cleared, or because it held blocks of an equal class, which are wiped when they are freed. A
 * multiplication finds where a block begins (lm_block_index). It cannot find a write to a free
 * block: malloc does (secure.c).
 * Invariant: memory of a `fresh` page beyond `carved` is zero. Blocks in free lists are zero except
 * for their links; malloc checks each that it hands out.
 */
#include "checks/inner.h"

#if LM_SECURE

#include <string.h>

enum {
    AMONG = 4,          /* number of candidates from which a new block is drawn at random */
    AMONG_SMALLEST = 8, /* number of candidates for blocks of at most SMALLEST bytes */
    SMALLEST = 32,
};

lm_divisor_t lm_divisors[LM_CLASSES];

void lm_secure_class(unsigned size_class, size_t bytes) {
    LM_ASSERT(size_class > 0 && size_class < LM_CLASSES && bytes > 0);
    uint32_t shift = (uint32_t)__builtin_ctzl(bytes), odd = (uint32_t)(bytes >> shift);
    uint32_t inverse = odd; /* right in 3 bits; each step doubles that number */
    for (int i = 0; i < 4; i++) inverse *= 2 - odd * inverse;
    LM_ASSERT(odd * inverse == 1);
    /* Relaxed: all threads write equal values, and a thread with a block of such a page has
     * synchronised with the page's maker. */
    lm_store_relaxed(&lm_divisors[size_class].shift, shift);
    lm_store_relaxed(&lm_divisors[size_class].inverse, inverse);
    lm_store_relaxed(&lm_index_factor[size_class],
                     (((uint64_t)1 << LM_INDEX_SHIFT) + bytes - 1) / bytes);
}

/* Free blocks are zero, so a page of an equal class in the same slice need not clear them. Only
 * pages of one slice count as wiped: a page of the class could begin in the middle of a longer one.
 * Malloc finds what was written to the memory since it was wiped. */
bool lm_secure_page_begin(lm_page_t *page, unsigned size_class, bool zero) {
    lm_store_relaxed(&page->raw, false); /* relaxed: no other thread knows the page yet */
    if (page->range != 0) return zero;   /* a range has descriptors of its own */
    LM_ASSERT(page->kind == LM_KIND_PAGE && page->slices > 0);
    bool wiped = page->slices == 1 && page->wiped_class == size_class, wholly = true;
    for (size_t i = 0; i < page->slices; i++) {
        wholly = wholly && page[i].wiped_class == LM_WIPED_WHOLLY;
        page[i].wiped_class = 0;
    }
    return zero || wiped || wholly;
}

void lm_secure_page_end(lm_page_t *page) {
    LM_ASSERT(page->carved <= page->capacity);
    bool all = page->fresh || page->carved == page->capacity;
    if (lm_is_offset(page)) all = false; /* its blocks keep their shifts, and so are not zero */
    if (page->range == 0 && page->slices == 1 && all) page->wiped_class = page->size_class;
}

lm_order_t lm_order = LM_ORDER_AUTO;

/* Returns whether new blocks of the class come in order. A program goes through many objects of a
 * kind in the order in which it made them, and waits for each that does not lie behind the one
 * before. */
static bool keeps_order(const lm_theap_t *heap, unsigned size_class) {
    lm_order_t order = lm_load_relaxed(&lm_order); /* relaxed: the setting stands alone */
    if (order != LM_ORDER_AUTO || size_class >= LM_SMALL_CLASSES) return order == LM_ORDER_KEPT;
    return heap->full[size_class].first != NULL || heap->partial[size_class].first != NULL;
}

/* Writes to the last byte of blocks of a new run, without a change of value. Malloc reads a block
 * before it writes to it; for new memory the system gives the first reader a page of zeros, and the
 * writer another page. The links write to all pages of a run except the one with the last block's
 * end. Ends of blocks above 1 KiB may each have a page of their own. A byte that is not zero stays
 * as it is: malloc reports it. */
static void touch_ends(char *first, uint32_t n, size_t bytes) {
    for (uint32_t i = bytes > LM_SMALL_MOST ? 0 : n - 1; i < n; i++) {
        char *last = first + (i + 1) * bytes - 1, none = 0;
        /* Relaxed: no other thread knows the block. An addition of 0 would be a plain read to some
         * compilers. */
        (void)__atomic_compare_exchange_n(last, &none, 0, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
    }
}

/* Links the n blocks from the end on. Each time it draws one of a few candidates, whose place the
 * next block takes: blocks made together lie near together. Block 0 of a page comes last of its
 * run, so that a block with a canary lies before the others. */
lm_block_t *lm_carve_shuffled(lm_page_t *page, char *first, uint32_t n) {
    size_t bytes = page->block_bytes;
    LM_ASSERT(n > 0 && page->carved + n <= page->capacity);
    LM_ASSERT(first == lm_span_start(page) + page->carved * bytes);
    if (page->fresh)
        touch_ends(first, n, bytes);
    else
        memset(first, 0, n * bytes);
    lm_theap_t *heap = page->heap;
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
    LM_ASSERT(list != NULL && at == end); /* all n blocks are linked */
    return list;
}

#endif

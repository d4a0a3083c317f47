/* secure.h: what a block of the secure build looks like; secure.c, secure_page.c and later.c say
 * what is done with it.
 *
 *   in use   [ requested bytes | zeros: the slack | canary, with the slack's length in it ]    8 bytes
 *   free     [ link | zeros ..................................................... | zero ]
 *
 * The canary depends on a secret and the block's address, and is never zero: so one look at the
 * last word tells a block in use from a free one and both from a damaged one, whoever asks. Free
 * blocks are all zero but for their link.
 */
#ifndef LM_HEAP_SECURE_H
#define LM_HEAP_SECURE_H

#include "heap/heap.h"

#if LM_SECURE

/* To divide what is a multiple of a class's size by it, and to see whether it is one: n / (odd <<
 * shift) is n * inverse(odd), modulo 2^32, turned right by shift; other n give numbers that no page
 * has so many blocks for. Filled in when the first page of the class is made. */
typedef struct lm_divisor {
    uint32_t inverse, shift;
} lm_divisor_t;

extern LM_HIDDEN lm_divisor_t lm_divisors[LM_CLASSES];

/* Number of the block that begins `at` bytes into a page; not below page->carved iff none does. */
LM_INLINE uint32_t lm_block_index(const lm_page_t *page, uint32_t at) {
    const lm_divisor_t *by = &lm_divisors[page->size_class];
    uint32_t n = at * lm_load_relaxed(&by->inverse), turn = lm_load_relaxed(&by->shift);
    return n >> turn | n << (-turn & 31);
}

/* Before the first page of that class. */
void lm_secure_class(unsigned size_class, size_t bytes);

/* A page that was just taken, of memory that reads as zero or may not: whether all of it is as free
 * blocks of the class are, but for their links. One whose blocks are all free goes back. */
bool lm_secure_page_begin(lm_page_t *page, unsigned size_class, bool zero);
void lm_secure_page_end(lm_page_t *page);

/* As lm_page_carve: n untouched blocks, as a list in random order, unless their class has many
 * (lm_order). */
lm_block_t *lm_carve_shuffled(lm_page_t *page, char *first, uint32_t n);

/* realloc of a small block, for a size that is small, too: *there is what it returns. false iff p
 * is none, or damaged, or the size is not: nothing was done. */
bool lm_realloc_short(void *p, size_t bytes, void **there);

/* A freed block that has waited: reports what was written to its first word, which is about to
 * become a link, and to the ends of large ones. All else malloc sees, should it want the block. */
void lm_check_waited(lm_block_t *block, size_t bytes);

/* Of a block of a page, in use or free; no other thread is about to change it. */
bool lm_block_is_free(const lm_page_t *page, const void *p);

/* ---- later.c ---- */

/* The random number after x: its upper half is good. Knuth's, MMIX. */
LM_INLINE uint64_t lm_random_after(uint64_t x) {
    return x * 6364136223846793005u + 1442695040888963407u;
}

/* Reports a free block of the page that was written to. No lock held. */
void lm_secure_look_at_free(const lm_page_t *page, const void *block);

/* The number of the ring in which blocks of a class wait. */
LM_INLINE unsigned lm_later_ring(unsigned size_class) {
    return size_class < LM_LATER_OTHERS ? size_class : (unsigned)LM_LATER_OTHERS;
}

LM_INLINE lm_block_t **lm_later_place(const lm_later_t *later, size_t number) {
    return &later->places[number & later->last];
}

LM_INLINE bool lm_later_has_coins(const lm_heap_t *heap) { return heap->later_coins > 3; }

/* Puts p into one of the ring's four youngest places, whose block becomes the youngest: few, so
 * that what is freed together comes back near together; or behind all. false iff there is no room,
 * or there are no coins. */
LM_INLINE bool lm_later_put(lm_heap_t *heap, unsigned ring, void *p) {
    lm_later_t *later = &heap->later[ring];
    size_t ready = later->ready, youngest = ready + later->mask + 1;
    if (LM_UNLIKELY(ready - later->taken >= later->most) || LM_UNLIKELY(!lm_later_has_coins(heap)))
        return false;
    uint64_t coins = heap->later_coins;
    heap->later_coins = coins >> 2;
    lm_block_t **place = lm_later_place(later, youngest - (coins & later->among));
    *lm_later_place(later, youngest) = *place;
    /* Release, free on x86-64: in this order, as seen by the child of a fork. */
    lm_store_release(place, (lm_block_t *)p);
    lm_store_release(&later->ready, ready + 1);
    return true;
}

/* Whether blocks wait in the order of their frees from now on. For who may carve the heap's
 * pages. */
void lm_later_keep_order(lm_heap_t *heap, unsigned ring, bool in_order);

/* The same for p of that page, where there may be no room yet, so that some leave, or no coins. */
void lm_later_make_room(const lm_page_t *page, void *p);

/* How many of the class wait; of a small class: how many malloc has taken since they began to. */
size_t lm_later_count(const lm_heap_t *heap, unsigned size_class);
LM_INLINE size_t lm_later_reused(const lm_heap_t *heap, unsigned size_class) {
    return lm_load_relaxed(&heap->later[size_class].taken) -
           lm_load_relaxed(&heap->later_left[size_class]);
}

/* Whether p, a block of that page, waits in some thread's heap; false also if nobody can look now.
 * For reports. */
bool lm_later_holds(const lm_page_t *page, const void *p);

/* All of them go where free without such a wait puts them. For the owner, without locks held. */
void lm_later_empty(lm_heap_t *heap);

/* Whether some of the calling thread's may wait. */
bool lm_later_waits(void);

/* In place of a thread that sleeps or is gone: to their pages. The same locks as for
 * lm_foreign_return_sleeper. */
void lm_later_return(lm_heap_t *heap);

#else
LM_INLINE void lm_later_empty(lm_heap_t *heap) { (void)heap; }
LM_INLINE bool lm_later_waits(void) { return false; }
LM_INLINE void lm_later_return(lm_heap_t *heap) { (void)heap; }
LM_INLINE size_t lm_later_count(const lm_heap_t *heap, unsigned size_class) {
    return (void)heap, (void)size_class, 0;
}
LM_INLINE size_t lm_later_reused(const lm_heap_t *heap, unsigned size_class) {
    return (void)heap, (void)size_class, 0;
}
#endif

#endif

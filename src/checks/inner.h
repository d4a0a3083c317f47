/* inner.h: what the files of checks/ share; no other folder includes it.
 *
 *   secure   in use   [ requested bytes | zeros: the slack | canary with the slack's length ]
 *            free     [ link | zeros ........................................... | zero ]
 *   debug    in use   [ requested bytes | fence: 0xfb ... | word: size and state ]
 *            free     [ link | 0xdf ......................... | word ]
 *
 * The canary of the secure build depends on a secret and the block's address, and is never zero: so
 * one look at the last word tells a block in use from a free one and both from a damaged one. Free
 * blocks are all zero except for their link.
 *
 * Invariant: the last word of a block that was made is zero if the block is free, and its canary if
 * the block is in use, unless a program has overwritten it. A block of another thread's page has
 * LM_CLAIMED instead while it is being freed. A block that is wiped has its last word cleared last,
 * so that zero means that all of it is zero. Blocks of a page whose `raw` is set may have any last
 * word.
 */
#ifndef LM_CHECKS_INNER_H
#define LM_CHECKS_INNER_H

#include "checks/checks.h"
#include "sampling/sampling.h"

#if LM_GUARD_LINKS
/* Bytes that fill free blocks of the debug build, and what lies beside an object in its block: the
 * rest behind it, in the debug build, and the gap before it (offset_gap.c). */
enum { LM_FILL_FREED = 0xdf, LM_FILL_FENCE = 0xfb };
#endif

/* ---- Debug build ---- */

#if LOAM_DEBUG
/* Returns the end word as it is in memory (fence.c). */
uint64_t lm_word_raw(const void *end);
/* Returns what the end word is xored with. It depends on the word's address and on the process. */
uint64_t lm_word_mask(const void *end);

/* Returns for reports: "size class 64 B, " and, unless requested is 0, "40 requested, ". */
const char *lm_size_text(lm_line_t *line, const lm_page_t *page, size_t requested);

/* Returns whether p is a large object that waits in reuse.c: how large it was, and how many bytes
 * had been requested. */
bool lm_reuse_holds(const void *p, size_t *bytes, size_t *requested);

/* Records the call stack that allocated p (sites.c). */
void lm_sites_allocated(const void *p);
/* Records the call stack that is about to free p. */
void lm_sites_freed(const void *p);

/* The lm_tools functions inform Memcheck or AddressSanitizer (tools.c). They do nothing if no tool
 * runs. */
#if LM_TOOLS
/* The bytes have undefined contents from now on. */
void lm_tools_undefined(const void *p, size_t bytes);
/* p is a new object of `bytes` bytes. */
void lm_tools_new(const void *p, size_t bytes);
/* The object p of `before` bytes has `bytes` bytes now. */
void lm_tools_resized(const void *p, size_t before, size_t bytes);
/* The object p is freed. */
void lm_tools_freed(const void *p);
#else
LM_INLINE void lm_tools_undefined(const void *p, size_t bytes) { (void)p, (void)bytes; }
LM_INLINE void lm_tools_new(const void *p, size_t bytes) { (void)p, (void)bytes; }
LM_INLINE void lm_tools_resized(const void *p, size_t before, size_t bytes) {
    (void)p, (void)before, (void)bytes;
}
LM_INLINE void lm_tools_freed(const void *p) { (void)p; }
#endif
#endif

/* ---- Secure build ---- */

#if LM_SECURE

/* Divides a multiple of a class's size by it, and shows whether a number is one: n / (odd << shift)
 * is n * inverse(odd), modulo 2^32, rotated right by shift. Numbers that are no multiple give
 * results that no page has so many blocks for. Filled in when the first page of the class is
 * made. */
typedef struct lm_divisor {
    uint32_t inverse, shift;
} lm_divisor_t;

extern LM_HIDDEN lm_divisor_t lm_divisors[LM_CLASSES];

/* Returns the number of the block that begins `at` bytes into a page; at least page->carved iff no
 * block begins there. */
LM_INLINE uint32_t lm_block_index(const lm_page_t *page, uint32_t at) {
    const lm_divisor_t *by = &lm_divisors[page->size_class];
    uint32_t n = at * lm_load_relaxed(&by->inverse), turn = lm_load_relaxed(&by->shift);
    return n >> turn | n << (-turn & 31);
}

/* Reports what was written to the first word of a freed block that has waited, which is about to
 * become a link, and to both ends of a block of more than 1 KiB. Malloc checks the other bytes when
 * it takes the block. */
void lm_check_waited(lm_block_t *block, size_t bytes);

/* Reports what is wrong with p, a damaged block of that page (secure_look.c). Returns false. */
LM_COLD bool lm_secure_damaged(const lm_page_t *page, const void *p, const char *function);

/* ---- quarantine.c ---- */

/* Returns 64 bits that a program cannot predict. For the owner, or under the heap's lock. */
uint64_t lm_random(lm_theap_t *heap);

/* Returns the random number after x, whose upper half is good (Knuth's MMIX). */
LM_INLINE uint64_t lm_random_after(uint64_t x) {
    return x * 6364136223846793005u + 1442695040888963407u;
}

/* Returns the number of the ring in which blocks of a class wait. */
LM_INLINE unsigned lm_quarantine_ring(unsigned size_class) {
    return size_class < LM_QUARANTINE_OTHERS ? size_class : (unsigned)LM_QUARANTINE_OTHERS;
}

LM_INLINE lm_block_t **lm_quarantine_place(const lm_quarantine_ring_t *ring, size_t number) {
    LM_ASSERT(ring->places != NULL);
    return &ring->places[number & ring->last];
}

LM_INLINE bool lm_quarantine_has_coins(const lm_theap_t *heap) {
    return heap->quarantine.coins > 3;
}

/* Puts p into one of the ring's four youngest places, whose block becomes the youngest, or behind
 * all. Four are few, so that blocks freed together come back near together. Returns false iff the
 * ring is full, or there are no coins. */
LM_INLINE bool lm_quarantine_put(lm_theap_t *heap, unsigned number, void *p) {
    LM_ASSERT(number < LM_QUARANTINE_RINGS);
    lm_quarantine_ring_t *ring = &heap->quarantine.ring[number];
    size_t ready = ring->ready, youngest = ready + ring->mask + 1;
    if (LM_UNLIKELY(ready - ring->taken >= ring->most) ||
        LM_UNLIKELY(!lm_quarantine_has_coins(heap)))
        return false;
    uint64_t coins = heap->quarantine.coins;
    heap->quarantine.coins = coins >> 2;
    lm_block_t **place = lm_quarantine_place(ring, youngest - (coins & ring->among));
    *lm_quarantine_place(ring, youngest) = *place;
    /* Release, free on x86-64: in this order, as seen by the child of a fork. */
    lm_store_release(place, (lm_block_t *)p);
    lm_store_release(&ring->ready, ready + 1);
    return true;
}

/* As lm_quarantine_put for p of that page, where the ring may be full, so that some blocks leave
 * it, or there may be no coins. */
void lm_quarantine_put_slow(const lm_page_t *page, void *p);

/* Sets whether the ring's blocks wait in the order of their frees from now on. For a caller that
 * may carve the heap's pages. */
void lm_quarantine_keep_order(lm_theap_t *heap, unsigned ring, bool in_order);

/* Returns whether p, a block of that page, waits in some thread's heap; false also if the heaps
 * cannot be looked at now. For reports. */
bool lm_quarantine_holds(const lm_page_t *page, const void *p);

/* ---- Canaries ---- */

/* What the canary of a block that is being freed differs by: a slack that no block has. */
#define LM_CLAIMED LM_SLACK_MASK

LM_INLINE bool lm_is_claimed(const void *p, uint64_t last) {
    return (last ^ lm_canary_of(p)) == LM_CLAIMED;
}

/* Returns whether `last` is the canary of the block before p, which has `bytes` bytes as p has. */
LM_INLINE bool lm_before_is_canary(const void *p, size_t bytes, uint64_t last) {
    return ((last ^ lm_canary_of((const char *)p - bytes)) & ~LM_SLACK_MASK) == 0;
}

/* ---- near.c ---- */

/* Looks at the block before p, and reports it if it is damaged. p is a block of that page, not its
 * first. */
void lm_before_damaged(const lm_page_t *page, const void *p);

/* Looks at links within 32 bytes before p, where the block before p is free and p's block has 16 or
 * 32 bytes. */
void lm_before_links(const lm_page_t *page, const void *p);

/* Damage of one of that page's blocks was reported. If the program goes on, no more damage is
 * looked for beside the page's blocks. */
void lm_before_reported(const lm_page_t *page);

/* Reports what the damage to the last word of p, a block in use, tells. */
void lm_end_damaged(const lm_page_t *page, const void *p);

/* lm_end_damaged where the last word is zero, and the block may be free. Returns false, without a
 * report, iff p is free for sure. */
bool lm_end_zeroed(const lm_page_t *page, const void *p);

/* Reports what was written to a free block since its free, from that byte on, which is not all
 * zero. */
void lm_written_after_free(const lm_page_t *page, const void *block, size_t from);

/* Returns whether a free block's link is NULL or leads to a block. */
bool lm_near_link_is_right(const lm_block_t *block);

/* ---- zero.c: objects of 0 bytes ---- */

/* Returns an address that no program may read or write. Returns NULL iff no address is left, or the
 * user has chosen that overflows are ignored: then an ordinary block serves. */
void *lm_zero_alloc(void);

/* The descriptor of all objects of 0 bytes. */
extern LM_HIDDEN lm_page_t lm_zero_descriptor;

/* Returns the descriptor of an object of 0 bytes that is in use at p. Returns NULL, after a report
 * if `function` is not NULL, iff there is none. *inside: whether p lies where such objects do, in
 * use or not. */
lm_page_t *lm_zero_checked(const void *p, const char *function, bool *inside);

/* Frees an object of 0 bytes. Reports a double free of it. */
void lm_zero_free(void *p);

#endif

#endif

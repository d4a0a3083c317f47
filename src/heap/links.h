/* links.h: the links of free lists.
 *
 *   release   [ next ]
 *   secure    [ next ^ key of the slice ]
 *   debug     [ (16 bits of a sum | next) ^ key of the slice ]
 *
 * heap.h includes this file. Reading an overwritten link ends the program with a report
 * (lm_link_last): in the secure build iff the link leads out of the arena, and in the debug build
 * iff its sum is wrong. It cannot see an overwritten link before the link is read.
 */
#ifndef LM_HEAP_LINKS_H
#define LM_HEAP_LINKS_H

#include "heap/hooks.h"

#if LM_GUARD_LINKS
/* Returns the key of the links of a slice. */
LM_INLINE uintptr_t lm_link_key(const void *place) {
    return lm_load_relaxed(&lm_secret) ^
           ((uintptr_t)place >> LM_SLICE_SHIFT) * (uintptr_t)0x9e3779b97f4a7c15;
}

LM_INLINE lm_block_t *lm_link_decoded(const lm_block_t *block) {
    return (lm_block_t *)(lm_tools_peek(block) ^ lm_link_key(block));
}

/* Returns whether a decoded link leads into the arena. NULL does not. */
LM_INLINE bool lm_link_leads(const lm_block_t *next) {
    uintptr_t at = (uintptr_t)next - lm_peek(&lm_arena.base);
    /* Rotated by four bits: what is no multiple of 16 is far outside. */
    at = at >> 4 | at << (8 * sizeof at - 4);
    return at >> (LM_SLICE_SHIFT - 4) < lm_peek(&lm_arena.slices);
}

#if LOAM_DEBUG
#define LM_LINK_ADDRESS (((uintptr_t)1 << 48) - 1)
/* Returns the sum that stands above the address, which has 48 bits: it shows that loam wrote the
 * link, and to that place. */
LM_INLINE uintptr_t lm_link_sum(const void *place, uintptr_t next) {
    uintptr_t both = ((uintptr_t)place >> 4) * (uintptr_t)0xd6e8feb86659fd93 + next;
    both = (both ^ both >> 29) * (uintptr_t)0x9e3779b97f4a7c15;
    return both >> 48 << 48;
}

LM_INLINE bool lm_link_intact(const lm_block_t *block) {
    uintptr_t word = (uintptr_t)lm_link_decoded(block), next = word & LM_LINK_ADDRESS;
    return (next | lm_link_sum(block, next)) == word;
}

LM_INLINE lm_block_t *lm_link_get(const lm_block_t *block) {
    lm_block_t *next = lm_link_decoded(block);
    if (LM_UNLIKELY(!lm_link_intact(block))) return lm_link_last(block, next);
    return (lm_block_t *)((uintptr_t)next & LM_LINK_ADDRESS);
}

LM_INLINE void lm_link_set(lm_block_t *block, lm_block_t *next) {
    LM_ASSERT(((uintptr_t)next & ~LM_LINK_ADDRESS) == 0 && (uintptr_t)next % 16 == 0);
    uintptr_t word = (uintptr_t)next | lm_link_sum(block, (uintptr_t)next);
    lm_tools_poke(block, word ^ lm_link_key(block));
}
#else
LM_INLINE lm_block_t *lm_link_get(const lm_block_t *block) {
    lm_block_t *next = lm_link_decoded(block);
    return LM_LIKELY(lm_link_leads(next)) ? next : lm_link_last(block, next);
}

LM_INLINE void lm_link_set(lm_block_t *block, lm_block_t *next) {
    lm_tools_poke(block, (uintptr_t)next ^ lm_link_key(block));
}
#endif
#else
LM_INLINE lm_block_t *lm_link_get(const lm_block_t *block) { return block->next; }
LM_INLINE void lm_link_set(lm_block_t *block, lm_block_t *next) { block->next = next; }
#endif

#endif

/* canary.h: the last word of a block of the secure build, for secure.c and near.c alone (secure.h
 * has the drawing).
 *
 * Invariant: the last word of a block that was made is zero if the block is free, and its canary if
 * the block is in use, unless a program has overwritten it. A block of another thread's page has
 * LM_CLAIMED instead while it is being freed. A block that is wiped has its last word cleared last,
 * so that zero means that all of it is zero. Blocks of a page whose `raw` is set may have any last
 * word.
 */
#ifndef LM_HEAP_CANARY_H
#define LM_HEAP_CANARY_H

#include "heap/room.h"
#include "heap/secure.h"

#if LM_SECURE

/* What the canary of a block that is being freed differs by: a slack that no block has. */
#define LM_CLAIMED LM_SLACK_MASK

LM_INLINE bool lm_is_claimed(const void *p, uint64_t last) {
    return (last ^ lm_canary_of(p)) == LM_CLAIMED;
}

/* Whether the canary of a block with so much room is as it was left, and the slack's length can
 * be. */
LM_INLINE bool lm_has_canary(const void *p, size_t room, size_t *slack) {
    uint64_t odd = *lm_last_word(p, room) ^ lm_canary_of(p);
    *slack = odd >> LM_SLACK_SHIFT;
    return (odd & ~LM_SLACK_MASK) == 0 && *slack <= room - LM_TRAILER;
}

/* Whether the block before p, of `bytes` as p is, has the last word that it should have, if it is
 * in use. */
LM_INLINE bool lm_before_is_canary(const void *p, size_t bytes, uint64_t last) {
    return ((last ^ lm_canary_of((const char *)p - bytes)) & ~LM_SLACK_MASK) == 0;
}

/* ---- near.c ---- */

/* Looks at the block before p, and reports it if it is damaged; p is a block of that page, not its
 * first. */
void lm_before_damaged(const lm_page_t *page, const void *p);

/* Damage of one of that page's blocks was reported: if the program goes on, no more of it is looked
 * for beside them. */
void lm_before_reported(const lm_page_t *page);

/* Reports what the damage to the last word of p, a block in use, tells. */
void lm_end_damaged(const lm_page_t *page, const void *p);

/* The same where that word is zero, of what may be a free block. false iff p is free for sure:
 * nothing was reported. */
bool lm_end_zeroed(const lm_page_t *page, const void *p);

/* Reports what was written to a free block since its free, from that byte on: it is not all
 * zero. */
void lm_written_after_free(const lm_page_t *page, const void *block, size_t from);

/* Returns whether a free block's link is one: none, or one that leads to a block. */
bool lm_near_link_is_right(const lm_block_t *block);

/* As lm_before_damaged, where the block before p is free and p's block has 16 or 32 bytes: looks at
 * links within 32 bytes. */
void lm_before_links(const lm_page_t *page, const void *p);

/* ---- zero.c ---- */

/* An object of 0 bytes: an address that nobody may read or write. NULL iff there is none to be had,
 * or the user has chosen that overflows are ignored: then an ordinary block serves. */
void *lm_zero_alloc(void);

/* Of all of them. */
extern LM_HIDDEN lm_page_t lm_zero_descriptor;

/* The descriptor of such an object; NULL, after a report where `function` is not NULL, iff p is
 * none that is in use. *inside: whether p is an address of this kind at all. */
lm_page_t *lm_zero_checked(const void *p, const char *function, bool *inside);

/* Takes p back. */
void lm_zero_free(void *p);

#endif

#endif

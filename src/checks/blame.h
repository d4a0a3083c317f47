/* blame.h: finds out which object's overflow or underflow damaged memory, as far as the damaged
 * bytes tell. Debug and secure builds. blame.c judges the end words of debug builds, near.c the
 * canaries of secure builds.
 *
 *   block 1       block 2       block 3             end words of 1 and 2 broken:
 *   [ ... | word ][ ... | word ][ ... | word ]      an overflow of 1, or an underflow of 3
 *
 * An intact edge of the damage tells which of both it was. It cannot tell if both edges are gone.
 */
#ifndef LM_CHECKS_BLAME_H
#define LM_CHECKS_BLAME_H

#include "checks/inner.h"

#if LM_GUARD_LINKS

/* The candidates for the damage to a row of adjacent blocks. NULL and false: not a candidate. */
typedef struct lm_run {
    const lm_page_t *page;
    const void *over;  /* the object of `page` that may have overflowed */
    const void *under; /* the object that may have underflowed, if it is known */
    /* For a report without candidates: the first object of the row; NULL: not known. */
    const void *first;
    /* For a report without candidates: the object behind the row; NULL: not known. */
    const void *next;
    bool before; /* an object before the page may have overflowed */
    bool behind; /* an unknown object behind the row may have underflowed */
} lm_run_t;

/* Fills in *run for a block of `page` whose end word, which ends at `end`, is broken. The page is
 * not a large object. locked: the caller may hold a lock; then the span before the page is left
 * out. */
void lm_run_find(const lm_page_t *page, const void *end, bool locked, lm_run_t *run);

/* Reports the damage at `at` with the candidates of *run. how: LM_WRONG_DAMAGE or LM_WRONG_INSIDE.
 * Returns false. */
bool lm_run_report(const lm_run_t *run, lm_wrong_t how, const void *at);

/* Reports damage to the block's first bytes, or to bytes before its intact end word, if the damage
 * crossed an edge of the block. Returns false, without a report, iff it did not. locked: the caller
 * may hold a lock; then the span before the page is left out. */
bool lm_run_over_edge(const lm_page_t *page, const void *block, lm_wrong_t how, bool locked);

/* Returns the candidates for a damaged link of a free block that left no other trace: an object of
 * another page, or, in the secure build, an object that wrote zeros. */
lm_run_t lm_run_unseen(const lm_page_t *page, const lm_block_t *block);

#if LOAM_DEBUG
/* Returns whether the end word of the block that ends at `end` is broken. */
bool lm_word_broken(const void *end);

/* Returns whether the last bytes of the end word are intact. If so, no underflow of the object
 * behind it damaged the word. most: the largest size that the word may have. */
bool lm_word_top_whole(const void *end, size_t most);

/* Returns whether the lowest of the 8 bytes before the end word are those of a fence or of a free
 * block. If so, no overflow of the block's object damaged the word. */
bool lm_word_low_whole(const void *end);

/* Returns the object behind the end of a span whose underflow may have damaged that end. The object
 * is in use or was just freed. Returns NULL iff no such object is known. */
const void *lm_run_behind(const void *end);

/* Returns whether the end of the span before `span` is broken. Takes the arena's lock. */
bool lm_run_span_before(const lm_page_t *span);

/* Returns whether the end of the page is broken, and an overflow alone does not explain it. For
 * lm_span_page_before. */
bool lm_run_end_broken(const lm_page_t *page);
/* Returns whether the broken end of the page was damaged by an underflow of the object behind it in
 * any case. For lm_span_page_before. */
bool lm_run_end_from_behind(const lm_page_t *page);
#endif

#endif

#endif

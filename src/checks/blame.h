/* blame.h: which object's overflow or underflow it was, as far as the damaged bytes tell. Debug and
 * secure builds. blame.c; what a damaged word tells is in fence.c's words (debug) and near.c's
 * canaries (secure).
 *
 *   block 1       block 2       block 3             words of 1 and 2 broken: an overflow of 1, an underflow of 3
 *   [ ... | word ][ ... | word ][ ... | word ]      one end of the damage tells which, if it is still there
 */
#ifndef LM_CHECKS_BLAME_H
#define LM_CHECKS_BLAME_H

#include "checks/inner.h"

#if LM_GUARD_LINKS

/* What may have damaged a row of blocks. */
typedef struct lm_run {
    const lm_page_t *page;
    const void *over;  /* object whose overflow it may be; NULL: no block of the page */
    const void *under; /* object whose underflow it may be; NULL: none that is known */
    const void *first; /* the first object of the row, and what begins behind it, */
    const void *next;  /* for a report that it was neither; NULL: not known */
    bool before;       /* true: or an overflow of an object before the page */
    bool behind;       /* true: or an underflow of an object that is not known */
} lm_run_t;

/* Fills in *run for a block of the page (no large object) whose word, which ends at `end`, is
 * broken. locked: a lock may be held, so that the span before the page is not looked at. */
void lm_run_find(const lm_page_t *page, const void *end, bool locked, lm_run_t *run);

/* Reports it. how: LM_WRONG_DAMAGE or LM_WRONG_INSIDE. at: where the damage is. Returns false. */
bool lm_run_report(const lm_run_t *run, lm_wrong_t how, const void *at);

/* A block whose first bytes, or bytes before a whole word, are damaged: reports it if that came
 * over an end of the block. Returns false iff it did not: nothing was reported. locked: as
 * above. */
bool lm_run_over_edge(const lm_page_t *page, const void *block, lm_wrong_t how, bool locked);

/* Of a free block whose link is damaged: whether that may have come from an object before it or
 * behind it, though nothing shows it: from another page, or as zeros in the secure build. */
lm_run_t lm_run_unseen(const lm_page_t *page, const lm_block_t *block);

#if LOAM_DEBUG
/* Whether the word at the end of the block that ends there is broken. */
bool lm_word_broken(const void *end);

/* Whether the word's last bytes are as loam writes them: then nothing came from behind. */
bool lm_word_top_whole(const void *end);

/* Whether the lowest of the eight bytes before the word are as in a fence or a free block: then
 * nothing came over them from before. */
bool lm_word_low_whole(const void *end);

/* The object behind the end of a span whose underflow damaged that end, in use or just freed; NULL:
 * none, or not known. */
const void *lm_run_behind(const void *end);

/* Whether the end of what lies before that span is broken. Takes the arena's lock. */
bool lm_run_span_before(const lm_page_t *span);

/* The end of a page of blocks is broken, and not only by an overflow: for lm_span_page_before. The
 * second: and by an underflow of the object behind it in any case. */
bool lm_run_end_broken(const lm_page_t *page);
bool lm_run_end_from_behind(const lm_page_t *page);
#endif

#endif

#endif

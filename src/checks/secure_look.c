/* secure_look.c: what the end of a block tells in the secure build: the requested size, and damage.
 *
 *   in use   [ requested bytes | slack: zeros | canary with the slack's length ]
 *                              ^ overflow     ^ double free, overflow, or underflow of the next
 *   free     [ link | zeros ....................................................]
 *                     ^ write after free
 *
 * secure.c calls it where a block does not look right, and writes what it reads. It changes
 * nothing. It cannot tell whose overflow or underflow broke a canary; near.c looks at the blocks
 * beside it for that. Large objects are in secure_large.c.
 */
#include "checks/blame.h"
#include "checks/inner.h"

#if LM_SECURE

#include "checks/zeros.h"

size_t lm_requested(const lm_page_t *page, const void *p) {
    size_t room = lm_block_usable(page, p);
    if (page->kind != LM_KIND_PAGE) return room;
    size_t most = room - LM_TRAILER, slack;
    return lm_has_canary(p, room, &slack) ? most - slack : most;
}

bool lm_block_is_free(const lm_page_t *page, const void *p) {
    return *lm_last_word(p, page->block_bytes) == 0;
}

/* ---- Damage ---- */

void lm_secure_look_at_free(const lm_page_t *page, const void *block) {
    const lm_word_t *words = (const lm_word_t *)block;
    size_t bytes = page->block_bytes, count = bytes / sizeof *words, first = 1, end = count;
    while (first < count && words[first] == 0) first++;
    while (end > first && words[end - 1] == 0) end--;
    if (first == end && lm_near_link_is_right((const lm_block_t *)block)) return;
    lm_before_reported(page);
    if (first == end) first = 0, end = 1;
    lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_USE_AFTER_FREE,
             "write after free of %p: %zu byte(s) from byte %zu on (size class %zu B, ", block,
             (end - first) * sizeof *words, first * sizeof *words, bytes);
}

bool lm_secure_damaged(const lm_page_t *page, const void *p, const char *function) {
    size_t room = lm_block_usable(page, p), most = room - LM_TRAILER;
    uint64_t word = *lm_last_word(p, room), odd = word ^ lm_canary_of(p);
    size_t slack = odd >> LM_SLACK_SHIFT;
    if (odd == LM_CLAIMED || (word == 0 && !lm_end_zeroed(page, p)))
        return lm_double_free(page, p, function) != NULL;
    if (word == 0) return false;
    if ((odd & ~LM_SLACK_MASK) != 0 || slack > most) {
        lm_end_damaged(page, p);
        return false;
    }
    const char *from = (const char *)p + (most - slack), *last = (const char *)p + most - 1;
    while (last > from && *last == 0) last--;
    bool begins = *from != 0; /* the damage begins where the object ends */
    if (begins && lm_run_over_edge(page, p, LM_WRONG_DAMAGE, false)) return false;
    lm_before_reported(page);
    lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_OVERFLOW +
                 (begins ? 0 : LM_MISTAKE_OR(LM_MISTAKE_UNDERFLOW)),
             "overflow of %p%s: %zu byte(s) past %zu requested (size class %zu B, ", p,
             begins ? "" : ", or a stray write", (size_t)(last - from) + 1, most - slack,
             lm_block_bytes(page));
    return false;
}

bool lm_intact(const lm_page_t *page, const void *p, const char *function) {
    if (page->kind != LM_KIND_PAGE) return true; /* lm_large_intact checks large objects */
    size_t room = lm_block_usable(page, p), slack;
    return (LM_LIKELY(lm_has_canary(p, room, &slack)) &&
            LM_LIKELY(lm_slack_is_zero(p, room, slack))) ||
           lm_secure_damaged(page, p, function);
}

#endif

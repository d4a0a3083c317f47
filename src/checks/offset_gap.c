/* offset_gap.c: the gap before an object at an offset, which shows an underflow. Debug and secure
 * builds.
 *
 *   block   [ link | shift | gap: 0xfb ... | object ........... ]
 *
 * heap/offset.c has the layout. The link and shift at the block's start lie within the program's
 * reach as well; lm_offset_front_damaged reports damage to them. It cannot find an underflow that
 * jumps over the last GAP_MOST bytes of the gap.
 * Invariant: the last bytes of the gap, at most GAP_MOST, are 0xfb while the object is in use,
 * unless the program has overwritten them (lm_offset_before_intact).
 */
#include "checks/blame.h"
#include "checks/inner.h"

#include <string.h>

#if LM_GUARD_LINKS
enum { GAP_MOST = 64 };

/* Returns the start of the part of p's gap that is looked at: its last GAP_MOST bytes at most. */
static char *gap_before(char *start, const char *p) {
    LM_ASSERT(p >= start + LM_OFFSET_FRONT);
    size_t bytes = (size_t)(p - start) - LM_OFFSET_FRONT;
    return start + ((size_t)(p - start) - (bytes < GAP_MOST ? bytes : GAP_MOST));
}

static void offset_gap_fill(char *start, const char *p, int with) {
    char *gap = gap_before(start, p);
    memset(gap, with, (size_t)(p - gap));
}

void lm_gap_fill(char *start, const char *p) { offset_gap_fill(start, p, LM_FILL_FENCE); }

void lm_gap_clear(char *start, const char *p) {
    if (LM_SECURE) offset_gap_fill(start, p, 0);
}

/* Returns whether the last bytes of the gap, at most `most`, are intact. */
LM_READS_ANYTHING static bool gap_whole(const lm_page_t *page, const char *p, size_t most) {
    const char *at = gap_before(lm_offset_start(page, p), p);
    if ((size_t)(p - at) > most) at = p - most;
    lm_tools_pause();
    while (at < p && *(const unsigned char *)at == LM_FILL_FENCE) at++;
    lm_tools_resume();
    return at == p;
}

bool lm_offset_before_intact(const lm_page_t *page, const void *p) {
    LM_ASSERT(lm_is_offset(page));
    if (LM_LIKELY(gap_whole(page, (const char *)p, GAP_MOST))) return true;
    lm_run_t run = {.page = page, .under = p};
#if LOAM_DEBUG
    /* An overflow from before would have broken the end of the span before. In a page it would have
     * overwritten what names p, and the secure build has guards there. */
    run.before = page->kind == LM_KIND_LARGE && lm_run_span_before(page);
#endif
    return lm_run_report(&run, LM_WRONG_DAMAGE, p);
}

static bool is_in_use(const lm_page_t *page, const void *p) {
    size_t room = lm_block_usable(page, p), requested;
#if LOAM_DEBUG
    return lm_word_get((const char *)p + room, &requested) == LM_STATE_USED;
#else
    return room >= LM_TRAILER && lm_has_canary(p, room, &requested);
#endif
}

/* Returns whether a block whose front names no object was overwritten with zeros; the alternative
 * is that it was never used. In the secure build the link tells: a free block has one, unless it is
 * the last of its list, and an object has none. */
static bool offset_gap_is_zeroed(const lm_page_t *page, const void *p) {
#if LOAM_DEBUG
    return lm_word_broken((const char *)p + lm_block_usable(page, p));
#else
    const lm_block_t *block = (const lm_block_t *)(const void *)lm_offset_start(page, p);
    return block->next == NULL || !lm_near_link_is_right(block);
#endif
}

/* An intact gap shows that no underflow of p crossed it, if the gap is long enough to tell. */
bool lm_offset_front_damaged(const lm_page_t *page, const void *p) {
    enum { TELLS = 3 };
    if (page->kind != LM_KIND_PAGE || !lm_offset_in_carved(page, p)) return false;
    uint64_t said = lm_offset_given(page, p);
    bool in_use = is_in_use(page, p);
    if (said != LM_OFFSET_OVERWRITTEN && (said != 0 || (!in_use && !offset_gap_is_zeroed(page, p))))
        return false;
    bool long_gap = (size_t)((const char *)p - lm_offset_start(page, p)) >= LM_OFFSET_FRONT + TELLS;
    bool under = !long_gap || !gap_whole(page, (const char *)p, TELLS);
    lm_run_t run = {
        .page = page, .under = under && in_use ? p : NULL, .before = true, .behind = !in_use};
    (void)lm_run_report(&run, LM_WRONG_DAMAGE, p);
    return true;
}
#endif

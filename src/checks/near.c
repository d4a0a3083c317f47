/* near.c: finds and reports damage beside a block of the secure build.
 *
 *   free(p)     [ block before: in use: canary? free: last 32 bytes zero? ][ p ... canary? ]
 *
 * An underflow of p damages the memory before p, and so does an overflow of the block there that is
 * never freed. Either is found when p is freed or resized: secure.c looks first, and what it
 * suspects comes here.
 *
 * Another thread may take, resize or free the block before p meanwhile. It writes the last word
 * before it hands the block out, and clears the block after it took it back. So damage is reported
 * only if several looks agree, and the last word has not changed after any of them. It cannot tell
 * an underflow of p from an overflow of the block before or a write after that block's free. It
 * cannot see an underflow into the object of a block in use that leaves its canary alone. It leaves
 * out pages with blocks that loam itself holds (`raw`), which have no canary, and pages whose
 * damage was reported once, if the program goes on.
 */
#include "checks/blame.h"
#include "checks/inner.h"

#if LM_SECURE

enum { NEAR_BYTES = 32, NEAR_LOOKS = 16 };

/* Returns the last word of the block, read anew. Acquire, fence and load: earlier reads of the
 * block stay before this read, and later reads after it. */
static uint64_t word_again(const void *block, size_t bytes) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return lm_load_acquire(lm_last_word(block, bytes));
}

static bool near_is_raw(const lm_page_t *page) { return lm_load_acquire(&page->raw); }

/* Returns whether the bytes [from, from+bytes) are zero. */
static bool zero(const char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (from[i] != 0) return false;
    }
    return true;
}

/* Returns whether a free block's link is NULL or leads to a block. */
bool lm_near_link_is_right(const lm_block_t *block) {
    if (block->next == NULL) return true; /* the block was wiped and is in no list */
    const lm_block_t *next = lm_link_decoded(block);
    return next == NULL || lm_link_leads(next) ||
           ((uintptr_t)next % 16 == 0 && lm_range_around(next) != NULL);
}

/* Returns whether the other bytes of the block do not go with its last word. near: number of a free
 * block's last bytes to look at. Does not read the last word again, which may have changed and be
 * as before by the end of the look. */
static bool at_odds(const void *block, size_t bytes, size_t near, uint64_t last) {
    const char *end = (const char *)block + bytes - LM_TRAILER;
    if (last == 0) {
        size_t most = bytes - sizeof(lm_block_t), looked = near < most ? near : most;
        return !zero(end + LM_TRAILER - looked, looked - LM_TRAILER) ||
               (near >= bytes && !lm_near_link_is_right((const lm_block_t *)block));
    }
    size_t slack;
    if (lm_is_claimed(block, last)) return false;
    return !lm_is_canary(block, bytes, last, &slack) || !zero(end - slack, slack);
}

/* Returns whether a block is damaged that no thread has changed meanwhile. A thread that frees and
 * takes the block again between two reads of a look leaves the last word as it was, so several
 * looks must agree. */
static bool near_damaged(const void *block, size_t bytes, size_t near) {
    LM_ASSERT(bytes >= sizeof(lm_block_t) + LM_TRAILER && near >= LM_TRAILER);
    uint64_t last = word_again(block, bytes);
    for (int looks = 0; looks < NEAR_LOOKS; looks++) {
        if (!at_odds(block, bytes, near, last) || word_again(block, bytes) != last) return false;
        lm_cpu_relax();
    }
    return true;
}

/* ---- Whose mistake it was ---- */

/* Returns whether the last word of a block is neither a canary nor zero, or is zero though the
 * block is not free. */
static bool near_broken(const char *block, size_t bytes) {
    uint64_t last = lm_load_relaxed(lm_last_word(block, bytes)); /* once: others may write it */
    size_t slack;
    if (last == 0) return !lm_near_link_is_right((const lm_block_t *)(const void *)block);
    return !lm_is_claimed(block, last) && !lm_is_canary(block, bytes, last, &slack);
}

/* Bytes 0 to 4 and 7 of a last word, by address, are the canary's alone. An edge is intact if EDGE
 * bytes are: the program may have written one or two equal bytes by chance. */
enum { EDGE = 3, LOW_BITS = 8 * EDGE, SLACK_LIKELY = 512 };

static bool low_whole(const char *block, size_t bytes) {
    uint64_t odd = *lm_last_word(block, bytes) ^ lm_canary_of(block);
    return odd << (64 - LOW_BITS) == 0;
}

static bool top_whole(const char *block, size_t bytes) {
    uint64_t odd = *lm_last_word(block, bytes) ^ lm_canary_of(block);
    return odd >> LM_SLACK_SHIFT <= SLACK_LIKELY;
}

/* Returns whether a block that looks free certainly is: an object of zeros may look free as
 * well. */
static bool surely_free(const lm_page_t *page, const char *block, bool locked) {
    const lm_block_t *link = (const lm_block_t *)(const void *)block;
    if (!lm_near_link_is_right(link)) return false;
    return link->next != NULL || (!locked && lm_quarantine_holds(page, block));
}

/* Returns whether the first and last word of the block are zero. */
static bool looks_wiped(const char *block, size_t bytes) {
    return *lm_last_word(block, bytes) == 0 &&
           ((const lm_block_t *)(const void *)block)->next == NULL;
}

/* Returns whether a page of blocks without a guard lies directly before the page. Pages have guards
 * behind them where the system allows guards. */
static bool page_before(const lm_page_t *page) {
    const lm_page_t *before = lm_page_of(lm_span_start(page) - 1);
    return page->range == 0 && before->kind == LM_KIND_PAGE && before->range == 0 &&
           !before[before->slices - 1].marked;
}

void lm_run_find(const lm_page_t *page, const void *end, bool locked, lm_run_t *run) {
    size_t bytes = page->block_bytes;
    const char *start = lm_span_start(page), *lo = (const char *)end, *hi = lo;
    const char *made = start + (size_t)lm_load_relaxed(&page->carved) * bytes;
    *run = (lm_run_t){.page = page};
    if (near_is_raw(page) || lm_is_offset(page)) {
        run->over = lm_block_object(page, lo - bytes);
        run->before = run->behind = true;
        return;
    }
    while (lo - bytes > start && near_broken(lo - 2 * bytes, bytes)) lo -= bytes;
    while (hi < made && near_broken(hi, bytes)) hi += bytes;
    run->first = lo - bytes;
    run->next = hi < made ? hi : NULL;
    /* Zeros written over a whole free block leave no trace, and the block may be in use by now. So
     * if the row begins or ends with zeros, the culprit may be an object beyond the next one. */
    if (!low_whole(lo - bytes, bytes)) {
        bool is_free = surely_free(page, lo - bytes, locked);
        run->before = lo - bytes == start ? page_before(page)
                                          : looks_wiped(lo - bytes, sizeof(lm_block_t)) &&
                                                (!is_free || looks_wiped(lo - 2 * bytes, bytes));
        if (!is_free) run->over = lo - bytes;
    }
    if (top_whole(hi - bytes, bytes)) return;
    if (hi < made && *lm_last_word(hi, bytes) != 0) run->under = hi;
    run->behind =
        hi < made && hi[-1] == 0 &&
        (run->under != NULL || *lm_last_word(hi - bytes, bytes) == 0 || looks_wiped(hi, bytes));
}

lm_run_t lm_run_unseen(const lm_page_t *page, const lm_block_t *block) {
    const char *at = (const char *)block, *end = at + page->block_bytes;
    lm_run_t run = {.page = page};
    if (near_is_raw(page) || lm_is_offset(page)) return run;
    if (at == lm_span_start(page))
        run.before = page_before(page);
    else
        run.before = *at == 0 && looks_wiped(at - page->block_bytes, page->block_bytes);
    run.behind = at[sizeof(lm_block_t) - 1] == 0 &&
                 zero(at + sizeof(lm_block_t), end - at - sizeof(lm_block_t));
    return run;
}

bool lm_run_over_edge(const lm_page_t *page, const void *block, lm_wrong_t how, bool locked) {
    const char *at = (const char *)block;
    size_t bytes = page->block_bytes;
    lm_run_t run;
    if (near_is_raw(page) || lm_is_offset(page)) return false;
    bool own = *lm_last_word(at, bytes) != 0 && near_broken(at, bytes);
    if (!own && (at == lm_span_start(page) || !near_broken(at - bytes, bytes))) return false;
    lm_run_find(page, own ? at + bytes : at, locked, &run);
    if (!own && *lm_last_word(at, bytes) != 0) { /* the damage ends in this block */
        run.under = NULL;
        run.behind = false;
    }
    (void)lm_run_report(&run, how, block);
    return true;
}

/* Relaxed: no other memory depends on the flag. */
void lm_before_reported(const lm_page_t *page) {
    lm_store_relaxed(&((lm_page_t *)(uintptr_t)page)->raw, true);
}

void lm_end_damaged(const lm_page_t *page, const void *p) {
    lm_run_t run = {.page = page, .over = p};
    if (lm_is_offset(page)) {
        size_t room = lm_block_usable(page, p);
        if (low_whole((const char *)p, room)) run.over = NULL;
        run.behind = !top_whole((const char *)p, room);
    } else {
        lm_run_find(page, (const char *)p + page->block_bytes, false, &run);
    }
    lm_before_reported(page);
    (void)lm_run_report(&run, LM_WRONG_DAMAGE, p);
}

bool lm_end_zeroed(const lm_page_t *page, const void *p) {
    if (!lm_is_offset(page) && surely_free(page, (const char *)p, false)) return false;
    if (lm_is_offset(page) || near_broken((const char *)p, page->block_bytes) ||
        !zero((const char *)p + sizeof(lm_block_t), page->block_bytes - sizeof(lm_block_t))) {
        lm_end_damaged(page, p);
        return true;
    }
    lm_before_reported(page);
    lm_wrong(LM_MISTAKE_DOUBLE_FREE + LM_MISTAKE_OR(LM_MISTAKE_OVERFLOW) +
                 LM_MISTAKE_OR_ELSE(LM_MISTAKE_UNDERFLOW),
             "double free of %p, or zeros were written over the end of its block (size class %zu "
             "B, ",
             p, lm_block_bytes(page));
    return true;
}

void lm_written_after_free(const lm_page_t *page, const void *block, size_t from) {
    const char *p = (const char *)block;
    size_t bytes = page->block_bytes, first = from, end = bytes;
    while (first < bytes && p[first] == 0) first++;
    while (end > first && p[end - 1] == 0) end--;
    bool past = end > bytes - LM_TRAILER; /* no object reaches the block's last word */
    lm_run_t run = {.page = page};
    if (end == bytes) lm_run_find(page, p + bytes, false, &run);
    if (run.under != NULL) {
        if (run.over == p) run.over = NULL;
        (void)lm_run_report(&run, LM_WRONG_DAMAGE, p);
    } else if (past) {
        lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_USE_AFTER_FREE + LM_MISTAKE_OR(LM_MISTAKE_UNDERFLOW) +
                     LM_MISTAKE_OR_ELSE(LM_MISTAKE_OVERFLOW),
                 "write after free of %p: %zu byte(s) from byte %zu on, or underflow of an object "
                 "at or behind %p, or overflow of an object before %p (size class %zu B, ",
                 block, end - first, first, block, block, bytes);
    } else if (first >= from + EDGE || !lm_run_over_edge(page, p, LM_WRONG_DAMAGE, false)) {
        lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_USE_AFTER_FREE,
                 "write after free of %p: %zu byte(s) from byte %zu on (size class %zu B, ", block,
                 end - first, first, bytes);
    }
}

/* Reports damage to the block before p. p is in use. */
static LM_COLD void near_report(const lm_page_t *page, const void *before, const void *p) {
    size_t bytes = page->block_bytes;
    bool linked = lm_near_link_is_right((const lm_block_t *)before);
    lm_run_t run;
    if (*lm_last_word(before, bytes) != 0) {
        lm_run_find(page, (const char *)before + bytes, false, &run);
        lm_before_reported(page);
        (void)lm_run_report(&run, LM_WRONG_DAMAGE, p);
        return;
    }
    if (!linked && lm_run_over_edge(page, before, LM_WRONG_DAMAGE, false)) {
        lm_before_reported(page);
        return;
    }
    lm_line_t from = {0};
    if (!linked && lm_run_unseen(page, (const lm_block_t *)before).before)
        lm_line_add(&from, ", or overflow of an object before %p", before);
    lm_before_reported(page);
    lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_USE_AFTER_FREE + LM_MISTAKE_OR(LM_MISTAKE_UNDERFLOW) +
                 LM_MISTAKE_OR_ELSE(LM_MISTAKE_OVERFLOW),
             "write after free %sof %p%s: its end is overwritten, if not by an underflow of %p, or "
             "of an object behind it (size class %zu B, ",
             linked ? "" : "or overflow ", before, from.text, p, lm_block_bytes(page));
}

void lm_before_damaged(const lm_page_t *page, const void *p) {
    const char *before = (const char *)p - page->block_bytes;
    LM_ASSERT(before >= lm_span_start(page));
    if (near_damaged(before, page->block_bytes, NEAR_BYTES) && !near_is_raw(page))
        near_report(page, before, p);
}

void lm_before_links(const lm_page_t *page, const void *p) {
    size_t bytes = page->block_bytes;
    const char *start = lm_span_start(page), *at = (const char *)p;
    LM_ASSERT(bytes == NEAR_BYTES / 2 || bytes == NEAR_BYTES);
    LM_ASSERT(at >= start + bytes);
    for (size_t back = bytes; back <= NEAR_BYTES; back += bytes) {
        at -= bytes;
        if (LM_UNLIKELY(at < start)) return;
        const lm_word_t *words = (const lm_word_t *)(const void *)at;
        bool rest = bytes == NEAR_BYTES && (words[1] | words[2]) != 0;
        if (*lm_last_word(at, bytes) != 0) continue;
        if (LM_LIKELY(!rest) &&
            LM_LIKELY(lm_near_link_is_right((const lm_block_t *)(const void *)at)))
            continue;
        if (!near_damaged(at, bytes, NEAR_BYTES) || near_is_raw(page)) continue;
        near_report(page, at, p);
        return;
    }
}

#endif

/* blame.c: finds out which object's overflow or underflow damaged memory, as far as the damaged
 * bytes tell (blame.h has the drawing).
 *
 * An overflow or underflow in one piece changes all bytes from the object's edge on, and so breaks
 * the end words of a row of adjacent blocks. The first block of the row is not the culprit if some
 * bytes of its fence before its end word are intact, or if it is free. The block behind the row is
 * not the culprit if the last bytes of the end word before it are intact, or if it is free: its
 * free would have found and reported the damage. If both remain, the report names both objects and
 * both kinds of mistake. An edge is intact if three of its bytes are. A stray write begins at no
 * edge, so its origin cannot be told; the report says where the damage is. Pages with blocks of
 * loam's own, which have no end words (`raw`), have no rows. Invariant: a broken end word stays
 * broken until it was reported.
 */
#include "checks/blame.h"

#if LM_GUARD_LINKS

#if LOAM_DEBUG
enum {
    BLAME_WORD = sizeof(uint64_t),
    /* Bits that must be intact; the program may have written one equal byte by chance. */
    EDGE_BITS = 24,
    SIZE_BITS = 48, /* upper bits of an end word, which are the size (fence.c) */
};

static const char *span_end_of(const lm_page_t *page) {
    return lm_span_start(page) + ((size_t)page->slices << LM_SLICE_SHIFT);
}

bool lm_word_broken(const void *end) {
    size_t requested;
    return lm_word_get(end, &requested) == LM_STATE_BROKEN;
}

static bool blame_in_use(const void *end) {
    size_t requested;
    return lm_word_get(end, &requested) == LM_STATE_USED;
}

bool lm_word_top_whole(const void *end, size_t most) {
    LM_ASSERT(most >> SIZE_BITS == 0);
    uint64_t as_zero = lm_word_raw(end) ^ lm_word_mask(end);
    /* The upper bits of the size: all zero for blocks, and few are set even for the largest
     * object. */
    return as_zero >> (64 - EDGE_BITS) <= most >> (SIZE_BITS - EDGE_BITS);
}

bool lm_word_low_whole(const void *end) {
    const uint64_t low = ((uint64_t)1 << EDGE_BITS) - 1, each = 0x0101010101010101u;
    uint64_t word = lm_word_raw((const char *)end - BLAME_WORD) & low;
    return word == (each * LM_FILL_FENCE & low) || word == (each * LM_FILL_FREED & low);
}

/* Acquire: pairs with the release store of `raw`, which comes before any write to a block without
 * an end word. */
static bool blame_is_raw(const lm_page_t *page) { return lm_load_acquire(&page->raw); }

static bool blame_is_free(const lm_page_t *page, const char *block) {
    if (lm_is_offset(page)) return lm_offset_freed(page, block) != NULL;
    return lm_link_intact((const lm_block_t *)(const void *)block);
}

const void *lm_run_behind(const void *end) {
    LM_ASSERT((uintptr_t)end % LM_SLICE_BYTES == 0);
    const lm_page_t *page = lm_page_of(end);
    size_t bytes, requested;
    if (page->kind == LM_KIND_NONE && lm_reuse_holds(end, &bytes, &requested)) return end;
    if (page->kind == LM_KIND_LARGE) return lm_block_object(page, end);
    if (page->kind != LM_KIND_PAGE || blame_is_raw(page) || lm_is_offset(page)) return NULL;
    const char *block = (const char *)end;
    const char *last = block + (size_t)lm_load_relaxed(&page->carved) * page->block_bytes;
    while (block < last && lm_word_broken(block + page->block_bytes)) block += page->block_bytes;
    return block < last && blame_in_use(block + page->block_bytes) ? block : NULL;
}

/* Fills in the candidates for an underflow of an object behind the row. hi: address of the row's
 * end. */
static void find_behind(const lm_page_t *page, const char *hi, lm_run_t *run) {
    size_t bytes = page->block_bytes;
    const char *made = lm_span_start(page) + (size_t)lm_load_relaxed(&page->carved) * bytes;
    if (lm_word_top_whole(hi, bytes)) return;
    if (hi < made) {
        if (!blame_in_use(hi + bytes)) return;
        run->under = lm_block_object(page, hi);
        run->behind = run->under == NULL;
    } else if (hi == span_end_of(page)) {
        run->under = lm_run_behind(hi);
        /* Or the object was freed since: a free does not look at all memory before its object. */
        run->behind = run->under == NULL;
    } else {
        run->behind = lm_word_broken(span_end_of(page));
    }
}

static bool end_broken(const lm_page_t *page) { return lm_word_broken(span_end_of(page)); }

/* Only the first slice of a large object is in the map, so the arena is searched for one. */
bool lm_run_span_before(const lm_page_t *span) {
    if (span->range != 0) return false;
    if (lm_span_page_before(span, end_broken)) return true;
    const lm_page_t *before = lm_span_holding(lm_span_start(span) - 1);
    return before != NULL && before != span && before->kind == LM_KIND_LARGE &&
           before->range == 0 && end_broken(before);
}

void lm_run_find(const lm_page_t *page, const void *end, bool locked, lm_run_t *run) {
    size_t bytes = page->block_bytes;
    const char *start = lm_span_start(page), *lo = (const char *)end, *hi = lo;
    const char *made = start + (size_t)lm_load_relaxed(&page->carved) * bytes;
    *run = (lm_run_t){.page = page};
    LM_ASSERT(bytes > 0 && lo > start && lo <= span_end_of(page));
    if (blame_is_raw(page)) {
        run->over = lm_block_object(page, lo - bytes);
        run->before = run->behind = true;
        return;
    }
    while (lo - bytes > start && lm_word_broken(lo - bytes)) lo -= bytes;
    while (hi < made && lm_word_broken(hi + bytes)) hi += bytes;
    bool from_before = !lm_word_low_whole(lo);
    run->first = lm_block_object(page, lo - bytes);
    run->next = hi < made ? lm_block_object(page, hi) : NULL;
    if (from_before && lo - bytes == start) run->before = locked || lm_run_span_before(page);
    if (from_before && !blame_is_free(page, lo - bytes))
        run->over = lm_block_object(page, lo - bytes);
    find_behind(page, hi, run);
}

bool lm_run_end_broken(const lm_page_t *page) {
    const char *end = span_end_of(page);
    return !blame_is_raw(page) && lm_word_broken(end) && !lm_word_top_whole(end, page->block_bytes);
}

/* Returns whether an object behind the page underflowed in any case. An overflow reaches the gap
 * behind the last block only over the end word of that block. */
bool lm_run_end_from_behind(const lm_page_t *page) {
    const char *end = span_end_of(page), *start = lm_span_start(page);
    size_t blocks = lm_load_relaxed(&page->carved), bytes = page->block_bytes;
    const char *made = start + blocks * bytes;
    if (made != end) return blocks < page->capacity || !lm_word_broken(made);
    lm_run_t run;
    lm_run_find(page, end, true, &run);
    return run.over == NULL && !run.before;
}

bool lm_run_over_edge(const lm_page_t *page, const void *block, lm_wrong_t how, bool locked) {
    const char *start = (const char *)block, *end = start + page->block_bytes;
    bool first = start == lm_span_start(page), own = !blame_is_raw(page) && lm_word_broken(end);
    lm_run_t run = {.page = page};
    if (blame_is_raw(page)) return false;
    if (own || (!first && lm_word_broken(start))) {
        lm_run_find(page, own ? end : start, locked, &run);
        if (!own) run.under = NULL; /* the damage ends in this block */
        if (!own) run.behind = false;
    } else {
        if (!first || locked || !lm_run_span_before(page)) return false;
        run.before = true;
    }
    (void)lm_run_report(&run, how, block);
    return true;
}

/* Takes no lock, unlike lm_run_span_before, and so considers only a page of blocks before the page:
 * all slices of such a page are in the map. */
lm_run_t lm_run_unseen(const lm_page_t *page, const lm_block_t *block) {
    const char *start = lm_span_start(page);
    lm_run_t run = {.page = page};
    if (blame_is_raw(page) || page->range != 0 || (const char *)block != start) return run;
    const lm_page_t *before = lm_page_of(start - 1);
    run.before = before->kind == LM_KIND_PAGE && before->range == 0 && !blame_is_raw(before) &&
                 before->carved == before->capacity && end_broken(before);
    return run;
}

#endif

/* ---- Reports ---- */

bool lm_run_report(const lm_run_t *run, lm_wrong_t how, const void *at) {
    LM_ASSERT(how == LM_WRONG_DAMAGE || how == LM_WRONG_INSIDE);
    LM_ASSERT(run->over == NULL || run->over != run->under);
    bool over = run->over != NULL || run->before, under = run->under != NULL || run->behind;
    lm_line_t who = {0};
    if (run->over != NULL)
        lm_line_add(&who, "overflow of %p%s", run->over,
                    run->before ? ", or of an object before it" : "");
    else if (over)
        lm_line_add(&who, "overflow of an object before %p", at);
    if (over && under) lm_line_add(&who, ", or ");
    if (run->under != NULL)
        lm_line_add(&who, "underflow of %p%s", run->under,
                    run->behind ? ", or of an object behind it" : "");
    else if (under)
        lm_line_add(&who, "underflow of an object at or behind %p", at);
    const char *what = over && under ? "the memory between them is overwritten"
                       : under       ? "the bytes before it are overwritten"
                       : over        ? "the end of its block is overwritten"
                                     : "memory beside them is overwritten";
    if (!over && !under && run->first != NULL) lm_line_add(&who, "overflow of %p, ", run->first);
    if (!over && !under && run->next != NULL) lm_line_add(&who, "underflow of %p, ", run->next);
    if (!over && !under) lm_line_add(&who, "or a stray write near %p", at);
    unsigned kinds = over && under ? LM_MISTAKE_OVERFLOW + LM_MISTAKE_OR(LM_MISTAKE_UNDERFLOW)
                     : over        ? LM_MISTAKE_OVERFLOW
                     : under       ? LM_MISTAKE_UNDERFLOW
                                   : LM_MISTAKE_OVERFLOW + LM_MISTAKE_OR(LM_MISTAKE_UNDERFLOW) +
                                   LM_MISTAKE_OR_ELSE(LM_MISTAKE_USE_AFTER_FREE);
    /* No object is known for a stray write: the object that is there now may be younger than the
     * write. */
    const void *known = over || under ? at : NULL;
    lm_sites_about(run->over != NULL ? run->over : run->under != NULL ? run->under : known);
    lm_wrong(how + kinds, "%s: %s (size class %zu B, ", who.text, what, lm_block_bytes(run->page));
    return false;
}

#endif

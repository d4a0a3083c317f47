/* checked.c: checks the pointers that a program passes, in all builds.
 *
 *   release   pointers that loam did not allocate
 *   secure    + pointers into a block, damaged free lists, and what secure.c finds
 *   debug     + pointers into a block, damaged free lists, and what fence.c finds
 *
 * In debug and secure builds the links of free lists are xored with a key of the process and of
 * their slice. An overwritten link leads out of the arena and is reported. An overwrite of a single
 * byte may lead anywhere; so in debug builds 16 bits of a checksum stand above the address and show
 * it as well. It cannot find a mistake at the moment it is made, but when a pointer is passed or a
 * link is read.
 */
#include "checks/blame.h"
#include "checks/inner.h"

bool (*lm_free_elsewhere)(void *p);

lm_page_t *lm_page_foreign(const void *p, const char *function) {
    bool frees = function[0] == 'f'; /* no other function name begins with 'f' */
    if (frees && lm_free_elsewhere != NULL && lm_free_elsewhere((void *)(uintptr_t)p)) return NULL;
    lm_wrong(LM_MISTAKE_FOREIGN, "%s of a pointer that loam did not allocate: %p (", function, p);
    return NULL;
}

lm_page_t *lm_inside_large(const lm_page_t *page, const void *p, const char *function) {
    const char *start = lm_span_start(page);
    const char *object = lm_block_object(page, start);
    if (object == NULL) object = start;
#if LOAM_DEBUG
    lm_sites_about(object);
#endif
    lm_wrong(LM_MISTAKE_MISALIGNED,
             "misaligned pointer %p passed to %s (large object of %zu B at %p, ", p, function,
             page->bytes - (size_t)(object - start), (const void *)object);
    return NULL;
}

#if LM_GUARD_LINKS

/* Returns whether p lies in no page, but in the arena or a range: loam owned that memory once. */
static bool was_ours(const void *p) {
    bool inside = lm_slice_of(p) < lm_load_acquire(&lm_arena.slices);
    return (inside || lm_range_around(p) != NULL) && lm_page_of(p)->kind == LM_KIND_NONE;
}

/* ---- Links ---- */

uintptr_t lm_secret;

void lm_secret_make(void) {
    /* Relaxed: all threads store an equal value, so a race between them is harmless. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_secret) == 0))
        lm_store_relaxed(&lm_secret, (uintptr_t)lm_os_random() | 1);
}

lm_block_t *lm_link_last(const lm_block_t *block, const lm_block_t *next) {
#if LOAM_DEBUG
    (void)next; /* loam did not write this value there */
#else
    if (LM_LIKELY(next == NULL)) return NULL;
    if ((uintptr_t)next % 16 == 0 && lm_range_around(next) != NULL)
        return (lm_block_t *)(uintptr_t)next;
#endif
    if (lm_run_over_edge(lm_page_of(block), block, LM_WRONG_INSIDE, true)) return NULL;
    lm_sites_about(block);
    if (!LOAM_DEBUG && lm_tools_peek(block) == 0) {
        lm_wrong(LM_WRONG_INSIDE + LM_MISTAKE_USE_AFTER_FREE + LM_MISTAKE_OR(LM_MISTAKE_OVERFLOW) +
                     LM_MISTAKE_OR_ELSE(LM_MISTAKE_UNDERFLOW),
                 "free list damaged at %p: zeros were written there (size class %u B, ",
                 (const void *)block, lm_page_of(block)->block_bytes);
        return NULL;
    }
    lm_run_t run = lm_run_unseen(lm_page_of(block), block);
    unsigned kinds = LM_MISTAKE_USE_AFTER_FREE;
    lm_line_t others = {0};
    if (run.before) {
        kinds += LM_MISTAKE_OR(LM_MISTAKE_OVERFLOW);
        lm_line_add(&others, ", or overflow of an object before %p", (const void *)block);
    }
    if (run.behind) {
        kinds += run.before ? LM_MISTAKE_OR_ELSE(LM_MISTAKE_UNDERFLOW)
                            : LM_MISTAKE_OR(LM_MISTAKE_UNDERFLOW);
        lm_line_add(&others, ", or underflow of an object behind %p", (const void *)block);
    }
    lm_wrong(LM_WRONG_INSIDE + kinds,
             "free list damaged at %p: written after free%s (size class %u B, ",
             (const void *)block, others.text, lm_page_of(block)->block_bytes);
    return NULL;
}

/* ---- Blocks ---- */

/* Returns whether no object begins at p. A span that is not a page counts as a large object, whose
 * kind another thread's free of p may change at any moment. */
static bool misaligned(const lm_page_t *page, const void *p) {
    size_t offset = (size_t)((const char *)p - lm_span_start(page));
    if (lm_is_offset(page)) return !lm_offset_is_object(page, p);
    if (page->kind != LM_KIND_PAGE) return offset != 0;
#if LM_SECURE
    return lm_block_index(page, (uint32_t)offset) >= page->carved;
#else
    return offset % page->block_bytes != 0 || offset / page->block_bytes >= page->carved;
#endif
}

static lm_page_t *misaligned_in(const lm_page_t *page, const void *p, const char *function) {
    if (lm_is_offset(page) && lm_offset_front_damaged(page, p)) return NULL;
#if LOAM_DEBUG
    char *first = lm_span_start(page);
    size_t index = (size_t)((const char *)p - first) / page->block_bytes;
    if (index < page->carved) {
        const char *block = first + index * page->block_bytes;
        const char *object = lm_block_object(page, block);
        if (object == NULL) object = block;
        lm_sites_about(object);
        lm_wrong(LM_MISTAKE_MISALIGNED,
                 "misaligned pointer %p passed to %s (size class %u B, block at %p, ", p, function,
                 page->block_bytes, (const void *)object);
        return NULL;
    }
#endif
    lm_wrong(LM_MISTAKE_MISALIGNED, "misaligned pointer %p passed to %s (size class %zu B, ", p,
             function, lm_block_bytes(page));
    return NULL;
}

/* Does not call strcmp, because a preloaded tool may have wrapped it by a function that
 * allocates. */
static bool checked_is_free(const char *function) {
    static const char name[] = "free";
    for (size_t i = 0; i < sizeof name; i++) {
        if (function[i] != name[i]) return false;
    }
    return true;
}

/* Reports p, which points into no existing object, but to where an object may have been. Returns
 * NULL. */
static lm_page_t *checked_gone(const void *p, const char *function) {
    bool freed = checked_is_free(function);
    const char *what = freed ? "double free" : function, *after = freed ? "" : " after free";
    lm_sites_about(p);
#if LOAM_DEBUG
    size_t bytes, requested;
    if (lm_reuse_holds(p, &bytes, &requested)) {
        lm_wrong(LM_MISTAKE_DOUBLE_FREE, "%s%s of %p (size class %zu B, %zu requested, ", what,
                 after, p, bytes, requested);
        return NULL;
    }
#endif
    lm_wrong(LM_MISTAKE_DOUBLE_FREE,
             "%s%s of %p (a large object or a whole page, if there ever was one, ", what, after, p);
    return NULL;
}

lm_page_t *lm_double_free(const lm_page_t *page, const void *p, const char *function) {
    const char *what = checked_is_free(function) ? "double free" : function;
    const char *state = checked_is_free(function) ? "" : " after free";
#if LOAM_DEBUG
    lm_line_t sizes = {0};
    lm_wrong(LM_MISTAKE_DOUBLE_FREE, "%s%s of %p (%s", what, state, p,
             lm_size_text(&sizes, page, lm_requested(page, p)));
#else
    lm_wrong(LM_MISTAKE_DOUBLE_FREE, "%s%s of %p (size class %zu B, ", what, state, p,
             lm_block_bytes(page));
#endif
    return NULL;
}

lm_page_t *lm_page_checked(const void *p, const char *function) {
    lm_page_t *page = lm_page_of(p);
    if (page->kind == LM_KIND_SAMPLED) return lm_sampled_checked(page, p, function);
#if LM_SECURE
    bool inside;
    lm_page_t *zero = lm_zero_checked(p, function, &inside);
    if (inside) return zero;
#endif
    if (page->kind != LM_KIND_PAGE && page->kind != LM_KIND_LARGE) {
        lm_page_t *around = lm_span_holding(p);
        if (around != NULL && around->kind == LM_KIND_LARGE)
            return lm_inside_large(around, p, function);
        return was_ours(p) ? checked_gone(p, function) : lm_page_foreign(p, function);
    }
    if (misaligned(page, p))
        return page->kind != LM_KIND_PAGE ? lm_inside_large(page, p, function)
                                          : misaligned_in(page, p, function);
    return lm_intact(page, p, function) ? page : NULL;
}

#endif

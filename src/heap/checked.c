/* checked.c: what finds a program's mistakes, in all builds that look for them.
 *
 *   release   pointers that loam did not allocate
 *   secure    + pointers into a block, damaged free lists, and what secure.c finds
 *   debug     + the same, and what fence.c finds
 *
 * In debug and secure builds links of free lists are xored with a key of the process and their own address: an
 * overwritten one leads nowhere and is reported.
 */
#include "heap/room.h"

#include <string.h>

lm_page_t *lm_page_foreign(const void *p, const char *function) {
    lm_misuse("%s of a pointer that loam did not allocate: %p (", function, p);
    return NULL;
}

lm_page_t *lm_inside_large(const lm_page_t *page, const void *p, const char *function) {
    lm_misuse("misaligned pointer %p passed to %s (large object of %zu B at %p, ", p, function,
              page->bytes, (void *)lm_span_start(page));
    return NULL;
}

#if LM_GUARD_LINKS

/* In the arena, but in no page: it was ours once. */
static bool was_ours(const void *p) {
    return lm_slice_of(p) < lm_load_acquire(&lm_arena.slices) &&
           lm_page_of(p)->kind == LM_KIND_NONE;
}

/* ---- Links ---- */

/* Every thread computes the same: no race that matters. Not in the function: debuggers do not find it there once that
 * is inlined (tools/gdb/loam.py). */
static uintptr_t key_of_links;

static uintptr_t link_key(void) {
    uintptr_t value = lm_load_relaxed(&key_of_links);
    if (LM_UNLIKELY(value == 0)) {
        value = lm_os_random() | 1;
        lm_store_relaxed(&key_of_links, value);
    }
    return value;
}

void lm_link_set(lm_block_t *block, lm_block_t *next) {
    block->next = (lm_block_t *)((uintptr_t)next ^ (uintptr_t)block ^ link_key());
}

lm_block_t *lm_link_decoded(const lm_block_t *block) {
    return (lm_block_t *)((uintptr_t)block->next ^ (uintptr_t)block ^ link_key());
}

lm_block_t *lm_link_get(const lm_block_t *block) {
    lm_block_t *next = lm_link_decoded(block);
    const lm_page_t *page = lm_page_of(block);
    /* Not always the same page, nor class: see lm_foreign_t. */
    if (LM_LIKELY(next == NULL || (uintptr_t)next % 16 == 0)) {
        const lm_page_t *other = next == NULL ? page : lm_page_of(next);
        if (LM_LIKELY(other == page || other->kind == LM_KIND_PAGE)) return next;
    }
    lm_wrong(LM_WRONG_INSIDE, "free list damaged at %p: written after free (size class %u B, ",
             (const void *)block, page->block_bytes);
    return NULL;
}

/* ---- Blocks ---- */

static bool misaligned(const lm_page_t *page, const void *p) {
    size_t offset = (size_t)((const char *)p - lm_span_start(page));
    if (lm_is_offset(page)) return !lm_offset_is_object(page, p);
    if (page->kind == LM_KIND_LARGE) return offset != 0;
    return offset % page->block_bytes != 0 || offset / page->block_bytes >= page->carved;
}

lm_page_t *lm_double_free(const lm_page_t *page, const void *p, const char *function) {
    const char *what = strcmp(function, "free") == 0 ? "double free" : function;
    const char *state = strcmp(function, "free") == 0 ? "" : " after free";
    lm_misuse("%s%s of %p (size class %zu B, ", what, state, p, lm_block_bytes(page));
    return NULL;
}

lm_page_t *lm_page_checked(const void *p, const char *function) {
    lm_page_t *page = lm_page_of(p);
    if (page->kind != LM_KIND_PAGE && page->kind != LM_KIND_LARGE) {
        lm_page_t *around = lm_span_holding(p);
        if (around != NULL && around->kind == LM_KIND_LARGE)
            return lm_inside_large(around, p, function);
        if (!was_ours(p)) return lm_page_foreign(p, function);
        bool freed = strcmp(function, "free") == 0;
        lm_misuse("%s%s of %p (a large object or a whole page, ", freed ? "double free" : function,
                  freed ? "" : " after free", p);
        return NULL;
    }
    if (page->kind == LM_KIND_LARGE && misaligned(page, p))
        return lm_inside_large(page, p, function);
    if (misaligned(page, p)) {
        lm_misuse("misaligned pointer %p passed to %s (size class %zu B, ", p, function,
                  lm_block_bytes(page));
        return NULL;
    }
    return lm_intact(page, p, function) ? page : NULL;
}

#endif

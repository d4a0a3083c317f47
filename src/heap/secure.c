/* secure.c: what the secure build finds beside what all checked builds find: double frees by the owner. */
#include "heap/room.h"

#if LOAM_SECURE && !LOAM_DEBUG

/* Only what the owner freed and has not reused can be found, and only by looking: done when the first
 * word looks like a link of this page, which data rarely does. */
bool lm_intact(const lm_page_t *page, const void *p, const char *function) {
    const lm_block_t *block = (const lm_block_t *)p;
    if (page->kind == LM_KIND_LARGE || lm_load_relaxed(&page->owner) != lm_thread_token())
        return true;
    const lm_block_t *next = lm_link_decoded(block);
    if (next != NULL && lm_page_of(next) != page) return true;
    uint32_t left = page->carved;
    for (const lm_block_t *b = page->free; b != NULL && left-- > 0; b = lm_link_decoded(b)) {
        if (b == block) return lm_double_free(page, p, function) != NULL;
        if (lm_page_of(b) != page) break;
    }
    return true;
}

void *lm_mark_new(void *p, size_t bytes) { return lm_mark(p, bytes); }

void *lm_malloc(size_t bytes) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    void *p = lm_block_alloc(bytes + LM_TRAILER);
    return p != NULL ? lm_mark_new(p, bytes) : NULL;
}

void *lm_malloc_small(size_t bytes) {
    if (bytes <= LM_SMALL_MOST) return lm_malloc(bytes);
    lm_wrong(LM_WRONG_CALL, "%zu B asked for as a small object, which has %u B at most (", bytes,
             (unsigned)LM_SMALL_MOST);
    return lm_no_memory();
}

void lm_free(void *p) {
    if (p == NULL) return;
    if (lm_page_checked(p, "free") != NULL) lm_block_free(p);
}

#endif

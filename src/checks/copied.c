/* copied.c: judges copies that the inline path (checks.h) could not show to fit into their object.
 *
 *   lm_copy_fits ──> page of blocks, canary intact, n small enough ──> fits
 *                └─> lm_copy_looks: large object ─── its end is found in the map
 *                                   sampled, at an offset, damaged ─── lm_interior_usable
 *                                   last word is zero ─── the block is free
 *
 * libloam-secure.so calls it; the library has memcpy and its kin (override/copies.c). It cannot
 * judge blocks that loam itself holds (`raw` pages), memory outside of the arena, or a short copy
 * that begins many slices behind the start of a large object. It takes no lock. Invariant: a copy
 * that a correct program makes always fits.
 */
#include "checks/inner.h"

#if LM_SECURE

enum {
    COPIED_BACK = 4, /* slices before p that are searched for the start of a large object */
    COPIED_BYTES_A_STEP = 1024 /* bytes of the copy for which one more slice is searched */
};

uint64_t lm_index_factor[LM_CLASSES];

static size_t steps(size_t n) { return COPIED_BACK + n / COPIED_BYTES_A_STEP; }

/* Returns whether p lies in a free block. Acquire: the block's last word is read after `raw`. */
static bool in_free_block(const lm_page_t *page, const void *p) {
    if (lm_peek(&page->kind) != LM_KIND_PAGE || lm_is_offset(page)) return false;
    if (lm_load_acquire(&page->raw)) return false;
    size_t bytes = lm_peek(&page->block_bytes),
           at = (size_t)((const char *)p - lm_span_start(page));
    if (bytes == 0 || at / bytes >= lm_peek(&page->carved)) return false;
    return *lm_last_word(lm_span_start(page) + at / bytes * bytes, bytes) == 0;
}

/* Returns whether the user chose to pass over that mistake: then the copy is made, and the free of
 * the object reports the damage. Relaxed: the setting stands alone. */
static bool passed_over(lm_wrong_t mistake) {
    LM_ASSERT(mistake >> LM_MISTAKE_SHIFT < LM_MISTAKES);
    return (lm_load_relaxed(&lm_misuse_policy.tolerated) >> (mistake >> LM_MISTAKE_SHIFT) & 1) != 0;
}

bool lm_copy_looks(const void *p, size_t n) {
    if (n == 0 || lm_slice_of(p) >= lm_peek(&lm_arena.slices)) return true;
    const lm_page_t *page = lm_page_of(p);
    if (lm_peek(&page->kind) == LM_KIND_PAGE && lm_load_acquire(&page->raw)) return true;
    if (in_free_block(page, p)) return passed_over(LM_MISTAKE_USE_AFTER_FREE);
    const char *object;
    return lm_interior_usable(p, steps(n), &object) >= n || passed_over(LM_MISTAKE_OVERFLOW);
}

size_t lm_copy_room(const void *p, bool far) {
    if (lm_slice_of(p) >= lm_peek(&lm_arena.slices)) return SIZE_MAX;
    const lm_page_t *page = lm_page_of(p);
    if (lm_peek(&page->kind) == LM_KIND_PAGE && lm_load_acquire(&page->raw)) return SIZE_MAX;
    if (in_free_block(page, p)) return 0;
    const char *object;
    return lm_interior_usable(p, far ? SIZE_MAX : COPIED_BACK, &object);
}

void lm_copy_report(const char *function, const char *way, const void *p, size_t n) {
    const char *object = (const char *)p;
    if (in_free_block(lm_page_of(p), p))
        lm_wrong(LM_MISTAKE_COPY, "%s of %zu B %s %p, which was freed (", function, n, way, p);
    else
        lm_copy_misuse(object, function, n, way, p, lm_interior_usable(p, steps(n), &object));
}

#endif

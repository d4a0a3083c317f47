/* resize.c: what builds on malloc and free: realloc, calloc, aligned allocation, sizes.
 *
 * Aligned objects are ordinary blocks of a class whose size is a multiple of the alignment (pages start
 * at multiples of 64 KiB), or spans: nothing is allocated beyond what the class gives, and free needs no
 * second look. calloc does not clear memory that has never been used.
 */
#include "heap/room.h"

#include <errno.h>
#include <string.h>

size_t lm_usable_size(const void *p) {
    const lm_page_t *page = lm_page_checked(p, "malloc_usable_size");
    return page != NULL ? lm_requested(page, p) : 0;
}

#if LOAM_METER
size_t lm_meter_bytes(const void *p) {
    size_t slice = lm_slice_of(p);
    if (slice >= lm_peek(&lm_arena.slices)) return 0;
    const lm_page_t *page = lm_peek(&lm_arena.map[slice]);
    bool block = page->kind == LM_KIND_PAGE;
    bool large = page->kind == LM_KIND_LARGE && p == lm_span_start(page);
    return block || large ? lm_block_bytes(page) - LM_TRAILER : 0;
}
#endif

size_t lm_good_size(size_t bytes) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return bytes;
    bytes += LM_TRAILER;
    if (bytes <= LM_BLOCK_MOST)
        return lm_class_bytes(lm_class_of(bytes == 0 ? 1 : bytes)) - LM_TRAILER;
    return lm_align_up(bytes, 4096) - LM_TRAILER;
}

void *lm_calloc(size_t bytes) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_no_memory();
    size_t whole = bytes + LM_TRAILER;
    if (whole > LM_BLOCK_MOST) {
        bool zero = false;
        void *p = lm_large_alloc(whole, 1, &zero);
        if (p == NULL) return NULL;
        return lm_mark(zero ? p : memset(p, 0, bytes), bytes);
    }
    void *p = lm_block_alloc(whole);
    if (p == NULL) return NULL;
    /* Never used: only the link of the free list has been written. Only the owner can know: the common
     * heap's pages may have moved on. */
    const lm_page_t *page = lm_page_of(p);
    bool virgin = lm_peek(&page->owner) == lm_thread_token() && page->virgin;
    return lm_mark(memset(p, 0, virgin ? sizeof(lm_block_t) : bytes), bytes);
}

void *lm_malloc_aligned(size_t bytes, size_t align) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER || align > LM_REQUEST_MOST - bytes)
        return lm_no_memory();
    size_t whole = bytes + LM_TRAILER;
    unsigned size_class = align <= LM_BLOCK_MOST ? lm_class_aligned(whole, align) : 0;
    void *p = size_class != 0 ? lm_block_alloc(lm_class_bytes(size_class))
                              : lm_large_alloc(whole, align, NULL);
    return p != NULL ? lm_mark(p, bytes) : NULL;
}

/* Blocks stay while at least half of them is used: a move would cost more than it saves. */
static bool worth_staying(size_t have, size_t bytes) { return bytes <= have && bytes >= have / 2; }

/* What to ask for in place of `bytes`. A block that grows by little is being appended to, and will grow
 * again: an eighth more than it has, so that the copies add up to a multiple of the last size, not to its
 * square. Who grows by more than that has room of its own, and gets what it asks for. */
static size_t with_room(size_t have, size_t bytes) {
    size_t roomy = have + have / 8;
    return bytes > have && bytes < roomy && roomy <= LM_BLOCK_MOST - LM_TRAILER ? roomy : bytes;
}

static LM_NOINLINE void *resize(lm_page_t *page, void *p, size_t bytes) {
    size_t have = lm_requested(page, p), whole = bytes + LM_TRAILER;
    if (page->kind == LM_KIND_LARGE && whole > LM_BLOCK_MOST) {
        void *there = lm_large_resize(page, p, whole);
        if (there != NULL) return lm_mark(there, bytes);
    }
    bool fits = whole <= lm_block_bytes(page);
    int error = fits ? errno : 0;
    void *other = lm_malloc(with_room(have, bytes));
    if (other == NULL && fits) {
        errno = error;
        return lm_mark(p, bytes); /* it was to shrink: too large will do */
    }
    if (other == NULL) return NULL;
    memcpy(other, p, have < bytes ? have : bytes);
    lm_free(p);
    return lm_mark(other, bytes);
}

void *lm_realloc(void *p, size_t bytes) {
    lm_page_t *page = lm_page_checked(p, "realloc");
    if (page == NULL || bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_no_memory();
    if (page->kind == LM_KIND_PAGE && worth_staying(page->block_bytes, bytes + LM_TRAILER))
        return lm_mark(p, bytes);
    return resize(page, p, bytes);
}

/* resize.h: large objects (large.c, clear.c), and what realloc and calloc decide (resize.c).
 *
 *   realloc ──> stays? ──> the span grows in place? ──> its pages move? ──> a new object and a copy
 *
 * For the heap's files and its wings, by core.h.
 */
#ifndef LM_HEAP_RESIZE_H
#define LM_HEAP_RESIZE_H

#include "heap/hooks.h"

/* ---- large.c ---- */

/* Allocates an object with a span of its own, from the first-class heap that the thread's malloc
 * uses, if any. *zero (may be NULL) is set to whether it reads as zero. Returns NULL with errno
 * ENOMEM iff there is no memory. */
void *lm_large_alloc(size_t bytes, size_t align, bool *zero);
/* Allocates an object that belongs to no heap, in memory for the first-class heap `fheap` (NULL:
 * in any memory). */
void *lm_large_open(struct loam_heap *fheap, size_t bytes, size_t align, bool *zero);
void lm_large_free(lm_page_t *page, void *p);
/* Frees the object without a look at the heap that it belongs to. */
void lm_large_discard(lm_page_t *page);

/* Makes the object's span one of so many usable bytes, in place. Returns false, and changes
 * nothing, iff it cannot. fresh (may be NULL): for a caller that clears what an object grows by;
 * *fresh becomes the offset from which on the object reads as zero, where there is one. */
bool lm_large_fit(lm_page_t *page, size_t bytes, size_t *fresh);
#if LM_TOOLS
/* lm_large_fit for the object p, in builds for tools, where lm_large_fit itself does nothing. The
 * caller must call lm_trailer_write afterwards. */
bool lm_large_expand(lm_page_t *page, const void *p, size_t bytes);
#endif
/* lm_large_fit, or else moves the object's pages. Returns the object; NULL iff neither works: then
 * the caller must copy. */
void *lm_large_resize_fresh(lm_page_t *page, void *p, size_t bytes, size_t *fresh);
LM_INLINE void *lm_large_resize(lm_page_t *page, void *p, size_t bytes) {
    return lm_large_resize_fresh(page, p, bytes, NULL);
}

/* Returns what a large object needs in place of so many bytes, of which LM_TRAILER are for the
 * trailer of a block. */
LM_INLINE size_t lm_large_need(size_t bytes) { return bytes - (LM_TRAILER - LM_TRAILER_LARGE); }

/* ---- clear.c ---- */

/* Makes [p, p + bytes) zero, which may be a part of a large object, and returns p. Memory of which
 * little is resident goes back to the system instead of being written to. */
void *lm_clear_large(void *p, size_t bytes);

/* ---- refill.c: requests that fail ---- */

/* Sets errno to ENOMEM and returns NULL. */
void *lm_no_memory(void);
/* As lm_no_memory, for a request that no memory could serve; verbose builds report it. */
void *lm_too_large(size_t bytes);
void *lm_too_large_at(size_t bytes, size_t align);

/* ---- resize.c ---- */

/* Returns the usable size of any object; 0, after a report, iff p is not loam's. */
LM_INLINE size_t lm_usable_size_of_any(const void *p) {
    const lm_page_t *page = lm_page_checked(p, "malloc_usable_size");
    return page != NULL ? lm_requested(page, p) : 0;
}

/* Returns how many bytes of a block for a request of `bytes` are cleared: these; or, if `all`, all
 * usable bytes. */
LM_INLINE size_t lm_to_clear(const lm_page_t *page, const void *p, size_t bytes, bool all) {
    size_t trailer = page->kind == LM_KIND_LARGE ? LM_TRAILER_LARGE : LM_TRAILER;
    return trailer > 0 || !all ? bytes : lm_block_usable(page, p);
}

/* Returns whether realloc leaves a block of `have` bytes where it is: at least half of it is used,
 * and at most LM_SPARE_MOST bytes or an eighth are not used. A move of a small block would cost
 * more than it saves (decision 0032). */
enum { LM_SPARE_MOST = 512 };
LM_INLINE bool lm_worth_staying(size_t have, size_t bytes) {
    return bytes <= have && bytes >= have / 2 &&
           (have - bytes <= LM_SPARE_MOST || have - bytes <= have / 8);
}

/* Returns the bytes to request in place of `bytes`. A block that grows by little is being appended
 * to, and will grow again: it gets an eighth more than it has, so that the copies add up to a
 * multiple of the last size, not to its square. A program that grows blocks by more than that has
 * spare bytes of its own, and gets what it requests. */
LM_INLINE size_t lm_with_spare(size_t have, size_t bytes) {
    size_t roomy = have + have / 8;
    return bytes > have && bytes < roomy && roomy <= LM_BLOCK_MOST - LM_TRAILER ? roomy : bytes;
}

#endif

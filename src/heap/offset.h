/* offset.h: objects whose address plus an offset is aligned, for the files of the heap;
 * offset.c has the drawing.
 *
 *   free   claim ──> is it intact? ──> end     of two threads that free at once, one gets the claim
 */
#ifndef LM_HEAP_OFFSET_H
#define LM_HEAP_OFFSET_H

#include "heap/heap.h"

/* Whether these are objects at an offset: a pointer to one is not where its block begins. */
LM_INLINE bool lm_is_offset(const lm_page_t *page) {
    return lm_peek(&page->owner) == LM_OWNER_OFFSET;
}

/* For these: where p's block begins, and whether p is what was given for it. */
char *lm_offset_start(const lm_page_t *page, const void *p);
bool lm_offset_is_object(const lm_page_t *page, const void *p);
/* What was given for p's block; NULL iff it is free, or was never used. */
const char *lm_offset_object(const lm_page_t *page, const void *p);
/* The object of a block, or of a large object's span, that begins there, in any page; NULL iff it
 * is at an offset that is not known. */
LM_INLINE const char *lm_block_object(const lm_page_t *page, const char *block) {
    return lm_is_offset(page) ? lm_offset_object(page, block) : block;
}
#if LM_GUARD_LINKS
/* false, after a report, iff the bytes before the object p were overwritten. */
bool lm_offset_before_intact(const lm_page_t *page, const void *p);
/* p is not what was given for its block: true, after a report, iff p is in use and what says where
 * it lies was overwritten. */
bool lm_offset_front_damaged(const lm_page_t *page, const void *p);
#endif
#if LOAM_DEBUG
/* Where the last object of a free block was; NULL: there was none. */
const void *lm_offset_freed(const lm_page_t *page, const void *block);
#endif
/* Takes the large object p out of the map. */
void lm_offset_unmap(lm_page_t *page, const void *p);

/* As lm_malloc_aligned, for an offset that is no multiple of align; not marked yet. *zero: see
 * lm_large_alloc. */
void *lm_offset_alloc(size_t bytes, size_t align, size_t offset, bool *zero);
/* Reports p if it is no object, or freed. */
void lm_offset_free(lm_page_t *page, void *p);
/* lm_offset_free in two steps. The first returns false after a report. If it returns true, only the
 * caller may free p, which keeps the page: of several threads that free p at the same moment, one
 * gets true. Then the second must follow, or lm_offset_unclaim. */
bool lm_offset_claim(lm_page_t *page, const void *p);
void lm_offset_end(lm_page_t *page, void *p);
#if LM_SECURE
void lm_offset_unclaim(lm_page_t *page, const void *p);
#endif

lm_lock_t *lm_offset_fork_lock(void);
lm_heap_t *lm_offset_heap(void); /* its lists of pages, under that lock */

#endif

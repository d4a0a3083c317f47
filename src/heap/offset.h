/* offset.h: objects whose address plus an offset is aligned, for the heap's files and its wings.
 *
 *   free   claim ──> is it intact? ──> end     of two threads that free at once, one gets the claim
 *
 * offset.c has the layout of a block, its invariant and its cost.
 */
#ifndef LM_HEAP_OFFSET_H
#define LM_HEAP_OFFSET_H

#include "heap/theap.h"

/* Bytes that a block keeps before the object, at least: a link and the object's distance. */
enum { LM_OFFSET_FRONT = 16 };
/* What lm_offset_given returns if the distance was overwritten. */
#define LM_OFFSET_OVERWRITTEN (~(UINT64_MAX >> 1) - 1)

/* Returns whether the page holds objects at an offset: a pointer to one is not where its block
 * begins. */
LM_INLINE bool lm_is_offset(const lm_page_t *page) {
    return lm_peek(&page->owner) == LM_OWNER_OFFSET;
}

/* For such a page: returns where p's block begins. */
char *lm_offset_start(const lm_page_t *page, const void *p);
/* Returns whether p is the pointer that malloc returned for its block. */
bool lm_offset_is_object(const lm_page_t *page, const void *p);
/* Returns the pointer that malloc returned for p's block; NULL iff the block is free, or was never
 * used. */
const char *lm_offset_object(const lm_page_t *page, const void *p);
/* Returns the distance of the object of p's block from the block's start, with the highest bit set
 * if it was freed; 0 if the block was never used; LM_OFFSET_OVERWRITTEN. */
uint64_t lm_offset_given(const lm_page_t *page, const void *p);
/* Returns whether p lies in a block that was carved. Behind the carved blocks may be a guard. */
bool lm_offset_in_carved(const lm_page_t *page, const void *p);
#if LOAM_DEBUG
/* Returns where the last object of a free block was; NULL iff there was none. */
const void *lm_offset_freed(const lm_page_t *page, const void *block);
#endif

/* Returns the object of the block, or of the large object's span, that begins there, in any page;
 * NULL iff the object is at an offset that is not known. */
LM_INLINE const char *lm_block_object(const lm_page_t *page, const char *block) {
    return lm_is_offset(page) ? lm_offset_object(page, block) : block;
}

/* Returns the bytes of a block, as the page knows them. */
LM_INLINE size_t lm_block_bytes(const lm_page_t *page) {
    return page->kind == LM_KIND_PAGE ? page->block_bytes : page->bytes;
}

/* Returns the bytes of a block from the object p on. */
LM_INLINE size_t lm_block_usable(const lm_page_t *page, const void *p) {
    size_t bytes = lm_block_bytes(page);
    if (LM_LIKELY(!lm_is_offset(page))) return bytes;
    return bytes - (size_t)((const char *)p - lm_offset_start(page, p));
}

/* As lm_malloc_aligned, for an offset that is no multiple of align. The trailer is not written yet.
 * *zero: see lm_large_alloc. */
void *lm_offset_alloc(size_t bytes, size_t align, size_t offset, bool *zero);
/* Frees p, or reports p if it is no object, or freed. */
void lm_offset_free(lm_page_t *page, void *p);
/* lm_offset_free in two steps. The first returns false after a report. If it returns true, only the
 * caller may free p, which keeps the page: of several threads that free p at the same moment, one
 * gets true. Then the second must follow, or lm_offset_unclaim. */
bool lm_offset_claim(lm_page_t *page, const void *p);
void lm_offset_end(lm_page_t *page, void *p);
#if LM_SECURE
void lm_offset_unclaim(lm_page_t *page, const void *p);
#endif
/* Takes the large object p out of the map. */
void lm_offset_unmap(lm_page_t *page, const void *p);

lm_lock_t *lm_offset_fork_lock(void);
/* Returns the heap whose lists of pages hold these pages. Its lock is lm_offset_fork_lock. */
lm_theap_t *lm_offset_heap(void);

#endif

/* count.h: what malloc and free have done, counted where they do not run: on the slow paths.
 *
 *   page ── list of n blocks ──> head[class] ── malloc pops ──> the program
 *              counted here                      not here
 *
 * Each list is counted when it leaves its page and becomes ready to hand out. The page's counts
 * give the list's length: page->carved has the blocks that were carved, and page->reused_total the
 * blocks that are handed out again. The owner writes both. Blocks of other threads' pages that are
 * handed out (remote.c, transfer.c) are counted for the process, by class. A list that is put back
 * is subtracted. The blocks that the calling thread's heaps still have ready are counted by a walk,
 * and subtracted, when the program asks. So
 *
 *   blocks ever allocated = handed out - ready
 *   blocks in use         = not on their pages' free lists - on other threads' lists - ready
 *   blocks ever freed     = ever allocated - in use
 *
 * These numbers are exact while other threads rest. Blocks that other running threads have ready
 * count as allocated and as in use, and so not as freed.
 *
 * Peaks are upper bounds. The peak of a class is the largest number of blocks that its pages held
 * at a time, noted when one of the pages goes and when the program asks. Pages come only when no
 * block is free. So the peak exceeds the largest number of blocks in use by at most the rest of one
 * page for each thread. For a class whose pages never went, it is the number of carved blocks,
 * which is at most 4 KiB more.
 *
 * A block is counted in the class of its page. For a block that serves a request of a smaller
 * class, this is not the request's class.
 */
#ifndef LM_HEAP_COUNT_H
#define LM_HEAP_COUNT_H

#include "heap/heap.h"

/* Counts n blocks of the page, which the heap owns, that become ready to be handed out again. For a
 * caller that may change head[]. Relaxed: only statistics read the count. */
LM_INLINE void lm_count_again(lm_page_t *page, size_t n) { lm_owner_add(&page->reused_total, n); }
/* Counts n such ready blocks that are put back. */
LM_INLINE void lm_count_back(lm_page_t *page, size_t n) {
    /* The analyzer does not know that a heap with blocks in head[] has a current page. */
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
    lm_owner_add(&page->reused_total, (size_t)0 - n);
}

/* Counts n blocks of pages that the heap does not own, which become ready. Relaxed: only statistics
 * read the count. */
LM_INLINE void lm_count_others(unsigned size_class, size_t n) {
    (void)lm_add_relaxed(&lm_span_counts.of_class[size_class].handed, n);
}
/* Counts n ready blocks of pages that the heap does not own, which are put back. Relaxed: only
 * statistics read the count. */
LM_INLINE void lm_count_others_back(unsigned size_class, size_t n) {
    (void)lm_add_relaxed(&lm_span_counts.of_class[size_class].handed, (uint64_t)0 - n);
}

/* Counts a new page. Relaxed: only statistics read the counts. */
LM_INLINE void lm_count_page(const lm_page_t *page) {
    (void)lm_add_relaxed(&lm_span_counts.of_class[page->size_class].room, page->capacity);
    (void)lm_add_relaxed(&lm_span_counts.pages, 1);
}

#endif

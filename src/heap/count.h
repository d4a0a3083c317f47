/* count.h: what malloc and free have done, counted where they do not run: on the slow paths.
 *
 *   page ── list of n blocks ──> head[class] ── malloc pops ──> the program
 *              counted here                      not here
 *
 * Every list that becomes ready to hand out is counted when it leaves its page, whose counts tell
 * its length: blocks carved are in page->carved, and those that come again in page->again, both the
 * owner's. Blocks of other threads' pages that are handed out (remote.c, transfer.c) are the
 * process's, by class. Lists that are put back are taken off. What the calling thread's heaps still
 * have ready is walked, and taken off, when somebody asks. So
 *
 *   blocks ever allocated = handed out - ready        in use = outside of pages - in lists of others' - ready
 *   blocks ever freed = allocated - in use
 *
 * exactly, once threads rest; what other running threads have ready counts in both of the first,
 * and so not as freed.
 *
 * Peaks are bounds. A class's is the most blocks that its pages held at a time, looked at when one
 * of them goes and when somebody asks: pages come only when no block is free, so that is what was
 * in use at the peak, and at most the rest of a page for each thread more. A class whose pages
 * never went tells what was carved: at most 4 KiB more.
 *
 * Blocks are counted by the class of their page, which for those in holes of larger classes is not
 * the request's.
 */
#ifndef LM_HEAP_COUNT_H
#define LM_HEAP_COUNT_H

#include "heap/heap.h"

/* n blocks of the page, which the heap owns, become ready to be handed out once more. For a caller
 * that may change head[]. Relaxed: statistics read it. */
LM_INLINE void lm_count_again(lm_page_t *page, size_t n) { lm_owner_add(&page->again, n); }
/* They are put back. */
LM_INLINE void lm_count_back(lm_page_t *page, size_t n) {
    /* The analyzer does not know that a heap with blocks in head[] has a current page. */
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
    lm_owner_add(&page->again, (size_t)0 - n);
}

/* n blocks of pages that the heap does not own become ready; are put back. */
LM_INLINE void lm_count_others(unsigned size_class, size_t n) {
    (void)lm_add_relaxed(&lm_span_counts.of_class[size_class].handed, n);
}
LM_INLINE void lm_count_others_back(unsigned size_class, size_t n) {
    (void)lm_add_relaxed(&lm_span_counts.of_class[size_class].handed, (uint64_t)0 - n);
}

/* Counts a new page. */
LM_INLINE void lm_count_page(const lm_page_t *page) {
    (void)lm_add_relaxed(&lm_span_counts.of_class[page->size_class].room, page->capacity);
    (void)lm_add_relaxed(&lm_span_counts.pages, 1);
}

#endif

/* thread_bytes.h: where slow paths say what a thread has allocated and freed, if it wants to know
 * (thread_bytes.c).
 *
 * Included by files of the heap. Invariant: as long as no thread of the process wants to know, each
 * of these is one load and one branch that is not taken, on a slow path.
 */
#ifndef LM_HEAP_THREAD_BYTES_H
#define LM_HEAP_THREAD_BYTES_H

#include "heap/heap.h"

/* Whether some thread has ever asked. Atomic. */
extern LM_HIDDEN bool lm_bytes_wanted;

/* Whether the thread whose heap, or branch, that is counts. NULL: no thread's. Relaxed: a thread
 * that counts has set it itself. */
LM_INLINE bool lm_bytes_counted(const lm_heap_t *heap) {
    if (LM_LIKELY(!lm_load_relaxed(&lm_bytes_wanted)) || heap == NULL) return false;
    const lm_heap_t *own = lm_load_relaxed(&heap->main);
    return own != NULL && lm_load_relaxed(&own->bytes_on);
}

void lm_bytes_add_to(lm_heap_t *heap, size_t allocated, size_t freed);
void lm_bytes_add_page(lm_heap_t *heap, const lm_page_t *page, bool leaves);
void lm_bytes_add_list(lm_heap_t *heap, const lm_block_t *list, bool allocated, bool less);
void lm_bytes_add_branch(lm_heap_t *branch, bool leaves);
void lm_bytes_add_mine(size_t allocated, size_t freed);

/* The thread has allocated and freed so many bytes more; less: subtracted from 0. */
LM_INLINE void lm_bytes_add(lm_heap_t *heap, size_t allocated, size_t freed) {
    if (LM_UNLIKELY(lm_bytes_counted(heap))) lm_bytes_add_to(heap, allocated, freed);
}

/* The same for the calling thread. */
LM_INLINE void lm_bytes_mine(size_t allocated, size_t freed) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_bytes_wanted))) lm_bytes_add_mine(allocated, freed);
}

/* A page leaves the heap, or comes to it; what its counts say is the thread's no more, or not the
 * thread's. */
LM_INLINE void lm_bytes_page(lm_heap_t *heap, const lm_page_t *page, bool leaves) {
    if (LM_UNLIKELY(lm_bytes_counted(heap))) lm_bytes_add_page(heap, page, leaves);
}

/* A list that belongs to no page of the heap becomes ready for malloc; less: it does no more. */
LM_INLINE void lm_bytes_ready(lm_heap_t *heap, const lm_block_t *list, bool less) {
    if (LM_UNLIKELY(lm_bytes_counted(heap))) lm_bytes_add_list(heap, list, true, less);
}

/* A list of blocks that the thread has freed leaves its keeping. */
LM_INLINE void lm_bytes_freed(lm_heap_t *heap, const lm_block_t *list) {
    if (LM_UNLIKELY(lm_bytes_counted(heap))) lm_bytes_add_list(heap, list, false, false);
}

/* A branch of the thread's with all its pages comes, or goes with its heap. Heap lock held. */
LM_INLINE void lm_bytes_branch(lm_heap_t *branch, bool leaves) {
    if (LM_UNLIKELY(lm_bytes_counted(branch))) lm_bytes_add_branch(branch, leaves);
}

#endif

/* fheap_forms.c: zeroed and aligned objects of first-class heaps, the heap that the thread has
 * chosen, and the heap of an object. resize.c resizes objects of these heaps, as all objects. It
 * cannot name the heap of an object in a page without an owner.
 */
#include "fheap/fheap.h"

#include <string.h>

void *lm_fheap_zalloc_aligned(struct loam_heap *fheap, size_t bytes, size_t align) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER || align > LM_REQUEST_MOST - bytes)
        return lm_too_large_at(bytes, align);
    size_t need = bytes + LM_TRAILER;
    bool small = align <= LM_BLOCK_MOST && lm_class_aligned(need, align) != 0, zero = false;
    void *p = small ? lm_fheap_malloc_aligned(fheap, bytes, align)
                    : lm_fheap_large_alloc(fheap, lm_large_need(need), align, &zero);
    if (p == NULL) return NULL;
    if (!zero) memset(p, 0, lm_to_clear(lm_page_of(p), p, bytes, true));
    return lm_trailer_write(p, bytes);
}

struct loam_heap *lm_fheap_chosen(void) {
    /* Relaxed: if this thread has chosen a heap, it has set the flag itself. */
    return lm_load_relaxed(&lm_heaps_chosen) ? lm_heap_chosen() : NULL;
}

void *lm_block_alloc_lasting(size_t bytes, size_t align) {
    struct loam_heap *chosen = lm_fheap_chosen();
    bool done;
    if (LM_UNLIKELY(chosen != NULL)) (void)lm_fheap_choose(NULL, &done);
    void *p = align <= 16 ? lm_block_alloc(bytes) : lm_block_alloc_aligned(bytes, align);
    /* The branch exists, so this needs no memory. */
    if (LM_UNLIKELY(chosen != NULL)) {
        (void)lm_fheap_choose(chosen, &done);
        LM_ASSERT(done);
    }
#if LM_GUARD_LINKS
    /* Release: the flag comes before any write to the block's last word, which near.c would
     * otherwise take for a canary, and fence.c for an end word. */
    if (p != NULL) __atomic_store_n(&lm_page_of(p)->raw, true, __ATOMIC_RELEASE);
#endif
    return p;
}

struct loam_heap *lm_fheap_of(const void *p) {
    const lm_page_t *span = lm_page_of(p);
    /* p may lie in the middle of a large object. */
    if (span->kind == LM_KIND_NONE) span = lm_span_holding(p);
    if (span == NULL) return NULL;
    if (span->kind == LM_KIND_LARGE) return lm_load_relaxed(&span->fheap);
    /* Relaxed: the answer is right if no other thread changes the page meanwhile. The heap of an
     * orphan is the last that it had, which may be part of another heap by now. */
    if (span->kind != LM_KIND_PAGE || (lm_load_relaxed(&span->remote) & LM_REMOTE_ORPHAN) != 0)
        return NULL;
    const lm_theap_t *heap = lm_load_relaxed(&span->heap);
    return heap != NULL ? lm_load_relaxed(&heap->fheap.fheap) : NULL;
}

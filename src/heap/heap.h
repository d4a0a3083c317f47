/* heap.h: malloc and free as a thread runs them; the one header of this folder for other layers.
 *
 *   malloc   heap->head[class] ── pop ──> block            13 instructions to 1 KiB, 17 above
 *               │ empty
 *               └──> the current page's own list, then the slow path (refill.c)
 *   free     map[slice] -> page, page->owner == this thread ── push on page->free, count down
 *               │ another owner, or large        │ reached 0
 *               └──> remote.c, large.c           └──> the page is empty, or no longer full (page.c)
 *
 * A heap belongs to one thread. Only its owner runs the two fast paths, without a lock or an atomic
 * read-modify-write. Everything else about a heap's pages happens under the heap's lock. The lock
 * is biased to the owner; the worker may take it as well, to collect what other threads freed while
 * the owner sleeps.
 *
 * First-class heaps, checks, sampling and surveys are wings: folders beside this one, each with one
 * header. What the core calls in them is in hooks.h. Invariants: theap.h.
 */
#ifndef LM_HEAP_H
#define LM_HEAP_H

#include "heap/links.h"

/* Returns true if the block that the calling thread's heap allocated last, from that page, is zero
 * except for its link. A page that has lent blocks to a smaller size class is no longer fresh. */
LM_INLINE bool lm_page_never_used(const lm_theap_t *heap, const lm_page_t *page) {
    return heap->current[page->size_class] == page &&
           heap->holds[page->size_class] == LM_HOLDS_ZERO && page->fresh;
}

/* ---- The two fast paths, on blocks ---- */

/* The rest of lm_block_alloc, where the list of the class is empty in the heap: the thread's heap,
 * or the empty one. Requests above LM_BLOCK_MOST bytes have no class, and need no heap. */
void *lm_block_take(size_t bytes, size_t size_class, lm_theap_t *heap);
/* The rest of lm_block_free where the calling thread does not own the page. */
void lm_block_free_slow(void *p, lm_page_t *page);
/* Frees a pointer outside the arena: of a range, or NULL. Reports any other. */
void lm_free_foreign(void *p);
/* The owner freed a block of the page, and its count reached 0: the page is empty, or no longer
 * full. */
void lm_page_event(lm_page_t *page);

/* Called first for a freed pointer that is not loam's: returns whether its owner has freed it. May
 * be NULL. Set before main (override/owner.c). */
extern bool (*lm_free_elsewhere)(void *p);

/* Takes the first block of the heap's list. Returns NULL iff the list is empty. */
LM_INLINE lm_block_t *lm_block_pop_of(lm_theap_t *heap, size_t size_class) {
    LM_ASSERT(size_class < LM_CLASSES);
    lm_block_t *block = heap->head[size_class];
    LM_IN_RETURN_REGISTER(block);
    if (LM_LIKELY(block != NULL)) heap->head[size_class] = lm_link_get(block);
    return block;
}

/* lm_block_pop_of, and prefetches the next block: its link is the first thing that the next malloc
 * needs, and is often in no cache. */
LM_INLINE lm_block_t *lm_block_pop(lm_theap_t *heap, size_t size_class) {
    lm_block_t *block = lm_block_pop_of(heap, size_class);
    if (LM_LIKELY(block != NULL)) LM_PREFETCH(heap->head[size_class]);
    return block;
}

/* Allocates at least `bytes` bytes, aligned to 16. Returns NULL with errno ENOMEM iff there is no
 * memory. */
LM_INLINE void *lm_block_alloc(size_t bytes) {
    size_t size_class = 0;
    lm_theap_t *heap = NULL;
    if (LM_LIKELY(bytes <= LM_SMALL_MOST)) {
        size_class = (bytes + 15) >> 4; /* lm_class_small would cut it to an unsigned */
        heap = lm_heap_self;
        lm_block_t *block = lm_block_pop(heap, size_class);
        if (LM_LIKELY(block != NULL)) return lm_taken(block);
    } else if (LM_LIKELY(bytes <= LM_BLOCK_MOST)) {
        size_class = lm_class_medium(bytes);
        heap = lm_heap_self;
        lm_block_t *block = lm_block_pop(heap, size_class);
        LM_KEEP_APART("medium");
        if (LM_LIKELY(block != NULL)) return lm_taken(block);
    }
    return lm_taken(lm_block_take(bytes, size_class, heap));
}

/* Allocates `bytes` bytes, at most LM_SMALL_MOST; the size is not checked. Does not prefetch the
 * next block, which saves an instruction. */
LM_INLINE void *lm_block_alloc_small(size_t bytes) {
    size_t size_class = (bytes + 15) >> 4;
    lm_theap_t *heap = lm_heap_self;
    lm_block_t *block = lm_block_pop_of(heap, size_class);
    return LM_LIKELY(block != NULL) ? block : lm_block_take(bytes, size_class, heap);
}

/* Frees a block whose page is known. */
LM_INLINE void lm_block_free_on(void *p, lm_page_t *page) {
    /* The word equals our token iff we wrote it. */
    if (LM_UNLIKELY(lm_peek(&page->owner) != lm_thread_token())) {
        lm_block_free_slow(p, page);
        return;
    }
    LM_ASSERT(page->kind == LM_KIND_PAGE);
    lm_block_t *block = (lm_block_t *)p;
    lm_link_set(block, page->free);
    /* Release, which is free on x86-64: a fork at this point finds a list that hangs together. */
    lm_store_release(&page->free, block);
    if (LM_UNLIKELY(lm_count_down(&page->live))) lm_page_event(page);
}

/* Frees a block from lm_block_alloc, or NULL. */
LM_INLINE void lm_block_free(void *p) {
    lm_given(p);
    size_t slice = lm_slice_of(p);
    if (LM_UNLIKELY(slice >= lm_peek(&lm_arena.slices))) {
        lm_free_foreign(p);
        return;
    }
    lm_block_free_on(p, lm_peek(&lm_arena.map[slice]));
}

/* Allocates at a multiple of align, a power of two. */
void *lm_malloc_aligned(size_t bytes, size_t align);

/* Allocates and frees blocks of loam's own, without the checks of checked builds, at a multiple of
 * align, a power of two. A block may be given back whatever was written there. */
#if LM_GUARD_LINKS
void *lm_block_alloc_aligned(size_t bytes, size_t align);
#else
LM_INLINE void *lm_block_alloc_aligned(size_t bytes, size_t align) {
    return lm_malloc_aligned(bytes, align);
}
LM_INLINE void lm_block_give_back(void *p) { lm_block_free(p); }
#endif

/* ---- What the API stands on ---- */

/* Returns the bytes of p's block that the program may use; 0, after a report, iff p is not
 * loam's. */
size_t lm_usable_size(const void *p);

#if LOAM_METER
/* lm_usable_size for the meter: without the exact number of a debug build, and without a report.
 * Returns 0 iff p is no block. */
size_t lm_meter_bytes(const void *p);
#endif

/* The functions below that allocate return NULL with errno ENOMEM iff there is no memory. */

/* Allocates `bytes` zeroed bytes. */
void *lm_calloc(size_t bytes);
/* Allocates bytes that are zeroed up to the usable size: what lm_recalloc takes. */
void *lm_zalloc(size_t bytes);
/* lm_zalloc for at most LM_SMALL_MOST bytes; as lm_malloc_small. */
void *lm_zalloc_small(size_t bytes);

/* Allocates an object p with (p + offset) % align == 0. lm_free and all functions below take it as
 * any other object. */
void *lm_malloc_aligned_offset(size_t bytes, size_t align, size_t offset);
/* lm_malloc_aligned_offset, zeroed as by lm_zalloc. */
void *lm_zalloc_aligned_offset(size_t bytes, size_t align, size_t offset);

/* Moves p's contents to an object of at least `bytes` bytes and frees p, unless p can stay. Returns
 * NULL also, after a report, iff p is not loam's. p stays valid if NULL is returned. Neither p nor
 * bytes may be 0. */
void *lm_realloc(void *p, size_t bytes);
/* lm_realloc with (result + offset) % align == 0. */
void *lm_realloc_aligned_offset(void *p, size_t bytes, size_t align, size_t offset);
/* lm_realloc_aligned_offset for p from a function that zeroes: bytes beyond p's old size are zero
 * as well. */
void *lm_recalloc(void *p, size_t bytes, size_t align, size_t offset);

/* As lm_realloc, of any object; if the object moves, it moves into that first-class heap. Return
 * NULL as lm_fheap_malloc does. A release build does not look at the heap of an object that
 * stays. */
void *lm_fheap_realloc(struct loam_heap *fheap, void *p, size_t bytes);
void *lm_fheap_realloc_aligned(struct loam_heap *fheap, void *p, size_t bytes, size_t align);
void *lm_fheap_recalloc(struct loam_heap *fheap, void *p, size_t bytes, size_t align);

/* Resizes p in place. Returns false, and changes nothing, iff that is not possible (errno ENOMEM)
 * or p is not loam's. */
bool lm_expand(void *p, size_t bytes);

/* Returns the usable size that malloc(bytes) would return, at least. */
size_t lm_good_size(size_t bytes);

/* Collects and calls the program's handler, after memory was taken that may have crossed the soft
 * limit. No lock held. */
void lm_limit_answer(void);
LM_INLINE void lm_limit_answer_if_crossed(void) {
    /* Relaxed: from the next allocation on will do. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_limit_crossed))) lm_limit_answer();
}

/* Gives back what the calling thread holds ready, and what ended threads have left. Does not touch
 * other threads. */
void lm_heap_collect(void);

/* Starts what must be ready before threads and forks. The library's constructor calls it. */
void lm_heap_boot(void);

/* Returns whether the calling thread holds a lock of the heap: it runs a signal handler that has
 * interrupted loam, and would wait for such a lock without end. */
bool lm_heap_is_inside(void);

/* Makes malloc usable in the calling thread before its thread-local storage is initialised, while
 * all of it is zero. Writes one word, and calls nothing. */
void lm_heap_before_start(void);

/* malloc and free themselves: in the release build the two paths above. hooks.h declares what
 * debug and secure builds have in their place. */
#if !LM_GUARD_LINKS
LM_INLINE void *lm_malloc(size_t bytes) { return lm_block_alloc(bytes); }
LM_INLINE void *lm_malloc_small(size_t bytes) { return lm_block_alloc_small(bytes); }
LM_INLINE void lm_free(void *p) { lm_block_free(p); }
LM_INLINE void lm_free_sized(void *p, size_t size) {
    (void)size;
    lm_free(p);
}
LM_INLINE void lm_free_aligned(void *p, size_t align) {
    (void)align;
    lm_free(p);
}
LM_INLINE void lm_free_aligned_sized(void *p, size_t align, size_t size) {
    (void)align, (void)size;
    lm_free(p);
}
#endif

#endif

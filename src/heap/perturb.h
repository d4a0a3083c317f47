/* perturb.h: fills what malloc hands out and what free takes back, as glibc's M_PERTURB does
 * (perturb.c).
 *
 * Included by the files of the heap in which a slow path asks whether to fill. Invariant: no fast
 * path asks.
 */
#ifndef LM_HEAP_PERTURB_H
#define LM_HEAP_PERTURB_H

#include "heap/heap.h"

#include <string.h>

enum {
    LM_PERTURB_VALUE = 0xff,    /* mask of the value that freed bytes get */
    LM_PERTURB_ON = 0x100,      /* memory is filled */
    LM_PERTURB_WAS_ON = 0x200,  /* it is, or was: heaps may have another token */
    LM_TOKEN_PERTURB = 8,       /* added to the token of a heap whose frees all come to perturb.c */
    LM_PERTURB_LARGE = 32 << 20 /* bytes of the largest object that is filled when it is freed */
};

/* Atomic: the above. 0: nothing was ever to be filled. */
extern LM_HIDDEN uint32_t lm_perturb;

/* Relaxed: a word by itself, which counts from the next slow path on. */
LM_INLINE bool lm_perturbs(void) {
    return LM_UNLIKELY((lm_load_relaxed(&lm_perturb) & LM_PERTURB_ON) != 0);
}
LM_INLINE int lm_perturb_freed(void) {
    return (int)(lm_load_relaxed(&lm_perturb) & LM_PERTURB_VALUE);
}

/* Fills bytes of a new object, or those by which one has grown, where that is wanted. */
LM_INLINE void lm_perturb_new(void *p, size_t bytes) {
    if (lm_perturbs()) memset(p, lm_perturb_freed() ^ 0xff, bytes);
}

/* Returns whether malloc's and free's slow paths come to perturb.c. */
LM_INLINE bool lm_perturb_matters(void) {
    return LM_UNLIKELY(lm_load_relaxed(&lm_perturb) != 0); /* relaxed: as above */
}

/* malloc's slow path: one block for a request of `bytes`, filled in the release build; the heap's
 * list of the class is empty afterwards. NULL with errno ENOMEM iff there is no memory. */
void *lm_perturb_alloc(size_t bytes, unsigned size_class);

/* free's slow path: fills the object. Returns true iff it has freed it as well. */
bool lm_perturb_free(void *p, lm_page_t *page);

#if LOAM_DEBUG
/* Returns whether free memory may be filled with that byte. */
bool lm_perturb_filled(unsigned char byte);
#endif

/* Returns the thread's token, of which lm_thread_token knows, for one of a heap. */
LM_INLINE uintptr_t lm_heap_plain_token(const lm_heap_t *heap) {
    return lm_load_relaxed(&heap->token) & ~(uintptr_t)LM_TOKEN_PERTURB; /* relaxed: as for token */
}

#endif

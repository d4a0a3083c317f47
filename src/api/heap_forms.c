/* heap_forms.c: the other functions of loam/heap.h. Each is the function of loam/malloc.h, for a
 * given heap. heap.c has the plain functions, and creates heaps.
 */
#define LM_API_ITSELF
#define _GNU_SOURCE 1 /* realpath */
#include "api/api.h"
#include "api/metered.h"
#include "loam/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- New objects ---- */

void *loam_heap_mallocarray(loam_heap *heap, size_t count, size_t size) {
    size_t bytes;
    return lm_mul(count, size, &bytes) ? loam_heap_malloc(heap, bytes)
                                       : lm_array_refused(count, size);
}

/* Returns whether the size is a mistake that lm_malloc_small reports. */
static bool too_large_for_small(size_t size) { return LM_GUARD_LINKS && size > LM_SMALL_MOST; }

void *loam_heap_malloc_small(loam_heap *heap, size_t size) {
    return too_large_for_small(size) ? lm_malloc_small(size) : loam_heap_malloc(heap, size);
}

void *loam_heap_zalloc_small(loam_heap *heap, size_t size) {
    return too_large_for_small(size) ? lm_malloc_small(size) : loam_heap_zalloc(heap, size);
}

void *loam_heap_zalloc_aligned(loam_heap *heap, size_t size, size_t align) {
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    ALLOCATE(size, lm_fheap_zalloc_aligned(heap, size, align));
}

void *loam_heap_calloc_aligned(loam_heap *heap, size_t count, size_t size, size_t align) {
    size_t bytes;
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    return lm_mul(count, size, &bytes) ? loam_heap_zalloc_aligned(heap, bytes, align)
                                       : lm_array_refused(count, size);
}

/* ---- Other sizes ---- */

static void *heap_forms_freed(void *p) {
    lm_free(p);
    return NULL;
}

void *loam_heap_reallocarray(loam_heap *heap, void *p, size_t count, size_t size) {
    size_t bytes;
    return lm_mul(count, size, &bytes) ? loam_heap_realloc(heap, p, bytes)
                                       : lm_array_refused(count, size);
}

void *loam_heap_reallocf(loam_heap *heap, void *p, size_t size) {
    if (size == 0) return loam_heap_realloc(heap, p, 0);
    void *there = loam_heap_realloc(heap, p, size);
    if (there != NULL) return there;
    loam_free(p);
    return NULL;
}

static void *heap_forms_resize(loam_heap *heap, void *p, size_t size, size_t align) {
    LM_ASSERT(lm_is_pow2(align));
    if (p == NULL) return lm_fheap_malloc_aligned(heap, size, align);
    return size != 0 ? lm_fheap_realloc_aligned(heap, p, size, align) : heap_forms_freed(p);
}

void *loam_heap_realloc_aligned(loam_heap *heap, void *p, size_t size, size_t align) {
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    REALLOCATE(p, size, heap_forms_resize(heap, p, size, align));
}

static void *heap_forms_resize_zeroed(loam_heap *heap, void *p, size_t size, size_t align) {
    LM_ASSERT(lm_is_pow2(align));
    if (p == NULL) return lm_fheap_zalloc_aligned(heap, size, align);
    return size != 0 ? lm_fheap_recalloc(heap, p, size, align) : heap_forms_freed(p);
}

void *loam_heap_rezalloc(loam_heap *heap, void *p, size_t size) {
    REALLOCATE(p, size, heap_forms_resize_zeroed(heap, p, size, 1));
}

void *loam_heap_recalloc(loam_heap *heap, void *p, size_t count, size_t size) {
    size_t bytes;
    return lm_mul(count, size, &bytes) ? loam_heap_rezalloc(heap, p, bytes)
                                       : lm_array_refused(count, size);
}

void *loam_heap_rezalloc_aligned(loam_heap *heap, void *p, size_t size, size_t align) {
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    REALLOCATE(p, size, heap_forms_resize_zeroed(heap, p, size, align));
}

void *loam_heap_recalloc_aligned(loam_heap *heap, void *p, size_t count, size_t size,
                                 size_t align) {
    size_t bytes;
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    return lm_mul(count, size, &bytes) ? loam_heap_rezalloc_aligned(heap, p, bytes, align)
                                       : lm_array_refused(count, size);
}

/* ---- Copies ---- */

void *loam_heap_memdup(loam_heap *heap, const void *from, size_t bytes) {
    void *copy = loam_heap_malloc(heap, bytes);
    return copy != NULL ? memcpy(copy, from, bytes) : NULL;
}

char *loam_heap_realpath(loam_heap *heap, const char *path, char *resolved) {
    if (resolved != NULL) return realpath(path, resolved);
    char *theirs = realpath(path, NULL); /* it may be longer than any buffer here */
    if (theirs == NULL) return NULL;
    char *ours = loam_heap_strdup(heap, theirs);
    int error = errno;
    free(theirs);
    errno = error;
    return ours;
}

/* ---- Ownership ---- */

loam_heap *loam_heap_get_default(void) { return lm_fheap_chosen(); }

loam_heap *loam_heap_of(const void *p) { return lm_fheap_of(p); }

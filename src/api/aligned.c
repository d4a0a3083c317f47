/* aligned.c: the aligned functions of loam/malloc.h. Each function with a plain alignment is the
 * function with an offset, at offset 0. */
#define LM_API_ITSELF
#include "api/api.h"
#include "api/metered.h"

#include <errno.h>

/* ---- New objects ---- */

void *loam_malloc_aligned(size_t size, size_t align) {
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    ALLOCATE(size, lm_malloc_aligned(size, align));
}

void *loam_malloc_aligned_offset(size_t size, size_t align, size_t offset) {
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    ALLOCATE(size, lm_malloc_aligned_offset(size, align, offset));
}

void *loam_zalloc_aligned_offset(size_t size, size_t align, size_t offset) {
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    ALLOCATE(size, lm_zalloc_aligned_offset(size, align, offset));
}

void *loam_zalloc_aligned(size_t size, size_t align) {
    return loam_zalloc_aligned_offset(size, align, 0);
}

void *loam_calloc_aligned_offset(size_t count, size_t size, size_t align, size_t offset) {
    size_t bytes;
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    return lm_mul(count, size, &bytes) ? loam_zalloc_aligned_offset(bytes, align, offset)
                                       : lm_array_refused(count, size);
}

void *loam_calloc_aligned(size_t count, size_t size, size_t align) {
    return loam_calloc_aligned_offset(count, size, align, 0);
}

/* ---- Other sizes ---- */

static void *aligned_freed(void *p) {
    lm_free(p);
    return NULL;
}

static void *aligned_resize(void *p, size_t size, size_t align, size_t offset) {
    LM_ASSERT(lm_is_pow2(align));
    if (p == NULL) return lm_malloc_aligned_offset(size, align, offset);
    return size != 0 ? lm_realloc_aligned_offset(p, size, align, offset) : aligned_freed(p);
}

static void *aligned_resize_zeroed(void *p, size_t size, size_t align, size_t offset) {
    LM_ASSERT(lm_is_pow2(align));
    if (p == NULL) return lm_zalloc_aligned_offset(size, align, offset);
    return size != 0 ? lm_recalloc(p, size, align, offset) : aligned_freed(p);
}

void *loam_realloc_aligned_offset(void *p, size_t size, size_t align, size_t offset) {
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    REALLOCATE(p, size, aligned_resize(p, size, align, offset));
}

void *loam_realloc_aligned(void *p, size_t size, size_t align) {
    return loam_realloc_aligned_offset(p, size, align, 0);
}

void *loam_rezalloc_aligned_offset(void *p, size_t size, size_t align, size_t offset) {
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    REALLOCATE(p, size, aligned_resize_zeroed(p, size, align, offset));
}

void *loam_rezalloc_aligned(void *p, size_t size, size_t align) {
    return loam_rezalloc_aligned_offset(p, size, align, 0);
}

void *loam_recalloc_aligned_offset(void *p, size_t count, size_t size, size_t align,
                                   size_t offset) {
    size_t bytes;
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    return lm_mul(count, size, &bytes) ? loam_rezalloc_aligned_offset(p, bytes, align, offset)
                                       : lm_array_refused(count, size);
}

void *loam_recalloc_aligned(void *p, size_t count, size_t size, size_t align) {
    return loam_recalloc_aligned_offset(p, count, size, align, 0);
}

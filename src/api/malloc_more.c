/* malloc_more.c: the functions of loam/malloc_more.h, each made of functions of loam/malloc.h. */
#include "loam/malloc_more.h"
#include "api/api.h"

#include <errno.h>
#include <string.h>

/* Stores the usable size of an object in *usable, unless NULL, and returns the object. */
static void *noted(void *p, size_t *usable) {
    if (usable != NULL) *usable = loam_usable_size(p);
    return p;
}

void *loam_umalloc(size_t size, size_t *usable) { return noted(loam_malloc(size), usable); }

void *loam_uzalloc(size_t size, size_t *usable) { return noted(loam_zalloc(size), usable); }

void *loam_ucalloc(size_t count, size_t size, size_t *usable) {
    return noted(loam_calloc(count, size), usable);
}

void *loam_umalloc_aligned(size_t size, size_t align, size_t *usable) {
    return noted(loam_malloc_aligned(size, align), usable);
}

void *loam_uzalloc_aligned(size_t size, size_t align, size_t *usable) {
    return noted(loam_zalloc_aligned(size, align), usable);
}

void *loam_urealloc(void *p, size_t size, size_t *before, size_t *after) {
    size_t had = loam_usable_size(p);
    void *there = noted(loam_realloc(p, size), after);
    if (before != NULL) *before = had;
    return there;
}

void loam_ufree(void *p, size_t *usable) {
    (void)noted(p, usable);
    loam_free(p);
}

int loam_reallocarr(void *array, size_t count, size_t size) {
    /* Copied as bytes: *array may be a pointer of any type, which a void ** must not alias. */
    void *p, *there;
    size_t bytes;
    memcpy(&p, array, sizeof p);
    int error = errno, result = 0;
    if (!lm_mul(count, size, &bytes)) {
        (void)lm_array_refused(count, size);
        result = EOVERFLOW;
    } else if (bytes == 0) {
        loam_free(p);
        there = NULL;
        memcpy(array, &there, sizeof there);
    } else if ((there = loam_realloc(p, bytes)) != NULL) {
        memcpy(array, &there, sizeof there);
    } else {
        result = ENOMEM;
    }
    errno = error;
    return result;
}

/* Returns the span of objects that contains p, or NULL iff there is none. */
static const lm_page_t *span_of(const void *p) {
    const lm_page_t *span = lm_page_of(p);
    /* p may be in the middle of a large object. */
    if (span->kind == LM_KIND_NONE) span = lm_span_holding(p);
    if (span == NULL) return NULL;
    uint8_t kind = span->kind;
    return kind == LM_KIND_PAGE || kind == LM_KIND_LARGE || kind == LM_KIND_SAMPLED ? span : NULL;
}

bool loam_contains(const void *p) { return span_of(p) != NULL; }

unsigned loam_page_utilization(const void *p) {
    const lm_page_t *span = span_of(p);
    if (span == NULL) return 0;
    if (span->kind != LM_KIND_PAGE) return 100;
    /* Relaxed: numbers that other threads change. A full or orphaned page keeps a part of its live
     * blocks in `bias`. */
    size_t live = lm_load_relaxed(&span->live) + lm_load_relaxed(&span->bias), all = span->capacity;
    return live >= all ? 100 : (unsigned)((live * 100 + all - 1) / all);
}

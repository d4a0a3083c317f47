/* heap.c: the public functions of first-class heaps. loam/heap.h specifies them. */
#define LM_API_ITSELF
#include "loam/heap.h"
#include "api/api.h"
#include "api/metered.h"

#include <errno.h>
#include <string.h>

/* ---- Creating and deleting ---- */

loam_heap *loam_heap_create(void) { return lm_fheap_create(); }

void loam_heap_delete(loam_heap *heap) {
    if (heap != NULL) lm_fheap_delete(heap);
}

void loam_heap_destroy(loam_heap *heap) {
    if (heap != NULL) lm_fheap_destroy(heap);
}

int loam_heap_set_default(loam_heap *heap, loam_heap **before) {
    if (heap != NULL && !lm_fheap_alive(heap, "loam_heap_set_default")) return -EINVAL;
    bool done;
    loam_heap *was = lm_fheap_choose(heap, &done);
    if (!done) return -ENOMEM;
    if (before != NULL) *before = was;
    return 0;
}

/* ---- Objects ---- */

void *loam_heap_malloc(loam_heap *heap, size_t size) {
    ALLOCATE(size, lm_fheap_malloc(heap, size));
}

void *loam_heap_zalloc(loam_heap *heap, size_t size) {
    ALLOCATE(size, lm_fheap_calloc(heap, size));
}

void *loam_heap_calloc(loam_heap *heap, size_t count, size_t size) {
    size_t bytes;
    return lm_mul(count, size, &bytes) ? loam_heap_zalloc(heap, bytes)
                                       : lm_array_refused(count, size);
}

void *loam_heap_malloc_aligned(loam_heap *heap, size_t size, size_t align) {
    if (!lm_is_pow2(align)) return lm_failed(EINVAL);
    ALLOCATE(size, lm_fheap_malloc_aligned(heap, size, align));
}

LM_INLINE void *api_heap_resize(loam_heap *heap, void *p, size_t size) {
    if (p == NULL) return lm_fheap_malloc(heap, size);
    if (size != 0) return lm_fheap_realloc(heap, p, size);
    lm_free(p);
    return NULL;
}

void *loam_heap_realloc(loam_heap *heap, void *p, size_t size) {
    REALLOCATE(p, size, api_heap_resize(heap, p, size));
}

static char *api_heap_copy(loam_heap *heap, const char *from, size_t length) {
    char *there = (char *)loam_heap_malloc(heap, length + 1);
    if (there == NULL) return NULL;
    memcpy(there, from, length);
    there[length] = '\0';
    return there;
}

char *loam_heap_strdup(loam_heap *heap, const char *from) {
    return api_heap_copy(heap, from, strlen(from));
}

char *loam_heap_strndup(loam_heap *heap, const char *from, size_t most) {
    return api_heap_copy(heap, from, strnlen(from, most));
}

/* ---- Limits ---- */

int loam_heap_set_limits(loam_heap *heap, size_t soft, size_t hard, loam_heap_told *told,
                         void *context) {
    if (!lm_fheap_alive(heap, "loam_heap_set_limits")) return -EINVAL;
    return lm_fheap_limit(heap, soft, hard, told, context) ? 0 : -EINVAL;
}

void loam_heap_get_limits(const loam_heap *heap, loam_heap_limits *limits) {
    loam_heap_numbers numbers = {0};
    /* It sets the four numbers below. */
    if (lm_fheap_alive(heap, "loam_heap_get_limits")) lm_fheap_numbers(heap, &numbers);
    *limits = (loam_heap_limits){
        .soft = numbers.soft_limit,
        .hard = numbers.hard_limit,
        .committed_bytes = numbers.committed_bytes,
        .committed_bytes_most = numbers.committed_bytes_most,
    };
}

void loam_heap_collect(loam_heap *heap) {
    if (lm_fheap_alive(heap, "loam_heap_collect")) lm_fheap_collect(heap);
}

/* ---- Contents ---- */

/* Returns whether the heap exists. NULL is the thread's own heap. */
static bool there(const loam_heap *heap, const char *function) {
    return heap == NULL || lm_fheap_alive(heap, function);
}

bool loam_heap_contains(const loam_heap *heap, const void *p) {
    return there(heap, "loam_heap_contains") && lm_fheap_holds(heap, p);
}

bool loam_heap_owns(const loam_heap *heap, const void *p) {
    return there(heap, "loam_heap_owns") && lm_fheap_owns(heap, p);
}

bool loam_heap_visit(loam_heap *heap, loam_heap_area_visitor *area,
                     loam_heap_object_visitor *object, void *context) {
    return there(heap, "loam_heap_visit") && lm_fheap_visit(heap, area, object, context);
}

static bool api_heap_add_up(const loam_heap_area *area, void *context) {
    loam_heap_numbers *numbers = (loam_heap_numbers *)context;
    numbers->areas++;
    numbers->objects += area->objects;
    numbers->object_bytes += area->objects * area->object_bytes;
    return true;
}

void loam_heap_usage(loam_heap *heap, loam_heap_numbers *numbers) {
    *numbers = (loam_heap_numbers){0};
    if (!lm_fheap_alive(heap, "loam_heap_usage")) return;
    (void)lm_fheap_visit(heap, api_heap_add_up, NULL, numbers);
    lm_fheap_numbers(heap, numbers);
}

/* malloc.c: loam's own names for the heap; what each does is said in loam/malloc.h. */
#define LM_API_ITSELF
#include "api/api.h"
#include "loam/meter.h"

#include <errno.h>

/* Before main and before other constructors, which may start threads or fork. Here, so that whoever
 * links one of the functions below links this. glibc passes main's arguments to constructors; environ
 * may not be set yet. */
__attribute__((constructor(101))) static void boot(int argc, char **argv, char **environment) {
    (void)argc, (void)argv;
    lm_options_read(environment);
    lm_heap_boot();
}

/* What a library of a level above 0 counts of each call (loam/meter.h); otherwise the call itself. */
#if LOAM_METER
#define ALLOCATE(requested, call) \
    LOAM_METER_BEGIN; \
    void *object = call; \
    LOAM_METER_ALLOCATED(&loam_meter_heap, object, requested, lm_meter_bytes(object)); \
    return object
#define FREE(object) \
    size_t used = lm_meter_bytes(object); \
    LOAM_METER_BEGIN; \
    lm_free(object); \
    LOAM_METER_FREED(&loam_meter_heap, used)
#define REALLOCATE(object, requested, call) \
    size_t used_before = lm_meter_bytes(object); \
    LOAM_METER_BEGIN; \
    void *there = call; \
    LOAM_METER_REALLOCATED(&loam_meter_heap, there != NULL || (requested) == 0, requested, \
                           lm_meter_bytes(there), used_before); \
    return there
#else
#define ALLOCATE(requested, call) return call
#define FREE(object) lm_free(object)
#define REALLOCATE(object, requested, call) return call
#endif

void *loam_malloc(size_t size) { ALLOCATE(size, lm_malloc(size)); }

void loam_free(void *p) { FREE(p); }

/* The block knows its size class: the caller's word is not needed, and not trusted. */
void loam_free_sized(void *p, size_t size) {
    (void)size;
    FREE(p);
}

void loam_free_aligned_sized(void *p, size_t align, size_t size) {
    (void)align, (void)size;
    FREE(p);
}

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *loam_calloc(size_t count, size_t size) {
    size_t bytes;
    if (!lm_mul(count, size, &bytes)) return no_memory();
    ALLOCATE(bytes, lm_calloc(bytes));
}

LM_INLINE void *resize(void *p, size_t size) {
    if (p == NULL) return lm_malloc(size);
    if (size != 0) return lm_realloc(p, size);
    lm_free(p);
    return NULL;
}

void *loam_realloc(void *p, size_t size) { REALLOCATE(p, size, resize(p, size)); }

void *loam_reallocarray(void *p, size_t count, size_t size) {
    size_t bytes;
    return lm_mul(count, size, &bytes) ? loam_realloc(p, bytes) : no_memory();
}

void *loam_malloc_aligned(size_t size, size_t align) {
    if (!lm_is_pow2(align)) {
        errno = EINVAL;
        return NULL;
    }
    ALLOCATE(size, lm_malloc_aligned(size, align));
}

size_t loam_usable_size(const void *p) { return p != NULL ? lm_usable_size(p) : 0; }

size_t loam_good_size(size_t size) { return lm_good_size(size); }

size_t loam_collect(void) {
    lm_heap_collect();
    return lm_purge_all();
}

void loam_worker_allow(int allowed) { lm_purge_allow(allowed != 0); }

int loam_version(void) { return LOAM_VERSION; }

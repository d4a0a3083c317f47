/* malloc.c: loam's own names for the heap; what each does is said in loam/malloc.h. */
#include "api/api.h"

#include <errno.h>

/* Before main and before other constructors, which may start threads or fork. Here, so that whoever
 * links one of the functions below links this. glibc passes main's arguments to constructors; environ
 * may not be set yet. */
__attribute__((constructor(101))) static void boot(int argc, char **argv, char **environment) {
    (void)argc, (void)argv;
    lm_options_read(environment);
    lm_heap_boot();
}

void *loam_malloc(size_t size) { return lm_malloc(size); }

void loam_free(void *p) { lm_free(p); }

/* The block knows its size class: the caller's word is not needed, and not trusted. */
void loam_free_sized(void *p, size_t size) {
    (void)size;
    lm_free(p);
}

void loam_free_aligned_sized(void *p, size_t align, size_t size) {
    (void)align, (void)size;
    lm_free(p);
}

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *loam_calloc(size_t count, size_t size) {
    size_t bytes;
    return lm_mul(count, size, &bytes) ? lm_calloc(bytes) : no_memory();
}

void *loam_realloc(void *p, size_t size) {
    if (p == NULL) return lm_malloc(size);
    if (size != 0) return lm_realloc(p, size);
    lm_free(p);
    return NULL;
}

void *loam_reallocarray(void *p, size_t count, size_t size) {
    size_t bytes;
    return lm_mul(count, size, &bytes) ? loam_realloc(p, bytes) : no_memory();
}

void *loam_malloc_aligned(size_t size, size_t align) {
    if (lm_is_pow2(align)) return lm_malloc_aligned(size, align);
    errno = EINVAL;
    return NULL;
}

size_t loam_usable_size(const void *p) { return p != NULL ? lm_usable_size(p) : 0; }

size_t loam_good_size(size_t size) { return lm_good_size(size); }

size_t loam_collect(void) {
    lm_heap_collect();
    return lm_purge_all();
}

void loam_worker_allow(int allowed) { lm_purge_allow(allowed != 0); }

int loam_version(void) { return LOAM_VERSION; }

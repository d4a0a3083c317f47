/* malloc.c: loam's own names for the heap. loam/malloc.h specifies them; aligned.c has the aligned
 * functions. */
#define LM_API_ITSELF
#include "api/api.h"
#include "api/metered.h"
#include "loam/options.h"

#include <errno.h>

LM_STATIC_ASSERT((size_t)LOAM_SMALL_MOST == (size_t)LM_SMALL_MOST, "as documented");

const char lm_force_constructor = 1;

/* The program's string of options, if it has one. */
extern __attribute__((weak)) const char *loam_config;

const char *lm_program_options(void) { return lm_options_text(&loam_config); }

/* Runs before main and before other constructors, which may start threads or fork. It is in this
 * file so that a program that links one of the functions below links it. glibc passes main's
 * arguments to constructors; environ may not be set yet. */
__attribute__((constructor(101))) static void boot(int argc, char **argv, char **environment) {
    (void)argc, (void)argv;
    lm_stats_begin();
    lm_os_message_begin();
    lm_options_read(lm_program_options(), environment);
    lm_heap_boot();
    lm_options_reserve();
}

void *lm_array_refused(size_t count, size_t size) {
    lm_refused_array(count, size);
    return lm_failed(ENOMEM);
}

/* ---- Free ---- */

void loam_free(void *p) { FREE(p); }

/* The block knows its size class, so the caller's size is neither needed nor trusted. Debug and
 * secure builds compare it. */
void loam_free_sized(void *p, size_t size) { FREE_AS(p, lm_free_sized(p, size)); }

void loam_free_aligned_sized(void *p, size_t align, size_t size) {
    FREE_AS(p, lm_free_aligned_sized(p, align, size));
}

/* ---- New objects ---- */

void *loam_malloc(size_t size) { ALLOCATE(size, lm_malloc(size)); }

void *loam_malloc_small(size_t size) { ALLOCATE(size, lm_malloc_small(size)); }

void *loam_zalloc(size_t size) { ALLOCATE(size, lm_zalloc(size)); }

void *loam_zalloc_small(size_t size) { ALLOCATE(size, lm_zalloc_small(size)); }

void *loam_calloc(size_t count, size_t size) {
    size_t bytes;
    if (!lm_mul(count, size, &bytes)) return lm_array_refused(count, size);
    ALLOCATE(bytes, lm_zalloc(bytes));
}

/* As loam_calloc, for libc's name. Programs read what malloc_usable_size reports of an object from
 * calloc and expect zeros, as bionic's tests do. */
void *lm_libc_calloc(size_t count, size_t size) {
    size_t bytes;
    if (!lm_mul(count, size, &bytes)) return lm_array_refused(count, size);
    ALLOCATE(bytes, lm_zalloc(bytes));
}

void *loam_mallocarray(size_t count, size_t size) {
    size_t bytes;
    if (!lm_mul(count, size, &bytes)) return lm_array_refused(count, size);
    ALLOCATE(bytes, lm_malloc(bytes));
}

/* ---- Other sizes ---- */

static void *malloc_freed(void *p) {
    lm_free(p);
    return NULL;
}

LM_INLINE void *malloc_resize(void *p, size_t size) {
    if (p == NULL) return lm_malloc(size);
    return size != 0 ? lm_realloc(p, size) : malloc_freed(p);
}

void *loam_realloc(void *p, size_t size) { REALLOCATE(p, size, malloc_resize(p, size)); }

void *loam_reallocarray(void *p, size_t count, size_t size) {
    size_t bytes;
    return lm_mul(count, size, &bytes) ? loam_realloc(p, bytes) : lm_array_refused(count, size);
}

/* Calls loam_realloc out of line: if it is inlined, its attributes make gcc take it for a free,
 * whatever it returns. */
static LM_NOINLINE void *resized(void *p, size_t size) { return loam_realloc(p, size); }

void *loam_reallocf(void *p, size_t size) {
    void *there = resized(p, size);
    if (there == NULL && size != 0) loam_free(p);
    return there;
}

LM_INLINE void *malloc_resize_zeroed(void *p, size_t size) {
    if (p == NULL) return lm_zalloc(size);
    return size != 0 ? lm_recalloc(p, size, 1, 0) : malloc_freed(p);
}

void *loam_rezalloc(void *p, size_t size) { REALLOCATE(p, size, malloc_resize_zeroed(p, size)); }

void *loam_recalloc(void *p, size_t count, size_t size) {
    size_t bytes;
    return lm_mul(count, size, &bytes) ? loam_rezalloc(p, bytes) : lm_array_refused(count, size);
}

void *loam_expand(void *p, size_t size) {
    if (p == NULL) return lm_failed(ENOMEM);
    REALLOCATE(p, size, (lm_expand(p, size) ? p : NULL));
}

/* ---- Sizes, and the heap as a whole ---- */

size_t loam_usable_size(const void *p) { return p != NULL ? lm_usable_size(p) : 0; }

size_t loam_good_size(size_t size) { return lm_good_size(size); }

size_t loam_collect(void) {
    if (lm_load_relaxed(&lm_heartbeat_wanted) && lm_told_may()) (void)lm_deferred_free(true);
    lm_heap_collect();
    return lm_purge_all();
}

size_t loam_collect_bytes(size_t bytes) {
    size_t given = lm_purge_some(bytes);
    if (given >= bytes) return given;
    if (lm_load_relaxed(&lm_heartbeat_wanted) && lm_told_may()) (void)lm_deferred_free(true);
    lm_heap_collect();
    return given + lm_purge_some(bytes - given);
}

size_t loam_heaps_check(void) {
    bool all;
    size_t mistakes = lm_verify(&all);
    if (!all) errno = ENOMEM;
    return mistakes;
}

void loam_worker_allow(int allowed) { lm_purge_allow(allowed != 0); }

int loam_version(void) { return LOAM_VERSION; }

/* libc.c: replaces the C library's allocator: every name, with the meaning that glibc documents.
 *
 * It is in libloam.so for LD_PRELOAD, and in loam-override.o for static linking. Calls of malloc
 * inside libc come here, too, because libc calls it through the same symbols. It cannot serve
 * namespaces made by dlmopen, which have a libc of their own.
 */
#include "loam/libc.h"
#include "api/api.h"

#include <stdlib.h>

/* ---- malloc, free, and their close relatives ---- */

LM_EXPORT void *malloc(size_t size) { return lm_malloc(size); }
LM_EXPORT void free(void *p) { lm_free(p); }
LM_EXPORT void cfree(void *p);
LM_EXPORT void cfree(void *p) { lm_free(p); }
LM_EXPORT void free_sized(void *p, size_t size);
LM_EXPORT void free_sized(void *p, size_t size) { loam_free_sized(p, size); }
LM_EXPORT void free_aligned_sized(void *p, size_t align, size_t size);
LM_EXPORT void free_aligned_sized(void *p, size_t align, size_t size) {
    loam_free_aligned_sized(p, align, size);
}
LM_EXPORT void *calloc(size_t count, size_t size) { return lm_libc_calloc(count, size); }
LM_EXPORT void *realloc(void *p, size_t size) { return loam_realloc(p, size); }
LM_EXPORT void *reallocarray(void *p, size_t count, size_t size) {
    return loam_reallocarray(p, count, size);
}

/* ---- Aligned ---- */

LM_EXPORT void *memalign(size_t align, size_t size) { return loam_memalign(align, size); }
LM_EXPORT void *aligned_alloc(size_t align, size_t size) { return loam_aligned_alloc(align, size); }
LM_EXPORT int posix_memalign(void **result, size_t align, size_t size) {
    return loam_posix_memalign(result, align, size);
}
LM_EXPORT void *valloc(size_t size) { return loam_valloc(size); }
LM_EXPORT void *pvalloc(size_t size) { return loam_pvalloc(size); }

/* ---- Sizes and statistics ---- */

LM_EXPORT size_t malloc_usable_size(void *p) { return loam_usable_size(p); }

LM_EXPORT int malloc_trim(size_t pad) { return loam_malloc_trim(pad); }
LM_EXPORT int mallopt(int parameter, int value) { return loam_mallopt(parameter, value); }
LM_EXPORT struct mallinfo mallinfo(void) { return loam_mallinfo(); }
LM_EXPORT struct mallinfo2 mallinfo2(void) { return loam_mallinfo2(); }
LM_EXPORT void malloc_stats(void) { loam_malloc_stats(); }
LM_EXPORT int malloc_info(int options, FILE *stream) { return loam_malloc_info(options, stream); }

/* ---- Names by which some programs bypass malloc ---- */

/* In assembly, because the compiler wants an alias to repeat every attribute in libc's headers. */
#define ALSO(name, target) __asm__(".globl " #name "\n.set " #name ", " #target)

ALSO(__libc_malloc, malloc);
ALSO(__libc_free, free);
ALSO(__libc_cfree, free);
ALSO(__libc_calloc, calloc);
ALSO(__libc_realloc, realloc);
ALSO(__libc_reallocarray, reallocarray);
ALSO(__libc_memalign, memalign);
ALSO(__libc_valloc, valloc);
ALSO(__libc_pvalloc, pvalloc);
ALSO(__posix_memalign, posix_memalign);

/* loam/override.h: malloc and its kin mean loam's heap in each C source that includes this.
 *
 *     #include <loam/override.h>           first of all, in every source; or: cc -include loam/override.h
 *
 * Choose it where all sources of a program are under one's control, and linking or preloading the library in malloc's
 * place is not possible. It cannot reach code that is compiled without it: memory that the C library or others
 * allocate for the caller (getline, asprintf, open_memstream, scandir, getcwd(NULL, 0), ...) must not go to free
 * here, nor what is allocated here to code that frees it: loam reports such a free, where it is the one to see it. C
 * only: in C++ the macros would rename members of classes; there is loam/new_delete.hpp.
 *
 *     malloc(n) ─> loam_malloc(n)       &free ─> &loam_free       names are replaced, called or not
 *
 * Each name keeps the meaning and the order of arguments that the C library documents. A struct's member that is
 * called free or malloc is renamed as well, in all sources alike: so include it first. Threads, errors and cost are
 * those of loam/malloc.h. Invariant: no name of the list below is left to the C library, checked by
 * tests/api/override.c.
 */
#ifndef LOAM_OVERRIDE_H
#define LOAM_OVERRIDE_H

#ifdef __cplusplus
#error "loam/override.h is for C: C++ has loam/new_delete.hpp"
#endif

/* Before the names change. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loam/malloc.h"

/* ---- Those whose arguments or errors are not loam's ---- */

/* align is a power of two. NULL with errno EINVAL iff it is none, ENOMEM iff there is no memory. */
LOAM_NODISCARD LOAM_INLINE void *loam_override_aligned_alloc(size_t align, size_t size) {
    return loam_malloc_aligned(size, align);
}

/* Any alignment: the next power of two is used. NULL iff there is none (errno EINVAL), or no memory. */
LOAM_NODISCARD LOAM_INLINE void *loam_override_memalign(size_t align, size_t size) {
    size_t power = sizeof(void *);
    while (power < align && power != 0) power *= 2;
    return loam_malloc_aligned(size, power);
}

/* 0 and the object in *result; or EINVAL iff align is no power of two or less than a pointer's size, ENOMEM iff there
 * is no memory: *result and errno are as they were then. */
LOAM_INLINE int loam_override_posix_memalign(void **result, size_t align, size_t size) {
    if (align < sizeof(void *) || (align & (align - 1)) != 0) return EINVAL;
    int before = errno;
    void *p = loam_malloc_aligned(size, align);
    errno = before;
    if (p == NULL) return ENOMEM;
    *result = p;
    return 0;
}

LOAM_INLINE size_t loam_override_page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* Aligned to a page; the second, whole pages of them, at least one. NULL iff there is no memory. */
LOAM_NODISCARD LOAM_INLINE void *loam_override_valloc(size_t size) {
    return loam_malloc_aligned(size, loam_override_page_bytes());
}
LOAM_NODISCARD LOAM_INLINE void *loam_override_pvalloc(size_t size) {
    size_t page = loam_override_page_bytes(), whole = (size + (size == 0) + page - 1) / page * page;
    return loam_malloc_aligned(whole >= size ? whole : size,
                               page); /* it wraps for what is too large anyway */
}

/* ---- The names ---- */

#undef strdup
#undef strndup

#define malloc loam_malloc
#define calloc loam_calloc
#define realloc loam_realloc
#define reallocarray loam_reallocarray
#define free loam_free
#define cfree loam_free
#define free_sized loam_free_sized
#define free_aligned_sized loam_free_aligned_sized
#define aligned_alloc loam_override_aligned_alloc
#define memalign loam_override_memalign
#define posix_memalign loam_override_posix_memalign
#define valloc loam_override_valloc
#define pvalloc loam_override_pvalloc
#define malloc_usable_size loam_usable_size
#define strdup loam_strdup
#define strndup loam_strndup
#define realpath loam_realpath

#endif

/* loam/override.h: malloc and its kin mean loam's heap in each C source that includes this.
 *
 *     #include <loam/override.h>           // first of all, in every source; or cc -include it
 *     char *copy = strdup("loam");         // an object of loam's heap
 *     free(copy);                          // and back
 *
 * Choose it where all sources of a program are under one's control, and linking or preloading the
 * library in malloc's place is not possible. It cannot reach code that is compiled without it:
 * memory that the C library or others allocate for the caller (getline, asprintf, open_memstream,
 * scandir, getcwd(NULL, 0), ...) must not go to free here, nor what is allocated here to code that
 * frees it: loam reports such a free, where it is the one to see it. C only: in C++ the macros
 * would rename members of classes; there is loam/new_delete.hpp.
 *
 *     malloc(n) ─> loam_malloc(n)       &free ─> &loam_free       names are replaced, called or not
 *                                                     mallinfo and mallinfo2 where they are called
 *
 * Each name keeps the meaning and the order of arguments that the C library documents. A struct's
 * member that is called free or malloc is renamed as well, in all sources alike: so include it
 * first. Threads, errors and cost are those of loam/malloc.h. What asks about the heap
 * (malloc_info, mallinfo, ...) and trims it means loam's as well: loam/libc.h. Invariant: no name
 * that override/libc.c replaces is left to the C library, checked by tests/api: override.c and
 * compile.py.
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
#include <wchar.h>

#include "loam/libc.h"
#include "loam/malloc.h"

/* An object of its own always: realpath with NULL. */
LOAM_NODISCARD LOAM_INLINE char *loam_override_canonicalize_file_name(const char *path) {
    return loam_realpath(path, NULL);
}

/* ---- The names ---- */

#undef strdup
#undef strndup
#undef wcsdup

#define malloc loam_malloc
#define calloc loam_calloc
#define realloc loam_realloc
#define reallocarray loam_reallocarray
#define free loam_free
#define cfree loam_free
#define free_sized loam_free_sized
#define free_aligned_sized loam_free_aligned_sized
#define aligned_alloc loam_aligned_alloc
#define memalign loam_memalign
#define posix_memalign loam_posix_memalign
#define valloc loam_valloc
#define pvalloc loam_pvalloc
#define malloc_usable_size loam_usable_size
#define strdup loam_strdup
#define strndup loam_strndup
#define wcsdup loam_wcsdup
#define realpath loam_realpath
#define canonicalize_file_name loam_override_canonicalize_file_name
#define malloc_trim loam_malloc_trim
#define malloc_info loam_malloc_info
#define malloc_stats loam_malloc_stats
#define mallopt loam_mallopt
/* Where they are called: structs have the same names. */
#define mallinfo() loam_mallinfo()
#define mallinfo2() loam_mallinfo2()

#endif

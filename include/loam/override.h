/* loam/override.h: makes malloc and similar names mean loam's heap in each C source that includes
 * it.
 *
 *     #include <loam/override.h>           // first of all, in every source; or cc -include it
 *     char *copy = strdup("loam");         // an object of loam's heap
 *     free(copy);                          // frees it there
 *
 * Choose it if you control all sources of a program, and cannot link or preload the library in
 * malloc's place. It cannot reach code that is compiled without it. So memory that the C library or
 * other code allocates for the caller (getline, asprintf, open_memstream, scandir, getcwd(NULL, 0),
 * ...) must not go to free here. Nor may memory that is allocated here go to code that frees it.
 * loam reports such a free if loam gets it. It is for C only: in C++ the macros would rename
 * members of classes; use loam/new_delete.hpp.
 *
 *     malloc(n) ─> loam_malloc(n)       &free ─> &loam_free       names are replaced everywhere
 *     mallinfo() ─> loam_mallinfo()                               mallinfo, mallinfo2: calls only
 *
 * Each name keeps the meaning and the order of arguments that the C library documents. A struct's
 * member that is called free or malloc is renamed as well; because all sources include the header
 * first, all agree. Threads, errors and cost are those of loam/malloc.h. Functions that ask about
 * the heap (malloc_info, mallinfo, ...) or trim it mean loam's heap as well: loam/libc.h.
 * Invariant: override/libc.c replaces no name that this header leaves to the C library; tests/api
 * checks it (override.c and compile.py).
 */
#ifndef LOAM_OVERRIDE_H
#define LOAM_OVERRIDE_H

#ifdef __cplusplus
#error "loam/override.h is for C: C++ has loam/new_delete.hpp"
#endif

/* Included before the names change. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "loam/libc.h"
#include "loam/malloc.h"

/* realpath(path, NULL): the result is always a new object. */
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
/* Only where they are called: structs have these names, too. */
#define mallinfo() loam_mallinfo()
#define mallinfo2() loam_mallinfo2()

#endif

/* loam/malloc_more.h: less common forms of malloc: allocation that also reports the usable size,
 * and questions about a pointer.
 *
 *     size_t usable;
 *     char *buffer = loam_umalloc(100, &usable);
 *     if (buffer != NULL) buffer[0] = usable >= 112; // usable is at least 100
 *     loam_free(buffer);
 *
 * Choose it for containers and runtimes that use every byte of an object (loam_umalloc), for ports
 * of programs that call mimalloc (docs/guide/from_mimalloc.md), and to ask what memory a pointer
 * points into. The plain forms are in loam/malloc.h. Its rules hold here: any thread may call any
 * function, sizes are in bytes, size comes before align, and a call that fails returns NULL with
 * errno ENOMEM or EINVAL. Objects of either header may be freed by any function of either. It
 * cannot make a release build remember the requested size: there it reports the usable size.
 *
 *   requested  |<------ 100 ------>|
 *   usable     |<-------- 112 -------->|     *usable of loam_umalloc(100, &usable), release build
 *
 * Invariant: each size that a function stores is what loam_usable_size would return at that moment
 * (tests/api checks it). Source: src/api/malloc_more.c.
 */
#ifndef LOAM_MALLOC_MORE_H
#define LOAM_MALLOC_MORE_H

#include "loam/names_begin.h"

#include "loam/malloc.h"

#include <stdbool.h>

LOAM_BEGIN

/* ---- Objects with their usable size ----
 *
 * Each function stores the number of usable bytes in *usable, and 0 if it returns NULL. usable may
 * be NULL. In debug and secure builds the usable size is the requested size. */

/** loam_malloc; stores the usable size in *usable. */
LOAM_API void *loam_umalloc(size_t size, size_t *usable) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
/** loam_zalloc: zeroed up to *usable, which it stores. */
LOAM_API void *loam_uzalloc(size_t size, size_t *usable) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
/** loam_calloc: zeroed up to *usable, which it stores. Returns NULL iff there is no memory or count
 * * size overflows. */
LOAM_API void *loam_ucalloc(size_t count, size_t size, size_t *usable) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZES(1, 2);
/** loam_malloc_aligned; stores the usable size in *usable. Returns NULL iff there is no memory, or
 * align is not a power of two (errno EINVAL). */
LOAM_API void *loam_umalloc_aligned(size_t size, size_t align,
                                    size_t *usable) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1)
    LOAM_ALIGN(2);
/** loam_zalloc_aligned: zeroed up to *usable, which it stores. Errors as loam_umalloc_aligned. */
LOAM_API void *loam_uzalloc_aligned(size_t size, size_t align,
                                    size_t *usable) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1)
    LOAM_ALIGN(2);

/** loam_realloc; stores the usable size of p before the call in *before (0 if p is NULL), and the
 * usable size of the result in *after. *after is 0 if it returns NULL. Both pointers may be
 * NULL. */
LOAM_API void *loam_urealloc(void *p, size_t size, size_t *before,
                             size_t *after) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2);

/** loam_free; stores the usable size that p had in *usable (0 if p is NULL). usable may be NULL. */
LOAM_API void loam_ufree(void *p, size_t *usable) LOAM_NOEXCEPT;

/* ---- NetBSD's reallocarr ---- */

/** Resizes an array to count * size bytes. `array` is the address of a pointer, of any type, to it:
 * loam_reallocarr(&numbers, 10, sizeof *numbers). Returns 0; or EOVERFLOW iff count * size
 * overflows, ENOMEM iff there is no memory. On failure the pointer and the array stay as they are.
 * errno is unchanged in any case. If the pointer is NULL, the call allocates an array. If the
 * product is 0, it frees the array and sets the pointer to NULL. */
LOAM_API int loam_reallocarr(void *array, size_t count, size_t size) LOAM_NOEXCEPT LOAM_NODISCARD
    LOAM_NONNULL(1);

/* ---- What a pointer points into ---- */

/** Returns whether p points into memory from which loam serves objects, in use or free: a page of a
 * size class, a large object, or a sampled object. p may be any pointer, also into the middle of an
 * object. Cost: some instructions; inside a large object, a lock and a walk. */
LOAM_API bool loam_contains(const void *p) LOAM_NOEXCEPT;

/** Returns the share of blocks in use in the page that p points into, in percent, rounded up.
 * Blocks that threads hold ready count as in use. Returns 100 for a large or a sampled object, and
 * 0 iff p lies in no object's memory. For caches that move objects out of sparse pages: if the
 * share is low, allocate a copy and free the original. Other threads may change the share at any
 * time. Cost: some instructions. */
LOAM_API unsigned loam_page_utilization(const void *p) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

/* loam/malloc_more.h: less common forms of malloc: objects with the size that was got, and
 * questions about a pointer.
 *
 * Choose it for containers and runtimes that use every byte of an object (loam_umalloc), for ports
 * of programs that call mimalloc (docs/guide/from_mimalloc.md), and to ask whose a pointer is. The
 * plain forms are in loam/malloc.h, whose rules hold here: any thread, sizes in bytes, size before
 * align, NULL with errno ENOMEM or EINVAL where a call fails. Objects of either header are freed by
 * any function of either. It cannot make a release build remember what was requested: it reports
 * what may be used.
 *
 *   requested  |<------ 100 ------>|
 *   usable     |<-------- 112 -------->|     *usable of loam_umalloc(100, &usable), release build
 *
 * Invariant: a size that a function reports is what loam_usable_size would return at that moment
 * (tests/api). Source: src/api/malloc_more.c.
 */
#ifndef LOAM_MALLOC_MORE_H
#define LOAM_MALLOC_MORE_H

#include "loam/names_begin.h"

#include "loam/malloc.h"

#include <stdbool.h>

LOAM_BEGIN

/* ---- Objects with the size that was got ----
 *
 * Each of these sets *usable to the number of bytes that may be used, and to 0 where it returns
 * NULL. usable may be NULL. In debug and secure builds that number is the size that was
 * requested. */

LOAM_API void *loam_umalloc(size_t size, size_t *usable) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
/* Zeroed, up to *usable. */
LOAM_API void *loam_uzalloc(size_t size, size_t *usable) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
/* Zeroed, up to *usable. Returns NULL also iff count * size overflows. */
LOAM_API void *loam_ucalloc(size_t count, size_t size, size_t *usable) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZES(1, 2);
/* Returns NULL also, with errno EINVAL, iff align is no power of two. */
LOAM_API void *loam_umalloc_aligned(size_t size, size_t align,
                                    size_t *usable) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1)
    LOAM_ALIGN(2);
LOAM_API void *loam_uzalloc_aligned(size_t size, size_t align,
                                    size_t *usable) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1)
    LOAM_ALIGN(2);

/* As loam_realloc. Sets *before to the usable size of p before the call, 0 for NULL, and *after to
 * that of the result. Where it returns NULL and p stays as it was, *after is 0. */
LOAM_API void *loam_urealloc(void *p, size_t size, size_t *before,
                             size_t *after) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2);

/* As loam_free. Sets *usable to the usable size that p had, 0 for NULL. */
LOAM_API void loam_ufree(void *p, size_t *usable) LOAM_NOEXCEPT;

/* ---- NetBSD's reallocarr ---- */

/* Resizes the array that *pointer, a pointer of any type, points to: array is its address. Returns
 * 0, or the error, EOVERFLOW iff count * size overflows and ENOMEM iff there is no memory: *pointer
 * is as it was then. errno stays as it is. A *pointer of NULL allocates; a product of 0 frees the
 * array and sets *pointer to NULL. */
LOAM_API int loam_reallocarr(void *array, size_t count, size_t size) LOAM_NOEXCEPT LOAM_NODISCARD
    LOAM_NONNULL(1);

/* ---- Whose a pointer is ---- */

/* Returns whether p points into memory from which loam serves objects: a page of a size class, a
 * large object, or a sampled object; in use or free. Any pointer may be asked, at any place in an
 * object. Cost: some instructions; inside a large object, a lock and a walk. */
LOAM_API bool loam_contains(const void *p) LOAM_NOEXCEPT;

/* Returns how full the page that p lies in is, in percent, rounded up: the share of its blocks that
 * are not free, those that threads hold ready included. 100 for a large or a sampled object; 0 iff
 * p lies in no object's memory. For programs that move objects out of sparse pages, as caches do:
 * allocate a copy, free the original, if this is low. Other threads may change it at any time.
 * Cost: some instructions. */
LOAM_API unsigned loam_page_utilization(const void *p) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

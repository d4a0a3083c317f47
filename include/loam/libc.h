/* loam/libc.h: the C library's functions about the heap as a whole, under loam's names.
 *
 * Choose it for code that was written for these functions. loam/stats.h, limits.h and options.h say
 * and do more; loam/malloc.h allocates and frees. It cannot be included on a system without
 * <malloc.h>.
 *
 *     loam_mallinfo2, loam_malloc_info, loam_malloc_stats ──> numbers of loam's heap, even if
 *                                                             malloc is another allocator's
 *     loam_malloc_trim ──> loam_collect
 *     loam_mallopt ──────> docs/guide/glibc.md
 *
 * Each function keeps the meaning that the C library documents, as far as loam has the thing that
 * it is about. In libloam.so and loam-override.o the plain names (malloc_info, ...) are these
 * functions. Threads: any thread may call them at any time, but not in a signal handler. Invariant:
 * each has a test in tests/api/override.c. Source: src/api/libc.c, src/api/glibc.c.
 */
#ifndef LOAM_LIBC_H
#define LOAM_LIBC_H

#include "loam/names_begin.h"

#include "loam/types.h"

#include <malloc.h>
#include <stdio.h>

LOAM_BEGIN

/* ---- Numbers ----
 *
 * Both functions return these numbers of the whole heap:
 *
 *     arena      bytes of addresses, without objects of more than 64 KiB; and 128 for each page
 *     uordblks   bytes in use in blocks of up to 64 KiB, and 128 (a descriptor) for each page
 *     fordblks   bytes that are free in pages and spans
 *     ordblks    number of freed blocks of more than 1 KiB that wait in no thread's list
 *     hblks      number of objects of more than 64 KiB
 *     hblkhd     bytes of these objects, and 128 (a descriptor) for each
 *     keepcost   bytes that a trim gives back
 *
 * smblks, fsmblks and usmblks are 0. Cost: as loam_stats_get. */
#ifdef __GLIBC_PREREQ /* other <malloc.h>s may lack the structs, glibc's before 2.33 the second */
/** Returns the numbers as ints, which wrap. */
LOAM_API struct mallinfo loam_mallinfo(void) LOAM_NOEXCEPT;
#if __GLIBC_PREREQ(2, 33)
/** Returns the numbers. */
LOAM_API struct mallinfo2 loam_mallinfo2(void) LOAM_NOEXCEPT;
#endif
#endif

/** Writes an XML document with sizes by class, and totals. Returns 0; or -1 iff options is not 0
 * (errno EINVAL), or the stream failed. */
LOAM_API int loam_malloc_info(int options, FILE *stream) LOAM_NOEXCEPT LOAM_NONNULL(2);

/** Prints what loam_stats_print does, and below it the five lines that end glibc's malloc_stats. */
LOAM_API void loam_malloc_stats(void) LOAM_NOEXCEPT;

/** Calls loam_collect. Returns 1 if it gave memory back, otherwise 0. pad, the number of bytes to
 * keep at the end of glibc's heap, has no effect. */
LOAM_API int loam_malloc_trim(size_t pad) LOAM_NOEXCEPT;

/** Sets a parameter, as mallopt(3):
 * - M_PERTURB fills memory: new objects with the complement of the value's lowest byte, freed ones
 *   with that byte; 0 ends it. It takes effect at once in the calling thread, and in each other
 *   thread when next a list of its heap is empty. The secure build leaves freed memory zero.
 * - M_TRIM_THRESHOLD of -1 keeps free memory, as LOAM_PAGE_RESET=0.
 * - All other parameters are about parts of glibc's malloc that loam does not have. They have no
 *   effect, and are named if LOAM_VERBOSE is set.
 * Returns what glibc's mallopt returns for the parameters that it documents, and 0 for all others.
 * docs/guide/glibc.md has a row for each. */
LOAM_API int loam_mallopt(int parameter, int value) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

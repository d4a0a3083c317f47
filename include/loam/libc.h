/* loam/libc.h: what the C library offers beside malloc and its kin, about the heap as a whole,
 * under loam's names.
 *
 * Choose it for code that was written for these functions; loam/stats.h, limits.h and options.h say
 * and do more. It cannot be included where there is no <malloc.h>. What allocates and frees:
 * loam/malloc.h.
 *
 *     loam_mallinfo2, loam_malloc_info, loam_malloc_stats ──> numbers of loam's heap, whoever is malloc
 *     loam_malloc_trim ──> loam_collect                        loam_mallopt ──> docs/guide/glibc.md
 *
 * Each keeps the meaning that the C library documents, as far as loam has what it is about. In
 * libloam.so and loam-override.o, malloc_info and the others are these. Any thread may call them,
 * at any time, but not in a signal handler. Invariant: each has a test in tests/api/override.c.
 * Source: src/api/libc.c.
 */
#ifndef LOAM_LIBC_H
#define LOAM_LIBC_H

#include "loam/names_begin.h"

#include "loam/types.h"

#include <malloc.h>
#include <stdio.h>

LOAM_BEGIN

/* Returns numbers of the whole heap.
 *
 *     arena      bytes of addresses, without those of objects of more than 64 KiB; 128 for each page besides
 *     uordblks   bytes of blocks of up to 64 KiB in use, with 128 of a descriptor for each page of blocks
 *     fordblks   bytes that are free in pages and spans
 *     ordblks    number of freed blocks of more than 1 KiB that wait in no thread's list
 *     hblks      number of objects of more than 64 KiB; hblkhd: their bytes, with 128 of a descriptor each
 *     keepcost   bytes that a trim gives back
 *
 * smblks, fsmblks and usmblks are 0. The ints of loam_mallinfo wrap. */
#ifdef __GLIBC_PREREQ /* others' <malloc.h> may not have the structs, nor glibc's before 2.33 the second */
LOAM_API struct mallinfo loam_mallinfo(void) LOAM_NOEXCEPT;
#if __GLIBC_PREREQ(2, 33)
LOAM_API struct mallinfo2 loam_mallinfo2(void) LOAM_NOEXCEPT;
#endif
#endif

/* Writes an XML document: sizes by class, and totals. 0; -1 iff options is not 0 (errno EINVAL) or
 * the stream failed. */
LOAM_API int loam_malloc_info(int options, FILE *stream) LOAM_NOEXCEPT LOAM_NONNULL(2);

/* Prints what loam_stats_print does, and below it the five lines with which glibc's malloc_stats
 * ends. */
LOAM_API void loam_malloc_stats(void) LOAM_NOEXCEPT;

/* loam_collect(): whether anything was given back. pad, the bytes to keep, has no meaning where
 * free memory is not at the end of anything. */
LOAM_API int loam_malloc_trim(size_t pad) LOAM_NOEXCEPT;

/* As mallopt(3). M_PERTURB fills memory: new objects with the complement of the value's lowest
 * byte, freed ones with that byte; 0 ends it. It counts at once in the calling thread, and in each
 * other one from the next time that a list of its heap is empty; the secure build leaves freed
 * memory zero. M_TRIM_THRESHOLD of -1 keeps free memory, as LOAM_PAGE_RESET=0. All other parameters
 * are about parts of glibc's malloc that loam does not have: accepted, without effect, and named
 * where LOAM_VERBOSE is set. docs/guide/glibc.md has a row for each. Returns what glibc's mallopt
 * returns for the parameters that it documents, and 0 for all others. */
LOAM_API int loam_mallopt(int parameter, int value) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

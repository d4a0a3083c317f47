/* loam/sampling.h: guard sampling: one in N allocations gets pages of its own, so that misuse of it
 * is a report.
 *
 *     LOAM_GUARD_SAMPLING=5000 ./program         or    loam_sampling_set(5000)
 *
 * Choose it to find overflows, underflows and uses after free in production: in a program that runs
 * for days, or on many machines. A sampled object costs about 5 us. At one in 5,000 that is 1 ns
 * for an allocation: 0.2 to 1.3% of the time of programs that work with what they allocate, and a
 * third of a loop that only calls malloc and free (decision 0025). A debug build or
 * AddressSanitizer finds every mistake, at a higher price; sampling finds a mistake that happens
 * often enough.
 *
 *     [ no access | ........ object ][ no access | object ........ ][ no access ]
 *
 * What it finds, and when:
 * - A read or write past the end or before the start, at the access, if the object lies at that
 *   edge; half of the objects lie at each.
 * - Any access after free, at the access, while the object's slot is remembered.
 * - A write up to 64 bytes off at the other edge, when the object is freed.
 * - A double or invalid free, at the call.
 * Objects are aligned to 16 bytes. So an object at the end edge whose size is not a multiple of 16
 * ends up to 15 bytes before the edge. A write to these bytes is found when the object is freed; a
 * read is not found, except with LOAM_GUARD_SAMPLING_EXACT.
 *
 * The report says what happened, by how many bytes, and where the access, the allocation and the
 * free were made (module and offset, for addr2line -e). Then the program's handler is called.
 * Without one, the access is repeated, so that the core dump shows it; with LOAM_ON_ERROR=ignore,
 * loam opens the page and the program goes on.
 *
 * It cannot find accesses of a system call (read, recv): these fail with EFAULT, or are short. Some
 * allocations are not sampled: all above 64 KiB, those of first-class heaps, and those for which no
 * slot is free (LOAM_GUARD_SAMPLING_SLOTS). loam_heap_contains and loam_heap_visit do not know
 * sampled objects.
 *
 * Signals: loam handles SIGSEGV and SIGBUS from the first sample on. It calls the program's
 * previous handler for all other accesses, and after a report, with the same arguments, signal mask
 * and stack. Sampling goes on if that handler recovers by siglongjmp. A handler that the program
 * sets later gets the signals instead: samples are taken as before, but only mistakes of calls are
 * reported. Each child of fork samples other allocations than its siblings and its parent.
 *
 * Source: src/sampling/sampled.c, src/sampling/sample_turns.c. Guide: docs/guide/sampling.md.
 */
#ifndef LOAM_SAMPLING_H
#define LOAM_SAMPLING_H

#include "loam/names_begin.h"

#include "loam/types.h"

#include <stddef.h>

LOAM_BEGIN

/** Samples about one in `rate` allocations of each thread from now on; 0: none, at most
 * 1,000,000,000. It sets the option "guard_sampling". It also makes the slots and installs the
 * signal handlers at once, again if another handler has been set meanwhile. loam passes signals on
 * to that one: to up to eight different handlers, after which it leaves the next one in place.
 * Returns 0; or, with nothing changed, -EINVAL iff rate is too large, -ENOMEM iff there is no
 * memory for the slots. Any thread may call it. Objects that are sampled already stay so. */
LOAM_API int loam_sampling_set(size_t rate) LOAM_NOEXCEPT;

/** Numbers of the process. */
typedef struct loam_sampling_numbers {
    size_t rate;   /**< as set */
    size_t slots;  /**< 0 before the first sample */
    size_t live;   /**< sampled objects in use */
    size_t taken;  /**< samples since the start */
    size_t missed; /**< samples that had no slot or no memory */
    size_t found;  /**< mistakes found */
} loam_sampling_numbers;

/** Stores the numbers in *numbers. Cost: a lock. */
LOAM_API void loam_sampling_get(loam_sampling_numbers *numbers) LOAM_NOEXCEPT;

/** Returns 1 iff p is a sampled object in use, as malloc returned it; otherwise 0. p may be any
 * pointer. Cost: a lock. */
LOAM_API int loam_sampling_holds(const void *p) LOAM_NOEXCEPT;

/** Stores the call stack of the allocation of a sampled object or, if of_free is not 0, of its
 * free. p points into the object or its guards. A free can be found until the slot is reused.
 * Writes at most `most` return addresses, at most 16, the caller of malloc or free first. The call
 * itself is at the byte before each address; reports name that. Returns the number of addresses, 0
 * iff p is no such pointer. For error handlers (loam/handlers.h), which get the report's first
 * line; they may call it, also in a handler of SIGSEGV. */
LOAM_API size_t loam_sampling_trace(const void *p, int of_free, void **frames,
                                    size_t most) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

/* loam/sampling.h: guard sampling: one in N allocations on pages of its own, so that misuse of it
 * is a report.
 *
 * Choose it to find overflows, underflows and uses after free in production: in a program that runs
 * for days, or on many machines. A sampled object costs some 5 us: at one in 5,000 1 ns an
 * allocation, 0.2 to 1.3% of programs that work with what they allocate, a third of a loop of
 * nothing but malloc and free (decision 0025). A debug build, or AddressSanitizer, finds each
 * mistake, at a higher price; this finds one that happens often enough.
 *
 *     LOAM_GUARD_SAMPLING=5000 ./program         or    loam_sampling_set(5000)
 *
 *     [ no access | ........ object ][ no access | object ........ ][ no access ]
 *
 * What is found, and when: reading or writing past the end or before the start, where the object
 * lies at that edge (half of them each), and any access after free while the slot is remembered: at
 * the access. Objects are aligned to 16, so an object that ends at the edge ends up to 15 bytes
 * before it if its size is no multiple of 16: a read of these is not found (but with
 * LOAM_GUARD_SAMPLING_EXACT), a write is when it is freed. So are writes on the other side, up to
 * 64 bytes off. Double and invalid frees: at the call. The report says what, by how many bytes, and
 * where the access, the allocation and the free were made (module and offset, for addr2line -e).
 * Then the program's handler is called, or, without one, the access is made again, so that the core
 * dump shows it; with LOAM_ON_ERROR=ignore its page is opened, and the program goes on.
 *
 * It cannot find accesses that a system call makes (read, recv): these fail with EFAULT, or are
 * short. Nor what happens to allocations that are not sampled: all above 64 KiB, those of
 * first-class heaps, and those for which no slot is free (LOAM_GUARD_SAMPLING_SLOTS).
 * loam_heap_contains and loam_heap_visit do not know sampled objects. It takes SIGSEGV and SIGBUS
 * when the first sample is taken: the handler that the program had is called for all other
 * accesses, and after a report, with the same arguments, signal mask and stack; sampling goes on if
 * it recovers by siglongjmp. Who sets a handler later takes the signals away, and gets no reports,
 * but for those of calls, while samples are taken as before.
 * Each child of fork samples other allocations than its siblings and its parent.
 * Source: src/sampling/sampled.c, src/sampling/sample_turns.c. Guide: docs/guide/sampling.md.
 */
#ifndef LOAM_SAMPLING_H
#define LOAM_SAMPLING_H

#include "loam/names_begin.h"

#include "loam/types.h"

#include <stddef.h>

LOAM_BEGIN

/* From now on about one in rate allocations of each thread is sampled, 0: none, at most
 * 1,000,000,000. The same as loam_option_set("guard_sampling"); and it makes the slots and takes
 * the signals at once, again if somebody else has them, whom it passes on to (up to eight different
 * handlers; the next one keeps them). 0; -EINVAL iff rate is too large, -ENOMEM iff there is no
 * memory for the slots: nothing has changed then. Any thread. Objects that are sampled already stay
 * so. */
LOAM_API int loam_sampling_set(size_t rate) LOAM_NOEXCEPT;

/* Numbers of the process. */
typedef struct loam_sampling_numbers {
    size_t rate;   /* as set */
    size_t slots;  /* 0 before the first sample */
    size_t live;   /* sampled objects in use */
    size_t taken;  /* samples since the start */
    size_t missed; /* that were due, without a slot or memory for it */
    size_t found;  /* reports */
} loam_sampling_numbers;

/* Writes them. Cost: a lock. */
LOAM_API void loam_sampling_get(loam_sampling_numbers *numbers) LOAM_NOEXCEPT;

/* 1 iff p is a sampled object in use, as malloc returned it. Any pointer may be asked. Cost: a
 * lock. */
LOAM_API int loam_sampling_holds(const void *p) LOAM_NOEXCEPT;

/* Where the sampled object that p points into, or to the guards of, was allocated; of_free: freed,
 * where it was and nobody has its slot since. Writes at most `most` return addresses, at most 16,
 * the caller's of malloc or free first: of each, the byte before is the call's (reports name that).
 * Returns how many, 0 iff p is no such pointer. For error handlers (loam/handlers.h), which get the
 * report's first line; may be called in them, in a handler of SIGSEGV as well. */
LOAM_API size_t loam_sampling_trace(const void *p, int of_free, void **frames,
                                    size_t most) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

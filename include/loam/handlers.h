/* loam/handlers.h: functions of the program that loam calls: with its output lines, with its
 * reports, and when memory runs out.
 *
 *     static int cached = 1;
 *     static bool drop(size_t size, void *cache) {
 *         int *entries = cache;
 *         bool dropped = size > 0 && *entries > 0;
 *         *entries = 0;
 *         return dropped; // true: malloc tries again
 *     }
 *     loam_oom_register(drop, &cached); // drop is called before malloc returns NULL
 *
 * Choose them if standard error leads nowhere, a crash must be logged before it happens, or a cache
 * can be dropped to make room. Without them, lines and reports go to standard error, and malloc
 * returns NULL if there is no memory. They cannot change what happens after a mistake;
 * LOAM_ON_ERROR does (loam/options.h).
 *
 *     event                  handler                                      without a handler
 *     statistics, options    output handler                               standard error
 *     a mistake              error handler, then abort or ignore          standard error, likewise
 *     slow path of malloc    deferred free                                nothing
 *     no memory              deferred free (force), then out-of-memory    NULL
 *                            handler, again while it returns true,
 *                            at last error handler (ENOMEM), and NULL
 *
 * A process has one handler of each kind. Any thread may set it at any time; NULL removes it. A
 * thread that was about to call the old handler may still do so afterwards: the old handler and its
 * argument must stay valid.
 *
 * A handler may do what the program may do at the interrupted call. It runs in the thread that
 * called malloc or free, without loam's locks, and may allocate, free, fork, start threads or end
 * the process. It must return: no longjmp, no exception. No handler runs inside a handler of the
 * same kind: a call in it that would lead there goes on as without a handler. Its errno is not the
 * caller's. If the program calls malloc or free in a signal handler, handlers run there as well. A
 * child of fork has its parent's handlers.
 *
 * Variables that a handler shares with code that calls malloc need loam_handler_fence or another
 * form below.
 *
 * Invariant: handler and argument are always read as the pair that was set (os/handlers.c). Source:
 * src/os/handlers.c. */
#ifndef LOAM_HANDLERS_H
#define LOAM_HANDLERS_H

#include "loam/names_begin.h"

#include "loam/types.h"

#include <stdbool.h>

LOAM_BEGIN

/* ---- Compilers and handlers ----
 *
 * gcc and clang know malloc, calloc, realloc, aligned_alloc, strdup, free and similar functions by
 * name, newer ones operator new as well. They assume that these functions call no function of the
 * program and change no variable of the program. A handler breaks this assumption: code behind a
 * call of malloc may use a variable's value from before the call, and the handler may miss the last
 * changes before the call. -fno-builtin does not help with gcc, because <stdlib.h> declares these
 * functions as leaf. Compilers also remove a call of malloc whose object the program does not need:
 * no handler runs. A variable that a handler shares with other code of the same thread needs one of
 * these forms:
 *
 *     loam's names    loam_malloc and all other functions of loam carry no such assumption. For a C
 *                     source that calls malloc, loam/override.h replaces the names.
 *     a fence         loam_handler_fence() between a change of the variable and the next call of
 *                     malloc or free, and between that call and the next look at the variable.
 *     volatile        suffices for a number or a flag, not for the memory that a pointer leads to.
 *
 * The handler itself needs no such form. Variables that several threads share need atomics or a
 * lock besides.
 */

/** Makes the compiler write all variables that it holds in registers to memory, and read them anew.
 * It costs no instruction, and orders nothing between threads or processors; atomic_thread_fence
 * does. */
LOAM_INLINE void loam_handler_fence(void) LOAM_NOEXCEPT { __asm__ __volatile__("" ::: "memory"); }

/* ---- Handlers ---- */

/** An output handler: takes one line of statistics (loam_stats_print, LOAM_SHOW_STATS) or options
 * (loam_options_print, LOAM_VERBOSE). `text` has `bytes` bytes, at most 511, with the newline, and
 * a 0 behind them. It is valid until the handler returns. */
typedef void (*loam_output_handler)(const char *text, size_t bytes, void *argument);

/** An error handler: takes one report. `message` is the line that standard error would get, without
 * the newline; it is valid until the handler returns. `code` is one of these:
 *   EINVAL     a pointer that is not loam's, is free or misaligned; any mistake with a special
 *              allocator (pool, region, ...)
 *   EFAULT     memory was overwritten; found when its block was freed
 *   ENOMEM     memory was refused: the call returns NULL, or, if realloc was to make an object
 *              smaller, the object as it was. Without a handler there is no such line, unless
 *              LOAM_ABORT_ON_OOM is set.
 *   EOVERFLOW  a size, a product count * size or an alignment that no memory could serve, in every
 *              form of malloc. Result and line are as for ENOMEM. A loam_expand that finds no
 *              room behind its object is no refusal.
 * After EINVAL and EFAULT the process ends (SIGABRT) or goes on, as LOAM_ON_ERROR says. After
 * ENOMEM and EOVERFLOW it goes on, unless LOAM_ABORT_ON_OOM ends it. Some lines go to standard
 * error only: damaged lists that loam finds in the middle of its work (debug and secure builds),
 * and what its worker finds. */
typedef void (*loam_error_handler)(int code, const char *message, void *argument);

/** An out-of-memory handler: memory for an object of `size` bytes (rounded up) cannot be had.
 * Returns true if it gave some back: loam tries again, at most 32 times for one request. Returns
 * false to let the request return NULL. It must not free or resize the object of a realloc in
 * progress. operator new calls it too, each time before it calls the C++ new handler. loam does not
 * call it for a size that no memory could serve, nor for chunks that special allocators (pool,
 * region, ...) take from their source. */
typedef bool (*loam_oom_handler)(size_t size, void *argument);

/** A deferred-free handler: the program may now free what it has put off, such as a part of a large
 * structure or what a reference counter has released. `force` is true if memory is needed or the
 * program has called loam_collect: free everything if possible. Otherwise free as much as a bounded
 * time allows. `heartbeat` is what loam_heartbeat returns; it is the same as before iff force is
 * true. Each thread calls the handler in its own slow paths of malloc, before it takes memory
 * there, so that malloc can return what the handler frees. Several threads may call it at the same
 * time, each with its own heartbeat. A steady program calls it every few dozen mallocs of a size.
 * It must not free or resize the object of a realloc in progress. */
typedef void (*loam_deferred_handler)(bool force, unsigned long long heartbeat, void *argument);

/** Returns how often the calling thread's malloc, in any form, has taken a slow path since the
 * process first called this function or loam_deferred_free_register. A malloc that a free list
 * serves takes no slow path; allocations of special allocators (pool, region, ...) do not count.
 * The number only grows. The same calls give the same numbers, if no other thread frees this
 * thread's blocks, and this thread does not sleep longer than loam's worker waits
 * (LOAM_PURGE_THREAD=0: never). Cost: some instructions here, nothing on the fast paths. */
LOAM_API unsigned long long loam_heartbeat(void) LOAM_NOEXCEPT;

/** Sets the deferred-free handler; NULL removes it. It gets `argument` unchanged. Cost: some
 * instructions under a lock; it may be the process's first call of pthread_atfork. */
LOAM_API void loam_deferred_free_register(loam_deferred_handler handler,
                                          void *argument) LOAM_NOEXCEPT;

/** Sets the output handler. Argument and cost as loam_deferred_free_register. */
LOAM_API void loam_output_register(loam_output_handler handler, void *argument) LOAM_NOEXCEPT;
/** Sets the error handler. Argument and cost as loam_deferred_free_register. */
LOAM_API void loam_error_register(loam_error_handler handler, void *argument) LOAM_NOEXCEPT;
/** Sets the out-of-memory handler. Argument and cost as loam_deferred_free_register. */
LOAM_API void loam_oom_register(loam_oom_handler handler, void *argument) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

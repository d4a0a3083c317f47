/* loam/handlers.h: functions of the program's that loam calls: with its lines, its reports, and
 * when memory ends.
 *
 * Choose them where standard error is nobody's, a crash is to be logged before it happens, or a
 * cache can be dropped to make room. Without them, lines and reports go to standard error, and
 * memory that is not there is NULL. They cannot change what follows a mistake: that is
 * LOAM_ON_ERROR (loam/options.h).
 *
 *     statistics, options    ──> output handler                        else standard error
 *     a mistake              ──> error handler, then abort or ignore   else standard error, then the same
 *     a slow path of malloc  ──> deferred free                         else nothing
 *     no memory              ──> deferred free (force), out-of-memory handler, again and again while it says true
 *                                └──> error handler (ENOMEM), NULL
 *
 * One handler of each kind in a process, set by any thread at any time; NULL restores what was
 * without. A thread that was about to call the handler before may still do so afterwards: what it
 * needs must stay.
 *
 * What a handler may do, whichever it is: anything that the interrupted call of malloc or free
 * might have been: it runs in the thread that made the call, without loam's locks held, and may
 * itself allocate, free, fork, start threads, end the process. It must return: no longjmp, no
 * exception. If it makes a call that would lead to the same kind of handler again, that goes the
 * way it goes without one: no handler is called inside of itself. Its errno is not the caller's.
 * Where the program calls malloc or free in a signal handler, handlers run there as well. A child
 * of a fork has the handlers of its parent.
 *
 * What a handler shares with the code that calls malloc: see loam_handler_fence below.
 *
 * Invariant: handler and argument are always read as the pair that was set (os/handlers.c). Source:
 * src/os/handlers.c.
 */
#ifndef LOAM_HANDLERS_H
#define LOAM_HANDLERS_H

#include "loam/names_begin.h"

#include "loam/types.h"

#include <stdbool.h>

LOAM_BEGIN

/* ---- Compilers and handlers ----
 *
 * gcc and clang know malloc, calloc, realloc, aligned_alloc, strdup, free and their kin by name,
 * newer ones operator new as well. They assume that these functions call no function of the program
 * and change no variable of the program. A handler breaks this assumption: code behind a call of
 * malloc may use a variable's value from before the call, and the handler may miss the last changes
 * before the call. -fno-builtin does not help with gcc, because <stdlib.h> declares these functions
 * as leaf. Compilers also remove a call of malloc whose object the program does not need: no
 * handler runs. A variable that a handler shares with other code of the same thread needs one of
 * these forms:
 *
 *     loam's names    loam_malloc and all functions of loam's carry no such assumption. For a C source
 *                     that calls malloc, loam/override.h replaces the names.
 *     a fence         loam_handler_fence() between a change of the variable and the next call of
 *                     malloc or free, and between that call and the next look at the variable.
 *     volatile        suffices for a number or a flag, not for the memory that a pointer leads to.
 *
 * The handler itself needs none of them. What several threads share needs atomics or a lock
 * besides.
 */

/* Makes the compiler write all variables to memory that it holds in registers, and read them anew.
 * No instruction; orders nothing between threads or processors (that is atomic_thread_fence). */
LOAM_INLINE void loam_handler_fence(void) LOAM_NOEXCEPT { __asm__ __volatile__("" ::: "memory"); }

/* ---- Handlers ---- */

/* Takes one line of what was asked for: statistics (loam_stats_print, LOAM_SHOW_STATS), options
 * (loam_options_print, LOAM_VERBOSE). text: bytes bytes, at most 511, with the line's end, and a 0
 * behind it; gone when this returns. */
typedef void (*loam_output_handler)(const char *text, size_t bytes, void *argument);

/* Takes one report. message: as it would stand on standard error, without the line's end; gone when
 * this returns. code:
 *   EINVAL     a pointer that loam did not give, or that is free, or misaligned; any mistake with an allocator of
 *              the family
 *   EFAULT     memory was overwritten, found when its block was freed
 *   ENOMEM     memory was refused: the call returns NULL, or, where realloc was to make it smaller, the object as it
 *              was. Without a handler there is no such line.
 *   EOVERFLOW  a size, a product count * size or an alignment that no memory could serve, in every form of malloc:
 *              likewise. A loam_expand that finds no room behind its object is no refusal.
 * After EINVAL and EFAULT the process ends (SIGABRT), or goes on, as LOAM_ON_ERROR says; after the
 * others it goes on. Not everything comes here: damaged lists that loam trips over in the middle of
 * its work (debug and secure builds), and what its worker finds, stay lines on standard error. */
typedef void (*loam_error_handler)(int code, const char *message, void *argument);

/* Memory for an object of size bytes (rounded up) cannot be had. true: some has been given back,
 * try again, at most 32 times for one request; false: return NULL. It must not free or change the
 * object that a realloc is about. operator new comes here too, before it calls the C++ new handler,
 * each time. Not called for sizes that no memory could serve, nor for the chunks that allocators of
 * the family take from their source. */
typedef bool (*loam_oom_handler)(size_t size, void *argument);

/* The program may give back now what it has put off: a piece of a large structure, what a reference
 * counter has released. heartbeat: as loam_heartbeat says, the same as before iff force. force:
 * memory is needed, or somebody has called loam_collect: all of it, if that is possible; else as
 * much as takes a bounded time. Called by each thread in its own slow paths of malloc, before
 * memory is taken there, so that what is freed can be what malloc returns; by several threads at
 * the same time, each with its own heartbeat. A steady program comes there every few dozen mallocs
 * of a size. It must not free or change the object that a realloc is about. */
typedef void (*loam_deferred_handler)(bool force, unsigned long long heartbeat, void *argument);

/* How often the calling thread's malloc, of any form, has taken a slow path since the process first
 * called this or loam_deferred_free_register: ever larger, and for the same calls the same, as long
 * as no other thread frees this one's blocks and it does not sleep longer than loam's worker waits
 * (LOAM_PURGE_THREAD=0: never). No slow path: mallocs that are served from a list at hand. What
 * allocators of the family do is not counted. Costs some instructions; nothing on the fast
 * paths. */
LOAM_API unsigned long long loam_heartbeat(void) LOAM_NOEXCEPT;

/* As below. */
LOAM_API void loam_deferred_free_register(loam_deferred_handler handler,
                                          void *argument) LOAM_NOEXCEPT;

/* argument is handed to the handler as it is. Cost: some instructions under a lock; may be the
 * first call of a process to use pthread_atfork. */
LOAM_API void loam_output_register(loam_output_handler handler, void *argument) LOAM_NOEXCEPT;
LOAM_API void loam_error_register(loam_error_handler handler, void *argument) LOAM_NOEXCEPT;
LOAM_API void loam_oom_register(loam_oom_handler handler, void *argument) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

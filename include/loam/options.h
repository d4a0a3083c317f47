/* loam/options.h: options of loam that can be set without rebuilding it, and the calls that set
 * them.
 *
 *     LOAM_PURGE_DELAY=1s ./program                        the user: by the environment
 *     const char *loam_config = "purge_delay=1s";          the program's author: by a string
 *     loam_option_set("purge_delay", "1s");                the program itself: by a call
 *
 * docs/guide/options.md and the man page loam(7) list all options. docs/guide/debug.md says what
 * the debug build finds, and describes its LOAM_RECORD_SITES and LOAM_SHOW_LEAKS. Sources, the
 * weakest first:
 *
 *     default  <  loam_config, loam_option_set_default  <  LOAM_NAME=value  <  loam_option_set
 *
 * A value that loam does not understand is ignored: one line on standard error names its source,
 * and the source whose value counts instead, which is the next weaker one. A process with more
 * rights than its caller (set-user-ID and the like) ignores the environment; its own string counts.
 * So do a program whose string has environment=0, and a library that was built with
 * -DLOAM_READ_ENVIRONMENT=OFF.
 *
 * LIMIT_SOFT and LIMIT_HARD contradict each other if the soft limit exceeds the hard one. Then the
 * value of the weaker source is ignored, with one line, and the next weaker source counts; if both
 * are from one source, LIMIT_SOFT is ignored. A call that contradicts another call is refused.
 *
 * Threads: any thread may call any function at any time, without a lock of its own. No function
 * allocates.
 * Names: without LOAM_, in upper or lower case.
 * Values: texts, in upper or lower case: 0 or 1 (also no, yes, false, true, off, on), one of some
 * words, or a whole number. A number may have a unit; without one it is in milliseconds or bytes:
 * 300, 300ms, 2s, 1min; 65536, 64KiB, 16MiB, 1GiB, or 16MB, 16M, which are binary all the same. A
 * size may be a share of the machine's memory (80%) or of what the control group may hold
 * (80%cgroup): docs/guide/limits.md. No option undoes what it has done already: memory that went
 * back to the system stays there.
 *
 * Invariant: loam_option_set accepts what loam_option_get returns for a name, and nothing changes
 * by it. Source: src/api/options.def, src/api/options.c. */
#ifndef LOAM_OPTIONS_H
#define LOAM_OPTIONS_H

#include "loam/names_begin.h"

#include "loam/types.h"

LOAM_BEGIN

/** The program's own defaults. A program that wants other defaults than loam's defines it in one of
 * its files:
 *
 *     const char *loam_config = "purge_delay=1s,show_stats=1";
 *
 * It has pairs of name and value, separated by commas; spaces around them are allowed. NULL or ""
 * has no pairs. loam reads it before main. If the program links libloam.so, or loam statically,
 * nothing else is needed. For a preloaded libloam.so the program must export the name (cc
 * -rdynamic, or -Wl,--export-dynamic-symbol=loam_config with newer linkers). A file that does not
 * include this header may also define an array, const char loam_config[] = "...". */
LOAM_API extern const char *loam_config;

/** Sets an option; it takes effect with the next operation of each thread. Returns 0, or a negative
 * error, and then nothing has changed:
 * - -EINVAL iff there is no such option, the value is not valid for it, or it contradicts the other
 *   limit that a call has set (nothing is printed);
 * - -ENOTSUP iff only another build of loam has it (in this build it is 0, or an empty path);
 * - -EBUSY iff the option counts only at the start, and the program has started;
 * - -ENODATA iff the value is a share of the memory, and the system does not say how much that is,
 *   or must not be asked (loam_worker_allow).
 * A limit from the environment that the new one contradicts is ignored from then on, and one line
 * says so. Cost: a few hundred instructions; turning PURGE_THREAD off waits for the thread's
 * end. */
LOAM_API int loam_option_set(const char *name, const char *value) LOAM_NOEXCEPT;

/** Sets an option as loam_config does: it is weaker than the environment and loam_option_set.
 * Returns 0 also if one of these has set the option, which stays as it is. Errors as
 * loam_option_set; -EINVAL also if a limit contradicts the other limit, whatever its source. It is
 * meant for the program's start: if another thread sets the option at the same time, either value
 * may stay. */
LOAM_API int loam_option_set_default(const char *name, const char *value) LOAM_NOEXCEPT;

/** loam_option_set with a number, in milliseconds or bytes; for a switch, 0 or 1. */
LOAM_API int loam_option_set_number(const char *name, size_t number) LOAM_NOEXCEPT;

/** Stores the option's value, as loam_option_set_number accepts it, in *number. Returns 0; or
 * -EINVAL iff there is no such option, or its value is not a whole number but a word or a path.
 * Then *number stays as it is. */
LOAM_API int loam_option_get_number(const char *name, size_t *number) LOAM_NOEXCEPT;

/** Returns the number that loam_option_get_number stores, clamped to [least, most]. Returns least
 * iff there is no such number, or it is smaller. */
LOAM_API size_t loam_option_get_clamp(const char *name, size_t least, size_t most) LOAM_NOEXCEPT;

/** Returns where the option's value comes from: "default", "program" (loam_config or
 * loam_option_set_default), "environment" or "call"; a constant string. Returns NULL iff there is
 * no such option. */
LOAM_API const char *loam_option_source(const char *name) LOAM_NOEXCEPT;

/** Writes the option's value as a string, with its terminating 0, in at most bytes bytes. Returns
 * the string's length, which is 0 for an empty value. Returns -EINVAL iff there is no such option,
 * -ENOSPC iff the string does not fit; then nothing is written. 32 bytes hold every value except
 * METER's, a path of at most 1023 bytes. */
LOAM_API int loam_option_get(const char *name, char *value, size_t bytes) LOAM_NOEXCEPT;

/** Returns the name of option number index, counted from 0; NULL iff there are no more. Aliases are
 * left out. */
LOAM_API const char *loam_option_name(size_t index) LOAM_NOEXCEPT;

/** Prints a line for each option: its value, the value's source, and what it does. The lines go to
 * the output handler (loam/handlers.h). */
LOAM_API void loam_options_print(void) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

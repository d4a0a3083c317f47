/* loam/options.h: what can be chosen of loam without building it anew, and how a program does so.
 *
 * The options are listed in docs/guide/options.md and the man page loam(7); what the debug build
 * finds, and its LOAM_RECORD_SITES and LOAM_SHOW_LEAKS, are in docs/guide/debug.md. A user chooses
 * by the environment, the program's author by a string in the program, the program itself by the
 * calls below:
 *
 *     default  <  loam_config of the program  <  LOAM_NAME=value of the environment  <  loam_option_set
 *                 loam_option_set_default
 *
 * What is not understood costs one line on standard error, and the next lower of these counts. The
 * line names the source that said it, and the source whose value counts. A process with more rights
 * than its caller (set-user-ID and the like) does not look at the environment; its own string
 * counts. A program whose string has environment=0, and a library that was built with
 * -DLOAM_READ_ENVIRONMENT=OFF, do not look at it either.
 *
 * LIMIT_SOFT and LIMIT_HARD contradict each other where the soft limit is above the hard one. Then
 * the value of the lower source is ignored, with one line, and the next lower source's counts; of
 * two values of one source that of LIMIT_SOFT. A call that contradicts another call is refused.
 *
 * All functions may be called by any thread at any time, without locks. Names are without LOAM_, in
 * any case of letters. Values are texts, in any case as well: 0 or 1 (also no, yes, false, true,
 * off, on), one of some words, or a whole number, with a unit or in the least one: 300, 300ms, 2s,
 * 1min; 65536, 64KiB, 16MiB, 1GiB, or 16MB, 16M, which are binary all the same. A size may be a
 * share of the machine's memory, 80%, or of what the control group may hold, 80%cgroup:
 * docs/guide/limits.md. Nothing here allocates. It cannot undo what an option has done already:
 * memory that went back stays away.
 *
 * Invariant: loam_option_set takes what loam_option_get gives by the same name, and nothing changes
 * by it. Source: src/api/options.def, src/api/options.c.
 */
#ifndef LOAM_OPTIONS_H
#define LOAM_OPTIONS_H

#include "loam/names_begin.h"

#include "loam/types.h"

LOAM_BEGIN

/* Defined by a program that wants other defaults than loam's, in one of its files:
 *
 *     const char *loam_config = "purge_delay=1s,show_stats=1";
 *
 * Pairs of name and value with commas between, spaces allowed around them; NULL or "" are as
 * without it. Read before main. Where libloam.so is linked, or loam statically, that is all; a
 * program that is to be found by a preloaded libloam.so must export the name (cc -rdynamic, or
 * -Wl,--export-dynamic-symbol=loam_config with newer linkers). A file that does without this header
 * may define an array, const char loam_config[] = "...", as well. */
LOAM_API extern const char *loam_config;

/* Sets an option. 0, or -EINVAL iff there is no such option, the value is none for it, or it
 * contradicts the other limit that a call has set (nothing is printed), or -ENOTSUP iff only
 * another build of loam can do that (in this one the option is 0, or an empty path), or -EBUSY iff
 * it counts at the start only, and the program has started, or -ENODATA iff it is a share of the
 * memory, and the system does not say how much that is, or must not be asked (loam_worker_allow). A
 * limit of the environment that the new one contradicts is ignored from then on, and one line says
 * so. Takes effect with what other threads do next. Cost: some hundred instructions; turning
 * PURGE_THREAD off waits for the thread's end. */
LOAM_API int loam_option_set(const char *name, const char *value) LOAM_NOEXCEPT;

/* The same for who has not chosen: as in loam_config, it counts less than the environment and
 * loam_option_set. 0 also where one of these has set the option, which stays as it is. -EINVAL also
 * where a limit contradicts the other one, of whatever source. Meant for the program's start: of an
 * option that another thread sets at the same time either value may stay. */
LOAM_API int loam_option_set_default(const char *name, const char *value) LOAM_NOEXCEPT;

/* loam_option_set of a number in the least unit, milliseconds or bytes; 0 or 1 for a switch. */
LOAM_API int loam_option_set_number(const char *name, size_t number) LOAM_NOEXCEPT;

/* The option's value as a number that loam_option_set_number takes. 0, or -EINVAL iff there is no
 * such option, or its value is no whole number by this name, but a word or a path: number stays as
 * it is then. */
LOAM_API int loam_option_get_number(const char *name, size_t *number) LOAM_NOEXCEPT;

/* Returns the number that loam_option_get_number gives, limited to least ... most.
 * Returns least iff there is no such number. */
LOAM_API size_t loam_option_get_clamp(const char *name, size_t least, size_t most) LOAM_NOEXCEPT;

/* Where the option's value comes from: "default", "program" (loam_config, or
 * loam_option_set_default), "environment" or "call". A constant text; NULL iff there is no such
 * option. */
LOAM_API const char *loam_option_source(const char *name) LOAM_NOEXCEPT;

/* Writes the option's value as a text with a 0 behind it, in at most bytes bytes. The text's
 * length, 0 for an empty one; -EINVAL iff there is no such option, -ENOSPC iff it does not fit:
 * nothing is written then. 32 bytes hold every value but METER's, a path of at most 1023 bytes. */
LOAM_API int loam_option_get(const char *name, char *value, size_t bytes) LOAM_NOEXCEPT;

/* The names of all options, index 0, 1, ...; NULL iff there are no more. Other names for the same
 * are left out. */
LOAM_API const char *loam_option_name(size_t index) LOAM_NOEXCEPT;

/* A line for each option: value, where it came from, what it does. To the output handler
 * (loam/handlers.h). */
LOAM_API void loam_options_print(void) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

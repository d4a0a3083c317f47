/* loam/port.h: functions by which a device without an operating system connects loam.
 *
 * The freestanding library (docs/guide/device.md) works without them: each has a weak default. A
 * program replaces one by defining a function of that name in an object file of its own. An archive
 * does not do: linkers look there only for names that are missing. A hosted build does not have
 * these functions.
 */
#ifndef LOAM_PORT_H
#define LOAM_PORT_H

#include "loam/names_begin.h"

#include "loam/types.h"

#include <stdbool.h>

LOAM_BEGIN

/** Takes a line of loam's: a report of a mistake, or what loam_registry_print was asked for. At
 * most 256 bytes, with the newline, without a terminating 0. It may be called wherever the program
 * calls loam. Default: ignores the line. */
void loam_port_write(const char *text, size_t bytes) LOAM_NOEXCEPT;

/** Ends the program after a mistake was found and reported; it must not return. Default: the
 * compiler's trap, on a Cortex-M a fault. */
void loam_port_abort(void) LOAM_NOEXCEPT __attribute__((__noreturn__));

/** Number of locks for loam_port_lock. Lock 0 is held while loam_registry_... functions look into
 * allocators, and when an allocator ends. Lock 1 is held for some instructions, also inside lock 0
 * and inside the locks of blocks. */
enum { LOAM_PORT_LOCKS = 2 };
/** Takes a lock around the list of named and checked allocators: needed iff allocators are set up,
 * ended or listed by more than one thread or interrupt. No thread takes a lock twice. One lock that
 * nests, such as disabled interrupts with a count, may stand for both. Default: does nothing. */
void loam_port_lock(unsigned lock) LOAM_NOEXCEPT;
/** Releases a lock of loam_port_lock. Default: does nothing. */
void loam_port_unlock(unsigned lock) LOAM_NOEXCEPT;

/** Returns the thread number that reports name. Default: 0. */
unsigned loam_port_thread(void) LOAM_NOEXCEPT;

/* ---- For the program to call, not to replace ---- */

/** Sets what happens after the report of a mistake. With true, the mistaken call does nothing or
 * returns NULL, and the program goes on. With false, which is the default, loam calls
 * loam_port_abort. */
void loam_port_ignore_mistakes(bool ignore) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

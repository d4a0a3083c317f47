/* loam/port.h: what a device tells loam about itself, where there is no operating system.
 *
 * The freestanding library (docs/guide/device.md) works without any of these: each has a weak
 * default. A program that defines a function of the same name in an object file of its own (not in
 * an archive: linkers look there only for what is missing) replaces it. In a hosted build these
 * functions do not exist.
 */
#ifndef LOAM_PORT_H
#define LOAM_PORT_H

#include "loam/names_begin.h"

#include "loam/types.h"

#include <stdbool.h>

LOAM_BEGIN

/* Takes a line of loam's: a report of a mistake, or what loam_registry_print was asked for. At most
 * 256 bytes, with its line end, without a terminating 0. May be called wherever the program calls
 * loam. Default: forgets it. */
void loam_port_write(const char *text, size_t bytes) LOAM_NOEXCEPT;

/* A mistake was found, and reported: must not return. Default: the compiler's trap, on a Cortex-M a
 * fault. */
void loam_port_abort(void) LOAM_NOEXCEPT __attribute__((__noreturn__));

/* Around the list of named and checked allocators: needed iff allocators are set up, ended or
 * listed by more than one thread or interrupt. Lock 0 is held while loam_registry_... looks into
 * allocators, and when one ends; lock 1, for some instructions, also inside lock 0 and inside the
 * locks of blocks. Neither is taken twice. One lock that nests, as interrupts off with a count, may
 * stand for both. Default: nothing. */
enum { LOAM_PORT_LOCKS = 2 };
void loam_port_lock(unsigned lock) LOAM_NOEXCEPT;
void loam_port_unlock(unsigned lock) LOAM_NOEXCEPT;

/* The thread number that reports name. Default: 0. */
unsigned loam_port_thread(void) LOAM_NOEXCEPT;

/* ---- Not to be replaced, but called ---- */

/* What follows the report of a mistake: with true, the mistaken call does nothing or gives NULL,
 * and the program goes on; with false, loam_port_abort, which is the default. */
void loam_port_ignore_mistakes(bool ignore) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

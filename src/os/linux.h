/* linux.h: system calls by instruction, for the files linux_*.c.
 *
 * It contains no number of a call and no structure of the kernel. Only the port includes it.
 */
#ifndef LM_OS_LINUX_H
#define LM_OS_LINUX_H

#include "os/os.h"

/* Makes a system call and counts it. Returns what the kernel returned: an error is a negative errno
 * value. The code lies in a section of its own: a thread that sleeps in the kernel with its program
 * counter there sleeps inside loam. linux_message.c and similar files place their own call
 * functions there, too. */
intptr_t lm_linux_call(long n, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e);

/* Start and end of that section, defined by the linker. */
extern const char __start_loam_calls[] LM_HIDDEN, __stop_loam_calls[] LM_HIDDEN;

LM_INLINE intptr_t lm_linux_call1(long n, intptr_t a) { return lm_linux_call(n, a, 0, 0, 0, 0); }

LM_INLINE intptr_t lm_linux_call3(long n, intptr_t a, intptr_t b, intptr_t c) {
    return lm_linux_call(n, a, b, c, 0, 0);
}

/* Returns whether a call returned an error. */
LM_INLINE bool lm_linux_failed(intptr_t result) { return (uintptr_t)result > (uintptr_t)-4096; }

/* Reads the first bytes of a file, at most most - 1 of them, and appends a 0. Returns false iff the
 * file cannot be read or is empty. */
bool lm_linux_read_file(const char *path, char *text, size_t most);

#endif

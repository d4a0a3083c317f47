/* linux_doors.c: the system calls behind prctl, unshare, setns and syscall, for override/doors.c.
 *
 * libc's functions of these names make the system call, set errno, and do nothing more. Looking
 * them up in the dynamic linker would take its lock, for which a signal handler or a library's
 * constructor must not wait. This file cannot replace setuid and its family: libc makes these calls
 * in each of its threads.
 */
#define _GNU_SOURCE 1
#include "os/os.h"

#include <errno.h>
#include <sys/syscall.h>

LM_STATIC_ASSERT(LM_CALL_PRCTL == SYS_prctl && LM_CALL_SECCOMP == SYS_seccomp, "compiler.h");
LM_STATIC_ASSERT(LM_CALL_UNSHARE == SYS_unshare && LM_CALL_SETNS == SYS_setns, "compiler.h");

/* Returns the result of a system call as libc does: sets errno and returns -1 if the system
 * refused. */
static long result_of(intptr_t result) {
    if ((uintptr_t)result <= (uintptr_t)-4096) return result;
    errno = (int)-result;
    return -1;
}

int lm_os_unshare(int flags) {
    return (int)result_of(lm_syscall(SYS_unshare, flags, 0, 0, 0, 0, 0));
}

int lm_os_setns(int fd, int type) {
    return (int)result_of(lm_syscall(SYS_setns, fd, type, 0, 0, 0, 0));
}

int lm_os_prctl(int option, intptr_t a, intptr_t b, intptr_t c, intptr_t d) {
    return (int)result_of(lm_syscall(SYS_prctl, option, a, b, c, d, 0));
}

long lm_os_syscall(long number, const intptr_t arguments[6]) {
    return result_of(lm_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
                                arguments[4], arguments[5]));
}

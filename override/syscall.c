/* syscall.c: the door of prctl, seccomp, unshare and setns when they are called by number.
 *
 *   syscall(number, ...) ── other number ─────> jump to libc's syscall
 *                        └─ one of the four ──> lm_syscall_door: as in doors.c, then libc's syscall
 *
 * libseccomp sets a filter by libc's syscall, and without a preceding prctl if the program runs as
 * root and has switched SCMP_FLTATR_CTL_NNP off. loam's worker must have ended by then (doors.c).
 *
 * Programs also make calls such as clone in this way, some with a stack of their own for the child,
 * which returns to the caller by itself. So for all other numbers there is no frame of this file:
 * the arguments and the return address stay in place (LM_JUMP_BY_NUMBER).
 *
 * Only libloam.so has this file, as doors.c. It cannot see system calls that a program makes by
 * instruction; see span/worker.c for those.
 */
#include "doors.h"

#include <stdarg.h>

/* Operations of seccomp, from <linux/seccomp.h>. These numbers never change. */
enum { SET_MODE_STRICT, SET_MODE_FILTER };

typedef long call_t(long number, ...);

/* Makes the call by instruction, until the constructor below has run. */
static long made_here(long number, ...) {
    intptr_t a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, intptr_t);
    va_end(list);
    return lm_os_syscall(number, a);
}

/* Atomic. The next definition of syscall: libc's, or that of a tool that wraps it. */
LM_HIDDEN call_t *lm_syscall_next = made_here;

static __attribute__((constructor)) void look_up(void) {
    /* Converts an object pointer to a function pointer, which POSIX promises and ISO C does not. */
    union {
        void *object;
        call_t *function;
    } next = {lm_next_definition("syscall")};
    if (next.function != NULL)
        lm_store_relaxed(&lm_syscall_next, next.function); /* relaxed: an independent word */
}

/* Ends the worker for good if seccomp sets strict mode or a filter. A filter without a program does
 * not count: see lm_prctl_shuts_in. */
static void seccomp_shuts_in(unsigned operation, intptr_t program) {
    if (operation > SET_MODE_FILTER || (operation == SET_MODE_FILTER && program == 0)) return;
    if (operation == SET_MODE_FILTER) lm_os_filter_seen((const void *)program);
    lm_purge_shut_in();
}

LM_HIDDEN call_t lm_syscall_door;
__attribute__((used)) long lm_syscall_door(long number, ...) {
    intptr_t a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, intptr_t);
    va_end(list);
    bool pauses = number == LM_CALL_UNSHARE || number == LM_CALL_SETNS;
    if (number == LM_CALL_PRCTL) lm_prctl_shuts_in((int)a[0], a[1], a[2]);
    if (number == LM_CALL_SECCOMP) seccomp_shuts_in((unsigned)a[0], a[2]);
    if (pauses) lm_purge_pause();
    /* Relaxed: an independent word. */
    long result = lm_load_relaxed(&lm_syscall_next)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (pauses) lm_purge_resume(); /* preserves errno */
    return result;
}

LM_JUMP_BY_NUMBER(syscall, lm_syscall_door, lm_syscall_next, LM_CALL_PRCTL, LM_CALL_SECCOMP,
                  LM_CALL_UNSHARE, LM_CALL_SETNS);

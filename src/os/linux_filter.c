/* linux_filter.c: whether a filter of system calls (seccomp) has come since the program started.
 *
 * override/doors.c and syscall.c see the filters that are set by libc's prctl and syscall. But a
 * static program has no doors, and a program may make the system call by instruction. So loam asks
 * the kernel before each call that filters rarely allow: before it starts a worker, before a
 * barrier, and before it asks for limits (prlimit) or for the pages in memory (mincore).
 *
 * It cannot tell anything if a filter was there from the start, as in most containers: the kernel's
 * answer is the same whether or not more filters came. A filter that kills a thread for prctl kills
 * it at this question. Such a filter would have killed it at the next call as well (decision 0031).
 */
#include "os/os.h"

#include <errno.h>
#include <sys/syscall.h>

enum { GET_SECCOMP = 21 }; /* in <linux/prctl.h>, which libc's header replaces */

/* The kernel's answer at the start. 0: no filter; otherwise a later filter cannot be detected. */
static LM_AT_START intptr_t at_start = -EINVAL;

static intptr_t ask(void) {
    (void)lm_add_relaxed(&lm_os_counts.calls, 1); /* relaxed: a statistic */
    return lm_syscall(SYS_prctl, GET_SECCOMP, 0, 0, 0, 0, 0);
}

void lm_os_filters_boot(void) { at_start = ask(); }

bool lm_os_filtered(void) {
    if (at_start != 0) return false;
    if (!lm_ask_begin()) return true; /* it has a filter, or is about to set one */
    bool filtered = ask() != 0;
    lm_ask_end();
    return filtered;
}

/* unlock.c: munlock and munlockall, which make memory purgeable again.
 *
 * The system does not take locked memory back. So loam sets aside locked memory that it has freed,
 * and tries again at growing intervals (span/give_back.c). The two definitions here make the system
 * call and then have loam try at once. Only libloam.so has them. For a program that is linked with
 * libloam.a, or that makes the system call itself, loam tries at the next interval. They fail only
 * where libc's own do.
 */
#include "api/api.h"

#include <errno.h>

static int unlock_ended(int result) {
    if (result < 0) {
        errno = -result;
        return -1;
    }
    lm_purge_unlocked(); /* preserves errno */
    return 0;
}

LM_EXPORT int munlock(const void *at, size_t bytes);
LM_EXPORT int munlock(const void *at, size_t bytes) {
    return unlock_ended(lm_os_unlock(at, bytes));
}
LM_EXPORT int munlockall(void);
LM_EXPORT int munlockall(void) { return unlock_ended(lm_os_unlock_all()); }

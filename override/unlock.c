/* unlock.c: munlock and munlockall, which make memory purgeable again.
 *
 * The system does not take locked memory back, so that loam sets aside what it has freed of it and
 * tries again at growing intervals (span/give_back.c). These two definitions make the system call
 * and then have loam try at once. They are only in libloam.so; a program that is linked with
 * libloam.a, or that makes the system call itself, is served at the next interval. They cannot fail
 * where libc's own do not.
 */
#include "api/api.h"

#include <errno.h>

static int ended(int result) {
    if (result < 0) {
        errno = -result;
        return -1;
    }
    lm_purge_unlocked(); /* keeps errno */
    return 0;
}

LM_EXPORT int munlock(const void *at, size_t bytes);
LM_EXPORT int munlock(const void *at, size_t bytes) { return ended(lm_os_unlock(at, bytes)); }
LM_EXPORT int munlockall(void);
LM_EXPORT int munlockall(void) { return ended(lm_os_unlock_all()); }

/* linux_rlimit.c: whether the process's addresses or its private memory are limited.
 *
 * RLIMIT_AS (ulimit -v) counts mapped addresses, RLIMIT_DATA (ulimit -d) private mappings that may be written. Memory
 * that was purged counts for both until it is unmapped, so that loam unmaps more where either is set (span/gone.c).
 * A limit may be set at any time, and no call tells loam: it is read each time.
 *
 * It cannot see strict overcommit or a control group's limit. A program that has shut itself in must not come here.
 */
#include "os/os.h"

#include <sys/resource.h>
#include <sys/syscall.h>

/* As in linux.c: a thread that sleeps in here sleeps inside loam. */
static LM_NOINLINE __attribute__((section("loam_calls"))) bool is_limited(int resource) {
    struct {
        uint64_t now, most;
    } limit = {UINT64_MAX, UINT64_MAX}; /* as the kernel has it on every processor */
    intptr_t got = lm_syscall(SYS_prlimit64, 0, resource, 0, (intptr_t)&limit, 0, 0);
    return got == 0 && limit.now != UINT64_MAX;
}

unsigned lm_os_limits(void) {
    return (is_limited(RLIMIT_AS) ? LM_OS_ADDRESSES_LIMITED : 0) |
           (is_limited(RLIMIT_DATA) ? LM_OS_DATA_LIMITED : 0);
}

/* linux_rlimit.c: what the system would refuse: more than the limits of the process, or more memory
 * than the machine has.
 *
 * RLIMIT_AS (ulimit -v) counts mapped addresses, RLIMIT_DATA (ulimit -d) private writable mappings.
 * Purged memory counts for both until it is unmapped, so loam unmaps more if either is set
 * (span/gone.c). A limit may be set at any time, and no call tells loam, so it is read each time.
 *
 * By default Linux refuses mappings larger than all memory and swap (vm.overcommit_memory 0),
 * except those made with MAP_NORESERVE, as loam's are. So the system is asked about a large mapping
 * by a mapping without that flag.
 *
 * It cannot see a control group's limit. In a program that has told loam that it shuts itself in,
 * it asks nothing and reports no limit.
 */
#define _GNU_SOURCE 1 /* MAP_ANONYMOUS */
#include "os/os.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/* In the section of linux.c: a thread that sleeps here sleeps inside loam. */
static LM_NOINLINE __attribute__((section("loam_calls"))) intptr_t
call(long n, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e) {
    return lm_syscall(n, a, b, c, d, e, 0);
}

/* Lowers *least to the limit, if there is one. Returns whether there is one. */
static bool rlimit_is_limited(int resource, size_t *least) {
    struct {
        uint64_t now, most;
    } limit = {UINT64_MAX, UINT64_MAX}; /* the kernel's layout on every processor */
    intptr_t got = call(SYS_prlimit64, 0, resource, 0, (intptr_t)&limit, 0);
    if (got != 0 || limit.now == UINT64_MAX) return false;
    if (limit.now < *least) *least = (size_t)limit.now;
    return true;
}

unsigned lm_os_limits(size_t *least) {
    *least = SIZE_MAX;
    if (!lm_ask_begin()) return 0;
    unsigned limits = 0;
    if (!lm_os_filtered()) /* a filter may kill for the question */
        limits = (rlimit_is_limited(RLIMIT_AS, least) ? LM_OS_ADDRESSES_LIMITED : 0) |
                 (rlimit_is_limited(RLIMIT_DATA, least) ? LM_OS_DATA_LIMITED : 0);
    lm_ask_end();
    LM_ASSERT(limits != 0 || *least == SIZE_MAX);
    return limits;
}

bool lm_os_promises(size_t bytes) {
    LM_ASSERT(bytes > 0);
    if (!lm_ask_begin()) return true;
    intptr_t at =
        call(SYS_mmap, 0, (intptr_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    bool failed = (uintptr_t)at > (uintptr_t)-4096;
    if (!failed) (void)call(SYS_munmap, at, (intptr_t)bytes, 0, 0, 0);
    lm_ask_end();
    return !failed || at != -ENOMEM;
}

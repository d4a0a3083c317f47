/* linux_numa.c: NUMA nodes, huge pages of the pool, and memory that the program provides (os.h),
 * for Linux.
 *
 *   a range    msync with MS_ASYNC does nothing, but reports memory that is not mapped.
 *              FUTEX_WAKE_OP adds 0 to a word, and reports one that cannot be read and written
 *   nodes      /sys/devices/system/node/online, a list as "0-3,8"; getcpu tells where a thread runs
 *   binding    mbind, as a preference: a node without memory is no reason to fail
 *   the pool   /proc/sys/vm/nr_hugepages and its like: mmap with MAP_HUGETLB
 *
 * Part of the port, with the rules of linux.c: every system call is made by instruction. No
 * function here is called unless the program, or an option, requests memory of a node or pages of
 * the pool.
 */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#if LOAM_OS_FAULTY
#define NUMA_PORT(name) lm_linux_##name
uint64_t NUMA_PORT(nodes)(void);
unsigned NUMA_PORT(node)(void);
bool NUMA_PORT(bind)(void *at, size_t bytes, unsigned node);
bool NUMA_PORT(pool_pages)(void *at, size_t bytes, size_t page_bytes, int node);
uint64_t NUMA_PORT(ms)(void);
#else
#define NUMA_PORT(name) lm_os_##name
#endif

/* HUGE_SHIFT: position of the logarithm of a page's size in mmap's flags. */
enum { NUMA_NODES = 64, HUGE_SHIFT = 26 };

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

/* In the section that tells a thread inside loam from others: see linux.c. */
static LM_NOINLINE __attribute__((section("loam_calls"))) intptr_t
call(long n, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f) {
    return lm_syscall(n, a, b, c, d, e, f);
}

static bool numa_failed(intptr_t result) { return (uintptr_t)result > (uintptr_t)-4096; }

/* ---- The program's memory ---- */

static bool word_is_writable(uintptr_t at) {
    static uint32_t nobody_waits;
    int add_nothing = FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_LT, 0);
    return call(SYS_futex, (intptr_t)&nobody_waits, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 1, 0,
                (intptr_t)at, add_nothing) != -EFAULT;
}

bool lm_os_writable(void *at, size_t bytes, bool shut_in) {
    uintptr_t start = (uintptr_t)at;
    LM_ASSERT(start % 4096 == 0 && bytes > 0 && bytes % 4096 == 0);
    /* It walks the maps of anonymous memory, too. */
    if (!shut_in && call(SYS_msync, (intptr_t)start, (intptr_t)bytes, MS_ASYNC, 0, 0, 0) == -ENOMEM)
        return false;
    return word_is_writable(start) && word_is_writable(start + bytes - sizeof(uint32_t));
}

/* ---- Nodes ---- */

/* Parses a list of numbers and ranges, as "0-3,8". Returns the numbers as bits, or 0 iff the list
 * is empty. */
static uint64_t parse(const char *text) {
    uint64_t nodes = 0;
    unsigned first = NUMA_NODES, number = 0;
    for (bool digits = false;; text++) {
        if (*text >= '0' && *text <= '9') {
            number = number * 10 + (unsigned)(*text - '0');
            if (number > NUMA_NODES) number = NUMA_NODES;
            digits = true;
            continue;
        }
        if (!digits) return nodes;
        if (*text == '-') {
            first = number;
        } else {
            for (unsigned i = first < number ? first : number; i <= number && i < NUMA_NODES; i++)
                nodes |= (uint64_t)1 << i;
            first = NUMA_NODES;
            if (*text != ',') return nodes;
        }
        number = 0;
        digits = false;
    }
}

uint64_t NUMA_PORT(nodes)(void) {
    char text[256];
    intptr_t file = call(SYS_openat, AT_FDCWD, (intptr_t) "/sys/devices/system/node/online",
                         O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (numa_failed(file)) return 1;
    intptr_t bytes = call(SYS_read, file, (intptr_t)text, sizeof text - 1, 0, 0, 0);
    (void)call(SYS_close, file, 0, 0, 0, 0, 0);
    LM_ASSERT(numa_failed(bytes) || (size_t)bytes < sizeof text);
    text[numa_failed(bytes) ? 0 : bytes] = '\0';
    uint64_t nodes = parse(text);
    return nodes != 0 ? nodes : 1;
}

unsigned NUMA_PORT(node)(void) {
    unsigned processor = 0, node = 0;
    if (!lm_ask_begin()) return 0;
    intptr_t got = call(SYS_getcpu, (intptr_t)&processor, (intptr_t)&node, 0, 0, 0, 0);
    lm_ask_end();
    return numa_failed(got) ? 0 : node;
}

bool NUMA_PORT(bind)(void *at, size_t bytes, unsigned node) {
    LM_ASSERT((uintptr_t)at % 4096 == 0 && bytes > 0);
    uint64_t mask = node < NUMA_NODES ? (uint64_t)1 << node : 0;
    return !numa_failed(call(SYS_mbind, (intptr_t)at, (intptr_t)bytes, MPOL_PREFERRED,
                             (intptr_t)&mask, NUMA_NODES + 1, 0));
}

/* ---- The pool ---- */

static intptr_t numa_map(void *at, size_t bytes, int flags) {
    return call(SYS_mmap, (intptr_t)at, (intptr_t)bytes, PROT_READ | PROT_WRITE,
                flags | MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static bool back(char *at, size_t bytes, size_t page_bytes) {
    intptr_t got = call(SYS_madvise, (intptr_t)at, (intptr_t)bytes, MADV_POPULATE_WRITE, 0, 0, 0);
    if (got != -EINVAL) return !numa_failed(got);
    /* An old kernel. mmap has promised the pages, so touching them cannot fail. */
    for (size_t i = 0; i < bytes; i += page_bytes) *(volatile char *)(at + i) = 0;
    return true;
}

bool NUMA_PORT(pool_pages)(void *at, size_t bytes, size_t page_bytes, int node) {
    LM_ASSERT(page_bytes == 2 * LM_MIB || page_bytes == LM_GIB);
    LM_ASSERT(bytes > 0 && ((uintptr_t)at | bytes) % page_bytes == 0);
    /* Without MAP_NORESERVE, a shortage is reported here and not at the first touch. */
    intptr_t got = numa_map(at, bytes, MAP_HUGETLB | (int)lm_log2(page_bytes) << HUGE_SHIFT);
    if (!numa_failed(got)) {
        if (node >= 0) (void)NUMA_PORT(bind)(at, bytes, (unsigned)node);
        if (back((char *)at, bytes, page_bytes)) return true;
    }
    (void)numa_map(at, bytes,
                   MAP_NORESERVE); /* the range may have been unmapped before the refusal */
    return false;
}

uint64_t NUMA_PORT(ms)(void) {
    struct timespec now = {0, 0};
    (void)call(SYS_clock_gettime, CLOCK_MONOTONIC, (intptr_t)&now, 0, 0, 0, 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* linux_state.c: what another thread does at this moment, and whether another process shares this
 * process's memory.
 *
 * /proc/self/task/N/syscall says "running", or the number of the system call in which the thread
 * sleeps (-1: in none, as in a page fault), and more. The kernel reads it only of a thread that is
 * off its processor, so whatever that thread wrote before is visible afterwards. This file cannot
 * tell why the thread sleeps, and the thread may wake up at once.
 */
#define _GNU_SOURCE 1
#include "os/os.h"

#include <fcntl.h>
#include <sys/syscall.h>

static bool state_failed(intptr_t result) { return (uintptr_t)result > (uintptr_t)-4096; }

/* Writes the path of the thread's file, at most 36 bytes. */
static void write_path(char *path, unsigned tid) {
    char digits[10];
    size_t n = 0;
    for (const char *t = "/proc/self/task/"; *t != '\0'; t++) *path++ = *t;
    do digits[n++] = (char)('0' + tid % 10);
    while ((tid /= 10) != 0);
    LM_ASSERT(n <= sizeof digits);
    while (n > 0) *path++ = digits[--n];
    for (const char *t = "/syscall"; *t != '\0'; t++) *path++ = *t;
    *path = '\0';
}

static lm_thread_state_t thread_state(unsigned tid) {
    char path[48], text[16];
    write_path(path, tid);
    intptr_t file = lm_syscall(SYS_openat, AT_FDCWD, (intptr_t)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (state_failed(file)) return LM_THREAD_UNKNOWN;
    intptr_t bytes = lm_syscall(SYS_read, file, (intptr_t)text, sizeof text - 1, 0, 0, 0);
    (void)lm_syscall(SYS_close, file, 0, 0, 0, 0, 0);
    if (state_failed(bytes) || bytes <= 0) return LM_THREAD_UNKNOWN;
    LM_ASSERT((size_t)bytes < sizeof text);
    text[bytes] = '\0';
    if (text[0] < '0' || text[0] > '9') return LM_THREAD_RUNS;
    long number = 0;
    for (const char *t = text; *t >= '0' && *t <= '9'; t++) number = number * 10 + (*t - '0');
    if (number == SYS_clone || number == SYS_clone3) return LM_THREAD_RUNS;
#ifdef SYS_fork
    if (number == SYS_fork || number == SYS_vfork) return LM_THREAD_RUNS;
#endif
    return LM_THREAD_WAITS;
}

lm_thread_state_t lm_os_thread_state(unsigned tid) {
    LM_ASSERT(tid != 0);
    if (!lm_ask_begin()) return LM_THREAD_UNKNOWN;
    lm_thread_state_t state = lm_os_filtered() ? LM_THREAD_UNKNOWN : thread_state(tid);
    lm_ask_end();
    return state;
}

bool lm_os_shares_memory(unsigned process) {
    enum { KCMP_VM = 1 };
    intptr_t own = lm_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
    return lm_syscall(SYS_kcmp, own, (intptr_t)process, KCMP_VM, 0, 0, 0) == 0;
}

/* linux_thread.c: how threads wait, how the worker starts and ends, and whether a thread sleeps.
 *
 *   worker_start ── clone ──> the worker: its stack and its control block are static
 *        ^                      │ exit: the kernel clears worker.tid and wakes the waiting thread
 *        └── worker_await <─────┘
 *
 *   the worker ── /proc/self/task/N/syscall ──> does thread N sleep, and where are its sp and pc
 *              ── process_vm_readv ───────────> does its stack hold a signal frame
 *
 * Only the kernel knows the worker as a thread. libc does not, so the worker has no thread-local
 * variables, calls nothing of libc, and receives no signals. This file cannot tell whether a thread
 * sleeps if the program has forbidden itself the system calls, or without /proc.
 *
 * Part of the port, with the rules of linux.c.
 *
 * Invariant: worker.tid is not 0 exactly while the worker runs, in the process that started it.
 */
#define _GNU_SOURCE 1 /* MADV_WIPEONFORK and the like */
#include "os/linux.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

/* In tests, faulty.c defines the name of os.h and calls this function. */
#if LOAM_OS_FAULTY
#define THREAD_PORT(name) lm_linux_##name
bool THREAD_PORT(worker_start)(void (*entry)(void));
#else
#define THREAD_PORT(name) lm_os_##name
#endif

/* ---- Waiting ---- */

void lm_os_wait(uint32_t *word, uint32_t value, uint32_t timeout_ms) {
    LM_ASSERT((uintptr_t)word % sizeof *word == 0);
    struct timespec span = {.tv_sec = timeout_ms / 1000,
                            .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    (void)lm_linux_call(SYS_futex, (intptr_t)word, FUTEX_WAIT_PRIVATE, (intptr_t)value,
                        timeout_ms == UINT32_MAX ? 0 : (intptr_t)&span, 0);
}

void lm_os_wake(uint32_t *word) {
    (void)lm_linux_call3(SYS_futex, (intptr_t)word, FUTEX_WAKE_PRIVATE, 1);
}

bool lm_os_barrier(void) {
    return !lm_linux_failed(lm_linux_call3(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
}

bool lm_os_barrier_prepare(void) {
    return !lm_linux_failed(
        lm_linux_call3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
}

void lm_os_yield(void) { (void)lm_linux_call1(SYS_sched_yield, 0); }

/* ---- The worker ---- */

enum { WORKER_STACK_BYTES = 16 * 1024, GONE_MOST = 200 };

static struct {
    /* Not 0 while the worker runs. The kernel clears it and wakes a thread that waits on it. */
    uint32_t tid;
    /* Atomic: the kernel's thread number of the last worker; 0: that worker has gone. */
    uint32_t number;
    /* Atomic: a word that reads 0 in the child of a fork; NULL before the first worker. */
    uint32_t *here;
    /* The worker's thread control block. x86-64 reads its own address at word 0. */
    uintptr_t control[16];
    unsigned char stack[WORKER_STACK_BYTES] LM_ALIGNED(64);
} worker;

#ifndef MADV_WIPEONFORK /* Linux 4.14 */
#define MADV_WIPEONFORK 18
#endif

/* Maps the page of worker.here, which the kernel fills with zeros in every copy of the process, and
 * sets its word. Returns false iff the system has no such page. */
static bool mark_process(void) {
    /* Relaxed: set once, by one starter at a time. */
    uint32_t *here = lm_load_relaxed(&worker.here);
    if (here == NULL) {
        size_t bytes = lm_os_page_bytes();
        intptr_t page = lm_linux_call(SYS_mmap, 0, (intptr_t)bytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
        if (lm_linux_failed(page)) return false;
        if (lm_linux_failed(lm_linux_call3(SYS_madvise, page, (intptr_t)bytes, MADV_WIPEONFORK))) {
            (void)lm_linux_call3(SYS_munmap, page, (intptr_t)bytes, 0);
            return false;
        }
        here = (uint32_t *)page;
        lm_store_relaxed(here, 1);
        lm_store_release(&worker.here, here); /* release: the word is readable */
    }
    lm_store_relaxed(here, 1);
    return true;
}

bool lm_os_worker_lost(void) {
    const uint32_t *here = lm_load_acquire(&worker.here); /* acquire: the word is readable */
    return here != NULL && lm_load_relaxed(here) == 0;    /* relaxed: an independent word */
}

uint64_t lm_os_signals_block(void) {
    uint64_t all = ~(uint64_t)0, before = 0;
    (void)lm_linux_call(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, (intptr_t)&all, (intptr_t)&before,
                        sizeof all, 0);
    return before;
}

void lm_os_signals_restore(uint64_t before) {
    (void)lm_linux_call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (intptr_t)&before, 0,
                        sizeof before, 0);
}

bool THREAD_PORT(worker_start)(void (*entry)(void)) {
    if (LM_TSAN) return false; /* the sanitizer must know every thread */
    /* Signals of the process must not be delivered to a thread without libc's structures. And no
     * handler of this thread may find tid set before the worker exists. */
    uint64_t before = lm_os_signals_block();
    LM_ASSERT(worker.tid == 0 && !lm_os_worker_self() && entry != NULL);
    bool marked = mark_process();
    intptr_t got = -EAGAIN;
    worker.control[0] = (uintptr_t)worker.control;
    worker.control[2] = (uintptr_t)worker.control;
    if (marked) {
        /* Relaxed: clone orders it before the new thread's accesses. */
        lm_store_relaxed(&worker.tid, 1);
        got = lm_clone_call(SYS_clone, SYS_exit,
                            CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID,
                            worker.stack + WORKER_STACK_BYTES, &worker.tid, worker.control, entry);
        if (lm_linux_failed(got)) lm_store_relaxed(&worker.tid, 0);
    }
    lm_store_relaxed(&worker.number, lm_linux_failed(got) ? 0 : (uint32_t)got);
    lm_os_signals_restore(before);
    return !lm_linux_failed(got);
}

bool lm_os_worker_running(void) {
    /* Acquire: once the worker is gone, its last writes are visible. */
    return lm_load_acquire(&worker.tid) != 0 && !lm_os_worker_lost();
}

bool lm_os_worker_await(uint32_t timeout_ms) {
    struct timespec span = {.tv_sec = timeout_ms / 1000,
                            .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    if (!lm_os_worker_running()) return true;
    /* A shared futex, not a private one: the kernel wakes a shared futex at the end of a thread. */
    (void)lm_linux_call(SYS_futex, (intptr_t)&worker.tid, FUTEX_WAIT, 1, (intptr_t)&span, 0);
    if (lm_os_worker_running()) return false;
    /* The kernel wakes one thread only, and several may wait. */
    (void)lm_linux_call3(SYS_futex, (intptr_t)&worker.tid, FUTEX_WAKE, __INT_MAX__);
    return true;
}

void lm_os_worker_join(void) {
    LM_ASSERT(!lm_os_worker_self());
    while (!lm_os_worker_await(1000)) {}
    /* The kernel counts the worker among the threads of the process for a moment longer, and
     * unshare counts threads. The wait is bounded, because the number may be another thread's by
     * now. */
    uint32_t number = lm_load_relaxed(&worker.number);
    for (int i = 0; i < GONE_MOST && number != 0; i++) {
        if (lm_linux_failed(
                lm_linux_call3(SYS_tgkill, (intptr_t)lm_os_process(), (intptr_t)number, 0)))
            break;
        lm_os_nap((unsigned)i);
    }
    lm_store_relaxed(&worker.number, 0);
}

void lm_os_worker_forget(void) {
    uint32_t *here = lm_load_relaxed(&worker.here); /* relaxed: the child has one thread */
    LM_ASSERT(!lm_os_worker_self());
    worker.tid = worker.number = 0;
    if (here != NULL) lm_store_relaxed(here, 1);
}

void lm_os_worker_exit(void) {
    LM_ASSERT(lm_os_worker_self());
    for (;;) (void)lm_linux_call1(SYS_exit, 0);
}

bool lm_os_worker_self(void) { return lm_thread_token() == (uintptr_t)worker.control; }

/* ---- Whether a thread sleeps ---- */

/* A thread in a signal handler may have been interrupted anywhere, also in malloc. Into each signal
 * frame the kernel writes the handler's return address: the restorer that libc installed with the
 * handler. So a stack that does not contain that address contains no signal frame. */
enum { SIGNALS = 64, STACK_MOST = 256 * 1024, STACK_PART = 4096 /* bytes read at a time */ };

/* Restorers of all handlers ever seen: one that is no longer installed may still be running. Only a
 * thread that collects from all heaps accesses them, under the lock of their registry. */
static struct {
    uintptr_t address[4];
    size_t count;
    bool unknown; /* there are handlers whose restorer is not known */
} restorers;

static void learn_restorer(uintptr_t address) {
    LM_ASSERT(restorers.count <= sizeof restorers.address / sizeof restorers.address[0]);
    for (size_t i = 0; i < restorers.count; i++) {
        if (restorers.address[i] == address) return;
    }
    if (restorers.count == sizeof restorers.address / sizeof restorers.address[0])
        restorers.unknown = true;
    else
        restorers.address[restorers.count++] = address;
}

static bool handlers_known(void) {
    struct {
        uintptr_t handler, flags, restorer;
        uint64_t mask;
    } action;
    size_t count = restorers.count;
    for (int n = 1; n <= SIGNALS && !restorers.unknown; n++) {
        action.handler = 0;
        if (lm_linux_failed(
                lm_linux_call(SYS_rt_sigaction, n, 0, (intptr_t)&action, sizeof action.mask, 0)))
            continue;
        if (action.handler <= 1) continue; /* the default action, or ignored */
        if (LM_SIGNAL_RESTORER && (action.flags & 0x04000000) != 0)
            learn_restorer(action.restorer);
        else
            restorers.unknown = true;
    }
    return !restorers.unknown && restorers.count == count;
}

bool lm_os_handlers_known(void) {
    if (!lm_ask_begin()) return false;
    bool known = handlers_known();
    lm_ask_end();
    return known;
}

/* Reads a stack by a system call, because memory below a thread's top need not be its stack, or
 * mapped: the thread may run a coroutine, whose stack ends at a guard, or memory that another
 * thread unmaps meanwhile. Returns false iff some of it cannot be read, or the system forbids the
 * call. */
static bool read_stack(uintptr_t at, uintptr_t *words, size_t bytes) {
    LM_ASSERT(bytes > 0 && bytes <= STACK_PART);
    struct iovec to = {words, bytes}, from = {(void *)at, bytes};
    intptr_t got = lm_syscall(SYS_process_vm_readv, (intptr_t)lm_os_process(), (intptr_t)&to, 1,
                              (intptr_t)&from, 1, 0);
    /* Relaxed: a statistic. */
    (void)lm_add_relaxed(&lm_os_counts.calls, 1);
    return got == (intptr_t)bytes;
}

static bool no_signal_frame(uintptr_t sp, uintptr_t top) {
    uintptr_t words[STACK_PART / sizeof(uintptr_t)];
    /* sp is not on the thread's own stack (but on an alternate one, or a coroutine's), or the stack
     * is too deep to search. */
    if (sp >= top || top - sp > STACK_MOST || restorers.unknown) return false;
    uintptr_t at = sp & ~(uintptr_t)7, end = top & ~(uintptr_t)7;
    for (size_t bytes = 0; restorers.count > 0 && at < end; at += bytes) {
        bytes = end - at < sizeof words ? end - at : sizeof words;
        LM_ASSERT(bytes % sizeof words[0] == 0);
        if (!read_stack(at, words, bytes)) return false;
        for (size_t w = 0; w < bytes / sizeof words[0]; w++) {
            for (size_t i = 0; i < restorers.count; i++) {
                /* The analyzer does not see that the system call has written the words. */
                // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult)
                if (words[w] == restorers.address[i]) return false;
            }
        }
    }
    return true;
}

uintptr_t lm_os_stack_top(void) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), main_top = lm_os_main_top();
    /* libc keeps a thread's control block at the top of its stack; the main thread's block lies
     * elsewhere. */
    return main_top > here && main_top - here < STACK_MOST ? main_top : lm_thread_token();
}

static const char *hexadecimal(const char *text, uintptr_t *value) {
    text += 3; /* " 0x" */
    for (*value = 0; *text > ' '; text++) {
        *value = *value * 16 + (uintptr_t)(*text <= '9' ? *text - '0' : *text - 'a' + 10);
    }
    return text;
}

bool lm_os_thread_gone(unsigned tid) {
    LM_ASSERT(tid != 0);
    if (!lm_ask_begin()) return false;
    intptr_t got = lm_linux_call3(SYS_tgkill, (intptr_t)lm_os_process(), (intptr_t)tid, 0);
    lm_ask_end();
    return got == -ESRCH;
}

/* /proc/self/task/N/syscall says "running", or the number of the call (-1: none, a page fault), six
 * arguments, stack pointer and program counter. The kernel reads them only of a thread that is off
 * its processor, so whatever that thread did before is visible to this one. */
static bool thread_sleeps(unsigned tid, uintptr_t stack_top) {
    char path[48] = "/proc/self/task/", text[256], digits[10];
    size_t end = 16, n = 0;
    do digits[n++] = (char)('0' + tid % 10);
    while ((tid /= 10) != 0);
    LM_ASSERT(n <= sizeof digits);
    while (n > 0) path[end++] = digits[--n];
    for (const char *t = "/syscall"; *t != '\0'; t++) path[end++] = *t;
    LM_ASSERT(end < sizeof path);
    path[end] = '\0';
    if (!lm_linux_read_file(path, text, sizeof text) || text[0] < '0' || text[0] > '9')
        return false;
    long number = 0;
    const char *t = text;
    for (; *t >= '0' && *t <= '9'; t++) number = number * 10 + (*t - '0');
    /* A thread that waits for a child that shares its memory may be running as that child. */
    if (number == SYS_clone || number == SYS_clone3) return false;
#ifdef SYS_vfork
    if (number == SYS_vfork) return false;
#endif
    uintptr_t value, sp, pc;
    for (int i = 0; i < 6 && *t == ' '; i++) t = hexadecimal(t, &value);
    if (*t != ' ') return false;
    t = hexadecimal(t, &sp);
    if (*t != ' ') return false;
    (void)hexadecimal(t, &pc);
    if (pc - (uintptr_t)__start_loam_calls <= (uintptr_t)(__stop_loam_calls - __start_loam_calls))
        return false;
    return no_signal_frame(sp, stack_top);
}

bool lm_os_thread_sleeps(unsigned tid, uintptr_t stack_top) {
    if (!lm_ask_begin()) return false;
    bool sleeps = thread_sleeps(tid, stack_top);
    lm_ask_end();
    return sleeps;
}

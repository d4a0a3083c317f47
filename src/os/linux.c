/* linux.c: the promises of os.h kept by Linux (x86-64 and aarch64, kernel 4.17 or newer).
 *
 * With the other linux_*.c the only file of the project that knows Linux. Every system call is made by instruction,
 * not by libc (see lm_syscall). Once started, a program is asked for mmap, madvise, futex and nothing else, and
 * clone, membarrier, mremap, mprotect, mincore and process_vm_readv only while the program has not shut itself in (see
 * override/doors.c).
 * No thread-local variable may be used here: the worker has none. It is compiled without stack
 * protector for the same reason.
 */
#define _GNU_SOURCE 1 /* mremap's flags */
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

/* Under test, faulty.c takes the contract's names and calls these. */
#if LOAM_OS_FAULTY
#define PORT(name) lm_linux_##name
uintptr_t PORT(place)(size_t *bytes, bool *reserved);
void *PORT(reserve)(size_t bytes);
lm_commit_t PORT(commit)(void *at, size_t bytes, bool reserved);
bool PORT(purge)(void *at, size_t bytes);
bool PORT(move)(void *from, size_t old_bytes, void *to, size_t new_bytes, bool *hole);
bool PORT(protect)(void *at, size_t bytes, bool allow);
bool PORT(unguard)(void *at, size_t bytes, bool shut_in);
bool PORT(mark)(void *at, size_t bytes);
bool PORT(unmark)(void *at, size_t bytes);
bool PORT(worker_start)(void (*entry)(void));
#else
#define PORT(name) lm_os_##name
#endif

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

lm_os_counts_t lm_os_counts;

/* Relaxed: for who asks for statistics. */
LM_INLINE void count(long n) {
    (void)lm_add_relaxed(&lm_os_counts.calls, 1);
    if (n == SYS_mmap) (void)lm_add_relaxed(&lm_os_counts.maps, 1);
    if (n == SYS_munmap) (void)lm_add_relaxed(&lm_os_counts.unmaps, 1);
    if (n == SYS_madvise) (void)lm_add_relaxed(&lm_os_counts.advices, 1);
}

/* Every call of loam's is made here and nowhere else: a thread that sleeps in the kernel with its
 * program counter in here sleeps inside loam. (The worker's start is the exception.) */
static LM_NOINLINE __attribute__((section("loam_calls"))) intptr_t
call(long n, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e) {
    count(n);
    return lm_syscall(n, a, b, c, d, e, 0);
}

extern const char __start_loam_calls[] LM_HIDDEN, __stop_loam_calls[] LM_HIDDEN; /* by the linker */

static intptr_t call1(long n, intptr_t a) { return call(n, a, 0, 0, 0, 0); }
static intptr_t call3(long n, intptr_t a, intptr_t b, intptr_t c) { return call(n, a, b, c, 0, 0); }

static bool failed(intptr_t result) { return (uintptr_t)result > (uintptr_t)-4096; }

static intptr_t map(void *at, size_t bytes, int protection, int flags) {
    return call(SYS_mmap, (intptr_t)at, (intptr_t)bytes, protection,
                flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/* ---- Memory ---- */

/* The kernel puts programs, libraries and maps at the ends of the address space, and leaves its middle
 * empty: an arena there can grow in place without having reserved anything, so that RLIMIT_AS, strict
 * overcommit, mlockall and the eye of who reads VSZ see only what is in use. The main stack shows how
 * large the space is: 47 bits on x86-64, 39 to 48 on aarch64. */
static uintptr_t place_in_the_middle(size_t *bytes) {
    uintptr_t on_main_stack = lm_os_main_top();
    size_t quarter = (size_t)1 << (lm_log2(on_main_stack | 4) - 1);
    if (quarter < ((size_t)1 << 36)) return 0;
    if (*bytes > quarter) *bytes = quarter;
    return lm_align_down(quarter + lm_os_random() % quarter, 2 * LM_MIB);
}

uintptr_t PORT(place)(size_t *bytes, bool *reserved) {
    *reserved = false;
    uintptr_t place = LM_TSAN ? 0 : place_in_the_middle(bytes);
    /* This also shows whether the system lets us in at all (an emulator or a tool may not). */
    if (place != 0 && PORT(commit)((void *)place, LM_OS_UNIT, false) == LM_COMMIT_DONE)
        return place;
    /* Otherwise the largest range that the system will reserve; ThreadSanitizer knows where libc's maps
     * lie, and those are no larger than this. */
    if (LM_TSAN && *bytes > 64 * LM_GIB) *bytes = 64 * LM_GIB;
    for (; *bytes >= 64 * LM_MIB; *bytes /= 2) {
        intptr_t at = map(NULL, *bytes + 2 * LM_MIB, PROT_NONE, 0);
        if (failed(at)) continue;
        place = lm_align_up((uintptr_t)at, 2 * LM_MIB);
        *reserved = PORT(commit)((void *)place, LM_OS_UNIT, true) == LM_COMMIT_DONE;
        if (*reserved) return place;
        (void)call3(SYS_munmap, at, (intptr_t)(*bytes + 2 * LM_MIB), 0);
    }
    return 0;
}

void *PORT(reserve)(size_t bytes) {
    size_t align = bytes >= 2 * LM_MIB ? 2 * LM_MIB : LM_OS_UNIT;
    if (bytes > (size_t)PTRDIFF_MAX - align) return NULL;
    intptr_t found = map(NULL, bytes + align, PROT_NONE, 0);
    if (failed(found)) return NULL;
    /* What lies before and behind the aligned range was only there to find it. */
    uintptr_t whole = (uintptr_t)found, at = lm_align_up(whole, align), end = at + bytes;
    if (at > whole) (void)call3(SYS_munmap, found, (intptr_t)(at - whole), 0);
    if (whole + align > at)
        (void)call3(SYS_munmap, (intptr_t)end, (intptr_t)(whole + align - at), 0);
    return (void *)at;
}

lm_commit_t PORT(commit)(void *at, size_t bytes, bool reserved) {
    (void)lm_add_relaxed(&lm_os_counts.commits, 1); /* relaxed: as above */
    intptr_t got =
        map(at, bytes, PROT_READ | PROT_WRITE, reserved ? MAP_FIXED : MAP_FIXED_NOREPLACE);
    if (got == (intptr_t)at) return LM_COMMIT_DONE;
    if (failed(got)) return got == -EEXIST ? LM_COMMIT_TAKEN : LM_COMMIT_NO_MEMORY;
    (void)call3(SYS_munmap, got, (intptr_t)bytes, 0); /* an old kernel took it as a hint */
    return LM_COMMIT_TAKEN;
}

/* Where a sandbox forbids madvise, with whatever error it was told to give, the kernel does not even take
 * an empty range. Then new memory replaces the old one. That costs more: the lock of the process's map is
 * taken alone, and page tables are built anew. */
bool PORT(purge)(void *at, size_t bytes) {
    if (call3(SYS_madvise, (intptr_t)at, (intptr_t)bytes, MADV_DONTNEED) == 0) return true;
    if (call3(SYS_madvise, (intptr_t)at, 0, MADV_DONTNEED) == 0) return false; /* locked */
    return !failed(map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED));
}

int lm_os_unlock(const void *at, size_t bytes) {
    return (int)call3(SYS_munlock, (intptr_t)at, (intptr_t)bytes, 0);
}

int lm_os_unlock_all(void) { return (int)call1(SYS_munlockall, 0); }

bool PORT(protect)(void *at, size_t bytes, bool allow) {
    int protection = allow ? PROT_READ | PROT_WRITE : PROT_NONE;
    return call3(SYS_mprotect, (intptr_t)at, (intptr_t)bytes, protection) == 0;
}

/* Memory of different advice is not joined; and this advice means nothing for memory that is no file's. */
void lm_os_keep_apart(void *at, size_t bytes) {
    (void)call3(SYS_madvise, (intptr_t)at, (intptr_t)bytes, MADV_RANDOM);
}

/* Fails where the kernel has no huge pages: all the better. */
void lm_os_no_huge_pages(void *at, size_t bytes) {
    (void)call3(SYS_madvise, (intptr_t)at, (intptr_t)bytes, MADV_NOHUGEPAGE);
}

void lm_os_huge_pages(void *at, size_t bytes) {
    (void)call3(SYS_madvise, (intptr_t)at, (intptr_t)bytes, MADV_HUGEPAGE);
}

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

bool lm_os_populate(void *at, size_t bytes) {
    return !failed(call3(SYS_madvise, (intptr_t)at, (intptr_t)bytes, MADV_POPULATE_WRITE));
}

bool lm_os_resident(const void *at) {
    unsigned char pages[1] = {0};
    uintptr_t page = lm_align_down((uintptr_t)at, lm_os_page_bytes());
    return !failed(call3(SYS_mincore, (intptr_t)page, 1, (intptr_t)pages)) && (pages[0] & 1) != 0;
}

size_t lm_os_resident_pages(const void *at, size_t bytes) {
    unsigned char pages[512] = {0}; /* by the call; the worker's stack is small */
    size_t page_bytes = lm_os_page_bytes(), left = bytes / page_bytes, count = 0;
    if (lm_os_filtered()) return SIZE_MAX;
    for (uintptr_t from = (uintptr_t)at; left > 0;) {
        size_t n = left < sizeof pages ? left : sizeof pages;
        if (failed(call3(SYS_mincore, (intptr_t)from, (intptr_t)(n * page_bytes), (intptr_t)pages)))
            return SIZE_MAX;
        for (size_t i = 0; i < n; i++) count += pages[i] & 1u;
        from += n * page_bytes;
        left -= n;
    }
    return count;
}

bool PORT(unguard)(void *at, size_t bytes, bool shut_in) {
    if (shut_in) {
        /* A sandbox that answers instead of killing may allow mprotect. Without memory there is no answer. */
        intptr_t got = map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED);
        if (!failed(got) || got == -ENOMEM) return !failed(got);
    }
    return !failed(call3(SYS_mprotect, (intptr_t)at, (intptr_t)bytes, PROT_READ | PROT_WRITE));
}

#ifndef MADV_GUARD_INSTALL /* Linux 6.13 */
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

bool PORT(mark)(void *at, size_t bytes) {
    return !failed(call3(SYS_madvise, (intptr_t)at, (intptr_t)bytes, MADV_GUARD_INSTALL));
}

bool PORT(unmark)(void *at, size_t bytes) {
    return !failed(call3(SYS_madvise, (intptr_t)at, (intptr_t)bytes, MADV_GUARD_REMOVE));
}

void lm_os_back_huge(void *at) {
    lm_os_huge_pages(at, 2 * LM_MIB);
    *(volatile char *)at = 0;
    lm_os_no_huge_pages(at, 2 * LM_MIB); /* what is there stays; what was purged stays purged */
}

uint64_t lm_os_thread_us(void) {
    struct timespec now = {0, 0};
    (void)call3(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (intptr_t)&now, 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t lm_os_clock_us(void) {
    struct timespec now = {0, 0};
    (void)call3(SYS_clock_gettime, CLOCK_MONOTONIC, (intptr_t)&now, 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t in_us(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

void lm_os_usage(lm_os_usage_t *usage) {
    struct rusage now = {0};
    (void)call3(SYS_getrusage, RUSAGE_SELF, (intptr_t)&now, 0);
    *usage = (lm_os_usage_t){
        .user_us = in_us(now.ru_utime),
        .system_us = in_us(now.ru_stime),
        .faults = (uint64_t)now.ru_minflt,
        .disk_faults = (uint64_t)now.ru_majflt,
        .resident_most = (uint64_t)now.ru_maxrss * 1024,
    };
}

unsigned lm_os_processors(void) {
    /* The most that Linux can be built for: with less, the call may fail. */
    uint64_t mask[128] = {0};
    intptr_t got =
        call3(SYS_sched_getaffinity, (intptr_t)lm_os_process(), sizeof mask, (intptr_t)mask);
    int n = 0;
    for (intptr_t i = 0; i < got / 8; i++) n += __builtin_popcountll(mask[i]);
    return n > 0 ? (unsigned)n : 1;
}

bool lm_os_release(void *at, size_t bytes, bool reserved) {
    return !failed(reserved ? map(at, bytes, PROT_NONE, MAP_FIXED)
                            : call3(SYS_munmap, (intptr_t)at, (intptr_t)bytes, 0));
}

static bool remap(void *from, size_t old_bytes, void *to, size_t new_bytes) {
    return !failed(call(SYS_mremap, (intptr_t)from, (intptr_t)old_bytes, (intptr_t)new_bytes,
                        MREMAP_MAYMOVE | MREMAP_FIXED, (intptr_t)to));
}

enum { REFUSALS_MOST = 64 };

/* Piece by piece, where the source lies in several of the kernel's maps: memory that was moved here and what it grew
 * into are never joined. Kernels from 6.17 on take that at once; for others the borders are found by halving. The
 * pieces of one map become one again. Returns the bytes moved, from the start. */
static size_t remap_pieces(char *from, size_t bytes, char *to, unsigned *refusals) {
    intptr_t got = call(SYS_mremap, (intptr_t)from, (intptr_t)bytes, (intptr_t)bytes,
                        MREMAP_MAYMOVE | MREMAP_FIXED, (intptr_t)to);
    if (!failed(got)) return bytes;
    size_t half = lm_align_up(bytes / 2, lm_os_page_bytes());
    if (got != -EFAULT || half == bytes || ++*refusals == REFUSALS_MOST) return 0;
    size_t done = remap_pieces(from, half, to, refusals);
    if (done < half) return done;
    return half + remap_pieces(from + half, bytes - half, to + half, refusals);
}

/* Maps what a move has left, or may have left, without memory. A sandbox may refuse to replace mappings, and
 * yet allow new ones; then a range that is taken was never unmapped. Returns false iff it is a hole still. */
static bool fill_hole(void *at, size_t bytes) {
    if (!failed(map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED))) return true;
    intptr_t got = map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
    if (got == (intptr_t)at || got == -EEXIST) return true;
    if (!failed(got)) (void)call3(SYS_munmap, got, (intptr_t)bytes, 0); /* an old kernel's hint */
    return false;
}

/* Undoes a move of so many bytes. Pages that the kernel does not move back are copied. */
static void move_back(char *from, size_t bytes, char *to) {
    unsigned refusals = 0;
    size_t done = remap_pieces(to, bytes, from, &refusals);
    if (done == bytes || !fill_hole(from + done, bytes - done)) return;
    __builtin_memcpy(from + done, to + done, bytes - done);
}

bool PORT(move)(void *from, size_t old_bytes, void *to, size_t new_bytes, bool *hole) {
    bool moved = remap(from, old_bytes, to, new_bytes);
    *hole = false;
    if (!moved) {
        /* Kernels before 6.17 unmap the target even where they then refuse, as for a source of several mappings. */
        *hole = !fill_hole(to, new_bytes);
        if (*hole) return false;
        unsigned refusals = 0;
        size_t done = remap_pieces((char *)from, old_bytes, (char *)to, &refusals);
        moved = done == old_bytes;
        if (!moved && done > 0) move_back((char *)from, done, (char *)to);
    }
    *hole = !(moved ? fill_hole(from, old_bytes) : fill_hole(to, new_bytes));
    return moved;
}

/* ---- Waiting ---- */

void lm_os_wait(uint32_t *word, uint32_t value, uint32_t timeout_ms) {
    struct timespec span = {.tv_sec = timeout_ms / 1000,
                            .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    (void)call(SYS_futex, (intptr_t)word, FUTEX_WAIT_PRIVATE, (intptr_t)value,
               timeout_ms == UINT32_MAX ? 0 : (intptr_t)&span, 0);
}

void lm_os_wake(uint32_t *word) { (void)call3(SYS_futex, (intptr_t)word, FUTEX_WAKE_PRIVATE, 1); }

bool lm_os_barrier(void) {
    return !failed(call3(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
}

bool lm_os_barrier_prepare(void) {
    return !failed(call3(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
}

void lm_os_yield(void) { (void)call1(SYS_sched_yield, 0); }

/* ---- The worker ---- */

enum { WORKER_STACK_BYTES = 16 * 1024, GONE_MOST = 200 };

static struct {
    uint32_t tid;    /* not 0 while it runs; the kernel clears it and wakes a thread that waits */
    uint32_t number; /* atomic: of the last one, as the kernel counts threads; 0: it has gone */
    uint32_t *here;  /* atomic: a word that reads 0 in the child of a fork; NULL before the first */
    uintptr_t control[16]; /* a thread control block: x86-64 reads its own address at word 0 */
    unsigned char stack[WORKER_STACK_BYTES] LM_ALIGNED(64);
} worker;

#ifndef MADV_WIPEONFORK /* Linux 4.14 */
#define MADV_WIPEONFORK 18
#endif

/* Maps the page of worker.here, which the kernel fills with zeros in every copy of the process. Returns
 * false iff the system has no such page. */
static bool mark_process(void) {
    uint32_t *here =
        lm_load_relaxed(&worker.here); /* relaxed: set once, by one starter at a time */
    if (here == NULL) {
        size_t bytes = lm_os_page_bytes();
        intptr_t page = map(NULL, bytes, PROT_READ | PROT_WRITE, 0);
        if (failed(page)) return false;
        if (failed(call3(SYS_madvise, page, (intptr_t)bytes, MADV_WIPEONFORK))) {
            (void)call3(SYS_munmap, page, (intptr_t)bytes, 0);
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
    const uint32_t *here = lm_load_acquire(&worker.here); /* acquire: as above */
    return here != NULL && lm_load_relaxed(here) == 0;    /* relaxed: a word by itself */
}

uint64_t lm_os_signals_block(void) {
    uint64_t all = ~(uint64_t)0, before = 0;
    (void)call(SYS_rt_sigprocmask, 0 /* SIG_BLOCK */, (intptr_t)&all, (intptr_t)&before, sizeof all,
               0);
    return before;
}

void lm_os_signals_restore(uint64_t before) {
    (void)call(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, (intptr_t)&before, 0, sizeof before, 0);
}

bool PORT(worker_start)(void (*entry)(void)) {
    if (LM_TSAN) return false; /* the sanitizer must know every thread */
    /* The process's signals must not be delivered to a thread without libc's structures; and no handler of
     * this thread finds tid set where there is no thread yet. */
    uint64_t before = lm_os_signals_block();
    LM_ASSERT(worker.tid == 0);
    bool marked = mark_process();
    intptr_t got = -EAGAIN;
    worker.control[0] = (uintptr_t)worker.control;
    worker.control[2] = (uintptr_t)worker.control;
    if (marked) {
        lm_store_relaxed(&worker.tid, 1); /* relaxed: the new thread cannot be older */
        got = lm_clone_call(SYS_clone, SYS_exit,
                            CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                                CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID,
                            worker.stack + WORKER_STACK_BYTES, &worker.tid, worker.control, entry);
        if (failed(got)) lm_store_relaxed(&worker.tid, 0);
    }
    lm_store_relaxed(&worker.number, failed(got) ? 0 : (uint32_t)got);
    lm_os_signals_restore(before);
    return !failed(got);
}

bool lm_os_worker_running(void) {
    /* Acquire: its last writes are visible once it is gone. */
    return lm_load_acquire(&worker.tid) != 0 && !lm_os_worker_lost();
}

bool lm_os_worker_await(uint32_t timeout_ms) {
    struct timespec span = {.tv_sec = timeout_ms / 1000,
                            .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    if (!lm_os_worker_running()) return true;
    /* Shared, not private: that is how the kernel wakes at the end of a thread. */
    (void)call(SYS_futex, (intptr_t)&worker.tid, FUTEX_WAIT, 1, (intptr_t)&span, 0);
    if (lm_os_worker_running()) return false;
    /* The kernel wakes one thread only, and several may wait at a time. */
    (void)call3(SYS_futex, (intptr_t)&worker.tid, FUTEX_WAKE, __INT_MAX__);
    return true;
}

void lm_os_worker_join(void) {
    while (!lm_os_worker_await(1000)) {}
    /* The kernel counts it among the process's threads for a moment longer, and unshare counts them. Not for ever:
     * its number may be another thread's by now. */
    uint32_t number = lm_load_relaxed(&worker.number);
    for (int i = 0; i < GONE_MOST && number != 0; i++) {
        if (failed(call3(SYS_tgkill, (intptr_t)lm_os_process(), (intptr_t)number, 0))) break;
        lm_os_nap((unsigned)i);
    }
    lm_store_relaxed(&worker.number, 0);
}

void lm_os_worker_forget(void) {
    uint32_t *here = lm_load_relaxed(&worker.here); /* relaxed: the child has one thread */
    worker.tid = worker.number = 0;
    if (here != NULL) lm_store_relaxed(here, 1);
}

void lm_os_worker_exit(void) {
    for (;;) (void)call1(SYS_exit, 0);
}

bool lm_os_worker_self(void) { return lm_thread_token() == (uintptr_t)worker.control; }

/* ---- The process ---- */

/* The first bytes of a file, as text; false iff it cannot be read. */
static bool read_file(const char *path, char *text, size_t most) {
    intptr_t file = call(SYS_openat, AT_FDCWD, (intptr_t)path, O_RDONLY | O_CLOEXEC, 0, 0);
    if (failed(file)) return false;
    intptr_t bytes = call3(SYS_read, file, (intptr_t)text, (intptr_t)most - 1);
    (void)call1(SYS_close, file);
    if (failed(bytes) || bytes <= 0) return false;
    text[bytes] = '\0';
    return true;
}

size_t lm_os_resident_bytes(void) {
    char text[64];
    if (!read_file("/proc/self/statm", text, sizeof text)) return 0;
    size_t field = 0, pages = 0;
    for (const char *t = text; *t != '\0' && field < 2; t++) {
        if (*t == ' ')
            field++;
        else if (field == 1)
            pages = pages * 10 + (size_t)(*t - '0');
    }
    return pages * lm_os_page_bytes();
}

/* ---- Whether a thread sleeps ---- */

/* A thread in a signal handler may have been interrupted anywhere, in malloc too. The kernel writes the
 * handler's way back, the restorer that libc installed with it, into each signal frame: so a stack that
 * does not hold that address holds no signal frame. */
enum { SIGNALS = 64, STACK_MOST = 256 * 1024, STACK_PART = 4096 /* bytes read at a time */ };

/* Of all handlers ever seen: one that is no longer installed may still be running. Only the worker looks. */
static struct {
    uintptr_t address[4];
    size_t count;
    bool unknown; /* handlers whose way back is not known */
} restorers;

static void learn_restorer(uintptr_t address) {
    for (size_t i = 0; i < restorers.count; i++) {
        if (restorers.address[i] == address) return;
    }
    if (restorers.count == sizeof restorers.address / sizeof restorers.address[0])
        restorers.unknown = true;
    else
        restorers.address[restorers.count++] = address;
}

bool lm_os_handlers_known(void) {
    struct {
        uintptr_t handler, flags, restorer;
        uint64_t mask;
    } action;
    size_t count = restorers.count;
    for (int n = 1; n <= SIGNALS && !restorers.unknown; n++) {
        action.handler = 0;
        if (failed(call(SYS_rt_sigaction, n, 0, (intptr_t)&action, sizeof action.mask, 0)))
            continue;
        if (action.handler <= 1) continue; /* default, ignored */
        if (LM_SIGNAL_RESTORER && (action.flags & 0x04000000) != 0)
            learn_restorer(action.restorer);
        else
            restorers.unknown = true;
    }
    return !restorers.unknown && restorers.count == count;
}

/* Reads a stack by a system call, because not all below a thread's top need be its stack, or mapped: it
 * may run a coroutine, behind whose stack lies a guard, or memory that another thread unmaps meanwhile.
 * Returns false iff some of it cannot be read, or the system forbids the call. */
static bool read_stack(uintptr_t at, uintptr_t *words, size_t bytes) {
    struct iovec to = {words, bytes}, from = {(void *)at, bytes};
    intptr_t got = lm_syscall(SYS_process_vm_readv, (intptr_t)lm_os_process(), (intptr_t)&to, 1,
                              (intptr_t)&from, 1, 0);
    (void)lm_add_relaxed(&lm_os_counts.calls, 1); /* relaxed: as in count */
    return got == (intptr_t)bytes;
}

static bool no_signal_frame(uintptr_t sp, uintptr_t top) {
    uintptr_t words[STACK_PART / sizeof(uintptr_t)];
    /* Not its own stack (an alternate one, a coroutine's), or too deep to look through. */
    if (sp >= top || top - sp > STACK_MOST || restorers.unknown) return false;
    uintptr_t at = sp & ~(uintptr_t)7, end = top & ~(uintptr_t)7;
    for (size_t bytes = 0; restorers.count > 0 && at < end; at += bytes) {
        bytes = end - at < sizeof words ? end - at : sizeof words;
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
    /* libc keeps a thread's control block at the top of its stack; the main thread's lies elsewhere. */
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
    return call3(SYS_tgkill, (intptr_t)lm_os_process(), (intptr_t)tid, 0) == -ESRCH;
}

/* /proc/self/task/N/syscall says "running", or the number of the call (-1: none, a page fault), six
 * arguments, stack pointer and program counter. The kernel looks only at a thread that is off its
 * processor, so that whatever that thread did before is visible to us. */
bool lm_os_thread_sleeps(unsigned tid, uintptr_t stack_top) {
    char path[48] = "/proc/self/task/", text[256], digits[10];
    size_t end = 16, n = 0;
    do digits[n++] = (char)('0' + tid % 10);
    while ((tid /= 10) != 0);
    while (n > 0) path[end++] = digits[--n];
    for (const char *t = "/syscall"; *t != '\0'; t++) path[end++] = *t;
    path[end] = '\0';
    if (!read_file(path, text, sizeof text) || text[0] < '0' || text[0] > '9') return false;
    long number = 0;
    const char *t = text;
    for (; *t >= '0' && *t <= '9'; t++) number = number * 10 + (*t - '0');
    /* Who waits for a child that shares its memory may be running as that child. */
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

/* ---- What base/check.h asks of the port ---- */

#if LOAM_METER
intptr_t lm_os_write(int file, const char *text, size_t bytes) {
    return call3(SYS_write, file, (intptr_t)text, (intptr_t)bytes);
}
#endif

unsigned lm_os_process(void) { return (unsigned)call1(SYS_getpid, 0); }

unsigned lm_port_thread_id(void) { return (unsigned)call1(SYS_gettid, 0); }

void lm_port_abort(void) {
    lm_port_report_begin(); /* another thread's report ends first, and no more begins */
    abort();
}

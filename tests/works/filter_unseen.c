/* 
 * filter_unseen.c - a program that sets a filter of system calls without saying so by prctl goes
 * on, and what it frees goes back to the system.
 *
 *   filter_unseen libc          by libc's syscall, as libseccomp does: kills for all but nine calls
 *   filter_unseen advice        the same, and it kills for madvise, by number and by what is
 *                               advised
 *   filter_unseen instruction   by instruction: allows what glibc's malloc needs, prctl, and the
 *                               clock
 *   filter_unseen before        by libc's syscall, under a filter that was there from the start
 *   filter_unseen probe         questions whether the kernel has filters leave loam as it was
 *   filter_unseen amid          by libc's syscall, for all threads, at any moment of what others do
 *   filter_unseen number        unshare, setns and other calls by number work as ever
 *
 * Root needs no promise (PR_SET_NO_NEW_PRIVS) before a filter. Other users make it in the way in
 * which they set the filter. Each filter is tried at the start and while the worker runs, for one
 * thread and for all (TSYNC), with one thread and with two. Only a filter by instruction for all of
 * two threads is left out: no allocator can know of it in time. The child stays in its sandbox
 * while its parent measures what it holds.
 *
 * Catches: an allocator that starts a thread in such a sandbox, or makes any other call that malloc
 * does not need; one whose thread is killed at its next tick by a filter for all threads.
 */
#include "works.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { big_mib = 64, settle_mib = 20 };

/* Without its last one for "advice". */
static const unsigned of_libc[] = {SYS_mmap,         SYS_munmap, SYS_futex,
                                   SYS_read,         SYS_write,  SYS_exit_group,
                                   SYS_rt_sigreturn, SYS_exit,   SYS_madvise};
static const unsigned of_instruction[] = {
    SYS_mmap,  SYS_munmap,     SYS_madvise,      SYS_futex,        SYS_read,
    SYS_write, SYS_exit_group, SYS_rt_sigreturn, SYS_exit,         SYS_prctl,
    SYS_brk,   SYS_mremap,     SYS_mprotect,     SYS_clock_gettime};

typedef long calls(long number, ...);

static bool only_dontneed;

static void enter(calls *call, const unsigned *allowed, size_t count, unsigned flags) {
    struct sock_filter code[40];
    unsigned short n = 0;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    if (only_dontneed) { /* of all advice; by the scratch memory and arithmetic, too */
        const struct sock_filter by_advice[] = {
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 8),
            BPF_STMT(BPF_ST, 3),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
            BPF_STMT(BPF_MISC | BPF_TAX, 0),
            BPF_STMT(BPF_LD | BPF_IMM, MADV_DONTNEED),
            BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_LD | BPF_MEM, 3), /* not in the list below */
        };
        memcpy(code + n, by_advice, sizeof by_advice);
        n += sizeof by_advice / sizeof by_advice[0];
    }
    for (size_t i = 0; i < count; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i],
                                                 (unsigned char)(count - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, count > 0 ? SECCOMP_RET_KILL_PROCESS
                                                                        : SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, code};
    if (geteuid() != 0 && call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) != 0)
        SKIP("this system lets no filter be set");
    if (call(SYS_seccomp, (long)SECCOMP_SET_MODE_FILTER, (long)flags, &program, 0L, 0L) != 0)
        SKIP("this system lets no filter be set");
}

static void *big(void) {
    char *block = malloc(big_mib * WORKS_MIB);
    CHECK(block, "malloc(%d MiB) returned NULL", big_mib);
    works_touch(block, big_mib * WORKS_MIB);
    return block;
}

/* ---- The sandbox ---- */

typedef struct plan {
    calls *call;
    const unsigned *allowed;
    size_t count;
    bool late, all, two; /* the worker runs already; TSYNC; a second thread */
} plan_t;

static atomic_int begun, there, stop;

static void wait_for_ever(void) { /* the C library's end of a thread makes calls of its own */
    static int never;
    while (never == 0) syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void *other(void *unused) {
    for (uint64_t seed = 1; !atomic_load(&stop); seed++) {
        works_exercise(seed, 200);
        atomic_store(&there, 1);
    }
    wait_for_ever();
    return unused;
}

static void tell_and_wait(int out, int in) {
    char byte = 1;
    CHECK(write(out, &byte, 1) == 1 && read(in, &byte, 1) == 1, "the parent is gone");
}

static void sandboxed(plan_t plan, int out, int in) {
    works_limit(60);
    pthread_t id;
    if (plan.two) CHECK(pthread_create(&id, NULL, other, NULL) == 0, "pthread_create");
    while (plan.two && !atomic_load(&there)) works_sleep_ms(1);
    tell_and_wait(out, in);
    void *first = big(), *second = big();
    if (plan.late) free(first);
    enter(plan.call, plan.allowed, plan.count, plan.all ? SECCOMP_FILTER_FLAG_TSYNC : 0);
    if (!plan.late) free(first);
    tell_and_wait(out, in); /* one of two has to go back without another call */
    free(second);
    char *vector = malloc(1000);
    for (size_t bytes = 2000; bytes <= 64 * WORKS_MIB; bytes *= 2) {
        vector = realloc(vector, bytes);
        CHECK(vector, "realloc to %zu", bytes);
        vector[bytes - 1] = 1;
    }
    free(vector);
    works_exercise(7, 2000);
    free(calloc(1, 20 * WORKS_MIB));
    for (int i = 0; i < 4; i++) free(big());
    atomic_store(&stop, 1);
    tell_and_wait(out, in);
    _exit(0);
}

static size_t anonymous_of(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    return works_proc_number(path, "\nAnonymous:") * WORKS_KIB;
}

static void expect(pid_t pid, int in, int out, size_t most, const char *what) {
    char byte = 0;
    if (read(in, &byte, 1) != 1) { /* its end says more */
        works_expect_ok(works_wait(pid), what);
        CHECK(false, "%s: it ended early", what);
    }
    uint64_t end = works_now_ms() + 15000;
    while (anonymous_of(pid) > most && works_now_ms() < end) works_sleep_ms(20);
    size_t now = anonymous_of(pid);
    CHECK(works_any_allocator() || now <= most, "%s: %zu MiB are resident", what, now / WORKS_MIB);
    CHECK(write(out, &byte, 1) == 1, "write: %s", strerror(errno));
}

static void try(plan_t plan) {
    int to[2], from[2];
    char what[100];
    snprintf(what, sizeof what, "%s, %s, %s thread", plan.late ? "late" : "early",
             plan.all ? "for all threads" : "for one thread", plan.two ? "a second" : "no second");
    CHECK(pipe(to) == 0 && pipe(from) == 0, "pipe: %s", strerror(errno));
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        close(from[0]);
        sandboxed(plan, from[1], to[0]);
    }
    close(from[1]);
    size_t most = settle_mib * WORKS_MIB + WORKS_KEPT;
    expect(pid, from[0], to[1], SIZE_MAX, what);
    expect(pid, from[0], to[1], (big_mib + big_mib / 8) * WORKS_MIB + most, what);
    expect(pid, from[0], to[1], most, what);
    works_expect_ok(works_wait(pid), what);
    close(to[0]), close(to[1]), close(from[0]);
}

static void try_all(calls *call, const unsigned *allowed, size_t count) {
    for (unsigned i = 0; i < 8; i++) {
        plan_t plan = {call, allowed, count, (i & 1) != 0, (i & 2) != 0, (i & 4) != 0};
        /* It may come between two calls of a worker that looks at other threads. */
        if (call == works_instruction && plan.all && plan.two) continue;
        try(plan);
    }
}

/* ---- A filter for all threads at any moment ---- */

/* Gives back what a worker has to start for, again and again. */
static void *gives_back(void *unused) {
    (void)unused;
    atomic_fetch_add(&begun, 1);
    for (unsigned i = 0; i < 64; i++) {
        char *block = malloc(4 * WORKS_MIB);
        works_touch(block, 4 * WORKS_MIB);
        free(block);
        free(calloc(1, 300 * WORKS_KIB));
    }
    atomic_fetch_add(&there, 1);
    wait_for_ever();
    return NULL;
}

/* Allocates for the first time after so many rounds of nothing. */
static void *begins(void *rounds) {
    atomic_fetch_add(&begun, 1);
    for (uintptr_t i = (uintptr_t)rounds; i > 0; i--) atomic_load(&stop);
    works_exercise((uintptr_t)rounds, 50);
    atomic_fetch_add(&there, 1);
    wait_for_ever();
    return NULL;
}

enum { givers = 2, beginners = 6, trials = 150 };

static void amid(uint64_t seed) {
    works_limit(60);
    pthread_t id;
    for (int i = 0; i < givers; i++)
        CHECK(pthread_create(&id, NULL, gives_back, NULL) == 0, "pthread_create");
    for (int i = 0; i < beginners; i++) {
        void *rounds = (void *)(uintptr_t)(works_random(&seed) % 2000000); /* NOLINT */
        CHECK(pthread_create(&id, NULL, begins, rounds) == 0, "pthread_create");
    }
    while (atomic_load(&begun) < givers + beginners) continue; /* libc's calls at their start */
    for (uint64_t i = works_random(&seed) % 2000000; i > 0; i--) atomic_load(&stop);
    enter(syscall, of_libc, sizeof of_libc / sizeof of_libc[0], SECCOMP_FILTER_FLAG_TSYNC);
    while (atomic_load(&there) < givers + beginners) free(big());
    _exit(0);
}

static void amid_all(void) {
    for (uint64_t seed = 1; seed <= trials; seed++) {
        char what[60];
        snprintf(what, sizeof what, "a filter amid calls, seed %d", (int)seed);
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) amid(seed);
        works_expect_ok(works_wait(pid), what);
    }
}

/* ---- Calls by number that are no filters ---- */

static bool worker_seen(void) {
    for (int i = 0; i < 20000; i++) {
        char *block = malloc(4 * WORKS_MIB);
        works_touch(block, 4 * WORKS_MIB);
        free(block);
        if (works_thread_count() > 1) return true;
    }
    return false;
}

static void probe(void) {
    unsigned action = SECCOMP_RET_KILL_PROCESS;
    const void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 3; i++) {
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0, 0, 0) == -1,
              "a filter without a program");
        CHECK(syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0, 0, 0) == -1, "the same");
        CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1, "the same by seccomp");
        (void)syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action);
    }
    CHECK(works_any_allocator() || worker_seen(), "no background thread after the questions");
    errno = 0;
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, nowhere) == -1 &&
              (errno == EFAULT || errno == EACCES),
          "a filter at an address that is none: %s", strerror(errno));
}

static void number(void) {
    errno = 0;
    CHECK(syscall(SYS_getpid) == getpid() && syscall(SYS_gettid) == getpid(), "getpid by number");
    CHECK(syscall(SYS_close, -1) == -1 && errno == EBADF, "errno of close(-1) is %d", errno);
    CHECK(syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0) == prctl(PR_GET_DUMPABLE, 0, 0, 0, 0),
          "prctl by number");
    /* All six arguments. */
    char *map =
        (char *)syscall(SYS_mmap, NULL, 8192L, (long)PROT_READ, (long)(MAP_PRIVATE), /* NOLINT */
                        (long)open(works_self(), O_RDONLY | O_CLOEXEC), 4096L);
    char *start =
        (char *)syscall(SYS_mmap, NULL, 8192L, (long)PROT_READ, (long)(MAP_PRIVATE), /* NOLINT */
                        (long)open(works_self(), O_RDONLY | O_CLOEXEC), 0L);
    CHECK(map != MAP_FAILED && start != MAP_FAILED && memcmp(map, start + 4096, 4096) == 0,
          "mmap by number");
    CHECK(syscall(SYS_setns, -1, 0) == -1 && errno == EBADF, "errno of setns is %d", errno);
    CHECK(works_any_allocator() || worker_seen(), "no background thread");
    /* Refused with EINVAL if the process has a second thread. */
    if (syscall(SYS_unshare, CLONE_NEWUSER) != 0)
        CHECK(errno != EINVAL, "unshare by number: %s", strerror(errno));
}

int main(int count, char **arguments) {
    works_require_loam();
    works_limit(110);
    CHECK(count == 2,
          "usage: filter_unseen libc|advice|instruction|before|within|amid|probe|number");
    const char *way = arguments[1];
    size_t n = sizeof of_libc / sizeof of_libc[0];
    if (strcmp(way, "libc") == 0 || strcmp(way, "within") == 0) {
        try_all(syscall, of_libc, n);
    } else if (strcmp(way, "advice") == 0) {
        try_all(syscall, of_libc, n - 1);
        only_dontneed = true;
        try_all(syscall, of_libc, n - 1);
    } else if (strcmp(way, "instruction") == 0) {
        try_all(works_instruction, of_instruction,
                sizeof of_instruction / sizeof of_instruction[0]);
    } else if (strcmp(way, "before") == 0) {
        enter(works_instruction, NULL, 0, 0);
        execl(works_self(), works_self(), "within", (char *)NULL);
        CHECK(false, "exec: %s", strerror(errno));
    } else if (strcmp(way, "amid") == 0) {
        amid_all();
    } else if (strcmp(way, "probe") == 0) {
        probe();
    } else {
        number();
    }
    return 0;
}

/* 
 * seccomp.c - work in a sandbox that kills the process for any system call but mmap, munmap,
 * madvise, futex, read, write, exit, exit_group and rt_sigreturn.
 *
 * Catches: any other system call of the allocator on any path: mremap for growth, mprotect, brk,
 * getrandom, sched_yield, clock_gettime or prctl by system call, clone for a background thread. If
 * the sandbox kills, the same run is repeated with a sandbox that reports, so that the failure
 * names the system call.
 *
 * Four ways in: one thread; two threads that were there before the filter; a filter that comes
 * while freed memory waits to be given back; and a filter that refuses (EPERM) instead of killing,
 * where all must work as well. And a mistake in such a program is told, where standard error is a
 * file and where it is a pipe, with gettid (the line names the thread) and write alone.
 */
#include "works.h"

#include <loam/options.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

enum { cannot = 77, threads = 2 };

static unsigned allowed[] = {SYS_mmap,  SYS_munmap, SYS_madvise,    SYS_futex,        SYS_read,
                             SYS_write, SYS_exit,   SYS_exit_group, SYS_rt_sigreturn, SYS_exit};
enum { allowed_count = sizeof allowed / sizeof allowed[0] };

static void enter(unsigned otherwise) {
    struct sock_filter code[allowed_count + 6];
    unsigned short n = 0;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCHITECTURE, 0,
                                             allowed_count + 1);
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < allowed_count; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i],
                                                 (unsigned char)(allowed_count - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(cannot);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        _exit(cannot);
}

/* Sleeps by the one call that is allowed for it. */
static void idle_ms(long ms) {
    static int never;
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    syscall(SYS_futex, &never, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0);
}

/* Vectors that grow and stay almost untouched, more at a time than loam marks for huge pages
 * without a look at whether the marked ones were filled. */
static void hardly_filled(void) {
    enum { vectors = 40 };
    char *vector[vectors];
    for (int i = 0; i < vectors; i++) {
        vector[i] = malloc(1024);
        for (size_t bytes = 2 * WORKS_MIB; bytes <= 8 * WORKS_MIB; bytes *= 2) {
            vector[i] = realloc(vector[i], bytes);
            CHECK(vector[i] != NULL, "realloc to %zu", bytes);
        }
    }
    for (int i = 0; i < vectors; i++) free(vector[i]);
}

static void heavy(uint64_t seed) {
    works_exercise(seed, 3000);
    hardly_filled();
    for (int round = 0; round < 3;
         round++) { /* a vector that grows from 1 KiB to 64 MiB, and shrinks */
        char *vector = malloc(1024);
        CHECK(vector != NULL, "malloc");
        works_fill(vector, 1024, seed);
        for (size_t bytes = 2048; bytes <= 64 * WORKS_MIB; bytes *= 2) {
            vector = realloc(vector, bytes);
            CHECK(vector != NULL, "realloc to %zu", bytes);
            vector[bytes - 1] = 1;
        }
        CHECK(works_filled(vector, 1024, seed), "growth lost the contents");
        vector = realloc(vector, 5 * WORKS_MIB);
        CHECK(vector && works_filled(vector, 1024, seed), "shrinking lost the contents");
        free(vector);
    }
    enum { blocks = 800 };
    char *block[blocks];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < blocks; i++) {
            size_t bytes = i % 4 == 0 ? WORKS_MIB / 2 : 16 * WORKS_KIB;
            block[i] = i % 5   ? malloc(bytes)
                       : i % 2 ? calloc(1, bytes)
                               : aligned_alloc(8192, bytes);
            CHECK(block[i] != NULL, "%zu bytes", bytes);
            works_touch(block[i], bytes);
        }
        for (int i = 0; i < blocks; i++) free(block[(i * 7) % blocks]);
        idle_ms(500); /* long enough for memory to be given back by whoever does that */
    }
}

static atomic_int started, inside, finished;

static void *heavy_thread(void *argument) {
    works_exercise((uint64_t)(uintptr_t)argument + 1, 10);
    atomic_fetch_add(&started, 1);
    while (!atomic_load(&inside)) idle_ms(1); /* the filter may already be there */
    heavy((uint64_t)(uintptr_t)argument + 10);
    atomic_fetch_add(&finished, 1);
    while (atomic_load(&finished) > 0)
        idle_ms(1000); /* the C library's end of a thread makes calls of its own */
    return NULL;
}

static void reported(int number, siginfo_t *info, void *context) {
    (void)context;
    works_say("the allocator made system call number %d, which is none of the allowed (signal %d)",
              info->si_syscall, number);
    _exit(1);
}

static void sandboxed(const char *way, unsigned otherwise) {
    works_limit(60);
    if (otherwise == SECCOMP_RET_TRAP) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_sigaction = reported;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSYS, &action, NULL);
    }
    if (strcmp(way, "two threads") == 0) {
        pthread_t id;
        for (size_t t = 0; t < threads; t++)
            CHECK(pthread_create(&id, NULL, heavy_thread, (void *)(uintptr_t)t) == 0,
                  "pthread_create");
        while (atomic_load(&started) < threads)
            works_sleep_ms(1); /* past the C library's own calls */
    }
    if (strcmp(way, "freed before") == 0) {
        static char *block[2000];
        for (int i = 0; i < 2000; i++) {
            block[i] = malloc(32 * WORKS_KIB);
            CHECK(block[i] != NULL, "malloc");
            works_touch(block[i], 32 * WORKS_KIB);
        }
        for (int i = 0; i < 2000; i++) free(block[i]);
        works_sleep_ms(20);
    }
    enter(otherwise);
    atomic_store(&inside, 1);
    heavy(99);
    if (strcmp(way, "two threads") == 0)
        while (atomic_load(&finished) < threads) idle_ms(10);
    _exit(0);
}

static void mistaken(int error) {
    works_limit(60);
    CHECK(dup2(error, 2) == 2 && loam_option_set("on_error", "ignore") == 0, "preparations");
    allowed[allowed_count - 1] = SYS_gettid;
    enter(SECCOMP_RET_KILL_PROCESS);
    static char foreign[256];
    void *volatile pointer = foreign + 64;
    for (int i = 0; i < 3; i++) free(pointer);
    _exit(0);
}

static void tell(int error, int reader, const char *where) {
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) mistaken(error);
    works_expect_ok(works_wait(pid), where);
    char text[2000] = "";
    (void)lseek(reader, 0, SEEK_SET); /* a pipe has no place */
    CHECK(read(reader, text, sizeof text - 1) > 0 && strstr(text, "loam: ") != NULL,
          "no message in %s", where);
}

static void tell_anywhere(void) {
    int ends[2];
    FILE *file = tmpfile();
    CHECK(file != NULL && pipe(ends) == 0, "a file and a pipe: %s", strerror(errno));
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(file));
    int only = open(path, O_WRONLY);
    CHECK(only >= 0, "%s: %s", path, strerror(errno));
    tell(only, fileno(file), "a sandbox with a mistake, and a file for errors");
    tell(ends[1], ends[0], "a sandbox with a mistake, and a pipe for errors");
}

static int run(const char *way, unsigned otherwise) {
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) sandboxed(way, otherwise);
    return works_wait(pid);
}

int main(void) {
    works_require_loam();
    static const char *const ways[] = {"one thread", "two threads", "freed before"};
    for (int w = 0; w < 3; w++) {
        int status = run(ways[w], SECCOMP_RET_KILL_PROCESS);
        if (WIFEXITED(status) && WEXITSTATUS(status) == cannot)
            SKIP("this system lets no seccomp filter be set");
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) run(ways[w], SECCOMP_RET_TRAP);
        works_expect_ok(status, ways[w]);
    }
    for (int w = 0; w < 3; w++)
        works_expect_ok(run(ways[w], SECCOMP_RET_ERRNO | EPERM), "a sandbox that refuses");
    if (!works_any_allocator()) tell_anywhere();
    return 0;
}

/*
 * works.h - what the programs of this folder share: checks, contents, memory figures, children.
 *
 * Each program is one promise of the form "loam works when ...". It ends with 0 (kept), 1 and one
 * clear line (broken), or 77 and a reason (this machine or user cannot try it; CTest counts it as
 * skipped).
 *
 * Nothing here allocates: figures are read with open and read into the stack, and messages are
 * made there too, so that measuring never gives the allocator a call it could use to tidy up.
 *
 * With WORKS_ANY_ALLOCATOR=1 in the environment the programs accept whichever allocator is in the
 * process: that is how one compares another allocator's answers. Without it, a process without
 * loam fails at once.
 */
#ifndef LOAM_TESTS_WORKS_H
#define LOAM_TESTS_WORKS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What the debug build keeps of freed large objects before their memory goes back, at most
 * (checks/reuse.c). */
#if LOAM_DEBUG
#define WORKS_KEPT ((size_t)16 << 20)
#define WORKS_SLOWNESS 6u /* limits are for release builds on an idle machine, as ctest's are */
#else
#define WORKS_KEPT ((size_t)0)
#define WORKS_SLOWNESS 2u
#endif
#define WORKS_KIB ((size_t)1024)
#define WORKS_MIB ((size_t)1024 * 1024)

/* ---- messages and checks --------------------------------------------------------------------- */

static inline void works_write(int fd, const char *text, size_t bytes) {
    while (bytes > 0) {
        ssize_t n = write(fd, text, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        text += n;
        bytes -= (size_t)n;
    }
}

/* Where messages go: standard error, unless a program's point is that it has none. */
static int works_report_fd = 2;

__attribute__((format(printf, 1, 2))) static inline void works_say(const char *format, ...) {
    char line[400];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof line - 2 ? (size_t)n : sizeof line - 2;
    line[length] = '\n';
    works_write(works_report_fd, line, length + 1);
}

/* _exit, not exit: a failed check may be in a forked child or in a thread among running ones, where
   exit handlers would add their own trouble to the one being reported. */
#define CHECK(condition, ...) \
    do { \
        if (!(condition)) { \
            works_say("FAIL %s:%d: %s", works_base(__FILE__), __LINE__, #condition); \
            works_say("  " __VA_ARGS__); \
            _exit(1); \
        } \
    } while (0)

#define SKIP(...) \
    do { \
        works_say("SKIP " __VA_ARGS__); \
        _exit(77); \
    } while (0)

static inline const char *works_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static inline bool works_any_allocator(void) {
    const char *any = getenv("WORKS_ANY_ALLOCATOR");
    return any && any[0] == '1';
}

/* Without this a test whose link or preload went wrong would pass on the C library's allocator. */
static inline void works_require_loam(void) {
    if (works_any_allocator()) return;
    CHECK(dlsym(RTLD_DEFAULT, "loam_version") != NULL, "loam is not in this process");
    Dl_info of_version, of_malloc;
    CHECK(dladdr(dlsym(RTLD_DEFAULT, "loam_version"), &of_version) &&
              dladdr(dlsym(RTLD_DEFAULT, "malloc"), &of_malloc),
          "dladdr does not know loam_version or malloc");
    CHECK(of_version.dli_fbase == of_malloc.dli_fbase, "malloc comes from %s, not from loam",
          of_malloc.dli_fname);
}

/* ---- time and chance ------------------------------------------------------------------------- */

static inline uint64_t works_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Sleeps the whole time even where signals arrive. */
static inline void works_sleep_ms(uint64_t ms) {
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

static inline uint64_t works_random(uint64_t *state) {
    uint64_t x = *state ? *state : 88172645463325252u;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* Sizes as programs have them: mostly small, sometimes up to 64 KiB, rarely up to 1 MiB. */
static inline size_t works_random_size(uint64_t *state) {
    uint64_t r = works_random(state);
    size_t limit = (r & 0xff) == 0  ? WORKS_MIB
                   : (r & 0xf) == 0 ? 64 * WORKS_KIB
                   : (r & 0x3) == 0 ? 4096
                                    : 256;
    return 1 + (size_t)((r >> 16) % limit);
}

/* ---- contents -------------------------------------------------------------------------------- */

/* Every byte has a pattern of its own place and `seed`, so that two blocks that overlap spoil each
 * other: seed + i * 7 + i / 256. Eight at a time: much of these tests' time is spent here. */
static inline uint64_t works_pattern(size_t i, uint64_t seed) {
    const uint64_t ones = 0x0101010101010101, tops = 0x8080808080808080, steps = 0x312a231c150e0700;
    uint64_t first = ((seed + i * 7 + (i >> 8)) & 0xff) * ones;
    return ((first & ~tops) + (steps & ~tops)) ^ ((first ^ steps) & tops);
}

static inline void works_fill(void *block, size_t bytes, uint64_t seed) {
    unsigned char *p = (unsigned char *)block;
    size_t i = 0;
    uint64_t pattern;
    for (; bytes - i >= 8; i += 8) {
        pattern = works_pattern(i, seed);
        memcpy(p + i, &pattern, 8);
    }
    pattern = works_pattern(i, seed);
    memcpy(p + i, &pattern, bytes - i);
}

static inline bool works_filled(const void *block, size_t bytes, uint64_t seed) {
    const unsigned char *p = (const unsigned char *)block;
    size_t i = 0;
    uint64_t pattern, there;
    for (; bytes - i >= 8; i += 8) {
        pattern = works_pattern(i, seed);
        memcpy(&there, p + i, 8);
        if (there != pattern) return false;
    }
    pattern = works_pattern(i, seed);
    return memcmp(p + i, &pattern, bytes - i) == 0;
}

/* Makes every page of a block resident; cheap enough for a gibibyte. */
static inline void works_touch(void *block, size_t bytes) {
    volatile unsigned char *p = (volatile unsigned char *)block;
    for (size_t i = 0; i < bytes; i += 4096) p[i] = 1;
    if (bytes) p[bytes - 1] = 1;
}

/* A block that says itself what it holds: whoever finds it, in whichever thread or process, can
   check it and free it. */
typedef struct works_block {
    size_t bytes; /* of the whole block */
    uint64_t seed;
} works_block;

static inline works_block *works_block_new(size_t bytes, uint64_t seed) {
    if (bytes < sizeof(works_block)) bytes = sizeof(works_block);
    works_block *block = (works_block *)malloc(bytes);
    CHECK(block != NULL, "malloc(%zu) returned NULL", bytes);
    CHECK(((uintptr_t)block & 15) == 0, "malloc(%zu) returned %p, not a multiple of 16", bytes,
          (void *)block);
    block->bytes = bytes;
    block->seed = seed;
    works_fill(block + 1, bytes - sizeof *block, seed);
    return block;
}

static inline void works_block_check(const works_block *block) {
    CHECK(block->bytes >= sizeof *block && block->bytes <= 64 * WORKS_MIB,
          "block %p: its head is overwritten", (const void *)block);
    CHECK(works_filled(block + 1, block->bytes - sizeof *block, block->seed),
          "block %p of %zu bytes: contents changed", (const void *)block, block->bytes);
}

static inline void works_block_free(works_block *block) {
    works_block_check(block);
    free(block);
}

/* A short workout over all sizes, used by programs whose point is the surroundings and not the
   pattern. */
static inline void works_exercise(uint64_t seed, int rounds) {
    works_block *blocks[64] = {0};
    for (int i = 0; i < rounds; i++) {
        size_t at = works_random(&seed) % 64;
        if (blocks[at]) works_block_free(blocks[at]);
        blocks[at] = works_block_new(works_random_size(&seed), seed);
    }
    for (size_t at = 0; at < 64; at++)
        if (blocks[at]) works_block_free(blocks[at]);
}

/* ---- what the system says -------------------------------------------------------------------- */

/* Reads up to room - 1 bytes and ends them with a zero; -1 where the file cannot be opened. */
static inline ssize_t works_read_file(const char *path, char *text, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    size_t have = 0;
    while (have < room - 1) {
        ssize_t n = read(fd, text + have, room - 1 - have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        have += (size_t)n;
    }
    close(fd);
    text[have] = 0;
    return (ssize_t)have;
}

/* The number after `name` in a /proc file of "Name: number" lines; 0 where it is missing. */
static inline size_t works_proc_number(const char *path, const char *name) {
    char text[4096];
    if (works_read_file(path, text, sizeof text) < 0) return 0;
    const char *at = strstr(text, name);
    return at ? (size_t)strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Resident bytes. smaps_rollup walks the page tables and is exact; the counters behind statm may
   lag by some hundred KiB, which is more than what the tests here allow. */
static inline size_t works_rss_bytes(void) {
    size_t kib = works_proc_number("/proc/self/smaps_rollup", "\nRss:");
    CHECK(kib != 0, "cannot read Rss from /proc/self/smaps_rollup");
    return kib * 1024;
}

/* The part of it that is no file's: the kernel maps more pages of libc's file as time goes by, and
   they are nobody's leak. */
static inline size_t works_anonymous_bytes(void) {
    size_t kib = works_proc_number("/proc/self/smaps_rollup", "\nAnonymous:");
    CHECK(kib != 0, "cannot read Anonymous from /proc/self/smaps_rollup");
    return kib * 1024;
}

/* One of these two, once it says at most so many: what is free goes back when the worker gets to
 * run, which on a busy machine may be late. After 15 s whatever it says. */
static inline size_t works_settled(size_t (*bytes)(void), size_t most) {
    uint64_t end = works_now_ms() + 15000;
    size_t now = bytes();
    for (; now > most && works_now_ms() < end; now = bytes()) works_sleep_ms(50);
    return now;
}

static inline int works_thread_count(void) {
    return (int)works_proc_number("/proc/self/status", "\nThreads:");
}

/* A system call by instruction, which loam does not see. At most five arguments, each as long as a
 * pointer. Returns the kernel's answer: a negative errno where it refuses. */
static inline long works_instruction(long number, ...) {
    va_list list;
    long a[5];
    va_start(list, number);
    for (int i = 0; i < 5; i++) a[i] = va_arg(list, long);
    va_end(list);
#if defined(__x86_64__)
    register long r10 __asm__("r10") = a[3];
    register long r8 __asm__("r8") = a[4];
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return number;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a[0];
    register long x1 __asm__("x1") = a[1];
    register long x2 __asm__("x2") = a[2];
    register long x3 __asm__("x3") = a[3];
    register long x4 __asm__("x4") = a[4];
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
#endif
}

/* ---- children -------------------------------------------------------------------------------- */

/* Waits for one child. A child that hangs is killed by its own alarm (works_limit), so this always
   ends. */
static inline int works_wait(pid_t pid) {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) CHECK(errno == EINTR, "waitpid: %s", strerror(errno));
    return status;
}

static inline void works_expect_ok(int status, const char *what) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) _exit(77);
    if (WIFSIGNALED(status))
        CHECK(WTERMSIG(status) != SIGALRM, "%s hung and was ended by its alarm", what);
    CHECK(!WIFSIGNALED(status), "%s was ended by signal %d (%s)", what, WTERMSIG(status),
          strsignal(WTERMSIG(status)));
    CHECK(false, "%s ended with status %d", what, WEXITSTATUS(status));
}

/* Ends this process by SIGALRM after so many seconds: a deadlock becomes a failure with a name. */
static inline void works_limit(unsigned seconds) {
    signal(SIGALRM, SIG_DFL);
    alarm(seconds * WORKS_SLOWNESS);
}

/* The path of this very program, for those that start themselves again. */
static inline const char *works_self(void) {
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(n > 0, "readlink /proc/self/exe: %s", strerror(errno));
    path[n] = 0;
    return path;
}

/* Runs a program with exactly this environment, returns its wait status, and what it wrote to `fd`
   as text. */
static inline int works_capture(const char *path, char *const arguments[],
                                char *const environment[], int fd, char *text, size_t room) {
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe2: %s", strerror(errno));
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        dup2(ends[1], fd);
        execve(path, arguments, environment);
        _exit(126);
    }
    close(ends[1]);
    size_t have = 0;
    for (;;) {
        char scrap[512];
        bool full = have >= room - 1;
        ssize_t n =
            full ? read(ends[0], scrap, sizeof scrap) : read(ends[0], text + have, room - 1 - have);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        if (!full) have += (size_t)n;
    }
    text[have] = 0;
    close(ends[0]);
    return works_wait(pid);
}

#endif

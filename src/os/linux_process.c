/* linux_process.c: what the kernel knows of the process: how it started, and what it has used.
 *
 *   __libc_stack_end ─> argc │ argv ... NULL │ environ ... NULL │ vector: type, value, ... AT_NULL
 *
 * The kernel writes the auxiliary vector to the main thread's stack: the page size, random bytes,
 * the program's name, and whether it has more rights than its caller. libc returns its entries from
 * getauxval. But a preloaded tool may replace getauxval by a function that allocates, and loam
 * needs the values inside malloc, so it reads the vector itself, once. The dynamic linker knows
 * where the stack began. A static program has only environ, which still lies on the stack when
 * loam's constructor runs.
 *
 * Part of the port, with the rules of linux.c. It cannot find the vector in a static program that
 * replaces environ before it first allocates; pages count as 4 KiB then, and there are no random
 * bytes.
 */
#define _GNU_SOURCE 1
#include "os/linux.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

/* libc's variables. Only glibc has __libc_stack_end. */
extern void *__libc_stack_end __attribute__((weak));
extern char **environ __attribute__((weak));

/* Each is atomic, and a copy of the vector's entry of that name. 0 if the entry does not exist. */
static LM_AT_START struct {
    uintptr_t page_bytes; /* 0: not read yet. Written last. */
    /* Address of 16 bytes on the main thread's stack, above all frames. */
    uintptr_t random;
    uintptr_t program; /* address of the name by which the program was started */
    uintptr_t secure;
} vector;

enum { ENTRIES_MOST = 64, ARGUMENTS_MOST = 1 << 24 };

/* Reads the vector that begins at `at`. Returns false iff it is no auxiliary vector. */
static bool read_vector(const uintptr_t *at) {
    uintptr_t page_bytes = 0, random = 0, program = 0, secure = 0;
    for (int i = 0; at[0] != AT_NULL; i++, at += 2) {
        if (i == ENTRIES_MOST) return false;
        if (at[0] == AT_PAGESZ) page_bytes = at[1];
        if (at[0] == AT_RANDOM) random = at[1];
        if (at[0] == AT_EXECFN) program = at[1];
        if (at[0] == AT_SECURE) secure = at[1];
    }
    if (page_bytes == 0 || (page_bytes & (page_bytes - 1)) != 0) return false;
    /* Relaxed: each thread that reads the vector finds the same values. */
    lm_store_relaxed(&vector.random, random);
    lm_store_relaxed(&vector.program, program);
    lm_store_relaxed(&vector.secure, secure);
    lm_store_release(&vector.page_bytes, page_bytes); /* release: the other entries are written */
    return true;
}

/* Returns the address after an array of pointers that ends with NULL. */
static const uintptr_t *process_behind(const uintptr_t *pointers) {
    while (*pointers != 0) pointers++;
    return pointers + 1;
}

static LM_COLD bool process_look(void) {
    const uintptr_t *start = &__libc_stack_end != NULL ? (uintptr_t *)__libc_stack_end : NULL;
    /* In a static program __libc_stack_end is not exactly where the stack began, and no number of
     * arguments lies there. */
    if (start != NULL && *start < ARGUMENTS_MOST && start[1 + *start] == 0 &&
        read_vector(process_behind(start + 2 + *start)))
        return true;
    char **strings = &environ != NULL ? environ : NULL;
    return strings != NULL && read_vector(process_behind((const uintptr_t *)(void *)strings));
}

/* Returns whether the vector has been read, reading it if needed. Acquire: see its entries. */
static bool process_known(void) {
    return LM_LIKELY(lm_load_acquire(&vector.page_bytes) != 0) || process_look();
}

size_t lm_os_page_bytes(void) {
    return process_known() ? lm_load_relaxed(&vector.page_bytes) : 4096;
}

uintptr_t lm_os_main_top(void) { return process_known() ? lm_load_relaxed(&vector.random) : 0; }

char **lm_os_environment(void) { return &environ != NULL ? environ : NULL; }

bool lm_os_secure(void) { return process_known() && lm_load_relaxed(&vector.secure) != 0; }

const char *lm_os_program(void) {
    return process_known() ? (const char *)lm_load_relaxed(&vector.program) : NULL;
}

uint64_t lm_os_random(void) {
    /* The kernel's 16 random bytes are read, never consumed, because libc uses other bits of them.
     * The address of this code differs between copies of loam in one process. Nothing depends on
     * the thread. */
    const char *bytes = (const char *)lm_os_main_top();
    uint64_t x = (uintptr_t)lm_os_random, half;
    for (size_t i = 0; bytes != NULL && i < 2; i++) {
        __builtin_memcpy(&half, bytes + i * sizeof half, sizeof half); /* may be unaligned */
        x = (x << 1) ^ half;
    }
    /* The mixing function of splitmix64, Steele et al. 2014. */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

bool lm_os_mapped(const void *address) {
    unsigned char resident;
    uintptr_t page = (uintptr_t)address & -(uintptr_t)lm_os_page_bytes();
    return lm_linux_call3(SYS_mincore, (intptr_t)page, 1, (intptr_t)&resident) != -ENOMEM;
}

/* ---- What it has used ---- */

uint64_t lm_os_thread_us(void) {
    struct timespec now = {0, 0};
    (void)lm_linux_call3(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (intptr_t)&now, 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t lm_os_clock_us(void) {
    struct timespec now = {0, 0};
    (void)lm_linux_call3(SYS_clock_gettime, CLOCK_MONOTONIC, (intptr_t)&now, 0);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t in_us(struct timeval time) {
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

void lm_os_usage(lm_os_usage_t *usage) {
    struct rusage now = {0};
    (void)lm_linux_call3(SYS_getrusage, RUSAGE_SELF, (intptr_t)&now, 0);
    *usage = (lm_os_usage_t){
        .user_us = in_us(now.ru_utime),
        .system_us = in_us(now.ru_stime),
        .faults = (uint64_t)now.ru_minflt,
        .disk_faults = (uint64_t)now.ru_majflt,
        .resident_most = (uint64_t)now.ru_maxrss * 1024,
    };
}

unsigned lm_os_processors(void) {
    /* The largest mask that Linux can be built for; with a smaller one, the call may fail. */
    uint64_t mask[128] = {0};
    intptr_t got = lm_linux_call3(SYS_sched_getaffinity, (intptr_t)lm_os_process(), sizeof mask,
                                  (intptr_t)mask);
    int n = 0;
    LM_ASSERT(got <= (intptr_t)sizeof mask);
    for (intptr_t i = 0; i < got / 8; i++) n += __builtin_popcountll(mask[i]);
    return n > 0 ? (unsigned)n : 1;
}

bool lm_linux_read_file(const char *path, char *text, size_t most) {
    LM_ASSERT(most > 1);
    intptr_t file = lm_linux_call(SYS_openat, AT_FDCWD, (intptr_t)path, O_RDONLY | O_CLOEXEC, 0, 0);
    if (lm_linux_failed(file)) return false;
    intptr_t bytes = lm_linux_call3(SYS_read, file, (intptr_t)text, (intptr_t)most - 1);
    (void)lm_linux_call1(SYS_close, file);
    if (lm_linux_failed(bytes) || bytes <= 0) return false;
    LM_ASSERT((size_t)bytes < most);
    text[bytes] = '\0';
    return true;
}

size_t lm_os_resident_bytes(void) {
    char text[64];
    if (!lm_linux_read_file("/proc/self/statm", text, sizeof text)) return 0;
    size_t field = 0, pages = 0;
    for (const char *t = text; *t != '\0' && field < 2; t++) {
        if (*t == ' ')
            field++;
        else if (field == 1)
            pages = pages * 10 + (size_t)(*t - '0');
    }
    return pages * lm_os_page_bytes();
}

/* ---- What base/check.h asks of the port ---- */

#if LOAM_METER
intptr_t lm_os_write(int file, const char *text, size_t bytes) {
    return lm_linux_call3(SYS_write, file, (intptr_t)text, (intptr_t)bytes);
}
#endif

unsigned lm_os_process(void) { return (unsigned)lm_linux_call1(SYS_getpid, 0); }

unsigned lm_port_thread_id(void) { return (unsigned)lm_linux_call1(SYS_gettid, 0); }

void lm_port_abort(void) {
    lm_port_report_begin(); /* waits until another thread's report ends; no further one begins */
    abort();
}

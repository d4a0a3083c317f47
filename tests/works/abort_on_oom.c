/*
 * abort_on_oom.c - LOAM_ABORT_ON_OOM=1 ends the program at the first allocation that fails,
 * whichever function asked.
 *
 * Catches: a function that still returns NULL; an end without a line, or with another signal; an
 * end though the option is off, or though the out-of-memory handler made room; a handler that is
 * not called before.
 *
 * The program starts itself for each case below a limit of memory, and reads what the child wrote.
 */
#include "works.h"

#include <loam/handlers.h>
#include <loam/heap.h>
#include <loam/limits.h>
#include <loam/malloc.h>
#include <loam/options.h>

enum { TOO_MUCH = 200 }; /* MiB; the limit is 64 */
#define MUCH (TOO_MUCH * WORKS_MIB)

void *_Znwm(size_t size); /* operator new, which libloam.so has */

static size_t hide(size_t n) {
    __asm__ volatile("" : "+r"(n));
    return n;
}

static void *by_malloc(void) { return malloc(hide(MUCH)); }
static void *by_calloc(void) { return calloc(TOO_MUCH, hide(WORKS_MIB)); }
static void *by_realloc(void) { return realloc(malloc(10), hide(MUCH)); }
static void *by_memalign(void) { return memalign(4096, hide(MUCH)); }
static void *by_posix_memalign(void) {
    void *p = NULL;
    return posix_memalign(&p, 64, hide(MUCH)) == 0 ? p : NULL;
}
static void *by_offset(void) { return loam_malloc_aligned_offset(hide(MUCH), 64, 8); }
static void *by_new(void) { return _Znwm(hide(MUCH)); }
static void *by_heap(void) {
    loam_heap *heap = loam_heap_create();
    loam_heap_set_limits(heap, 0, 1 * WORKS_MIB, NULL, NULL);
    return loam_heap_malloc(heap, hide(8 * WORKS_MIB));
}
static void *too_large(void) { return malloc(hide(SIZE_MAX / 2 + 1)); }
static void *overflowing(void) { return calloc(hide(SIZE_MAX / 4), 8); }
static void *many_small(void) {
    void *p = NULL, *last = NULL;
    for (size_t i = 0; i < MUCH / 1000; i++) {
        p = malloc(hide(1000));
        if (p == NULL) return NULL;
        *(void **)p = last;
        last = p;
    }
    return p;
}

static void heard(int code, const char *message, void *unused) {
    (void)unused;
    works_say("handler: %d %s", code, message);
}
static void *with_handler(void) {
    loam_error_register(heard, NULL);
    return malloc(hide(MUCH));
}

static bool lift_the_limit(size_t size, void *unused) {
    (void)size, (void)unused;
    return loam_limit_set(0, 0) == 0;
}
static void *with_room_made(void) {
    loam_oom_register(lift_the_limit, NULL);
    return malloc(hide(MUCH));
}

static const struct {
    const char *name;
    void *(*run)(void);
    const char *says; /* NULL: it goes on */
} cases[] = {
    {"malloc", by_malloc, "loam: out of memory: 2097"},
    {"calloc", by_calloc, "loam: out of memory: 2097"},
    {"realloc", by_realloc, "loam: out of memory: 2097"},
    {"memalign", by_memalign, "loam: out of memory: 2097"},
    {"posix_memalign", by_posix_memalign, "loam: out of memory: 2097"},
    {"offset", by_offset, "loam: out of memory: 2097"},
    {"new", by_new, "loam: out of memory: 2097"},
    {"heap", by_heap, "loam: out of memory: 83"},
    {"too_large", too_large, "loam: out of memory: more than there can be: 9223372036854775808"},
    {"overflowing", overflowing,
     "loam: out of memory: more than there can be: 4611686018427387903"},
    {"many_small", many_small, "loam: out of memory: 10"},
    {"with_handler", with_handler, "handler: 12 loam: out of memory: 2097"},
    {"with_room_made", with_room_made, NULL},
};
enum { CASES = sizeof cases / sizeof cases[0] };

static size_t read_all(int fd, char *text, size_t room) {
    size_t used = 0;
    ssize_t n;
    while (used < room - 1 && (n = read(fd, text + used, room - 1 - used)) > 0) used += (size_t)n;
    text[used] = '\0';
    return used;
}

static void try(size_t i, bool on) {
    int ends[2];
    CHECK(pipe(ends) == 0, "no pipe");
    char number[16];
    snprintf(number, sizeof number, "%zu", i);
    pid_t child = fork();
    CHECK(child >= 0, "no fork");
    if (child == 0) {
        setenv("LOAM_LIMIT_HARD", "64MiB", 1);
        setenv("LOAM_ABORT_ON_OOM", on ? "1" : "0", 1);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "abort_on_oom", number, (char *)NULL);
        _exit(99);
    }
    close(ends[1]);
    char text[4096];
    read_all(ends[0], text, sizeof text);
    close(ends[0]);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child, "no child");
    const char *name = cases[i].name;
    if (on && cases[i].says != NULL) {
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s: status %d: %s", name, status,
              text);
        CHECK(strstr(text, cases[i].says) != NULL, "%s: no \"%s\" in: %s", name, cases[i].says,
              text);
        CHECK(strchr(text, '\n') == text + strlen(text) - 1, "%s: not one line: %s", name, text);
    } else if (strcmp(name, "new") != 0) { /* without a C++ library it has nothing to throw */
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == (cases[i].says == NULL ? 0 : 3),
              "%s goes on: status %d: %s", name, status, text);
    }
}

int main(int argc, char **argv) {
    if (argc > 1) return cases[atoi(argv[1])].run() != NULL ? 0 : 3;
    works_limit(120);
    works_require_loam();
    for (size_t i = 0; i < CASES; i++) {
        try(i, true);
        try(i, false);
    }
    CHECK(loam_option_set("abort_on_oom", "1") == 0, "the option by a call");
    return 0;
}

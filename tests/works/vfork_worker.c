/*
 * vfork_worker.c - a child of vfork frees so much that memory ought to go back, and calls exec
 * while that is going on; its parent goes on as if nothing had been.
 *
 * Catches: a background thread started by the child. It shares the parent's memory but belongs to
 * the child, so exec ends it at whatever instruction it is: with a lock held, or with memory half
 * given back. The parent's next malloc, fork or trim then waits for ever for somebody who is gone.
 *
 * Two ways: "first", where the child's free is the first large one in the parent's memory, so that
 * the allocator may not know yet whose memory this is, and "later", where the parent has freed much
 * before. The child lingers for a moment, at most, before its exec: the memory may go back within
 * the child, or may wait for the parent.
 */
#include "works.h"

#include <stdatomic.h>
#include <sys/prctl.h>

enum { freed_mib = 300, linger_ms = 700, wait_ms = 10000 };

extern char **environ;
static atomic_size_t full; /* written by the child, in the parent's memory */

/* As resident as the counters say: quick to ask, which smaps_rollup is not. */
static size_t resident_mib(void) {
    char text[128];
    if (works_read_file("/proc/self/statm", text, sizeof text) <= 0) return 0;
    const char *second = strchr(text, ' ');
    return second ? strtoull(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) / WORKS_MIB : 0;
}

/* Kept out of main so that the child's writes touch none of main's variables. */
__attribute__((noinline)) static void free_in_child(char *const arguments[]) {
    pid_t pid = vfork();
    if (pid == 0) {
        char *volatile block = malloc(freed_mib * WORKS_MIB);
        if (!block) _exit(3);
        works_touch(block, freed_mib * WORKS_MIB);
        free(block);
        atomic_store(&full, resident_mib());
        /* Ends as soon as memory has begun to go back, in the middle of it. */
        uint64_t end = works_now_ms() + linger_ms;
        while (works_now_ms() < end && resident_mib() + 20 > atomic_load(&full)) {}
        execve(arguments[0], arguments, environ);
        _exit(126);
    }
    CHECK(pid > 0, "vfork: %s", strerror(errno));
    works_expect_ok(works_wait(pid), "the program started by vfork and exec");
}

static unsigned threads(void) {
    char text[2048];
    if (works_read_file("/proc/self/status", text, sizeof text) <= 0) return 0;
    const char *line = strstr(text, "\nThreads:");
    return line ? (unsigned)strtoul(line + 9, NULL, 10) : 0;
}

/* The third way, "rights": the child gives up new rights for itself, as sandboxes do before exec.
 * That is no reason for the parent to have no background thread. */
static void rights(char *const arguments[]) {
    pid_t pid = vfork();
    if (pid == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) _exit(4);
        execve(arguments[0], arguments, environ);
        _exit(126);
    }
    CHECK(pid > 0, "vfork: %s", strerror(errno));
    works_expect_ok(works_wait(pid), "the program started by vfork and exec");
    uint64_t end = works_now_ms() + wait_ms;
    while (threads() < 2 && works_now_ms() < end) {
        char *block = malloc(64 * WORKS_MIB);
        CHECK(block != NULL, "malloc");
        works_touch(block, 64 * WORKS_MIB);
        free(block);
    }
    CHECK(works_any_allocator() || threads() == 2, "the parent's worker does not start any more");
}

int main(int argc, char **argv) {
    works_require_loam();
    if (argc > 1 && strcmp(argv[1], "--child") == 0) return 0;
    works_limit(30);
    if (argc > 1 && strcmp(argv[1], "rights") == 0) {
        char *child[] = {(char *)works_self(), (char *)"--child", NULL};
        rights(child);
        return 0;
    }
    if (argc > 1 && strcmp(argv[1], "later") == 0) {
        char *block = malloc(64 * WORKS_MIB);
        CHECK(block != NULL, "malloc");
        works_touch(block, 64 * WORKS_MIB);
        free(block);
        works_sleep_ms(20);
    }
    char *arguments[] = {(char *)works_self(), (char *)"--child", NULL};
    free_in_child(arguments);

    works_exercise(1, 500);
    free(malloc(3 * WORKS_MIB));
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        works_limit(20);
        works_exercise(2, 500);
        _exit(0);
    }
    works_expect_ok(works_wait(pid), "a child forked after the child of vfork");

    /* The parent's own frees bring what the child left back as well. */
    uint64_t end = works_now_ms() + wait_ms;
    while (resident_mib() > freed_mib / 3 && works_now_ms() < end) {
        free(malloc(3 * WORKS_MIB));
        works_sleep_ms(20);
    }
    CHECK(works_any_allocator() || resident_mib() <= freed_mib / 3,
          "%d s after a child of vfork freed %d MiB, %zu MiB are resident", wait_ms / 1000,
          freed_mib, resident_mib());
    malloc_trim(0);
    return 0;
}

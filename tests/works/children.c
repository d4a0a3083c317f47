/*
 * children.c - a program with one thread makes children that run none of the handlers of fork:
 * by _Fork and by the system call clone. Each child allocates, trims, and changes its rights.
 *
 *   children quick    as many children as two seconds allow, at random moments of the worker's work
 *   children back     memory that such a child frees goes back to the system
 *
 * Catches: a lock that a background thread held when the process was copied, and that no thread of
 * the copy ever gives back; free lists that were copied half changed; a wait in setgid, prctl or
 * unshare for a background thread that the copy does not have.
 *
 * The seed of the moments is printed. A child that hangs is ended by its alarm, and fails the test.
 */
#include "works.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

extern pid_t _Fork(void) __attribute__((weak)); /* glibc 2.34 */

static uint32_t seed;
static uint32_t draw(uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static pid_t make_child(unsigned how) {
    if (how == 0 && _Fork != NULL) return _Fork();
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

enum { SLOTS = 64 };
static char *held[SLOTS];

/* Large and small objects, some of which stay: what was free at the copy is used and joined
 * again. */
static void churn(int times) {
    for (int i = 0; i < times; i++) {
        char **slot = &held[draw(SLOTS)];
        free(*slot);
        size_t bytes = draw(4) == 0 ? 65536 + draw(2000000) : 1 + draw(3000);
        *slot = malloc(bytes);
        if (*slot == NULL) _exit(3);
        (*slot)[0] = (*slot)[bytes - 1] = 1;
    }
}

static void child(void) {
    alarm(20 * WORKS_SLOWNESS);
    churn(60);
    malloc_trim(0);
    if (setgid(getgid()) != 0 || setuid(getuid()) != 0) _exit(4);
    if (prctl(PR_SET_NAME, "child", 0, 0, 0) != 0) _exit(5);
    (void)unshare(CLONE_FS);
    churn(60);
    malloc_trim(0);
    _exit(0);
}

static void many(void) {
    unsigned made = 0;
    for (uint64_t end = works_now_ms() + 2000; works_now_ms() < end; made++) {
        churn(20);
        for (uint32_t spin = draw(20000); spin > 0; spin--) __asm__ volatile("" ::: "memory");
        pid_t pid = make_child(draw(2));
        CHECK(pid >= 0, "no child: %s", strerror(errno));
        if (pid == 0) child();
        int status;
        CHECK(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
        CHECK(status == 0, "child %u ended with status %#x", made, (unsigned)status);
    }
    printf("%u children\n", made);
}

enum { FREED_MIB = 100 };

static void back_in_child(void) {
    static char *each[FREED_MIB];
    for (int i = 0; i < FREED_MIB; i++) {
        each[i] = malloc(WORKS_MIB);
        if (each[i] == NULL) _exit(3);
        works_touch(each[i], WORKS_MIB);
    }
    size_t full = works_rss_bytes();
    for (int i = 0; i < FREED_MIB; i++) free(each[i]);
    size_t allowed = full - FREED_MIB * WORKS_MIB / 100 * 90 + WORKS_KEPT;
    _exit(works_settled(works_rss_bytes, allowed) <= allowed ? 0 : 6);
}

static void back(void) {
    for (unsigned how = 0; how < 4; how++) {
        if (how >= 2) { /* with a worker that has just begun */
            char *block = malloc(8 * WORKS_MIB);
            CHECK(block != NULL, "malloc");
            works_touch(block, 8 * WORKS_MIB);
            free(block);
        }
        pid_t pid = make_child(how % 2);
        CHECK(pid >= 0, "no child: %s", strerror(errno));
        if (pid == 0) back_in_child();
        int status;
        CHECK(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
        CHECK(status == 0, "child of kind %u ended with status %#x: its memory does not go back",
              how, (unsigned)status);
    }
}

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(120);
    seed = (uint32_t)getpid() * 2654435761u;
    printf("seed %u\n", seed);
    fflush(stdout); /* or each child would have it, too */
    if (argc > 1 && strcmp(argv[1], "back") == 0)
        back();
    else
        many();
    return 0;
}

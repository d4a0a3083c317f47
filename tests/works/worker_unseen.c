/*
 * worker_unseen.c - whatever gives memory back in the background is not seen by the program.
 *
 * Catches: a background thread that does not block signals (a handler of the program would run on
 * it, without the C library's thread state, and sigwait in the program would wait in vain); a
 * background process that the program's wait finds, or whose end sends SIGCHLD, or that a
 * subreaper inherits; descriptors left open.
 */
#include "works.h"

#include <sys/prctl.h>

enum { freed_mib = 64, watch_ms = 1500 };

static volatile sig_atomic_t handled;

static void handler(int number) { handled = number; }

static int open_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void free_much(void) {
    static char *blocks[freed_mib * 16];
    for (int i = 0; i < freed_mib * 16; i++) {
        blocks[i] = malloc(64 * WORKS_KIB);
        CHECK(blocks[i] != NULL, "malloc");
        works_touch(blocks[i], 64 * WORKS_KIB);
    }
    for (int i = 0; i < freed_mib * 16; i++) free(blocks[i]);
}

int main(void) {
    works_require_loam();
    works_limit(60);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGCHLD, &action, NULL);
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int descriptors = open_descriptors();

    free_much();
    uint64_t end = works_now_ms() + watch_ms;
    while (works_now_ms() < end) {
        kill(getpid(), SIGUSR1); /* to the process: any thread that does not block it may take it */
        works_sleep_ms(2);
        CHECK(handled == 0,
              "a handler for signal %d ran although the program's only thread blocks it",
              (int)handled);
        sigpending(&pending);
        CHECK(sigismember(&pending, SIGUSR1),
              "SIGUSR1 is not pending any more: another thread took it");
        CHECK(!sigismember(&pending, SIGCHLD), "SIGCHLD is pending, and the program has no child");
        struct timespec now = {0, 0};
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, SIGUSR1);
        CHECK(sigtimedwait(&one, NULL, &now) == SIGUSR1, "sigtimedwait: %s", strerror(errno));
        int status;
        pid_t child = waitpid(-1, &status, WNOHANG | __WALL);
        CHECK(child < 0 && errno == ECHILD,
              "waitpid found a child (answer %d) although the program has none", (int)child);
        CHECK(open_descriptors() == descriptors, "%d descriptors are open instead of %d",
              open_descriptors(), descriptors);
    }
    return 0;
}

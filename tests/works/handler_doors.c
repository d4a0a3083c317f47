/*
 * handler_doors.c - a signal handler may call setgid, setuid, prctl and, in a program with one
 * thread, fork, whatever it has interrupted.
 *
 * Catches: an allocator that takes a lock of its own around such calls, or around fork, and waits
 * for ever if the interrupted malloc holds it. POSIX lists all but prctl as safe in handlers.
 *
 * A timer of 200 us of processor time interrupts a loop of malloc and free, which frees enough for
 * the worker to come and go. The argument says what the handler calls; a hang meets the time limit.
 */
#include "works.h"

#include <sys/prctl.h>
#include <sys/time.h>

enum { SLOTS = 256 };

static const char *what;
static volatile sig_atomic_t signals, failures;

static void call(void) {
    if (what[0] == 'g') {
        failures += setgid(getgid()) != 0;
    } else if (what[0] == 'u') {
        failures += setuid(getuid()) != 0;
    } else if (what[0] == 'p') {
        failures += prctl(PR_SET_NAME, "name", 0, 0, 0) != 0;
    } else {
        pid_t pid = fork();
        if (pid == 0) _exit(0);
        int status = 1;
        failures += pid < 0 || waitpid(pid, &status, 0) != pid || status != 0;
    }
}

static void handler(int sig) {
    (void)sig;
    int before = errno;
    call();
    signals++;
    errno = before;
}

int main(int argc, char **argv) {
    static char *held[SLOTS];
    works_require_loam();
    works_limit(60);
    what = argc > 1 ? argv[1] : "group";
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGVTALRM, &action, NULL) == 0, "sigaction");
    struct itimerval timer = {{0, 200}, {0, 200}};
    CHECK(setitimer(ITIMER_VIRTUAL, &timer, NULL) == 0, "setitimer");
    uint32_t chance = (uint32_t)getpid();
    for (uint64_t end = works_now_ms() + 2000; works_now_ms() < end || signals < 50;) {
        for (int i = 0; i < 200; i++) {
            chance = chance * 1664525u + 1013904223u;
            char **slot = &held[(chance >> 8) % SLOTS];
            free(*slot);
            *slot = malloc((chance >> 16) % 16 == 0 ? 1000000 : 1 + (chance >> 20));
            CHECK(*slot != NULL, "malloc");
            **slot = 1;
        }
    }
    memset(&timer, 0, sizeof timer);
    CHECK(setitimer(ITIMER_VIRTUAL, &timer, NULL) == 0, "setitimer");
    CHECK(failures == 0, "%d of %d calls failed", (int)failures, (int)signals);
    return 0;
}

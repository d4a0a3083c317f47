// starter: starts one program, waits for it, and reports what it used; itself next to nothing.
//
//     starter REPORT_FD LIBRARY THP COUNT NAME=VALUE... PROGRAM ARGUMENT...
//
// Linux hands a process the peak memory of whoever forked it: a program started by Python reports
// at least Python's 10 MB. This one is a few pages, so that a program that does nothing shows the
// 1 to 2 MiB that it has. It is given the program's environment as COUNT arguments, because an
// LD_PRELOAD in its own would reach itself. THP is `never` (no transparent huge pages in the
// program and its children) or `default`. Standard input, output, error and the folder are handed
// on. The program leads a process group of its own and dumps no core.
//
// On REPORT_FD, which the program does not get, come two lines:
//
//     started PID                   or: failed REASON
//     ended STATUS USER_US SYS_US WALL_US MINOR MAJOR PEAK_KIB OPENED
//
// STATUS is wait4's; times and faults are those of the program and of the children it waited for,
// PEAK_KIB that of the largest. OPENED is 1 if somebody opened the file LIBRARY meanwhile
// (inotify): the one trace of a preload that a program of a few milliseconds cannot outrun.
// It times nothing out: who started it kills the group. If that one dies, so does the program.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int report;

static void tell(const char *text, size_t length) {
    while (length > 0) {
        ssize_t done = write(report, text, length);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) _exit(1);
        text += done;
        length -= (size_t)done;
    }
}

static void fail(const char *what, int error) {
    char line[256];
    int length = snprintf(line, sizeof line, "failed %s: %s\n", what, strerror(error));
    tell(line, (size_t)length);
    _exit(1);
}

static long long microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static long long of_time(struct timeval time) { return time.tv_sec * 1000000LL + time.tv_usec; }

// In the child. An error goes into `trouble`, which closes by itself where all is well.
_Noreturn static void become(char **command, char **environment, int no_huge_pages, int trouble) {
    struct rlimit none = {0, 0};
    setpgid(0, 0);
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!no_huge_pages || prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0) {
        execve(command[0], command, environment);
    }
    int error = errno;
    ssize_t told = write(trouble, &error, sizeof error);
    _exit(told > 0 ? 127 : 126);
}

int main(int argc, char **argv) {
    int count = argc > 4 ? atoi(argv[4]) : 0;
    if (argc < 6 || count < 0 || argc <= 5 + count) {
        fputs("starter: REPORT_FD LIBRARY THP COUNT NAME=VALUE... PROGRAM ARGUMENT...\n", stderr);
        return 2;
    }
    report = atoi(argv[1]);
    fcntl(report, F_SETFD, FD_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL);

    // The program's environment and command, each ended by a NULL: one place is free between.
    char **environment = argv + 4;
    memmove(environment, argv + 5, (size_t)count * sizeof *environment);
    environment[count] = NULL;
    char **command = argv + 5 + count;

    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch >= 0) inotify_add_watch(watch, argv[2], IN_OPEN);
    int ends[2];
    if (pipe(ends) != 0) fail("pipe", errno);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);

    long long began = microseconds();
    pid_t child = fork();
    if (child < 0) fail("fork", errno);
    if (child == 0) become(command, environment, strcmp(argv[3], "never") == 0, ends[1]);
    close(ends[1]);
    int error;
    if (read(ends[0], &error, sizeof error) == sizeof error) fail(command[0], error);

    char line[256];
    int length = snprintf(line, sizeof line, "started %d\n", child);
    tell(line, (size_t)length);
    int status;
    struct rusage used;
    while (wait4(child, &status, 0, &used) < 0) {
        if (errno != EINTR) fail("wait4", errno);
    }
    long long wall = microseconds() - began;
    char event[4096];
    int opened = watch >= 0 && read(watch, event, sizeof event) > 0;
    length = snprintf(line, sizeof line, "ended %d %lld %lld %lld %ld %ld %ld %d\n", status,
                      of_time(used.ru_utime), of_time(used.ru_stime), wall, used.ru_minflt,
                      used.ru_majflt, used.ru_maxrss, opened);
    tell(line, (size_t)length);
    return 0;
}

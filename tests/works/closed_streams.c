/*
 * closed_streams.c - standard input, output and error are closed, as in many a daemon, or error
 * leads nowhere.
 *
 * Catches: descriptors of the allocator's own in the lowest places (the program's next file would
 * be expected there); a message that cannot be written and keeps malloc in a loop, or turns an
 * abort into something else; options that print, in a process that has nowhere to print to.
 */
#include "works.h"

#include <pthread.h>

enum { report = 9 }; /* where the children say what is wrong, as their standard error is closed */

static char foreign[4096] __attribute__((aligned(4096)));

static void *work(void *argument) {
    works_exercise((uint64_t)(uintptr_t)argument + 1, 500);
    return NULL;
}

static int child(const char *how) {
    works_report_fd = report;
    works_limit(20);
    if (strcmp(how, "full") != 0 && strcmp(how, "pipe") != 0) {
        for (int fd = 0; fd < 3; fd++)
            CHECK(fcntl(fd, F_GETFD) < 0, "descriptor %d is open although it was closed at start",
                  fd);
    }
    pthread_t ids[3];
    for (size_t t = 0; t < 3; t++)
        CHECK(pthread_create(&ids[t], NULL, work, (void *)(uintptr_t)t) == 0, "pthread_create");
    for (size_t t = 0; t < 3; t++) pthread_join(ids[t], NULL);
    works_block *block = works_block_new(64 * WORKS_MIB, 1);
    works_block_free(block);
    if (strcmp(how, "closed") == 0) {
        works_sleep_ms(500);
        int fd = open("/dev/null", O_RDWR);
        CHECK(
            fd == 0,
            "the first file opened is descriptor %d instead of 0: the allocator holds a descriptor",
            fd);
        return 0;
    }
    void *volatile pointer = foreign + 64;
    free(pointer);
    return 0;
}

/* Starts `how` with its streams closed, or leading to a full device or a pipe that nobody reads. */
static int start(const char *how, char *const options[]) {
    const char *self = works_self();
    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        dup2(2, report);
        int ends[2];
        if (strcmp(how, "full") == 0) {
            int full = open("/dev/full", O_WRONLY);
            dup2(full, 2);
        } else if (strcmp(how, "pipe") == 0 && pipe(ends) == 0) {
            dup2(ends[1], 2);
            close(ends[0]);
            close(ends[1]);
        } else {
            for (int fd = 0; fd < 3; fd++) close(fd);
        }
        char *arguments[] = {(char *)self, (char *)"--child", (char *)how, NULL};
        execve(self, arguments, options);
        _exit(126);
    }
    return works_wait(pid);
}

int main(int argc, char **argv) {
    if (argc > 2) return child(argv[2]);
    works_require_loam();
    works_limit(60);
    char *silent[] = {NULL};
    char *loud[] = {(char *)"LOAM_VERBOSE=1", (char *)"LOAM_SHOW_STATS=1",
                    (char *)"LOAM_PURGE_DELAY=abc", (char *)"LOAM_NO_SUCH_OPTION=1", NULL};
    char *lenient[] = {(char *)"LOAM_ON_ERROR=ignore", NULL};
    works_expect_ok(start("closed", silent), "a program without streams");
    works_expect_ok(start("closed", loud), "a program without streams, with options that print,");
    int status = start("foreign", silent);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
          "without streams, free of a foreign pointer gave status %d instead of SIGABRT", status);
    status = start("full", silent);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
          "with a full standard error, free of a foreign pointer gave status %d instead of SIGABRT",
          status);
    status = start("pipe", silent);
    CHECK(WIFSIGNALED(status) && (WTERMSIG(status) == SIGABRT || WTERMSIG(status) == SIGPIPE),
          "with a broken pipe as standard error, free of a foreign pointer gave status %d", status);
    if (!works_any_allocator())
        works_expect_ok(start("foreign", lenient),
                        "without streams, told to ignore errors, a program");
    return 0;
}

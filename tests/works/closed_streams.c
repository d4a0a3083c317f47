/* 
 * closed_streams.c - standard input, output and error are closed, as in many a daemon, or error
 * leads nowhere.
 *
 * Catches: descriptors of the allocator's own in the lowest places (the program's next file would
 * be expected there); a message that cannot be written and keeps malloc in a loop, or turns an
 * abort into something else, or ends a program that was told to go on; options that print, in a
 * process that has nowhere to print to, or that closes its streams before it ends; a message in a
 * file of the program's that has the number of standard error, or none in one that was put there to
 * take its messages.
 */
#include "works.h"

#include <pthread.h>

enum { report = 9 }; /* where the children say what is wrong, as their standard error is closed */

static char foreign[4096] __attribute__((aligned(4096)));

static void *work(void *argument) {
    works_exercise((uint64_t)(uintptr_t)argument + 1, 500);
    return NULL;
}

/* A new file, without a name; it gets number 2 if that is free and 0 and 1 are not. */
static int new_file(int flags) {
    char name[] = "/tmp/loam_closed_streams.XXXXXX";
    int fd = mkstemp(name), again = open(name, O_RDWR | flags);
    CHECK(fd >= 0 && again >= 0, "a file in /tmp: %s", strerror(errno));
    unlink(name);
    dup2(again, fd);
    close(again);
    return fd;
}

/* What a mistake leaves in the file that is number 2 now. */
static bool is_told(void) {
    char text[200] = "";
    void *volatile pointer = foreign + 64;
    off_t before = lseek(2, 0, SEEK_END);
    free(pointer);
    return pread(2, text, sizeof text - 1, before) > 0 && strstr(text, "loam: ") != NULL;
}

static void put(int fd, int number) {
    dup2(fd, number);
    close(fd);
}

/* What freopen and a shell's 2> make of standard error. */
static void written_only(void) {
    char path[64];
    int file = new_file(0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    put(open(path, O_WRONLY), 2);
    void *volatile pointer = foreign + 64;
    free(pointer);
    CHECK(lseek(file, 0, SEEK_END) > 0, "no message in a file that is only written to");
    close(file);
}

/* Another file takes the number of standard error while the program runs. */
static int moved(void) {
    works_report_fd = fcntl(2, F_DUPFD_CLOEXEC, 100); /* beyond where one looks for it */
    close(2);
    CHECK(new_file(0) == 2, "number 2 is taken");
    CHECK(!is_told(), "a message in a file of the program's");
    put(new_file(O_APPEND), 2);
    CHECK(is_told(), "no message in a file for appending");
    put(new_file(0), 2);
    CHECK(!is_told(), "a message in a second file of the program's");
    written_only();
    put(new_file(0), 2);
    int output = dup(1);
    dup2(2, 1);
    CHECK(is_told(), "no message where standard output is");
    put(output, 1);
    CHECK(!is_told(), "a message in a third file of the program's");
    int aside = dup(works_report_fd);
    CHECK(is_told(), "no message although the program has put the former file aside");
    close(aside);
    int ends[2];
    CHECK(pipe(ends) == 0, "pipe");
    put(ends[1], 2);
    char text[200] = "";
    void *volatile pointer = foreign + 64;
    free(pointer);
    CHECK(read(ends[0], text, sizeof text - 1) > 0, "no message in a pipe");
    return 0;
}

static int child(const char *how) {
    if (strcmp(how, "moved") == 0) return moved();
    if (strcmp(how, "at_exit") == 0) {
        close(1);
        close(2);
        return 0;
    }
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
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
          "with a broken pipe as standard error, free of a foreign pointer gave status %d", status);
    if (works_any_allocator()) return 0;
    works_expect_ok(start("foreign", lenient), "without streams, told to ignore errors, a program");
    works_expect_ok(start("pipe", lenient),
                    "with a broken pipe as standard error, told to ignore errors, a program");
    char text[8192], *moves[] = {(char *)works_self(), (char *)"--child", (char *)"moved", NULL},
                     *ends[] = {(char *)works_self(), (char *)"--child", (char *)"at_exit", NULL};
    status = works_capture(works_self(), moves, lenient, 2, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d: %s", status, text);
    char *statistics[] = {(char *)"LOAM_SHOW_STATS=1", NULL};
    works_expect_ok(works_capture(works_self(), ends, statistics, 2, text, sizeof text),
                    "a program that closes its streams");
    CHECK(strstr(text, "heap statistics") != NULL, "no statistics at exit: %s", text);
    return 0;
}

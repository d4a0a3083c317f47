/*
 * setuid_threads.c - setuid changes the credentials of everything that runs in the process.
 *
 * Catches: a background thread that the C library does not know of: it would keep the old user
 * (root, in a server that has just dropped its rights) next to the program's memory. Also a helper
 * process that shares memory and does the same.
 *
 * Children free 64 MiB, wait between 0 and 760 ms, drop to an unprivileged user, and read the user
 * of each of their threads.
 */
#include "works.h"

#include <dirent.h>
#include <pthread.h>

enum { children = 20, step_ms = 40, blocks = 64 * 16, nobody = 65534 };

static void *wait_long(void *argument) {
    (void)argument;
    for (;;) works_sleep_ms(1000);
    return NULL;
}

static int child(int at) {
    static char *block[blocks];
    works_limit(20);
    pthread_t id;
    if (at % 2) CHECK(pthread_create(&id, NULL, wait_long, NULL) == 0, "pthread_create");
    for (int i = 0; i < blocks; i++) {
        block[i] = malloc(64 * WORKS_KIB);
        if (!block[i]) return 2;
        works_touch(block[i], 64 * WORKS_KIB);
    }
    for (int i = 0; i < blocks; i++) free(block[i]);
    works_sleep_ms((uint64_t)at * step_ms);
    CHECK(setuid(nobody) == 0, "setuid: %s", strerror(errno));

    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL, "opendir /proc/self/task: %s", strerror(errno));
    int seen = 0;
    for (struct dirent *entry; (entry = readdir(tasks));) {
        if (entry->d_name[0] == '.') continue;
        char path[300], text[4096], expected[64];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        if (works_read_file(path, text, sizeof text) <= 0) continue; /* ended in the meantime */
        char *line = strstr(text, "\nUid:");
        snprintf(expected, sizeof expected, "\nUid:\t%d\t%d\t%d\t%d\n", nobody, nobody, nobody,
                 nobody);
        CHECK(line && strncmp(line, expected, strlen(expected)) == 0,
              "%d ms after freeing 64 MiB and setuid(%d), thread %s has: %.40s", at * step_ms,
              nobody, entry->d_name, line ? line + 1 : "no Uid line");
        seen++;
    }
    closedir(tasks);
    CHECK(seen >= 1 + at % 2, "%d threads seen", seen);

    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    ssize_t n = works_read_file(path, text, sizeof text); /* a kernel may lack this file */
    CHECK(n <= 0 || text[0] == 0, "the program has a child process it did not start: %s", text);
    works_exercise((uint64_t)at + 1, 200);
    return 0;
}

int main(void) {
    works_require_loam();
    if (geteuid() != 0) SKIP("only root can change its user");
    pid_t pids[children];
    for (int t = 0; t < children; t++) {
        pids[t] = fork();
        CHECK(pids[t] >= 0, "fork: %s", strerror(errno));
        if (pids[t] == 0) _exit(child(t));
    }
    for (int t = 0; t < children; t++)
        works_expect_ok(works_wait(pids[t]), "a child that changes its user");
    return 0;
}

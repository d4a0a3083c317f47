/*
 * unshare_user.c - a single-threaded program may unshare its user namespace at any moment after
 * freeing much memory.
 *
 * Catches: a background thread: the kernel refuses unshare(CLONE_NEWUSER) with EINVAL to a process
 * of more than one thread. Sandboxes and container tools call it early, after having parsed and
 * freed something, and have only one thread.
 *
 * Twenty children free 64 MiB and unshare 0 to 760 ms later, so that the whole life of such a
 * thread is sampled.
 */
#include "works.h"

#include <sched.h>

enum { children = 20, step_ms = 40, blocks = 64 * 16 };

static int child(int at) {
    static char *block[blocks];
    works_limit(20);
    for (int i = 0; i < blocks; i++) {
        block[i] = malloc(64 * WORKS_KIB);
        if (!block[i]) return 2;
        works_touch(block[i], 64 * WORKS_KIB);
    }
    for (int i = 0; i < blocks; i++) free(block[i]);
    works_sleep_ms((uint64_t)at * step_ms);
    CHECK(unshare(CLONE_NEWUSER) == 0,
          "unshare(CLONE_NEWUSER) %d ms after freeing 64 MiB: %s (threads: %d)", at * step_ms,
          strerror(errno), works_thread_count());
    works_exercise((uint64_t)at + 1, 200);
    return 0;
}

int main(void) {
    works_require_loam();
    pid_t pid = fork();
    if (pid == 0) _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : errno);
    int status = works_wait(pid);
    if (status != 0)
        SKIP("the kernel lets this user not unshare a user namespace: %s",
             strerror(WEXITSTATUS(status)));
    pid_t pids[children];
    for (int t = 0; t < children; t++) {
        pids[t] = fork();
        CHECK(pids[t] >= 0, "fork: %s", strerror(errno));
        if (pids[t] == 0) _exit(child(t));
    }
    for (int t = 0; t < children; t++)
        works_expect_ok(works_wait(pids[t]), "a child that unshares");
    return 0;
}

/*
 * no_proc.c - no /proc and no /sys: as in a chroot, an early boot stage or a strict container.
 *
 * Catches: an allocator that needs a file to find its page size, its processors or the state of
 * huge pages, at its start or at any time later; and one that takes a file missing for an error
 * worth a word.
 *
 * The program hides both under empty file systems in a mount namespace of its own and starts
 * itself there; then it goes into an empty directory by chroot and works on. Needs the right to do
 * so: root, or user namespaces.
 */
#include "works.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>

static void *work(void *argument) {
    works_exercise((uint64_t)(uintptr_t)argument + 1, 1000);
    return NULL;
}

static void everything(void) {
    pthread_t ids[3];
    for (size_t t = 0; t < 3; t++)
        CHECK(pthread_create(&ids[t], NULL, work, (void *)(uintptr_t)t) == 0, "pthread_create");
    for (size_t t = 0; t < 3; t++) pthread_join(ids[t], NULL);
    char *large = malloc(64 * WORKS_MIB);
    CHECK(large != NULL, "malloc(64 MiB)");
    works_touch(large, 64 * WORKS_MIB);
    large = realloc(large, 200 * WORKS_MIB);
    CHECK(large != NULL, "realloc to 200 MiB");
    free(large);
    works_sleep_ms(500);
    pid_t pid = fork();
    if (pid == 0) {
        works_exercise(9, 1000);
        _exit(0);
    }
    works_expect_ok(works_wait(pid), "a forked child");
}

static int without_proc(const char *folder) {
    CHECK(access("/proc/self", F_OK) != 0 && access("/sys/kernel", F_OK) != 0,
          "/proc or /sys is still there: nothing is tested");
    everything();
    CHECK(chroot(folder) == 0 && chdir("/") == 0, "chroot to %s: %s", folder, strerror(errno));
    CHECK(access("/tmp", F_OK) != 0, "the new root is not empty");
    everything();
    return 0;
}

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(60);
    if (argc > 2) return without_proc(argv[2]);
    char folder[] = "/tmp/loam-works-XXXXXX";
    const char *self = works_self();
    CHECK(mkdtemp(folder) != NULL, "mkdtemp: %s", strerror(errno));
    char text[4096], *arguments[] = {argv[0], (char *)"--without", folder, NULL},
                     *nothing[] = {NULL};
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) _exit(77);
        if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) _exit(77);
        if (mount("none", "/proc", "tmpfs", MS_RDONLY, NULL) != 0 ||
            mount("none", "/sys", "tmpfs", MS_RDONLY, NULL) != 0)
            _exit(77);
        char *loud[] = {(char *)"WORKS_ANY_ALLOCATOR=1", NULL};
        int status = works_capture(self, arguments, works_any_allocator() ? loud : nothing, 2, text,
                                   sizeof text);
        if (text[0]) works_say("the program without /proc said: %s", text);
        works_expect_ok(status, "the program without /proc");
        _exit(text[0] != 0);
    }
    int status = works_wait(pid);
    rmdir(folder);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) SKIP("this user may not mount over /proc");
    works_expect_ok(status, "the program without /proc");
    return 0;
}

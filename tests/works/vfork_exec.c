/*
 * vfork_exec.c - vfork and exec from a process whose threads allocate all the while.
 *
 * Catches: fork handling that assumes memory of its own in the child (with vfork it is the
 * parent's), and state that the child's exec takes away under the parent's feet: a background
 * thread started by the child lives in the child's process and dies at its exec, so the parent
 * must not count on it ever after.
 *
 * The second half allocates in the child of vfork. POSIX does not allow it; shells and servers do
 * it and it works with the C library's allocator, so it has to work here.
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>

enum { threads = 2, rounds = 150 };

static atomic_bool stop;
extern char **environ;

static void *work(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    while (!atomic_load(&stop)) works_exercise(works_random(&seed), 200);
    return NULL;
}

/* Kept out of main so that the child's writes touch none of main's variables. */
__attribute__((noinline)) static void spawn(char *const arguments[], size_t allocate_blocks) {
    void *volatile blocks[32];
    pid_t pid = vfork();
    if (pid == 0) {
        for (size_t i = 0; i < allocate_blocks; i++) {
            blocks[i] = malloc(512 * WORKS_KIB);
            if (!blocks[i]) _exit(3);
            works_touch(blocks[i], 512 * WORKS_KIB);
        }
        for (size_t i = 0; i < allocate_blocks; i++) free(blocks[i]);
        execve(arguments[0], arguments, environ);
        _exit(126);
    }
    CHECK(pid > 0, "vfork: %s", strerror(errno));
    works_expect_ok(works_wait(pid), "the program started by vfork and exec");
}

int main(int argc, char **argv) {
    works_require_loam();
    if (argc > 1 && strcmp(argv[1], "--child") == 0) {
        works_exercise(9, 200);
        return 0;
    }
    works_limit(60);
    char *arguments[] = {(char *)works_self(), (char *)"--child", NULL};
    pthread_t ids[threads];
    for (size_t t = 0; t < threads; t++)
        CHECK(pthread_create(&ids[t], NULL, work, (void *)(uintptr_t)t) == 0, "pthread_create");
    for (int i = 0; i < rounds; i++) {
        spawn(arguments, 0);
        works_exercise((uint64_t)i + 1, 20);
    }
    for (int i = 0; i < rounds / 3; i++) {
        spawn(arguments, 32);
        works_exercise((uint64_t)i + 1, 20);
        if (i % 10 == 0)
            works_sleep_ms(
                50); /* gives the purge time to begin between, in and after the children */
    }
    atomic_store(&stop, true);
    for (size_t t = 0; t < threads; t++) pthread_join(ids[t], NULL);

    works_sleep_ms(1000);
    size_t start = works_rss_bytes();
    spawn(arguments, 32);
    char *blocks[1024];
    for (int i = 0; i < 1024; i++) {
        blocks[i] = malloc(64 * WORKS_KIB);
        CHECK(blocks[i] != NULL, "malloc");
        works_touch(blocks[i], 64 * WORKS_KIB);
    }
    for (int i = 0; i < 1024; i++) free(blocks[i]);
    size_t end = works_settled(works_rss_bytes, start + 4 * WORKS_MIB);
    CHECK(works_any_allocator() || end <= start + 4 * WORKS_MIB,
          "a child of vfork freed memory, and the parent's 64 MiB stay: %zu KiB before, "
          "%zu KiB after",
          start / 1024, end / 1024);
    return 0;
}

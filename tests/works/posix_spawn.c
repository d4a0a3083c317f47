/*
 * posix_spawn.c - posix_spawn with file actions, from three threads at once, while others
 * allocate.
 *
 * Catches: an allocator that is entered in the spawned child (which shares the parent's memory
 * until its exec) with signals blocked and a small stack, or that leaves a file descriptor open
 * into the started program.
 */
#include "works.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>

enum { spawners = 3, spawns_each = 50, workers = 2 };

static atomic_bool stop;
extern char **environ;

static void *work(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    while (!atomic_load(&stop)) works_exercise(works_random(&seed), 200);
    return NULL;
}

static void *spawn_often(void *argument) {
    (void)argument;
    for (int i = 0; i < spawns_each; i++) {
        int ends[2];
        CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe2: %s", strerror(errno));
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
        char *arguments[] = {(char *)works_self(), (char *)"--child", NULL};
        pid_t pid;
        int error = posix_spawn(&pid, arguments[0], &actions, NULL, arguments, environ);
        CHECK(error == 0, "posix_spawn: %s", strerror(error));
        posix_spawn_file_actions_destroy(&actions);
        close(ends[1]);
        char answer[32];
        ssize_t n = read(ends[0], answer, sizeof answer - 1);
        answer[n > 0 ? n : 0] = 0;
        CHECK(strcmp(answer, "spawned") == 0, "the child answered '%s'", answer);
        close(ends[0]);
        works_expect_ok(works_wait(pid), "the program started by posix_spawn");
    }
    return NULL;
}

/* The started program: works, and holds no descriptor but its three streams. */
static int child(void) {
    works_exercise(9, 200);
    for (int fd = 3; fd < 64; fd++) {
        char path[64], target[256];
        if (fcntl(fd, F_GETFD) < 0) continue;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(path, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        /* a test runner may leave pipes and files open, but not what an allocator would open */
        CHECK(strncmp(target, "/proc", 5) != 0 && strncmp(target, "/sys", 4) != 0,
              "descriptor %d is open on %s", fd, target);
    }
    works_write(1, "spawned", 7);
    return 0;
}

int main(int argc, char **argv) {
    works_require_loam();
    if (argc > 1 && strcmp(argv[1], "--child") == 0) return child();
    works_limit(60);
    works_self();
    pthread_t ids[workers], spawning[spawners];
    for (size_t t = 0; t < workers; t++)
        CHECK(pthread_create(&ids[t], NULL, work, (void *)(uintptr_t)t) == 0, "pthread_create");
    for (size_t t = 0; t < spawners; t++)
        CHECK(pthread_create(&spawning[t], NULL, spawn_often, NULL) == 0, "pthread_create");
    for (size_t t = 0; t < spawners; t++) pthread_join(spawning[t], NULL);
    atomic_store(&stop, true);
    for (size_t t = 0; t < workers; t++) pthread_join(ids[t], NULL);
    return 0;
}

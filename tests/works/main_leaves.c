/*
 * main_leaves.c - the main thread calls pthread_exit while others go on; the process ends when the
 * last of them does.
 *
 * Catches: an allocator that ties its state to the main thread's heap or stack, and a background
 * thread that keeps the process alive (or a process that ends early, or with another status,
 * because of it).
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>

enum { threads = 3, work_ms = 400, slack_ms = 1500, mains_blocks = 500 };

static _Atomic(works_block *) mains[mains_blocks];

static void *work(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1, end = works_now_ms() + work_ms;
    while (works_now_ms() < end) works_exercise(works_random(&seed), 100);
    for (int i = 0; i < mains_blocks;
         i++) { /* what the main thread left, and never comes back for */
        works_block *block = atomic_exchange(&mains[i], NULL);
        if (block) works_block_free(block);
    }
    char *large = malloc(64 * WORKS_MIB); /* something to give back when nobody is there any more */
    CHECK(large != NULL, "malloc(64 MiB)");
    works_touch(large, 64 * WORKS_MIB);
    free(large);
    return NULL;
}

static void child(void) {
    works_limit(20);
    for (size_t t = 0; t < threads; t++) {
        pthread_t id;
        CHECK(pthread_create(&id, NULL, work, (void *)(uintptr_t)t) == 0, "pthread_create");
        pthread_detach(id);
    }
    uint64_t seed = 5;
    for (int i = 0; i < mains_blocks; i++)
        atomic_store(&mains[i], works_block_new(works_random_size(&seed), seed));
    pthread_exit(NULL);
}

int main(void) {
    works_require_loam();
    for (int i = 0; i < 4; i++) {
        uint64_t start = works_now_ms();
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) child();
        works_expect_ok(works_wait(pid), "a process whose main thread left");
        uint64_t took = works_now_ms() - start;
        CHECK(took >= work_ms, "the process ended after %d ms, before its threads did", (int)took);
        CHECK(took <= work_ms + slack_ms, "the process took %d ms to end: something kept it alive",
              (int)took);
    }
    return 0;
}

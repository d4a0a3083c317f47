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

enum { threads = 3, work_ms = 400, slack_ms = 1000, mains_blocks = 500 };

static _Atomic(works_block *) mains[mains_blocks];
static atomic_ullong *last_end; /* shared with the parent: when the last thread was about to end */

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
    atomic_store(last_end, works_now_ms());
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
    last_end = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(last_end != MAP_FAILED, "mmap: %s", strerror(errno));
    for (int i = 0; i < 4; i++) {
        atomic_store(last_end, UINT64_MAX);
        pid_t pid = fork();
        CHECK(pid >= 0, "fork: %s", strerror(errno));
        if (pid == 0) child();
        works_expect_ok(works_wait(pid), "a process whose main thread left");
        uint64_t now = works_now_ms(), threads_ended = atomic_load(last_end);
        CHECK(threads_ended <= now, "the process ended before its threads did");
        CHECK(now <= threads_ended + slack_ms, "something kept the process alive for %d ms",
              (int)(now - threads_ended));
    }
    return 0;
}

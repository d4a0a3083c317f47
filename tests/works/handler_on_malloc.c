/*
 * handler_on_malloc.c - a thread that sleeps in a signal handler may have been in the middle of
 * malloc when the signal came.
 *
 * Catches: an allocator that tidies up the lists of threads that sleep in a system call, and takes
 * one for idle whose handler sleeps on top of an interrupted malloc or free: the call goes on after
 * the handler with what it had read before, and hands out a block that is somebody else's by now.
 *
 * Threads allocate, check and free small blocks without pause, are all sent to sleep by signals at
 * whatever instruction they are, and meanwhile the main thread frees enough for whatever works in
 * the background to come by several times. What such a mistake breaks is found by a thread in the
 * contents of its blocks, or ends the process. It depends on chance where a signal falls: a bad
 * allocator fails nearly always, not always.
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>

enum { threads = 16, rounds = 7, nap_ms = 400, frees = 5, pace_ms = 100 };

static atomic_bool stop;
static atomic_uint naps;

static void nap(int number) {
    (void)number;
    int saved = errno;
    works_sleep_ms(nap_ms);
    atomic_fetch_add(&naps, 1);
    errno = saved;
}

/* One block at a time: the thread is nearly always inside malloc or free, at a free list that has
   just been emptied or refilled, and no block is in use while it is in malloc. */
static void *work(void *argument) {
    uint64_t mine = (uint64_t)(uintptr_t)argument + 1;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        uint64_t *volatile block = malloc(64);
        CHECK(block != NULL, "malloc(64)");
        block[0] = mine;
        block[7] = ~mine;
        CHECK(block[0] == mine && block[7] == ~mine,
              "thread %u found the contents of its block %p changed", (unsigned)mine,
              (void *)block);
        free(block);
    }
    return NULL;
}

int main(void) {
    works_require_loam();
    works_limit(60);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = nap;
    sigaction(SIGUSR1, &action, NULL);
    pthread_t ids[threads];
    for (size_t t = 0; t < threads; t++)
        CHECK(pthread_create(&ids[t], NULL, work, (void *)(uintptr_t)t) == 0, "pthread_create");
    for (int round = 0; round < rounds; round++) {
        for (int t = 0; t < threads; t++) pthread_kill(ids[t], SIGUSR1);
        for (int i = 0; i < frees; i++) {
            char *block = malloc(4 * WORKS_MIB);
            CHECK(block != NULL, "malloc");
            works_touch(block, 4 * WORKS_MIB);
            free(block);
            works_sleep_ms(pace_ms);
        }
    }
    atomic_store(&stop, true);
    for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    CHECK(atomic_load(&naps) >= threads, "only %u handlers ran", atomic_load(&naps));
    return 0;
}

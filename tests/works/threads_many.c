/*
 * threads_many.c - a hundred thousand threads come, allocate, free each other's blocks and go;
 * nothing is left stranded.
 *
 * Catches: whatever a thread leaves behind: its heap, partly used pages that nobody takes over,
 * lists of others' blocks it had not sent home. Resident memory at the end is within 10% of
 * what it was after the first thousand threads.
 *
 * Sixteen threads at a time (all alive at once in every batch, so that chance does not decide how
 * many heaps and stacks there are) pass blocks through a ring: each takes out blocks that older
 * (mostly ended) threads put in, checks and frees them, and puts in its own. At both measuring
 * points the ring is emptied and a second passes.
 */
#include "works.h"

#include <pthread.h>
#include <stdatomic.h>

enum { threads = 100000, first = 1000, batch = 16, ring_size = 4096, blocks_each = 40 };

static _Atomic(works_block *) ring[ring_size];
static pthread_barrier_t all_there;

static void *work(void *argument) {
    uint64_t seed = (uint64_t)(uintptr_t)argument + 1;
    works_random(&seed);
    works_block *first_block = works_block_new(100, seed);
    pthread_barrier_wait(&all_there);
    works_block_free(first_block);
    for (int i = 0; i < blocks_each; i++) {
        uint64_t r = works_random(&seed);
        size_t bytes = 16 + (size_t)((r >> 20) % (r % 64 == 0 ? 40000 : r % 4 == 0 ? 2000 : 200));
        works_block *old =
            atomic_exchange(&ring[(r >> 8) % ring_size], works_block_new(bytes, seed));
        if (old) works_block_free(old);
    }
    return NULL;
}

static void run(int from, int to) {
    pthread_t ids[batch];
    for (int i = from; i < to; i += batch) {
        int n = to - i < batch ? to - i : batch;
        pthread_barrier_init(&all_there, NULL, (unsigned)n);
        for (int t = 0; t < n; t++)
            CHECK(pthread_create(&ids[t], NULL, work, (void *)(uintptr_t)(i + t)) == 0,
                  "pthread_create, thread %d", i + t);
        for (int t = 0; t < n; t++) pthread_join(ids[t], NULL);
        pthread_barrier_destroy(&all_there);
    }
}

static void settle(void) {
    for (int i = 0; i < ring_size; i++) {
        works_block *block = atomic_exchange(&ring[i], NULL);
        if (block) works_block_free(block);
    }
    works_sleep_ms(1000);
}

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(110);
    int total = argc > 1 ? atoi(argv[1]) : threads;
    run(0, first);
    settle();
    size_t start = works_rss_bytes(), start_own = works_anonymous_bytes();
    run(first, total);
    settle();
    size_t allowed = start_own + start / 10,
           end_own = works_settled(works_anonymous_bytes, allowed), end = works_rss_bytes();
    works_say("resident: %zu KiB (%zu of no file) after %d threads, %zu KiB (%zu) after %d",
              start / 1024, start_own / 1024, first, end / 1024, end_own / 1024, total);
    CHECK(end_own <= allowed,
          "%zu KiB more are resident after %d threads than after %d, allowed are 10%% of %zu",
          (end_own - start_own) / 1024, total, first, start / 1024);
    return 0;
}

// many_threads.c: 10,000 small threads, 1,000 or more alive at a time, each with a few objects.
//
// Asks: how much memory does a thread cost beyond what it asked for? Each one allocates 20 objects
// (about 5 KiB), waits until all of its wave have, frees them and ends. What an allocator sets
// aside for a thread (heap, caches, a page for each size) is multiplied by --alive. The stacks are
// small; of each, two or three pages are touched, the same for all: about 12 KiB of resident
// memory a thread are not the allocator's. The peak resident memory is the point; of the time,
// most is the kernel's for the threads and for the pages that they touch first.
#include "batch.h"

#include <pthread.h>

enum {
    HELD = 20,
    STACK = 128 << 10
}; // some allocators keep much thread-local data, and it is there

static uint64_t alive = 1000, most = 1024;

// Threads wait here for their wave. A barrier would do, but threads that are still inside it when
// the next wave is made would have to be waited for.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint64_t waiting, wave;

typedef struct {
    WlRandom random;
    pthread_t thread;
    WlTally tally;
} Small;

static void *run(void *argument) {
    Small *small = argument;
    Item *items[HELD];
    for (int at = 0; at < HELD; at++) {
        size_t size = wl_skewed(&small->random, ITEM_LEAST, most);
        items[at] = item_make(size, (unsigned char)wl_next(&small->random));
    }
    pthread_mutex_lock(&lock);
    uint64_t mine = wave;
    if (++waiting == alive) {
        waiting = 0;
        wave++;
        pthread_cond_broadcast(&changed);
    }
    while (wave == mine) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    for (int at = 0; at < HELD; at++) small->tally.sum += item_free(items[at]);
    small->tally.ops += 2 * HELD;
    return NULL;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--alive", &alive, 1, 30000, "threads at a time"},
                                {"--max", &most, ITEM_LEAST, 1 << 20, "largest size in bytes"},
                                {0}};
    wl_begin(argc, argv, "many-threads", WL_SINGLE, options);
    // Waves are never smaller, or a quick run would ask another question: the scale counts them.
    uint64_t waves = (wl_scaled(10000) + alive - 1) / alive;
    Small *smalls = wl_table(alive, sizeof(Small));
    for (uint64_t at = 0; at < alive; at++) smalls[at].random = wl_random(at);
    pthread_attr_t plain;
    pthread_attr_init(&plain);
    pthread_attr_setstacksize(&plain, STACK);
    for (uint64_t at = 0; at < waves * alive; at++) {
        Small *small = &smalls[at % alive];
        if (at >= alive) pthread_join(small->thread, NULL);
        int error = pthread_create(&small->thread, &plain, run, small);
        if (error != 0) wl_fail("thread %ju cannot start: %s", (uintmax_t)at, strerror(error));
    }
    pthread_attr_destroy(&plain);
    WlTally total = {0, 0};
    for (uint64_t at = 0; at < alive; at++) {
        pthread_join(smalls[at].thread, NULL);
        total.ops += smalls[at].tally.ops;
        total.sum += smalls[at].tally.sum;
    }
    return wl_end(total);
}

// thread_churn.c: threads start, allocate a bit, free all of it and end, thousands in a row.
//
// Asks: what do a thread's first allocations and its end cost, and does a thread leave anything
// behind? Setting up a heap for each thread and taking it down again may cost more than what such a
// short thread does with it; whatever is not given back shows in the peak resident memory, since
// nothing is ever alive but --threads such threads at a time, with 100 objects each.
// About half of the time is the kernel's, for the threads, and the same for all allocators; of the
// other half, on glibc, three quarters are malloc's and free's.
// Cannot say anything about threads whose objects outlive them; see mstress.c.
#include "batch.h"

#include <pthread.h>

enum { HELD = 100, STACK = 256 << 10 };

static uint64_t most = 2000;

typedef struct {
    WlRandom random;
    WlTally tally;
} Errand;

static void *run(void *argument) {
    Errand *errand = argument;
    Item *items[HELD];
    for (int at = 0; at < HELD; at++) {
        size_t size = wl_skewed(&errand->random, ITEM_LEAST, most);
        items[at] = item_make(size, (unsigned char)wl_next(&errand->random));
    }
    for (int at = 0; at < HELD; at++) errand->tally.sum += item_free(items[at]);
    errand->tally.ops += 2 * HELD;
    return NULL;
}

static WlTally body(WlWorker *me) {
    Errand errand = {.random = me->random};
    pthread_attr_t plain;
    pthread_attr_init(&plain);
    pthread_attr_setstacksize(&plain, STACK);
    uint64_t threads = wl_share(me, *(const uint64_t *)me->shared);
    for (uint64_t at = 0; at < threads; at++) {
        pthread_t thread;
        int error = pthread_create(&thread, &plain, run, &errand);
        if (error != 0) wl_fail("thread %ju cannot start: %s", (uintmax_t)at, strerror(error));
        pthread_join(thread, NULL);
    }
    pthread_attr_destroy(&plain);
    return errand.tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--max", &most, ITEM_LEAST, 1 << 20, "largest size in bytes"},
                                {0}};
    wl_begin(argc, argv, "thread-churn", WL_THREADED, options);
    uint64_t threads = wl_scaled(24000);
    return wl_end(wl_run(wl.threads, body, &threads));
}

// larson.c: a server whose threads inherit each other's objects.
//
// Asks: what does it cost when most of what a thread frees was allocated by another one that may
// be gone? After Larson and Krishnan, "Memory allocation for long-running server applications"
// (1998): the main thread fills one array of objects for each thread and shuffles the objects
// among the arrays; a thread replaces random objects of its array, then starts a successor, hands
// it the array and ends. Heaps that go with their threads "bleed" here. Unlike the original it
// does a fixed amount of work and not what fits into a time, so times compare and resident memory
// is bounded. There is no lock; of its instructions on glibc, 65% are malloc's and free's, the
// rest draws sizes, writes and checks.
// Cannot say anything about threads that live long; see rptest.c.
#include "batch.h"

#include <semaphore.h>

static uint64_t least = 16, most = 1000, objects = 16000, generations = 20;

// An array of objects and the threads that look after it, one after another.
typedef struct {
    _Alignas(128) Item **items;
    uint64_t objects;
    WlRandom random;
    uint64_t replaces; // of all generations together
    uint64_t generation;
    pthread_t thread; // the one that works, or worked last
    WlTally tally;
} Chain;

static sem_t done;

static Item *make(WlRandom *random) {
    return item_make(wl_between(random, least, most), (unsigned char)wl_next(random));
}

static void *work(void *argument) {
    Chain *chain = argument;
    // The predecessor, which started us as its last deed; with it its heap is gone.
    if (chain->generation > 0) pthread_join(chain->thread, NULL);
    chain->thread = pthread_self();
    uint64_t from = chain->replaces * chain->generation / generations;
    uint64_t to = chain->replaces * (chain->generation + 1) / generations;
    for (uint64_t at = from; at < to; at++) {
        Item **item = &chain->items[wl_below(&chain->random, chain->objects)];
        chain->tally.sum += item_free(*item);
        *item = make(&chain->random);
    }
    chain->tally.ops += 2 * (to - from);
    if (++chain->generation == generations) {
        sem_post(&done);
        return NULL;
    }
    pthread_t successor;
    int error = pthread_create(&successor, NULL, work, chain);
    if (error != 0) wl_fail("a successor cannot start: %s", strerror(error));
    return NULL;
}

int main(int argc, char **argv) {
    const WlOption options[] = {
        {"--min", &least, ITEM_LEAST, 1 << 20, "smallest size in bytes"},
        {"--max", &most, ITEM_LEAST, 1 << 20, "largest size in bytes"},
        {"--objects", &objects, 1024, 10000000, "live objects, all threads together"},
        {"--generations", &generations, 1, 100000, "threads in a row"},
        {0}};
    wl_begin(argc, argv, "larson", WL_THREADED, options);
    wl_order("--min", least, "--max", most);
    uint64_t threads = (uint64_t)wl.threads;
    uint64_t replaces = wl_scaled(10000000);
    WlRandom random = wl_random(threads);
    WlTally total = {2 * objects, 0};
    Item **items = wl_table(objects, sizeof(Item *));
    for (uint64_t at = 0; at < objects; at++) items[at] = make(&random);
    for (uint64_t at = objects - 1; at > 0; at--) {
        uint64_t with = wl_below(&random, at + 1);
        Item *held = items[at];
        items[at] = items[with];
        items[with] = held;
    }
    sem_init(&done, 0, 0);
    Chain *chains = wl_table(threads, sizeof(Chain));
    for (uint64_t at = 0; at < threads; at++) {
        Chain *chain = &chains[at];
        chain->items = items + objects * at / threads;
        chain->objects = objects * (at + 1) / threads - objects * at / threads;
        chain->random = wl_random(at);
        chain->replaces = replaces * (at + 1) / threads - replaces * at / threads;
        pthread_t first;
        int error = pthread_create(&first, NULL, work, chain);
        if (error != 0) wl_fail("thread %ju cannot start: %s", (uintmax_t)at, strerror(error));
    }
    for (uint64_t at = 0; at < threads; at++) {
        while (sem_wait(&done) != 0) {}
    }
    for (uint64_t at = 0; at < threads; at++) {
        pthread_join(chains[at].thread, NULL);
        total.ops += chains[at].tally.ops;
        total.sum += chains[at].tally.sum;
    }
    for (uint64_t at = 0; at < objects; at++) total.sum += item_free(items[at]);
    sem_destroy(&done);
    return wl_end(total);
}

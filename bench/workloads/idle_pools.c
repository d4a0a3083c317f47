// idle_pools.c: threads of a pool take turns being busy; the idle ones hold what they freed.
//
// Asks: does memory that one thread freed become another one's, or does every thread of a pool
// keep a peak's worth for itself? In its turn, a thread allocates 16 MiB, replaces at random,
// frees all but one object in a thousand, which it keeps until its next turn, and sleeps while the
// others have theirs. One thread is busy at any time, so about 16 MiB are enough for any number of
// threads; the peak resident memory is the point, and how it runs over time (sample_rss).
// Between turns all sleep for 20 ms, as a pool does that is not under load: time for an allocator
// with a clock to notice. Wall time says nothing.
#include "batch.h"

#include <errno.h>
#include <time.h>

static uint64_t bytes = 16 << 20, most = 1023, pause_ms = 20;

enum { KEPT = 1000 };

typedef struct {
    Item **items; // of one thread after another: --bytes worth of them for each
    uint64_t objects, turns;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t turn;
} Pool;

static void sleep_ms(uint64_t ms) {
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

static void replace(WlTally *tally, Item **item, WlRandom *random) {
    if (*item != NULL) {
        tally->sum += item_free(*item);
        tally->ops++;
    }
    *item = item_make(wl_skewed(random, ITEM_LEAST, most), (unsigned char)wl_next(random));
    tally->ops++;
}

static WlTally busy(Item **items, uint64_t objects, uint64_t turn, WlRandom *random) {
    WlTally tally = {0, 0};
    for (uint64_t at = 0; at < objects; at++) replace(&tally, &items[at], random);
    for (uint64_t at = 0; at < objects; at++) {
        replace(&tally, &items[wl_below(random, objects)], random);
    }
    for (uint64_t at = 0; at < objects; at++) {
        if (at % KEPT == turn % KEPT) continue;
        tally.sum += item_free(items[at]);
        tally.ops++;
        items[at] = NULL;
    }
    return tally;
}

static WlTally body(WlWorker *me) {
    Pool *pool = me->shared;
    Item **items = pool->items + (uint64_t)me->index * pool->objects;
    WlTally tally = {0, 0};
    for (uint64_t turn = (uint64_t)me->index; turn < pool->turns; turn += (uint64_t)me->count) {
        pthread_mutex_lock(&pool->lock);
        while (pool->turn != turn) pthread_cond_wait(&pool->changed, &pool->lock);
        pthread_mutex_unlock(&pool->lock);
        WlTally part = busy(items, pool->objects, turn, &me->random);
        tally.ops += part.ops;
        tally.sum += part.sum;
        sleep_ms(pause_ms);
        pthread_mutex_lock(&pool->lock);
        pool->turn++;
        pthread_mutex_unlock(&pool->lock);
        pthread_cond_broadcast(&pool->changed);
    }
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--bytes", &bytes, 1 << 20, UINT64_C(1) << 36, "of a turn"},
                                {"--max", &most, ITEM_LEAST, 1 << 20, "largest size in bytes"},
                                {"--pause", &pause_ms, 0, 60000, "milliseconds after a turn"},
                                {0}};
    wl_begin(argc, argv, "idle-pools", WL_THREADED, options);
    WlRandom random = wl_random(0);
    uint64_t sampled = 0;
    for (int at = 0; at < 4096; at++) sampled += wl_skewed(&random, ITEM_LEAST, most);
    Pool pool = {.objects = bytes * 4096 / sampled,
                 .turns = wl_scaled(24),
                 .lock = PTHREAD_MUTEX_INITIALIZER,
                 .changed = PTHREAD_COND_INITIALIZER};
    size_t slots = (size_t)wl.threads * pool.objects;
    pool.items = wl_table(slots, sizeof(Item *));
    WlTally total = wl_run(wl.threads, body, &pool);
    for (size_t at = 0; at < slots; at++) {
        if (pool.items[at] == NULL) continue;
        total.sum += item_free(pool.items[at]);
        total.ops++;
    }
    return wl_end(total);
}

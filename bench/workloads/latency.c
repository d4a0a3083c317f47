// latency.c: how long single calls take, not how long many take together.
//
// Asks: how many cycles do malloc and free take at the median, and at their slowest one in a
// hundred, a thousand, ten thousand? A mean hides a call that takes a thousand times as long.
// There are three mixes, all in a steady state after a warm-up that is not counted:
//   steady   one live set of 16 to 2,048 bytes a block, replaced at random
//   server   requests of a dozen short-lived strings, and a shared table of long-lived values, most
//            of which another thread than their own takes out and frees
//   growing  vectors that grow by half up to 512 KiB, each step by malloc, copy and free as
//            std::vector grows, and are then dropped
//
// Each call stands between two readings of the processor's counter. The smallest distance between
// two readings is subtracted from what was counted (latency.h). A line a function comes before the
// last line:
//
//     latency malloc calls=2000000 p50=31 p99=190 p99.9=720 p99.99=3400 slow=61
//
// Figures are in cycles; `slow` counts calls of more than 2,000. Cannot say anything about CPU
// time: reading the counter costs as much as a fast malloc. calloc and realloc are not called.
#include "latency.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

typedef enum { STEADY, SERVER, GROWING } Mix;

enum {
    LEAST = 16,
    MOST = 2048,
    VALUES = 32768, // in the table of the server mix
    STRINGS_LEAST = 8,
    STRINGS_MOST = 20,
    VECTOR_LEAST = 64,
    VECTOR_MOST = 512 << 10,
    VECTORS = 400,
    WARM_UP = 3, // one part in three comes before the first call that counts
};

static uint64_t mix = STEADY, live = 100000;

typedef struct {
    uint32_t size, tag;
} Head;

typedef struct {
    Latencies mallocs, frees;
    bool counts;
    uint64_t overhead;
    WlTally tally;
} Meter;

typedef struct {
    Latencies mallocs, frees;
    pthread_mutex_t lock; // of both
    uint64_t overhead;
    _Atomic(Head *) values[VALUES];
} Shared;

// ---- timed calls --------------------------------------------------------------------------------

static void note(Meter *meter, Latencies *latencies, uint64_t cycles) {
    meter->tally.ops++;
    if (meter->counts) {
        latency_add(latencies, cycles > meter->overhead ? cycles - meter->overhead : 0);
    }
}

static Head *make(Meter *meter, size_t size, unsigned char tag) {
    uint64_t begin = clock_cycles();
    Head *head = malloc(size);
    uint64_t spent = clock_cycles() - begin;
    if (head == NULL) wl_fail("malloc(%zu) failed", size);
    note(meter, &meter->mallocs, spent);
    head->size = (uint32_t)size;
    head->tag = tag;
    wl_write(head + 1, size - sizeof *head, tag);
    return head;
}

// An allocator that gives a block twice has two owners drop it.
static void in_use(const Head *head) {
    if (head->size == 0) wl_fail("the head of a block in use reads 0");
}

static void drop(Meter *meter, Head *head) {
    if (head == NULL) return;
    in_use(head);
    meter->tally.sum += wl_check(head + 1, head->size - sizeof *head, (unsigned char)head->tag);
    head->size = 0;
    uint64_t begin = clock_cycles();
    free(head);
    note(meter, &meter->frees, clock_cycles() - begin);
}

static Head *draw(Meter *meter, WlRandom *random, size_t least, size_t most) {
    return make(meter, wl_skewed(random, least, most), (unsigned char)wl_next(random));
}

// ---- the mixes ----------------------------------------------------------------------------------

static void steady(Meter *meter, WlWorker *me, uint64_t steps) {
    uint64_t count = wl_share(me, live);
    Head **slots = wl_table(count, sizeof(Head *));
    for (uint64_t step = 0; step < count + steps; step++) {
        meter->counts = step >= count + steps / WARM_UP;
        uint64_t at = step < count ? step : wl_below(&me->random, count);
        drop(meter, slots[at]);
        slots[at] = draw(meter, &me->random, LEAST, MOST);
    }
    meter->counts = false;
    for (uint64_t at = 0; at < count; at++) drop(meter, slots[at]);
}

static void request(Meter *meter, WlWorker *me, Shared *shared) {
    WlRandom *random = &me->random;
    Head *strings[STRINGS_MOST];
    uint64_t count = wl_between(random, STRINGS_LEAST, STRINGS_MOST);
    for (uint64_t at = 0; at < count; at++) strings[at] = draw(meter, random, LEAST, 512);
    // Acquire and release: the thread that takes a value out reads what its maker wrote.
    for (int turn = 0; turn < 2; turn++) {
        Head *value = draw(meter, random, 32, 8 << 10);
        drop(meter, atomic_exchange_explicit(&shared->values[wl_below(random, VALUES)], value,
                                             memory_order_acq_rel));
    }
    uint64_t first = wl_below(random, count); // the strings end in no order of their making
    for (uint64_t at = 0; at < count; at++) drop(meter, strings[(first + at) % count]);
}

static void server(Meter *meter, WlWorker *me, uint64_t steps) {
    uint64_t requests = steps / STRINGS_LEAST;
    for (uint64_t at = 0; at < requests; at++) {
        meter->counts = at >= requests / WARM_UP;
        request(meter, me, me->shared);
    }
    meter->counts = false;
}

static void growing(Meter *meter, WlWorker *me, uint64_t steps) {
    uint64_t count = wl_share(me, VECTORS);
    if (count == 0) return;
    Head **vectors = wl_table(count, sizeof(Head *));
    for (uint64_t step = 0; step < steps; step++) {
        meter->counts = step >= steps / WARM_UP;
        Head **vector = &vectors[wl_below(&me->random, count)], *old = *vector;
        if (old != NULL) in_use(old);
        size_t size = old == NULL ? VECTOR_LEAST : old->size + old->size / 2;
        // Most vectors of a program stay small: an eighth of the steps ends one, whatever its size.
        bool ends = size > VECTOR_MOST || (old != NULL && wl_below(&me->random, 8) == 0);
        *vector = ends ? NULL : make(meter, size, (unsigned char)wl_next(&me->random));
        if (*vector != NULL && old != NULL) memcpy(*vector + 1, old + 1, old->size - sizeof *old);
        if (*vector != NULL) {
            wl_write(*vector + 1, size - sizeof(Head), (unsigned char)(*vector)->tag);
        }
        drop(meter, old);
    }
    meter->counts = false;
    for (uint64_t at = 0; at < count; at++) drop(meter, vectors[at]);
}

// ---- all threads --------------------------------------------------------------------------------

static WlTally body(WlWorker *me) {
    static void (*const mixes[])(Meter *, WlWorker *, uint64_t) = {steady, server, growing};
    Shared *shared = me->shared;
    Meter *meter = wl_table(1, sizeof *meter);
    memset(meter, 0, sizeof *meter); // no page fault while calls are counted
    meter->overhead = shared->overhead;
    mixes[mix](meter, me, wl_share(me, wl_scaled(mix == GROWING ? 1200000 : 2500000)));
    pthread_mutex_lock(&shared->lock);
    latency_merge(&shared->mallocs, &meter->mallocs);
    latency_merge(&shared->frees, &meter->frees);
    pthread_mutex_unlock(&shared->lock);
    return meter->tally;
}

static void say(const char *call, const Latencies *latencies) {
    wl_say("latency %s calls=%ju p50=%ju p99=%ju p99.9=%ju p99.99=%ju slow=%ju", call,
           (uintmax_t)latencies->calls, (uintmax_t)latency_quantile(latencies, 0.5),
           (uintmax_t)latency_quantile(latencies, 0.99),
           (uintmax_t)latency_quantile(latencies, 0.999),
           (uintmax_t)latency_quantile(latencies, 0.9999), (uintmax_t)latencies->slow);
}

int main(int argc, char **argv) {
    const WlOption options[] = {
        {"--mix", &mix, 0, 0, "steady|server|growing"},
        {"--live", &live, 1024, 100000000, "blocks of the steady mix, all threads together"},
        {0},
    };
    wl_begin(argc, argv, "latency", WL_THREADED, options);
    Shared *shared = wl_table(1, sizeof *shared);
    pthread_mutex_init(&shared->lock, NULL);
    shared->overhead = clock_overhead();
    WlTally total = wl_run(wl.threads, body, shared);
    Meter *rest = wl_table(1, sizeof *rest);
    for (int at = 0; at < VALUES; at++) drop(rest, atomic_load(&shared->values[at]));
    total.ops += rest->tally.ops;
    total.sum += rest->tally.sum;
    say("malloc", &shared->mallocs);
    say("free", &shared->frees);
    return wl_end(total);
}

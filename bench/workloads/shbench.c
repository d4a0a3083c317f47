// shbench.c: batches of mixed sizes, freed in several orders; with --migrate, by other threads.
//
// Asks: what do batches cost that are allocated together and freed together, forwards, backwards
// and in two passes? And the same when every batch goes to another thread first, so that most
// frees are remote? After the benchmarks 6 and 8 of MicroQuill's SmartHeap: the first without, the
// second with migration; small sizes come more often, in inverse proportion to the size.
// Each batch is an array of malloc'ed pointers, itself a block. Cannot show phases or drift: the
// amount of live memory is the same all along.
#include "workload.h"

#include <stdatomic.h>

enum { BATCH = 400, HELD = 12, SHARED = 48, LARGEST = 1000 };

static uint64_t migrate;

typedef struct {
    uint64_t number; // decides the order in which it is freed
    struct {
        void *block;
        uint32_t size;
        unsigned char tag;
    } at[BATCH];
} Batch;

// Batches on their way from one thread to another.
static _Atomic(Batch *) passing[SHARED];

static Batch *build(uint64_t number, WlRandom *random) {
    Batch *batch = wl_malloc(sizeof(Batch));
    batch->number = number;
    uint32_t size = 0;
    for (uint32_t at = 0, run = 0; at < BATCH; at++, run--) {
        if (run == 0) { // the next size, and how many of it
            size = (uint32_t)wl_skewed(random, 10, LARGEST);
            run = 1 + 256 / size;
        }
        batch->at[at].size = size;
        batch->at[at].tag = (unsigned char)(number + at + size);
        batch->at[at].block = wl_malloc(size);
        wl_write(batch->at[at].block, size, batch->at[at].tag);
    }
    return batch;
}

static uint64_t free_one(Batch *batch, uint32_t at) {
    uint64_t read = wl_check(batch->at[at].block, batch->at[at].size, batch->at[at].tag);
    free(batch->at[at].block);
    return read;
}

static uint64_t free_all(Batch *batch) {
    uint64_t sum = 0;
    switch (batch->number % 4) {
    case 0: // as they came
        for (uint32_t at = 0; at < BATCH; at++) sum += free_one(batch, at);
        break;
    case 1: // every other one, then the ones between, backwards
        for (uint32_t at = 0; at < BATCH; at += 2) sum += free_one(batch, at);
        for (uint32_t at = BATCH; at > 0; at -= 2) sum += free_one(batch, at - 1);
        break;
    default: // the reverse order is the commonest: what is built last is torn down first
        for (uint32_t at = BATCH; at > 0; at--) sum += free_one(batch, at - 1);
    }
    free(batch);
    return sum;
}

static WlTally body(WlWorker *me) {
    const uint64_t count = wl_share(me, wl_scaled(30000));
    WlTally tally = {count * 2 * (BATCH + 1), 0};
    Batch *held[HELD] = {NULL};
    for (uint64_t done = 0; done < count; done++) {
        Batch *batch = build(done, &me->random);
        if (migrate) {
            // Leaves its own, takes what it finds: mostly what another thread has left.
            batch = atomic_exchange(&passing[wl_below(&me->random, SHARED)], batch);
            if (batch != NULL) tally.sum += free_all(batch);
            continue;
        }
        Batch **place = &held[wl_below(&me->random, HELD)];
        if (*place != NULL) tally.sum += free_all(*place);
        *place = batch;
    }
    for (int at = 0; at < HELD; at++) {
        if (held[at] != NULL) tally.sum += free_all(held[at]);
    }
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--migrate", &migrate, 0, 0, "no|yes"}, {0}};
    wl_begin(argc, argv, "shbench", WL_THREADED, options);
    WlTally tally = wl_run(wl.threads, body, NULL);
    for (int at = 0; at < SHARED; at++) {
        Batch *left = atomic_exchange(&passing[at], NULL);
        if (left != NULL) tally.sum += free_all(left);
    }
    return wl_end(tally);
}

// xmalloc.c: some threads only allocate, others only free.
//
// Asks: what does a block cost that is never freed by the thread that allocated it, in one
// direction only? The producers' heaps get nothing back but by the consumers' frees: per-thread
// caches run full on one side and empty on the other. After the asymmetric workload described by
// Lever and Boreham, "malloc() performance in a multithreaded Linux environment" (2000). Half of
// the threads produce; with one thread it takes turns at both. The original runs for a time and
// lets the fast producer run ahead, so its resident memory says nothing; here the work is fixed,
// and what is under way is bounded by the batches that there are (--batches of 128 objects). Of
// its instructions on glibc, 79% are malloc's and free's, under 1% locks and queues.
// Cannot say anything about allocators that mix the two roles in a thread; see xmalloc_mixed.c.
#include "batch.h"

#include <stdatomic.h>

static uint64_t least = 16, most = 2047, batches = 256;

typedef struct {
    Queue empty, full;
    uint64_t objects;
    atomic_int producing;
} Market;

// Fills one batch with up to `left` objects; returns how many.
static uint64_t fill(Batch *batch, WlRandom *random, uint64_t left) {
    batch->count = left < BATCH ? (uint32_t)left : BATCH;
    for (uint32_t at = 0; at < batch->count; at++) {
        batch->items[at] =
            item_make(wl_skewed(random, least, most), (unsigned char)wl_next(random));
    }
    return batch->count;
}

static WlTally drain(Batch *batch) {
    WlTally tally = {2 * (uint64_t)batch->count, 0};
    for (uint32_t at = 0; at < batch->count; at++) tally.sum += item_free(batch->items[at]);
    return tally;
}

static WlTally consume(Market *market) {
    WlTally tally = {0, 0};
    Batch *batch;
    while ((batch = queue_take(&market->full)) != NULL) {
        WlTally part = drain(batch);
        tally.ops += part.ops;
        tally.sum += part.sum;
        queue_put(&market->empty, batch);
    }
    return tally;
}

static void produce(Market *market, WlRandom *random, uint64_t left) {
    while (left > 0) {
        Batch *batch = queue_take(&market->empty);
        left -= fill(batch, random, left);
        queue_put(&market->full, batch);
    }
    if (atomic_fetch_sub(&market->producing, 1) == 1) queue_close(&market->full);
}

// One thread alone: as much as there are batches for, then all of that back.
static WlTally turns(Market *market, WlRandom *random, uint64_t left) {
    WlTally tally = {0, 0};
    while (left > 0) {
        uint64_t filled = 0;
        for (; filled < batches && left > 0; filled++) {
            Batch *batch = queue_take(&market->empty);
            left -= fill(batch, random, left);
            queue_put(&market->full, batch);
        }
        for (; filled > 0; filled--) {
            Batch *batch = queue_take(&market->full);
            WlTally part = drain(batch);
            tally.ops += part.ops;
            tally.sum += part.sum;
            queue_put(&market->empty, batch);
        }
    }
    return tally;
}

static WlTally body(WlWorker *me) {
    Market *market = me->shared;
    if (me->count == 1) return turns(market, &me->random, market->objects);
    uint64_t producers = (uint64_t)me->count / 2, index = (uint64_t)me->index;
    if (index >= producers) return consume(market);
    uint64_t from = market->objects * index / producers;
    uint64_t to = market->objects * (index + 1) / producers;
    produce(market, &me->random, to - from);
    return (WlTally){0, 0};
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--min", &least, ITEM_LEAST, 1 << 20, "smallest size in bytes"},
                                {"--max", &most, ITEM_LEAST, 1 << 20, "largest size in bytes"},
                                {"--batches", &batches, 4, 100000, "batches under way"},
                                {0}};
    wl_begin(argc, argv, "xmalloc", WL_THREADED, options);
    wl_order("--min", least, "--max", most);
    Market *market = wl_table(1, sizeof *market);
    market->objects = wl_scaled(4500000);
    atomic_init(&market->producing, wl.threads / 2);
    // All of the batches are in one queue or the other or in a thread's hands, so a quarter of them
    // always comes to one queue, unless they have become few compared with the threads.
    uint32_t wake = batches / 4 > (uint64_t)wl.threads ? (uint32_t)batches / 4 : 1;
    queue_make(&market->empty, wake);
    queue_make(&market->full, wake);
    Batch *table = wl_table(batches, sizeof(Batch));
    for (uint64_t at = 0; at < batches; at++) queue_put(&market->empty, &table[at]);
    return wl_end(wl_run(wl.threads, body, market));
}

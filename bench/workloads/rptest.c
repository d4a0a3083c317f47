// rptest.c: mixed sizes by a distribution, a part of them freed by another thread.
//
// Asks: how does an allocator do over a whole range of sizes at once, in a live set with random
// frees, when some objects go to another thread? After the description of rpmalloc's benchmark.
// --distribution says how often each size between --min and --max is asked for: all alike, falling
// linearly, or falling exponentially. Each thread holds a live set; in each step it frees objects
// at random places and fills the places again, and every eighth batch of what it frees goes to its
// neighbour instead. Of its instructions on glibc, 78% are malloc's and free's, under 0.1% locks
// and queues; with large sizes, touching what was allocated takes most of the time.
#include "batch.h"

#include <math.h>

enum { EVEN, LINEAR, EXPONENTIAL };
enum { QUANTILES = 4096, BATCHES = 16 };

static uint64_t least = 16, most = 16000, distribution = EXPONENTIAL, live = 16000, cross = 8;

static uint32_t quantiles[QUANTILES]; // sizes in ascending order, each as likely as the next

typedef struct {
    Queue *inboxes; // one for each thread
    Batch *table;   // BATCHES for each thread
    Item **items;   // the live sets
    uint64_t replaces;
} Ring;

static void make_quantiles(void) {
    for (int at = 0; at < QUANTILES; at++) {
        double share = (at + 0.5) / QUANTILES, part; // of the sizes that are smaller; of the range
        if (distribution == EVEN) {
            part = share;
        } else if (distribution == LINEAR) {
            part = 1 - sqrt(1 - share);
        } else { // a mean of a tenth of the range
            part = fmin(-log(1 - share) / 10, 1);
        }
        quantiles[at] = (uint32_t)(least + (uint64_t)(part * (double)(most - least)));
    }
}

static Item *make(WlRandom *random) {
    uint64_t drawn = wl_next(random);
    return item_make(quantiles[drawn >> 52], (unsigned char)drawn);
}

static uint64_t drain(Batch *batch) {
    uint64_t sum = 0;
    for (uint32_t at = 0; at < batch->count; at++) sum += item_free(batch->items[at]);
    return sum;
}

// How many batches the thread that is said hands over.
static uint64_t batches_from(const WlWorker *me, int index, uint64_t replaces) {
    WlWorker other = {.index = index, .count = me->count};
    return wl_share(&other, replaces) / BATCH / cross;
}

static WlTally body(WlWorker *me) {
    Ring *ring = me->shared;
    int next = (me->index + 1) % me->count, before = (me->index + me->count - 1) % me->count;
    uint64_t all = wl_share(me, ring->replaces);
    uint64_t awaited = batches_from(me, before, ring->replaces);
    uint64_t first = live * (uint64_t)me->index / (uint64_t)me->count;
    uint64_t held = live * ((uint64_t)me->index + 1) / (uint64_t)me->count - first;
    Item **items = ring->items + first;
    Batch *home = NULL;
    for (int at = 0; at < BATCHES; at++) {
        Batch *batch = &ring->table[me->index * BATCHES + at];
        batch->owner = me->index;
        batch->next = home;
        home = batch;
    }
    WlTally tally = {2 * (held + all), 0};
    for (uint64_t at = 0; at < held; at++) items[at] = make(&me->random);
    uint64_t done = 0, steps = 0;
    // A batch of ours comes back through our inbox too, empty, so nobody waits for two things.
    while (done < all || awaited > 0) {
        bool hand_over = done + BATCH <= all && steps % cross == cross - 1;
        if (done < all && (!hand_over || home != NULL)) {
            Batch local, *batch = hand_over ? home : &local;
            if (hand_over) home = batch->next;
            batch->count = all - done < BATCH ? (uint32_t)(all - done) : BATCH;
            for (uint32_t at = 0; at < batch->count; at++) {
                Item **item = &items[wl_below(&me->random, held)];
                batch->items[at] = *item;
                *item = make(&me->random);
            }
            done += batch->count;
            steps++;
            if (hand_over) {
                queue_put(&ring->inboxes[next], batch);
            } else {
                tally.sum += drain(batch);
            }
            continue;
        }
        Batch *batch = queue_take(&ring->inboxes[me->index]);
        if (batch->owner == me->index && batch->count == 0) {
            batch->next = home;
            home = batch;
            continue;
        }
        tally.sum += drain(batch);
        batch->count = 0;
        awaited--;
        queue_put(&ring->inboxes[batch->owner], batch);
    }
    for (uint64_t at = 0; at < held; at++) tally.sum += item_free(items[at]);
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {
        {"--min", &least, ITEM_LEAST, 1 << 20, "smallest size in bytes"},
        {"--max", &most, ITEM_LEAST, 1 << 20, "largest size in bytes"},
        {"--distribution", &distribution, 0, 2, "even|linear|exponential"},
        {"--live", &live, 1024, 10000000, "live objects, all threads together"},
        {"--cross", &cross, 1, 1000000, "one batch in so many goes to the neighbour"},
        {0}};
    wl_begin(argc, argv, "rptest", WL_THREADED, options);
    wl_order("--min", least, "--max", most);
    make_quantiles();
    size_t threads = (size_t)wl.threads;
    Ring ring = {.inboxes = wl_table(threads, sizeof(Queue)),
                 .table = wl_table(threads * BATCHES, sizeof(Batch)),
                 .items = wl_table(live, sizeof(Item *)),
                 .replaces = wl_scaled(3200000)};
    for (size_t at = 0; at < threads; at++) queue_make(&ring.inboxes[at], 1);
    return wl_end(wl_run(wl.threads, body, &ring));
}

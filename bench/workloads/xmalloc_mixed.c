// xmalloc_mixed.c: every thread allocates for its neighbour and frees for the other neighbour.
//
// Asks: what does freeing another thread's objects cost when every thread both produces and
// consumes, so that each heap gives away as much as it takes in? An allocator that keeps a foreign
// block is as well off as one that sends it home, unlike in xmalloc.c. The threads stand in a
// circle; a batch of 128 objects goes to the next one, is freed there and comes back empty. With
// one thread the circle is the thread itself. Of its instructions on glibc, 78% are malloc's and
// free's, under 1% locks and queues.
#include "batch.h"

static uint64_t least = 16, most = 2047, batches = 64;

enum { FULL, EMPTY };

typedef struct {
    Queue *inboxes; // one for each thread
    Batch *table;   // `batches` for each thread
    uint64_t objects;
} Circle;

// The part of `total` that thread `index` produces: wl_share for any thread.
static uint64_t share_of(const WlWorker *me, int index, uint64_t total) {
    WlWorker other = {.index = index, .count = me->count};
    return wl_share(&other, total);
}

static WlTally body(WlWorker *me) {
    Circle *circle = me->shared;
    int next = (me->index + 1) % me->count, before = (me->index + me->count - 1) % me->count;
    uint64_t left = share_of(me, me->index, circle->objects);
    uint64_t awaited = batches_of(share_of(me, before, circle->objects));
    Batch *home = NULL; // those of ours that are here and empty
    for (uint64_t at = 0; at < batches; at++) {
        Batch *batch = &circle->table[(uint64_t)me->index * batches + at];
        batch->owner = me->index;
        batch->next = home;
        home = batch;
    }
    // Nobody waits while he has an empty batch of his own and work left, and all batches are at
    // home when all inboxes are empty: so not all of the threads can be waiting.
    WlTally tally = {0, 0};
    while (left > 0 || awaited > 0) {
        if (left > 0 && home != NULL) {
            Batch *batch = home;
            home = batch->next;
            batch->count = left < BATCH ? (uint32_t)left : BATCH;
            batch->stage = FULL;
            for (uint32_t at = 0; at < batch->count; at++) {
                size_t size = wl_skewed(&me->random, least, most);
                batch->items[at] = item_make(size, (unsigned char)wl_next(&me->random));
            }
            left -= batch->count;
            tally.ops += batch->count;
            queue_put(&circle->inboxes[next], batch);
            continue;
        }
        Batch *batch = queue_take(&circle->inboxes[me->index]);
        if (batch->stage == EMPTY) {
            batch->next = home;
            home = batch;
            continue;
        }
        for (uint32_t at = 0; at < batch->count; at++) tally.sum += item_free(batch->items[at]);
        tally.ops += batch->count;
        awaited--;
        batch->stage = EMPTY;
        queue_put(&circle->inboxes[batch->owner], batch);
    }
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--min", &least, ITEM_LEAST, 1 << 20, "smallest size in bytes"},
                                {"--max", &most, ITEM_LEAST, 1 << 20, "largest size in bytes"},
                                {"--batches", &batches, 1, 100000, "batches of a thread"},
                                {0}};
    wl_begin(argc, argv, "xmalloc-mixed", WL_THREADED, options);
    wl_order("--min", least, "--max", most);
    uint64_t threads = (uint64_t)wl.threads;
    Circle circle = {.inboxes = wl_table(threads, sizeof(Queue)),
                     .table = wl_table(threads * batches, sizeof(Batch)),
                     .objects = wl_scaled(4000000)};
    for (uint64_t at = 0; at < threads; at++) queue_make(&circle.inboxes[at], 1);
    return wl_end(wl_run(wl.threads, body, &circle));
}

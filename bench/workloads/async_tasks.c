// async_tasks.c: closures made in one thread, extended in a second, freed in a third.
//
// Asks: what do the objects of an asynchronous runtime cost, small closures of 48 to 400 bytes
// that hardly ever end where they began? One thread allocates a closure; the next one extends it
// by realloc with what it has computed, which as a rule moves it into its own heap; a third one
// frees it. All threads do all three, in a circle, 128 closures at a time. With one thread, it is
// its own neighbour on both sides. Of its instructions on glibc, 85% are malloc's, realloc's and
// free's, 13% write, copy and check the closures, under 1% are locks and queues.
// Cannot tell the cost of a foreign realloc from that of a foreign free; see xmalloc_mixed.c for
// the latter alone.
#include "batch.h"

static uint64_t least = 48, most = 400, batches = 32;

enum { EXTEND, FINISH, RETURN }; // what a batch in an inbox wants

typedef struct {
    Queue *inboxes; // one for each thread
    Batch *table;   // `batches` for each thread
    uint64_t tasks;
} Circle;

// How many batches the thread `back` places before this one makes.
static uint64_t batches_from(const WlWorker *me, int back, uint64_t tasks) {
    int index = (me->index + 2 * me->count - back) % me->count;
    WlWorker other = {.index = index, .count = me->count};
    return batches_of(wl_share(&other, tasks));
}

static WlTally body(WlWorker *me) {
    Circle *circle = me->shared;
    Queue *inbox = &circle->inboxes[me->index];
    Queue *next = &circle->inboxes[(me->index + 1) % me->count];
    uint64_t left = wl_share(me, circle->tasks);
    uint64_t awaited = batches_from(me, 1, circle->tasks) + batches_from(me, 2, circle->tasks);
    Batch *home = NULL; // those of ours that are here and empty
    for (uint64_t at = 0; at < batches; at++) {
        Batch *batch = &circle->table[(uint64_t)me->index * batches + at];
        batch->owner = me->index;
        batch->next = home;
        home = batch;
    }
    // Nobody waits while he has an empty batch of his own and work left, and all batches are at
    // home when all inboxes are empty: so not all of the threads can be waiting.
    // Numbers of its own for extending: how the two are interleaved is chance, each order is not.
    WlRandom extra = wl_random((uint64_t)(me->count + me->index));
    WlTally tally = {0, 0};
    while (left > 0 || awaited > 0) {
        if (left > 0 && home != NULL) {
            Batch *batch = home;
            home = batch->next;
            batch->count = left < BATCH ? (uint32_t)left : BATCH;
            for (uint32_t at = 0; at < batch->count; at++) {
                size_t size = wl_between(&me->random, least, most);
                batch->items[at] = item_make(size, (unsigned char)wl_next(&me->random));
            }
            left -= batch->count;
            tally.ops += batch->count;
            batch->stage = EXTEND;
            queue_put(next, batch);
            continue;
        }
        Batch *batch = queue_take(inbox);
        if (batch->stage == RETURN) {
            batch->next = home;
            home = batch;
            continue;
        }
        awaited--;
        tally.ops += batch->count;
        if (batch->stage == EXTEND) {
            for (uint32_t at = 0; at < batch->count; at++) {
                size_t more = wl_between(&extra, 8, 200);
                batch->items[at] = item_resize(batch->items[at], batch->items[at]->size + more);
            }
            batch->stage = FINISH;
            queue_put(next, batch);
        } else {
            for (uint32_t at = 0; at < batch->count; at++) {
                tally.sum += item_free(batch->items[at]);
            }
            batch->stage = RETURN;
            queue_put(&circle->inboxes[batch->owner], batch);
        }
    }
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--min", &least, ITEM_LEAST, 1 << 20, "smallest size in bytes"},
                                {"--max", &most, ITEM_LEAST, 1 << 20, "largest size in bytes"},
                                {"--batches", &batches, 1, 100000, "batches of a thread"},
                                {0}};
    wl_begin(argc, argv, "async-tasks", WL_THREADED, options);
    wl_order("--min", least, "--max", most);
    uint64_t threads = (uint64_t)wl.threads;
    Circle circle = {.inboxes = wl_table(threads, sizeof(Queue)),
                     .table = wl_table(threads * batches, sizeof(Batch)),
                     .tasks = wl_scaled(4500000)};
    for (uint64_t at = 0; at < threads; at++) queue_make(&circle.inboxes[at], 1);
    return wl_end(wl_run(wl.threads, body, &circle));
}

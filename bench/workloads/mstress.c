// mstress.c: threads come and go several times; their objects live on and wander.
//
// Asks: how well does a heap cope with memory that threads leave behind? Several generations of
// threads allocate mixed sizes, resize, and swap objects with each other through a shared table;
// at its end a thread leaves a part of what it holds to one of the next generation, which resizes
// and frees it. After the description of mimalloc's stress workload. Which thread frees a swapped
// object is left to chance (a swap is one atomic exchange, there is no lock), but all are freed
// once and checked, so the amount of work is fixed. Of its instructions on glibc, 67% are
// malloc's, realloc's and free's, the rest draws sizes, writes and checks. With one thread, it is
// that one in all generations.
// Cannot say which of the three, churn, wandering or resizing, was the costly one.
#include "batch.h"

#include <stdatomic.h>

static uint64_t generations = 20, places = 4000, most = 8192;

enum { OWN = 512, LEFT = OWN / 2, SWAPPED = 512 }; // objects in a thread's hands, by their use

typedef struct {
    _Atomic(Item *) *places;
    Item **legacy; // LEFT of each thread, by the generation before
    uint64_t steps, generation;
} Stage;

static Item *make(WlRandom *random) {
    // One in 500 is large, beyond some allocators' size classes.
    bool large = wl_below(random, 500) == 0;
    size_t size = large ? wl_between(random, most, most * 16) : wl_skewed(random, ITEM_LEAST, most);
    return item_make(size, (unsigned char)wl_next(random));
}

static void drop(WlTally *tally, Item *item) {
    if (item == NULL) return;
    tally->sum += item_free(item);
    tally->ops++;
}

static WlTally body(WlWorker *me) {
    Stage *stage = me->shared;
    WlRandom random = wl_random(stage->generation << 32 | (uint64_t)me->index);
    WlTally tally = {0, 0};
    Item *own[OWN] = {NULL}, *swapped[SWAPPED] = {NULL};
    Item **legacy = stage->legacy + (size_t)((me->index + 1) % me->count) * LEFT;
    memcpy(own, legacy, LEFT * sizeof *own);
    wl_wait(me); // before anybody writes there again
    uint64_t steps = wl_share(me, stage->steps);
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t kind = wl_below(&random, 8);
        tally.ops++;
        if (kind < 4) { // replace
            Item **hand = &own[wl_below(&random, OWN)];
            drop(&tally, *hand);
            *hand = make(&random);
        } else if (kind < 5) { // resize
            Item **hand = &own[wl_below(&random, OWN)];
            size_t size = wl_skewed(&random, ITEM_LEAST, most);
            *hand = *hand != NULL ? item_resize(*hand, size) : make(&random);
        } else { // a new one into the table; what lay there is kept for a while
            Item *item = make(&random);
            _Atomic(Item *) *place = &stage->places[wl_below(&random, places)];
            Item **hand = &swapped[wl_below(&random, SWAPPED)];
            drop(&tally, *hand);
            *hand = atomic_exchange_explicit(place, item, memory_order_acq_rel);
        }
    }
    memcpy(stage->legacy + (size_t)me->index * LEFT, own, LEFT * sizeof *own);
    for (size_t at = LEFT; at < OWN; at++) drop(&tally, own[at]);
    for (size_t at = 0; at < SWAPPED; at++) drop(&tally, swapped[at]);
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--generations", &generations, 1, 100000, "of threads"},
                                {"--places", &places, 1, 10000000, "of the shared table"},
                                {"--max", &most, 64, 1 << 20, "largest common size in bytes"},
                                {0}};
    wl_begin(argc, argv, "mstress", WL_THREADED, options);
    size_t legacies = (size_t)wl.threads * LEFT;
    Stage stage = {.places = wl_table(places, sizeof(_Atomic(Item *))),
                   .legacy = wl_table(legacies, sizeof(Item *))};
    WlTally total = {0, 0};
    uint64_t steps = wl_scaled(4000000);
    for (uint64_t at = 0; at < generations; at++) {
        stage.generation = at;
        stage.steps = steps * (at + 1) / generations - steps * at / generations;
        WlTally part = wl_run(wl.threads, body, &stage);
        total.ops += part.ops;
        total.sum += part.sum;
    }
    for (uint64_t at = 0; at < places; at++) drop(&total, atomic_load(&stage.places[at]));
    for (size_t at = 0; at < legacies; at++) drop(&total, stage.legacy[at]);
    return wl_end(total);
}

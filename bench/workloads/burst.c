// burst.c: bursts of work with pauses between them.
//
// Asks: does memory come back when a program has nothing to do? In a burst, half of the threads
// allocate 64 MiB of small and medium objects and the others free them, but for one in a
// thousand, which stays until the next burst. In the pause that follows, the threads sleep; only
// the first one does what a timer does, a small allocation every 20 ms, so that an allocator that
// works off its purging inside of malloc and free has a chance to. Made to be looked at over time
// (sample_rss): the area under the curve is what the program costs its machine. Peak resident
// memory shows what an allocator adds to the 64 MiB, CPU time what the giving back costs, being
// paid again as page faults. The pauses are slept, so wall time says nothing.
#include "batch.h"

#include <errno.h>
#include <time.h>

static uint64_t bytes = 64 << 20, most = 2047, pause_ms = 500;

enum { TICK_MS = 20, KEPT = 1000 };

typedef struct {
    Item **items;
    uint64_t objects, bursts;
} Plan;

static void sleep_ms(uint64_t ms) {
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

static void tick(WlTally *tally) {
    for (uint64_t at = 0; at < pause_ms; at += TICK_MS) {
        sleep_ms(pause_ms - at < TICK_MS ? pause_ms - at : TICK_MS);
        tally->sum += item_free(item_make(100, 1));
        tally->ops += 2;
    }
}

static void drop(WlTally *tally, Item **item) {
    if (*item == NULL) return;
    tally->sum += item_free(*item);
    tally->ops++;
    *item = NULL;
}

static WlTally body(WlWorker *me) {
    const Plan *plan = me->shared;
    // The first half produces, the other one consumes; one thread alone does both.
    uint64_t producers = me->count > 1 ? (uint64_t)me->count / 2 : 1;
    uint64_t consumers = me->count > 1 ? (uint64_t)me->count - producers : 1;
    uint64_t index = (uint64_t)me->index, second = me->count > 1 ? index - producers : 0;
    bool produces = index < producers, consumes = me->count == 1 || !produces;
    WlTally tally = {0, 0};
    for (uint64_t burst = 0; burst < plan->bursts; burst++) {
        if (produces) {
            uint64_t to = plan->objects * (index + 1) / producers;
            for (uint64_t at = plan->objects * index / producers; at < to; at++) {
                drop(&tally, &plan->items[at]); // of the burst before
                size_t size = wl_skewed(&me->random, ITEM_LEAST, most);
                plan->items[at] = item_make(size, (unsigned char)wl_next(&me->random));
                tally.ops++;
            }
        }
        wl_wait(me);
        if (consumes) {
            uint64_t to = plan->objects * (second + 1) / consumers;
            for (uint64_t at = plan->objects * second / consumers; at < to; at++) {
                if (at % KEPT != burst % KEPT) drop(&tally, &plan->items[at]);
            }
        }
        wl_wait(me);
        if (me->index == 0) tick(&tally);
        wl_wait(me);
    }
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--bytes", &bytes, 1 << 20, UINT64_C(1) << 36, "of a burst"},
                                {"--max", &most, ITEM_LEAST, 1 << 20, "largest size in bytes"},
                                {"--pause", &pause_ms, 0, 60000, "milliseconds between bursts"},
                                {0}};
    wl_begin(argc, argv, "burst", WL_THREADED, options);
    // How many objects make up --bytes, by trying out: sizes are drawn, not computed.
    WlRandom random = wl_random(0);
    uint64_t sampled = 0;
    for (int at = 0; at < 4096; at++) sampled += wl_skewed(&random, ITEM_LEAST, most);
    // The scale is the number of bursts: with smaller ones, a quick run would ask another question.
    Plan plan = {.objects = bytes * 4096 / sampled, .bursts = wl_scaled(5)};
    plan.items = wl_table(plan.objects, sizeof(Item *));
    WlTally total = wl_run(wl.threads, body, &plan);
    for (uint64_t at = 0; at < plan.objects; at++) drop(&total, &plan.items[at]);
    return wl_end(total);
}

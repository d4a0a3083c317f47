// alloc_test.c: blocks replaced at random in a live set.
//
// Asks: what does an allocation cost in the steady state of a long-running program, where every
// block's place was somebody else's before? Small blocks are the many, and some slots of the live
// set are visited much more often than others, after the allocator test of OLogN Technologies
// (2018). Each thread has a part of the live set to itself: with a perfect allocator the CPU time
// is the same for every number of threads.
// Cannot show what a free by another thread costs (shbench does), or phases (fragmentation does).
#include "workload.h"

static uint64_t least = 8, most = 1000, live = 30000, replacements = 10000000;

typedef struct {
    void *block;
    uint32_t size;
    unsigned char tag;
} Slot;

static void fill(Slot *slot, WlRandom *random) {
    slot->size = (uint32_t)wl_skewed(random, least, most);
    slot->tag = (unsigned char)wl_next(random);
    slot->block = wl_malloc(slot->size);
    wl_write(slot->block, slot->size, slot->tag);
}

static uint64_t empty(Slot *slot) {
    uint64_t read = wl_check(slot->block, slot->size, slot->tag);
    free(slot->block);
    return read;
}

static WlTally body(WlWorker *me) {
    uint64_t count = wl_share(me, live), steps = wl_share(me, wl_scaled(replacements));
    if (count == 0) return (WlTally){0, 0};
    WlTally tally = {2 * (count + steps), 0};
    Slot *slots = wl_table(count, sizeof(Slot));
    for (uint64_t at = 0; at < count; at++) fill(&slots[at], &me->random);
    for (uint64_t step = 0; step < steps; step++) {
        // The smaller of two draws: the first tenth of the slots gets 19% of the visits.
        uint64_t one = wl_below(&me->random, count), other = wl_below(&me->random, count);
        Slot *slot = &slots[one < other ? one : other];
        tally.sum += empty(slot);
        fill(slot, &me->random);
    }
    for (uint64_t at = 0; at < count; at++) tally.sum += empty(&slots[at]);
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {
        {"--min", &least, 1, 1 << 30, "smallest size in bytes"},
        {"--max", &most, 1, 1 << 30, "largest size"},
        {"--live", &live, 1, 100000000, "blocks of all threads at a time"},
        {"--replacements", &replacements, 1, 1000000000, "of all threads at --scale 1"},
        {0},
    };
    wl_begin(argc, argv, "alloc-test", WL_THREADED, options);
    wl_order("--min", least, "--max", most);
    return wl_end(wl_run(wl.threads, body, NULL));
}

// cache_share.c: threads write to small objects of their own, which may share a cache line.
//
// Asks: does the allocator put objects of different threads into one cache line? Each write to it
// then takes the line away from the other core ("false sharing"). Two cases of Berger, McKinley,
// Blumofe and Wilson, "Hoard: a scalable memory allocator" (2000):
//   cache-thrash   --handed no: each thread allocates by itself; the allocator decides (active)
//   cache-scratch  --handed yes: the main thread allocates neighbours and hands one to each thread,
//                  which frees it and gets it back from a careless allocator for good (passive)
// Nearly all of the time is writing: with objects in lines of their own, all allocators are equal
// and threads cost no more CPU time than one does. With one core there is nothing to see.
// An object of each thread at a time: it says nothing about false sharing in larger structures.
#include "workload.h"

static uint64_t size = 8, handed = 0, writes = 400;

typedef struct {
    unsigned char **objects; // handed to each thread; NULL: none are
    uint64_t rounds;
} Plan;

static WlTally body(WlWorker *me) {
    Plan *plan = me->shared;
    uint64_t rounds = wl_share(me, plan->rounds);
    WlTally tally = {2 * rounds, 0};
    if (plan->objects != NULL) free(plan->objects[me->index]);
    for (uint64_t round = 0; round < rounds; round++) {
        // volatile: each of the writes is to be one.
        volatile unsigned char *object = wl_malloc(size);
        for (uint64_t at = 0; at < size; at++) object[at] = (unsigned char)round;
        for (uint64_t write = 0; write < writes; write++) {
            for (uint64_t at = 0; at < size; at++) object[at]++;
        }
        unsigned char expected = (unsigned char)(round + writes);
        if (object[0] != expected || object[size - 1] != expected) {
            wl_fail("an object reads %u, not %u", object[0], expected);
        }
        tally.sum += expected;
        free((void *)object);
    }
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--size", &size, 1, 4096, "of an object in bytes"},
                                {"--handed", &handed, 0, 1, "no|yes"},
                                {"--writes", &writes, 1, 1000000, "to each byte of an object"},
                                {0}};
    wl_begin(argc, argv, "cache-share", WL_THREADED, options);
    // The work is bytes written, so that --size and --writes change the mix and not the amount.
    Plan plan = {.rounds = wl_scaled(1600000000) / (size * writes) + 1};
    if (handed) {
        plan.objects = wl_table((size_t)wl.threads, sizeof(unsigned char *));
        for (int at = 0; at < wl.threads; at++) {
            plan.objects[at] = wl_malloc(size);
            wl_write(plan.objects[at], size, (unsigned char)at);
        }
    }
    return wl_end(wl_run(wl.threads, body, &plan));
}

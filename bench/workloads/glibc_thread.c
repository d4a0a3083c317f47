// glibc_thread.c: threads that replace blocks in small live sets of their own, sizes drawn before.
//
// Asks: how does an allocator scale when threads have nothing to do with each other? Sizes of 4 B
// to 32 KiB, the small ones by far the most frequent (a size twice as large is a quarter as
// likely), as in the threaded malloc benchmark of glibc's own test suite. The sizes and places are
// drawn ahead of the loop, so that little is measured but the allocator.
// Cannot show frees by other threads (shbench) or a large heap (alloc_test).
#include "workload.h"

enum { LIVE = 1024, DRAWN = 8192, SMALLEST = 4, LARGEST = 32768 };

typedef struct {
    uint32_t sizes[DRAWN], places[DRAWN];
    void *blocks[LIVE];
    uint32_t held[LIVE]; // sizes of the blocks
} Set;

// The sizes' density falls with the square: one over an even draw between the inverse limits.
static uint32_t draw(WlRandom *random) {
    double even = (double)wl_below(random, UINT64_C(1) << 31) / (double)(UINT64_C(1) << 31);
    double low = 1.0 / LARGEST, high = 1.0 / SMALLEST;
    return (uint32_t)(1.0 / (low + even * (high - low)));
}

static WlTally body(WlWorker *me) {
    Set *set = wl_table(1, sizeof(Set));
    for (int at = 0; at < DRAWN; at++) {
        set->sizes[at] = draw(&me->random);
        set->places[at] = (uint32_t)wl_below(&me->random, LIVE);
    }
    uint64_t steps = wl_share(me, wl_scaled(16000000));
    WlTally tally = {0, 0};
    for (uint64_t step = 0; step < steps; step++) {
        uint32_t place = set->places[step % DRAWN];
        if (set->blocks[place] != NULL) {
            tally.sum += wl_check(set->blocks[place], set->held[place], (unsigned char)place);
            free(set->blocks[place]);
        }
        // Another sequence of sizes in each pass, or every place would have its own.
        uint32_t size = set->sizes[(step + step / DRAWN) % DRAWN];
        set->held[place] = size;
        set->blocks[place] = wl_malloc(size);
        wl_write(set->blocks[place], size, (unsigned char)place);
    }
    tally.ops = 2 * steps;
    for (uint32_t at = 0; at < LIVE; at++) free(set->blocks[at]);
    return tally;
}

int main(int argc, char **argv) {
    wl_begin(argc, argv, "glibc-thread", WL_THREADED, NULL);
    return wl_end(wl_run(wl.threads, body, NULL));
}

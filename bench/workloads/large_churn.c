// large_churn.c: large blocks replaced at random.
//
// Asks: what do blocks of 64 KiB to 8 MiB cost that are used and replaced all the time: a mapping
// and its page faults for each, or memory that is kept and used again? And how much is resident
// that nobody uses? Every page of a block is written once.
// Cannot show a large block that grows (realloc_growth) or is cleared (calloc_large).
#include "workload.h"

enum { LIVE = 24, SMALLEST = 64 << 10, LARGEST = 8 << 20 };

static WlTally body(WlWorker *me) {
    struct {
        void *block;
        size_t size;
        unsigned char tag;
    } live[LIVE] = {{NULL, 0, 0}};
    WlTally tally = {0, 0};
    for (uint64_t left = wl_scaled(3000); left > 0; left--) {
        uint64_t at = wl_below(&me->random, LIVE);
        if (live[at].block != NULL) {
            tally.sum += wl_check(live[at].block, live[at].size, live[at].tag);
            free(live[at].block);
        }
        live[at].size = wl_skewed(&me->random, SMALLEST, LARGEST);
        live[at].tag = (unsigned char)wl_next(&me->random);
        live[at].block = wl_malloc(live[at].size);
        wl_write(live[at].block, live[at].size, live[at].tag);
        tally.ops += 2;
    }
    for (int at = 0; at < LIVE; at++) free(live[at].block);
    return tally;
}

int main(int argc, char **argv) {
    wl_begin(argc, argv, "large-churn", WL_SINGLE, NULL);
    return wl_end(wl_run(1, body, NULL));
}

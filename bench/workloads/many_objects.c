// many_objects.c: many blocks of about one size, all allocated, then all freed in one order.
//
// Asks: what does a full heap cost to build and to take down, by decade of size (16 B, 256 B, 4 KiB
// or 16 KiB, 128 KiB, 1 MiB) and by order of the frees: last in first out, first in first out, at
// random? One order may be quick and another quadratic, or leave pages half empty.
// Each decade is done several times over in one process, so what one leaves behind is the next
// one's start. Cannot show a mixture of sizes (alloc_test does).
#include "workload.h"

enum Order { LIFO, FIFO, RANDOM };

static uint64_t order, sizes;

typedef struct {
    size_t size; // the smallest of the decade; blocks have up to half as much again
    uint64_t count, rounds;
} Decade;

static const Decade small[] = {{16, 100000, 40}, {256, 60000, 24}, {4096, 6000, 24}, {0, 0, 0}};
static const Decade large[] = {{16384, 1500, 40}, {131072, 200, 40}, {1 << 20, 24, 40}, {0, 0, 0}};

enum { MOST = 100000 };

static void *blocks[MOST];
static uint32_t lengths[MOST], turn[MOST]; // turn: the order in which they are freed

static void shuffle(uint64_t count, WlRandom *random) {
    for (uint64_t at = count; at > 1; at--) {
        uint64_t other = wl_below(random, at);
        uint32_t kept = turn[at - 1];
        turn[at - 1] = turn[other];
        turn[other] = kept;
    }
}

static WlTally body(WlWorker *me) {
    WlTally tally = {0, 0};
    for (const Decade *decade = sizes == 0 ? small : large; decade->size != 0; decade++) {
        uint64_t count = decade->count;
        for (uint64_t at = 0; at < count; at++) turn[at] = (uint32_t)at;
        if (order == LIFO) {
            for (uint64_t at = 0; at < count; at++) turn[at] = (uint32_t)(count - 1 - at);
        } else if (order == RANDOM) {
            shuffle(count, &me->random);
        }
        for (uint64_t left = wl_scaled(decade->rounds); left > 0; left--) {
            for (uint64_t at = 0; at < count; at++) {
                lengths[at] = (uint32_t)wl_between(&me->random, decade->size, decade->size * 3 / 2);
                blocks[at] = wl_malloc(lengths[at]);
                wl_write(blocks[at], lengths[at], (unsigned char)(lengths[at] + at));
            }
            for (uint64_t at = 0; at < count; at++) {
                uint32_t one = turn[at];
                tally.sum +=
                    wl_check(blocks[one], lengths[one], (unsigned char)(lengths[one] + one));
                free(blocks[one]);
            }
            tally.ops += 2 * count;
        }
    }
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--order", &order, 0, 0, "lifo|fifo|random"},
                                {"--sizes", &sizes, 0, 0, "small|large"},
                                {0}};
    wl_begin(argc, argv, "many-objects", WL_SINGLE, options);
    return wl_end(wl_run(1, body, NULL));
}

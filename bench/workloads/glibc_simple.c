// glibc_simple.c: blocks of one size, some of them, freed in the order in which they came.
//
// Asks: what does a malloc with its free cost when nothing else happens: one thread, one size at a
// time, and no more blocks than fit into a per-thread cache (25), a few times that (100, 400) and
// far more (1600)? The shape of the malloc microbenchmark in glibc's own test suite.
// Cannot say anything about sizes mixed in one heap, or about where the blocks lie.
#include "workload.h"

enum { SIZES = 24, SMALLEST = 8, LARGEST = 4096, MOST = 1600 };

static void *blocks[MOST];

static WlTally body(WlWorker *me) {
    static const uint64_t batches[] = {25, 100, 400, MOST};
    const uint64_t each = wl_scaled(60000); // blocks of a size and a batch length
    WlTally tally = {0, 0};
    for (int round = 0; round < SIZES; round++) {
        size_t size = wl_skewed(&me->random, SMALLEST, LARGEST);
        for (size_t kind = 0; kind < sizeof batches / sizeof batches[0]; kind++) {
            uint64_t batch = batches[kind];
            for (uint64_t done = 0; done < each; done += batch) {
                for (uint64_t at = 0; at < batch; at++) {
                    blocks[at] = wl_malloc(size);
                    wl_write(blocks[at], size, (unsigned char)(at + size));
                }
                for (uint64_t at = 0; at < batch; at++) {
                    tally.sum += wl_check(blocks[at], size, (unsigned char)(at + size));
                    free(blocks[at]);
                }
                tally.ops += 2 * batch;
            }
        }
    }
    return tally;
}

int main(int argc, char **argv) {
    wl_begin(argc, argv, "glibc-simple", WL_SINGLE, NULL);
    return wl_end(wl_run(1, body, NULL));
}

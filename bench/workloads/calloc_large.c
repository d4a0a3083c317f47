// calloc_large.c: large cleared blocks, of which only a part is used.
//
// Asks: does calloc know that fresh memory is zero already, or does it write it all? And when a
// block was used before, does clearing it cost less than to take fresh pages? Tables of 128 KiB to
// 8 MiB, of which a tenth of the pages is written, come and go: the resident memory tells too.
// Cannot show small callocs (their clearing is a memset in every allocator).
#include "workload.h"

enum { LIVE = 12, SMALLEST = 128 << 10, LARGEST = 8 << 20 };

static WlTally body(WlWorker *me) {
    WlTally tally = {0, 0};
    unsigned char *blocks[LIVE] = {NULL};
    for (uint64_t left = wl_scaled(1200); left > 0; left--) {
        uint64_t place = wl_below(&me->random, LIVE);
        free(blocks[place]);
        size_t size = wl_skewed(&me->random, SMALLEST, LARGEST);
        unsigned char *block = blocks[place] = wl_calloc(size / 8, 8);
        uint64_t pages = size / WL_PAGE, written = pages / 10;
        unsigned char tag = (unsigned char)(1 + left % 255); // not the one that was here before
        for (uint64_t done = 0; done < written; done++) {
            // A page may be drawn twice: it reads 0 or what was written here, nothing else.
            size_t at = wl_below(&me->random, pages) * WL_PAGE + wl_below(&me->random, WL_PAGE);
            if (block[at] != 0 && block[at] != tag) {
                wl_fail("a block from calloc reads %u at %zu of %zu", block[at], at, size);
            }
            tally.sum += block[at];
            memset(block + at / WL_PAGE * WL_PAGE, tag, WL_PAGE);
        }
        tally.ops += 2;
    }
    for (int at = 0; at < LIVE; at++) free(blocks[at]);
    return tally;
}

int main(int argc, char **argv) {
    wl_begin(argc, argv, "calloc-large", WL_SINGLE, NULL);
    return wl_end(wl_run(1, body, NULL));
}

// workload.h: what every workload shares: options, random numbers, threads, tables, the last line.
//
// A workload is a program that does a fixed amount of work, whatever the allocator, and says on
// its last line what came of it:
//
//     larson [--threads N] [--scale F] [--seed N] [--its-own-options N]
//     larson threads=2 ops=1600000 sum=8427199
//
// Exit status: 0 done; 1 an allocation failed or something read back wrong (one line on stderr);
// 2 wrong use. The total work is the same for every number of threads.
//
//     static WlTally body(WlWorker *me) { ... return (WlTally){ops, sum}; }
//
//     int main(int argc, char **argv) {
//         WlOption options[] = {{"--min", &min, 1, 1 << 20, "smallest size in bytes"}, {0}};
//         wl_begin(argc, argv, "larson", WL_THREADED, options);
//         return wl_end(wl_run(wl.threads, body, NULL));
//     }
//
// Nothing here calls malloc but the functions that say so, so an allocator sees the workload and
// nothing else. It cannot time anything: that is the runner's part, from outside. (latency.h times
// single calls, for the workload that asks how long these take.)
#ifndef LOAM_BENCH_WORKLOAD_H
#define LOAM_BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#define WL_NORETURN [[noreturn]]
#else
#define WL_NORETURN _Noreturn
#endif

// ---- the command line ---------------------------------------------------------------------------

typedef struct {
    const char *name; // "--min"; the array of options ends with a NULL
    uint64_t *value;  // holds the default until wl_begin, which stores what was given
    uint64_t least, most;
    const char *what; // for --help; "a|b|c" takes one of these words: the value is its place
} WlOption;

typedef enum { WL_SINGLE, WL_THREADED } WlKind; // WL_SINGLE takes no --threads above 1

extern struct Wl {
    const char *name;
    int threads;
    double scale;
    uint64_t seed;
} wl;

// Reads the command line; on wrong use says so in one line and exits with 2.
void wl_begin(int argc, char **argv, const char *name, WlKind kind, const WlOption *options);

// Two options of which the first must not be above the second; wrong use as above.
void wl_order(const char *name, uint64_t least, const char *other, uint64_t most);

// A count at --scale 1, made for the scale that was asked for: at least 1.
uint64_t wl_scaled(uint64_t count);

// ---- random numbers -----------------------------------------------------------------------------

// xorshift64*: a few cycles, no state outside, the same numbers on every machine.
typedef struct {
    uint64_t state; // never 0
} WlRandom;

// Another stream for each (--seed, number).
WlRandom wl_random(uint64_t number);

static inline uint64_t wl_next(WlRandom *random) {
    uint64_t x = random->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    random->state = x;
    return x * UINT64_C(2685821657736338717);
}

// 0 <= x < bound; bound is below 2^32.
static inline uint64_t wl_below(WlRandom *random, uint64_t bound) {
    return ((wl_next(random) >> 32) * bound) >> 32;
}

// least <= x <= most, all as likely.
static inline uint64_t wl_between(WlRandom *random, uint64_t least, uint64_t most) {
    return least + wl_below(random, most - least + 1);
}

// least <= x <= most, each doubling as likely as the next: small ones are the many. least is not 0.
static inline uint64_t wl_skewed(WlRandom *random, uint64_t least, uint64_t most) {
    unsigned doublings = 63 - (unsigned)__builtin_clzll(most / least);
    uint64_t low = least << wl_below(random, doublings + 1);
    uint64_t high = low * 2 - 1;
    return wl_between(random, low, high < most ? high : most);
}

// ---- threads ------------------------------------------------------------------------------------

typedef struct {
    uint64_t ops; // calls of malloc, calloc, realloc and free, or what the workload counts
    uint64_t sum; // of what was read back; added up, so that the order of threads is no matter
} WlTally;

typedef struct {
    int index, count; // which of how many
    WlRandom random;
    void *shared; // as given to wl_run
    void *barrier;
} WlWorker;

typedef WlTally (*WlBody)(WlWorker *me);

// Runs `body` in `count` threads that start together, and adds up what they return. A single one
// runs in the calling thread: a process with one thread is what allocators have a short cut for.
WlTally wl_run(int count, WlBody body, void *shared);

// Until all threads of the wl_run have come here.
void wl_wait(WlWorker *me);

// This thread's part of `total`: the parts differ by 1 at most and add up to it.
static inline uint64_t wl_share(const WlWorker *me, uint64_t total) {
    uint64_t count = (uint64_t)me->count;
    return total / count + ((uint64_t)me->index < total % count);
}

// ---- memory -------------------------------------------------------------------------------------

// A table for the workload's own book-keeping: zeroed, mapped, never from malloc, never given back.
void *wl_table(size_t count, size_t size);

// One line on stderr, "name: ...", and out with status 1. Any thread may call it; the first wins.
WL_NORETURN void wl_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void *wl_malloc(size_t size) {
    void *block = malloc(size);
    if (block == NULL) wl_fail("malloc(%zu) failed", size);
    return block;
}

static inline void *wl_calloc(size_t count, size_t size) {
    void *block = calloc(count, size);
    if (block == NULL) wl_fail("calloc(%zu, %zu) failed", count, size);
    return block;
}

static inline void *wl_realloc(void *old, size_t size) {
    void *block = realloc(old, size);
    if (block == NULL) wl_fail("realloc(%zu) failed", size);
    return block;
}

// Small blocks are written whole, others at both ends and once in each page, as programs do that
// ask for memory in order to use it.
enum { WL_SMALL = 256, WL_PAGE = 4096 };

static inline void wl_write(void *block, size_t size, unsigned char tag) {
    unsigned char *bytes = (unsigned char *)block;
    if (size <= WL_SMALL) {
        memset(bytes, tag, size);
        return;
    }
    for (size_t at = 0; at < size; at += WL_PAGE) bytes[at] = tag;
    bytes[size - 1] = tag;
}

// Reads back both ends of a block of at least 1 byte that wl_write wrote; returns the tag.
static inline uint64_t wl_check(const void *block, size_t size, unsigned char tag) {
    const unsigned char *bytes = (const unsigned char *)block;
    if (bytes[0] != tag || bytes[size - 1] != tag) {
        wl_fail("a block of %zu bytes reads %u and %u, not %u", size, bytes[0], bytes[size - 1],
                tag);
    }
    return tag;
}

// ---- the end ------------------------------------------------------------------------------------

// Prints a line before the last one; a reader of the last line does not need it.
void wl_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Prints the last line; returns the exit status.
int wl_end(WlTally tally);

#ifdef __cplusplus
}
#endif
#endif

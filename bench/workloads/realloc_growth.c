// realloc_growth.c: blocks that grow by realloc.
//
// Asks, by --shape:
//   vectors   many small vectors at a time, each growing by half as its own capacity runs out, then
//             dropped: does a realloc find room in place, or what does the move cost?
//   one       one buffer that grows to 64 MiB in steps of 64 KiB to 1 MiB while small blocks come
//             in between, as a file is read into memory: is the growth linear or quadratic?
//   strings   strings that are appended to, each time to the exact new length: is a realloc by a
//             few bytes nearly free?
// Cannot show shrinking, or realloc by another thread than the one that allocated.
#include "workload.h"

enum Shape { VECTORS, ONE, STRINGS };

static uint64_t shape;

typedef struct {
    unsigned char *bytes;
    uint32_t used, capacity, limit;
    unsigned char tag;
} Grown;

static void start(Grown *grown, WlRandom *random, uint64_t least, uint64_t most) {
    grown->limit = (uint32_t)wl_skewed(random, least, most);
    grown->capacity = grown->used = (uint32_t)wl_between(random, 8, 24);
    grown->tag = (unsigned char)wl_next(random);
    grown->bytes = wl_malloc(grown->capacity);
    memset(grown->bytes, grown->tag, grown->used);
}

static uint64_t finish(Grown *grown) {
    uint64_t read = wl_check(grown->bytes, grown->used, grown->tag);
    free(grown->bytes);
    return read;
}

// `amount` bytes more at the end; the capacity grows by a half, or, where `exact`, just as needed.
static uint64_t append(Grown *grown, uint32_t amount, bool exact) {
    uint64_t calls = 0;
    uint32_t needed = grown->used + amount;
    if (needed > grown->capacity) {
        uint32_t larger = grown->capacity + grown->capacity / 2;
        grown->capacity = exact || larger < needed ? needed : larger;
        grown->bytes = wl_realloc(grown->bytes, grown->capacity);
        wl_check(grown->bytes, grown->used, grown->tag);
        calls = 1;
    }
    memset(grown->bytes + grown->used, grown->tag, amount);
    grown->used = needed;
    return calls;
}

static WlTally grow_many(WlWorker *me, uint64_t count, uint64_t steps, uint32_t most_added,
                         uint64_t limit, bool exact) {
    WlTally tally = {2 * count, 0};
    Grown *all = wl_table(count, sizeof(Grown));
    for (uint64_t at = 0; at < count; at++) start(&all[at], &me->random, 32, limit);
    for (; steps > 0; steps--) {
        Grown *one = &all[wl_below(&me->random, count)];
        tally.ops += append(one, (uint32_t)wl_between(&me->random, 1, most_added), exact);
        if (one->used < one->limit) continue;
        tally.sum += finish(one);
        start(one, &me->random, 32, limit);
        tally.ops += 2;
    }
    for (uint64_t at = 0; at < count; at++) tally.sum += finish(&all[at]);
    return tally;
}

static WlTally grow_one(WlWorker *me) {
    enum { FULL = 64 << 20, STEP = 64 << 10, NEIGHBOURS = FULL / STEP };
    WlTally tally = {0, 0};
    static void *neighbours[NEIGHBOURS]; // at most one for each of the smallest steps
    for (uint64_t rounds = wl_scaled(12); rounds > 0; rounds--) {
        uint64_t step = wl_skewed(&me->random, STEP, 16 * STEP);
        size_t size = step, count = 0;
        unsigned char tag = (unsigned char)wl_next(&me->random);
        unsigned char *buffer = wl_malloc(size);
        wl_write(buffer, size, tag);
        while (size + step <= FULL) {
            neighbours[count] = wl_malloc(wl_skewed(&me->random, 16, 512));
            memset(neighbours[count++], tag, 16);
            buffer = wl_realloc(buffer, size + step);
            tally.sum += wl_check(buffer, size, tag);
            wl_write(buffer + size, step, tag);
            size += step;
        }
        tally.ops += 2 + 3 * count;
        free(buffer);
        while (count > 0) free(neighbours[--count]);
    }
    return tally;
}

static WlTally body(WlWorker *me) {
    switch (shape) {
    case VECTORS: return grow_many(me, 8000, wl_scaled(9000000), 48, 16000, false);
    case ONE: return grow_one(me);
    default: return grow_many(me, 2000, wl_scaled(9000000), 24, 3000, true);
    }
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--shape", &shape, 0, 0, "vectors|one|strings"}, {0}};
    wl_begin(argc, argv, "realloc-growth", WL_SINGLE, options);
    return wl_end(wl_run(1, body, NULL));
}

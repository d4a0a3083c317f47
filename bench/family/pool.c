// pool.c: table 003 (fixed pools): its columns and the work of a cell.
//
// The question of the seed's figures: how does the time to allocate and free grow with the number
// of objects, for each size, and what do checks cost on top? The seed's loops free in one order;
// here the order is a column, since a free list's order decides how the next objects lie in memory,
// and some pools pay for it at the free itself.

#include "pool.h"

#include <stdlib.h>
#include <string.h>

enum { N = 100000, WARM_OPS = 1000000, WARM_BYTES = 256 << 20, SEED = 3 };

#define ORDERS(size) \
    {#size "-pair", "objects of " #size " bytes, each freed at once", N, 0}, \
        {#size "-lifo", "n objects of " #size " bytes, freed from the last", N, size}, \
        {#size "-fifo", "n objects of " #size " bytes, freed from the first", N, size}, { \
        #size "-random", "n objects of " #size " bytes, freed in random order", N, size \
    }
static const FamilyColumn columns[] = {
    ORDERS(16), ORDERS(64), ORDERS(256), ORDERS(1024), ORDERS(4096),
};

const FamilyTable family_table = {"003", "Fixed pools: time against count, a line for each size",
                                  columns, sizeof columns / sizeof *columns};

PoolWork pool_work(const FamilyRequest *asked) {
    const char *order_name = strchr(asked->column->name, '-') + 1;
    uint64_t warm = WARM_BYTES / strtoull(asked->column->name, NULL, 10);
    if (warm > WARM_OPS) {
        warm = WARM_OPS;
    }
    PoolWork work = {.n = asked->n, .repeats = (warm + asked->n - 1) / asked->n};
    work.pairs = !strcmp(order_name, "pair");
    if (work.pairs) {
        return work;
    }
    if (work.n > UINT32_MAX) {
        family_fail("%llu objects: too many", (unsigned long long)work.n);
    }
    uint32_t *order = (uint32_t *)family_table_of(work.n, sizeof *order);
    work.objects = (void **)family_table_of(work.n, sizeof *work.objects);
    work.order = order;
    bool lifo = !strcmp(order_name, "lifo");
    for (uint64_t i = 0; i < work.n; i++) {
        order[i] = (uint32_t)(lifo ? work.n - 1 - i : i);
    }
    if (!strcmp(order_name, "random")) {
        uint64_t state = SEED;
        for (uint64_t i = work.n - 1; i > 0; i--) {
            uint64_t other = family_random(&state) % (i + 1);
            uint32_t moved = order[i];
            order[i] = order[other];
            order[other] = moved;
        }
    }
    return work;
}

bool pool_long_enough(const FamilyClock *clock) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - clock->wall.tv_sec >= 2; // that is, at least one second
}

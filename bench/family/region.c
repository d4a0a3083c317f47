// region.c: table 000 (regions): its columns, the phases of a bulk column, and the page columns.
//
// The question of the seed's table: what does it cost to take many small objects from a pool or a
// region and to drop them all at once, against freeing each? The page columns ask what stands
// below: what a page costs that malloc aligns to 16 bytes or to 4096, and what one costs straight
// from the system.

#include "region.h"

enum { N = 20000000, PAGES = 100000 };

static const FamilyColumn columns[] = {
    {"small", "N objects of 24 bytes", N, 24},
    {"small-free", "the same, every fourth freed at once", N, 24},
    {"big", "N/10 objects of 240 bytes", N, 24},
    {"big-free", "the same, every fourth freed at once", N, 24},
    {"mix", "N objects: 3/4 of 24 bytes, 1/4 of 240, 1 in 4096 of 8305", N, 80},
    {"mix-free", "the same, the larger two freed at once by who can (nginx: only the largest)", N,
     80},
    {"create-destroy", "N/100 pools of 100 objects, 3/4 of them of 24 bytes, 1/4 of 240", N, 0},
    {"page-16", "100,000 objects of 4096 bytes at multiples of 16, then all freed", PAGES, 4096},
    {"page-4096", "the same at multiples of 4096", PAGES, 8192},
};

const FamilyTable family_table = {"000", "Regions and pools: many small objects, dropped at once",
                                  columns, sizeof columns / sizeof *columns};

void region_bulk(const FamilyRequest *asked, const RegionBulk *bulk) {
    uint64_t count = region_count(asked->n, bulk->size);
    if (bulk->prepare) {
        bulk->prepare(count);
    }
    for (int turn = 0; turn < (bulk->once ? 1 : 2); turn++) {
        FamilyClock clock = family_start();
        void *pool = bulk->create(bulk->size, count);
        family_stop(&clock, turn ? "create-warm" : "create", 1);
        clock = family_start();
        bulk->use(pool, count);
        family_stop(&clock, turn ? "warm" : "use", count);
        clock = family_start();
        bulk->destroy(pool);
        family_stop(&clock, turn ? "destroy-warm" : "destroy", 1);
    }
}

// region_kept.h: for rows of table 000 whose allocator has no pool: what it gave is remembered here
// and freed one by one at the end, as a user of malloc has to.
//
// The table is mapped and touched before the clock of the first phase runs, by kept_room; storing
// a pointer into it is part of the price. Sizes are asked for by allocators that want them back.
#ifndef LOAM_BENCH_FAMILY_REGION_KEPT_H
#define LOAM_BENCH_FAMILY_REGION_KEPT_H

#include "region.h"

// A word of the table is an address and, in its low bits (objects are aligned to 8), its size's
// place.
enum { KEPT_SMALL = 1, KEPT_BIG = 2, KEPT_HUGE = 3, KEPT_BITS = 3 };

typedef struct {
    uintptr_t *words;
    uint64_t count, room;
} RegionKept;

static inline void kept_room(RegionKept *kept, uint64_t count) {
    kept->words = (uintptr_t *)family_table_of(count, sizeof *kept->words);
    kept->room = count;
}

static inline void *kept_begin(RegionKept *kept, uint64_t count) {
    if (!kept->room) {
        kept_room(kept, count);
    } // once, for the many pools of create-destroy
    kept->count = 0;
    return kept;
}

static inline void kept_add(RegionKept *kept, void *object, size_t size) {
    unsigned place = size == REGION_SMALL ? KEPT_SMALL : size == REGION_BIG ? KEPT_BIG : KEPT_HUGE;
    kept->words[kept->count++] = (uintptr_t)object | place;
}

// The object that was added last is gone already.
static inline void kept_forget_last(RegionKept *kept) { kept->count--; }

static inline void *kept_object(const RegionKept *kept, uint64_t i) {
    return (void *)(kept->words[i] & ~(uintptr_t)KEPT_BITS);
}

static inline size_t kept_size(const RegionKept *kept, uint64_t i) {
    static const size_t sizes[] = {0, REGION_SMALL, REGION_BIG, REGION_HUGE};
    return sizes[kept->words[i] & KEPT_BITS];
}

#endif

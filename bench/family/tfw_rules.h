// tfw_rules.h: a region by TfwPool's rules as its authors describe them, outside the kernel.
//
// Memory comes in runs of whole pages at multiples of 4096, which posix_memalign gives; a run is
// one page unless an object needs more (then the next power of two). An object is cut off the
// current run's end after rounding its size to 8; what no longer fits opens a new run, and the rest
// of the old one is lost. There is no scan and no doubling. Free works like a stack: only the
// object that lies last in the current run goes back, and a run that is empty by that returns, and
// the one before it is current again at its old end. Realloc of the last object moves the end where
// the run has room. The region's own record lives in its first run.
//
// Single pages are kept by a cache: a stack of at most 256 for each thread. Larger runs go to free.
//
// What the authors' own code got wrong (a run's order recorded too late, the room at realloc) is
// right here: it is not what a comparison should rest on. The lines are otherwise as few and as
// plain as theirs. It cannot do alignments above 8.
#ifndef LOAM_BENCH_FAMILY_TFW_RULES_H
#define LOAM_BENCH_FAMILY_TFW_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TFW_PAGE = 4096, TFW_CACHED = 256, TFW_ALIGN = 8 };

// At the head of each run. Its order and its end are valid while it is not the current one.
typedef struct TfwRun {
    struct TfwRun *before;
    uint32_t order; // TFW_PAGE << order bytes
    size_t end;
} TfwRun;

typedef struct {
    TfwRun *current;
    uint32_t order;
    size_t end; // of what is used in current, from its start
} TfwRegion;

static inline size_t tfw_round(size_t size) {
    return (size + TFW_ALIGN - 1) & ~(size_t)(TFW_ALIGN - 1);
}

// ---- pages --------------------------------------------------------------------------------------

static __thread struct {
    unsigned count;
    void *pages[TFW_CACHED];
} tfw_cache;

static inline uint32_t tfw_order_of(size_t bytes) {
    uint32_t order = 0;
    while (((size_t)TFW_PAGE << order) < bytes) {
        order++;
    }
    return order;
}

static inline void *tfw_run_get(uint32_t order) {
    if (!order && tfw_cache.count) {
        return tfw_cache.pages[--tfw_cache.count];
    }
    void *run = NULL;
    return posix_memalign(&run, TFW_PAGE, (size_t)TFW_PAGE << order) ? NULL : run;
}

static inline void tfw_run_put(void *run, uint32_t order) {
    if (!order && tfw_cache.count < TFW_CACHED) {
        tfw_cache.pages[tfw_cache.count++] = run;
    } else {
        free(run);
    }
}

// ---- the region ---------------------------------------------------------------------------------

static inline TfwRegion *tfw_create(void) {
    TfwRun *run = (TfwRun *)tfw_run_get(0);
    if (!run) {
        return NULL;
    }
    TfwRegion *region = (TfwRegion *)((char *)run + tfw_round(sizeof *run));
    run->before = NULL;
    region->current = run;
    region->order = 0;
    region->end = tfw_round(sizeof *run) + tfw_round(sizeof *region);
    return region;
}

static inline void *tfw_new_run(TfwRegion *region, size_t size) {
    size_t end = tfw_round(sizeof(TfwRun)) + size;
    uint32_t order = tfw_order_of(end);
    TfwRun *run = (TfwRun *)tfw_run_get(order);
    if (!run) {
        return NULL;
    }
    region->current->order = region->order;
    region->current->end = region->end;
    run->before = region->current;
    region->current = run;
    region->order = order;
    region->end = end;
    return (char *)run + tfw_round(sizeof *run);
}

static inline void *tfw_alloc(TfwRegion *region, size_t size) {
    size = tfw_round(size);
    if (region->end + size > (size_t)TFW_PAGE << region->order) {
        return tfw_new_run(region, size);
    }
    void *object = (char *)region->current + region->end;
    region->end += size;
    return object;
}

static inline bool tfw_is_last(const TfwRegion *region, const void *object, size_t size) {
    return (const char *)object + size == (const char *)region->current + region->end;
}

static inline void tfw_free(TfwRegion *region, void *object, size_t size) {
    size = tfw_round(size);
    if (tfw_is_last(region, object, size)) {
        region->end -= size;
    }
    TfwRun *run = region->current;
    // Never the first run: what the region itself takes there keeps it from being empty.
    if (region->end == tfw_round(sizeof *run)) {
        TfwRun *before = run->before;
        tfw_run_put(run, region->order);
        region->current = before;
        region->order = before->order;
        region->end = before->end;
    }
}

static inline void *tfw_realloc(TfwRegion *region, void *object, size_t old_size, size_t size) {
    size_t old_round = tfw_round(old_size), new_round = tfw_round(size);
    if (new_round <= old_round) {
        return object;
    }
    if (tfw_is_last(region, object, old_round) &&
        region->end - old_round + new_round <= (size_t)TFW_PAGE << region->order) {
        region->end += new_round - old_round;
        return object;
    }
    void *copy = tfw_alloc(region, size);
    if (copy) {
        memcpy(copy, object, old_size);
    }
    return copy;
}

static inline void tfw_destroy(TfwRegion *region) {
    TfwRun *run = region->current;
    uint32_t order = region->order;
    while (run) { // the first run, with the region in it, is the last to go
        TfwRun *before = run->before;
        uint32_t before_order = before ? before->order : 0;
        tfw_run_put(run, order);
        run = before;
        order = before_order;
    }
}

#endif

// pool.h: table 003's loops, one set for every allocator, expanded into each row's own file, so
// that a call is inlined where the library's header allows it.
//
//     #define POOL glib
//     static inline void *glib_create(size_t size, uint64_t count); // for count of size bytes
//     static inline void *glib_alloc(void *pool, size_t size);      // size: a constant
//     static inline void glib_free(void *pool, void *object, size_t size);
//     static inline void glib_destroy(void *pool);
//     #include "pool.h"
//     FAMILY_ROW(glib, "glib-slice", VERSION, "...", FAMILY_RIVAL, glib_cells)
//
// A cell is a size and an order of frees; --n is how many objects live at once. Phases: `create`;
// `allocate` n and `free` n on fresh memory; `warm`: both again, as often as it takes to be a
// measurable time; `destroy`. In the order `pair` each object is freed at once; then n is only
// how many pairs there are, and `allocate` and `free` are one phase, `use`.
//
// Objects are freed through one table in every order, so that the orders differ by nothing else.
#ifndef LOAM_BENCH_FAMILY_POOL_H
#define LOAM_BENCH_FAMILY_POOL_H

#include "family.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    void **objects;        // n of them, as they were allocated
    const uint32_t *order; // of frees
    uint64_t n;
    uint64_t repeats; // of the warm phase, at most
    bool pairs;
} PoolWork;

PoolWork pool_work(const FamilyRequest *asked);

// Whether a warm phase of a slow pool has gone on for long enough to be measured.
bool pool_long_enough(const FamilyClock *clock);

// Writes the first word. A whole barrier for the compiler: without it, it fuses the free of a pair
// with the next allocation, and the figure is of no allocator.
static inline void pool_touch(void *object) {
    *(long *)object = 1;
    family_consume(object);
}

#define POOL_PASTE_(a, b) a##_##b
#define POOL_PASTE(a, b) POOL_PASTE_(a, b)
#define POOL_(name) POOL_PASTE(POOL, name)
#define POOL_INLINE static inline __attribute__((always_inline))

#ifdef __cplusplus
}
#endif
#endif

#ifdef POOL
POOL_INLINE void POOL_(allocate_all)(void *pool, const PoolWork *work, size_t size) {
    for (uint64_t i = 0; i < work->n; i++) {
        pool_touch(work->objects[i] = family_need(POOL_(alloc)(pool, size)));
    }
}

POOL_INLINE void POOL_(free_all)(void *pool, const PoolWork *work, size_t size) {
    for (uint64_t i = 0; i < work->n; i++) {
        POOL_(free)(pool, work->objects[work->order[i]], size);
    }
}

POOL_INLINE void POOL_(pairs)(void *pool, uint64_t n, size_t size) {
    for (uint64_t i = 0; i < n; i++) {
        void *object = family_need(POOL_(alloc)(pool, size));
        pool_touch(object);
        POOL_(free)(pool, object, size);
    }
}

POOL_INLINE void POOL_(phases)(const FamilyRequest *asked, size_t size) {
    PoolWork work = pool_work(asked);
    FamilyClock clock = family_start();
    void *pool = POOL_(create)(size, work.n);
    family_stop(&clock, "create", 1);
    clock = family_start();
    if (work.pairs) {
        POOL_(pairs)(pool, work.n, size);
        family_stop(&clock, "use", work.n);
    } else {
        POOL_(allocate_all)(pool, &work, size);
        family_stop(&clock, "allocate", work.n);
        clock = family_start();
        POOL_(free_all)(pool, &work, size);
        family_stop(&clock, "free", work.n);
    }
    clock = family_start();
    uint64_t repeats = 0;
    while (repeats < work.repeats && (!repeats || !pool_long_enough(&clock))) {
        repeats++;
        if (work.pairs) {
            POOL_(pairs)(pool, work.n, size);
        } else {
            POOL_(allocate_all)(pool, &work, size);
            POOL_(free_all)(pool, &work, size);
        }
    }
    family_stop(&clock, "warm", work.n * repeats);
    clock = family_start();
    POOL_(destroy)(pool);
    family_stop(&clock, "destroy", 1);
}

#define POOL_SIZE(bytes) \
    static void POOL_(size_##bytes)(const FamilyRequest *asked) { POOL_(phases)(asked, bytes); }
POOL_SIZE(16)
POOL_SIZE(64)
POOL_SIZE(256)
POOL_SIZE(1024)
POOL_SIZE(4096)
#undef POOL_SIZE

#define POOL_ORDERS(bytes) \
    {#bytes "-pair", POOL_(size_##bytes)}, {#bytes "-lifo", POOL_(size_##bytes)}, \
        {#bytes "-fifo", POOL_(size_##bytes)}, { \
        #bytes "-random", POOL_(size_##bytes) \
    }
static const FamilyCell POOL_(cells)[] = {
    POOL_ORDERS(16),   POOL_ORDERS(64),   POOL_ORDERS(256),
    POOL_ORDERS(1024), POOL_ORDERS(4096), FAMILY_END,
};
#undef POOL_ORDERS
#undef POOL
#endif

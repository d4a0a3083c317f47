// region.h: table 000's loops, one set for every allocator, expanded into each row's own file.
//
// A row says what its allocator is called and what it can do, and includes this file:
//
//     #define REGION obstack                  // the prefix of its functions, and of cells
//     #define REGION_SIZES REGION_ANY         // or REGION_ONE: a pool of one size each
//     #define REGION_FREES REGION_NONE        // or REGION_ALL, or REGION_LARGE: only huge objects
//     static inline void *obstack_create(size_t size, uint64_t count);
//     static inline void *obstack_alloc(void *pool, size_t size);
//     static inline void obstack_free(void *pool, void *object, size_t size); // unless REGION_NONE
//     static inline void obstack_destroy(void *pool);
//     #include "region.h"
//     FAMILY_ROW(obstack, "obstack", VERSION, "...", FAMILY_RIVAL, obstack_cells)
//
// so that a call may be inlined where the library's header allows it, as in its users' programs. A
// file with several rows includes it several times. `size` is a constant in every call. create is
// told how large its objects will be (0: mixed) and how many come; most need neither.
//
// The loops are the seed's: N objects of 24 bytes, or N/10 of 240, or a mix, of each the first word
// is written; optionally every fourth one is freed at once; or N/100 pools, each with 100 objects
// in it. A bulk cell does it twice: `use` is with fresh memory, `warm` with what the first left
// behind. Create and destroy are phases of their own. REGION_BULK_ONLY: without the pools.
#ifndef LOAM_BENCH_FAMILY_REGION_H
#define LOAM_BENCH_FAMILY_REGION_H

#include "family.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REGION_SMALL = 24, REGION_BIG = 240, REGION_HUGE = 8305 };
enum { REGION_PAGE = 4096, REGION_IN_POOL = 100 };

#define REGION_ONE 1
#define REGION_ANY 2
#define REGION_NONE 1
#define REGION_LARGE 2
#define REGION_ALL 3

typedef struct {
    void (*prepare)(uint64_t count); // before any clock runs; may be NULL
    void *(*create)(size_t size, uint64_t count);
    void (*use)(void *pool, uint64_t count);
    void (*destroy)(void *pool);
    size_t size;
    bool once; // nothing is left to be warm with
} RegionBulk;

// The phases of a bulk column.
void region_bulk(const FamilyRequest *asked, const RegionBulk *bulk);

// How many objects of `size` (0: mixed) make the seed's N.
static inline uint64_t region_count(uint64_t n, size_t size) {
    uint64_t count = size ? n * REGION_SMALL / size : n;
    return count ? count : 1;
}

// Writes the first word, and keeps the compiler from dropping the object: nothing else is forced.
static inline void region_touch(void *object) {
    *(long *)object = 1;
    __asm__ volatile("" : : "r"(object), "m"(*(long *)object));
}

#define REGION_PASTE_(a, b) a##_##b
#define REGION_PASTE(a, b) REGION_PASTE_(a, b)
#define REGION_(name) REGION_PASTE(REGION, name)
#define REGION_INLINE static inline __attribute__((always_inline))

#ifdef __cplusplus
}
#endif
#endif

#ifdef REGION
// ---- the loops, with constants to be folded -----------------------------------------------------

REGION_INLINE void REGION_(bulk)(void *pool, uint64_t count, size_t size, bool frees) {
    for (uint64_t i = 0; i < count; i++) {
        void *object = family_need(REGION_(alloc)(pool, size));
        region_touch(object);
#if REGION_FREES == REGION_ALL
        if (frees && !(i & 3)) {
            REGION_(free)(pool, object, size);
        }
#else
        (void)frees;
#endif
    }
}

#if REGION_SIZES == REGION_ANY
// A quarter is big, one in 4096 is huge; frees: both are freed at once by an allocator that can.
REGION_INLINE void REGION_(mixed)(void *pool, uint64_t count, bool frees) {
    (void)frees;
    for (uint64_t i = 0; i < count; i++) {
        if (i & 3) {
            region_touch(family_need(REGION_(alloc)(pool, REGION_SMALL)));
        } else if (i & 0xfff) {
            void *object = family_need(REGION_(alloc)(pool, REGION_BIG));
            region_touch(object);
#if REGION_FREES == REGION_ALL
            if (frees) {
                REGION_(free)(pool, object, REGION_BIG);
            }
#endif
        } else {
            void *object = family_need(REGION_(alloc)(pool, REGION_HUGE));
            region_touch(object);
#if REGION_FREES != REGION_NONE
            if (frees) {
                REGION_(free)(pool, object, REGION_HUGE);
            }
#endif
        }
    }
}

static void REGION_(use_mix)(void *pool, uint64_t count) { REGION_(mixed)(pool, count, false); }
static void REGION_(use_mix_free)(void *pool, uint64_t count) { REGION_(mixed)(pool, count, true); }
#endif

static void REGION_(use_small)(void *pool, uint64_t count) {
    REGION_(bulk)(pool, count, REGION_SMALL, false);
}
static void REGION_(use_big)(void *pool, uint64_t count) {
    REGION_(bulk)(pool, count, REGION_BIG, false);
}
#if REGION_FREES == REGION_ALL
static void REGION_(use_small_free)(void *pool, uint64_t count) {
    REGION_(bulk)(pool, count, REGION_SMALL, true);
}
static void REGION_(use_big_free)(void *pool, uint64_t count) {
    REGION_(bulk)(pool, count, REGION_BIG, true);
}
#endif

// ---- the cells ----------------------------------------------------------------------------------

#ifndef REGION_PREPARE
#define REGION_PREPARE NULL
#endif
#ifndef REGION_ONCE
#define REGION_ONCE false
#endif

#define REGION_COLUMN(column, bytes) \
    static void REGION_(cell_##column)(const FamilyRequest *asked) { \
        const RegionBulk bulk = {REGION_PREPARE,   REGION_(create), REGION_(use_##column), \
                                 REGION_(destroy), bytes,           REGION_ONCE}; \
        region_bulk(asked, &bulk); \
    }

REGION_COLUMN(small, REGION_SMALL)
REGION_COLUMN(big, REGION_BIG)
#if REGION_FREES == REGION_ALL
REGION_COLUMN(small_free, REGION_SMALL)
REGION_COLUMN(big_free, REGION_BIG)
#endif
#if REGION_SIZES == REGION_ANY
REGION_COLUMN(mix, 0)
REGION_COLUMN(mix_free, 0)
#endif
#undef REGION_COLUMN

#ifndef REGION_BULK_ONLY
static void REGION_(cell_create_destroy)(const FamilyRequest *asked) {
    uint64_t pools = asked->n / REGION_IN_POOL;
    FamilyClock clock = family_start();
    for (uint64_t i = 0; i < pools; i++) {
        if (i & 3) {
            void *pool = REGION_(create)(REGION_SMALL, REGION_IN_POOL);
            REGION_(bulk)(pool, REGION_IN_POOL, REGION_SMALL, false);
            REGION_(destroy)(pool);
        } else {
            void *pool = REGION_(create)(REGION_BIG, REGION_IN_POOL);
            REGION_(bulk)(pool, REGION_IN_POOL, REGION_BIG, false);
            REGION_(destroy)(pool);
        }
    }
    family_stop(&clock, "use", pools * REGION_IN_POOL);
}
#endif

static const FamilyCell REGION_(cells)[] = {
    {"small", REGION_(cell_small)},
    {"big", REGION_(cell_big)},
#if REGION_FREES == REGION_ALL
    {"small-free", REGION_(cell_small_free)},
    {"big-free", REGION_(cell_big_free)},
#endif
#if REGION_SIZES == REGION_ANY
    {"mix", REGION_(cell_mix)},
    {"mix-free", REGION_(cell_mix_free)},
#endif
#ifndef REGION_BULK_ONLY
    {"create-destroy", REGION_(cell_create_destroy)},
#endif
#ifdef REGION_MORE_CELLS
    REGION_MORE_CELLS
#endif
        FAMILY_END,
};

#undef REGION
#undef REGION_SIZES
#undef REGION_FREES
#undef REGION_BULK_ONLY
#undef REGION_ONCE
#undef REGION_PREPARE
#undef REGION_MORE_CELLS
#endif

/* loam/region.h: many objects of any size, taken one behind the other and dropped all at once.
 *
 * Choose it for what lives and dies together: a request, a frame, a parse, a pass of a compiler. An
 * allocation is an addition and a compare; freeing thousands of objects is one call. Choose pool.h
 * for objects of one size that come and go one by one, and malloc for objects whose lifetimes have
 * nothing to do with each other. It cannot give single objects from its middle back to the source,
 * only reuse their memory, and it serves one thread at a time.
 *
 *   region ── chunk ──> older chunk ──> ...            the source's memory, by doubling (or fixed) sizes
 *              │
 *     [ header │ object │ object │ object │ free ...... ]
 *              ^ floor                    ^ at          ^ end
 *
 * It works like a stack where it can: freeing the last object moves `at` back, growing the last one
 * moves it on, and a chunk that became empty goes back, with the one before it current again where
 * it was left. Everything else that is freed is kept in lists by size and serves later requests
 * before another chunk is taken; neighbours are joined from time to time, and chunks of which all
 * is free go back. So a region whose objects come and go holds at most about twice what is live,
 * and a chunk, whatever their order and sizes (docs/decisions/0047). What it cannot use again: the
 * gap that alignment leaves before an object, and, until it is rewound, memory older than a mark.
 * Objects of more than large_bytes have a chunk of their own and go back to the source as soon as
 * they are freed.
 *
 * Alignment: an object is aligned, and its size rounded up, to the alignment it is asked for with:
 * 16 by plain alloc. free, realloc and extend must be told the same size and alignment (the plain
 * ones: 16), as with C++'s sized delete. A plain free of an object of another alignment is a
 * mistake that only a checked region reports.
 *
 * Invariants: floor <= at <= end, end is a multiple of 16, and all three are NULL where inline
 * paths must not be taken (no chunk yet, LOAM_CHECK, AddressSanitizer): then nothing fits and
 * nothing is last. loam_region_check walks them. After Hanson, "Fast allocation and deallocation of
 * memory based on object lifetimes" (1990), and the rules of TfwPool, nginx's pools and Boost's.
 *
 * Threads: one at a time, for a region and its children; different regions are independent, also
 * over one source that is LOAM_SOURCE_THREADS.
 */
#ifndef LOAM_REGION_H
#define LOAM_REGION_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

typedef enum loam_growth {
    LOAM_GROWTH_DOUBLE, /* each chunk twice the one before, up to most_bytes */
    /* each chunk first_bytes, or a power of two of them for an object that needs it */
    LOAM_GROWTH_FIXED,
} loam_growth;

/* Zero in a member: its default. */
typedef struct loam_region_options {
    size_t first_bytes; /* of the first chunk, its header of 64 bytes included; 4096 */
    size_t most_bytes;  /* of any chunk, but where one object needs more; 32 MiB */
    size_t
        large_bytes; /* objects above have a chunk of their own; 64 KiB, and 1024 at least. Never over a
                         * contiguous source */
    size_t keep_bytes;  /* reset keeps at least so many, if it has them; 0 */
    size_t chunk_align; /* of chunks: a power of two, 16 */
    loam_growth growth;
    unsigned flags;   /* LOAM_CHECK; LOAM_FIXED: one chunk of first_bytes, no more */
    const char *name; /* for the registry and reports; not copied; NULL: none */
} loam_region_options;

/* TfwPool's own mode: pages of 4096 bytes at multiples of 4096, no doubling, the next power of two
 * of pages for an object that needs more. */
#define LOAM_REGION_TFW \
    { 4096, 4096, SIZE_MAX, 0, 4096, LOAM_GROWTH_FIXED, 0, NULL }

typedef struct loam_region loam_region;
typedef struct loam_region_cleanup loam_region_cleanup;

/* Members are private to loam. */
typedef struct loam_region_room {
    char *at;  /* first free byte of the current chunk */
    char *end; /* a multiple of 16: its end, or that of what is ready to be touched */
    char *
        floor; /* objects above it go back inline: the current chunk's first byte, which is not above so
                  * that an emptied chunk is seen; one less in the first chunk, and behind a mark */
} loam_region_room;

/* Members are private to loam. The first 64 bytes are those of the fast paths. */
struct loam_region {
    loam_region_room room;           /* all NULL where inline paths must miss */
    struct loam_region_chunk *chunk; /* the current one; the others behind it, newest first */
    size_t large_bytes;
    struct loam_region_freed
        *freed; /* lists of freed arrays, capacities of grown ones; NULL until needed */
    struct loam_region_large *large; /* newest first */
    loam_source *source;
    loam_region_cleanup *cleanups; /* newest first */
    struct loam_region_chunk *spares;
    loam_region_room hidden; /* the room, where inline paths must miss */
    char *
        /* first byte behind the region itself in its first chunk; NULL iff it lives elsewhere */
        own;
    size_t first_bytes, most_bytes, keep_bytes, chunk_align;
    size_t serial; /* of large objects and cleanups, so that marks can tell newer ones */
    size_t held_bytes, peak_bytes, spare_bytes, round_bytes, average_bytes;
    size_t marks;           /* not yet ended */
    struct loam_tag *dead;  /* freed objects of a checked region */
    size_t requests, turns; /* calls of the source's get; chunks that became current */
    loam_region *parent;
    loam_region_cleanup *in_parent;
    unsigned char growth, mode, redzone, fixed;
    loam_entry entry;
};

/* A place in a region's life, to rewind to. Marks nest like brackets. Members are private. */
typedef struct loam_region_mark {
    char *at, *floor;
    struct loam_region_chunk *chunk;
    struct loam_region_freed *freed;
    struct loam_tag *dead;
    size_t serial, marks;
} loam_region_mark;

/* ---- Setting up ---- */

/* In the caller's storage; the first chunk is taken with the first object. source NULL:
 * loam_pages() (hosted builds; -EINVAL in freestanding ones). options NULL: defaults. 0, or -EINVAL
 * iff first_bytes is less than 256, large_bytes less than 1024 or chunk_align no power of two. Does
 * not allocate. */
LOAM_API LOAM_NODISCARD int loam_region_init_as(loam_region *region, loam_source *source,
                                                const loam_region_options *options,
                                                unsigned more_flags) LOAM_NOEXCEPT;
LOAM_INLINE int loam_region_init(loam_region *region, loam_source *source,
                                 const loam_region_options *options) {
    return loam_region_init_as(region, source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/* Runs the cleanups, newest first, and gives everything back. The region may be set up again. */
LOAM_API void loam_region_deinit(loam_region *region) LOAM_NOEXCEPT;

/* A region that lives in its own first chunk. NULL iff there is no memory or options are bad as
 * above. */
LOAM_API LOAM_NODISCARD loam_region *loam_region_create_as(loam_source *source,
                                                           const loam_region_options *options,
                                                           unsigned more_flags) LOAM_NOEXCEPT;
LOAM_INLINE loam_region *loam_region_create(loam_source *source,
                                            const loam_region_options *options) {
    return loam_region_create_as(source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/* As deinit, for a region of create, create_child or create_object. NULL is fine. */
LOAM_API void loam_region_destroy(loam_region *region) LOAM_NOEXCEPT;

/* An object of so many bytes, aligned to 16 and zero, that lives inside its own region: *region is
 * for what else belongs to it, and destroying that ends both. NULL iff there is no memory or
 * options are bad. */
LOAM_API LOAM_NODISCARD void *loam_region_create_object_as(loam_source *source,
                                                           const loam_region_options *options,
                                                           size_t bytes, loam_region **region,
                                                           unsigned more_flags) LOAM_NOEXCEPT;
LOAM_INLINE void *loam_region_create_object(loam_source *source, const loam_region_options *options,
                                            size_t bytes, loam_region **region) {
    return loam_region_create_object_as(source, options, bytes, region,
                                        LOAM_CHECKED ? LOAM_CHECK : 0);
}

/* A region of its own over the parent's source, that is destroyed with the parent (or when the
 * parent is reset or rewound to before this), unless it was before. NULL as for create. */
LOAM_API LOAM_NODISCARD loam_region *
loam_region_create_child(loam_region *parent, const loam_region_options *options) LOAM_NOEXCEPT;

/* Moves a region of create, create_child or create_object, with its objects and children, to
 * another parent, or to none (NULL: the caller destroys it). From then on it ends with that parent,
 * or when that is reset or rewound to a mark from before this call. Its memory stays in place, and
 * its source's, which has to outlive it. 0; -EINVAL iff parent is the child itself or below it, or
 * the child lives in the caller's storage; -ENOMEM iff parent has no memory. Nothing has changed
 * after an error. Takes time by how deep parent lies below others. */
LOAM_API LOAM_NODISCARD int loam_region_set_parent(loam_region *child,
                                                   loam_region *parent) LOAM_NOEXCEPT;

/* ---- Out of line: what the inline functions below call when they cannot serve ---- */

/* Also what room.at is then: the inline functions store it once more, so that all ways meet in one
 * store. In a loop compilers keep `at` in a register then, and no allocation waits for the store of
 * the one before it. */
typedef struct loam_region_made {
    void *object;
    char *at;
} loam_region_made;

LOAM_API LOAM_COLD loam_region_made loam_region_alloc_slow(loam_region *region, size_t bytes,
                                                           size_t align, const char *file,
                                                           unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_COLD char *loam_region_free_slow(loam_region *region, void *p, size_t bytes,
                                               size_t align, const char *file,
                                               unsigned line) LOAM_NOEXCEPT;
LOAM_API void *loam_region_realloc_slow(loam_region *region, void *p, size_t old_bytes,
                                        size_t bytes, size_t align, const char *file,
                                        unsigned line) LOAM_NOEXCEPT;
LOAM_API bool loam_region_extend_slow(loam_region *region, void *p, size_t old_bytes, size_t bytes,
                                      size_t align, const char *file, unsigned line) LOAM_NOEXCEPT;

/* ---- Objects ---- */

#define LOAM_REGION_ALIGN 16
#define LOAM_REGION_SMALL 1024 /* large_bytes is no less: constant sizes up to it need no compare */
#define LOAM_REGION_SUM LOAM_SOURCE_TOP /* constant sizes below are added to `at` */

LOAM_INLINE uintptr_t loam_region_round(uintptr_t x, size_t align) {
    return (x + align - 1) & ~(uintptr_t)(align - 1);
}

/* Whether it has its place in a chunk with others. */
LOAM_INLINE bool loam_region_is_small(const loam_region *region, size_t bytes) {
    return (__builtin_constant_p(bytes) && bytes <= LOAM_REGION_SMALL) ||
           bytes <= region->large_bytes;
}

/* bytes at a multiple of align, a power of two (a constant, preferably: of up to 16 it folds into
 * the inline path). 0 bytes: an address that may be the next object's as well. NULL iff there is no
 * memory, or bytes is more than PTRDIFF_MAX, or align is no power of two. Eight instructions for a
 * constant size up to 1 KiB, 13 for any, but for a new chunk. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_region_alloc_aligned_at(loam_region *region,
                                                                        size_t bytes, size_t align,
                                                                        const char *file,
                                                                        unsigned line) {
    if (__builtin_constant_p(align) && align <= LOAM_REGION_ALIGN && (align & (align - 1)) == 0 &&
        align != 0) {
        /* end is a multiple of align, so that aligning cannot pass it, and less than what is left
         * is no more than that after rounding either. A constant size is added before, not after:
         * the next allocation waits for two instructions, and the object's address is for who needs
         * it. */
        uintptr_t p, next = (uintptr_t)region->room.at;
        bool fits = loam_region_is_small(region, bytes); /* else in a chunk of its own */
        if (__builtin_constant_p(bytes) && bytes < LOAM_REGION_SUM) {
            uintptr_t whole = loam_region_round(bytes, align);
            next = loam_region_round(next + whole, align);
            p = next - whole;
            fits = fits && next < (uintptr_t)region->room.end;
        } else {
            p = loam_region_round(next, align);
            fits = fits && bytes < (uintptr_t)region->room.end - p;
            next = p + loam_region_round(bytes, align);
        }
        if (LOAM_UNLIKELY(!fits)) {
            loam_region_made made = loam_region_alloc_slow(region, bytes, align, file, line);
            if (made.object == NULL) return NULL;
            p = (uintptr_t)made.object;
            next = (uintptr_t)made.at;
        } else if (p == 0) {
            __builtin_unreachable(); /* NULL leaves above: what follows need not ask again */
        }
        region->room.at = (char *)next;
        return (void *)p;
    }
    return loam_region_alloc_slow(region, bytes, align, file, line).object;
}
#define loam_region_alloc_aligned(region, bytes, align) \
    loam_region_alloc_aligned_at(region, bytes, align, LOAM_HERE)

/* The same at a multiple of 16. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_region_alloc_at(loam_region *region, size_t bytes,
                                                                const char *file, unsigned line) {
    return loam_region_alloc_aligned_at(region, bytes, LOAM_REGION_ALIGN, file, line);
}
#define loam_region_alloc(region, bytes) loam_region_alloc_at(region, bytes, LOAM_HERE)

/* Without alignment: for characters. Freed with alignment 1. */
#define loam_region_alloc_packed(region, bytes) \
    loam_region_alloc_aligned_at(region, bytes, 1, LOAM_HERE)

/* Zeroed, count objects of so many bytes, at a multiple of 16. NULL as well iff the product
 * overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_region_calloc_at(loam_region *region,
                                                                     size_t count, size_t bytes,
                                                                     const char *file,
                                                                     unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *p = loam_region_alloc_at(region, all, file, line);
    return p != NULL ? __builtin_memset(p, 0, all) : NULL;
}
#define loam_region_calloc(region, count, bytes) \
    loam_region_calloc_at(region, count, bytes, LOAM_HERE)

/* An array, not zeroed: as alloc_aligned, and NULL as well iff count * bytes overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_region_array_at(loam_region *region,
                                                                    size_t count, size_t bytes,
                                                                    size_t align, const char *file,
                                                                    unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    return loam_region_alloc_aligned_at(region, all, align, file, line);
}

/* A T, or count of them, at T's own alignment; not initialised. NULL as above. */
#define LOAM_REGION_NEW(region, T) \
    ((T *)loam_region_alloc_aligned_at(region, sizeof(T), __alignof__(T), LOAM_HERE))
#define LOAM_REGION_ARRAY(region, T, count) \
    ((T *)loam_region_array_at(region, count, sizeof(T), __alignof__(T), LOAM_HERE))

/* Gives back an object of that size and alignment. The last one not yet freed makes room at once;
 * one with a chunk of its own goes back to the source; the memory of another serves later requests
 * of any size, once the room is used up or most of the region is free. (Less than a pointer's size
 * is lost until reset.) NULL is fine. Six to eight instructions for the last one. */
LOAM_INLINE void loam_region_free_aligned_at(loam_region *region, void *p, size_t bytes,
                                             size_t align, const char *file, unsigned line) {
    char *at = (char *)p;
    if (LOAM_UNLIKELY((uintptr_t)p + loam_region_round(bytes, align) !=
                          (uintptr_t)region->room.at ||
                      (char *)p <= region->room.floor))
        at = loam_region_free_slow(region, p, bytes, align, file, line);
    region->room.at = at;
}
#define loam_region_free_aligned(region, p, bytes, align) \
    loam_region_free_aligned_at(region, p, bytes, align, LOAM_HERE)

LOAM_INLINE void loam_region_free_at(loam_region *region, void *p, size_t bytes, const char *file,
                                     unsigned line) {
    loam_region_free_aligned_at(region, p, bytes, LOAM_REGION_ALIGN, file, line);
}
#define loam_region_free(region, p, bytes) loam_region_free_at(region, p, bytes, LOAM_HERE)

/* Gives back *p, or the count elements that p points to. */
#define LOAM_REGION_DROP(region, p) \
    loam_region_free_aligned_at(region, p, sizeof(*(p)), __alignof__(*(p)), LOAM_HERE)
#define LOAM_REGION_DROP_ARRAY(region, p, count) \
    loam_region_free_aligned_at(region, p, (count) * sizeof(*(p)), __alignof__(*(p)), LOAM_HERE)

/* Gives back count objects of so many bytes that are one array of alloc or calloc. */
#define loam_region_free_n(region, p, count, bytes) \
    loam_region_free_at(region, p, (count) * (bytes), LOAM_HERE)

/* Changes an object's size. In place iff it is the last one and fits, or gets smaller, or has room
 * from an earlier move (arrays that grow get twice the room when they move); moved otherwise, and
 * the old place is freed. p NULL: alloc. 0 bytes leave an object without any, as alloc makes them.
 * NULL as for alloc; then the object is as it was. */
LOAM_INLINE LOAM_NODISCARD void *loam_region_realloc_aligned_at(loam_region *region, void *p,
                                                                size_t old_bytes, size_t bytes,
                                                                size_t align, const char *file,
                                                                unsigned line) {
    if (LOAM_LIKELY(
            (uintptr_t)p + loam_region_round(old_bytes, align) == (uintptr_t)region->room.at &&
            (char *)p > region->room.floor && bytes < (uintptr_t)region->room.end - (uintptr_t)p &&
            bytes <= region->large_bytes &&
            /* end may be no multiple of an alignment above 16 */
            ((__builtin_constant_p(align) && align <= LOAM_REGION_ALIGN) ||
             loam_region_round(bytes, align) <= (uintptr_t)region->room.end - (uintptr_t)p))) {
        region->room.at = (char *)((uintptr_t)p + loam_region_round(bytes, align));
        return p;
    }
    return loam_region_realloc_slow(region, p, old_bytes, bytes, align, file, line);
}
#define loam_region_realloc_aligned(region, p, old_bytes, bytes, align) \
    loam_region_realloc_aligned_at(region, p, old_bytes, bytes, align, LOAM_HERE)

LOAM_INLINE LOAM_NODISCARD void *loam_region_realloc_at(loam_region *region, void *p,
                                                        size_t old_bytes, size_t bytes,
                                                        const char *file, unsigned line) {
    return loam_region_realloc_aligned_at(region, p, old_bytes, bytes, LOAM_REGION_ALIGN, file,
                                          line);
}
#define loam_region_realloc(region, p, old_bytes, bytes) \
    loam_region_realloc_at(region, p, old_bytes, bytes, LOAM_HERE)

/* Changes an object's size in place, or does nothing and returns false: realloc without a copy. */
LOAM_INLINE LOAM_NODISCARD bool loam_region_extend_at(loam_region *region, void *p,
                                                      size_t old_bytes, size_t bytes,
                                                      const char *file, unsigned line) {
    if (LOAM_LIKELY((uintptr_t)p + loam_region_round(old_bytes, LOAM_REGION_ALIGN) ==
                        (uintptr_t)region->room.at &&
                    (char *)p > region->room.floor &&
                    bytes < (uintptr_t)region->room.end - (uintptr_t)p &&
                    bytes <= region->large_bytes)) {
        region->room.at = (char *)((uintptr_t)p + loam_region_round(bytes, LOAM_REGION_ALIGN));
        return true;
    }
    return loam_region_extend_slow(region, p, old_bytes, bytes, LOAM_REGION_ALIGN, file, line);
}
#define loam_region_extend(region, p, old_bytes, bytes) \
    loam_region_extend_at(region, p, old_bytes, bytes, LOAM_HERE)

/* As alloc, and tells whether another chunk had to become the current one (or the current one to
 * grow). */
LOAM_INLINE LOAM_MALLOC void *loam_region_alloc_told_at(loam_region *region, size_t bytes,
                                                        bool *new_chunk, const char *file,
                                                        unsigned line) {
    size_t turns = region->turns;
    void *p = loam_region_alloc_at(region, bytes, file, line);
    *new_chunk = region->turns != turns;
    return p;
}
#define loam_region_alloc_told(region, bytes, new_chunk) \
    loam_region_alloc_told_at(region, bytes, new_chunk, LOAM_HERE)

/* Copies: of bytes, aligned to 16; of a string, and of at most so many characters of one, with a
 * zero behind, not aligned. NULL iff there is no memory. */
LOAM_API LOAM_NODISCARD void *loam_region_memdup_at(loam_region *region, const void *from,
                                                    size_t bytes, const char *file,
                                                    unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_NODISCARD char *loam_region_strdup_at(loam_region *region, const char *from,
                                                    const char *file, unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_NODISCARD char *loam_region_strndup_at(loam_region *region, const char *from,
                                                     size_t most, const char *file,
                                                     unsigned line) LOAM_NOEXCEPT;
#define loam_region_memdup(region, from, bytes) \
    loam_region_memdup_at(region, from, bytes, LOAM_HERE)
#define loam_region_strdup(region, from) loam_region_strdup_at(region, from, LOAM_HERE)
#define loam_region_strndup(region, from, most) \
    loam_region_strndup_at(region, from, most, LOAM_HERE)

/* ---- Everything since, and everything ---- */

/* Where the region stands. Constant time; nothing is allocated. Until it is rewound to or kept,
 * objects older than the mark do not make room when they are freed. Marks end as brackets close; to
 * use one that has ended (by reset, too) is a mistake that a checked region reports, and does
 * nothing. */
LOAM_API loam_region_mark loam_region_mark_here(loam_region *region) LOAM_NOEXCEPT;
/* Drops what was allocated since the mark: runs newer cleanups, newest first, gives back newer
 * chunks and large objects. An older object that was moved since by realloc is new, and so is one
 * of 0 bytes that grew. The mark is used up, and so are newer ones. Takes time by the chunks, large
 * objects and cleanups that go; in a checked region by all objects. */
LOAM_API void loam_region_rewind(loam_region *region, const loam_region_mark *mark) LOAM_NOEXCEPT;
/* Forgets the newest mark and keeps all that came since. */
LOAM_API void loam_region_keep(loam_region *region, const loam_region_mark *mark) LOAM_NOEXCEPT;

/* Drops everything, ends all marks and runs all cleanups, but keeps as many chunks as the last
 * rounds needed (a decaying average: three quarters of the one before, or this round's if more), or
 * keep_bytes if more. */
LOAM_API void loam_region_reset(loam_region *region) LOAM_NOEXCEPT;

/* Gives back chunks that hold no object. Returns their bytes. Takes time by the number of chunks
 * and freed objects. */
LOAM_API size_t loam_region_trim(loam_region *region) LOAM_NOEXCEPT;

/* ---- Cleanups ---- */

/* run(argument) is called by reset, deinit and destroy, and by rewind to an older mark; the newest
 * first. It may use the region's objects, but not allocate. NULL iff there is no memory. */
LOAM_API LOAM_NODISCARD loam_region_cleanup *loam_region_add_cleanup(loam_region *region,
                                                                     void (*run)(void *argument),
                                                                     void *argument) LOAM_NOEXCEPT;
/* Takes one back that has not run; `run` now iff run_it. Constant time. */
LOAM_API void loam_region_remove_cleanup(loam_region *region, loam_region_cleanup *cleanup,
                                         bool run_it) LOAM_NOEXCEPT;

/* ---- Asking ---- */

/* Whether p points into an object of this region, or to where one was freed. Takes time by the
 * number of chunks and large objects. */
LOAM_API bool loam_region_contains(const loam_region *region, const void *p) LOAM_NOEXCEPT;
/* The older name. */
LOAM_INLINE bool loam_region_is_from(const loam_region *region, const void *p) LOAM_NOEXCEPT {
    return loam_region_contains(region, p);
}

/* A snapshot; used_bytes counts as used what was freed before a mark, or in a checked region. Takes
 * time by the number of chunks and large objects, of a checked region by that of all objects. */
LOAM_API void loam_region_usage(const loam_region *region, loam_usage *usage) LOAM_NOEXCEPT;

/* Walks all invariants, and a checked region's guards; false after a report. Takes time by chunks,
 * large objects and freed arrays; in a checked region by all objects. */
LOAM_API bool loam_region_check(const loam_region *region) LOAM_NOEXCEPT;

/* ---- Hosted builds ---- */

/* One of the calling thread's two scratch regions, marked: the one that is not `conflict` (NULL:
 * either), which the caller was handed for its results. Ended in reverse order. Freed when the
 * thread ends; what is left of it at that time must not be used by destructors that run later.
 * region is NULL iff there is no memory. */
typedef struct loam_scratch {
    loam_region *region;
    loam_region_mark mark;
} loam_scratch;

LOAM_API loam_scratch loam_scratch_begin(const loam_region *conflict) LOAM_NOEXCEPT;
LOAM_API void loam_scratch_end(const loam_scratch *scratch) LOAM_NOEXCEPT;

/* Closes the file descriptor with the region. NULL iff there is no memory; it stays open then. */
LOAM_API LOAM_NODISCARD loam_region_cleanup *loam_region_close_fd(loam_region *region,
                                                                  int fd) LOAM_NOEXCEPT;

/* As sprintf, into as many bytes as it takes. NULL iff there is no memory or the format is bad. */
LOAM_API LOAM_NODISCARD char *loam_region_sprintf_at(loam_region *region, const char *file,
                                                     unsigned line, const char *format,
                                                     ...) LOAM_NOEXCEPT
    __attribute__((__format__(__printf__, 4, 5)));
#define loam_region_sprintf(region, ...) loam_region_sprintf_at(region, LOAM_HERE, __VA_ARGS__)

/* Appends to a string: text is one of this region's strdup, strndup, sprintf or appendf, as long as
 * that made it, and ends where the return value is another; NULL begins one. *length, unless length
 * is NULL, is its length without the zero, and the new one's afterwards; without it, the text's end
 * is searched. No argument may point into text. In place where text is the region's last object or
 * has room, with twice the room where it moves: appending byte by byte takes constant time each on
 * average. NULL iff there is no memory or the format is bad; text and *length are as they were
 * then. */
LOAM_API LOAM_NODISCARD char *
loam_region_appendf_at(loam_region *region, char *text, size_t *length, const char *file,
                       unsigned line, const char *format, ...) LOAM_NOEXCEPT
    __attribute__((__format__(__printf__, 6, 7)));
#define loam_region_appendf(region, text, length, ...) \
    loam_region_appendf_at(region, text, length, LOAM_HERE, __VA_ARGS__)

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_region.h"
#endif

#include "loam/names_end.h"

#endif

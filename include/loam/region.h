/* loam/region.h: many objects of any size, placed one behind the other and freed all at once.
 *
 * Choose it for objects that live and die together: a request, a frame, a parse, a pass of a
 * compiler. An allocation is an addition and a compare; one call frees thousands of objects. Choose
 * pool.h for objects of one size that come and go one by one, and malloc for objects of unrelated
 * lifetimes. A region cannot give single objects from its middle back to the source; it only reuses
 * their memory. One thread at a time uses it.
 *
 *   region ── chunk ──> older chunk ──> ...      the source's memory, by doubling (or fixed) sizes
 *              │
 *     [ header │ object │ object │ object │ free ...... ]
 *              ^ floor                    ^ at          ^ end
 *
 * A region works like a stack where it can. Freeing the last object moves `at` back, and growing it
 * moves `at` on. A chunk that becomes empty goes back, and the chunk before it continues where it
 * was left. Other freed objects are kept in lists by size and serve later requests before another
 * chunk is taken. From time to time neighbours are joined, and chunks that are free as a whole go
 * back. A region whose objects come and go therefore holds at most about twice what is live, and a
 * chunk, whatever their order and sizes (docs/decisions/0047). It cannot reuse the gap that
 * alignment leaves before an object, nor, until it is rewound, memory older than a mark. Objects of
 * more than large_bytes have chunks of their own, which go back to the source as soon as they are
 * freed.
 *
 * Alignment: an object is aligned to the requested alignment, and its size is rounded up to it: 16
 * for plain alloc. free, realloc and extend need the same size and alignment (the plain ones: 16),
 * as C++'s sized delete does. A plain free of an object of another alignment is a mistake that only
 * a checked region reports.
 *
 * Threads: one at a time, for a region and its children. Different regions are independent, also
 * over one source that has LOAM_SOURCE_THREADS.
 *
 * Invariants: floor <= at <= end, and end is a multiple of 16. All three are NULL where inline
 * paths must not be taken (no chunk yet, LOAM_CHECK, AddressSanitizer): then nothing fits and no
 * object is the last. loam_region_check verifies them.
 *
 * Sources: Hanson, "Fast allocation and deallocation of memory based on object lifetimes" (1990),
 * and the rules of Tempesta's TfwPool, nginx's pools and Boost's. */
#ifndef LOAM_REGION_H
#define LOAM_REGION_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

/** How chunks grow. */
typedef enum loam_growth {
    LOAM_GROWTH_DOUBLE, /**< each chunk is twice the one before, up to most_bytes */
    /** Each chunk has first_bytes, or a power of two times as many for an object that needs it. */
    LOAM_GROWTH_FIXED,
} loam_growth;

/** Options of a region. A member that is 0 selects its default. */
typedef struct loam_region_options {
    /** Size of the first chunk in bytes, with its header of 64 bytes; at least 256. Default:
     * 4096. */
    size_t first_bytes;
    /** Maximum size of a chunk in bytes, unless one object needs more. Default: 32 MiB. */
    size_t most_bytes;
    /** Objects of more bytes have a chunk of their own; at least 1024. Default: 64 KiB. Over a
     * contiguous source no object has one. */
    size_t large_bytes;
    /** Bytes that reset keeps at least, if the region has them. Default: 0. */
    size_t keep_bytes;
    /** Alignment of chunks in bytes; a power of two. Default: 16. */
    size_t chunk_align;
    loam_growth growth; /**< default: LOAM_GROWTH_DOUBLE */
    /** LOAM_CHECK; LOAM_FIXED: one chunk of first_bytes, and no more. */
    unsigned flags;
    /** Name for the registry and reports, or NULL. It is not copied. */
    const char *name;
} loam_region_options;

/** Options for TfwPool's own mode: pages of 4096 bytes at multiples of 4096, no doubling, the next
 * power of two of pages for an object that needs more. */
#define LOAM_REGION_TFW \
    { 4096, 4096, SIZE_MAX, 0, 4096, LOAM_GROWTH_FIXED, 0, NULL }

/** A region. */
typedef struct loam_region loam_region;
/** A function that runs when its region ends. */
typedef struct loam_region_cleanup loam_region_cleanup;

/** The free part of a region's current chunk. Members are private. */
typedef struct loam_region_room {
    char *at; /**< first free byte of the current chunk */
    /** End of the current chunk, or of its part that is ready to be touched; a multiple of 16. */
    char *end;
    /** Objects above this address are freed inline. It is the current chunk's first byte, so that
     * the slow path sees a chunk become empty; one byte less in the first chunk, and behind a
     * mark. */
    char *floor;
} loam_region_room;

/** A region. It must not move. Members are private. The fast paths use the first 64 bytes. */
struct loam_region {
    loam_region_room room; /**< all NULL where inline paths must not be taken */
    /** The current chunk. The others follow it, newest first. */
    struct loam_region_chunk *chunk;
    size_t large_bytes; /**< objects of more bytes have a chunk of their own */
    /** Lists of freed extents, and capacities of grown arrays; NULL until it is needed. */
    struct loam_region_freed *freed;
    struct loam_region_large *large;  /**< large objects, newest first */
    loam_source *source;              /**< where chunks come from */
    loam_region_cleanup *cleanups;    /**< cleanups, newest first */
    struct loam_region_chunk *spares; /**< empty chunks that the region keeps */
    /** What room holds where inline paths must not be taken. */
    loam_region_room hidden;
    /** First byte behind the region itself in its first chunk; NULL iff it lives elsewhere. */
    char *own;
    size_t first_bytes, most_bytes, keep_bytes, chunk_align; /**< the options, with defaults */
    /** Number of the newest large object or cleanup, so that marks know which are newer. */
    size_t serial;
    /** Bytes held now and at the peak; bytes in spares; peak of this round; decaying average of
     * rounds. */
    size_t held_bytes, peak_bytes, spare_bytes, round_bytes, average_bytes;
    size_t marks;          /**< number of marks that have not ended */
    struct loam_tag *dead; /**< freed objects of a checked region */
    /** Number of successful calls of the source's get; number of times that a chunk became
     * current. */
    size_t requests, turns;
    loam_region *parent;            /**< NULL: none */
    loam_region_cleanup *in_parent; /**< the parent's cleanup that ends this region */
    /** The option growth; a mode that says why inline paths miss; bytes of redzone; LOAM_FIXED. */
    unsigned char growth, mode, redzone, fixed;
    /** The region's entry in the registry. */
    loam_entry entry;
};

/** A position in a region's life, to rewind to. Marks nest like brackets. Members are private. */
typedef struct loam_region_mark {
    char *at, *floor;                /**< the room's positions */
    struct loam_region_chunk *chunk; /**< the current chunk */
    struct loam_region_freed *freed; /**< what the mark set aside */
    struct loam_tag *dead;           /**< the newest freed object of a checked region */
    size_t serial, marks;            /**< numbers of the newest object and of the mark */
} loam_region_mark;

/* ---- Set-up and end ---- */

/** Does what loam_region_init does, with more_flags besides options->flags. */
LOAM_API LOAM_NODISCARD int loam_region_init_as(loam_region *region, loam_source *source,
                                                const loam_region_options *options,
                                                unsigned more_flags) LOAM_NOEXCEPT;
/** Sets a region up in the caller's storage. It does not allocate: the first object takes the first
 * chunk. source: NULL selects loam_pages(); a freestanding build has no default and returns
 * -EINVAL. options: NULL selects all defaults. Returns 0, or -EINVAL iff first_bytes is less than
 * 256, large_bytes is less than 1024, or chunk_align is no power of two. *region must not move, and
 * source must outlive it. */
LOAM_INLINE int loam_region_init(loam_region *region, loam_source *source,
                                 const loam_region_options *options) {
    return loam_region_init_as(region, source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/** Ends the region: runs its cleanups, newest first, and gives all memory back. It lists no leaks:
 * objects end with their region. *region may be set up again. O(chunks + large objects + cleanups);
 * with LOAM_CHECK O(objects). */
LOAM_API void loam_region_deinit(loam_region *region) LOAM_NOEXCEPT;

/** Does what loam_region_create does, with more_flags besides options->flags. */
LOAM_API LOAM_NODISCARD loam_region *loam_region_create_as(loam_source *source,
                                                           const loam_region_options *options,
                                                           unsigned more_flags) LOAM_NOEXCEPT;
/** Creates a region that lives in its own first chunk. Returns NULL iff there is no memory or
 * options are bad as for loam_region_init. loam_region_destroy ends it. */
LOAM_INLINE loam_region *loam_region_create(loam_source *source,
                                            const loam_region_options *options) {
    return loam_region_create_as(source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/** Ends a region of create, create_child or create_object, as loam_region_deinit does. NULL is
 * allowed. */
LOAM_API void loam_region_destroy(loam_region *region) LOAM_NOEXCEPT;

/** Does what loam_region_create_object does, with more_flags besides options->flags. */
LOAM_API LOAM_NODISCARD void *loam_region_create_object_as(loam_source *source,
                                                           const loam_region_options *options,
                                                           size_t bytes, loam_region **region,
                                                           unsigned more_flags) LOAM_NOEXCEPT;
/** Creates an object that lives inside its own region. It has `bytes` bytes, is aligned to 16 and
 * zero. *region receives the region, for other objects that belong to it; destroying the region
 * ends both. Returns NULL iff there is no memory or options are bad. */
LOAM_INLINE void *loam_region_create_object(loam_source *source, const loam_region_options *options,
                                            size_t bytes, loam_region **region) {
    return loam_region_create_object_as(source, options, bytes, region,
                                        LOAM_CHECKED ? LOAM_CHECK : 0);
}

/** Creates a region over the parent's source. It ends with the parent, or when the parent is reset
 * or rewound to a mark from before this call, unless it was destroyed earlier. Returns NULL as
 * loam_region_create does. A child of a checked region is checked. */
LOAM_API LOAM_NODISCARD loam_region *
loam_region_create_child(loam_region *parent, const loam_region_options *options) LOAM_NOEXCEPT;

/** Moves a region of create, create_child or create_object, with its objects and children, to
 * another parent, or to none (NULL: the caller destroys it). From then on it ends with that parent,
 * or when that parent is reset or rewound to a mark from before this call. Its memory stays in
 * place; it remains its source's, which must outlive the region. Returns 0. Returns -EINVAL iff
 * parent is the child itself or below it, or the child lives in the caller's storage. Returns
 * -ENOMEM iff parent has no memory. After an error nothing has changed. O(number of parents above
 * `parent`). */
LOAM_API LOAM_NODISCARD int loam_region_set_parent(loam_region *child,
                                                   loam_region *parent) LOAM_NOEXCEPT;

/* ---- Called by the inline functions where they cannot serve ---- */

/** What loam_region_alloc_slow returns: the object, and the new value of room.at. The inline
 * functions store `at` once more, so that all paths meet in one store. In a loop compilers then
 * keep `at` in a register, and no allocation waits for the store of the one before it. Private. */
typedef struct loam_region_made {
    void *object; /**< the object, or NULL */
    char *at;     /**< the new value of room.at */
} loam_region_made;

/** Allocates where the inline path cannot. Private. */
LOAM_API LOAM_COLD loam_region_made loam_region_alloc_slow(loam_region *region, size_t bytes,
                                                           size_t align, const char *file,
                                                           unsigned line) LOAM_NOEXCEPT;
/** Frees where the inline path cannot. Returns the new value of room.at. Private. */
LOAM_API LOAM_COLD char *loam_region_free_slow(loam_region *region, void *p, size_t bytes,
                                               size_t align, const char *file,
                                               unsigned line) LOAM_NOEXCEPT;
/** Resizes where the inline path cannot. Private. */
LOAM_API void *loam_region_realloc_slow(loam_region *region, void *p, size_t old_bytes,
                                        size_t bytes, size_t align, const char *file,
                                        unsigned line) LOAM_NOEXCEPT;
/** Resizes in place where the inline path cannot. Private. */
LOAM_API bool loam_region_extend_slow(loam_region *region, void *p, size_t old_bytes, size_t bytes,
                                      size_t align, const char *file, unsigned line) LOAM_NOEXCEPT;

/* ---- Objects ---- */

/** Alignment of plain allocations in bytes. */
#define LOAM_REGION_ALIGN 16
/** Lower bound of large_bytes: constant sizes up to it need no compare. */
#define LOAM_REGION_SMALL 1024
/** Constant sizes below this are added to `at`. Private. */
#define LOAM_REGION_SUM LOAM_SOURCE_TOP

/** Returns x rounded up to align, a power of two. Private. */
LOAM_INLINE uintptr_t loam_region_round(uintptr_t x, size_t align) {
    return (x + align - 1) & ~(uintptr_t)(align - 1);
}

/** Returns whether an object of so many bytes shares a chunk with others. Private. */
LOAM_INLINE bool loam_region_is_small(const loam_region *region, size_t bytes) {
    return (__builtin_constant_p(bytes) && bytes <= LOAM_REGION_SMALL) ||
           bytes <= region->large_bytes;
}

/** Allocates `bytes` bytes at a multiple of align, a power of two. A constant align of up to 16
 * folds into the inline path. For 0 bytes it returns an address that may be the next object's as
 * well. Returns NULL iff there is no memory, or bytes is more than PTRDIFF_MAX less 1 KiB and
 * align, or align is no power of two. Eight instructions for a constant size up to 1 KiB, 13 for
 * any size; a new chunk costs more. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_region_alloc_aligned_at(loam_region *region,
                                                                        size_t bytes, size_t align,
                                                                        const char *file,
                                                                        unsigned line) {
    if (__builtin_constant_p(align) && align <= LOAM_REGION_ALIGN && (align & (align - 1)) == 0 &&
        align != 0) {
        /* end is a multiple of align, so that aligning cannot pass it. A size below what is left is
         * no more than what is left after rounding either. A constant size is added before
         * rounding, not after: the next allocation then waits for two instructions only. */
        uintptr_t p, next = (uintptr_t)region->room.at;
        /* Otherwise it has a chunk of its own. */
        bool fits = loam_region_is_small(region, bytes);
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
            /* A NULL has returned already: code behind this need not compare again. */
            __builtin_unreachable();
        }
        region->room.at = (char *)next;
        return (void *)p;
    }
    return loam_region_alloc_slow(region, bytes, align, file, line).object;
}
/** Calls loam_region_alloc_aligned_at with the caller's file and line. */
#define loam_region_alloc_aligned(region, bytes, align) \
    loam_region_alloc_aligned_at(region, bytes, align, LOAM_HERE)

/** Allocates as loam_region_alloc_aligned_at does, at a multiple of 16. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_region_alloc_at(loam_region *region, size_t bytes,
                                                                const char *file, unsigned line) {
    return loam_region_alloc_aligned_at(region, bytes, LOAM_REGION_ALIGN, file, line);
}
/** Calls loam_region_alloc_at with the caller's file and line. */
#define loam_region_alloc(region, bytes) loam_region_alloc_at(region, bytes, LOAM_HERE)

/** Allocates without alignment, for characters. Free it with alignment 1. */
#define loam_region_alloc_packed(region, bytes) \
    loam_region_alloc_aligned_at(region, bytes, 1, LOAM_HERE)

/** Allocates count objects of `bytes` bytes each, zero, at a multiple of 16. Returns NULL as
 * loam_region_alloc does, NULL as well iff the product overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_region_calloc_at(loam_region *region,
                                                                     size_t count, size_t bytes,
                                                                     const char *file,
                                                                     unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *p = loam_region_alloc_at(region, all, file, line);
    return p != NULL ? __builtin_memset(p, 0, all) : NULL;
}
/** Calls loam_region_calloc_at with the caller's file and line. */
#define loam_region_calloc(region, count, bytes) \
    loam_region_calloc_at(region, count, bytes, LOAM_HERE)

/** Allocates an array of count elements, not zeroed, as loam_region_alloc_aligned does. NULL as
 * well iff count * bytes overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_region_array_at(loam_region *region,
                                                                    size_t count, size_t bytes,
                                                                    size_t align, const char *file,
                                                                    unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    return loam_region_alloc_aligned_at(region, all, align, file, line);
}

/** Allocates a T at its alignment, not initialised. NULL as for loam_region_alloc_aligned. */
#define LOAM_REGION_NEW(region, T) \
    ((T *)loam_region_alloc_aligned_at(region, sizeof(T), __alignof__(T), LOAM_HERE))
/** Allocates count T's at their alignment, not initialised. NULL as for loam_region_array_at. */
#define LOAM_REGION_ARRAY(region, T, count) \
    ((T *)loam_region_array_at(region, count, sizeof(T), __alignof__(T), LOAM_HERE))

/** Frees an object of that size and alignment. NULL is allowed. Freeing the last object makes its
 * memory free at once. An object with a chunk of its own goes back to the source. Other memory
 * serves later requests of any size, once the current chunk is used up or most of the region is
 * free. Less than a pointer's size is lost until reset. Six to eight instructions for the last
 * object. */
LOAM_INLINE void loam_region_free_aligned_at(loam_region *region, void *p, size_t bytes,
                                             size_t align, const char *file, unsigned line) {
    char *at = (char *)p;
    if (LOAM_UNLIKELY((uintptr_t)p + loam_region_round(bytes, align) !=
                          (uintptr_t)region->room.at ||
                      (char *)p <= region->room.floor))
        at = loam_region_free_slow(region, p, bytes, align, file, line);
    region->room.at = at;
}
/** Calls loam_region_free_aligned_at with the caller's file and line. */
#define loam_region_free_aligned(region, p, bytes, align) \
    loam_region_free_aligned_at(region, p, bytes, align, LOAM_HERE)

/** Frees an object of loam_region_alloc (alignment 16) of that size. */
LOAM_INLINE void loam_region_free_at(loam_region *region, void *p, size_t bytes, const char *file,
                                     unsigned line) {
    loam_region_free_aligned_at(region, p, bytes, LOAM_REGION_ALIGN, file, line);
}
/** Calls loam_region_free_at with the caller's file and line. */
#define loam_region_free(region, p, bytes) loam_region_free_at(region, p, bytes, LOAM_HERE)

/** Frees *p, an object of LOAM_REGION_NEW. */
#define LOAM_REGION_DROP(region, p) \
    loam_region_free_aligned_at(region, p, sizeof(*(p)), __alignof__(*(p)), LOAM_HERE)
/** Frees the count elements that p points to, an array of LOAM_REGION_ARRAY. */
#define LOAM_REGION_DROP_ARRAY(region, p, count) \
    loam_region_free_aligned_at(region, p, (count) * sizeof(*(p)), __alignof__(*(p)), LOAM_HERE)

/** Frees count objects of `bytes` bytes each that are one array of alloc or calloc. */
#define loam_region_free_n(region, p, count, bytes) \
    loam_region_free_at(region, p, (count) * (bytes), LOAM_HERE)

/** Resizes an object and returns its address. In place iff it is the last one and fits, or gets
 * smaller, or has capacity from an earlier move: an array that grows gets twice the capacity when
 * it moves. Otherwise it moves, and its old memory is freed. If p is NULL it allocates. 0 bytes
 * leave an object without bytes, as alloc makes them. Returns NULL as loam_region_alloc_aligned
 * does; the object is unchanged then. */
LOAM_INLINE LOAM_NODISCARD void *loam_region_realloc_aligned_at(loam_region *region, void *p,
                                                                size_t old_bytes, size_t bytes,
                                                                size_t align, const char *file,
                                                                unsigned line) {
    if (LOAM_LIKELY(
            (uintptr_t)p + loam_region_round(old_bytes, align) == (uintptr_t)region->room.at &&
            (char *)p > region->room.floor && bytes < (uintptr_t)region->room.end - (uintptr_t)p &&
            bytes <= region->large_bytes &&
            /* end may be no multiple of an alignment above 16. */
            ((__builtin_constant_p(align) && align <= LOAM_REGION_ALIGN) ||
             loam_region_round(bytes, align) <= (uintptr_t)region->room.end - (uintptr_t)p))) {
        region->room.at = (char *)((uintptr_t)p + loam_region_round(bytes, align));
        return p;
    }
    return loam_region_realloc_slow(region, p, old_bytes, bytes, align, file, line);
}
/** Calls loam_region_realloc_aligned_at with the caller's file and line. */
#define loam_region_realloc_aligned(region, p, old_bytes, bytes, align) \
    loam_region_realloc_aligned_at(region, p, old_bytes, bytes, align, LOAM_HERE)

/** Resizes an object of loam_region_alloc, as loam_region_realloc_aligned_at does with alignment
 * 16. */
LOAM_INLINE LOAM_NODISCARD void *loam_region_realloc_at(loam_region *region, void *p,
                                                        size_t old_bytes, size_t bytes,
                                                        const char *file, unsigned line) {
    return loam_region_realloc_aligned_at(region, p, old_bytes, bytes, LOAM_REGION_ALIGN, file,
                                          line);
}
/** Calls loam_region_realloc_at with the caller's file and line. */
#define loam_region_realloc(region, p, old_bytes, bytes) \
    loam_region_realloc_at(region, p, old_bytes, bytes, LOAM_HERE)

/** Resizes an object of loam_region_alloc in place and returns true, or does nothing and returns
 * false: realloc without a copy. */
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
/** Calls loam_region_extend_at with the caller's file and line. */
#define loam_region_extend(region, p, old_bytes, bytes) \
    loam_region_extend_at(region, p, old_bytes, bytes, LOAM_HERE)

/** Allocates as loam_region_alloc does. *new_chunk receives whether another chunk became the
 * current one, or the current one grew. */
LOAM_INLINE LOAM_MALLOC void *loam_region_alloc_told_at(loam_region *region, size_t bytes,
                                                        bool *new_chunk, const char *file,
                                                        unsigned line) {
    size_t turns = region->turns;
    void *p = loam_region_alloc_at(region, bytes, file, line);
    *new_chunk = region->turns != turns;
    return p;
}
/** Calls loam_region_alloc_told_at with the caller's file and line. */
#define loam_region_alloc_told(region, bytes, new_chunk) \
    loam_region_alloc_told_at(region, bytes, new_chunk, LOAM_HERE)

/** Returns a copy of `bytes` bytes, aligned to 16. NULL iff there is no memory. */
LOAM_API LOAM_NODISCARD void *loam_region_memdup_at(loam_region *region, const void *from,
                                                    size_t bytes, const char *file,
                                                    unsigned line) LOAM_NOEXCEPT;
/** Returns a copy of a string with its zero, not aligned. NULL iff there is no memory. */
LOAM_API LOAM_NODISCARD char *loam_region_strdup_at(loam_region *region, const char *from,
                                                    const char *file, unsigned line) LOAM_NOEXCEPT;
/** Returns a copy of at most `most` characters of a string, with a zero behind them, not aligned.
 * NULL iff there is no memory. */
LOAM_API LOAM_NODISCARD char *loam_region_strndup_at(loam_region *region, const char *from,
                                                     size_t most, const char *file,
                                                     unsigned line) LOAM_NOEXCEPT;
/** Calls loam_region_memdup_at with the caller's file and line. */
#define loam_region_memdup(region, from, bytes) \
    loam_region_memdup_at(region, from, bytes, LOAM_HERE)
/** Calls loam_region_strdup_at with the caller's file and line. */
#define loam_region_strdup(region, from) loam_region_strdup_at(region, from, LOAM_HERE)
/** Calls loam_region_strndup_at with the caller's file and line. */
#define loam_region_strndup(region, from, most) \
    loam_region_strndup_at(region, from, most, LOAM_HERE)

/* ---- Marks and reset ---- */

/** Returns a mark of the region's current position. While the mark lasts, a free of an older object
 * does not make its memory free. loam_region_rewind and loam_region_keep end marks, as brackets
 * close. Use of a mark that has ended, by reset too, is a mistake that a checked region reports,
 * and does nothing. O(1); nothing is allocated. */
LOAM_API loam_region_mark loam_region_mark_here(loam_region *region) LOAM_NOEXCEPT;
/** Frees what was allocated since the mark. Runs newer cleanups, newest first; gives back newer
 * chunks and large objects. An older object that realloc moved since counts as new, and so does one
 * of 0 bytes that grew. The mark ends, and newer marks do. O(chunks, large objects and cleanups
 * that go); in a checked region O(objects). */
LOAM_API void loam_region_rewind(loam_region *region, const loam_region_mark *mark) LOAM_NOEXCEPT;
/** Ends the newest mark and keeps all objects allocated since. O(freed extents). */
LOAM_API void loam_region_keep(loam_region *region, const loam_region_mark *mark) LOAM_NOEXCEPT;

/** Frees everything, ends all marks and runs all cleanups. It keeps as many chunks as the last
 * rounds needed, or keep_bytes if that is more. The need is a decaying average: three quarters of
 * the value before and a quarter of this round's, or this round's if it is more. */
LOAM_API void loam_region_reset(loam_region *region) LOAM_NOEXCEPT;

/** Gives back chunks that hold no object. Returns the number of bytes given back. O(chunks + freed
 * extents). */
LOAM_API size_t loam_region_trim(loam_region *region) LOAM_NOEXCEPT;

/* ---- Cleanups ---- */

/** Adds a function: run(argument) is called by reset, deinit and destroy, and by rewind to an older
 * mark; the newest first. run may use the region's objects, but not allocate. Returns the cleanup.
 * NULL iff there is no memory. */
LOAM_API LOAM_NODISCARD loam_region_cleanup *loam_region_add_cleanup(loam_region *region,
                                                                     void (*run)(void *argument),
                                                                     void *argument) LOAM_NOEXCEPT;
/** Removes a cleanup that has not run; calls `run` now iff run_it. O(1); in a checked region
 * O(cleanups). */
LOAM_API void loam_region_remove_cleanup(loam_region *region, loam_region_cleanup *cleanup,
                                         bool run_it) LOAM_NOEXCEPT;

/* ---- Queries ---- */

/** Returns whether p points into an object of this region, or to where one was freed. O(chunks +
 * large objects). */
LOAM_API bool loam_region_contains(const loam_region *region, const void *p) LOAM_NOEXCEPT;
/** The older name of loam_region_contains. */
LOAM_INLINE bool loam_region_is_from(const loam_region *region, const void *p) LOAM_NOEXCEPT {
    return loam_region_contains(region, p);
}

/** Fills *usage. used_bytes includes what was freed before a mark, or in a checked region. O(chunks
 * + large objects); in a checked region O(objects). */
LOAM_API void loam_region_usage(const loam_region *region, loam_usage *usage) LOAM_NOEXCEPT;

/** Verifies all invariants, and a checked region's guards. Returns false after a report. O(chunks +
 * large objects + freed extents); in a checked region O(objects). */
LOAM_API bool loam_region_check(const loam_region *region) LOAM_NOEXCEPT;

/* ---- Hosted builds ---- */

/** A scratch region of the calling thread, marked. region is NULL iff there is no memory. */
typedef struct loam_scratch {
    loam_region *region;   /**< the scratch region, or NULL */
    loam_region_mark mark; /**< where loam_scratch_end rewinds it to */
} loam_scratch;

/** Returns one of the calling thread's two scratch regions, marked: the one that is not `conflict`,
 * or either if conflict is NULL. conflict is the region that the caller was passed for its results.
 * Scratches end in reverse order. The regions are freed when the thread ends; destructors that run
 * later must not use what is left in them. */
LOAM_API loam_scratch loam_scratch_begin(const loam_region *conflict) LOAM_NOEXCEPT;
/** Rewinds a scratch region to its mark. Does nothing if there was no memory for it. */
LOAM_API void loam_scratch_end(const loam_scratch *scratch) LOAM_NOEXCEPT;

/** Closes the file descriptor fd when the region ends. Returns the cleanup. NULL iff there is no
 * memory; it stays open then. */
LOAM_API LOAM_NODISCARD loam_region_cleanup *loam_region_close_fd(loam_region *region,
                                                                  int fd) LOAM_NOEXCEPT;

/** Formats as sprintf does, into as many bytes as the text takes, and returns the text. NULL iff
 * there is no memory or the format is bad. */
LOAM_API LOAM_NODISCARD char *loam_region_sprintf_at(loam_region *region, const char *file,
                                                     unsigned line, const char *format,
                                                     ...) LOAM_NOEXCEPT
    __attribute__((__format__(__printf__, 4, 5)));
/** Calls loam_region_sprintf_at with the caller's file and line. */
#define loam_region_sprintf(region, ...) loam_region_sprintf_at(region, LOAM_HERE, __VA_ARGS__)

/** Appends formatted text to a string and returns the string. text is what this region's strdup,
 * strndup, sprintf or appendf returned, unchanged in length. It ends if the return value is another
 * address. NULL begins a string. *length, unless length is NULL, is the length of text without its
 * zero, and receives the new one; without it the end of text is searched. No argument may point
 * into text.
 *
 * In place if text is the region's last object or has capacity; otherwise it moves, with twice the
 * capacity, so that appending byte by byte takes constant time each on average. NULL iff there is
 * no memory or the format is bad; text and *length are unchanged then. */
LOAM_API LOAM_NODISCARD char *
loam_region_appendf_at(loam_region *region, char *text, size_t *length, const char *file,
                       unsigned line, const char *format, ...) LOAM_NOEXCEPT
    __attribute__((__format__(__printf__, 6, 7)));
/** Calls loam_region_appendf_at with the caller's file and line. */
#define loam_region_appendf(region, text, length, ...) \
    loam_region_appendf_at(region, text, length, LOAM_HERE, __VA_ARGS__)

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_region.h"
#endif

#include "loam/names_end.h"

#endif

/* loam/ring.h: objects that live as long as the frame they were allocated in, where frames end in
 * any order.
 *
 * Choose it for objects that pass through: messages, requests, rows, which come in one order and
 * end in about the same order. An allocation is an addition and a compare, as on a stack (stack.h).
 * A frame ends as soon as its owner releases it; its memory is used again when all older frames
 * have ended as well. Choose stack.h where frames end in reverse order, and region.h where no
 * object may wait for another. One old frame that stays keeps the memory of all newer frames. One
 * thread at a time uses a ring.
 *
 *        oldest frame         newest frame
 *   block [....F.....] ──> block [..F...F....] at ──> free block ──┐   released frames between
 *     ^────────────────────────────────────────────────────────────┘   the two wait
 *
 * Blocks form a ring: in use from the oldest frame's block to the current one, free from there on.
 * The next block is taken if it is free and large enough. Free blocks that are too small, or more
 * than four times as large as needed, go back to the source. Over a contiguous source, which could
 * not use them again, they stay.
 *
 * Objects belong to the newest frame.
 *
 * Invariants: at <= end, and end is a multiple of 16. Both are NULL where inline paths must not be
 * taken: while no frame is open, with LOAM_CHECK, under AddressSanitizer. loam_ring_check verifies
 * them.
 *
 * Source: Intersec's articles on their memory pools: the ring pool. */
#ifndef LOAM_RING_H
#define LOAM_RING_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

/** Options of a ring. A member that is 0 selects its default. */
typedef struct loam_ring_options {
    /** Minimum size of a block in bytes, with its header; at least 256. Default: 64 KiB. */
    size_t block_bytes;
    unsigned flags; /**< LOAM_CHECK */
    /** Name for the registry and reports, or NULL. It is not copied. */
    const char *name;
} loam_ring_options;

/** A frame, from open to release. It lives in the ring's memory. */
typedef struct loam_ring_frame loam_ring_frame;

/** A ring. It must not move. Members are private. The fast paths use the first 64 bytes. */
typedef struct loam_ring {
    /** First free byte of the current block, and its end. Both NULL where inline paths must not be
     * taken. */
    char *at, *end;
    /** What at and end hold where inline paths must not be taken. */
    char *hidden_at, *hidden_end;
    struct loam_ring_block *block;    /**< the current block, in the ring of blocks */
    loam_ring_frame *newest, *oldest; /**< the newest and oldest frame that hold memory */
    loam_source *source;              /**< where blocks come from */
    size_t block_bytes;               /**< the option, with its default */
    /** Bytes held now and at the peak; number of chunks obtained so far. */
    size_t held_bytes, peak_bytes, requests;
    struct loam_tag *dead; /**< freed objects of a checked ring */
    /** Why inline paths miss; bytes of redzone; at and end are in use. */
    unsigned char mode, redzone, open;
    /** The ring's entry in the registry. */
    loam_entry entry;
} loam_ring;

/** Does what loam_ring_init does, with more_flags besides options->flags. */
LOAM_API LOAM_NODISCARD int loam_ring_init_as(loam_ring *ring, loam_source *source,
                                              const loam_ring_options *options,
                                              unsigned more_flags) LOAM_NOEXCEPT;
/** Sets a ring up in the caller's storage. The first frame takes the first memory. source: NULL
 * selects loam_pages(); a freestanding build has no default and returns -EINVAL. options: NULL
 * selects all defaults. Returns 0, or -EINVAL iff block_bytes is less than 256 or more than
 * PTRDIFF_MAX. *ring must not move, and source must outlive it. */
LOAM_INLINE int loam_ring_init(loam_ring *ring, loam_source *source,
                               const loam_ring_options *options) {
    return loam_ring_init_as(ring, source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/** Ends all frames and gives everything back. It lists no leaks: objects end with their frame. The
 * ring may be set up again. O(blocks); in a checked ring O(objects). */
LOAM_API void loam_ring_deinit(loam_ring *ring) LOAM_NOEXCEPT;

/** Opens a frame and returns it: objects allocated from now on belong to it, until the next frame
 * is opened or this one is released. NULL iff there is no memory; then the ring is unchanged. O(1);
 * a new block costs more. */
LOAM_API LOAM_NODISCARD loam_ring_frame *loam_ring_open_at(loam_ring *ring, const char *file,
                                                           unsigned line) LOAM_NOEXCEPT;
/** Calls loam_ring_open_at with the caller's file and line. */
#define loam_ring_open(ring) loam_ring_open_at(ring, LOAM_HERE)

/** Ends a frame, and all objects in it. NULL is allowed. To release one twice is a mistake that
 * every ring reports as long as it can tell. O(1 + frames whose memory becomes free); in a checked
 * ring O(objects). */
LOAM_API void loam_ring_release_at(loam_ring *ring, loam_ring_frame *frame, const char *file,
                                   unsigned line) LOAM_NOEXCEPT;
/** Calls loam_ring_release_at with the caller's file and line. */
#define loam_ring_release(ring, frame) loam_ring_release_at(ring, frame, LOAM_HERE)

/* ---- Objects ---- */

/** Alignment of plain allocations in bytes. */
#define LOAM_RING_ALIGN 16

/** What loam_ring_alloc_slow returns. Private. */
typedef struct loam_ring_made {
    void *object; /**< the object, or NULL */
    char *at;     /**< the new value of at */
} loam_ring_made;

/** Allocates where the inline path cannot. Private. */
LOAM_API LOAM_COLD loam_ring_made loam_ring_alloc_slow(loam_ring *ring, size_t bytes, size_t align,
                                                       const char *file,
                                                       unsigned line) LOAM_NOEXCEPT;

/** Allocates `bytes` bytes at a multiple of align, a power of two, in the newest frame. A constant
 * align of up to 16 folds into the inline path. For 0 bytes it returns an address that may be the
 * next object's as well. NULL iff there is no memory, or bytes is more than PTRDIFF_MAX less 16 KiB
 * and 2 * align, or align is no power of two, or no frame is open: a mistake, which every ring
 * reports. About nine instructions; a new block costs more. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_ring_alloc_aligned_at(loam_ring *ring, size_t bytes,
                                                                      size_t align,
                                                                      const char *file,
                                                                      unsigned line) {
    if (__builtin_constant_p(align) && align <= LOAM_RING_ALIGN && (align & (align - 1)) == 0 &&
        align != 0) {
        uintptr_t p = ((uintptr_t)ring->at + align - 1) & ~(uintptr_t)(align - 1);
        uintptr_t next = p + bytes;
        if (LOAM_UNLIKELY(bytes >= (uintptr_t)ring->end - p)) {
            loam_ring_made made = loam_ring_alloc_slow(ring, bytes, align, file, line);
            if (made.object == NULL) return NULL;
            p = (uintptr_t)made.object;
            next = (uintptr_t)made.at;
        } else if (p == 0) {
            /* A NULL has returned already: code behind this need not compare again. */
            __builtin_unreachable();
        }
        ring->at = (char *)next;
        return (void *)p;
    }
    return loam_ring_alloc_slow(ring, bytes, align, file, line).object;
}
/** Calls loam_ring_alloc_aligned_at with the caller's file and line. */
#define loam_ring_alloc_aligned(ring, bytes, align) \
    loam_ring_alloc_aligned_at(ring, bytes, align, LOAM_HERE)

/** Allocates as loam_ring_alloc_aligned_at does, at a multiple of 16. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_ring_alloc_at(loam_ring *ring, size_t bytes,
                                                              const char *file, unsigned line) {
    return loam_ring_alloc_aligned_at(ring, bytes, LOAM_RING_ALIGN, file, line);
}
/** Calls loam_ring_alloc_at with the caller's file and line. */
#define loam_ring_alloc(ring, bytes) loam_ring_alloc_at(ring, bytes, LOAM_HERE)

/** Allocates count objects of `bytes` bytes each, zero, at a multiple of 16. NULL as
 * loam_ring_alloc, NULL as well iff the product overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_ring_calloc_at(loam_ring *ring, size_t count,
                                                                   size_t bytes, const char *file,
                                                                   unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *p = loam_ring_alloc_at(ring, all, file, line);
    return p != NULL ? __builtin_memset(p, 0, all) : NULL;
}
/** Calls loam_ring_calloc_at with the caller's file and line. */
#define loam_ring_calloc(ring, count, bytes) loam_ring_calloc_at(ring, count, bytes, LOAM_HERE)

/** Allocates a T at its alignment, not initialised. NULL as loam_ring_alloc_aligned. */
#define LOAM_RING_NEW(ring, T) \
    ((T *)loam_ring_alloc_aligned_at(ring, sizeof(T), __alignof__(T), LOAM_HERE))

/** Resizes an object of the newest frame and returns its address: in place iff it is the last one
 * and fits, or gets smaller. In a checked ring an object that grows moves. Otherwise it moves to a
 * multiple of 16. If p is NULL it allocates. Returns NULL as loam_ring_alloc does; the object is
 * unchanged then. An object of another frame: a checked ring reports it, and returns NULL; another
 * ring moves it into the newest frame if it grows. */
LOAM_API LOAM_NODISCARD void *loam_ring_realloc_at(loam_ring *ring, void *p, size_t old_bytes,
                                                   size_t bytes, const char *file,
                                                   unsigned line) LOAM_NOEXCEPT;
/** Calls loam_ring_realloc_at with the caller's file and line. */
#define loam_ring_realloc(ring, p, old_bytes, bytes) \
    loam_ring_realloc_at(ring, p, old_bytes, bytes, LOAM_HERE)

/** Frees an object of that size. NULL is allowed. The memory of the newest frame's last object is
 * free at once; other memory is free when its frame ends. */
LOAM_API void loam_ring_free_at(loam_ring *ring, void *p, size_t bytes, const char *file,
                                unsigned line) LOAM_NOEXCEPT;
/** Calls loam_ring_free_at with the caller's file and line. */
#define loam_ring_free(ring, p, bytes) loam_ring_free_at(ring, p, bytes, LOAM_HERE)

/* ---- The ring as a whole ---- */

/** Gives back free blocks; all blocks if no frame holds memory. Returns the number of bytes given
 * back. */
LOAM_API size_t loam_ring_trim(loam_ring *ring) LOAM_NOEXCEPT;
/** Fills *usage. used_bytes includes released frames that wait for older ones. O(blocks); in a
 * checked ring O(objects). */
LOAM_API void loam_ring_usage(const loam_ring *ring, loam_usage *usage) LOAM_NOEXCEPT;
/** Verifies all invariants, and a checked ring's guards. Returns false after a report. O(blocks +
 * frames); in a checked ring O(objects). */
LOAM_API bool loam_ring_check(const loam_ring *ring) LOAM_NOEXCEPT;

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_ring.h"
#endif

#include "loam/names_end.h"

#endif

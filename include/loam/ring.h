/* loam/ring.h: objects that live as long as the frame they were allocated in, where frames end in
 * any order.
 *
 * Choose it for what passes through: messages, requests, rows, which come in one order and are done
 * with in about the same. Allocation is an addition and a compare as on a stack (stack.h), and a
 * frame ends at once, whenever its owner says so; its memory serves again as soon as all older
 * frames have ended as well. Choose stack.h where frames end in reverse order, region.h where one
 * must not wait for another. One old frame that stays keeps the memory of all that came after it.
 * It serves one thread at a time.
 *
 *        oldest frame         newest frame
 *   block [....F.....] ──> block [..F...F....] at ──> free block ──┐        released frames between the two wait
 *     ^────────────────────────────────────────────────────────────┘
 *
 * Blocks form a ring: in use from the oldest frame's to the current one, free from there on. The
 * next block is taken if it is free and large enough; free ones that are too small, or four times
 * as large as needed, go back to the source; over a contiguous one, which could not use them again,
 * they stay.
 *
 * Objects belong to the newest frame. Invariants: at <= end, end is a multiple of 16, both NULL
 * where inline paths must miss: while no frame is open, with LOAM_CHECK, under AddressSanitizer.
 * loam_ring_check walks them. After Intersec's ring pools.
 */
#ifndef LOAM_RING_H
#define LOAM_RING_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

/* Zero in a member: its default. */
typedef struct loam_ring_options {
    size_t block_bytes; /* of a block, its header included, at least; 64 KiB */
    unsigned flags;     /* LOAM_CHECK */
    const char *name;   /* for the registry and reports; not copied; NULL: none */
} loam_ring_options;

typedef struct loam_ring_frame loam_ring_frame;

/* Members are private to loam. The first 64 bytes are those of the fast paths. */
typedef struct loam_ring {
    char *at, *end; /* both NULL where inline paths must miss */
    char *hidden_at, *hidden_end;
    struct loam_ring_block *block;    /* the current one; the ring goes on behind it */
    loam_ring_frame *newest, *oldest; /* of those that hold memory */
    loam_source *source;
    size_t block_bytes;
    size_t held_bytes, peak_bytes, requests;
    struct loam_tag *dead; /* freed objects of a checked ring */
    unsigned char mode, redzone, open;
    loam_entry entry;
} loam_ring;

/* In the caller's storage; memory is taken with the first frame. source NULL: loam_pages() (hosted
 * builds; -EINVAL in freestanding ones). options NULL: defaults. 0, or -EINVAL iff block_bytes is
 * less than 256 or more than PTRDIFF_MAX. */
LOAM_API LOAM_NODISCARD int loam_ring_init_as(loam_ring *ring, loam_source *source,
                                              const loam_ring_options *options,
                                              unsigned more_flags) LOAM_NOEXCEPT;
LOAM_INLINE int loam_ring_init(loam_ring *ring, loam_source *source,
                               const loam_ring_options *options) {
    return loam_ring_init_as(ring, source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/* Ends all frames and gives everything back. The ring may be set up again. */
LOAM_API void loam_ring_deinit(loam_ring *ring) LOAM_NOEXCEPT;

/* A new frame: what is allocated from now on is in it, until the next is opened or this one is
 * released. NULL iff there is no memory; then all is as it was. Constant time, but for a new
 * block. */
LOAM_API LOAM_NODISCARD loam_ring_frame *loam_ring_open_at(loam_ring *ring, const char *file,
                                                           unsigned line) LOAM_NOEXCEPT;
#define loam_ring_open(ring) loam_ring_open_at(ring, LOAM_HERE)

/* Ends a frame, and all objects in it. Constant time but for the frames whose memory becomes free;
 * in a checked ring by all objects. To release one twice is a mistake that every ring reports as
 * long as it can tell. NULL is fine. */
LOAM_API void loam_ring_release_at(loam_ring *ring, loam_ring_frame *frame, const char *file,
                                   unsigned line) LOAM_NOEXCEPT;
#define loam_ring_release(ring, frame) loam_ring_release_at(ring, frame, LOAM_HERE)

/* ---- Objects ---- */

#define LOAM_RING_ALIGN 16

typedef struct loam_ring_made {
    void *object;
    char *at;
} loam_ring_made;

LOAM_API LOAM_COLD loam_ring_made loam_ring_alloc_slow(loam_ring *ring, size_t bytes, size_t align,
                                                       const char *file,
                                                       unsigned line) LOAM_NOEXCEPT;

/* bytes at a multiple of align, a power of two (a constant, preferably), in the newest frame. 0
 * bytes: an address that may be the next object's as well. NULL iff there is no memory, or bytes is
 * more than PTRDIFF_MAX less 16 KiB and 2 * align, or align is no power of two, or no frame is
 * open: a mistake, which every ring reports. */
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
            __builtin_unreachable(); /* NULL leaves above */
        }
        ring->at = (char *)next;
        return (void *)p;
    }
    return loam_ring_alloc_slow(ring, bytes, align, file, line).object;
}
#define loam_ring_alloc_aligned(ring, bytes, align) \
    loam_ring_alloc_aligned_at(ring, bytes, align, LOAM_HERE)

/* The same at a multiple of 16. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_ring_alloc_at(loam_ring *ring, size_t bytes,
                                                              const char *file, unsigned line) {
    return loam_ring_alloc_aligned_at(ring, bytes, LOAM_RING_ALIGN, file, line);
}
#define loam_ring_alloc(ring, bytes) loam_ring_alloc_at(ring, bytes, LOAM_HERE)

/* Zeroed, count objects of so many bytes, at a multiple of 16. NULL as well iff the product
 * overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_ring_calloc_at(loam_ring *ring, size_t count,
                                                                   size_t bytes, const char *file,
                                                                   unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *p = loam_ring_alloc_at(ring, all, file, line);
    return p != NULL ? __builtin_memset(p, 0, all) : NULL;
}
#define loam_ring_calloc(ring, count, bytes) loam_ring_calloc_at(ring, count, bytes, LOAM_HERE)

/* A T, at its own alignment; not initialised. NULL as above. */
#define LOAM_RING_NEW(ring, T) \
    ((T *)loam_ring_alloc_aligned_at(ring, sizeof(T), __alignof__(T), LOAM_HERE))

/* Changes the size of an object of the newest frame: in place iff it is the last one and fits (in a
 * checked ring it moves), or gets smaller; moved otherwise. p NULL: alloc. NULL as for alloc; then
 * the object is as it was. An object of another frame: a checked ring reports it, and returns NULL;
 * another one moves it into the newest frame if it grows. */
LOAM_API LOAM_NODISCARD void *loam_ring_realloc_at(loam_ring *ring, void *p, size_t old_bytes,
                                                   size_t bytes, const char *file,
                                                   unsigned line) LOAM_NOEXCEPT;
#define loam_ring_realloc(ring, p, old_bytes, bytes) \
    loam_ring_realloc_at(ring, p, old_bytes, bytes, LOAM_HERE)

/* Gives back an object: the last one of the newest frame makes room at once, another when its frame
 * ends. NULL is fine. */
LOAM_API void loam_ring_free_at(loam_ring *ring, void *p, size_t bytes, const char *file,
                                unsigned line) LOAM_NOEXCEPT;
#define loam_ring_free(ring, p, bytes) loam_ring_free_at(ring, p, bytes, LOAM_HERE)

/* ---- All of it ---- */

/* Gives back free blocks; all of them if no frame holds memory. Returns their bytes. */
LOAM_API size_t loam_ring_trim(loam_ring *ring) LOAM_NOEXCEPT;
/* A snapshot; used_bytes counts released frames that wait for older ones. Takes time by the number
 * of blocks, of a checked ring by that of all objects. */
LOAM_API void loam_ring_usage(const loam_ring *ring, loam_usage *usage) LOAM_NOEXCEPT;
/* Walks all invariants, and a checked ring's guards; false after a report. */
LOAM_API bool loam_ring_check(const loam_ring *ring) LOAM_NOEXCEPT;

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_ring.h"
#endif

#include "loam/names_end.h"

#endif

/* loam/fifo.h: objects of any size that are freed in about the order they came: queues, pipes,
 * messages.
 *
 * Choose it where the first object to come is among the first to go. An allocation is an addition
 * and a compare; a free counts down one word. No object has a header, free needs no size, and
 * memory is zero. Choose region.h for objects that are freed all at once, and pool.h for one size
 * in any order. A FIFO cannot use the memory of a freed object while other objects of the page
 * live: a few objects that stay keep a page each.
 *
 *   fifo ── current page                the source's memory, each page at a multiple of page_bytes
 *     │     [ live │ gone │ object │ object │ zero ....... │ old bytes ]
 *     │       ^ counts down                 ^ at           ^ end: moves on, and zeroes, in steps
 *     ├──── full pages with objects     each goes when its last object is freed
 *     └──── spares: empty pages for the next turn
 *
 * A page is found from an object's address by a mask. A page whose last object is freed becomes a
 * spare. With enough spares it becomes the current page if that has less than an eighth of a page
 * left; otherwise it goes back to the source. The current page stays when its last object is freed;
 * it begins again as soon as its zeroed part is used up. An object that does not fit into a page
 * has a page of its own.
 *
 * Alignment: 16 by plain alloc. alloc_aligned takes any power of two, less than 16 as well. Sizes
 * are not rounded up: objects of alignment 1 lie side by side. realloc needs the same alignment.
 *
 * Threads: one at a time. With LOAM_FIFO_REMOTE any other thread may call loam_fifo_free_remote.
 *
 * Invariants: at <= end, and end is a multiple of 16. Both are NULL where inline paths must not be
 * taken (no page yet, LOAM_CHECK, AddressSanitizer, destroyed). Without LOAM_FIFO_RAW all bytes
 * from at to end are zero. A page's `live` is the number of its objects. In the current page it is
 * 2^(bits-1), less the number of frees, so that it is never 0. loam_fifo_check verifies them.
 *
 * Source: Intersec's articles on their memory pools, part 6: the FIFO allocator. */
#ifndef LOAM_FIFO_H
#define LOAM_FIFO_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

/** Flags of a FIFO, besides LOAM_CHECK. */
typedef enum loam_fifo_flags {
    /** Objects are not zeroed, except by calloc. */
    LOAM_FIFO_RAW = 256,
    LOAM_FIFO_REMOTE = 512, /**< other threads free, by loam_fifo_free_remote */
} loam_fifo_flags;

/** Options of a FIFO. A member that is 0 selects its default. */
typedef struct loam_fifo_options {
    /** Size of each page in bytes, with its head of 128 bytes (less on devices); a power of two, at
     * least 512. Default: 64 KiB. */
    size_t page_bytes;
    /** Number of empty pages kept at most. Default: 4. Over a contiguous source all empty pages are
     * kept. */
    size_t spare_pages;
    unsigned flags; /**< LOAM_CHECK and values of loam_fifo_flags */
    /** Name for the registry and reports, or NULL. It is not copied. */
    const char *name;
} loam_fifo_options;

/** The first word of a page. Private. */
typedef struct loam_fifo_page {
    size_t live; /**< number of objects; other words follow */
} loam_fifo_page;

/** The free part of a FIFO's current page. Private. */
typedef struct loam_fifo_room {
    char *at; /**< first free byte of the current page */
    /** End of the zeroed bytes from `at` on, or of the page with LOAM_FIFO_RAW; a multiple of
     * 16. */
    char *end;
} loam_fifo_room;

/** A FIFO. It must not move. Members are private. The fast paths use the first 64 bytes. */
typedef struct loam_fifo {
    loam_fifo_room room; /**< all NULL where inline paths must not be taken */
    size_t made;         /**< allocations since the current page became current */
    /** loam_fifo_free leaves the inline path for addresses up to this one: 0, or UINTPTR_MAX. */
    uintptr_t floor;
    uintptr_t mask; /**< finds the page of an address */
    /** Why inline paths miss; LOAM_FIFO_RAW; objects are zeroed; LOAM_FIFO_REMOTE; destroyed;
     * LOAM_CHECK. */
    unsigned char mode, raw, zeroes, remote, dead, leaks;
    struct loam_fifo_whole_page *page; /**< the current page; NULL before the first object */
    /** Pages with objects that are not current, and pages of single objects. */
    struct loam_fifo_whole_page *busy;
    /** Empty pages; empty pages of single objects. */
    struct loam_fifo_whole_page *spares, *large_spares;
    /** Number of spares; its minimum since the last look at it; options.spare_pages. */
    size_t spare_count, spare_low, spare_most;
    /** What room holds where inline paths must not be taken. */
    loam_fifo_room hidden;
    loam_source *source; /**< where pages come from */
    /** Size of a page; bytes held now and at the peak; chunks held now and obtained so far; page
     * changes. */
    size_t page_bytes, held_bytes, peak_bytes, chunks, requests, turns;
    /** Size of the chunk that the FIFO itself lives in; 0 iff it is the caller's. */
    size_t own_bytes;
    /** In a checked FIFO: the thread that allocates. Atomic. */
    uintptr_t owner;
    /** The FIFO's entry in the registry. */
    loam_entry entry;
    /** What other threads have freed. They write this word; it has its own cache line. Atomic. */
    __attribute__((__aligned__(64))) uintptr_t notices;
} loam_fifo;

/* ---- Set-up and end ---- */

/** Does what loam_fifo_init does, with more_flags besides options->flags. */
LOAM_API LOAM_NODISCARD int loam_fifo_init_as(loam_fifo *fifo, loam_source *source,
                                              const loam_fifo_options *options,
                                              unsigned more_flags) LOAM_NOEXCEPT;
/** Sets a FIFO up in the caller's storage. It does not allocate: the first object takes the first
 * page. source: NULL selects loam_pages(); a freestanding build has no default and returns -EINVAL.
 * options: NULL selects all defaults. Returns 0. Returns -EINVAL iff page_bytes is no power of two,
 * less than 512, or above PTRDIFF_MAX / 64. Returns -ENOMEM if no page of that size can come from
 * the source (a small buffer, a limit). The FIFO must not move, and source must outlive it. */
LOAM_INLINE int loam_fifo_init(loam_fifo *fifo, loam_source *source,
                               const loam_fifo_options *options) {
    return loam_fifo_init_as(fifo, source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/** Ends a FIFO, of init or create, and gives everything back, including live objects. With
 * LOAM_CHECK it first lists these, as loam_registry_leaks does. No other thread may free any more.
 * The storage may be set up again. O(pages); with LOAM_CHECK O(objects). */
LOAM_API void loam_fifo_deinit(loam_fifo *fifo) LOAM_NOEXCEPT;

/** Does what loam_fifo_create does, with more_flags besides options->flags. */
LOAM_API LOAM_NODISCARD loam_fifo *loam_fifo_create_as(loam_source *source,
                                                       const loam_fifo_options *options,
                                                       unsigned more_flags) LOAM_NOEXCEPT;
/** Creates a FIFO in memory of the source. NULL iff there is none or options are bad as for
 * loam_fifo_init. */
LOAM_INLINE loam_fifo *loam_fifo_create(loam_source *source, const loam_fifo_options *options) {
    return loam_fifo_create_as(source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/** Ends a FIFO of create. NULL is allowed. If objects live, the FIFO lives on: allocations and
 * moves return NULL. It goes back to its source, which must live as long, when the last of the
 * objects is freed. */
LOAM_API void loam_fifo_destroy(loam_fifo *fifo) LOAM_NOEXCEPT;

/* ---- Called by the inline functions where they cannot serve ---- */

/** What loam_fifo_alloc_slow returns: the object, and the new value of room.at. The inline
 * functions store `at` once more, so that all paths meet in one store. Private. */
typedef struct loam_fifo_made {
    void *object; /**< the object, or NULL */
    char *at;     /**< the new value of room.at */
} loam_fifo_made;

/** Allocates where the inline path cannot. Private. */
LOAM_API LOAM_COLD loam_fifo_made loam_fifo_alloc_slow(loam_fifo *fifo, size_t bytes, size_t align,
                                                       const char *file,
                                                       unsigned line) LOAM_NOEXCEPT;
/** Frees where the inline path cannot. Private. */
LOAM_API LOAM_COLD void loam_fifo_free_slow(loam_fifo *fifo, void *p, const char *file,
                                            unsigned line) LOAM_NOEXCEPT;
/** Retires a page that has lost its last object. Private. */
LOAM_API LOAM_COLD void loam_fifo_emptied(loam_fifo *fifo, loam_fifo_page *page) LOAM_NOEXCEPT;
/** Resizes where the inline path cannot. Private. */
LOAM_API void *loam_fifo_realloc_slow(loam_fifo *fifo, void *p, size_t old_bytes, size_t bytes,
                                      size_t align, const char *file, unsigned line) LOAM_NOEXCEPT;

/* ---- Objects ---- */

/** Alignment of plain allocations in bytes. */
#define LOAM_FIFO_ALIGN 16

/** Allocates `bytes` bytes at a multiple of align, a power of two; zero without LOAM_FIFO_RAW. A
 * constant align of up to 16 folds into the inline path. For 0 bytes it returns an address that may
 * be the next object's as well; it must be freed, too. NULL iff there is no memory, the FIFO is
 * destroyed, bytes is more than PTRDIFF_MAX less 2 * align, a page and 4 KiB, or align is no power
 * of two. Ten instructions, eight for a constant size. Every 8 KiB a call zeroes memory, and for
 * every page a call finds the next. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_fifo_alloc_aligned_at(loam_fifo *fifo, size_t bytes,
                                                                      size_t align,
                                                                      const char *file,
                                                                      unsigned line) {
    uintptr_t p = 0, next = 0;
    bool fits = false;
    if (__builtin_constant_p(align) && align <= LOAM_FIFO_ALIGN && (align & (align - 1)) == 0 &&
        align != 0) {
        /* end is a multiple of align: aligning cannot pass it. An exact fit takes the slow path, so
         * that nothing fits between NULL and NULL. */
        p = ((uintptr_t)fifo->room.at + align - 1) & ~(uintptr_t)(align - 1);
        if (__builtin_constant_p(bytes) && bytes < LOAM_SOURCE_TOP) {
            next = p + bytes;
            fits = next < (uintptr_t)fifo->room.end;
        } else {
            fits = bytes < (uintptr_t)fifo->room.end - p;
            next = p + bytes;
        }
    }
    if (LOAM_UNLIKELY(!fits)) {
        loam_fifo_made made = loam_fifo_alloc_slow(fifo, bytes, align, file, line);
        if (made.object == NULL) return NULL;
        p = (uintptr_t)made.object;
        next = (uintptr_t)made.at;
    } else if (p == 0) {
        /* A NULL has returned already: code behind this need not compare again. */
        __builtin_unreachable();
    }
    fifo->room.at = (char *)next;
    fifo->made++;
    return (void *)p;
}
/** Calls loam_fifo_alloc_aligned_at with the caller's file and line. */
#define loam_fifo_alloc_aligned(fifo, bytes, align) \
    loam_fifo_alloc_aligned_at(fifo, bytes, align, LOAM_HERE)

/** Allocates as loam_fifo_alloc_aligned_at does, at a multiple of 16. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_fifo_alloc_at(loam_fifo *fifo, size_t bytes,
                                                              const char *file, unsigned line) {
    return loam_fifo_alloc_aligned_at(fifo, bytes, LOAM_FIFO_ALIGN, file, line);
}
/** Calls loam_fifo_alloc_at with the caller's file and line. */
#define loam_fifo_alloc(fifo, bytes) loam_fifo_alloc_at(fifo, bytes, LOAM_HERE)

/** Allocates count objects of `bytes` bytes each, at a multiple of 16; zero with LOAM_FIFO_RAW as
 * well. NULL as loam_fifo_alloc, NULL as well iff the product overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_fifo_calloc_at(loam_fifo *fifo, size_t count,
                                                                   size_t bytes, const char *file,
                                                                   unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *p = loam_fifo_alloc_at(fifo, all, file, line);
    return p != NULL && fifo->raw ? __builtin_memset(p, 0, all) : p;
}
/** Calls loam_fifo_calloc_at with the caller's file and line. */
#define loam_fifo_calloc(fifo, count, bytes) loam_fifo_calloc_at(fifo, count, bytes, LOAM_HERE)

/** Allocates a T at its alignment. NULL as loam_fifo_alloc_aligned. */
#define LOAM_FIFO_NEW(fifo, T) \
    ((T *)loam_fifo_alloc_aligned_at(fifo, sizeof(T), __alignof__(T), LOAM_HERE))

/** Frees an object of any size and alignment. NULL is allowed. After destroy it works as before,
 * and the last free ends the FIFO. Six instructions; a page's last object costs more. */
LOAM_INLINE void loam_fifo_free_at(loam_fifo *fifo, void *p, const char *file, unsigned line) {
    if (LOAM_UNLIKELY((uintptr_t)p <= fifo->floor)) {
        loam_fifo_free_slow(fifo, p, file, line);
        return;
    }
    /* p - 1, because an object of 0 bytes may lie where its page ends. */
    loam_fifo_page *page = (loam_fifo_page *)(((uintptr_t)p - 1) & fifo->mask);
    if (LOAM_UNLIKELY(--page->live == 0)) loam_fifo_emptied(fifo, page);
}
/** Calls loam_fifo_free_at with the caller's file and line. */
#define loam_fifo_free(fifo, p) loam_fifo_free_at(fifo, p, LOAM_HERE)

/** Frees an object on any thread, in a FIFO with LOAM_FIFO_REMOTE; another one reports it, checked
 * or not, and does nothing. The memory is reused after the owner next changes its page or zeroes a
 * step of it, or calls loam_fifo_collect. Lock-free: one atomic addition, and a compare-and-swap
 * for the first object of a page since the owner looked. After destroy the thread that frees the
 * last object ends the FIFO: its source must then have LOAM_SOURCE_THREADS. */
LOAM_API void loam_fifo_free_remote_at(loam_fifo *fifo, void *p, const char *file,
                                       unsigned line) LOAM_NOEXCEPT;
/** Calls loam_fifo_free_remote_at with the caller's file and line. */
#define loam_fifo_free_remote(fifo, p) loam_fifo_free_remote_at(fifo, p, LOAM_HERE)

/** Takes the objects that other threads have freed, so that their memory can be reused. Only the
 * owner calls it. O(pages with such objects). */
LOAM_API void loam_fifo_collect(loam_fifo *fifo) LOAM_NOEXCEPT;

/** Makes the calling thread the owner of a checked FIFO. The owner is the thread that set the FIFO
 * up, or allocated last; the FIFO reports frees by others. The call is needed only if a thread
 * frees before it allocates. */
LOAM_API void loam_fifo_adopt(loam_fifo *fifo) LOAM_NOEXCEPT;

/** Resizes an object and returns its address. align is that of its allocation. New bytes are zero
 * without LOAM_FIFO_RAW, also where the object was longer before. In place iff it gets smaller, or
 * is the last one and fits, or has a page of its own that is long enough. (Checks and tools move an
 * object with a page of its own.) Otherwise it moves, and its old memory is freed. If p is NULL it
 * allocates. 0 bytes leave an object without bytes, as alloc makes them. Returns NULL as
 * loam_fifo_alloc_aligned does; the object is unchanged then. */
LOAM_INLINE LOAM_NODISCARD void *loam_fifo_realloc_aligned_at(loam_fifo *fifo, void *p,
                                                              size_t old_bytes, size_t bytes,
                                                              size_t align, const char *file,
                                                              unsigned line) {
    if (LOAM_LIKELY((uintptr_t)p + old_bytes == (uintptr_t)fifo->room.at && bytes >= old_bytes &&
                    p != NULL && bytes < (uintptr_t)fifo->room.end - (uintptr_t)p)) {
        fifo->room.at = (char *)p + bytes;
        return p;
    }
    return loam_fifo_realloc_slow(fifo, p, old_bytes, bytes, align, file, line);
}
/** Calls loam_fifo_realloc_aligned_at with the caller's file and line. */
#define loam_fifo_realloc_aligned(fifo, p, old_bytes, bytes, align) \
    loam_fifo_realloc_aligned_at(fifo, p, old_bytes, bytes, align, LOAM_HERE)

/** Resizes an object of loam_fifo_alloc, as loam_fifo_realloc_aligned_at does with alignment 16. */
LOAM_INLINE LOAM_NODISCARD void *loam_fifo_realloc_at(loam_fifo *fifo, void *p, size_t old_bytes,
                                                      size_t bytes, const char *file,
                                                      unsigned line) {
    return loam_fifo_realloc_aligned_at(fifo, p, old_bytes, bytes, LOAM_FIFO_ALIGN, file, line);
}
/** Calls loam_fifo_realloc_at with the caller's file and line. */
#define loam_fifo_realloc(fifo, p, old_bytes, bytes) \
    loam_fifo_realloc_at(fifo, p, old_bytes, bytes, LOAM_HERE)

/* ---- The FIFO as a whole ---- */

/** Gives back all pages without objects, the current page included. Returns the number of bytes
 * given back. O(pages given back). */
LOAM_API size_t loam_fifo_trim(loam_fifo *fifo) LOAM_NOEXCEPT;

/** Fills *usage. used_bytes includes freed objects until their page is empty. O(pages). */
LOAM_API void loam_fifo_usage(const loam_fifo *fifo, loam_usage *usage) LOAM_NOEXCEPT;

/** Verifies all invariants, and a checked FIFO's guards. Returns false after a report. O(pages +
 * zeroed bytes of the current page); in a checked FIFO O(objects). */
LOAM_API bool loam_fifo_check(const loam_fifo *fifo) LOAM_NOEXCEPT;

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_fifo.h"
#endif

#include "loam/names_end.h"

#endif

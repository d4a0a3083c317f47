/* loam/fifo.h: objects of any size that are freed in about the order they came: queues, pipes,
 * messages.
 *
 * Choose it where the first to come is among the first to go. An allocation is an addition and a
 * compare, a free counts down one word; no object has a header, free is told no size, and memory
 * comes zeroed. Choose region.h for what is dropped all at once, pool.h for one size in any order.
 * It cannot use the memory of a freed object while others of the same page are alive: a few objects
 * that stay keep a page each.
 *
 *   fifo ── current page                      the source's memory, each page at a multiple of page_bytes
 *     │     [ live │ gone │ object │ object │ zero ....... │ old bytes ]
 *     │       ^ counts down as objects go     ^ at           ^ end        moved on, and zeroed, step by step
 *     ├──── pages with objects: the same, full          go when their last object is freed
 *     └──── spares: empty pages for the next turn
 *
 * A page is found from an object's address by a mask. One whose last object is freed becomes a
 * spare, or the current one if that has less than an eighth of a page left, or goes back to the
 * source. The current page stays when its last object is freed, and is begun anew as soon as what
 * was zeroed of it is used up. An object that does not fit into a page has a page of its own.
 *
 * Alignment: 16 by plain alloc; alloc_aligned takes any power of two, less than 16 as well: sizes
 * are not rounded up, so that objects of alignment 1 lie side by side. realloc must be told the
 * same alignment.
 *
 * Invariants: at <= end, end is a multiple of 16, both are NULL where inline paths must not be
 * taken (no page yet, LOAM_CHECK, AddressSanitizer, destroyed); without LOAM_FIFO_RAW all bytes
 * from at to end are zero; a page's `live` is the number of its objects, of the current one
 * 2^(bits-1) more and those it gave since less, so that it is never 0. loam_fifo_check walks them.
 * After Intersec's articles on their memory pools, part 6: the FIFO allocator.
 *
 * Threads: one at a time; with LOAM_FIFO_REMOTE any thread may call loam_fifo_free_remote besides.
 */
#ifndef LOAM_FIFO_H
#define LOAM_FIFO_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

/* Besides LOAM_CHECK. */
typedef enum loam_fifo_flags {
    LOAM_FIFO_RAW = 256,    /* objects are not zeroed, but by calloc */
    LOAM_FIFO_REMOTE = 512, /* other threads free, by loam_fifo_free_remote */
} loam_fifo_flags;

/* Zero in a member: its default. */
typedef struct loam_fifo_options {
    /* of each page, its head of 128 bytes (on devices less) included: a power of two from 512 on;
     * 64 KiB */
    size_t page_bytes;
    size_t spare_pages; /* empty pages kept at most, 4; over a contiguous source all are */
    unsigned flags;     /* LOAM_CHECK, loam_fifo_flags */
    const char *name;   /* for the registry and reports; not copied; NULL: none */
} loam_fifo_options;

/* Members are private to loam. */
typedef struct loam_fifo_page {
    size_t live; /* more follows */
} loam_fifo_page;

/* Members are private to loam. */
typedef struct loam_fifo_room {
    char *at;  /* first free byte of the current page */
    char *end; /* a multiple of 16: that of what is zero behind it, or of the page */
} loam_fifo_room;

/* Members are private to loam. The first 64 bytes are those of the fast paths. */
typedef struct loam_fifo {
    loam_fifo_room room; /* all NULL where inline paths must miss */
    size_t made;         /* objects of the current page since it became current */
    uintptr_t floor;     /* pointers above are freed inline: 0, or UINTPTR_MAX where none is */
    uintptr_t mask;      /* of an address: its page */
    unsigned char mode, raw, zeroes, remote, dead, leaks;
    struct loam_fifo_whole_page *page; /* the current one; NULL before the first object */
    struct loam_fifo_whole_page *busy; /* full ones, and objects' own */
    struct loam_fifo_whole_page *spares, *large_spares;
    size_t spare_count, spare_low, spare_most; /* low: the least since the last look */
    loam_fifo_room hidden;                     /* the room, where inline paths must miss */
    loam_source *source;
    size_t page_bytes, held_bytes, peak_bytes, chunks, requests, turns;
    size_t own_bytes; /* of the chunk that the FIFO itself lives in; 0 iff it is the caller's */
    uintptr_t owner;  /* the thread that allocates, of a checked one; atomic */
    loam_entry entry;
    /* Other threads write this; its own cache line. Atomic. */
    __attribute__((__aligned__(64))) uintptr_t notices;
} loam_fifo;

/* ---- Setting up ---- */

/* In the caller's storage; the first page is taken with the first object. source NULL: loam_pages()
 * (hosted builds; -EINVAL in freestanding ones). options NULL: defaults. 0, or -EINVAL iff
 * page_bytes is no power of two or less than 512. Does not allocate. */
LOAM_API LOAM_NODISCARD int loam_fifo_init_as(loam_fifo *fifo, loam_source *source,
                                              const loam_fifo_options *options,
                                              unsigned more_flags) LOAM_NOEXCEPT;
LOAM_INLINE int loam_fifo_init(loam_fifo *fifo, loam_source *source,
                               const loam_fifo_options *options) {
    return loam_fifo_init_as(fifo, source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/* Gives everything back, objects that are alive included; a FIFO of create as well. With LOAM_CHECK
 * these are listed first, as by loam_registry_leaks. No other thread frees any more. The storage
 * may be set up again. */
LOAM_API void loam_fifo_deinit(loam_fifo *fifo) LOAM_NOEXCEPT;

/* In memory of the source. NULL iff there is none or options are bad as above. */
LOAM_API LOAM_NODISCARD loam_fifo *loam_fifo_create_as(loam_source *source,
                                                       const loam_fifo_options *options,
                                                       unsigned more_flags) LOAM_NOEXCEPT;
LOAM_INLINE loam_fifo *loam_fifo_create(loam_source *source, const loam_fifo_options *options) {
    return loam_fifo_create_as(source, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}
/* Ends a FIFO of create. If objects are alive it lives on: it refuses allocations and moves (NULL),
 * and goes back to its source, which must live as long, with the last of them that is freed. NULL
 * is fine. */
LOAM_API void loam_fifo_destroy(loam_fifo *fifo) LOAM_NOEXCEPT;

/* ---- Out of line: what the inline functions below call when they cannot serve ---- */

/* Also what room.at is then: the inline functions store it once more, so that all ways meet in one
 * store. */
typedef struct loam_fifo_made {
    void *object;
    char *at;
} loam_fifo_made;

LOAM_API LOAM_COLD loam_fifo_made loam_fifo_alloc_slow(loam_fifo *fifo, size_t bytes, size_t align,
                                                       const char *file,
                                                       unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_COLD void loam_fifo_free_slow(loam_fifo *fifo, void *p, const char *file,
                                            unsigned line) LOAM_NOEXCEPT;
LOAM_API LOAM_COLD void loam_fifo_emptied(loam_fifo *fifo, loam_fifo_page *page) LOAM_NOEXCEPT;
LOAM_API void *loam_fifo_realloc_slow(loam_fifo *fifo, void *p, size_t old_bytes, size_t bytes,
                                      size_t align, const char *file, unsigned line) LOAM_NOEXCEPT;

/* ---- Objects ---- */

#define LOAM_FIFO_ALIGN 16

/* bytes at a multiple of align, a power of two (a constant, preferably: of up to 16 it folds into
 * the inline path), zero without LOAM_FIFO_RAW. 0 bytes: an address that may be the next object's
 * as well; it is to be freed, too. NULL iff there is no memory, the FIFO is destroyed, bytes is
 * more than PTRDIFF_MAX less 2 * align, a page and 4 KiB, or align is no power of two. Ten
 * instructions, eight for a constant size; each 8 KiB take a call that zeroes, each page one that
 * finds another. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_fifo_alloc_aligned_at(loam_fifo *fifo, size_t bytes,
                                                                      size_t align,
                                                                      const char *file,
                                                                      unsigned line) {
    uintptr_t p = 0, next = 0;
    bool fits = false;
    if (__builtin_constant_p(align) && align <= LOAM_FIFO_ALIGN && (align & (align - 1)) == 0 &&
        align != 0) {
        /* end is a multiple of align: aligning cannot pass it. An exact fit is served out of line,
         * so that nothing fits between NULL and NULL. */
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
        __builtin_unreachable(); /* NULL leaves above: what follows need not ask again */
    }
    fifo->room.at = (char *)next;
    fifo->made++;
    return (void *)p;
}
#define loam_fifo_alloc_aligned(fifo, bytes, align) \
    loam_fifo_alloc_aligned_at(fifo, bytes, align, LOAM_HERE)

/* The same at a multiple of 16. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZE(2) void *loam_fifo_alloc_at(loam_fifo *fifo, size_t bytes,
                                                              const char *file, unsigned line) {
    return loam_fifo_alloc_aligned_at(fifo, bytes, LOAM_FIFO_ALIGN, file, line);
}
#define loam_fifo_alloc(fifo, bytes) loam_fifo_alloc_at(fifo, bytes, LOAM_HERE)

/* Zeroed, with LOAM_FIFO_RAW as well: count objects of so many bytes, at a multiple of 16. NULL as
 * well iff the product overflows. */
LOAM_INLINE LOAM_MALLOC LOAM_SIZES(2, 3) void *loam_fifo_calloc_at(loam_fifo *fifo, size_t count,
                                                                   size_t bytes, const char *file,
                                                                   unsigned line) {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *p = loam_fifo_alloc_at(fifo, all, file, line);
    return p != NULL && fifo->raw ? __builtin_memset(p, 0, all) : p;
}
#define loam_fifo_calloc(fifo, count, bytes) loam_fifo_calloc_at(fifo, count, bytes, LOAM_HERE)

/* A T, or count of them, at T's own alignment. NULL as above. */
#define LOAM_FIFO_NEW(fifo, T) \
    ((T *)loam_fifo_alloc_aligned_at(fifo, sizeof(T), __alignof__(T), LOAM_HERE))

/* Gives an object back, of any size and alignment. NULL is fine. Six instructions, but for a page's
 * last object. After destroy as before; the last one ends the FIFO. */
LOAM_INLINE void loam_fifo_free_at(loam_fifo *fifo, void *p, const char *file, unsigned line) {
    if (LOAM_UNLIKELY((uintptr_t)p <= fifo->floor)) {
        loam_fifo_free_slow(fifo, p, file, line);
        return;
    }
    /* One less: an object of 0 bytes may lie where its page ends. */
    loam_fifo_page *page = (loam_fifo_page *)(((uintptr_t)p - 1) & fifo->mask);
    if (LOAM_UNLIKELY(--page->live == 0)) loam_fifo_emptied(fifo, page);
}
#define loam_fifo_free(fifo, p) loam_fifo_free_at(fifo, p, LOAM_HERE)

/* The same by any thread, of a FIFO with LOAM_FIFO_REMOTE; another one reports it, checked or not,
 * and does nothing. The memory is used again after the owner's next turn to another page or step of
 * it, or loam_fifo_collect. Lock-free: one atomic addition, and a compare-and-swap for the first
 * object of a page since the owner looked. After destroy as well: the thread that frees the last
 * object ends the FIFO, and so the source has to be one of LOAM_SOURCE_THREADS then. */
LOAM_API void loam_fifo_free_remote_at(loam_fifo *fifo, void *p, const char *file,
                                       unsigned line) LOAM_NOEXCEPT;
#define loam_fifo_free_remote(fifo, p) loam_fifo_free_remote_at(fifo, p, LOAM_HERE)

/* What other threads have freed is free now. By the owner; constant time for each page
 * concerned. */
LOAM_API void loam_fifo_collect(loam_fifo *fifo) LOAM_NOEXCEPT;

/* A checked FIFO belongs to the thread that set it up, or allocated last, and reports frees by
 * others. Says that the calling thread uses it from now on; needed only where that frees before it
 * allocates. */
LOAM_API void loam_fifo_adopt(loam_fifo *fifo) LOAM_NOEXCEPT;

/* Changes an object's size; new bytes are zero without LOAM_FIFO_RAW, also where the object had
 * been longer before. In place iff it gets smaller, or is the last one and fits, or has a page of
 * its own with room (not where checks or a tool watch: these move it); moved otherwise, and the old
 * place is freed. align is what it was allocated with. p NULL: alloc. 0 bytes leave an object
 * without any, as alloc makes them. NULL as for alloc; then the object is as it was. */
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
#define loam_fifo_realloc_aligned(fifo, p, old_bytes, bytes, align) \
    loam_fifo_realloc_aligned_at(fifo, p, old_bytes, bytes, align, LOAM_HERE)

LOAM_INLINE LOAM_NODISCARD void *loam_fifo_realloc_at(loam_fifo *fifo, void *p, size_t old_bytes,
                                                      size_t bytes, const char *file,
                                                      unsigned line) {
    return loam_fifo_realloc_aligned_at(fifo, p, old_bytes, bytes, LOAM_FIFO_ALIGN, file, line);
}
#define loam_fifo_realloc(fifo, p, old_bytes, bytes) \
    loam_fifo_realloc_at(fifo, p, old_bytes, bytes, LOAM_HERE)

/* ---- Memory, and asking ---- */

/* Gives back all pages without objects, the current one included. Returns their bytes. Takes time
 * by how many. */
LOAM_API size_t loam_fifo_trim(loam_fifo *fifo) LOAM_NOEXCEPT;

/* A snapshot. used_bytes counts what was freed as used until its page is empty. Takes time by the
 * number of pages. */
LOAM_API void loam_fifo_usage(const loam_fifo *fifo, loam_usage *usage) LOAM_NOEXCEPT;

/* Walks all invariants, and a checked FIFO's guards; false after a report. Takes time by pages, and
 * the bytes that are ready in the current one; in a checked FIFO by all objects. */
LOAM_API bool loam_fifo_check(const loam_fifo *fifo) LOAM_NOEXCEPT;

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_fifo.h"
#endif

#include "loam/names_end.h"

#endif

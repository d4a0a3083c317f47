/* fifo.h: declarations that the files of the FIFO share. No other file includes it.
 *
 *   fifo.c         set-up and end, objects
 *   fifo_page.c    pages: the current one, spares, those of one object
 *   fifo_remote.c  frees by other threads
 *   fifo_check.c   usage, invariants */
#ifndef LM_FAMILY_FIFO_H
#define LM_FAMILY_FIFO_H

#include "family/family.h"
#include "loam/fifo.h"

/* Why a FIFO's inline paths miss. */
typedef enum lm_fifo_mode {
    LM_FIFO_PLAIN,
    LM_FIFO_WATCHED, /* a tool sees objects: lm_watched_t in front of each */
    LM_FIFO_CHECKED, /* objects have tags and guards */
    LM_FIFO_ENDED,   /* the tombstone of a checked FIFO */
} lm_fifo_mode_t;

/* A note on frees by other threads: a page with such frees, or in a checked FIFO an object. */
typedef struct lm_notice {
    struct lm_notice *next;
} lm_notice_t;

/* The head of each page: the owner's words, then those of other threads. */
typedef struct loam_fifo_whole_page {
    /* The number of live objects, for the inline paths. */
    loam_fifo_page head;
    /* Neighbours in a list; prev: in the busy list only. */
    struct loam_fifo_whole_page *next, *prev;
    /* What the source gave. It begins with the page, except at large alignments. */
    char *chunk;
    size_t got;     /* size of the chunk in bytes */
    char *at;       /* end of the objects, while the page is not current */
    char *dirty;    /* bytes from here on are zero */
    loam_tag *dead; /* freed objects of a checked FIFO */
    /* Objects that other threads freed and the owner has not yet counted. Atomic. */
    LM_ALIGNED(64)
    size_t remote;
    lm_notice_t notice; /* in the list of notices while remote is not 0 */
    bool own;           /* the page has one object */
#if LOAM_METER
    size_t metered; /* bytes in `used`: of all objects since the page was last empty */
#endif
} lm_fifo_page_t;

/* In front of an object of a watched FIFO, hidden: its size. */
typedef struct LM_ALIGNED(16) lm_watched {
    size_t bytes;
} lm_watched_t;

/* In front of the raw block of an object, in a checked FIFO with LOAM_FIFO_REMOTE. */
typedef struct LM_ALIGNED(16) lm_fifo_record {
    lm_notice_t notice;
    loam_tag *tag;    /* the object's tag */
    const char *file; /* place of the free */
    unsigned line;
    unsigned freed; /* not 0: another thread has freed it; atomic */
} lm_fifo_record_t;

/* What the current page's `live` begins with: more than any number of objects. */
#define LM_FIFO_BIAS (SIZE_MAX / 2 + 1)

/* Size of a page's head in bytes; bound of spares of one object. */
enum {
    LM_FIFO_HEAD = (sizeof(lm_fifo_page_t) + 15) & ~15,
    /* A page of one object is kept as a spare if it is no larger than so many pages. */
    LM_FIFO_LARGE_PAGES = 16,
};

/* Returns whether the FIFO is the tombstone of one that has ended, after a report. */
LM_INLINE bool lm_fifo_over(const loam_fifo *fifo, const char *doing, const char *file,
                            unsigned line) {
    return LM_UNLIKELY(fifo->mode == LM_FIFO_ENDED) &&
           lm_entry_ended(&fifo->entry, doing, file, line);
}
/* Returns the room that is in use. */
LM_INLINE loam_fifo_room *lm_fifo_room(loam_fifo *fifo) {
    LM_ASSERT(fifo->mode != LM_FIFO_ENDED);
    return fifo->mode == LM_FIFO_PLAIN ? &fifo->room : &fifo->hidden;
}
/* Returns whether the source is contiguous. */
LM_INLINE bool lm_fifo_contiguous(const loam_fifo *fifo) {
    return (fifo->source->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
}
/* Returns the page of an object. */
LM_INLINE lm_fifo_page_t *lm_fifo_page_of(const loam_fifo *fifo, const void *p) {
    return (lm_fifo_page_t *)(((uintptr_t)p - 1) & ~(uintptr_t)(fifo->page_bytes - 1));
}
/* Returns the first byte for objects in a page. */
LM_INLINE char *lm_fifo_first(const lm_fifo_page_t *page) {
    return (char *)(uintptr_t)page + LM_FIFO_HEAD;
}
/* Returns the end of a page that is not `own`. */
LM_INLINE char *lm_fifo_limit(const loam_fifo *fifo, const lm_fifo_page_t *page) {
    return (char *)(uintptr_t)page + fifo->page_bytes;
}
/* Returns whether the current page has no live object. There must be a current page. */
LM_INLINE bool lm_fifo_idle(const loam_fifo *fifo) {
    LM_ASSERT(LM_FIFO_BIAS - fifo->page->head.live <= fifo->made);
    return fifo->page->head.live == LM_FIFO_BIAS - fifo->made;
}
/* Returns whether an object of that size and alignment can exist. */
LM_INLINE bool lm_fifo_possible(const loam_fifo *fifo, size_t bytes, size_t align) {
    return lm_is_pow2(align) && align <= PTRDIFF_MAX / 4 &&
           bytes <= PTRDIFF_MAX - 2 * align - fifo->page_bytes - 4096;
}
/* Returns the record of an object's tag. */
LM_INLINE lm_fifo_record_t *lm_fifo_record(const loam_tag *tag) {
    return (lm_fifo_record_t *)tag->raw - 1;
}

/* ---- fifo.c ---- */

/* Frees the object of a checked FIFO. Returns its page, from whose `live` the caller subtracts
 * 1. */
lm_fifo_page_t *lm_fifo_close(loam_fifo *fifo, loam_tag *tag, const char *file, unsigned line);
/* Returns the tag of a live object of a checked FIFO that is to be freed. NULL after a report. */
loam_tag *lm_fifo_find(loam_fifo *fifo, const void *p, const char *file, unsigned line);
/* Ends a destroyed FIFO that has no page left. */
void lm_fifo_finish(loam_fifo *fifo);
/* Hides an object of a watched FIFO from the tool. */
void lm_fifo_hide(const void *p);

/* ---- fifo_page.c ---- */

/* Returns `bytes` bytes at a multiple of align, with `lead` bytes more in front; zero in a plain
 * FIFO that zeroes. The caller counts the object. NULL iff there is no memory, or the FIFO is
 * destroyed. */
void *lm_fifo_carve(loam_fifo *fifo, size_t lead, size_t bytes, size_t align);
/* Grows the object that ends at the room's `at` in place by so many bytes. Returns false iff its
 * page is too small. */
bool lm_fifo_stretch(loam_fifo *fifo, size_t more);
/* Retires a page that is not current and has lost its last object. Returns true iff that ended a
 * destroyed FIFO. */
bool lm_fifo_emptied(loam_fifo *fifo, lm_fifo_page_t *page);
/* Subtracts freed objects from a page's `live`. Returns true iff that ended a destroyed FIFO. */
bool lm_fifo_less(loam_fifo *fifo, lm_fifo_page_t *page, size_t objects);
/* Makes the current page an ordinary one. It goes back to the source iff it has no objects. */
void lm_fifo_retire(loam_fifo *fifo);
/* Gives all spares back. */
void lm_fifo_drop_spares(loam_fifo *fifo);
/* Gives a page back, whatever is in it. The page is in no list. */
void lm_fifo_put(loam_fifo *fifo, lm_fifo_page_t *page);
/* Checks that freed objects of a checked FIFO's page are as they were left. Returns false after a
 * report. */
bool lm_fifo_check_freed(const loam_fifo *fifo, const lm_fifo_page_t *page);

/* ---- fifo_remote.c, fifo_check.c ---- */

/* Gives up a destroyed FIFO with objects: the next thread that frees an object becomes its owner.
 * The FIFO may have ended on return. */
void lm_fifo_leave(loam_fifo *fifo);
/* The kind of FIFOs. */
extern const loam_kind lm_fifo_kind;

#endif

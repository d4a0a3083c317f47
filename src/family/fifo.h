/* fifo.h: what the files of the FIFO share, and nobody else includes.
 *
 *   fifo.c         setting up and ending, objects
 *   fifo_page.c    pages: the current one, spares, those of one object
 *   fifo_remote.c  what other threads free
 *   fifo_check.c   usage, invariants
 */
#ifndef LM_FAMILY_FIFO_H
#define LM_FAMILY_FIFO_H

#include "family/family.h"
#include "loam/fifo.h"

typedef enum lm_fifo_mode {
    LM_FIFO_PLAIN,
    LM_FIFO_WATCHED, /* a tool sees objects: lm_watched_t in front of each */
    LM_FIFO_CHECKED, /* objects have tags and guards */
    LM_FIFO_ENDED,   /* the tombstone of a checked one */
} lm_fifo_mode_t;

/* One thing that another thread has freed, or more: a page of some objects, or in a checked FIFO an
 * object. */
typedef struct lm_notice {
    struct lm_notice *next;
} lm_notice_t;

/* At the head of each page: the owner's words, then those of other threads. */
typedef struct loam_fifo_whole_page {
    loam_fifo_page head;
    struct loam_fifo_whole_page *next, *prev; /* prev: in the busy list only */
    char *chunk; /* of the source: begins with the page, but at large alignments */
    size_t got;
    char *at;       /* where its objects end, while it is not current */
    char *dirty;    /* bytes from here on are zero */
    loam_tag *dead; /* freed objects of a checked FIFO */
    LM_ALIGNED(64)
    size_t remote; /* objects that others freed and the owner has not yet counted; atomic */
    lm_notice_t notice;
    bool own; /* of one object */
#if LOAM_METER
    size_t metered; /* bytes in `used`: of all objects since the page was empty last */
#endif
} lm_fifo_page_t;

/* In front of an object of a watched FIFO, hidden. */
typedef struct LM_ALIGNED(16) lm_watched {
    size_t bytes;
} lm_watched_t;

/* In front of the tag's raw block of a checked FIFO with LOAM_FIFO_REMOTE. */
typedef struct LM_ALIGNED(16) lm_fifo_record {
    lm_notice_t notice;
    loam_tag *tag;
    const char *file; /* of the free */
    unsigned line;
    unsigned freed; /* atomic */
} lm_fifo_record_t;

/* Of the current page's `live`: above any number of objects. */
#define LM_FIFO_BIAS (SIZE_MAX / 2 + 1)

enum {
    LM_FIFO_HEAD = (sizeof(lm_fifo_page_t) + 15) & ~15,
    LM_FIFO_LARGE_PAGES =
        16, /* a page of one object is kept as a spare up to so many pages' bytes */
};

/* Whether the FIFO is the tombstone of one that has ended, which is reported. */
LM_INLINE bool lm_fifo_over(const loam_fifo *fifo, const char *doing, const char *file,
                            unsigned line) {
    return LM_UNLIKELY(fifo->mode == LM_FIFO_ENDED) &&
           lm_entry_ended(&fifo->entry, doing, file, line);
}
LM_INLINE loam_fifo_room *lm_fifo_room(loam_fifo *fifo) {
    return fifo->mode == LM_FIFO_PLAIN ? &fifo->room : &fifo->hidden;
}
LM_INLINE bool lm_fifo_contiguous(const loam_fifo *fifo) {
    return (fifo->source->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
}
LM_INLINE lm_fifo_page_t *lm_fifo_page_of(const loam_fifo *fifo, const void *p) {
    return (lm_fifo_page_t *)(((uintptr_t)p - 1) & ~(uintptr_t)(fifo->page_bytes - 1));
}
LM_INLINE char *lm_fifo_first(const lm_fifo_page_t *page) {
    return (char *)(uintptr_t)page + LM_FIFO_HEAD;
}
/* Of a page that is not `own`. */
LM_INLINE char *lm_fifo_limit(const loam_fifo *fifo, const lm_fifo_page_t *page) {
    return (char *)(uintptr_t)page + fifo->page_bytes;
}
/* Whether the current page, which there is, has no live object. */
LM_INLINE bool lm_fifo_idle(const loam_fifo *fifo) {
    return fifo->page->head.live == LM_FIFO_BIAS - fifo->made;
}
LM_INLINE bool lm_fifo_possible(const loam_fifo *fifo, size_t bytes, size_t align) {
    return lm_is_pow2(align) && align <= PTRDIFF_MAX / 4 &&
           bytes <= PTRDIFF_MAX - 2 * align - fifo->page_bytes - 4096;
}
LM_INLINE lm_fifo_record_t *lm_fifo_record(const loam_tag *tag) {
    return (lm_fifo_record_t *)tag->raw - 1;
}

/* ---- fifo.c ---- */

/* The object of a checked FIFO is freed. Returns its page; one object less is to be counted
 * there. */
lm_fifo_page_t *lm_fifo_close(loam_fifo *fifo, loam_tag *tag, const char *file, unsigned line);
/* The tag of a live object of a checked FIFO that is to be freed; NULL after a report. */
loam_tag *lm_fifo_find(loam_fifo *fifo, const void *p, const char *file, unsigned line);
/* A destroyed FIFO has no page left. */
void lm_fifo_finish(loam_fifo *fifo);
/* A tool sees the object no longer, in a watched FIFO. */
void lm_fifo_hide(const void *p);

/* ---- fifo_page.c ---- */

/* bytes at a multiple of align, with `lead` more in front, zero in a plain FIFO that zeroes;
 * counted by who calls. NULL iff there is no memory, or the FIFO is dead. */
void *lm_fifo_carve(loam_fifo *fifo, size_t lead, size_t bytes, size_t align);
/* What ends at the room's `at` grows in place by so many bytes; false iff its page is too small. */
bool lm_fifo_stretch(loam_fifo *fifo, size_t more);
/* A page that is not current has lost its last object. true iff that was the end of a dead FIFO. */
bool lm_fifo_emptied(loam_fifo *fifo, lm_fifo_page_t *page);
/* One or more objects of a page less. true iff that was the end of a dead FIFO. */
bool lm_fifo_less(loam_fifo *fifo, lm_fifo_page_t *page, size_t objects);
/* There is no current page any more: it goes back to the source iff it is without objects. */
void lm_fifo_retire(loam_fifo *fifo);
/* All spares go back. */
void lm_fifo_drop_spares(loam_fifo *fifo);
/* A page goes back, whatever is in it. It is in no list. */
void lm_fifo_put(loam_fifo *fifo, lm_fifo_page_t *page);
/* Whether freed objects of a checked FIFO's page are as they were left; false after a report. */
bool lm_fifo_check_freed(const loam_fifo *fifo, const lm_fifo_page_t *page);

/* ---- fifo_remote.c, fifo_check.c ---- */

/* A dead FIFO with objects has no owner any more: the next thread that frees one is. It may be gone
 * on return. */
void lm_fifo_leave(loam_fifo *fifo);
extern const loam_kind lm_fifo_kind;

#endif

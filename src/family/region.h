/* region.h: declarations that the files of the region share. No other file includes it.
 *
 *   region.c        chunks, objects
 *   region_begin.c  set-up and end of a region
 *   region_array.c  freed extents, capacities of grown arrays, realloc, large objects
 *   region_life.c   marks, reset, trim, cleanups, children
 *   region_sort.c   joins freed extents
 *   region_check.c  usage, origin of addresses, invariants */
#ifndef LM_FAMILY_REGION_H
#define LM_FAMILY_REGION_H

#include "family/family.h"
#include "loam/region.h"

/* Why a region's inline paths miss. */
typedef enum lm_region_mode {
    LM_REGION_PLAIN,
    LM_REGION_WATCHED, /* a tool sees objects */
    LM_REGION_CHECKED, /* objects have tags and guards */
    LM_REGION_ENDED,   /* the tombstone of a checked region */
} lm_region_mode_t;

/* Bounds of a region's tables. */
enum {
    LM_REGION_PIECES = 16,             /* times that a chunk of a contiguous source may grow */
    LM_REGION_LISTS = 32,              /* lists of freed extents, by size */
    LM_REGION_GROWN_FIRST = 8,         /* slots of the first table of capacities */
    LM_REGION_GROWN_MOST = 1024,       /* maximum number of slots of a table of capacities */
    LM_REGION_READY_LEAST = 64 * 1024, /* least step of memory that a source makes ready */
};

/* The head of each chunk. at, end and floor are the room's while another chunk is current, or a
 * hole is the room. */
typedef struct loam_region_chunk {
    struct loam_region_chunk *before; /* the next older chunk */
    size_t bytes;                     /* size of the chunk */
    /* given: from here to the chunk's end the memory is a freed extent, or was made of one. `end`
     * is then equal to it, and the chunk does not go back when its objects before `given` end.
     * NULL: the memory behind `at` is the chunk's own. */
    char *at, *end, *floor, *given;
    /* In a checked region: end of the memory whose objects have ended (family.h). */
    char *gone;
} lm_chunk_t;

/* Behind the head of a chunk over a contiguous source: what each get gave, because the chunk goes
 * back piece by piece. */
typedef struct lm_pieces {
    size_t count;                     /* number of pieces */
    size_t got[LM_REGION_PIECES + 1]; /* size of each piece */
} lm_pieces_t;

/* In front of each large object. */
typedef struct LM_ALIGNED(16) loam_region_large {
    struct loam_region_large *older, **link; /* the list of large objects, newest first */
    char *chunk;                             /* what the source gave */
    size_t got;                              /* size of the chunk in bytes */
    size_t serial;                           /* number for marks */
} lm_large_t;

/* A cleanup. */
typedef struct LM_ALIGNED(16) loam_region_cleanup {
    struct loam_region_cleanup *older, **link; /* the list of cleanups; link: NULL iff it has run */
    void (*run)(void *argument);               /* what is called */
    void *argument;
    size_t serial; /* number for marks */
} lm_cleanup_t;

/* A freed extent, in its own memory, at any address. In the list of small extents it has no
 * `bytes`. */
typedef struct lm_freed {
    struct lm_freed *next; /* the next extent of the list */
    size_t bytes;          /* size of the extent */
} __attribute__((packed, may_alias)) lm_freed_t;

/* An array that was moved with capacity to grow: objects at p may have capacity bytes. SPOIL bytes
 * (region_array.c) follow, so that inline paths never take the array for the last object. p NULL:
 * an empty slot. */
typedef struct lm_grown {
    char *p;
    size_t capacity;
} lm_grown_t;

/* What a region knows of freed extents and grown arrays. It is made, out of the region's memory,
 * when the first extent is freed or the first array grows; in a checked region, where it has no
 * extents, when the first cleanup is removed. A mark sets it aside. Its size is a multiple of 16,
 * so that what follows it in a checked region is aligned (family.h). */
typedef struct LM_ALIGNED(16) loam_region_freed {
    /* Begin of the extent that is the room now. NULL: the room is the current chunk's. */
    char *hole;
    uint32_t nonempty;                  /* a bit for each list */
    lm_freed_t *lists[LM_REGION_LISTS]; /* freed extents by size */
    /* Sum of bytes and number of the extents in the lists. */
    size_t bytes, count;
    /* Number of extents that joined the lists since they were sorted. */
    size_t unsorted;
    /* Bytes in the lists from which on a free sorts them. */
    size_t sort_at;
    lm_cleanup_t *cleanups;                        /* records to use again */
    lm_grown_t *grown;                             /* hash table of capacities */
    size_t grown_slots;                            /* its slots: a power of two */
    lm_grown_t first_grown[LM_REGION_GROWN_FIRST]; /* the first table */
} lm_freed_set_t;

/* Returns the room that is in use. */
LM_INLINE loam_region_room *lm_region_room(loam_region *region) {
    LM_ASSERT(region->mode != LM_REGION_ENDED);
    return region->mode == LM_REGION_PLAIN ? &region->room : &region->hidden;
}

/* Returns whether the source is contiguous. */
LM_INLINE bool lm_region_contiguous(const loam_region *region) {
    return (region->source->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
}

/* Returns the pieces of a chunk of a contiguous source. */
LM_INLINE lm_pieces_t *lm_chunk_pieces(lm_chunk_t *chunk) {
    return (lm_pieces_t *)(void *)(chunk + 1);
}
/* Returns the size of a chunk's head over that source. */
LM_INLINE size_t lm_chunk_head_over(const loam_source *source) {
    size_t pieces = (source->flags & LOAM_SOURCE_CONTIGUOUS) != 0 ? sizeof(lm_pieces_t) : 0;
    return lm_align_up(sizeof(lm_chunk_t) + pieces, 16);
}
/* Returns the size of the head of a chunk of this region. */
LM_INLINE size_t lm_chunk_head(const loam_region *region) {
    return lm_chunk_head_over(region->source);
}
/* Returns the first byte for objects in a chunk. */
LM_INLINE char *lm_chunk_first(const loam_region *region, const lm_chunk_t *chunk) {
    if (chunk->before == NULL && region->own != NULL) return region->own;
    return (char *)(uintptr_t)chunk + lm_chunk_head(region);
}
/* Returns the first byte for objects in a spare chunk, which the region itself does not live in. */
LM_INLINE char *lm_spare_first(const loam_region *region, const lm_chunk_t *chunk) {
    return (char *)(uintptr_t)chunk + lm_chunk_head(region);
}
/* Returns the end of a chunk, a multiple of 16. */
LM_INLINE char *lm_chunk_end(const lm_chunk_t *chunk) {
    return (char *)lm_align_down((uintptr_t)chunk + chunk->bytes, 16);
}
/* Makes `got` bytes of the source a chunk that is not current yet. plain: whether the region's mode
 * is plain; in other modes the caller sets `gone`. */
LM_INLINE void lm_region_begin_chunk(const loam_source *source, bool plain, lm_chunk_t *chunk,
                                     size_t got) {
    bool contiguous = (source->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
    bool steps = got > LM_REGION_READY_LEAST && source->ready != NULL && plain && !contiguous;
    chunk->bytes = got;
    chunk->given = NULL;
    chunk->end = steps ? (char *)chunk + lm_chunk_head_over(source) : lm_chunk_end(chunk);
    if (LM_LIKELY(!contiguous)) return;
    lm_pieces_t *pieces = lm_chunk_pieces(chunk);
    pieces->count = 1;
    pieces->got[0] = got;
}

/* Returns whether the room is a freed extent; the current chunk's position is then in the chunk. */
LM_INLINE bool lm_region_in_hole(const loam_region *region) {
    return region->freed != NULL && region->freed->hole != NULL;
}
/* Returns the end of a chunk's objects and freed extents. */
LM_INLINE char *lm_chunk_used(const loam_region *region, const lm_chunk_t *chunk) {
    if (chunk->given != NULL) return lm_chunk_end(chunk);
    if (chunk != region->chunk || lm_region_in_hole(region)) return chunk->at;
    return region->mode == LM_REGION_PLAIN ? region->room.at : region->hidden.at;
}

/* Returns the bytes that an object takes in an unchecked region: rounded to align, with the
 * redzone. */
LM_INLINE size_t lm_region_whole(const loam_region *region, size_t bytes, size_t align) {
    size_t rounded = lm_align_up(bytes, align);
    return region->redzone == 0 ? rounded : lm_align_up(rounded, 16) + region->redzone;
}

/* Returns whether an object of that size and alignment can exist. */
LM_INLINE bool lm_region_possible(size_t bytes, size_t align) {
    return lm_is_pow2(align) && align <= PTRDIFF_MAX / 2 && bytes <= PTRDIFF_MAX - align - 1024;
}

/* Returns the free bytes from which on a free looks for chunks that can go back. They bound what a
 * region holds to twice what is live, and a chunk. */
LM_INLINE size_t lm_region_sort_at(const loam_region *region) {
    LM_ASSERT(region->spare_bytes <= region->held_bytes);
    size_t chunk = region->chunk != NULL ? region->chunk->bytes : 0;
    return (region->held_bytes - region->spare_bytes + chunk) / 2;
}

/* Returns the bytes that the region holds, without spares and the rest of the current chunk. */
LM_INLINE size_t lm_region_used(loam_region *region) {
    const lm_chunk_t *chunk = region->chunk;
    const char *at = lm_region_in_hole(region) ? chunk->at : lm_region_room(region)->at;
    size_t left = chunk->given == NULL ? (size_t)(lm_chunk_end(chunk) - at) : 0;
    return region->held_bytes - region->spare_bytes - left;
}

/* ---- region.c ---- */

/* Allocates out of line, as the program's calls do. */
void *lm_region_alloc(loam_region *region, size_t bytes, size_t align, const char *file,
                      unsigned line);
/* Frees out of line, as the program's calls do. */
void lm_region_free(loam_region *region, void *p, size_t bytes, size_t align, const char *file,
                    unsigned line);
/* Returns `bytes` bytes at a multiple of align, without guards or redzone. NULL iff there is no
 * memory. */
void *lm_region_carve(loam_region *region, size_t bytes, size_t align);
/* Returns the tag of a live object of that size and alignment in a checked region. NULL after a
 * report. */
loam_tag *lm_region_find(const loam_region *region, const void *p, size_t bytes, size_t align,
                         const char *doing, const char *file, unsigned line);
/* Returns whether the region is the tombstone of one that has ended, after a report. */
LM_INLINE bool lm_region_over(const loam_region *region, const char *doing, const char *file,
                              unsigned line) {
    return LM_UNLIKELY(region->mode == LM_REGION_ENDED) &&
           lm_entry_ended(&region->entry, doing, file, line);
}
/* Checks, in a checked region, that memory of ended objects is as they left it. Returns false after
 * a report. */
bool lm_region_check_gone(const loam_region *region);
/* Returns whether [p, p+bytes) was allocated last in the current chunk, and is no older than a
 * mark. */
bool lm_region_is_last(loam_region *region, const char *p, size_t bytes);
/* Frees [p, p+bytes): moves `at` back iff it is the last; otherwise it joins the lists. */
void lm_region_release(loam_region *region, char *p, size_t bytes);
/* Makes memory ready within the current chunk and moves the room's end on, so far that an object
 * fits that did not. Returns false iff it does not fit into the chunk. */
bool lm_region_ready(loam_region *region, size_t bytes, size_t align);
/* Gives a chunk back, piece by piece over a contiguous source. */
void lm_region_put_chunk(loam_region *region, lm_chunk_t *chunk);
/* Gets a chunk from the source and counts it. NULL iff there is no memory. */
void *lm_region_get(loam_region *region, size_t bytes, size_t align, size_t *got);
/* Gives a chunk back to the source and counts it. */
void lm_region_put(loam_region *region, void *chunk, size_t got);

/* ---- region_array.c ---- */

/* Returns `bytes` bytes at a multiple of align from a freed extent, whose rest may become the room.
 * NULL iff no extent fits. */
void *lm_region_reuse(loam_region *region, size_t bytes, size_t align);
/* Makes the room the current chunk's again. The rest of the extent joins the lists. */
void lm_region_leave_hole(loam_region *region);
/* Makes the memory behind the objects of a chunk that ceases to be current a freed extent. */
void lm_region_give_tail(loam_region *region, lm_chunk_t *chunk);
/* Does what lm_region_give_tail does for all chunks that are not current. There must be no mark. */
void lm_region_give_tails(loam_region *region);
/* Joins the freed extents that a mark had set aside to the region's. */
void lm_region_merge(loam_region *region, lm_freed_set_t *older);
/* Puts [p, p+bytes) on the lists of freed extents, and sorts them if that is worth while. */
void lm_region_collect(loam_region *region, char *p, size_t bytes);
/* Puts [p, p+bytes) on the lists of a set. */
void lm_region_push(lm_freed_set_t *set, char *p, size_t bytes);
/* Returns the capacity of an array at p; `bytes` iff no other is known. forget: the capacity is no
 * longer known afterwards. */
size_t lm_region_capacity(loam_region *region, const char *p, size_t bytes, bool forget);
/* Allocates a large object. NULL iff there is no memory. */
void *lm_region_large_alloc(loam_region *region, size_t bytes, size_t align);
/* Frees a large object. */
void lm_region_large_free(loam_region *region, void *p);
/* Returns the usable size of a large object. */
size_t lm_region_large_room(const void *p);
/* Returns the serial number of a large object. */
size_t lm_region_large_serial(const void *p);
/* Checks that freed extents and capacities are the region's. Returns false after a report. */
bool lm_region_check_freed(const loam_region *region);
/* Returns the list for extents of so many bytes. */
unsigned lm_region_list_of(size_t bytes);
/* Returns the region's set, made if there is none. NULL iff there is no memory. */
lm_freed_set_t *lm_region_freed_set(loam_region *region);

/* ---- region_life.c, region_check.c ---- */

/* Moves the position of a checked region back to `to`: objects behind it have ended. */
void lm_region_back(loam_region *region, char *to);
/* Makes `bytes` bytes more available behind the current chunk's end, whose memory behind `at` must
 * be its own. Returns false iff the source has none there. */
bool lm_region_grow_chunk(loam_region *region, size_t bytes);
/* Makes the chunk before the current one current; the current one becomes a spare. */
void lm_region_drop_chunk(loam_region *region);
/* Gives spares back that do not fit into `most` bytes, the larger first. Returns the bytes given
 * back. */
size_t lm_region_drop_spares(loam_region *region, size_t most);
/* Returns the bytes that may be spare, from what recent rounds needed. */
size_t lm_region_spare_most(const loam_region *region);
/* Gives back unused pieces of a contiguous source behind the current chunk's first `most` bytes. */
void lm_region_shrink_chunk(loam_region *region, size_t most);

/* Joins neighbours among the freed extents. Without marks it gives chunks back that are free as a
 * whole. Not for a checked region, which has no extents. */
void lm_region_sort(loam_region *region);

/* Removes a cleanup that is known to be the region's (loam_region_remove_cleanup). */
void lm_region_remove_cleanup(loam_region *region, loam_region_cleanup *cleanup, bool run_it);
/* Runs cleanups newer than a mark's serial. */
void lm_region_run_newer(loam_region *region, size_t serial);
/* Frees large objects newer than a mark's serial. */
void lm_region_free_newer(loam_region *region, size_t serial);
/* Checks the guards of all objects of a checked region, and the bytes of freed ones. Returns false
 * after a report. */
bool lm_region_check_objects(const loam_region *region);
/* The kind of regions. */
extern const loam_kind lm_region_kind;

#endif

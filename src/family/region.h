/* region.h: what the files of the region share, and nobody else includes.
 *
 *   region.c        setting up, chunks, objects
 *   region_array.c  freed extents, capacities of grown arrays, realloc, large objects
 *   region_life.c   marks, reset, trim, cleanups, children
 *   region_sort.c   joins freed extents
 *   region_check.c  usage, origin of addresses, invariants
 */
#ifndef LM_FAMILY_REGION_H
#define LM_FAMILY_REGION_H

#include "family/family.h"
#include "loam/region.h"

typedef enum lm_region_mode {
    LM_REGION_PLAIN,
    LM_REGION_WATCHED, /* a tool sees objects */
    LM_REGION_CHECKED, /* objects have tags and guards */
    LM_REGION_ENDED,   /* the tombstone of a checked one */
} lm_region_mode_t;

enum {
    LM_REGION_PIECES = 16,     /* times that a chunk of a contiguous source may grow */
    LM_REGION_LISTS = 32,      /* of freed extents, by size */
    LM_REGION_GROWN_FIRST = 8, /* slots of the first table of capacities */
    LM_REGION_GROWN_MOST = 1024,
};

/* At the head of each chunk; at, end and floor are those of the room while another chunk is
 * current, or a hole is the room. `given`: the memory from there to the chunk's end is a freed
 * extent, or was made of one; it is the chunk's `end` as well, and the chunk does not go back when
 * its objects before `given` do. NULL: the memory behind `at` is the chunk's own. */
typedef struct loam_region_chunk {
    struct loam_region_chunk *before;
    size_t bytes;
    char *at, *end, *floor, *given;
    char *gone; /* of a checked region: where memory ends whose objects have ended (family.h) */
} lm_chunk_t;

/* Behind that, over a contiguous source: what each get gave, for the chunk goes back as it came. */
typedef struct lm_pieces {
    size_t count;
    size_t got[LM_REGION_PIECES + 1];
} lm_pieces_t;

/* In front of each large object. */
typedef struct LM_ALIGNED(16) loam_region_large {
    struct loam_region_large *older, **link;
    char *chunk;
    size_t got;
    size_t serial;
} lm_large_t;

typedef struct LM_ALIGNED(16) loam_region_cleanup {
    struct loam_region_cleanup *older, **link; /* link: NULL iff it has run */
    void (*run)(void *argument);
    void *argument;
    size_t serial;
} lm_cleanup_t;

/* A freed extent, in its own memory, at any address. One of the list of small ones has no
 * `bytes`. */
typedef struct lm_freed {
    struct lm_freed *next;
    size_t bytes;
} __attribute__((packed, may_alias)) lm_freed_t;

/* An array that was moved with room to grow: objects at p may have capacity bytes, and
 * lm_region_spoil more lie behind these, so that inline paths never take it for the last object. p
 * NULL: an empty slot. */
typedef struct lm_grown {
    char *p;
    size_t capacity;
} lm_grown_t;

/* Made with the first extent that is freed or array that is grown, out of the region's own memory;
 * a mark sets it aside. */
typedef struct loam_region_freed {
    char *hole; /* where the extent begins that is the room now; NULL: the room is the chunk's */
    uint32_t nonempty; /* a bit for each list */
    lm_freed_t *lists[LM_REGION_LISTS];
    size_t bytes, count;    /* in the lists */
    size_t unsorted;        /* extents that joined the lists since they were sorted */
    size_t sort_at;         /* bytes in the lists from which on a free sorts them */
    lm_cleanup_t *cleanups; /* records to use again */
    lm_grown_t *grown;
    size_t grown_slots; /* a power of two */
    lm_grown_t first_grown[LM_REGION_GROWN_FIRST];
} lm_freed_set_t;

LM_INLINE loam_region_room *lm_region_room(loam_region *region) {
    return region->mode == LM_REGION_PLAIN ? &region->room : &region->hidden;
}

LM_INLINE bool lm_region_contiguous(const loam_region *region) {
    return (region->source->flags & LOAM_SOURCE_CONTIGUOUS) != 0;
}

LM_INLINE lm_pieces_t *lm_chunk_pieces(lm_chunk_t *chunk) {
    return (lm_pieces_t *)(void *)(chunk + 1);
}
LM_INLINE size_t lm_chunk_head_over(const loam_source *source) {
    size_t pieces = (source->flags & LOAM_SOURCE_CONTIGUOUS) != 0 ? sizeof(lm_pieces_t) : 0;
    return lm_align_up(sizeof(lm_chunk_t) + pieces, 16);
}
LM_INLINE size_t lm_chunk_head(const loam_region *region) {
    return lm_chunk_head_over(region->source);
}
/* Where objects may begin in a chunk, and the end of the last one. */
LM_INLINE char *lm_chunk_first(const loam_region *region, const lm_chunk_t *chunk) {
    if (chunk->before == NULL && region->own != NULL) return region->own;
    return (char *)(uintptr_t)chunk + lm_chunk_head(region);
}
/* The first of these in a spare chunk, which is never the one that the region lives in. */
LM_INLINE char *lm_spare_first(const loam_region *region, const lm_chunk_t *chunk) {
    return (char *)(uintptr_t)chunk + lm_chunk_head(region);
}
LM_INLINE char *lm_chunk_end(const lm_chunk_t *chunk) {
    return (char *)lm_align_down((uintptr_t)chunk + chunk->bytes, 16);
}

/* Whether the room is a freed extent, and the current chunk's position is in the chunk. */
LM_INLINE bool lm_region_in_hole(const loam_region *region) {
    return region->freed != NULL && region->freed->hole != NULL;
}
/* Where a chunk's objects and freed extents end. */
LM_INLINE char *lm_chunk_used(const loam_region *region, const lm_chunk_t *chunk) {
    if (chunk->given != NULL) return lm_chunk_end(chunk);
    if (chunk != region->chunk || lm_region_in_hole(region)) return chunk->at;
    return region->mode == LM_REGION_PLAIN ? region->room.at : region->hidden.at;
}

/* What an object takes in a region that is not checked: rounded to align, with the redzone. */
LM_INLINE size_t lm_region_whole(const loam_region *region, size_t bytes, size_t align) {
    size_t rounded = lm_align_up(bytes, align);
    return region->redzone == 0 ? rounded : lm_align_up(rounded, 16) + region->redzone;
}

LM_INLINE bool lm_region_possible(size_t bytes, size_t align) {
    return lm_is_pow2(align) && align <= PTRDIFF_MAX / 2 && bytes <= PTRDIFF_MAX - align - 1024;
}

/* Bytes that may be free before a free looks for chunks that can go: a region holds twice what is
 * live, and a chunk. */
LM_INLINE size_t lm_region_sort_at(const loam_region *region) {
    size_t chunk = region->chunk != NULL ? region->chunk->bytes : 0;
    return (region->held_bytes - region->spare_bytes + chunk) / 2;
}

/* Bytes that the region holds, but for spares and what the current chunk has left. */
LM_INLINE size_t lm_region_used(loam_region *region) {
    const lm_chunk_t *chunk = region->chunk;
    const char *at = lm_region_in_hole(region) ? chunk->at : lm_region_room(region)->at;
    size_t left = chunk->given == NULL ? (size_t)(lm_chunk_end(chunk) - at) : 0;
    return region->held_bytes - region->spare_bytes - left;
}

/* ---- region.c ---- */

/* As the program's calls, by the way that is always right. */
void *lm_region_alloc(loam_region *region, size_t bytes, size_t align, const char *file,
                      unsigned line);
void lm_region_free(loam_region *region, void *p, size_t bytes, size_t align, const char *file,
                    unsigned line);
/* bytes at a multiple of align, of the current chunk or another; no guards, no redzone. NULL iff no
 * memory. */
void *lm_region_carve(loam_region *region, size_t bytes, size_t align);
/* The tag of a live object of that size and alignment, in a checked region; NULL after a report. */
loam_tag *lm_region_find(const loam_region *region, const void *p, size_t bytes, size_t align,
                         const char *doing, const char *file, unsigned line);
/* Whether the region is the tombstone of one that has ended, which is reported. */
LM_INLINE bool lm_region_over(const loam_region *region, const char *doing, const char *file,
                              unsigned line) {
    return LM_UNLIKELY(region->mode == LM_REGION_ENDED) &&
           lm_entry_ended(&region->entry, doing, file, line);
}
/* Whether what objects have left is as they left it, in a checked region; false after a report. */
bool lm_region_check_gone(const loam_region *region);
/* Whether [p, p+bytes) is what was allocated last in the current chunk, and not older than a
 * mark. */
bool lm_region_is_last(loam_region *region, const char *p, size_t bytes);
/* Takes [p, p+bytes) back: by moving `at` iff it is the last; by the lists otherwise. */
void lm_region_release(loam_region *region, char *p, size_t bytes);
/* Moves the room's end on within the current chunk, so far that such an object fits that did not:
 * what is next to be used is made ready. false iff it does not fit into the chunk. */
bool lm_region_ready(loam_region *region, size_t bytes, size_t align);
void lm_region_put_chunk(loam_region *region, lm_chunk_t *chunk);
void *lm_region_get(loam_region *region, size_t bytes, size_t align, size_t *got);
void lm_region_put(loam_region *region, void *chunk, size_t got);

/* ---- region_array.c ---- */

/* bytes at a multiple of align, of a freed extent; what is left of that may become the room. NULL
 * iff none is found. */
void *lm_region_reuse(loam_region *region, size_t bytes, size_t align);
/* The room is the current chunk's again; what was left of the extent joins the lists. */
void lm_region_leave_hole(loam_region *region);
/* The memory behind the objects of a chunk that ceases to be current is a freed extent from now
 * on. */
void lm_region_give_tail(loam_region *region, lm_chunk_t *chunk);
/* The same of all chunks that are not current. Not while there are marks. */
void lm_region_give_tails(loam_region *region);
/* Freed extents that a mark had set aside are to be used again. */
void lm_region_merge(loam_region *region, lm_freed_set_t *older);
void lm_region_collect(loam_region *region, char *p, size_t bytes);
void lm_region_push(lm_freed_set_t *set, char *p, size_t bytes);
/* The room that an array at p has; `bytes` iff nothing else is known. forget: and it is known no
 * longer. */
size_t lm_region_capacity(loam_region *region, const char *p, size_t bytes, bool forget);
void *lm_region_large_alloc(loam_region *region, size_t bytes, size_t align);
void lm_region_large_free(loam_region *region, void *p);
size_t lm_region_large_room(const void *p);
size_t lm_region_large_serial(const void *p);
/* Whether freed extents and capacities are the region's; false after a report. */
bool lm_region_check_freed(const loam_region *region);
/* The list that keeps extents of so many bytes, 16 at least. */
unsigned lm_region_list_of(size_t bytes);
/* The set, made if there is none yet; NULL iff there is no memory. */
lm_freed_set_t *lm_region_freed_set(loam_region *region);

/* ---- region_life.c, region_check.c ---- */

/* In a checked region: objects from the current position back to `to` have ended, and it moves
 * there. */
void lm_region_back(loam_region *region, char *to);
/* Makes `bytes` more bytes available behind the current chunk's end. false iff the source gives
 * none there. */
bool lm_region_grow_chunk(loam_region *region, size_t bytes);
/* The chunk before is current again, the one that was goes to the spares. */
void lm_region_drop_chunk(loam_region *region);
/* Gives spares back that do not fit into `most` bytes, the larger first. Returns the bytes given
 * back. */
size_t lm_region_drop_spares(loam_region *region, size_t most);
/* What may be spare, by what recent rounds needed. */
size_t lm_region_spare_most(const loam_region *region);
/* Gives back what a contiguous source gave behind the current chunk's first `most` bytes, as far as
 * it is unused. */
void lm_region_shrink_chunk(loam_region *region, size_t most);

/* Joins neighbours among the freed extents, and, unless there are marks, gives chunks back that are
 * nothing else. */
void lm_region_sort(loam_region *region);

/* As loam_region_remove_cleanup, of one that is known to be there. */
void lm_region_remove_cleanup(loam_region *region, loam_region_cleanup *cleanup, bool run_it);
/* Cleanups newer than a mark's serial run; large objects that are go back. */
void lm_region_run_newer(loam_region *region, size_t serial);
void lm_region_free_newer(loam_region *region, size_t serial);
/* Guards of all objects of a checked region, and the bytes of those freed; false after a report. */
bool lm_region_check_objects(const loam_region *region);
extern const loam_kind lm_region_kind;

#endif

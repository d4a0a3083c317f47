/* region.c: chunks of a region (loam/region.h), and its objects without an inline path.
 *
 *   chunk ──> before ──> before ──> NULL     the first is current: its at and end are in the room
 *   spares ──> before ──> NULL               empty chunks, the smallest first after a reset
 *
 * Invariant: the position stored in a chunk that is not current is valid from the moment another
 * chunk becomes current until the chunk is current again.
 */
#include "family/region.h"

LM_STATIC_ASSERT(offsetof(loam_region, large_bytes) + sizeof(void *) <= 64,
                 "what the inline paths read is in one cache line");

enum { REGION_PROBES = 8 };

/* ---- The source ---- */

void *lm_region_get(loam_region *region, size_t bytes, size_t align, size_t *got) {
    LM_ASSERT(bytes != 0 && lm_is_pow2(align));
    void *chunk = loam_source_get(region->source, bytes, align, got);
    if (chunk == NULL) return NULL;
    region->requests++;
    region->held_bytes += *got;
    LM_METER(got(&region->entry, *got));
    if (region->held_bytes > region->peak_bytes) region->peak_bytes = region->held_bytes;
    return chunk;
}

void lm_region_put(loam_region *region, void *chunk, size_t got) {
    /* What is given back is spare no longer. */
    LM_ASSERT(got != 0 && got <= region->held_bytes - region->spare_bytes);
    region->held_bytes -= got;
    LM_METER(put(&region->entry, got));
    if (region->mode != LM_REGION_PLAIN) lm_tool_show_undefined(chunk, got);
    loam_source_put(region->source, chunk, got);
}

void lm_region_put_chunk(loam_region *region, lm_chunk_t *chunk) {
    size_t bytes = chunk->bytes;
    char *start = (char *)chunk;
    LM_ASSERT(chunk != region->chunk);
    if (lm_region_contiguous(region)) {
        lm_pieces_t pieces = *lm_chunk_pieces(chunk);
        LM_ASSERT(pieces.count != 0 && pieces.count <= LM_REGION_PIECES + 1);
        lm_tool_show_undefined(chunk, bytes);
        for (size_t i = pieces.count; i-- > 1;) {
            bytes -= pieces.got[i];
            lm_region_put(region, start + bytes, pieces.got[i]);
        }
        LM_ASSERT(bytes == pieces.got[0]);
    }
    lm_region_put(region, start, bytes);
}

/* ---- Memory that is not resident yet ----
 *
 *   chunk [ objects ... at ... end ] not touched so far ]
 *
 * A system provides memory page by page as it is touched, and a fault costs more than the page;
 * many pages at once cost half. So in a region that has become large, the room ends where memory is
 * ready, and the slow path lets the source prepare the next step. The step is a part of the memory
 * in use, so a region never holds much more than it used.
 * (docs/decisions/0015-regions-touch-ahead.md) */

enum { READY_FROM = 256 * 1024, READY_LEAST = LM_REGION_READY_LEAST, READY_MOST = 256 * 1024 };

/* Returns the bytes that the region would occupy if its current chunk were used up to `to`. */
static size_t occupied(const loam_region *region, const lm_chunk_t *chunk, const char *to) {
    return region->held_bytes - region->spare_bytes - chunk->bytes + (size_t)(to - (char *)chunk);
}

static LM_NOINLINE bool region_move_end(loam_region *region, size_t bytes, size_t align) {
    loam_region_room *room = lm_region_room(region);
    lm_chunk_t *chunk = region->chunk;
    char *end = lm_chunk_end(chunk);
    uintptr_t p = loam_region_round((uintptr_t)room->at, align), to = p + bytes;
    if (p < (uintptr_t)room->at || p > (uintptr_t)end || bytes > (uintptr_t)end - p) return false;
    size_t used = occupied(region, chunk, room->end), step = lm_align_down(used / 8, READY_LEAST);
    size_t left = (size_t)(end - room->end);
    if (step < READY_LEAST) step = READY_LEAST;
    if (step > READY_MOST) step = READY_MOST;
    if (to > (uintptr_t)room->end + step) {
        /* An object of more than a step need not be filled, so its memory is not prepared. */
        size_t past = lm_align_up((size_t)(to - (uintptr_t)room->end), READY_LEAST);
        room->end = past < left ? room->end + past : end;
        return true;
    }
    size_t ready = used < READY_FROM ? READY_LEAST
                                     : region->source->ready(region->source, room->end,
                                                             step < left ? step : left);
    room->end =
        ready != 0 && ready < left ? (char *)lm_align_down((uintptr_t)room->end + ready, 16) : end;
    return true;
}

bool lm_region_ready(loam_region *region, size_t bytes, size_t align) {
    const lm_chunk_t *chunk = region->chunk;
    return chunk != NULL && chunk->given == NULL && !lm_region_in_hole(region) &&
           lm_region_room(region)->end != lm_chunk_end(chunk) &&
           region_move_end(region, bytes, align);
}

/* ---- Chunks ---- */

/* Makes a chunk current, with room for objects from `first` on. */
LM_INLINE void make_current(loam_region *region, lm_chunk_t *chunk, char *first) {
    loam_region_room *room = lm_region_room(region);
    lm_chunk_t *before = region->chunk;
    LM_ASSERT(chunk != before && first <= lm_chunk_end(chunk));
    if (before != NULL) {
        region->chunk->at = room->at;
        region->chunk->end = room->end;
        region->chunk->floor = room->floor;
    }
    chunk->before = before;
    region->chunk = chunk;
    region->turns++;
    room->at = first;
    room->end = chunk->end > first ? chunk->end : first;
    room->floor = before != NULL ? first : first - 1;
    if (region->mode != LM_REGION_PLAIN)
        lm_tool_hide(first, (size_t)((char *)chunk + chunk->bytes - first));
    size_t used = region->held_bytes - region->spare_bytes;
    if (used > region->round_bytes) region->round_bytes = used;
}

/* Returns the bytes of the next chunk, which needs at least `need`. */
static size_t chunk_bytes(const loam_region *region, size_t need) {
    size_t bytes = region->first_bytes;
    if (region->growth == LOAM_GROWTH_DOUBLE && region->chunk != NULL) {
        size_t last = region->chunk->bytes, most = region->most_bytes;
        if (region->freed != NULL) {
            /* Limits the chunk so that the region holds at most about twice its live memory: if
             * much is free but unusable, the chunk is as small as possible. So the newest chunk
             * need not be the largest. */
            LM_ASSERT(region->spare_bytes <= region->held_bytes);
            size_t free = 2 * region->freed->bytes, held = region->held_bytes - region->spare_bytes;
            size_t left = held > free ? held - free : 0;
            if (left < most) most = left;
            const lm_chunk_t *chunk = region->chunk->before;
            for (int i = 0; i < REGION_PROBES && chunk != NULL; i++, chunk = chunk->before)
                if (chunk->bytes > last) last = chunk->bytes;
        }
        bytes = last < most / 2 ? 2 * last : most;
        if (bytes < region->first_bytes) bytes = region->first_bytes;
    }
    if (bytes >= need) return bytes;
    if (region->growth == LOAM_GROWTH_FIXED) {
        while (bytes < need && bytes <= PTRDIFF_MAX / 2) bytes *= 2;
        if (bytes >= need) return bytes;
    }
    return need;
}

static lm_chunk_t *region_take_spare(loam_region *region, size_t need) {
    struct loam_region_chunk **link = &region->spares;
    for (int i = 0; i < REGION_PROBES && *link != NULL; i++, link = &(*link)->before) {
        lm_chunk_t *chunk = *link;
        if (chunk->bytes < need) continue;
        LM_ASSERT(chunk != region->chunk && chunk->given == NULL);
        LM_ASSERT(chunk->bytes <= region->spare_bytes);
        *link = chunk->before;
        region->spare_bytes -= chunk->bytes;
        return chunk;
    }
    return NULL;
}

/* Gets a new chunk. If the source has not enough memory, half of the size is tried, and so on. */
static lm_chunk_t *get_chunk(loam_region *region, size_t need) {
    LM_ASSERT((need & 15) == 0 && need >= lm_chunk_head(region));
    size_t got, bytes = chunk_bytes(region, need);
    lm_chunk_t *chunk;
    for (;;) {
        chunk = (lm_chunk_t *)lm_region_get(region, bytes, region->chunk_align, &got);
        if (chunk != NULL || bytes == need || region->fixed) break;
        bytes = bytes / 2 > need ? lm_align_up(bytes / 2, 16) : need;
    }
    if (chunk == NULL) return NULL;
    lm_region_begin_chunk(region->source, region->mode == LM_REGION_PLAIN, chunk, got);
    if (region->mode != LM_REGION_PLAIN) chunk->gone = NULL;
    return chunk;
}

/* Makes another chunk current, with room for `bytes` bytes at that alignment. Returns false iff
 * there is no memory. */
static bool region_turn(loam_region *region, size_t bytes, size_t align) {
    LM_ASSERT(!lm_region_in_hole(region));
    LM_ASSERT(region->own == NULL || region->chunk != NULL); /* its own chunk stays */
    size_t need = bytes + lm_chunk_head(region) + (align > 16 ? align - 16 : 0);
    if (bytes > (size_t)PTRDIFF_MAX - 1024 || align > (size_t)PTRDIFF_MAX / 2 || need < bytes ||
        need > (size_t)PTRDIFF_MAX)
        return false;
    need = lm_align_up(need, 16);
    loam_region_room *room = lm_region_room(region);
    if (region->fixed && (region->chunk != NULL || need > region->first_bytes)) return false;
    if (region->chunk != NULL && region->chunk->given == NULL && lm_region_contiguous(region)) {
        char *p = (char *)loam_region_round((uintptr_t)room->at, align);
        size_t past =
            p > room->end ? (size_t)(p - room->end) + bytes : bytes - (size_t)(room->end - p);
        if (lm_region_grow_chunk(region, past)) return true;
    }
    lm_chunk_t *chunk = region_take_spare(region, need);
    if (chunk == NULL) chunk = get_chunk(region, need);
    if (chunk == NULL) return false;
    lm_chunk_t *before = region->chunk;
    make_current(region, chunk, (char *)chunk + lm_chunk_head(region));
    /* Not while there is a mark in it: rewinding to the mark requires the chunk as it was. */
    if (before != NULL && region->freed != NULL && region->mode != LM_REGION_CHECKED &&
        (region->marks == 0 || before->floor == lm_chunk_first(region, before)))
        lm_region_give_tail(region, before);
    return true;
}

/* ---- Objects ---- */

static void *region_cut(loam_region_room *room, size_t bytes, size_t align) {
    uintptr_t p = loam_region_round((uintptr_t)room->at, align), end = (uintptr_t)room->end;
    if (room->at == NULL || p < (uintptr_t)room->at || p > end || bytes > end - p) return NULL;
    room->at = (char *)(p + bytes);
    return (void *)p;
}

/* Cuts an object from freed extents, or from the rest of the current chunk. */
static void *recut(loam_region *region, size_t bytes, size_t align) {
    void *p = lm_region_reuse(region, bytes, align);
    if (p != NULL) return p;
    lm_region_leave_hole(region);
    return region_cut(lm_region_room(region), bytes, align);
}

/* Returns whether enough memory is free, and enough of it was freed since neighbours were joined.
 * Sorting costs a step per extent, so each step must pay for some extents. */
static bool is_worth_sorting(const loam_region *region, size_t bytes) {
    const lm_freed_set_t *set = region->freed;
    return set->bytes >= bytes && set->unsorted > set->count / 4;
}

/* Cuts an object from memory that was not used before. */
static void *cut_new(loam_region *region, size_t bytes, size_t align) {
    loam_region_room *room = lm_region_room(region);
    void *p = region_cut(room, bytes, align);
    return p == NULL && lm_region_ready(region, bytes, align) ? region_cut(room, bytes, align) : p;
}

/* As lm_region_carve, for a region in which something was freed. */
static void *carve_again(loam_region *region, size_t bytes, size_t align) {
    void *p = recut(region, bytes, align);
    if (p == NULL) p = cut_new(region, bytes, align);
    if (p == NULL && is_worth_sorting(region, bytes)) {
        lm_region_sort(region);
        p = recut(region, bytes, align);
    }
    if (p == NULL && region_turn(region, bytes, align)) p = cut_new(region, bytes, align);
    return p;
}

static void *carve_checked(loam_region *region, size_t bytes, size_t align) {
    loam_region_room *room = lm_region_room(region);
    lm_chunk_t *chunk = region->chunk;
    char *at = room->at;
    void *p = region_cut(room, bytes, align);
    if (p == NULL && !region_turn(region, bytes, align)) return NULL;
    if (p == NULL) {
        if (region->chunk != chunk) at = room->at;
        p = region_cut(room, bytes, align);
    }
    if (p == NULL) return NULL;
    chunk = region->chunk;
    LM_ASSERT(at <= (char *)p && at >= lm_chunk_first(region, chunk));
    LM_ASSERT(room->at <= lm_chunk_end(chunk));
    LM_ASSERT((((uintptr_t)at | (uintptr_t)room->at) & 15) == 0); /* units have 16 bytes */
    chunk->gone = lm_gone_take(&region->entry, at, (char *)p, room->at, chunk->gone);
    return p;
}

void *lm_region_carve(loam_region *region, size_t bytes, size_t align) {
    LM_ASSERT(lm_is_pow2(align));
    if (LM_UNLIKELY(region->mode == LM_REGION_CHECKED)) return carve_checked(region, bytes, align);
    void *p = region_cut(lm_region_room(region), bytes, align);
    if (p != NULL) return p;
    if (region->freed != NULL) return carve_again(region, bytes, align);
    if (lm_region_ready(region, bytes, align)) p = region_cut(lm_region_room(region), bytes, align);
    return p == NULL && region_turn(region, bytes, align) ? cut_new(region, bytes, align) : p;
}

bool lm_region_is_last(loam_region *region, const char *p, size_t bytes) {
    const loam_region_room *room = lm_region_room(region);
    LM_ASSERT(room->floor <= room->at && room->at <= room->end);
    return bytes != 0 && p + bytes == room->at &&
           (p > room->floor || (p == room->floor && !lm_region_in_hole(region) &&
                                p == lm_chunk_first(region, region->chunk)));
}

void lm_region_release(loam_region *region, char *p, size_t bytes) {
    loam_region_room *room = lm_region_room(region);
    if (!lm_region_is_last(region, p, bytes)) {
        lm_region_collect(region, p, bytes);
        return;
    }
    if (region->mode == LM_REGION_CHECKED) lm_region_back(region, p);
    room->at = p;
    if (p == room->floor) lm_region_drop_chunk(region);
}

static void *alloc_checked(loam_region *region, size_t bytes, size_t align, const char *file,
                           unsigned line) {
    unsigned asked = lm_log2(align) & 63;
    if (align < 16) align = 16;
    size_t raw_bytes = lm_guard_whole(bytes, align);
    if (raw_bytes == 0) return NULL;
    void *raw = raw_bytes > region->large_bytes ? lm_region_large_alloc(region, raw_bytes, align)
                                                : lm_region_carve(region, raw_bytes, align);
    if (raw == NULL) return NULL;
    void *p = lm_guard_open(&region->entry, raw, raw_bytes, bytes, align, file, line);
    LM_ASSERT(((uintptr_t)p & (align - 1)) == 0);
    ((loam_tag *)p - 1)->align_log2 = asked;
    return p;
}

void *lm_region_alloc(loam_region *region, size_t bytes, size_t align, const char *file,
                      unsigned line) {
    if (lm_region_over(region, "allocation", file, line)) return NULL;
    if (!lm_region_possible(bytes, align)) return NULL;
    if (region->mode == LM_REGION_CHECKED) return alloc_checked(region, bytes, align, file, line);
    void *p = bytes > region->large_bytes
                  ? lm_region_large_alloc(region, bytes, align)
                  : lm_region_carve(region, lm_region_whole(region, bytes, align), align);
    if (p != NULL && region->mode == LM_REGION_WATCHED) lm_tool_show_undefined(p, bytes);
    return p;
}

loam_region_made loam_region_alloc_slow(loam_region *region, size_t bytes, size_t align,
                                        const char *file, unsigned line) {
    void *object = lm_region_alloc(region, bytes, align, file, line);
    return (loam_region_made){object, region->room.at};
}

static void region_free_checked(loam_region *region, void *p, size_t bytes, size_t align,
                                const char *file, unsigned line) {
    loam_tag *tag = lm_region_find(region, p, bytes, align, "free", file, line);
    if (tag == NULL) return;
    size_t raw_bytes = tag->raw_bytes;
    char *raw = (char *)lm_guard_close(&region->entry, tag, file, line);
    if (raw_bytes > region->large_bytes) {
        lm_region_large_free(region, raw);
    } else if (lm_region_is_last(region, raw, raw_bytes)) {
        lm_region_release(region, raw, raw_bytes);
    } else {
        tag->next = region->dead; /* its bytes are checked until it is gone for good */
        region->dead = tag;
    }
}

void lm_region_free(loam_region *region, void *p, size_t bytes, size_t align, const char *file,
                    unsigned line) {
    if (p == NULL || lm_region_over(region, "free", file, line)) return;
    if (region->mode == LM_REGION_CHECKED) {
        region_free_checked(region, p, bytes, align, file, line);
    } else if (bytes > region->large_bytes) {
        lm_region_large_free(region, p);
    } else if (bytes != 0 || region->redzone != 0) {
        /* An empty object may share its address with another. */
        size_t all =
            lm_region_capacity(region, (char *)p, lm_region_whole(region, bytes, align), true);
        lm_tool_hide(p, all);
        lm_region_release(region, (char *)p, all);
    }
}

char *loam_region_free_slow(loam_region *region, void *p, size_t bytes, size_t align,
                            const char *file, unsigned line) {
    lm_region_free(region, p, bytes, align, file, line);
    return region->room.at;
}

/* ---- Copies ---- */

void *loam_region_memdup_at(loam_region *region, const void *from, size_t bytes, const char *file,
                            unsigned line) {
    return lm_copy(loam_region_alloc_at(region, bytes, file, line), from, bytes);
}

char *loam_region_strndup_at(loam_region *region, const char *from, size_t most, const char *file,
                             unsigned line) {
    size_t length = lm_text_length(from, most);
    return lm_copy_text(loam_region_alloc_aligned_at(region, length + 1, 1, file, line), from,
                        length);
}

char *loam_region_strdup_at(loam_region *region, const char *from, const char *file,
                            unsigned line) {
    return loam_region_strndup_at(region, from, PTRDIFF_MAX, file, line);
}

/* region_check.c: usage, origin of addresses and invariants of a region (loam/region.h). */
#include "family/region.h"

static const loam_region_room *region_check_room_of(const loam_region *region) {
    return region->mode == LM_REGION_PLAIN ? &region->room : &region->hidden;
}

/* Returns whether the chunk's position is in the room. */
static bool is_room(const loam_region *region, const lm_chunk_t *chunk) {
    return chunk == region->chunk && !lm_region_in_hole(region);
}

loam_tag *lm_region_find(const loam_region *region, const void *p, size_t bytes, size_t align,
                         const char *doing, const char *file, unsigned line) {
    LM_ASSERT(region->mode == LM_REGION_CHECKED);
    loam_tag *tag = lm_guard_find(&region->entry, p, doing, file, line);
    size_t asked = tag != NULL ? (size_t)1 << tag->align_log2 : 0;
    if (tag == NULL || (tag->bytes == bytes && asked == align)) return tag;
    if (tag->bytes == bytes) {
        lm_family_misuse(&region->entry, file, line,
                         "%s of %p with alignment %zu, allocated with %zu at %s:%u", doing, p,
                         align, asked, tag->file != NULL ? tag->file : "?", tag->line);
        return NULL;
    }
    lm_family_misuse(&region->entry, file, line,
                     "%s of %p with %zu bytes, allocated with %zu at %s:%u", doing, p, bytes,
                     tag->bytes, tag->file != NULL ? tag->file : "?", tag->line);
    return NULL;
}

bool loam_region_contains(const loam_region *region, const void *p) {
    if (lm_region_over(region, "contains", NULL, 0)) return false;
    const char *at = (const char *)p;
    for (const lm_chunk_t *chunk = region->chunk; chunk != NULL; chunk = chunk->before) {
        if (at >= lm_chunk_first(region, chunk) && at < lm_chunk_used(region, chunk)) return true;
    }
    for (const lm_large_t *large = region->large; large != NULL; large = large->older) {
        if (at >= (const char *)(large + 1) && at < large->chunk + large->got) return true;
    }
    return false;
}

void loam_region_usage(const loam_region *region, loam_usage *usage) {
    size_t chunks = 0, used = 0, objects = 0;
    if (lm_region_over(region, "usage", NULL, 0)) {
        *usage = (loam_usage){.kind = region->entry.kind->name, .name = ""};
        return;
    }
    for (const lm_chunk_t *chunk = region->chunk; chunk != NULL; chunk = chunk->before, chunks++)
        used += (size_t)(lm_chunk_used(region, chunk) - lm_chunk_first(region, chunk));
    for (const lm_chunk_t *chunk = region->spares; chunk != NULL; chunk = chunk->before) chunks++;
    for (const lm_large_t *large = region->large; large != NULL; large = large->older, chunks++)
        used += lm_region_large_room(large + 1);
    for (const loam_tag *tag = region->entry.live; tag != NULL; tag = tag->next) objects++;
    if (region->freed != NULL) used -= region->freed->bytes;
    if (lm_region_in_hole(region))
        used -= (size_t)(region_check_room_of(region)->end - region_check_room_of(region)->at);
    *usage = (loam_usage){
        .kind = region->entry.kind->name,
        .name = region->entry.name != NULL ? region->entry.name : "",
        .held_bytes = region->held_bytes,
        .used_bytes = used,
        .peak_bytes = region->peak_bytes,
        .chunks = chunks,
        .requests = region->requests,
        .objects = region->mode == LM_REGION_CHECKED ? objects : LOAM_UNKNOWN,
    };
}

/* ---- Invariants ---- */

static bool region_check_broken(const loam_region *region, const char *what, const void *where) {
    lm_family_misuse(&region->entry, NULL, 0, "%s, at %p", what, where);
    return false;
}

static bool check_chunks(const loam_region *region, size_t *bytes) {
    for (const lm_chunk_t *chunk = region->chunk; chunk != NULL; chunk = chunk->before) {
        const char *first = lm_chunk_first(region, chunk);
        const char *at = is_room(region, chunk) ? region_check_room_of(region)->at : chunk->at;
        const char *floor =
            is_room(region, chunk) ? region_check_room_of(region)->floor : chunk->floor;
        const char *end = is_room(region, chunk) ? region_check_room_of(region)->end : chunk->end;
        if (at < first || at > lm_chunk_end(chunk))
            return region_check_broken(region, "a chunk's position is outside of it", chunk);
        if (chunk->given != NULL && (at > chunk->given || end != chunk->given))
            return region_check_broken(region, "a chunk's tail is not its own", chunk);
        if (floor < first - 1 || floor > at)
            return region_check_broken(region, "a chunk's floor is outside of it", chunk);
        if (lm_region_contiguous(region)) {
            const lm_pieces_t *pieces = lm_chunk_pieces((lm_chunk_t *)(uintptr_t)chunk);
            size_t sum = 0;
            for (size_t i = 0; i < pieces->count && i <= LM_REGION_PIECES; i++)
                sum += pieces->got[i];
            if (sum != chunk->bytes)
                return region_check_broken(region, "a chunk's pieces are not it", chunk);
        }
        *bytes += chunk->bytes;
    }
    return true;
}

static bool region_check_room(const loam_region *region) {
    const loam_region_room *room = region_check_room_of(region);
    const lm_chunk_t *chunk = region->chunk;
    if (region->mode != LM_REGION_PLAIN &&
        (region->room.at != NULL || region->room.end != NULL || region->room.floor != NULL))
        return region_check_broken(region, "inline paths are open", region);
    if (lm_region_in_hole(region)) {
        const char *hole = region->freed->hole;
        return (hole <= room->at && room->at <= room->end && room->floor == hole - 1 &&
                ((uintptr_t)room->end & 15) == 0 &&
                (hole == room->end || loam_region_contains(region, hole))) ||
               region_check_broken(region, "the hole that is the room", hole);
    }
    if (chunk == NULL ? room->end != NULL
                      : room->end < room->at || room->end > lm_chunk_end(chunk) ||
                            ((uintptr_t)room->end & 15) != 0)
        return region_check_broken(region, "the end is not in the current chunk", room->end);
    return true;
}

static bool check_lists(const loam_region *region, size_t *bytes) {
    struct loam_region_large *const *link = &region->large;
    for (const lm_large_t *large = *link; large != NULL; link = &large->older, large = *link) {
        if (large->link != link)
            return region_check_broken(region, "the list of large objects", large);
        *bytes += large->got;
    }
    loam_region_cleanup *const *next = &region->cleanups;
    for (const lm_cleanup_t *cleanup = *next; cleanup != NULL;
         next = &cleanup->older, cleanup = *next) {
        if (cleanup->link != next || cleanup->serial > region->serial)
            return region_check_broken(region, "the list of cleanups", cleanup);
    }
    size_t spare = 0;
    for (const lm_chunk_t *chunk = region->spares; chunk != NULL; chunk = chunk->before)
        spare += chunk->bytes;
    *bytes += spare;
    return spare == region->spare_bytes ||
           region_check_broken(region, "the spare chunks", region->spares);
}

/* Checks the extents of one list, and adds up their bytes and number. */
LM_READS_ANYTHING static bool extents_are_whole(const loam_region *region, unsigned list,
                                                size_t *bytes, size_t *count) {
    const lm_freed_t *freed = region->freed->lists[list];
    for (; freed != NULL; freed = freed->next, ++*count) {
        bool known = loam_region_contains(region, freed) && *count < region->freed->count;
        if (!known || (list != 0 && (lm_region_list_of(freed->bytes) != list))) {
            lm_family_misuse(&region->entry, NULL, 0, "a freed extent was written to, at %p",
                             (const void *)freed);
            return false;
        }
        *bytes += list != 0 ? freed->bytes : sizeof(void *);
    }
    return true;
}

static bool freed_are_whole(const loam_region *region) {
    const lm_freed_set_t *set = region->freed;
    size_t bytes = 0, count = 0;
    if (set == NULL) return true;
    for (unsigned i = 0; i < LM_REGION_LISTS; i++) {
        if ((set->lists[i] != NULL) != (set->nonempty >> i & 1))
            return region_check_broken(region, "the lists of freed extents", set);
        if (!extents_are_whole(region, i, &bytes, &count)) return false;
    }
    if (bytes != set->bytes || count != set->count)
        return region_check_broken(region, "the count of freed extents", set);
    for (size_t i = 0; i < set->grown_slots; i++) {
        const char *p = set->grown[i].p;
        if (p != NULL && !loam_region_contains(region, p))
            return region_check_broken(region, "the room of an array that is not there", p);
    }
    return true;
}

bool lm_region_check_freed(const loam_region *region) {
    lm_tool_pause();
    bool good = freed_are_whole(region);
    lm_tool_resume();
    return good;
}

bool lm_region_check_gone(const loam_region *region) {
    bool good = true;
    for (const lm_chunk_t *chunk = region->chunk; chunk != NULL; chunk = chunk->before)
        good = lm_gone_check(&region->entry, lm_chunk_used(region, chunk), chunk->gone) && good;
    for (const lm_chunk_t *chunk = region->spares; chunk != NULL; chunk = chunk->before)
        good = lm_gone_check(&region->entry, lm_spare_first(region, chunk), chunk->gone) && good;
    return good;
}

bool loam_region_check(const loam_region *region) {
    size_t bytes = 0;
    if (lm_region_over(region, "check", NULL, 0)) return false;
    if (!region_check_room(region) || !check_chunks(region, &bytes) || !check_lists(region, &bytes))
        return false;
    if (bytes != region->held_bytes)
        return region_check_broken(region, "chunks are lost", region->chunk);
    if (!lm_region_check_freed(region)) return false;
    if (region->mode != LM_REGION_CHECKED) return true;
    bool good = lm_region_check_objects(region);
    return lm_region_check_gone(region) && good;
}

static const loam_region *region_of(const loam_entry *entry) {
    return LM_CONTAINER(entry, loam_region, entry);
}
static void region_check_usage_of(const loam_entry *entry, loam_usage *usage) {
    loam_region_usage(region_of(entry), usage);
}
static bool region_check_of(const loam_entry *entry) { return loam_region_check(region_of(entry)); }

const loam_kind lm_region_kind = {"region", region_check_usage_of, region_check_of, NULL};

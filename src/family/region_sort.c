/* region_sort.c: joins adjacent freed extents of a region (loam/region.h, decision 0047).
 *
 *   extents    [ x ][ x ]   [ x ]    [ x x x x ]      by falling addresses
 *   chunks     [ object x x room ]   [ all of it ]    by falling addresses
 *              the room absorbs      the chunk goes to the spares, or back to the source
 *              what is next to it
 *
 * One walk through both lists finds adjacent extents, extents next to the room, and chunks that
 * hold no object. While there are marks, it only joins extents, because a chunk that is rewound to
 * must be as it was. The time is proportional to the number of extents, so callers sort only when
 * enough was freed since the last time. Invariant: before and after, the lists contain the same
 * memory, except for what joined the room or was given back; lm_region_check_freed counts it.
 */
#include "family/region.h"

enum { SORT_DIGIT = 6, SORT_DIGITS = 1 << SORT_DIGIT };
typedef char *link_t __attribute__((may_alias, aligned(1)));

LM_READS_ANYTHING static char *sort_next_of(const char *p, size_t link) {
    return *(const link_t *)(const void *)(p + link);
}
LM_READS_ANYTHING static void set_next(char *p, size_t link, char *next) {
    *(link_t *)(void *)(p + link) = next;
}

/* Sorts a list by falling addresses. The link of each member is `link` bytes after its address.
 * Sorts by digits, the lowest first; the time is proportional to the number of members. */
static char *sort_down(char *list, size_t link) {
    uintptr_t differ = 0;
    for (const char *p = list; p != NULL; p = sort_next_of(p, link))
        differ |= (uintptr_t)p ^ (uintptr_t)list;
    if (differ == 0) return list;
    for (unsigned shift = lm_lowest_bit(differ); shift < 8 * sizeof(differ) && differ >> shift != 0;
         shift += SORT_DIGIT) {
        char *heads[SORT_DIGITS] = {0}, *lasts[SORT_DIGITS] = {0}, *last = NULL, *next;
        for (char *p = list; p != NULL; p = next) {
            size_t digit = (uintptr_t)p >> shift & (SORT_DIGITS - 1);
            next = sort_next_of(p, link);
            if (heads[digit] == NULL)
                heads[digit] = p;
            else
                set_next(lasts[digit], link, p);
            lasts[digit] = p;
        }
        for (size_t digit = SORT_DIGITS; digit-- > 0;) {
            if (heads[digit] == NULL) continue;
            if (last == NULL)
                list = heads[digit];
            else
                set_next(last, link, heads[digit]);
            last = lasts[digit];
        }
        set_next(last, link, NULL);
    }
    return list;
}

/* All extents by falling addresses: the smallest, which have a list of their own, and the
 * others. */
typedef struct extents {
    char *small, *others;
} extents_t;

static extents_t sort_take_all(lm_freed_set_t *set) {
    size_t link = offsetof(lm_freed_t, next);
    extents_t all = {(char *)set->lists[0], NULL};
    for (unsigned list = 1; list < LM_REGION_LISTS; list++) {
        for (char *p = (char *)set->lists[list], *next; p != NULL; p = next) {
            next = sort_next_of(p, link);
            set_next(p, link, all.others);
            all.others = p;
        }
        set->lists[list] = NULL;
    }
    set->lists[0] = NULL;
    set->nonempty = 0;
    set->bytes = set->count = 0;
    return (extents_t){sort_down(all.small, link), sort_down(all.others, link)};
}

/* Takes the extent with the highest address. Returns NULL iff there is none left. */
LM_READS_ANYTHING static char *take_highest(extents_t *all, size_t *bytes) {
    bool small = all->small > all->others;
    char **list = small ? &all->small : &all->others, *p = *list;
    if (p == NULL) return NULL;
    const lm_freed_t *freed = (const lm_freed_t *)(const void *)p;
    *bytes = small ? sizeof(void *) : freed->bytes;
    *list = (char *)freed->next;
    return p;
}

/* Lets a free extent before or after the current chunk's room join the room. Returns false iff it
 * is not adjacent. */
static bool join_room(loam_region *region, char *p, size_t bytes) {
    loam_region_room *room = lm_region_room(region);
    lm_chunk_t *chunk = region->chunk;
    char *end = p + bytes;
    bool behind = p == room->end || (room->at == room->end && p <= room->at);
    if (chunk->given != NULL && end == lm_chunk_end(chunk) && behind) {
        if (p < room->at) room->at = p;
        room->end = end;
        chunk->given = NULL;
        return true;
    }
    if (end != room->at) return false;
    room->at = p;
    return true;
}

/* Marks a chunk that holds no object by clearing its position. Returns false iff it holds one, or
 * must stay. */
static bool leave_chunk(loam_region *region, lm_chunk_t *chunk, const char *p, size_t bytes) {
    bool home = chunk->before == NULL && region->own != NULL;
    if (home || lm_region_contiguous(region) || p != lm_chunk_first(region, chunk) ||
        p + bytes != lm_chunk_end(chunk))
        return false;
    chunk->at = NULL;
    return true;
}

/* Restores a chunk that stays. Returns the bytes that its objects and freed extents take. */
static size_t sort_keep(const loam_region *region, lm_chunk_t *chunk) {
    bool stays = chunk->given != NULL || chunk->before == NULL;
    char *first = lm_chunk_first(region, chunk);
    chunk->floor = stays ? first - 1 : first;
    LM_ASSERT(lm_chunk_used(region, chunk) >= first);
    return (size_t)(lm_chunk_used(region, chunk) - first);
}

/* Drops the chunks that hold no object, except one, which becomes a spare, and the newest. Returns
 * the bytes that objects and freed extents take in the other chunks. */
static size_t drop_left(loam_region *region) {
    lm_chunk_t *newest = region->chunk;
    size_t taken = sort_keep(region, newest);
    struct loam_region_chunk **link = &newest->before;
    for (lm_chunk_t *chunk; (chunk = *link) != NULL;) {
        if (chunk->at != NULL) {
            taken += sort_keep(region, chunk);
            link = &chunk->before;
            continue;
        }
        *link = chunk->before;
        chunk->end = lm_chunk_end(chunk);
        chunk->given = NULL;
        if (region->spares != NULL) {
            lm_region_put_chunk(region, chunk);
            continue;
        }
        chunk->before = NULL;
        region->spares = chunk;
        region->spare_bytes += chunk->bytes;
    }
    loam_region_room *room = lm_region_room(region);
    room->floor = newest->floor;
    if (newest->given != NULL) taken -= (size_t)(room->end - room->at);
    if (room->at == room->floor) lm_region_drop_chunk(region);
    return taken;
}

/* Lets the tails of chunks join the extents. Returns the chunks by falling addresses, linked by
 * their floors. */
static lm_chunk_t *sort_chunks(loam_region *region) {
    lm_region_give_tails(region);
    for (lm_chunk_t *chunk = region->chunk; chunk != NULL; chunk = chunk->before)
        chunk->floor = (char *)chunk->before;
    return (lm_chunk_t *)(void *)sort_down((char *)region->chunk, offsetof(lm_chunk_t, floor));
}

void lm_region_sort(loam_region *region) {
    lm_freed_set_t *set = region->freed;
    bool chunks = region->marks == 0;
    LM_ASSERT(set != NULL && region->chunk != NULL); /* the set lies in a chunk */
    LM_ASSERT(region->mode != LM_REGION_CHECKED);
    lm_tool_pause();
    lm_region_leave_hole(region);
    lm_chunk_t *chunk = chunks ? sort_chunks(region) : NULL;
    extents_t all = sort_take_all(set);
    size_t bytes = 0, more = 0;
    for (char *p = take_highest(&all, &bytes), *next; p != NULL; p = next, bytes = more) {
        while ((next = take_highest(&all, &more)) != NULL && next + more == p) {
            p = next;
            bytes += more;
        }
        LM_ASSERT(next == NULL || next + more < p);
        while (chunk != NULL && (char *)chunk > p) chunk = (lm_chunk_t *)(void *)chunk->floor;
        LM_ASSERT(!chunks || (chunk != NULL && p + bytes <= (char *)chunk + chunk->bytes));
        bool gone = chunk == NULL            ? false
                    : chunk == region->chunk ? join_room(region, p, bytes)
                                             : leave_chunk(region, chunk, p, bytes);
        if (!gone) lm_region_push(set, p, bytes);
    }
    lm_tool_resume();
    set->unsorted = 0;
    if (!chunks) return;
    /* A free looks for chunks again once half of the memory that is live now has been freed. */
    size_t taken = drop_left(region), live = taken - set->bytes - sizeof(*set);
    LM_ASSERT(live < taken);
    set->sort_at = lm_region_sort_at(region);
    if (set->sort_at < set->bytes + live / 2) set->sort_at = set->bytes + live / 2;
}

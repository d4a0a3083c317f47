/* region_life.c: the end of a region's objects and chunks (loam/region.h): marks, reset, trim,
 * cleanups, children.
 *
 *   serial    1   2   3   4   5   6        of large objects and cleanups, in order of creation
 *   mark              ^                    rewinding ends those with a higher number
 *
 * A mark sets the freed lists aside and starts new ones, which lie in memory newer than the mark.
 * So rewinding to it drops the new lists with that memory, and finds the old ones as they were,
 * however objects were reused meanwhile. Invariant: everything that a mark records still exists
 * when it is rewound to, because objects older than it are not reused when they are freed.
 */
#include "family/region.h"

/* ---- Cleanups ---- */

enum { REMOVED_MOST = 64 };

/* Returns whether the oldest removed record may be reused. In a checked region that requires
 * REMOVED_MOST waiting records, so that a second removal is detected. */
static bool may_reuse(const loam_region *region, const lm_cleanup_t *removed) {
    if (LM_LIKELY(region->mode != LM_REGION_CHECKED)) return true;
    unsigned count = 0;
    for (; removed != NULL && count <= REMOVED_MOST; removed = removed->older) count++;
    return count > REMOVED_MOST;
}

/* Appends the record to the removed ones, in a checked region. */
static void wait_as_removed(loam_region *region, lm_cleanup_t *cleanup) {
    LM_ASSERT(cleanup->link == NULL);
    lm_freed_set_t *set = lm_region_freed_set(region);
    if (set == NULL) return;
    lm_cleanup_t **end = &set->cleanups;
    while (*end != NULL) end = &(*end)->older;
    cleanup->older = NULL;
    *end = cleanup;
}

loam_region_cleanup *loam_region_add_cleanup(loam_region *region, void (*run)(void *argument),
                                             void *argument) {
    lm_freed_set_t *set = region->freed;
    lm_cleanup_t *cleanup;
    if (lm_region_over(region, "add_cleanup", NULL, 0)) return NULL;
    if (set != NULL && set->cleanups != NULL && may_reuse(region, set->cleanups)) {
        cleanup = set->cleanups;
        LM_ASSERT(cleanup->link == NULL);
        set->cleanups = cleanup->older;
    } else {
        cleanup = (lm_cleanup_t *)lm_region_carve(region, sizeof(*cleanup), 16);
        if (cleanup == NULL) return NULL;
        lm_tool_show_undefined(cleanup, sizeof(*cleanup));
    }
    *cleanup = (lm_cleanup_t){region->cleanups, &region->cleanups, run, argument, ++region->serial};
    LM_ASSERT(cleanup->older == NULL || (cleanup->older->link == &region->cleanups &&
                                         cleanup->older->serial < cleanup->serial));
    if (cleanup->older != NULL) cleanup->older->link = &cleanup->older;
    region->cleanups = cleanup;
    return cleanup;
}

static void unlink_cleanup(lm_cleanup_t *cleanup) {
    LM_ASSERT(cleanup->link != NULL && *cleanup->link == cleanup);
    LM_ASSERT(cleanup->older == NULL || cleanup->older->link == &cleanup->older);
    *cleanup->link = cleanup->older;
    if (cleanup->older != NULL) cleanup->older->link = cleanup->link;
    cleanup->link = NULL;
}

void lm_region_remove_cleanup(loam_region *region, loam_region_cleanup *cleanup, bool run_it) {
    void (*run)(void *) = cleanup->run;
    void *argument = cleanup->argument;
    unlink_cleanup(cleanup);
    if (region->mode == LM_REGION_CHECKED) {
        wait_as_removed(region, cleanup);
        if (run_it) run(argument);
        return;
    }
    loam_region_room *room = lm_region_room(region);
    if ((char *)(cleanup + 1) == room->at && (char *)cleanup > room->floor) {
        lm_tool_hide(cleanup, sizeof(*cleanup));
        room->at = (char *)cleanup;
    } else {
        lm_freed_set_t *set = lm_region_freed_set(region);
        if (set != NULL) {
            cleanup->older = set->cleanups;
            set->cleanups = cleanup;
        }
    }
    if (run_it) run(argument);
}

void loam_region_remove_cleanup(loam_region *region, loam_region_cleanup *cleanup, bool run_it) {
    if (lm_region_over(region, "remove_cleanup", NULL, 0)) return;
    const lm_cleanup_t *known = cleanup;
    if (region->mode == LM_REGION_CHECKED) {
        /* A record of another region, or from before a reset, may have any contents. */
        known = region->cleanups;
        while (known != NULL && known != cleanup) known = known->older;
    }
    if (known == NULL || cleanup->link == NULL) {
        lm_family_misuse(&region->entry, NULL, 0,
                         "removal of cleanup %p, which has run, was removed, or is none of it",
                         (const void *)cleanup);
        return;
    }
    lm_region_remove_cleanup(region, cleanup, run_it);
}

void lm_region_run_newer(loam_region *region, size_t serial) {
    lm_cleanup_t *cleanup;
    while ((cleanup = region->cleanups) != NULL && cleanup->serial > serial) {
        LM_ASSERT(cleanup->link == &region->cleanups && cleanup->serial <= region->serial);
        region->cleanups = cleanup->older;
        if (cleanup->older != NULL) cleanup->older->link = &region->cleanups;
        cleanup->link = NULL;
        cleanup->run(cleanup->argument);
    }
}

void lm_region_free_newer(loam_region *region, size_t serial) {
    while (region->large != NULL && region->large->serial > serial)
        lm_region_large_free(region, region->large + 1);
}

/* ---- Children ---- */

static void end_child(void *argument) {
    loam_region *child = (loam_region *)argument;
    LM_ASSERT(child->in_parent != NULL && child->own != NULL);
    child->in_parent = NULL;
    loam_region_destroy(child);
}

loam_region *loam_region_create_child(loam_region *parent, const loam_region_options *options) {
    if (lm_region_over(parent, "create_child", NULL, 0)) return NULL;
    loam_region *child = loam_region_create_as(parent->source, options,
                                               parent->mode == LM_REGION_CHECKED ? LOAM_CHECK : 0);
    if (child == NULL) return NULL;
    child->in_parent = loam_region_add_cleanup(parent, end_child, child);
    child->parent = parent;
    if (child->in_parent != NULL) return child;
    loam_region_destroy(child);
    return NULL;
}

int loam_region_set_parent(loam_region *child, loam_region *parent) {
    for (const loam_region *above = parent; above != NULL; above = above->parent) {
        if (above == child) return LM_EINVAL;
    }
    if (child->own == NULL) return LM_EINVAL;
    lm_cleanup_t *in_parent = NULL;
    if (parent != NULL && (in_parent = loam_region_add_cleanup(parent, end_child, child)) == NULL)
        return LM_ENOMEM;
    LM_ASSERT(child->in_parent == NULL || child->parent != NULL);
    if (child->in_parent != NULL)
        loam_region_remove_cleanup(child->parent, child->in_parent, false);
    child->in_parent = in_parent;
    child->parent = parent;
    return 0;
}

/* ---- Checked regions: objects that end without a free ---- */

void lm_region_back(loam_region *region, char *to) {
    loam_region_room *room = lm_region_room(region);
    lm_chunk_t *chunk = region->chunk;
    LM_ASSERT(region->mode == LM_REGION_CHECKED && room->at <= lm_chunk_end(chunk));
    chunk->gone = lm_gone_bury(&region->entry, to, room->at, chunk->gone);
    room->at = to;
}

static bool is_newer(const loam_region *region, const loam_region_mark *mark, const loam_tag *tag) {
    const char *raw = (const char *)tag->raw;
    if (tag->raw_bytes > region->large_bytes) return lm_region_large_serial(raw) > mark->serial;
    for (const lm_chunk_t *chunk = region->chunk; chunk != NULL; chunk = chunk->before) {
        bool inside = raw > (const char *)chunk && raw < lm_chunk_end(chunk);
        if (chunk == mark->chunk) return inside && raw >= mark->at;
        if (inside) return true;
    }
    return false;
}

/* Ends objects newer than the mark, which come first in the live list. A write outside an object is
 * reported now or never. */
static void region_life_close_newer(loam_region *region, const loam_region_mark *mark) {
    loam_tag *tag, *next;
    for (tag = region->entry.live; tag != NULL && is_newer(region, mark, tag); tag = next) {
        next = tag->next;
        (void)lm_guard_find(&region->entry, tag + 1, "rewind", NULL, 0);
        lm_guard_close(&region->entry, tag, NULL, 0);
    }
}

bool lm_region_check_objects(const loam_region *region) {
    bool good = lm_guard_check(&region->entry);
    for (const loam_tag *tag = region->dead; tag != NULL; tag = tag->next)
        good = lm_guard_check_freed(&region->entry, tag) && good;
    return good;
}

/* ---- Giving chunks back ---- */

bool lm_region_grow_chunk(loam_region *region, size_t bytes) {
    lm_chunk_t *chunk = region->chunk;
    lm_pieces_t *pieces = lm_chunk_pieces(chunk);
    LM_ASSERT(lm_region_contiguous(region) && !lm_region_in_hole(region));
    LM_ASSERT(chunk->given == NULL); /* the room would contain the extents behind `given` */
    LM_ASSERT(bytes != 0 && pieces->count != 0 && pieces->count <= LM_REGION_PIECES + 1);
    if (region->fixed || pieces->count > LM_REGION_PIECES) return false;
    char *wanted = (char *)chunk + chunk->bytes;
    size_t least = lm_align_up(bytes, 16), more = chunk->bytes, got = 0;
    /* Later pieces are larger, so that they suffice for any range of addresses. */
    if (pieces->count > LM_REGION_PIECES / 2) more *= 4;
    if (region->growth == LOAM_GROWTH_FIXED) more = region->first_bytes;
    if (more < least) more = least;
    char *p = NULL;
    for (; p == NULL; more = more / 2 > least ? lm_align_up(more / 2, 16) : least) {
        p = (char *)lm_region_get(region, more, 1, &got);
        if (p == NULL && more == least) return false;
    }
    if (p != wanted) {
        lm_region_put(region, p, got);
        return false;
    }
    pieces->got[pieces->count++] = got;
    chunk->bytes += got;
    region->turns++;
    lm_tool_hide(p, got);
    lm_region_room(region)->end = lm_chunk_end(chunk);
    LM_ASSERT(region->spare_bytes <= region->held_bytes);
    size_t used = region->held_bytes - region->spare_bytes;
    if (used > region->round_bytes) region->round_bytes = used;
    return true;
}

size_t lm_region_drop_spares(loam_region *region, size_t most) {
    size_t held = region->held_bytes, kept = 0;
    struct loam_region_chunk **link = &region->spares;
    while (*link != NULL) {
        lm_chunk_t *spare = *link;
        if (spare->bytes <= most - kept) {
            kept += spare->bytes;
            link = &spare->before;
            continue;
        }
        LM_ASSERT(spare != region->chunk && spare->given == NULL);
        LM_ASSERT(spare->bytes <= region->spare_bytes);
        *link = spare->before;
        region->spare_bytes -= spare->bytes;
        if (region->mode == LM_REGION_CHECKED)
            (void)lm_gone_check(&region->entry, lm_spare_first(region, spare), spare->gone);
        lm_region_put_chunk(region, spare);
    }
    LM_ASSERT(region->spare_bytes == kept && kept <= most);
    return held - region->held_bytes;
}

size_t lm_region_spare_most(const loam_region *region) {
    LM_ASSERT(region->spare_bytes <= region->held_bytes);
    size_t used = region->held_bytes - region->spare_bytes;
    size_t keep =
        region->average_bytes > region->keep_bytes ? region->average_bytes : region->keep_bytes;
    return keep > used ? keep - used : 0;
}

void lm_region_drop_chunk(loam_region *region) {
    lm_chunk_t *chunk = region->chunk, *before = chunk->before;
    loam_region_room *room = lm_region_room(region);
    LM_ASSERT(!lm_region_in_hole(region));
    LM_ASSERT(before != NULL || region->own == NULL); /* its own chunk stays */
    if (region->mode == LM_REGION_CHECKED) lm_region_back(region, lm_chunk_first(region, chunk));
    /* The dropped chunk stays as a spare, so that alternating at a chunk's border does not call the
     * source each time. */
    lm_region_drop_spares(region, lm_region_spare_most(region));
    /* Memory that is ready stays ready. */
    chunk->end = chunk->given == NULL ? room->end : lm_chunk_end(chunk);
    chunk->given = NULL;
    if (region->mode != LM_REGION_PLAIN)
        lm_tool_hide(lm_chunk_first(region, chunk),
                     (size_t)((char *)chunk + chunk->bytes - lm_chunk_first(region, chunk)));
    chunk->before = region->spares;
    region->spares = chunk;
    region->spare_bytes += chunk->bytes;
    region->chunk = before;
    if (before == NULL) {
        *room = (loam_region_room){0};
        return;
    }
    LM_ASSERT(before->floor <= before->at && before->at <= before->end);
    LM_ASSERT(before->end <= lm_chunk_end(before));
    *room = (loam_region_room){before->at, before->end, before->floor};
}

void lm_region_shrink_chunk(loam_region *region, size_t most) {
    lm_chunk_t *chunk = region->chunk;
    if (chunk == NULL || chunk->given != NULL || !lm_region_contiguous(region)) return;
    loam_region_room *room = lm_region_room(region);
    lm_pieces_t *pieces = lm_chunk_pieces(chunk);
    LM_ASSERT(!lm_region_in_hole(region));
    LM_ASSERT(pieces->count != 0 && pieces->count <= LM_REGION_PIECES + 1);
    /* Whole units of 16 bytes, because the end is rounded down. */
    size_t used = (size_t)(lm_align_up((uintptr_t)room->at, 16) - (uintptr_t)chunk);
    if (most < used) most = used;
    while (pieces->count > 1 && chunk->bytes - pieces->got[pieces->count - 1] >= most) {
        size_t got = pieces->got[--pieces->count];
        if (region->mode == LM_REGION_CHECKED && chunk->gone != NULL) {
            (void)lm_gone_check(&region->entry, room->at, chunk->gone);
            chunk->gone = NULL; /* a unit may have lost its end */
        }
        LM_ASSERT(got < chunk->bytes);
        chunk->bytes -= got;
        lm_region_put(region, (char *)chunk + chunk->bytes, got);
        room->end = lm_chunk_end(chunk);
    }
}

/* ---- Marks ---- */

loam_region_mark loam_region_mark_here(loam_region *region) {
    if (lm_region_over(region, "mark", NULL, 0)) return (loam_region_mark){.marks = SIZE_MAX};
    lm_region_leave_hole(region);
    loam_region_room *room = lm_region_room(region);
    LM_ASSERT((room->at == NULL) == (region->chunk == NULL));
    loam_region_mark mark = {room->at,     room->floor,    region->chunk,  region->freed,
                             region->dead, region->serial, region->marks++};
    if (room->at != NULL) {
        room->floor = room->at - 1;
        /* If the chunk's first object had one byte, this floor would say that freeing the object
         * empties the chunk. */
        if (room->floor == lm_chunk_first(region, region->chunk)) room->floor++;
    }
    region->freed = NULL;
    LM_METER(mark(&region->entry, mark.marks));
    return mark;
}

/* Returns whether the mark may end. Marks end in reverse order of creation. Only a checked region
 * verifies that; in other regions an ended mark leads to undefined results. */
static bool may_end(const loam_region *region, const loam_region_mark *mark, const char *doing,
                    bool newest) {
    if (region->mode != LM_REGION_CHECKED)
        return !lm_region_over(region, newest ? "keep" : "rewind", NULL, 0);
    bool ended = mark->marks >= region->marks;
    if (!ended && (!newest || mark->marks + 1 == region->marks)) return true;
    lm_family_misuse(&region->entry, NULL, 0, "%s a mark that %s", doing,
                     ended ? "has ended" : "is not the newest");
    return false;
}

void loam_region_keep(loam_region *region, const loam_region_mark *mark) {
    if (!may_end(region, mark, "keep of", true)) return;
    region->marks = mark->marks;
    lm_region_leave_hole(region);
    lm_region_merge(region, mark->freed);
    if (mark->chunk == NULL) return;
    if (mark->chunk == region->chunk) {
        lm_region_room(region)->floor = mark->floor;
    } else {
        mark->chunk->floor = mark->floor;
    }
}

/* Records the memory needed by recent rounds: that of this round if it is more, and ever less of
 * earlier rounds. */
static void end_round(loam_region *region) {
    LM_ASSERT(!lm_region_in_hole(region));
    if (region->chunk != NULL && lm_region_contiguous(region)) {
        /* There is one chunk, which is not fully used. */
        size_t used = (size_t)(lm_region_room(region)->at - (char *)region->chunk);
        if (region->round_bytes < used) region->round_bytes = used;
    }
    size_t faded = region->average_bytes - region->average_bytes / 4 + region->round_bytes / 4;
    region->average_bytes = region->round_bytes > faded ? region->round_bytes : faded;
}

void loam_region_rewind(loam_region *region, const loam_region_mark *mark) {
    if (!may_end(region, mark, "rewind to", false)) return;
    lm_region_run_newer(region, mark->serial); /* cleanups may look at objects */
    if (region->mode == LM_REGION_CHECKED) {
        region_life_close_newer(region, mark);
        for (const loam_tag *tag = region->dead; tag != NULL && tag != mark->dead; tag = tag->next)
            (void)lm_guard_check_freed(&region->entry, tag);
    }
    lm_region_free_newer(region, mark->serial);
    lm_region_leave_hole(region);
    region->freed = mark->freed; /* the present set lies in memory that ends now */
    loam_region_room *room = lm_region_room(region);
    if (region->chunk != mark->chunk) {
        end_round(region);
        while (region->chunk != mark->chunk) lm_region_drop_chunk(region);
        LM_ASSERT(region->spare_bytes <= region->held_bytes);
        region->round_bytes = region->held_bytes - region->spare_bytes;
    }
    if (region->mode == LM_REGION_CHECKED && mark->at != NULL) lm_region_back(region, mark->at);
    room->at = mark->at;
    room->floor = mark->floor;
    if (room->at != NULL) lm_tool_hide(room->at, (size_t)(room->end - room->at));
    region->dead = mark->dead;
    region->marks = mark->marks;
    LM_METER(rewind(&region->entry, mark->marks));
}

void loam_region_reset(loam_region *region) {
    if (lm_region_over(region, "reset", NULL, 0)) return;
    lm_region_run_newer(region, 0);
    if (region->mode == LM_REGION_CHECKED) {
        (void)lm_region_check_objects(region);
        (void)lm_region_check_gone(region);
        lm_guard_drop_all(&region->entry);
    }
    lm_region_free_newer(region, 0);
    LM_ASSERT(region->large == NULL);
    lm_region_leave_hole(region);
    end_round(region);
    region->freed = NULL;
    region->dead = NULL;
    region->marks = 0;
    LM_METER(drop(&region->entry));
    if (region->chunk == NULL) return;
    while (region->chunk->before != NULL) lm_region_drop_chunk(region);
    loam_region_room *room = lm_region_room(region);
    if (region->mode == LM_REGION_CHECKED)
        lm_region_back(region, lm_chunk_first(region, region->chunk));
    room->at = lm_chunk_first(region, region->chunk);
    room->floor = room->at - 1;
    if (region->chunk->given != NULL) room->end = lm_chunk_end(region->chunk);
    region->chunk->given = NULL;
    LM_ASSERT(room->at <= room->end && room->end <= lm_chunk_end(region->chunk));
    lm_tool_hide(room->at, (size_t)(room->end - room->at));
    lm_region_drop_spares(region, lm_region_spare_most(region));
    size_t most =
        region->average_bytes > region->keep_bytes ? region->average_bytes : region->keep_bytes;
    lm_region_shrink_chunk(region, most);
    region->round_bytes =
        lm_region_contiguous(region) ? 0 : region->held_bytes - region->spare_bytes;
}

size_t loam_region_trim(loam_region *region) {
    if (lm_region_over(region, "trim", NULL, 0)) return 0;
    size_t held = region->held_bytes;
    /* A checked region has no freed extents. */
    if (region->freed != NULL && region->mode != LM_REGION_CHECKED) lm_region_sort(region);
    lm_region_drop_spares(region, 0);
    LM_ASSERT(region->spares == NULL);
    lm_chunk_t *chunk = region->chunk;
    loam_region_room *room = lm_region_room(region);
    if (chunk != NULL && region->freed == NULL && chunk->given == NULL && chunk->before == NULL &&
        region->own == NULL && region->marks == 0 && room->at == lm_chunk_first(region, chunk)) {
        if (region->mode == LM_REGION_CHECKED)
            (void)lm_gone_check(&region->entry, room->at, chunk->gone);
        *room = (loam_region_room){0};
        region->chunk = NULL;
        lm_region_put_chunk(region, chunk);
    } else {
        lm_region_shrink_chunk(region, 0);
    }
    LM_ASSERT(region->held_bytes <= held);
    return held - region->held_bytes;
}

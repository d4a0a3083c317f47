/* region_life.c: the ends of a region's objects (loam/region.h): marks, reset, trim, cleanups, children.
 *
 *   serial    1   2   3   4   5   6        of large objects and cleanups, as they were made
 *   mark              ^                    rewinding ends those above its own
 *
 * A mark sets the freed lists aside and begins new ones, which lie in memory newer than the mark: so rewinding to
 * it drops them with that memory, and finds the old ones as they were, however objects were reused meanwhile.
 * Invariant: everything that a mark remembers is still there when it is rewound to, because objects older
 * than it do not make room when they are freed.
 */
#include "family/region.h"

/* ---- Cleanups ---- */

loam_region_cleanup *loam_region_add_cleanup(loam_region *region, void (*run)(void *argument),
                                             void *argument) {
    lm_freed_set_t *set = region->freed;
    lm_cleanup_t *cleanup;
    if (set != NULL && set->cleanups != NULL) {
        cleanup = set->cleanups;
        set->cleanups = cleanup->older;
    } else {
        cleanup = (lm_cleanup_t *)lm_region_carve(region, sizeof(*cleanup), 16);
        if (cleanup == NULL) return NULL;
        lm_tool_show_undefined(cleanup, sizeof(*cleanup));
    }
    *cleanup = (lm_cleanup_t){region->cleanups, &region->cleanups, run, argument, ++region->serial};
    if (cleanup->older != NULL) cleanup->older->link = &cleanup->older;
    region->cleanups = cleanup;
    return cleanup;
}

static void unlink_cleanup(lm_cleanup_t *cleanup) {
    *cleanup->link = cleanup->older;
    if (cleanup->older != NULL) cleanup->older->link = cleanup->link;
    cleanup->link = NULL;
}

void loam_region_remove_cleanup(loam_region *region, loam_region_cleanup *cleanup, bool run_it) {
    void (*run)(void *) = cleanup->run;
    void *argument = cleanup->argument;
    unlink_cleanup(cleanup);
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

void lm_region_run_newer(loam_region *region, size_t serial) {
    lm_cleanup_t *cleanup;
    while ((cleanup = region->cleanups) != NULL && cleanup->serial > serial) {
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
    child->in_parent = NULL;
    loam_region_destroy(child);
}

loam_region *loam_region_create_child(loam_region *parent, const loam_region_options *options) {
    loam_region *child = loam_region_create_as(parent->source, options,
                                               parent->mode == LM_REGION_CHECKED ? LOAM_CHECK : 0);
    if (child == NULL) return NULL;
    child->in_parent = loam_region_add_cleanup(parent, end_child, child);
    child->parent = parent;
    if (child->in_parent != NULL) return child;
    loam_region_destroy(child);
    return NULL;
}

/* ---- Checked regions: objects that end without being freed ---- */

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

/* Newer ones come first in the live list. What was written outside of one is reported now or never. */
static void close_newer(loam_region *region, const loam_region_mark *mark) {
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

/* ---- Marks ---- */

loam_region_mark loam_region_mark_here(loam_region *region) {
    loam_region_room *room = lm_region_room(region);
    loam_region_mark mark = {room->at,     room->floor,    region->chunk,  region->freed,
                             region->dead, region->serial, region->marks++};
    if (room->at != NULL) {
        room->floor = room->at - 1;
        /* Behind an object of one byte that is the chunk's first, this would say that its free empties the chunk. */
        if (room->floor == lm_chunk_first(region, region->chunk)) room->floor++;
    }
    region->freed = NULL;
    LM_METER(mark(&region->entry, mark.marks));
    return mark;
}

/* Marks end as brackets close. Only a checked region looks: what stands behind an ended mark may be anything. */
static bool may_end(const loam_region *region, const loam_region_mark *mark, const char *doing,
                    bool newest) {
    if (region->mode != LM_REGION_CHECKED) return true;
    bool ended = mark->marks >= region->marks;
    if (!ended && (!newest || mark->marks + 1 == region->marks)) return true;
    lm_family_misuse(&region->entry, NULL, 0, "%s a mark that %s", doing,
                     ended ? "has ended" : "is not the newest");
    return false;
}

void loam_region_keep(loam_region *region, const loam_region_mark *mark) {
    if (!may_end(region, mark, "keep of", true)) return;
    region->marks = mark->marks;
    lm_region_merge(region, mark->freed);
    if (mark->chunk == NULL) return;
    if (mark->chunk == region->chunk) {
        lm_region_room(region)->floor = mark->floor;
    } else {
        mark->chunk->floor = mark->floor;
    }
}

/* How much recent rounds needed: this one's if it is more, and less and less of earlier ones. */
static void end_round(loam_region *region) {
    if (region->chunk != NULL && lm_region_contiguous(region)) { /* one chunk, not all of it used */
        size_t used = (size_t)(lm_region_room(region)->at - (char *)region->chunk);
        if (region->round_bytes < used) region->round_bytes = used;
    }
    size_t faded = region->average_bytes - region->average_bytes / 4 + region->round_bytes / 4;
    region->average_bytes = region->round_bytes > faded ? region->round_bytes : faded;
}

void loam_region_rewind(loam_region *region, const loam_region_mark *mark) {
    if (!may_end(region, mark, "rewind to", false)) return;
    lm_region_run_newer(region, mark->serial); /* they may look at objects */
    if (region->mode == LM_REGION_CHECKED) close_newer(region, mark);
    lm_region_free_newer(region, mark->serial);
    loam_region_room *room = lm_region_room(region);
    if (region->chunk != mark->chunk) {
        end_round(region);
        while (region->chunk != mark->chunk) lm_region_drop_chunk(region);
        region->round_bytes = region->held_bytes - region->spare_bytes;
    }
    room->at = mark->at;
    room->floor = mark->floor;
    if (room->at != NULL) lm_tool_hide(room->at, (size_t)(room->end - room->at));
    region->freed = mark->freed;
    region->dead = mark->dead;
    region->marks = mark->marks;
    LM_METER(rewind(&region->entry, mark->marks));
}

void loam_region_reset(loam_region *region) {
    lm_region_run_newer(region, 0);
    if (region->mode == LM_REGION_CHECKED) {
        (void)lm_region_check_objects(region);
        lm_guard_drop_all(&region->entry);
    }
    lm_region_free_newer(region, 0);
    end_round(region);
    region->freed = NULL;
    region->dead = NULL;
    region->marks = 0;
    LM_METER(drop(&region->entry));
    if (region->chunk == NULL) return;
    while (region->chunk->before != NULL) lm_region_drop_chunk(region);
    loam_region_room *room = lm_region_room(region);
    room->at = lm_chunk_first(region, region->chunk);
    room->floor = room->at - 1;
    lm_tool_hide(room->at, (size_t)(room->end - room->at));
    lm_region_drop_spares(region, lm_region_spare_most(region));
    size_t most =
        region->average_bytes > region->keep_bytes ? region->average_bytes : region->keep_bytes;
    lm_region_shrink_chunk(region, most);
    region->round_bytes =
        lm_region_contiguous(region) ? 0 : region->held_bytes - region->spare_bytes;
}

size_t loam_region_trim(loam_region *region) {
    size_t held = region->held_bytes;
    lm_region_drop_spares(region, 0);
    lm_chunk_t *chunk = region->chunk;
    loam_region_room *room = lm_region_room(region);
    if (chunk != NULL && chunk->before == NULL && region->own == NULL && region->marks == 0 &&
        room->at == lm_chunk_first(region, chunk)) {
        *room = (loam_region_room){0};
        region->chunk = NULL;
        lm_region_put_chunk(region, chunk);
    } else {
        lm_region_shrink_chunk(region, 0);
    }
    return held - region->held_bytes;
}

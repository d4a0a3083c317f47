/* region_life.c: marks, reset, trim, cleanups, children of regions (loam/region.h), usage and check. */
#include "family/region.h"


/* ---- Cleanups ---- */

loam_region_cleanup *loam_region_add_cleanup(loam_region *region, void (*run)(void *argument),
                                             void *argument) {
    lm_freed_set_t *set = region->freed;
    bool reuse = region->mode != LM_REGION_CHECKED && set != NULL && set->cleanups != NULL;
    lm_cleanup_t *cleanup = reuse ? set->cleanups
                                  : (lm_cleanup_t *)lm_region_carve(region, sizeof(*cleanup), 16);
    if (cleanup == NULL) return NULL;
    if (reuse) set->cleanups = cleanup->older;
    lm_tool_show_undefined(cleanup, sizeof(*cleanup));
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
    unlink_cleanup(cleanup);
    void (*run)(void *) = cleanup->run;
    void *argument = cleanup->argument;
    (void)region;
    if (run_it) run(argument);
}

void lm_region_end_newer(loam_region *region, size_t serial) {
    for (lm_cleanup_t *cleanup = region->cleanups; cleanup != NULL && cleanup->serial > serial;
         cleanup = region->cleanups) {
        unlink_cleanup(cleanup);
        cleanup->run(cleanup->argument);
    }
    while (region->large != NULL && region->large->serial > serial)
        lm_region_large_free(region, region->large + 1);
}

/* ---- Asking ---- */

static size_t used_of(const loam_region *region) {
    const loam_region_room *room =
        region->mode == LM_REGION_PLAIN ? &region->room : &region->hidden;
    size_t used = 0;
    for (const lm_chunk_t *chunk = region->chunk; chunk != NULL; chunk = chunk->before)
        used += (size_t)((chunk == region->chunk ? room->at : chunk->at) -
                         lm_chunk_first(region, chunk));
    for (const lm_large_t *large = region->large; large != NULL; large = large->older)
        used += lm_region_large_room(large + 1);
    return used;
}

void loam_region_usage(const loam_region *region, loam_usage *usage) {
    size_t chunks = 0;
    for (const lm_chunk_t *chunk = region->chunk; chunk != NULL; chunk = chunk->before) chunks++;
    for (const lm_chunk_t *chunk = region->spares; chunk != NULL; chunk = chunk->before) chunks++;
    for (const lm_large_t *large = region->large; large != NULL; large = large->older) chunks++;
    size_t objects = 0;
    for (const loam_tag *tag = region->entry.live; tag != NULL; tag = tag->next) objects++;
    *usage = (loam_usage){
        .kind = region->entry.kind->name,
        .name = region->entry.name != NULL ? region->entry.name : "",
        .held_bytes = region->held_bytes,
        .used_bytes = used_of(region),
        .peak_bytes = region->peak_bytes,
        .chunks = chunks,
        .requests = region->requests,
        .objects = region->mode == LM_REGION_CHECKED ? objects : LOAM_UNKNOWN,
    };
}

bool lm_region_check_objects(const loam_region *region) { return lm_guard_check(&region->entry); }

loam_tag *lm_region_find(const loam_region *region, const void *p, size_t bytes, const char *doing,
                         const char *file, unsigned line) {
    loam_tag *tag = lm_guard_find(&region->entry, p, doing, file, line);
    if (tag == NULL || tag->bytes == bytes) return tag;
    lm_family_misuse(&region->entry, file, line,
                     "%s of %p with %zu bytes, allocated with %zu at %s:%u", doing, p, bytes,
                     tag->bytes, tag->file != NULL ? tag->file : "?", tag->line);
    return NULL;
}

bool loam_region_check(const loam_region *region) { return lm_region_check_objects(region); }

static const loam_region *region_of(const loam_entry *entry) {
    return LM_CONTAINER(entry, loam_region, entry);
}
static void usage_of_entry(const loam_entry *entry, loam_usage *usage) {
    loam_region_usage(region_of(entry), usage);
}
static bool check_entry(const loam_entry *entry) { return loam_region_check(region_of(entry)); }

const loam_kind lm_region_kind = {"region", usage_of_entry, check_entry};

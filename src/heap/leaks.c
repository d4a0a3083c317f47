/* leaks.c: what is in use, in groups: same size and, where call sites are kept, allocated at the same place.
 *
 *   every span ──> blocks whose word says "in use" ──> list in memory of its own ──> groups ──> the largest, printed
 *
 * The debug build's words say so by themselves: no list of free blocks is walked, of whichever thread. Other threads
 * may go on meanwhile; what they do is seen or not. It cannot tell whether anything still points to an object, so that
 * what a program keeps on purpose to its end is listed, too.
 */
#include "heap/room.h"

#include <string.h>

#if LOAM_DEBUG

enum { GROUPS = 2048, SHOWN_MOST = 32 };

typedef struct object {
    const void *at;
    size_t requested;
} object_t;

typedef struct group {
    size_t requested, objects; /* objects 0: none */
    const void *first;
    uint32_t trace;
} group_t;

typedef struct list {
    object_t *at; /* NULL: only counted */
    size_t count, room;
} list_t;

static void add(list_t *list, const char *at, const char *end) {
    size_t requested;
    if (lm_word_get(end, &requested) != LM_STATE_USED) return;
    if (list->count < list->room) list->at[list->count] = (object_t){at, requested};
    list->count++;
}

/* The arena's lock is held. */
static void add_span(lm_page_t *span, void *context) {
    list_t *list = (list_t *)context;
    const char *start = lm_span_start(span);
    if (span->kind == LM_KIND_LARGE) add(list, start, start + span->bytes);
    if (span->kind != LM_KIND_PAGE) return;
    for (size_t i = 0; i < span->carved; i++) {
        const char *block = start + i * span->block_bytes;
        add(list, block, block + span->block_bytes);
    }
}

static lm_page_t *memory_for(size_t bytes) {
    return lm_span_take(bytes / LM_SLICE_BYTES + 1, 1, LM_KIND_META, NULL);
}

/* The span that holds the list; NULL iff there is no memory. */
static lm_page_t *collect(list_t *list) {
    *list = (list_t){0};
    lm_span_visit(add_span, list);
    size_t room = list->count;
    lm_page_t *span = memory_for(room * sizeof(object_t));
    if (span == NULL) return NULL;
    *list = (list_t){(object_t *)(void *)lm_span_start(span), 0, room};
    lm_span_visit(add_span, list);
    if (list->count > list->room) list->count = list->room; /* others have gone on */
    return span;
}

/* Where the object counts; NULL iff there are too many groups. */
static group_t *group_of(group_t *groups, const object_t *object, uint32_t trace) {
    size_t at = (object->requested * 31 + trace) * 0x9e3779b1u;
    for (size_t i = 0; i < GROUPS; i++) {
        group_t *group = &groups[(at + i) % GROUPS];
        if (group->objects == 0)
            *group = (group_t){object->requested, 0, object->at, trace};
        else if (group->requested != object->requested || group->trace != trace)
            continue;
        return group;
    }
    return NULL;
}

/* The one with the most bytes, which is none any more then; NULL iff there is none. */
static group_t *largest(group_t *groups) {
    group_t *most = NULL;
    for (size_t i = 0; i < GROUPS; i++) {
        group_t *group = &groups[i];
        if (group->objects == 0) continue;
        if (most == NULL || group->objects * group->requested > most->objects * most->requested ||
            (most->requested == 0 && group->objects > most->objects))
            most = group;
    }
    return most;
}

static void print(group_t *groups, size_t left) {
    group_t *group;
    for (unsigned shown = 0; (group = largest(groups)) != NULL; shown++) {
        if (shown == SHOWN_MOST) {
            lm_report("loam:   and %zu object(s) more", left);
            return;
        }
        lm_report("loam:   %zu object(s) of %zu B, the first at %p", group->objects,
                  group->requested, group->first);
        lm_sites_report(group->trace);
        left -= group->objects;
        group->objects = 0;
    }
}

void lm_leaks_print(void) {
    list_t list;
    lm_page_t *span = collect(&list), *memory = memory_for(GROUPS * sizeof(group_t));
    if (span != NULL && memory != NULL) {
        group_t *groups = (group_t *)(void *)lm_span_start(memory);
        memset(groups, 0, GROUPS * sizeof(group_t));
        size_t bytes = 0, grouped = 0;
        for (size_t i = 0; i < list.count; i++) {
            bytes += list.at[i].requested;
            group_t *group = group_of(groups, &list.at[i], lm_sites_of(list.at[i].at));
            if (group != NULL) group->objects++;
        }
        for (size_t i = 0; i < GROUPS; i++) grouped += groups[i].objects;
        lm_report("loam: %zu object(s) of %zu B in all are still in use", list.count, bytes);
        print(groups, grouped);
        if (grouped < list.count) lm_report("loam:   and %zu of other sizes", list.count - grouped);
    } else {
        lm_report("loam: no memory for a list of what is still in use");
    }
    if (span != NULL) lm_span_give(span, false);
    if (memory != NULL) lm_span_give(memory, false);
}

#endif

/* leaks.c: prints what is in use, in groups: objects of equal size that were allocated at one
 * place, where call sites are kept.
 *
 *   every span ──> blocks whose word says "in use" ──┬──> list, in memory of its own
 *   slots of sampled objects that are in use ────────┘      └──> groups ──> the largest, printed
 *
 * The debug build's end words tell by themselves what is in use: no list of free blocks is walked,
 * of any thread. Other threads may go on meanwhile; what they do is seen or not. Objects whose end
 * is overwritten are printed as well. If the end word is overwritten, an object looks like what
 * loam holds for pools and similar parts (lm_block_alloc), and the print says so. It cannot tell
 * whether anything still points to an object, so it also lists what a program keeps on purpose to
 * its end.
 */
#include "survey/survey.h"

#include <string.h>

#if LOAM_DEBUG

enum { SHOWN_MOST = 32 };

/* Value of `past` for an object whose end word is overwritten, too. */
#define BROKEN SIZE_MAX

typedef struct object {
    const void *at;
    size_t requested; /* requested bytes; if `past` is BROKEN, bytes of its block */
    size_t past;      /* bytes written past its end, or BROKEN */
} object_t;

typedef struct group {
    /* Size of each object, and their number; objects 0: the entry is unused. */
    size_t requested, objects;
    const void *first;
    uint32_t trace;
} leaks_group_t;

/* A hash table with more entries than there are objects. */
typedef struct groups {
    leaks_group_t *at;
    size_t room;
} groups_t;

typedef struct list {
    object_t *at; /* NULL: objects are only counted */
    size_t count, room;
} list_t;

static void leaks_add(list_t *list, const void *at, size_t requested, size_t past) {
    if (list->count < list->room) list->at[list->count] = (object_t){at, requested, past};
    list->count++;
}

/* Returns whether a block with a broken end word looks filled as a free block: then it was written
 * to after its free, and the report is left to its next user. */
LM_READS_ANYTHING static bool leaks_filled(const char *block, const char *end) {
    lm_tools_pause();
    const char *at = end - 2 * sizeof(uint64_t), *second = block + sizeof(lm_block_t);
    bool is = true;
    for (size_t i = 0; i < sizeof(uint64_t) && at >= second; i++)
        is = is && lm_perturb_filled((unsigned char)at[i]);
    lm_tools_resume();
    return is;
}

static void add_block(list_t *list, const lm_page_t *page, const char *block) {
    const char *end = block + lm_block_bytes(page), *object = block;
    size_t requested;
    lm_state_t state = lm_word_get(end, &requested);
    if (state == LM_STATE_FREED) return;
    if (lm_is_offset(page)) object = lm_offset_object(page, block);
    if (object == NULL) object = block;
    if (state == LM_STATE_USED)
        leaks_add(list, object, requested, lm_fence_past(object, requested, end));
    else if (!leaks_filled(block, end))
        leaks_add(list, object, lm_block_bytes(page), BROKEN);
}

/* Adds the objects in use of a span. The arena's lock is held. */
static void add_span(lm_page_t *span, void *context) {
    list_t *list = (list_t *)context;
    const char *start = lm_span_start(span);
    if (span->kind == LM_KIND_LARGE) add_block(list, span, start);
    if (span->kind != LM_KIND_PAGE) return;
    for (size_t i = 0; i < span->carved; i++) add_block(list, span, start + i * span->block_bytes);
}

static void add_sampled(list_t *list) {
    lm_sampled_lock();
    for (uint32_t i = 0; lm_sampled.base != NULL && i < lm_sampled.count; i++) {
        const lm_slot_t *slot = &lm_sampled.slots[i];
        if (slot->state != LM_SLOT_USED) continue;
        size_t requested = lm_page_of(slot->object)->bytes;
        ptrdiff_t beyond = lm_sampled_beyond(slot, requested);
        leaks_add(list, slot->object, requested, beyond > 0 ? (size_t)beyond : 0);
    }
    lm_sampled_unlock();
}

static void leaks_add_all(list_t *list) {
    add_sampled(list);
    lm_span_visit(add_span, list);
}

static uint32_t trace_of(const void *p) {
    lm_site_t sites[LM_TRACE_FRAMES];
    if (lm_page_of(p)->kind != LM_KIND_SAMPLED) return lm_sites_of(p);
    return lm_sites_number(sites, lm_sampled_sites(p, sites, LM_TRACE_FRAMES));
}

static lm_page_t *memory_for(size_t bytes) {
    return lm_span_take(bytes / LM_SLICE_BYTES + 1, 1, LM_KIND_META, NULL);
}

/* Lists all objects in use. Returns the span that holds the list. Returns NULL iff there is no
 * memory. */
static lm_page_t *leaks_collect(list_t *list) {
    *list = (list_t){0};
    leaks_add_all(list);
    size_t room = list->count;
    lm_page_t *span = memory_for(room * sizeof(object_t));
    if (span == NULL) return NULL;
    LM_ASSERT(room * sizeof(object_t) <= (size_t)span->slices << LM_SLICE_SHIFT);
    *list = (list_t){(object_t *)(void *)lm_span_start(span), 0, room};
    leaks_add_all(list);
    /* Other threads have allocated meanwhile. */
    if (list->count > list->room) list->count = list->room;
    return span;
}

/* Returns the group that the object belongs to, which is new if it has 0 objects. */
static leaks_group_t *group_of(groups_t groups, const object_t *object, uint32_t trace) {
    LM_ASSERT(groups.room > 0);
    size_t at = (object->requested * 31 + trace) * 0x9e3779b1u;
    for (;; at++) {
        leaks_group_t *group = &groups.at[at % groups.room];
        if (group->objects == 0)
            *group = (leaks_group_t){object->requested, 0, object->at, trace};
        else if (group->requested != object->requested || group->trace != trace)
            continue;
        return group;
    }
}

/* Returns the group with the most bytes. Returns NULL iff no group has objects. */
static leaks_group_t *largest(groups_t groups) {
    leaks_group_t *most = NULL;
    for (size_t i = 0; i < groups.room; i++) {
        leaks_group_t *group = &groups.at[i];
        if (group->objects == 0) continue;
        if (most == NULL || group->objects * group->requested > most->objects * most->requested ||
            (most->requested == 0 && group->objects > most->objects))
            most = group;
    }
    return most;
}

static void leaks_print(groups_t groups, size_t left) {
    leaks_group_t *group;
    for (unsigned shown = 0; (group = largest(groups)) != NULL; shown++) {
        if (shown == SHOWN_MOST) {
            lm_report("loam:   and %zu object(s) more", left);
            return;
        }
        lm_report("loam:   %zu object(s) of %zu B, the first at %p", group->objects,
                  group->requested, group->first);
        lm_sites_report(group->trace);
        LM_ASSERT(left >= group->objects);
        left -= group->objects;
        group->objects = 0;
    }
}

/* Prints the objects that were written past their end, and blocks with a broken end word, which may
 * be no objects. In the order of the list. */
static void print_damaged(const list_t *list) {
    size_t shown = 0, more = 0;
    for (size_t i = 0; i < list->count; i++) {
        const object_t *object = &list->at[i];
        if (object->past == 0) continue;
        if (shown == SHOWN_MOST) {
            more++;
            continue;
        }
        shown++;
        if (object->past == BROKEN)
            lm_report("loam:   the end of a block of %zu B at %p is overwritten, if no pool or the "
                      "like has it",
                      object->requested, object->at);
        else
            lm_report("loam:   overflow of %p: %zu byte(s) past %zu requested", object->at,
                      object->past, object->requested);
        lm_sites_report(trace_of(object->at));
    }
    if (more > 0) lm_report("loam:   and %zu more", more);
}

void lm_leaks_print(void) {
    list_t list;
    lm_page_t *span = leaks_collect(&list);
    groups_t groups = {NULL, 2 * list.count + 1};
    size_t bytes = 0, objects = 0;
    lm_page_t *memory = span != NULL ? memory_for(groups.room * sizeof(leaks_group_t)) : NULL;
    if (memory != NULL) {
        groups.at = (leaks_group_t *)(void *)lm_span_start(memory);
        memset(groups.at, 0, groups.room * sizeof(leaks_group_t));
        for (size_t i = 0; i < list.count; i++) {
            const object_t *object = &list.at[i];
            if (object->past == BROKEN) continue;
            objects++;
            bytes += object->requested;
            group_of(groups, object, trace_of(object->at))->objects++;
        }
        lm_report("loam: %zu object(s) of %zu B in all are still in use", objects, bytes);
        leaks_print(groups, objects);
        print_damaged(&list);
    } else {
        lm_report("loam: no memory for a list of what is still in use");
    }
    if (span != NULL) lm_span_give_meta(span, false);
    if (memory != NULL) lm_span_give_meta(memory, false);
}

#endif

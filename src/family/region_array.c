/* region_array.c: what a region knows of arrays: freed ones, those with room to grow, and large objects.
 *
 *   lists[i] ──> freed array ──> freed array       of 2^(6+i) bytes or more, and less than twice that
 *   grown    [ p, capacity │ - │ p, capacity ]     a hash table of few slots
 *
 * An array that moves to grow gets twice the room, so that adding elements one by one copies each less than
 * once on average, whatever is allocated between. Only the address tells that it has this room: free and
 * realloc look it up. Behind it lie SPOIL bytes that are nobody's: with them `at` never equals the end of
 * what its user knows of, so that the inline paths, which know of no capacity, leave it to us.
 */
#include "family/region.h"

enum { SPOIL = 16, LEAST_FREED = 64, LOOK_AT = 4, PROBES = 4 };

/* ---- The set, made when it is first needed ---- */

lm_freed_set_t *lm_region_freed_set(loam_region *region) {
    if (region->freed != NULL) return region->freed;
    lm_freed_set_t *set = (lm_freed_set_t *)lm_region_carve(region, sizeof(*set), 16);
    if (set == NULL) return NULL;
    lm_tool_show_undefined(set, sizeof(*set));
    memset(set, 0, sizeof(*set));
    set->grown = set->first_grown;
    set->grown_slots = LM_REGION_GROWN_FIRST;
    return region->freed = set;
}

/* ---- Freed arrays ---- */

static unsigned list_of(size_t bytes) {
    unsigned list = lm_log2(bytes) - LM_REGION_LIST_FIRST;
    return list < LM_REGION_LISTS ? list : LM_REGION_LISTS - 1;
}

/* Freed memory is hidden from tools: its links are read and written behind their back. */
LM_READS_ANYTHING static void push(lm_freed_set_t *set, char *p, size_t bytes) {
    lm_freed_t *freed = (lm_freed_t *)(void *)p;
    lm_freed_t **list = &set->lists[list_of(bytes)];
    lm_tool_pause();
    freed->bytes = bytes;
    freed->next = *list;
    lm_tool_resume();
    *list = freed;
}

/* The first of those looked at that fits, off its list. */
LM_READS_ANYTHING static lm_freed_t *pop(lm_freed_set_t *set, size_t bytes, size_t *got) {
    for (unsigned list = list_of(bytes); list < LM_REGION_LISTS; list++) {
        lm_freed_t **link = &set->lists[list];
        for (int i = 0; i < LOOK_AT && *link != NULL; i++, link = &(*link)->next) {
            lm_freed_t *freed = *link;
            if (freed->bytes < bytes) continue;
            *link = freed->next;
            *got = freed->bytes;
            return freed;
        }
    }
    return NULL;
}

static void keep_array(lm_freed_set_t *set, char *p, size_t bytes) {
    char *start = (char *)lm_align_up((uintptr_t)p, 16);
    size_t gap = (size_t)(start - p);
    if (bytes < gap + LEAST_FREED) return;
    push(set, start, lm_align_down(bytes - gap, 16));
}

void lm_region_collect(loam_region *region, char *p, size_t bytes) {
    if (bytes < LEAST_FREED || region->mode == LM_REGION_CHECKED) return;
    lm_freed_set_t *set = lm_region_freed_set(region);
    if (set != NULL) keep_array(set, p, bytes);
}

void *lm_region_reuse(loam_region *region, size_t bytes, size_t align) {
    size_t got, need = lm_align_up(bytes, 16);
    if (bytes < LEAST_FREED || align > 16) return NULL;
    lm_tool_pause();
    lm_freed_t *freed = pop(region->freed, need, &got);
    lm_tool_resume();
    if (freed == NULL) return NULL;
    keep_array(region->freed, (char *)freed + need, got - need);
    return freed;
}

/* Not their capacities: what was freed since may be somebody else's by now. */
LM_READS_ANYTHING void lm_region_merge(loam_region *region, lm_freed_set_t *older) {
    lm_freed_set_t *set = region->freed;
    if (set == NULL) region->freed = older;
    if (set == NULL || older == NULL) return;
    lm_tool_pause();
    for (unsigned i = 0; i < LM_REGION_LISTS; i++) {
        lm_freed_t **end = &set->lists[i];
        while (*end != NULL) end = &(*end)->next;
        *end = older->lists[i];
    }
    lm_tool_resume();
    if (set->cleanups == NULL) set->cleanups = older->cleanups;
}

/* ---- Capacities ---- */

static size_t slot_of(const lm_freed_set_t *set, const char *p) {
    return ((uintptr_t)p >> 4) * 0x9E3779B1u >> 7 & (set->grown_slots - 1);
}

/* p's slot; with p NULL, for `home`: an empty one. NULL iff there is none. */
static lm_grown_t *find_slot(lm_freed_set_t *set, const char *home, const char *p) {
    for (size_t i = 0, slot = slot_of(set, home); i < PROBES; i++, slot++) {
        lm_grown_t *grown = &set->grown[slot & (set->grown_slots - 1)];
        if (grown->p == p) return grown;
    }
    return NULL;
}

static bool put_slot(lm_freed_set_t *set, lm_grown_t grown) {
    lm_grown_t *slot = find_slot(set, grown.p, NULL);
    if (slot != NULL) *slot = grown;
    return slot != NULL;
}

/* A table of twice the slots, while there is memory and it is not too large. */
static bool more_slots(loam_region *region, lm_freed_set_t *set) {
    lm_grown_t *old = set->grown;
    size_t old_slots = set->grown_slots, bytes = 2 * old_slots * sizeof(*old);
    if (2 * old_slots > LM_REGION_GROWN_MOST) return false;
    lm_grown_t *larger = (lm_grown_t *)lm_region_carve(region, bytes, 16);
    if (larger == NULL) return false;
    lm_tool_show_undefined(larger, bytes);
    memset(larger, 0, bytes);
    set->grown = larger;
    set->grown_slots = 2 * old_slots;
    for (size_t i = 0; i < old_slots; i++) {
        if (old[i].p != NULL) (void)put_slot(set, old[i]); /* forgotten if it finds no place */
    }
    if (old == set->first_grown) return true;
    lm_tool_hide(old, bytes / 2);
    keep_array(set, (char *)old, bytes / 2);
    return true;
}

static void remember(loam_region *region, lm_freed_set_t *set, char *p, size_t capacity) {
    lm_grown_t grown = {p, capacity};
    while (!put_slot(set, grown)) {
        if (more_slots(region, set)) continue;
        set->grown[slot_of(set, p)] =
            grown; /* one is forgotten: what it had more is lost until reset */
        return;
    }
}

size_t lm_region_capacity(loam_region *region, const char *p, size_t bytes, bool forget) {
    if (region->freed == NULL || region->mode == LM_REGION_CHECKED) return bytes;
    lm_grown_t *grown = find_slot(region->freed, p, p);
    if (grown == NULL) return bytes;
    size_t capacity = grown->capacity;
    if (!forget) return capacity;
    grown->p = NULL;
    return capacity + SPOIL;
}

LM_READS_ANYTHING static bool freed_are_whole(const loam_region *region) {
    const lm_freed_set_t *set = region->freed;
    for (unsigned i = 0; set != NULL && i < LM_REGION_LISTS; i++) {
        for (const lm_freed_t *freed = set->lists[i]; freed != NULL; freed = freed->next) {
            if (loam_region_is_from(region, freed) && freed->bytes >= LEAST_FREED &&
                list_of(freed->bytes) == i)
                continue;
            lm_family_misuse(&region->entry, NULL, 0, "a freed array was written to, at %p",
                             (const void *)freed);
            return false;
        }
    }
    for (size_t i = 0; set != NULL && i < set->grown_slots; i++) {
        const char *p = set->grown[i].p;
        if (p == NULL || loam_region_is_from(region, p)) continue;
        lm_family_misuse(&region->entry, NULL, 0, "the room of an array that is not there, at %p",
                         (const void *)p);
        return false;
    }
    return true;
}

bool lm_region_check_freed(const loam_region *region) {
    lm_tool_pause();
    bool good = freed_are_whole(region);
    lm_tool_resume();
    return good;
}

/* ---- Large objects: a chunk of their own ---- */

static lm_large_t *large_of(const void *p) { return (lm_large_t *)(uintptr_t)p - 1; }

/* room: bytes that it shall have at least if that can be had. */
static void *large_alloc(loam_region *region, size_t bytes, size_t align, size_t room) {
    if (align < 16) align = 16;
    size_t head = lm_align_up(sizeof(lm_large_t), align), got;
    if (region->fixed || bytes > (size_t)PTRDIFF_MAX - head) return NULL;
    if (room < bytes || room > (size_t)PTRDIFF_MAX - head) room = bytes;
    char *chunk = (char *)lm_region_get(region, head + room, align, &got);
    if (chunk == NULL && room > bytes)
        chunk = (char *)lm_region_get(region, head + bytes, align, &got);
    if (chunk == NULL) return NULL;
    char *p = chunk + head;
    lm_large_t *large = large_of(p);
    *large = (lm_large_t){region->large, &region->large, chunk, got, ++region->serial};
    if (large->older != NULL) large->older->link = &large->older;
    region->large = large;
    char *after = (char *)(&large->serial + 1); /* rounding, up to the object: its redzone */
    lm_tool_hide(after, (size_t)(chunk + got - after));
    return p;
}

void *lm_region_large_alloc(loam_region *region, size_t bytes, size_t align) {
    return large_alloc(region, bytes, align, bytes);
}

void lm_region_large_free(loam_region *region, void *p) {
    lm_large_t *large = large_of(p);
    *large->link = large->older;
    if (large->older != NULL) large->older->link = large->link;
    lm_region_put(region, large->chunk, large->got);
}

size_t lm_region_large_room(const void *p) {
    const lm_large_t *large = large_of(p);
    return (size_t)(large->chunk + large->got - (const char *)p);
}

size_t lm_region_large_serial(const void *p) { return large_of(p)->serial; }

/* ---- Realloc ---- */

/* What the tool sees of an object whose size has changed in place. */
static void show(const loam_region *region, char *p, size_t old_bytes, size_t bytes) {
    if (region->mode != LM_REGION_WATCHED) return;
    if (bytes > old_bytes) {
        lm_tool_show_undefined(p + old_bytes, bytes - old_bytes);
    } else {
        lm_tool_hide(p + bytes, old_bytes - bytes);
    }
}

/* The last object of the current chunk, of old_all bytes in all, becomes one of all: false iff it is not the last or
 * there is no room. */
static bool resize_last(loam_region *region, char *p, size_t old_all, size_t all) {
    loam_region_room *room = lm_region_room(region);
    if (!lm_region_is_last(region, p, old_all)) return false;
    size_t left = (size_t)(room->end - p);
    if (all > left && !lm_region_ready(region, all - old_all, 1) &&
        !(lm_region_contiguous(region) && lm_region_grow_chunk(region, all - left)))
        return false;
    room->at = p + all;
    return true;
}

static bool resize(loam_region *region, char *p, size_t old_bytes, size_t bytes, size_t align) {
    if (old_bytes == 0) return bytes == 0; /* its address may be another object's as well */
    bool was_large = old_bytes > region->large_bytes;
    if (was_large != (bytes > region->large_bytes)) return false;
    if (was_large) return bytes <= lm_region_large_room(p);
    size_t old_all = lm_region_whole(region, old_bytes, align);
    size_t all = lm_region_whole(region, bytes, align);
    size_t capacity = lm_region_capacity(region, p, old_all, false);
    if (capacity != old_all) return all <= capacity;
    return resize_last(region, p, old_all, all) || all <= old_all;
}

static void *move(loam_region *region, char *p, size_t old_bytes, size_t bytes, size_t align,
                  const char *file, unsigned line) {
    char *moved;
    if (bytes > region->large_bytes) {
        size_t room =
            bytes > old_bytes && old_bytes > region->large_bytes ? bytes + old_bytes / 2 : bytes;
        moved = (char *)large_alloc(region, bytes, align, room);
    } else {
        size_t capacity = lm_region_whole(region, bytes, align);
        lm_freed_set_t *set = NULL;
        if (bytes > old_bytes && old_bytes != 0 && !region->fixed)
            set = lm_region_freed_set(region);
        if (set != NULL) {
            size_t twice = lm_align_up(2 * old_bytes, 16);
            if (twice > region->large_bytes) twice = region->large_bytes;
            if (twice > capacity) capacity = twice;
        }
        moved = (char *)lm_region_carve(region, capacity + (set != NULL ? SPOIL : 0), align);
        if (moved != NULL && set != NULL) remember(region, set, moved, capacity);
        if (moved == NULL) moved = (char *)lm_region_alloc(region, bytes, align, file, line);
    }
    if (moved == NULL) return NULL;
    if (region->mode == LM_REGION_WATCHED) lm_tool_show_undefined(moved, bytes);
    memcpy(moved, p, old_bytes < bytes ? old_bytes : bytes);
    lm_region_free(region, p, old_bytes, align, file, line);
    return moved;
}

/* The same in a checked region: the tag knows what room the object has. */
static bool resize_checked(loam_region *region, loam_tag *tag, size_t bytes) {
    char *raw = (char *)tag->raw;
    size_t head = (size_t)((char *)(tag + 1) - raw), old_raw = tag->raw_bytes;
    if (bytes > (size_t)PTRDIFF_MAX - head - 64) return false;
    size_t all = head + lm_align_up(bytes + LM_GUARD_BYTES, 16);
    bool has_room = all <= old_raw && bytes > tag->bytes; /* it will need the rest as well */
    if (!has_room && old_raw <= region->large_bytes && all <= region->large_bytes &&
        bytes != tag->bytes && resize_last(region, raw, old_raw, all)) {
        lm_guard_resize(&region->entry, tag, all, bytes);
        return true;
    }
    if (all > old_raw) return false;
    lm_guard_resize(&region->entry, tag, old_raw, bytes);
    return true;
}

static void *realloc_checked(loam_region *region, void *p, size_t old_bytes, size_t bytes,
                             size_t align, const char *file, unsigned line) {
    loam_tag *tag = lm_region_find(region, p, old_bytes, "realloc", file, line);
    if (tag == NULL) return NULL;
    if (resize_checked(region, tag, bytes)) return p;
    /* With room to grow, as elsewhere. */
    size_t room = bytes;
    if (bytes > old_bytes && bytes <= PTRDIFF_MAX / 2)
        room = 4 * old_bytes < region->large_bytes ? 2 * old_bytes : bytes + old_bytes / 2;
    if (room < bytes) room = bytes;
    void *moved = lm_region_alloc(region, room, align, file, line);
    if (moved == NULL && room > bytes) {
        room = bytes;
        moved = lm_region_alloc(region, bytes, align, file, line);
    }
    if (moved == NULL) return NULL;
    loam_tag *other = (loam_tag *)moved - 1;
    if (room > bytes) lm_guard_resize(&region->entry, other, other->raw_bytes, bytes);
    memcpy(moved, p, old_bytes < bytes ? old_bytes : bytes);
    lm_region_free(region, p, old_bytes, align, file, line);
    return moved;
}

void *loam_region_realloc_slow(loam_region *region, void *p, size_t old_bytes, size_t bytes,
                               size_t align, const char *file, unsigned line) {
    if (p == NULL) return lm_region_alloc(region, bytes, align, file, line);
    if (!lm_region_possible(bytes, align)) return NULL;
    if (region->mode == LM_REGION_CHECKED)
        return realloc_checked(region, p, old_bytes, bytes, align, file, line);
    if (resize(region, (char *)p, old_bytes, bytes, align)) {
        show(region, (char *)p, old_bytes, bytes);
        return p;
    }
    return move(region, (char *)p, old_bytes, bytes, align, file, line);
}

bool loam_region_extend_slow(loam_region *region, void *p, size_t old_bytes, size_t bytes,
                             size_t align, const char *file, unsigned line) {
    if (p == NULL || !lm_region_possible(bytes, align)) return false;
    if (region->mode == LM_REGION_CHECKED) {
        loam_tag *tag = lm_region_find(region, p, old_bytes, "extend", file, line);
        return tag != NULL && resize_checked(region, tag, bytes);
    }
    if (!resize(region, (char *)p, old_bytes, bytes, align)) return false;
    show(region, (char *)p, old_bytes, bytes);
    return true;
}

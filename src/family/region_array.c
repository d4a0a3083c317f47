/* region_array.c: a region's freed extents, its arrays with room to grow, and its large objects.
 *
 *   lists[i] ──> extent ──> extent               of similar size; lists[0]: of less than two words
 *   grown    [ p, capacity │ - │ p, capacity ]   a hash table of few slots
 *
 *   chunk    [ object │ extent │ object │ at .. end ]
 *   chunk    [ object │ at . end │ object │ .... ]
 *                       └ the room is a hole
 *
 * A freed extent that is not the last object joins a list, in its own memory. So does the rest of a
 * chunk when the next one becomes current. When the room is used up, an extent serves the request.
 * If it has more left than the room, it becomes the room, so the inline paths cut small objects
 * from holes as they do from chunks. Extents do not know their neighbours; lm_region_sort
 * (region_sort.c) joins them from time to time.
 *
 * An array that moves to grow gets twice the room. So adding elements one by one copies each less
 * than once on average, whatever is allocated in between. Only a table keyed by the array's address
 * records this room; free and realloc look it up. After the room come SPOIL unused bytes. Because
 * of them `at` never equals the end that the array's user knows, so the inline paths, which know no
 * capacity, leave the array to the slow path.
 */
#include "family/region.h"

enum {
    SPOIL = 16,
    LOOK_AT = 8,
    ARRAY_PROBES = 4,
    STEPS = 8,
    PARK_LEAST = 1024,
    SMALL = sizeof(void *),
    ARRAY_UNIT = sizeof(lm_freed_t)
};

/* ---- The set, made when it is first needed ---- */

lm_freed_set_t *lm_region_freed_set(loam_region *region) {
    if (region->freed != NULL) return region->freed;
    lm_freed_set_t *set = (lm_freed_set_t *)lm_region_carve(region, sizeof(*set), 16);
    if (set == NULL) return NULL;
    lm_tool_show_undefined(set, sizeof(*set));
    memset(set, 0, sizeof(*set));
    set->grown = set->first_grown;
    set->grown_slots = LM_REGION_GROWN_FIRST;
    set->sort_at = lm_region_sort_at(region);
    region->freed = set;
    if (region->marks == 0 && region->mode != LM_REGION_CHECKED) lm_region_give_tails(region);
    return set;
}

/* ---- Freed extents ---- */

/* Returns the list of an extent. Below eight units there is one list per unit, above that two per
 * doubling. */
unsigned lm_region_list_of(size_t bytes) {
    if (bytes < (size_t)STEPS * ARRAY_UNIT) return (unsigned)(bytes / ARRAY_UNIT);
    unsigned log = lm_log2(bytes);
    unsigned list = STEPS + 2 * (log - lm_log2(STEPS * ARRAY_UNIT)) + (bytes >> (log - 1) & 1);
    return list < LM_REGION_LISTS ? list : LM_REGION_LISTS - 1;
}

/* Adds an extent to its list. Freed memory is hidden from tools, so its links are read and written
 * with the tools paused. */
LM_READS_ANYTHING void lm_region_push(lm_freed_set_t *set, char *p, size_t bytes) {
    if (bytes < SMALL) return;
    lm_freed_t *freed = (lm_freed_t *)(void *)p;
    unsigned list = lm_region_list_of(bytes);
    LM_ASSERT(list < LM_REGION_LISTS);
    lm_tool_pause();
    if (list != 0) freed->bytes = bytes;
    freed->next = set->lists[list];
    lm_tool_resume();
    set->lists[list] = freed;
    set->nonempty |= 1u << list;
    set->bytes += list != 0 ? bytes : SMALL;
    set->count++;
    set->unsorted++;
}

/* Takes the first extent with room for the object, among those examined, off its list. Returns its
 * bytes, or 0 iff there is none. */
LM_READS_ANYTHING static size_t array_pop(lm_freed_set_t *set, size_t bytes, size_t align,
                                          char **p) {
    uint32_t lists = set->nonempty & ~(uint32_t)0 << lm_region_list_of(bytes);
    for (; lists != 0; lists &= lists - 1) {
        unsigned list = lm_lowest_bit(lists);
        lm_freed_t *before = NULL, *freed = set->lists[list];
        for (int i = 0; i < LOOK_AT && freed != NULL; i++, before = freed, freed = freed->next) {
            size_t has = list != 0 ? freed->bytes : SMALL;
            size_t gap = (0 - (uintptr_t)freed) & (align - 1);
            if (has < gap || has - gap < bytes) continue;
            if (before != NULL)
                before->next = freed->next;
            else if ((set->lists[list] = freed->next) == NULL)
                set->nonempty &= ~(1u << list);
            LM_ASSERT(has <= set->bytes && set->count != 0);
            set->bytes -= has;
            set->count--;
            *p = (char *)freed;
            return has;
        }
    }
    return 0;
}

/* ---- The room ---- */

void lm_region_leave_hole(loam_region *region) {
    if (!lm_region_in_hole(region)) return;
    loam_region_room *room = lm_region_room(region);
    const lm_chunk_t *chunk = region->chunk;
    region->freed->hole = NULL;
    lm_region_push(region->freed, room->at, (size_t)(room->end - room->at));
    *room = (loam_region_room){chunk->at, chunk->end, chunk->floor};
}

static void enter_hole(loam_region *region, char *p, char *end) {
    loam_region_room *room = lm_region_room(region);
    lm_chunk_t *chunk = region->chunk;
    if (lm_region_in_hole(region)) {
        lm_region_push(region->freed, room->at, (size_t)(room->end - room->at));
    } else {
        chunk->at = room->at;
        chunk->end = room->end;
        chunk->floor = room->floor;
    }
    region->freed->hole = p;
    *room = (loam_region_room){p, end, p - 1};
}

/* Empties the room, so that every request takes the slow path, which finds the best place. The
 * room's memory stays with the chunk, or joins the lists. */
static void park(loam_region *region) {
    lm_chunk_t *chunk = region->chunk;
    char *p = (char *)lm_align_down((uintptr_t)chunk + chunk->bytes, 16);
    if (lm_region_room(region)->end != lm_region_room(region)->at) enter_hole(region, p, p);
}

void *lm_region_reuse(loam_region *region, size_t bytes, size_t align) {
    lm_freed_set_t *set = region->freed;
    char *freed;
    if (bytes == 0 || set->nonempty == 0) return NULL;
    lm_tool_pause();
    size_t has = array_pop(set, bytes, align, &freed);
    lm_tool_resume();
    if (has == 0) return NULL;
    size_t gap = (0 - (uintptr_t)freed) & (align - 1);
    char *p = freed + gap, *rest = p + bytes, *end = freed + has;
    lm_region_push(set, freed, gap);
    LM_ASSERT(rest <= end);
    char *room_end = (char *)lm_align_down((uintptr_t)end, 16);
    const loam_region_room *room = lm_region_room(region);
    if (set->bytes <= lm_region_used(region) / 4 && room_end - rest >= 16 &&
        room_end - rest > room->end - room->at) {
        lm_region_push(set, room_end, (size_t)(end - room_end));
        enter_hole(region, rest, room_end);
    } else {
        lm_region_push(set, rest, (size_t)(end - rest));
    }
    return p;
}

void lm_region_give_tail(loam_region *region, lm_chunk_t *chunk) {
    char *end = chunk->given != NULL ? chunk->given : lm_chunk_end(chunk), *from = chunk->at;
    /* The links of an extent would lie in memory that a checked region watches. */
    LM_ASSERT(region->mode != LM_REGION_CHECKED);
    chunk->at = chunk->end = chunk->given = (char *)lm_align_up((uintptr_t)from, 16);
    chunk->floor = lm_chunk_first(region, chunk) - 1;
    lm_region_push(region->freed, from, (size_t)(end - from));
}

void lm_region_collect(loam_region *region, char *p, size_t bytes) {
    if (bytes < SMALL || region->mode == LM_REGION_CHECKED) return;
    lm_freed_set_t *set = lm_region_freed_set(region);
    if (set == NULL) return;
    lm_region_push(set, p, bytes);
    if (LM_UNLIKELY(set->bytes > set->sort_at) && region->marks == 0 &&
        set->bytes > lm_region_sort_at(region))
        lm_region_sort(region);
    if (set->bytes > lm_region_used(region) / 2 && set->bytes >= PARK_LEAST) park(region);
}

void lm_region_give_tails(loam_region *region) {
    for (lm_chunk_t *chunk = region->chunk->before; chunk != NULL; chunk = chunk->before) {
        if (chunk->given == NULL || chunk->at < chunk->given) lm_region_give_tail(region, chunk);
    }
}

/* Merges the older set into the present one. The older set's capacities are dropped: memory freed
 * since may belong to another object by now. */
LM_READS_ANYTHING void lm_region_merge(loam_region *region, lm_freed_set_t *older) {
    lm_freed_set_t *set = region->freed;
    if (set == NULL) region->freed = older;
    if (set == NULL || older == NULL) return;
    LM_ASSERT(set->hole == NULL);
    lm_tool_pause();
    for (unsigned i = 0; i < LM_REGION_LISTS; i++) {
        lm_freed_t *last = set->lists[i];
        while (last != NULL && last->next != NULL) last = last->next;
        if (last != NULL)
            last->next = older->lists[i];
        else
            set->lists[i] = older->lists[i];
    }
    lm_tool_resume();
    set->nonempty |= older->nonempty;
    set->bytes += older->bytes;
    set->count += older->count;
    set->unsorted += older->unsorted;
    if (set->cleanups == NULL) set->cleanups = older->cleanups;
}

/* ---- Capacities ---- */

static size_t array_slot_of(const lm_freed_set_t *set, const char *p) {
    return ((uintptr_t)p >> 4) * 0x9E3779B1u >> 7 & (set->grown_slots - 1);
}

/* Returns the slot of p; if p is NULL, an empty slot for `home`. Returns NULL iff there is none. */
static lm_grown_t *find_slot(lm_freed_set_t *set, const char *home, const char *p) {
    for (size_t i = 0, slot = array_slot_of(set, home); i < ARRAY_PROBES; i++, slot++) {
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

/* Doubles the table's slots. Returns false iff there is no memory, or the table would be too
 * large. */
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
        /* An entry without a place is forgotten. */
        if (old[i].p != NULL) (void)put_slot(set, old[i]);
    }
    if (old == set->first_grown) return true;
    lm_tool_hide(old, bytes / 2);
    lm_region_push(set, (char *)old, bytes / 2);
    return true;
}

static void array_remember(loam_region *region, lm_freed_set_t *set, char *p, size_t capacity) {
    lm_grown_t grown = {p, capacity};
    while (!put_slot(set, grown)) {
        if (more_slots(region, set)) continue;
        /* An entry is forgotten: its additional room is lost until the reset. */
        set->grown[array_slot_of(set, p)] = grown;
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

/* ---- Large objects: one chunk each ---- */

static lm_large_t *large_of(const void *p) { return (lm_large_t *)(uintptr_t)p - 1; }

/* Allocates a large object. room: bytes that it should have if possible. */
static void *array_large_alloc(loam_region *region, size_t bytes, size_t align, size_t room) {
    if (align < 16) align = 16;
    LM_ASSERT(lm_is_pow2(align));
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
    LM_ASSERT(large->older == NULL ||
              (large->older->link == &region->large && large->older->serial < large->serial));
    if (large->older != NULL) large->older->link = &large->older;
    region->large = large;
    /* The rounding up to the object is its redzone. */
    char *after = (char *)(&large->serial + 1);
    lm_tool_hide(after, (size_t)(chunk + got - after));
    return p;
}

void *lm_region_large_alloc(loam_region *region, size_t bytes, size_t align) {
    return array_large_alloc(region, bytes, align, bytes);
}

void lm_region_large_free(loam_region *region, void *p) {
    lm_large_t *large = large_of(p);
    LM_ASSERT(*large->link == large && large->serial <= region->serial);
    LM_ASSERT(large->older == NULL || large->older->link == &large->older);
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

/* Tells a tool that an object's size has changed in place. */
static void array_show(const loam_region *region, char *p, size_t old_bytes, size_t bytes) {
    if (region->mode != LM_REGION_WATCHED) return;
    if (bytes > old_bytes) {
        lm_tool_show_undefined(p + old_bytes, bytes - old_bytes);
    } else {
        lm_tool_hide(p + bytes, old_bytes - bytes);
    }
}

/* Changes the last object of the current chunk from old_all to `all` bytes. Returns false iff it is
 * not the last one, or there is no room. */
static bool resize_last(loam_region *region, char *p, size_t old_all, size_t all) {
    loam_region_room *room = lm_region_room(region);
    if (!lm_region_is_last(region, p, old_all)) return false;
    size_t left = (size_t)(room->end - p);
    if (all > left && !lm_region_ready(region, all - old_all, 1) &&
        (lm_region_in_hole(region) || region->chunk->given != NULL ||
         !lm_region_contiguous(region) || !lm_region_grow_chunk(region, all - left)))
        return false;
    LM_ASSERT(all <= (size_t)(room->end - p));
    if (LM_UNLIKELY(region->mode == LM_REGION_CHECKED)) {
        LM_ASSERT(((uintptr_t)(p + all) & 15) == 0);
        lm_chunk_t *chunk = region->chunk;
        char *at = room->at, *to = p + all;
        chunk->gone = to >= at ? lm_gone_take(&region->entry, at, at, to, chunk->gone)
                               : lm_gone_cut(to, at, chunk->gone);
    }
    room->at = p + all;
    return true;
}

static bool array_resize(loam_region *region, char *p, size_t old_bytes, size_t bytes,
                         size_t align) {
    if (old_bytes == 0) return bytes == 0; /* its address may also be another object's */
    bool was_large = old_bytes > region->large_bytes;
    if (was_large != (bytes > region->large_bytes)) return false;
    if (was_large) return bytes <= lm_region_large_room(p);
    size_t old_all = lm_region_whole(region, old_bytes, align);
    size_t all = lm_region_whole(region, bytes, align);
    size_t capacity = lm_region_capacity(region, p, old_all, false);
    if (capacity != old_all) return all <= capacity;
    return resize_last(region, p, old_all, all) || all <= old_all;
}

static void *array_move(loam_region *region, char *p, size_t old_bytes, size_t bytes, size_t align,
                        const char *file, unsigned line) {
    char *moved;
    if (bytes > region->large_bytes) {
        size_t room =
            bytes > old_bytes && old_bytes > region->large_bytes ? bytes + old_bytes / 2 : bytes;
        moved = (char *)array_large_alloc(region, bytes, align, room);
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
        if (moved != NULL && set != NULL) array_remember(region, set, moved, capacity);
        if (moved == NULL) moved = (char *)lm_region_alloc(region, bytes, align, file, line);
    }
    if (moved == NULL) return NULL;
    if (region->mode == LM_REGION_WATCHED) lm_tool_show_undefined(moved, bytes);
    memcpy(moved, p, old_bytes < bytes ? old_bytes : bytes);
    lm_region_free(region, p, old_bytes, align, file, line);
    return moved;
}

/* As resize(), in a checked region: the tag records the room of the object. */
static bool resize_checked(loam_region *region, loam_tag *tag, size_t bytes) {
    char *raw = (char *)tag->raw;
    size_t head = (size_t)((char *)(tag + 1) - raw), old_raw = tag->raw_bytes;
    LM_ASSERT(tag->bytes <= old_raw - head - LM_GUARD_BYTES);
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

static void *array_realloc_checked(loam_region *region, void *p, size_t old_bytes, size_t bytes,
                                   size_t align, const char *file, unsigned line) {
    loam_tag *tag = lm_region_find(region, p, old_bytes, align, "realloc", file, line);
    if (tag == NULL) return NULL;
    if (resize_checked(region, tag, bytes)) return p;
    /* The object gets room to grow, as in unchecked regions. */
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
    LM_ASSERT(other != tag && other->bytes == room);
    if (room > bytes) lm_guard_resize(&region->entry, other, other->raw_bytes, bytes);
    memcpy(moved, p, old_bytes < bytes ? old_bytes : bytes);
    lm_region_free(region, p, old_bytes, align, file, line);
    return moved;
}

void *loam_region_realloc_slow(loam_region *region, void *p, size_t old_bytes, size_t bytes,
                               size_t align, const char *file, unsigned line) {
    if (p == NULL) return lm_region_alloc(region, bytes, align, file, line);
    if (lm_region_over(region, "realloc", file, line)) return NULL;
    if (!lm_region_possible(bytes, align)) return NULL;
    if (region->mode == LM_REGION_CHECKED)
        return array_realloc_checked(region, p, old_bytes, bytes, align, file, line);
    if (array_resize(region, (char *)p, old_bytes, bytes, align)) {
        array_show(region, (char *)p, old_bytes, bytes);
        return p;
    }
    return array_move(region, (char *)p, old_bytes, bytes, align, file, line);
}

bool loam_region_extend_slow(loam_region *region, void *p, size_t old_bytes, size_t bytes,
                             size_t align, const char *file, unsigned line) {
    if (p == NULL || lm_region_over(region, "extend", file, line)) return false;
    if (!lm_region_possible(bytes, align)) return false;
    if (region->mode == LM_REGION_CHECKED) {
        loam_tag *tag = lm_region_find(region, p, old_bytes, align, "extend", file, line);
        return tag != NULL && resize_checked(region, tag, bytes);
    }
    if (!array_resize(region, (char *)p, old_bytes, bytes, align)) return false;
    array_show(region, (char *)p, old_bytes, bytes);
    return true;
}

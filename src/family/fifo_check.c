/* fifo_check.c: usage and invariants of a FIFO (loam/fifo.h). */
#include "family/fifo.h"

static const loam_fifo_room *fifo_check_room_of(const loam_fifo *fifo) {
    return fifo->mode == LM_FIFO_PLAIN ? &fifo->room : &fifo->hidden;
}

/* Returns the live objects of a page that is not current. Objects that other threads freed are not
 * live, whether the owner has counted them or not. Relaxed: a snapshot. */
static size_t objects_of(const lm_fifo_page_t *page) {
    return page->head.live - lm_load_relaxed(&page->remote);
}

void loam_fifo_usage(const loam_fifo *fifo, loam_usage *usage) {
    size_t used = 0, objects = 0;
    if (lm_fifo_over(fifo, "usage", NULL, 0)) {
        *usage = (loam_usage){.kind = fifo->entry.kind->name, .name = ""};
        return;
    }
    const lm_fifo_page_t *current = fifo->page;
    if (current != NULL) {
        used = (size_t)(fifo_check_room_of(fifo)->at - lm_fifo_first(current));
        objects = objects_of(current) - (LM_FIFO_BIAS - fifo->made);
    }
    for (const lm_fifo_page_t *page = fifo->busy; page != NULL; page = page->next) {
        used += (size_t)(page->at - lm_fifo_first(page));
        objects += objects_of(page);
    }
    *usage = (loam_usage){
        .kind = fifo->entry.kind->name,
        .name = fifo->entry.name != NULL ? fifo->entry.name : "",
        .held_bytes = fifo->held_bytes,
        .used_bytes = used,
        .peak_bytes = fifo->peak_bytes,
        .chunks = fifo->chunks,
        .requests = fifo->requests,
        .objects = objects,
    };
}

/* ---- Invariants ---- */

static bool fifo_check_broken(const loam_fifo *fifo, const char *what, const void *where) {
    lm_family_misuse(&fifo->entry, NULL, 0, "%s, at %p", what, where);
    return false;
}

static bool fifo_check_is_zero(const char *from, const char *to) {
    while (from < to && *from == 0) from++;
    return from == to;
}

static bool fifo_check_room(const loam_fifo *fifo) {
    const loam_fifo_room *room = fifo_check_room_of(fifo);
    const lm_fifo_page_t *page = fifo->page;
    if (fifo->mode != LM_FIFO_PLAIN && (fifo->room.at != NULL || fifo->room.end != NULL))
        return fifo_check_broken(fifo, "inline paths are open", fifo);
    if (page == NULL)
        return (room->at == NULL && room->end == NULL) ||
               fifo_check_broken(fifo, "there is room without a page", room->at);
    if (room->at < lm_fifo_first(page) || room->at > room->end ||
        room->end > lm_fifo_limit(fifo, page) || ((uintptr_t)room->end & 15) != 0)
        return fifo_check_broken(fifo, "the room is not in the current page", room->at);
    if (page->head.live - (LM_FIFO_BIAS - fifo->made) > fifo->made)
        return fifo_check_broken(fifo, "the current page's count", page);
    return !fifo->zeroes || fifo_check_is_zero(room->at, room->end) ||
           fifo_check_broken(fifo, "what is ready is not zero", room->at);
}

static bool check_busy(const loam_fifo *fifo, size_t *bytes, size_t *chunks) {
    const lm_fifo_page_t *before = NULL;
    for (const lm_fifo_page_t *page = fifo->busy; page != NULL; before = page, page = page->next) {
        if (page->prev != before || page == fifo->page || ((uintptr_t)page & ~fifo->mask) != 0)
            return fifo_check_broken(fifo, "the list of pages", page);
        if (page->head.live == 0 || page->head.live >= LM_FIFO_BIAS)
            return fifo_check_broken(fifo, "a page's count", page);
        if (page->at < lm_fifo_first(page) || page->at > page->chunk + page->got)
            return fifo_check_broken(fifo, "a page's position is outside of it", page);
        *bytes += page->got;
        *chunks += 1;
    }
    return true;
}

static bool check_spares(const loam_fifo *fifo, size_t *bytes, size_t *chunks) {
    size_t count = 0;
    for (const lm_fifo_page_t *page = fifo->spares; page != NULL; page = page->next, count++) {
        if (page->own) return fifo_check_broken(fifo, "the spare pages", page);
        *bytes += page->got;
    }
    if (count != fifo->spare_count || count > fifo->spare_most || fifo->spare_low > count)
        return fifo_check_broken(fifo, "the spare pages", fifo->spares);
    for (const lm_fifo_page_t *page = fifo->large_spares; page != NULL; page = page->next, count++)
        *bytes += page->got;
    *chunks += count;
    return true;
}

bool loam_fifo_check(const loam_fifo *fifo) {
    if (lm_fifo_over(fifo, "check", NULL, 0)) return false;
    size_t bytes = fifo->own_bytes, chunks = bytes != 0;
    if (!fifo_check_room(fifo) || !check_busy(fifo, &bytes, &chunks) ||
        !check_spares(fifo, &bytes, &chunks))
        return false;
    if (fifo->page != NULL) bytes += fifo->page->got, chunks++;
    if (bytes != fifo->held_bytes || chunks != fifo->chunks)
        return fifo_check_broken(fifo, "pages are lost", fifo->page);
    if (fifo->mode != LM_FIFO_CHECKED) return true;
    bool good = lm_guard_check(&fifo->entry);
    if (fifo->page != NULL) good = lm_fifo_check_freed(fifo, fifo->page) && good;
    for (const lm_fifo_page_t *page = fifo->busy; page != NULL; page = page->next)
        good = lm_fifo_check_freed(fifo, page) && good;
    for (const lm_fifo_page_t *page = fifo->spares; page != NULL; page = page->next)
        good = lm_fifo_check_freed(fifo, page) && good;
    for (const lm_fifo_page_t *page = fifo->large_spares; page != NULL; page = page->next)
        good = lm_fifo_check_freed(fifo, page) && good;
    return good;
}

/* ---- For the meter ---- */

#if LOAM_METER
void loam_meter_fifo_more(loam_fifo *fifo, const void *p, size_t bytes) {
    if (p != NULL) lm_fifo_page_of(fifo, p)->metered += bytes;
}

void loam_meter_fifo_freed(loam_fifo *fifo) {
    if (fifo->page == NULL || !lm_fifo_idle(fifo)) return;
    lm_meter_less(&fifo->entry, fifo->page->metered);
    fifo->page->metered = 0;
}
#endif

/* ---- For the registry ---- */

static const loam_fifo *fifo_of(const loam_entry *entry) {
    return LM_CONTAINER(entry, loam_fifo, entry);
}
static void fifo_check_usage_of(const loam_entry *entry, loam_usage *usage) {
    loam_fifo_usage(fifo_of(entry), usage);
}
static bool fifo_check_of(const loam_entry *entry) { return loam_fifo_check(fifo_of(entry)); }

const loam_kind lm_fifo_kind = {"fifo", fifo_check_usage_of, fifo_check_of, NULL};

/* fifo_page.c: pages of a FIFO (loam/fifo.h): the current one, full ones, spare ones, and those of
 * one object.
 *
 *   current   [ head │ objects ── at ── zero ── end ── old bytes ── dirty ── zero ]
 *   busy      [ head │ objects ── at ....................................... ]
 *   spare     [ head │ no objects .......................................... ]
 *   own       [ head │ (gap) one object ─────────────────────────────── at ]   any length
 *
 * A current page's `live` is BIAS minus its freed objects; another page's is its live objects.
 *
 * Memory is zeroed a step ahead of the objects, not a page at a time, so that the bytes handed out
 * next are in the nearest cache. If the current page has no live object at the end of a step, it
 * starts anew, so a queue that is often empty stays within a few steps.
 *
 * Spares have hysteresis: up to spare_most pages stay, and every WINDOW turns half of the pages
 * that were not needed meanwhile are given back. Invariant: busy pages have live objects, spares
 * have none.
 */
#include "family/fifo.h"

enum { FIFO_PAGE_STEP = 8192, FIFO_PAGE_WINDOW = 64 };

LM_STATIC_ASSERT(offsetof(lm_fifo_page_t, head) == 0, "inline paths find live there");
LM_STATIC_ASSERT(offsetof(loam_fifo, page) + sizeof(void *) <= 64,
                 "what the inline paths read is in one cache line");

/* ---- The source ---- */

static char *fifo_page_get(loam_fifo *fifo, size_t bytes, size_t *got) {
    LM_ASSERT(bytes >= LM_FIFO_HEAD && !lm_load_relaxed(&fifo->dead));
    char *chunk = (char *)loam_source_get(fifo->source, bytes, fifo->page_bytes, got);
    if (chunk == NULL && (fifo->spares != NULL || fifo->large_spares != NULL) &&
        !lm_fifo_contiguous(fifo)) {
        lm_fifo_drop_spares(fifo); /* they may be what is missing */
        chunk = (char *)loam_source_get(fifo->source, bytes, fifo->page_bytes, got);
    }
    if (chunk == NULL) return NULL;
    LM_METER(got(&fifo->entry, *got));
    fifo->requests++;
    fifo->chunks++;
    fifo->held_bytes += *got;
    if (fifo->held_bytes > fifo->peak_bytes) fifo->peak_bytes = fifo->held_bytes;
    return chunk;
}

static void put_chunk(loam_fifo *fifo, char *chunk, size_t got) {
    LM_ASSERT(fifo->chunks != 0 && got <= fifo->held_bytes - fifo->own_bytes);
    fifo->chunks--;
    fifo->held_bytes -= got;
    LM_METER(put(&fifo->entry, got));
    if (fifo->mode != LM_FIFO_PLAIN) lm_tool_show_undefined(chunk, got);
    loam_source_put(fifo->source, chunk, got);
}

void lm_fifo_put(loam_fifo *fifo, lm_fifo_page_t *page) {
    LM_ASSERT(page != fifo->page);
    if (page->dead != NULL) (void)lm_fifo_check_freed(fifo, page);
    put_chunk(fifo, page->chunk, page->got);
}

static bool fifo_page_is_zeroed(const loam_fifo *fifo) {
    return (fifo->source->flags & LOAM_SOURCE_ZEROED) != 0;
}

/* ---- The list of busy pages ---- */

static void link_busy(loam_fifo *fifo, lm_fifo_page_t *page) {
    LM_ASSERT(page != fifo->page && page->head.live != 0);
    LM_ASSERT(fifo->busy == NULL || (fifo->busy != page && fifo->busy->prev == NULL));
    page->prev = NULL;
    page->next = fifo->busy;
    if (fifo->busy != NULL) fifo->busy->prev = page;
    fifo->busy = page;
}

static void unlink_busy(loam_fifo *fifo, lm_fifo_page_t *page) {
    LM_ASSERT((page->prev != NULL ? page->prev->next : fifo->busy) == page);
    LM_ASSERT(page->next == NULL || page->next->prev == page);
    if (page->prev != NULL) {
        page->prev->next = page->next;
    } else {
        fifo->busy = page->next;
    }
    if (page->next != NULL) page->next->prev = page->prev;
}

/* ---- Checked FIFOs: freed objects stay and are checked until their page is used again ---- */

bool lm_fifo_check_freed(const loam_fifo *fifo, const lm_fifo_page_t *page) {
    bool good = true;
    for (const loam_tag *tag = page->dead; tag != NULL; tag = tag->next) {
        lm_tool_show(tag, offsetof(loam_tag, guard));
        good = lm_guard_check_freed(&fifo->entry, tag) && good;
    }
    return good;
}

static void forget_freed(const loam_fifo *fifo, lm_fifo_page_t *page) {
    if (page->dead != NULL) (void)lm_fifo_check_freed(fifo, page);
    page->dead = NULL;
}

/* Tells the meter that the page's objects are gone. */
static void unuse(const loam_fifo *fifo, lm_fifo_page_t *page) {
    LM_METER(less(&fifo->entry, page->metered));
#if LOAM_METER
    page->metered = 0;
#endif
    (void)fifo, (void)page;
}

/* ---- The current page ---- */

/* Makes the page current and starts its objects anew. */
static void fifo_page_begin(loam_fifo *fifo, lm_fifo_page_t *page) {
    loam_fifo_room *room = lm_fifo_room(fifo);
    char *first = lm_fifo_first(page), *limit = lm_fifo_limit(fifo, page);
    LM_ASSERT(!page->own && (fifo->page == NULL || fifo->page == page));
    forget_freed(fifo, page);
    page->head.live = LM_FIFO_BIAS;
    fifo->page = page;
    fifo->made = 0;
    room->at = first;
    room->end = fifo->zeroes ? first : limit;
    if (fifo->mode == LM_FIFO_PLAIN) return;
    /* Threads that freed objects there hand the memory over. */
    lm_tool_take(first, (size_t)(limit - first));
    lm_tool_hide(first, (size_t)(limit - first));
}

/* Ends the current page, keeping its objects. It is in no list afterwards. */
static lm_fifo_page_t *fifo_page_end(loam_fifo *fifo) {
    lm_fifo_page_t *page = fifo->page;
    const loam_fifo_room *room = lm_fifo_room(fifo);
    LM_ASSERT(LM_FIFO_BIAS - page->head.live <= fifo->made);
    LM_ASSERT(room->at >= lm_fifo_first(page) && room->at <= room->end);
    page->head.live -= LM_FIFO_BIAS - fifo->made;
    page->at = room->at;
    if (room->end > page->dirty) page->dirty = room->end;
    fifo->page = NULL;
    return page;
}

/* Makes the bytes up to `to` ready, and a step more. */
static void fifo_page_move_end(loam_fifo *fifo, char *to) {
    lm_fifo_page_t *page = fifo->page;
    loam_fifo_room *room = lm_fifo_room(fifo);
    char *limit = lm_fifo_limit(fifo, page), *was = room->end;
    LM_ASSERT(to <= limit && was <= limit);
    if (to <= was) return;
    to = (char *)lm_align_up((uintptr_t)to, 16);
    room->end = (size_t)(limit - was) > FIFO_PAGE_STEP ? was + FIFO_PAGE_STEP : limit;
    if (to > room->end) room->end = to;
    char *zero = page->dirty < room->end ? page->dirty : room->end;
    if (zero <= was) return;
    LM_METER(slow());
    memset(was, 0, (size_t)(zero - was));
}

static void *fifo_page_cut(loam_fifo_room *room, size_t lead, size_t bytes, size_t align) {
    uintptr_t p = lm_align_up((uintptr_t)room->at + lead, align), end = (uintptr_t)room->end;
    if (room->at == NULL || p < (uintptr_t)room->at || p > end || bytes > end - p) return NULL;
    room->at = (char *)(p + bytes);
    return (void *)p;
}

/* Returns whether the current page has room for the object now; it may start anew for that. */
static bool fifo_page_advance(loam_fifo *fifo, size_t lead, size_t bytes, size_t align) {
    lm_fifo_page_t *page = fifo->page;
    if (page == NULL) return false;
    loam_fifo_room *room = lm_fifo_room(fifo);
    if (lm_fifo_idle(fifo)) {
        unuse(fifo, page);
        if (room->end > page->dirty) page->dirty = room->end;
        fifo_page_begin(fifo, page);
    }
    uintptr_t p = lm_align_up((uintptr_t)room->at + lead, align);
    uintptr_t limit = (uintptr_t)lm_fifo_limit(fifo, page);
    if (p > limit || bytes > limit - p) return false;
    fifo_page_move_end(fifo, (char *)p + bytes);
    return true;
}

bool lm_fifo_stretch(loam_fifo *fifo, size_t more) {
    loam_fifo_room *room = lm_fifo_room(fifo);
    if (more > (size_t)(lm_fifo_limit(fifo, fifo->page) - room->at)) return false;
    fifo_page_move_end(fifo, room->at + more);
    room->at += more;
    LM_ASSERT(room->at <= room->end);
    return true;
}

/* ---- Spares ---- */

static lm_fifo_page_t *fifo_page_take_spare(loam_fifo *fifo) {
    lm_fifo_page_t *page = fifo->spares;
    if (page == NULL) return NULL;
    LM_ASSERT(fifo->spare_count != 0 && page->head.live == 0 && !page->own);
    fifo->spares = page->next;
    if (--fifo->spare_count < fifo->spare_low) fifo->spare_low = fifo->spare_count;
    return page;
}

static void keep_spare(loam_fifo *fifo, lm_fifo_page_t *page) {
    LM_ASSERT((fifo->spares == NULL) == (fifo->spare_count == 0));
    page->next = fifo->spares;
    fifo->spares = page;
    fifo->spare_count++;
}

/* Gives back half of the spares that were not needed in the last WINDOW turns. */
static void look_at_spares(loam_fifo *fifo) {
    if (++fifo->turns % FIFO_PAGE_WINDOW != 0 || lm_fifo_contiguous(fifo)) return;
    LM_ASSERT(fifo->spare_low <= fifo->spare_count);
    for (size_t idle = fifo->spare_low / 2; idle > 0; idle--) {
        lm_fifo_page_t *page = fifo->spares;
        LM_ASSERT(page != NULL && page->head.live == 0);
        fifo->spares = page->next;
        fifo->spare_count--;
        lm_fifo_put(fifo, page);
    }
    fifo->spare_low = fifo->spare_count;
}

void lm_fifo_drop_spares(loam_fifo *fifo) {
    LM_ASSERT((fifo->spares == NULL) == (fifo->spare_count == 0));
    for (lm_fifo_page_t *page; (page = fifo->spares) != NULL;) {
        fifo->spares = page->next;
        lm_fifo_put(fifo, page);
    }
    for (lm_fifo_page_t *page; (page = fifo->large_spares) != NULL;) {
        fifo->large_spares = page->next;
        lm_fifo_put(fifo, page);
    }
    fifo->spare_count = fifo->spare_low = 0;
}

static lm_fifo_page_t *make_page(char *chunk, size_t got, char *page_at, char *dirty) {
    lm_fifo_page_t *page = (lm_fifo_page_t *)(void *)page_at;
    LM_ASSERT(page_at >= chunk && page_at + LM_FIFO_HEAD <= chunk + got);
    *page = (lm_fifo_page_t){.chunk = chunk, .got = got, .dirty = dirty};
    return page;
}

/* Makes a page of one object a page for many, of page_bytes bytes. Returns NULL iff there is
 * none. */
static lm_fifo_page_t *take_large(loam_fifo *fifo) {
    lm_fifo_page_t *large = fifo->large_spares;
    if (large == NULL) return NULL;
    LM_ASSERT(large->own && large->head.live == 0 && large->got >= fifo->page_bytes);
    fifo->large_spares = large->next;
    forget_freed(fifo, large);
    char *chunk = large->chunk;
    if (fifo->mode != LM_FIFO_PLAIN) lm_tool_show_undefined(chunk, LM_FIFO_HEAD);
    return make_page(chunk, large->got, chunk, chunk + fifo->page_bytes);
}

/* Makes another page the current one. Returns false iff there is no memory. */
static bool fifo_page_turn(loam_fifo *fifo) {
    lm_fifo_page_t *page = fifo_page_take_spare(fifo);
    if (page == NULL) {
        size_t got;
        char *chunk = fifo_page_get(fifo, fifo->page_bytes, &got);
        if (chunk != NULL)
            page = make_page(chunk, got, chunk,
                             chunk + (fifo_page_is_zeroed(fifo) ? LM_FIFO_HEAD : fifo->page_bytes));
    }
    if (page == NULL) page = take_large(fifo); /* better than failing */
    if (page == NULL) return false;
    /* It has live objects: see advance. */
    if (fifo->page != NULL) link_busy(fifo, fifo_page_end(fifo));
    fifo_page_begin(fifo, page);
    look_at_spares(fifo);
    return true;
}

void lm_fifo_retire(loam_fifo *fifo) {
    if (fifo->page == NULL) return;
    lm_fifo_page_t *page = fifo_page_end(fifo);
    *lm_fifo_room(fifo) = (loam_fifo_room){0};
    fifo->made = 0;
    if (page->head.live != 0) {
        link_busy(fifo, page);
        return;
    }
    unuse(fifo, page);
    lm_fifo_put(fifo, page);
}

/* ---- Pages of one object ---- */

/* Returns the first large spare that is big enough and not too big. Over a contiguous source, which
 * has no other memory, it may be too big. */
static lm_fifo_page_t *find_large(loam_fifo *fifo, size_t need) {
    lm_fifo_page_t **link = &fifo->large_spares;
    for (lm_fifo_page_t *page = *link; page != NULL; link = &page->next, page = *link) {
        if (page->got < need || (page->got / 4 > need && !lm_fifo_contiguous(fifo))) continue;
        *link = page->next;
        return page;
    }
    return NULL;
}

static void *carve_own(loam_fifo *fifo, size_t lead, size_t bytes, size_t align) {
    size_t need = lm_align_up(LM_FIFO_HEAD + lead, align) + bytes, got;
    char *chunk;
    bool fresh = false;
    lm_fifo_page_t *large = find_large(fifo, need);
    if (large != NULL) {
        forget_freed(fifo, large);
        chunk = large->chunk;
        got = large->got;
    } else {
        fresh = true;
        chunk = fifo_page_get(fifo, lm_align_up(need, 16), &got);
        if (chunk == NULL) return NULL;
    }
    char *p = (char *)lm_align_up((uintptr_t)chunk + LM_FIFO_HEAD + lead, align);
    char *place = (char *)lm_fifo_page_of(fifo, p);
    LM_ASSERT(p - lead >= place + LM_FIFO_HEAD && p + bytes <= chunk + got);
    if (fifo->mode != LM_FIFO_PLAIN) lm_tool_show_undefined(place, LM_FIFO_HEAD);
    lm_fifo_page_t *page = make_page(chunk, got, place, NULL);
    page->own = true;
    page->head.live = 1;
    page->at = p + bytes;
    link_busy(fifo, page);
    if (fifo->mode != LM_FIFO_PLAIN) {
        lm_tool_take(lm_fifo_first(page), (size_t)(chunk + got - lm_fifo_first(page)));
        lm_tool_hide(lm_fifo_first(page), (size_t)(chunk + got - lm_fifo_first(page)));
    }
    if (fifo->zeroes && !(fresh && fifo_page_is_zeroed(fifo))) {
        LM_METER(slow());
        memset(p, 0, bytes);
    }
    /* The caller will count the object in the current page. */
    fifo->made--;
    return p;
}

/* Handles a large page that became empty. Of two, the larger one stays, unless it is huge. Over a
 * contiguous source, which could not reuse it, each one stays. */
static void give_large(loam_fifo *fifo, lm_fifo_page_t *page) {
    LM_ASSERT(page->own && page->head.live == 0);
    lm_fifo_page_t *spare = fifo->large_spares;
    if (!lm_fifo_contiguous(fifo)) {
        if (page->got / LM_FIFO_LARGE_PAGES > fifo->page_bytes ||
            (spare != NULL && spare->got >= page->got)) {
            lm_fifo_put(fifo, page);
            return;
        }
        if (spare != NULL) lm_fifo_put(fifo, spare);
        spare = NULL;
    }
    page->next = spare;
    fifo->large_spares = page;
}

/* ---- Functions for fifo.c ---- */

void *lm_fifo_carve(loam_fifo *fifo, size_t lead, size_t bytes, size_t align) {
    LM_ASSERT(lm_is_pow2(align));
    loam_fifo_room *room = lm_fifo_room(fifo);
    if (fifo->dead) return NULL;
    void *p = fifo_page_cut(room, lead, bytes, align);
    if (p != NULL) return p;
    loam_fifo_collect(fifo);
    size_t head = lm_align_up(LM_FIFO_HEAD + lead, align);
    if (head >= fifo->page_bytes || bytes > fifo->page_bytes - head)
        return carve_own(fifo, lead, bytes, align);
    if (!fifo_page_advance(fifo, lead, bytes, align) &&
        !(fifo_page_turn(fifo) && fifo_page_advance(fifo, lead, bytes, align)))
        return NULL;
    return fifo_page_cut(room, lead, bytes, align);
}

bool lm_fifo_emptied(loam_fifo *fifo, lm_fifo_page_t *page) {
    LM_ASSERT(page->head.live == 0 && page != fifo->page);
    unlink_busy(fifo, page);
    unuse(fifo, page);
    if (fifo->dead) {
        lm_fifo_put(fifo, page);
        if (fifo->busy != NULL) return false;
        lm_fifo_finish(fifo);
        return true;
    }
    if (page->own) {
        give_large(fifo, page);
        return false;
    }
    if (fifo->spare_count < fifo->spare_most) {
        keep_spare(fifo, page);
        return false;
    }
    const loam_fifo_room *room = lm_fifo_room(fifo);
    if (fifo->page == NULL ||
        (size_t)(lm_fifo_limit(fifo, fifo->page) - room->at) < fifo->page_bytes / 8) {
        lm_fifo_retire(fifo);
        fifo_page_begin(fifo, page);
        return false;
    }
    lm_fifo_put(fifo, page);
    return false;
}

bool lm_fifo_less(loam_fifo *fifo, lm_fifo_page_t *page, size_t objects) {
    LM_ASSERT(objects != 0 && objects <= page->head.live);
    page->head.live -= objects;
    return page->head.live == 0 && lm_fifo_emptied(fifo, page);
}

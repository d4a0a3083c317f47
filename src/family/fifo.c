/* fifo.c: FIFOs (loam/fifo.h): initialisation, end, and objects for which the inline paths fail.
 *
 *   plain      object                                            nothing around it
 *   watched    │ lm_watched_t │ object │ 16 bytes                the rest of the page is hidden
 *   checked    │ lm_fifo_record_t, if other threads free │ loam_tag │ object │ guard
 */
#include "family/fifo.h"

enum { FIFO_PAGE_BYTES = 64 * 1024, PAGE_LEAST = 512, SPARES = 4 };

/* ---- Initialisation and end ---- */

/* Returns a number that identifies the calling thread among live threads. Without threads it is
 * always the same. */
static uintptr_t this_thread(void) {
#if LM_HOSTED
    return lm_thread_token();
#else
    return 1;
#endif
}

static const loam_fifo_options fifo_defaults;

static size_t fifo_page_of(const loam_fifo_options *options) {
    return options->page_bytes != 0 ? options->page_bytes : FIFO_PAGE_BYTES;
}
static bool fifo_possible_options(const loam_fifo_options *options) {
    size_t page = fifo_page_of(options);
    return lm_is_pow2(page) && page >= PAGE_LEAST && page <= PTRDIFF_MAX / 64;
}

int loam_fifo_init_as(loam_fifo *fifo, loam_source *source, const loam_fifo_options *options,
                      unsigned more_flags) {
    if (source == NULL) source = lm_default_source();
    if (options == NULL) options = &fifo_defaults;
    if (source == NULL || !fifo_possible_options(options)) return LM_EINVAL;
    if (!lm_source_may(source, fifo_page_of(options), fifo_page_of(options))) return LM_ENOMEM;
    unsigned flags = options->flags | more_flags;
    *fifo = (loam_fifo){
        .mask = ~(uintptr_t)(fifo_page_of(options) - 1),
        .spare_most = options->spare_pages != 0 ? options->spare_pages : SPARES,
        .source = source,
        .page_bytes = fifo_page_of(options),
        .owner = this_thread(),
        .raw = (flags & LOAM_FIFO_RAW) != 0,
        .remote = (flags & LOAM_FIFO_REMOTE) != 0,
        .leaks = (flags & LOAM_CHECK) != 0,
    };
    if ((source->flags & LOAM_SOURCE_CONTIGUOUS) != 0) fifo->spare_most = SIZE_MAX;
    bool checked = lm_is_checked(flags);
    if (checked) {
        fifo->mode = LM_FIFO_CHECKED;
    } else if (lm_tool_watches()) {
        fifo->mode = LM_FIFO_WATCHED;
    }
    if (fifo->mode != LM_FIFO_PLAIN) fifo->floor = UINTPTR_MAX;
    fifo->zeroes = fifo->mode == LM_FIFO_PLAIN && !fifo->raw;
    lm_entry_init(&fifo->entry, &lm_fifo_kind, options->name, checked);
    return 0;
}

loam_fifo *loam_fifo_create_as(loam_source *source, const loam_fifo_options *options,
                               unsigned more_flags) {
    if (source == NULL) source = lm_default_source();
    if (source == NULL) return NULL;
    size_t got;
    loam_fifo *fifo = (loam_fifo *)loam_source_get(source, sizeof(loam_fifo), 64, &got);
    if (fifo == NULL) return NULL;
    if (loam_fifo_init_as(fifo, source, options, more_flags) != 0) {
        loam_source_put(source, fifo, got);
        return NULL;
    }
    fifo->own_bytes = fifo->held_bytes = fifo->peak_bytes = got;
    fifo->requests = fifo->chunks = 1;
    LM_METER(began(&fifo->entry, got, 1));
    return fifo;
}

void lm_fifo_finish(loam_fifo *fifo) {
    loam_source *source = fifo->source;
    size_t got = fifo->own_bytes;
    LM_ASSERT(fifo->page == NULL && fifo->busy == NULL);
    LM_ASSERT(fifo->spares == NULL && fifo->large_spares == NULL);
    LM_ASSERT(fifo->held_bytes == got && fifo->chunks == (got != 0));
    lm_entry_deinit(&fifo->entry);
    bool checked = fifo->mode == LM_FIFO_CHECKED;
    if (checked) {
        fifo->mode = LM_FIFO_ENDED;
        fifo->floor = UINTPTR_MAX;
        /* Relaxed: a thread that frees at this moment may be before or after. */
        lm_store_relaxed(&fifo->dead, true);
        /* The name is copied into words that the FIFO no longer needs. */
        lm_entry_bury(&fifo->entry, (char *)&fifo->held_bytes, 3 * sizeof(size_t));
    }
    if (got != 0 && !(checked && lm_entry_keep(source, fifo, got, fifo, sizeof(*fifo))))
        loam_source_put(source, fifo, got);
}

void loam_fifo_deinit(loam_fifo *fifo) {
    if (lm_fifo_over(fifo, "deinit", NULL, 0)) return;
    loam_fifo_collect(fifo);
    if (fifo->mode == LM_FIFO_CHECKED) {
        (void)lm_guard_check(&fifo->entry);
        if (fifo->leaks) (void)lm_guard_leaks(&fifo->entry, LM_LEAKS_MOST);
        lm_guard_drop_all(&fifo->entry);
    }
    lm_fifo_retire(fifo);
    for (lm_fifo_page_t *page; (page = fifo->busy) != NULL;) {
        fifo->busy = page->next;
        lm_fifo_put(fifo, page);
    }
    lm_fifo_drop_spares(fifo);
    fifo->room = fifo->hidden = (loam_fifo_room){0};
    /* Relaxed: a thread that frees at this moment may be before or after. */
    lm_store_relaxed(&fifo->dead, true);
    lm_fifo_finish(fifo);
}

void loam_fifo_destroy(loam_fifo *fifo) {
    if (fifo == NULL || lm_fifo_over(fifo, "destroy", NULL, 0)) return;
    if (fifo->dead) { /* it was destroyed with live objects */
        (void)lm_entry_ended(&fifo->entry, "destroy", NULL, 0);
        return;
    }
    loam_fifo_collect(fifo);
    lm_fifo_retire(fifo);
    lm_fifo_drop_spares(fifo);
    /* Relaxed: a thread that frees at this moment may be before or after. */
    lm_store_relaxed(&fifo->dead, true);
    if (fifo->busy == NULL) {
        lm_fifo_finish(fifo);
        return;
    }
    if (!fifo->remote) return;
    fifo->floor = UINTPTR_MAX; /* from now on all threads free as others do */
    lm_fifo_leave(fifo);
}

void loam_fifo_adopt(loam_fifo *fifo) { lm_store_relaxed(&fifo->owner, this_thread()); }

size_t loam_fifo_trim(loam_fifo *fifo) {
    if (lm_fifo_over(fifo, "trim", NULL, 0)) return 0;
    loam_fifo_collect(fifo);
    size_t held = fifo->held_bytes;
    lm_fifo_drop_spares(fifo);
    if (fifo->page != NULL && lm_fifo_idle(fifo)) lm_fifo_retire(fifo);
    LM_ASSERT(fifo->held_bytes <= held);
    return held - fifo->held_bytes;
}

/* ---- Watched objects ---- */

static void *open_watched(loam_fifo *fifo, size_t bytes, size_t align) {
    size_t lead = sizeof(lm_watched_t);
    void *p = lm_fifo_carve(fifo, lead, bytes + 16, align < 16 ? 16 : align);
    if (p == NULL) return NULL;
    lm_watched_t *watched = (lm_watched_t *)p - 1;
    lm_tool_show_undefined(watched, lead + bytes);
    watched->bytes = bytes;
    if (!fifo->raw) memset(p, 0, bytes);
    lm_tool_hide(watched, lead);
    return p;
}

LM_READS_ANYTHING static size_t watched_bytes(const void *p) {
    lm_tool_show((const lm_watched_t *)p - 1, sizeof(lm_watched_t));
    return ((const lm_watched_t *)p - 1)->bytes;
}

void lm_fifo_hide(const void *p) {
    size_t bytes = watched_bytes(p);
    lm_tool_hide((const lm_watched_t *)p - 1, sizeof(lm_watched_t) + bytes);
    lm_tool_give(p, bytes);
}

/* Resizes a watched object in place. The page is large enough. */
static void resize_watched(const loam_fifo *fifo, char *p, size_t bytes) {
    size_t old_bytes = watched_bytes(p);
    lm_watched_t *watched = (lm_watched_t *)(void *)p - 1;
    watched->bytes = bytes;
    lm_tool_hide(watched, sizeof(*watched));
    if (bytes <= old_bytes) {
        lm_tool_hide(p + bytes, old_bytes - bytes);
        return;
    }
    lm_tool_show_undefined(p + old_bytes, bytes - old_bytes);
    if (!fifo->raw) memset(p + old_bytes, 0, bytes - old_bytes);
}

/* ---- Checked objects ---- */

static void *open_checked(loam_fifo *fifo, size_t bytes, size_t align, const char *file,
                          unsigned line) {
    size_t whole = lm_guard_whole(bytes, 16);
    size_t tag_bytes = lm_guard_head(16), record = fifo->remote ? sizeof(lm_fifo_record_t) : 0;
    if (whole == 0) return NULL;
    char *p =
        (char *)lm_fifo_carve(fifo, record + tag_bytes, whole - tag_bytes, align < 16 ? 16 : align);
    if (p == NULL) return NULL;
    LM_ASSERT(((uintptr_t)p & 15) == 0);
    LM_ASSERT(lm_fifo_page_of(fifo, p) == fifo->page || lm_fifo_page_of(fifo, p)->own);
    (void)lm_guard_open(&fifo->entry, p - tag_bytes, whole, bytes, 16, file, line);
    if (!fifo->raw) memset(p, 0, bytes);
    if (fifo->remote) {
        loam_tag *tag = (loam_tag *)(void *)p - 1;
        lm_tool_show_undefined(lm_fifo_record(tag), sizeof(lm_fifo_record_t));
        *lm_fifo_record(tag) = (lm_fifo_record_t){.tag = tag};
    }
    lm_store_relaxed(&fifo->owner, this_thread());
    return p;
}

/* Returns the tag; NULL if tag is NULL, or after a report if another thread has freed its
 * object. */
static loam_tag *unless_freed(const loam_fifo *fifo, loam_tag *tag, const char *doing,
                              const char *file, unsigned line) {
    if (tag == NULL || !fifo->remote) return tag;
    const lm_fifo_record_t *record = lm_fifo_record(tag);
    /* Acquire: see the place of that free. */
    if (lm_load_acquire(&record->freed) == 0) return tag;
    lm_family_misuse(&fifo->entry, file, line,
                     "%s of %p after its free at %s:%u, allocated at %s:%u", doing,
                     (const void *)(tag + 1), record->file != NULL ? record->file : "?",
                     record->line, tag->file != NULL ? tag->file : "?", tag->line);
    return NULL;
}

/* Finds the tag of an object that is about to be freed. A free of an object with broken guards is
 * refused, except in a destroyed FIFO, which ends with its last object. If it were refused there,
 * the FIFO would never end, and would stay in the registry after its memory is gone. */
loam_tag *lm_fifo_find(loam_fifo *fifo, const void *p, const char *file, unsigned line) {
    loam_tag *tag = lm_load_relaxed(&fifo->dead)
                        ? lm_guard_find_broken(&fifo->entry, p, "free", file, line)
                        : lm_guard_find(&fifo->entry, p, "free", file, line);
    return unless_freed(fifo, tag, "free", file, line);
}

lm_fifo_page_t *lm_fifo_close(loam_fifo *fifo, loam_tag *tag, const char *file, unsigned line) {
    lm_fifo_page_t *page = lm_fifo_page_of(fifo, tag + 1);
    LM_ASSERT(page->head.live != 0);
    (void)lm_guard_close(&fifo->entry, tag, file, line);
    tag->next = page->dead; /* its bytes are checked until the page is used again */
    page->dead = tag;
    return page;
}

/* Returns whether the calling thread owns the FIFO. Returns false after a report. */
static bool is_owner(const loam_fifo *fifo, const void *p, const char *doing, const char *file,
                     unsigned line) {
    if (lm_load_relaxed(&fifo->owner) == this_thread() || fifo->dead) return true;
    lm_family_misuse(&fifo->entry, file, line, "%s of %p by a thread that does not own the fifo",
                     doing, p);
    return false;
}

static bool is_last(loam_fifo *fifo, const char *end) {
    return fifo->page != NULL && end == lm_fifo_room(fifo)->at;
}

static void *fifo_realloc_checked(loam_fifo *fifo, void *p, size_t old_bytes, size_t bytes,
                                  size_t align, const char *file, unsigned line) {
    if (!is_owner(fifo, p, "realloc", file, line)) return NULL;
    loam_tag *tag = lm_guard_find(&fifo->entry, p, "realloc", file, line);
    tag = unless_freed(fifo, tag, "realloc", file, line);
    if (tag == NULL) return NULL;
    if (tag->bytes != old_bytes) {
        lm_family_misuse(&fifo->entry, file, line,
                         "realloc of %p with %zu bytes, allocated with %zu at %s:%u", p, old_bytes,
                         tag->bytes, tag->file != NULL ? tag->file : "?", tag->line);
        return NULL;
    }
    char *object = (char *)p;
    size_t head = (size_t)(object - (char *)tag->raw), raw_bytes = tag->raw_bytes;
    size_t need = head + lm_align_up(bytes + LM_GUARD_BYTES, 16);
    LM_ASSERT(old_bytes <= raw_bytes - head - LM_GUARD_BYTES);
    if (need > raw_bytes && is_last(fifo, (char *)tag->raw + raw_bytes) &&
        lm_fifo_stretch(fifo, need - raw_bytes)) {
        lm_tool_show_undefined((char *)tag->raw + raw_bytes, need - raw_bytes);
        raw_bytes = need;
    }
    if (need <= raw_bytes) {
        lm_guard_resize(&fifo->entry, tag, raw_bytes, bytes);
        if (bytes > old_bytes && !fifo->raw) memset(object + old_bytes, 0, bytes - old_bytes);
        return p;
    }
    void *moved = open_checked(fifo, bytes, align, file, line);
    if (moved == NULL) return NULL;
    fifo->made++;
    memcpy(moved, p, old_bytes < bytes ? old_bytes : bytes);
    (void)lm_fifo_less(fifo, lm_fifo_close(fifo, tag, file, line), 1);
    return moved;
}

/* ---- Objects ---- */

static void *fifo_alloc(loam_fifo *fifo, size_t bytes, size_t align, const char *file,
                        unsigned line) {
    if (lm_fifo_over(fifo, "allocation", file, line)) return NULL;
    if (!lm_fifo_possible(fifo, bytes, align)) return NULL;
    if (fifo->mode == LM_FIFO_PLAIN) return lm_fifo_carve(fifo, 0, bytes, align);
    if (fifo->mode == LM_FIFO_WATCHED) return open_watched(fifo, bytes, align);
    return open_checked(fifo, bytes, align, file, line);
}

loam_fifo_made loam_fifo_alloc_slow(loam_fifo *fifo, size_t bytes, size_t align, const char *file,
                                    unsigned line) {
    void *object = fifo_alloc(fifo, bytes, align, file, line);
    return (loam_fifo_made){object, fifo->room.at};
}

/* Frees an object. The caller is the owner, or no other thread uses the FIFO. */
static void free_now(loam_fifo *fifo, void *p, const char *file, unsigned line) {
    if (fifo->mode == LM_FIFO_CHECKED) {
        if (!is_owner(fifo, p, "free", file, line)) return;
        loam_tag *tag = lm_fifo_find(fifo, p, file, line);
        if (tag != NULL) (void)lm_fifo_less(fifo, lm_fifo_close(fifo, tag, file, line), 1);
        return;
    }
    if (fifo->mode == LM_FIFO_WATCHED) lm_fifo_hide(p);
    (void)lm_fifo_less(fifo, lm_fifo_page_of(fifo, p), 1);
}

void loam_fifo_free_slow(loam_fifo *fifo, void *p, const char *file, unsigned line) {
    if (p == NULL || lm_fifo_over(fifo, "free", file, line)) return;
    if (fifo->dead && fifo->remote) {
        loam_fifo_free_remote_at(fifo, p, file, line);
        return;
    }
    free_now(fifo, p, file, line);
}

void loam_fifo_emptied(loam_fifo *fifo, loam_fifo_page *page) {
    (void)lm_fifo_emptied(fifo, LM_CONTAINER(page, lm_fifo_page_t, head));
}

/* Resizes an object in place in a plain FIFO. Returns false iff the object has to move. */
static bool resize_plain(loam_fifo *fifo, char *p, size_t old_bytes, size_t bytes) {
    lm_fifo_page_t *page = lm_fifo_page_of(fifo, p);
    size_t more = bytes - old_bytes;
    if (is_last(fifo, p + old_bytes)) {
        if (bytes > old_bytes) return lm_fifo_stretch(fifo, more);
        /* These bytes are handed out again, to the same object or the next. */
        if (fifo->zeroes) memset(p + bytes, 0, old_bytes - bytes);
        lm_fifo_room(fifo)->at = p + bytes;
        return true;
    }
    if (bytes > old_bytes) {
        if (page == fifo->page || !page->own) return false;
        if (bytes > (size_t)(page->chunk + page->got - p)) return false;
        if (fifo->zeroes) memset(p + old_bytes, 0, more);
    }
    if (page != fifo->page && page->own) page->at = p + bytes;
    return true;
}

static bool resize_watched_in_place(loam_fifo *fifo, char *p, size_t old_bytes, size_t bytes) {
    bool last = is_last(fifo, p + old_bytes + 16);
    if (bytes > old_bytes && !(last && lm_fifo_stretch(fifo, bytes - old_bytes))) return false;
    if (bytes < old_bytes && last) lm_fifo_room(fifo)->at = p + bytes + 16;
    resize_watched(fifo, p, bytes);
    return true;
}

void *loam_fifo_realloc_slow(loam_fifo *fifo, void *p, size_t old_bytes, size_t bytes, size_t align,
                             const char *file, unsigned line) {
    if (p == NULL) return loam_fifo_alloc_aligned_at(fifo, bytes, align, file, line);
    if (lm_fifo_over(fifo, "realloc", file, line)) return NULL;
    if (!lm_fifo_possible(fifo, bytes, align)) return NULL;
    if (fifo->mode == LM_FIFO_CHECKED)
        return fifo_realloc_checked(fifo, p, old_bytes, bytes, align, file, line);
    if (fifo->mode == LM_FIFO_PLAIN ? resize_plain(fifo, (char *)p, old_bytes, bytes)
                                    : resize_watched_in_place(fifo, (char *)p, old_bytes, bytes))
        return p;
    void *moved = fifo_alloc(fifo, bytes, align, file, line);
    if (moved == NULL) return NULL;
    fifo->made++;
    memcpy(moved, p, old_bytes < bytes ? old_bytes : bytes);
    free_now(fifo, p, file, line);
    return moved;
}

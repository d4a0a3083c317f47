/* interior.c: finds, without a lock, how many bytes are left from a pointer into an object to that
 * object's end.
 *
 *   block   [ object ......... | trailer ]    large   [ slice | slice | slice ... ]
 *             ^ start     ^ p  ^ end                    ^ in the map    ^ p: the search goes back
 *                         |room|                                          through the map from here
 *
 * For code that is about to write there and asks first (loam_check_copy, loam_room). Any pointer
 * may be passed; the answer is wrong only if another thread frees that very memory meanwhile. The
 * end is that of the requested bytes where this build knows it (debug, secure, sampled objects);
 * elsewhere it is the end of the block, or of the large object's usable bytes. It cannot tell a
 * free block from one in use in a release build. It does not find a large object that begins more
 * slices before p than the caller lets it search. It never reports, takes no lock and changes
 * nothing.
 */
#include "checks/inner.h"

/* Returns the page or large object in whose slice p lies, or that begins one of at most `back`
 * slices before p. Returns lm_nobody iff there is none. */
static lm_page_t *page_around(const char *p, size_t back) {
    size_t slice = lm_slice_of(p);
    if (slice < lm_peek(&lm_arena.slices)) {
        lm_page_t *page = lm_peek(&lm_arena.map[slice]);
        while (page == &lm_nobody && back-- > 0 && slice-- > 0)
            page = lm_peek(&lm_arena.map[slice]);
        return page;
    }
    const struct loam_arena *range = lm_range_around(p);
    if (range == NULL) return &lm_nobody;
    size_t at = ((uintptr_t)p - lm_range_start(range)) >> LM_SLICE_SHIFT;
    lm_page_t *page = lm_range_page_of(p);
    while (page == &lm_nobody && back-- > 0 && at-- > 0)
        page = lm_range_page_of(p -= LM_SLICE_BYTES);
    return page;
}

/* Returns the bytes of an object. Returns SIZE_MAX iff the object is known to be free. */
static size_t interior_bytes_of(const lm_page_t *page, const char *object) {
#if LOAM_DEBUG
    size_t room = lm_block_usable(page, object), requested;
    lm_state_t state = lm_word_get(object + room, &requested);
    if (state == LM_STATE_FREED) return SIZE_MAX;
    return state == LM_STATE_USED && requested <= room ? requested : room;
#else
#if LM_SECURE
    if (page->kind == LM_KIND_PAGE && !lm_is_offset(page) && lm_block_is_free(page, object))
        return SIZE_MAX;
#endif
    return lm_requested(page, object);
#endif
}

/* Returns the object of the page's block in which p lies. Returns NULL iff no block lies there. */
static const char *object_in_page(const lm_page_t *page, const char *p) {
    size_t bytes = lm_peek(&page->block_bytes);
    if (bytes == 0) return NULL; /* the page is being returned */
    const char *start = lm_span_start(page);
    size_t index = (size_t)(p - start) / bytes;
    if (index >= lm_peek(&page->carved)) return NULL;
    return lm_block_object(page, start + index * bytes);
}

static const char *object_in_large(const lm_page_t *page, const char *p) {
    const char *start = lm_span_start(page);
    /* p lies behind the span. */
    if ((size_t)(p - start) >> LM_SLICE_SHIFT >= page->slices) return NULL;
    return lm_is_offset(page) ? lm_offset_object(page, p) : start;
}

static size_t room_in_slot(const char *p, const char **object) {
    uint32_t index;
    const lm_page_t *page = lm_sampled_near(p, &index);
    if (page == NULL) return SIZE_MAX;
    LM_ASSERT(index < lm_sampled.count);
    const lm_slot_t *slot = &lm_sampled.slots[index];
    /* Relaxed: a thread with a pointer into an object in use has it from the thread that allocated
     * the object, and is synchronised with that thread. */
    if (lm_load_relaxed(&slot->state) != LM_SLOT_USED || p < slot->object || p >= slot->end)
        return SIZE_MAX;
    *object = slot->object;
    const char *end = slot->object + page->bytes;
    return p < end ? (size_t)(end - p) : 0;
}

size_t lm_interior_usable(const void *pointer, size_t back, const char **object) {
    const char *p = (const char *)pointer;
    const lm_page_t *page = page_around(p, back);
    uint8_t kind = lm_peek(&page->kind);
    if (kind == LM_KIND_SAMPLED && page == lm_page_of(p)) return room_in_slot(p, object);
    /* A page's slices are all in the map, so no search back is needed for one. */
    const char *found = kind == LM_KIND_PAGE && page == lm_page_of(p) ? object_in_page(page, p)
                        : kind == LM_KIND_LARGE                       ? object_in_large(page, p)
                                                                      : NULL;
    if (found == NULL || p < found) return SIZE_MAX;
    size_t bytes = interior_bytes_of(page, found), before = (size_t)(p - found);
    if (bytes == SIZE_MAX) return SIZE_MAX;
    *object = found;
    return before < bytes ? bytes - before : 0;
}

void lm_copy_misuse(const char *object, const char *function, size_t bytes, const char *way,
                    const void *p, size_t room) {
    lm_sites_about(object);
    lm_wrong(LM_MISTAKE_COPY, "%s of %zu B %s %p, which has %zu left (", function, bytes, way, p,
             room);
}

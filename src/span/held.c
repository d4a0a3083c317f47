/* held.c: freed large objects of the secure build wait here, with their guards in place.
 *
 *   free ──> by size   [ 64 to 72 KiB ] [ 72 to 80 KiB ] ... [ 7.5 to 8 MiB ] ...
 *            by age    sparse: [ oldest | ... | newest ]   dense: [ oldest | ... | newest ]
 *                        └─> the next object of nearly that size; the arena, once a span is
 *                            old or too much waits
 *
 * A guard costs two calls of mprotect. An object that gets a held span takes over the guard and
 * makes no system call. So threads that free and allocate objects of many sizes make hardly any
 * system calls once enough spans are held. Addresses cost nothing, but memory does. Of spans that
 * hold memory (dense), as many bytes are held as excess() allows. Of spans that hold next to none
 * (sparse), up to MOST are held, whatever their size, as far as their addresses do not exceed
 * another bound.
 *
 * The newest YOUNG spans serve no request, so no address is reused at once. Of the others the
 * newest serves first, because its memory is in the caches.
 *
 * It cannot join two held spans or split one. It takes one lock, the arena's. Invariant: a held
 * span has kind META, is in no map, and is in one list by size and in one by age.
 */
#include "span/internal.h"

#if LM_SECURE

enum {
    HELD_MOST = 256,     /* maximum held spans of each kind */
    YOUNG = 2,           /* spans freed last, which serve no request */
    HELD_LOOKS = 16,     /* spans of one list that a request examines */
    LEAST_LOG2 = 16,     /* smallest span: 64 KiB */
    PARTS_LOG2 = 3,      /* lists for each doubling of the size: 8 */
    HELD_DOUBLINGS = 10, /* up to 64 MiB; the last list holds all larger ones */
    HELD_LISTS = HELD_DOUBLINGS << PARTS_LOG2,
    /* Maximum bytes of addresses held: this factor times the bytes of large objects in use, ... */
    ROOM_FACTOR = 4,
    ROOM_LEAST = 512 * 1024 * 1024, /* ... plus this many bytes */
};

/* All fields are protected by the arena's lock. */
static struct held_lists {
    lm_list_t sizes[HELD_LISTS];
    lm_list_t aged[2]; /* [0]: sparse, [1]: dense */
    unsigned n[2];
    uint32_t frees; /* spans ever held; wraps around */
    size_t dense_bytes, room_bytes;
} held_lists;

static unsigned list_for(size_t room) {
    unsigned log2 = lm_log2(room);
    if (log2 < LEAST_LOG2) return 0;
    if (log2 >= LEAST_LOG2 + HELD_DOUBLINGS) return HELD_LISTS - 1;
    unsigned part = (unsigned)(room >> (log2 - PARTS_LOG2)) & ((1u << PARTS_LOG2) - 1);
    return ((log2 - LEAST_LOG2) << PARTS_LOG2) + part;
}

/* `remote` of a held span's descriptor contains: its number among all frees (32 bits), whether it
 * is dense (1 bit), and the caller's number `cleared`. */
enum { DENSE_SHIFT = 32, CLEARED_SHIFT };
static uint32_t held_number_of(const lm_page_t *span) { return (uint32_t)span->remote; }
static bool dense(const lm_page_t *span) { return (span->remote >> DENSE_SHIFT & 1) != 0; }
unsigned lm_held_cleared(const lm_page_t *span) {
    return (unsigned)(span->remote >> CLEARED_SHIFT);
}

static void remove_held(lm_page_t *span) {
    size_t room = lm_span_room(span);
    bool is_dense = dense(span);
    LM_ASSERT(lm_lock_held(&lm_space.lock) && span->kind == LM_KIND_META);
    LM_ASSERT(lm_node_linked(&span->link) && lm_node_linked(&span->age));
    LM_ASSERT(lm_load_relaxed(&held_lists.n[is_dense]) > 0 && held_lists.room_bytes >= room);
    LM_ASSERT(!is_dense || held_lists.dense_bytes >= room);
    lm_list_remove(&held_lists.sizes[list_for(room)], &span->link);
    lm_list_remove(&held_lists.aged[is_dense], &span->age);
    /* Relaxed: lm_held_any reads it as a guess. */
    lm_store_relaxed(&held_lists.n[is_dense], held_lists.n[is_dense] - 1);
    held_lists.room_bytes -= room;
    if (is_dense) held_lists.dense_bytes -= room;
}

static lm_page_t *held_oldest(bool is_dense) {
    lm_node_t *node = held_lists.aged[is_dense].first;
    return node != NULL ? LM_CONTAINER(node, lm_page_t, age) : NULL;
}

/* Returns a span that exceeds the bounds, or NULL iff there is none. */
static lm_page_t *excess(void) {
    size_t used = lm_large_bytes_now(), dense_most = used / LM_HELD_PART;
    if (dense_most < LM_HELD_LEAST) dense_most = LM_HELD_LEAST;
    if (held_lists.n[true] <= YOUNG) dense_most = LM_HELD_ONE_MOST;
    if (held_lists.n[true] > HELD_MOST || held_lists.dense_bytes > dense_most)
        return held_oldest(true);
    size_t room_most =
        lm_gone_near() ? used / LM_HELD_PART + LM_HELD_LEAST : ROOM_FACTOR * used + ROOM_LEAST;
    if (held_lists.n[false] > HELD_MOST || held_lists.room_bytes > room_most)
        return held_oldest(held_lists.n[false] == 0);
    return NULL;
}

lm_page_t *lm_held_add(lm_page_t *span, unsigned cleared, bool is_dense) {
    size_t room = lm_span_room(span);
    LM_ASSERT(span->range == 0 && (span->kind == LM_KIND_LARGE || span->kind == LM_KIND_META));
    lm_space_enter_to_give();
    if (span->kind == LM_KIND_LARGE) lm_space_large_goes(span);
    lm_tail_drop(span);
    lm_space_label(lm_span_slice(span), span->slices, LM_KIND_META);
    span->remote =
        (uint64_t)cleared << CLEARED_SHIFT | (uint64_t)is_dense << DENSE_SHIFT | ++held_lists.frees;
    span->stamp = lm_space.tick;
    lm_list_add_last(&held_lists.sizes[list_for(room)], &span->link);
    lm_list_add_last(&held_lists.aged[is_dense], &span->age);
    /* Relaxed: lm_held_any reads it as a guess. */
    lm_store_relaxed(&held_lists.n[is_dense], held_lists.n[is_dense] + 1);
    held_lists.room_bytes += room;
    if (is_dense) held_lists.dense_bytes += room;
    lm_page_t *out = excess();
    if (out != NULL) remove_held(out);
    lm_space_leave();
    return out;
}

lm_page_t *lm_held_excess(void) {
    lm_space_enter();
    lm_page_t *out = excess();
    if (out != NULL) remove_held(out);
    lm_space_leave();
    return out;
}

lm_page_t *lm_held_old(uint32_t ticks) {
    lm_page_t *out = NULL;
    lm_space_enter();
    for (int kind = 0; kind < 2 && out == NULL; kind++) {
        lm_page_t *span = held_oldest(kind);
        if (span != NULL && lm_space.tick - span->stamp >= ticks) out = span;
    }
    if (out != NULL) remove_held(out);
    lm_space_leave();
    return out;
}

void lm_held_forget(void) { held_lists = (struct held_lists){0}; }

bool lm_held_any(void) {
    return lm_load_relaxed(&held_lists.n[false]) + lm_load_relaxed(&held_lists.n[true]) > 0;
}

static bool serves(const lm_page_t *span, size_t room, const lm_held_want_t *want) {
    uintptr_t below = (want->align_slices << LM_SLICE_SHIFT) - 1;
    size_t has = lm_span_room(span);
    return has >= room && has <= (dense(span) ? want->most_dense : want->most_sparse) &&
           ((uintptr_t)lm_span_start(span) & below) == 0 &&
           held_lists.frees - held_number_of(span) >= YOUNG;
}

lm_page_t *lm_held_take(size_t room, const lm_held_want_t *want) {
    if (!lm_held_any()) return NULL;
    lm_page_t *found = NULL;
    unsigned last = list_for(want->most_sparse);
    lm_lock_take(&lm_space.lock);
    for (unsigned i = list_for(room); i <= last && found == NULL; i++) {
        const lm_node_t *first = held_lists.sizes[i].first, *node = first;
        for (int left = HELD_LOOKS; first != NULL && left > 0 && found == NULL; left--) {
            /* The newest comes first: its descriptor and memory are in the caches. */
            node = node->prev;
            lm_page_t *span = LM_CONTAINER(node, lm_page_t, link);
            if (serves(span, room, want)) found = span;
            if (node == first) break;
        }
    }
    if (found != NULL) {
        remove_held(found);
        lm_space_label(lm_span_slice(found), found->slices, LM_KIND_LARGE);
    }
    lm_lock_give(&lm_space.lock);
    return found;
}

#endif

/* secure_large.c: what the secure build does around objects of more than 64 KiB.
 *
 *   span   [ object ........ | canary | accessible | guard: no access ]
 *          ^                 ^ bytes               ^ room
 *   free   in use ──> cleared ──> [ oldest | ... | newest ] ──> used again, or to the arena
 *                                   the queue: 64 at most, and so many bytes
 *
 * Overflows meet the guard (span/guard.c) or are seen in the canary when the object is freed or resized, underflows
 * meet the guard of the object before. A freed object is cleared, so that nobody reads what it held, and waits with its
 * guard until others were freed after it. Then an object of nearly its size may have it as it is: that costs no system
 * call. What was written meanwhile is no zero: seen then, or when the span leaves the queue for the arena.
 *
 * The tail of one that becomes shorter is cleared as well.
 *
 * What a clear is: memset to 1 MiB, and of larger objects the first 64 KiB; where next to nothing of it is in memory,
 * the memory is given to the system instead, whatever the size. What a look is: every word up to 128 KiB; above that
 * every word of the first 64 KiB and the first 64 bytes of each page that was cleared.
 *
 * It cannot find an overflow that jumps over canary and guard, nor a write to the middle of a page of a large freed
 * object; what objects above 1 MiB held past their head can be read again by who gets their memory; those above
 * 8 MiB do not wait.
 * Invariant: what was cleared of a span in the queue reads as zero, unless it was written after its free.
 */
#include "heap/branch.h"
#include "heap/room.h"

#if LM_SECURE

#include <string.h>

enum {
    QUEUE_MOST = 64,
    YOUNG = 2,                /* the newest, which nobody gets */
    YOUNG_BYTES = 8 << 20,    /* but for larger ones */
    QUEUE_LEAST = 2 << 20,    /* bytes in memory that may wait */
    QUEUE_PART = 16,          /* or that part of what is in use, if it is more */
    CANARY = 256,             /* bytes at most */
    CLEAR_MOST = 1 << 20,     /* of larger ones, the head only */
    SPARSE_LEAST = 256 << 10, /* of these the system is asked how much is in memory */
    SPARSE_PART = 16,         /* sparse: less than that part is */
    EACH_WORD = 128 << 10,    /* objects up to that size are looked at as a whole */
    HEAD = 64 << 10,          /* of larger ones, so much */
    LINE = 64,                /* and so much of each page */
    APART_MOST = 4, /* slices of addresses that chance adds to a guard: one less at most */
    TICKS = 6,      /* of the worker's that one waits, if nobody wants it */
};

typedef struct waiting {
    lm_page_t *page;
    size_t room;
    size_t cleared; /* from the start */
    uint32_t tick;
    bool resident;
} waiting_t;

static struct {
    lm_lock_t lock;
    unsigned n; /* the first n, the oldest first */
    uint32_t tick;
    size_t bytes; /* in memory */
    waiting_t each[QUEUE_MOST];
} queue;

static size_t in_use; /* atomic: bytes of large objects */

void lm_large_lock(void) { lm_lock_take(&queue.lock); }
void lm_large_unlock(void) { lm_lock_give(&queue.lock); }
void lm_large_after_fork(void) { lm_lock_reset(&queue.lock); }

size_t lm_large_slices(const lm_page_t *page) {
    return (lm_span_room(page) + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
}

static size_t whole_pages(size_t bytes) { return lm_align_up(bytes, lm_os_page_bytes()); }

/* With a page for the guard, or the canary. */
static size_t slices_for(size_t room) {
    return (room + lm_os_page_bytes() + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
}

/* ---- Canaries ---- */

static uint64_t canary_at(const char *end) {
    uint64_t x = ((uintptr_t)end ^ lm_os_random()) * 0x9e3779b97f4a7c15u;
    return (x ^ (x >> 32)) | 0x0101010101010101u; /* no byte is 0: strings end in one */
}

static size_t canary_bytes(const lm_page_t *page) {
    size_t left = lm_span_room(page) - page->bytes;
    return left < CANARY ? left : CANARY;
}

void lm_large_mark(lm_page_t *page, size_t bytes) {
    page->bytes = bytes;
    char *end = lm_span_start(page) + bytes;
    uint64_t word = canary_at(end);
    size_t left = canary_bytes(page);
    for (; left >= sizeof word; left -= sizeof word, end += sizeof word)
        memcpy(end, &word, sizeof word);
    memcpy(end, &word, left);
}

bool lm_large_intact(const lm_page_t *page, const char *function) {
    const char *start = lm_span_start(page), *end = start + page->bytes;
    uint64_t word = canary_at(end);
    const unsigned char *expected = (const unsigned char *)&word,
                        *found = (const unsigned char *)end;
    size_t n = canary_bytes(page), bad = n;
    for (size_t i = n; i-- > 0;) {
        if (found[i] != expected[i % sizeof word]) bad = i;
    }
    if (LM_LIKELY(bad == n)) return true;
    lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_OVERFLOW,
             "overflow of %p: overwritten at byte %zu of %zu (%s of a large object, ",
             (const void *)start, page->bytes + bad, page->bytes, function);
    return false;
}

/* ---- Zeros ---- */

/* A register of every processor that loam knows: twice as fast as words. */
typedef uint64_t __attribute__((vector_size(16), may_alias)) two_words_t;

/* The first byte in a range that is not zero, NULL iff there is none. Both are multiples of LINE. */
static const char *not_zero(const char *at, size_t bytes) {
    for (const char *end = at + bytes; at < end; at += LINE) {
        const two_words_t *w = (const two_words_t *)(const void *)at;
        two_words_t any = w[0] | w[1] | w[2] | w[3];
        if ((any[0] | any[1]) == 0) continue;
        while (*at == 0) at++;
        return at;
    }
    return NULL;
}

/* Those pages that are in memory, of what was given to the system. */
static const char *look_at_resident(const char *start, size_t room) {
    enum { CHUNK = 1 << 20 };
    size_t page = lm_os_page_bytes();
    const char *found = NULL;
    for (size_t at = 0; at < room && found == NULL; at += CHUNK) {
        size_t part = room - at < CHUNK ? room - at : CHUNK;
        size_t resident = lm_os_resident_pages(start + at, part);
        if (resident == 0 || resident == SIZE_MAX) continue;
        for (size_t i = at; i < at + part && found == NULL; i += page) {
            if (lm_os_resident(start + i)) found = not_zero(start + i, page);
        }
    }
    return found;
}

/* NULL: nothing was found. *whole: every word was read. */
static const char *look(const waiting_t *one, bool all, bool *whole) {
    const char *start = lm_span_start(one->page);
    *whole = one->cleared == one->room && (all || one->room <= EACH_WORD);
    if (!one->resident) {
        *whole = lm_span_at_large();
        return *whole ? look_at_resident(start, one->room) : NULL;
    }
    if (*whole) return not_zero(start, one->room);
    const char *found = not_zero(start, HEAD);
    for (size_t at = HEAD; at < one->cleared && found == NULL; at += lm_os_page_bytes())
        found = not_zero(start + at, LINE);
    return found;
}

static bool untouched(const waiting_t *one, bool all, bool *whole) {
    const char *found = look(one, all, whole);
    if (LM_LIKELY(found == NULL)) return true;
    char *start = lm_span_start(one->page);
    *whole = false;
    lm_wrong(LM_WRONG_INSIDE + LM_MISTAKE_USE_AFTER_FREE,
             "%p was written after its free: at byte %zu of %zu (a large object, ", (void *)start,
             (size_t)(found - start), one->room);
    memset(start, 0, one->room); /* who goes on all the same shall not read it */
    return false;
}

static bool sparse(const char *start, size_t room) {
    if (room < SPARSE_LEAST || !lm_span_at_large()) return false;
    return lm_os_resident_pages(start, room) < room / lm_os_page_bytes() / SPARSE_PART;
}

static void clear(waiting_t *one, bool touch) {
    char *start = lm_span_start(one->page);
    one->cleared = one->room;
    one->resident = !((!touch || sparse(start, one->room)) && lm_os_purge(start, one->room));
    if (!one->resident) return;
    if (one->room > CLEAR_MOST) one->cleared = HEAD;
    memset(start, 0, one->cleared);
}

/* ---- The queue ---- */

static size_t bytes_most(void) {
    size_t part = lm_load_relaxed(&in_use) / QUEUE_PART; /* relaxed: a number */
    return part > QUEUE_LEAST ? part : QUEUE_LEAST;
}

/* Lock held. */
static waiting_t take_out(unsigned i) {
    waiting_t one = queue.each[i];
    if (one.resident) queue.bytes -= one.room;
    queue.n--;
    memmove(&queue.each[i], &queue.each[i + 1], (queue.n - i) * sizeof one);
    return one;
}

/* No lock held. What the system lets us make accessible no more stays ours. rested: see lm_span_give. */
static void give_back(const waiting_t *one, bool rested) {
    bool whole;
    (void)untouched(one, false, &whole);
    if (!lm_span_unguard(one->page)) return;
    lm_span_give(one->page, rested);
}

static bool there(void) { return true; }
static bool full(void) {
    if (queue.n == QUEUE_MOST) return true;
    return queue.bytes > (queue.n <= YOUNG ? YOUNG_BYTES : bytes_most());
}
static bool old(void) { return queue.tick - queue.each[0].tick >= TICKS; }

/* Takes the oldest out while the condition holds. Unless room is wanted for others, nobody has wanted it for long. */
static bool give_back_oldest(bool (*due)(void)) {
    bool any = false;
    for (;;) {
        lm_lock_take(&queue.lock);
        bool more = queue.n > 0 && due();
        waiting_t one = more ? take_out(0) : (waiting_t){0};
        lm_lock_give(&queue.lock);
        if (!more) return any;
        give_back(&one, due != full);
        any = true;
    }
}

bool lm_large_let_go(bool all) {
    lm_lock_take(&queue.lock);
    queue.tick++;
    lm_lock_give(&queue.lock);
    (void)give_back_oldest(all ? there : old);
    return lm_load_relaxed(&queue.n) > 0; /* relaxed: a guess */
}

static bool let_all_go(void) { return give_back_oldest(there); }

void lm_large_keep(lm_page_t *page, bool touch) {
    lm_store_relaxed(&lm_span_let_go, let_all_go); /* relaxed: the same for ever */
    (void)lm_add_relaxed(&in_use, (size_t)0 - page->bytes);
    if (LM_UNLIKELY(page->range != 0)) { /* the user may want that memory back */
        if (touch) memset(lm_span_start(page), 0, lm_span_room(page));
        lm_span_give(page, false);
        return;
    }
    waiting_t one = {.page = page, .room = lm_span_room(page)};
    clear(&one, touch);
    lm_span_hold(page);
    if (one.resident && one.room > YOUNG_BYTES) { /* would hold back more than all others */
        if (lm_span_unguard(page)) lm_span_give(page, true);
        return;
    }
    for (bool done = false; !done;) {
        (void)give_back_oldest(full);
        lm_lock_take(&queue.lock);
        done = queue.n < QUEUE_MOST;
        if (done) {
            one.tick = queue.tick;
            if (one.resident) queue.bytes += one.room;
            lm_store_relaxed(&queue.n, queue.n + 1);
            queue.each[queue.n - 1] = one;
        }
        lm_lock_give(&queue.lock);
    }
    lm_purge_poke(true);
}

/* How much too large one may be that has waited: an eighth, but no slice more than a hard limit was asked for. */
static size_t room_most(const struct loam_heap *whole, size_t room) {
    if (whole != NULL && lm_load_relaxed(&whole->hard) != SIZE_MAX)
        return lm_align_up(room, LM_SLICE_BYTES);
    return room + room / 8 + 4 * lm_os_page_bytes();
}

static lm_page_t *take_again(size_t room, size_t most, size_t align_slices, bool *zero) {
    uintptr_t below = (align_slices << LM_SLICE_SHIFT) - 1;
    waiting_t one = {0};
    lm_lock_take(&queue.lock);
    for (unsigned i = 0; i + YOUNG < queue.n; i++) {
        const waiting_t *it = &queue.each[i];
        if (it->room < room || it->room > most) continue;
        if (((uintptr_t)lm_span_start(it->page) & below) != 0) continue;
        one = take_out(i);
        break;
    }
    lm_lock_give(&queue.lock);
    if (one.page == NULL) return NULL;
    bool whole;
    (void)untouched(&one, zero != NULL, &whole);
    if (zero != NULL) *zero = whole;
    lm_span_unhold(one.page);
    return one.page;
}

/* ---- Spans ---- */

/* In memory of the user there are no guards: it is as it was when it goes back. */
static lm_page_t *take_new(const struct loam_heap *whole, size_t room, size_t align_slices,
                           bool *zero) {
    bool clean = false;
    bool guarded = whole == NULL || whole->arena == NULL;
    size_t slices = guarded ? slices_for(room) : (room + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
    lm_page_t *page = guarded ? lm_span_take(slices, align_slices, LM_KIND_LARGE, &clean)
                              : lm_whole_take(whole, slices, align_slices, &clean);
    if (page == NULL) return NULL;
    if (zero != NULL) *zero = clean;
    lm_span_no_guard(page);
    if (page->range != 0 || !guarded) return page;
    /* Not of memory that was used: it would be lost to the guard. Nor without one: it would be the object's. */
    size_t apart = clean && lm_span_may_waste() ? lm_span_random(APART_MOST) : 0;
    if (apart > 0 && !lm_span_extend(page, slices + apart)) apart = 0;
    if (!lm_span_guard(page, room) && apart > 0) lm_span_shrink(page, slices);
    return page;
}

lm_page_t *lm_large_take(const struct loam_heap *whole, size_t bytes, size_t align_slices,
                         bool *zero) {
    size_t room = whole_pages(bytes);
    /* What waits lies wherever it lay; a range's memory comes first (relaxed: one that comes now serves the next). */
    bool anywhere =
        (whole == NULL || whole->arena == NULL) && lm_load_relaxed(&lm_ranges_open) == 0;
    lm_page_t *page =
        anywhere ? take_again(room, room_most(whole, room), align_slices, zero) : NULL;
    if (page == NULL) page = take_new(whole, room, align_slices, zero);
    if (page != NULL) (void)lm_add_relaxed(&in_use, bytes);
    return page;
}

/* What an object held that becomes shorter: as much of it as of a freed one. */
static void clear_tail(lm_page_t *page, size_t from, size_t to) {
    if (from < to) memset(lm_span_start(page) + from, 0, to - from > CLEAR_MOST ? HEAD : to - from);
}

/* What grows will grow again: without a call for each step. before: what it had room for. */
static bool make_room(lm_page_t *page, size_t room, size_t before, bool roomier, size_t *fresh) {
    size_t had = page->slices;
    bool zero = false;
    bool grows = room > before && roomier;
    size_t roomy = grows ? room + whole_pages(room / 16) : room, slices = slices_for(roomy);
    if (slices < page->slices) {
        clear_tail(page, slices << LM_SLICE_SHIFT, before);
        lm_span_unfill(page, slices);
        lm_span_shrink(page, slices);
    } else if (slices > page->slices && !lm_span_extend_by(page, slices, &zero)) {
        roomy = room;
        slices = slices_for(room);
        if (slices > page->slices && !lm_span_extend_by(page, slices, &zero)) return false;
    }
    if (zero && fresh != NULL) *fresh = had << LM_SLICE_SHIFT;
    (void)lm_span_guard(page, roomy);
    return true;
}

void *lm_large_refit(lm_page_t *page, void *p, size_t bytes, bool roomy, size_t *fresh) {
    size_t had = page->bytes, room = whole_pages(bytes), before = lm_span_room(page);
    bool fits = room <= before && room >= before - before / 4;
    if (!fits && !lm_span_unguard(page)) {
        if (room > before) return NULL;
        fits = true;
    }
    if (!fits && !make_room(page, room, before, roomy, fresh)) {
        (void)lm_span_guard(page, before);
        lm_large_mark(page, had); /* without a guard, there is more to look at */
        return NULL;
    }
    (void)lm_add_relaxed(&in_use, bytes - had);
    lm_large_mark(page, bytes);
    if (bytes > had && fresh == NULL) lm_span_fill(page, had, bytes);
    return p;
}

lm_page_t *lm_large_move(lm_page_t *page, size_t bytes, bool roomy) {
    size_t before = lm_span_room(page), had = page->bytes;
    size_t room = whole_pages(bytes + (roomy ? bytes / 4 : 0));
    if (!lm_span_unguard(page)) return NULL;
    lm_page_t *target = lm_span_move(page, slices_for(room));
    if (target == NULL) {
        (void)lm_span_guard(page, before);
        lm_large_mark(page, had);
        return NULL;
    }
    lm_span_no_guard(target);
    (void)lm_span_guard(target, room);
    (void)lm_add_relaxed(&in_use, bytes - had);
    return target;
}

#endif

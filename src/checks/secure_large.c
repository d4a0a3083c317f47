/* secure_large.c: what the secure build does around objects of more than 64 KiB.
 *
 *   span   [ object ........ | canary | accessible | guard: no access ]
 *          ^                 ^ bytes               ^ room
 *   free   in use ──> cleared ──> shut, held with its guard (span/held.c)
 *                                   └─> opened: used again, or to the arena
 *
 * An overflow meets the guard (span/guard.c), or shows in the canary when the object is freed or
 * resized. An underflow meets the guard of the object before. A freed object is cleared, so that no
 * later owner reads its contents. It waits with its guard until others were freed after it; then an
 * object of nearly its size may reuse it as it is. Unless a program frees thousands of objects a
 * second, they are shut while they wait: an access ends the program. A span that is not shut costs
 * no system call. If a byte of it is not zero any more, the program wrote to it after the free.
 * This shows when the span is reused or leaves for the arena.
 *
 * The cost of clearing follows what the program has touched:
 *   all    touched objects up to 1 MiB: memset; if little of an object is resident, its memory is
 *          given to the system instead, whatever the object's size
 *   gone   touched larger objects: their memory goes to the system, up to REFAULTS bytes at once
 *          and REFAULTS / REST a tick; beyond that memset clears them, up to CLEARS bytes at once
 *          and CLEARS / REST a tick
 *   head   touched larger objects beyond both budgets: the first 64 KiB
 *   scan   objects up to 1 MiB that seem untouched, within the budget: each page is read, and
 *          cleared if it is not zero
 *   light  objects that seem untouched, beyond the budget: the first 512 bytes and the canary
 * An object seems untouched if it was zero when it was handed out, and a dozen lines of 64 bytes
 * are still zero (probes: at each fourfold of 512 bytes, at the end, and at two unpredictable
 * places). The budget is BUDGET bytes for each tick of the worker. So a program that frees large
 * objects a million times a second pays for what it touches, and the objects of any other program
 * are checked as a whole. Memory that was given to the system costs its next user about 0.3 us for
 * each KiB; clearing costs about 0.1 us. An object may exceed what is left of REFAULTS or CLEARS;
 * later ticks make up for that.
 *
 * The tail of an object that becomes shorter is cleared as well.
 *
 * It cannot find an overflow that jumps over canary and guard. Beyond its budgets it misses some
 * writes to the middle of a page of a freed object, and writes past the head of a freed object
 * above 1 MiB. The next owner can then read what objects above 1 MiB held past their head, and what
 * an object that seemed untouched held between the probes. Objects above 8 MiB wait only if their
 * memory was given to the system.
 * Invariant: the cleared part of a held span reads as zero, unless the program wrote to it after
 * its free. Memory that was not cleared is never taken for a write after free.
 */
#include "checks/inner.h"

#if LM_SECURE

#include <string.h>

enum {
    CANARY = LM_TAIL_CANARY,  /* largest length of a canary in bytes */
    CLEAR_MOST = 1 << 20,     /* bytes of the largest object that needs no budget to be cleared */
    SPARSE_LEAST = 256 << 10, /* bytes of the smallest object whose resident pages are counted */
    SECURE_LARGE_ASK_MOST =
        256 << 20,    /* bytes of the largest object whose resident pages are counted */
    SPARSE_PART = 16, /* an object is sparse if less than 1/16 of its pages are resident */
    SECURE_LARGE_EACH_WORD =
        128 << 10,    /* bytes of the largest freed object that is always checked as a whole */
    HEAD = 64 << 10,  /* bytes of the head of an object above CLEAR_MOST */
    LIGHT_HEAD = 512, /* bytes of the head of an object that seems untouched */
    SECURE_LARGE_LINE = 64, /* bytes of each page, or probe, that are checked */
    DRAWN = 2,              /* number of probes at unpredictable places */
    BUDGET = 16 << 20,      /* bytes a tick that may be read without need */
    REFAULTS = 64 << 20,    /* bytes of objects above 1 MiB whose memory may go to the system */
    CLEARS = 1 << 30,       /* bytes of objects above 1 MiB that may be cleared beyond REFAULTS */
    REST = 16,              /* number of ticks in which a budget refills */
    ASK_PART = 16,  /* a question whether memory is resident costs that part of reading it */
    APART_MOST = 4, /* 1 plus the largest number of slices that chance adds to a guard */
    TICKS = 6,      /* number of the worker's ticks that a held span waits for a request */
};

/* Which part of a held span was cleared. */
enum {
    CLEARED_LIGHT, /* the first LIGHT_HEAD bytes and the probes */
    CLEARED_HEAD,  /* the first HEAD bytes */
    CLEARED_ALL,   /* all bytes */
    CLEARED_GONE,  /* all bytes: the memory was given to the system */
    /* A bit beside the others: the span is inaccessible, so nothing can have written to it. */
    SHUT = 4,
};

/* Bytes left in each budget; each tick of the worker adds some. Atomic; relaxed: estimates
 * suffice. */
static int64_t budget = BUDGET, refaults = REFAULTS, clears = CLEARS;

static bool afford(size_t bytes) {
    if (!lm_purge_may_work()) return true; /* no tick would refill the budget */
    if (lm_load_relaxed(&budget) < (int64_t)bytes) return false;
    (void)lm_add_relaxed(&budget, -(int64_t)bytes);
    return true;
}

/* Charges a budget, which may become negative. Returns false iff nothing is left of it. */
static bool secure_large_borrow(int64_t *left, size_t bytes) {
    if (!lm_purge_may_work()) return true;
    if (lm_load_relaxed(left) <= 0) return false;
    (void)lm_add_relaxed(left, -(int64_t)bytes);
    return true;
}

static void secure_large_refill(int64_t *left, int64_t most) {
    LM_ASSERT(lm_load_relaxed(left) <= most);
    int64_t bytes = lm_load_relaxed(left) + most / REST;
    lm_store_relaxed(left, bytes < most ? bytes : most);
}

static unsigned cleared_of(const lm_page_t *page) {
    LM_ASSERT((lm_held_cleared(page) & ~(unsigned)SHUT) <= CLEARED_GONE);
    return lm_held_cleared(page) & ~(unsigned)SHUT;
}
static bool is_shut(const lm_page_t *page) { return (lm_held_cleared(page) & SHUT) != 0; }

size_t lm_large_slices(const lm_page_t *page) {
    return (lm_span_room(page) + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
}

static size_t whole_pages(size_t bytes) { return lm_align_up(bytes, lm_os_page_bytes()); }

/* Returns the number of slices for `room` bytes and one system page, for the guard or the
 * canary. */
static size_t secure_large_slices_for(size_t room) {
    return (room + lm_os_page_bytes() + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
}

/* ---- Canaries ---- */

static uint64_t canary_at(const char *end) {
    LM_ASSERT(lm_load_relaxed(&lm_secret) != 0);
    uint64_t x = ((uintptr_t)end ^ lm_load_relaxed(&lm_secret)) * 0x9e3779b97f4a7c15u;
    return (x ^ (x >> 32)) | 0x0101010101010101u; /* no byte is 0, because strings end in 0 */
}

/* Without a guard, the resident memory behind an object is purged after the purge delay
 * (span/tails.c). With a guard it went when the guard was made. */
void lm_large_tail(lm_page_t *page) {
    if (page->bias == 0) lm_span_tail(page, page->bytes, page->in_memory);
}

static size_t canary_bytes(const lm_page_t *page) {
    size_t left = lm_span_room(page) - page->bytes;
    return left < CANARY ? left : CANARY;
}

void lm_large_trailer_write(lm_page_t *page, size_t bytes) {
    LM_ASSERT(bytes > 0 && bytes <= lm_span_room(page));
    lm_secret_make(); /* the first large object may be older than the first page */
    page->bytes = bytes;
    char *end = lm_span_start(page) + bytes;
    uint64_t word = canary_at(end);
    size_t left = canary_bytes(page);
    for (; left >= sizeof word; left -= sizeof word, end += sizeof word)
        memcpy(end, &word, sizeof word);
    memcpy(end, &word, left);
}

/* Returns the index of the first damaged byte of a canary; its length iff all bytes are intact. */
static size_t damaged_at(const char *end, size_t bytes) {
    uint64_t word = canary_at(end);
    const char *expected = (const char *)&word;
    size_t at = 0;
    for (uint64_t found; at + sizeof word <= bytes; at += sizeof word) {
        memcpy(&found, end + at, sizeof found);
        if (LM_UNLIKELY(found != word)) break;
    }
    while (at < bytes && end[at] == expected[at % sizeof word]) at++;
    return at;
}

bool lm_large_intact(const lm_page_t *page, const char *function) {
    const char *start = lm_span_start(page), *object = start;
    size_t n = canary_bytes(page), bad = damaged_at(start + page->bytes, n);
    if (LM_LIKELY(bad == n)) return true;
    if (lm_is_offset(page)) object = lm_offset_object(page, start);
    size_t bytes = page->bytes - (size_t)(object - start);
    lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_OVERFLOW,
             "overflow of %p: overwritten at byte %zu of %zu (%s of a large object, ",
             (const void *)object, bytes + bad, bytes, function);
    return false;
}

/* ---- Zeros ---- */

/* One register of every processor that loam supports: twice as fast as words. */
typedef uint64_t __attribute__((vector_size(16), may_alias)) two_words_t;

/* Returns the first byte that is not zero. Returns NULL iff there is none. */
static const char *not_zero(const char *at, size_t bytes) {
    LM_ASSERT(((uintptr_t)at | bytes) % SECURE_LARGE_LINE == 0);
    for (const char *end = at + bytes; at < end; at += SECURE_LARGE_LINE) {
        const two_words_t *w = (const two_words_t *)(const void *)at;
        two_words_t any = w[0] | w[1] | w[2] | w[3];
        if ((any[0] | any[1]) == 0) continue;
        while (*at == 0) at++;
        return at;
    }
    return NULL;
}

/* Returns a byte that is not zero in the resident pages of memory that was given to the system.
 * Returns NULL iff none was found. */
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

/* Returns the first byte of a probe that is not zero. Returns NULL iff there is none. The probes
 * lie within what is cleared of a touched object. */
static const char *look_at_probes(const char *start, size_t room) {
    LM_ASSERT(room >= LIGHT_HEAD);
    size_t end = room > CLEAR_MOST ? HEAD : room;
    const char *found = NULL;
    for (size_t at = LIGHT_HEAD; at < end && found == NULL; at *= 4)
        found = not_zero(start + at, SECURE_LARGE_LINE);
    if (found == NULL) found = not_zero(start + end - SECURE_LARGE_LINE, SECURE_LARGE_LINE);
    uint64_t chance = lm_load_relaxed(&lm_secret) ^ (uintptr_t)start;
    for (int i = 0; i < DRAWN && found == NULL; i++) {
        chance = lm_random_after(chance);
        found = not_zero(start + (chance >> 32) % (end / SECURE_LARGE_LINE) * SECURE_LARGE_LINE,
                         SECURE_LARGE_LINE);
    }
    return found;
}

/* Returns the first byte that was written after the free, as far as is checked. Returns NULL iff
 * none was found; then *whole tells whether every byte is known to be zero. all: checks all that
 * was cleared, regardless of the budget. */
static const char *secure_large_look(const lm_page_t *page, bool all, bool *whole) {
    const char *start = lm_span_start(page);
    size_t room = lm_span_room(page);
    unsigned cleared = cleared_of(page);
    LM_ASSERT(page->range == 0);
    const char *found;
    *whole = false;
    if (is_shut(page)) {
        *whole = cleared >= CLEARED_ALL;
        return NULL;
    }
    if (cleared == CLEARED_HEAD) return not_zero(start, HEAD);
    size_t cost = cleared == CLEARED_GONE ? room / ASK_PART : room;
    if (cleared != CLEARED_LIGHT && (all || room <= SECURE_LARGE_EACH_WORD || afford(cost))) {
        if (cleared == CLEARED_ALL) {
            *whole = true;
            return not_zero(start, room);
        }
        *whole = lm_span_at_large();
        return *whole ? look_at_resident(start, room) : NULL;
    }
    found = not_zero(start, LIGHT_HEAD);
    if (found == NULL) found = look_at_probes(start, room);
    if (cleared != CLEARED_ALL || !page->in_memory) return found;
    for (size_t at = LIGHT_HEAD; at < room && found == NULL; at += lm_os_page_bytes())
        found = not_zero(start + at, SECURE_LARGE_LINE);
    return found;
}

static bool untouched(lm_page_t *page, bool all, bool *whole) {
    const char *found = secure_large_look(page, all, whole);
    if (LM_LIKELY(found == NULL)) return true;
    char *start = lm_span_start(page);
    *whole = false;
    size_t room = lm_span_room(page);
    LM_ASSERT(found >= start && found < start + room);
    lm_wrong(LM_WRONG_INSIDE + LM_MISTAKE_USE_AFTER_FREE,
             "%p was written after its free: at byte %zu of %zu (a large object, ", (void *)start,
             (size_t)(found - start), room);
    memset(start, 0, room); /* a program that goes on must not read what was written */
    page->in_memory = true;
    return false;
}

/* Returns whether an object is clearly not sparse: most of a few lines in it are not zero. */
static bool secure_large_filled(const char *start, size_t room) {
    unsigned found = 0;
    for (size_t i = 1; i <= 4; i++) /* at starts of pages, because some programs touch only those */
        found += not_zero(start + lm_align_down(room / 5 * i, lm_os_page_bytes()),
                          SECURE_LARGE_LINE) != NULL;
    return found >= 3;
}

static bool sparse(const char *start, size_t room) {
    if (room < SPARSE_LEAST || !lm_span_at_large() || secure_large_filled(start, room))
        return false;
    if (room > SECURE_LARGE_ASK_MOST)
        return true; /* the question would take longer than to fill the pages that are used */
    return lm_os_resident_pages(start, room) < room / lm_os_page_bytes() / SPARSE_PART;
}

/* Gives the memory of an object to the system. Returns false iff the system refuses. */
static bool secure_large_gone(lm_page_t *page) {
    if (!lm_os_purge(lm_span_start(page), lm_span_room(page))) return false;
    page->in_memory = false;
    return true;
}

/* Clears an object that was touched. Returns what was cleared. */
static unsigned clear_touched(lm_page_t *page) {
    char *start = lm_span_start(page);
    size_t room = lm_span_room(page);
    bool long_one = room > CLEAR_MOST;
    bool goes = sparse(start, room) || (long_one && secure_large_borrow(&refaults, room));
    if (goes && secure_large_gone(page)) return CLEARED_GONE;
    page->in_memory = true;
    bool all = !long_one || secure_large_borrow(&clears, room);
    memset(start, 0, all ? room : HEAD);
    return all ? CLEARED_ALL : CLEARED_HEAD;
}

/* Reads each page, and clears pages that are not zero. Untouched pages stay out of memory. */
static void scan(char *start, size_t room) {
    size_t page = lm_os_page_bytes();
    LM_ASSERT(room % page == 0);
    for (size_t at = 0; at < room; at += page) {
        if (not_zero(start + at, page) != NULL) memset(start + at, 0, page);
    }
}

/* Clears a freed object. Returns what was cleared. */
static unsigned clear(lm_page_t *page) {
    char *start = lm_span_start(page);
    size_t room = lm_span_room(page), bytes = page->bytes;
    LM_ASSERT(bytes <= room);
    if (!page->known_zero) return clear_touched(page);
    memset(start + bytes, 0, canary_bytes(page));
    memset(start, 0, LIGHT_HEAD);
    if (look_at_probes(start, room) != NULL) return clear_touched(page);
    if (!afford(room)) return CLEARED_LIGHT;
    if (room > CLEAR_MOST) return clear_touched(page);
    scan(start, room);
    return CLEARED_ALL;
}

/* ---- Held spans ---- */

/* Checks a span that is held no more, and gives it to the arena. rested: see lm_span_give. No lock
 * held. */
static void secure_large_give_back(lm_page_t *page, bool rested) {
    LM_ASSERT(page->kind == LM_KIND_META);
    bool whole;
    (void)untouched(page, false, &whole);
    lm_span_let_out(page, is_shut(page), rested);
}

bool lm_large_let_go(bool all) {
    lm_store_relaxed(&budget, BUDGET);
    secure_large_refill(&refaults, REFAULTS);
    secure_large_refill(&clears, CLEARS);
    lm_span_may_guard();
    for (lm_page_t *page; (page = lm_held_old(all ? 0 : TICKS)) != NULL;)
        secure_large_give_back(page, true);
    return lm_held_any();
}

static bool let_all_go(void) {
    bool any = false;
    for (lm_page_t *page; (page = lm_held_old(0)) != NULL; any = true)
        secure_large_give_back(page, true);
    return any;
}

/* Gives spans back until no more are held than may be. A program that leaves most of its objects
 * untouched must find their guards again. So such a span stays held and only its untouched memory
 * goes. */
static void give_back_excess(lm_page_t *page) {
    while (page != NULL) {
        bool unused = page->in_memory && cleared_of(page) == CLEARED_LIGHT, whole;
        if (unused && untouched(page, false, &whole) && secure_large_gone(page)) {
            page = lm_held_add(page, CLEARED_GONE | (lm_held_cleared(page) & SHUT), false);
        } else {
            secure_large_give_back(page, false);
            page = lm_held_excess();
        }
    }
}

void lm_large_keep(lm_page_t *page, bool touch) {
    LM_ASSERT(page->kind == LM_KIND_LARGE);
    lm_store_relaxed(&lm_span_let_go, let_all_go); /* relaxed: every store is equal */
    if (LM_UNLIKELY(page->range != 0)) {           /* the memory's user may want it back */
        if (touch) memset(lm_span_start(page), 0, lm_span_room(page));
        lm_span_give(page, false);
        return;
    }
    unsigned cleared = touch || !secure_large_gone(page) ? clear(page) : CLEARED_GONE;
    page->known_zero = true;
    if (page->in_memory &&
        /* It would hold back more memory than all other held spans. */
        lm_span_room(page) > LM_HELD_ONE_MOST) {
        lm_span_hold(page);
        lm_span_let_out(page, false, true);
        return;
    }
    if (lm_span_shut(page)) cleared |= SHUT;
    give_back_excess(lm_held_add(page, cleared, page->in_memory));
    lm_purge_poke(true);
}

/* Returns how large a held span may be for a request of `bytes`: at most an eighth more than `room`
 * plus 4 system pages. A span in memory may have at most an eighth more than `bytes`. Where a hard
 * limit counts slices, the span has no slice more than the request needs. */
static lm_held_want_t want(const struct loam_heap *fheap, size_t bytes, size_t room,
                           size_t align_slices) {
    lm_held_want_t want = {.align_slices = align_slices,
                           .most_dense = (bytes + bytes / 8) & ~(lm_os_page_bytes() - 1),
                           .most_sparse = room + room / 8 + 4 * lm_os_page_bytes()};
    if (fheap != NULL && lm_fheap_is_limited(fheap))
        want.most_sparse = lm_align_up(room, LM_SLICE_BYTES);
    if (want.most_dense > want.most_sparse) want.most_dense = want.most_sparse;
    if (want.most_dense < room) want.most_dense = room;
    LM_ASSERT(want.most_dense <= want.most_sparse);
    return want;
}

static lm_page_t *take_again(size_t room, const lm_held_want_t *want, bool *zero) {
    lm_page_t *page = lm_held_take(room, want);
    if (page == NULL) return NULL;
    LM_ASSERT(page->kind == LM_KIND_LARGE && lm_span_room(page) >= room);
    /* The span is returned, as an object that was in use. */
    if (is_shut(page) && !lm_span_open(page)) {
        lm_large_comes_else(page->bytes);
        lm_span_hold(page);
        lm_span_let_out(page, true, false);
        return NULL;
    }
    bool whole;
    (void)untouched(page, zero != NULL, &whole);
    if (zero != NULL) *zero = whole;
    if (page->bias == 0) (void)lm_span_guard(page, room);
    return page;
}

/* ---- Spans ---- */

/* Takes a new span. Memory of the user gets no guards: it is unchanged when it is returned. */
static lm_page_t *take_new(const struct loam_heap *fheap, size_t room, size_t align_slices,
                           bool *zero) {
    bool clean = false;
    bool guarded = !lm_fheap_has_range(fheap);
    size_t slices =
        guarded ? secure_large_slices_for(room) : (room + LM_SLICE_BYTES - 1) >> LM_SLICE_SHIFT;
    lm_page_t *page = guarded ? lm_span_take(slices, align_slices, LM_KIND_LARGE, &clean)
                              : lm_fheap_take(fheap, slices, align_slices, &clean);
    if (page == NULL) return NULL;
    if (zero != NULL) *zero = clean;
    page->known_zero = clean;
    page->in_memory = !clean;
    lm_span_no_guard(page);
    LM_ASSERT(lm_span_room(page) >= room);
    if (page->range != 0 || !guarded) return page;
    /* Adds slices at random only to clean memory that gets a guard: used memory would be lost to
     * the guard, and without a guard the slices would be the object's. */
    size_t apart = clean && lm_span_may_waste() ? lm_span_random(APART_MOST) : 0;
    if (apart > 0 && !lm_span_extend(page, slices + apart)) apart = 0;
    if (!lm_span_guard(page, room) && apart > 0) lm_span_shrink(page, slices);
    return page;
}

lm_page_t *lm_large_take(const struct loam_heap *fheap, size_t bytes, size_t align_slices,
                         bool *zero) {
    LM_ASSERT(bytes > 0 && lm_is_pow2(align_slices));
    size_t room = whole_pages(bytes);
    /* A held span may lie anywhere, so a heap or process with a range takes none. Relaxed: a range
     * that opens now serves the next request. */
    bool anywhere = !lm_fheap_has_range(fheap) && lm_load_relaxed(&lm_ranges_open) == 0;
    lm_held_want_t wanted = want(fheap, bytes, room, align_slices);
    lm_page_t *page = anywhere ? take_again(room, &wanted, zero) : NULL;
    return page != NULL ? page : take_new(fheap, room, align_slices, zero);
}

/* Clears the tail of an object that becomes shorter, to the extent that a freed object is
 * cleared. */
static void clear_tail(lm_page_t *page, size_t from, size_t to) {
    if (from >= to) return;
    LM_ASSERT((from | to) % lm_os_page_bytes() == 0);
    char *at = lm_span_start(page) + from;
    size_t bytes = to - from;
    bool long_one = bytes > CLEAR_MOST;
    if (long_one && secure_large_borrow(&refaults, bytes) && lm_os_purge(at, bytes)) return;
    memset(at, 0, !long_one || secure_large_borrow(&clears, bytes) ? bytes : HEAD);
}

/* Changes the span to hold `room` bytes. Returns false iff it cannot grow. An object that grows
 * gets 1/16 more space, so that it needs no system call for each step. before: the bytes it had
 * space for. */
static bool secure_large_make_room(lm_page_t *page, size_t room, size_t before, bool roomier,
                                   size_t *fresh) {
    LM_ASSERT(page->bias == 0 && room % lm_os_page_bytes() == 0);
    size_t had = page->slices;
    bool zero = false;
    bool grows = room > before && roomier;
    size_t roomy = grows ? room + whole_pages(room / 16) : room,
           slices = secure_large_slices_for(roomy);
    /* The part that it loses may be resident, and goes with the guard. */
    if (room < before) page->in_memory = true;
    if (slices < page->slices) {
        clear_tail(page, slices << LM_SLICE_SHIFT, before);
        lm_span_unfill(page, slices);
        lm_span_shrink(page, slices);
    } else if (slices > page->slices && !lm_span_extend_by(page, slices, &zero)) {
        roomy = room;
        slices = secure_large_slices_for(room);
        if (slices > page->slices && !lm_span_extend_by(page, slices, &zero)) return false;
    }
    if (zero && fresh != NULL) *fresh = had << LM_SLICE_SHIFT;
    if (slices > had && !zero) {
        page->known_zero = false;
        page->in_memory = true;
    }
    (void)lm_span_guard(page, roomy);
    LM_ASSERT(lm_span_room(page) >= room);
    return true;
}

void *lm_large_refit(lm_page_t *page, void *p, size_t bytes, bool roomy, size_t *fresh) {
    size_t had = page->bytes, room = whole_pages(bytes), before = lm_span_room(page);
    (void)lm_span_tail_keep(page);
    bool fits = room <= before && room >= before - before / 8;
    if (!fits && !lm_span_unguard(page)) {
        if (room > before) return NULL;
        fits = true;
    }
    if (!fits && !secure_large_make_room(page, room, before, roomy, fresh)) {
        (void)lm_span_guard(page, before);
        lm_large_trailer_write(page, had); /* without a guard, the canary is longer */
        lm_large_tail(page);
        return NULL;
    }
    if (bytes != had) page->known_zero = false; /* the old canary is part of the object now */
    lm_large_trailer_write(page, bytes);
    if (bytes < had) page->in_memory = true;
    lm_large_tail(page);
    if (bytes > had && fresh == NULL) lm_span_fill(page, had, bytes);
    return p;
}

lm_page_t *lm_large_move(lm_page_t *page, size_t bytes, bool roomy) {
    size_t before = lm_span_room(page), had = page->bytes;
    size_t room = whole_pages(bytes + (roomy ? bytes / 4 : 0));
    (void)lm_span_tail_keep(page);
    if (!lm_span_unguard(page)) return NULL;
    lm_page_t *target = lm_span_move(page, secure_large_slices_for(room));
    if (target == NULL) {
        (void)lm_span_guard(page, before);
        lm_large_trailer_write(page, had);
        lm_large_tail(page);
        return NULL;
    }
    target->known_zero = false;
    target->in_memory = true;
    lm_span_no_guard(target);
    LM_ASSERT(lm_span_room(target) >= room);
    (void)lm_span_guard(target, room);
    return target;
}

#endif

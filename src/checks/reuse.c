/* reuse.c: the debug build fills free memory, to see later whether the program wrote to it.
 *
 *   block, free    [ link | 0xdf 0xdf ... 0xdf | word: freed ]     the link guards itself (heap.h)
 *   large, free    [ 0xdf ... 0xdf ]  waits in a ring of 8 before its span is returned
 *
 * A block is checked when it is handed out again, or when its page is returned; a large object when
 * it leaves the ring. Every block made of untouched memory starts with this fill as well, so all
 * free blocks look alike. It cannot see a write to a page that was returned already, nor to a freed
 * object of more than 2 MiB: such an object is returned at once, because a fill would touch memory
 * that the program never did. While M_PERTURB has a value (perturb.c), that value replaces 0xdf.
 * Memory full of a value that is set now or was set earlier counts as intact.
 */
#include "checks/blame.h"
#include "checks/inner.h"

#include <string.h>

#if LOAM_DEBUG

/* Returns the byte that fills memory freed now. */
static int filling(void) { return lm_perturbs() ? lm_perturb_freed() : LM_FILL_FREED; }

enum { RING = 8, REUSE_WORD = sizeof(uint64_t) };
static const size_t kept_most = 2 << 20;

static unsigned char *reuse_end_of(const lm_page_t *page, const void *block) {
    return (unsigned char *)(uintptr_t)block + page->block_bytes;
}

/* Returns the bytes at a free block's start that are not filled: a link, and in pages of objects at
 * an offset also where the object was. */
static size_t front_bytes(const lm_page_t *page) {
    return (lm_is_offset(page) ? 2 : 1) * sizeof(lm_block_t);
}

static void reuse_fill(const lm_page_t *page, void *block) {
    size_t front = front_bytes(page);
    LM_ASSERT(page->kind == LM_KIND_PAGE);
    LM_ASSERT((size_t)((char *)block - lm_span_start(page)) % page->block_bytes == 0);
    LM_ASSERT(front + REUSE_WORD <= page->block_bytes);
    lm_tools_show(block, page->block_bytes);
    memset((char *)block + front, filling(), page->block_bytes - front - REUSE_WORD);
    /* tools.c reads links itself. offset.c reads where an object was, so that part stays
     * visible. */
    size_t shown = lm_is_offset(page) ? front : 0;
    lm_tools_hide((char *)block + shown, page->block_bytes - shown);
}

void lm_given(void *p) {
    const lm_page_t *page = lm_page_of(p);
    size_t requested;
    bool large = page->kind == LM_KIND_LARGE && !lm_is_offset(page);
    /* Such a block comes to lm_given_at. */
    if (!large && (page->kind != LM_KIND_PAGE || lm_is_offset(page))) return;
    const void *end = (char *)p + lm_block_bytes(page);
    lm_state_t state = lm_word_get(end, &requested);
    /* A block of loam's own, from lm_malloc_aligned. */
    if (state == LM_STATE_USED) lm_tools_freed(p);
    if (state != LM_STATE_FREED) lm_word_set(end, 0, LM_STATE_FREED);
    lm_tools_show(p, lm_block_bytes(page));
    if (large) return; /* its span is returned, so it needs no fill */
    reuse_fill(page, p);
}

void lm_given_at(const lm_page_t *page, void *block) {
    LM_ASSERT(lm_is_offset(page));
    reuse_fill(page, block);
}

void lm_carved(const lm_page_t *page, char *first, size_t blocks) {
    LM_ASSERT(blocks > 0 && page->carved + blocks <= page->capacity);
    LM_ASSERT(first == lm_span_start(page) + (size_t)page->carved * page->block_bytes);
    for (size_t i = 0; i < blocks; i++) {
        char *block = first + i * page->block_bytes;
        lm_word_set(reuse_end_of(page, block), 0, LM_STATE_FREED);
        reuse_fill(page, block);
        if (lm_is_offset(page)) ((lm_block_t *)(void *)block)[1].next = NULL;
    }
}

/* Returns the number of bytes from the first to the last byte of [from, to) that differ from
 * `fill`; 0 iff none differs. from and to are multiples of 8. Stores in *first where the first such
 * byte is. */
LM_READS_ANYTHING static size_t damage_read(const unsigned char *from, const unsigned char *to,
                                            unsigned char fill, const unsigned char **first) {
    const uint64_t *word = (const uint64_t *)(const void *)from, fills = fill * (UINT64_MAX / 255);
    const uint64_t *last = (const uint64_t *)(const void *)to;
    while (last - word >= 4 && (word[0] & word[1] & word[2] & word[3]) == fills &&
           (word[0] | word[1] | word[2] | word[3]) == fills)
        word += 4;
    while (word < last && *word == fills) word++;
    if (word == last) return 0;
    const unsigned char *byte = (const unsigned char *)word;
    while (*byte == fill) byte++;
    *first = byte;
    while (to[-1] == fill) to--;
    return (size_t)(to - byte);
}

/* Returns the least damage that explains the contents, over all bytes that the memory may have been
 * filled with: its number of bytes, and in *first where it begins. */
static size_t damage(const unsigned char *from, const unsigned char *to,
                     const unsigned char **first) {
    LM_ASSERT(((uintptr_t)from | (uintptr_t)to) % sizeof(uint64_t) == 0 && from <= to);
    lm_tools_pause();
    size_t bytes = damage_read(from, to, LM_FILL_FREED, first);
    for (unsigned fill = 0; fill <= UINT8_MAX && bytes > 0; fill++) {
        const unsigned char *at = from;
        if (fill == LM_FILL_FREED || !lm_perturb_filled((unsigned char)fill)) continue;
        size_t less = damage_read(from, to, (unsigned char)fill, &at);
        if (less >= bytes) continue;
        bytes = less;
        *first = at;
    }
    lm_tools_resume();
    return bytes;
}

/* Reports a free block whose end word is overwritten. A write to its object does not reach that
 * word. */
static void end_overwritten(lm_wrong_t wrong, const lm_page_t *page, const unsigned char *end) {
    lm_run_t run;
    lm_run_find(page, end, wrong == LM_WRONG_INSIDE, &run);
    (void)lm_run_report(&run, wrong, end);
}

/* Checks a free block. Returns false, after a report, iff the program wrote to it. linked: nothing
 * has read its link since, so the link is checked as well. */
static bool reuse_look_at(lm_wrong_t wrong, const lm_page_t *page, const void *block, bool linked) {
    const unsigned char *start = (const unsigned char *)block, *end = reuse_end_of(page, block),
                        *first;
    size_t requested, bytes = damage(start + front_bytes(page), end - REUSE_WORD, &first);
    lm_state_t state = lm_word_get(end, &requested);
    bool unlinked = linked && !lm_link_intact((const lm_block_t *)block);
    if (state == LM_STATE_BROKEN) {
        end_overwritten(wrong, page, end);
        return false;
    }
    if (unlinked && lm_run_over_edge(page, block, wrong, wrong == LM_WRONG_INSIDE)) return false;
    const void *object = start;
    if (lm_is_offset(page)) {
        object = lm_offset_freed(page, block);
        if (object == NULL) object = start;
    }
    lm_line_t sizes = {0};
    const char *text = lm_size_text(&sizes, page, state == LM_STATE_FREED ? requested : 0);
    if (bytes > 0) {
        bool inside = first >= (const unsigned char *)object;
        size_t from = (size_t)(inside ? first - (const unsigned char *)object : first - start);
        lm_sites_about(object);
        lm_wrong(wrong + LM_MISTAKE_USE_AFTER_FREE,
                 "write after free of %p: %zu byte(s) from byte %zu%s on (%s", object, bytes, from,
                 inside ? "" : " of its block", text);
    } else if (state != LM_STATE_FREED) {
        lm_sites_about(object);
        lm_wrong(wrong + LM_MISTAKE_USE_AFTER_FREE,
                 "write after free of %p: the end of its block is overwritten (%s", object, text);
    } else if (unlinked) {
        lm_sites_about(object);
        lm_wrong(wrong + LM_MISTAKE_USE_AFTER_FREE,
                 "write after free of %p: its first %zu bytes are overwritten (%s", object,
                 sizeof(lm_block_t), text);
    } else {
        return true;
    }
    return false;
}

bool lm_reuse_intact(const lm_page_t *page, const void *block) {
    return reuse_look_at(LM_WRONG_DAMAGE, page, block, true);
}

void *lm_taken(void *block) {
    const lm_page_t *page = lm_page_of(block);
    if (page->kind != LM_KIND_PAGE) return block;
    size_t at = (size_t)((char *)block - lm_span_start(page));
    LM_ASSERT(at % page->block_bytes == 0);
    LM_ASSERT(at / page->block_bytes < lm_load_relaxed(&page->carved));
    (void)reuse_look_at(LM_WRONG_DAMAGE, page, block, false);
    lm_tools_show(block, page->block_bytes);
    return block;
}

/* Checks an object that ends with its heap, and reports an overflow. A block whose end word is
 * broken may be loam's own, which has no end word, and is left out. */
static void look_at_dropped(const lm_page_t *page, const void *p, const void *end) {
    size_t requested, past;
    if (lm_word_get(end, &requested) != LM_STATE_USED) return;
    if ((past = lm_fence_past(p, requested, end)) == 0) return;
    lm_sites_about(p);
    lm_wrong(
        LM_WRONG_INSIDE + LM_MISTAKE_OVERFLOW,
        "overflow of %p: %zu byte(s) past %zu requested (its heap is destroyed, size class %zu B, ",
        p, past, requested, lm_block_bytes(page));
}

/* Atomic: this process is the child of a fork whose parent had other threads. */
static bool interrupted;

void lm_reuse_interrupted(void) { lm_store_relaxed(&interrupted, true); }

/* Checks a block, used or free, of a page that ends with its heap. Does nothing in the child of a
 * fork: another thread may have stopped between word and fence or fill. Relaxed: the process has
 * one thread when the flag is set. */
static void look_at_any(const lm_page_t *page, const void *block) {
    size_t requested;
    if (lm_load_relaxed(&interrupted)) return;
    if (lm_word_get(reuse_end_of(page, block), &requested) == LM_STATE_FREED)
        (void)reuse_look_at(LM_WRONG_INSIDE, page, block, false);
    else
        look_at_dropped(page, block, reuse_end_of(page, block));
}

void lm_reuse_check_page(const lm_page_t *page) {
    /* Otherwise a heap is destroyed, and its objects with it. No thread touches them. */
    bool whole = lm_page_outside(page) == 0;
    for (size_t i = 0; i < page->carved; i++) {
        const char *block = lm_span_start(page) + i * page->block_bytes;
        if (whole) {
            (void)reuse_look_at(LM_WRONG_INSIDE, page, block, true);
        } else {
            look_at_any(page, block);
            lm_tools_dropped(block, page->block_bytes);
        }
    }
    lm_fence_check_page(page);
    lm_tools_show(lm_span_start(page), (size_t)page->slices << LM_SLICE_SHIFT);
}

/* ---- Large objects ---- */

void lm_reuse_check_large(const lm_page_t *page) {
    LM_ASSERT(page->kind == LM_KIND_LARGE && !lm_is_offset(page));
    const char *start = lm_span_start(page);
    if (!lm_load_relaxed(&interrupted)) look_at_dropped(page, start, start + page->bytes);
}

/* Each entry is atomic: NULL, or a span that no other code knows. The ring has no lock, so that a
 * fork finds nothing half done. */
static lm_page_t *ring[RING];
static uint32_t reuse_turn; /* atomic: number of spans that ever entered the ring */

/* Returns true, after a report, iff the damage came over an end of a large span, where no object
 * reaches. */
static bool past_objects(const lm_page_t *span, const unsigned char *first, size_t bytes,
                         lm_wrong_t wrong) {
    const unsigned char *start = (const unsigned char *)lm_span_start(span);
    const unsigned char *end = start + span->bytes;
    LM_ASSERT(first >= start && first + bytes <= end);
    lm_run_t run = {.page = span};
    if (first + bytes > end - LM_TRAILER) {
        bool whole = span->bytes == (size_t)span->slices << LM_SLICE_SHIFT;
        run.under = whole ? lm_run_behind(end) : NULL;
        run.behind = run.under == NULL;
    } else if (first == start && lm_run_span_before(span)) {
        run.before = true;
    } else {
        return false;
    }
    (void)lm_run_report(&run, wrong, end);
    return true;
}

static void reuse_discard(lm_page_t *span, lm_wrong_t wrong) {
    LM_ASSERT(span->kind == LM_KIND_META && span->range == 0);
    LM_ASSERT(span->bytes <= kept_most && span->block_bytes < span->bytes);
    const unsigned char *start = (const unsigned char *)lm_span_start(span), *first;
    size_t bytes = damage(start, start + span->bytes, &first);
    if (bytes > 0 && !past_objects(span, first, bytes, wrong)) {
        const unsigned char *object = start + span->block_bytes;
        bool inside = first >= object;
        lm_sites_about(object);
        lm_wrong(wrong + LM_MISTAKE_USE_AFTER_FREE,
                 "write after free of %p: %zu byte(s) from byte %zu%s on (size class %zu B, ",
                 (const void *)object, bytes, (size_t)(first - (inside ? object : start)),
                 inside ? "" : " of its memory", span->bytes);
    }
    span->block_bytes = 0;
    span->remote = 0;
    lm_tools_show(start, span->bytes);
    lm_span_unfill(span, 0);
    lm_tools_give(span, false);
}

bool lm_reuse_keep(lm_page_t *page, void *p) {
    if (page->kind != LM_KIND_LARGE || page->bytes > kept_most) return false;
    if (page->range != 0) return false; /* its heap may end, and its memory with the heap */
    LM_ASSERT((size_t)((char *)p - lm_span_start(page)) < page->bytes);
    /* Acquire: pairs with the release store in lm_fheap_delete. The object counts no more. */
    if (lm_load_acquire(&page->fheap) != NULL) lm_fheap_lose(page);
    /* The place and size of the object, for reports until the span is returned. */
    page->remote = lm_requested(page, p);
    page->block_bytes = (uint32_t)((char *)p - lm_span_start(page));
    if (lm_is_offset(page)) lm_offset_unmap(page, p);
    LM_PROBE2(large_free, p, page->bytes);
    lm_bytes_mine(0, page->bytes);
    char *start = lm_span_start(page);
    lm_span_map(page, 1, &lm_nobody); /* before the fill: see lm_intact */
    lm_tools_show(start, page->bytes);
    memset(start, filling(), page->bytes);
    lm_tools_hide(start, page->bytes);
    lm_span_hold(page); /* code that walks the arena no longer sees an object here */
    /* Acquire and release: the thread that takes the span out sees the fill. Relaxed, for the turn:
     * any place serves. */
    lm_page_t *old = lm_exchange_acq_rel(&ring[lm_add_relaxed(&reuse_turn, 1) % RING], page);
    if (old != NULL) reuse_discard(old, LM_WRONG_DAMAGE);
    lm_purge_poke(true);
    return true;
}

/* Takes no lock. A span that leaves the ring meanwhile is reported with the size it had, or has
 * now. */
bool lm_reuse_holds(const void *p, size_t *bytes, size_t *requested) {
    for (unsigned i = 0; i < RING; i++) {
        const lm_page_t *span = lm_load_acquire(&ring[i]);
        if (span == NULL || lm_span_start(span) + span->block_bytes != p) continue;
        *bytes = span->bytes;
        *requested = span->remote;
        return true;
    }
    return false;
}

static bool reuse_empty(lm_wrong_t wrong) {
    bool some = false;
    for (unsigned i = 0; i < RING; i++) {
        /* Acquire and release, as in lm_reuse_keep: this thread sees the fill. */
        lm_page_t *span = lm_exchange_acq_rel(&ring[i], NULL);
        if (span == NULL) continue;
        reuse_discard(span, wrong);
        some = true;
    }
    return some;
}

bool lm_reuse_unkeep(void) {
    bool some = reuse_empty(LM_WRONG_DAMAGE);
    return lm_tools_let_go() || some;
}

/* The caller holds the registry's lock, so no handler of the program may be called. */
bool lm_reuse_rest(bool all) {
    static uint32_t seen; /* only the worker uses it */
    uint32_t now = lm_load_relaxed(
        &reuse_turn); /* relaxed: a span that enters meanwhile is seen at the next tick */
    if (now != seen && !all) {
        seen = now;
        return true;
    }
    (void)reuse_empty(LM_WRONG_INSIDE);
    return false;
}

#endif

/* reuse.c: what the debug build writes into free memory, to see later whether it was written to.
 *
 *   block, free    [ link | 0xdf 0xdf ... 0xdf | word: freed ]     link: guarded by itself (checked.c)
 *   large, free    [ 0xdf ... 0xdf ]  waits in a ring of 8 before its span goes back
 *
 * A block is looked at when it is handed out again, or when its page goes back; a large object when it leaves
 * the ring. Every block that is made of untouched memory starts like this, too, so that there is no other kind.
 * It cannot see what is written to a page after that has gone back, or to an object of more than 2 MiB: those
 * go back at once, because a fill would touch memory that the program never did.
 */
#include "heap/room.h"

#include <string.h>

#if LOAM_DEBUG

enum { FREE = 0xdf, RING = 8, WORD = sizeof(uint64_t) };
#define FREES 0xdfdfdfdfdfdfdfdfu
static const size_t kept_most = 2 << 20;

static unsigned char *end_of(const lm_page_t *page, const void *block) {
    return (unsigned char *)(uintptr_t)block + page->block_bytes;
}

/* Blocks that begin where their object does. */
static bool has_pattern(const lm_page_t *page) {
    return page->kind == LM_KIND_PAGE && !lm_is_offset(page);
}

static void fill(const lm_page_t *page, void *block) {
    lm_tools_show(block, page->block_bytes);
    memset((char *)block + sizeof(lm_block_t), FREE, page->block_bytes - sizeof(lm_block_t) - WORD);
    lm_tools_hide(block, page->block_bytes);
}

void lm_given(void *p) {
    const lm_page_t *page = lm_page_of(p);
    size_t requested;
    bool large = page->kind == LM_KIND_LARGE && !lm_is_offset(page);
    if (!large && !has_pattern(page)) return;
    const void *end = (char *)p + lm_block_bytes(page);
    lm_state_t state = lm_word_get(end, &requested);
    if (state == LM_STATE_USED) lm_tools_freed(p); /* loam's own, by lm_malloc_aligned */
    if (state != LM_STATE_FREED) lm_word_set(end, 0, LM_STATE_FREED);
    lm_tools_show(p, lm_block_bytes(page));
    if (large) return; /* it goes back */
    fill(page, p);
}

void lm_carved(const lm_page_t *page, char *first, size_t blocks) {
    for (size_t i = 0; i < blocks; i++) {
        char *block = first + i * page->block_bytes;
        lm_word_set(end_of(page, block), 0, LM_STATE_FREED);
        if (!lm_is_offset(page)) fill(page, block);
    }
}

/* Bytes of [from, to), words in a row, that are not as filled: from the first to the last one. *first: where that
 * is. */
LM_READS_ANYTHING static size_t damage_read(const unsigned char *from, const unsigned char *to,
                                            const unsigned char **first) {
    const uint64_t *word = (const uint64_t *)(const void *)from;
    const uint64_t *last = (const uint64_t *)(const void *)to;
    while (last - word >= 4 && (word[0] & word[1] & word[2] & word[3]) == FREES &&
           (word[0] | word[1] | word[2] | word[3]) == FREES)
        word += 4;
    while (word < last && *word == FREES) word++;
    if (word == last) return 0;
    const unsigned char *byte = (const unsigned char *)word;
    while (*byte == FREE) byte++;
    *first = byte;
    while (to[-1] == FREE) to--;
    return (size_t)(to - byte);
}

static size_t damage(const unsigned char *from, const unsigned char *to,
                     const unsigned char **first) {
    lm_tools_pause();
    size_t bytes = damage_read(from, to, first);
    lm_tools_resume();
    return bytes;
}

static void look_at(lm_wrong_t wrong, const lm_page_t *page, const void *block) {
    const unsigned char *start = (const unsigned char *)block, *end = end_of(page, block), *first;
    size_t requested, bytes = damage(start + sizeof(lm_block_t), end - WORD, &first);
    if (bytes > 0) {
        lm_sites_about(block);
        lm_wrong(wrong, "write after free of %p: %zu byte(s) from byte %zu on (size class %zu B, ",
                 block, bytes, (size_t)(first - start), lm_block_bytes(page));
    } else if (lm_word_get(end, &requested) != LM_STATE_FREED) {
        lm_sites_about(block);
        lm_wrong(wrong,
                 "write after free of %p: the end of its block is overwritten (size class %zu B, ",
                 block, lm_block_bytes(page));
    }
}

void *lm_taken(void *block) {
    const lm_page_t *page = lm_page_of(block);
    if (has_pattern(page)) look_at(LM_WRONG_DAMAGE, page, block);
    if (page->kind == LM_KIND_PAGE) lm_tools_show(block, page->block_bytes);
    return block;
}

void lm_reuse_check_page(const lm_page_t *page) {
    /* Otherwise a heap is destroyed, and its objects with it, which nobody touches. */
    bool whole = lm_page_outside(page) == 0;
    size_t blocks = has_pattern(page) && (whole || LM_TOOLS) ? page->carved : 0;
    for (size_t i = 0; i < blocks; i++) {
        const char *block = lm_span_start(page) + i * page->block_bytes;
        if (whole)
            look_at(LM_WRONG_INSIDE, page, block);
        else
            lm_tools_dropped(block, page->block_bytes);
    }
    lm_tools_show(lm_span_start(page), (size_t)page->slices << LM_SLICE_SHIFT);
}

/* ---- Large objects ---- */

/* Atomic, each: NULL, or a span that nobody else knows. No lock of its own, so that a fork finds nothing half done. */
static lm_page_t *ring[RING];
static uint32_t turn; /* atomic */

static void discard(lm_page_t *span, lm_wrong_t wrong) {
    const unsigned char *start = (const unsigned char *)lm_span_start(span), *first;
    size_t bytes = damage(start, start + span->bytes, &first);
    if (bytes > 0) {
        lm_sites_about(start);
        lm_wrong(wrong, "write after free of %p: %zu byte(s) from byte %zu on (size class %zu B, ",
                 (const void *)start, bytes, (size_t)(first - start), span->bytes);
    }
    lm_tools_show(start, span->bytes);
    lm_span_unfill(span, 0);
    lm_span_give(span, false);
}

bool lm_reuse_keep(lm_page_t *page, void *p) {
    if (page->kind != LM_KIND_LARGE || lm_is_offset(page) || page->bytes > kept_most) return false;
    if (page->range != 0 || lm_load_relaxed(&page->whole) != NULL)
        return false; /* it counts, until it has gone */
    LM_PROBE2(large_free, p, page->bytes);
    lm_tools_show(p, page->bytes);
    memset(p, FREE, page->bytes);
    lm_tools_hide(p, page->bytes);
    lm_span_map(page, 1, &lm_nobody);
    lm_span_hold(page); /* nobody's object any more, for who walks the arena */
    /* Acquire and release: who takes it out sees the fill. Relaxed: any place is as good. */
    lm_page_t *old = lm_exchange_acq_rel(&ring[lm_add_relaxed(&turn, 1) % RING], page);
    if (old != NULL) discard(old, LM_WRONG_DAMAGE);
    lm_purge_poke(true);
    return true;
}

static bool empty(lm_wrong_t wrong) {
    bool some = false;
    for (unsigned i = 0; i < RING; i++) {
        lm_page_t *span = lm_exchange_acq_rel(&ring[i], NULL); /* as above */
        if (span == NULL) continue;
        discard(span, wrong);
        some = true;
    }
    return some;
}

bool lm_reuse_unkeep(void) { return empty(LM_WRONG_DAMAGE); }

/* Under the registry's lock: no handler of the program's may be called. */
bool lm_reuse_rest(bool all) {
    static uint32_t seen; /* the worker's */
    uint32_t now =
        lm_load_relaxed(&turn); /* relaxed: what comes this moment is seen the next time */
    if (now != seen && !all) {
        seen = now;
        return true;
    }
    (void)empty(LM_WRONG_INSIDE);
    return false;
}

#endif

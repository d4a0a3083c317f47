/* checked.c: what finds a program's mistakes.
 *
 *   release   pointers that loam did not allocate
 *   secure    + pointers into a block, double frees of the owner, damaged free lists
 *   debug     + every double free while the block is free, overflows to the byte
 *
 * A block in the debug build:
 *
 *     [ requested bytes | fence 0xfb ... at least 8 bytes | 48 bits requested, 16 bits tag ]
 *
 * The tag tells in use from freed, mixed with the address. In debug and secure builds links of free
 * lists are xored with a key of the process and their own address: an overwritten one leads nowhere
 * and is reported. None of this finds a write after free, or an overflow that jumps over the fence.
 */
#include "heap/room.h"

#include <string.h>

lm_page_t *lm_page_foreign(const void *p, const char *function) {
    lm_misuse("%s of a pointer that loam did not allocate: %p (", function, p);
    return NULL;
}

lm_page_t *lm_inside_large(const lm_page_t *page, const void *p, const char *function) {
    lm_misuse("misaligned pointer %p passed to %s (large object of %zu B at %p, ", p, function,
              page->bytes, (void *)lm_span_start(page));
    return NULL;
}

#if LM_GUARD_LINKS

/* In the arena, but in no page: it was ours once. */
static bool was_ours(const void *p) {
    return lm_slice_of(p) < lm_load_acquire(&lm_arena.slices) &&
           lm_page_of(p)->kind == LM_KIND_NONE;
}

/* ---- Links ---- */

/* Every thread computes the same: no race that matters. Not in the function: debuggers do not find it there once that
 * is inlined (tools/gdb/loam.py). */
static uintptr_t key_of_links;

static uintptr_t link_key(void) {
    uintptr_t value = lm_load_relaxed(&key_of_links);
    if (LM_UNLIKELY(value == 0)) {
        value = lm_os_random() | 1;
        lm_store_relaxed(&key_of_links, value);
    }
    return value;
}

void lm_link_set(lm_block_t *block, lm_block_t *next) {
    block->next = (lm_block_t *)((uintptr_t)next ^ (uintptr_t)block ^ link_key());
}

static lm_block_t *decoded(const lm_block_t *block) {
    return (lm_block_t *)((uintptr_t)block->next ^ (uintptr_t)block ^ link_key());
}

lm_block_t *lm_link_get(const lm_block_t *block) {
    lm_block_t *next = decoded(block);
    const lm_page_t *page = lm_page_of(block);
    /* Not always the same page, nor class: see lm_foreign_t. */
    if (LM_LIKELY(next == NULL || (uintptr_t)next % 16 == 0)) {
        const lm_page_t *other = next == NULL ? page : lm_page_of(next);
        if (LM_LIKELY(other == page || other->kind == LM_KIND_PAGE)) return next;
    }
    lm_wrong(LM_WRONG_INSIDE, "free list damaged at %p: written after free (size class %u B, ",
             (const void *)block, page->block_bytes);
    return NULL;
}

/* ---- Blocks ---- */

static bool misaligned(const lm_page_t *page, const void *p) {
    size_t offset = (size_t)((const char *)p - lm_span_start(page));
    if (lm_is_offset(page)) return !lm_offset_is_object(page, p);
    if (page->kind == LM_KIND_LARGE) return offset != 0;
    return offset % page->block_bytes != 0 || offset / page->block_bytes >= page->carved;
}

static lm_page_t *double_free(const lm_page_t *page, const void *p, const char *function) {
    const char *what = strcmp(function, "free") == 0 ? "double free" : function;
    const char *state = strcmp(function, "free") == 0 ? "" : " after free";
    lm_misuse("%s%s of %p (size class %zu B, ", what, state, p, lm_block_bytes(page));
    return NULL;
}

#if LOAM_DEBUG

enum { FENCE = 0xfb, TAG_USED = 0x5a11, TAG_FREED = 0xdead, FILL_NEW = 0xd5, FILL_MOST = 4096 };

static unsigned char *block_end(const lm_page_t *page, const void *p) {
    return (unsigned char *)(uintptr_t)p + lm_block_room(page, p);
}

static uint64_t tag_of(const void *p, unsigned state) {
    return (((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 48) ^ state;
}

static uint64_t trailer(const lm_page_t *page, const void *p) {
    uint64_t word;
    memcpy(&word, block_end(page, p) - sizeof word, sizeof word);
    return word;
}

static void set_trailer(const lm_page_t *page, void *p, size_t bytes, unsigned state) {
    uint64_t word = (uint64_t)bytes << 16 | tag_of(p, state);
    memcpy(block_end(page, p) - sizeof word, &word, sizeof word);
}

void *lm_mark(void *p, size_t bytes) {
    const lm_page_t *page = lm_page_of(p);
    unsigned char *end = block_end(page, p) - sizeof(uint64_t);
    memset((unsigned char *)p + bytes, FENCE, (size_t)(end - (unsigned char *)p) - bytes);
    set_trailer(page, p, bytes, TAG_USED);
    return p;
}

size_t lm_requested(const lm_page_t *page, const void *p) { return trailer(page, p) >> 16; }

/* false, after a report, iff the block is not in use or was overrun. */
static bool intact(const lm_page_t *page, const void *p, const char *function) {
    uint64_t word = trailer(page, p);
    size_t requested = word >> 16;
    if ((word & 0xffff) == tag_of(p, TAG_FREED)) {
        double_free(page, p, function);
        return false;
    }
    if ((word & 0xffff) != tag_of(p, TAG_USED) || requested > lm_block_room(page, p) - LM_TRAILER) {
        lm_wrong(LM_WRONG_DAMAGE,
                 "overflow of %p: the end of its block is overwritten (size class %zu B, ", p,
                 lm_block_bytes(page));
        return false;
    }
    const unsigned char *fence = (const unsigned char *)p + requested;
    const unsigned char *last = block_end(page, p) - sizeof word - 1;
    while (last >= fence && *last == FENCE) last--;
    if (last < fence) return true;
    lm_wrong(LM_WRONG_DAMAGE, "overflow of %p: %zu byte(s) past %zu requested (size class %zu B, ",
             p, (size_t)(last - fence) + 1, requested, lm_block_bytes(page));
    return false;
}

#else

/* Only what the owner freed and has not reused can be found, and only by looking: done when the first
 * word looks like a link of this page, which data rarely does. */
static bool intact(const lm_page_t *page, const void *p, const char *function) {
    const lm_block_t *block = (const lm_block_t *)p;
    if (page->kind == LM_KIND_LARGE || lm_load_relaxed(&page->owner) != lm_thread_token())
        return true;
    const lm_block_t *next = decoded(block);
    if (next != NULL && lm_page_of(next) != page) return true;
    uint32_t left = page->carved;
    for (const lm_block_t *b = page->free; b != NULL && left-- > 0; b = decoded(b)) {
        if (b == block) return double_free(page, p, function) != NULL;
        if (lm_page_of(b) != page) break;
    }
    return true;
}

#endif

lm_page_t *lm_page_checked(const void *p, const char *function) {
    lm_page_t *page = lm_page_of(p);
    if (page->kind != LM_KIND_PAGE && page->kind != LM_KIND_LARGE) {
        lm_page_t *around = lm_span_holding(p);
        if (around != NULL && around->kind == LM_KIND_LARGE)
            return lm_inside_large(around, p, function);
        if (!was_ours(p)) return lm_page_foreign(p, function);
        bool freed = strcmp(function, "free") == 0;
        lm_misuse("%s%s of %p (a large object or a whole page, ", freed ? "double free" : function,
                  freed ? "" : " after free", p);
        return NULL;
    }
    if (page->kind == LM_KIND_LARGE && misaligned(page, p))
        return lm_inside_large(page, p, function);
    if (misaligned(page, p)) {
        lm_misuse("misaligned pointer %p passed to %s (size class %zu B, ", p, function,
                  lm_block_bytes(page));
        return NULL;
    }
    return intact(page, p, function) ? page : NULL;
}

void *lm_mark_new(void *p, size_t bytes) {
#if LOAM_DEBUG
    memset(p, FILL_NEW, bytes < FILL_MOST ? bytes : FILL_MOST); /* nobody may rely on zeros */
#endif
    return lm_mark(p, bytes);
}

void *lm_malloc(size_t bytes) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    void *p = lm_block_alloc(bytes + LM_TRAILER);
    return p != NULL ? lm_mark_new(p, bytes) : NULL;
}

void *lm_malloc_small(size_t bytes) {
    if (bytes <= LM_SMALL_MOST) return lm_malloc(bytes);
    lm_wrong(LM_WRONG_CALL, "%zu B asked for as a small object, which has %u B at most (", bytes,
             (unsigned)LM_SMALL_MOST);
    return lm_no_memory();
}

void lm_free(void *p) {
    if (p == NULL) return;
    lm_page_t *page = lm_page_checked(p, "free");
    if (page == NULL) return;
#if LOAM_DEBUG
    set_trailer(page, p, lm_requested(page, p), TAG_FREED);
#endif
    lm_block_free(p);
}

#endif

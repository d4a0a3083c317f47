/* near.c: damage beside a block of the secure build.
 *
 *   free(p)     [ block before: in use: canary? free: last 32 bytes zero? ][ p ... canary? ]
 *
 * An underflow of p damages what lies before p, and so does an overflow of the block there that is never freed. Either
 * is found when p is freed or resized: check_before in secure.c looks, and what it finds comes here.
 *
 * Another thread may take, resize or free the block before p meanwhile. It writes the last word before it hands the
 * block out, and clears the block after it took it back: so damage is reported only if the last word has not changed
 * after the look. It cannot tell an underflow of p from an overflow of the block before or a write after its free, nor
 * see an underflow into the object of a block in use that leaves its canary alone. Pages with blocks that loam itself
 * holds (`raw`) are left out: such blocks have no canary. So are pages with damage that was reported once, if the
 * program goes on.
 */
#include "heap/canary.h"

#if LM_SECURE

enum { NEAR = 32 };

/* Acquire: what was read before is read before this. */
static uint64_t word_again(const void *block, size_t bytes) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return lm_load_acquire(lm_last_word(block, bytes));
}

static bool is_raw(const lm_page_t *page) { return lm_load_acquire(&page->raw); }

/* Whether bytes [from, from+bytes) are zero. */
static bool zero(const char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (from[i] != 0) return false;
    }
    return true;
}

/* Whether a free block's link is one: none, or one that leads to a block. */
static bool link_is_right(const lm_block_t *block) {
    if (block->next == NULL) return true; /* wiped, and in no list */
    const lm_block_t *next = lm_link_decoded(block);
    return next == NULL || lm_link_leads(next) ||
           ((uintptr_t)next % 16 == 0 && lm_range_around(next) != NULL);
}

/* Whether a block is damaged that nobody has changed meanwhile. near: how many of a free block's last bytes to look
 * at. */
static bool damaged(const void *block, size_t bytes, size_t near) {
    const char *end = (const char *)block + bytes;
    uint64_t last = word_again(block, bytes);
    size_t slack;
    bool right;
    if (last == 0) {
        size_t most = bytes - sizeof(lm_block_t);
        right = zero(end - (near < most ? near : most), near < most ? near : most) &&
                (near < bytes || link_is_right((const lm_block_t *)block));
    } else {
        right = lm_is_claimed(block, last) ||
                (lm_has_canary(block, bytes, &slack) && zero(end - LM_TRAILER - slack, slack));
    }
    return !right && word_again(block, bytes) == last;
}

/* Relaxed: a word by itself. */
void lm_before_reported(const lm_page_t *page) {
    lm_store_relaxed(&((lm_page_t *)(uintptr_t)page)->raw, true);
}

/* Whoever lets overflows pass lets such a report pass, too: it may be one. */
static LM_COLD void report(const lm_page_t *page, const void *before, const void *p) {
    bool free = *lm_last_word(before, page->block_bytes) == 0;
    lm_wrong_t mistake =
        lm_wrong_goes_on(LM_MISTAKE_OVERFLOW) ? LM_MISTAKE_OVERFLOW : LM_MISTAKE_UNDERFLOW;
    lm_before_reported(page);
    if (free)
        lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_USE_AFTER_FREE,
                 "write after free of %p: its end is overwritten, if not by an underflow of %p "
                 "(size class %zu B, ",
                 before, p, lm_block_bytes(page));
    else
        lm_wrong(
            LM_WRONG_DAMAGE + mistake,
            "underflow of %p: the bytes before it are overwritten, if not by an overflow of %p "
            "(size class %zu B, ",
            p, before, lm_block_bytes(page));
}

void lm_before_damaged(const lm_page_t *page, const void *p) {
    const char *before = (const char *)p - page->block_bytes;
    if (damaged(before, page->block_bytes, NEAR) && !is_raw(page)) report(page, before, p);
}

void lm_before_links(const lm_page_t *page, const void *p) {
    size_t bytes = page->block_bytes;
    const char *start = lm_span_start(page), *at = (const char *)p;
    for (size_t back = bytes; back <= NEAR; back += bytes) {
        at -= bytes;
        if (LM_UNLIKELY(at < start)) return;
        const lm_word_t *words = (const lm_word_t *)(const void *)at;
        bool rest = bytes == NEAR && (words[1] | words[2]) != 0;
        if (*lm_last_word(at, bytes) != 0) continue;
        if (LM_LIKELY(!rest) && LM_LIKELY(link_is_right((const lm_block_t *)(const void *)at)))
            continue;
        if (!damaged(at, bytes, NEAR) || is_raw(page)) continue;
        report(page, at, p);
        return;
    }
}

#endif

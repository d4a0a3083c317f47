/* fence.c: what the debug build writes around each block, and checks when the block is freed or
 * resized.
 *
 *   [ requested bytes | fence 0xfb ..., 8 bytes or more | requested: 48 bits, tag: 16 ] next block
 *                       ^ an overflow starts here       an underflow of the next starts here ^
 *
 * The end word says whether the block is in use or freed. Its tag mixes that state with the word's
 * address and the requested size, and the word is xored with bytes that depend on the address.
 * Every block that was ever made has an end word (reuse.c), except blocks that loam itself holds
 * without a request (lm_block_alloc). So fence.c finds overflows to the byte; underflows that reach
 * the block before, at the latest when that block is freed; double frees while the block is free;
 * and a wrong size at a sized delete. A large object has a second end word where its span ends, and
 * so has a page whose last block ends earlier: an underflow of the next span breaks that word. It
 * cannot find a write that jumps over fence and end word, nor an underflow of a span that lies
 * behind a free one.
 * Invariant: an end word is valid, or the program has overwritten it. It is read and written as one
 * word, because a thread that frees a block looks at the block before it.
 */
#include "checks/blame.h"
#include "checks/inner.h"

#include <string.h>

#if LOAM_DEBUG

enum {
    FENCE = LM_FILL_FENCE,
    FILL_NEW = 0xd5,
    FENCE_FILL_MOST = 4096,
    FENCE_WORD = sizeof(uint64_t)
};
#define FENCES 0xfbfbfbfbfbfbfbfbu
enum { TAG_USED = 0x5a11, TAG_FREED = 0xdead };

/* ---- The word ---- */

static unsigned char *block_end(const lm_page_t *page, const void *p) {
    return (unsigned char *)(uintptr_t)p + lm_block_usable(page, p);
}

static uint64_t *word_before(const void *end) { return (uint64_t *)(uintptr_t)end - 1; }

static uint64_t tag_of(const void *end, size_t requested, unsigned tag) {
    uint64_t both = ((uintptr_t)end >> 4) + requested * 0xd6e8feb86659fd93u;
    return (both * 0x9e3779b97f4a7c15u >> 48) ^ tag;
}

/* Returns what the end word is xored with. Each byte lies in 0x80 to 0xbf and depends on the
 * address and the process. The upper bytes of a size are zero, so after the xor no byte before an
 * object is one that programs often write (0, 1, 0xff, text), and the bytes differ from block to
 * block. */
static uint64_t mask_of(const void *end) {
    lm_secret_make(); /* the first large object may be older than the first page */
    uint64_t bits = ((uintptr_t)end >> 4 ^ lm_load_relaxed(&lm_secret)) * 0x9e3779b97f4a7c15u;
    return ((bits ^ bits >> 29) & 0x3f3f3f3f3f3f3f3fu) | 0x8080808080808080u;
}

LM_READS_ANYTHING static uint64_t fence_word_at(const uint64_t *at) {
    lm_tools_pause();
    uint64_t word = lm_load_relaxed(at);
    lm_tools_show(&word, sizeof word);
    lm_tools_resume();
    return word;
}

uint64_t lm_word_raw(const void *end) { return fence_word_at(word_before(end)); }

uint64_t lm_word_mask(const void *end) { return mask_of(end); }

/* Returns the most bytes that can have been requested for an object whose block ends at `end`. All
 * slices of a page of blocks are in the map; the slice where a large object ends is not. */
static size_t word_most(const void *end) {
    const lm_page_t *page = lm_page_of((const char *)end - 1);
    return page->kind == LM_KIND_PAGE ? page->block_bytes - LM_TRAILER : SIZE_MAX;
}

/* Bytes that a program wrote over the word spell a tag in 1 of 32,768 cases, but not a size as well
 * that fits into the block. */
lm_state_t lm_word_get(const void *end, size_t *requested) {
    uint64_t word = fence_word_at(word_before(end)) ^ mask_of(end);
    *requested = word >> 16;
    if (*requested > word_most(end)) return LM_STATE_BROKEN;
    if ((word & 0xffff) == tag_of(end, *requested, TAG_USED)) return LM_STATE_USED;
    return (word & 0xffff) == tag_of(end, *requested, TAG_FREED) ? LM_STATE_FREED : LM_STATE_BROKEN;
}

static uint64_t word_for(const void *end, size_t requested, unsigned tag) {
    LM_ASSERT(requested >> 48 == 0);
    return (uint64_t)requested << 16 | tag_of(end, requested, tag);
}

/* Relaxed: other threads only look whether the word is intact, and read nothing that depends on
 * it. */
LM_READS_ANYTHING void lm_word_set(const void *end, size_t requested, lm_state_t state) {
    LM_ASSERT(state == LM_STATE_USED || state == LM_STATE_FREED);
    LM_ASSERT((uintptr_t)end % sizeof(uint64_t) == 0);
    uint64_t word = word_for(end, requested, state == LM_STATE_USED ? TAG_USED : TAG_FREED);
    lm_tools_pause();
    lm_store_relaxed(word_before(end), word ^ mask_of(end));
    lm_tools_resume();
}

size_t lm_requested(const lm_page_t *page, const void *p) {
    size_t requested;
    if (page->kind == LM_KIND_SAMPLED) return page->bytes;
    (void)lm_word_get(block_end(page, p), &requested);
    return requested;
}

/* Returns the end of a large object's span. Returns NULL iff the object's block ends there as
 * well. */
static void *span_end(const lm_page_t *page) {
    if (page->kind != LM_KIND_LARGE) return NULL;
    size_t bytes = (size_t)page->slices << LM_SLICE_SHIFT;
    return page->bytes < bytes ? lm_span_start(page) + bytes : NULL;
}

static const char *page_end(const lm_page_t *page) {
    return lm_span_start(page) + ((size_t)page->slices << LM_SLICE_SHIFT);
}

/* ---- Counting ---- */

/* Sum of all requested sizes in bytes. Atomic; relaxed: a statistic that orders nothing. */
static uint64_t requested_in_all;

uint64_t lm_requested_in_all(void) { return lm_load_relaxed(&requested_in_all); }

/* Counts an object that grew from `before` requested bytes, 0 for a new object, to `bytes`. */
static void count_requested(size_t before, size_t bytes) {
    if (bytes > before) (void)lm_add_relaxed(&requested_in_all, bytes - before);
}

/* ---- Writing ---- */

/* Release: a thread that finds the page in the map also sees these words. */
LM_READS_ANYTHING void lm_fence_page(const lm_page_t *page) {
    const char *end = page_end(page);
    LM_ASSERT(page->slices > 0 && page->carved == 0);
    lm_tools_pause();
    lm_store_relaxed(word_before(end) - 1, FENCES);
    lm_tools_resume();
    lm_word_set(end, 0, LM_STATE_FREED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

void *lm_trailer_write(void *p, size_t bytes) {
    lm_page_t *page = lm_page_of(p);
    if (page->kind == LM_KIND_SAMPLED) {
        count_requested(0, bytes);
        lm_sampled_note_size(page, p, bytes);
        return p;
    }
    LM_ASSERT(page->kind == LM_KIND_PAGE || page->kind == LM_KIND_LARGE);
    unsigned char *end = block_end(page, p), *fence = (unsigned char *)p + bytes;
    LM_ASSERT(bytes + LM_TRAILER <= (size_t)(end - (unsigned char *)p));
    LM_ASSERT((uintptr_t)end % sizeof(uint64_t) == 0);
    size_t before;
    if (lm_word_get(end, &before) == LM_STATE_USED) {
        lm_tools_resized(p, before, bytes);
    } else {
        before = 0;
        lm_tools_new(p, bytes);
    }
    count_requested(before, bytes);
    lm_tools_show(fence, (size_t)(end - fence));
    memset(fence, FENCE, (size_t)(end - fence) - FENCE_WORD);
    lm_word_set(end, bytes, LM_STATE_USED);
    void *last = span_end(page);
    if (last != NULL) lm_word_set(last, bytes, LM_STATE_USED);
    lm_tools_hide(fence, (size_t)(end - fence));
    lm_sites_allocated(p);
    return p;
}

void *lm_trailer_write_new(void *p, size_t bytes) {
    if (lm_perturbs())
        lm_perturb_new(p, bytes);
    else
        /* No program may rely on zeros. */
        memset(p, FILL_NEW, bytes < FENCE_FILL_MOST ? bytes : FENCE_FILL_MOST);
    (void)lm_trailer_write(p, bytes);
    lm_tools_undefined(p, bytes);
    return p;
}

/* ---- Looking ---- */

/* Acquire: pairs with the release store of `raw`, which comes before any write to a block without
 * an end word. */
static bool fence_is_raw(const lm_page_t *page) { return lm_load_acquire(&page->raw); }

const char *lm_size_text(lm_line_t *line, const lm_page_t *page, size_t requested) {
    lm_line_add(line, "size class %zu B, ", lm_block_bytes(page));
    if (requested != 0) lm_line_add(line, "%zu requested, ", requested);
    return line->text;
}

static bool underflow(const lm_page_t *page, const void *p, size_t requested) {
    lm_line_t sizes = {0};
    lm_sites_about(p);
    lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_UNDERFLOW,
             "underflow of %p: the bytes before it are overwritten (%s", p,
             lm_size_text(&sizes, page, requested));
    return false;
}

void lm_fence_check_page(const lm_page_t *page) {
    const char *end = page_end(page);
    LM_ASSERT(page->carved <= page->capacity);
    LM_ASSERT((size_t)page->capacity * page->block_bytes <= (size_t)(end - lm_span_start(page)));
    if (page->carved * (size_t)page->block_bytes == (size_t)(end - lm_span_start(page)) ||
        !lm_run_end_broken(page))
        return;
    lm_run_t run = {.page = page, .under = lm_run_behind(end)};
    run.behind = run.under == NULL;
    run.before = !lm_run_end_from_behind(page);
    (void)lm_run_report(&run, LM_WRONG_INSIDE, end);
}

/* Reports that the end word of the object p is broken. Returns false. */
static bool word_overwritten(const lm_page_t *page, const void *p) {
    const char *end = (const char *)block_end(page, p);
    lm_run_t run = {.page = page, .over = p};
    if (page->kind == LM_KIND_PAGE) {
        lm_run_find(page, end, false, &run);
    } else {
        const void *last = span_end(page), *behind = last != NULL ? last : end;
        if (lm_word_low_whole(end)) run.over = NULL;
        if ((last == NULL || lm_word_broken(last)) && !lm_word_top_whole(behind, page->bytes)) {
            run.under = lm_run_behind(behind);
            run.behind = run.under == NULL;
        }
    }
    return lm_run_report(&run, LM_WRONG_DAMAGE, end);
}

/* Returns false, after a report, iff memory before p was damaged since p was allocated. The end
 * word before p was intact then, whether that block was in use or free; so was the end word of a
 * page before p's span. */
static bool intact_before(const lm_page_t *page, const void *p, size_t requested) {
    if (lm_is_offset(page)) return lm_offset_before_intact(page, p);
    if (p == lm_span_start(page)) {
        if (!lm_span_page_before(page, lm_run_end_broken)) return true;
        if (lm_span_page_before(page, lm_run_end_from_behind)) return underflow(page, p, requested);
        lm_run_t run = {.page = page, .under = p, .before = true};
        return lm_run_report(&run, LM_WRONG_DAMAGE, p);
    }
    if (fence_is_raw(page) || !lm_word_broken(p)) return true;
    lm_run_t run;
    lm_run_find(page, p, false, &run);
    if (run.under == NULL) return true; /* the free of the damaged block reports it */
    if (run.over == NULL && !run.before) return underflow(page, p, requested);
    return lm_run_report(&run, LM_WRONG_DAMAGE, p);
}

static bool intact_behind(const lm_page_t *page, const void *p) {
    const void *last = span_end(page);
    if (last == NULL || !lm_word_broken(last)) return true;
    lm_run_t run = {.page = page, .over = p, .under = lm_run_behind(last)};
    run.behind = run.under == NULL;
    return lm_run_report(&run, LM_WRONG_DAMAGE, last);
}

/* Returns the last byte in [fence, end) that is not a fence byte. Returns NULL iff all bytes are
 * intact. */
LM_READS_ANYTHING static const unsigned char *last_damaged(const unsigned char *fence,
                                                           const unsigned char *end) {
    lm_tools_pause();
    while (end > fence && end[-1] == FENCE) end--;
    lm_tools_resume();
    return end > fence ? end - 1 : NULL;
}

size_t lm_fence_past(const void *p, size_t requested, const void *end) {
    const unsigned char *fence = (const unsigned char *)p + requested;
    const unsigned char *last = last_damaged(fence, (const unsigned char *)end - FENCE_WORD);
    return last != NULL ? (size_t)(last - fence) + 1 : 0;
}

/* Reports a damaged fence before an intact end word: an overflow of p, or an overflow from before p
 * that crossed all of p. Damage that does not begin at the object's end may also be a stray write,
 * unless the program left bytes out. Returns false. */
static bool fence_overwritten(const lm_page_t *page, const void *p, size_t requested, size_t past) {
    bool begins = ((const unsigned char *)p)[requested] != FENCE;
    if (page->kind == LM_KIND_PAGE && !lm_is_offset(page) && begins &&
        lm_run_over_edge(page, p, LM_WRONG_DAMAGE, false))
        return false;
    lm_sites_about(p);
    lm_wrong(LM_WRONG_DAMAGE + LM_MISTAKE_OVERFLOW +
                 (begins ? 0 : LM_MISTAKE_OR(LM_MISTAKE_UNDERFLOW)),
             "overflow of %p%s: %zu byte(s) past %zu requested (size class %zu B, ", p,
             begins ? "" : ", or a stray write", past, requested, lm_block_bytes(page));
    return false;
}

bool lm_intact(const lm_page_t *page, const void *p, const char *function) {
    const unsigned char *end = block_end(page, p);
    size_t requested;
    lm_state_t state = lm_word_get(end, &requested);
    if (state == LM_STATE_BROKEN && lm_page_of(p) != page)
        state = LM_STATE_FREED; /* another thread has freed it since */
    if (state == LM_STATE_FREED) {
        lm_sites_about(p);
        lm_double_free(page, p, function);
        return false;
    }
    if (state == LM_STATE_BROKEN || requested > lm_block_usable(page, p) - LM_TRAILER)
        return word_overwritten(page, p);
    size_t past = lm_fence_past(p, requested, end);
    if (past > 0) return fence_overwritten(page, p, requested, past);
    return intact_behind(page, p) && intact_before(page, p, requested);
}

#define FENCE_ANY_SIZE SIZE_MAX

/* Checks what a sized or aligned free says of p. Reports p if it is an object that was requested
 * with another size, or that is not at a multiple of align. If the user lets the program go on, the
 * free goes on as well: the object itself is sound. lm_free reports all other mistakes. */
static void fence_check_size(const void *p, size_t bytes, size_t align) {
    const lm_page_t *page = lm_page_of(p);
    size_t requested;
    bool sampled = page->kind == LM_KIND_SAMPLED;
    if (page->kind != LM_KIND_PAGE && page->kind != LM_KIND_LARGE && !sampled)
        return; /* lm_free reports it */
    if (sampled) {
        if (!lm_sampling_holds(p)) return;
    } else if (lm_is_offset(page)) {
        if (!lm_offset_is_object(page, p)) return;
    } else if (page->kind == LM_KIND_LARGE
                   ? p != lm_span_start(page)
                   : (size_t)((const char *)p - lm_span_start(page)) % page->block_bytes != 0) {
        return;
    }
    if (sampled)
        requested = page->bytes;
    else if (lm_word_get(block_end(page, p), &requested) != LM_STATE_USED)
        return;
    /* For an object at an offset, p plus the offset is aligned, not p. */
    bool aligned = lm_is_offset(page) || !lm_is_pow2(align) || (uintptr_t)p % align == 0;
    if ((requested == bytes || bytes == FENCE_ANY_SIZE) && aligned) return;
    lm_sites_about(p);
    if (!aligned)
        lm_wrong(LM_MISTAKE_WRONG_ALIGN,
                 "free of %p as one aligned to %zu B, which it is not (size class %zu B, ", p,
                 align, lm_block_bytes(page));
    else
        lm_wrong(LM_MISTAKE_WRONG_SIZE,
                 "free of %p with a size of %zu B, %zu requested (size class %zu B, ", p, bytes,
                 requested, lm_block_bytes(page));
}

/* ---- malloc and free ---- */

void *lm_malloc(size_t bytes) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    void *p = lm_block_alloc(bytes + LM_TRAILER);
    if (p == NULL) return NULL;
    /* Notes the size without the trailer. Aligned requests do not come here (resize.c). */
    lm_page_t *page = lm_page_of(p);
    if (page->kind == LM_KIND_SAMPLED) p = lm_sampled_place(page, p, bytes, 1);
    return lm_trailer_write_new(p, bytes);
}

void *lm_malloc_small(size_t bytes) {
    if (bytes <= LM_SMALL_MOST) return lm_malloc(bytes);
    lm_wrong(LM_WRONG_CALL, "%zu B asked for as a small object, which has %u B at most (", bytes,
             (unsigned)LM_SMALL_MOST);
    return lm_no_memory();
}

/* Marks p as freed, so that one of several threads that free p at one moment goes on. Returns
 * false, after the report of a double free, in all others. */
LM_READS_ANYTHING static bool fence_claim(const lm_page_t *page, const void *p) {
    const unsigned char *end = block_end(page, p);
    size_t requested;
    bool ours = lm_word_get(end, &requested) == LM_STATE_USED;
    if (ours) {
        uint64_t mask = mask_of(end);
        uint64_t used = word_for(end, requested, TAG_USED) ^ mask;
        lm_tools_pause();
        /* Relaxed: only the order of the threads on this word matters. */
        ours = lm_cas_relaxed(word_before(end), &used, word_for(end, requested, TAG_FREED) ^ mask);
        lm_tools_resume();
    }
    if (LM_LIKELY(ours)) return true;
    lm_sites_about(p);
    (void)lm_double_free(page, p, "free");
    return false;
}

void lm_free(void *p) {
    if (p == NULL) return;
    lm_page_t *page = lm_page_checked(p, "free");
    if (page == NULL) return;
    if (page->kind == LM_KIND_SAMPLED) {
        lm_block_free(p);
        return;
    }
    if (!fence_claim(page, p)) return;
    lm_sites_freed(p);
    lm_tools_freed(p);
    if (!lm_reuse_keep(page, p)) lm_block_free(p);
}

/* The block's last word is what its user wrote there, so it is set without a check. */
void lm_block_give_back(void *p) {
    const lm_page_t *page = lm_page_of(p);
    if (page->kind != LM_KIND_SAMPLED) /* which has no end word */
        lm_word_set(block_end(page, p), 0, LM_STATE_FREED);
    lm_block_free(p);
}

void lm_free_sized(void *p, size_t size) {
    fence_check_size(p, size, 1);
    lm_free(p);
}

void lm_free_aligned(void *p, size_t align) {
    fence_check_size(p, FENCE_ANY_SIZE, align);
    lm_free(p);
}

void lm_free_aligned_sized(void *p, size_t align, size_t size) {
    fence_check_size(p, size, align);
    lm_free(p);
}

#endif

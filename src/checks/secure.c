/* secure.c: malloc and free of the secure build (preset secure): what they check and what they
 * write.
 *
 *   malloc   quarantine.c, or pop ──> is all of it zero? ──> canary
 *                                        └ no: written after free, or a damaged list
 *   free     block's start? ──> canary? ──> slack zero? ──> wipe ──> quarantine.c ──> lm_block_free
 *               │ no               │ zero: double free; else overflow, or underflow of the next
 *               └──> checked.c
 *
 * For programs that run with data or code that they cannot trust: it costs 5 to 10 ns a call.
 * Blocks come zeroed, so calloc has nothing to clear. Objects at an offset have a canary, too;
 * secure_large.c has the large ones. It cannot see an overflow that jumps over the canary. It sees
 * an overflow only at the free or realloc of the block or of the one behind it (near.c). Objects of
 * 0 bytes have no block (zero.c). Blocks above EACH_WORD bytes are checked for writes after free at
 * both ends only, unless calloc takes them. Code that can read canaries can forge them.
 */
#include "checks/blame.h"
#include "checks/inner.h"

#if LM_SECURE

#include "checks/zeros.h"

#include <errno.h>
#include <string.h>

enum {
    SECURE_EACH_WORD = 1024, /* bytes of the largest block that malloc checks as a whole */
    SECURE_END = 128, /* bytes checked at the end of a larger block, besides 64 at its start */
};

LM_INLINE void set_trailer(void *p, size_t bytes, size_t slack) {
    LM_ASSERT(slack <= bytes - LM_TRAILER && slack < LM_SLACK_MASK >> LM_SLACK_SHIFT);
    LM_ASSERT(lm_load_relaxed(&lm_secret) != 0);
    *lm_last_word(p, bytes) = lm_canary_of(p) ^ (uint64_t)slack << LM_SLACK_SHIFT;
}

/* ---- Free blocks ---- */

LM_INLINE uint64_t second_word(const lm_block_t *block) {
    return ((const lm_word_t *)(const void *)block)[1];
}

/* Returns whether a free block is zero except for its link. */
LM_INLINE bool secure_is_zero(const lm_block_t *block, size_t bytes) {
    return second_word(block) == 0 &&
           (LM_UNLIKELY(bytes == 16) || lm_is_zero_from((const char *)block + 16, bytes - 16));
}

/* Returns whether both ends of a free block of at least END + 64 bytes are zero, except for its
 * link. */
LM_INLINE bool ends_zero(const lm_block_t *block, size_t bytes) {
    const char *p = (const char *)block;
    return second_word(block) == 0 &&
           lm_none_set(LM_PAIR(p + 16) | LM_PAIR(p + 32) | LM_PAIR(p + 48)) &&
           lm_none_set(lm_eight_pairs(p + bytes - SECURE_END));
}

LM_INLINE bool looks_zero(const lm_block_t *block, size_t bytes, bool all) {
    return LM_LIKELY(all || bytes <= SECURE_EACH_WORD) ? secure_is_zero(block, bytes)
                                                       : ends_zero(block, bytes);
}

/* ---- Malloc ---- */

/* Reports a write to a free block. Wipes the block, in case the program goes on. */
static LM_COLD void written_after_free(lm_block_t *block, size_t bytes, size_t from) {
    lm_written_after_free(lm_page_of(block), block, from);
    lm_wipe(block, bytes);
}

void lm_check_waited(lm_block_t *block, size_t bytes) {
    LM_ASSERT(bytes >= 16 && bytes % 16 == 0);
    if (LM_UNLIKELY(block->next != NULL) ||
        (bytes > SECURE_EACH_WORD && LM_UNLIKELY(!ends_zero(block, bytes))))
        written_after_free(block, bytes, 0);
}

/* Makes a block of `size` bytes an object of `bytes` bytes. all: all its words must be zero. */
LM_INLINE void *secure_begin(lm_block_t *block, size_t size, size_t bytes, bool all) {
    if (LM_UNLIKELY(!looks_zero(block, size, all))) written_after_free(block, size, sizeof *block);
    block->next = NULL;
    set_trailer(block, size, size - LM_TRAILER - bytes);
    return block;
}

/* Writes the trailer of what lm_block_alloc returned. moves: a sampled object is moved to end with
 * its page; an aligned one has been moved (resize.c). */
static void *begin_any(void *p, size_t bytes, bool all, bool moves) {
    lm_page_t *page = lm_page_of(p);
    if (page->kind == LM_KIND_PAGE && !lm_is_offset(page))
        return secure_begin((lm_block_t *)p, page->block_bytes, bytes, all);
    if (page->kind == LM_KIND_SAMPLED)
        p = memset(moves ? lm_sampled_place(page, p, bytes, 1) : p, 0, bytes);
    return lm_trailer_write(p, bytes);
}

void *lm_trailer_write_new(void *p, size_t bytes) {
    p = begin_any(p, bytes, false, false);
    lm_perturb_new(p, bytes);
    return p;
}

static LM_NOINLINE void *malloc_slow(size_t bytes, bool all) {
    if (LM_UNLIKELY(bytes > LM_REQUEST_MOST - LM_TRAILER)) return lm_too_large(bytes);
    if (bytes > LM_BLOCK_MOST - LM_TRAILER) return lm_large_alloc(bytes, 1, NULL);
    void *p = lm_block_alloc(bytes + LM_TRAILER);
    if (p == NULL) return NULL;
    p = begin_any(p, bytes, all, true);
    if (!all) lm_perturb_new(p, bytes);
    return p;
}

/* Returns the next block that has waited. Returns NULL iff it finds none, or some thread counts
 * allocations: then all blocks come from lists of pages. */
LM_INLINE lm_block_t *pop_waited(unsigned size_class, size_t bytes) {
    LM_ASSERT(size_class > 0 && size_class < LM_SMALL_CLASSES);
    lm_theap_t *heap = lm_heap_self;
    lm_quarantine_ring_t *later = &heap->quarantine.ring[size_class];
    size_t taken = later->taken;
    LM_ASSERT(later->ready - taken <= later->most);
    if (taken == later->ready || LM_UNLIKELY(bytes > lm_load_relaxed(&lm_slowpath_hook_limit)))
        return NULL;
    lm_block_t *block = *lm_quarantine_place(later, taken);
    /* Relaxed, both stores: only statistics read the numbers. */
    size_t *left = &heap->quarantine.left[size_class];
    if (LM_UNLIKELY(block == NULL)) lm_store_relaxed(left, *left + 1);
    lm_store_relaxed(&later->taken, taken + 1);
    return block;
}

LM_INLINE void *malloc_of(unsigned size_class, size_t size, size_t bytes, bool all) {
    LM_ASSERT(size == lm_class_bytes(size_class));
    lm_block_t *block = lm_block_pop(lm_heap_self, size_class);
    return LM_LIKELY(block != NULL) ? secure_begin(block, size, bytes, all)
                                    : malloc_slow(bytes, all);
}

LM_INLINE void *malloc_small(size_t bytes, bool all) {
    size_t size = (bytes + LM_TRAILER + 15) & ~(size_t)15;
    lm_block_t *block = pop_waited((unsigned)(size >> 4), bytes);
    if (LM_UNLIKELY(block == NULL)) return malloc_of((unsigned)(size >> 4), size, bytes, all);
    if (LM_UNLIKELY(block->next != NULL)) written_after_free(block, size, 0);
    return secure_begin(block, size, bytes, all);
}

/* Allocates an object. all: every word of its block must be zero. */
LM_INLINE void *malloc_here(size_t bytes, bool all) {
    if (LM_LIKELY(bytes <= LM_SMALL_MOST - LM_TRAILER)) return malloc_small(bytes, all);
    if (LM_LIKELY(bytes <= LM_BLOCK_MOST - LM_TRAILER)) {
        unsigned size_class = lm_class_medium(bytes + LM_TRAILER);
        return malloc_of(size_class, lm_class_bytes(size_class), bytes, all);
    }
    return malloc_slow(bytes, all);
}

/* Allocates an object of 0 bytes; an ordinary block where objects are sampled or the thread has
 * chosen a first-class heap. all: every word of its block must be zero. */
static LM_NOINLINE void *malloc_nothing(bool all) {
    bool any = lm_load_relaxed(&lm_sampling.rate) != 0 || lm_fheap_chosen() != NULL;
    void *p = any ? NULL : lm_zero_alloc();
    return p != NULL ? p : malloc_here(0, all);
}

static LM_NOINLINE void *malloc_other(size_t bytes) {
    return LM_LIKELY(bytes != 0) ? malloc_here(bytes, false) : malloc_nothing(false);
}

/* Serves small requests without a call as long as every check passes; otherwise it starts anew. */
void *lm_malloc(size_t bytes) {
    size_t size = (bytes + LM_TRAILER + 15) & ~(size_t)15;
    if (LM_UNLIKELY(bytes - 1 > LM_SMALL_MOST - LM_TRAILER - 1)) return malloc_other(bytes);
    lm_theap_t *heap = lm_heap_self;
    lm_quarantine_ring_t *later = &heap->quarantine.ring[size >> 4];
    size_t taken = later->taken;
    lm_block_t *block;
    if (LM_LIKELY(taken != later->ready) &&
        LM_LIKELY(bytes <= lm_load_relaxed(&lm_slowpath_hook_limit))) {
        block = *lm_quarantine_place(later, taken);
        if (LM_UNLIKELY(block == NULL)) return malloc_other(bytes);
        if (LM_UNLIKELY(!lm_is_zero_from(block, size))) return malloc_other(bytes);
        lm_store_relaxed(&later->taken, taken + 1);
    } else {
        block = heap->head[size >> 4];
        if (LM_UNLIKELY(block == NULL)) return malloc_slow(bytes, false);
        lm_block_t *next = lm_link_decoded(block);
        if (LM_UNLIKELY(!lm_link_leads(next)) && next != NULL) return malloc_other(bytes);
        if (LM_UNLIKELY(!secure_is_zero(block, size))) return malloc_other(bytes);
        heap->head[size >> 4] = next;
        block->next = NULL;
    }
    set_trailer(block, size, size - LM_TRAILER - bytes);
    return block;
}

void *lm_secure_calloc(size_t bytes) {
    if (LM_UNLIKELY(bytes == 0)) return malloc_nothing(true);
    if (LM_LIKELY(bytes <= LM_BLOCK_MOST - LM_TRAILER)) return malloc_here(bytes, true);
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    bool zero = false;
    void *p = lm_large_alloc(bytes, 1, &zero);
    return p == NULL || zero ? p : lm_clear_large(p, lm_page_of(p)->bytes);
}

void *lm_malloc_small(size_t bytes) {
    if (bytes <= LM_SMALL_MOST) return lm_malloc(bytes);
    lm_wrong(LM_WRONG_CALL, "%zu B asked for as a small object, which has %u B at most (", bytes,
             (unsigned)LM_SMALL_MOST);
    return lm_no_memory();
}

/* ---- Trailers ---- */

void *lm_trailer_write(void *p, size_t bytes) {
    lm_page_t *page = lm_page_of(p);
    if (page->kind == LM_KIND_SAMPLED) lm_sampled_note_size(page, p, bytes);
    if (page->kind != LM_KIND_PAGE) return p;
    size_t room = lm_block_usable(page, p), most = room - LM_TRAILER;
    LM_ASSERT(bytes <= most);
    memset((char *)p + bytes, 0, most - bytes);
    set_trailer(p, room, most - bytes);
    return p;
}

/* ---- Free ---- */

/* Reports a free with a wrong size. The caller goes on to free p, if the user lets the program go
 * on: the object itself is sound. */
static LM_COLD void of_other_size(const lm_page_t *page, const void *p, size_t size,
                                  size_t requested) {
    lm_wrong(LM_MISTAKE_WRONG_SIZE,
             "free of %p with a size of %zu B, %zu requested (size class %zu B, ", p, size,
             requested, lm_block_bytes(page));
}

#define SECURE_ANY_SIZE SIZE_MAX

/* Returns whether `size` is not the size that p was requested with. A large object of 0 bytes has a
 * requested size of 1. */
static bool is_other_size(const lm_page_t *page, size_t requested, size_t size) {
    return size != requested && (page->kind != LM_KIND_LARGE || size != 0 || requested != 1);
}

/* Marks another thread's block, so that one of several threads that free it at one moment goes on.
 * Returns false, after the report of a double free, in the others. The mark is not zero: a thread
 * that frees the block behind would take a zero for a free block that was written to. A block of
 * the calling thread's own page is not marked, because that would cost every free. */
static LM_NOINLINE bool secure_claim(const lm_page_t *page, void *p) {
    uint64_t *last = (uint64_t *)(void *)lm_last_word(p, page->block_bytes);
    uint64_t word = lm_load_relaxed(last);
    /* Relaxed, both: only the order of the threads on this word matters. */
    if (LM_LIKELY(word != 0 && !lm_is_claimed(p, word)) &&
        LM_LIKELY(lm_cas_relaxed(last, &word, lm_canary_of(p) ^ LM_CLAIMED)))
        return true;
    (void)lm_double_free(page, p, "free");
    return false;
}

/* Returns whether the page is not the calling thread's. Peeks: the owner may end this moment, and
 * then the page is another thread's or no thread's. */
LM_INLINE bool is_others(const lm_page_t *page) {
    return LM_UNLIKELY(lm_peek(&page->owner) != lm_thread_token());
}

static void secure_check_size(const lm_page_t *page, const void *p, size_t size, size_t requested) {
    if (size != SECURE_ANY_SIZE && is_other_size(page, requested, size))
        of_other_size(page, p, size, requested);
}

/* Frees an object at an offset. Claims it first: another thread's free of p may be the last of its
 * page, which ends then. */
static void free_at_offset(lm_page_t *page, void *p, size_t size) {
    if (!lm_offset_claim(page, p)) return;
    bool large = page->kind == LM_KIND_LARGE;
    if (!(large ? lm_large_intact(page, "free") : lm_intact(page, p, "free")) ||
        !lm_offset_before_intact(page, p)) {
        lm_offset_unclaim(page, p);
        return;
    }
    size_t requested = lm_requested(page, p);
    secure_check_size(page, p, size, requested);
    lm_offset_end(page, p);
}

/* Frees what is no block of a page, or damaged, or in memory of the user. The size is read before p
 * is marked as claimed, and reported after that: by one of several threads. */
static LM_NOINLINE void secure_free_other(void *p, size_t size) {
    if (p == NULL) return;
    lm_page_t *page = lm_page_of(p);
    if (lm_is_offset(page)) {
        free_at_offset(page, p, size);
        return;
    }
    page = lm_page_checked(p, "free");
    if (page == NULL) return;
    size_t requested = lm_requested(page, p);
    bool block = page->kind == LM_KIND_PAGE; /* a free of the zero descriptor may change the kind */
    if (block && is_others(page) && !secure_claim(page, p)) return;
    secure_check_size(page, p, size, requested);
    if (page == &lm_zero_descriptor) {
        lm_zero_free(p);
    } else {
        if (block) lm_wipe(p, page->block_bytes);
        lm_block_free(p);
    }
}

/* Returns whether a block begins at p. Spans other than pages have no carved blocks, and objects at
 * an offset do not begin where a block does. */
LM_INLINE bool begins_block(const lm_page_t *page, const void *p) {
    uint32_t at = (uint32_t)((const char *)p - lm_span_start(page));
    return lm_block_index(page, at) < lm_peek(&page->carved);
}

/* Puts a freed and wiped block into the quarantine. small: its class is small. */
LM_INLINE void secure_set_aside(const lm_page_t *page, void *p, bool small) {
    LM_ASSERT(!small || page->block_bytes <= LM_SMALL_MOST);
    unsigned size_class = lm_load_relaxed(&page->foreign_class);
    if (LM_UNLIKELY(!lm_quarantine_put(lm_heap_self,
                                       small ? size_class : lm_quarantine_ring(size_class), p)))
        lm_quarantine_put_slow(page, p);
}

/* Returns the page of p, a block in use whose slack may be damaged. Returns NULL iff p is no such
 * block or its canary is damaged. Whether a block begins at p is tested only if a block at p could
 * leave the slice or reach into a guard: no other address has a canary that matches it. */
LM_INLINE const lm_page_t *page_in_use(const void *p, size_t *slack) {
    size_t slice = lm_slice_of(p);
    if (LM_UNLIKELY(slice >= lm_peek(&lm_arena.slices))) return NULL;
    const lm_page_t *page = lm_peek(&lm_arena.map[slice]);
    size_t bytes = page->block_bytes; /* 0 for other spans */
    size_t in_slice = (uintptr_t)p & (LM_SLICE_BYTES - 1);
    if (LM_UNLIKELY(in_slice + (uint32_t)(bytes - 1) >= LM_SLICE_BYTES - LM_MARK_BYTES) &&
        !begins_block(page, p))
        return NULL;
    return LM_LIKELY(lm_has_canary(p, bytes, slack)) ? page : NULL;
}

static LM_NOINLINE void free_unlike(void *p, size_t size) {
    size_t slice = lm_slice_of(p);
    const lm_page_t *page =
        slice < lm_peek(&lm_arena.slices) ? lm_peek(&lm_arena.map[slice]) : NULL;
    if (page != NULL && begins_block(page, p))
        (void)lm_secure_damaged(page, p, "free");
    else
        secure_free_other(p, size);
}

/* Reports damage before p, a block of that page, not its first. If the block before p is in use,
 * its canary is checked; if it is free, its last 32 bytes must be zero. Other threads may change it
 * meanwhile: near.c looks again before it reports. */
LM_INLINE void check_before(const lm_page_t *page, const void *p) {
    size_t bytes = page->block_bytes;
    uint64_t last = *lm_last_word(p, 0);
    if (last != 0) {
        if (LM_UNLIKELY(!lm_before_is_canary(p, bytes, last))) lm_before_damaged(page, p);
    } else if (bytes <= 32) {
        lm_before_links(page, p);
    } else if (LM_UNLIKELY(
                   !lm_none_set(LM_PAIR((const char *)p - 32) | LM_PAIR((const char *)p - 16)))) {
        lm_before_damaged(page, p);
    }
}

static LM_NOINLINE void free_longer(void *p, size_t size) {
    size_t slack;
    const lm_page_t *page = page_in_use(p, &slack);
    if (LM_UNLIKELY(page == NULL) || LM_UNLIKELY(!lm_slack_is_zero(p, page->block_bytes, slack))) {
        free_unlike(p, size);
        return;
    }
    size_t bytes = page->block_bytes;
    size_t requested = bytes - LM_TRAILER - slack;
    if (size != SECURE_ANY_SIZE && LM_UNLIKELY(size != requested))
        of_other_size(page, p, size, requested);
    if (p != lm_span_start(page)) check_before(page, p);
    if (is_others(page) && LM_UNLIKELY(!secure_claim(page, p))) return;
    lm_wipe(p, bytes);
    secure_set_aside(page, p, false);
}

/* Returns the page of p, a small block in use with a slack of at most 15 bytes, as malloc leaves.
 * Returns NULL iff p is no such block. all: the slack must be zero. Does not test where blocks
 * begin: no other address has a canary that matches it. All bytes that are read lie in one slice
 * and in no guard. */
LM_INLINE const lm_page_t *short_page(const void *p, size_t *slack, bool all) {
    size_t slice = lm_slice_of(p);
    if (LM_UNLIKELY(slice >= lm_peek(&lm_arena.slices))) return NULL;
    const lm_page_t *page = lm_peek(&lm_arena.map[slice]);
    size_t bytes = page->block_bytes; /* 0 for other spans */
    if (LM_UNLIKELY(bytes - 16 > LM_SMALL_MOST - 16) ||
        LM_UNLIKELY((((uintptr_t)p - 16) & (LM_SLICE_BYTES - 1)) >
                    LM_SLICE_BYTES - LM_MARK_BYTES - 16 - LM_SMALL_MOST))
        return NULL;
    uint64_t odd = *lm_last_word(p, bytes) ^ lm_canary_of(p);
    *slack = odd >> LM_SLACK_SHIFT;
    return LM_LIKELY((odd & ~((uint64_t)15 << LM_SLACK_SHIFT)) == 0) &&
                   LM_LIKELY(!all || lm_short_slack_is_zero(p, bytes, *slack))
               ? page
               : NULL;
}

static LM_NOINLINE size_t usable_size_longer(const void *p) {
    size_t slack;
    const lm_page_t *page = page_in_use(p, &slack);
    return LM_LIKELY(page != NULL) ? page->block_bytes - LM_TRAILER - slack
                                   : lm_usable_size_of_any(p);
}

/* Has a short path, because some programs call it at each malloc and each free. */
size_t lm_usable_size(const void *p) {
    size_t slack;
    const lm_page_t *page = short_page(p, &slack, false);
    return LM_LIKELY(page != NULL) ? page->block_bytes - LM_TRAILER - slack : usable_size_longer(p);
}

/* Frees an intact small block of more than LM_ZEROS_EIGHT bytes. */
static LM_NOINLINE void free_medium(const lm_page_t *page, void *p) {
    memset(p, 0, page->block_bytes);
    secure_set_aside(page, p, true);
}

/* Frees a small block in use without a call, as lm_malloc allocates one; any other p starts
 * anew. */
LM_INLINE void free_short(void *p, size_t size) {
    size_t slack;
    const lm_page_t *page = short_page(p, &slack, true);
    if (LM_UNLIKELY(page == NULL) ||
        (size != SECURE_ANY_SIZE && LM_UNLIKELY(size != page->block_bytes - LM_TRAILER - slack))) {
        free_longer(p, size);
        return;
    }
    check_before(page, p);
    if (is_others(page) && LM_UNLIKELY(!secure_claim(page, p))) return;
    if (LM_UNLIKELY(page->block_bytes > LM_ZEROS_EIGHT)) {
        free_medium(page, p);
        return;
    }
    lm_wipe_short(p, page->block_bytes);
    secure_set_aside(page, p, true);
}

void lm_free(void *p) { free_short(p, SECURE_ANY_SIZE); }

void lm_free_sized(void *p, size_t size) {
    if (LM_LIKELY(size <= LM_REQUEST_MOST))
        free_short(p, size);
    else
        secure_free_other(p, LM_REQUEST_MOST);
}

void lm_free_aligned(void *p, size_t align) {
    if (LM_LIKELY(((uintptr_t)p & (align - 1)) == 0)) {
        lm_free(p);
        return;
    }
    lm_page_t *page = lm_page_checked(p, "free");
    if (page == NULL) return;
    if (!lm_is_offset(page)) /* an object at an offset is aligned elsewhere inside */
        lm_wrong(LM_MISTAKE_WRONG_ALIGN,
                 "free of %p as one aligned to %zu B, which it is not (size class %zu B, ", p,
                 align, lm_block_bytes(page));
    lm_free(p);
}

void lm_free_aligned_sized(void *p, size_t align, size_t size) {
    if (LM_LIKELY(((uintptr_t)p & (align - 1)) == 0) || lm_is_offset(lm_page_of(p)))
        lm_free_sized(p, size);
    else
        lm_free_aligned(p, align);
}

void lm_block_give_back(void *p) {
    const lm_page_t *page = lm_page_of(p);
    if (page->kind == LM_KIND_PAGE && !lm_is_offset(page)) lm_wipe(p, page->block_bytes);
    lm_block_free(p);
}

/* ---- Realloc ---- */

/* Resizes an object of `have` bytes in a block of `size` bytes to `bytes`, in place. */
LM_INLINE void *fit_short(void *p, size_t size, size_t have, size_t bytes) {
    if (bytes < have) memset((char *)p + bytes, 0, have - bytes);
    set_trailer(p, size, size - LM_TRAILER - bytes);
    return p;
}

bool lm_realloc_short(void *p, size_t bytes, void **there) {
    size_t slack, padded = bytes + LM_TRAILER;
    const lm_page_t *page = short_page(p, &slack, true);
    if (LM_UNLIKELY(page == NULL) || bytes > LM_SMALL_MOST - LM_TRAILER) return false;
    size_t size = page->block_bytes, have = size - LM_TRAILER - slack;
    /* The policy of resize.c. */
    if (lm_worth_staying(size, padded) || (padded <= size && bytes >= have)) {
        *there = fit_short(p, size, have, bytes);
        return true;
    }
    bool fits = padded <= size;
    int error = fits ? errno : 0;
    size_t roomy = lm_with_spare(have, bytes);
    void *other = lm_malloc(roomy);
    if (LM_UNLIKELY(other == NULL)) {
        if (fits) errno = error; /* the object was to shrink, so the larger block serves */
        *there = fits ? fit_short(p, size, have, bytes) : NULL;
        return true;
    }
    /* Relaxed: the rate stands alone. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_sampling.rate) != 0) && roomy != bytes)
        other = lm_sampled_resized(other, bytes);
    memcpy(other, p, have < bytes ? have : bytes);
    check_before(page, p);
    if (LM_LIKELY(!is_others(page)) || secure_claim(page, p)) {
        lm_wipe(p, size);
        secure_set_aside(page, p, true);
    }
    *there = roomy == bytes ? other : lm_trailer_write(other, bytes);
    return true;
}

#endif

/* resize.c: what builds on malloc and free: realloc, calloc, aligned allocation, sizes.
 *
 * Aligned objects are ordinary blocks of a class whose size is a multiple of the alignment (pages
 * start at multiples of 64 KiB), or spans: nothing is allocated beyond what the class gives, and
 * free needs no second look. Objects at an offset are in offset.c. calloc does not clear memory
 * that has never been used. zalloc clears all that may be used, so that recalloc finds zeroes
 * beyond what was asked for without knowing what that was.
 */
#include "heap/core.h"

#include <errno.h>
#include <string.h>

#if !LM_SECURE /* secure.c */
size_t lm_usable_size(const void *p) { return lm_usable_size_of_any(p); }
#endif

#if LOAM_METER
size_t lm_meter_bytes(const void *p) {
    const lm_page_t *page = lm_page_of(p);
    bool block = page->kind == LM_KIND_PAGE;
    bool large = page->kind == LM_KIND_LARGE && (lm_is_offset(page) || p == lm_span_start(page));
    bool sampled = page->kind == LM_KIND_SAMPLED;
    return block || large || sampled ? lm_block_room(page, p) - LM_TRAILER : 0;
}
#endif

size_t lm_good_size(size_t bytes) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return bytes;
    bytes += LM_TRAILER;
    if (bytes <= LM_BLOCK_MOST)
        return lm_class_bytes(lm_class_of(bytes == 0 ? 1 : bytes)) - LM_TRAILER;
    return lm_align_up(lm_large_need(bytes), 4096) - LM_TRAILER_LARGE;
}

#if !LM_SECURE /* whose blocks are zero as they are */
static LM_NOINLINE void *cleared_slow(size_t bytes, bool all) {
    void *p = lm_block_alloc(bytes + LM_TRAILER);
    if (LM_UNLIKELY(p == NULL)) return NULL;
    lm_page_t *page = lm_page_of(p);
    if (LM_TRAILER > 0 && page->kind == LM_KIND_SAMPLED) p = lm_sampled_place(page, p, bytes, 1);
    size_t most =
        LM_TRAILER > 0 || !all ? bytes : page->block_bytes; /* a sampled object has it, too */
    if (lm_page_virgin(lm_heap_self, page)) most = sizeof(lm_block_t);
    return lm_mark(memset(p, 0, most), bytes);
}

/* The first block of the list, where there is one. */
LM_INLINE void *cleared(size_t size_class, size_t bytes, bool all) {
    lm_heap_t *heap = lm_heap_self;
    lm_block_t *block = LM_TRAILER == 0 ? lm_block_pop(heap, size_class) : NULL;
    if (LM_UNLIKELY(block == NULL)) return cleared_slow(bytes, all);
    unsigned holds = heap->holds[size_class];
    if (holds == LM_HOLDS_ZERO) {
        block->next = NULL;
        return block;
    }
    if (all) bytes = lm_class_bytes((unsigned)size_class);
    if (all && LM_UNLIKELY(holds == LM_HOLDS_OTHERS)) bytes = lm_page_of(block)->block_bytes;
    return memset(block, 0, bytes);
}

/* Apart, so that blocks do not save registers for it. */
static LM_NOINLINE void *large_cleared(size_t bytes, bool all) {
    bool zero = false;
    void *p = lm_large_alloc(bytes + LM_TRAILER, 1, &zero);
    if (p == NULL) return NULL;
    if (!zero) lm_clear_large(p, lm_to_clear(lm_page_of(p), p, bytes, all));
    return lm_mark(p, bytes);
}

LM_INLINE void *alloc_cleared(size_t bytes, bool all) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    size_t whole = bytes + LM_TRAILER;
    if (whole > LM_BLOCK_MOST) return large_cleared(bytes, all);
    if (whole <= LM_SMALL_MOST) return cleared((whole + 15) >> 4, bytes, all);
    return cleared(lm_class_medium(whole), bytes, all);
}

#else
LM_INLINE void *alloc_cleared(size_t bytes, bool all) {
    (void)all;
    return lm_secure_calloc(bytes);
}
#endif

void *lm_calloc(size_t bytes) { return alloc_cleared(bytes, false); }

void *lm_zalloc(size_t bytes) { return alloc_cleared(bytes, true); }

void *lm_zalloc_small(size_t bytes) {
#if LM_GUARD_LINKS
    return bytes <= LM_SMALL_MOST ? lm_zalloc(bytes) : lm_malloc_small(bytes); /* which reports */
#else
    return cleared((bytes + 15) >> 4, bytes, true);
#endif
}

#if LM_GUARD_LINKS
void *lm_block_alloc_aligned(size_t bytes, size_t align) {
    if (bytes > LM_REQUEST_MOST || align > LM_REQUEST_MOST - bytes)
        return lm_too_large_at(bytes, align);
    unsigned size_class = align <= LM_BLOCK_MOST ? lm_class_aligned(bytes, align) : 0;
    if (size_class == 0) return lm_large_alloc(bytes, align, NULL);
    return lm_block_alloc(lm_class_bytes(size_class));
}
#endif

/* A sampled object has the size that was asked for, not that of its class. */
static LM_NOINLINE void *alloc_aligned_sampled(size_t whole, size_t bytes, size_t align) {
    void *p = lm_block_alloc(whole);
    lm_page_t *page = p != NULL ? lm_page_of(p) : NULL;
    bool sampled = page != NULL && page->kind == LM_KIND_SAMPLED;
    return sampled ? lm_sampled_place(page, p, bytes, align) : p;
}

static LM_NOINLINE void *alloc_aligned_slow(unsigned size_class, size_t bytes, size_t align) {
    size_t whole = lm_class_bytes(size_class);
    /* Relaxed: a word by itself. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_sampling.rate) != 0))
        return alloc_aligned_sampled(whole, bytes, align);
    return lm_block_alloc(whole);
}

/* Not marked yet; *zero as for lm_large_alloc. */
LM_INLINE void *alloc_aligned(size_t bytes, size_t align, bool *zero) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER || align > LM_REQUEST_MOST - bytes)
        return lm_too_large_at(bytes, align);
    size_t whole = bytes + LM_TRAILER;
    unsigned size_class = align <= LM_BLOCK_MOST ? lm_class_aligned(whole, align) : 0;
    if (size_class == 0) return lm_large_alloc(lm_large_need(whole), align, zero);
    if (zero != NULL) *zero = false;
    void *block = lm_block_pop(lm_heap_self, size_class);
    return LM_LIKELY(block != NULL) ? lm_taken(block)
                                    : alloc_aligned_slow(size_class, bytes, align);
}

void *lm_malloc_aligned(size_t bytes, size_t align) {
    void *p = alloc_aligned(bytes, align, NULL);
    return p != NULL ? lm_mark_new(p, bytes) : NULL;
}

void *lm_malloc_aligned_offset(size_t bytes, size_t align, size_t offset) {
    if (LM_LIKELY(offset % align == 0)) return lm_malloc_aligned(bytes, align);
    void *p = lm_offset_alloc(bytes, align, offset, NULL);
    if (p == NULL) return NULL;
    lm_perturb_new(p, bytes);
    return lm_mark(p, bytes);
}

void *lm_zalloc_aligned_offset(size_t bytes, size_t align, size_t offset) {
    bool zero = false;
    void *p = offset % align == 0 ? alloc_aligned(bytes, align, &zero)
                                  : lm_offset_alloc(bytes, align, offset, &zero);
    if (p == NULL) return NULL;
    if (!zero) lm_clear_large(p, lm_to_clear(lm_page_of(p), p, bytes, true));
    return lm_mark(p, bytes);
}

static void *realloc_aligned(void *p, size_t bytes, size_t align, size_t offset,
                             struct loam_heap *into, size_t *fresh);

/* Whether the block p becomes one of so many bytes where it is. With a trailer it is known what was
 * requested: a block that grows within its class stays in any case, or what realloc leaves to grow
 * into would be lost. */
static bool stays(const lm_page_t *page, const void *p, size_t bytes) {
    size_t have = page->block_bytes, whole = bytes + LM_TRAILER;
    return page->kind == LM_KIND_PAGE &&
           (lm_worth_staying(have, whole) ||
            (LM_TRAILER > 0 && whole <= have && bytes >= lm_requested(page, p))) &&
           LM_LIKELY(!lm_is_offset(page));
}

/* Marks an object that stays. Only checked builds look at sampled objects in lm_mark. */
static void *mark_here(lm_page_t *page, void *p, size_t bytes) {
    if (LM_TRAILER == 0 && page->kind == LM_KIND_SAMPLED) lm_sampled_shrink(page, bytes);
    return lm_mark(p, bytes);
}

/* A large object of `have` bytes has become one of `bytes`.
 * fresh: NULL iff no caller clears the rest. */
static void *grown(void *p, size_t have, size_t bytes, const size_t *fresh) {
    if (fresh == NULL && bytes > have) lm_perturb_new((char *)p + have, bytes - have);
    return lm_mark(p, bytes);
}

/* into: where a copy goes; NULL: wherever the thread's malloc allocates. fresh: as for
 * lm_large_resize_fresh. */
LM_INLINE void *resize(lm_page_t *page, void *p, size_t bytes, struct loam_heap *into,
                       size_t *fresh) {
    if (LM_UNLIKELY(lm_is_offset(page)) && into == NULL)
        return realloc_aligned(p, bytes, 1, 0, NULL, fresh);
    size_t have = lm_requested(page, p), whole = bytes + LM_TRAILER;
    if (page->kind == LM_KIND_LARGE && whole > LM_BLOCK_MOST && !lm_is_offset(page)) {
        size_t need = lm_large_need(whole);
        /* Moved by pages it would stay its heap's. Relaxed: an object in use changes it only while
         * its heap ends. */
        bool moves = lm_load_relaxed(&page->whole) == (into != NULL ? into : lm_whole_chosen());
        void *there = moves ? lm_large_resize_fresh(page, p, need, fresh) : NULL;
        if (there != NULL) return grown(there, have, bytes, fresh);
        if (!moves && lm_large_fit(page, need, fresh)) return grown(p, have, bytes, fresh);
    }
    bool fits = whole <= lm_block_room(page, p), zeroed = fresh != NULL && whole > LM_BLOCK_MOST;
    int error = fits ? errno : 0;
    size_t roomy = lm_with_room(have, bytes);
    void *other;
    if (into == NULL)
        other = zeroed ? lm_zalloc(bytes) : lm_malloc(roomy);
    else
        other = zeroed ? lm_whole_calloc(into, bytes) : lm_whole_malloc(into, roomy);
    if (other == NULL && fits) {
        errno = error; /* it was to shrink: too large will do */
        if (page->kind == LM_KIND_LARGE && !lm_is_offset(page))
            (void)lm_large_fit(page, lm_large_need(whole), fresh);
        return mark_here(page, p, bytes);
    }
    if (other == NULL) return NULL;
    if (zeroed) *fresh = 0;
    /* Relaxed: a word by itself. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_sampling.rate) != 0) && roomy != bytes)
        other = lm_sampled_resized(other, bytes);
    memcpy(other, p, have < bytes ? have : bytes);
    lm_free(p);
    return lm_mark(other, bytes);
}

static LM_NOINLINE void *resize_anywhere(lm_page_t *page, void *p, size_t bytes) {
    return resize(page, p, bytes, NULL, NULL);
}

/* A block that stays where it is. Where nothing is kept behind an object, all of its block is
 * filled from the beginning. */
LM_INLINE void *lengthened(const lm_page_t *page, void *p, size_t bytes) {
    if (LM_TRAILER == 0 || !lm_perturbs()) return lm_mark(p, bytes);
    return grown(p, lm_requested(page, p), bytes, NULL);
}

void *lm_realloc(void *p, size_t bytes) {
#if LM_SECURE
    void *there;
    if (LM_LIKELY(lm_realloc_short(p, bytes, &there))) return there;
#endif
    lm_page_t *page = lm_page_checked(p, "realloc");
    if (page == NULL) return lm_no_memory();
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    if (stays(page, p, bytes)) return lengthened(page, p, bytes);
    return resize_anywhere(page, p, bytes);
}

void *lm_whole_realloc(struct loam_heap *whole, void *p, size_t bytes) {
    lm_page_t *page = lm_page_checked(p, "realloc");
    if (page == NULL) return lm_no_memory();
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    if (LM_GUARD_LINKS && !lm_whole_serves(whole)) return NULL;
    if (stays(page, p, bytes)) return lm_mark(p, bytes);
    /* Or it would move into malloc. */
    return LM_LIKELY(lm_whole_serves(whole)) ? resize(page, p, bytes, whole, NULL) : NULL;
}

/* ---- Where it must be aligned, zeroed or stay ---- */

static bool fit(lm_page_t *page, const void *p, size_t whole, size_t *fresh) {
    size_t room = lm_block_room(page, p), before = lm_block_bytes(page) - room;
    if (page->kind == LM_KIND_META) return whole == LM_TRAILER; /* of 0 bytes (zero.c) */
    if (page->kind == LM_KIND_SAMPLED) return lm_sampled_shrink(page, whole - LM_TRAILER);
    if (page->kind != LM_KIND_LARGE) return whole <= room;
    whole = lm_large_need(whole);
    if (!lm_large_fit(page, (whole == 0 ? 1 : whole) + before, fresh)) return false;
    if (fresh != NULL && *fresh != SIZE_MAX) *fresh -= before;
    return true;
}

/* realloc moves large objects in a tool's build, so that the tool sees who uses the old place; this
 * does not. */
static bool expands(lm_page_t *page, const void *p, size_t whole) {
#if LM_TOOLS
    if (page->kind == LM_KIND_LARGE) {
        size_t before = lm_block_bytes(page) - lm_block_room(page, p);
        return lm_large_expand(page, p, lm_large_need(whole) + before);
    }
#endif
    return fit(page, p, whole, NULL);
}

bool lm_expand(void *p, size_t bytes) {
    lm_page_t *page = lm_page_checked(p, "expand");
    bool too_large = bytes > LM_REQUEST_MOST - LM_TRAILER;
    if (page == NULL || too_large || !expands(page, p, bytes + LM_TRAILER)) {
        if (page != NULL && too_large) lm_refused(bytes, true);
        (void)lm_no_memory();
        return false;
    }
    (void)lm_mark(p, bytes);
    return true;
}

static void *realloc_aligned(void *p, size_t bytes, size_t align, size_t offset,
                             struct loam_heap *into, size_t *fresh) {
    lm_page_t *page = lm_page_checked(p, "realloc");
    if (page == NULL) return lm_no_memory();
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large_at(bytes, align);
    size_t have = lm_requested(page, p), whole = bytes + LM_TRAILER;
    bool large = whole > LM_BLOCK_MOST, right = ((uintptr_t)p + offset) % align == 0;
    /* Every large object is aligned to a slice: it may move by pages. */
    if (large && offset % align == 0 && align <= LM_SLICE_BYTES && !lm_is_offset(page))
        return resize(page, p, bytes, into, fresh);
    if (right && page->kind != LM_KIND_SAMPLED &&
        (page->kind == LM_KIND_LARGE ? large : lm_worth_staying(lm_block_room(page, p), whole))) {
        if (fit(page, p, whole, fresh)) return lm_mark(p, bytes);
    }
    bool zeroed = fresh != NULL && large;
    int error = errno;
    void *other;
    if (into == NULL)
        other = zeroed ? lm_zalloc_aligned_offset(bytes, align, offset)
                       : lm_malloc_aligned_offset(bytes, align, offset);
    else
        other = zeroed ? lm_whole_zalloc_aligned(into, bytes, align)
                       : lm_whole_malloc_aligned(into, bytes, align);
    if (other == NULL && right && whole <= lm_block_room(page, p)) {
        errno = error; /* as in resize */
        if (page->kind == LM_KIND_LARGE) (void)fit(page, p, whole, fresh);
        return mark_here(page, p, bytes);
    }
    if (other == NULL) return NULL;
    if (zeroed) *fresh = 0;
    memcpy(other, p, have < bytes ? have : bytes);
    lm_free(p);
    return other;
}

void *lm_realloc_aligned_offset(void *p, size_t bytes, size_t align, size_t offset) {
    return realloc_aligned(p, bytes, align, offset, NULL, NULL);
}

void *lm_whole_realloc_aligned(struct loam_heap *whole, void *p, size_t bytes, size_t align) {
    return lm_whole_serves(whole) ? realloc_aligned(p, bytes, align, 0, whole, NULL) : NULL;
}

/* Of any alignment. */
static void *realloc_fresh(lm_page_t *page, void *p, size_t bytes, struct loam_heap *into,
                           size_t *fresh) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    return stays(page, p, bytes) ? lm_mark(p, bytes) : resize(page, p, bytes, into, fresh);
}

static void *recalloc(void *p, size_t bytes, size_t align, size_t offset, struct loam_heap *into) {
    lm_page_t *page = lm_page_checked(p, "recalloc");
    if (page == NULL) return lm_no_memory();
    size_t have = lm_requested(page, p), kept = have < bytes ? have : bytes, fresh = SIZE_MAX;
    char *there = (char *)(align == 1 ? realloc_fresh(page, p, bytes, into, &fresh)
                                      : realloc_aligned(p, bytes, align, offset, into, &fresh));
    if (there == NULL) return NULL;
    /* Also what is left behind by shrinking: it may be grown into again. Not what is zero as it
     * is. */
    size_t now = lm_requested(lm_page_of(there), there), end = now < fresh ? now : fresh;
    if (end > kept) lm_clear_large(there + kept, end - kept);
    return there;
}

void *lm_recalloc(void *p, size_t bytes, size_t align, size_t offset) {
    return recalloc(p, bytes, align, offset, NULL);
}

void *lm_whole_recalloc(struct loam_heap *whole, void *p, size_t bytes, size_t align) {
    return lm_whole_serves(whole) ? recalloc(p, bytes, align, 0, whole) : NULL;
}

/* resize.c: functions that build on malloc and free: realloc, calloc, aligned allocation, sizes.
 *
 * An aligned object is an ordinary block of a class whose size is a multiple of the alignment, as
 * pages start at multiples of 64 KiB; or it is a span. So alignment takes no memory beyond the
 * class's block, and free needs no second look. Objects at an offset are in offset.c. calloc does
 * not clear memory that has never been used. zalloc clears all usable bytes, so that recalloc finds
 * zeros beyond the requested bytes without knowing their number.
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
    return block || large || sampled ? lm_block_usable(page, p) - LM_TRAILER : 0;
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
/* Allocates `bytes` zero bytes, or a block that is zero up to its usable size if `all`, where the
 * list of the class is empty or the build has trailers. */
static LM_NOINLINE void *cleared_slow(size_t bytes, bool all) {
    void *p = lm_block_alloc(bytes + LM_TRAILER);
    if (LM_UNLIKELY(p == NULL)) return NULL;
    lm_page_t *page = lm_page_of(p);
    LM_ASSERT(page->kind == LM_KIND_PAGE || page->kind == LM_KIND_SAMPLED);
    LM_ASSERT(page->kind != LM_KIND_PAGE || bytes + LM_TRAILER <= page->block_bytes);
    if (LM_TRAILER > 0 && page->kind == LM_KIND_SAMPLED) p = lm_sampled_place(page, p, bytes, 1);
    /* block_bytes is also the usable size of a sampled object. */
    size_t most = LM_TRAILER > 0 || !all ? bytes : page->block_bytes;
    if (lm_page_never_used(lm_heap_self, page)) most = sizeof(lm_block_t);
    return lm_trailer_write(memset(p, 0, most), bytes);
}

/* Returns a block of that class with `bytes` zero bytes; if `all`, all usable bytes are zero.
 * Returns NULL with errno ENOMEM iff there is no memory. */
LM_INLINE void *cleared(size_t size_class, size_t bytes, bool all) {
    lm_theap_t *heap = lm_heap_self;
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

/* Returns a large object with `bytes` zero bytes; if `all`, all usable bytes are zero. Not inline,
 * so that the code for blocks saves no registers for it. */
static LM_NOINLINE void *large_cleared(size_t bytes, bool all) {
    bool zero = false;
    void *p = lm_large_alloc(bytes + LM_TRAILER, 1, &zero);
    if (p == NULL) return NULL;
    LM_ASSERT(lm_page_of(p)->kind == LM_KIND_LARGE && lm_page_of(p)->bytes >= bytes);
    if (!zero) lm_clear_large(p, lm_to_clear(lm_page_of(p), p, bytes, all));
    return lm_trailer_write(p, bytes);
}

LM_INLINE void *alloc_cleared(size_t bytes, bool all) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    size_t padded = bytes + LM_TRAILER;
    if (padded > LM_BLOCK_MOST) return large_cleared(bytes, all);
    if (padded <= LM_SMALL_MOST) return cleared((padded + 15) >> 4, bytes, all);
    return cleared(lm_class_medium(padded), bytes, all);
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
    /* lm_malloc_small reports a size that is not small. */
    return bytes <= LM_SMALL_MOST ? lm_zalloc(bytes) : lm_malloc_small(bytes);
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
    LM_ASSERT(lm_class_bytes(size_class) >= bytes);
    LM_ASSERT((lm_class_bytes(size_class) & (align - 1)) == 0);
    return lm_block_alloc(lm_class_bytes(size_class));
}
#endif

/* Allocates a block of `padded` bytes. If it is a sampled object, gives it the requested size in
 * place of its class's. */
static LM_NOINLINE void *alloc_aligned_sampled(size_t padded, size_t bytes, size_t align) {
    void *p = lm_block_alloc(padded);
    lm_page_t *page = p != NULL ? lm_page_of(p) : NULL;
    bool sampled = page != NULL && page->kind == LM_KIND_SAMPLED;
    return sampled ? lm_sampled_place(page, p, bytes, align) : p;
}

static LM_NOINLINE void *alloc_aligned_slow(unsigned size_class, size_t bytes, size_t align) {
    size_t padded = lm_class_bytes(size_class);
    LM_ASSERT(padded >= bytes + LM_TRAILER && (padded & (align - 1)) == 0);
    /* Relaxed: no other data depends on the rate. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_sampling.rate) != 0))
        return alloc_aligned_sampled(padded, bytes, align);
    return lm_block_alloc(padded);
}

/* lm_malloc_aligned without the trailer, which the caller must write. *zero: see lm_large_alloc. */
LM_INLINE void *alloc_aligned(size_t bytes, size_t align, bool *zero) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER || align > LM_REQUEST_MOST - bytes)
        return lm_too_large_at(bytes, align);
    size_t padded = bytes + LM_TRAILER;
    unsigned size_class = align <= LM_BLOCK_MOST ? lm_class_aligned(padded, align) : 0;
    if (size_class == 0) return lm_large_alloc(lm_large_need(padded), align, zero);
    if (zero != NULL) *zero = false;
    void *block = lm_block_pop(lm_heap_self, size_class);
    return LM_LIKELY(block != NULL) ? lm_taken(block)
                                    : alloc_aligned_slow(size_class, bytes, align);
}

void *lm_malloc_aligned(size_t bytes, size_t align) {
    void *p = alloc_aligned(bytes, align, NULL);
    LM_ASSERT(((uintptr_t)p & (align - 1)) == 0);
    return p != NULL ? lm_trailer_write_new(p, bytes) : NULL;
}

void *lm_malloc_aligned_offset(size_t bytes, size_t align, size_t offset) {
    if (LM_LIKELY(offset % align == 0)) return lm_malloc_aligned(bytes, align);
    void *p = lm_offset_alloc(bytes, align, offset, NULL);
    if (p == NULL) return NULL;
    lm_perturb_new(p, bytes);
    return lm_trailer_write(p, bytes);
}

void *lm_zalloc_aligned_offset(size_t bytes, size_t align, size_t offset) {
    bool zero = false;
    void *p = offset % align == 0 ? alloc_aligned(bytes, align, &zero)
                                  : lm_offset_alloc(bytes, align, offset, &zero);
    if (p == NULL) return NULL;
    LM_ASSERT((((uintptr_t)p + offset) & (align - 1)) == 0);
    if (!zero) lm_clear_large(p, lm_to_clear(lm_page_of(p), p, bytes, true));
    return lm_trailer_write(p, bytes);
}

/* Resizes p so that (result + offset) % align == 0. A copy goes into the first-class heap `into`,
 * or, if that is NULL, to where the thread's malloc allocates. Returns the object, or NULL with
 * errno ENOMEM. fresh: see lm_large_resize_fresh. No lock held. */
static void *realloc_aligned(void *p, size_t bytes, size_t align, size_t offset,
                             struct loam_heap *into, size_t *fresh);

/* Returns whether realloc(p, bytes) leaves the block p where it is. Builds with trailers know the
 * requested size. There a block that grows within its class stays in any case; otherwise the spare
 * bytes that realloc had left for growth would be lost. */
static bool resize_stays(const lm_page_t *page, const void *p, size_t bytes) {
    size_t have = page->block_bytes, padded = bytes + LM_TRAILER;
    return page->kind == LM_KIND_PAGE &&
           (lm_worth_staying(have, padded) ||
            (LM_TRAILER > 0 && padded <= have && bytes >= lm_requested(page, p))) &&
           LM_LIKELY(!lm_is_offset(page));
}

/* Writes the trailer of an object that stays. Without trailers, lm_trailer_write does nothing, and
 * a sampled object is shrunk here. */
static void *mark_here(lm_page_t *page, void *p, size_t bytes) {
    if (LM_TRAILER == 0 && page->kind == LM_KIND_SAMPLED) lm_sampled_shrink(page, bytes);
    return lm_trailer_write(p, bytes);
}

/* Marks an object of `have` bytes that has become one of `bytes`. fresh is NULL iff no caller
 * clears the bytes that the object has grown by. */
static void *grown(void *p, size_t have, size_t bytes, const size_t *fresh) {
    if (fresh == NULL && bytes > have) lm_perturb_new((char *)p + have, bytes - have);
    return lm_trailer_write(p, bytes);
}

/* Resizes p: in place, by moving its pages, or by a copy. A copy goes into the first-class heap
 * `into`, or, if that is NULL, to where the thread's malloc allocates. Returns the object; NULL
 * with errno ENOMEM iff there is no memory: p is as it was then. fresh: see lm_large_resize_fresh.
 * No lock held. */
LM_INLINE void *resize_object(lm_page_t *page, void *p, size_t bytes, struct loam_heap *into,
                              size_t *fresh) {
    if (LM_UNLIKELY(lm_is_offset(page)) && into == NULL)
        return realloc_aligned(p, bytes, 1, 0, NULL, fresh);
    size_t have = lm_requested(page, p), padded = bytes + LM_TRAILER;
    if (page->kind == LM_KIND_LARGE && padded > LM_BLOCK_MOST && !lm_is_offset(page)) {
        size_t need = lm_large_need(padded);
        /* An object that moves by pages stays in its first-class heap. So it moves by pages only if
         * it belongs where a copy would go. Relaxed: the heap of an object in use changes only when
         * that heap ends. */
        bool moves = lm_load_relaxed(&page->fheap) == (into != NULL ? into : lm_fheap_chosen());
        void *there = moves ? lm_large_resize_fresh(page, p, need, fresh) : NULL;
        if (there != NULL) return grown(there, have, bytes, fresh);
        if (!moves && lm_large_fit(page, need, fresh)) return grown(p, have, bytes, fresh);
    }
    bool fits = padded <= lm_block_usable(page, p),
         zeroed = fresh != NULL && padded > LM_BLOCK_MOST;
    int error = fits ? errno : 0;
    size_t roomy = lm_with_spare(have, bytes);
    void *other;
    if (into == NULL)
        other = zeroed ? lm_zalloc(bytes) : lm_malloc(roomy);
    else
        other = zeroed ? lm_fheap_calloc(into, bytes) : lm_fheap_malloc(into, roomy);
    if (other == NULL && fits) {
        errno = error; /* a request to shrink succeeds: p stays, larger than it need be */
        if (page->kind == LM_KIND_LARGE && !lm_is_offset(page))
            (void)lm_large_fit(page, lm_large_need(padded), fresh);
        return mark_here(page, p, bytes);
    }
    if (other == NULL) return NULL;
    LM_ASSERT(other != p);
    if (zeroed) *fresh = 0;
    /* Relaxed: no other data depends on the rate. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_sampling.rate) != 0) && roomy != bytes)
        other = lm_sampled_resized(other, bytes);
    memcpy(other, p, have < bytes ? have : bytes);
    lm_free(p);
    return lm_trailer_write(other, bytes);
}

static LM_NOINLINE void *resize_anywhere(lm_page_t *page, void *p, size_t bytes) {
    return resize_object(page, p, bytes, NULL, NULL);
}

/* Marks a block that stays and may have grown. In builds with trailers, fills the bytes that it has
 * grown by if M_PERTURB asks for it; in other builds malloc has filled the whole block already. */
LM_INLINE void *lengthened(const lm_page_t *page, void *p, size_t bytes) {
    if (LM_TRAILER == 0 || !lm_perturbs()) return lm_trailer_write(p, bytes);
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
    if (resize_stays(page, p, bytes)) return lengthened(page, p, bytes);
    return resize_anywhere(page, p, bytes);
}

void *lm_fheap_realloc(struct loam_heap *fheap, void *p, size_t bytes) {
    lm_page_t *page = lm_page_checked(p, "realloc");
    if (page == NULL) return lm_no_memory();
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    if (LM_GUARD_LINKS && !lm_fheap_serves(fheap)) return NULL;
    if (resize_stays(page, p, bytes)) return lm_trailer_write(p, bytes);
    /* The heap is checked here, because NULL stands for the heap of malloc in the call. */
    return LM_LIKELY(lm_fheap_serves(fheap)) ? resize_object(page, p, bytes, fheap, NULL) : NULL;
}

/* ---- Objects that must be aligned, zeroed, or stay in place ---- */

/* Resizes p in place to `padded` bytes, trailer included. Returns false, and changes nothing, iff
 * that is not possible. fresh: see lm_large_fit; its offset counts from p. */
static bool resize_fit(lm_page_t *page, const void *p, size_t padded, size_t *fresh) {
    size_t room = lm_block_usable(page, p), before = lm_block_bytes(page) - room;
    if (page->kind == LM_KIND_META) return padded == LM_TRAILER; /* an object of 0 bytes (zero.c) */
    if (page->kind == LM_KIND_SAMPLED) return lm_sampled_shrink(page, padded - LM_TRAILER);
    if (page->kind != LM_KIND_LARGE) return padded <= room;
    padded = lm_large_need(padded);
    if (!lm_large_fit(page, (padded == 0 ? 1 : padded) + before, fresh)) return false;
    LM_ASSERT(fresh == NULL || *fresh >= before);
    if (fresh != NULL && *fresh != SIZE_MAX) *fresh -= before;
    return true;
}

/* Resizes p in place for lm_expand, large objects in builds for tools as well. There realloc moves
 * all large objects, so that the tool sees uses of the old place. Returns false, and changes
 * nothing, iff that is not possible. */
static bool expands(lm_page_t *page, const void *p, size_t padded) {
#if LM_TOOLS
    if (page->kind == LM_KIND_LARGE) {
        size_t before = lm_block_bytes(page) - lm_block_usable(page, p);
        return lm_large_expand(page, p, lm_large_need(padded) + before);
    }
#endif
    return resize_fit(page, p, padded, NULL);
}

bool lm_expand(void *p, size_t bytes) {
    lm_page_t *page = lm_page_checked(p, "expand");
    bool too_large = bytes > LM_REQUEST_MOST - LM_TRAILER;
    if (page == NULL || too_large || !expands(page, p, bytes + LM_TRAILER)) {
        if (page != NULL && too_large) lm_refused(bytes, true);
        (void)lm_no_memory();
        return false;
    }
    (void)lm_trailer_write(p, bytes);
    return true;
}

static void *realloc_aligned(void *p, size_t bytes, size_t align, size_t offset,
                             struct loam_heap *into, size_t *fresh) {
    lm_page_t *page = lm_page_checked(p, "realloc");
    if (page == NULL) return lm_no_memory();
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large_at(bytes, align);
    size_t have = lm_requested(page, p), padded = bytes + LM_TRAILER;
    bool large = padded > LM_BLOCK_MOST, right = ((uintptr_t)p + offset) % align == 0;
    /* Every large object is aligned to a slice, so that its pages may move. */
    if (large && offset % align == 0 && align <= LM_SLICE_BYTES && !lm_is_offset(page))
        return resize_object(page, p, bytes, into, fresh);
    if (right && page->kind != LM_KIND_SAMPLED &&
        (page->kind == LM_KIND_LARGE ? large
                                     : lm_worth_staying(lm_block_usable(page, p), padded))) {
        if (resize_fit(page, p, padded, fresh)) return lm_trailer_write(p, bytes);
    }
    LM_ASSERT(into == NULL || offset == 0); /* the functions of a first-class heap take no offset */
    bool zeroed = fresh != NULL && large;
    int error = errno;
    void *other;
    if (into == NULL)
        other = zeroed ? lm_zalloc_aligned_offset(bytes, align, offset)
                       : lm_malloc_aligned_offset(bytes, align, offset);
    else
        other = zeroed ? lm_fheap_zalloc_aligned(into, bytes, align)
                       : lm_fheap_malloc_aligned(into, bytes, align);
    if (other == NULL && right && padded <= lm_block_usable(page, p)) {
        errno = error; /* p can serve the request, so that it succeeds */
        if (page->kind == LM_KIND_LARGE) (void)resize_fit(page, p, padded, fresh);
        return mark_here(page, p, bytes);
    }
    if (other == NULL) return NULL;
    LM_ASSERT(other != p && (((uintptr_t)other + offset) & (align - 1)) == 0);
    if (zeroed) *fresh = 0;
    memcpy(other, p, have < bytes ? have : bytes);
    lm_free(p);
    return other;
}

void *lm_realloc_aligned_offset(void *p, size_t bytes, size_t align, size_t offset) {
    return realloc_aligned(p, bytes, align, offset, NULL, NULL);
}

void *lm_fheap_realloc_aligned(struct loam_heap *fheap, void *p, size_t bytes, size_t align) {
    return lm_fheap_serves(fheap) ? realloc_aligned(p, bytes, align, 0, fheap, NULL) : NULL;
}

/* Resizes p, with no alignment beyond that of malloc. A copy goes into the first-class heap `into`,
 * or, if that is NULL, to where the thread's malloc allocates. Returns the object, or NULL with
 * errno ENOMEM. fresh: see lm_large_resize_fresh. No lock held. */
static void *realloc_fresh(lm_page_t *page, void *p, size_t bytes, struct loam_heap *into,
                           size_t *fresh) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER) return lm_too_large(bytes);
    return resize_stays(page, p, bytes) ? lm_trailer_write(p, bytes)
                                        : resize_object(page, p, bytes, into, fresh);
}

/* lm_recalloc; a copy goes into the first-class heap `into`, unless that is NULL. */
static void *recalloc(void *p, size_t bytes, size_t align, size_t offset, struct loam_heap *into) {
    lm_page_t *page = lm_page_checked(p, "recalloc");
    if (page == NULL) return lm_no_memory();
    size_t have = lm_requested(page, p), kept = have < bytes ? have : bytes, fresh = SIZE_MAX;
    char *there = (char *)(align == 1 ? realloc_fresh(page, p, bytes, into, &fresh)
                                      : realloc_aligned(p, bytes, align, offset, into, &fresh));
    if (there == NULL) return NULL;
    /* Clears usable bytes behind the object as well, also after shrinking, because the object may
     * grow into them later. Bytes from `fresh` on are zero already. */
    size_t now = lm_requested(lm_page_of(there), there), end = now < fresh ? now : fresh;
    if (end > kept) lm_clear_large(there + kept, end - kept);
    return there;
}

void *lm_recalloc(void *p, size_t bytes, size_t align, size_t offset) {
    return recalloc(p, bytes, align, offset, NULL);
}

void *lm_fheap_recalloc(struct loam_heap *fheap, void *p, size_t bytes, size_t align) {
    return lm_fheap_serves(fheap) ? recalloc(p, bytes, align, 0, fheap) : NULL;
}

/* offset.c: objects whose address plus an offset is a multiple of an alignment.
 *
 *   block   [ link | shift | gap ... | object ........... ]
 *           ^ start                  ^ p = start + shift
 *
 *   (p + offset) % align == 0, and shift is at least 16 bytes (debug builds: 32)
 *
 * The pointer p need not be a multiple of 16, so that it cannot be where a block begins, and free
 * must find the block. The fast path of free cannot. So the pages of these objects have an owner
 * that is no thread (LM_OWNER_OFFSET), and each free of such an object takes the slow path to this
 * file, which finds the block by a division. These pages hold no other objects. Large objects are
 * spans of their own; all their slices up to that of p are in the map.
 *
 * Cost: each call takes a lock that all threads share, and each object takes shift bytes more. A
 * page goes back to the arena as soon as it is empty.
 *
 * The shift is written at the start of the block, or, for a large object, into the descriptor,
 * which can be read even if another thread has just freed the object. So all builds report a second
 * free, and a free of any other pointer into the block. They cannot tell these mistakes from an
 * overflow of the object before the block, unless the build has checks.
 * Invariant: a block that was ever used holds the shift of its last object, with FREED added once
 * that object is freed.
 */
#include "heap/core.h"

#include <string.h>

/* Bytes: smallest gap before an object, and smallest shift. */
enum { GAP_LEAST = LOAM_DEBUG ? 16 : 0, SHIFT_LEAST = LM_OFFSET_FRONT + GAP_LEAST };
/* The bit of a shift that says that the block, or object, is free. */
#define OFFSET_FREED (~(UINT64_MAX >> 1))

/* The start of a block. */
typedef struct front {
    lm_block_t link;
    /* Bytes from the block's start to its last object, with FREED added while the block is free,
     * and a sum in checked builds. 0: the block was never used. Atomic. */
    uint64_t shift;
} front_t;

LM_STATIC_ASSERT(sizeof(front_t) == LM_OFFSET_FRONT, "the least shift, in the smallest block");

/* The heap of all pages of these objects. Only its lists of partial and full pages are used, under
 * the lock. */
static lm_theap_t offset_pages;
static lm_lock_t offset_lock;

lm_lock_t *lm_offset_fork_lock(void) { return &offset_lock; }
lm_theap_t *lm_offset_heap(void) { return &offset_pages; }

/* ---- From a pointer to its block ---- */

char *lm_offset_start(const lm_page_t *page, const void *p) {
    char *first = lm_span_start(page);
    if (page->kind != LM_KIND_PAGE) return first;
    size_t at = (size_t)((const char *)p - first);
    return first + (at - at % page->block_bytes);
}

/* Returns the address of the word with the shift of the block around p. Relaxed accesses to the
 * word are enough, because no other data depends on it. */
static uint64_t *given_in(lm_page_t *page, const void *p) {
    if (page->kind != LM_KIND_PAGE) return &page->remote;
    return &((front_t *)(void *)lm_offset_start(page, p))->shift;
}

#define SUM_MASK ((uint64_t)0xffffffff << 31)

/* Returns the sum that stands beside a shift, with FREED or not, in checked builds. It shows that
 * the program has not overwritten the word, which lies within its reach. Returns 0 in other builds,
 * and for large objects. */
static uint64_t sum_of(const lm_page_t *page, const void *p, uint64_t shift) {
#if LM_GUARD_LINKS
    if (page->kind != LM_KIND_PAGE) return 0;
    uint64_t both = (uintptr_t)lm_offset_start(page, p) + shift * 0xd6e8feb86659fd93u;
    return (both ^ lm_load_relaxed(&lm_secret)) * 0x9e3779b97f4a7c15u >> 1 & SUM_MASK;
#else
    (void)page, (void)p, (void)shift;
    return 0;
#endif
}

/* Writes the shift, with FREED or not, of the block around p. */
static void offset_give(lm_page_t *page, const void *p, uint64_t shift) {
    lm_store_relaxed(given_in(page, p), shift | sum_of(page, p, shift));
}

uint64_t lm_offset_given(const lm_page_t *page, const void *p) {
    uint64_t said = lm_load_relaxed(given_in((lm_page_t *)(uintptr_t)page, p));
    if (said == 0 || page->kind != LM_KIND_PAGE) return said; /* 0: the block was never used */
    uint64_t shift = said & ~SUM_MASK;
    return (shift | sum_of(page, p, shift)) == said ? shift : LM_OFFSET_OVERWRITTEN;
}

bool lm_offset_in_carved(const lm_page_t *page, const void *p) {
    size_t at = (size_t)((const char *)p - lm_span_start(page));
    return page->kind != LM_KIND_PAGE || at / page->block_bytes < page->carved;
}

/* Returns whether that shift, with FREED or not, was given to an object. The start of a block,
 * where no object is, has a shift of 0, as a block that was never used. */
static bool is_given(uint64_t said, uint64_t shift) {
    return shift >= SHIFT_LEAST && (said & ~OFFSET_FREED) == shift;
}

bool lm_offset_is_object(const lm_page_t *page, const void *p) {
    if (!lm_offset_in_carved(page, p)) return false;
    return is_given(lm_offset_given(page, p),
                    (uint64_t)((const char *)p - lm_offset_start(page, p)));
}

const char *lm_offset_object(const lm_page_t *page, const void *p) {
    uint64_t shift = lm_offset_given(page, p);
    bool used = shift >= LM_OFFSET_FRONT && shift < lm_block_bytes(page);
    return used ? lm_offset_start(page, p) + shift : NULL;
}

#if LOAM_DEBUG
const void *lm_offset_freed(const lm_page_t *page, const void *block) {
    uint64_t said = lm_offset_given(page, block), shift = said & ~OFFSET_FREED;
    bool was = (said & OFFSET_FREED) != 0 && shift < page->block_bytes;
    return was ? (const char *)block + shift : NULL;
}
#endif

/* ---- Allocating ---- */

/* Notes that the page's blocks from number `from` on were never used. Their memory may hold words
 * of other objects, except in checked builds, where new blocks have zeros there. */
static void never_used(const lm_page_t *page, uint32_t from) {
    if (LM_GUARD_LINKS) return;
    char *start = lm_span_start(page);
    for (uint32_t i = from; i < page->carved; i++)
        lm_store_relaxed(&((front_t *)(void *)(start + i * (size_t)page->block_bytes))->shift, 0);
}

/* Takes a block of the page, which has a free or an untouched one. */
static lm_block_t *offset_pop(lm_page_t *page) {
    LM_ASSERT(lm_lock_held(&offset_lock));
    LM_ASSERT(page->in_list == LM_AT_PARTIAL && page->bias == 0);
    if (page->free == NULL) {
        uint32_t before = page->carved;
        page->free = lm_page_carve(page);
        never_used(page, before);
        lm_store_relaxed(&page->live, page->live - (page->carved - before));
        lm_count_back(page, page->carved - before);
    }
    lm_block_t *block = page->free;
    LM_ASSERT(block != NULL && page->live < page->carved);
    page->free = lm_link_get(block);
    lm_store_relaxed(&page->live, page->live + 1);
    lm_count_again(page, 1);
    return block;
}

/* Returns a block of the class; NULL iff there is no memory. Lock not held. */
static lm_block_t *offset_attempt(unsigned size_class) {
    lm_lock_take(&offset_lock);
    offset_pages.token = LM_OWNER_OFFSET;
    lm_list_t *list = &offset_pages.partial[size_class];
    lm_page_t *page = list->first != NULL ? LM_CONTAINER(list->first, lm_page_t, link)
                                          : lm_page_create(&offset_pages, size_class);
    lm_block_t *block = NULL;
    if (page != NULL) {
        LM_ASSERT(page->heap == &offset_pages && lm_is_offset(page));
        LM_ASSERT(page->size_class == size_class);
        if (page->in_list == LM_AT_NOWHERE) lm_page_to_partial(&offset_pages, page);
        block = offset_pop(page);
        if (page->free == NULL && page->carved == page->capacity)
            lm_page_to_full(&offset_pages, page);
    }
    lm_lock_give(&offset_lock);
    return block;
}

/* Returns a block of the class, or NULL with errno ENOMEM. If memory has run out, frees memory that
 * loam keeps, asks the program's handler, and tries again. No lock held. */
static void *block_alloc(unsigned size_class) {
    lm_block_t *block = offset_attempt(size_class);
    size_t bytes = lm_class_bytes(size_class);
    for (unsigned tries = 0; LM_UNLIKELY(block == NULL) && lm_memory_found(bytes, &tries);)
        block = offset_attempt(size_class);
    if (LM_LIKELY(block != NULL)) return lm_taken(block);
    lm_refused(bytes, false);
    return lm_no_memory();
}

/* Returns the smallest shift for a block that begins at `start`. offset is less than align. */
static size_t shift_at(uintptr_t start, size_t align, size_t offset) {
    return lm_align_up(start + SHIFT_LEAST + offset, align) - offset - start;
}

/* Returns the smallest class of which every block can hold the object; 0 iff there is none. That is
 * either a class whose blocks are multiples of align, so that their shifts are equal; or one whose
 * blocks are large enough at any multiple of 16. */
static unsigned offset_class_for(size_t padded, size_t align, size_t offset) {
    size_t beyond = offset % (align < 16 ? align : 16);
    size_t loose = SHIFT_LEAST + align - (beyond == 0 ? 16 : beyond) + padded;
    unsigned any = loose <= LM_BLOCK_MOST ? lm_class_of(loose) : 0;
    unsigned aligned =
        align <= LM_BLOCK_MOST ? lm_class_aligned(shift_at(0, align, offset) + padded, align) : 0;
    return any == 0 || (aligned != 0 && aligned < any) ? aligned : any;
}

/* Returns the start of a span for the object, or NULL with errno ENOMEM. *zero: see
 * lm_large_alloc. */
static void *offset_large_alloc(size_t padded, size_t align, size_t offset, bool *zero) {
    size_t shift = shift_at(0, align, offset);
    /* The object belongs to no first-class heap, because its free does not look for one. */
    void *start = lm_large_open(NULL, shift + padded, align, zero);
    if (start == NULL) return NULL;
    lm_page_t *page = lm_page_of(start);
    LM_ASSERT((shift >> LM_SLICE_SHIFT) < page->slices);
    lm_store_relaxed(&page->owner, LM_OWNER_OFFSET);
    lm_span_map(page, (shift >> LM_SLICE_SHIFT) + 1, page);
    return start;
}

void *lm_offset_alloc(size_t bytes, size_t align, size_t offset, bool *zero) {
    if (bytes > LM_REQUEST_MOST - LM_TRAILER || align > LM_REQUEST_MOST - bytes)
        return lm_too_large_at(bytes, align);
    LM_METER(slow());
    offset &= align - 1;
    /* At least one byte, so that p lies in its block. */
    size_t padded = (bytes == 0 ? 1 : bytes) + LM_TRAILER;
    unsigned size_class = offset_class_for(padded, align, offset);
    if (size_class != 0 && zero != NULL) *zero = false;
    void *start = size_class != 0 ? block_alloc(size_class)
                                  : offset_large_alloc(lm_large_need(padded), align, offset, zero);
    if (start == NULL) return NULL;
    size_t shift = shift_at((uintptr_t)start, align, offset);
    LM_ASSERT(shift >= SHIFT_LEAST && (((uintptr_t)start + shift + offset) & (align - 1)) == 0);
    LM_ASSERT(shift + (bytes == 0 ? 1 : bytes) <= lm_block_bytes(lm_page_of(start)));
    offset_give(lm_page_of(start), start, shift);
    /* A block in use has no link: so checks/offset_gap.c finds that a shift was overwritten. */
    if (LM_SECURE) ((lm_block_t *)start)->next = NULL;
    lm_gap_fill((char *)start, (char *)start + shift);
    if (size_class != 0) lm_bytes_mine(lm_class_bytes(size_class), 0);
    return (char *)start + shift;
}

/* ---- Freeing ---- */

/* Puts a block back on its page, and gives the page back if it is empty. Lock not held. */
static void block_free(lm_page_t *page, lm_block_t *block) {
    lm_given_at(page, block);
    lm_lock_take(&offset_lock);
    LM_ASSERT(page->heap == &offset_pages && lm_is_offset(page));
    if (page->in_list == LM_AT_FULL) lm_page_to_partial(&offset_pages, page);
    lm_page_put(page, block, block, 1);
    /* A page that fork_torn.c has taken out of its list is lost. */
    if (page->live == 0 && page->in_list == LM_AT_PARTIAL) lm_page_release(&offset_pages, page);
    lm_lock_give(&offset_lock);
}

/* The descriptor keeps its owner until its slices are used again, for the reason that page.c
 * gives where a page is taken out of the map. */
void lm_offset_unmap(lm_page_t *page, const void *p) {
    size_t shift = (size_t)((const char *)p - lm_span_start(page));
    LM_ASSERT((shift >> LM_SLICE_SHIFT) < page->slices);
    lm_span_map(page, (shift >> LM_SLICE_SHIFT) + 1, &lm_nobody);
}

/* Marks p's block as free if p is the object in it, which has that shift. Returns the shift that
 * the block had before; shift | FREED if the page has gone; 0 if no block was carved there. */
static uint64_t claim_block(lm_page_t *page, const void *p, uint64_t shift) {
    uint64_t said = shift | OFFSET_FREED;
    lm_lock_take(&offset_lock);
    /* The page may be gone, if another thread freed p at this moment and p was its last object. */
    if (lm_page_of(p) == page && lm_is_offset(page)) {
        said = lm_offset_in_carved(page, p) ? lm_offset_given(page, p) : 0;
        if (said == shift && is_given(said, shift)) offset_give(page, p, shift | OFFSET_FREED);
    }
    lm_lock_give(&offset_lock);
    return said;
}

bool lm_offset_claim(lm_page_t *page, const void *p) {
    bool large = page->kind != LM_KIND_PAGE;
    uint64_t shift = (uint64_t)((const char *)p - lm_offset_start(page, p));
    uint64_t said = large ? lm_offset_given(page, p) : claim_block(page, p, shift);
    bool given = is_given(said, shift);
    if (LM_LIKELY(given && said == shift) && (!large || LM_LIKELY(lm_span_unmap(page))))
        return true;
#if LM_GUARD_LINKS
    if (!given && lm_offset_front_damaged(page, p)) return false;
#endif
    /* An object that was given this shift is free by now. */
    lm_wrong(given ? LM_MISTAKE_DOUBLE_FREE : LM_MISTAKE_MISALIGNED,
             "%s %p (object at an offset, size class %zu B, ",
             given ? "double free of" : "misaligned pointer passed to free:", p,
             lm_block_bytes(page));
    return false;
}

void lm_offset_end(lm_page_t *page, void *p) {
    lm_gap_clear(lm_offset_start(page, p), (const char *)p);
    lm_bytes_mine(0, lm_block_bytes(page));
    if (page->kind == LM_KIND_LARGE) {
        lm_offset_unmap(page, p);
        lm_large_discard(page);
        return;
    }
    lm_block_t *block = (lm_block_t *)(void *)lm_offset_start(page, p);
    if (LM_SECURE) memset(p, 0, lm_block_usable(page, p));
    block_free(page, block);
}

void lm_offset_free(lm_page_t *page, void *p) {
    if (lm_offset_claim(page, p)) lm_offset_end(page, p);
}

#if LM_SECURE
void lm_offset_unclaim(lm_page_t *page, const void *p) {
    if (page->kind != LM_KIND_PAGE)
        lm_span_map(page, 1, page);
    else
        offset_give(page, p, lm_offset_given(page, p) & ~OFFSET_FREED);
}
#endif

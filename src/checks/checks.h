/* checks.h: what debug and secure builds do around each object, and what all builds know of a
 * pointer: where its object ends, and what filled it.
 *
 *   debug    [ object | fence 0xfb ... | word ]   fence.c, reuse.c: to the byte; sites.c, tools.c
 *   secure   [ object | zeros: slack | canary ]   secure.c, quarantine.c, secure_large.c, copied.c
 *                 damage ──> blame.c, near.c: which object's overflow or underflow it was
 *
 * For api/, override/ and the wings above. What the core calls is in heap/hooks.h; what only the
 * files of this folder share is in inner.h, blame.h and zeros.h. What it cannot do: find a mistake
 * at the moment it is made, except in copies (lm_copy_fits); a check looks when an object is
 * freed, resized or reused.
 */
#ifndef LM_CHECKS_H
#define LM_CHECKS_H

#include "heap/core.h"

/* ---- Any build ---- */

/* Returns the bytes from p, which may point into an object, to that object's end, and in *object
 * where the object begins. Returns SIZE_MAX iff p lies in no object that is found by a look at the
 * map of p's slice and `back` slices before it. Takes any pointer, takes no lock, reports nothing
 * (interior.c). */
size_t lm_interior_usable(const void *p, size_t back, const char **object);
/* Reports a copy that would leave that object. */
void lm_copy_misuse(const char *object, const char *function, size_t bytes, const char *way,
                    const void *p, size_t room);

/* Fills new objects with the complement of the value's lowest byte, and freed objects with that
 * byte, in each thread from its next slow path on; 0: fills nothing (perturb.c). */
void lm_perturb_set(int value);

/* The memory has no owner any more. Special allocators that lay there had hidden parts of it from
 * Memcheck or AddressSanitizer (tools.c). */
void lm_tools_forget(const void *p, size_t bytes);

#if LM_TOOLS
/* A block of so many bytes, freed or not, goes: its heap is destroyed. */
void lm_tools_dropped(const void *block, size_t bytes);
#else
LM_INLINE void lm_tools_dropped(const void *block, size_t bytes) { (void)block, (void)bytes; }
#endif

/* ---- Debug and secure builds ---- */

#if LM_GUARD_LINKS
/* Returns false, after a report, iff the block is not in use or was overrun. */
bool lm_intact(const lm_page_t *page, const void *p, const char *function);
/* Returns false, after a report, iff the gap before p, an object at an offset, was overwritten. */
bool lm_offset_before_intact(const lm_page_t *page, const void *p);
#endif

/* ---- Debug build ---- */

#if LOAM_DEBUG
/* Returns the sum of the sizes that the program has requested, in bytes. */
uint64_t lm_requested_in_all(void);

/* Reports an underflow of what lies behind a page's span, as the page goes back. */
void lm_fence_check_page(const lm_page_t *page);
/* Returns how many bytes past an object's request were written to, up to the end word, which is
 * intact. */
size_t lm_fence_past(const void *p, size_t requested, const void *end);
/* Returns whether a free block of the page is as it was filled; reports it otherwise. No lock
 * held. */
bool lm_reuse_intact(const lm_page_t *page, const void *block);
/* A large object of a first-class heap that is destroyed goes: reports what was written past its
 * end. */
void lm_reuse_check_large(const lm_page_t *page);
/* Returns whether free memory may be filled with that byte. */
bool lm_perturb_filled(unsigned char byte);

/* Keeps the last `depth` callers (0: none; at most 16) of each allocation and free from now on.
 * They follow the report of a mistake with the object (sites.c). */
void lm_sites_record(unsigned depth);
/* Says that lm_sites_record is not going to be called, unless it was. */
void lm_sites_settle(void);
/* Tells, for constructors that allocate before loam's own runs, what lm_sites_record will be called
 * with before main, 0 if it will not: api/ defines this. Returns false iff options cannot be read
 * yet. Allocates nothing. */
bool lm_sites_expected(unsigned *depth);
/* The next report of this thread is about the object p. */
void lm_sites_about(const void *p);
/* Returns the number of the trace of an object's allocation; 0: unknown. */
uint32_t lm_sites_of(const void *p);
/* Returns the number of the trace of these callers. */
uint32_t lm_sites_number(const lm_site_t *places, size_t depth);
/* Writes a trace's lines to standard error. */
void lm_sites_report(uint32_t trace);
#else
LM_INLINE uint64_t lm_requested_in_all(void) { return 0; }
LM_INLINE void lm_reuse_check_large(const lm_page_t *page) { (void)page; }
LM_INLINE void lm_sites_about(const void *p) { (void)p; }
#endif

/* ---- Secure build ---- */

#if LM_SECURE
/* Order in which a page's new blocks are handed out. AUTO: random where a class has few blocks. */
typedef enum lm_order { LM_ORDER_KEPT, LM_ORDER_RANDOM, LM_ORDER_AUTO } lm_order_t;
extern lm_order_t lm_order; /* atomic: any thread changes it, at any time */

/* ---- The last word of a block ---- */

enum { LM_SLACK_SHIFT = 40 };
/* Bits of the slack's length: between bytes of the canary, so that a program chooses neither the
 * first byte behind an object nor the last byte before one. */
#define LM_SLACK_MASK ((uint64_t)0xffff << LM_SLACK_SHIFT)

typedef uint64_t __attribute__((may_alias)) lm_word_t;

/* Returns the canary of the block at p. Its lowest bit is set: no freed block looks like that, nor
 * does the first byte match the end of a string. */
LM_INLINE uint64_t lm_canary_of(const void *p) {
    return ((lm_load_relaxed(&lm_secret) ^ (uintptr_t)p) * 0x9e3779b97f4a7c15u) | 1;
}

/* Returns the last word of a block of so many bytes. */
LM_INLINE lm_word_t *lm_last_word(const void *p, size_t bytes) {
    return (lm_word_t *)(void *)((char *)(uintptr_t)p + bytes - sizeof(lm_word_t));
}

/* Returns whether `last`, read from the end of a block of `room` bytes, is the block's canary with
 * a slack's length that can be right. */
LM_INLINE bool lm_is_canary(const void *p, size_t room, uint64_t last, size_t *slack) {
    uint64_t odd = last ^ lm_canary_of(p);
    *slack = odd >> LM_SLACK_SHIFT;
    return (odd & ~LM_SLACK_MASK) == 0 && *slack <= room - LM_TRAILER;
}

/* Returns whether the canary of a block of `room` bytes is intact. */
LM_INLINE bool lm_has_canary(const void *p, size_t room, size_t *slack) {
    return lm_is_canary(p, room, *lm_last_word(p, room), slack);
}

/* ---- Copies ---- */

enum { LM_INDEX_SHIFT = 40 }; /* for offsets in a page below 2^23, and blocks below 2^17 bytes */

/* 2^LM_INDEX_SHIFT / bytes of a block, rounded up: turns an offset in a page into the number of the
 * block there. Written when the first page of the class is made. */
extern LM_HIDDEN uint64_t lm_index_factor[LM_CLASSES];

/* The inline path of memcpy and its kin. Returns whether n bytes at p fit into the object there, or
 * p is outside of the arena. If it returns false, lm_copy_looks decides. */
LM_INLINE bool lm_copy_fits(const void *p, size_t n) {
    size_t slice = lm_slice_of(p);
    if (slice >= lm_peek(&lm_arena.slices)) return true;
    const lm_page_t *page = lm_peek(&lm_arena.map[slice]);
    size_t bytes = page->block_bytes; /* 0 of large objects, and where no object begins */
    if (LM_UNLIKELY(bytes == 0)) return false;
    uintptr_t start = lm_arena.base + (lm_span_slice(page) << LM_SLICE_SHIFT);
    size_t at = (uintptr_t)p - start;
    size_t index = at * lm_load_relaxed(&lm_index_factor[page->size_class]) >> LM_INDEX_SHIFT;
    size_t end = index * bytes + bytes - sizeof(lm_word_t), stop;
    uint64_t odd = *(const lm_word_t *)(start + end) ^
                   lm_canary_of((const void *)(start + end - (bytes - sizeof(lm_word_t))));
    return LM_LIKELY((odd & ~LM_SLACK_MASK) == 0) &&
           LM_LIKELY(!__builtin_add_overflow(at, n, &stop)) &&
           LM_LIKELY(stop <= end - (odd >> LM_SLACK_SHIFT));
}

/* Returns false iff n bytes at p certainly do not fit into the object there, or p is in a freed
 * block, unless the user chose to pass over that mistake. */
bool lm_copy_looks(const void *p, size_t n);

/* Returns the bytes from p to the end of its object. Returns 0 iff p is in a freed block or at or
 * behind its object's end, and SIZE_MAX iff p is in no known object. far: a large object is found
 * however far before p it begins, at the cost of a load for each 64 KiB. */
size_t lm_copy_room(const void *p, bool far);

/* Reports a copy that does not fit: `way` is "to" or "from". */
void lm_copy_report(const char *function, const char *way, const void *p, size_t n);

/* ---- Free blocks ---- */

/* Returns whether a block of a page is free. No other thread may be about to change it. */
bool lm_block_is_free(const lm_page_t *page, const void *p);
/* Reports a free block of the page that was written to. No lock held. */
void lm_secure_look_at_free(const lm_page_t *page, const void *block);

/* Returns how many blocks of the class wait in the heap's quarantine. */
size_t lm_quarantine_count(const lm_theap_t *heap, unsigned size_class);
/* Returns how many blocks of a small class malloc has taken out of it, ever. */
LM_INLINE size_t lm_quarantine_reused(const lm_theap_t *heap, unsigned size_class) {
    return lm_load_relaxed(&heap->quarantine.ring[size_class].taken) -
           lm_load_relaxed(&heap->quarantine.left[size_class]);
}
#else
LM_INLINE size_t lm_quarantine_count(const lm_theap_t *heap, unsigned size_class) {
    return (void)heap, (void)size_class, 0;
}
LM_INLINE size_t lm_quarantine_reused(const lm_theap_t *heap, unsigned size_class) {
    return (void)heap, (void)size_class, 0;
}
#endif

#endif

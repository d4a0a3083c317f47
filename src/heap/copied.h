/* copied.h: whether what a program is about to write fits into its object, and the last word of a
 * block, which says how many bytes the object has. Secure build only; heap.h includes it.
 *
 *   memcpy(to, from, n)     block [ ... to ───────── n bytes ─────────> | slack | canary ]
 *                                        └──────── room of the object ─┘
 *
 * lm_copy_fits is the inline path of memcpy and its kin (override/copies.c). It takes no lock,
 * allocates nothing and writes nothing. What it cannot decide goes to lm_copy_looks (copied.c).
 * Memory that is not the arena's fits always. Invariant: the last word of a block in use is its
 * canary, which contains the length of the slack.
 */
#ifndef LM_HEAP_COPIED_H
#define LM_HEAP_COPIED_H

#include "heap/heap.h"

#if LM_SECURE

/* ---- The last word of a block ---- */

enum { LM_SLACK_SHIFT = 40 };
/* Where the slack's length is: between bytes of the canary, so that a program chooses neither the
 * first byte behind an object nor the last byte before one. */
#define LM_SLACK_MASK ((uint64_t)0xffff << LM_SLACK_SHIFT)

typedef uint64_t __attribute__((may_alias)) lm_word_t;

/* Its lowest bit is set: no freed block looks like that, nor does the first byte match the end of a
 * string. */
LM_INLINE uint64_t lm_canary_of(const void *p) {
    return ((lm_load_relaxed(&lm_secret) ^ (uintptr_t)p) * 0x9e3779b97f4a7c15u) | 1;
}

LM_INLINE lm_word_t *lm_last_word(const void *p, size_t bytes) {
    return (lm_word_t *)(void *)((char *)(uintptr_t)p + bytes - sizeof(lm_word_t));
}

/* ---- Copies ---- */

enum { LM_INDEX_SHIFT = 40 }; /* for offsets in a page below 2^23, and blocks below 2^17 bytes */

/* 2^LM_INDEX_SHIFT / bytes of a block, rounded up: turns an offset in a page into the number of the
 * block there. Written when the first page of the class is made. */
extern LM_HIDDEN uint64_t lm_index_factor[LM_CLASSES];

/* Whether n bytes at p fit into the object there, or p is outside of the arena. false: they may
 * not, and lm_copy_looks decides. */
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

/* false iff n bytes at p certainly do not fit into the object there, or p is in a freed block. */
bool lm_copy_looks(const void *p, size_t n);

/* Bytes from p to the end of its object; 0 iff it is in a freed block, SIZE_MAX iff it is in none
 * that is known. far: a large object is found however far before p it begins, at the cost of a load
 * for each 64 KiB. */
size_t lm_copy_room(const void *p, bool far);

/* Reports a copy that does not fit: `way` is "to" or "from". */
void lm_copy_report(const char *function, const char *way, const void *p, size_t n);

#endif

#endif

/* zeros.h: tests whether a block's memory is zero, and wipes it. For secure.c and secure_look.c.
 *
 *   up to 64 B    [pair pair pair pair]        the pairs may overlap: in 16 bytes all four coincide
 *   up to 128 B   [eight pairs]                four from each end
 *   longer        [eight pairs] ... [eight pairs]
 *
 * Sizes are multiples of 16 and at least 16 bytes; addresses are aligned to 16. Sizes differ from
 * call to call, and a mispredicted branch costs as much as all other work here. So there are few
 * branches, and some bytes are read or written twice, which costs nothing. memset wipes longer
 * memory.
 */
#ifndef LM_CHECKS_ZEROS_H
#define LM_CHECKS_ZEROS_H

#include "checks/inner.h"

#include <string.h>

enum {
    LM_ZEROS_FOUR = 64,   /* largest size in bytes that is handled as four pairs of words */
    LM_ZEROS_EIGHT = 128, /* largest size in bytes that is handled as eight pairs */
};
/* The types named `anywhere` need no alignment. */
typedef uint64_t __attribute__((vector_size(16), may_alias)) lm_two_words_t;
typedef lm_two_words_t __attribute__((aligned(1))) lm_two_words_anywhere_t;
typedef lm_word_t __attribute__((aligned(1))) lm_word_anywhere_t;

/* The two words at an address, whatever the type of the memory. */
#define LM_PAIR(at) (*(lm_two_words_t *)(void *)(at))

LM_INLINE bool lm_none_set(lm_two_words_t any) { return (any[0] | any[1]) == 0; }

LM_INLINE lm_two_words_t lm_four_pairs(const char *p) {
    return LM_PAIR(p) | LM_PAIR(p + 16) | LM_PAIR(p + 32) | LM_PAIR(p + 48);
}

LM_INLINE lm_two_words_t lm_eight_pairs(const char *p) {
    return lm_four_pairs(p) | lm_four_pairs(p + 64);
}

LM_INLINE void lm_wipe_four(char *p) {
    lm_two_words_t zero = {0, 0};
    LM_PAIR(p) = LM_PAIR(p + 16) = LM_PAIR(p + 32) = zero;
    lm_fence_release(); /* the last word is cleared last, see inner.h */
    LM_PAIR(p + 48) = zero;
}

/* Returns the distance in bytes of the two inner pairs from the outer ones. */
LM_INLINE size_t lm_inner_pair(size_t bytes) { return (size_t)(bytes >= 32) << 4; }

LM_INLINE bool lm_is_zero_from(const void *from, size_t bytes) {
    LM_ASSERT(bytes >= 16 && ((uintptr_t)from | bytes) % 16 == 0);
    const char *p = (const char *)from, *last = p + bytes - 16;
    lm_two_words_t any;
    if (LM_LIKELY(bytes <= LM_ZEROS_FOUR)) {
        size_t in = lm_inner_pair(bytes);
        any = LM_PAIR(p) | LM_PAIR(p + in) | LM_PAIR(last - in) | LM_PAIR(last);
    } else if (LM_LIKELY(bytes <= LM_ZEROS_EIGHT)) {
        any = lm_four_pairs(p) | lm_four_pairs(last - 48);
    } else {
        any = lm_eight_pairs(p) | lm_eight_pairs(last - 112);
        if (bytes > 256) any |= lm_eight_pairs(p + 128) | lm_eight_pairs(last - 240);
        if (bytes > 512) {
            any |= lm_eight_pairs(p + 256) | lm_eight_pairs(last - 368);
            any |= lm_eight_pairs(p + 384) | lm_eight_pairs(last - 496);
        }
        for (const char *at = p + 512; at < last - 496; at += 128) any |= lm_eight_pairs(at);
    }
    return lm_none_set(any);
}

LM_INLINE void lm_wipe_short(void *block, size_t bytes) {
    LM_ASSERT(bytes >= 16 && bytes <= LM_ZEROS_EIGHT && ((uintptr_t)block | bytes) % 16 == 0);
    char *p = (char *)block, *last = p + bytes - 16;
    if (LM_LIKELY(bytes <= LM_ZEROS_FOUR)) {
        size_t in = lm_inner_pair(bytes);
        lm_two_words_t zero = {0, 0};
        LM_PAIR(p) = LM_PAIR(p + in) = LM_PAIR(last - in) = zero;
        lm_fence_release(); /* the last word is cleared last, see inner.h */
        LM_PAIR(last) = zero;
    } else {
        lm_wipe_four(p);
        lm_wipe_four(last - 48);
    }
}

LM_INLINE void lm_wipe(void *block, size_t bytes) {
    if (LM_LIKELY(bytes <= LM_ZEROS_EIGHT))
        lm_wipe_short(block, bytes);
    else
        memset(block, 0, bytes);
}

/* ---- The slack of a block of `bytes` bytes ---- */

/* Returns whether `slack` bytes before the canary are zero. The loads reach up to 8 bytes further
 * back, which are readable. */
LM_INLINE bool lm_slack_is_zero(const void *p, size_t bytes, size_t slack) {
    const char *end = (const char *)lm_last_word(p, bytes);
    for (; LM_UNLIKELY(slack > 64); slack -= 64, end -= 64) {
        const lm_two_words_anywhere_t *at =
            (const lm_two_words_anywhere_t *)(const void *)(end - 64);
        if (!lm_none_set(at[0] | at[1] | at[2] | at[3])) return false;
    }
    for (; LM_UNLIKELY(slack > 16); slack -= 16, end -= 16) {
        if ((*lm_last_word(end, 0) | *lm_last_word(end - 8, 0)) != 0) return false;
    }
    if (slack == 0) return true;
    if (LM_LIKELY(slack <= 8)) return *lm_last_word(end, 0) >> (64 - 8 * slack) == 0;
    return *lm_last_word(end, 0) == 0 && *lm_last_word(end - 8, 0) >> (128 - 8 * slack) == 0;
}

/* Returns whether `slack` bytes, at most 15, before the canary are zero. Has no branch. Reads 16
 * bytes there, as two words: programs have often just written one word, and a load of both at once
 * would wait for the cache. */
LM_INLINE bool lm_short_slack_is_zero(const void *p, size_t bytes, size_t slack) {
    LM_ASSERT(slack <= 15 && bytes >= 16);
    static const LM_ALIGNED(32) unsigned char none_then_all[32] = {
        [16] = 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    const lm_word_anywhere_t *mask =
        (const lm_word_anywhere_t *)(const void *)(none_then_all + slack);
    return ((mask[0] & *lm_last_word(p, bytes - 16)) | (mask[1] & *lm_last_word(p, bytes - 8))) ==
           0;
}

#endif

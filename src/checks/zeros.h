/* zeros.h: looks at the memory of a block, and wipes it, for secure.c alone.
 *
 *   up to 64    [pair pair pair pair]        which may overlap: of 16 bytes all four are the same
 *   up to 128   [eight pairs]                four from each end
 *   longer      [eight pairs] ... [eight pairs]
 *
 * Sizes are multiples of 16 and at least 16, addresses are aligned to 16. They differ from call to
 * call, and a branch that foretells them wrongly costs as much as all the rest: so there are few,
 * and what is looked at or written twice costs nothing. Longer memory is wiped by memset.
 */
#ifndef LM_CHECKS_ZEROS_H
#define LM_CHECKS_ZEROS_H

#include "checks/inner.h"

#include <string.h>

enum {
    LM_ZEROS_FOUR = 64,   /* bytes, or less: looked at and wiped as four pairs of words */
    LM_ZEROS_EIGHT = 128, /* or less: as eight */
};
/* `anywhere`: at any address, not only an aligned one. */
typedef uint64_t __attribute__((vector_size(16), may_alias)) lm_two_words_t;
typedef lm_two_words_t __attribute__((aligned(1))) lm_two_words_anywhere_t;
typedef lm_word_t __attribute__((aligned(1))) lm_word_anywhere_t;

/* Two words of memory of any type. */
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
    lm_fence_release(); /* the last word last, see inner.h */
    LM_PAIR(p + 48) = zero;
}

/* Of four pairs the two inner ones lie so far from the outer. */
LM_INLINE size_t lm_inner_pair(size_t bytes) { return (size_t)(bytes >= 32) << 4; }

LM_INLINE bool lm_is_zero_from(const void *from, size_t bytes) {
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
    char *p = (char *)block, *last = p + bytes - 16;
    if (LM_LIKELY(bytes <= LM_ZEROS_FOUR)) {
        size_t in = lm_inner_pair(bytes);
        lm_two_words_t zero = {0, 0};
        LM_PAIR(p) = LM_PAIR(p + in) = LM_PAIR(last - in) = zero;
        lm_fence_release(); /* the last word last, see inner.h */
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

#endif

/* classes.h: size classes: which block serves a request.
 *
 *   class 1..64     16, 32, ... 1024             steps of 16: n bytes go to class (n+15)/16
 *   class 65..112   1152, 1280, ... 2048, 2304 ... 65536   eight for each doubling
 *
 * Waste: at most 15 bytes up to 1 KiB; above, (8+k+1)/8 of a power of two serves what exceeds
 * (8+k)/8 of it, so that a block is at most 12.5% larger than the request. But a freed block of a
 * class up to a quarter larger may serve in place of new memory (refill.c).
 * Every class is a multiple of the largest power of two below an eighth of it: that is what makes
 * blocks naturally aligned (see lm_class_aligned). Class 0 serves no request: its list is always
 * empty, so that malloc(0) meets the slow path, which gives it class 1.
 */
#ifndef LM_HEAP_CLASSES_H
#define LM_HEAP_CLASSES_H

#include "base/base.h"

enum {
    LM_SMALL_MOST = 1024,  /* bytes, classes by 16 */
    LM_BLOCK_MOST = 65536, /* bytes, the largest class */
    LM_CLASSES = 113,
    LM_SMALL_CLASSES = 65,
};

LM_INLINE unsigned lm_class_small(size_t bytes) { return (unsigned)((bytes + 15) >> 4); }

/* For LM_SMALL_MOST < bytes <= LM_BLOCK_MOST. With b = log2(bytes), 8 * bytes - 8 shifted down by b
 * is 8..15 within a doubling and 7 at a power of two, which is the last class of the doubling
 * before: so 8 * b + that numbers the classes without a gap, and without a second look at bytes -
 * 1. */
LM_INLINE unsigned lm_class_medium(size_t bytes) {
    unsigned b = 31u ^ (unsigned)__builtin_clz((uint32_t)bytes);
    return ((8 * (uint32_t)bytes - 8) >> b) + 8 * b - 23;
}

/* For 0 < bytes <= LM_BLOCK_MOST. */
LM_INLINE unsigned lm_class_of(size_t bytes) {
    return bytes <= LM_SMALL_MOST ? lm_class_small(bytes) : lm_class_medium(bytes);
}

LM_INLINE size_t lm_class_bytes(unsigned size_class) {
    if (size_class < LM_SMALL_CLASSES) return (size_t)size_class * 16;
    unsigned k = size_class - LM_SMALL_CLASSES;
    return (size_t)(k % 8 + 9) << (k / 8 + 7);
}

/* The class whose blocks are all multiples of align (a power of two up to LM_BLOCK_MOST) and hold
 * bytes; 0 iff there is none. A multiple of align above 1 KiB is rounded up in steps that are an
 * eighth of a power of two: either it is a class itself, or the step is a multiple of align. */
LM_INLINE unsigned lm_class_aligned(size_t bytes, size_t align) {
    size_t rounded = lm_align_up(bytes == 0 ? 1 : bytes, align);
    return rounded <= LM_BLOCK_MOST ? lm_class_of(rounded) : 0;
}

/* Slices of a page: the fewest that hold 16 blocks, or 8 above 16 KiB, and leave at most an eighth
 * unused. Fewer blocks would mean more pages that come and go, each with a lock, a map entry and
 * page faults. */
LM_INLINE size_t lm_class_slices(size_t block_bytes) {
    size_t least = block_bytes > 16384 ? 8 : 16;
    for (size_t slices = 1;; slices++) {
        size_t bytes = slices << 16;
        if (bytes / block_bytes >= least && bytes % block_bytes <= bytes / 8) return slices;
    }
}

#endif

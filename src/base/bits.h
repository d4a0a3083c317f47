/* bits.h: arithmetic on powers of two. Pure functions, no state, no failure. */
#ifndef LM_BASE_BITS_H
#define LM_BASE_BITS_H

#include "base/check.h"
#include "base/compiler.h"

#define LM_KIB ((size_t)1024)
#define LM_MIB (1024 * LM_KIB)
#define LM_GIB (1024 * LM_MIB)

LM_INLINE bool lm_is_pow2(size_t x) { return x != 0 && (x & (x - 1)) == 0; }

/* Returns the smallest multiple of align (a power of two) that is at least x. The result wraps
 * around if x is within align of SIZE_MAX; the caller must bound x first. */
LM_INLINE size_t lm_align_up(size_t x, size_t align) { return (x + align - 1) & ~(align - 1); }

LM_INLINE size_t lm_align_down(size_t x, size_t align) { return x & ~(align - 1); }

/* Returns the index of the highest set bit. x must not be 0. */
LM_STATIC_ASSERT(sizeof(size_t) == sizeof(long), "lm_log2 counts the bits of a long");
LM_INLINE unsigned lm_log2(size_t x) {
    LM_ASSERT(x != 0);
    return (unsigned)(8 * sizeof(x) - 1) ^ (unsigned)__builtin_clzl(x);
}

/* Returns the index of the lowest set bit. x must not be 0. */
LM_INLINE unsigned lm_lowest_bit(uint64_t x) {
    LM_ASSERT(x != 0);
    /* The halves are tested separately: for a 64-bit count, compilers for 32-bit processors would
     * call a library function. */
    if (sizeof(long) == sizeof(x)) return (unsigned)__builtin_ctzl((unsigned long)x);
    uint32_t low = (uint32_t)x;
    return low != 0 ? (unsigned)__builtin_ctz(low)
                    : 32 + (unsigned)__builtin_ctz((uint32_t)(x >> 32));
}

/* Stores a * b in *product. Returns false iff the product overflows. */
LM_INLINE bool lm_mul(size_t a, size_t b, size_t *product) {
    return !__builtin_mul_overflow(a, b, product);
}

#endif

/* memory.c: libloam.so's own memcpy, memmove, memset, memcmp and bcmp.
 *
 *   loam's code ── memcpy ──> this file        (bound when the library is linked)
 *   a program   ── memcpy ──> libc, or a preloaded tool that wraps libc
 *
 * A preloaded tool (a profiler, a tracer, a fault injector) may replace libc's memcpy by a function
 * that allocates. loam copies and clears memory while it holds locks, and the compiler adds calls
 * of its own. So no such call may leave the library. The functions here are hidden: the linker
 * binds the calls of all files of libloam.so to them, and no program sees them. libloam.a does
 * without them, because its programs' malloc stays libc's.
 *
 * They are as fast as glibc's (decision 0037). Up to 64 bytes, overlapping words or vectors of 16
 * bytes cover every size without a loop. Longer pieces use vectors of 16 bytes, and of 32 bytes
 * from WIDE_LEAST bytes on if the processor has them. From STRING_LEAST bytes on, the processor's
 * string instruction copies or fills, if it is fast there.
 *
 * The file is compiled without built-in functions: a compiler must not recognise the loops as
 * memcpy and the like.
 */
#include "base/base.h"

#include <string.h>
#include <strings.h>

enum {
    MEMORY_WORD = 8,
    VECTOR = 16,
    MEMORY_WIDE = 32,
    WIDE_LEAST = 256,
    STRING_LEAST = 512 * 1024
};

/* Types for loads and stores at any address, whatever type is stored there. */
typedef uint16_t two_t __attribute__((aligned(1), may_alias));
typedef uint32_t four_t __attribute__((aligned(1), may_alias));
typedef uint64_t word_t __attribute__((aligned(1), may_alias));
typedef uint64_t vector_t __attribute__((vector_size(VECTOR), aligned(1), may_alias));
typedef uint64_t wide_t __attribute__((vector_size(MEMORY_WIDE), aligned(1), may_alias));
#define AT(type, p) (*(type *)(p))
#define FROM(type, p) (*(const type *)(p))

/* What the processor has: 0 until the first long piece asks, then NO or YES. Atomic: each thread
 * finds the same. Asking takes a microsecond in a virtual machine, so short programs never ask. */
enum { NO = 1, YES = 2 };
static unsigned char has_wide, has_strings;

static LM_COLD bool asked(unsigned char *answer, bool yes) {
    /* Relaxed: an independent byte. */
    lm_store_relaxed(answer, (unsigned char)(yes ? YES : NO));
    return yes;
}

LM_INLINE bool wide_works(void) {
    /* Relaxed: an independent byte. */
    unsigned char known = lm_load_relaxed(&has_wide);
    return LM_LIKELY(known != 0) ? known == YES : asked(&has_wide, lm_cpu_has_wide());
}

LM_INLINE bool strings_fast(void) {
    /* Relaxed: an independent byte. */
    unsigned char known = lm_load_relaxed(&has_strings);
    return LM_LIKELY(known != 0) ? known == YES : asked(&has_strings, lm_cpu_has_strings());
}

/* ---- Copies ---- */

/* Copies fewer than VECTOR bytes. Everything is read before anything is written. */
LM_INLINE void copy_few(char *to, const char *from, size_t bytes) {
    if (bytes >= MEMORY_WORD) {
        uint64_t first = FROM(word_t, from), last = FROM(word_t, from + bytes - 8);
        AT(word_t, to) = first;
        AT(word_t, to + bytes - 8) = last;
    } else if (bytes >= 4) {
        uint32_t first = FROM(four_t, from), last = FROM(four_t, from + bytes - 4);
        AT(four_t, to) = first;
        AT(four_t, to + bytes - 4) = last;
    } else if (bytes >= 2) {
        uint16_t first = FROM(two_t, from), last = FROM(two_t, from + bytes - 2);
        AT(two_t, to) = first;
        AT(two_t, to + bytes - 2) = last;
    } else if (bytes == 1) {
        *to = *from;
    }
}

/* Copies VECTOR to 4 * VECTOR bytes. Everything is read before anything is written. */
LM_INLINE void copy_some(char *to, const char *from, size_t bytes) {
    vector_t first = FROM(vector_t, from), last = FROM(vector_t, from + bytes - VECTOR);
    if (bytes > 2 * VECTOR) {
        vector_t second = FROM(vector_t, from + VECTOR);
        vector_t third = FROM(vector_t, from + bytes - 2 * VECTOR);
        AT(vector_t, to + VECTOR) = second;
        AT(vector_t, to + bytes - 2 * VECTOR) = third;
    }
    AT(vector_t, to) = first;
    AT(vector_t, to + bytes - VECTOR) = last;
}

/* Defines name(to, from, bytes), which copies more than 4 vectors between ranges that do not
 * overlap. The loop writes aligned vectors; the first vector and the last four are copied
 * separately. */
#define DEFINE_COPY(attributes, name, vector) \
    static LM_NOINLINE attributes void name(char *to, const char *from, size_t bytes) { \
        enum { STEP = sizeof(vector) }; \
        char *end = to + bytes; \
        const char *from_end = from + bytes; \
        vector first = FROM(vector, from), a = FROM(vector, from_end - 4 * STEP), \
               b = FROM(vector, from_end - 3 * STEP), c = FROM(vector, from_end - 2 * STEP), \
               d = FROM(vector, from_end - STEP); \
        size_t skip = STEP - ((uintptr_t)to & (STEP - 1)); \
        AT(vector, to) = first; \
        from += skip; \
        for (to += skip; to < end - 4 * STEP; to += 4 * STEP, from += 4 * STEP) { \
            vector e = FROM(vector, from), f = FROM(vector, from + STEP); \
            vector g = FROM(vector, from + 2 * STEP), h = FROM(vector, from + 3 * STEP); \
            AT(vector, to) = e; \
            AT(vector, to + STEP) = f; \
            AT(vector, to + 2 * STEP) = g; \
            AT(vector, to + 3 * STEP) = h; \
        } \
        AT(vector, end - 4 * STEP) = a; \
        AT(vector, end - 3 * STEP) = b; \
        AT(vector, end - 2 * STEP) = c; \
        AT(vector, end - STEP) = d; \
    }
DEFINE_COPY(, memcpy_many, vector_t)
DEFINE_COPY(LM_WIDE_CODE, memcpy_wide, wide_t)

LM_INLINE void memory_copy(char *to, const char *from, size_t bytes) {
    if (bytes < VECTOR)
        copy_few(to, from, bytes);
    else if (bytes <= 4 * VECTOR)
        copy_some(to, from, bytes);
    else if (bytes < WIDE_LEAST || !wide_works())
        memcpy_many(to, from, bytes);
    else if (bytes < STRING_LEAST || !strings_fast())
        memcpy_wide(to, from, bytes);
    else
        lm_string_copy(to, from, bytes);
}

LM_HIDDEN void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    memory_copy((char *)to, (const char *)from, bytes);
    return to;
}

/* A word is read before it is overwritten, in whichever way the ranges overlap. loam itself moves
 * no overlapping ranges, but compilers may. */
LM_HIDDEN void *memmove(void *to, const void *from, size_t bytes) {
    char *at = (char *)to;
    const char *source = (const char *)from;
    uintptr_t up = (uintptr_t)at - (uintptr_t)source;
    if (up >= bytes && -up >= bytes) {
        memory_copy(at, source, bytes);
    } else if (up > bytes) { /* to is below from */
        for (; bytes >= MEMORY_WORD; bytes -= MEMORY_WORD, at += MEMORY_WORD, source += MEMORY_WORD)
            AT(word_t, at) = FROM(word_t, source);
        for (; bytes > 0; bytes--) *at++ = *source++;
    } else {
        for (; bytes >= MEMORY_WORD; bytes -= MEMORY_WORD)
            AT(word_t, at + bytes - MEMORY_WORD) = FROM(word_t, source + bytes - MEMORY_WORD);
        for (; bytes > 0; bytes--) at[bytes - 1] = source[bytes - 1];
    }
    return to;
}

/* ---- Fills ---- */

/* Fills fewer than VECTOR bytes with the bytes of `word`. */
LM_INLINE void fill_few(char *at, uint64_t word, size_t bytes) {
    if (bytes >= MEMORY_WORD) {
        AT(word_t, at) = word;
        AT(word_t, at + bytes - MEMORY_WORD) = word;
    } else if (bytes >= 4) {
        AT(four_t, at) = (uint32_t)word;
        AT(four_t, at + bytes - 4) = (uint32_t)word;
    } else if (bytes >= 2) {
        AT(two_t, at) = (uint16_t)word;
        AT(two_t, at + bytes - 2) = (uint16_t)word;
    } else if (bytes == 1) {
        *at = (char)word;
    }
}

/* Fills VECTOR to 4 * VECTOR bytes. */
LM_INLINE void fill_some(char *at, uint64_t word, size_t bytes) {
    vector_t all = {word, word};
    AT(vector_t, at) = all;
    AT(vector_t, at + bytes - VECTOR) = all;
    if (bytes <= 2 * VECTOR) return;
    AT(vector_t, at + VECTOR) = all;
    AT(vector_t, at + bytes - 2 * VECTOR) = all;
}

/* Defines name(at, word, bytes), which fills more than 4 vectors, as DEFINE_COPY copies. */
#define DEFINE_FILL(attributes, name, vector) \
    static LM_NOINLINE attributes void name(char *at, uint64_t word, size_t bytes) { \
        enum { STEP = sizeof(vector) }; \
        vector all = (vector){0} + word; \
        char *end = at + bytes; \
        AT(vector, at) = all; \
        AT(vector, end - 4 * STEP) = all; \
        AT(vector, end - 3 * STEP) = all; \
        AT(vector, end - 2 * STEP) = all; \
        AT(vector, end - STEP) = all; \
        for (at += STEP - ((uintptr_t)at & (STEP - 1)); at < end - 4 * STEP; at += 4 * STEP) { \
            AT(vector, at) = all; \
            AT(vector, at + STEP) = all; \
            AT(vector, at + 2 * STEP) = all; \
            AT(vector, at + 3 * STEP) = all; \
        } \
    }
DEFINE_FILL(, memset_many, vector_t)
DEFINE_FILL(LM_WIDE_CODE, memset_wide, wide_t)

LM_HIDDEN void *memset(void *to, int byte, size_t bytes) {
    char *at = (char *)to;
    uint64_t word = (uint64_t)(unsigned char)byte * 0x0101010101010101u;
    if (bytes < VECTOR)
        fill_few(at, word, bytes);
    else if (bytes <= 4 * VECTOR)
        fill_some(at, word, bytes);
    else if (bytes < WIDE_LEAST || !wide_works())
        memset_many(at, word, bytes);
    else if (bytes < STRING_LEAST || !strings_fast())
        memset_wide(at, word, bytes);
    else
        lm_string_fill(at, byte, bytes);
    return to;
}

/* ---- Comparisons ---- */

LM_HIDDEN int memcmp(const void *a, const void *b, size_t bytes) {
    const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
    for (; bytes >= MEMORY_WORD && FROM(word_t, x) == FROM(word_t, y); bytes -= MEMORY_WORD) {
        x += MEMORY_WORD;
        y += MEMORY_WORD;
    }
    for (; bytes > 0; bytes--, x++, y++) {
        if (*x != *y) return *x - *y;
    }
    return 0;
}

LM_HIDDEN int bcmp(const void *a, const void *b, size_t bytes) { return memcmp(a, b, bytes); }

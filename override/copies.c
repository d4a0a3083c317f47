/* copies.c: memcpy and its family, with a look at the bounds of loam's objects first: libloam_copies.so.
 *
 *   program ── memcpy(to, from, n) ──> here ── loam_check_copy ──> report, abort: nothing is written yet
 *                                        └──── the C library's memcpy
 *
 * In the secure build it is part of libloam-secure.so, and calls lm_copy_fits, which is inline. There memcpy, memmove
 * and memset of fewer than LEAST bytes are not looked at: most calls are that short, and a look costs more than such a
 * copy. What a short copy damages is found when the object is freed.
 *
 * For other builds it is a library of its own, to be preloaded after libloam.so:
 * LD_PRELOAD=libloam.so:libloam_copies.so. Choose it to find overflows and overreads by library calls where they
 * happen, in a release build; not loaded, it costs nothing. All it knows of loam is loam_check_copy, which it looks for
 * when it is initialised. Until then, and in a process without libloam.so, it copies unchecked.
 *
 * Before its constructor has run, it copies by plain loops, because other libraries' start-up code may call it. loam's
 * own calls, from within libloam.so, are not checked: it writes what lies around objects.
 * It cannot see copies that the compiler has made inline, nor those between functions of libc itself, nor what leaves
 * one object for another inside of a block (docs/guide/copies.md).
 * Invariant: a copy that is reported has written nothing.
 */
#define _GNU_SOURCE 1 /* RTLD_NEXT, mempcpy and the like */
#if LM_COPIES_INSIDE  /* libloam-secure.so */
#include "api/api.h"
#else
#include "base/base.h"
#endif

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <strings.h>
#include <wchar.h>

/* ---- What is called, once this library is initialised ---- */

typedef int check_t(const char *function, void *to, const void *from, size_t bytes);
typedef void *copy_t(void *to, const void *from, size_t bytes);
typedef void *set_t(void *to, int value, size_t bytes);

/* Written once, before there are threads; NULL until then. */
#if !LM_COPIES_INSIDE
static check_t *check;
#endif
static copy_t *real_memcpy, *real_memmove;
static set_t *real_memset;
static uintptr_t loam_start;
static size_t loam_bytes;

/* ISO C has no conversion from object to function pointers; POSIX promises it. */
typedef union {
    void *object;
    check_t *check;
    copy_t *copy;
    set_t *set;
} found_t;

static found_t find(void *where, const char *name) {
    found_t found = {dlsym(where, name)};
    return found;
}

/* Where the segments of the library lie that *data is in. */
static int measure(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    uintptr_t function = *(const uintptr_t *)data, from = UINTPTR_MAX, to = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_LOAD) continue;
        uintptr_t start = info->dlpi_addr + header->p_vaddr, end = start + header->p_memsz;
        if (start < from) from = start;
        if (end > to) to = end;
    }
    if (function < from || function >= to) return 0;
    /* In the program itself loam's calls cannot be told from the program's. */
    if (info->dlpi_name == NULL || info->dlpi_name[0] == '\0') return 1;
    loam_start = from;
    loam_bytes = to - from;
    return 1;
}

__attribute__((constructor)) static void begin(void) {
#if LM_COPIES_INSIDE
    uintptr_t function = (uintptr_t)&real_memcpy;
#else
    found_t checks = find(RTLD_DEFAULT, "loam_check_copy");
    uintptr_t function = (uintptr_t)checks.object;
#endif
    if (function != 0) (void)dl_iterate_phdr(measure, &function);
    real_memcpy = find(RTLD_NEXT, "memcpy").copy;
    real_memmove = find(RTLD_NEXT, "memmove").copy;
    real_memset = find(RTLD_NEXT, "memset").set;
#if !LM_COPIES_INSIDE
    if (loam_bytes != 0) check = checks.check;
#endif
}

/* ---- Copies as such ---- */

LM_INLINE void *copy(void *to, const void *from, size_t bytes) {
    if (LM_LIKELY(real_memcpy != NULL)) return real_memcpy(to, from, bytes);
    for (size_t i = 0; i < bytes; i++) ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

LM_INLINE void *move(void *to, const void *from, size_t bytes) {
    if (LM_LIKELY(real_memmove != NULL)) return real_memmove(to, from, bytes);
    char *t = (char *)to;
    const char *f = (const char *)from;
    if ((uintptr_t)t - (uintptr_t)f >= bytes) { /* to is not inside of from: upward */
        for (size_t i = 0; i < bytes; i++) t[i] = f[i];
    } else {
        while (bytes-- > 0) t[bytes] = f[bytes];
    }
    return to;
}

LM_INLINE void *fill(void *to, int value, size_t bytes) {
    if (LM_LIKELY(real_memset != NULL)) return real_memset(to, value, bytes);
    for (size_t i = 0; i < bytes; i++) ((char *)to)[i] = (char)value;
    return to;
}

/* ---- The look at bounds ---- */

/* In whichever function it is inlined: always an exported one. */
#define CALLER ((uintptr_t)__builtin_return_address(0))

/* Whether the copy may be made; to or from may be NULL. */
#if LM_COPIES_INSIDE
/* Whether it may be, for certain. */
LM_INLINE bool fits(const void *to, const void *from, size_t bytes) {
    return (to == NULL || LM_LIKELY(lm_copy_fits(to, bytes))) &&
           (from == NULL || LM_LIKELY(lm_copy_fits(from, bytes)));
}

/* Addresses, not pointers, because no byte of either is read. */
static LM_NOINLINE bool look(const char *function, uintptr_t to, uintptr_t from, size_t bytes,
                             uintptr_t caller) {
    if (caller - loam_start < loam_bytes) return true;
    bool into = !lm_copy_looks((const void *)to, bytes);
    if (!into && lm_copy_looks((const void *)from, bytes)) return true;
    lm_copy_report(function, into ? "to" : "from", (const void *)(into ? to : from), bytes);
    return false;
}

LM_INLINE bool may(const char *function, const void *to, const void *from, size_t bytes,
                   uintptr_t caller) {
    return fits(to, from, bytes) || look(function, (uintptr_t)to, (uintptr_t)from, bytes, caller);
}
#else
LM_INLINE bool fits(const void *to, const void *from, size_t bytes) {
    (void)to, (void)from;
    return check == NULL || bytes == 0;
}

LM_INLINE bool may(const char *function, void *to, const void *from, size_t bytes,
                   uintptr_t caller) {
    if (LM_UNLIKELY(fits(to, from, bytes)) || caller - loam_start < loam_bytes) return true;
    return LM_LIKELY(check(function, to, from, bytes) == 0);
}
#endif

/* Wide characters in bytes: more than there can be stays more. */
LM_INLINE size_t wide(size_t n) {
    return n <= SIZE_MAX / sizeof(wchar_t) ? n * sizeof(wchar_t) : SIZE_MAX;
}

/* Ends a program that was compiled with _FORTIFY_SOURCE as it would end without us. */
LM_NORETURN void __chk_fail(void);

/* Defines a function and its fortified form, which knows `room`, the size of *to, and how many bytes are `needed`. */
#define WITH_CHK(type, name, parameters, parameters_chk, arguments, needed) \
    LM_INLINE type name##_at parameters; \
    LM_EXPORT type name parameters; \
    LM_EXPORT type __##name##_chk parameters_chk; \
    LM_EXPORT type name parameters { return name##_at arguments; } \
    LM_EXPORT type __##name##_chk parameters_chk { \
        if (LM_UNLIKELY((needed) > room)) __chk_fail(); \
        return name##_at arguments; \
    } \
    LM_INLINE type name##_at parameters

#define COPY (void *to, const void *from, size_t n)
#define COPY_CHK (void *to, const void *from, size_t n, size_t room)
#define TEXT (char *to, const char *from)
#define TEXT_CHK (char *to, const char *from, size_t room)
#define TEXT_N (char *to, const char *from, size_t n)
#define TEXT_N_CHK (char *to, const char *from, size_t n, size_t room)
#define WIDE (wchar_t * to, const wchar_t *from, size_t n)
#define WIDE_CHK (wchar_t * to, const wchar_t *from, size_t n, size_t room)

/* ---- Bytes ---- */

/* The three that programs call most: short ones first, without a look. Each part ends in a jump. */
#if LM_COPIES_INSIDE
enum { LEAST = 16 };
#else
enum { LEAST = 1 };
#endif

static LM_NOINLINE void *memcpy_slow(void *to, const void *from, size_t n, uintptr_t caller) {
    return n < LEAST || may("memcpy", to, from, n, caller) ? copy(to, from, n) : to;
}

static LM_NOINLINE void *memmove_slow(void *to, const void *from, size_t n, uintptr_t caller) {
    return n < LEAST || may("memmove", to, from, n, caller) ? move(to, from, n) : to;
}

static LM_NOINLINE void *memset_slow(void *to, int value, size_t n, uintptr_t caller) {
    return n < LEAST || may("memset", to, NULL, n, caller) ? fill(to, value, n) : to;
}

static LM_NOINLINE void *memcpy_long(void *to, const void *from, size_t n, uintptr_t caller) {
    if (LM_LIKELY(fits(to, from, n)) && LM_LIKELY(real_memcpy != NULL))
        return real_memcpy(to, from, n);
    return memcpy_slow(to, from, n, caller);
}

static LM_NOINLINE void *memmove_long(void *to, const void *from, size_t n, uintptr_t caller) {
    if (LM_LIKELY(fits(to, from, n)) && LM_LIKELY(real_memmove != NULL))
        return real_memmove(to, from, n);
    return memmove_slow(to, from, n, caller);
}

static LM_NOINLINE void *memset_long(void *to, int value, size_t n, uintptr_t caller) {
    if (LM_LIKELY(fits(to, NULL, n)) && LM_LIKELY(real_memset != NULL))
        return real_memset(to, value, n);
    return memset_slow(to, value, n, caller);
}

WITH_CHK(void *, memcpy, COPY, COPY_CHK, (to, from, n), n) {
    if (n < LEAST && LM_LIKELY(real_memcpy != NULL)) return real_memcpy(to, from, n);
    return memcpy_long(to, from, n, CALLER);
}

WITH_CHK(void *, memmove, COPY, COPY_CHK, (to, from, n), n) {
    if (n < LEAST && LM_LIKELY(real_memmove != NULL)) return real_memmove(to, from, n);
    return memmove_long(to, from, n, CALLER);
}

WITH_CHK(void *, memset, (void *to, int value, size_t n),
         (void *to, int value, size_t n, size_t room), (to, value, n), n) {
    if (n < LEAST && LM_LIKELY(real_memset != NULL)) return real_memset(to, value, n);
    return memset_long(to, value, n, CALLER);
}

WITH_CHK(void *, mempcpy, COPY, COPY_CHK, (to, from, n), n) {
    if (may("mempcpy", to, from, n, CALLER)) copy(to, from, n);
    return (char *)to + n;
}

/* As it is: a compiler warns where a function that only writes there has its contents looked at. */
static void *place(void *to) { return (void *)(uintptr_t)to; }

/* The compiler, which sees no call of memset here, cannot leave it out. */
LM_EXPORT void explicit_bzero(void *to, size_t n) {
    if (may("explicit_bzero", place(to), NULL, n, CALLER)) fill(to, 0, n);
}

LM_EXPORT void __explicit_bzero_chk(void *to, size_t n, size_t room);
LM_EXPORT void __explicit_bzero_chk(void *to, size_t n, size_t room) {
    if (LM_UNLIKELY(n > room)) __chk_fail();
    if (may("explicit_bzero", to, NULL, n, CALLER)) fill(to, 0, n);
}

LM_EXPORT void bzero(void *to, size_t n) {
    if (may("bzero", to, NULL, n, CALLER)) fill(to, 0, n);
}

LM_EXPORT void bcopy(const void *from, void *to, size_t n) {
    if (may("bcopy", to, from, n, CALLER)) move(to, from, n);
}

LM_EXPORT void *memccpy(void *restrict to, const void *restrict from, int last, size_t n) {
    const char *at = (const char *)memchr(from, last, n);
    size_t bytes = at != NULL ? (size_t)(at - (const char *)from) + 1 : n;
    if (may("memccpy", place(to), from, bytes, CALLER)) copy(to, from, bytes);
    return at != NULL ? (char *)to + bytes : NULL;
}

/* ---- Texts ---- */

WITH_CHK(char *, strcpy, TEXT, TEXT_CHK, (to, from), strlen(from) + 1) {
    size_t bytes = strlen(from) + 1;
    if (may("strcpy", to, from, bytes, CALLER)) copy(to, from, bytes);
    return to;
}

WITH_CHK(char *, stpcpy, TEXT, TEXT_CHK, (to, from), strlen(from) + 1) {
    size_t bytes = strlen(from) + 1;
    if (!may("stpcpy", to, from, bytes, CALLER)) return to;
    copy(to, from, bytes);
    return to + bytes - 1;
}

/* All n bytes of to are written, those of from read up to its end. */
LM_INLINE char *copy_padded(const char *function, char *to, const char *from, size_t n,
                            uintptr_t caller) {
    size_t length = strnlen(from, n), read = length < n ? length + 1 : n;
    if (!may(function, to, NULL, n, caller) || !may(function, NULL, from, read, caller)) return to;
    copy(to, from, length);
    fill(to + length, 0, n - length);
    return to + length;
}

WITH_CHK(char *, strncpy, TEXT_N, TEXT_N_CHK, (to, from, n), n) {
    copy_padded("strncpy", to, from, n, CALLER);
    return to;
}

WITH_CHK(char *, stpncpy, TEXT_N, TEXT_N_CHK, (to, from, n), n) {
    return copy_padded("stpncpy", to, from, n, CALLER);
}

WITH_CHK(char *, strcat, TEXT, TEXT_CHK, (to, from), strlen(to) + strlen(from) + 1) {
    char *end = to + strlen(to);
    size_t bytes = strlen(from) + 1;
    if (may("strcat", end, from, bytes, CALLER)) copy(end, from, bytes);
    return to;
}

WITH_CHK(char *, strncat, TEXT_N, TEXT_N_CHK, (to, from, n), strlen(to) + strnlen(from, n) + 1) {
    char *end = to + strlen(to);
    size_t length = strnlen(from, n);
    if (!may("strncat", end, NULL, length + 1, CALLER)) return to;
    if (!may("strncat", NULL, from, length, CALLER)) return to;
    copy(end, from, length);
    end[length] = '\0';
    return to;
}

/* ---- Wide characters; the fortified forms count them, too ---- */

WITH_CHK(wchar_t *, wmemcpy, WIDE, WIDE_CHK, (to, from, n), n) {
    if (may("wmemcpy", to, from, wide(n), CALLER)) copy(to, from, wide(n));
    return to;
}

WITH_CHK(wchar_t *, wmemmove, WIDE, WIDE_CHK, (to, from, n), n) {
    if (may("wmemmove", to, from, wide(n), CALLER)) move(to, from, wide(n));
    return to;
}

WITH_CHK(wchar_t *, wmemset, (wchar_t * to, wchar_t value, size_t n),
         (wchar_t * to, wchar_t value, size_t n, size_t room), (to, value, n), n) {
    if (!may("wmemset", to, NULL, wide(n), CALLER)) return to;
    for (size_t i = 0; i < n; i++) to[i] = value;
    return to;
}

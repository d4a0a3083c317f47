/* copies.c: memcpy and its family, which check the bounds of loam's objects first:
 * libloam_copies.so.
 *
 *   program ── memcpy(to, from, n) ──> here ── loam_check_copy ──> report, abort; nothing written
 *                                        └──── the C library's memcpy
 *
 * In the secure build it is part of libloam-secure.so, and calls lm_copy_fits, which is inline.
 * There memcpy, memmove and memset of fewer than LEAST bytes are not checked: most calls are that
 * short, and a check costs more than the copy. Damage by a short copy is found when the object is
 * freed.
 *
 * For other builds it is a separate library, to be preloaded after libloam.so:
 * LD_PRELOAD=libloam.so:libloam_copies.so. Choose it to find overflows and overreads by library
 * calls where they happen, in a release build. It costs nothing unless it is loaded. It uses only
 * loam_check_copy and loam_room of loam, which it looks up when it is initialised. Until then, and
 * in a process without libloam.so, it copies unchecked.
 *
 * Before its constructor has run, it copies by plain loops, because other libraries' start-up code
 * may call it. loam's own calls, from within libloam.so, are not checked, because loam writes
 * around objects. It cannot see copies that the compiler has made inline, copies between functions
 * of libc itself, or a copy from one object into another inside one block (docs/guide/copies.md).
 * Invariant: a copy that is reported has written nothing.
 */
#define _GNU_SOURCE 1 /* RTLD_NEXT, mempcpy and the like */
#include "copies.h"

#include <dlfcn.h>
#include <link.h>

/* ---- Functions that are called, once this library is initialised ---- */

lm_copies_t lm_copies;

/* Converts object pointers to function pointers, which POSIX promises and ISO C does not. */
typedef union {
    void *object;
    lm_copies_check_t *check;
    lm_copies_room_t *room;
    lm_copies_copy_t *copy;
    lm_copies_set_t *set;
} found_t;

static found_t copies_find(void *where, const char *name) {
    found_t found = {dlsym(where, name)};
    return found;
}

/* A callback of dl_iterate_phdr. Stores the bounds of the library that contains the address *data.
 * Returns 1 iff this is the library. */
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
    /* In the program itself, loam's calls cannot be told from the program's. */
    if (info->dlpi_name == NULL || info->dlpi_name[0] == '\0') return 1;
    lm_copies.loam_start = from;
    lm_copies.loam_bytes = to - from;
    return 1;
}

__attribute__((constructor)) static void begin(void) {
#if LM_COPIES_INSIDE
    uintptr_t function = (uintptr_t)&lm_copies.memcpy;
#else
    found_t checks = copies_find(RTLD_DEFAULT, "loam_check_copy");
    uintptr_t function = (uintptr_t)checks.object;
#endif
    if (function != 0) (void)dl_iterate_phdr(measure, &function);
    lm_copies.memcpy = copies_find(RTLD_NEXT, "memcpy").copy;
    lm_copies.memmove = copies_find(RTLD_NEXT, "memmove").copy;
    lm_copies.memset = copies_find(RTLD_NEXT, "memset").set;
#if !LM_COPIES_INSIDE
    if (lm_copies.loam_bytes == 0) return;
    lm_copies.room = copies_find(RTLD_DEFAULT, "loam_room").room;
    lm_copies.check = checks.check;
#endif
}

/* ---- The check of bounds ---- */

#if LM_COPIES_INSIDE
bool lm_copies_look(const char *function, uintptr_t to, uintptr_t from, size_t bytes,
                    uintptr_t caller) {
    if (caller - lm_copies.loam_start < lm_copies.loam_bytes) return true;
    bool into = !lm_copy_looks((const void *)to, bytes);
    if (!into && lm_copy_looks((const void *)from, bytes)) return true;
    lm_copy_report(function, into ? "to" : "from", (const void *)(into ? to : from), bytes);
    return false;
}

size_t lm_copies_room(const void *p, bool far, uintptr_t caller) {
    return caller - lm_copies.loam_start < lm_copies.loam_bytes ? SIZE_MAX : lm_copy_room(p, far);
}
#else
size_t lm_copies_room(const void *p, bool far, uintptr_t caller) {
    if (far || lm_copies.room == NULL) return SIZE_MAX;
    return caller - lm_copies.loam_start < lm_copies.loam_bytes ? SIZE_MAX : lm_copies.room(p);
}
#endif

/* Defines a function and its fortified form. That form gets `room`, the size of *to in units of
 * `needed`, and ends the program if more is needed. */
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
#define COPIES_WIDE (wchar_t * to, const wchar_t *from, size_t n)
#define WIDE_CHK (wchar_t * to, const wchar_t *from, size_t n, size_t room)

/* ---- Bytes ---- */

/* The three functions that programs call most. Short copies come first, unchecked. Each part ends
 * in a jump. */
#if LM_COPIES_INSIDE
enum { COPIES_LEAST = 16 };
#else
enum { COPIES_LEAST = 1 };
#endif

static LM_NOINLINE void *memcpy_slow(void *to, const void *from, size_t n, uintptr_t caller) {
    return n < COPIES_LEAST || lm_copies_may("memcpy", to, from, n, caller)
               ? lm_copies_copy(to, from, n)
               : to;
}

static LM_NOINLINE void *memmove_slow(void *to, const void *from, size_t n, uintptr_t caller) {
    return n < COPIES_LEAST || lm_copies_may("memmove", to, from, n, caller)
               ? lm_copies_move(to, from, n)
               : to;
}

static LM_NOINLINE void *memset_slow(void *to, int value, size_t n, uintptr_t caller) {
    return n < COPIES_LEAST || lm_copies_may("memset", to, NULL, n, caller)
               ? lm_copies_fill(to, value, n)
               : to;
}

static LM_NOINLINE void *memcpy_long(void *to, const void *from, size_t n, uintptr_t caller) {
    if (LM_LIKELY(lm_copies_fits(to, from, n)) && LM_LIKELY(lm_copies.memcpy != NULL))
        return lm_copies.memcpy(to, from, n);
    return memcpy_slow(to, from, n, caller);
}

static LM_NOINLINE void *memmove_long(void *to, const void *from, size_t n, uintptr_t caller) {
    if (LM_LIKELY(lm_copies_fits(to, from, n)) && LM_LIKELY(lm_copies.memmove != NULL))
        return lm_copies.memmove(to, from, n);
    return memmove_slow(to, from, n, caller);
}

static LM_NOINLINE void *memset_long(void *to, int value, size_t n, uintptr_t caller) {
    if (LM_LIKELY(lm_copies_fits(to, NULL, n)) && LM_LIKELY(lm_copies.memset != NULL))
        return lm_copies.memset(to, value, n);
    return memset_slow(to, value, n, caller);
}

WITH_CHK(void *, memcpy, COPY, COPY_CHK, (to, from, n), n) {
    if (n < COPIES_LEAST && LM_LIKELY(lm_copies.memcpy != NULL))
        return lm_copies.memcpy(to, from, n);
    return memcpy_long(to, from, n, LM_CALLER);
}

WITH_CHK(void *, memmove, COPY, COPY_CHK, (to, from, n), n) {
    if (n < COPIES_LEAST && LM_LIKELY(lm_copies.memmove != NULL))
        return lm_copies.memmove(to, from, n);
    return memmove_long(to, from, n, LM_CALLER);
}

WITH_CHK(void *, memset, (void *to, int value, size_t n),
         (void *to, int value, size_t n, size_t room), (to, value, n), n) {
    if (n < COPIES_LEAST && LM_LIKELY(lm_copies.memset != NULL))
        return lm_copies.memset(to, value, n);
    return memset_long(to, value, n, LM_CALLER);
}

WITH_CHK(void *, mempcpy, COPY, COPY_CHK, (to, from, n), n) {
    if (lm_copies_may("mempcpy", to, from, n, LM_CALLER)) lm_copies_copy(to, from, n);
    return (char *)to + n;
}

/* Returns the pointer through an integer: a compiler warns if a pointer parameter that is only
 * written through is passed to a function that may read. */
static void *copies_place(void *to) { return (void *)(uintptr_t)to; }

/* The compiler cannot omit this fill, because it sees no call of memset here. */
LM_EXPORT void explicit_bzero(void *to, size_t n) {
    if (lm_copies_may("explicit_bzero", copies_place(to), NULL, n, LM_CALLER))
        lm_copies_fill(to, 0, n);
}

LM_EXPORT void __explicit_bzero_chk(void *to, size_t n, size_t room);
LM_EXPORT void __explicit_bzero_chk(void *to, size_t n, size_t room) {
    if (LM_UNLIKELY(n > room)) __chk_fail();
    if (lm_copies_may("explicit_bzero", to, NULL, n, LM_CALLER)) lm_copies_fill(to, 0, n);
}

LM_EXPORT void bzero(void *to, size_t n) {
    if (lm_copies_may("bzero", to, NULL, n, LM_CALLER)) lm_copies_fill(to, 0, n);
}

LM_EXPORT void bcopy(const void *from, void *to, size_t n) {
    if (lm_copies_may("bcopy", to, from, n, LM_CALLER)) lm_copies_move(to, from, n);
}

LM_EXPORT void *memccpy(void *restrict to, const void *restrict from, int last, size_t n) {
    size_t room = lm_copies_room(from, false, LM_CALLER), most = n < room ? n : room;
    const char *at = (const char *)memchr(from, last, most);
    if (LM_UNLIKELY(at == NULL && most < n)) {
        /* The object ends before n. Reading goes on iff the user set this mistake to be ignored. */
        if (!lm_copies_may("memccpy", NULL, from, room + 1, LM_CALLER)) return NULL;
        at = (const char *)memchr(from, last, n);
    }
    size_t bytes = at != NULL ? (size_t)(at - (const char *)from) + 1 : n;
    if (lm_copies_may("memccpy", copies_place(to), from, bytes, LM_CALLER))
        lm_copies_copy(to, from, bytes);
    return at != NULL ? (char *)to + bytes : NULL;
}

/* ---- Wide characters, in which the fortified forms count, too ---- */

WITH_CHK(wchar_t *, wmemcpy, COPIES_WIDE, WIDE_CHK, (to, from, n), n) {
    if (lm_copies_may("wmemcpy", to, from, lm_copies_wide(n), LM_CALLER))
        lm_copies_copy(to, from, lm_copies_wide(n));
    return to;
}

WITH_CHK(wchar_t *, wmemmove, COPIES_WIDE, WIDE_CHK, (to, from, n), n) {
    if (lm_copies_may("wmemmove", to, from, lm_copies_wide(n), LM_CALLER))
        lm_copies_move(to, from, lm_copies_wide(n));
    return to;
}

WITH_CHK(wchar_t *, wmemset, (wchar_t * to, wchar_t value, size_t n),
         (wchar_t * to, wchar_t value, size_t n, size_t room), (to, value, n), n) {
    if (!lm_copies_may("wmemset", to, NULL, lm_copies_wide(n), LM_CALLER)) return to;
    for (size_t i = 0; i < n; i++) to[i] = value;
    return to;
}

WITH_CHK(wchar_t *, wmempcpy, COPIES_WIDE, WIDE_CHK, (to, from, n), n) {
    if (lm_copies_may("wmempcpy", to, from, lm_copies_wide(n), LM_CALLER))
        lm_copies_copy(to, from, lm_copies_wide(n));
    return to + n;
}

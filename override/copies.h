/* copies.h: declarations shared by copies.c and copies_text.c: the check of bounds, and the C
 * library's own copies.
 *
 *   strcpy(to, from) ── lm_copies_room: how far can the text be read?
 *                    ├─ lm_copies_may:  has the object room? ── no: a report
 *                    └─ lm_copies_copy: the C library's memcpy
 *
 * Nothing here reads a byte that the caller has not found to be readable; only loam's knowledge of
 * the object is used. Before the library's constructor has run, nothing is checked.
 */
#ifndef LOAM_OVERRIDE_COPIES_H
#define LOAM_OVERRIDE_COPIES_H

#if LM_COPIES_INSIDE /* libloam-secure.so */
#include "api/api.h"
#else
#include "base/base.h"
#endif

#include <string.h>
#include <strings.h>
#include <wchar.h>

typedef int lm_copies_check_t(const char *function, void *to, const void *from, size_t bytes);
typedef size_t lm_copies_room_t(const void *p);
typedef void *lm_copies_copy_t(void *to, const void *from, size_t bytes);
typedef void *lm_copies_set_t(void *to, int value, size_t bytes);

/* Written once, before there are threads. Each function is NULL until then. */
typedef struct lm_copies {
#if !LM_COPIES_INSIDE
    lm_copies_check_t *check;
    lm_copies_room_t *room;
#endif
    lm_copies_copy_t *memcpy, *memmove;
    lm_copies_set_t *memset;
    /* The segments of loam, whose own calls are not checked. */
    uintptr_t loam_start;
    size_t loam_bytes;
} lm_copies_t;

extern LM_HIDDEN lm_copies_t lm_copies;

/* ---- Unchecked copies ---- */

LM_INLINE void *lm_copies_copy(void *to, const void *from, size_t bytes) {
    if (LM_LIKELY(lm_copies.memcpy != NULL)) return lm_copies.memcpy(to, from, bytes);
    for (size_t i = 0; i < bytes; i++) ((char *)to)[i] = ((const char *)from)[i];
    return to;
}

LM_INLINE void *lm_copies_move(void *to, const void *from, size_t bytes) {
    if (LM_LIKELY(lm_copies.memmove != NULL)) return lm_copies.memmove(to, from, bytes);
    char *t = (char *)to;
    const char *f = (const char *)from;
    if ((uintptr_t)t - (uintptr_t)f >= bytes) { /* to is not inside from: copy upwards */
        for (size_t i = 0; i < bytes; i++) t[i] = f[i];
    } else {
        while (bytes-- > 0) t[bytes] = f[bytes];
    }
    return to;
}

LM_INLINE void *lm_copies_fill(void *to, int value, size_t bytes) {
    if (LM_LIKELY(lm_copies.memset != NULL)) return lm_copies.memset(to, value, bytes);
    for (size_t i = 0; i < bytes; i++) ((char *)to)[i] = (char)value;
    return to;
}

/* ---- The check of bounds ---- */

/* The caller of the function into which this is inlined, which is always an exported one. */
#define LM_CALLER ((uintptr_t)__builtin_return_address(0))

/* lm_copies_may returns whether the copy may be made; it reports the copy otherwise. to or from may
 * be NULL. */
#if LM_COPIES_INSIDE
/* Returns true if the copy certainly fits. False means that it must be checked further. */
LM_INLINE bool lm_copies_fits(const void *to, const void *from, size_t bytes) {
    return (to == NULL || LM_LIKELY(lm_copy_fits(to, bytes))) &&
           (from == NULL || LM_LIKELY(lm_copy_fits(from, bytes)));
}

/* Checks the copy further, and reports it if it does not fit. It takes addresses, not pointers,
 * because it reads no byte of either. */
LM_HIDDEN bool lm_copies_look(const char *function, uintptr_t to, uintptr_t from, size_t bytes,
                              uintptr_t caller);

LM_INLINE bool lm_copies_may(const char *function, const void *to, const void *from, size_t bytes,
                             uintptr_t caller) {
    return lm_copies_fits(to, from, bytes) ||
           lm_copies_look(function, (uintptr_t)to, (uintptr_t)from, bytes, caller);
}
#else
LM_INLINE bool lm_copies_fits(const void *to, const void *from, size_t bytes) {
    (void)to, (void)from;
    return lm_copies.check == NULL || bytes == 0;
}

LM_INLINE bool lm_copies_may(const char *function, void *to, const void *from, size_t bytes,
                             uintptr_t caller) {
    if (LM_UNLIKELY(lm_copies_fits(to, from, bytes)) ||
        caller - lm_copies.loam_start < lm_copies.loam_bytes)
        return true;
    return LM_LIKELY(lm_copies.check(function, to, from, bytes) == 0);
}
#endif

/* Returns the bytes of n wide characters; SIZE_MAX if they are more than there can be. */
LM_INLINE size_t lm_copies_wide(size_t n) {
    return n <= SIZE_MAX / sizeof(wchar_t) ? n * sizeof(wchar_t) : SIZE_MAX;
}

/* Returns the bytes from p to the end of its object; SIZE_MAX if p is in no object of loam. far:
 * the object may begin far before p, if this library can find that. */
LM_HIDDEN size_t lm_copies_room(const void *p, bool far, uintptr_t caller);

/* Ends a program that was compiled with _FORTIFY_SOURCE as it would end without loam. */
LM_NORETURN void __chk_fail(void);

#endif

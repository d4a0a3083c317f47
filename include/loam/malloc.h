/* loam/malloc.h: the general-purpose heap under its own names.
 *
 * Choose it where a program wants loam beside the C library's malloc, or cannot be preloaded. A program
 * under LD_PRELOAD=libloam.so, or linked with loam-override.o, gets the same heap from plain malloc.
 * Objects from either side may be freed by the other when both are loam. It cannot free what another
 * allocator gave.
 *
 * All functions may be called from any thread; an object may be freed by another thread than the one
 * that allocated it. Sizes are in bytes. Objects are aligned to 16, or to what was asked for. A failed
 * call returns NULL with errno ENOMEM and changes nothing; free functions keep errno.
 * Cost: 12 instructions up to 1 KiB and 16 up to 64 KiB on the local path, 16 to free, x86-64.
 */
#ifndef LOAM_MALLOC_H
#define LOAM_MALLOC_H

#include "loam/types.h"

LOAM_BEGIN

/* An object of at least size bytes, contents undefined; size 0 gives an object too.
 * NULL iff there is no memory or size exceeds PTRDIFF_MAX. */
LOAM_API void *loam_malloc(size_t size) LOAM_NOEXCEPT LOAM_MALLOC LOAM_SIZE(1);

/* The same for count objects of size bytes each, zeroed. NULL also iff count * size overflows. */
LOAM_API void *loam_calloc(size_t count, size_t size) LOAM_NOEXCEPT LOAM_MALLOC LOAM_SIZES(1, 2);

/* Changes the size of *p, which may move; the first min(old, new) bytes stay. p == NULL allocates;
 * size 0 frees p and returns NULL. NULL otherwise iff there is no memory: p is as it was. */
LOAM_API void *loam_realloc(void *p, size_t size) LOAM_NOEXCEPT LOAM_NODISCARD LOAM_SIZE(2);

/* realloc to count * size bytes. NULL also iff that overflows: p is as it was. */
LOAM_API void *loam_reallocarray(void *p, size_t count, size_t size) LOAM_NOEXCEPT LOAM_NODISCARD
    LOAM_SIZES(2, 3);

/* An object whose address is a multiple of align, a power of two. NULL also, with errno EINVAL, iff align
 * is none. Nothing beyond the size class is allocated for it up to an alignment of 64 KiB. */
LOAM_API void *loam_malloc_aligned(size_t size, size_t align) LOAM_NOEXCEPT LOAM_MALLOC LOAM_SIZE(1)
    LOAM_ALIGN(2);

/* Takes an object back; NULL is allowed and does nothing. */
LOAM_API void loam_free(void *p) LOAM_NOEXCEPT;

/* The same where the caller still knows what it asked for (C23). */
LOAM_API void loam_free_sized(void *p, size_t size) LOAM_NOEXCEPT;
LOAM_API void loam_free_aligned_sized(void *p, size_t align, size_t size) LOAM_NOEXCEPT;

/* Bytes of *p that may be used, all of them: at least what was asked for. 0 iff p is NULL. */
LOAM_API size_t loam_usable_size(const void *p) LOAM_NOEXCEPT;

/* What an object of size bytes would really offer, or a little more where it fills a hole. */
LOAM_API size_t loam_good_size(size_t size) LOAM_NOEXCEPT;

/* Gives back to the system all memory that is free, at once: what the calling thread holds ready, and
 * every free span of the process. Returns the bytes given back. Without this call the same happens
 * LOAM_PURGE_DELAY milliseconds after memory became free. */
LOAM_API size_t loam_collect(void) LOAM_NOEXCEPT;

/* 0: ends loam's background worker and starts none again, until called with 1. Needed only by programs
 * linked statically that forbid themselves system calls or change credentials: libloam.so does it by
 * itself at prctl, unshare, setns and the setuid family. */
LOAM_API void loam_worker_allow(int allowed) LOAM_NOEXCEPT;

/* Writes what the heap holds to standard error, in at most 255 bytes a line, without allocating. */
LOAM_API void loam_stats_print(void) LOAM_NOEXCEPT;

/* LOAM_VERSION of the library in the process. */
LOAM_API int loam_version(void) LOAM_NOEXCEPT;

LOAM_END

#endif

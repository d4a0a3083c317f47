/* loam/malloc.h: the general-purpose heap under loam's own names.
 *
 *   char *text = loam_malloc(100);
 *   text = loam_realloc(text, 200);    returns NULL if there is no memory
 *   loam_free(text);
 *
 * Choose it for a program that uses loam beside the C library's malloc, or that cannot be
 * preloaded. A program that runs with LD_PRELOAD=libloam.so, or that is linked with
 * loam-override.o, gets the same heap from plain malloc. Such a program may free an object of
 * either side by the other side's free; gcc does not know that, so pass -Wno-mismatched-dealloc.
 * loam_free cannot free an object of another allocator.
 *
 * See also: malloc.hpp and new_delete.hpp for C++; override.h to redefine malloc in C sources;
 * libc.h for mallinfo and malloc_info; docs/guide/malloc.md for a table of all functions. The debug
 * build finds misuse of these functions, says where an object was allocated, and lists the objects
 * that are in use at exit (docs/guide/debug.md).
 *
 *   thread's heap:  class 16 B ─> block ─> block     a free list for each of 112 size classes up to
 *                   class 32 B ─> block              64 KiB; malloc takes the first block of a list
 *                   larger objects                   each has its own span, in units of 4 KiB
 *
 * Threads: any thread may call any function, and may free an object that another thread allocated.
 * Sizes: sizes and offsets are in bytes; size comes before align. Objects are aligned to 16 bytes
 * or to the requested alignment.
 * Errors: a call that fails returns NULL and changes nothing. It sets errno to ENOMEM if there is
 * no memory, if a size exceeds PTRDIFF_MAX, or if count * size overflows. It sets errno to EINVAL
 * if an alignment is not a power of two. Free functions keep errno.
 * Ownership: an object belongs to the caller until a free or a realloc takes it. The bytes between
 * the requested size and loam_usable_size may be used, but compilers know the requested size, and
 * _FORTIFY_SOURCE holds a program to it. loam_expand makes these bytes part of the object.
 * Cost on x86-64, local path: 13 instructions for an object of up to 1 KiB, 17 for one of up to 64
 * KiB, and 16 for a free. Invariant: no two live objects overlap; tests/model and tests/api check
 * it. Source: src/heap, src/api. */
#ifndef LOAM_MALLOC_H
#define LOAM_MALLOC_H

#include "loam/names_begin.h"

#include "loam/types.h"

LOAM_BEGIN

/** Largest size in bytes that loam_malloc_small and loam_zalloc_small accept. */
enum { LOAM_SMALL_MOST = 1024 };

/* ---- Free ---- */

/** Frees an object of any function of this header. Does nothing if p is NULL. */
LOAM_API void loam_free(void *p) LOAM_NOEXCEPT;

/** Frees p, whose size the caller knows (C23): `size` is the size that was passed to the call that
 * allocated or last resized p. The release build ignores size. The secure and the debug build
 * report a size that differs from the requested one. */
LOAM_API void loam_free_sized(void *p, size_t size) LOAM_NOEXCEPT;
/** Frees p, whose size and alignment the caller knows (C23): both as they were passed to the call
 * that allocated or last resized p. The release build ignores both. The secure and the debug build
 * report a size that differs from the requested one, and an address that is not a multiple of
 * align. */
LOAM_API void loam_free_aligned_sized(void *p, size_t align, size_t size) LOAM_NOEXCEPT;

/* ---- What compilers know of them ----
 *
 * Each new object is marked with the functions that may free or resize it. gcc warns if the object
 * goes to another function, or is used after one of these; clang has no such attribute. The
 * functions are declared here, and described below, because an attribute can only name what is
 * declared. loam_expand is not marked, because its p stays valid. So compilers accept any pointer
 * as the argument of loam_expand and loam_usable_size. */
struct loam_heap; /* loam/heap.h */
LOAM_API void *loam_realloc(void *p, size_t size) LOAM_NOEXCEPT;
LOAM_API void *loam_reallocarray(void *p, size_t count, size_t size) LOAM_NOEXCEPT;
LOAM_API void *loam_reallocf(void *p, size_t size) LOAM_NOEXCEPT;
LOAM_API void *loam_rezalloc(void *p, size_t size) LOAM_NOEXCEPT;
LOAM_API void *loam_recalloc(void *p, size_t count, size_t size) LOAM_NOEXCEPT;
LOAM_API void *loam_realloc_aligned(void *p, size_t size, size_t align) LOAM_NOEXCEPT;
LOAM_API void *loam_rezalloc_aligned(void *p, size_t size, size_t align) LOAM_NOEXCEPT;
LOAM_API void *loam_recalloc_aligned(void *p, size_t count, size_t size,
                                     size_t align) LOAM_NOEXCEPT;
LOAM_API void *loam_realloc_aligned_offset(void *p, size_t size, size_t align,
                                           size_t offset) LOAM_NOEXCEPT;
LOAM_API void *loam_rezalloc_aligned_offset(void *p, size_t size, size_t align,
                                            size_t offset) LOAM_NOEXCEPT;
LOAM_API void *loam_recalloc_aligned_offset(void *p, size_t count, size_t size, size_t align,
                                            size_t offset) LOAM_NOEXCEPT;
LOAM_API void *loam_heap_realloc(struct loam_heap *heap, void *p, size_t size) LOAM_NOEXCEPT;
LOAM_API void *loam_heap_reallocarray(struct loam_heap *heap, void *p, size_t count,
                                      size_t size) LOAM_NOEXCEPT;
LOAM_API void *loam_heap_reallocf(struct loam_heap *heap, void *p, size_t size) LOAM_NOEXCEPT;
LOAM_API void *loam_heap_rezalloc(struct loam_heap *heap, void *p, size_t size) LOAM_NOEXCEPT;
LOAM_API void *loam_heap_recalloc(struct loam_heap *heap, void *p, size_t count,
                                  size_t size) LOAM_NOEXCEPT;
LOAM_API void *loam_heap_realloc_aligned(struct loam_heap *heap, void *p, size_t size,
                                         size_t align) LOAM_NOEXCEPT;
LOAM_API void *loam_heap_rezalloc_aligned(struct loam_heap *heap, void *p, size_t size,
                                          size_t align) LOAM_NOEXCEPT;
LOAM_API void *loam_heap_recalloc_aligned(struct loam_heap *heap, void *p, size_t count,
                                          size_t size, size_t align) LOAM_NOEXCEPT;

/* clang-format off */
#define LOAM_HEAP_FREED \
    LOAM_FREED_BY(loam_free) \
    LOAM_FREED_BY(loam_free_sized) \
    LOAM_FREED_BY(loam_free_aligned_sized) \
    LOAM_FREED_BY(loam_realloc) \
    LOAM_FREED_BY(loam_reallocarray) \
    LOAM_FREED_BY(loam_reallocf) \
    LOAM_FREED_BY(loam_rezalloc) \
    LOAM_FREED_BY(loam_recalloc) \
    LOAM_FREED_BY(loam_realloc_aligned) \
    LOAM_FREED_BY(loam_rezalloc_aligned) \
    LOAM_FREED_BY(loam_recalloc_aligned) \
    LOAM_FREED_BY(loam_realloc_aligned_offset) \
    LOAM_FREED_BY(loam_rezalloc_aligned_offset) \
    LOAM_FREED_BY(loam_recalloc_aligned_offset) \
    LOAM_FREED_BY_SECOND(loam_heap_realloc) \
    LOAM_FREED_BY_SECOND(loam_heap_reallocarray) \
    LOAM_FREED_BY_SECOND(loam_heap_reallocf) \
    LOAM_FREED_BY_SECOND(loam_heap_rezalloc) \
    LOAM_FREED_BY_SECOND(loam_heap_recalloc) \
    LOAM_FREED_BY_SECOND(loam_heap_realloc_aligned) \
    LOAM_FREED_BY_SECOND(loam_heap_rezalloc_aligned) \
    LOAM_FREED_BY_SECOND(loam_heap_recalloc_aligned)
/* clang-format on */
/* Attributes of functions that return a new object (LOAM_HEAP_NEW) or a resized one. */
#define LOAM_HEAP_NEW LOAM_MALLOC LOAM_HEAP_FREED
#define LOAM_HEAP_RENEW LOAM_NODISCARD LOAM_HEAP_FREED

/* ---- New objects ---- */

/** Allocates an object of at least size bytes; its contents are undefined. A size of 0 also gives
 * an object. Returns NULL iff there is no memory or size exceeds PTRDIFF_MAX. */
LOAM_API void *loam_malloc(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);

/** Allocates an object of at least size bytes, zeroed up to its usable size. Returns NULL iff there
 * is no memory or size exceeds PTRDIFF_MAX. Cost: as loam_malloc, plus clearing memory that has
 * been used before. */
LOAM_API void *loam_zalloc(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);

/** Allocates count objects of size bytes each in a row, zeroed up to the usable size. Returns NULL
 * iff there is no memory, or count * size overflows or exceeds PTRDIFF_MAX. */
LOAM_API void *loam_calloc(size_t count, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZES(1, 2);

/** Allocates count objects of size bytes each in a row; contents are undefined. Returns NULL iff
 * there is no memory, or count * size overflows or exceeds PTRDIFF_MAX. */
LOAM_API void *loam_mallocarray(size_t count, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZES(1, 2);

/** loam_malloc for a size of at most LOAM_SMALL_MOST, which it does not check. A larger size is a
 * mistake: debug and secure builds report it, and in other builds the behaviour is undefined. Cost:
 * 10 instructions on the local path, x86-64. */
LOAM_API void *loam_malloc_small(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
/** loam_zalloc for a size of at most LOAM_SMALL_MOST, which it does not check. A larger size is a
 * mistake: debug and secure builds report it, and in other builds the behaviour is undefined. */
LOAM_API void *loam_zalloc_small(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);

/* ---- Other sizes for an object ---- */

/** Changes the size of *p to at least size bytes. The object may move; its first min(old size,
 * size) bytes stay. If p is NULL, it allocates an object, also for a size of 0. A size of 0 frees
 * any other p and returns NULL. Otherwise returns NULL iff there is no memory or size exceeds
 * PTRDIFF_MAX, and p stays valid. An alignment above 16 may be lost: use loam_realloc_aligned.
 * Cost: a few instructions if p can stay; otherwise an allocation, a copy and a free. Large objects
 * move by remapping pages, without a copy. */
LOAM_API void *loam_realloc(void *p, size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2);

/** As loam_realloc, but frees p if there is no memory: p is no longer valid in any case. If p is
 * NULL, it allocates an object, also for a size of 0. Returns NULL iff there is no memory, size
 * exceeds PTRDIFF_MAX, or p is not NULL and size is 0. */
LOAM_API void *loam_reallocf(void *p, size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2);

/** loam_realloc to count * size bytes. If the product overflows, it always returns NULL with errno
 * ENOMEM, and p stays valid. */
LOAM_API void *loam_reallocarray(void *p, size_t count, size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_SIZES(2, 3);

/** As loam_realloc, but zeroes the bytes that the object grows by, up to its usable size. p must
 * come from a function of loam that zeroes: loam_zalloc, loam_calloc, their aligned forms, or
 * calloc if that is loam's. Since then only loam_rezalloc, loam_recalloc or their aligned forms may
 * have resized it. If p is NULL, it allocates a zeroed object. Cost: memory that was not used
 * before is zero already and is not written, so that a large object takes no memory for it. */
LOAM_API void *loam_rezalloc(void *p, size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2);
/** loam_rezalloc to count * size bytes. If the product overflows, it always returns NULL with errno
 * ENOMEM, and p stays valid. */
LOAM_API void *loam_recalloc(void *p, size_t count, size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_SIZES(2, 3);

/** Changes the size of *p in place: it never moves, and copies nothing. Returns p. Returns NULL,
 * with errno ENOMEM, iff the object would have to move, size exceeds PTRDIFF_MAX, or p is NULL. It
 * always returns p for a size of at most loam_usable_size(p). An object of up to 64 KiB cannot grow
 * further; a larger one grows while the addresses behind it are free. */
LOAM_API void *loam_expand(void *p, size_t size) LOAM_NOEXCEPT LOAM_NODISCARD LOAM_SIZE(2);

/* ---- Aligned: the address is a multiple of align, a power of two ---- */

/** Allocates an object of at least size bytes at a multiple of align; contents are undefined.
 * Returns NULL iff there is no memory, or align is not a power of two (errno EINVAL). Up to an
 * alignment of 64 KiB the object takes a block of a size class, without padding, and costs what
 * other objects do. All functions of this header accept it. */
LOAM_API void *loam_malloc_aligned(size_t size, size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZE(1) LOAM_ALIGN(2);
/** loam_malloc_aligned, zeroed up to the usable size. */
LOAM_API void *loam_zalloc_aligned(size_t size, size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZE(1) LOAM_ALIGN(2);
/** loam_calloc at a multiple of align. Returns NULL iff there is no memory, the product overflows,
 * or align is not a power of two (errno EINVAL). */
LOAM_API void *loam_calloc_aligned(size_t count, size_t size,
                                   size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZES(1, 2)
    LOAM_ALIGN(3);

/** loam_realloc to an address that is a multiple of align, whatever the alignment of p. Errors as
 * loam_realloc. It also returns NULL, with errno EINVAL, if align is not a power of two; p stays
 * valid. */
LOAM_API void *loam_realloc_aligned(void *p, size_t size,
                                    size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2)
    LOAM_ALIGN(3);
/** loam_rezalloc to an address that is a multiple of align. Errors as loam_realloc_aligned. */
LOAM_API void *loam_rezalloc_aligned(void *p, size_t size,
                                     size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2)
    LOAM_ALIGN(3);
/** loam_recalloc to an address that is a multiple of align. Errors as loam_realloc_aligned. */
LOAM_API void *loam_recalloc_aligned(void *p, size_t count, size_t size,
                                     size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZES(2, 3)
    LOAM_ALIGN(4);

/* ---- Aligned, under the C library's names: align comes before size ---- */

/** loam_malloc_aligned(size, align). A size that is not a multiple of align is allowed. */
LOAM_API void *loam_aligned_alloc(size_t align, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_ALIGN(1) LOAM_SIZE(2);

/** Allocates size bytes at a multiple of the smallest power of two that is at least align and 16.
 * Returns NULL iff there is no such power (errno EINVAL), or no memory (errno ENOMEM). */
LOAM_API void *loam_memalign(size_t align, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(2);

/** Stores a new object of size bytes at a multiple of align in *result. Returns 0; or EINVAL iff
 * align is not a power of two or is less than sizeof(void *), ENOMEM iff there is no memory. On
 * failure *result stays as it is. errno is set to ENOMEM iff ENOMEM is returned, and unchanged
 * otherwise. */
LOAM_API int loam_posix_memalign(void **result, size_t align,
                                 size_t size) LOAM_NOEXCEPT LOAM_NODISCARD LOAM_NONNULL(1);

/** Allocates size bytes at the start of a page of the system. */
LOAM_API void *loam_valloc(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
/** Allocates size bytes, rounded up to whole pages of the system, at the start of a page; at least
 * one page. */
LOAM_API void *loam_pvalloc(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW;

/* ---- Aligned at an offset: result + offset is a multiple of align ----
 *
 * For an object that has a header of offset bytes in front of the part that must be aligned. Any
 * offset is allowed. If it is a multiple of align, these functions are those without _offset.
 * Otherwise the pointer lies 16 to align + 15 bytes inside its block; in the debug build, 32 to
 * align + 31. All functions of this header accept it. Allocating and freeing it takes a lock that
 * all threads share and a few hundred instructions. loam_realloc, without an alignment, leaves it
 * in place or moves it to an ordinary block. Every build reports a free of another pointer into its
 * block, and a second free. */

/** loam_malloc_aligned at an offset: result + offset is a multiple of align. */
LOAM_API void *loam_malloc_aligned_offset(size_t size, size_t align,
                                          size_t offset) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
/** loam_zalloc_aligned at an offset. */
LOAM_API void *loam_zalloc_aligned_offset(size_t size, size_t align,
                                          size_t offset) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
/** loam_calloc_aligned at an offset. */
LOAM_API void *loam_calloc_aligned_offset(size_t count, size_t size, size_t align,
                                          size_t offset) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZES(1, 2);
/** loam_realloc_aligned at an offset, whatever the offset of p. */
LOAM_API void *loam_realloc_aligned_offset(void *p, size_t size, size_t align,
                                           size_t offset) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_SIZE(2);
/** loam_rezalloc_aligned at an offset, whatever the offset of p. */
LOAM_API void *loam_rezalloc_aligned_offset(void *p, size_t size, size_t align,
                                            size_t offset) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_SIZE(2);
/** loam_recalloc_aligned at an offset, whatever the offset of p. */
LOAM_API void *loam_recalloc_aligned_offset(void *p, size_t count, size_t size, size_t align,
                                            size_t offset) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_SIZES(2, 3);

/* ---- Sizes ---- */

/** Returns the number of bytes of *p that may be used: at least the requested size; exactly that in
 * debug and secure builds, which check the bytes behind it. Returns 0 iff p is NULL, or in these
 * builds an object of size 0 (in the secure build only one aligned to at most 64 KiB). */
LOAM_API size_t loam_usable_size(const void *p) LOAM_NOEXCEPT;

/** Returns the smallest usable size of an object of size bytes: a request for so many bytes takes
 * no more memory. loam_usable_size returns as much, or slightly more if the block is larger than
 * its class. In debug and secure builds loam_usable_size returns the requested size, and
 * loam_expand makes the other bytes usable. */
LOAM_API size_t loam_good_size(size_t size) LOAM_NOEXCEPT;

/* ---- Room: checks before memory is read or written ---- */

/** Returns the number of bytes from p, which may point into an object, to the object's end. The end
 * is that of the requested bytes if this build knows them (debug, secure, sampled objects),
 * otherwise of the usable ones. Returns 0 iff p points behind these bytes, but still into the
 * object's block. Returns SIZE_MAX iff p lies in no object of loam that this build can find:
 * - NULL, a stack, static memory, memory of another allocator;
 * - a freed object, if this build knows that (a release build takes it for one in use);
 * - more than 4 MiB behind the start of a large object, which is too far to search.
 * It never reports a mistake, and keeps errno. Any thread may call it, also in a signal handler,
 * with any pointer; but no other thread may free that memory meanwhile. Cost: no lock; about 30
 * instructions, and inside a large object one load for each 64 KiB before p. */
LOAM_API size_t loam_room(const void *p) LOAM_NOEXCEPT;

/** Checks that `bytes` bytes may be written at `to` and read at `from`; a NULL argument is not
 * checked. Returns 0 iff both have that room by loam_room, with large objects found up to 4 MiB +
 * 64 * bytes behind their start. Otherwise it reports "FUNCTION of N B to ADDRESS, which has M
 * left" (or "from") as any other mistake, and ends the program; under LOAM_ON_ERROR=ignore it
 * returns 1, and the caller should not copy. `function` is a name for the report. Threads and cost:
 * as two calls of loam_room. libloam_copies.so calls it before each copy by a function of the C
 * library (docs/guide/copies.md). */
LOAM_API int loam_check_copy(const char *function, void *to, const void *from,
                             size_t bytes) LOAM_NOEXCEPT LOAM_NONNULL(1);

/* ---- Copies: new objects; the source must not be NULL ---- */

/** Copies a string and its terminating 0. Returns NULL iff there is no memory. */
LOAM_API char *loam_strdup(const char *text) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1);
/** Copies at most the first `bytes` bytes of a string, and adds a 0. Returns NULL iff there is no
 * memory. */
LOAM_API char *loam_strndup(const char *text, size_t bytes) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1);
/** Copies `bytes` bytes of memory. Returns NULL iff there is no memory. */
LOAM_API void *loam_memdup(const void *source, size_t bytes) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZE(2) LOAM_NONNULL(1);

/** Copies a wide string and its terminating 0. Returns NULL iff there is no memory. */
LOAM_API wchar_t *loam_wcsdup(const wchar_t *text) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1);

/** realpath(3): returns the path without links, "." and "..". It is written to resolved, which has
 * PATH_MAX bytes, or to a new object if resolved is NULL. Returns NULL iff there is no such path,
 * it cannot be read, or there is no memory; errno is as the C library sets it (EINVAL iff path is
 * NULL). */
LOAM_API char *loam_realpath(const char *path, char *resolved) LOAM_NOEXCEPT LOAM_NODISCARD;

/* ---- The heap as a whole ---- */

/** Gives all free memory back to the system at once: the blocks and pages that the calling thread
 * holds ready, and every free span of the process. Calls the deferred-free handler first
 * (loam/handlers.h). Returns the number of bytes given back. Without this call, memory goes back
 * LOAM_PURGE_DELAY milliseconds after it became free. */
LOAM_API size_t loam_collect(void) LOAM_NOEXCEPT;

/** Gives about `bytes` bytes of free memory back to the system and keeps the rest for later
 * allocations. Memory goes back in units of 64 KiB, the longest-free first. If free spans are too
 * few, it calls the deferred-free handler, and the calling thread gives up what it holds ready, as
 * in loam_collect. After that, unused ends of large objects go, each as a whole. Locked memory and
 * the memory of arenas (loam/arena.h) stays. Returns the number of bytes given back. That is less
 * than `bytes` iff no more was free; otherwise it is the next multiple of 64 KiB, or exceeds that
 * by less than the end of one large object. Any thread may call it, also at the same time as
 * others. Cost: a system call for each span that goes back. */
LOAM_API size_t loam_collect_bytes(size_t bytes) LOAM_NOEXCEPT;

/** Checks all objects and free blocks of every thread and every heap for damage, and reports each
 * mistake as free reports it. So the first mistake ends the program, unless LOAM_ON_ERROR,
 * LOAM_IGNORE or an error handler (loam/handlers.h) chooses otherwise. Returns the number of
 * mistakes found. Two neighbours that one mistake has damaged may count as two. Sets errno to
 * ENOMEM iff there was no memory for its list of pages; otherwise errno is unchanged.
 *
 *     debug     writes past the end or before the start of objects, and into freed objects
 *     secure    the same, as far as canaries and zeroed memory show them
 *     release   writes into freed blocks that damage a free list, blocks that are free twice,
 *               writes into blocks that are unused
 *     all       writes around sampled objects (loam/sampling.h)
 *
 * No other thread may allocate, resize or free meanwhile: a half-finished call would be reported as
 * a mistake. Not in a signal handler. It does not check pools, regions and other special
 * allocators; loam_registry_check does. Cost: about 50 ns for each object; the debug and secure
 * builds also read all memory that was freed and not given back. */
LOAM_API size_t loam_heaps_check(void) LOAM_NOEXCEPT;

/** Forbids (0) or allows (1) loam's background worker. 0 ends the worker, and none starts until a
 * call with 1. Only statically linked programs that forbid themselves system calls or change
 * credentials need it: libloam.so calls it itself at prctl, unshare, setns and the setuid
 * family. */
LOAM_API void loam_worker_allow(int allowed) LOAM_NOEXCEPT;

/** Returns LOAM_VERSION of the library in this process. */
LOAM_API int loam_version(void) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

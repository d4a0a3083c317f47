/* loam/malloc.h: the general-purpose heap under its own names.
 *
 * Choose it where a program wants loam beside the C library's malloc, or cannot be preloaded. A
 * program under LD_PRELOAD=libloam.so, or linked with loam-override.o, gets the same heap from
 * plain malloc. Objects from either side may be freed by the other when both are loam (gcc does not
 * know: -Wno-mismatched-dealloc). It cannot free what another allocator gave. For C++: malloc.hpp,
 * new_delete.hpp; to redefine malloc in C sources: override.h; mallinfo, malloc_info and their
 * like: libc.h; a table of all functions: docs/guide/malloc.md. Where a program misuses them: the
 * debug build finds it, says where objects were allocated, and lists what is in use at exit
 * (docs/guide/debug.md).
 *
 *   thread's heap:  class 16 B ─> block ─> block     a list for each of 112 size classes to 64 KiB: one pop
 *                   class 32 B ─> block              what is larger: a span of its own, in units of 4 KiB
 *
 * All functions may be called from any thread; an object may be freed by another thread than the
 * one that allocated it. Sizes and offsets are in bytes; size comes before align. Objects are
 * aligned to 16, or to what was asked for. A failed call returns NULL and changes nothing: errno is
 * ENOMEM where there is no memory, where a size exceeds PTRDIFF_MAX and where count * size
 * overflows, EINVAL where an alignment is no power of two. Free functions keep errno. An object
 * belongs to the caller until one of them, or a realloc, takes it. Bytes beyond those asked for may
 * be used up to loam_usable_size, but compilers know what was asked for, and _FORTIFY_SOURCE holds
 * the program to it: loam_expand makes them part of the object. Cost: 13 instructions up to 1 KiB
 * and 17 up to 64 KiB on the local path, 16 to free, x86-64. Invariant: no two live objects
 * overlap, checked by tests/model and tests/api. Source: src/heap, src/api.
 */
#ifndef LOAM_MALLOC_H
#define LOAM_MALLOC_H

#include "loam/names_begin.h"

#include "loam/types.h"

LOAM_BEGIN

/* The most that loam_malloc_small and loam_zalloc_small may be asked for. */
enum { LOAM_SMALL_MOST = 1024 };

/* ---- Free ---- */

/* Takes an object back, whichever function of this header gave it; NULL is allowed and does
 * nothing. */
LOAM_API void loam_free(void *p) LOAM_NOEXCEPT;

/* The same where the caller still knows what it asked for (C23): size as given to the function that
 * allocated or last resized p, align likewise. The release build looks at neither; the secure and
 * the debug build report another size than was asked for, and an object that is not aligned so. */
LOAM_API void loam_free_sized(void *p, size_t size) LOAM_NOEXCEPT;
LOAM_API void loam_free_aligned_sized(void *p, size_t align, size_t size) LOAM_NOEXCEPT;

/* ---- What compilers know of them ----
 *
 * Whether it is freed or resized: a new object goes to one of these functions, and gcc warns where
 * it goes elsewhere, or is used afterwards; clang knows nothing like it. They are declared before
 * they are described, because an attribute can only name what is declared. loam_expand is none of
 * them, because its p stays what it was: so of a pointer that malloc gave to it, and of one that
 * goes to loam_usable_size, compilers say nothing. */
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
#define LOAM_HEAP_NEW LOAM_MALLOC LOAM_HEAP_FREED
#define LOAM_HEAP_RENEW LOAM_NODISCARD LOAM_HEAP_FREED

/* ---- New objects ---- */

/* An object of at least size bytes, contents undefined; size 0 gives an object too.
 * NULL iff there is no memory or size exceeds PTRDIFF_MAX. */
LOAM_API void *loam_malloc(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);

/* The same, zeroed. Cost: as loam_malloc, and the clearing of what has been used before. */
LOAM_API void *loam_zalloc(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);

/* The same for count objects of size bytes each, zeroed. NULL also iff count * size overflows. */
LOAM_API void *loam_calloc(size_t count, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZES(1, 2);

/* The same, contents undefined. */
LOAM_API void *loam_mallocarray(size_t count, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZES(1, 2);

/* loam_malloc and loam_zalloc for sizes of at most LOAM_SMALL_MOST, which they do not look at: a
 * larger one is a mistake, which debug and secure builds report, and which others pay for with
 * undefined behaviour. Cost: 10 instructions for the first on the local path, x86-64. */
LOAM_API void *loam_malloc_small(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
LOAM_API void *loam_zalloc_small(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);

/* ---- Other sizes for an object ---- */

/* Changes the size of *p, which may move; the first min(old, new) bytes stay. p == NULL allocates,
 * an object of size 0 too; size 0 frees any other p and returns NULL. NULL otherwise iff there is
 * no memory or size exceeds PTRDIFF_MAX: p is as it was.
 * Alignments above 16 may be lost: see loam_realloc_aligned. Cost: nothing to speak of where p can
 * stay, else as an allocation, a copy and a free; large objects move by pages, not bytes. */
LOAM_API void *loam_realloc(void *p, size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2);

/* loam_realloc for who has nothing to do with p if that fails: then p is freed, so that it is gone
 * in any case. As there p == NULL allocates, an object of size 0 too, and size 0 frees any other p.
 * NULL iff there is no memory, size exceeds PTRDIFF_MAX, or p is not NULL and size is 0. */
LOAM_API void *loam_reallocf(void *p, size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2);

/* realloc to count * size bytes. NULL also iff that overflows: p is as it was. */
LOAM_API void *loam_reallocarray(void *p, size_t count, size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_SIZES(2, 3);

/* loam_realloc and loam_reallocarray for objects that loam_zalloc, loam_calloc or one of these
 * functions gave and only these have resized (the C library's calloc is none of them, even where it
 * is loam's): what the object grows by is zeroed, up to its usable size. p == NULL allocates
 * zeroed. Memory that nobody has used is zero as it is: an object of many MiB does not write, and
 * so not take, what it grows by of that. */
LOAM_API void *loam_rezalloc(void *p, size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2);
LOAM_API void *loam_recalloc(void *p, size_t count, size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_SIZES(2, 3);

/* Changes the size of *p where it is: never moves, and copies nothing. p; or NULL iff it would have
 * to move (errno ENOMEM), size exceeds PTRDIFF_MAX, or p is NULL. Always p for sizes up to the
 * usable size. Blocks cannot grow beyond that; objects of more than 64 KiB grow as long as the
 * addresses behind them are free. */
LOAM_API void *loam_expand(void *p, size_t size) LOAM_NOEXCEPT LOAM_NODISCARD LOAM_SIZE(2);

/* ---- Aligned: an address that is a multiple of align, a power of two ---- */

/* NULL also, with errno EINVAL, iff align is no power of two. Nothing beyond the size class is
 * allocated for it up to an alignment of 64 KiB: objects are as cheap as others, and all functions
 * take them. */
LOAM_API void *loam_malloc_aligned(size_t size, size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZE(1) LOAM_ALIGN(2);
LOAM_API void *loam_zalloc_aligned(size_t size, size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZE(1) LOAM_ALIGN(2);
LOAM_API void *loam_calloc_aligned(size_t count, size_t size,
                                   size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZES(1, 2)
    LOAM_ALIGN(3);

/* As loam_realloc, loam_rezalloc, loam_recalloc; the result is aligned, whatever p was. */
LOAM_API void *loam_realloc_aligned(void *p, size_t size,
                                    size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2)
    LOAM_ALIGN(3);
LOAM_API void *loam_rezalloc_aligned(void *p, size_t size,
                                     size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZE(2)
    LOAM_ALIGN(3);
LOAM_API void *loam_recalloc_aligned(void *p, size_t count, size_t size,
                                     size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_SIZES(2, 3)
    LOAM_ALIGN(4);

/* ---- Aligned, by the C library's names and in its order of arguments: align before size ---- */

/* As loam_malloc_aligned(size, align). */
LOAM_API void *loam_aligned_alloc(size_t align, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_ALIGN(1) LOAM_SIZE(2);

/* Any alignment: the next power of two is used. NULL iff there is none (errno EINVAL), or no
 * memory. */
LOAM_API void *loam_memalign(size_t align, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(2);

/* 0 and the object in *result; or EINVAL iff align is no power of two or less than a pointer's
 * size, ENOMEM iff there is no memory: *result is as it was then. errno stays as it is. */
LOAM_API int loam_posix_memalign(void **result, size_t align,
                                 size_t size) LOAM_NOEXCEPT LOAM_NODISCARD LOAM_NONNULL(1);

/* Aligned to a page of the system; the second, whole pages of them, at least one. */
LOAM_API void *loam_valloc(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
LOAM_API void *loam_pvalloc(size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW;

/* ---- The same at an offset: result + offset is a multiple of align ----
 *
 * For objects with something of offset bytes in front of what must be aligned. Any offset will do;
 * where it is a multiple of align, these are the functions above. Otherwise the pointer lies inside
 * of its block, by 16 bytes to align + 15: all functions of this header take it as any other, but
 * allocating and freeing it takes a lock that all threads share, some hundred instructions.
 * loam_realloc and its plain kin leave it where it is, or move it to where any object may be. A
 * free of another pointer into its block, and a second free, are reported in every build. */
LOAM_API void *loam_malloc_aligned_offset(size_t size, size_t align,
                                          size_t offset) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
LOAM_API void *loam_zalloc_aligned_offset(size_t size, size_t align,
                                          size_t offset) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_SIZE(1);
LOAM_API void *loam_calloc_aligned_offset(size_t count, size_t size, size_t align,
                                          size_t offset) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZES(1, 2);
LOAM_API void *loam_realloc_aligned_offset(void *p, size_t size, size_t align,
                                           size_t offset) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_SIZE(2);
LOAM_API void *loam_rezalloc_aligned_offset(void *p, size_t size, size_t align,
                                            size_t offset) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_SIZE(2);
LOAM_API void *loam_recalloc_aligned_offset(void *p, size_t count, size_t size, size_t align,
                                            size_t offset) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_SIZES(2, 3);

/* ---- Sizes ---- */

/* Bytes of *p that may be used, all of them: at least what was asked for; in debug and secure
 * builds, which look at what lies behind, just that. 0 iff p is NULL or, in those builds, an object
 * of size 0 (the secure build: aligned to at most 64 KiB). */
LOAM_API size_t loam_usable_size(const void *p) LOAM_NOEXCEPT;

/* The bytes that an object of size bytes has room for, at least: who asks for so many pays for no
 * more. loam_usable_size says the same, or a little more where the object fills a hole; in debug
 * and secure builds it says size, and loam_expand makes the others usable. */
LOAM_API size_t loam_good_size(size_t size) LOAM_NOEXCEPT;

/* ---- Room: before memory is written ---- */

/* Bytes from p, which may point into an object, to the end of that object: of what was asked for
 * where this build knows that (debug, secure, sampled objects), else of what may be used. 0 iff p
 * points behind those bytes, into what else belongs to the object's block. SIZE_MAX iff p lies in
 * no object of loam's: on a stack, in static memory, in another allocator's, NULL; also in a freed
 * object, as far as this build knows (a release build takes it for one in use), and more than 4 MiB
 * behind the begin of a large object, which is too far to look. Never reports, keeps errno. Any
 * pointer may be asked, by any thread, in a signal handler too; but not for memory that another
 * thread may free meanwhile. Cost: no lock; some 30 instructions, and inside a large object one
 * load for each 64 KiB before p. */
LOAM_API size_t loam_room(const void *p) LOAM_NOEXCEPT;

/* Whether `bytes` bytes may be written at to, and read at from; each may be NULL: not asked. 0 iff
 * both have that room in the sense of loam_room (large objects are found from 4 MiB + 64 times the
 * bytes behind their begin). Otherwise it reports "FUNCTION of N B to ADDRESS, which has M left"
 * (or "from") as any mistake is reported, and ends the program; under LOAM_ON_ERROR=ignore it
 * returns 1, and the caller should not copy. function is a name for the report. Threads and cost:
 * as loam_room, for each of the two. libloam_copies.so calls it before each copy of the C library's
 * functions: docs/guide/copies.md. */
LOAM_API int loam_check_copy(const char *function, void *to, const void *from,
                             size_t bytes) LOAM_NOEXCEPT LOAM_NONNULL(1);

/* ---- Copies ---- */

/* A copy of the text, with its 0; of at most its first bytes bytes, and a 0; of bytes bytes; of a
 * text of wide characters. NULL iff there is no memory. None of the sources may be NULL. */
LOAM_API char *loam_strdup(const char *text) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1);
LOAM_API char *loam_strndup(const char *text, size_t bytes) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1);
LOAM_API void *loam_memdup(const void *source, size_t bytes) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_SIZE(2) LOAM_NONNULL(1);

LOAM_API wchar_t *loam_wcsdup(const wchar_t *text) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1);

/* realpath(3): the path without links, "." and "..", in resolved, PATH_MAX bytes, or, where that is
 * NULL, in an object of its own. NULL iff there is no such path or it cannot be looked at, with
 * errno as the C library sets it (EINVAL iff path is NULL), or no memory. */
LOAM_API char *loam_realpath(const char *path, char *resolved) LOAM_NOEXCEPT LOAM_NODISCARD;

/* ---- The heap as a whole ---- */

/* Gives back to the system all memory that is free, at once: what the calling thread holds ready,
 * and every free span of the process. Returns the bytes given back. Without this call the same
 * happens LOAM_PURGE_DELAY milliseconds after memory became free. */
LOAM_API size_t loam_collect(void) LOAM_NOEXCEPT;

/* Gives about so many bytes of free memory back to the system, and keeps the rest for what is
 * allocated next. Memory goes in units of 64 KiB, that which was freed first before the rest. If
 * free spans are too few, the calling thread gives up what it holds ready, as in loam_collect, and
 * then the unused ends of large objects go, each as a whole. Memory that the system keeps because
 * it is locked, and that of arenas (loam/arena.h), stays. Returns the bytes given back: less than
 * `bytes` iff no more was free; else the next multiple of 64 KiB, or beyond it by less than the end
 * of one large object. Any thread may call it; others may do the same at the same time. Cost: a
 * system call for each span that goes back. */
LOAM_API size_t loam_collect_bytes(size_t bytes) LOAM_NOEXCEPT;

/* Looks at all objects and free blocks of the process, of every thread and every heap, for what a
 * mistake has done to them, and reports each mistake as free reports it: the first one ends the
 * program, unless LOAM_ON_ERROR, LOAM_IGNORE or an error handler (loam/handlers.h) says otherwise.
 * Returns the number of mistakes found; 0 if there are none. errno is ENOMEM iff there was no
 * memory for a list of what to look at, and unchanged otherwise. Neighbours that one mistake has
 * damaged may count twice.
 *
 *     debug     writes past the end and before the start of objects, and into freed ones
 *     secure    the same, where canaries and zeroes show it
 *     release   writes into freed blocks that damage a free list, blocks that are free twice,
 *               writes into blocks that are new
 *     all       writes around sampled objects (loam/sampling.h)
 *
 * No other thread may allocate, resize or free meanwhile: what it has half done would be reported
 * as a mistake. Not in a signal handler. It does not look into pools, regions and the like
 * (loam_registry_check does). Cost: it reads all memory that was freed and not given back, in the
 * debug and secure builds, and about 50 ns for each object. */
LOAM_API size_t loam_heaps_check(void) LOAM_NOEXCEPT;

/* 0: ends loam's background worker and starts none again, until called with 1. Needed only by
 * programs linked statically that forbid themselves system calls or change credentials: libloam.so
 * does it by itself at prctl, unshare, setns and the setuid family. */
LOAM_API void loam_worker_allow(int allowed) LOAM_NOEXCEPT;

/* LOAM_VERSION of the library in the process. */
LOAM_API int loam_version(void) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif

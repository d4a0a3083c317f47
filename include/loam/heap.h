/* loam/heap.h: first-class heaps: general-purpose heaps that a program creates, and destroys as a
 * whole.
 *
 *     loam_heap *request = loam_heap_create();
 *     if (request != NULL) {
 *         char *name = loam_heap_malloc(request, 100);
 *         loam_free(name);            // may be left out:
 *         loam_heap_destroy(request); // frees every object of the heap
 *     }
 *
 * Choose one for objects of any size, freed in any order, that belong together (a request, a
 * document, a script's interpreter): to free them all at once, or to count, limit or walk them
 * apart from all others. destroy returns whole pages, so a million objects cost what their pages
 * do. Choose region.h if no object is freed singly, pool.h or blocks.h if there are few sizes;
 * these are faster still. A heap cannot move objects. For each size class, each thread that uses
 * the heap takes a page of 64 KiB of addresses (at least 4 KiB of memory).
 *
 *     loam_heap ── branch of thread A ── pages ── objects       each thread allocates from its own
 *               ├─ branch of thread B ── pages ── objects       branch, without locks; loam_free
 *               └─ large objects                                finds an object's heap by itself
 *
 * Threads: any thread may call any function at any time, with two exceptions. While a thread ends a
 * heap or walks one (loam_heap_visit, loam_heap_usage, loam_heap_owns), no other thread may
 * allocate from it. While it destroys or walks a heap, no other thread may free to it either.
 * loam_heap_get_limits does not walk: it reads the committed bytes of a heap in use. Fork: the
 * child has all heaps; the branches of threads that the child lacks go to the next threads that
 * allocate.
 *
 * Sizes are in bytes. Objects are aligned to 16 bytes or to the requested alignment. Allocating
 * functions return NULL, with errno ENOMEM, iff there is no memory, the size exceeds PTRDIFF_MAX,
 * or the heap's hard limit is reached. In everything else objects are as malloc's:
 * loam_usable_size, loam_realloc (which moves them into the calling thread's malloc), checks of the
 * debug and secure builds. Cost: 15 instructions on the common path, x86-64; a free costs what
 * malloc's does.
 *
 * A heap argument that is NULL (where not allowed) or has ended is a mistake (LOAM_ON_ERROR): loam
 * prints one line and, with `ignore`, returns NULL and errno EINVAL, -EINVAL or false, or does
 * nothing. Allocating functions check on their slow paths, which every call with such a heap takes.
 * A release build does not check the heap of an object that realloc leaves in place. An ended heap
 * is recognised until its handle is used again: for at least 64 more heaps.
 *
 * Invariant: all objects of a page belong to one heap; loam_heap_usage walks them. After Leijen,
 * Zorn and de Moura, "Mimalloc: free list sharding in action" (2019), whose heaps belong to one
 * thread each.
 */
#ifndef LOAM_HEAP_H
#define LOAM_HEAP_H

#include "loam/names_begin.h"

#include "loam/malloc.h"

#include <stdbool.h>

LOAM_BEGIN

/** A first-class heap. */
typedef struct loam_heap loam_heap;

/* ---- Beginning and end ---- */

/** Ends the heap; its objects live on as malloc's, and other threads may free them during the call.
 * NULL is allowed. If the heap is the calling thread's default, the thread's own heap becomes the
 * default. If it is another thread's default, that is a mistake, and the heap does not end. Cost:
 * proportional to the heap's pages. */
LOAM_API void loam_heap_delete(loam_heap *heap) LOAM_NOEXCEPT;

/** Ends the heap and all its objects; any thread may use their memory again. NULL is allowed. A
 * heap that is a thread's default is treated as by loam_heap_delete. Cost: proportional to the
 * heap's pages, not objects. */
LOAM_API void loam_heap_destroy(loam_heap *heap) LOAM_NOEXCEPT;

/* Attributes of functions that return a new heap. */
#define LOAM_HEAP_BEGUN \
    LOAM_NODISCARD LOAM_FREED_BY(loam_heap_destroy) LOAM_FREED_BY(loam_heap_delete)

/** Creates a heap without objects and limits. Returns NULL, with errno ENOMEM, iff there is no
 * memory. Cost: less than 1 us, however many heaps exist or existed. Memory: 256 bytes, 0.9 KiB
 * more after its first use, and 5.8 KiB (secure build: 16.5 KiB) for each thread that uses it: a
 * branch. When the heap ends, that memory does not go back to the system; heaps of any thread use
 * it again. So 10,000 heaps at a time, each used by one thread, take 70 MB (secure build: 180 MB)
 * beside their pages. loam_stats_t.metadata_bytes counts it. */
LOAM_API loam_heap *loam_heap_create(void) LOAM_NOEXCEPT LOAM_HEAP_BEGUN;

/** Sets the heap that the calling thread's malloc, and everything built on it, allocates from. NULL
 * selects the thread's own heap, which is the default at its start. Stores the previous one in
 * *before (which may be NULL). Returns 0; or -ENOMEM iff there is no memory, -EINVAL iff the heap
 * has ended. Pages of loam_pages() stay the thread's own. Objects at an offset
 * (loam_malloc_aligned_offset and its like) belong to no heap: no limit counts them, no walk shows
 * them, and they outlive the default heap. */
LOAM_API int loam_heap_set_default(loam_heap *heap, loam_heap **before) LOAM_NOEXCEPT;

/** Returns the calling thread's default heap, or NULL for the thread's own. */
LOAM_API loam_heap *loam_heap_get_default(void) LOAM_NOEXCEPT;

/* ---- Objects ----
 *
 * Each function is that of loam/malloc.h without _heap in its name. What loam/malloc.h says of it
 * holds here, with two differences: a new object belongs to the heap, and an object that moves
 * moves into the heap, whichever heap p was from. heap must not be NULL. There are no
 * _aligned_offset forms: such objects have pages of their own, which all threads share and no heap
 * owns. loam_expand and the free functions take no heap. */

/** Allocates an object of at least size bytes; contents are undefined. */
LOAM_API void *loam_heap_malloc(loam_heap *heap, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1) LOAM_SIZE(2);
/** Allocates an object of at least size bytes, zeroed up to its usable size. */
LOAM_API void *loam_heap_zalloc(loam_heap *heap, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1) LOAM_SIZE(2);
/** Allocates count objects of size bytes each in a row, zeroed. If the product overflows, it always
 * returns NULL with errno ENOMEM. */
LOAM_API void *loam_heap_calloc(loam_heap *heap, size_t count,
                                size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_SIZES(2, 3);
/** loam_heap_calloc with undefined contents. */
LOAM_API void *loam_heap_mallocarray(loam_heap *heap, size_t count,
                                     size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_SIZES(2, 3);
/** loam_heap_malloc for at most LOAM_SMALL_MOST bytes. A larger size is a mistake: debug and secure
 * builds report it. */
LOAM_API void *loam_heap_malloc_small(loam_heap *heap, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1) LOAM_SIZE(2);
/** loam_heap_malloc_small, zeroed up to the usable size. */
LOAM_API void *loam_heap_zalloc_small(loam_heap *heap, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1) LOAM_SIZE(2);
/** loam_heap_malloc at a multiple of align. Returns NULL iff there is no memory, or align is not a
 * power of two (errno EINVAL). */
LOAM_API void *loam_heap_malloc_aligned(loam_heap *heap, size_t size,
                                        size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_SIZE(2) LOAM_ALIGN(3);
/** loam_heap_zalloc at a multiple of align. Errors as loam_heap_malloc_aligned. */
LOAM_API void *loam_heap_zalloc_aligned(loam_heap *heap, size_t size,
                                        size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_SIZE(2) LOAM_ALIGN(3);
/** loam_heap_calloc at a multiple of align. Errors as loam_heap_malloc_aligned. */
LOAM_API void *loam_heap_calloc_aligned(loam_heap *heap, size_t count, size_t size,
                                        size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_SIZES(2, 3) LOAM_ALIGN(4);

/** Changes the size of *p to at least size bytes; the object may move. If p is NULL, it allocates.
 * A size of 0 frees any other p and returns NULL. On failure p stays valid. */
LOAM_API void *loam_heap_realloc(loam_heap *heap, void *p,
                                 size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZE(3);
/** loam_heap_realloc to count * size bytes; an overflow counts as no memory. */
LOAM_API void *loam_heap_reallocarray(loam_heap *heap, void *p, size_t count,
                                      size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZES(3, 4);
/** loam_heap_realloc that frees p on failure. */
LOAM_API void *loam_heap_reallocf(loam_heap *heap, void *p,
                                  size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZE(3);
/** loam_heap_realloc that zeroes the bytes that the object grows by. p comes from a function that
 * zeroes, of this header or loam/malloc.h. */
LOAM_API void *loam_heap_rezalloc(loam_heap *heap, void *p,
                                  size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZE(3);
/** loam_heap_rezalloc to count * size bytes; an overflow counts as no memory. */
LOAM_API void *loam_heap_recalloc(loam_heap *heap, void *p, size_t count,
                                  size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZES(3, 4);
/** loam_heap_realloc to a multiple of align, whatever the alignment of p. */
LOAM_API void *loam_heap_realloc_aligned(loam_heap *heap, void *p, size_t size,
                                         size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZE(3) LOAM_ALIGN(4);
/** loam_heap_rezalloc to a multiple of align, whatever the alignment of p. */
LOAM_API void *loam_heap_rezalloc_aligned(loam_heap *heap, void *p, size_t size,
                                          size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_NONNULL(1) LOAM_SIZE(3) LOAM_ALIGN(4);
/** loam_heap_recalloc to a multiple of align, whatever the alignment of p. */
LOAM_API void *loam_heap_recalloc_aligned(loam_heap *heap, void *p, size_t count, size_t size,
                                          size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_NONNULL(1) LOAM_SIZES(3, 4) LOAM_ALIGN(5);

/** Copies a string and its terminating 0. */
LOAM_API char *loam_heap_strdup(loam_heap *heap, const char *from) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1) LOAM_NONNULL(2);
/** Copies at most the first `most` characters of a string, and adds a 0. */
LOAM_API char *loam_heap_strndup(loam_heap *heap, const char *from,
                                 size_t most) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_NONNULL(2);
/** Copies `bytes` bytes of memory. */
LOAM_API void *loam_heap_memdup(loam_heap *heap, const void *from,
                                size_t bytes) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_NONNULL(2) LOAM_SIZE(3);
/** Returns the path without links, in resolved or, if that is NULL, in an object of the heap.
 * Errors as loam_realpath. */
LOAM_API char *loam_heap_realpath(loam_heap *heap, const char *path,
                                  char *resolved) LOAM_NOEXCEPT LOAM_NODISCARD LOAM_NONNULL(1);

/* ---- Limits ---- */

/** A handler that loam calls when a heap's committed bytes exceed its soft limit: once for each
 * crossing, by a new page or large object, or by one that grows. It runs in the thread whose
 * request crossed the limit, after the request has succeeded and without loam's locks. It may
 * allocate, free and set limits, but must not free or resize the object of a realloc or loam_expand
 * in progress. */
typedef void loam_heap_told(loam_heap *heap, size_t committed_bytes, void *context);

/** Sets limits in bytes on the heap's pages and large objects, which are counted in units of 64
 * KiB. 0 or SIZE_MAX means no limit. A request that would exceed `hard` fails, after empty pages
 * have gone back to the system. A request that exceeds `soft` succeeds, and `told` (which may be
 * NULL) is called. Objects in use stay and may shrink. If they exceed `soft` already, the next
 * request that takes a slow path calls `told`. Returns 0; or -EINVAL, with nothing changed, iff
 * both limits are given and soft exceeds hard, or the heap has ended. Call it before the first
 * allocation, or while no other thread uses the heap. */
LOAM_API int loam_heap_set_limits(loam_heap *heap, size_t soft, size_t hard, loam_heap_told *told,
                                  void *context) LOAM_NOEXCEPT LOAM_NONNULL(1);

/** The limits of a heap, and the number of bytes that they bound. */
typedef struct loam_heap_limits {
    size_t soft, hard;           /**< SIZE_MAX: no limit */
    size_t committed_bytes;      /**< bytes of pages and large objects now */
    size_t committed_bytes_most; /**< peak of committed_bytes */
} loam_heap_limits;

/** Reads the limits and the committed bytes. Each number is the value at some moment of the call,
 * while other threads allocate from the heap and free to it. Any thread may call it at any time,
 * also from a loam_heap_told handler. Cost: some instructions; no lock, no walk. */
LOAM_API void loam_heap_get_limits(const loam_heap *heap, loam_heap_limits *limits) LOAM_NOEXCEPT
    LOAM_NONNULL(1) LOAM_NONNULL(2);

/** Gives empty pages back to the system: those of the calling thread's branch and of threads that
 * have ended. */
LOAM_API void loam_heap_collect(loam_heap *heap) LOAM_NOEXCEPT LOAM_NONNULL(1);

/* ---- What is in it ---- */

/** Returns the heap for which loam_heap_contains(heap, p) is true. Returns NULL for an object of
 * malloc, an object at an offset, and any other pointer. Cost and threads: as
 * loam_heap_contains. */
LOAM_API loam_heap *loam_heap_of(const void *p) LOAM_NOEXCEPT;

/** Returns whether p, any pointer, points into memory of the heap: objects, their middle, and free
 * memory of its pages. If heap is NULL: of the calling thread's own heap. Cost: constant; for
 * pointers into the middle of a large object, and those that are not loam's, proportional to the
 * spans of the process. Here and in the functions below, a NULL heap has objects of up to 64 KiB
 * only, without those at an offset: malloc's other objects belong to no thread. */
LOAM_API bool loam_heap_contains(const loam_heap *heap, const void *p) LOAM_NOEXCEPT;

/** Returns whether p, any pointer, is the start of an object in use of the heap (NULL: the calling
 * thread's own). Threads: as loam_heap_visit. Cost: proportional to the blocks of the page. */
LOAM_API bool loam_heap_owns(const loam_heap *heap, const void *p) LOAM_NOEXCEPT;

/** An area of a heap's memory: a page of objects of one size class, or one large object. */
typedef struct loam_heap_area {
    /** First address. */
    const void *start;
    size_t bytes;        /**< of addresses; memory is taken as it is touched */
    size_t object_bytes; /**< usable bytes of each object */
    size_t objects;      /**< objects in use */
    size_t capacity;     /**< objects that fit */
} loam_heap_area;

/** A visitor of areas, for loam_heap_visit. Returns true to go on with the area's objects, false to
 * end the walk. */
typedef bool loam_heap_area_visitor(const loam_heap_area *area, void *context);
/** A visitor of objects in use, for loam_heap_visit. `bytes` is the object's usable size; in debug
 * and secure builds, the requested size. Returns true to go on, false to end the walk. */
typedef bool loam_heap_object_visitor(void *p, size_t bytes, void *context);
/** Walks the heap (NULL: the calling thread's own). Calls `area` for each area and, if that
 * returned true, `object` for each of the area's objects in use. `object` may be NULL. Returns
 * whether the walk reached the end: false iff a visitor returned false, the heap has ended, or
 * there is no memory for a list of areas. In the thread's own heap, objects that other threads have
 * just freed may still count as in use. The visitors must not use this heap, and must not throw: an
 * exception ends the program (std::terminate). No other thread may use the heap meanwhile, not even
 * to free: the lists would change during the walk. The numbers would be wrong, and debug and secure
 * builds might take what they see for damage, and end the process. */
LOAM_API bool loam_heap_visit(loam_heap *heap, loam_heap_area_visitor *area,
                              loam_heap_object_visitor *object, void *context) LOAM_NOEXCEPT
    LOAM_NONNULL(2);

/** Numbers of a heap. */
typedef struct loam_heap_numbers {
    size_t objects, object_bytes;  /**< in use; their usable bytes */
    size_t areas;                  /**< see loam_heap_area */
    size_t committed_bytes;        /**< bytes of pages and large objects now */
    size_t committed_bytes_most;   /**< peak of committed_bytes */
    size_t soft_limit, hard_limit; /**< SIZE_MAX: no limit */
} loam_heap_numbers;

/** Fills in a snapshot of the heap's numbers. It walks the heap, so that no other thread may use it
 * meanwhile, as for loam_heap_visit. The last four numbers can be read at any time by
 * loam_heap_get_limits. All numbers are 0 if the heap has ended. */
LOAM_API void loam_heap_usage(loam_heap *heap, loam_heap_numbers *numbers) LOAM_NOEXCEPT
    LOAM_NONNULL(1) LOAM_NONNULL(2);

LOAM_END

#include "loam/names_end.h"

#endif

/* loam/heap.h: first-class heaps: general-purpose heaps that a program makes, and ends as a whole.
 *
 * Choose one where objects of any size and order of frees belong together (a request, a document, a
 * script's interpreter) and end together, or are to be counted, limited or walked apart from all
 * others. destroy gives memory back by pages: a million objects cost what their pages do. Choose
 * region.h where nothing is freed singly, pool.h or blocks.h where sizes are few; those are faster
 * still. A heap cannot move objects, and each takes a page of 64 KiB of addresses (4 KiB of memory
 * at least) for every size class that each thread uses.
 *
 *     loam_heap ── branch of thread A ── pages ── objects       each thread allocates from its own branch, without
 *               ├─ branch of thread B ── pages ── objects       locks, as malloc does; who frees an object need not
 *               └─ large objects                                know its heap: loam_free, or free where that is loam's
 *
 * All functions may be called from any thread at any time, but where a thread ends a heap, or walks
 * one (loam_heap_visit, loam_heap_usage, loam_heap_owns): then no other may be allocating from it,
 * and for destroy and walks not freeing to it either. loam_heap_get_limits does not walk: what a
 * heap in use has committed is read there. Fork: the child has all heaps; what dead threads had of
 * them is taken by whoever allocates next.
 *
 * Sizes are in bytes. Objects are aligned to 16, or to what was asked for. Allocating functions
 * return NULL, with errno ENOMEM, iff there is no memory, the size exceeds PTRDIFF_MAX, or the
 * heap's hard limit is reached. Objects are as malloc's in everything else: loam_usable_size,
 * loam_realloc (moves into the calling thread's malloc), checks of the debug and secure builds.
 * Cost: 15 instructions on the way that most calls take, x86-64; free as malloc's.
 *
 * A heap that is NULL where it must not be, or has ended, is a mistake (LOAM_ON_ERROR): one line;
 * with `ignore` NULL and errno EINVAL, -EINVAL, false or nothing done. All functions see it,
 * allocating ones on their slow paths, where every call with such a heap comes; a release build
 * does not look at the heap of an object that realloc leaves in its place. What has ended is known
 * as long as its handle is not a new heap's: for 64 heaps at least.
 *
 * Invariant: a page's objects are all of one heap; loam_heap_usage walks it. After Leijen, Zorn and
 * de Moura, "Mimalloc: free list sharding in action" (2019), whose heaps are one thread's each.
 */
#ifndef LOAM_HEAP_H
#define LOAM_HEAP_H

#include "loam/names_begin.h"

#include "loam/malloc.h"

#include <stdbool.h>

LOAM_BEGIN

typedef struct loam_heap loam_heap;

/* ---- Beginning and end ---- */

/* Ends the heap; its objects live on as if malloc had made them, and may be freed meanwhile. NULL
 * is fine. If it is the calling thread's default, the thread's own takes its place; if another
 * thread's, that is a mistake, and it does not end. Takes time by pages. */
LOAM_API void loam_heap_delete(loam_heap *heap) LOAM_NOEXCEPT;

/* Ends the heap and all its objects; their memory is free for everybody. NULL is fine. Takes time
 * by pages, not by objects. Defaults as for delete. */
LOAM_API void loam_heap_destroy(loam_heap *heap) LOAM_NOEXCEPT;

#define LOAM_HEAP_BEGUN \
    LOAM_NODISCARD LOAM_FREED_BY(loam_heap_destroy) LOAM_FREED_BY(loam_heap_delete)

/* A heap without objects and limits. NULL, with errno ENOMEM, iff there is no memory. Takes less
 * than a microsecond and 256 bytes, 0.9 KiB more once it is used, and 5.8 KiB (16.5 KiB in a secure
 * build) for each thread that uses it: a branch. None of that goes back to the system when the heap
 * ends: the next heaps, of whatever thread, use it again. So 10,000 heaps at a time, of a thread
 * each, take 70 MB (180 MB) beside their pages; loam_stats.metadata_bytes counts it. Time does not
 * depend on how many heaps there are, or were. */
LOAM_API loam_heap *loam_heap_create(void) LOAM_NOEXCEPT LOAM_HEAP_BEGUN;

/* What the calling thread's malloc, and all that builds on it, allocates from, from now on; NULL:
 * its own heap, as at its start. *before (may be NULL) is what it was. 0, or -ENOMEM iff there is
 * no memory; -EINVAL iff it has ended. Of this thread only. Pages of loam_pages() stay the thread's
 * own. Objects at an offset (loam_malloc_aligned_offset and its kin) belong to no heap, whatever
 * the default: no limit counts them, no walk shows them, and they outlive it. */
LOAM_API int loam_heap_set_default(loam_heap *heap, loam_heap **before) LOAM_NOEXCEPT;

/* That heap; NULL: the thread's own. */
LOAM_API loam_heap *loam_heap_get_default(void) LOAM_NOEXCEPT;

/* ---- Objects ----
 *
 * Each is the function of loam/malloc.h without _heap in its name, and what is said of that holds
 * here, with two differences: a new object is the heap's, and one that moves moves into it,
 * whichever of loam's objects p was. heap is not NULL. There is none of the _aligned_offset forms:
 * such objects lie in pages of their own, with other rules for free, which all threads share and no
 * heap owns. loam_expand and the free functions need no heap to be named. */

/* At least size bytes, contents undefined. */
LOAM_API void *loam_heap_malloc(loam_heap *heap, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1) LOAM_SIZE(2);
/* Zeroed, to the usable size. */
LOAM_API void *loam_heap_zalloc(loam_heap *heap, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1) LOAM_SIZE(2);
/* count objects of size bytes each: zeroed; contents undefined. NULL as well iff count * size
 * overflows. */
LOAM_API void *loam_heap_calloc(loam_heap *heap, size_t count,
                                size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_SIZES(2, 3);
LOAM_API void *loam_heap_mallocarray(loam_heap *heap, size_t count,
                                     size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_SIZES(2, 3);
/* For at most LOAM_SMALL_MOST bytes: a larger size is a mistake, which debug and secure builds
 * report. */
LOAM_API void *loam_heap_malloc_small(loam_heap *heap, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1) LOAM_SIZE(2);
LOAM_API void *loam_heap_zalloc_small(loam_heap *heap, size_t size) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1) LOAM_SIZE(2);
/* At a multiple of align, a power of two. NULL as well, with errno EINVAL, iff it is none. */
LOAM_API void *loam_heap_malloc_aligned(loam_heap *heap, size_t size,
                                        size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_SIZE(2) LOAM_ALIGN(3);
LOAM_API void *loam_heap_zalloc_aligned(loam_heap *heap, size_t size,
                                        size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_SIZE(2) LOAM_ALIGN(3);
LOAM_API void *loam_heap_calloc_aligned(loam_heap *heap, size_t count, size_t size,
                                        size_t align) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_SIZES(2, 3) LOAM_ALIGN(4);

/* Another size for p. p NULL allocates; size 0 frees any other p. On failure p is as it was, but
 * for reallocf. */
LOAM_API void *loam_heap_realloc(loam_heap *heap, void *p,
                                 size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZE(3);
LOAM_API void *loam_heap_reallocarray(loam_heap *heap, void *p, size_t count,
                                      size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZES(3, 4);
/* On failure p is freed. */
LOAM_API void *loam_heap_reallocf(loam_heap *heap, void *p,
                                  size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZE(3);
/* What p grows by is zeroed; p from a function that zeroes, of this header or loam/malloc.h. */
LOAM_API void *loam_heap_rezalloc(loam_heap *heap, void *p,
                                  size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZE(3);
LOAM_API void *loam_heap_recalloc(loam_heap *heap, void *p, size_t count,
                                  size_t size) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZES(3, 4);
/* The same at a multiple of align, whatever p was. */
LOAM_API void *loam_heap_realloc_aligned(loam_heap *heap, void *p, size_t size,
                                         size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW LOAM_NONNULL(1)
    LOAM_SIZE(3) LOAM_ALIGN(4);
LOAM_API void *loam_heap_rezalloc_aligned(loam_heap *heap, void *p, size_t size,
                                          size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_NONNULL(1) LOAM_SIZE(3) LOAM_ALIGN(4);
LOAM_API void *loam_heap_recalloc_aligned(loam_heap *heap, void *p, size_t count, size_t size,
                                          size_t align) LOAM_NOEXCEPT LOAM_HEAP_RENEW
    LOAM_NONNULL(1) LOAM_SIZES(3, 4) LOAM_ALIGN(5);

/* Copies of a string, of at most so many characters of one, and of so many bytes. */
LOAM_API char *loam_heap_strdup(loam_heap *heap, const char *from) LOAM_NOEXCEPT LOAM_HEAP_NEW
    LOAM_NONNULL(1) LOAM_NONNULL(2);
LOAM_API char *loam_heap_strndup(loam_heap *heap, const char *from,
                                 size_t most) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_NONNULL(2);
LOAM_API void *loam_heap_memdup(loam_heap *heap, const void *from,
                                size_t bytes) LOAM_NOEXCEPT LOAM_HEAP_NEW LOAM_NONNULL(1)
    LOAM_NONNULL(2) LOAM_SIZE(3);
/* The path without links, in resolved or, where that is NULL, in an object of the heap. Errors as
 * loam_realpath. */
LOAM_API char *loam_heap_realpath(loam_heap *heap, const char *path,
                                  char *resolved) LOAM_NOEXCEPT LOAM_NODISCARD LOAM_NONNULL(1);

/* ---- Limits ---- */

/* Called by the thread whose request took the heap over its soft limit, after the request was
 * served and without loam's locks: it may allocate and free, and set limits; but it must not free
 * or change the object that a realloc or loam_expand is about. Once for each time that the limit is
 * passed: by a new page or large object, or by one that grows. */
typedef void loam_heap_told(loam_heap *heap, size_t committed_bytes, void *context);

/* Bounds the heap's pages and large objects, 64 KiB at a time: what passes `hard` is refused
 * (NULL), after empty pages have gone back; what passes `soft` is told. 0 or SIZE_MAX: no such
 * limit. told may be NULL. What is in use already stays, and may become smaller; if it is more than
 * `soft`, the next request that takes a slow path tells. 0; or -EINVAL iff both are given and soft
 * is above hard: nothing has changed then. Before objects are allocated, or at any time without
 * another thread in the heap. */
LOAM_API int loam_heap_set_limits(loam_heap *heap, size_t soft, size_t hard, loam_heap_told *told,
                                  void *context) LOAM_NOEXCEPT LOAM_NONNULL(1);

typedef struct loam_heap_limits {
    size_t soft, hard;           /* SIZE_MAX: none */
    size_t committed_bytes;      /* of pages and large objects: what the limits are about */
    size_t committed_bytes_most; /* the most that was */
} loam_heap_limits;

/* The limits, and what they bound: each number as it is at some moment of the call, while any
 * threads allocate from the heap and free to it. Any thread, at any time, a told function too; no
 * lock, no walk, some instructions. */
LOAM_API void loam_heap_get_limits(const loam_heap *heap, loam_heap_limits *limits) LOAM_NOEXCEPT
    LOAM_NONNULL(1) LOAM_NONNULL(2);

/* Gives back empty pages, of the calling thread's branch and of threads that have ended. */
LOAM_API void loam_heap_collect(loam_heap *heap) LOAM_NOEXCEPT LOAM_NONNULL(1);

/* ---- What is in it ---- */

/* The heap that the object p is of: what loam_heap_contains is true of. NULL: malloc's, or no
 * heap's, or no object. Time, threads: as loam_heap_contains. */
LOAM_API loam_heap *loam_heap_of(const void *p) LOAM_NOEXCEPT;

/* Whether memory at p, any pointer, belongs to the heap: objects, their middle, and free memory of
 * its pages. heap NULL: pages of the calling thread's own heap. Constant time, but for pointers
 * into the middle of large objects and those that are not loam's: time by the spans of the process.
 * Here and below, NULL knows of objects to 64 KiB only, and of those that are not at an offset:
 * others of malloc's belong to no thread. */
LOAM_API bool loam_heap_contains(const loam_heap *heap, const void *p) LOAM_NOEXCEPT;

/* Whether p, any pointer, is the start of an object in use. Takes time by the blocks of its page.
 * As for walks. */
LOAM_API bool loam_heap_owns(const loam_heap *heap, const void *p) LOAM_NOEXCEPT;

/* A piece of memory of a heap: objects of one size class, or one large object. */
typedef struct loam_heap_area {
    const void *start;
    size_t bytes;        /* of addresses; memory is taken as it is touched */
    size_t object_bytes; /* usable, of each object */
    size_t objects;      /* in use */
    size_t capacity;     /* objects that fit */
} loam_heap_area;

/* Calls area for each area and, if it returned true, object for each of its objects in use, with
 * its usable bytes (as requested, in debug and secure builds); object NULL: areas only. Either ends
 * the walk by returning false. Returns whether the walk came to its end; false also iff there is no
 * memory for a list of areas. heap NULL: the calling thread's own, in which what other threads have
 * just freed may still count as in use. The functions must not use this heap, nor throw: an
 * exception ends the program (std::terminate). Nor may any other thread use it meanwhile, be it
 * only to free: the walk would meet lists that change under it. Its numbers are wrong then, and
 * debug and secure builds may take what they see for damage, and end the process. */
typedef bool loam_heap_area_visitor(const loam_heap_area *area, void *context);
typedef bool loam_heap_object_visitor(void *p, size_t bytes, void *context);
LOAM_API bool loam_heap_visit(loam_heap *heap, loam_heap_area_visitor *area,
                              loam_heap_object_visitor *object, void *context) LOAM_NOEXCEPT
    LOAM_NONNULL(2);

typedef struct loam_heap_numbers {
    size_t objects, object_bytes; /* in use; their usable bytes */
    size_t areas;
    size_t committed_bytes;        /* of pages and large objects: what the limits are about */
    size_t committed_bytes_most;   /* the most that was */
    size_t soft_limit, hard_limit; /* SIZE_MAX: none */
} loam_heap_numbers;

/* A snapshot. It walks, and so nobody may be using the heap meanwhile, as for loam_heap_visit; the
 * last four numbers alone, at any time: loam_heap_get_limits. All 0 of a heap that has ended. */
LOAM_API void loam_heap_usage(loam_heap *heap, loam_heap_numbers *numbers) LOAM_NOEXCEPT
    LOAM_NONNULL(1) LOAM_NONNULL(2);

LOAM_END

#include "loam/names_end.h"

#endif

/* loam/alloc.h: a handle to an allocator of the family, whichever: for functions that do not care.
 *
 *     static char *copy(loam_alloc alloc, const char *text) { // from any of them
 *         size_t bytes = strlen(text) + 1;
 *         char *p = loam_alloc_alloc(alloc, bytes, 1);
 *         return p != NULL ? memcpy(p, text, bytes) : NULL;
 *     }
 *     loam_alloc alloc = loam_heap_as_alloc(NULL);                    // malloc
 *     char *text = copy(alloc, "from a region: loam_region_as_alloc(&request)");
 *     if (text != NULL) loam_alloc_free(alloc, text, strlen(text) + 1, 1);
 *
 * Choose it at the borders of libraries, and for containers that are made once and used with
 * different allocators. It costs an indirect call: where the allocator is known, its own functions
 * are inline. It cannot reset, rewind or end what it points to; whoever made that does so.
 *
 *   loam_alloc   │ functions ──> alloc, realloc, free       a table for each kind of allocator, constant
 *   (two words)  │ self ───────> region, pool, blocks, ...
 *
 * A handle is passed by value, and is good as long as its allocator. Objects are freed by a handle
 * to the same allocator, or by that itself, as its header says, with the size and alignment that
 * they were asked for with. Handles may be used by as many threads at a time as their allocators.
 * {NULL, NULL} is a handle, too: to nothing, from which every allocation fails.
 *
 * To add an allocator: a table of three functions in src/family/alloc.c (src/hosted/alloc_hosted.c
 * if it needs a system), and a line here. After Berger, Zorn and McKinley, "Composing
 * high-performance memory allocators" (2001), who pay for this at compile time.
 */
#ifndef LOAM_ALLOC_H
#define LOAM_ALLOC_H

#include "loam/names_begin.h"

#include "loam/types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

LOAM_BEGIN

struct loam_blocks;
struct loam_fifo;
struct loam_pool;
struct loam_region;
struct loam_heap;
struct loam_ring;
struct loam_shared_pool;
struct loam_stack;

/* What an allocator of your own has to fill in. bytes may be 0, align is any number: the first two
 * return NULL iff there is no memory or either is impossible, and realloc has changed nothing then.
 * p is NULL or of this allocator, with the size and alignment it was asked for with. */
typedef struct loam_alloc_functions {
    void *(*alloc)(void *self, size_t bytes, size_t align, const char *file, unsigned line);
    void *(*realloc)(void *self, void *p, size_t old_bytes, size_t bytes, size_t align,
                     const char *file, unsigned line);
    void (*free)(void *self, void *p, size_t bytes, size_t align, const char *file, unsigned line);
    const char *name; /* of the kind: "region" */
} loam_alloc_functions;

typedef struct loam_alloc {
    const loam_alloc_functions *functions; /* NULL: none, from which there is nothing */
    void *self;
} loam_alloc;

/* ---- Handles ---- */

extern LOAM_API const loam_alloc_functions loam_alloc_of_region, loam_alloc_of_pool,
    loam_alloc_of_blocks, loam_alloc_of_fifo, loam_alloc_of_stack, loam_alloc_of_ring;

LOAM_INLINE loam_alloc loam_alloc_make(const loam_alloc_functions *functions,
                                       void *self) LOAM_NOEXCEPT {
    loam_alloc alloc;
    alloc.functions = functions;
    alloc.self = self;
    return alloc;
}

/* Any size, any alignment. An object of 0 bytes may have the next one's address. */
LOAM_INLINE loam_alloc loam_region_as_alloc(struct loam_region *region) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_region, region);
}
/* Up to a block's size and alignment, a block each; NULL for more. */
LOAM_INLINE loam_alloc loam_pool_as_alloc(struct loam_pool *pool) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_pool, pool);
}
/* Alignments up to 64 KiB; NULL for more, and as loam_blocks_alloc. */
LOAM_INLINE loam_alloc loam_blocks_as_alloc(struct loam_blocks *blocks) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_blocks, blocks);
}

/* Any size, any alignment, by the FIFO's owner. */
LOAM_INLINE loam_alloc loam_fifo_as_alloc(struct loam_fifo *fifo) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_fifo, fifo);
}
/* Any size, any alignment. Objects belong to the frame that is the newest when they are allocated,
 * and end with it; they are freed, and change their size, in it alone. So do not hand the handle to
 * who keeps what it allocates. */
LOAM_INLINE loam_alloc loam_stack_as_alloc(struct loam_stack *stack) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_stack, stack);
}
/* The same. A frame is to be open: to allocate without one is a mistake that is reported. */
LOAM_INLINE loam_alloc loam_ring_as_alloc(struct loam_ring *ring) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_ring, ring);
}

#if __STDC_HOSTED__
extern LOAM_API const loam_alloc_functions loam_alloc_of_shared_pool, loam_alloc_of_heap;

/* As of a pool, for many threads. */
LOAM_INLINE loam_alloc loam_shared_pool_as_alloc(struct loam_shared_pool *pool) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_shared_pool, pool);
}
/* A first-class heap; NULL: loam_malloc and its kin. Any size, any alignment, any thread. */
LOAM_INLINE loam_alloc loam_heap_as_alloc(struct loam_heap *heap) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_heap, heap);
}
#endif

/* ---- Use. An indirect call more than the allocator's own function, out of line ---- */

/* What free does with an object and no allocator: reports the mistake. */
LOAM_API LOAM_COLD void loam_alloc_free_from_none(void *p, const char *file,
                                                  unsigned line) LOAM_NOEXCEPT;

/* At least `bytes` bytes, with any contents, at a multiple of align, a power of two: 0 bytes are an
 * object too, to be freed. NULL iff there is no memory, the allocator cannot have objects of that
 * size or alignment, align is no power of two, or the handle is to nothing. */
LOAM_INLINE LOAM_NODISCARD void *loam_alloc_alloc_at(loam_alloc alloc, size_t bytes, size_t align,
                                                     const char *file,
                                                     unsigned line) LOAM_NOEXCEPT {
    if (LOAM_UNLIKELY(alloc.functions == NULL)) return NULL;
    return (alloc.functions->alloc)(alloc.self, bytes, align, file, line);
}
#define loam_alloc_alloc(alloc, bytes, align) loam_alloc_alloc_at(alloc, bytes, align, LOAM_HERE)

/* The same for count objects of `bytes` bytes in a row, zeroed. NULL as well iff the product
 * overflows. */
LOAM_INLINE LOAM_NODISCARD void *loam_alloc_calloc_at(loam_alloc alloc, size_t count, size_t bytes,
                                                      size_t align, const char *file,
                                                      unsigned line) LOAM_NOEXCEPT {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *p = loam_alloc_alloc_at(alloc, all, align, file, line);
    return p != NULL ? __builtin_memset(p, 0, all) : NULL;
}
#define loam_alloc_calloc(alloc, count, bytes, align) \
    loam_alloc_calloc_at(alloc, count, bytes, align, LOAM_HERE)

/* An object of old_bytes and align becomes one of `bytes`, which may be elsewhere; what both sizes
 * hold stays. p NULL: alloc. 0 bytes: an object of none, as alloc makes it. NULL as for alloc; the
 * object is as it was then. A pool's stays where it is. */
LOAM_INLINE LOAM_NODISCARD void *loam_alloc_realloc_at(loam_alloc alloc, void *p, size_t old_bytes,
                                                       size_t bytes, size_t align, const char *file,
                                                       unsigned line) LOAM_NOEXCEPT {
    if (LOAM_UNLIKELY(alloc.functions == NULL)) return NULL;
    return (alloc.functions->realloc)(alloc.self, p, old_bytes, bytes, align, file, line);
}
#define loam_alloc_realloc(alloc, p, old_bytes, bytes, align) \
    loam_alloc_realloc_at(alloc, p, old_bytes, bytes, align, LOAM_HERE)

/* Takes back an object of that size and alignment; NULL is fine. A wrong size or alignment is a
 * mistake, as for a region: checked regions report it, the others do not need to know. */
LOAM_INLINE void loam_alloc_free_at(loam_alloc alloc, void *p, size_t bytes, size_t align,
                                    const char *file, unsigned line) LOAM_NOEXCEPT {
    if (LOAM_LIKELY(alloc.functions != NULL))
        (alloc.functions->free)(alloc.self, p, bytes, align, file, line);
    else
        loam_alloc_free_from_none(p, file, line);
}
#define loam_alloc_free(alloc, p, bytes, align) \
    loam_alloc_free_at(alloc, p, bytes, align, LOAM_HERE)

/* A T, or count of them, at T's own alignment, not initialised; and back. */
#define LOAM_ALLOC_NEW(alloc, T) \
    ((T *)loam_alloc_alloc_at(alloc, sizeof(T), __alignof__(T), LOAM_HERE))
#define LOAM_ALLOC_DROP(alloc, p) \
    loam_alloc_free_at(alloc, p, sizeof(*(p)), __alignof__(*(p)), LOAM_HERE)

/* What kind of allocator it is: "region", "pool", "blocks", "fifo", "stack", "ring",
 * "heap"; "none". */
LOAM_INLINE const char *loam_alloc_name(loam_alloc alloc) LOAM_NOEXCEPT {
    return alloc.functions != NULL ? alloc.functions->name : "none";
}
LOAM_INLINE bool loam_alloc_is_same(loam_alloc a, loam_alloc b) LOAM_NOEXCEPT {
    return a.functions == b.functions && a.self == b.self;
}

LOAM_END

#include "loam/names_end.h"

#endif

/* loam/alloc.h: a handle to any allocator of loam, for functions that work with every allocator.
 *
 *     static char *copy(loam_alloc alloc, const char *text) { // from any allocator
 *         size_t bytes = strlen(text) + 1;
 *         char *p = loam_alloc_alloc(alloc, bytes, 1);
 *         return p != NULL ? memcpy(p, text, bytes) : NULL;
 *     }
 *     loam_alloc alloc = loam_heap_as_alloc(NULL);                    // malloc
 *     char *text = copy(alloc, "from a region: loam_region_as_alloc(&request)");
 *     if (text != NULL) loam_alloc_free(alloc, text, strlen(text) + 1, 1);
 *
 * Choose it at the borders of libraries, and for containers that are written once and used with
 * different allocators. It costs an indirect call; the allocators' own functions are inline. It
 * cannot reset, rewind or destroy the allocator that it points to.
 *
 *   loam_alloc   │ functions ──> alloc, realloc, free       a constant table for each kind
 *   (two words)  │ self ───────> region, pool, blocks, ...
 *
 * A handle is passed by value, and is valid as long as its allocator. Free an object with the size
 * and alignment that it was requested with. Use a handle to its allocator, or the allocator's own
 * functions as its header says. As many threads may use a handle at a time as may use its
 * allocator. {NULL, NULL} is a handle without an allocator: every allocation from it fails.
 *
 * To add an allocator, write a table of three functions in src/family/alloc.c
 * (src/hosted/alloc_hosted.c if it needs a system), and a line here. After Berger, Zorn and
 * McKinley, "Composing high-performance memory allocators" (2001), where the choice is made at
 * compile time. */
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

/** The functions of a kind of allocator; write one for your own. `bytes` may be 0, and `align` is
 * any number. alloc and realloc return NULL iff there is no memory or either number is impossible,
 * and realloc has changed nothing then. `p` is NULL or an object of this allocator, with the size
 * and alignment that it was requested with. `file` and `line` say where the call stands in the
 * program. */
typedef struct loam_alloc_functions {
    void *(*alloc)(void *self, size_t bytes, size_t align, const char *file, unsigned line);
    void *(*realloc)(void *self, void *p, size_t old_bytes, size_t bytes, size_t align,
                     const char *file, unsigned line);
    void (*free)(void *self, void *p, size_t bytes, size_t align, const char *file, unsigned line);
    const char *name; /**< of the kind: "region" */
} loam_alloc_functions;

/** A handle; {NULL, NULL} has no allocator. */
typedef struct loam_alloc {
    const loam_alloc_functions *functions; /**< NULL: no allocator */
    void *self;
} loam_alloc;

/* ---- Handles ---- */

/** The tables of loam's allocators. */
extern LOAM_API const loam_alloc_functions loam_alloc_of_region, loam_alloc_of_pool,
    loam_alloc_of_blocks, loam_alloc_of_fifo, loam_alloc_of_stack, loam_alloc_of_ring;

/** Returns a handle to self, an allocator of your own. */
LOAM_INLINE loam_alloc loam_alloc_make(const loam_alloc_functions *functions,
                                       void *self) LOAM_NOEXCEPT {
    loam_alloc alloc;
    alloc.functions = functions;
    alloc.self = self;
    return alloc;
}

/** Returns a handle to a region: any size, any alignment. An object of 0 bytes may have the address
 * of the next object. */
LOAM_INLINE loam_alloc loam_region_as_alloc(struct loam_region *region) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_region, region);
}
/** Returns a handle to a pool. An object takes a block; allocations larger or more aligned than a
 * block return NULL. */
LOAM_INLINE loam_alloc loam_pool_as_alloc(struct loam_pool *pool) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_pool, pool);
}
/** Returns a handle to blocks: alignments of up to 64 KiB; larger ones return NULL, as do sizes for
 * which loam_blocks_alloc does. */
LOAM_INLINE loam_alloc loam_blocks_as_alloc(struct loam_blocks *blocks) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_blocks, blocks);
}

/** Returns a handle to a FIFO: any size, any alignment. Only the FIFO's owner may use it. */
LOAM_INLINE loam_alloc loam_fifo_as_alloc(struct loam_fifo *fifo) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_fifo, fifo);
}
/** Returns a handle to a stack: any size, any alignment. An object belongs to the frame that is the
 * newest when it is allocated, and ends with it. It may be freed and resized only while that frame
 * is the newest. So do not pass the handle to code that keeps what it allocates. */
LOAM_INLINE loam_alloc loam_stack_as_alloc(struct loam_stack *stack) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_stack, stack);
}
/** Returns a handle to a ring: as loam_stack_as_alloc. A frame must be open: to allocate without
 * one is a mistake that is reported. */
LOAM_INLINE loam_alloc loam_ring_as_alloc(struct loam_ring *ring) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_ring, ring);
}

#if __STDC_HOSTED__
/** The tables of allocators that need a system. */
extern LOAM_API const loam_alloc_functions loam_alloc_of_shared_pool, loam_alloc_of_heap;

/** Returns a handle to a shared pool: as loam_pool_as_alloc, for many threads. */
LOAM_INLINE loam_alloc loam_shared_pool_as_alloc(struct loam_shared_pool *pool) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_shared_pool, pool);
}
/** Returns a handle to a first-class heap, or, for NULL, to malloc (loam_malloc). Any size, any
 * alignment, any thread. */
LOAM_INLINE loam_alloc loam_heap_as_alloc(struct loam_heap *heap) LOAM_NOEXCEPT {
    return loam_alloc_make(&loam_alloc_of_heap, heap);
}
#endif

/* ---- Use: the allocator's own function, out of line, behind an indirect call ---- */

/** Called by loam_alloc_free for an object and no allocator: reports the mistake. Does nothing if p
 * is NULL. */
LOAM_API LOAM_COLD void loam_alloc_free_from_none(void *p, const char *file,
                                                  unsigned line) LOAM_NOEXCEPT;

/** Allocates at least `bytes` bytes, uninitialised, at a multiple of align, a power of two. An
 * object of 0 bytes must be freed, too. Returns NULL iff there is no memory, the allocator cannot
 * have objects of that size or alignment, align is not a power of two, or the handle has no
 * allocator. Call it as loam_alloc_alloc. */
LOAM_INLINE LOAM_NODISCARD void *loam_alloc_alloc_at(loam_alloc alloc, size_t bytes, size_t align,
                                                     const char *file,
                                                     unsigned line) LOAM_NOEXCEPT {
    if (LOAM_UNLIKELY(alloc.functions == NULL)) return NULL;
    return (alloc.functions->alloc)(alloc.self, bytes, align, file, line);
}
/** loam_alloc_alloc_at with the caller's file and line. */
#define loam_alloc_alloc(alloc, bytes, align) loam_alloc_alloc_at(alloc, bytes, align, LOAM_HERE)

/** Allocates count objects of `bytes` bytes each in a row, zeroed. Returns NULL as
 * loam_alloc_alloc, and always if the product overflows. Call it as loam_alloc_calloc. */
LOAM_INLINE LOAM_NODISCARD void *loam_alloc_calloc_at(loam_alloc alloc, size_t count, size_t bytes,
                                                      size_t align, const char *file,
                                                      unsigned line) LOAM_NOEXCEPT {
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) return NULL;
    void *p = loam_alloc_alloc_at(alloc, all, align, file, line);
    return p != NULL ? __builtin_memset(p, 0, all) : NULL;
}
/** loam_alloc_calloc_at with the caller's file and line. */
#define loam_alloc_calloc(alloc, count, bytes, align) \
    loam_alloc_calloc_at(alloc, count, bytes, align, LOAM_HERE)

/** Changes the size of an object from old_bytes to `bytes`; the object may move. The first
 * min(old_bytes, bytes) bytes stay. If p is NULL, it allocates. A size of 0 gives an object of 0
 * bytes, as loam_alloc_alloc does. Returns NULL as loam_alloc_alloc; p stays valid then. An object
 * of a pool stays in place. Call it as loam_alloc_realloc. */
LOAM_INLINE LOAM_NODISCARD void *loam_alloc_realloc_at(loam_alloc alloc, void *p, size_t old_bytes,
                                                       size_t bytes, size_t align, const char *file,
                                                       unsigned line) LOAM_NOEXCEPT {
    if (LOAM_UNLIKELY(alloc.functions == NULL)) return NULL;
    return (alloc.functions->realloc)(alloc.self, p, old_bytes, bytes, align, file, line);
}
/** loam_alloc_realloc_at with the caller's file and line. */
#define loam_alloc_realloc(alloc, p, old_bytes, bytes, align) \
    loam_alloc_realloc_at(alloc, p, old_bytes, bytes, align, LOAM_HERE)

/** Frees an object with its size and alignment; NULL is allowed. A wrong size or alignment is a
 * mistake: checked regions report it, other allocators do not need them. Call it as
 * loam_alloc_free. */
LOAM_INLINE void loam_alloc_free_at(loam_alloc alloc, void *p, size_t bytes, size_t align,
                                    const char *file, unsigned line) LOAM_NOEXCEPT {
    if (LOAM_LIKELY(alloc.functions != NULL))
        (alloc.functions->free)(alloc.self, p, bytes, align, file, line);
    else
        loam_alloc_free_from_none(p, file, line);
}
/** loam_alloc_free_at with the caller's file and line. */
#define loam_alloc_free(alloc, p, bytes, align) \
    loam_alloc_free_at(alloc, p, bytes, align, LOAM_HERE)

/** Allocates a T at T's own alignment, uninitialised. */
#define LOAM_ALLOC_NEW(alloc, T) \
    ((T *)loam_alloc_alloc_at(alloc, sizeof(T), __alignof__(T), LOAM_HERE))
/** Frees an object of LOAM_ALLOC_NEW. *p must have the type T. */
#define LOAM_ALLOC_DROP(alloc, p) \
    loam_alloc_free_at(alloc, p, sizeof(*(p)), __alignof__(*(p)), LOAM_HERE)

/** Returns the kind of the handle's allocator: "region", "pool" (also a shared one), "blocks",
 * "fifo", "stack", "ring", "heap"; "none" if there is no allocator. */
LOAM_INLINE const char *loam_alloc_name(loam_alloc alloc) LOAM_NOEXCEPT {
    return alloc.functions != NULL ? alloc.functions->name : "none";
}
/** Returns whether two handles are to one allocator. */
LOAM_INLINE bool loam_alloc_is_same(loam_alloc a, loam_alloc b) LOAM_NOEXCEPT {
    return a.functions == b.functions && a.self == b.self;
}

LOAM_END

#include "loam/names_end.h"

#endif

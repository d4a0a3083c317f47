/* loam/blocks.h: malloc and free for programs with few sizes: one free list for each size class.
 *
 * Choose it where objects of many sizes up to some KiB come and go, and their heap is to be fast,
 * yours alone, and never fragmented: a block that is freed serves the next request of its class,
 * whatever happened between. For one size take a pool, for memory that ends all at once a region.
 * It cannot move memory from one class to another but by loam_blocks_trim, and a request takes a
 * whole block of its class: see loam_blocks_fit for classes that suit a program.
 *
 * Three modes:
 *   heap blocks   grows by slabs of 64 KiB from its source, as blocks are needed
 *   heap pool     LOAM_FIXED: all memory is taken from the source at init; exhausted is NULL
 *   static pool   the same in the caller's memory; no source at all
 *
 *   heads[class] ──> free block ──> free block ──> NULL          class_of[(bytes + 7) / 8]
 *
 *   slab, at a multiple of 64 KiB                     large object: a chunk of the source by itself
 *   │ header, 64 B │ 64 B │ block │ block │ ... │     │ header, 64 B │ object ............. │
 *
 *   fixed: │ tables │ blocks of class 0 │ blocks of class 1 │ ... │   a byte for each stretch finds the class
 *
 * The owner of a block is found from its address: no word is hidden in front of it, every block is
 * aligned to 16 bytes (those of a class of 8 bytes to 8), and one of 128 bytes is two cache lines.
 * Blocks of whole KiB, from 2 KiB on, lie 64 bytes further apart, so that their first words do not
 * meet in a few sets of the processor's caches. Objects aligned to more than 128 bytes have classes
 * of their own, the powers of two from 256 bytes on. A large object (above the largest class) goes
 * to the source by itself; a fixed instance has none.
 *
 * Threads: an instance belongs to one thread at a time, unless it is LOAM_THREADS: then each thread
 * has lists of its own, and exchanges whole batches of blocks with the others under a lock; any
 * thread may free. The child of a fork has the instance, and the forking thread's lists, as they
 * were. What lay in the lists of other threads is lost to it: these blocks count as in use and are
 * never handed out, up to two batches (of 16 KiB, but 4 to 64 blocks) for each such thread and
 * class. loam_blocks_reset and loam_blocks_deinit give them back. A program whose children go on to
 * allocate much lets the other threads call loam_blocks_trim before it forks, or forks before it
 * has threads.
 *
 * Invariant: each block of a slab is either handed out, or in exactly one list, or not yet carved;
 * loam_blocks_check walks it. Sources: the simple segregated storage of Wilson, Johnstone, Neely
 * and Boles, "Dynamic Storage Allocation" (1995); the exchange of batches after Bonwick and Adams,
 * "Magazines and Vmem" (2001).
 */
#ifndef LOAM_BLOCKS_H
#define LOAM_BLOCKS_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

enum {
    LOAM_BLOCKS_CLASSES = 128,          /* at most */
    LOAM_BLOCKS_LARGEST = 32 * 1024,    /* bytes of a class, at most */
    LOAM_BLOCKS_SLAB_BYTES = 64 * 1024, /* of a slab, and what its address is a multiple of */
    LOAM_BLOCKS_HEADER = 64,            /* bytes of its header; a large object follows at once */
    LOAM_BLOCKS_FIRST = 128,            /* bytes before its first block */
};

/* The four functions that a port gives for locking, each called with context; NULL members do
 * nothing. */
typedef struct loam_blocks_locks {
    void (*init)(void *context);
    void (*get)(void *context);
    void (*release)(void *context);
    void (*destroy)(void *context);
    void *context;
} loam_blocks_locks;

/* How often each size was asked for. counts is the caller's memory, largest_bytes + 1 of them. */
typedef struct loam_histogram {
    size_t *counts;
    size_t largest_bytes;
    size_t beyond; /* requests above that */
} loam_histogram;

/* All zero is a set of heap blocks over loam_pages() with the default classes. */
typedef struct loam_blocks_options {
    loam_source *source; /* NULL: loam_pages(), or -EINVAL where there is no operating system */
    void *memory;        /* not NULL: a static pool in it */
    size_t memory_bytes;
    const uint32_t
        *classes; /* block sizes in bytes, ascending; rounded up to 16, those up to 8 to 8, but with
                   * LOAM_THREADS to 16 as well; NULL: the default ones, from 16 on */
    unsigned class_count;
    /* Fixed instances only: blocks of each class; NULL: blocks_each of every one; and where that is
     * 0, as many of each as fit into memory. */
    const uint32_t *max_blocks;
    uint32_t blocks_each;
    unsigned flags; /* LOAM_CHECK, LOAM_THREADS, LOAM_FIXED */
    /* Allocations and deallocations are counted, and a block is carved when one is wanted, so that
     * block_count is the most that were ever in use at once: every call goes out of line. */
    bool counted;
    /* LOAM_THREADS: every call is made under these. NULL: caches per thread, where there is an
     * operating system, -EINVAL elsewhere. */
    const loam_blocks_locks *locks;
    const char *name; /* for the registry; not copied; may be NULL */
} loam_blocks_options;

typedef void *loam_blocks_link __attribute__((__may_alias__)); /* of free blocks */

/* ---- What follows is private to loam, up to the functions ---- */

/* A slab's first bytes. */
typedef struct loam_blocks_slab {
    uint32_t class_index;
    uint32_t spare_blocks; /* scratch of trim */
    uint32_t first;        /* bytes before the first block: the slab's colour; of a large object
                            * that was freed: before its tag */
    struct loam_blocks *owner;
    struct loam_blocks_slab *next;
    /* Of a large object: the one before it; of others: scratch of check. */
    struct loam_blocks_slab *sides[2];
    size_t got; /* bytes of the chunk, which begins here */
} loam_blocks_slab;

/* A thread's free blocks of one class. Each has two words: the block below it, and how many they
 * are from it down. So the length of the list is known without a word of its own, which every call
 * would have to write. loam_blocks_bottom lies below the last: the block that has none below it. */
typedef struct loam_blocks_cached {
    struct loam_blocks_cached *below;
    uintptr_t depth;
} __attribute__((__may_alias__)) loam_blocks_cached;

typedef struct loam_blocks_list {
    loam_blocks_cached *head;
    loam_blocks_cached *spare; /* a whole batch, or NULL */
    uintptr_t batch;           /* blocks of one: head has always fewer */
    uintptr_t unused;
} loam_blocks_list;

typedef struct loam_blocks_cache {
    struct loam_blocks *blocks;
    struct loam_blocks_cache *next, **link, **place;
} loam_blocks_cache; /* a list for each class follows */

typedef struct loam_blocks {
    size_t inline_below; /* bytes; requests below are served inline by heads; or 0 */
    size_t cached_below; /* the same by the thread's cache; or 0 */
    const uint8_t *class_of;
    void **heads;
    uint32_t inline_edge; /* blocks at more than that in 64 KiB are freed inline; or 65535 */
    uint32_t cached_edge;
    uint32_t slot;        /* of the cache in each thread's table */
    uint32_t class_count; /* those of aligned objects included, which come last */
    size_t largest_bytes;
    /* ---- 64 bytes ---- */
    struct loam_blocks_class *classes;
    loam_source *source;
    const loam_blocks_locks *locks;
    loam_histogram *histogram;
    loam_blocks_slab *large;
    loam_blocks_slab *gone; /* checked: large objects that were freed lately, the oldest first */
    loam_blocks_cache *caches;
    char *base, *end;   /* of the blocks of a fixed instance; else NULL */
    const uint8_t *map; /* class of each stretch of it */
    uint32_t map_shift;
    uint32_t sized_count; /* classes that requests find by their size */
    uint32_t lock_word;
    bool checked, watched, counted, fixed;
    bool plain_fixed; /* fixed, and no more to do at a free than to find the class */
    bool leaks, ended;
    uint32_t guard_bytes; /* fixed and checked: guards behind each object, counted in block_bytes */
    void *tables;         /* chunk of the source that holds the tables; NULL in a static pool */
    size_t tables_got;
    size_t held_bytes, peak_bytes, chunks, requests, large_bytes, large_count;
    struct loam_blocks *next, *prev; /* of those with caches */
    loam_blocks_locks own_locks;
    loam_entry entry;
} loam_blocks;

LOAM_API LOAM_NODISCARD int loam_blocks_init_flags(loam_blocks *blocks,
                                                   const loam_blocks_options *options,
                                                   unsigned more_flags) LOAM_NOEXCEPT;
LOAM_API LOAM_NODISCARD void *loam_blocks_alloc_slow(loam_blocks *blocks, size_t bytes,
                                                     const char *file, unsigned line) LOAM_NOEXCEPT;
LOAM_API void loam_blocks_free_slow(loam_blocks *blocks, void *p, const char *file,
                                    unsigned line) LOAM_NOEXCEPT;
LOAM_API void loam_blocks_batch_full(loam_blocks *blocks, loam_blocks_list *list) LOAM_NOEXCEPT;

#if __STDC_HOSTED__
/* The calling thread's caches, one place for each instance with LOAM_THREADS. */
extern LOAM_API __thread loam_blocks_cache **loam_blocks_caches LOAM_TLS;
#endif

/* ---- Beginning and end ---- */

/* Sets up *blocks, which may be anywhere and must not move. options may be NULL: all zero. One
 * chunk of the source is taken for tables (about 2 KiB), the rest as blocks are needed; of a fixed
 * instance all. 0; -EINVAL: classes that are none, not ascending, 0 or above LOAM_BLOCKS_LARGEST,
 * or options that exclude each other; -ENOMEM: the source has no memory, or the caller's is too
 * small. Nothing is kept then. */
LOAM_INLINE LOAM_NODISCARD int loam_blocks_init(loam_blocks *blocks,
                                                const loam_blocks_options *options) LOAM_NOEXCEPT {
    return loam_blocks_init_flags(blocks, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}

/* Gives all memory back to the source, live objects included. No other thread may be using it. With
 * LOAM_CHECK these objects are listed first, as by loam_registry_leaks. */
LOAM_API void loam_blocks_deinit(loam_blocks *blocks) LOAM_NOEXCEPT;

/* A static pool with LOAM_CHECK finds overflow, underflow and writes after a free as other checked
 * instances do if its memory has room for 16 bytes more a block: as LOAM_BLOCKS_CHECKED_BYTES and
 * loam_blocks_pool_bytes count. In less memory it has guards only in what an object leaves of its
 * block, from 4 bytes on.
 *
 * Bytes of memory that a static pool with these options needs, at most, whatever its address; 0 iff
 * they are not valid. For a size known to the compiler, LOAM_BLOCKS_BYTES. */
LOAM_API size_t loam_blocks_pool_bytes(const loam_blocks_options *options) LOAM_NOEXCEPT;

/* The same or more: for classes whose sizes, rounded up to 16, sum up to sum_bytes, `each` blocks
 * of each. */
#define LOAM_BLOCKS_BYTES(sum_bytes, class_count, largest_bytes, each) \
    LOAM_BLOCKS_BYTES_OF_((size_t)(sum_bytes) + (LOAM_CHECKED ? 16 * (class_count) : 0), \
                          class_count, largest_bytes, each)
/* The same with room for guards, whatever LOAM_CHECKED is: for an instance with LOAM_CHECK. */
#define LOAM_BLOCKS_CHECKED_BYTES(sum_bytes, class_count, largest_bytes, each) \
    LOAM_BLOCKS_BYTES_OF_((size_t)(sum_bytes) + 16 * (class_count), class_count, largest_bytes, \
                          each)
#define LOAM_BLOCKS_BYTES_OF_(sum_bytes, class_count, largest_bytes, each) \
    ((size_t)(sum_bytes) * (each) + (size_t)(sum_bytes) * (each) / 128 + \
     (class_count) * (LOAM_BLOCKS_CLASS_BYTES + sizeof(void *)) + (largest_bytes) / 8 + 400)
#define LOAM_BLOCKS_CLASS_BYTES (16 * sizeof(void *) + 32)
/* The default classes: powers of two from 16 to 4096, 400 and 768. */
#define LOAM_BLOCKS_DEFAULT_BYTES(each) LOAM_BLOCKS_BYTES(9344, 11, 4096, each)

/* ---- Use. Cost: 11 to 13 instructions, inline, with LOAM_THREADS 20 to 25, unless a list is empty
 * or full ---- */

/* At least `bytes` bytes (0: a block of the smallest class), aligned to 16 (where there is a class
 * of 8 bytes, and no more are asked for, to 8), with any contents. NULL iff there is no memory: the
 * source has none, a fixed instance's class is exhausted or none is that large, or bytes is above
 * PTRDIFF_MAX less 128 KiB. */
LOAM_INLINE LOAM_NODISCARD void *loam_blocks_alloc_at(loam_blocks *blocks, size_t bytes,
                                                      const char *file,
                                                      unsigned line) LOAM_NOEXCEPT {
    if (LOAM_LIKELY(bytes < blocks->inline_below)) {
        void **head = &blocks->heads[blocks->class_of[(bytes + 7) / 8]];
        void *block = *head;
        if (LOAM_LIKELY(block != NULL)) {
            *head = *(loam_blocks_link *)block;
            return block;
        }
    }
#if __STDC_HOSTED__
    else if (LOAM_LIKELY(bytes < blocks->cached_below)) {
        loam_blocks_cache *cache = loam_blocks_caches[blocks->slot];
        if (LOAM_LIKELY(cache != NULL)) {
            loam_blocks_list *list =
                &((loam_blocks_list *)(cache + 1))[blocks->class_of[(bytes + 7) / 8]];
            loam_blocks_cached *block = list->head, *below = block->below;
            if (LOAM_LIKELY(below != NULL)) {
                list->head = below;
                return block;
            }
        }
    }
#endif
    return loam_blocks_alloc_slow(blocks, bytes, file, line);
}
#define loam_blocks_alloc(blocks, bytes) loam_blocks_alloc_at(blocks, bytes, LOAM_HERE)

/* Takes back what an allocation of this instance gave; NULL allowed. LOAM_THREADS: by any
 * thread. */
LOAM_INLINE void loam_blocks_free_at(loam_blocks *blocks, void *p, const char *file,
                                     unsigned line) LOAM_NOEXCEPT {
    /* NULL and large objects are at the start of 64 KiB, blocks are not: one comparison for both,
     * and for instances that have to go out of line. */
    uint32_t at = (uint32_t)((uintptr_t)p % LOAM_BLOCKS_SLAB_BYTES);
    if (LOAM_LIKELY(at > blocks->inline_edge)) {
        loam_blocks_slab *slab = (loam_blocks_slab *)(void *)((char *)p - at);
        void **head = &blocks->heads[slab->class_index];
        *(loam_blocks_link *)p = *head;
        *head = p;
        return;
    }
#if __STDC_HOSTED__
    if (LOAM_LIKELY(at > blocks->cached_edge)) {
        loam_blocks_cache *cache = loam_blocks_caches[blocks->slot];
        if (LOAM_LIKELY(cache != NULL)) {
            loam_blocks_slab *slab = (loam_blocks_slab *)(void *)((char *)p - at);
            loam_blocks_list *list = &((loam_blocks_list *)(cache + 1))[slab->class_index];
            loam_blocks_cached *head = list->head, *block = (loam_blocks_cached *)p;
            uintptr_t depth = head->depth + 1;
            block->below = head;
            block->depth = depth;
            list->head = block;
            if (LOAM_UNLIKELY(depth >= list->batch)) loam_blocks_batch_full(blocks, list);
            return;
        }
    }
#endif
    loam_blocks_free_slow(blocks, p, file, line);
}
#define loam_blocks_free(blocks, p) loam_blocks_free_at(blocks, p, LOAM_HERE)

/* The same, zeroed: count times size bytes. NULL also iff that overflows. */
LOAM_API LOAM_NODISCARD void *loam_blocks_calloc_at(loam_blocks *blocks, size_t count, size_t size,
                                                    const char *file, unsigned line) LOAM_NOEXCEPT;
#define loam_blocks_calloc(blocks, count, size) \
    loam_blocks_calloc_at(blocks, count, size, LOAM_HERE)

/* At a multiple of align, a power of two up to 64 KiB: up to 128 from the first class whose blocks
 * are so aligned, above in a block of the next power of two, and where that is more than 32 KiB, or
 * the instance is checked, as a large object, which costs 64 KiB of addresses. NULL also iff align
 * is neither. */
LOAM_API LOAM_NODISCARD void *loam_blocks_alloc_aligned_at(loam_blocks *blocks, size_t bytes,
                                                           size_t align, const char *file,
                                                           unsigned line) LOAM_NOEXCEPT;
#define loam_blocks_alloc_aligned(blocks, bytes, align) \
    loam_blocks_alloc_aligned_at(blocks, bytes, align, LOAM_HERE)

/* p's contents in at least `bytes` bytes: in place where they fit into p's block and fill half of
 * it or belong to its class, else elsewhere, and p is gone then. p NULL allocates; bytes 0 frees
 * and returns NULL. Alignment is 16. NULL otherwise iff there is no memory: p is unchanged then. */
LOAM_API LOAM_NODISCARD void *loam_blocks_realloc_at(loam_blocks *blocks, void *p, size_t bytes,
                                                     const char *file, unsigned line) LOAM_NOEXCEPT;
#define loam_blocks_realloc(blocks, p, bytes) loam_blocks_realloc_at(blocks, p, bytes, LOAM_HERE)

/* Bytes that may be used at p: as many as its block has; of a checked instance, as were asked for.
 * NULL: 0. */
LOAM_API size_t loam_blocks_usable_size(loam_blocks *blocks, const void *p) LOAM_NOEXCEPT;

/* ---- Control. One thread at a time; those marked * also beside others, if LOAM_THREADS ---- */

/* * Wholly empty slabs go back to the source. Blocks in the caches of other threads stay. Returns the bytes that
 * went; 0 for a fixed instance. Cost: every free block is visited. */
LOAM_API size_t loam_blocks_trim(loam_blocks *blocks) LOAM_NOEXCEPT;

/* All objects are gone; slabs stay, large objects go back to the source. Cost: a step for each of
 * both. An instance with LOAM_CHECK keeps up to 8 large objects, and up to 512 KiB of them, for a
 * while after their end. So it finds writes to them. loam_blocks_trim gives that memory back, and
 * so does a request for which the source has no memory. */
LOAM_API void loam_blocks_reset(loam_blocks *blocks) LOAM_NOEXCEPT;

/* From now on each request's size is counted; NULL: no more. Requests go out of line meanwhile. The
 * histogram must live until then. Sizes are as they were asked for. */
LOAM_API void loam_blocks_record(loam_blocks *blocks, loam_histogram *histogram) LOAM_NOEXCEPT;

/* * held_bytes: slabs, large objects and tables; used_bytes: blocks and large objects, rounding included;
 * objects: how many. What lies in the caches of other threads counts as handed out until they end.
 * Cost: every free block is visited. */
LOAM_API void loam_blocks_usage(const loam_blocks *blocks, loam_usage *usage) LOAM_NOEXCEPT;

/* * Whether each free block lies where one of its class can be, lists end, and guards are whole. Reports what is
 * wrong (abort, or by LOAM_ON_ERROR=ignore false). */
LOAM_API bool loam_blocks_check(const loam_blocks *blocks) LOAM_NOEXCEPT;

typedef struct loam_blocks_class_info {
    size_t block_bytes;
    size_t
        /* carved so far, in use or free; of options.counted: the most ever in use at once */
        block_count;
    size_t blocks_in_use; /* handed out; as in loam_blocks_usage */
    size_t block_limit;   /* of a fixed instance; else 0 */
    size_t allocations;   /* calls; LOAM_UNKNOWN unless options.counted */
    size_t deallocations;
    const char *name;
} loam_blocks_class_info;

/* * Of class `index`, from 0, the smallest; behind the largest come those of aligned objects that
 * have blocks. 0, or -EINVAL iff there is none. */
LOAM_API int loam_blocks_class_usage(const loam_blocks *blocks, unsigned index,
                                     loam_blocks_class_info *usage) LOAM_NOEXCEPT;

/* Takes a line of text with its line end. */
typedef void loam_print(const char *line, void *context);

/* * A line for each class that was ever used:
 * "<name> Block Size: 128 Block Count: 10001 Blocks In Use: 1" */
LOAM_API void loam_blocks_print(const loam_blocks *blocks, loam_print *print,
                                void *context) LOAM_NOEXCEPT;

/* ---- Classes that suit a program: record, fit, paste ---- */

/* counts: largest_bytes + 1 words of the caller's, which are zeroed. */
LOAM_API void loam_histogram_init(loam_histogram *histogram, size_t *counts,
                                  size_t largest_bytes) LOAM_NOEXCEPT;
/* `times` requests of so many bytes; above largest_bytes they are counted in `beyond`. */
LOAM_API void loam_histogram_add(loam_histogram *histogram, size_t bytes,
                                 size_t times) LOAM_NOEXCEPT;

/* Bytes of memory that loam_blocks_fit works in. */
LOAM_API size_t loam_blocks_fit_bytes(const loam_histogram *histogram, unsigned class_count,
                                      unsigned granule) LOAM_NOEXCEPT;

/* The class_count block sizes, multiples of granule (16 for classes of this allocator), with the
 * least total slack over what was recorded: no other set of so many wastes fewer bytes. The last
 * covers the largest size recorded; those beyond the histogram are not looked at. Requests of 0
 * bytes count as of 1. Dynamic programming over the sizes that occur, each row by divide and
 * conquer (the costs are concave Monge: Galil and Park, 1992): O(class_count n log n).
 * work: loam_blocks_fit_bytes of them, aligned to 8. *slack_bytes, unless NULL: what is still
 * wasted. Returns how many classes there are, ascending, fewer than class_count if fewer sizes
 * occur; -EINVAL: nothing recorded, class_count or granule 0; -ENOMEM: work is too small. */
LOAM_API int loam_blocks_fit(const loam_histogram *histogram, unsigned class_count,
                             unsigned granule, void *work, size_t work_bytes, uint32_t *classes,
                             uint64_t *slack_bytes) LOAM_NOEXCEPT;

/* What these classes waste over what was recorded; UINT64_MAX iff they do not cover it. */
LOAM_API uint64_t loam_blocks_slack(const loam_histogram *histogram, const uint32_t *classes,
                                    unsigned class_count) LOAM_NOEXCEPT;

/* As C text to be pasted: "static const uint32_t <name>[] = {16, 48, ...};", or the sizes that
 * occur with their counts, "static const size_t <name>[][2] = {{24, 1000}, ...};". */
LOAM_API void loam_blocks_fit_print(const uint32_t *classes, unsigned class_count, const char *name,
                                    loam_print *print, void *context) LOAM_NOEXCEPT;
LOAM_API void loam_histogram_print(const loam_histogram *histogram, const char *name,
                                   loam_print *print, void *context) LOAM_NOEXCEPT;

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_blocks.h"
#endif

#include "loam/names_end.h"

#endif

/* loam/blocks.h: malloc and free for programs with few sizes: one free list for each size class.
 *
 * Choose it where objects of many sizes up to some KiB come and go, and their heap is to be fast,
 * yours alone, and never fragmented: a freed block serves the next request of its class, whatever
 * happened between. For one size use a pool, for memory that ends all at once a region. Only
 * loam_blocks_trim moves memory from one class to another. A request takes a whole block of its
 * class: see loam_blocks_fit for classes that suit a program.
 *
 *   heap blocks   grows by slabs of 64 KiB from its source, as blocks are needed
 *   heap pool     LOAM_FIXED: takes all memory from its source at init; returns NULL when exhausted
 *   static pool   is fixed as a heap pool is, in the caller's memory, without a source
 *
 *   heads[class] ──> free block ──> free block ──> NULL          class_of[(bytes + 7) / 8]
 *
 *   slab, at a multiple of 64 KiB                     large object: a chunk of the source by itself
 *   │ header, 64 B │ 64 B │ block │ block │ ... │     │ header, 64 B │ object ............. │
 *
 *   fixed: a byte for each stretch of the blocks finds the class
 *   │ tables │ blocks of class 0 │ blocks of class 1 │ ... │
 *
 * The owner of a block is found from its address: a block has no header. Every block is aligned to
 * 16 bytes (those of a class of 8 bytes to 8), and a block of 128 bytes is two cache lines. Blocks
 * of whole KiB, from 2 KiB on, lie 64 bytes further apart: otherwise their first words would meet
 * in a few sets of the processor's caches. Objects aligned to more than 128 bytes have separate
 * classes, the powers of two from 256 bytes on. A large object, above the largest class, goes to
 * the source by itself; a fixed instance has no large objects.
 *
 * Threads: one thread at a time uses an instance. With LOAM_THREADS any thread may allocate and
 * free at any time: each thread has lists of free blocks, and exchanges whole batches of blocks
 * with the others under a lock. 64 instances at a time can have such lists: a further instance, and
 * a fixed, counted or checked one, takes its lock at each call. The child of a fork has the
 * instance, and the forking thread's lists, as they were. It loses the blocks in the lists of other
 * threads: up to two batches (of 16 KiB, but 4 to 64 blocks) for each other thread and class. These
 * count as in use and are never handed out. loam_blocks_reset and loam_blocks_deinit give them
 * back. If children are to allocate much, let the other threads call loam_blocks_trim before the
 * fork, or fork before the program has threads.
 *
 * Invariant: each block of a slab is handed out, or in exactly one list, or not yet carved.
 * loam_blocks_check verifies it.
 *
 * Sources: the simple segregated storage of Wilson, Johnstone, Neely and Boles, "Dynamic Storage
 * Allocation" (1995); the exchange of batches after Bonwick and Adams, "Magazines and Vmem"
 * (2001). */
#ifndef LOAM_BLOCKS_H
#define LOAM_BLOCKS_H

#include "loam/names_begin.h"

#include "loam/meter.h"
#include "loam/registry.h"
#include "loam/source.h"

#include <stdbool.h>
#include <stdint.h>

LOAM_BEGIN

/** Bounds of block sizes and slabs. */
enum {
    LOAM_BLOCKS_CLASSES = 128,          /**< maximum number of classes */
    LOAM_BLOCKS_LARGEST = 32 * 1024,    /**< maximum size of a class in bytes */
    LOAM_BLOCKS_SLAB_BYTES = 64 * 1024, /**< size of a slab in bytes, and its alignment */
    LOAM_BLOCKS_HEADER = 64,            /**< bytes of a slab's header; a large object follows it */
    LOAM_BLOCKS_FIRST = 128,            /**< bytes before a slab's first block */
};

/** The four functions that a port provides for locking. loam passes context to each. A member that
 * is NULL does nothing. */
typedef struct loam_blocks_locks {
    void (*init)(void *context);    /**< called once, when the instance is set up */
    void (*get)(void *context);     /**< takes the lock */
    void (*release)(void *context); /**< releases the lock */
    void (*destroy)(void *context); /**< called once, when the instance ends */
    void *context;                  /**< the port's, passed on */
} loam_blocks_locks;

/** How often each size was requested. */
typedef struct loam_histogram {
    size_t *counts;       /**< largest_bytes + 1 words of the caller's: requests of each size */
    size_t largest_bytes; /**< largest size that has a word in counts */
    size_t beyond;        /**< number of requests for more than largest_bytes */
} loam_histogram;

/** Options of an instance. All zero: heap blocks over loam_pages() with the default classes. */
typedef struct loam_blocks_options {
    /** Source of memory. NULL selects loam_pages(); without an operating system it gives
     * -EINVAL. */
    loam_source *source;
    /** If not NULL, the caller's memory, in which the instance is a static pool. source must be
     * NULL. */
    void *memory;
    size_t memory_bytes; /**< size of memory in bytes */
    /** Block sizes in bytes, ascending, at most LOAM_BLOCKS_CLASSES. They are rounded up to 16;
     * sizes up to 8 are rounded up to 8, but with LOAM_THREADS to 16. NULL selects the default
     * classes, from 16 on. */
    const uint32_t *classes;
    unsigned class_count; /**< number of classes */
    /** Fixed instances only: number of blocks of each class. Classes that rounding makes one have
     * the sum of their numbers, which must not be 0. NULL selects blocks_each for every class. */
    const uint32_t *max_blocks;
    /** Fixed instances only: number of blocks of each class if max_blocks is NULL. Classes that
     * rounding makes one have this number together. 0, for static pools only, selects as many of
     * each class as fit into memory. */
    uint32_t blocks_each;
    unsigned flags; /**< LOAM_CHECK, LOAM_THREADS, LOAM_FIXED */
    /** If true, allocations and deallocations are counted, and a block is carved only when it is
     * needed: block_count is then the peak of blocks in use. No call takes the inline path. */
    bool counted;
    /** With LOAM_THREADS: every call is made under these locks. NULL selects a cache for each
     * thread; without an operating system it gives -EINVAL. */
    const loam_blocks_locks *locks;
    /** Name for the registry and for messages, or NULL. It is not copied. */
    const char *name;
} loam_blocks_options;

/** The first word of a free block: the next free block, or NULL. */
typedef void *loam_blocks_link __attribute__((__may_alias__));

/* ---- Private types: their members may change with any version ---- */

/** The header of a slab, or of a large object. Private. */
typedef struct loam_blocks_slab {
    uint32_t class_index;  /**< class of the blocks */
    uint32_t spare_blocks; /**< scratch word of loam_blocks_trim */
    /** Bytes before the first block: the slab's colour. Of a freed large object: before its tag. */
    uint32_t first;
    struct loam_blocks *owner;     /**< the instance that the slab belongs to */
    struct loam_blocks_slab *next; /**< the next slab or large object */
    /** In a large object: the object before it. In a slab: scratch words of loam_blocks_check. */
    struct loam_blocks_slab *sides[2];
    size_t got; /**< size in bytes of the chunk, which begins here */
} loam_blocks_slab;

/** A free block in a thread's list of one class. depth is the number of blocks from it down:
 * the length of the list is known without a word that every call would have to write. The last
 * block lies on lm_blocks_bottom, which has no block below it. Private. */
typedef struct loam_blocks_cached {
    struct loam_blocks_cached *below; /**< the next free block */
    uintptr_t depth;                  /**< number of blocks from this one down */
} __attribute__((__may_alias__)) loam_blocks_cached;

/** A thread's free blocks of one class. Private. */
typedef struct loam_blocks_list {
    loam_blocks_cached *head;  /**< the blocks that alloc takes and free puts */
    loam_blocks_cached *spare; /**< a whole batch, or NULL */
    uintptr_t batch;           /**< blocks in a batch: head has always fewer */
    uintptr_t unused;          /**< padding */
} loam_blocks_list;

/** A thread's cache of one instance. A list for each class follows it. Private. */
typedef struct loam_blocks_cache {
    struct loam_blocks *blocks; /**< the instance */
    /** The instance's list of caches; the cache's place in its thread's table. */
    struct loam_blocks_cache *next, **link, **place;
} loam_blocks_cache;

/** An instance. It must not move. Its members are private. */
typedef struct loam_blocks {
    size_t inline_below;     /**< requests of fewer bytes take heads inline; or 0 */
    size_t cached_below;     /**< requests of fewer bytes take the thread's cache; or 0 */
    const uint8_t *class_of; /**< class by (bytes + 7) / 8 */
    void **heads;            /**< free list of each class */
    /** Blocks at a greater offset in their 64 KiB are freed inline to heads. 65535: no block is. */
    uint32_t inline_edge;
    /** Blocks at a greater offset in their 64 KiB are freed to the thread's cache. 65535: no block
     * is. */
    uint32_t cached_edge;
    uint32_t slot; /**< index of the cache in each thread's table */
    /** Number of classes, with those of aligned objects, which come last. */
    uint32_t class_count;
    size_t largest_bytes; /**< size of the largest class in bytes */
    /* ---- The members above take 64 bytes ---- */
    struct loam_blocks_class *classes; /**< description of each class */
    loam_source *source;               /**< NULL in a static pool */
    const loam_blocks_locks *locks;    /**< NULL if one thread at a time uses it */
    loam_histogram *histogram;         /**< NULL unless requests are recorded */
    loam_blocks_slab *large;           /**< large objects in use */
    loam_blocks_slab *gone;            /**< checked: large objects freed lately, the oldest first */
    loam_blocks_cache *caches;         /**< caches of all threads */
    char *base, *end;                  /**< bounds of the blocks of a fixed instance; else NULL */
    const uint8_t *map;                /**< class of each stretch of a fixed instance */
    uint32_t map_shift;                /**< each stretch has 2^map_shift bytes */
    uint32_t sized_count;              /**< number of classes that serve requests by their size */
    uint32_t lock_word;                /**< the lock of an instance with caches; atomic */
    /** LOAM_CHECK; a tool watches; options.counted; the instance is fixed. */
    bool checked, watched, counted, fixed;
    bool plain_fixed;  /**< fixed, and free only has to find the class */
    bool leaks, ended; /**< leaks are listed at the end; the instance has ended */
    /** Fixed and checked: guard bytes behind each object, which block_bytes includes. */
    uint32_t guard_bytes;
    void *tables;      /**< chunk that holds the tables; NULL in a static pool */
    size_t tables_got; /**< size of that chunk in bytes */
    /** Bytes held now and at the peak; chunks held now and obtained so far; large objects in
     * use. */
    size_t held_bytes, peak_bytes, chunks, requests, large_bytes, large_count;
    struct loam_blocks *next, *prev; /**< list of the instances with caches */
    loam_blocks_locks own_locks;     /**< locks of an instance with caches */
    /** The instance's entry in the registry. */
    loam_entry entry;
} loam_blocks;

/** Does what loam_blocks_init does, with more_flags besides options->flags. */
LOAM_API LOAM_NODISCARD int loam_blocks_init_flags(loam_blocks *blocks,
                                                   const loam_blocks_options *options,
                                                   unsigned more_flags) LOAM_NOEXCEPT;
/** Allocates where the inline paths cannot. Private. */
LOAM_API LOAM_NODISCARD void *loam_blocks_alloc_slow(loam_blocks *blocks, size_t bytes,
                                                     const char *file, unsigned line) LOAM_NOEXCEPT;
/** Frees where the inline paths cannot. Private. */
LOAM_API void loam_blocks_free_slow(loam_blocks *blocks, void *p, const char *file,
                                    unsigned line) LOAM_NOEXCEPT;
/** Moves a thread's list that is a whole batch to spare, and spare to the instance. Private. */
LOAM_API void loam_blocks_batch_full(loam_blocks *blocks, loam_blocks_list *list) LOAM_NOEXCEPT;

#if __STDC_HOSTED__
/** The calling thread's caches, by slot of each instance with LOAM_THREADS. Private. */
extern LOAM_API __thread loam_blocks_cache **loam_blocks_caches LOAM_TLS;
#endif

/* ---- Set-up and end ---- */

/** Sets *blocks up. The struct may be anywhere and must not move. options may be NULL: all zero. It
 * takes one chunk of about 2 KiB from the source for tables, and the rest as blocks are needed; a
 * fixed instance takes all its memory at once.
 *
 * Returns 0. Returns -EINVAL if there are no classes, a class is 0 or above LOAM_BLOCKS_LARGEST,
 * the classes do not ascend, max_blocks gives a class no block, or options exclude each other.
 * Returns -ENOMEM if the source has no memory, or the caller's is too small. After an error nothing
 * is kept. */
LOAM_INLINE LOAM_NODISCARD int loam_blocks_init(loam_blocks *blocks,
                                                const loam_blocks_options *options) LOAM_NOEXCEPT {
    return loam_blocks_init_flags(blocks, options, LOAM_CHECKED ? LOAM_CHECK : 0);
}

/** Ends the instance and gives all memory back to the source, live objects included. No other
 * thread may use it. With LOAM_CHECK it first lists the live objects, as loam_registry_leaks
 * does. */
LOAM_API void loam_blocks_deinit(loam_blocks *blocks) LOAM_NOEXCEPT;

/** Returns the bytes of memory that a static pool with these options needs, at most, whatever its
 * address; 0 iff they are not valid, or do not say how many blocks. For a size that the compiler
 * computes use LOAM_BLOCKS_BYTES.
 *
 * A static pool with LOAM_CHECK finds overflow, underflow and writes after a free as other checked
 * instances do if its memory has 16 bytes more for each block. loam_blocks_pool_bytes and
 * LOAM_BLOCKS_CHECKED_BYTES count these. In less memory it has guards only in what an object leaves
 * of its block, from 4 bytes on. Without LOAM_CHECK in the options loam_blocks_pool_bytes counts a
 * bit for each block, so that a file with LOAM_CHECKED can set the pool up. */
LOAM_API size_t loam_blocks_pool_bytes(const loam_blocks_options *options) LOAM_NOEXCEPT;

/** What loam_blocks_pool_bytes returns, or more, as a constant. sum_bytes: sum of the class sizes,
 * rounded up to 16 each. each: number of blocks of each class. */
#define LOAM_BLOCKS_BYTES(sum_bytes, class_count, largest_bytes, each) \
    LOAM_BLOCKS_BYTES_OF_((size_t)(sum_bytes) + (LOAM_CHECKED ? 16 * (class_count) : 0), \
                          class_count, largest_bytes, each)
/** LOAM_BLOCKS_BYTES with memory for guards, whatever LOAM_CHECKED is: for an instance with
 * LOAM_CHECK. */
#define LOAM_BLOCKS_CHECKED_BYTES(sum_bytes, class_count, largest_bytes, each) \
    LOAM_BLOCKS_BYTES_OF_((size_t)(sum_bytes) + 16 * (class_count), class_count, largest_bytes, \
                          each)
/** The sum behind LOAM_BLOCKS_BYTES and LOAM_BLOCKS_CHECKED_BYTES. Private. */
#define LOAM_BLOCKS_BYTES_OF_(sum_bytes, class_count, largest_bytes, each) \
    ((size_t)(sum_bytes) * (each) + (size_t)(sum_bytes) * (each) / 128 + \
     (class_count) * (LOAM_BLOCKS_CLASS_BYTES + sizeof(void *)) + (largest_bytes) / 8 + 400)
/** Bytes of tables for each class, at most. Private. */
#define LOAM_BLOCKS_CLASS_BYTES (16 * sizeof(void *) + 32)
/** Bytes of a static pool of the default classes: powers of two from 16 to 4096, 400 and 768. */
#define LOAM_BLOCKS_DEFAULT_BYTES(each) LOAM_BLOCKS_BYTES(9344, 11, 4096, each)

/* ---- Use. Cost: 11 to 13 instructions, inline; with LOAM_THREADS 20 to 25. A call on an empty or
 * full list costs more. ---- */

/** Returns at least `bytes` bytes of undefined contents; 0 counts as the smallest class. The
 * address is a multiple of 16; of 8 if the instance has a class of 8 bytes and bytes is at most 8.
 * Returns NULL iff there is no memory: the source has none, a fixed instance's class is exhausted,
 * a fixed instance has no class that large, or bytes is above PTRDIFF_MAX less 128 KiB. */
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
/** Calls loam_blocks_alloc_at with the caller's file and line. */
#define loam_blocks_alloc(blocks, bytes) loam_blocks_alloc_at(blocks, bytes, LOAM_HERE)

/** Frees an object of this instance. NULL is allowed. With LOAM_THREADS any thread may free it. */
LOAM_INLINE void loam_blocks_free_at(loam_blocks *blocks, void *p, const char *file,
                                     unsigned line) LOAM_NOEXCEPT {
    /* NULL and large objects lie at the start of 64 KiB, blocks do not. One comparison catches
     * both, and instances whose calls go out of line. */
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
/** Calls loam_blocks_free_at with the caller's file and line. */
#define loam_blocks_free(blocks, p) loam_blocks_free_at(blocks, p, LOAM_HERE)

/** Returns count times size bytes that are zero, and otherwise what loam_blocks_alloc returns. NULL
 * also iff that overflows. */
LOAM_API LOAM_NODISCARD void *loam_blocks_calloc_at(loam_blocks *blocks, size_t count, size_t size,
                                                    const char *file, unsigned line) LOAM_NOEXCEPT;
/** Calls loam_blocks_calloc_at with the caller's file and line. */
#define loam_blocks_calloc(blocks, count, size) \
    loam_blocks_calloc_at(blocks, count, size, LOAM_HERE)

/** Returns at least `bytes` bytes at a multiple of align, a power of two up to 64 KiB. Up to 128
 * bytes of alignment the first class whose blocks are so aligned serves it. Above, a block of the
 * next power of two does. If that is more than 32 KiB, or the instance is checked, it becomes a
 * large object, which costs 64 KiB of addresses. A fixed instance has only its classes. Returns
 * NULL as loam_blocks_alloc does; NULL also iff align is no power of two or above 64 KiB. */
LOAM_API LOAM_NODISCARD void *loam_blocks_alloc_aligned_at(loam_blocks *blocks, size_t bytes,
                                                           size_t align, const char *file,
                                                           unsigned line) LOAM_NOEXCEPT;
/** Calls loam_blocks_alloc_aligned_at with the caller's file and line. */
#define loam_blocks_alloc_aligned(blocks, bytes, align) \
    loam_blocks_alloc_aligned_at(blocks, bytes, align, LOAM_HERE)

/** Resizes p to at least `bytes` bytes, and returns its address. p stays in place if the new size
 * fits into its block, and fills half of the block or belongs to its class. Otherwise the contents
 * move and p is freed. The new address is a multiple of 16. If p is NULL it allocates. If bytes is
 * 0 it frees p and returns NULL. NULL otherwise iff there is no memory: p is unchanged then. A
 * smaller size fails in a checked instance only. */
LOAM_API LOAM_NODISCARD void *loam_blocks_realloc_at(loam_blocks *blocks, void *p, size_t bytes,
                                                     const char *file, unsigned line) LOAM_NOEXCEPT;
/** Calls loam_blocks_realloc_at with the caller's file and line. */
#define loam_blocks_realloc(blocks, p, bytes) loam_blocks_realloc_at(blocks, p, bytes, LOAM_HERE)

/** Returns the number of bytes that may be used at p: the size of its block, in a checked instance
 * the size requested. Returns 0 if p is NULL. */
LOAM_API size_t loam_blocks_usable_size(loam_blocks *blocks, const void *p) LOAM_NOEXCEPT;

/* ---- Control. One thread at a time, without other threads in the instance; functions marked "any
 * time" also while other threads use it, if it has LOAM_THREADS ---- */

/** Any time. Gives wholly empty slabs back to the source. Blocks in the caches of other threads
 * stay. Returns the number of bytes given back; 0 for a fixed instance. O(free blocks). */
LOAM_API size_t loam_blocks_trim(loam_blocks *blocks) LOAM_NOEXCEPT;

/** Frees all objects. Slabs stay; large objects go back to the source. O(slabs + large objects). An
 * instance with LOAM_CHECK keeps up to 8 freed large objects, up to 512 KiB in all, to find writes
 * to them. loam_blocks_trim gives that memory back, and so does a request for which the source has
 * no memory. */
LOAM_API void loam_blocks_reset(loam_blocks *blocks) LOAM_NOEXCEPT;

/** Counts the requested size of each allocation in *histogram from now on, until it is called with
 * NULL. *histogram must live until then. Meanwhile no allocation takes the inline path. */
LOAM_API void loam_blocks_record(loam_blocks *blocks, loam_histogram *histogram) LOAM_NOEXCEPT;

/** Any time. Fills *usage. held_bytes: slabs, large objects and tables. used_bytes: blocks and
 * large objects, rounding included. objects: their number. Blocks in the caches of other threads
 * count as handed out until these threads end. O(free blocks). */
LOAM_API void loam_blocks_usage(const loam_blocks *blocks, loam_usage *usage) LOAM_NOEXCEPT;

/** Any time. Verifies that each free block lies where a block of its class can be, that lists end,
 * and that guards are whole. Reports what is wrong, which ends the program; with
 * LOAM_ON_ERROR=ignore it returns false. */
LOAM_API bool loam_blocks_check(const loam_blocks *blocks) LOAM_NOEXCEPT;

/** Numbers of one class. */
typedef struct loam_blocks_class_info {
    size_t block_bytes; /**< usable size of each block in bytes */
    /** Number of blocks carved so far, in use or free. With options.counted: peak of blocks in use.
     */
    size_t block_count;
    size_t blocks_in_use; /**< blocks handed out, as in loam_blocks_usage */
    size_t block_limit;   /**< number of blocks of a fixed instance; otherwise 0 */
    size_t allocations;   /**< number of calls; LOAM_UNKNOWN unless options.counted */
    size_t deallocations; /**< number of calls; LOAM_UNKNOWN unless options.counted */
    const char *name;     /**< the instance's name */
} loam_blocks_class_info;

/** Any time. Fills *usage for class `index`; 0 is the smallest. After the largest class come those
 * of aligned objects that have blocks. Returns 0, or -EINVAL iff there is none with that index. */
LOAM_API int loam_blocks_class_usage(const loam_blocks *blocks, unsigned index,
                                     loam_blocks_class_info *usage) LOAM_NOEXCEPT;

/** A function that takes a line of text with its line end. context: as passed with the function. */
typedef void loam_print(const char *line, void *context);

/** Any time. Prints a line for each class that was ever used: "<name> Block Size: 128 Block Count:
 * 10001 Blocks In Use: 1" */
LOAM_API void loam_blocks_print(const loam_blocks *blocks, loam_print *print,
                                void *context) LOAM_NOEXCEPT;

/* ---- Classes that suit a program: record, fit, paste ---- */

/** Sets *histogram up with counts: largest_bytes + 1 words of the caller's, which it sets to
 * zero. */
LOAM_API void loam_histogram_init(loam_histogram *histogram, size_t *counts,
                                  size_t largest_bytes) LOAM_NOEXCEPT;
/** Counts `times` requests of `bytes` bytes; sizes above largest_bytes count in `beyond`. Any
 * thread. */
LOAM_API void loam_histogram_add(loam_histogram *histogram, size_t bytes,
                                 size_t times) LOAM_NOEXCEPT;

/** Returns the bytes of memory that loam_blocks_fit works in. */
LOAM_API size_t loam_blocks_fit_bytes(const loam_histogram *histogram, unsigned class_count,
                                      unsigned granule) LOAM_NOEXCEPT;

/** Finds the class_count block sizes with the least total slack over what was recorded: no other
 * set of so many wastes fewer bytes. Sizes are multiples of granule (16 for classes of this
 * allocator). The last covers the largest size recorded; requests in `beyond` are ignored. Requests
 * of 0 bytes count as requests of 1.
 *
 * work: loam_blocks_fit_bytes bytes, aligned to 8. classes: receives class_count sizes, ascending.
 * *slack_bytes, unless slack_bytes is NULL, receives the bytes still wasted. Returns the number of
 * classes, which is less than class_count if fewer sizes occur. Returns -EINVAL if nothing is
 * recorded, or class_count or granule is 0. Returns -ENOMEM if work is too small.
 *
 * Dynamic programming over the sizes that occur, each row by divide and conquer, because the costs
 * are concave Monge (Galil and Park, 1992): O(class_count n log n). */
LOAM_API int loam_blocks_fit(const loam_histogram *histogram, unsigned class_count,
                             unsigned granule, void *work, size_t work_bytes, uint32_t *classes,
                             uint64_t *slack_bytes) LOAM_NOEXCEPT;

/** Returns the bytes that these classes waste over what was recorded; UINT64_MAX iff they do not
 * cover it. */
LOAM_API uint64_t loam_blocks_slack(const loam_histogram *histogram, const uint32_t *classes,
                                    unsigned class_count) LOAM_NOEXCEPT;

/** Prints classes as C text to be pasted: "static const uint32_t <name>[] = {16, 48, ...};". */
LOAM_API void loam_blocks_fit_print(const uint32_t *classes, unsigned class_count, const char *name,
                                    loam_print *print, void *context) LOAM_NOEXCEPT;
/** Prints the sizes that occur, with their counts, as C text to be pasted: "static const size_t
 * <name>[][2] = {{24, 1000}, ...};". */
LOAM_API void loam_histogram_print(const loam_histogram *histogram, const char *name,
                                   loam_print *print, void *context) LOAM_NOEXCEPT;

LOAM_END

#if LOAM_METER && LOAM_METER_HOOKS
#include "loam/meter_blocks.h"
#endif

#include "loam/names_end.h"

#endif

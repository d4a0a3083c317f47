/* loam/kernel_pages.h: the kernel's pages as a source of loam's allocators (loam/source.h).
 *
 * Choose it for every region in the kernel. Single pages go through a cache of each processor.
 * Larger runs are whole pages, physically contiguous, straight from the page allocator. The source
 * cannot give runs that are larger than the page allocator's largest, nor memory of vmalloc.
 * Regions that may grow large should take pages (LOAM_REGION_TFW): runs become scarce the longer a
 * machine runs.
 *
 *   get(4096) ──> this processor's LIFO, 512 pages ──> page allocator
 *   get(more) ──────────────────────────────────────> page allocator
 *   put: from the processor that puts, in the opposite direction
 *
 * Contexts: process and softirq, with or without interrupts, and hard interrupts where the gfp
 * flags allow it (GFP_ATOMIC, not on PREEMPT_RT); not NMIs. An interrupt during a use of its
 * processor's cache finds the cache busy, and calls the page allocator. Any number of threads and
 * interrupts may use a source at once.
 *
 * Cached pages keep what was written in them, whatever init_on_free says, and ignore the task's
 * NUMA policy.
 *
 * Invariant: pages taken - pages returned == pages out + pages cached. loam_kernel_pages_ask
 * returns each number. */
#ifndef LOAM_KERNEL_PAGES_H
#define LOAM_KERNEL_PAGES_H

#include "loam/source.h"

#include <linux/gfp.h>

/** Maximum number of pages in the cache of each processor. */
#define LOAM_KERNEL_CACHE_PAGES 512

/** A source of the kernel's pages. Members are private, except source. */
typedef struct loam_kernel_pages {
    /** The source: pass its address to loam_region_init and other set-up functions. */
    loam_source source;
    gfp_t gfp;   /**< flags of every call of the page allocator */
    bool cached; /**< single pages go through the cache */
} loam_kernel_pages;

/** Sets *pages up as a source that calls the page allocator with the flags gfp. got is `bytes`
 * rounded up to whole pages. A chunk larger than a page is aligned to its size, rounded up to a
 * power of two of pages. With __GFP_ZERO all chunks are zero, and the source is LOAM_SOURCE_ZEROED.
 * With a zone's flag, __GFP_ACCOUNT or __GFP_THISNODE the source bypasses the cache. Returns 0, or
 * -EINVAL iff the flags allow highmem. It does not allocate, and needs no call at its end. */
int __must_check loam_kernel_pages_init(loam_kernel_pages *pages, gfp_t gfp);

/** Gives the cached pages of all processors back. Returns their number. May sleep. */
unsigned long loam_kernel_pages_drain(void);

/** Numbers of pages, of all sources and processors, since the module was loaded. They agree with
 * each other while no call is in progress. */
typedef struct loam_kernel_pages_usage {
    unsigned long taken;    /**< pages taken from the page allocator */
    unsigned long returned; /**< pages returned to the page allocator */
    unsigned long cached;   /**< pages in the caches */
    unsigned long out;      /**< pages with callers */
    unsigned long passed;   /**< calls that found the cache busy */
} loam_kernel_pages_usage;

/** Returns the numbers. O(processors). */
loam_kernel_pages_usage loam_kernel_pages_ask(void);

#endif

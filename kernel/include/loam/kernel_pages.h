/* loam/kernel_pages.h: the kernel's pages as a source of loam's allocators (loam/source.h).
 *
 * Choose it for every region in the kernel. Single pages go through a cache of each processor;
 * larger runs are whole pages, physically contiguous, straight from the page allocator. It cannot
 * give runs of more than LOAM_KERNEL_RUN_MOST, nor memory of vmalloc's: regions that may grow large
 * should take pages (LOAM_REGION_TFW), for runs become scarce the longer a machine runs.
 *
 *   get(4096) ──> this processor's LIFO, 512 pages ──> page allocator        put the other way, to where it runs
 *   get(more) ──────────────────────────────────────> page allocator
 *
 * Contexts: process and softirq, with or without interrupts, and hard interrupts where the gfp
 * flags allow it (GFP_ATOMIC, not on PREEMPT_RT); not from an NMI. An interrupt that comes while
 * its processor's cache is being used finds it busy, and asks the page allocator. Each source may
 * be used by everybody at once.
 *
 * Cached pages keep what was written in them, whatever init_on_free says, and are not the task's
 * NUMA policy's. Invariant: pages taken - pages returned == pages out + pages cached;
 * loam_kernel_pages_ask tells each.
 */
#ifndef LOAM_KERNEL_PAGES_H
#define LOAM_KERNEL_PAGES_H

#include "loam/source.h"

#include <linux/gfp.h>

#define LOAM_KERNEL_CACHE_PAGES 512 /* of each processor */

/* Members are private to loam. */
typedef struct loam_kernel_pages {
    loam_source source; /* give its address to loam_region_init and the like */
    gfp_t gfp;
    bool cached;
} loam_kernel_pages;

/* Sets *pages up: everything it gives is asked for with these flags. got is bytes rounded up to
 * whole pages; what is larger than a page is aligned to its size rounded up to a power of two of
 * pages. Zeroed, and then promised so, with __GFP_ZERO. With a zone's flag, __GFP_ACCOUNT or
 * __GFP_THISNODE the cache is passed by. 0, or -EINVAL iff the flags allow highmem. Does not
 * allocate; nothing is to be ended. */
int __must_check loam_kernel_pages_init(loam_kernel_pages *pages, gfp_t gfp);

/* Gives all processors' cached pages back. Sleeps. Returns how many they were. */
unsigned long loam_kernel_pages_drain(void);

/* In pages, of all sources and processors since the module came. The numbers agree with each other
 * when nobody is in a call. */
typedef struct loam_kernel_pages_usage {
    unsigned long taken;    /* from the page allocator */
    unsigned long returned; /* to it */
    unsigned long cached;
    unsigned long out;    /* with callers */
    unsigned long passed; /* calls that found the cache busy */
} loam_kernel_pages_usage;

loam_kernel_pages_usage loam_kernel_pages_ask(void);

#endif

/* survey.h: looks at all of the heap: numbers, walks, leaks, and whether it is whole.
 *
 *   numbers  count.c, survey.c, thread_bytes.c     heap/count.h says what is counted, and where
 *   walks    visit.c                               spans and blocks of a heap, or of all
 *   reports  leaks.c, verify.c                     what is in use; what is damaged
 *
 * For api/. The core calls lm_count_large and the counts of a thread's bytes (heap/hooks.h). Cost:
 * a walk takes time by the number of spans, and some stop the worker meanwhile (lm_idle_hold). What
 * it cannot do: stop other threads; numbers of running threads are a moment old.
 */
#ifndef LM_SURVEY_H
#define LM_SURVEY_H

#include "checks/checks.h"
#include "fheap/fheap.h"
#include "heap/core.h"
#include "sampling/sampling.h"

/* ---- count.c, survey.c ---- */

typedef struct lm_heap_stats {
    /* In use, in pages or sampled. Taken without stopping any thread. */
    size_t small_bytes, small_blocks;
    size_t large_bytes, large_blocks;
    /* Part of large_bytes that lies in memory that the program has lent (span/range.h). */
    size_t lent_large_bytes;
    size_t held_bytes; /* in pages, not in use */
    size_t heaps;
    struct {
        size_t pages, blocks, capacity;
        size_t freed;   /* blocks that were freed and wait in no list of a thread's malloc */
        size_t most;    /* peak of blocks: see count.h */
        uint64_t total; /* blocks ever allocated */
    } of_class[LM_CLASSES];
    size_t pages, pages_gone, pages_most;
    size_t large_total, large_most, large_bytes_total, large_bytes_most;
    /* Threads that have a heap, which often was another thread's before. */
    size_t threads, threads_total, threads_most;
    lm_tally_t orphans; /* pages */
    lm_tally_t sampled, sampled_bytes;
} lm_heap_stats_t;

/* Fills in *stats. Blocks that the calling thread has ready are not in use, nor are blocks in
 * threads' lists of other threads' blocks. Blocks that other running threads have ready are. */
void lm_heap_stats(lm_heap_stats_t *stats);
/* Fills in what lm_heap_stats has not walked: pages and large objects are there already. */
void lm_count_sum(lm_heap_stats_t *stats);

/* Starts new peaks of the numbers of threads, orphans and sampled objects. lm_span_forget_peaks
 * does so for pages and large objects. */
void lm_heap_forget_peaks(void);

/* Writes the bytes of blocks that the calling thread has allocated and freed since its first call.
 * Returns false iff the thread has ended, or there is no memory for a heap. */
bool lm_thread_bytes(uint64_t *allocated, uint64_t *freed);

/* Walks the invariants of the calling thread's heap; ends the program with a line on what is
 * broken. */
void lm_heap_check(void);

typedef struct lm_fheap_class {
    size_t pages, blocks, capacity;
    uint64_t total; /* blocks ever allocated */
} lm_fheap_class_t;

typedef struct lm_fheap_counts {
    lm_fheap_class_t of_class[LM_CLASSES];
    size_t large, large_bytes, spans;
    uint64_t large_total, large_bytes_total;
} lm_fheap_counts_t;

/* Counts a first-class heap's blocks and objects. Conditions as for lm_fheap_visit. Returns false
 * iff there is no memory for a list of its spans. */
bool lm_fheap_count_all(struct loam_heap *fheap, lm_fheap_counts_t *counts);

/* ---- visit.c: NULL for a heap means the calling thread's own heap ---- */

/* Returns whether p is in memory of the heap, in the middle of an object, too. Takes time by the
 * number of the arena's spans for pointers into large objects and for pointers that are not
 * loam's. */
bool lm_fheap_holds(const struct loam_heap *fheap, const void *p);

/* Returns whether p is the start of a block in use. Conditions as for lm_fheap_visit. */
bool lm_fheap_owns(const struct loam_heap *fheap, const void *p);

/* Calls area for each span, and, where area returned true, block for each block in use of that
 * span. Either ends the walk by returning false. Returns whether the walk came to its end. No other
 * thread may be allocating from the heap or freeing to it, nor may the two functions. */
bool lm_fheap_visit(struct loam_heap *fheap, loam_heap_area_visitor *area,
                    loam_heap_object_visitor *block, void *context);

/* Walks the heap's pages and large objects, and ends the program with a line iff their bytes are
 * not the heap's `used`. Conditions as for lm_fheap_visit. */
void lm_fheap_check(struct loam_heap *fheap);

/* ---- verify.c, leaks.c ---- */

/* Looks for mistakes of the program at all objects and free blocks of the process, and reports
 * each. No other thread may allocate or free meanwhile. Returns the number of mistakes. *all:
 * whether there was memory for a list of what to look at; otherwise only sampled objects were
 * looked at. No lock held. */
size_t lm_verify(bool *all);

#if LOAM_DEBUG
/* Prints what is in use, by size and, where kept, call site. */
void lm_leaks_print(void);
#endif

#endif

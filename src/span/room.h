/* room.h: what arena.c and purge.c share; nobody else includes it. */
#ifndef LM_SPAN_ROOM_H
#define LM_SPAN_ROOM_H

#include "span/span.h"

/* Two kinds of free spans, each with bins by size: one for each size up to 32 slices, then two for
 * each doubling. */
enum { LM_BINS = 64, LM_EXACT_BINS = 32, LM_FREE_KINDS = 2 };

typedef struct lm_space {
    lm_lock_t lock; /* protects everything in here, and every descriptor of a free span */
    uint64_t filled[LM_FREE_KINDS]; /* a bit for each bin that is not empty */
    lm_list_t bins[LM_FREE_KINDS][LM_BINS];
    lm_list_t aged; /* dirty spans */
    size_t dirty_slices, clean_slices, meta_slices, page_slices;
    uint32_t tick; /* the worker's clock */

    bool placed, reserved;
    size_t slices_most;                    /* where the arena must end */
    size_t map_committed, pages_committed; /* bytes */

    enum { LM_WORKER_OFF, LM_WORKER_STARTING, LM_WORKER_ON } worker;
    bool called;     /* atomic: somebody had something to collect since the worker last began to */
    uint32_t starts; /* of workers: who starts one knows it by that number */
    bool worker_forbidden; /* for good: the program shut itself in, or threads are not to be had */
    unsigned paused;       /* calls in progress that want to be alone */
    unsigned process;      /* the one that may have a worker; 0: any, before the start */
    unsigned refused;      /* times in a row that the system did not take memory back */
    uint32_t stop;         /* the worker sleeps on it; 1: it must end */
    unsigned busy;         /* spans being purged without the lock */
    size_t huge_rest;      /* atomic: slices before the next huge page: the last one was slow */
    size_t huge_pause;     /* how many it was, the last time; 0: the last one was fast */
    size_t purged_bytes, purges;
    size_t purged_lately;  /* slices, the older the less */
    size_t retaken_lately; /* those of them for which memory was taken anew */
} lm_space_t;

extern lm_space_t lm_space;

/* Below: called with lm_space.lock held. */

LM_INLINE size_t lm_free_kind(lm_kind_t kind) { return kind == LM_KIND_DIRTY ? 1 : 0; }

/* Makes [first, first+slices) a free span of that kind, merged with its neighbours. stamp is for dirty
 * ones; the larger part's stamp wins, so that churn at its edge keeps no large span from ageing.
 * Returns what it became. */
lm_page_t *lm_space_insert(size_t first, size_t slices, lm_kind_t kind, uint32_t stamp);

/* Takes a free span out of its lists. */
void lm_space_remove(lm_page_t *span);

/* After a purge, with the clean span that it is part of now: gives the end of the arena back, and the
 * memory of descriptors that say nothing. */
void lm_space_settle(lm_page_t *span);

/* Makes [first, first+slices) a span in use: both its ends say so. */
void lm_space_label(size_t first, size_t slices, lm_kind_t kind);

/* Cuts [first, first+slices) out of the free span, which covers it. */
void lm_space_carve(lm_page_t *span, size_t first, size_t slices, lm_kind_t kind);

/* A clean span of at least so many slices, from a grown arena if need be; NULL iff there is no memory. */
lm_page_t *lm_space_clean(size_t slices);

/* The first slice of the span whose address is a multiple of so many slices. */
size_t lm_space_aligned(const lm_page_t *span, size_t align_slices);

/* Waits, lock held before and after but not between, until no span is busy. */
void lm_space_rest(void);

/* huge.c: slices in which 2 MiB lie that are a multiple of 2 MiB, wherever it starts. */
enum { LM_HUGE_SLICES = 32, LM_HUGE_SPAN = 2 * LM_HUGE_SLICES - 1 };

/* huge.c: whether a huge page should be made for a page of so many slices, of which none is free. crowded: the
 * others of its class are full. */
bool lm_huge_due(size_t slices, bool crowded);

/* huge.c: notes how long one took: after a slow one, none is due for a while. */
void lm_huge_took(uint64_t us);

/* huge.c: makes 2 MiB of clean memory resident, as a dirty span. false iff there are none. Gives the
 * lock up meanwhile. */
bool lm_huge_back(void);

/* purge.c: ticks that a dirty span waits. */
uint32_t lm_purge_ticks(void);

/* purge.c: how many of them count as over where nobody has used it for a while. */
uint32_t lm_purge_ticks_rested(void);

/* purge.c: notes that clean memory was taken, which what was purged might have served. */
void lm_purge_retaken(size_t slices);

/* purge.c: purges in the caller's thread when no worker may do it and too much is dirty. Gives the
 * lock up meanwhile. */
void lm_purge_inline(void);

#endif

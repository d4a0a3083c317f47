/* sampling.h: guard sampling: one of many objects lies alone between pages without access.
 *
 *   malloc ── its turn? (sample_turns.c) ──> a slot   [ guard | object | guard | object | guard ]
 *                 │ no                        (sampled.c)     a bad access ──> sampled_report.c
 *                 └──> a block
 *
 * For api/ and the other wings. What the core calls is in heap/hooks.h. Guide:
 * docs/guide/sampling.md; decision 0025. It cannot see a mistake with an object that is not
 * sampled.
 * Invariant (lm_sampled_check): each slot is fresh, used or freed, and is in the queue iff it is
 * not used.
 */
#ifndef LM_SAMPLING_H
#define LM_SAMPLING_H

#include "heap/core.h"

enum { LM_TRACE_FRAMES = 16, LM_SAMPLED_FENCE = 64 };
#define LM_SLOT_NONE UINT32_MAX

typedef struct lm_trace {
    uint32_t depth, thread;
    uintptr_t frames[LM_TRACE_FRAMES];
    /* The frames as places in modules, which stay right after a module is unloaded. */
    lm_site_t sites[LM_TRACE_FRAMES];
} lm_trace_t;

/* A slot: the slice in which one sampled object lies at a time. Its descriptor has the object's
 * size. Under the lock of lm_sampled. */
typedef struct lm_slot {
    enum { LM_SLOT_FRESH, LM_SLOT_USED, LM_SLOT_FREED } state;
    uint32_t next; /* number of the next slot in the queue, or LM_SLOT_NONE */
    bool left;     /* the object begins where a page does */
    bool opened;   /* pages of the slot or its guards were opened after a bad access */
    char *object;
    char *start, *end; /* of the object's pages */
    lm_trace_t allocated, freed;
} lm_slot_t;

typedef struct lm_sampled {
    lm_lock_t lock;  /* guards all fields */
    char *base;      /* address of slice 0; NULL: there are no slots yet. Atomic. */
    lm_page_t *span; /* descriptor of slice 0; the slots' follow at 1, 3, 5, ... */
    lm_slot_t *slots;
    uint32_t count;
    uint32_t first, last; /* the queue of slots; the slot that was freed the longest ago is first */
    size_t page_bytes;
    lm_tally_t objects, bytes; /* sampled objects, and their bytes */
    size_t missed;
    size_t found; /* number of reports; atomic */
} lm_sampled_t;

extern LM_HIDDEN lm_sampled_t lm_sampled;

/* ---- For api/ ---- */

/* Makes the slots, unless they exist, and takes the signals of bad accesses (lm_os_judge_faults).
 * If it is not called, the first sample does both. Returns false iff there is no memory, or the
 * system refuses to close the slots. */
bool lm_sampling_start(void);

typedef struct lm_sampling_numbers {
    size_t rate, slots, live, taken, missed, found;
} lm_sampling_numbers_t;
/* Fills in the settings and the counts of sampled objects. */
void lm_sampling_numbers(lm_sampling_numbers_t *numbers);

/* Returns whether p is a sampled object in use. */
bool lm_sampling_holds(const void *p);

/* Writes the trace of the object that p points into or near, or of the object that was there last:
 * of its free, or of its allocation. Returns the number of frames; 0 iff there is no trace. */
size_t lm_sampling_trace(const void *p, bool of_free, uintptr_t *frames, size_t most);

/* ---- For the other wings ---- */

/* Notes the requested size of an object that has spare bytes. */
void lm_sampled_note_size(lm_page_t *page, void *p, size_t bytes);

/* Walks the invariant; ends the program with a line on what is broken. */
void lm_sampled_check(void);
/* Returns the numbers of objects, and of their bytes, in use and ever. */
void lm_sampled_tally(lm_tally_t *objects, lm_tally_t *bytes);
/* Starts new peaks of the numbers of objects and bytes. */
void lm_sampled_forget_peaks(void);

/* Takes the lock of lm_sampled. */
void lm_sampled_lock(void);
/* Releases the lock of lm_sampled. */
void lm_sampled_unlock(void);
/* Tries to take the lock of lm_sampled for a while. Returns false iff it could not. For a signal
 * handler, whose thread may hold the lock itself. */
bool lm_sampled_lock_soon(void);

/* Allocates a sampled object. Returns NULL iff all slots are in use, or a slot cannot be made or
 * opened. */
void *lm_sampled_alloc(lm_theap_t *heap, size_t bytes, unsigned size_class);

/* ---- sample_turns.c ---- */

/* Returns 32 random bits of the heap, which the calling thread owns. */
uint32_t lm_sampled_random(lm_theap_t *heap);

/* ---- sampled.c ---- */

/* Returns the descriptor of the slot in which p lies, or whose guard p lies in, and in *index the
 * slot's number. Returns NULL iff p lies in neither. No lock needed. */
lm_page_t *lm_sampled_near(const void *p, uint32_t *index);

/* Returns how many bytes past the end of an object of `bytes` bytes were written to, or, as a
 * negative number, before its start. Returns 0 iff nothing was. Lock held. */
ptrdiff_t lm_sampled_beyond(const lm_slot_t *slot, size_t bytes);

/* Writes the sites of the allocation of the object that p points into or near. Returns their
 * number. */
size_t lm_sampled_sites(const void *p, lm_site_t *sites, size_t most);

/* ---- sampled_report.c: no lock held ---- */

/* Reports a call with p, which lies in that slot but is no object in use. */
void lm_sampled_misuse(uint32_t index, const void *p, const char *function);
/* Reports an overflow or underflow of the slot's object. beyond: as lm_sampled_beyond returns it.
 * when: the call that found it, "free" or another. */
void lm_sampled_damaged(uint32_t index, ptrdiff_t beyond, const char *when);
/* Reports a bad access to a slot or guard. Returns LM_VERDICT_OTHER iff the address is no sampled
 * object's; else whether the program goes on. Runs in a signal handler. */
lm_verdict_t lm_sampled_judge(const lm_bad_access_t *access);

#endif

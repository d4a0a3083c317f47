/* hooks.h: everything that the core of the heap calls in its wings, in one place.
 *
 *   core (heap/)  ── hook ──>  sampling/   checks/   fheap/   survey/
 *
 * A wing defines the hooks of its section. Where a build has no such wing, or a part of it, the
 * hook is an empty inline function, and costs nothing. The core includes no header of a wing.
 *
 * What it cannot do: wings do not call each other through hooks.h unless the core calls the
 * function as well; a wing includes the header of a wing below it.
 */
#ifndef LM_HEAP_HOOKS_H
#define LM_HEAP_HOOKS_H

#include "heap/offset.h"
#include "heap/theap.h"

#include <string.h>

/* ---- sampling/ ---- */

/* Guard sampling's settings. Atomic: any thread changes them, at any time. */
typedef struct lm_sampling {
    uint32_t rate;  /* about one of so many allocations is sampled; 0: none */
    uint32_t slots; /* number of slots; read when the first slots are made */
    bool exact;     /* objects end with their page to the byte */
} lm_sampling_t;

extern LM_HIDDEN lm_sampling_t lm_sampling;

/* With sampling on: the slow path of malloc for a request of `bytes` in that class. Returns a
 * sampled object or a block, or NULL with errno ENOMEM. */
void *lm_sampled_slow(size_t bytes, unsigned size_class);

/* Cuts the list with which a heap was refilled before the block that a sample is due for. Heap
 * lock held. */
void lm_sampled_limit(lm_theap_t *heap, unsigned size_class, lm_block_t *list);

/* Frees a sampled object, or reports p. */
void lm_sampled_free(lm_page_t *page, void *p);

/* Returns page; or NULL, after a report, iff p is no sampled object in use. */
lm_page_t *lm_sampled_checked(lm_page_t *page, const void *p, const char *function);

/* Notes the requested size of a new sampled object and moves the object to where it ends with its
 * page, at a multiple of align. Returns its address then. */
void *lm_sampled_place(lm_page_t *page, void *p, size_t bytes, size_t align);

/* Shrinks a sampled object in place. Returns false iff it is smaller already. */
bool lm_sampled_shrink(lm_page_t *page, size_t bytes);

/* lm_sampled_place for what realloc has just allocated with spare bytes. Returns p itself iff p is
 * not sampled. */
void *lm_sampled_resized(void *p, size_t bytes);

/* In the child of a fork, even of a fork by a signal handler: no heap goes on with the turns of
 * its parent. The registry's lock and the heaps' locks are not held, unless by what the signal
 * interrupted. */
void lm_sampled_after_fork(void);
lm_lock_t *lm_sampled_fork_lock(void);

/* ---- checks/, every build ---- */

/* Reports a pointer that is not loam's. Returns NULL. */
lm_page_t *lm_page_foreign(const void *p, const char *function);

/* Reports a pointer into a large object. Returns NULL. */
lm_page_t *lm_inside_large(const lm_page_t *page, const void *p, const char *function);

/* M_PERTURB (perturb.c): bits of lm_perturb, which is atomic; 0: nothing was ever to be filled. */
enum {
    LM_PERTURB_VALUE = 0xff,    /* mask of the value that freed bytes get */
    LM_PERTURB_ON = 0x100,      /* memory is filled */
    LM_PERTURB_WAS_ON = 0x200,  /* memory is or was filled: heaps may have another token */
    LM_TOKEN_PERTURB = 8,       /* added to the token of a heap whose frees all come to perturb.c */
    LM_PERTURB_LARGE = 32 << 20 /* bytes of the largest object that is filled when it is freed */
};
extern LM_HIDDEN uint32_t lm_perturb;

/* Returns whether memory is filled now. Relaxed: a word by itself, in force from the next slow path
 * on. */
LM_INLINE bool lm_perturbs(void) {
    return LM_UNLIKELY((lm_load_relaxed(&lm_perturb) & LM_PERTURB_ON) != 0);
}
LM_INLINE int lm_perturb_freed(void) {
    return (int)(lm_load_relaxed(&lm_perturb) & LM_PERTURB_VALUE);
}

/* Fills bytes of a new object, or the bytes by which an object has grown, where that is wanted. */
LM_INLINE void lm_perturb_new(void *p, size_t bytes) {
    if (lm_perturbs()) memset(p, lm_perturb_freed() ^ 0xff, bytes);
}

/* Returns whether malloc's and free's slow paths come to perturb.c. */
LM_INLINE bool lm_perturb_matters(void) {
    return LM_UNLIKELY(lm_load_relaxed(&lm_perturb) != 0); /* relaxed: as in lm_perturbs */
}

/* The slow path of malloc: returns one block for a request of `bytes`, filled in the release build;
 * the heap's list of the class is empty afterwards. Returns NULL with errno ENOMEM iff there is no
 * memory. */
void *lm_perturb_alloc(size_t bytes, unsigned size_class);

/* The slow path of free: fills the object. Returns true iff it has freed it as well. */
bool lm_perturb_free(void *p, lm_page_t *page);

/* Returns the thread's token, of which lm_thread_token knows, for the token of a heap. Relaxed: as
 * for lm_theap_t.token. */
LM_INLINE uintptr_t lm_heap_plain_token(const lm_theap_t *heap) {
    return lm_load_relaxed(&heap->token) & ~(uintptr_t)LM_TOKEN_PERTURB;
}

/* ---- checks/, debug and secure builds ---- */

#if LM_GUARD_LINKS
/* Key of the links of free lists, one for the process; 0 until the first page is made. */
extern LM_HIDDEN uintptr_t lm_secret;
/* Makes lm_secret, unless it exists. */
void lm_secret_make(void);

/* The rest of lm_link_get: next is NULL, or the address of no block. */
lm_block_t *lm_link_last(const lm_block_t *block, const lm_block_t *next);

/* malloc and free of checked builds. */
void *lm_malloc(size_t bytes);
/* lm_malloc for at most LM_SMALL_MOST bytes: reports a larger request, and returns NULL. */
void *lm_malloc_small(size_t bytes);
void lm_free(void *p);
/* lm_free of an object that was allocated for so many bytes, or at a multiple of align, a power of
 * two: reports an object that was not. */
void lm_free_sized(void *p, size_t size);
void lm_free_aligned(void *p, size_t align);
void lm_free_aligned_sized(void *p, size_t align, size_t size);

/* Frees a block of loam's own from lm_block_alloc_aligned, whatever was written there. */
void lm_block_give_back(void *p);

/* Bytes behind the requested ones in every block, and in every large object. */
enum { LM_TRAILER = LOAM_DEBUG ? 16 : 8, LM_TRAILER_LARGE = LOAM_DEBUG ? 16 : 0 };

/* Writes the trailer of a block that was just allocated or resized for `bytes`. Returns p. */
void *lm_trailer_write(void *p, size_t bytes);
/* Writes the trailer of a new block. Debug builds fill the block with a byte that no program may
 * rely on; secure builds look whether the block is still zero. Returns p. */
void *lm_trailer_write_new(void *p, size_t bytes);
/* Returns the number of bytes that were requested for p. */
size_t lm_requested(const lm_page_t *page, const void *p);

/* Returns the page of a block in use; or NULL, after a report that names the function, iff p is no
 * such block, as far as this build can tell. */
lm_page_t *lm_page_checked(const void *p, const char *function);
/* Reports a double free. Returns NULL. */
lm_page_t *lm_double_free(const lm_page_t *page, const void *p, const char *function);

/* The gap before an object p at an offset, whose block begins at `start`: fills it so that an
 * underflow shows; clears it in the secure build, where free blocks are zero. */
void lm_gap_fill(char *start, const char *p);
void lm_gap_clear(char *start, const char *p);
/* Reports damage to what is kept at the start of p's block. Returns true iff p is in use and that
 * was overwritten. */
bool lm_offset_front_damaged(const lm_page_t *page, const void *p);
#else
enum { LM_TRAILER = 0, LM_TRAILER_LARGE = 0 };
LM_INLINE void lm_gap_fill(char *start, const char *p) { (void)start, (void)p; }
LM_INLINE void lm_gap_clear(char *start, const char *p) { (void)start, (void)p; }
LM_INLINE void *lm_trailer_write(void *p, size_t bytes) {
    (void)bytes;
    return p;
}
LM_INLINE void *lm_trailer_write_new(void *p, size_t bytes) { return lm_trailer_write(p, bytes); }
LM_INLINE size_t lm_requested(const lm_page_t *page, const void *p) {
    return lm_block_usable(page, p);
}
LM_INLINE lm_page_t *lm_page_checked(const void *p, const char *function) {
    lm_page_t *page = lm_page_of(p);
    if (LM_LIKELY(page->kind == LM_KIND_PAGE || page->kind == LM_KIND_LARGE)) return page;
    return page->kind == LM_KIND_SAMPLED ? lm_sampled_checked(page, p, function)
                                         : lm_page_foreign(p, function);
}
#endif

/* ---- checks/, debug build ---- */

#if LOAM_DEBUG
/* A block that was taken from a free list; an object that is about to be put into one. Returns the
 * block. */
void *lm_taken(void *block);
void lm_given(void *p);
/* A block was freed at whose start no object is (offset.c). */
void lm_given_at(const lm_page_t *page, void *block);

/* Blocks of the page were made, from `first` on: fills them. Heap lock held. */
void lm_carved(const lm_page_t *page, char *first, size_t blocks);
/* A page is about to enter the map: the end of its span will show an underflow of what lies
 * behind. */
void lm_fence_page(const lm_page_t *page);
/* A page goes back: reports what was written to its free blocks, and past its end. */
void lm_reuse_check_page(const lm_page_t *page);

/* State of the word that ends a block, or the span of a large object. */
typedef enum lm_state { LM_STATE_BROKEN, LM_STATE_USED, LM_STATE_FREED } lm_state_t;
/* Returns the state, and in *requested the size that the last user requested. */
lm_state_t lm_word_get(const void *end, size_t *requested);
void lm_word_set(const void *end, size_t requested, lm_state_t state);

/* A large object waits before its span goes back. Returns false iff it may not wait. */
bool lm_reuse_keep(lm_page_t *page, void *p);
/* Frees the large objects that wait. Returns whether there were any. No lock held. */
bool lm_reuse_unkeep(void);
/* For the worker, once a tick: frees the objects that wait if none came since the last tick.
 * Returns whether some may be left. */
bool lm_reuse_rest(bool all);
/* In the child of a fork whose parent had other threads. */
void lm_reuse_interrupted(void);

lm_lock_t *lm_sites_fork_lock(void);
#else
LM_INLINE void *lm_taken(void *block) { return block; }
LM_INLINE void lm_given(void *p) { (void)p; }
LM_INLINE void lm_given_at(const lm_page_t *page, const void *block) { (void)page, (void)block; }
LM_INLINE void lm_carved(const lm_page_t *page, char *first, size_t blocks) {
    (void)page, (void)first, (void)blocks;
}
LM_INLINE void lm_fence_page(const lm_page_t *page) { (void)page; }
LM_INLINE void lm_reuse_check_page(const lm_page_t *page) { (void)page; }
LM_INLINE bool lm_reuse_unkeep(void) { return false; }
LM_INLINE bool lm_reuse_rest(bool all) { return (void)all, false; }
LM_INLINE void lm_reuse_interrupted(void) {}
LM_INLINE lm_lock_t *lm_sites_fork_lock(void) { return NULL; }
#endif

/* ---- checks/, builds for Memcheck or AddressSanitizer ---- */

#if LM_TOOLS
/* Tells the tool that memory is no object's, or is again. */
void lm_tools_hide(const void *p, size_t bytes);
void lm_tools_show(const void *p, size_t bytes);
/* Read and write the word of a link, which the tool takes for inaccessible. */
uintptr_t lm_tools_peek(const lm_block_t *block);
void lm_tools_poke(lm_block_t *block, uintptr_t word);
/* Gives back a span that is out of the map, or a chain of spans by `notified`, after it was hidden
 * for a while. */
void lm_tools_give(lm_page_t *span, bool rested);
void lm_tools_give_chain(lm_page_t *first, bool rested);
/* Gives back all hidden spans. Returns whether there were any. The arena's lock is not held. */
bool lm_tools_let_go(void);
/* Between these two the calling thread may read hidden memory. They nest. */
void lm_tools_pause(void);
void lm_tools_resume(void);
#else
LM_INLINE void lm_tools_hide(const void *p, size_t bytes) { (void)p, (void)bytes; }
LM_INLINE void lm_tools_show(const void *p, size_t bytes) { (void)p, (void)bytes; }
LM_INLINE uintptr_t lm_tools_peek(const lm_block_t *block) { return (uintptr_t)block->next; }
LM_INLINE void lm_tools_poke(lm_block_t *block, uintptr_t word) {
    block->next = (lm_block_t *)word;
}
LM_INLINE void lm_tools_give(lm_page_t *span, bool rested) { lm_span_give(span, rested); }
LM_INLINE void lm_tools_give_chain(lm_page_t *first, bool rested) {
    lm_span_give_chain(first, rested);
}
LM_INLINE bool lm_tools_let_go(void) { return false; }
LM_INLINE void lm_tools_pause(void) {}
LM_INLINE void lm_tools_resume(void) {}
#endif

/* ---- checks/, secure build ---- */

#if LM_SECURE
/* Prepares a size class, before its first page. */
void lm_secure_class(unsigned size_class, size_t bytes);
/* Looks at a page that was just taken, whose memory reads as zero or may not. Returns whether all
 * of it is as free blocks of the class are, except for their links. */
bool lm_secure_page_begin(lm_page_t *page, unsigned size_class, bool zero);
/* A page whose blocks are all free goes back. */
void lm_secure_page_end(lm_page_t *page);
/* lm_page_carve of n blocks, as a list in random order, unless their class has many (lm_order). */
lm_block_t *lm_carve_shuffled(lm_page_t *page, char *first, uint32_t n);

/* lm_calloc and lm_zalloc. */
void *lm_secure_calloc(size_t bytes);
/* realloc of a small block to a size that is small as well: *there is what it returns. Returns
 * false, and does nothing, iff p is no small block or damaged, or the size is not small. */
bool lm_realloc_short(void *p, size_t bytes, void **there);

/* Returns a span for an object of so many bytes, with a guard behind it; *zero (may be NULL):
 * whether it reads as zero. fheap: the first-class heap that it is for, or NULL. Returns NULL iff
 * there is no more memory. No lock held. */
lm_page_t *lm_large_take(const struct loam_heap *fheap, size_t bytes, size_t align_slices,
                         bool *zero);
/* The object has so many bytes from now on: what lies behind them shows an overflow. */
void lm_large_trailer_write(lm_page_t *page, size_t bytes);
/* Has the memory behind an object without a guard purged after the purge delay, if it may be
 * resident. The object's user calls it after each lm_large_trailer_write. */
void lm_large_tail(lm_page_t *page);
/* Returns false, after a report, iff the object was overrun. */
bool lm_large_intact(const lm_page_t *page, const char *function);
/* Takes an object that is out of the map, to be given back later. touch: its memory may be written
 * to. The registry's lock may be held. */
void lm_large_keep(lm_page_t *page, bool touch);
/* Resizes p in place. Returns p, or NULL iff that is not possible. */
void *lm_large_refit(lm_page_t *page, void *p, size_t bytes, bool roomy, size_t *fresh);
/* Moves the object's pages to a span with space for `bytes`, or, if roomy, for more. Returns NULL
 * iff that is not possible. */
lm_page_t *lm_large_move(lm_page_t *page, size_t bytes, bool roomy);
/* Gives back the objects that were freed some ticks ago, or all. Returns whether some stay. No lock
 * is held, except the registry's. */
bool lm_large_let_go(bool all);
/* Returns the number of slices that the program may use. */
size_t lm_large_slices(const lm_page_t *page);

/* All blocks in the heap's quarantine go where free puts them without one. For the owner, without
 * locks held. */
void lm_quarantine_empty(lm_theap_t *heap);
/* Returns whether blocks of the calling thread may wait. */
bool lm_quarantine_waits(void);
/* In place of a thread that sleeps or is gone: blocks return to their pages. Locks as for
 * lm_foreign_return_sleeper. */
void lm_quarantine_return(lm_theap_t *heap);
#else
LM_INLINE bool lm_large_let_go(bool all) { return (void)all, false; }
LM_INLINE size_t lm_large_slices(const lm_page_t *page) { return page->slices; }
LM_INLINE void lm_quarantine_empty(lm_theap_t *heap) { (void)heap; }
LM_INLINE bool lm_quarantine_waits(void) { return false; }
LM_INLINE void lm_quarantine_return(lm_theap_t *heap) { (void)heap; }
#endif

/* ---- fheap/ ---- */

/* Counts slices that a first-class heap takes. Returns false iff its limit forbids it. Any lock may
 * be held. */
bool lm_fheap_count(struct loam_heap *fheap, size_t slices);
/* Counts slices that it gives back. */
void lm_fheap_uncount(struct loam_heap *fheap, size_t slices);

/* Counts a page that goes back, and its blocks. Any lock may be held. */
void lm_fheap_page_goes(struct loam_heap *fheap, const lm_page_t *page);

/* A large object leaves its heap, and what that heap has counted. No lock held. */
void lm_fheap_lose(lm_page_t *page);

/* A function that gives the object p of that page so many usable bytes, in its place or elsewhere.
 * roomy: more bytes may be taken. It returns NULL, and has changed nothing, iff it cannot. */
typedef void *lm_large_change_t(lm_page_t *page, void *p, size_t bytes, bool roomy, size_t *fresh);
/* Calls `change` within the heap's limits. */
void *lm_fheap_large_change(struct loam_heap *fheap, lm_page_t *page, void *p, size_t bytes,
                            size_t *fresh, lm_large_change_t *change);
void *lm_fheap_large_alloc(struct loam_heap *fheap, size_t bytes, size_t align, bool *zero);

/* Returns whether the heap has a hard limit. */
bool lm_fheap_is_limited(const struct loam_heap *fheap);
bool lm_fheap_in_range(const struct loam_heap *fheap);
/* Returns whether the heap takes its memory from a range. fheap may be NULL. */
LM_INLINE bool lm_fheap_has_range(const struct loam_heap *fheap) {
    return LM_UNLIKELY(fheap != NULL) && lm_fheap_in_range(fheap);
}
/* lm_span_take and lm_span_take_page for a heap that may have a range. */
lm_page_t *lm_fheap_take(const struct loam_heap *fheap, size_t slices, size_t align_slices,
                         bool *zero);
lm_page_t *lm_fheap_take_page(const struct loam_heap *fheap, size_t slices, size_t block_bytes,
                              bool crowded, bool *zero);

/* Returns false, after a report and with errno EINVAL, iff the heap is not alive. */
bool lm_fheap_serves(const struct loam_heap *fheap);
/* Returns the heap that lm_fheap_choose has set for the calling thread. */
struct loam_heap *lm_fheap_chosen(void);
/* As lm_malloc, lm_calloc and lm_malloc_aligned, from that heap. Return NULL also iff its hard
 * limit is reached or, after a report and with errno EINVAL, it is not alive. */
void *lm_fheap_malloc(struct loam_heap *fheap, size_t bytes);
void *lm_fheap_calloc(struct loam_heap *fheap, size_t bytes);
void *lm_fheap_malloc_aligned(struct loam_heap *fheap, size_t bytes, size_t align);
/* lm_fheap_malloc_aligned, zeroed up to the usable size; align 1: any. */
void *lm_fheap_zalloc_aligned(struct loam_heap *fheap, size_t bytes, size_t align);
/* lm_malloc_aligned from the thread's own heap, for what must not end with a first-class heap that
 * the thread's malloc uses. */
void *lm_block_alloc_lasting(size_t bytes, size_t align);
/* Gives back what is empty, of the calling thread's branch and of branches without a thread. */
void lm_fheap_collect(struct loam_heap *fheap);

/* Returns a block of that class from the calling thread's branch. */
void *lm_branch_alloc(lm_theap_t *branch, unsigned size_class);
/* A branch of a thread that has gone stays with its heap. Registry's lock held. */
void lm_branch_ends(lm_theap_t *branch);
/* The thread has no branches any more. Registry's lock held. */
void lm_branch_forget_all(lm_theap_t *own);
/* The thread's branches of deleted heaps become what its other pages are. No lock held. */
void lm_fheap_part_with_retired(lm_theap_t *own);
/* The branches of a thread that ends stay with their heaps, for another thread. No lock held. */
void lm_fheap_thread_ends(lm_theap_t *own);

/* For a fork, registry's lock held, as lm_lock_hold and lm_lock_let: before the heaps' locks, after
 * them, and both. */
bool lm_fheap_hold_late(uint64_t until);
bool lm_fheap_hold(uint64_t until);
void lm_fheap_let(void);
void lm_fheap_after_fork(void);
void lm_fheap_after_torn_fork(void); /* frees locks that other threads held */

/* ---- survey/ ---- */

/* Numbers of heaps that threads began to use, and had at a time. Atomic, relaxed. */
typedef struct lm_heap_counts {
    size_t total, most;
} lm_heap_counts_t;
extern lm_heap_counts_t lm_heap_counts;

/* A large object has other usable bytes than before. The span counts objects that come and go. */
void lm_count_large(size_t was, size_t is);

/* Bytes of a thread (thread_bytes.c). As long as no thread of the process wants to know them, each
 * function below is one load and one branch that is not taken, on a slow path. */
extern LM_HIDDEN bool lm_bytes_wanted; /* atomic: some thread has asked */

/* Returns whether the thread counts whose heap, or branch, that is. NULL: no thread's. Relaxed: a
 * thread that counts has set it itself. */
LM_INLINE bool lm_bytes_counted(const lm_theap_t *heap) {
    if (LM_LIKELY(!lm_load_relaxed(&lm_bytes_wanted)) || heap == NULL) return false;
    const lm_theap_t *own = lm_load_relaxed(&heap->fheap.own_heap);
    return own != NULL && lm_load_relaxed(&own->bytes.on);
}

void lm_bytes_add_to(lm_theap_t *heap, size_t allocated, size_t freed);
void lm_bytes_add_page(lm_theap_t *heap, const lm_page_t *page, bool leaves);
void lm_bytes_add_list(lm_theap_t *heap, const lm_block_t *list, bool allocated, bool less);
void lm_bytes_add_branch(lm_theap_t *branch, bool leaves);
void lm_bytes_add_mine(size_t allocated, size_t freed);

/* The heap's thread has allocated and freed so many bytes more; negative numbers wrap around. */
LM_INLINE void lm_bytes_add(lm_theap_t *heap, size_t allocated, size_t freed) {
    if (LM_UNLIKELY(lm_bytes_counted(heap))) lm_bytes_add_to(heap, allocated, freed);
}

/* The calling thread has. */
LM_INLINE void lm_bytes_mine(size_t allocated, size_t freed) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_bytes_wanted))) lm_bytes_add_mine(allocated, freed);
}

/* A page leaves the heap, or comes to it. What the page's counts say leaves, or comes, with it. */
LM_INLINE void lm_bytes_page(lm_theap_t *heap, const lm_page_t *page, bool leaves) {
    if (LM_UNLIKELY(lm_bytes_counted(heap))) lm_bytes_add_page(heap, page, leaves);
}

/* A list that belongs to no page of the heap becomes ready for malloc; less: is no longer ready. */
LM_INLINE void lm_bytes_ready(lm_theap_t *heap, const lm_block_t *list, bool less) {
    if (LM_UNLIKELY(lm_bytes_counted(heap))) lm_bytes_add_list(heap, list, true, less);
}

/* A list of blocks that the thread has freed leaves its keeping. */
LM_INLINE void lm_bytes_freed(lm_theap_t *heap, const lm_block_t *list) {
    if (LM_UNLIKELY(lm_bytes_counted(heap))) lm_bytes_add_list(heap, list, false, false);
}

/* A branch of the thread's comes with all its pages, or goes with its heap. Heap lock held. */
LM_INLINE void lm_bytes_branch(lm_theap_t *branch, bool leaves) {
    if (LM_UNLIKELY(lm_bytes_counted(branch))) lm_bytes_add_branch(branch, leaves);
}

#endif

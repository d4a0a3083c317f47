/* room.h: what the files of the heap share; nobody else includes it.
 *
 * Order of locks: registry, common heap, heap, first-class heap, transfer cache, objects at an
 * offset, sampled objects, orphans, freed large objects (secure builds), call sites (debug builds),
 * arena.
 * Each is a leaf for those before it.
 */
#ifndef LM_HEAP_ROOM_H
#define LM_HEAP_ROOM_H

#include "heap/count.h"
#include "heap/heap.h"
#include "heap/offset.h"
#include "heap/tools.h"

/* ---- Where a page's link is: page->place ---- */
enum { LM_AT_NOWHERE, LM_AT_CURRENT, LM_AT_PARTIAL, LM_AT_FULL, LM_AT_ORPHANS };

LM_INLINE uint32_t lm_page_outside(const lm_page_t *page) {
    /* Acquire: pairs with lm_count_down, when the worker asks for a sleeping owner's page. */
    return lm_load_acquire(&page->live) + page->bias;
}

/* NULL, with errno ENOMEM. */
void *lm_no_memory(void);

/* The same for a request that no memory could serve. */
void *lm_too_large(size_t bytes);
void *lm_too_large_at(size_t bytes, size_t align);

/* ---- page.c: heap lock held ---- */

/* A fresh page of that class, owned by the heap, in none of its lists. NULL iff there is no
 * memory. */
lm_page_t *lm_page_create(lm_heap_t *heap, unsigned size_class);

/* Makes the next untouched blocks into a list, NULL iff there are none. */
lm_block_t *lm_page_carve(lm_page_t *page);

/* Takes all blocks on page->free, to be handed out; NULL iff there are none. */
LM_INLINE lm_block_t *lm_page_take(lm_page_t *page) {
    lm_block_t *list = page->free;
    if (list == NULL) return NULL;
    uint32_t carved = page->carved;
    lm_count_again(page, carved - page->live);
    page->free = NULL;
    /* Release: the list is gone from here before it is anywhere else, should the process fork
     * now. */
    lm_store_release(&page->live, carved);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return list;
}

void lm_page_to_partial(lm_heap_t *heap, lm_page_t *page);
void lm_page_to_full(lm_heap_t *heap, lm_page_t *page);
void lm_page_unlink(lm_heap_t *heap, lm_page_t *page);

/* Puts n blocks, head..tail, back on page->free. */
void lm_page_put(lm_page_t *page, lm_block_t *head, lm_block_t *tail, uint32_t n);

/* Gives the page of the heap, with no block outside, back to the arena, unless a remote free is
 * still on its way to tell us of it: then it stays until that has arrived. */
void lm_page_release(lm_heap_t *heap, lm_page_t *page);

/* Takes a page that is going back out of the map. */
void lm_page_retire(lm_page_t *page);

/* The same for a page that belongs to no heap and is in no list; rested: see lm_span_give. */
void lm_page_discard(lm_page_t *page, bool rested);

/* Releases current pages whose blocks are all here. For the owner, or while the heap is parked. */
void lm_page_trim(lm_heap_t *heap);

/* ---- remote.c ---- */

/* The blocks that others freed: one word, so that a chain goes over in one compare-and-swap.
 *
 *     63      48 47      32 31      16 15        0
 *     [  head   |   tail   |  count   |  flags   ]     head, tail: offset in the page / 16
 */
enum {
    LM_REMOTE_QUEUED = 1, /* the page is on, or on its way to, its heap's `notified` stack */
    LM_REMOTE_ORPHAN = 2, /* no heap owns it; changes under the orphans' lock */
};

LM_INLINE uint32_t lm_remote_count(uint64_t word) { return (uint32_t)(word >> 16) & 0xffff; }
LM_INLINE lm_block_t *lm_remote_at(const lm_page_t *page, uint64_t offset16) {
    return (lm_block_t *)(void *)(lm_span_start(page) + (offset16 & 0xffff) * 16);
}

/* Hands a chain of n blocks to a page that is not the heap's (any more), or whose owner sleeps.
 * heap, the one of the thread that frees, becomes the owner of an orphan; NULL: nobody does. No
 * lock held; with NULL, a heap's may be. */
void lm_remote_push(lm_heap_t *heap, lm_page_t *page, lm_block_t *head, lm_block_t *tail,
                    uint32_t n);

/* Takes what is there, as a chain; flags stay. Returns how many. */
uint32_t lm_remote_take(lm_page_t *page, lm_block_t **head, lm_block_t **tail);

/* Takes the list; there is room for as many again. */
LM_INLINE lm_block_t *lm_foreign_unlist(lm_foreign_t *foreign) {
    lm_block_t *list = foreign->first;
    foreign->first = NULL;
    foreign->room = foreign->granted;
    return list;
}

/* Below: heap lock held. Hands all blocks of others over, each to its page. */
void lm_foreign_return_all(lm_heap_t *heap);

/* The same in place of a thread that sleeps, heap parked; also what its heads hold of others. */
void lm_foreign_return_sleeper(lm_heap_t *heap);

/* Hands over a list of them. heap, where some may be ours; NULL: nobody's, and no lock needed. */
void lm_foreign_send(lm_heap_t *heap, lm_block_t *list);

/* The same for one that was counted as handed out. */
void lm_foreign_send_back(lm_heap_t *heap, lm_block_t *list);

/* Blocks of others for malloc, of a list that is not empty, if there are enough of them; NULL
 * otherwise. */
lm_block_t *lm_foreign_take(lm_heap_t *heap, unsigned size_class);

/* Takes in what others freed; heap lock held. An inactive heap's pages become orphans. */
void lm_remote_drain(lm_heap_t *heap);

/* Whether anything is to be taken in. Relaxed: what comes later is taken later. Heap lock held. */
LM_INLINE bool lm_remote_waits(const lm_heap_t *heap) {
    return heap->coming != NULL || lm_load_relaxed(&heap->notified) != NULL;
}

/* Takes in what other threads freed on one page, or finds out which pages these are: something
 * waits. For malloc, because one call may find fifty of them. Heap lock held. */
void lm_remote_drain_some(lm_heap_t *heap);

/* ---- transfer.c ---- */

/* Leaves the list for others; false iff it cannot, with the list as it was. No lock held. */
bool lm_transfer_put(unsigned size_class, lm_foreign_t *foreign);

/* Takes such a list, NULL iff there is none. */
lm_block_t *lm_transfer_take_one(unsigned size_class);
extern uint8_t
    lm_transfer_count[LM_CLASSES]; /* atomic: lists of each class, changed under its lock */
LM_INLINE lm_block_t *lm_transfer_take(unsigned size_class) {
    /* Relaxed: what comes this moment is found the next time. */
    if (LM_LIKELY(lm_load_relaxed(&lm_transfer_count[size_class]) == 0)) return NULL;
    return lm_transfer_take_one(size_class);
}

/* Blocks that lie there. */
size_t lm_transfer_blocks(unsigned size_class);

/* Sends home what nobody took since the last call, or all. Returns whether some stay. */
bool lm_transfer_empty(bool all);

/* For a fork: all of its locks, as lm_lock_hold and lm_lock_let. */
bool lm_transfer_is_mine(void);
bool lm_transfer_hold(uint64_t until);
void lm_transfer_let(void);
void lm_transfer_after_fork(void);
void lm_transfer_after_torn_fork(void); /* drops lists that another thread was changing */

/* ---- orphan.c ---- */

/* Makes a page of the heap, unlinked and drained, nobody's. false iff a remote free is on its way:
 * the page must stay with the heap until that has arrived. Heap lock held. */
bool lm_orphan_add(lm_page_t *page);

/* Takes an orphan of that class with free blocks; unlinked, owned by the heap. NULL iff there is
 * none. */
lm_page_t *lm_orphan_adopt(lm_heap_t *heap, unsigned size_class);

/* Frees a chain of blocks of an orphan: the calling thread becomes its owner, if it has a heap.
 * false iff the page is no orphan any more. No lock held. */
bool lm_orphan_free(lm_heap_t *heap, lm_page_t *page, lm_block_t *head, lm_block_t *tail,
                    uint32_t n);

/* How many there are, those without free blocks too. forget: then the most is looked for anew. */
lm_tally_t lm_orphan_tally(bool forget);

lm_lock_t *lm_orphan_fork_lock(void);
void lm_orphan_forget(void); /* empties the lists, without a look at the pages */

/* ---- large.c ---- */

/* Of the first-class heap that the thread's malloc uses, if any; of nobody, in memory for that heap
 * (NULL: any). */
void *lm_large_alloc(size_t bytes, size_t align, bool *zero);
void *lm_large_open(struct loam_heap *whole, size_t bytes, size_t align, bool *zero);
void lm_large_free(lm_page_t *page, void *p);
void lm_large_discard(lm_page_t *page); /* the same, without a look at what it belongs to */
/* Makes the object's span one of so many usable bytes, in place; false iff it cannot: it is as it
 * was then. fresh, here and below: NULL, or, for who clears what an object grows by, made the byte
 * from which on that is zero as it is, where there is one. */
bool lm_large_fit(lm_page_t *page, size_t bytes, size_t *fresh);
#if LM_TOOLS
/* The same for the object p; lm_large_fit does nothing in such a build. lm_mark has to follow. */
bool lm_large_expand(lm_page_t *page, const void *p, size_t bytes);
#endif
/* The same, else by moving pages; NULL iff neither works (then copy). */
void *lm_large_resize_fresh(lm_page_t *page, void *p, size_t bytes, size_t *fresh);
LM_INLINE void *lm_large_resize(lm_page_t *page, void *p, size_t bytes) {
    return lm_large_resize_fresh(page, p, bytes, NULL);
}

/* ---- secure_large.c: guards, canaries and delayed reuse of large objects ---- */

#if LM_SECURE
/* A span for an object of so many bytes, with a guard behind it; *zero (may be NULL): it reads as
 * zero. whole: the first-class heap that it is for, or NULL. NULL iff there is no more memory. No
 * lock held. */
lm_page_t *lm_large_take(const struct loam_heap *whole, size_t bytes, size_t align_slices,
                         bool *zero);
/* The object is one of so many bytes from now on: what lies behind them shows an overflow. */
void lm_large_mark(lm_page_t *page, size_t bytes);
/* Has the memory behind an object without a guard purged after the purge delay, if it may be
 * resident. Called by the object's user after each lm_large_mark. */
void lm_large_tail(lm_page_t *page);
/* false, after a report, iff it was overrun. */
bool lm_large_intact(const lm_page_t *page, const char *function);
/* Takes one that is out of the map, for later. touch: its memory may be written to. Registry's lock
 * may be held. */
void lm_large_keep(lm_page_t *page, bool touch);
/* For large.c: p with so many bytes, in place, or NULL; by moving pages, a span with room for them;
 * roomy: and more. */
void *lm_large_refit(lm_page_t *page, void *p, size_t bytes, bool roomy, size_t *fresh);
lm_page_t *lm_large_move(lm_page_t *page, size_t bytes, bool roomy);
/* Gives back those that were freed some ticks ago, or all. Returns whether some stay. No lock but
 * the registry's held. */
bool lm_large_let_go(bool all);
/* Slices that may be used. */
size_t lm_large_slices(const lm_page_t *page);
#else
LM_INLINE bool lm_large_let_go(bool all) {
    (void)all;
    return false;
}
LM_INLINE size_t lm_large_slices(const lm_page_t *page) { return page->slices; }
#endif

/* ---- sampled.c, sample_turns.c, sampled_report.c ---- */

/* With sampling on, malloc's slow path for a request of `bytes` in that class: a sampled object, or
 * a block. */
void *lm_sampled_slow(size_t bytes, unsigned size_class);

/* The rest of the slow path, where the current page has no list: a block, or NULL with errno
 * ENOMEM. */
void *lm_block_refill(unsigned size_class);

/* A heap was refilled with that list: cuts it before the block that a sample is due for. Heap lock
 * held. */
void lm_sampled_limit(lm_heap_t *heap, unsigned size_class, lm_block_t *list);

void lm_sampled_free(lm_page_t *page, void *p);
/* page; NULL, after a report, iff p is no sampled object in use. */
lm_page_t *lm_sampled_checked(lm_page_t *page, const void *p, const char *function);
/* Says what was really requested of an object that has room for more. */
void lm_sampled_mark(lm_page_t *page, void *p, size_t bytes);
/* The same for one that is new, and moved to where it ends with its page, at a multiple of align:
 * where it is now. */
void *lm_sampled_place(lm_page_t *page, void *p, size_t bytes, size_t align);
/* Makes one in use that small where it is; false iff it is smaller already. */
bool lm_sampled_shrink(lm_page_t *page, size_t bytes);
/* lm_sampled_place for what realloc has just allocated with room to grow; p itself iff it is not
 * sampled. */
void *lm_sampled_resized(void *p, size_t bytes);

/* In the child of a fork, even one that a signal handler makes: no heap goes on with the turns of
 * its parent. Neither the registry's lock nor that of a heap is held, unless by what was
 * interrupted. */
void lm_sampled_after_fork(void);

void lm_sampled_check(void); /* the invariant */
/* Objects, and their bytes, in use and ever. From now on the most of each is looked for anew. */
void lm_sampled_tally(lm_tally_t *objects, lm_tally_t *bytes);
void lm_sampled_forget_peaks(void);

void lm_sampled_lock(void);
/* For signal handlers, whose thread may have it itself. false iff it could not be had for a
 * while. */
bool lm_sampled_lock_soon(void);
void lm_sampled_unlock(void);
lm_lock_t *lm_sampled_fork_lock(void);

/* ---- checked.c, fence.c (debug), secure.c: what checked builds do around each block ---- */

/* Reports a pointer that is none of ours; NULL. */
lm_page_t *lm_page_foreign(const void *p, const char *function);

/* The page of a block in use; NULL, after a report that names the function, iff p is no such block,
 * as far as this build can tell. */
#if LM_GUARD_LINKS
lm_page_t *lm_page_checked(const void *p, const char *function);
#else
LM_INLINE lm_page_t *lm_page_checked(const void *p, const char *function) {
    lm_page_t *page = lm_page_of(p);
    if (LM_LIKELY(page->kind == LM_KIND_PAGE || page->kind == LM_KIND_LARGE)) return page;
    return page->kind == LM_KIND_SAMPLED ? lm_sampled_checked(page, p, function)
                                         : lm_page_foreign(p, function);
}
#endif

#if LM_GUARD_LINKS
/* For these checks (fence.c, secure.c): false, after a report, iff the block is not in use or was
 * overrun. */
bool lm_intact(const lm_page_t *page, const void *p, const char *function);
/* Reports one; NULL. */
lm_page_t *lm_double_free(const lm_page_t *page, const void *p, const char *function);
/* Makes lm_secret, if there is none yet. */
void lm_secret_make(void);
#endif

/* Reports a pointer into a large object; NULL. */
lm_page_t *lm_inside_large(const lm_page_t *page, const void *p, const char *function);

/* Bytes of a block as the page knows it. */
LM_INLINE size_t lm_block_bytes(const lm_page_t *page) {
    return page->kind == LM_KIND_PAGE ? page->block_bytes : page->bytes;
}

/* Of them, those from p, the object, on. */
LM_INLINE size_t lm_block_room(const lm_page_t *page, const void *p) {
    size_t bytes = lm_block_bytes(page);
    if (LM_LIKELY(!lm_is_offset(page))) return bytes;
    return bytes - (size_t)((const char *)p - lm_offset_start(page, p));
}

#if LM_GUARD_LINKS
/* Bytes after what was requested, in every block; in large objects. */
enum { LM_TRAILER = LOAM_DEBUG ? 16 : 8, LM_TRAILER_LARGE = LOAM_DEBUG ? 16 : 0 };
/* Writes the trailer of a block that was just allocated or resized for `bytes`. */
void *lm_mark(void *p, size_t bytes);
/* What was requested. */
size_t lm_requested(const lm_page_t *page, const void *p);
#else
enum { LM_TRAILER = 0, LM_TRAILER_LARGE = 0 };
LM_INLINE void *lm_mark(void *p, size_t bytes) {
    (void)bytes;
    return p;
}
LM_INLINE size_t lm_requested(const lm_page_t *page, const void *p) {
    return lm_block_room(page, p);
}
#endif

/* Of whatever p is; 0, told, iff it is nothing of loam's. */
LM_INLINE size_t lm_usable_size_of_any(const void *p) {
    const lm_page_t *page = lm_page_checked(p, "malloc_usable_size");
    return page != NULL ? lm_requested(page, p) : 0;
}

/* What is cleared of a block for that many bytes: these, or all that may be used. */
LM_INLINE size_t lm_to_clear(const lm_page_t *page, const void *p, size_t bytes, bool all) {
    size_t trailer = page->kind == LM_KIND_LARGE ? LM_TRAILER_LARGE : LM_TRAILER;
    return trailer > 0 || !all ? bytes : lm_block_room(page, p);
}

/* Whether realloc leaves a block of `have` bytes where it is: if at least half of it is used, and
 * of what is not used at most LM_SPARE_MOST bytes or an eighth. A move of a small block would cost
 * more than it saves (decision 0032). */
enum { LM_SPARE_MOST = 512 };
LM_INLINE bool lm_worth_staying(size_t have, size_t bytes) {
    return bytes <= have && bytes >= have / 2 &&
           (have - bytes <= LM_SPARE_MOST || have - bytes <= have / 8);
}

/* What to ask for in place of `bytes`. A block that grows by little is being appended to, and will
 * grow again: an eighth more than it has, so that the copies add up to a multiple of the last size,
 * not to its square. Who grows by more than that has room of its own, and gets what it asks for. */
LM_INLINE size_t lm_with_room(size_t have, size_t bytes) {
    size_t roomy = have + have / 8;
    return bytes > have && bytes < roomy && roomy <= LM_BLOCK_MOST - LM_TRAILER ? roomy : bytes;
}

#if LOAM_DEBUG
/* fence.c: the word that ends a block, or a large object's span; *requested: of the last user. */
typedef enum lm_state { LM_STATE_BROKEN, LM_STATE_USED, LM_STATE_FREED } lm_state_t;
lm_state_t lm_word_get(const void *end, size_t *requested);
void lm_word_set(const void *end, size_t requested, lm_state_t state);
/* The word as it lies there, and what it is xored with. */
uint64_t lm_word_raw(const void *end);
uint64_t lm_word_mask(const void *end);
/* Before a page is in the map: the end of its span shows an underflow of what lies behind. Reports
 * one, when the page goes back. */
void lm_fence_page(const lm_page_t *page);
void lm_fence_check_page(const lm_page_t *page);
/* How many bytes past an object's request were written to, up to the word, which is whole. */
size_t lm_fence_past(const void *p, size_t requested, const void *end);
/* For reports: "size class 64 B, " and, unless it is 0, "40 requested, ". */
const char *lm_size_text(lm_line_t *line, const lm_page_t *page, size_t requested);

/* reuse.c: what free memory is filled with; blocks that were just made; of a page that goes back.
 * Heap lock held. */
enum { LM_FILL_FREED = 0xdf, LM_FILL_FENCE = 0xfb };
void lm_carved(const lm_page_t *page, char *first, size_t blocks);
/* A block at whose start no object is (offset.c) was freed. */
void lm_given_at(const lm_page_t *page, void *block);
/* Returns whether a free block of the page is as it was filled; reports it otherwise. No lock held.
 * */
bool lm_reuse_intact(const lm_page_t *page, const void *block);
void lm_reuse_check_page(const lm_page_t *page);
/* A large object waits before its span goes back; false iff it may not. Those that wait go now:
 * whether there are any. No lock held. */
bool lm_reuse_keep(lm_page_t *page, void *p);
bool lm_reuse_unkeep(void);
/* Whether p is one of those: how large it was, and what had been requested. */
bool lm_reuse_holds(const void *p, size_t *bytes, size_t *requested);
/* Before one of a first-class heap that is destroyed goes: reports what was written past its
 * end. */
void lm_reuse_check_large(const lm_page_t *page);
/* In the child of a fork, where other threads were in the parent. */
void lm_reuse_interrupted(void);
/* For the worker, once a tick: those that wait go, if none came since the last tick. Whether some
 * may be left. */
bool lm_reuse_rest(bool all);

/* sites.c: an object was allocated, is about to be freed; the next report of this thread is about
 * it. */
void lm_sites_allocated(const void *p);
void lm_sites_freed(const void *p);
void lm_sites_about(const void *p);
/* The trace of an object's allocation, 0: unknown; that of these callers; its lines, on standard
 * error. */
uint32_t lm_sites_of(const void *p);
uint32_t lm_sites_number(const lm_site_t *places, size_t depth);
void lm_sites_report(uint32_t trace);
lm_lock_t *lm_sites_fork_lock(void);
#else
LM_INLINE void lm_fence_page(const lm_page_t *page) { (void)page; }
LM_INLINE void lm_carved(const lm_page_t *page, char *first, size_t blocks) {
    (void)page, (void)first, (void)blocks;
}
LM_INLINE void lm_given_at(const lm_page_t *page, const void *block) { (void)page, (void)block; }
LM_INLINE void lm_reuse_check_page(const lm_page_t *page) { (void)page; }
LM_INLINE void lm_reuse_check_large(const lm_page_t *page) { (void)page; }
LM_INLINE void lm_reuse_interrupted(void) {}
LM_INLINE bool lm_reuse_unkeep(void) { return false; }
LM_INLINE bool lm_reuse_rest(bool all) {
    (void)all;
    return false;
}
LM_INLINE void lm_sites_about(const void *p) { (void)p; }
LM_INLINE lm_lock_t *lm_sites_fork_lock(void) { return NULL; }
#endif

/* What a large object needs in place of so many bytes, of which LM_TRAILER are for the trailer. */
LM_INLINE size_t lm_large_need(size_t whole) { return whole - (LM_TRAILER - LM_TRAILER_LARGE); }

#if LM_GUARD_LINKS
/* The same for one that is new: debug builds fill it with what nobody may rely on, secure ones look
 * whether it is still zero. */
void *lm_mark_new(void *p, size_t bytes);
#else
LM_INLINE void *lm_mark_new(void *p, size_t bytes) { return lm_mark(p, bytes); }
#endif

#if LM_SECURE
/* As lm_calloc and lm_zalloc. */
void *lm_secure_calloc(size_t bytes);
/* 64 bits that nobody can foretell. For the owner, or under the heap's lock. */
uint64_t lm_random(lm_heap_t *heap);
#endif

/* ---- thread.c ---- */

/* Of threads that have ended but go on: they share one heap, and every call takes the slow path. */
extern lm_heap_t lm_heap_common;
lm_heap_t *lm_common_heap(void); /* the same, made if need be; no lock held */
void *lm_common_alloc(unsigned size_class);
void lm_common_trim(void); /* for the worker: takes in what came back, gives back what rests */

/* Heaps in use. With many of them, a page for each class that each thread touches adds up: the
 * first blocks of a class then come from the common heap, as its head, unless this heap has had its
 * share. For the owner, with the head empty and no current page. */
extern uint32_t lm_heaps_active, lm_heaps_many;
void lm_common_share(lm_heap_t *heap, unsigned size_class);

/* Heaps that are `kept` (atomic). */
extern uint32_t lm_heaps_kept;
/* Ends that: pages to the arena, or orphans. Heap lock held. */
void lm_heap_unkeep(lm_heap_t *heap);

/* What the calling thread's malloc allocates from, made if need be: its heap, or the branch that it
 * chose; NULL iff it has ended or there is no memory. */
lm_heap_t *lm_heap_get(void);

/* The calling thread's own heap; NULL iff it has none (yet, or any more). */
lm_heap_t *lm_heap_mine(void);

/* The first-class heap that its malloc uses; NULL: none. Whether any thread has ever had one
 * (atomic). */
struct loam_heap *lm_heap_chosen(void);
extern bool lm_heaps_chosen;

/* What lm_heap_get returns from now on: its own, or a branch of its own. It has a heap. */
void lm_heap_face(lm_heap_t *front);

/* Zeroed memory for ever; a heap in it. Registry's lock held. NULL iff there is no memory. */
void *lm_heap_room(size_t bytes);
lm_heap_t *lm_heap_create(void);

/* Empty pages go to the arena, the others become orphans; but for those on which a free is on its
 * way: they are nobody's, and follow when it has arrived. Heap lock held, in place of the owner. */
void lm_heap_part_with_all(lm_heap_t *heap);

/* A block of that class from a given heap; heap lock not held. */
void *lm_heap_refill(lm_heap_t *heap, unsigned size_class);

/* Takes in what others freed, on all pages: those too that the worker was told of while the owner
 * slept, and could not take. Heap lock held. */
void lm_heap_take_in(lm_heap_t *heap);

/* Puts the list in head[] back into its page; every list of blocks of other pages than the current
 * one, which would keep those from being empty. Heap lock held. */
void lm_heap_return_head(lm_heap_t *heap, unsigned size_class);
void lm_heap_return_handed_out(lm_heap_t *heap);

/* Makes the calling thread's next malloc take the slow path, as after parking. No lock needed. */
void lm_heap_hide_mine(void);

/* For unseen.c: ends the heap of a thread that is gone. Its token is the calling thread's, which
 * has no heap of its own. No lock held. */
void lm_heap_end_in_place_of(lm_heap_t *heap);

/* ---- unseen.c: threads whose end nobody reports ---- */

/* The calling thread is one of those. No lock held. */
void lm_unseen_add(lm_heap_t *heap);
/* Ends the heaps of some that are gone. For a thread without a heap; no lock held. */
void lm_unseen_end_some(void);
extern lm_heap_t *lm_unseen; /* atomic: the first of their heaps */
LM_INLINE void lm_unseen_end(void) {
    /* Relaxed: a heap that comes at this moment is looked at by the next thread. */
    if (LM_UNLIKELY(lm_load_relaxed(&lm_unseen) != NULL)) lm_unseen_end_some();
}
/* In the child of a fork: only the calling thread's heap, if it is one, is left. Registry's lock
 * held. */
void lm_unseen_after_fork(lm_heap_t *own_heap);

/* ---- clear.c ---- */

/* Makes [p, p + bytes) zero, which may be a part of a large object, and returns p. Memory of which
 * little is resident goes back to the system instead of being written to. */
void *lm_clear_large(void *p, size_t bytes);

/* ---- due.c: no lock held ---- */

/* Counts a slow path, for who has registered a deferred free or asked for heartbeats. */
void lm_beat(void);
LM_INLINE void lm_beat_if_asked(void) {
    if (LM_UNLIKELY(lm_load_relaxed(&lm_beating)))
        lm_beat(); /* relaxed: from the next one on will do */
}

/* lm_room_made, after what loam itself can do: as there. */
bool lm_room_found(size_t bytes, unsigned *tries);

/* ---- count.c ---- */

/* The rest of lm_heap_stats, whose pages and large objects are there. */
void lm_count_sum(lm_heap_stats_t *stats);

/* ---- idle.c ---- */

/* What the worker does once a tick: see lm_purge_collect_idle. */
bool lm_idle_collect(bool last);
/* The part of it that is done while the program has one thread (decision 0029). */
bool lm_idle_collect_alone(bool last);

/* The same for who is short of memory: from all threads at once, also those that have run a slow
 * path a moment ago. No lock held, and not by who is inside fork. */
void lm_idle_collect_now(void);

/* Returns a number that grows with each slow path of another thread, and with each new heap. No
 * lock held. */
size_t lm_idle_progress(void);

/* Around a walk: until then neither of the two that come before and after here takes pages from
 * anybody. */
void lm_idle_hold(void);
void lm_idle_let(void);
void lm_idle_after_fork(void);

/* Takes what the heaps of ended threads were left with for the next ones, or for frees on their
 * way. No lock held. */
void lm_idle_unkeep(void);

extern lm_lock_t lm_registry_lock;
extern lm_list_t lm_registry; /* every heap ever made */

#endif

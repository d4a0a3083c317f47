/* shared_blocks.c: blocks for many threads: a cache for each thread and instance.
 *
 *   loam_blocks_caches ──> │ place 0 │ place 1 │ ... │ place 63 │       one table per thread
 *                               │
 *                               v     per class: head (less than a batch), spare (a batch, or none)
 *                             cache ──> cache of another thread ──> ...  all caches of the instance
 *
 * A thread allocates from head and frees onto it. When head has become a whole batch, it turns into
 * the spare, and the former spare goes to the instance in one piece. When head is empty, the spare
 * becomes head again, or a batch of the instance does. So at most one batch is exchanged per batch
 * of calls, under one lock, and no list is walked.
 *
 * An instance has a place in all tables. Only 64 instances at a time have one; others take their
 * lock at each call. A thread that ends gives its caches back, and has none from then on: its later
 * calls take the lock. An instance that ends removes the caches of all threads from their tables,
 * so no thread can find a cache of an instance that is gone, whatever is at its address.
 *
 * In the child of a fork, the caches of threads that do not exist there stay as they are: their
 * blocks are lost.
 *
 * Locks: first the port's WALK (registry), then that of all tables, then the instance's. Invariant
 * of each list: each block's depth is one more than that of the block below it, the bottom's is 0,
 * and head's is less than a batch.
 */
#include "hosted/fork.h"

#include "family/family.h"
#include "loam/blocks.h"

enum { PLACES = 64 };

/* The table of threads without one. All entries stay NULL. */
static loam_blocks_cache *nowhere[PLACES];
__thread loam_blocks_cache **loam_blocks_caches LOAM_TLS = nowhere;
/* This thread has ended and gets no table any more. */
static LM_TLS bool shared_blocks_ended;

static lm_lock_t tables_lock;
static uint64_t places_taken;            /* bit i is set iff an instance has place i */
static loam_blocks *instances;           /* list of instances with a lock of this file */
static bool shared_blocks_fork_prepared; /* atomic */

LM_INLINE loam_blocks_list *shared_blocks_list_of(loam_blocks_cache *cache, unsigned class_index) {
    return (loam_blocks_list *)(cache + 1) + class_index;
}

/* ---- The lock ---- */

static void take_lock(void *context) {
    lm_lock_take((lm_lock_t *)(void *)&((loam_blocks *)context)->lock_word);
    lm_told_hold();
}
static void give_lock(void *context) {
    lm_lock_give((lm_lock_t *)(void *)&((loam_blocks *)context)->lock_word);
    lm_told_let();
}

/* ---- Fork: the child finds every list intact ---- */

static void shared_blocks_before_fork(void) {
    lm_port_before_fork(); /* its holder may be asking an instance for its usage */
    lm_lock_take(&tables_lock);
    for (loam_blocks *blocks = instances; blocks != NULL; blocks = blocks->next) take_lock(blocks);
}
static void locks_given(void) {
    for (loam_blocks *blocks = instances; blocks != NULL; blocks = blocks->next) give_lock(blocks);
    lm_lock_give(&tables_lock);
}
static void shared_blocks_after_fork_in_parent(void) {
    locks_given();
    lm_port_after_fork(false);
}
static void shared_blocks_after_fork_in_child(void) {
    locks_given();
    lm_port_after_fork(true);
}

/* ---- Instances ---- */

void lm_blocks_threads_begin(loam_blocks *blocks, bool wants_caches) {
    blocks->lock_word = 0;
    blocks->own_locks =
        (loam_blocks_locks){.get = take_lock, .release = give_lock, .context = blocks};
    blocks->locks = &blocks->own_locks;
    lm_hosted_on_fork(&shared_blocks_fork_prepared, shared_blocks_before_fork,
                      shared_blocks_after_fork_in_parent, shared_blocks_after_fork_in_child);
    LM_ASSERT(blocks->slot == UINT32_MAX && blocks->caches == NULL);
    lm_lock_take(&tables_lock);
    blocks->prev = NULL;
    blocks->next = instances;
    if (instances != NULL) instances->prev = blocks;
    instances = blocks;
    if (wants_caches && ~places_taken != 0) {
        blocks->slot = lm_lowest_bit(~places_taken);
        places_taken |= (uint64_t)1 << blocks->slot;
    }
    lm_lock_give(&tables_lock);
}

void lm_blocks_threads_end(loam_blocks *blocks) {
    lm_lock_take(&tables_lock);
    for (loam_blocks_cache *cache = blocks->caches, *next; cache != NULL; cache = next) {
        next = cache->next;
        *cache->place = NULL;
        lm_free(cache);
    }
    blocks->caches = NULL;
    LM_ASSERT(blocks->slot == UINT32_MAX || (places_taken >> blocks->slot & 1) != 0);
    if (blocks->slot != UINT32_MAX) places_taken &= ~((uint64_t)1 << blocks->slot);
    blocks->slot = UINT32_MAX;
    LM_ASSERT(blocks->prev != NULL ? blocks->prev->next == blocks : instances == blocks);
    if (blocks->prev != NULL) {
        blocks->prev->next = blocks->next;
    } else {
        instances = blocks->next;
    }
    if (blocks->next != NULL) blocks->next->prev = blocks->prev;
    lm_lock_give(&tables_lock);
}

/* ---- Caches ---- */

static loam_blocks_cached *bottom(void) { return (loam_blocks_cached *)(void *)lm_blocks_bottom; }

static void shared_blocks_empty(loam_blocks *blocks, loam_blocks_cache *cache) {
    LM_ASSERT(cache->blocks == blocks);
    LM_ASSERT(lm_lock_held((const lm_lock_t *)(const void *)&blocks->lock_word));
    for (unsigned i = 0; i < blocks->class_count; i++) {
        loam_blocks_list *list = shared_blocks_list_of(cache, i);
        if (list->spare != NULL) lm_blocks_give_batch(blocks, i, list->spare);
        lm_blocks_give_chain(blocks, i, list->head);
        list->spare = NULL;
        list->head = bottom();
    }
}

/* Gives the caches of the calling thread back, as a hook of lm_thread_on_exit. */
static bool shared_blocks_thread_ended(void *value, unsigned rounds) {
    (void)rounds;
    loam_blocks_cache **table = (loam_blocks_cache **)value;
    lm_lock_take(&tables_lock);
    for (unsigned i = 0; i < PLACES; i++) {
        loam_blocks_cache *cache = table[i];
        if (cache == NULL) continue;
        LM_ASSERT(cache->blocks->slot == i);
        take_lock(cache->blocks);
        shared_blocks_empty(cache->blocks, cache);
        LM_ASSERT(*cache->link == cache);
        *cache->link = cache->next;
        if (cache->next != NULL) cache->next->link = cache->link;
        give_lock(cache->blocks);
        lm_free(cache);
    }
    loam_blocks_caches = nowhere;
    shared_blocks_ended = true;
    lm_lock_give(&tables_lock);
    lm_free(table);
    return false;
}

static bool table_made(void) {
    if (loam_blocks_caches != nowhere) return true;
    if (shared_blocks_ended) return false;
    loam_blocks_cache **table = (loam_blocks_cache **)lm_calloc(PLACES * sizeof *table);
    if (table == NULL) return false;
    if (!lm_thread_on_exit(shared_blocks_thread_ended, table)) {
        lm_free(table);
        return false;
    }
    loam_blocks_caches = table;
    return true;
}

/* Returns the calling thread's cache, made if needed; NULL iff it cannot have one. */
static loam_blocks_cache *cache_of(loam_blocks *blocks) {
    LM_ASSERT(blocks->slot < PLACES);
    loam_blocks_cache *cache = loam_blocks_caches[blocks->slot];
    if (LM_LIKELY(cache != NULL) || !table_made()) return cache;
    cache = (loam_blocks_cache *)lm_calloc(sizeof *cache +
                                           blocks->class_count * sizeof(loam_blocks_list));
    if (cache == NULL) return NULL;
    cache->blocks = blocks;
    cache->place = &loam_blocks_caches[blocks->slot];
    for (unsigned i = 0; i < blocks->class_count; i++)
        *shared_blocks_list_of(cache, i) =
            (loam_blocks_list){.head = bottom(), .batch = lm_blocks_batch(blocks, i)};
    take_lock(blocks);
    cache->next = blocks->caches;
    cache->link = &blocks->caches;
    if (cache->next != NULL) cache->next->link = &cache->next;
    blocks->caches = cache;
    give_lock(blocks);
    *cache->place = cache;
    return cache;
}

/* ---- Slow paths ---- */

/* Turns a chain into a list and returns its first block. A whole batch still has the links and
 * depths with which it left a cache, except the depth of its first block, which is handed out at
 * once. Any other chain has plain links. */
static loam_blocks_cached *list_made(void *chain, uintptr_t count) {
    loam_blocks_cached *first = (loam_blocks_cached *)chain;
    if (count == 0) return first;
    for (loam_blocks_cached *block = first;; block = block->below) {
        block->depth = count--;
        if (block->below == NULL) {
            block->below = bottom();
            return first;
        }
    }
}

/* Allocates without a cache: the rest of the chain stays with the instance. */
static void *alloc_alone(loam_blocks *blocks, unsigned class_index) {
    uint32_t count;
    take_lock(blocks);
    void *block = lm_blocks_take_chain(blocks, class_index, &count);
    if (block != NULL)
        lm_blocks_give_chain(blocks, class_index, ((loam_blocks_cached *)block)->below);
    give_lock(blocks);
    return block;
}

void *lm_blocks_threads_alloc(loam_blocks *blocks, unsigned class_index) {
    loam_blocks_cache *cache = cache_of(blocks);
    if (cache == NULL) return alloc_alone(blocks, class_index);
    loam_blocks_list *list = shared_blocks_list_of(cache, class_index);
    loam_blocks_cached *block = list->head;
    if (block->below == NULL && (block = list->spare) != NULL) {
        list->spare = NULL;
    } else if (block == NULL) {
        uint32_t count;
        LM_METER(slow());
        take_lock(blocks);
        void *chain = lm_blocks_take_chain(blocks, class_index, &count);
        give_lock(blocks);
        if (chain == NULL) return NULL;
        block = list_made(chain, count);
    }
    list->head = block->below;
    return block;
}

void loam_blocks_batch_full(loam_blocks *blocks, loam_blocks_list *list) {
    if (list->spare != NULL) {
        unsigned class_index =
            (unsigned)(list - shared_blocks_list_of(loam_blocks_caches[blocks->slot], 0));
        LM_METER(slow());
        take_lock(blocks);
        lm_blocks_give_batch(blocks, class_index, list->spare);
        give_lock(blocks);
    }
    list->spare = list->head;
    list->head = bottom();
}

void lm_blocks_threads_free(loam_blocks *blocks, unsigned class_index, void *p) {
    loam_blocks_cached *block = (loam_blocks_cached *)p;
    loam_blocks_cache *cache = cache_of(blocks);
    if (cache != NULL) { /* as the inline free does */
        loam_blocks_list *list = shared_blocks_list_of(cache, class_index);
        block->below = list->head;
        block->depth = list->head->depth + 1;
        list->head = block;
        if (block->depth >= list->batch) loam_blocks_batch_full(blocks, list);
        return;
    }
    block->below = NULL;
    take_lock(blocks);
    lm_blocks_give_chain(blocks, class_index, block);
    give_lock(blocks);
}

void lm_blocks_threads_flush(loam_blocks *blocks) {
    loam_blocks_cache *cache = loam_blocks_caches[blocks->slot];
    if (cache == NULL) return;
    take_lock(blocks);
    shared_blocks_empty(blocks, cache);
    give_lock(blocks);
}

void lm_blocks_threads_forget(loam_blocks *blocks) {
    for (loam_blocks_cache *cache = blocks->caches; cache != NULL; cache = cache->next) {
        for (unsigned i = 0; i < blocks->class_count; i++) {
            shared_blocks_list_of(cache, i)->head = bottom();
            shared_blocks_list_of(cache, i)->spare = NULL;
        }
    }
}

size_t lm_blocks_threads_cached(const loam_blocks *blocks, unsigned class_index) {
    loam_blocks_cache *cache = loam_blocks_caches[blocks->slot];
    if (cache == NULL) return 0;
    const loam_blocks_list *list = shared_blocks_list_of(cache, class_index);
    return list->head->depth + (list->spare != NULL ? list->batch : 0);
}

/* shared_pool.c: the pool for many threads: a loam_pool under a lock, with magazines in front of it
 * (loam/pool.h).
 *
 *   thread-local   mine ──> table │ magazine of slot 0 │ of slot 1 │ ...
 *   directory      slots ──> pool of slot 0, pool of slot 1, ...   and a list of all tables
 *
 * A magazine is valid iff it has the serial number of the pool that asks. A magazine of a pool that
 * has ended means nothing; the next pool of its slot overwrites it. Only its thread writes a
 * magazine. Other threads read count and the fresh range, to find how many blocks are in use. Lock
 * order: directory, then a pool's lock, then those that its source takes.
 *
 * In the child of a fork, the blocks in the magazines of threads that do not exist there are lost:
 * a fork may have stopped these threads in the middle of a free.
 */
#include "hosted/fork.h"

#include "family/family.h"
#include "loam/pool.h"

#include <string.h>

enum { BATCH_BYTES = 16 * 1024, BATCH_LEAST = 4, BATCH_MOST = 64, FIRST_SLOTS = 8 };

typedef struct magazine {
    uint64_t serial; /* serial number of the pool; 0: never used */
    loam_pool_cut cut;
    void *batch;    /* a whole batch, or NULL */
    uint32_t count; /* blocks in cut.free */
    uint32_t batch_blocks;
} magazine_t;

typedef struct magazines {
    struct magazines *next, **link; /* links in the directory's list */
    unsigned slots;
    magazine_t of[];
} magazines_t;

static magazines_t none; /* table of a thread that has used no pool yet */
/* Table of a thread that has ended: it uses the pools under their locks. */
static magazines_t shared_pool_gone;
static LM_TLS magazines_t *shared_pool_mine = &none;

static lm_lock_t directory_lock;
static loam_shared_pool **slots;
static unsigned slots_count;
static uint64_t serials;
static magazines_t *shared_pool_tables;
static bool shared_pool_fork_prepared; /* atomic */

/* ---- Blocks in lists ---- */

LM_INLINE void *shared_pool_next_of(const void *block) { return *(const loam_pool_link *)block; }
LM_INLINE void next_set(void *block, void *next) { *(loam_pool_link *)block = next; }
/* Second word of a block: the next batch in the first block of a batch, the end of the range in the
 * first block of a range. */
LM_INLINE void *second_of(const void *block) { return ((const loam_pool_link *)block)[1]; }
LM_INLINE void second_set(void *block, void *value) { ((loam_pool_link *)block)[1] = value; }

static void pool_lock(loam_shared_pool *pool) {
    lm_lock_take((lm_lock_t *)&pool->lock);
    lm_told_hold();
}
static void pool_unlock(loam_shared_pool *pool) {
    lm_lock_give((lm_lock_t *)&pool->lock);
    lm_told_let();
}

/* ---- The pool's side; its lock is held ---- */

static void batch_put(loam_shared_pool *pool, void *batch) {
    LM_ASSERT(lm_lock_held((const lm_lock_t *)&pool->lock));
    second_set(batch, pool->batches);
    pool->batches = batch;
    pool->batches_count++;
}

static void range_put(loam_shared_pool *pool, char *fresh, char *end) {
    if (fresh == end) return;
    LM_ASSERT(lm_lock_held((const lm_lock_t *)&pool->lock));
    LM_ASSERT(fresh < end && (size_t)(end - fresh) % pool->pool.stride == 0);
    next_set(fresh, pool->ranges);
    second_set(fresh, end);
    pool->ranges = fresh;
    pool->ranges_blocks += (size_t)(end - fresh) / pool->pool.stride;
}

/* Refills a cut whose list is used up. Returns the number of blocks in the new list. */
static uint32_t shared_pool_refill(loam_shared_pool *pool, loam_pool_cut *cut) {
    LM_ASSERT(lm_lock_held((const lm_lock_t *)&pool->lock));
    LM_ASSERT(cut->free == NULL && cut->fresh == cut->end);
    loam_pool *inner = &pool->pool;
    if (pool->batches != NULL) {
        cut->free = pool->batches;
        pool->batches = second_of(cut->free);
        pool->batches_count--;
        return pool->batch;
    }
    if (pool->ranges != NULL && inner->hot.free == NULL) {
        cut->fresh = (char *)pool->ranges;
        cut->end = (char *)second_of(cut->fresh);
        pool->ranges = shared_pool_next_of(cut->fresh);
        pool->ranges_blocks -= (size_t)(cut->end - cut->fresh) / inner->stride;
        return 0;
    }
    void *first = loam_pool_alloc(inner);
    if (first == NULL) return 0;
    uint32_t count = 1;
    cut->free = first;
    next_set(first, NULL);
    for (; count < pool->batch && inner->hot.free != NULL; count++) {
        void *block = loam_pool_alloc(inner);
        next_set(block, cut->free);
        cut->free = block;
    }
    size_t left = (size_t)(inner->hot.end - inner->hot.fresh);
    size_t want = (pool->batch - count) * inner->stride;
    if (want > left) want = left;
    cut->fresh = inner->hot.fresh;
    cut->end = inner->hot.fresh += want;
    return count;
}

static void list_put(loam_shared_pool *pool, void *list) {
    for (void *next; list != NULL; list = next) {
        next = shared_pool_next_of(list);
        loam_pool_free(&pool->pool, list);
    }
}

/* Returns everything in the magazine to the pool. */
static void magazine_return(loam_shared_pool *pool, magazine_t *magazine) {
    LM_ASSERT(magazine->serial == pool->serial);
    if (magazine->batch != NULL) batch_put(pool, magazine->batch);
    list_put(pool, magazine->cut.free);
    range_put(pool, magazine->cut.fresh, magazine->cut.end);
    *magazine = (magazine_t){0};
}

/* ---- The directory ---- */

/* Returns the pool of a magazine, or NULL iff the pool is gone. */
static loam_shared_pool *pool_of(const magazines_t *table, unsigned slot) {
    LM_ASSERT(lm_lock_held(&directory_lock) && slot < table->slots);
    uint64_t serial = table->of[slot].serial;
    loam_shared_pool *pool = slot < slots_count ? slots[slot] : NULL;
    return pool != NULL && serial != 0 && pool->serial == serial ? pool : NULL;
}

static void table_unlink(magazines_t *table) {
    LM_ASSERT(lm_lock_held(&directory_lock) && *table->link == table);
    *table->link = table->next;
    if (table->next != NULL) table->next->link = table->link;
}

static void table_link(magazines_t *table) {
    LM_ASSERT(lm_lock_held(&directory_lock));
    table->next = shared_pool_tables;
    table->link = &shared_pool_tables;
    if (shared_pool_tables != NULL) shared_pool_tables->link = &table->next;
    shared_pool_tables = table;
}

static bool shared_pool_thread_ended(void *value, unsigned rounds) {
    (void)value, (void)rounds;
    magazines_t *table = shared_pool_mine;
    if (table == &none || table == &shared_pool_gone) return false;
    shared_pool_mine = &shared_pool_gone;
    lm_lock_take(&directory_lock);
    for (unsigned slot = 0; slot < table->slots; slot++) {
        loam_shared_pool *pool = pool_of(table, slot);
        if (pool == NULL) continue;
        pool_lock(pool);
        magazine_return(pool, &table->of[slot]);
        pool_unlock(pool);
    }
    table_unlink(table);
    lm_lock_give(&directory_lock);
    lm_block_give_back(table);
    return false;
}

/* Makes a table of this thread with room for the slot. Returns NULL iff there is no memory, or no
 * hook to return the table when the thread ends. */
static magazines_t *table_grow(unsigned slot) {
    magazines_t *old = shared_pool_mine;
    unsigned count = FIRST_SLOTS;
    if (old == &shared_pool_gone) return NULL;
    while (count <= slot) count *= 2;
    LM_ASSERT(old->slots < count);
    size_t bytes = sizeof(magazines_t) + count * sizeof(magazine_t);
    magazines_t *table = (magazines_t *)lm_block_alloc_lasting(bytes, 1);
    if (table == NULL) return NULL;
    if (!lm_thread_on_exit(shared_pool_thread_ended, table)) {
        lm_block_give_back(table);
        return NULL;
    }
    memset(table, 0, bytes);
    table->slots = count;
    lm_lock_take(&directory_lock);
    if (old != &none) {
        memcpy(table->of, old->of, old->slots * sizeof(magazine_t));
        table_unlink(old);
    }
    table_link(table);
    shared_pool_mine = table;
    lm_lock_give(&directory_lock);
    if (old != &none) lm_block_give_back(old);
    return table;
}

/* Returns this thread's magazine of the pool, made if needed; NULL iff there can be none. */
static magazine_t *magazine_get(loam_shared_pool *pool) {
    magazines_t *table = shared_pool_mine;
    if (pool->serial == UINT64_MAX) return NULL;
    if (pool->slot >= table->slots && (table = table_grow(pool->slot)) == NULL) return NULL;
    LM_ASSERT(pool->slot < table->slots);
    magazine_t *magazine = &table->of[pool->slot];
    if (magazine->serial == pool->serial) return magazine;
    lm_lock_take(&directory_lock); /* a thread that counts blocks must not see half of it */
    *magazine = (magazine_t){.serial = pool->serial, .batch_blocks = pool->batch};
    lm_lock_give(&directory_lock);
    return magazine;
}

/* ---- Alloc and free ---- */

/* Returns this thread's magazine of the pool, or NULL iff it has none yet. */
LM_INLINE magazine_t *magazine_find(const loam_shared_pool *pool) {
    magazines_t *table = shared_pool_mine;
    if (LM_UNLIKELY(pool->slot >= table->slots)) return NULL;
    magazine_t *magazine = &table->of[pool->slot];
    return LM_LIKELY(magazine->serial == pool->serial) ? magazine : NULL;
}

static LM_NOINLINE void *shared_pool_alloc_locked(loam_shared_pool *pool, const char *file,
                                                  unsigned line) {
    loam_pool_cut cut = {0};
    void *block;
    LM_METER(slow());
    pool_lock(pool);
    if (pool->serial == UINT64_MAX) {
        block = loam_pool_alloc_at(&pool->pool, file, line);
    } else {
        (void)shared_pool_refill(pool, &cut);
        block = cut.free;
        if (block != NULL) {
            list_put(pool, shared_pool_next_of(block));
        } else if (cut.fresh != cut.end) {
            block = cut.fresh;
            cut.fresh += pool->pool.stride;
        }
        range_put(pool, cut.fresh, cut.end);
    }
    pool_unlock(pool);
    return block;
}

static LM_NOINLINE void *alloc_more(loam_shared_pool *pool, const char *file, unsigned line) {
    magazine_t *magazine = magazine_get(pool);
    if (magazine == NULL) return shared_pool_alloc_locked(pool, file, line);
    loam_pool_cut cut = {0};
    LM_ASSERT(magazine->cut.free == NULL && magazine->cut.fresh == magazine->cut.end);
    uint32_t count = magazine->batch_blocks;
    LM_METER(slow());
    if (magazine->batch != NULL) {
        cut.free = magazine->batch;
        lm_store_relaxed(&magazine->batch, NULL);
    } else {
        pool_lock(pool);
        count = shared_pool_refill(pool, &cut);
        pool_unlock(pool);
    }
    magazine->cut.free = cut.free;
    lm_store_relaxed(&magazine->count, count);
    lm_store_relaxed(&magazine->cut.end, cut.end);
    lm_store_relaxed(&magazine->cut.fresh, cut.fresh);
    if (count == 0 && cut.fresh == cut.end) return NULL;
    return loam_shared_pool_alloc_at(pool, file, line);
}

/* Relaxed stores: loam_shared_pool_usage reads them as a guess. */
void *loam_shared_pool_alloc_at(loam_shared_pool *pool, const char *file, unsigned line) {
    magazine_t *magazine = magazine_find(pool);
    if (LM_UNLIKELY(magazine == NULL)) return alloc_more(pool, file, line);
    void *block = magazine->cut.free;
    if (LM_LIKELY(block != NULL)) {
        magazine->cut.free = shared_pool_next_of(block);
        lm_store_relaxed(&magazine->count, magazine->count - 1);
        return block;
    }
    char *fresh = magazine->cut.fresh;
    if (LM_UNLIKELY(fresh == magazine->cut.end)) return alloc_more(pool, file, line);
    lm_store_relaxed(&magazine->cut.fresh, fresh + pool->stride);
    return fresh;
}

static LM_NOINLINE void free_more(loam_shared_pool *pool, void *block, const char *file,
                                  unsigned line) {
    if (block == NULL) return;
    magazine_t *magazine = magazine_get(pool);
    if (magazine == NULL) {
        pool_lock(pool);
        loam_pool_free_at(&pool->pool, block, file, line);
        pool_unlock(pool);
        return;
    }
    if (magazine->count == magazine->batch_blocks) { /* the list is a whole batch now */
        if (magazine->batch != NULL) {
            pool_lock(pool);
            batch_put(pool, magazine->batch);
            pool_unlock(pool);
        }
        lm_store_relaxed(&magazine->batch, magazine->cut.free);
        magazine->cut.free = NULL;
        lm_store_relaxed(&magazine->count, 0);
    }
    next_set(block, magazine->cut.free);
    magazine->cut.free = block;
    lm_store_relaxed(&magazine->count, magazine->count + 1);
}

void loam_shared_pool_free_at(loam_shared_pool *pool, void *block, const char *file,
                              unsigned line) {
    magazine_t *magazine = magazine_find(pool);
    if (LM_UNLIKELY(magazine == NULL || block == NULL ||
                    magazine->count == magazine->batch_blocks)) {
        free_more(pool, block, file, line);
        return;
    }
    next_set(block, magazine->cut.free);
    magazine->cut.free = block;
    lm_store_relaxed(&magazine->count, magazine->count + 1);
}

/* ---- Fork ---- */

static void shared_pool_before_fork(void) {
    lm_port_before_fork(); /* its holder may be inspecting a pool */
    lm_lock_take(&directory_lock);
    for (unsigned i = 0; i < slots_count; i++) {
        if (slots[i] != NULL) pool_lock(slots[i]);
    }
}

static void shared_pool_after_fork(bool child) {
    for (unsigned i = 0; i < slots_count; i++) {
        if (slots[i] != NULL) pool_unlock(slots[i]);
    }
    lm_lock_give(&directory_lock);
    lm_port_after_fork(child);
}

static void shared_pool_after_fork_in_parent(void) { shared_pool_after_fork(false); }
static void shared_pool_after_fork_in_child(void) {
    shared_pool_tables = NULL;
    if (shared_pool_mine != &none && shared_pool_mine != &shared_pool_gone)
        table_link(shared_pool_mine);
    shared_pool_after_fork(true);
}

/* ---- Setting up ---- */

/* Gives the pool a slot and a serial number. Returns false iff there is no memory. */
static bool slot_take(loam_shared_pool *pool, bool has_magazines) {
    unsigned slot = 0;
    lm_hosted_on_fork(&shared_pool_fork_prepared, shared_pool_before_fork,
                      shared_pool_after_fork_in_parent, shared_pool_after_fork_in_child);
    lm_lock_take(&directory_lock);
    while (slot < slots_count && slots[slot] != NULL) slot++;
    if (slot == slots_count) {
        unsigned count = slot == 0 ? FIRST_SLOTS : 2 * slot;
        loam_shared_pool **more =
            (loam_shared_pool **)lm_block_alloc_lasting(count * sizeof(loam_shared_pool *), 1);
        if (more == NULL) {
            lm_lock_give(&directory_lock);
            return false;
        }
        memset(more, 0, count * sizeof(loam_shared_pool *));
        if (slot != 0) {
            memcpy(more, slots, slot * sizeof(loam_shared_pool *));
            lm_block_give_back(slots);
        }
        slots = more;
        slots_count = count;
    }
    slots[slot] = pool;
    pool->slot = slot;
    pool->serial = has_magazines ? ++serials : UINT64_MAX;
    lm_lock_give(&directory_lock);
    return true;
}

/* Another pool may have the slot, if the program ends this pool a second time. */
static void slot_give(const loam_shared_pool *pool) {
    lm_lock_take(&directory_lock);
    LM_ASSERT(pool->slot < slots_count);
    if (slots[pool->slot] == pool) slots[pool->slot] = NULL;
    lm_lock_give(&directory_lock);
}

int loam_shared_pool_init_as(loam_shared_pool *pool, loam_source *source, size_t block_bytes,
                             const loam_pool_options *options, unsigned extra) {
    loam_pool_options inner = options != NULL ? *options : (loam_pool_options){0};
    const char *name = inner.name;
    inner.flags &= ~(unsigned)LOAM_THREADS;
    inner.name = NULL;
    if ((inner.flags & (LOAM_POOL_HANDLES | LOAM_POOL_NARROW)) != 0) return LM_EINVAL;
    /* A block has two words, for lists of lists. */
    if (inner.align < 2 * sizeof(void *) && block_bytes < 2 * sizeof(void *))
        inner.align = 2 * sizeof(void *);
    *pool = (loam_shared_pool){0};
    int error = loam_pool_init_as(&pool->pool, source, block_bytes, &inner, extra);
    if (error != 0) return error;
    LM_ASSERT(pool->pool.stride >= 2 * sizeof(void *));
    size_t batch = BATCH_BYTES / pool->pool.stride;
    pool->stride = pool->pool.stride;
    pool->batch = (unsigned)(batch < BATCH_LEAST  ? BATCH_LEAST
                             : batch > BATCH_MOST ? BATCH_MOST
                                                  : batch);
    if (!slot_take(pool, pool->pool.mode == 0)) {
        loam_pool_deinit(&pool->pool);
        return LM_ENOMEM;
    }
    /* Registers the entry anew as that of a shared pool. */
    lm_entry_deinit(&pool->pool.entry);
    lm_entry_init(&pool->pool.entry, &lm_shared_pool_kind, name,
                  lm_is_checked(inner.flags | extra));
    LM_METER(began(&pool->pool.entry, pool->pool.held_bytes, pool->pool.requests));
    return 0;
}

void loam_shared_pool_deinit(loam_shared_pool *pool) {
    slot_give(pool);
    loam_pool_deinit(&pool->pool);
}

/* ---- The pool as a whole ---- */

static loam_shared_pool *shared_of(const loam_entry *entry) {
    return (loam_shared_pool *)((uintptr_t)entry - offsetof(loam_shared_pool, pool.entry));
}

/* Returns the free blocks in a magazine. Its thread may be changing it: each word read is a value
 * that it had, and the sum is at most what a magazine holds. */
static size_t in_magazine(const magazine_t *magazine, size_t stride) {
    uintptr_t fresh = (uintptr_t)lm_load_relaxed(&magazine->cut.fresh);
    uintptr_t end = (uintptr_t)lm_load_relaxed(&magazine->cut.end);
    size_t blocks = lm_load_relaxed(&magazine->count), cut = (end - fresh) / stride;
    if (lm_load_relaxed(&magazine->batch) != NULL) blocks += magazine->batch_blocks;
    return cut <= magazine->batch_blocks ? blocks + cut : blocks;
}

static void shared_usage(const loam_entry *entry, loam_usage *usage) {
    loam_shared_pool *pool = shared_of(entry);
    lm_lock_take(&directory_lock);
    pool_lock(pool);
    loam_pool_usage(&pool->pool, usage);
    size_t free = pool->batches_count * pool->batch + pool->ranges_blocks;
    for (const magazines_t *table = shared_pool_tables; table != NULL; table = table->next) {
        if (pool->slot < table->slots && table->of[pool->slot].serial == pool->serial)
            free += in_magazine(&table->of[pool->slot], pool->pool.stride);
    }
    pool_unlock(pool);
    lm_lock_give(&directory_lock);
    usage->objects -= free < usage->objects ? free : usage->objects;
    usage->used_bytes = usage->objects * pool->pool.stride;
}

void loam_shared_pool_usage(loam_shared_pool *pool, loam_usage *usage) {
    *usage = (loam_usage){0};
    shared_usage(&pool->pool.entry, usage);
}

static bool list_is_whole(const loam_shared_pool *pool, const void *list, size_t count) {
    size_t seen = 0;
    for (; list != NULL && seen <= count; list = shared_pool_next_of(list), seen++) {
        if (!loam_pool_owns(&pool->pool, list)) break;
    }
    if (list == NULL && seen == count) return true;
    lm_family_misuse(&pool->pool.entry, NULL, 0, "free list damaged: %p", list);
    return false;
}

static bool shared_check(const loam_entry *entry) {
    loam_shared_pool *pool = shared_of(entry);
    pool_lock(pool);
    bool good = loam_pool_check(&pool->pool);
    size_t batches = 0;
    for (const void *batch = pool->batches; good && batch != NULL && batches < pool->batches_count;
         batch = second_of(batch), batches++)
        good = list_is_whole(pool, batch, pool->batch);
    pool_unlock(pool);
    return good;
}

bool loam_shared_pool_check(loam_shared_pool *pool) { return shared_check(&pool->pool.entry); }

bool loam_shared_pool_owns(loam_shared_pool *pool, const void *p) {
    pool_lock(pool);
    bool owns = loam_pool_owns(&pool->pool, p);
    pool_unlock(pool);
    return owns;
}

size_t loam_shared_pool_trim(loam_shared_pool *pool) {
    magazine_t *magazine = magazine_find(pool);
    lm_lock_take(&directory_lock); /* a thread that counts blocks must not see half of it */
    pool_lock(pool);
    if (magazine != NULL) {
        magazine_return(pool, magazine);
        magazine->serial = pool->serial;
        magazine->batch_blocks = pool->batch;
    }
    for (void *batch = pool->batches, *next; batch != NULL; batch = next) {
        next = second_of(batch);
        list_put(pool, batch);
    }
    pool->batches = NULL;
    pool->batches_count = 0;
    for (char *range = (char *)pool->ranges, *next; range != NULL; range = next) {
        char *end = (char *)second_of(range);
        next = (char *)shared_pool_next_of(range);
        for (; range != end; range += pool->pool.stride) loam_pool_free(&pool->pool, range);
    }
    pool->ranges = NULL;
    pool->ranges_blocks = 0;
    size_t bytes = loam_pool_trim(&pool->pool);
    pool_unlock(pool);
    lm_lock_give(&directory_lock);
    return bytes;
}

static void shared_hold(const loam_entry *entry, bool held) {
    loam_shared_pool *pool = shared_of(entry);
    held ? pool_lock(pool) : pool_unlock(pool);
}

const loam_kind lm_shared_pool_kind = {
    .name = "pool", .usage = shared_usage, .check = shared_check, .hold = shared_hold};

/* class_pool.c: the pools of pooled classes: one per class, whichever module asks
 * (loam/class_pool.h).
 *
 *   first ──> class pool ──> class pool ──> NULL       newest first; a pool never leaves the list
 *
 * Pools are in memory of the library, with a copy of the name, so unloading a module leaves them
 * intact. They cannot be removed. A thread that holds the list's lock takes no other lock.
 *
 * Invariant: no two pools of the list have the same key; checked by
 * tests/family/class_pool_test.cc.
 */
#include "loam/class_pool.h"
#include "family/family.h"
#include "hosted/fork.h"

typedef struct class_pool {
    struct class_pool *next; /* written before the pool is in the list */
    loam_class_pool_key key; /* its name is the copy below */
    loam_shared_pool pool;
    char name[];
} class_pool_t;

static lm_lock_t list_lock;
static class_pool_t *class_pool_first; /* atomic; written under list_lock */
static bool class_pool_fork_prepared;  /* atomic */

static void class_pool_before_fork(void) { lm_lock_take(&list_lock); }
static void class_pool_after_fork(void) { lm_lock_give(&list_lock); }

/* Compares without memcmp: ThreadSanitizer intercepts a program's memcmp and sees its reads, but
 * not the list's lock. */
static bool class_pool_is_same(const char *name, const char *other, size_t bytes) {
    size_t i = 0;
    while (i < bytes && name[i] == other[i]) i++;
    return i == bytes;
}

static bool is_for(const class_pool_t *each, const loam_class_pool_key *key) {
    const loam_class_pool_key *had = &each->key;
    return had->name_bytes == key->name_bytes && had->block_bytes == key->block_bytes &&
           had->align == key->align && had->most_blocks == key->most_blocks &&
           had->module == key->module && class_pool_is_same(had->name, key->name, key->name_bytes);
}

static class_pool_t *class_pool_make(const loam_class_pool_key *key) {
    size_t bytes = sizeof(class_pool_t) + key->name_bytes + 1;
    class_pool_t *made = (class_pool_t *)lm_block_alloc_lasting(bytes, 16);
    if (made == NULL) return NULL;
    memset(made, 0, bytes);
    made->key = *key;
    made->key.name = lm_copy_text(made->name, key->name, key->name_bytes);
    loam_pool_options options = {.align = key->align,
                                 .most_blocks = key->most_blocks,
                                 .flags = key->flags,
                                 .name = made->name};
    if (loam_shared_pool_init_as(&made->pool, loam_pages(), key->block_bytes, &options, 0) == 0)
        return made;
    lm_block_give_back(made);
    return NULL;
}

static class_pool_t *find_locked(const loam_class_pool_key *key) {
    LM_ASSERT(lm_lock_held(&list_lock));
    class_pool_t *each = class_pool_first;
    while (each != NULL && !is_for(each, key)) each = each->next;
    return each;
}

loam_shared_pool *loam_class_pool_find(const loam_class_pool_key *key) {
    lm_lock_take(&list_lock);
    class_pool_t *found = find_locked(key);
    lm_lock_give(&list_lock);
    if (found != NULL) return &found->pool;
    /* Without the lock, because the pool registers fork handlers, which must run inside those of
     * this file. */
    class_pool_t *made = class_pool_make(key);
    if (made == NULL) return NULL;
    lm_hosted_on_fork(&class_pool_fork_prepared, class_pool_before_fork, class_pool_after_fork,
                      class_pool_after_fork);
    lm_lock_take(&list_lock);
    found = find_locked(key);
    if (found == NULL) {
        made->next = class_pool_first;
        lm_store_release(&class_pool_first, made);
    }
    lm_lock_give(&list_lock);
    if (found == NULL) return &made->pool;
    loam_shared_pool_deinit(&made->pool);
    lm_block_give_back(made);
    return &found->pool;
}

size_t loam_class_pools_trim(void) {
    size_t bytes = 0;
    for (class_pool_t *each = lm_load_acquire(&class_pool_first); each != NULL; each = each->next)
        bytes += loam_shared_pool_trim(&each->pool);
    return bytes;
}

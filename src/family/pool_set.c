/* pool_set.c: a set of pools, which serves a request with the smallest block that fits it
 * (loam/pool.h).
 *
 *   from the fallback   │ bytes got │ mark │ object    16 bytes in front on a 64-bit machine
 *            checked    │ tag │ object │ guard         as in a checked pool
 *
 * The address of an object tells where it came from, so objects of pools have no header. The mark
 * is mixed with the address, to tell a foreign pointer from an object of the fallback.
 */
/* The calls below are made on behalf of the program, so they are metered. */
#undef LOAM_METER_HOOKS
#define LOAM_METER_HOOKS 1
#include "family/pool.h"

typedef struct fallback_head {
    LM_ALIGNED(16) size_t got;
    size_t mark;
} fallback_head_t;

static size_t mark_of(const loam_pool_set *set, const fallback_head_t *head) {
    return (size_t)(uintptr_t)head ^ (size_t)(uintptr_t)set ^ (size_t)0x10A3F411;
}

/* ---- For the registry ---- */

static const loam_pool_set *set_of(const loam_entry *entry) {
    return LM_CONTAINER(entry, loam_pool_set, entry);
}

static void set_usage(const loam_entry *entry, loam_usage *usage) {
    const loam_pool_set *set = set_of(entry);
    usage->held_bytes = usage->used_bytes = usage->peak_bytes = set->fallback_bytes;
    usage->chunks = usage->requests = usage->objects = set->fallback_objects;
}

static bool set_check(const loam_entry *entry) { return lm_guard_check(entry); }

static const loam_kind set_kind = {.name = "pool set", .usage = set_usage, .check = set_check};

/* Returns whether the set has ended, after a report. */
static bool over(const loam_pool_set *set, const char *doing, const char *file, unsigned line) {
    return LM_UNLIKELY(set->ended) && lm_entry_ended(&set->entry, doing, file, line);
}

/* ---- Initialisation ---- */

int loam_pool_set_init_as(loam_pool_set *set, loam_pool *pools, const size_t *block_bytes,
                          size_t count, loam_source *source, const loam_pool_options *options,
                          unsigned tolerance, loam_source *fallback, unsigned extra) {
    if (count == 0 || fallback == NULL) return LM_EINVAL;
    for (size_t i = 1; i < count; i++) {
        if (block_bytes[i] <= block_bytes[i - 1]) return LM_EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        int error = loam_pool_init_as(&pools[i], source, block_bytes[i], options, extra);
        if (error == 0) continue;
        while (i > 0) loam_pool_deinit(&pools[--i]);
        return error;
    }
    *set = (loam_pool_set){
        .pools = pools, .count = count, .tolerance = tolerance, .fallback = fallback};
    unsigned flags = (options != NULL ? options->flags : 0) | extra;
    set->checked = lm_is_checked(flags);
    set->leaks = (flags & LOAM_CHECK) != 0;
    if (set->checked)
        lm_entry_init(&set->entry, &set_kind, options != NULL ? options->name : NULL, true);
    else
        set->entry =
            (loam_entry){.kind = &set_kind, .name = options != NULL ? options->name : NULL};
    return 0;
}

void loam_pool_set_deinit(loam_pool_set *set) {
    if (over(set, "deinit", NULL, 0)) return;
    if (set->checked) {
        (void)lm_guard_check(&set->entry);
        if (set->leaks) (void)lm_guard_leaks(&set->entry, LM_LEAKS_MOST);
        lm_entry_deinit(&set->entry);
        set->entry.name = NULL;
        set->ended = true;
    }
    for (size_t i = set->count; i > 0; i--) loam_pool_deinit(&set->pools[i - 1]);
}

static void *fallback_get_checked(loam_pool_set *set, size_t bytes, const char *file,
                                  unsigned line) {
    size_t whole = lm_guard_whole(bytes, 16), got;
    void *raw = whole != 0 ? loam_source_get(set->fallback, whole, 16, &got) : NULL;
    if (raw == NULL) return NULL;
    set->fallback_objects++;
    set->fallback_bytes += got;
    return lm_guard_open(&set->entry, raw, got, bytes, 16, file, line);
}

static void *fallback_get(loam_pool_set *set, size_t bytes, const char *file, unsigned line) {
    size_t got;
    if (set->checked) return fallback_get_checked(set, bytes, file, line);
    if (bytes > PTRDIFF_MAX - sizeof(fallback_head_t)) return NULL;
    fallback_head_t *head = (fallback_head_t *)loam_source_get(
        set->fallback, bytes + sizeof(fallback_head_t), 16, &got);
    if (head == NULL) return NULL;
    *head = (fallback_head_t){.got = got, .mark = mark_of(set, head)};
    set->fallback_objects++;
    set->fallback_bytes += got;
    return head + 1;
}

/* Returns whether a block is not too large for the request. */
static bool is_within(const loam_pool_set *set, const loam_pool *pool, size_t bytes) {
    size_t over = pool->block_bytes - bytes, most;
    LM_ASSERT(pool->block_bytes >= bytes);
    return !lm_mul(bytes, set->tolerance, &most) || over <= most / 100;
}

void *loam_pool_set_alloc_at(loam_pool_set *set, size_t bytes, const char *file, unsigned line) {
    if (over(set, "allocation", file, line)) return NULL;
    if (bytes == 0) bytes = 1;
    for (size_t i = 0; i < set->count; i++) {
        loam_pool *pool = &set->pools[i];
        if (pool->block_bytes < bytes) continue;
        if (!is_within(set, pool, bytes)) break;
        void *p = loam_pool_alloc_at(pool, file, line);
        if (p != NULL) return p;
    }
    return fallback_get(set, bytes, file, line);
}

loam_pool *loam_pool_set_owner(const loam_pool_set *set, const void *p) {
    for (size_t i = 0; i < set->count; i++) {
        if (loam_pool_owns(&set->pools[i], p)) return &set->pools[i];
    }
    return NULL;
}

void loam_pool_set_free_at(loam_pool_set *set, void *p, const char *file, unsigned line) {
    if (p == NULL || over(set, "free", file, line)) return;
    loam_pool *pool = loam_pool_set_owner(set, p);
    if (pool != NULL) {
        loam_pool_free_at(pool, p, file, line);
        return;
    }
    if (set->checked) {
        loam_tag *tag = lm_guard_find(&set->entry, p, "free", file, line);
        if (tag == NULL) return;
        size_t got = tag->raw_bytes;
        void *raw = lm_guard_close(&set->entry, tag, file, line);
        LM_ASSERT(set->fallback_objects > 0 && set->fallback_bytes >= got);
        set->fallback_objects--;
        set->fallback_bytes -= got;
        lm_tool_show_undefined(raw, got);
        loam_source_put(set->fallback, raw, got);
        return;
    }
    fallback_head_t *head = (fallback_head_t *)p - 1;
    if ((uintptr_t)p % 16 != 0 || head->mark != mark_of(set, head)) {
        lm_family_misuse(&set->entry, file, line, "free of %p, which is no object of it", p);
        return;
    }
    head->mark = 0;
    set->fallback_objects--;
    set->fallback_bytes -= head->got;
    loam_source_put(set->fallback, head, head->got);
}

/* blocks.c: the calls of loam/blocks.h that are not inline, and the conditions in which the inline
 * paths fail.
 *
 *   kind of instance                  alloc, free
 *   one thread                        inline; here if a list is empty, or the object is large
 *   caches (LOAM_THREADS)             inline, by the thread's cache; hosted/ if that fails
 *   locked (other LOAM_THREADS)       here, under the lock
 *   checked, watched, counted         here: guards (guard.c) or live bits, redzones, counts
 *   recorded                          alloc here
 *   fixed                             free here: a table finds the owner, not a mask
 */
#include "family/blocks_internal.h"

LM_STATIC_ASSERT(offsetof(loam_blocks, slot) + sizeof(void *) <= 64,
                 "what the inline paths read is in one cache line");

/* ---- Initialisation and end ---- */

/* Counts the classes after merging, and finds the largest. Returns false iff they are invalid. */
static bool classes_valid(const loam_blocks_options *options, unsigned *count, uint32_t *largest) {
    if (options->classes != NULL) {
        if (options->class_count == 0 || options->class_count > LOAM_BLOCKS_CLASSES) return false;
        for (unsigned i = 0; i < options->class_count; i++) {
            uint32_t bytes = options->classes[i];
            if (bytes == 0 || bytes > LOAM_BLOCKS_LARGEST) return false;
            if (i > 0 && bytes <= options->classes[i - 1]) return false;
        }
    }
    size_t most;
    *count = 0;
    for (unsigned at = 0; lm_blocks_next_class(options, &at, largest, &most); ++*count) {
        if (options->max_blocks != NULL && most == 0) return false;
    }
    LM_ASSERT(*count != 0 && *count <= LOAM_BLOCKS_CLASSES);
    return true;
}

static bool options_valid(const loam_blocks_options *options, unsigned flags) {
    bool fixed = options->memory != NULL || (flags & LOAM_FIXED) != 0;
    if ((flags & ~(unsigned)(LOAM_CHECK | LOAM_THREADS | LOAM_FIXED)) != 0) return false;
    if (options->memory != NULL && options->source != NULL) return false;
    if (!fixed) return options->max_blocks == NULL && options->blocks_each == 0;
    /* Without memory of the caller, the number of blocks must be given: there is no memory to
     * fill. */
    return options->memory != NULL || options->max_blocks != NULL || options->blocks_each != 0;
}

void lm_blocks_set_paths(loam_blocks *blocks) {
    bool cached = blocks->slot != UINT32_MAX;
    bool slow =
        blocks->checked || blocks->watched || blocks->counted || (blocks->locks != NULL && !cached);
    bool alloc_slow = slow || blocks->histogram != NULL;
    size_t below = alloc_slow ? 0 : blocks->largest_bytes + 1;
    uint32_t edge = slow || blocks->fixed ? EDGE_NEVER : LOAM_BLOCKS_HEADER;
    blocks->plain_fixed = blocks->fixed && !slow;
    blocks->inline_below = cached ? 0 : below;
    blocks->cached_below = cached ? below : 0;
    blocks->inline_edge = cached ? EDGE_NEVER : edge;
    blocks->cached_edge = cached ? edge : EDGE_NEVER;
}

static int set_memory(loam_blocks *blocks, const loam_blocks_options *options) {
    char *memory = (char *)options->memory;
    size_t bytes = options->memory_bytes;
    if (memory == NULL) {
        bytes = blocks->fixed ? lm_blocks_fixed_bytes(options, blocks->checked, blocks->checked)
                              : lm_blocks_table_bytes(blocks->class_count, blocks->largest_bytes);
        if (bytes == 0) return LM_ENOMEM; /* more than there are addresses */
        blocks->tables = lm_blocks_get(blocks, bytes, 64, &blocks->tables_got);
        if (blocks->tables == NULL) return LM_ENOMEM;
        memory = (char *)blocks->tables;
    }
    if (blocks->fixed) {
        bool fits = lm_blocks_set_fixed(blocks, options, memory, bytes);
        LM_ASSERT(fits || options->memory != NULL); /* it was made to measure */
        return fits ? 0 : LM_ENOMEM;
    }
    lm_blocks_set_tables(blocks, options, memory);
    /* An instance that can never get a slab is useless. */
    size_t slab = LOAM_BLOCKS_SLAB_BYTES;
    return lm_source_may(blocks->source, slab, slab) ? 0 : LM_ENOMEM;
}

static int set_threads(loam_blocks *blocks, const loam_blocks_options *options) {
    if (options->locks != NULL) {
        blocks->locks = options->locks;
        if (blocks->locks->init != NULL) blocks->locks->init(blocks->locks->context);
        return 0;
    }
#if LM_HOSTED
    lm_blocks_threads_begin(
        blocks, !(blocks->checked || blocks->watched || blocks->counted || blocks->fixed));
    return 0;
#else
    return LM_EINVAL;
#endif
}

int loam_blocks_init_flags(loam_blocks *blocks, const loam_blocks_options *options,
                           unsigned more_flags) {
    static const loam_blocks_options none;
    if (options == NULL) options = &none;
    unsigned flags = options->flags | more_flags;
    uint32_t largest = 0;
    unsigned count;
    if (!options_valid(options, flags) || !classes_valid(options, &count, &largest))
        return LM_EINVAL;
    *blocks = (loam_blocks){
        .slot = UINT32_MAX,
        .class_count = count,
        .sized_count = count,
        .largest_bytes = largest,
        .source = options->source != NULL ? options->source : lm_default_source(),
        .checked = lm_is_checked(flags),
        .counted = options->counted,
        .fixed = options->memory != NULL || (flags & LOAM_FIXED) != 0,
        .leaks = (flags & LOAM_CHECK) != 0,
    };
    if (options->memory != NULL) blocks->source = NULL;
    if (!blocks->fixed) blocks->class_count += ALIGNED_CLASSES;
    if (options->memory == NULL && blocks->source == NULL) return LM_EINVAL;
    /* Guards tell a tool more than hiding does. A checked fixed instance does not use guard.c. */
    blocks->watched = lm_tool_watches() && (!blocks->checked || blocks->fixed);
    int result = set_memory(blocks, options);
    if (result == 0 && (flags & LOAM_THREADS) != 0) result = set_threads(blocks, options);
    if (result != 0) {
        if (blocks->tables != NULL) lm_blocks_put(blocks, blocks->tables, blocks->tables_got);
        return result;
    }
    lm_blocks_set_paths(blocks);
    lm_entry_init(&blocks->entry, &lm_blocks_kind, options->name, blocks->checked);
    LM_METER(began(&blocks->entry, blocks->held_bytes, blocks->requests));
    return 0;
}

void loam_blocks_deinit(loam_blocks *blocks) {
    if (blocks_over(blocks, "deinit", NULL, 0)) return;
    if (blocks->checked) (void)lm_blocks_check_objects(blocks);
    (void)lm_blocks_large_drop(blocks);
    if (blocks->leaks) (void)lm_guard_leaks(&blocks->entry, LM_LEAKS_MOST);
    lm_entry_deinit(&blocks->entry);
#if LM_HOSTED
    if (blocks->locks == &blocks->own_locks) lm_blocks_threads_end(blocks);
#endif
    lm_guard_drop_all(&blocks->entry);
    if (blocks->locks != NULL && blocks->locks->destroy != NULL)
        blocks->locks->destroy(blocks->locks->context);
    if (blocks->fixed && blocks->watched)
        lm_tool_show_undefined(blocks->base, (size_t)(blocks->end - blocks->base));
    if (!blocks->fixed) lm_blocks_put_all(blocks);
    if (blocks->tables != NULL) lm_blocks_put(blocks, blocks->tables, blocks->tables_got);
    LM_ASSERT(blocks->chunks == 0 && blocks->held_bytes == 0);
    loam_entry entry = blocks->entry;
    bool checked = blocks->checked;
    *blocks = (loam_blocks){.inline_edge = EDGE_NEVER,
                            .cached_edge = EDGE_NEVER,
                            .slot = UINT32_MAX,
                            .ended = true,
                            .entry = {.kind = &lm_blocks_kind}};
    if (!checked) return;
    blocks->entry = entry;
    /* The name is copied into words that the instance no longer needs. */
    lm_entry_bury(&blocks->entry, (char *)&blocks->held_bytes, 3 * sizeof(size_t));
}

size_t loam_blocks_pool_bytes(const loam_blocks_options *options) {
    uint32_t largest;
    unsigned count;
    if (!classes_valid(options, &count, &largest)) return 0;
    /* A file that is compiled with LOAM_CHECKED may set the instance up, so live bits count. */
    bool guards = lm_is_checked(options->flags) || LOAM_CHECKED;
    size_t bytes = lm_blocks_fixed_bytes(options, true, guards);
    return bytes != 0 ? bytes + 15 : 0;
}

/* ---- Allocation; the lock is held ---- */

/* Returns the first class whose blocks are large enough and aligned, or class_count iff there is
 * none. */
static unsigned blocks_class_for(const loam_blocks *blocks, size_t bytes, size_t align) {
    unsigned i = blocks->sized_count, end = blocks->class_count;
    LM_ASSERT(lm_is_pow2(align));
    if (align <= LOAM_BLOCKS_FIRST || blocks->fixed) {
        if (bytes > blocks->largest_bytes) return end;
        i = lm_blocks_class_of(blocks, bytes);
    }
    while (i < end && (blocks->classes[i].align < align || blocks->classes[i].block_bytes < bytes))
        i++;
    return i;
}

static void *take_sized(loam_blocks *blocks, size_t bytes, size_t align) {
    if (bytes <= blocks->largest_bytes) bytes += blocks->guard_bytes;
    unsigned i = blocks_class_for(blocks, bytes, align);
    if (i < blocks->class_count) {
        loam_blocks_class *class = &blocks->classes[i];
        void *block = lm_blocks_take(blocks, class);
        if (blocks->counted && block != NULL) class->allocations++;
        return block;
    }
    return blocks->fixed ? NULL : lm_blocks_large_take(blocks, bytes, align);
}

static size_t raw_bytes_of(const loam_blocks *blocks, const void *raw) {
    const loam_blocks_slab *slab = slab_of(raw);
    if (is_large(raw)) return (size_t)((const char *)slab + slab->got - (const char *)raw);
    LM_ASSERT(slab->class_index < blocks->class_count);
    return blocks->classes[slab->class_index].block_bytes;
}

static void *blocks_alloc_locked(loam_blocks *blocks, size_t bytes, size_t align, const char *file,
                                 unsigned line) {
    if (LM_LIKELY(!blocks->checked && !blocks->watched)) return take_sized(blocks, bytes, align);
    if (bytes > (size_t)PTRDIFF_MAX - 2 * LOAM_BLOCKS_SLAB_BYTES) return NULL;
    if (blocks->fixed) {
        void *block = take_sized(blocks, bytes, align);
        if (block == NULL) return NULL;
        LM_ASSERT(fixed_at(blocks, block) != UINT32_MAX);
        loam_blocks_class *class = &blocks->classes[fixed_at(blocks, block)];
        lm_tool_take(block, class->block_bytes);
        if (blocks->checked)
            bytes = bytes < usable_of(blocks, class) ? bytes : usable_of(blocks, class);
        lm_blocks_fixed_taken(blocks, class, block, bytes);
        if (blocks->watched) {
            lm_tool_hide(block, class->block_bytes);
            lm_tool_show_undefined(block, bytes);
        }
        return block;
    }
    if (blocks->watched) {
        void *block = take_sized(blocks, bytes + REDZONE, align);
        if (block == NULL) return NULL;
        lm_tool_take(block, bytes + REDZONE);
        lm_tool_show_undefined(block, bytes);
        return block;
    }
    size_t whole = lm_guard_whole(bytes, align);
    /* With an alignment above 16 it is a large object: guard.c looks for the tag of a freed block
     * at one place. */
    void *raw = whole == 0    ? NULL
                : align <= 16 ? take_sized(blocks, whole, 16)
                              : lm_blocks_large_take(blocks, whole, align);
    if (raw == NULL) return NULL;
    lm_tool_take(raw, raw_bytes_of(blocks, raw));
    return lm_guard_open(&blocks->entry, raw, raw_bytes_of(blocks, raw), bytes, align, file, line);
}

static void blocks_record(loam_blocks *blocks, size_t bytes) {
    loam_histogram *histogram = blocks->histogram;
    size_t *count =
        bytes <= histogram->largest_bytes ? &histogram->counts[bytes] : &histogram->beyond;
    /* Relaxed: a count, read after recording has ended. */
    (void)lm_add_relaxed(count, 1);
}

void *loam_blocks_alloc_slow(loam_blocks *blocks, size_t bytes, const char *file, unsigned line) {
    if (blocks_over(blocks, "allocation", file, line)) return NULL;
    if (LM_UNLIKELY(blocks->histogram != NULL)) blocks_record(blocks, bytes);
#if LM_HOSTED
    if (blocks->slot != UINT32_MAX && bytes <= blocks->largest_bytes)
        return lm_blocks_threads_alloc(blocks, lm_blocks_class_of(blocks, bytes));
#endif
    blocks_lock(blocks);
    void *p = blocks_alloc_locked(blocks, bytes, bytes <= 8 ? 8 : 16, file, line);
    blocks_unlock(blocks);
    return p;
}

void *loam_blocks_alloc_aligned_at(loam_blocks *blocks, size_t bytes, size_t align,
                                   const char *file, unsigned line) {
    if (!lm_is_pow2(align) || align > LOAM_BLOCKS_SLAB_BYTES) return NULL;
    /* A class of 8 bytes is not aligned to 16. */
    if (align == 16 && bytes <= 8 && !blocks->checked) bytes = 9;
    if (align < 16 || (align == 16 && !(blocks->checked && blocks->fixed)))
        return loam_blocks_alloc_at(blocks, bytes, file, line);
    if (blocks_over(blocks, "allocation", file, line)) return NULL;
    if (LM_UNLIKELY(blocks->histogram != NULL)) blocks_record(blocks, bytes);
#if LM_HOSTED
    if (blocks->slot != UINT32_MAX) {
        unsigned i = blocks_class_for(blocks, bytes, align);
        if (i < blocks->class_count) return lm_blocks_threads_alloc(blocks, i);
    }
#endif
    blocks_lock(blocks);
    void *p = blocks_alloc_locked(blocks, bytes, align, file, line);
    blocks_unlock(blocks);
    return p;
}

void *loam_blocks_calloc_at(loam_blocks *blocks, size_t count, size_t size, const char *file,
                            unsigned line) {
    size_t bytes;
    if (!lm_mul(count, size, &bytes)) return NULL;
    void *p = loam_blocks_alloc_at(blocks, bytes, file, line);
    return p != NULL ? memset(p, 0, bytes) : NULL;
}

/* ---- Free ---- */

static bool owns(const loam_blocks *blocks, const loam_blocks_slab *slab, const void *p,
                 const char *doing, const char *file, unsigned line) {
    if (LM_LIKELY(slab->owner == blocks)) return true;
    lm_family_misuse(&blocks->entry, file, line, "%s of %p, which is no object of it", doing, p);
    return false;
}

static void give_raw(loam_blocks *blocks, void *raw) {
    loam_blocks_slab *slab = slab_of(raw);
    LM_ASSERT(!blocks->fixed && slab->owner == blocks);
    if (is_large(raw)) {
        lm_blocks_large_give(blocks, slab);
        return;
    }
    loam_blocks_class *class = &blocks->classes[slab->class_index];
    if (blocks->counted) class->deallocations++;
    if (blocks->watched) {
        lm_tool_hide(raw, class->block_bytes);
        lm_tool_give(raw, class->block_bytes);
    }
    give_block(blocks, class->index, raw);
}

static void free_locked(loam_blocks *blocks, void *p, const char *file, unsigned line) {
    if (blocks->fixed) {
        loam_blocks_class *class = lm_blocks_fixed_class(blocks, p, "free", file, line);
        if (class == NULL || !lm_blocks_fixed_whole(blocks, class, p, file, line)) return;
        if (blocks->counted) class->deallocations++;
        lm_blocks_fixed_given(blocks, class, p);
        if (blocks->watched) lm_tool_hide(p, class->block_bytes);
        lm_tool_give(p, class->block_bytes);
        give_block(blocks, class->index, p);
    } else if (blocks->checked) {
        loam_tag *tag = lm_guard_find(&blocks->entry, p, "free", file, line);
        if (tag == NULL) return;
        void *raw = lm_guard_close(&blocks->entry, tag, file, line);
        lm_tool_give(raw, raw_bytes_of(blocks, raw));
        if (is_large(raw))
            lm_blocks_large_bury(blocks, slab_of(raw), tag);
        else
            give_raw(blocks, raw);
    } else if (owns(blocks, slab_of(p), p, "free", file, line)) {
        give_raw(blocks, p);
    }
}

static LM_NOINLINE void blocks_free_other(loam_blocks *blocks, void *p, const char *file,
                                          unsigned line) {
    if (p == NULL || blocks_over(blocks, "free", file, line)) return;
#if LM_HOSTED
    if (blocks->slot != UINT32_MAX && !is_large(p)) {
        lm_blocks_threads_free(blocks, slab_of(p)->class_index, p);
        return;
    }
#endif
    blocks_lock(blocks);
    free_locked(blocks, p, file, line);
    blocks_unlock(blocks);
}

void loam_blocks_free_slow(loam_blocks *blocks, void *p, const char *file, unsigned line) {
    if (LM_LIKELY(blocks->plain_fixed)) {
        uint32_t i = fixed_at(blocks, p);
        if (LM_LIKELY(i != UINT32_MAX)) {
            give_block(blocks, i, p);
            return;
        }
    }
    blocks_free_other(blocks, p, file, line);
}

/* ---- Realloc ---- */

/* Stores the usable bytes of a live object, which may be 0 if it is checked. Returns false after a
 * report. */
static bool size_of(loam_blocks *blocks, const void *p, const char *doing, const char *file,
                    unsigned line, size_t *bytes) {
    if (blocks->fixed) {
        const loam_blocks_class *class = lm_blocks_fixed_class(blocks, p, doing, file, line);
        if (class == NULL) return false;
        if (!lm_blocks_fixed_whole(blocks, class, p, file, line)) return false;
        *bytes = lm_blocks_fixed_size(blocks, class, p);
    } else if (blocks->checked) {
        const loam_tag *tag = lm_guard_find(&blocks->entry, p, doing, file, line);
        if (tag == NULL) return false;
        *bytes = tag->bytes;
        return true;
    } else {
        if (!owns(blocks, slab_of(p), p, doing, file, line)) return false;
        *bytes = raw_bytes_of(blocks, p) - (blocks->watched ? REDZONE : 0);
    }
    /* The caller may use all of it. */
    if (blocks->watched) lm_tool_show(p, *bytes);
    return true;
}

static bool size_of_locked(loam_blocks *blocks, const void *p, const char *doing, const char *file,
                           unsigned line, size_t *bytes) {
    blocks_lock(blocks);
    bool found = size_of(blocks, p, doing, file, line, bytes);
    blocks_unlock(blocks);
    return found;
}

size_t loam_blocks_usable_size(loam_blocks *blocks, const void *p) {
    size_t bytes = 0;
    if (p != NULL && !blocks_over(blocks, "usable_size", NULL, 0))
        (void)size_of_locked(blocks, p, "usable_size", NULL, 0, &bytes);
    return bytes;
}

#if LOAM_METER
/* Returns the bytes of an object's block. Takes no lock: only the object's owner depends on where
 * it lies. */
size_t loam_meter_blocks_bytes(loam_blocks *blocks, const void *p) {
    if (p == NULL || lm_tool_watches()) return 0;
    if (blocks->fixed) {
        uint32_t i = fixed_at(blocks, p);
        return i != UINT32_MAX ? blocks->classes[i].block_bytes : 0;
    }
    if (!blocks->checked) return slab_of(p)->owner == blocks ? raw_bytes_of(blocks, p) : 0;
    bool possible = lm_entry_has(&blocks->entry, p) && (uintptr_t)p % 16 == 0;
    return possible ? ((const loam_tag *)p - 1)->bytes : 0;
}
#endif

static bool blocks_stays(const loam_blocks *blocks, size_t old_bytes, size_t bytes) {
    /* Its guards cannot move. */
    if (blocks->checked && !blocks->fixed) return false;
    if (bytes > old_bytes) return false;
    if (bytes >= old_bytes / 2) return true;
    if (old_bytes > blocks->largest_bytes) return false;
    return lm_blocks_class_of(blocks, bytes) == lm_blocks_class_of(blocks, old_bytes);
}

/* As stays(), for a checked fixed instance, whose guards can move. always: the object stays
 * wherever it fits. */
static bool stays_fixed(loam_blocks *blocks, void *p, size_t bytes, bool always) {
    blocks_lock(blocks);
    LM_ASSERT(fixed_at(blocks, p) != UINT32_MAX);
    loam_blocks_class *class = &blocks->classes[fixed_at(blocks, p)];
    size_t usable = usable_of(blocks, class);
    bool near = bytes <= usable &&
                (always || bytes >= usable / 2 ||
                 lm_blocks_class_of(blocks, bytes + blocks->guard_bytes) == class->index);
    bool good = near && lm_blocks_fixed_resize(blocks, class, p, bytes);
    blocks_unlock(blocks);
    return good;
}

void *loam_blocks_realloc_at(loam_blocks *blocks, void *p, size_t bytes, const char *file,
                             unsigned line) {
    if (p == NULL) return loam_blocks_alloc_at(blocks, bytes, file, line);
    if (blocks_over(blocks, "realloc", file, line)) return NULL;
    if (bytes == 0) {
        loam_blocks_free_at(blocks, p, file, line);
        return NULL;
    }
    size_t old_bytes;
    if (!size_of_locked(blocks, p, "realloc", file, line, &old_bytes)) return NULL;
    bool notes = blocks->checked && blocks->fixed;
    if (notes ? stays_fixed(blocks, p, bytes, false) : blocks_stays(blocks, old_bytes, bytes))
        return p;
    void *to = loam_blocks_alloc_at(blocks, bytes, file, line);
    /* A fixed instance may have no smaller block left. The object then stays in the larger one. */
    if (to == NULL && notes) return stays_fixed(blocks, p, bytes, true) ? p : NULL;
    if (to == NULL) return bytes <= old_bytes && !blocks->checked ? p : NULL;
    memcpy(to, p, old_bytes < bytes ? old_bytes : bytes);
    loam_blocks_free_at(blocks, p, file, line);
    return to;
}

/* ---- Recording ---- */

void loam_blocks_record(loam_blocks *blocks, loam_histogram *histogram) {
    if (blocks_over(blocks, "record", NULL, 0)) return;
    blocks->histogram = histogram;
    lm_blocks_set_paths(blocks);
}

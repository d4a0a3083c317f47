/* blocks_slab.c: the origin of blocks: free lists, slabs, large objects.
 *
 *   heads[class] ──> block ──> block     single blocks: freed, or carved along with another
 *   chains       ──> batch ──> batch     whole batches that threads have returned
 *   slab         │ header │ handed out or in a list ... fresh │ not yet carved ... end │
 *
 * A slab is carved a few blocks at a time, so that memory is touched as it is needed. A block never
 * moves to another class; only whole slabs do, through the source (trim).
 */
#include "family/blocks_internal.h"

enum { CARVE_BYTES = 4096 };

void *lm_blocks_bottom[2];

/* ---- The source ---- */

void *lm_blocks_get(loam_blocks *blocks, size_t bytes, size_t align, size_t *got) {
    LM_ASSERT(blocks->source != NULL && bytes != 0);
    void *chunk = loam_source_get(blocks->source, bytes, align, got);
    if (LM_UNLIKELY(chunk == NULL) && lm_blocks_large_drop(blocks))
        chunk = loam_source_get(blocks->source, bytes, align, got);
    if (chunk == NULL) return NULL;
    blocks->requests++;
    blocks->chunks++;
    blocks->held_bytes += *got;
    if (blocks->held_bytes > blocks->peak_bytes) blocks->peak_bytes = blocks->held_bytes;
    LM_METER(got(&blocks->entry, *got));
    return chunk;
}

void lm_blocks_put(loam_blocks *blocks, void *chunk, size_t got) {
    LM_ASSERT(blocks->chunks > 0 && blocks->held_bytes >= got);
    lm_tool_show_undefined(chunk, got);
    blocks->chunks--;
    blocks->held_bytes -= got;
    LM_METER(put(&blocks->entry, got));
    loam_source_put(blocks->source, chunk, got);
}

/* ---- Slabs ---- */

/* Returns the offset of a new slab's first block, beyond class->first. The part of a slab that
 * fills no block is put before the first block, more of it in each slab, so that the blocks of many
 * slabs do not collide in a few sets of the processor's caches (Bonwick's slab colouring). The
 * steps are two cache lines, so alignments up to that are preserved; blocks with a larger alignment
 * have no colour. */
static uint32_t colour_next(loam_blocks_class *class) {
    uint32_t colour = class->colour, step = LOAM_BLOCKS_FIRST;
    size_t room = LOAM_BLOCKS_SLAB_BYTES - class->first - slab_blocks(class) * class->stride;
    LM_ASSERT(colour <= room && room < LOAM_BLOCKS_SLAB_BYTES);
    if (class->align > step) return 0;
    class->colour = colour + step <= room ? colour + step : 0;
    return colour;
}

static loam_blocks_slab *slab_get(loam_blocks *blocks, loam_blocks_class *class) {
    size_t got;
    void *chunk = lm_blocks_get(blocks, LOAM_BLOCKS_SLAB_BYTES, LOAM_BLOCKS_SLAB_BYTES, &got);
    if (chunk == NULL) return NULL;
    loam_blocks_slab *slab = (loam_blocks_slab *)chunk;
    *slab = (loam_blocks_slab){.class_index = class->index,
                               .first = class->first + colour_next(class),
                               .owner = blocks,
                               .got = got};
    if (blocks->watched) lm_tool_hide(slab + 1, got - sizeof *slab);
    return slab;
}

static bool carve_anew(loam_blocks *blocks, loam_blocks_class *class) {
    if (blocks->fixed) return false;
    loam_blocks_slab *slab = class->clean;
    if (slab != NULL) {
        class->clean = slab->next;
    } else if ((slab = slab_get(blocks, class)) == NULL) {
        return false;
    }
    LM_ASSERT(slab->owner == blocks && slab->class_index == class->index);
    slab->next = class->slabs;
    class->slabs = slab;
    class->fresh = slab_first(slab);
    class->end = slab_end(class, slab);
    LM_ASSERT(class->fresh < class->end && class->end <= (char *)slab + LOAM_BLOCKS_SLAB_BYTES);
    return true;
}

/* Checks a block that is about to be carved, if it was in use before a reset. */
static void check_carved(const loam_blocks *blocks, const loam_blocks_class *class,
                         const void *block) {
    if (blocks->fixed) {
        if ((const char *)block < class->gone) (void)lm_blocks_fixed_dead(blocks, class, block, 0);
        return;
    }
    const loam_blocks_slab *slab = class->slabs;
    LM_ASSERT(slab != NULL && (const char *)block >= slab_first(slab));
    size_t number = (size_t)((const char *)block - slab_first(slab)) / class->stride;
    if (number < slab->spare_blocks) (void)lm_guard_check_freed(&blocks->entry, dead_tag(block));
}

/* Carves a new block, followed by a chain of up to most - 1 more blocks. Returns NULL iff there is
 * no memory. */
static void *blocks_slab_carve(loam_blocks *blocks, loam_blocks_class *class, uint32_t most,
                               uint32_t *count) {
    if (class->fresh == class->end && !carve_anew(blocks, class)) return NULL;
    char *first = class->fresh;
    if (LM_UNLIKELY(blocks->checked)) check_carved(blocks, class, first);
    size_t left = (size_t)(class->end - first) / class->stride;
    LM_ASSERT(left > 0 && most > 0);
    uint32_t carved = left < most ? (uint32_t)left : most;
    char *block = first;
    for (uint32_t i = 1; i < carved; i++, block += class->stride)
        set_link(block, 0, block + class->stride);
    set_link(block, 0, NULL);
    class->fresh = block + class->stride;
    class->carved += carved;
    LM_ASSERT(class->fresh <= class->end && (!blocks->fixed || class->carved <= class->limit));
    *count = carved;
    return first;
}

static uint32_t carve_most(const loam_blocks *blocks, const loam_blocks_class *class) {
    /* Freed blocks are told from new ones by being in a list (see fixed_taken). */
    if (blocks->checked || blocks->counted || class->block_bytes > CARVE_BYTES / 2) return 1;
    return CARVE_BYTES / class->block_bytes;
}

/* ---- Blocks ---- */

void *lm_blocks_take(loam_blocks *blocks, loam_blocks_class *class) {
    void **head = &blocks->heads[class->index];
    void *block = *head;
    LM_ASSERT(class == &blocks->classes[class->index]);
    if (LM_UNLIKELY(block == NULL)) {
        uint32_t count;
        if (class->chains != NULL) {
            lm_blocks_give_chain(blocks, class->index,
                                 lm_blocks_take_chain(blocks, class->index, &count));
            block = *head;
            if (block == NULL) __builtin_unreachable(); /* a chain has at least one block */
        } else if ((block = blocks_slab_carve(blocks, class, carve_most(blocks, class), &count)) ==
                   NULL) {
            return NULL;
        } else if (count == 1) {
            return block;
        }
    } else if (blocks->checked && !blocks->fixed) {
        (void)lm_guard_check_freed(&blocks->entry, dead_tag(block));
    } else if (LM_UNLIKELY(blocks->checked)) {
        (void)lm_blocks_fixed_dead(blocks, class, block, sizeof(void *));
        if (!lm_blocks_fixed_link(blocks, class, block)) {
            *head = NULL; /* the rest of the list is lost */
            return block;
        }
    }
    *head = link_of(block, 0);
    return block;
}

/* ---- Batches ---- */

uint32_t lm_blocks_batch(const loam_blocks *blocks, unsigned class_index) {
    return blocks->classes[class_index].batch;
}

void *lm_blocks_take_chain(loam_blocks *blocks, unsigned class_index, uint32_t *count) {
    loam_blocks_class *class = &blocks->classes[class_index];
    void *chain = class->chains;
    if (chain != NULL) {
        class->chains = link_of(chain, 1);
        class->chain_count--;
        *count = 0;
        return chain;
    }
    if ((chain = blocks->heads[class_index]) == NULL) {
        uint32_t most = carve_most(blocks, class);
        return blocks_slab_carve(blocks, class, most < class->batch ? most : class->batch, count);
    }
    void *last = chain;
    *count = 1;
    for (void *next; *count < class->batch && (next = link_of(last, 0)) != NULL; last = next)
        ++*count;
    blocks->heads[class_index] = link_of(last, 0);
    set_link(last, 0, NULL);
    return chain;
}

void lm_blocks_give_batch(loam_blocks *blocks, unsigned class_index, void *chain) {
    loam_blocks_class *class = &blocks->classes[class_index];
    set_link(chain, 1, class->chains);
    class->chains = chain;
    class->chain_count++;
}

void lm_blocks_give_chain(loam_blocks *blocks, unsigned class_index, void *chain) {
    for (void *next; chain != NULL && chain != lm_blocks_bottom; chain = next) {
        next = link_of(chain, 0);
        give_block(blocks, class_index, chain);
    }
}

/* ---- Large objects: one chunk each, found by the same mask as slabs ----
 *
 *   alignment up to 64: │ header, 64 B │ object     above 64: │ header ... 64 KiB │ object
 */

void *lm_blocks_large_take(loam_blocks *blocks, size_t bytes, size_t align) {
    size_t skip = align <= LOAM_BLOCKS_HEADER ? LOAM_BLOCKS_HEADER : LOAM_BLOCKS_SLAB_BYTES;
    LM_ASSERT(!blocks->fixed && lm_is_pow2(align) && align <= LOAM_BLOCKS_SLAB_BYTES);
    if (bytes > (size_t)PTRDIFF_MAX - 2 * LOAM_BLOCKS_SLAB_BYTES) return NULL;
    size_t got;
    void *chunk = lm_blocks_get(blocks, skip + bytes, LOAM_BLOCKS_SLAB_BYTES, &got);
    if (chunk == NULL) return NULL;
    loam_blocks_slab *slab = (loam_blocks_slab *)chunk;
    *slab = (loam_blocks_slab){.class_index = blocks->class_count, .owner = blocks, .got = got};
    slab->next = blocks->large;
    if (slab->next != NULL) slab->next->sides[0] = slab;
    blocks->large = slab;
    blocks->large_count++;
    blocks->large_bytes += got;
    if (blocks->watched) lm_tool_hide(slab + 1, got - sizeof *slab);
    return (char *)chunk + skip;
}

static void unlink_large(loam_blocks *blocks, loam_blocks_slab *slab) {
    LM_ASSERT(blocks->large != NULL && blocks->large_count > 0);
    LM_ASSERT(blocks->large_bytes >= slab->got);
    if (slab->sides[0] != NULL) {
        slab->sides[0]->next = slab->next;
    } else {
        blocks->large = slab->next;
    }
    if (slab->next != NULL) slab->next->sides[0] = slab->sides[0];
    blocks->large_count--;
    blocks->large_bytes -= slab->got;
}

void lm_blocks_large_give(loam_blocks *blocks, loam_blocks_slab *slab) {
    unlink_large(blocks, slab);
    lm_blocks_put(blocks, slab, slab->got);
}

/* ---- Large objects that were freed in a checked instance ----
 *
 *   gone ──> oldest ──> ... ──> newest        at most GONE_COUNT of them, and GONE_BYTES in all
 */

enum { GONE_COUNT = 8, GONE_BYTES = 512 * 1024 };

static bool gone_whole(const loam_blocks *blocks, const loam_blocks_slab *slab) {
    const void *tag = (const char *)slab + slab->first;
    return lm_guard_check_freed(&blocks->entry, (const loam_tag *)tag);
}

static void drop_oldest(loam_blocks *blocks) {
    loam_blocks_slab *slab = blocks->gone;
    LM_ASSERT(slab != NULL);
    blocks->gone = slab->next;
    lm_blocks_put(blocks, slab, slab->got);
}

void lm_blocks_large_bury(loam_blocks *blocks, loam_blocks_slab *slab, const loam_tag *tag) {
    if (slab->got > GONE_BYTES) {
        lm_blocks_large_give(blocks, slab);
        return;
    }
    LM_ASSERT(blocks->checked && (const char *)tag >= (const char *)slab + LOAM_BLOCKS_HEADER &&
              (size_t)((const char *)(tag + 1) - (const char *)slab) <= slab->got);
    unlink_large(blocks, slab);
    slab->first = (uint32_t)((const char *)tag - (const char *)slab);
    slab->next = slab->sides[0] = NULL;
    size_t count = 1, bytes = slab->got;
    loam_blocks_slab **link = &blocks->gone;
    for (; *link != NULL; link = &(*link)->next, count++) bytes += (*link)->got;
    *link = slab;
    for (; count > GONE_COUNT || bytes > GONE_BYTES; count--) {
        bytes -= blocks->gone->got;
        (void)gone_whole(blocks, blocks->gone);
        drop_oldest(blocks);
    }
}

bool lm_blocks_large_gone_good(const loam_blocks *blocks) {
    bool good = true;
    for (const loam_blocks_slab *slab = blocks->gone; slab != NULL; slab = slab->next)
        good = gone_whole(blocks, slab) && good;
    return good;
}

bool lm_blocks_large_drop(loam_blocks *blocks) {
    if (blocks->gone == NULL) return false;
    (void)lm_blocks_large_gone_good(blocks);
    while (blocks->gone != NULL) drop_oldest(blocks);
    return true;
}

/* ---- All memory ---- */

static void put_slabs(loam_blocks *blocks, loam_blocks_slab *slab) {
    for (loam_blocks_slab *next; slab != NULL; slab = next) {
        next = slab->next;
        lm_blocks_put(blocks, slab, slab->got);
    }
}

void lm_blocks_put_all(loam_blocks *blocks) {
    LM_ASSERT(!blocks->fixed);
    while (blocks->large != NULL) lm_blocks_large_give(blocks, blocks->large);
    LM_ASSERT(blocks->large_count == 0 && blocks->large_bytes == 0);
    for (unsigned i = 0; i < blocks->class_count; i++) {
        put_slabs(blocks, blocks->classes[i].slabs);
        put_slabs(blocks, blocks->classes[i].clean);
    }
}

void loam_blocks_reset(loam_blocks *blocks) {
    if (blocks_over(blocks, "reset", NULL, 0)) return;
    if (blocks->checked) (void)lm_blocks_check_objects(blocks);
#if LM_HOSTED
    if (blocks->slot != UINT32_MAX) lm_blocks_threads_forget(blocks);
#endif
    loam_tag *tag = blocks->entry.live;
    lm_guard_drop_all(&blocks->entry);
    LM_METER(drop(&blocks->entry));
    for (loam_tag *next; tag != NULL; tag = next) {
        next = tag->next;
        if (is_large(tag->raw)) lm_blocks_large_bury(blocks, slab_of(tag->raw), tag);
    }
    while (blocks->large != NULL) lm_blocks_large_give(blocks, blocks->large);
    LM_ASSERT(blocks->large_count == 0 && blocks->large_bytes == 0);
    for (unsigned i = 0; i < blocks->class_count; i++) {
        loam_blocks_class *class = &blocks->classes[i];
        LM_ASSERT(class->fresh <= class->end);
        blocks->heads[i] = NULL;
        class->chains = NULL;
        class->chain_count = class->carved = 0;
        if (blocks->fixed) {
            lm_blocks_fixed_reset(blocks, class);
            if (blocks->watched) lm_tool_hide(class->start, (size_t)(class->end - class->start));
            continue;
        }
        size_t carved = class->slabs != NULL
                            ? (size_t)(class->fresh - slab_first(class->slabs)) / class->stride
                            : 0;
        class->fresh = class->end = NULL;
        for (loam_blocks_slab *slab; (slab = class->slabs) != NULL;) {
            class->slabs = slab->next;
            if (blocks->checked && carved > slab->spare_blocks)
                slab->spare_blocks = (uint32_t)carved;
            carved = slab_blocks(class);
            slab->next = class->clean;
            class->clean = slab;
            if (blocks->watched) lm_tool_hide(slab + 1, slab->got - sizeof *slab);
        }
    }
}

/* ---- Trim ---- */

static size_t carved_of(const loam_blocks_class *class, const loam_blocks_slab *slab) {
    if (slab != class->slabs) return slab_blocks(class);
    LM_ASSERT(slab_first(slab) <= class->fresh && class->fresh <= slab_end(class, slab));
    return (size_t)(class->fresh - slab_first(slab)) / class->stride;
}

static bool blocks_slab_is_empty(const loam_blocks_class *class, const loam_blocks_slab *slab) {
    return slab->spare_blocks == carved_of(class, slab);
}

/* Removes the free blocks of empty slabs from the list, in place. */
static void forget_empty(loam_blocks *blocks, loam_blocks_class *class) {
    void *last = NULL;
    for (void *block = blocks->heads[class->index]; block != NULL;) {
        void *next = link_of(block, 0);
        if (!blocks_slab_is_empty(class, slab_of(block))) {
            last = block;
        } else if (last != NULL) {
            set_link(last, 0, next);
        } else {
            blocks->heads[class->index] = next;
        }
        block = next;
    }
}

static size_t trim_class(loam_blocks *blocks, loam_blocks_class *class) {
    size_t before = blocks->held_bytes;
    LM_ASSERT(!blocks->fixed);
    put_slabs(blocks, class->clean);
    class->clean = NULL;
    while (class->chains != NULL) {
        void *chain = class->chains;
        class->chains = link_of(chain, 1);
        class->chain_count--;
        lm_blocks_give_chain(blocks, class->index, chain);
    }
    for (loam_blocks_slab *slab = class->slabs; slab != NULL; slab = slab->next)
        slab->spare_blocks = 0;
    for (void *block = blocks->heads[class->index]; block != NULL; block = link_of(block, 0))
        slab_of(block)->spare_blocks++;
    forget_empty(blocks, class);
    loam_blocks_slab *newest = class->slabs;
    size_t newest_carved = newest != NULL ? carved_of(class, newest) : 0;
    for (loam_blocks_slab **link = &class->slabs, *slab; (slab = *link) != NULL;) {
        size_t carved = slab == newest ? newest_carved : slab_blocks(class);
        if (slab->spare_blocks != carved) {
            link = &slab->next;
            continue;
        }
        *link = slab->next;
        LM_ASSERT(class->carved >= carved);
        class->carved -= carved;
        if (slab == newest) class->fresh = class->end = NULL;
        lm_blocks_put(blocks, slab, slab->got);
    }
    /* The counts from before a reset are lost. */
    for (loam_blocks_slab *slab = class->slabs; slab != NULL; slab = slab->next)
        slab->spare_blocks = 0;
    /* The newest slab may be another one now; nothing of it is left to be carved. */
    if (class->fresh == NULL && class->slabs != NULL)
        class->fresh = class->end = slab_end(class, class->slabs);
    LM_ASSERT(class->slabs != NULL || (class->carved == 0 && class->fresh == class->end));
    return before - blocks->held_bytes;
}

size_t loam_blocks_trim(loam_blocks *blocks) {
    if (blocks_over(blocks, "trim", NULL, 0) || blocks->fixed) return 0;
#if LM_HOSTED
    if (blocks->slot != UINT32_MAX) lm_blocks_threads_flush(blocks);
#endif
    blocks_lock(blocks);
    size_t held = blocks->held_bytes;
    (void)lm_blocks_large_drop(blocks);
    size_t bytes = held - blocks->held_bytes;
    for (unsigned i = 0; i < blocks->class_count; i++)
        bytes += trim_class(blocks, &blocks->classes[i]);
    blocks_unlock(blocks);
    return bytes;
}

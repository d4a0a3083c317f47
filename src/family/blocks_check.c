/* blocks_check.c: usage, invariants and statistics of a set of blocks. */
#include "family/blocks_internal.h"

/* ---- Usage ---- */

static size_t blocks_check_in_use(const loam_blocks *blocks, const loam_blocks_class *class) {
    size_t free = class->chain_count * class->batch;
    for (void *block = blocks->heads[class->index]; block != NULL; block = link_of(block, 0))
        free++;
#if LM_HOSTED
    if (blocks->slot != UINT32_MAX) free += lm_blocks_threads_cached(blocks, class->index);
#endif
    return class->carved - free;
}

static void usage_locked(const loam_blocks *blocks, loam_usage *usage) {
    *usage = (loam_usage){
        .kind = lm_blocks_kind.name,
        .name = blocks->entry.name != NULL ? blocks->entry.name : "",
        .held_bytes = blocks->held_bytes,
        .peak_bytes = blocks->peak_bytes,
        .used_bytes = blocks->large_bytes,
        .chunks = blocks->chunks,
        .requests = blocks->requests,
        .objects = blocks->large_count,
    };
    if (blocks->tables == NULL) { /* the memory is the caller's */
        usage->held_bytes = usage->peak_bytes = (size_t)(blocks->end - blocks->base);
        usage->chunks = 1;
    }
    for (unsigned i = 0; i < blocks->class_count; i++) {
        size_t used = blocks_check_in_use(blocks, &blocks->classes[i]);
        usage->objects += used;
        usage->used_bytes += used * blocks->classes[i].block_bytes;
    }
}

void loam_blocks_usage(const loam_blocks *blocks, loam_usage *usage) {
    if (blocks_over(blocks, "usage", NULL, 0)) {
        *usage = (loam_usage){.kind = lm_blocks_kind.name, .name = ""};
        return;
    }
    blocks_lock(blocks);
    usage_locked(blocks, usage);
    blocks_unlock(blocks);
}

int loam_blocks_class_usage(const loam_blocks *blocks, unsigned index,
                            loam_blocks_class_info *usage) {
    blocks_lock(blocks);
    unsigned at = index < blocks->sized_count ? index : blocks->sized_count;
    for (unsigned left = index - at; at < blocks->class_count; at++) {
        if (at < blocks->sized_count || (blocks->classes[at].carved != 0 && left-- == 0)) break;
    }
    if (at >= blocks->class_count) {
        blocks_unlock(blocks);
        return LM_EINVAL;
    }
    const loam_blocks_class *class = &blocks->classes[at];
    LM_ASSERT(class->index == at);
    *usage = (loam_blocks_class_info){
        .block_bytes = usable_of(blocks, class),
        .block_count = class->carved,
        .blocks_in_use = blocks_check_in_use(blocks, class),
        .block_limit = blocks->fixed ? class->limit : 0,
        .allocations = blocks->counted ? class->allocations : LOAM_UNKNOWN,
        .deallocations = blocks->counted ? class->deallocations : LOAM_UNKNOWN,
        .name = blocks->entry.name != NULL ? blocks->entry.name : "",
    };
    blocks_unlock(blocks);
    return 0;
}

void loam_blocks_print(const loam_blocks *blocks, loam_print *print, void *context) {
    loam_blocks_class_info of;
    for (unsigned i = 0; loam_blocks_class_usage(blocks, i, &of) == 0; i++) {
        if (of.block_count == 0) continue;
        lm_line_t line = {0};
        lm_line_add(&line, "%s Block Size: %zu Block Count: %zu Blocks In Use: %zu\n",
                    of.name[0] != '\0' ? of.name : "blocks", of.block_bytes, of.block_count,
                    of.blocks_in_use);
        print(line.text, context);
    }
}

/* ---- Check ---- */

static bool wrong(const loam_blocks *blocks, const loam_blocks_class *class, const void *block,
                  const char *what) {
    lm_family_misuse(&blocks->entry, NULL, 0, "free list of %u bytes: %p %s",
                     (unsigned)class->block_bytes, block, what);
    return false;
}

/* The slabs of a class form a binary tree, so that a check does not take (blocks * slabs) steps.
 * The bits of a slab's address, the lowest first, tell on which side of another it lies. Returns
 * the link to the slab, or where the link would be. */
static loam_blocks_slab **place_of(loam_blocks_slab **tree, const loam_blocks_slab *slab) {
    uintptr_t bits = (uintptr_t)slab / LOAM_BLOCKS_SLAB_BYTES;
    for (; *tree != NULL && *tree != slab; bits /= 2) tree = &(*tree)->sides[bits % 2];
    return tree;
}

static loam_blocks_slab *tree_of(const loam_blocks *blocks, const loam_blocks_class *class) {
    loam_blocks_slab *tree = NULL;
    for (loam_blocks_slab *slab = blocks->fixed ? NULL : class->slabs; slab != NULL;
         slab = slab->next) {
        slab->sides[0] = slab->sides[1] = NULL;
        *place_of(&tree, slab) = slab;
    }
    return tree;
}

/* Returns whether a block of that class, whose slabs are in the tree, can be at that address and
 * has been carved. */
static bool blocks_check_is_block(const loam_blocks *blocks, const loam_blocks_class *class,
                                  loam_blocks_slab *tree, const void *block) {
    const char *at = (const char *)block;
    if (blocks->fixed)
        return at >= class->start && at < class->fresh &&
               (size_t)(at - class->start) % class->block_bytes == 0;
    if (is_large(block)) return false;
    const loam_blocks_slab *slab = *place_of(&tree, slab_of(block));
    if (slab == NULL || slab->owner != blocks || slab->class_index != class->index) return false;
    const char *first = slab_first(slab);
    if (at < first || (size_t)(at - first) % class->stride != 0) return false;
    return at < (slab == class->slabs ? class->fresh : slab_end(class, slab));
}

static bool chain_good(const loam_blocks *blocks, const loam_blocks_class *class,
                       loam_blocks_slab *tree, const void *chain, size_t *count) {
    bool good = true;
    for (const void *block = chain; block != NULL && block != lm_blocks_bottom;
         block = link_of(block, 0)) {
        if (!blocks_check_is_block(blocks, class, tree, block))
            return wrong(blocks, class, block, "is none of it");
        if (++*count > class->carved) return wrong(blocks, class, block, "is in it twice");
        if (!blocks->checked) continue;
        if (blocks->fixed)
            good = lm_blocks_fixed_dead(blocks, class, block, sizeof(void *)) && good;
        else
            good = lm_guard_check_freed(&blocks->entry, dead_tag(block)) && good;
    }
    return good;
}

/* Checks the blocks from before a reset that have not been carved again, from `block` on in a
 * slab. */
static bool gone_good(const loam_blocks *blocks, const loam_blocks_class *class,
                      const loam_blocks_slab *slab, const char *block) {
    const char *end = slab_first(slab) + slab->spare_blocks * (size_t) class->stride;
    bool good = true;
    for (; block < end; block += class->stride)
        good = lm_guard_check_freed(&blocks->entry, dead_tag(block)) && good;
    return good;
}

static bool objects_good(const loam_blocks *blocks, const loam_blocks_class *class) {
    bool good = true;
    if (!blocks->checked) return true;
    if (blocks->fixed) return lm_blocks_fixed_check(blocks, class);
    if (class->slabs != NULL) good = gone_good(blocks, class, class->slabs, class->fresh);
    for (const loam_blocks_slab *slab = class->clean; slab != NULL; slab = slab->next)
        good = gone_good(blocks, class, slab, slab_first(slab)) && good;
    return good;
}

bool lm_blocks_check_objects(const loam_blocks *blocks) {
    if (blocks->watched) lm_tool_pause();
    bool good = lm_guard_check(&blocks->entry);
    good = lm_blocks_large_gone_good(blocks) && good;
    for (unsigned i = 0; i < blocks->class_count; i++) {
        const loam_blocks_class *class = &blocks->classes[i];
        size_t free = 0;
        good = chain_good(blocks, class, tree_of(blocks, class), blocks->heads[i], &free) && good;
        good = objects_good(blocks, class) && good;
    }
    if (blocks->watched) lm_tool_resume();
    return good;
}

static bool class_good(const loam_blocks *blocks, const loam_blocks_class *class) {
    size_t free = 0, chains = 0;
    loam_blocks_slab *tree = tree_of(blocks, class);
    if (!chain_good(blocks, class, tree, blocks->heads[class->index], &free)) return false;
    for (void *chain = class->chains; chain != NULL; chain = link_of(chain, 1)) {
        size_t before = free;
        if (!chain_good(blocks, class, tree, chain, &free)) return false;
        if (free - before != class->batch) return wrong(blocks, class, chain, "is no whole batch");
        chains++;
    }
    if (chains != class->chain_count) return wrong(blocks, class, class->chains, "has lost some");
    size_t carved = 0;
    const loam_blocks_slab *first = blocks->fixed ? NULL : class->slabs;
    for (const loam_blocks_slab *slab = first; slab != NULL; slab = slab->next)
        carved += slab != first ? slab_blocks(class)
                                : (size_t)(class->fresh - slab_first(slab)) / class->stride;
    if (!blocks->fixed && carved != class->carved)
        return wrong(blocks, class, first, "has a wrong count");
    return objects_good(blocks, class);
}

bool loam_blocks_check(const loam_blocks *blocks) {
    if (blocks_over(blocks, "check", NULL, 0)) return false;
    blocks_lock(blocks);
    bool good = lm_guard_check(&blocks->entry);
    good = lm_blocks_large_gone_good(blocks) && good;
    for (unsigned i = 0; i < blocks->class_count; i++)
        good = class_good(blocks, &blocks->classes[i]) && good;
    for (const loam_blocks_slab *slab = blocks->large; slab != NULL; slab = slab->next) {
        if (slab->owner == blocks && (slab->next == NULL || slab->next->sides[0] == slab)) continue;
        lm_family_misuse(&blocks->entry, NULL, 0, "large object %p has a broken header",
                         (const void *)slab);
        good = false;
        break;
    }
    blocks_unlock(blocks);
    return good;
}

/* ---- For the registry ---- */

static const loam_blocks *blocks_of(const loam_entry *entry) {
    return (const loam_blocks *)(const void *)((const char *)entry - offsetof(loam_blocks, entry));
}
static void kind_usage(const loam_entry *entry, loam_usage *usage) {
    loam_blocks_usage(blocks_of(entry), usage);
}
static bool kind_check(const loam_entry *entry) { return loam_blocks_check(blocks_of(entry)); }

static void kind_hold(const loam_entry *entry, bool held) {
    held ? blocks_lock(blocks_of(entry)) : blocks_unlock(blocks_of(entry));
}

const loam_kind lm_blocks_kind = {"blocks", kind_usage, kind_check, kind_hold};

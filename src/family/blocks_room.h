/* blocks_room.h: what the files of the blocks share.
 *
 *   blocks.c         the calls: init, alloc, realloc, record
 *   blocks_slab.c    where blocks come from: lists, slabs, large objects, trim, reset
 *   blocks_static.c  fixed instances: layout of one range, owner by address
 *   blocks_check.c   usage, check, print
 *   blocks_fit.c     histograms and classes that suit them
 *
 * All but the calls expects the instance's lock to be held, where it has one.
 */
#ifndef LM_FAMILY_BLOCKS_ROOM_H
#define LM_FAMILY_BLOCKS_ROOM_H

#include "family/family.h"
#include "loam/blocks.h"

enum {
    EDGE_NEVER = LOAM_BLOCKS_SLAB_BYTES - 1,
    REDZONE = 16,
    ALIGNED_FIRST = 2 * LOAM_BLOCKS_FIRST, /* the smallest class of aligned objects */
    ALIGNED_CLASSES = 8,                   /* each twice the one before */
};

/* Invariant: carved blocks = handed out + in heads[index] + chains * batch + in threads' caches. */
typedef struct loam_blocks_class {
    uint32_t block_bytes;
    uint32_t align; /* that all its blocks have */
    uint32_t batch; /* blocks that threads exchange at a time */
    uint32_t index;
    uint32_t stride;   /* from one block to the next */
    uint32_t first;    /* bytes before the first block of a slab without colour */
    char *fresh, *end; /* not yet carved: of the newest slab, or of a fixed instance's range */
    union {
        loam_blocks_slab *slabs; /* not fixed: newest first */
        /* fixed and checked: a bit for each block whose last bytes are a note of the object's size.
         * NULL: every block has a note. live: no block has one. */
        uint8_t *noted;
    };
    union {
        loam_blocks_slab *clean; /* not fixed: slabs with no block carved, after a reset */
        char *gone; /* fixed and checked: where blocks end that were in use before a reset */
    };
    char *start;   /* fixed: the first block */
    uint8_t *live; /* fixed and checked: a bit for each block */
    void *chains;  /* whole batches as they came; the first block's second word is the next */
    size_t chain_count;
    uint32_t colour; /* of the next slab: bytes that its blocks begin later */
    size_t carved;
    size_t limit; /* fixed: blocks there are */
    size_t allocations, deallocations;
} loam_blocks_class;

LM_STATIC_ASSERT(sizeof(loam_blocks_class) <= LOAM_BLOCKS_CLASS_BYTES, "said in blocks.h");
/* What is left before a large object is hidden from tools: they see a write there. */
LM_STATIC_ASSERT(sizeof(loam_blocks_slab) < LOAM_BLOCKS_HEADER, "said in blocks.h");

LM_INLINE loam_blocks_slab *slab_of(const void *p) {
    uintptr_t at = (uintptr_t)p % LOAM_BLOCKS_SLAB_BYTES;
    return (loam_blocks_slab *)((uintptr_t)p - (at != 0 ? at : LOAM_BLOCKS_SLAB_BYTES));
}
LM_INLINE bool is_large(const void *p) {
    return (uintptr_t)p % LOAM_BLOCKS_SLAB_BYTES <= LOAM_BLOCKS_HEADER;
}
LM_INLINE size_t slab_blocks(const loam_blocks_class *class) {
    return (LOAM_BLOCKS_SLAB_BYTES - class->first) / class->stride;
}
LM_INLINE char *slab_first(const loam_blocks_slab *slab) { return (char *)slab + slab->first; }
LM_INLINE char *slab_end(const loam_blocks_class *class, const loam_blocks_slab *slab) {
    return slab_first(slab) + slab_blocks(class) * class->stride;
}
LM_INLINE uint32_t lowest_of(uintptr_t x) { return (uint32_t)(x & (0 - x)); }

/* The words of free blocks, which a tool thinks nobody may touch. */
LM_READS_ANYTHING static inline void *link_of(const void *block, unsigned word) {
    return ((const loam_blocks_link *)block)[word];
}
LM_READS_ANYTHING static inline void set_link(void *block, unsigned word, void *to) {
    ((loam_blocks_link *)block)[word] = to;
}

/* The index of the class that p lies in; UINT32_MAX iff it lies in none of a fixed instance. */
LM_INLINE uint32_t fixed_at(const loam_blocks *blocks, const void *p) {
    size_t at = (size_t)((const char *)p - blocks->base);
    if (at >= (size_t)(blocks->end - blocks->base)) return UINT32_MAX;
    uint32_t i = blocks->map[at >> blocks->map_shift];
    while ((const char *)p >= blocks->classes[i].end) i++;
    return i;
}

LM_INLINE void give_block(loam_blocks *blocks, uint32_t class_index, void *block) {
    void **head = &blocks->heads[class_index];
    set_link(block, 0, *head);
    *head = block;
}

LM_INLINE void blocks_lock(const loam_blocks *blocks) {
    if (blocks->locks != NULL && blocks->locks->get != NULL)
        blocks->locks->get(blocks->locks->context);
    if (blocks->watched) lm_tool_pause(); /* links lie in what is hidden */
}
LM_INLINE void blocks_unlock(const loam_blocks *blocks) {
    if (blocks->watched) lm_tool_resume();
    if (blocks->locks != NULL && blocks->locks->release != NULL)
        blocks->locks->release(blocks->locks->context);
}

/* Sets which calls go inline: none of a checked, watched, counted, recorded or locked instance. */
void lm_blocks_set_paths(loam_blocks *blocks);

/* ---- blocks_slab.c ---- */

/* A block of that class, undefined; NULL iff there is none. Its bytes are hidden from a tool. */
void *lm_blocks_take(loam_blocks *blocks, loam_blocks_class *class);
/* A large object; align up to 64 KiB. NULL iff there is no memory. */
void *lm_blocks_large_take(loam_blocks *blocks, size_t bytes, size_t align);
void lm_blocks_large_give(loam_blocks *blocks, loam_blocks_slab *slab);
/* If checked: a large object has been freed. Its memory is kept for a while, so that later writes
 * to it are found. */
void lm_blocks_large_bury(loam_blocks *blocks, loam_blocks_slab *slab, const loam_tag *tag);
/* Whether the memory kept by lm_blocks_large_bury is as the objects left it; false after a
 * report. */
bool lm_blocks_large_gone_good(const loam_blocks *blocks);
/* All of that memory goes back to the source. Returns whether there was some. */
bool lm_blocks_large_drop(loam_blocks *blocks);
/* All slabs and large objects. */
void lm_blocks_put_all(loam_blocks *blocks);
void *lm_blocks_get(loam_blocks *blocks, size_t bytes, size_t align, size_t *got);
void lm_blocks_put(loam_blocks *blocks, void *chunk, size_t got);

/* ---- blocks_static.c ---- */

/* Walks the class sizes of the options, rounded up and merged: false at the end. *at begins as
 * 0. */
bool lm_blocks_next_class(const loam_blocks_options *options, unsigned *at, uint32_t *block_bytes,
                          size_t *most);
/* Bytes of the tables that every instance has, classes and heads first. */
size_t lm_blocks_table_bytes(unsigned class_count, size_t largest_bytes);
/* The class of a request of so many bytes, no more than the largest class has. */
LM_INLINE unsigned lm_blocks_class_of(const loam_blocks *blocks, size_t bytes) {
    return blocks->class_of[(bytes + 7) / 8];
}
/* Sets up tables at `at`, aligned to 16: classes, heads, class_of. */
void lm_blocks_set_tables(loam_blocks *blocks, const loam_blocks_options *options, char *at);
/* A fixed instance: all in memory. false iff that is too small. */
bool lm_blocks_set_fixed(loam_blocks *blocks, const loam_blocks_options *options, char *memory,
                         size_t bytes);
size_t lm_blocks_fixed_bytes(const loam_blocks_options *options, size_t each, bool checked);
/* Bytes of a block that objects may have. */
LM_INLINE size_t usable_of(const loam_blocks *blocks, const loam_blocks_class *class) {
    return class->block_bytes - blocks->guard_bytes;
}
/* The class that p lies in; NULL after a report: it lies in none or, if checked, is no block, or
 * not handed out. */
loam_blocks_class *lm_blocks_fixed_class(const loam_blocks *blocks, const void *p,
                                         const char *doing, const char *file, unsigned line);
/* If checked: marks the block as handed out for an object of so many bytes, and as free. */
void lm_blocks_fixed_taken(const loam_blocks *blocks, loam_blocks_class *class, void *block,
                           size_t bytes);
void lm_blocks_fixed_given(const loam_blocks *blocks, loam_blocks_class *class, void *block);
/* Bytes that were asked for, as far as is known; else all that the block has. */
size_t lm_blocks_fixed_size(const loam_blocks *blocks, const loam_blocks_class *class,
                            const void *block);
/* If checked: a live object has so many bytes now. false iff its block is too small. */
bool lm_blocks_fixed_resize(const loam_blocks *blocks, loam_blocks_class *class, void *block,
                            size_t bytes);
/* If checked: whether the guards of the block, and the end of the one before it, are whole; false
 * after a report. */
bool lm_blocks_fixed_whole(const loam_blocks *blocks, const loam_blocks_class *class,
                           const void *block, const char *file, unsigned line);
/* If checked: whether a free block has not been written to, from byte `from` on; false after a
 * report. */
bool lm_blocks_fixed_dead(const loam_blocks *blocks, const loam_blocks_class *class,
                          const void *block, size_t from);
/* If checked: whether the link in a free block, its first word, leads to a free block or nowhere;
 * false after a report. */
bool lm_blocks_fixed_link(const loam_blocks *blocks, const loam_blocks_class *class,
                          const void *block);
/* If checked: all blocks that have been handed out, and those of before a reset. false after a
 * report. */
bool lm_blocks_fixed_check(const loam_blocks *blocks, const loam_blocks_class *class);
/* All blocks are free, and as if never used. */
void lm_blocks_fixed_reset(const loam_blocks *blocks, loam_blocks_class *class);
/* Whether the instance is the tombstone of one that has ended, which is reported. */
LM_INLINE bool blocks_over(const loam_blocks *blocks, const char *doing, const char *file,
                           unsigned line) {
    return LM_UNLIKELY(blocks->ended) && lm_entry_ended(&blocks->entry, doing, file, line);
}
/* Of a checked instance that is not fixed: the tag of a free block. */
LM_INLINE const loam_tag *dead_tag(const void *block) {
    return (const loam_tag *)(const void *)((const char *)block + lm_guard_head(16)) - 1;
}

/* ---- blocks_check.c ---- */

/* Guards of a checked instance's objects, and bytes of those that are free. false after a
 * report. */
bool lm_blocks_check_objects(const loam_blocks *blocks);

extern const loam_kind lm_blocks_kind;

#endif

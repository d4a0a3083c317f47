/* blocks_internal.h: declarations that the files of the blocks share.
 *
 *   blocks.c         the calls: init, alloc, realloc, record
 *   blocks_slab.c    where blocks come from: lists, slabs, large objects, trim, reset
 *   blocks_static.c  fixed instances: layout of one range, owner by address
 *   blocks_check.c   usage, check, print
 *   blocks_fit.c     histograms, and classes that suit them
 *
 * The caller of each function here holds the instance's lock, if it has one. */
#ifndef LM_FAMILY_BLOCKS_INTERNAL_H
#define LM_FAMILY_BLOCKS_INTERNAL_H

#include "family/family.h"
#include "loam/blocks.h"

/* Constants of the blocks. */
enum {
    EDGE_NEVER = LOAM_BLOCKS_SLAB_BYTES - 1, /* an edge that no block lies beyond */
    REDZONE = 16,                            /* bytes behind an object that a tool watches */
    ALIGNED_FIRST = 2 * LOAM_BLOCKS_FIRST,   /* smallest class of aligned objects */
    ALIGNED_CLASSES = 8,                     /* number of aligned classes; sizes double */
};

/* A class of blocks. Invariant: carved blocks = handed out + in heads[index] + chains * batch + in
 * threads' caches. */
typedef struct loam_blocks_class {
    uint32_t block_bytes; /* size of a block */
    uint32_t align;       /* alignment that every block has */
    uint32_t batch;       /* blocks that threads exchange at a time */
    uint32_t index;       /* the class's index */
    uint32_t stride;      /* distance from one block to the next */
    uint32_t first;       /* bytes before the first block of a slab without colour */
    /* Memory not yet carved: of the newest slab, or of a fixed instance's range. */
    char *fresh, *end;
    union {
        loam_blocks_slab *slabs; /* not fixed: slabs, newest first */
        /* Fixed and checked: a bit for each block whose last bytes are a note of the object's size.
         * NULL: every block has a note. Equal to `live`: no block has one. */
        uint8_t *noted;
    };
    union {
        loam_blocks_slab *clean; /* not fixed: slabs with no block carved, after a reset */
        /* Fixed and checked: end of the blocks that were in use before a reset. */
        char *gone;
    };
    char *start;   /* fixed: the first block */
    uint8_t *live; /* fixed and checked: a bit for each live block */
    /* Whole batches that threads returned. The second word of a batch's first block is the next
     * batch. */
    void *chains;
    size_t chain_count;                /* number of these batches */
    uint32_t colour;                   /* bytes by which the next slab's blocks begin later */
    size_t carved;                     /* number of carved blocks */
    size_t limit;                      /* fixed: number of blocks */
    size_t allocations, deallocations; /* numbers of calls, if options.counted */
} loam_blocks_class;

LM_STATIC_ASSERT(sizeof(loam_blocks_class) <= LOAM_BLOCKS_CLASS_BYTES, "said in blocks.h");
/* Tools see writes to the bytes between header and object, which are hidden. */
LM_STATIC_ASSERT(sizeof(loam_blocks_slab) < LOAM_BLOCKS_HEADER, "said in blocks.h");

/* Returns the slab of a block, or the header of a large object. */
LM_INLINE loam_blocks_slab *slab_of(const void *p) {
    uintptr_t at = (uintptr_t)p % LOAM_BLOCKS_SLAB_BYTES;
    return (loam_blocks_slab *)((uintptr_t)p - (at != 0 ? at : LOAM_BLOCKS_SLAB_BYTES));
}
/* Returns whether p is a large object, or NULL. */
LM_INLINE bool is_large(const void *p) {
    return (uintptr_t)p % LOAM_BLOCKS_SLAB_BYTES <= LOAM_BLOCKS_HEADER;
}
/* Returns the number of blocks in a slab. */
LM_INLINE size_t slab_blocks(const loam_blocks_class *class) {
    return (LOAM_BLOCKS_SLAB_BYTES - class->first) / class->stride;
}
/* Returns the first block of a slab. */
LM_INLINE char *slab_first(const loam_blocks_slab *slab) { return (char *)slab + slab->first; }
/* Returns the end of the blocks of a slab. */
LM_INLINE char *slab_end(const loam_blocks_class *class, const loam_blocks_slab *slab) {
    return slab_first(slab) + slab_blocks(class) * class->stride;
}
/* Returns the largest power of two that divides x. */
LM_INLINE uint32_t lowest_of(uintptr_t x) { return (uint32_t)(x & (0 - x)); }

/* Returns a word of a free block, which tools think untouchable. */
LM_READS_ANYTHING static inline void *link_of(const void *block, unsigned word) {
    return ((const loam_blocks_link *)block)[word];
}
/* Sets a word of a free block. */
LM_READS_ANYTHING static inline void set_link(void *block, unsigned word, void *to) {
    ((loam_blocks_link *)block)[word] = to;
}

/* Returns the index of the class that p lies in, in a fixed instance. UINT32_MAX iff p lies in
 * none. */
LM_INLINE uint32_t fixed_at(const loam_blocks *blocks, const void *p) {
    size_t at = (size_t)((const char *)p - blocks->base);
    if (at >= (size_t)(blocks->end - blocks->base)) return UINT32_MAX;
    uint32_t i = blocks->map[at >> blocks->map_shift];
    while ((const char *)p >= blocks->classes[i].end) i++; /* the last class ends at blocks->end */
    LM_ASSERT(i < blocks->class_count);
    return i;
}

/* Puts a block on the list of its class. */
LM_INLINE void give_block(loam_blocks *blocks, uint32_t class_index, void *block) {
    void **head = &blocks->heads[class_index];
    LM_ASSERT(block != NULL && class_index < blocks->class_count);
    set_link(block, 0, *head);
    *head = block;
}

/* Takes the instance's lock, if it has one, and pauses tools. */
LM_INLINE void blocks_lock(const loam_blocks *blocks) {
    if (blocks->locks != NULL && blocks->locks->get != NULL)
        blocks->locks->get(blocks->locks->context);
    /* Links lie in hidden memory. */
    if (blocks->watched) lm_tool_pause();
}
/* Releases the lock, and resumes tools. */
LM_INLINE void blocks_unlock(const loam_blocks *blocks) {
    if (blocks->watched) lm_tool_resume();
    if (blocks->locks != NULL && blocks->locks->release != NULL)
        blocks->locks->release(blocks->locks->context);
}

/* Sets which calls go inline: no call of a checked, watched, counted or locked instance, and no
 * allocation of a recorded one. */
void lm_blocks_set_paths(loam_blocks *blocks);

/* ---- blocks_slab.c ---- */

/* Returns a block of that class, undefined and hidden from tools. NULL iff there is none. */
void *lm_blocks_take(loam_blocks *blocks, loam_blocks_class *class);
/* Returns a large object, aligned to align, at most 64 KiB. NULL iff there is no memory. */
void *lm_blocks_large_take(loam_blocks *blocks, size_t bytes, size_t align);
/* Gives a large object back to the source. */
void lm_blocks_large_give(loam_blocks *blocks, loam_blocks_slab *slab);
/* If checked: keeps the memory of a freed large object for a while, so that later writes to it are
 * found. */
void lm_blocks_large_bury(loam_blocks *blocks, loam_blocks_slab *slab, const loam_tag *tag);
/* Checks that the memory kept by lm_blocks_large_bury is as the objects left it. Returns false
 * after a report. */
bool lm_blocks_large_gone_good(const loam_blocks *blocks);
/* Gives the memory kept by lm_blocks_large_bury back to the source. Returns whether there was
 * some. */
bool lm_blocks_large_drop(loam_blocks *blocks);
/* Gives all slabs and large objects back. */
void lm_blocks_put_all(loam_blocks *blocks);
/* Gets a chunk from the source and counts it. NULL iff there is no memory. */
void *lm_blocks_get(loam_blocks *blocks, size_t bytes, size_t align, size_t *got);
/* Gives a chunk back to the source and counts it. */
void lm_blocks_put(loam_blocks *blocks, void *chunk, size_t got);

/* ---- blocks_static.c ---- */

/* Walks the class sizes of the options, rounded up and merged. *at is 0 at the first call. Returns
 * false at the end. */
bool lm_blocks_next_class(const loam_blocks_options *options, unsigned *at, uint32_t *block_bytes,
                          size_t *most);
/* Returns the bytes of the tables that every instance has, classes and heads first. */
size_t lm_blocks_table_bytes(unsigned class_count, size_t largest_bytes);
/* Returns the class of a request of so many bytes, at most the size of the largest class. */
LM_INLINE unsigned lm_blocks_class_of(const loam_blocks *blocks, size_t bytes) {
    LM_ASSERT(bytes <= blocks->largest_bytes);
    return blocks->class_of[(bytes + 7) / 8];
}
/* Sets up the tables at `at`, aligned to 16: classes, heads, class_of. */
void lm_blocks_set_tables(loam_blocks *blocks, const loam_blocks_options *options, char *at);
/* Lays a fixed instance out in memory. Returns false iff that is too small. */
bool lm_blocks_set_fixed(loam_blocks *blocks, const loam_blocks_options *options, char *memory,
                         size_t bytes);
/* Returns the bytes aligned to 16 that lm_blocks_set_fixed needs. checked: the instance is checked,
 * or may be; guards: with guards in extra bytes. Returns 0 iff that overflows, or the options give
 * no number of blocks. */
size_t lm_blocks_fixed_bytes(const loam_blocks_options *options, bool checked, bool guards);
/* Returns the bytes of a block that objects may use. */
LM_INLINE size_t usable_of(const loam_blocks *blocks, const loam_blocks_class *class) {
    LM_ASSERT(class->block_bytes > blocks->guard_bytes);
    return class->block_bytes - blocks->guard_bytes;
}
/* Returns the class that p lies in. NULL after a report: p lies in no class or, if checked, is no
 * block or not handed out. */
loam_blocks_class *lm_blocks_fixed_class(const loam_blocks *blocks, const void *p,
                                         const char *doing, const char *file, unsigned line);
/* If checked: marks a block as handed out for an object of so many bytes. */
void lm_blocks_fixed_taken(const loam_blocks *blocks, loam_blocks_class *class, void *block,
                           size_t bytes);
/* If checked: marks a block as free. */
void lm_blocks_fixed_given(const loam_blocks *blocks, loam_blocks_class *class, void *block);
/* Returns the size of a live object as requested, as far as that is known; otherwise its block's
 * usable size. */
size_t lm_blocks_fixed_size(const loam_blocks *blocks, const loam_blocks_class *class,
                            const void *block);
/* If checked: resizes a live object in place. Returns false iff its block is too small. */
bool lm_blocks_fixed_resize(const loam_blocks *blocks, loam_blocks_class *class, void *block,
                            size_t bytes);
/* If checked: checks the guards of the block, and the end of the block before it. Returns false
 * after a report. */
bool lm_blocks_fixed_whole(const loam_blocks *blocks, const loam_blocks_class *class,
                           const void *block, const char *file, unsigned line);
/* If checked: checks that a free block has not been written to, from byte `from` on. Returns false
 * after a report. */
bool lm_blocks_fixed_dead(const loam_blocks *blocks, const loam_blocks_class *class,
                          const void *block, size_t from);
/* If checked: checks that the link in a free block, its first word, leads to a free block or
 * nowhere. Returns false after a report. */
bool lm_blocks_fixed_link(const loam_blocks *blocks, const loam_blocks_class *class,
                          const void *block);
/* If checked: checks all blocks that have been handed out, and those from before a reset. Returns
 * false after a report. */
bool lm_blocks_fixed_check(const loam_blocks *blocks, const loam_blocks_class *class);
/* Makes all blocks free, as if never used. */
void lm_blocks_fixed_reset(const loam_blocks *blocks, loam_blocks_class *class);
/* Returns whether the instance is the tombstone of one that has ended, after a report. */
LM_INLINE bool blocks_over(const loam_blocks *blocks, const char *doing, const char *file,
                           unsigned line) {
    return LM_UNLIKELY(blocks->ended) && lm_entry_ended(&blocks->entry, doing, file, line);
}
/* Returns the tag of a free block, in a checked instance that is not fixed. */
LM_INLINE const loam_tag *dead_tag(const void *block) {
    return (const loam_tag *)(const void *)((const char *)block + lm_guard_head(16)) - 1;
}

/* ---- blocks_check.c ---- */

/* Checks the guards of a checked instance's objects, and the bytes of free ones. Returns false
 * after a report. */
bool lm_blocks_check_objects(const loam_blocks *blocks);

/* The kind of blocks. */
extern const loam_kind lm_blocks_kind;

#endif

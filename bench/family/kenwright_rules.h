// kenwright_rules.h: a fixed pool by the rules of Kenwright's paper, and the checks it proposes.
//
// One contiguous piece of memory, cut into blocks of one size, taken once. Free blocks form a list
// whose links are 4-byte block numbers inside the blocks. No loop prepares it: each allocation
// appends one more block to the list's end, until all have been. To allocate takes the head; to
// free makes the block the head, for which the number of the old head is found by a division. An
// exhausted pool gives NULL. The pool can grow into memory that follows, by its members alone, and
// shrink to the blocks that were ever appended.
//
// Arithmetic is 32 bits wide as the paper's: kw_create refuses what would overflow, which the
// paper's code does not notice. Blocks are aligned as the memory and the size happen to be.
//
// The checked set (kw_checked_*) surrounds each object with guards and refuses a free of a pointer
// out of range, off a block's start, or with a damaged guard; kw_checked_all looks at every block
// in use; the line that allocated is kept in the guard, for leaks.
#ifndef LOAM_BENCH_FAMILY_KENWRIGHT_RULES_H
#define LOAM_BENCH_FAMILY_KENWRIGHT_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t blocks, block_size;
    uint32_t free_blocks;
    uint32_t prepared; // blocks that were ever appended to the list
    unsigned char *start;
    unsigned char *head;
} KwPool;

static inline bool kw_create(KwPool *pool, size_t block_size, size_t blocks) {
    if (block_size < sizeof(uint32_t) || !blocks || blocks > UINT32_MAX / block_size) {
        return false;
    }
    *pool = (KwPool){.blocks = (uint32_t)blocks,
                     .block_size = (uint32_t)block_size,
                     .free_blocks = (uint32_t)blocks,
                     .start = (unsigned char *)malloc(block_size * blocks)};
    pool->head = pool->start;
    return pool->start != NULL;
}

static inline void kw_destroy(KwPool *pool) {
    free(pool->start);
    pool->start = NULL;
}

static inline unsigned char *kw_block(const KwPool *pool, uint32_t number) {
    return pool->start + number * pool->block_size;
}

static inline uint32_t kw_number(const KwPool *pool, const unsigned char *block) {
    return (uint32_t)(block - pool->start) / pool->block_size;
}

static inline uint32_t kw_link(const unsigned char *block) {
    uint32_t number;
    memcpy(&number, block, sizeof number);
    return number;
}

static inline void kw_set_link(unsigned char *block, uint32_t number) {
    memcpy(block, &number, sizeof number);
}

static inline void *kw_alloc(KwPool *pool) {
    if (pool->prepared < pool->blocks) {
        kw_set_link(kw_block(pool, pool->prepared), pool->prepared + 1);
        pool->prepared++;
    }
    if (!pool->free_blocks) {
        return NULL;
    }
    unsigned char *block = pool->head;
    pool->free_blocks--;
    pool->head = pool->free_blocks ? kw_block(pool, kw_link(block)) : NULL;
    return block;
}

static inline void kw_free(KwPool *pool, void *object) {
    unsigned char *block = (unsigned char *)object;
    kw_set_link(block, pool->head ? kw_number(pool, pool->head) : pool->blocks);
    pool->head = block;
    pool->free_blocks++;
}

// `blocks` in all, of which the new ones lie behind the others, in memory that the pool already
// has.
static inline void kw_extend(KwPool *pool, uint32_t blocks) {
    if (!pool->free_blocks) {
        pool->head = kw_block(pool, pool->prepared);
    }
    pool->free_blocks += blocks - pool->blocks;
    pool->blocks = blocks;
}

// Down to the blocks that were ever prepared.
static inline void kw_shrink(KwPool *pool) {
    pool->free_blocks -= pool->blocks - pool->prepared;
    pool->blocks = pool->prepared;
    if (!pool->free_blocks) {
        pool->head = NULL;
    }
}

// ---- with checks --------------------------------------------------------------------------------

enum { KW_GUARD = 8 }; // bytes before and behind each object; the first have the line as well
static const uint32_t KW_USED = 0xA110CA7Eu, KW_UNUSED = 0xF4EEB10Cu, KW_END = 0x0E4DE4D5u;

typedef enum { KW_GOOD, KW_OUT_OF_RANGE, KW_NO_BLOCK, KW_NOT_IN_USE, KW_OVERRUN } KwFault;

static inline uint32_t kw_word(const unsigned char *at) {
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

// Layout of a block: mark, line (over which the link comes when it is free), object, two end marks.
static inline bool kw_checked_create(KwPool *pool, size_t size, size_t blocks) {
    return kw_create(pool, size + 2 * KW_GUARD, blocks);
}

static inline void *kw_checked_alloc(KwPool *pool, uint32_t line) {
    unsigned char *block = (unsigned char *)kw_alloc(pool);
    if (!block) {
        return NULL;
    }
    unsigned char *end = block + pool->block_size - KW_GUARD;
    memcpy(block, &line, sizeof line);
    memcpy(block + sizeof line, &KW_USED, sizeof KW_USED);
    memcpy(end, &KW_END, sizeof KW_END);
    memcpy(end + sizeof KW_END, &KW_END, sizeof KW_END);
    return block + KW_GUARD;
}

static inline KwFault kw_checked_look(const KwPool *pool, const unsigned char *block) {
    const unsigned char *end = block + pool->block_size - KW_GUARD;
    if (kw_word(block + sizeof(uint32_t)) != KW_USED) {
        return KW_NOT_IN_USE;
    }
    if (kw_word(end) != KW_END || kw_word(end + sizeof KW_END) != KW_END) {
        return KW_OVERRUN;
    }
    return KW_GOOD;
}

static inline KwFault kw_checked_free(KwPool *pool, void *object) {
    unsigned char *block = (unsigned char *)object - KW_GUARD;
    if (block < pool->start || block >= pool->start + pool->blocks * pool->block_size) {
        return KW_OUT_OF_RANGE;
    }
    if ((uint32_t)(block - pool->start) % pool->block_size) {
        return KW_NO_BLOCK;
    }
    KwFault fault = kw_checked_look(pool, block);
    if (fault != KW_GOOD) {
        return fault;
    }
    memcpy(block + sizeof(uint32_t), &KW_UNUSED, sizeof KW_UNUSED);
    kw_free(pool, block);
    return KW_GOOD;
}

// How many blocks in use have a damaged guard; *leaks: how many are in use at all.
static inline uint32_t kw_checked_all(const KwPool *pool, uint32_t *leaks) {
    uint32_t damaged = 0;
    *leaks = 0;
    for (uint32_t number = 0; number < pool->prepared; number++) {
        KwFault fault = kw_checked_look(pool, kw_block(pool, number));
        *leaks += fault != KW_NOT_IN_USE;
        damaged += fault == KW_OVERRUN;
    }
    return damaged;
}

#endif

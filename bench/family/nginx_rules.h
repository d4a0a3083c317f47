// nginx_rules.h: a region by the published rules of nginx's pool, outside nginx, and the same
// without the scan of its blocks.
//
// Blocks have one size and stand in a chain; the pool's own record lies in the first, which is also
// its first block. An object of at most what an empty first block holds is cut from the first block
// with room for it, from `current` on, at a multiple of 8. Where none has room, a new block joins
// the end of the chain, and every block from current on but the last there was has failed once
// more; one that fails for the sixth time is passed for good: current moves behind it. So a few
// blocks are looked at for each object, which finds room that a large object left over.
//
//   no scan   a new block is current at once, and the room in the blocks before it is lost: what
//             the seed 000 tells of a reader's change ("removed the scans at all")
//
// Larger objects come from malloc and stand in a list whose entries are objects of the pool; only
// they can be freed singly, and an entry whose object was freed is used again if it is among the
// first five. Blocks come from posix_memalign(16), as nginx has them; nothing is cached. It has no
// cleanup handlers and no log, only their room in the record.
#ifndef LOAM_BENCH_FAMILY_NGINX_RULES_H
#define LOAM_BENCH_FAMILY_NGINX_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { NGX_ALIGN = 8, NGX_BLOCK_ALIGN = 16, NGX_FAILS = 6, NGX_ENTRIES = 5 };

typedef struct NgxBlock {
    char *last, *end; // of what is used, of the block
    struct NgxBlock *next;
    uintptr_t failed;
} NgxBlock;

typedef struct NgxLarge {
    struct NgxLarge *next;
    void *object; // NULL: freed
} NgxLarge;

typedef struct {
    NgxBlock first;
    size_t most;
    NgxBlock *current;
    NgxLarge *large;
    void *others[3]; // nginx's has so many more members
} NgxPool;

static inline char *ngx_cut(NgxBlock *block, size_t size) {
    uintptr_t at = ((uintptr_t)block->last + NGX_ALIGN - 1) & ~(uintptr_t)(NGX_ALIGN - 1);
    if (at > (uintptr_t)block->end || (uintptr_t)block->end - at < size) {
        return NULL;
    }
    block->last = (char *)at + size;
    return (char *)at;
}

static inline NgxBlock *ngx_block_new(size_t size, size_t header) {
    void *memory = NULL;
    if (posix_memalign(&memory, NGX_BLOCK_ALIGN, size)) {
        return NULL;
    }
    NgxBlock *block = (NgxBlock *)memory;
    block->last = (char *)block + header;
    block->end = (char *)block + size;
    block->next = NULL;
    block->failed = 0;
    return block;
}

// SIZE is that of each block; above the record's size.
static inline NgxPool *ngx_create(size_t size) {
    NgxPool *pool = (NgxPool *)(void *)ngx_block_new(size, sizeof *pool);
    if (pool) {
        pool->most = size - sizeof *pool;
        pool->current = &pool->first;
        pool->large = NULL;
    }
    return pool;
}

// Not inline, as in nginx: it is called once in a block.
static __attribute__((noinline)) void *ngx_more(NgxPool *pool, size_t size, bool scan) {
    size_t block_size = (size_t)(pool->first.end - (char *)pool);
    NgxBlock *more = ngx_block_new(block_size, sizeof *more), *block = pool->current;
    if (!more) {
        return NULL;
    }
    for (; block->next; block = block->next) {
        if (++block->failed >= NGX_FAILS) {
            pool->current = block->next;
        }
    }
    block->next = more;
    if (!scan) {
        pool->current = more;
    }
    return ngx_cut(more, size);
}

static inline void *ngx_small(NgxPool *pool, size_t size, bool scan) {
    NgxBlock *block = pool->current;
    do {
        char *at = ngx_cut(block, size);
        if (at) {
            return at;
        }
        block = block->next;
    } while (block);
    return ngx_more(pool, size, scan);
}

static __attribute__((noinline)) void *ngx_large(NgxPool *pool, size_t size, bool scan) {
    void *object = malloc(size);
    if (!object) {
        return NULL;
    }
    NgxLarge *entry = pool->large;
    for (int i = 0; entry && i < NGX_ENTRIES; i++, entry = entry->next) {
        if (!entry->object) {
            return entry->object = object;
        }
    }
    entry = (NgxLarge *)ngx_small(pool, sizeof *entry, scan);
    if (!entry) {
        free(object);
        return NULL;
    }
    entry->object = object;
    entry->next = pool->large;
    pool->large = entry;
    return object;
}

static inline void *ngx_alloc(NgxPool *pool, size_t size, bool scan) {
    return size <= pool->most ? ngx_small(pool, size, scan) : ngx_large(pool, size, scan);
}

// Whether the object went; a small one stays until the pool ends.
static inline bool ngx_free(NgxPool *pool, void *object) {
    for (NgxLarge *entry = pool->large; entry; entry = entry->next) {
        if (entry->object == object) {
            free(object);
            entry->object = NULL;
            return true;
        }
    }
    return false;
}

static inline void ngx_destroy(NgxPool *pool) {
    for (NgxLarge *entry = pool->large; entry; entry = entry->next) {
        free(entry->object);
    }
    for (NgxBlock *block = &pool->first, *next; block; block = next) {
        next = block->next; // the record goes with the first
        free(block);
    }
}

#endif

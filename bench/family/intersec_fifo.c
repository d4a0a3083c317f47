// intersec_fifo.c: the rules of intersec_fifo.h. The two policies share everything but what their
// names say.
#define _GNU_SOURCE // MAP_ANONYMOUS
#include "intersec_fifo.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SYSTEM_PAGE = 4096, ALIGNMENT = 8 };

struct fifo_page {
    uint32_t used;   // bytes of area handed out
    uint32_t blocks; // live ones
    size_t size;     // of area
    void *last;      // what the last alloc returned
    _Alignas(ALIGNMENT) unsigned char area[];
};

struct block {
    uint32_t offset; // from the page to here
    uint32_t size;   // this header included
    unsigned char area[];
};

static size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

static size_t room(const struct fifo_page *page) { return page->size - page->used; }

// ---- pages -----------------------------------------------------------------------------------

static void tell(struct fifo *pool) {
    if (pool->watch) pool->watch(pool->watcher);
}

static struct fifo_page *page_new(struct fifo *pool, size_t need) {
    struct fifo_page *page = pool->spare;
    if (page && page->size >= need) {
        pool->spare = NULL;
        return page;
    }
    size_t bytes = pool->page_size;
    if (need + sizeof *page > bytes) bytes = round_up(need + sizeof *page, SYSTEM_PAGE);
    if (pool->source == FIFO_MMAP) {
        page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) return NULL;
    } else {
        page = calloc(1, bytes);
        if (!page) return NULL;
    }
    page->size = bytes - sizeof *page;
    pool->pages++;
    pool->pages_got++;
    pool->held += bytes;
    tell(pool);
    return page;
}

static void page_delete(struct fifo *pool, struct fifo_page *page) {
    size_t bytes = page->size + sizeof *page;
    pool->pages--;
    pool->held -= bytes;
    if (pool->source == FIFO_MMAP) {
        munmap(page, bytes);
    } else {
        free(page);
    }
    tell(pool);
}

// What lies beyond `used` was never handed out since the page came or was last wiped: it is zero.
static void page_reset(struct fifo_page *page) {
    memset(page->area, 0, page->used);
    page->used = 0;
    page->blocks = 0;
    page->last = NULL;
}

// ---- what the policies differ in -------------------------------------------------------------

static struct fifo_page *old_out_of_room(struct fifo *pool, size_t need) {
    return pool->alive ? page_new(pool, need) : NULL;
}

static struct fifo_page *new_out_of_room(struct fifo *pool, size_t need) {
    struct fifo_page *page = pool->current;
    if (!pool->alive) return NULL;
    if (page->blocks == 0) {
        if (page->size >= need) {
            page_reset(page);
            return page;
        }
        struct fifo_page *larger = page_new(pool, need);
        if (larger) page_delete(pool, page);
        return larger;
    }
    return page_new(pool, need);
}

static void old_emptied(struct fifo *pool, struct fifo_page *page) {
    if (page == pool->current) pool->current = NULL;
    if (pool->spare) {
        page_delete(pool, page);
    } else {
        page_reset(page);
        pool->spare = page;
    }
}

static void new_emptied(struct fifo *pool, struct fifo_page *page) {
    struct fifo_page *current = pool->current;
    if (page == current) return;
    if (!pool->spare) {
        page_reset(page);
        pool->spare = page;
    } else if (room(current) < page->size / 8) {
        // Current still has live blocks and goes with the last of them, or it has none and goes
        // now.
        if (current->blocks == 0) page_delete(pool, current);
        page_reset(page);
        pool->current = page;
    } else if (pool->spare->size >= page->size) {
        page_delete(pool, page);
    } else {
        page_delete(pool, pool->spare);
        page_reset(page);
        pool->spare = page;
    }
}

// ---- alloc and free --------------------------------------------------------------------------

static inline __attribute__((always_inline)) void *alloc(struct fifo *pool, size_t size, bool old) {
    struct fifo_page *page = pool->current;
    size = round_up(size + sizeof(struct block), ALIGNMENT);
    if (__builtin_expect((old && !page) || room(page) < size, 0)) {
        if (size > UINT32_MAX - SYSTEM_PAGE) return NULL; // headers count in 32 bits
        page = old ? old_out_of_room(pool, size) : new_out_of_room(pool, size);
        if (!page) return NULL;
        pool->current = page;
    }
    struct block *block = (struct block *)(void *)(page->area + page->used);
    block->offset = (uint32_t)((char *)block - (char *)page);
    block->size = (uint32_t)size;
    pool->occupied += size;
    page->used += (uint32_t)size;
    page->blocks++;
    return page->last = block->area;
}

static inline __attribute__((always_inline)) void release(struct fifo *pool, void *memory,
                                                          bool old) {
    if (!memory) return;
    struct block *block = (struct block *)memory - 1;
    struct fifo_page *page = (struct fifo_page *)(void *)((char *)block - block->offset);
    pool->occupied -= block->size;
    if (--page->blocks > 0) return;
    if (__builtin_expect(!pool->alive, 0)) {
        page_delete(pool, page);
    } else if (old) {
        old_emptied(pool, page);
    } else {
        new_emptied(pool, page);
    }
}

static inline __attribute__((always_inline)) void *grow(struct fifo *pool, void *memory,
                                                        size_t size, bool old) {
    struct block *block = (struct block *)memory - 1;
    size_t room_of = block->size - sizeof *block;
    if (size <= room_of) return memory;
    struct fifo_page *page = (struct fifo_page *)(void *)((char *)block - block->offset);
    size_t more = round_up(size + sizeof *block, ALIGNMENT) - block->size;
    if (page->last == memory && more <= room(page)) {
        block->size += (uint32_t)more;
        page->used += (uint32_t)more;
        pool->occupied += more;
        return memory;
    }
    void *copy = alloc(pool, size, old);
    if (!copy) return NULL;
    memcpy(copy, memory, room_of);
    release(pool, memory, old);
    return copy;
}

void *fifo_old_alloc(struct fifo *pool, size_t size) { return alloc(pool, size, true); }
void *fifo_new_alloc(struct fifo *pool, size_t size) { return alloc(pool, size, false); }
void fifo_old_free(struct fifo *pool, void *memory) { release(pool, memory, true); }
void fifo_new_free(struct fifo *pool, void *memory) { release(pool, memory, false); }
void *fifo_old_realloc(struct fifo *pool, void *memory, size_t size) {
    return grow(pool, memory, size, true);
}
void *fifo_new_realloc(struct fifo *pool, void *memory, size_t size) {
    return grow(pool, memory, size, false);
}

// ---- the pool's life -------------------------------------------------------------------------

bool fifo_old_start(struct fifo *pool, size_t page_size, enum fifo_source source) {
    *pool = (struct fifo){
        .alive = 1,
        .page_size = (uint32_t)round_up(page_size, SYSTEM_PAGE),
        .source = source,
    };
    return true;
}

bool fifo_new_start(struct fifo *pool, size_t page_size, enum fifo_source source) {
    fifo_old_start(pool, page_size, source);
    pool->current = page_new(pool, 0);
    return pool->current != NULL;
}

void fifo_stop(struct fifo *pool) {
    pool->alive = 0;
    if (pool->spare) page_delete(pool, pool->spare);
    if (pool->current && pool->current->blocks == 0) page_delete(pool, pool->current);
    pool->spare = NULL;
    pool->current = NULL;
}

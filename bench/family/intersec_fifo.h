// intersec_fifo.h: Intersec's FIFO pool, its rules before and after their revision, written from
// their description.
//
// Question: what does the revised page policy gain over the old one, on the same pages and the same
// blocks? Use it as the "before" columns of the tables `fifo` and `pages`. Memory comes zeroed and
// aligned to 8 bytes; a page goes when all its blocks are dead. One thread only.
//
//   old   the pool starts without a page; a current page whose last block dies is given up at once:
//         wiped and kept as the spare, or freed where there is one. An alloc that finds no current
//         page takes the slow path.
//   new   the pool starts with a page, current is never NULL; its last block may die and nothing
//         happens; it is wiped when it runs out with no live block. Another page that empties
//         replaces current where that has less room left than 1/8 of the page's size, else the
//         larger of page and spare stays.
//
// Both have the packed pool (63 bits occupied, 1 bit alive) and the order of loads that the
// revision ended with: what these alone gained (3% and 2% by their authors) is not in the
// difference. Not rendered: the 40 bytes of function pointers: the tables call every allocator
// directly.
#ifndef LOAM_BENCH_INTERSEC_FIFO_H
#define LOAM_BENCH_INTERSEC_FIFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum fifo_source { FIFO_CALLOC, FIFO_MMAP };

struct fifo_page;

struct fifo {
    struct fifo_page *spare;
    struct fifo_page *current;
    size_t occupied : 63; // bytes of live blocks, their headers included
    size_t alive : 1;
    size_t held; // bytes of all pages
    uint32_t page_size;
    uint32_t pages;
    enum fifo_source source;
    uint64_t pages_got;    // how often the source was asked
    void (*watch)(void *); // called after a page came or went, where not NULL
    void *watcher;
};

void *fifo_old_alloc(struct fifo *pool, size_t size);
void fifo_old_free(struct fifo *pool, void *block);
void *fifo_new_alloc(struct fifo *pool, size_t size);
void fifo_new_free(struct fifo *pool, void *block);
// In place where the block has the room already, or is its page's last and the page has it;
// otherwise a new block, a copy, and a free of the old one. NULL: the old block is as it was. What
// is new is zero iff it was never handed out.
void *fifo_old_realloc(struct fifo *pool, void *block, size_t size);
void *fifo_new_realloc(struct fifo *pool, void *block, size_t size);

// PAGE_SIZE is rounded up to whole system pages. False where the first page of the new policy could
// not be had.
bool fifo_old_start(struct fifo *pool, size_t page_size, enum fifo_source source);
bool fifo_new_start(struct fifo *pool, size_t page_size, enum fifo_source source);
// The pool serves no further alloc. Pages with live blocks stay until the last of these is freed.
void fifo_stop(struct fifo *pool);

#ifdef __cplusplus
}
#endif
#endif

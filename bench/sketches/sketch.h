/* sketch.h: what the layout sketches share: size classes, descriptor, heap, list handling.
 *
 * A sketch answers one question: how does free() find the page of a pointer, and what does that
 * cost? Everything else is the same in all of them and is written here and in sketch_heap.h:
 *
 *   malloc   heap->head[class] -- pop. Refill: the page's whole local list, then 4 KiB more of the page,
 *            then another page with free blocks, then a new page.
 *   free     find the page, compare its owner with the thread pointer, push, count down;
 *            at 0 the page is empty, or was full and wakes (after min(16, capacity/8) frees).
 *
 * One thread only: owner words are compared as they would be, but nobody else ever frees.
 * It cannot serve more than 64 KiB, gives nothing back to the system, and is x86-64 only.
 */
#ifndef SKETCH_H
#define SKETCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define INLINE static inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define EXPORT __attribute__((visibility("default")))
#define HIDDEN __attribute__((visibility("hidden")))
#define INITIAL_EXEC __attribute__((tls_model("initial-exec")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

enum {
    SLICE_SHIFT = 16,
    SLICE_BYTES = 1 << SLICE_SHIFT,
    SMALL_MOST = 1024,
    BLOCK_MOST = 65536,
    EXTEND_BYTES = 4096,
    SLICES_MOST = 8, /* of one page */
    CLASSES = 136,   /* 1..64 in steps of 16; 88..135 eight a doubling; the gap saves an addition */
};

typedef struct block {
    struct block *next;
} block_t;

/* Owner words that are no thread pointer. */
enum { OWNER_NOBODY = 0, OWNER_INNER = 1 };

typedef struct page {
    uintptr_t owner;
    block_t *free;
    uint32_t live; /* blocks not on `free`, less bias: at 0 something is due */
    uint32_t bias; /* full pages: live blocks left out of `live`, so that they wake early */
    uint32_t block_bytes, carved, capacity;
    uint32_t size_class, slices;
    bool full;
    char *start;
    struct page *previous, *next;
    struct page *first; /* OWNER_INNER: the page that this slice is a part of */
} __attribute__((aligned(128))) page_t;

_Static_assert(sizeof(page_t) == 128, "two cache lines");

typedef struct heap {
    block_t *head[CLASSES];
#if SKETCH_TABLE
    uint8_t class_of[BLOCK_MOST / 128 + 8];
#endif
    page_t *current[CLASSES];
    page_t *partial[CLASSES];
} heap_t;

/* Unique to the thread; not volatile: the compiler may keep it. */
INLINE uintptr_t thread_token(void) {
    uintptr_t token;
    __asm__("movq %%fs:0, %0" : "=r"(token));
    return token;
}

/* One instruction that also sets the flag the branch needs. */
INLINE bool count_down(uint32_t *count) {
    bool zero;
    __asm__("decl %1" : "=@ccz"(zero), "+m"(*count) : : "memory");
    return zero;
}

INLINE size_t class_small(size_t bytes) { return (bytes + 15) >> 4; }

/* For 1024 < bytes <= 65536. With b = log2(bytes): eight steps of (8*bytes - 8) >> b a doubling. A
 * power of two 2^k is the top of the doubling below: floor(8 - 8/2^k) + 8k = 7 + 8k, which is
 * where 15 + 8(k-1) ends as well, so that log2(bytes - 1) is not needed. */
INLINE unsigned class_medium(size_t bytes) {
    unsigned b = 31u ^ (unsigned)__builtin_clz((unsigned)bytes);
    return ((8 * (unsigned)bytes - 8) >> b) + 8 * b;
}

static size_t class_bytes(size_t size_class) {
    if (size_class <= 64) return size_class * 16;
    size_t k = size_class - 88;
    return (k % 8 + 9) << (k / 8 + 7);
}

/* The fewest slices that hold four blocks and leave at most an eighth unused. */
static size_t class_slices(size_t block_bytes) {
    for (size_t slices = 1;; slices++) {
        size_t bytes = slices << SLICE_SHIFT;
        if (bytes / block_bytes >= 4 && bytes % block_bytes <= bytes / 8) return slices;
    }
}

/* ---- What a layout has to offer ---- */

/* A span for a page of so many slices; start and slices are set. NULL iff out of memory. */
static page_t *layout_take(size_t slices);

/* Takes a span back. */
static void layout_give(page_t *page);

/* ---- What sketch_heap.h offers to a layout ---- */

HIDDEN void sketch_slow(void *p, page_t *page);  /* p's owner word is not ours */
HIDDEN void sketch_event(void *p, page_t *page); /* live reached 0 */
HIDDEN void sketch_foreign(void *p);             /* NULL or not ours */

/* The part of free() that all layouts have in common. p goes first in every call, so that it stays
 * in its register. */
INLINE void free_into(page_t *page, void *p) {
    if (UNLIKELY(page->owner != thread_token())) {
        sketch_slow(p, page);
        return;
    }
    block_t *block = p;
    block->next = page->free;
    page->free = block;
    if (UNLIKELY(count_down(&page->live))) sketch_event(p, page);
}

#endif

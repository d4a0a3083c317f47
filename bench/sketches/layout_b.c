/* layout_b.c: one growing arena, descriptors in an array by slice.
 *
 *   slots    [ d0 | d1 (inner) | d2 | ... ]   128 B a slice
 *   slices   [ p0 ............ | p2 | ... ]   64 KiB each, from base upward
 *   slot     slots + ((p - base) >> 16) * 128, if that index is below the number of slices
 *
 * NULL and foreign pointers fail the bound, so that they need no test of their own. A slot
 * describes one slice: objects in later slices of a longer page go to the second tier.
 *
 * SKETCH_FULL=1 (layout B-full): the array covers all 47 bits of address, 256 GiB of zero pages, so
 * that neither subtraction nor bound is needed. The lower bound of what arithmetic can do, and of
 * no use where address space is limited (ulimit -v, strict overcommit) or has more than 47 bits.
 */
#include "sketch.h"

#define ARENA_BYTES ((size_t)16 << 30)
#if SKETCH_FULL
#define SLOTS ((size_t)1 << (47 - SLICE_SHIFT))
#else
#define SLOTS (ARENA_BYTES >> SLICE_SHIFT)
#endif

static struct {
    uintptr_t base;
    size_t slices; /* in use */
    page_t *slots;
} arena;
static page_t *spare[SLICES_MOST + 1];

static void *reserve(size_t bytes) {
    void *room = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room == MAP_FAILED ? NULL : room;
}

static bool arena_init(void) {
    char *room = reserve(ARENA_BYTES + SLICE_BYTES);
    arena.slots = reserve(SLOTS * sizeof(page_t));
    if (room == NULL || arena.slots == NULL) return false;
    arena.base = ((uintptr_t)room + SLICE_BYTES - 1) & ~(uintptr_t)(SLICE_BYTES - 1);
    return true;
}

/* The descriptor of a slice of ours, counted from base. */
static page_t *slot(size_t slice) {
#if SKETCH_FULL
    slice += arena.base >> SLICE_SHIFT;
#endif
    return &arena.slots[slice];
}

static page_t *layout_take(size_t slices) {
    page_t *page = spare[slices];
    if (page != NULL) {
        spare[slices] = page->next;
        return page;
    }
    if (arena.base == 0 && !arena_init()) return NULL;
    if (arena.slices + slices > ARENA_BYTES >> SLICE_SHIFT) return NULL;
    page = slot(arena.slices);
    page->start = (char *)arena.base + (arena.slices << SLICE_SHIFT);
    page->slices = (uint32_t)slices;
    for (size_t i = 1; i < slices; i++) {
        page[i].owner = OWNER_INNER;
        page[i].first = page;
    }
    arena.slices += slices;
    return page;
}

static void layout_give(page_t *page) {
    page->next = spare[page->slices];
    spare[page->slices] = page;
}

EXPORT void sketch_free(void *p) {
#if SKETCH_FULL
    free_into(&arena.slots[(uintptr_t)p >> SLICE_SHIFT], p);
#else
    size_t slice = ((uintptr_t)p - arena.base) >> SLICE_SHIFT;
    if (UNLIKELY(slice >= arena.slices)) {
        sketch_foreign(p);
        return;
    }
    free_into(&arena.slots[slice], p);
#endif
}

#include "sketch_heap.h"

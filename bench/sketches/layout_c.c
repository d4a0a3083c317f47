/* layout_c.c: one growing arena, and a map of pointers to descriptors by slice.
 *
 *   map      [ d0 | d0 | nobody | d3 | ... ]   8 B a slice
 *   slots    [ d0 |    |        | d3 | ... ]   128 B a slice
 *   slices   [ p0 .... | unused | p3 | ... ]   64 KiB each, from base upward
 *   page     map[(p - base) >> 16], if that index is below the number of slices
 *
 * Every slice of a longer page names the same descriptor: no second tier. One load more than an
 * array of slots, from a table so dense (a cache line for 512 KiB) that it stays in cache.
 *
 * SKETCH_LOW=1 (layout C-low): the arena starts at a low address and the map at address 0, so that
 * the subtraction goes. The map's part below base must be filled with nobody: 128 KiB of memory for
 * each GiB of base, and the heap's place is known within a few choices.
 */
#include "sketch.h"

#define ARENA_BYTES ((size_t)16 << 30)

static struct {
    uintptr_t base; /* of slice 0; 0 in C-low */
    size_t slices;  /* the map's length */
    page_t **map;
    page_t *slots;
} arena;
static page_t nobody;
static page_t *spare[SLICES_MOST + 1];

static void *reserve(void *where, size_t bytes) {
    int fixed = where == NULL ? 0 : MAP_FIXED_NOREPLACE;
    void *room = mmap(where, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);
    return room == MAP_FAILED ? NULL : room;
}

static bool arena_init(void) {
    char *room = NULL;
    size_t slices_before = 0;
#if SKETCH_LOW
    uintptr_t low = (uintptr_t)4 << 30;
    while (room == NULL && low <= (uintptr_t)64 << 30) {
        room = reserve((void *)low, ARENA_BYTES);
        low *= 2;
    }
    if (room == NULL) return false;
    slices_before = (uintptr_t)room >> SLICE_SHIFT;
#else
    room = reserve(NULL, ARENA_BYTES + SLICE_BYTES);
    if (room == NULL) return false;
    arena.base = ((uintptr_t)room + SLICE_BYTES - 1) & ~(uintptr_t)(SLICE_BYTES - 1);
#endif
    size_t slices_most = slices_before + (ARENA_BYTES >> SLICE_SHIFT);
    arena.map = reserve(NULL, slices_most * sizeof(page_t *));
    arena.slots = reserve(NULL, slices_most * sizeof(page_t));
    if (arena.map == NULL || arena.slots == NULL) return false;
    for (size_t i = 0; i < slices_before; i++) arena.map[i] = &nobody;
    arena.slices = slices_before;
    return true;
}

static page_t *layout_take(size_t slices) {
    page_t *page = spare[slices];
    if (page != NULL) {
        spare[slices] = page->next;
    } else {
        if (arena.map == NULL && !arena_init()) return NULL;
        page = &arena.slots[arena.slices];
        page->start = (char *)arena.base + (arena.slices << SLICE_SHIFT);
        page->slices = (uint32_t)slices;
        arena.slices += slices;
    }
    size_t first = (size_t)(page - arena.slots);
    for (size_t i = 0; i < slices; i++) arena.map[first + i] = page;
    return page;
}

static void layout_give(page_t *page) {
    size_t first = (size_t)(page - arena.slots);
    for (size_t i = 0; i < page->slices; i++) arena.map[first + i] = &nobody;
    page->next = spare[page->slices];
    spare[page->slices] = page;
}

EXPORT void sketch_free(void *p) {
#if SKETCH_LOW
    size_t slice = (uintptr_t)p >> SLICE_SHIFT;
#else
    size_t slice = ((uintptr_t)p - arena.base) >> SLICE_SHIFT;
#endif
    if (UNLIKELY(slice >= arena.slices)) {
        sketch_foreign(p);
        return;
    }
    free_into(arena.map[slice], p);
}

#include "sketch_heap.h"

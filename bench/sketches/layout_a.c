/* layout_a.c: regions of 256 MiB, descriptors at the region's base, found by arithmetic alone.
 *
 *   region   [ slots: 4096 x 128 B = 512 KiB | slice 8 | slice 9 | ... | slice 4095 ]  aligned to 256 MiB
 *   slot     (p & ~(256 MiB - 1)) + ((p >> 9) & 0x7ff80)
 *
 * No load but the slot itself. NULL needs a test of its own, and a pointer into nothing of ours
 * faults; with SKETCH_FOREIGN=1 (layout A2) a byte table by p >> 28 answers both.
 * A slot describes one slice, so that objects in later slices of a longer page go to the second
 * tier.
 */
#include "sketch.h"

#define REGION_BYTES ((uintptr_t)1 << 28)
enum { REGION_SLICES = 4096, SLOT_SLICES = 8 };

static char *region;
static size_t region_used = REGION_SLICES;
static page_t *spare[SLICES_MOST + 1];

#if SKETCH_FOREIGN
static uint8_t region_is_ours[1 << 19]; /* 47 bits of address */
#endif

INLINE page_t *slot_of(const void *p) {
    uintptr_t address = (uintptr_t)p;
    return (page_t *)((address & ~(REGION_BYTES - 1)) + ((address >> 9) & 0x7ff80));
}

static bool region_new(void) {
    char *room = mmap(NULL, 2 * REGION_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) return false;
    uintptr_t start = ((uintptr_t)room + REGION_BYTES - 1) & ~(REGION_BYTES - 1);
    char *end = room + 2 * REGION_BYTES;
    if ((uintptr_t)room < start) munmap(room, start - (uintptr_t)room);
    size_t after = (uintptr_t)end - start - REGION_BYTES;
    if (after != 0) munmap((char *)start + REGION_BYTES, after);
    region = (char *)start;
    region_used = SLOT_SLICES;
#if SKETCH_FOREIGN
    region_is_ours[start >> 28] = 1;
#endif
    return true;
}

static page_t *layout_take(size_t slices) {
    page_t *page = spare[slices];
    if (page != NULL) {
        spare[slices] = page->next;
        return page;
    }
    if (region_used + slices > REGION_SLICES && !region_new()) return NULL;
    char *start = region + (region_used << SLICE_SHIFT);
    region_used += slices;
    page = slot_of(start);
    page->start = start;
    page->slices = (uint32_t)slices;
    for (size_t i = 1; i < slices; i++) {
        page_t *inner = slot_of(start + (i << SLICE_SHIFT));
        inner->owner = OWNER_INNER;
        inner->first = page;
    }
    return page;
}

static void layout_give(page_t *page) {
    page->next = spare[page->slices];
    spare[page->slices] = page;
}

EXPORT void sketch_free(void *p) {
#if SKETCH_FOREIGN
    if (UNLIKELY(!region_is_ours[((uintptr_t)p >> 28)])) {
        sketch_foreign(p);
        return;
    }
#else
    if (UNLIKELY(p == NULL)) return;
#endif
    free_into(slot_of(p), p);
}

#include "sketch_heap.h"

/* clear.c: makes a large object zero whose memory may have been used before.
 *
 * A span counts as dirty once it was in use, however little of it was ever touched. A memset of it
 * would make all of it resident: 60 threads that calloc doubling sizes and free them would fill any
 * machine. So loam purges a part of which little is resident. The system fills it with zeros when
 * the program touches it:
 *
 *   below 256 KiB      memset
 *   up to 64 MiB       in parts of 2 MiB, by how much of each is resident:
 *                      at least half: memset; less: purge
 *   above              purge, without asking: to fill so much costs about as much either way
 *
 * To ask about 256 KiB takes a quarter of the time of a memset. So where the last few objects below
 * 1 MiB were in memory, only one in eight is asked about.
 *
 * Where the system takes nothing back, because memory is locked or a sandbox forbids it, all is
 * memset. It asks the system (mincore) only while the program has not shut itself in.
 */
#include "heap/core.h"

#include <string.h>

enum {
    ASK_LEAST = 256 << 10,
    ASK_EACH = 1 << 20, /* from here on, each object */
    ASK_MOST = 64 << 20,
    PART = 2 << 20,
    FULL_FEW = 4, /* objects in a row that were in memory */
    SELDOM = 8,
};

/* Atomic, relaxed: a number by itself. Objects below ASK_EACH in a row that were in memory, or that
 * were not asked about since. */
static uint32_t full;

static bool worth_asking(size_t bytes) {
    if (bytes < ASK_LEAST) return false;
    if (bytes >= ASK_EACH) return true;
    uint32_t row = lm_load_relaxed(&full);
    if (row < FULL_FEW || row % SELDOM == 0) return true;
    lm_store_relaxed(&full, row + 1);
    return false;
}

/* Whole pages of the system. Returns whether they were hardly in memory. */
static bool clear_part(char *at, size_t bytes, bool ask) {
    size_t pages = bytes / lm_os_page_bytes();
    bool sparse = !ask || lm_os_resident_pages(at, bytes) < pages / 2;
    if (!sparse || !lm_os_purge(at, bytes)) memset(at, 0, bytes);
    return sparse;
}

/* Returns whether a part was hardly in memory. */
static LM_COLD bool clear_asking(char *p, size_t bytes) {
    size_t page = lm_os_page_bytes();
    char *first = (char *)lm_align_up((uintptr_t)p, page),
         *end = (char *)lm_align_down((uintptr_t)(p + bytes), page);
    memset(p, 0, (size_t)(first - p));
    memset(end, 0, (size_t)(p + bytes - end));
    if (bytes > ASK_MOST) return clear_part(first, (size_t)(end - first), false);
    bool sparse = false;
    for (size_t part; first < end; first += part) {
        part = (size_t)(end - first) < PART ? (size_t)(end - first) : PART;
        sparse |= clear_part(first, part, true);
    }
    return sparse;
}

void *lm_clear_large(void *p, size_t bytes) {
    if (!worth_asking(bytes) || !lm_purge_allowed()) return memset(p, 0, bytes);
    bool sparse = clear_asking((char *)p, bytes);
    if (bytes < ASK_EACH) lm_store_relaxed(&full, sparse ? 0 : lm_load_relaxed(&full) + 1);
    return p;
}

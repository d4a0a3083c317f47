/* clear.c: makes a large object zero whose memory may have been used before.
 *
 * A span counts as dirty once it was in use, even if little of it was ever touched. A memset of the
 * span would make all of it resident: 60 threads that calloc doubling sizes and free them would
 * fill any machine. So loam purges a part of which little is resident. The system fills that part
 * with zeros when the program touches it:
 *
 *   below 256 KiB      memset
 *   up to 64 MiB       in parts of 2 MiB: memset if at least half of the part is resident,
 *                      otherwise purge
 *   above 64 MiB       purge without asking: filling so much costs about the same either way
 *
 * To ask about 256 KiB takes a quarter of the time of a memset. So if the last four objects below
 * 1 MiB were resident, loam asks about only one in eight.
 *
 * If the system takes no memory back, because it is locked or a sandbox forbids it, loam uses
 * memset. It cannot ask the system (mincore) once the program has entered a sandbox: then it uses
 * memset for everything.
 */
#include "heap/core.h"

#include <string.h>

enum {
    CLEAR_ASK_LEAST = 256 << 10, /* bytes of the smallest object that is asked about or purged */
    ASK_EACH = 1 << 20,          /* bytes from which on each object is asked about */
    CLEAR_ASK_MOST = 64 << 20,   /* bytes of the largest object that is asked about */
    PART = 2 << 20,              /* bytes that are asked about at a time */
    FULL_FEW = 4,                /* resident objects in a row after which fewer are asked about */
    SELDOM = 8,                  /* then one of so many objects is asked about */
};

/* Number of objects below ASK_EACH in a row that were resident, or that were not asked about since.
 * Atomic. Relaxed accesses are enough, because no other data depends on the number. */
static uint32_t full;

/* Returns whether to ask how much of an object is resident, or to purge it. */
static bool worth_asking(size_t bytes) {
    if (bytes < CLEAR_ASK_LEAST) return false;
    if (bytes >= ASK_EACH) return true;
    uint32_t row = lm_load_relaxed(&full);
    if (row < FULL_FEW || row % SELDOM == 0) return true;
    lm_store_relaxed(&full, row + 1);
    return false;
}

/* Clears whole pages of the system. If not `ask`, purges them without a look. Returns whether less
 * than half of them were resident, as far as was asked. */
static bool clear_part(char *at, size_t bytes, bool ask) {
    LM_ASSERT((uintptr_t)at % lm_os_page_bytes() == 0 && bytes % lm_os_page_bytes() == 0);
    size_t pages = bytes / lm_os_page_bytes();
    bool sparse = !ask || lm_os_resident_pages(at, bytes) < pages / 2;
    if (!sparse || !lm_os_purge(at, bytes)) memset(at, 0, bytes);
    return sparse;
}

/* Clears [p, p + bytes) by parts. Returns whether less than half of some part was resident. */
static LM_COLD bool clear_asking(char *p, size_t bytes) {
    size_t page = lm_os_page_bytes();
    char *first = (char *)lm_align_up((uintptr_t)p, page),
         *end = (char *)lm_align_down((uintptr_t)(p + bytes), page);
    LM_ASSERT(first <= end);
    memset(p, 0, (size_t)(first - p));
    memset(end, 0, (size_t)(p + bytes - end));
    if (bytes > CLEAR_ASK_MOST) return clear_part(first, (size_t)(end - first), false);
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

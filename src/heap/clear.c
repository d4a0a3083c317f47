/* clear.c: makes a large object zero whose memory may have been used before.
 *
 * A span counts as dirty once it was in use, however little of it was ever touched. A memset of it would make all
 * of it resident: 60 threads that calloc doubling sizes and free them would fill any machine. So what is hardly
 * in memory goes back to the system, which gives zeros when it is touched:
 *
 *   below 1 MiB        memset
 *   up to 64 MiB       in parts of 2 MiB, by how much of each is resident: at least half: memset; less: purge
 *   above              purge, without asking: to fill so much costs about as much either way
 *
 * Where the system takes nothing back, because memory is locked or a sandbox forbids it, all is memset. It asks
 * the system (mincore) only while the program has not shut itself in.
 */
#include "heap/room.h"

#include <string.h>

enum { ASK_LEAST = 1 << 20, ASK_MOST = 64 << 20, PART = 2 << 20 };

/* Whole pages of the system. */
static void clear_part(char *at, size_t bytes, bool ask) {
    size_t pages = bytes / lm_os_page_bytes();
    bool sparse = !ask || lm_os_resident_pages(at, bytes) < pages / 2;
    if (!sparse || !lm_os_purge(at, bytes)) memset(at, 0, bytes);
}

static LM_COLD void clear_sparse(char *p, size_t bytes) {
    size_t page = lm_os_page_bytes();
    char *first = (char *)lm_align_up((uintptr_t)p, page),
         *end = (char *)lm_align_down((uintptr_t)(p + bytes), page);
    memset(p, 0, (size_t)(first - p));
    memset(end, 0, (size_t)(p + bytes - end));
    if (bytes > ASK_MOST) {
        clear_part(first, (size_t)(end - first), false);
        return;
    }
    for (size_t part; first < end; first += part) {
        part = (size_t)(end - first) < PART ? (size_t)(end - first) : PART;
        clear_part(first, part, true);
    }
}

void *lm_clear_large(void *p, size_t bytes) {
    if (bytes < ASK_LEAST || !lm_purge_allowed()) return memset(p, 0, bytes);
    clear_sparse((char *)p, bytes);
    return p;
}

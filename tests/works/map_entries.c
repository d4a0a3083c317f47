/*
 * map_entries.c - thousands of vectors grow, and the process keeps few entries in its memory map.
 *
 * Catches: a realloc that moves pages instead of bytes (mremap) for each vector that cannot grow
 * where it is. Moved pages do not merge with their new neighbours: each vector is an entry of the
 * map then, and stays one after it is freed. A process may have 65530 entries by default; beyond,
 * every mmap, mprotect and munmap of the program fails, thread stacks included.
 *
 * The vectors are touched at both ends only, and what a copy makes resident is dropped at once, so
 * that the test needs addresses, and little memory.
 */
#include "works.h"

#include <sys/prctl.h>

#if LOAM_SECURE
enum { guard_entries = 2 * 16384 }; /* its guards have a limit of their own */
#else
enum { guard_entries = 0 };
#endif
enum { vectors = 9500, first_bytes = 270000, entries_most = 8192 + guard_entries };

static char *vector[vectors];

static int map_entries(void) {
    static char text[65536];
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC), entries = 0;
    CHECK(fd >= 0, "cannot open /proc/self/maps: %s", strerror(errno));
    for (ssize_t n; (n = read(fd, text, sizeof text)) > 0;)
        for (ssize_t i = 0; i < n; i++) entries += text[i] == '\n';
    close(fd);
    return entries;
}

/* Drops the whole pages strictly inside a vector: the ends stay, and with them the entry. */
static void drop_inside(char *block, size_t bytes) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)block + 2 * page) & ~(page - 1);
    uintptr_t to = ((uintptr_t)block + bytes - page) & ~(page - 1);
    CHECK(madvise((void *)from, to - from, MADV_DONTNEED) == 0, "madvise: %s", strerror(errno));
}

static void grow_all(size_t old_bytes, size_t bytes) {
    for (int i = 0; i < vectors; i++) {
        int at = (int)((unsigned)i * 7919u % vectors); /* in another order than they were made */
        char *moved = realloc(vector[at], bytes);
        if (!moved) SKIP("the system does not promise so many addresses: %s", strerror(errno));
        vector[at] = moved;
        CHECK(moved[0] == (char)at && (old_bytes == 0 || moved[old_bytes - 1] == (char)at),
              "vector %d has lost its contents at %zu bytes", at, bytes);
        moved[bytes - 1] = (char)at;
        drop_inside(moved, bytes);
    }
}

int main(void) {
    works_require_loam();
    works_limit(60);
    /* A huge page for each touched byte would need all the memory there is. */
    CHECK(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "prctl: %s", strerror(errno));
    for (int i = 0; i < vectors; i++) {
        vector[i] = malloc(first_bytes);
        if (!vector[i]) SKIP("the system does not promise so many addresses: %s", strerror(errno));
        vector[i][0] = vector[i][first_bytes - 1] = (char)i;
    }
    grow_all(first_bytes, first_bytes + first_bytes / 2);
    int grown = map_entries();
    for (int i = 0; i < vectors; i++) free(vector[i]);
    int freed = map_entries();
    CHECK(works_any_allocator() || (grown <= entries_most && freed <= entries_most),
          "%d vectors grew: the map has %d entries, and %d after they were freed", vectors, grown,
          freed);
    return 0;
}

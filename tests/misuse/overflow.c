/* overflow.c: what lies after a block is overwritten, by a loop of stores or by the memcpy family.
 *
 * The first byte that is written is the first that was not requested, or, where the case says so,
 * the first after what malloc_usable_size allows. Stopped: the process dies, at the latest in the
 * work after; the damaged block is freed first, and then those around it.
 */
#include "misuse.h"

static void by(size_t size, ptrdiff_t bytes) {
    spoil(neighbours(size) + size, bytes);
    neighbours_freed(size);
}

CASE(small_by_1, "one byte after a small block") { by(SMALL, 1); }
CASE(small_by_8, "8 bytes after a small block") { by(SMALL, 8); }
CASE(small_by_32, "32 bytes after a small block") { by(SMALL, 32); }
CASE(small_by_1_mib, "1 MiB after a small block") { by(SMALL, MIB); }
CASE(medium_by_1, "one byte after a medium block") { by(MEDIUM, 1); }
CASE(medium_by_32, "32 bytes after a medium block") { by(MEDIUM, 32); }
CASE(medium_by_1_mib, "1 MiB after a medium block") { by(MEDIUM, MIB); }
CASE(large_by_1, "one byte after a large block") { by(LARGE, 1); }
CASE(large_by_1_mib, "1 MiB after a large block") { by(LARGE, MIB); }
EXTRA(edge_by_1, "one byte after a block of 64: a size that is often a class of its own") {
    by(64, 1);
}
EXTRA(large_odd_by_1, "one byte after a block of 100000, which is no whole number of pages") {
    by(100000, 1);
}

/* All that the allocator allows is used, and then a byte more. */
static void usable_by_1(size_t size) {
    char *p = neighbours(size);
    spoil(p + malloc_usable_size(p), 1);
    neighbours_freed(size);
}

CASE(small_usable_by_1, "one byte after all that is usable of a small block") {
    usable_by_1(SMALL);
}

CASE(small_by_zero_byte, "the usable end of a small block gets a zero, as a string's end does") {
    char *p = neighbours(SMALL);
    hide(p)[malloc_usable_size(p)] = 0;
    neighbours_freed(SMALL);
}

/* By functions of the C library, which an allocator may replace by ones that look at the bounds. */
static char source[2 * MIB];

static void copied(size_t size, size_t bytes) {
    char *p = neighbours(size);
    memset(source, 0x42, sizeof(source));
    memcpy(hide(p), hide(source), size + bytes);
    neighbours_freed(size);
}

CASE(memcpy_small_by_1, "memcpy of one byte too many into a small block") { copied(SMALL, 1); }
CASE(memcpy_small_by_32, "memcpy of 32 bytes too many into a small block") { copied(SMALL, 32); }
CASE(memcpy_medium_by_8, "memcpy of 8 bytes too many into a medium block") { copied(MEDIUM, 8); }

CASE(memset_medium_by_1, "memset of one byte too many in a medium block") {
    char *p = neighbours(MEDIUM);
    memset(hide(p), 0x42, MEDIUM + 1);
    neighbours_freed(MEDIUM);
}

CASE(strcpy_small_by_1, "strcpy of a string as long as the block: its end is one too many") {
    char *p = neighbours(SMALL);
    memset(source, 'x', SMALL);
    source[SMALL] = 0;
    strcpy(hide(p), hide(source));
    neighbours_freed(SMALL);
}

/* ---- blocks from elsewhere, and who finds it ------------------------------------------------- */

static void damaged_by_1(char *p, size_t size) {
    if (p == NULL) not_set_up("no memory");
    expect(p);
    spoil(p + size, 1);
    free(hide(p));
    survived(size);
}

CASE(aligned_by_1, "one byte after a block that was aligned to 256") {
    void *p = NULL;
    if (posix_memalign(&p, 256, 300) != 0) not_set_up("posix_memalign gave no memory");
    damaged_by_1(p, 300);
}
EXTRA(calloc_by_1, "one byte after a block from calloc") { damaged_by_1(hide(calloc(10, 7)), 70); }
EXTRA(reallocated_by_1, "one byte after a block that realloc made") {
    damaged_by_1(hide(realloc(block(20), 90)), 90);
}

EXTRA(found_by_realloc, "two bytes after a small block, and realloc is the next to see it") {
    char *p = neighbours(SMALL);
    spoil(p + SMALL, 2);
    damaged_moved(hide(realloc(p, 5000)));
    neighbours_freed(SMALL);
}

static void *release(void *p) {
    expect(p);
    free(p);
    return NULL;
}

EXTRA(found_by_another_thread, "one byte after a small block, and another thread frees it") {
    char *p = block(SMALL);
    spoil(p + SMALL, 1);
    in_another_thread(release, p);
    survived(SMALL);
}

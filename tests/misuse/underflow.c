/* underflow.c: what lies before a block is overwritten, from the nearest byte downward.
 *
 * Stopped: the process dies, at the latest in the work after; the damaged block is freed first, and
 * then those around it.
 */
#include "misuse.h"

static void by(size_t size, ptrdiff_t bytes) {
    spoil(neighbours(size), -bytes);
    neighbours_freed(size);
}

CASE(small_by_1, "one byte before a small block") { by(SMALL, 1); }
CASE(small_by_8, "8 bytes before a small block") { by(SMALL, 8); }
CASE(small_by_32, "32 bytes before a small block") { by(SMALL, 32); }
CASE(small_by_1_mib, "1 MiB before a small block") { by(SMALL, MIB); }
CASE(medium_by_1, "one byte before a medium block") { by(MEDIUM, 1); }
CASE(medium_by_1_mib, "1 MiB before a medium block") { by(MEDIUM, MIB); }
CASE(large_by_1, "one byte before a large block") { by(LARGE, 1); }
CASE(large_by_1_mib, "1 MiB before a large block") { by(LARGE, MIB); }

static char source[4096];

CASE(memcpy_small_by_8, "memcpy to 8 bytes before a small block") {
    char *p = neighbours(SMALL);
    memset(source, 0x42, sizeof(source));
    memcpy(hide(p) - 8, hide(source), SMALL);
    neighbours_freed(SMALL);
}

CASE(memcpy_medium_by_32, "memcpy to 32 bytes before a medium block") {
    char *p = neighbours(MEDIUM);
    memset(source, 0x42, sizeof(source));
    memcpy(hide(p) - 32, hide(source), MEDIUM);
    neighbours_freed(MEDIUM);
}

/* One byte before the first block of its size, which is freed at once: most allocators have free
 * memory there. */
static void alone(size_t size, ptrdiff_t back) {
    char *p = block(size);
    expect(p);
    spoil(hide(p) - back, 1);
    free(hide(p));
    survived(size);
}

EXTRA(alone_by_1, "one byte before a block without neighbours") { alone(SMALL, 1); }
EXTRA(alone_at_9, "the 9th byte before a block without neighbours") { alone(SMALL, 9); }
EXTRA(alone_at_32, "the 32nd byte before a block without neighbours") { alone(SMALL, 32); }

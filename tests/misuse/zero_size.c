/* zero_size.c: a block of no bytes has none: what is read or written there is an overflow.
 *
 * Stopped: the process dies, for writes at the latest in the work after.
 */
#include "misuse.h"

static void written(char *p, ptrdiff_t bytes) {
    if (p == NULL) judged(false); /* nothing can be written there */
    expect(p);
    spoil(p, bytes);
    free(hide(p));
    survived(0);
}

CASE(write, "a byte is written to a block from malloc(0)") { written(hide(malloc(0)), 1); }
CASE(write_32, "32 bytes are written to a block from malloc(0)") { written(hide(malloc(0)), 32); }
CASE(calloc_write, "a byte is written to a block from calloc(16, 0)") {
    written(hide(calloc(16, 0)), 1);
}

CASE(read, "a byte is read from a block from malloc(0)") {
    volatile char *p = hide(malloc(0));
    expect((void *)p);
    if (p != NULL) (void)*p;
    judged(p != NULL);
}

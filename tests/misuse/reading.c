/* reading.c: what was in a block is read from where it should not be any more, or from past a
 * block's end.
 *
 * after_*: a block held a secret and was freed; prevented if no word of it can be read there.
 * fresh_*: blocks with a secret were freed; prevented if no new block holds a word of it.
 * beyond_*: bytes after a block are read; stopped if the process dies of it.
 */
#include "misuse.h"

static const uint64_t secret = 0x5ec2e75ec2e75ec2;

static void after(size_t size) {
    char *p = block(size);
    char *other = block(size);
    fill(p, size, secret);
    free(p);
    expect(p);
    bool read = holds(hide(p), size, secret);
    free(other);
    judged(read);
}

CASE(after_free_small, "the contents of a small block are read after its free") { after(64); }
CASE(after_free_large, "the contents of a large block are read after its free") { after(LARGE); }

CASE(after_realloc, "realloc has moved a block, and the old address is read") {
    char *p = block(64);
    fill(p, 64, secret);
    char *moved = hide(realloc(p, 5000));
    expect(p);
    judged(moved != hide(p) && holds(hide(p), 64, secret));
}

/* How the new blocks are made: of their size at once, or grown to it by realloc. */
static void fresh(size_t size, int count, bool grown) {
    static char *list[256];
    bool found = false;
    for (int i = 0; i < count; i++) fill(list[i] = block(size), size, secret);
    for (int i = 0; i < count; i++) free(list[i]);
    expect(list[0]);
    for (int i = 0; i < count; i++) {
        char *p = hide(grown ? realloc(block(16), size) : malloc(size));
        found = found || holds(p + 16, size - 16, secret);
    }
    judged(found);
}

CASE(fresh_small, "new small blocks hold what freed ones held") { fresh(64, 256, false); }
CASE(fresh_medium, "new medium blocks hold what freed ones held") { fresh(MEDIUM, 64, false); }
CASE(fresh_large, "new large blocks hold what freed ones held") { fresh(LARGE, 4, false); }
CASE(fresh_grown, "the new part of a block that realloc has grown holds what freed ones held") {
    fresh(256, 256, true);
}

static void beyond(size_t size, size_t bytes) {
    char *p = block(size);
    expect(p);
    volatile char *past = hide(p) + size;
    for (size_t i = 0; i < bytes; i++) (void)past[i];
    judged(true);
}

CASE(beyond_small, "64 KiB after a small block are read") { beyond(SMALL, 65536); }
CASE(beyond_large, "a page after a large block is read") { beyond(LARGE, 4096); }

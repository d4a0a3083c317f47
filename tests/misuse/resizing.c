/* resizing.c: realloc and malloc_usable_size are given what they should not be.
 *
 * Stopped: the process dies, at the latest in the work after; malloc_usable_size may as well say 0.
 */
#include "misuse.h"

static void of_freed(size_t size, size_t wanted) {
    char *p = block(size);
    free(p);
    expect(p);
    hide(realloc(hide(p), wanted));
    survived(size);
}

CASE(freed_small, "a freed small block is given to realloc, to grow") { of_freed(48, 5000); }
EXTRA(freed_same, "a freed small block is given to realloc, for the same size") {
    of_freed(48, 48);
}
CASE(freed_large, "a freed large block is given to realloc, to grow") {
    of_freed(LARGE, 3 * LARGE);
}

static void *mapped(void) {
    void *p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) not_set_up("mmap gave no memory");
    return p;
}

CASE(foreign, "memory from mmap is given to realloc") {
    void *p = mapped();
    expect(p);
    hide(realloc(hide(p), 100));
    survived(100);
}

static void inside(size_t at) {
    char *p = block(100);
    expect(p + at);
    hide(realloc(hide(p + at), 200));
    free(p);
    survived(100);
}

EXTRA(eight_bytes_in, "a pointer eight bytes into a block is given to realloc") { inside(8); }
CASE(sixteen_bytes_in, "a pointer 16 bytes into a block is given to realloc") { inside(16); }

CASE(stale_write, "realloc has moved a block, and the old address is written to") {
    char *p = block(48);
    char *moved = hide(realloc(p, 5000));
    expect(p);
    if (moved == hide(p)) judged(false); /* it has not: nothing is stale */
    spoil(hide(p), 8);
    free(moved);
    survived(48);
}

CASE(usable_of_freed, "malloc_usable_size is asked about a freed block") {
    char *p = block(48);
    free(p);
    expect(p);
    judged(malloc_usable_size(hide(p)) != 0);
}

CASE(usable_of_foreign, "malloc_usable_size is asked about memory from mmap") {
    char *p = (char *)mapped() + 4096;
    memset(p - 4096, 0x33, MIB);
    expect(p);
    judged(malloc_usable_size(hide(p)) != 0);
}

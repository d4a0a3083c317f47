/* no_mistake.c: no mistake at all: whatever the allocator, it has to end. */
#include "misuse.h"

static void *release(void *p) {
    free(p);
    return NULL;
}

EXTRA(none, "sizes and functions of all kinds, as documented; ends with 42, as what survives") {
    expect(NULL);
    for (size_t size = 0; size < 300000; size += 1 + size / 20) {
        char *p = block(size);
        memset(p, 0xff, malloc_usable_size(p));
        p = hide(realloc(p, size + 100));
        memset(p, 0xff, size + 100);
        in_another_thread(release, p);
        p = hide(memalign(512, size));
        memset(p, 0xff, size);
        free(p);
        free(hide(calloc(size, 3)));
        free(hide(realloc(block(size), 0)));
    }
    free(NULL);
    survived(48);
}

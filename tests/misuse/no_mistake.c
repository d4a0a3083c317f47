/* no_mistake.c: no mistake at all: nothing may be reported, whatever the build. */
#include "misuse.h"

static void *release(void *p) {
    free(p);
    return NULL;
}

int main(void) {
    expect(NULL);
    for (size_t size = 0; size < 300000; size += 1 + size / 20) {
        char *p = malloc(size);
        memset(p, 0xff, malloc_usable_size(p));
        p = realloc(p, size + 100);
        memset(p, 0xff, size + 100);
        in_another_thread(release, p);
        p = aligned_alloc(512, size);
        memset(p, 0xff, size);
        free(p);
        free(calloc(size, 3));
        free(realloc(malloc(size), 0));
    }
    free(NULL);
    return still_works();
}

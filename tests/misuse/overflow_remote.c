/* overflow_remote.c: one byte is written after a block, and another thread frees it. */
#include "misuse.h"

static void *release(void *p) {
    expect(p);
    free(p);
    return NULL;
}

int main(void) {
    char *p = malloc(40);
    memset((char *)hide(p) + 40, 1, 1);
    in_another_thread(release, p);
    return still_works();
}

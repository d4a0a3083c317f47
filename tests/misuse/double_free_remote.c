/* double_free_remote.c: another thread frees a block, then its owner does, too. */
#include "misuse.h"

static void *release(void *p) {
    free(p);
    return NULL;
}

int main(void) {
    void *p = malloc(48);
    in_another_thread(release, p);
    expect(p);
    free(hide(p));
    return still_works();
}

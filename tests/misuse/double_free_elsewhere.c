/* double_free_elsewhere.c: the owner frees a block, then another thread does, too. */
#include "misuse.h"

static void *release(void *p) {
    expect(p);
    free(p);
    return NULL;
}

int main(void) {
    void *p = malloc(48);
    free(hide(p));
    in_another_thread(release, hide(p));
    return still_works();
}

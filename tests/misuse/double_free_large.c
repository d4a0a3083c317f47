/* double_free_large.c: a large block is freed twice in a row. */
#include "misuse.h"

int main(void) {
    void *p = malloc(1 << 20);
    expect(p);
    free(hide(p));
    free(hide(p));
    return still_works();
}

/* double_free_small.c: a small block is freed twice in a row. */
#include "misuse.h"

int main(void) {
    void *p = malloc(48);
    expect(p);
    free(hide(p));
    free(hide(p));
    return still_works();
}

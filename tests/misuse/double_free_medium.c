/* double_free_medium.c: a block of 3000 bytes is freed twice in a row. */
#include "misuse.h"

int main(void) {
    void *p = malloc(3000);
    expect(p);
    free(hide(p));
    free(hide(p));
    return still_works();
}

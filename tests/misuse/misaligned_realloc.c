/* misaligned_realloc.c: a pointer into a block is given to realloc. */
#include "misuse.h"

int main(void) {
    char *p = malloc(100);
    expect(p + 8);
    hide(realloc(hide(p + 8), 200));
    free(p);
    return still_works();
}

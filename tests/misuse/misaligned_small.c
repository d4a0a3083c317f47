/* misaligned_small.c: a pointer into a small block is freed, one that malloc never returns. */
#include "misuse.h"

int main(void) {
    char *p = malloc(48);
    expect(p + 8);
    free(hide(p + 8));
    free(p);
    return still_works();
}

/* misaligned_inside.c: a pointer into a small block is freed, aligned as a block would be. */
#include "misuse.h"

int main(void) {
    char *p = malloc(100);
    expect(p + 16);
    free(hide(p + 16));
    free(p);
    return still_works();
}

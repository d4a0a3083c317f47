/* misaligned_medium.c: a pointer into a block of 3000 bytes is freed. */
#include "misuse.h"

int main(void) {
    char *p = malloc(3000);
    expect(p + 1024);
    free(hide(p + 1024));
    free(p);
    return still_works();
}

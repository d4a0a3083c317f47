/* misaligned_large.c: a pointer into a large block is freed, on a page boundary. */
#include "misuse.h"

int main(void) {
    char *p = malloc(1 << 20);
    expect(p + 4096);
    free(hide(p + 4096));
    free(p);
    return still_works();
}

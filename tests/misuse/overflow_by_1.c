/* overflow_by_1.c: one byte is written after a small block. */
#include "misuse.h"

int main(void) {
    char *p = malloc(40);
    expect(p);
    memset((char *)hide(p) + 40, 1, 1);
    free(p);
    return still_works();
}

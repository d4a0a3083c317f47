/* overflow_calloc.c: one byte is written after a block from calloc. */
#include "misuse.h"

int main(void) {
    char *p = calloc(10, 7);
    expect(p);
    memset((char *)hide(p) + 70, 1, 1);
    free(p);
    return still_works();
}

/* overflow_reallocated.c: one byte is written after a block that realloc made. */
#include "misuse.h"

int main(void) {
    char *p = realloc(hide(malloc(20)), 90);
    expect(p);
    memset((char *)hide(p) + 90, 1, 1);
    free(p);
    return still_works();
}

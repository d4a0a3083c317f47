/* overflow_large.c: one byte is written after a large block. */
#include "misuse.h"

int main(void) {
    char *p = malloc(100000);
    expect(p);
    memset((char *)hide(p) + 100000, 1, 1);
    free(p);
    return still_works();
}

/* overflow_medium.c: three bytes are written after a block of 3000. */
#include "misuse.h"

int main(void) {
    char *p = malloc(3000);
    expect(p);
    memset((char *)hide(p) + 3000, 1, 3);
    free(p);
    return still_works();
}

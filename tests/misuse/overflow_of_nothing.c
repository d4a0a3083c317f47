/* overflow_of_nothing.c: a byte is written to a block of none. */
#include "misuse.h"

int main(void) {
    char *p = malloc(0);
    expect(p);
    memset((char *)hide(p) + 0, 1, 1);
    free(p);
    return still_works();
}

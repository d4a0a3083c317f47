/* overflow_on_edge.c: one byte is written after a block whose size is a class of its own. */
#include "misuse.h"

int main(void) {
    char *p = malloc(64);
    expect(p);
    memset((char *)hide(p) + 64, 1, 1);
    free(p);
    return still_works();
}

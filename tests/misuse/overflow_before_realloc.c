/* overflow_before_realloc.c: two bytes are written after a block, and realloc is the next to see it. */
#include "misuse.h"

int main(void) {
    char *p = malloc(40);
    expect(p);
    memset((char *)hide(p) + 40, 1, 2);
    hide(realloc(p, 5000));
    return still_works();
}

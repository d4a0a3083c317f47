/* overflow_by_8.c: eight bytes are written after a small block. */
#include "misuse.h"

int main(void) {
    char *p = malloc(40);
    expect(p);
    memset((char *)hide(p) + 40, 1, 8);
    free(p);
    return still_works();
}

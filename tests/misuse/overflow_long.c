/* overflow_long.c: forty bytes are written after a small block, over its end. */
#include "misuse.h"

int main(void) {
    char *p = malloc(40);
    char *after = malloc(40);
    expect(p < after ? p : after);
    memset((char *)hide(p < after ? p : after) + 40, 1, 40);
    free(hide(p < after ? p : after));
    return still_works();
}

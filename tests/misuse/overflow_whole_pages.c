/* overflow_whole_pages.c: one byte is written after a large block of whole pages. */
#include "misuse.h"

int main(void) {
    char *p = malloc(1 << 20);
    expect(p);
    memset((char *)hide(p) + (1 << 20), 1, 1);
    free(p);
    return still_works();
}

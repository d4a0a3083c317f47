/* overflow_aligned.c: one byte is written after a block that was aligned to 256. */
#include "misuse.h"

int main(void) {
    char *p = aligned_alloc(256, 300);
    expect(p);
    memset((char *)hide(p) + 300, 1, 1);
    free(p);
    return still_works();
}

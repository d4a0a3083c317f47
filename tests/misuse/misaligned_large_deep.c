/* misaligned_large_deep.c: a pointer deep into a large block is freed, slices after its start. */
#include "misuse.h"

int main(void) {
    char *p = malloc(1 << 20);
    expect(p + 524288);
    free(hide(p + 524288));
    free(p);
    return still_works();
}

/* double_free_interleaved.c: a block is freed, then another, then the first again. */
#include "misuse.h"

int main(void) {
    void *p = malloc(48);
    void *other = malloc(48);
    expect(p);
    free(hide(p));
    free(hide(other));
    free(hide(p));
    return still_works();
}

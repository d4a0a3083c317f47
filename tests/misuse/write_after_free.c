/* write_after_free.c: a freed block is written to, over the link of the free list, then memory is asked for. */
#include "misuse.h"

int main(void) {
    char *p = malloc(48);
    char *other = malloc(48);
    free(hide(other));
    free(hide(p));
    expect(p);
    memset(hide(p), 0x41, 16);
    for (int i = 0; i < 20000; i++) hide(malloc(48));
    return still_works();
}

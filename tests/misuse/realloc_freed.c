/* realloc_freed.c: a freed block is given to realloc. */
#include "misuse.h"

int main(void) {
    void *p = malloc(48);
    expect(p);
    free(hide(p));
    hide(realloc(hide(p), 5000));
    return still_works();
}

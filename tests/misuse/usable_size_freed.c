/* usable_size_freed.c: malloc_usable_size is asked about a freed block. */
#include "misuse.h"

int main(void) {
    void *p = malloc(48);
    expect(p);
    free(hide(p));
    malloc_usable_size(hide(p));
    return still_works();
}

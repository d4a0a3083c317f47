/* double_free_sized.c: a block is freed, and then once more by C23's free_sized. */
#include "misuse.h"

void free_sized(void *p, size_t size); /* not in every C library's header yet */

int main(void) {
    void *p = malloc(200);
    expect(p);
    free(hide(p));
    free_sized(hide(p), 200);
    return still_works();
}

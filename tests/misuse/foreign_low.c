/* foreign_low.c: a small integer is freed as if it were a pointer. */
#include "misuse.h"

int main(void) {
    free(hide(malloc(100)));
    void *p = (void *)(uintptr_t)64;
    expect(p);
    free(hide(p));
    return still_works();
}

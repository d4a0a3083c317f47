/* foreign_high.c: an address is freed that no program can have. */
#include "misuse.h"

int main(void) {
    free(hide(malloc(100)));
    void *p = (void *)(uintptr_t)0xffffffffffff0000;
    expect(p);
    free(hide(p));
    return still_works();
}

/* foreign_far.c: an address is freed where nothing is mapped, far from everything. */
#include "misuse.h"

int main(void) {
    free(hide(malloc(100))); /* the heap exists */
    void *p = (void *)(uintptr_t)0x123456780000;
    expect(p);
    free(hide(p));
    return still_works();
}

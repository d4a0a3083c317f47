/* foreign_first.c: the very first call of the allocator is the free of a pointer that it never gave. */
#include "misuse.h"

int main(void) {
    static long aligned[4];
    void *p = (void *)((uintptr_t)aligned & ~(uintptr_t)15);
    expect(p);
    free(hide(p));
    return still_works();
}

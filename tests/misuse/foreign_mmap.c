/* foreign_mmap.c: memory from mmap is freed. */
#include "misuse.h"

int main(void) {
    void *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 2;
    expect(p);
    free(hide(p));
    return still_works();
}
